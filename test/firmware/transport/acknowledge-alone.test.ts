/**
 * Acknowledgements alone: every byte of each frame that is sent; and where one condition alone
 * decides: what is too far back, or too far apart.
 */

import { describe, expect, test } from 'vitest'
import { copy } from '../../../firmware/board/command-list.ts'
import { COMPARE, FENCE, RECEIVE_AT, TRANSMIT_AT } from '../../../firmware/board/hal.ts'
import {
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  TRANSMIT_FRAMES,
} from '../../../firmware/board/limits.ts'
import { LSB_AT, TEMPLATE_BYTES, ZEROS_AT } from '../../../firmware/board/memory-map.ts'
import { runBurst } from '../../../firmware/burst/burst.ts'
import { openPair } from '../../../firmware/burst/staging.ts'
import type { State } from '../../../firmware/core.ts'
import {
  acknowledgeCopies,
  answerRecord,
  copiesIn,
  packCopies,
  rememberGroup,
} from '../../../firmware/engine/receipt.ts'
import {
  acknowledgeable,
  answer,
  answerAck,
  answerBatch,
  answerDone,
  answerDuplicate,
  answerPersist,
  beginFrame,
  endFrame,
  isSamePeer,
  notifyCongestion,
  PERSIST_ALL,
  PERSIST_ANSWERS_QUERY,
  PERSIST_CUMULATIVE,
  PERSIST_DEGRADED,
  PERSIST_OF_BATCH,
  prepareTemplate,
  writeAck,
} from '../../../firmware/transport/acknowledge.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import {
  KIND_ATOMIC,
  KIND_ATOMIC_WRITE,
  KIND_FLUSH,
  KIND_READ,
  nextSaved,
  noteKind,
  type QueuePair,
  STATE_ERROR,
  STATE_OPEN,
} from '../../../firmware/transport/queue-pair.ts'
import { AETH_BYTES } from '../../../firmware/wire/aeth.ts'
import { u16 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import { blankIpv4, IPV4_BYTES, writeIpv4 } from '../../../firmware/wire/ipv4.ts'
import { IPV6_BYTES } from '../../../firmware/wire/ipv6.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  CNP,
  PERSIST_ACK,
  PERSIST_QUERY,
  RC_ACKNOWLEDGE,
  RC_READ_REQUEST,
  RC_READ_RESPONSE_ONLY,
  RC_WRITE_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import {
  MECHANISM_CPU_FLUSH,
  MECHANISM_LOCAL_FLUSH,
  MECHANISM_LSB_READ,
  MECHANISM_VOLATILE,
  type Paeth,
} from '../../../firmware/wire/persist-ack.ts'
import { blankUdp, writeUdp } from '../../../firmware/wire/udp.ts'
import { batchFrames, statuses } from '../../support/cards/batch-card.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { Dialogue, USUAL } from '../../support/wire/dialogue.ts'
import { type FrameParts, frameOf, hex, hexOf, writeIcrc } from '../../support/wire/frames.ts'
import {
  blankIpv6,
  readIpv4,
  readIpv6,
  readUdp,
  writeEthernet,
  writeIpv6,
} from '../../support/wire/headers.ts'
import { slotOffset } from '../../support/wire/requests.ts'

/** The way of a frame: from whom to whom, and the class of its traffic. */
interface Way {
  readonly ipVersion: 4 | 6
  readonly trafficClass: number
  readonly macs: readonly [number, number]
  /** As hex. */
  readonly addresses: readonly [string, string]
}

const MACS = [0xd6a5f3c98e71, 0x5ae1bc97f683] as const

/** The answer goes back, and bears no mark of congestion but its own. */
function backOn(way: Way, trafficClass: number = way.trafficClass & 0xfc): Way {
  const [from, to] = way.addresses
  const macs = [way.macs[1], way.macs[0]] as const
  return { ...way, trafficClass, macs, addresses: [to, from] }
}

/** The frame on that way, from that port. */
function sentOn(way: Way, frame: Uint8Array, sourcePort: number, flowLabel = 0): Uint8Array {
  const copy = frame.slice()
  const { trafficClass } = way
  const [source, destination] = way.addresses
  const type = u16(copy, 12)
  writeEthernet(copy, 0, { source: way.macs[0], destination: way.macs[1], type })
  const ip = way.ipVersion === 4 ? blankIpv4() : blankIpv6()
  if ('timeToLive' in ip) {
    readIpv4(ip, copy, ETHERNET_BYTES)
    const ends = { source: Number(`0x${source}`), destination: Number(`0x${destination}`) }
    writeIpv4(copy, ETHERNET_BYTES, { ...ip, ...ends, trafficClass })
  } else {
    readIpv6(ip, copy, ETHERNET_BYTES)
    const ends = { source: hex(source), destination: hex(destination) }
    writeIpv6(copy, ETHERNET_BYTES, { ...ip, ...ends, trafficClass, flowLabel })
  }
  const udpAt = ETHERNET_BYTES + (way.ipVersion === 4 ? IPV4_BYTES : IPV6_BYTES)
  const udp = blankUdp()
  readUdp(udp, copy, udpAt)
  writeUdp(copy, udpAt, { ...udp, sourcePort })
  writeIcrc(copy)
  return copy
}

/** Has the queue pair answer that way. Nothing that it sends may hang on what lies in memory. */
function goBack({ state }: Dialogue, qp: QueuePair, way: Way): void {
  const { bytes } = state
  const request = { opcode: RC_READ_REQUEST, destQp: qp.number }
  const frame = sentOn(way, frameOf({ ipVersion: way.ipVersion, bth: request }), 0xfedc, 0xfffff)
  const at = RECEIVE_AT + FRAME_OFFSET_BYTES
  bytes.set(frame, at)
  bytes.fill(0xa5, qp.templateAt, qp.templateAt + TEMPLATE_BYTES)
  bytes.fill(0xa5, TRANSMIT_AT, TRANSMIT_AT + TRANSMIT_FRAMES * FRAME_STRIDE_BYTES)
  const packet = blankPacket()
  checkPacket(packet, bytes, at, frame.length)
  prepareTemplate(qp, bytes, packet)
}

const RANGE = {
  ...{ firstPsn: 0xf1e2d3, lastPsn: 0xf1e2d5, operationHigh: 0x81b2c3d4, operationLow: 0x95a6b7c8 },
  ...{ records: 0x0102, status: 0x8f, copies: 3, mechanism: 9, segment: 5 },
}
const INCARNATION = 0xe7d6c5b4

/** The words of a bitmap, as numbers. */
const BITMAP = [0xa1b2c3d4, 0x95867788, 0x80000001, 0, 0, 0, 0, 0]

const paeth = {
  ...{ firstPsn: RANGE.firstPsn, lastPsn: RANGE.lastPsn, status: RANGE.status },
  ...{ operationHigh: RANGE.operationHigh, operationLow: RANGE.operationLow },
  ...{ records: RANGE.records, copies: RANGE.copies, mechanism: RANGE.mechanism },
  incarnation: INCARNATION,
}

interface Kind {
  readonly name: string
  readonly send: (state: State, qp: QueuePair) => void
  readonly parts: FrameParts
  readonly trafficClass?: number
}

const MSN = 0xa9b8c7
const FIVE = dataOf(5, 1)
const PSN = 0xf1e2d5
const sayRange = (flags: number): Kind['send'] => {
  return ({ answers }, qp) => answerPersist(answers, qp, { ...RANGE, flags }, INCARNATION)
}
const sayBatch = (count: number): Kind['send'] => {
  const batch = { id: 0xd1e2, count, durable: 0xc7, bitmap: Uint32Array.from(BITMAP) }
  const range = { ...RANGE, flags: PERSIST_OF_BATCH }
  return ({ answers }, qp) => answerBatch(answers, qp, range, batch, INCARNATION)
}
const batchOf = (batchCount: number, words: number): FrameParts => {
  const said = { batch: true, batchId: 0xd1e2, batchDurable: 0xc7, bitmapWords: words }
  const text = BITMAP.slice(0, words).map((word) => word.toString(16).padStart(8, '0'))
  return {
    bth: { opcode: PERSIST_ACK },
    paeth: { ...paeth, ...said, batchCount },
    payload: hex(text.join('')),
  }
}

const KINDS: readonly Kind[] = [
  {
    name: 'ACK',
    send: ({ answers }, qp) => answer(answers, qp, PSN, 0x1f),
    parts: { bth: { opcode: RC_ACKNOWLEDGE } },
  },
  {
    name: 'NAK',
    send: ({ answers }, qp) => answer(answers, qp, PSN, 0x62),
    parts: { bth: { opcode: RC_ACKNOWLEDGE }, aeth: { syndrome: 0x62 } },
  },
  {
    name: 'answer to a FLUSH',
    send: ({ answers }, qp) => answerDone(answers, qp, PSN, 0x818283),
    parts: { bth: { opcode: RC_READ_RESPONSE_ONLY }, aeth: { msn: 0x818283 } },
  },
  {
    name: 'response to a READ of five bytes',
    send: ({ answers }, qp) => {
      const behind = AETH_BYTES + FIVE.length + 3
      const end = beginFrame(answers, qp, RC_READ_RESPONSE_ONLY, PSN, behind, 3)
      writeAck(answers.bytes, end, MSN)
      answers.bytes.set([...FIVE, 0, 0, 0], end + AETH_BYTES)
      endFrame(answers, qp, end, behind)
    },
    parts: { bth: { opcode: RC_READ_RESPONSE_ONLY }, payload: FIVE },
  },
  {
    name: 'notification of congestion',
    send: ({ answers }, qp) => notifyCongestion(answers, qp),
    parts: { bth: { opcode: CNP, psn: 0 }, payload: new Uint8Array(16) },
    trafficClass: 0xc2,
  },
  ...[
    { flags: PERSIST_ALL, said: { all: true } },
    { flags: PERSIST_DEGRADED, said: { degraded: true } },
    { flags: PERSIST_ANSWERS_QUERY | PERSIST_CUMULATIVE, said: { query: true, cumulative: true } },
    { flags: 0, said: {} },
  ].map(({ flags, said }) => ({
    name: `PERSIST_ACK, flags ${flags}`,
    send: sayRange(flags),
    parts: { bth: { opcode: PERSIST_ACK }, paeth: { ...paeth, ...said } },
  })),
  { name: 'status of 33 records', send: sayBatch(33), parts: batchOf(33, 2) },
  { name: 'status of 96 records', send: sayBatch(96), parts: batchOf(96, 3) },
]

/** Bytes of IPv4 in an acknowledgement, and in a notification. */
const SUMMED = { ack: 48, notification: 60 }

/** A way over IPv4 whose answers have headers with that sum, except for length and class. */
function wayOfSum(sum: number, trafficClass: number): Way {
  // Version, fragment word, hops with protocol; three of the four words of the addresses.
  const rest = 0x4500 + 0x4000 + 0x4011 + 0xcb71 + 0xfba7 + 0xc6d3
  const last = (sum - rest).toString(16).padStart(4, '0')
  return { ipVersion: 4, trafficClass, macs: MACS, addresses: ['cb71fba7', `c6d3${last}`] }
}

const WAYS: readonly Way[] = [
  // Sums whose carry carries again, and the nearest that do not.
  ...[0x3fffe, 0x3ffff, 0x40000].flatMap((sum) => [
    wayOfSum(sum - SUMMED.ack - 0xfc, 0xff),
    wayOfSum(sum - SUMMED.notification - 0xc2, 0x03),
  ]),
  { ipVersion: 4, trafficClass: 0x5a, macs: MACS, addresses: ['0a000001', '0a000002'] },
  ...[0x00, 0x5b, 0xa6, 0xff].map((trafficClass) => ({
    ...{ ipVersion: 6 as const, trafficClass, macs: MACS },
    addresses: ['fd8192a3b4c5d6e7f8091a2b3c4d5e6f', 'fe9fa8b7c6d5e4f3021324354657687b'] as const,
  })),
]

describe('every byte of an answer', () => {
  // Of an even place in the table, so that its port is told from any other.
  const beginning = { ...USUAL, localQp: 0x12 }
  const dialogue = new Dialogue(beginning, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
  const { state, queuePair: qp } = dialogue
  qp.messageSequence = MSN

  for (const { name, send, parts, trafficClass } of KINDS) {
    test(`${name}: back where the request came from, on each way`, () => {
      for (const way of WAYS) {
        goBack(dialogue, qp, way)
        send(state, qp)
        const [sent] = dialogue.serve()
        const bth = { psn: PSN, destQp: USUAL.remoteQp, ...parts.bth }
        const aeth = { msn: MSN, ...parts.aeth }
        const frame = frameOf({ ...parts, ipVersion: way.ipVersion, bth, aeth })
        const whole = sentOn(backOn(way, trafficClass), frame, 0xc000 + qp.index)
        expect(hexOf(sent!.bytes), JSON.stringify(way)).toBe(hexOf(whole))
      }
    })
  }
})

test('who has sent a request, and to whom, is told by every byte of the addresses', () => {
  for (const way of [WAYS[0]!, WAYS.at(-1)!]) {
    const request = frameOf({
      ipVersion: way.ipVersion,
      bth: {
        opcode: RC_WRITE_ONLY,
        destQp: USUAL.localQp,
        psn: USUAL.expectedPsn,
        ackRequest: true,
      },
      reth: { vaHigh: USUAL.vaHigh, vaLow: 0, rkey: USUAL.rkey, length: 8 },
      payload: dataOf(8, 1),
    })
    const frame = sentOn({ ...way, trafficClass: 0 }, request, 0xfedc)
    const dialogue = new Dialogue(USUAL, frame)
    const [from, end] = way.ipVersion === 4 ? [26, 34] : [22, 54]
    const macs = [0, 1, 2, 3, 4, 5]
    for (const at of [...macs, ...Array.from({ length: end - from }, (_, i) => from + i)]) {
      for (const bit of [1, 0x80]) {
        const other = frame.slice()
        other[at] = other[at]! ^ bit
        writeIcrc(other)
        expect(dialogue.serve(other), `byte ${at}`).toEqual([])
      }
    }
    expect(dialogue.serve(frame).map(({ syndrome }) => syndrome)).toEqual([0x1f])
  }
})

test('D-5: the flags of a receipt, and none that has no name', () => {
  const card = new TestCard(1 << 18).format()
  const region = card.provision({ slots: 8 })
  const qp = card.connect()
  const flags = (frames: readonly Uint8Array[]): number[] =>
    card.serve(...frames).flatMap(({ bytes, packet, opcode }) => {
      return opcode === PERSIST_ACK ? [bytes[packet.bthAt + 12 + 4 + 1]!] : []
    })
  const record = (slot: number): Uint8Array[] => persistFrames(qp, region, slot, dataOf(64, slot))
  expect(flags(record(0))).toEqual([0x80])
  expect(flags(record(99))).toEqual([0])
  const batch = [1, 2].map((slot) => ({ slot, data: dataOf(64, slot) }))
  expect(flags(batchFrames(qp, region, batch))).toEqual([0xa0])
  // Of a client that has done nothing; then all that it has done is durable without a gap.
  const other = card.connect(4096, 0, 12)
  const query = (): Uint8Array => {
    const { psn } = other
    other.psn = (psn + 1) & 0xffffff
    const bth = { opcode: PERSIST_QUERY, destQp: other.number, psn, ackRequest: true }
    return frameOf({ bth, pqeth: { operationLow: 1 } })
  }
  expect(flags([query()])).toEqual([0x10])
  card.serve(...persistFrames(other, region, 4, dataOf(64, 4), { operation: 1 }))
  expect(flags([query()])).toEqual([0x50])
  // The medium takes the first copy, and not the second one that it is to wait for.
  card.nvdimm.refuseWrites(slotOffset(region, 1, 3) / 64)
  expect(flags(record(3))).toEqual([0x08])
})

test('R1-A4: peers are one only if every byte of their addresses is the same', () => {
  const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
  const { bytes } = dialogue.state
  const one = dialogue.queuePair
  const other: QueuePair = { ...one, templateAt: one.templateAt + TEMPLATE_BYTES }
  for (const way of [WAYS[0]!, WAYS.at(-1)!]) {
    goBack(dialogue, one, way)
    goBack(dialogue, other, {
      ...way,
      macs: [1, 2],
      addresses: [way.addresses[0], way.addresses[0]],
    })
    expect(isSamePeer(one, other, bytes)).toBe(true)
    for (let digit = 0; digit < way.addresses[0].length; digit++) {
      const digits = [...way.addresses[0]]
      digits[digit] = (Number.parseInt(digits[digit]!, 16) ^ 1).toString(16)
      goBack(dialogue, other, { ...way, addresses: [digits.join(''), way.addresses[1]] })
      expect(isSamePeer(one, other, bytes), digits.join('')).toBe(false)
    }
  }
  goBack(dialogue, other, WAYS[0]!)
  expect([isSamePeer(one, other, bytes), isSamePeer(other, one, bytes)]).toEqual([false, false])
})

test('any number of answers leave whole and in order, and lie in no memory but theirs', () => {
  const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
  const { state, queuePair: qp } = dialogue
  const end = TRANSMIT_AT + TRANSMIT_FRAMES * FRAME_STRIDE_BYTES
  const around = (): string =>
    hexOf(state.bytes.slice(TRANSMIT_AT - 64, TRANSMIT_AT)) +
    hexOf(state.bytes.slice(end, end + 64))
  const sent = dialogue.serve()
  const before = around()
  const all = 3 * TRANSMIT_FRAMES + 1
  const first = state.list.runs
  for (let i = 0; i < all; i++) {
    answer(state.answers, qp, i, 0x1f)
    // A group relies on it: nothing is run before every place is taken.
    expect(state.list.runs - first).toBe(Math.floor(i / TRANSMIT_FRAMES))
  }
  runBurst(state)
  expect(sent.map(({ psn }) => psn)).toEqual(Array.from({ length: all }, (_, i) => i))
  expect(around()).toBe(before)
})

test('H7: what cannot be read is answered by a NAK to its own, and takes nobody else along', () => {
  const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
  const { state, queuePair: middle, nvdimm, region } = dialogue
  const { answers, list } = state
  const [before, behind] = [middle.number - 1, middle.number + 1].map((number) => {
    const qp = openPair(state, number, {
      ...{ peerNumber: 0x5000 + number, clientHigh: 0, clientLow: 1, pathMtu: 1024 },
      ...{ protectionDomain: 0, expectedPsn: USUAL.expectedPsn as Psn },
    })
    goBack(dialogue, qp, WAYS[0]!)
    return qp
  })
  goBack(dialogue, middle, WAYS[0]!)
  const sent = dialogue.serve()
  const psn = 0x80
  nvdimm.poison(region.at / 64)
  answer(answers, before!, psn, 0x1f)
  answer(answers, middle, psn - 1, 0x1f)
  const end = beginFrame(answers, middle, RC_READ_RESPONSE_ONLY, psn, AETH_BYTES + 64, 0)
  copy(list, region.base, end + AETH_BYTES, 64)
  endFrame(answers, middle, end, AETH_BYTES + 64)
  // Nobody's: it is done in any case.
  state.bytes.fill(1, LSB_AT, LSB_AT + 8)
  copy(list, ZEROS_AT, LSB_AT, 8)
  answer(answers, middle, psn + 1, 0x1f)
  answer(answers, behind!, psn, 0x1f)
  expect(list.owner).toBe(0)
  runBurst(state)
  runBurst(state)
  const said = sent.map((one) => [one.packet.destQp, one.psn, one.syndrome])
  expect(said).toEqual([
    [before!.peerNumber, psn, 0x1f],
    [middle.peerNumber, psn - 1, 0x1f],
    [behind!.peerNumber, psn, 0x1f],
    [middle.peerNumber, psn, 0x63],
  ])
  expect(hexOf(state.bytes.slice(LSB_AT, LSB_AT + 8))).toBe('00'.repeat(8))
  const states = [before!, middle, behind!].map((qp) => qp.state)
  expect(states).toEqual([STATE_OPEN, STATE_ERROR, STATE_OPEN])
})

/** What a queue pair has taken: so many PSNs each, and whether it has a response of its own. */
const TAKEN: readonly { readonly psns: number; readonly kind: number }[] = [
  ...[KIND_READ, 0, 0, KIND_ATOMIC, 0, KIND_READ, 0, KIND_FLUSH, KIND_ATOMIC_WRITE, 0, 0].map(
    (kind) => ({ kind, psns: kind === KIND_READ ? 3 : 1 }),
  ),
  { kind: KIND_READ, psns: 1 },
  { kind: 0, psns: 1 },
]

/** Where each of them begins. */
const BEGINS: readonly number[] = TAKEN.map((_, i) => lengthOf(TAKEN.slice(0, i)))

function lengthOf(taken: typeof TAKEN): number {
  return taken.reduce((sum, { psns }) => sum + psns, 0)
}

/** A queue pair that has taken them, the first with PSN `base`. */
function takenFrom(dialogue: Dialogue, base: number, taken: typeof TAKEN): QueuePair {
  const { queuePair: qp } = dialogue
  qp.used = true
  qp.kindPsn.fill(-1)
  qp.savedCount = 0
  for (const one of qp.saved) one.kind = 0
  taken.forEach(({ kind, psns }, i) => {
    const psn = (base + BEGINS[i]!) & 0xffffff
    if (kind !== 0) noteKind(qp, psn, kind)
    if (kind === KIND_READ || kind === KIND_ATOMIC) {
      Object.assign(nextSaved(qp), { kind, psn, packets: psns })
    }
  })
  qp.expectedPsn = ((base + lengthOf(taken)) & 0xffffff) as Psn
  return qp
}

/** PSN, as counted from the first, that a duplicate earns where nothing is held back; or -1. */
function earned(psn: number, taken: typeof TAKEN): number {
  const own = taken.findIndex(({ psns }, i) => psn < BEGINS[i]! + psns)
  if (taken[own]!.kind !== 0) return -1
  const next = taken.findIndex(({ kind }, i) => i > own && kind !== 0)
  return (next < 0 ? lengthOf(taken) : BEGINS[next]!) - 1
}

interface Held {
  readonly name: string
  /** No acknowledgement goes up to that one; Infinity if nothing is held back. */
  readonly from: number
  readonly hold: (state: State, qp: QueuePair, psn: number) => void
}

const HELD: readonly Held[] = [
  { name: 'nothing', from: Infinity, hold: () => {} },
  ...[0, 4, 8, 15].flatMap((from) => [
    {
      ...{ name: `an answer at ${from}`, from },
      hold: (_: State, qp: QueuePair, psn: number): void => {
        qp.unanswered = 1
        qp.ackLimit = ((psn - 1) & 0xffffff) as Psn
      },
    },
    {
      ...{ name: `a store at ${from}`, from },
      hold: ({ list }: State, qp: QueuePair, psn: number): void => {
        qp.withheldAt = list.fences
        qp.withheldFrom = psn as Psn
      },
    },
    {
      ...{ name: `a record at ${from}`, from },
      hold: ({ answers }: State, qp: QueuePair, psn: number): void => {
        qp.recordAt = answers.groups
        qp.withheldFrom = psn as Psn
      },
    },
  ]),
]

describe('X-3, P2-28: how far an acknowledgement goes', () => {
  // Also where the PSNs come round, at each of the requests.
  const bases = [0x100, ...BEGINS.map((begin) => (0x1000000 - begin) & 0xffffff)]
  // And where the last of them has a response of its own.
  const begun = bases.flatMap((base) =>
    [TAKEN, TAKEN.slice(0, -1)].map((taken) => ({ base, taken })),
  )

  for (const { name, from, hold } of HELD) {
    test(`of a duplicate, of all, and of a receipt, while there waits: ${name}`, () => {
      const example = frameOf({ bth: { opcode: RC_READ_REQUEST } })
      const dialogue = new Dialogue(USUAL, example)
      const { state } = dialogue
      const { answers } = state
      for (const { base, taken } of begun) {
        const qp = takenFrom(dialogue, base, taken)
        qp.ackDue = true
        hold(state, qp, (base + from) & 0xffffff)
        const end = lengthOf(taken)
        const asked = Array.from({ length: end }, (_, psn) => psn)
        for (const psn of asked) answerDuplicate(answers, qp, (base + psn) & 0xffffff)
        answerAck(answers, qp)
        const lastPsn = (base + 2) & 0xffffff
        answerPersist(answers, qp, { ...RANGE, lastPsn, flags: 0 }, INCARNATION)
        const sent = dialogue.serve().map(({ psn }) => ((psn - base) << 8) >> 8)
        const repeated = asked.flatMap((psn) => {
          const last = Math.min(earned(psn, taken), from - 1)
          return last < psn ? [] : [last]
        })
        expect(sent, `from 0x${base.toString(16)}`).toEqual([
          ...repeated,
          Math.min(end, from) - 1,
          Math.min(2, from - 1),
        ])
        // A receipt names its records all the same, and nothing is due any more.
        expect(qp.ackDue).toBe(false)
      }
    })
  }

  test('of a duplicate on a queue pair that has taken nothing: nowhere', () => {
    const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
    answerDuplicate(dialogue.state.answers, dialogue.queuePair, USUAL.expectedPsn - 1)
    expect(dialogue.serve()).toEqual([])
  })
})

test('C9: a request of half a lap before holds back no acknowledgement of a duplicate', () => {
  const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
  const { queuePair: qp, state } = dialogue
  const acks = (psn: number): number => {
    const { count } = state.list
    answerDuplicate(state.answers, qp, psn)
    return state.list.count - count
  }
  qp.used = true
  noteKind(qp, 0x10, KIND_READ)
  // The response of a READ behind the duplicate may be what was lost: silence makes them ask.
  qp.expectedPsn = 0x12 as Psn
  expect(acks(0x10)).toBe(0)
  // As it is at half a lap, where the oldest duplicates are.
  qp.expectedPsn = (0x10 + 0x800000) as Psn
  expect(acks(0x10)).toBe(0)
  // Far behind, its number says nothing of what is asked now.
  qp.expectedPsn = (0x12 + 0x800000) as Psn
  expect(acks(0x10 + 0x800000)).toBe(1)
  // What has become older than that, while it was put off, is acknowledged no more.
  qp.expectedPsn = (0x11 + 0x800000) as Psn
  expect([0x10, 0x0f].map((psn) => acks(psn))).toEqual([0, 0])
})

test('N10: half a lap from what holds it back an acknowledgement is behind that, and goes', () => {
  const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
  const { queuePair: qp, state } = dialogue
  qp.unanswered = 1
  for (const limit of [0x100, 0x7fffff, 0x800000, 0xffffff]) {
    qp.ackLimit = limit as Psn
    const upTo = (distance: number): number => {
      const psn = (limit + distance) & 0xffffff
      return (acknowledgeable(state.answers, qp, psn) - limit) & 0xffffff
    }
    const asked = [0, 1, 0x7fffff, 0x800000, 0x800001, 0xffffff]
    expect(asked.map(upTo)).toEqual([0, 0, 0, 0x800000, 0x800001, 0xffffff])
  }
})

test('P2-14: no range of an acknowledgement spans 256 packets, with READs between records', () => {
  const card = new TestCard(1 << 20).format()
  const records = card.provision({ slots: 8 })
  const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 1 << 16 })
  const qp = card.connect(256)
  const first = qp.psn
  const read = (): Uint8Array => readFrame(qp, bytes, 0, 0, 60 * 256)
  const frames = [
    ...persistFrames(qp, records, 0, dataOf(64, 1)),
    ...[read(), read(), read(), read(), read()],
    ...persistFrames(qp, records, 1, dataOf(64, 2)),
  ]
  const ranges = persistAcks(card.serve(...frames)).map((one) => [
    one.firstPsn - first,
    one.records,
  ])
  expect(ranges).toEqual([
    [0, 1],
    [301, 1],
  ])
})

describe('D-5, X-1: the ranges of a burst', () => {
  interface Asked {
    readonly wait: number
    readonly wantsAck: boolean
    readonly refused?: boolean
  }

  /** First and last of each range, level by level; what waits for more, or is refused, ends one. */
  function rangesOf(asked: readonly Asked[], copies: number): unknown[] {
    const ranges: { first: number; last: number; records: number; copies: number }[] = []
    for (let level = 1; level <= copies; level++) {
      let open = -1
      asked.forEach(({ wait, wantsAck, refused = false }, i) => {
        if (wait > level || refused) open = -1
        else if (wait === level && wantsAck && open < 0) {
          open = ranges.push({ first: i, last: i, records: 1, copies: level }) - 1
        } else if (wait === level && wantsAck) {
          ranges[open]!.last = i
          ranges[open]!.records += 1
        }
      })
    }
    return ranges
  }

  const COPIES = 3
  const waits = [1, 2, 3]
  const rest = waits.flatMap((a) => waits.flatMap((b) => waits.map((c) => [a, b, c])))

  function askedOf(card: TestCard, qp: TestPeer, asked: readonly Asked[], at: number): Ask {
    const region = card.open()
    const base = qp.psn
    const frames = asked.map(({ wait, wantsAck }, i) => {
      const operationHigh = 0x80000000 + at + i
      const options = { wait, wantsAck, operationHigh }
      return persistFrames(qp, region, at + i, dataOf(64, at + i), options)[0]!
    })
    return { base, frames, peer: qp.peer, last: qp.operation, at }
  }

  interface Ask {
    readonly base: number
    readonly frames: readonly Uint8Array[]
    readonly peer: number
    readonly last: number
    readonly at: number
  }

  /** What was said to that one of records that are durable. */
  function saidOf(sent: readonly Sent[], { base, peer, frames, last, at }: Ask): unknown[] {
    const own = sent.filter(({ packet }) => packet.destQp === peer)
    return persistAcks(own).flatMap((one) => {
      const [first, end] = [one.firstPsn, one.lastPsn].map((psn) => (psn - base) & 0xffffff)
      if (one.status !== 0) return []
      expect(one.operationLow).toBe(last - (frames.length - 1 - end!))
      expect(one.operationHigh).toBe(0x80000000 + at + end!)
      const { records, copies } = one
      return [{ first, last: end, records, copies }]
    })
  }

  test('of the items of a group, wherever the last group has left others behind it', () => {
    const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
    const { state, queuePair: qp, region } = dialogue
    const { commit } = state
    const put = (i: number, wait: number): void => {
      const fields = { owner: qp.index, psn: i, wait, wantsAck: true, region }
      Object.assign(commit.items[i]!, fields)
    }
    for (const three of rest) {
      three.forEach((wait, i) => {
        put(i, wait)
      })
      for (const wait of three) put(3, wait)
      commit.count = 3
      for (const level of waits) acknowledgeCopies(state, level)
      commit.count = 0
      const said = persistAcks(dialogue.serve()).map(({ firstPsn, lastPsn, records, copies }) => {
        return { first: firstPsn, last: lastPsn, records, copies }
      })
      const asked = three.map((wait) => ({ wait, wantsAck: true }))
      expect(said, `${three}`).toEqual(rangesOf(asked, COPIES))
    }
  })

  test.each(waits)('two queue pairs, that wait for all sorts of copies, first %i', (first) => {
    const card = new TestCard(1 << 18).format()
    card.provision({ slots: 8, copies: COPIES })
    const [one, two] = [card.connect(), card.connect()]
    for (const [i, more] of rest.entries()) {
      const asked = [first, ...more].map((wait, j) => ({ wait, wantsAck: i % 5 !== j }))
      const other = asked.toReversed()
      const [mine, theirs] = [askedOf(card, one, asked, 0), askedOf(card, two, other, 4)]
      const sent = card.serve(...mine.frames.flatMap((frame, j) => [frame, theirs.frames[j]!]))
      expect(saidOf(sent, mine), `${first}, ${more}`).toEqual(rangesOf(asked, COPIES))
      expect(saidOf(sent, theirs), `${first}, ${more}`).toEqual(rangesOf(other, COPIES))
    }
  })

  test('of which the medium refuses one: no range spans it, and it is said alone', () => {
    for (const place of [0, 1, 2, 3]) {
      for (const wait of waits) {
        const card = new TestCard(1 << 18).format()
        const region = card.provision({ slots: 8, copies: COPIES })
        const asked = [0, 1, 2, 3].map((i) => ({ wait, wantsAck: true, refused: i === place }))
        card.nvdimm.refuseWrites(slotOffset(region, 0, place) / 64)
        const mine = askedOf(card, card.connect(), asked, 0)
        const sent = card.serve(...mine.frames)
        expect(saidOf(sent, mine)).toEqual(rangesOf(asked, COPIES))
        const refused = persistAcks(sent).filter(({ status }) => status !== 0)
        const psn = (mine.base + place) & 0xffffff
        expect(refused).toMatchObject([{ firstPsn: psn, lastPsn: psn, records: 1, all: false }])
        expect(card.counter('MEDIA') + card.counter('IN_DOUBT')).toBe(1)
      }
    }
  })

  const mixed = [0, 1, 2].flatMap((batched) => waits.map((wait) => ({ batched, wait })))

  test.each(mixed)(
    '$batched batches beside records, for $wait copies: each behind its fence',
    ({ batched, wait }) => {
      const card = new TestCard(1 << 18).format()
      const region = card.provision({ slots: 8, copies: COPIES })
      const frames = [0, 1, 2].flatMap((i) => {
        const qp = card.connect()
        if (i >= batched) return persistFrames(qp, region, i, dataOf(64, i), { wait })
        return batchFrames(qp, region, [{ slot: i, data: dataOf(64, i), wait }])
      })
      const fences: number[] = []
      let done = 0
      let seen = 0
      card.machine.observe({
        onCommand: (_, op) => {
          for (; seen < card.sent.length; seen++) {
            if (card.sent[seen]!.opcode === PERSIST_ACK) fences.push(done)
          }
          if (op === FENCE) done += 1
        },
      })
      card.serve(...frames)
      const rest = persistAcks(card.sent.slice(seen)).map(() => done)
      card.machine.observe({})
      // Of the lanes, of the first copy, of the phase; then one for each further copy.
      const own = wait + 2
      expect([...fences, ...rest], `${batched} ${wait}`).toEqual([own, own, own])
      expect(done).toBe(2 + COPIES)
    },
  )

  test('X-3: again, each record earns what it has earned, whatever that was', () => {
    for (const refusing of [-1, 0, 2]) {
      const card = new TestCard(1 << 18).format()
      const region = card.provision({ slots: 8, copies: COPIES })
      if (refusing >= 0) card.nvdimm.refuseWrites(slotOffset(region, refusing, 3) / 64)
      const qp = card.connect()
      const frames = [1, 2, 3, 3].flatMap((wait, slot) =>
        persistFrames(qp, region, slot, dataOf(64, slot), { wait, operationHigh: 0x81000000 }),
      )
      const receiptOf = (sent: readonly Sent[], psn: number): unknown[] =>
        persistAcks(sent).flatMap((one) => {
          if (((psn - one.firstPsn) & 0xffffff) > one.lastPsn - one.firstPsn) return []
          const { status, copies, mechanism, all, degraded } = one
          return [{ status, copies, mechanism, all, degraded }]
        })
      const base = (qp.psn - 4) & 0xffffff
      const first = card.serve(...frames)
      frames.forEach((frame, i) => {
        const psn = (base + i) & 0xffffff
        const earned = receiptOf(first, psn)
        expect(earned).toHaveLength(1)
        const again = card.serve(frame)
        expect(receiptOf(again, psn), `${refusing} ${i}`).toEqual(earned)
        const [{ operationHigh, operationLow, records }] = persistAcks(again) as [Paeth]
        expect([operationHigh, operationLow, records]).toEqual([
          ...[0x81000000, qp.operation - 3 + i, 1],
        ])
      })
      // Refused before the first copy was whole, or behind the second.
      const status = [0, 2].includes(refusing) ? expect.any(Number) : 0
      const copies = refusing < 0 ? 3 : refusing
      expect(receiptOf(first, (base + 3) & 0xffffff)).toMatchObject([
        { status, copies, all: refusing < 0, degraded: refusing === 2 },
      ])
    }
  })

  test('D-5: what was refused between records, or acknowledged by itself, parts them', () => {
    const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
    const { state, queuePair: qp, region } = dialogue
    const segments = [3, 3, 4, 4, 4, 9, 3]
    segments.forEach((segment, psn) => {
      const fields = { owner: qp.index, psn, wait: 1, wantsAck: true, segment, region }
      Object.assign(state.commit.items[psn]!, fields)
    })
    state.commit.count = segments.length
    acknowledgeCopies(state, 1)
    state.commit.count = 0
    const said = persistAcks(dialogue.serve()).map((one) => [one.firstPsn, one.records])
    expect(said).toEqual([
      ...[
        [0, 2],
        [2, 3],
      ],
      ...[
        [5, 1],
        [6, 1],
      ],
    ])
  })

  test('P1-11: a late success is told to who wants it, a refusal to everybody', () => {
    for (const wantsAck of [true, false]) {
      for (const isTaken of [true, false]) {
        const card = new TestCard(1 << 18).format()
        const region = card.provision({ slots: 8 })
        const qp = card.connect()
        const line = slotOffset(region, 1, 3) / 64
        card.nvdimm.refuseWrites(line)
        let fences = 0
        card.machine.observe({
          onCommand: (_, op) => {
            if (op === FENCE) fences += 1
            // Behind the fence of the phase the repair begins with a look at the copies.
            if (isTaken && fences >= 3 && op === COMPARE) card.nvdimm.refuseWrites(line, false)
          },
        })
        const sent = card.serve(...persistFrames(qp, region, 3, dataOf(64, 1), { wantsAck }))
        card.machine.observe({})
        const late = wantsAck ? [{ status: 0, copies: 2, all: true }] : []
        const refused = [{ status: 0x8f, copies: 1, all: false }]
        const said = persistAcks(sent).map(({ status, copies, all }) => ({ status, copies, all }))
        expect(said, `${wantsAck} ${isTaken}`).toEqual(isTaken ? late : refused)
        const counted = ['MEDIA', 'IN_DOUBT'].map((name) => card.counter(name))
        expect(counted).toEqual([0, isTaken ? 0 : 1])
      }
    }
  })

  test('D-10: a batch of which the medium refuses one has its status, and so has the next', () => {
    const card = new TestCard(1 << 18).format()
    const region = card.provision({ slots: 8 })
    const qp = card.connect()
    const records = [0, 1, 2].map((slot) => ({ slot, data: dataOf(64, slot) }))
    card.nvdimm.refuseWrites(slotOffset(region, 0, 1) / 64)
    const refused = statuses(card.serve(...batchFrames(qp, region, records)))
    expect(refused.map(({ durable }) => durable)).toEqual([[0, 2]])
    expect(refused[0]!.said).not.toBe('durable')
    card.nvdimm.refuseWrites(slotOffset(region, 0, 1) / 64, false)
    const next = statuses(card.serve(...batchFrames(qp, region, records, { id: 2 })))
    expect(next.map(({ durable, said }) => [durable, said])).toEqual([[[0, 1, 2], 'durable']])
  })

  test('P2-15: records that became durable in different ways share none', () => {
    const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
    const { state, queuePair: qp, region } = dialogue
    const { commit } = state
    const mechanisms = [1, 1, 2, 2, 1, 2, 3]
    mechanisms.forEach((mechanism, psn) => {
      const item = commit.items[psn]!
      const fields = { owner: qp.index, psn, wait: 1, wantsAck: true, operationLow: psn }
      Object.assign(item, { ...fields, region: { ...region, mechanism } })
    })
    commit.count = mechanisms.length
    acknowledgeCopies(state, 1)
    rememberGroup(state)
    commit.count = 0
    const remembered = [...qp.rememberedCopies.slice(0, mechanisms.length)]
    expect(remembered).toEqual(mechanisms.map((mechanism) => packCopies(1, mechanism)))
    const said = persistAcks(dialogue.serve()).map((one) => {
      return [one.mechanism, one.firstPsn, one.lastPsn, one.records, one.operationLow]
    })
    expect(said).toEqual([
      ...[
        [1, 0, 1, 2, 1],
        [2, 2, 3, 2, 3],
        [1, 4, 4, 1, 4],
      ],
      ...[
        [2, 5, 5, 1, 5],
        [3, 6, 6, 1, 6],
      ],
    ])
  })
})

test('D-6: what a receipt says of copies and mechanism is remembered in one byte', () => {
  const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
  const { state, queuePair: qp } = dialogue
  const volatile = MECHANISM_VOLATILE
  const mechanisms = [MECHANISM_LOCAL_FLUSH, MECHANISM_LSB_READ, MECHANISM_CPU_FLUSH]
  const said: object[] = []
  let high = 0x80000000
  for (const mechanism of [...mechanisms, ...mechanisms.map((one) => one | volatile)]) {
    for (const copies of [1, 2, 4]) {
      const region = { ...dialogue.region, mechanism }
      const [byte] = Uint8Array.of(packCopies(copies, mechanism))
      expect(copiesIn(region, copies)).toBe(byte)
      for (const status of [0, 1, 0x8f]) {
        high += 0x1000001
        answerRecord(state, qp, USUAL.expectedPsn, high, high + 1, status, byte!)
        const operation = { operationHigh: high, operationLow: high + 1 }
        const all = status === 0
        const flags = { all, degraded: !all, cumulative: false, batch: false, query: false }
        said.push({ records: 1, status, copies, mechanism, ...operation, ...flags })
      }
    }
  }
  const sent = dialogue.serve()
  expect(persistAcks(sent)).toMatchObject(said)
})
