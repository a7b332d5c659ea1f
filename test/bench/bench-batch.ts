/**
 * `npm run bench -- batch [--json] [--seconds N]`: what a record costs in a batch (source 4)
 * against records that are persisted one by one.
 *
 * Method. Frames are made, numbered and sealed outside the timed part. Timed is all that the board
 * does with them: placing, checking the ICRC, the firmware, its command lists on the emulated
 * NVDIMM, the answers. A turn is what the initiator sends before it has to wait for an answer: one
 * record, 32 records, or a batch; every turn ends with the word that all of it is durable, which
 * is checked. The rigs take turns of a few milliseconds, so that what disturbs the machine disturbs
 * all of them, and each figure is the upper quartile; quote the ratios. Counts do not change from
 * run to run.
 *
 * Behind that the same through the driver, in virtual time on a card and a link that take time
 * (bench-card.ts): there a wait costs what a wait costs.
 */

import type { Engine } from '../../boards/emulator/run/dpu.ts'
import { fillIcrc } from '../../boards/software/icrc.ts'
import { putU16, putU24, putU32 } from '../../firmware/wire/bytes.ts'
import { PERSIST_ACK } from '../../firmware/wire/opcode.ts'
import * as pweth from '../../firmware/wire/persist.ts'
import { PAETH_FLAGS, PAETH_STATUS } from '../../firmware/wire/persist-ack.ts'
import { sleep } from '../../host-driver/base/clock.ts'
import { connect, type Region } from '../../host-driver/index.ts'
import { takeWishes } from '../support/bench/bench-arguments.ts'
import { text } from '../support/bench/table.ts'
import { type Bench, openBench } from '../support/cards/engine.ts'
import { dataOf, persistFrames, type TestPeer } from '../support/cards/test-card.ts'
import { MODEL, openTimedCard } from './bench-card.ts'

const RECORD_BYTES = 64
const SLOTS = 1024
/** Frames that one call of the firmware takes. */
const BURST = 32
/** What is timed in one piece, µs. */
const PIECE_US = 4000

/** Positions in an IPv4 WRITE_PERSIST Only. */
const BTH_AT = 42
const PSN_AT = BTH_AT + 9
const SLOT_AT = BTH_AT + 12
const PWETH_AT = BTH_AT + 28
/** And in the PERSIST_ACK that answers it. */
const PAETH_AT = BTH_AT + 16

const ALL_DURABLE = 0x80
const FLAG_BATCH = 0x08
const LAST = 0x08
const ONE = 0x04

/** How records are sent: so many before a wait, as a batch or each for itself. */
interface Mode {
  readonly name: string
  readonly records: number
  readonly batch: boolean
}

const SINGLE: Mode = { name: 'single, 1 outstanding', records: 1, batch: false }
export const MODES: readonly Mode[] = [
  SINGLE,
  { name: 'single, 32 outstanding', records: 32, batch: false },
  ...[1, 8, 32, 256].map((records) => ({ name: `batch of ${records}`, records, batch: true })),
]

export interface BatchCost {
  readonly engine: Engine
  readonly mode: string
  readonly recordsPerSecond: number
  readonly microsecondsPerRecord: number
  /** Records per second, by those of SINGLE. */
  readonly ratio: number
  readonly fencesPerRecord: number
  readonly requestsPerRecord: number
  readonly answersPerRecord: number
  readonly messagesPerRecord: number
  readonly waitsPerRecord: number
}

/** One card, and an initiator that sends in one way. */
class Rig {
  readonly mode: Mode
  readonly rates: number[] = []
  records = 0
  answers = 0
  waits = 0
  private readonly bench: Bench
  private readonly qp: TestPeer
  /** Of several turns, so that a piece has enough of them. */
  private readonly turns: readonly (readonly Uint8Array[])[]
  private readonly last: Uint8Array[] = []
  private batchId = 0
  private readonly fencesBefore: number

  private constructor(mode: Mode, bench: Bench, qp: TestPeer, rkey: number) {
    this.mode = mode
    this.bench = bench
    this.qp = qp
    const turns = Math.max(1, Math.floor(256 / mode.records))
    this.turns = Array.from({ length: turns }, () =>
      Array.from({ length: mode.records }, (_, i) => {
        return persistFrames(qp, { rkey }, i, dataOf(RECORD_BYTES, i), { psn: 0 })[0]!
      }),
    )
    this.piece(0)
    this.records = 0
    this.answers = 0
    this.waits = 0
    this.rates.length = 0
    this.fencesBefore = bench.machine.statistics.fences
  }

  static async open(engine: Engine, mode: Mode): Promise<Rig> {
    const partBytes = SLOTS * 2 * (RECORD_BYTES + 128) + 65536
    const bench = await openBench(engine, partBytes)
    bench.card.format()
    const { rkey } = bench.card.provision({ slots: SLOTS, capacity: RECORD_BYTES })
    return new Rig(mode, bench, bench.card.connect(), rkey)
  }

  get fences(): number {
    return this.bench.machine.statistics.fences - this.fencesBefore
  }

  /** So many µs of turns, and one at the least. */
  piece(us: number): void {
    let spent = 0
    let records = 0
    do {
      this.number()
      spent += this.run()
      this.check()
      records += this.turns.length * this.mode.records
    } while (spent < us)
    this.records += records
    this.rates.push((records / spent) * 1e6)
  }

  /** Numbers the frames on from the last round, and seals them. */
  private number(): void {
    const { qp, mode } = this
    for (const turn of this.turns) {
      this.batchId = (this.batchId + 1) & 0xffff
      for (const [i, frame] of turn.entries()) {
        qp.operation += 1
        putU24(frame, PSN_AT, qp.psn)
        putU32(frame, SLOT_AT, qp.operation % SLOTS)
        putU32(frame, PWETH_AT + pweth.PWETH_OPERATION_LOW, qp.operation)
        if (mode.batch) this.join(frame, i)
        fillIcrc(frame, 0, frame.length)
        qp.psn = (qp.psn + 1) & 0xffffff
      }
    }
  }

  private join(frame: Uint8Array, index: number): void {
    const { records } = this.mode
    frame[PWETH_AT + pweth.PWETH_FLAGS]! |= FLAG_BATCH
    frame[PWETH_AT + pweth.PWETH_CONDITION] =
      (pweth.CONDITION_IN_ORDER << 4) | ONE | (index === records - 1 ? LAST : 0)
    putU16(frame, PWETH_AT + pweth.PWETH_BATCH_ID, this.batchId)
    frame[PWETH_AT + pweth.PWETH_BATCH_INDEX] = index
    frame[PWETH_AT + pweth.PWETH_BATCH_COUNT] = records - 1
  }

  private run(): number {
    const { machine, engine, sent } = this.bench
    const { turns } = this
    const begun = process.hrtime.bigint()
    for (let t = 0; t < turns.length; t++) {
      const turn = turns[t]!
      for (let i = 0; i < turn.length; i += BURST) {
        const burst = Math.min(BURST, turn.length - i)
        for (let j = 0; j < burst; j++) machine.place(j, turn[i + j]!)
        engine.serve(burst, this.waits)
      }
      this.answers += sent.length
      this.waits += 1
      this.last.push(sent[sent.length - 1]!)
      sent.length = 0
    }
    return Number(process.hrtime.bigint() - begun) / 1e3
  }

  /** Each turn was answered by the word that its last record, and all before it, are durable. */
  private check(): void {
    for (const [i, frame] of this.last.entries()) {
      const sent = this.turns[i]!.at(-1)!
      const psn = frame !== undefined && equal(frame, PSN_AT, sent, PSN_AT, 3)
      const whole = psn && (frame[PAETH_AT + PAETH_FLAGS]! & ALL_DURABLE) !== 0
      const good = whole && frame[BTH_AT] === PERSIST_ACK && frame[PAETH_AT + PAETH_STATUS] === 0
      if (!good) throw new Error(`${this.mode.name}: not all of a turn is durable`)
    }
    this.last.length = 0
  }

  cost(engine: Engine, alone: number): BatchCost {
    const { records, mode } = this
    const rate = this.rate
    const answers = this.answers / records
    return {
      engine,
      mode: mode.name,
      recordsPerSecond: Math.round(rate),
      microsecondsPerRecord: 1e6 / rate,
      ratio: rate / alone,
      fencesPerRecord: this.fences / records,
      requestsPerRecord: 1,
      answersPerRecord: answers,
      messagesPerRecord: 1 + answers,
      waitsPerRecord: this.waits / records,
    }
  }

  get rate(): number {
    return [...this.rates].sort((a, b) => a - b)[Math.floor(this.rates.length * 0.75)]!
  }

  close(): void {
    this.bench.engine.dispose()
  }
}

function equal(a: Uint8Array, at: number, b: Uint8Array, to: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (a[at + i] !== b[to + i]) return false
  return true
}

/** What a record costs in each of the modes, SINGLE first; `seconds` for each of them. */
export async function batchCosts(
  engine: Engine,
  modes: readonly Mode[],
  seconds: number,
): Promise<BatchCost[]> {
  const rigs: Rig[] = []
  for (const mode of modes) rigs.push(await Rig.open(engine, mode))
  const pieces = Math.max(1, Math.round((seconds * 1e6) / PIECE_US))
  for (let i = 0; i < pieces; i++) for (const rig of rigs) rig.piece(PIECE_US)
  const costs = rigs.map((rig) => rig.cost(engine, rigs[0]!.rate))
  for (const rig of rigs) rig.close()
  return costs
}

// ---- through the driver ------------------------------------------------------------------------

const TIMED_RECORDS = 512

/** What a record costs a program, in virtual time. */
interface TimedCost {
  readonly mode: string
  readonly messages: number
  readonly waits: number
  readonly fences: number
  readonly microsecondsPerRecord: number
  /** Records per second, by those of SINGLE. */
  readonly ratio: number
}

/** Persists records `from` to `from + count`; how often an answer was waited for. */
async function send(region: Region, mode: Mode, from: number): Promise<number> {
  const { records, batch: asBatch } = mode
  const slots = Array.from({ length: records }, (_, i) => (from + i) % SLOTS)
  const data = new Uint8Array(RECORD_BYTES).fill(7)
  if (!asBatch) {
    await Promise.all(slots.map((slot) => region.persist(slot, data).persisted))
    return 1
  }
  const batch = region.batch({ condition: 'inOrder' })
  for (const slot of slots) batch.persist(slot, data)
  const { all, waits } = await batch.commit()
  if (!all) throw new Error(`${mode.name}: not all of it is durable`)
  return waits
}

/** The modes through the driver, on a card and a link that take time; SINGLE first. */
export async function timedCosts(modes: readonly Mode[]): Promise<TimedCost[]> {
  const costs: TimedCost[] = []
  for (const mode of modes) {
    const card = openTimedCard(1 << 20)
    const dpu = await connect(card.wire, { seed: 1 })
    await dpu.format()
    const region = await dpu.provision({ name: 'r', slots: SLOTS, capacity: RECORD_BYTES })
    await send(region, mode, 0)
    await sleep(card.wire, 1000)
    let messages = 0
    card.onFrame = () => {
      messages += 1
    }
    const fences = card.machine.statistics.fences
    const began = card.clock.nowUs
    let waits = 0
    for (let i = 0; i < TIMED_RECORDS; i += mode.records) {
      waits += await send(region, mode, i)
      // The CPU sees the completion, and decides what comes next.
      await sleep(card.wire, MODEL.hostUs)
    }
    const spent = card.clock.nowUs - began
    await sleep(card.wire, 1000)
    const microsecondsPerRecord = spent / TIMED_RECORDS
    costs.push({
      mode: mode.name,
      messages: messages / TIMED_RECORDS,
      waits: waits / TIMED_RECORDS,
      fences: (card.machine.statistics.fences - fences) / TIMED_RECORDS,
      microsecondsPerRecord,
      ratio: (costs[0]?.microsecondsPerRecord ?? microsecondsPerRecord) / microsecondsPerRecord,
    })
    card.close()
  }
  return costs
}

/** What must hold of a batch of 32, whatever the machine. */
interface Floor {
  readonly what: string
  readonly value: number
  readonly least?: number
  readonly most?: number
  readonly ok: boolean
}

const FLOOR_MODE = 'batch of 32'
const RATIO_LEAST = 2
const FENCES_MOST = 0.125
const MESSAGES_MOST = 1.1

export function floorsOf(costs: readonly BatchCost[]): Floor[] {
  return costs
    .filter(({ mode }) => mode === FLOOR_MODE)
    .flatMap(({ engine, ratio, fencesPerRecord, messagesPerRecord }) => [
      least(`${engine}: records/s by those of ${SINGLE.name}`, ratio, RATIO_LEAST),
      most(`${engine}: fences per record`, fencesPerRecord, FENCES_MOST),
      most(`${engine}: messages per record`, messagesPerRecord, MESSAGES_MOST),
    ])
}

function least(what: string, value: number, bound: number): Floor {
  return { what, value, least: bound, ok: value >= bound }
}

function most(what: string, value: number, bound: number): Floor {
  return { what, value, most: bound, ok: value <= bound }
}

const HEAD = ['sent', 'engine', 'records/s', '× single', 'µs/rec', 'fences', 'acks', 'waits']

function tableOf(costs: readonly BatchCost[]): string[][] {
  const rows = costs.map((cost) => [
    cost.mode,
    cost.engine,
    cost.recordsPerSecond.toLocaleString('en-US'),
    cost.ratio.toFixed(2),
    cost.microsecondsPerRecord.toFixed(2),
    cost.fencesPerRecord.toFixed(3),
    cost.answersPerRecord.toFixed(3),
    cost.waitsPerRecord.toFixed(3),
  ])
  return [HEAD, ...rows]
}

function timedTable(costs: readonly TimedCost[]): string[][] {
  const head = ['through the driver', 'µs/rec', '× single', 'fences', 'msgs', 'waits']
  const rows = costs.map((cost) => [
    cost.mode,
    cost.microsecondsPerRecord.toFixed(2),
    cost.ratio.toFixed(2),
    cost.fences.toFixed(3),
    cost.messages.toFixed(3),
    cost.waits.toFixed(3),
  ])
  return [head, ...rows]
}

function floorLines(floors: readonly Floor[]): string {
  return floors
    .map(({ what, value, ok, ...bound }) => {
      const asked = bound.least === undefined ? `at most ${bound.most}` : `at least ${bound.least}`
      return `${ok ? 'ok    ' : 'MISSED'} ${what}: ${value.toFixed(3)}, ${asked}`
    })
    .join('\n')
}

/** The subcommand. Exit code 1 where a floor is missed. */
export async function benchBatch(args: readonly string[]): Promise<void> {
  const wishes = takeWishes(args, { seconds: { standard: 1 } })
  if (wishes === null) {
    process.exitCode = 64
    return
  }
  const { seconds, json } = wishes
  const costs: BatchCost[] = []
  for (const engine of ['node', 'quickjs'] as const) {
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${engine} …`)
    costs.push(...(await batchCosts(engine, MODES, seconds)))
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
  const timed = await timedCosts(MODES)
  const floors = floorsOf(costs)
  const ok = floors.every((floor) => floor.ok)
  const result = {
    level: '2of2',
    recordBytes: RECORD_BYTES,
    model: MODEL,
    ok,
    floors,
    costs,
    timed,
  }
  const parts = [text(tableOf(costs)), text(timedTable(timed)), floorLines(floors)]
  const out = json ? JSON.stringify(result, null, 2) : parts.join('\n\n')
  process.stdout.write(`${out}\n`)
  if (!ok) process.exitCode = 1
}
