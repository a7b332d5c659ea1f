/**
 * CRC-32C as RFC 3720 says it, bit by bit: what the guards of the product are judged by. It shares
 * nothing with boards/software/guard.ts.
 */

/** 0x1edc6f41, its bits in the other order. */
const REFLECTED = 0x82f63b78

/** The CRC of the bytes, and 2^32 - 1 where it is 0: a guard is never 0. */
export function judgedGuard(bytes: Uint8Array): number {
  let register = 0xffffffff
  for (const byte of bytes) {
    register ^= byte
    for (let bit = 0; bit < 8; bit++) {
      const carry = register & 1
      register >>>= 1
      if (carry === 1) register ^= REFLECTED
    }
  }
  const crc = ~register >>> 0
  return crc === 0 ? 0xffffffff : crc
}

/** Four bytes of which the CRC is 0. */
export function bytesOfCrcZero(): Uint8Array {
  let register = 0xffffffff
  for (let bit = 0; bit < 32; bit++) {
    const top = register >>> 31
    register = (((top === 1 ? register ^ REFLECTED : register) << 1) | top) >>> 0
  }
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, register ^ 0xffffffff, true)
  return bytes
}
