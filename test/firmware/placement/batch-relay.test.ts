/**
 * Batches into relays: records that go on to another DPU under one status (source 4; S1-M5).
 */

import { describe, expect, test } from 'vitest'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import { BATCH_ELEMENTS_MAX, BATCH_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { TAKES_GUARDS } from '../../../firmware/medium/region.ts'
import { putU16, u16 } from '../../../firmware/wire/bytes.ts'
import { PRIVATE_BYTES_REP } from '../../../firmware/wire/cm.ts'
import { IPV4_CHECKSUM, IPV4_TOTAL_LENGTH } from '../../../firmware/wire/ipv4.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_ACK, RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import {
  MECHANISM_LOCAL_FLUSH,
  PAETH_BATCH_DURABLE,
  PAETH_COPIES,
  PAETH_FLAGS,
  PAETH_MECHANISM,
  PAETH_STATUS,
} from '../../../firmware/wire/persist-ack.ts'
import {
  type BatchOptions,
  type BatchRecord,
  batchFrames,
  CONDITIONS,
  EXPECT,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  type Status,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { type RelayWire, related } from '../../support/cards/relay-wire.ts'
import {
  callOf,
  dataOf,
  persistFrames,
  type Sent,
  sentOf,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { judgedGuard } from '../../support/judges/crc32c.ts'
import { madFrame, PORT, publish } from '../../support/wire/cm.ts'
import { disconnect, flushFrame, lines } from '../../support/wire/requests.ts'

/** AETH in front of PAETH, behind Ethernet, IPv4, UDP and BTH. */
const PAETH_AT = 14 + 20 + 8 + 12 + 4
const ICRC_BYTES = 4
const IP_AT = 14
const UDP_LENGTH_AT = 14 + 20 + 4
const BTH_AT = 14 + 20 + 8
const AETH_AT = BTH_AT + 12
/** Syndrome of an RNR NAK, of the timer of 655 ms. */
const RNR_LONGEST = 0x20
/** Lower byte of the flags in the private data of a REP. */
const FLAGS_AT = 67

interface Relay {
  readonly wire: RelayWire
  readonly qp: TestPeer
  readonly rkey: number
}

function relay(mtu = 4096): Relay {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  return { wire, ...wire.open(mtu) }
}

function recordsOf(slots: readonly number[], seed = 1, length = 100): BatchRecord[] {
  return slots.map((slot) => ({ slot, data: dataOf(length, seed + slot), expect: 0n }))
}

/** Serves the frames, and lets the cards go on; what the host has heard by that. */
function serve({ wire }: Relay, ...frames: Uint8Array[]): Sent[] {
  const from = wire.heard.length
  wire.serve(...frames)
  for (let i = 0; i < 12; i++) wire.pass(20)
  return wire.heard.slice(from)
}

function send(made: Relay, records: readonly BatchRecord[], options: BatchOptions = {}): Sent[] {
  return serve(made, ...batchFrames(made.qp, made, records, options))
}

function only(sent: readonly Sent[]): Status {
  const all = statuses(sent)
  expect(all).toHaveLength(1)
  return all[0]!
}

/** Which of the records card B holds. */
function found({ wire }: Relay, records: readonly BatchRecord[]): number[] {
  const far = wire.b.open('far')
  const qp = wire.b.connect(4096, 0, 9)
  return records.flatMap(({ slot, data }, i) => {
    const bytes = wire.b.read(qp, far, slot, VIEW_DATA, data.length)
    return bytes !== null && Buffer.compare(bytes, data) === 0 ? [i] : []
  })
}

/** What card B says of its region is what a DPU says that judges no guards. */
function withoutGuards(frame: Uint8Array): Uint8Array {
  if (frame.length <= mad.MAD_BYTES) return frame
  const other = frame.slice()
  other[frame.length - ICRC_BYTES - PRIVATE_BYTES_REP + FLAGS_AT]! &= ~TAKES_GUARDS
  fillIcrc(other, 0, other.length)
  return other
}

/** In place of a PERSIST_ACK of card B, an RNR NAK: it is asked again in the longest time. */
function notReady(frame: Uint8Array): Uint8Array {
  if (sentOf(frame).opcode !== PERSIST_ACK) return frame
  const other = frame.slice(0, PAETH_AT + ICRC_BYTES)
  const less = frame.length - other.length
  putU16(other, IP_AT + IPV4_TOTAL_LENGTH, u16(other, IP_AT + IPV4_TOTAL_LENGTH) - less)
  // One's complement: what the length loses, the check sum of the header gains.
  const sum = u16(other, IP_AT + IPV4_CHECKSUM) + less
  putU16(other, IP_AT + IPV4_CHECKSUM, (sum & 0xffff) + (sum >> 16))
  putU16(other, UDP_LENGTH_AT, u16(other, UDP_LENGTH_AT) - less)
  other[BTH_AT] = RC_ACKNOWLEDGE
  other[AETH_AT] = RNR_LONGEST
  fillIcrc(other, 0, other.length)
  return other
}

/** Nothing is collected, handed on or on its way any more. */
function expectNothingHeld({ wire }: Relay): void {
  const { state } = wire
  expect(heldBy(state)).toEqual(NOTHING_HELD)
  expect(state.batches.handing).toBe(0)
  for (const { works } of state.initiators) {
    expect(works.every(({ owner }) => owner === null)).toBe(true)
  }
}

/** The burst again, as one that may have been executed. */
function again(records: readonly BatchRecord[], indexes: readonly number[]): BatchRecord[] {
  return indexes.map((index) => ({ ...records[index]!, index, pweth: { repetition: true } }))
}

describe('S1-M5: a batch into a relay', () => {
  for (const [name, condition] of Object.entries(CONDITIONS)) {
    test(`P4-8: ${name}: 40 records, in two bursts to the other DPU, under one status`, () => {
      const made = relay()
      const records = recordsOf(upTo(40))
      expect(records.length).toBeGreaterThan(BATCH_ELEMENTS_MAX)
      const status = only(send(made, records, { condition, id: 7 }))
      expect(status).toMatchObject({ said: 'durable', durable: upTo(40), id: 7, count: 40 })
      expect(status.paeth).toMatchObject({ mechanism: MECHANISM_LOCAL_FLUSH, copies: 2 })
      expect(found(made, records)).toEqual(upTo(40))
      expectNothingHeld(made)
    })

    test(`P4-9: ${name}: a guard that differs in the middle, and what comes again`, () => {
      const made = relay()
      const records = recordsOf(upTo(40))
      const guards = records.map((one, i) => ({
        ...one,
        guard: judgedGuard(one.data) ^ (i === 10 ? 1 : 0),
      }))
      const status = only(send(made, guards, { condition, operation: 1 }))
      const durable = upTo(condition === IN_ORDER ? 10 : 40).filter((i) => i !== 10)
      expect(status).toMatchObject({ said: 'GUARD', durable })
      // In order the second burst is not sent at all.
      const behind = condition === IN_ORDER ? BATCH_ELEMENTS_MAX - 11 : 0
      expect(made.wire.b.counter('CONDITION')).toBe(behind)
      expect(found(made, records)).toEqual(durable)
      const rest = upTo(40).filter((i) => !durable.includes(i))
      const next = only(send(made, again(records, rest), { condition, operation: 1, count: 40 }))
      expect(next).toMatchObject({ said: 'durable', durable: upTo(40) })
      expect(found(made, records)).toEqual(upTo(40))
      expectNothingHeld(made)
    })
  }

  test('records of several packets, of no bytes, and guards that are right', () => {
    const made = relay(1024)
    const records = [1000, 0, 257, 64].map((length, slot) => {
      const data = dataOf(length, slot)
      return { slot, data, guard: judgedGuard(data) }
    })
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      expect(only(send(made, records, { condition })).durable).toEqual(upTo(4))
    }
    expect(found(made, records)).toEqual(upTo(4))
    expectNothingHeld(made)
  })

  test('D-6: its operations are told apart by all of their 64 bits', () => {
    const made = relay()
    for (const operationHigh of [0, 5, 6, 2 ** 32 - 1]) {
      const records = recordsOf(upTo(3), operationHigh % 100)
      const named = records.map((one) => ({ ...one, pweth: { operationHigh } }))
      expect(only(send(made, named, { operation: 1 }))).toMatchObject({ durable: upTo(3) })
      expect(found(made, records), `${operationHigh}`).toEqual(upTo(3))
    }
  })

  test('single records go on as before, and behind a batch they are of none', () => {
    const made = relay()
    expect(only(send(made, recordsOf(upTo(3)))).said).toBe('durable')
    for (let i = 0; i < 70; i++) {
      const sent = serve(made, ...persistFrames(made.qp, made, i % 64, dataOf(100, i)))
      const acks = sent.filter(({ opcode }) => opcode === PERSIST_ACK)
      expect(acks.map(({ paeth }) => [paeth!.status, paeth!.batch])).toEqual([[0, false]])
    }
  })

  test('X-3: the last record again earns the same status, and the other DPU hears nothing', () => {
    const made = relay()
    const frames = batchFrames(made.qp, made, recordsOf(upTo(3)))
    const status = only(serve(made, ...frames))
    const counted = made.wire.b.counter('DUPLICATE')
    expect(only(serve(made, frames.at(-1)!))).toEqual(status)
    expect(made.wire.b.counter('DUPLICATE')).toBe(counted)
  })
})

describe('S1-M5: what is refused', () => {
  test('a slot that there is not is refused here, in order with all that is behind it', () => {
    for (const [condition, durable] of [
      [INDEPENDENT, [0, 2]],
      [IN_ORDER, [0]],
    ] as const) {
      const made = relay()
      const records = recordsOf([0, 4000, 2])
      expect(only(send(made, records, { condition }))).toMatchObject({ said: 'SLOT', durable })
    }
  })

  test('P4-11: CONDITION, of the sequence that the other DPU has', () => {
    const made = relay()
    serve(made, ...persistFrames(made.qp, made, 1, dataOf(100, 70)))
    const status = only(send(made, recordsOf(upTo(3)), { condition: EXPECT }))
    expect(status).toMatchObject({ said: 'CONDITION', durable: [0, 2] })
  })

  test('BATCH_REGION, as an older DPU says it of all that it cannot do', () => {
    const made = relay()
    made.wire.spoil = (frame) => {
      const { opcode, paeth } = sentOf(frame)
      if (opcode !== PERSIST_ACK || paeth?.batch !== true) return frame
      const other = frame.slice()
      other[PAETH_AT + PAETH_STATUS] = 0x96
      other[PAETH_AT + PAETH_FLAGS]! &= 0x7f
      other[PAETH_AT + PAETH_BATCH_DURABLE] = 0xff
      other[PAETH_AT + PAETH_COPIES] = 0
      other[PAETH_AT + PAETH_MECHANISM] = 0
      other.fill(0, PAETH_AT + 32, PAETH_AT + 32 + 4 * paeth.bitmapWords)
      fillIcrc(other, 0, other.length)
      return other
    }
    const status = only(send(made, recordsOf(upTo(3))))
    expect(status).toMatchObject({ said: 'BATCH_REGION', durable: [] })
    expect(status.paeth.mechanism).toBe(0)
    expectNothingHeld(made)
  })

  test('IN_DOUBT, where the other DPU says what is not known here', () => {
    const made = relay()
    made.wire.spoil = (frame) => {
      const { opcode, paeth } = sentOf(frame)
      if (opcode !== PERSIST_ACK || paeth?.batch !== true) return frame
      const other = frame.slice()
      other[PAETH_AT + PAETH_STATUS] = 0xee
      other[PAETH_AT + PAETH_FLAGS]! &= 0x7f
      other.fill(0, PAETH_AT + 32, PAETH_AT + 32 + 4 * paeth.bitmapWords)
      fillIcrc(other, 0, other.length)
      return other
    }
    expect(only(send(made, recordsOf(upTo(3)))).said).toBe('IN_DOUBT')
  })

  test('BATCH_TIME: a link without room for a second; with room for few, bursts of few', () => {
    const made = relay()
    const { state } = made.wire
    const works = state.initiators.flatMap((one) => one.works)
    const owner = { received: () => {}, done: () => {} }
    for (const work of works) work.owner = owner
    const sent = send(made, recordsOf(upTo(3)))
    expect(statuses(sent)).toEqual([])
    const from = made.wire.heard.length
    for (let i = 0; i < 3; i++) made.wire.pass(BATCH_TIMEOUT_US)
    expect(only(made.wire.heard.slice(from))).toMatchObject({ said: 'BATCH_TIME', durable: [] })
    for (const work of works.slice(0, 3)) work.owner = null
    const status = only(send(made, recordsOf(upTo(8)), { condition: IN_ORDER }))
    expect(status).toMatchObject({ said: 'durable', durable: upTo(8) })
    for (const work of works) if (work.owner === owner) work.owner = null
    expectNothingHeld(made)
  })

  test('BATCH_TIME: a DPU that is not ready fills the link for a second; then it is', () => {
    const made = relay()
    const { wire } = made
    wire.spoil = notReady
    const others = [made.qp, wire.a.connect(4096, 0, 7)]
    for (const [i, qp] of others.entries()) {
      const records = recordsOf(upTo(BATCH_ELEMENTS_MAX).map((slot) => slot + 32 * i))
      expect(statuses(serve(made, ...batchFrames(qp, made, records)))).toEqual([])
    }
    const late = wire.a.connect(4096, 0, 7)
    expect(statuses(serve(made, ...batchFrames(late, made, recordsOf(upTo(3)))))).toEqual([])
    const from = wire.heard.length
    for (let i = 0; i < 12; i++) wire.pass(BATCH_TIMEOUT_US / 10)
    expect(only(wire.heard.slice(from))).toMatchObject({ said: 'BATCH_TIME', durable: [] })
    wire.spoil = (frame) => frame
    const ready = wire.heard.length
    for (let i = 0; i < 12; i++) wire.pass(BATCH_TIMEOUT_US / 10)
    const ends = statuses(wire.heard.slice(ready))
    expect(ends.map(({ said, durable }) => [said, durable.length])).toEqual([
      ['durable', BATCH_ELEMENTS_MAX],
      ['durable', BATCH_ELEMENTS_MAX],
    ])
    expectNothingHeld(made)
  })

  test('P4-9: a guard that an older DPU would not judge, by a NAK, alone and in a batch', () => {
    const wire = related()
    wire.spoil = withoutGuards
    expect(wire.attach()).toBe('PASS')
    const [record] = recordsOf([1])
    const guard = judgedGuard(record!.data)
    for (const asked of ['alone', 'in a batch'] as const) {
      const made = { wire, ...wire.open() }
      const { psn } = made.qp
      const frames =
        asked === 'alone'
          ? persistFrames(made.qp, made, 1, record!.data, { guard })
          : batchFrames(made.qp, made, [{ ...record!, guard }])
      expect(lines(serve(made, ...frames), psn), asked).toEqual(['NAK 0x61 0'])
    }
    expect(found({ wire, ...wire.open() }, [record!])).toEqual([])
    expect(only(send({ wire, ...wire.open() }, [record!])).said).toBe('durable')
  })

  test('another client, by a NAK: its records would pass for repetitions', () => {
    const made = relay()
    const qp = made.wire.a.connect(4096, 0, 8)
    const { psn } = qp
    const sent = serve(made, ...batchFrames(qp, made, recordsOf(upTo(3))))
    expect(lines(sent, psn)).toEqual(['NAK 0x62 0'])
    expect(found(made, recordsOf(upTo(3)))).toEqual([])
  })
})

describe('S1-M5, X-1: a link that breaks', () => {
  for (const [name, condition] of Object.entries(CONDITIONS)) {
    for (const what of ['its request', 'its status'] as const) {
      test(`${name}: under ${what}: the queue pair ends, and the host asks again`, () => {
        const made = relay()
        const { wire } = made
        const records = recordsOf(upTo(40))
        if (what === 'its request') wire.isCut = true
        else {
          // What it says of records is damaged on the way: it is done, and nobody hears of it.
          wire.spoil = (frame) => {
            if (sentOf(frame).opcode !== PERSIST_ACK) return frame
            const other = frame.slice()
            other[other.length - 1]! ^= 1
            return other
          }
        }
        const sent = send(made, records, { condition, operation: 1 })
        const from = wire.heard.length
        for (let s = 0; s < 60; s++) wire.pass(500_000)
        const told = [...sent, ...wire.heard.slice(from)]
        expect(statuses(told)).toEqual([])
        const naks = told.filter((one) => one.opcode === RC_ACKNOWLEDGE && one.syndrome === 0x63)
        expect(naks).toHaveLength(1)
        expectNothingHeld(made)
        const stored = found(made, records)
        expect(stored).toEqual(what === 'its status' ? upTo(BATCH_ELEMENTS_MAX) : [])
        wire.isCut = false
        wire.spoil = (frame) => frame
        for (let i = 0, fault = 'CONNECTING'; i < 20 && fault !== 'PASS'; i++) fault = wire.attach()
        // Its number at its end must not be that of card B's, at the end of the link.
        wire.a.connect(4096, 0, 9)
        const next = { wire, ...wire.open() }
        const all = again(records, upTo(40))
        const status = only(send(next, all, { condition, operation: 1 }))
        expect(status).toMatchObject({ said: 'durable', durable: upTo(40) })
        expect(found(next, records)).toEqual(upTo(40))
        expectNothingHeld(next)
      })
    }
  }

  for (const [name, condition] of Object.entries(CONDITIONS)) {
    test(`${name}: a relay that ends as the last record comes: none goes by the next one`, () => {
      const made = relay(256)
      const { wire, qp } = made
      const other = wire.b.provision({ name: 'other', slots: 4, capacity: 1000 })
      const service = { name: 'other', port: PORT + 1, form: mad.FORM_CAPABILITY }
      expect(publish(wire.b, service).fault).toBe('PASS')
      const records = recordsOf(upTo(3), 1, 700)
      const frames = batchFrames(qp, made, records, { condition, operation: 1 })
      const sent = serve(made, ...frames.slice(0, -1))
      expect(statuses(sent)).toEqual([])
      const far = (body: Uint8Array): void => body.set(new TextEncoder().encode('far'))
      wire.serve(madFrame(callOf(99, mad.METHOD_SET, mad.ATTRIBUTE_DETACH, far, 0)))
      expect(wire.attach('other', PORT + 1)).toBe('PASS')
      const told = only(serve(made, frames.at(-1)!))
      expect(told).toMatchObject({ said: 'STAGING', durable: [] })
      expect(wire.a.counter('STAGING')).toBe(condition === IN_ORDER ? 1 : 3)
      expect(wire.a.counter('CONDITION')).toBe(condition === IN_ORDER ? 2 : 0)
      expect(found(made, records)).toEqual([])
      const reader = wire.b.connect(4096, 0, 9)
      for (const { slot, data } of records) {
        expect(wire.b.read(reader, other, slot, VIEW_DATA, data.length)).not.toEqual(data)
      }
      expectNothingHeld(made)
      // Nothing of it was sent, so all of it may come again.
      expect(wire.attach()).toBe('PASS')
      const next = { ...made, rkey: wire.a.open('far').rkey }
      const status = only(send(next, again(records, upTo(3)), { condition, operation: 1 }))
      expect(status).toMatchObject({ said: 'durable', durable: upTo(3) })
      expect(found(next, records)).toEqual(upTo(3))
    })
  }

  test('before any record of it: a NAK, as for a single record', () => {
    const made = relay()
    const { wire } = made
    wire.isCut = true
    send(made, recordsOf(upTo(3)))
    for (let s = 0; s < 60; s++) wire.pass(500_000)
    const qp = wire.a.connect(4096, 0, 7)
    const { psn } = qp
    const sent = serve(made, ...batchFrames(qp, made, recordsOf(upTo(3))))
    expect(lines(sent, psn)).toEqual(['NAK 0x63 0'])
  })
})

describe('S1-M5: its queue pair', () => {
  test('ends under it: what is on its way is kept until the link is done with it', () => {
    const made = relay()
    const { wire, qp } = made
    const records = recordsOf(upTo(40))
    wire.isCut = true
    serve(made, ...batchFrames(qp, made, records))
    expect(heldBy(wire.state).chunks).toBeGreaterThan(0)
    disconnect(wire.a, qp)
    expect(heldBy(wire.state).chunks).toBeGreaterThan(0)
    // Who has the place now begins no batch there before.
    let next: TestPeer
    do next = wire.a.connect(4096, 0, 7)
    while ((next.number & 0xff) !== (qp.number & 0xff))
    const { psn } = next
    const frames = batchFrames(next, made, recordsOf(upTo(2), 200))
    wire.serve(...frames)
    expect(lines(wire.heard.slice(-1), psn)).toEqual(['NAK 0x2c 0'])
    wire.isCut = false
    for (let s = 0; s < 40; s++) wire.pass(100_000)
    expect(found(made, records)).toEqual(upTo(BATCH_ELEMENTS_MAX))
    expect(statuses(wire.heard)).toEqual([])
    expectNothingHeld(made)
    expect(only(serve(made, ...frames))).toMatchObject({ said: 'durable', durable: [0, 1] })
    expectNothingHeld(made)
  })

  test('fails in a burst that brings more of it: that is kept for nobody', () => {
    const made = relay()
    const { wire, qp } = made
    // As many again do not fit into the chunk that they take: they would take another one.
    const records = recordsOf(upTo(BATCH_ELEMENTS_MAX), 1, 1000)
    const options = { count: 2 * BATCH_ELEMENTS_MAX, operation: 1, ends: false }
    wire.isCut = true
    send(made, records, options)
    const { psn } = qp
    const same = persistFrames(qp, made, 0, dataOf(100, 77), { operation: 100 })
    expect(lines(serve(made, ...same), psn)).toEqual(['NAK 0x2c 0'])
    qp.psn = psn
    const { chunks } = heldBy(wire.state)
    const more = upTo(2 * BATCH_ELEMENTS_MAX - 1, BATCH_ELEMENTS_MAX)
    const later = recordsOf(more, 1, 1000).map((one, i) => ({ ...one, index: more[i]! }))
    const nobody = { rkey: made.rkey ^ 0x100 }
    const frames = batchFrames(qp, made, later, options)
    const sent = serve(made, ...frames, ...persistFrames(qp, nobody, 0, dataOf(100, 77)))
    expect(lines(sent, psn)).toContain(`NAK 0x62 ${more.length}`)
    expect(heldBy(wire.state)).toMatchObject({ chunks, open: 0, inFrames: 0 })
    wire.isCut = false
    for (let s = 0; s < 40; s++) wire.pass(100_000)
    expectNothingHeld(made)
    expect(found(made, [...records, ...later])).toEqual(upTo(BATCH_ELEMENTS_MAX))
    expect(statuses(wire.heard)).toEqual([])
  })

  test('a record of the same slot, and a FLUSH, wait for what is collected', () => {
    const made = relay()
    const { wire, qp } = made
    const own = wire.a.provision({ name: 'own' })
    const records = recordsOf(upTo(6))
    const options = { condition: IN_ORDER, operation: 1, count: 6 }
    send(made, records.slice(0, 4), { ...options, ends: false })
    const late = persistFrames(qp, made, 3, dataOf(100, 77), { operation: 100 })
    const { psn } = qp
    expect(lines(serve(made, ...late), psn - 1)).toEqual(['NAK 0x2c 0'])
    expect(serve(made, ...late).filter(({ opcode }) => opcode === PERSIST_ACK)).toHaveLength(1)
    const last = records.slice(4).map((one, i) => ({ ...one, index: 4 + i }))
    wire.isCut = true
    wire.serve(...batchFrames(qp, made, last, options))
    const flush = flushFrame(qp, own, { selectivity: 1 })
    expect(lines(serve(made, flush), qp.psn - 1)).toEqual(['NAK 0x2c 0'])
    wire.isCut = false
    const from = wire.heard.length
    for (let s = 0; s < 40; s++) wire.pass(100_000)
    const status = only(wire.heard.slice(from))
    expect(status).toMatchObject({ said: 'durable', durable: upTo(6) })
    expect(lines(serve(made, flush), psn).join()).not.toContain('NAK')
    records[3] = { slot: 3, data: dataOf(100, 77) }
    expect(found(made, records)).toEqual(upTo(6))
    expectNothingHeld(made)
  })
})
