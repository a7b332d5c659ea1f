/**
 * One record on its way to durability: what the caller of `persist` holds, and its two promises.
 *
 * Invariant: each promise settles once; `received` settles no later than `persisted`; a
 * write whose promises nobody looks at never ends the process as an unhandled rejection.
 */

import { MECHANISM_VOLATILE } from '../../firmware/wire/persist-ack.ts'
import { type EndStatus, OutcomeUnknown, TransportError } from '../base/errors.ts'
import type { OpenRegion } from './region-handle.ts'
import type { BatchPlace } from './work-request.ts'

/** What made the copies durable, as the PERSIST_ACK says; 'unknown' where there was none. */
export type Mechanism = 'localFlush' | 'lsbRead' | 'cpuFlush' | 'unknown'

/** The mechanism with that number in a PERSIST_ACK. */
export function mechanismOf(code: number): Mechanism {
  return MECHANISMS[code & ~MECHANISM_VOLATILE] ?? 'unknown'
}

/**
 * What a durable record outlives: the power, or only the process that is the card, whose memory
 * does not outlive the power. 'unknown' where there was no PERSIST_ACK.
 */
export type Outlives = 'power' | 'process' | 'unknown'

/** The same, of the mechanism with that number in a PERSIST_ACK. */
export function outlivesOf(code: number): Outlives {
  if (mechanismOf(code) === 'unknown') return 'unknown'
  return (code & MECHANISM_VOLATILE) !== 0 ? 'process' : 'power'
}

const MECHANISMS: readonly (Mechanism | undefined)[] = [
  undefined,
  'localFlush',
  'lsbRead',
  'cpuFlush',
]

/** What is known of a record that is durable. */
export interface Receipt {
  readonly region: string
  readonly slot: number
  readonly operationId: bigint
  /** PSN of the packet that ended the record; meaningless on another connection. */
  readonly psn: number
  /** Durable copies at the time of the answer, of how many. */
  readonly copies: number
  readonly of: number
  readonly mechanism: Mechanism
  /** What it outlives. */
  readonly durable: Outlives
  /** Incarnation of the part that made it durable. */
  readonly incarnation: number
  /** From the call of `persist` to the answer, µs. */
  readonly latencyUs: number
  /** Learnt by reading the record after a reconnection, not by a PERSIST_ACK. */
  readonly recovered?: boolean
}

export interface Write {
  /** Names the record permanently: +1 per record of a client. */
  readonly operationId: bigint
  /** The DPU has the record. That is no durability. */
  readonly received: Promise<void>
  /** The record is durable, in as many copies as were asked for. */
  readonly persisted: Promise<Receipt>
}

/** Why a repetition ends as unknown where the part cannot tell whether it was durable before. */
export const WHY_FORGOTTEN = 'the part has forgotten it, and another wrote there'

/** And where the way to the part has no room for the bytes of one that was sent before. */
export const WHY_NO_ROOM = 'its connection broke, and the next has no room for it'

/** And where something was thrown as it was to be sent again. */
export const WHY_UNMADE = 'its packets cannot be made any more'

export class PendingWrite implements Write {
  readonly region: OpenRegion
  /** Of plain bytes the offset of the first. */
  readonly slot: number
  /** Plain bytes of a batch, and no record. */
  readonly area: boolean
  readonly operationId: bigint
  /** What goes over the wire: the data, in the carried form once for every copy. */
  readonly payload: Uint8Array
  readonly length: number
  readonly wait: number
  /** Copies that an answer to it has to name: in a batch the fewest that one of them waits for. */
  named: number
  readonly carried: boolean
  /** Carried, and every copy is named by its address and key. */
  readonly addressed: boolean
  /** The guard of the data; 0 without one. */
  readonly guard: number
  readonly startedUs: number
  readonly received: Promise<void>
  readonly persisted: Promise<Receipt>
  /** A packet of it was sent, on this or an earlier connection. */
  sent = false
  /** Stands in the queue of a queue pair, which will send it, whatever the caller decides. */
  posted = false
  settled = false
  /** Its place in a batch, or null. */
  member: BatchPlace | null = null
  /** The sequence that the slot must hold for it to be accepted, or null. */
  expect: bigint | null = null
  /** It may be durable, and others have written since: the part is to execute it only if not. */
  repetition = false
  /** Connections that broke under it. */
  resumed = 0
  /** Gives up the deadline and the signal. */
  release: () => void = () => {}
  private resolveReceived: () => void = () => {}
  private rejectReceived: (error: Error) => void = () => {}
  private resolvePersisted: (receipt: Receipt) => void = () => {}
  private rejectPersisted: (error: Error) => void = () => {}

  constructor(fields: {
    region: OpenRegion
    slot: number
    operationId: bigint
    payload: Uint8Array
    length: number
    wait: number
    carried: boolean
    addressed?: boolean
    area?: boolean
    guard: number
    startedUs: number
  }) {
    this.region = fields.region
    this.slot = fields.slot
    this.area = fields.area ?? false
    this.operationId = fields.operationId
    this.payload = fields.payload
    this.length = fields.length
    this.wait = fields.wait
    this.named = fields.wait
    this.carried = fields.carried
    this.addressed = fields.addressed ?? false
    this.guard = fields.guard
    this.startedUs = fields.startedUs
    this.received = new Promise((resolve, reject) => {
      this.resolveReceived = resolve
      this.rejectReceived = reject
    })
    this.persisted = new Promise((resolve, reject) => {
      this.resolvePersisted = resolve
      this.rejectPersisted = reject
    })
    this.received.catch(() => {})
    this.persisted.catch(() => {})
  }

  get what(): string {
    const what = this.area ? `bytes from ${this.slot}` : `record ${this.slot}`
    return `${what} of '${this.region.info.name}'`
  }

  markReceived(): void {
    this.resolveReceived()
  }

  succeed(receipt: Receipt): void {
    if (this.settled) return
    this.settled = true
    this.release()
    this.resolveReceived()
    this.resolvePersisted(receipt)
  }

  fail(error: Error): void {
    if (this.settled) return
    this.settled = true
    this.release()
    this.rejectReceived(error)
    this.rejectPersisted(error)
  }

  /** The peer broke the connection over it. Of a repetition that tells nothing about before. */
  deny(status: EndStatus): void {
    const error = new TransportError(status, this.what)
    if (this.repetition) this.giveUp(WHY_FORGOTTEN, error)
    else this.fail(error)
  }

  /** Ends as unknown if a packet was or will be sent, else with the error that nothing was. */
  giveUp(why: string, nothingSent: Error): void {
    if (!this.sent && !this.posted) {
      this.fail(nothingSent)
      return
    }
    const { slot, operationId, area } = this
    const { name } = this.region.info
    this.fail(new OutcomeUnknown(name, slot, operationId, why, nothingSent, area))
  }
}
