/**
 * Pair regions: records of which clients write the copies by themselves, one after the other, each
 * by a WRITE and a FLUSH (source 1, FIG. 11, S202 and S203; S1-M2). The card examines them, at
 * every start and in idle time, and makes them equal by the table of cases of any record.
 *
 * Invariants:
 * - Before a message into a copy begins, another copy of the record is valid, durable and not older
 *   (scrub.ts, lookBeforeWrite); and one message into a record is under way at a time. So whatever
 *   clients do, and whenever the power goes, a record that was durable is there, or a newer one.
 * - A copy is a source only when it is durable: whatever was stored is fenced before a slot is
 *   judged. Else a cut could tear the source, and what was made from it.
 * - While a message into a copy is under way its record is left alone. What is torn may be whole a
 *   moment later, and what the card put there would be torn by the rest of the message. One WRITE
 *   writes one copy: so what is torn without a message is torn for good, or written again from its
 *   first byte.
 * - Nothing newer is lost: a copy is overwritten with an older one only where its own check code
 *   says that it is none. Who has written A, and not yet B, finds A in B.
 * - Sequence, client and operation are the client's own words. They decide between copies of one
 *   record, and never what the card knows of operations.
 */

import { type CommandList, fenceOwn, resultOf, run } from '../board/command-list.ts'
import { type Fault, PASS } from '../board/fault.ts'
import { QUEUE_PAIRS, REGIONS } from '../board/limits.ts'
import { closedBy } from '../commit/closed.ts'
import type { CommitState } from '../commit/context.ts'
import { LOOK_DUE } from '../commit/recovery.ts'
import type { MemoryState } from '../medium/context.ts'
import { isPair, type Region, slotAddress } from '../medium/region.ts'
import { isForming } from '../medium/superblock.ts'
import type { TransportState } from '../transport/context.ts'
import { MESSAGE_WRITE, STATE_OPEN } from '../transport/queue-pair.ts'

/** Makes durable what clients have stored so far; else why the part takes nothing more. */
export function fenceCopies(list: CommandList): Fault {
  const index = fenceOwn(list)
  return run(list) < 0 ? PASS : closedBy(resultOf(list, index))
}

/** At the start: each is looked at as a whole before anything that can wait. */
export function lookAtPairs({ regions, superblock, recovery }: MemoryState & CommitState): void {
  for (let i = 0; i < REGIONS; i++) {
    const region = regions.places[i]!
    if (region === null || !isPair(region) || isForming(superblock, i)) continue
    recovery.unscanned[i] = LOOK_DUE
  }
}

/** Is a message into one of the record's copies under way? */
export function isUnderWay({ queuePairs }: TransportState, region: Region, slot: number): boolean {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = queuePairs.places[i] ?? null
    if (qp === null || qp.state !== STATE_OPEN) continue
    if (qp.message !== MESSAGE_WRITE || qp.paged) continue
    for (let c = 0; c < region.copies; c++) {
      const at = slotAddress(region, c, slot)
      if (qp.messageTo >= at && qp.messageTo < at + region.stride) return true
    }
  }
  return false
}
