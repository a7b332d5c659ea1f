/**
 * The passive side of RDMA-CM: a client that knows only a port gets a queue pair to a region.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import { dismissSilent } from '../../../firmware/connect/room.ts'
import { TIME_WAIT_US } from '../../../firmware/connect/table.ts'
import { REMOTE_READ, REMOTE_WRITE } from '../../../firmware/medium/region.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import {
  blankCapability,
  readCapability,
  writeCapability,
} from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import { blankLibrpma, LIBRPMA_BYTES, readLibrpma } from '../../../firmware/wire/librpma.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { batchSetting } from '../../support/cards/batch-card.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { PLACES_ALONE } from '../../support/peers/strangers.ts'
import {
  CLIENT,
  type Client,
  idsFrame,
  madFrame,
  message,
  messagesOf,
  PORT,
  publish,
  putMra,
  rejOf,
  repOf,
  reqFrame,
  reqOf,
} from '../../support/wire/cm.ts'
import { frameOf, hexOf, overIpv6, writeIcrc } from '../../support/wire/frames.ts'
import { ACK, writeFrames } from '../../support/wire/requests.ts'

/** A card with a region of bytes, published for librpma. */
function served(facts: Partial<Facts> = {}): TestCard {
  const card = new TestCard(1 << 19, { facts }).format()
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
  expect(publish(card).fault).toBe('PASS')
  return card
}

/** The queue pair that a REP granted. */
function granted(rep: cm.CmRep, client: Client = CLIENT, mtu = 1024): TestPeer {
  return { number: rep.qpn, peer: client.qpn, mtu, psn: rep.startingPsn, operation: 0 }
}

function rtu(client: Client, rep: cm.CmRep): Uint8Array {
  return idsFrame(client, cm.CM_RTU, rep.localId)
}

function dreq(client: Client, rep: cm.CmRep, qpn = rep.qpn): Uint8Array {
  return idsFrame(client, cm.CM_DREQ, rep.localId, (bytes, at) => cm.putDreqQpn(bytes, at, qpn))
}

/** The same frame from another IPv4 address. */
function fromElsewhere(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  copy[29] = 77
  writeIcrc(copy)
  return copy
}

/** Attributes of the messages. */
function attributes(sent: readonly Sent[]): number[] {
  return messagesOf(sent).map(({ attribute }) => attribute)
}

/** Does the queue pair take a WRITE? The PSN moves on if it does. */
function serves(card: TestCard, qp: TestPeer, ipVersion: 4 | 6 = 4): boolean {
  const bytes = card.open('bytes')
  const [answer] = card.serve(...writeFrames(qp, bytes, 64, dataOf(8, 1), { ipVersion }))
  return answer !== undefined && answer.syndrome === ACK
}

/** How long a card waits for RTU when the REQ says code 20, µs. */
const PERIOD_US = cm.codedUs(20)

describe('a connection from REQ to DREP', () => {
  for (const ipVersion of [4, 6] as const) {
    test(`over IPv${ipVersion}: REP, RTU, a WRITE that is acknowledged, DREQ, silence`, () => {
      const card = served()
      const client = { ...CLIENT, ipVersion }
      const rep = repOf(card.serve(reqFrame(client)))
      expect(rep).toMatchObject({ remoteId: client.localId, qkey: 0, vendorId: 0, srq: 0 })
      expect(rep).toMatchObject({ responderResources: 16, initiatorDepth: 4, rnrRetryCount: 7 })
      expect(rep).toMatchObject({ targetAckDelay: 18, guidHigh: 0x000000ff, guidLow: 0xfe000002 })
      expect(card.serve(rtu(client, rep))).toEqual([])
      const bytes = card.open('bytes')
      const qp = granted(rep, client)
      const data = dataOf(3000, 5)
      const answers = card.serve(...writeFrames(qp, bytes, 64, data, { ipVersion }))
      expect(answers.map(({ syndrome }) => syndrome)).toEqual([ACK])
      const sent = card.serve(dreq(client, rep))
      expect(attributes(sent)).toEqual([cm.CM_DREP])
      expect(serves(card, qp, ipVersion)).toBe(false)
    })
  }

  test('the REP goes to QP 1 of who asked, with its transaction id', () => {
    const card = served()
    const [reply] = messagesOf(card.serve(reqFrame(CLIENT)))
    expect(reply!.header).toMatchObject({ transactionHigh: 0x01020304, transactionLow: 0x1111 })
    expect(reply!.sent.packet.destQp).toBe(1)
    expect(hexOf(reply!.sent.bytes.slice(0, 12))).toBe('020000000001020000000002')
    expect(hexOf(reply!.sent.bytes.slice(26, 34))).toBe('0a0000020a000001')
  })

  test('librpma’s descriptor stands in the private data, little-endian, direct write on', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    const region = card.open('bytes')
    const descriptor = blankLibrpma()
    expect(readLibrpma(descriptor, rep.privateData, 0)).toBe(true)
    expect(descriptor).toMatchObject({ rkey: region.rkey, sizeLow: 65536, usage: 0x39 })
    expect(hexOf(rep.privateData.slice(0, 4))).toBe('00001501')
    expect(hexOf(rep.privateData.slice(25, 28))).toBe('010000')
    expect(rep.privateData.slice(LIBRPMA_BYTES).every((byte) => byte === 0)).toBe(true)
  })

  test('the depth that is asked of the client is never more than it offers, and never 0', () => {
    for (const [offered, depth] of [
      [0, 1],
      [1, 1],
      [16, 16],
      [128, 16],
    ] as const) {
      const rep = repOf(served().serve(reqFrame(CLIENT, { responderResources: offered })))
      expect(rep.initiatorDepth).toBe(depth)
    }
  })

  test('every path MTU up to the port’s own is taken as the REQ says', () => {
    const card = served()
    ;[256, 512, 1024, 2048, 4096].forEach((mtu, i) => {
      const client = { ...CLIENT, localId: 100 + i, qpn: 0x400 + i }
      const rep = repOf(card.serve(reqFrame(client, { pathMtu: cm.codeOfMtu(mtu) })))
      const qp = granted(rep, client, mtu)
      const bytes = card.open('bytes')
      const frames = writeFrames(qp, bytes, 0, dataOf(2 * mtu, i))
      expect(frames).toHaveLength(2)
      expect(card.serve(...frames).map(({ syndrome }) => syndrome)).toEqual([ACK])
    })
  })

  test('starting PSNs cross over: the client begins with the PSN of the REP', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    const wrong = { ...granted(rep), psn: (rep.startingPsn + 1) & 0xffffff }
    const bytes = card.open('bytes')
    const [nak] = card.serve(...writeFrames(wrong, bytes, 0, dataOf(8, 1)))
    expect([nak!.syndrome, nak!.psn]).toEqual([0x60, rep.startingPsn])
    expect(serves(card, granted(rep))).toBe(true)
  })

  test('data counts only from the address that the REQ came from', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    const qp = granted(rep)
    const bytes = card.open('bytes')
    const frames = writeFrames(qp, bytes, 0, dataOf(8, 1), { psn: qp.psn })
    expect(card.serve(...frames.map(fromElsewhere))).toEqual([])
    expect(card.counter('WRONG_PEER')).toBe(1)
    expect(serves(card, qp)).toBe(true)
  })
})

describe('a REQ that comes again', () => {
  test('before RTU it gets the same REP, byte for byte, and no second queue pair', () => {
    const card = served()
    const [first] = messagesOf(card.serve(reqFrame(CLIENT)))
    const [second] = messagesOf(card.serve(reqFrame(CLIENT)))
    expect(hexOf(second!.bytes)).toBe(hexOf(first!.bytes))
    const twice = messagesOf(card.serve(reqFrame(CLIENT), reqFrame(CLIENT)))
    expect(twice.map(({ bytes }) => hexOf(bytes))).toEqual([
      hexOf(first!.bytes),
      hexOf(first!.bytes),
    ])
  })

  test('after RTU it gets the REP as long as nothing was written', () => {
    const card = served()
    const [first] = messagesOf(card.serve(reqFrame(CLIENT)))
    card.serve(rtu(CLIENT, repOf([first!.sent])))
    const [second] = messagesOf(card.serve(reqFrame(CLIENT)))
    expect(hexOf(second!.bytes)).toBe(hexOf(first!.bytes))
  })

  test('once the queue pair is in use, a REQ that was long on its way is passed over', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    const qp = granted(rep)
    card.serve(rtu(CLIENT, rep))
    expect(serves(card, qp)).toBe(true)
    expect(card.serve(reqFrame(CLIENT))).toEqual([])
    expect(card.counter('DUPLICATE')).toBe(1)
    expect(serves(card, qp)).toBe(true)
  })

  test('long after, it is a client that started again: REJ stale, the next one is served', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    const qp = granted(rep)
    card.serve(rtu(CLIENT, rep))
    expect(serves(card, qp)).toBe(true)
    card.now += TIME_WAIT_US
    expect(rejOf(card.serve(reqFrame(CLIENT))).reason).toBe(cm.REJECT_STALE)
    expect(serves(card, qp)).toBe(false)
    card.pass(TIME_WAIT_US)
    const again = repOf(card.serve(reqFrame(CLIENT)))
    expect(again.localId).not.toBe(rep.localId)
    expect(serves(card, granted(again))).toBe(true)
  })

  test('the same queue pair of a client under another id is stale, too', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    card.serve(rtu(CLIENT, rep))
    const again = { ...CLIENT, localId: 5 }
    expect(rejOf(card.serve(reqFrame(again)))).toMatchObject({
      reason: cm.REJECT_STALE,
      remoteId: 5,
    })
    expect(card.counter('STALE_CONNECTION')).toBe(1)
    expect(serves(card, granted(rep))).toBe(false)
    expect(repOf(card.serve(reqFrame(again))).qpn).not.toBe(rep.qpn)
  })

  test('nobody ends a connection from another address by its ids', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    card.serve(rtu(CLIENT, rep))
    card.serve(fromElsewhere(reqFrame({ ...CLIENT, localId: 5 })))
    card.serve(fromElsewhere(dreq(CLIENT, rep)))
    card.serve(fromElsewhere(rejection(CLIENT, rep)))
    expect(serves(card, granted(rep))).toBe(true)
  })
})

/** A REJ of the REP. */
function rejection(client: Client, rep: cm.CmRep): Uint8Array {
  const body = {
    ...cm.blankRej(),
    localId: client.localId,
    remoteId: rep.localId,
    message: cm.MESSAGE_REP,
    reason: cm.REJECT_CONSUMER,
  }
  return madFrame(message(cm.CM_REJ, 1, (bytes, at) => cm.writeRej(bytes, at, body)))
}

describe('when a message is lost', () => {
  test('a lost REP is sent again after the time that the REQ gives, byte for byte', () => {
    const card = served()
    const [first] = messagesOf(card.serve(reqFrame(CLIENT)))
    expect(card.waitUs).toBeGreaterThan(0)
    expect(card.waitUs).toBeLessThanOrEqual(Math.ceil(PERIOD_US))
    expect(messagesOf(card.pass(PERIOD_US - 10))).toEqual([])
    const [second] = messagesOf(card.pass(20))
    expect(hexOf(second!.bytes)).toBe(hexOf(first!.bytes))
    expect(second!.sent.packet.destQp).toBe(1)
  })

  test('a REP is repeated as often as the REQ says, then the client is told of the timeout', () => {
    for (const cmRetries of [0, 1, 15]) {
      const card = served()
      const first = card.serve(reqFrame(CLIENT, { cmRetries }))
      const rep = repOf(first)
      for (let i = 0; i < cmRetries; i++) {
        expect(attributes(card.pass(PERIOD_US + 1))).toEqual([cm.CM_REP])
      }
      const sent = card.pass(PERIOD_US + 1)
      expect(rejOf(sent)).toMatchObject({
        reason: cm.REJECT_TIMEOUT,
        message: cm.MESSAGE_REP,
        localId: rep.localId,
        remoteId: CLIENT.localId,
      })
      const { transactionHigh, transactionLow } = messagesOf(first)[0]!.header
      expect(messagesOf(sent)[0]!.header).toMatchObject({ transactionHigh, transactionLow })
      expect(serves(card, granted(rep))).toBe(false)
      expect(card.pass(TIME_WAIT_US + 1)).toEqual([])
      expect(card.pass(1e9)).toEqual([])
    }
  })

  test('a lost RTU does not matter: a first request is as good', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    expect(serves(card, granted(rep))).toBe(true)
    for (let i = 0; i < 3; i++) expect(card.pass(PERIOD_US + 1)).toEqual([])
  })

  test('a lost DREP is sent again when DREQ comes again, and after the rest, too', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    const goodbye = dreq(CLIENT, rep)
    const answers = [card.serve(goodbye), card.serve(goodbye)]
    card.pass(TIME_WAIT_US + 1)
    answers.push(card.serve(goodbye))
    for (const sent of answers) {
      const [drep] = messagesOf(sent)
      expect(drep!.attribute).toBe(cm.CM_DREP)
      expect(hexOf(drep!.bytes.slice(24, 32))).toBe(
        `${rep.localId.toString(16).padStart(8, '0')}0a0b0c0d`,
      )
    }
  })

  test('an answer travels in the class of the REQ, without its congestion mark', () => {
    const inIpv4 = reqFrame(CLIENT)
    inIpv4[IP_AT + 1] = 0x6b
    const [rep] = served().serve(inIpv4)
    expect(rep!.bytes[IP_AT + 1]).toBe(0x68)
    const inIpv6 = overIpv6(reqFrame(CLIENT))
    inIpv6.set([0x66, 0xb5], IP_AT)
    writeIcrc(inIpv6)
    const [other] = served().serve(inIpv6)
    expect([...other!.bytes.subarray(IP_AT, IP_AT + 4)]).toEqual([0x66, 0x80, 0, 0])
  })

  test('an MRA of the REP puts its repetition off by the time that it names', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    const mra = idsFrame(CLIENT, cm.CM_MRA, rep.localId, (bytes, at) =>
      putMra(bytes, at, cm.MESSAGE_REP, 22),
    )
    card.serve(mra)
    expect(card.pass(PERIOD_US + cm.codedUs(22) - 100)).toEqual([])
    expect(attributes(card.pass(200))).toEqual([cm.CM_REP])
  })

  test('a REQ that wants no time at all does not make the card repeat its REP permanently', () => {
    const card = served()
    card.serve(reqFrame(CLIENT, { localTimeout: 0, cmRetries: 15 }))
    expect(card.pass(50_000)).toEqual([])
    let repeated = 0
    for (let i = 0; i < 100; i++) repeated += messagesOf(card.pass(100_000)).length
    expect(repeated).toBe(16)
  })
})

/** Where IP begins in a frame. */
const IP_AT = 14

interface Refused {
  readonly what: string
  readonly reason: number
  readonly fields: Partial<cm.CmReq>
}

const REFUSED: readonly Refused[] = [
  { what: 'another port', reason: 8, fields: { serviceLow: cm.SERVICE_TCP | (PORT + 1) } },
  { what: 'port 0', reason: 8, fields: { serviceLow: cm.SERVICE_TCP } },
  { what: 'a port of UDP', reason: 8, fields: { serviceLow: 0x01110000 | PORT } },
  { what: 'another service', reason: 8, fields: { serviceHigh: 1 } },
  { what: 'an unreliable connection', reason: 9, fields: { transport: 1 } },
  { what: 'a reserved transport', reason: 9, fields: { transport: 2 } },
  { what: 'an extended transport', reason: 9, fields: { transport: 3, extendedTransport: 1 } },
  { what: 'a path MTU above the port’s', reason: 26, fields: { pathMtu: 4 } },
  { what: 'path MTU code 0', reason: 26, fields: { pathMtu: 0 } },
  { what: 'path MTU code 6', reason: 26, fields: { pathMtu: 6 } },
  { what: 'the queue pair 1', reason: 5, fields: { qpn: 1 } },
  { what: 'another partition', reason: 5, fields: { pkey: 0x8001 } },
  { what: 'a GID that is not its sender’s', reason: 12, fields: { localGid: new Uint8Array(16) } },
  { what: 'a GID that is not ours', reason: 12, fields: { remoteGid: new Uint8Array(16) } },
]

describe('what is refused', () => {
  for (const { what, reason, fields } of REFUSED) {
    test(`a REQ for ${what} gets REJ ${reason} and no queue pair`, () => {
      const card = served({ pathMtu: 1024 })
      const rej = rejOf(card.serve(reqFrame(CLIENT, fields)))
      expect(rej).toMatchObject({ reason, localId: 0, remoteId: CLIENT.localId, message: 0 })
      // The path MTU that would do is named; the rest needs no more words.
      expect([rej.informationLength, rej.information[0]]).toEqual(
        reason === 26 ? [1, 0x30] : [0, 0],
      )
      expect(card.counter('UNSERVED_CONNECTION')).toBe(1)
      expect(card.pass(1e8)).toEqual([])
    })
  }

  test('a part that takes no writes refuses with reason 28 and the number of its fault', () => {
    const card = served()
    const region = card.provision({ name: 'orders', slots: 8, capacity: 64 })
    card.nvdimm.fencesToFail = 1
    card.serve(...persistFrames(card.connect(), region, 1, dataOf(64, 1)))
    const rej = rejOf(card.serve(reqFrame(CLIENT)))
    expect(rej.reason).toBe(cm.REJECT_CONSUMER)
    expect(FAULTS[rej.privateData[0]!]!.name).toBe('FLUSH')
  })

  test('a REJ of the client ends the connection', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    expect(card.serve(rejection(CLIENT, rep))).toEqual([])
    expect(serves(card, granted(rep))).toBe(false)
    expect(card.pass(1e8)).toEqual([])
  })

  test('a DREQ for another queue pair of ours ends nothing and is not answered', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    expect(card.serve(dreq(CLIENT, rep, rep.qpn + 1))).toEqual([])
    expect(serves(card, granted(rep))).toBe(true)
  })

  test('a DREQ of a connection that nobody knows is answered all the same', () => {
    const card = served()
    const [drep] = messagesOf(card.serve(idsFrame(CLIENT, cm.CM_DREQ, 0x77777777)))
    expect(drep!.attribute).toBe(cm.CM_DREP)
    expect(hexOf(drep!.bytes.slice(24, 32))).toBe('777777770a0b0c0d')
  })

  test('a DREP is expected while its connection rests, and at no other time', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    card.serve(rtu(CLIENT, rep))
    const drep = idsFrame(CLIENT, cm.CM_DREP, rep.localId)
    expect(card.serve(drep)).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(1)
    expect(serves(card, granted(rep))).toBe(true)
    card.serve(dreq(CLIENT, rep))
    expect(card.serve(drep)).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(1)
    card.pass(TIME_WAIT_US + 1)
    expect(card.serve(drep)).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(2)
  })

  test('messages with ids of nobody are counted and not answered', () => {
    const card = served()
    const ids = [cm.CM_RTU, cm.CM_DREP, cm.CM_REJ, cm.CM_MRA, cm.CM_REP, 0x17, 0x19, 0xffff]
    for (const attribute of ids) {
      expect(card.serve(idsFrame(CLIENT, attribute, 0x77777777))).toEqual([])
    }
    expect(card.counter('CONNECTION_FORM')).toBe(ids.length)
  })
})

describe('room', () => {
  /** Connects clients of one address until one is refused; their REPs. */
  function fill(card: TestCard, established: boolean): cm.CmRep[] {
    const reps: cm.CmRep[] = []
    for (let i = 0; i < PLACES_ALONE; i++) {
      const client = { ...CLIENT, localId: 1000 + i, qpn: 0x1000 + i }
      const rep = repOf(card.serve(reqFrame(client)))
      if (established) card.serve(rtu(client, rep))
      reps.push(rep)
    }
    return reps
  }

  test('who has his share connected gets REJ 3, until one has left and rested', () => {
    const card = served()
    const reps = fill(card, true)
    expect(new Set(reps.map(({ qpn }) => qpn)).size).toBe(PLACES_ALONE)
    expect(rejOf(card.serve(reqFrame(CLIENT))).reason).toBe(cm.REJECT_NO_RESOURCES)
    const leaving = { ...CLIENT, localId: 1007, qpn: 0x1007 }
    expect(attributes(card.serve(dreq(leaving, reps[7]!)))).toEqual([cm.CM_DREP])
    expect(rejOf(card.serve(reqFrame(CLIENT))).reason).toBe(cm.REJECT_NO_RESOURCES)
    card.pass(TIME_WAIT_US - 100)
    expect(rejOf(card.serve(reqFrame(CLIENT))).reason).toBe(cm.REJECT_NO_RESOURCES)
    card.pass(200)
    const others = reps.filter((_, i) => i !== 7).map(({ qpn }) => qpn)
    expect(others).not.toContain(repOf(card.serve(reqFrame(CLIENT))).qpn)
  })

  test('of who has his share connected, what was silent for longest goes after a minute', () => {
    const card = served()
    const reps = fill(card, true)
    card.pass(30e6)
    reps.forEach((rep, i) => {
      if (i === 9) return
      const client = { ...CLIENT, localId: 1000 + i, qpn: 0x1000 + i }
      expect(serves(card, granted(rep, client))).toBe(true)
    })
    card.pass(25e6)
    expect(attributes(card.serve(reqFrame(CLIENT)))).toEqual([cm.CM_REJ])
    card.pass(10e6)
    const sent = card.serve(reqFrame(CLIENT))
    expect(attributes(sent)).toEqual([cm.CM_DREQ, cm.CM_REJ])
    const [goodbye] = messagesOf(sent)
    expect(u32(goodbye!.bytes, cm.CM_BODY + cm.CM_REMOTE_ID)).toBe(1009)
    expect(cm.dreqQpn(goodbye!.bytes, cm.CM_BODY)).toBe(0x1009)
    const silent = { ...CLIENT, localId: 1009, qpn: 0x1009 }
    expect(card.serve(idsFrame(silent, cm.CM_DREP, reps[9]!.localId))).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(0)
    card.pass(TIME_WAIT_US + 1)
    const others = reps.filter((_, i) => i !== 9).map(({ qpn }) => qpn)
    expect(others).not.toContain(repOf(card.serve(reqFrame(CLIENT))).qpn)
  })

  test.each([0, 9, PLACES_ALONE - 1])(
    'where all were silent for a minute, who goes is who was so for longest: the one at %i',
    (place) => {
      const card = served()
      const reps = fill(card, true)
      card.pass(30e6)
      reps.forEach((rep, i) => {
        if (i === place) return
        const client = { ...CLIENT, localId: 1000 + i, qpn: 0x1000 + i }
        expect(serves(card, granted(rep, client))).toBe(true)
      })
      card.pass(65e6)
      const [goodbye] = messagesOf(card.serve(reqFrame(CLIENT)))
      expect(goodbye!.attribute).toBe(cm.CM_DREQ)
      expect(u32(goodbye!.bytes, cm.CM_BODY + cm.CM_REMOTE_ID)).toBe(1000 + place)
    },
  )

  test('the goodbye to who has to go has a transaction id of its own, both words drawn', () => {
    const { card, state } = batchSetting({ slots: 8 }, 1024, 1 << 19)
    card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
    publish(card)
    card.serve(rtu(CLIENT, repOf(card.serve(reqFrame(CLIENT)))))
    card.pass(61e6)
    expect(dismissSilent(state, 'another')).toBe(-1)
    const [goodbye] = messagesOf(card.pass(1))
    expect(goodbye!.attribute).toBe(cm.CM_DREQ)
    const { transactionHigh, transactionLow } = goodbye!.header
    expect([transactionHigh, transactionLow]).not.toContain(0)
  })

  test('a flood of REQs that are never confirmed keeps nobody out', () => {
    const card = served()
    fill(card, false)
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    expect(serves(card, granted(rep))).toBe(true)
  })

  test('a queue pair that failed gives its place away, and its DREQ is still answered', () => {
    const card = served()
    const reps = fill(card, true)
    const failed = { ...CLIENT, localId: 1003, qpn: 0x1003 }
    const [nak] = card.serve(...writeFrames(granted(reps[3]!, failed), 0xbad, 0, dataOf(8, 1)))
    expect(nak!.syndrome).toBe(0x62)
    expect(repOf(card.serve(reqFrame(CLIENT))).localId).not.toBe(reps[3]!.localId)
    expect(attributes(card.serve(dreq(failed, reps[3]!)))).toEqual([cm.CM_DREP])
    expect(serves(card, granted(repOf(card.serve(reqFrame(CLIENT)))))).toBe(true)
  })
})

describe('a client that shows its capability block', () => {
  /** A REQ with a block that names the client. */
  function capableReq(client: Client, words = 14): Uint8Array {
    const req = reqOf(client)
    writeCapability(req.privateData, cm.IP_CM_USER, {
      ...blankCapability(),
      features: 1,
      clientHigh: 0xcafe,
      clientLow: 0x1234,
    })
    req.privateData[cm.IP_CM_USER + 5] = words
    const bytes = message(cm.CM_REQ, 9, (body, at) => cm.writeReq(body, at, req))
    return madFrame(bytes)
  }

  /** A card with a region of records, published in that form. */
  function records(): TestCard {
    const card = new TestCard(1 << 19).format()
    card.provision({ name: 'orders', slots: 8, capacity: 64 })
    expect(publish(card, { name: 'orders', form: mad.FORM_CAPABILITY }).fault).toBe('PASS')
    return card
  }

  test('D-5 it gets ours, with key, length and incarnation, and PERSIST_ACKs', () => {
    const card = records()
    const region = card.open('orders')
    const rep = repOf(card.serve(capableReq(CLIENT)))
    const block = blankCapability()
    expect(readCapability(block, rep.privateData, 0, rep.privateData.length)).toBe(true)
    expect(block).toMatchObject({
      rkey: region.rkey,
      lengthLow: 4096,
      // WRITE_PERSIST, bitmap, batches, status, hints, sizes of blocks; 64 and 128 as ever.
      features: 255,
      slotLog2: 6,
      // From a page to one block that holds it all; batches of 256 records.
      blockLog2Min: 12,
      blockLog2Max: 12,
      batchMax: 255,
      incarnation: 1,
      durableLow: 0,
      sessionId: rep.localId,
      clientHigh: 0xcafe,
      clientLow: 0x1234,
    })
    const qp = granted(rep)
    const sent = card.serve(...persistFrames(qp, region, 3, dataOf(64, 3)))
    expect(persistAcks(sent)).toMatchObject([{ status: 0, copies: 2 }])
  })

  test('D-6: a client that comes again is told up to where its operations are durable', () => {
    const card = records()
    const region = card.open('orders')
    const first = granted(repOf(card.serve(capableReq(CLIENT))))
    for (let slot = 0; slot < 3; slot++) {
      card.serve(...persistFrames(first, region, slot, dataOf(64, slot)))
    }
    const again = { ...CLIENT, localId: 2, qpn: 0x444 }
    const block = blankCapability()
    readCapability(block, repOf(card.serve(capableReq(again))).privateData, 0, 196)
    expect([block.durableHigh, block.durableLow]).toEqual([0, 3])
  })

  test('a block without a client id, or of a future length, is taken for what it holds', () => {
    const card = records()
    for (const words of [12, 13, 14]) {
      const client = { ...CLIENT, localId: words, qpn: 0x500 + words }
      const rep = repOf(card.serve(capableReq(client, words)))
      const block = blankCapability()
      readCapability(block, rep.privateData, 0, rep.privateData.length)
      expect(block.clientLow).toBe(words === 14 ? 0x1234 : 0)
    }
  })

  test('whatever the form of the port, it gets the block', () => {
    const rep = repOf(served().serve(capableReq(CLIENT)))
    expect(readCapability(blankCapability(), rep.privateData, 0, 196)).toBe(true)
  })

  test('a block of another magic, version or length makes a plain client', () => {
    for (const [at, byte] of [
      [0, 0x4f],
      [4, 2],
      [5, 11],
      [5, 15],
    ] as const) {
      const frame = capableReq(CLIENT)
      frame[62 + cm.CM_BODY + 140 + cm.IP_CM_USER + at] = byte
      writeIcrc(frame)
      const rep = repOf(served().serve(frame))
      expect(readCapability(blankCapability(), rep.privateData, 0, 196)).toBe(false)
    }
  })
})

describe('publishing', () => {
  test('a port can be given to another region, and withdrawn; open connections stay', () => {
    const card = served()
    card.provision({ name: 'more', kind: mad.KIND_BYTES, length: 4096 })
    const first = repOf(card.serve(reqFrame(CLIENT)))
    expect(publish(card, { name: 'more' }).fault).toBe('PASS')
    const client = { ...CLIENT, localId: 2, qpn: 0x555 }
    const descriptor = blankLibrpma()
    readLibrpma(descriptor, repOf(card.serve(reqFrame(client))).privateData, 0)
    expect(descriptor).toMatchObject({ rkey: card.open('more').rkey, sizeLow: 4096 })
    expect(publish(card, { name: '', form: mad.FORM_NONE }).fault).toBe('PASS')
    const late = { ...CLIENT, localId: 3, qpn: 0x556 }
    expect(rejOf(card.serve(reqFrame(late))).reason).toBe(cm.REJECT_SERVICE_ID)
    expect(serves(card, granted(first))).toBe(true)
  })

  test('the descriptor claims no more than the rights that were published', () => {
    const card = served()
    for (const [rights, usage] of [
      [REMOTE_READ, 1],
      [REMOTE_WRITE, 8],
      [REMOTE_READ | REMOTE_WRITE | (1 << 9), 0x29],
    ] as const) {
      expect(publish(card, { rights }).fault).toBe('PASS')
      const client = { ...CLIENT, localId: 10 + rights, qpn: 0x600 + rights }
      const descriptor = blankLibrpma()
      readLibrpma(descriptor, repOf(card.serve(reqFrame(client))).privateData, 0)
      expect(descriptor.usage).toBe(usage)
    }
  })

  test('a connection may do no more than was published, whatever the region grants', () => {
    const card = served()
    publish(card, { rights: REMOTE_READ })
    const bytes = card.open('bytes')
    const reader = granted(repOf(card.serve(reqFrame(CLIENT))))
    const answers = card.serve(readFrame(reader, bytes, 0, 0, 8))
    expect(answers.map(({ opcode }) => opcode)).toEqual([0x10])
    const [nak] = card.serve(...writeFrames(reader, bytes, 0, dataOf(8, 1)))
    expect(nak!.syndrome).toBe(0x62)
    expect(card.counter('RIGHTS')).toBe(1)
  })

  test('what cannot be published is refused with a reason', () => {
    const card = served()
    card.provision({ name: 'orders', slots: 8, capacity: 64 })
    expect(publish(card, { name: 'nothing' }).fault).toBe('NO_REGION')
    expect(publish(card, { port: 0 }).fault).toBe('REQUEST')
    expect(publish(card, { form: mad.FORM_ANNOUNCED + 1 }).fault).toBe('REQUEST')
    expect(publish(card, { rights: 1 << 20 }).fault).toBe('REQUEST')
    expect(publish(card, { name: 'orders', form: mad.FORM_LIBRPMA }).fault).toBe('REQUEST')
    const faults = Array.from({ length: 64 }, (_, i) => publish(card, { port: 100 + i }).fault)
    expect(new Set(faults.slice(0, 63))).toEqual(new Set(['PASS']))
    expect(faults[63]).toBe('SERVICES_FULL')
    expect(publish(card, { port: 100 }).fault).toBe('PASS')
  })
})

describe('hostile messages', () => {
  test('a message of any other length is counted and not answered', () => {
    const card = served()
    const whole = reqFrame(CLIENT).slice(62, 62 + cm.CM_BYTES)
    for (let length = 0; length <= 260; length++) {
      if (length === cm.CM_BYTES) continue
      const payload = new Uint8Array(length)
      payload.set(whole.subarray(0, Math.min(length, whole.length)))
      const frame = frameOf({
        bth: { opcode: UD_SEND_ONLY, destQp: 1 },
        deth: { qkey: 0x80010000, sourceQp: 1 },
        payload,
      })
      expect(card.serve(frame)).toEqual([])
    }
    expect(card.counter('CONNECTION_FORM') + card.counter('MANAGEMENT_FORM')).toBe(260)
  })

  test('another version, class version or method is counted and not answered', () => {
    const card = served()
    for (const [at, byte] of [
      [0, 2],
      [2, 1],
      [2, 3],
      [3, 1],
      [3, 0x83],
    ] as const) {
      const frame = reqFrame(CLIENT)
      frame[62 + at] = byte
      writeIcrc(frame)
      expect(card.serve(frame)).toEqual([])
    }
    expect(card.counter('CONNECTION_FORM')).toBe(5)
  })

  test('every byte of every message, set to its ends: nothing stops, the next one connects', () => {
    const card = served()
    const held = { ...CLIENT, localId: 0x99, qpn: 0x999 }
    const rep = repOf(card.serve(reqFrame(held)))
    const qp = granted(rep, held)
    expect(serves(card, qp)).toBe(true)
    const frames = [
      reqFrame(CLIENT),
      rtu(CLIENT, rep),
      rejection(CLIENT, rep),
      dreq(CLIENT, rep),
      idsFrame(CLIENT, cm.CM_MRA, rep.localId),
      idsFrame(CLIENT, cm.CM_DREP, rep.localId),
      idsFrame(CLIENT, cm.CM_REP, rep.localId),
    ]
    for (const frame of frames) {
      for (let at = 0; at < cm.CM_BODY + 100; at++) {
        for (const byte of [0, 1, 0x7f, 0x80, 0xff]) {
          const changed = frame.slice()
          changed[62 + at] = byte
          writeIcrc(changed)
          for (const answer of messagesOf(card.serve(changed))) {
            expect([cm.CM_REP, cm.CM_REJ, cm.CM_DREP]).toContain(answer.attribute)
          }
        }
      }
    }
    expect(serves(card, qp)).toBe(true)
    const late = { ...CLIENT, localId: 0xabc, qpn: 0xabc }
    expect(serves(card, granted(repOf(card.serve(reqFrame(late)))))).toBe(true)
  })
})
