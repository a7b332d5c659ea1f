/** Parts made by hand: images of one record and its lane, as the firmware wrote them. */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import { dataOf, type RegionShape, TestCard } from '../cards/test-card.ts'
import { copyAt, LANES_AT, LINE_BYTES, type RegionLayout } from '../judges/oracle.ts'
import { Actor } from './actor.ts'
import { PART_BYTES } from './part.ts'
import type { Level } from './scenario.ts'

/** What a part may be made of: images of one record and its lane, as the firmware wrote them. */
export interface Media {
  readonly layout: RegionLayout
  /** The part with the old record in every copy and no lane set. */
  readonly content: Uint8Array
  /** The record before and after: whole slots. */
  readonly old: Uint8Array
  readonly fresh: Uint8Array
  readonly oldData: Uint8Array
  readonly freshData: Uint8Array
  /** The lane in phase A and in phase B. */
  readonly laneA: Uint8Array
  readonly laneB: Uint8Array
}

/** Writes record 0 twice, the second time at that level, and keeps what went by. */
export function mediaOf(level: Level, shape: RegionShape = {}, bytes: number = PART_BYTES): Media {
  const card = new TestCard(bytes)
  card.format()
  const actor = new Actor(card, { copies: level.copies, ...shape }, true)
  const { capacity } = actor.region
  const oldData = dataOf(capacity, 11)
  const freshData = dataOf(capacity, 12)
  for (let slot = 1; slot < Math.min(4, actor.region.slots); slot++) {
    actor.write({ slot, data: dataOf(capacity, 20 + slot), wait: 2 })
  }
  actor.write({ slot: 0, data: oldData, wait: 2 })
  actor.idle()
  // A fence that makes the clearing of the lanes durable, and nothing else.
  card.nvdimm.fence()
  const at = copyAt(actor.layout, 0, 0)
  const slotNow = (): Uint8Array => card.nvdimm.durable.slice(at, at + actor.layout.stride)
  const laneNow = (): Uint8Array => card.nvdimm.durable.slice(LANES_AT, LANES_AT + LINE_BYTES)
  const content = card.nvdimm.durable.slice()
  const old = slotNow()
  const lanes: Uint8Array[] = []
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE) lanes.push(laneNow())
    },
  })
  actor.write({ slot: 0, data: freshData, wait: level.wait })
  const [, laneA, , laneB] = lanes
  return {
    layout: actor.layout,
    content,
    old,
    fresh: slotNow(),
    oldData,
    freshData,
    laneA: laneA!,
    laneB: laneB!,
  }
}

/** A part with exactly these copies of record 0, and that lane. */
export function partOf(
  media: Media,
  copies: readonly Uint8Array[],
  lane: Uint8Array | null = null,
): Nvdimm {
  const content = media.content.slice()
  copies.forEach((copy, i) => {
    content.set(copy, copyAt(media.layout, i, 0))
  })
  if (lane !== null) content.set(lane, LANES_AT)
  return new Nvdimm({ bytes: content.length, content })
}
