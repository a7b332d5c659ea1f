/**
 * Which classes of images a group must meet at which of its fences, foretold from the write of
 * source 1 and not from what was met: what lane and copies may be there by then (crash-model 2.4).
 *
 * Invariant: of k records, at the fence behind a copy each of them has that copy old, torn
 * or new, the copies before new, those behind old; between the copies each lane says A or B. A play
 * that misses one of these has not visited what it says.
 */

import type { Level } from '../../support/crash/scenario.ts'

/** Every choice of one of `of` for each of `count`. */
function choices<T>(count: number, of: readonly T[]): T[][] {
  if (count === 0) return [[]]
  return choices(count - 1, of).flatMap((rest) => of.map((one) => [...rest, one]))
}

function cell(point: string, lanes: readonly string[], records: readonly string[]): string {
  const said = lanes.map((lane, i) => `lane ${i} ${lane}, `).join('')
  return `${point}: ${said}${records.map((copies, i) => `record ${i} ${copies}`).join(' ')}`
}

const STATES = ['old', 'torn', 'new']

/** The cells of a group of so many records, at F2 and behind. */
export function cellsOf(records: number, { copies }: Level): string[] {
  const all = (what: string): string[] => new Array<string>(records).fill(what)
  const copiesAt = (at: number, state: string): string => {
    const each = Array.from({ length: copies }, (_, copy): string => (copy < at ? 'new' : 'old'))
    each[at] = state
    return each.join('/')
  }
  const cells: string[] = []
  for (const lanes of choices(records, ['A', 'B'])) {
    cells.push(cell('before F3', lanes, all(copiesAt(0, 'new'))))
  }
  for (let copy = 0; copy < copies; copy++) {
    const lanes = all(copy === 0 ? 'A' : 'B')
    const point = copy === 0 ? 'before F2' : `before F${3 + copy}`
    for (const states of choices(records, STATES)) {
      cells.push(
        cell(
          point,
          lanes,
          states.map((state) => copiesAt(copy, state)),
        ),
      )
    }
  }
  return cells
}
