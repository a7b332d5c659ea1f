/**
 * Frames that nobody should send (faults N6, N7, N16 … N20 of the crash model): of every length,
 * with every bit turned, of every opcode, with every number that arithmetic gets wrong.
 *
 * What is asked each time: nothing throws, what is refused is counted under a name, and no byte of
 * the part changes but where the sender was allowed to write.
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { FRAME_BYTES_MAX, READ_PACKETS } from '../../../firmware/board/limits.ts'
import { DATA_AT, LANES_AT } from '../../../firmware/medium/superblock.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  CNP,
  OPCODES,
  RC_READ_REQUEST,
  RC_WRITE_ONLY,
  UD_SEND_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import {
  dataOf,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import {
  associateFrame,
  blockSizeFrame,
  hintFrame,
} from '../../support/residency/residency-asks.ts'
import { divided, THOROUGH } from '../../support/run/thorough.ts'
import { frameOf, hex, writeIcrc } from '../../support/wire/frames.ts'
import { carriedFrames, flushFrame, slotOffset, writeFrames } from '../../support/wire/requests.ts'

const SEED = Number(process.env.PERDURE_SEED ?? 20260)

const SLOTS = 4
const CAPACITY_BYTES = 100
const SLOT = 1
const BYTES_OFFSET = 256
const BYTES_LENGTH = 64

/** A card with one record and one range of bytes that a hostile frame may have been meant for. */
class Target {
  readonly card: TestCard = new TestCard(1 << 17).format()
  readonly region: TestRegion
  readonly bytes: TestRegion
  readonly bytesAt: number
  qp: TestPeer
  private before: Uint8Array
  private readonly mayChange: Uint8Array

  constructor() {
    this.region = this.card.provision({ slots: SLOTS, capacity: CAPACITY_BYTES })
    this.bytes = this.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    this.bytesAt = slotOffset(this.region, this.region.copies, 0)
    this.qp = this.card.connect(256)
    for (let slot = 0; slot < SLOTS; slot++) {
      this.card.serve(...persistFrames(this.qp, this.region, slot, dataOf(CAPACITY_BYTES, slot)))
    }
    this.card.idle()
    this.before = this.card.nvdimm.live.slice()
    this.mayChange = new Uint8Array(this.before.length)
    this.allow(LANES_AT, DATA_AT)
  }

  /** Bytes [from, to) may change: the lanes, and what the test says. */
  allow(from: number, to: number): this {
    this.mayChange.fill(1, from, to)
    return this
  }

  allowSlot(slot: number): this {
    for (let copy = 0; copy < this.region.copies; copy++) {
      const at = slotOffset(this.region, copy, slot)
      this.allow(at, at + this.region.stride)
    }
    return this
  }

  allowRegions(): this {
    return this.allow(DATA_AT, this.bytesAt + 4096)
  }

  reconnect(): void {
    this.card.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
      putU32(body, mad.DISCONNECT_QP, this.qp.number)
      putU32(body, mad.DISCONNECT_CLIENT_QP, this.qp.peer)
    })
    this.qp = this.card.connect(256)
  }

  /** Faults counted so far, all of them together. */
  faults(): number {
    let sum = 0
    for (let first = 0; first < FAULTS.length; first += mad.COUNTERS_PER_MAD) {
      const body = this.card.must(mad.METHOD_GET, mad.ATTRIBUTE_COUNTERS, undefined, first)
      const here = u32(body, mad.COUNTERS_HERE)
      for (let i = 0; i < here; i++) sum += u32(body, mad.COUNTERS_FIRST + 8 * i + 4)
    }
    return sum
  }

  /** Fails if a byte changed that might not; afterwards the part is as it was. */
  expectUntouched(what: () => string): void {
    const { live } = this.card.nvdimm
    if (Buffer.compare(live, this.before) === 0) return
    for (let i = 0; i < live.length; i++) {
      if (live[i] !== this.before[i] && this.mayChange[i] === 0) {
        throw new Error(`${what()}: byte ${i} of the part changed`)
      }
    }
    this.before = live.slice()
  }
}

/** One valid frame of each kind that matters, made for the queue pair as it stands. */
const KINDS: Readonly<Record<string, (target: Target) => Uint8Array>> = {
  'WRITE_PERSIST Only': ({ qp, region }) =>
    persistFrames({ ...qp }, region, SLOT, dataOf(CAPACITY_BYTES, 77))[0]!,
  'WRITE_PERSIST Only, carried': ({ qp, region }) =>
    carriedFrames({ ...qp }, region, SLOT, [dataOf(50, 7), dataOf(50, 7)], { addressed: true })[0]!,
  'WRITE_PERSIST First': ({ qp, region }) =>
    frameOf({
      bth: { opcode: WRITE_PERSIST_FIRST, destQp: qp.number, psn: qp.psn },
      reth: { vaHigh: SLOT, rkey: region.rkey, length: 300 },
      pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 9 },
      payload: dataOf(256, 5),
    }),
  'READ Request': ({ qp, region }) => readFrame({ ...qp }, region, SLOT, 0, CAPACITY_BYTES),
  'WRITE Only': ({ qp, bytes }) =>
    writeFrames({ ...qp }, bytes, BYTES_OFFSET, dataOf(BYTES_LENGTH, 3))[0]!,
  ASSOCIATE: ({ qp, bytes }) =>
    associateFrame(
      { ...qp },
      { rkey: bytes.rkey, address: 0, length: 4096 },
      { blockSizeLog2: 12, optIn: true, current: false },
    ),
  BLOCK_SIZE: ({ qp, bytes }) => blockSizeFrame({ ...qp }, bytes.rkey, { blockSizeLog2: 12 }),
  PREFETCH_HINT: ({ qp, bytes }) =>
    hintFrame({ ...qp }, { rkey: bytes.rkey, address: BYTES_OFFSET, length: BYTES_LENGTH }),
  'a control call': () => controlFrame(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, 'records'),
}

function controlFrame(method: number, attribute: number, name: string): Uint8Array {
  const payload = new Uint8Array(mad.MAD_BYTES)
  mad.writeMad(payload, 0, { ...mad.blankMad(), method, attribute, transactionLow: 99 })
  payload.set(new TextEncoder().encode(name), mad.MAD_BODY)
  return frameOf({
    bth: { opcode: UD_SEND_ONLY, destQp: 1 },
    deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    payload,
  })
}

/** Where a turned bit may make a frame mean another permitted place. */
function openFor(kind: string): Target {
  const target = new Target()
  if (kind.startsWith('WRITE_PERSIST')) for (let s = 0; s < SLOTS; s++) target.allowSlot(s)
  if (kind === 'WRITE Only') target.allowRegions()
  return target
}

describe('lengths', () => {
  test.each(Object.keys(KINDS))('N7: %s, cut off at every length, changes nothing', (kind) => {
    const target = new Target()
    const frame = KINDS[kind]!(target)
    const faults = target.faults()
    for (let length = 0; length < frame.length; length++) {
      expect(target.card.serve(frame.slice(0, length)), `${length} bytes`).toEqual([])
    }
    expect(target.faults() - faults).toBe(frame.length)
    target.expectUntouched(() => 'cut off')
    expect(target.card.serve(frame).length).toBe(
      kind === 'WRITE_PERSIST First' ? 0 : kind.startsWith('WRITE_PERSIST') ? 2 : 1,
    )
  })

  test.each(Object.keys(KINDS))(
    'N7: %s, cut off with a valid ICRC again, changes nothing else',
    (kind) => {
      const target = openFor(kind)
      const frame = KINDS[kind]!(target)
      for (let length = 14; length < frame.length; length++) {
        const cut = frame.slice(0, length)
        if (length > 60) {
          const udp = length - 34
          cut.set([(length - 14) >> 8, (length - 14) & 255], 16)
          cut.set([udp >> 8, udp & 255], 38)
          writeIcrc(cut)
        }
        const sent = target.card.serve(cut)
        if (sent.length > 0) target.reconnect()
        target.expectUntouched(() => `${kind}: ${length} bytes`)
      }
    },
  )

  test('N7: with bytes of Ethernet padding behind it a frame means the same', () => {
    for (const padding of [1, 2, 3, 4, 17, 64, 1000]) {
      const target = new Target().allowSlot(SLOT)
      const frame = KINDS['WRITE_PERSIST Only']!(target)
      const padded = new Uint8Array(frame.length + padding).fill(0x5a)
      padded.set(frame)
      expect(target.card.serve(padded).length).toBe(2)
      target.expectUntouched(() => `${padding} bytes of padding`)
    }
  })

  test('N7: a frame that is longer than any is dropped and counted', () => {
    const target = new Target()
    const frame = KINDS['WRITE_PERSIST Only']!(target)
    for (const length of [FRAME_BYTES_MAX + 1, FRAME_BYTES_MAX + 64, 9000, 65535, 100_000]) {
      const long = new Uint8Array(length)
      long.set(frame)
      expect(target.card.serve(long)).toEqual([])
    }
    expect(target.card.counter('FRAME_LONG')).toBe(5)
    target.expectUntouched(() => 'too long')
  })

  test('N7: a length field with any value near the truth or at an end changes nothing', () => {
    const target = new Target()
    const frame = KINDS['WRITE_PERSIST Only']!(target)
    for (const at of [16, 38]) {
      const truth = frame[at]! * 256 + frame[at + 1]!
      for (const value of [0, 1, 19, 20, 27, 28, 8, 7, 0x7fff, 0x8000, 0xffff].concat(
        [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5].map((d) => truth + d),
      )) {
        const wrong = frame.slice()
        wrong.set([value >> 8, value & 255], at)
        writeIcrc(wrong)
        expect(target.card.serve(wrong), `${value} at ${at}`).toEqual([])
      }
    }
    target.expectUntouched(() => 'lengths of IP and UDP')
  })
})

describe('turned bits', () => {
  /** Offsets whose bits the ICRC does not cover: Ethernet, TOS, TTL, checksums, BTH byte 4. */
  const OPEN = new Set([...Array.from({ length: 14 }, (_, i) => i), 15, 22, 24, 25, 40, 41, 46])

  test.each(Object.keys(KINDS))(
    'N6: any one bit of %s turned on the way: it is dropped',
    (kind) => {
      const target = new Target()
      const frame = KINDS[kind]!(target)
      let dropped = 0
      const faults = target.faults()
      for (let at = 0; at < frame.length; at++) {
        if (OPEN.has(at)) continue
        for (let bit = 0; bit < 8; bit++) {
          frame[at] = frame[at]! ^ (1 << bit)
          expect(target.card.serve(frame), `bit ${bit} of byte ${at}`).toEqual([])
          frame[at] = frame[at]! ^ (1 << bit)
          dropped += 1
        }
      }
      expect(target.faults() - faults).toBe(dropped)
      target.expectUntouched(() => kind)
    },
  )

  for (const { rows, options } of divided(Object.keys(KINDS), (kind) =>
    /^WRITE_PERSIST|control call/.test(kind),
  )) {
    test.each(rows)(
      'N6, N19: any one bit of %s turned, and the ICRC valid: refused, or done within its rights',
      options,
      (kind) => {
        const target = openFor(kind)
        const length = KINDS[kind]!(target).length
        for (let at = 0; at < length - 4; at++) {
          for (let bit = 0; bit < 8; bit++) {
            const frame = KINDS[kind]!(target)
            frame[at] = frame[at]! ^ (1 << bit)
            writeIcrc(frame)
            const faults = target.faults()
            const sent = target.card.serve(frame)
            const what = (): string => `${kind}: bit ${bit} of byte ${at}`
            target.expectUntouched(what)
            if (sent.length === 0 && kind !== 'WRITE_PERSIST First') {
              // Silence is either a fault that was counted, or a request that asked for silence.
              const asked = at === 50 && bit === 7
              if (!asked) expect(target.faults(), what()).toBeGreaterThan(faults)
            }
            for (const { syndrome } of sent)
              expect([-1, 0x1f, 0x60, 0x61, 0x62]).toContain(syndrome)
            target.reconnect()
          }
        }
      },
    )
  }
})

describe('opcodes', () => {
  for (const { rows, options } of divided(
    [
      { where: 'expected', distance: 0 },
      { where: 'ahead', distance: 3 },
      { where: 'behind', distance: -3 },
      { where: 'as far ahead as can be', distance: 0x7fffff },
      { where: 'as far behind as can be', distance: 0x800000 },
    ],
    ({ distance }) => distance !== 0,
  )) {
    test.each(rows)(
      'N19: each of the 256 opcodes, its PSN $where, is served or refused by name',
      options,
      ({ distance }) => {
        const target = new Target().allowRegions()
        for (let opcode = 0; opcode < 256; opcode++) {
          for (const length of [0, 8, 256]) {
            for (const destQp of [target.qp.number, 1, 0, 0xffffff]) {
              const frame = frameOf({
                bth: {
                  opcode,
                  destQp,
                  psn: (target.qp.psn + distance) & 0xffffff,
                  ackRequest: true,
                },
                reth: {
                  vaHigh: target.bytes.baseHigh,
                  vaLow: BYTES_OFFSET,
                  rkey: target.bytes.rkey,
                  length,
                },
                deth: { qkey: Q_KEY_GSI, sourceQp: 5 },
                payload: dataOf(length, opcode),
              })
              const faults = target.faults()
              const sent = target.card.serve(frame)
              const counted = target.faults() - faults
              const name = OPCODES[opcode]?.name ?? `0x${opcode.toString(16)}`
              const what = (): string => `${name} to ${destQp}, ${length} bytes, PSN ${distance}`
              target.expectUntouched(what)
              const done = sent.some(({ syndrome }) => syndrome === 0x1f)
              const quiet = opcode === 6 || opcode === 0xc6
              if (!done && !quiet) expect(counted, what()).toBe(1)
              if (destQp !== target.qp.number) expect(sent, what()).toEqual([])
              if (distance === 3 && sent.length > 0) expect(sent[0]!.syndrome, what()).toBe(0x60)
              const duplicate = distance < 0 || distance === 0x800000
              if (duplicate) for (const { syndrome } of sent) expect(syndrome, what()).toBe(0x1f)
              target.reconnect()
            }
          }
        }
      },
    )
  }
})

describe('numbers that arithmetic gets wrong (N16)', () => {
  const EDGES = [0, 1, 2 ** 31, 2 ** 32].flatMap((edge) =>
    [-65, -64, -2, -1, 0, 1, 2, 63, 64].map((d) => (edge + d) % 2 ** 32),
  )
  const WORDS = [...new Set(EDGES.map((value) => value >>> 0))]
  const HIGHS = [
    0,
    1,
    3,
    4,
    5,
    0xffff,
    0x10000,
    2 ** 20,
    2 ** 21,
    2 ** 21 - 1,
    2 ** 31,
    2 ** 32 - 1,
  ]

  /** Serves one frame to a fresh queue pair; its first answer's syndrome, or -1. */
  function answerTo(target: Target, frame: (qp: TestPeer) => Uint8Array): Sent[] {
    const sent = target.card.serve(frame(target.qp))
    if (sent.some(({ syndrome }) => syndrome > 0x1f) || sent.length === 0) target.reconnect()
    else target.qp.psn = (target.qp.psn + 1) & 0xffffff
    return sent
  }

  test(
    'WRITE: any address and any length changes only what it may, and mostly nothing',
    THOROUGH,
    () => {
      const target = new Target()
      const faults = target.faults()
      let refused = 0
      for (const vaHigh of HIGHS) {
        for (const vaLow of WORDS) {
          for (const length of [...WORDS, 8]) {
            const payload = new Uint8Array(8).fill(length & 255)
            const there = vaHigh === target.bytes.baseHigh
            const inside = there && length === 8 && vaLow <= 4096 - 8
            if (inside) continue
            const sent = answerTo(target, (qp) =>
              frameOf({
                bth: { opcode: RC_WRITE_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
                reth: { vaHigh, vaLow, rkey: target.bytes.rkey, length },
                payload,
              }),
            )
            refused += 1
            expect(sent.map(({ syndrome }) => syndrome)).toEqual([length === 8 ? 0x62 : 0x61])
          }
        }
        target.expectUntouched(() => `WRITE to high word ${vaHigh}`)
      }
      expect(target.faults() - faults).toBe(refused)
    },
  )

  test('WRITE First of any length is judged by its whole length before a byte is stored', () => {
    const target = new Target()
    for (const vaLow of [0, 1, 3840, 3841, 4095, 4096]) {
      for (const length of WORDS.filter((value) => value > 256)) {
        const [frame] = writeFrames(target.qp, target.bytes, vaLow, dataOf(512, 1), { length })
        const sent = target.card.serve(frame!)
        if (length <= 4096 - vaLow) continue
        expect(sent[0]!.syndrome).toBe(length > 2 ** 31 ? 0x61 : 0x62)
        target.reconnect()
      }
    }
    target.expectUntouched(() => 'WRITE First')
  })

  test('READ: any address and any length is refused, or delivers what is there', THOROUGH, () => {
    const target = new Target()
    for (const region of [target.region, target.bytes]) {
      for (const vaHigh of HIGHS) {
        for (const vaLow of WORDS) {
          for (const length of WORDS.filter((value) => value !== 0)) {
            const sent = answerTo(target, (qp) =>
              frameOf({
                bth: { opcode: RC_READ_REQUEST, destQp: qp.number, psn: qp.psn },
                reth: { vaHigh, vaLow, rkey: region.rkey, length },
              }),
            )
            const limit = region === target.bytes ? 4096 : CAPACITY_BYTES
            const first = region.baseHigh
            const slots = region === target.bytes ? 1 : SLOTS
            const there = vaHigh >= first && vaHigh < first + slots
            const inside = there && vaLow < limit && length <= limit - vaLow
            if (inside) expect(sent[0]!.syndrome).toBe(0x1f)
            else
              expect(sent.map(({ syndrome }) => syndrome)).toEqual([length > 2 ** 31 ? 0x61 : 0x62])
          }
        }
      }
    }
    target.expectUntouched(() => 'READ')
  })

  test('WRITE_PERSIST: any slot, offset and length, in RETH and in address extensions', () => {
    const target = new Target().allowSlot(SLOT)
    const data = dataOf(8, 1)
    const copies = [data, data]
    for (const high of HIGHS) {
      for (const low of WORDS) {
        const answers = [
          answerTo(target, (qp) => persistTo(target, qp, high, low, 8)),
          answerTo(target, (qp) => persistTo(target, qp, SLOT, 0, low)),
          answerTo(
            target,
            (qp) =>
              carriedFrames({ ...qp }, target.region, SLOT, copies, {
                addressed: true,
                extensions: [{ vaHigh: high, vaLow: low }],
              })[0]!,
          ),
          answerTo(
            target,
            (qp) =>
              carriedFrames({ ...qp }, target.region, SLOT, copies, {
                addressed: true,
                extensions: [{ length: low, rkey: low ^ target.region.rkey }],
              })[0]!,
          ),
        ]
        const what = (): string => `slot ${high}, offset or length ${low}`
        if (low === 0 && high >= SLOTS) expect(answers[0]![0]!.paeth!.status, what()).toBe(0x82)
        else if (low !== 0) expect(answers[0]![0]!.syndrome, what()).toBe(0x62)
        if (low !== 8) expect(answers[1]![0]!.syndrome, what()).toBe(0x61)
        expect(answers[2]![0]!.syndrome, what()).toBe(0x62)
        expect(answers[3]![0]!.syndrome, what()).toBe(0x62)
      }
    }
    for (const slot of [0, 3]) target.allowSlot(slot)
    target.expectUntouched(() => 'WRITE_PERSIST')
  })

  function persistTo(
    target: Target,
    qp: TestPeer,
    vaHigh: number,
    vaLow: number,
    length: number,
  ): Uint8Array {
    return frameOf({
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
      reth: { vaHigh, vaLow, rkey: target.region.rkey, length },
      pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 3 },
      payload: dataOf(8, 1),
    })
  }

  test('a key that differs in any bit names nothing', () => {
    const target = new Target()
    for (let bit = 0; bit < 32; bit++) {
      for (const region of [target.region, target.bytes]) {
        const rkey = (region.rkey ^ (1 << bit)) >>> 0
        for (const frame of [
          (qp: TestPeer) => persistFrames({ ...qp }, { rkey }, SLOT, dataOf(8, 1))[0]!,
          (qp: TestPeer) => writeFrames({ ...qp }, rkey, 0, dataOf(8, 1))[0]!,
          (qp: TestPeer) => readFrame({ ...qp }, rkey, 0, 0, 8),
        ]) {
          expect(answerTo(target, frame).map(({ syndrome }) => syndrome)).toEqual([0x62])
        }
      }
    }
    target.expectUntouched(() => 'keys')
  })
})

describe('bursts of anything', () => {
  const bytes = fc.uint8Array({ minLength: 0, maxLength: 400 })
  const hostile = fc.record({
    kind: fc.constantFrom(...Object.keys(KINDS)),
    flips: fc.array(fc.tuple(fc.nat({ max: 500 }), fc.integer({ min: 1, max: 255 })), {
      maxLength: 4,
    }),
    sealed: fc.boolean(),
    cut: fc.option(fc.nat({ max: 300 }), { freq: 6 }),
    psn: fc.integer({ min: -2, max: 2 }),
  })

  test(`nothing throws, and nothing but the regions changes (seed ${SEED})`, THOROUGH, () => {
    const target = new Target().allowRegions()
    const burst = fc.array(
      fc.oneof({ weight: 1, arbitrary: bytes }, { weight: 9, arbitrary: hostile }),
      {
        minLength: 1,
        maxLength: 32,
        size: 'max',
      },
    )
    let frames = 0
    let bursts = 0
    fc.assert(
      fc.property(burst, fc.boolean(), (parts, renew) => {
        bursts++
        const served = parts.map((part) => (part instanceof Uint8Array ? part : made(target, part)))
        frames += served.length
        target.card.serve(...served)
        if (renew) target.reconnect()
        target.expectUntouched(() => 'a burst')
      }),
      { seed: SEED, numRuns: 8000 },
    )
    // With all 8,000 bursts these are 100,000 frames.
    expect(frames).toBeGreaterThan(12.5 * bursts)
    // The part is well after all of it.
    target.reconnect()
    const [ack] = target.card.serve(...persistFrames(target.qp, target.region, 0, dataOf(9, 9)))
    expect(ack!.syndrome).toBe(0x1f)
  })

  function made(
    target: Target,
    part: typeof hostile extends fc.Arbitrary<infer T> ? T : never,
  ): Uint8Array {
    let frame = KINDS[part.kind]!({ ...target, qp: shifted(target.qp, part.psn) } as Target)
    if (part.cut !== null) frame = frame.slice(0, part.cut)
    for (const [at, bits] of part.flips) {
      if (at >= 12 && at < frame.length) frame[at] = frame[at]! ^ bits
    }
    if (part.sealed && frame.length > 64) writeIcrc(frame)
    return frame
  }

  function shifted(qp: TestPeer, by: number): TestPeer {
    return { ...qp, psn: (qp.psn + by) & 0xffffff }
  }
})

describe('faults that are answered with silence', () => {
  /** Each frame that is dropped for that reason. */
  const DROPPED: Readonly<Record<string, (target: Target) => Uint8Array>> = {
    FRAME_SHORT: (t) => KINDS['WRITE Only']!(t).slice(0, 40),
    FRAME_LONG: () => new Uint8Array(FRAME_BYTES_MAX + 1),
    NOT_ROCE: (t) => patched(t, 37, 0xb8),
    IP_HEADER: (t) => patched(t, 14, 0x46),
    IP_LENGTH: (t) => patched(t, 39, 3),
    NOT_FOR_US: (t) => patched(t, 33, 77),
    ICRC: (t) => {
      const frame = KINDS['WRITE Only']!(t)
      frame[frame.length - 1] = frame[frame.length - 1]! ^ 1
      return frame
    },
    LINUX_FLUSH_ICRC: (t) => flushFrame({ ...t.qp }, t.bytes, { linux: true }),
    CONGESTION: (t) =>
      frameOf({ bth: { opcode: CNP, destQp: t.qp.number }, payload: new Uint8Array(16) }),
    CONGESTION_MARK: (t) => {
      const frame = KINDS['READ Request']!(t)
      frame[15] = 3
      return frame
    },
    TRANSPORT_VERSION: (t) => patched(t, 43, 1),
    PARTITION: (t) => patched(t, 44, 0x80),
    UNKNOWN_QP: (t) => patched(t, 49, 0x0f),
    WRONG_TRANSPORT: (t) => patched(t, 42, 0x24),
    WRONG_PEER: (t) => patched(t, 29, 77),
    QP_ERROR_STATE: (t) => {
      t.card.serve(patched(t, 42, 0x18))
      return KINDS['WRITE Only']!(t)
    },
    UNEXPECTED_RESPONSE: (t) => frameOf({ bth: { opcode: 0x11, destQp: t.qp.number } }),
    MANAGEMENT_FORM: () => patchedControl(54 + 8 + mad.MAD_CLASS, 4),
    NEIGHBOUR_FORM: () => hex(`ffffffffffff 020000000001 0806 ${'00'.repeat(28)}`),
    CONNECTION_FORM: () => patchedControl(54 + 8 + mad.MAD_CLASS, 7),
    DUPLICATE: (t) =>
      persistFrames({ ...t.qp }, t.region, 0, dataOf(8, 1), { psn: t.qp.psn - 9 })[0]!,
    DUPLICATE_FORGED: (t) =>
      persistFrames({ ...t.qp }, t.region, 0, dataOf(8, 1), {
        psn: t.qp.psn - 1,
        operation: 99,
      })[0]!,
    DUPLICATE_FORGOTTEN: (t) => flushFrame(t.qp, t.bytes, { psn: t.qp.psn - 1 }),
    HELD_BACK: (t) => {
      // Three turns: one now, one when the counter is asked for, one behind the frame.
      const length = 3 * READ_PACKETS * 256
      const long = t.card.provision({ name: 'long', kind: mad.KIND_BYTES, length })
      t.allow(0, DATA_AT)
      t.card.serve(readFrame(t.qp, long, 0, 0, length))
      return KINDS['WRITE Only']!(t)
    },
    SEQUENCE_AGAIN: (t) => {
      const ahead = persistFrames({ ...t.qp }, t.region, 0, dataOf(8, 1), { psn: t.qp.psn + 1 })[0]!
      t.card.serve(ahead)
      return ahead
    },
    GROUP_SOURCE: (t) => patched(t, 6, 3),
  }

  function patched(target: Target, at: number, value: number): Uint8Array {
    const frame = KINDS['WRITE Only']!(target)
    frame[at] = value
    writeIcrc(frame)
    return frame
  }

  function patchedControl(at: number, value: number): Uint8Array {
    const frame = controlFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS, '')
    frame[at] = value
    writeIcrc(frame)
    return frame
  }

  /**
   * Some are only counted, and answered all the same: a duplicate, which changes nothing,
   * what Linux computes, what the network marked. A long READ goes on whatever comes behind it.
   */
  const TAKEN: Readonly<Record<string, number>> = {
    ...{ DUPLICATE: 1, DUPLICATE_FORGED: 1, LINUX_FLUSH_ICRC: 1, CONGESTION_MARK: 2 },
    HELD_BACK: READ_PACKETS + 1,
  }

  /**
   * Counted by what no single frame does, nor any to an open card: connect.test.ts,
   * placement-through.test.ts, sealed-calls.test.ts.
   */
  const ELSEWHERE = ['PASS', 'STALE_CONNECTION', 'BELL', 'SEAL_BROKEN']

  const silent = FAULTS.filter(({ answer, name }) => answer === 'drop' && !ELSEWHERE.includes(name))

  test('there is a way here to every one of them', () => {
    expect(Object.keys(DROPPED)).toEqual(silent.map((row) => row.name))
  })

  test('who is not answered is told no code', () => {
    expect(FAULTS.filter(({ answer, code }) => answer === 'drop' && code !== 0)).toEqual([])
  })

  test.each(silent)('$name: $meaning', ({ name }) => {
    const target = new Target()
    const frame = DROPPED[name]!(target)
    const counted = target.card.counter(name)
    const sent = target.card.serve(frame)
    expect(target.card.counter(name) - counted).toBe(1)
    expect(sent.length).toBe(TAKEN[name] ?? 0)
    target.expectUntouched(() => name)
  })

  /** What no station has, and where in a frame of IPv4 it would stand. */
  const NOBODY: readonly (readonly [string, number, readonly number[]])[] = [
    ['an Ethernet group', 6, [0x01, 0, 0x5e, 0, 0, 1]],
    ['everybody', 6, [255, 255, 255, 255, 255, 255]],
    ['a group of IPv4', 26, [224, 0, 0, 1]],
    ['all of IPv4', 26, [255, 255, 255, 255]],
    ['nobody', 26, [0, 0, 0, 0]],
    ['itself', 26, [127, 0, 0, 1]],
  ]

  test.each(NOBODY)(
    'whatever comes from %s changes nothing and draws no answer',
    (what, at, from) => {
      const target = new Target()
      const asked = Object.entries(KINDS).map(([kind, make]) => [kind, make(target)] as const)
      const status = controlFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS, '')
      for (const [kind, frame] of [...asked, ['a control call', status] as const]) {
        const forged = frame.slice()
        forged.set(from, at)
        writeIcrc(forged)
        const counted = target.card.counter('GROUP_SOURCE')
        expect(target.card.serve(forged), kind).toEqual([])
        expect(target.card.plain, kind).toEqual([])
        expect(target.card.counter('GROUP_SOURCE') - counted, kind).toBe(1)
        target.expectUntouched(() => `${kind} from ${what}`)
      }
      // The connection lives, and its next request is the one that it awaits.
      expect(target.card.serve(readFrame(target.qp, target.region, SLOT, 0, 8))).toHaveLength(1)
    },
  )
})
