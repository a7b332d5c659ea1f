/**
 * Batches by work requests: a list of WRITE_PERSIST with `batch` is a burst, each request completes
 * by itself when the one status comes, and what makes no sense throws before anything is posted.
 * In virtual time, against the emulated card.
 */

import { afterEach, describe, expect, test } from 'vitest'
import {
  type BatchCondition,
  type BatchOf,
  type CompletionQueue,
  INLINE,
  type MemoryRegion,
  type QueuePair,
  type Region,
  type SendRequest,
  SIGNALED,
  type WorkCompletion,
} from '../../../host-driver/index.ts'
import { thrown } from '../../support/driver/failures.ts'
import { type OpenWay, openWay, type WayName } from '../../support/driver/ways.ts'

/** The ways over which a list of work requests can be a batch. */
const WITH_BATCHES: readonly WayName[] = ['frames']
const CONDITIONS: readonly BatchCondition[] = ['independent', 'inOrder', 'expect']

const open: OpenWay[] = []
afterEach(async () => {
  for (const way of open.splice(0)) await way.close()
})

interface Bench {
  readonly way: OpenWay
  readonly mr: MemoryRegion
  readonly cq: CompletionQueue
  readonly qp: QueuePair
  readonly region: Region
}

const SLOTS = 300
const BYTES = 40

async function bench(name: WayName, sendDepth = 512): Promise<Bench> {
  const way = await openWay(name)
  open.push(way)
  const { dpu } = way
  await dpu.format()
  const region = await dpu.provision({ name: 'records', slots: SLOTS, capacity: 1024 })
  const { verbs } = dpu
  const pd = verbs.allocPd()
  const mr = await pd.regMr(SLOTS * BYTES)
  for (let i = 0; i < SLOTS; i++) mr.fill(i * BYTES, new Uint8Array(BYTES).fill(i + 1))
  const cq = await verbs.createCq(1024)
  const qp = await pd.createQp({ sendCq: cq, recvCq: cq, sendDepth })
  await verbs.connect(qp)
  return { way, mr, cq, qp, region }
}

interface List {
  readonly count: number
  readonly condition?: BatchCondition
  readonly id?: number
  /** Those of the batch that are posted; all unless given. */
  readonly indexes?: readonly number[]
  /** Operation of the record with index 0. */
  readonly base?: bigint
  /** Where a record goes, if not to the slot of its index. */
  readonly slotOf?: (index: number) => number
  readonly expect?: bigint
  readonly flags?: number
}

/** Work requests that are a burst of a batch: wrId is the index. */
function burst({ mr, region }: Bench, list: List): SendRequest[] {
  const { count, condition = 'independent', id = 1, base = 100n, flags = SIGNALED } = list
  const { indexes = Array.from({ length: count }, (_, i) => i), slotOf = (i) => i } = list
  return indexes.map((index) => ({
    ...{ wrId: BigInt(index), opcode: 'WRITE_PERSIST', flags, rkey: region.info.rkey },
    remoteAddr: BigInt(slotOf(index)) << 32n,
    sgList: [mr.sge(index * BYTES, BYTES)],
    operationId: base + BigInt(index),
    batch: {
      ...{ id, index, count, condition, last: index === indexes.at(-1) },
      ...(condition === 'expect' && { expect: list.expect ?? 0n }),
    },
  }))
}

async function completions({ way, cq }: Bench, count: number): Promise<WorkCompletion[]> {
  const all = cq.poll()
  for (let tries = 0; all.length < count && tries < 20_000; tries++) {
    await way.pass(10)
    all.push(...cq.poll())
  }
  expect(all.length).toBe(count)
  return all
}

async function slotHolds({ region }: Bench, slot: number, index: number): Promise<void> {
  expect((await region.read(slot)).data).toEqual(new Uint8Array(BYTES).fill(index + 1))
}

for (const name of WITH_BATCHES) {
  describe(`over ${name}`, () => {
    for (const condition of CONDITIONS) {
      test(`P4-1, P4-8: ${condition}, each request completes by itself, in order`, async () => {
        const b = await bench(name)
        const { sequence } = await b.region.read(0)
        b.qp.postSend(burst(b, { count: 40, condition, expect: sequence }))
        const done = await completions(b, 40)
        for (const [i, completion] of done.entries()) {
          expect(completion).toMatchObject({
            ...{ wrId: BigInt(i), status: 'SUCCESS', opcode: 'PERSIST', fault: null },
            ...{ copies: 2, mechanism: 'localFlush', byteLen: BYTES },
          })
        }
        for (const i of [0, 31, 32, 39]) await slotHolds(b, i, i)
      })
    }

    test('P4-8: those that are not signaled complete in silence', async () => {
      const b = await bench(name)
      const list = burst(b, { count: 256, flags: 0 })
      b.qp.postSend(list.map((one, i) => (i === 255 ? { ...one, flags: SIGNALED } : one)))
      expect(await completions(b, 1)).toMatchObject([{ wrId: 255n, status: 'SUCCESS' }])
      await slotHolds(b, 254, 254)
    })

    for (let count = 1; count <= 8; count++) {
      test(`D-10, P4-9, X-7: ${count} requests, one that is refused at every place`, async () => {
        const b = await bench(name)
        let base = 1000n
        let id = 0
        for (const condition of ['independent', 'inOrder'] as const) {
          for (let k = 0; k < count; k++) {
            base += 100n
            id++
            const slotOf = (i: number): number => (i === k ? 9999 : i)
            b.qp.postSend(burst(b, { count, condition, id, base, slotOf }))
            const done = await completions(b, count)
            const faults = done.map(({ fault }) => fault)
            const behind = condition === 'inOrder' ? 'BATCH_ABORTED' : null
            const before = Array.from({ length: k }, () => null)
            const after = Array.from({ length: count - k - 1 }, () => behind)
            expect(faults).toEqual([...before, 'SLOT', ...after])
            for (const { status, fault } of done) {
              expect(status).toBe(fault === null ? 'SUCCESS' : 'GENERAL_ERR')
            }
            // The rest in one burst, as its sender decides: the same ids, indexes and operations.
            const indexes = Array.from({ length: count - k }, (_, i) => k + i)
            b.qp.postSend(burst(b, { count, condition, id, base, indexes }))
            const again = await completions(b, count - k)
            expect(again.map(({ status }) => status)).toEqual(indexes.map(() => 'SUCCESS'))
            expect(again.map(({ wrId }) => wrId)).toEqual(indexes.map(BigInt))
            const { operationId } = await b.region.read(count - 1)
            expect(operationId).toBe(base + BigInt(count - 1))
          }
        }
      })
    }

    test('P4-14: others stand before and behind, and two batches follow each other', async () => {
      const b = await bench(name)
      const { mr, region } = b
      const alone = (wrId: bigint, slot: number): SendRequest => ({
        ...{ wrId, opcode: 'WRITE_PERSIST', flags: SIGNALED, rkey: region.info.rkey },
        ...{ remoteAddr: BigInt(slot) << 32n, sgList: [mr.sge(0, BYTES)], operationId: wrId },
      })
      b.qp.postSend([
        alone(5000n, 3),
        ...burst(b, { count: 10, id: 1, base: 6000n, condition: 'inOrder' }),
        alone(7000n, 200),
        ...burst(b, { count: 10, id: 2, base: 8000n }),
        alone(9000n, 3),
      ])
      const done = await completions(b, 23)
      expect(done.map(({ status }) => status)).toEqual(Array.from({ length: 23 }, () => 'SUCCESS'))
      expect((await region.read(3)).operationId).toBe(9000n)
      expect((await region.read(4)).operationId).toBe(8004n)
    })

    test('P4-12: a query tells what is durable of the last batch, and why not all', async () => {
      const b = await bench(name)
      const ask = async (batchId: number): Promise<WorkCompletion> => {
        b.qp.postSend({ wrId: 900n, opcode: 'PERSIST_QUERY', flags: SIGNALED, batchId })
        return (await completions(b, 1))[0]!
      }
      expect(await ask(1)).toMatchObject({ status: 'SUCCESS', durableIndexes: null })
      const slotOf = (i: number): number => (i === 33 ? 9999 : i)
      b.qp.postSend(burst(b, { count: 40, slotOf }))
      await completions(b, 40)
      const durableIndexes = Array.from({ length: 40 }, (_, i) => i).filter((i) => i !== 33)
      expect(await ask(1)).toMatchObject({ durable: false, durableIndexes, fault: 'SLOT' })
      expect(await ask(2)).toMatchObject({ status: 'SUCCESS', durableIndexes: null, fault: null })
      b.qp.postSend(burst(b, { count: 2, id: 2, base: 500n }))
      await completions(b, 2)
      expect(await ask(2)).toMatchObject({ durable: true, durableIndexes: [0, 1], fault: null })
      expect(await ask(1)).toMatchObject({ durableIndexes: null })
      expect(
        thrown(() => b.qp.postSend({ wrId: 1n, opcode: 'PERSIST_QUERY', batchId: -1 })).code,
      ).toBe('PERDURE_ARGUMENT')
    })

    test('bytes INLINE are those of the call', async () => {
      const b = await bench(name)
      b.qp.postSend(burst(b, { count: 4, flags: SIGNALED | INLINE }))
      b.mr.fill(0, new Uint8Array(4 * BYTES).fill(99))
      await completions(b, 4)
      for (const i of [0, 3]) await slotHolds(b, i, i)
    })

    test('a queue without room for all of a list takes none of it', async () => {
      const b = await bench(name, 8)
      const error = thrown(() => b.qp.postSend(burst(b, { count: 256 })))
      expect(error.code).toBe('PERDURE_QUEUE_FULL')
      b.qp.postSend(burst(b, { count: 8 }))
      expect((await completions(b, 8)).every(({ status }) => status === 'SUCCESS')).toBe(true)
    })

    describe('X-7: what makes no sense throws, and nothing of its list is posted', () => {
      const alter = (at: number, change: Partial<BatchOf>) => (list: SendRequest[]) =>
        list.map((one, i) => (i === at ? { ...one, batch: { ...one.batch!, ...change } } : one))
      const other = (at: number, change: Partial<SendRequest>) => (list: SendRequest[]) =>
        list.map((one, i) => (i === at ? { ...one, ...change } : one))
      const wrong: [string, (list: SendRequest[]) => SendRequest[]][] = [
        ['an id of 65536', alter(0, { id: 65_536 })],
        ['an id that is no number', alter(0, { id: Number.NaN })],
        ['no records', alter(0, { count: 0 })],
        ['257 records', alter(0, { count: 257 })],
        ['an index outside of its batch', alter(3, { index: 4 })],
        ['an index below 0', alter(0, { index: -1 })],
        ['a condition that is none', alter(0, { condition: 'sometimes' as BatchCondition })],
        ['a sequence where none is expected', alter(0, { expect: 1n })],
        ['no sequence where one is expected', alter(0, { condition: 'expect' })],
        ['a sequence below 0', alter(0, { condition: 'expect', expect: -1n })],
        ['a last one that is not told', alter(3, { last: undefined as unknown as boolean })],
        ['none that is the last', alter(3, { last: false })],
        ['an id that changes', alter(2, { id: 9 })],
        ['a count that changes', alter(2, { count: 5 })],
        ['a condition that changes', alter(2, { condition: 'inOrder' })],
        ['an index twice', alter(2, { index: 1 })],
        [
          'a record that comes twice',
          (list) => other(2, { operationId: 101n })(alter(2, { index: 1 })(list)),
        ],
        ['an operation that does not follow', other(2, { operationId: 500n })],
        ['a slot twice', other(2, { remoteAddr: 1n << 32n })],
        ['a request of another kind', other(2, { opcode: 'RDMA_WRITE' })],
        [
          'an ordinary record inside',
          (list) => list.map(({ batch, ...one }, i) => (i === 2 ? one : { ...one, batch: batch! })),
        ],
      ]
      for (const [what, change] of wrong) {
        test(what, async () => {
          const b = await bench(name)
          const error = thrown(() => b.qp.postSend(change(burst(b, { count: 4 }))))
          expect(error.code).toBe('PERDURE_ARGUMENT')
          expect(error.message).toMatch(/^request \d: /)
          await b.way.pass(1000)
          expect(b.cq.poll()).toEqual([])
          b.qp.postSend(burst(b, { count: 4 }))
          await completions(b, 4)
        })
      }
    })

    test('a queue pair that ends flushes a batch, each of its requests once', async () => {
      const b = await bench(name)
      b.qp.postSend(burst(b, { count: 20 }))
      await b.qp.modify({ state: 'ERR' })
      const done = await completions(b, 20)
      expect(done.map(({ wrId }) => wrId)).toEqual(Array.from({ length: 20 }, (_, i) => BigInt(i)))
      expect(new Set(done.map(({ status }) => status))).toEqual(new Set(['WR_FLUSH_ERR']))
    })
  })
}

for (const name of ['own', 'behind'] as const) {
  test(`X-7: over ${name} there is no query about a batch, and the call says so`, async () => {
    const { qp, cq } = await bench(name, 8)
    const call = (): void => qp.postSend({ wrId: 1n, opcode: 'PERSIST_QUERY', batchId: 1 })
    expect(thrown(call)).toMatchObject({ code: 'PERDURE_ARGUMENT' })
    expect(cq.poll()).toEqual([])
  })
}
