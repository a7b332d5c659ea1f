/** What is played: an operation, who goes before which step, and how it comes back. */

import type { Event, Level, Placement } from './rig.ts'
import { WAYS, type Way } from './ways.ts'

/**
 * A record comes over a connection of the card's own (`write`), from a queue of the host (`post`),
 * or over a queue pair of the host (`peer`); or the part is looked after. What knows no PERSIST_ACK
 * comes, too (plain.ts); and a batch of two in order, of which the host is told (batches.ts).
 */
export const OPERATIONS = [
  'write',
  'post',
  'peer',
  'repair',
  'format',
  'scan',
  'discard',
  'plain',
  'bytes',
  'atomic',
  'flush',
  'batch',
] as const
export type OperationName = (typeof OPERATIONS)[number]

/**
 * How what has gone comes back: at once, before anybody has looked; late, when everybody has waited
 * for long; the card before its host; with DDIO the other way first; and a host that goes again
 * when clients were there, and its driver was not.
 */
export const BACKS = ['at-once', 'late', 'card-first', 'flipped', 'host-again'] as const
export type Back = (typeof BACKS)[number]

export interface Script {
  readonly operation: OperationName
  readonly placement: Placement
  readonly level: Level
  /** Of a repair: which of the media that need one. */
  readonly base: number
  readonly event: Event | null
  readonly back: Back
  readonly nested: Event | null
}

/** Into bytes: of these there is one copy, and no record. */
const INTO_BYTES = ['bytes', 'atomic', 'flush'] as const
type IntoBytes = (typeof INTO_BYTES)[number]

/** What a requester takes for durable by what its own protocol says. */
export type PlainName = 'plain' | IntoBytes

export function isIntoBytes(operation: OperationName): operation is IntoBytes {
  return INTO_BYTES.some((one) => one === operation)
}

export function isPlain(operation: OperationName): operation is PlainName {
  return operation === 'plain' || isIntoBytes(operation)
}

export function isWay(operation: OperationName): operation is Way {
  return WAYS.some((way) => way === operation)
}
