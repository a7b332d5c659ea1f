/**
 * Plays units on a mutant until one notices: first those that noticed others of the same file, then
 * those of test files that are about it, then all others; each time those that take least for what
 * they show of that file, and none played before them has shown.
 *
 * Invariant: a unit may take ten times the work that it takes on the product; what takes
 * more hangs. One that was cut off on the product is cut off there, and has noticed nothing then.
 * Work is counted, so that a busy machine changes no verdict.
 */

import { basename } from 'node:path'
import { type Bench, sourceOf, type Unit } from './bench.ts'
import { importedBy } from './modules.ts'
import type { Drawn } from './places.ts'
import type { Reach } from './reach.ts'

const WORK_TIMES = 10
const WORK_MORE = 200_000

/** What a unit costs beside its own work, and what it shows of a file at the least. */
const WORK_OF_ANY = 1000
const SHOWN_BY_ANY = 0.01
/** What a statement that was shown counts for whoever shows it once more. */
const AGAIN = 0.3

export interface Verdict {
  readonly mutant: Drawn
  /** Name of the unit that noticed, or null: it lives. */
  readonly unit: string | null
  readonly witness: string
  readonly played: number
}

export class Ladder {
  private readonly bench: Bench
  private readonly reach: Reach
  /** Work that is spent on one mutant, at the most. */
  private readonly most: number
  private readonly kills = new Map<string, Map<Unit, number>>()
  /** By the path of a test file: what it imports. */
  private readonly imports = new Map<string, ReadonlySet<string>>()

  constructor(bench: Bench, reach: Reach, most: number) {
    this.bench = bench
    this.reach = reach
    this.most = most
  }

  /** `times`: how many times the work is spent that is spent on any. */
  async judge(mutant: Drawn, times: number = 1): Promise<Verdict> {
    const make = await this.bench.broken(mutant)
    const killers = make()
    const { work } = this.bench.library
    let [spent, played] = [0, 0]
    for (const unit of this.inOrder(mutant)) {
      if (spent + unit.work > times * this.most) continue
      const bound = unit.isCut ? unit.work : WORK_TIMES * unit.work + WORK_MORE
      // What is cut off may leave a mess behind.
      const witness = await (unit.isCut ? make() : killers).play(unit.name, work, bound)
      spent += bound - Math.max(0, work.left)
      played += 1
      if (witness === null || (unit.isCut && work.left < 0)) continue
      this.remember(mutant.file, unit)
      return { mutant, unit: unit.name, witness, played }
    }
    return { mutant, unit: null, witness: '', played }
  }

  private *inOrder(mutant: Drawn): Iterable<Unit> {
    const { file } = mutant
    const kills = this.kills.get(file)
    const units = this.reach.unitsFor(mutant)
    const worth = (unit: Unit): number => (kills?.get(unit) ?? 0) / (unit.work + WORK_OF_ANY)
    const known = units.filter((one) => worth(one) > 0)
    yield* known.sort((one, other) => worth(other) - worth(one))
    const others = units.filter((one) => worth(one) === 0)
    const weights = new Map<number, number>()
    for (const is of [true, false]) {
      const here = others.filter(({ name }) => this.isAbout(name, file) === is)
      yield* this.byWhatIsNew(here, file, weights)
    }
  }

  /** Is the unit a test of a file that imports that one, or that is called after it? */
  private isAbout(unit: string, file: string): boolean {
    const [, path] = /^suite (\S+)/.exec(unit) ?? []
    if (path === undefined) return false
    let imported = this.imports.get(path)
    if (imported === undefined) {
      imported = new Set(importedBy(path, sourceOf(path)))
      this.imports.set(path, imported)
    }
    const name = basename(file, '.ts')
    return imported.has(file) || new RegExp(`^${name}[-.]`).test(basename(path))
  }

  /** Each time the one that shows most for its work; what was shown before counts for less. */
  private *byWhatIsNew(
    units: readonly Unit[],
    file: string,
    weights: Map<number, number>,
  ): Iterable<Unit> {
    const { reach } = this
    const value = (unit: Unit): number => {
      let sum = SHOWN_BY_ANY
      for (const n of reach.statementsOf(unit, file)) sum += weights.get(n) ?? reach.rarity(n)
      return sum / (unit.work + WORK_OF_ANY)
    }
    // The best one last. Values only fall, so who is still the best by its value of now, is so.
    const left = units.map((unit) => ({ unit, value: value(unit) }))
    left.sort((one, other) => one.value - other.value)
    for (let best = left.pop(); best !== undefined; best = left.pop()) {
      best.value = value(best.unit)
      const place = left.findLastIndex((one) => one.value <= best!.value)
      if (place + 1 < left.length) left.splice(place + 1, 0, best)
      else {
        yield best.unit
        for (const n of reach.statementsOf(best.unit, file)) {
          weights.set(n, AGAIN * (weights.get(n) ?? reach.rarity(n)))
        }
      }
    }
  }

  private remember(file: string, unit: Unit): void {
    const kills = this.kills.get(file) ?? new Map<Unit, number>()
    this.kills.set(file, kills)
    kills.set(unit, (kills.get(unit) ?? 0) + 1)
  }
}
