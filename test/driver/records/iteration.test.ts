/**
 * Many records, one after the other, and reads that are given up: in the order of their
 * slots, with as many read ahead as was said, and with errors that are named as Node names them.
 */

import { describe, expect, test } from 'vitest'
import {
  connect,
  type Dpu,
  RecordLost,
  type Region,
  type SlotRead,
} from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts } from '../../support/driver/local-parts.ts'
import { copiesOf } from '../../support/judges/copies.ts'

const openPart = localParts()
const SLOTS = 40

/** A part with a region of which every third record is written: its data is its slot. */
async function bench(): Promise<{ local: LocalDpu; dpu: Dpu; region: Region }> {
  const local = await openPart()
  const dpu = await connect(local.wire, { seed: 3 })
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: SLOTS, capacity: 64 })
  const slots = Array.from({ length: SLOTS }, (_, slot) => slot).filter((slot) => slot % 3 === 0)
  await Promise.all(slots.map((slot) => region.persist(slot, Uint8Array.of(slot)).persisted))
  return { local, dpu, region }
}

async function all(records: AsyncIterable<SlotRead>): Promise<number[]> {
  const slots: number[] = []
  for await (const { slot, data, written } of records) {
    expect([...data]).toEqual(written ? [slot] : [])
    slots.push(slot)
  }
  return slots
}

const from = (first: number, count: number): number[] => {
  return Array.from({ length: count }, (_, i) => first + i)
}
const isWritten = (slot: number): boolean => slot % 3 === 0

describe('the records of a region', () => {
  test('come in the order of their slots, those that were written', async () => {
    const { region } = await bench()
    expect(await all(region.records())).toEqual(from(0, SLOTS).filter(isWritten))
    for (const first of [0, 1, 2, SLOTS - 1, SLOTS]) {
      const rest = from(first, SLOTS - first)
      expect(await all(region.records({ from: first }))).toEqual(rest.filter(isWritten))
      expect(await all(region.records({ from: first, blank: true }))).toEqual(rest)
    }
    for (const count of [0, 1, 4]) {
      const some = await all(region.records({ from: 5, count, blank: true }))
      expect(some).toEqual(from(5, count))
    }
  })

  test.each([1, 2, 7, 1024])('%i of them are read ahead, and no more', async (ahead) => {
    const { dpu, region } = await bench()
    const reads = (): number => dpu.statistics().packets
    const before = reads()
    const iterator = region.records({ ahead, blank: true })
    expect(reads(), 'nothing before somebody asks').toBe(before)
    await iterator.next()
    expect(reads() - before).toBeLessThanOrEqual(ahead)
    await iterator.return()
    await region.read(0)
    expect(reads() - before).toBeLessThanOrEqual(ahead + 1)
    expect(await all(region.records({ ahead }))).toEqual(from(0, SLOTS).filter(isWritten))
  })

  test('D-14: end with the error of the first that cannot be read', async () => {
    const { local, region } = await bench()
    const { live } = local.nvdimm
    for (const at of copiesOf(live, 6)) live[at]! ^= 1
    const seen: number[] = []
    const error = await failure(
      (async () => {
        for await (const { slot } of region.records({ ahead: 16 })) seen.push(slot)
      })(),
    )
    expect(seen).toEqual([0, 3])
    expect(error).toBeInstanceOf(RecordLost)
    expect(error).toMatchObject({ slot: 6 })
    expect(await all(region.records({ from: 7 }))).toEqual(from(7, SLOTS - 7).filter(isWritten))
  })

  test.each([
    [{ from: SLOTS + 1 }, 'from slot 41 on: its slots are 0 to 39'],
    [{ from: 30, count: 11 }, "11 records of 'orders' from slot 30 on: its slots are 0 to 39"],
    [{ from: -1 }, 'from -1'],
    [{ count: 1.5 }, 'count 1.5'],
    [{ ahead: 0 }, 'ahead 0: 1 to 1024'],
    [{ deadlineMs: 0 }, 'deadlineMs 0'],
    [{ signal: 'now' }, 'an AbortSignal'],
  ])('R1-U7: %j is refused at the call', async (options, words) => {
    const { region } = await bench()
    expect(() => region.records(options as object)).toThrow(words)
  })
})

describe('a read that is given up', () => {
  test('is an AbortError with the signal’s reason, or a TimeoutError', async () => {
    const { local, region } = await bench()
    const control = new AbortController()
    local.link.script = () => ({ drop: true })
    const aborted = failure(region.read(0, { signal: control.signal }))
    const late = failure(region.read(3, { deadlineMs: 5 }))
    control.abort(new Error('enough'))
    expect(await aborted).toMatchObject({
      ...{ name: 'AbortError', code: 'PERDURE_ABORTED', cause: { message: 'enough' } },
      message: "read record 0 of 'orders': the signal fired",
    })
    expect(await late).toMatchObject({ name: 'TimeoutError', code: 'PERDURE_DEADLINE' })
    local.link.script = undefined
    expect((await region.read(3)).data).toEqual(Uint8Array.of(3))
  })

  test('is not sent where the signal has fired before', async () => {
    const { dpu, region } = await bench()
    const { packets } = dpu.statistics()
    const error = await failure(region.read(0, { signal: AbortSignal.abort() }))
    expect(error).toMatchObject({ name: 'AbortError', code: 'PERDURE_ABORTED' })
    expect(dpu.statistics().packets).toBe(packets)
  })

  test('ends an iteration; a deadline is that of each record', async () => {
    const { local, region } = await bench()
    const control = new AbortController()
    const seen: number[] = []
    const error = await failure(
      (async () => {
        for await (const { slot } of region.records({ signal: control.signal, ahead: 2 })) {
          seen.push(slot)
          if (slot === 6) control.abort()
        }
      })(),
    )
    expect(error).toMatchObject({ name: 'AbortError' })
    expect(seen.slice(0, 3)).toEqual([0, 3, 6])
    expect(seen.length).toBeLessThan(6)
    local.link.script = () => ({ drop: true })
    const late = await failure(all(region.records({ deadlineMs: 5 })))
    expect(late).toMatchObject({ name: 'TimeoutError' })
    local.link.script = undefined
    expect((await all(region.records({ deadlineMs: 1e6 }))).length).toBe(14)
  })
})
