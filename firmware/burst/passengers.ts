/**
 * What is known of records on their way to another DPU (relay.ts).
 */

import { RELAYS, STAGING_BUFFERS } from '../board/limits.ts'
import type { Region } from '../medium/region.ts'
import type { QueuePair } from '../transport/queue-pair.ts'

/** Where a relay's records go. */
export interface Relay {
  /** The queue pair to the other DPU, or null while there is none. */
  qp: QueuePair | null
  /** The region's key there. */
  rkey: number
  /** Whose records it takes, and in whose name the link speaks. */
  clientHigh: number
  clientLow: number
}

/** A record on its way; its number is that of the staging buffer that holds it. */
export interface Passenger {
  /** Queue pair of the host; null while the buffer is not a relay's. */
  qp: QueuePair | null
  /** Where it was to go, its bytes of data, and when it came, µs. */
  region: Region | null
  length: number
  sinceUs: number
  psn: number
  operationHigh: number
  operationLow: number
  wantsAck: boolean
  /** The outcome is known: `status` and `copies` as they are remembered. */
  done: boolean
  status: number
  copies: number
}

export interface Relays {
  readonly relays: readonly Relay[]
  readonly passengers: readonly Passenger[]
  /** Passengers whose host is to be told. */
  arrived: number
}

export function createRelays(): Relays {
  const relays: Relay[] = []
  for (let i = 0; i < RELAYS; i++) relays.push({ qp: null, rkey: 0, clientHigh: 0, clientLow: 0 })
  const passengers: Passenger[] = []
  for (let i = 0; i < STAGING_BUFFERS; i++) passengers.push(blankPassenger())
  return { relays, passengers, arrived: 0 }
}

function blankPassenger(): Passenger {
  return {
    qp: null,
    region: null,
    length: 0,
    sinceUs: 0,
    psn: 0,
    operationHigh: 0,
    operationLow: 0,
    wantsAck: false,
    done: false,
    status: 0,
    copies: 0,
  }
}
