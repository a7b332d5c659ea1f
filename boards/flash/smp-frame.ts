/**
 * Packets of SMP on a line that carries text as well, as MCUmgr's console transport has them.
 *
 * A packet goes behind its length and in front of a CRC-16, in base64, in lines: the first begins
 * with 06 09, the others with 04 14. Any other line is text.
 *
 * Invariant: a frame is decoded when all of it is there, and dropped without a word where
 * its code, its length or its order is wrong, or 2 s pass inside it: clients ask again. No bytes,
 * in any pieces, make more of it than a packet, a line of text, or nothing; no line and no packet
 * grows beyond its limit.
 */

import { base64Bytes, base64Of, joined } from './bytes.ts'

/** Bytes of a packet, at the most: clients are told so. */
export const PACKET_BYTES_MAX = 4096
/** Bytes of a line that is read, at the most: some clients send a packet as one. */
const LINE_BYTES_MAX = 8192
/** Bytes that a line that is written carries: with the strictest client 127 characters. */
const CARRIED_BYTES = 93
const PATIENCE_MS = 2000

const NEWLINE = 10
const RETURN = 13
const CODE_BYTES = 2

/** CRC-16/XMODEM. */
export function crc16(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc & 0x8000 ? 0x11021 : 0)
  }
  return crc
}

/** The lines of a packet. */
export function writeFrame(packet: Uint8Array): Uint8Array {
  const whole = new Uint8Array(2 + packet.length + CODE_BYTES)
  const view = new DataView(whole.buffer)
  view.setUint16(0, packet.length + CODE_BYTES)
  whole.set(packet, 2)
  view.setUint16(2 + packet.length, crc16(packet))
  const lines: string[] = []
  for (let at = 0; at < whole.length; at += CARRIED_BYTES) {
    const text = base64Of(whole.subarray(at, at + CARRIED_BYTES))
    lines.push(`${at === 0 ? '\x06\x09' : '\x04\x14'}${text}\n`)
  }
  return new TextEncoder().encode(lines.join(''))
}

/** What came on the line: a packet, or a line of text without its end. */
type Came = { readonly packet: Uint8Array } | { readonly text: string }

export class FrameReader {
  private line: number[] = []
  private isTooLong = false
  /** Letters of base64 of the frame under way; null where there is none. */
  private letters: Uint8Array | null = null
  /** How many it has at the least, once that is known: before that none are decoded. */
  private wanted = 0
  private lastMs = 0

  /** What those bytes complete; `nowMs` may be any clock that goes on. */
  push(bytes: Uint8Array, nowMs: number): Came[] {
    if (nowMs - this.lastMs > PATIENCE_MS) this.letters = null
    this.lastMs = nowMs
    const came: Came[] = []
    for (const byte of bytes) {
      if (byte === RETURN) continue
      if (byte !== NEWLINE) {
        if (this.line.length < LINE_BYTES_MAX) this.line.push(byte)
        else this.isTooLong = true
        continue
      }
      const line = Uint8Array.from(this.line)
      const one = this.isTooLong ? null : this.takeLine(line)
      this.line = []
      this.isTooLong = false
      if (one !== null) came.push(one)
    }
    return came
  }

  private takeLine(line: Uint8Array): Came | null {
    const [first, second] = line
    const starts = first === 0x06 && second === 0x09
    if (!starts && !(first === 0x04 && second === 0x14)) {
      return line.length === 0 ? null : { text: new TextDecoder().decode(line) }
    }
    if (starts) [this.letters, this.wanted] = [new Uint8Array(), 0]
    if (this.letters === null) return null
    this.letters = joined([this.letters, line.subarray(2)])
    return this.letters.length < this.wanted ? null : this.takeFrame(base64Bytes(this.letters))
  }

  /** What has come of a frame: the packet, if that is all of it. */
  private takeFrame(bytes: Uint8Array): Came | null {
    if (bytes.length < 2) return null
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const end = 2 + view.getUint16(0)
    const packetEnd = end - CODE_BYTES
    if (packetEnd < 2 || packetEnd - 2 > PACKET_BYTES_MAX) {
      this.letters = null
      return null
    }
    this.wanted = Math.ceil((end * 4) / 3)
    if (bytes.length < end) return null
    this.letters = null
    const packet = bytes.slice(2, packetEnd)
    return crc16(packet) === view.getUint16(packetEnd) ? { packet } : null
  }
}
