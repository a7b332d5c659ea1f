/**
 * What stands in a region already of what shall be there.
 *
 * Invariant: a record counts only if the card gives it back, verified, as it shall be, and
 * so do all before it; a few records are in memory at once.
 */

import type { Region } from '../../records/region.ts'

/**
 * How many of the records stand there, from that slot on, up to the first that does not; there are
 * `total` of them. `stands` is called for each, in order. Rejects where a record is lost.
 */
export async function standingFrom(
  region: Region,
  slot: number,
  total: number,
  records: AsyncIterable<Uint8Array>,
  stands: () => void,
): Promise<number> {
  const there = region.records({ from: slot, count: total, blank: true })
  let count = 0
  for await (const record of records) {
    const { value } = await there.next()
    if (!value?.written || Buffer.compare(value.data, record) !== 0) break
    count++
    stands()
  }
  await there.return()
  return count
}
