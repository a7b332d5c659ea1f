/**
 * Elements as the driver encodes them, judged by the rules of source 3 and by the firmware's own.
 */

import { describe, expect, test } from 'vitest'
import { INLINE_BYTES_MAX, SGES_MAX, UNIT_BYTES } from '../../../../firmware/board/limits.ts'
import * as el from '../../../../firmware/host/element.ts'
import * as kind from '../../../../firmware/transport/requester.ts'
import {
  checkInlineRule,
  encodeElement,
  encodeReceive,
  goesInline,
  stamp,
  unitsOf,
} from '../../../../host-driver/card/queues/element.ts'
import type { QueueElement } from '../../../../host-driver/card/queues/values.ts'
import type { Range } from '../../../../host-driver/way/work-request.ts'

const ARGUMENT = expect.objectContaining({ code: 'PERDURE_ARGUMENT' })
const SENDING = [
  kind.WRITE_PERSIST,
  kind.WRITE,
  kind.WRITE_IMM,
  kind.SEND,
  kind.SEND_IMM,
  kind.SEND_INV,
] as const

const bytesOf = (length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i * 7 + 1) & 0xff)
const rangeOf = (length: number, address = 4096): Range => ({ address, length, lkey: 5 })

describe('inline or by address', () => {
  test('P3-3: by size alone: up to the threshold inline, at every length around it', () => {
    for (const inlineMax of [0, 1, 63, 64, 65, 256, INLINE_BYTES_MAX]) {
      const rule = { inlineMax, inlineKinds: null }
      for (const one of SENDING) {
        for (let length = 1; length <= INLINE_BYTES_MAX + 2; length++) {
          if (goesInline(one, length, rule) !== length <= inlineMax) throw new Error(`${length}`)
        }
      }
    }
  })

  test('P3-3: by type and size: both have to hold', () => {
    for (const listed of SENDING) {
      const rule = { inlineMax: 100, inlineKinds: new Set([listed]) }
      for (const one of SENDING) {
        for (const length of [1, 99, 100, 101]) {
          expect(goesInline(one, length, rule)).toBe(one === listed && length <= 100)
        }
      }
    }
  })

  test('P3-3: what sends no bytes is never inline; a senseless rule is refused', () => {
    const rule = { inlineMax: INLINE_BYTES_MAX, inlineKinds: null }
    for (const one of [kind.READ, kind.FETCH_ADD, kind.FLUSH, 'nop'] as const) {
      expect(goesInline(one, 8, rule)).toBe(false)
    }
    for (const inlineMax of [-1, 1.5, Number.NaN, INLINE_BYTES_MAX + 1]) {
      expect(() => checkInlineRule({ inlineMax, inlineKinds: null })).toThrow(ARGUMENT)
    }
    const inlineKinds = new Set([kind.READ] as const)
    expect(() => checkInlineRule({ inlineMax: 1, inlineKinds })).toThrow(ARGUMENT)
  })
})

describe('an element', () => {
  test('P3-2: has as many units as its bytes need, at every length', () => {
    for (let length = 1; length <= INLINE_BYTES_MAX; length++) {
      const inline = bytesOf(length)
      const element = encodeElement({ kind: kind.WRITE }, { inline })
      const units = 1 + Math.ceil(length / UNIT_BYTES)
      if (element.length !== units * UNIT_BYTES) throw new Error(`${length} bytes`)
      if (element[el.WQE_UNITS] !== units || unitsOf(length, 0) !== units) throw new Error('units')
      const behind = element.subarray(UNIT_BYTES, UNIT_BYTES + length)
      if (Buffer.compare(behind, inline) !== 0) throw new Error('bytes')
    }
  })

  test('P3-2: one piece is named in the first unit, several behind it', () => {
    for (let pieces = 0; pieces <= SGES_MAX; pieces++) {
      const ranges = Array.from({ length: pieces }, (_, i) => rangeOf(10 + i, 4096 + 100 * i))
      const element = encodeElement({ kind: kind.WRITE }, { ranges })
      const view = new DataView(element.buffer)
      const behind = pieces > 1 ? pieces * el.SGE_BYTES : 0
      expect(element.length).toBe((1 + Math.ceil(behind / UNIT_BYTES)) * UNIT_BYTES)
      expect(element[el.WQE_ENTRIES]).toBe(pieces > 1 ? pieces : 0)
      expect(view.getUint32(el.WQE_LENGTH, true)).toBe(ranges.reduce((n, r) => n + r.length, 0))
      if (pieces === 1) expect(view.getBigUint64(el.WQE_LOCAL, true)).toBe(4096n)
    }
    const tooMany = Array.from({ length: SGES_MAX + 1 }, () => rangeOf(1))
    expect(() => encodeElement({ kind: kind.WRITE }, { ranges: tooMany })).toThrow(ARGUMENT)
  })

  test('D-8: the addresses of further copies stand at the next multiple of 16', () => {
    const reth = { vaHigh: 3, vaLow: 0x3000_0000, rkey: 0x11223344, length: 20 }
    for (let length = 1; length <= 65; length++) {
      const work: QueueElement = { kind: kind.WRITE_PERSIST, extensions: [reth], addressed: true }
      const element = encodeElement(work, { inline: bytesOf(length) })
      const at = UNIT_BYTES + Math.ceil(length / 16) * 16
      expect(new DataView(element.buffer).getUint32(at + 8)).toBe(0x11223344)
      expect(element.length).toBe(unitsOf(length, 1) * UNIT_BYTES)
    }
  })

  test('the stamps are those of its number, also at 2^32', () => {
    for (const [number, expected] of [
      [0, 1],
      [41, 42],
      [2 ** 32 - 2, 2 ** 32 - 1],
      [2 ** 32 - 1, 0],
    ] as const) {
      const element = encodeReceive({ range: rangeOf(10) })
      stamp(element, number)
      const view = new DataView(element.buffer)
      expect(view.getUint32(el.WQE_STAMP, true)).toBe(expected)
      expect(view.getUint32(el.WQE_STAMP_AGAIN, true)).toBe(expected)
    }
  })

  test('an atomic write has its eight bytes in the first unit', () => {
    const element = encodeElement({ kind: kind.ATOMIC_WRITE }, { inline: bytesOf(8) })
    expect(element.length).toBe(UNIT_BYTES)
    expect(element.slice(el.WQE_OPERATION, el.WQE_OPERATION + 8)).toEqual(bytesOf(8))
    for (const length of [0, 7, 9]) {
      const inline = bytesOf(length)
      expect(() => encodeElement({ kind: kind.ATOMIC_WRITE }, { inline })).toThrow(ARGUMENT)
    }
  })

  test('what cannot be said in one is refused', () => {
    const wrong: Partial<Record<keyof QueueElement, unknown>>[] = [
      ...[0, 16, -1, 1.5, Number.NaN, 'nope', null].map((k) => ({ kind: k })),
      ...[-1, 2 ** 32, 1.5].flatMap((n) => [{ rkey: n }, { immediate: n }, { length: n }]),
      ...[-1, 256, 1.5].flatMap((n) => [{ wait: n }, { furtherCopies: n }, { placement: n }]),
      ...[-1n, 2n ** 64n, 5].flatMap((n) => [{ address: n }, { operation: n }, { compare: n }]),
      { to: { mac: [1, 2, 3], ipv4: [1, 2, 3, 4] } },
      { to: { mac: [1, 2, 3, 4, 5, 6], ipv4: [1, 2, 3] } },
    ]
    for (const fields of wrong) {
      const work = { kind: kind.WRITE, ...fields } as QueueElement
      expect(() => encodeElement(work, { ranges: [] }), String(Object.entries(fields))).toThrow(
        ARGUMENT,
      )
    }
    const ranges: Range[] = [
      { address: -1, length: 1, lkey: 0 },
      { address: 2 ** 48, length: 1, lkey: 0 },
      { address: 2 ** 48 - 1, length: 2, lkey: 0 },
      { address: 0, length: 2 ** 32, lkey: 0 },
      { address: 0, length: -1, lkey: 0 },
      { address: 0.5, length: 1, lkey: 0 },
      { address: 0, length: 1, lkey: 2 ** 32 },
    ]
    for (const range of ranges) {
      expect(() => encodeElement({ kind: kind.WRITE }, { ranges: [range] })).toThrow(ARGUMENT)
      expect(() => encodeReceive({ range })).toThrow(ARGUMENT)
    }
    const long = { inline: bytesOf(INLINE_BYTES_MAX + 1) }
    expect(() => encodeElement({ kind: kind.WRITE }, long)).toThrow(ARGUMENT)
  })
})

describe('S1-M9: a message of a batch', () => {
  const batch = { id: 7, index: 2, count: 3, condition: 1, left: 0 }
  const message: QueueElement = { kind: kind.WRITE_PERSIST, message: true, operation: 9n, batch }

  test('is a SEND with the place in its batch', () => {
    const bytes = encodeElement(message, { inline: bytesOf(40) })
    const view = new DataView(bytes.buffer)
    expect(bytes[el.WQE_OPCODE]).toBe(kind.SEND)
    expect(view.getUint16(el.WQE_FLAGS, true)).toBe(el.SIGNALED | el.INLINE | el.BATCH)
    expect(view.getBigUint64(el.WQE_OPERATION, true)).toBe(9n)
    expect(bytes[el.WQE_BATCH_INDEX]).toBe(2)
  })

  test('without a batch, or with what it cannot have, it is refused', () => {
    const wrong: Partial<QueueElement>[] = [
      { batch: undefined },
      { kind: kind.SEND },
      { carried: true },
      { twoSteps: true },
      { addressed: true },
      { solicited: true },
      { guard: 1 },
    ]
    for (const change of wrong) {
      const encode = (): unknown => encodeElement({ ...message, ...change }, { inline: bytesOf(8) })
      expect(encode, JSON.stringify(change)).toThrow(ARGUMENT)
    }
  })
})
