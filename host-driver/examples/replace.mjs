/** Records are replaced only where nobody else has replaced them meanwhile. */

/** @import { BatchRecord, Region } from 'perdure' */

/**
 * Stores `bytes` in `slot` if the slot still holds what was read there, and is durable when it
 * resolves to true. False: somebody else has stored something there since, and nothing is changed.
 * So what an earlier program has left on the network changes nothing either, when it comes late.
 * Rejects as `persist` does: after OutcomeUnknown read the slot, then decide.
 *
 * @param {Region} region
 * @param {number} slot
 * @param {Uint8Array} bytes
 * @param {bigint} sequence  what `region.read(slot)` gave
 * @returns {Promise<boolean>}
 */
export async function replace(region, slot, bytes, sequence) {
  const [isStored] = await replaceAll(region, [{ slot, bytes, sequence }])
  return isStored === true
}

/**
 * The same of up to 256 records at once, each by itself: which of them are stored.
 *
 * @param {Region} region
 * @param {readonly { slot: number, bytes: Uint8Array, sequence: bigint }[]} records
 * @returns {Promise<boolean[]>}
 */
export async function replaceAll(region, records) {
  if (records.length === 0) return []
  const batch = region.batch({ condition: 'expect' })
  for (const { slot, bytes, sequence } of records) batch.persist(slot, bytes, { expect: sequence })
  return (await batch.commit()).records.map(isStored)
}

/** @param {BatchRecord} record */
function isStored(record) {
  if (record.status === 'durable') return true
  if (record.status === 'refused' && record.code === 'CONDITION') return false
  throw record.error
}
