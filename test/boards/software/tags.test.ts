/**
 * Tags on packets (boards/software/tags.ts): against Node's own ChaCha20-Poly1305 over what
 * wire/tag.ts says, and the window of counters against a list of all that came.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import { Tags } from '../../../boards/software/tags.ts'
import { TAG_KEY_BYTES, TAG_WINDOW } from '../../../firmware/wire/tag.ts'
import { hexOf } from '../../support/wire/frames.ts'
import { FORMS, sealed, type TaggedFrame, taggedFrame } from '../../support/wire/tagged.ts'

const SEED = Number(process.env.SEED ?? 8439)
const random = new Random(SEED)
const THEIRS = drawn(TAG_KEY_BYTES)
const OURS = drawn(TAG_KEY_BYTES)

function drawn(length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  random.fill(bytes, 0, length)
  return bytes
}

function frameOf(payload: Uint8Array, form: (typeof FORMS)[number] = FORMS[0]!): TaggedFrame {
  return taggedFrame({ ...form, destQp: 0x123456, payload })
}

/** A frame that comes: a small one, with its tag. */
function coming(counter: bigint | number, key: Uint8Array = THEIRS): Buffer {
  return sealed(frameOf(new Uint8Array(4)), key, counter)
}

/** Which of the counters are taken, one behind the other, by one end. */
function takenOf(counters: readonly (bigint | number)[]): boolean[] {
  const tags = new Tags(THEIRS, OURS)
  return counters.map((counter) => {
    const frame = coming(counter)
    return tags.take(frame, 0, frame.length)
  })
}

test('every form and length of frame leaves with the tag of its bytes, and is taken once', () => {
  const near = new Tags(THEIRS, OURS)
  const far = new Tags(OURS, THEIRS)
  let counter = 0
  for (const form of FORMS) {
    for (const length of [...Array(70).keys(), 1024, 4095, 4096]) {
      const payload = drawn(length)
      const frame = frameOf(payload, form)
      const wanted = sealed(frameOf(payload, form), OURS, counter++)
      const room = Buffer.concat([Buffer.alloc(7), frame.bytes, Buffer.alloc(3)])
      expect(near.fill(room, 7, frame.bytes.length)).toBe(true)
      fillIcrc(room, 7, frame.bytes.length)
      const told = `${JSON.stringify(form)}, ${length} bytes`
      expect(hexOf(room.subarray(7, -3)), told).toBe(hexOf(wanted))
      expect(far.take(room, 7, frame.bytes.length), told).toBe(true)
      expect(far.take(room, 7, frame.bytes.length), told).toBe(false)
    }
  }
})

test('every changed bit that a router may not change makes it wrong, and moves no window', () => {
  const tags = new Tags(THEIRS, OURS)
  const frame = frameOf(drawn(5))
  const good = sealed(frame, THEIRS, 2 ** 33 + 7)
  const free = frame.bthAt + 4
  for (let bit = 8 * frame.bthAt; bit < 8 * frame.icrcAt; bit++) {
    if (bit >> 3 === free) continue
    const bytes = Buffer.from(good)
    bytes[bit >> 3] = bytes[bit >> 3]! ^ (0x80 >> (bit & 7))
    expect(tags.take(bytes, 0, bytes.length), `bit ${bit}`).toBe(false)
  }
  const congested = Buffer.from(good)
  congested[free] = congested[free]! ^ 0xc0
  expect(tags.take(congested, 0, congested.length)).toBe(true)
  expect(congested[free]! ^ 0xc0, 'it is only read').toBe(good[free])
  expect(tags.take(good, 0, good.length), 'its counter has come').toBe(false)
})

test('a frame of the other direction is not taken', () => {
  const tags = new Tags(THEIRS, OURS)
  const own = frameOf(drawn(8)).bytes
  expect(tags.fill(own, 0, own.length)).toBe(true)
  expect(tags.take(own, 0, own.length)).toBe(false)
  const theirs = coming(0)
  expect(tags.take(theirs, 0, theirs.length)).toBe(true)
})

/** Distances at which the window is looked at whole; else it is at its ends and around the two. */
const WHOLE = [-TAG_WINDOW, -64, -1, 1, 2, 64, TAG_WINDOW - 1, TAG_WINDOW, TAG_WINDOW + 1, 300]

test.each([
  ['behind', -260, -1],
  ['ahead', 1, 300],
] as const)('of two counters the second is as far %s as the window allows', (_, from, to) => {
  for (let distance = from; distance <= to; distance++) {
    const second = 1000 + distance
    const newest = Math.max(1000, second)
    const end = newest - TAG_WINDOW
    const ends = [end - 2, end - 1, end, end + 1, 999, 1000, 1001, second - 1, second, second + 1]
    const all = Array.from({ length: TAG_WINDOW + 3 }, (_, i) => end - 2 + i)
    const some = [...new Set(ends)].filter((counter) => counter <= newest)
    const rest = WHOLE.includes(distance) ? all : some
    // What the window still has, once; and nothing twice.
    const expected = rest.map((counter) => {
      if (counter === 1000 || (counter === second && distance >= -TAG_WINDOW)) return false
      return newest - counter <= TAG_WINDOW
    })
    const taken = takenOf([1000, second, ...rest])
    expect(taken, `distance ${distance}`).toEqual([true, distance >= -TAG_WINDOW, ...expected])
  }
})

test('counters go from 0 to the largest exact one, and to none beyond', () => {
  const last = 2n ** 53n - 1n
  expect(takenOf([0, 0, 1])).toEqual([true, false, true])
  expect(takenOf([last + 1n, 2n ** 53n + 2n, 2n ** 63n, 2n ** 64n - 1n, 0])).toEqual([
    ...[false, false, false, false, true],
  ])
  expect(takenOf([last, last, last - 255n, last - 256n])).toEqual([true, false, true, false])
})

test('a walk of any steps takes each counter of the window once', () => {
  const all = new Set([300])
  let newest = 300
  const walk = [300]
  const expected = [true]
  for (let i = 0; i < 5000; i++) {
    const step = random.chance(0.5) ? random.below(4) : random.below(600) - 300
    const counter = Math.max(0, newest + step)
    const may = newest - counter <= TAG_WINDOW && !all.has(counter)
    walk.push(counter)
    expected.push(may)
    if (may) all.add(counter)
    if (may) newest = Math.max(newest, counter)
  }
  expect(takenOf(walk), `SEED=${SEED}`).toEqual(expected)
})

test('a frame without room for a trailer, and any bytes at all, stay as they are', () => {
  const tags = new Tags(THEIRS, OURS)
  for (let missing = 1; missing <= 60; missing++) {
    const { bytes, bthAt } = frameOf(new Uint8Array(0))
    const ipAt = bthAt - 28
    bytes.writeUInt16BE(bytes.readUInt16BE(ipAt + 2) - missing, ipAt + 2)
    const before = hexOf(bytes)
    expect(tags.fill(bytes, 0, bytes.length), `${missing} bytes`).toBe(false)
    expect(tags.take(bytes, 0, bytes.length), `${missing} bytes`).toBe(false)
    expect(hexOf(bytes)).toBe(before)
  }
  for (let i = 0; i < 2000; i++) {
    const bytes = drawn(random.below(200))
    const before = hexOf(bytes)
    expect(tags.take(bytes, 0, bytes.length), `SEED=${SEED}`).toBe(false)
    expect(hexOf(bytes)).toBe(before)
  }
  // None of these has used up a counter.
  const { bytes, trailerAt } = frameOf(new Uint8Array(0))
  expect(tags.fill(bytes, 0, bytes.length)).toBe(true)
  expect(bytes.readBigUInt64BE(trailerAt)).toBe(0n)
})
