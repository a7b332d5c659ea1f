/**
 * Batches of records that go through the caches of the host (source 2, flow 2; source 4; S1-M5).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CUT_STRATEGIES } from '../../../boards/emulator/medium/power-cut.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import {
  BATCH_CHUNK_BYTES,
  BATCH_CHUNKS,
  BATCH_CHUNKS_EACH,
  BATCH_TIMEOUT_US,
  BURST_FRAMES,
  FLUSH_TIMEOUT_US,
  LINE_BYTES,
  THROUGH_JOBS,
  THROUGH_SINGLES,
} from '../../../firmware/board/limits.ts'
import { FURTHER } from '../../../firmware/burst/through-job.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { OPERATION_WINDOW } from '../../../firmware/medium/operation-line.ts'
import { HOST_DATA_AT, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { MECHANISM_CPU_FLUSH } from '../../../firmware/wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../../../firmware/wire/persist-query.ts'
import type { FlushAgent } from '../../../host-driver/target/flush-agent.ts'
import {
  type BatchOptions,
  type BatchRecord,
  type BatchSetting,
  batchFrames,
  batchQuery,
  CONDITIONS,
  EXPECT,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  type Status,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { BYTES_AT } from '../../support/cards/bytes-card.ts'
import {
  type Agent,
  agentOfNewHost,
  attachedAgent,
  believe,
  type Crash,
  cutPower,
  explorePlaced,
  HOST_BYTES,
  NOTHING,
  PART_BYTES,
  type Placed,
  restarted,
  restartHost,
  type Scenario,
  SEED,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type RegionShape,
  type Sent,
  TestCard,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { judgedGuard } from '../../support/judges/crc32c.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import {
  disconnect,
  flushFrame,
  lines,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

/** RNR NAKs: the one of 0.64 ms, and the first one of who waits for jobs. */
const RNR = 'NAK 0x2c 0'
const RNR_SOON = 'NAK 0x22 0'

/** The lane of the first job. */
const FIRST_LANE = LANES_AT / LINE_BYTES + BURST_FRAMES

type Through = BatchSetting &
  Placed & {
    readonly agent: Agent
    /** Everything that has left the card. */
    readonly left: Sent[]
  }

/** A card with a region through the caches of its host, whose state can be looked at. */
function through(shape: RegionShape = {}, mtu = 4096, partBytes = PART_BYTES): Through {
  const host = new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }), platform: DDIO_ON })
  let state: BatchSetting['state'] | null = null
  const left: Sent[] = []
  const card = new TestCard(partBytes, {
    host,
    leaves: (frame) => left.push(frame),
    ram: new HostRam(1 << 17, host.link),
    start: (machine) =>
      bootDirect(machine, (seen) => {
        state = seen
      }),
  }).format()
  believe(card, PLACEMENT_THROUGH)
  const agent = attachedAgent(card)
  const region = card.provision({ slots: 48, ...shape, placement: PLACEMENT_THROUGH })
  const made = { card, host, region, qp: card.connect(mtu), agent, state: state!, left }
  run(made)
  return made
}

/** Everything that the card sends while it and the agent work, until neither has anything to do. */
function run({ card }: Pick<Placed, 'card'>, agent?: FlushAgent): Sent[]
function run(made: Pick<Through, 'card' | 'agent'>): Sent[]
function run(made: { card: TestCard; agent?: FlushAgent }, agent = made.agent!): Sent[] {
  const all: Sent[] = []
  const { card } = made
  for (let quiet = 0; quiet < 3 && !card.machine.dead; ) {
    const done = agent.poll()
    card.sent = []
    card.idle()
    all.push(...card.sent)
    quiet = done === 0 && card.waitUs !== 1 && card.sent.length === 0 ? quiet + 1 : 0
  }
  return all
}

/** Lets time go by until the card has given everything up that waits for an agent. */
function waitLong({ card }: Pick<Placed, 'card'>): Sent[] {
  return upTo(8).flatMap(() => card.pass(FLUSH_TIMEOUT_US))
}

/** New records for these slots; they expect that nothing was ever written there. */
function recordsOf(slots: readonly number[], seed = 1, length = 64): BatchRecord[] {
  return slots.map((slot) => ({ slot, data: dataOf(length, seed + slot), expect: 0n }))
}

/** Which of the records stand in their slots. */
function found(card: TestCard, records: readonly BatchRecord[], region = card.open()): number[] {
  const qp = card.connect()
  return records.flatMap(({ slot, data }, i) => {
    const bytes = card.read(qp, region, slot, VIEW_DATA, data.length)
    return bytes !== null && Buffer.compare(bytes, data) === 0 ? [i] : []
  })
}

/** Jobs that are neither free nor ended, and whose records are those of batches. */
function busy({ state }: Through): number {
  return state.through.jobs.filter((job) => job.state > 0 && job.state < 6).length
}

function send(made: Through, records: readonly BatchRecord[], options: BatchOptions = {}): Sent[] {
  return made.card.serve(...batchFrames(made.qp, made.region, records, options))
}

/** The only status that there is. */
function only(sent: readonly Sent[]): Status {
  const all = statuses(sent)
  expect(all).toHaveLength(1)
  return all[0]!
}

describe('S1-M5: a batch through the host’s caches', () => {
  for (const [name, condition] of Object.entries(CONDITIONS)) {
    test(`P4-8, P2-24: ${name}: 40 records over 16 jobs, one status behind the last bell`, () => {
      const made = through()
      const { card, region, qp, agent } = made
      const records = recordsOf(upTo(40))
      // More than one burst of frames: what is not handed on is moved out of them.
      const options = { condition, id: 7 }
      const sent = send(made, records, options)
      expect(statuses(sent)).toEqual([])
      const [, query] = card.serve(batchQuery({ ...qp }, 7))
      expect(query ?? statuses(card.sent)[0]!.paeth.status).toBe(QUERY_NOT_KNOWN)
      qp.psn += 1
      // What is received now lies where records of the batch have come.
      const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
      const other = card.connect(4096, 0, 99)
      card.serve(...upTo(32).flatMap((i) => writeFrames(other, bytes, 64 * i, dataOf(64, 99))))
      const status = only(run(made))
      expect(status).toMatchObject({ said: 'durable', durable: upTo(40), id: 7, count: 40 })
      expect(status.paeth).toMatchObject({ mechanism: MECHANISM_CPU_FLUSH, copies: 2 })
      expect(agent.finished).toBe(1 + 2 * 40)
      expect(found(card, records, region)).toEqual(upTo(40))
      expect(heldBy(made.state)).toEqual(NOTHING_HELD)
      expect([made.state.batches.handing, busy(made)]).toEqual([0, 0])
      expect(statuses(card.serve(batchQuery(qp, 7)))[0]).toMatchObject({ durable: upTo(40) })
      cutPower(made, NOTHING)
      expect(found(restarted(made), records)).toEqual(upTo(40))
    })

    test(`X-3: ${name}: the last record again, and all of it again, store nothing`, () => {
      const made = through()
      const { card, region, qp, agent } = made
      const records = recordsOf(upTo(5))
      const frames = batchFrames(qp, region, records, { condition, operation: 1 })
      card.serve(...frames)
      // Before the status there is nothing to repeat, and behind it the status.
      expect(statuses(card.serve(frames.at(-1)!))).toEqual([])
      const status = only(run(made))
      expect(only(card.serve(frames.at(-1)!))).toEqual(status)
      const { finished } = agent
      const other = card.connect()
      const again = records.map((one) => ({ ...one, pweth: { repetition: true } }))
      const sent = card.serve(...batchFrames(other, region, again, { condition, operation: 1 }))
      expect(only([...sent, ...run(made)])).toMatchObject({ said: 'durable', durable: upTo(5) })
      expect(agent.finished).toBe(finished)
      expect(card.counter('DUPLICATE')).toBe(5 + 2)
    })
  }

  test('X-3: what others make durable while it waits is not stored again, though forgotten', () => {
    const made = through({ slots: 60 })
    const { card, region, agent } = made
    const records = recordsOf(upTo(40))
    send(made, records, { condition: IN_ORDER, operation: 101 })
    const other = card.connect()
    const serve = (...frames: Uint8Array[]): void => {
      expect(lines(card.serve(...frames), other.psn).join()).not.toContain('NAK')
      for (let i = 0; i < 4; i++) {
        agent.poll()
        card.idle()
      }
    }
    // The last record of it again, and then a newer one of the same slot.
    const { data } = records[39]!
    serve(...persistFrames(other, region, 39, data, { operation: 140, repetition: true }))
    const newer = dataOf(64, 200)
    serve(...persistFrames(other, region, 39, newer, { operation: 141 }))
    // Many more, with a gap before them: the table forgets those.
    for (let operation = 143; operation < 160 + OPERATION_WINDOW; operation += 12) {
      const more = upTo(12).flatMap((i) =>
        persistFrames(other, region, 40 + i, dataOf(64, 3), { operation: operation + i }),
      )
      serve(...more)
    }
    expect(statuses(made.left)).toEqual([])
    expect(only(run(made))).toMatchObject({ said: 'durable', durable: upTo(40) })
    expect(card.read(card.connect(), region, 39, VIEW_DATA, 64)).toEqual(newer)
  })

  test('records of several packets, which are longer than a frame, and of no bytes', () => {
    const made = through({ slots: 4, capacity: 1500 }, 256)
    const records = [1500, 0, 257, 64].map((length, slot) => ({ slot, data: dataOf(length, slot) }))
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      const sent = send(made, records, { condition })
      expect(only([...sent, ...run(made)])).toMatchObject({ said: 'durable', durable: upTo(4) })
    }
    expect(found(made.card, records, made.region)).toEqual(upTo(4))
    expect(heldBy(made.state)).toEqual(NOTHING_HELD)
  })

  test('it leaves jobs to single records, which are not told later for it', () => {
    const made = through()
    const { card, region, state } = made
    send(made, recordsOf(upTo(40)))
    expect(busy(made)).toBe(THROUGH_JOBS - THROUGH_SINGLES)
    const other = card.connect(4096, 0, 99)
    const singles = upTo(THROUGH_SINGLES).flatMap((i) =>
      persistFrames(other, region, 40 + i, dataOf(64, i)),
    )
    expect(lines(card.serve(...singles), other.psn).join()).not.toContain('NAK')
    const order = run(made).flatMap(({ paeth }) => (paeth === null ? [] : [paeth.batch]))
    expect(order).toEqual([...new Array(THROUGH_SINGLES).fill(false), true])
    expect(state.through.jobs.every((job) => job.state === 0)).toBe(true)
  })

  test('nor do single records keep it out: a job that is free again is its own first', () => {
    const made = through()
    const { card, region, agent } = made
    const other = card.connect(4096, 0, 99)
    const single = (i: number): Uint8Array =>
      persistFrames(other, region, 40 + (i % 8), dataOf(64, i))[0]!
    card.serve(...upTo(THROUGH_JOBS).map(single))
    expect(busy(made)).toBe(THROUGH_JOBS)
    const sent = send(made, recordsOf(upTo(24)))
    // As many as there could ever be, at every turn.
    let next = single(0)
    for (let turn = 0; turn < 80 && statuses(sent).length === 0; turn++) {
      agent.poll()
      sent.push(...card.pass(10))
      for (let isTaken = true; isTaken; ) {
        const answer = card.serve(next)
        sent.push(...answer)
        isTaken = !lines(answer, 0).join().includes('NAK')
        if (isTaken) next = single(turn)
      }
    }
    expect(only(sent)).toMatchObject({ said: 'durable', durable: upTo(24) })
  })

  test('two batches share the jobs', () => {
    const made = through()
    const { card, region } = made
    const other = card.connect(4096, 0, 99)
    const one = send(made, recordsOf(upTo(20)))
    one.push(...card.serve(...batchFrames(other, region, recordsOf(upTo(40, 20)), { id: 2 })))
    const all = statuses([...one, ...run(made)])
    expect(all.map(({ said, durable }) => [said, durable.length])).toEqual([
      ['durable', 20],
      ['durable', 20],
    ])
  })

  test('a short one has its turn beside a long one, however slow the host is', () => {
    for (const isFirst of [true, false]) {
      const made = through()
      const { card, region, agent, qp } = made
      const other = card.connect(4096, 0, 99)
      const [long, short] = isFirst ? [qp, other] : [other, qp]
      const sent = card.serve(...batchFrames(long, region, recordsOf(upTo(40)), { id: 1 }))
      const few = recordsOf(upTo(43, 40))
      sent.push(...card.serve(...batchFrames(short, region, few, { id: 2 })))
      for (let i = 0; i < 20; i++) {
        agent.poll()
        sent.push(...card.pass((3 * FLUSH_TIMEOUT_US) / 5))
      }
      expect(statuses(sent).map(({ id, said }) => [id, said])).toEqual([
        [2, 'durable'],
        [1, 'durable'],
      ])
    }
  })

  test('levels: the least copies that one of its records waits for', () => {
    for (const [waits, copies] of [
      [[1, 1, 1], 1],
      [[2, 1, 3], 1],
      [[3, 3, 2], 2],
    ] as const) {
      const made = through({ copies: 3 })
      const records = recordsOf(upTo(3)).map((one, i) => ({ ...one, wait: waits[i]! }))
      const sent = send(made, records, { condition: IN_ORDER })
      const status = only([...sent, ...run(made)])
      expect(status.paeth).toMatchObject({ status: 0, copies })
    }
  })
})

describe('S1-M5: what is refused', () => {
  const broken = (records: BatchRecord[], at: number): BatchRecord[] =>
    records.map((one, i) => ({ ...one, guard: judgedGuard(one.data) ^ (i === at ? 1 : 0) }))

  for (const [name, condition, durable] of [
    ['independent', INDEPENDENT, [0, 1, 3, 4]],
    ['expect', EXPECT, [0, 1, 3, 4]],
    ['inOrder', IN_ORDER, [0, 1]],
  ] as const) {
    test(`P4-9: ${name}: a guard that differs, in the middle, and what comes again`, () => {
      const made = through()
      const { card, region, qp, agent } = made
      const records = recordsOf(upTo(5))
      const options = { condition, operation: 11, id: 3 }
      const sent = send(made, broken(records, 2), options)
      const status = only([...sent, ...run(made)])
      expect(status).toMatchObject({ said: 'GUARD', durable })
      expect(found(card, records, region)).toEqual(durable)
      const rest = upTo(5).filter((i) => !(durable as readonly number[]).includes(i))
      const again = rest.map((index) => ({
        ...records[index]!,
        index,
        pweth: { repetition: true },
      }))
      const { finished } = agent
      const frames = batchFrames(qp, region, again, { ...options, count: 5 })
      const next = only([...card.serve(...frames), ...run(made)])
      expect(next).toMatchObject({ said: 'durable', durable: upTo(5) })
      expect(agent.finished - finished).toBe(2 * rest.length)
      expect(found(card, records, region)).toEqual(upTo(5))
      expect(heldBy(made.state)).toEqual(NOTHING_HELD)
    })
  }

  test('P4-11: what a slot holds is judged when its turn comes, behind earlier ones', () => {
    for (const expects of ['old', 'new'] as const) {
      const made = through()
      const { card, host, region, qp } = made
      const sequence = (): bigint => {
        const { live } = host.part
        return new DataView(live.buffer, live.byteOffset).getBigUint64(HOST_DATA_AT + 32, true)
      }
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 90)))
      run(made)
      const old = sequence()
      const other = card.connect(4096, 0, 99)
      card.serve(...persistFrames(other, region, 0, dataOf(64, 91)))
      const expect0 = expects === 'old' ? old : old + 1n
      const records = recordsOf([0, 1]).map((one, i) =>
        i === 0 ? { ...one, expect: expect0 } : one,
      )
      const status = only([...send(made, records, { condition: EXPECT }), ...run(made)])
      const durable = expects === 'old' ? [1] : [0, 1]
      expect(status).toMatchObject({ durable, said: expects === 'old' ? 'CONDITION' : 'durable' })
      expect(found(card, records, region)).toEqual(durable)
    }
  })

  test('S1-M5, P4-13: in order, one is under way at a time; no other has touched a lane', () => {
    const made = through()
    const { card, agent, state } = made
    send(made, recordsOf(upTo(6)), { condition: IN_ORDER })
    for (let i = 0; i < 60; i++) {
      const own = state.through.jobs.filter((job) => job.state > 0 && job.state < 6)
      const waits = own.filter((job) => !job.told)
      expect(waits.length).toBeLessThanOrEqual(1)
      agent.poll()
      card.idle()
    }
    expect(agent.finished).toBe(1 + 12)
  })

  test('a length that does not fit, and a slot that there is not, are refused alone', () => {
    for (const [condition, durable] of [
      [INDEPENDENT, [0, 3]],
      [IN_ORDER, [0]],
    ] as const) {
      const made = through()
      const records = recordsOf(upTo(4))
      records[1] = { slot: 1, data: dataOf(4000, 1) }
      records[2] = { slot: 4000, data: dataOf(64, 1) }
      const status = only([...send(made, records, { condition }), ...run(made)])
      expect(status).toMatchObject({ said: 'RECORD_LENGTH', durable })
    }
  })

  test('BATCH_FIELDS, BATCH_TIME: whole, and nothing of it has reached the host', () => {
    for (const reason of ['BATCH_FIELDS', 'BATCH_TIME']) {
      const made = through()
      const before = made.host.part.live.slice()
      const ends = reason === 'BATCH_FIELDS'
      const sent = send(made, recordsOf(ends ? [1, 2, 1] : [1, 2, 3]), { ends })
      if (!ends) sent.push(...made.card.pass(BATCH_TIMEOUT_US))
      expect(only(sent)).toMatchObject({ said: reason, durable: [] })
      expect(Buffer.compare(made.host.part.live, before)).toBe(0)
      expect(heldBy(made.state)).toEqual(NOTHING_HELD)
    }
  })

  test('refused whole while a message of it stands half-way: nobody is kept awake for that', () => {
    const made = through({ slots: 8, capacity: 512 }, 256)
    const { card, region, qp } = made
    const options = { count: 8, operation: 1, ends: false }
    send(made, recordsOf(upTo(2)), options)
    // A FLUSH has those handed on; then a slot comes twice, and not all of that record.
    const flush = flushFrame(qp, region, { selectivity: 1 })
    card.serve(flush)
    run(made)
    card.serve(flush)
    const twice = [64, 400].map((length, i) => ({ slot: 5, data: dataOf(length, i), index: 2 + i }))
    card.serve(...batchFrames(qp, region, twice, options).slice(0, 2))
    for (let i = 0; i < 30; i++) {
      card.pass(100_000)
      expect(card.waitUs).toBeGreaterThan(1000)
    }
  })

  test('BATCH_ROOM: without a chunk what lies in frames is refused, what has a job is not', () => {
    const made = through()
    const { state } = made
    state.batches.chunkTaken.fill(1)
    const records = recordsOf(upTo(20))
    const sent = send(made, records, { condition: INDEPENDENT })
    state.batches.chunkTaken.fill(0)
    const first = THROUGH_JOBS - THROUGH_SINGLES
    expect(only([...sent, ...run(made)])).toMatchObject({
      said: 'BATCH_ROOM',
      durable: upTo(first),
    })
    expect(heldBy(made.state)).toEqual(NOTHING_HELD)
  })

  test('BATCH_ROOM: where batches that are not whole have every chunk, likewise', () => {
    const made = through({}, 4096, 1 << 21)
    const { card } = made
    // A record of more than half a chunk has it for itself.
    const data = dataOf(BATCH_CHUNK_BYTES / 2, 1)
    const fill = card.provision({ name: 'fill', slots: BATCH_CHUNKS_EACH, capacity: data.length })
    const large = upTo(BATCH_CHUNKS_EACH).map((slot) => ({ slot, data, expect: 0n }))
    for (let i = 0; i < BATCH_CHUNKS / BATCH_CHUNKS_EACH; i++) {
      const frames = batchFrames(card.connect(), fill, large, { count: 256, ends: false })
      for (let at = 0; at < frames.length; at += 32) card.serve(...frames.slice(at, at + 32))
    }
    const sent = send(made, recordsOf(upTo(20)), { condition: INDEPENDENT })
    const first = THROUGH_JOBS - THROUGH_SINGLES
    const status = only([...sent, ...run(made)])
    expect(status).toMatchObject({ said: 'BATCH_ROOM', durable: upTo(first) })
  })

  test('BATCH_TIME: without a job for a second the rest is refused, and others go on', () => {
    const made = through()
    const { card, region, state } = made
    // They have asked for what is never finished, and are never given up.
    for (const job of state.through.jobs) {
      const { life, asked } = state.through.agent
      Object.assign(job, { state: FURTHER, told: true, asked: life, request: asked + 1 })
      job.sinceUs = Infinity
    }
    const sent = send(made, recordsOf(upTo(20)))
    sent.push(...card.pass(BATCH_TIMEOUT_US - 1000))
    expect(statuses(sent)).toEqual([])
    sent.push(...card.pass(1000), ...card.pass(10))
    expect(only(sent)).toMatchObject({ said: 'BATCH_TIME', durable: [] })
    expect(heldBy(state)).toEqual(NOTHING_HELD)
    for (const job of state.through.jobs) job.state = 0
    expect(only([...send(made, recordsOf(upTo(20))), ...run(made)]).durable).toEqual(upTo(20))
    expect(found(card, recordsOf(upTo(20)), region)).toEqual(upTo(20))
  })

  test('D-13: a part that is not armed takes none, and gives up what waits', () => {
    const made = through()
    const { card, agent } = made
    send(made, recordsOf(upTo(20)), { condition: IN_ORDER })
    for (let i = 0; i < 3; i++) {
      agent.poll()
      card.idle()
    }
    card.nvdimm.armed = false
    const status = only(run(made))
    expect(status.said).toBe('IN_DOUBT')
    expect(status.durable).toEqual(upTo(status.durable.length))
    expect(heldBy(made.state)).toEqual(NOTHING_HELD)
  })
})

describe('S1-M5: order on its queue pair', () => {
  test('a record of the same slot comes again until that of the batch has a job', () => {
    const made = through()
    const { card, region, qp } = made
    send(made, recordsOf(upTo(20)))
    const late = persistFrames(qp, region, 19, dataOf(64, 77))
    expect(lines(card.serve(...late), qp.psn - 1)).toEqual([RNR])
    expect(only(run(made))).toMatchObject({ said: 'durable', durable: upTo(20) })
    card.serve(...late)
    run(made)
    expect(card.read(qp, region, 19, VIEW_DATA, 64)).toEqual(dataOf(64, 77))
  })

  test('so does a plain WRITE of one, and then it waits for its own bells', () => {
    const made = through()
    const { card, region, qp } = made
    send(made, recordsOf(upTo(20)))
    const { psn } = qp
    const late = writeFrames(qp, region, 0, dataOf(64, 77), { vaHigh: 19 })
    expect(lines(card.serve(...late), psn)).toEqual([RNR])
    expect(only(run(made))).toMatchObject({ said: 'durable', durable: upTo(20) })
    expect(card.read(card.connect(4096, 0, 99), region, 19, VIEW_DATA, 64)).toEqual(dataOf(64, 20))
    for (let i = 0; i < 3; i++) {
      card.serve(...late)
      run(made)
    }
    expect(card.read(card.connect(4096, 0, 98), region, 19, VIEW_DATA, 64)).toEqual(dataOf(64, 77))
  })

  test('also while some of the batch is to come: that goes on afterwards, under one status', () => {
    const made = through()
    const { card, region, qp } = made
    const records = recordsOf(upTo(6))
    const options = { condition: IN_ORDER, operation: 1, count: 6 }
    send(made, records.slice(0, 4), { ...options, ends: false })
    // The one of another slot overtakes what is collected, this one must not.
    const late = [
      ...persistFrames(qp, region, 30, dataOf(64, 76), { operation: 100 }),
      ...persistFrames(qp, region, 3, dataOf(64, 77), { operation: 101 }),
    ]
    const sent = card.serve(...late)
    expect(lines(sent, qp.psn - 2).at(-1)).toBe('NAK 0x2c 1')
    sent.push(...run(made))
    expect(statuses(sent)).toEqual([])
    sent.push(...card.serve(late[1]!))
    const last = records.slice(4).map((one, i) => ({ ...one, index: 4 + i }))
    sent.push(...send(made, last, options), ...run(made))
    expect(only(sent)).toMatchObject({ said: 'durable', durable: upTo(6) })
    expect(card.read(qp, region, 3, VIEW_DATA, 64)).toEqual(dataOf(64, 77))
    expect(heldBy(made.state)).toEqual(NOTHING_HELD)
  })

  test('X-1: FLUSH and a solicited message wait for all of it, handed on or not', () => {
    for (const kind of ['flush', 'message'] as const) {
      const made = through()
      const { card, qp, region, agent } = made
      const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
      send(made, recordsOf(upTo(20)), { condition: IN_ORDER })
      const { psn } = qp
      const frames =
        kind === 'flush'
          ? [flushFrame(qp, bytes, { selectivity: 1 })]
          : sendFrames(qp, dataOf(8, 1), { solicited: true })
      while (agent.finished < 1 + 2 * 20) {
        expect(
          lines(card.serve(...frames), psn)
            .filter((one) => one !== RNR_SOON)
            .join(),
        ).toBe('')
        agent.poll()
      }
      run(made)
      expect(lines(card.serve(...frames), psn).join()).not.toContain('NAK')
      expect(found(card, recordsOf(upTo(20)), region)).toEqual(upTo(20))
    }
  })

  test('X-1: FLUSH waits, too, while others have every job and none of the batch is begun', () => {
    const made = through()
    const { card, qp, region } = made
    const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const other = card.connect(4096, 0, 99)
    const singles = upTo(THROUGH_JOBS).flatMap((i) =>
      persistFrames(other, region, 40 + (i % 8), dataOf(64, i)),
    )
    card.serve(...singles)
    send(made, recordsOf(upTo(2)))
    const { psn } = qp
    const flush = flushFrame(qp, bytes, { selectivity: 1 })
    expect(lines(card.serve(flush), psn)).toEqual([RNR_SOON])
    run(made)
    expect(lines(card.serve(flush), psn).join()).not.toContain('NAK')
  })

  test('P2-25: the next batch of its queue pair comes again until the status has left', () => {
    const made = through()
    const { card, region, qp } = made
    const sent = send(made, recordsOf(upTo(20)))
    const { psn } = qp
    const next = batchFrames(qp, region, recordsOf(upTo(3), 70), { id: 2 })
    expect(lines(card.serve(...next), psn)).toEqual([RNR])
    sent.push(...run(made), ...card.serve(...next), ...run(made))
    expect(statuses(sent).map(({ id, said }) => [id, said])).toEqual([
      [1, 'durable'],
      [2, 'durable'],
    ])
  })

  test('a batch to elsewhere, too; and one whose id comes in between is not lost', () => {
    const made = through()
    const { card, region, qp } = made
    const local = card.provision({ name: 'local' })
    const sent = send(made, recordsOf(upTo(4)), { ends: false, count: 8 })
    // A FLUSH has what is collected handed on; then its sender loses its way.
    const flush = flushFrame(qp, local, { selectivity: 1 })
    sent.push(...card.serve(flush), ...run(made), ...card.serve(flush))
    sent.push(...send(made, recordsOf([5]), { ends: false, count: 8, operation: 5 }))
    const other = batchFrames(qp, local, recordsOf(upTo(2)), { id: 9 })
    sent.push(...card.serve(...other), ...run(made), ...card.serve(...other))
    expect(found(card, recordsOf(upTo(4)), region)).toEqual(upTo(4))
    const [first, second] = statuses(sent)
    expect(first).toMatchObject({ id: 1, durable: upTo(4) })
    expect(second!.id).toBe(9)
    expect(heldBy(made.state)).toEqual(NOTHING_HELD)
  })
})

test('S1-M5: a batch is refused by STAGING where no job is left before the next start', () => {
  const made = through()
  const { card, region } = made
  for (let i = 0; i < THROUGH_JOBS; i++) card.nvdimm.refuseWrites(FIRST_LANE + i)
  const other = card.connect(4096, 0, 99)
  for (let i = 0; i < THROUGH_JOBS; i++) {
    card.serve(...persistFrames(other, region, 40, dataOf(64, i)))
    run(made)
  }
  const records = recordsOf(upTo(3))
  for (const condition of [INDEPENDENT, IN_ORDER]) {
    const sent = [...send(made, records, { condition }), ...run(made)]
    expect(only(sent)).toMatchObject({ said: 'STAGING', durable: [] })
  }
  expect(found(card, records, region)).toEqual([])
  expect(heldBy(made.state)).toEqual(NOTHING_HELD)
})

describe('S1-M5, G2-5: what ends under a batch', () => {
  for (const [name, condition] of Object.entries(CONDITIONS)) {
    test(`${name}: its queue pair, at every step: no job and no chunk stays taken`, () => {
      let isOver = false
      for (let step = 0; !isOver; step++) {
        const made = through()
        const { card, region, qp, agent } = made
        const records = recordsOf(upTo(20))
        const sent = send(made, records, { condition })
        for (let i = 0; i < step; i++) {
          agent.poll()
          sent.push(...card.pass(10))
        }
        isOver = statuses(sent).length > 0
        disconnect(card, qp)
        // Whoever comes into its place has a batch of his own, and hears of that alone.
        const next = card.connect(4096, 0, 99)
        const own = batchFrames(next, region, recordsOf(upTo(3, 0), 200), { id: 5 })
        const later = run(made)
        expect(statuses(later), `step ${step}`).toEqual([])
        const stored = found(card, records, region)
        if (condition === IN_ORDER) expect(stored).toEqual(upTo(stored.length))
        expect(only([...card.serve(...own), ...run(made)])).toMatchObject({ id: 5, count: 3 })
        expect(heldBy(made.state)).toEqual(NOTHING_HELD)
        expect([made.state.batches.handing, busy(made)]).toEqual([0, 0])
      }
    })

    test(`${name}: its agent, at every step: in doubt or refused, and the next one goes on`, () => {
      const said = new Set<string>()
      let isOver = false
      for (let step = 0; !isOver; step++) {
        const made = through()
        const { card, region, agent } = made
        const records = recordsOf(upTo(20))
        const sent = send(made, records, { condition, operation: 1 })
        for (let i = 0; i < step; i++) {
          if (i % 2 === 0) agent.poll()
          else sent.push(...card.pass(10))
        }
        isOver = statuses(sent).length > 0
        sent.push(...waitLong(made))
        const status = only(sent)
        said.add(status.said)
        if (condition === IN_ORDER) expect(status.durable).toEqual(upTo(status.durable.length))
        expect(heldBy(made.state)).toEqual(NOTHING_HELD)
        const next = attachedAgent(card)
        run(made, next)
        const stored = found(card, records, region)
        for (const index of status.durable) expect(stored).toContain(index)
        if (condition === IN_ORDER) {
          expect(stored).toEqual(upTo(stored.length))
          expect(stored.length).toBeLessThanOrEqual(status.durable.length + 1)
        }
        const again = records.map((one) => ({ ...one, pweth: { repetition: true } }))
        const other = card.connect()
        const frames = batchFrames(other, region, again, { condition, operation: 1 })
        const later = only([...card.serve(...frames), ...run(made, next)])
        expect(later, `step ${step}`).toMatchObject({ said: 'durable', durable: upTo(20) })
      }
      expect([...said].sort()).toEqual(['IN_DOUBT', 'durable'])
    })
  }

  for (const [name, condition] of Object.entries(CONDITIONS)) {
    test(`X-1: ${name}: what is in doubt of it is none of the next batch`, () => {
      let doubts = 0
      for (const wait of [1, 2]) {
        for (let step = 0; step < 12; step++) {
          const made = through()
          const { card, region, agent, qp } = made
          const before = recordsOf(upTo(3)).map((one) => ({ ...one, wait }))
          const sent = send(made, before, { condition })
          for (let i = 0; i < step; i++) {
            if (i % 2 === 0) agent.poll()
            else sent.push(...card.pass(10))
          }
          sent.push(...waitLong(made))
          if (only(sent).said !== 'IN_DOUBT') continue
          doubts += 1
          const next = attachedAgent(card)
          const records = recordsOf(upTo(13, 10), 70).map((one) => ({ ...one, wait }))
          const later = card.serve(...batchFrames(qp, region, records, { condition, id: 2 }))
          for (let i = 0; i < 60 && statuses(later).length === 0; i++) {
            next.poll()
            later.push(...card.pass(10))
          }
          const { said, durable } = only(later)
          // At once: what was said is so already.
          cutPower(made, NOTHING)
          expect([said, durable, found(restarted(made), records)], `step ${step}`).toEqual([
            'durable',
            upTo(3),
            upTo(3),
          ])
        }
      }
      expect(doubts).toBeGreaterThan(2)
    })
  }

  test('an agent that never posts a RECEIVE: all of it is refused, within one time', () => {
    const made = through()
    const { card, agent } = made
    agent.queues.postReceives = () => {}
    // Those that it had posted before are used up.
    const other = card.connect(4096, 0, 99)
    for (let i = 0; i < 12; i++) {
      card.serve(...persistFrames(other, made.region, 40, dataOf(64, i)))
      run(made)
    }
    const sent = send(made, recordsOf(upTo(40)))
    sent.push(...card.pass(10), ...card.pass(FLUSH_TIMEOUT_US), ...card.pass(10))
    const status = only(sent)
    expect([status.said, status.durable]).toEqual(['NO_AGENT', []])
  })

  test.each(['its last record', 'a record of the same slot'])(
    'P1-11: its queue pair, over a record under way, when %s has it handed on',
    (what) => {
      const made = through()
      const { card, qp, region } = made
      const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
      const own = card.provision({ name: 'own', slots: 4 })
      const records = recordsOf(upTo(2))
      const { psn } = qp
      const operation = qp.operation + 1
      // The operation that the first record of the batch has, too, is in the group.
      const before = persistFrames(qp, own, 0, dataOf(64, 9), { operation })
      card.nvdimm.refuseWrites(BYTES_AT / LINE_BYTES)
      before.push(...writeFrames(qp, bytes, 0, dataOf(8, 1)))
      const isEnd = what === 'its last record'
      const frames = batchFrames(qp, region, records, { operation, count: 3, ends: isEnd })
      if (!isEnd) frames.push(...persistFrames(qp, region, 0, dataOf(64, 8), { operation: 50 }))
      const sent = [...card.serve(...before, ...frames), ...run(made)]
      expect(lines(sent, psn).filter((line) => line.startsWith('NAK'))).toEqual(['NAK 0x63 1'])
      expect(statuses(sent)).toEqual([])
      expect(found(card, [...records, { slot: 0, data: dataOf(64, 8) }], region)).toEqual([])
      expect(card.read(card.connect(), own, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 9))
      expect(heldBy(made.state)).toEqual(NOTHING_HELD)
      expect([made.state.batches.handing, busy(made)]).toEqual([0, 0])
    },
  )

  test('its region: what has touched no slot is refused, the rest is in doubt', () => {
    for (const [condition, step, said] of [
      [INDEPENDENT, 0, 'IN_DOUBT'],
      [IN_ORDER, 3, 'IN_DOUBT'],
    ] as const) {
      const made = through()
      const { card, agent } = made
      send(made, recordsOf(upTo(20)), { condition })
      for (let i = 0; i < step; i++) {
        agent.poll()
        card.idle()
      }
      card.sent = []
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
        body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
      })
      const { asked } = made.state.through.agent
      const status = only([...card.sent, ...run(made)])
      expect([status.said, made.state.through.agent.asked]).toEqual([said, asked])
      expect(heldBy(made.state)).toEqual(NOTHING_HELD)
      expect(busy(made)).toBe(0)
    }
  })
})

/** Three records over three others, in order. */
function inOrder(wait = 2): {
  scenario: Scenario
  judge: (crash: Crash) => void
  complaints: string[]
} {
  const old = recordsOf(upTo(3), 10).map((one) => ({ ...one, wait }))
  const records = old.map((one, slot) => {
    const data = one.data.slice()
    data.set(dataOf(8, 50 + slot), 24)
    return { ...one, data }
  })
  const complaints: string[] = []
  let agent: Agent
  const scenario: Scenario = {
    begin: () => {
      const made = through({ slots: 3 })
      send(made, old)
      run(made)
      agent = made.agent
      return made
    },
    during: ({ region, qp }, card) => {
      card.serve(...batchFrames(qp, region, records, { condition: IN_ORDER, id: 2 }))
      if (!card.machine.dead) run({ card }, agent)
    },
  }
  const judge = ({ image, sent, card }: Crash): void => {
    const told = statuses(sent).flatMap(({ id, durable }) => (id === 2 ? durable : []))
    const now = found(card, records)
    const before = found(card, old)
    const isWhole = now.length + before.length === 3
    const isPrefix = now.every((index, i) => index === i)
    if (isWhole && isPrefix && told.every((index) => now.includes(index))) return
    complaints.push(`${image}: new ${now}, old ${before}, told ${told}`)
  }
  return { scenario, judge, complaints }
}

describe('S1-M5, P4-13, X-5: a cut at every command', () => {
  test('of card and host: a prefix, and all that was acknowledged', () => {
    for (const wait of [1, 2]) {
      const { scenario, judge, complaints } = inOrder(wait)
      let cuts = 0
      for (let command = 0, isOver = false; !isOver; command++) {
        withPassingCards(() => {
          const strategy = CUT_STRATEGIES[command % CUT_STRATEGIES.length]!
          const made = scenario.begin()
          const { card } = made
          const sent: Sent[] = []
          const serve = card.idle.bind(card)
          card.idle = (): void => {
            serve()
            sent.push(...card.sent)
          }
          card.machine.armCut(command)
          scenario.during(made, card)
          isOver = !card.machine.dead
          cutPower(made, { random: new Random(SEED + command), strategy })
          judge({ command, image: `command ${command}`, sent, copies: [], card: restarted(made) })
          cuts += 1
        })
      }
      expect(complaints.slice(0, 5)).toEqual([])
      expect(cuts).toBeGreaterThan(100)
    }
  })

  test('in every image that both memories may hold', THOROUGH, () => {
    for (const wait of [1, 2]) {
      const { scenario, judge, complaints } = inOrder(wait)
      const images = explorePlaced(scenario, judge)
      expect(complaints.slice(0, 5)).toEqual([])
      expect(images).toBeGreaterThan(1000)
    }
  })

  test('of the host alone: what is told is there, and nothing behind what is missing', () => {
    for (const wait of [1, 2]) {
      const { scenario, judge, complaints } = inOrder(wait)
      for (let command = 0, isOver = false; !isOver; command++) {
        withPassingCards(() => {
          const made = scenario.begin()
          const { card, region, qp } = made
          const agent = made.agent!
          let seen = -1
          card.machine.observe({
            onCommand: () => {
              seen += 1
              if (seen === command) made.host.link.loseHost()
            },
          })
          const records = recordsOf(upTo(3), 10).map((one, slot) => {
            const data = one.data.slice()
            data.set(dataOf(8, 50 + slot), 24)
            return { ...one, data, wait }
          })
          const options = { condition: IN_ORDER, id: 2 }
          const { left: sent } = made as Through
          card.serve(...batchFrames(qp, region, records, options))
          while (seen < command && !statuses(sent).some(({ id }) => id === 2)) {
            agent.poll()
            card.idle()
          }
          isOver = seen < command
          card.machine.observe({})
          if (!isOver) {
            restartHost(card)
            run(made, agentOfNewHost(card))
            waitLong(made)
          }
          const own = statuses(sent).filter(({ id }) => id === 2)
          expect(own.length, `command ${command}`).toBe(1)
          cutPower(made, NOTHING)
          judge({ command, image: `command ${command}`, sent, copies: [], card: restarted(made) })
        })
      }
      expect(complaints.slice(0, 5)).toEqual([])
    }
  })
})
