/**
 * Whatever throws while a request is made or encoded ends that request alone (R31-2): what it had
 * of the windows is free again, what is called before and after it goes on, and no connection is
 * held up.
 *
 * What passes every check and fails in the encoder is a key that is no number: no caller gives one,
 * so the tests put it where the driver keeps what the DPU said.
 */

import { afterEach, describe, expect, test } from 'vitest'
import type { BytesRegion, Dpu, Outcome, Region } from '../../../host-driver/index.ts'
import { type Pending, pending } from '../../../host-driver/way/chain.ts'
import { type Done, type Job, writeJob } from '../../../host-driver/way/jobs.ts'
import { type OpenWay, openWay, WAYS, type WayName } from '../../support/driver/ways.ts'

interface Bench {
  readonly way: OpenWay
  readonly dpu: Dpu
  readonly region: Region
  readonly log: BytesRegion
}

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

async function benchOver(name: WayName): Promise<Bench> {
  const way = await openWay(name)
  ends.push(() => way.close())
  const { dpu } = way
  await dpu.format()
  const region = await dpu.provision({ name: 'r', slots: 16, capacity: 4096 })
  const log = await dpu.provisionBytes({ name: 'log', length: 65_536 })
  return { way, dpu, region, log }
}

const KEY = Symbol('no key')

/** Does it while the keys of the regions are none. */
async function withoutKeys<T>({ region, log }: Bench, work: () => Promise<T>): Promise<T> {
  const infos = [region.info, log.info] as { rkey: unknown }[]
  const keys = infos.map(({ rkey }) => rkey)
  for (const info of infos) info.rkey = KEY
  try {
    return await work()
  } finally {
    for (const [i, info] of infos.entries()) info.rkey = keys[i]
  }
}

const bytes = (length: number, fill = 7): Uint8Array => new Uint8Array(length).fill(fill)

/** One of each kind, of one packet and of several. */
const REQUESTS: Readonly<Record<string, (bench: Bench) => Promise<unknown>>> = {
  persist: ({ region }) => region.persist(1, bytes(64)).persisted,
  'persist of several packets': ({ region }) => region.persist(1, bytes(4096)).persisted,
  'persist that is read': ({ region }) => region.read(1),
  batch: async ({ region }) => {
    const batch = region.batch()
    for (const slot of [1, 2, 3]) batch.persist(slot, bytes(64))
    const { durable, records } = await batch.commit()
    if (durable < 3) throw new Error(records.map(({ status }) => status).join(', '))
  },
  write: ({ log }) => log.write(0, bytes(64)),
  'write of several packets': ({ log }) => log.write(0, bytes(9000)),
  read: ({ log }) => log.read(0, 64),
  flush: ({ log }) => log.flush(0, 64),
  fetchAdd: ({ log }) => log.fetchAdd(0, 1n),
  compareSwap: ({ log }) => log.compareSwap(0, 1n, 1n),
  atomicWrite: ({ log }) => log.atomicWrite(0, bytes(8)),
}

/** More than any window and any queue of the driver has places for. */
const MANY = 300

async function expectAlive({ dpu, region, log }: Bench): Promise<void> {
  const before = (await dpu.status()).state
  expect(before).toBe('serving')
  await region.persist(3, bytes(512, 9)).persisted
  expect(Buffer.from((await region.read(3)).data)).toEqual(Buffer.from(bytes(512, 9)))
  await log.write(64, bytes(8, 5))
  expect(await log.read(64, 8)).toEqual(bytes(8, 5))
  await log.flush(64, 8)
}

describe.each(WAYS)('R31-2: over %s, a request that cannot be encoded', (name) => {
  test.each(Object.keys(REQUESTS))('%s: ends alone, however often', async (kind) => {
    const bench = await benchOver(name)
    const { connections } = bench.dpu.statistics()
    for (let i = 0; i < MANY; i += 30) {
      const some = await withoutKeys(bench, () => {
        const calls = Array.from({ length: 30 }, () => REQUESTS[kind]!(bench))
        return Promise.allSettled(calls)
      })
      for (const one of some) {
        expect(one).toMatchObject({ status: 'rejected', reason: expect.any(Error) })
      }
    }
    await REQUESTS[kind]!(bench)
    await expectAlive(bench)
    expect(bench.dpu.statistics().connections).toBe(connections)
  })

  test('what was called before it and after it goes on, each once', async () => {
    const bench = await benchOver(name)
    const { region } = bench
    const good: Promise<unknown>[] = []
    const bad: Promise<unknown>[] = []
    for (let round = 0; round < 20; round++) {
      good.push(region.persist(round % 4, bytes(3000, round)).persisted)
      void withoutKeys(bench, () => {
        bad.push(region.persist(5, bytes(3000, 1)).persisted)
        return Promise.resolve()
      })
      await Promise.resolve()
      await Promise.resolve()
    }
    await Promise.all(good)
    const failed = await Promise.allSettled(bad)
    expect(failed.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0)
    for (let slot = 0; slot < 4; slot++) {
      expect((await region.read(slot)).data[0]).toBe(16 + slot)
    }
    await expectAlive(bench)
  })
})

describe('R31-2: in a chain', () => {
  /** A write of which no nth packet can be made: whether it is solicited cannot be asked. */
  function writing({ log }: Bench, length: number, nth: number): Pending<Outcome> {
    let asked = 0
    const make = (done: Done): Job => {
      const to = { rkey: log.info.rkey, va: log.info.base }
      const job = writeJob(to, bytes(length), {}, done)
      const request = Object.defineProperty({ ...job.request }, 'solicited', {
        get: () => {
          asked++
          if (asked === nth) throw new RangeError('no more')
          return false
        },
      })
      return { ...job, request }
    }
    return pending('a write', make, (completion) => completion)
  }

  function post({ log }: Bench, requests: readonly Pending<Outcome>[]): Promise<unknown>[] {
    log.port.enqueueChain({ verbs: requests.map(({ verb }) => verb), check: () => {} })
    return requests.map(({ result }) => result)
  }

  test('what stands behind it ends unsent with it, and what stands before it is done', async () => {
    const bench = await benchOver('frames')
    const sent = bench.dpu.statistics().connections
    const [first, bad, behind] = [0, 1, 0].map((nth) => writing(bench, 600, nth))
    const [done, ...ended] = post(bench, [first!, bad!, behind!])
    await expect(done).resolves.toMatchObject({ opcode: 'RDMA_WRITE' })
    for (const end of ended) {
      await expect(end).rejects.toMatchObject({
        code: 'PERDURE_ARGUMENT',
        message: 'the request cannot be made: no more',
      })
    }
    await expectAlive(bench)
    expect(bench.dpu.statistics().connections).toBe(sent)
  })

  test('one that the DPU has begun with ends as unknown, on a connection of its own', async () => {
    const bench = await benchOver('frames')
    const { connections } = bench.dpu.statistics()
    const [unknown] = post(bench, [writing(bench, 9000, 3)])
    const record = bench.region.persist(1, bytes(64)).persisted
    await expect(unknown).rejects.toMatchObject({ code: 'PERDURE_OUTCOME_UNKNOWN' })
    await record
    await expectAlive(bench)
    expect(bench.dpu.statistics().connections).toBe(connections + 1)
  })
})
