/**
 * What a mutant is: the product with one of its rules broken, and what must notice.
 *
 * Invariant: a mutant is one change of one file, told as code that stands there exactly
 * once, in whatever format; so it breaks the rule that it names and no other, and a list that no
 * longer fits the sources is a violation, not a mutant that is silently the product itself.
 */

import { placesOf, replacedAt } from './place.ts'

/** Who notices: a general stage of the evidence, or a short play written for such faults. */
export type By = 'crash' | 'host' | 'model' | 'simulate' | 'fuzz' | 'failures' | 'directed'

/** One play, and the argument that makes it the same every time: a scenario, or a seed. */
export interface Killer {
  readonly by: By
  readonly argument: string
}

/** A change of one file. */
export interface Change {
  /** From the root, with slashes. */
  readonly file: string
  /** Code that stands in the file exactly once (place.ts), and what stands there instead. */
  readonly find: string
  readonly replace: string
}

export interface Mutant extends Change {
  /** One word or two, with hyphens: `--replay mutants ID`. */
  readonly id: string
  /** The rule that is broken, and by what id it is promised. */
  readonly rule: string
  readonly killer: Killer
}

export function crash(argument: string): Killer {
  return { by: 'crash', argument }
}

/** `FAULTS` of a network, or `decisions LEVEL` of a restart. */
export function model(argument: string): Killer {
  return { by: 'model', argument }
}

/** `OPERATION PLACEMENT LEVEL PARTY BACK STRIDE`. */
export function host(argument: string): Killer {
  return { by: 'host', argument }
}

export function failures(argument: string): Killer {
  return { by: 'failures', argument }
}

/** `WORLD FIRST-LAST`. */
export function simulate(argument: string): Killer {
  return { by: 'simulate', argument }
}

/** `WORLD FIRST-LAST`, with somebody inside the network. */
export function attacked(argument: string): Killer {
  return simulate(`${argument} attacked`)
}

/** `TARGET SEED INPUTS`. */
export function fuzz(argument: string): Killer {
  return { by: 'fuzz', argument }
}

export function directed(argument: string): Killer {
  return { by: 'directed', argument }
}

/** Why the mutant is none, or null: its code must stand in the file exactly once. */
export function rotOf({ file, find, replace }: Change, source: string): string | null {
  const places = placesOf(find, source)
  if (places.length === 0) return `its text does not stand in ${file}`
  if (places.length > 1) return `its text stands in ${file} more than once`
  return placesOf(find, replace).length > 0 && placesOf(replace, find).length > 0
    ? 'it changes nothing'
    : null
}

/** The source with the rule broken. Throws where the mutant is none. */
export function broken(change: Change, source: string): string {
  const { file, find, replace } = change
  const rot = rotOf(change, source)
  if (rot !== null) throw new Error(`${file}, \`${find}\`: ${rot}`)
  return replacedAt(source, placesOf(find, source)[0]!, replace.trim())
}
