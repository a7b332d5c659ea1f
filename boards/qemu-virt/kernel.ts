/**
 * The kernel of the virtual machine: Debian's, with the modules that the board needs.
 *
 * Invariants:
 * - A kernel is fetched once for each list of modules and kept; a later start needs no network. The
 *   usual one has pages of 4 KiB, as most of arm64; one with 16 KiB is there to be tried.
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
import { privateApt } from '../tools/debian/apt.ts'
import { archive } from '../tools/debian/cpio.ts'
import { kernelPackage, kernelVersion, moduleEntries } from '../tools/debian/kernel.ts'
import { isThere, run, Trouble } from '../tools/debian/programs.ts'

/** The release of Debian that the kernel is of. */
const RELEASE = 'trixie'

/** By the bytes of their pages, in KiB: the package that leads to today's kernel. */
const PACKAGES = { 4: 'linux-image-cloud-arm64', 16: 'linux-image-arm64-16k' } as const

/** Pages that a kernel may have, KiB. */
export type PageKib = keyof typeof PACKAGES

/** Besides what they need: network, disk, persistent memory of the device tree, device-dax. */
const MODULES = ['virtio_net', 'virtio_blk', 'of_pmem', 'nd_pmem', 'device_dax', 'dax_pmem']

const PREFIX = 'kernel-'

export interface Kernel {
  /** Package and version. */
  readonly name: string
  /** The kernel as QEMU starts it. */
  readonly path: string
  /** Its modules: a whole archive of a first root, `modules/`. */
  readonly modules: string
  readonly pageKib: PageKib
  /** Whether it was there already. */
  readonly cached: boolean
}

function folderOf(cache: string, pageKib: PageKib): string {
  const recipe = JSON.stringify([RELEASE, PACKAGES[pageKib], MODULES])
  return join(cache, `${PREFIX}${createHash('sha256').update(recipe).digest('hex').slice(0, 12)}`)
}

/** Whether `fetchKernel` needs no network. */
export function hasKernel(cache: string, pageKib: PageKib = 4): boolean {
  return existsSync(join(folderOf(cache, pageKib), 'about.json'))
}

/** The kernel, from the folder `cache` or from Debian. Throws a Trouble for what is missing. */
export function fetchKernel(
  cache: string,
  say: (line: string) => void,
  pageKib: PageKib = 4,
): Kernel {
  const folder = folderOf(cache, pageKib)
  const cached = hasKernel(cache, pageKib)
  if (!cached) make(cache, pageKib, say)
  const { name } = JSON.parse(readFileSync(join(folder, 'about.json'), 'utf8')) as { name: string }
  const [path, modules] = [join(folder, 'Image'), join(folder, 'modules.cpio')]
  return { name, path, modules, pageKib, cached }
}

function make(cache: string, pageKib: PageKib, say: (line: string) => void): void {
  const wantedPackage = PACKAGES[pageKib]
  if (!isThere('apt-get')) {
    throw new Trouble(`the kernel is ${wantedPackage} of Debian ${RELEASE}: that takes apt-get`)
  }
  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, 'making-'))
  try {
    const apt = privateApt(work, { release: RELEASE, architecture: 'arm64' })
    say(`reading the package lists of ${RELEASE}, arm64`)
    apt('apt-get', ['update', '-qq'])
    const wanted = kernelPackage(apt, wantedPackage)
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
    forgetOthers(cache)
    try {
      renameSync(out, folderOf(cache, pageKib))
    } catch (error) {
      // Somebody may have made it meanwhile.
      if (!hasKernel(cache, pageKib)) throw error
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Kernels of older recipes are nobody's any more. */
function forgetOthers(cache: string): void {
  const ours = new Set(([4, 16] as const).map((pageKib) => basename(folderOf(cache, pageKib))))
  for (const entry of readdirSync(cache)) {
    if (!entry.startsWith(PREFIX) || ours.has(entry)) continue
    rmSync(join(cache, entry), { recursive: true, force: true })
  }
}
