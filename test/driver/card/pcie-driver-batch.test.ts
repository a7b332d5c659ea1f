/**
 * A batch over the queues of a card, one burst of which ends on this side while its connection
 * lives: no memory for its bytes, or elements that cannot be made. Every record ends, without a
 * reconnection.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { BATCH_ELEMENTS_MAX } from '../../../firmware/board/limits.ts'
import type { BatchCondition, BatchOutcome, Region } from '../../../host-driver/index.ts'
import { type OpenWay, openWay } from '../../support/driver/ways.ts'

/** More than go out in one burst. */
const RECORDS = 80
/** Longer than the rest of them takes, µs. */
const AFTER_US = 1_000_000
/** Longer than what goes into an element itself. */
const LENGTH = 600
/** Longer than the queue waits for memory, µs. */
const HOPELESS_US = 5_100_000

const open: OpenWay[] = []
afterEach(async () => {
  for (const way of open.splice(0)) await way.close()
})

async function regionOf(name: 'own' | 'behind'): Promise<{ way: OpenWay; region: Region }> {
  const way = await openWay(name)
  open.push(way)
  await way.dpu.format()
  return { way, region: await way.dpu.provision({ name: 'r', slots: RECORDS, capacity: LENGTH }) }
}

const bytesOf = (slot: number): Uint8Array => new Uint8Array(LENGTH).fill(slot + 1)

function batchOf(region: Region, condition: BatchCondition): Promise<BatchOutcome> {
  const batch = region.batch({ condition })
  for (let slot = 0; slot < RECORDS; slot++) batch.persist(slot, bytesOf(slot))
  return batch.commit()
}

/** All memory that the card and its host share, taken from the queues; gives it back. */
function holdMemory({ device }: OpenWay): () => void {
  const { arena } = device!.layout
  const held: number[] = []
  for (let size = arena.bytes; size >= 64; ) {
    try {
      held.push(arena.alloc(size))
    } catch {
      size >>= 1
    }
  }
  return () => {
    for (const at of held) arena.release(at)
  }
}

/** How each record has ended: 'durable', the code, or the index that it is behind. */
async function endsWithin(way: OpenWay, us: number, made: Promise<BatchOutcome>) {
  const late = way.pass(us).then((): never => {
    throw new Error('records that have not ended')
  })
  const { records } = await Promise.race([made, late])
  return records.map((record) => {
    if (record.status === 'refused') return record.code
    return record.status === 'notAccepted' ? record.because : record.status
  })
}

/** What the first so many end with, and the others. */
function expected(count: number, first: string, others: string | number): (string | number)[] {
  return [...Array(count).fill(first), ...Array(RECORDS - count).fill(others)]
}

// Waiting for memory goes on for long, so not every condition over every way.
test.each([
  ['behind', 'independent', 'durable'],
  ['own', 'inOrder', 0],
] as const)('D-10: %s, %s: no memory for the first record: the others end', async (...row) => {
  const [name, condition, others] = row
  const { way, region } = await regionOf(name)
  const { connections } = way.dpu.statistics()
  const giveBack = holdMemory(way)
  const made = batchOf(region, condition)
  await way.pass(HOPELESS_US)
  giveBack()
  expect(await endsWithin(way, AFTER_US, made)).toEqual(expected(1, 'PERDURE_TRANSPORT', others))
  expect(way.dpu.statistics().connections).toBe(connections)
})

describe.each(['own', 'behind'] as const)('D-10: %s', (name) => {
  test.each([
    ['independent', 'durable'],
    ['inOrder', 0],
  ] as const)('%s: the first burst cannot be made: the others end', async (condition, others) => {
    const { way, region } = await regionOf(name)
    const { connections } = way.dpu.statistics()
    const info = region.info as { rkey: unknown }
    const { rkey } = info
    let asked = 0
    Object.defineProperty(info, 'rkey', {
      configurable: true,
      get: () => (asked++ < BATCH_ELEMENTS_MAX ? Symbol('no key') : rkey),
    })
    const ends = await endsWithin(way, AFTER_US, batchOf(region, condition))
    expect(ends).toEqual(expected(BATCH_ELEMENTS_MAX, 'PERDURE_ARGUMENT', others))
    expect(way.dpu.statistics().connections).toBe(connections)
  })
})
