/**
 * Memory of work requests on the own card: pieces of what host and card share, registered one by
 * one.
 *
 * Invariant: the bytes are freed when the card has been told that they are no region any
 * more, not before. A card that was gone knows none of them: what is left is memory, to be freed.
 */

import { checkBytes } from '../../base/kinds.ts'
import { checkRange, type DomainRegion, type RegionTable, sgeOf } from '../../verbs/regions.ts'
import { CardRemoved } from '../../way/queue-errors.ts'
import type { Sge } from '../../way/verbs.ts'
import type { HostBuffer } from '../queues/buffers.ts'

export class PcieRegion implements DomainRegion {
  readonly domain: number
  readonly lkey: number
  private readonly buffer: HostBuffer
  private readonly table: RegionTable<PcieRegion>
  private readonly deregister: (lkey: number) => Promise<void>

  constructor(
    buffer: HostBuffer,
    key: { readonly domain: number; readonly lkey: number },
    table: RegionTable<PcieRegion>,
    deregister: (lkey: number) => Promise<void>,
  ) {
    this.buffer = buffer
    this.domain = key.domain
    this.lkey = key.lkey
    this.table = table
    this.deregister = deregister
    table.add(this)
  }

  get addr(): number {
    return this.buffer.address
  }

  get length(): number {
    return this.buffer.length
  }

  fill(at: number, bytes: Uint8Array): void {
    checkBytes('what is filled in:', bytes)
    checkRange(this, at, bytes.length)
    this.buffer.store(bytes, at)
  }

  read(at: number, length: number): Uint8Array {
    checkRange(this, at, length)
    return this.buffer.load(at, length)
  }

  sge(at: number = 0, length: number = this.length - at): Sge {
    return sgeOf(this, at, length)
  }

  async dereg(): Promise<void> {
    const isKnown = this.table.has(this)
    this.table.remove(this)
    try {
      if (isKnown) await this.deregister(this.lkey)
    } catch (error) {
      if (!(error instanceof CardRemoved)) throw error
    }
    this.buffer.free()
  }
}
