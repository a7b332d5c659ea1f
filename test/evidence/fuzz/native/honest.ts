/**
 * The honest client of a card outside this process: it writes records among the frames of whoever
 * attacks, and reads them again.
 *
 * Invariant: what it was told is durable is read as it was written, from then on; of what was
 * refused nothing is known. A frame without an answer is sent again, as any client would.
 */

import { type Acknowledgement, acknowledgementIn } from '../../../support/judges/acknowledgement.ts'
import { sameBytes } from '../../../support/judges/oracle.ts'
import {
  dataOf,
  persistFrames,
  readFrame,
  type Sent,
  type TestPeer,
  type TestRegion,
} from '../../../support/wire/conversation.ts'
import { KEPT_BYTES, KEPT_SLOTS } from '../keeper.ts'

/** So often a frame is sent until somebody answers. */
const TIMES = 20

interface Waiting {
  readonly slot: number
  readonly psn: number
  readonly frame: Uint8Array
}

/** A client's way to such a card. */
export interface Way {
  readonly qp: TestPeer
  readonly region: TestRegion
  /** A frame of that queue pair as the card wants it. */
  dress(frame: Uint8Array): Uint8Array
  /** Sends frames; all that the card sent by then. */
  ask(frames: readonly Uint8Array[]): Sent[]
}

export class Honest {
  /** Records that were acknowledged as durable. */
  acknowledged = 0
  private written = 0
  private readonly waiting: Waiting[] = []
  /** Of each slot, what may stand there. */
  private readonly possible: Uint8Array[][] = Array.from({ length: KEPT_SLOTS }, () => [])
  private way: Way

  constructor(way: Way) {
    this.way = way
  }

  /** The card has started again: there is another way to it, and nothing waits. */
  come(way: Way): void {
    this.way = way
    this.waiting.length = 0
  }

  /** The next record, to go among other frames; null while its slot waits. */
  next(): Uint8Array | null {
    const slot = this.written++ % KEPT_SLOTS
    if (this.waiting.some((one) => one.slot === slot)) return null
    const { qp, region } = this.way
    const data = dataOf(KEPT_BYTES, this.written)
    const [frame] = persistFrames(qp, region, slot, data)
    this.possible[slot]!.push(data)
    this.waiting.push({ slot, psn: (qp.psn - 1) & 0xffffff, frame: frame! })
    return this.way.dress(frame!)
  }

  /** What the card has sent. */
  hear(sent: readonly Sent[]): void {
    for (const { bytes, packet } of sent) {
      if (packet.destQp !== this.way.qp.peer) continue
      const said = acknowledgementIn(bytes)
      if (said !== null) this.settle(said)
    }
  }

  private settle({ status, firstPsn, lastPsn }: Acknowledgement): void {
    const span = (lastPsn - firstPsn) & 0xffffff
    const isMeant = ({ psn }: Waiting): boolean => ((psn - firstPsn) & 0xffffff) <= span
    const meant = this.waiting.filter(isMeant)
    this.waiting.splice(0, Infinity, ...this.waiting.filter((one) => !isMeant(one)))
    if (status !== 0) return
    for (const { slot } of meant) {
      this.possible[slot]!.splice(0, this.possible[slot]!.length - 1)
      this.acknowledged += 1
    }
  }

  /** Everything is answered, and read as it was written; or what is not. */
  judge(): string {
    for (let i = 0; i < TIMES && this.waiting.length > 0; i++) {
      this.hear(this.way.ask(this.waiting.map(({ frame }) => this.way.dress(frame))))
    }
    if (this.waiting.length > 0) return 'an honest client waits for its acknowledgement'
    for (let slot = 0; slot < KEPT_SLOTS; slot++) {
      const possible = this.possible[slot]!
      if (possible.length === 0) continue
      const found = this.read(slot)
      if (!possible.some((data) => sameBytes(found, data))) {
        return `record ${slot} of an honest client is not read as it was written`
      }
    }
    return ''
  }

  private read(slot: number): Uint8Array {
    const { qp, region } = this.way
    const frame = readFrame(qp, region, slot, 0, KEPT_BYTES)
    for (let i = 0; i < TIMES; i++) {
      const sent = this.way.ask([this.way.dress(frame)])
      this.hear(sent)
      const found = sent.find(({ opcode, packet }) => {
        return opcode === 0x10 && packet.destQp === qp.peer
      })
      // A trailer with a tag may stand behind it.
      if (found !== undefined) return found.payload.slice(0, KEPT_BYTES)
    }
    return new Uint8Array(0)
  }
}
