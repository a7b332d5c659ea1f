/**
 * The judge of records in the memory of the card's own host, beside those of the card (judge.ts).
 *
 * Invariants:
 * - An acknowledgement is judged by what the host's medium holds durably as it leaves: caches,
 *   buffers and posted writes count for nothing. One that comes again, or answers a query, speaks
 *   of what was promised before: so many copies, except for the one that a later write is about to
 *   overwrite, hold that version or a later one. Where host, card or link has failed since the
 *   record was judged, a repair may be about to overwrite all of them but one.
 * - A start of the card says nothing of such a record, as its host may be away. It is judged when
 *   the host is back as it should be, and nobody works: one whole version, durable in every copy.
 *   Until then a record need not be shown: nobody may know which copy is durable.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type Class, Judge, type RecordState } from './judge.ts'
import { copyAt, type Layout, versionAt } from './medium.ts'
import type { Operation } from './operation.ts'
import { THROUGH } from './own-host.ts'
import type { Register, Version } from './register.ts'

export interface HostedPlace {
  /** Name of the region, for a sentence. */
  readonly name: string
  readonly placement: number
  readonly page: Nvdimm
  readonly medium: Nvdimm
  readonly layout: Layout
  /** Bytes up to there are nobody else's. */
  readonly end: number
  /** How often host, card or link has failed. */
  readonly troubles: () => number
}

export class HostedJudge extends Judge {
  readonly name: string
  readonly placement: number
  private readonly troubles: () => number
  /** What `troubles` said as the records were judged last. */
  private calm: number
  /** Nobody sent them any more at the last start: what has not come forward then, never does. */
  private readonly over: Set<Version> = new Set()
  /**
   * The card went, and the records were not judged since: a lane that it had not cleared yet may
   * speak of any of them, and its start may not have been able to tell what of it is durable.
   */
  mayHide: boolean = false

  /** Through the caches copies wait for the host, and a status for all records of its batch. */
  protected override isOverwritten({ versions }: Register, version: Version): boolean {
    if (this.placement !== THROUGH) return false
    return versions.some((other) => other !== version && other.firstEnd === Infinity)
  }

  constructor(place: HostedPlace, blame: (what: string) => void) {
    const { name, page, medium, layout, end } = place
    const lies = { medium, layout, from: layout.at, end }
    super(page, false, 0, (what) => blame(`${name}: ${what}`), lies)
    this.name = name
    this.placement = place.placement
    this.troubles = place.troubles
    this.calm = place.troubles()
    // A copy may be old for as long as its host is away: nothing is forgotten before all are one.
    for (const { register } of this.records) register.isHurt = true
  }

  override acknowledge(operation: Operation, copies: number, isFirst: boolean, now: number): void {
    const { version, slot } = operation
    super.acknowledge(operation, copies, isFirst, now)
    if (version === null || isFirst) return
    const found = this.durableCopies(this.records[slot]!)
    const whole = found.filter((other) => {
      return other !== null && (other.begun >= version.begun || other.firstEnd >= version.begun)
    }).length
    const isCalm = this.troubles() === this.calm
    if (whole >= Math.max(1, isCalm ? Math.min(copies, this.layout.copies) - 1 : 1)) return
    this.blame(
      `record ${slot}: operation ${version.operation} is said to be durable in ${copies} copies, ` +
        `and ${whole} are`,
    )
  }

  override judgeLoss(slot: number): void {
    if (!this.mayHide) super.judgeLoss(slot)
  }

  private durableCopies({ slot, register }: RecordState): (Version | null)[] {
    const { part, layout } = this
    return Array.from({ length: layout.copies }, (_, c) => {
      const at = copyAt(layout, c, slot)
      return versionAt(part.durable, part.durableWords, at, layout, slot, register)
    })
  }

  /** The card was started: what nobody sends again comes forward by its lane, or never. */
  override judgeRestart(): Class {
    for (const { register } of this.records) {
      for (const version of register.versions) {
        if (!version.open && version.firstEnd === Infinity) this.over.add(version)
      }
    }
    return 'nothing'
  }

  /** All is there, and nobody works: what became of what was under way. */
  judgeQuiet(now: number): Class {
    const { touched, records, layout, shadow } = this
    let olds = 0
    let news = 0
    for (const slot of touched) {
      const record = records[slot]!
      const found = this.judgeSettled(record, now)
      if (record.touched && found !== null) {
        if (found.promised > 0 || found.uid === 0) olds += 1
        else news += 1
      }
      record.touched = false
      for (let c = 0; c < layout.copies; c++) shadow.allow(copyAt(layout, c, slot), layout.stride)
    }
    for (const version of this.over) {
      if (version.firstEnd === Infinity) version.refused = true
    }
    this.over.clear()
    this.mayHide = false
    this.calm = this.troubles()
    for (const slot of touched) if (!mayChange(records[slot]!)) touched.delete(slot)
    const foreign = shadow.foreign()
    if (foreign >= 0) this.blame(`byte ${foreign} was changed, and nobody may do that`)
    if (olds > 0) return news > 0 ? 'mixed' : 'old'
    return news > 0 ? 'new' : 'nothing'
  }

  /** The version that the record has durably in every copy. */
  private judgeSettled(record: RecordState, now: number): Version | null {
    const found = this.durableCopies(record)
    const [first] = found
    if (first === null || first === undefined || found.some((other) => other !== first)) {
      const shown = found.map((version) => version?.uid ?? 'torn').join(' ')
      this.blame(`record ${record.slot} is not one when all is back: its copies are ${shown}`)
      return null
    }
    const wrong = record.register.see(first, now, now)
    if (wrong !== null) this.blame(`when all is back: ${wrong}`)
    record.register.settled()
    return first
  }
}

/** Is there a version that may come yet? */
function mayChange({ register }: RecordState): boolean {
  return register.versions.some(({ refused, firstEnd }) => !refused && firstEnd === Infinity)
}
