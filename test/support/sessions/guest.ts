/**
 * A peer's side of a conversation with a card, frame by frame and without the driver: the
 * handshake, and calls that are sealed in the session which it made. Whoever attacks has each frame
 * in his hands.
 *
 * Invariants:
 * - Without a session a guest speaks in the clear; in one it believes what the card has sealed, and
 *   NO_SESSION.
 * - Keys that are drawn for one handshake come from a count: no two handshakes of a run are alike.
 */

import * as primitives from '../../../boards/software/noise-primitives.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  type Handshake,
  initiator,
  type KeyPair,
  keyPairOf,
  writeFirst,
} from '../../../firmware/session/noise.ts'
import {
  clientTag,
  openDatagram,
  PROLOGUE,
  type Seal,
  sealDatagram,
} from '../../../firmware/session/sealed.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { sealOf } from '../../../host-driver/control/sealed-way.ts'
import { Conversation, type Sent, type TestCard } from '../cards/test-card.ts'
import { sentBy } from '../peers/strangers.ts'
import { writeIcrc } from '../wire/frames.ts'
import { CARD } from './peers.ts'

type Fill = (body: Uint8Array) => void

/** What came back of a call. */
interface Answer {
  readonly fault: string
  readonly body: Uint8Array
  readonly isSealed: boolean
}

/** A first message on its way: who has `handshake` can read the answer. */
interface FirstMessage {
  readonly handshake: Handshake
  readonly frame: Uint8Array
}

let drawn = 0
/** The upper half of the transactions of a new guest: no two have one alike, wherever they are. */
let speakers = 0

function drawPair(): KeyPair {
  drawn += 1
  const secret = new Uint8Array(32).fill(0x77)
  putU32(secret, 0, drawn)
  return keyPairOf(primitives, secret)
}

/** Where the 256 bytes of a call begin in its frame. */
export function payloadAt(frame: Uint8Array): number {
  return frame.length - ICRC_BYTES - mad.MAD_BYTES
}

/** The frame with another content; the ICRC is right. */
export function changed(frame: Uint8Array, change: (payload: Uint8Array) => void): Uint8Array {
  const copy = frame.slice()
  change(copy.subarray(payloadAt(copy), copy.length - ICRC_BYTES))
  writeIcrc(copy)
  return copy
}

export class Guest extends Conversation {
  readonly keys: KeyPair
  /** Upper half of the ids of its clients. */
  readonly tag: number
  seal: Seal | null = null
  /** Serves frames as if this machine had sent them, in one burst. */
  readonly serve: (...frames: Uint8Array[]) => Sent[]
  private readonly cardKey: Uint8Array
  private readonly speaker: number

  /** The machine 10.0.0.last with those keys. */
  constructor(
    card: Pick<TestCard, 'serve'>,
    keys: KeyPair,
    last = 1,
    cardKey: Uint8Array = CARD.public,
  ) {
    const serve = (...frames: Uint8Array[]): Sent[] =>
      card.serve(...frames.map((frame) => sentBy(frame, last)))
    super(serve)
    this.serve = serve
    this.keys = keys
    this.tag = clientTag(primitives, keys.public)
    this.cardKey = cardKey
    speakers += 1
    this.speaker = speakers
  }

  override callFrame(...call: Parameters<Conversation['callFrame']>): Uint8Array {
    return changed(super.callFrame(...call), (payload) => {
      putU32(payload, mad.MAD_TRANSACTION_HIGH, this.speaker)
    })
  }

  /** The first message of another handshake. */
  firstMessage(): FirstMessage {
    const handshake = initiator(primitives, this.keys, drawPair(), this.cardKey, PROLOGUE)
    const message = writeFirst(handshake, new Uint8Array(0))!
    const fill: Fill = (body) => body.set(message)
    return { handshake, frame: this.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_HANDSHAKE, fill) }
  }

  /** Reads the answer to that first message: the fault, or PASS and there is another session. */
  finish({ handshake }: FirstMessage, sent: readonly Sent[]): string {
    const answer = clearAnswer(sent)
    if (answer === null) return 'UNANSWERED'
    if (answer.fault !== 'PASS') return answer.fault
    const seal = sealOf(handshake, answer.body.slice(0, mad.HANDSHAKE_SECOND_BYTES))
    if (seal === null) return 'FORGED'
    this.seal = seal
    return 'PASS'
  }

  /** Makes a session; PASS, or why there is none. */
  shake(): string {
    const first = this.firstMessage()
    return this.finish(first, this.serve(first.frame))
  }

  /** As `shake`; throws where there is no session. */
  enter(): this {
    const fault = this.shake()
    if (fault !== 'PASS') throw new Error(`the handshake: ${fault}`)
    return this
  }

  /** The frame of one sealed call. */
  sealedFrame(method: number, attribute: number, fill: Fill = () => {}, modifier = 0): Uint8Array {
    return this.sealed(this.callFrame(method, attribute, this.named(attribute, fill), modifier))
  }

  /** That call, sealed: with a counter of its own each time. */
  sealed(frame: Uint8Array): Uint8Array {
    const { seal } = this
    return changed(frame, (payload) => sealDatagram(primitives, seal!, payload, 0))
  }

  /** A client of this peer has its tag, unless the call says another one. */
  private named(attribute: number, fill: Fill): Fill {
    return (body) => {
      if (attribute === mad.ATTRIBUTE_CONNECT) putU32(body, mad.CONNECT_CLIENT_ID_HIGH, this.tag)
      fill(body)
    }
  }

  /** What the card has sealed for us among what it sent, or refused in the clear; or null. */
  answerOf(sent: readonly Sent[]): Answer | null {
    for (const { opcode, payload } of sent) {
      if (opcode !== UD_SEND_ONLY) continue
      const copy = payload.slice()
      const isSealed = mad.isSealed(copy, 0)
      if (!isSealed && copy[mad.MAD_FAULT] === 0) continue
      if (isSealed && !(this.seal !== null && openDatagram(primitives, this.seal, copy, 0)))
        continue
      return { ...read(copy), isSealed }
    }
    return null
  }

  /** Every answer that opens, in a burst of several. */
  answersOf(sent: readonly Sent[]): Answer[] {
    return sent.flatMap((one) => this.answerOf([one]) ?? [])
  }

  override manage(
    method: number,
    attribute: number,
    fill: Fill = () => {},
    modifier = 0,
  ): { fault: string; body: Uint8Array } {
    if (this.seal === null) {
      return super.manage(method, attribute, this.named(attribute, fill), modifier)
    }
    const answer = this.answerOf(this.serve(this.sealedFrame(method, attribute, fill, modifier)))
    if (answer === null) throw new Error('the sealed call was not answered')
    return answer
  }

  /** As somebody who has no session. */
  inTheClear(
    method: number,
    attribute: number,
    fill: Fill = () => {},
    modifier = 0,
  ): Answer | null {
    return clearAnswer(this.serve(this.callFrame(method, attribute, fill, modifier)))
  }
}

function read(payload: Uint8Array): { fault: string; body: Uint8Array } {
  const header = mad.blankMad()
  mad.readMad(header, payload, 0)
  return { fault: FAULTS[header.fault]!.name, body: payload.slice(mad.MAD_BODY) }
}

/** The first answer in the clear. */
export function clearAnswer(sent: readonly Sent[]): Answer | null {
  const found = sent.find(
    ({ opcode, payload }) => opcode === UD_SEND_ONLY && !mad.isSealed(payload, 0),
  )
  return found === undefined ? null : { ...read(found.payload), isSealed: false }
}
