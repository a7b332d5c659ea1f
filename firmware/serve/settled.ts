// hot path
/**
 * The copy of a record that readers are served (D-15).
 *
 * What always holds: it is the first in write order whose check code is right just now, of those
 * that no recovery takes back; a record that is lost has none.
 */

import { firstCopy, heldIntent } from '../commit/commit.ts'
import { examineCopies, sequenceAfter } from '../commit/examine.ts'
import type { Region } from '../memory/region.ts'
import { isLost } from '../memory/superblock.ts'
import type { State } from '../state.ts'

/** That copy, not before copy `shown`, or -1. Usually the first one looked at. */
export function settledFrom(state: State, region: Region, slot: number, shown: number): number {
  if (region.unsettled > 0 && isLost(state.superblock, region.id, slot)) return -1
  const { list, words, examination } = state
  const held = heldIntent(state.commit.held, region, slot)
  const first = Math.max(firstCopy(state.commit, region, slot), shown)
  for (let c = first; c < region.copies; c++) {
    examineCopies(list, words, examination, region, slot, c, c + 1)
    const { valid, header } = examination.copies[c]!
    if (valid && (held === null || !sequenceAfter(held, header))) return c
  }
  return -1
}
