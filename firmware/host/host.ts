/**
 * The queues of our own host: what the card holds of them while there is a host (source 3).
 *
 * What always holds: everything that a queue needs to go on lies in the host's memory; what is here
 * is a cache of it, and may be dropped and read again at any time. Memory is made once, from the
 * limits, and does not grow with the number of queues.
 */

/** What is counted, by name: `perdure inspect --queues` shows them in this order. */
export const QUEUE_COUNTERS = [
  'doorbells',
  'doorbellsRefused',
  'pointerReads',
  'elements',
  'elementReads',
  'elementsRefused',
  'completions',
  'interrupts',
  'events',
  'hits',
  'misses',
  'insertions',
  'evictions',
  'refills',
  'sweeps',
  'queueErrors',
] as const
export type QueueCounter = (typeof QUEUE_COUNTERS)[number]

export interface HostQueues {
  /** The epoch of the header page that was taken, or 0: there is no host. */
  epoch: number
  /** Queues that the host made room for: K. */
  queues: number
  /** Addresses of the zones, in DMA_SPACE's own bytes. */
  zone1: number
  zone2: number
  zone3: number
  /** ORDER_DISTANCE or ORDER_TIME. */
  pointerOrder: number
  /** By place in QUEUE_COUNTERS. */
  readonly counters: Float64Array
}

export function createHostQueues(_memory: ArrayBuffer): HostQueues {
  return {
    epoch: 0,
    queues: 0,
    zone1: 0,
    zone2: 0,
    zone3: 0,
    pointerOrder: 0,
    counters: new Float64Array(QUEUE_COUNTERS.length),
  }
}
