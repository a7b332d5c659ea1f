/**
 * How elements of local queues end that meet others: records of the network in the same group, a
 * part or a host that fails under them, a queue beside their own (P3-27, D-9, D-10, H4, H7).
 */

import { expect, test } from 'vitest'
import { DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { PORT_EPOCH } from '../../../firmware/board/hal.ts'
import {
  BATCH_CHUNK_BYTES,
  BATCH_CHUNKS,
  BATCH_TIMEOUT_US,
  BATCHES,
  BURST_FRAMES,
} from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR } from '../../../firmware/host/queue-info.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_RKEY } from '../../../firmware/wire/management.ts'
import { CONDITION_IN_ORDER } from '../../../firmware/wire/persist.ts'
import { batchFrames } from '../../support/cards/batch-card.ts'
import { placed } from '../../support/cards/placed.ts'
import { dataOf, persistFrames, type TestRegion } from '../../support/cards/test-card.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import {
  at,
  type LocalQueue,
  localQueue,
  one,
  play,
  record,
} from '../../support/queues/local-queue.ts'
import { type Cqe, type ElementFields, elementOf, u64 } from '../../support/queues/queue-host.ts'

const BYTES = 64
const SLOTS = 64
const GLOBAL = 1
const PERSISTENT = 2
const WHOLE = 256
/** Client of a local queue, unless it is given. */
const CLIENT = 7

interface World {
  readonly queue: LocalQueue
  readonly region: TestRegion
}

function world(): World {
  const queue = localQueue()
  return { queue, region: queue.host.card.provision({ slots: SLOTS, capacity: BYTES }) }
}

function post({ host, qp }: LocalQueue, flags: number, ...elements: ElementFields[]): void {
  for (const fields of elements) host.post(qp.send, elementOf({ ...fields, flags }))
  host.ring(qp.send)
}

/** Serves frames in the call in which the queues are served. */
function together(queue: LocalQueue, frames: readonly Uint8Array[]): Cqe[] {
  queue.host.card.serve(...frames)
  queue.host.run()
  return queue.host.poll(queue.cq)
}

/** A queue pair of its own, with the completion queue of the other. */
function beside(queue: LocalQueue): LocalQueue {
  return { ...queue, qp: queue.host.createQp(queue.cq, { units: 64 }) }
}

function batchOf({ region }: World, count: number, condition = 0, base = 100): ElementFields[] {
  return Array.from({ length: count }, (_, index) => ({
    ...{ opcode: kind.WRITE_PERSIST, rkey: region.rkey, address: index * 2 ** 32, wait: 2 },
    ...{ operation: base + index, inline: dataOf(BYTES, base + index) },
    batch: { id: 1, condition, count, index, left: count - 1 - index },
  }))
}

/** Lines of the part where those bytes lie. */
function linesOf({ host }: LocalQueue, data: Uint8Array): number[] {
  const live = Buffer.from(host.card.nvdimm.live)
  const lines: number[] = []
  for (let i = live.indexOf(data); i >= 0; i = live.indexOf(data, i + 1)) lines.push(i >> 6)
  return lines
}

function codeOf(name: string): number {
  return FAULTS.find((fault) => fault.name === name)!.code
}

test('P3-27: a group of the network and of two queues tells each of its own alone', () => {
  const { queue, region } = world()
  const { card } = queue.host
  const other = beside(queue)
  const client = card.connect()
  const marker = dataOf(BYTES, 99)
  one(queue, record(queue, region, 0, 1, marker))
  // The second copy of slot 0 takes nothing more, and nobody asked to hear of that record.
  card.nvdimm.refuseWrites(linesOf(queue, marker)[1]!)
  post(queue, 0, record(queue, region, 0, 2, dataOf(BYTES, 2)))
  post(other, el.SIGNALED, record(other, region, 1, 3, dataOf(BYTES, 3)))
  post(queue, el.SIGNALED, record(queue, region, 2, 4, dataOf(BYTES, 4)))
  const cqes = together(queue, persistFrames(client, region, 3, dataOf(BYTES, 5)))
  const told = cqes.map(({ queue: from, status }) => [from, status])
  const { send } = queue.qp
  expect(told.filter(([from]) => from === send)).toEqual([
    [send, el.WC_GENERAL_ERR],
    [send, el.WC_SUCCESS],
  ])
  expect(told.filter(([from]) => from !== send)).toEqual([[other.qp.send, el.WC_SUCCESS]])
})

test('H4: what is stored from memory that does not answer ends its queue', () => {
  const { queue } = world()
  const { host } = queue
  const shape = { name: 'bytes', kind: KIND_BYTES, length: 4096 }
  const { body } = host.card.tryProvision(shape)
  const to = { rkey: u32(body, REGION_RKEY), address: u64(body, REGION_BASE_HIGH) }
  host.ram.link.script = ({ kind: what, at: from }) =>
    what === 'read' && from === queue.buffer ? 'unsupported' : undefined
  expect(one(queue, { opcode: kind.WRITE, ...to, ...at(queue, 8) }).status).not.toBe(0)
  host.ram.link.script = null
  expect(host.zone1(queue.qp.send)).toMatchObject({ state: QUEUE_ERROR, fault: 'DMA' })
})

test('H7, D-3: of a record that is lost its copies are zeros, and its data is not read', () => {
  const { queue, region } = world()
  const { host } = queue
  const marker = dataOf(BYTES, 99)
  one(queue, record(queue, region, 0, 1, marker))
  for (const line of linesOf(queue, marker)) host.card.nvdimm.poison(line - 1)
  const read = { opcode: kind.READ, rkey: region.rkey, ...at(queue, BYTES) }
  for (const view of [1, 2]) {
    host.bytes.fill(0x55, queue.buffer, queue.buffer + BYTES)
    expect(one(queue, { ...read, address: view * 2 ** 28 }).status).toBe(el.WC_SUCCESS)
    expect(host.bytes.slice(queue.buffer, queue.buffer + BYTES)).toEqual(new Uint8Array(BYTES))
  }
  expect(one(queue, { ...read, address: 0 }).status).not.toBe(el.WC_SUCCESS)
  expect(host.zone1(queue.qp.send)).toMatchObject({ fault: 'UNSETTLED_READ' })
})

test('D-13: a FLUSH whose group closes the part says nothing of durability', () => {
  const { queue, region } = world()
  const { card } = queue.host
  const client = card.connect()
  post(queue, el.SIGNALED, {
    ...{ opcode: kind.FLUSH, rkey: region.rkey, address: 0, length: 0 },
    compare: WHOLE + PERSISTENT,
  })
  const frames = persistFrames(client, region, 0, dataOf(BYTES, 1))
  card.nvdimm.fencesToFail = 1
  expect(together(queue, frames)[0]!.status).not.toBe(el.WC_SUCCESS)
  expect(queue.host.zone1(queue.qp.send).fault).toBe('NOT_DURABLE')
})

test('D-9: a FLUSH to visibility alone, of a region in the memory of the host', () => {
  const { region, agent } = placed(DDIO_ON)
  const { queues } = agent!
  if (!(queues instanceof RawAgentQueues)) throw new Error('these are other queues')
  const { host } = queues
  const cq = host.createCq(16)
  const { send } = host.createQp(cq, { units: 16 })
  const fields = { opcode: kind.FLUSH, rkey: region.rkey, compare: WHOLE + GLOBAL }
  host.post(send, elementOf({ ...fields, flags: el.SIGNALED }))
  host.ring(send)
  host.run()
  expect(host.poll(cq)).toMatchObject([{ status: el.WC_SUCCESS }])
})

test('D-13: a record whose slot is on its way is refused, if that closes the part', () => {
  const { queue, region } = world()
  const { nvdimm } = queue.host.card
  nvdimm.fencesToFail = 1
  const again = [1, 2].map((n) => record(queue, region, 0, n, dataOf(BYTES, n)))
  const cqes = play(queue, ...again)
  expect(cqes.map(({ status }) => status)).toEqual([el.WC_GENERAL_ERR, el.WC_GENERAL_ERR])
  expect(cqes.every(({ flags }) => (flags & el.DURABLE) === 0)).toBe(true)
})

test('H7: a part without a lane that takes stores takes no record, and says so', () => {
  const { queue, region } = world()
  const { nvdimm } = queue.host.card
  const wanted = record(queue, region, 0, 1, dataOf(BYTES, 1))
  for (let i = 0; i < BURST_FRAMES; i++) nvdimm.refuseWrites(LANES_AT / BYTES + i)
  const statuses = Array.from({ length: 2 * BURST_FRAMES }, (_, i) => {
    return one(queue, { ...wanted, operation: 1 + i })
  })
  expect(statuses.at(-1)).toMatchObject({
    ...{ status: el.WC_GENERAL_ERR, refusal: codeOf('READ_ONLY') },
  })
})

test('D-10: a record in order is not taken behind one that its own group refuses', () => {
  const here = world()
  const { queue, region } = here
  const { card } = queue.host
  const marker = dataOf(BYTES, 99)
  one(queue, record(queue, region, 0, 1, marker))
  card.nvdimm.refuseWrites(linesOf(queue, marker)[1]!)
  const client = card.connect()
  // Slot 1 is on its way for another, so the first record is committed before the second joins.
  post(queue, el.SIGNALED, ...batchOf(here, 2, CONDITION_IN_ORDER))
  const cqes = together(queue, persistFrames(client, region, 1, dataOf(BYTES, 1)))
  expect(cqes.map(({ status, flags }) => [status, flags])).toEqual([
    [el.WC_GENERAL_ERR, 0],
    [el.WC_GENERAL_ERR, 0],
  ])
  expect(cqes[1]!.refusal).toBe(codeOf('CONDITION'))
})

test('D-10: a record without order is taken there', () => {
  const here = world()
  const { queue, region } = here
  const client = queue.host.card.connect()
  for (const [i, condition] of [0, CONDITION_IN_ORDER].entries()) {
    post(queue, el.SIGNALED, ...batchOf(here, 2, condition, 100 + 100 * i))
    const cqes = together(queue, persistFrames(client, region, 1, dataOf(BYTES, 1)))
    expect(cqes.map(({ flags }) => flags)).toEqual([el.DURABLE, el.DURABLE])
  }
})

test('P4-13: a batch does not begin in a group that cannot hold all of it', () => {
  const here = world()
  const { queue, region } = here
  const { card } = queue.host
  const client = card.connect()
  post(queue, el.SIGNALED, ...batchOf(here, 2))
  const frames = Array.from({ length: BURST_FRAMES - 1 }, (_, i) => i + 2).flatMap((slot) =>
    persistFrames(client, region, slot, dataOf(BYTES, slot)),
  )
  const cqes = together(queue, frames)
  expect(cqes.map(({ flags }) => flags)).toEqual([el.DURABLE, el.DURABLE])
})

test('P4-14: what the same client has on its way over the wire is not stored again', () => {
  const here = world()
  const { queue, region } = here
  const { card } = queue.host
  const client = card.connect(1024, 0, CLIENT)
  const { fences } = card.machine.statistics
  post(queue, el.SIGNALED, ...batchOf(here, 1, 0, 1))
  const cqes = together(queue, persistFrames(client, region, 0, dataOf(BYTES, 1), { operation: 1 }))
  expect(cqes).toMatchObject([{ status: el.WC_SUCCESS, flags: el.DURABLE, operation: 1 }])
  expect(card.machine.statistics.fences - fences, 'one group').toBe(4)
})

/** An open batch of that client, of so many records of so many bytes. */
function openBatch({ queue }: World, of: TestRegion, id: number, n: number, bytes: number): void {
  const { card } = queue.host
  const client = card.connect(4096, 0, id)
  const members = Array.from({ length: n }, (_, slot) => ({ slot, data: dataOf(bytes, id) }))
  card.serve(...batchFrames(client, of, members, { count: n + 1, ends: false }))
  card.serve()
}

test.each(['batches', 'bytes'])('no room beside what the network has: %s', (what) => {
  const here = world()
  const { queue, region } = here
  const { card } = queue.host
  if (what === 'batches') {
    for (let id = 100; id < 100 + BATCHES; id++) openBatch(here, region, id, 1, BYTES)
  } else {
    // Each record fills more than half of a piece of memory.
    const bytes = BATCH_CHUNK_BYTES / 2
    const long = card.provision({ name: 'long', slots: 3, capacity: bytes })
    let id = 100
    for (let left = BATCH_CHUNKS; left > 0; left -= 3) {
      openBatch(here, long, id++, Math.min(3, left), bytes)
    }
  }
  const refused = play(queue, ...batchOf(here, 2))
  expect(refused.map(({ refusal }) => refusal)).toEqual(Array(2).fill(codeOf('BATCH_ROOM')))
  card.pass(2 * BATCH_TIMEOUT_US)
  const told = play(queue, ...batchOf(here, 2))
  expect(told.map(({ flags }) => flags)).toEqual([el.DURABLE, el.DURABLE])
})

test('X-4: a host that goes with a batch open leaves no batch', () => {
  const here = world()
  const { host } = here.queue
  expect(play(here.queue, ...batchOf(here, 4).slice(0, 2))).toEqual([])
  host.port.setUint32(PORT_EPOCH, 0, true)
  host.run()
  // A host that is there again has room for its own.
  const queue = localQueue(host.init(64))
  const told = play(queue, ...batchOf(here, 4, 0, 500))
  expect(told.map(({ flags }) => flags)).toEqual(Array(4).fill(el.DURABLE))
})
