/**
 * Congestion: marks of the network are told to the sender, notifications are counted
 * (IBTA A17.9; wire-format 3.9).
 */

import { expect, test } from 'vitest'
import { NOTIFICATION_US } from '../../../firmware/board/limits.ts'
import { CNP } from '../../../firmware/wire/opcode.ts'
import { bytesCard } from '../../support/cards/bytes-card.ts'
import { dataOf, persistFrames, readFrame, type Sent } from '../../support/cards/test-card.ts'
import { frameOf, hexOf, icrcIn, writeIcrc } from '../../support/wire/frames.ts'
import { icrcReference } from '../../support/wire/icrc-reference.ts'
import { connectIpv6, lines, sendFrames, writeFrames } from '../../support/wire/requests.ts'
import { VECTORS } from '../../support/wire/vectors.ts'

/** The frame, marked on its way: the ICRC does not cover the mark. */
function marked(frame: Uint8Array, ecn = 3): Uint8Array {
  const copy = frame.slice()
  if (copy[12] === 0x08) copy[15] = (copy[15]! & 0xfc) | ecn
  else copy[15] = (copy[15]! & 0xcf) | (ecn << 4)
  return copy
}

function notifications(sent: readonly Sent[]): Sent[] {
  return sent.filter(({ opcode }) => opcode === CNP)
}

function sumOf(bytes: Uint8Array, at: number): number {
  let sum = 0
  for (let i = 0; i < 20; i += 2) sum += bytes[at + i]! * 256 + bytes[at + i + 1]!
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
  return sum
}

test('a marked request is served, and its sender told, in the form that network cards use', () => {
  const one = bytesCard()
  const { card, qp, bytes } = one
  const base = qp.psn
  const sent = card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1)).map((f) => marked(f)))
  expect(lines(sent, base)).toEqual(['CNP', 'ACK 0'])
  const { bytes: frame, packet } = notifications(sent)[0]!
  const vector = VECTORS.find(({ name }) => name === 'hw-cnp-cx4')!.bytes
  // All of it but addresses, port, identification, queue pair, checksum and ICRC.
  const same = [12, 13, 14, 15, 16, 17, 20, 22, 23, 38, 39, 42, 43, 44, 45, 46]
  expect(same.map((i) => frame[i])).toEqual(same.map((i) => vector[i]))
  expect(hexOf(frame.slice(50, 70))).toBe(hexOf(vector.slice(50, 70)))
  expect(frame).toHaveLength(vector.length)
  expect(packet.destQp).toBe(qp.peer)
  expect(packet.psn).toBe(0)
  expect(sumOf(frame, 14)).toBe(0xffff)
  expect(icrcIn(frame, packet)).toBe(icrcReference(frame, 0, frame.length))
  expect(card.counter('CONGESTION_MARK')).toBe(1)
})

test('over IPv6 the mark is read and the notification sent alike', () => {
  const one = bytesCard()
  const { card, bytes } = one
  const qp = connectIpv6(card, 1024)
  const base = qp.psn
  const frames = writeFrames(qp, bytes, 0, dataOf(8, 1), { ipVersion: 6 })
  const sent = card.serve(...frames.map((frame) => marked(frame)))
  expect(lines(sent, base)).toEqual(['CNP', 'ACK 0'])
  const { bytes: frame, packet } = notifications(sent)[0]!
  expect(hexOf(frame.slice(14, 16))).toBe('6c20')
  // It goes back where the request came from.
  expect(hexOf(frame.slice(22, 38))).toBe(hexOf(frames[0]!.slice(38, 54)))
  expect(hexOf(frame.slice(38, 54))).toBe(hexOf(frames[0]!.slice(22, 38)))
  expect(icrcIn(frame, packet)).toBe(icrcReference(frame, 0, frame.length))
})

test('only packets that met congestion are told of', () => {
  for (const ecn of [0, 1, 2]) {
    const one = bytesCard()
    const { card, qp, bytes } = one
    const frames = writeFrames(qp, bytes, 0, dataOf(8, 1)).map((f) => marked(f, ecn))
    expect(notifications(card.serve(...frames))).toEqual([])
  }
})

test('a queue pair is told at most once in 50 µs, each on its own', () => {
  const one = bytesCard()
  const { card, qp, bytes } = one
  const other = card.connect(1024)
  const go = (which: typeof qp, afterUs: number): number => {
    card.now += afterUs - 10
    const frames = writeFrames(which, bytes, 0, dataOf(8, 1)).map((f) => marked(f))
    return notifications(card.serve(...frames)).length
  }
  expect(go(qp, 10)).toBe(1)
  expect(go(qp, NOTIFICATION_US - 1)).toBe(0)
  expect(go(other, 0)).toBe(1)
  expect(go(qp, 1)).toBe(1)
  expect(go(qp, NOTIFICATION_US - 1)).toBe(0)
  const burst = Array.from({ length: 32 }, () => writeFrames(qp, bytes, 0, dataOf(8, 1))[0]!)
  card.now += NOTIFICATION_US
  expect(notifications(card.serve(...burst.map((frame) => marked(frame))))).toHaveLength(1)
})

test('every kind of marked packet of a connection counts, a duplicate and one ahead, too', () => {
  const one = bytesCard()
  const { card, qp, bytes, records } = one
  const kinds = [
    writeFrames(qp, bytes, 0, dataOf(8, 1))[0]!,
    readFrame(qp, bytes, 0, 0, 8),
    sendFrames(qp, dataOf(8, 1))[0]!,
    persistFrames(qp, records, 0, dataOf(8, 1))[0]!,
  ]
  const ahead = writeFrames({ ...qp, psn: qp.psn + 5 }, bytes, 0, dataOf(8, 1))[0]!
  for (const frame of [...kinds, kinds[0]!, ahead]) {
    card.now += NOTIFICATION_US
    expect(notifications(card.serve(marked(frame)))).toHaveLength(1)
  }
})

test('a packet of no connection, of another peer or with a wrong ICRC is told to nobody', () => {
  const one = bytesCard()
  const { card, qp, bytes } = one
  const frame = (): Uint8Array => writeFrames({ ...qp }, bytes, 0, dataOf(8, 1))[0]!
  const unknown = marked(frame())
  unknown[49] = 0xee
  writeIcrc(unknown)
  const stranger = marked(frame())
  stranger[29] = 77
  writeIcrc(stranger)
  const broken = marked(frame())
  broken[60] = broken[60]! ^ 1
  for (const bad of [unknown, stranger, broken]) expect(card.serve(bad)).toEqual([])
  expect(card.counter('CONGESTION_MARK')).toBe(0)
})

test('a notification that we get is counted, never answered, and changes nothing', () => {
  const one = bytesCard()
  const { card, qp, bytes } = one
  const base = qp.psn
  const notification = frameOf({
    bth: { opcode: CNP, destQp: qp.number },
    payload: new Uint8Array(16),
  })
  expect(card.serve(notification, notification)).toEqual([])
  expect(card.counter('CONGESTION')).toBe(2)
  expect(lines(card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1))), base)).toEqual(['ACK 0'])
})
