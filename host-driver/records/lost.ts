/** Whether a record is lost: nobody else may give it up (D-14). */

import { RecordCorrupt, RecordLost } from '../base/errors.ts'

/** Whether what was read says that no copy can stand for it. Rejects where that is not told. */
export async function isLost(reading: Promise<unknown>): Promise<boolean> {
  return await reading.then(
    () => false,
    (error: unknown) => {
      if (error instanceof RecordLost || error instanceof RecordCorrupt) return true
      throw error
    },
  )
}
