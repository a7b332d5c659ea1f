/**
 * The part of `npm run bench:native` about guards: what a record costs perdured more that brings
 * the CRC-32C of its data (S1-M1).
 *
 * Method: one perdured runs records from its own memory (bench-inside.ts), with a guard and without
 * in turns. A figure is the processor time per record, of each round the 10th percentile over its
 * chunks, of the rounds the median; the ratio is the median over the rounds of that of neighbours.
 */

import { join } from 'node:path'
import type { BenchPrograms } from '../../../boards/linux/bench/compile.ts'
import { GUARD_MOST } from '../../support/bench/guard-cost.ts'
import { median } from '../../support/bench/table.ts'
import { Inside } from '../../support/native/load/inside.ts'
import { buildOf } from '../../support/native/load/rig.ts'

const ROUNDS = 15
const CHUNK = 2048
/** Records before anything counts. */
const WARM_UP = 8 * CHUNK

const CASES: readonly (readonly [number, number])[] = [
  [64, 1],
  [64, 32],
  [1024, 32],
  [4096, 32],
]

interface GuardRow {
  readonly bytes: number
  readonly burst: number
  /** ns of processor time per record. */
  readonly plainNs: number
  readonly guardedNs: number
  /** Time with a guard for time without. */
  readonly ratio: number
  /** What it is held to; Infinity if to nothing. */
  readonly most: number
  readonly holds: boolean
}

async function measure(inside: Inside, burst: number, seconds: number): Promise<number[][]> {
  for (const hasGuards of [false, true]) await inside.run(WARM_UP, burst, hasGuards)
  const { medianNs } = await inside.run(WARM_UP, burst)
  const each = (seconds * 1e9) / ROUNDS / medianNs / 2
  const count = CHUNK * Math.max(4, Math.round(each / CHUNK))
  const rounds: number[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const took: number[] = []
    for (const kind of round % 2 === 0 ? [0, 1] : [1, 0]) {
      took[kind] = (await inside.run(count, burst, kind === 1)).p10Ns
    }
    rounds.push(took)
  }
  return rounds
}

export async function benchGuards(
  programs: BenchPrograms,
  folder: string,
  seconds: number,
  say: (line: string) => void,
): Promise<GuardRow[]> {
  const build = buildOf(programs.inside.perdured, programs.signed.trust)
  const rows: GuardRow[] = []
  for (const [bytes, burst] of CASES) {
    say(`guards, ${bytes} bytes, burst ${burst} …`)
    const inside = await Inside.perdured(build, join(folder, 'guards'), bytes)
    try {
      const rounds = await measure(inside, burst, seconds)
      const of = (kind: number): number => median(rounds.map((took) => took[kind]!))
      const ratio = median(rounds.map(([plain, guarded]) => guarded! / plain!))
      const most = burst === 32 ? (GUARD_MOST.get(bytes) ?? Infinity) : Infinity
      const figures = { plainNs: of(0), guardedNs: of(1), ratio }
      rows.push({ bytes, burst, ...figures, most, holds: ratio <= most })
    } finally {
      await inside.close()
    }
  }
  return rows
}

export function guardTable(rows: readonly GuardRow[]): string[][] {
  const head = ['bytes', 'burst', 'ns', 'with guard', 'ratio', 'floor', '']
  const cells = rows.map(({ bytes, burst, plainNs, guardedNs, ratio, most, holds }) => [
    ...[String(bytes), String(burst), plainNs.toFixed(0), guardedNs.toFixed(0), ratio.toFixed(3)],
    ...(most === Infinity ? ['', ''] : [`≤ ${most.toFixed(2)}`, holds ? 'holds' : 'BROKEN']),
  ])
  return [head, ...cells]
}
