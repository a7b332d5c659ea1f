/**
 * Packet captures in the classic pcap format, with nanosecond timestamps (magic 0xa1b23c4d).
 *
 * The writer keeps what it is given, in memory or in a file, and never reorders. The reader takes
 * both byte orders and both resolutions, and says where a file ends early.
 */

import { BufferedFile } from '../base/buffered-file.ts'
import { PerdureError } from '../base/errors.ts'
import { BYTES, check, type Kind, TEXT } from '../base/kinds.ts'

const MAGIC_NANOSECONDS = 0xa1b23c4d
const MAGIC_MICROSECONDS = 0xa1b2c3d4
const FILE_HEADER_BYTES = 24
const RECORD_HEADER_BYTES = 16
const SNAP_LENGTH = 65535
const LINK_ETHERNET = 1

export interface CapturedFrame {
  /** Nanoseconds since the epoch, or since the capture began. */
  readonly timeNs: bigint
  readonly frame: Uint8Array
}

const TIME: Kind = {
  give: 'µs from 0 on',
  takes: (value) => Number.isFinite(value) && Number(value) >= 0,
}

/** Writes a capture. Close it to be sure that everything is in the file: it throws if it is not. */
export class PcapWriter {
  /** Frames so far. */
  count = 0
  private readonly out = new BufferedFile()

  /** With a path the capture goes to that file, which is replaced; without one it stays here. */
  constructor(path?: string) {
    if (path !== undefined) this.toFile(path)
    const header = Buffer.alloc(FILE_HEADER_BYTES)
    header.writeUInt32LE(MAGIC_NANOSECONDS, 0)
    header.writeUInt16LE(2, 4)
    header.writeUInt16LE(4, 6)
    header.writeUInt32LE(SNAP_LENGTH, 16)
    header.writeUInt32LE(LINK_ETHERNET, 20)
    this.out.write(header)
  }

  /** From now on the capture goes to that file, which is replaced: first what is here already. */
  toFile(path: string): void {
    check('path', path, TEXT)
    this.out.open(path)
  }

  /** Adds a frame at `timeUs`; the bytes are copied. */
  add(timeUs: number, frame: Uint8Array): void {
    check('a frame:', frame, BYTES)
    check('time', timeUs, TIME)
    const record = Buffer.allocUnsafe(RECORD_HEADER_BYTES + frame.length)
    const timeNs = Math.round(timeUs * 1000)
    record.writeUInt32LE(Math.floor(timeNs / 1e9) >>> 0, 0)
    record.writeUInt32LE(timeNs % 1e9, 4)
    record.writeUInt32LE(frame.length, 8)
    record.writeUInt32LE(frame.length, 12)
    record.set(frame, RECORD_HEADER_BYTES)
    this.count++
    this.out.write(record)
  }

  /** What has not gone to a file: without a path, the whole capture. */
  bytes(): Uint8Array {
    return this.out.waiting()
  }

  close(): void {
    this.out.close()
  }
}

/**
 * Reads a capture of Ethernet frames, which are views of `file`: it must not change meanwhile.
 * Throws PERDURE_IMAGE where the file is something else.
 */
export function* readPcap(file: Uint8Array): Generator<CapturedFrame> {
  check('a capture:', file, BYTES)
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength)
  if (file.length < FILE_HEADER_BYTES) throw badCapture('it is shorter than a header')
  const little = isMagic(view.getUint32(0, true))
  const magic = view.getUint32(0, little)
  if (!isMagic(magic)) throw badCapture('it does not begin like one (pcapng is not read)')
  if ((view.getUint32(20, little) & 0xffff) !== LINK_ETHERNET) throw badCapture('not Ethernet')
  const unitNs = magic === MAGIC_NANOSECONDS ? 1n : 1000n
  let at = FILE_HEADER_BYTES
  while (at < file.length) {
    if (at + RECORD_HEADER_BYTES > file.length) throw badCapture(`it ends inside a header at ${at}`)
    const seconds = BigInt(view.getUint32(at, little))
    const fraction = BigInt(view.getUint32(at + 4, little)) * unitNs
    const length = view.getUint32(at + 8, little)
    at += RECORD_HEADER_BYTES
    if (length > file.length - at) throw badCapture(`it ends inside a frame at ${at}`)
    yield { timeNs: seconds * 1_000_000_000n + fraction, frame: file.subarray(at, at + length) }
    at += length
  }
}

function isMagic(magic: number): boolean {
  return magic === MAGIC_NANOSECONDS || magic === MAGIC_MICROSECONDS
}

function badCapture(why: string): PerdureError {
  return new PerdureError('PERDURE_IMAGE', `not a capture that can be read: ${why}`)
}
