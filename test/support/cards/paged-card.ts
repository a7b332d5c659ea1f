/**
 * A host with a pager, and somebody who reaches its pages as a card does: by posted writes to
 * frames that it was told, until it has said that it lets go of them.
 */

import { HostRam, Pager, SwapDevice, VirtualClock } from '../../../boards/emulator/index.ts'
import type { PageUse, PageUser } from '../../../boards/host-port.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'

/** The frames begin here: nothing is at 0. */
const FRAMES_AT: number = 2 * PAGE_BYTES

/** From the card's last write to a frame until its answer has arrived. */
const ANSWER_US = 1

/** More than this are no rest. */
const EVENTS_MAX = 10_000

export interface PagedCardOptions {
  readonly frames: number
  readonly pages: number
  readonly spare?: number
  readonly stayUs?: number
  /** From the host's question to the card's letting go; null: not before `answer` is called. */
  readonly answerUs?: number | null
}

export class PagedCard implements PageUser {
  readonly clock: VirtualClock = new VirtualClock()
  readonly ram: HostRam
  readonly swap: SwapDevice
  readonly pager: Pager
  readonly use: PageUse
  /** What the card translates. */
  readonly mapped: Map<number, number> = new Map()
  readonly lostPages: Set<number> = new Set()
  /** Bytes that are to be written as soon as their page is there. */
  private readonly waiting = new Map<number, [offset: number, value: number][]>()
  private readonly unanswered: (() => void)[] = []
  private readonly answerUs: number | null

  constructor({ frames, pages, spare, stayUs, answerUs = 3 }: PagedCardOptions) {
    const { clock } = this
    this.answerUs = answerUs
    this.ram = new HostRam(FRAMES_AT + (frames + 1) * PAGE_BYTES)
    this.ram.link.useClock(clock)
    this.swap = new SwapDevice({ clock, pageBytes: PAGE_BYTES })
    this.pager = new Pager({
      ...{ ram: this.ram, at: FRAMES_AT, frames, pages, swap: this.swap, clock },
      ...(spare === undefined ? {} : { spare }),
      ...(stayUs === undefined ? {} : { stayUs }),
    })
    this.use = this.pager.use(this)
  }

  arrived(page: number, at: number): void {
    this.mapped.set(page, at)
    const bytes = this.waiting.get(page) ?? []
    this.waiting.delete(page)
    for (const [offset, value] of bytes) this.put(at + offset, value)
  }

  lost(page: number): void {
    this.lostPages.add(page)
    this.waiting.delete(page)
  }

  healed(page: number): void {
    this.lostPages.delete(page)
  }

  letGo(pages: readonly number[], done: () => void): void {
    const answer = (): void => {
      for (const page of pages) this.mapped.delete(page)
      this.clock.schedule(this.clock.nowUs + ANSWER_US, done)
    }
    const { answerUs, clock } = this
    if (answerUs === null) this.unanswered.push(answer)
    else if (answerUs === 0) answer()
    else clock.schedule(clock.nowUs + answerUs, answer)
  }

  /** Lets go of what it was asked for. */
  answer(): void {
    for (const answer of this.unanswered.splice(0)) answer()
  }

  /** The card writes a byte: now, or when the page has come. */
  write(page: number, offset: number, value: number): void {
    const at = this.mapped.get(page)
    if (at !== undefined) {
      this.put(at + offset, value)
      return
    }
    this.waiting.set(page, [...(this.waiting.get(page) ?? []), [offset, value]])
    this.use.want(page)
  }

  private put(at: number, value: number): void {
    this.ram.dmaWrite(at, Uint8Array.of(value), 0, 1)
  }

  /** The card reads: null where the page is not there; it is then wanted. */
  read(page: number, offset: number): number | null {
    const at = this.mapped.get(page)
    if (at === undefined) {
      this.use.want(page)
      return null
    }
    if (!this.ram.dmaRead(at + offset, 1)) throw new Error('the IOMMU refused a read')
    return this.ram.live[at + offset]!
  }

  /** Lets everything happen that will, or so many events. */
  async settle(events: number = Infinity): Promise<void> {
    for (let i = 0; i < events; i++) {
      await turn()
      if (!this.clock.step()) return
      this.check()
      if (i === EVENTS_MAX) throw new Error('the pager never rests')
    }
    await turn()
  }

  /** What the CPU loads, when everything has happened that will. */
  async load(at: number, length: number): Promise<Uint8Array> {
    const nothing = Symbol('nothing')
    const loaded = this.pager.load(at, length)
    await this.settle()
    const bytes = await Promise.race([loaded, Promise.resolve(nothing)])
    if (bytes === nothing) throw new Error(`the bytes at ${at} never come`)
    return bytes as Uint8Array
  }

  /** No two pages are in one frame, and the card was refused nothing. */
  check(): void {
    const places = new Set<number>()
    for (let page = 0; page < this.pager.pages; page++) {
      const at = this.pager.addressOf(page)
      if (at < 0) continue
      if (places.has(at)) throw new Error(`two pages at ${at}`)
      places.add(at)
    }
    for (const [page, at] of this.mapped) {
      if (this.pager.addressOf(page) !== at) throw new Error(`page ${page} went from ${at}`)
    }
    if (this.ram.link.counts.refused > 0) throw new Error('the card reached where it must not')
  }
}

/** Promises that can settle, do. */
export async function turn(): Promise<void> {
  for (let i = 0; i < 4; i++) await Promise.resolve()
}
