/** Calls about who may come to a card, and a card that keeps its peers. */

import type { Peer } from '../../../firmware/board/hal.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TestCard } from '../cards/test-card.ts'
import { Guest } from './guest.ts'
import { KeptPeers } from './kept-peers.ts'
import { ADMIN, CARD, IDENTITY, keyPair } from './peers.ts'

/** Who is added, unless the call says another one. */
export const NEW: KeyPair = keyPair(20)

/** A card with those peers, and an admin of it in a session. */
export function keeping(peers: readonly Peer[] = IDENTITY.peers): {
  readonly kept: KeptPeers
  readonly card: TestCard
  readonly admin: Guest
} {
  const kept = new KeptPeers({ secret: [...CARD.secret], peers })
  const card = new TestCard(1 << 20, { peers: kept })
  const admin = new Guest(card, ADMIN, 11).enter()
  admin.format()
  admin.provision()
  return { kept, card, admin }
}

export type Right = readonly [right: number, region: string | Uint8Array]

export interface Told {
  readonly key?: ArrayLike<number>
  readonly name?: string | Uint8Array
  readonly rights?: number
  readonly regions?: readonly Right[]
  readonly total?: number
  readonly from?: number
  readonly here?: number
}

/** The body of ADD_PEER. */
export function told({
  key = NEW.public,
  name = 'new',
  rights = 0,
  regions = [],
  ...rest
}: Told): (body: Uint8Array) => void {
  return (body: Uint8Array): void => {
    body.set(key, mad.PEER_KEY)
    body.set(Buffer.from(name as string), mad.PEER_NAME)
    body[mad.PEER_RIGHTS] = rights
    body[mad.PEER_REGIONS_TOTAL] = rest.total ?? regions.length
    body[mad.PEER_REGIONS_FROM] = rest.from ?? 0
    body[mad.PEER_REGIONS_HERE] = rest.here ?? regions.length
    regions.forEach(([right, region], i) => {
      const at = mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
      body[at] = right
      body.set(Buffer.from(region as string), at + mad.PEER_REGION_NAME)
    })
  }
}

export function add(guest: Pick<Guest, 'manage'>, peer: Told): string {
  return guest.manage(mad.METHOD_SET, mad.ATTRIBUTE_ADD_PEER, told(peer)).fault
}

export function remove(guest: Pick<Guest, 'manage'>, key: ArrayLike<number>): string {
  const fill = (body: Uint8Array): void => body.set(key, mad.PEER_KEY)
  return guest.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE_PEER, fill).fault
}
