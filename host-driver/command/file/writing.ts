/**
 * Records on their way into a region, in order.
 *
 * Invariant: what is told durable are the first ones, without a gap; no more records are in
 * memory than are under way.
 */

import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import { BATCH_RECORDS_MAX } from '../../../firmware/board/limits.ts'
import type { Region } from '../../records/region.ts'
import type { Durability } from '../../way/durability.ts'
import type { Receipt } from '../../way/write.ts'

export interface WritingOptions {
  readonly level?: Durability
  readonly form: 'replicated' | 'carried'
  readonly batch?: 'independent' | 'inOrder'
}

/** How long records took, µs. */
export interface Latencies {
  readonly half: number
  readonly most: number
  readonly longest: number
}

/** Records given to the driver ahead of those that are durable. */
const AHEAD = 64

export class Writing {
  private readonly region: Region
  private readonly options: WritingOptions
  private readonly latencies: RecordableHistogram = createHistogram()
  /** Copies that each of the records has, at least; null where none was written. */
  copies: number | null = null
  /** What the last one outlives that was acknowledged. */
  durable: Receipt['durable'] | null = null

  constructor(region: Region, options: WritingOptions) {
    this.region = region
    this.options = options
  }

  /** How long the records took; null where none was written. */
  get latencyUs(): Latencies | null {
    if (this.copies === null) return null
    const at = (share: number): number => this.latencies.percentile(share)
    return { half: at(50), most: at(99), longest: this.latencies.max }
  }

  /** One record; durable when it resolves. */
  async one(slot: number, bytes: Uint8Array): Promise<void> {
    this.note(await this.persist(slot, bytes))
  }

  /** Records from that slot on; `durable` is called for each that is, in order. */
  async all(slot: number, records: AsyncIterable<Uint8Array>, durable: () => void): Promise<void> {
    if (this.options.batch === undefined) await this.each(slot, records, durable)
    else await this.inBatches(slot, records, durable)
  }

  private async each(
    slot: number,
    records: AsyncIterable<Uint8Array>,
    durable: () => void,
  ): Promise<void> {
    const underWay: Promise<Receipt>[] = []
    const take = async (): Promise<void> => {
      this.note(await underWay.shift()!)
      durable()
    }
    let next = slot
    for await (const record of records) {
      underWay.push(this.persist(next++, record))
      if (underWay.length >= AHEAD) await take()
    }
    while (underWay.length > 0) await take()
  }

  /** One batch after the other. In order, what is durable after a cut is the beginning. */
  private async inBatches(
    slot: number,
    records: AsyncIterable<Uint8Array>,
    durable: () => void,
  ): Promise<void> {
    let next = slot
    let batch = this.emptyBatch()
    const commit = async (): Promise<void> => {
      for (const record of (await batch.commit()).records) {
        if (record.status !== 'durable') throw record.error
        this.note(record.receipt)
        durable()
      }
    }
    for await (const record of records) {
      batch.persist(next++, record)
      if (batch.length < BATCH_RECORDS_MAX) continue
      await commit()
      batch = this.emptyBatch()
    }
    if (batch.length > 0) await commit()
  }

  private emptyBatch(): ReturnType<Region['batch']> {
    const { level, batch: condition = 'inOrder' } = this.options
    return this.region.batch({ condition, ...(level !== undefined && { durability: level }) })
  }

  private persist(slot: number, bytes: Uint8Array): Promise<Receipt> {
    const { level, form } = this.options
    const durability = level === undefined ? {} : { durability: level }
    return this.region.persist(slot, bytes, { form, ...durability }).persisted
  }

  private note({ copies, latencyUs, durable }: Receipt): void {
    this.durable = durable
    this.copies = Math.min(this.copies ?? copies, copies)
    this.latencies.record(Math.max(1, Math.round(latencyUs)))
  }
}
