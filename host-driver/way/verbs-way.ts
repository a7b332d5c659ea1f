/**
 * What the verbs need of a way: where memory lies, how requests are posted, how completions come,
 * and what the numbers of a queue pair are. All else of the verbs is in verbs/, once for every way.
 *
 * Invariants:
 * - What comes here was checked. A way refuses only what it cannot say, as PERDURE_ARGUMENT, before
 *   anything of the list is posted.
 * - A port that has ended says so once, by `onEnded` or `onFailed`, and takes nothing more.
 */

import type { Depths } from '../../firmware/wire/capability.ts'
import type { PeerAttributes, SendRequest, WorkCompletion } from './verbs.ts'
import type { Range, WorkRequest } from './work-request.ts'

/** Memory of one region. */
export interface MemoryPort {
  readonly lkey: number
  readonly addr: number
  readonly length: number
  store(bytes: Uint8Array, at: number): void
  /** A copy of what is in it now. */
  load(at: number, length: number): Uint8Array
  /** Gives it back. Whoever knew the key may be gone: then `isKnown` is false. */
  free(isKnown: boolean): Promise<void>
}

/** Where completions come. */
export interface CompletionPort {
  readonly depth: number
  readonly failed: boolean
  /** Called when there is a completion, once after `arm`. */
  onReady: () => void
  /** Called once: it was full, or broke. */
  onFailed: () => void
  /** Takes up to `most` completions, oldest first. */
  poll(most: number): WorkCompletion[]
  arm(): void
  /** Gives it back. Rejects with QUEUE_BUSY while a queue pair has it. */
  destroy(): Promise<void>
}

/** A request whose bytes lie in memory regions. */
export interface RangedRequest extends WorkRequest {
  readonly data: readonly Range[]
}

/** A request that was checked, and what its completion brings back. */
export interface Posted {
  readonly wrId: bigint
  readonly request: RangedRequest
}

export interface PostedReceive {
  readonly wrId: bigint
  /** Where the message goes; null takes messages without bytes only. */
  readonly range: Range | null
}

/** The two queues of a pair. */
export interface PairPort {
  /** As `QueuePair.qpNum`. */
  readonly qpNum: number
  /** Whether it is connected to a peer: else nobody receives what it sends. */
  readonly isConnected: boolean
  /** Whether its packets can have tags, as those of a session have. */
  readonly canTag: boolean
  /** How deep its queues are, as its peer is told. */
  readonly depths: Depths
  /** Name of the fault that ended it, '' if there was none, null while it lives. */
  readonly end: string | null
  /** Called once when it has ended, behind its last completion; why, or ''. */
  onEnded: (fault: string) => void
  /** Throws PERDURE_ARGUMENT for a request that the way cannot say. */
  check(request: SendRequest): void
  /** Ready to send and to receive; so many messages at once, if that was agreed. */
  ready(peer: PeerAttributes | null, agreed: Depths | null): Promise<void>
  /** Throws PERDURE_ARGUMENT, or PERDURE_QUEUE_FULL. */
  post(list: readonly Posted[]): void
  postReceive(list: readonly PostedReceive[]): void
  /** Ends it: what is outstanding is flushed. */
  setError(): Promise<void>
  destroy(): Promise<void>
}

export interface PairOptions {
  /** Number of the protection domain. */
  readonly domain: number
  readonly sendCq: CompletionPort
  readonly recvCq: CompletionPort
  readonly sendDepth: number
  readonly recvDepth: number
  readonly inlineMax: number
}

export interface VerbsWay {
  /** Called when all that was made here has ended, with whatever had it. */
  onLost: () => void
  /** So many bytes of fresh memory for the domain, zeros. */
  register(domain: number, length: number): Promise<MemoryPort>
  openCq(depth: number): Promise<CompletionPort>
  /** Throws PERDURE_ARGUMENT where a completion queue is one of another way. */
  openPair(options: PairOptions): Promise<PairPort>
  /** Everything was given back. */
  close(): void
}
