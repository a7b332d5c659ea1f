// hot path
/**
 * Groups of blocks that are of one use (source 5, ¶86; S1-M12): whoever uses the memory names
 * ranges of bytes together, such as those of an index, and asks of all of them at once.
 *
 * All blocks of an association have one size, so there are no groups of larger and of smaller ones;
 * what differs from block to block is what it is used for, and only its user knows that.
 *
 * Invariants:
 * - A block is in every group of which it holds a byte, and counts there once. So a group is ready
 *   exactly when every byte of its ranges was told to be ready.
 * - Counter and flag go by the rules of groups of blocks in a row (blocks.ts): one up when a member
 *   becomes ready, one down when it ceases to be; the flag from the first member that is not in
 *   memory until all are ready.
 * - Ranges are bytes, so the groups are the same whatever size of block is agreed.
 */

/** Groups that may be named. */
export const NAMED_GROUPS = 8

/** Bytes from one place to another, of the group of that number. */
export interface NamedRange {
  readonly group: number
  readonly from: number
  readonly to: number
}

export interface NamedGroups {
  readonly ranges: readonly NamedRange[]
  /** Groups that each block is in: a bit of each. */
  readonly masks: Uint8Array
  /** Of each group: its blocks, those of them that are ready, and whether one is not there. */
  readonly sizes: Uint32Array
  readonly ready: Uint32Array
  readonly flags: Uint8Array
}

/** Of so many blocks at the most. */
export function createNamedGroups(capacity: number, ranges: readonly NamedRange[]): NamedGroups {
  return {
    ranges,
    masks: new Uint8Array(capacity),
    sizes: new Uint32Array(NAMED_GROUPS),
    ready: new Uint32Array(NAMED_GROUPS),
    flags: new Uint8Array(NAMED_GROUPS),
  }
}

/** Blocks of so many bytes (log2), up to that length, are in the groups of their ranges. */
export function placeNamed(named: NamedGroups, length: number, sizeLog2: number): void {
  const { ranges, masks, sizes } = named
  masks.fill(0)
  sizes.fill(0)
  for (let i = 0; i < ranges.length; i++) {
    const { group, from, to } = ranges[i]!
    const end = to < length ? to : length
    if (from >= end) continue
    const last = Math.floor((end - 1) / 2 ** sizeLog2)
    for (let block = Math.floor(from / 2 ** sizeLog2); block <= last; block++) {
      if (((masks[block]! >> group) & 1) !== 0) continue
      masks[block]! |= 1 << group
      sizes[group]! += 1
    }
  }
}

/** Nothing is counted yet. */
export function clearNamed(named: NamedGroups): void {
  named.ready.fill(0)
  named.flags.fill(0)
}

/** The block counts as what it is. */
export function countNamed(named: NamedGroups, block: number, ready: boolean): void {
  for (let group = 0; group < NAMED_GROUPS; group++) {
    if (!isMember(named, block, group)) continue
    if (ready) named.ready[group]! += 1
    else named.flags[group] = 1
  }
}

/** A block became ready that was not. */
export function namedCame(named: NamedGroups, block: number): void {
  for (let group = 0; group < NAMED_GROUPS; group++) {
    if (!isMember(named, block, group)) continue
    named.ready[group]! += 1
    if (named.ready[group] === named.sizes[group]) named.flags[group] = 0
  }
}

/** A block was told not to be in memory; it may have been ready before. */
export function namedWent(named: NamedGroups, block: number, wasReady: boolean): void {
  for (let group = 0; group < NAMED_GROUPS; group++) {
    if (!isMember(named, block, group)) continue
    named.flags[group] = 1
    if (wasReady) named.ready[group]! -= 1
  }
}

function isMember(named: NamedGroups, block: number, group: number): boolean {
  return ((named.masks[block]! >> group) & 1) !== 0
}
