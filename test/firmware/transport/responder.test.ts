/**
 * The responder of a queue pair, as a requester on the other side of the wire sees it
 * (wire-format 3; faults N1 … N10 of the crash model).
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  GATHERING_US,
  QUEUE_PAIRS,
  STAGING_BUFFERS,
  STAGING_TIMEOUT_US,
} from '../../../firmware/board/limits.ts'
import { answerDuplicate } from '../../../firmware/transport/acknowledge.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import {
  createQueuePairTable,
  forgetOld,
  freePairPlace,
  KIND_READ,
  nextSaved,
  noteKind,
  openQueuePair,
  requestKindOf,
} from '../../../firmware/transport/queue-pair.ts'
import { advance } from '../../../firmware/transport/responder.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  OPCODES,
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  RC_READ_REQUEST,
  RC_WRITE_FIRST,
  RC_WRITE_LAST,
  RC_WRITE_MIDDLE,
  RC_WRITE_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { blankPacket } from '../../../firmware/wire/packet.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { Stranger } from '../../support/peers/strangers.ts'
import { Dialogue, USUAL } from '../../support/wire/dialogue.ts'
import { type FrameParts, frameOf, hexOf, writeIcrc } from '../../support/wire/frames.ts'
import {
  ACK,
  asTestQueuePair,
  connectIpv6,
  contentOf,
  firstDifference,
  lines,
  NAK_ACCESS,
  NAK_INVALID,
  NAK_OPERATIONAL,
  NAK_SEQUENCE,
  PATH_MTUS,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 1)
const EXAMPLE = frameOf({ bth: { opcode: RC_WRITE_ONLY, destQp: USUAL.localQp } })

function dialogueAt(expectedPsn: number, pathMtu = 1024): Dialogue {
  return new Dialogue({ ...USUAL, expectedPsn, pathMtu }, EXAMPLE)
}

/** Faults met since they were last asked for, by name. */
function faultsOf(dialogue: Dialogue): string[] {
  const { counters } = dialogue.state
  const met = FAULTS.filter((_, i) => counters[i]! > 0).map((row) => row.name)
  counters.fill(0)
  return met
}

/** A card with a region of records, one of bytes, and a queue pair. */
function cardWithBoth(mtu = 4096): {
  card: TestCard
  records: TestRegion
  bytes: TestRegion
  qp: TestPeer
} {
  const card = new TestCard(1 << 19).format()
  const records = card.provision({ slots: 40, capacity: 4096 })
  const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
  return { card, records, bytes, qp: card.connect(mtu) }
}

describe('a packet with several faults is answered for the first (wire-format 3.3)', () => {
  interface Wrong {
    readonly name: string
    /** The answer's syndrome, or 0 for silence. */
    readonly answer: number
    readonly apply: (parts: FrameParts) => void
    /** What is wrong in the bytes; the ICRC is made afterwards. */
    readonly patch?: (bytes: Uint8Array) => void
  }

  const reth = (parts: FrameParts): NonNullable<FrameParts['reth']> => {
    parts.reth = { ...parts.reth }
    return parts.reth
  }

  const nothing = (): void => {}

  /** In the order of the specification. */
  const WRONG: readonly Wrong[] = [
    { name: 'a fragment', answer: 0, apply: nothing, patch: (b) => b.set([0x20], 20) },
    { name: 'another port', answer: 0, apply: nothing, patch: (b) => b.set([0x12, 0xb8], 36) },
    { name: 'another address', answer: 0, apply: nothing, patch: (b) => b.set([99], 33) },
    { name: 'transport version 1', answer: 0, apply: (p) => (p.bth.version = 1) },
    { name: 'an unknown queue pair', answer: 0, apply: (p) => (p.bth.destQp = 0x777) },
    { name: 'another peer', answer: 0, apply: nothing, patch: (b) => b.set([99], 29) },
    { name: 'another partition', answer: 0, apply: (p) => (p.bth.pkey = 0x8001) },
    { name: 'a PSN ahead', answer: NAK_SEQUENCE, apply: (p) => (p.bth.psn = 0x101) },
    { name: 'no First before', answer: NAK_INVALID, apply: (p) => (p.bth.opcode = RC_WRITE_LAST) },
    { name: 'no such operation', answer: NAK_INVALID, apply: (p) => (p.bth.opcode = 0x18) },
    { name: 'a wrong pad', answer: NAK_INVALID, apply: (p) => (p.bth.padBytes = 3) },
    { name: 'a wrong length', answer: NAK_INVALID, apply: (p) => (reth(p).length = 12) },
    { name: 'a wrong key', answer: NAK_ACCESS, apply: (p) => (reth(p).rkey = 0x00abcd57) },
    { name: 'out of bounds', answer: NAK_ACCESS, apply: (p) => (reth(p).vaLow = 16380) },
  ]

  function answersTo(wrong: readonly Wrong[], icrcGood: boolean): Sent[] {
    const parts: FrameParts = {
      bth: { opcode: RC_WRITE_ONLY, destQp: USUAL.localQp, psn: 0x100, ackRequest: true },
      reth: { vaHigh: USUAL.vaHigh, vaLow: 0, rkey: USUAL.rkey, length: 8 },
      payload: dataOf(8, 1),
    }
    for (const { apply } of wrong) apply(parts)
    if (parts.bth.padBytes === 3) parts.payload = dataOf(9, 1)
    const frame = frameOf(parts)
    for (const { patch } of wrong) patch?.(frame)
    writeIcrc(frame)
    if (!icrcGood) frame[frame.length - 1] = frame[frame.length - 1]! ^ 1
    // A WRITE of nothing went before: there is a PSN that was taken.
    const dialogue = dialogueAt(0xff)
    const nothing = { ...parts, reth: { ...parts.reth, length: 0 }, payload: new Uint8Array(0) }
    const before = { opcode: RC_WRITE_ONLY, destQp: USUAL.localQp, psn: 0xff, ackRequest: true }
    expect(dialogue.serve(frameOf({ ...nothing, bth: before }))).toHaveLength(1)
    const sent = dialogue.serve(frame)
    expect(firstDifference(dialogue.content(), new Uint8Array(USUAL.length))).toBe(-1)
    return sent
  }

  const said = (sent: Sent[]): number => (sent.length === 0 ? 0 : sent[0]!.syndrome)

  for (const [i, first] of WRONG.entries()) {
    test(`${first.name}, alone and with every fault that is judged later`, () => {
      expect(said(answersTo([first], true))).toBe(first.answer)
      for (const second of WRONG.slice(i + 1)) {
        const sent = answersTo([first, second], true)
        expect(said(sent), second.name).toBe(first.answer)
        expect(sent.length, second.name).toBe(first.answer === 0 ? 0 : 1)
      }
    })
  }

  test('a wrong ICRC silences every fault of the transport', () => {
    for (const wrong of WRONG) expect(answersTo([wrong], false), wrong.name).toEqual([])
    expect(answersTo([], false)).toEqual([])
  })

  test('a PSN that was taken before is acknowledged, whatever else is wrong', () => {
    const known = WRONG.filter(({ name }) => name !== 'no such operation')
    for (const wrong of known.filter(({ answer }) => answer >= NAK_INVALID)) {
      const old = { ...WRONG[0]!, patch: nothing, apply: (p: FrameParts) => (p.bth.psn = 0xff) }
      const sent = answersTo([wrong, old], true)
      expect(sent.map((s) => [s.syndrome, s.psn])).toEqual([[ACK, 0xff]])
    }
  })

  test('a WRITE_PERSIST is judged in the same order: length before key, key before slot', () => {
    const { card, records } = cardWithBoth()
    const frame = (qp: TestPeer, rkey: number, slot: number, length: number): Uint8Array =>
      frameOf({
        bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
        reth: { vaHigh: slot, vaLow: 0, rkey, length },
        pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 1 },
        payload: dataOf(64, 1),
      })
    const answer = (rkey: number, slot: number, length: number): string[] => {
      const qp = card.connect()
      return lines(card.serve(frame(qp, rkey, slot, length)), qp.psn)
    }
    const before = contentOf(card)
    expect(answer(records.rkey ^ 0x100, 99, 65)).toEqual(['NAK 0x61 0'])
    expect(answer(records.rkey ^ 0x100, 99, 2 ** 31 + 1)).toEqual(['NAK 0x61 0'])
    expect(answer(records.rkey ^ 0x100, 99, 64)).toEqual(['NAK 0x62 0'])
    expect(answer(records.rkey, 99, 64)).toEqual(['PERSIST_ACK 0: 0-0 SLOT records 1', 'ACK 0'])
    expect(firstDifference(contentOf(card), before)).toBe(-1)
  })
})

describe('what a queue pair remembers', () => {
  test('N10: a long READ is known as long as its last response is, however old its first', () => {
    const { queuePair: qp } = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
    const far = 0x400000
    noteKind(qp, 0x10, KIND_READ)
    noteKind(qp, 0x11, KIND_READ)
    Object.assign(nextSaved(qp), { kind: KIND_READ, psn: 0x10, packets: 8 })
    Object.assign(nextSaved(qp), { kind: KIND_READ, psn: 0x11, packets: 1 })
    qp.expectedPsn = (0x18 + far) as Psn
    forgetOld(qp)
    expect([requestKindOf(qp, 0x10), requestKindOf(qp, 0x11)]).toEqual([KIND_READ, 0])
    qp.expectedPsn = (0x19 + far) as Psn
    forgetOld(qp)
    expect(requestKindOf(qp, 0x10)).toBe(0)
  })

  test('X-3: a duplicate of what is not durable yet is not acknowledged', () => {
    const dialogue = new Dialogue(USUAL, frameOf({ bth: { opcode: RC_READ_REQUEST } }))
    const { queuePair: qp, state } = dialogue
    const acks = (psn: number): number => {
      const { count } = state.list
      answerDuplicate(state.answers, qp, psn)
      return state.list.count - count
    }
    qp.used = true
    qp.expectedPsn = 0x120 as Psn
    qp.withheldAt = state.list.fences
    qp.withheldFrom = 0x118 as Psn
    expect([acks(0x118), acks(0x11f)]).toEqual([0, 0])
    expect(acks(0x117)).toBeGreaterThan(0)
  })
})

describe('sequence numbers', () => {
  test('that came round to the first one are those of a queue pair in use', () => {
    const table = createQueuePairTable()
    const options = {
      ...{ peerNumber: 2, clientHigh: 0, clientLow: 1, pathMtu: 1024, protectionDomain: 0 },
      expectedPsn: 0xfffff0 as Psn,
    }
    for (let i = 0; i < QUEUE_PAIRS; i++) openQueuePair(table, i, options)
    for (let half = 0; half < 2; half++) advance(table.places[0]!, blankPacket(), 2 ** 23, true)
    expect(table.places[0]!.expectedPsn).toBe(0xfffff0)
    expect(freePairPlace(table, 0)).toBe(1)
  })

  const write = (dialogue: Dialogue, psn: number): Uint8Array[] =>
    writeFrames(asTestQueuePair(dialogue.queuePair), USUAL, 0, dataOf(8, psn), {
      vaHigh: USUAL.vaHigh,
      psn,
    })

  test.each([0, 1, 0x100, 0x7fffff, 0x800000, 0x800001, 0xfffffe, 0xffffff])(
    'N10: with 0x%x expected, the window ends exactly at half of all numbers',
    (expected) => {
      const at = (distance: number): string[] => {
        const dialogue = dialogueAt(expected)
        const sent = dialogue.serve(...write(dialogue, (expected + distance) & 0xffffff))
        return lines(sent, expected)
      }
      expect(at(0)).toEqual(['ACK 0'])
      expect(at(1)).toEqual(['NAK 0x60 0'])
      expect(at(0x7fffff)).toEqual(['NAK 0x60 0'])
      // Before the first request nothing was taken, so there is nothing to acknowledge.
      expect(at(0x800000)).toEqual([])
      expect(at(0xffffff)).toEqual([])
      const later = (distance: number): string[] => {
        const first = (expected - 1) & 0xffffff
        const dialogue = dialogueAt(first)
        dialogue.serve(...write(dialogue, first))
        const sent = dialogue.serve(...write(dialogue, (expected + distance) & 0xffffff))
        return lines(sent, expected)
      }
      expect(later(0x7fffff)).toEqual(['NAK 0x60 0'])
      expect(later(0x800000)).toEqual(['ACK -1'])
      expect(later(0xffffff)).toEqual(['ACK -1'])
    },
  )

  test('N10: a message runs over the wrap of the PSN', () => {
    for (const before of [1, 2, 3]) {
      const dialogue = dialogueAt(0x1000000 - before, 256)
      const frames = writeFrames(
        asTestQueuePair(dialogue.queuePair),
        USUAL,
        0,
        dataOf(1000, before),
        { vaHigh: USUAL.vaHigh },
      )
      expect(lines(dialogue.serve(...frames), 0)).toEqual([`ACK ${3 - before}`])
      expect(hexOf(dialogue.content().slice(0, 1000))).toBe(hexOf(dataOf(1000, before)))
    }
  })

  test('N10: the message sequence number wraps from 0xffffff to 0', () => {
    const dialogue = dialogueAt(0x100)
    dialogue.queuePair.messageSequence = 0xfffffe
    const msns = [0x100, 0x101, 0x102].map((psn) => dialogue.serve(...write(dialogue, psn))[0]!.msn)
    expect(msns).toEqual([0xffffff, 0, 1])
  })

  test('N4: one NAK for each gap, and again only after progress', () => {
    const dialogue = dialogueAt(0x100)
    const go = (...psns: number[]): string[] =>
      lines(dialogue.serve(...psns.flatMap((psn) => write(dialogue, psn))), 0x100)
    expect(go(0x102)).toEqual(['NAK 0x60 0'])
    expect(go(0x103, 0x104, 0x105)).toEqual([])
    expect(go(0x100)).toEqual(['ACK 0'])
    expect(go(0x103, 0x102)).toEqual(['NAK 0x60 1'])
    expect(go(0x101, 0x102, 0x103)).toEqual(['ACK 3'])
    expect(faultsOf(dialogue)).toEqual(['SEQUENCE_AGAIN', 'SEQUENCE'])
  })

  test('N4: what was accepted before a gap is acknowledged before the NAK of the gap', () => {
    const dialogue = dialogueAt(0x100)
    const frames = [0x100, 0x101, 0x103].flatMap((psn) => write(dialogue, psn))
    expect(lines(dialogue.serve(...frames), 0x100)).toEqual(['ACK 1', 'NAK 0x60 2'])
  })

  test('a duplicate does not end the silence about a gap', () => {
    const dialogue = dialogueAt(0x100)
    const go = (psn: number): string[] => lines(dialogue.serve(...write(dialogue, psn)), 0x100)
    expect([go(0x100), go(0x102), go(0x100), go(0x103)]).toEqual([
      ['ACK 0'],
      ['NAK 0x60 1'],
      ['ACK 0'],
      [],
    ])
  })

  test('N2, N3: a duplicate is acknowledged and not executed, with other bytes neither', () => {
    const dialogue = dialogueAt(0x100)
    dialogue.serve(...write(dialogue, 0x100))
    const before = dialogue.content()
    const forged = writeFrames(
      asTestQueuePair(dialogue.queuePair),
      USUAL,
      0,
      new Uint8Array(8).fill(0xee),
      { psn: 0x100, vaHigh: USUAL.vaHigh },
    )
    for (let i = 0; i < 3; i++) {
      expect(lines(dialogue.serve(...forged), 0x100)).toEqual(['ACK 0'])
    }
    expect(firstDifference(dialogue.content(), before)).toBe(-1)
  })
})

describe('messages of several packets', () => {
  /** Lengths around every edge of the packets. */
  const lengths = (mtu: number): number[] => [
    ...[0, 1, 3, 4, mtu - 1, mtu, mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1],
    ...[3 * mtu - 1, 3 * mtu, 3 * mtu + 1],
  ]

  test.each(PATH_MTUS)('a WRITE of any length arrives whole at path MTU %i', (mtu) => {
    const { card, records, bytes } = cardWithBoth()
    const area = slotOffset(records, records.copies, 0)
    const qp = card.connect(mtu)
    for (const [i, length] of lengths(mtu).entries()) {
      const data = dataOf(length, i)
      const before = contentOf(card)
      const base = qp.psn
      const sent = card.serve(...writeFrames(qp, bytes, 4096 + i, data))
      const packets = Math.max(1, Math.ceil(length / mtu))
      expect(lines(sent, base), `${length} bytes`).toEqual([`ACK ${packets - 1}`])
      before.set(data, area + 4096 + i)
      expect(firstDifference(contentOf(card), before), `${length} bytes`).toBe(-1)
    }
  })

  test.each(PATH_MTUS)('a WRITE_PERSIST of any length is durable at path MTU %i', (mtu) => {
    const card = new TestCard(1 << 19).format()
    const region = card.provision({ slots: 4, capacity: 3 * 4096 + 1 })
    for (const together of [true, false]) {
      const qp = card.connect(mtu)
      for (const [i, length] of lengths(mtu).entries()) {
        const data = dataOf(length, i)
        const base = qp.psn
        const frames = persistFrames(qp, region, i % 4, data)
        const sent = together
          ? card.serve(...frames)
          : frames.flatMap((frame) => [...card.serve(frame)])
        const last = frames.length - 1
        const range = `${last}-${last} durable 2 records 1`
        expect(lines(sent, base)).toEqual([`ACK ${last}`, `PERSIST_ACK ${last}: ${range}`])
        expect(hexOf(card.read(qp, region, i % 4, 0, length)!)).toBe(hexOf(data))
      }
    }
  })

  const CAPACITY_BYTES = 1024

  /** One packet of 256 bytes, or of the length that its place in the message wants. */
  function packetOf(
    qp: TestPeer,
    { rkey, baseHigh }: TestRegion,
    opcode: number,
    psn: number,
  ): Uint8Array {
    return frameOf({
      bth: { opcode, destQp: qp.number, psn, ackRequest: true },
      reth: { vaHigh: baseHigh, rkey, length: OPCODES[opcode]!.ends ? 256 : 768 },
      pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 1 },
      payload: dataOf(256, psn),
    })
  }

  const KINDS = {
    write: [RC_WRITE_FIRST, RC_WRITE_MIDDLE, RC_WRITE_LAST, RC_WRITE_ONLY],
    persist: [WRITE_PERSIST_FIRST, WRITE_PERSIST_MIDDLE, WRITE_PERSIST_LAST, WRITE_PERSIST_ONLY],
  } as const

  /** Which packet may follow which: nothing, First or Middle before. */
  const wrongOrders: { before: readonly number[]; next: number }[] = []
  for (const [one, other] of [
    [KINDS.write, KINDS.persist],
    [KINDS.persist, KINDS.write],
  ] as const) {
    const [first, middle, last, only] = one
    wrongOrders.push({ before: [], next: middle }, { before: [], next: last })
    for (const before of [[first], [first, middle]]) {
      for (const next of [first, only, RC_READ_REQUEST, ...other])
        wrongOrders.push({ before, next })
    }
    wrongOrders.push({ before: [only], next: middle }, { before: [only], next: last })
    wrongOrders.push({ before: [first, middle, last], next: middle })
  }

  const short = (opcode: number): string => OPCODES[opcode]!.name

  test.each(
    wrongOrders.map(({ before, next }) => ({
      before,
      next,
      title: `${short(next)} after ${before.map(short).join(', ') || 'nothing'}`,
    })),
  )('$title draws NAK 0x61, and then silence', ({ before, next }) => {
    const card = new TestCard().format()
    const records = card.provision({ capacity: CAPACITY_BYTES })
    const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const qp = card.connect(256)
    const regionOf = (opcode: number): TestRegion => (opcode >= 0xc0 ? records : bytes)
    const base = qp.psn
    before.forEach((opcode, i) => {
      card.serve(packetOf(qp, regionOf(opcode), opcode, base + i))
    })
    const content = contentOf(card)
    const n = before.length
    const bad =
      next === RC_READ_REQUEST
        ? readFrame({ ...qp, psn: base + n }, bytes, 0, 0, 8)
        : packetOf(qp, regionOf(next), next, base + n)
    expect(lines(card.serve(bad), base)).toEqual([`NAK 0x61 ${n}`])
    expect(card.counter('MESSAGE_ORDER')).toBe(1)
    for (let psn = base - 1; psn <= base + n + 1; psn++) {
      for (const opcode of [...KINDS.write, ...KINDS.persist]) {
        expect(card.serve(packetOf(qp, regionOf(opcode), opcode, psn))).toEqual([])
      }
    }
    expect(card.counter('QP_ERROR_STATE')).toBe(8 * (n + 3))
    expect(firstDifference(contentOf(card), content)).toBe(-1)
  })

  test('packets that do not add up to what was announced draw NAK 0x61 and store no record', () => {
    const announced = [0, 255, 256, 257, 511, 513, 766, 768, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 1]
    for (const kind of [KINDS.write, KINDS.persist]) {
      for (const length of announced) {
        const card = new TestCard().format()
        const records = card.provision({ capacity: CAPACITY_BYTES })
        const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
        const region = kind === KINDS.write ? bytes : records
        const qp = card.connect(256)
        const frames = [kind[0], kind[1], kind[2]].map((opcode, i) =>
          frameOf({
            bth: { opcode, destQp: qp.number, psn: qp.psn + i, ackRequest: true },
            reth: { vaHigh: region.baseHigh, rkey: region.rkey, length },
            pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 1 },
            payload: dataOf(i === 2 ? 255 : 256, i),
          }),
        )
        const sent = frames.flatMap((frame) => [...card.serve(frame)])
        const nak = sent.at(-1)!.syndrome
        const beyond = kind === KINDS.write && length > 4096 && length <= 2 ** 31
        expect(nak, `${length}`).toBe(beyond ? NAK_ACCESS : NAK_INVALID)
        expect(persistAcks(sent)).toEqual([])
        if (kind === KINDS.persist) {
          expect(card.read(card.connect(), records, 0, 0, 1024)).toEqual(new Uint8Array(1024))
        }
      }
    }
  })
})

describe('answers', () => {
  test('without a request for an acknowledgement there is none, yet the message counts', () => {
    const { card, bytes, qp } = cardWithBoth()
    const quiet = { ackRequest: false }
    expect(card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1), quiet))).toEqual([])
    const [ack] = card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1)))
    expect(ack!.msn).toBe(2)
  })

  test('a READ is answered by its response alone', () => {
    const { card, bytes, qp } = cardWithBoth()
    const base = qp.psn
    const sent = card.serve(readFrame(qp, bytes, 0, 0, 8))
    expect(lines(sent, base)).toEqual(['READ 0 only: 8 B'])
  })

  test('after the NAK of a READ nothing is acknowledged, though a WRITE came behind it', () => {
    const { card, records, bytes, qp } = cardWithBoth()
    card.nvdimm.poison(slotOffset(records, records.copies, 0) / 64)
    const base = qp.psn
    const sent = card.serve(
      readFrame(qp, bytes, 0, 0, 8),
      ...writeFrames(qp, bytes, 4096, dataOf(8, 1)),
    )
    expect(lines(sent, base)).toEqual(['NAK 0x63 0'])
  })

  test('an acknowledgement of a duplicate stops before a READ that was accepted behind it', () => {
    const { card, bytes, qp } = cardWithBoth()
    const base = qp.psn
    const [first] = writeFrames(qp, bytes, 0, dataOf(8, 1))
    const [second] = writeFrames(qp, bytes, 8, dataOf(8, 2))
    card.serve(first!, second!, readFrame(qp, bytes, 0, 0, 8))
    card.serve(...writeFrames(qp, bytes, 16, dataOf(8, 3)))
    expect(lines(card.serve(first!), base)).toEqual(['ACK 1'])
    expect(lines(card.serve(second!), base)).toEqual(['ACK 1'])
    const last = writeFrames({ ...qp, psn: base + 3 }, bytes, 16, dataOf(8, 3))
    expect(lines(card.serve(...last), base)).toEqual(['ACK 3'])
  })

  type Step = 'write' | 'quiet' | 'read' | 'long' | 'persist' | 'again'

  test('no acknowledgement ever passes a READ whose response is still to come', () => {
    const { card, bytes, records } = cardWithBoth()
    const steps = fc.array(
      fc.constantFrom<Step>('write', 'quiet', 'read', 'long', 'persist', 'again'),
      { minLength: 1, maxLength: 32 },
    )
    fc.assert(
      fc.property(steps, (kinds) => {
        const qp = card.connect(256)
        const reads: { psn: number; last: number; done: boolean }[] = []
        const frames = kinds.map((kind, i) => requestOf(kind, qp, reads, i))
        for (const { packet, psn, opcode } of card.serve(...frames)) {
          const data = opcode >= 0x0d && opcode <= 0x10
          if (data && packet.opcode !== 0x0d && packet.opcode !== 0x0e) {
            for (const read of reads) if (read.last === psn) read.done = true
          } else if (!data) {
            for (const read of reads) {
              const passed = ((psn - read.psn) & 0xffffff) < 0x800000
              expect(passed && !read.done, `${kinds.join(' ')}: ACK ${psn}`).toBe(false)
            }
          }
        }
        expect(reads.every((read) => read.done)).toBe(true)
        card.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
          putU32(body, mad.DISCONNECT_QP, qp.number)
          putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
        })
      }),
      { seed: SEED, numRuns: 150 },
    )

    function requestOf(
      kind: Step,
      qp: TestPeer,
      reads: { psn: number; last: number; done: boolean }[],
      i: number,
    ): Uint8Array {
      const { psn } = qp
      if (kind === 'read' || kind === 'long') {
        const frame = readFrame(qp, bytes, 0, 0, kind === 'read' ? 8 : 700)
        reads.push({ psn, last: (qp.psn - 1) & 0xffffff, done: false })
        return frame
      }
      if (kind === 'persist') return persistFrames(qp, records, i, dataOf(64, i))[0]!
      if (kind === 'again') {
        return writeFrames(qp, bytes, 0, dataOf(8, i), { psn: (psn - 1) & 0xffffff })[0]!
      }
      return writeFrames(qp, bytes, 0, dataOf(8, i), { ackRequest: kind === 'write' })[0]!
    }
  })

  test('exactly one request and at most two acknowledgements for each record', () => {
    const { card, records, qp } = cardWithBoth()
    const frames: Uint8Array[] = []
    for (let slot = 0; slot < 32; slot++) {
      frames.push(...persistFrames(qp, records, slot, dataOf(64, slot)))
    }
    expect(frames.length).toBe(32)
    const one = card.serve(frames[0]!)
    expect(one.map((frame) => frame.opcode)).toEqual([RC_ACKNOWLEDGE, PERSIST_ACK])
    for (const frame of frames.slice(1)) expect(card.serve(frame).length).toBe(2)
  })

  test.each([
    { copies: 2, level: 1, fences: 4 },
    { copies: 2, level: 2, fences: 4 },
    { copies: 3, level: 2, fences: 5 },
    { copies: 4, level: 4, fences: 6 },
  ])(
    '32 records at level $level of $copies: $fences fences, one ACK and one PERSIST_ACK',
    ({ copies, level, fences }) => {
      const card = new TestCard(1 << 19).format()
      const region = card.provision({ slots: 32, copies })
      const qp = card.connect()
      const base = qp.psn
      const frames: Uint8Array[] = []
      for (let slot = 0; slot < 32; slot++) {
        frames.push(...persistFrames(qp, region, slot, dataOf(64, slot), { wait: level }))
      }
      const before = card.nvdimm.fences
      const sent = card.serve(...frames)
      expect(card.nvdimm.fences - before).toBe(fences)
      expect(lines(sent, base)).toEqual([
        'ACK 31',
        `PERSIST_ACK 31: 0-31 durable ${level} records 32`,
      ])
    },
  )

  test('32 queue pairs in one burst share its fences, and each has its own answers', () => {
    const { card, records } = cardWithBoth()
    const pairs = Array.from({ length: 32 }, (_, i) => card.connect(4096, 0, i + 1))
    const before = card.nvdimm.fences
    const bases = pairs.map((qp) => qp.psn)
    const sent = card.serve(
      ...pairs.flatMap((qp, i) => persistFrames(qp, records, i, dataOf(100, i))),
    )
    expect(card.nvdimm.fences - before).toBe(4)
    pairs.forEach((qp, i) => {
      const own = sent.filter((frame) => frame.packet.destQp === qp.peer)
      expect(lines(own, bases[i]!)).toEqual(['ACK 0', 'PERSIST_ACK 0: 0-0 durable 2 records 1'])
      expect(hexOf(card.read(qp, records, i, 0, 100)!)).toBe(hexOf(dataOf(100, i)))
    })
  })
})

describe('who is answered', () => {
  test.each([
    [0xffff, true],
    [0x7fff, true],
    [0x8001, false],
    [0xfffe, false],
    [0x0000, false],
    [0x7ffe, false],
  ])('P_Key 0x%x is of the default partition: %s', (pkey, ours) => {
    const { card, bytes, qp } = cardWithBoth()
    const sent = card.serve(
      frameOf({
        bth: { opcode: RC_WRITE_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true, pkey },
        reth: { vaHigh: bytes.baseHigh, rkey: bytes.rkey, length: 8 },
        payload: dataOf(8, 1),
      }),
    )
    expect(sent.length).toBe(ours ? 1 : 0)
    expect(card.counter('PARTITION')).toBe(ours ? 0 : 1)
  })

  test('a request from another address than the peer is dropped and counted', () => {
    const { card, bytes, qp } = cardWithBoth()
    const [frame] = writeFrames(qp, bytes, 0, dataOf(8, 1))
    const before = contentOf(card)
    for (let byte = 26; byte < 30; byte++) {
      const forged = frame!.slice()
      forged[byte] = forged[byte]! ^ 1
      writeIcrc(forged)
      expect(card.serve(forged)).toEqual([])
    }
    expect(card.counter('WRONG_PEER')).toBe(4)
    expect(firstDifference(contentOf(card), before)).toBe(-1)
    expect(card.serve(frame!).length).toBe(1)
  })

  test('a request to another card is dropped: other Ethernet, IPv4 or IPv6 destination', () => {
    const { card, bytes, qp } = cardWithBoth()
    const frame = writeFrames(qp, bytes, 0, dataOf(8, 1))[0]!
    for (const byte of [0, 5, 30, 33]) {
      const stray = frame.slice()
      stray[byte] = stray[byte]! ^ 2
      writeIcrc(stray)
      expect(card.serve(stray)).toEqual([])
    }
    expect(card.counter('NOT_FOR_US')).toBe(4)
  })

  test('a response that nobody asked for is dropped and counted', () => {
    const { card, qp } = cardWithBoth()
    for (const opcode of [0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, PERSIST_ACK]) {
      expect(card.serve(frameOf({ bth: { opcode, destQp: qp.number, psn: qp.psn } }))).toEqual([])
    }
    expect(card.counter('UNEXPECTED_RESPONSE')).toBe(7)
  })

  test('over IPv6 everything goes alike', () => {
    const { card, records, bytes } = cardWithBoth()
    const qp = connectIpv6(card, 1024)
    const base = qp.psn
    const v6 = { ipVersion: 6 } as const
    const data = dataOf(3000, 6)
    const sent = [
      ...card.serve(...persistFrames(qp, records, 3, data, v6)),
      ...card.serve(...writeFrames(qp, bytes, 100, data, v6)),
      ...card.serve(...writeFrames(qp, bytes, 100, data, { ...v6, psn: base + 9 })),
      ...card.serve(...writeFrames(qp, bytes.rkey ^ 64, 100, dataOf(8, 1), v6)),
    ]
    expect(lines(sent, base)).toEqual([
      'ACK 2',
      'PERSIST_ACK 2: 2-2 durable 2 records 1',
      'ACK 5',
      'NAK 0x60 6',
      'NAK 0x62 6',
    ])
    for (const { packet } of sent) expect(packet.ipVersion).toBe(6)
    expect(hexOf(card.read(card.connect(), records, 3, 0, 3000)!)).toBe(hexOf(data))
  })

  test('a peer that was connected over IPv6 is not one of IPv4', () => {
    const { card, bytes } = cardWithBoth()
    const qp = connectIpv6(card)
    expect(card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1)))).toEqual([])
    expect(card.counter('WRONG_PEER')).toBe(1)
  })

  test('a queue pair in the error state is silent until it is closed and opened again', () => {
    const { card, bytes, qp } = cardWithBoth()
    card.serve(...writeFrames(qp, bytes.rkey ^ 32, 0, dataOf(8, 1)))
    for (let i = -2; i < 3; i++) {
      expect(
        card.serve(...writeFrames({ ...qp, psn: qp.psn + i }, bytes, 0, dataOf(8, 1))),
      ).toEqual([])
    }
    const close = (body: Uint8Array): void => {
      putU32(body, mad.DISCONNECT_QP, qp.number)
      putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
    }
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, close)
    expect(card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1)))).toEqual([])
    expect(card.counter('UNKNOWN_QP')).toBe(1)
    const again = card.connect()
    expect(again.number).not.toBe(qp.number)
    expect(card.serve(...writeFrames(again, bytes, 0, dataOf(8, 1))).length).toBe(1)
  })
})

describe('room for messages of several packets', () => {
  const LENGTH_BYTES = 700

  test('N8: a message that stops half-way is given up, its record untouched', () => {
    const card = new TestCard().format()
    const region = card.provision({ capacity: LENGTH_BYTES })
    const stuck = Array.from({ length: STAGING_BUFFERS }, () => card.connect(256))
    const before = contentOf(card)
    stuck.forEach((qp, i) => {
      card.serve(...persistFrames(qp, region, i % 8, dataOf(LENGTH_BYTES, i)).slice(0, 1 + (i % 2)))
    })
    const late = card.connect(256)
    const [refused] = persistAcks(
      card.serve(...persistFrames(late, region, 0, dataOf(LENGTH_BYTES, 99))),
    )
    expect(FAULTS.find((row) => row.code === refused!.status)!.name).toBe('STAGING')
    expect(card.pass(STAGING_TIMEOUT_US - 1000)).toEqual([])
    const told = card.pass(2000)
    const whom = told.map(({ packet }) => packet.destQp).sort((a, b) => a - b)
    expect(whom).toEqual(stuck.map(({ peer }) => peer))
    expect(new Set(told.map(({ syndrome }) => syndrome))).toEqual(new Set([NAK_OPERATIONAL]))
    expect(card.counter('MESSAGE_TIME')).toBe(STAGING_BUFFERS)
    expect(firstDifference(contentOf(card), before)).toBe(-1)
    const [taken] = persistAcks(
      card.serve(...persistFrames(late, region, 0, dataOf(LENGTH_BYTES, 99))),
    )
    expect(taken!.status).toBe(0)
    for (const qp of stuck) {
      expect(card.serve(...persistFrames(qp, region, 1, dataOf(64, 1)))).toEqual([])
    }
  })

  test('a message whose packets keep coming, however slowly, is not given up', () => {
    const card = new TestCard().format()
    const region = card.provision({ capacity: LENGTH_BYTES })
    const qp = card.connect(256)
    let sent: Sent[] = []
    for (const frame of persistFrames(qp, region, 0, dataOf(LENGTH_BYTES, 1))) {
      card.now += STAGING_TIMEOUT_US - 100
      card.idle()
      sent = card.serve(frame)
    }
    expect(persistAcks(sent)[0]!.status).toBe(0)
  })

  test('without room a message is refused by a status, and the queue pair lives', () => {
    const card = new TestCard().format()
    const region = card.provision({ capacity: LENGTH_BYTES })
    const pairs = Array.from({ length: STAGING_BUFFERS }, () => card.connect(256))
    const pending = pairs.map((qp, i) => persistFrames(qp, region, i % 8, dataOf(LENGTH_BYTES, i)))
    for (const frames of pending) card.serve(frames[0]!)
    const late = card.connect(256)
    const base = late.psn
    const before = contentOf(card)
    const sent = card.serve(...persistFrames(late, region, 0, dataOf(LENGTH_BYTES, 50)))
    expect(lines(sent, base)).toEqual(['PERSIST_ACK 2: 2-2 STAGING records 1', 'ACK 2'])
    expect(card.counter('STAGING')).toBe(1)
    expect(firstDifference(contentOf(card), before)).toBe(-1)
    // A record of one packet needs no room.
    const single = card.serve(...persistFrames(late, region, 7, dataOf(256, 51)))
    expect(persistAcks(single)[0]!.status).toBe(0)
    const rest = pending.flatMap((frames) => card.serve(...frames.slice(1)))
    expect(persistAcks(rest).map((paeth) => paeth.status)).toEqual(pairs.map(() => 0))
    const [after] = persistAcks(
      card.serve(...persistFrames(late, region, 0, dataOf(LENGTH_BYTES, 52))),
    )
    expect(after!.status).toBe(0)
  })

  test('R1-A4: a peer over IPv6 is known by its whole address, whatever it has open', () => {
    const card = new TestCard().format()
    const region = card.provision({ capacity: LENGTH_BYTES })
    const slow = new Stranger(card, 77, 6)
    const begin = (): void => {
      slow.serve(persistFrames(slow.connect(256), region, 1, dataOf(LENGTH_BYTES, 1))[0]!)
    }
    for (let i = 0; i < STAGING_BUFFERS; i++) begin()
    card.pass(GATHERING_US)
    const ask = (peer: Stranger): string[] => {
      const qp = peer.connect(256)
      const base = qp.psn
      return lines(peer.serve(...persistFrames(qp, region, 0, dataOf(LENGTH_BYTES, 99))), base)
    }
    // On one connection more it is who has all of the room already.
    expect(ask(slow)).toEqual(['PERSIST_ACK 2: 2-2 STAGING records 1', 'ACK 2'])
    for (const other of [new Stranger(card, 78, 6), new Stranger(card, 79, 4)]) {
      expect(ask(other)).toEqual(['ACK 2', 'PERSIST_ACK 2: 2-2 durable 2 records 1'])
      begin()
    }
  })

  test('a queue pair that fails or is closed gives its room back', () => {
    const card = new TestCard().format()
    const region = card.provision({ capacity: LENGTH_BYTES })
    for (let i = 0; i < 3 * STAGING_BUFFERS; i++) {
      const qp = card.connect(256)
      const frames = persistFrames(qp, region, i % 8, dataOf(LENGTH_BYTES, i))
      card.serve(frames[0]!)
      if (i % 2 === 0) {
        expect(
          card.serve(...persistFrames({ ...qp, psn: qp.psn - 2 }, region, 0, dataOf(8, 1)))[0]!
            .syndrome,
        ).toBe(NAK_INVALID)
      }
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
        putU32(body, mad.DISCONNECT_QP, qp.number)
        putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
      })
    }
    expect(card.counter('STAGING')).toBe(0)
  })

  test('a queue pair that failed while it gathered gives its room back in the end', () => {
    const card = new TestCard(1 << 18).format()
    const region = card.provision({ capacity: LENGTH_BYTES })
    for (const copy of [0, 1]) card.nvdimm.poison(slotOffset(region, copy, 5) / 64)
    for (let i = 0; i < STAGING_BUFFERS; i++) {
      const qp = card.connect(256)
      const read = readFrame(qp, region, 5, 0, 8)
      const [first] = persistFrames(qp, region, 0, dataOf(LENGTH_BYTES, i))
      expect(card.serve(read, first!).map((frame) => frame.syndrome)).toEqual([0x63])
    }
    for (let i = 1; i < QUEUE_PAIRS; i++) card.connect(256)
    const qp = card.connect(256)
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(LENGTH_BYTES, 1)))
    expect(persistAcks(sent)[0]!.status).toBe(0)
  })
})
