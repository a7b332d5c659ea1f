/**
 * The host driver against the emulated DPU, in one process and in virtual time: the firmware runs
 * from its sources, everything that looks like chance comes from a seed.
 */

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import {
  DEFAULT_PORT,
  EmulatedDpu,
  Nvdimm,
  openTunnel,
  RealClock,
} from '../../../boards/emulator/index.ts'
import { icrcGood } from '../../../boards/software/icrc.ts'
import { PASS } from '../../../firmware/board/fault.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { DPU_ENDPOINT } from '../../../host-driver/base/addresses.ts'
import type {
  ConnectOptions,
  Dpu,
  Receipt,
  Region,
  RegionRequest,
} from '../../../host-driver/index.ts'
import {
  connect,
  OutcomeUnknown,
  PcapWriter,
  PerdureError,
  RecordLost,
  RefusedError,
  readPcap,
  TransportError,
} from '../../../host-driver/index.ts'
import type { LocalDpu, LocalOptions } from '../../../host-driver/local.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts, passOn } from '../../support/driver/local-parts.ts'
import { copiesOf } from '../../support/judges/copies.ts'

const openPart = localParts()

interface Bench {
  local: LocalDpu
  dpu: Dpu
  region: Region
}

/** A formatted part with one region of sixteen records, and a client of it. */
async function bench(
  options: ConnectOptions = {},
  shape: Partial<RegionRequest> = {},
  card: Partial<LocalOptions> = {},
): Promise<Bench> {
  const local = await openPart(card)
  const dpu = await connect(local.wire, { seed: 3, ...options })
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 16, capacity: 1000, ...shape })
  return { local, dpu, region }
}

function record(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17) & 0xff)
}

/** Cuts the power, and boots again after a while. */
async function restart(local: LocalDpu, offUs = 0): Promise<void> {
  if (local.dpu.isOn) local.dpu.powerCut({ strategy: 'none' })
  if (offUs > 0) {
    await passOn(local, offUs)
  }
  await local.dpu.powerOn()
}

const OPCODE_AT = 42
const WRITE_PERSIST_ONLY = 0xca
const PERSIST_ACK = 0xd1

describe('a record', () => {
  test('P2-21, P2-24: is received, then durable, and reads back as it was sent', async () => {
    const { dpu, region } = await bench()
    const write = region.persist(3, record(1000, 1))
    await write.received
    const receipt = await write.persisted
    expect(receipt).toMatchObject({
      region: 'orders',
      slot: 3,
      operationId: 1n,
      copies: 2,
      of: 2,
      mechanism: 'localFlush',
      incarnation: dpu.incarnation,
    })
    expect(receipt.recovered).toBe(undefined)
    const read = await region.read(3)
    expect(read.data).toEqual(record(1000, 1))
    expect(read).toMatchObject({ operationId: 1n, clientId: dpu.clientId, written: true })
    expect(await region.read(4)).toMatchObject({ written: false, operationId: 0n })
  })

  test('is what it was at the call, whatever becomes of the buffer', async () => {
    const { region } = await bench()
    const buffer = record(100, 1)
    const write = region.persist(0, buffer)
    buffer.fill(0)
    await write.persisted
    expect((await region.read(0)).data).toEqual(record(100, 1))
  })

  test('operation ids grow by one per record, and go on where the client says', async () => {
    const { region, dpu } = await bench({ clientId: 99n, firstOperation: 2n ** 40n })
    const ids = [0, 1, 0].map((slot) => region.persist(slot, record(8, 1)).operationId)
    expect(ids).toEqual([2n ** 40n, 2n ** 40n + 1n, 2n ** 40n + 2n])
    expect(dpu.nextOperation).toBe(2n ** 40n + 3n)
    await region.persist(1, record(8, 1)).persisted
    expect(await region.read(0)).toMatchObject({ clientId: 99n, operationId: 2n ** 40n + 2n })
  })

  test('records to one slot take effect in the order of the calls', async () => {
    const { region } = await bench()
    const writes = Array.from({ length: 200 }, (_, i) => region.persist(i % 3, record(50, i)))
    await Promise.all(writes.map((write) => write.persisted))
    for (const slot of [0, 1, 2]) {
      const last = 199 - ((199 - slot) % 3)
      expect((await region.read(slot)).data).toEqual(record(50, last))
    }
  })

  for (const pathMtu of [256, 512, 1024, 2048, 4096]) {
    test(`of any length and form is durable at a path MTU of ${pathMtu}`, async () => {
      const { region, dpu } = await bench({ pathMtu }, { capacity: 9000 })
      expect(dpu.pathMtu).toBe(pathMtu)
      const lengths = [0, 1, 63, pathMtu - 1, pathMtu, pathMtu + 1, 3 * pathMtu, 4097, 9000]
      for (const form of ['replicated', 'carried', 'addressed'] as const) {
        const writes = lengths.map((n, slot) => region.persist(slot, record(n % 9001, n), { form }))
        await Promise.all(writes.map((write) => write.persisted))
        for (const [slot, n] of lengths.entries()) {
          expect((await region.read(slot)).data).toEqual(record(n % 9001, n))
        }
      }
      expect(await dpu.counters()).toEqual({})
    })
  }

  for (const [form, onTheWire] of [
    ['replicated', () => 1],
    ['carried', (copies: number) => copies],
    ['addressed', (copies: number) => copies],
  ] as const) {
    test(`P1-4, P1-5, P1-6: copies are identical, and in one request: ${form}`, async () => {
      for (const copies of [2, 3, 4]) {
        const { local, region } = await bench({}, { copies })
        const data = Buffer.from(record(60, copies))
        const requests: Buffer[] = []
        local.link.tap = (frame, _, from) => {
          if (from === 'a' && frame.length > data.length) requests.push(Buffer.from(frame))
        }
        await region.persist(1, data, { form }).persisted
        local.link.tap = undefined
        const having = requests.filter((frame) => frame.includes(data))
        expect(having).toHaveLength(1)
        const count = onTheWire(copies)
        // All of them stand one behind the other, and nothing like them beside.
        const all = Buffer.concat(Array.from({ length: count }, () => data))
        expect(having[0]!.includes(all)).toBe(true)
        expect(having[0]!.includes(Buffer.concat([all, data]))).toBe(false)
        const { copies: images } = await region.readCopies(1)
        expect(images.map((image) => image.record?.data)).toEqual(
          Array(copies).fill(record(60, copies)),
        )
      }
    })
  }

  const levels = ['1of2', '2of2', '1of3', '2of3', '3of3', '4of4'] as const
  test('R1-U7: a level of another number of copies is refused by one that is taken', async () => {
    const { region } = await bench()
    for (const [durability, instead] of [
      ['3of3', '2of2'],
      ['1of4', '1of2'],
      ['2of3', '2of2'],
    ] as const) {
      const refused = (): unknown => region.persist(0, record(1, 1), { durability })
      expect(refused).toThrowError(new RegExp(`keeps 2; say '${instead}'$`))
      await region.persist(0, record(1, 1), { durability: instead }).persisted
    }
  })

  for (const durability of levels) {
    test(`D-4: level ${durability} waits for that many copies`, async () => {
      const copies = Number(durability[3])
      const { region } = await bench({}, { copies })
      const receipt = await region.persist(1, record(64, 1), { durability }).persisted
      expect(receipt.copies).toBeGreaterThanOrEqual(Number(durability[0]))
      expect(receipt.of).toBe(copies)
    })
  }
})

describe('a bad network', () => {
  const faults = { loss: 0.1, duplication: 0.1, reordering: 0.1, corruption: 0.05 }
  for (const seed of [1, 2, 3, 4]) {
    test(`N1, N2, N4, N6: everything is durable once, seed ${seed}`, async () => {
      const options = { pathMtu: 256, ackTimeoutCode: 8, persistTimeoutMs: 5 }
      const { region, dpu } = await bench(options, {}, { faults, seed })
      const writes = Array.from({ length: 100 }, (_, i) =>
        region.persist(i % 16, record(10 + 9 * i, i)),
      )
      const receipts = await Promise.all(writes.map((write) => write.persisted))
      expect(receipts.map((receipt) => receipt.operationId)).toEqual(
        Array.from({ length: 100 }, (_, i) => BigInt(i + 1)),
      )
      for (let i = 84; i < 100; i++) {
        expect((await region.read(i % 16)).data).toEqual(record(10 + 9 * i, i))
      }
      expect(dpu.statistics().retransmissions).toBeGreaterThan(10)
    })
  }

  test('G2-3: lost PERSIST_ACKs are asked for again, and nothing is written twice', async () => {
    const { local, region, dpu } = await bench()
    let lost = 0
    local.link.script = (frame, from) => {
      const drop = from === 'b' && frame[OPCODE_AT] === PERSIST_ACK && lost < 3
      if (drop) lost++
      return drop ? { drop } : undefined
    }
    await region.persist(0, record(64, 1)).persisted
    const { sequence } = await region.read(0)
    expect(lost).toBe(3)
    expect(dpu.statistics()).toMatchObject({ persistRepeats: expect.any(Number), connections: 1 })
    await region.persist(1, record(64, 1)).persisted
    expect((await region.read(1)).sequence).toBe(sequence + 1n)
  })
})

describe('a power cut', () => {
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    test(`X-1, N13: inside a commit loses nothing acknowledged, seed ${seed}`, async () => {
      const { local, region, dpu } = await bench({ inFlight: 8 }, {}, { seed })
      local.dpu.armCut({ record: 20 + seed })
      const acknowledged: Receipt[] = []
      const writes = Array.from({ length: 60 }, (_, i) => region.persist(i % 16, record(500, i)))
      for (const write of writes) write.persisted.then((receipt) => acknowledged.push(receipt))
      while (local.dpu.isOn) await new Promise((resolve) => setImmediate(resolve))
      const before = acknowledged.length
      await restart(local)
      await Promise.all(writes.map((write) => write.persisted))
      expect(before).toBeLessThan(60)
      for (let i = 44; i < 60; i++) {
        expect((await region.read(i % 16)).data).toEqual(record(500, i))
      }
      expect(dpu.statistics()).toMatchObject({ connections: 2, recordsDurable: 60 })
      expect(new Set(acknowledged.map((receipt) => receipt.operationId)).size).toBe(60)
    })
  }

  test('N14: a record whose PERSIST_ACK died with the part is found durable', async () => {
    const { local, region, dpu } = await bench()
    local.link.script = (frame, from) =>
      from === 'b' && frame[OPCODE_AT] === PERSIST_ACK ? { drop: true } : undefined
    const write = region.persist(5, record(64, 1))
    const later = region.persist(5, record(64, 2))
    await later.received
    local.link.script = undefined
    await restart(local)
    await dpu.reconnect()
    const receipt = await write.persisted
    expect(receipt).toMatchObject({ recovered: true, incarnation: 2, copies: 2 })
    expect((await later.persisted).recovered).toBe(true)
    expect(await region.read(5)).toMatchObject({ data: record(64, 2), operationId: 2n })
    expect(dpu.statistics()).toMatchObject({ recovered: 2, sentAgain: 0 })
  })

  test('a record that never arrived is sent again under its operation id', async () => {
    const { local, region, dpu } = await bench()
    local.link.script = (_frame, from) => (from === 'a' ? { drop: true } : undefined)
    const write = region.persist(5, record(64, 1))
    local.link.script = undefined
    await restart(local)
    await dpu.reconnect()
    expect((await write.persisted).recovered).toBe(undefined)
    expect(await region.read(5)).toMatchObject({ data: record(64, 1), operationId: 1n })
    expect(dpu.statistics()).toMatchObject({ recovered: 0, sentAgain: 1 })
  })

  test('N5: a request that was delayed over a reconnection is never executed', async () => {
    const { local, region, dpu } = await bench()
    let held = 0
    local.link.script = (frame, from) => {
      if (from !== 'a' || frame[OPCODE_AT] !== WRITE_PERSIST_ONLY || held > 0) return undefined
      held++
      return { delayUs: 50_000 }
    }
    const old = region.persist(5, record(64, 1))
    await dpu.reconnect()
    await old.persisted
    const last = await region.persist(5, record(64, 2)).persisted
    await passOn(local, 100_000)
    expect(held).toBe(1)
    expect(await region.read(5)).toMatchObject({ operationId: last.operationId })
    expect(await dpu.counters()).toMatchObject({ UNKNOWN_QP: 1n })
  })

  test('reads that were on their way are answered by the part that came back', async () => {
    const { local, region } = await bench()
    await region.persist(5, record(64, 1)).persisted
    const reads = Array.from({ length: 20 }, () => region.read(5))
    await restart(local, 1000)
    for (const read of await Promise.all(reads)) expect(read.data).toEqual(record(64, 1))
  })

  test('a part that stays away: OutcomeUnknown for what was sent, and only for that', async () => {
    const { local, region } = await bench({ inFlight: 1, reconnectTimeoutMs: 2000 })
    const sent = region.persist(1, record(8, 1))
    const waiting = region.persist(2, record(8, 2))
    local.dpu.powerCut()
    const unknown = await failure(sent.persisted)
    expect(unknown).toBeInstanceOf(OutcomeUnknown)
    expect(unknown).toMatchObject({ code: 'PERDURE_OUTCOME_UNKNOWN', slot: 1, operationId: 1n })
    expect(await failure(sent.received)).toBe(unknown)
    expect(await failure(waiting.persisted)).toMatchObject({ code: 'PERDURE_UNREACHABLE' })
    await local.dpu.powerOn()
    await region.persist(3, record(8, 3)).persisted
  })

  test('without reconnection a broken connection says so, and reconnect mends it', async () => {
    const { local, region, dpu } = await bench({ reconnect: false })
    const sent = region.persist(1, record(8, 1))
    await restart(local)
    expect(await failure(sent.persisted)).toBeInstanceOf(OutcomeUnknown)
    expect(await failure(region.persist(1, record(8, 1)).persisted)).toBeInstanceOf(TransportError)
    await dpu.reconnect()
    await region.persist(1, record(8, 2)).persisted
  })
})

describe('giving up', () => {
  test('a signal that fired before the call: nothing is sent', async () => {
    const { region, dpu } = await bench()
    const { packets } = dpu.statistics()
    const write = region.persist(1, record(8, 1), { signal: AbortSignal.abort() })
    expect(await failure(write.persisted)).toMatchObject({ code: 'PERDURE_ABORTED' })
    expect(dpu.statistics().packets).toBe(packets)
  })

  test('a signal, or a deadline, that comes later: the outcome is unknown', async () => {
    const { local, region } = await bench()
    const control = new AbortController()
    local.link.script = () => ({ drop: true })
    const aborted = region.persist(1, record(8, 1), { signal: control.signal })
    const late = region.persist(2, record(8, 1), { deadlineMs: 1 })
    control.abort(new Error('enough'))
    const error = await failure(aborted.persisted)
    expect(error).toBeInstanceOf(OutcomeUnknown)
    expect((error.cause as Error).cause).toMatchObject({ message: 'enough' })
    expect(await failure(late.persisted)).toBeInstanceOf(OutcomeUnknown)
    local.link.script = undefined
    await region.persist(3, record(8, 1)).persisted
  })

  test('a deadline that passes in the queue: nothing was sent', async () => {
    const { local, region } = await bench({ inFlight: 1, deadlineMs: 5 })
    local.link.script = () => ({ drop: true })
    const first = region.persist(1, record(8, 1))
    const second = region.persist(2, record(8, 1))
    expect(await failure(first.persisted)).toMatchObject({ code: 'PERDURE_OUTCOME_UNKNOWN' })
    expect(await failure(second.persisted)).toMatchObject({ code: 'PERDURE_DEADLINE' })
  })

  test('closing waits for what is on its way, and later calls say that it is closed', async () => {
    const { region, dpu } = await bench()
    const write = region.persist(1, record(8, 1))
    await dpu.close()
    expect((await write.persisted).copies).toBe(2)
    expect(() => region.persist(1, record(8, 1))).toThrowError(/closed/)
    expect(() => dpu.status()).toThrowError(PerdureError)
    await dpu.close()
  })

  test('closing with a part that is gone leaves the outcome unknown', async () => {
    const { local, region, dpu } = await bench()
    const write = region.persist(1, record(8, 1))
    local.dpu.powerCut()
    await dpu.close()
    expect(await failure(write.persisted)).toBeInstanceOf(OutcomeUnknown)
  })

  test('a write that nobody looks at never ends the process', async () => {
    const { region } = await bench()
    const unhandled: unknown[] = []
    const note = (reason: unknown): void => {
      unhandled.push(reason)
    }
    process.on('unhandledRejection', note)
    region.persist(1, record(8, 1), { signal: AbortSignal.abort() })
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })
})

/** Flips a bit in the medium, behind everybody's back. */
function damage(nvdimm: Nvdimm, at: number): void {
  for (const bytes of [nvdimm.durable, nvdimm.live]) bytes[at] = bytes[at]! ^ 1
}

describe('readers', () => {
  test('P1-28: both copies are read one-sidedly, and are the same record', async () => {
    const { region } = await bench({}, { copies: 3 })
    await region.persist(2, record(100, 1)).persisted
    const read = await region.readCopies(2)
    expect(read).toMatchObject({ chosen: 0, settled: true, attempts: 1 })
    expect(read.copies.length).toBe(3)
    expect(read.record.data).toEqual(record(100, 1))
  })

  for (const part of ['check code', 'header', 'data'] as const) {
    test(`P1-29, D-15: a copy with a damaged ${part} is not chosen, and not repaired`, async () => {
      const { local, region } = await bench()
      await region.persist(2, record(100, 1)).persisted
      const [first, second] = copiesOf(local.nvdimm.durable, 2)
      damage(local.nvdimm, first! + { 'check code': 3, header: 30, data: 64 + 99 }[part])
      const before = local.nvdimm.durable.slice()
      const read = await region.readCopies(2)
      expect(read).toMatchObject({ chosen: 1, settled: false })
      expect(read.attempts).toBeGreaterThan(1)
      expect(read.record.data).toEqual(record(100, 1))
      expect(Buffer.compare(local.nvdimm.durable, before)).toBe(0)
      damage(local.nvdimm, second! + 64)
      expect(await failure(region.readCopies(2))).toBeInstanceOf(RecordLost)
    })
  }

  test('D-15: copies that are equal but not valid are not taken for a record', async () => {
    const { local, region } = await bench()
    await region.persist(2, record(100, 1)).persisted
    for (const at of copiesOf(local.nvdimm.durable, 2)) damage(local.nvdimm, at + 64)
    const [first, second] = copiesOf(local.nvdimm.durable, 2)
    const { durable } = local.nvdimm
    expect(durable.subarray(first, first! + 164)).toEqual(durable.subarray(second, second! + 164))
    expect(await failure(region.readCopies(2))).toBeInstanceOf(RecordLost)
  })

  test('R1-A3: a region of many slots is made while others serve, and removed', async () => {
    const { dpu, region } = await bench()
    const making = dpu.provision({ name: 'large', slots: 200, capacity: 64 })
    await region.persist(1, record(100, 1)).persisted
    const large = await making
    await large.persist(199, record(64, 2)).persisted
    expect((await large.read(199)).data).toEqual(record(64, 2))
    await dpu.remove('large')
    expect((await dpu.regions()).map(({ name }) => name)).toEqual(['orders'])
    expect(await failure(dpu.openRegion('large'))).toMatchObject({ fault: 'NO_REGION' })
    expect(await failure(dpu.remove('large'))).toMatchObject({ fault: 'NO_REGION' })
    const again = await dpu.provision({ name: 'large', slots: 200, capacity: 64 })
    expect((await dpu.status()).work).toBe(null)
    expect(again.info.id).toBe(large.info.id + 1)
    expect(await again.read(199)).toMatchObject({ written: false })
  })

  test('D-14: a lost record is told, others are read, and writing waits', async () => {
    const { local, dpu, region } = await bench()
    await region.persist(2, record(100, 1)).persisted
    await region.persist(3, record(100, 2)).persisted
    for (const at of copiesOf(local.nvdimm.durable, 2)) damage(local.nvdimm, at + 64)
    expect(await dpu.scan('orders')).toMatchObject({ checked: 16, lost: 1 })
    expect(await failure(region.read(2))).toBeInstanceOf(RecordLost)
    expect((await region.read(3)).data).toEqual(record(100, 2))
    const refused = await failure(region.persist(3, record(1, 1)).persisted)
    expect(refused).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'READ_ONLY' })
    expect(refused.message).toMatch(/'perdure discard TARGET/)
    expect(await dpu.report()).toMatchObject([
      { record: 2, lost: true, lane: null, action: 'lost' },
    ])
    expect(await failure(dpu.discard('orders', 3))).toMatchObject({ code: 'PERDURE_ARGUMENT' })
    expect((await dpu.discard('orders', 2)).readOnly).toBe(false)
    await region.persist(3, record(1, 1)).persisted
    expect(await region.read(2)).toMatchObject({ written: false })
  })
})

describe('captures', () => {
  test('hold every frame both ways, whole and in order, in the format of Wireshark', async () => {
    const capture = new PcapWriter()
    const { dpu, region } = await bench({ capture })
    await region.persist(2, record(100, 1)).persisted
    await dpu.close()
    const frames = [...readPcap(capture.bytes())]
    const { framesSent, framesReceived } = dpu.statistics()
    expect(frames.length).toBe(framesSent + framesReceived)
    expect(capture.bytes().subarray(0, 4)).toEqual(Uint8Array.of(0x4d, 0x3c, 0xb2, 0xa1))
    let last = 0n
    for (const { timeNs, frame } of frames) {
      expect(checkPacket(blankPacket(), frame, 0, frame.length)).toBe(PASS)
      expect(icrcGood(frame, 0, frame.length)).toBe(true)
      expect(timeNs).toBeGreaterThanOrEqual(last)
      last = timeNs
    }
  })

  test('damaged ones say what is wrong with them', () => {
    const capture = new PcapWriter()
    capture.add(1_000_001.5, record(60, 1))
    const whole = capture.bytes()
    expect([...readPcap(whole)]).toEqual([{ timeNs: 1_000_001_500n, frame: record(60, 1) }])
    for (let length = 1; length < whole.length; length++) {
      if (length === 24) continue
      expect(() => [...readPcap(whole.subarray(0, length))]).toThrowError(PerdureError)
    }
    expect(() => [...readPcap(record(100, 1))]).toThrowError(/begin/)
  })
})

test('over UDP, in real time: another process would see no difference', async () => {
  const clock = new RealClock()
  const nvdimm = new Nvdimm({ bytes: 1 << 20 })
  const tunnel = await openTunnel({ receive: (frame) => card.deliver(frame) })
  const transmit = (frame: Uint8Array): void => tunnel.send(frame)
  const card = new EmulatedDpu({ nvdimm, clock, transmit, engine: 'node', seed: 1 })
  await card.powerOn()
  const target = `perdure://127.0.0.1:${tunnel.port}`
  const [one, other] = await Promise.all([connect(target), connect(target)])
  await one.format()
  const region = await one.provision({ name: 'orders', slots: 64, capacity: 1000 })
  const writes = Array.from({ length: 64 }, (_, i) => region.persist(i, record(1000, i)))
  await Promise.all(writes.map((write) => write.persisted))
  const same = await other.openRegion('orders')
  for (let i = 0; i < 64; i++) expect((await same.read(i)).data).toEqual(record(1000, i))
  expect((await same.read(0)).clientId).toBe(one.clientId)
  await Promise.all([one.close(), other.close()])
  await tunnel.close()
  card.powerCut({ strategy: 'all' })
  clock.close()
})

test('the addresses of the driver are those of the emulated card', () => {
  expect(DPU_ENDPOINT).toEqual({ mac: [...DEFAULT_PORT.mac], ipv4: [...DEFAULT_PORT.ipv4] })
})

describe('X-7: every refusal has a typed reason', () => {
  test('arguments are checked before anything is sent', async () => {
    const { region, dpu } = await bench()
    const before = dpu.statistics().framesSent
    const wrong: (() => unknown)[] = [
      () => region.persist(-1, record(1, 1)),
      () => region.persist(16, record(1, 1)),
      () => region.persist(0.5, record(1, 1)),
      () => region.persist(Number.NaN, record(1, 1)),
      () => region.persist(0, record(1001, 1)),
      () => region.persist(0, 'text' as unknown as Uint8Array),
      () => region.persist(0, record(1, 1), { durability: '3of2' as '2of2' }),
      () => region.persist(0, record(1, 1), { durability: '2of3' }),
      () => region.persist(0, record(1, 1), { form: 'twice' as 'carried' }),
      () => region.persist(0, record(1, 1), { deadlineMs: 0 }),
    ]
    for (const call of wrong) {
      expect(call).toThrowError(expect.objectContaining({ code: 'PERDURE_ARGUMENT' }))
    }
    for (const call of [() => region.read(16), () => region.readCopies(-1)]) {
      expect(await failure(call())).toMatchObject({ code: 'PERDURE_ARGUMENT' })
    }
    expect(dpu.statistics().framesSent).toBe(before)
  })

  test('D-1: a region of one length takes no other', async () => {
    const { region } = await bench({}, { fixedLength: true })
    expect(() => region.persist(0, record(999, 1))).toThrowError(/exactly 1000/)
    await region.persist(0, record(1000, 1)).persisted
  })

  test('D-13, X-7: a part that is not armed refuses by name, and serves when it is', async () => {
    const { local, region } = await bench()
    await region.persist(0, record(8, 1)).persisted
    local.nvdimm.armed = false
    const error = await failure(region.persist(0, record(8, 2)).persisted)
    expect(error).toBeInstanceOf(RefusedError)
    expect(error).toMatchObject({ fault: 'NOT_ARMED', status: 0x85 })
    expect(error.message).toMatch(/NOT_ARMED.*retry/)
    expect((await region.read(0)).data).toEqual(record(8, 1))
    local.nvdimm.armed = true
    await region.persist(0, record(8, 3)).persisted
  })

  test('figures: what a card has acknowledged by region, and how soon', async () => {
    const { region, dpu } = await bench()
    const other = await dpu.provision({ name: 'other', slots: 4, capacity: 64 })
    const before = await dpu.figures()
    expect(await dpu.figuresOf('orders')).toEqual({
      ...{ region: region.info.id, acknowledged: 0n, bytes: 0n, totalUs: 0n, latency: [] },
    })
    const writes = Array.from({ length: 100 }, (_, i) => region.persist(i % 16, record(i, i)))
    await Promise.all(writes.map((write) => write.persisted))
    await other.persist(0, record(64, 1)).persisted
    const { acknowledged, bytes, latency } = await dpu.figuresOf('orders')
    expect([acknowledged, bytes]).toEqual([100n, 4950n])
    expect(latency.reduce((all, { count }) => all + count, 0n)).toBe(100n)
    for (const { fromUs, toUs } of latency) expect(toUs).toBeGreaterThan(fromUs)
    expect(await dpu.figuresOf('other')).toMatchObject({ acknowledged: 1n, bytes: 64n })
    const after = await dpu.figures()
    for (const name of ['bursts', 'fences', 'acknowledgements'] as const) {
      expect(after[name]).toBeGreaterThan(before[name])
    }
    expect(await failure(dpu.figuresOf('none'))).toMatchObject({ fault: 'NO_REGION' })
    expect(await failure(dpu.figuresOf(''))).toMatchObject({ code: 'PERDURE_ARGUMENT' })
  })

  test('a wrong key is an access error of that record; the others are made durable', async () => {
    const { region, dpu } = await bench()
    const before = region.persist(1, record(8, 1))
    Object.assign(region.info, { rkey: region.info.rkey ^ 0x100 })
    const wrong = region.persist(2, record(8, 2))
    const error = await failure(wrong.persisted)
    expect(error).toBeInstanceOf(TransportError)
    expect(error).toMatchObject({ code: 'PERDURE_TRANSPORT', status: 'REM_ACCESS_ERR' })
    await before.persisted
    await region.persist(3, record(8, 3)).persisted
    expect(await region.read(2)).toMatchObject({ written: false })
    expect(await dpu.counters()).toMatchObject({ KEY: 1n })
  })

  test('management refusals carry the name of the fault and what to do', async () => {
    const { dpu } = await bench()
    const refusals: [() => Promise<unknown>, string][] = [
      [() => dpu.openRegion('nobody'), 'NO_REGION'],
      [() => dpu.format(), 'FORMATTED'],
      [() => dpu.provision({ name: 'orders', slots: 17, capacity: 1000 }), 'REGION_EXISTS'],
      [() => dpu.provision({ name: 'huge', slots: 1 << 20, capacity: 65536 }), 'NO_SPACE'],
    ]
    for (const [call, fault] of refusals) {
      const error = await failure(call())
      expect(error).toBeInstanceOf(RefusedError)
      expect(error).toMatchObject({ code: 'PERDURE_REFUSED', fault, advice: expect.any(String) })
    }
    expect(await failure(dpu.openRegion(''))).toMatchObject({ code: 'PERDURE_ARGUMENT' })
    expect(await failure(dpu.openRegion('x'.repeat(33)))).toMatchObject({
      code: 'PERDURE_ARGUMENT',
    })
    expect((await dpu.provision({ name: 'orders', slots: 16, capacity: 1000 })).slots).toBe(16)
  })

  test('R1-U7: what no card takes is refused by its limits, unsent', async () => {
    const { dpu } = await bench()
    const shape = { name: 'new', slots: 4, capacity: 64 }
    for (const [wrong, words] of [
      [{ slots: 0 }, 'slots 0: 1 to 2147483647'],
      [{ slots: 2 ** 31 }, 'slots 2147483648: 1 to 2147483647'],
      [{ capacity: 0 }, 'capacity 0: 1 to 65536'],
      [{ capacity: 65537 }, 'capacity 65537: 1 to 65536'],
      [{ copies: 1 }, 'copies 1: 2 to 4'],
      [{ copies: 5 }, 'copies 5: 2 to 4'],
    ] as const) {
      const message = `a region: ${words}`
      const refused = await failure(dpu.provision({ ...shape, ...wrong }))
      expect(refused).toMatchObject({ code: 'PERDURE_ARGUMENT', message })
    }
    expect((await dpu.provision(shape)).slots).toBe(4)
  })

  test('a blank part is connected, and says that it wants to be formatted', async () => {
    const local = await openPart({ bytes: 1 << 20 })
    const dpu = await connect(local.wire, { seed: 1 })
    expect(await dpu.status()).toMatchObject({ state: 'blank', fault: 'BLANK' })
    expect(await failure(dpu.openRegion('orders'))).toMatchObject({ code: 'PERDURE_REFUSED' })
  })

  test('connecting: a bad target, a bad option, nobody there, a signal', async () => {
    expect(await failure(connect('http://dpu'))).toMatchObject({ code: 'PERDURE_TARGET' })
    expect(await failure(connect('perdure://'))).toMatchObject({ code: 'PERDURE_TARGET' })
    const bad = failure(connect('perdure://127.0.0.1', { pathMtu: 1000 }))
    expect(await bad).toMatchObject({ code: 'PERDURE_ARGUMENT' })
    const deaf = createSocket('udp4').bind(0, '127.0.0.1')
    await once(deaf, 'listening')
    const target = `perdure://127.0.0.1:${deaf.address().port}`
    const nobody = failure(connect(target, { timeoutMs: 60 }))
    expect(await nobody).toMatchObject({ code: 'PERDURE_UNREACHABLE' })
    const signal = AbortSignal.timeout(30)
    const aborted = failure(connect(target, { signal, timeoutMs: 600_000 }))
    expect(await aborted).toMatchObject({ code: 'PERDURE_ABORTED' })
    deaf.close()
  })
})
