/**
 * Hearing of the memory behind a region while it is open (source 5): `region.watch()`.
 *
 * Invariants:
 * - An association lives as long as its queue pair. With the next one it is made again before
 *   anything else leaves, and what was told before is forgotten.
 * - Blocks that are ready, and blocks that were hinted at, get no hint (P5-6); nothing gets one
 *   while the DPU has not told the status of the region, or has withdrawn it (P5-15).
 * - No access is refused for what is known here: at the latest after the prefetch time it leaves.
 */

import { PAGE_BYTES } from '../../firmware/board/limits.ts'
import {
  associated,
  type Blocks,
  createBlocks,
  leastTaken,
  PHASE_SILENT,
} from '../../firmware/residency/blocks.ts'
import {
  ASK_AGAIN_US,
  doubtHint,
  isAsking,
  nextAskUs,
  takeNotice,
  want,
} from '../../firmware/residency/heard.ts'
import {
  ACCESS_READY,
  ACCESS_WAITS,
  judgeAccess,
  nextHintedBlocks,
  waitUntilUs,
} from '../../firmware/residency/hints.ts'
import { createNamedGroups } from '../../firmware/residency/named-groups.ts'
import { PAGE_LOG2 } from '../../firmware/residency/size.ts'
import {
  ANSWER_OFFER,
  ANSWER_REFUSED,
  answerProposal,
  sayBounds,
  takeWishAnswer,
} from '../../firmware/residency/wish.ts'
import { type Bseth, blankBseth, SIZE_REFUSED } from '../../firmware/wire/block-size.ts'
import type { Mseth } from '../../firmware/wire/memory-status.ts'
import { blankPfeth } from '../../firmware/wire/prefetch.ts'
import type { Clock } from '../base/clock.ts'
import { PerdureError, TransportError } from '../base/errors.ts'
import { type Caller, WAIT_KINDS, type WaitOptions, within } from '../base/give-up.ts'
import { check, checkFields, FUNCTION, type Kinds, SIGNAL } from '../base/kinds.ts'
import { type ChainPort, pending } from '../way/chain.ts'
import {
  associateJob,
  blockSizeJob,
  type Done,
  isRefusal,
  type Job,
  type JobEnd,
  prefetchJob,
} from '../way/jobs.ts'
import type { JobQueue } from '../way/way.ts'
import { askedFor, BLOCK_BYTES, BLOCKS_MAX, namedOf, type WatchOptions } from './criteria.ts'
import { type ByteRange, type Ranges, ResidencyStatus } from './residency-status.ts'

export interface ReadyOptions {
  /** How long, ms; 0 asks whether it is ready now; as long as it takes by default. */
  readonly timeoutMs?: number
  /** Gives up waiting when it fires. */
  readonly signal?: AbortSignal
}

export const READY_KINDS: Kinds<ReadyOptions> = {
  signal: SIGNAL,
  timeoutMs: {
    give: 'a number from 0 on',
    takes: (value) => typeof value === 'number' && value >= 0,
  },
}

/** The connection that a watch hears over. */
export interface WatchPort extends ChainPort {
  readonly way: Clock
  /** The open queue pair, or null while there is none. */
  readonly current: JobQueue | null
  /** The watches of the connection: one that has ended is none of them. */
  readonly watches: { remove(watch: unknown): void }
  reconnect(): Promise<void>
}

/** What is watched: its name for errors, and its key, address and length as they are now. */
export interface Watched {
  readonly what: string
  where(): { readonly rkey: number; readonly va: bigint; readonly length: number }
}

/** Bytes of one association: a length of 32 bits, in whole pages. */
export const WATCHED_BYTES_MAX: number = 2 ** 32 - PAGE_BYTES

/** How long `watch` waits until the status was told, µs. */
const TOLD_US = 5_000_000

const nothing = (): void => {}

export class Watch<Range = ByteRange> {
  /** What the DPU has told. */
  readonly status: ResidencyStatus<Range>
  private readonly connection: WatchPort
  private readonly watched: Watched
  private readonly ranges: Ranges<Range>
  /** Our ASSOCIATE; and the other questions, which say no criteria. */
  private readonly asked: Bseth
  private readonly bseth: Bseth
  private readonly prefetchUs: number
  private readonly known: Blocks
  private readonly listeners: Set<(status: ResidencyStatus<Range>) => void> = new Set()
  /** Called after every change; those that are satisfied have gone. */
  private readonly waiters: Set<() => void> = new Set()
  private revision = -1
  private isAssociated = false
  /** The sides have agreed on a size, or on none. */
  private isSettled = false
  /** The current status is being asked for. */
  private isAsking = false
  private ended: Error | null = null
  private cancelAsk: () => void = nothing

  /** For the regions; not to be called by users. */
  constructor(
    connection: WatchPort,
    watched: Watched,
    ranges: Ranges<Range>,
    options: WatchOptions<Range> = {},
  ) {
    this.connection = connection
    this.watched = watched
    this.ranges = ranges
    this.asked = askedFor(options)
    this.bseth = { ...this.asked, criteria: false, mostLog2: 0, budgetLog2: 0 }
    const { prefetchUs = 5000, groupBlocks = 64, blocks = BLOCKS_MAX } = options
    this.prefetchUs = prefetchUs
    const { length } = watched.where()
    const room = Math.max(1, Math.min(blocks, Math.ceil(length / PAGE_BYTES)))
    this.known = createBlocks(room, groupBlocks)
    const named = namedOf(options, ranges, length)
    if (named.names.length > 0) this.known.named = createNamedGroups(room, named.ranges)
    this.status = new ResidencyStatus(this.known, ranges, named.names)
  }

  /** Key of what is watched, on the connection that there is now. */
  get rkey(): number {
    return this.watched.where().rkey
  }

  get isOpen(): boolean {
    return this.ended === null
  }

  /** Calls `listener` after every change of the status; returns what ends that. */
  onChange(listener: (status: ResidencyStatus<Range>) => void): () => void {
    check('listener', listener, FUNCTION)
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /** Whether all of it is known to be ready. */
  isReady(range: Range): boolean {
    return this.status.isReady(range)
  }

  /** Hints at what is not ready and was not hinted at; resolves when the DPU has the hints. */
  async prefetch(range: Range, options: WaitOptions = {}): Promise<void> {
    this.check()
    const { offset, length } = this.ranges.toBytes(range)
    await this.wait('prefetch', options, async () => {
      await Promise.all(this.hint(offset, length))
    })
  }

  /**
   * Resolves when all of it is ready; hints at it meanwhile, again whenever the prefetch time is
   * over. Rejects with PERDURE_DEADLINE, with PERDURE_ABORTED, and when the watch ends.
   */
  async ready(range: Range, options: ReadyOptions = {}): Promise<void> {
    checkFields('options', options, READY_KINDS)
    const { timeoutMs = Infinity, signal } = options
    await this.wait('ready', signal ? { signal } : {}, (caller) => {
      return this.untilReady(range, timeoutMs, caller)
    })
  }

  private async untilReady(range: Range, timeoutMs: number, caller: Caller): Promise<void> {
    const { way } = this.connection
    const endUs = way.now() + timeoutMs * 1000
    const { offset, length } = this.ranges.toBytes(range)
    const isReady = (): boolean => this.status.isReadyAt(offset, length)
    for (;;) {
      this.check()
      caller.check()
      if (isReady()) return
      if (way.now() >= endUs) {
        const message = `${this.watched.what}: ${length} bytes at ${offset} not ready`
        throw new PerdureError('PERDURE_DEADLINE', `${message} within ${timeoutMs} ms`)
      }
      this.hint(offset, length)
      const again = waitUntilUs(this.known, offset, length)
      const { phase } = this.known
      const news = (): boolean => isReady() || this.known.phase !== phase
      await this.until(news, Math.min(endUs, again > 0 ? again : Infinity))
    }
  }

  /**
   * Proposes another size of block; resolves to the one that is then in force: of a proposal that
   * the DPU does not take, the nearest one that both can.
   */
  async propose(blockBytes: number, options: WaitOptions = {}): Promise<number> {
    this.check()
    check('blocks of', blockBytes, BLOCK_BYTES)
    await this.wait('propose', options, () => this.agree(Math.log2(blockBytes)))
    return this.status.blockBytes
  }

  private wait<T>(
    what: string,
    options: WaitOptions,
    work: (caller: Caller) => Promise<T>,
  ): Promise<T> {
    checkFields(`options of ${what}`, options, WAIT_KINDS)
    return within(this.connection.way, () => `${what}: ${this.watched.what}`, options, work)
  }

  /** Ends it: the DPU tells nothing more. */
  async close(): Promise<void> {
    if (this.ended !== null) return
    const wasAssociated = this.isAssociated
    this.end(new PerdureError('PERDURE_CLOSED', `the watch of ${this.watched.what} was closed`))
    if (!wasAssociated) return
    const out = { ...this.bseth, optIn: false, optOut: true, current: false }
    await this.post('stop watching', (done) => this.associating(out, done)).catch(nothing)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  // ---- for accesses ----------------------------------------------------------------------------

  /**
   * Judges an access (P5-3): null if it shall leave at once, or what it has to wait for, hinted at.
   */
  pause(offset: number, length: number): Promise<void> | null {
    const { known } = this
    if (this.ended !== null || offset + length > known.length) return null
    const how = judgeAccess(known, offset, length)
    if (how === ACCESS_READY) known.counts.spared++
    if (how !== ACCESS_WAITS) return null
    this.hint(offset, length)
    const untilUs = waitUntilUs(known, offset, length)
    return this.until(() => judgeAccess(known, offset, length) !== ACCESS_WAITS, untilUs).then(
      () => {
        if (this.ended !== null || judgeAccess(known, offset, length) !== ACCESS_WAITS) return
        doubtHint(known, this.connection.way.now())
        this.schedule()
      },
    )
  }

  // ---- for the connection ----------------------------------------------------------------------

  /** Associates behind everything that was asked for before: the end of an earlier watch, too. */
  start(): void {
    const verb = {
      start: (queuePair: JobQueue) => this.associate(queuePair),
      reject: (error: Error) => this.end(error),
    }
    this.connection.enqueueChain({ verbs: [verb], check: () => this.check() })
  }

  /** There is a new queue pair: associates over it, before anything else leaves. */
  begin(queuePair: JobQueue): void {
    queuePair.post(this.associate(queuePair))
  }

  private associate(queuePair: JobQueue): Job {
    const { length } = this.watched.where()
    associated(this.known, length, queuePair.granted.incarnation)
    this.isAssociated = true
    this.isSettled = false
    want(this.known, this.connection.way.now() + ASK_AGAIN_US)
    this.changed()
    return this.associating(this.asked, (end) => this.answered(queuePair, end))
  }

  /** The queue pair is gone, and the association with it. */
  lost(): void {
    if (!this.isAssociated) return
    this.isAssociated = false
    associated(this.known, this.known.length, this.known.incarnation)
    this.changed()
  }

  /** It is over: nothing is told, and nothing waits any more. */
  end(error: Error): void {
    if (this.ended !== null) return
    this.ended = error
    this.lost()
    this.connection.watches.remove(this)
    this.cancelAsk()
    for (const waiter of [...this.waiters]) waiter()
    this.listeners.clear()
  }

  notice(mseth: Mseth, bytes: Uint8Array, at: number): void {
    if (!this.isAssociated) return
    takeNotice(this.known, mseth, bytes, at, this.connection.way.now())
    this.changed()
  }

  proposal(bseth: Bseth): Bseth {
    const answer = { ...this.bseth, optIn: false, current: false }
    answer.status = SIZE_REFUSED
    if (this.isAssociated) {
      answerProposal(this.known, bseth, answer)
      this.changed()
    }
    return answer
  }

  /** Resolves when the first status was told; rejects where the DPU associates nothing. */
  async told(): Promise<void> {
    const { way } = this.connection
    const endUs = way.now() + TOLD_US
    const { known } = this
    const isTold = (): boolean => known.phase !== PHASE_SILENT && !known.wanted
    await this.until(() => this.isSettled && isTold(), endUs)
    this.check()
    if (this.known.phase !== PHASE_SILENT) return
    const error = new PerdureError(
      'PERDURE_UNREACHABLE',
      `${this.watched.what}: associated, but its status was not told`,
    )
    this.end(error)
    throw error
  }

  // ---- the association -------------------------------------------------------------------------

  private associating(bseth: Bseth, done: Done): Job {
    const { rkey, va, length } = this.watched.where()
    const asked = { ...bseth, blockSizeLog2: this.roomFor(bseth.blockSizeLog2) }
    sayBounds(this.known, asked)
    return associateJob({ rkey, va }, length, asked, done)
  }

  /** The size, or the finest one of which there is room for the blocks; 0 is any. */
  private roomFor(sizeLog2: number): number {
    const least = leastTaken(this.known)
    return sizeLog2 !== 0 && sizeLog2 < least && least > PAGE_LOG2 ? least : sizeLog2
  }

  private answered(queuePair: JobQueue, { status, size }: JobEnd): void {
    if (this.ended !== null || this.connection.current !== queuePair) return
    if (status !== 'SUCCESS') {
      // What the DPU does not serve would break the next connection as well.
      if (isRefusal(status)) this.end(new TransportError(status, `watch ${this.watched.what}`))
      return
    }
    const next = takeWishAnswer(this.known, size!)
    if (next === ANSWER_REFUSED) {
      this.isAssociated = false
      const message = `watch ${this.watched.what}: the DPU tells nothing of it: no place is left`
      const advice = 'Close watches that are not needed; ask the DPU that has the memory.'
      this.end(new PerdureError('PERDURE_REFUSED', `${message}, or it is not its own. ${advice}`))
    } else if (next === ANSWER_OFFER) {
      this.agree(size!.blockSizeLog2).catch(nothing)
    } else {
      this.settled()
    }
  }

  /** Proposes that size, and the one that is offered instead, once. */
  private async agree(sizeLog2: number): Promise<void> {
    let offer: number = this.roomFor(sizeLog2)
    for (let tries = 0; tries < 2; tries++) {
      const bseth = { ...this.bseth, blockSizeLog2: offer, optIn: false, current: false }
      const size = await this.post('agree on a block size', (done) => {
        return blockSizeJob(this.rkey, bseth, done)
      })
      if (this.ended !== null) return
      const before = this.known.sizeLog2
      const answer = takeWishAnswer(this.known, size)
      // Of blocks of another size all is told again.
      if (this.known.sizeLog2 !== before) {
        want(this.known, this.connection.way.now() + ASK_AGAIN_US)
      }
      if (answer !== ANSWER_OFFER) break
      offer = size.blockSizeLog2
    }
    this.settled()
  }

  private settled(): void {
    this.isSettled = true
    this.changed()
  }

  /** Asks for the current status when it is time. */
  private ask(): void {
    if (this.ended !== null || !this.isAssociated) return
    if (!this.isAsking && isAsking(this.known, this.connection.way.now())) {
      // Without a wish, so that the size in force stays what it is.
      const bseth = { ...this.bseth, blockSizeLog2: 0, optIn: false, current: true }
      this.isAsking = true
      const asked = this.post('ask for the status', (done) => {
        return blockSizeJob(this.rkey, bseth, done)
      })
      const refused = ({ status }: Bseth): void => {
        // The DPU has no association any more, whatever became of it.
        if (status === SIZE_REFUSED && this.isAssociated) this.start()
      }
      asked.then(refused, nothing).finally(() => {
        this.isAsking = false
        this.schedule()
      })
    }
    this.schedule()
  }

  private schedule(): void {
    const { way } = this.connection
    this.cancelAsk()
    const atUs = this.isAssociated && !this.isAsking ? nextAskUs(this.known) : Infinity
    this.cancelAsk = atUs === Infinity ? nothing : way.setTimer(atUs, () => this.ask())
  }

  /** Puts one request behind the others of the connection; resolves to the size in its answer. */
  private post(what: string, make: (done: Done) => Job): Promise<Bseth> {
    const { verb, result } = pending(
      `${what}: ${this.watched.what}`,
      make,
      (_, end) => end.size ?? blankBseth(),
    )
    this.connection.enqueueChain({ verbs: [verb], check: nothing })
    return result
  }

  /** Hints at what is to be hinted at of these bytes. */
  private hint(offset: number, length: number): Promise<unknown>[] {
    const { known, prefetchUs } = this
    const { way } = this.connection
    const sent: Promise<unknown>[] = []
    while (nextHintedBlocks(known, offset, length, way.now(), prefetchUs)) {
      const size = 2 ** known.sizeLog2
      const from = known.hintFirst * size
      const bytes = Math.min(known.hintCount * size, known.length - from)
      const make = (done: Done): Job => {
        const { rkey, va } = this.watched.where()
        return prefetchJob({ rkey, va: va + BigInt(from) }, bytes, blankPfeth(), done)
      }
      sent.push(this.post(`prefetch ${bytes} bytes at ${from}`, make))
    }
    return sent
  }

  // ---- waiting ---------------------------------------------------------------------------------

  /** Resolves when `isDone` says so after a change, when the watch ends, or at that time, µs. */
  private until(isDone: () => boolean, atUs: number): Promise<void> {
    if (this.ended !== null || isDone()) return Promise.resolve()
    const { way } = this.connection
    return new Promise((resolve) => {
      let cancel = nothing
      const leave = (): void => {
        cancel()
        this.waiters.delete(look)
        resolve()
      }
      const look = (): void => {
        if (this.ended !== null || isDone()) leave()
      }
      if (atUs !== Infinity) cancel = way.setTimer(atUs, leave)
      this.waiters.add(look)
    })
  }

  /** Something may be other than it was: tells those who wait, and those who listen. */
  private changed(): void {
    for (const waiter of [...this.waiters]) waiter()
    this.schedule()
    if (this.revision === this.known.revision) return
    this.revision = this.known.revision
    for (const listener of [...this.listeners]) listener(this.status)
  }

  private check(): void {
    if (this.ended !== null) throw this.ended
  }
}
