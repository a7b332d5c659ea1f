/**
 * Text from elsewhere, as a terminal or a log may get it: names and words of a card, of a peer, of
 * an image.
 *
 * Invariants:
 * - What is shown holds nothing that a terminal obeys, that ends a line or that turns the direction
 *   of the text: neither ESC, BEL, CR and LF nor the others (firmware/medium/region-name.ts).
 * - Text without such is shown as it is. What was escaped once stays as it is when it is again.
 */

/** Controls, marks of direction, ends of lines, the byte order mark, halves of surrogate pairs. */
const NOT_SHOWN = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Cs}\ufeff]/gu

/** The text with `\x1b` for ESC, `\u202e` for RIGHT-TO-LEFT OVERRIDE and so on. */
export function printable(text: string): string {
  return text.replace(NOT_SHOWN, (letter) => {
    const point = letter.codePointAt(0)!
    return point < 0x100 ? `\\x${hex(point, 2)}` : `\\u${hex(point, 4)}`
  })
}

/** JSON text, which escapes some of them by itself, with escapes of its own for all. */
export function printableJson(json: string): string {
  return json.replace(NOT_SHOWN, (letter) => `\\u${hex(letter.codePointAt(0)!, 4)}`)
}

function hex(point: number, digits: number): string {
  return point.toString(16).padStart(digits, '0')
}
