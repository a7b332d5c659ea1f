/**
 * A card for short conversations: records, plain bytes, bytes that are kept, bytes of another
 * protection domain; and the judges that the conversations share.
 */

import { DATA_AT } from '../../../../firmware/medium/superblock.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { RC_ACKNOWLEDGE, WRITE_PERSIST_ONLY } from '../../../../firmware/wire/opcode.ts'
import {
  persistAcks,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../../support/cards/test-card.ts'
import { frameOf } from '../../../support/wire/frames.ts'
import { ACK, firstDifference } from '../../../support/wire/requests.ts'

export const SLOTS = 4
export const CAPACITY = 256
export const BYTES = 4096
export const MTU = 256

export class World {
  readonly card: TestCard = new TestCard(1 << 19).format()
  readonly records: TestRegion
  readonly bytes: TestRegion
  /** Registered write-persist. */
  readonly kept: TestRegion
  /** Of another protection domain. */
  readonly foreign: TestRegion
  readonly qp: TestPeer

  constructor(shape: { readonly copies?: number } = {}) {
    const { card } = this
    const bytes = { kind: mad.KIND_BYTES, length: BYTES }
    this.records = card.provision({ slots: SLOTS, capacity: CAPACITY, ...shape })
    this.bytes = card.provision({ name: 'bytes', ...bytes })
    this.kept = card.provision({ name: 'kept', ...bytes, flags: 2 })
    this.foreign = card.provision({ name: 'foreign', ...bytes, domain: 3 })
    this.qp = card.connect(MTU)
  }

  /** What the regions hold. */
  content(): Uint8Array {
    return this.card.nvdimm.live.slice(DATA_AT)
  }

  /** Serves frames that must change nothing and be confirmed by nothing. */
  refuses(name: string, frames: readonly Uint8Array[]): string | null {
    const before = this.content()
    const sent = this.card.serve(...frames)
    const at = firstDifference(before, this.content())
    if (at >= 0) return `${name}: byte ${at} of the regions changed`
    const statuses = persistAcks(sent).map(({ status }) => status)
    if (statuses.includes(0)) return `${name}: called durable`
    // What storage has against a record is said by its status, behind a plain acknowledgement.
    if (statuses.length > 0) return null
    return sent.some(isAnswer) ? `${name}: it was answered` : null
  }

  /** What slot `slot` reads as, on a connection that did nothing else; null after a NAK. */
  read(slot: number, length: number = CAPACITY): Uint8Array | null {
    return this.card.read(this.card.connect(), this.records, slot, 0, length)
  }

  /** Null if the slot begins with those bytes. */
  expectSlot(slot: number, data: Uint8Array, what: string): string | null {
    const found = this.read(slot, data.length)
    if (found === null) return `${what}: slot ${slot} cannot be read`
    return Buffer.compare(found, data) === 0 ? null : `${what}: slot ${slot} holds something else`
  }
}

/** A positive answer, or data. */
function isAnswer({ opcode, syndrome }: Sent): boolean {
  if (opcode === RC_ACKNOWLEDGE) return syndrome === ACK
  return opcode > 0x0c && opcode < 0x13
}

/** A WRITE_PERSIST to an address in plain bytes; the PSN of the queue pair moves on. */
export function persistBytes(qp: TestPeer, region: TestRegion, data: Uint8Array): Uint8Array {
  const { rkey, baseHigh } = region
  const { psn } = qp
  qp.psn = (psn + 1) & 0xffffff
  qp.operation += 1
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn, ackRequest: true },
    reth: { vaHigh: baseHigh, vaLow: 0, rkey, length: data.length },
    pweth: { wait: 1, wantsAck: true, operationLow: qp.operation },
    payload: data,
  })
}

/** Syndromes of the plain answers. */
export function syndromes(sent: readonly Sent[]): number[] {
  return sent.flatMap(({ opcode, syndrome }) => (opcode === RC_ACKNOWLEDGE ? [syndrome] : []))
}

/** The first complaint of several plays, or null. */
export function firstOf(...plays: readonly (() => string | null)[]): string | null {
  for (const play of plays) {
    const said = play()
    if (said !== null) return said
  }
  return null
}
