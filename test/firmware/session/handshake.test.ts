/**
 * The handshake as an attacker has it in his hands (R1-S13): messages that are changed, made up,
 * sent again, meant for others. Nobody has a session who has not made it, and whoever has sent
 * anything at all has stopped nothing.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { SESSIONS } from '../../../firmware/board/limits.ts'
import { SECRETS_AT, SECRETS_BYTES } from '../../../firmware/board/memory-map.ts'
import type { State } from '../../../firmware/core.ts'
import { FIRST_BYTES } from '../../../firmware/session/noise.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type Sent, TestCard } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { closedCard, guests } from '../../support/sessions/closed-card.ts'
import { changed, clearAnswer, Guest } from '../../support/sessions/guest.ts'
import { ADMIN, IDENTITY, keyPair, NOBODY, peer, READER } from '../../support/sessions/peers.ts'
import { hexOf } from '../../support/wire/frames.ts'
import { firstDifference } from '../../support/wire/requests.ts'

const sessionsOf = ({ sessions }: State): number =>
  sessions.places.filter((one) => one !== null).length

/** What the card says to anything in the clear. */
const faultOf = (sent: readonly Sent[]): string => clearAnswer(sent)?.fault ?? 'UNANSWERED'

describe('a first message', () => {
  test('R1-S13: of a peer makes a session, in which calls are answered sealed', () => {
    const { card } = closedCard()
    const guest = new Guest(card, ADMIN)
    expect(guest.shake()).toBe('PASS')
    const call = guest.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    expect(guest.answerOf(guest.serve(call))).toMatchObject({ fault: 'PASS', isSealed: true })
  })

  test('R1-S13: of which any byte is another one makes no session', () => {
    const { card, state } = closedCard()
    const guest = new Guest(card, ADMIN)
    for (let at = 0; at < FIRST_BYTES; at++) {
      // Too many in one second would be asked for a cookie.
      card.now += 100_000
      const { frame } = guest.firstMessage()
      const flipped = changed(frame, (to) => (to[mad.MAD_BODY + at]! ^= 1 << (at & 7)))
      expect(faultOf(guest.serve(flipped)), `byte ${at}`).toBe('HANDSHAKE')
    }
    // X25519 masks the highest bit of a point (RFC 7748 5); the hash of the handshake does not.
    const { frame } = guest.firstMessage()
    const masked = changed(frame, (to) => (to[mad.MAD_BODY + 31]! ^= 0x80))
    expect(faultOf(guest.serve(masked))).toBe('HANDSHAKE')
    expect(sessionsOf(state)).toBe(0)
  })

  test('R1-S13: for another card, and of who is no peer, makes no session', () => {
    const { card, state } = closedCard()
    expect(new Guest(card, ADMIN, 1, keyPair(8).public).shake()).toBe('HANDSHAKE')
    expect(new Guest(card, NOBODY).shake()).toBe('PEER_UNKNOWN')
    expect(sessionsOf(state)).toBe(0)
  })

  test('R1-S13: with a point of small order, or one of zeros, makes no session', () => {
    const { card, state } = closedCard()
    const guest = new Guest(card, ADMIN)
    // RFC 7748 6.1: these give zeros, whatever the secret is.
    const points = [
      '00'.repeat(32),
      `01${'00'.repeat(31)}`,
      'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
      '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
      `ec${'ff'.repeat(30)}7f`,
      `ed${'ff'.repeat(30)}7f`,
      `ee${'ff'.repeat(30)}7f`,
    ]
    for (const point of points) {
      const { frame } = guest.firstMessage()
      const sent = guest.serve(
        changed(frame, (to) => to.set(Buffer.from(point, 'hex'), mad.MAD_BODY)),
      )
      expect(faultOf(sent)).toBe('HANDSHAKE')
    }
    expect(sessionsOf(state)).toBe(0)
  })

  test('R1-S13: under a key of small order, which the list of peers has, makes no session', () => {
    const nobody = { ...NOBODY, public: new Uint8Array(32) }
    const identity = { ...IDENTITY, peers: [peer('nobody', nobody, { admin: true })] }
    const { card, state } = closedCard(1 << 20, { facts: { identity } })
    expect(new Guest(card, nobody).shake()).toBe('HANDSHAKE')
    expect(sessionsOf(state)).toBe(0)
  })

  test('R1-S13: that comes again is answered alike, and has made one session', () => {
    const { card, state } = closedCard()
    const guest = new Guest(card, ADMIN)
    const { frame } = guest.firstMessage()
    const [once] = guest.serve(frame)
    const again = guest.serve(frame, frame)
    expect(again).toHaveLength(2)
    for (const { payload } of again) expect(hexOf(payload)).toBe(hexOf(once!.payload))
    expect(sessionsOf(state)).toBe(1)
  })

  test('R1-S13: sent again by others, or after a restart, makes sessions of no use', () => {
    const { card, state } = closedCard()
    const guest = new Guest(card, ADMIN)
    const first = guest.firstMessage()
    expect(guest.finish(first, guest.serve(first.frame))).toBe('PASS')
    const call = guest.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    guest.serve(call)
    const admin = new Guest(card, ADMIN, 5).enter()
    const incarnation = admin.counter('SEAL_BROKEN')
    // Another transaction, and the same one from elsewhere, ask for another session.
    for (const frame of [
      changed(first.frame, (payload) => putU32(payload, mad.MAD_TRANSACTION_LOW, 0x9999)),
      sentBy(first.frame, 66),
    ]) {
      expect(faultOf(card.serve(frame))).toBe('PASS')
    }
    expect(state.sessions.places.filter((one) => one !== null && one.heardUs < 0)).toHaveLength(2)
    expect(card.serve(call)).toEqual([])
    expect(admin.counter('SEAL_BROKEN')).toBe(incarnation + 1)
    const restarted = closedCard(card.nvdimm)
    restarted.card.serve(first.frame)
    expect(sessionsOf(restarted.state)).toBe(1)
    expect(faultOf(restarted.card.serve(call))).toMatch(/NO_SESSION|UNANSWERED/)
    expect(
      restarted.state.sessions.places.filter((one) => one !== null && one.heardUs >= 0),
    ).toEqual([])
  })

  test('R1-S13: is refused by an open card', () => {
    const guest = new Guest(new TestCard(1 << 18), ADMIN)
    expect(guest.shake()).toBe('OPEN_CARD')
  })
})

describe('a card whose entropy repeats', () => {
  test('R1-S13: and that serves answers a first message otherwise after a restart', () => {
    const { card } = closedCard()
    const admin = new Guest(card, ADMIN).enter()
    admin.format()
    const { frame } = admin.firstMessage()
    const [before] = closedCard(card.nvdimm).card.serve(frame)
    const [behind] = closedCard(card.nvdimm).card.serve(frame)
    expect(hexOf(before!.payload)).not.toBe(hexOf(behind!.payload))
  })

  test('R1-S13: and that does not serve answers otherwise at another time', () => {
    const { card } = closedCard()
    const admin = new Guest(card, ADMIN)
    const first = admin.firstMessage()
    expect(admin.finish(first, admin.serve(first.frame))).toBe('PASS')
    const call = admin.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    const { card: again, state } = closedCard()
    again.now = card.now + 1
    again.serve(first.frame)
    expect(faultOf(again.serve(call))).toMatch(/NO_SESSION|UNANSWERED/)
    expect(state.sessions.places.filter((one) => one !== null && one.heardUs >= 0)).toEqual([])
  })
})

describe('whatever is sent', () => {
  test('R1-S13: secrets are zeros in packet memory behind each handshake and each call', () => {
    const { card } = closedCard()
    const guest = new Guest(card, ADMIN)
    const secrets = (): Uint8Array =>
      new Uint8Array(card.machine.packets.slice(SECRETS_AT, SECRETS_AT + SECRETS_BYTES))
    const zeros = new Uint8Array(SECRETS_BYTES)
    expect(secrets()).toEqual(zeros)
    guest.enter()
    expect(secrets()).toEqual(zeros)
    guest.status()
    expect(secrets()).toEqual(zeros)
    new Guest(card, NOBODY).shake()
    expect(secrets()).toEqual(zeros)
    const call = guest.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    guest.serve(changed(call, (payload) => (payload[mad.MAD_BODY]! ^= 1)))
    expect(secrets()).toEqual(zeros)
  })

  test('R1-S13: random handshakes and sealed datagrams stop nothing, and change nothing', () => {
    const { card, admin, state } = guests()
    const random = new Random(1313)
    const medium = card.nvdimm.live.slice()
    const before = sessionsOf(state)
    for (let burst = 0; burst < 20; burst++) {
      const frames = Array.from({ length: 32 }, () => randomFrame(admin, random))
      for (const { payload } of card.serve(...frames)) {
        const header = mad.blankMad()
        mad.readMad(header, payload, 0)
        const isStatus = header.attribute === mad.ATTRIBUTE_STATUS
        if (!isStatus) expect(header.fault).not.toBe(0)
      }
    }
    expect(sessionsOf(state)).toBe(before)
    expect(firstDifference(card.nvdimm.live, medium)).toBe(-1)
    expect(admin.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault).toBe('PASS')
  })

  test('R1-S13: ids of every place, of sessions and of none, stop nothing', () => {
    const { card, admin } = guests()
    const call = admin.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    for (let place = 0; place < SESSIONS; place++) {
      for (const upper of [0, 0x80000000, 0xffffff80]) {
        const forged = changed(call, (payload) => {
          putU32(payload, mad.MAD_BODY + mad.SEALED_SESSION, (upper | place) >>> 0)
        })
        expect(faultOf(card.serve(forged))).toMatch(/NO_SESSION|UNANSWERED/)
      }
    }
    expect(admin.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault).toBe('PASS')
  })
})

/** A datagram of ours, of a random attribute, method and content; half of them sealed, or so. */
function randomFrame(guest: Guest, random: Random): Uint8Array {
  const sealed = random.below(2) === 0
  const call = guest.callFrame(random.below(256), mad.ATTRIBUTE_HANDSHAKE)
  return changed(call, (payload) => {
    for (let at = mad.MAD_BODY; at < payload.length; at++) payload[at] = random.below(256)
    if (random.below(2) === 0) payload[mad.MAD_METHOD] = mad.METHOD_SET
    if (!sealed) return
    payload[mad.MAD_VERSION] = mad.SEALED_VERSION
    if (random.below(4) === 0) return
    putU32(payload, mad.MAD_BODY + mad.SEALED_SESSION, guest.seal!.id)
    putU32(payload, mad.MAD_BODY + mad.SEALED_COUNTER_HIGH, random.below(2) * 0x001fffff)
  })
}

describe('answers that are kept', () => {
  test('R1-S13: strangers who begin handshakes push out no answer a peer may ask again', () => {
    const { card, admin } = guests()
    const remove = admin.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(Buffer.from('other'), mad.REGION_NAME)
    })
    expect(admin.answerOf(admin.serve(admin.sealed(remove)))).toMatchObject({ fault: 'PASS' })
    const eve = new Guest(card, NOBODY)
    for (let last = 20; last < 20 + 40; last++) card.serve(sentBy(eve.firstMessage().frame, last))
    // The answer was lost, and it is asked again: it was executed, and is not once more.
    admin.provision({ name: 'other' })
    expect(admin.answerOf(admin.serve(admin.sealed(remove)))).toMatchObject({ fault: 'PASS' })
    expect(admin.openAsIs('other').name).toBe('other')
  })

  test('R1-S13: a peer is not answered by what another was told in the same transaction', () => {
    const { admin, card } = guests()
    const reader = new Guest(card, READER, 11).enter()
    const frame = admin.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(Buffer.from('other'), mad.REGION_NAME)
    })
    expect(admin.answerOf(admin.serve(admin.sealed(frame)))?.fault).toBe('PASS')
    expect(reader.answerOf(reader.serve(reader.sealed(frame)))?.fault).toBe('FORBIDDEN')
  })
})
