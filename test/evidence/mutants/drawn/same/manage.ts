/** The same programs of `manage/`. */

import type { Equivalent } from './equivalent.ts'

export const MANAGE: readonly Equivalent[] = [
  {
    at: 'manage/zone2.ts lockQueue',
    line:
      'bytes[zone1 + info.Z1_STATE] = info.QUEUE_PAUSED ' +
      'seen.putWord(state, zone1 + info.Z1_LOCK, token)',
    mutant:
      ';seen.putWord(state, zone1 + info.Z1_LOCK, token) ' +
      ';bytes[zone1 + info.Z1_STATE] = info.QUEUE_PAUSED',
    because: 'they write two fields of zone 1, and nothing is read in between',
  },
]
