/**
 * What a restart does with a record, written a second time from the crash model (3.1, 3.3), and not
 * from the table of the firmware: which case it is, which copy stays.
 *
 * Invariant: nothing here is imported from `firmware/`. The number of a case is the one
 * that the report of a recovery gives, in the order of firmware/doc/recovery.md.
 */

type Action = 'none' | 'useA' | 'useB' | 'lost'

export interface Decided {
  readonly name: string
  readonly action: Action
  /** The case of source 1 [0088-0104], or 0 where only a media error leads there. */
  readonly sourceCase: number
}

interface Found {
  readonly lane: 'A' | 'B' | 'none'
  readonly a: boolean
  readonly b: boolean
  readonly same: boolean
  /** Is B the lane's own record, or without a lane later than A? */
  readonly isNew: boolean
  /** May a newer one have been acknowledged, or shown? */
  readonly promised: boolean
}

/** By the number of the report. */
export const DECIDED: readonly Decided[] = [
  { name: 'before A', action: 'none', sourceCase: 1 },
  { name: 'A torn', action: 'useB', sourceCase: 2 },
  { name: 'A whole, unmarked', action: 'useB', sourceCase: 3 },
  { name: 'B unreadable, A whole', action: 'useA', sourceCase: 0 },
  { name: 'both torn in A', action: 'lost', sourceCase: 0 },
  { name: 'equal but invalid in A', action: 'lost', sourceCase: 0 },
  { name: 'after B', action: 'none', sourceCase: 5 },
  { name: 'between', action: 'useA', sourceCase: 3 },
  { name: 'B torn', action: 'useA', sourceCase: 4 },
  { name: 'A unreadable, B new', action: 'useB', sourceCase: 0 },
  { name: 'A unreadable, B old, acknowledged', action: 'lost', sourceCase: 0 },
  { name: 'A unreadable, B old, not acknowledged', action: 'useB', sourceCase: 0 },
  { name: 'both torn in B', action: 'lost', sourceCase: 0 },
  { name: 'equal but invalid in B', action: 'lost', sourceCase: 0 },
  { name: 'clean', action: 'none', sourceCase: 5 },
  { name: 'A newer', action: 'useA', sourceCase: 3 },
  { name: 'B newer', action: 'useB', sourceCase: 0 },
  { name: 'only A valid', action: 'useA', sourceCase: 4 },
  { name: 'only B valid', action: 'useB', sourceCase: 2 },
  { name: 'both torn', action: 'lost', sourceCase: 0 },
  { name: 'equal but invalid', action: 'lost', sourceCase: 0 },
]

/**
 * Which copy stays. In phase A all but the first are whole and old, so B goes over A; in phase B
 * the first is whole and new. Validity decides only where a copy is gone, or without a lane. What
 * may have been promised is lost rather than older; nothing whole is nothing to copy.
 */
export function decide({ lane, a, b, same, isNew, promised }: Found): Action {
  if (!a && !b) return 'lost'
  if (a && b && same) return 'none'
  if (lane === 'A') return b ? 'useB' : 'useA'
  if (lane === 'B') return a ? 'useA' : isNew || !promised ? 'useB' : 'lost'
  return a && !(b && isNew) ? 'useA' : 'useB'
}
