/**
 * Names of regions in the driver: 1 to 32 bytes of UTF-8, without control characters.
 *
 * Invariants:
 * - What the card says and what it is asked for are the same bytes: `nameBytesOf(nameOf(bytes))` is
 *   `bytes`, whatever they are. A byte that is part of no character becomes a half of a surrogate
 *   pair, U+DC80 to U+DCFF, as nothing else does.
 * - A region is made under a name only that the card takes too; one that is there, perhaps since
 *   firmware that looked less closely, is opened by whatever name it has.
 */

import { REGION_NAME_BYTES } from '../../firmware/board/limits.ts'
import {
  codePointAt,
  isControl,
  isSurrogate,
  MALFORMED,
  utf8BytesOf,
} from '../../firmware/medium/region-name.ts'
import type { Kind } from '../base/kinds.ts'

/** Where the bytes that are part of no character lie. */
const BYTES_AT = 0xdc00

/** The name in a field of the wire, which ends with the first zero. */
export function nameOf(field: Uint8Array): string {
  const zero = field.indexOf(0)
  const end = zero < 0 ? field.length : zero
  let name = ''
  for (let at = 0; at < end; ) {
    const point = codePointAt(field, at, end)
    name += String.fromCodePoint(point === MALFORMED ? BYTES_AT + field[at]! : point)
    at += point === MALFORMED ? 1 : utf8BytesOf(point)
  }
  return name
}

/** The bytes of a name; null where it has half a surrogate pair that stands for no byte. */
export function nameBytesOf(name: string): Uint8Array | null {
  const bytes: number[] = []
  for (const letter of name) {
    const point = letter.codePointAt(0)!
    if (!isSurrogate(point)) bytes.push(...Buffer.from(letter, 'utf8'))
    else if (isByte(point)) bytes.push(point - BYTES_AT)
    else return null
  }
  return Uint8Array.from(bytes)
}

function isByte(point: number): boolean {
  return point >= BYTES_AT + 0x80 && point <= BYTES_AT + 0xff
}

/** What no new name may have, in words: the first such character. */
function wrongIn(name: unknown): string | null {
  if (typeof name !== 'string') return null
  let count = 0
  for (const letter of name) {
    count += 1
    const point = letter.codePointAt(0)!
    const which = `character ${count} is U+${point.toString(16).toUpperCase().padStart(4, '0')}`
    if (isSurrogate(point)) return `${which}, half of a surrogate pair`
    if (isControl(point)) return `${which}, a control character`
  }
  return null
}

function isInRange(name: unknown): boolean {
  if (typeof name !== 'string' || name.includes('\0')) return false
  const length = nameBytesOf(name)?.length ?? 0
  return length >= 1 && length <= REGION_NAME_BYTES
}

/** The name of a region that is to be made, attached or registered. */
export const NEW_REGION_NAME: Kind = {
  give: `1 to ${REGION_NAME_BYTES} bytes of UTF-8 without control characters`,
  takes: (value) => isInRange(value) && wrongIn(value) === null,
  wrong: wrongIn,
}

/** The name of a region that is there. */
export const REGION_NAME: Kind = {
  give: `1 to ${REGION_NAME_BYTES} bytes of UTF-8, none of them 0`,
  takes: isInRange,
}
