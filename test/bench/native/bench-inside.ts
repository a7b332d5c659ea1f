/**
 * The part of `npm run bench:native` that comes first: perdured against the C program of the same
 * duty with a link that costs nothing. Over UDP the kernel takes most of a record's time and hides
 * what the firmware takes.
 *
 * Method: all programs run records from their own memory (`boards/linux/bench/inside.c`) and take
 * turns, round by round. A figure is the processor time of the thread per record: of each round the
 * 10th percentile over its chunks, of the rounds the median. A ratio is the median over the rounds
 * of that of neighbours, so that what else the machine does strikes both.
 *
 * With `against`, another checkout in which this bench was run before, its perdured takes turns
 * with ours: then a ratio of more than AGAINST_MOST is a broken floor.
 */

import { existsSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import type { BenchPrograms } from '../../../boards/linux/bench/compile.ts'
import { ROOT } from '../../../boards/linux/engine.ts'
import { Trouble } from '../../../boards/tools/debian/programs.ts'
import { median } from '../../support/bench/table.ts'
import { Inside } from '../../support/native/load/inside.ts'
import { type Build, buildOf } from '../../support/native/load/rig.ts'

const ROUNDS = 9

/** So much slower than the other checkout is within what rounds differ by. */
const AGAINST_MOST = 1.05

/** Records that both run before anything counts: what is made once is made then. */
const WARM_UP = 24_576
const TRIAL = 8_192
const CHUNK = 2_048

/** What is measured, and the floor: at most so many times the C program's. */
const CASES: readonly { bytes: number; burst: number; floor: number }[] = [
  { bytes: 64, burst: 1, floor: 6 },
  { bytes: 64, burst: 4, floor: 7 },
  { bytes: 64, burst: 32, floor: 7 },
  { bytes: 1024, burst: 32, floor: 3.2 },
  { bytes: 4096, burst: 32, floor: 1.8 },
]

interface InsideRow {
  readonly bytes: number
  readonly burst: number
  /** ns of processor time per record. */
  readonly perduredNs: number
  readonly cNs: number
  readonly ratio: number
  readonly floor: number
  /** Ours to the other checkout's, where there is one. */
  readonly against: number | null
  readonly holds: boolean
}

async function measure(
  programs: BenchPrograms,
  folder: string,
  { bytes, burst, floor }: (typeof CASES)[number],
  seconds: number,
  other: Build | null,
): Promise<InsideRow> {
  const ours = buildOf(programs.inside.perdured, programs.signed.trust)
  const perdured = await Inside.perdured(ours, join(folder, 'ours'), bytes)
  const all = [perdured, await Inside.duty(programs.inside.duty, folder, perdured, bytes)]
  if (other !== null) all.push(await Inside.perdured(other, join(folder, 'other'), bytes))
  try {
    for (const one of all) await one.run(WARM_UP, burst)
    const { medianNs } = await perdured.run(TRIAL, burst)
    const wanted = (seconds * 1e9) / ROUNDS / medianNs
    const count = CHUNK * Math.max(4, Math.round(wanted / CHUNK))
    const rounds: number[][] = []
    for (let round = 0; round < ROUNDS; round++) {
      const took: number[] = []
      for (let k = 0; k < all.length; k++) {
        const i = (k + round) % all.length
        took[i] = (await all[i]!.run(count, burst)).p10Ns
      }
      rounds.push(took)
    }
    const of = (i: number): number => median(rounds.map((took) => took[i]!))
    const ratioTo = (i: number): number => median(rounds.map((took) => took[0]! / took[i]!))
    const ratio = ratioTo(1)
    const against = other === null ? null : ratioTo(2)
    return {
      ...{ bytes, burst, floor, ratio, against, perduredNs: of(0), cNs: of(1) },
      holds: ratio <= floor && (against === null || against <= AGAINST_MOST),
    }
  } finally {
    for (const one of all) await one.close()
  }
}

/** The same build in another checkout. Throws a Trouble where it has none. */
function buildIn(checkout: string, programs: BenchPrograms): Build {
  const there = (path: string): string => join(resolve(checkout), relative(ROOT, path))
  const build = buildOf(there(programs.inside.perdured), there(programs.signed.trust))
  if (existsSync(build.perdured)) return build
  throw new Trouble(`--against ${checkout}: run npm run bench:native there first`)
}

/** All cases; `against` names another checkout, or is null. */
export async function benchInside(
  programs: BenchPrograms,
  folder: string,
  { seconds, against }: { seconds: number; against: string | null },
  say: (line: string) => void,
): Promise<InsideRow[]> {
  const other = against === null ? null : buildIn(against, programs)
  const rows: InsideRow[] = []
  for (const one of CASES) {
    say(`inside, ${one.bytes} bytes, burst ${one.burst} …`)
    rows.push(await measure(programs, folder, one, seconds, other))
  }
  return rows
}

export function insideTable(rows: readonly InsideRow[]): string[][] {
  const isCompared = rows.some(({ against }) => against !== null)
  const head = ['bytes', 'burst', 'perdured ns', 'C ns', 'ratio', 'floor', '']
  const cells = rows.map((row) => [
    ...[String(row.bytes), String(row.burst), row.perduredNs.toFixed(0), row.cNs.toFixed(0)],
    ...[row.ratio.toFixed(2), `≤ ${row.floor.toFixed(2)}`, row.holds ? 'holds' : 'BROKEN'],
    ...(row.against === null ? [] : [row.against.toFixed(3)]),
  ])
  return [isCompared ? [...head, 'to the other'] : head, ...cells]
}
