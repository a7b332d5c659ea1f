/**
 * Which guard a record brings: the CRC-32C of its data, from who made them to the medium and back
 * (S1-M1).
 *
 * Invariant: the guard is over the bytes that the caller gave, before any copy of them is made. So
 * what damages a copy on its way, in this process, too, is found by the DPU.
 */

import { guardOf as computed } from '../../boards/software/guard.ts'
import { ArgumentError } from '../base/errors.ts'
import { checkBytes, type Kind } from '../base/kinds.ts'
import { type ConnectOptions, warn } from './options.ts'
import type { OpenRegion } from './region-handle.ts'

/** True and false, or the guard itself. */
export const GUARD: Kind = {
  give: 'true, false, or 1 to 2^32 - 1',
  takes: (value) =>
    typeof value === 'boolean' ||
    (Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 32),
}

/** The guard of those bytes, 1 to 2^32 - 1, for `Region.persist`. Throws PERDURE_ARGUMENT. */
export function guardOf(bytes: Uint8Array): number {
  checkBytes('bytes:', bytes)
  return computed(bytes)
}

/** Who asks for guards; told once of regions that take none. */
interface Asker {
  readonly options: ConnectOptions
  readonly unguarded: Set<string>
}

/**
 * The guard of a record of `bytes`, or 0 where the region takes none, or none is wanted. Throws
 * PERDURE_ARGUMENT where one was computed, and the region takes none.
 */
export function guardFor(
  { options, unguarded }: Asker,
  { info }: OpenRegion,
  bytes: Uint8Array,
  wanted: boolean | number | undefined = options.guard,
): number {
  if (wanted === false) return 0
  if (info.takesGuards) return typeof wanted === 'number' ? wanted : computed(bytes)
  // Who has not asked for any is not told of older firmware.
  if (wanted === undefined) return 0
  const what = `region '${info.name}' takes no guards: its DPU has older firmware`
  if (wanted !== true) throw new ArgumentError(`${what}; persist without`)
  if (unguarded.has(info.name)) return 0
  unguarded.add(info.name)
  warn(options, `${what}. Records go without.`, 'PERDURE_GUARD')
  return 0
}
