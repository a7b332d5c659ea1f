/**
 * The memory regions of one context, by their keys: whether a piece may be named.
 *
 * Invariant: a piece that passes lies wholly in one region of the domain that asks. The
 * card judges again, by its own table: what passes here is a request that makes sense.
 */

import { ArgumentError } from '../base/errors.ts'
import { check, integer, SIZE, said, type What } from '../base/kinds.ts'
import type { MemoryRegion, Sge } from '../way/verbs.ts'

/** A region, and the domain that it is of. */
export interface DomainRegion extends MemoryRegion {
  readonly domain: number
}

export class RegionTable<T extends DomainRegion> {
  private readonly regions = new Map<number, T>()

  add(region: T): void {
    this.regions.set(region.lkey, region)
  }

  remove(region: T): void {
    if (this.has(region)) this.regions.delete(region.lkey)
  }

  get(lkey: number): T | undefined {
    return this.regions.get(lkey)
  }

  /** Whether that very region is there: keys are given out again. */
  has(region: T): boolean {
    return this.regions.get(region.lkey) === region
  }

  /** Every region, as of now. */
  all(): T[] {
    return [...this.regions.values()]
  }

  /** Whoever knew the keys is gone. */
  clear(): void {
    this.regions.clear()
  }

  /** Throws PERDURE_ARGUMENT unless a region of the domain covers the piece. */
  check(domain: number, { addr, length, lkey }: Sge, what: What): void {
    const region = this.regions.get(lkey)
    const sane = Number.isSafeInteger(addr) && Number.isSafeInteger(length) && length >= 0
    if (sane && region?.domain === domain) {
      if (addr >= region.addr && addr + length <= region.addr + region.length) return
    }
    const piece = `${length} bytes at ${addr} with L_Key ${lkey}`
    throw new ArgumentError(`${said(what)}: ${piece}: no memory region covers it`)
  }
}

/** Throws PERDURE_ARGUMENT unless [at, at + length) lies in the region. */
export function checkRange(region: MemoryRegion, at: number, length: number): void {
  check('offset', at, SIZE)
  check('length', length, SIZE)
  if (at + length <= region.length) return
  throw new ArgumentError(`${length} bytes at ${at}: the memory region has ${region.length}`)
}

/** A piece of a region. */
export function sgeOf(region: MemoryRegion, at: number, length: number): Sge {
  checkRange(region, at, length)
  return { addr: region.addr + at, length, lkey: region.lkey }
}

/** Throws PERDURE_ARGUMENT unless so many bytes can be registered. */
export function checkRegionLength(length: number): void {
  check('a memory region of so many bytes:', length, integer(1, 2 ** 32 - 1))
}
