/**
 * Which place of the table a new queue pair gets, and who may have one more.
 *
 * A place is *free* (no queue pair, or one in the error state that need not rest), *half-open* (its
 * queue pair was never used, and its peer has not said that it is connected), or *held*. A *source*
 * is an address of the network, our own host, or the links of our own.
 *
 * Invariants:
 * - Nobody loses a place that he holds: a new queue pair gets a free place or a half-open one.
 * - A source takes a free place only while it has fewer places than are left for it, half-open ones
 *   included: one alone has half at the most, and whatever one has, a second one finds a place at
 *   once. Five sources never have all 224 places of the network: the last of them would go to one
 *   that has none, and four come to 112, 56, 28 and, as each finds half of what is left or
 *   SMALL_SHARE half-open places, 16. Six that work together can.
 * - What is left for the network are the free places without those that our own host still has to
 *   get of its HOST_QUEUE_PAIRS: it finds so many at once, whatever the network holds. It is a
 *   source like others beyond them, so that it leaves half to the network.
 * - A source that has few places (SMALL_SHARE) takes a half-open one where no free one is left: the
 *   oldest of a source with more half-open ones than these, if there is any, else the oldest of
 *   all. So forged addresses keep nobody out: a client gets in that answers before as many
 *   connections are opened behind its own as there are half-open places.
 * - A half-open place whose peer was silent for STALE_US is no client's that is on its way in.
 *   Where no free one is left it goes to any source that would get it if it were free, the oldest
 *   first. So forged addresses hold up a source that has more places only as long as they come.
 * - A source that may have no more loses the oldest of its own half-open ones: who forges its
 *   address takes nothing from others, and the source itself gets in by the same rule.
 */

import type { BoardState } from '../board/context.ts'
import { HOST_QUEUE_PAIRS, REPEAT_US, SMALL_SHARE } from '../board/limits.ts'
import { IPV4_SOURCE } from '../wire/ipv4.ts'
import { IPV6_ADDRESS_BYTES, IPV6_SOURCE } from '../wire/ipv6.ts'
import type { Packet } from '../wire/packet.ts'
import {
  HOLD_NONE,
  HOLD_RESTING,
  type QueuePair,
  type QueuePairTable,
  STATE_ERROR,
} from './queue-pair.ts'

/** Our own host, whoever the peers of its queue pairs are. */
export const OWN_HOST = 'host'
/** Connections that this card makes to others, whoever asked for them. */
export const OWN_LINKS = 'links'

/** How the places are shared out. */
export interface Shares {
  /** Places that are kept for our own host. */
  readonly host: number
  /** A source with fewer places takes half-open ones of others. */
  readonly small: number
}

export const SHARES: Shares = { host: HOST_QUEUE_PAIRS, small: SMALL_SHARE }

/** Who answers at all has done so in this time, µs: it is longer than a peer waits to repeat. */
const STALE_US: number = 2 * REPEAT_US

/** Bytes of an IPv6 address that name a network (RFC 4291, 2.5.1; RFC 7421). */
const PREFIX_BYTES = 8

/**
 * The source of the packet. Of IPv6 it is the /64: whoever is in one has all of its addresses. On
 * our own link, where all neighbours share one, it is the whole address: what hinders a neighbour
 * to use those of others are the switches, as with IPv4.
 */
export function sourceOf(state: BoardState, packet: Packet): string {
  const { bytes, facts } = state
  const { ipAt } = packet
  if (packet.ipVersion === 4) {
    const at = ipAt + IPV4_SOURCE
    return bytes.slice(at, at + 4).join('.')
  }
  const address = bytes.slice(ipAt + IPV6_SOURCE, ipAt + IPV6_SOURCE + IPV6_ADDRESS_BYTES)
  const near = isLinkLocal(address) || isOfNetwork(address, facts.ipv6)
  return (near ? address : address.slice(0, PREFIX_BYTES)).join(':')
}

/** fe80::/10 (RFC 4291, 2.5.6). */
function isLinkLocal(address: Uint8Array): boolean {
  return address[0] === 0xfe && (address[1]! & 0xc0) === 0x80
}

function isOfNetwork(address: Uint8Array, own: readonly number[]): boolean {
  for (let i = 0; i < PREFIX_BYTES; i++) if (address[i] !== own[i]) return false
  return true
}

/** Does the place belong to nobody: may anybody have it? */
function isVacant(qp: QueuePair | null): boolean {
  return qp === null || (qp.state === STATE_ERROR && qp.hold !== HOLD_RESTING)
}

/** Was it opened, and is nothing known of its peer since? */
export function isHalfOpen(qp: QueuePair): boolean {
  return qp.state !== STATE_ERROR && qp.hold === HOLD_NONE && !qp.used
}

/** Places of the table, as a source sees them. */
interface Counted {
  /** Its own, half-open ones too, and those of our host. */
  own: number
  host: number
  free: number
  /** Half-open ones of others, and those of them that are stale. */
  halfOpen: number
  stale: number
}

/** Has its peer been silent for so long that nobody waits for it? */
function isAbandoned(qp: QueuePair, nowUs: number): boolean {
  return isHalfOpen(qp) && nowUs - qp.heardUs > STALE_US
}

function countPlaces(table: QueuePairTable, source: string, nowUs: number): Counted {
  const counted: Counted = { own: 0, host: 0, free: 0, halfOpen: 0, stale: 0 }
  for (const qp of table.places) {
    if (isVacant(qp)) {
      counted.free += 1
      continue
    }
    if (qp!.source === OWN_HOST) counted.host += 1
    if (qp!.source === source) counted.own += 1
    else if (isHalfOpen(qp!)) {
      counted.halfOpen += 1
      if (isAbandoned(qp!, nowUs)) counted.stale += 1
    }
  }
  return counted
}

/** Free places that are left for that source. */
function leftFor({ free, host }: Counted, source: string, shares: Shares): number {
  return source === OWN_HOST ? free : free - Math.max(0, shares.host - host)
}

/** The place for a new queue pair of that source, or -1 if there is none for it. */
export function choosePlace(
  table: QueuePairTable,
  source: string,
  shares: Shares = SHARES,
  nowUs = 0,
): number {
  const counted = countPlaces(table, source, nowUs)
  const { own, halfOpen, stale } = counted
  const left = leftFor(counted, source, shares)
  const isKept = source === OWN_HOST && own < shares.host
  if (left > 0 && (own < left || isKept)) return nextFree(table)
  const isSmall = own < shares.small && own < left + halfOpen
  if (isSmall) return oldestOfCrowd(table, shares.small)
  if (own < left + stale) return oldestStale(table, source, nowUs)
  return oldestOf(table, source)
}

/** Would that source get a place if another one lost one? */
export function isNextToGrow(table: QueuePairTable, source: string): boolean {
  const counted = countPlaces(table, source, 0)
  return counted.own <= leftFor(counted, source, SHARES)
}

/** Places that each source has, half-open ones too. */
export function placesOfSources(table: QueuePairTable): Map<string, number> {
  return countSources(table, () => true)
}

function countSources(
  table: QueuePairTable,
  isOne: (qp: QueuePair) => boolean,
): Map<string, number> {
  const counts = new Map<string, number>()
  for (const qp of table.places) {
    if (isVacant(qp) || !isOne(qp!)) continue
    counts.set(qp!.source, (counts.get(qp!.source) ?? 0) + 1)
  }
  return counts
}

/**
 * The next free place round the table from where the search begins: an empty one first, then one in
 * the error state, which is silent permanently. -1 if there is none.
 */
function nextFree({ places, next }: QueuePairTable): number {
  let chosen = -1
  for (let i = 0; i < places.length; i++) {
    const place = (next + i) % places.length
    if (places[place] === null) return place
    if (chosen < 0 && isVacant(places[place]!)) chosen = place
  }
  return chosen
}

/** The oldest half-open place of those with more than so many, or else of all. */
function oldestOfCrowd(table: QueuePairTable, small: number): number {
  const counts = countSources(table, isHalfOpen)
  const most = Math.max(0, ...counts.values())
  return oldest(table, ({ source }) => most <= small || counts.get(source)! > small)
}

/** The oldest stale place of others. */
function oldestStale(table: QueuePairTable, source: string, nowUs: number): number {
  return oldest(table, (qp) => qp.source !== source && isAbandoned(qp, nowUs))
}

function oldestOf(table: QueuePairTable, source: string): number {
  return oldest(table, (qp) => qp.source === source)
}

/** The half-open place that was opened first, of those of which that holds; -1 if there is none. */
function oldest(table: QueuePairTable, isOne: (qp: QueuePair) => boolean): number {
  let chosen: QueuePair | null = null
  for (const qp of table.places) {
    if (qp === null || !isHalfOpen(qp) || !isOne(qp)) continue
    if (chosen === null || qp.opened < chosen.opened) chosen = qp
  }
  return chosen === null ? -1 : chosen.index
}
