/**
 * What stands in a region already of what shall be there.
 *
 * Invariant: a record counts only if the card gives it back, verified, as it shall be, and
 * so do all before it; a few records are in memory at once.
 */

import type { ReadRecord } from '../../records/records.ts'
import type { Region } from '../../records/region.ts'

/** Reads that are under way at once. */
const AHEAD = 16

interface Asked {
  readonly record: Uint8Array
  readonly read: Promise<ReadRecord>
}

/**
 * How many of the records stand there, from that slot on, up to the first that does not. `stands`
 * is called for each, in order. Rejects where a record is lost.
 */
export async function standingFrom(
  region: Region,
  slot: number,
  records: AsyncIterable<Uint8Array>,
  stands: () => void,
): Promise<number> {
  const asked: Asked[] = []
  let count = 0
  const next = async (): Promise<boolean> => {
    const { record, read } = asked.shift()!
    const { data, written } = await read
    if (!written || Buffer.compare(data, record) !== 0) return false
    count++
    stands()
    return true
  }
  let at = slot
  for await (const record of records) {
    const read = region.read(at++)
    read.catch(() => {})
    asked.push({ record, read })
    if (asked.length >= AHEAD && !(await next())) return count
  }
  while (asked.length > 0) if (!(await next())) return count
  return count
}
