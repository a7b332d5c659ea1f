/**
 * The depths of queues, exchanged by RDMA-CM and by CONNECT (source 3, step 201; S1-M7): what is
 * agreed with a client, what a card keeps to, and clients that tell nothing, or nonsense.
 */

import { describe, expect, test } from 'vitest'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import {
  blankCapability,
  type Depths,
  readCapability,
  readDepths,
  writeCapability,
  writeClientDepths,
} from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import { dataOf, type Sent, TestCard, type TestPeer } from '../../support/cards/test-card.ts'
import {
  CLIENT,
  messagesOf,
  publish,
  rejOf,
  repOf,
  reqFrame,
  reqOf,
} from '../../support/wire/cm.ts'
import { frameOf, hexOf } from '../../support/wire/frames.ts'
import { ACK, sendFrames } from '../../support/wire/requests.ts'

const QUEUE_DEPTH = 108
const MTU = 1024
const PSN = CLIENT.psn

/** A card that publishes a region of bytes. */
function served(form: number = mad.FORM_CAPABILITY): TestCard {
  const card = new TestCard(1 << 19).format()
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
  expect(publish(card, { form }).fault).toBe('PASS')
  return card
}

/** The user's part of the private data of a REQ: a block that tells those depths, or none. */
function userData(depths: Depths | null): Uint8Array {
  const data = new Uint8Array(cm.USER_BYTES_REQ)
  writeCapability(data, 0, { ...blankCapability(), features: 0x3f, clientLow: 5 })
  if (depths !== null) writeClientDepths(data, 0, depths)
  return data
}

function reqWith(user: Uint8Array | null): Uint8Array {
  const { privateData } = reqOf(CLIENT)
  if (user !== null) privateData.set(user, cm.IP_CM_USER)
  return reqFrame(CLIENT, { privateData })
}

function pairOf(number: number, psn: number): TestPeer {
  return { number, peer: CLIENT.qpn, mtu: MTU, psn, operation: 0 }
}

/** Connected by a REQ. */
function byReq(card: TestCard, user: Uint8Array | null): TestPeer {
  const rep = repOf(card.serve(reqWith(user)))
  return pairOf(rep.qpn, rep.startingPsn)
}

interface Connected {
  readonly fault: string
  readonly body: Uint8Array
}

/** CONNECT, by a client with those depths. */
function connect(card: TestCard, { send, receive }: Depths): Connected {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
    putU32(body, mad.CONNECT_CLIENT_QP, CLIENT.qpn)
    putU32(body, mad.CONNECT_CLIENT_PSN, PSN)
    putU16(body, mad.CONNECT_PATH_MTU, MTU)
    putU32(body, mad.CONNECT_CLIENT_ID_LOW, 5)
    putU16(body, mad.CONNECT_CLIENT_SEND_DEPTH, send)
    putU16(body, mad.CONNECT_CLIENT_RECEIVE_DEPTH, receive)
  })
}

function byConnect(card: TestCard, depths: Depths): TestPeer {
  const { body } = connect(card, depths)
  return pairOf(u32(body, mad.CONNECT_QP), u32(body, mad.CONNECT_FIRST_PSN))
}

/** Confirmations: SENDs of the card. */
function sendsOf(sent: readonly Sent[]): number[] {
  return sent.filter(({ opcode }) => opcode <= 5).map(({ psn }) => psn - PSN)
}

/**
 * The client asks `count` times to be told; what the card sends before anything is acknowledged.
 */
function asked(card: TestCard, qp: TestPeer, count: number): number[] {
  const frames = Array.from({ length: count }, (_, i) =>
    sendFrames(qp, dataOf(8, i), { solicited: true }),
  )
  return sendsOf(card.serve(...frames.flat()))
}

function acknowledge(card: TestCard, qp: TestPeer, index: number): number[] {
  const bth = { opcode: RC_ACKNOWLEDGE, destQp: qp.number, psn: PSN + index }
  const aeth = { syndrome: ACK, msn: 1 }
  return sendsOf(card.serve(frameOf({ bth, aeth, payload: new Uint8Array(0) })))
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

const WAYS = [
  ['a REQ', (card: TestCard, depths: Depths) => byReq(card, userData(depths))],
  ['CONNECT', byConnect],
] as const

describe.each(WAYS)('S1-M7: a client that tells its depths by %s', (_, connected) => {
  test.each([1, 2, 7])('S1-M7: takes %i at once: the card has no more on their way', (receive) => {
    const card = served()
    const qp = connected(card, { send: 1, receive })
    expect(asked(card, qp, 10)).toEqual(upTo(receive))
    for (let i = 0; i < 10; i++) {
      const next = i + receive
      expect(acknowledge(card, qp, i)).toEqual(next < 10 ? [next] : [])
    }
    expect(card.counter('NOT_READY')).toBe(0)
  })

  test('S1-M7: more than the card ever sends is no more than that', () => {
    const card = served()
    expect(asked(card, connected(card, { send: 0xffff, receive: 0xffff }), 20)).toEqual(upTo(20))
  })
})

describe('S1-M7: what a card tells', () => {
  test('S1-M7: stands behind the shape of the region in the REP, for who told its own', () => {
    const { privateData } = repOf(served().serve(reqWith(userData({ send: 9, receive: 9 }))))
    const block = blankCapability()
    expect(readCapability(block, privateData, 0, 196)).toBe(true)
    expect(block.features).toBe(0x1ff)
    expect(readDepths(privateData, 0, 196)).toEqual({ send: 64, receive: 32 })
    expect(hexOf(privateData.slice(68, 73))).toBe('0040002000')
  })

  test('S1-M7: stands in the answer to CONNECT, and is the same when it is asked again', () => {
    const card = served()
    const first = connect(card, { send: 9, receive: 9 })
    const { body } = first
    const told = [u16(body, mad.CONNECT_SEND_DEPTH), u16(body, mad.CONNECT_RECEIVE_DEPTH)]
    expect(told).toEqual([64, 32])
    expect(hexOf(connect(card, { send: 9, receive: 9 }).body)).toBe(hexOf(body))
  })

  test('S1-M7: CONNECT again with other depths is answered as it was, and agreed as it was', () => {
    const card = served()
    const first = connect(card, { send: 9, receive: 2 })
    const again = connect(card, { send: 9, receive: 7 })
    for (const at of [mad.CONNECT_QP, mad.CONNECT_FIRST_PSN]) {
      expect(u32(again.body, at)).toBe(u32(first.body, at))
    }
    const qp = pairOf(u32(again.body, mad.CONNECT_QP), u32(again.body, mad.CONNECT_FIRST_PSN))
    expect(asked(card, qp, 10)).toEqual(upTo(2))
  })

  test('S1-M7: a client that keeps to it finds an entry for each of its messages', () => {
    const card = served()
    const qp = byConnect(card, { send: 384, receive: 64 })
    // Of several packets each, so that an entry is taken for a while; every one asks to be told.
    for (let lap = 0; lap < 4; lap++) {
      const frames = Array.from({ length: 32 }, (_, i) => {
        return sendFrames(qp, dataOf(3000, i), { solicited: true })
      })
      for (const message of frames) card.serve(...message)
      for (let i = 0; i < 32; i++) acknowledge(card, qp, 3 * (32 * lap + i) + 2)
    }
    expect(card.counter('NOT_READY')).toBe(0)
  })
})

describe('S1-M7: a client that tells nothing is served as before', () => {
  test('S1-M7: one of ours that is older: the same REP, and no bound', () => {
    const card = served()
    const rep = repOf(card.serve(reqWith(userData(null))))
    const block = blankCapability()
    expect(readCapability(block, rep.privateData, 0, 196)).toBe(true)
    expect([block.features, rep.privateData[5]]).toEqual([255, 17])
    expect(rep.privateData.slice(68).every((byte) => byte === 0)).toBe(true)
    expect(asked(card, pairOf(rep.qpn, rep.startingPsn), 10)).toEqual(upTo(10))
  })

  test('S1-M7: CONNECT without depths: nothing is told, and there is no bound', () => {
    const card = served()
    const { body } = connect(card, { send: 0, receive: 0 })
    expect(hexOf(body.slice(mad.CONNECT_SEND_DEPTH, mad.CONNECT_RECEIVE_DEPTH + 2))).toBe(
      '00000000',
    )
    const qp = pairOf(u32(body, mad.CONNECT_QP), u32(body, mad.CONNECT_FIRST_PSN))
    expect(asked(card, qp, 10)).toEqual(upTo(10))
  })

  test.each([
    ['librpma', mad.FORM_LIBRPMA, 28],
    ['capability', mad.FORM_CAPABILITY, 68],
    ['announced', mad.FORM_ANNOUNCED, 0],
  ] as const)(
    'S1-M7: an unmodified client of Linux, at a port of the form %s',
    (_, form, bytes) => {
      const card = served(form)
      const rep = repOf(card.serve(reqWith(null)))
      expect(rep.privateData.slice(bytes).every((byte) => byte === 0)).toBe(true)
      if (form === mad.FORM_CAPABILITY) expect(rep.privateData[5]).toBe(17)
      expect(asked(card, pairOf(rep.qpn, rep.startingPsn), 10)).toEqual(upTo(10))
    },
  )
})

describe('S1-M7: nonsense', () => {
  const NONE = [
    { send: 0, receive: 1 },
    { send: 1, receive: 0 },
    { send: 0, receive: 0xffff },
    { send: 0xffff, receive: 0 },
  ]

  test.each([...NONE, { send: 0, receive: 0 }])('S1-M7: a REQ with %o is refused', (depths) => {
    const card = served()
    const sent = card.serve(reqWith(userData(depths)))
    const { reason, privateData, message } = rejOf(sent)
    expect([reason, privateData[0], message]).toEqual([28, QUEUE_DEPTH, cm.MESSAGE_REQ])
    expect(messagesOf(sent)).toHaveLength(1)
    expect(card.counter('UNSERVED_CONNECTION')).toBe(1)
    const qp = byReq(card, userData({ send: 1, receive: 1 }))
    expect(asked(card, qp, 2), 'and nothing is left of it').toEqual([0])
  })

  test.each(NONE)('S1-M7: CONNECT with %o is refused', (depths) => {
    const card = served()
    expect(connect(card, depths).fault).toBe('QUEUE_DEPTH')
    expect(card.counter('QUEUE_DEPTH')).toBe(1)
    expect(asked(card, byConnect(card, { send: 1, receive: 1 }), 2)).toEqual([0])
  })

  test('S1-M7: depths without their feature are none, whatever they are', () => {
    for (const word of [0, 1, 0x10000, 0xffffffff]) {
      const user = userData(null)
      putU32(user, 36, word)
      const card = served()
      expect(asked(card, byReq(card, user), 10)).toEqual(upTo(10))
    }
  })

  test('S1-M7: a block of another magic, version or length tells nothing', () => {
    for (const [at, values] of [
      [0, [0, 0x4f]],
      [3, [0x51]],
      [4, [0, 2, 255]],
      [5, [0, 11, 15, 17, 18, 255]],
    ] as const) {
      for (const value of values) {
        const user = userData({ send: 0, receive: 0 })
        user[at] = value
        const card = served()
        const what = `byte ${at} is ${value}`
        expect(asked(card, byReq(card, user), 10), what).toEqual(upTo(10))
      }
    }
  })
})
