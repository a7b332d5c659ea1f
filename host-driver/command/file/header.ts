/**
 * What is kept of a file in front of its records: one record in the slot where the file begins. Its
 * content lies in the slots behind it, `record` bytes in each, and the rest in the last.
 *
 *    0       4       8      12      16
 *   +-------+-------+-------+-------+
 *   |     magic     |ver|sta| record|
 *   +-------+-------+-------+-------+
 *   |     length    |      zero     |
 *   +-------+-------+-------+-------+
 *   |                               |
 *   +     SHA-256 of the content    +
 *   |                               |
 *   +-------+-------+-------+-------+
 *
 * Numbers are little-endian; `ver` is 1; `sta` is 1 while the content is written, and 2 when all of
 * it is durable. In a region of records of one length zeros follow, and so they do behind the rest.
 *
 * Invariant: the header says that a file is under way before its first record is written,
 * and that it is whole when the last one is durable. So whoever finds it whole, after any cut, has
 * all of this content, unless somebody else has written into its slots: the SHA-256 tells that.
 */

import { CodedError } from '../../../boards/coded-error.ts'
import { ArgumentError } from '../../base/errors.ts'
import type { Region } from '../../records/region.ts'

const HEADER_BYTES = 64

const MAGIC = Buffer.from('\u0089PERDFL\n', 'latin1')
const VERSION = 1
const [VERSION_AT, STATE_AT, RECORD_AT, LENGTH_AT, SHA256_AT] = [8, 10, 12, 16, 32]

const UNDER_WAY = 1
const WHOLE = 2

/** What is kept of a file. */
export interface FileAbout {
  /** Bytes of content in each record but the last. */
  readonly recordBytes: number
  /** Bytes of all of it. */
  readonly length: number
  /** In hexadecimal. */
  readonly sha256: string
}

export interface Header extends FileAbout {
  /** All of it is durable; it is under way, else. */
  readonly isWhole: boolean
}

/** A file in a region cannot be given back; the code says why. */
export class StoredFileError extends CodedError<
  'FILE_NONE' | 'FILE_UNDER_WAY' | 'FILE_NEWER' | 'FILE_MIXED'
> {}

/** Throws ArgumentError where a record of the region has no room for a header. */
export function checkCapacity({ name, capacity }: Region): void {
  if (capacity >= HEADER_BYTES) return
  const what = `a record of '${name}' has at most ${capacity} bytes`
  const why = `what is kept of a file takes ${HEADER_BYTES}`
  throw new ArgumentError(`${what}, and ${why}: --raw persists without it`)
}

/** Records that the content has. */
export function recordsOf({ length, recordBytes }: FileAbout): number {
  return Math.ceil(length / recordBytes)
}

/** The bytes of a record: of a region of one length they are filled up by zeros. */
export function padded({ fixedLength, capacity }: Region, bytes: Uint8Array): Uint8Array {
  if (!fixedLength || bytes.length === capacity) return bytes
  const record = new Uint8Array(capacity)
  record.set(bytes)
  return record
}

/** The record that says it. */
export function headerRecord(region: Region, header: Header): Uint8Array {
  const bytes = Buffer.alloc(HEADER_BYTES)
  MAGIC.copy(bytes)
  bytes.writeUInt16LE(VERSION, VERSION_AT)
  bytes.writeUInt16LE(header.isWhole ? WHOLE : UNDER_WAY, STATE_AT)
  bytes.writeUInt32LE(header.recordBytes, RECORD_AT)
  bytes.writeBigUInt64LE(BigInt(header.length), LENGTH_AT)
  bytes.write(header.sha256, SHA256_AT, 'hex')
  return padded(region, bytes)
}

/** What stands in that slot of a file that begins there, or null. Throws FILE_NEWER. */
export async function readHeader(region: Region, slot: number): Promise<Header | null> {
  const { data, written } = await region.read(slot)
  const isHeader = data.length === (region.fixedLength ? region.capacity : HEADER_BYTES)
  if (!written || !isHeader || !MAGIC.equals(data.subarray(0, MAGIC.length))) return null
  const bytes = Buffer.from(data)
  const version = bytes.readUInt16LE(VERSION_AT)
  if (version !== VERSION) {
    const what = `the file at slot ${slot} of '${region.name}' is of version ${version}`
    throw new StoredFileError('FILE_NEWER', `${what}: read it with the version that wrote it`)
  }
  const state = bytes.readUInt16LE(STATE_AT)
  const header = {
    isWhole: state === WHOLE,
    recordBytes: bytes.readUInt32LE(RECORD_AT),
    length: Number(bytes.readBigUInt64LE(LENGTH_AT)),
    sha256: bytes.toString('hex', SHA256_AT, HEADER_BYTES),
  }
  return (state === WHOLE || state === UNDER_WAY) && fits(region, slot, header) ? header : null
}

/** Whether such a file can lie there: whatever stands in a record, nobody reads beyond the end. */
function fits(region: Region, slot: number, about: FileAbout): boolean {
  const { recordBytes, length } = about
  if (recordBytes < 1 || recordBytes > region.capacity || !Number.isSafeInteger(length))
    return false
  return recordsOf(about) < region.slots - slot
}
