/**
 * The invariant CRC of RoCEv2, computed by the CPU: what a NIC does for a board that has one.
 *
 * Invariants:
 * - The ICRC ends the IP datagram, not the frame: an Ethernet pad behind it is no part of it
 *   (wire-format 1.1). A frame in which it cannot be found has no good ICRC.
 * - It is CRC-32 (polynomial 0xEDB88320, reflected) over eight bytes of ones, which stand for the
 *   absent local route header, then the IP header to the pad, with every field that a router may
 *   change replaced by ones (wire-format 2.1; IBTA annex A17).
 * - The frame is only read, except for the four bytes that `fillIcrc` writes.
 *
 * Headers are masked in a copy of at most 64 bytes. Short frames go through eight tables, because
 * a call of zlib costs as much as 100 bytes of that; long ones go to zlib, which is faster by far
 * once it runs (measured on Node 20: the two meet near 400 bytes).
 */

import { crc32 } from 'node:zlib'

const ETHERNET_BYTES = 14
const VLAN_BYTES = 4
const IPV4_BYTES = 20
const IPV6_BYTES = 40
const UDP_BYTES = 8
const BTH_BYTES = 12
const ICRC_BYTES = 4

const TYPE_VLAN = 0x8100
const TYPE_IPV4 = 0x0800
const TYPE_IPV6 = 0x86dd

/** The register after the eight bytes of ones, and the same for zlib's `previous`. */
const START = 0xdebb20e3 | 0
const START_ZLIB = 0x2144df1c

/** From this length of the invariant part on, zlib wins, bytes. */
const ZLIB_BYTES_MIN = 400

/** Eight tables of 256 words: table k advances a byte over k further bytes of zeros. */
const TABLES = new Int32Array(8 * 256)
for (let i = 0; i < 256; i++) {
  let register = i
  for (let bit = 0; bit < 8; bit++) {
    register = register & 1 ? (register >>> 1) ^ 0xedb88320 : register >>> 1
  }
  TABLES[i] = register
}
for (let i = 256; i < TABLES.length; i++) {
  const before = TABLES[i - 256]!
  TABLES[i] = TABLES[before & 0xff]! ^ (before >>> 8)
}

/** The headers under examination, masked; IPv6, UDP and BTH fill 60 bytes. */
const MASKED_BYTES_MAX = IPV6_BYTES + UDP_BYTES + BTH_BYTES
const masked = Buffer.alloc(MASKED_BYTES_MAX + 4)
const maskedIpv4 = masked.subarray(0, IPV4_BYTES + UDP_BYTES + BTH_BYTES)
const maskedIpv6 = masked.subarray(0, MASKED_BYTES_MAX)

/** Where the datagram starts and where its ICRC stands; set by `locate`. */
let ipAt = 0
let icrcAt = 0
let isIpv6 = false

/** Finds the datagram of the frame; false if there is none that could carry an ICRC. */
function locate(bytes: Uint8Array, at: number, length: number): boolean {
  let ip = at + ETHERNET_BYTES
  const end = at + length
  if (length < ETHERNET_BYTES + IPV4_BYTES || end > bytes.length) return false
  let type = (bytes[ip - 2]! << 8) | bytes[ip - 1]!
  if (type === TYPE_VLAN) {
    ip += VLAN_BYTES
    type = (bytes[ip - 2]! << 8) | bytes[ip - 1]!
  }
  let ipBytes = IPV4_BYTES
  let datagramBytes = 0
  if (type === TYPE_IPV4) {
    if (bytes[ip] !== 0x45) return false
    datagramBytes = (bytes[ip + 2]! << 8) | bytes[ip + 3]!
  } else if (type === TYPE_IPV6) {
    ipBytes = IPV6_BYTES
    if (ip + ipBytes > end || bytes[ip]! >> 4 !== 6) return false
    datagramBytes = ipBytes + ((bytes[ip + 4]! << 8) | bytes[ip + 5]!)
  } else {
    return false
  }
  if (datagramBytes < ipBytes + UDP_BYTES + BTH_BYTES + ICRC_BYTES) return false
  if (ip + datagramBytes > end) return false
  ipAt = ip
  icrcAt = ip + datagramBytes - ICRC_BYTES
  isIpv6 = type === TYPE_IPV6
  return true
}

/** Where the ICRC of the frame stands, which is then the located one; -1 if there is none. */
export function icrcAtOf(bytes: Uint8Array, at: number, length: number): number {
  return locate(bytes, at, length) ? icrcAt : -1
}

/** Where the BTH of the datagram stands that was located last. */
export function bthAtOf(): number {
  return ipAt + (isIpv6 ? IPV6_BYTES : IPV4_BYTES) + UDP_BYTES
}

/** Copies the headers of the located datagram and masks them; returns how many bytes. */
function maskHeaders(bytes: Uint8Array): number {
  const ipBytes = isIpv6 ? IPV6_BYTES : IPV4_BYTES
  const count = ipBytes + UDP_BYTES + BTH_BYTES
  for (let i = 0; i < count; i++) masked[i] = bytes[ipAt + i]!
  if (isIpv6) {
    masked[0] = 0x6f
    masked[1] = 0xff
    masked[2] = 0xff
    masked[3] = 0xff
    masked[7] = 0xff
  } else {
    masked[1] = 0xff
    masked[8] = 0xff
    masked[10] = 0xff
    masked[11] = 0xff
  }
  masked[ipBytes + 6] = 0xff
  masked[ipBytes + 7] = 0xff
  masked[ipBytes + UDP_BYTES + 4] = 0xff
  return count
}

/** Runs the register over [at, end), eight bytes at a time. */
function advance(register: number, bytes: Uint8Array, at: number, end: number): number {
  let r = register
  let i = at
  for (; i + 8 <= end; i += 8) {
    const low =
      r ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24))
    r =
      TABLES[0x700 + (low & 0xff)]! ^
      TABLES[0x600 + ((low >>> 8) & 0xff)]! ^
      TABLES[0x500 + ((low >>> 16) & 0xff)]! ^
      TABLES[0x400 + (low >>> 24)]! ^
      TABLES[0x300 + bytes[i + 4]!]! ^
      TABLES[0x200 + bytes[i + 5]!]! ^
      TABLES[0x100 + bytes[i + 6]!]! ^
      TABLES[bytes[i + 7]!]!
  }
  for (; i < end; i++) r = TABLES[(r ^ bytes[i]!) & 0xff]! ^ (r >>> 8)
  return r
}

/** The ICRC of the located datagram, as an int32. */
function compute(bytes: Uint8Array): number {
  const count = maskHeaders(bytes)
  if (icrcAt - ipAt < ZLIB_BYTES_MIN) {
    return ~advance(advance(START, masked, 0, count), bytes, ipAt + count, icrcAt)
  }
  const head = crc32(isIpv6 ? maskedIpv6 : maskedIpv4, START_ZLIB)
  return crc32(bytes.subarray(ipAt + count, icrcAt), head) | 0
}

/**
 * Whether the Ethernet frame of `length` bytes at `at` carries the standard ICRC. Any bytes may
 * stand there; what is no RoCEv2 frame has no good ICRC.
 */
export function icrcGood(bytes: Uint8Array, at: number, length: number): boolean {
  if (!locate(bytes, at, length)) return false
  const i = icrcAt
  const found = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
  return found === compute(bytes)
}

/**
 * Writes the ICRC, least significant byte first, into the last four bytes of the datagram in the
 * Ethernet frame of `length` bytes at `at`: the standard one, or for `linuxFlush` that of Linux's
 * FLUSH. Returns false, and writes nothing, if there is no datagram.
 */
export function fillIcrc(
  bytes: Uint8Array,
  at: number,
  length: number,
  linuxFlush: boolean = false,
): boolean {
  if (!locate(bytes, at, length)) return false
  const value = linuxFlush ? computeLinuxFlush(bytes) : compute(bytes)
  bytes[icrcAt] = value
  bytes[icrcAt + 1] = value >>> 8
  bytes[icrcAt + 2] = value >>> 16
  bytes[icrcAt + 3] = value >>> 24
  return true
}

/** Opcode of the one request that Linux sends with an ICRC of its own (wire-format 2.5). */
const OPCODE_FLUSH = 0x1c

/**
 * The ICRC that Linux puts on the located FLUSH request: the standard one, continued over the 32
 * bytes BTH, FETH and RETH as they are, unmasked.
 */
function computeLinuxFlush(bytes: Uint8Array): number {
  const bthAt = bthAtOf()
  return ~advance(~compute(bytes), bytes, bthAt, icrcAt)
}

/**
 * Whether the frame is a FLUSH request with the ICRC that Linux computes. Any bytes may be there.
 */
export function icrcGoodLinuxFlush(bytes: Uint8Array, at: number, length: number): boolean {
  if (!locate(bytes, at, length)) return false
  const bthAt = bthAtOf()
  if (bytes[bthAt] !== OPCODE_FLUSH) return false
  const i = icrcAt
  const found = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
  return found === computeLinuxFlush(bytes)
}
