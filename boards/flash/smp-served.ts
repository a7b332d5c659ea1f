/**
 * Who asks by SMP, apart from how its bytes come: one at the end of a line, and the peers of a
 * socket of datagrams.
 *
 * Invariant: whatever comes is answered or dropped. A request may come in several datagrams
 * of one peer, within a second; of so many peers, and no more, a rest is waited for.
 */

import { joined } from './bytes.ts'
import { answerSmp, type SmpCard } from './smp.ts'
import { FrameReader, PACKET_BYTES_MAX, writeFrame } from './smp-frame.ts'
import { SMP_HEADER_BYTES } from './smp-packet.ts'

/** How long the rest of a request may take, ms, and of how many peers one is waited for. */
const PIECES_MS = 1000
const PEERS_MAX = 64

/** The end of a line: a line that is no frame is one of the console. */
export class LineClient {
  private readonly card: SmpCard
  private readonly reader = new FrameReader()

  constructor(card: SmpCard) {
    this.card = card
  }

  /** What goes back for what came; `nowMs` may be any clock that goes on. */
  take(bytes: Uint8Array, nowMs: number): Uint8Array[] {
    return this.reader.push(bytes, nowMs).flatMap((came) => {
      if ('text' in came) return [new TextEncoder().encode(`${this.card.shell(came.text)}\n`)]
      const answer = answerSmp(this.card, came.packet)
      return answer === null ? [] : [writeFrame(answer)]
    })
  }
}

/** What has come of a request. */
interface Pieces {
  readonly bytes: Uint8Array
  readonly atMs: number
}

/** The peers of a socket of datagrams: a packet is one of them, or several behind one another. */
export class DatagramClients {
  private readonly card: SmpCard
  private readonly waiting = new Map<string, Pieces>()

  constructor(card: SmpCard) {
    this.card = card
  }

  /** What goes back to that peer; null: nothing yet. */
  take(peer: string, bytes: Uint8Array, nowMs: number): Uint8Array | null {
    const whole = this.together(peer, bytes, nowMs)
    return whole === null ? null : answerSmp(this.card, whole)
  }

  /** The request of that peer, if all of it is there. */
  private together(peer: string, bytes: Uint8Array, nowMs: number): Uint8Array | null {
    const { waiting } = this
    const before = waiting.get(peer)
    waiting.delete(peer)
    const isFresh = before !== undefined && nowMs - before.atMs < PIECES_MS
    const whole = isFresh ? joined([before.bytes, bytes]) : bytes
    if (whole.length < SMP_HEADER_BYTES || whole.length > PACKET_BYTES_MAX) return whole
    const view = new DataView(whole.buffer, whole.byteOffset)
    if (whole.length >= SMP_HEADER_BYTES + view.getUint16(2)) return whole
    if (waiting.size === PEERS_MAX) waiting.delete(waiting.keys().next().value!)
    waiting.set(peer, { bytes: whole, atMs: nowMs })
    return null
  }
}
