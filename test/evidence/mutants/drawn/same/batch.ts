/** The same programs of `batch/`. */

import type { Equivalent } from './equivalent.ts'

export const BATCH: readonly Equivalent[] = [
  {
    at: 'batch/batch.ts durableUpToIndex',
    line: 'while (index < count && bitmap[index >> 5] === 0xffffffff) index += 32',
    mutant: 'while (index < count && bitmap[index << 5] === 0xffffffff) index += 32',
    because: 'from 32 on it leaves the bitmap and stops; the loop behind it looks at every bit',
  },
  {
    at: 'batch/batch.ts durableUpToIndex',
    line:
      'while (index < count && (bitmap[index >> 5]! & (0x80000000 >>> (index & 31))) !== 0) ' +
      'index += 1',
    mutant:
      'while (index <= count && (bitmap[index >> 5]! & (0x80000000 >>> (index & 31))) !== 0) ' +
      'index += 1',
    because: 'behind the last record no bit is set, and the count is the most that is returned',
  },
]
