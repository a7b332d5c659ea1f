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
  {
    at: 'manage/once.ts oldestOfMost',
    line: 'for (const { source } of answers) counts.set(source, (counts.get(source) ?? 0) + 1)',
    mutant: 'for (const { source } of answers) counts.set(source, (counts.get(source) ?? 0) + 2)',
    because: 'counts are compared with one another alone',
  },
  {
    at: 'manage/pieces.ts change',
    line: 'commitNow(state)',
    mutant: ';',
    because: 'calls are executed behind the burst, whose group is committed then',
  },
  {
    at: 'manage/region-job.ts findWork',
    line: 'regionJob.index = index beginWork(state, entry.copies * entry.areaBytes)',
    mutant: ';beginWork(state, entry.copies * entry.areaBytes) ;regionJob.index = index',
    because: 'to begin sets other fields of the job, and reads none',
  },
]
