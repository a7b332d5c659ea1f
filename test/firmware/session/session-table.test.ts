/**
 * How many sessions a card has, and whose go when it has no room for one more (R1-S13): who was
 * never heard first, then of the peer that has most.
 */

import { describe, expect, test } from 'vitest'
import { HANDSHAKES_UNPROVEN, SESSION_US, SESSIONS } from '../../../firmware/board/limits.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { TestCard } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { closedCard } from '../../support/sessions/closed-card.ts'
import { changed, Guest } from '../../support/sessions/guest.ts'
import { ADMIN, READER, WRITER } from '../../support/sessions/peers.ts'

/** Is the session of the guest known to the card? It is heard by that. */
function lives(guest: Guest): boolean {
  return guest.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault === 'PASS'
}

/** So far apart no handshake is asked for a cookie, µs. */
const APART_US = 1_000_000 / HANDSHAKES_UNPROVEN + 1

/** So many sessions of that peer, all heard. */
function many(card: TestCard, keys: Guest['keys'], count: number): Guest[] {
  return Array.from({ length: count }, () => {
    card.now += APART_US
    const guest = new Guest(card, keys, 30).enter()
    expect(lives(guest)).toBe(true)
    return guest
  })
}

describe('a table that is full', () => {
  test('R1-S13: of sessions of one peer gives a place to another, the oldest of the former', () => {
    const { card } = closedCard()
    const crowd = many(card, READER, SESSIONS)
    const writer = new Guest(card, WRITER).enter()
    expect(lives(writer)).toBe(true)
    const admin = new Guest(card, ADMIN).enter()
    expect(lives(admin)).toBe(true)
    const gone = crowd.map(lives).flatMap((alive, i) => (alive ? [] : [i]))
    expect(gone).toEqual([0, 1])
  })

  test('R1-S13: of several peers takes none from who has fewer than the one that comes', () => {
    const { card } = closedCard()
    const [admin] = many(card, ADMIN, 1)
    const writers = many(card, WRITER, 20)
    many(card, READER, SESSIONS - 21)
    many(card, READER, 30)
    expect(lives(admin!)).toBe(true)
    expect(writers.every(lives)).toBe(true)
  })

  test('R1-S13: loses no session that was heard to first messages that come again', () => {
    const { card, state } = closedCard()
    const admin = many(card, ADMIN, 1)[0]!
    const readers = many(card, READER, 3)
    const { frame } = new Guest(card, READER).firstMessage()
    for (let i = 0; i < 2 * SESSIONS; i++) {
      card.now += APART_US
      card.serve(
        changed(sentBy(frame, 40 + (i % 100)), (to) => putU32(to, mad.MAD_TRANSACTION_LOW, i)),
      )
    }
    expect(state.sessions.places.every((one) => one !== null)).toBe(true)
    expect([admin, ...readers].every(lives)).toBe(true)
    // And whoever comes meanwhile gets in.
    expect(lives(new Guest(card, WRITER).enter())).toBe(true)
  })

  test('R1-S13: has places again when sessions are over', () => {
    const { card } = closedCard()
    const crowd = many(card, READER, SESSIONS)
    card.now += SESSION_US + 1
    expect(lives(new Guest(card, READER).enter())).toBe(true)
    expect(crowd.slice(1).some(lives)).toBe(false)
  })
})
