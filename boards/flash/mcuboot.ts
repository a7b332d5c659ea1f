/**
 * The image format of MCUboot, signed with Ed25519 as its imgtool does it.
 *
 *    0  magic 96f3b83d     4  load address, 0    8  bytes of this header   10  of protected TLVs
 *   12  bytes of payload  16  flags, 0          20  version: 8, 8, 16, 32 bits   28  0
 *   32  payload, protected TLVs (6908) where there are some, TLVs (6907)
 *
 * Everything is little-endian. An area of TLVs is its magic, its length with these four bytes, and
 * entries of type (16 bits), length (16 bits) and value.
 *
 * Invariant: what is read was looked at to the last byte. The hash covers all in front of
 * the last area, and of that each entry is checked against it or against a key; so there is no bit
 * whose change is not refused, by `readImage` or by `checkSignature`.
 */

import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { hexOf, isSame, joined } from './bytes.ts'
import { ImageError } from './image-error.ts'

export const HEADER_BYTES = 32
/** Bytes of an image at the most: what a slot holds. */
export const IMAGE_BYTES_MAX: number = 16 << 20

const MAGIC = 0x96f3b83d
const HEADER_SIZE = 8
const PROTECTED_SIZE = 10
const PAYLOAD_SIZE = 12
const FLAGS = 16
const VERSION = 20

const PROTECTED_AREA = 0x6908
const AREA = 0x6907
const AREA_BYTES = 4
const ENTRY_BYTES = 4

export const SHA256_BYTES = 32

export const TLV_KEY_HASH = 0x01
const TLV_SHA256 = 0x10
const TLV_ED25519 = 0x24
export const TLV_SECURITY_COUNTER = 0x50

/** What an image has exactly once. */
const LENGTHS: ReadonlyMap<number, number> = new Map([
  [TLV_SHA256, SHA256_BYTES],
  [TLV_KEY_HASH, SHA256_BYTES],
  [TLV_ED25519, 64],
])

export interface Version {
  /** 0 to 255. */
  readonly major: number
  /** 0 to 255. */
  readonly minor: number
  /** 0 to 65535. */
  readonly revision: number
  /** 0 to 2^32 - 1. */
  readonly build: number
}

interface Tlv {
  readonly type: number
  readonly value: Uint8Array
}

export interface Image {
  readonly version: Version
  readonly payload: Uint8Array
  /** Covered by the hash. */
  readonly protectedTlvs: readonly Tlv[]
  readonly tlvs: readonly Tlv[]
  /** SHA-256 of header, payload and protected TLVs: the name of the image. */
  readonly hash: Uint8Array
}

export function sha256(...pieces: readonly Uint8Array[]): Uint8Array {
  const hash = createHash('sha256')
  for (const piece of pieces) hash.update(piece)
  return new Uint8Array(hash.digest())
}

/** SHA-256 of the key as SubjectPublicKeyInfo: by this an image names who has signed it. */
export function keyHash(key: KeyObject): Uint8Array {
  const open = key.type === 'public' ? key : createPublicKey(key)
  return sha256(new Uint8Array(open.export({ type: 'spki', format: 'der' })))
}

/** '1.2.3', or '1.2.3+4' where there is a build. */
export function versionText({ major, minor, revision, build }: Version): string {
  return `${major}.${minor}.${revision}${build === 0 ? '' : `+${build}`}`
}

/** The version that a text says, or null. */
export function versionOf(text: string): Version | null {
  const match = /^(\d+)\.(\d+)\.(\d+)(?:\+(\d+))?$/.exec(text)
  if (match === null) return null
  const [major, minor, revision, build] = match.slice(1).map((part) => Number(part ?? 0))
  const fits = major! < 2 ** 8 && minor! < 2 ** 8 && revision! < 2 ** 16 && build! < 2 ** 32
  return fits ? { major: major!, minor: minor!, revision: revision!, build: build! } : null
}

/** Makes an image, and signs it with a private Ed25519 key; the same bytes for the same input. */
export function writeImage(payload: Uint8Array, version: Version, key: KeyObject): Uint8Array {
  const header = new Uint8Array(HEADER_BYTES)
  const view = new DataView(header.buffer)
  view.setUint32(0, MAGIC, true)
  view.setUint16(HEADER_SIZE, HEADER_BYTES, true)
  view.setUint32(PAYLOAD_SIZE, payload.length, true)
  view.setUint8(VERSION, version.major)
  view.setUint8(VERSION + 1, version.minor)
  view.setUint16(VERSION + 2, version.revision, true)
  view.setUint32(VERSION + 4, version.build, true)
  const hash = sha256(header, payload)
  const area = writeArea([
    { type: TLV_SHA256, value: hash },
    { type: TLV_KEY_HASH, value: keyHash(key) },
    { type: TLV_ED25519, value: new Uint8Array(sign(null, hash, key)) },
  ])
  return joined([header, payload, area])
}

function writeArea(tlvs: readonly Tlv[]): Uint8Array {
  const entries = tlvs.map(({ type, value }) => joined([words(type, value.length), value]))
  const length = entries.reduce((sum, entry) => sum + entry.length, AREA_BYTES)
  return joined([words(AREA, length), ...entries])
}

/** Two numbers of 16 bits. */
function words(first: number, second: number): Uint8Array {
  const bytes = new Uint8Array(4)
  const view = new DataView(bytes.buffer)
  view.setUint16(0, first, true)
  view.setUint16(2, second, true)
  return bytes
}

/** The version that the header of an image says; null if none begins there. */
export function versionIn(header: Uint8Array): Version | null {
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength)
  return view.getUint32(0, true) === MAGIC ? readVersion(view) : null
}

function readVersion(view: DataView): Version {
  return {
    major: view.getUint8(VERSION),
    minor: view.getUint8(VERSION + 1),
    revision: view.getUint16(VERSION + 2, true),
    build: view.getUint32(VERSION + 4, true),
  }
}

/**
 * How many bytes an image has that begins a slot; `read` gives bytes of that slot. Null if none
 * begins there that ends within `most` bytes.
 */
export function imageLength(
  read: (at: number, length: number) => Uint8Array,
  most: number,
): number | null {
  const header = read(0, HEADER_BYTES)
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength)
  if (view.getUint32(0, true) !== MAGIC) return null
  const payloadEnd = view.getUint16(HEADER_SIZE, true) + view.getUint32(PAYLOAD_SIZE, true)
  const end = payloadEnd + view.getUint16(PROTECTED_SIZE, true)
  if (end + AREA_BYTES > most) return null
  const area = read(end, AREA_BYTES)
  const length = end + new DataView(area.buffer, area.byteOffset).getUint16(2, true)
  return length <= most ? length : null
}

/** Reads an image of which all bytes are there. Throws ImageError: its hash is right otherwise. */
export function readImage(bytes: Uint8Array): Image {
  if (bytes.length < HEADER_BYTES) {
    throw new ImageError('IMAGE_SHORT', `${bytes.length} bytes are no image`)
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.getUint32(0, true) !== MAGIC) {
    throw new ImageError('IMAGE_MAGIC', 'it does not begin as an image of MCUboot does')
  }
  const headerSize = view.getUint16(HEADER_SIZE, true)
  const protectedSize = view.getUint16(PROTECTED_SIZE, true)
  const flags = view.getUint32(FLAGS, true)
  const payloadEnd = headerSize + view.getUint32(PAYLOAD_SIZE, true)
  if (headerSize < HEADER_BYTES || payloadEnd > bytes.length) {
    const found = `a header of ${headerSize} bytes, and a payload up to ${payloadEnd}`
    throw new ImageError('IMAGE_HEADER', `${found}: the file has ${bytes.length}`)
  }
  if (flags !== 0) {
    const said = `flags 0x${flags.toString(16)}`
    throw new ImageError('IMAGE_HEADER', `${said}: no card takes packed or encrypted images`)
  }
  const end = payloadEnd + protectedSize
  const protectedTlvs = protectedSize === 0 ? [] : readArea(view, payloadEnd, PROTECTED_AREA, end)
  const tlvs = readArea(view, end, AREA, bytes.length)
  const hash = sha256(bytes.subarray(0, end))
  const payload = bytes.subarray(headerSize, payloadEnd)
  const image = { version: readVersion(view), payload, protectedTlvs, tlvs, hash }
  const said = tlvValue(image, TLV_SHA256)
  if (said === null) throw new ImageError('IMAGE_TLVS', 'it does not say its SHA-256')
  if (!isSame(said, hash)) {
    throw new ImageError('IMAGE_HASH', 'its SHA-256 differs from what it says: it is damaged')
  }
  return image
}

/** The entries of the area of that magic, which ends at `end`. */
function readArea(view: DataView, from: number, magic: number, end: number): Tlv[] {
  const wrong = (what: string): never => {
    throw new ImageError('IMAGE_TLVS', `the entries at byte ${from}: ${what}`)
  }
  if (from + AREA_BYTES > end || end > view.byteLength) return wrong('the file ends in them')
  const found = view.getUint16(from, true)
  if (found !== magic) wrong(`begin with 0x${found.toString(16)}, not 0x${magic.toString(16)}`)
  const length = view.getUint16(from + 2, true)
  if (from + length !== end) wrong(`have ${length} bytes, ${end - from} are theirs`)
  const tlvs: Tlv[] = []
  for (let at = from + AREA_BYTES; at < end; ) {
    if (at + ENTRY_BYTES > end) return wrong('the last one is cut short')
    const type = view.getUint16(at, true)
    const size = view.getUint16(at + 2, true)
    const valueAt = at + ENTRY_BYTES
    if (valueAt + size > end) return wrong(`that of type 0x${type.toString(16)} is cut short`)
    tlvs.push({ type, value: new Uint8Array(view.buffer, view.byteOffset + valueAt, size) })
    at = valueAt + size
  }
  checkEntries(tlvs, magic === AREA, wrong)
  return tlvs
}

/** What the hash does not cover is what is known, once, and of its length. */
function checkEntries(tlvs: readonly Tlv[], isLast: boolean, wrong: (what: string) => never): void {
  const seen = new Set<number>()
  for (const { type, value } of tlvs) {
    const name = `type 0x${type.toString(16)}`
    const length = LENGTHS.get(type)
    if (isLast && length === undefined) wrong(`${name} is not known here`)
    if (length !== undefined && value.length !== length) wrong(`${name} has ${value.length} bytes`)
    if (seen.has(type) && isLast) wrong(`${name} stands there twice`)
    seen.add(type)
  }
}

/** The value of that entry of the last area, or null. */
export function tlvValue({ tlvs }: Pick<Image, 'tlvs'>, type: number): Uint8Array | null {
  return tlvs.find((tlv) => tlv.type === type)?.value ?? null
}

/** Which of the trusted public keys has signed the image. Throws ImageError where none has. */
export function checkSignature(image: Image, trusted: readonly KeyObject[]): KeyObject {
  const name = tlvValue(image, TLV_KEY_HASH)
  const signature = tlvValue(image, TLV_ED25519)
  if (name === null || signature === null) {
    throw new ImageError('IMAGE_UNSIGNED', 'it is not signed')
  }
  const key = trusted.find((one) => isSame(keyHash(one), name))
  if (key === undefined) {
    const by = hexOf(name).slice(0, 12)
    throw new ImageError('IMAGE_KEY', `signed by the key ${by}, which is not trusted`)
  }
  if (!verify(null, image.hash, key, signature)) {
    throw new ImageError('IMAGE_SIGNATURE', 'its signature is not of the key that it names')
  }
  return key
}
