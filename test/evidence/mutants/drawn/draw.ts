/**
 * Draws mutants: spread over all files, half of them always the same ones.
 *
 * Invariant: every file that has a mutant gives one as long as there are draws enough; the
 * others are drawn from all that are left, alike. One half follows from a fixed number, so that two
 * runs may be compared, and the other one from the seed of the run. Whether a mutant is drawn
 * depends on the text of its change alone, except for the last places: who edits a function draws
 * other mutants of that function, and nowhere else.
 */

import { createHash } from 'node:crypto'
import { sourceOf } from './bench.ts'
import { changeOf, keyOf } from './equivalents.ts'
import type { Drawn } from './places.ts'

const FIXED = 0x8e8

/** A number of 48 bits that is as good as drawn. */
function rankOf(name: string, seed: number): number {
  return createHash('sha256').update(`${seed} ${name}`).digest().readUIntBE(0, 6)
}

function inOrder<T>(all: readonly T[], rank: (one: T) => number): T[] {
  return all
    .map((one) => ({ one, rank: rank(one) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ one }) => one)
}

/** Each change by its name; those that read alike are numbered. */
function namesOf(all: readonly Drawn[]): ReadonlyMap<Drawn, string> {
  const met = new Map<string, number>()
  return new Map(
    all.map((one) => {
      const key = keyOf(changeOf(one, sourceOf(one.file)))
      const before = met.get(key) ?? 0
      met.set(key, before + 1)
      return [one, `${key} ${before}`]
    }),
  )
}

/** The first `count` of those, one of each of these files before all others. */
function drawHalf(ordered: readonly Drawn[], files: readonly string[], count: number): Drawn[] {
  const firsts = files.slice(0, count).map((file) => ordered.find((one) => one.file === file)!)
  const taken = new Set(firsts)
  return [...firsts, ...ordered.filter((one) => !taken.has(one))].slice(0, count)
}

/** `count` of all mutants, none of them twice. */
export function draw(all: readonly Drawn[], count: number, seed: number): Drawn[] {
  const names = namesOf(all)
  const ordered = (by: number): Drawn[] => inOrder(all, (one) => rankOf(names.get(one)!, by))
  const files = inOrder([...new Set(all.map(({ file }) => file))], (file) => rankOf(file, FIXED))
  const half = Math.ceil(count / 2)
  const first = drawHalf(ordered(FIXED), files.slice(0, half), half)
  const taken = new Set(first)
  const met = new Set(first.map(({ file }) => file))
  const rest = files.filter((file) => !met.has(file))
  const others = ordered(seed).filter((one) => !taken.has(one))
  return [...first, ...drawHalf(others, rest, count - half)]
}
