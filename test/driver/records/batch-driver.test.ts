/**
 * Batches of the driver against the emulated card, in virtual time: every condition, refusals, a
 * medium that takes no store, a bad network, power cuts, and several clients.
 */

import { afterEach, describe, expect, test } from 'vitest'
import {
  type EmulatedDpu,
  type LinkFaults,
  Nvdimm,
  Random,
} from '../../../boards/emulator/index.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { PERSIST_ACK } from '../../../firmware/wire/opcode.ts'
import type { Wire } from '../../../host-driver/base/wire.ts'
import {
  type BatchCondition,
  type BatchOutcome,
  type ConnectOptions,
  connect,
  type Dpu,
  type Region,
  type RegionRequest,
} from '../../../host-driver/index.ts'
import { copiesOf } from '../../support/judges/copies.ts'
import { Network } from '../../support/peers/network.ts'

const SEED = Number(process.env.SEED ?? 1)
const CONDITIONS: readonly BatchCondition[] = ['independent', 'inOrder', 'expect']
const OPCODE_AT = 42
const WRITE_PERSIST_ONLY = 0xca

const networks: Network[] = []
afterEach(() => {
  for (const network of networks.splice(0)) network.clock.stop()
})

interface Bench {
  readonly network: Network
  readonly nvdimm: Nvdimm
  readonly card: EmulatedDpu
  readonly dpu: Dpu
  readonly region: Region
  readonly options: ConnectOptions
  /** Opcodes that went over the client's wire, out and in. */
  readonly out: number[]
  readonly in: number[]
}

interface Rig {
  readonly seed?: number
  readonly faults?: LinkFaults
  readonly shape?: Partial<RegionRequest>
  /** What becomes of a frame on the client's wire; true drops it. */
  readonly drop?: (frame: Uint8Array, from: 'client' | 'card') => boolean
}

/** A card with one region of 300 records, and a client of it. */
async function bench(options: ConnectOptions = {}, rig: Rig = {}): Promise<Bench> {
  const { seed = SEED, faults, drop = () => false } = rig
  const network = new Network({ seed, ...(faults && { faults }) })
  networks.push(network)
  const nvdimm = new Nvdimm({ bytes: 1 << 21 })
  const card = await network.addDpu(2, { nvdimm })
  network.clock.start()
  const sent: number[] = []
  const came: number[] = []
  const wire = watched(network.addHost(), sent, came, drop)
  const all = { seed: 3, pathMtu: 1024, ...options }
  const dpu = await connect(wire, all)
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 300, capacity: 1000, ...rig.shape })
  return { network, nvdimm, card, dpu, region, options: all, out: sent, in: came }
}

function watched(
  wire: Wire,
  sent: number[],
  came: number[],
  drop: (frame: Uint8Array, from: 'client' | 'card') => boolean,
): Wire {
  return {
    ...wire,
    send: (frame) => {
      sent.push(frame[OPCODE_AT]!)
      if (!drop(frame, 'client')) wire.send(frame)
    },
    onFrame: (callback) =>
      wire.onFrame((frame) => {
        if (drop(frame, 'card')) return
        came.push(frame[OPCODE_AT]!)
        callback(frame)
      }),
  }
}

function data(index: number, seed = 0): Uint8Array {
  return Uint8Array.from({ length: 20 + index }, (_, i) => (i * 31 + index * 7 + seed * 13) & 0xff)
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

interface Commit {
  readonly count: number
  readonly condition?: BatchCondition
  readonly slot?: number
  readonly seed?: number
  readonly retries?: number
}

/** Commits a batch of so many records, to the slots from `slot` on. */
async function commit(region: Region, request: Commit): Promise<BatchOutcome> {
  const { count, condition = 'independent', slot = 0, seed = 0, retries = 3 } = request
  const batch = region.batch({ condition, retries })
  for (const i of upTo(count)) {
    const known = condition === 'expect' ? { expect: (await region.read(slot + i)).sequence } : {}
    batch.persist(slot + i, data(i, seed), known)
  }
  return await batch.commit()
}

async function expectData(region: Region, count: number, seed = 0, slot = 0): Promise<void> {
  for (const i of upTo(count)) {
    expect((await region.read(slot + i)).data, `record ${slot + i}`).toEqual(data(i, seed))
  }
}

/** The first line of each copy of a record. */
function linesOf(nvdimm: Nvdimm, slot: number): number[] {
  return copiesOf(nvdimm.durable, slot).map((at) => at / 64)
}

/** The sequence of a record that is stored now: it grows by one with every record of the part. */
async function probe(region: Region): Promise<bigint> {
  await region.persist(299, data(0)).persisted
  return (await region.read(299)).sequence
}

function statuses(outcome: BatchOutcome): string[] {
  return outcome.records.map((record) =>
    record.status === 'refused' ? `refused ${record.code}` : record.status,
  )
}

describe('P4-1, P4-8: a batch costs one status and one wait', () => {
  for (const condition of CONDITIONS) {
    for (const count of [1, 2, 8, 31, 32, 33, 64, 256]) {
      test(`${count} records, ${condition}`, async () => {
        const { dpu, region, in: came } = await bench()
        const before = dpu.statistics()
        came.length = 0
        const outcome = await commit(region, { count, condition })
        expect(outcome).toMatchObject({ all: true, durable: count, bursts: 1, waits: 1 })
        expect(came.filter((opcode) => opcode === PERSIST_ACK).length).toBe(1)
        const after = dpu.statistics()
        expect(after.persistAcks - before.persistAcks).toBe(1)
        expect(after).toMatchObject({ batches: 1, bursts: 1, batchWaits: 1, retransmissions: 0 })
        for (const [i, record] of outcome.records.entries()) {
          expect(record).toMatchObject({ index: i, slot: i, operationId: BigInt(i + 1) })
          expect(record).toMatchObject({ receipt: { copies: 2, of: 2, mechanism: 'localFlush' } })
        }
        await expectData(region, count)
        expect((await region.read(count - 1)).operationId).toBe(BigInt(count))
      })
    }
  }

  test('single persists wait once for each record', async () => {
    const { dpu, region } = await bench({ inFlight: 1 })
    for (const i of upTo(32)) await region.persist(i, data(i)).persisted
    expect(dpu.statistics().persistAcks).toBe(32)
  })

  test('records of several packets, of no bytes, and of every level', async () => {
    for (const durability of ['1of3', '2of3', '3of3'] as const) {
      const { region } = await bench({ pathMtu: 256 }, { shape: { copies: 3 } })
      const batch = region.batch({ condition: 'inOrder', durability })
      const lengths = [0, 1, 255, 256, 257, 700, 1000, 0]
      for (const [slot, length] of lengths.entries()) {
        batch.persist(slot, new Uint8Array(length).fill(slot + 1))
      }
      const outcome = await batch.commit()
      expect(outcome).toMatchObject({ all: true, bursts: 1 })
      const [record] = outcome.records
      const copies = record!.status === 'durable' ? record!.receipt.copies : 0
      expect(copies).toBeGreaterThanOrEqual(Number(durability[0]))
      for (const [slot, length] of lengths.entries()) {
        const read = await region.read(slot)
        expect(read.data).toEqual(new Uint8Array(length).fill(slot + 1))
      }
    }
  })
})

describe('P4-9, P4-10, D-10: what is not taken', () => {
  for (const condition of ['independent', 'inOrder'] as const) {
    for (let count = 1; count <= 8; count++) {
      test(`${condition}, ${count} records: a slot that is none, at every place`, async () => {
        const { region } = await bench()
        // The driver believes in more slots than there are.
        Object.assign(region.info, { slots: 1000 })
        for (let k = 0; k < count; k++) {
          const batch = region.batch({ condition })
          for (const i of upTo(count)) batch.persist(i === k ? 900 : i, data(i, k))
          const outcome = await batch.commit()
          const behind = condition === 'inOrder' ? 'notAccepted' : 'durable'
          expect(statuses(outcome)).toEqual(
            upTo(count).map((i) => (i < k ? 'durable' : i === k ? 'refused SLOT' : behind)),
          )
          expect(outcome).toMatchObject({ bursts: 1, waits: 1 })
          for (const i of upTo(count)) {
            if (i === k) continue
            const isNew = i < k || condition === 'independent'
            const { operationId } = await region.read(i)
            expect(operationId === outcome.records[i]!.operationId).toBe(isNew)
          }
        }
      })

      test(`${condition}, ${count} records: a lane that takes no store`, async () => {
        for (let k = 0; k < count; k++) {
          const { region, nvdimm, dpu } = await bench()
          nvdimm.refuseWrites(LANES_AT / 64 + k)
          const outcome = await commit(region, { count, condition })
          expect(outcome).toMatchObject({ all: true, durable: count })
          // A card may find another lane by itself: then nothing is to be sent again.
          expect(outcome.waits).toBe(outcome.bursts)
          expect(outcome.bursts).toBeLessThanOrEqual(2)
          expect(dpu.statistics().bursts).toBe(outcome.bursts)
          await expectData(region, count)
        }
      })
    }
  }

  for (const condition of ['independent', 'inOrder'] as const) {
    for (const copy of [0, 1]) {
      test(`X-5, P4-13: ${condition}, copy ${copy} takes no store, at every place`, async () => {
        for (let k = 0; k < 6; k++) {
          const { region, nvdimm } = await bench()
          expect((await commit(region, { count: 6 })).all).toBe(true)
          nvdimm.refuseWrites(linesOf(nvdimm, k)[copy]!)
          const outcome = await commit(region, { count: 6, condition, seed: 1 })
          // Where the first copy has it, the next start decides, and says so of none behind it.
          const open = copy === 1
          const behind = condition !== 'inOrder' ? 'durable' : open ? 'unknown' : 'notAccepted'
          const ends = outcome.records.map(({ status }) => status)
          expect(ends.slice(0, k)).toEqual(upTo(k).map(() => 'durable'))
          expect(ends[k]).toBe(open ? 'unknown' : 'refused')
          expect(ends.slice(k + 1)).toEqual(upTo(5 - k).map(() => behind))
          const isNew: boolean[] = []
          for (const i of upTo(6)) {
            const read = await region.read(i)
            isNew.push(read.operationId === outcome.records[i]!.operationId)
            expect(read.data).toEqual(data(i, isNew[i] ? 1 : 0))
            if (ends[i] === 'durable') expect(isNew[i]).toBe(true)
            // With the second copy refused, the first one has it and goes on.
            else if (copy === 0) expect(isNew[i]).toBe(false)
          }
          const fromFirst = [...isNew].sort((one, other) => Number(other) - Number(one))
          if (condition === 'inOrder') expect(isNew).toEqual(fromFirst)
        }
      })
    }
  }

  test('expect: a record that somebody else has written is refused, the others stand', async () => {
    const { network, region, options } = await bench()
    const other = await connect(network.addHost(), { ...options, seed: 4 })
    const theirs = await other.openRegion('orders')
    await commit(region, { count: 4 })
    const batch = region.batch({ condition: 'expect' })
    for (const i of upTo(4)) {
      batch.persist(i, data(i, 1), { expect: (await region.read(i)).sequence })
    }
    await theirs.persist(2, data(2, 50)).persisted
    const outcome = await batch.commit()
    expect(statuses(outcome)).toEqual(['durable', 'durable', 'refused CONDITION', 'durable'])
    expect(outcome).toMatchObject({ bursts: 1 })
    expect((await region.read(2)).data).toEqual(data(2, 50))
    expect((await region.read(3)).data).toEqual(data(3, 1))
  })

  test('D-13, X-7: a part that is not armed refuses all of it, once', async () => {
    const { region, nvdimm } = await bench()
    nvdimm.armed = false
    const outcome = await commit(region, { count: 5 })
    expect(statuses(outcome)).toEqual(Array.from({ length: 5 }, () => 'refused NOT_ARMED'))
    expect(outcome.bursts).toBe(1)
    nvdimm.armed = true
    expect((await commit(region, { count: 5 })).all).toBe(true)
  })

  test('X-7: a level that the region does not keep, a length that it does not take', async () => {
    const { region } = await bench({}, { shape: { fixedLength: true, capacity: 64 } })
    Object.assign(region.info, { fixedLength: false, copies: 3 })
    const short = region.batch({ durability: '2of3' })
    short.persist(0, new Uint8Array(64))
    short.persist(1, new Uint8Array(63))
    expect(statuses(await short.commit())).toEqual(['durable', 'refused FIXED_LENGTH'])
    const deep = region.batch({ durability: '3of3' })
    deep.persist(0, new Uint8Array(64))
    expect(statuses(await deep.commit())).toEqual(['refused LEVEL'])
  })

  test('a wrong key breaks the connection; the rest is durable over the next', async () => {
    const { region, dpu } = await bench()
    Object.assign(region.info, { rkey: region.info.rkey ^ 0x100 })
    const outcome = await commit(region, { count: 3 })
    expect(statuses(outcome)).toEqual(['refused PERDURE_TRANSPORT', 'durable', 'durable'])
    expect(dpu.statistics().connections).toBe(2)
  })
})

describe('a bad network', () => {
  const faults = { loss: 0.1, duplication: 0.1, reordering: 0.1, corruption: 0.03 }
  for (const condition of CONDITIONS) {
    for (let seed = SEED; seed < SEED + 4; seed++) {
      test(`N1, N2, N4, X-3: ${condition}, everything is durable once, seed ${seed}`, async () => {
        const options = { pathMtu: 256, ackTimeoutCode: 8, persistTimeoutMs: 5 }
        const { region, dpu } = await bench(options, { faults, seed })
        const before = await probe(region)
        for (let round = 0; round < 5; round++) {
          const outcome = await commit(region, { count: 40, condition, seed: round })
          expect(outcome.all).toBe(true)
        }
        expect((await probe(region)) - before).toBe(5n * 40n + 1n)
        await expectData(region, 40, 4)
        expect(dpu.statistics().retransmissions).toBeGreaterThan(5)
      })
    }
  }

  test('G2-3, P4-14: a lost status is asked for by one packet, nothing is rewritten', async () => {
    let lost = 0
    let isOn = false
    const { region, dpu, out } = await bench(
      { persistTimeoutMs: 5 },
      {
        drop: (frame, from) => {
          const isAnswer = from === 'card' && frame[OPCODE_AT] === PERSIST_ACK
          const isLost = isOn && isAnswer && lost < 3
          if (isLost) lost++
          return isLost
        },
      },
    )
    const before = await probe(region)
    out.length = 0
    isOn = true
    expect(await commit(region, { count: 32 })).toMatchObject({ all: true, bursts: 1, waits: 1 })
    expect(lost).toBe(3)
    const asked = out.filter((opcode) => opcode === WRITE_PERSIST_ONLY).length - 32
    expect(asked).toBeGreaterThanOrEqual(3)
    expect(asked).toBeLessThanOrEqual(6)
    expect(dpu.statistics().connections).toBe(1)
    expect((await probe(region)) - before).toBe(33n)
  })
})

describe('a power cut', () => {
  for (let at = 1; at <= 12; at++) {
    test(`X-1, X-5, P4-9: at record ${at} of batches in order, seed ${SEED}`, async () => {
      const { region, card, dpu } = await bench({}, { seed: SEED + at })
      await commit(region, { count: 12, seed: 9 })
      card.armCut({ record: 12 + at })
      const running = commit(region, { count: 12, condition: 'inOrder', seed: 1 })
      while (card.isOn) await new Promise((resolve) => setImmediate(resolve))
      await card.powerOn()
      const outcome = await running
      expect(outcome.all).toBe(true)
      await expectData(region, 12, 1)
      expect(dpu.statistics()).toMatchObject({ connections: 2, recordsDurable: 24 })
    })

    test(`X-5, P4-13: what is durable after it is a prefix, cut ${at}, seed ${SEED}`, async () => {
      const { region, card, dpu } = await bench({ reconnect: false }, { seed: 50 + SEED + at })
      const base = await commit(region, { count: 40, seed: 9 })
      card.armCut({ record: 40 + 3 * at })
      const running = commit(region, { count: 40, condition: 'inOrder', seed: 1 })
      while (card.isOn) await new Promise((resolve) => setImmediate(resolve))
      await card.powerOn()
      const outcome = await running
      for (const record of outcome.records) expect(['unknown', 'durable']).toContain(record.status)
      await dpu.reconnect()
      const isNew: boolean[] = []
      for (const i of upTo(40)) {
        const read = await region.read(i)
        isNew.push(read.operationId === outcome.records[i]!.operationId)
        expect(read.data).toEqual(data(i, isNew[i] ? 1 : 9))
        const { durable } = await dpu.query(outcome.records[i]!.operationId)
        expect(durable).toBe(isNew[i])
        if (outcome.records[i]!.status === 'durable') expect(isNew[i]).toBe(true)
      }
      expect(base.all).toBe(true)
      expect(isNew).toEqual([...isNew].sort((one, other) => Number(other) - Number(one)))
    })
  }

  test('N14, P4-12: a batch whose status died with the part is found durable', async () => {
    let deaf = false
    let dropped = (): void => {}
    const drop = (frame: Uint8Array, from: string): boolean => {
      const isStatus = deaf && from === 'card' && frame[OPCODE_AT] === PERSIST_ACK
      if (isStatus) dropped()
      return isStatus
    }
    const { region, card, dpu } = await bench({}, { drop })
    deaf = true
    const batch = region.batch({ condition: 'inOrder' })
    for (const i of upTo(40)) batch.persist(i, data(i))
    const running = batch.commit()
    await new Promise<void>((resolve) => {
      dropped = resolve
    })
    deaf = false
    card.powerCut({ strategy: 'none' })
    await card.powerOn()
    await dpu.reconnect()
    const outcome = await running
    expect(outcome.all).toBe(true)
    const { recovered, sentAgain } = dpu.statistics()
    expect(recovered + sentAgain).toBe(40)
    expect(recovered).toBeGreaterThan(0)
    // A sequence says in which incarnation of the part the record was stored.
    const reads = await Promise.all(upTo(40).map((slot) => region.read(slot)))
    expect(reads.filter(({ sequence }) => sequence >> 44n === 1n).length).toBe(recovered)
  })

  test('a part that stays away: what was sent is unknown', async () => {
    const { region, card } = await bench({ reconnectTimeoutMs: 2000 })
    const running = commit(region, { count: 3 })
    card.powerCut()
    expect(statuses(await running)).toEqual(['unknown', 'unknown', 'unknown'])
    await card.powerOn()
    expect((await commit(region, { count: 3 })).all).toBe(true)
  })
})

describe('P4-14: batches, ordinary records and other connections', () => {
  test('records to one slot take effect in the order of the calls', async () => {
    const { region } = await bench()
    const ends: Promise<unknown>[] = []
    for (let round = 0; round < 20; round++) {
      ends.push(region.persist(round % 3, data(1, round)).persisted)
      const batch = region.batch({ condition: round % 2 === 0 ? 'inOrder' : 'independent' })
      for (const i of upTo(6)) batch.persist(i, data(i, round))
      ends.push(batch.commit().then(({ all }) => expect(all).toBe(true)))
      ends.push(region.persist(5, data(9, round)).persisted)
    }
    await Promise.all(ends)
    await expectData(region, 5, 19)
    expect((await region.read(5)).data).toEqual(data(9, 19))
  })

  for (let seed = SEED; seed < SEED + 4; seed++) {
    test(`two clients on a bad network, each in its own order, seed ${seed}`, async () => {
      const faults = { loss: 0.05, duplication: 0.05, reordering: 0.1 }
      const options = { pathMtu: 256, ackTimeoutCode: 8, persistTimeoutMs: 5 }
      const one = await bench(options, { faults, seed })
      const dpu = await connect(one.network.addHost(), { ...one.options, seed: 4 })
      const theirs = await dpu.openRegion('orders')
      const work = async (region: Region, slot: number): Promise<void> => {
        for (let round = 0; round < 6; round++) {
          const running = commit(region, { count: 35, condition: 'inOrder', slot, seed: round })
          const alone = region.persist(slot + 40, data(1, round))
          expect((await running).all).toBe(true)
          await alone.persisted
        }
      }
      const before = await probe(theirs)
      await Promise.all([work(one.region, 0), work(theirs, 100)])
      await expectData(one.region, 35, 5)
      await expectData(theirs, 35, 5, 100)
      for (const [slot, seed] of [
        [40, 5],
        [140, 5],
      ] as const) {
        expect((await theirs.read(slot)).data).toEqual(data(1, seed))
      }
      expect((await probe(theirs)) - before).toBe(2n * 6n * 36n + 1n)
    })
  }

  test('reads behind a batch see it, and a level of one copy is enough for a batch', async () => {
    const { region } = await bench()
    const batch = region.batch({ durability: '1of2' })
    for (const i of upTo(10)) batch.persist(i, data(i))
    const running = batch.commit()
    expect((await region.read(9)).data).toEqual(data(9))
    expect((await running).all).toBe(true)
  })
})

describe('everything at once', () => {
  for (let seed = SEED; seed < SEED + 3; seed++) {
    test(`X-1, X-3, X-5: bad network, cuts, batches and single records, seed ${seed}`, async () => {
      const faults = { loss: 0.05, duplication: 0.05, reordering: 0.1 }
      const options = { pathMtu: 256, ackTimeoutCode: 8, persistTimeoutMs: 5 }
      const one = await bench(options, { faults, seed })
      const dpu = await connect(one.network.addHost(), { ...one.options, seed: 4 })
      const other = await dpu.openRegion('orders')
      const random = new Random(seed)
      let isOver = false
      const cuts = async (): Promise<void> => {
        for (let pauseUs = 3000; !isOver; pauseUs = 30_000 + random.below(60_000)) {
          const atUs = one.network.clock.nowUs + pauseUs
          await new Promise<void>((resolve) => void one.network.clock.schedule(atUs, resolve))
          if (isOver || !one.card.isOn) continue
          one.card.powerCut({ strategy: random.chance(0.5) ? 'none' : 'all' })
          await one.card.powerOn()
        }
      }
      const cutting = cuts()
      const clients = [one.region, other].map((region, i) => client(region, 100 * i, random.fork()))
      const newest = await Promise.all(clients)
      isOver = true
      await cutting
      for (const [i, slots] of newest.entries()) {
        for (const [slot, bytes] of slots) {
          const { data: found } = await [one.region, other][i]!.read(slot)
          expect(found, `slot ${slot}`).toEqual(bytes)
        }
      }
      expect(one.dpu.statistics().connections).toBeGreaterThan(1)
    })
  }

  /** Writes to its own slots, several calls ahead; returns what each of them must hold. */
  async function client(
    region: Region,
    first: number,
    random: Random,
  ): Promise<Map<number, Uint8Array>> {
    const newest = new Map<number, Uint8Array>()
    const ends: Promise<unknown>[] = []
    for (let round = 0; round < 40; round++) {
      const bytes = (slot: number): Uint8Array => {
        const made = data(slot % 60, round)
        newest.set(slot, made)
        return made
      }
      if (random.chance(0.4)) {
        const slot = first + random.below(12)
        ends.push(region.persist(slot, bytes(slot)).persisted)
      } else {
        const condition = random.chance(0.5) ? 'inOrder' : 'independent'
        const batch = region.batch({ condition })
        const from = random.below(8)
        const count = 1 + random.below(40)
        for (const i of upTo(count)) batch.persist(first + from + i, bytes(first + from + i))
        ends.push(
          batch
            .commit()
            .then((outcome) => expect(statuses(outcome)).toEqual(upTo(count).map(() => 'durable'))),
        )
      }
      if (ends.length >= 4) await ends.shift()
    }
    await Promise.all(ends)
    return newest
  }
})
