/**
 * Recovery as a table: what the copies of one record may look like after an interruption, and what
 * is done about it.
 *
 * Legend. A is the first copy; B is the one that counts of those behind it (medium/copies.ts: the
 * latest valid one, and of several of that write the first), or the last copy if none is valid.
 *   phase     what the record's lane says: A, B, or none (`-`: no lane, a scan of everything)
 *   A, B      is the copy valid: readable, and its check code right (D-3)? A counts as unreadable
 *             too where the lane carries the record forward, A is older than the lane says, and B
 *             is the lane's own: the medium said that it had stored A, and had not (L1).
 *   same      are both copies the same bytes (P1-19: length, data and check code)?
 *   B current does B carry the sequence of the lane (phase B), or a later one than A (no lane), so
 *             that it counts of all?
 *   promised  may it have been acknowledged though B is old? All copies that the acknowledgement
 *             waited for stand before B, and the medium lost them: those behind A are unreadable.
 *             At level 1of2 that is A alone.
 *
 * Invariant: exactly one row matches any combination (a test walks them all); no row
 * overwrites a copy when no valid one is known (P1-24, P1-25); every action copies a whole copy
 * over others, so a cut at any point of it leaves the same row, or "same", for the next recovery
 * (P1-26).
 *
 * Why phase decides before validity (D-2): in phase A copy B is whole by construction, in phase B
 * copy A is, whatever a check code says by chance. Validity decides only where the medium lost a
 * copy, and in a scan.
 *
 * Why unreadable and torn differ: the acknowledgement leaves behind the fence of the last copy that
 * it waits for, and a copy that was fenced is never torn by a cut. So a copy behind A that can be
 * read and is not whole says that the fence was not passed: what is old may stand for the record.
 * One that cannot be read says nothing, and the record is lost rather than older than acknowledged.
 */

import { PHASE_A, PHASE_B, PHASE_NONE } from '../medium/lane.ts'

/** What is done with the record. */
type Action = 'none' | 'useA' | 'useB' | 'lost'

export interface CopyFacts {
  readonly phase: number
  readonly aValid: boolean
  readonly bValid: boolean
  readonly same: boolean
  readonly bCurrent: boolean
  readonly promised: boolean
}

interface Case {
  readonly name: string
  readonly phase: number
  /** 1 yes, 0 no, -1 any; in the order of the legend: A, B, same, B current, promised. */
  readonly when: readonly [number, number, number, number, number]
  readonly then: Action
  /** The case of source 1 [0088-0104], or 0 where only a media error leads there. */
  readonly sourceCase: number
}

const __ = -1

function line(
  name: string,
  phase: number,
  when: readonly [number, number, number, number, number],
  then: Action,
  sourceCase: number,
): Case {
  return { name, phase, when, then, sourceCase }
}

//                                            A   B  same Bcur prom.
export const CASES: readonly Case[] = [
  line('before A', PHASE_A, [1, 1, 1, __, __], 'none', 1),
  line('A torn', PHASE_A, [0, 1, __, __, __], 'useB', 2),
  line('A whole, unmarked', PHASE_A, [1, 1, 0, __, __], 'useB', 3),
  line('B unreadable, A whole', PHASE_A, [1, 0, __, __, __], 'useA', 0),
  line('both torn in A', PHASE_A, [0, 0, 0, __, __], 'lost', 0),
  line('equal but invalid in A', PHASE_A, [0, 0, 1, __, __], 'lost', 0),
  line('after B', PHASE_B, [1, 1, 1, __, __], 'none', 5),
  line('between', PHASE_B, [1, 1, 0, __, __], 'useA', 3),
  line('B torn', PHASE_B, [1, 0, __, __, __], 'useA', 4),
  line('A unreadable, B new', PHASE_B, [0, 1, __, 1, __], 'useB', 0),
  line('A unreadable, B old, acknowledged', PHASE_B, [0, 1, __, 0, 1], 'lost', 0),
  line('A unreadable, B old, not acknowledged', PHASE_B, [0, 1, __, 0, 0], 'useB', 0),
  line('both torn in B', PHASE_B, [0, 0, 0, __, __], 'lost', 0),
  line('equal but invalid in B', PHASE_B, [0, 0, 1, __, __], 'lost', 0),
  line('clean', PHASE_NONE, [1, 1, 1, __, __], 'none', 5),
  line('A newer', PHASE_NONE, [1, 1, 0, 0, __], 'useA', 3),
  line('B newer', PHASE_NONE, [1, 1, 0, 1, __], 'useB', 0),
  line('only A valid', PHASE_NONE, [1, 0, __, __, __], 'useA', 4),
  line('only B valid', PHASE_NONE, [0, 1, __, __, __], 'useB', 2),
  line('both torn', PHASE_NONE, [0, 0, 0, __, __], 'lost', 0),
  line('equal but invalid', PHASE_NONE, [0, 0, 1, __, __], 'lost', 0),
]

/** The row that a scan finds where nothing is to be done. */
export const CLEAN_ROW: number = CASES.findIndex(
  (row) => row.phase === PHASE_NONE && row.then === 'none',
)

function fits(want: number, is: boolean): boolean {
  return want === -1 || (want === 1) === is
}

export function caseMatches(row: Case, facts: CopyFacts): boolean {
  return (
    row.phase === facts.phase &&
    fits(row.when[0], facts.aValid) &&
    fits(row.when[1], facts.bValid) &&
    fits(row.when[2], facts.same) &&
    fits(row.when[3], facts.bCurrent) &&
    fits(row.when[4], facts.promised)
  )
}

/** The number of the row that matches; the table is total, so there is one. */
export function judgeCopies(facts: CopyFacts): number {
  for (let i = 0; i < CASES.length; i++) if (caseMatches(CASES[i]!, facts)) return i
  throw new Error('bug: the recovery table is not total')
}
