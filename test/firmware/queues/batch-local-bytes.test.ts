/**
 * Batches of a local queue that have plain bytes in them: of a region of the host's own card that
 * is registered write-persist (S1-M9; source 4).
 */

import { beforeEach, describe, expect, test } from 'vitest'
import { BATCH_FIELDS, FAULTS } from '../../../firmware/board/fault.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { KIND_BYTES, REGION_WRITE_PERSIST } from '../../../firmware/wire/management.ts'
import { CONDITION_IN_ORDER, CONDITION_INDEPENDENT } from '../../../firmware/wire/persist.ts'
import { dataOf, type TestRegion } from '../../support/cards/test-card.ts'
import { at, type LocalQueue, localQueue, one, play } from '../../support/queues/local-queue.ts'
import type { Cqe, ElementFields } from '../../support/queues/queue-host.ts'
import { slotOffset } from '../../support/wire/requests.ts'

const AREA_BYTES = 4096
const BYTES = 64

let queue: LocalQueue
let area: TestRegion
let records: TestRegion

beforeEach(() => {
  queue = localQueue()
  const { card } = queue.host
  const shape = { kind: KIND_BYTES, length: AREA_BYTES, flags: REGION_WRITE_PERSIST }
  area = card.provision({ name: 'area', ...shape })
  records = card.provision({ slots: 8, capacity: BYTES })
})

/** A member: plain bytes from that offset on, or the record of a slot. */
type Member = Pick<ElementFields, 'rkey' | 'address' | 'flags' | 'wait'>

function bytesFrom(offset: number): Member {
  const address = area.baseHigh * 2 ** 32 + offset
  return { rkey: area.rkey, address, flags: el.ADDRESSED, wait: 1 }
}

function recordIn(slot: number): Member {
  return { rkey: records.rkey, address: slot * 2 ** 32, wait: 2 }
}

function dataFor(index: number): Uint8Array {
  return dataOf(BYTES, 100 + index)
}

/** The elements of a batch; data and operation of each are those of its index. */
function batchOf(members: readonly Member[], condition = CONDITION_INDEPENDENT): ElementFields[] {
  const count = members.length
  return members.map((member, index) => ({
    ...{ opcode: kind.WRITE_PERSIST, ...member, operation: 100 + index, inline: dataFor(index) },
    batch: { id: 1, condition, count, index, left: count - 1 - index },
  }))
}

function read(rkey: number, address: number): Uint8Array {
  const fields = { opcode: kind.READ, rkey, address, ...at(queue, BYTES) }
  expect(one(queue, fields).status).toBe(el.WC_SUCCESS)
  return queue.host.bytes.slice(queue.buffer, queue.buffer + BYTES)
}

function isDurable({ status, flags }: Cqe): boolean {
  return status === el.WC_SUCCESS && (flags & el.DURABLE) !== 0
}

describe('S1-M9: records and plain bytes in one batch of a local queue', () => {
  const members = (): Member[] => [bytesFrom(8), recordIn(3), bytesFrom(1000), recordIn(4)]

  test.each([
    ['independent', CONDITION_INDEPENDENT, 4],
    // Plain bytes end their group: nothing stands behind them there.
    ['in order', CONDITION_IN_ORDER, 12],
  ])('S1-M9: %s: each is durable, where it was to go', (_, condition, fences) => {
    const { nvdimm } = queue.host.card
    const before = nvdimm.fences
    const cqes = play(queue, ...batchOf(members(), condition))
    expect(cqes.map(isDurable)).toEqual([true, true, true, true])
    expect(cqes.map(({ copies }) => copies)).toEqual([1, 2, 1, 2])
    expect(cqes.map(({ address }) => address)).toEqual(members().map(({ address }) => address))
    expect(nvdimm.fences - before).toBe(fences)
    for (const [i, { rkey, address }] of members().entries()) {
      expect(read(rkey!, address!)).toEqual(dataFor(i))
    }
  })

  test('P4-14: what was durable and comes again is durable, and not written again', () => {
    play(queue, ...batchOf(members()))
    // Another one has gone there meanwhile.
    const later = { opcode: kind.WRITE_PERSIST, operation: 200, inline: dataFor(50) }
    expect(isDurable(one(queue, { ...later, ...bytesFrom(8), flags: 0 }))).toBe(true)
    expect(play(queue, ...batchOf(members())).map(isDurable)).toEqual([true, true, true, true])
    expect(read(area.rkey, bytesFrom(8).address!)).toEqual(dataFor(50))
  })

  test('X-5: in order, bytes that the medium refuses: nothing follows them', () => {
    const { card } = queue.host
    card.nvdimm.refuseWrites(slotOffset(area, 0, 0) / LINE_BYTES)
    const refused = [recordIn(3), bytesFrom(0), recordIn(4)]
    const cqes = play(queue, ...batchOf(refused, CONDITION_IN_ORDER))
    expect(cqes.map(isDurable)).toEqual([true, false, false])
    expect(read(records.rkey, 4 * 2 ** 32)).toEqual(new Uint8Array(BYTES))
  })
})

describe('S1-M9: a member that names no place', () => {
  test.each([
    ['an address in a region of records', 'PERSIST_HEADER', () => ({ rkey: records.rkey })],
    ['bytes beyond the end of the region', 'BOUNDS', () => bytesFrom(AREA_BYTES - BYTES + 1)],
    ['bytes before its begin', 'BOUNDS', () => ({ address: 0 })],
  ])('S1-M9: the queue ends, and the batch with it: %s', (_, fault, wrong) => {
    const elements = batchOf([bytesFrom(0), { ...bytesFrom(64), ...wrong() }])
    const cqes = play(queue, ...elements)
    expect(cqes.map(isDurable)).toEqual([false, false])
    const { host, qp } = queue
    expect(host.zone1(qp.send)).toMatchObject({ state: QUEUE_ERROR, fault })
    const cq = host.createCq(64)
    queue = { ...queue, cq, qp: host.createQp(cq, { units: 64 }) }
    expect(read(area.rkey, bytesFrom(0).address!)).toEqual(new Uint8Array(BYTES))
  })

  test('S1-M9: bytes that another member has already: none of them is taken', () => {
    const cqes = play(queue, ...batchOf([bytesFrom(0), recordIn(3), bytesFrom(BYTES - 1)]))
    const { code } = FAULTS[BATCH_FIELDS]!
    expect(cqes.map(({ refusal }) => refusal)).toEqual(Array(3).fill(code))
    expect(queue.host.zone1(queue.qp.send).state).toBe(QUEUE_READY)
    expect(read(area.rkey, bytesFrom(0).address!)).toEqual(new Uint8Array(BYTES))
  })
})
