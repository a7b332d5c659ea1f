/**
 * Completions over a wire: what a card would keep in the host's memory, kept here.
 *
 * Invariant: there are never more than its depth; the first completion that finds no room is
 * lost, and from then on it takes none. What it holds by then can still be polled.
 */

import { RefusedError } from '../../base/errors.ts'
import type { WorkCompletion } from '../../way/verbs.ts'
import type { CompletionPort } from '../../way/verbs-way.ts'

export class WireCompletions implements CompletionPort {
  readonly depth: number
  failed = false
  onReady: () => void = () => {}
  onFailed: () => void = () => {}
  /** Queue pairs that have it. */
  readonly users: Set<object> = new Set<object>()
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
      this.onFailed()
      return false
    }
    this.entries.push(completion)
    if (this.armed) {
      this.armed = false
      this.onReady()
    }
    return true
  }

  poll(most: number): WorkCompletion[] {
    return this.entries.splice(0, most)
  }

  arm(): void {
    this.armed = true
  }

  destroy(): Promise<void> {
    if (this.users.size === 0) return Promise.resolve()
    return Promise.reject(new RefusedError('QUEUE_BUSY', 0, 'destroy a completion queue'))
  }
}
