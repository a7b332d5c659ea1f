/**
 * What is done to a valid frame: fields with the values that arithmetic gets wrong, lengths, tags.
 *
 * Invariant: a frame is changed in the buffer of its sender, and nothing is allocated.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import type { Field } from './kinds.ts'

/** Numbers near which mistakes are made, as far as they fit into a word. */
const EDGES: readonly number[] = [
  0, 1, 7, 8, 63, 64, 65, 100, 101, 255, 256, 257, 4095, 4096, 4097, 65535, 65536, 0x7fffff,
  0x800000, 0xffffff, 0x1000000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
]

function get(bytes: Uint8Array, { at, width }: Field): number {
  let value = 0
  for (let i = 0; i < width; i++) value = value * 256 + bytes[at + i]!
  return value
}

export function put(bytes: Uint8Array, at: number, width: number, value: number): void {
  if (value >= 0 && value <= 0xffffffff) {
    let word = value >>> 0
    for (let i = width - 1; i >= 0; i--) {
      bytes[at + i] = word
      word >>>= 8
    }
    return
  }
  for (let i = width - 1, left = value; i >= 0; i--) {
    bytes[at + i] = left
    left = Math.floor(left / 256)
  }
}

/** A value that somebody may have got wrong. `words`: numbers that mean something here. */
function wrongValue(random: Random, width: number, now: number, words: readonly number[]): number {
  const bits = 8 * width
  const top = 2 ** bits
  switch (random.below(12)) {
    case 0:
      return 0
    case 1:
      return 1
    case 2:
      return top - 1
    case 3:
      return top / 2
    case 4:
      return top / 2 - 1 - random.below(2)
    case 5:
      return (now + 1) % top
    case 6:
      return (now + top - 1) % top
    case 7:
    case 8: {
      const bit = 2 ** random.below(bits)
      return Math.floor(now / bit) % 2 === 0 ? now + bit : now - bit
    }
    case 9:
      return EDGES[random.below(EDGES.length)]! % top
    case 10:
      return words[random.below(words.length)]! % top
    default:
      return random.below(2 ** 16) % top
  }
}

/** Gives one field another value. */
export function mutateField(
  bytes: Uint8Array,
  fields: readonly Field[],
  random: Random,
  words: readonly number[],
): void {
  const field = fields[random.below(fields.length)]!
  put(bytes, field.at, field.width, wrongValue(random, field.width, get(bytes, field), words))
}

/** Makes the lengths in IP and UDP what a frame of that length has. */
export function setLengths(bytes: Uint8Array, length: number): void {
  const isIpv6 = bytes[12] === 0x86
  const ip = length - 14
  const udp = ip - (isIpv6 ? 40 : 20)
  put(bytes, isIpv6 ? 18 : 16, 2, Math.max(0, isIpv6 ? udp : ip))
  put(bytes, 14 + (isIpv6 ? 44 : 24), 2, Math.max(0, udp))
}

/** Puts a tag of 802.1Q behind the addresses; the frame has four bytes more. */
export function tag(bytes: Uint8Array, length: number): number {
  bytes.copyWithin(16, 12, length)
  put(bytes, 12, 4, 0x8100_0005)
  return length + 4
}
