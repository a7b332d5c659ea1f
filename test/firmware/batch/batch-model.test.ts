/**
 * Batches against a model of them: what may be stored, what the status must say. The model knows
 * the protocol (D-10) and nothing of the firmware; every run is seeded.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { BATCH_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import {
  type BatchRecord,
  type BatchSetting,
  batchFrames,
  batchSetting,
  EXPECT,
  heldBy,
  IN_ORDER,
  NOTHING_HELD,
  type Status,
  sequenceOf,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import {
  dataOf,
  persistFrames,
  readFrame,
  type Sent,
  type TestPeer,
} from '../../support/cards/test-card.ts'

const SEED = Number(process.env.SEED ?? 20265)
const SLOTS = 24
const CAPACITY = 300

/** What a record of a batch is in the model. */
interface Wish {
  readonly slot: number
  readonly data: Uint8Array
  readonly wait: number
  /** The sequence that it expects, and after how many writes of its slot that was there; or -1. */
  readonly expect: bigint
  readonly looked: number
}

interface Wanted {
  readonly id: number
  readonly condition: number
  readonly operation: number
  readonly wishes: readonly Wish[]
  readonly durable: Set<number>
}

/** One client: its queue pair, and the batch that it is at. */
interface Client {
  readonly qp: TestPeer
  batch: Wanted | null
}

/** The slots as they must be: their data, and how often each was written. */
interface Model {
  readonly data: Uint8Array[]
  readonly writes: number[]
}

const isBad = ({ slot, data, wait }: Wish): boolean =>
  slot >= SLOTS || data.length > CAPACITY || wait > 2

/** Judges a burst as D-10 says, and changes the model. The indexes that are then durable. */
function judge(model: Model, batch: Wanted, burst: readonly number[]): void {
  let next = 0
  let broken = false
  for (const index of burst) {
    const wish = batch.wishes[index]!
    for (; next < index; next++) if (!batch.durable.has(next)) broken = true
    next = index + 1
    if (batch.durable.has(index)) continue
    const differs = batch.condition === EXPECT && model.writes[wish.slot] !== wish.looked
    if ((batch.condition === IN_ORDER && broken) || isBad(wish) || differs) {
      broken = true
      continue
    }
    batch.durable.add(index)
    write(model, wish.slot, wish.data)
  }
}

function write(model: Model, slot: number, data: Uint8Array): void {
  model.data[slot] = data
  model.writes[slot]! += 1
}

let seeds = 0

function freshData(random: Random): Uint8Array {
  seeds += 1
  const lengths = [0, 1, 63, 64, 65, 255, 256, 257, CAPACITY]
  return dataOf(lengths[random.below(lengths.length)]!, seeds)
}

/** A new batch of distinct slots; some of its records are bad, some expect what is not there. */
function wanted(one: BatchSetting, model: Model, client: Client, random: Random): Wanted {
  const condition = random.below(3)
  const slots = upTo(SLOTS)
  const wishes = upTo(1 + random.below(12)).map((): Wish => {
    const slot = slots.splice(random.below(slots.length), 1)[0]!
    const kind = random.below(24)
    const stale = kind === 3
    return {
      slot: kind === 0 ? SLOTS + slot : slot,
      data: kind === 1 ? dataOf(CAPACITY + 1, 1) : freshData(random),
      wait: kind === 2 ? 4 : 1 + random.below(2),
      expect: sequenceOf(one, slot) + (stale ? 1n << 40n : 0n),
      looked: stale ? -1 : model.writes[slot]!,
    }
  })
  const operation = client.qp.operation + 1
  client.qp.operation += wishes.length
  return { id: random.below(65536), condition, operation, wishes, durable: new Set() }
}

function framesOf(one: BatchSetting, client: Client, burst: readonly number[]): Uint8Array[] {
  const { id, condition, operation, wishes } = client.batch!
  const records = burst.map((index): BatchRecord => ({ ...wishes[index]!, index }))
  return batchFrames(client.qp, one.region, records, {
    id,
    condition,
    operation,
    count: wishes.length,
  })
}

/** What is missing, or now and then what is not as well, or a part of it. */
function burstOf(batch: Wanted, random: Random): number[] {
  const missing = upTo(batch.wishes.length).filter((i) => !batch.durable.has(i))
  const all = upTo(batch.wishes.length)
  const [list, some] = [[missing, all][random.below(2)]!, random.below(4) === 0]
  const burst = some ? list.filter(() => random.below(3) > 0) : list
  return burst.length > 0 ? burst : all
}

function expectSaid(status: Status, batch: Wanted, burst: readonly number[], what: string): void {
  expect([...status.durable], what).toEqual([...batch.durable].sort((a, b) => a - b))
  expect(status, what).toMatchObject({ id: batch.id, count: batch.wishes.length })
  const refused = burst.filter((index) => !batch.durable.has(index))
  expect(status.said === 'durable', what).toBe(refused.length === 0)
  expect(status.paeth.records, what).toBe(burst.length - refused.length)
  expect(status.paeth.all, what).toBe(batch.durable.size === batch.wishes.length)
  const waits = burst.flatMap((index) =>
    batch.durable.has(index) ? [batch.wishes[index]!.wait] : [],
  )
  expect(status.paeth.copies, what).toBe(waits.length === 0 ? 0 : Math.min(...waits))
}

/** What one client sends in a round, and what is so when the last frame of it was taken. */
interface Turn {
  readonly frames: readonly Uint8Array[]
  readonly judge: () => void
  readonly check: (sent: readonly Sent[], what: string) => void
}

function plainTurn(one: BatchSetting, model: Model, { qp }: Client, random: Random): Turn {
  const slot = random.below(SLOTS)
  const data = freshData(random)
  const frames = persistFrames(qp, one.region, slot, data)
  return { frames, judge: () => write(model, slot, data), check: () => {} }
}

function batchTurn(one: BatchSetting, model: Model, client: Client, random: Random): Turn {
  client.batch ??= wanted(one, model, client, random)
  const batch = client.batch
  const burst = burstOf(batch, random)
  const frames = framesOf(one, client, burst)
  const check = (sent: readonly Sent[], what: string): void => {
    const said = statuses(sent.filter(({ packet }) => packet.destQp === client.qp.peer))
    expect(said.length, what).toBe(1)
    expectSaid(said[0]!, batch, burst, what)
    // Duplicates change nothing, and say the same.
    const again = frames.slice(-random.below(frames.length + 1))
    for (const status of statuses(one.card.serve(...again))) expect(status, what).toEqual(said[0])
    const whole = batch.durable.size === batch.wishes.length
    if (whole || random.below(3) === 0) client.batch = null
  }
  return { frames, judge: () => judge(model, batch, burst), check }
}

/** Some clients at once, packet by packet as it happens; what comes last of one is its turn. */
function round(
  one: BatchSetting,
  model: Model,
  clients: readonly Client[],
  random: Random,
  what: string,
): void {
  const turns = clients
    .filter(() => random.below(2) === 0)
    .map((client) => (random.below(4) > 0 ? batchTurn : plainTurn)(one, model, client, random))
  const left = turns.map(({ frames }) => [...frames])
  const list: Uint8Array[] = []
  while (left.some((frames) => frames.length > 0)) {
    const i = random.below(left.length)
    if (left[i]!.length === 0) continue
    list.push(left[i]!.shift()!)
    if (left[i]!.length === 0) turns[i]!.judge()
  }
  const size = [1, 2, 5, 32][random.below(4)]!
  const sent: Sent[] = []
  for (let i = 0; i < list.length; i += size)
    sent.push(...one.card.serve(...list.slice(i, i + size)))
  for (const turn of turns) turn.check(sent, what)
}

function expectModel(one: BatchSetting, model: Model, { qp }: Client, what: string): void {
  for (let slot = 0; slot < SLOTS; slot++) {
    const sent = one.card.serve(readFrame(qp, one.region, slot, 0, CAPACITY))
    const found = Buffer.concat(sent.map(({ payload }) => payload))
    const held = new Uint8Array(CAPACITY)
    held.set(model.data[slot]!)
    expect(found.equals(held), `${what}, slot ${slot}`).toBe(true)
    for (const copy of [0, 1]) expect(sequenceOf(one, slot, copy)).toBe(sequenceOf(one, slot))
  }
}

test('P4-5, P4-6, P4-7, P4-11, P4-12, P4-14: bursts at random are judged as the model does', () => {
  for (let run = 0; run < 8; run++) {
    const random = new Random(SEED + run)
    const one = batchSetting({ slots: SLOTS, capacity: CAPACITY }, [256, 512, 1024, 4096][run % 4]!)
    const empty = new Uint8Array(0)
    const model: Model = { data: Array(SLOTS).fill(empty), writes: Array(SLOTS).fill(0) }
    const clients = upTo(3).map((i): Client => {
      return { qp: one.card.connect(one.qp.mtu, 0, 70 + i), batch: null }
    })
    for (let i = 0; i < 24; i++) {
      const what = `seed ${SEED}, run ${run}, round ${i}`
      round(one, model, clients, random, what)
      if (random.below(6) === 0) one.card.pass(random.below(BATCH_TIMEOUT_US))
      expect(heldBy(one.state), what).toEqual(NOTHING_HELD)
    }
    expectModel(one, model, clients[0]!, `seed ${SEED}, run ${run}`)
  }
})
