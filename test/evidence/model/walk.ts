/**
 * Walks every state that the model can reach, the nearest first: so the first state that is wrong
 * is reached by a shortest schedule.
 */

import { type Move, movesFrom } from './moves.ts'
import { firstState, MODE, PC, type Plan, RECOVERING, type State } from './protocol.ts'

export interface Walked {
  readonly states: number
  readonly transitions: number
  /** Wrong moves met. */
  violations: number
  /** What is wrong, move by move. */
  readonly wrong: readonly string[]
  /** A shortest schedule that ends in a wrong move, or none. */
  readonly schedule: readonly string[]
  /** Kinds of images that recoveries began with. */
  readonly classes: number
}

/** A state as text: every number of it is small. */
function nameOf(s: State): string {
  let name = ''
  for (const value of s) name += String.fromCharCode(value + 16)
  return name
}

/** Walks all of it, or ends at the first wrong move. */
export function walk(plan: Plan, toTheEnd: boolean): Walked {
  const first = firstState(plan)
  const seen = new Map<string, number>([[nameOf(first), 0]])
  const parents: number[] = [-1]
  const names: string[] = ['']
  const classes = new Set<string>()
  let transitions = 0
  const wrong: string[] = []
  let schedule: string[] = []
  let layer: [State, number][] = [[first, 0]]
  const told = (at: number, move: Move): string[] => {
    const lines = [move.name, move.wrong!]
    for (let i = at; i > 0; i = parents[i]!) lines.unshift(names[i]!)
    return lines
  }
  const walked = (): Walked => {
    const { length: violations } = wrong
    return { states: seen.size, transitions, violations, wrong, schedule, classes: classes.size }
  }
  while (layer.length > 0) {
    const next: [State, number][] = []
    for (const [state, number] of layer) {
      for (const move of movesFrom(plan, state)) {
        transitions += 1
        if (move.wrong !== null) {
          wrong.push(move.wrong)
          if (schedule.length === 0) schedule = told(number, move)
          if (toTheEnd) continue
          return walked()
        }
        const name = nameOf(move.to)
        if (seen.has(name)) continue
        seen.set(name, parents.length)
        if (move.to[MODE] === RECOVERING && move.to[PC] === 0) classes.add(classOf(name))
        next.push([move.to, parents.length])
        parents.push(number)
        names.push(move.name)
      }
    }
    layer = next
  }
  return walked()
}

/** What a recovery sees: everything but what only the judge knows. */
function classOf(name: string): string {
  return name.slice(PC + 1)
}
