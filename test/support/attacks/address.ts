/** Whose a frame says that it is: addresses in front of what others wrote, the ICRC right. */

import { fillIcrc } from '../../../boards/software/icrc.ts'
import { putU16 } from '../../../firmware/wire/bytes.ts'
import { ETH_SOURCE, ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import { IPV4_CHECKSUM, IPV4_SOURCE, ipv4Checksum } from '../../../firmware/wire/ipv4.ts'
import { IPV6_SOURCE } from '../../../firmware/wire/ipv6.ts'
import { overIpv6 } from '../wire/frames.ts'

/** A source: an Ethernet address, and 4 bytes of IPv4 or 16 of IPv6. */
export interface Address {
  readonly mac: readonly number[]
  readonly ip: readonly number[]
}

/** The machine of that number, 16 to 65534: no two have an address in common. */
export function machine(number: number): Address {
  const last = [number >> 8, number & 0xff]
  return { mac: [2, 0x0a, 0, 0, ...last], ip: [10, 0, ...last] }
}

/** The same machine over IPv6. */
export function overVersion6({ mac, ip }: Address): Address {
  return { mac, ip: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ...ip.slice(2)] }
}

/** A RoCEv2 frame of IPv4 as if that machine had sent it, whatever that address is. */
export function sentAs(frame: Uint8Array, { mac, ip }: Address): Uint8Array {
  const isIpv6 = ip.length === 16
  const copy = isIpv6 ? overIpv6(frame) : frame.slice()
  copy.set(mac, ETH_SOURCE)
  if (isIpv6) copy.set(ip, ETHERNET_BYTES + IPV6_SOURCE)
  else {
    copy.set(ip, ETHERNET_BYTES + IPV4_SOURCE)
    putU16(copy, ETHERNET_BYTES + IPV4_CHECKSUM, ipv4Checksum(copy, ETHERNET_BYTES))
  }
  if (!fillIcrc(copy, 0, copy.length)) throw new Error('not a frame of RoCEv2')
  return copy
}
