/**
 * `perdure image keygen | create | inspect | verify`: files that a card can be given, in the format
 * of MCUboot (boards/flash/).
 *
 * Invariant: the same input makes the same bytes. A file has its name when it is whole.
 */

import { sign } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import { joined } from '../../../boards/flash/bytes.ts'
import { type Opened, openImage, verifyImage } from '../../../boards/flash/check-image.ts'
import { ImageError, type ImageFault } from '../../../boards/flash/image-error.ts'
import {
  IMAGE_BYTES_MAX,
  keyHash,
  sha256,
  TLV_KEY_HASH,
  tlvValue,
  type Version,
  versionOf,
  versionText,
  writeImage,
} from '../../../boards/flash/mcuboot.ts'
import { HAL_BYTES, type PartKind, writePayload } from '../../../boards/flash/payload.ts'
import { halHeader } from '../../../boards/linux/hal-header.ts'
import { FORMAT_VERSION, PIECES_VERSION } from '../../../firmware/medium/superblock.ts'
import { ArgumentError, PerdureError } from '../../base/errors.ts'
import { several, wholeNumber } from '../base/arguments.ts'
import { intoFile, writeAll } from '../base/into-file.ts'
import { Output } from '../base/output.ts'
import { checkFile } from '../base/system-errors.ts'
import { bytesText, facts, table } from '../base/table.ts'
import {
  developmentKey,
  makeKey,
  publicPath,
  readSigningKey,
  readTrustedKey,
  shortHash,
} from './signing-key.ts'

/** As `perdured --board` names them; of the machines that are no cards with their architecture. */
const BOARDS = [
  ...['bluefield2', 'bluefield3', 'qemu-virt', 'linux-arm64', 'linux-x86-64', 'emulator'],
] as const

/** Of the runtime that a board runs; the emulator has its own. */
const ARCHITECTURES: Readonly<Record<string, string>> = {
  ...{ bluefield2: 'arm64', bluefield3: 'arm64', 'qemu-virt': 'arm64', 'linux-arm64': 'arm64' },
  'linux-x86-64': 'x86-64',
}

/** What is said of an image that has none. */
function withoutRuntime(arch: string): string {
  const build = `node build.mjs --board linux --arch ${arch}`
  return (
    'no runtime inside: it runs on the perdured that the card has, slower where that is of' +
    ` another firmware. '${build}' builds one, --runtime names one.`
  )
}

const COUNTER_MAX = 2 ** 32 - 1

/** What makes a bundle no good: it ends at its start, or never, or takes the part for damaged. */
const BROKEN = {
  crash: broken("throw new Error('broken on purpose')"),
  hang: broken('for (;;);'),
  selftest: broken('return start({ ...board, facts: { ...board.facts, nvdimmBytes: 8192 } })'),
} as const

function broken(body: string): Uint8Array {
  const text = `\n{ const { start } = perdure; perdure = { start(board) { ${body} } } }\n`
  return new TextEncoder().encode(text)
}

interface CreateOptions {
  readonly board: string
  readonly imageVersion?: Version
  readonly signingKey?: string
  readonly counter: number
  readonly bundle?: string
  readonly broken?: keyof typeof BROKEN
  readonly runtime?: string
  readonly bundleOnly?: boolean
  readonly out?: string
  readonly json?: boolean
}

/** `packageVersion` is that of an image unless another one is said. */
export function addImage(program: Command, packageVersion: string): void {
  const image = program.command('image').description('make firmware images, and look at them')
  image
    .command('keygen')
    .description('make a key that signs images')
    .argument('<file>', 'for the private key; the public one lies beside it')
    .option('--json', 'as one JSON object')
    .action((file: string, { json = false }: { json?: boolean }) => {
      keygen(new Output(json), file)
    })
  image
    .command('create')
    .description('make an image that a card can be given')
    .addOption(
      new Option('--board <board>', 'what it is for').choices(BOARDS).makeOptionMandatory(),
    )
    .option('--image-version <version>', `of the image; ${packageVersion} by default`, imageVersion)
    .option('--signing-key <file>', 'private key; one of your own by default')
    .option(
      '--counter <count>',
      'security counter: never raised, never refused',
      wholeNumber(0, COUNTER_MAX),
      0,
    )
    .option('--bundle <file>', 'the firmware; that of this package by default')
    .addOption(
      new Option('--broken <how>', 'for trying out how a card goes back').choices(
        Object.keys(BROKEN),
      ),
    )
    .option('--runtime <file>', 'perdured for that board; the one built here by default')
    .option('--bundle-only', 'without it: it runs on the perdured that the card has, slower')
    .option('--out <file>', 'where to; perdure-VERSION-BOARD.bin by default')
    .option('--json', 'as one JSON object')
    .action(async (options: CreateOptions) => {
      await create(new Output(options.json ?? false), options, versionOf(packageVersion)!)
    })
  image
    .command('inspect')
    .description('say what an image is; whom to trust is not asked')
    .argument('<file>')
    .option('--json', 'as one JSON object')
    .action((file: string, { json = false }: { json?: boolean }) => {
      tellImage(new Output(json), file, openFile(file))
    })
  image
    .command('verify')
    .description('check an image as a card does')
    .argument('<file>')
    .requiredOption('--trust <file>', 'a public key; may be given several times', several)
    .option('--json', 'as one JSON object')
    .action((file: string, { trust, json = false }: { trust: string[]; json?: boolean }) => {
      verifyFile(new Output(json), file, trust)
    })
}

function imageVersion(text: string): Version {
  const version = versionOf(text)
  if (version !== null) return version
  throw new InvalidArgumentError('major.minor.revision[+build], of 8, 8, 16 and 32 bits')
}

function keygen(output: Output, file: string): void {
  const hash = keyHash(makeKey(file))
  const paths = { privateKey: file, publicKey: publicPath(file) }
  if (output.json) {
    output.printJson({ keyHash: hex(hash), ...paths })
    return
  }
  output.print(`${shortHash(hash)}  ${file}  ${publicPath(file)}`)
  output.say(`${file} signs images: keep it. Give cards ${publicPath(file)} to trust.`)
}

async function create(
  output: Output,
  options: CreateOptions,
  packageVersion: Version,
): Promise<void> {
  const { board, counter, imageVersion: version = packageVersion } = options
  const key = readSigningKey(options.signingKey ?? developmentKey())
  const whole = bytesOf(options.bundle ?? findBundle().path)
  const bundle = options.broken === undefined ? whole : joined([whole, BROKEN[options.broken]])
  const contents: [PartKind, Uint8Array][] = [
    ['bundle', bundle],
    ['signature', new Uint8Array(sign(null, bundle, key))],
  ]
  const runtime = runtimeFor(options, bundle)
  if (runtime !== null) contents.push(['runtime', bytesOf(runtime)])
  const formats = [FORMAT_VERSION, PIECES_VERSION] as const
  const purpose = { counter, targets: [board], formats, hal: halOf() }
  const bytes = writeImage(writePayload(purpose, contents), version, key)
  if (bytes.length > IMAGE_BYTES_MAX) {
    const size = `the image has ${bytes.length} bytes, and a slot ${IMAGE_BYTES_MAX}`
    throw new PerdureError('PERDURE_IMAGE', `${size}: give a smaller bundle or runtime`)
  }
  const out = options.out ?? `perdure-${versionText(version)}-${board}.bin`
  await intoFile(out, (file) => writeAll(file, bytes))
  if (options.signingKey === undefined) {
    const path = developmentKey()
    output.say(`signed by ${path}: a card trusts it once it has ${publicPath(path)}`)
  }
  if (runtime !== null) output.say(`runtime ${runtime}`)
  else if (board in ARCHITECTURES) output.say(withoutRuntime(ARCHITECTURES[board]!))
  tellImage(output, out, { ...openImage(bytes), length: bytes.length })
}

/**
 * The file of the runtime that goes into the image; null for none. One that was translated from
 * another bundle would interpret this one: it is taken only where it is named. Throws
 * PERDURE_ARGUMENT where the options contradict each other.
 */
function runtimeFor(
  { board, runtime, bundleOnly = false }: CreateOptions,
  bundle: Uint8Array,
): string | null {
  if (bundleOnly && runtime !== undefined) {
    throw new ArgumentError('--bundle-only leaves out what --runtime names: say one of them')
  }
  if (runtime !== undefined) return runtime
  const arch = ARCHITECTURES[board]
  if (bundleOnly || arch === undefined) return null
  const built = join(dirname(findBundle().path), 'linux', arch, 'perdured')
  return existsSync(built) && isTranslated(bytesOf(built), bundle) ? built : null
}

/** A runtime names the bundle that it was translated from. */
function isTranslated(runtime: Uint8Array, bundle: Uint8Array): boolean {
  return Buffer.from(runtime).includes(hex(sha256(bundle)))
}

function bytesOf(path: string): Uint8Array {
  checkFile(path)
  return readFileSync(path)
}

/** What names the interface between bundle and runtime. */
export function halOf(): Uint8Array {
  return sha256(new TextEncoder().encode(halHeader())).subarray(0, HAL_BYTES)
}

interface OpenedFile extends Opened {
  readonly length: number
}

/** Reads an image and its manifest. Throws ImageError, and names the file. */
function openFile(file: string): OpenedFile {
  const bytes = bytesOf(file)
  return inFile(file, () => ({ ...openImage(bytes), length: bytes.length }))
}

const FETCH = 'Fetch it again, or create it again.'
const CREATE = "Name one that 'perdure image create' has made."

const ADVICE: Readonly<Record<ImageFault, string>> = {
  IMAGE_SHORT: CREATE,
  IMAGE_MAGIC: CREATE,
  IMAGE_HEADER: FETCH,
  IMAGE_TLVS: FETCH,
  IMAGE_HASH: FETCH,
  IMAGE_UNSIGNED: CREATE,
  IMAGE_KEY: 'Say --trust with the key of who has made it, if you trust them.',
  IMAGE_SIGNATURE: 'Do not use it: ask who has made it.',
  IMAGE_PAYLOAD: CREATE,
  IMAGE_PART: FETCH,
}

/** Names the file in what is wrong with an image, and says what to do. */
export function inFile<T>(file: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof ImageError)) throw error
    const { code, message } = error
    throw new ImageError(code, `${file}: ${message}. ${ADVICE[code]}`, { cause: error })
  }
}

function verifyFile(output: Output, file: string, trust: readonly string[]): void {
  const keys = trust.map(readTrustedKey)
  const opened = openFile(file)
  inFile(file, () => verifyImage(opened, keys))
  tellImage(output, file, opened)
}

function tellImage(output: Output, file: string, { image, payload, length }: OpenedFile): void {
  const { counter, targets, formats, hal, parts } = payload.manifest
  const name = tlvValue(image, TLV_KEY_HASH)
  const version = versionText(image.version)
  if (output.json) {
    const hashes = { hash: hex(image.hash), keyHash: name === null ? null : hex(name) }
    const purpose = { counter, targets, formats, hal: hex(hal) }
    const told = parts.map(({ sha, ...part }) => ({ ...part, sha: hex(sha) }))
    output.printJson({ file, version, length, ...hashes, ...purpose, parts: told })
    return
  }
  const lines = facts([
    ['image', `${version}  ${shortHash(image.hash)}`],
    ['bytes', `${length} (${bytesText(length)})`],
    ['signed by', name === null ? 'no key' : shortHash(name)],
    ['counter', counter],
    ['boards', targets.join(', ')],
    ['formats', formats[0] === formats[1] ? formats[0] : formats.join(' to ')],
    ['hal', hex(hal)],
  ])
  for (const line of lines) output.print(line)
  const rows = parts.map(({ kind, pack, packed, size, sha }) => {
    return [kind, pack, packed, size, shortHash(sha)]
  })
  for (const line of table(['part', 'packed by', 'packed', 'bytes', 'sha256'], rows)) {
    output.print(line)
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
