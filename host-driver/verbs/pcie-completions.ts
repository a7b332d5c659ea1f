/**
 * A completion queue of the own card, in the words of the verbs.
 *
 * What always holds: what the card wrote before the queue failed can still be polled; a completion
 * that belongs to no work request is passed over.
 */

import type { CompletionQueue as CardQueue } from '../pcie/completion-queue.ts'
import { completionOf } from './pcie-work.ts'
import type { CompletionQueue, WorkCompletion } from './types.ts'

export class PcieCompletionQueue implements CompletionQueue {
  readonly card: CardQueue
  onEvent: () => void = () => {}
  private readonly giveBack: () => Promise<void>

  constructor(card: CardQueue, giveBack: () => Promise<void>) {
    this.card = card
    this.giveBack = giveBack
    card.onReady = () => this.onEvent()
  }

  get depth(): number {
    return this.card.entries
  }

  get failed(): boolean {
    return this.card.end !== null && this.card.end !== ''
  }

  poll(most: number = this.depth): WorkCompletion[] {
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

  arm(): void {
    this.card.arm()
  }

  async destroy(): Promise<void> {
    await this.giveBack()
  }
}
