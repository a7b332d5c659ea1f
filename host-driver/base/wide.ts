/** Unsigned numbers of 64 bits, and their halves; in bytes the high half comes first. */

import { putU32, u32 } from '../../firmware/wire/bytes.ts'

export function high(value: bigint): number {
  return Number(value >> 32n)
}

export function low(value: bigint): number {
  return Number(value & 0xffffffffn)
}

/** The number of those halves, each 0 to 2^32 - 1. */
export function joined(highHalf: number, lowHalf: number): bigint {
  return (BigInt(highHalf) << 32n) | BigInt(lowHalf)
}

/** The number at `at`. */
export function u64(bytes: Uint8Array, at: number): bigint {
  return joined(u32(bytes, at), u32(bytes, at + 4))
}

/** Writes it at `at`; a plain number is one that is exact, 0 to 2^53 - 1. */
export function putU64(bytes: Uint8Array, at: number, value: bigint | number): void {
  const wide = BigInt(value)
  putU32(bytes, at, high(wide))
  putU32(bytes, at + 4, low(wide))
}
