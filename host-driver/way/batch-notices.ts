/**
 * What the host of a card hears of the batches that others store into its regions (source 4, claim
 * 1; S1-M10): as values, and how it is asked for.
 *
 * Invariant: what is heard as stored is durable. What may be stored, and was not told, is heard of
 * as missed; and what comes behind an end nobody hears of.
 */

import { QUEUE_DEPTH_MAX } from '../../firmware/board/limits.ts'
import type { PerdureError } from '../base/errors.ts'
import { checkFields, integer, type Kinds, oneOf } from '../base/kinds.ts'
import type { RegionInfo } from '../control/part.ts'
import type { Mechanism, Outlives } from './write.ts'

/** What a batch has stored: one record of it, or what it has sent in one go. */
export interface BatchStored {
  readonly type: 'stored'
  readonly each: 'record' | 'batch'
  /** Records that were stored, and the lowest and the highest of their slots. */
  readonly records: number
  readonly lowest: number
  readonly highest: number
  /** The batch, as its client numbers it, and its records in all. */
  readonly batchId: number
  readonly count: number
  /** Of one record: its place in the batch, and its bytes; else null. */
  readonly index: number | null
  readonly bytes: number | null
  /** Of the record, or of the first one of the batch, also where that is not stored. */
  readonly operationId: bigint
  readonly clientId: bigint
  /** Of the record as it was stored, or of the last one. */
  readonly sequence: bigint
  /** Copies that are durable; of several records the least. */
  readonly copies: number
  readonly mechanism: Mechanism
  readonly durable: Outlives
  /** Of a batch: whether all of it is durable now; and why a record of it was refused, or null. */
  readonly all: boolean
  readonly code: string | null
}

/** So many records may have been stored of which nothing was told: look at the region. */
export interface BatchesMissed {
  readonly type: 'missed'
  readonly records: number
}

/** Nothing more is told: the card, the region or the queue has gone. */
export interface BatchesEnded {
  readonly type: 'ended'
  readonly error: PerdureError
}

export type BatchNotice = BatchStored | BatchesMissed | BatchesEnded

export type BatchListener = (notice: BatchNotice) => void

export interface BatchWatchOptions {
  /** Of every record, or of what a batch has stored in one go; 'batch' unless given. */
  readonly each?: 'record' | 'batch'
  /** Notices that may wait to be taken, 2 to 65536; 1024 unless given. */
  readonly entries?: number
  /** The host is woken after so many notices, or so long behind the first; at once unless given. */
  readonly count?: number
  readonly periodUs?: number
}

/** What tells of batches, until it is ended. */
export interface BatchWatch extends AsyncDisposable {
  /** What is stored under a later sequence is told, or missed; nothing that has this or less is. */
  readonly since: bigint
  /** Ends it; the records that were missed and not told of. */
  end(): Promise<number>
}

/** Has the local card tell of the batches that are stored into a region. */
export type WatchBatches = (
  region: RegionInfo,
  listener: BatchListener,
  options: BatchWatchOptions,
) => Promise<BatchWatch>

const WATCH_KINDS: Kinds<BatchWatchOptions> = {
  each: oneOf(['record', 'batch']),
  entries: integer(2, QUEUE_DEPTH_MAX),
  count: integer(0, 0xffff),
  periodUs: integer(0, 0xffff),
}

/** Throws PERDURE_ARGUMENT. */
export function checkBatchWatch(options: BatchWatchOptions): void {
  checkFields('options of onBatch', options, WATCH_KINDS)
}
