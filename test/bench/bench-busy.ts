/**
 * `npm run bench -- busy [--json] [--records N]`: how long a record of 64 bytes, alone, takes from
 * its arrival to its acknowledgement while the card has other work: 4,000,000 slots are made, a
 * million are looked at by SCAN, or a peer holds all that one may (burst/slice.ts, fault N8).
 *
 * Method: in one process, by the true clock. Records arrive at times that are drawn beforehand, so
 * what stands in their way when they come counts. In between, the card has its idle calls when it
 * asks for them, and who waits for the work asks again. Timed is what the board does with a burst,
 * as in bench.ts. Each load has a card of its own, which is measured without it first, in the same
 * run: the floor is a ratio to that. Node would stop some 4 ms in a hundred slices to collect what
 * the emulator leaves of calls into QuickJS, and the figures would be of that: it has much room.
 *
 * Exit codes: 0 every floor holds; 1 a floor is broken; 64 a wrong command line.
 */

import { once } from 'node:events'
import { isMainThread, Worker } from 'node:worker_threads'
import { Random } from '../../boards/emulator/base/random.ts'
import { RECEIVES, STAGING_BUFFERS } from '../../firmware/board/limits.ts'
import { strideOf } from '../../firmware/medium/region.ts'
import { u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { takeWishes } from '../support/bench/bench-arguments.ts'
import { text } from '../support/bench/table.ts'
import { type Bench, openBench } from '../support/cards/engine.ts'
import {
  Conversation,
  dataOf,
  persistAcks,
  persistFrames,
  placeAll,
  type Sent,
  sentOf,
} from '../support/cards/test-card.ts'
import { Stranger } from '../support/peers/strangers.ts'
import { renumber } from '../support/wire/renumber.ts'
import { sendFrames } from '../support/wire/requests.ts'
import { ENGINES, type Engine } from './bench-floors.ts'

/** The slowest record of a hundred may take so many times as long as without the load. */
const TIMES_QUIET = 2

/** Room for young objects, MiB. */
const YOUNG_MIB = 768

/** Records arrive so many µs apart, at least and at most. */
const GAP_LEAST_US = 200
const GAP_MOST_US = 600
/** Who waits for long work asks again after so many µs. */
const ASK_US = 50

const RECORD_BYTES = 64
const SLOTS = 1024
/** Of the part, beside the regions. */
const PART_BYTES = 1 << 20
const PEER = 77
const SEED = 1

interface Waits {
  readonly engine: Engine
  readonly what: string
  readonly records: number
  readonly quietP50Us: number
  readonly quietP99Us: number
  readonly p50Us: number
  readonly p99Us: number
  /** p99 with the load, for p99 without it. */
  readonly ratio: number
  readonly holds: boolean
}

/** A card on the true clock. */
class TimedCard extends Conversation {
  readonly bench: Bench
  private readonly began = process.hrtime.bigint()
  /** When it wants its idle call, µs. */
  private idleAtUs = Number.POSITIVE_INFINITY

  constructor(bench: Bench) {
    super((...frames) => this.serve(...frames))
    this.bench = bench
  }

  get nowUs(): number {
    return Number(process.hrtime.bigint() - this.began) / 1e3
  }

  serve(...frames: Uint8Array[]): Sent[] {
    const { machine, engine, sent } = this.bench
    sent.length = 0
    placeAll(machine, frames)
    this.waits(engine.serve(frames.length, Math.floor(this.nowUs)))
    return sent.map(sentOf)
  }

  /** Its idle call, if it is time for that. */
  idle(): void {
    if (this.nowUs >= this.idleAtUs) this.waits(this.bench.engine.idle(Math.floor(this.nowUs)))
  }

  private waits(us: number): void {
    this.idleAtUs = us > 0 ? this.nowUs + us : Number.POSITIVE_INFINITY
  }
}

/** One kind of other work. */
interface Load {
  readonly what: string
  /** Bytes of the part that it needs. */
  readonly bytes: number
  /** Made on that card; what it gives is called again and again while records come. */
  readonly begin: (card: TimedCard) => () => void
}

const bytesOf = (slots: number): number => slots * 2 * strideOf(RECORD_BYTES)

const MADE = { name: 'made', slots: 4_000_000, capacity: RECORD_BYTES }
const SCANNED = { name: 'scanned', slots: 1_000_000, capacity: RECORD_BYTES }

function scanAgainAndAgain(card: TimedCard): () => void {
  const { id } = card.provision(SCANNED)
  let from = 0
  return () => {
    const body = card.scan(id, from)
    const next = u32(body, mad.SCAN_NEXT)
    from = next < SCANNED.slots ? next : 0
  }
}

/** One peer holds all buffers of records of several packets, and all of messages, half-way. */
function holdAll(card: TimedCard): () => void {
  const region = card.open()
  const peer = new Stranger(card, PEER)
  for (let i = 0; i < STAGING_BUFFERS; i++) {
    peer.serve(persistFrames(peer.connect(256), region, i, dataOf(600, i))[0]!)
  }
  for (let i = 0; i < RECEIVES; i++) peer.serve(sendFrames(peer.connect(256), dataOf(600, i))[0]!)
  return () => {}
}

export const LOADS: readonly Load[] = [
  {
    what: '4,000,000 slots are made',
    bytes: bytesOf(MADE.slots),
    begin: (card) => () => {
      card.tryProvision(MADE)
    },
  },
  { what: '1,000,000 slots are scanned', bytes: bytesOf(SCANNED.slots), begin: scanAgainAndAgain },
  { what: 'a peer holds all it may', bytes: 0, begin: holdAll },
]

/** A region, and the record that comes next into it, again and again. */
function recordsOn(card: TimedCard): () => Uint8Array {
  const region = card.provision({ slots: SLOTS, capacity: RECORD_BYTES })
  const qp = card.connect()
  const frames = persistFrames(qp, region, 0, dataOf(RECORD_BYTES, 1))
  card.serve(...frames)
  return () => {
    renumber(frames, qp, SLOTS)
    return frames[0]!
  }
}

/** From the arrival of each record to its acknowledgement, µs, in order of size. */
function waitsOf(
  card: TimedCard,
  next: () => Uint8Array,
  count: number,
  ask: () => void,
): number[] {
  const random = new Random(SEED)
  const waits: number[] = []
  let askAtUs = card.nowUs
  for (let i = 0; i < count; i++) {
    const frame = next()
    const comesUs = card.nowUs + GAP_LEAST_US + random.below(GAP_MOST_US - GAP_LEAST_US)
    while (card.nowUs < comesUs) {
      card.idle()
      if (card.nowUs < askAtUs || card.nowUs >= comesUs) continue
      ask()
      askAtUs = card.nowUs + ASK_US
    }
    const answers = card.serve(frame)
    waits.push(card.nowUs - comesUs)
    if (persistAcks(answers)[0]?.status !== 0) throw new Error('a record was not acknowledged')
  }
  return waits.sort((a, b) => a - b)
}

const share = (waits: readonly number[], of: number): number =>
  waits[Math.min(waits.length - 1, Math.floor(waits.length * of))]!

/** What that load costs so many records on that engine. */
export async function waitsBeside(engine: Engine, load: Load, records: number): Promise<Waits> {
  const bench = await openBench(engine, PART_BYTES + load.bytes)
  const card = new TimedCard(bench)
  card.format()
  const next = recordsOn(card)
  waitsOf(card, next, records / 10, () => {})
  const quiet = waitsOf(card, next, records, () => {})
  const busy = waitsOf(card, next, records, load.begin(card))
  bench.engine.dispose()
  const ratio = share(busy, 0.99) / share(quiet, 0.99)
  return {
    ...{ engine, what: load.what, records },
    ...{ quietP50Us: share(quiet, 0.5), quietP99Us: share(quiet, 0.99) },
    ...{ p50Us: share(busy, 0.5), p99Us: share(busy, 0.99) },
    ...{ ratio, holds: ratio <= TIMES_QUIET },
  }
}

function tableOf(all: readonly Waits[]): string[][] {
  const head = [
    'engine',
    'beside it',
    'quiet p50 µs',
    'p99 µs',
    'p50 µs',
    'p99 µs',
    'ratio',
    '',
    '',
  ]
  const rows = all.map((one) => [
    ...[one.engine, one.what],
    ...[one.quietP50Us, one.quietP99Us, one.p50Us, one.p99Us].map((us) => us.toFixed(0)),
    ...[one.ratio.toFixed(2), `≤ ${TIMES_QUIET}`, one.holds ? 'holds' : 'BROKEN'],
  ])
  return [head, ...rows]
}

/** Plays it in a thread of its own, with that much room for young objects. */
async function inThread(): Promise<void> {
  const thread = new Worker(process.argv[1]!, {
    argv: process.argv.slice(2),
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB },
  })
  const [code] = (await once(thread, 'exit')) as [number]
  process.exitCode = code
}

/** Sets the process's exit code. */
export async function benchBusy(args: readonly string[]): Promise<void> {
  if (isMainThread) return await inThread()
  const wishes = takeWishes(args, { records: { standard: 10_000, least: 100 } })
  if (wishes === null) {
    process.exitCode = 64
    return
  }
  const all: Waits[] = []
  for (const engine of ENGINES) {
    for (const load of LOADS) {
      if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${engine}: ${load.what} …`)
      all.push(await waitsBeside(engine, load, wishes.records))
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
  const out = wishes.json ? JSON.stringify({ waits: all }, null, 2) : text(tableOf(all))
  process.stdout.write(`${out}\n`)
  process.exitCode = all.every(({ holds }) => holds) ? 0 : 1
}
