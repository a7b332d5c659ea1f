/**
 * The side that connects in a session of another card (connect/entering.ts, session/visit.ts),
 * datagram by datagram, against an end that says whatever it likes: R1-S13, X-3.
 */

import { expect, test } from 'vitest'
import * as primitives from '../../../boards/software/noise-primitives.ts'
import {
  ATTACH_FAILED,
  COOKIE,
  type Fault,
  FORBIDDEN,
  HANDSHAKE,
  NO_REGION,
  NO_SESSION,
  OPEN_CARD,
  PEER_UNKNOWN,
  QUEUE_PAIRS_FULL,
  RELAY_REFUSED,
} from '../../../firmware/board/fault.ts'
import { SESSION_US } from '../../../firmware/board/limits.ts'
import {
  EVENT_CLOSED,
  EVENT_CONNECTED,
  EVENT_NONE,
  EVENT_REJECTED,
  EVENT_TIMED_OUT,
} from '../../../firmware/connect/active.ts'
import {
  closeEntering,
  EVENT_BROKEN,
  startEntering,
  tickEntering,
} from '../../../firmware/connect/entering.ts'
import { sealDatagram } from '../../../firmware/session/sealed.ts'
import { awaits } from '../../../firmware/session/visit.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  answerTo,
  describesRegion,
  FAR_INCARNATION,
  FAR_PSN,
  FAR_QPN,
  FarEnd,
  grantsPair,
  transactionOf,
} from '../../support/sessions/far-end.ts'

const SECOND_US = 1_000_000

/** The first message is on its way. */
function begun(): FarEnd {
  const far = new FarEnd()
  far.entering = startEntering(far.options, far.nowUs)
  return far
}

/** There is a session, and the region was asked for. */
function inSession(far: FarEnd = begun()): FarEnd {
  expect(far.bring(far.second(far.newest()))).toBe(EVENT_NONE)
  return far
}

/** The region was told, and a queue pair is asked for. */
function atPair(far: FarEnd = inSession()): FarEnd {
  expect(far.bring(far.sealed(far.opened(far.newest()), describesRegion))).toBe(EVENT_NONE)
  return far
}

function connected(far: FarEnd = atPair()): FarEnd {
  expect(far.bring(far.sealed(far.opened(far.newest()), grantsPair))).toBe(EVENT_CONNECTED)
  return far
}

/** Time goes by, and whatever is due is done; the events. */
function pass(far: FarEnd, us: number): number[] {
  const endUs = far.nowUs + us
  const events: number[] = []
  for (;;) {
    const { timerUs } = far.entering!.visit
    if (timerUs > endUs) break
    far.nowUs = Math.max(far.nowUs, timerUs)
    const event = tickEntering(far.entering!, far.nowUs)
    if (event !== EVENT_NONE) events.push(event)
  }
  far.nowUs = endUs
  return events
}

function attributes(datagrams: readonly Uint8Array[]): number[] {
  return datagrams.map((datagram) => u16(datagram, mad.MAD_ATTRIBUTE))
}

test('a session, the region, a queue pair with tags: what is asked, and what is granted', () => {
  const far = inSession()
  const region = far.opened(far.newest())
  expect(region.attribute).toBe(mad.ATTRIBUTE_OPEN)
  expect(Buffer.from(region.body.slice(0, 32)).toString().replace(/\0+$/, '')).toBe('far')
  far.bring(far.sealed(region, describesRegion))
  const pair = far.opened(far.newest())
  expect(pair.attribute).toBe(mad.ATTRIBUTE_CONNECT)
  const word = (at: number): number => u32(pair.body, at)
  expect(word(mad.CONNECT_CLIENT_QP)).toBe(0x55)
  expect(word(mad.CONNECT_CLIENT_PSN)).toBe(0x66)
  expect([word(mad.CONNECT_CLIENT_ID_HIGH), word(mad.CONNECT_CLIENT_ID_LOW)]).toEqual([7, 8])
  expect(u16(pair.body, mad.CONNECT_PATH_MTU)).toBe(4096)
  // The domain of the region: another one would reach it by no key.
  expect(u16(pair.body, mad.CONNECT_DOMAIN)).toBe(5)
  expect(u16(pair.body, mad.CONNECT_CLIENT_SEND_DEPTH)).toBe(64)
  expect(u16(pair.body, mad.CONNECT_CLIENT_RECEIVE_DEPTH)).toBe(32)
  expect(pair.body[mad.CONNECT_TAGS]).toBe(1)
  connected(reask(far))
  const { region: told, entrance } = far.entering!
  const shape = { slots: 64, capacity: 1000, copies: 2, kind: 0, flags: 0 }
  expect(told).toEqual({ ...shape, rkey: 0xabcdef01, protectionDomain: 5 })
  expect(entrance).toMatchObject({ qpn: FAR_QPN, startingPsn: FAR_PSN, pathMtu: 1024 })
  expect(entrance).toMatchObject({ incarnation: FAR_INCARNATION, told: { send: 64, receive: 32 } })
  expect([...entrance!.tagKeys]).toEqual(Array.from({ length: 64 }, (_, i) => i + 1))
  expect(far.entering!.visit.timerUs).toBe(Infinity)
})

/** What waits is said again. */
function reask(far: FarEnd): FarEnd {
  pass(far, 60_000)
  return far
}

test('nothing but first messages leaves in the clear', () => {
  const far = begun()
  const all: Uint8Array[] = [...far.came]
  inSession(far)
  for (const next of [atPair, connected]) {
    reask(far)
    all.push(...far.came)
    next(far)
  }
  closeEntering(far.entering!, far.nowUs)
  pass(far, 3 * SECOND_US)
  all.push(...far.came)
  const clear = all.filter((datagram) => !mad.isSealed(datagram, 0))
  expect(new Set(attributes(clear))).toEqual(new Set([mad.ATTRIBUTE_HANDSHAKE]))
  expect(all.length).toBeGreaterThan(clear.length)
})

test('what is not answered is repeated, each time sealed anew, and given up behind 5 s', () => {
  const first = begun()
  expect(pass(first, 6 * SECOND_US)).toEqual([EVENT_TIMED_OUT])
  expect(first.came.length).toBeGreaterThan(5)
  expect(new Set(first.came.map(transactionOf)).size).toBe(1)
  expect(first.entering!.fault).toBe(ATTACH_FAILED)
  for (const far of [inSession(), atPair()]) {
    expect(pass(far, 6 * SECOND_US)).toEqual([EVENT_TIMED_OUT])
    expect(new Set(far.came.map(transactionOf)).size).toBe(1)
    const bodies = far.came.map((datagram) => Buffer.from(datagram.slice(32)).toString('hex'))
    expect(new Set(bodies).size).toBe(far.came.length)
    for (const datagram of far.came) far.opened(datagram)
    expect(pass(far, 6 * SECOND_US)).toEqual([])
  }
})

test.each([
  [PEER_UNKNOWN, RELAY_REFUSED],
  [OPEN_CARD, RELAY_REFUSED],
  [HANDSHAKE, ATTACH_FAILED],
] as [Fault, Fault][])('a first handshake that is refused as %i ends it as %i', (fault, why) => {
  const far = begun()
  expect(far.bring(answerTo(far.newest(), fault))).toBe(EVENT_REJECTED)
  expect(far.entering!.fault).toBe(why)
  expect(pass(far, 6 * SECOND_US)).toEqual([])
})

test.each([
  [NO_REGION, ATTACH_FAILED],
  [FORBIDDEN, RELAY_REFUSED],
] as [Fault, Fault][])('a region that is refused as %i ends it as %i', (fault, why) => {
  const far = inSession()
  const asked = far.opened(far.newest())
  expect(far.bring(far.sealed(asked, () => {}, fault))).toBe(EVENT_REJECTED)
  expect(far.entering!.fault).toBe(why)
})

test('a queue pair that is refused ends it', () => {
  const far = atPair()
  const asked = far.opened(far.newest())
  expect(far.bring(far.sealed(asked, () => {}, QUEUE_PAIRS_FULL))).toBe(EVENT_REJECTED)
  expect(far.entering!.fault).toBe(ATTACH_FAILED)
})

test.each<[string, (body: Uint8Array) => void]>([
  ['without tags', (body) => body.fill(0, mad.CONNECT_TAGS, mad.CONNECT_TAGS + 1)],
  ['with a path MTU that is none', (body) => putU16(body, mad.CONNECT_GRANTED_MTU, 1000)],
  ['with more than was asked for', (body) => putU16(body, mad.CONNECT_GRANTED_MTU, 8192)],
  ['of the number 1', (body) => putU32(body, mad.CONNECT_QP, 1)],
  ['of a number beyond 24 bits', (body) => putU32(body, mad.CONNECT_QP, 2 ** 24)],
  ['with a PSN beyond 24 bits', (body) => putU32(body, mad.CONNECT_FIRST_PSN, 2 ** 24)],
  ['without a queue', (body) => putU16(body, mad.CONNECT_RECEIVE_DEPTH, 0)],
])('a queue pair %s is none', (_, spoil) => {
  const far = atPair()
  const asked = far.opened(far.newest())
  const grants = (body: Uint8Array): void => {
    grantsPair(body)
    spoil(body)
  }
  expect(far.bring(far.sealed(asked, grants))).toBe(EVENT_REJECTED)
  expect(far.entering!.entrance).toBeNull()
})

test('no more than was asked for is granted, and 4096 where that was asked for', () => {
  const far = atPair()
  const asked = far.opened(far.newest())
  const grants = (body: Uint8Array): void => {
    grantsPair(body)
    putU16(body, mad.CONNECT_GRANTED_MTU, 4096)
  }
  expect(far.bring(far.sealed(asked, grants))).toBe(EVENT_CONNECTED)
})

test('R1-S13: a second message that was forged spoils nothing', () => {
  const far = begun()
  const first = far.newest()
  const second = far.second(first)
  for (const at of [0, 31, 32, 59]) {
    const forged = second.slice()
    forged[mad.MAD_BODY + at]! ^= 1
    expect(far.bring(forged)).toBe(EVENT_BROKEN)
  }
  const zeros = answerTo(first, 0, (body) => body.fill(0))
  expect(far.bring(zeros)).toBe(EVENT_BROKEN)
  expect(far.bring(second)).toBe(EVENT_NONE)
  connected(atPair(far))
})

test('R1-S13: our own datagrams are no answers, whatever their method says', () => {
  const far = begun()
  const first = far.newest()
  expect(far.bring(answerTo(first, 0))).toBe(EVENT_BROKEN)
  inSession(reask(far))
  const reflected = far.came.at(-1)!.slice()
  reflected[mad.MAD_METHOD] = mad.METHOD_RESPONSE
  expect(far.bring(reflected)).toBe(EVENT_BROKEN)
  connected(atPair(far))
})

test('R1-S13: an answer that the card has not sealed is none, nor one that comes again', () => {
  const far = inSession()
  const asked = far.opened(far.newest())
  expect(far.bring(answerTo(asked.datagram, 0, describesRegion))).toBe(EVENT_BROKEN)
  expect(far.bring(answerTo(asked.datagram, FORBIDDEN))).toBe(EVENT_BROKEN)
  const other = { ...far.seal!, keys: { sent: new Uint8Array(32), received: new Uint8Array(32) } }
  const forged = answerTo(asked.datagram, 0, describesRegion)
  sealDatagram(primitives, other, forged, 0)
  expect(far.bring(forged)).toBe(EVENT_BROKEN)
  const elsewhere = answerTo(asked.datagram, 0, describesRegion)
  sealDatagram(primitives, { ...far.seal!, id: far.seal!.id + 1 }, elsewhere, 0)
  expect(far.bring(elsewhere)).toBe(EVENT_BROKEN)
  const answer = far.sealed(asked, describesRegion)
  expect(far.bring(answer)).toBe(EVENT_NONE)
  expect(awaits(far.entering!.visit, answer, 0)).toBe(false)
  connected(far)
})

test('an answer is awaited by its transaction and its attribute', () => {
  const far = inSession()
  const { visit } = far.entering!
  const answer = far.sealed(far.opened(far.newest()), describesRegion)
  expect(awaits(visit, answer, 0)).toBe(true)
  for (let at = 8; at < 20; at++) {
    const other = answer.slice()
    other[at]! ^= 0x10
    expect(awaits(visit, other, 0), `byte ${at}`).toBe(false)
  }
  // The handshake has ended.
  const first = begun().newest()
  expect(awaits(visit, answerTo(first, 0), 0)).toBe(false)
})

test('R1-S13: a sealed answer to a first message is none', () => {
  const far = begun()
  const first = far.newest()
  far.second(first)
  const sealed = answerTo(first, 0)
  sealDatagram(primitives, far.seal!, sealed, 0)
  expect(far.bring(sealed)).toBe(EVENT_BROKEN)
})

test('a cookie is shown once at once, and then whenever the message is repeated', () => {
  const far = begun()
  const first = far.newest()
  const refuse = (cookie: number): number =>
    far.bring(answerTo(first, COOKIE, (body) => body.fill(cookie, 0, 16)))
  expect(refuse(3)).toBe(EVENT_NONE)
  expect(refuse(4)).toBe(EVENT_NONE)
  const cookieOf = (datagram: Uint8Array): number[] => {
    const at = mad.MAD_BODY + mad.HANDSHAKE_COOKIE
    return [...new Set(datagram.slice(at, at + mad.HANDSHAKE_COOKIE_BYTES))]
  }
  expect(far.came.splice(0).map(cookieOf)).toEqual([[3]])
  pass(far, 60_000)
  expect(far.came.splice(0).map(cookieOf)).toEqual([[4]])
  expect(refuse(5)).toBe(EVENT_NONE)
  const shown = far.newest()
  expect(cookieOf(shown)).toEqual([5])
  expect(far.bring(far.second(shown))).toBe(EVENT_NONE)
  connected(atPair(far))
})

test('X-3: behind NO_SESSION another session is made, and everything asked for in that one', () => {
  const far = atPair()
  const asked = far.opened(far.newest())
  const before = far.seal!
  expect(far.bring(answerTo(asked.datagram, NO_SESSION))).toBe(EVENT_NONE)
  const [again] = far.came.splice(0)
  expect(attributes([again!])).toEqual([mad.ATTRIBUTE_HANDSHAKE])
  // The old session is spoken in until there is another one.
  expect(far.entering!.visit.session!.id).toBe(before.id)
  expect(far.bring(far.second(again!))).toBe(EVENT_NONE)
  expect(far.entering!.visit.session!.id).not.toBe(before.id)
  const region = far.opened(far.newest())
  expect(region.attribute).toBe(mad.ATTRIBUTE_OPEN)
  far.bring(far.sealed(region, describesRegion))
  const pair = far.opened(far.newest())
  expect(transactionOf(pair.datagram)).not.toBe(transactionOf(asked.datagram))
  expect(far.bring(far.sealed(pair, grantsPair))).toBe(EVENT_CONNECTED)
})

test('R1-S13: who forges NO_SESSION, and refuses what follows, ends nothing', () => {
  const far = inSession()
  const asked = far.opened(far.newest())
  far.bring(answerTo(asked.datagram, NO_SESSION))
  far.bring(answerTo(asked.datagram, NO_SESSION))
  const firsts = far.came.splice(0)
  expect(new Set(firsts.map(transactionOf)).size).toBe(1)
  expect(far.bring(answerTo(firsts[0]!, PEER_UNKNOWN))).toBe(EVENT_NONE)
  expect(far.bring(far.sealed(asked, describesRegion))).toBe(EVENT_NONE)
  connected(far)
})

test('goodbye is said until it is answered, whatever the answer, or for 5 s', () => {
  for (const fault of [0, FORBIDDEN]) {
    const far = connected()
    far.nowUs += SECOND_US
    expect(closeEntering(far.entering!, far.nowUs)).toBe(EVENT_NONE)
    const asked = far.opened(far.newest())
    expect(asked.attribute).toBe(mad.ATTRIBUTE_DISCONNECT)
    expect(u32(asked.body, mad.DISCONNECT_QP)).toBe(FAR_QPN)
    expect(u32(asked.body, mad.DISCONNECT_CLIENT_QP)).toBe(0x55)
    expect(far.bring(far.sealed(asked, () => {}, fault))).toBe(EVENT_CLOSED)
    expect(pass(far, 9 * SECOND_US)).toEqual([])
  }
  const silent = connected()
  silent.nowUs += 60 * SECOND_US
  closeEntering(silent.entering!, silent.nowUs)
  expect(pass(silent, 4 * SECOND_US)).toEqual([])
  expect(silent.came.length).toBeGreaterThan(4)
  expect(pass(silent, 2 * SECOND_US)).toEqual([EVENT_CLOSED])
})

test('before it is connected it ends without a word', () => {
  for (const far of [begun(), inSession(), atPair()]) {
    far.came.length = 0
    expect(closeEntering(far.entering!, far.nowUs)).toBe(EVENT_CLOSED)
    expect(pass(far, 9 * SECOND_US)).toEqual([])
    expect(far.came).toEqual([])
  }
})

test('a session is replaced behind half of its life, and spoken in until there is another', () => {
  const far = connected()
  far.nowUs += SESSION_US / 2
  closeEntering(far.entering!, far.nowUs)
  const young = far.came.splice(0)
  expect(attributes(young)).toEqual([mad.ATTRIBUTE_DISCONNECT])
  const old = connected()
  old.nowUs += SESSION_US / 2 + 1
  closeEntering(old.entering!, old.nowUs)
  const [first, asked] = old.came.splice(0)
  expect(attributes([first!, asked!])).toEqual([
    ...[mad.ATTRIBUTE_HANDSHAKE, mad.ATTRIBUTE_DISCONNECT],
  ])
  old.opened(asked!)
  expect(old.bring(old.second(first!))).toBe(EVENT_NONE)
  const again = old.opened(old.newest())
  expect(again.attribute).toBe(mad.ATTRIBUTE_DISCONNECT)
  expect(old.bring(old.sealed(again, () => {}))).toBe(EVENT_CLOSED)
})

test('a key of a point of small order is nobody’s', () => {
  const far = new FarEnd()
  expect(startEntering({ ...far.options, card: new Uint8Array(32) }, 0)).toBeNull()
  expect(far.came).toEqual([])
})
