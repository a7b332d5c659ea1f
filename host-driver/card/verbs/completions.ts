/**
 * A completion queue of the own card, in the words of the verbs.
 *
 * Invariant: what the card wrote before the queue failed can still be polled; a completion
 * that belongs to no work request is passed over.
 */

import { checkMost } from '../../verbs/work.ts'
import type { CompletionQueue, WorkCompletion } from '../../way/verbs.ts'
import type { CompletionQueue as CardQueue } from '../queues/completion-queue.ts'
import { completionOf } from './work.ts'

export class PcieCompletionQueue implements CompletionQueue {
  readonly card: CardQueue
  onEvent: () => void = () => {}
  private readonly giveBack: () => Promise<void>

  constructor(card: CardQueue, giveBack: () => Promise<void>) {
    this.card = card
    this.giveBack = giveBack
    // Whoever is told may do anything, and must not do so from inside of what made this.
    card.onReady = () => queueMicrotask(() => this.onEvent())
  }

  get depth(): number {
    return this.card.entries
  }

  get failed(): boolean {
    return this.card.end !== null && this.card.end !== ''
  }

  poll(most: number = this.depth): WorkCompletion[] {
    checkMost(most)
    const found: WorkCompletion[] = []
    while (found.length < most) {
      const read = this.card.poll(most - found.length)
      if (read.length === 0) break
      for (const one of read) {
        const completion = completionOf(one)
        if (completion !== null) found.push(completion)
      }
    }
    return found
  }

  /** One that has ended tells of nothing more. */
  arm(): void {
    if (this.card.end === null) this.card.arm()
  }

  async destroy(): Promise<void> {
    await this.giveBack()
  }
}
