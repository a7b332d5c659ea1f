/**
 * Conditions that no input can make decide alone, each with the argument. A condition is named by
 * its file, its text and all conditions of its decision, so that code may move.
 */

/** What is argued of conditions of one decision. */
interface Argued {
  readonly file: string
  /** All conditions of the decision, in the order in which they stand. */
  readonly of: readonly string[]
  /** Which of them never decide, and by being what. */
  readonly never: readonly (readonly [condition: string, value: boolean])[]
  readonly as: string
}

const CONDITIONS: readonly Argued[] = [
  {
    file: 'firmware/commit/cases.ts',
    of: ['row.phase === PHASE_NONE', "row.then === 'none'"],
    never: [["row.then === 'none'", false]],
    as: `It is asked of the rows of a constant table, from the first one on, until one fits. The
      first row without a lane is the one that fits, so no row without a lane is asked before it.`,
  },
  {
    file: 'firmware/commit/recovery.ts',
    of: ['outcome.row === CLEAN_ROW', 'outcome.repaired === 0', 'outcome.failure === 0'],
    never: [['outcome.failure === 0', false]],
    as: `A repair of a record in the clean row stores over copies that differ, and nothing else:
      with none of them its list is empty, and nothing in it fails. A host that did not answer has
      been told before.`,
  },
  {
    file: 'firmware/commit/recovery.ts',
    of: ['ownerOf(list, i) <= 0', 'resultOf(list, i) === 0'],
    never: [['ownerOf(list, i) <= 0', true]],
    as: `Only commands before the fence are asked, and each of these is the copy over one lane,
      which owns it. It stands there for a board that pushes something in between.`,
  },
  {
    file: 'firmware/engine/receipt.ts',
    of: ['copies >> MECHANISM_SHIFT', 'MECHANISM_LOCAL_FLUSH'],
    never: [
      ['copies >> MECHANISM_SHIFT', false],
      ['MECHANISM_LOCAL_FLUSH', false],
    ],
    as: `It is a number with a default, and no decision: the default is a constant that is not 0.
      Both ways of the number are played.`,
  },
  {
    file: 'firmware/engine/receipt.ts',
    of: [
      'open === NO_RANGE',
      'range.segment !== item.segment',
      'range.mechanism !== mechanism',
      'psnDistance(item.psn, range.firstPsn) >= RANGE_PSNS',
    ],
    never: [['psnDistance(item.psn, range.firstPsn) >= RANGE_PSNS', true]],
    as: `The records of a group came in one burst of 32 frames, and each frame has one PSN. Only a
      READ has more, and a record behind one has the burst settled first (core.ts, executeMessage),
      so it is in another group. It stands there as the wire's bound of a range is no matter of the
      length of a burst.`,
  },
]

/** The argument, by the name that decided.ts gives to what a condition lacks. */
export const ARGUED: ReadonlyMap<string, string> = new Map(
  CONDITIONS.flatMap(({ file, of, never, as }) => {
    return never.map(([condition, value]): [string, string] => {
      const name = `${file}: ${condition} decides by being ${value}, in: ${of.join(' , ')}`
      return [name, as.replace(/\s+/g, ' ')]
    })
  }),
)
