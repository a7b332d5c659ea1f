/** A part that serves, for tests that change its superblock. */

import { PAGE_BYTES } from '../judges/oracle.ts'
import { mediaOf, partOf } from './explorer.ts'

export const TWO: ReturnType<typeof mediaOf> = mediaOf({ wait: 2, copies: 2 })

/** The content of a part that serves, with its pages changed. */
export function changed(change: (page: Uint8Array, number: number) => void): Uint8Array {
  const content = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB).durable.slice()
  for (const page of [0, 1]) {
    change(content.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES), page)
  }
  return content
}
