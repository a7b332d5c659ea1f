/**
 * The records of a trace: which versions each had, and how a version came about.
 *
 * Invariants:
 * - A version is bytes: header and data, as they stood in a copy when a fence was passed, or when
 *   the power went, if all of it had been stored by then. Whether a
 *   copy is whole is asked by comparing every one of them, never by a check code: recovery, which
 *   asks those, is what is shown.
 * - Version 0 is what was there before. A version is known for the whole of the trace, also before
 *   it came about: a first pass over the trace collects them.
 */

import type { Nvdimm } from '../../../boards/emulator/index.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { blankIntent, lanePhase, PHASE_A, readIntent } from '../../../firmware/medium/lane.ts'
import { copyOf } from '../../base/bytes.ts'
import type { Version } from './data.ts'
import {
  laneAt,
  laneOffset,
  type RecordPlace,
  type RecordsRegion,
  recordAt,
  regionsOf,
  slotAt,
  slotFacts,
} from './layout.ts'
import type { Numbered } from './read-trace.ts'

/** The versions whose bytes are known. */
interface KnownVersion extends Version {
  image: Uint8Array | null
}

export interface KnownRecord {
  readonly region: RecordsRegion
  readonly record: number
  readonly versions: KnownVersion[]
}

/** An intent in a lane: which version of which record. */
export interface Intent {
  readonly record: KnownRecord
  readonly version: number
  readonly lane: number
  readonly step: number
}

const SHOWN_BYTES = 2 * LINE_BYTES

export class Records {
  readonly list: KnownRecord[] = []
  readonly intents: Intent[] = []
  private readonly part: Nvdimm
  private regions: RecordsRegion[]
  /** Copies that were stored to since the last fence, and how many bytes. */
  private readonly touched: Map<string, RecordPlace & { bytes: number }> = new Map()

  constructor(part: Nvdimm) {
    this.part = part
    this.regions = regionsOf(part)
  }

  get regionNames(): string[] {
    return this.regions.map(({ name }) => name)
  }

  placeOf(at: number): RecordPlace | null {
    return recordAt(this.regions, at)
  }

  find(region: RecordsRegion, record: number): KnownRecord {
    const found = this.list.find((one) => one.region.id === region.id && one.record === record)
    if (found !== undefined) return found
    const made: KnownRecord = { region, record, versions: [] }
    made.versions.push(this.standing(made))
    this.list.push(made)
    return made
  }

  /** What is durable of the record before anything of the trace was stored into it. */
  private standing({ region, record }: KnownRecord): KnownVersion {
    const { part } = this
    const at = slotAt(region, record, 0)
    const facts = slotFacts(part.durableWords, at, region.stride)
    const image = facts === null ? null : copyOf(part.durable.subarray(at, at + facts.bytes))
    return {
      operation: facts === null || facts.operation === '0' ? null : facts.operation,
      sequence: facts?.sequence ?? '0',
      length: facts?.length ?? null,
      head: headOf(image),
      from: -1,
      image,
    }
  }

  /** Before a store is played its record becomes known, as it stood; before a cut what is whole. */
  before(event: Numbered, step: number): void {
    if (event.e === 'cut') this.settle(step, true)
    if (event.e !== 'store') return
    const place = this.placeOf(event.at)
    if (place === null) return
    this.find(place.region, place.record)
    const key = `${place.region.id}/${place.record}/${place.copy}`
    const before = this.touched.get(key)?.bytes ?? 0
    this.touched.set(key, { ...place, bytes: before + event.bytes })
  }

  /** Behind an event that was played as that step. */
  after(event: Numbered, step: number): void {
    if (event.e === 'fence') this.settle(step, false)
    if (event.e !== 'store') return
    const lane = laneAt(event.at)
    if (lane >= 0 && event.bytes === LINE_BYTES) this.intent(lane, step)
    if (event.at < 2 * SUPERBLOCK_BYTES) this.regions = regionsOf(this.part)
  }

  private intent(lane: number, step: number): void {
    const { liveWords } = this.part
    const at = laneOffset(lane)
    if (lanePhase(liveWords, at) !== PHASE_A) return
    const intent = blankIntent()
    readIntent(intent, liveWords, at)
    const region = this.regions.find(({ id }) => id === intent.regionId)
    if (region === undefined || intent.record >= region.slots) return
    const record = this.find(region, intent.record)
    record.versions.push({
      operation: String(join(intent.operationHigh, intent.operationLow)),
      sequence: String(join(intent.sequenceHigh, intent.sequenceLow)),
      length: intent.length,
      head: '',
      from: step,
      image: null,
    })
    this.intents.push({ record, version: record.versions.length - 1, lane, step })
  }

  /**
   * A fence: what was stored into copies is whole now, and gives the bytes of its version. At a cut
   * it need not be: only a copy all of which was stored does.
   */
  private settle(step: number, isCut: boolean): void {
    const { part } = this
    for (const { region, record, copy, bytes } of this.touched.values()) {
      const known = this.find(region, record)
      const at = slotAt(region, record, copy)
      const facts = slotFacts(part.liveWords, at, region.stride)
      if (facts === null || (isCut && bytes < facts.bytes)) continue
      const image = copyOf(part.live.subarray(at, at + facts.bytes))
      if (versionOf(known, image) >= 0) continue
      const open = known.versions.find((one) => {
        return one.image === null && one.sequence === facts.sequence
      })
      if (open === undefined) {
        const { sequence, operation, length } = facts
        const named = operation === '0' ? null : operation
        known.versions.push({
          ...{ operation: named, sequence, length, head: headOf(image), from: step, image },
        })
      } else Object.assign(open, { image, head: headOf(image) })
    }
    this.touched.clear()
  }
}

const SUPERBLOCK_BYTES = 4096

function join(high: number, low: number): bigint {
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
}

function headOf(image: Uint8Array | null): string {
  return image === null ? '' : Buffer.from(image.subarray(0, SHOWN_BYTES)).toString('hex')
}

/** Which version stands at the begin of these bytes, the newest first; -1: none, it is torn. */
function versionOf({ versions }: KnownRecord, bytes: Uint8Array): number {
  for (let i = versions.length - 1; i >= 0; i--) {
    const { image } = versions[i]!
    if (image === null || image.length > bytes.length) continue
    if (Buffer.compare(image, bytes.subarray(0, image.length)) === 0) return i
  }
  return -1
}

/** Which version a copy is, of what loads see, or of what is durable. */
export function versionOfCopy(known: KnownRecord, of: Uint8Array, copy: number): number {
  const { region, record } = known
  const at = slotAt(region, record, copy)
  return versionOf(known, of.subarray(at, at + region.stride))
}
