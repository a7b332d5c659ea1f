/**
 * A card that holds older data, again and again, and the batch that comes over it (S1-M9).
 */

import type { HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import {
  type BatchOptions,
  type BatchRecord,
  batchFrames,
  IN_ORDER,
  statuses,
  upTo,
} from './batch-card.ts'
import { figureOf, isBytes, MixedCard, mixedHost, type Stands } from './mixed-card.ts'
import { dataOf } from './test-card.ts'

/** Seeds of what the places hold before, of the batch, and of what comes behind it. */
const OLD = 0
const NEW = 100
const LATER = 900

const SMALL = { areaBytes: 8192, slots: 8, partBytes: 1 << 17 }

/** Members of a batch, with data of that seed. */
type Shape = (one: MixedCard, seed: number) => BatchRecord[]

/** Bytes first, last, side by side, and in one line; of no length, too. */
const bytesAround: Shape = (one, seed) => [
  one.bytes(0, dataOf(7, seed + 1)),
  one.bytes(7, dataOf(58, seed + 2)),
  one.record(one.second, 0, dataOf(700, seed + 3)),
  one.record(one.first, 0, dataOf(20, seed + 4)),
  one.bytes(65, dataOf(0, seed)),
  one.bytes(200, dataOf(64, seed + 5)),
  one.bytes(4096, dataOf(100, seed + 6)),
]

/** Records of two regions in turn. */
export const inTurn: Shape = (one, seed) => [
  one.record(one.first, 0, dataOf(64, seed + 1)),
  one.record(one.second, 0, dataOf(64, seed + 2)),
  one.record(one.first, 1, dataOf(64, seed + 3)),
]

export const SHAPES: readonly (readonly [string, Shape])[] = [
  ['as the figure shows', figureOf],
  ['bytes first, last and side by side', bytesAround],
]

export class MixedStart {
  readonly shape: Shape
  readonly condition: number
  private readonly content: Uint8Array
  private readonly hosted: Uint8Array | null
  /** Of each member the sequence that its slot has. */
  private readonly expects: readonly (bigint | undefined)[]

  constructor(shape: Shape, condition: number, withHost: boolean) {
    this.shape = shape
    this.condition = condition
    const host = withHost ? mixedHost() : null
    const one = new MixedCard(null, { ...SMALL, host })
    const sent = one.card.serve(...batchFrames(one.qp, one.first, shape(one, OLD)))
    if (statuses(sent)[0]?.said !== 'durable') throw new Error('the older data is not there')
    one.card.idle()
    this.content = one.card.nvdimm.durable.slice()
    this.hosted = host?.part.durable.slice() ?? null
    const seen = this.begin()
    this.expects = seen.expecting(shape(seen, OLD)).map((member) => member.expect)
  }

  /** Another card as it is before the batch. */
  begin(): MixedCard {
    const { content, hosted } = this
    return cardOn(content, hosted)
  }

  /** What came before, what comes with the batch, and what may come behind it. */
  old(one: MixedCard): BatchRecord[] {
    return this.shape(one, OLD)
  }

  members(one: MixedCard): BatchRecord[] {
    const { expects } = this
    return this.shape(one, NEW).map((member, i) => ({ ...member, expect: expects[i] }))
  }

  later(one: MixedCard): BatchRecord[] {
    return this.shape(one, LATER)
  }

  /** What stands at the places of the batch. */
  stand(one: MixedCard): Stands[] {
    return one.stand(this.old(one), this.members(one))
  }

  frames(one: MixedCard, options: BatchOptions = {}): Uint8Array[] {
    const { condition } = this
    return batchFrames(one.qp, one.first, this.members(one), { condition, id: 9, ...options })
  }

  /**
   * What is wrong with what the batch has left, or null: a record that is neither old nor new; in
   * order, a member that is there behind one that is not, or was begun.
   */
  badLeft(one: MixedCard, stand: readonly Stands[] = this.stand(one)): string | null {
    const members = this.members(one)
    for (const [i, member] of members.entries()) {
      if (stand[i] === 'lost') return `member ${i} is lost: ${stand}`
      if (stand[i] === 'other' && !isBytes(member)) return `record ${i} is torn: ${stand}`
    }
    const open = stand.findIndex((is) => is !== 'new')
    if (this.condition !== IN_ORDER || open < 0) return null
    // What has no length is always there.
    const behind = upTo(stand.length, open + 1).filter((i) => members[i]!.data.length > 0)
    const touched = behind.filter((i) => stand[i] !== 'old')
    return touched.length === 0 ? null : `${touched} behind ${open}, which is not there: ${stand}`
  }
}

/** How a card finds what it starts on. */
interface Found {
  /** Lines that refuse stores, of the medium on which the regions lie. */
  readonly refused?: readonly number[]
  /** Its host is away. */
  readonly isAway?: boolean
}

/** A card on copies of that content, and of that of its host's memory. */
export function cardOn(
  content: Uint8Array,
  hosted: Uint8Array | null,
  { refused = [], isAway = false }: Found = {},
): MixedCard {
  const part = new Nvdimm({ bytes: content.length, content: content.slice() })
  const host = hosted === null ? null : hostOf(hosted)
  for (const line of refused) (host?.part ?? part).refuseWrites(line)
  if (isAway) host!.link.remove()
  return new MixedCard(part, { host })
}

/** The memory of a host that holds that. */
export function hostOf(content: Uint8Array): HostMemory {
  const host = mixedHost()
  host.part.live.set(content)
  host.part.durable.set(content)
  return host
}
