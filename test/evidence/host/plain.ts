/**
 * What a requester takes for durable by what its own protocol says: a plain WRITE of a record, a
 * WRITE or an ATOMIC WRITE into bytes registered write-persist, and a FLUSH (source 2, both forms
 * of the flag in both flows; S1-M5).
 *
 * Invariants:
 * - As hardware does, the client sends the same packet again on the same connection for as long as
 *   it draws RNR NAKs, whatever has become of the host meanwhile; it begins anew, on another one,
 *   behind any other NAK, and where the card is another one.
 * - What is acknowledged is judged as the acknowledgement leaves, by the durable bytes. Bytes may
 *   tear, and are visible before they are durable: eight of them at a time are of a version that is
 *   acknowledged, or of a later one that was begun.
 */

import type { TestCard } from '../../support/cards/test-card.ts'
import { copyAt } from '../../support/judges/oracle.ts'
import { atomicWriteFrame, flushFrame, writeFrames } from '../../support/wire/requests.ts'
import { ALL_DATA, big32, Judge, OPCODE_AT, versionData } from './judge.ts'
import { CLIENT, type Reached, RecordPlay, TURNS } from './record.ts'
import type { Level, Rig } from './rig.ts'
import type { PlainName } from './script.ts'

const ACK = 0x11
const RESPONSE_ONLY = 0x10
const PEER_AT = OPCODE_AT + 4
const PSN_AT = OPCODE_AT + 8
const SYNDROME_AT = OPCODE_AT + 12
/** The upper three bits of a syndrome. */
const IS_ACK = 0
const IS_RNR = 1

/** So often the client sends what draws RNR NAKs. */
const TRIES = 6
const CHUNK_BYTES = 8
/** The MTU that makes two packets of a WRITE, and a length that does. */
const MTU = 256
const TWO_PACKETS = 264

function u24(frame: Uint8Array, at: number): number {
  return big32(frame, at) & 0xffffff
}

/** A request that somebody waits for. */
interface Awaited {
  readonly peer: number
  readonly psn: number
  readonly version: number
  answer: 'none' | 'taken' | 'refused'
}

export class PlainJudge extends Judge {
  awaited: Awaited | null = null
  /** The newest version of which a byte may be there. */
  begun: number
  private readonly promised: number

  /** An acknowledgement promises so many copies. */
  constructor(rig: Rig, floor: number, promised: number) {
    super(rig, floor)
    this.begun = floor
    this.promised = promised
  }

  protected override hear(frame: Uint8Array): void {
    const { awaited } = this
    if (awaited === null || frame[12] !== 0x08 || frame[13] !== 0) return
    const opcode = frame[OPCODE_AT]!
    if (opcode !== ACK && opcode !== RESPONSE_ONLY) return
    if (u24(frame, PEER_AT) !== awaited.peer) return
    const kind = frame[SYNDROME_AT]! >> 5
    if (kind === IS_ACK && u24(frame, PSN_AT) === awaited.psn) {
      awaited.answer = 'taken'
      this.claimed(awaited.version, this.promised, '')
    } else if (kind > IS_RNR) {
      // Of whatever packet: with it the connection is over.
      awaited.answer = 'refused'
      this.refused += 1
    }
  }
}

export class BytesJudge extends PlainJudge {
  readonly length: number

  constructor(rig: Rig, floor: number, operation: PlainName) {
    super(rig, floor, 1)
    this.length = operation === 'atomic' ? CHUNK_BYTES : TWO_PACKETS
  }

  /** The oldest version of which some eight bytes are; -1 if some are of none that was begun. */
  private oldestIn(bytes: Uint8Array): number {
    let oldest = this.begun
    for (let at = 0; at < this.length; at += CHUNK_BYTES) {
      const found = this.versionOfChunk(bytes, at)
      if (found < 0) return -1
      oldest = Math.min(oldest, found)
    }
    return oldest
  }

  private versionOfChunk(bytes: Uint8Array, at: number): number {
    const chunk = bytes.subarray(at, at + CHUNK_BYTES)
    if (chunk.every((byte) => byte === 0)) return 0
    for (let v = this.begun; v > 0; v--) {
      const from = at % ALL_DATA[v]!.length
      if (Buffer.compare(chunk, ALL_DATA[v]!.subarray(from, from + CHUNK_BYTES)) === 0) return v
    }
    return -1
  }

  override copies(): number[] {
    const layout = this.layout()
    if (layout === null) return []
    const part = this.rig.placement === 'local' ? this.rig.part : this.rig.host.part
    const at = copyAt(layout, 0, 0)
    return [this.oldestIn(part.durable.subarray(at, at + this.length))]
  }

  override shown(data: Uint8Array | null, when: string, mustServe: boolean): void {
    if (data === null) {
      if (mustServe) this.object(`${when}: the bytes are refused, v${this.floor} was acknowledged`)
      return
    }
    const oldest = this.oldestIn(data)
    if (oldest < this.floor) {
      const was = oldest < 0 ? 'nobody’s' : `v${oldest}`
      this.object(`${when}: some bytes are ${was}, and v${this.floor} was acknowledged`)
    }
    if (this.first < 0) this.first = oldest
  }
}

/** A request on its connection. */
interface Sent {
  readonly card: TestCard
  readonly client: number
  readonly frames: readonly Uint8Array[]
  readonly awaited: Awaited
}

export class PlainPlay extends RecordPlay {
  protected override readonly length: number
  private readonly own: PlainJudge
  private readonly operation: PlainName
  /** It sends its packets one by one, and waits for the host's driver. */
  private readonly isSlow: boolean
  private sent: Sent | null = null

  constructor(rig: Rig, level: Level, judge: PlainJudge, operation: PlainName, isSlow: boolean) {
    super(rig, level, judge)
    this.own = judge
    this.operation = operation
    this.isSlow = isSlow
    this.length = judge instanceof BytesJudge ? judge.length : 64
  }

  /** Who wrote what was overtaken knows that it is over. */
  override write(version: number, client: number = CLIENT): boolean {
    const { own, rig } = this
    if (version < own.floor) return true
    for (let i = 0; i < TRIES; i++) {
      let sent: Sent | null = null
      if (this.waits()) return false
      const lived = rig.byCard((card) => {
        sent = this.request(card, version, client)
        if (sent !== null && !this.isSlow) card.serve(...sent.frames)
      })
      if (this.isSlow && !this.sendSlowly(sent)) return false
      rig.work(TURNS)
      const answer = this.sent?.awaited.answer
      if (answer === 'taken') return true
      if (!lived || sent === null) return false
      // What was taken is not sent again: the last packet alone has to wait.
      this.sent = { ...(sent as Sent), frames: (sent as Sent).frames.slice(-1) }
    }
    // Nobody answers any more, or nobody will.
    this.sent = null
    return false
  }

  /** A slow client goes on only when who writes back is there. */
  private waits(): boolean {
    const { placement, agents } = this.rig
    return this.isSlow && placement === 'through' && agents.length === 0
  }

  /**
   * One packet after the other, and others are served in between. False if something goes
   * meanwhile: then the rest is left for later, on the same connection.
   */
  private sendSlowly(sent: Sent | null): boolean {
    const { rig } = this
    const { struck } = rig
    for (let frames = sent?.frames ?? []; frames.length > 0; ) {
      const [next, ...rest] = frames as [Uint8Array]
      rig.byCard((card) => card.serve(next))
      if (rest.length === 0) return true
      this.sent = { ...sent!, frames: rest }
      frames = rest
      this.neighbour('between two packets')
      if (rig.struck !== struck) return false
    }
    return true
  }

  /** The request that waits on its connection, or a new one on another; null if it is refused. */
  private request(card: TestCard, version: number, client: number): Sent | null {
    const { own, sent } = this
    const isSame = sent?.card === card && sent.client === client
    if (isSame && sent.awaited.version === version && sent.awaited.answer === 'none') return sent
    const asked = this.reach(card, client, 'records', MTU)
    if (asked === null) return null
    own.begun = Math.max(own.begun, version)
    const frames = this.framesOf(asked, version)
    const psn = (asked.qp.psn - 1) & 0xffffff
    const awaited: Awaited = { peer: asked.qp.peer, psn, version, answer: 'none' }
    own.awaited = awaited
    this.sent = { card, client, frames, awaited }
    return this.sent
  }

  private framesOf({ qp, region }: Reached, version: number): Uint8Array[] {
    const { length, operation } = this
    const one = versionData(version)
    const data = Uint8Array.from({ length }, (_, i) => one[i % one.length]!)
    if (operation === 'atomic') return [atomicWriteFrame(qp, region, 0, data)]
    const frames = writeFrames(qp, region, 0, data)
    return operation === 'flush' ? [...frames, flushFrame(qp, region, { length })] : frames
  }

  /** It has no operation that anybody may ask for, or that comes again as a repetition. */
  override query(): void {}

  override repeat(): void {}
}
