/**
 * Two cards outside this process, as an episode meets them (mirror.ts): one that is open, and one
 * with peers, where queue pairs have tags and calls are sealed.
 *
 * Invariant: at the card with peers whoever attacks has what he may have: a writer of the regions
 * that he attacks, and an admin whose calls are drawn. The honest client's region is not his.
 */

import type { Random } from '../../../../boards/emulator/base/random.ts'
import { icrcGood } from '../../../../boards/software/icrc.ts'
import { type Peer, peersText } from '../../../../boards/software/peers.ts'
import { putU16, putU32, u16, u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { Stranger, sentBy } from '../../../support/peers/strangers.ts'
import { changed, Guest, payloadAt } from '../../../support/sessions/guest.ts'
import { ADMIN, keyPair, NOBODY, peer } from '../../../support/sessions/peers.ts'
import {
  asksForTags,
  connectTagged,
  type TaggedPair,
  tagged,
  taggedPair,
} from '../../../support/sessions/tagged.ts'
import type { Sent, TestRegion } from '../../../support/wire/conversation.ts'
import { isRoce } from '../../../support/wire/frames.ts'
import { type Pair, SHAPES } from '../arena.ts'
import { bthOf } from '../guard.ts'
import { KEPT, KEPT_DOMAIN } from '../keeper.ts'
import { MTU } from '../kinds.ts'
import type { Way } from './honest.ts'
import type { Opened, Side } from './mirror.ts'

const UD = 0x64
const HONEST_CLIENT = 77
const HONEST_QP = 0x777
/** Frames of before that are kept to be sent again. */
const HISTORY = 64

/** Sends frames to the card; all that it sent by then. */
export type Ask = (frames: readonly Uint8Array[]) => Sent[]

/** A card, whoever attacks it, and its honest client. */
export interface Attacked<One extends Opened = Opened> extends Side<One> {
  /** Makes the regions, on a card that is blank. */
  provision(): void
  /** A new way of the honest client to its records. */
  way(): Way
  /** Another episode begins: whoever attacks makes what sessions he may have. */
  begin(): void
}

/** Calls are answered by this class; RDMA-CM sends its messages again whenever it likes. */
function isCall({ opcode, payload }: Sent): boolean {
  return opcode === UD && payload[1] === mad.CLASS_VENDOR
}

/** The card as conversations take it. */
function served(ask: Ask): { serve: (...frames: Uint8Array[]) => Sent[] } {
  return { serve: (...frames) => ask(frames).filter(isCall) }
}

export class OpenCard implements Attacked {
  readonly ask: Ask
  private readonly talk: Stranger
  private readonly keys: Map<string, number> = new Map()

  constructor(ask: Ask) {
    this.ask = ask
    this.talk = new Stranger(served(ask), 1)
  }

  provision(): void {
    const { talk, keys } = this
    talk.format()
    for (const [name, shape] of Object.entries(SHAPES)) {
      keys.set(name, talk.provision({ name, ...shape }).rkey)
    }
    talk.provision(KEPT)
  }

  way(): Way {
    const { ask } = this
    const talk = new Stranger(served(ask), 12)
    const region = talk.open(KEPT.name)
    const qp = { ...talk.connect(4096, KEPT_DOMAIN, HONEST_CLIENT), operation: nextOperations() }
    return { qp, region, dress: (frame) => sentBy(frame, 12), ask }
  }

  begin(): void {}

  keyOf(name: string): number {
    return this.keys.get(name)!
  }

  connect(pairs: readonly Pair[]): (Opened | null)[] {
    const frames = pairs.map((pair) => {
      const call = this.talk.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
        putU32(body, mad.CONNECT_CLIENT_QP, pair.peer)
        putU32(body, mad.CONNECT_CLIENT_ID_LOW, pair.client)
        putU16(body, mad.CONNECT_PATH_MTU, MTU)
      })
      return sentBy(call, 1, pair.ipVersion)
    })
    const answers = this.ask(frames).filter(isCall)
    return frames.map((frame) => {
      const at = payloadAt(frame) + mad.MAD_TRANSACTION_LOW
      const answer = answers.find(({ payload }) => {
        return u32(payload, mad.MAD_TRANSACTION_LOW) === u32(frame, at)
      })
      if (answer === undefined || answer.payload[mad.MAD_FAULT] !== 0) return null
      const body = answer.payload.subarray(mad.MAD_BODY)
      return { number: u32(body, mad.CONNECT_QP), psn: u32(body, mad.CONNECT_FIRST_PSN) }
    })
  }

  dress(frame: Uint8Array): Uint8Array {
    return frame
  }
}

/** Whoever attacks from within, and the honest client. */
const WRITER = keyPair(21)
const INSIDER = keyPair(22)
const HONEST = keyPair(23)

/** Who may come to the card with peers. */
export function peersOfClosed(): string {
  const names = Object.keys(SHAPES).filter((name) => name !== 'foreign')
  const peers = [
    peer('admin', ADMIN, { admin: true }),
    peer('insider', INSIDER, { admin: true }),
    peer('writer', WRITER, { write: names }),
    peer('honest', HONEST, { write: [KEPT.name!] }),
  ]
  return peersText(peers.map((one): Peer => ({ ...one, key: Uint8Array.from(one.key) })))
}

interface Tagged extends Opened {
  readonly pair: TaggedPair
}

export class ClosedCard implements Attacked<Tagged> {
  readonly ask: Ask
  private readonly cardKey: Uint8Array
  private readonly random: Random
  private readonly keys: Map<string, number> = new Map()
  private readonly writer: Guest
  private readonly insider: Guest
  private readonly nobody: Guest
  private readonly history: Uint8Array[] = []
  private last: TaggedPair | null = null

  constructor(ask: Ask, cardKey: Uint8Array, random: Random) {
    this.ask = ask
    this.cardKey = cardKey
    this.random = random
    const guest = (keys: typeof WRITER): Guest => new Guest(served(ask), keys, 1, cardKey)
    this.writer = guest(WRITER)
    this.insider = guest(INSIDER)
    this.nobody = guest(NOBODY)
  }

  provision(): void {
    const admin = new Guest(served(this.ask), ADMIN, 13, this.cardKey).enter()
    admin.format()
    for (const [name, shape] of Object.entries(SHAPES)) {
      this.keys.set(name, admin.provision({ name, ...shape }).rkey)
    }
    admin.provision(KEPT)
  }

  way(): Way {
    const { ask } = this
    const guest = new Guest(served(ask), HONEST, 12, this.cardKey).enter()
    const asking = { peer: HONEST_QP, client: HONEST_CLIENT, mtu: 4096, domain: KEPT_DOMAIN }
    const pair = connectTagged(guest, asking)
    const region: TestRegion = guest.open(KEPT.name)
    const qp = { ...pair.qp, operation: nextOperations() }
    return { qp, region, dress: (frame) => tagged(sentBy(frame, 12), pair.tags), ask }
  }

  begin(): void {
    this.writer.shake()
    this.insider.shake()
  }

  keyOf(name: string): number {
    return this.keys.get(name)!
  }

  connect(pairs: readonly Pair[]): (Tagged | null)[] {
    const made = this.connectOnce(pairs)
    if (!made.includes(null)) return made
    // The session may be over.
    this.writer.shake()
    return this.connectOnce(pairs)
  }

  private connectOnce(pairs: readonly Pair[]): (Tagged | null)[] {
    const { writer } = this
    const frames = pairs.map((pair) => {
      const asking = { peer: pair.peer, client: pair.client, mtu: MTU }
      return writer.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, asksForTags(asking))
    })
    const answers = writer.answersOf(writer.serve(...frames))
    return pairs.map((pair, i) => {
      const answer = answers.length === pairs.length ? answers[i]! : null
      if (answer === null || answer.fault !== 'PASS') return null
      const made = taggedPair(answer.body, { peer: pair.peer, mtu: MTU })
      return { number: made.qp.number, psn: made.qp.psn, pair: made }
    })
  }

  /** Over IPv6 nobody makes a tag, here: what comes so is refused. */
  dress(frame: Uint8Array, one: Tagged | null): Uint8Array {
    if (!icrcGood(frame, 0, frame.length) || !isRoce(frame) || frame[12] !== 8) return frame
    if (u16(frame, 16) !== frame.length - 14) return frame
    if (one !== null) return this.again(this.tag(frame, one.pair))
    const bth = bthOf(frame, 0)
    const isCalling = frame[bth] === UD && frame.length === bth + 20 + mad.MAD_BYTES + 4
    return isCalling ? this.again(this.seal(frame)) : frame
  }

  /** A tag; or none, that of another queue pair, or a damaged one. */
  private tag(frame: Uint8Array, pair: TaggedPair): Uint8Array {
    const { random, last } = this
    this.last = pair
    const what = random.below(64)
    if (what === 0) return frame
    const made = tagged(frame, what === 1 && last !== null ? last.tags : pair.tags)
    return what === 2 ? this.damaged(made, 28) : made
  }

  /** A sealed call of one or the other; or in the clear, damaged, or to make a session. */
  private seal(frame: Uint8Array): Uint8Array {
    const { random, writer, insider, nobody } = this
    const what = random.below(20)
    if (what < 2) return frame
    if (what === 2) return this.damaged(nobody.firstMessage().frame, mad.MAD_BYTES)
    if (what === 3) return this.damaged(writer.firstMessage().frame, mad.MAD_BYTES)
    const guest = what < 9 ? writer : insider
    if (guest.seal === null) return frame
    const named = changed(frame, (payload) => {
      if (u16(payload, mad.MAD_ATTRIBUTE) !== mad.ATTRIBUTE_CONNECT) return
      putU32(payload, mad.MAD_BODY + mad.CONNECT_CLIENT_ID_HIGH, guest.tag)
    })
    const made = guest.sealed(named)
    return what === 4 ? this.damaged(made, mad.MAD_BYTES) : made
  }

  /** A bit of the last so many bytes in front of the check code is another one, which is right. */
  private damaged(frame: Uint8Array, bytes: number): Uint8Array {
    const { random } = this
    return changed(frame, (payload) => {
      payload[payload.length - 1 - random.below(bytes)]! ^= 1 << random.below(8)
    })
  }

  /** Now and then a frame of before in its place. */
  private again(frame: Uint8Array): Uint8Array {
    const { random, history } = this
    const i = random.below(HISTORY)
    if (random.below(16) === 0) history[i] = frame
    return random.below(24) === 0 ? (history[i] ?? frame) : frame
  }
}

let honestOperations = 0

/** Where the operations of the honest client go on: none of them is named twice. */
function nextOperations(): number {
  honestOperations += 1_000_000
  return honestOperations
}
