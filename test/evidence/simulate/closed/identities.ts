/**
 * Who may come to the cards of an attacked world: an operator, who is an admin, and the hosts. The
 * keys are the same in every world; what is drawn anew is what the handshakes draw.
 */

import * as primitives from '../../../../boards/software/noise-primitives.ts'
import type { Identity, Peer } from '../../../../firmware/board/hal.ts'
import type { KeyPair } from '../../../../firmware/session/noise.ts'
import { clientTag } from '../../../../firmware/session/sealed.ts'
import { keyPair, peer } from '../../../support/sessions/peers.ts'

export const CARDS_MOST = 3
const HOSTS_MOST = 3
/** Every region that a world may have. */
const REGIONS = ['records', 'bytes', 'bypass', 'through']

export const OPERATOR_KEYS: KeyPair = keyPair(1)
const CARD_KEYS = Array.from({ length: CARDS_MOST }, (_, card) => keyPair(0x10 + card))
const HOST_KEYS = Array.from({ length: HOSTS_MOST }, (_, host) => keyPair(0x20 + host))

/** The key pair of host 1 and on. */
export function keysOfHost(host: number): KeyPair {
  return HOST_KEYS[host - 1]!
}

/** Upper half of the ids of its clients. */
export function clientHighOf(host: number): number {
  return clientTag(primitives, keysOfHost(host).public)
}

export function cardKeys(card: number): KeyPair {
  return CARD_KEYS[card]!
}

export function cardKey(card: number): Uint8Array {
  return cardKeys(card).public
}

const OPERATOR: Peer = peer('operator', OPERATOR_KEYS, { admin: true })

const PEERS: readonly Peer[] = [
  OPERATOR,
  ...HOST_KEYS.map((keys, i) => peer(`host ${i + 1}`, keys, { write: REGIONS })),
]

/** The operator, and the hosts with a right to every region. */
export const PEERS_EVERYWHERE: readonly Peer[] = [
  OPERATOR,
  ...HOST_KEYS.map((keys, i) => peer(`host-${i + 1}`, keys, { write: ['*'] })),
]

const IDENTITIES: readonly Identity[] = CARD_KEYS.map(({ secret }) => ({
  secret: [...secret],
  peers: PEERS,
}))

/** What a card of that number is given: the same object each time. */
export function identityOf(card: number): Identity {
  return IDENTITIES[card]!
}
