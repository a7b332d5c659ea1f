/**
 * The path between the driver's control calls and a card, in an attacker's hands: each datagram
 * passes, or what he makes of it. Its clock is moved by whoever waits.
 *
 * Invariant: nothing is delivered from inside `sendDatagram`.
 */

import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { Calls, type DatagramWay } from '../../../host-driver/control/calls.ts'
import { Management } from '../../../host-driver/control/management.ts'
import { SealedWay } from '../../../host-driver/control/sealed-way.ts'
import type { TestCard } from '../cards/test-card.ts'
import { sentBy } from '../peers/strangers.ts'
import { frameOf } from '../wire/frames.ts'
import type { Guest } from './guest.ts'
import { CARD } from './peers.ts'

/** What becomes of a datagram on the path. */
type Fate = (datagram: Uint8Array) => Uint8Array[]

const passes: Fate = (datagram) => [datagram]

export class HostilePath implements DatagramWay {
  onDatagram: DatagramWay['onDatagram'] = null
  /** All that the driver sent, and all that came to it. */
  readonly sent: Uint8Array[] = []
  readonly heard: Uint8Array[] = []
  card: TestCard
  toCard: Fate = passes
  toDriver: Fate = passes
  nowUs = 0
  private readonly last: number
  private readonly waiting: Uint8Array[] = []
  private timers: { readonly atUs: number; readonly callback: () => void }[] = []

  /** The driver's machine is 10.0.0.last. */
  constructor(card: TestCard, last = 1) {
    this.card = card
    this.last = last
  }

  now(): number {
    return this.nowUs
  }

  setTimer(atUs: number, callback: () => void): () => void {
    const timer = { atUs, callback }
    this.timers.push(timer)
    return () => {
      this.timers = this.timers.filter((one) => one !== timer)
    }
  }

  sendDatagram(datagram: Uint8Array): void {
    this.sent.push(datagram.slice())
    this.waiting.push(datagram.slice())
  }

  /** What was sent comes to the card, and its answers to the driver. */
  pump(): void {
    for (let next = this.waiting.shift(); next !== undefined; next = this.waiting.shift()) {
      for (const datagram of this.toCard(next)) {
        for (const answer of this.ask(datagram)) {
          for (const one of this.toDriver(answer)) this.bring(one)
        }
      }
    }
  }

  /** The card's answers to that datagram. */
  ask(datagram: Uint8Array): Uint8Array[] {
    const { card } = this
    card.now = Math.max(card.now, this.nowUs)
    const parts = {
      bth: { opcode: UD_SEND_ONLY, destQp: 1 },
      deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    }
    const frame = sentBy(frameOf({ ...parts, payload: datagram }), this.last)
    return card.serve(frame).map(({ payload }) => payload)
  }

  bring(datagram: Uint8Array): void {
    this.heard.push(datagram.slice())
    this.onDatagram?.(datagram, 0, datagram.length)
  }

  /** Moves the clock, timer by timer, until the promise has ended; what it ends with. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let ended = false
    const end = (): void => {
      ended = true
    }
    promise.then(end, end)
    for (;;) {
      this.pump()
      await new Promise((resolve) => setImmediate(resolve))
      if (ended) return await promise
      if (this.waiting.length === 0) this.tick()
    }
  }

  private tick(): void {
    const next = this.timers.reduce((one, other) => (other.atUs < one.atUs ? other : one))
    this.timers = this.timers.filter((one) => one !== next)
    this.nowUs = Math.max(this.nowUs, next.atUs)
    next.callback()
  }
}

let seeds = 0

/** The calls of a driver with that key, over the path; and what seals them. */
export function callsOver(
  path: HostilePath,
  keys: Guest['keys'],
  timeoutUs = 5_000_000,
): Management {
  seeds += 1
  let word = Math.imul(seeds, 0x9e3779b9)
  const random = (): number => {
    word = (Math.imul(word, 1664525) + 1013904223) >>> 0
    return word
  }
  const way = new SealedWay(path, { own: keys, card: CARD.public }, random)
  return new Management(new Calls(way, timeoutUs, random))
}

/** An answer in the clear to that datagram, of that fault, by whoever likes to. */
export function clearAnswerTo(datagram: Uint8Array, fault: number): Uint8Array {
  const answer = datagram.slice()
  answer[mad.MAD_METHOD] = mad.METHOD_RESPONSE
  answer[mad.MAD_VERSION] = mad.MANAGEMENT_VERSION
  answer[mad.MAD_FAULT] = fault
  putU16(answer, mad.MAD_STATUS, fault === 0 ? mad.STATUS_OK : mad.STATUS_REFUSED)
  return answer
}

/** The same with another transaction. */
export function ofAnotherTransaction(answer: Uint8Array): Uint8Array {
  const copy = answer.slice()
  putU32(copy, mad.MAD_TRANSACTION_HIGH, u32(copy, mad.MAD_TRANSACTION_HIGH) ^ 1)
  return copy
}

export function isHandshake(datagram: Uint8Array): boolean {
  return u16(datagram, mad.MAD_ATTRIBUTE) === mad.ATTRIBUTE_HANDSHAKE
}
