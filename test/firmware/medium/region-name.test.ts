/**
 * What a name of a region may have in it: every code point, every short string of bytes, and what
 * follows its end; against ranges that are written down here, and Node's own decoder.
 */

import { describe, expect, test } from 'vitest'
import {
  codePointAt,
  isControl,
  isRegionName,
  MALFORMED,
  regionNameOf,
  utf8BytesOf,
} from '../../../firmware/medium/region-name.ts'
import { GOOD_NAMES, HOSTILE_NAMES, NAME_BYTES } from '../../support/cards/hostile-names.ts'

/** What no name has, from the first of a range to its last. */
const REFUSED: readonly (readonly [first: number, last: number, what: string])[] = [
  [0x00, 0x1f, 'C0'],
  [0x7f, 0x7f, 'DEL'],
  [0x80, 0x9f, 'C1'],
  [0x61c, 0x61c, 'the Arabic mark of direction'],
  [0x200e, 0x200f, 'marks of direction'],
  [0x2028, 0x2029, 'separators of lines and paragraphs'],
  [0x202a, 0x202e, 'embeddings and overrides'],
  [0x2066, 0x2069, 'isolates'],
  [0xfeff, 0xfeff, 'the byte order mark'],
]
const SURROGATES = [0xd800, 0xdfff] as const
const POINTS = 0x110000

/** Something before the field and behind it, which is not the name's. */
const AT = 5

function fieldOf(name: Uint8Array, behind = 0): Uint8Array {
  const bytes = new Uint8Array(AT + NAME_BYTES + AT).fill(0x1b)
  bytes.fill(behind, AT, AT + NAME_BYTES)
  bytes.set(name, AT)
  return bytes
}

function takes(name: Uint8Array, behind = 0): boolean {
  return isRegionName(fieldOf(name, behind), AT)
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text that the bytes are; null if they are no UTF-8. */
function decoded(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes)
  } catch {
    return null
  }
}

function isIn(point: number, [first, last]: readonly [number, number, ...unknown[]]): boolean {
  return point >= first && point <= last
}

function isRefused(point: number): boolean {
  return REFUSED.some((range) => isIn(point, range))
}

describe('code points', () => {
  test('each of Unicode is refused in its range, and taken outside of all', () => {
    const wrong: string[] = []
    const counts = { refused: 0, taken: 0 }
    for (let point = 0; point < POINTS; point++) {
      if (isControl(point) !== isRefused(point)) wrong.push(`isControl ${point.toString(16)}`)
      if (isIn(point, SURROGATES)) continue
      const letter = Buffer.from(String.fromCodePoint(point))
      const name = Uint8Array.of(0x61, ...letter, 0x62)
      const expected = !isRefused(point)
      counts[expected ? 'taken' : 'refused'] += 1
      if (takes(name) !== expected) wrong.push(`name ${point.toString(16)}`)
      if (codePointAt(name, 1, name.length) !== point) wrong.push(`read ${point.toString(16)}`)
      if (utf8BytesOf(point) !== letter.length) wrong.push(`bytes ${point.toString(16)}`)
    }
    expect(wrong.slice(0, 10)).toEqual([])
    const refused = REFUSED.reduce((sum, [first, last]) => sum + last - first + 1, 0)
    expect(counts).toEqual({ refused, taken: POINTS - 2048 - refused })
  })

  test('each but one of a byte is refused where its last byte is missing', () => {
    const wrong: string[] = []
    for (let point = 0x80; point < POINTS; point++) {
      if (isIn(point, SURROGATES)) continue
      const cut = Buffer.from(String.fromCodePoint(point)).subarray(0, -1)
      if (takes(cut)) wrong.push(point.toString(16))
      if (codePointAt(cut, 0, cut.length) !== MALFORMED) wrong.push(point.toString(16))
    }
    expect(wrong.slice(0, 10)).toEqual([])
  })
})

/** Bytes at which the rules of UTF-8 change, and those beside them. */
const EDGES = [
  ...[0x00, 0x01, 0x1b, 0x20, 0x41, 0x7e, 0x7f, 0x80, 0x8f, 0x90, 0x9b, 0x9f, 0xa0, 0xa8, 0xae],
  ...[0xbb, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xe2, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1],
  ...[0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xfb, 0xfc, 0xfe, 0xff],
]

/** Of them those that say what four bytes are. */
const FEWEST = [
  ...[
    0x00, 0x1b, 0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5,
  ],
]

/** Every string of `length` of these bytes. */
function* stringsOf(alphabet: readonly number[], length: number): Generator<number[]> {
  if (length === 0) yield []
  else
    for (const rest of stringsOf(alphabet, length - 1)) for (const b of alphabet) yield [b, ...rest]
}

/** Whether it is a name, by Node's decoder and the ranges above. */
function isName(field: Uint8Array): boolean {
  const zero = field.indexOf(0)
  const end = zero < 0 ? field.length : zero
  const text = decoded(field.subarray(0, end))
  if (text === null || text === '' || field.subarray(end).some((byte) => byte !== 0)) return false
  return [...text].every((letter) => !isRefused(letter.codePointAt(0)!))
}

describe('bytes', () => {
  test.each([
    [1, 'any', Array.from({ length: 256 }, (_, i) => i)],
    [2, 'any', Array.from({ length: 256 }, (_, i) => i)],
    [3, 'edges', EDGES],
    [4, 'the fewest', FEWEST],
  ] as const)('every string of %i, of %s, is a name as Node reads it', (length, _, alphabet) => {
    const wrong: string[] = []
    let taken = 0
    for (const string of stringsOf(alphabet, length)) {
      const name = Uint8Array.from(string)
      const field = fieldOf(name).subarray(AT, AT + NAME_BYTES)
      const expected = isName(field)
      if (expected) taken += 1
      if (takes(name) !== expected) wrong.push(Buffer.from(name).toString('hex'))
      const bytes = name.subarray(0, Math.max(0, [...name, 0].indexOf(0)))
      if (regionNameOf(fieldOf(name), AT) !== Buffer.from(bytes).toString('latin1')) {
        wrong.push(`read ${Buffer.from(name).toString('hex')}`)
      }
    }
    expect(wrong.slice(0, 10)).toEqual([])
    expect(taken).toBeGreaterThan(0)
  })

  test('a character that its field cuts is none, and one that ends with it is', () => {
    for (const letter of ['é', '数', '🗄']) {
      const bytes = Buffer.from(letter)
      for (let at = NAME_BYTES - bytes.length - 1; at < NAME_BYTES; at++) {
        const field = fieldOf(new Uint8Array(NAME_BYTES).fill(0x61))
        // What is behind the field goes on with the character, and is not looked at.
        field.set(bytes, AT + at)
        expect([letter, at, isRegionName(field, AT)]).toEqual([
          letter,
          at,
          at + bytes.length <= NAME_BYTES,
        ])
      }
    }
  })

  test('behind the end of a name nothing but zeros, at each place', () => {
    const name = Buffer.from('a')
    expect(takes(name)).toBe(true)
    for (let at = 2; at < NAME_BYTES; at++) {
      const field = fieldOf(name)
      field[AT + at] = 0x62
      expect([at, isRegionName(field, AT)]).toEqual([at, false])
    }
  })

  test('nothing is no name', () => {
    expect(takes(new Uint8Array(NAME_BYTES))).toBe(false)
  })
})

test('names that do harm are refused, and those of other languages are not', () => {
  for (const [what, name] of HOSTILE_NAMES) expect([what, takes(name)]).toEqual([what, false])
  for (const name of GOOD_NAMES) expect([name, takes(Buffer.from(name))]).toEqual([name, true])
})
