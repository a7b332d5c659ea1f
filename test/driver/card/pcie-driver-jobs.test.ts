/** The driver's jobs over a local queue pair on the real firmware: every kind, and every end. */

import { afterEach, describe, expect, test } from 'vitest'
import { WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import { EffectUnknown } from '../../../host-driver/base/errors.ts'
import { RemoteMemory } from '../../../host-driver/bytes/remote-memory.ts'
import { JOB_INLINE_BYTES, JOBS, PcieJobQueue } from '../../../host-driver/card/job-queue.ts'
import { PIECE_BYTES } from '../../../host-driver/card/job-work.ts'
import type { RegionInfo } from '../../../host-driver/control/part.ts'
import { QueuePairPort } from '../../../host-driver/way/chain.ts'
import * as jobs from '../../../host-driver/way/jobs.ts'
import { PcieRig, type RigOptions } from '../../support/queues/pcie-rig.ts'

const CAPACITY = 2000
const VIEW_FIRST_COPY = BigInt(jobs.VIEW_FIRST_COPY) << 28n

interface Bench {
  readonly rig: PcieRig
  readonly queue: PcieJobQueue
  readonly records: RegionInfo
  readonly bytes: RegionInfo
}

const open: PcieRig[] = []

afterEach(() => {
  for (const rig of open.splice(0)) rig.close()
})

async function bench(options: RigOptions = {}): Promise<Bench> {
  const rig = await PcieRig.open({ partBytes: 1 << 22, ...options })
  open.push(rig)
  const records = await rig.provision(16, CAPACITY)
  const { management } = rig.device
  const bytes = await management.provisionBytes({ name: 'b', length: 1 << 20 }, 0)
  return { rig, queue: await queueOn(rig), records, bytes }
}

async function queueOn(rig: PcieRig, sendUnits = 1024): Promise<PcieJobQueue> {
  const sendCq = await rig.device.createCq({ entries: 512 })
  const options = { type: 'local', sendCq, sendUnits, clientId: 5n } as const
  const pair = await rig.device.createQp({ ...options, inlineMax: JOB_INLINE_BYTES })
  const granted = { queuePair: 0, firstPsn: 0, incarnation: 1, pathMtu: 4096 }
  const disconnect = async (): Promise<void> => {}
  return new PcieJobQueue(rig.device, pair, {
    granted,
    inbox: null,
    ackTimeoutCode: 14,
    disconnect,
  })
}

/** Posts the job that `make` makes; how it ended. */
function end(
  queue: PcieJobQueue,
  make: (done: jobs.Done) => jobs.Job | Partial<jobs.Job>,
): Promise<jobs.JobEnd> {
  return new Promise((resolve) => queue.post(make(resolve) as jobs.Job))
}

const pattern = (length: number, seed: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i * 13 + seed + (i >> 8)) & 0xff)

/** Stores `data` in the slot at that address; it waits for so many durable copies. */
function recordJob(
  { rkey, va }: jobs.RemoteAddress,
  data: Uint8Array,
  operation: bigint,
  wait: number,
  done: jobs.Done,
): jobs.Job {
  const request = { rkey, address: va, data, operation, wait }
  return { request: { kind: WRITE_PERSIST, ...request }, sent: false, received: () => {}, done }
}

function carried(
  info: RegionInfo,
  data: Uint8Array,
  addressed: boolean,
  done: jobs.Done,
): jobs.Job {
  const view = addressed ? VIEW_FIRST_COPY : 0n
  const slot = 4
  const to = { rkey: info.rkey, va: (BigInt(slot) << 32n) | view }
  const { length } = data
  const vaLow = Number(VIEW_FIRST_COPY + (1n << 28n))
  const job = recordJob(to, new Uint8Array(Buffer.concat([data, data])), 90n, 2, done)
  const extensions = addressed ? [{ vaHigh: slot, vaLow, rkey: info.rkey, length }] : []
  const form = { carried: true, furtherCopies: 1, addressed, extensions }
  return { ...job, request: { ...job.request, length, ...form } }
}

describe('every kind of job', () => {
  test('records, in one copy or all of them, at every length around the rules', async () => {
    const { queue, records } = await bench()
    let operation = 1n
    for (const length of [0, 1, 63, 64, 255, 256, 257, 1000, CAPACITY]) {
      const data = pattern(length, 3)
      const to = { rkey: records.rkey, va: 2n << 32n }
      const made = await end(queue, (done) => recordJob(to, data, operation++, 2, done))
      expect(made).toMatchObject({ status: 'SUCCESS', copies: 2, refusal: 0 })
      const image = new Uint8Array(64 + length)
      const settled = await end(queue, (done) =>
        jobs.readJob(records, 2, jobs.VIEW_SETTLED, image, done),
      )
      expect(settled.status).toBe('SUCCESS')
      expect(Buffer.compare(image.subarray(64), data)).toBe(0)
    }
    expect(queue.counts.persistAcks).toBe(9)
  })

  test('D-8: carried records, by slot and by the address of every copy', async () => {
    for (const addressed of [false, true]) {
      for (const length of [8, 100, 128, 129, 700]) {
        const { queue, records } = await bench()
        const made = await end(queue, (done) =>
          carried(records, pattern(length, 1), addressed, done),
        )
        expect(made, `${length}`).toMatchObject({ status: 'SUCCESS', copies: 2 })
      }
    }
  })

  test('bytes: written, read, flushed, and changed by atomics', async () => {
    const { queue, bytes } = await bench()
    const at = (offset: number): jobs.RemoteAddress => ({
      rkey: bytes.rkey,
      va: bytes.base + BigInt(offset),
    })
    const data = pattern(3000, 9)
    const into = new Uint8Array(3000)
    const ends = await Promise.all([
      end(queue, (done) => jobs.writeJob(at(16), data, {}, done)),
      end(queue, (done) => jobs.flushJob(at(0), 4096, {}, done)),
      end(queue, (done) => jobs.readBytesJob(at(16), into, done)),
      end(queue, (done) => jobs.fetchAddJob(at(8192), 7n, done)),
      end(queue, (done) => jobs.compareSwapJob(at(8192), 7n, 2n ** 63n + 1n, done)),
      end(queue, (done) => jobs.fetchAddJob(at(8192), 1n, done)),
      end(queue, (done) => jobs.atomicWriteJob(at(8200), pattern(8, 4), done)),
      end(queue, (done) => jobs.queryJob(12n, done)),
    ])
    expect(ends.map(({ status }) => status)).toEqual(Array(8).fill('SUCCESS'))
    expect(Buffer.compare(into, data)).toBe(0)
    expect(ends[4]).toMatchObject({ resultHigh: 0, resultLow: 7 })
    expect(ends[5]).toMatchObject({ resultHigh: 2 ** 31, resultLow: 1 })
    expect(ends[7]!.refusal).not.toBe(0)
    const word = new Uint8Array(8)
    await end(queue, (done) => jobs.readBytesJob(at(8200), word, done))
    expect(word).toEqual(pattern(8, 4))
  })

  test('what one element does not take goes in several', async () => {
    const { queue, bytes } = await bench({ ramBytes: 1 << 22 })
    for (const length of [PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 77]) {
      const to = { rkey: bytes.rkey, va: bytes.base }
      const data = pattern(length, length)
      const into = new Uint8Array(length)
      const written = end(queue, (done) => jobs.writeJob(to, data, {}, done))
      const read = end(queue, (done) => jobs.readBytesJob(to, into, done))
      expect((await written).status).toBe('SUCCESS')
      expect((await read).status).toBe('SUCCESS')
      expect(Buffer.compare(into, data)).toBe(0)
    }
  })

  test('a send to the local card, which nobody receives, is refused; the queue lives', async () => {
    const { queue, bytes } = await bench()
    const data = pattern(10, 1)
    const to = { rkey: bytes.rkey, va: bytes.base }
    for (const made of [
      await end(queue, (done) => jobs.sendJob(data, {}, done)),
      await end(queue, (done) => jobs.sendJob(data, { immediate: 5 }, done)),
      await end(queue, (done) => jobs.writeJob(to, data, { immediate: 5 }, done)),
    ]) {
      expect(made.status).toBe('REM_INV_REQ_ERR')
    }
    expect((await end(queue, (done) => jobs.writeJob(to, data, {}, done))).status).toBe('SUCCESS')
  })
})

describe('room', () => {
  test('jobs wait for units and for memory, in their order', async () => {
    const { rig, records } = await bench({ ramBytes: 1 << 20 })
    const queue = await queueOn(rig, 8)
    const { arena } = rig.device.layout
    const taken = arena.alloc(arena.freeBytes - 4 * 2048 - 8192)
    const order: number[] = []
    const ends: Promise<jobs.JobEnd>[] = []
    expect(queue.room).toBe(JOBS)
    for (let i = 0; i < JOBS; i++) {
      const data = pattern(i % 3 === 0 ? 200 : 1999, i)
      const to = { rkey: records.rkey, va: BigInt(i % 16) << 32n }
      ends.push(
        end(queue, (done) =>
          recordJob(to, data, BigInt(i + 1), 1, (how) => {
            order.push(i)
            done(how)
          }),
        ),
      )
    }
    expect(queue.room).toBe(0)
    expect((await end(queue, (done) => jobs.queryJob(1n, done))).status).toBe('WR_FLUSH_ERR')
    for (const one of await Promise.all(ends)) expect(one.status).toBe('SUCCESS')
    expect(order).toEqual(Array.from({ length: JOBS }, (_, i) => i))
    expect(queue.room).toBe(JOBS)
    arena.release(taken)
  })

  test('memory that others hold is waited for', async () => {
    const { rig, queue, records } = await bench()
    const { arena } = rig.device.layout
    const hold: number[] = []
    for (;;) {
      try {
        hold.push(arena.alloc(1024))
      } catch {
        break
      }
    }
    let made: jobs.JobEnd | null = null
    const to = { rkey: records.rkey, va: 0n }
    queue.post(
      recordJob(to, pattern(1500, 1), 1n, 2, (how) => {
        made = how
      }),
    )
    await rig.pass(5000)
    expect(made).toBeNull()
    for (const at of hold) arena.release(at)
    await rig.pass(5000)
    expect(made).toMatchObject({ status: 'SUCCESS' })
  })
})

describe('the end of a queue', () => {
  test('a refused request breaks it: the rest had no effect, and is told so', async () => {
    const { rig, queue, records, bytes } = await bench()
    let broken = 0
    const order: string[] = []
    queue.onBroken = () => {
      broken++
      order.push('broken')
    }
    const note = (how: jobs.JobEnd): void => {
      order.push(how.behindRefusal ? `${how.status} behind` : how.status)
    }
    const to = { rkey: bytes.rkey, va: bytes.base }
    const late = jobs.writeJob(to, pattern(10, 1), {}, note)
    queue.postChain([
      recordJob({ rkey: records.rkey, va: 1n << 32n }, pattern(9, 1), 1n, 2, note),
      jobs.writeJob({ ...to, rkey: 0xbad }, pattern(10, 1), {}, note),
      late,
      jobs.queryJob(1n, note),
    ])
    await rig.pass(20_000)
    const flushed = 'WR_FLUSH_ERR behind'
    expect(order).toEqual(['SUCCESS', 'REM_ACCESS_ERR', flushed, flushed, 'broken'])
    expect([broken, queue.broken, queue.room, late.sent]).toEqual([1, true, 0, false])
    queue.post(jobs.queryJob(2n, note))
    expect(order.at(-1)).toBe(flushed)
    await queue.disconnect(1_000_000)
    expect(broken).toBe(1)
  })

  test('whoever posts again as a job is flushed is told that, too', async () => {
    const { rig, queue, bytes } = await bench()
    const ends: string[] = []
    let broken = 0
    queue.onBroken = () => {
      broken++
    }
    const to = { rkey: bytes.rkey, va: bytes.base }
    const note = ({ status }: jobs.JobEnd): void => {
      ends.push(status)
      if (ends.length < 10) queue.post(jobs.queryJob(1n, note))
    }
    queue.post(jobs.writeJob({ ...to, rkey: 0xbad }, pattern(10, 1), {}, note))
    queue.post(jobs.queryJob(1n, note))
    await rig.pass(20_000)
    expect(ends).toEqual(['REM_ACCESS_ERR', ...Array(ends.length - 1).fill('WR_FLUSH_ERR')])
    expect([ends.length > 9, broken, queue.broken, queue.room]).toEqual([true, 1, true, 0])
  })

  test('closing ends every job, once, and gives everything back', async () => {
    const { rig, records } = await bench()
    const free = rig.device.layout.arena.freeBytes
    const queue = await queueOn(rig, 16)
    const ends: string[] = []
    for (let i = 0; i < 50; i++) {
      const to = { rkey: records.rkey, va: 1n << 32n }
      const id = BigInt(i + 1)
      const done = ({ status }: jobs.JobEnd): void => void ends.push(status)
      queue.post(recordJob(to, pattern(1000, i), id, 2, done))
    }
    queue.onBroken = () => {
      throw new Error('nobody broke it')
    }
    queue.close()
    expect(ends).toEqual(Array(50).fill('WR_FLUSH_ERR'))
    await queue.disconnect(1_000_000)
    await rig.pass(50_000)
    expect(ends.length).toBe(50)
    expect(rig.device.layout.arena.freeBytes).toBe(free)
  })

  test('H4: when the card goes, what was posted may have had its effect', async () => {
    const { rig, queue, records } = await bench()
    let broken = 0
    queue.onBroken = () => {
      broken++
    }
    const to = { rkey: records.rkey, va: 1n << 32n }
    let how: jobs.JobEnd | null = null
    const job = recordJob(to, pattern(100, 1), 1n, 2, (one) => {
      how = one
    })
    queue.post(job)
    rig.card.powerCut()
    await rig.pass(50_000)
    expect(how).toMatchObject({ status: 'WR_FLUSH_ERR', behindRefusal: false })
    expect([broken, job.sent]).toEqual([1, true])
    queue.close()
  })
})

describe('what is known of a job that a queue did not end as it should', () => {
  test('a WRITE in pieces of which the last is refused may have had an effect', async () => {
    const { queue, bytes, rig } = await bench()
    const length = Number(bytes.length)
    const port = new QueuePairPort(queue, rig.device)
    // The driver was told of more than there is, as of a region that has another shape by now.
    const memory = new RemoteMemory(
      port,
      () => 'b',
      () => ({ rkey: bytes.rkey, va: bytes.base, length: bytes.length + 8n }),
    )
    const at = length - 2 * PIECE_BYTES
    const error = await memory.write(at, pattern(2 * PIECE_BYTES + 8, 1)).catch((e: unknown) => e)
    expect(error).toBeInstanceOf(EffectUnknown)
    expect(error).toMatchObject({ status: 'REM_ACCESS_ERR' })
  })

  test.each([false, true])('not taken, it is sent only if it was before: %s', async (before) => {
    const { rig, queue, records } = await bench()
    const to = { rkey: records.rkey, va: 2n << 32n }
    const foreign = { rkey: (records.rkey ^ 0x100) >>> 0, va: 0n }
    const ends: jobs.JobEnd[] = []
    const done = (end: jobs.JobEnd): void => void ends.push(end)
    const list = [
      jobs.writeJob(foreign, pattern(8, 1), {}, done),
      ...[1n, 2n, 3n].map((id) => recordJob(to, pattern(8, 1), id, 2, done)),
    ]
    for (const job of list) job.sent = before
    queue.postChain(list)
    await rig.pass(100_000)
    expect(ends.map(({ status }) => status)).toEqual([
      'REM_ACCESS_ERR',
      ...Array(3).fill('WR_FLUSH_ERR'),
    ])
    expect(list.map(({ sent }) => sent)).toEqual([true, before, before, before])
  })
})
