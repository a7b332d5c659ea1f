/** Whence a packet came. */

import { IPV4_ADDRESS_BYTES, IPV4_SOURCE } from './ipv4.ts'
import { IPV6_ADDRESS_BYTES, IPV6_SOURCE } from './ipv6.ts'
import type { Packet } from './packet.ts'

/** Reads the address that the packet came from, as IPv6 has it: 16 bytes, that of IPv4 mapped. */
export function readSource(into: Uint8Array, bytes: Uint8Array, packet: Packet): void {
  const { ipVersion, ipAt } = packet
  if (ipVersion === 6) {
    for (let i = 0; i < IPV6_ADDRESS_BYTES; i++) into[i] = bytes[ipAt + IPV6_SOURCE + i]!
    return
  }
  // ::ffff:a.b.c.d (RFC 4291 2.5.5.2).
  into.fill(0).fill(0xff, 10, 12)
  for (let i = 0; i < IPV4_ADDRESS_BYTES; i++) into[12 + i] = bytes[ipAt + IPV4_SOURCE + i]!
}
