/**
 * The way into a session: management datagrams go sealed, and only what the card has sealed comes
 * back (firmware/session/).
 *
 * Invariants:
 * - Nothing that is asked leaves in the clear, and no answer in the clear is believed but a refusal
 *   of the first session, which anybody on the path could bring about by silence, too. What was
 *   asked in a session may have been executed: whatever is said in the clear, it was not refused.
 * - A session is made where there is none, before it is too old, and where the card knows it no
 *   more. The one before is spoken in until the new one is there: nobody waits for it, and who
 *   forges a refusal ends nothing.
 * - This has no clock of its own: what was not answered is repeated by who asked, and so is the
 *   handshake. What nobody waits for any more is asked in no session that comes later.
 */

import * as primitives from '../../boards/software/noise-primitives.ts'
import { COOKIE, NO_SESSION, PASS } from '../../firmware/board/fault.ts'
import { SESSION_US } from '../../firmware/board/limits.ts'
import {
  type Handshake,
  initiator,
  KEY_BYTES,
  type KeyPair,
  keyPairOf,
  readSecond,
  split,
  writeFirst,
} from '../../firmware/session/noise.ts'
import {
  createSeal,
  openDatagram,
  PROLOGUE,
  type Seal,
  sealDatagram,
  sessionIdAt,
} from '../../firmware/session/sealed.ts'
import { putU32, u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { copyOf } from '../base/bytes.ts'
import { faultOfNumber } from '../base/errors.ts'
import type { DatagramWay } from './calls.ts'

/** A session is replaced at this age: the card ends it at twice of it. */
const RENEWED_US = SESSION_US / 2

/** Questions that wait for a session, at the most; the oldest is forgotten, and repeated. */
const WAITING = 64

/** Who we are, and to whom we speak. */
export interface SessionKeyPair {
  readonly own: KeyPair
  /** The card's public key. */
  readonly card: Uint8Array
}

interface Trial {
  readonly handshake: Handshake
  readonly datagram: Uint8Array
  /** It was sent with a cookie at once, since whoever waits has asked for it the last time. */
  hasShown: boolean
}

interface Made extends Seal {
  readonly sinceUs: number
}

export class SealedWay implements DatagramWay {
  readonly isSealed = true
  onDatagram: DatagramWay['onDatagram'] = null
  private readonly way: DatagramWay
  private readonly keys: SessionKeyPair
  private readonly random: () => number
  private session: Made | null = null
  /** What was asked in it may still be answered in it. */
  private before: Made | null = null
  private trial: Trial | null = null
  /** Why the session that there is could not be replaced, or PASS. */
  private refused: number = PASS
  /** What was not answered, by the lower half of its transaction id. */
  private readonly waiting: Map<number, Uint8Array> = new Map()

  /** `random` gives 32 bits; of the system, where sessions are to be secret. */
  constructor(way: DatagramWay, keys: SessionKeyPair, random: () => number) {
    this.way = way
    this.keys = keys
    this.random = random
    way.onDatagram = (bytes, at, length) => this.take(bytes, at, length)
  }

  now(): number {
    return this.way.now()
  }

  setTimer(atUs: number, callback: () => void): () => void {
    return this.way.setTimer(atUs, callback)
  }

  nextSpeaker(): number {
    return this.way.nextSpeaker?.() ?? 0
  }

  tried(): string {
    const where = this.way.tried?.() ?? ''
    const why = this.refused === PASS ? '' : `a session was refused: ${faultOfNumber(this.refused)}`
    return [where, why].filter((text) => text !== '').join('; ')
  }

  sendDatagram(datagram: Uint8Array): void {
    this.keep(datagram)
    const { session } = this
    if (session === null || this.now() - session.sinceUs > RENEWED_US) this.try()
    if (session !== null) this.seal(session, datagram)
  }

  forgetDatagram(datagram: Uint8Array): void {
    this.waiting.delete(u32(datagram, mad.MAD_TRANSACTION_LOW))
  }

  private keep(datagram: Uint8Array): void {
    const id = u32(datagram, mad.MAD_TRANSACTION_LOW)
    this.waiting.delete(id)
    this.waiting.set(id, datagram)
    if (this.waiting.size <= WAITING) return
    const [oldest] = this.waiting.keys()
    this.waiting.delete(oldest!)
  }

  private seal(session: Made, datagram: Uint8Array): void {
    const sealed = copyOf(datagram)
    sealDatagram(primitives, session, sealed, 0)
    this.way.sendDatagram(sealed)
  }

  /** Sends the first message of a handshake: of the one that is under way, or of a new one. */
  private try(): void {
    this.trial ??= this.begin()
    this.trial.hasShown = false
    this.way.sendDatagram(this.trial.datagram)
  }

  private begin(): Trial {
    const { own, card } = this.keys
    const ephemeral = this.draw()
    const handshake = initiator(primitives, own, ephemeral, card, PROLOGUE)
    const message = writeFirst(handshake, new Uint8Array(0))
    // The key was looked at when it was read (boards/software/keys.ts).
    if (message === null) throw new RangeError('the key of the card is a point of small order')
    const datagram = new Uint8Array(mad.MAD_BYTES)
    mad.writeMad(datagram, 0, {
      ...mad.blankMad(),
      method: mad.METHOD_SET,
      transactionHigh: this.random(),
      transactionLow: this.random(),
      attribute: mad.ATTRIBUTE_HANDSHAKE,
    })
    datagram.set(message, mad.MAD_BODY)
    return { handshake, datagram, hasShown: false }
  }

  private draw(): KeyPair {
    const secret = new Uint8Array(KEY_BYTES)
    for (let at = 0; at < KEY_BYTES; at += 4) putU32(secret, at, this.random() >>> 0)
    return keyPairOf(primitives, secret)
  }

  private take(bytes: Uint8Array, at: number, length: number): void {
    if (mad.madFault(bytes, at, length) !== PASS) return
    const datagram = copyOf(bytes.subarray(at, at + length))
    const header = mad.blankMad()
    mad.readMad(header, datagram, 0)
    if (header.method !== mad.METHOD_RESPONSE) return
    if (mad.isSealed(datagram, 0)) this.open(datagram)
    else if (header.attribute === mad.ATTRIBUTE_HANDSHAKE) this.finish(datagram, header)
    else if (header.fault === NO_SESSION && this.isWaiting(datagram)) this.try()
  }

  private isWaiting(datagram: Uint8Array): boolean {
    const asked = this.waiting.get(u32(datagram, mad.MAD_TRANSACTION_LOW))
    return asked !== undefined && isSameTransaction(asked, datagram)
  }

  private open(datagram: Uint8Array): void {
    const id = sessionIdAt(datagram, 0)
    const seal = [this.session, this.before].find((one) => one?.id === id)
    if (!seal || !openDatagram(primitives, seal, datagram, 0)) return
    datagram[mad.MAD_VERSION] = mad.MANAGEMENT_VERSION
    this.onDatagram?.(datagram, 0, datagram.length)
  }

  /** The card's answer to the handshake that is under way. */
  private finish(datagram: Uint8Array, { fault }: mad.Mad): void {
    const { trial } = this
    if (trial === null || !isSameTransaction(trial.datagram, datagram)) return
    if (fault === COOKIE) {
      this.show(trial, datagram)
      return
    }
    if (fault !== PASS) {
      this.trial = null
      if (this.session === null) this.refuse(fault)
      else this.refused = fault
      return
    }
    const from = mad.MAD_BODY
    const second = datagram.subarray(from, from + mad.HANDSHAKE_SECOND_BYTES)
    const seal = sealOf(trial.handshake, second)
    if (seal === null) return
    this.trial = null
    this.refused = PASS
    this.before = this.session
    const session = { ...seal, sinceUs: this.now() }
    this.session = session
    for (const asked of [...this.waiting.values()]) this.seal(session, asked)
  }

  /**
   * The same first message with the cookie that the answer has: once at once, and then whenever it
   * is repeated. Who forges such answers makes us send no more than that.
   */
  private show(trial: Trial, answer: Uint8Array): void {
    const { datagram, hasShown } = trial
    const cookie = answer.subarray(mad.MAD_BODY, mad.MAD_BODY + mad.HANDSHAKE_COOKIE_BYTES)
    datagram.set(cookie, mad.MAD_BODY + mad.HANDSHAKE_COOKIE)
    trial.hasShown = true
    if (!hasShown) this.way.sendDatagram(datagram)
  }

  /** No session, and why: whoever waits for one is told so. */
  private refuse(fault: number): void {
    const asked = [...this.waiting.values()]
    this.waiting.clear()
    for (const datagram of asked) {
      const answer = copyOf(datagram)
      const header = mad.blankMad()
      mad.readMad(header, answer, 0)
      const refused = { method: mad.METHOD_RESPONSE, status: mad.STATUS_REFUSED, fault }
      mad.writeMad(answer, 0, { ...header, ...refused })
      this.onDatagram?.(answer, 0, answer.length)
    }
  }
}

/**
 * What the second message of a handshake makes at the end that began it; null where the card has
 * not made that message. The handshake stays as it was: what is forged must not spoil the one that
 * the card's own message ends.
 */
export function sealOf(handshake: Handshake, second: Uint8Array): Seal | null {
  const copy = { ...handshake }
  const payload = readSecond(copy, second)
  if (payload === null) return null
  return createSeal(u32(payload, mad.HANDSHAKE_SESSION), split(copy, true))
}

function isSameTransaction(a: Uint8Array, b: Uint8Array): boolean {
  const high = u32(a, mad.MAD_TRANSACTION_HIGH) === u32(b, mad.MAD_TRANSACTION_HIGH)
  return high && u32(a, mad.MAD_TRANSACTION_LOW) === u32(b, mad.MAD_TRANSACTION_LOW)
}
