/**
 * Where a field stands in a header: found by asking the header's own reader what each bit means.
 *
 * Invariant: nothing about the layout is written down here. A field that moves in `firmware/wire/`
 * is found where it went; one that is no run of bits stops the build.
 */

/** Reads a header at `at` into a record. */
export type Reader<Header> = (into: Header, bytes: Uint8Array, at: number) => void

/** A run of bits: `floor(number / divisor) % count` of the number in the `bytes` bytes at `at`. */
export interface Place {
  readonly at: number
  readonly bytes: number
  readonly divisor: number
  /** How many values it has: 2 to the number of its bits. */
  readonly count: number
  /** What the reader adds to it. */
  readonly plus: number
}

/** What a reader makes of a header, field by field, as numbers. */
type Read = Readonly<Record<string, number>>

/** Asks the reader of one header. */
export class Asked {
  /** What the reader makes of the header that these bytes begin with. */
  readonly read: (bytes: Uint8Array) => Read
  private readonly length: number

  constructor(read: (bytes: Uint8Array) => Read, length: number) {
    this.read = read
    this.length = length
  }

  /**
   * The place of a number that is told by these fields, the highest first. `given` is a flag that
   * must be set for the field to mean anything.
   */
  placeOf(fields: readonly string[], given?: string): Place {
    const preset = new Uint8Array(this.length)
    if (given !== undefined) for (const bit of this.bitsOf(given, preset)) set(preset, bit)
    const bits = fields.flatMap((field) => this.bitsOf(field, preset))
    const [first] = bits
    if (first === undefined) throw new Error(`no bit of the header is ${fields.join()}`)
    if (bits.some((bit, i) => bit !== first + i)) {
      throw new Error(`${fields.join()} is no run of bits: ${bits.join()}`)
    }
    const at = first >> 3
    const end = first + bits.length
    const bytes = ((end + 7) >> 3) - at
    const plus = fields.length === 1 ? this.read(preset)[fields[0]!]! : 0
    return { at, bytes, divisor: 2 ** ((at + bytes) * 8 - end), count: 2 ** bits.length, plus }
  }

  /** The bits of the field, from the highest on; each must be worth half of the one before. */
  private bitsOf(field: string, preset: Uint8Array): number[] {
    const before = this.read(preset)[field]!
    const worth: { bit: number; by: number }[] = []
    for (let bit = 0; bit < this.length * 8; bit++) {
      const bytes = Uint8Array.from(preset)
      set(bytes, bit)
      const by = this.read(bytes)[field]! - before
      if (by !== 0) worth.push({ bit, by })
    }
    const isNumber = worth.every(({ by }, i) => by === 2 ** (worth.length - 1 - i))
    if (!isNumber) throw new Error(`${field} is no number of bits`)
    return worth.map(({ bit }) => bit)
  }
}

function set(bytes: Uint8Array, bit: number): void {
  bytes[bit >> 3]! |= 0x80 >> (bit & 7)
}

/** Who asks of a header of so many bytes; `begin` writes what must be there for it to be read. */
export function askedOf<Header extends object>(
  blank: () => Header,
  read: Reader<Header>,
  length: number,
  begin: (bytes: Uint8Array) => void = () => {},
): Asked {
  return new Asked((bits) => {
    const bytes = new Uint8Array(length)
    begin(bytes)
    for (let i = 0; i < length; i++) bytes[i]! |= bits[i]!
    const record = blank()
    read(record, bytes, 0)
    return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, Number(value)]))
  }, length)
}
