/**
 * What a caller gives is taken at the call: whoever uses one piece of memory again and again has
 * stored what it held at each call (R31-1), whatever kind of bytes it is, over every way.
 *
 * Each call is made so often, and so fast, that most of its requests wait in a queue while the
 * memory is filled again. The table has every call of the library that takes bytes: the types say
 * which there are.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { imageBytes } from '../../../firmware/medium/slot.ts'
import { READ, WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { QueueElement } from '../../../host-driver/card/queues/values.ts'
import { fillAttachment, keptAttachment } from '../../../host-driver/control/attachment.ts'
import {
  type BytesRegion,
  connect,
  type Dpu,
  dualRead,
  dualWrite,
  INLINE,
  type Region,
  readSlotImage,
  SIGNALED,
  type Wire,
} from '../../../host-driver/index.ts'
import { writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import { verbsBench } from '../../support/driver/verbs-bench.ts'
import { type OpenWay, openWay, WAYS, type WayName } from '../../support/driver/ways.ts'
import { endpointOf } from '../../support/peers/network.ts'
import { complete, PcieRig } from '../../support/queues/pcie-rig.ts'
import { callsOf, inTypes, type Slot } from '../../support/source/types.ts'

/** Memory of each kind that may be given. */
const FORMS: Readonly<Record<string, (length: number) => Uint8Array>> = {
  'a Buffer': (length) => Buffer.alloc(length),
  'a view into a larger buffer': (length) =>
    new Uint8Array(new ArrayBuffer(length + 40), 13, length),
  'a Uint8Array': (length) => new Uint8Array(length),
  'memory that threads share': (length) => new Uint8Array(new SharedArrayBuffer(length)),
}

/** More than the requests that one queue takes at once. */
const COUNT = 200
/** As many as find room in the memory of a plain target. */
const TARGET_COUNT = 120
const BYTES = 64
const SLOTS = COUNT
/** What stands in the memory when the calls are made. */
const LATER = 0xee

const ends: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

function filled(length: number, i: number): Uint8Array {
  return new Uint8Array(length).fill(i + 1)
}

interface Bench {
  readonly way: OpenWay
  readonly dpu: Dpu
  readonly region: Region
  readonly log: BytesRegion
  /** Of which the copies are written by the client. */
  readonly pairs: Region
}

/** A DPU with a region of records and one of bytes; two records may be on their way at once. */
async function bench(name: WayName): Promise<Bench> {
  const way = await openWay(name, { connect: { inFlight: 2 } })
  ends.push(() => way.close())
  const { dpu } = way
  await dpu.format()
  const region = await dpu.provision({ name: 'r', slots: SLOTS, capacity: BYTES })
  const log = await dpu.provisionBytes({ name: 'log', length: 1 << 16 })
  const pairs = await dpu.provision({ name: 'p', slots: SLOTS, capacity: BYTES, pair: true })
  return { way, dpu, region, log, pairs }
}

/** How often a call is made with the same memory, and what was stored by each. */
interface Row {
  /** As the types call it. */
  readonly call: string
  readonly note?: string
  readonly ways?: readonly WayName[]
  /** Bytes that the call is given; BYTES unless given. */
  readonly length?: number
  /** How often it is made; COUNT unless given. */
  readonly count?: number
  /** Makes the call once more; resolves when it is done. */
  store(bench: Bench, i: number, bytes: Uint8Array): Promise<unknown>
  /** What the call of that number has stored. */
  load(bench: Bench, i: number): Promise<Uint8Array>
}

const recordOf = async ({ region }: Bench, i: number): Promise<Uint8Array> =>
  (await region.read(i)).data

function pairOf({ log }: Bench, i: number): Parameters<typeof dualRead>[0] {
  const copy = imageBytes(BYTES)
  const place = (which: number) => ({ memory: log, offset: (2 * i + which) * copy })
  return { places: [place(0), place(1)], key: filled(16, 0), capacity: BYTES }
}

const ROWS: readonly Row[] = [
  ...(['replicated', 'carried', 'addressed'] as const).map(
    (form): Row => ({
      call: 'Region.persist',
      note: form,
      store: ({ region }, i, bytes) => region.persist(i, bytes, { form }).persisted,
      load: recordOf,
    }),
  ),
  {
    call: 'Region.write',
    store: ({ region }, i, bytes) => region.write(i, bytes),
    load: recordOf,
  },
  {
    call: 'BytesRegion.write',
    store: ({ log }, i, bytes) => log.write(i * BYTES, bytes),
    load: ({ log }, i) => log.read(i * BYTES, BYTES),
  },
  {
    call: 'BytesRegion.atomicWrite',
    length: 8,
    store: ({ log }, i, bytes) => log.atomicWrite(i * 8, bytes),
    load: ({ log }, i) => log.read(i * 8, 8),
  },
  {
    call: 'Dpu.send',
    ways: ['frames', 'behind'],
    // As many answers of the DPU as may wait.
    count: 60,
    store: ({ dpu }, _, bytes) => dpu.send(bytes, { solicited: true }),
    load: async ({ dpu }) => (await dpu.messages.next()).bytes,
  },
  {
    call: 'Region.writeCopies',
    store: ({ pairs }, i, bytes) => pairs.writeCopies(i, bytes),
    load: async ({ pairs }, i) => (await pairs.readCopies(i)).record.data,
  },
  {
    call: 'dualWrite',
    note: 'its bytes',
    store: (b, i, bytes) => dualWrite({ ...pairOf(b, i), bytes }),
    load: async (b, i) => (await dualRead(pairOf(b, i))).record.data,
  },
]

/** Makes the call with the same memory, over and over; what was stored is what it held then. */
async function again(row: Row, b: Bench, given: Uint8Array): Promise<void> {
  const { call, count = COUNT } = row
  const done: Promise<unknown>[] = []
  for (let i = 0; i < count; i++) done.push(row.store(b, i, given.fill(i + 1)))
  given.fill(LATER)
  await Promise.all(done)
  for (let i = 0; i < count; i++) {
    expect(await row.load(b, i), `${call}, call ${i}`).toEqual(filled(given.length, i))
  }
}

/** Calls with bytes that have a test of their own below, or fill what they are given. */
const ELSEWHERE = new RegExp(
  [
    String.raw`^(guardOf|Batch\.(persist|write)|dual(Read|Write)|Dpu\.(format|attach))$`,
    String.raw`^MemoryRegion\.fill$`,
    String.raw`^(readSlotImage|readPcap|PcieDevice\.sendDatagram|PcapWriter\.add|Watch\.notice)$`,
    String.raw`^(BytesRegion|RemoteMemory)\.(write|atomicWrite|writing|writingOwn|reading)$`,
    // Keys: test/driver/session/session.test.ts, peers-calls.test.ts.
    String.raw`^(connect|Dpu\.(addPeer|removePeer))$`,
    String.raw`^(AgentControl|PlacementControl|SharedMemory|PagedMemory|Wire)\.|^Inbox\.deliver$`,
  ].join('|'),
)

test('R31-1: every call that takes bytes is here, by the types', () => {
  const takes = ({ sorts, fields }: Slot): boolean => sorts.includes('bytes') || fields.some(takes)
  const names = inTypes((types) => callsOf(types, 'host-driver/index.ts'))
    .filter(({ slots }) => slots.some(takes))
    .map(({ name }) => name)
  expect(names).toContain('Region.persist')
  const rows = ROWS.map(({ call }) => call)
  expect(names.filter((name) => !rows.includes(name) && !ELSEWHERE.test(name))).toEqual([])
})

describe('R31-1: memory that is used again at once stores what it held at the call', () => {
  for (const row of ROWS) {
    const { call, note, ways = WAYS, length = BYTES } = row
    for (const way of ways) {
      test(`${call}${note === undefined ? '' : `, ${note}`}, ${way}`, async () => {
        const b = await bench(way)
        for (const form of Object.values(FORMS)) await again(row, b, form(length))
      })
    }
  }
})

test('R31-1: an attachment has the key that it was given at the call', () => {
  const [key, body] = [filled(32, 8), new Uint8Array(mad.MAD_BODY_BYTES)]
  const kept = keptAttachment({ name: 'far', address: '10.0.0.3', cardKey: key })
  key.fill(LATER)
  fillAttachment(body, kept)
  expect(body.slice(mad.ATTACH_KEY, mad.ATTACH_KEY + 32)).toEqual(filled(32, 8))
})

for (const [name, form] of Object.entries(FORMS)) {
  describe(`R31-1: ${name}`, () => {
    test.each(WAYS)('the records of a batch, %s', async (way) => {
      const { region } = await bench(way)
      const batch = region.batch()
      const given = form(BYTES)
      for (let i = 0; i < COUNT; i++) batch.persist(i, given.fill(i + 1))
      given.fill(LATER)
      expect((await batch.commit()).all).toBe(true)
      for (let i = 0; i < COUNT; i++) {
        expect((await region.read(i)).data).toEqual(filled(BYTES, i))
      }
    })

    test.each(WAYS)('plain bytes of a batch, %s', async (way) => {
      const { dpu, region } = await bench(way)
      const shape = { name: 'kept', length: COUNT * BYTES, writePersist: true }
      const kept = await dpu.provisionBytes(shape)
      const batch = region.batch()
      const given = form(BYTES)
      for (let i = 0; i < COUNT; i++) batch.write(kept, i * BYTES, given.fill(i + 1))
      given.fill(LATER)
      expect((await batch.commit()).all).toBe(true)
      for (let i = 0; i < COUNT; i++) {
        expect(await kept.read(i * BYTES, BYTES)).toEqual(filled(BYTES, i))
      }
    })

    test('plain memory of a target, on one queue pair', async () => {
      const { memory, clock } = verbsBench()
      ends.push(() => clock.stop())
      const [given, word] = [form(300), form(8)]
      const done: Promise<unknown>[] = []
      for (let i = 0; i < TARGET_COUNT; i++) {
        done.push(memory.write(512 * i, given.fill(i + 1)))
        done.push(memory.atomicWrite(512 * i + 504, word.fill(i + 1)))
      }
      given.fill(LATER)
      word.fill(LATER)
      await Promise.all(done)
      for (let i = 0; i < TARGET_COUNT; i++) {
        expect(await memory.read(512 * i, 300)).toEqual(filled(300, i))
        expect(await memory.read(512 * i + 504, 8)).toEqual(filled(8, i))
      }
    })

    test('the key of a dual write, and of a dual read', async () => {
      const b = await bench('frames')
      const key = form(16).fill(1)
      const bytes = filled(BYTES, 4)
      const writing = dualWrite({ ...pairOf(b, 0), key, bytes })
      key.fill(LATER)
      await writing
      expect((await dualRead(pairOf(b, 0))).record.data).toEqual(bytes)
      const reading = dualRead({ ...pairOf(b, 0), key: key.fill(1) })
      key.fill(LATER)
      expect((await reading).record.data).toEqual(bytes)
    })

    test('the id of a part', async () => {
      const way = await openWay('frames')
      ends.push(() => way.close())
      const id = form(16).fill(0x5a)
      const formatting = way.dpu.format(id)
      id.fill(LATER)
      expect((await formatting).deviceId).toBe('5a'.repeat(16))
      // Its answer may get lost: then the id says whose work was found.
      const again = way.dpu.format(id.fill(0x5a))
      id.fill(LATER)
      expect((await again).deviceId).toBe('5a'.repeat(16))
    })

    test.each(WAYS)('memory of the verbs, filled and sent INLINE, %s', async (way) => {
      const { dpu, log } = await bench(way)
      const pd = dpu.verbs.allocPd()
      const [mr, cq] = [await pd.regMr(4096), await dpu.verbs.createCq(2 * COUNT)]
      const qp = await pd.createQp({ sendCq: cq, recvCq: cq, sendDepth: COUNT })
      await dpu.verbs.connect(qp)
      const given = form(BYTES)
      const { rkey, base } = log.info
      const sge = { ...mr.sge(0, BYTES) }
      const request = { wrId: 0n, opcode: 'RDMA_WRITE' as const, flags: INLINE | SIGNALED, rkey }
      const list = [{ ...request, sgList: [sge], remoteAddr: 0n }]
      for (let i = 0; i < COUNT; i++) {
        mr.fill(0, given.fill(i + 1))
        Object.assign(list[0]!, { wrId: BigInt(i), remoteAddr: base + BigInt(i * BYTES) })
        qp.postSend(list)
        given.fill(LATER)
      }
      // Nor is a request looked at again that was posted.
      Object.assign(list[0]!, { wrId: 999n, opcode: 'SEND', remoteAddr: 0n })
      Object.assign(sge, { addr: 0, lkey: 0, length: 1 })
      await log.read(0, 1)
      const polled = cq.poll(COUNT)
      while (polled.length < COUNT) {
        await log.read(0, 1)
        polled.push(...cq.poll(COUNT))
      }
      expect(polled.map(({ wrId, status }) => `${wrId} ${status}`)).toEqual(
        Array.from({ length: COUNT }, (_, i) => `${i} SUCCESS`),
      )
      for (let i = 0; i < COUNT; i++) {
        expect(await log.read(i * BYTES, BYTES)).toEqual(filled(BYTES, i))
      }
    })

    test('the own queues of a card: in the element, in a buffer, and datagrams', async () => {
      const rig = await PcieRig.open()
      ends.push(() => rig.close())
      const { rkey } = await rig.provision(16, 1024)
      const pair = await rig.localPair()
      const record: QueueElement = { kind: WRITE_PERSIST, rkey, wait: 2 }
      for (const [from, length] of [
        [0, 8],
        [8, 1000],
      ] as const) {
        const given = form(length)
        const done = Array.from({ length: 8 }, (_, i) => {
          const [slot, operation] = [from + i, BigInt(from + i + 1)]
          const data = given.fill(slot + 1)
          return complete(pair, { ...record, address: BigInt(slot) << 32n, operation, data })
        })
        given.fill(LATER)
        for (const { status } of await Promise.all(done)) expect(status).toBe('SUCCESS')
        const buffer = rig.device.alloc(2048)
        for (let slot = from; slot < from + 8; slot++) {
          buffer.store(new Uint8Array(2048))
          const read: QueueElement = {
            kind: READ,
            rkey,
            data: [buffer.range(pair.lkey, 0, 64 + length)],
          }
          await complete(pair, { ...read, address: (BigInt(slot) << 32n) | (1n << 28n) })
          expect(buffer.load(64, length)).toEqual(filled(length, slot))
        }
        buffer.store(given.fill(3))
        given.fill(LATER)
        expect(buffer.load(0, length)).toEqual(filled(length, 2))
      }
    })

    test('datagrams that wait for their turn', async () => {
      const rig = await PcieRig.open({ managementUnits: 8 })
      ends.push(() => rig.close())
      const heard: number[] = []
      rig.device.onDatagram.add((bytes, at) => {
        const answer = mad.blankMad()
        mad.readMad(answer, bytes, at)
        if (answer.transactionHigh === 77) heard.push(answer.transactionLow)
      })
      const given = form(mad.MAD_BYTES)
      for (let i = 0; i < COUNT; i++) {
        const { METHOD_GET: method, ATTRIBUTE_STATUS: attribute } = mad
        const call = { ...mad.blankMad(), method, attribute, transactionHigh: 77 }
        mad.writeMad(given, 0, { ...call, transactionLow: i })
        rig.device.sendDatagram(given)
        given.fill(LATER)
      }
      await rig.pass(50_000)
      expect(heard).toEqual(Array.from({ length: COUNT }, (_, i) => i))
    })

    test('an image of a slot: the record that was read stays', () => {
      const shape = { id: 3, capacity: BYTES, key: filled(16, 1) }
      const record = { data: filled(BYTES, 7), sequence: 1n, clientId: 2n, operationId: 3n }
      const image = writeSlotImage(record, shape, 5)
      const given = form(image.length)
      given.set(image)
      const read = readSlotImage(given, { ...shape, key: form(16).fill(2) }, 5)
      given.fill(LATER)
      expect(read.record).toEqual(record)
    })

    test('a wire of one’s own that has one piece of memory for all frames', async () => {
      const way = await openWay('frames')
      ends.push(() => way.close())
      const wire = way.room.addHost()
      const dpu = await connect(inOnePiece(wire, form(9000)), {
        peer: endpointOf(2),
        pathMtu: 256,
        seed: 8,
      })
      ends.push(() => dpu.close())
      await dpu.format(filled(16, 1))
      const region = await dpu.provision({ name: 'r', slots: 4, capacity: 6000 })
      await region.persist(1, filled(6000, 1)).persisted
      expect((await region.read(1)).data).toEqual(filled(6000, 1))
      await dpu.send(filled(1000, 2), { solicited: true })
      expect((await dpu.messages.next()).bytes).toEqual(filled(1000, 2))
      expect(await dpu.regions()).toMatchObject([{ name: 'r', slots: 4 }])
    })
  })
}

/** Hands every frame over in the same memory, and overwrites it when the driver has seen it. */
function inOnePiece(wire: Wire, memory: Uint8Array): Wire {
  return {
    ...{ send: (frame) => wire.send(frame), now: () => wire.now(), close: () => wire.close() },
    setTimer: (atUs, callback) => wire.setTimer(atUs, callback),
    onFrame: (callback) => {
      wire.onFrame((frame) => {
        memory.set(frame)
        callback(memory.subarray(0, frame.length))
        memory.fill(LATER)
      })
    },
  }
}
