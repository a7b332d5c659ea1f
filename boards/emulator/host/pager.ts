/**
 * The pager of an emulated host: memory of more pages than there are frames, the rest in a swap
 * file, and one user who reaches the pages by DMA (PagedMemory).
 *
 *               want, load, store                     read, or zeros
 *     absent ───────────────────────▶ queued ─(frame)─▶ loading ──▶ present
 *       ▲                                                  │           │ chosen, or evict()
 *       │ clean, or written                    read error ▼           ▼
 *       └───────────────── writing ◀── dirty ──────── lost  ◀──╳  leaving ── letGo, done
 *
 * Invariants:
 * - A frame has one page, and a page one frame, or none. A frame changes its page only by way of
 *   the list of free frames, and comes into that list only from a page that is neither shared nor
 *   being read or written: of a page that its user was given, `letGo` has been answered before.
 * - The IOMMU lets the card reach the frames of shared pages and no other, so nobody writes into a
 *   frame that is free, being read into or written back. The marks of the memory show whether that
 *   is true: a mark there is told to `onViolation`.
 * - A page is as its last store left it: the CPU stores into pages that are present, and marks them
 *   dirty; the card's stores are marked when they are in the memory, and the marks are looked at
 *   when the user has let go, behind its last store. A dirty page is never dropped: it is written,
 *   and stays where writing fails.
 * - Whoever waits for a page hears of it in the call that makes it present: nothing takes it away
 *   in between. A page that leaves and is wanted meanwhile stays.
 * - A page that came for the card is not chosen before the card has used it, or STAY_US have
 *   passed: whoever asks for less than all frames finds them all present at some time.
 * - A page that is only expected takes no frame from one that is waited for: it comes after those,
 *   and where all frames stay for somebody it is the first to go. So no expectations, however many,
 *   keep an access waiting.
 */

import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import type { Clock, Timer } from '../../clock.ts'
import {
  type PagedMemory,
  PageLost,
  type PagePressure,
  type PageUse,
  type PageUser,
  type SharedAddresses,
} from '../../host-port.ts'
import { COUNT, having, type Kinds, SIZE } from '../../kinds.ts'
import { CLOCK, check, checkFields, MICROSECONDS, RAM } from '../base/arguments.ts'
import type { HostRam } from './host-ram.ts'
import { PageTable } from './iommu.ts'
import type { SwapDevice } from './swap.ts'

/*
 * What things take, µs of virtual time: the orders of magnitude of servers.
 */
/** A page fault that needs no drive: a page of zeros. */
const ZERO_PAGE_US = 1
/** A page that came for the card stays so long unless it is used: some waits for a NAK of RNR. */
const STAY_US = 2000
/** A window over which swapping is measured. */
const PRESSURE_US = 100_000
/** A page that could not be written back is tried again after this. */
const WRITE_AGAIN_US = 10_000

export interface PagerOptions {
  readonly ram: HostRam
  /** Where the frames lie, and how many there are; on a page. */
  readonly at: number
  readonly frames: number
  /** Pages of the memory. */
  readonly pages: number
  readonly swap: SwapDevice
  readonly clock: Clock
  /** Frames that are kept free for the next fault; a sixteenth unless given. */
  readonly spare?: number
  /** Virtual address of the first page, for a card that reaches it so; 2^32 unless given. */
  readonly address?: number
  readonly stayUs?: number
}

const PAGER_KINDS: Kinds<PagerOptions> = {
  ...{ ram: RAM, at: SIZE, frames: COUNT, pages: COUNT, spare: SIZE, stayUs: MICROSECONDS },
  address: SIZE,
  ...{ swap: having(['read', 'write'], 'a SwapDevice'), clock: CLOCK },
}

const USER = having(['arrived', 'lost', 'healed', 'letGo'], 'a user of the memory')

const PAGER_NEEDED = ['ram', 'at', 'frames', 'pages', 'swap', 'clock'] as const

/** States of a page. */
const ABSENT = 0
const QUEUED = 1
const LOADING = 2
const PRESENT = 3
const LEAVING = 4
const WRITING = 5
const LOST = 6
const STATES = ['absent', 'queued', 'loading', 'present', 'leaving', 'writing', 'lost'] as const

export type PageState = (typeof STATES)[number]

export interface PagerCounts {
  /** Pages of zeros, and pages read from the swap file. */
  minorFaults: number
  majorFaults: number
  /** Pages taken out of their frames; those of them that were written back; those that stayed. */
  evictions: number
  writeBacks: number
  rescued: number
  /** Pages that the user was asked to let go. */
  unmapped: number
  lost: number
}

/** The card wrote into a frame that nobody had given it. */
export class FrameViolation extends Error {
  override readonly name = 'FrameViolation'
  readonly code = 'FRAME_VIOLATION'
  readonly frame: number

  constructor(frame: number) {
    super(`frame ${frame} was written by the card while it was not the card's`)
    this.frame = frame
  }
}

type Waiter = (at: number) => void

export class Pager implements PagedMemory {
  readonly pageBytes: number = PAGE_BYTES
  readonly pages: number
  readonly frames: number
  readonly counts: PagerCounts = {
    minorFaults: 0,
    majorFaults: 0,
    evictions: 0,
    writeBacks: 0,
    rescued: 0,
    unmapped: 0,
    lost: 0,
  }
  onViolation: (violation: FrameViolation) => void = (violation) => {
    throw violation
  }

  readonly shared: SharedAddresses
  private readonly ram: HostRam
  private readonly at: number
  private readonly swap: SwapDevice
  private readonly clock: Clock
  private readonly spare: number
  private readonly stayUs: number

  /** By page. */
  private readonly states: Uint8Array
  private readonly frameOf: Int32Array
  /** The swap file has what is in it. */
  private readonly swapped: Uint8Array
  private readonly dirty: Uint8Array
  /** The user was given it, and has not let go; wants it. */
  private readonly shares: Uint8Array
  private readonly wanted: Uint8Array
  /** Nobody has waited for it yet. */
  private readonly expected: Uint8Array
  private readonly waiters = new Map<number, Waiter[]>()

  /** By frame: its page, or -1; not to be chosen before that time, unless it is used. */
  private readonly pageOf: Int32Array
  private readonly stays: Float64Array
  private readonly free: number[] = []
  private readonly queue: number[] = []
  /** Behind all of the queue: pages that are expected. */
  private readonly ahead: Set<number> = new Set()
  private hand = 0
  private leaving = 0
  private reclaiming: Timer | null = null
  private user: PageUser | null = null
  /** The pages that the user has, by virtual addresses. */
  private readonly table: PageTable = new PageTable()
  /** Number by which the card knows that address space; null: by none. */
  private space: number | null = null
  /** Pages that go together. */
  private blockPages = 1
  /** When the window of `pressure` began, swaps until then, and those of the window before. */
  private windowUs = 0
  private swapsFrom = 0
  private swapsBefore = 0
  /** What the user was asked to let go, and has not. */
  private readonly asked = new Set<() => void>()

  constructor(options: PagerOptions) {
    checkFields('a pager', options, PAGER_KINDS, PAGER_NEEDED)
    const { ram, at, frames, pages, swap, clock, spare = frames >> 4, stayUs = STAY_US } = options
    const fits = at % PAGE_BYTES === 0 && at >= 0 && at + frames * PAGE_BYTES <= ram.bytes
    if (!fits || frames < 1 || pages < 1) {
      throw new RangeError(`${frames} frames at ${at} for ${pages} pages`)
    }
    const { address = 2 ** 32 } = options
    if (address % PAGE_BYTES !== 0) throw new RangeError(`address ${address}: on a page`)
    this.shared = { address, bind: (space) => this.bind(space) }
    this.ram = ram
    this.at = at
    this.frames = frames
    this.pages = pages
    this.swap = swap
    this.clock = clock
    this.spare = Math.min(spare, frames - 1)
    this.stayUs = stayUs
    this.states = new Uint8Array(pages)
    this.frameOf = new Int32Array(pages).fill(-1)
    this.swapped = new Uint8Array(pages)
    this.dirty = new Uint8Array(pages)
    this.shares = new Uint8Array(pages)
    this.wanted = new Uint8Array(pages)
    this.expected = new Uint8Array(pages)
    this.pageOf = new Int32Array(frames).fill(-1)
    this.stays = new Float64Array(frames)
    for (let frame = frames - 1; frame >= 0; frame--) this.free.push(frame)
    ram.windows.unmap(at, frames * PAGE_BYTES)
  }

  get bytes(): number {
    return this.pages * PAGE_BYTES
  }

  get room(): number {
    return this.frames
  }

  stateOf(page: number): PageState {
    return STATES[this.states[page]!]!
  }

  /** Where a page is that has a frame, in the memory of the host; -1 of another. */
  addressOf(page: number): number {
    const frame = this.frameOf[page]!
    return frame < 0 ? -1 : this.addressOfFrame(frame)
  }

  private addressOfFrame(frame: number): number {
    return this.at + frame * PAGE_BYTES
  }

  // ---- the user --------------------------------------------------------------------------------

  use(user: PageUser): PageUse {
    check('user', user, USER)
    if (this.user !== null) throw new Error('the memory has a user')
    this.user = user
    return {
      want: (page) => {
        if (this.user === user) this.want(page)
      },
      expect: (page) => {
        if (this.user === user) this.expect(page)
      },
      drop: (page) => {
        if (this.user === user) this.drop(page)
      },
      inBlocks: (pages) => {
        if (this.user === user) this.blockPages = pages
      },
      end: () => {
        if (this.user === user) this.endUse()
      },
    }
  }

  /** Measured over the last windows of PRESSURE_US. */
  pressure(): PagePressure {
    this.turnWindow()
    const most = Math.max(this.swapsBefore, this.swapsNow - this.swapsFrom)
    return { free: this.free.length / this.frames, swapsPerS: (most * 1e6) / PRESSURE_US }
  }

  private get swapsNow(): number {
    return this.counts.majorFaults + this.counts.writeBacks
  }

  private turnWindow(): void {
    const passed = this.clock.nowUs - this.windowUs
    if (passed < PRESSURE_US) return
    this.swapsBefore = passed < 2 * PRESSURE_US ? this.swapsNow - this.swapsFrom : 0
    this.swapsFrom = this.swapsNow
    this.windowUs = this.clock.nowUs
  }

  private bind(space: number | null): void {
    const { iommu } = this.ram
    if (this.space !== null) iommu.unbind(this.space, this.table)
    if (space !== null) iommu.bind(space, this.table)
    this.space = space
  }

  private virtualOf(page: number): number {
    return this.shared.address + page * PAGE_BYTES
  }

  private want(page: number): void {
    this.check(page * PAGE_BYTES, PAGE_BYTES)
    this.wanted[page] = 1
    this.bring(page)
  }

  private expect(page: number): void {
    this.check(page * PAGE_BYTES, PAGE_BYTES)
    const state = this.states[page]
    // Its frame is for one that is waited for.
    if ((state === LEAVING || state === WRITING) && this.queue.length > 0) return
    this.wanted[page] = 1
    if (state === ABSENT) {
      this.states[page] = QUEUED
      this.expected[page] = 1
      this.ahead.add(page)
      this.fillFrames()
    } else if (state === PRESENT || state === LOST) {
      // From here on it stays for that alone.
      if (state === PRESENT && this.isFree(page)) this.expected[page] = 1
      this.tell(page)
    }
  }

  /** Nobody needs the page to stay. */
  private isFree(page: number): boolean {
    return this.stays[this.frameOf[page]!]! <= this.clock.nowUs
  }

  private drop(page: number): void {
    const frame = this.frameOf[page] ?? -1
    if (frame < 0 || this.states[page] !== PRESENT) return
    this.stays[frame] = 0
    this.ram.marks.takeAccessed(this.addressOfFrame(frame))
  }

  private endUse(): void {
    this.user = null
    this.blockPages = 1
    for (let page = 0; page < this.pages; page++) this.unshare(page)
    this.wanted.fill(0)
    for (const page of this.ahead) this.states[page] = ABSENT
    this.ahead.clear()
    // Taking a translation back drains what is on its way (VT-d, drain writes).
    this.ram.link.arrive()
    for (const done of [...this.asked]) done()
  }

  // ---- the CPU ---------------------------------------------------------------------------------

  async load(at: number, length: number): Promise<Uint8Array> {
    this.check(at, length)
    const into = new Uint8Array(length)
    await this.each(at, length, (page, offset, from, count) => {
      const bytes = this.ram.load(this.addressOf(page) + offset, count)
      into.set(bytes, from)
    })
    return into
  }

  async store(at: number, bytes: Uint8Array): Promise<void> {
    this.check(at, bytes.length)
    // Of a Buffer `slice` would be a view.
    const copy = new Uint8Array(bytes)
    const put = (page: number, offset: number, from: number, count: number): void => {
      this.ram.store(this.addressOf(page) + offset, copy.subarray(from, from + count))
      this.dirty[page] = 1
    }
    for (
      let page = Math.ceil(at / PAGE_BYTES);
      (page + 1) * PAGE_BYTES <= at + copy.length;
      page++
    ) {
      this.renew(page)
    }
    await this.each(at, copy.length, put)
  }

  /** A page that was lost gets a new content altogether. */
  private renew(page: number): void {
    if (this.states[page] !== LOST) return
    this.states[page] = ABSENT
    this.swapped[page] = 0
    this.user?.healed(page)
  }

  /** Does something with every page of [at, at + length) while it is present. */
  private async each(
    at: number,
    length: number,
    use: (page: number, offset: number, from: number, count: number) => void,
  ): Promise<void> {
    for (let from = 0; from < length; ) {
      const page = Math.floor((at + from) / PAGE_BYTES)
      const offset = (at + from) % PAGE_BYTES
      const count = Math.min(PAGE_BYTES - offset, length - from)
      const begin = from
      await new Promise<void>((resolve, reject) => {
        this.waitFor(page, (address) => {
          if (address < 0) return reject(new PageLost(page))
          use(page, offset, begin, count)
          resolve()
        })
      })
      from += count
    }
  }

  private waitFor(page: number, waiter: Waiter): void {
    const waiters = this.waiters.get(page)
    if (waiters === undefined) this.waiters.set(page, [waiter])
    else waiters.push(waiter)
    this.bring(page)
  }

  private check(at: number, length: number): void {
    const sane = Number.isSafeInteger(at) && Number.isSafeInteger(length)
    if (sane && at >= 0 && length >= 0 && at <= this.bytes - length) return
    throw new RangeError(`${length} bytes at ${at} of a memory of ${this.bytes}`)
  }

  // ---- pages come ------------------------------------------------------------------------------

  /** Whoever waits for the page hears of it, now or when it is there. */
  private bring(page: number): void {
    const state = this.states[page]
    this.expected[page] = 0
    if (state === PRESENT || state === LOST) {
      this.tell(page)
    } else if (state === ABSENT || this.ahead.delete(page)) {
      this.states[page] = QUEUED
      this.queue.push(page)
      this.fillFrames()
    }
  }

  private fillFrames(): void {
    while (this.queued > 0 && this.free.length > 0) this.fill(this.next(), this.free.pop()!)
    this.reclaim()
  }

  /** Pages that have no frame yet, and are to have one. */
  private get queued(): number {
    return this.queue.length + this.ahead.size
  }

  private next(): number {
    if (this.queue.length > 0) return this.queue.shift()!
    const [page] = this.ahead
    this.ahead.delete(page!)
    return page!
  }

  private fill(page: number, frame: number): void {
    this.states[page] = LOADING
    this.frameOf[page] = frame
    this.pageOf[frame] = page
    if (this.swapped[page] === 1) {
      this.counts.majorFaults++
      this.swap.read(page, (bytes) => this.loaded(page, bytes))
    } else {
      this.counts.minorFaults++
      const zeros = (): void => this.loaded(page, new Uint8Array(PAGE_BYTES))
      this.clock.schedule(this.clock.nowUs + ZERO_PAGE_US, zeros)
    }
  }

  private loaded(page: number, bytes: Uint8Array | null): void {
    const frame = this.frameOf[page]!
    const at = this.addressOfFrame(frame)
    if (this.ram.marks.takeDirty(at)) this.onViolation(new FrameViolation(frame))
    if (bytes === null) {
      this.counts.lost++
      this.states[page] = LOST
      this.freeFrame(page)
      this.tell(page)
      this.fillFrames()
      return
    }
    this.ram.store(at, bytes)
    this.dirty[page] = 0
    this.ram.marks.takeAccessed(at)
    this.becomes(page, 0)
    this.reclaim()
  }

  private becomes(page: number, keepUs: number): void {
    this.states[page] = PRESENT
    this.stays[this.frameOf[page]!] = this.clock.nowUs + keepUs
    this.tell(page)
  }

  /** The page is present, or lost. */
  private tell(page: number): void {
    const at = this.states[page] === PRESENT ? this.addressOf(page) : -1
    if (this.wanted[page] === 1) {
      this.wanted[page] = 0
      if (at >= 0) {
        this.share(page, at)
      } else {
        this.user?.lost(page)
      }
    }
    const waiters = this.waiters.get(page) ?? []
    this.waiters.delete(page)
    for (const waiter of waiters) waiter(at)
  }

  private share(page: number, at: number): void {
    const frame = this.frameOf[page]!
    this.stays[frame] = Math.max(this.stays[frame]!, this.clock.nowUs + this.stayUs)
    this.shares[page] = 1
    this.ram.windows.map(at, PAGE_BYTES)
    this.table.map(this.virtualOf(page), at)
    this.user?.arrived(page, at)
  }

  private unshare(page: number): void {
    if (this.shares[page] === 0) return
    this.shares[page] = 0
    this.ram.windows.unmap(this.addressOf(page), PAGE_BYTES)
    this.table.unmap(this.virtualOf(page))
  }

  // ---- pages go --------------------------------------------------------------------------------

  /** Takes the page out of its frame now, whatever it is used for; false if that cannot begin. */
  evict(page: number): boolean {
    if (this.states[page] !== PRESENT) return false
    this.leave([page])
    return true
  }

  /** Begins to empty frames where too few are free. */
  private reclaim(): void {
    const victims: number[] = []
    this.collect(victims, this.queued + this.spare, () => this.choose())
    this.collect(victims, this.queue.length, () => this.chooseExpected())
    if (victims.length > 0) this.leave(victims)
    else if (this.queued > 0 && this.leaving === 0) this.reclaimLater()
  }

  /** Adds victims, until so many frames are free or will be, or none is found. */
  private collect(victims: number[], needed: number, choose: () => number): void {
    const most = Math.min(needed, this.frames)
    while (this.free.length + this.leaving + victims.length < most) {
      const frame = choose()
      if (frame < 0) return
      const page = this.pageOf[frame]!
      victims.push(page)
      // Not to be chosen again in this call.
      this.stays[frame] = Infinity
      // The rest of its block goes, too: room for another one.
      const first = page - (page % this.blockPages)
      for (let mate = first; mate < first + this.blockPages; mate++) {
        if (this.isIdle(mate)) {
          victims.push(mate)
          this.stays[this.frameOf[mate]!] = Infinity
        }
      }
    }
  }

  /** May the page go, too, as nobody uses it? */
  private isIdle(page: number): boolean {
    if (page >= this.pages || this.states[page] !== PRESENT) return false
    const frame = this.frameOf[page]!
    if (this.stays[frame]! > this.clock.nowUs) return false
    return !this.ram.marks.takeAccessed(this.addressOfFrame(frame))
  }

  /** Second chance: the next frame that was not used since the hand came by, or -1. */
  private choose(): number {
    const { ram, clock } = this
    for (let steps = 0; steps < 2 * this.frames; steps++) {
      const frame = this.hand
      this.hand = (this.hand + 1) % this.frames
      const page = this.pageOf[frame]!
      if (page < 0 || this.states[page] !== PRESENT) continue
      const used = ram.marks.takeAccessed(this.addressOfFrame(frame))
      if (this.stays[frame]! === Infinity) continue
      if (used) {
        this.stays[frame] = 0
        this.expected[page] = 0
      } else if (this.stays[frame]! <= clock.nowUs) {
        return frame
      }
    }
    return -1
  }

  /** The frame of a page that stays as it is expected, for one that is waited for; or -1. */
  private chooseExpected(): number {
    for (let frame = 0; frame < this.frames; frame++) {
      const page = this.pageOf[frame]!
      if (page < 0 || this.states[page] !== PRESENT || this.expected[page] === 0) continue
      if (this.stays[frame] !== Infinity) return frame
    }
    return -1
  }

  /** Every frame is kept for somebody: until the first of them is not. */
  private reclaimLater(): void {
    if (this.reclaiming !== null) return
    let first = Infinity
    for (let frame = 0; frame < this.frames; frame++) {
      const page = this.pageOf[frame]!
      if (page >= 0 && this.states[page] === PRESENT) first = Math.min(first, this.stays[frame]!)
    }
    if (first === Infinity) return
    this.reclaiming = this.clock.schedule(first, () => {
      this.reclaiming = null
      this.reclaim()
    })
  }

  private leave(pages: readonly number[]): void {
    const shared: number[] = []
    const own: number[] = []
    for (const page of pages) {
      this.states[page] = LEAVING
      this.leaving++
      if (this.shares[page] === 1) shared.push(page)
      else own.push(page)
    }
    if (shared.length > 0) this.askFor(shared)
    for (const page of own) this.left(page)
  }

  private askFor(pages: readonly number[]): void {
    this.counts.unmapped += pages.length
    const done = (): void => {
      if (!this.asked.delete(done)) return
      for (const page of pages) {
        this.unshare(page)
        this.left(page)
      }
    }
    this.asked.add(done)
    this.user!.letGo(pages, done)
  }

  private isAwaited(page: number): boolean {
    return this.wanted[page] === 1 || this.waiters.has(page)
  }

  /** Nobody but the CPU reaches the page. */
  private left(page: number): void {
    const frame = this.frameOf[page]!
    const at = this.addressOfFrame(frame)
    if (this.ram.marks.takeDirty(at)) this.dirty[page] = 1
    if (this.isAwaited(page)) {
      this.rescue(page)
    } else if (this.dirty[page] === 0) {
      this.taken(page)
    } else {
      this.states[page] = WRITING
      this.counts.writeBacks++
      const bytes = this.ram.load(at, PAGE_BYTES)
      this.swap.write(page, bytes, (kept) => this.written(page, kept))
    }
  }

  private written(page: number, kept: boolean): void {
    const frame = this.frameOf[page]!
    if (this.ram.marks.takeDirty(this.addressOfFrame(frame))) {
      this.onViolation(new FrameViolation(frame))
    }
    if (kept) {
      this.swapped[page] = 1
      this.dirty[page] = 0
      if (this.isAwaited(page)) this.rescue(page)
      else this.taken(page)
    } else {
      this.rescue(page, WRITE_AGAIN_US)
    }
  }

  /** The page stays after all. */
  private rescue(page: number, keepUs = 0): void {
    this.counts.rescued++
    this.leaving--
    this.becomes(page, keepUs)
    this.reclaim()
  }

  private taken(page: number): void {
    this.counts.evictions++
    this.leaving--
    this.states[page] = ABSENT
    this.freeFrame(page)
    this.fillFrames()
  }

  private freeFrame(page: number): void {
    const frame = this.frameOf[page]!
    this.frameOf[page] = -1
    this.pageOf[frame] = -1
    this.free.push(frame)
  }
}
