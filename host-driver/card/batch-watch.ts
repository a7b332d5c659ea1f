/**
 * The local card tells its host what batches have stored into a region: a completion queue that is
 * for that alone (firmware/doc/batches.md; S1-M10).
 *
 * Invariants:
 * - The queue is armed before the card is asked, so no notice waits unseen.
 * - A region has one listener at a device: the card knows one queue for each region. Another one
 *   may listen when the card has been told of the end, so that none ends the other's.
 * - A listener is told in order, and of an end once, last. One that has ended it hears nothing
 *   behind what the card had written when it answered.
 * - A listener that throws disturbs nobody: it is called by itself.
 */

import * as el from '../../firmware/host/element.ts'
import * as mad from '../../firmware/wire/management.ts'
import { ArgumentError, faultOfStatus, PerdureError, RefusedError } from '../base/errors.ts'
import { high, joined, low } from '../base/wide.ts'
import type { RegionInfo } from '../control/part.ts'
import type {
  BatchListener,
  BatchNotice,
  BatchStored,
  BatchWatch,
  BatchWatchOptions,
} from '../way/batch-notices.ts'
import { CardRemoved, QueueEnded } from '../way/queue-errors.ts'
import { goneError } from '../way/region-handle.ts'
import { mechanismOf, outlivesOf } from '../way/write.ts'
import type { PcieDevice } from './device.ts'
import { powerOfTwo } from './queues/arena.ts'
import type { CompletionQueue } from './queues/completion-queue.ts'
import type { Completion } from './queues/values.ts'

/** Notices that may wait, unless told otherwise. */
const ENTRIES = 1024

/** Notices that are taken in one go. */
const TAKEN = 64

/** Ids of the regions of which somebody is told. */
const LISTENED = new WeakMap<PcieDevice, Set<number>>()

function listenedOf(device: PcieDevice): Set<number> {
  const known = LISTENED.get(device) ?? new Set<number>()
  LISTENED.set(device, known)
  return known
}

/** Has the card of the device tell of a region. Rejects as a control call does. */
export async function watchBatches(
  device: PcieDevice,
  region: RegionInfo,
  listener: BatchListener,
  options: BatchWatchOptions,
): Promise<CardBatchWatch> {
  const { each = 'batch', entries = ENTRIES, count = 0, periodUs = 0 } = options
  const listened = listenedOf(device)
  if (listened.has(region.id)) {
    throw new ArgumentError(`batches into '${region.name}': somebody is told of them already`)
  }
  listened.add(region.id)
  let cq: CompletionQueue
  try {
    cq = await device.createCq({ entries: powerOfTwo(entries), count, periodUs })
  } catch (error) {
    listened.delete(region.id)
    throw error
  }
  const watch = new CardBatchWatch(device, cq, region, listener)
  await watch.begin(each === 'record' ? mad.NOTICES_RECORD : mad.NOTICES_BURST)
  return watch
}

export class CardBatchWatch implements BatchWatch {
  private readonly device: PcieDevice
  private readonly cq: CompletionQueue
  private readonly region: RegionInfo
  private readonly listener: BatchListener
  private sequence = 0n
  private begun = false
  /** Why it has ended by itself, or null. */
  private loss: PerdureError | null = null
  private over = false
  private ending: Promise<number> | null = null

  /** For `watchBatches`. */
  constructor(
    device: PcieDevice,
    cq: CompletionQueue,
    region: RegionInfo,
    listener: BatchListener,
  ) {
    this.device = device
    this.cq = cq
    this.region = region
    this.listener = listener
  }

  get since(): bigint {
    return this.sequence
  }

  /** Nothing more is told. */
  get ended(): boolean {
    return this.over
  }

  async begin(each: number): Promise<void> {
    const { cq, device, region } = this
    cq.onNotice = (completion) => this.take(completion)
    cq.dispatch(() => this.look())
    try {
      this.sequence = (await device.control.batchNotices(region.id, cq.queue, each)).sequence
      if (this.loss !== null) throw this.loss
      this.begun = true
    } catch (error) {
      this.over = true
      await this.letGo(true)
      throw error
    }
  }

  end(): Promise<number> {
    this.ending ??= this.over ? Promise.resolve(0) : this.endAtCard()
    return this.ending
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end()
  }

  private async endAtCard(): Promise<number> {
    const { device, cq, region } = this
    let missed = 0
    try {
      missed = (await device.control.batchNotices(region.id, 0, mad.NOTICES_NONE)).missed
    } catch (error) {
      if (!isGone(error) && !this.over) {
        this.ending = null
        throw error
      }
    }
    // What was told before is in the queue by now.
    for (let some = cq.poll(TAKEN); some.length > 0; some = cq.poll(TAKEN)) {
      for (const completion of some) this.take(completion)
    }
    this.over = true
    await this.letGo(false)
    return missed
  }

  /** The queue is given back, behind the end at the card; where that has gone, both have. */
  private async letGo(isTold: boolean): Promise<void> {
    const { device, cq, region } = this
    try {
      if (isTold) await device.control.batchNotices(region.id, 0, mad.NOTICES_NONE)
    } catch {
      // The card has gone, or the region; or does not answer, and then nothing else is answered.
    } finally {
      listenedOf(device).delete(region.id)
    }
    await device.destroyCq(cq).catch(() => {})
  }

  /** Something was told, or the queue has ended. */
  private look(): void {
    const { cq, device } = this
    if (cq.end === null) return
    this.finish(cq.end === '' ? lossOf(device) : new QueueEnded(cq.queue, cq.end))
  }

  private take({ flags, ...said }: Completion): void {
    if (this.over) return
    if ((flags & el.DURABLE) !== 0) this.tell(storedOf({ flags, ...said }))
    if ((flags & el.NOTICE_MISSED) !== 0) this.tell({ type: 'missed', records: said.length })
    if ((flags & el.NOTICE_OVER) !== 0) {
      this.finish(goneError(`be told of batches into '${this.region.name}'`))
    }
  }

  /** It has ended by itself. */
  private finish(error: PerdureError): void {
    if (this.over) return
    this.over = true
    this.loss = error
    // Else whoever begins it, or ends it, goes on.
    if (!this.begun || this.ending !== null) return
    this.tell({ type: 'ended', error })
    void this.letGo(true)
  }

  private tell(notice: BatchNotice): void {
    queueMicrotask(() => this.listener(notice))
  }
}

/** What a notice says (firmware/host/element.ts). */
function storedOf(said: Completion): BatchStored {
  const isRecord = (said.flags & el.NOTICE_RECORD) !== 0
  return {
    type: 'stored',
    each: isRecord ? 'record' : 'batch',
    records: isRecord ? 1 : said.length,
    lowest: low(said.address),
    highest: high(said.address),
    batchId: said.immediate & 0xffff,
    count: (said.immediate >>> 24) + 1,
    index: isRecord ? (said.immediate >>> 16) & 0xff : null,
    bytes: isRecord ? said.length : null,
    operationId: said.operation,
    clientId: joined(said.psn, said.source),
    sequence: joined(said.incarnation, said.pointer),
    copies: said.copies,
    mechanism: mechanismOf(said.mechanism),
    durable: outlivesOf(said.mechanism),
    all: (said.flags & el.NOTICE_ALL) !== 0,
    code: said.refusal === 0 ? null : faultOfStatus(said.refusal),
  }
}

/** Why nothing of the device is told any more. */
function lossOf(device: PcieDevice): PerdureError {
  try {
    void device.control
    return new CardRemoved()
  } catch (error) {
    return error as PerdureError
  }
}

/** Whether there is nothing to end: no card, or no such region. */
function isGone(error: unknown): boolean {
  if (error instanceof RefusedError) return error.fault === 'NO_REGION'
  if (!(error instanceof PerdureError)) return false
  return error.code === 'PERDURE_CARD_REMOVED' || error.code === 'PERDURE_CLOSED'
}
