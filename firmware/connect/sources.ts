/**
 * Who may connect to a port: addresses, by their first bits.
 *
 * Invariant: an address is that of the packet, and so may be forged; but what a connection is told
 * goes to that address, and without it nobody knows its sequence.
 */

import type { BoardState } from '../board/context.ts'
import { IPV6_ADDRESS_BYTES } from '../wire/ipv6.ts'
import * as mad from '../wire/management.ts'
import type { Packet } from '../wire/packet.ts'
import { readSource } from '../wire/source.ts'
import type { Source } from './context.ts'

/** What PUBLISH says of them, its body at `at`; null if that is nothing. */
export function readSources(bytes: Uint8Array, at: number): Source[] | null {
  const count = bytes[at + mad.PUBLISH_SOURCES]!
  if (count > mad.PUBLISH_SOURCES_MAX) return null
  const sources: Source[] = []
  for (let i = 0; i < count; i++) {
    const from = at + mad.PUBLISH_FIRST_SOURCE + i * mad.PUBLISH_SOURCE_BYTES
    const prefix = bytes[from + mad.PUBLISH_SOURCE_PREFIX]!
    if (prefix > 8 * IPV6_ADDRESS_BYTES) return null
    sources.push({ address: bytes.slice(from, from + IPV6_ADDRESS_BYTES), prefix })
  }
  return sources
}

/** Do both say the same, in the same order? */
export function areSameSources(some: readonly Source[], others: readonly Source[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ address, prefix }, i) => {
      const other = others[i]!
      return prefix === other.prefix && agree(address, other.address, 8 * IPV6_ADDRESS_BYTES)
    })
  )
}

/** Did the packet come from one of them? From anybody, where nobody is named. */
export function isFromSources(
  { bytes }: BoardState,
  packet: Packet,
  sources: readonly Source[],
): boolean {
  if (sources.length === 0) return true
  const from = new Uint8Array(IPV6_ADDRESS_BYTES)
  readSource(from, bytes, packet)
  return sources.some(({ address, prefix }) => agree(address, from, prefix))
}

/** Are the first bits of both the same? */
function agree(one: Uint8Array, other: Uint8Array, bits: number): boolean {
  const whole = bits >> 3
  for (let i = 0; i < whole; i++) if (one[i] !== other[i]) return false
  const rest = bits & 7
  return rest === 0 || ((one[whole]! ^ other[whole]!) & (0xff00 >> rest) & 0xff) === 0
}
