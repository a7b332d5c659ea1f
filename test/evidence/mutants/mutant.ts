/**
 * What a mutant is: the product with one of its rules broken, and what must notice.
 *
 * What always holds: a mutant is one change of one file, told as text that stands there exactly
 * once; so it breaks the rule that it names and no other, and a list that no longer fits the
 * sources is a violation, not a mutant that is silently the product itself.
 */

/** Who notices: a general stage of the evidence, or a short play written for such faults. */
export type By = 'crash' | 'model' | 'simulate' | 'fuzz' | 'failures' | 'directed'

/** One play, and the argument that makes it the same every time: a scenario, or a seed. */
export interface Killer {
  readonly by: By
  readonly argument: string
}

export interface Mutant {
  /** One word or two, with hyphens: `--replay mutants ID`. */
  readonly id: string
  /** The rule that is broken, and by what id it is promised. */
  readonly rule: string
  /** From the root, with slashes. */
  readonly file: string
  /** Text that stands in the file exactly once, and what stands there instead. */
  readonly find: string
  readonly replace: string
  readonly killer: Killer
}

export function crash(argument: string): Killer {
  return { by: 'crash', argument }
}

/** `FAULTS` of a network, or `decisions LEVEL` of a restart. */
export function model(argument: string): Killer {
  return { by: 'model', argument }
}

export function failures(argument: string): Killer {
  return { by: 'failures', argument }
}

/** `WORLD FIRST-LAST`. */
export function simulate(argument: string): Killer {
  return { by: 'simulate', argument }
}

/** `TARGET SEED INPUTS`. */
export function fuzz(argument: string): Killer {
  return { by: 'fuzz', argument }
}

export function directed(argument: string): Killer {
  return { by: 'directed', argument }
}

/** Why the mutant is none, or null: its text must stand in the file exactly once. */
export function rotOf({ file, find, replace }: Mutant, text: string): string | null {
  const first = text.indexOf(find)
  if (first < 0) return `its text does not stand in ${file}`
  if (text.indexOf(find, first + 1) >= 0) return `its text stands in ${file} more than once`
  return find === replace ? 'it changes nothing' : null
}
