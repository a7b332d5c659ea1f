/**
 * Batches where numbers meet their ends: slots that share a place in the index, operations whose
 * low word turns over, records of others between two of a batch in order (P4-9, D-6, X-5).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { addMembers, hasSlot, noteSlot, takeMembers } from '../../../firmware/batch/members.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { COPY_CLEAN, FENCE, SKIP } from '../../../firmware/board/hal.ts'
import { BATCHES, LANES, LINE_BYTES } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES, SLOT_PLACES } from '../../../firmware/board/memory-map.ts'
import { LANES_AT, OPERATIONS_AT } from '../../../firmware/medium/superblock.ts'
import { batchFrames, batchSetting, IN_ORDER, statuses } from '../../support/cards/batch-card.ts'
import { bytesCard } from '../../support/cards/bytes-card.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
} from '../../support/cards/test-card.ts'
import { slotOffset, writeFrames } from '../../support/wire/requests.ts'

const older = (slot: number): Uint8Array => dataOf(64, slot)
const newer = (slot: number): Uint8Array => dataOf(64, 1000 + slot)
const codeOf = (name: string): number => FAULTS.find((row) => row.name === name)!.code

describe('the slots of a batch', () => {
  test('that share a place in the index are told apart', () => {
    const room = { members: [], chunkTaken: new Uint8Array(BATCHES) }
    addMembers(room, new ArrayBuffer(MEMORY_BYTES))
    const members = takeMembers(room)!
    const slots = [3, 3 + SLOT_PLACES, 3 + 2 * SLOT_PLACES]
    slots.forEach((slot, n) => {
      expect(noteSlot(members, 0, slot, n)).toBe(false)
    })
    expect(slots.map((slot) => noteSlot(members, 0, slot, 9))).toEqual([true, true, true])
    const looked = [...slots, 3 + 3 * SLOT_PLACES, 4 + SLOT_PLACES]
    expect(looked.map((slot) => hasSlot(members, 0, slot))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
  })
})

test('D-6: a batch that begins below a turn of the low word, and goes on above it', () => {
  const { card, region, qp } = batchSetting()
  const operation = 2 ** 32 - 2
  const records = Array.from({ length: 6 }, (_, slot) => ({
    ...{ slot, data: newer(slot), index: slot },
    pweth: {
      operationHigh: operation + slot >= 2 ** 32 ? 2 : 1,
      operationLow: (operation + slot) % 2 ** 32,
    },
  }))
  // The burst with the later records comes first: what the batch begins with follows from them.
  const later = card.serve(...batchFrames(qp, region, records.slice(4), { count: 6 }))
  expect(statuses(later)).toMatchObject([{ durable: [4, 5], said: 'durable' }])
  const rest = card.serve(...batchFrames(qp, region, records.slice(0, 4), { count: 6 }))
  expect(statuses(rest)).toMatchObject([{ durable: [0, 1, 2, 3, 4, 5], said: 'durable' }])
})

test('D-6: a batch whose first operation is 0, which is no name, is refused whole', () => {
  const { card, region, qp } = batchSetting()
  card.serve(...persistFrames(qp, region, 0, older(0)))
  const records = [0, 1].map((slot) => ({
    ...{ slot, data: newer(slot), index: slot },
    pweth: { operationHigh: 0, operationLow: slot },
  }))
  const sent = card.serve(...batchFrames(qp, region, records, { count: 2 }))
  expect(statuses(sent)).toMatchObject([{ durable: [], said: 'BATCH_FIELDS' }])
  expect(card.read(qp, region, 0, 0, 64)).toEqual(older(0))
})

/** A record of somebody else between the two of a batch in order; then the power goes. */
function interleaved(): ReturnType<typeof batchSetting> & { frames: Uint8Array[] } {
  const one = batchSetting()
  const { card, region, qp } = one
  const other = card.connect(4096, 0, 9)
  for (const slot of [0, 1, 2]) card.serve(...persistFrames(qp, region, slot, older(slot)))
  card.idle()
  card.nvdimm.fence()
  const records = [0, 2].map((slot) => ({ slot, data: newer(slot) }))
  const [first, second] = batchFrames(qp, region, records, { condition: IN_ORDER })
  const [between] = persistFrames(other, region, 1, newer(1))
  return { ...one, frames: [first!, between!, second!] }
}

test('X-5: a lane of a batch in order names the lane of the record before it, past others', () => {
  const { card, frames } = interleaved()
  const sent = card.serve(...frames)
  expect(statuses(sent)).toMatchObject([{ durable: [0, 1] }])
  const { live } = card.nvdimm
  const links = [0, 1, 2].map((lane) => live[LANES_AT + lane * LINE_BYTES + 23]! >> 3)
  // The records of a batch may stand before the other one, or around it.
  expect(links.filter((link) => link > 0)).toHaveLength(1)
})

test('X-5: where a record of somebody else is in between, the lane names the one before', () => {
  const { card, qp, bytes, records } = bytesCard()
  const other = card.connect(1024, 0, 9)
  const operation = qp.operation + 1
  const of = { count: 2, operation, condition: IN_ORDER }
  const sent = card.serve(
    ...batchFrames(qp, records, [{ slot: 0, data: newer(0) }], { ...of, ends: false }),
    // What its queue pair sends next has to follow the first record, which goes into the group.
    ...writeFrames(qp, bytes, 0, dataOf(8, 1)),
    ...persistFrames(other, records, 1, newer(1)),
    ...batchFrames(qp, records, [{ slot: 2, data: newer(2), index: 1 }], of),
  )
  expect(statuses(sent)).toMatchObject([{ durable: [0, 1], said: 'durable' }])
  const { live } = card.nvdimm
  const links = [0, 1, 2].map((lane) => live[LANES_AT + lane * LINE_BYTES + 23]! >> 3)
  expect(links).toEqual([0, 0, 2])
})

test('P1-11: on a part that clears no lane a batch is refused, record by record', () => {
  const before = batchSetting()
  for (let lane = 0; lane < LANES; lane++)
    before.card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + lane)
  const card = new TestCard(before.card.nvdimm)
  const [qp, region] = [card.connect(), card.open()]
  const list = [0, 1].map((slot) => ({ slot, data: newer(slot) }))
  const sent = card.serve(...batchFrames(qp, region, list))
  expect(statuses(sent)).toMatchObject([{ durable: [], said: 'READ_ONLY' }])
  expect(persistAcks(card.serve(...persistFrames(qp, region, 2, newer(2))))).toMatchObject([
    { status: codeOf('READ_ONLY') },
  ])
})

describe('in order, with a record that another queue pair of the same client brings', () => {
  /** Who every queue pair of a test card is of, unless said. */
  const CLIENT = 7
  const operation = 100

  /** What a card says to record 0 of a batch of two by that client, and record 1 by its own. */
  function served(one: ReturnType<typeof batchSetting>, client: number): Sent[] {
    const { card, region, qp } = one
    const other = card.connect(4096, 0, client)
    return card.serve(
      ...persistFrames(other, region, 0, newer(0), { operation }),
      ...batchFrames(qp, region, [{ slot: 1, data: newer(1), index: 1 }], {
        ...{ count: 2, operation, condition: IN_ORDER },
      }),
    )
  }

  test('P4-9, D-10: its record in the group of the same burst counts: the group makes way', () => {
    const one = batchSetting()
    expect(statuses(served(one, CLIENT))).toMatchObject([{ durable: [0, 1], said: 'durable' }])
    const { card, region, qp } = one
    for (const slot of [0, 1]) expect(card.read(qp, region, slot, 0, 64)).toEqual(newer(slot))
  })

  test('P4-9: its record in the group of the same burst, which is not durable then', () => {
    const one = batchSetting()
    const { card, region, qp } = one
    card.nvdimm.refuseWrites(slotOffset(region, 0, 0) / LINE_BYTES)
    const sent = served(one, CLIENT)
    expect(persistAcks(sent)).toMatchObject([{ status: codeOf('MEDIA') }, { batch: true }])
    expect(statuses(sent)).toMatchObject([{ durable: [], said: 'CONDITION' }])
    expect(card.read(qp, region, 1, 0, 64)).toEqual(new Uint8Array(64))
  })

  test('P4-9: one of another client, under the same operation, does not count', () => {
    const sent = served(batchSetting(), CLIENT + 1)
    expect(statuses(sent)).toMatchObject([{ durable: [], said: 'CONDITION' }])
  })
})

describe('X-5: after a save that failed', () => {
  /** Cut before the phases, with every first copy on the medium but that of record 0. */
  function cutBetween(): { part: TestCard['nvdimm']; region: { readonly rkey: number } } {
    const { card, region, qp } = batchSetting()
    for (const slot of [0, 1]) card.serve(...persistFrames(qp, region, slot, older(slot)))
    card.idle()
    card.nvdimm.fence()
    const { nvdimm } = card
    const at = slotOffset(region, 0, 0)
    const before = nvdimm.durable.slice(at, at + region.stride)
    let fences = 0
    card.machine.observe({
      onCommand: (_, op) => {
        if (op === FENCE) fences += 1
        if (fences === 2 && op === COPY_CLEAN) card.machine.die()
      },
      replace: (_, op) => (card.machine.dead ? SKIP : op),
    })
    const records = [0, 1].map((slot) => ({ slot, data: newer(slot) }))
    card.serve(...batchFrames(qp, region, records, { condition: IN_ORDER }))
    expect(card.machine.dead).toBe(true)
    cut(nvdimm, { random: new Random(1), strategy: 'none' })
    nvdimm.durable.set(before, at)
    nvdimm.live.set(before, at)
    nvdimm.dirtyShutdowns += 1
    return { part: nvdimm, region }
  }

  test('no record of a batch in order outlives the one before it', () => {
    const { part } = cutBetween()
    const card = new TestCard(part)
    const read = (slot: number): Uint8Array => card.read(card.connect(), card.open(), slot, 0, 64)!
    expect([read(0), read(1)]).toEqual([older(0), older(1)])
  })
})

test('X-5, H7: a record of a batch in order goes back with the one before it that is lost', () => {
  const { card, region, qp } = batchSetting()
  for (const slot of [0, 1]) card.serve(...persistFrames(qp, region, slot, older(slot)))
  card.idle()
  const { nvdimm } = card
  nvdimm.fence()
  let fences = 0
  card.machine.observe({
    // The phases are stored, and no fence makes them durable.
    onCommand: (_, op) => {
      if (op === FENCE && ++fences === 3) card.machine.die()
    },
    replace: (_, op) => (card.machine.dead ? SKIP : op),
  })
  const records = [0, 1].map((slot) => ({ slot, data: newer(slot) }))
  card.serve(...batchFrames(qp, region, records, { condition: IN_ORDER }))
  expect(card.machine.dead).toBe(true)
  const second = LANES_AT + LINE_BYTES
  const phased = nvdimm.live.slice(second, second + LINE_BYTES)
  cut(nvdimm, { random: new Random(1), strategy: 'none' })
  expect(nvdimm.durable.slice(second, second + LINE_BYTES)).not.toEqual(phased)
  // Of the two phases that of the second record alone reached the medium.
  for (const bytes of [nvdimm.live, nvdimm.durable]) bytes.set(phased, second)
  for (const copy of [0, 1]) nvdimm.poison(slotOffset(region, copy, 0) / LINE_BYTES)
  const again = new TestCard(nvdimm)
  const read = (slot: number): Uint8Array | null => {
    return again.read(again.connect(), again.open(), slot, 0, 64)
  }
  expect([read(0), read(1)]).toEqual([null, older(1)])
})

test('P1-11: a client whose line is refused moves, and no record of another is touched', () => {
  const { card, region, qp } = batchSetting()
  const other = card.connect(4096, 0, 9)
  card.serve(...persistFrames(qp, region, 0, older(0)))
  for (const which of [0, 1]) card.nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + which)
  const sent = card.serve(
    ...persistFrames(qp, region, 0, newer(0)),
    ...persistFrames(other, region, 1, newer(1)),
  )
  expect(persistAcks(sent).map(({ status }) => status)).toEqual([0, 0])
  const again = new TestCard(card.nvdimm)
  const reader = again.connect()
  expect(again.read(reader, again.open(), 0, 0, 64)).toEqual(newer(0))
  expect(again.read(reader, again.open(), 1, 0, 64)).toEqual(newer(1))
})
