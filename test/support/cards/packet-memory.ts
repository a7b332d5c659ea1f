/**
 * Packet memories for cards that are started by the thousand: a new one of ten megabytes costs more
 * than most starts.
 *
 * Invariant: what is taken is zero except for payloads, which no start reads; nobody else has
 * it until it is given back.
 */

import {
  BATCHES_AT,
  COMPLETIONS_AT,
  EXPECT_AT,
  LSB_AT,
  MEMORY_BYTES,
  STAGING_AT,
  THROUGH_AT,
} from '../../../firmware/board/memory-map.ts'

/** What is zero at power-on: everything but payloads. */
const CLEARED: readonly (readonly [number, number])[] = [
  [0, STAGING_AT],
  [LSB_AT, THROUGH_AT],
  [COMPLETIONS_AT, BATCHES_AT],
  [EXPECT_AT, MEMORY_BYTES],
]

if (CLEARED.some(([from, to]) => from > to)) throw new RangeError('the map of packet memory moved')

/** Those that nobody has now. */
const pool: Uint8Array[] = []

/** Zeroes it as a power-on does. */
export function clearPacketMemory(memory: Uint8Array): void {
  for (const [from, to] of CLEARED) memory.fill(0, from, to)
}

export function takePacketMemory(): Uint8Array {
  const used = pool.pop()
  if (used === undefined) return new Uint8Array(MEMORY_BYTES)
  clearPacketMemory(used)
  return used
}

/** The caller does not look at it again. */
export function givePacketMemory(memory: Uint8Array): void {
  pool.push(memory)
}
