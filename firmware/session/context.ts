/**
 * The card's peers and their sessions: the slice of the state that session/ owns.
 */

import type { Fault } from '../board/fault.ts'
import type { Peer } from '../board/hal.ts'
import type { KeyPair, Primitives } from './noise.ts'
import type { Seal } from './sealed.ts'

export interface Session extends Seal {
  /** Its peer: the place in the list of peers. */
  readonly peer: number
  /** When its handshake was, µs. */
  readonly sinceUs: number
  /** When it was heard last; -1 before the first datagram: its client may be nobody. */
  heardUs: number
}

/** What floods cost (cookies.ts). */
export interface Cookies {
  /** Of which cookies are made; null before the first one. */
  secret: Uint8Array | null
  drawnUs: number
  /** When the second began whose handshakes are counted, and those of who showed nothing. */
  sinceUs: number
  unproven: number
  /** Those of each source that brought its cookie. */
  readonly proven: { readonly source: string; count: number }[]
}

/** A peer that is told in several datagrams (manage/peers.ts). */
export interface PeerDraft {
  /** Who tells it (manage/access.ts). */
  readonly from: string
  readonly peer: Peer
  /** Regions of it that were told, and how many it has. */
  readonly told: number
  readonly regions: number
}

/** Whom the card has refused (refusals.ts). */
export interface Refusals {
  count: number
  /** Of the last one: why, its address as IPv6 has it, and when, µs. */
  fault: Fault
  readonly source: Uint8Array
  atUs: number
}

export interface Sessions {
  readonly primitives: Primitives
  /** The card's own keys; null where the card is open. */
  own: KeyPair | null
  /** By places: who has left one is NOBODY (peers.ts). */
  peers: Peer[]
  /** Of each peer: the upper half of the ids that its clients have (sealed.ts); -1 of NOBODY. */
  tags: number[]
  /** One more peer, as far as it was told; null if none is. */
  draft: PeerDraft | null
  /** Regions of records that clients without sessions write: a bit for each place (grants.ts). */
  stockRegions: number
  readonly places: (Session | null)[]
  readonly cookies: Cookies
  readonly refusals: Refusals
}

export interface SessionState {
  readonly sessions: Sessions
}
