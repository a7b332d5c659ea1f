/**
 * Batches of the driver by every way to a DPU: frames, the queues of the local card, and those
 * towards the DPU behind it. What a batch promises is the same on all of them.
 */

import { afterEach, describe, expect, test } from 'vitest'
import {
  type BatchCondition,
  type BatchOutcome,
  type CompletionQueue,
  INLINE,
  type MemoryRegion,
  PerdureError,
  type QueuePair,
  type Region,
  type SendRequest,
  SIGNALED,
  type WorkCompletion,
} from '../../../host-driver/index.ts'
import { type OpenWay, openWay, WAYS, type WayName } from '../../support/driver/ways.ts'

const SLOTS = 300
const CONDITIONS: readonly BatchCondition[] = ['independent', 'inOrder', 'expect']

const open: OpenWay[] = []
afterEach(async () => {
  for (const way of open.splice(0)) await way.close()
})

async function regionOf(
  name: WayName,
  capacity = 1024,
  slots = SLOTS,
): Promise<{ way: OpenWay; region: Region }> {
  const way = await openWay(name, { connect: { pathMtu: 1024 } })
  open.push(way)
  await way.dpu.format()
  return { way, region: await way.dpu.provision({ name: 'records', slots, capacity }) }
}

function bytesOf(slot: number, round: number, length = 40): Uint8Array {
  return new Uint8Array(length).map((_, i) => slot * 7 + round * 31 + i)
}

/** How each record ended: 'durable', the fault, or 'behind' and the index that it is behind. */
function endsOf({ records }: BatchOutcome): string[] {
  return records.map((record) => {
    if (record.status === 'refused') return record.code
    return record.status === 'notAccepted' ? `behind ${record.because}` : record.status
  })
}

describe.each(WAYS)('%s', (name) => {
  test.each(CONDITIONS)(
    'P4-1, P4-8: a batch of 32, %s: one burst, one wait, all durable',
    async (condition) => {
      const { region } = await regionOf(name)
      const batch = region.batch({ condition })
      for (let slot = 0; slot < 32; slot++) {
        const expected =
          condition === 'expect' ? { expect: (await region.read(slot)).sequence } : {}
        batch.persist(slot, bytesOf(slot, 1), expected)
      }
      const outcome = await batch.commit()
      expect(outcome).toMatchObject({ all: true, durable: 32, bursts: 1, waits: 1 })
      for (const [slot, record] of outcome.records.entries()) {
        expect(record).toMatchObject({ status: 'durable', receipt: { copies: 2, of: 2 } })
        expect((await region.read(slot)).data).toEqual(bytesOf(slot, 1))
      }
    },
  )

  test('P4-13: a batch of 256 in order, one record of which has many packets', async () => {
    const { region, way } = await regionOf(name, 3000)
    const batch = region.batch({ condition: 'inOrder' })
    for (let slot = 0; slot < 256; slot++) {
      batch.persist(slot, bytesOf(slot, 2, slot === 77 ? 3000 : 40))
    }
    const outcome = await batch.commit()
    expect(outcome).toMatchObject({ all: true, durable: 256 })
    // Over queues as much goes out at once as can be under way.
    expect(outcome.bursts).toBe(name === 'frames' ? 1 : 8)
    expect((await region.read(77)).data).toEqual(bytesOf(77, 2, 3000))
    expect(way.dpu.statistics().recordsDurable).toBeGreaterThanOrEqual(256)
  })

  test('a record that the way takes in no batch is refused at the call', async () => {
    const { region } = await regionOf(name, 4097, 2)
    const batch = region.batch({ condition: 'inOrder' })
    batch.persist(0, bytesOf(0, 1, 4096))
    const long = bytesOf(1, 1, 4097)
    if (name === 'frames') {
      batch.persist(1, long)
    } else {
      expect(() => batch.persist(1, long)).toThrow(
        "4097 bytes for a record of 'records' in a batch: at most 4096 over the queues of a card",
      )
      await region.persist(1, long).persisted
    }
    expect(await batch.commit()).toMatchObject({ all: true, bursts: 1 })
    expect((await region.read(0)).data).toEqual(bytesOf(0, 1, 4096))
    expect((await region.read(1)).data).toEqual(long)
  })

  test('D-10: expect: where a slot holds another sequence its record is refused', async () => {
    const { region } = await regionOf(name)
    const batch = region.batch({ condition: 'expect' })
    for (let slot = 0; slot < 8; slot++) {
      const { sequence } = await region.read(slot)
      const off = slot === 2 || slot === 5 ? 1n : 0n
      batch.persist(slot, bytesOf(slot, 3), { expect: sequence + off })
    }
    const ends = endsOf(await batch.commit())
    expect(ends).toEqual(ends.map((_, i) => (i === 2 || i === 5 ? 'CONDITION' : 'durable')))
    for (let slot = 0; slot < 8; slot++) {
      const { written } = await region.read(slot)
      expect(written).toBe(slot !== 2 && slot !== 5)
    }
  })

  test('batches of several callers, records and reads between them: each ends well', async () => {
    const { region } = await regionOf(name)
    const batches = Array.from({ length: 6 }, (_, b) => {
      const batch = region.batch({ condition: 'inOrder' })
      for (let i = 0; i < 24; i++) batch.persist(b * 24 + i, bytesOf(i, b))
      return batch.commit()
    })
    const singles = Array.from(
      { length: 20 },
      (_, i) => region.persist(200 + i, bytesOf(i, 9)).persisted,
    )
    const reads = Array.from({ length: 20 }, (_, i) => region.read(i))
    for (const outcome of await Promise.all(batches)) expect(outcome.all).toBe(true)
    await Promise.all([...singles, ...reads])
    for (let b = 0; b < 6; b++) {
      for (let i = 0; i < 24; i += 5)
        expect((await region.read(b * 24 + i)).data).toEqual(bytesOf(i, b))
    }
  })

  test('P4-9, P4-10: a card that restarts under a batch: every record is durable', async () => {
    const { region, way } = await regionOf(name)
    const batch = region.batch({ condition: 'inOrder' })
    for (let slot = 0; slot < 30; slot++) batch.persist(slot, bytesOf(slot, 4))
    const committed = batch.commit()
    if (name !== 'own') await way.restart()
    const outcome = await committed
    expect(endsOf(outcome)).toEqual(Array(30).fill('durable'))
    for (let slot = 0; slot < 30; slot++) {
      expect((await region.read(slot)).data).toEqual(bytesOf(slot, 4))
    }
  })
})

interface Bench {
  readonly cq: CompletionQueue
  readonly qp: QueuePair
  readonly mr: MemoryRegion
  readonly region: Region
}

async function bench(name: WayName): Promise<Bench> {
  const { way, region } = await regionOf(name)
  const { verbs } = way.dpu
  const pd = verbs.allocPd()
  const mr = await pd.regMr(65_536)
  const cq = await verbs.createCq(256)
  const qp = await pd.createQp({ sendCq: cq, recvCq: cq, sendDepth: 128 })
  await verbs.connect(qp)
  return { cq, qp, mr, region }
}

interface List {
  readonly count: number
  readonly condition?: BatchCondition
  readonly slotOf?: (index: number) => number
  readonly length?: number
  readonly flags?: number
  readonly base?: bigint
}

function burst({ mr, region }: Bench, list: List): SendRequest[] {
  const { count, condition = 'independent', slotOf = (i) => i, length = 40, base = 100n } = list
  return Array.from({ length: count }, (_, index) => ({
    ...{ wrId: BigInt(index), opcode: 'WRITE_PERSIST', flags: list.flags ?? SIGNALED },
    ...{ rkey: region.info.rkey, remoteAddr: BigInt(slotOf(index)) << 32n },
    sgList: [mr.sge(index * 64, length)],
    operationId: base + BigInt(index),
    batch: { id: 1, index, count, condition, last: index === count - 1 },
  }))
}

async function ends({ cq }: Bench, count: number): Promise<WorkCompletion[]> {
  const ended: WorkCompletion[] = []
  for (let i = 0; i < 10_000 && ended.length < count; i++) {
    ended.push(...cq.poll(64))
    await new Promise((resolve) => setImmediate(resolve))
  }
  return ended
}

async function completions(one: Bench, count: number): Promise<string[]> {
  return (await ends(one, count)).map(({ status, fault }) => fault ?? status)
}

describe.each(['own', 'behind'] as const)('work requests: %s', (name) => {
  test('P4-1, P4-5: a list is a burst, and each request completes by itself', async () => {
    const one = await bench(name)
    one.mr.fill(0, new Uint8Array(65_536).fill(5))
    for (const flags of [SIGNALED, SIGNALED | INLINE]) {
      one.qp.postSend(burst(one, { count: 32, flags, base: BigInt(flags) << 32n }))
      const ended = await ends(one, 32)
      expect(ended.map(({ wrId }) => wrId)).toEqual(Array.from({ length: 32 }, (_, i) => BigInt(i)))
      expect(ended.map(({ status }) => status)).toEqual(Array(32).fill('SUCCESS'))
    }
    expect((await one.region.read(31)).data).toEqual(new Uint8Array(40).fill(5))
  })

  test('P4-7: in order, nothing behind the first that is refused', async () => {
    const one = await bench(name)
    const slotOf = (index: number): number => (index === 2 ? SLOTS : index)
    one.qp.postSend(burst(one, { count: 4, condition: 'inOrder', slotOf }))
    const ended = await completions(one, 4)
    expect(ended.slice(0, 3)).toEqual(['SUCCESS', 'SUCCESS', 'SLOT'])
    expect(ended[3]).toBe(name === 'own' ? 'CONDITION' : 'BATCH_ABORTED')
    expect(one.qp.state).toBe('RTS')
  })

  test('what a card does not take as a whole throws, and nothing is posted', async () => {
    const one = await bench(name)
    const long = burst(one, { count: 2, length: 4097 })
    for (const list of [burst(one, { count: 33 }), long]) {
      expect(() => one.qp.postSend(list)).toThrow(PerdureError)
    }
    expect(await completions(one, 1).then((ended) => ended.length)).toBe(0)
  })
})
