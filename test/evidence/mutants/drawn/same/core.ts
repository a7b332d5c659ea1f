/** The same programs beside the folders. */

import type { Equivalent } from './equivalent.ts'

export const CORE: readonly Equivalent[] = [
  {
    at: 'main.ts burst',
    line: 'refusals: new Float64Array(QUEUE_PAIRS + 1),',
    mutant: 'refusals: new Float64Array(QUEUE_PAIRS + 2),',
    because: 'it has room for one more; how many of it count stands beside it',
  },
  {
    at: 'board/memory-map.ts',
    line: 'const QUEUE_INFOS = 4',
    mutant: 'const QUEUE_INFOS = 5',
    because: 'there is room for one more, and what lies behind it moves by as much',
  },
]
