/** The same programs of `host/`. */

import type { Equivalent } from './equivalent.ts'

export const HOST: readonly Equivalent[] = [
  {
    at: 'host/host.ts createHostQueues',
    line: 'zone1: 0,',
    mutant: 'zone1: 1,',
    because: 'without a host there are no queues, and the host that is taken says where it is',
  },
  {
    at: 'host/pending.ts createPending',
    line: 'waiting: 0,',
    mutant: 'waiting: 1,',
    because: 'clearPending, which is called next, sets it',
  },
  {
    at: 'host/take-host.ts layoutFault',
    line:
      'if (word(0) !== page.HEADER_MAGIC || word(4) !== page.HEADER_VERSION) ' +
      'return HEADER_PAGE',
    mutant:
      'if (word(0) !== page.HEADER_MAGIC || word(5) !== page.HEADER_VERSION) ' +
      'return HEADER_PAGE',
    because: 'bytes 4 to 7 of the page are the same word',
  },
  {
    at: 'host/pending.ts stand',
    line: 'before[head] = queue marks[queue]! |= STANDS',
    mutant: ';marks[queue]! |= STANDS ;before[head] = queue',
    because: 'two arrays, and neither store reads the other',
  },
  {
    at: 'host/host.ts blankCompletion',
    line: 'length: 0,',
    mutant: 'length: 1,',
    because: 'who describes a completion blanks all of it before',
  },
  {
    at: 'host/host.ts createHostQueues',
    line: 'zone2: 0,',
    mutant: 'zone2: 1,',
    because: 'the header page of a host says it before anything of the host is read',
  },
  {
    at: 'host/work.ts blankPair',
    line: 'batchLeft: 0,',
    mutant: 'batchLeft: 1,',
    because: 'a pair that begins sets it, and of one that has not begun nothing ends',
  },
  {
    at: 'host/context-cache.ts createContexts',
    line: 'earlier: new Int16Array(CONTEXTS + 1),',
    mutant: 'earlier: new Int16Array(CONTEXTS + 2),',
    because: 'one place more, which is no context’s',
  },
]
