/** The same programs of `residency/`. */

import type { Equivalent } from './equivalent.ts'

export const RESIDENCY: readonly Equivalent[] = [
  {
    at: 'residency/association.ts createAssociation',
    line: 'queueCount: 0,',
    mutant: 'queueCount: 1,',
    because:
      'one that begins is stale: endCount empties its queue before anything is noted or told',
  },
  {
    at: 'residency/heard.ts',
    line: 'export const NOTICE_STALE = 1',
    mutant: 'export const NOTICE_STALE = 2',
    because: 'nobody asks takeNotice what became of a notice but tests, and these by the name',
  },
  {
    at: 'residency/association.ts beginAssociation',
    line: 'a.periodUs = 0',
    mutant: 'a.periodUs = 1',
    because: 'who begins one says next how often it wants to be told',
  },
  {
    at: 'residency/size.ts suggestedFor',
    line: 'if (size > most) return most',
    mutant: 'if (size >= most) return most',
    because: 'the least is not above the most: of one that is equal to the most both say the same',
  },
  {
    at: 'residency/association.ts createAssociation',
    line: 'stale: false,',
    mutant: 'stale: true,',
    because: 'one that begins is stale, and one that has not begun is not looked at',
  },
]
