// hot path
/**
 * Packet sequence numbers: 24 bits that wrap (IBTA 9.7.2, wire-format 3.2).
 *
 * A PSN compares to the expected one by its distance modulo 2^24: 0 is expected, the lower half is
 * ahead (packets are missing), the upper half is behind (taken before).
 */

export type Psn = number & { readonly unit: 'psn' }

const MASK = 0xffffff
const HALF = 0x800000

/** `psn + count`, wrapped; `count` may be negative. */
export function psnAdd(psn: number, count: number): Psn {
  return ((psn + count) & MASK) as Psn
}

/** How far `psn` is ahead of `expected`, 0 to 2^24 - 1. */
export function psnDistance(psn: number, expected: number): number {
  return (psn - expected) & MASK
}

/** Is `psn` behind `expected`: taken before? */
export function psnBehind(psn: number, expected: number): boolean {
  return ((psn - expected) & MASK) >= HALF
}

/** Longest message, bytes (IBTA 9.7.7). */
export const MESSAGE_BYTES_MAX: number = 2 ** 31

/** Packets, and therefore PSNs, of a message of that many bytes: at least one. */
export function packetsOf(length: number, pathMtu: number): number {
  return length === 0 ? 1 : Math.ceil(length / pathMtu)
}
