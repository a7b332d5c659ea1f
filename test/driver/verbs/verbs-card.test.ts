/**
 * The driver's verbs against the emulated card, in virtual time: a region of plain bytes, messages
 * that confirm, regions registered write-persist, and source 1's dual write; with power cuts and
 * over a bad network.
 */

import { describe, expect, test } from 'vitest'
import type { CutStrategy, LinkFaults } from '../../../boards/emulator/index.ts'
import {
  type BytesRegion,
  type BytesRequest,
  type ConnectOptions,
  connect,
  type Dpu,
  type DualSlots,
  dualRead,
  dualWrite,
  RemoteMemory,
} from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts } from '../../support/driver/local-parts.ts'

const openPart = localParts()

interface Bench {
  readonly local: LocalDpu
  readonly dpu: Dpu
  readonly region: BytesRegion
}

async function bench(
  options: ConnectOptions = {},
  shape: Partial<BytesRequest> = {},
  faults: LinkFaults = {},
  linkSeed = 7,
): Promise<Bench> {
  const local = await openPart({ seed: linkSeed, faults })
  const dpu = await connect(local.wire, { seed: 3, ...options })
  await dpu.format()
  const region = await dpu.provisionBytes({ name: 'bytes', length: 65_536, ...shape })
  return { local, dpu, region }
}

async function restart(local: LocalDpu, strategy: 'none' | 'all' = 'none'): Promise<void> {
  if (local.dpu.isOn) local.dpu.powerCut({ strategy })
  await local.dpu.powerOn()
}

function pattern(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17 + (i >> 8)) & 0xff)
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

describe('a region of bytes', () => {
  test.each([256, 1024, 4096])('is written and read at a path MTU of %i', async (pathMtu) => {
    const { region } = await bench({ pathMtu })
    for (const [i, length] of [0, 1, pathMtu - 1, pathMtu, pathMtu + 1, 20_000].entries()) {
      await region.write(100 * i + 3, pattern(length, i))
      expect(await region.read(100 * i + 3, length)).toEqual(pattern(length, i))
    }
    await region.write(0, pattern(65_536, 9))
    expect(await region.read(0, 65_536)).toEqual(pattern(65_536, 9))
  })

  test('opens by its name, and as nothing but bytes', async () => {
    const { dpu, region } = await bench()
    await region.write(8, pattern(8, 1))
    const again = await dpu.openBytes('bytes')
    expect(again.length).toBe(65_536)
    expect(await again.read(8, 8)).toEqual(pattern(8, 1))
    await dpu.provision({ name: 'orders', slots: 4, capacity: 64 })
    expect((await failure(dpu.openBytes('orders'))).code).toBe('PERDURE_ARGUMENT')
    expect((await failure(dpu.openBytes('nothing'))).code).toBe('PERDURE_REFUSED')
  })

  test('what was flushed survives a power cut that loses everything else', async () => {
    const { local, dpu, region } = await bench()
    await region.write(0, pattern(3000, 1))
    expect(await region.flush(0, 3000)).toMatchObject({ opcode: 'FLUSH' })
    await restart(local)
    await dpu.reconnect()
    expect(await region.read(0, 3000)).toEqual(pattern(3000, 1))
  })

  test('the pattern of a log holds: data, FLUSH, ATOMIC WRITE of the pointer, FLUSH', async () => {
    const { local, dpu, region } = await bench()
    for (let i = 1; i <= 3; i++) {
      const pointer = new Uint8Array(new BigUint64Array([BigInt(i)]).buffer)
      await Promise.all([
        region.write(64 * i, pattern(64, i)),
        region.flush(64 * i, 64),
        region.atomicWrite(0, pointer),
        region.flush(0, 8),
      ])
    }
    await restart(local)
    await dpu.reconnect()
    expect(await region.read(0, 1)).toEqual(Uint8Array.of(3))
    for (let i = 1; i <= 3; i++) expect(await region.read(64 * i, 64)).toEqual(pattern(64, i))
  })

  test('atomics bring what they found, and a flushed one survives', async () => {
    const { local, dpu, region } = await bench()
    const most = 2n ** 64n - 1n
    expect(await region.compareSwap(16, 0n, most)).toBe(0n)
    expect(await region.fetchAdd(16, 3n)).toBe(most)
    expect(await region.compareSwap(16, 1n, 9n)).toBe(2n)
    await region.flush(16, 8)
    await restart(local)
    await dpu.reconnect()
    expect(await region.fetchAdd(16, 0n)).toBe(2n)
  })

  test('a FLUSH does not vouch for what a restarted part may have forgotten', async () => {
    const { local, dpu, region } = await bench()
    await region.write(0, pattern(64, 1))
    await region.write(4096, pattern(64, 2))
    await region.flush(4096, 64)
    await restart(local)
    await dpu.reconnect()
    expect((await failure(region.flush(0, 64))).code).toBe('PERDURE_RESTARTED')
    await region.write(0, pattern(64, 3))
    await region.flush(0, 64)
    expect(await region.read(0, 64)).toEqual(pattern(64, 3))
  })

  test('X-7: a key that is none is refused, and the driver connects again', async () => {
    const { region, dpu } = await bench()
    const rkey = (region.info.rkey ^ 0x100) >>> 0
    const place = { rkey, va: 0n, length: 4096n }
    const stranger = new RemoteMemory(
      region.port,
      () => 'a stranger',
      () => place,
    )
    const ends = await Promise.allSettled([
      region.write(0, pattern(8, 1)),
      stranger.read(0, 8),
      region.write(0, pattern(8, 2)),
    ])
    const reasons = ends.map((end) => (end.status === 'rejected' ? end.reason.status : 'done'))
    expect(reasons).toEqual(['done', 'REM_ACCESS_ERR', 'WR_FLUSH_ERR'])
    await dpu.reconnect()
    expect(await region.read(0, 8)).toEqual(pattern(8, 1))
  })

  test('what nobody looks at never ends the process, however it ends', async () => {
    const { region, dpu, local } = await bench({ reconnect: false })
    const places = [64, 8192].map((offset) => ({ memory: region, offset }))
    local.dpu.powerCut({ strategy: 'none' })
    void region.write(0, pattern(5000, 1))
    void region.read(0, 300_000)
    void region.fetchAdd(0, 1n)
    void region.atomicWrite(0, pattern(8, 1))
    void region.flush(0, 8)
    void dpu.send(pattern(8, 1))
    void dpu.query(1n)
    void dualWrite({ places, key: pattern(16, 1), bytes: pattern(8, 1) })
    await dpu.close()
    // A rejection that nobody handles is noticed when the queue of promises is empty.
    for (let i = 0; i < 3; i++) await turn()
  })

  test('every refusal reaches the request that it is about', async () => {
    const { region, dpu } = await bench()
    const base = { rkey: region.info.rkey, va: 0n, length: 2n ** 40n }
    const wide = new RemoteMemory(
      region.port,
      () => 'too much',
      () => base,
    )
    const calls: [() => Promise<unknown>, string][] = [
      [() => wide.write(65_536, pattern(8, 1)), 'REM_ACCESS_ERR'],
      [() => wide.read(65_530, 8), 'REM_ACCESS_ERR'],
      [() => wide.fetchAdd(65_536, 1n), 'REM_ACCESS_ERR'],
      [() => wide.compareSwap(2 ** 33, 1n, 1n), 'REM_ACCESS_ERR'],
      [() => wide.atomicWrite(65_536, pattern(8, 1)), 'REM_ACCESS_ERR'],
      [() => wide.flush(65_530, 8), 'REM_ACCESS_ERR'],
      [() => dpu.send(new Uint8Array(0), { invalidate: 1 }), 'REM_ACCESS_ERR'],
    ]
    for (const [call, status] of calls) {
      expect(await failure(call())).toMatchObject({ code: 'PERDURE_TRANSPORT', status })
      await dpu.reconnect()
    }
  })
})

describe('a region registered write-persist', () => {
  test('P2-5, D-9: every write of bytes that is done is durable', async () => {
    const { local, dpu, region } = await bench({}, { writePersist: true })
    expect(region.info.writePersist).toBe(true)
    expect(await region.write(0, pattern(3000, 1))).toMatchObject({ copies: 1 })
    await restart(local)
    await dpu.reconnect()
    expect(await region.read(0, 3000)).toEqual(pattern(3000, 1))
  })

  test('P2-5, P2-16: a plain WRITE of a record is as durable, and says how', async () => {
    const { local, dpu } = await bench({ pathMtu: 1024 })
    const records = await dpu.provision({ name: 'orders', slots: 16, capacity: 3000 })
    for (const [slot, length] of [1, 1024, 1025, 3000].entries()) {
      const completion = await records.write(slot, pattern(length, slot))
      expect(completion).toMatchObject({ copies: 2, mechanism: 'localFlush' })
    }
    await restart(local)
    await dpu.reconnect()
    for (const [slot, length] of [1, 1024, 1025, 3000].entries()) {
      const read = await records.read(slot)
      expect(read).toMatchObject({ data: pattern(length, slot), operationId: 0n })
    }
  })
})

describe('a refusal', () => {
  test('for trouble of the part says nothing of what came behind it', async () => {
    const { local, dpu, region } = await bench()
    const kept = await dpu.provisionBytes({ name: 'kept', length: 4096, writePersist: true })
    local.nvdimm.fencesToFail = 1
    const first = failure(kept.write(0, pattern(64, 1)))
    const behind = failure(region.write(0, pattern(64, 2)))
    expect(await first).toMatchObject({ code: expect.any(String) })
    const stored = Buffer.from(local.nvdimm.live).includes(Buffer.from(pattern(64, 2)))
    expect(stored).toBe(true)
    expect((await behind).code).toBe('PERDURE_OUTCOME_UNKNOWN')
  })
})

describe('messages', () => {
  test('the DPU has them when they are done', async () => {
    const { dpu } = await bench()
    expect(await dpu.send(pattern(100, 1))).toMatchObject({ opcode: 'SEND' })
    await dpu.send(new Uint8Array(0), { immediate: 7 })
  })

  test('P2-23, P2-24: one that asks is confirmed when all before it is durable', async () => {
    const { local, dpu, region } = await bench()
    void region.write(0, pattern(5000, 1))
    await dpu.send(pattern(20, 2), { solicited: true, immediate: 0xcafe })
    const message = await dpu.messages.next()
    expect(message).toMatchObject({ bytes: pattern(20, 2), immediate: 0xcafe })
    await restart(local)
    await dpu.reconnect()
    expect(await region.read(0, 5000)).toEqual(pattern(5000, 1))
  })

  test('P2-25: more than the client has entries for are not lost', async () => {
    const { dpu } = await bench({ receives: 2 })
    const sent = Array.from({ length: 6 }, (_, i) => dpu.send(pattern(8, i), { solicited: true }))
    await Promise.all(sent)
    for (let i = 0; i < 6; i++) {
      expect((await dpu.messages.next()).bytes).toEqual(pattern(8, i))
    }
  })

  test('a key that is invalidated stops working for this connection', async () => {
    const { dpu, region } = await bench({ reconnect: false })
    await dpu.send(new Uint8Array(0), { invalidate: region.info.rkey })
    expect(await failure(region.read(0, 8))).toMatchObject({ code: 'PERDURE_TRANSPORT' })
  })
})

/** The copies of a record, in the order of writing. */
const OFFSETS = [64, 8192, 4096, 20_000]

function places({ region }: Bench, copies: number): DualSlots {
  const offsets = OFFSETS.slice(0, copies)
  return { places: offsets.map((offset) => ({ memory: region, offset })), key: pattern(16, 1) }
}

describe.each([2, 3, 4])('the dual write of source 1 in %i places, on a DPU', (copies) => {
  test('S1-M3, P1-5, P1-28, D-8: is durable in every place, and survives a cut', async () => {
    const b = await bench()
    const { local, dpu } = b
    const record = places(b, copies)
    await dualWrite({ ...record, bytes: pattern(700, 1) })
    const chains: number[] = []
    const { port } = b.region
    const enqueue = port.enqueueChain
    port.enqueueChain = (chain) => {
      chains.push(chain.verbs.length)
      enqueue.call(port, chain)
    }
    const { outcomes } = await dualWrite({ ...record, bytes: pattern(700, 2) })
    expect(outcomes).toHaveLength(2 * copies)
    // One chain has all that is written; the copies were read before, for their sequence.
    expect(chains).toEqual([copies, 2 * copies])
    await restart(local)
    await dpu.reconnect()
    const found = await dualRead({ ...record, capacity: 700, wire: local.wire })
    expect(found).toMatchObject({ settled: true, record: { data: pattern(700, 2), sequence: 2n } })
    expect(found.copies.map((copy) => copy.record?.sequence)).toEqual(Array(copies).fill(2n))
  })

  /**
   * Writes the record with that sequence, its frames one after the other, and cuts the power before
   * frame `cut` of them arrives; returns whether it was cut, and whether the write was done.
   */
  async function cutAt(
    b: Bench,
    cut: number,
    strategy: CutStrategy,
    sequence: bigint,
  ): Promise<[boolean, boolean]> {
    const { local, dpu } = b
    let frames = 0
    local.link.script = (_, from) => {
      if (from === 'b') return undefined
      const delayUs = 20 * frames
      if (frames++ === cut) {
        const at = local.clock.nowUs + delayUs
        local.clock.schedule(at, () => local.dpu.powerCut({ strategy }))
      }
      return { delayUs }
    }
    const bytes = pattern(700, Number(sequence))
    const write = dualWrite({ ...places(b, copies), bytes, sequence })
    let settled = false
    const done = write.then(
      () => true,
      () => false,
    )
    void done.then(() => {
      settled = true
    })
    while (frames > cut ? local.dpu.isOn : !settled) await turn()
    local.link.script = undefined
    if (!local.dpu.isOn) await restart(local)
    await dpu.reconnect()
    return [frames > cut, await done]
  }

  const strategies: CutStrategy[] = ['none', 'all', 'half', 'alternate-lines', 'suffix']
  test.each(strategies)(
    'S1-M3, P1-14 to P1-18, P1-23: a cut at any frame leaves old or new, whole: %s',
    async (strategy) => {
      const b = await bench({ pathMtu: 256, ackTimeoutCode: 8 })
      const seen = new Set<string>()
      for (let cut = 0, isCut = true; isCut; cut++) {
        const old = BigInt(2 * cut + 1)
        await dualWrite({ ...places(b, copies), bytes: pattern(700, Number(old)), sequence: old })
        const [wasCut, done] = await cutAt(b, cut, strategy, old + 1n)
        isCut = wasCut
        const { record, copies: found } = await dualRead({
          ...places(b, copies),
          capacity: 700,
          wire: b.local.wire,
        })
        expect([old, old + 1n]).toContain(record.sequence)
        expect(record.data).toEqual(pattern(700, Number(record.sequence)))
        if (done) expect(record.sequence).toBe(old + 1n)
        const said = (one: bigint | undefined): string => (one === undefined ? 'x' : `${one - old}`)
        seen.add(found.map((copy) => said(copy.record?.sequence)).join(''))
      }
      // New copies, at most one torn, old ones.
      for (const one of seen) expect(one).toMatch(/^1*x?0*$/)
      const steps = ['0000', '1000', '1100', '1110', '1111']
      const between = [...new Set(steps.map((step) => step.slice(0, copies)))]
      expect([...seen]).toEqual(expect.arrayContaining(between))
      if (strategy === 'none') expect([...seen]).toEqual(between)
    },
  )
})

describe('a query', () => {
  test('G2-3, D-6: tells what is durable, on a later connection too', async () => {
    const { local, dpu } = await bench({ firstOperation: 100n })
    const records = await dpu.provision({ name: 'orders', slots: 16, capacity: 100 })
    await Promise.all([0, 1, 2].map((slot) => records.persist(slot, pattern(9, slot)).persisted))
    for (const connection of ['the same', 'another', 'after a restart']) {
      if (connection === 'after a restart') await restart(local)
      if (connection !== 'the same') await dpu.reconnect()
      for (const id of [100n, 101n, 102n]) {
        expect((await dpu.query(id)).durable, `${connection}, ${id}`).toBe(true)
      }
      expect(await dpu.query(103n)).toMatchObject({ durable: false })
    }
  })
})

describe('a bad network', () => {
  const seed = Number(process.env.SEED ?? 5)
  const faults = { loss: 0.05, duplication: 0.05, reordering: 0.05, corruption: 0.01 }

  test(`X-3: every verb has its effect once, in any mixture (SEED=${seed})`, async () => {
    for (let run = 0; run < 5; run++) {
      const options = { pathMtu: 256, ackTimeoutCode: 10, seed: seed * 10 + run }
      const { dpu, region } = await bench(options, {}, faults, seed * 1000 + run)
      const records = await dpu.provision({ name: 'orders', slots: 16, capacity: 600 })
      const results: Promise<unknown>[] = []
      let messages = 0
      for (let i = 0; i < 60; i++) {
        const at = 64 + 300 * i
        results.push(region.write(at, pattern(300, i)))
        results.push(region.fetchAdd(0, 1n).then((found) => expect(found).toBe(BigInt(i))))
        if (i % 2 === 0) results.push(records.persist(i % 16, pattern(500, i)).persisted)
        if (i % 3 === 0) {
          const same = (got: Uint8Array): void => expect(got).toEqual(pattern(300, i))
          results.push(region.read(at, 300).then(same))
        }
        if (i % 5 === 0) results.push(region.atomicWrite(8, pattern(8, i)))
        if (i % 7 === 0) results.push(region.flush(64, 30_000))
        if (i % 9 === 0) results.push(dpu.send(pattern(10, messages++), { solicited: true }))
        if (i % 11 === 0) results.push(dpu.query(1n))
      }
      await Promise.all(results)
      expect(await region.fetchAdd(0, 0n)).toBe(60n)
      expect(await region.read(8, 8)).toEqual(pattern(8, 55))
      expect((await records.read(10)).data).toEqual(pattern(500, 58))
      expect((await dpu.query(30n)).durable).toBe(true)
      for (let i = 0; i < messages; i++) {
        expect((await dpu.messages.next()).bytes).toEqual(pattern(10, i))
      }
      await dpu.close()
    }
  })
})
