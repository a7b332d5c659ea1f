/**
 * Names of regions that no card gives, what there is in them that a terminal would obey, and a part
 * that has such names already.
 */

import { PAGE_BYTES, sealPage } from '../judges/oracle.ts'

/** Bytes of a name's field. */
export const NAME_BYTES = 32

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

/** What is wrong with a name, and its bytes: whole, each of them fits its field. */
export const HOSTILE_NAMES: readonly (readonly [what: string, name: Uint8Array])[] = [
  ['an escape sequence', utf8('\u001b]0;pwned\u0007\u001b[31mred')],
  ['the end of a line', utf8('a\nlost records  9999')],
  ['a return to the beginning of the line', utf8('a\rb')],
  ['a tabulator', utf8('a\tb')],
  ['the first control character', Uint8Array.of(1)],
  ['DEL', utf8('a\u007f')],
  ['a control character of C1', utf8('\u009b31mred')],
  ['a byte of C1 alone', Uint8Array.of(0x61, 0x9b, 0x33, 0x31, 0x6d)],
  ['letters of Latin-1', Uint8Array.of(0xff, 0xfe)],
  ['a direction from right to left', utf8('txt.\u202egpj')],
  ['an isolate', utf8('\u2067a\u2069')],
  ['a mark of direction', utf8('a\u200fb')],
  ['the Arabic mark of direction', utf8('a\u061cb')],
  ['a separator of lines', utf8('a\u2028b')],
  ['a byte order mark', utf8('\ufeffa')],
  ['a character cut short', Uint8Array.of(0x61, 0xe6, 0x95)],
  ['an overlong slash', Uint8Array.of(0xc0, 0xaf)],
  ['an overlong escape', Uint8Array.of(0xe0, 0x80, 0x9b)],
  ['half of a surrogate pair', Uint8Array.of(0xed, 0xa0, 0x80)],
  ['more than Unicode has', Uint8Array.of(0xf4, 0x90, 0x80, 0x80)],
]

/** Names that are as good as any: those of a prototype, and those of other languages. */
export const GOOD_NAMES: readonly string[] = [
  ...['orders', '__proto__', 'constructor', 'toString', 'hasOwnProperty', 'a b', "it's", '\\x1b'],
  ...['données', '数据', 'данные', 'נתונים', '🗄️', '\u0301', '\u00a0', 'é'.repeat(NAME_BYTES / 2)],
]

/** What ends a line, or what a terminal or a reader obeys. */
const OBEYED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there.
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/u

/** The lines of an output in which there is something of that: none, if all is well. */
export function obeyedIn(output: string): string[] {
  return output.split('\n').filter((line) => OBEYED.test(line))
}

/** The part with region `from` under the name `to`, in both pages of its superblock. */
export function renamed(part: Uint8Array, from: string, to: Uint8Array): Uint8Array {
  const changed = part.slice()
  const field = new Uint8Array(NAME_BYTES)
  field.set(utf8(from))
  for (const page of [0, 1]) {
    const bytes = changed.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
    const at = Buffer.from(bytes).indexOf(field)
    if (at < 0) throw new Error(`page ${page} has no region '${from}'`)
    bytes.fill(0, at, at + NAME_BYTES).set(to, at)
    sealPage(bytes)
  }
  return changed
}
