/**
 * The generator of keys, identities, numbers and starting PSNs: ChaCha20 (RFC 8439 2.4), which the
 * board computes (hal.ts, KEYSTREAM).
 *
 * A block of packet memory holds the key, and behind it words that nobody was given yet. Where they
 * are used up, the stream of the key is written over both, so its first 32 bytes are the next key.
 *
 * Invariants:
 * - Nothing that was given tells of anything that was, or will be: the key behind it is gone with
 *   the refill, and a word is erased when it is given.
 * - Two lives of a part, or two cards, have other keys though their boards' entropy repeats: what
 *   tells them apart is stirred in, each number into a word of its own (fault L6).
 */

import { assert } from './assert.ts'
import { runAlone } from './command-list.ts'
import type { BoardState } from './context.ts'
import { BAD_COMMAND, KEYSTREAM } from './hal.ts'
import { RANDOM_AT, RANDOM_BYTES, RANDOM_KEY_BYTES } from './memory-map.ts'

const KEY_WORDS = RANDOM_KEY_BYTES / 4
const KEY_WORD = RANDOM_AT / 4
const FIRST_WORD = KEY_WORD + KEY_WORDS
const END_WORD = KEY_WORD + RANDOM_BYTES / 4

/** Begins with the board's entropy, eight words of 32 bits, as the key. */
export function seedRandom(words: Int32Array, entropy: readonly number[]): BoardState['random'] {
  assert(
    entropy.some((word) => word !== 0),
    'a board has entropy',
  )
  for (let i = 0; i < KEY_WORDS; i++) words[KEY_WORD + i] = entropy[i]!
  return { next: END_WORD }
}

/** Makes the key another one for every other list of up to eight numbers of 32 bits. */
export function stir({ random, words }: BoardState, numbers: readonly number[]): void {
  for (let i = 0; i < numbers.length; i++) words[KEY_WORD + (i & (KEY_WORDS - 1))]! ^= numbers[i]!
  random.next = END_WORD
}

/** The next 32 random bits. */
export function random32(state: BoardState): number {
  const { random, words, list } = state
  if (random.next === END_WORD) {
    const result = runAlone(list, KEYSTREAM, RANDOM_AT, RANDOM_AT, RANDOM_BYTES)
    if (result === BAD_COMMAND) assert(false, 'a board computes the stream of the generator')
    random.next = FIRST_WORD
  }
  const at = random.next
  random.next = at + 1
  const drawn = words[at]! >>> 0
  words[at] = 0
  return drawn
}

/** So many random bytes. */
export function drawBytes(state: BoardState, length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let i = 0, word = 0; i < length; i++) {
    if (i % 4 === 0) word = random32(state)
    bytes[i] = word >>> (24 - 8 * (i % 4))
  }
  return bytes
}
