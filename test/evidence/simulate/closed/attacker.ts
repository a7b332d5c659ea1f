/**
 * Somebody inside the network, who reads and writes every frame (Dolev and Yao 1983): he drops,
 * repeats, changes, and composes from all that he has seen, in every life of every card. He has no
 * key of anybody.
 *
 * Invariants:
 * - All that he sends has a right ICRC and right lengths: nothing but tags and seals tells it from
 *   what the others send.
 * - What he does follows from his own generator, which each step of a script gives him anew.
 */

import type { Random } from '../../../../boards/emulator/base/random.ts'
import { DATAGRAM, get16, get24, get32, put16, put24, put32, seal } from '../frames.ts'
import type { Intruder, Lane } from '../network.ts'

/** What he does, by name: the cells of the stage. */
export const ATTACKS = [
  'strip', // the tag is taken away
  'change', // a bit or a few, anywhere behind UDP
  'again', // what went here before, as it was
  'ahead', // PSN and counter of what will come
  'aside', // to another queue pair
  'splice', // the head of one, the rest of another
  'reflect', // what went the other way
  'retag', // the tag of another
  'call', // a control call in the clear
  'knock', // a first message of a handshake
  'promise', // an answer that says durable
  'refuse', // an answer that refuses a call, in the clear
  'welcome', // a second message of a handshake
  'flood', // many of these at once
  'swallow', // nothing arrives at a queue pair from its first packet on, for a while
] as const

type Attack = (typeof ATTACKS)[number]

const BOTH = ['change', 'again', 'aside', 'splice', 'reflect'] as const
const TO_CARD: readonly Attack[] = [...BOTH, 'strip', 'ahead', 'retag', 'call', 'knock', 'flood']
const TO_HOST: readonly Attack[] = [...BOTH, 'strip', 'ahead', 'retag', 'promise', 'flood']
const CALLS: readonly Attack[] = [...BOTH, 'call', 'knock', 'flood']
const ANSWERS: readonly Attack[] = [...BOTH, 'refuse', 'welcome', 'flood']
/** Of what one card says to another: he meets both directions at a card. The last one is many. */
const TO_OTHER: readonly Attack[] = [...BOTH, 'strip', 'ahead', 'retag', 'promise', ...TO_CARD]
const CALLS_OF_CARDS: readonly Attack[] = [...BOTH, 'refuse', 'welcome', ...CALLS]

/** He meets one frame in so many. */
const SHARE = 6
/** Frames of each lane that he keeps: the last ones, and some of all times. */
const KEPT = 48
const OLD = 16
const FLOOD = 24
/** Of so many queue pairs one hears nothing of its first packets, so many. */
const SILENT_SHARE = 8
const SWALLOWED = 40

/** Third byte of the address that a frame is from: 0 of cards, 1 of hosts. */
const FROM_CARDS_AT = 28
const ETHERTYPE_AT = 12
const IPV4 = 0x0800
/** Where things stand in what follows UDP. */
const BTH_AT = 42
const ICRC_BYTES = 4
const TRAILER_BYTES = 24
const QUEUE_PAIR = 5
const PSN = 9
const BTH_BYTES = 12
const SYNDROME = 12
const STATUS = 18
const LAST_PSN = 25
const PAETH_END = 48
const CALL_AT = 20
/** Faults of sessions stand beside each other, from OPEN_CARD to COOKIE. */
const SESSION_FAULT = 114
const SESSION_FAULTS = 8
const METHOD = CALL_AT + 3
const ATTRIBUTE = CALL_AT + 16
const VERSION = CALL_AT + 28
const FAULT = CALL_AT + 29
const BODY = CALL_AT + 32
const ANSWER = 0x81
const HANDSHAKE = 0x80
const HANDSHAKE_BYTES = 96

/** Control calls that would be worth something: method and attribute. */
const WORTH: readonly (readonly [number, number])[] = [
  [2, 0x11], // FORMAT
  [2, 0x12], // PROVISION
  [1, 0x13], // OPEN
  [2, 0x15], // REMOVE
  [2, 0x20], // CONNECT
  [2, 0x21], // DISCONNECT
  [2, 0x32], // SCAN
  [2, 0x33], // SETTLE
  [1, 0x30], // REPORT
  [1, 0x34], // FIGURES
  [2, 0x35], // HEALTH
]

/** Others, where cards relay to each other. */
const WORTH_RELAYS: readonly (readonly [number, number])[] = [
  ...WORTH,
  [2, 0x41], // ATTACH
  [2, 0x42], // DETACH
  [2, 0x82], // ADD_PEER
  [2, 0x83], // REMOVE_PEER
]

/** What he has of a lane. */
interface Seen {
  readonly last: Uint8Array[]
  readonly old: Uint8Array[]
  count: number
}

function bodyOf(frame: Uint8Array): Uint8Array {
  return frame.slice(BTH_AT, frame.length - ICRC_BYTES)
}

/** What stands in front of BTH in `model`, and that body, with the lengths and sums of both. */
function framed(model: Uint8Array, body: Uint8Array): Uint8Array {
  const frame = new Uint8Array(BTH_AT + body.length + ICRC_BYTES)
  frame.set(model.subarray(0, BTH_AT))
  frame.set(body, BTH_AT)
  put16(frame, 16, frame.length - 14)
  put16(frame, 38, frame.length - 34)
  put16(frame, 24, 0)
  let sum = 0
  for (let at = 14; at < 34; at += 2) sum += get16(frame, at)
  sum = (sum & 0xffff) + (sum >>> 16)
  put16(frame, 24, ~((sum & 0xffff) + (sum >>> 16)))
  return seal(frame)
}

export class Attacker implements Intruder {
  readonly counts: Record<Attack, number>
  private readonly seen: Map<Lane, Seen> = new Map()
  /** Packets that are still swallowed, of each queue pair of a card. */
  private readonly swallowed: Map<number, number> = new Map()
  private random: Random
  private readonly worth: readonly (readonly [number, number])[]

  constructor(random: Random, relays: boolean) {
    this.random = random
    this.worth = relays ? WORTH_RELAYS : WORTH
    this.counts = Object.fromEntries(ATTACKS.map((name) => [name, 0])) as Record<Attack, number>
  }

  reseed(random: Random): void {
    this.random = random
  }

  meet(to: Lane, frame: Uint8Array): void {
    const { random } = this
    // Who looks for an address finds it.
    if (get16(frame, ETHERTYPE_AT) !== IPV4) {
      to.frames.push(frame)
      return
    }
    this.overhear(to, frame)
    if (this.swallows(to, frame)) return
    if (random.below(SHARE) !== 0 || frame.length < BTH_AT + BTH_BYTES + ICRC_BYTES) {
      to.frames.push(frame)
      return
    }
    const forged = this.attack(to, frame)
    // In front of it, behind it, or in its place.
    const how = random.below(5)
    if (how < 2) to.frames.push(...forged, frame)
    else if (how < 4) to.frames.push(frame, ...forged)
    else to.frames.push(...forged)
  }

  private swallows(to: Lane, frame: Uint8Array): boolean {
    if (!to.takesDamaged || isDatagram(frame)) return false
    const number = get24(frame, BTH_AT + QUEUE_PAIR)
    let left = this.swallowed.get(number)
    if (left === undefined) {
      left = this.random.below(SILENT_SHARE) === 0 ? SWALLOWED : 0
      if (left > 0) this.counts.swallow += 1
    }
    this.swallowed.set(number, Math.max(0, left - 1))
    return left > 0
  }

  overhear(to: Lane, frame: Uint8Array): void {
    const { random } = this
    let seen = this.seen.get(to)
    if (seen === undefined) {
      seen = { last: [], old: [], count: 0 }
      this.seen.set(to, seen)
    }
    if (random.below(4) !== 0 && frame[BTH_AT] !== DATAGRAM) return
    const copy = frame.slice()
    seen.last[seen.count % KEPT] = copy
    seen.count += 1
    const place = random.below(seen.count)
    if (seen.old.length < OLD) seen.old.push(copy)
    else if (place < OLD) seen.old[place] = copy
  }

  private attack(to: Lane, frame: Uint8Array): Uint8Array[] {
    const kinds = this.kindsFor(to, frame)
    const kind = kinds[this.random.below(kinds.length)]!
    this.counts[kind] += 1
    if (kind !== 'flood') return [this.forge(kind, to, frame)]
    return Array.from({ length: FLOOD }, () => {
      const one = kinds[this.random.below(kinds.length - 1)]!
      return this.forge(one, to, frame)
    })
  }

  private kindsFor(to: Lane, frame: Uint8Array): readonly Attack[] {
    if (to.takesDamaged && isFromCard(frame)) {
      return frame[BTH_AT] === DATAGRAM ? CALLS_OF_CARDS : TO_OTHER
    }
    if (frame[BTH_AT] === DATAGRAM) return to.takesDamaged ? CALLS : ANSWERS
    return to.takesDamaged ? TO_CARD : TO_HOST
  }

  private forge(kind: Attack, to: Lane, frame: Uint8Array): Uint8Array {
    switch (kind) {
      case 'again':
        return this.kept(to) ?? frame
      case 'aside':
        return this.aside(to, frame)
      case 'splice':
        return this.spliced(frame, this.kept(to) ?? frame)
      case 'reflect':
        return this.reflected(to, frame)
      case 'retag':
        return this.retagged(frame, this.kept(to) ?? frame)
      case 'strip':
        return this.stripped(frame)
      case 'ahead':
        return this.ahead(frame)
      case 'call':
        return this.called(to, frame)
      case 'knock':
        return this.knocked(to, frame)
      case 'promise':
        return this.promised(to, frame)
      case 'refuse':
        return this.refused(frame)
      case 'welcome':
        return this.welcomed(frame)
      default:
        return this.changed(frame)
    }
  }

  /** One of those that went there, from now or from long ago; null if there was none. */
  private kept(to: Lane, isMeant: (frame: Uint8Array) => boolean = () => true): Uint8Array | null {
    const { random } = this
    const seen = this.seen.get(to)
    if (seen === undefined) return null
    const among = (random.chance(0.7) ? seen.last : seen.old).filter(isMeant)
    return among.length === 0 ? null : among[random.below(among.length)]!
  }

  private changed(frame: Uint8Array): Uint8Array {
    const { random } = this
    const body = bodyOf(frame)
    for (let i = random.below(3); i >= 0; i--)
      body[random.below(body.length)]! ^= 1 << random.below(8)
    return framed(frame, body)
  }

  private stripped(frame: Uint8Array): Uint8Array {
    const body = bodyOf(frame)
    if (body.length < BTH_BYTES + TRAILER_BYTES) return this.changed(frame)
    return framed(frame, body.subarray(0, body.length - TRAILER_BYTES))
  }

  private ahead(frame: Uint8Array): Uint8Array {
    const { random } = this
    const body = bodyOf(frame)
    if (body.length < BTH_BYTES + TRAILER_BYTES) return this.changed(frame)
    const counter = body.length - TRAILER_BYTES + 4
    put24(body, PSN, get24(body, PSN) + random.below(4))
    put32(body, counter, get32(body, counter) + random.below(300))
    return framed(frame, body)
  }

  private aside(to: Lane, frame: Uint8Array): Uint8Array {
    const body = bodyOf(frame)
    put24(body, QUEUE_PAIR, get24(this.kept(to) ?? frame, BTH_AT + QUEUE_PAIR))
    return framed(frame, body)
  }

  private spliced(frame: Uint8Array, other: Uint8Array): Uint8Array {
    const [head, rest] = this.random.chance(0.5) ? [frame, other] : [other, frame]
    const at = this.random.below(Math.min(head.length, rest.length) - BTH_AT - ICRC_BYTES)
    return framed(
      frame,
      new Uint8Array([...bodyOf(head).subarray(0, at), ...bodyOf(rest).subarray(at)]),
    )
  }

  private reflected(to: Lane, frame: Uint8Array): Uint8Array {
    const isOther = (lane: Lane): boolean =>
      isFromCard(frame) && to.takesDamaged ? lane !== to : lane.takesDamaged !== to.takesDamaged
    const others = [...this.seen.keys()].filter(isOther)
    if (others.length === 0) return this.changed(frame)
    const other = this.kept(others[this.random.below(others.length)]!)
    if (other === null) return this.changed(frame)
    const body = bodyOf(other)
    put24(body, QUEUE_PAIR, get24(frame, BTH_AT + QUEUE_PAIR))
    return framed(frame, body)
  }

  private retagged(frame: Uint8Array, other: Uint8Array): Uint8Array {
    const [body, from] = [bodyOf(frame), bodyOf(other)]
    if (Math.min(body.length, from.length) < BTH_BYTES + TRAILER_BYTES) return this.changed(frame)
    body.set(from.subarray(from.length - TRAILER_BYTES), body.length - TRAILER_BYTES)
    return framed(frame, body)
  }

  /** In the name of whoever sent `frame`, as if the card were open. */
  private called(to: Lane, frame: Uint8Array): Uint8Array {
    const { random } = this
    const model = this.kept(to, isDatagram)
    if (model === null) return this.changed(frame)
    const body = bodyOf(model)
    const [method, attribute] = this.worth[random.below(this.worth.length)]!
    body[METHOD] = method
    put16(body, ATTRIBUTE, attribute)
    body[VERSION] = random.chance(0.8) ? 1 : 2
    if (random.chance(0.5)) body.fill(0, BODY)
    else random.fill(body, BODY, random.below(64))
    return framed(model, body)
  }

  /** A first message of somebody, perhaps of long ago, whole or changed, or no message at all. */
  private knocked(to: Lane, frame: Uint8Array): Uint8Array {
    const { random } = this
    const model = this.kept(to, isKnock) ?? this.kept(to, isDatagram)
    if (model === null) return this.changed(frame)
    if (random.chance(0.4)) return model
    const body = bodyOf(model)
    body[VERSION] = 1
    put16(body, ATTRIBUTE, HANDSHAKE)
    if (random.chance(0.5)) body[BODY + random.below(HANDSHAKE_BYTES)]! ^= 1 << random.below(8)
    else random.fill(body, BODY, HANDSHAKE_BYTES)
    return framed(model, body)
  }

  /** That all is durable, up to what was not sent yet. */
  private promised(to: Lane, frame: Uint8Array): Uint8Array {
    const { random } = this
    const model = this.kept(to, saysDurable) ?? frame
    const body = bodyOf(model)
    put24(body, QUEUE_PAIR, get24(frame, BTH_AT + QUEUE_PAIR))
    const psn = get24(frame, BTH_AT + PSN) + random.below(16)
    put24(body, PSN, psn)
    body[SYNDROME] = 0x1f
    if (body.length >= PAETH_END) {
      body[STATUS] = 0
      put24(body, LAST_PSN, psn)
    }
    return framed(frame, body)
  }

  private refused(frame: Uint8Array): Uint8Array {
    const body = bodyOf(frame)
    body[METHOD] = ANSWER
    body[VERSION] = 1
    body[FAULT] = SESSION_FAULT + this.random.below(SESSION_FAULTS)
    return framed(frame, body)
  }

  private welcomed(frame: Uint8Array): Uint8Array {
    const body = bodyOf(frame)
    body[METHOD] = ANSWER
    body[VERSION] = 1
    body[FAULT] = 0
    put16(body, ATTRIBUTE, HANDSHAKE)
    this.random.fill(body, BODY, HANDSHAKE_BYTES)
    return framed(frame, body)
  }
}

function isFromCard(frame: Uint8Array): boolean {
  return frame[FROM_CARDS_AT] === 0
}

function isDatagram(frame: Uint8Array): boolean {
  return frame[BTH_AT] === DATAGRAM
}

function isKnock(frame: Uint8Array): boolean {
  return isDatagram(frame) && get16(frame, BTH_AT + ATTRIBUTE) === HANDSHAKE
}

function saysDurable(frame: Uint8Array): boolean {
  return frame[BTH_AT] === 0xd1
}
