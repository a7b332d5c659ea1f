/**
 * A tape: what a board did to a firmware, from its power-on, and what the firmware handed over.
 *
 * Invariant: a tape says all that the firmware could see, so that it can be played again
 * without the board, the medium or the network; and of each command list, and of every byte of
 * packet memory that the list names, a hash, so that a player that differs is found at once.
 *
 *   numbers                       bytes            when
 *   WRITE  at length              what is there    packet memory as the board left it
 *   SERVE  count now                               the board calls
 *   IDLE   now
 *   RUN    count hash done        result of each   the firmware runs a list
 *   OUT    hash                                    behind the writes of that list
 *   BACK   value                                   the call returns
 */

import {
  CHECK,
  COMMAND_WORDS,
  COMMANDS_AT,
  COPY,
  COPY_CLEAN,
  type Facts,
  FROM,
  LENGTH,
  OP,
  RECEIVED_AT,
  RESULT,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { COMMANDS_MAX } from '../../../firmware/board/limits.ts'

export const WRITE = 1
export const SERVE = 2
export const IDLE = 3
export const RUN = 4
export const OUT = 5
export const BACK = 6

/** A tape that is as long as this is not continued. */
const NUMBERS_MAX = 1 << 21
const BYTES_MAX = 1 << 25

export class Tape {
  numbers: Float64Array = new Float64Array(256)
  bytes: Uint8Array = new Uint8Array(1024)
  count = 0
  length = 0

  get isFull(): boolean {
    return this.count > NUMBERS_MAX || this.length > BYTES_MAX
  }

  put(number: number): void {
    if (this.count === this.numbers.length) {
      const more = new Float64Array(2 * this.count)
      more.set(this.numbers)
      this.numbers = more
    }
    this.numbers[this.count++] = number
  }

  /** Says what lies in packet memory there. */
  write(packets: Uint8Array, at: number, length: number): void {
    if (length === 0) return
    this.put(WRITE)
    this.put(at)
    this.put(length)
    this.copy(packets, at, length)
  }

  copy(from: Uint8Array, at: number, length: number): void {
    const end = this.length + length
    if (end > this.bytes.length) {
      const more = new Uint8Array(Math.max(end, 2 * this.bytes.length))
      more.set(this.bytes)
      this.bytes = more
    }
    this.bytes.set(from.subarray(at, at + length), this.length)
    this.length = end
  }
}

/** A tape that is done with, and where it comes from. */
export interface Recorded {
  readonly facts: Facts
  readonly numbers: Float64Array
  readonly bytes: Uint8Array
}

/** A file: lengths, the facts as JSON, the numbers, the bytes. */
export function encode({ facts, numbers, bytes }: Recorded): Buffer {
  const said = Buffer.from(JSON.stringify(facts))
  const head = Buffer.from(Uint32Array.of(said.length, numbers.length, bytes.length).buffer)
  const raw = Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength)
  return Buffer.concat([head, said, raw, bytes])
}

export function decode(file: Buffer): Recorded {
  const [said, count, length] = [0, 4, 8].map((at) => file.readUInt32LE(at)) as [
    number,
    number,
    number,
  ]
  const facts = JSON.parse(file.toString('utf8', 12, 12 + said)) as Facts
  const at = 12 + said
  // A copy, so that the numbers are aligned.
  const numbers = new Float64Array(Uint8Array.from(file.subarray(at, at + 8 * count)).buffer)
  const bytes = Uint8Array.from(file.subarray(at + 8 * count, at + 8 * count + length))
  return { facts, numbers, bytes }
}

const FNV_START = 0x811c9dc5
const FNV_PRIME = 0x01000193

/** Packet memory, as both sides of a tape look at it. */
export class PacketView {
  readonly packets: Uint8Array
  private readonly words: Float64Array
  private readonly halves: Int32Array

  constructor(packets: Uint8Array) {
    this.packets = packets
    const { buffer, byteOffset, length } = packets
    this.words = new Float64Array(buffer, byteOffset + COMMANDS_AT, COMMANDS_MAX * COMMAND_WORDS)
    this.halves = new Int32Array(buffer, byteOffset, length >> 2)
  }

  word(command: number, field: number): number {
    return this.words[command * COMMAND_WORDS + field]!
  }

  /** Length of received frame `i`. */
  received(i: number): number {
    return this.halves[(RECEIVED_AT >> 2) + 2 * i]!
  }

  setResult(command: number, result: number): void {
    this.words[command * COMMAND_WORDS + RESULT] = result
  }

  /** Of the commands as they were composed: every word but the results. */
  hashOfList(count: number): number {
    let hash = FNV_START ^ count
    const { halves } = this
    for (let i = 0; i < count; i++) {
      const at = (COMMANDS_AT >> 2) + 2 * COMMAND_WORDS * i
      for (let j = 0; j < 2 * COMMAND_WORDS; j++) {
        if (j >> 1 !== RESULT) hash = Math.imul(hash ^ halves[at + j]!, FNV_PRIME)
      }
    }
    return hash
  }

  /** Of what the commands done have taken out of packet memory: frames, stores, what is checked. */
  hashOfBytes(count: number): number {
    let hash = FNV_START
    for (let i = 0; i < count; i++) {
      const op = this.word(i, OP)
      const from = this.word(i, FROM)
      const length = this.word(i, LENGTH)
      if (op !== COPY && op !== COPY_CLEAN && op !== CHECK && op !== TRANSMIT) continue
      if (!(from >= 0 && from + length <= this.packets.length)) continue
      hash = this.hashOf(hash, from, from + length)
    }
    return hash
  }

  private hashOf(start: number, from: number, to: number): number {
    let hash = start
    let at = from
    const { packets, halves } = this
    for (; at < to && (at & 3) !== 0; at++) hash = Math.imul(hash ^ packets[at]!, FNV_PRIME)
    for (; at + 4 <= to; at += 4) {
      hash = Math.imul(hash ^ halves[at >> 2]!, FNV_PRIME)
      hash ^= hash >>> 15
    }
    for (; at < to; at++) hash = Math.imul(hash ^ packets[at]!, FNV_PRIME)
    return hash
  }
}
