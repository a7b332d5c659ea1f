/**
 * Registration as source 2 has it: the responder tells its client by a SEND which memory it may
 * use, and the client cannot use what it was not told (P2-1, P2-2).
 */

import { expect, test } from 'vitest'
import {
  BYTES_BASE_HIGH,
  BYTES_RIGHTS,
  FLUSH_PERSISTENT,
  REMOTE_READ,
  REMOTE_WRITE,
  WRITE_PERSIST,
  WRITE_PERSIST_REGION,
} from '../../../firmware/medium/region.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_ACKNOWLEDGE, RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import {
  dataOf,
  type Place,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { CLIENT, idsFrame, publish, repOf, reqFrame } from '../../support/wire/cm.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { readAnnouncement } from '../../support/wire/headers.ts'
import { ACK, flushFrame, writeFrames } from '../../support/wire/requests.ts'

const LENGTH = 65536
const NAK_ACCESS = 0x62

/** Connected to an announced region; the SENDs that came. */
function connected(options: { flags?: number; rights?: number } = {}): {
  card: TestCard
  qp: TestPeer
  sends: Sent[]
  private: Uint8Array
} {
  const card = new TestCard(1 << 19).format()
  const { flags = 0, rights = 0 } = options
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: LENGTH, flags })
  expect(publish(card, { form: mad.FORM_ANNOUNCED, rights }).fault).toBe('PASS')
  const rep = repOf(card.serve(reqFrame(CLIENT)))
  const sends = sendsOf(card.serve(idsFrame(CLIENT, cm.CM_RTU, rep.localId)))
  const qp = { number: rep.qpn, peer: CLIENT.qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
  return { card, qp, sends, private: rep.privateData }
}

function sendsOf(sent: readonly Sent[]): Sent[] {
  return sent.filter(({ opcode }) => opcode === RC_SEND_ONLY)
}

function acknowledged(card: TestCard, qp: TestPeer, psn: number): Sent[] {
  const bth = { opcode: RC_ACKNOWLEDGE, destQp: qp.number, psn }
  return card.serve(frameOf({ bth, aeth: { syndrome: ACK, msn: 1 }, payload: new Uint8Array(0) }))
}

test('P2-1, P2-2: once connected, the client is told start, length and flags by a SEND', () => {
  const { card, qp, sends, private: told } = connected()
  expect(told.every((byte) => byte === 0)).toBe(true)
  expect(sends.length).toBe(1)
  expect(sends[0]!.psn).toBe(CLIENT.psn)
  const said = readAnnouncement(sends[0]!.payload, 0)
  const { rkey } = card.open('bytes')
  expect(said).toEqual({
    addressHigh: BYTES_BASE_HIGH,
    addressLow: 0,
    lengthHigh: 0,
    lengthLow: LENGTH,
    rkey,
    rights: BYTES_RIGHTS,
  })
  acknowledged(card, qp, CLIENT.psn)
  const [answer] = card.serve(
    ...writeFrames(qp, { rkey, baseHigh: said.addressHigh }, 0, dataOf(64, 1)),
  )
  expect(answer!.syndrome).toBe(ACK)
})

test('P2-1, P2-2: write-persist is announced of what is registered so, and of nothing else', () => {
  for (const [flags, rights] of [
    [0, BYTES_RIGHTS],
    [WRITE_PERSIST_REGION, BYTES_RIGHTS | WRITE_PERSIST],
  ] as const) {
    const { sends } = connected({ flags })
    expect(readAnnouncement(sends[0]!.payload, 0).rights).toBe(rights)
  }
})

test('P2-1: rights that were not granted are not announced, and are refused', () => {
  const read = (qp: TestPeer, place: Place) => readFrame(qp, place, 0, 0, 8)
  const asks: readonly (readonly [number, (qp: TestPeer, place: Place) => Uint8Array[]])[] = [
    [REMOTE_WRITE, (qp, place) => writeFrames(qp, place, 0, dataOf(8, 1))],
    [REMOTE_READ, (qp, place) => [read(qp, place)]],
    [FLUSH_PERSISTENT, (qp, place) => [flushFrame(qp, place)]],
  ]
  for (const [granted] of asks) {
    for (const [asked, framesOf] of asks) {
      const { card, qp, sends } = connected({ rights: granted })
      const said = readAnnouncement(sends[0]!.payload, 0)
      expect(said.rights).toBe(granted)
      acknowledged(card, qp, CLIENT.psn)
      const place = { rkey: said.rkey, baseHigh: said.addressHigh }
      const isRefused = card.serve(...framesOf(qp, place)).some(({ syndrome }) => {
        return syndrome === NAK_ACCESS
      })
      expect(isRefused, `granted ${granted}, asked ${asked}`).toBe(asked !== granted)
    }
  }
})

test('P2-2: the announcement is sent again until it is acknowledged, then never', () => {
  const { card, qp, sends } = connected()
  const again: Sent[] = []
  for (let i = 0; i < 3; i++) {
    again.push(...sendsOf(card.pass(80_000)))
  }
  expect(again.length).toBe(3)
  for (const one of again) expect(one.payload).toEqual(sends[0]!.payload)
  acknowledged(card, qp, CLIENT.psn)
  expect(sendsOf(card.pass(5_000_000))).toEqual([])
})

test('P2-2: a client cannot use what it was not told', () => {
  const { rkey } = connected().card.open('bytes')
  for (const guess of [0, 1, rkey ^ 0x20, rkey ^ 0x80000000, rkey & 31]) {
    const { card: fresh, qp: pair } = connected()
    const place = { rkey: guess >>> 0, baseHigh: BYTES_BASE_HIGH }
    const [answer] = fresh.serve(...writeFrames(pair, place, 0, dataOf(8, 1)))
    expect(answer!.syndrome).toBe(NAK_ACCESS)
  }
})
