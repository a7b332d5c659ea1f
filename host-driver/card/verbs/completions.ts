/**
 * Completions of the local card, in the words of the verbs.
 *
 * Invariant: what the card wrote before the queue failed can still be polled; a completion
 * that belongs to no work request is passed over.
 */

import { RECEIVED, WITH_IMMEDIATE, WITH_INVALIDATE } from '../../../firmware/host/element.ts'
import { completionOf, receivedOf } from '../../verbs/requests.ts'
import type { WorkCompletion } from '../../way/verbs.ts'
import type { CompletionPort, Posted, PostedReceive } from '../../way/verbs-way.ts'
import { endOf, statusOf } from '../job-work.ts'
import type { CompletionQueue } from '../queues/completion-queue.ts'
import type { Completion, QueueElement, Receive } from '../queues/values.ts'

/** An element, and the request that it is of. */
export interface SendElement extends QueueElement {
  readonly posted: Posted
  readonly qpNum: number
}

export interface ReceiveElement extends Receive {
  readonly received: PostedReceive
  readonly qpNum: number
}

export class PcieCompletions implements CompletionPort {
  readonly card: CompletionQueue
  onReady: () => void = () => {}
  onFailed: () => void = () => {}
  private readonly giveBack: () => Promise<void>

  constructor(card: CompletionQueue, giveBack: () => Promise<void>) {
    this.card = card
    this.giveBack = giveBack
    card.onReady = () => this.onReady()
  }

  get depth(): number {
    return this.card.entries
  }

  get failed(): boolean {
    return this.card.end !== null && this.card.end !== ''
  }

  poll(most: number): WorkCompletion[] {
    const found: WorkCompletion[] = []
    while (found.length < most) {
      const read = this.card.poll(most - found.length)
      if (read.length === 0) break
      for (const one of read) {
        const completion = said(one)
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

/** What the card said, in the words of the verbs; null for one that nobody asked for. */
function said(completion: Completion): WorkCompletion | null {
  const { element, flags } = completion
  if (element === null || (flags & RECEIVED) !== 0) return null
  if ('received' in element) return arrived(completion, element as ReceiveElement)
  if (!('posted' in element)) return null
  const { posted, qpNum } = element as SendElement
  return completionOf(posted, qpNum, endOf(posted.request.kind, completion, false))
}

function arrived(completion: Completion, { received, qpNum }: ReceiveElement): WorkCompletion {
  const { flags, immediate, length, operation } = completion
  const status = statusOf(completion.status)
  if (status !== 'SUCCESS') return receivedOf(received, qpNum, status)
  return receivedOf(received, qpNum, status, {
    byteLen: length,
    immData: (flags & WITH_IMMEDIATE) !== 0 ? immediate : null,
    invalidatedRkey: (flags & WITH_INVALIDATE) !== 0 ? immediate : null,
    operationId: operation === 0n ? null : operation,
  })
}
