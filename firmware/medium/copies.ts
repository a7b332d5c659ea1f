/**
 * Which of a record's copies counts: one rule, for every start, scan, scrub and repair of the card,
 * and for a client that reads the copies by itself (D-4, P1-21, P1-22, P1-31).
 *
 * The rule: of the valid copies those of the latest write count, and of these the first in the
 * order of writing. No vote is taken, and nobody asks how many copies are the same.
 *
 * What a cut can leave. A record has two to four copies, written in order, each behind the fence of
 * the one before it; the next write of the record begins behind the fence of the last (P1-9, P1-10,
 * P1-12). So one copy at the most is being written at any instant, and in the order of writing
 * stand
 *
 *     new …   copies of the write that was cut; none, some, or all
 *     torn    one at the most: valid it is one of the new ones, or still one of the old ones
 *     old …   the rest
 *
 * Along them sequences never rise, for a later write has the greater one (slot.ts). So the copy
 * that counts is the first valid one: source 1's rule ([0105] to [0107]) for any number of copies.
 * It is new wherever the first fence was passed, and so wherever anything was acknowledged. What
 * the medium has lost besides takes some out of this row, and turns nothing round.
 *
 * What a cut of the repair leaves. It writes the copy that counts over the others, one after the
 * other in their order, each behind a fence. Forward that goes on with the same row. Back, where a
 * lane says so (cases.ts), the first copy alone is new, and is written over: torn, old, …, old.
 *
 * Where fences did not hold. A scan is made because a save failed, which keeps any of the lines; or
 * to find stores that the medium said to have done and had not (L1). There alone may a copy be
 * later than a valid one before it, as in old, new, old. The later one was begun behind the fence
 * of the earlier one. So its write had passed that fence: it may have been acknowledged, and shown.
 * It is whole, and it is one that a client has asked for. To take the first valid one would write
 * an older record over the only copies of an acknowledged one, and say nothing. The latest is never
 * older than the first, so it is right with fences and without.
 *
 * No chance decides: the check code covers the sequence as it does the data, and what agrees by
 * chance does so once in 2^128. Copies of one sequence are the same to the byte.
 *
 * Where a lane names the record its phase goes first, and this rule decides among the copies behind
 * the first (D-2, cases.ts).
 */

import type { SlotHeader } from './slot.ts'

/** The sequence of a header or of an intent. */
type Sequence = Pick<SlotHeader, 'sequenceLow' | 'sequenceHigh'>

/** A copy whose check code was judged; of one that is not valid the header says nothing. */
interface JudgedCopy {
  readonly valid: boolean
  readonly header: Sequence
}

/** Is the sequence of `a` later than that of `b`? */
export function sequenceAfter(a: Sequence, b: Sequence): boolean {
  if (a.sequenceHigh !== b.sequenceHigh) return a.sequenceHigh > b.sequenceHigh
  return a.sequenceLow > b.sequenceLow
}

/** The copy of [first, end) that counts, or -1 where none is valid. */
export function countingCopy(copies: readonly JudgedCopy[], first: number, end: number): number {
  let found = -1
  for (let c = first; c < end; c++) {
    const { valid, header } = copies[c]!
    if (!valid) continue
    if (found < 0 || sequenceAfter(header, copies[found]!.header)) found = c
  }
  return found
}
