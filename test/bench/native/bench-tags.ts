/**
 * The part of `npm run bench:native` about tags: what they cost, and what becomes of a client while
 * somebody floods its queue pair with packets that he forged.
 *
 * Method: one perdured has peers, and a client with two queue pairs there, one with tags and one
 * without. The load sends over UDP on both in turns, and a ratio is the median over the rounds of
 * that of neighbours, so that what else the machine does strikes both. The load, too, makes and
 * checks each tag, as a client does.
 *
 * A flood is one frame with a right ICRC, as fast as a program of its own sends it from a socket of
 * its own: once without a trailer, once with a wrong tag and a counter that is always new, which
 * costs the card as much as a right one. The load then sends again what is lost. Rounds with the
 * flood and without take turns.
 *
 * What is held is what the flood leaves of perdured: the processor time that it takes for a record
 * alone, to that in the flood, where it also refuses what is forged. The rate is held as well where
 * there are three cores. On two of them flood, load and perdured compete, and the rate says how the
 * kernel divides them: each has half a core, or two thirds.
 */

import { mkdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { BenchPrograms } from '../../../boards/linux/bench/compile.ts'
import { median } from '../../support/bench/table.ts'
import { buildOf, type LoadResult } from '../../support/native/load/rig.ts'
import { type Forgery, TaggedRig } from '../../support/native/load/tagged-rig.ts'

const ROUNDS = 9
/** Records before anything counts. */
const WARM_UP = 2000
const LEAST = 500

/** What tags cost, and what it is held to: of the rate at least, of a round trip at most. */
const COSTS: readonly { bytes: number; burst: number; window: number; floor: number }[] = [
  { bytes: 64, burst: 1, window: 1, floor: 1.1 },
  { bytes: 4096, burst: 1, window: 1, floor: 1.1 },
  { bytes: 64, burst: 32, window: 64, floor: 0.85 },
  { bytes: 4096, burst: 32, window: 64, floor: 0.75 },
]

/** Floods, each on a client in bursts of 32. */
const FLOODS: readonly { bytes: number; forgery: Forgery }[] = [
  { bytes: 64, forgery: 'untagged' },
  { bytes: 64, forgery: 'wrong tag' },
  { bytes: 4096, forgery: 'wrong tag' },
]
const FLOODED = { burst: 32, window: 64 }
/** So much a client keeps at least. */
const KEPT = 0.5
/** From so many cores on flood, load and perdured have one each. */
const CORES = 3

interface CostRow {
  readonly bytes: number
  readonly burst: number
  /** Medians of the rounds: ns of a round trip, or records per second. */
  readonly plain: number
  readonly tagged: number
  readonly ratio: number
  readonly floor: number
  readonly holds: boolean
  /** CPU time of perdured per record, ns. */
  readonly plainCpuNs: number
  readonly taggedCpuNs: number
}

interface FloodRow {
  readonly bytes: number
  readonly forgery: Forgery
  /** Records per second, alone and in the flood. */
  readonly alone: number
  readonly flooded: number
  readonly ratio: number
  /** Processor time of perdured for a record alone, to that in the flood. */
  readonly kept: number
  readonly floor: number
  readonly holds: boolean
  /** Forged frames per second that were sent, and that the firmware refused. */
  readonly sent: number
  readonly refused: number
  /** Records that were sent again, of all that were sent in the flood. */
  readonly again: number
  /** How much of a core perdured had in the flood. */
  readonly cores: number
  readonly heapBefore: number
  readonly heapAfter: number
}

interface TagRows {
  readonly costs: readonly CostRow[]
  readonly floods: readonly FloodRow[]
}

const rateOf = ({ records, seconds }: LoadResult): number => records / seconds

/** Records of one round, of which one load has given the rate. */
function roundOf(trial: LoadResult, seconds: number): number {
  return Math.max(LEAST, Math.round((rateOf(trial) * seconds) / ROUNDS))
}

async function costOf(
  rig: TaggedRig,
  { bytes, burst, window, floor }: (typeof COSTS)[number],
  seconds: number,
): Promise<CostRow> {
  const ways = ['persist', 'tagged'] as const
  const warm = { records: WARM_UP, burst, window }
  for (const way of ways) await rig.load({ way, ...warm })
  const records = roundOf(await rig.load({ way: 'persist', ...warm }), seconds / ways.length)
  const rounds: LoadResult[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const took: LoadResult[] = []
    for (const i of round % 2 === 0 ? [0, 1] : [1, 0]) {
      took[i] = await rig.load({ way: ways[i]!, records, burst, window })
    }
    rounds.push(took)
  }
  const worth = (result: LoadResult): number => (burst === 1 ? result.medianNs : rateOf(result))
  const of = (i: number): number => median(rounds.map((took) => worth(took[i]!)))
  const cpu = (i: number): number => median(rounds.map((took) => took[i]!.cpuNs))
  const ratio = median(rounds.map(([plain, tagged]) => worth(tagged!) / worth(plain!)))
  return {
    ...{ bytes, burst, plain: of(0), tagged: of(1), ratio, floor },
    holds: burst === 1 ? ratio <= floor : ratio >= floor,
    ...{ plainCpuNs: cpu(0), taggedCpuNs: cpu(1) },
  }
}

/** One round of a flood: what the client did in it, and forged frames per second. */
interface Siege {
  readonly load: LoadResult
  readonly sent: number
  readonly refused: number
}

async function besiege(rig: TaggedRig, forgery: Forgery, records: number): Promise<Siege> {
  const before = await rig.refused()
  const flood = await rig.flood(forgery)
  const load = await rig.load({ way: 'besieged', records, ...FLOODED })
  const { sent, seconds } = await flood.end()
  const refused = (await rig.refused()) - before
  return { load, sent: sent / seconds, refused: refused / seconds }
}

async function floodOf(
  rig: TaggedRig,
  { bytes, forgery }: (typeof FLOODS)[number],
  seconds: number,
): Promise<FloodRow> {
  const wish = { way: 'besieged', records: WARM_UP, ...FLOODED } as const
  const records = roundOf(await rig.load(wish), seconds / 2)
  await besiege(rig, forgery, WARM_UP)
  const heapBefore = await rig.heapBytes()
  const rounds: { alone: LoadResult; siege: Siege }[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const alone = await rig.load({ ...wish, records })
    rounds.push({ alone, siege: await besiege(rig, forgery, records) })
  }
  const heapAfter = await rig.heapBytes()
  const of = (value: (siege: Siege) => number): number =>
    median(rounds.map(({ siege }) => value(siege)))
  const ratio = median(rounds.map(({ alone, siege }) => rateOf(siege.load) / rateOf(alone)))
  const kept = median(rounds.map(({ alone, siege }) => alone.cpuNs / siege.load.cpuNs))
  const hasRate = ratio >= KEPT || availableParallelism() < CORES
  return {
    ...{ bytes, forgery, ratio, kept, floor: KEPT, heapBefore, heapAfter },
    ...{ alone: median(rounds.map(({ alone }) => rateOf(alone))) },
    ...{ flooded: of(({ load }) => rateOf(load)), sent: of(({ sent }) => sent) },
    refused: of(({ refused }) => refused),
    again: of(({ load }) => load.again / (load.records + load.again)),
    cores: of(({ load }) => (load.cpuNs * load.records) / 1e9 / load.seconds),
    holds: kept >= KEPT && hasRate && heapAfter <= heapBefore,
  }
}

export async function benchTags(
  programs: BenchPrograms,
  folder: string,
  seconds: number,
  say: (line: string) => void,
): Promise<TagRows> {
  const build = buildOf(programs.perdured, programs.signed.trust)
  const place = join(folder, 'tags')
  mkdirSync(place, { recursive: true })
  const on = async <Row>(bytes: number, what: string, run: (rig: TaggedRig) => Promise<Row>) => {
    say(`tags, ${bytes} bytes, ${what} …`)
    const rig = await TaggedRig.start(programs, build, place, bytes)
    try {
      return await run(rig)
    } finally {
      await rig.close()
    }
  }
  const costs: CostRow[] = []
  for (const one of COSTS) {
    costs.push(await on(one.bytes, `burst ${one.burst}`, (rig) => costOf(rig, one, seconds)))
  }
  const floods: FloodRow[] = []
  for (const one of FLOODS) {
    floods.push(await on(one.bytes, `flood ${one.forgery}`, (rig) => floodOf(rig, one, seconds)))
  }
  return { costs, floods }
}

const rateText = (rate: number): string => Math.round(rate).toLocaleString('en-US')

export function tagCostTable(rows: readonly CostRow[]): string[][] {
  const head = ['bytes', 'burst', '', 'without', 'with tags', 'ratio', 'floor', '']
  const cells = rows.map((row) => {
    const isTrip = row.burst === 1
    const number = (value: number): string => (isTrip ? (value / 1000).toFixed(1) : rateText(value))
    return [
      ...[String(row.bytes), String(row.burst), isTrip ? 'µs' : 'records/s'],
      ...[number(row.plain), number(row.tagged), row.ratio.toFixed(3)],
      ...[`${isTrip ? '≤' : '≥'} ${row.floor.toFixed(2)}`, row.holds ? 'holds' : 'BROKEN'],
      ...[row.plainCpuNs, row.taggedCpuNs].map((ns) => (ns / 1000).toFixed(2)),
    ]
  })
  return [[...head, 'CPU µs', 'with tags'], ...cells]
}

export function floodTable(rows: readonly FloodRow[]): string[][] {
  const head = ['bytes', 'forged', 'records/s', 'in the flood', 'ratio', 'kept', 'floor', '']
  const more = ['forged/s', 'refused/s', 'again', 'cores', 'heap', 'and after']
  const cells = rows.map((row) => [
    ...[String(row.bytes), row.forgery, rateText(row.alone), rateText(row.flooded)],
    ...[row.ratio.toFixed(2), row.kept.toFixed(2), `≥ ${row.floor.toFixed(2)}`],
    ...[
      row.holds ? 'holds' : 'BROKEN',
      rateText(row.sent),
      rateText(row.refused),
      row.again.toFixed(3),
      row.cores.toFixed(2),
    ],
    ...[String(row.heapBefore), String(row.heapAfter)],
  ])
  return [[...head, ...more], ...cells]
}
