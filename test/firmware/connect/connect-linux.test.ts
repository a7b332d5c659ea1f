/**
 * What Linux said to Linux, said to a card: the connection messages of the captures, with the
 * card's addresses and ids where the other host's stood.
 */

import { describe, expect, test } from 'vitest'
import { putU24, putU32, u24, u32 } from '../../../firmware/wire/bytes.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, TestCard } from '../../support/cards/test-card.ts'
import { messagesOf, publish, repOf } from '../../support/wire/cm.ts'
import { writeIcrc } from '../../support/wire/frames.ts'
import { ACK, writeFrames } from '../../support/wire/requests.ts'
import { CAPTURES } from '../../support/wire/vectors.ts'

const MAD_AT = 62
const BODY_AT: number = MAD_AT + cm.CM_BODY

/** The messages that the connecting host sent, by their attribute. */
function messagesIn(name: string): Map<number, Uint8Array> {
  const capture = CAPTURES.find((one) => one.name === `${name}.pcap`)
  const found = new Map<number, Uint8Array>()
  for (const frame of capture!.frames) {
    if (frame[12] !== 8 || frame[42] !== 0x64 || frame[29] !== 1) continue
    found.set(frame[MAD_AT + 17]!, frame)
  }
  return found
}

/** The frame, to the usual card, changed where `change` says. */
function toCard(frame: Uint8Array, change: (bytes: Uint8Array) => void = () => {}): Uint8Array {
  const bytes = frame.slice()
  bytes.set([2, 0, 0, 0, 0, 2], 0)
  bytes.set([10, 0, 0, 2], 30)
  change(bytes)
  writeIcrc(bytes)
  return bytes
}

/** A REQ has our address in it, too. */
function reqToCard(frame: Uint8Array): Uint8Array {
  return toCard(frame, (bytes) => bytes.set([10, 0, 0, 2], BODY_AT + 72 + 12))
}

function cardWith(port: number): TestCard {
  const card = new TestCard(1 << 19).format()
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
  publish(card, { port })
  return card
}

describe('the messages of Linux', () => {
  for (const [name, port] of [
    ['rxe-std-rpma05-pmem-direct', 7204],
    ['rxe-stock-rpma05-pmem-direct', 7204],
    ['rxe-std-rping', 7174],
  ] as const) {
    test(`${name}: REQ is accepted, RTU taken, DREQ answered`, () => {
      const frames = messagesIn(name)
      const card = cardWith(port)
      const req = frames.get(cm.CM_REQ)!
      const [reply] = messagesOf(card.serve(reqToCard(req)))
      const rep = repOf([reply!.sent])
      expect(rep.remoteId).toBe(u32(req, BODY_AT))
      expect(reply!.bytes.slice(8, 16)).toEqual(req.slice(MAD_AT + 8, MAD_AT + 16))
      const rtu = toCard(frames.get(cm.CM_RTU)!, (bytes) => {
        putU32(bytes, BODY_AT + cm.CM_REMOTE_ID, rep.localId)
      })
      expect(card.serve(rtu)).toEqual([])
      expect(card.counter('CONNECTION_FORM')).toBe(0)
      const qpn = u24(req, BODY_AT + 32)
      const qp = { number: rep.qpn, peer: qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
      const bytes = card.open('bytes')
      const write = writeFrames(qp, bytes, 0, dataOf(8, 1)).map((frame) => {
        const from = frame.slice()
        from.set(req.slice(26, 30), 26)
        writeIcrc(from)
        return from
      })
      const [ack] = card.serve(...write)
      expect([ack!.syndrome, ack!.packet.destQp]).toEqual([ACK, qpn])
      const dreq = toCard(frames.get(cm.CM_DREQ)!, (bytes) => {
        putU32(bytes, BODY_AT + cm.CM_REMOTE_ID, rep.localId)
        putU24(bytes, BODY_AT + 8, rep.qpn)
      })
      const [drep] = messagesOf(card.serve(dreq))
      expect(drep!.attribute).toBe(cm.CM_DREP)
      expect(drep!.bytes.slice(8, 16)).toEqual(dreq.slice(MAD_AT + 8, MAD_AT + 16))
    })
  }

  test('rxe-std-rping-reject: a port that nobody publishes gets the REJ that Linux gave', () => {
    const capture = CAPTURES.find(({ name }) => name === 'rxe-std-rping-reject.pcap')!
    const [req, rej] = capture.frames
    const [answer] = messagesOf(cardWith(1).serve(reqToCard(req!)))
    expect(answer!.bytes).toEqual(rej!.slice(MAD_AT, MAD_AT + cm.CM_BYTES))
  })

  test('the REJ that Linux sends when a client dies ends the connection', () => {
    const frames = messagesIn('rxe-std-rping')
    const card = cardWith(7174)
    const rep = repOf(card.serve(reqToCard(frames.get(cm.CM_REQ)!)))
    const capture = CAPTURES.find(({ name }) => name === 'rxe-std-rping-reject.pcap')!
    const rej = toCard(capture.frames[1]!, (bytes) => {
      bytes.set([10, 9, 0, 1], 26)
      putU32(bytes, BODY_AT + cm.CM_LOCAL_ID, rep.remoteId)
      putU32(bytes, BODY_AT + cm.CM_REMOTE_ID, rep.localId)
      bytes[BODY_AT + 11] = cm.REJECT_CONSUMER
    })
    expect(card.serve(rej)).toEqual([])
    expect(card.pass(1e9)).toEqual([])
    expect(card.counter('CONNECTION_FORM')).toBe(0)
  })
})
