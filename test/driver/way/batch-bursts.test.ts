/**
 * Batches at the driver, against a part that answers as the test says: which records go out in
 * which burst, how each of them ends, and how often the driver waits.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import type { Pweth } from '../../../firmware/wire/persist.ts'
import { persistHeader } from '../../../host-driver/frames/request-frames.ts'
import type { BatchCondition, BatchOutcome } from '../../../host-driver/index.ts'
import {
  NotAccepted,
  OutcomeUnknown,
  PerdureError,
  RefusedError,
} from '../../../host-driver/index.ts'
import type { Job } from '../../../host-driver/way/jobs.ts'
import {
  bytesOf,
  type Decide,
  indexesOf,
  ScriptedPart,
  settle,
  slotOf,
} from '../../support/driver/scripted-part.ts'

const CONDITIONS: readonly BatchCondition[] = ['independent', 'inOrder', 'expect']

function status(name: string): number {
  return FAULTS.find((row) => row.name === name && row.answer === 'status')!.code
}

const MEDIA = status('MEDIA')
const SLOT = status('SLOT')
const CONDITION = status('CONDITION')

/** The header of a record, as frames have it. */
function headerOf({ request }: Job): Pweth {
  return persistHeader(request)
}

interface Running {
  readonly outcome: Promise<BatchOutcome>
  readonly over: () => boolean
}

/** Commits a batch of so many records, to the slots from `slot` on. */
function commit(
  part: ScriptedPart,
  count: number,
  options: Parameters<ScriptedPart['region']['batch']>[0] & { slot?: number } = {},
): Running {
  const { slot = 0, ...rest } = options
  const batch = part.region.batch(rest)
  const expect = rest.condition === 'expect' ? { expect: 4n } : {}
  for (let i = 0; i < count; i++) batch.persist(slot + i, bytesOf(i), expect)
  let isOver = false
  const outcome = batch.commit()
  outcome.finally(() => {
    isOver = true
  })
  return { outcome, over: () => isOver }
}

/**
 * What a responder decides about a burst (D-10): in order, a refusal refuses everything behind it.
 * `bad` says of a record how often it is refused, and why.
 */
function judging(condition: BatchCondition, bad: Map<number, [number, number]>): Decide {
  let refused = false
  return (index) => {
    const [times, why] = bad.get(index) ?? [0, 0]
    if (times === 0 && !(condition === 'inOrder' && refused)) return 0
    if (times > 0) bad.set(index, [times - 1, why])
    refused = true
    return times === 0 ? CONDITION : why
  }
}

/** Answers every burst until the batch is over. */
async function serve(
  part: ScriptedPart,
  running: Running,
  condition: BatchCondition,
  bad: Map<number, [number, number]>,
): Promise<BatchOutcome> {
  await settle()
  while (!running.over()) {
    if (part.open.length > 0) part.answer(judging(condition, bad))
    await part.advance(10_000)
  }
  return await running.outcome
}

const upTo = (count: number, from = 0): number[] =>
  Array.from({ length: count - from }, (_, i) => from + i)

describe('P4-1, P4-8: one burst, one status, one wait', () => {
  test('a batch goes out whole, its records one behind the other', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 5, { condition: 'inOrder' })
    expect(indexesOf(part.bursts[0]!)).toEqual([0, 1, 2, 3, 4])
    expect(part.bursts[0]!.map(headerOf).map(({ lastOfBatch }) => lastOfBatch)).toEqual([
      ...[false, false, false, false, true],
    ])
    for (const [i, job] of part.bursts[0]!.entries()) {
      const pweth = headerOf(job)
      expect(pweth).toMatchObject({ batch: true, oneStatus: true, wantsAck: true, condition: 1 })
      expect(pweth).toMatchObject({ batchCount: 5, slotAddressed: true, carried: false })
      expect(job.request.operation).toBe(BigInt(i + 1))
      expect(job.request.data).toEqual(bytesOf(i))
    }
    part.answer()
    const outcome = await running.outcome
    expect(outcome).toMatchObject({ durable: 5, all: true, bursts: 1, waits: 1 })
    expect(outcome.records[3]).toMatchObject({
      ...{ index: 3, slot: 3, operationId: 4n, status: 'durable' },
      receipt: { region: 'orders', copies: 2, of: 2, mechanism: 'localFlush' },
    })
    const counts = part.connection.statistics()
    expect(counts).toMatchObject({ batches: 1, bursts: 1, batchWaits: 1, records: 5 })
    expect(counts).toMatchObject({ recordsDurable: 5, payloadBytes: 100 })
  })

  test('256 records in one burst, or in as many as the way needs', async () => {
    for (const [batchMax, bursts] of [
      [256, 1],
      [100, 3],
    ] as const) {
      const part = await ScriptedPart.open({}, batchMax)
      const running = commit(part, 256, { condition: 'inOrder' })
      const outcome = await serve(part, running, 'inOrder', new Map())
      expect(outcome).toMatchObject({ all: true, durable: 256, bursts, waits: bursts })
      expect(part.bursts.flatMap(indexesOf)).toEqual(upTo(256))
      expect(part.bursts.map((jobs) => headerOf(jobs.at(-1)!).lastOfBatch)).not.toContain(false)
    }
  })
})

describe('P4-9, P4-10, D-10: what is not taken goes out again in one burst', () => {
  for (const condition of CONDITIONS) {
    for (let count = 1; count <= 8; count++) {
      test(`P4-9: ${condition}, ${count} records: every place of a passing failure`, async () => {
        for (let k = 0; k < count; k++) {
          const part = await ScriptedPart.open()
          const running = commit(part, count, { condition })
          const outcome = await serve(part, running, condition, new Map([[k, [1, MEDIA]]]))
          const rest = condition === 'inOrder' ? upTo(count, k) : [k]
          expect(part.bursts.map(indexesOf)).toEqual([upTo(count), rest])
          expect(outcome).toMatchObject({ all: true, durable: count, bursts: 2, waits: 2 })
          const again = part.bursts[1]![0]!.request
          const before = part.bursts[0]![k]!.request
          expect(again.operation).toBe(before.operation)
          expect(again.batch!.id).toBe(before.batch!.id)
          expect(again.data).toEqual(before.data)
        }
      })

      test(`${condition}, ${count} records: one and two that are refused for good`, async () => {
        for (let k = 0; k < count; k++) {
          for (let other = k; other < count; other++) {
            const part = await ScriptedPart.open()
            const running = commit(part, count, { condition })
            const bad = new Map<number, [number, number]>([k, other].map((i) => [i, [99, SLOT]]))
            const outcome = await serve(part, running, condition, bad)
            const ends = outcome.records.map((record) => record.status)
            const expected = upTo(count).map((i) => {
              if (i === k || (i === other && condition !== 'inOrder')) return 'refused'
              return condition === 'inOrder' && i > k ? 'notAccepted' : 'durable'
            })
            expect(ends).toEqual(expected)
            expect(outcome.records[k]).toMatchObject({ code: 'SLOT' })
            expect(outcome.bursts).toBe(condition === 'inOrder' || k === other ? 1 : 2)
            expect(outcome.waits).toBe(outcome.bursts)
            expect(part.durable.size).toBe(outcome.durable)
          }
        }
      })
    }
  }

  test('P4-10: ends at the bound where nothing is taken, and says what was wrong', async () => {
    for (const condition of CONDITIONS) {
      const part = await ScriptedPart.open()
      const running = commit(part, 4, { condition, retries: 5 })
      const outcome = await serve(part, running, condition, new Map([[1, [99, MEDIA]]]))
      expect(outcome.records[1]).toMatchObject({ status: 'refused', code: 'MEDIA' })
      expect(outcome.bursts).toBe(6)
      const behind = condition === 'inOrder' ? 'notAccepted' : 'durable'
      expect(outcome.records.map((record) => record.status)).toEqual([
        ...['durable', 'refused', behind, behind],
      ])
    }
  })

  test('without retries there is one burst', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 4, { condition: 'independent', retries: 0 })
    const outcome = await serve(part, running, 'independent', new Map([[1, [99, MEDIA]]]))
    expect(outcome).toMatchObject({ bursts: 1, waits: 1, durable: 3 })
  })

  test('a pause stands before a burst of which nothing was taken, and grows', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 2)
    const at: number[] = []
    await settle()
    while (!running.over()) {
      if (part.open.length > 0) {
        at.push(part.nowUs)
        part.answer(() => status('BATCH_ROOM'))
      }
      await part.advance(100)
    }
    expect(at.length).toBe(3)
    expect(at[1]! - at[0]!).toBeGreaterThanOrEqual(1000)
    expect(at[2]! - at[1]!).toBeGreaterThanOrEqual(2000)
    const { records } = await running.outcome
    expect(records[0]).toMatchObject({ status: 'refused', code: 'BATCH_ROOM' })
    expect(records[1]).toMatchObject({ status: 'notAccepted', because: 0 })
  })
})

describe('X-7: every record that is not durable says why, and what to do next', () => {
  const ofAll = [
    ...['BATCH_FIELDS', 'BATCH_REGION', 'NOT_ARMED', 'READ_ONLY', 'FLUSH', 'PLACEMENT_UNKNOWN'],
  ]
  for (const fault of ofAll) {
    test(`${fault} is told of every record, after one burst`, async () => {
      const part = await ScriptedPart.open()
      const running = commit(part, 5, { condition: 'independent' })
      part.answer(() => status(fault))
      const outcome = await running.outcome
      expect(outcome).toMatchObject({ bursts: 1, durable: 0 })
      for (const record of outcome.records) {
        expect(record).toMatchObject({ status: 'refused', code: fault })
        const error = (record as { error: PerdureError }).error as RefusedError
        expect(error).toBeInstanceOf(RefusedError)
        expect(error.status).toBe(status(fault))
        expect(error.message).toContain(error.advice)
      }
    })
  }

  test('behind a record that was refused in order stands NotAccepted, with its index', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 4, { condition: 'inOrder' })
    const outcome = await serve(part, running, 'inOrder', new Map([[1, [99, SLOT]]]))
    for (const index of [2, 3]) {
      const record = outcome.records[index]!
      expect(record).toMatchObject({ status: 'notAccepted', because: 1, slot: index })
      const error = (record as { error: PerdureError }).error as NotAccepted
      expect(error).toBeInstanceOf(NotAccepted)
      expect(error).toMatchObject({ code: 'PERDURE_NOT_ACCEPTED', because: 1 })
      expect(error.message).toMatch(/record [23] of 'orders'.*record 1 of 'orders'.*both again/)
    }
  })

  test('a record whose slot holds another sequence is told, and the others stand', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 4, { condition: 'expect' })
    expect(part.bursts[0]!.map(({ request }) => request.batch!.expect)).toEqual([4n, 4n, 4n, 4n])
    const outcome = await serve(part, running, 'expect', new Map([[2, [99, CONDITION]]]))
    expect(outcome.records[2]).toMatchObject({ status: 'refused', code: 'CONDITION' })
    expect(outcome).toMatchObject({ durable: 3, bursts: 1 })
  })

  test('a fence that failed leaves everything behind the first refusal in doubt', async () => {
    for (const condition of CONDITIONS) {
      const part = await ScriptedPart.open()
      const running = commit(part, 4, { condition })
      part.answer((index) => (index < 2 ? 0 : status('IN_DOUBT')))
      const { records } = await running.outcome
      expect(records.map((record) => record.status)).toEqual([
        ...['durable', 'durable', 'unknown', 'unknown'],
      ])
      expect((records[2] as { error: unknown }).error).toBeInstanceOf(OutcomeUnknown)
    }
  })

  test('a part that fails closed under a second burst leaves the first in doubt', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 3)
    part.answer(() => MEDIA)
    await part.advance(10_000)
    part.answer(() => status('FLUSH'))
    const { records } = await running.outcome
    expect(records.map((record) => record.status)).toEqual(['unknown', 'unknown', 'unknown'])
  })

  test('arguments are checked before anything is sent', async () => {
    const part = await ScriptedPart.open()
    const { region } = part
    const wrong: (() => unknown)[] = [
      () => region.batch({ condition: 'sometimes' as BatchCondition }),
      () => region.batch({ condition: 'toString' as BatchCondition }),
      () => region.batch({ durability: '3of2' as '2of2' }),
      () => region.batch({ durability: '2of3' }),
      () => region.batch({ retries: -1 }),
      () => region.batch({ retries: 0.5 }),
      () => region.batch({ deadlineMs: 0 }),
      () => region.batch().persist(512, bytesOf(1)),
      () => region.batch().persist(0, new Uint8Array(101)),
      () => region.batch().persist(0, 'text' as unknown as Uint8Array),
      () => region.batch().persist(0, bytesOf(1), { expect: 1n }),
      () => region.batch({ condition: 'inOrder' }).persist(0, bytesOf(1), { expect: 1n }),
      () => region.batch({ condition: 'expect' }).persist(0, bytesOf(1)),
      () => region.batch({ condition: 'expect' }).persist(0, bytesOf(1), { expect: -1n }),
      () =>
        region
          .batch({ condition: 'expect' })
          .persist(0, bytesOf(1), { expect: 1 as unknown as bigint }),
    ]
    for (const call of wrong) {
      expect(call).toThrowError(expect.objectContaining({ code: 'PERDURE_ARGUMENT' }))
    }
    const twice = region.batch()
    twice.persist(4, bytesOf(1))
    expect(() => twice.persist(4, bytesOf(2))).toThrowError(/that slot already/)
    const full = region.batch()
    for (let slot = 0; slot < 256; slot++) full.persist(slot, bytesOf(slot))
    expect(() => full.persist(256, bytesOf(1))).toThrowError(/256/)
    expect(full.length).toBe(256)
    await expect(region.batch().commit()).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
    const once = twice.commit()
    await expect(twice.commit()).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
    expect(() => twice.persist(5, bytesOf(1))).toThrowError(/committed/)
    part.answer()
    expect(await once).toMatchObject({ all: true })
    expect(part.bursts.length).toBe(1)
  })

  test('a way without batches says so of every record', async () => {
    const part = await ScriptedPart.open({}, 0)
    const { records, bursts } = await commit(part, 2).outcome
    expect(bursts).toBe(0)
    for (const record of records) {
      expect(record).toMatchObject({ status: 'refused', code: 'PERDURE_TRANSPORT' })
    }
  })
})

describe('P4-14: batches among ordinary requests', () => {
  test('the bytes are those of the call', async () => {
    const part = await ScriptedPart.open()
    const batch = part.region.batch()
    const bytes = bytesOf(1)
    batch.persist(0, bytes)
    bytes.fill(0)
    const outcome = batch.commit()
    expect(part.bursts[0]![0]!.request.data).toEqual(bytesOf(1))
    part.answer()
    await outcome
  })

  test('operation ids follow each other, whatever was called for meanwhile', async () => {
    const part = await ScriptedPart.open()
    const batch = part.region.batch()
    batch.persist(0, bytesOf(0))
    const before = part.region.persist(9, bytesOf(9))
    batch.persist(1, bytesOf(1))
    const outcome = batch.commit()
    const behind = part.region.persist(10, bytesOf(9))
    expect(before.operationId).toBe(1n)
    expect(behind.operationId).toBe(4n)
    while (part.open.length > 0) part.answer()
    expect((await outcome).records.map(({ operationId }) => operationId)).toEqual([2n, 3n])
  })

  test('another slot goes along; a slot of the batch waits until the batch is over', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 3, { condition: 'inOrder' })
    part.region.persist(7, bytesOf(7))
    const same = part.region.persist(2, bytesOf(50))
    const second = commit(part, 2, { slot: 1 })
    expect(part.bursts.map((jobs) => slotOf(jobs[0]!))).toEqual([0, 7])
    part.answer(judging('inOrder', new Map([[1, [1, MEDIA]]])))
    expect(indexesOf(part.bursts[2]!)).toEqual([1, 2])
    part.answer()
    expect(part.bursts.length).toBe(3)
    part.answer()
    expect((await running.outcome).all).toBe(true)
    expect(part.bursts[3]!.map(({ request }) => request.data)).toEqual([bytesOf(50)])
    expect(part.bursts.length).toBe(5)
    part.answer()
    part.answer()
    await same.persisted
    expect((await second.outcome).all).toBe(true)
    const last = [...part.durable].filter(([, job]) => slotOf(job) === 2).at(-1)!
    expect(last[0]).toBe(same.operationId + 2n)
  })

  test('a batch waits for what was called for before, and goes to one of its slots', async () => {
    const part = await ScriptedPart.open({ inFlight: 1 })
    part.region.persist(1, bytesOf(50))
    const running = commit(part, 3)
    expect(part.bursts.length).toBe(1)
    part.answer()
    expect(part.bursts.length).toBe(2)
    part.answer()
    expect((await running.outcome).all).toBe(true)
  })
})

describe('giving up', () => {
  test('a signal that fired before the call: nothing is sent', async () => {
    const part = await ScriptedPart.open()
    const { records } = await commit(part, 2, { signal: AbortSignal.abort() }).outcome
    expect(records.map((record) => record.status)).toEqual(['refused', 'refused'])
    expect(records[0]).toMatchObject({ code: 'PERDURE_ABORTED' })
    expect(part.bursts.length).toBe(0)
  })

  test('later, what was sent is unknown, and nothing more of it is sent', async () => {
    const part = await ScriptedPart.open()
    const control = new AbortController()
    const running = commit(part, 3, { signal: control.signal })
    part.answer((index) => (index === 0 ? 0 : MEDIA))
    control.abort()
    const { records } = await running.outcome
    expect(records.map((record) => record.status)).toEqual(['durable', 'unknown', 'unknown'])
    part.answer()
    await part.advance(1_000_000)
    expect(part.bursts.length).toBe(2)
    expect(part.connection.unresolved.size).toBe(0)

    const late = commit(part, 2, { deadlineMs: 5 })
    part.answer(() => MEDIA)
    await part.advance(1500)
    expect(part.bursts.length).toBe(4)
    await part.advance(5000)
    expect(part.bursts.length).toBe(4)
    const ends = (await late.outcome).records.map((record) => record.status)
    expect(ends).toEqual(['unknown', 'unknown'])
  })

  test('X-7: a deadline in a pause ends it, and what was sent before is unknown', async () => {
    const part = await ScriptedPart.open()
    const late = commit(part, 2, { deadlineMs: 0.5 })
    part.answer(() => MEDIA)
    await part.advance(600)
    const { records } = await late.outcome
    expect(records[1]).toMatchObject({ status: 'unknown' })
    await part.advance(100_000)
    expect(part.bursts.length).toBe(1)
  })

  test('closing ends what waits, what pauses and what is on its way', async () => {
    const part = await ScriptedPart.open({ inFlight: 1 })
    const pausing = commit(part, 2)
    part.answer(() => MEDIA)
    const sent = commit(part, 2, { slot: 10 })
    const waiting = commit(part, 2, { slot: 20 })
    part.connection.close(new PerdureError('PERDURE_CLOSED', 'closed'))
    const ends = await Promise.all([pausing, sent, waiting].map(({ outcome }) => outcome))
    expect(ends[0]!.records[0]).toMatchObject({ status: 'unknown' })
    expect(ends[1]!.records[0]).toMatchObject({ status: 'unknown' })
    expect(ends[2]!.records[0]).toMatchObject({ status: 'refused', code: 'PERDURE_CLOSED' })
    expect(() => part.region.batch()).toThrowError(/closed/)
    await part.advance(1_000_000)
    expect(part.bursts.length).toBe(2)
  })
})

describe('P4-9, P4-12, X-3: a connection that breaks under a batch', () => {
  for (const condition of CONDITIONS) {
    for (let count = 1; count <= 6; count++) {
      test(`${condition}, ${count} records: it is asked, the rest goes again`, async () => {
        for (let k = 0; k <= count; k++) {
          const part = await ScriptedPart.open()
          const running = commit(part, count, { condition })
          part.store(k)
          part.break()
          await settle()
          await settle()
          expect(part.queried).toEqual(upTo(count).map((i) => BigInt(i + 1)))
          expect(part.bursts.slice(1).map(indexesOf)).toEqual(k === count ? [] : [upTo(count, k)])
          if (k < count) {
            expect(headerOf(part.bursts[1]![0]!)).toEqual({
              ...headerOf(part.bursts[0]![k]!),
              lastOfBatch: k === count - 1,
            })
            part.answer()
          }
          const outcome = await running.outcome
          const bursts = k === count ? 1 : 2
          expect(outcome).toMatchObject({ all: true, bursts, waits: bursts - 1 })
          const recovered = outcome.records.map(
            (record) => record.status === 'durable' && record.receipt.recovered === true,
          )
          expect(recovered).toEqual(upTo(count).map((i) => i < k))
          expect(part.connection.statistics()).toMatchObject({ recovered: k, connections: 2 })
        }
      })
    }
  }

  test('a pause, and what waits behind, outlive it; the order of the calls holds', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 3, { condition: 'inOrder' })
    const other = part.region.persist(9, bytesOf(9))
    const same = part.region.persist(1, bytesOf(50))
    part.answer(() => MEDIA)
    part.break()
    await settle()
    await settle()
    expect(part.bursts.at(-1)!.map(slotOf)).toEqual([9])
    await part.advance(10_000)
    expect(indexesOf(part.bursts.at(-1)!)).toEqual([0, 1, 2])
    while (part.open.length > 0) part.answer()
    expect((await running.outcome).all).toBe(true)
    await Promise.all([other.persisted, same.persisted])
  })

  test('what was called for before goes first again, also to a slot of the batch', async () => {
    const part = await ScriptedPart.open()
    const before = part.region.persist(1, bytesOf(50))
    const running = commit(part, 3, { condition: 'inOrder' })
    part.break()
    await settle()
    await settle()
    expect(part.bursts.slice(2).map((jobs) => jobs.map(slotOf))).toEqual([...[[1], [0, 1, 2]]])
    part.answer()
    part.answer()
    await before.persisted
    expect((await running.outcome).all).toBe(true)
  })

  test('a part that failed closed keeps what it knows: what was sent is unknown', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 4, { condition: 'inOrder' })
    part.store(2)
    part.state = 'failedClosed'
    part.break()
    const { records } = await running.outcome
    expect(records.map((record) => record.status)).toEqual([
      ...['durable', 'durable', 'unknown', 'unknown'],
    ])
  })

  test('a part that does not serve batches says so once, and not again', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 4)
    part.break('REM_INV_REQ_ERR', 0)
    const { records, bursts } = await running.outcome
    expect(bursts).toBe(1)
    for (const record of records) {
      expect(record).toMatchObject({ status: 'refused', code: 'PERDURE_TRANSPORT' })
    }
  })

  test('a wrong key refuses one record, and in order everything behind it', async () => {
    for (const condition of CONDITIONS) {
      const part = await ScriptedPart.open()
      const running = commit(part, 4, { condition })
      part.break('REM_ACCESS_ERR', 1)
      await settle()
      await settle()
      const rest = condition === 'inOrder' ? [0] : [0, 2, 3]
      expect(indexesOf(part.bursts[1]!)).toEqual(rest)
      part.answer()
      const { records } = await running.outcome
      const behind = condition === 'inOrder' ? 'notAccepted' : 'durable'
      expect(records.map((record) => record.status)).toEqual([
        ...['durable', 'refused', behind, behind],
      ])
    }
  })

  test('X-1: a part that starts again while it is asked is asked once more', async () => {
    const part = await ScriptedPart.open()
    const running = commit(part, 3)
    part.onOpen = () => {
      part.incarnation = 2
    }
    part.break()
    await settle()
    await settle()
    expect(part.queried).toEqual([])
    await part.advance(1_000_000)
    await settle()
    expect(part.queried).toEqual([1n, 2n, 3n])
    part.answer()
    const { records } = await running.outcome
    expect(records[0]).toMatchObject({ status: 'durable', receipt: { incarnation: 2 } })
  })

  test('without reconnection what was sent is unknown', async () => {
    const part = await ScriptedPart.open({ reconnect: false })
    const running = commit(part, 2)
    part.break()
    const { records } = await running.outcome
    expect(records.map((record) => record.status)).toEqual(['unknown', 'unknown'])
  })
})
