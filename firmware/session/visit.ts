/**
 * This card as the client of another one: a session there, and one control call at a time in it,
 * without I/O: it is given datagrams and the time, and gives datagrams. The driver's way into a
 * session (host-driver/control/sealed-way.ts) does the same for many calls.
 *
 *   first message, again until the second ──▶ VISIT_ENTERED ──▶ calls, sealed, each again until its
 *   answer: VISIT_ANSWERED ──▶ …
 *
 * Invariants:
 * - Nothing but first messages leaves in the clear. Of what comes in the clear a refusal of the
 *   first handshake is believed, which whoever is on the path could bring about by silence, too;
 *   and NO_SESSION and COOKIE so far as another first message is sent: the session that there is
 *   stays until the card has made another one. So who forges them ends nothing.
 * - An answer counts for the call of its transaction and attribute alone, and when the card has
 *   sealed it in the session that there is: it is not taken twice, and none of our own datagrams
 *   is one, as each direction has its own key.
 * - A session is replaced behind half of its life, when something is asked: what was asked is asked
 *   in the old one meanwhile.
 * - Whatever waits has a timer and an end: `endUs`.
 * - An ephemeral key is drawn for each handshake. Were it drawn twice, as the entropy of a board
 *   repeats, it were the same first message: the other card's own ephemeral key makes the keys of
 *   two sessions differ.
 */

import { COOKIE, type Fault, NO_SESSION, PASS } from '../board/fault.ts'
import { SESSION_US } from '../board/limits.ts'
import { u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import {
  type Handshake,
  initiator,
  KEY_BYTES,
  type KeyPair,
  keyPairOf,
  type Primitives,
  readSecond,
  split,
  writeFirst,
} from './noise.ts'
import {
  createSeal,
  openDatagram,
  PROLOGUE,
  type Seal,
  sealDatagram,
  sessionIdAt,
} from './sealed.ts'

/** What a datagram or a tick brought about. */
export const VISIT_NONE = 0
/** There is a session, the first or another one; what was asked before was not asked in it. */
export const VISIT_ENTERED = 1
/** The call was answered: `fault`, and `body` if that is PASS. */
const VISIT_ANSWERED = 2
/** There is no session, and why: `fault`. */
const VISIT_REFUSED = 3
/** Nobody answered in time. */
export const VISIT_TIMED_OUT = 4
/** It was in the name of the other card, and that has not sealed it. */
export const VISIT_BROKEN = 5

/** First wait for an answer; each further one is twice as long, up to a second. */
const RETRY_US = 50_000
const RETRY_US_MAX = 1_000_000

/** A session is replaced at this age: the other card ends it at twice of it. */
const RENEWED_US = SESSION_US / 2

export interface VisitOptions {
  readonly primitives: Primitives
  /** This card's own keys. */
  readonly own: KeyPair
  /** The public key of the other one. */
  readonly card: Uint8Array
  /** So many random bytes. */
  readonly draw: (length: number) => Uint8Array
  /** Sends these 256 bytes to QP 1 of the other card; they are used again when it returns. */
  readonly send: (datagram: Uint8Array) => void
}

/** A handshake that is under way, and its first message. */
interface Trial {
  readonly handshake: Handshake
  readonly datagram: Uint8Array
  /** It was sent with a cookie at once, since it was sent by the clock. */
  hasShown: boolean
}

export interface Visit {
  readonly options: VisitOptions
  session: Seal | null
  /** When that was made, µs. */
  sinceUs: number
  trial: Trial | null
  /** The call, in the clear, that waits for its answer. */
  asked: Uint8Array | null
  fault: Fault
  /** Of the last answer. */
  body: Uint8Array
  /** When `tickVisit` is wanted, µs; Infinity is never. */
  timerUs: number
  waitUs: number
  /** When it is given up, µs. */
  endUs: number
}

/** Sends the first message. Null where the key of the other card is nobody's. */
export function beginVisit(options: VisitOptions, nowUs: number, endUs: number): Visit | null {
  const trial = beginTrial(options)
  if (trial === null) return null
  const visit: Visit = {
    options,
    ...{ session: null, sinceUs: 0, trial, asked: null, fault: PASS, body: new Uint8Array(0) },
    ...{ timerUs: nowUs + RETRY_US, waitUs: RETRY_US, endUs },
  }
  options.send(trial.datagram)
  return visit
}

function beginTrial(options: VisitOptions): Trial | null {
  const { primitives, own, card, draw } = options
  const ephemeral = keyPairOf(primitives, draw(KEY_BYTES))
  const handshake = initiator(primitives, own, ephemeral, card, PROLOGUE)
  const message = writeFirst(handshake, new Uint8Array(0))
  if (message === null) return null
  const datagram = newDatagram(options, mad.METHOD_SET, mad.ATTRIBUTE_HANDSHAKE)
  datagram.set(message, mad.MAD_BODY)
  return { handshake, datagram, hasShown: false }
}

/** A datagram with an empty body, under a transaction that nobody knows yet. */
function newDatagram({ draw }: VisitOptions, method: number, attribute: number): Uint8Array {
  const datagram = new Uint8Array(mad.MAD_BYTES)
  const drawn = draw(8)
  mad.writeMad(datagram, 0, {
    ...mad.blankMad(),
    ...{ method, attribute, transactionHigh: u32(drawn, 0), transactionLow: u32(drawn, 4) },
  })
  return datagram
}

/**
 * Asks that of the other card, in the session that there is; what was asked before is not waited
 * for any more. Given up at `endUs`.
 */
export function ask(
  visit: Visit,
  method: number,
  attribute: number,
  fill: (body: Uint8Array) => void,
  nowUs: number,
): void {
  const datagram = newDatagram(visit.options, method, attribute)
  const body = new Uint8Array(mad.MAD_BODY_BYTES)
  fill(body)
  datagram.set(body, mad.MAD_BODY)
  visit.asked = datagram
  visit.waitUs = RETRY_US
  sendWaiting(visit, nowUs)
}

/** Sends whatever waits for an answer. */
function sendWaiting(visit: Visit, nowUs: number): void {
  const { options, session, asked } = visit
  visit.timerUs = Math.min(nowUs + visit.waitUs, visit.endUs)
  visit.waitUs = Math.min(2 * visit.waitUs, RETRY_US_MAX)
  if (session === null || nowUs - visit.sinceUs > RENEWED_US) enter(visit)
  if (session === null || asked === null) return
  const sealed = asked.slice()
  sealDatagram(options.primitives, session, sealed, 0)
  options.send(sealed)
}

/** Sends the first message of the handshake that is under way, or of another one. */
function enter(visit: Visit): void {
  const { options } = visit
  // The key agreed with ours when the visit began.
  const trial = visit.trial ?? beginTrial(options)!
  trial.hasShown = false
  visit.trial = trial
  options.send(trial.datagram)
}

/** Is the datagram at `at` an answer to what waits for one? Whoever sent it knows what was sent. */
export function awaits({ trial, asked }: Visit, bytes: Uint8Array, at: number): boolean {
  return isAnswer(bytes, at, asked) || isAnswer(bytes, at, trial?.datagram ?? null)
}

function isAnswer(bytes: Uint8Array, at: number, asked: Uint8Array | null): boolean {
  if (asked === null) return false
  for (let i = mad.MAD_TRANSACTION_HIGH; i < mad.MAD_MODIFIER; i++) {
    if (bytes[at + i] !== asked[i]) return false
  }
  return true
}

/** Takes the datagram at `at`, which came from the other card's address and is awaited. */
export function takeVisited(visit: Visit, bytes: Uint8Array, at: number, nowUs: number): number {
  const datagram = bytes.slice(at, at + mad.MAD_BYTES)
  const { trial } = visit
  if (trial !== null && isAnswer(datagram, 0, trial.datagram)) {
    return mad.isSealed(datagram, 0) ? VISIT_BROKEN : takeSecond(visit, trial, datagram, nowUs)
  }
  if (mad.isSealed(datagram, 0)) return takeSealed(visit, datagram)
  // What was asked in a session may have been executed: it was not refused, whatever is said.
  if (datagram[mad.MAD_FAULT] !== NO_SESSION) return VISIT_BROKEN
  enter(visit)
  return VISIT_NONE
}

function takeSealed(visit: Visit, datagram: Uint8Array): number {
  const { options, session } = visit
  if (session === null || sessionIdAt(datagram, 0) !== session.id) return VISIT_BROKEN
  if (!openDatagram(options.primitives, session, datagram, 0)) return VISIT_BROKEN
  visit.asked = null
  visit.timerUs = Infinity
  visit.fault = datagram[mad.MAD_FAULT]! as Fault
  visit.body = datagram.slice(mad.MAD_BODY)
  return VISIT_ANSWERED
}

/** The answer to the first message. */
function takeSecond(visit: Visit, trial: Trial, datagram: Uint8Array, nowUs: number): number {
  const fault = datagram[mad.MAD_FAULT]! as Fault
  const body = datagram.slice(mad.MAD_BODY)
  if (fault === COOKIE) {
    showCookie(visit, trial, body)
    return VISIT_NONE
  }
  if (fault !== PASS) {
    visit.trial = null
    // Whoever has a session goes on in it.
    if (visit.session !== null) return VISIT_NONE
    visit.fault = fault
    return end(visit, VISIT_REFUSED)
  }
  // The handshake stays as it was: what is forged must not spoil that of the card's own message.
  const handshake = { ...trial.handshake }
  const payload = readSecond(handshake, body.slice(0, mad.HANDSHAKE_SECOND_BYTES))
  if (payload === null) return VISIT_BROKEN
  visit.session = createSeal(u32(payload, mad.HANDSHAKE_SESSION), split(handshake, true))
  visit.sinceUs = nowUs
  visit.trial = null
  return VISIT_ENTERED
}

/**
 * The same first message with the cookie that the answer has: once at once, and then whenever it is
 * repeated. Who forges such answers makes us send no more than that.
 */
function showCookie({ options }: Visit, trial: Trial, body: Uint8Array): void {
  const { datagram, hasShown } = trial
  datagram.set(body.slice(0, mad.HANDSHAKE_COOKIE_BYTES), mad.MAD_BODY + mad.HANDSHAKE_COOKIE)
  trial.hasShown = true
  if (!hasShown) options.send(datagram)
}

/** Repeats what is not answered, and gives up; returns the event. */
export function tickVisit(visit: Visit, nowUs: number): number {
  if (nowUs < visit.timerUs) return VISIT_NONE
  if (nowUs >= visit.endUs) return end(visit, VISIT_TIMED_OUT)
  sendWaiting(visit, nowUs)
  return VISIT_NONE
}

/** Nothing is waited for any more. */
function end(visit: Visit, event: number): number {
  visit.trial = null
  visit.asked = null
  visit.timerUs = Infinity
  return event
}
