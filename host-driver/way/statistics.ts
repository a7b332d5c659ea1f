/** What a client has done so far, over all its connections. */

import type { RequesterCounts } from '../../firmware/transport/requester.ts'
import type { WireCounts } from './way.ts'

/** The counts of the requester and of the wire, and what the records amount to. */
export interface Statistics extends RequesterCounts, WireCounts {
  /** Records given to `persist`, and those that are durable. */
  records: number
  recordsDurable: number
  /** Data in them, bytes. */
  payloadBytes: number
  /** Connections that were made. */
  connections: number
  /** Records that a reconnection found durable, and those that it sent again. */
  recovered: number
  sentAgain: number
  /** Batches, the bursts that they were sent in, and the answers that were waited for. */
  batches: number
  bursts: number
  batchWaits: number
}

/** Adds the counts of one queue pair to the sum of those before. */
export function addCounts(total: RequesterCounts, more: RequesterCounts): RequesterCounts {
  const sum = { ...total }
  for (const name of Object.keys(more) as (keyof RequesterCounts)[]) sum[name] += more[name]
  return sum
}
