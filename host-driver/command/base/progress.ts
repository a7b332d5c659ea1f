/**
 * How far a piece of long work is, in words: how much is done of how much, how fast, and how long
 * the rest takes at that rate.
 *
 * Invariant: the rate is of what was done since the work began here. What was done before,
 * by a command that was interrupted, counts as done, and makes nothing look faster.
 */

import { bytesText } from './table.ts'

/** What is counted. */
export type Unit = 'bytes' | 'records'

/** The least time of which a rate says anything, ms. */
const RATE_AFTER_MS = 100

export class Progress {
  private readonly what: string
  private readonly total: number
  private readonly unit: Unit
  private readonly before: number
  private readonly fromMs: number

  /** `before`: how much was done when it began, which is now. */
  constructor(what: string, total: number, unit: Unit, before: number, nowMs: number) {
    this.what = what
    this.total = total
    this.unit = unit
    this.before = before
    this.fromMs = nowMs
  }

  /** The line that tells it, once so much is done. */
  line(done: number, nowMs: number): string {
    const of = `${this.what}  ${countOf(done, this.unit)} of ${amount(this.total, this.unit)}`
    const ms = nowMs - this.fromMs
    const perSecond = ((done - this.before) * 1000) / ms
    if (ms < RATE_AFTER_MS || perSecond <= 0) return of
    const rate = `${amount(rounded(perSecond), this.unit)}/s`
    const left = Math.ceil((this.total - done) / perSecond)
    return done < this.total ? `${of}, ${rate}, ${durationText(left)} left` : `${of}, ${rate}`
  }
}

/** Of bytes with their unit, as that of the whole may be another one. */
function countOf(count: number, unit: Unit): string {
  return unit === 'bytes' ? bytesText(count) : String(count)
}

function amount(count: number, unit: Unit): string {
  return unit === 'bytes' ? bytesText(count) : `${count} records`
}

/** Below ten with a place behind the point. */
function rounded(perSecond: number): number {
  return perSecond < 10 ? Math.round(perSecond * 10) / 10 : Math.round(perSecond)
}

/** Whole seconds for people: '45 s', '3 min 20 s', '2 h 5 min'. */
function durationText(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
