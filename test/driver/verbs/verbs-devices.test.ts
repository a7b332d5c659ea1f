/**
 * The verbs of the driver, the same stories over both ways to a DPU: frames over a wire, and the
 * queues of the local card behind PCIe. In virtual time, against the emulated card.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import {
  type AsyncEvent,
  type BytesRegion,
  type CompletionQueue,
  type CreateQp,
  connect,
  type Dpu,
  FENCE,
  INLINE,
  type MemoryRegion,
  type ProtectionDomain,
  type QueuePair,
  type Region,
  type SendRequest,
  SIGNALED,
  SOLICITED,
  type VerbsContext,
  type WorkCompletion,
} from '../../../host-driver/index.ts'
import { thrown } from '../../support/driver/failures.ts'
import { type OpenWay, openWay, WAYS, type WayName } from '../../support/driver/ways.ts'
import { endpointOf } from '../../support/peers/network.ts'

const open: OpenWay[] = []

afterEach(async () => {
  for (const way of open.splice(0)) await way.close()
})

interface Bench {
  readonly way: OpenWay
  readonly dpu: Dpu
  readonly verbs: VerbsContext
  readonly pd: ProtectionDomain
  readonly mr: MemoryRegion
  readonly cq: CompletionQueue
  readonly qp: QueuePair
  readonly bytes: BytesRegion
  readonly records: Region
  readonly events: AsyncEvent[]
}

const BUFFER = 16_384

async function bench(
  name: WayName,
  options: Partial<CreateQp> & { readonly cqDepth?: number } = {},
): Promise<Bench> {
  const way = await openWay(name)
  open.push(way)
  const { dpu } = way
  await dpu.format()
  const bytes = await dpu.provisionBytes({ name: 'bytes', length: 65_536 })
  const records = await dpu.provision({ name: 'records', slots: 32, capacity: 1024 })
  const { verbs } = dpu
  const events: AsyncEvent[] = []
  verbs.onEvent = (event) => events.push(event)
  const pd = verbs.allocPd()
  const mr = await pd.regMr(BUFFER)
  const cq = await verbs.createCq(options.cqDepth ?? 256)
  const qp = await pd.createQp({ sendCq: cq, recvCq: cq, ...options })
  await verbs.connect(qp)
  return { way, dpu, verbs, pd, mr, cq, qp, bytes, records, events }
}

function pattern(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17 + (i >> 8)) & 0xff)
}

/** Polls until so many completions are there. */
async function completions({ way, cq }: Bench, count: number): Promise<WorkCompletion[]> {
  const all = cq.poll()
  for (let tries = 0; all.length < count && tries < 20_000; tries++) {
    await way.pass(10)
    all.push(...cq.poll())
  }
  expect(all.map(({ wrId }) => wrId).length).toBe(count)
  return all
}

async function one(b: Bench, request: Omit<SendRequest, 'wrId'>): Promise<WorkCompletion> {
  b.qp.postSend({ wrId: 77n, flags: SIGNALED, ...request })
  const [completion] = await completions(b, 1)
  expect(completion!.wrId).toBe(77n)
  return completion!
}

const at = ({ bytes }: Bench, offset: number): { rkey: number; remoteAddr: bigint } => ({
  rkey: bytes.info.rkey,
  remoteAddr: bytes.info.base + BigInt(offset),
})

const slot = ({ records }: Bench, number: number): { rkey: number; remoteAddr: bigint } => ({
  rkey: records.info.rkey,
  remoteAddr: BigInt(number) << 32n,
})

/** What only a peer does: it sends. */
function messages(name: WayName): void {
  test('P3-26: what the peer sends goes where the receives point, in their order', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    for (const i of [0, 1, 2])
      qp.postRecv({ wrId: BigInt(50 + i), sgList: [mr.sge(1024 * i, 512)] })
    mr.fill(8192, pattern(300, 5))
    qp.postSend([
      { wrId: 1n, opcode: 'SEND', flags: SOLICITED, sgList: [mr.sge(8192, 300)] },
      {
        ...{ wrId: 2n, opcode: 'SEND_WITH_IMM', flags: SOLICITED | SIGNALED, immData: 0xcafe },
        sgList: [mr.sge(8192, 8)],
      },
    ])
    const done = await completions(b, 3)
    const received = done.filter(({ opcode }) => opcode === 'RECV')
    expect(received).toMatchObject([
      { wrId: 50n, status: 'SUCCESS', byteLen: 300, immData: null },
      { wrId: 51n, status: 'SUCCESS', byteLen: 8, immData: 0xcafe },
    ])
    expect(mr.read(0, 300)).toEqual(pattern(300, 5))
    expect(mr.read(1024, 8)).toEqual(pattern(300, 5).subarray(0, 8))
  })

  test('a message that finds no receive waits for one; one too long is an error', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    qp.postSend({ wrId: 1n, opcode: 'SEND', flags: SOLICITED, sgList: [mr.sge(0, 100)] })
    await b.way.pass(3000)
    qp.postRecv({ wrId: 60n, sgList: [mr.sge(1024, 100)] })
    expect(await completions(b, 1)).toMatchObject([{ wrId: 60n, byteLen: 100 }])
    qp.postRecv({ wrId: 61n, sgList: [mr.sge(1024, 99)] })
    qp.postSend({ wrId: 2n, opcode: 'SEND', flags: SOLICITED, sgList: [mr.sge(0, 100)] })
    await b.way.pass(3000)
    const last = b.cq.poll().find(({ wrId }) => wrId === 61n)
    expect(last).toBeDefined()
    expect(last?.status).not.toBe('SUCCESS')
    expect(b.events).toMatchObject([{ type: 'QP_FATAL' }])
    expect(qp.state).toBe('ERR')
  })
}

describe.each(WAYS)('the verbs over %s', (name) => {
  test('every opcode does what it says, and says so', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    mr.fill(0, pattern(3000, 1))
    const sgList = [mr.sge(0, 3000)]
    expect(await one(b, { opcode: 'RDMA_WRITE', ...at(b, 64), sgList })).toMatchObject({
      ...{ status: 'SUCCESS', opcode: 'RDMA_WRITE', qpNum: qp.qpNum, fault: null },
    })
    const flush = await one(b, { opcode: 'FLUSH', ...at(b, 64), length: 3000 })
    expect(flush).toMatchObject({ status: 'SUCCESS', opcode: 'FLUSH' })
    const into = [mr.sge(4096, 3000)]
    expect(await one(b, { opcode: 'RDMA_READ', ...at(b, 64), sgList: into })).toMatchObject({
      ...{ status: 'SUCCESS', opcode: 'RDMA_READ', byteLen: 3000 },
    })
    expect(mr.read(4096, 3000)).toEqual(pattern(3000, 1))
    const add = { opcode: 'ATOMIC_FETCH_AND_ADD', ...at(b, 8192), compareAdd: 5n } as const
    expect(await one(b, add)).toMatchObject({ opcode: 'FETCH_ADD', original: 0n })
    const swap = { opcode: 'ATOMIC_CMP_AND_SWP', ...at(b, 8192), compareAdd: 5n, swap: 9n } as const
    expect(await one(b, swap)).toMatchObject({ opcode: 'COMP_SWAP', original: 5n })
    expect(await one(b, add)).toMatchObject({ original: 9n })
    const eight = [mr.sge(0, 8)]
    expect(await one(b, { opcode: 'ATOMIC_WRITE', ...at(b, 16), sgList: eight })).toMatchObject({
      ...{ status: 'SUCCESS', opcode: 'ATOMIC_WRITE' },
    })
    expect(await b.bytes.read(16, 8)).toEqual(pattern(8, 1))
  })

  test('a record is durable when its completion is there', async () => {
    const b = await bench(name)
    const { mr, records } = b
    mr.fill(0, pattern(900, 2))
    const persist = { opcode: 'WRITE_PERSIST', ...slot(b, 3), operationId: 1n } as const
    expect(await one(b, { ...persist, sgList: [mr.sge(0, 900)] })).toMatchObject({
      ...{ status: 'SUCCESS', opcode: 'PERSIST', copies: 2, mechanism: 'localFlush' },
    })
    const query = await one(b, { opcode: 'PERSIST_QUERY', operationId: 1n })
    expect(query).toMatchObject({ opcode: 'PERSIST_QUERY', durable: true })
    await b.way.restart()
    await b.dpu.reconnect()
    expect((await records.read(3)).data).toEqual(pattern(900, 2))
  })

  test('completions come in the order of the posts, those that were asked for', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    const kinds = ['RDMA_WRITE', 'RDMA_READ', 'WRITE_PERSIST', 'FLUSH'] as const
    const requests = Array.from({ length: 40 }, (_, i): SendRequest => {
      const opcode = kinds[i % 4]!
      const record = opcode === 'WRITE_PERSIST'
      const place = record ? slot(b, i % 32) : at(b, 64 * i)
      return {
        wrId: BigInt(i),
        opcode,
        flags: i % 3 === 0 || i === 39 ? SIGNALED : 0,
        ...place,
        ...(opcode === 'FLUSH' ? { length: 64 } : { sgList: [mr.sge(64 * i, 64)] }),
        ...(record ? { operationId: BigInt(i + 1) } : {}),
      }
    })
    qp.postSend(requests.slice(0, 7))
    qp.postSend(requests.slice(7))
    const signaled = requests.filter(({ flags }) => flags === SIGNALED)
    const done = await completions(b, signaled.length)
    expect(done.map(({ wrId }) => wrId)).toEqual(signaled.map(({ wrId }) => wrId))
    expect(new Set(done.map(({ status }) => status))).toEqual(new Set(['SUCCESS']))
  })

  test('of a list with one bad request nothing is posted', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    const other = await b.verbs.allocPd(9).regMr(64)
    const good: SendRequest = {
      ...{ wrId: 1n, opcode: 'ATOMIC_FETCH_AND_ADD', flags: SIGNALED },
      ...{ ...at(b, 0), compareAdd: 1n },
    }
    const write: SendRequest = { wrId: 2n, opcode: 'RDMA_WRITE', ...at(b, 0) }
    const bad: Record<string, SendRequest> = {
      'no opcode': { ...write, opcode: 'NOTHING' as 'SEND' },
      'unknown flags': { ...write, flags: 128 },
      'a wrId of 65 bits': { ...write, wrId: 2n ** 64n },
      'beyond its region': { ...write, sgList: [{ ...mr.sge(), length: BUFFER + 1 }] },
      'before its region': { ...write, sgList: [{ ...mr.sge(), addr: mr.addr - 1, length: 4 }] },
      'no such L_Key': { ...write, sgList: [{ ...mr.sge(), lkey: 0xdead }] },
      'another protection domain': { ...write, sgList: [other.sge()] },
      'too much INLINE': { ...write, flags: INLINE, sgList: [mr.sge(0, qp.inlineMax + 1)] },
      'too many pieces': { ...write, sgList: Array.from({ length: 17 }, () => mr.sge(0, 1)) },
      'no address': { wrId: 2n, opcode: 'RDMA_WRITE', rkey: 1 },
      'an odd atomic': { ...good, ...at(b, 4) },
      'an ATOMIC_WRITE of 7': { ...write, opcode: 'ATOMIC_WRITE', sgList: [mr.sge(0, 7)] },
      'no operation': { ...write, opcode: 'WRITE_PERSIST' },
      'five copies': { ...write, opcode: 'WRITE_PERSIST', operationId: 1n, wait: 5 },
      'a flush of nothing': { ...write, opcode: 'FLUSH', length: 1, persistent: false },
      'no immediate': { ...write, opcode: 'SEND_WITH_IMM' },
      'no key': { ...write, opcode: 'SEND_WITH_INV' },
    }
    for (const [what, request] of Object.entries(bad)) {
      expect(thrown(() => qp.postSend([good, request])).code, what).toBe('PERDURE_ARGUMENT')
    }
    const two = { wrId: 1n, sgList: [mr.sge(0, 1), mr.sge(1, 1)] }
    expect(thrown(() => qp.postRecv([{ wrId: 1n }, two])).code).toBe('PERDURE_ARGUMENT')
    qp.postSend(good)
    expect(await completions(b, 1)).toMatchObject([{ wrId: 1n, original: 0n }])
  })

  test('P3-25: a post that finds too little room is refused whole', async () => {
    const b = await bench(name, { sendDepth: 4, recvDepth: 4, inlineMax: 0 })
    const { qp } = b
    const add = (wrId: bigint): SendRequest => ({
      ...{ wrId, opcode: 'ATOMIC_FETCH_AND_ADD', flags: SIGNALED, ...at(b, 0), compareAdd: 1n },
    })
    // A queue may take more than was asked for, but not ten times as much.
    const forty = Array.from({ length: 40 }, (_, i) => add(BigInt(i + 1)))
    expect(thrown(() => qp.postSend(forty)).code).toBe('PERDURE_QUEUE_FULL')
    qp.postSend(forty.slice(0, 4))
    const found = (await completions(b, 4)).map(({ original }) => original)
    expect(found).toEqual([0n, 1n, 2n, 3n])
    const receives = forty.map(({ wrId }) => ({ wrId }))
    expect(thrown(() => qp.postRecv(receives)).code).toBe('PERDURE_QUEUE_FULL')
    qp.postRecv(receives.slice(0, 4))
  })

  test('the first error flushes what is behind it, and the queue pair takes no more', async () => {
    const b = await bench(name)
    const { mr, qp, events, pd, cq, verbs } = b
    const write = (wrId: bigint): SendRequest => ({
      ...{ wrId, opcode: 'RDMA_WRITE', ...at(b, 8 * Number(wrId)), sgList: [mr.sge(0, 8)] },
    })
    mr.fill(0, pattern(8, 7))
    qp.postRecv([{ wrId: 90n }, { wrId: 91n }])
    const bad = { ...write(2n), remoteAddr: b.bytes.info.base + 65_536n }
    qp.postSend([{ ...write(1n), flags: SIGNALED }, bad, write(3n), write(4n)])
    const done = await completions(b, 6)
    expect(done.map(({ wrId, status }) => `${wrId} ${status}`)).toEqual([
      ...['1 SUCCESS', '2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR', '4 WR_FLUSH_ERR'],
      ...['90 WR_FLUSH_ERR', '91 WR_FLUSH_ERR'],
    ])
    await b.way.pass(100)
    expect(qp.state).toBe('ERR')
    expect(events.filter(({ type }) => type === 'QP_FATAL')).toHaveLength(1)
    expect(thrown(() => qp.postSend(write(5n))).code).toBe('PERDURE_QUEUE_ENDED')
    expect(thrown(() => qp.postRecv({ wrId: 5n })).code).toBe('PERDURE_QUEUE_ENDED')
    await qp.destroy()
    const next = await pd.createQp({ sendCq: cq, recvCq: cq })
    await verbs.connect(next)
    next.postSend({ ...write(6n), flags: SIGNALED })
    expect((await completions(b, 1))[0]).toMatchObject({ wrId: 6n, status: 'SUCCESS' })
    expect(await b.bytes.read(8, 8)).toEqual(pattern(8, 7))
    expect(await b.bytes.read(24, 8)).toEqual(new Uint8Array(8))
  })

  test('INLINE takes the bytes at the call', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    mr.fill(0, pattern(200, 1))
    const sgList = [mr.sge(0, 100), mr.sge(100, 100)]
    const flags = INLINE | SIGNALED
    qp.postSend({ wrId: 1n, opcode: 'RDMA_WRITE', flags, ...at(b, 0), sgList })
    mr.fill(0, pattern(200, 2))
    await completions(b, 1)
    expect(await b.bytes.read(0, 200)).toEqual(pattern(200, 1))
  })

  test('pieces of memory are gathered and scattered', async () => {
    const b = await bench(name)
    const { mr } = b
    mr.fill(0, pattern(4000, 1))
    const cuts = [0, 1, 64, 1000, 1003, 4000]
    const pieces = (base: number) =>
      cuts.slice(1).map((to, i) => mr.sge(base + cuts[i]! * 2, to - cuts[i]!))
    const plain = [mr.sge(0, 4000)]
    await one(b, { opcode: 'RDMA_WRITE', ...at(b, 0), sgList: plain })
    await one(b, { opcode: 'RDMA_READ', ...at(b, 0), sgList: pieces(4096) })
    await one(b, { opcode: 'RDMA_WRITE', ...at(b, 8192), sgList: pieces(4096) })
    expect(await b.bytes.read(8192, 4000)).toEqual(pattern(4000, 1))
  })

  test.runIf(name === 'own')('nobody receives what is sent to the local card', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    const sgList = [mr.sge(0, 8)]
    const send = { wrId: 1n, opcode: 'SEND', sgList } as const
    expect(thrown(() => qp.postSend(send)).code).toBe('PERDURE_ARGUMENT')
    const write = { wrId: 2n, opcode: 'RDMA_WRITE_WITH_IMM', ...at(b, 0), immData: 1 } as const
    expect(thrown(() => qp.postSend({ ...write, sgList })).code).toBe('PERDURE_ARGUMENT')
    expect(qp.state).toBe('RTS')
  })

  if (name !== 'own') messages(name)

  test('a completion queue that is full fails alone, and loses no durability', async () => {
    const b = await bench(name, { cqDepth: 4 })
    const { mr, qp, cq, pd, verbs, events, records } = b
    mr.fill(0, pattern(64, 3))
    for (let i = 1; i <= 8; i++) {
      const sgList = [mr.sge(0, 64)]
      const persist = { opcode: 'WRITE_PERSIST', ...slot(b, i), operationId: BigInt(i) } as const
      qp.postSend({ wrId: BigInt(i), flags: SIGNALED, ...persist, sgList })
    }
    await b.way.pass(20_000)
    expect(cq.failed).toBe(true)
    expect(qp.state).toBe('ERR')
    expect(events.map(({ type }) => type).sort()).toEqual(['CQ_ERR', 'QP_FATAL'])
    const kept = cq.poll()
    expect(kept.map(({ wrId, status }) => `${wrId} ${status}`)).toEqual([
      ...['1 SUCCESS', '2 SUCCESS', '3 SUCCESS', '4 SUCCESS'],
    ])
    const other = await verbs.createCq(64)
    const next = await pd.createQp({ sendCq: other, recvCq: other })
    await verbs.connect(next)
    next.postSend({
      ...{ wrId: 9n, flags: SIGNALED, opcode: 'WRITE_PERSIST', ...slot(b, 9), operationId: 9n },
      sgList: [mr.sge(0, 64)],
    })
    for (let tries = 0; tries < 1000 && other.poll(1).length === 0; tries++) await b.way.pass(10)
    await b.way.restart()
    await b.dpu.reconnect()
    for (const i of [1, 2, 3, 4, 9]) {
      expect((await records.read(i)).data, `record ${i}`).toEqual(pattern(64, 3))
    }
  })

  test('an armed completion queue calls once, at the next completion', async () => {
    const b = await bench(name)
    const { mr, qp, cq } = b
    let calls = 0
    cq.onEvent = () => calls++
    const write = (wrId: bigint): SendRequest => ({
      ...{ wrId, opcode: 'RDMA_WRITE', flags: SIGNALED, ...at(b, 0), sgList: [mr.sge(0, 8)] },
    })
    qp.postSend(write(1n))
    await completions(b, 1)
    await b.way.pass(100)
    expect(calls).toBe(0)
    cq.arm()
    qp.postSend([write(2n), write(3n)])
    await completions(b, 2)
    await b.way.pass(100)
    expect(calls).toBe(1)
  })

  test('X-7: a record that is refused says why, and the queue pair lives', async () => {
    const b = await bench(name)
    const { mr } = b
    const persist = { opcode: 'WRITE_PERSIST', ...slot(b, 99), operationId: 1n } as const
    expect(await one(b, { ...persist, sgList: [mr.sge(0, 8)] })).toMatchObject({
      ...{ status: 'GENERAL_ERR', fault: 'SLOT' },
    })
    const long = { ...persist, ...slot(b, 1), operationId: 2n }
    expect(await one(b, { ...long, sgList: [mr.sge(0, 1025)] })).toMatchObject({
      ...{ status: 'GENERAL_ERR', fault: 'RECORD_LENGTH' },
    })
    const good = { ...persist, ...slot(b, 1), operationId: 3n }
    expect(await one(b, { ...good, sgList: [mr.sge(0, 8)] })).toMatchObject({ status: 'SUCCESS' })
  })

  test('a fenced request begins when every READ and atomic before it is done', async () => {
    const b = await bench(name)
    const { mr, qp } = b
    await b.bytes.write(0, pattern(4096, 4))
    const sgList = [mr.sge(0, 4096)]
    qp.postSend([
      { wrId: 1n, opcode: 'RDMA_READ', ...at(b, 0), sgList },
      { wrId: 2n, opcode: 'RDMA_WRITE', flags: FENCE | SIGNALED, ...at(b, 4096), sgList },
    ])
    await completions(b, 1)
    expect(await b.bytes.read(4096, 4096)).toEqual(pattern(4096, 4))
  })

  test('what is in use is not given back', async () => {
    const b = await bench(name)
    const { cq, qp, mr, verbs } = b
    await expect(cq.destroy()).rejects.toMatchObject({ fault: 'QUEUE_BUSY' })
    const extra = await b.pd.regMr(64)
    const sgList = [extra.sge()]
    await extra.dereg()
    const write = { wrId: 1n, opcode: 'RDMA_WRITE', ...at(b, 0) } as const
    expect(thrown(() => qp.postSend({ ...write, sgList })).code).toBe('PERDURE_ARGUMENT')
    await qp.destroy()
    await cq.destroy()
    const again = await verbs.createCq(16)
    expect(again.depth).toBeGreaterThanOrEqual(16)
    expect(mr.read(0, 8)).toEqual(new Uint8Array(8))
  })

  test('a queue pair that is destroyed twice gives back nothing of another one', async () => {
    const b = await bench(name)
    const { cq, qp, pd, verbs } = b
    const other = await pd.createQp({ sendCq: cq, recvCq: cq })
    await verbs.connect(other)
    await qp.destroy()
    await qp.destroy()
    await expect(cq.destroy()).rejects.toMatchObject({ fault: 'QUEUE_BUSY' })
    const sgList = [b.mr.sge(0, 8)]
    other.postSend({ wrId: 1n, opcode: 'RDMA_WRITE', flags: SIGNALED, ...at(b, 0), sgList })
    expect(await completions(b, 1)).toMatchObject([{ wrId: 1n, status: 'SUCCESS' }])
    await other.destroy()
    await cq.destroy()
  })

  test('H4: when the power goes everything ends once, and can be made again', async () => {
    const b = await bench(name)
    const { way, dpu, verbs, mr, qp, cq, events } = b
    qp.postRecv({ wrId: 90n })
    for (let i = 1; i <= 20; i++) {
      const persist = { opcode: 'WRITE_PERSIST', ...slot(b, i), operationId: BigInt(i) } as const
      qp.postSend({ wrId: BigInt(i), flags: SIGNALED, ...persist, sgList: [mr.sge(0, 64)] })
    }
    await way.pass(4)
    const own = way.machine?.dpu ?? way.target
    await way.restart(own)
    await way.pass(2_000_000)
    const done = await completions(b, 21)
    await way.pass(1000)
    expect(cq.poll()).toEqual([])
    expect(done.map(({ wrId }) => wrId)).toEqual(
      [...Array(20).keys()].map((i) => BigInt(i + 1)).concat(90n),
    )
    expect(qp.state).toBe('ERR')
    expect(events.filter(({ type }) => type === 'QP_FATAL')).toHaveLength(1)
    await dpu.reconnect()
    for (const { wrId, status } of done.filter(({ status }) => status === 'SUCCESS')) {
      expect((await dpu.query(wrId)).durable, `${wrId} ${status}`).toBe(true)
    }
    const pd = verbs.allocPd()
    const memory = await pd.regMr(64)
    const queue = await verbs.createCq(16)
    const next = await pd.createQp({ sendCq: queue, recvCq: queue })
    await verbs.connect(next)
    memory.fill(0, pattern(64, 6))
    const write = { opcode: 'RDMA_WRITE', ...at(b, 0), sgList: [memory.sge()] } as const
    next.postSend({ wrId: 1n, flags: SIGNALED, ...write })
    for (let tries = 0; tries < 1000 && queue.poll(1).length === 0; tries++) await way.pass(10)
    expect(await b.bytes.read(0, 64)).toEqual(pattern(64, 6))
    await mr.dereg()
  })

  test('a queue pair that is destroyed is given back at both ends', async () => {
    const b = await bench(name)
    for (let i = 0; i < QUEUE_PAIRS + 10; i++) {
      const cqs = { sendCq: b.cq, recvCq: b.cq }
      const next = await b.pd.createQp({ ...cqs, sendDepth: 1, recvDepth: 1, inlineMax: 0 })
      await b.verbs.connect(next)
      await next.destroy()
    }
    expect((await b.dpu.queues()).used).toBeLessThan(20)
  })

  test('closing the connection gives back what the verbs have made', async () => {
    const b = await bench(name)
    const device = b.way.device
    const used = async (): Promise<number> => (await device?.management.queues())?.used ?? 0
    const before = await used()
    for (let i = 0; i < 6; i++) {
      const peer = name === 'behind' ? { peer: endpointOf(2) } : {}
      const target = device ?? b.way.room.addHost()
      const dpu = await connect(target, { seed: 50 + i, ...peer })
      const pd = dpu.verbs.allocPd()
      for (let k = 0; k < 50; k++) await pd.regMr(64)
      const cq = await dpu.verbs.createCq(16)
      const qp = await pd.createQp({ sendCq: cq, recvCq: cq, sendDepth: 8, recvDepth: 8 })
      await dpu.verbs.connect(qp)
      await dpu.close()
      await b.way.pass(1000)
    }
    expect(await used()).toBe(before)
    expect(await b.bytes.read(0, 8)).toEqual(new Uint8Array(8))
  })

  test('numbers out of range are refused before anything is made', async () => {
    const b = await bench(name)
    await expect(b.verbs.createCq(0)).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
    await expect(b.pd.regMr(0)).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
    expect(thrown(() => b.verbs.allocPd(0x1_0000)).code).toBe('PERDURE_ARGUMENT')
    expect(thrown(() => b.mr.fill(BUFFER - 1, new Uint8Array(2))).code).toBe('PERDURE_ARGUMENT')
    expect(thrown(() => b.mr.sge(0, BUFFER + 1)).code).toBe('PERDURE_ARGUMENT')
    const cqs = { sendCq: b.cq, recvCq: b.cq }
    for (const bad of [{ sendDepth: 0 }, { recvDepth: 1 << 20 }, { inlineMax: 1025 }]) {
      const create = b.pd.createQp({ ...cqs, ...bad })
      await expect(create).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
    }
  })
})
