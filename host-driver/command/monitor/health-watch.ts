/**
 * A card that tells by itself that its health has changed, so that it is looked at at once
 * (firmware/doc/health.md).
 *
 * Invariants:
 * - What is told only wakes who looks: events come from looks alone, so there is one meaning of
 *   each.
 * - It is a connection beside the one that looks, in the name of a client of its own. Where it
 *   cannot be had the card is looked at as often as ever, and it is tried again at the next look.
 */

import { connect } from '../../connect.ts'
import type { Dpu } from '../../dpu.ts'

export class HealthWatch {
  private readonly target: string
  private readonly timeoutMs: number
  private readonly wake: () => void
  private dpu: Promise<Dpu | null> | null = null

  /** `wake` is called each time that the card should be looked at. */
  constructor(target: string, timeoutMs: number, wake: () => void) {
    this.target = target
    this.timeoutMs = timeoutMs
    this.wake = wake
  }

  /** Begins, unless it has. */
  begin(): void {
    this.dpu ??= this.open()
  }

  /** Ends it; it may begin again. */
  end(): void {
    const { dpu } = this
    this.dpu = null
    void dpu?.then((open) => open?.close())
  }

  private async open(): Promise<Dpu | null> {
    const { target, timeoutMs } = this
    let dpu: Dpu | null = null
    try {
      dpu = await connect(target, { timeoutMs, warn: () => {} })
      await dpu.onHealth(() => this.wake())
      // What has changed before it could be told.
      this.wake()
      return dpu
    } catch {
      this.dpu = null
      await dpu?.close()
      return null
    }
  }
}
