/**
 * PSNs near their ends, for the first connections behind a start.
 *
 * The card draws the PSN with which its client's requests begin, so no client can ask for one. But
 * the stream behind it is the board's, and a board may give what it likes: so the words are written
 * over that become PSNs. Nothing of the firmware has a part in it: where the firmware draws in
 * another way than is written down here, PSNs begin anywhere, and the stage says what it lacks.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'

/** Connections of a start whose PSNs are chosen. */
export const CHOSEN = 4

/** Where PSNs end, and where the upper half of them begins. */
const ENDS = [2 ** 24, 2 ** 23] as const
const BESIDE = 64

/** PSNs that an end is a few packets from, most of them in front of it. */
export function psnsBesideEnds(random: Random): number[] {
  return Array.from({ length: CHOSEN }, () => {
    const end = ENDS[random.below(ENDS.length)]!
    return (end + 3 - random.below(BESIDE)) & 0xffffff
  })
}

/** Words that a connection takes: two for the place and the number of its queue pair, a PSN. */
export const WORDS_EACH = 3

/**
 * The next connections begin at `psns`: the words at `first` and behind it, from which the card
 * takes what they draw, have a PSN each as their low 24 bits.
 */
export function aim(words: Int32Array, first: number, psns: readonly number[]): void {
  for (const [i, psn] of psns.entries()) {
    for (let at = first + WORDS_EACH * i; at < first + WORDS_EACH * (i + 1); at++) {
      words[at] = (words[at]! & ~0xffffff) | psn
    }
  }
}
