/**
 * A completion queue of the verbs, over whichever way its completions come.
 *
 * Invariant: what came before the queue failed can still be polled. Whoever is told of it may do
 * anything: it is told from outside of what made the completion.
 */

import type { CompletionQueue, WorkCompletion } from '../way/verbs.ts'
import type { CompletionPort } from '../way/verbs-way.ts'
import { checkMost } from './work.ts'

export class VerbsCompletionQueue implements CompletionQueue {
  readonly port: CompletionPort
  onEvent: () => void = () => {}
  private readonly forget: (cq: CompletionQueue) => void

  constructor(port: CompletionPort, forget: (cq: CompletionQueue) => void) {
    this.port = port
    this.forget = forget
    port.onReady = () => queueMicrotask(() => this.onEvent())
  }

  get depth(): number {
    return this.port.depth
  }

  get failed(): boolean {
    return this.port.failed
  }

  poll(most: number = this.depth): WorkCompletion[] {
    checkMost(most)
    return this.port.poll(most)
  }

  arm(): void {
    this.port.arm()
  }

  async destroy(): Promise<void> {
    await this.port.destroy()
    this.forget(this)
  }
}
