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
]
