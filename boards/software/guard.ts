/**
 * The guard of a record, computed by the CPU: CRC-32C over its data (RFC 3720, appendix B.4; the
 * polynomial 0x1edc6f41 with its bits reflected, start and end inverted). It is another polynomial
 * than the ICRC's, so an error that the ICRC lets pass is no more likely to pass this one.
 *
 * Invariant: 0 says that there is no guard, so it is none: the CRC 0 is told as 2^32 - 1.
 *
 * Eight tables take eight bytes at a time: table k advances a byte over k further bytes of zeros.
 */

const POLYNOMIAL_REFLECTED = 0x82f63b78

const tables: readonly Int32Array[] = Array.from({ length: 8 }, () => new Int32Array(256))

function fillTables(): void {
  const [first] = tables
  for (let i = 0; i < 256; i++) {
    let r = i
    for (let bit = 0; bit < 8; bit++) r = (r >>> 1) ^ ((r & 1) !== 0 ? POLYNOMIAL_REFLECTED : 0)
    first![i] = r
  }
  for (let k = 1; k < 8; k++) {
    for (let i = 0; i < 256; i++) {
      const before = tables[k - 1]![i]!
      tables[k]![i] = first![before & 0xff]! ^ (before >>> 8)
    }
  }
}

fillTables()

const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
]

/** The guard of `length` bytes at `at`: 1 to 2^32 - 1. */
export function guardOf(bytes: Uint8Array, at = 0, length: number = bytes.length - at): number {
  const end = at + length
  let r = -1
  let i = at
  for (; i + 8 <= end; i += 8) {
    const low = r ^ word(bytes, i)
    const high = word(bytes, i + 4)
    r =
      t7[low & 0xff]! ^
      t6[(low >>> 8) & 0xff]! ^
      t5[(low >>> 16) & 0xff]! ^
      t4[low >>> 24]! ^
      t3[high & 0xff]! ^
      t2[(high >>> 8) & 0xff]! ^
      t1[(high >>> 16) & 0xff]! ^
      t0[high >>> 24]!
  }
  for (; i < end; i++) r = t0[(r ^ bytes[i]!) & 0xff]! ^ (r >>> 8)
  const crc = ~r >>> 0
  return crc === 0 ? 0xffffffff : crc
}

function word(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}
