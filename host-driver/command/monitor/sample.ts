/**
 * What a card tells of itself at one time: the answers to STATUS, COUNTERS, FIGURES, QUEUES, REGION
 * and REPORT.
 *
 * Invariants:
 * - A sample holds what the card has said, and nothing else. What a card does not tell this client
 *   is null, and never 0: a peer without the right, or a card of another version.
 * - The parts of a sample are asked for one after the other, so a card that starts again between
 *   two of them would make a sample of both. Such a sample is asked for once more.
 */

import { ON_DEMAND_REGIONS, REGIONS } from '../../../firmware/board/limits.ts'
import { RefusedError } from '../../base/errors.ts'
import type { CardFigures, RegionFigures } from '../../control/figures.ts'
import type { Management } from '../../control/management.ts'
import type { PartStatus, RegionInfo } from '../../control/part.ts'
import type { QueuesStatus } from '../../control/queues.ts'
import { serves } from '../base/part-text.ts'
import type { FirmwareSample } from './firmware.ts'

/** A region as it is told: whoever looks needs no key of it. */
export interface RegionSample extends Omit<RegionInfo, 'key' | 'rkey'> {
  /** What it has acknowledged, and how soon. */
  readonly figures: RegionFigures | null
}

/** What the report of the last start says, in numbers of records; scans since then add to it. */
interface RecoverySample {
  readonly lines: number
  readonly repaired: number
  readonly lost: number
  /** The medium did not take their repair. */
  readonly refused: number
}

export interface Sample {
  /** When it was complete: ms since 1970, and ms of a clock that never goes back. */
  readonly atMs: number
  readonly steadyMs: number
  /** How long the card took for the first answer, ms. */
  readonly answerMs: number
  readonly part: PartStatus
  /**
   * Whether all of `part` is told. A card with peers tells a stranger its state and health, the
   * path MTU and the format; the rest is 0 then, and means nothing.
   */
  readonly isWhole: boolean
  /** How often each fault was met since the start, by name; only those that were. */
  readonly faults: Readonly<Record<string, bigint>> | null
  /** Bursts, fences and acknowledgements since the start. */
  readonly figures: CardFigures | null
  readonly queues: QueuesStatus | null
  readonly regions: readonly RegionSample[] | null
  readonly recovery: RecoverySample | null
  /** What runs on the card, where its port of SMP was named and answers. */
  readonly firmware: FirmwareSample | null
}

/**
 * A place without a region is asked for again after so long: a card counts such questions among its
 * faults, and who looks must not be most of what is seen.
 */
const EMPTY_AGAIN_MS = 60_000

/** Times that a sample is begun again because its card has started in between. */
const AGAIN = 2

/** Asks one card; keeps what need not be asked again. */
export class Sampler {
  private readonly management: Management
  private readonly askFirmware: () => Promise<FirmwareSample | null>
  private empty: { readonly of: string; readonly sinceMs: Map<number, number> }
  /** The life of a card that does not tell its figures: it is not asked again. */
  private silent = ''
  private reported: { readonly of: string; readonly recovery: RecoverySample | null } | null = null

  /** `askFirmware` asks the port of SMP, where there is one. */
  constructor(management: Management, askFirmware: () => Promise<FirmwareSample | null>) {
    this.management = management
    this.askFirmware = askFirmware
    this.empty = { of: '', sinceMs: new Map() }
  }

  /** Rejects as the calls do: PERDURE_UNREACHABLE, PERDURE_REFUSED of a card that refuses all. */
  async sample(): Promise<Sample> {
    const { management } = this
    for (let again = 0; ; again++) {
      const beganMs = performance.now()
      const part = await management.status()
      const answerMs = performance.now() - beganMs
      const [faults, queues] = await Promise.all([
        told(management.counters()),
        told(management.queues()),
      ])
      const hasHost = queues !== null && queues.epoch !== 0
      const isWhole = !serves(part) || part.incarnation > 0
      const figures = await this.figures(part)
      const regions = await this.regions(part, isWhole, hasHost, figures !== null)
      const recovery = await this.recovery(part)
      const firmware = await this.askFirmware()
      if (lifeOf(await management.status()) !== lifeOf(part) && again < AGAIN) continue
      const [atMs, steadyMs] = [Date.now(), performance.now()]
      return {
        atMs,
        steadyMs,
        answerMs,
        part,
        isWhole,
        faults,
        figures,
        queues,
        regions,
        recovery,
        firmware,
      }
    }
  }

  /** Older firmware has none, and would count each question among its faults. */
  private async figures(part: PartStatus): Promise<CardFigures | null> {
    if (this.silent === lifeOf(part)) return null
    const figures = await told(this.management.figures())
    if (figures === null) this.silent = lifeOf(part)
    return figures
  }

  /** Those of the part, and the memory of its host where it has one. */
  private async regions(
    part: PartStatus,
    isWhole: boolean,
    hasHost: boolean,
    hasFigures: boolean,
  ): Promise<RegionSample[] | null> {
    if (!isWhole) return null
    if (!serves(part)) return []
    const life = lifeOf(part)
    if (this.empty.of !== life) this.empty = { of: life, sinceMs: new Map() }
    const own = await this.regionsAt(0, part.regions)
    const ofHost = hasHost ? await this.regionsAt(REGIONS, ON_DEMAND_REGIONS) : []
    const withFigures = own?.map(async (region) => {
      const figures = hasFigures ? await told(this.management.figuresOf(region.name)) : null
      return { ...region, figures }
    })
    return withFigures === undefined
      ? null
      : [...(await Promise.all(withFigures)), ...(ofHost ?? [])]
  }

  /** Null where one of them is not told. */
  private async regionsAt(first: number, count: number): Promise<RegionSample[] | null> {
    const places = Array.from({ length: count }, (_, i) => first + i)
    const nowMs = performance.now()
    const { sinceMs } = this.empty
    const asked = places.filter((place) => {
      return nowMs - (sinceMs.get(place) ?? -Infinity) >= EMPTY_AGAIN_MS
    })
    const found = await told(Promise.all(asked.map((place) => this.management.regionAt(place))))
    found?.forEach((region, i) => {
      if (region === null) sinceMs.set(asked[i]!, nowMs)
      else sinceMs.delete(asked[i]!)
    })
    return found?.filter((region) => region !== null).map(withoutKeys) ?? null
  }

  /** The report grows when a scan finds something; as long as it does not, it says the same. */
  private async recovery(part: PartStatus): Promise<RecoverySample | null> {
    if (!serves(part)) return null
    const of = `${lifeOf(part)} ${part.reportEntries}`
    if (this.reported?.of !== of) {
      const entries = await told(this.management.report())
      const count = (flag: 'repaired' | 'lost' | 'refused'): number => {
        return entries?.filter((entry) => entry[flag]).length ?? 0
      }
      const recovery = entries && {
        lines: entries.length,
        repaired: count('repaired'),
        lost: count('lost'),
        refused: count('refused'),
      }
      this.reported = { of, recovery }
    }
    return this.reported.recovery
  }
}

/** Tells one start of one part from all others. */
function lifeOf({ deviceId, incarnation }: PartStatus): string {
  return `${deviceId} ${incarnation}`
}

function withoutKeys({ key: _key, rkey: _rkey, ...region }: RegionInfo): RegionSample {
  return { ...region, figures: null }
}

/** The answer, or null where the card refuses it to us. */
async function told<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof RefusedError) return null
    throw error
  }
}
