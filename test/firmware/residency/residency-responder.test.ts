/**
 * What a responder tells of its memory, and when: associations without a wire and without a clock,
 * against a model that looks at every page each time (source 5; P5-18 … P5-24, P5-29, D-12).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { ASSOCIATED_BLOCKS, PAGE_BYTES } from '../../../firmware/board/limits.ts'
import {
  type Association,
  askCurrent,
  beginAssociation,
  beginCount,
  beginOutage,
  countAbsent,
  endAssociation,
  endCount,
  endOutage,
  optIn,
  setSize,
  tellsAtUs,
  unitChanged,
} from '../../../firmware/residency/association.ts'
import {
  associated,
  type Blocks,
  createBlocks,
  isRangeReady,
  PHASE_TOLD,
} from '../../../firmware/residency/blocks.ts'
import { isNotice, takeNotice, want } from '../../../firmware/residency/heard.ts'
import { composeNotice } from '../../../firmware/residency/notice.ts'
import {
  CALM_WINDOWS,
  EDGES_MANY,
  judgeWish,
  leastLog2,
  mostLog2,
  nearestLog2,
  offerFor,
  REFUSED_US,
  suggestedLog2,
  takeCounter,
  takeRefusal,
  WINDOW_US,
} from '../../../firmware/residency/size.ts'
import { SIZE_GRANTED, SIZE_OFFERED } from '../../../firmware/wire/block-size.ts'
import {
  blankMseth,
  STATUS_ERROR,
  STATUS_UNAVAILABLE,
} from '../../../firmware/wire/memory-status.ts'
import { blankAssociations } from '../../support/residency/residency.ts'
import { entriesOf, type Notice, noticeLine } from '../../support/residency/residency-asks.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const SEED = Number(process.env.PERDURE_SEED ?? 20265)
const ROOM = 4096
const RKEY = 0x1234

const [ONE] = blankAssociations() as [Association]

/** The pages of a region: which are there. */
type Pages = boolean[]

interface Options {
  readonly sizeLog2?: number
  readonly periodUs?: number
  readonly threshold?: number
  readonly maximum?: number
  readonly from?: number
  readonly length?: number
}

/** Associates the pages, or a range of their bytes, and opts in. */
function associate(pages: Pages, options: Options = {}): Association {
  const length = options.length ?? pages.length * PAGE_BYTES
  ONE.life = 0
  ONE.sequence = 0
  beginAssociation(ONE, RKEY, options.from ?? 0, length, mostLog2(length))
  ONE.periodUs = options.periodUs ?? 0
  ONE.threshold = options.threshold ?? 0
  ONE.maximum = options.maximum ?? 256
  setSize(ONE, options.sizeLog2 ?? 12)
  ONE.committed = true
  ONE.wishLog2 = ONE.sizeLog2
  count(ONE, pages)
  optIn(ONE)
  return ONE
}

function count(a: Association, pages: Pages): void {
  beginCount(a)
  pages.forEach((there, page) => {
    if (!there) countAbsent(a, page * PAGE_BYTES, PAGE_BYTES)
  })
  endCount(a)
}

/** The page comes or goes. */
function toggle(a: Association, pages: Pages, page: number): void {
  pages[page] = !pages[page]
  unitChanged(a, page * PAGE_BYTES, PAGE_BYTES, pages[page]!)
}

function compose(a: Association, room = ROOM): { notice: Notice; payload: Uint8Array } {
  const mseth = blankMseth()
  const bytes = new Uint8Array(ROOM)
  const length = composeNotice(a, mseth, bytes, 0, room)
  const payload = bytes.slice(0, length)
  expect(isNotice(mseth, payload, 0, length)).toBe(true)
  return { notice: { ...mseth, psn: 0, blocks: entriesOf(mseth, payload) }, payload }
}

/** Every notice that is due now, each of them acknowledged at once. */
function drain(a: Association, now: number, room = ROOM): Notice[] {
  const notices: Notice[] = []
  while (tellsAtUs(a, now) <= now) notices.push(compose(a, room).notice)
  return notices
}

const linesOf = (notices: readonly Notice[]): string[] => notices.map(noticeLine)

/** The model: a block is ready if every page that touches it is there. */
function readyBlocks(pages: Pages, sizeLog2: number, from = 0, length?: number): boolean[] {
  const bytes = length ?? pages.length * PAGE_BYTES
  const size = 2 ** sizeLog2
  return Array.from({ length: Math.ceil(bytes / size) }, (_, block) => {
    const first = from + block * size
    const end = from + Math.min((block + 1) * size, bytes)
    return pages.every(
      (there, page) => there || (page + 1) * PAGE_BYTES <= first || page * PAGE_BYTES >= end,
    )
  })
}

/** Every sequence of up to `most` of these. */
function* sequences(of: readonly number[], most: number): Generator<number[]> {
  yield []
  if (most === 0) return
  for (const first of of) for (const rest of sequences(of, most - 1)) yield [first, ...rest]
}

const PAGES = 8
/** Two pages of one block of every size above a page, and one of another for all but the last. */
const MOVING = [2, 3, 5]
const SIZES = [12, 13, 14, 15]

describe('P5-20: notices at the edges alone', () => {
  test('every sequence of six pages that come and go, in every size of blocks', THOROUGH, () => {
    let edges = 0
    for (const sizeLog2 of SIZES) {
      for (let start = 0; start < 2 ** MOVING.length; start++) {
        for (const sequence of sequences(MOVING, 6)) {
          const pages: Pages = Array.from({ length: PAGES }, () => true)
          MOVING.forEach((page, i) => {
            pages[page] = ((start >> i) & 1) === 1
          })
          const a = associate(pages, { sizeLog2 })
          for (const page of sequence) {
            const before = readyBlocks(pages, sizeLog2)
            toggle(a, pages, page)
            const after = readyBlocks(pages, sizeLog2)
            const changed = after.flatMap((ready, i) => (ready === before[i] ? [] : [[i, ready]]))
            const told = drain(a, 0)
            edges += changed.length
            if (told.flatMap(({ blocks }) => blocks).toString() !== changed.toString()) {
              expect({ sizeLog2, start, sequence, told: linesOf(told) }).toEqual(changed)
            }
          }
        }
      }
    }
    expect(edges).toBeGreaterThan(10_000)
  })

  test('a page more or less of a block that is not ready is no news', () => {
    const pages = [true, false, true, false]
    const a = associate(pages, { sizeLog2: 14 })
    toggle(a, pages, 1)
    toggle(a, pages, 0)
    expect(drain(a, 0)).toEqual([])
    toggle(a, pages, 0)
    toggle(a, pages, 3)
    expect(linesOf(drain(a, 0))).toEqual(['change 0 ready'])
  })

  test('P5-19, P5-21: units that lie across blocks, and ranges that begin anywhere', () => {
    for (const from of [0, 512, 4096, 5000, 12_288]) {
      for (const length of [1, 4096, 10_000, 16_384]) {
        for (const sizeLog2 of [12, 13]) {
          for (const sequence of sequences([1, 3, 4], 4)) {
            const pages: Pages = Array.from({ length: PAGES }, () => true)
            const a = associate(pages, { sizeLog2, from, length })
            const before = readyBlocks(pages, sizeLog2, from, length)
            for (const page of sequence) toggle(a, pages, page)
            const after = readyBlocks(pages, sizeLog2, from, length)
            const told = new Map(drain(a, 0).flatMap(({ blocks }) => blocks))
            after.forEach((ready, i) => {
              expect(told.get(i)).toBe(ready === before[i] ? undefined : ready)
            })
            expect(a.ready).toBe(after.filter((ready) => ready).length)
          }
        }
      }
    }
  })
})

describe('P5-22: changes are collected for a period', () => {
  test('it begins with the first change, and what comes meanwhile is appended', () => {
    const pages = [true, true, true, true]
    const a = associate(pages, { periodUs: 1000 })
    expect(tellsAtUs(a, 50)).toBe(Infinity)
    toggle(a, pages, 2)
    expect(tellsAtUs(a, 100)).toBe(1100)
    toggle(a, pages, 0)
    expect(tellsAtUs(a, 900)).toBe(1100)
    expect(linesOf(drain(a, 1100))).toEqual(['change 2 not, 0 not'])
    expect(tellsAtUs(a, 1200)).toBe(Infinity)
  })

  test('what went there and back within the period is told to nobody', () => {
    const pages = [true, true]
    const a = associate(pages, { periodUs: 1000 })
    toggle(a, pages, 0)
    tellsAtUs(a, 0)
    toggle(a, pages, 0)
    toggle(a, pages, 1)
    toggle(a, pages, 1)
    expect(drain(a, 1000)).toEqual([])
    toggle(a, pages, 1)
    expect(tellsAtUs(a, 1500)).toBe(2500)
    expect(linesOf(drain(a, 2500))).toEqual(['change 1 not'])
  })

  test('without a period each change is told at once', () => {
    const pages = [true, true]
    const a = associate(pages)
    toggle(a, pages, 0)
    expect(linesOf(drain(a, 7))).toEqual(['change 0 not'])
  })
})

describe('P5-23: memory actions are counted', () => {
  test('above the threshold the notice leaves at once, and the count begins again', () => {
    const pages = [true, true, true, true]
    const a = associate(pages, { sizeLog2: 13, periodUs: 1000, threshold: 2 })
    toggle(a, pages, 0)
    toggle(a, pages, 1)
    expect(tellsAtUs(a, 10)).toBe(1010)
    // The third action is no edge, but it is an action.
    toggle(a, pages, 1)
    expect(tellsAtUs(a, 20)).toBe(20)
    expect(linesOf(drain(a, 20))).toEqual(['change 0 not'])
    toggle(a, pages, 2)
    expect(tellsAtUs(a, 30)).toBe(1030)
  })

  test('actions without news do not send anything', () => {
    const pages = [true, false, true, true]
    const a = associate(pages, { sizeLog2: 13, periodUs: 1000, threshold: 1 })
    for (let i = 0; i < 10; i++) toggle(a, pages, 0)
    expect(tellsAtUs(a, 0)).toBe(Infinity)
  })
})

describe('P5-24: a maximum of notifications in one message', () => {
  test.each([1, 2, 3, 4, 7])('%i at the most: the rest follows, announced, in order', (maximum) => {
    const pages: Pages = Array.from({ length: PAGES }, () => true)
    const a = associate(pages, { maximum, periodUs: 500 })
    for (const page of [6, 1, 4, 0, 7]) toggle(a, pages, page)
    tellsAtUs(a, 0)
    const told = drain(a, 500)
    expect(told.flatMap(({ blocks }) => blocks.map(([block]) => block))).toEqual([6, 1, 4, 0, 7])
    told.forEach(({ entries, more }, i) => {
      expect(entries).toBeLessThanOrEqual(maximum)
      expect(more).toBe(i + 1 < told.length)
    })
  })

  test('a small packet holds fewer, too', () => {
    const pages: Pages = Array.from({ length: 120 }, () => true)
    const a = associate(pages)
    for (let page = 0; page < 120; page++) toggle(a, pages, page)
    expect(drain(a, 0, 256).map(({ entries }) => entries)).toEqual([51, 51, 18])
  })

  test('what was announced comes, also where nothing is left to be said', () => {
    const pages = [true, true]
    const a = associate(pages, { maximum: 1 })
    toggle(a, pages, 0)
    toggle(a, pages, 1)
    tellsAtUs(a, 0)
    expect(noticeLine(compose(a).notice)).toBe('change 0 not …')
    toggle(a, pages, 1)
    expect(linesOf(drain(a, 0))).toEqual(['change'])
  })
})

type Rules = Required<Omit<Options, 'from' | 'length'>>

/** A second look at the rules of P5-22 to P5-24: time in steps, and everything by hand. */
class Collector {
  told: boolean[]
  private readonly pages: Pages
  private readonly options: Rules
  private queue: number[] = []
  private actions = 0
  private dueUs = Infinity
  private promised = false

  constructor(pages: Pages, options: Rules) {
    this.pages = pages
    this.options = options
    this.told = this.blocks()
  }

  private blocks(): boolean[] {
    return readyBlocks(this.pages, this.options.sizeLog2)
  }

  action(page: number): void {
    this.actions += 1
    const block = Math.floor((page * PAGE_BYTES) / 2 ** this.options.sizeLog2)
    if (this.blocks()[block] !== this.told[block] && !this.queue.includes(block)) {
      this.queue.push(block)
    }
  }

  /** The one message that leaves now, or null. */
  look(now: number): string | null {
    const { periodUs, threshold, maximum } = this.options
    const state = this.blocks()
    const news = this.queue.filter((block) => state[block] !== this.told[block])
    if (!this.promised) {
      if (news.length > 0 && this.dueUs === Infinity) this.dueUs = now + periodUs
      const many = threshold > 0 && this.actions > threshold && news.length > 0
      if (!many && now < this.dueUs) return null
      if (news.length === 0) {
        if (this.dueUs <= now) this.actions = 0
        this.dueUs = Infinity
        return null
      }
    }
    const entries = news.slice(0, maximum)
    for (const block of entries) this.told[block] = state[block]!
    const left = news.slice(maximum)
    // What stands in front of the last entry, and is no news, is forgotten.
    const last = this.queue.indexOf(entries.at(-1)!)
    this.queue = entries.length < maximum ? [] : this.queue.slice(last + 1)
    this.promised = left.length > 0
    this.actions = 0
    this.dueUs = Infinity
    const states = entries.map((block) => `${block} ${state[block] ? 'ready' : 'not'}`)
    return (
      ['change', ...(states.length > 0 ? [states.join(', ')] : [])].join(' ') +
      (this.promised ? ' …' : '')
    )
  }
}

test('P5-22, P5-23, P5-24: period, threshold and maximum together, as by hand', () => {
  const random = new Random(SEED + 2)
  const draw = (below: number): number => random.below(below)
  let messages = 0
  for (let run = 0; run < 3000; run++) {
    const options = {
      sizeLog2: 12 + draw(3),
      periodUs: [0, 3, 10][draw(3)]!,
      threshold: [0, 1, 4][draw(3)]!,
      maximum: [1, 2, 256][draw(3)]!,
    }
    const pages: Pages = Array.from({ length: 16 }, () => draw(2) === 1)
    const a = associate(pages, options)
    const model = new Collector(pages, options)
    const seen: string[] = []
    const expected: string[] = []
    for (let now = 0; now < 60; now++) {
      for (let i = draw(3); i > 0 && now < 40; i--) {
        const page = draw(16)
        toggle(a, pages, page)
        model.action(page)
      }
      // The message before may be under way for a while.
      if (draw(3) === 0) continue
      if (tellsAtUs(a, now) <= now) seen.push(`${now} ${noticeLine(compose(a).notice)}`)
      const line = model.look(now)
      if (line !== null) expected.push(`${now} ${line}`)
    }
    messages += seen.length
    expect(seen, `PERDURE_SEED=${SEED}, run ${run} ${JSON.stringify(options)}`).toEqual(expected)
    expect(a.dirty).toBe(
      readyBlocks(pages, options.sizeLog2).filter((r, i) => r !== model.told[i]).length,
    )
  }
  expect(messages).toBeGreaterThan(10_000)
})

describe('P5-2, P5-19, P5-26: the status as it is now', () => {
  test('all blocks in one bitmap, with the word whether all of it is there', () => {
    const pages = [true, false, true, true]
    const a = associate(pages)
    askCurrent(a)
    const [notice, ...others] = drain(a, 0)
    expect(others).toEqual([])
    expect(noticeLine(notice!)).toBe('current █░██')
    expect([notice!.positive, notice!.negative]).toEqual([false, true])
    toggle(a, pages, 1)
    askCurrent(a)
    const [whole] = drain(a, 0)
    expect(noticeLine(whole!)).toBe('current ████')
    expect([whole!.positive, whole!.negative]).toEqual([true, false])
  })

  test('what it says is told: a change before it is no news behind it', () => {
    const pages = [true, true, true]
    const a = associate(pages, { periodUs: 100 })
    toggle(a, pages, 1)
    tellsAtUs(a, 0)
    askCurrent(a)
    expect(linesOf(drain(a, 50))).toEqual(['current █░█'])
    expect(tellsAtUs(a, 60)).toBe(Infinity)
    toggle(a, pages, 1)
    expect(linesOf(drain(a, 160))).toEqual([])
    expect(linesOf(drain(a, 260))).toEqual(['change 1 ready'])
  })

  test('P5-2: one that fills several messages is told in its order, and stays true', () => {
    const pages: Pages = Array.from({ length: 20 }, () => true)
    const a = associate(pages)
    askCurrent(a)
    expect(noticeLine(compose(a, 1).notice)).toBe('current ████████ …')
    toggle(a, pages, 2)
    toggle(a, pages, 9)
    expect(noticeLine(compose(a, 1).notice)).toBe('current from 8 █░██████ …')
    expect(noticeLine(compose(a, 1).notice)).toBe('current from 16 ████')
    expect(linesOf(drain(a, 0))).toEqual(['change 2 not'])
  })

  test('P5-16: who did not opt in is told when asking, and not otherwise', () => {
    const pages = [true, true]
    const a = associate(pages)
    a.optedIn = false
    toggle(a, pages, 0)
    expect(drain(a, 1000)).toEqual([])
    askCurrent(a)
    expect(linesOf(drain(a, 1000))).toEqual(['current ░█'])
    toggle(a, pages, 0)
    expect(drain(a, 2000)).toEqual([])
    optIn(a)
    expect(drain(a, 2000)).toEqual([])
    toggle(a, pages, 1)
    expect(linesOf(drain(a, 3000))).toEqual(['change 1 not'])
  })
})

describe('regions that fail', () => {
  test.each([
    ['error', STATUS_ERROR],
    ['unavailable', STATUS_UNAVAILABLE],
  ] as const)('%s takes the place of everything that was to be told', (word, kind) => {
    const pages = [true, true]
    const a = associate(pages)
    toggle(a, pages, 0)
    askCurrent(a)
    beginOutage(a, kind)
    const told = drain(a, 0)
    expect(linesOf(told)).toEqual([word])
    expect(told[0]!.negative).toBe(true)
    toggle(a, pages, 1)
    expect(drain(a, 10_000)).toEqual([])
    askCurrent(a)
    expect(linesOf(drain(a, 10_000))).toEqual([word])
    endOutage(a)
    count(a, pages)
    expect(linesOf(drain(a, 10_000))).toEqual(['reset', 'current ░░'])
    toggle(a, pages, 1)
    expect(linesOf(drain(a, 10_000))).toEqual(['change 1 ready'])
  })
})

describe('D-12: every message has a number', () => {
  test('one more than the one before, whatever its kind', () => {
    const pages = [true, true]
    const a = associate(pages)
    const numbers: number[] = []
    const take = (): void => {
      numbers.push(...drain(a, 0).map(({ sequence }) => sequence))
    }
    askCurrent(a)
    take()
    toggle(a, pages, 0)
    take()
    beginOutage(a, STATUS_ERROR)
    take()
    endOutage(a)
    count(a, pages)
    take()
    expect(numbers).toEqual([1, 2, 3, 4, 5])
  })

  test('it comes round', () => {
    const pages = [true]
    const a = associate(pages)
    a.sequence = 0xffffffff
    askCurrent(a)
    expect(drain(a, 0).map(({ sequence }) => sequence)).toEqual([0])
  })
})

describe('P5-7, P5-8, P5-9, P5-29: the size of blocks', () => {
  /** Powers of two between a page and the whole, with no more blocks than are kept. */
  function possible(length: number): number[] {
    const sizes = Array.from({ length: 40 }, (_, i) => i).filter((i) => i >= 12)
    const whole = sizes.find((i) => 2 ** i >= length)!
    return sizes.filter((i) => i <= whole && Math.ceil(length / 2 ** i) <= ASSOCIATED_BLOCKS)
  }

  const LENGTHS = [1, 4095, 4096, 4097, 65_536, 100_000, 2 ** 25, 2 ** 25 + 1, 2 ** 27, 2 ** 32 - 1]

  test('P5-8: every wish for every length: granted, or the nearest is offered', () => {
    for (const length of LENGTHS) {
      const can = possible(length)
      expect(can.length).toBeGreaterThan(0)
      for (let wish = 1; wish <= 255; wish++) {
        const nearest = can.reduce((best, size) =>
          Math.abs(size - wish) < Math.abs(best - wish) ? size : best,
        )
        expect(judgeWish(length, wish)).toBe(can.includes(wish) ? SIZE_GRANTED : SIZE_OFFERED)
        expect(nearestLog2(length, wish)).toBe(nearest)
        // What is offered is granted to who proposes it.
        expect(judgeWish(length, nearest)).toBe(SIZE_GRANTED)
      }
      expect([leastLog2(length), mostLog2(length)]).toEqual([can[0], can.at(-1)])
      expect(judgeWish(length, 0)).toBe(SIZE_OFFERED)
      expect(can).toContain(suggestedLog2(length))
      expect(nearestLog2(length, 0)).toBe(suggestedLog2(length))
    }
  })

  test('without an agreement the block is the whole of what was associated', () => {
    const [, a] = blankAssociations()
    beginAssociation(a!, RKEY, 0, 100_000, mostLog2(100_000))
    expect([a!.committed, a!.blocks]).toEqual([false, 1])
    expect(2 ** a!.sizeLog2).toBeGreaterThanOrEqual(100_000)
  })

  test('one that has ended tells nothing any more', () => {
    const pages = [true, true]
    const a = associate(pages)
    toggle(a, pages, 0)
    endAssociation(a)
    expect(tellsAtUs(a, 10_000_000)).toBe(Infinity)
  })

  test('a page that comes though it is there already changes nothing', () => {
    const pages = [true, false]
    const a = associate(pages)
    drain(a, 0)
    unitChanged(a, 0, PAGE_BYTES, true)
    expect([a.ready, ...linesOf(drain(a, 0))]).toEqual([1])
    toggle(a, pages, 1)
    expect(a.ready).toBe(2)
  })

  test('after a change of the size, notices are of the new blocks', () => {
    const pages = [true, false, true, true]
    const a = associate(pages)
    setSize(a, 13)
    // Until the pages are counted again nothing is told.
    toggle(a, pages, 3)
    expect([tellsAtUs(a, 0), a.edges, a.actions]).toEqual([Infinity, 0, 0])
    count(a, pages)
    askCurrent(a)
    expect(drain(a, 0).map((one) => [noticeLine(one), one.blockSizeLog2])).toEqual([
      ['current ░░', 13],
    ])
    toggle(a, pages, 1)
    expect(linesOf(drain(a, 0))).toEqual(['change 0 ready'])
  })
})

describe('P5-10, P5-18: another size for the number of memory actions', () => {
  /** So many edges of one block. */
  function edges(a: Association, pages: Pages, many: number): void {
    for (let i = 0; i < many; i++) toggle(a, pages, 0)
  }

  test('very many edges in a window: coarser blocks are offered', () => {
    const pages: Pages = Array.from({ length: PAGES }, () => true)
    const a = associate(pages, { sizeLog2: 12 })
    expect(offerFor(a, 0)).toBe(0)
    edges(a, pages, EDGES_MANY)
    expect(offerFor(a, 0)).toBe(0)
    expect(offerFor(a, WINDOW_US - 1)).toBe(0)
    expect(offerFor(a, WINDOW_US)).toBe(13)
  })

  test('one less, or the whole as one block already: nothing is offered', () => {
    for (const [sizeLog2, many] of [
      [12, EDGES_MANY - 1],
      [15, EDGES_MANY],
    ] as const) {
      const pages: Pages = Array.from({ length: PAGES }, () => true)
      const a = associate(pages, { sizeLog2 })
      edges(a, pages, many)
      offerFor(a, 0)
      expect(offerFor(a, WINDOW_US)).toBe(0)
    }
  })

  test('calm windows: finer ones again, down to the wish and no further', () => {
    const pages: Pages = Array.from({ length: PAGES }, () => true)
    const a = associate(pages, { sizeLog2: 14 })
    a.wishLog2 = 13
    let now = 0
    const wait = (): number => {
      let offer = offerFor(a, now)
      for (let i = 0; i < CALM_WINDOWS && offer === 0; i++) {
        now += WINDOW_US
        offer = offerFor(a, now)
      }
      return offer
    }
    expect(wait()).toBe(13)
    expect(now).toBe(CALM_WINDOWS * WINDOW_US)
    setSize(a, 13)
    count(a, pages)
    expect(wait()).toBe(0)
    expect(a.windowEndUs).toBe(Infinity)
  })

  test('at the size that was wished for, nobody looks back once nothing happens', () => {
    const pages: Pages = Array.from({ length: PAGES }, () => true)
    const a = associate(pages, { sizeLog2: 12 })
    edges(a, pages, 1)
    const ends = [0, 1, 2].map((windows) => {
      expect(offerFor(a, windows * WINDOW_US)).toBe(0)
      return a.windowEndUs
    })
    expect(ends).toEqual([WINDOW_US, 2 * WINDOW_US, Infinity])
  })

  test('who refuses is left alone for a while; a counter-offer is met once', () => {
    const pages: Pages = Array.from({ length: PAGES }, () => true)
    const a = associate(pages, { sizeLog2: 12 })
    edges(a, pages, EDGES_MANY)
    offerFor(a, 0)
    expect(offerFor(a, WINDOW_US)).toBe(13)
    expect(takeCounter(a, 14, WINDOW_US)).toBe(true)
    expect(offerFor(a, WINDOW_US)).toBe(14)
    expect(takeCounter(a, 15, WINDOW_US)).toBe(false)
    expect(offerFor(a, WINDOW_US)).toBe(0)
    edges(a, pages, EDGES_MANY)
    let now = WINDOW_US
    for (; now < REFUSED_US + WINDOW_US; now += WINDOW_US) {
      edges(a, pages, EDGES_MANY)
      expect(offerFor(a, now)).toBe(0)
    }
    expect(offerFor(a, now)).toBe(13)
    takeRefusal(a, now)
    expect(offerFor(a, now + 1)).toBe(0)
    // A counter that cannot be had is a refusal.
    const b = associate(pages, { sizeLog2: 12 })
    expect(takeCounter(b, 30, 0)).toBe(false)
  })

  test('who is told nothing is offered nothing', () => {
    const pages: Pages = Array.from({ length: PAGES }, () => true)
    const a = associate(pages, { sizeLog2: 12 })
    a.optedIn = false
    edges(a, pages, EDGES_MANY)
    offerFor(a, 0)
    expect(offerFor(a, WINDOW_US)).toBe(0)
  })
})

describe('P5-28: together with the requester of the product', () => {
  /** What the requester believes, page by page; null where nothing was told. */
  function belief(b: Blocks, pages: number): boolean[] | null {
    if (b.phase !== PHASE_TOLD) return null
    return Array.from({ length: pages }, (_, i) => isRangeReady(b, i * PAGE_BYTES, PAGE_BYTES))
  }

  /** What it may believe: a page of a block that is ready. */
  function truth(pages: Pages, sizeLog2: number): boolean[] {
    const ready = readyBlocks(pages, sizeLog2)
    return pages.map((_, page) => ready[Math.floor((page * PAGE_BYTES) / 2 ** sizeLog2)]!)
  }

  test('notices that are lost, doubled and overtaken: it comes to the truth in the end', () => {
    const random = new Random(SEED + 6)
    const draw = (below: number): number => random.below(below)
    for (let run = 0; run < 400; run++) {
      const pages: Pages = Array.from({ length: 24 }, () => draw(2) === 1)
      const sizeLog2 = 12 + draw(4)
      const a = associate(pages, { sizeLog2, periodUs: draw(5), maximum: 1 + draw(4) })
      const b = createBlocks(64, 4)
      associated(b, pages.length * PAGE_BYTES, 9)
      want(b, 0)
      const sent: { notice: Notice; payload: Uint8Array }[] = []
      const deliver = (at: number): void => {
        const { notice, payload } = sent[at]!
        takeNotice(b, { ...notice, incarnation: 9 }, payload, 0, 0)
      }
      askCurrent(a)
      for (let now = 0; now < 80; now++) {
        for (let i = draw(4); i > 0; i--) toggle(a, pages, draw(24))
        if (draw(40) === 0) {
          setSize(a, 12 + draw(4))
          count(a, pages)
          askCurrent(a)
        }
        while (tellsAtUs(a, now) <= now) {
          sent.push(compose(a, 5 + draw(40)))
          const fate = draw(6)
          if (fate > 0) deliver(sent.length - 1)
          if (fate > 3) deliver(draw(sent.length))
        }
        if (b.wanted && draw(4) === 0) askCurrent(a)
      }
      // The network is quiet now: the next notice shows what was lost, and that is asked for.
      for (let now = 80; now < 200; now++) {
        for (let page = 0; page < 24 && now === 100; page++) {
          if (!pages[page]) toggle(a, pages, page)
        }
        if (now === 120) toggle(a, pages, 0)
        if (b.wanted) askCurrent(a)
        while (tellsAtUs(a, now) <= now) {
          sent.push(compose(a))
          deliver(sent.length - 1)
        }
      }
      expect(belief(b, 24), `PERDURE_SEED=${SEED}, run ${run}`).toEqual(truth(pages, a.sizeLog2))
    }
  })
})
