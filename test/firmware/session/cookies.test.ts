/**
 * Floods of first messages (R1-S13): beyond so many in a second they cost the card no curve, and
 * who answers at its address gets in all the same.
 */

import { describe, expect, test } from 'vitest'
import { AGREE, HASH } from '../../../firmware/board/hal.ts'
import {
  COOKIE_US,
  HANDSHAKES_PROVEN,
  HANDSHAKES_UNPROVEN,
  SOURCES,
} from '../../../firmware/board/limits.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { TestCard } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { closedCard } from '../../support/sessions/closed-card.ts'
import { changed, clearAnswer, Guest } from '../../support/sessions/guest.ts'
import { ADMIN, keyPair, NOBODY, READER, WRITER } from '../../support/sessions/peers.ts'
import { hexOf } from '../../support/wire/frames.ts'

let transactions = 0

/** First messages from forged addresses, until cookies are asked for; no answer comes to them. */
function flood(card: TestCard, count: number = HANDSHAKES_UNPROVEN): void {
  const { frame } = new Guest(card, NOBODY).firstMessage()
  for (let i = 0; i < count; i++) {
    transactions += 1
    const another = changed(frame, (to) => putU32(to, mad.MAD_TRANSACTION_LOW, transactions))
    card.serve(sentBy(another, 50 + (i % 200)))
  }
}

/** The fault of the answer, and the cookie that a refusal has. */
function answerTo(guest: Guest, frame: Uint8Array): { fault: string; cookie: Uint8Array } {
  const { fault, body } = clearAnswer(guest.serve(frame))!
  return { fault, cookie: body.slice(0, mad.HANDSHAKE_COOKIE_BYTES) }
}

/** The same first message, with that cookie. */
function withCookie(frame: Uint8Array, cookie: Uint8Array): Uint8Array {
  return changed(frame, (to) => to.set(cookie, mad.MAD_BODY + mad.HANDSHAKE_COOKIE))
}

/** Commands of that kind that the card runs meanwhile. */
function runs(card: TestCard, op: number, doing: () => void): number {
  let count = 0
  card.machine.observe({
    onCommand: (_, ran) => {
      if (ran === op) count += 1
    },
  })
  doing()
  card.machine.observe({})
  return count
}

describe('many first messages', () => {
  test('R1-S13: as many as the card takes in a second are asked for nothing', () => {
    const { card } = closedCard()
    flood(card, HANDSHAKES_UNPROVEN - 1)
    expect(new Guest(card, WRITER).shake()).toBe('PASS')
    expect(new Guest(card, WRITER).shake()).toBe('COOKIE')
    card.now += 1_000_000
    expect(new Guest(card, WRITER).shake()).toBe('PASS')
  })

  test('R1-S13: beyond them each costs a hash and no curve, with a wrong cookie or none', () => {
    const { card } = closedCard()
    flood(card)
    expect(runs(card, AGREE, () => flood(card, 500))).toBe(0)
    expect(runs(card, HASH, () => flood(card, 500))).toBe(500)
    const guest = new Guest(card, WRITER)
    const { frame } = guest.firstMessage()
    const { cookie } = answerTo(guest, frame)
    for (let bit = 0; bit < 8 * cookie.length; bit++) {
      const wrong = cookie.slice()
      wrong[bit >> 3]! ^= 1 << (bit & 7)
      expect(runs(card, AGREE, () => answerTo(guest, withCookie(frame, wrong)))).toBe(0)
    }
    expect(answerTo(guest, withCookie(frame, cookie)).fault).toBe('PASS')
  })

  test('R1-S13: with its cookie the same message makes the session, though it was refused', () => {
    const { card } = closedCard()
    flood(card)
    const guest = new Guest(card, WRITER)
    const first = guest.firstMessage()
    const refused = answerTo(guest, first.frame)
    expect(refused.fault).toBe('COOKIE')
    const sent = guest.serve(withCookie(first.frame, refused.cookie))
    expect(guest.finish(first, sent)).toBe('PASS')
    expect(guest.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault).toBe('PASS')
  })

  test('R1-S13: a cookie is of one address, and of one time', () => {
    const { card } = closedCard()
    flood(card)
    const [one, other] = [new Guest(card, WRITER, 5), new Guest(card, WRITER, 6)]
    const { frame } = one.firstMessage()
    const { cookie } = answerTo(one, frame)
    const { frame: theirs } = other.firstMessage()
    expect(answerTo(other, withCookie(theirs, cookie)).fault).toBe('COOKIE')
    card.now += COOKIE_US
    flood(card)
    const late = answerTo(one, withCookie(frame, cookie))
    expect(late.fault).toBe('COOKIE')
    expect(hexOf(late.cookie)).not.toBe(hexOf(cookie))
    expect(answerTo(one, withCookie(frame, late.cookie)).fault).toBe('PASS')
  })

  test('R1-S13: who floods from his own address has so many of his own, and none of others', () => {
    const { card } = closedCard()
    flood(card)
    const flooder = new Guest(card, READER, 7)
    const faults = Array.from({ length: HANDSHAKES_PROVEN + 3 }, () => {
      const { frame } = flooder.firstMessage()
      return answerTo(flooder, withCookie(frame, answerTo(flooder, frame).cookie)).fault
    })
    expect(faults.filter((fault) => fault === 'PASS')).toHaveLength(HANDSHAKES_PROVEN)
    expect(faults.at(-1)).toBe('COOKIE')
    const honest = new Guest(card, ADMIN, 8)
    const { frame } = honest.firstMessage()
    expect(answerTo(honest, withCookie(frame, answerTo(honest, frame).cookie)).fault).toBe('PASS')
  })

  test('R1-S13: the card keeps no more sources than it has places for', () => {
    const { card, state } = closedCard()
    flood(card)
    for (let last = 1; last <= SOURCES + 5; last++) {
      const guest = new Guest(card, keyPair(90), last)
      const { frame } = guest.firstMessage()
      answerTo(guest, withCookie(frame, answerTo(guest, frame).cookie))
    }
    expect(state.sessions.cookies.proven).toHaveLength(SOURCES)
  })
})
