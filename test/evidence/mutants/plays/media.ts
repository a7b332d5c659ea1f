/**
 * Parts made by hand: copies and lanes as decay, a misdirected write or a hostile hand may leave
 * them, and what a start and a READ must make of them (D-2, D-3, D-14, P1-23 to P1-25).
 *
 * Invariant: what is right is said here from the image alone: which of the two versions a
 * reader must get, or that there is none; never what the recovery table would do.
 */

import type { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../../support/cards/test-card.ts'
import { type Media, mediaOf, partOf } from '../../../support/crash/explorer.ts'
import {
  PART_KEY,
  readLane,
  sameBytes,
  sealSlot,
  sipHash128,
} from '../../../support/judges/oracle.ts'
import type { Play } from '../killer.ts'

type Want = 'old' | 'fresh' | 'lost'

/** A slot with some bytes set, and the right check code if it is `sealed`. */
function slotWith(
  media: Media,
  slot: Uint8Array,
  change: (view: DataView) => void,
  sealed: boolean,
): Uint8Array {
  const bytes = slot.slice()
  change(new DataView(bytes.buffer))
  if (sealed) sealSlot(bytes, media.layout.key)
  return bytes
}

function torn(media: Media): Uint8Array {
  const bytes = media.old.slice()
  bytes.set(media.fresh.slice(64, 96), 64)
  return bytes
}

/** A lane with another phase byte, whose complement stays. */
function decayed(lane: Uint8Array, phase: number): Uint8Array {
  const bytes = lane.slice()
  bytes[0] = phase
  return bytes
}

/** Starts the part, and says what is wrong with record 0, or null. */
function complaint(media: Media, part: Nvdimm, want: Want): string | null {
  const before = part.durable.slice()
  const card = new TestCard(part)
  const region = card.open('records')
  const qp = card.connect()
  const data = card.read(qp, region, 0, 0, region.capacity)
  if (want !== 'lost') {
    const expected = want === 'old' ? media.oldData : media.freshData
    if (data === null) return `the ${want} record cannot be read`
    return sameBytes(data, expected) ? null : `what is read is not the ${want} record`
  }
  if (data !== null) return 'a record of which no copy is whole is read'
  const { at, stride } = media.layout
  if (!sameBytes(part.durable.slice(at, at + stride), before.slice(at, at + stride))) {
    return 'a copy was written though none was known to be whole'
  }
  return null
}

function judge(
  media: Media,
  copies: readonly Uint8Array[],
  lane: Uint8Array | null,
  want: Want,
): string | null {
  return complaint(media, partOf(media, copies, lane), want)
}

/** The record is lost, by name: it takes no write, and is still lost after a further start. */
function lostForGood(media: Media, copies: readonly Uint8Array[], lane: Uint8Array): string | null {
  const part = partOf(media, copies, lane)
  const said = complaint(media, part, 'lost')
  if (said !== null) return said
  for (let start = 1; start <= 2; start++) {
    const card = new TestCard(part)
    const region = card.open('records')
    if (region.unsettled !== 1) return `start ${start}: the loss is not told`
    const sent = card.serve(...persistFrames(card.connect(), region, 0, dataOf(64, 40)))
    if (persistAcks(sent).some(({ status }) => status === 0)) return 'a lost record was written'
  }
  return null
}

/** Two whole copies of other ages, and no lane to trust: the later one stays. */
function scanned(media: Media, sequences: readonly [bigint, bigint]): string | null {
  for (const newerFirst of [true, false]) {
    const [older, newer] = sequences
    const of = (slot: Uint8Array, sequence: bigint): Uint8Array =>
      slotWith(media, slot, (view) => view.setBigUint64(32, sequence, true), true)
    const fresh = of(media.fresh, newer)
    const old = of(media.old, older)
    const part = partOf(media, newerFirst ? [fresh, old] : [old, fresh])
    part.failSave()
    const said = complaint(media, part, 'fresh')
    if (said !== null) return `sequences ${older} and ${newer}: ${said}`
  }
  return null
}

const PAIRS: readonly (readonly [bigint, bigint])[] = [
  [2n ** 31n - 1n, 2n ** 31n],
  [2n ** 32n - 1n, 2n ** 32n],
  [2n ** 44n + 9n, 2n ** 45n + 1n],
  [2n ** 53n + 4n, 2n ** 53n + 5n],
]

const level = (wait: number): Media => mediaOf({ wait, copies: 2 })

/** Lanes and copies that no crash leaves, but decay may. */
export const DECAY: Readonly<Record<string, Play>> = {
  'equal and torn': () => {
    const media = level(2)
    return lostForGood(media, [torn(media), torn(media)], media.laneA)
  },
  'both torn': () => {
    const media = level(2)
    const other = media.fresh.slice()
    other.set(media.old.slice(64, 72), 64)
    return lostForGood(media, [torn(media), other], media.laneB)
  },
  'a lost record': () => {
    const media = level(1)
    return lostForGood(media, [torn(media), media.old], media.laneB)
  },
  'a phase that decayed to A': () => {
    const media = level(1)
    return judge(media, [media.fresh, media.old], decayed(media.laneB, 0xa1), 'fresh')
  },
  'the phase of another intent': () => {
    const media = level(1)
    const lane = media.laneA.slice()
    lane[4]! ^= 1
    return judge(media, [media.fresh, media.old], lane, 'fresh')
  },
  'a lane of an earlier write': () => {
    const media = level(1)
    const of = (slot: Uint8Array, ahead: bigint): Uint8Array => {
      const sequence = readLane(media.laneA, false) as { sequence: bigint }
      const put = (view: DataView): void => view.setBigUint64(32, sequence.sequence + ahead, true)
      return slotWith(media, slot, put, true)
    }
    return judge(media, [of(media.fresh, 9n), of(media.old, 5n)], media.laneA, 'fresh')
  },
  'a lane beyond the region': () => {
    const media = level(2)
    const lane = media.laneA.slice()
    new DataView(lane.buffer).setUint32(16, media.layout.areaBytes / media.layout.stride, true)
    lane.set(sipHash128(PART_KEY, lane.slice(8, 48)), 48)
    const part = partOf(media, [media.fresh, media.fresh], lane)
    const { unsettled } = new TestCard(part).open('records')
    if (unsettled !== 0) return 'a record is lost that is none'
    return complaint(media, part, 'fresh')
  },
}

/** Copies that are not the record that they stand for. */
export const SLOTS: Readonly<Record<string, Play>> = {
  'the slot of another record': () => {
    const media = level(2)
    const { at, stride } = media.layout
    const other = media.content.slice(at + stride, at + 2 * stride)
    return judge(media, [other, other], null, 'lost')
  },
  'another version of the slot': () => {
    const media = level(2)
    const slot = slotWith(media, media.fresh, (view) => view.setUint32(56, 2, true), true)
    return judge(media, [slot, slot], null, 'lost')
  },
  'half a check code': () => {
    const media = level(2)
    for (const at of [0, 8]) {
      const slot = media.fresh.slice()
      slot[at + 3]! ^= 0x10
      const said = judge(media, [slot, slot], null, 'lost')
      if (said !== null) return `a wrong code at byte ${at}: ${said}`
    }
    return null
  },
  'the copy that counts': () => {
    // By hand: the copies of a part whose save failed, in their order, and what is to stay.
    const left: Readonly<Record<string, Want>> = {
      ...{ on: 'fresh', no: 'fresh', to: 'old', ot: 'old', ono: 'fresh', oon: 'fresh' },
      ...{ noo: 'fresh', ton: 'fresh', oto: 'old', tno: 'fresh', onoo: 'fresh', ooon: 'fresh' },
      ...{ oton: 'fresh', toot: 'old', ttot: 'old', tttt: 'lost' },
    }
    for (const [copies, want] of Object.entries(left)) {
      const media = mediaOf({ wait: 2, copies: copies.length })
      const images: Readonly<Record<string, Uint8Array>> = {
        ...{ n: media.fresh, o: media.old, t: torn(media) },
      }
      const part = partOf(
        media,
        [...copies].map((one) => images[one]!),
      )
      part.failSave()
      const said = complaint(media, part, want)
      if (said !== null) return `${copies}: ${said}`
    }
    return null
  },
  'the later sequence': () => {
    const media = level(2)
    for (const pair of PAIRS) {
      const said = scanned(media, pair)
      if (said !== null) return said
    }
    return null
  },
}
