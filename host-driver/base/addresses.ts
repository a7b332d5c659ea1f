/**
 * Addresses in the frames where the user names none: those of the emulated DPU, and a neighbour of
 * it for us. Over the UDP tunnel they mean nothing outside the frames.
 */

import { isIP } from 'node:net'
import { macOfCard } from '../../boards/software/card-address.ts'
import { u16 } from '../../firmware/wire/bytes.ts'
import type { Endpoint } from './wire.ts'

/** The port of the emulated DPU. */
export const DPU_ENDPOINT: Endpoint = {
  mac: [0x02, 0, 0, 0, 0, 0x02],
  ipv4: [10, 0, 0, 2],
}

/** A card at that IPv4 address, unless it was given another Ethernet address than its own. */
export function cardAt(ipv4: readonly number[] = DPU_ENDPOINT.ipv4): Endpoint {
  return { mac: macOfCard(ipv4), ipv4 }
}

/** Another host of the DPU's network; which one is drawn, so that clients differ. */
export function neighbour(random: () => number): Endpoint {
  const drawn = random()
  const high = 1 + ((drawn >>> 16) % 255)
  const middle = (drawn >>> 8) & 0xff
  const low = 1 + ((drawn & 0xff) % 254)
  return { mac: [0x02, 0x50, 0x44, high, middle, low], ipv4: [10, high, middle, low] }
}

/** The addresses as they are now. */
export function keptEndpoint({ mac, ipv4 }: Endpoint): Endpoint {
  return { mac: [...mac], ipv4: [...ipv4] }
}

/** The options as they are now, with the addresses that they name. */
export function keptOptions<T extends { readonly own?: Endpoint; readonly peer?: Endpoint }>(
  options: T,
): T {
  const { own, peer } = options
  return {
    ...options,
    ...(own && { own: keptEndpoint(own) }),
    ...(peer && { peer: keptEndpoint(peer) }),
  }
}

/** The bytes of an address in the usual notation, 4 or 16; `isIP` has said which. */
export function addressBytes(address: string, version: number): Uint8Array {
  if (version === 4) return Uint8Array.from(address.split('.'), Number)
  // The URL parser knows every notation, and writes the shortest: at most one '::'.
  const host = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1)
  const [head = '', tail] = host.split('::')
  const groups = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const first = groups(head)
  const last = tail === undefined ? [] : groups(tail)
  const zeros = new Array<number>(8 - first.length - last.length).fill(0)
  return Uint8Array.from(
    [...first, ...zeros, ...last].flatMap((group) => [group >> 8, group & 255]),
  )
}

/** An IPv6 address of 16 bytes as it is usually written (RFC 5952), as 'fd00::2'. */
export function ipv6Text(address: Uint8Array): string {
  const words = Array.from({ length: 8 }, (_, i) => u16(address, 2 * i).toString(16))
  return new URL(`http://[${words.join(':')}]`).hostname.slice(1, -1)
}

/** Addresses that agree in their first bits. */
interface AddressRange {
  /** 16 bytes; that of IPv4 is mapped (RFC 4291 2.5.5.2). */
  readonly address: Uint8Array
  /** Bits that count, up to 128. */
  readonly prefix: number
}

/** Of an address, or of one with the number of its bits that count behind '/'; null of no such. */
export function rangeOf(text: string): AddressRange | null {
  const [host = '', bits, more] = text.split('/')
  const version = host.includes('%') ? 0 : isIP(host)
  if (version === 0 || more !== undefined) return null
  const most = version === 4 ? 32 : 128
  const counted = bits === undefined ? most : Number(bits)
  if (bits !== undefined && (!/^\d{1,3}$/.test(bits) || counted > most)) return null
  const address = new Uint8Array(16)
  if (version === 4) address.fill(0xff, 10, 12)
  address.set(addressBytes(host, version), version === 4 ? 12 : 0)
  return { address, prefix: 128 - most + counted }
}
