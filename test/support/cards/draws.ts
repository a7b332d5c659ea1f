/**
 * What a card draws for its next connections. The stream behind it is the board's, and a board may
 * give what it likes: words that nobody was given yet are written over; those that were are zeros.
 */

import { RANDOM_AT, RANDOM_BYTES, RANDOM_KEY_BYTES } from '../../../firmware/board/memory-map.ts'

/** A CONNECT takes a PSN, where the search for a place begins, and the rest of the number. */
const WORDS_EACH = 3

/**
 * The next CONNECTs of that packet memory are given this number of a queue pair, if its place is
 * free, and had another one last. It may need a second try where the words are used up.
 */
export function drawNumber({ buffer, byteOffset }: Uint8Array, number: number): void {
  const at = byteOffset + RANDOM_AT + RANDOM_KEY_BYTES
  const words = new Int32Array(buffer, at, (RANDOM_BYTES - RANDOM_KEY_BYTES) / 4)
  const next = words.findIndex((word) => word !== 0)
  if (next < 0) return
  const drawn = [0x123456, number & 0xff, (number >> 9) - 1]
  for (let i = next; i < words.length; i++) words[i] = drawn[(i - next) % WORDS_EACH]!
}
