// hot path
/**
 * Memory of the host that its elements may name: ranges, each by an L_Key that was drawn at random.
 *
 * Invariant: a range is found in one step, by the low byte of its key; a key that was taken
 * back, or was never given, finds nothing; bounds are compared without a sum that could overflow.
 */

import { assert } from '../board/assert.ts'
import { type Fault, MEMORY_KEY, PASS } from '../board/fault.ts'
import { MEMORY_REGIONS } from '../board/limits.ts'

export interface MemoryRegions {
  /** By place: the L_Key, or 0. */
  readonly keys: Uint32Array
  readonly domains: Int32Array
  /** Offset in DMA_SPACE, and bytes. */
  readonly at: Float64Array
  readonly bytes: Float64Array
  count: number
}

export function createMemoryRegions(): MemoryRegions {
  return {
    keys: new Uint32Array(MEMORY_REGIONS),
    domains: new Int32Array(MEMORY_REGIONS),
    at: new Float64Array(MEMORY_REGIONS),
    bytes: new Float64Array(MEMORY_REGIONS),
    count: 0,
  }
}

/** Takes every key back. */
export function clearMemoryRegions(regions: MemoryRegions): void {
  regions.keys.fill(0)
  regions.count = 0
}

/** The key of the range, made of `random` 32 bits; 0 if there is no place. */
export function registerMemory(
  regions: MemoryRegions,
  at: number,
  bytes: number,
  domain: number,
  random: number,
): number {
  let place = 0
  while (place < MEMORY_REGIONS && regions.keys[place] !== 0) place += 1
  if (place === MEMORY_REGIONS) return 0
  // Never 0: the key of a place that is empty.
  const upper = (random >>> 8) % 0xffffff
  const key = (upper + 1) * MEMORY_REGIONS + place
  regions.keys[place] = key
  regions.domains[place] = domain
  regions.at[place] = at
  regions.bytes[place] = bytes
  regions.count += 1
  return key
}

/** False if there is no such key. */
export function deregisterMemory(regions: MemoryRegions, key: number): boolean {
  const place = key & (MEMORY_REGIONS - 1)
  if (key === 0 || regions.keys[place] !== key) return false
  regions.keys[place] = 0
  regions.count -= 1
  return true
}

/** Does the key, in that domain, cover all of [at, at + length)? */
export function memoryFault(
  regions: MemoryRegions,
  key: number,
  domain: number,
  at: number,
  length: number,
): Fault {
  const place = key & (MEMORY_REGIONS - 1)
  if (key === 0 || regions.keys[place] !== key) return MEMORY_KEY
  if (regions.domains[place] !== domain) return MEMORY_KEY
  const offset = at - regions.at[place]!
  const bytes = regions.bytes[place]!
  return offset >= 0 && length <= bytes && offset <= bytes - length ? PASS : MEMORY_KEY
}

assert(MEMORY_REGIONS === 256, 'the place of a region is the low byte of its key')
