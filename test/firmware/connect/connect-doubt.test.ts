/**
 * Connections that are nearly meant: a message from another address, for a link that is over, from
 * a peer that has no room. Nothing of it reaches the connection of somebody else.
 */

import { describe, expect, test } from 'vitest'
import { INITIATORS } from '../../../firmware/board/limits.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import {
  blankCapability,
  blankGeometry,
  readGeometry,
  writeCapability,
  writeGeometry,
} from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import {
  blankLibrpma,
  LIBRPMA_BYTES,
  readLibrpma,
  writeLibrpma,
} from '../../../firmware/wire/librpma.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_ACKNOWLEDGE, RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import {
  CLIENT,
  type Client,
  idsFrame,
  madFrame,
  message,
  publish,
  putMra,
  repOf,
  reqFrame,
  reqOf,
} from '../../support/wire/cm.ts'
import { frameOf, writeIcrc } from '../../support/wire/frames.ts'
import { ACK, connectIpv6, writeFrames } from '../../support/wire/requests.ts'

const CLIENT6: Client = { ...CLIENT, ipVersion: 6 }

/** Where the last byte of source and destination stands in a frame. */
const SOURCE4 = 29
const SOURCE6 = 37
const DESTINATION6 = 53

function served(form = mad.FORM_LIBRPMA): TestCard {
  const card = new TestCard(1 << 19).format()
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
  expect(publish(card, { form }).fault).toBe('PASS')
  return card
}

/** The same frame with another byte at that place, as its sender would seal it. */
function altered(frame: Uint8Array, at: number, byte = 0x77): Uint8Array {
  const copy = frame.slice()
  copy[at] = byte
  writeIcrc(copy)
  return copy
}

function rtu(client: Client, rep: cm.CmRep): Uint8Array {
  return idsFrame(client, cm.CM_RTU, rep.localId)
}

/** A REJ by which the client takes its REQ back, from the channel adapter of that GUID. */
function takenBack(client: Client, guidHigh: number, guidLow: number): Uint8Array {
  const bytes = message(cm.CM_REJ, client.transaction, (body, at) => {
    const rej = { ...cm.blankRej(), localId: client.localId, reason: cm.REJECT_TIMEOUT }
    rej.informationLength = cm.GUID_BYTES
    new DataView(rej.information.buffer).setUint32(0, guidHigh)
    new DataView(rej.information.buffer).setUint32(4, guidLow)
    cm.writeRej(body, at, rej)
  })
  return madFrame(bytes)
}

describe('addresses of IPv6', () => {
  test('a packet for another address is not for us, one from another is not of the peer', () => {
    const card = new TestCard(1 << 19).format()
    const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
    const qp = connectIpv6(card)
    const write = (psn: number): Uint8Array =>
      writeFrames(qp, bytes, 0, dataOf(8, 1), { ipVersion: 6, psn })[0]!
    expect(card.serve(altered(write(qp.psn), DESTINATION6))).toEqual([])
    expect(card.serve(altered(write(qp.psn), SOURCE6))).toEqual([])
    expect([card.counter('NOT_FOR_US'), card.counter('WRONG_PEER')]).toEqual([1, 1])
    expect(card.serve(write(qp.psn)).map(({ syndrome }) => syndrome)).toEqual([ACK])
  })

  test('an RTU from another address confirms nothing', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT6)))
    expect(card.serve(altered(rtu(CLIENT6, rep), SOURCE6))).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(1)
    expect(card.serve(rtu(CLIENT6, rep))).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(1)
  })
})

describe('a REQ that is taken back', () => {
  const guid = [0x020000ff, 0xfe000001] as const
  test.each([
    ['another adapter', (c: Client) => takenBack(c, guid[0] + 1, guid[1])],
    ['another address', (c: Client) => altered(takenBack(c, ...guid), SOURCE4)],
  ])('by %s stays', (_, frame) => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    expect(card.serve(frame(CLIENT))).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(1)
    card.serve(rtu(CLIENT, rep))
    const psn = rep.startingPsn
    const qp = { number: rep.qpn, peer: CLIENT.qpn, mtu: 1024, psn, operation: 0 }
    const [answer] = card.serve(...writeFrames(qp, card.open('bytes'), 0, dataOf(8, 1)))
    expect(answer!.syndrome).toBe(ACK)
  })

  test('by its own adapter is over', () => {
    const card = served()
    card.serve(reqFrame(CLIENT))
    card.serve(takenBack(CLIENT, ...guid))
    expect(card.counter('CONNECTION_FORM')).toBe(0)
  })
})

test('a peer that needs its time after it has said RTU has all the time there is', () => {
  const card = served()
  const rep = repOf(card.serve(reqFrame(CLIENT)))
  card.serve(rtu(CLIENT, rep))
  const bytes = message(cm.CM_MRA, CLIENT.transaction, (body, at) => {
    cm.writeIds(body, at, { localId: CLIENT.localId, remoteId: rep.localId })
    putMra(body, at, cm.MESSAGE_REP, 20)
  })
  expect(card.serve(madFrame(bytes))).toEqual([])
  expect(card.counter('CONNECTION_FORM')).toBe(0)
})

test('a port that published nothing may be cleared all the same', () => {
  expect(publish(served(), { port: 9, form: mad.FORM_NONE }).fault).toBe('PASS')
})

test('X-3: a peer that has started again ends its own connections, and no other’s', () => {
  const card = new TestCard(1 << 19).format()
  const region = card.provision({ name: 'orders' })
  publish(card, { name: 'orders', form: mad.FORM_CAPABILITY })
  const connect = (n: number, guid: readonly number[], incarnation: number, from = 1): TestPeer => {
    const client = { ...CLIENT, localId: n, qpn: 0x500 + n }
    const localGid = new Uint8Array(16)
    localGid.set([0xff, 0xff, 10, 0, 0, from], 10)
    const req = reqOf(client, { guidHigh: guid[0]!, guidLow: guid[1]!, localGid })
    const block = { ...blankCapability(), features: 1, clientLow: n, incarnation }
    writeCapability(req.privateData, cm.IP_CM_USER, block)
    const bytes = message(cm.CM_REQ, n, (body, at) => cm.writeReq(body, at, req))
    const rep = repOf(card.serve(sentBy(madFrame(bytes), from)))
    card.serve(sentBy(rtu(client, rep), from))
    return { number: rep.qpn, peer: client.qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
  }
  const serves = (qp: TestPeer): boolean =>
    persistAcks(card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))).length > 0
  const pairs = [connect(1, [1, 7], 1), connect(2, [1, 8], 1), connect(3, [2, 7], 1)]
  expect(pairs.map(serves)).toEqual([true, true, true])
  // A GUID is no secret: another station that says to be that adapter ends nothing.
  connect(5, [1, 7], 3, 51)
  expect(pairs.map(serves)).toEqual([true, true, true])
  const again = connect(4, [1, 7], 2)
  expect(pairs.map(serves)).toEqual([false, true, true])
  expect(serves(again)).toBe(true)
})

test('a connection that RDMA-CM has made does not end by DISCONNECT', () => {
  const card = served()
  const rep = repOf(card.serve(reqFrame(CLIENT)))
  card.serve(rtu(CLIENT, rep))
  const psn = rep.startingPsn
  const qp = { number: rep.qpn, peer: CLIENT.qpn, mtu: 1024, psn, operation: 0 }
  const answer = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
    putU32(body, mad.DISCONNECT_QP, qp.number)
    putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
  })
  expect(answer.fault).toBe('PASS')
  const frames = writeFrames(qp, card.open('bytes'), 0, dataOf(8, 1))
  expect(card.serve(...frames).map(({ syndrome }) => syndrome)).toEqual([ACK])
})

test('P2-2: an announcement for which there is no room ends its connection, and no other', () => {
  const card = served(mad.FORM_ANNOUNCED)
  const bytes = card.open('bytes')
  const outcomes = Array.from({ length: INITIATORS + 1 }, (_, i) => {
    const client = { ...CLIENT, localId: 1000 + i, qpn: 0x1000 + i }
    const rep = repOf(card.serve(reqFrame(client)))
    const psn = announcedWith(card.serve(rtu(client, rep)))
    const qp = { number: rep.qpn, peer: client.qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
    return { told: psn !== undefined, psn: psn ?? 0, qp }
  })
  const serves = (qp: TestPeer): boolean =>
    card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1))).some(({ syndrome }) => syndrome === ACK)
  const all = [...new Array(INITIATORS).fill(true), false]
  expect(outcomes.map(({ told }) => told)).toEqual(all)
  expect(outcomes.map(({ qp }) => serves(qp))).toEqual(all)
  // Whose peer has acknowledged its announcement makes room, whichever it is.
  for (const [i, { qp, psn }] of outcomes.slice(0, 2).entries()) {
    const bth = { opcode: RC_ACKNOWLEDGE, destQp: qp.number, psn }
    card.serve(frameOf({ bth, aeth: { syndrome: ACK, msn: 1 } }))
    const client = { ...CLIENT, localId: 2000 + i, qpn: 0x2000 + i }
    const rep = repOf(card.serve(reqFrame(client)))
    expect(announcedWith(card.serve(rtu(client, rep)))).toBeDefined()
  }
})

/** PSN of the announcement among what was sent, if there is one. */
function announcedWith(sent: readonly Sent[]): number | undefined {
  return sent.find(({ opcode }) => opcode === RC_SEND_ONLY)?.psn
}

describe('what a peer shows of itself', () => {
  test('a capability block without a shape has none, nor one that is cut', () => {
    const bytes = new Uint8Array(68)
    writeCapability(bytes, 0, blankCapability())
    expect(readGeometry(blankGeometry(), bytes, 0, 68)).toBe(false)
    const shape = { slots: 8, capacity: 64, copies: 2, kind: 1, flags: 0 }
    writeGeometry(bytes, 0, shape)
    expect(readGeometry(blankGeometry(), bytes, 0, 67)).toBe(false)
    const read = blankGeometry()
    expect(readGeometry(read, bytes, 0, 68)).toBe(true)
    expect(read).toEqual(shape)
  })

  test('a descriptor of librpma with another size of its own is none', () => {
    const bytes = new Uint8Array(LIBRPMA_BYTES)
    writeLibrpma(bytes, 0, { ...blankLibrpma(), rkey: 0x1234 })
    const read = blankLibrpma()
    expect(readLibrpma(read, bytes, 0)).toBe(true)
    expect(read.rkey).toBe(0x1234)
    bytes[2] = 27
    expect(readLibrpma(blankLibrpma(), bytes, 0)).toBe(false)
  })
})
