/**
 * The kernel of the virtual machine: Debian's, with the modules that the board needs.
 *
 * What always holds:
 * - A kernel is fetched once for each list of modules and kept; a later start needs no network.
 * - What is kept is whole: it is made aside and moved into place.
 *
 * It has to be 6.12 or later: Debian's arm64 kernels before that have no device-dax.
 */

import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { privateApt } from '../debian/apt.ts'
import { archive } from '../debian/cpio.ts'
import { kernelPackage, kernelVersion, moduleEntries } from '../debian/kernel.ts'
import { isThere, run, Trouble } from '../debian/programs.ts'

/** The release of Debian that the kernel is of, and the package that leads to today's. */
const RELEASE = 'trixie'
const PACKAGE = 'linux-image-cloud-arm64'

/** Besides what they need themselves: network, persistent memory of the device tree, device-dax. */
const MODULES = ['virtio_net', 'of_pmem', 'nd_pmem', 'device_dax', 'dax_pmem']

const PREFIX = 'kernel-'

export interface Kernel {
  /** Package and version. */
  readonly name: string
  /** The kernel as QEMU starts it. */
  readonly path: string
  /** Its modules: a whole archive of a first root, `modules/`. */
  readonly modules: string
  /** Whether it was there already. */
  readonly cached: boolean
}

function folderOf(cache: string): string {
  const recipe = JSON.stringify([RELEASE, PACKAGE, MODULES])
  return join(cache, `${PREFIX}${createHash('sha256').update(recipe).digest('hex').slice(0, 12)}`)
}

/** Whether `fetchKernel` needs no network. */
export function hasKernel(cache: string): boolean {
  return existsSync(join(folderOf(cache), 'about.json'))
}

/** The kernel, from the folder `cache` or from Debian. Throws a Trouble for what is missing. */
export function fetchKernel(cache: string, say: (line: string) => void): Kernel {
  const folder = folderOf(cache)
  const cached = hasKernel(cache)
  if (!cached) make(cache, folder, say)
  const { name } = JSON.parse(readFileSync(join(folder, 'about.json'), 'utf8')) as { name: string }
  return { name, path: join(folder, 'Image'), modules: join(folder, 'modules.cpio'), cached }
}

function make(cache: string, folder: string, say: (line: string) => void): void {
  if (!isThere('apt-get')) {
    throw new Trouble(`the kernel is ${PACKAGE} of Debian ${RELEASE}: that takes apt-get`)
  }
  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, 'making-'))
  try {
    const apt = privateApt(work, { release: RELEASE, architecture: 'arm64' })
    say(`reading the package lists of ${RELEASE}, arm64`)
    apt('apt-get', ['update', '-qq'])
    const wanted = kernelPackage(apt, PACKAGE)
    say(`fetching ${wanted}`)
    apt('apt-get', ['download', '-qq', wanted])
    const packed = readdirSync(work).find((file) => file.endsWith('.deb'))
    if (packed === undefined) throw new Trouble(`${wanted} was not fetched`)
    const root = join(work, 'root')
    mkdirSync(root)
    run('dpkg-deb', ['-x', join(work, packed), root])
    const out = join(work, 'kernel')
    mkdirSync(out)
    copyFileSync(join(root, `boot/vmlinuz-${kernelVersion(root)}`), join(out, 'Image'))
    writeFileSync(join(out, 'modules.cpio'), archive(moduleEntries(root, MODULES)))
    const [name, version] = packed.split('_')
    const about = { name: `${name} ${decodeURIComponent(version ?? '')}` }
    writeFileSync(join(out, 'about.json'), JSON.stringify(about))
    const old = readdirSync(cache).filter((entry) => entry.startsWith(PREFIX))
    for (const entry of old) {
      // Somebody may have made the same meanwhile, and use it.
      if (entry !== basename(folder)) rmSync(join(cache, entry), { recursive: true, force: true })
    }
    try {
      renameSync(out, folder)
    } catch (error) {
      // Somebody may have made it meanwhile.
      if (!hasKernel(cache)) throw error
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}
