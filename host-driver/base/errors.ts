/**
 * The errors of the driver: one class, stable codes, subclasses where a user must decide.
 *
 * Invariants:
 * - `code` never changes between releases; `message` is for people and may.
 * - A message has nothing in it that a terminal obeys, whatever name or words it quotes.
 * - Every refusal of the DPU carries the name of the fault and one line that says what to do.
 * - OutcomeUnknown is apart from all others: the record may or may not be durable. Whoever catches
 *   it reads the record, and only then decides. Every other error of a persist means: not durable.
 */

import { FAULTS } from '../../firmware/board/fault.ts'
import type { WcStatus } from '../../firmware/transport/requester.ts'
import { adviceFor } from './advice.ts'
import { printable } from './printable.ts'

export type ErrorCode =
  | 'PERDURE_ARGUMENT' // an argument is out of its range; nothing was sent
  | 'PERDURE_TARGET' // the target is no perdure:// address
  | 'PERDURE_UNREACHABLE' // the DPU did not answer
  | 'PERDURE_REFUSED' // the DPU refused, and said why
  | 'PERDURE_TRANSPORT' // the connection broke; the request had no effect
  | 'PERDURE_NOT_ACCEPTED' // not durable, for another record of its batch was refused
  | 'PERDURE_OUTCOME_UNKNOWN' // sent, and never heard of again
  | 'PERDURE_RECORD_LOST' // no copy of the record is valid
  | 'PERDURE_RECORD_CORRUPT' // what arrived does not match its check code
  | 'PERDURE_ABORTED' // the signal fired, and nothing was changed
  | 'PERDURE_DEADLINE' // the deadline passed, and nothing was changed
  | 'PERDURE_CLOSED' // the connection was closed before anything was sent
  | 'PERDURE_RESTARTED' // the part was started again, and may have forgotten what was not flushed
  | 'PERDURE_IMAGE' // the NVDIMM image cannot be used
  | 'PERDURE_QUEUE_FULL' // too few free units in a queue; nothing was stored
  | 'PERDURE_MEMORY_FULL' // no piece of that size is left of the memory that the card reaches
  | 'PERDURE_QUEUE_ENDED' // the queue is closed, or in the error state
  | 'PERDURE_CARD_REMOVED' // the card behind PCIe is gone

/** What Node and browsers call such errors, whoever throws them. */
const NAMES: Partial<Readonly<Record<ErrorCode, string>>> = {
  PERDURE_ABORTED: 'AbortError',
  PERDURE_DEADLINE: 'TimeoutError',
}

export class PerdureError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(printable(message), options)
    this.name = NAMES[code] ?? new.target.name
    this.code = code
  }
}

/** An argument was wrong; nothing was sent. */
export class ArgumentError extends PerdureError {
  constructor(message: string, options?: ErrorOptions) {
    super('PERDURE_ARGUMENT', message, options)
  }
}

/** What was thrown while a request was made or encoded, as the end of that request. */
export function unmadeError(thrown: unknown): PerdureError {
  if (thrown instanceof PerdureError) return thrown
  const reason = thrown instanceof Error ? `: ${thrown.message}` : ''
  return new ArgumentError(`the request cannot be made${reason}`, { cause: thrown })
}

/** The DPU refused the request, and its state is what it was. */
export class RefusedError extends PerdureError {
  /**
   * Name of the fault, as in firmware/board/fault.ts: 'NOT_ARMED', 'SLOT', 'NO_REGION' and so on.
   */
  readonly fault: string
  /** Status of the PERSIST_ACK or of the management answer. */
  readonly status: number
  /** What to do next, in one line. */
  readonly advice: string

  constructor(fault: string, status: number, what: string) {
    const meaning = FAULTS.find((row) => row.name === fault)?.meaning ?? 'an unknown reason'
    const advice = adviceFor(fault)
    super('PERDURE_REFUSED', `${what}: ${meaning} (${fault}). ${advice}`)
    this.fault = fault
    this.status = status
    this.advice = advice
  }
}

/** The record was not made durable, because another one of its batch was refused. */
export class NotAccepted extends PerdureError {
  /** Index of that other record in the batch. */
  readonly because: number

  constructor(what: string, because: number, whatBecause: string) {
    const why = `not accepted, because of ${whatBecause} (index ${because} of its batch)`
    super('PERDURE_NOT_ACCEPTED', `${what}: ${why}. ${adviceFor('PERDURE_NOT_ACCEPTED')}`)
    this.because = because
  }
}

/** How a request can end; the LOC_ ones only where the local card has looked at it. */
export type EndStatus =
  | WcStatus
  | 'LOC_LEN_ERR'
  | 'LOC_QP_OP_ERR'
  | 'LOC_PROT_ERR'
  | 'LOC_ACCESS_ERR'
  | 'FATAL_ERR'

/** The connection broke under the request, which had no effect. */
export class TransportError extends PerdureError {
  /** In the words of `ibv_wc_status`. */
  readonly status: EndStatus

  constructor(status: EndStatus, what: string) {
    super('PERDURE_TRANSPORT', `${what}: ${status}. ${adviceFor(status)}`)
    this.status = status
  }
}

/** The record was sent, and whether it is durable is not known: read it before you decide. */
export class OutcomeUnknown extends PerdureError {
  readonly region: string
  readonly slot: number
  readonly operationId: bigint

  /** `area`: it is plain bytes, and `slot` the offset of the first. */
  constructor(
    region: string,
    slot: number,
    operationId: bigint,
    why: string,
    cause?: unknown,
    area: boolean = false,
  ) {
    const what = area ? `bytes from ${slot} of '${region}'` : `record ${slot} of '${region}'`
    const read = area
      ? 'read them to learn whether they are'
      : 'read the record to learn whether it is'
    super(
      'PERDURE_OUTCOME_UNKNOWN',
      `${what}, operation ${operationId}: sent, but ${why}; ${read} durable`,
      { cause },
    )
    this.region = region
    this.slot = slot
    this.operationId = operationId
  }
}

/** A request was sent, and never answered or left in doubt: it may have had its effect, or not. */
export class EffectUnknown extends PerdureError {
  /** In the words of `ibv_wc_status`. */
  readonly status: EndStatus

  constructor(status: EndStatus, what: string, cause?: Error) {
    const why = cause === undefined ? `not answered: ${status}` : `in doubt: ${cause.message}`
    super('PERDURE_OUTCOME_UNKNOWN', `${what}: sent, and ${why}`, { cause })
    this.status = status
  }
}

/** No copy of the record is valid: its content is gone. */
export class RecordLost extends PerdureError {
  readonly region: string
  readonly slot: number

  constructor(region: string, slot: number) {
    const what = `record ${slot} of '${region}' is lost: no copy is valid`
    super('PERDURE_RECORD_LOST', `${what}. ${adviceFor('READ_ONLY')}`)
    this.region = region
    this.slot = slot
  }
}

/** The bytes that arrived are not those that were stored. */
export class RecordCorrupt extends PerdureError {
  readonly region: string
  readonly slot: number

  constructor(region: string, slot: number, why: string) {
    super('PERDURE_RECORD_CORRUPT', `record ${slot} of '${region}': ${why}`)
    this.region = region
    this.slot = slot
  }
}

/** Name of the fault that a PERSIST_ACK status stands for. */
export function faultOfStatus(status: number): string {
  const row = FAULTS.find((one) => one.answer === 'status' && one.code === status)
  return row?.name ?? `STATUS_0x${status.toString(16)}`
}

/** Name of the fault with that number. */
export function faultOfNumber(fault: number): string {
  return FAULTS[fault]?.name ?? `FAULT_${fault}`
}
