/**
 * Requests as promises, and chains of them.
 *
 * Invariants:
 * - A chain goes out whole, on one queue pair, its requests one behind the other: the peer executes
 *   them in that order, and none of it after one that failed.
 * - Each promise settles once. An error says whether the request may have had an effect:
 *   EffectUnknown where a packet of it was sent and nothing was heard, or the part itself does not
 *   know; anything else where it had none. Nobody is asked whether it did and nothing is sent again
 *   on another connection: that is the caller's to decide (records have `persist`, which does).
 * - A chain that its caller has given up before it went out is not sent.
 * - A promise that nobody looks at never ends the process as an unhandled rejection.
 */

import {
  FLUSH,
  PERSIST_QUERY,
  PREFETCH_HINT,
  READ,
  WC_OPCODES,
} from '../../firmware/transport/requester.ts'
import type { Clock } from '../base/clock.ts'
import {
  EffectUnknown,
  faultOfStatus,
  RefusedError,
  TransportError,
  unmadeError,
} from '../base/errors.ts'
import type { Caller } from '../base/give-up.ts'
import { joined } from '../base/wide.ts'
import { isRefusal, type Job, type JobEnd } from './jobs.ts'
import type { JobQueue } from './way.ts'
import { type Mechanism, mechanismOf } from './write.ts'

/** The refusal that is none: the next start of the part decides. */
export const IN_DOUBT = 'IN_DOUBT'

/** Requests that change nothing, whether they are answered or not. */
const HARMLESS: readonly number[] = [READ, PERSIST_QUERY, PREFETCH_HINT]

/** How a request ended that succeeded. */
export interface Outcome {
  /** As in `ibv_wc_opcode`: 'RDMA_WRITE', 'SEND', 'FLUSH' and so on. */
  readonly opcode: string
  /** PSN of its last packet. */
  readonly psn: number
  /** Durable copies that the acknowledgement named, and what made them so; 0 where it was plain. */
  readonly copies: number
  readonly mechanism: Mechanism
  /** Incarnation of the part that completed it; 0 for a target that has none. */
  readonly incarnation: number
}

/** One request that waits to be made. */
interface Verb {
  /** Makes the job: only now are the key and the address known for sure. */
  start(queuePair: JobQueue): Job
  reject(error: Error): void
}

/** Requests that go out together. */
export interface Chain {
  readonly verbs: readonly Verb[]
  /** Called right before the chain goes out; what it throws ends the chain unsent. */
  check(queuePair: JobQueue): void
  /** Once that is over, the chain is not sent. */
  readonly caller?: Caller
}

/** What takes chains: a connection that is made again when it breaks, or one queue pair. */
export interface ChainPort {
  /** Its clock tells how long somebody waits. */
  readonly way: Clock
  enqueueChain(chain: Chain): void
}

/** Posts a chain that there is room for. Whatever throws meanwhile ends the chain alone. */
export function postChain(queuePair: JobQueue, chain: Chain): void {
  try {
    chain.check(queuePair)
    queuePair.postChain(chain.verbs.map((verb) => verb.start(queuePair)))
  } catch (thrown) {
    rejectChain(chain, unmadeError(thrown))
  }
}

/** Ends a chain of which nothing was sent. */
export function rejectChain(chain: Chain, error: Error): void {
  for (const verb of chain.verbs) verb.reject(error)
}

/** A verb, and the promise of what it brings. */
export interface Pending<T> {
  /** Names it in errors. */
  readonly what: string
  readonly verb: Verb
  readonly result: Promise<T>
  /** It stands in the queue of a queue pair or was sent, and is none that changes nothing. */
  mayHaveEffect(): boolean
}

/** Puts requests on the wire together, unless their caller has given up. */
export function postTogether(
  port: ChainPort,
  chain: readonly Pending<unknown>[],
  caller: Caller,
  check: (queuePair: JobQueue) => void = () => {},
): void {
  caller.check()
  const made = { verbs: chain.map(({ verb }) => verb), check, caller }
  caller.watchEffect(() => chain.some((one) => one.mayHaveEffect()))
  caller.onGivenUp((error) => rejectChain(made, error))
  port.enqueueChain(made)
}

/**
 * A verb whose job `make` makes; `bring` says what a success brings. `what` names it in errors.
 */
export function pending<T>(
  what: string,
  make: (done: (end: JobEnd) => void) => Job,
  bring: (outcome: Outcome, end: JobEnd) => T,
): Pending<T> {
  let resolve: (value: T) => void = () => {}
  let reject: (error: Error) => void = () => {}
  const result = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  result.catch(() => {})
  let posted: Job | null = null
  const start = ({ granted }: JobQueue): Job => {
    const job = make((end) => {
      if (end.status === 'SUCCESS') resolve(bring(outcomeOf(job, end, granted.incarnation), end))
      else reject(errorOf(what, job, end))
    })
    posted = job
    return job
  }
  const mayHaveEffect = (): boolean => posted !== null && !HARMLESS.includes(posted.request.kind)
  return { what, verb: { start, reject }, result, mayHaveEffect }
}

function outcomeOf(job: Job, end: JobEnd, incarnation: number): Outcome {
  return {
    opcode: WC_OPCODES[job.request.kind]!,
    psn: end.psn,
    copies: end.copies,
    mechanism: mechanismOf(end.mechanism),
    incarnation,
  }
}

function errorOf(what: string, job: Job, end: JobEnd): Error {
  const { status, refusal, isPartly = false, unmade } = end
  if (unmade !== undefined) return job.sent ? new EffectUnknown(status, what, unmade) : unmade
  if (status === 'GENERAL_ERR') {
    const fault = faultOfStatus(refusal)
    const refused = new RefusedError(fault, refusal, what)
    return fault === IN_DOUBT ? new EffectUnknown(status, what, refused) : refused
  }
  if (isPartly && job.request.kind !== READ) return new EffectUnknown(status, what)
  if (!job.sent || end.behindRefusal || isRefusal(status)) return new TransportError(status, what)
  // What the target could not do it may have done in part, unless nothing was to be changed.
  const harmless =
    status === 'REM_OP_ERR' && (job.request.kind === READ || job.request.kind === FLUSH)
  return harmless ? new TransportError(status, what) : new EffectUnknown(status, what)
}

/**
 * Runs `work` at once. What it throws comes as a rejection, and a rejection that nobody looks at
 * never ends the process.
 */
export function quietly<T>(work: () => Promise<T>): Promise<T> {
  const promise = (async () => await work())()
  promise.catch(() => {})
  return promise
}

/** The 64-bit result: what an atomic found, or the operation id in the answer to a query. */
export function resultOf(end: JobEnd): bigint {
  return joined(end.resultHigh, end.resultLow)
}

/** One queue pair as a port: for a target that is no DPU of ours, and is not connected to again. */
export class QueuePairPort implements ChainPort {
  readonly way: Clock
  private readonly queuePair: JobQueue
  private readonly waiting: Chain[] = []

  constructor(queuePair: JobQueue, way: Clock) {
    this.queuePair = queuePair
    this.way = way
    queuePair.onIdle = () => this.pump()
    queuePair.onBroken = () => this.pump()
  }

  enqueueChain(chain: Chain): void {
    this.waiting.push(chain)
    this.pump()
  }

  /** Ends the queue pair; what it has and what still waits ends with an error. */
  close(): void {
    this.queuePair.close()
    this.pump()
  }

  private pump(): void {
    for (let next = this.waiting[0]; next !== undefined; next = this.waiting[0]) {
      const { broken, room } = this.queuePair
      const isOver = next.caller?.hasGivenUp === true
      if (!broken && !isOver && room < next.verbs.length) return
      this.waiting.shift()
      if (broken) {
        rejectChain(next, new TransportError('WR_FLUSH_ERR', 'the queue pair is broken'))
      } else if (!isOver) {
        postChain(this.queuePair, next)
      }
    }
  }
}
