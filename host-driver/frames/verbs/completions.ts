/**
 * A completion queue over a wire: what a card would keep in the host's memory, kept here.
 *
 * Invariant: it never holds more than its depth; the first completion that finds no room is
 * lost, and from then on it takes none. What it holds by then can still be polled.
 */

import { RefusedError } from '../../base/errors.ts'
import { checkMost } from '../../verbs/work.ts'
import type { CompletionQueue, WorkCompletion } from '../../way/verbs.ts'

export class WireCompletionQueue implements CompletionQueue {
  readonly depth: number
  failed = false
  onEvent: () => void = () => {}
  /** Called once, when a completion has found no room. */
  onOverrun: () => void = () => {}
  /** Queue pairs that have it. */
  users = 0
  private readonly entries: WorkCompletion[] = []
  private armed = false

  constructor(depth: number) {
    this.depth = depth
  }

  /** Takes a completion; false if it is lost. */
  push(completion: WorkCompletion): boolean {
    if (this.failed) return false
    if (this.entries.length === this.depth) {
      this.failed = true
      this.onOverrun()
      return false
    }
    this.entries.push(completion)
    if (this.armed) {
      this.armed = false
      // Whoever is told may post at once, and must not do so from inside of what made this.
      queueMicrotask(() => this.onEvent())
    }
    return true
  }

  poll(most: number = this.depth): WorkCompletion[] {
    checkMost(most)
    return this.entries.splice(0, most)
  }

  arm(): void {
    this.armed = true
  }

  destroy(): Promise<void> {
    if (this.users === 0) return Promise.resolve()
    return Promise.reject(new RefusedError('QUEUE_BUSY', 0, 'destroy a completion queue'))
  }
}
