/**
 * The memory regions of one context, by their keys, and whether a piece may be named.
 *
 * Invariant: a piece that passes lies wholly in one region of the domain that asks. The
 * card judges again, by its own table: what passes here is a request that makes sense.
 */

import { ArgumentError } from '../base/errors.ts'
import { check, checkBytes, integer, SIZE, said, type What } from '../base/kinds.ts'
import type { MemoryRegion, Sge } from '../way/verbs.ts'
import type { MemoryPort } from '../way/verbs-way.ts'

/** A region of one domain, wherever its way has the bytes. */
export class Region implements MemoryRegion {
  readonly domain: number
  private readonly port: MemoryPort
  private readonly table: RegionTable

  constructor(port: MemoryPort, domain: number, table: RegionTable) {
    this.port = port
    this.domain = domain
    this.table = table
    table.add(this)
  }

  get lkey(): number {
    return this.port.lkey
  }

  get addr(): number {
    return this.port.addr
  }

  get length(): number {
    return this.port.length
  }

  fill(at: number, bytes: Uint8Array): void {
    checkBytes('what is filled in:', bytes)
    checkRange(this, at, bytes.length)
    this.port.store(bytes, at)
  }

  read(at: number, length: number): Uint8Array {
    checkRange(this, at, length)
    return this.port.load(at, length)
  }

  sge(at: number = 0, length: number = this.length - at): Sge {
    checkRange(this, at, length)
    return { addr: this.addr + at, length, lkey: this.lkey }
  }

  async dereg(): Promise<void> {
    await this.port.free(this.table.remove(this))
  }
}

export class RegionTable {
  private readonly regions = new Map<number, Region>()

  add(region: Region): void {
    this.regions.set(region.lkey, region)
  }

  /** Whether that very region was there: keys are given out again. */
  remove(region: Region): boolean {
    return this.regions.get(region.lkey) === region && this.regions.delete(region.lkey)
  }

  /** Every region, as of now. */
  all(): Region[] {
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
function checkRange(region: MemoryRegion, at: number, length: number): void {
  check('offset', at, SIZE)
  check('length', length, SIZE)
  if (at + length <= region.length) return
  throw new ArgumentError(`${length} bytes at ${at}: the memory region has ${region.length}`)
}

/** Throws PERDURE_ARGUMENT unless so many bytes can be registered. */
export function checkRegionLength(length: number): void {
  check('a memory region of so many bytes:', length, integer(1, 2 ** 32 - 1))
}
