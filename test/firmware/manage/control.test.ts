/**
 * The control call: every attribute, every refusal, every request twice, and requests that no
 * driver of ours would send (wire/management.ts).
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { QUEUE_PAIRS, REGIONS } from '../../../firmware/board/limits.ts'
import { DATA_AT, FORMAT_VERSION } from '../../../firmware/medium/superblock.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_SEND_ONLY, UD_SEND_ONLY, UD_SEND_ONLY_IMM } from '../../../firmware/wire/opcode.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type RegionShape,
  readFrame,
  TestCard,
} from '../../support/cards/test-card.ts'
import { PLACES_ALONE } from '../../support/peers/strangers.ts'
import { type FrameParts, frameOf, hexOf } from '../../support/wire/frames.ts'
import { contentOf, firstDifference, PATH_MTUS, slotOffset } from '../../support/wire/requests.ts'

const { METHOD_GET, METHOD_SET } = mad
const SEED = Number(process.env.SEED ?? 1)

function formatted(bytes = 1 << 18): TestCard {
  return new TestCard(bytes).format()
}

/** The frame of a control call, any part of it as the test wants it. */
function request(
  method: number,
  attribute: number,
  fill: (body: Uint8Array) => void = () => {},
  more: { modifier?: number; parts?: Partial<FrameParts>; transaction?: number } = {},
): Uint8Array {
  const payload = new Uint8Array(mad.MAD_BYTES)
  mad.writeMad(payload, 0, {
    ...mad.blankMad(),
    method,
    attribute,
    modifier: more.modifier ?? 0,
    transactionHigh: 0xabcdef01,
    transactionLow: more.transaction ?? 0x23456789,
  })
  fill(payload.subarray(mad.MAD_BODY))
  return frameOf({
    bth: { opcode: UD_SEND_ONLY, destQp: 1 },
    deth: { qkey: Q_KEY_GSI, sourceQp: 0x4321 },
    payload,
    ...more.parts,
  })
}

function named(name: string): (body: Uint8Array) => void {
  return (body) => body.set(new TextEncoder().encode(name), mad.REGION_NAME)
}

/** A card with one record that is lost: both copies are unreadable, and a scan has found it. */
function cardWithLoss(): { card: TestCard; id: number } {
  const card = formatted()
  const region = card.provision()
  for (const copy of [0, 1]) card.nvdimm.poison(slotOffset(region, copy, 3) / 64)
  card.scan(region.id)
  return { card, id: region.id }
}

test('clients that died without a word do not keep others out permanently', () => {
  const card = formatted()
  const region = card.provision()
  const pairs = Array.from({ length: PLACES_ALONE }, () => card.connect())
  for (const qp of pairs) card.serve(...persistFrames(qp, region, 0, dataOf(8, 1)))
  expect(() => card.connect()).toThrow('QUEUE_PAIRS_FULL')
  card.now += 50e6
  const [silent, ...others] = pairs
  for (const qp of others) card.serve(...persistFrames(qp, region, 0, dataOf(8, 2)))
  card.now += 11e6
  const fresh = card.connect()
  expect(fresh.number & 0xff).toBe(silent!.number & 0xff)
  for (const qp of [fresh, ...others]) {
    expect(persistAcks(card.serve(...persistFrames(qp, region, 0, dataOf(8, 3)))).length).toBe(1)
  }
  expect(() => card.connect()).toThrow('QUEUE_PAIRS_FULL')
})

describe('the datagram', () => {
  test('an answer has transaction, attribute and modifier of its request', () => {
    const card = formatted()
    const [answer] = card.serve(
      request(METHOD_GET, mad.ATTRIBUTE_COUNTERS, undefined, { modifier: 5 }),
    )
    const header = mad.blankMad()
    mad.readMad(header, answer!.payload, 0)
    expect(header).toEqual({
      method: mad.METHOD_RESPONSE,
      status: mad.STATUS_OK,
      transactionHigh: 0xabcdef01,
      transactionLow: 0x23456789,
      attribute: mad.ATTRIBUTE_COUNTERS,
      modifier: 5,
      fault: 0,
    })
    expect(answer!.packet.destQp).toBe(0x4321)
    expect(answer!.payload.length).toBe(mad.MAD_BYTES)
    expect(mad.madFault(answer!.payload, 0, mad.MAD_BYTES)).toBe(0)
  })

  test('a refusal says so, and why', () => {
    const card = formatted()
    const [answer] = card.serve(request(METHOD_GET, mad.ATTRIBUTE_OPEN, named('nothing')))
    const header = mad.blankMad()
    mad.readMad(header, answer!.payload, 0)
    expect(header.status).toBe(mad.STATUS_REFUSED)
    expect(FAULTS[header.fault]!.name).toBe('NO_REGION')
  })

  const status = [METHOD_GET, mad.ATTRIBUTE_STATUS] as const

  test.each<[string, Uint8Array]>([
    ['another Q_Key', request(...status, undefined, { parts: { deth: { qkey: 1, sourceQp: 1 } } })],
    ['no Q_Key', request(...status, undefined, { parts: { deth: { qkey: 0, sourceQp: 1 } } })],
    [
      'an immediate',
      request(...status, undefined, { parts: { bth: { opcode: UD_SEND_ONLY_IMM, destQp: 1 } } }),
    ],
    [
      'a reliable SEND',
      request(...status, undefined, { parts: { bth: { opcode: RC_SEND_ONLY, destQp: 1 } } }),
    ],
    ['255 bytes', request(...status, undefined, { parts: { payload: new Uint8Array(255) } })],
    ['260 bytes', request(...status, undefined, { parts: { payload: new Uint8Array(260) } })],
    ['no bytes', request(...status, undefined, { parts: { payload: new Uint8Array(0) } })],
    ['zeros', request(...status, undefined, { parts: { payload: new Uint8Array(256) } })],
  ])('a datagram with %s is dropped and counted', (_, frame) => {
    const card = formatted()
    expect(card.serve(frame)).toEqual([])
    expect(card.counter('MANAGEMENT_FORM')).toBe(1)
  })

  test.each([
    ['base version', mad.MAD_BASE_VERSION],
    ['class', mad.MAD_CLASS],
    ['class version', mad.MAD_CLASS_VERSION],
    ['magic', mad.MAD_MAGIC + 3],
    ['version', mad.MAD_VERSION],
  ])('a datagram of another %s is dropped and counted', (_, at) => {
    const card = formatted()
    const frame = request(...status, (body) => {
      const payload = new Uint8Array(body.buffer)
      // The version behind ours is that of what is sealed (session/).
      payload[at] = payload[at]! + 2
    })
    expect(card.serve(frame)).toEqual([])
    expect(card.counter('MANAGEMENT_FORM')).toBe(1)
  })

  test('32 datagrams in one burst are all answered, in their order', () => {
    const card = formatted()
    const frames = Array.from({ length: 32 }, (_, i) =>
      request(METHOD_GET, mad.ATTRIBUTE_STATUS, undefined, { transaction: i }),
    )
    const order = card.serve(...frames).map(({ payload }) => u32(payload, mad.MAD_TRANSACTION_LOW))
    expect(order).toEqual(frames.map((_, i) => i))
  })

  test('every attribute is refused with the wrong method, and every number that is none', () => {
    const card = formatted()
    const attributes = Object.entries(mad).filter(([name]) => name.startsWith('ATTRIBUTE_'))
    expect(attributes.length, 'a new attribute: is it a GET, below?').toBe(45)
    const numbers = attributes.map(([, value]) => value as number)
    for (const attribute of [...numbers, 0, 1, 0x16, 0x7fff, 0xffff]) {
      // A response is nobody's question: queue-gsi.test.ts.
      for (const method of [0, 1, 2, 3, 0x80, 0x82, 0xff]) {
        const get = [0x10, 0x13, 0x14, 0x30, 0x31, 0x34, 0x60, 0x61, 0x75, 0x81].includes(attribute)
        const right = numbers.includes(attribute) && method === (get ? METHOD_GET : METHOD_SET)
        const { fault } = card.manage(method, attribute, named('none'))
        if (!right) expect(fault, `${method} ${attribute}`).toBe('REQUEST')
      }
    }
  })
})

describe('the part', () => {
  test('a blank part says so, and takes FORMAT and nothing else', () => {
    const card = new TestCard()
    const before = contentOf(card)
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_BLANK)
    expect(FAULTS[card.status()[mad.PART_FAULT]!]!.name).toBe('BLANK')
    for (const [method, attribute] of [
      [METHOD_SET, mad.ATTRIBUTE_PROVISION],
      [METHOD_GET, mad.ATTRIBUTE_OPEN],
      [METHOD_GET, mad.ATTRIBUTE_REGION],
      [METHOD_SET, mad.ATTRIBUTE_CONNECT],
      [METHOD_SET, mad.ATTRIBUTE_DISCONNECT],
      [METHOD_GET, mad.ATTRIBUTE_REPORT],
      [METHOD_SET, mad.ATTRIBUTE_SCAN],
      [METHOD_SET, mad.ATTRIBUTE_SETTLE],
    ] as const) {
      expect(card.manage(method, attribute).fault).toBe('NOT_SERVING')
    }
    expect(firstDifference(contentOf(card), before)).toBe(-1)
    card.format()
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
  })

  test('FORMAT gives the device the id that is asked for, or one of its own', () => {
    const own = [
      new TestCard().format(),
      new TestCard(1 << 18, { facts: { entropy: [9, 8, 7, 6, 5, 4, 3, 2] } }).format(),
    ]
    const ids = own.map((card) => hexOf(card.status().slice(mad.PART_DEVICE_ID, 24)))
    expect(ids[0]).not.toBe(ids[1])
    const card = new TestCard()
    const id = dataOf(16, 1)
    const fill = (body: Uint8Array): void => body.set(id)
    const first = card.must(METHOD_SET, mad.ATTRIBUTE_FORMAT, fill)
    expect(hexOf(first.slice(mad.PART_DEVICE_ID, 24))).toBe(hexOf(id))
    const again = card.must(METHOD_SET, mad.ATTRIBUTE_FORMAT, fill)
    expect(hexOf(again)).toBe(hexOf(first))
  })

  test('FORMAT of a part that holds something is refused, and changes nothing', () => {
    const card = formatted()
    card.provision()
    const before = contentOf(card)
    for (const id of [new Uint8Array(16), dataOf(16, 5)]) {
      expect(card.manage(METHOD_SET, mad.ATTRIBUTE_FORMAT, (body) => body.set(id)).fault).toBe(
        'FORMATTED',
      )
    }
    expect(firstDifference(contentOf(card), before)).toBe(-1)
  })

  test('a foreign part is refused, answers STATUS and COUNTERS, and is never formatted', () => {
    const content = new Uint8Array(1 << 16).fill(0x55)
    const card = new TestCard(new Nvdimm({ bytes: content.length, content }))
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
    expect(card.manage(METHOD_SET, mad.ATTRIBUTE_FORMAT).fault).toBe('FOREIGN')
    expect(card.manage(METHOD_GET, mad.ATTRIBUTE_OPEN, named('x')).fault).toBe('NOT_SERVING')
    expect(card.counter('FOREIGN')).toBe(1)
    expect(firstDifference(contentOf(card), content)).toBe(-1)
  })

  test('STATUS tells what is known of the part', () => {
    const card = formatted(1 << 19)
    card.provision()
    card.provision({ name: 'two' })
    card.nvdimm.failSave()
    const body = card.status()
    expect(body[mad.PART_HEALTH]).toBe(3)
    expect(body[mad.PART_REGIONS]).toBe(2)
    expect(u32(body, mad.PART_INCARNATION)).toBe(1)
    expect(u32(body, mad.PART_NVDIMM_BYTES_LOW)).toBe(1 << 19)
    expect(u32(body, mad.PART_PATH_MTU)).toBe(4096)
    expect(u32(body, mad.PART_FORMAT_VERSION)).toBe(FORMAT_VERSION)
    const again = new TestCard(card.nvdimm)
    expect(u32(again.status(), mad.PART_INCARNATION)).toBe(2)
  })

  test('a part that is not armed at the start is not served, written or formatted', () => {
    const nvdimm = new Nvdimm({ bytes: 1 << 16 })
    nvdimm.armed = false
    const card = new TestCard(nvdimm)
    expect(card.manage(METHOD_SET, mad.ATTRIBUTE_FORMAT).fault).toBe('NOT_ARMED')
    expect(FAULTS[card.status()[mad.PART_FAULT]!]!.name).toBe('NOT_ARMED')
    expect(firstDifference(contentOf(card), new Uint8Array(1 << 16))).toBe(-1)
  })
})

describe('regions', () => {
  test('PROVISION, OPEN and REGION tell the same of a region, and again the same', () => {
    const card = formatted()
    card.connect()
    const shape = { name: 'one', slots: 5, capacity: 200, copies: 3, domain: 7, flags: 1 }
    const { body } = card.tryProvision(shape)
    const fields = [
      [u32(body, mad.REGION_SLOTS), 5],
      [u32(body, mad.REGION_CAPACITY), 200],
      [body[mad.REGION_COPIES], 3],
      [body[mad.REGION_KIND], mad.KIND_RECORDS],
      [
        u16(body, mad.REGION_FLAGS),
        mad.REGION_FIXED_LENGTH | mad.REGION_TAKES_GUARDS | mad.REGION_JOINS_BATCHES,
      ],
      [u16(body, mad.REGION_DOMAIN), 7],
      [u32(body, mad.REGION_ID), 1],
      [u32(body, mad.REGION_STRIDE), 64 + 256],
      [u32(body, mad.REGION_UNSETTLED), 0],
      [body[mad.REGION_READ_ONLY], 0],
    ]
    for (const [is, shall] of fields) expect(is).toBe(shall)
    const opened = card.must(METHOD_GET, mad.ATTRIBUTE_OPEN, named('one'))
    const indexed = card.must(METHOD_GET, mad.ATTRIBUTE_REGION, undefined, 0)
    for (const other of [opened, indexed, card.tryProvision(shape).body]) {
      expect(hexOf(other)).toBe(hexOf(body))
    }
    expect(card.status()[mad.PART_REGIONS]).toBe(1)
  })

  test('a region of that name with another shape is refused as such', () => {
    const card = formatted()
    const shape: RegionShape = { name: 'one', slots: 5, capacity: 200, copies: 2 }
    card.provision(shape)
    const before = contentOf(card)
    const others: RegionShape[] = [
      { ...shape, slots: 6 },
      { ...shape, capacity: 201 },
      { ...shape, copies: 3 },
      { ...shape, flags: 1 },
      { ...shape, domain: 1 },
      { ...shape, kind: mad.KIND_BYTES, length: 4096 },
    ]
    for (const other of others) expect(card.tryProvision(other).fault).toBe('REGION_EXISTS')
    expect(firstDifference(contentOf(card), before)).toBe(-1)
  })

  test('a shape that there cannot be is refused, and nothing is written', () => {
    const card = formatted()
    const before = contentOf(card)
    const shapes: RegionShape[] = [
      { name: '' },
      { slots: 0 },
      { slots: 2 ** 31 },
      { slots: 2 ** 32 - 1 },
      { capacity: 0 },
      { capacity: 65537 },
      { capacity: 2 ** 32 - 1 },
      { copies: 0 },
      { copies: 1 },
      { copies: 5 },
      { copies: 255 },
      { kind: 2 },
      { kind: 255 },
      { flags: 2 },
      { flags: 0xffff },
      { kind: mad.KIND_BYTES, length: 0 },
    ]
    for (const shape of shapes) {
      expect(card.tryProvision(shape).fault, JSON.stringify(shape)).toBe('REQUEST')
    }
    expect(firstDifference(contentOf(card), before)).toBe(-1)
  })

  test('a region may be asked for by the byte; it has whole pages', () => {
    const shape = { kind: mad.KIND_BYTES, length: 1 }
    expect(formatted().tryProvision(shape).fault).toBe('PASS')
  })

  test('more than there is room for is refused, to the byte', () => {
    const room = (1 << 18) - DATA_AT
    const slots = 32 * Math.floor(room / 4096 / 2)
    for (const [shape, fits] of [
      [{ kind: mad.KIND_BYTES, length: room }, true],
      [{ kind: mad.KIND_BYTES, length: room + 1 }, false],
      [{ slots: 2 ** 31 - 1, capacity: 65536, copies: 4 }, false],
      [{ slots, capacity: 64 }, true],
      [{ slots: slots + 1, capacity: 64 }, false],
    ] as const) {
      const card = formatted()
      // What takes longer than a slice is under way.
      const { fault } = card.tryProvision(shape)
      expect(fault === 'UNDER_WAY' ? 'PASS' : fault).toBe(fits ? 'PASS' : 'NO_SPACE')
    }
    const card = formatted()
    for (const [high, low] of [
      [1, 0],
      [0xffff, 0xffffffff],
      [0x8000, 0],
    ] as const) {
      const { fault } = card.manage(METHOD_SET, mad.ATTRIBUTE_PROVISION, (body) => {
        named('big')(body)
        body[mad.REGION_KIND] = mad.KIND_BYTES
        putU32(body, mad.REGION_LENGTH_HIGH, high)
        putU32(body, mad.REGION_LENGTH_LOW, low)
      })
      expect(['NO_SPACE', 'REQUEST']).toContain(fault)
    }
    expect(card.tryProvision({ name: 'small' }).fault).toBe('PASS')
  })

  test('the region table takes as many as it has places; all are there after a reboot', () => {
    const card = formatted(1 << 19)
    for (let i = 0; i < REGIONS; i++) card.provision({ name: `r${i}`, slots: 1 })
    expect(card.tryProvision({ name: 'more', slots: 1 }).fault).toBe('REGIONS_FULL')
    expect(card.tryProvision({ name: 'r5', slots: 1 }).fault).toBe('PASS')
    const again = new TestCard(card.nvdimm)
    for (let i = 0; i < REGIONS; i++) {
      const body = again.must(METHOD_GET, mad.ATTRIBUTE_REGION, undefined, i)
      expect(hexOf(body.slice(0, 3))).toBe(hexOf(new TextEncoder().encode(`r${i}\0`)).slice(0, 6))
    }
    for (const modifier of [REGIONS, REGIONS + 1, 2 ** 31, 2 ** 32 - 1]) {
      expect(again.manage(METHOD_GET, mad.ATTRIBUTE_REGION, undefined, modifier).fault).toBe(
        'NO_REGION',
      )
    }
  })

  test('a name has up to 32 bytes of any value', () => {
    const card = formatted()
    const long = 'x'.repeat(32)
    expect(card.provision({ name: long }).id).toBe(1)
    expect(card.tryProvision({ name: 'x'.repeat(31), slots: 1 }).fault).toBe('PASS')
    expect(card.provision({ name: 'Größe Ω', slots: 2 }).id).toBe(3)
    const again = new TestCard(card.nvdimm)
    expect(again.open('Größe Ω').slots).toBe(2)
    expect(again.manage(METHOD_GET, mad.ATTRIBUTE_OPEN, named('x')).fault).toBe('NO_REGION')
  })

  test('a region that the medium did not take is not there, and its room is free again', () => {
    const card = formatted()
    card.provision({ name: 'first' })
    card.nvdimm.refuseWrites((DATA_AT + 2 * 4096) / 64)
    expect(card.tryProvision({ name: 'second' }).fault).toBe('MEDIA')
    expect(card.manage(METHOD_GET, mad.ATTRIBUTE_OPEN, named('second')).fault).toBe('NO_REGION')
    card.nvdimm.refuseWrites((DATA_AT + 2 * 4096) / 64, false)
    expect(card.provision({ name: 'third' }).id).toBe(2)
  })
})

describe('connections', () => {
  function connect(
    card: TestCard,
    peer: number,
    client: number,
    mtu: number,
  ): { fault: string; body: Uint8Array } {
    return card.manage(METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
      putU32(body, mad.CONNECT_CLIENT_QP, peer)
      putU16(body, mad.CONNECT_PATH_MTU, mtu)
      putU32(body, mad.CONNECT_CLIENT_ID_LOW, client)
    })
  }

  test('CONNECT again by the same client is answered with the same queue pair', () => {
    const card = formatted()
    const first = connect(card, 0x100, 7, 1024)
    expect(hexOf(connect(card, 0x100, 7, 1024).body)).toBe(hexOf(first.body))
    const other = connect(card, 0x100, 8, 1024)
    expect(u32(other.body, mad.CONNECT_QP)).not.toBe(u32(first.body, mad.CONNECT_QP))
  })

  test('the path MTU is one that there is, and none that the port does not carry', () => {
    for (const mtu of PATH_MTUS) {
      const card = formatted()
      expect(u16(connect(card, 0x100, 7, mtu).body, mad.CONNECT_GRANTED_MTU)).toBe(mtu)
      const narrow = new TestCard(1 << 18, { facts: { pathMtu: 1024 } }).format()
      const granted = u16(connect(narrow, 0x100, 7, mtu).body, mad.CONNECT_GRANTED_MTU)
      expect(granted).toBe(Math.min(mtu, 1024))
    }
    const card = formatted()
    for (const mtu of [0, 1, 128, 255, 257, 1000, 4095, 8192, 0xffff]) {
      expect(connect(card, 0x100, 7, mtu).fault).toBe('REQUEST')
    }
  })

  test('a client’s queue pair number is one of 24 bits, and not one of management', () => {
    const card = formatted()
    for (const peer of [0, 1, 2 ** 24, 2 ** 32 - 1]) {
      expect(connect(card, peer, 7, 1024).fault).toBe('REQUEST')
    }
    for (const peer of [2, 2 ** 24 - 1]) expect(connect(card, peer, 7, 1024).fault).toBe('PASS')
  })

  /** A READ of nothing: the queue pair is in use from then on. */
  function useOnce(card: TestCard, body: Uint8Array): void {
    const number = u32(body, mad.CONNECT_QP)
    const psn = u32(body, mad.CONNECT_FIRST_PSN)
    const qp = { number, peer: 0, mtu: 256, psn, operation: 0 }
    expect(card.serve(readFrame(qp, 0, 0, 0, 0))).toHaveLength(1)
  }

  test('a flood of connections that do nothing keeps nobody out, and ends nobody in use', () => {
    const card = formatted()
    const { body } = connect(card, 0x1000, 1, 256)
    useOnce(card, body)
    for (let i = 1; i <= 2 * QUEUE_PAIRS; i++) {
      expect(connect(card, 0x1000 + i, 1, 256).fault).toBe('PASS')
    }
    const again = connect(card, 0x1000, 1, 256).body
    expect(u32(again, mad.CONNECT_QP)).toBe(u32(body, mad.CONNECT_QP))
  })

  test('a client has its share of queue pairs, and one that is closed frees its place', () => {
    const card = formatted()
    const numbers: number[] = []
    for (let i = 0; i < PLACES_ALONE; i++) {
      const { body } = connect(card, 0x1000 + i, 1, 256)
      numbers.push(u32(body, mad.CONNECT_QP))
      useOnce(card, body)
    }
    expect(new Set(numbers).size).toBe(PLACES_ALONE)
    expect(connect(card, 0x9999, 1, 256).fault).toBe('QUEUE_PAIRS_FULL')
    expect(card.counter('QUEUE_PAIRS_FULL')).toBe(1)
    const close = (peer: number): string =>
      card.manage(METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
        putU32(body, mad.DISCONNECT_QP, numbers[77]!)
        putU32(body, mad.DISCONNECT_CLIENT_QP, peer)
      }).fault
    // Nobody closes what is not his, and closing twice is closing.
    expect(close(0x1000)).toBe('PASS')
    expect(connect(card, 0x9999, 1, 256).fault).toBe('QUEUE_PAIRS_FULL')
    expect([close(0x1000 + 77), close(0x1000 + 77)]).toEqual(['PASS', 'PASS'])
    expect(connect(card, 0x9999, 1, 256).fault).toBe('PASS')
  })

  test('N9, N11: packets of the last power-on find no queue pair in this one', () => {
    const card = formatted()
    const region = card.provision()
    const old = card.connect()
    const frames = [0, 1].flatMap((slot) => persistFrames(old, region, slot, dataOf(8, slot)))
    card.serve(...frames)
    const again = new TestCard(card.nvdimm, { facts: { entropy: [8, 7, 6, 5, 4, 3, 2, 1] } })
    again.connect()
    const before = contentOf(again)
    expect(again.serve(...frames)).toEqual([])
    expect(again.counter('UNKNOWN_QP')).toBe(2)
    expect(firstDifference(contentOf(again), before)).toBe(-1)
  })
})

describe('report, counters, scan, settle', () => {
  test('a fault has no code where its answer carries none', () => {
    const carry = ['nak', 'status', 'reject']
    const others = FAULTS.filter(({ answer }) => !carry.includes(answer))
    expect(others.filter(({ code }) => code !== 0)).toEqual([])
  })

  test('COUNTERS tells how often each fault was met, page by page', () => {
    const card = formatted()
    card.serve(new Uint8Array(3), new Uint8Array(3), new Uint8Array(3))
    expect(card.counter('FRAME_SHORT')).toBe(3)
    let seen = 0
    for (let first = 0; first < FAULTS.length; first += mad.COUNTERS_PER_MAD) {
      const body = card.must(METHOD_GET, mad.ATTRIBUTE_COUNTERS, undefined, first)
      expect(u32(body, mad.COUNTERS_TOTAL)).toBe(FAULTS.length)
      seen += u32(body, mad.COUNTERS_HERE)
    }
    expect(seen).toBe(FAULTS.length)
    for (const first of [FAULTS.length, 2 ** 31, 2 ** 32 - 1]) {
      const body = card.must(METHOD_GET, mad.ATTRIBUTE_COUNTERS, undefined, first)
      expect(u32(body, mad.COUNTERS_HERE)).toBe(0)
    }
  })

  test('D-14: REPORT has a line for a record that was found lost, and none beyond its end', () => {
    const { card, id } = cardWithLoss()
    const body = card.must(METHOD_GET, mad.ATTRIBUTE_REPORT)
    expect([u32(body, mad.REPORT_TOTAL), u32(body, mad.REPORT_HERE)]).toEqual([1, 1])
    const at = mad.REPORT_FIRST
    expect(u16(body, at + mad.ENTRY_REGION)).toBe(id)
    expect(u32(body, at + mad.ENTRY_RECORD)).toBe(3)
    expect(body[at + mad.ENTRY_LANE]).toBe(mad.LANE_SCAN)
    expect(body[at + mad.ENTRY_VALID]).toBe(0)
    for (const first of [1, 100, 2 ** 31, 2 ** 32 - 1]) {
      const page = card.must(METHOD_GET, mad.ATTRIBUTE_REPORT, undefined, first)
      expect(u32(page, mad.REPORT_HERE)).toBe(0)
    }
  })

  test('SCAN goes through a region in steps, and again alike', () => {
    const card = formatted(1 << 19)
    const region = card.provision({ slots: 600 })
    for (let round = 0; round < 2; round++) {
      const steps: number[] = []
      for (let next = 0; next < 600; ) {
        const body = card.scan(region.id, next)
        steps.push(u32(body, mad.SCAN_CHECKED))
        next = u32(body, mad.SCAN_NEXT)
      }
      expect(steps.reduce((sum, step) => sum + step, 0)).toBe(600)
      expect(Math.max(...steps)).toBeLessThanOrEqual(256)
    }
  })

  test('SCAN and SETTLE refuse a region or a record that there is not', () => {
    const card = formatted()
    const region = card.provision()
    const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const ask = (attribute: number, id: number, record: number, decision = 1): string =>
      card.manage(METHOD_SET, attribute, (body) => {
        putU32(body, mad.SCAN_REGION, id)
        putU32(body, mad.SCAN_RECORD, record)
        if (attribute === mad.ATTRIBUTE_SETTLE) body[mad.SETTLE_DECISION] = decision
      }).fault
    for (const attribute of [mad.ATTRIBUTE_SCAN, mad.ATTRIBUTE_SETTLE]) {
      for (const id of [0, bytes.id, 99, 2 ** 31, 2 ** 32 - 1]) {
        expect(ask(attribute, id, 0)).toBe('NO_REGION')
      }
      for (const record of [9, 2 ** 31, 2 ** 32 - 1]) {
        expect(ask(attribute, region.id, record)).toBe('REQUEST')
      }
    }
    expect(ask(mad.ATTRIBUTE_SETTLE, region.id, 8)).toBe('REQUEST')
    for (const decision of [0, 2, 255]) {
      expect(ask(mad.ATTRIBUTE_SETTLE, region.id, 1, decision)).toBe('REQUEST')
    }
  })

  function settle(card: TestCard, id: number, record: number): { fault: string; body: Uint8Array } {
    return card.manage(METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
      putU32(body, mad.SETTLE_REGION, id)
      putU32(body, mad.SETTLE_RECORD, record)
      body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
    })
  }

  test('D-14: SETTLE makes the lost record blank, and its region takes writes again', () => {
    const { card, id } = cardWithLoss()
    const refused = persistFrames(card.connect(), card.open(), 1, dataOf(8, 1))
    expect(persistAcks(card.serve(...refused))[0]!.status).toBe(0x8b)
    const { fault, body } = settle(card, id, 3)
    expect([fault, u32(body, mad.REGION_UNSETTLED), body[mad.REGION_READ_ONLY]]).toEqual([
      'PASS',
      0,
      0,
    ])
    const blank = new Uint8Array(64)
    expect(card.read(card.connect(), card.open(), 3, 0, 64)).toEqual(blank)
    const again = new TestCard(card.nvdimm)
    const [qp, region] = [again.connect(), again.open()]
    expect(again.read(qp, region, 3, 0, 64)).toEqual(blank)
    const [receipt] = persistAcks(again.serve(...persistFrames(qp, region, 3, dataOf(8, 2))))
    expect(receipt!.status).toBe(0)
  })

  test('SETTLE that comes again, late, does not take a record that was written since', () => {
    const { card, id } = cardWithLoss()
    settle(card, id, 3)
    const qp = card.connect()
    const region = card.open()
    expect(persistAcks(card.serve(...persistFrames(qp, region, 3, dataOf(64, 5))))[0]!.status).toBe(
      0,
    )
    expect(settle(card, id, 3).fault).toBe('PASS')
    expect(hexOf(card.read(qp, region, 3, 0, 64)!)).toBe(hexOf(dataOf(64, 5)))
  })
})

describe('hostile requests', () => {
  const ATTRIBUTES = Object.entries(mad)
    .filter(([name]) => name.startsWith('ATTRIBUTE_'))
    .map(([, value]) => value as number)

  test('any body of any attribute is answered, by what was asked for or by a fault', () => {
    const card = formatted()
    const region = card.provision({ slots: 4 })
    const qp = card.connect()
    card.serve(...persistFrames(qp, region, 1, dataOf(64, 1)))
    const word = fc.oneof(
      fc.constantFrom(0, 1, 2, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1),
      fc.nat({ max: 2 ** 32 - 1 }),
      fc.nat({ max: 20 }),
    )
    const body = fc.array(word, { minLength: 56, maxLength: 56 })
    fc.assert(
      fc.property(
        fc.constantFrom(...ATTRIBUTES),
        fc.constantFrom(METHOD_GET, METHOD_SET),
        body,
        word,
        fc.boolean(),
        (attribute, method, words, modifier, keepName) => {
          const { fault } = card.manage(
            method,
            attribute,
            (into) => {
              words.forEach((value, i) => {
                putU32(into, 4 * i, value)
              })
              const removes = attribute === mad.ATTRIBUTE_REMOVE
              if (keepName && !removes) into.set(new TextEncoder().encode('records\0'))
            },
            modifier,
          )
          expect(FAULTS.map((row) => row.name)).toContain(fault)
        },
      ),
      { seed: SEED, numRuns: 5000 },
    )
    // Whatever regions and connections were made, the record is there, and the part serves.
    const again = card.open()
    expect(again.rkey).toBe(region.rkey)
    expect(hexOf(card.read(qp, region, 1, 0, 64)!)).toBe(hexOf(dataOf(64, 1)))
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
  })
})
