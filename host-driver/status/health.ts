/**
 * How the part of a DPU is, told when it changes: the DPU sends that over the connection's own
 * queue pair (firmware/doc/health.md).
 *
 * Invariants:
 * - What is told is how the part is, in the words of `status`: whoever hears it may forget all that
 *   he heard before. What is older than what was heard is not told.
 * - The DPU is asked once for each connection, and again every `lookMs`: so it is found out that it
 *   has gone, as one that is gone tells nobody. Where it tells nothing by itself, as older ones and
 *   the local card do, it is looked at then.
 * - A listener that throws disturbs nobody: it is called by itself.
 */

import { u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { copyOf } from '../base/bytes.ts'
import type { Clock } from '../base/clock.ts'
import { PerdureError, RefusedError } from '../base/errors.ts'
import type { Caller } from '../base/give-up.ts'
import { checkFields, type Kinds } from '../base/kinds.ts'
import { joined, u64 } from '../base/wide.ts'
import type { Management } from '../control/management.ts'
import { isSameHealth, type PartStatus, readPartStatus } from '../control/part.ts'
import type { JobQueue } from '../way/way.ts'

/** The part is now as `part` says; `before` is what was known last, or null. */
export interface HealthChanged {
  readonly type: 'changed'
  readonly part: PartStatus
  readonly before: PartStatus | null
}

/** The DPU does not answer. When it does again, that is a change, whatever it says then. */
export interface HealthAway {
  readonly type: 'away'
  readonly error: PerdureError
}

export type HealthNotice = HealthChanged | HealthAway

export type HealthListener = (notice: HealthNotice) => void

export interface HealthOptions {
  /** How often the DPU is looked at beside what it tells, ms, 10 to 3600000; 5000 unless given. */
  readonly lookMs?: number
}

/** What tells of a part, until it is ended; it goes on over reconnections. */
export interface HealthWatch extends AsyncDisposable {
  /** What is known of the part now, and was told. */
  readonly part: PartStatus
  /** Whether the DPU tells by itself; else it is heard of every `lookMs`. */
  readonly isTold: boolean
  /** Ends it. */
  end(): Promise<void>
}

/** The connection that a part is heard over. */
export interface HealthPort {
  readonly way: Clock
  readonly management: Management
  /** The open queue pair, or null while there is none. */
  readonly current: JobQueue | null
  readonly random: () => number
  /** Makes the connection again, where it shall be. */
  mend(): void
}

const LOOK_MS = 5000

const HEALTH_KINDS: Kinds<HealthOptions> = {
  lookMs: {
    give: 'a number from 10 to 3600000',
    takes: (value) => typeof value === 'number' && value >= 10 && value <= 3_600_000,
  },
}

/** Throws PERDURE_ARGUMENT. */
export function checkHealthOptions(options: HealthOptions): void {
  checkFields('options of onHealth', options, HEALTH_KINDS)
}

interface Listening {
  readonly listener: HealthListener
  readonly lookUs: number
}

export class CardHealth {
  private readonly port: HealthPort
  /** Tells its messages from others; drawn when somebody listens first. */
  private mark: bigint | null = null
  private readonly listening: Set<Listening> = new Set()
  private part: PartStatus | null = null
  private isAway = false
  /** The queue pair that is told, and how many messages are known to have come to it. */
  private told: JobQueue | null = null
  private number = 0
  /** The life of a DPU that knows nothing of such a call: it is not asked again. */
  private silent: number | null = null
  private asking: Promise<void> | null = null
  private cancelLook: () => void = () => {}
  private closed: PerdureError | null = null

  constructor(port: HealthPort) {
    this.port = port
  }

  /** One more who hears of the part. Rejects where the DPU does not say how it is. */
  async listen(
    listener: HealthListener,
    lookMs: number | undefined,
    caller: Caller,
  ): Promise<HealthWatch> {
    const { random } = this.port
    this.mark ??= joined(random(), random())
    await this.look()
    caller.check()
    const one: Listening = { listener, lookUs: (lookMs ?? LOOK_MS) * 1000 }
    this.listening.add(one)
    this.schedule()
    const health = this
    const end = (): Promise<void> => this.forget(one)
    return {
      get part(): PartStatus {
        return health.part!
      },
      get isTold(): boolean {
        return health.told !== null
      },
      end,
      [Symbol.asyncDispose]: end,
    }
  }

  private async forget(one: Listening): Promise<void> {
    if (!this.listening.delete(one) || this.listening.size > 0) return
    this.cancelLook()
    const { told, port } = this
    this.told = null
    if (told === null || told !== port.current || this.closed !== null) return
    await port.management
      .health(told.granted.queuePair, told.number!, this.mark!, false)
      // With the queue pair, or the DPU, that has ended, too.
      .catch(() => {})
  }

  // ---- for the connection ----------------------------------------------------------------------

  /** There is another queue pair. */
  begin(): void {
    if (this.listening.size > 0) this.lookAgain()
  }

  lost(): void {
    this.told = null
  }

  end(error: PerdureError): void {
    this.closed = error
    this.told = null
    this.cancelLook()
    this.listening.clear()
  }

  /** Takes a message, if it tells of the part: false of any other one. */
  take(bytes: Uint8Array, at: number, length: number): boolean {
    if (length < mad.HEALTH_SEND_BYTES) return false
    if (u32(bytes, at + mad.HEALTH_SEND_MAGIC) !== mad.HEALTH_MAGIC) return false
    if (u64(bytes, at + mad.HEALTH_SEND_MARK) !== this.mark) return false
    const from = at + mad.HEALTH_SEND_PART
    const number = u32(bytes, at + mad.HEALTH_SEND_NUMBER)
    // Behind the end of the last listener, or of the queue pair, one may be on its way.
    if (this.told === null || number <= this.number) return true
    this.hear(copyOf(bytes.subarray(from, from + mad.PART_BYTES)), number)
    return true
  }

  // ---- looking ---------------------------------------------------------------------------------

  private hear(body: Uint8Array, number: number): void {
    this.number = number
    this.learn(readPartStatus(body))
    this.schedule()
  }

  private learn(part: PartStatus): void {
    const { part: before, isAway } = this
    this.part = part
    this.isAway = false
    if (before !== null && !isAway && isSameHealth(before, part)) return
    this.tell({ type: 'changed', part, before })
  }

  private tell(notice: HealthNotice): void {
    for (const { listener } of [...this.listening]) queueMicrotask(() => listener(notice))
  }

  private schedule(): void {
    this.cancelLook()
    if (this.listening.size === 0 || this.closed !== null) return
    const { way } = this.port
    const waitUs = Math.min(...[...this.listening].map(({ lookUs }) => lookUs))
    this.cancelLook = way.setTimer(way.now() + waitUs, () => this.lookAgain())
  }

  private lookAgain(): void {
    this.cancelLook()
    this.look()
      .catch((error) => this.noAnswer(error))
      .finally(() => this.schedule())
  }

  private noAnswer(error: unknown): void {
    if (this.closed !== null || this.isAway) return
    this.isAway = true
    const cause = error instanceof PerdureError ? error : null
    this.tell({
      type: 'away',
      error: cause ?? new PerdureError('PERDURE_UNREACHABLE', `how the part is: ${String(error)}`),
    })
  }

  /** One question at a time: who comes meanwhile hears its answer. */
  private look(): Promise<void> {
    this.asking ??= this.ask().finally(() => {
      this.asking = null
    })
    return this.asking
  }

  private async ask(): Promise<void> {
    const { port } = this
    const { current } = port
    const isTold = current !== null && (await this.askToTell(current))
    if (!isTold) await this.askStatus()
    // Another queue pair is to be told.
    if (port.current !== null && port.current !== current) await this.ask()
  }

  private async askStatus(): Promise<void> {
    const { port } = this
    this.told = null
    const part = await port.management.status()
    this.learn(part)
    const { current } = port
    if (current !== null && current.granted.incarnation !== part.incarnation) port.mend()
  }

  /** Has the queue pair told; false where that cannot be. */
  private async askToTell(queue: JobQueue): Promise<boolean> {
    const { number: own, granted } = queue
    const { port, mark } = this
    if (own === undefined || own === null || granted.incarnation === this.silent) return false
    if (this.told !== queue) this.number = 0
    // A message may come before the answer does.
    this.told = queue
    try {
      const { body, number } = await port.management.health(granted.queuePair, own, mark!, true)
      // An answer knows of the messages before it, and of none behind.
      if (this.told === queue && number >= this.number) this.hear(body, number)
      return true
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
      // The DPU has the queue pair no more.
      if (error.fault === 'QUEUE_UNKNOWN') port.mend()
      else if (error.fault === 'REQUEST') this.silent = granted.incarnation
      return false
    }
  }
}
