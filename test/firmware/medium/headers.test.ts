/**
 * Headers of slots and lanes, and entries of the superblock: what is written is what is read, to
 * the last bit of every field, and a lane whose words do not belong together says nothing.
 *
 * Invariant: fields are drawn from their whole range, its ends included; what is right is
 * said in 64-bit integers.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { LINE_BYTES, RECORD_BYTES_MAX, REGION_NAME_BYTES } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import {
  blankIntent,
  type Intent,
  isForward,
  isPredecessor,
  laneClear,
  lanePhase,
  PHASE_A,
  PHASE_B,
  PHASE_HELD,
  PHASE_UNSURE,
  readIntent,
  writeIntent,
  writePhaseWord,
} from '../../../firmware/medium/lane.ts'
import type { Region } from '../../../firmware/medium/region.ts'
import {
  blankSlotHeader,
  headerFits,
  readSlotHeader,
  SLOT_HEADER_BYTES,
  writeSlotHeader,
} from '../../../firmware/medium/slot.ts'
import { addEntry, createSuperblock, readEntry } from '../../../firmware/medium/superblock.ts'

const SEED = Number(process.env.SEED ?? 20261123)
const ROUNDS = 100
const AT = LINE_BYTES

/** A word: one of the ends of its range, of either sign, or any. */
function word(random: Random): number {
  const ends = [0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]
  return random.chance(0.3) ? ends[random.below(ends.length)]! : random.below(2 ** 32)
}

function intent(random: Random): Intent {
  return {
    regionId: 1 + random.below(2 ** 16 - 1),
    record: word(random),
    length: random.below(RECORD_BYTES_MAX + 1),
    sequenceLow: word(random),
    // The incarnation, and the bits of the counter below it.
    sequenceHigh: word(random),
    wait: 1 + random.below(4),
    link: random.below(32),
    clientLow: word(random),
    clientHigh: word(random),
    operationLow: word(random),
    operationHigh: word(random),
  }
}

test('P1-14: an intent is read as it was written, and its phase, whichever it is', () => {
  const random = new Random(SEED)
  const words = new Int32Array(3 * (LINE_BYTES / 4)).fill(-1)
  for (let round = 0; round < ROUNDS; round++) {
    const from = intent(random)
    writeIntent(words, AT, from)
    const into = blankIntent()
    readIntent(into, words, AT)
    expect(into).toEqual(from)
    expect(lanePhase(words, AT)).toBe(PHASE_A)
    for (const phase of [PHASE_B, PHASE_HELD, PHASE_A]) {
      writePhaseWord(words, AT, phase, from.sequenceLow, from.sequenceHigh)
      expect([lanePhase(words, AT), isForward(phase)]).toEqual([phase, phase !== PHASE_A])
    }
  }
  // The lines beside it are another's.
  expect([words[AT / 4 - 1], words[2 * (AT / 4)]]).toEqual([-1, -1])
})

test('P1-14: a phase word with one bit turned, or of another intent, says nothing', () => {
  const random = new Random(SEED)
  const words = new Int32Array(LINE_BYTES / 4)
  const bytes = new Uint8Array(words.buffer)
  for (let round = 0; round < 4; round++) {
    const from = intent(random)
    for (const phase of [PHASE_A, PHASE_B, PHASE_HELD]) {
      writeIntent(words, 0, from)
      writePhaseWord(words, 0, phase, from.sequenceLow, from.sequenceHigh)
      for (let bit = 0; bit < 96; bit++) {
        bytes[bit >> 3]! ^= 1 << (bit & 7)
        // Twelve bytes: the phase word, and the magic behind it.
        expect(lanePhase(words, 0), `bit ${bit}`).toBe(-1)
        bytes[bit >> 3]! ^= 1 << (bit & 7)
      }
      for (const [low, high] of [
        [1, 0],
        [-1, 0],
        [0, 1],
      ] as const) {
        const other = [(from.sequenceLow + low) >>> 0, from.sequenceHigh ^ high] as const
        writePhaseWord(words, 0, phase, ...other)
        expect(lanePhase(words, 0)).toBe(-1)
      }
    }
    for (let phase = 0; phase < 256; phase++) {
      writePhaseWord(words, 0, phase, from.sequenceLow, from.sequenceHigh)
      const isOne = [PHASE_A, PHASE_B, PHASE_HELD, PHASE_UNSURE].includes(phase)
      expect(lanePhase(words, 0)).toBe(isOne ? phase : -1)
    }
  }
})

test('P1-14: a lane is clear if all of its line is', () => {
  const words = new Int32Array(3 * (LINE_BYTES / 4)).fill(-1)
  words.fill(0, AT / 4, 2 * (AT / 4))
  expect(laneClear(words, AT)).toBe(true)
  for (let i = 0; i < LINE_BYTES / 4; i++) {
    words[AT / 4 + i] = 1
    expect(laneClear(words, AT), `word ${i}`).toBe(false)
    words[AT / 4 + i] = 0
  }
})

test('X-5: of two intents one comes right before the other, over the ends of its words', () => {
  const random = new Random(SEED)
  const wide = (high: number, low: number): bigint => BigInt(high) * 2n ** 32n + BigInt(low)
  for (let round = 0; round < 4 * ROUNDS; round++) {
    const before = intent(random)
    const next = wide(before.operationHigh, before.operationLow) + 1n
    const after = {
      ...before,
      operationLow: Number(next % 2n ** 32n),
      operationHigh: Number((next >> 32n) % 2n ** 32n),
    }
    expect(isPredecessor(before, after)).toBe(true)
    // Words as some callers have them, with a sign.
    const signed = {
      ...before,
      operationLow: before.operationLow | 0,
      clientLow: before.clientLow | 0,
    }
    expect(isPredecessor(signed, after)).toBe(true)
    // A batch goes to several regions (S1-M9).
    expect(isPredecessor({ ...before, regionId: before.regionId ^ 1 }, after)).toBe(true)
    const names = ['clientLow', 'clientHigh', 'operationLow', 'operationHigh'] as const
    for (const name of names) {
      const other = { ...after, [name]: (after[name] ^ (1 << random.below(16))) >>> 0 }
      expect(isPredecessor(before, other), name).toBe(false)
    }
  }
})

test('D-3: a slot header is read as it was written, and fits its own record alone', () => {
  const random = new Random(SEED)
  const words = new Int32Array(3 * (SLOT_HEADER_BYTES / 4)).fill(-1)
  for (let round = 0; round < ROUNDS; round++) {
    const { regionId: id, record: slot, ...from } = intent(random)
    const region = { id, capacity: from.length } as Region
    writeSlotHeader(words, SLOT_HEADER_BYTES, region, { ...from, slot, guard: word(random) })
    const header = blankSlotHeader()
    readSlotHeader(header, words, SLOT_HEADER_BYTES)
    const { wait, link, ...fields } = from
    expect(header).toMatchObject({ ...fields, regionId: id, record: slot })
    expect(headerFits(header, region, slot)).toBe(true)
    expect(headerFits(header, region, slot ^ 1)).toBe(false)
    expect(headerFits(header, { ...region, id: id + 1 }, slot)).toBe(false)
    expect(headerFits(header, { ...region, capacity: from.length - 1 }, slot)).toBe(false)
    for (const name of ['magic', 'version'] as const) {
      expect(headerFits({ ...header, [name]: header[name] + 1 }, region, slot)).toBe(false)
    }
  }
})

test('D-14: a region in the superblock is read as it was written', () => {
  const random = new Random(SEED)
  const superblock = createSuperblock(new ArrayBuffer(MEMORY_BYTES))
  const entries = Array.from({ length: 4 }, (_, i) => ({
    name: Uint8Array.from({ length: REGION_NAME_BYTES }, () => random.below(256)),
    id: 2 ** 14 * i + 1 + random.below(2 ** 14 - 1),
    kind: 1 + (i & 1),
    slots: word(random),
    capacity: word(random),
    copies: 1 + i,
    flags: random.below(4),
    protectionDomain: random.below(2 ** 31),
    at: LINE_BYTES * random.below(2 ** 31) * 2 ** 8,
    areaBytes: LINE_BYTES * random.below(2 ** 31) * 2 ** 6,
    placement: i % 3,
  }))
  for (const [index, entry] of entries.entries()) addEntry(superblock, entry, index)
  for (const [index, entry] of entries.entries())
    expect(readEntry(superblock, index)).toEqual(entry)
})
