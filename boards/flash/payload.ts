/**
 * The payload of an image: what a card runs, and a manifest that says what it is for.
 *
 *    0   8  "PERDIMG1"
 *    8   4  bytes of the manifest, little-endian
 *   12   …  manifest: a map of CBOR (RFC 8949) in the one form that 4.2 has for it
 *    …   …  parts, one behind the other
 *
 * The manifest is in the payload, which the signature covers: in MCUboot's protected TLVs older
 * clients would refuse the file.
 *
 * Invariant: a manifest is taken in the one form in which it is written, so nothing in it
 * stands twice, and nothing that is not known; the parts cover the payload to its last byte; a part
 * that is handed out has the SHA-256 that the manifest says, and no more bytes are unpacked than it
 * says either.
 */

import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { decode, encode } from 'cbor2'
import { isSame, joined } from './bytes.ts'
import { ImageError } from './image-error.ts'
import { sha256 } from './mcuboot.ts'

const MAGIC = new TextEncoder().encode('PERDIMG1')
const MANIFEST_AT = 12
/** Bytes of a manifest at the most. */
export const MANIFEST_BYTES_MAX = 4096
/** Bytes of a part when it is unpacked, at the most. */
export const PART_BYTES_MAX: number = 64 << 20
/** Bytes of the name of a board at the most, and boards of an image. */
const TARGET_BYTES_MAX = 32
const TARGETS_MAX = 16

const SHA256_BYTES = 32
/** Bytes of what names the interface between firmware and board. */
export const HAL_BYTES = 8

const PART_KINDS = ['bundle', 'signature', 'runtime'] as const
export type PartKind = (typeof PART_KINDS)[number]

const PACKS = ['none', 'brotli'] as const

export interface Part {
  readonly kind: PartKind
  readonly pack: (typeof PACKS)[number]
  /** Bytes behind the manifest. */
  readonly at: number
  /** Bytes there. */
  readonly packed: number
  /** Bytes when it is unpacked. */
  readonly size: number
  /** SHA-256 of the unpacked bytes. */
  readonly sha: Uint8Array
}

/** What an image is for. */
interface Purpose {
  /** Security counter, 0 to 2^32 - 1: a card that has a later one refuses it. */
  readonly counter: number
  /** Names of the boards that it is made for. */
  readonly targets: readonly string[]
  /** The oldest and the newest format of an NVDIMM that it can work in. */
  readonly formats: readonly [oldest: number, newest: number]
  /** The first bytes of the SHA-256 of hal.h: a bundle needs a runtime of the same. */
  readonly hal: Uint8Array
}

interface Manifest extends Purpose {
  readonly parts: readonly Part[]
}

export interface Payload {
  readonly manifest: Manifest
  /** What stands behind the manifest. */
  readonly content: Uint8Array
}

/** The bytes of a payload. Parts are packed where that makes them smaller. */
export function writePayload(
  { counter, targets, formats, hal }: Purpose,
  contents: readonly (readonly [PartKind, Uint8Array])[],
): Uint8Array {
  const parts: Part[] = []
  const pieces: Uint8Array[] = []
  let at = 0
  for (const [kind, bytes] of contents) {
    const small = packed(bytes)
    const pack = small.length < bytes.length ? 'brotli' : 'none'
    const piece = pack === 'brotli' ? small : bytes
    parts.push({ kind, pack, at, packed: piece.length, size: bytes.length, sha: sha256(bytes) })
    pieces.push(piece)
    at += piece.length
  }
  const manifest = encoded({ counter, targets, formats, hal, parts })
  const length = new Uint8Array(4)
  new DataView(length.buffer).setUint32(0, manifest.length, true)
  return joined([MAGIC, length, manifest, ...pieces])
}

function packed(bytes: Uint8Array): Uint8Array {
  const { BROTLI_PARAM_SIZE_HINT, BROTLI_PARAM_LGWIN, BROTLI_MAX_WINDOW_BITS } = constants
  const params = {
    [BROTLI_PARAM_SIZE_HINT]: bytes.length,
    [BROTLI_PARAM_LGWIN]: BROTLI_MAX_WINDOW_BITS,
  }
  return new Uint8Array(brotliCompressSync(bytes, { params }))
}

/** The one form. */
function encoded({ counter, targets, formats, hal, parts }: Manifest): Uint8Array {
  const whole = {
    ...{ counter, targets: [...targets], formats: [...formats], hal },
    parts: parts.map(({ kind, pack, at, packed, size, sha }) => {
      return { kind, pack, at, packed, size, sha }
    }),
  }
  return encode(whole, { cde: true })
}

/** Reads a payload of which all bytes are there. Throws ImageError. */
export function readPayload(payload: Uint8Array): Payload {
  if (payload.length < MANIFEST_AT || MAGIC.some((byte, i) => payload[i] !== byte)) {
    throw wrong('it is none of Perdure: it does not begin with PERDIMG1')
  }
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength)
  const length = view.getUint32(MAGIC.length, true)
  if (length > MANIFEST_BYTES_MAX || MANIFEST_AT + length > payload.length) {
    throw wrong(`a manifest of ${length} bytes: at most ${MANIFEST_BYTES_MAX}, all of them there`)
  }
  const bytes = payload.subarray(MANIFEST_AT, MANIFEST_AT + length)
  const manifest = manifestOf(bytes)
  if (!isSame(encoded(manifest), bytes)) {
    throw wrong('its manifest is not in the one form, or says what is not known here')
  }
  const content = payload.subarray(MANIFEST_AT + length)
  checkPlaces(manifest.parts, content.length)
  return { manifest, content }
}

function wrong(what: string, options?: ErrorOptions): ImageError {
  return new ImageError('IMAGE_PAYLOAD', what, options)
}

function manifestOf(bytes: Uint8Array): Manifest {
  let found: unknown
  try {
    found = decode(bytes, { cde: true, maxDepth: 4 })
  } catch (cause) {
    throw wrong('its manifest is not CBOR', { cause })
  }
  const { counter, targets, formats, hal, parts } = fieldsOf(found)
  if (!isCount(counter, 2 ** 32 - 1)) throw wrong('its manifest has no counter of 32 bits')
  if (!isList(targets, 1, TARGETS_MAX) || !targets.every(isTarget)) {
    throw wrong(`its manifest names no boards, 1 to ${TARGETS_MAX}`)
  }
  if (!isRange(formats)) throw wrong('its manifest has no formats, the oldest and the newest')
  if (!isBytes(hal, HAL_BYTES)) throw wrong(`its manifest has no hal of ${HAL_BYTES} bytes`)
  if (!isList(parts, 1, PART_KINDS.length)) throw wrong('its manifest names no parts')
  return { counter, targets, formats, hal: plain(hal), parts: parts.map(partOf) }
}

function partOf(found: unknown): Part {
  const { kind, pack, at, packed, size, sha } = fieldsOf(found)
  const isKnown = PART_KINDS.includes(kind as PartKind) && PACKS.includes(pack as Part['pack'])
  if (!isKnown) throw wrong('its manifest names a part of another kind, or packed otherwise')
  const fits = isCount(at, PART_BYTES_MAX) && isCount(packed, PART_BYTES_MAX)
  if (!fits || !isCount(size, PART_BYTES_MAX) || !isBytes(sha, SHA256_BYTES)) {
    throw wrong(`its manifest gives no place, sizes and SHA-256 of its ${String(kind)}`)
  }
  const [knownKind, knownPack] = [kind as PartKind, pack as Part['pack']]
  return { kind: knownKind, pack: knownPack, at, packed, size, sha: plain(sha) }
}

/** The fields of what may be a map. */
function fieldsOf(found: unknown): Readonly<Record<string, unknown>> {
  return typeof found === 'object' && found !== null ? { ...found } : {}
}

function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= most
}

function isList(value: unknown, least: number, most: number): value is unknown[] {
  return Array.isArray(value) && value.length >= least && value.length <= most
}

function isTarget(value: unknown): value is string {
  return typeof value === 'string' && /^[a-z0-9-]+$/.test(value) && value.length <= TARGET_BYTES_MAX
}

function isRange(value: unknown): value is [number, number] {
  if (!isList(value, 2, 2)) return false
  const [oldest, newest] = value
  return isCount(oldest, 255) && isCount(newest, 255) && oldest <= newest
}

function isBytes(value: unknown, length: number): value is Uint8Array {
  return value instanceof Uint8Array && value.length === length
}

/** Bytes that were read from a Buffer are Buffers, which are written otherwise. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes)
}

/** One behind the other, each kind once, a bundle among them, and nothing left. */
function checkPlaces(parts: readonly Part[], length: number): void {
  let end = 0
  for (const { kind, at, packed } of parts) {
    if (at !== end) throw wrong(`its ${kind} begins at byte ${at}, not at ${end}`)
    end += packed
  }
  if (end !== length) throw wrong(`its parts have ${end} bytes, and ${length} follow its manifest`)
  const kinds = new Set(parts.map(({ kind }) => kind))
  if (kinds.size !== parts.length) throw wrong('it has two parts of a kind')
  if (!kinds.has('bundle')) throw wrong('it has no bundle')
}

/** The bytes of a part, unpacked; null if there is none of that kind. Throws ImageError. */
export function readPart({ manifest, content }: Payload, kind: PartKind): Uint8Array | null {
  const part = manifest.parts.find((one) => one.kind === kind)
  if (part === undefined) return null
  const piece = content.subarray(part.at, part.at + part.packed)
  const bytes = part.pack === 'none' ? piece : unpacked(piece, part)
  if (bytes.length !== part.size || !isSame(sha256(bytes), part.sha)) {
    throw new ImageError('IMAGE_PART', `its ${kind} is not what its manifest says`)
  }
  return bytes
}

function unpacked(piece: Uint8Array, { kind, size }: Part): Uint8Array {
  try {
    // One byte at least: zlib takes 0 for no limit.
    return new Uint8Array(brotliDecompressSync(piece, { maxOutputLength: Math.max(size, 1) }))
  } catch (cause) {
    throw new ImageError('IMAGE_PART', `its ${kind} cannot be unpacked`, { cause })
  }
}
