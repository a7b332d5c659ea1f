/**
 * CRC-32C as RFC 3720 says it, bit by bit and slowly: what the guards of the product are judged by.
 * It shares nothing with boards/software/guard.ts.
 */

/** The CRC of the bytes, and 2^32 - 1 where it is 0: a guard is never 0. */
export function judgedGuard(bytes: Uint8Array): number {
  let register = 0xffff_ffffn
  for (const byte of bytes) {
    for (let bit = 0; bit < 8; bit++) {
      const sum = (register ^ BigInt((byte >> bit) & 1)) & 1n
      register >>= 1n
      if (sum === 1n) register ^= REFLECTED
    }
  }
  const crc = Number(register ^ 0xffff_ffffn)
  return crc === 0 ? 0xffff_ffff : crc
}

/** 0x1edc6f41, its bits in the other order. */
const REFLECTED = 0x82f6_3b78n

/** Four bytes of which the CRC is 0. */
export function bytesOfCrcZero(): Uint8Array {
  let register = 0xffff_ffff
  for (let bit = 0; bit < 32; bit++) {
    const top = register >>> 31
    register = (((top === 1 ? register ^ Number(REFLECTED) : register) << 1) | top) >>> 0
  }
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, register ^ 0xffff_ffff, true)
  return bytes
}
