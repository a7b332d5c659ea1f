/**
 * Many records of a region, one after the other, for `for await`.
 *
 * Invariants:
 * - Records come in the order of their slots. Reads go ahead of whoever takes them, and never by
 *   more than was said: so much memory is held, however large the region is.
 * - A record that cannot be read ends it, with the error that `read` rejects with; what stands in
 *   front of it has come before.
 */

import { WAIT_KINDS, type WaitOptions } from '../base/give-up.ts'
import { BOOLEAN, integer, type Kinds, SIZE } from '../base/kinds.ts'
import type { SlotRecord } from '../link/slot-image.ts'

/** A record as it was read and verified. */
export interface ReadRecord extends SlotRecord {
  /** Whether anybody has written this slot yet. */
  readonly written: boolean
}

/** Which records, and how they are read. */
export interface RecordsOptions extends WaitOptions {
  /** Slot of the first one; 0 by default. */
  readonly from?: number
  /** Slots that are looked at; by default all there are from there on. */
  readonly count?: number
  /** Records that nobody has written come, too. */
  readonly blank?: boolean
  /** Records that are read before somebody takes them, 1 to 1024; 32 by default. */
  readonly ahead?: number
}

/** A record, and where it stands. */
export interface SlotRead extends ReadRecord {
  readonly slot: number
}

export const RECORDS_KINDS: Kinds<RecordsOptions> = {
  ...WAIT_KINDS,
  from: SIZE,
  count: SIZE,
  blank: BOOLEAN,
  ahead: integer(1, 1024),
}

const AHEAD = 32

/** The records of those slots, from `from` to before `to`, in their order. */
export async function* recordsOf(
  read: (slot: number) => Promise<ReadRecord>,
  from: number,
  to: number,
  { ahead = AHEAD, blank = false }: RecordsOptions,
): AsyncGenerator<SlotRead, void, undefined> {
  const reads: Promise<ReadRecord>[] = []
  for (let slot = from; slot < to; slot++) {
    for (let next = slot + reads.length; reads.length < ahead && next < to; next++) {
      const one = read(next)
      // Whoever has stopped taking them hears of no error.
      one.catch(() => {})
      reads.push(one)
    }
    const record = await reads.shift()!
    if (record.written || blank) yield { slot, ...record }
  }
}
