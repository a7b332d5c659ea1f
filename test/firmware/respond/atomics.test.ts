/**
 * FETCH-ADD, COMPARE-SWAP and ATOMIC WRITE; and every request with everything that an address can
 * be refused for (wire-format 1.3, 3.3, 3.10, 4, 6.2; faults N6, N16).
 */

import { describe, expect, test } from 'vitest'
import { COPY_CLEAN, LENGTH } from '../../../firmware/board/hal.ts'
import {
  BYTES_AT,
  BYTES_LENGTH,
  type BytesCard,
  bytesCard,
  contentsOf,
} from '../../support/cards/bytes-card.ts'
import { dataOf, type Place, readFrame, type TestPeer } from '../../support/cards/test-card.ts'
import { hexOf } from '../../support/wire/frames.ts'
import {
  atomicWriteFrame,
  compareSwapFrame,
  fetchAddFrame,
  firstDifference,
  flushFrame,
  lines,
  NAK_ACCESS,
  NAK_INVALID,
  NAK_OPERATIONAL,
  writeFrames,
} from '../../support/wire/requests.ts'

const TOP = 2n ** 64n - 1n
const NUMBERS = [0n, 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 63n, TOP]

function word(one: BytesCard, at: number): bigint {
  const { live } = one.card.nvdimm
  return new DataView(live.buffer, live.byteOffset + BYTES_AT + at, 8).getBigUint64(0, true)
}

describe('an atomic', () => {
  test('adds modulo 2^64 to the word in the order of the machine, and tells what it found', () => {
    for (const before of NUMBERS) {
      for (const add of NUMBERS) {
        const one = bytesCard()
        const { card, qp, bytes } = one
        const base = qp.psn
        const set = compareSwapFrame(qp, bytes, 64, 0n, before)
        const sent = card.serve(set, fetchAddFrame(qp, bytes, 64, add))
        expect(lines(sent, base)).toEqual(['ATOMIC 0: 0', `ATOMIC 1: ${before}`])
        expect(word(one, 64)).toBe((before + add) & TOP)
      }
    }
  })

  test('swaps only over the number that it names', () => {
    const one = bytesCard()
    const { card, qp, bytes } = one
    let held = 0n
    for (const compare of NUMBERS) {
      for (const swap of NUMBERS) {
        const [sent] = card.serve(compareSwapFrame(qp, bytes, 8, compare, swap))
        expect(lines([sent!], sent!.psn)).toEqual([`ATOMIC 0: ${held}`])
        if (held === compare) held = swap
        expect(word(one, 8)).toBe(held)
      }
    }
  })

  test('of many queue pairs in one burst: each finds what the one before left', () => {
    const one = bytesCard()
    const pairs = Array.from({ length: 32 }, () => one.card.connect(1024))
    const frames = pairs.map((qp) => fetchAddFrame(qp, one.bytes, 16, 3n))
    const found = one.card.serve(...frames).map((sent) => lines([sent], sent.psn)[0])
    expect(found).toEqual(pairs.map((_, i) => `ATOMIC 0: ${3 * i}`))
  })

  test('ATOMIC WRITE stores its eight bytes as they came, in one store', () => {
    const one = bytesCard()
    const { card, qp, bytes } = one
    const stores: number[] = []
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        if (op === COPY_CLEAN) stores.push(words[at + LENGTH]!)
      },
    })
    const base = qp.psn
    const sent = card.serve(atomicWriteFrame(qp, bytes, 24, dataOf(8, 7)))
    expect(lines(sent, base)).toEqual(['READ 0 only: 0 B'])
    expect(stores).toEqual([8])
    expect(hexOf(card.nvdimm.live.slice(BYTES_AT + 24, BYTES_AT + 32))).toBe(hexOf(dataOf(8, 7)))
  })
})

type Make = (
  one: BytesCard,
  qp: TestPeer,
  place: Place,
  vaHigh: number,
  vaLow: number,
) => Uint8Array[]

/** Each request of eight bytes at an address. */
const REQUESTS: Readonly<Record<string, Make>> = {
  WRITE: (_, qp, place, vaHigh, vaLow) => writeFrames(qp, place, vaLow, dataOf(8, 1), { vaHigh }),
  'WRITE with immediate': (_, qp, place, vaHigh, vaLow) =>
    writeFrames(qp, place, vaLow, dataOf(8, 1), { vaHigh, immediate: 1 }),
  READ: (_, qp, place, vaHigh, vaLow) => [readFrame(qp, place, vaHigh, vaLow, 8)],
  FLUSH: (_, qp, place, vaHigh, vaLow) => [flushFrame(qp, place, { vaHigh, vaLow })],
  'FETCH-ADD': (_, qp, place, vaHigh, vaLow) => [fetchAddFrame(qp, place, vaLow, 1n, { vaHigh })],
  'COMPARE-SWAP': (_, qp, place, vaHigh, vaLow) => [
    compareSwapFrame(qp, place, vaLow, 0n, 1n, { vaHigh }),
  ],
  'ATOMIC WRITE': (_, qp, place, vaHigh, vaLow) => [
    atomicWriteFrame(qp, place, vaLow, dataOf(8, 1), { vaHigh }),
  ],
}

const ATOMICS = ['FETCH-ADD', 'COMPARE-SWAP', 'ATOMIC WRITE']

describe('addresses that are refused', () => {
  for (const [name, make] of Object.entries(REQUESTS)) {
    test(`${name}: key, domain and bounds are 0x62, and nothing is changed`, () => {
      const cases: [string, (one: BytesCard) => Uint8Array[]][] = [
        [
          'no such key',
          (one) => make(one, one.qp, { ...one.bytes, rkey: one.bytes.rkey ^ 0x40 }, 0, 0),
        ],
        ['key 0', (one) => make(one, one.qp, 0, 0, 0)],
        ['another domain', (one) => make(one, one.card.connect(1024, 3), one.bytes, 0, 0)],
        ['past the end', (one) => make(one, one.qp, one.bytes, 0, BYTES_LENGTH)],
        ['across the end', (one) => make(one, one.qp, one.bytes, 0, BYTES_LENGTH - 7)],
        ['far above', (one) => make(one, one.qp, one.bytes, 1, 0)],
        ['just in front', (one) => make(one, one.qp, one.bytes.rkey, 0, 2 ** 32 - 8)],
        ['wrapping', (one) => make(one, one.qp, one.bytes, 2 ** 32 - 1, 2 ** 32 - 8)],
      ]
      for (const [what, frames] of cases) {
        const one = bytesCard()
        const before = contentsOf(one)
        const sent = one.card.serve(...frames(one))
        expect(
          sent.map(({ syndrome }) => syndrome),
          what,
        ).toEqual([NAK_ACCESS])
        expect(firstDifference(contentsOf(one), before), what).toBe(-1)
      }
      const one = bytesCard()
      const last = one.card.serve(...make(one, one.qp, one.bytes, 0, BYTES_LENGTH - 8))
      expect(last.map(({ syndrome }) => syndrome)).toEqual([0x1f])
    })
  }

  test.each(ATOMICS)('%s off a multiple of eight is 0x61, behind key and bounds (0x62)', (name) => {
    for (let by = 1; by < 8; by++) {
      const answer = (place: (one: BytesCard) => Place, at: number): number[] => {
        const one = bytesCard()
        const before = contentsOf(one)
        const sent = one.card.serve(...REQUESTS[name]!(one, one.qp, place(one), 0, at + by))
        expect(firstDifference(contentsOf(one), before)).toBe(-1)
        return sent.map(({ syndrome }) => syndrome)
      }
      expect(answer(({ bytes }) => bytes, 64)).toEqual([NAK_INVALID])
      expect(answer(() => 0, 64)).toEqual([NAK_ACCESS])
      expect(answer(({ bytes }) => bytes, BYTES_LENGTH - 8)).toEqual([NAK_ACCESS])
    }
  })

  test.each(ATOMICS)('%s is not for records (0x62)', (name) => {
    const one = bytesCard()
    const before = contentsOf(one)
    const sent = one.card.serve(...REQUESTS[name]!(one, one.qp, one.records, 1, 0))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
    expect(firstDifference(contentsOf(one), before)).toBe(-1)
  })

  test('ATOMIC WRITE of another length than eight is 0x61, whatever else is wrong', () => {
    for (const length of [0, 4, 7, 9, 16, 2 ** 31]) {
      for (const rkey of [0, 1]) {
        const one = bytesCard()
        const key = rkey === 0 ? 0 : one.bytes.rkey
        const sent = one.card.serve(atomicWriteFrame(one.qp, key, 0, dataOf(8, 1), { length }))
        expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_INVALID])
      }
    }
    for (const bytes of [0, 4, 12]) {
      const one = bytesCard()
      const sent = one.card.serve(atomicWriteFrame(one.qp, one.bytes, 0, dataOf(bytes, 1)))
      expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_INVALID])
    }
  })

  test.each(ATOMICS)('%s on a line that the medium lost is 0x63, and changes nothing', (name) => {
    const one = bytesCard()
    const { card, qp, bytes } = one
    card.nvdimm.refuseWrites(BYTES_AT / 64)
    if (name !== 'ATOMIC WRITE') card.nvdimm.poison(BYTES_AT / 64)
    const sent = card.serve(...REQUESTS[name]!(one, qp, bytes, 0, 8))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_OPERATIONAL])
    expect(card.serve(flushFrame(qp, bytes))).toEqual([])
  })
})
