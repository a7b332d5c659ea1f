/** Text as bytes of UTF-8: QuickJS has no TextEncoder and no TextDecoder. */

const REPLACEMENT = 0xfffd

class Encoder {
  encode(text = ''): Uint8Array {
    const bytes: number[] = []
    for (const letter of text) {
      const code = letter.codePointAt(0)!
      put(bytes, code >= 0xd800 && code < 0xe000 ? REPLACEMENT : code)
    }
    return Uint8Array.from(bytes)
  }

  encodeInto(text: string, into: Uint8Array): { read: number; written: number } {
    let [read, written] = [0, 0]
    for (const letter of text) {
      const bytes = this.encode(letter)
      if (written + bytes.length > into.length) break
      into.set(bytes, written)
      written += bytes.length
      read += letter.length
    }
    return { read, written }
  }
}

function put(bytes: number[], code: number): void {
  if (code < 0x80) bytes.push(code)
  else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63))
  else if (code < 0x10000) {
    bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63))
  } else {
    const middle = [0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63)]
    bytes.push(0xf0 | (code >> 18), ...middle, 0x80 | (code & 63))
  }
}

/** By its first byte: how many bytes follow, and the least code that needs so many. */
function shapeOf(first: number): readonly [follow: number, least: number, bits: number] | null {
  if (first < 0x80) return [0, 0, first]
  if (first >= 0xc2 && first < 0xe0) return [1, 0x80, first & 31]
  if (first >= 0xe0 && first < 0xf0) return [2, 0x800, first & 15]
  return first >= 0xf0 && first < 0xf5 ? [3, 0x10000, first & 7] : null
}

class Decoder {
  private readonly fatal: boolean

  constructor(_label?: string, { fatal = false }: { readonly fatal?: boolean } = {}) {
    this.fatal = fatal
  }

  /** What is no UTF-8 becomes U+FFFD; with `fatal` it throws a TypeError. */
  decode(bytes: Uint8Array): string {
    let text = ''
    for (let at = 0; at < bytes.length; ) {
      const [code, length] = codeAt(bytes, at)
      if (code === null && this.fatal) throw new TypeError('the bytes are no UTF-8')
      text += String.fromCodePoint(code ?? REPLACEMENT)
      at += length
    }
    return text
  }
}

/** The letter that begins there and its bytes; null: none does, and so many bytes are wrong. */
function codeAt(bytes: Uint8Array, at: number): readonly [code: number | null, length: number] {
  const shape = shapeOf(bytes[at]!)
  if (shape === null) return [null, 1]
  const [follow, least, first] = shape
  let code = first
  for (let i = 1; i <= follow; i++) {
    const byte = bytes[at + i]
    if (byte === undefined || (byte & 0xc0) !== 0x80) return [null, i]
    code = (code << 6) | (byte & 63)
  }
  const isLetter = code >= least && code < 0x110000 && (code < 0xd800 || code >= 0xe000)
  return isLetter ? [code, 1 + follow] : [null, 1]
}

export { Decoder as TextDecoder, Encoder as TextEncoder }
