/**
 * Names of regions, as they come from outside: up to 32 bytes of UTF-8, the rest of the field zero.
 *
 * Invariants:
 * - A region gets a name only that is well-formed, and that no terminal and no reader takes for
 *   more than letters: no control character, no change of direction, no end of a line.
 * - A name is told, and compared, by its bytes, whatever they are: a region that had got another
 *   name before serves as ever.
 */

import { REGION_NAME_BYTES } from '../board/limits.ts'

/** What is no code point: malformed, longer than it need be, or half of a surrogate pair. */
export const MALFORMED = -1

/** The least code point of so many bytes behind the first: a lesser one is overlong. */
const LEAST = [0, 0x80, 0x800, 0x10000]

/** The code point whose UTF-8 begins at `at` and ends before `end`, or MALFORMED. */
export function codePointAt(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at]!
  if (first < 0x80) return first
  if (first < 0xc0 || first > 0xf7) return MALFORMED
  const more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1
  if (at + more >= end) return MALFORMED
  let point = first & (0x3f >> more)
  for (let i = 1; i <= more; i++) {
    const byte = bytes[at + i]!
    if ((byte & 0xc0) !== 0x80) return MALFORMED
    point = (point << 6) | (byte & 0x3f)
  }
  return point < LEAST[more]! || point > 0x10ffff || isSurrogate(point) ? MALFORMED : point
}

/** Bytes that a code point has in UTF-8. */
export function utf8BytesOf(point: number): number {
  if (point < 0x80) return 1
  if (point < 0x800) return 2
  return point < 0x10000 ? 3 : 4
}

export function isSurrogate(point: number): boolean {
  return point >= 0xd800 && point <= 0xdfff
}

/**
 * Whether a code point is more than a letter to who shows it: C0, DEL and C1, the marks that change
 * the direction of the text (Bidi_Control of Unicode), the separators of lines and paragraphs, and
 * the byte order mark.
 */
export function isControl(point: number): boolean {
  if (point < 0x20) return true
  if (point < 0x7f) return false
  if (point < 0xa0) return true
  if (point === 0x061c || point === 0x200e || point === 0x200f || point === 0xfeff) return true
  return (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069)
}

/** May a region be given the name in the 32 bytes at `at`? */
export function isRegionName(bytes: Uint8Array, at: number): boolean {
  const end = at + REGION_NAME_BYTES
  let i = at
  while (i < end && bytes[i] !== 0) {
    const point = codePointAt(bytes, i, end)
    if (point === MALFORMED || isControl(point)) return false
    i += utf8BytesOf(point)
  }
  if (i === at) return false
  while (i < end && bytes[i] === 0) i += 1
  return i === end
}

/** The name in an entry or a request: bytes up to the first zero, one character each. */
export function regionNameOf(bytes: Uint8Array, at: number): string {
  let name = ''
  for (let i = 0; i < REGION_NAME_BYTES && bytes[at + i] !== 0; i++) {
    name += String.fromCharCode(bytes[at + i]!)
  }
  return name
}

/** The name that is that text: its UTF-8, one character for each byte, as `regionNameOf` has it. */
export function regionNameFrom(text: string): string {
  let name = ''
  for (const letter of text) {
    const point = letter.codePointAt(0)!
    const count = utf8BytesOf(point)
    const first = count === 1 ? point : (0xf00 >> count) | (point >> (6 * (count - 1)))
    name += String.fromCharCode(first & 0xff)
    for (let left = count - 2; left >= 0; left--) {
      name += String.fromCharCode(0x80 | ((point >> (6 * left)) & 0x3f))
    }
  }
  return name
}
