/** Whether a record is lost: nobody else may give it up (D-14). */

import { RecordCorrupt, RecordLost } from '../base/errors.ts'
import type { Region } from './region.ts'

/** Whether no copy of it can stand for it. Rejects as `read` does where that cannot be told. */
export async function isLost(region: Region, record: number): Promise<boolean> {
  return await region.read(record).then(
    () => false,
    (error: unknown) => {
      if (error instanceof RecordLost || error instanceof RecordCorrupt) return true
      throw error
    },
  )
}
