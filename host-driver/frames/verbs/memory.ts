/**
 * Memory of work requests over a wire: plain memory of this process, named as a card would name it.
 *
 * Invariant: an address belongs to one region only, and is not given out again; a piece is
 * looked at when it is used, so what a region holds by then is what is sent.
 */

import { copyOf } from '../../base/bytes.ts'
import { checkBytes } from '../../base/kinds.ts'
import { checkRange, type DomainRegion, RegionTable, sgeOf } from '../../verbs/regions.ts'
import type { Sge } from '../../way/verbs.ts'

/** Regions begin at multiples of it, with one between them that belongs to nobody. */
const PAGE_BYTES = 4096

export class WireMemory {
  readonly regions: RegionTable<WireRegion> = new RegionTable()
  private nextKey = 1
  private nextAddr = PAGE_BYTES

  register(domain: number, length: number): WireRegion {
    const region = new WireRegion(this, domain, this.nextKey++, this.nextAddr, length)
    this.nextAddr += (Math.ceil(length / PAGE_BYTES) + 1) * PAGE_BYTES
    this.regions.add(region)
    return region
  }

  /** The memory of a piece that was checked; of a region that was given back since, no matter. */
  at({ addr, length, lkey }: Sge): Uint8Array {
    const region = this.regions.get(lkey)
    if (region === undefined) return new Uint8Array(length)
    return region.bytes.subarray(addr - region.addr, addr - region.addr + length)
  }
}

class WireRegion implements DomainRegion {
  readonly domain: number
  readonly lkey: number
  readonly addr: number
  readonly bytes: Uint8Array
  private readonly memory: WireMemory

  constructor(memory: WireMemory, domain: number, lkey: number, addr: number, length: number) {
    this.memory = memory
    this.domain = domain
    this.lkey = lkey
    this.addr = addr
    this.bytes = new Uint8Array(length)
  }

  get length(): number {
    return this.bytes.length
  }

  fill(at: number, bytes: Uint8Array): void {
    checkBytes('what is filled in:', bytes)
    checkRange(this, at, bytes.length)
    this.bytes.set(bytes, at)
  }

  read(at: number, length: number): Uint8Array {
    checkRange(this, at, length)
    return copyOf(this.bytes.subarray(at, at + length))
  }

  sge(at: number = 0, length: number = this.length - at): Sge {
    return sgeOf(this, at, length)
  }

  dereg(): Promise<void> {
    this.memory.regions.remove(this)
    return Promise.resolve()
  }
}
