/** STATUS says how often a card with peers has refused whom, and who was the last (R1-S13). */

import { describe, expect, test } from 'vitest'
import { HANDSHAKES_UNPROVEN } from '../../../firmware/board/limits.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type PartStatus, readPartStatus } from '../../../host-driver/control/part.ts'
import { dataOf, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { closedCard, type Guests, guests } from '../../support/sessions/closed-card.ts'
import { changed, Guest } from '../../support/sessions/guest.ts'
import { NOBODY } from '../../support/sessions/peers.ts'
import { connectTagged } from '../../support/sessions/tagged.ts'
import { frameOf } from '../../support/wire/frames.ts'

const told = (admin: Guest): PartStatus['refusals'] =>
  readPartStatus(admin.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)).refusals

/** How each reason comes about, from 10.0.0.12; the writer's guest is there. */
const REFUSED: Readonly<Record<string, (scene: Guests) => void>> = {
  NO_SESSION: ({ writer }) => void writer.inTheClear(mad.METHOD_GET, mad.ATTRIBUTE_COUNTERS),
  'NO_SESSION, sealed in one that is not there': ({ writer }) => {
    const frame = writer.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    writer.serve(changed(frame, (to) => (to[mad.MAD_BODY + mad.SEALED_SESSION]! ^= 1)))
  },
  SEAL_BROKEN: ({ writer }) => {
    const frame = writer.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    writer.serve(changed(frame, (to) => (to[mad.MAD_BODY]! ^= 1)))
  },
  HANDSHAKE: ({ writer }) => {
    writer.inTheClear(mad.METHOD_SET, mad.ATTRIBUTE_HANDSHAKE, (body) => body.fill(7))
  },
  PEER_UNKNOWN: ({ card }) => void new Guest(card, NOBODY, 12).shake(),
  FORBIDDEN: ({ writer }) => void writer.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT),
  NO_TAG: ({ card, writer, admin }) => {
    const { qp } = connectTagged(writer)
    const frames = persistFrames(qp, admin.openAsIs('records'), 0, dataOf(64, 1))
    card.serve(...frames.map((frame) => sentBy(frame, 12)))
  },
}

describe('who may not', () => {
  test.each(Object.entries(REFUSED))('R1-S13: is told of as %s', (how, provoke) => {
    const fault = how.split(',')[0]!
    const scene = guests()
    expect(told(scene.admin)).toEqual({ count: 0, last: null })
    provoke(scene)
    const last = { fault, from: '10.0.0.12', secondsAgo: 0 }
    expect(told(scene.admin)).toEqual({ count: 1, last })
    scene.card.now += 5_400_000
    expect(told(scene.admin)).toEqual({ count: 1, last: { ...last, secondsAgo: 5 } })
    provoke(scene)
    expect(told(scene.admin)).toEqual({ count: 2, last })
  })

  test('R1-S13: is told of as COOKIE where a flood comes', () => {
    const { admin, card } = guests()
    for (let i = 0; i <= HANDSHAKES_UNPROVEN; i++) new Guest(card, NOBODY, 60 + i).shake()
    expect(told(admin).last).toMatchObject({
      fault: 'COOKIE',
      from: `10.0.0.${60 + HANDSHAKES_UNPROVEN}`,
    })
  })

  test('R1-S13: is told of with his address of IPv6', () => {
    const { admin, card } = guests()
    const frame = new Guest(card, NOBODY).callFrame(mad.METHOD_GET, mad.ATTRIBUTE_COUNTERS)
    const payload = frame.slice(-4 - mad.MAD_BYTES, -4)
    card.serve(
      frameOf({
        ipVersion: 6,
        bth: { opcode: 0x64, destQp: 1 },
        deth: { qkey: 0x80010000, sourceQp: 1 },
        payload,
      }),
    )
    expect(told(admin).last?.from).toMatch(/^fd[0-9a-f:]*::[0-9a-f]+$/)
  })
})

describe('who may', () => {
  test('R1-S13: is told of nowhere, whatever else is wrong with his call', () => {
    const { admin, writer } = guests()
    writer.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => body.fill(0x61, 0, 5))
    writer.manage(mad.METHOD_SET, 0x7777)
    expect(told(admin)).toEqual({ count: 0, last: null })
  })

  test('R1-S13: is everybody at an open card', () => {
    const card = new TestCard(1 << 18).format()
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_HANDSHAKE)
    expect(readPartStatus(card.status()).refusals).toEqual({ count: 0, last: null })
  })

  test('R1-S13: is told nothing of that outside of a session', () => {
    const { card } = closedCard()
    const guest = new Guest(card, NOBODY)
    guest.shake()
    const status = guest.inTheClear(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)!
    expect(readPartStatus(status.body).refusals).toEqual({ count: 0, last: null })
  })
})
