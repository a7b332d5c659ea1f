/**
 * Who may come to a card of a world with relays: the operator, the hosts, and the card that relays
 * to it, whose line comes and goes. The board keeps the list, over every power cut.
 *
 * Invariant: the same list is the same object each time, as the states of the firmware are kept by
 * it (renewed.ts).
 */

import type { PeersList } from '../../../../boards/software/peers-file.ts'
import { BAD_COMMAND, DONE, type Identity } from '../../../../firmware/board/hal.ts'
import { peer } from '../../../support/sessions/peers.ts'
import { RECORDS } from '../client.ts'
import { CARDS_MOST, cardKeys, PEERS_EVERYWHERE } from '../closed/identities.ts'

const HEX_DIGITS = 64

const identities = new Map<number, Identity>()

/** Of the card, where the card `relaying` has a line; -1 for none. */
function identityWith(card: number, relaying: number): Identity {
  const key = card * (CARDS_MOST + 1) + relaying + 1
  const found = identities.get(key)
  if (found !== undefined) return found
  const line = peer('relaying', cardKeys(Math.max(0, relaying)), { write: [RECORDS] })
  const peers = [...PEERS_EVERYWHERE, ...(relaying < 0 ? [] : [line])]
  const made = { secret: [...cardKeys(card).secret], peers }
  identities.set(key, made)
  return made
}

export class Lines implements PeersList {
  /** May the card that relays come? */
  isIn = true
  private readonly card: number
  private readonly relaying: number
  private readonly key: string

  constructor(card: number, relaying: number) {
    this.card = card
    this.relaying = relaying
    this.key = Buffer.from(cardKeys(relaying).public).toString('hex')
  }

  get identity(): Identity {
    return identityWith(this.card, this.isIn ? this.relaying : -1)
  }

  keep(text: Uint8Array, comes: boolean): number {
    const key = Buffer.from(text).toString().slice(0, HEX_DIGITS)
    if (key !== this.key || comes === this.isIn) return BAD_COMMAND
    this.isIn = comes
    return DONE
  }
}
