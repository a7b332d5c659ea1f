/**
 * `npm run bench -- guard [--json] [--seconds N]`: what a record costs more that brings its guard
 * (S1-M1).
 *
 * Method: the same records with and without a guard take turns on one card, as in bench.ts: timed
 * is all that the board does with a burst. The ratio is the median of the ratios of the turns, so
 * what else the machine does meets both. Beside it stands what the client's CPU needs for its own
 * pass over the data.
 */

import assert from 'node:assert/strict'
import { guardOf } from '../../../boards/software/guard.ts'
import { ENGINES, type Engine } from '../../bench/bench-floors.ts'
import { type Bench, openBench } from '../cards/engine.ts'
import { dataOf, persistFrames } from '../cards/test-card.ts'
import { renumber } from '../wire/renumber.ts'
import { takeWishes } from './bench-arguments.ts'
import { median, text } from './table.ts'

const SLOTS = 1024
const FRAMES = 1024
const CASES: readonly (readonly [number, number])[] = [
  ...([64, 1024, 4096] as const).flatMap((bytes) => [[bytes, 1] as const, [bytes, 32] as const]),
]

/** By bytes of a record in bursts of 32: the most that its time with a guard is of that without. */
export const GUARD_MOST: ReadonlyMap<number, number> = new Map([
  [64, 1.1],
  [4096, 1.35],
])

interface Row {
  readonly engine: Engine
  readonly recordBytes: number
  readonly burst: number
  readonly microseconds: number
  readonly microsecondsGuarded: number
  /** Time with a guard for time without. */
  readonly ratio: number
  /** The client's own pass over the data, µs a record. */
  readonly clientMicroseconds: number
}

function timeOf({ machine, engine }: Bench, frames: readonly Uint8Array[], burst: number): number {
  const begun = process.hrtime.bigint()
  for (let i = 0; i < frames.length; i += burst) {
    for (let j = 0; j < burst; j++) machine.place(j, frames[i + j]!)
    engine.serve(burst, i)
  }
  return Number(process.hrtime.bigint() - begun) / 1e3 / frames.length
}

async function measure(
  engine: Engine,
  recordBytes: number,
  burst: number,
  seconds: number,
): Promise<Row> {
  const bench = await openBench(engine, SLOTS * 2 * (128 + recordBytes) + 131072)
  const { card, sent } = bench
  card.format()
  const region = card.provision({ slots: SLOTS, capacity: recordBytes })
  const qp = card.connect()
  const data = Array.from({ length: FRAMES }, (_, i) => dataOf(recordBytes, i))
  const framesOf = (isGuarded: boolean): Uint8Array[] =>
    data.flatMap((bytes, i) => {
      const guard = isGuarded ? guardOf(bytes) : undefined
      return persistFrames(qp, region, i % SLOTS, bytes, { guard })
    })
  const { psn } = qp
  const kinds = [framesOf(false), framesOf(true)] as const
  // They are numbered before each turn; none of these has gone.
  qp.psn = psn
  const times: [number[], number[]] = [[], []]
  const begun = performance.now()
  for (let turn = 0; performance.now() - begun < 1e3 * seconds || turn < 4; turn++) {
    for (const kind of turn % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      renumber(kinds[kind], qp, SLOTS)
      times[kind].push(timeOf(bench, kinds[kind], burst))
      sent.length = 0
    }
  }
  const served = card.counter('DUPLICATE') + card.counter('GUARD')
  assert(served === 0, 'every record was a new one, and taken')
  bench.engine.dispose()
  const clientBegun = process.hrtime.bigint()
  for (const bytes of data) guardOf(bytes)
  const clientMicroseconds = Number(process.hrtime.bigint() - clientBegun) / 1e3 / FRAMES
  return {
    ...{ engine, recordBytes, burst, clientMicroseconds },
    microseconds: median(times[0]),
    microsecondsGuarded: median(times[1]),
    ratio: median(times[1].map((time, i) => time / times[0][i]!)),
  }
}

function mostOf({ recordBytes, burst }: Pick<Row, 'recordBytes' | 'burst'>): number {
  return burst === 32 ? (GUARD_MOST.get(recordBytes) ?? Infinity) : Infinity
}

/** Is the guard as cheap as it has to be? */
export function holds(row: Pick<Row, 'recordBytes' | 'burst' | 'ratio'>): boolean {
  return row.ratio <= mostOf(row)
}

function tableOf(rows: readonly Row[]): string[][] {
  const head = [
    ...['engine', 'bytes', 'burst', 'µs/rec', 'with guard', 'ratio', "the client's pass, µs"],
    ...['floor', ''],
  ]
  return [
    head,
    ...rows.map((row) => [
      row.engine,
      String(row.recordBytes),
      String(row.burst),
      row.microseconds.toFixed(2),
      row.microsecondsGuarded.toFixed(2),
      row.ratio.toFixed(3),
      row.clientMicroseconds.toFixed(3),
      ...(mostOf(row) === Infinity
        ? ['', '']
        : [`≤ ${mostOf(row).toFixed(2)}`, holds(row) ? 'holds' : 'BROKEN']),
    ]),
  ]
}

/** Exit codes: 0 every floor holds; 1 a floor is broken; 64 a wrong command line. */
export async function benchGuard(args: readonly string[]): Promise<void> {
  const wishes = takeWishes(args, { seconds: { standard: 1 } })
  if (wishes === null) {
    process.exitCode = 64
    return
  }
  const { seconds, json } = wishes
  const rows: Row[] = []
  for (const engine of ENGINES) {
    for (const [recordBytes, burst] of CASES) {
      if (process.stderr.isTTY) {
        process.stderr.write(`\r\x1b[K${engine}, ${recordBytes} bytes, burst ${burst} …`)
      }
      rows.push(await measure(engine, recordBytes, burst, seconds))
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
  process.stdout.write(`${json ? JSON.stringify(rows, null, 2) : text(tableOf(rows))}\n`)
  if (!rows.every(holds)) process.exitCode = 1
}
