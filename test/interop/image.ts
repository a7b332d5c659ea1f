/**
 * The guest's kernel and first root, made once from Debian's packages and kept in a cache.
 *
 * Invariants:
 * - The kernel and its modules are Debian's, bit for bit: unpacked, never changed. Beside its
 *   soft-RoCE module lies a mended one (mended.ts).
 * - The cache's key is a hash of everything that makes the image: these programs, the C clients,
 *   the guest's init. An image is there whole or not at all.
 * - Nothing is written into the work tree.
 */

import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { archive, type Entry } from '../../boards/tools/debian/cpio.ts'
import { hasModule, kernelVersion, moduleEntries } from '../../boards/tools/debian/kernel.ts'
import { run, Trouble } from '../../boards/tools/debian/programs.ts'
import { fetchGuest, type GuestFiles } from './debian.ts'
import { mendedModule } from './mended.ts'

/** Modules of the guest, each after what it needs; what they depend on is found in them. */
const MODULES = [
  ...['virtio_net', 'crc32_generic', 'rdma_rxe', 'rdma_ucm'],
  // Of NVDIMMs, for perdured in the guest.
  ...['nd_pmem', 'device_dax', 'dax_pmem', 'nfit', 'crc32c_generic', 'ext4'],
]

/** What protects a link below, and the ciphers of both. What a kernel has not is not tried. */
const PROTECTION = {
  MACsec: ['ctr', 'gcm', 'ghash_generic', 'macsec', 'bridge'],
  IPsec: ['ctr', 'gcm', 'ghash_generic', 'seqiv', 'esp4', 'xfrm_user', 'bridge'],
} as const

const LIBRARIES = 'usr/lib/x86_64-linux-gnu'

/** Folders in librpma's source. */
const FLUSH_EXAMPLE = '05-flush-to-persistent'
const ATOMIC_EXAMPLE = '07-atomic-write'

/** Files that make the image, besides everything in `guest/`. */
const SHARED = ['apt.ts', 'cpio.ts', 'kernel.ts', 'programs.ts']
const RECIPE = [
  'debian.ts',
  'image.ts',
  'mended.ts',
  ...SHARED.map((name) => `../../boards/tools/debian/${name}`),
]

export interface GuestImage {
  readonly kernel: string
  readonly root: string
  readonly versions: readonly string[]
  /** Whether librpma's examples are Debian's own; else why not. */
  readonly examples: true | string
  /** Of 'MACsec' and 'IPsec' those that the kernel has not. */
  readonly lacking: readonly string[]
  /** Whether it was in the cache. */
  readonly cached: boolean
}

const CACHE_PREFIX = 'interop-'

function cacheFolder(): string {
  const base = process.env.XDG_CACHE_HOME
  return join(base === undefined || base === '' ? join(homedir(), '.cache') : base, 'perdure')
}

function recipeHash(here: string): string {
  const guest = readdirSync(join(here, 'guest')).map((name) => `guest/${name}`)
  const hash = createHash('sha256')
  for (const path of [...RECIPE, ...guest.sort()]) {
    hash.update(`${path}\0`).update(readFileSync(join(here, path)))
  }
  hash.update(process.env.LIBRPMA_SOURCE ?? '')
  return hash.digest('hex').slice(0, 16)
}

/** Whether `guestImage` finds the image in the cache. `here` is the folder of the recipe. */
export function isCached(here: string): boolean {
  return existsSync(join(cacheFolder(), CACHE_PREFIX + recipeHash(here), 'about.json'))
}

/** The guest's image: from the cache, or made now. */
export function guestImage(here: string, say: (line: string) => void): GuestImage {
  const folder = join(cacheFolder(), CACHE_PREFIX + recipeHash(here))
  const cached = isCached(here)
  if (!cached) make(here, folder, say)
  const about = JSON.parse(readFileSync(join(folder, 'about.json'), 'utf8')) as {
    versions: string[]
    examples: true | string
    lacking: string[]
  }
  const paths = { kernel: join(folder, 'vmlinux'), root: join(folder, 'root.cpio') }
  return { ...paths, ...about, cached }
}

/** Makes an image aside and moves it into place; the images of other recipes go. */
function make(here: string, folder: string, say: (line: string) => void): void {
  const cache = cacheFolder()
  mkdirSync(cache, { recursive: true })
  const work = mkdtempSync(join(cache, 'making-'))
  const clear = (): void => rmSync(work, { recursive: true, force: true })
  process.once('exit', clear)
  try {
    const files = fetchGuest(work, say)
    const out = join(work, 'image')
    mkdirSync(out)
    say('compiling the clients')
    const compile = compiler(files.root, work)
    const clients = ownClients(join(here, 'guest'), compile)
    const examples = exampleClients(files.librpma, compile)
    say('packing the guest')
    const version = kernelVersion(files.root)
    const kernel = unpackKernel(readFileSync(join(files.root, `boot/vmlinuz-${version}`)))
    writeFileSync(join(out, 'vmlinux'), kernel)
    const { modules, lacking } = modulesOf(files.root)
    const root = [...baseEntries(here, files.root), ...modules, mendedEntry(modules)]
    const found = typeof examples === 'string' ? [] : examples
    writeFileSync(join(out, 'root.cpio'), archive([...root, ...clients, ...found]))
    const about = {
      versions: files.versions,
      examples: typeof examples === 'string' ? examples : true,
      lacking,
    }
    writeFileSync(join(out, 'about.json'), JSON.stringify(about))
    for (const name of readdirSync(cache)) {
      if (name.startsWith(CACHE_PREFIX)) rmSync(join(cache, name), { recursive: true, force: true })
    }
    renameSync(out, folder)
  } finally {
    process.off('exit', clear)
    clear()
  }
}

/**
 * The kernel as QEMU starts it directly (it has a PVH note): the payload of the bzImage, which
 * saves the guest its decompression (Linux, Documentation/arch/x86/boot.rst).
 */
function unpackKernel(image: Buffer): Buffer {
  const setupBytes = (image[0x1f1]! + 1) * 512
  const at = setupBytes + image.readUInt32LE(0x248)
  // The last four bytes of the payload are its length unpacked.
  const packed = image.subarray(at, at + image.readUInt32LE(0x24c) - 4)
  if (packed.readUInt32LE(0) === 0xfd2fb528) return run('zstd', ['-dc'], { input: packed })
  return run('xz', ['-dc', '--single-stream'], { input: packed })
}

/** busybox, the network tools, the C library and what the clients are linked with. */
function baseEntries(here: string, root: string): Entry[] {
  const read = (path: string): Uint8Array => readFileSync(join(root, path))
  const program = (path: string, from: string): Entry => ({
    path,
    content: read(from),
    executable: true,
  })
  const shared = readdirSync(join(root, LIBRARIES)).filter((name) => /\.so(\.\d+)*$/.test(name))
  const whole = shared.filter((name) => statSync(join(root, LIBRARIES, name)).isFile())
  return [
    { path: 'init', content: readFileSync(join(here, 'guest/init')), executable: true },
    { path: 'dev' },
    { path: 'proc' },
    { path: 'sys' },
    { path: 'tmp' },
    { path: 'bin/sh', link: 'busybox' },
    program('bin/busybox', 'usr/bin/busybox'),
    program('bin/ip', 'usr/bin/ip'),
    program('bin/rdma', 'usr/bin/rdma'),
    program('bin/mkfs.ext4', 'usr/sbin/mke2fs'),
    program('lib64/ld-linux-x86-64.so.2', `${LIBRARIES}/ld-linux-x86-64.so.2`),
    ...whole.filter(isNeeded).map((name) => program(`lib/${name}`, join(LIBRARIES, name))),
    program(`${LIBRARIES}/libibverbs/librxe-rdmav34.so`, rxeProvider(root)),
    { path: 'etc/libibverbs.d/rxe.driver', content: read('etc/libibverbs.d/rxe.driver') },
  ]
}

/** The modules, and what the kernel lacks. */
function modulesOf(root: string): { modules: Entry[]; lacking: string[] } {
  const kinds = Object.entries(PROTECTION)
  const there = kinds.filter(([, names]) => names.every((name) => hasModule(root, name)))
  const modules = moduleEntries(root, [...MODULES, ...there.flatMap(([, names]) => names)])
  const lacking = kinds.filter((kind) => !there.includes(kind)).map(([name]) => name)
  return { modules, lacking }
}

/** The soft-RoCE module once more, beside that of Debian. */
function mendedEntry(modules: readonly Entry[]): Entry {
  const rxe = modules.find(({ path }) => path === 'modules/rdma_rxe.ko')!
  return { path: 'modules/rdma_rxe-mended.ko', content: mendedModule(Buffer.from(rxe.content!)) }
}

const OF_MKFS = 'blkid|com_err|e2p|ext2fs|uuid'

/** Libraries by the names that programs ask for; drivers of real adapters stay out. */
function isNeeded(name: string): boolean {
  const tools = 'bpf|cap|elf|mnl|nl-3|nl-route-3|pcre2-8|selinux|z|zstd'
  const ours = `c|m|gcc_s|ibverbs|pthread|rdmacm|rpma|${tools}|${OF_MKFS}`
  return new RegExp(`^lib(${ours})\\.so\\.\\d+$`).test(name)
}

function rxeProvider(root: string): string {
  const folder = join(LIBRARIES, 'libibverbs')
  const name = readdirSync(join(root, folder)).find((file) => file.startsWith('librxe-'))
  if (name === undefined) throw new Trouble('ibverbs-providers has no provider for rxe')
  return join(folder, name)
}

/** Compiles a client from its sources. */
type Compiler = (name: string, sources: readonly string[], more: readonly string[]) => Entry

function compiler(root: string, work: string): Compiler {
  const flags = ['-std=gnu11', '-O1', '-I', join(root, 'usr/include'), '-L', join(root, LIBRARIES)]
  const libraries = ['-Wl,--allow-shlib-undefined', '-lrpma', '-libverbs', '-lrdmacm']
  return (name, sources, more) => {
    const out = join(work, name)
    run('gcc', [...flags, ...more, '-o', out, ...sources, ...libraries])
    return { path: `bin/${name}`, content: readFileSync(out), executable: true }
  }
}

function ownClients(guest: string, compile: Compiler): Entry[] {
  const strict = ['-Wall', '-Wextra', '-Werror']
  const sources = [
    'main',
    'endpoint',
    'operations',
    'refusals',
    'losses',
    'stream',
    'copies',
    'slot',
  ]
  const own = sources.map((name) => join(guest, `${name}.c`))
  return [
    compile('verbs-client', own, strict),
    compile('librpma-client', [join(guest, 'librpma-client.c')], strict),
  ]
}

/** librpma's examples 05 and 07 as they are, without libpmem; or why there are none. */
function exampleClients(librpma: GuestFiles['librpma'], compile: Compiler): Entry[] | string {
  if ('why' in librpma) return librpma.why
  const examples = join(librpma.source, 'examples')
  const common = join(examples, 'common')
  const include = ['-I', common]
  try {
    const names = readdirSync(common).filter((name) => /^common-(conn|utils|hello)\.c$/.test(name))
    const shared = names.map((name) => join(common, name))
    return [
      compile('librpma-05', [join(examples, FLUSH_EXAMPLE, 'client.c'), ...shared], include),
      compile('librpma-07', [join(examples, ATOMIC_EXAMPLE, 'client.c'), ...shared], include),
    ]
  } catch (error) {
    return `they could not be compiled: ${(error as Error).message}`
  }
}
