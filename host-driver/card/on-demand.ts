/**
 * Memory of this host that the card serves to others, and whose pages come and go: unpinned, as
 * RDMA has it "on demand" (source 5).
 *
 *     pages of the host (PagedMemory)            this file             the card's translations
 *       arrived ──────────────────────────────▶ MAP, 26 at once ──────▶ page → frame
 *       letGo ───────────────────────────────▶ UNMAP, 53 at once ────▶ page → nothing
 *       done ◀──────────────────────────────── answer of UNMAP
 *       want, expect, drop ◀────────────────── EVENT_PAGES_… ◀─────── an access, or a hint
 *
 * Invariants:
 * - One call of a region is under way at a time, so the card executes them in the order of their
 *   sequence: what it translates is what was mapped last, and a repeated call changes nothing.
 * - A page is let go of when the card has answered the UNMAP that came behind its last MAP, or
 *   never had it, or has no such region any more. An answer that does not come is waited for: the
 *   call is made again, with the next sequence.
 * - The host has room for all pages that one request needs at once, so every request is served in
 *   the end.
 * - An event that got lost is made good by the card, which asks again for a page that is missing.
 * - A page that is lost puts the whole region into the state of error, until every lost page has a
 *   content again.
 * - When the card goes nothing is reached any more; when it is back the region is registered again,
 *   under another R_Key, without any page.
 */

import type { PagedMemory, PageUse, PageUser } from '../../boards/host-port.ts'
import { PAGES_AT_ONCE } from '../../firmware/board/limits.ts'
import { REMOTE_READ, REMOTE_WRITE } from '../../firmware/medium/region.ts'
import * as mad from '../../firmware/wire/management.ts'
import { STATUS_ERROR } from '../../firmware/wire/memory-status.ts'
import { ArgumentError, PerdureError, RefusedError } from '../base/errors.ts'
import { check, checkDomain, oneOf, shown } from '../base/kinds.ts'
import { NEW_REGION_NAME, nameBytesOf } from '../control/region-name.ts'
import {
  type Control,
  IN_PLACE,
  PAGES_MAPPED_AT_ONCE,
  PAGES_UNMAPPED_AT_ONCE,
  type PlacedPage,
} from './control.ts'
import { blockPagesOf, SERVICES, type Service } from './granularity.ts'
import type { QueueEvent } from './queues/values.ts'

export interface OnDemandOptions {
  /** 1 to 32 bytes of UTF-8 without control characters, as `dpu.openBytes` names it. */
  readonly name: string
  readonly memory: PagedMemory
  /** Protection domain, 0 to 65535; 0 unless given. */
  readonly domain?: number
  /** Address of the first byte, a multiple of 4096; 0 unless given. */
  readonly base?: bigint
  /** What others may do with it; both unless given. */
  readonly access?: 'read' | 'write' | 'readWrite'
  /** Who translates its addresses: the card by a table, unless said, or the host's IOMMU. */
  readonly translation?: 'card' | 'iommu'
  /**
   * What its users were promised: with it pages come and go in blocks (granularity.ts), one by one
   * without.
   */
  readonly service?: Service
}

export interface OnDemandCounts {
  /** Events that asked for pages, and pages that they asked for. */
  events: number
  wanted: number
  /** Calls to the card, and pages in them. */
  maps: number
  mapped: number
  unmaps: number
  unmapped: number
}

/** What is asked to be let go of together. */
interface Taking {
  left: number
  readonly done: () => void
}

type State = 'ready' | 'error' | 'away' | 'ended'

export class OnDemandRegion {
  readonly name: string
  readonly memory: PagedMemory
  readonly counts: OnDemandCounts = {
    events: 0,
    wanted: 0,
    maps: 0,
    mapped: 0,
    unmaps: 0,
    unmapped: 0,
  }

  private readonly shape: Parameters<Control['onDemand']>[0]
  private readonly service: Service | undefined
  private readonly forget: (region: OnDemandRegion) => void
  private control: Control | null = null
  private use: PageUse | null = null
  private key = 0
  private sequence = 0
  private isBusy = false
  private unmapsNext = true
  private ended = false
  /** Where the pages are that the card has, or is about to be told of. */
  private readonly mapped = new Set<number>()
  private readonly toMap = new Map<number, number>()
  private readonly toUnmap = new Map<number, Taking>()
  private readonly lost = new Set<number>()
  /** Whether the card was told of the error. */
  private toldError = false

  /** For `PcieDevice.registerOnDemand`. */
  constructor(options: OnDemandOptions, forget: (region: OnDemandRegion) => void) {
    this.shape = shapeOf(options)
    this.service = options.service
    this.name = options.name
    this.memory = options.memory
    this.forget = forget
  }

  /** R_Key that the card has given it; 0 while there is no card. */
  get rkey(): number {
    return this.key
  }

  /** 'error' where a page is lost, 'away' while there is no card. */
  get state(): State {
    if (this.ended) return 'ended'
    if (this.control === null) return 'away'
    return this.lost.size > 0 ? 'error' : 'ready'
  }

  /** Pages that the card can reach now. */
  get mappedPages(): number {
    return this.mapped.size
  }

  /** Registers it with a card that does not know it. Rejects as a control call does. */
  async register(control: Control): Promise<void> {
    if (this.use !== null) throw new ArgumentError(`'${this.name}' is registered`)
    this.use = this.memory.use(this.user(control))
    this.control = control
    this.sequence = 0
    try {
      const { rkey, space } = await control.onDemand(this.shape)
      if (this.control === control) this.begin(rkey, space)
      else await control.endOnDemand(rkey)
    } catch (error) {
      if (this.control === control) this.cardGone()
      throw error
    }
    this.turn()
  }

  private begin(rkey: number, space: number): void {
    this.key = rkey
    if (this.isShared) this.memory.shared!.bind(space)
  }

  /** Does the IOMMU translate? */
  private get isShared(): boolean {
    return this.shape.shared !== undefined
  }

  /** The card is gone: it reaches nothing any more. */
  cardGone(): void {
    if (this.isShared) this.memory.shared!.bind(null)
    this.control = null
    this.key = 0
    this.mapped.clear()
    this.toMap.clear()
    this.toUnmap.clear()
    this.lost.clear()
    this.toldError = false
    this.isBusy = false
    const { use } = this
    this.use = null
    use?.end()
  }

  /** The card says which pages are wanted, or are not. */
  told({ type, pages }: QueueEvent): void {
    const { use, memory, counts } = this
    if (use === null || pages === undefined) return
    const end = Math.min(pages.first + pages.count, memory.bytes / memory.pageBytes)
    counts.events++
    const wanted = type !== 'pagesUnwanted'
    const block = wanted ? blockPagesOf(memory.pressure?.(), this.service) : 1
    if (wanted) use.inBlocks?.(block)
    for (let page = pages.first; page < end && this.use === use; page++) {
      if (type === 'pagesUnwanted') {
        use.drop(page)
      } else {
        counts.wanted++
        if (type === 'pagesHinted') use.expect(page)
        else use.want(page)
      }
    }
    if (block > 1) this.expectAround(use, pages.first, end, block)
  }

  /** The others of the same blocks come, too, behind whatever somebody waits for. */
  private expectAround(use: PageUse, first: number, end: number, block: number): void {
    const { bytes, pageBytes } = this.memory
    const last = Math.min(bytes / pageBytes, Math.ceil(end / block) * block)
    for (let page = first - (first % block); page < last && this.use === use; page++) {
      if (page >= first && page < end) continue
      if (!this.mapped.has(page) && !this.toMap.has(page)) use.expect(page)
    }
  }

  /** Takes the memory back: nobody reaches it when this resolves. */
  async end(): Promise<void> {
    if (this.ended) return
    this.ended = true
    this.forget(this)
    const { control, key } = this
    try {
      if (control !== null && key !== 0) await control.endOnDemand(key)
    } catch (error) {
      if (!isUnknown(error) && !isGone(error)) throw error
    } finally {
      this.cardGone()
    }
  }

  private user(control: Control): PageUser {
    const isOurs = (): boolean => this.control === control
    return {
      arrived: (page, at) => {
        if (!isOurs()) return
        this.toMap.set(page, this.isShared ? IN_PLACE : at)
        this.turn()
      },
      lost: (page) => {
        this.lost.add(page)
        this.turn()
      },
      healed: (page) => {
        this.lost.delete(page)
        this.turn()
      },
      letGo: (pages, done) => this.letGo(pages, done),
    }
  }

  private letGo(pages: readonly number[], done: () => void): void {
    const taking: Taking = { left: pages.length, done }
    for (const page of pages) {
      this.toMap.delete(page)
      if (this.mapped.has(page)) this.toUnmap.set(page, taking)
      else taking.left--
    }
    if (taking.left === 0) done()
    this.turn()
  }

  /** Makes the next call, unless one is under way. */
  private turn(): void {
    const { control } = this
    if (control === null || this.key === 0 || this.isBusy || this.ended) return
    const call = this.nextCall(control)
    if (call === null) return
    this.isBusy = true
    call().then(
      () => this.after(control),
      (error: unknown) => this.failed(control, error),
    )
  }

  private nextCall(control: Control): (() => Promise<void>) | null {
    if (this.lost.size > 0 !== this.toldError) return () => this.tellState(control)
    if (this.toUnmap.size > 0 && (this.unmapsNext || this.toMap.size === 0)) {
      return () => this.unmap(control)
    }
    return this.toMap.size > 0 ? () => this.map(control) : null
  }

  private after(control: Control): void {
    if (this.control !== control) return
    this.isBusy = false
    this.turn()
  }

  /** What the card did not answer is asked again; what it refused ends the region. */
  private failed(control: Control, error: unknown): void {
    if (this.control !== control || isGone(error)) return
    this.isBusy = false
    if (error instanceof PerdureError && error.code === 'PERDURE_UNREACHABLE') this.turn()
    else void this.end().catch(() => {})
  }

  private async tellState(control: Control): Promise<void> {
    const isError = this.lost.size > 0
    await control.onDemandState(this.key, isError ? STATUS_ERROR : mad.ON_DEMAND_READY)
    if (this.control === control) this.toldError = isError
  }

  private async map(control: Control): Promise<void> {
    this.unmapsNext = true
    const pages: PlacedPage[] = take(this.toMap, PAGES_MAPPED_AT_ONCE)
    for (const [page] of pages) {
      this.toMap.delete(page)
      this.mapped.add(page)
    }
    this.counts.maps++
    this.counts.mapped += pages.length
    // Of a call that is not answered some may be mapped; the card asks again for the others.
    await control.mapPages(this.key, ++this.sequence, pages)
  }

  private async unmap(control: Control): Promise<void> {
    this.unmapsNext = false
    const pages = take(this.toUnmap, PAGES_UNMAPPED_AT_ONCE)
    this.counts.unmaps++
    this.counts.unmapped += pages.length
    await control.unmapPages(
      this.key,
      ++this.sequence,
      pages.map(([page]) => page),
    )
    if (this.control !== control) return
    for (const [page, taking] of pages) {
      this.toUnmap.delete(page)
      this.mapped.delete(page)
      taking.left--
      if (taking.left === 0) taking.done()
    }
  }
}

function take<T>(from: ReadonlyMap<number, T>, most: number): [number, T][] {
  const taken: [number, T][] = []
  for (const entry of from) {
    if (taken.length === most) break
    taken.push(entry)
  }
  return taken
}

/** Whether there is no card any more: the device says so, too. */
function isGone(error: unknown): boolean {
  if (!(error instanceof PerdureError)) return false
  return error.code === 'PERDURE_CARD_REMOVED' || error.code === 'PERDURE_CLOSED'
}

/** Whether the card has no such region. */
function isUnknown(error: unknown): boolean {
  return error instanceof RefusedError && error.fault === 'KEY'
}

const RIGHTS = {
  read: REMOTE_READ,
  write: REMOTE_WRITE,
  readWrite: REMOTE_READ | REMOTE_WRITE,
} as const

/** Throws PERDURE_ARGUMENT where a request could wait forever. */
export function checkRoom({ room, bytes, pageBytes }: PagedMemory): void {
  const least = Math.min(PAGES_AT_ONCE, bytes / pageBytes)
  if (room >= least) return
  throw new ArgumentError(`room for ${room} pages: a request may need ${least} at once`)
}

function shapeOf(options: OnDemandOptions): Parameters<Control['onDemand']>[0] {
  const { name, memory, domain = 0, base = 0n, access = 'readWrite' } = options
  const { translation = 'card', service } = options
  check('region name', name, NEW_REGION_NAME)
  const bytes = nameBytesOf(name)!
  checkDomain(domain)
  if (typeof base !== 'bigint' || base < 0n || base % BigInt(memory.pageBytes) !== 0n) {
    throw new ArgumentError(`base ${shown(base)}: a multiple of ${memory.pageBytes}`)
  }
  check('access', access, oneOf(Object.keys(RIGHTS)))
  check('translation', translation, oneOf(['card', 'iommu']))
  if (service !== undefined) check('service', service, oneOf(SERVICES))
  const { shared } = memory
  if (translation === 'iommu' && shared === undefined) {
    throw new ArgumentError("translation 'iommu': the memory has no addresses that it translates")
  }
  const shape = { name: bytes, length: memory.bytes, base, domain, rights: RIGHTS[access] }
  return translation === 'iommu' ? { ...shape, shared: shared!.address } : shape
}
