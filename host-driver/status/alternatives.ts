/**
 * Another region instead of one that is not ready (source 5, ¶91): which may stand in, and where.
 *
 * Invariants:
 * - What is chosen was told to be ready, all of it, by the card that has it. So a region that
 *   failed, or whose watch has ended, is passed over: nothing is known of it. A choice goes by
 *   notices, and is never permission.
 * - Only regions that were named are chosen, in the order of their names. The driver takes none by
 *   itself: which regions hold the same, or are as good, only their user knows.
 * - Choosing sends nothing and changes nothing.
 */

import { ArgumentError } from '../base/errors.ts'
import { BOOLEAN, check, checkFields, type Kind, type Kinds, LIST } from '../base/kinds.ts'
import type { ResidencyStatus } from './residency-status.ts'

/** What a choice needs of a region: regions of one kind have ranges of one kind. */
interface Choosable<Range> {
  readonly name: string
  /** Null while it is not watched. */
  readonly status: ResidencyStatus<Range> | null
}

/** Where to go instead. */
export interface Place<Range, Of> {
  readonly region: Of
  readonly range: Range
}

export interface OtherOptions {
  /**
   * Only the same range of a region that was named: where they hold the same. Else any range that
   * is as long, of this region first.
   */
  readonly sameRange?: boolean
}

const OTHER_KINDS: Kinds<OtherOptions> = { sameRange: BOOLEAN }

/** The regions that may stand in for one. */
export class Alternatives<Range, Of extends Choosable<Range>> {
  private readonly own: Of
  private readonly kind: Kind
  private named: readonly Of[] = []

  /** Of `own`; those that are named are to be of that kind. */
  constructor(own: Of, kind: Kind) {
    this.own = own
    this.kind = kind
  }

  /**
   * Names them, instead of those before. All have to be watched by now: who forgot one would never
   * see it chosen. `why` may say of one why it cannot stand in.
   */
  name(regions: readonly Of[], why: (region: Of) => string | null = () => null): void {
    check('alternatives', regions, LIST)
    const met = new Set([watchedBy(this.own)])
    for (const region of regions) {
      check('an alternative', region, this.kind)
      const status = watchedBy(region)
      const reason = met.has(status) ? 'it was named before, or is the region itself' : why(region)
      if (reason !== null) throw new ArgumentError(`alternative '${region.name}': ${reason}`)
      met.add(status)
    }
    this.named = [...regions]
  }

  /** The first place that is ready, or null; the caller has checked the range. */
  find(range: Range, options: OtherOptions = {}): Place<Range, Of> | null {
    checkFields('options', options, OTHER_KINDS)
    const { sameRange = false } = options
    const { own, named } = this
    // Where its own watch has ended, those that were named are all the more of use.
    const status = named.length > 0 ? own.status : watchedBy(own)
    const other = sameRange ? null : (status?.otherReady(range) ?? null)
    if (other !== null) return { region: own, range: other }
    for (const region of named) {
      const there = readyIn(region.status, range, sameRange)
      if (there !== null) return { region, range: there }
    }
    return null
  }
}

/** The range itself, if all of it is ready there; else the next one that is. */
function readyIn<Range>(
  status: ResidencyStatus<Range> | null,
  range: Range,
  sameRange: boolean,
): Range | null {
  if (status === null) return null
  if (status.isReady(range)) return range
  return sameRange ? null : status.otherReady(range)
}

function watchedBy<Range>(region: Choosable<Range>): ResidencyStatus<Range> {
  if (region.status === null) throw new ArgumentError(`'${region.name}' is not watched`)
  return region.status
}
