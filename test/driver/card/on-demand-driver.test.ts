/**
 * The driver of memory on demand between a pager and a card that is told page by page: whatever
 * comes late, twice or never, the card never reaches a frame that is another page's.
 */

import { describe, expect, test } from 'vitest'
import { HostRam, Pager, Random, SwapDevice, VirtualClock } from '../../../boards/emulator/index.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { ON_DEMAND_READY } from '../../../firmware/wire/management.ts'
import { STATUS_ERROR } from '../../../firmware/wire/memory-status.ts'
import { PerdureError, RefusedError } from '../../../host-driver/base/errors.ts'
import type { Control, OnDemandShape, PlacedPage } from '../../../host-driver/card/control.ts'
import { OnDemandRegion } from '../../../host-driver/card/on-demand.ts'
import { turn } from '../../support/cards/paged-card.ts'

const FRAMES_AT = PAGE_BYTES
const KEY = 0x77

/** What becomes of a call: executed and answered, or only the one of it, or neither. */
const FATES = ['good', 'unanswered', 'unheard', 'late'] as const
type Fate = (typeof FATES)[number]

/** From a call to its execution, and from there to its answer. */
const THERE_US = 2
const BACK_US = 3
/** After this a call that has no answer is given up. */
const PATIENCE_US = 50

/** A card that translates pages, and writes to those that it has. */
class FakeCard {
  readonly clock: VirtualClock = new VirtualClock()
  readonly ram: HostRam
  readonly pager: Pager
  readonly region: OnDemandRegion
  readonly swap: SwapDevice
  readonly mapped: Map<number, number> = new Map()
  /** What it was told of the region as a whole. */
  state = ON_DEMAND_READY
  /** Decides about each MAP and UNMAP. */
  fate: () => Fate = () => 'good'
  underWay = 0
  private sequence = 0
  private readonly model: Uint8Array

  constructor(pages: number, frames: number) {
    const { clock } = this
    this.ram = new HostRam(FRAMES_AT + frames * PAGE_BYTES)
    this.ram.link.useClock(clock)
    this.swap = new SwapDevice({ clock, pageBytes: PAGE_BYTES, readUs: 20, writeUs: 5 })
    const { ram, swap } = this
    this.pager = new Pager({ ram, at: FRAMES_AT, frames, pages, swap, clock, stayUs: 30 })
    this.region = new OnDemandRegion({ name: 'heap', memory: this.pager }, () => {})
    this.model = new Uint8Array(pages)
  }

  async open(): Promise<void> {
    const registered = this.region.register(this as unknown as Control)
    await this.settle(5)
    await registered
  }

  onDemand(_: OnDemandShape): Promise<{ rkey: number; space: number }> {
    this.sequence = 0
    this.mapped.clear()
    return Promise.resolve({ rkey: KEY, space: 0 })
  }

  mapPages(rkey: number, sequence: number, pages: readonly PlacedPage[]): Promise<void> {
    return this.call(rkey, sequence, () => {
      for (const [page, at] of pages) this.mapped.set(page, at)
    })
  }

  unmapPages(rkey: number, sequence: number, pages: readonly number[]): Promise<void> {
    return this.call(rkey, sequence, () => {
      for (const page of pages) this.mapped.delete(page)
    })
  }

  onDemandState(_: number, kind: number): Promise<void> {
    this.state = kind
    return Promise.resolve()
  }

  endOnDemand(rkey: number): Promise<void> {
    if (rkey !== KEY) return Promise.reject(new RefusedError('KEY', 0, 'end'))
    this.mapped.clear()
    return Promise.resolve()
  }

  private call(rkey: number, sequence: number, run: () => void): Promise<void> {
    if (rkey !== KEY) throw new Error('another key')
    const fate = this.fate()
    const { clock } = this
    if (++this.underWay > 1) throw new Error('two calls of a region at once')
    return new Promise((resolve, reject) => {
      const execute = (): void => {
        // As firmware/medium/translation.ts does: what is not newer was executed before.
        if (sequence <= this.sequence) return
        this.sequence = sequence
        run()
      }
      const end = (then: () => void): void => {
        this.underWay--
        then()
      }
      const unreachable = (): void =>
        end(() => reject(new PerdureError('PERDURE_UNREACHABLE', 'no answer')))
      if (fate !== 'unheard') {
        // A call that comes late comes after it was given up, and behind the next one.
        const atUs = clock.nowUs + (fate === 'late' ? PATIENCE_US + 10 : THERE_US)
        clock.schedule(atUs, execute)
      }
      if (fate === 'good') clock.schedule(clock.nowUs + THERE_US + BACK_US, () => end(resolve))
      else clock.schedule(clock.nowUs + PATIENCE_US, unreachable)
    })
  }

  /** The card wants to write: it does if the page is there, and asks for it otherwise. */
  access(page: number, value: number): void {
    const at = this.mapped.get(page)
    if (at === undefined) {
      this.region.told({ type: 'pagesWanted', queue: KEY, fault: 'PASS', pages: one(page) })
      return
    }
    this.model[page] = value
    this.ram.dmaWrite(at, Uint8Array.of(value), 0, 1)
  }

  async settle(events: number = Infinity): Promise<void> {
    for (let i = 0; i < events; i++) {
      await turn()
      if (!this.clock.step()) return
      this.check()
      if (i > 20_000) throw new Error('no rest')
    }
    await turn()
  }

  /** What the card translates is so. */
  check(): void {
    for (const [page, at] of this.mapped) {
      if (this.pager.addressOf(page) !== at) throw new Error(`page ${page} is not at ${at}`)
    }
    if (this.ram.link.counts.refused > 0) throw new Error('the card reached where it must not')
  }

  /** Every page is what the card has stored there, and can be had by it. */
  async judge(): Promise<void> {
    this.fate = () => 'good'
    await this.settle()
    for (const [page, value] of this.model.entries()) {
      const loaded = this.pager.load(page * PAGE_BYTES, 1)
      await this.settle()
      const [byte] = await loaded
      if (byte !== value) throw new Error(`page ${page} is ${byte}, not ${value}`)
      this.access(page, value)
      await this.settle()
      if (!this.mapped.has(page)) throw new Error(`page ${page} never comes`)
    }
  }
}

function one(page: number): { readonly first: number; readonly count: number } {
  return { first: page, count: 1 }
}

type Step = { readonly kind: 'access' | 'evict'; readonly page: number } | { readonly kind: 'time' }

const STEPS: readonly Step[] = [
  ...[0, 1].map((page) => ({ kind: 'access', page }) as const),
  ...[0, 1].map((page) => ({ kind: 'evict', page }) as const),
  { kind: 'time' },
]

async function play(card: FakeCard, steps: readonly Step[]): Promise<void> {
  let value = 0
  for (const step of steps) {
    if (step.kind === 'time') {
      await card.settle(2)
    } else if (step.kind === 'evict') {
      card.pager.evict(step.page)
    } else {
      value = (value % 255) + 1
      card.access(step.page, value)
    }
    card.check()
  }
  await card.judge()
}

function* words(letters: number, length: number): Generator<number[]> {
  const digits = new Array<number>(length).fill(0)
  for (;;) {
    yield [...digits]
    let i = 0
    while (i < length && ++digits[i]! === letters) digits[i++] = 0
    if (i === length) return
  }
}

describe('calls that come late, twice or never', () => {
  test('P5-27: every trace of five steps with every fate of the first three calls', async () => {
    const fates = [...words(FATES.length, 3)].map((word) => word.map((i) => FATES[i]!))
    let count = 0
    for (const word of words(STEPS.length, 5)) {
      const steps = word.map((i) => STEPS[i]!)
      // Each trace with one of the fates in turn; every pair of neighbours meets every fate.
      const fate = fates[count % fates.length]!
      const card = new FakeCard(2, 1)
      await card.open()
      let calls = 0
      card.fate = () => fate[calls++] ?? 'good'
      await play(card, steps).catch((error: unknown) => {
        throw new Error(`${word} ${fate}: ${String(error)}`, { cause: error })
      })
      count++
    }
    expect(count).toBe(5 ** 5)
  })

  test('P5-27: long traces of many pages at random', async () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = new Random(seed)
      const card = new FakeCard(6, 3)
      await card.open()
      card.fate = () => (random.chance(0.3) ? FATES[random.below(FATES.length)]! : 'good')
      const steps = Array.from({ length: 200 }, (): Step => {
        const page = random.below(6)
        if (random.chance(0.3)) return { kind: 'time' }
        return { kind: random.chance(0.6) ? 'access' : 'evict', page }
      })
      await play(card, steps).catch((error: unknown) => {
        throw new Error(`seed ${seed}: ${String(error)}`, { cause: error })
      })
    }
  })

  test('many pages go into few calls', async () => {
    const card = new FakeCard(100, 100)
    await card.open()
    const pages = { first: 0, count: 1000 }
    card.region.told({ type: 'pagesWanted', queue: KEY, fault: 'PASS', pages })
    await card.settle()
    expect(card.mapped.size).toBe(100)
    expect(card.region.counts).toMatchObject({ events: 1, wanted: 100, mapped: 100 })
    expect(card.region.counts.maps).toBeLessThan(12)
    for (let page = 0; page < 100; page++) card.pager.evict(page)
    await card.settle()
    expect(card.mapped.size).toBe(0)
    expect(card.region.counts).toMatchObject({ unmaps: 3, unmapped: 100 })
  })

  test('a page that was never mapped is let go of without a word', async () => {
    const card = new FakeCard(4, 4)
    await card.open()
    card.fate = () => 'unheard'
    for (const page of [0, 1]) card.access(page, 1)
    await card.settle(2)
    // One is on its way to the card, the other waits for its turn.
    expect(card.region.mappedPages).toBe(1)
    card.pager.evict(1)
    await card.settle(1)
    expect(card.pager.stateOf(1)).toBe('absent')
    await card.judge()
  })
})

/** Page 0 was written and evicted, and the swap device cannot bring it back. */
async function loseAPage(card: FakeCard): Promise<void> {
  await card.open()
  card.access(0, 1)
  await card.settle()
  card.access(0, 1)
  card.pager.evict(0)
  await card.settle()
  card.swap.script = () => 'error'
  card.access(0, 2)
  await card.settle()
}

describe('the region as a whole', () => {
  test('is in error while a page is lost, and the card is told once', async () => {
    const card = new FakeCard(3, 3)
    await loseAPage(card)
    expect([card.region.state, card.state]).toEqual(['error', STATUS_ERROR])
    const stored = card.pager.store(0, new Uint8Array(PAGE_BYTES))
    await card.settle()
    await stored
    expect([card.region.state, card.state]).toEqual(['ready', ON_DEMAND_READY])
  })

  test('is ready with a new card, if what was lost was stored again meanwhile', async () => {
    const card = new FakeCard(2, 2)
    await loseAPage(card)
    card.region.cardGone()
    expect(card.region.state).toBe('away')
    const stored = card.pager.store(0, new Uint8Array(PAGE_BYTES).fill(5))
    await card.settle()
    await stored
    card.state = ON_DEMAND_READY
    await card.open()
    card.access(0, 2)
    await card.settle()
    expect([card.region.state, card.state, card.mapped.size]).toEqual(['ready', ON_DEMAND_READY, 1])
  })

  test('what a requester will not need goes first', async () => {
    const card = new FakeCard(4, 3)
    await card.open()
    for (const page of [0, 1, 2]) card.access(page, 1)
    await card.settle()
    for (const page of [0, 1, 2]) card.access(page, 1)
    await card.settle()
    const unwanted = { type: 'pagesUnwanted', queue: KEY, fault: 'PASS', pages: one(1) } as const
    card.region.told(unwanted)
    card.access(3, 1)
    await card.settle()
    expect([...card.mapped.keys()].sort()).toEqual([0, 2, 3])
  })

  test('an end is an end, whatever is under way', async () => {
    const card = new FakeCard(4, 2)
    await card.open()
    card.fate = () => 'unheard'
    for (const page of [0, 1, 2]) card.access(page, 1)
    await card.settle(2)
    const ended = card.region.end()
    await card.settle()
    await ended
    expect(card.region.state).toBe('ended')
    expect(card.mapped.size).toBe(0)
    const loaded = card.pager.load(0, 4 * PAGE_BYTES)
    await card.settle()
    expect((await loaded).length).toBe(4 * PAGE_BYTES)
  })
})
