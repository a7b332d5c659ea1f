/** Whether what a card holds can be read: asked of new firmware before it stays. */

import { RecordLost } from '../base/errors.ts'
import type { Dpu } from '../dpu.ts'

/** Of which region of the card's own the first record cannot be read, and why; or null. */
export async function firstUnread(dpu: Dpu): Promise<string | null> {
  const regions = await dpu.regions()
  for (const { name, kind, placement } of regions) {
    if (kind !== 'records' || placement !== 'local') continue
    try {
      await (await dpu.openRegion(name)).read(0)
    } catch (error) {
      // A loss is counted, and was perhaps there before.
      if (!(error instanceof RecordLost)) return `region '${name}': ${(error as Error).message}`
    }
  }
  return null
}
