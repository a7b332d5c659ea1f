/**
 * A responder in a few lines, for every kind of request: takes PSNs in order, executes once,
 * answers repetitions from what it kept. What it wants to say waits in `answers`, for a network to
 * lose, double and reorder.
 */

import { psnAdd, psnBehind, psnDistance } from '../../../firmware/transport/psn.ts'
import {
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  isOrdered,
  PERSIST_QUERY,
  READ,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import {
  ACK,
  answer,
  durable,
  executed,
  original,
  type Peer,
  readData,
  type Sent,
  told,
} from './requester-peer.ts'

/** An ordered request that was executed: what a repetition of it is answered from. */
interface Kept {
  readonly psn: number
  readonly found: number
}

export class SmallResponder {
  /** Tags in the order of their execution; an escape READ is none. */
  readonly executed: number[] = []
  /** Answers on their way back, oldest first. */
  readonly answers: ((nowUs: number) => void)[] = []
  /** Requests that were asked for again. */
  repeats = 0
  private readonly p: Peer
  private readonly ignoresFlush: boolean
  private expected: number
  private gapReported = false
  private readonly kept: Kept[] = []
  private readonly ends = new Map<number, number>()
  private word = 0

  /** `ignoresFlush`: a repeated FLUSH is not answered, as Linux does it (wire-format 6.5). */
  constructor(p: Peer, firstPsn: number, ignoresFlush = false) {
    this.p = p
    this.expected = firstPsn
    this.ignoresFlush = ignoresFlush
  }

  take(s: Sent): void {
    const isNew = s.psn === this.expected
    if (!isNew && !psnBehind(s.psn, this.expected)) {
      const { expected } = this
      if (!this.gapReported) this.say((nowUs) => answer(this.p, expected, 0x60, nowUs))
      this.gapReported = true
      return
    }
    if (isNew) this.gapReported = false
    else this.repeats++
    if (isOrdered(s.kind)) this.takeOrdered(s, isNew)
    else this.takeMessage(s, isNew)
  }

  private say(one: (nowUs: number) => void): void {
    this.answers.push(one)
  }

  private takeMessage(s: Sent, isNew: boolean): void {
    const { p } = this
    const last = s.index === s.count - 1
    if (isNew) this.expected = psnAdd(this.expected, 1)
    if (isNew && last) {
      this.executed.push(s.tag)
      this.ends.set(s.tag, s.psn)
    }
    const newest = isNew ? s.psn : this.newestFrom(s.psn)
    if (s.ack || !isNew) this.say((nowUs) => answer(p, newest, ACK, nowUs))
    const end = this.ends.get(s.tag)
    if (s.kind !== WRITE_PERSIST || !last || end === undefined) return
    this.say((nowUs) => durable(p, { lastPsn: end, operationLow: s.tag }, newest, nowUs))
  }

  /** The newest PSN that an answer about the message at `psn` may acknowledge (3.5). */
  private newestFrom(psn: number): number {
    const behind = this.kept.filter((kept) => psnDistance(kept.psn, psn) < 0x800000)
    return psnAdd(behind[0]?.psn ?? this.expected, -1)
  }

  private takeOrdered(s: Sent, isNew: boolean): void {
    const { p } = this
    const { psn, kind, tag } = s
    if (isNew) {
      this.expected = psnAdd(this.expected, kind === READ ? s.count - s.index : 1)
      const isAtomic = kind === FETCH_ADD || kind === COMPARE_SWAP
      this.kept.push({ psn, found: isAtomic ? this.word++ : 0 })
      if (s.length > 0 || kind !== READ) this.executed.push(tag)
    }
    if (kind === READ) {
      this.serveRead(s)
    } else if (kind === FETCH_ADD || kind === COMPARE_SWAP) {
      const { found } = this.kept.find((kept) => kept.psn === psn)!
      this.say((nowUs) => original(p, psn, 0, found, nowUs))
    } else if (kind === PERSIST_QUERY) {
      this.say((nowUs) => told(p, psn, { operationLow: tag, status: tag % 2 === 0 ? 0 : 2 }, nowUs))
    } else if (isNew || kind !== FLUSH || !this.ignoresFlush) {
      this.say((nowUs) => executed(p, psn, nowUs))
    }
  }

  private serveRead(s: Sent): void {
    for (let i = s.index; i < s.count; i++) {
      const last = i === s.count - 1
      const psn = psnAdd(s.psn, i - s.index)
      const length = last ? s.length - 256 * i : 256
      this.say((nowUs) => readData(this.p, last ? 0x0f : 0x0d, psn, length, nowUs))
    }
  }
}
