/**
 * The judge of one record: what left the card, and what its copies durably hold.
 *
 * Invariant: frames and media are read here by code of their own, from the byte diagrams;
 * nothing of the product has a part in it. An acknowledgement is judged as it leaves, by what is
 * durable in that moment on the machines as they are: caches, buffers and posted writes count for
 * nothing.
 */

import {
  copyAt,
  LANES,
  LANES_AT,
  LINE_BYTES,
  type RegionLayout,
  readLane,
  readSuperblock,
  slotValid,
} from '../../support/judges/oracle.ts'
import type { Rig } from './rig.ts'

export const OPCODE_AT = 42
const PERSIST_ACK = 0xd1
/* The map of PAETH once more (firmware/wire/persist-ack.ts): a judge shares no code (R1-E7). */
const PAETH_AT = 58
const FLAGS = 1
const STATUS = 2
const OPERATION = 20
const COPIES = 28
const ANSWERS_QUERY = 0x10

/** Statuses that say nothing of whether the record is durable. */
const IN_DOUBT = 0x8f
export const FORGOTTEN = 0x98

/** Operation of version v of the record. */
export const OPERATION_BASE = 1000

/** What a PERSIST_ACK says. */
interface Ack {
  readonly status: number
  readonly operation: number
  readonly copies: number
  readonly isAnswer: boolean
}

export function big32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0
  )
}

/** The PERSIST_ACK in a frame over IPv4, or null. */
export function ackOf(frame: Uint8Array): Ack | null {
  if (frame[12] !== 0x08 || frame[13] !== 0 || frame[OPCODE_AT] !== PERSIST_ACK) return null
  return {
    status: frame[PAETH_AT + STATUS]!,
    operation: big32(frame, PAETH_AT + OPERATION),
    copies: frame[PAETH_AT + COPIES]!,
    isAnswer: (frame[PAETH_AT + FLAGS]! & ANSWERS_QUERY) !== 0,
  }
}

/** The data of version `v`, 64 bytes: every word of it names the version. */
export function versionData(v: number): Uint8Array {
  return Uint8Array.from({ length: 64 }, (_, i) => (v * 37 + i * (v + 3)) & 0xff)
}

const VERSIONS = 8
export const ALL_DATA: readonly Uint8Array[] = Array.from({ length: VERSIONS }, (_, v) =>
  versionData(v),
)

/** Which version the bytes are; -1 is none, 0 a record that was never written. */
export function versionOf(data: Uint8Array): number {
  if (data.every((byte) => byte === 0)) return 0
  return ALL_DATA.findIndex((one, v) => v > 0 && Buffer.compare(one, data) === 0)
}

export class Judge {
  /** What is wrong so far, in sentences. */
  readonly complaints: string[] = []
  /** Acknowledgements that were judged; those that refused. */
  acknowledged = 0
  refused = 0
  /** Every PERSIST_ACK since the client looked last. */
  heard: Ack[] = []
  /** The newest version that was acknowledged as durable, or shown to a reader. */
  floor: number
  /** The first version that a reader was shown since the client forgot it; -1 before. */
  first = -1

  protected readonly rig: Rig
  private readonly known: Map<string, number> = new Map()

  constructor(rig: Rig, floor: number) {
    this.rig = rig
    this.floor = floor
    rig.onFrame = (frame) => this.hear(frame)
  }

  object(what: string): void {
    if (!this.complaints.includes(what)) this.complaints.push(what)
  }

  /** The region of the record as the part says it, or null. */
  protected layout(): RegionLayout | null {
    const regions = readSuperblock(this.rig.part.durable)?.regions ?? []
    return regions.find(({ name }) => name === 'records') ?? null
  }

  /** The version in each copy of a record, durably; -1 where it is not whole. */
  copies(record = 0): number[] {
    const layout = this.layout()
    if (layout === null) return []
    const { rig } = this
    const part = rig.placement === 'local' ? rig.part : rig.host.part
    return Array.from({ length: layout.copies }, (_, copy) => {
      const at = copyAt(layout, copy, record)
      const lines = [at / LINE_BYTES, at / LINE_BYTES + 1]
      if (at + layout.stride > part.bytes || lines.some((line) => part.isPoisoned(line))) return -1
      return this.versionAt(part.durable.subarray(at, at + layout.stride), layout, record)
    })
  }

  /** As the bytes say; worked out once for the same bytes. */
  private versionAt(bytes: Uint8Array, layout: RegionLayout, record: number): number {
    const key = `${record} ${Buffer.from(bytes).toString('latin1')}`
    let version = this.known.get(key)
    if (version === undefined) {
      const whole = slotValid(bytes, layout, record)
      version = whole ? this.versionIn(bytes.subarray(LINE_BYTES, 2 * LINE_BYTES), record) : -1
      this.known.set(key, version)
    }
    return version
  }

  /** Which version of the record the data are, as `versionOf`. */
  protected versionIn(data: Uint8Array, _record: number): number {
    return versionOf(data)
  }

  /** Poisons the first copies of a record: the medium has lost them. */
  spoil(record: number, count: number): void {
    const layout = this.layout()!
    const { rig } = this
    const part = rig.placement === 'local' ? rig.part : rig.host.part
    for (let copy = 0; copy < Math.min(count, layout.copies); copy++) {
      part.poison(copyAt(layout, copy, record) / LINE_BYTES)
    }
  }

  /** Where the commit is, by the durable bytes: the lane of the record, and the copies of `v`. */
  phase(v: number): string {
    const { durable } = this.rig.part
    let lane = '-'
    for (let i = 0; i < LANES; i++) {
      const at = LANES_AT + i * LINE_BYTES
      const line = readLane(durable.subarray(at, at + LINE_BYTES))
      if (line.state !== 'A' && line.state !== 'B') continue
      if (line.operation === this.operationOf(v)) lane = line.state
    }
    const copies = this.copies()
    return `lane ${lane}, ${copies.filter((one) => one === v).length} of ${copies.length}`
  }

  /** The operation under which that version of the record comes. */
  protected operationOf(v: number): bigint {
    return BigInt(OPERATION_BASE + v)
  }

  protected hear(frame: Uint8Array): void {
    const ack = ackOf(frame)
    if (ack === null) return
    this.heard.push(ack)
    const version = ack.operation - OPERATION_BASE
    if (ack.status !== 0) {
      if (!ack.isAnswer) this.refused += 1
      // Version 1 was acknowledged, and comes again only as a repetition.
      const isOpen = ack.status === IN_DOUBT || ack.status === FORGOTTEN
      if (version === 1 && !ack.isAnswer && !isOpen) this.object('v1 is durable, and is refused')
      return
    }
    if (version < 1 || version >= VERSIONS) return
    // What was acknowledged before is so again, though another write of it is under way.
    const said = version === 1 ? 1 : Math.max(1, ack.copies)
    this.claimed(version, said, ack.isAnswer ? 'a query is told that ' : '')
  }

  /** A completion in the host's memory: its record is in so many copies, or refused with 0. */
  completed(version: number, copies: number): void {
    if (copies === 0) this.refused += 1
    else this.claimed(version, copies, 'a completion says that ')
  }

  /** Somebody was told that the version is durable in so many copies. */
  protected claimed(version: number, said: number, how: string): void {
    this.acknowledged += 1
    const copies = this.copies()
    const durable = copies.filter((one) => one >= version).length
    if (durable < said) {
      this.object(`${how}v${version} is durable in ${said}; it is in ${durable}: [${copies}]`)
    }
    this.floor = Math.max(this.floor, version)
  }

  /** What a READ brought: nothing, or the bytes. */
  shown(data: Uint8Array | null, when: string, mustServe: boolean): void {
    if (data === null) {
      if (mustServe) this.object(`${when}: the record is refused, v${this.floor} was acknowledged`)
      return
    }
    const version = versionOf(data)
    const was = version < 0 ? 'torn, or nobody’s' : version === 0 ? 'blank' : `v${version}`
    if (version < this.floor) {
      this.object(`${when}: the record is ${was}, and v${this.floor} was acknowledged or shown`)
    }
    this.floor = Math.max(this.floor, version)
    if (this.first < 0) this.first = version
  }
}
