/**
 * What a board gives a start as its entropy, chosen such that the first connections behind that
 * start begin at given PSNs.
 *
 * The card draws the PSN with which its client's requests begin, so no client can ask for one. But
 * the generator behind it can be run backwards (xorshift128; Marsaglia 2003), and a board may give
 * what it likes. So this goes back from four numbers, through all that is drawn before them, to the
 * words that lead there. Nothing of the firmware has a part in it: where the firmware draws in
 * another way than is written down here, PSNs begin anywhere, and the stage says what it lacks.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'

/** Connections of a start whose PSNs can be chosen: the generator has so many words. */
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

/** Steps behind a stirring. */
const STEPS = 32
const GOLDEN = 0x9e3779b9

/** Takes one step back. */
function back(r: Int32Array): void {
  const before = r[1]!
  let t = r[0]! ^ before ^ (before >>> 19)
  t ^= (t >>> 8) ^ (t >>> 16) ^ (t >>> 24)
  r[0] = before
  r[1] = r[2]!
  r[2] = r[3]!
  r[3] = t ^ (t << 11) ^ (t << 22)
}

function backBy(r: Int32Array, steps: number): void {
  for (let i = 0; i < steps; i++) back(r)
}

/**
 * The words of the generator when the low 24 bits of the next `CHOSEN` numbers are `psns`; `draw`
 * gives the upper eight.
 */
export function wordsBefore(psns: readonly number[], draw: () => number): Int32Array {
  const r = new Int32Array(CHOSEN)
  for (let i = 0; i < CHOSEN; i++) r[CHOSEN - 1 - i] = (draw() & 0xff000000) | psns[i]!
  backBy(r, CHOSEN)
  return r
}

/** What the card knows of its start, beside the entropy. */
interface Start {
  readonly incarnation: number
  readonly dirtyShutdowns: number
  readonly mac: readonly number[]
  /** Regions whose keys are drawn before anybody connects. */
  readonly regions: number
}

/**
 * Eight words of entropy, the first four of them those of `fresh`, behind which the low 24 bits of
 * the next `CHOSEN` numbers are `psns`; `draw` gives what is free.
 */
export function entropyFor(
  psns: readonly number[],
  { incarnation, dirtyShutdowns, mac, regions }: Start,
  fresh: readonly number[],
  draw: () => number,
): number[] {
  let r: Int32Array
  // The stirring sets one bit: only a state that has it has a way back.
  do {
    r = wordsBefore(psns, draw)
    backBy(r, regions + STEPS)
  } while ((r[0]! & 1) === 0)
  const words = [incarnation, dirtyShutdowns, ...mac]
  for (const [i, word] of words.entries()) r[(i + 1) & 3]! ^= Math.imul(word + i, GOLDEN)
  backBy(r, STEPS)
  for (let i = 0; i < 8; i++) r[i & 3]! ^= Math.imul(i + 1, GOLDEN) ^ (i < 4 ? fresh[i]! : 0)
  return [...fresh.slice(0, 4), ...r].map((word) => word >>> 0)
}
