/**
 * The parts that operations begin on: as they left the factory, as they serve, and as a cut left
 * them in every phase of a write.
 */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { TestCard } from '../../support/cards/test-card.ts'
import { type Level, type Media, mediaOf, partOf } from '../../support/crash/explorer.ts'
import { copyAt, LINE_BYTES, readSuperblock } from '../../support/judges/oracle.ts'
import { dataOf, persistFrames, type RegionShape } from '../../support/wire/conversation.ts'
import { boardCard } from './card.ts'

export const PART_BYTES: number = 96 * 1024

export const REGIONS: readonly RegionShape[] = [
  { name: 'records', slots: 4, capacity: 64, copies: 2 },
  { name: 'three', slots: 4, capacity: 64, copies: 3 },
  { name: 'long', slots: 4, capacity: 1024, copies: 2 },
  { name: 'bytes', kind: mad.KIND_BYTES, length: 4096 },
  { name: 'safe', kind: mad.KIND_BYTES, length: 4096, flags: mad.REGION_WRITE_PERSIST },
]

/** Puts what is pending where it is durable, and ends the card. */
function contentOf(card: TestCard): Uint8Array {
  card.idle()
  card.nvdimm.fence()
  return card.nvdimm.durable.slice()
}

function cardOn(content?: Uint8Array): TestCard {
  const nvdimm = new Nvdimm({ bytes: PART_BYTES, ...(content === undefined ? {} : { content }) })
  return boardCard(nvdimm, { seat: 'restarted' })
}

let formatted: Uint8Array | null = null
let served: Uint8Array | null = null

/** Formatted, and without a region. */
export function formattedPart(): Uint8Array {
  formatted ??= contentOf(cardOn().format())
  return formatted
}

/** Every kind of region, and a record in the first slots. */
export function servedPart(): Uint8Array {
  if (served !== null) return served
  const card = cardOn(formattedPart())
  let operation = 0
  for (const shape of REGIONS) {
    const region = card.provision(shape)
    if (shape.kind === mad.KIND_BYTES) continue
    const qp = { ...card.connect(), operation }
    for (let slot = 0; slot < 3; slot++) {
      const data = dataOf(Math.min(region.capacity, 60 + 20 * slot), 10 * operation + slot)
      card.serve(...persistFrames(qp, region, slot, data.subarray(0, region.capacity)))
    }
    operation += 100
  }
  served = contentOf(card)
  return served
}

let withLoss: Uint8Array | null = null

/** Record 0 has no whole copy, and is on the list of the lost. */
export function partWithLoss(): Uint8Array {
  if (withLoss !== null) return withLoss
  const content = servedPart().slice()
  const [layout] = readSuperblock(content)!.regions
  for (let copy = 0; copy < layout!.copies; copy++) {
    const at = copyAt(layout!, copy, 0) + LINE_BYTES
    content[at]! ^= 1 + copy
  }
  const nvdimm = new Nvdimm({ bytes: PART_BYTES, content })
  nvdimm.dirtyShutdowns = 1
  withLoss = contentOf(boardCard(nvdimm, { seat: 'restarted' }))
  return withLoss
}

const media = new Map<string, Media>()

function mediaAt(level: Level): Media {
  const name = `${level.wait} of ${level.copies}`
  const made = media.get(name) ?? mediaOf(level)
  media.set(name, made)
  return made
}

/** Half of the new image over the old one. */
function tornOf({ old, fresh }: Media): Uint8Array {
  const image = old.slice()
  image.set(fresh.subarray(0, 72))
  return image
}

interface CrashedPart {
  readonly name: string
  readonly media: Media
  readonly content: Uint8Array
  readonly acknowledged: number
  readonly dirtyShutdowns: number
}

/** What a cut in a write of record 0 leaves, in each phase, at each level. */
export function crashedParts(): CrashedPart[] {
  const parts: CrashedPart[] = []
  for (const level of [
    { wait: 1, copies: 2 },
    { wait: 2, copies: 2 },
    { wait: 2, copies: 3 },
  ]) {
    const made = mediaAt(level)
    const { old, fresh, laneA, laneB } = made
    const torn = tornOf(made)
    const rest = (one: Uint8Array, then: Uint8Array): Uint8Array[] => {
      return [one, ...Array.from({ length: level.copies - 1 }, () => then)]
    }
    const add = (name: string, copies: Uint8Array[], lane: Uint8Array | null): void => {
      const { durable } = partOf(made, copies, lane)
      const isNew = lane === laneB && level.wait === 1
      parts.push({
        name: `${level.wait}of${level.copies}, ${name}`,
        media: made,
        content: durable.slice(),
        acknowledged: isNew ? 1 : 0,
        dirtyShutdowns: 0,
      })
    }
    add('no lane', rest(old, old), null)
    add('lane A, first copy torn', rest(torn, old), laneA)
    add('lane A, first copy new', rest(fresh, old), laneA)
    add('lane B, further copies old', rest(fresh, old), laneB)
    add('lane B, second copy torn', rest(fresh, torn), laneB)
    add('lane B, all new', rest(fresh, fresh), laneB)
  }
  const [first] = parts
  parts.push({ ...first!, name: 'an unsafe shutdown', dirtyShutdowns: 1 })
  return parts
}
