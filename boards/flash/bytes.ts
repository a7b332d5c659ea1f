/** Bytes, without what only Node has: these files run in QuickJS as well. */

export function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, i) => byte === other[i])
}

/** One behind the other. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** By the code of a letter: its six bits; -1 of what is no digit. */
const VALUES = new Int8Array(256).fill(-1)
for (let i = 0; i < DIGITS.length; i++) VALUES[DIGITS.charCodeAt(i)] = i

export function base64Of(bytes: Uint8Array): string {
  let text = ''
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i
    const bits = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0)
    text += DIGITS[bits >> 18]! + DIGITS[(bits >> 12) & 63]!
    text += left > 1 ? DIGITS[(bits >> 6) & 63]! : '='
    text += left > 2 ? DIGITS[bits & 63]! : '='
  }
  return text
}

/** The bytes of base64, given as letters: up to the first '=', without what is no digit. */
export function base64Bytes(letters: Uint8Array): Uint8Array {
  const bytes = new Uint8Array((letters.length * 3) >> 2)
  let [at, bits, count] = [0, 0, 0]
  for (const letter of letters) {
    if (letter === PAD) break
    const value = VALUES[letter]!
    if (value < 0) continue
    bits = ((bits << 6) | value) & 0xffffff
    count += 6
    if (count < 8) continue
    count -= 8
    bytes[at++] = bits >> count
  }
  return bytes.subarray(0, at)
}

const PAD = 61
