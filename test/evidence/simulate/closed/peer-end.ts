/**
 * The end of a session that a simulated host has, and the operator: the handshake, what is sealed
 * in it, and the tags of its queue pair.
 *
 * Invariants:
 * - What is believed came from the card: each answer that opens, and each packet whose tag is good,
 *   is one that the card was seen to send, and is believed once. Anything else is told to `blame`.
 * - A card answers no sealed call that was not made, however often the call comes.
 * - No two connections send under one key: each counts its packets from 0.
 */

import type { Random } from '../../../../boards/emulator/base/random.ts'
import * as primitives from '../../../../boards/software/noise-primitives.ts'
import { Tags } from '../../../../boards/software/tags.ts'
import {
  type Handshake,
  initiator,
  type KeyPair,
  keyPairOf,
  writeFirst,
} from '../../../../firmware/session/noise.ts'
import {
  openDatagram,
  PROLOGUE,
  type Seal,
  sealDatagram,
} from '../../../../firmware/session/sealed.ts'
import { sealOf } from '../../../../host-driver/control/sealed-way.ts'
import { tagged } from '../../../support/sessions/tagged.ts'
import { DATAGRAM, get16, get32, seal } from '../frames.ts'

/** A control call begins here, its version and its body. */
const CALL_AT = 62
const VERSION_AT = CALL_AT + 28
const BODY_AT = CALL_AT + 32
const SEALED = 2
const HANDSHAKE = 0x80
const ATTRIBUTE_AT = CALL_AT + 16
const FAULT_AT = CALL_AT + 29
/** Second message of the handshake. */
const SECOND_BYTES = 60
const KEY_BYTES = 32
/** A first message, the cookie behind it, and the refusal that asks for one. */
const FIRST_BYTES = 96
const COOKIE_BYTES = 16
const COOKIE = 121
const TRAILER_BYTES = 24
const ICRC_BYTES = 4
const TAG_BYTES = 16
const OPCODE_AT = 42
/** Where the tag of a sealed body stands in it. */
const SEAL_AT = 196
/** And the id of its session. */
const SESSION_AT = 212

/** What tells a frame from every other: a word of its tag, or of that of its seal. */
function nameOf(frame: Uint8Array): number {
  const isCall = frame[OPCODE_AT] === DATAGRAM
  return get32(frame, isCall ? BODY_AT + SEAL_AT : frame.length - ICRC_BYTES - TAG_BYTES)
}

function isSealed(frame: Uint8Array): boolean {
  return frame[VERSION_AT] === SEALED
}

/** Attribute and transaction: of a call as of its answer. */
function callOf(frame: Uint8Array): number {
  return get16(frame, ATTRIBUTE_AT) * 2 ** 32 + get32(frame, CALL_AT + 12)
}

/** Is it what a card says in the clear to the first message of a handshake? */
function isOfHandshake(frame: Uint8Array): boolean {
  return !isSealed(frame) && get16(frame, ATTRIBUTE_AT) === HANDSHAKE
}

/** Frames that the card has sent to somebody, and that he has not believed yet. */
class Heard {
  private readonly names: Set<number> = new Set()

  add(frame: Uint8Array): void {
    this.names.add(nameOf(frame))
  }

  /** Was it sent, and is it believed for the first time? */
  take(frame: Uint8Array): boolean {
    return this.names.delete(nameOf(frame))
  }
}

/** The keys of a queue pair's packets, of one end. */
export class TagEnd {
  readonly heard: Heard = new Heard()
  private readonly tags: Tags
  private readonly begins: () => void
  private hasBegun = false

  /**
   * As CONNECT tells them: of what the client sends, and of what the card does. `begins` is called
   * before the first packet.
   */
  constructor(keys: Uint8Array, begins: () => void) {
    this.tags = new Tags(keys.slice(KEY_BYTES, 2 * KEY_BYTES), keys.slice(0, KEY_BYTES))
    this.begins = begins
  }

  /** The frame with its trailer. */
  tag(frame: Uint8Array): Uint8Array {
    if (!this.hasBegun) this.begins()
    this.hasBegun = true
    return tagged(frame, this.tags)
  }

  /** The frame without its trailer, and with no ICRC; null where the tag is not good. */
  open(frame: Uint8Array, blame: (what: string) => void): Uint8Array | null {
    if (!this.tags.take(frame, 0, frame.length)) return null
    if (!this.heard.take(frame)) blame('a client believes a packet that its card did not send')
    return frame.subarray(0, frame.length - TRAILER_BYTES)
  }
}

export class PeerEnd {
  readonly heard: Heard = new Heard()
  private readonly keys: KeyPair
  private readonly cardKey: Uint8Array
  private readonly random: Random
  private handshake: Handshake | null = null
  private message: Uint8Array | null = null
  private session: Seal | null = null
  /** Sealed calls that were made and not answered, by what stands in their headers. */
  private readonly calls: Map<number, number> = new Map()
  /** Keys under which one of its connections has sent. */
  private readonly used: Set<string> = new Set()

  constructor(keys: KeyPair, cardKey: Uint8Array, random: Random) {
    this.keys = keys
    this.cardKey = cardKey
    this.random = random
  }

  /** The session is over, as far as this end goes. */
  leave(): void {
    this.session = null
    this.handshake = null
    this.message = null
  }

  get isIn(): boolean {
    return this.session !== null
  }

  /** The keys of another connection, as CONNECT tells them. */
  tagEnd(keys: Uint8Array, blame: (what: string) => void): TagEnd {
    return new TagEnd(keys, () => {
      const name = keys.join()
      if (this.used.has(name)) blame('two packets of a client have one counter and one key')
      this.used.add(name)
    })
  }

  /** The first message of a handshake, with its cookie; the same again until there is a session. */
  hello(): Uint8Array {
    if (this.message !== null) return this.message
    const secret = new Uint8Array(KEY_BYTES)
    this.random.fill(secret, 0, KEY_BYTES)
    const ephemeral = keyPairOf(primitives, secret)
    this.handshake = initiator(primitives, this.keys, ephemeral, this.cardKey, PROLOGUE)
    this.message = new Uint8Array(FIRST_BYTES + COOKIE_BYTES)
    this.message.set(writeFirst(this.handshake, new Uint8Array(0))!)
    return this.message
  }

  /** Seals a call that is complete but for its ICRC, in place. */
  seal(frame: Uint8Array): Uint8Array {
    sealDatagram(primitives, this.session!, frame, CALL_AT)
    this.calls.set(callOf(frame), (this.calls.get(callOf(frame)) ?? 0) + 1)
    return seal(frame)
  }

  /** The card sent this, to whatever address: what is wrong with it, or null. */
  sees(frame: Uint8Array): string | null {
    if (!isSealed(frame) || get32(frame, BODY_AT + SESSION_AT) !== this.session?.id) return null
    this.heard.add(frame)
    const left = (this.calls.get(callOf(frame)) ?? 0) - 1
    this.calls.set(callOf(frame), left)
    return left < 0 ? 'a card answers a sealed call more often than it was made' : null
  }

  /** The answer that came, opened; null for what is not to be believed, or begins the session. */
  open(frame: Uint8Array, blame: (what: string) => void): Uint8Array | null {
    if (!isSealed(frame)) {
      if (this.message !== null && isOfHandshake(frame)) this.answered(this.message, frame)
      return null
    }
    if (this.session === null) return null
    const copy = frame.slice()
    if (!openDatagram(primitives, this.session, copy, CALL_AT)) return null
    if (!this.heard.take(frame)) blame('a peer believes an answer that its card did not send')
    return copy
  }

  private answered(message: Uint8Array, frame: Uint8Array): void {
    if (frame[FAULT_AT] === 0) this.begin(frame)
    else if (frame[FAULT_AT] === COOKIE) {
      message.set(frame.subarray(BODY_AT, BODY_AT + COOKIE_BYTES), FIRST_BYTES)
    }
  }

  private begin(frame: Uint8Array): void {
    const session = sealOf(this.handshake!, frame.slice(BODY_AT, BODY_AT + SECOND_BYTES))
    if (session === null) return
    this.session = session
    this.message = null
  }
}
