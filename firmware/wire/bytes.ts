// hot path
/**
 * Big-endian numbers in bytes, as every header of RoCEv2 has them.
 *
 * Invariant: a read gives an unsigned number, a write takes the low bits of what it is
 * given, and nobody here looks at the length of the buffer. That was done once per packet
 * (packet.ts); checking again would cost more than reading.
 */

/** The unsigned 16-bit number at `at`. */
export function u16(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 8) | bytes[at + 1]!
}

/** The unsigned 24-bit number at `at`: PSNs, queue pair numbers, MSNs. */
export function u24(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!
}

/** The unsigned 32-bit number at `at`. */
export function u32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0
  )
}

/** Writes the low 16 bits of `v` at `at`. */
export function putU16(bytes: Uint8Array, at: number, v: number): void {
  bytes[at] = v >> 8
  bytes[at + 1] = v
}

/** Writes the low 24 bits of `v` at `at`. */
export function putU24(bytes: Uint8Array, at: number, v: number): void {
  bytes[at] = v >> 16
  bytes[at + 1] = v >> 8
  bytes[at + 2] = v
}

/** Writes the low 32 bits of `v` at `at`; signed and unsigned numbers give the same bytes. */
export function putU32(bytes: Uint8Array, at: number, v: number): void {
  bytes[at] = v >> 24
  bytes[at + 1] = v >> 16
  bytes[at + 2] = v >> 8
  bytes[at + 3] = v
}

/** Are the bytes at `at` those of `want`? */
export function isAt(bytes: Uint8Array, at: number, want: ArrayLike<number>): boolean {
  for (let i = 0; i < want.length; i++) if (bytes[at + i] !== want[i]) return false
  return true
}
