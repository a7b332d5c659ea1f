/**
 * One driver over the queues of the local card: to the card's own regions, and to another DPU
 * behind it. What `connect` promises over frames holds here, too, whoever loses its power in
 * between.
 */

import { afterEach, describe, expect, test } from 'vitest'
import type { Engine } from '../../../boards/emulator/index.ts'
import { parsePcieTarget } from '../../../host-driver/card/target.ts'
import {
  type BytesRegion,
  connect,
  type Dpu,
  PcieDevice,
  PerdureError,
  type Receipt,
  type Region,
} from '../../../host-driver/index.ts'
import { failure } from '../../support/driver/failures.ts'
import { type OpenWay, openWay, type WayName, type WayOptions } from '../../support/driver/ways.ts'
import { endpointOf } from '../../support/peers/network.ts'
import { divided } from '../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 41)
const OVER_QUEUES: readonly WayName[] = ['own', 'behind']
const ENGINES: readonly Engine[] = ['node', 'quickjs']

const open: OpenWay[] = []

afterEach(async () => {
  for (const way of open.splice(0)) await way.close()
})

interface Bench {
  readonly way: OpenWay
  readonly dpu: Dpu
  readonly records: Region
  readonly bytes: BytesRegion
}

const SLOTS = 64

async function bench(name: WayName, options: WayOptions = {}): Promise<Bench> {
  const way = await openWay(name, { seed: SEED, ...options })
  open.push(way)
  const { dpu } = way
  await dpu.format()
  const records = await dpu.provision({ name: 'records', slots: SLOTS, capacity: 2000 })
  const bytes = await dpu.provisionBytes({ name: 'bytes', length: 300_000 })
  return { way, dpu, records, bytes }
}

function pattern(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17 + (i >> 8)) & 0xff)
}

/** Lengths around every border: nothing, inline, one line more, a packet, several. */
const LENGTHS = [0, 1, 63, 64, 255, 256, 257, 1000, 2000]

describe.each(ENGINES)('the firmware in %s', (engine) => {
  describe.each(OVER_QUEUES)('%s card', (name) => {
    test('records are durable when it says so, and read as they were written', async () => {
      const { way, dpu, records } = await bench(name, { engine })
      const writes = LENGTHS.map((length, i) => records.persist(i, pattern(length, i)))
      for (const [i, { persisted, received, operationId }] of writes.entries()) {
        await received
        expect(await persisted).toMatchObject({
          ...{ slot: i, operationId, copies: 2, of: 2, mechanism: 'localFlush' },
          ...{ incarnation: dpu.incarnation },
        })
      }
      await way.restart()
      await dpu.reconnect()
      for (const [i, length] of LENGTHS.entries()) {
        expect((await records.read(i)).data).toEqual(pattern(length, i))
        expect(await dpu.query(writes[i]!.operationId)).toMatchObject({ durable: true })
      }
      expect(await dpu.query(99_999n)).toMatchObject({ durable: false })
    })

    test('plain memory is written, read, flushed, and changed by atomics', async () => {
      const { way, dpu, bytes } = await bench(name, { engine })
      await bytes.write(7, pattern(20_000, 1))
      expect(await bytes.read(7, 20_000)).toEqual(pattern(20_000, 1))
      expect(await bytes.fetchAdd(32_768, 5n)).toBe(0n)
      expect(await bytes.compareSwap(32_768, 5n, 2n ** 63n)).toBe(5n)
      expect(await bytes.fetchAdd(32_768, 0n)).toBe(2n ** 63n)
      await bytes.atomicWrite(32_776, pattern(8, 3))
      expect(await bytes.flush(0, 40_000)).toMatchObject({ opcode: 'FLUSH' })
      await way.restart()
      await dpu.reconnect()
      expect(await bytes.read(7, 20_000)).toEqual(pattern(20_000, 1))
      expect(await bytes.read(32_776, 8)).toEqual(pattern(8, 3))
    })
  })
})

describe.each(OVER_QUEUES)('%s card', (name) => {
  test('no frame is seen by the host', async () => {
    const { dpu, records } = await bench(name)
    await records.persist(0, pattern(2000, 1)).persisted
    expect(dpu.statistics()).toMatchObject({
      ...{ framesSent: 0, framesReceived: 0, bytesSent: 0, connections: 1 },
      ...{ records: 1, recordsDurable: 1 },
    })
  })

  test('a READ longer than all that is shared at once arrives whole', async () => {
    const { bytes } = await bench(name)
    const content = pattern(290_000, 3)
    await bytes.write(5, content)
    const read = await bytes.read(5, content.length)
    expect(Buffer.compare(read, content)).toBe(0)
  })

  test('D-8: a record may be carried, and every copy addressed', async () => {
    const { records } = await bench(name)
    for (const [slot, form] of (['carried', 'addressed'] as const).entries()) {
      const { persisted } = records.persist(slot, pattern(500, slot), { form })
      expect(await persisted).toMatchObject({ copies: 2 })
      expect((await records.read(slot)).data).toEqual(pattern(500, slot))
    }
  })

  test('X-7: what the DPU refuses has a typed reason, and the connection lives', async () => {
    const { way, dpu, records } = await bench(name)
    expect(await failure(dpu.openRegion('nothing'))).toMatchObject({ fault: 'NO_REGION' })
    const part = way.target.nvdimm
    part.armed = false
    const refused = await failure(records.persist(1, pattern(10, 1)).persisted)
    expect(refused).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'NOT_ARMED' })
    part.armed = true
    await records.persist(1, pattern(10, 2)).persisted
    expect((await records.read(1)).data).toEqual(pattern(10, 2))
  })

  test('what is in flight is bounded, and everything gets its turn', async () => {
    const { records } = await bench(name)
    const writes = Array.from({ length: 400 }, (_, i) =>
      records.persist(i % SLOTS, pattern(300 + (i % 7), i)),
    )
    await Promise.all(writes.map(({ persisted }) => persisted))
    for (let slot = 0; slot < SLOTS; slot++) {
      const last = slot + SLOTS * Math.floor((399 - slot) / SLOTS)
      const { data, operationId } = await records.read(slot)
      expect(operationId).toBe(writes[last]!.operationId)
      expect(data).toEqual(pattern(300 + (last % 7), last))
    }
  })

  test('closing gives every queue back', async () => {
    const { way, dpu } = await bench(name)
    const device = way.device!
    const before = (await device.management.queues()).used
    const peer = name === 'behind' ? { peer: endpointOf(2) } : {}
    const second = await connect(device, { seed: 9, ...peer })
    expect((await device.management.queues()).used).toBeGreaterThan(before)
    await second.close()
    await way.pass(10_000)
    expect((await device.management.queues()).used).toBe(before)
    expect(await dpu.status()).toMatchObject({ state: 'serving' })
  })

  test('addresses of our own, or a capture, are refused: the card makes frames', async () => {
    const { way } = await bench(name)
    const own = endpointOf(9)
    expect(await failure(connect(way.device!, { own }))).toMatchObject({
      code: 'PERDURE_ARGUMENT',
    })
  })
})

/** What was acknowledged, by slot: the last one, and those behind it that were not. */
class Ledger {
  readonly acknowledged = new Map<number, bigint>()
  readonly data = new Map<bigint, Uint8Array>()
  readonly slots = new Map<bigint, number>()

  /** Writes on and on until told to stop; resolves to every receipt. */
  async write(records: Region, count: number, pause: () => Promise<void>): Promise<Receipt[]> {
    const receipts: Promise<Receipt>[] = []
    for (let i = 0; i < count; i++) {
      const slot = i % SLOTS
      const data = pattern(100 + ((i * 37) % 1500), i)
      const { persisted, operationId } = records.persist(slot, data)
      this.data.set(operationId, data)
      this.slots.set(operationId, slot)
      persisted.then(
        () => this.noteDurable(slot, operationId),
        () => {},
      )
      receipts.push(persisted)
      await pause()
    }
    return await Promise.all(receipts)
  }

  noteDurable(slot: number, operationId: bigint): void {
    const before = this.acknowledged.get(slot) ?? 0n
    if (operationId > before) this.acknowledged.set(slot, operationId)
  }

  /** Every acknowledged record, or a later one of its slot, is there, whole. */
  async check(records: Region): Promise<void> {
    expect(this.acknowledged.size).toBeGreaterThan(0)
    for (const [slot, least] of this.acknowledged) {
      const { data, operationId } = await records.read(slot)
      expect(operationId).toBeGreaterThanOrEqual(least)
      expect(this.slots.get(operationId)).toBe(slot)
      expect(data).toEqual(this.data.get(operationId))
    }
  }
}

describe('the power goes', () => {
  const turns = OVER_QUEUES.flatMap((name) => [1, 2, 3].map((turn) => [name, turn] as const))
  for (const { rows, options } of divided(turns, ([, turn]) => turn > 1)) {
    test.each(rows)(
      `of the DPU that has the records, %s card, %i (SEED=${SEED})`,
      options,
      async (name, turn) => {
        const engine = turn === 3 ? 'quickjs' : 'node'
        const { way, dpu, records, bytes } = await bench(name, { seed: SEED + turn, engine })
        const ledger = new Ledger()
        const writing = ledger.write(records, 150, () => way.pass(3))
        for (let cut = 0; cut < 3; cut++) {
          await way.pass(50 + 97 * turn + 31 * cut)
          await way.restart()
          await way.pass(3_000_000)
        }
        const receipts = await writing
        expect(new Set(receipts.map(({ operationId }) => operationId)).size).toBe(150)
        await ledger.check(records)
        expect(await bytes.fetchAdd(0, 1n)).toBe(0n)
        expect(dpu.statistics().connections).toBeGreaterThan(1)
      },
    )
  }

  test.each([1, 2, 3])(`of the local card, between the host and another DPU, %i`, async (turn) => {
    const { way, dpu, records } = await bench('behind', { seed: SEED + turn })
    const ledger = new Ledger()
    const writing = ledger.write(records, 150, () => way.pass(3))
    for (let cut = 0; cut < 3; cut++) {
      await way.pass(40 + 83 * turn + 29 * cut)
      await way.restart(way.machine!.dpu)
      await way.pass(3_000_000)
    }
    await writing
    await ledger.check(records)
    const sequences = new Set<bigint>()
    for (let slot = 0; slot < SLOTS; slot++) sequences.add((await records.read(slot)).sequence)
    expect(sequences.size).toBe(SLOTS)
    expect(dpu.statistics().connections).toBeGreaterThan(1)
  })

  test.each(OVER_QUEUES)(
    'of the host: a new driver finds what was acknowledged, %s',
    async (name) => {
      const as = { clientId: 7n, firstOperation: 1n }
      const { way, dpu, records } = await bench(name, { connect: as })
      const ledger = new Ledger()
      const first = dpu.nextOperation
      let lives = true
      const pause = async (): Promise<void> => {
        await way.pass(3)
        if (!lives) throw new Error('the process is gone')
      }
      ledger.write(records, 100, pause).catch(() => {})
      await way.pass(200)
      // Its connection says no goodbye, and its memory is left as it is.
      lives = false
      const { port } = way.machine!
      port.hostStops()
      const before = new Map(ledger.acknowledged)
      expect(before.size).toBeGreaterThan(0)
      const device = await PcieDevice.open(port, { seed: 77 })
      const peer = name === 'behind' ? { peer: endpointOf(2) } : {}
      const how = { clientId: 7n, firstOperation: first, seed: 78, ...peer }
      const again = await connect(device, how)
      const there = await again.openRegion('records')
      for (const [slot, least] of before) {
        const { data, operationId } = await there.read(slot)
        expect(operationId).toBeGreaterThanOrEqual(least)
        expect(data).toEqual(ledger.data.get(operationId))
        expect((await again.query(least)).durable).toBe(true)
      }
      // It does everything once more, under the same names: what is durable stays as it is.
      const sequences = new Map<number, bigint>()
      for (const slot of before.keys()) sequences.set(slot, (await there.read(slot)).sequence)
      const operations = [...ledger.data.keys()]
      const writes = operations.map((id) =>
        there.persist(ledger.slots.get(id)!, ledger.data.get(id)!),
      )
      expect(writes.map(({ operationId }) => operationId)).toEqual(operations)
      await Promise.all(writes.map(({ persisted }) => persisted))
      for (const [slot, sequence] of sequences) {
        const { operationId, sequence: now } = await there.read(slot)
        if (operationId === before.get(slot)) expect(now).toBe(sequence)
      }
      for (const [id, slot] of ledger.slots) ledger.noteDurable(slot, id)
      await ledger.check(there)
      await again.close()
      device.close()
    },
  )
})

describe('another DPU behind the local card', () => {
  test('P3-1: messages come through the receive queue, in order, none lost', async () => {
    const { dpu } = await bench('behind', { connect: { receives: 2 } })
    const sent = Array.from({ length: 9 }, (_, i) =>
      dpu.send(pattern(8 + 300 * i, i), { solicited: true, ...(i % 2 ? { immediate: i } : {}) }),
    )
    await Promise.all(sent)
    for (let i = 0; i < 9; i++) {
      expect(await dpu.messages.next()).toMatchObject({
        ...{ bytes: pattern(8 + 300 * i, i), immediate: i % 2 ? i : null, invalidate: null },
      })
    }
  })

  test(`X-3: over a bad network every verb has its effect once (SEED=${SEED})`, async () => {
    const faults = { loss: 0.03, duplication: 0.03, reordering: 0.03 }
    const { dpu, records, bytes } = await bench('behind', { faults })
    const results: Promise<unknown>[] = []
    for (let i = 0; i < 40; i++) {
      results.push(bytes.write(64 + 300 * i, pattern(300, i)))
      results.push(bytes.fetchAdd(0, 1n).then((found) => expect(found).toBe(BigInt(i))))
      if (i % 2 === 0) results.push(records.persist(i % SLOTS, pattern(500, i)).persisted)
      if (i % 5 === 0) results.push(dpu.send(pattern(10, i), { solicited: true }))
    }
    await Promise.all(results)
    expect(await bytes.fetchAdd(0, 0n)).toBe(40n)
    expect((await records.read(38)).data).toEqual(pattern(500, 38))
    for (let i = 0; i < 40; i += 5) {
      expect((await dpu.messages.next()).bytes).toEqual(pattern(10, i))
    }
  })

  test('the local card serves its own regions over the same device', async () => {
    const { way, records } = await bench('behind')
    const own = await connect(way.device!, { seed: 5 })
    await own.format()
    const here = await own.provision({ name: 'here', slots: 8, capacity: 100 })
    const both = [0, 1, 2, 3].flatMap((slot) => [
      here.persist(slot, pattern(90, slot)).persisted,
      records.persist(slot, pattern(91, slot)).persisted,
    ])
    await Promise.all(both)
    expect((await here.read(2)).data).toEqual(pattern(90, 2))
    expect((await records.read(2)).data).toEqual(pattern(91, 2))
    await own.close()
    expect((await records.read(3)).data).toEqual(pattern(91, 3))
  })

  test('nobody behind the address: unreachable, in time', async () => {
    const { way } = await bench('behind')
    const nobody = connect(way.device!, { peer: endpointOf(99), timeoutMs: 300 })
    expect(await failure(nobody)).toMatchObject({ code: 'PERDURE_UNREACHABLE' })
  })
})

describe('addresses of cards', () => {
  test('pcie:FILE is the card, pcie:FILE/address another DPU behind it', () => {
    expect(parsePcieTarget('pcie:/tmp/card')).toEqual({ path: '/tmp/card', peer: null })
    const peer = { mac: [2, 0, 0, 0, 0, 3], ipv4: [10, 0, 0, 3] }
    expect(parsePcieTarget('pcie:card/10.0.0.3')).toEqual({ path: 'card', peer })
    expect(parsePcieTarget('pcie:10.0.0.3')).toEqual({ path: '10.0.0.3', peer: null })
    expect(() => parsePcieTarget('pcie:')).toThrow(PerdureError)
  })

  test('a file that no card has made is unreachable', async () => {
    expect(await failure(connect('pcie:/nowhere/card'))).toMatchObject({
      code: 'PERDURE_UNREACHABLE',
    })
  })
})

describe('memory that the card may still use', () => {
  test('H2: what a closed pair had is given out again only when the card has let go', async () => {
    const { way } = await bench('own')
    const device = way.device!
    const cq = await device.createCq({ entries: 64 })
    const pair = await device.createQp({ type: 'local', sendCq: cq, inlineMax: 0 })
    const { arena } = device.layout
    const free = arena.freeBytes
    for (let i = 0; i < 8; i++) pair.post({ kind: 1, data: pattern(700, i), operation: 1n })
    const used = free - arena.freeBytes
    pair.close()
    expect(free - arena.freeBytes).toBe(used)
    const ring = pair.send.depth * 64
    await pair.destroy()
    await device.destroyCq(cq)
    expect(arena.freeBytes).toBeGreaterThanOrEqual(free + 2 * ring)
    arena.release(arena.alloc(1000))
  })
})
