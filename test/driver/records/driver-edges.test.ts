/**
 * The host driver at its edges: names and numbers at their ends, memory that its caller goes on to
 * use, regions that somebody else ends, answers that are not as they should be. An uncertain end is
 * always said to be one, and nothing is durable that was not stored.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { type EmulatedDpu, Nvdimm } from '../../../boards/emulator/index.ts'
import { u16 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_ACK, UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { PAETH_COPIES } from '../../../firmware/wire/persist-ack.ts'
import type { Wire } from '../../../host-driver/base/wire.ts'
import { RemoteMemory } from '../../../host-driver/bytes/remote-memory.ts'
import { seal } from '../../../host-driver/frames/frames.ts'
import {
  type ConnectOptions,
  connect,
  type Dpu,
  dualRead,
  dualWrite,
  EffectUnknown,
  type Region,
} from '../../../host-driver/index.ts'
import type { ChainPort } from '../../../host-driver/way/chain.ts'
import type { JobQueue } from '../../../host-driver/way/way.ts'
import { openWay, WAYS } from '../../support/driver/ways.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'

const ARGUMENT = { code: 'PERDURE_ARGUMENT' }

const open: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

/** A card with a region of sixteen records, and a client of it. */
class Room {
  readonly network = new Network({ seed: 11 })
  card!: EmulatedDpu
  dpu!: Dpu
  region!: Region
  /** While it is deaf the client hears nothing. */
  deaf = false

  static async open(options: ConnectOptions = {}): Promise<Room> {
    const room = new Room()
    const { clock } = room.network
    room.card = await room.network.addDpu(2)
    clock.start()
    open.push(() => clock.stop())
    const wire = room.network.addHost()
    const half: Wire = {
      ...wire,
      onFrame: (callback) => wire.onFrame((frame) => void (room.deaf || callback(frame))),
    }
    room.dpu = await room.client(options, half)
    await room.dpu.format()
    room.region = await room.dpu.provision({ name: 'orders', slots: 16, capacity: 64 })
    return room
  }

  async client(options: ConnectOptions = {}, wire: Wire = this.network.addHost()): Promise<Dpu> {
    const dpu = await connect(wire, { peer: endpointOf(2), ...options })
    open.push(() => dpu.close())
    return dpu
  }

  pass(us: number): Promise<void> {
    const { clock } = this.network
    return new Promise((resolve) => void clock.schedule(clock.nowUs + us, resolve))
  }

  async restart(): Promise<void> {
    this.card.powerCut({ strategy: 'none' })
    await this.card.powerOn()
  }
}

const text = (words: string): Uint8Array => Uint8Array.from(Buffer.from(words))

async function held(region: Region, slot: number): Promise<string> {
  return Buffer.from((await region.read(slot)).data).toString()
}

describe('X-3: no operation names two records', () => {
  test('who goes on as a client says where, as what it has used is stored no more', async () => {
    const { network, dpu, region } = await Room.open({ clientId: 5n, firstOperation: 1n })
    await region.persist(0, text('old')).persisted
    await dpu.close()
    const wire = network.addHost()
    const again = connect(wire, { peer: endpointOf(2), clientId: 5n })
    await expect(again).rejects.toMatchObject(ARGUMENT)
    await expect(again).rejects.toThrow(/firstOperation/)
  })

  test('and where it says it, its records are stored', async () => {
    const room = await Room.open({ clientId: 5n, firstOperation: 1n })
    await room.region.persist(0, text('old')).persisted
    const firstOperation = room.dpu.nextOperation
    await room.dpu.close()
    const again = await room.client({ clientId: 5n, firstOperation })
    const same = await again.openRegion('orders')
    await same.persist(0, text('new')).persisted
    expect(await held(same, 0)).toBe('new')
  })

  test('D-6: behind the last id there is none: of a record, or of a batch', async () => {
    const { dpu, region } = await Room.open({ clientId: 9n, firstOperation: 2n ** 64n - 2n })
    const batch = region.batch()
    for (const slot of [1, 2, 3]) batch.persist(slot, text('batch'))
    await expect(batch.commit()).rejects.toMatchObject(ARGUMENT)
    expect(dpu.nextOperation).toBe(2n ** 64n - 2n)
    for (const slot of [4, 5]) await region.persist(slot, text('last')).persisted
    expect((await region.read(5)).operationId).toBe(2n ** 64n - 1n)
    const { framesSent } = dpu.statistics()
    expect(() => region.persist(6, text('over'))).toThrow(expect.objectContaining(ARGUMENT))
    expect(dpu.statistics().framesSent).toBe(framesSent)
    expect(await region.read(6)).toMatchObject({ written: false })
  })

  test.each(['clientId', 'firstOperation'])('%s is a bigint, and not 0', async (name) => {
    for (const wrong of [5, 0n, -1n, 2n ** 64n, '5', null]) {
      const options = { clientId: 5n, firstOperation: 5n, [name]: wrong } as ConnectOptions
      const { network } = await Room.open()
      const made = connect(network.addHost(), { peer: endpointOf(2), ...options })
      await expect(made, String(wrong)).rejects.toMatchObject(ARGUMENT)
    }
  })
})

describe('what is given to the driver is what it was at the call, a Buffer too', () => {
  test('records of a batch', async () => {
    const { region } = await Room.open()
    const bytes = Buffer.from('good')
    const batch = region.batch()
    batch.persist(0, bytes)
    bytes.fill('x')
    expect(await batch.commit()).toMatchObject({ all: true })
    expect(await held(region, 0)).toBe('good')
  })

  test('bytes that are written, sent, or written twice, behind others', async () => {
    const { dpu } = await Room.open()
    const memory = await dpu.provisionBytes({ name: 'bytes', length: 1 << 20 })
    const key = new Uint8Array(16)
    const bytes = Buffer.from('goodgood')
    const capacity = 8
    const places = [0, 4096].map((offset) => ({ memory, offset }))
    const pair = { places, key, capacity }
    const before = memory.write(8192, new Uint8Array(900_000))
    const all = [
      dualWrite({ ...pair, bytes }),
      memory.write(1_000_000, bytes),
      memory.atomicWrite(1_000_008, bytes),
      dpu.send(bytes, { solicited: true }),
    ]
    bytes.fill('x')
    await Promise.all([before, ...all])
    expect(Buffer.from(await memory.read(1_000_000, 16)).toString()).toBe('goodgoodgoodgood')
    expect(Buffer.from((await dualRead(pair)).record.data).toString()).toBe('goodgood')
    expect(Buffer.from((await dpu.messages.next()).bytes).toString()).toBe('goodgood')
  })

  test('what are no bytes is refused, and nothing is sent', async () => {
    const { dpu } = await Room.open()
    const memory = await dpu.provisionBytes({ name: 'bytes', length: 4096 })
    const { framesSent } = dpu.statistics()
    for (const wrong of ['eight by', [1, 2, 3, 4, 5, 6, 7, 8], new ArrayBuffer(8)]) {
      const bytes = wrong as unknown as Uint8Array
      await expect(memory.write(0, bytes)).rejects.toMatchObject(ARGUMENT)
      await expect(memory.atomicWrite(0, bytes)).rejects.toMatchObject(ARGUMENT)
      expect(() => dpu.send(bytes)).toThrow(expect.objectContaining(ARGUMENT))
    }
    expect(dpu.statistics().framesSent).toBe(framesSent)
  })
})

test('a FLUSH of another handle does not vouch for bytes of before a restart either', async () => {
  const room = await Room.open()
  const { dpu } = room
  await dpu.provisionBytes({ name: 'bytes', length: 4096 })
  const [one, other] = [await dpu.openBytes('bytes'), await dpu.openBytes('bytes')]
  await one.write(0, text('hello'))
  await room.restart()
  await dpu.reconnect()
  await expect(other.flush(0, 5)).rejects.toMatchObject({ code: 'PERDURE_RESTARTED' })
  await other.write(0, text('hello'))
  await one.flush(0, 5)
  await room.restart()
  await dpu.reconnect()
  await other.flush(0, 5)
  expect(Buffer.from(await one.read(0, 5)).toString()).toBe('hello')
})

test.each(WAYS)('D-13: a plain WRITE of a record in doubt is said to be so, %s', async (name) => {
  const way = await openWay(name)
  open.push(() => way.close())
  await way.dpu.format()
  const region = await way.dpu.provision({ name: 'orders', slots: 16, capacity: 64 })
  await region.write(3, text('needle'))
  const { nvdimm } = way.target
  const copyB = Buffer.from(nvdimm.durable).lastIndexOf('needle')
  nvdimm.refuseWrites(Math.floor(copyB / 64))
  const error = await region.write(3, text('newest')).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(EffectUnknown)
  expect(error).toMatchObject({ code: 'PERDURE_OUTCOME_UNKNOWN' })
  nvdimm.refuseWrites(Math.floor(copyB / 64), false)
  await way.restart()
  await way.dpu.reconnect()
  // Its next start has decided: it had its effect.
  expect(await held(region, 3)).toBe('newest')
})

describe('X-7: numbers and names at their ends are refused, and nothing is sent', () => {
  test('of a connection', async () => {
    const { network } = await Room.open()
    for (const wrong of [
      { ackTimeoutCode: -1 },
      { ackTimeoutCode: 32 },
      { ackTimeoutCode: Number.NaN },
      { protectionDomain: 65_536 },
      { protectionDomain: -1 },
      { protectionDomain: 0.5 },
    ]) {
      const made = connect(network.addHost(), { peer: endpointOf(2), ...wrong })
      await expect(made, JSON.stringify(wrong)).rejects.toMatchObject(ARGUMENT)
    }
  })

  test('of calls to the part', async () => {
    const { dpu } = await Room.open()
    const shape = { name: 'more', slots: 1, capacity: 64 }
    await dpu.publish({ name: 'orders', port: 7, form: 'capability' })
    const { framesSent } = dpu.statistics()
    const wrong: (() => Promise<unknown>)[] = [
      () => dpu.publish({ name: '', port: 7 }),
      () => dpu.publish({ name: 'orders', port: 8, form: 'toString' as 'librpma' }),
      () => dpu.publish({ name: 'orders', port: 8, rights: 2 ** 32 }),
      () => dpu.publish({ name: 'orders', port: 8, rights: -1 }),
      () => dpu.publish({ name: 'orders', port: 65_536 }),
      () => dpu.withdraw(0),
      () => dpu.provision({ ...shape, placement: 'there' as 'local' }),
      () => dpu.provision({ ...shape, slots: 2 ** 32 }),
      () => dpu.openRegion(5 as unknown as string),
      () => dpu.openRegion(undefined as unknown as string),
    ]
    for (const call of wrong) await expect(call(), `${call}`).rejects.toMatchObject(ARGUMENT)
    expect(dpu.statistics().framesSent).toBe(framesSent)
    await dpu.withdraw(7)
  })

  test('of a query: a number is refused, and the connection goes on', async () => {
    const { dpu, region } = await Room.open()
    for (const wrong of [5, 0n, 2n ** 64n, undefined]) {
      expect(() => dpu.query(wrong as bigint)).toThrow(expect.objectContaining(ARGUMENT))
    }
    const { operationId } = await region.persist(0, text('a')).persisted
    expect(await dpu.query(operationId)).toMatchObject({ durable: true })
  })

  test('of memory: no FLUSH covers less than was asked for', async () => {
    const lengths: number[] = []
    const port: ChainPort = {
      way: { now: () => 0, setTimer: () => () => {} },
      enqueueChain: ({ verbs }) => {
        const granted = { queuePair: 0, firstPsn: 0, incarnation: 1, pathMtu: 4096 }
        for (const verb of verbs) {
          lengths.push(verb.start({ granted } as JobQueue).request.length!)
        }
      },
    }
    const where = { rkey: 1, va: 0n, length: 2n ** 40n }
    const memory = new RemoteMemory(
      port,
      () => 'memory',
      () => where,
    )
    void memory.flush(1, 2 ** 32 - 1)
    void memory.flush(0, 2 ** 33, { wholeRegion: true })
    for (const length of [2 ** 32, 2 ** 32 + 8, 2 ** 40]) {
      await expect(memory.flush(0, length)).rejects.toMatchObject(ARGUMENT)
    }
    expect(lengths[0]).toBe(2 ** 32 - 1)
    expect(lengths).toHaveLength(2)
  })
})

test.each(['own', 'behind'] as const)(
  'a record that the memory of the host has no room for is refused, and others go on, %s',
  async (name) => {
    const card = { nvdimm: new Nvdimm({ bytes: 1 << 21 }), ramBytes: 1 << 19 }
    const way = await openWay(name, { card })
    open.push(() => way.close())
    await way.dpu.format()
    const shape = { name: 'orders', slots: 2, capacity: 65_536, copies: 4 }
    const region = await way.dpu.provision(shape)
    const large = region.persist(0, new Uint8Array(65_536), { form: 'carried' })
    const small = region.persist(1, text('small'))
    const batch = region.batch()
    batch.persist(0, text('batch'))
    const last = batch.commit()
    await expect(large.persisted).rejects.toMatchObject({
      ...{ code: 'PERDURE_TRANSPORT', status: 'LOC_LEN_ERR' },
    })
    await small.persisted
    expect(await last).toMatchObject({ all: true })
    const durable = [1n, 2n, 3n].map(async (id) => (await way.dpu.query(id)).durable)
    expect(await Promise.all(durable)).toEqual([false, true, true])
  },
)

describe('a region that somebody else ends', () => {
  const OTHER = { name: 'other', slots: 16, capacity: 64 }

  test('does not take the others with it, when the connection is made again', async () => {
    const room = await Room.open()
    const other = await room.dpu.provision(OTHER)
    await other.persist(0, text('other')).persisted
    await (await room.client()).remove('other')
    await room.restart()
    await room.region.persist(0, text('orders')).persisted
    expect(await held(room.region, 0)).toBe('orders')
    expect(() => other.persist(1, text('gone'))).toThrow(
      expect.objectContaining({ code: 'PERDURE_REFUSED', fault: 'NO_REGION' }),
    )
    await expect(other.read(0)).rejects.toMatchObject({ fault: 'NO_REGION' })
    await expect(room.dpu.openRegion('other')).rejects.toMatchObject({ fault: 'NO_REGION' })
  })

  test('gives its name to another, which gets no record of it', async () => {
    const room = await Room.open({ reconnectTimeoutMs: 60_000 })
    const other = await room.dpu.provision(OTHER)
    const second = await room.client()
    room.deaf = true
    const sent = other.persist(0, text('old'))
    await room.pass(1000)
    const left = Array.from({ length: 40 }, (_, i) => other.persist(i % 16, text('old')))
    const batch = other.batch()
    batch.persist(3, text('old'))
    const committed = batch.commit()
    const read = other.read(5)
    read.catch(() => {})
    await second.remove('other')
    const made = await second.provision(OTHER)
    await room.restart()
    room.deaf = false
    await expect(sent.persisted).rejects.toMatchObject({ code: 'PERDURE_OUTCOME_UNKNOWN' })
    const ends = await Promise.allSettled(left.map(({ persisted }) => persisted))
    expect(ends.every(({ status }) => status === 'rejected')).toBe(true)
    expect((await committed).durable).toBe(0)
    await expect(read).rejects.toMatchObject({ fault: 'NO_REGION' })
    await second.reconnect()
    for (let slot = 0; slot < 16; slot++) {
      expect(await made.read(slot)).toMatchObject({ written: false })
    }
    const again = await room.dpu.openRegion('other')
    await again.persist(0, text('new')).persisted
    expect(await held(made, 0)).toBe('new')
    expect(() => other.persist(0, text('old'))).toThrow(/NO_REGION/)
    await room.region.persist(0, text('orders')).persisted
  })
})

describe('answers that are not as they should be', () => {
  /** A wire on which `change` may change what comes. */
  function broken(wire: Wire, change: (frame: Uint8Array, packet: Packet) => void): Wire {
    const packet = blankPacket()
    return {
      ...wire,
      onFrame: (callback) =>
        wire.onFrame((frame) => {
          const bytes = frame.slice()
          checkPacket(packet, bytes, 0, bytes.length)
          change(bytes, packet)
          callback(seal(bytes))
        }),
    }
  }

  test('X-1: fewer durable copies than a record waits for do not make it durable', async () => {
    const room = await Room.open()
    let copies = 1
    const wire = broken(room.network.addHost(), (bytes, { opcode, bthAt, row }) => {
      if (opcode === PERSIST_ACK) bytes[bthAt + row!.paethAt + PAETH_COPIES] = copies
    })
    const region = await (await room.client({}, wire)).openRegion('orders')
    const unknown = { code: 'PERDURE_OUTCOME_UNKNOWN' }
    await expect(region.persist(0, text('a')).persisted).rejects.toMatchObject(unknown)
    const batch = region.batch()
    batch.persist(1, text('b'))
    expect((await batch.commit()).records).toMatchObject([{ status: 'unknown' }])
    const one = region.persist(0, text('c'), { durability: '1of2' })
    expect(await one.persisted).toMatchObject({ copies: 1 })
    copies = 2
    expect(await region.persist(0, text('d')).persisted).toMatchObject({ copies: 2 })
  })

  test('a grant that cannot be is no connection', async () => {
    const room = await Room.open()
    for (const [at, value] of [
      [mad.CONNECT_GRANTED_MTU, 0],
      [mad.CONNECT_GRANTED_MTU, 0xff],
      [mad.CONNECT_QP, 0xff],
      [mad.CONNECT_FIRST_PSN, 0x01],
    ] as const) {
      const wire = broken(room.network.addHost(), (bytes, { opcode, payloadAt }) => {
        const attribute = opcode === UD_SEND_ONLY ? u16(bytes, payloadAt + mad.MAD_ATTRIBUTE) : 0
        if (attribute === mad.ATTRIBUTE_CONNECT) bytes[payloadAt + mad.MAD_BODY + at] = value
      })
      const made = connect(wire, { peer: endpointOf(2) })
      await expect(made, `${at}`).rejects.toMatchObject({ code: 'PERDURE_UNREACHABLE' })
    }
  })
})
