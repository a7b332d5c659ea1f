/**
 * The other card's end of a relay's session, in the test's own hands, so that it may say whatever
 * it likes under seals that are right.
 */

import * as primitives from '../../../boards/software/noise-primitives.ts'
import {
  type Entering,
  type EnteringOptions,
  takeEntering,
} from '../../../firmware/connect/entering.ts'
import {
  keyPairOf,
  readPayload,
  readSender,
  responder,
  split,
  writeSecond,
} from '../../../firmware/session/noise.ts'
import {
  createSeal,
  openDatagram,
  PROLOGUE,
  type Seal,
  sealDatagram,
} from '../../../firmware/session/sealed.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { CARD } from './peers.ts'
import { RELAYING } from './relay-inside.ts'

export const FAR_QPN = 0x1234
export const FAR_PSN = 0x777777
export const FAR_INCARNATION = 9

type Fill = (body: Uint8Array) => void

/** A call that came, as it was asked. */
interface Asked {
  readonly attribute: number
  readonly body: Uint8Array
  /** Without the seal. */
  readonly datagram: Uint8Array
}

/** A region of 64 records. */
export const describesRegion: Fill = (body) => {
  putU32(body, mad.REGION_SLOTS, 64)
  putU32(body, mad.REGION_CAPACITY, 1000)
  body[mad.REGION_COPIES] = 2
  putU16(body, mad.REGION_DOMAIN, 5)
  putU32(body, mad.REGION_RKEY, 0xabcdef01)
}

/** A queue pair with tags. */
export const grantsPair: Fill = (body) => {
  putU32(body, mad.CONNECT_QP, FAR_QPN)
  putU32(body, mad.CONNECT_FIRST_PSN, FAR_PSN)
  putU32(body, mad.CONNECT_INCARNATION, FAR_INCARNATION)
  putU16(body, mad.CONNECT_GRANTED_MTU, 1024)
  putU16(body, mad.CONNECT_SEND_DEPTH, 64)
  putU16(body, mad.CONNECT_RECEIVE_DEPTH, 32)
  body[mad.CONNECT_TAGS] = 1
  for (let i = 0; i < mad.CONNECT_TAG_KEYS_BYTES; i++) body[mad.CONNECT_TAG_KEYS + i] = i + 1
}

export class FarEnd {
  nowUs = 0
  seal: Seal | null = null
  /** What was sent here, and is not looked at yet. */
  readonly came: Uint8Array[] = []
  entering: Entering | null = null
  private drawn = 0

  /** What the relaying end is begun with. */
  get options(): EnteringOptions {
    return {
      ...{ primitives, own: RELAYING, card: CARD.public, region: 'far' },
      draw: (length) => this.draw(length),
      send: (datagram) => this.came.push(datagram.slice()),
      ...{ qpn: 0x55, startingPsn: 0x66, pathMtu: 4096, clientHigh: 7, clientLow: 8 },
    }
  }

  private draw(length: number): Uint8Array {
    this.drawn += 1
    const bytes = new Uint8Array(length).fill(0x42)
    putU32(bytes, 0, this.drawn)
    return bytes
  }

  /** The newest datagram that came; the others are forgotten. */
  newest(): Uint8Array {
    return this.came.splice(0).at(-1)!
  }

  /** Brings it to the relaying end; the event. */
  bring(datagram: Uint8Array): number {
    return takeEntering(this.entering!, datagram, 0, this.nowUs)
  }

  /** Answers the first message: there is another session. */
  second(first: Uint8Array): Uint8Array {
    const handshake = responder(primitives, CARD, keyPairOf(primitives, this.draw(32)), PROLOGUE)
    const body = first.slice(mad.MAD_BODY, mad.MAD_BODY + 96)
    if (readSender(handshake, body) === null || readPayload(handshake, body) === null) {
      throw new Error('no first message')
    }
    const payload = new Uint8Array(mad.HANDSHAKE_PAYLOAD_BYTES)
    putU32(payload, mad.HANDSHAKE_SESSION, this.drawn)
    const message = writeSecond(handshake, payload)
    this.seal = createSeal(this.drawn, split(handshake, false))
    return answerTo(first, 0, (answer) => answer.set(message))
  }

  /** The call that the datagram is, in the session that there is. */
  opened(datagram: Uint8Array): Asked {
    const copy = datagram.slice()
    if (!openDatagram(primitives, this.seal!, copy, 0)) throw new Error('no call of this session')
    copy[mad.MAD_VERSION] = mad.MANAGEMENT_VERSION
    const body = copy.slice(mad.MAD_BODY)
    return { attribute: u16(copy, mad.MAD_ATTRIBUTE), body, datagram: copy }
  }

  /** The answer to a call, sealed. */
  sealed({ datagram }: Asked, fill: Fill, fault = 0): Uint8Array {
    const answer = answerTo(datagram, fault, fill)
    sealDatagram(primitives, this.seal!, answer, 0)
    return answer
  }
}

/** The answer to that datagram, in the clear. */
export function answerTo(asked: Uint8Array, fault: number, fill: Fill = () => {}): Uint8Array {
  const answer = asked.slice()
  const header = mad.blankMad()
  mad.readMad(header, answer, 0)
  const status = fault === 0 ? mad.STATUS_OK : mad.STATUS_REFUSED
  mad.writeMad(answer, 0, { ...header, method: mad.METHOD_RESPONSE, status, fault })
  fill(answer.subarray(mad.MAD_BODY))
  return answer
}

/** The transaction of a datagram. */
export function transactionOf(datagram: Uint8Array): string {
  return `${u32(datagram, mad.MAD_TRANSACTION_HIGH)}.${u32(datagram, mad.MAD_TRANSACTION_LOW)}`
}
