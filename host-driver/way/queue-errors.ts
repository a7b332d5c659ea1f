/**
 * What can go wrong at the host's own queues, as errors with codes.
 *
 * Invariant: whatever is refused here was refused before anything was stored: no ring, no
 * zone and no register has changed. A queue that ended says so by completions, not by errors.
 */

import { PerdureError } from '../base/errors.ts'

/** A post that finds too few free units (P3-25): wait for completions, or let the queue grow. */
export class QueueFull extends PerdureError {
  readonly queue: number
  /** Units that the elements need, and units that are free. */
  readonly units: number
  readonly free: number

  constructor(queue: number, units: number, free: number) {
    super('PERDURE_QUEUE_FULL', `queue ${queue}: ${units} units asked for, ${free} are free`)
    this.queue = queue
    this.units = units
    this.free = free
  }
}

/** The memory that the card reaches has no such piece left. */
export class MemoryFull extends PerdureError {
  readonly bytes: number

  constructor(bytes: number, free: number) {
    super('PERDURE_MEMORY_FULL', `no ${bytes} bytes in one piece; ${free} are free in all`)
    this.bytes = bytes
  }
}

/** The queue takes nothing more. */
export class QueueEnded extends PerdureError {
  readonly queue: number
  /** Name of the fault that ended it, as in firmware/board/fault.ts; '' if it was closed. */
  readonly fault: string

  constructor(queue: number, fault: string) {
    const why = fault === '' ? 'it is closed' : `it is in the error state: ${fault}`
    super('PERDURE_QUEUE_ENDED', `queue ${queue}: ${why}`)
    this.queue = queue
    this.fault = fault
  }
}

/** The card is gone: surprise removal, a reset, or its power. */
export class CardRemoved extends PerdureError {
  constructor() {
    super('PERDURE_CARD_REMOVED', 'the card is gone; open it again when it is back')
  }
}
