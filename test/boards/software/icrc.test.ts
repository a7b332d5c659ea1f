/** What a board does about the ICRC of frames that may be anything; the sums are in wire-icrc. */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { fillIcrc, icrcGood } from '../../../boards/software/icrc.ts'
import { hex, hexOf, unwritten } from '../../support/wire/frames.ts'

const SEED = Number(process.env.SEED ?? 20261121)

/** An acknowledgement: 62 bytes with its ICRC. */
const ACK = hex(`
  020000000001 020000000002 0800
  45000030 00004000 401126bb 0a000002 0a000001
  c000 12b7 001c 0000
  1100ffff 00123456 00000101
  1f000001
  3b1af67b
`)

test('the ICRC is found by the lengths in IP, so an Ethernet pad behind it does no harm', () => {
  const padded = new Uint8Array(80)
  padded.set(ACK)
  expect(icrcGood(padded, 0, 80)).toBe(true)
  expect(icrcGood(padded, 0, 62)).toBe(true)
  expect(icrcGood(padded, 0, 61)).toBe(false)
})

test('filling in writes the four bytes and no other', () => {
  const bytes = unwritten(100)
  bytes.set(ACK.slice(0, -4), 10)
  const before = bytes.slice()
  expect(fillIcrc(bytes, 10, ACK.length)).toBe(true)
  const changed = [...bytes.keys()].filter((i) => bytes[i] !== before[i])
  expect(changed.every((i) => i >= 10 + ACK.length - 4 && i < 10 + ACK.length)).toBe(true)
  expect(hexOf(bytes.slice(10, 10 + ACK.length))).toBe(hexOf(ACK))
})

test('every flipped bit that a router may not flip makes the ICRC wrong', () => {
  const free = [14 + 1, 14 + 8, 14 + 10, 14 + 11, 34 + 6, 34 + 7, 42 + 4]
  for (let bit = 14 * 8; bit < ACK.length * 8; bit++) {
    const frame = ACK.slice()
    frame[bit >> 3] = frame[bit >> 3]! ^ (0x80 >> (bit & 7))
    expect(icrcGood(frame, 0, frame.length), `bit ${bit}`).toBe(free.includes(bit >> 3))
  }
})

test('no bytes of any length are too strange to be judged', () => {
  const random = new Random(SEED)
  for (let i = 0; i < 20_000; i++) {
    const frame = new Uint8Array(random.below(120))
    random.fill(frame, 0, frame.length)
    const start = ACK.subarray(0, random.below(40))
    if (random.chance(0.8) && frame.length > start.length) frame.set(start)
    const before = hexOf(frame)
    expect(icrcGood(frame, 0, frame.length), `SEED=${SEED}`).toBe(false)
    expect(hexOf(frame)).toBe(before)
    fillIcrc(frame, 0, frame.length)
    expect(frame.length).toBe(before.length / 2)
  }
})

test('a frame that claims more bytes than there are is not good, and is not filled', () => {
  expect(icrcGood(ACK, 0, ACK.length + 1)).toBe(false)
  expect(icrcGood(ACK, 1, ACK.length)).toBe(false)
  expect(fillIcrc(ACK.slice(0, 50), 0, 62)).toBe(false)
})
