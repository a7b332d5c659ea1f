/** Durability levels: of how many copies, how many must be durable before `persisted` (D-4). */

import { COPIES_MAX, COPIES_MIN } from '../../firmware/board/limits.ts'
import { ArgumentError } from '../base/errors.ts'
import { type Kind, refuse } from '../base/kinds.ts'

/** 'WofN': W durable copies of the N that the region keeps, for instance '1of2', '2of2', '2of3'. */
export type Durability = `${number}of${number}`

/** Copies to wait for, and copies that the region must keep. */
interface Level {
  readonly wait: number
  readonly copies: number
}

/** A level, as `parseDurability` reads it. */
export const DURABILITY: Kind = {
  give: 'say WofN, 1 <= W <= N, N from 2 to 4',
  takes: (value) => typeof value === 'string' && levelOf(value) !== null,
}

/** Reads a level; throws PERDURE_ARGUMENT where it makes no sense. */
export function parseDurability(text: string): Level {
  return levelOf(text) ?? refuse('durability', text, DURABILITY.give)
}

function levelOf(text: string): Level | null {
  const match = /^(\d)of(\d)$/.exec(text)
  const wait = Number(match?.[1])
  const copies = Number(match?.[2])
  const sane = wait >= 1 && wait <= copies && copies >= COPIES_MIN && copies <= COPIES_MAX
  return sane ? { wait, copies } : null
}

/**
 * The copies to wait for in a region of `copies`. A level that speaks of another number of copies
 * is refused; with none named, two copies are waited for, however many there are.
 */
export function waitFor(durability: string | undefined, copies: number): number {
  if (durability === undefined) return Math.min(2, copies)
  const level = parseDurability(durability)
  if (level.copies !== copies) {
    const right = `'${Math.min(level.wait, copies)}of${copies}'`
    throw new ArgumentError(`durability '${durability}': the region keeps ${copies}; say ${right}`)
  }
  return level.wait
}
