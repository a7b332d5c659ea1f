/**
 * One card, looked at again and again: it is asked, and waited for while it is away.
 *
 * Invariants:
 * - A look at a card that is away is a look, too: it says since when, and why. What was opened to
 *   the card is closed then, and opened again by the next look, so a name that has moved to another
 *   address is looked up again.
 * - What the command line has got wrong is an error of the first look, and ends the command; later
 *   nothing does but its user.
 */

import { PerdureError } from '../../base/errors.ts'
import { openManagement, type Reached } from '../../connect.ts'
import { DATA, exitCodeOf, NO_INPUT, NO_PERMISSION, USAGE } from '../base/exit-codes.ts'
import { messageOf } from '../base/system-errors.ts'
import { aim } from '../base/target.ts'
import { eventsOf } from './events.ts'
import { askFirmware, type FirmwareSample } from './firmware.ts'
import { HealthWatch } from './health-watch.ts'
import type { HealthEvent, Look } from './look.ts'
import { ratesOf } from './rates.ts'
import { type Sample, Sampler } from './sample.ts'

/** A look, and what has happened since the one before it. */
export interface Looked {
  readonly look: Look
  readonly events: readonly HealthEvent[]
}

/** Ends of commands that are about words, or files of this machine: waiting mends none of them. */
const WRONG: readonly number[] = [USAGE, DATA, NO_INPUT, NO_PERMISSION]

interface Opened extends Reached {
  readonly sampler: Sampler
}

export class Follower {
  readonly target: string
  private readonly timeoutMs: number
  private readonly smp: string | null
  private opened: Opened | null = null
  private before: Look | null = null
  /** The last sample, whatever came after it. */
  private last: Sample | null = null
  private isClosed = false
  private readonly healthWatch: HealthWatch | null
  /** The card has told something since the last look. */
  private isNews = false
  private wake: () => void = () => {}

  /**
   * `timeoutMs`: how long the card may take for an answer. `smp`: its port of SMP, or null.
   * `isTold`: the card shall tell when there is something new.
   */
  constructor(target: string, timeoutMs: number, smp: string | null, isTold = false) {
    this.target = target
    this.timeoutMs = timeoutMs
    this.smp = smp
    this.healthWatch = isTold ? new HealthWatch(target, timeoutMs, () => this.told()) : null
  }

  /** Waits so long, or until the card has told something, or the signal fires. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    if (this.isNews || signal.aborted) return
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', wake)
        resolve()
      }
      const timer = setTimeout(wake, ms)
      signal.addEventListener('abort', wake)
      this.wake = wake
    })
  }

  private told(): void {
    this.isNews = true
    this.wake()
  }

  /** Looks at the card, which takes the time of its answers or that of the longest wait. */
  async look(): Promise<Looked> {
    const look = await this.lookOnce()
    const events = eventsOf({ before: this.before, last: this.last, look })
    this.before = look
    if (look.up) {
      // A port of SMP that is silent for a look says nothing new.
      const firmware = look.sample.firmware ?? this.last?.firmware ?? null
      this.last = { ...look.sample, firmware }
    }
    return { look, events }
  }

  /** Ends a look that is under way, which then says that the card is away, and all later ones. */
  close(): void {
    this.isClosed = true
    this.shut()
  }

  private async lookOnce(): Promise<Look> {
    const { target, before } = this
    try {
      this.opened ??= await this.open()
      this.isNews = false
      const sample = await this.opened.sampler.sample()
      if (!this.isClosed) this.healthWatch?.begin()
      const rates = before?.up ? ratesOf(before.sample, sample) : null
      return { target, atMs: sample.atMs, up: true, sample, rates }
    } catch (error) {
      this.shut()
      if (before === null && !this.isClosed && WRONG.includes(exitCodeOf(error))) throw error
      aim(error, target)
      const code = error instanceof PerdureError ? error.code : 'UNEXPECTED'
      const atMs = Date.now()
      const sinceMs = before?.up === false ? before.sinceMs : atMs
      return { target, atMs, up: false, reason: messageOf(error), code, sinceMs }
    }
  }

  private async open(): Promise<Opened> {
    const { target, timeoutMs, smp } = this
    const reached = await openManagement(target, { timeoutMs, warn: () => {} })
    const firmware = async (): Promise<FirmwareSample | null> => {
      return smp === null ? null : await askFirmware(smp, timeoutMs)
    }
    const opened = { ...reached, sampler: new Sampler(reached.management, firmware) }
    if (!this.isClosed) return opened
    end(opened)
    throw closed()
  }

  private shut(): void {
    this.healthWatch?.end()
    if (this.opened !== null) end(this.opened)
    this.opened = null
  }
}

function end({ management, way }: Reached): void {
  management.close(closed())
  way.close()
}

function closed(): PerdureError {
  return new PerdureError('PERDURE_CLOSED', 'nobody looks any more')
}
