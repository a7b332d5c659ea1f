/** What a client of a card with peers asks of a region, and whether it gets it. */

import * as mad from '../../../firmware/wire/management.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  readFrame,
  type Sent,
  type TestCard,
  type TestPeer,
  type TestRegion,
} from '../cards/test-card.ts'
import type { Guest } from './guest.ts'

interface Asker {
  serve(...frames: Uint8Array[]): Sent[]
}

/** Does a READ of the region bring something? */
export function reads(who: Asker, qp: TestPeer, region: TestRegion): boolean {
  const sent = who.serve(readFrame(qp, region, region.baseHigh === 0 ? 1 : 0, 0, 16))
  return sent.some(({ opcode }) => opcode >= 0x0d && opcode <= 0x10)
}

/** The statuses of what is acknowledged when it persists one record. */
export function persists(who: Asker, qp: TestPeer, region: TestRegion, slot = 1): number[] {
  return ackStatuses(who.serve(...persistFrames(qp, region, slot, dataOf(64, 1))))
}

/** Removes the region; its place and its room are free then. */
export function removeRegion(card: TestCard, admin: Guest, name: string): void {
  admin.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
    body.set(Buffer.from(name), mad.REGION_NAME)
  })
  do card.idle()
  while (admin.status()[mad.PART_WORK] !== 0)
}
