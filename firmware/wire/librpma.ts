/**
 * The descriptor of a region that librpma's examples expect in the private data of a REP: 28 bytes,
 * little-endian, as they lie in an x86 client.
 *
 *    0 data offset u16     2 bytes of the region's descriptor u8: 21    3 bytes of the peer's: 1
 *    4 region: 0 address u64   8 size u64   16 R_Key u32   20 usage u8
 *   25 peer: direct write to persistent memory u8                      26 zero, 2 bytes
 *
 * Invariant: every byte is written.
 */

export const LIBRPMA_BYTES = 28

/** What may be done with the region (librpma's RPMA_MR_USAGE flags). */
export const USAGE_READ_SOURCE = 1
export const USAGE_WRITE_DESTINATION = 8
export const USAGE_FLUSH_VISIBILITY = 16
export const USAGE_FLUSH_PERSISTENT = 32

const REGION_DESCRIPTOR_BYTES = 21
const PEER_DESCRIPTOR_BYTES = 1
const ADDRESS = 4
const SIZE = 12
const RKEY = 20
const USAGE = 24
const DIRECT_WRITE = 25

export interface LibrpmaDescriptor {
  addressHigh: number
  addressLow: number
  sizeHigh: number
  sizeLow: number
  rkey: number
  usage: number
}

export function blankLibrpma(): LibrpmaDescriptor {
  return { addressHigh: 0, addressLow: 0, sizeHigh: 0, sizeLow: 0, rkey: 0, usage: 0 }
}

function little32(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  )
}

function putLittle32(bytes: Uint8Array, at: number, v: number): void {
  bytes[at] = v
  bytes[at + 1] = v >>> 8
  bytes[at + 2] = v >>> 16
  bytes[at + 3] = v >>> 24
}

/** Writes 28 bytes at `at`: the data begins at the region's first byte. */
export function writeLibrpma(bytes: Uint8Array, at: number, from: LibrpmaDescriptor): void {
  bytes.fill(0, at, at + LIBRPMA_BYTES)
  bytes[at + 2] = REGION_DESCRIPTOR_BYTES
  bytes[at + 3] = PEER_DESCRIPTOR_BYTES
  putLittle32(bytes, at + ADDRESS, from.addressLow)
  putLittle32(bytes, at + ADDRESS + 4, from.addressHigh)
  putLittle32(bytes, at + SIZE, from.sizeLow)
  putLittle32(bytes, at + SIZE + 4, from.sizeHigh)
  putLittle32(bytes, at + RKEY, from.rkey)
  bytes[at + USAGE] = from.usage
  // Writes reach the persistence domain without a CPU's help: FLUSH is the way (interop 2).
  bytes[at + DIRECT_WRITE] = 1
}

/** Reads 28 bytes at `at`; false where the sizes are not those above. */
export function readLibrpma(into: LibrpmaDescriptor, bytes: Uint8Array, at: number): boolean {
  if (bytes[at + 2] !== REGION_DESCRIPTOR_BYTES) return false
  into.addressLow = little32(bytes, at + ADDRESS)
  into.addressHigh = little32(bytes, at + ADDRESS + 4)
  into.sizeLow = little32(bytes, at + SIZE)
  into.sizeHigh = little32(bytes, at + SIZE + 4)
  into.rkey = little32(bytes, at + RKEY)
  into.usage = bytes[at + USAGE]!
  return true
}
