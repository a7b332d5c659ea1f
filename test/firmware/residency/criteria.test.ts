/**
 * Criteria for the size of blocks and the time of notices (source 5, ¶82, ¶84, ¶86, ¶111; S1-M12):
 * bandwidth against a budget, what both sides can do, and groups of one use, by plain models.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { NOTICE_BYTES_PER_S, PAGE_BYTES } from '../../../firmware/board/limits.ts'
import {
  type Association,
  askCurrent,
  beginAssociation,
  beginCount,
  beginOutage,
  endCount,
  optIn,
  setSize,
  tellsAtUs,
  unitChanged,
} from '../../../firmware/residency/association.ts'
import {
  associated,
  type Blocks,
  createBlocks,
  resize,
} from '../../../firmware/residency/blocks.ts'
import { AHEAD_US, beginMeter, noticeBytes, spend } from '../../../firmware/residency/meter.ts'
import {
  createNamedGroups,
  NAMED_GROUPS,
  type NamedRange,
} from '../../../firmware/residency/named-groups.ts'
import { composeNotice } from '../../../firmware/residency/notice.ts'
import {
  areBounds,
  CALM_WINDOWS,
  EDGES_MANY,
  leastLog2,
  mostLog2,
  offerFor,
  suggestedFor,
  suggestedLog2,
  WINDOW_US,
} from '../../../firmware/residency/size.ts'
import { answerProposal, sayBounds } from '../../../firmware/residency/wish.ts'
import { blankBseth } from '../../../firmware/wire/block-size.ts'
import { blankMseth, STATUS_CHANGE, STATUS_ERROR } from '../../../firmware/wire/memory-status.ts'
import {
  blankAssociations,
  changeOf,
  currentOf,
  hear,
  INCARNATION,
  PAGE,
} from '../../support/residency/residency.ts'

const SEED = Number(process.env.PERDURE_SEED ?? 20265)
const [ONE] = blankAssociations() as [Association]

interface Options {
  readonly pages?: number
  readonly periodUs?: number
  readonly threshold?: number
  readonly maximum?: number
  readonly budgetLog2?: number
  readonly leastLog2?: number
  readonly mostLog2?: number
  readonly sizeLog2?: number
}

/** Associates pages that are all there, and opts in. */
function associate(options: Options = {}): Association {
  const length = (options.pages ?? 64) * PAGE_BYTES
  ONE.life = 0
  beginAssociation(ONE, 0x51, 0, length, mostLog2(length))
  ONE.periodUs = options.periodUs ?? 0
  ONE.threshold = options.threshold ?? 0
  ONE.maximum = options.maximum ?? 256
  ONE.leastLog2 = options.leastLog2 ?? 0
  ONE.mostLog2 = options.mostLog2 ?? 0
  beginMeter(ONE.meter, options.budgetLog2 ?? 0)
  setSize(ONE, options.sizeLog2 ?? 12)
  ONE.committed = true
  ONE.wishLog2 = ONE.sizeLog2
  beginCount(ONE)
  endCount(ONE)
  optIn(ONE)
  return ONE
}

function page(a: Association, number: number, there: boolean): void {
  unitChanged(a, number * PAGE_BYTES, PAGE_BYTES, there)
}

const BYTES = new Uint8Array(4096)
const MSETH = blankMseth()

/** Sends one message, as the firmware does; its bytes on the wire. */
function send(a: Association, nowUs: number): number {
  const bytes = noticeBytes(composeNotice(a, MSETH, BYTES, 0, BYTES.length))
  spend(a.meter, bytes, nowUs)
  return bytes
}

describe('S1-M12: bandwidth of notices against a budget', () => {
  test('S1-M12: in any time no more than the budget, a start ahead, and one message', () => {
    for (const budgetLog2 of [10, 13, 16]) {
      const a = associate({ budgetLog2, threshold: 1, maximum: 8 })
      const sent: [number, number][] = []
      const there = new Array<boolean>(64).fill(true)
      const random = new Random(SEED + budgetLog2)
      let now = 0
      for (let i = 0; i < 6000; i++) {
        now += random.below(600)
        const at = random.below(64)
        there[at] = !there[at]
        page(a, at, there[at]!)
        while (tellsAtUs(a, now) <= now) sent.push([now, send(a, now)])
      }
      expect(sent.length).toBeGreaterThan(10)
      const longest = noticeBytes(8 * 5)
      const over = sent.filter(([from], first) => {
        let bytes = 0
        return sent.slice(first).some(([to, length]) => {
          bytes += length
          return bytes > (2 ** budgetLog2 * (to - from + AHEAD_US)) / 1e6 + longest
        })
      })
      expect(over).toEqual([])
      const all = sent.reduce((sum, [, bytes]) => sum + bytes, 0)
      expect(all, 'and the budget is used').toBeGreaterThan((2 ** budgetLog2 * now * 0.8) / 1e6)
    }
  })

  test('S1-M12: what waits is collected: what came back is told to nobody', () => {
    const a = associate({ budgetLog2: 10, threshold: 1 })
    let messages = 0
    for (let i = 0; tellsAtUs(a, 0) <= 0 || messages === i; i++) {
      page(a, i, false)
      if (tellsAtUs(a, 0) <= 0) messages += send(a, 0) > 0 ? 1 : 0
    }
    const held = tellsAtUs(a, 0)
    expect(held).toBeGreaterThan(0)
    const dirty = a.dirty
    page(a, 40, false)
    page(a, 41, false)
    page(a, 40, true)
    expect(a.dirty).toBe(dirty + 1)
    expect(tellsAtUs(a, held - 1)).toBe(held)
    expect(tellsAtUs(a, held)).toBeLessThanOrEqual(held)
    send(a, held)
    expect([MSETH.kind, MSETH.entries]).toEqual([STATUS_CHANGE, dirty + 1])
    expect(a.dirty).toBe(0)
  })

  test('S1-M12: the status that is asked for, and the word of a failure, never wait', () => {
    const a = associate({ budgetLog2: 10 })
    spend(a.meter, 1_000_000, 0)
    page(a, 1, false)
    expect(tellsAtUs(a, 0)).toBeGreaterThan(900_000_000)
    askCurrent(a)
    expect(tellsAtUs(a, 5)).toBe(5)
    beginOutage(a, STATUS_ERROR)
    expect(tellsAtUs(a, 6)).toBe(6)
  })

  test('S1-M12: the smaller budget counts, and none is too small to tell anything', () => {
    const budgets = [0, 1, 9, 10, 15, 20, 21, 63, 127].map((budgetLog2) => {
      return Math.log2(associate({ budgetLog2 }).meter.bytesPerS)
    })
    const most = Math.log2(NOTICE_BYTES_PER_S)
    expect(budgets).toEqual([most, 10, 10, 10, 15, most, most, most, most])
  })

  test('S1-M12: a new requester pays for nothing that another was told', () => {
    spend(associate({ budgetLog2: 10 }).meter, 1_000_000, 0)
    const a = associate({ budgetLog2: 10 })
    page(a, 1, false)
    expect(tellsAtUs(a, 0)).toBe(0)
  })

  test('S1-M12: notices that take most of the budget ask for coarser blocks', () => {
    const share = (2 ** 13 * WINDOW_US) / 1e6
    for (const [bytes, offer] of [
      [share * 0.74, 0],
      [share * 0.75, 13],
    ] as const) {
      const a = associate({ budgetLog2: 13 })
      page(a, 1, false)
      offerFor(a, 0)
      spend(a.meter, bytes, 10)
      expect(offerFor(a, WINDOW_US)).toBe(offer)
    }
  })

  test('S1-M12: finer ones again only while notices take little, and no flutter between', () => {
    const share = (2 ** 13 * WINDOW_US) / 1e6
    for (const [part, offer] of [
      [0.26, 0],
      [0.25, 13],
    ] as const) {
      const a = associate({ budgetLog2: 13, sizeLog2: 14 })
      a.wishLog2 = 12
      let offered = offerFor(a, 0)
      for (let window = 1; window <= CALM_WINDOWS; window++) {
        spend(a.meter, share * part, window * WINDOW_US - 1)
        offered = offerFor(a, window * WINDOW_US)
      }
      expect(offered).toBe(offer)
    }
  })
})

describe('S1-M12: what both sides can do', () => {
  const LENGTHS = [1, 4097, 65_536, 2 ** 25, 2 ** 27 + 1, 2 ** 32 - 4096]

  test('S1-M12: without a wish a size is suggested that both can, where there is one', () => {
    for (const length of LENGTHS) {
      for (let least = 0; least <= 40; least += 1) {
        for (const most of [0, ...Array.from({ length: 41 - least }, (_, i) => i + least)]) {
          if (least === 0 && most === 0) continue
          const a = associate({ leastLog2: least, mostLog2: most })
          a.length = length
          const [low, high] = [leastLog2(length), mostLog2(length)]
          const size = suggestedFor(a)
          expect(size >= low && size <= high).toBe(true)
          const both = (one: number): boolean => one >= least && (most === 0 || one <= most)
          const can = Array.from({ length: high - low + 1 }, (_, i) => low + i).filter(both)
          if (can.length > 0) expect(can).toContain(size)
          if (can.includes(suggestedLog2(length))) expect(size).toBe(suggestedLog2(length))
        }
      }
    }
  })

  test('S1-M12: who says nothing is suggested what it always was', () => {
    for (const length of LENGTHS) {
      const a = associate()
      a.length = length
      expect(suggestedFor(a)).toBe(suggestedLog2(length))
    }
  })

  test('S1-M12: no offer is coarser or finer than what the requester says it takes', () => {
    const busy = (a: Association): number => {
      for (let i = 0; i < EDGES_MANY; i++) page(a, 0, i % 2 === 1)
      offerFor(a, 0)
      return offerFor(a, WINDOW_US)
    }
    expect(busy(associate({ sizeLog2: 13, mostLog2: 14 }))).toBe(14)
    expect(busy(associate({ sizeLog2: 13, mostLog2: 13 }))).toBe(0)
    expect(busy(associate({ sizeLog2: 13, mostLog2: 12 }))).toBe(0)
    const calm = (a: Association): number => {
      a.wishLog2 = 12
      let offer = 0
      for (let window = 0; window <= CALM_WINDOWS; window++) offer = offerFor(a, window * WINDOW_US)
      return offer
    }
    expect(calm(associate({ sizeLog2: 14, leastLog2: 13 }))).toBe(13)
    expect(calm(associate({ sizeLog2: 14, leastLog2: 14 }))).toBe(0)
  })

  test('S1-M12: what are bounds, and what are none', () => {
    const good = [
      [0, 0],
      [12, 0],
      [0, 12],
      [12, 12],
      [63, 63],
      [0, 63],
    ] as const
    for (const [least, most] of good) expect(areBounds(least, most)).toBe(true)
    for (const [least, most] of [
      [13, 12],
      [64, 0],
      [0, 64],
      [64, 64],
      [1, 255],
    ] as const) {
      expect(areBounds(least, most)).toBe(false)
    }
  })

  test('S1-M12: the requester says the room that it has, and takes no offer beyond it', () => {
    const b = createBlocks(4, 2)
    associated(b, 16 * PAGE, INCARNATION)
    const said = blankBseth()
    sayBounds(b, said)
    expect(said).toMatchObject({ criteria: true, leastLog2: 14, mostLog2: 0, budgetLog2: 0 })
    const more = { ...blankBseth(), criteria: true, leastLog2: 15, mostLog2: 13, budgetLog2: 12 }
    sayBounds(b, more)
    expect(more, 'what cannot be is made the nearest that can').toMatchObject({
      ...{ leastLog2: 15, mostLog2: 14, budgetLog2: 12 },
    })
    sayBounds(b, { ...blankBseth(), criteria: true, mostLog2: 15 })
    resize(b, 14)
    const answers = [13, 14, 15, 16].map((blockSizeLog2) => {
      const answer = blankBseth()
      const c = createBlocks(4, 2)
      associated(c, 16 * PAGE, INCARNATION)
      resize(c, 14)
      c.coarsestLog2 = 15
      answerProposal(c, { ...blankBseth(), blockSizeLog2 }, answer)
      return [answer.commit, answer.blockSizeLog2]
    })
    expect(answers).toEqual([
      [false, 14],
      [true, 14],
      [true, 15],
      [false, 15],
    ])
    // Where there was no finer one, that is no reason to refuse something finer than it.
    const wide = createBlocks(4, 2)
    associated(wide, 16 * PAGE, INCARNATION)
    wide.coarsestLog2 = 14
    const answer = blankBseth()
    answerProposal(wide, { ...blankBseth(), blockSizeLog2: 15 }, answer)
    expect([answer.commit, wide.sizeLog2]).toEqual([true, 15])
  })
})

describe('S1-M12: groups of one use (¶86)', () => {
  const PAGES = 16

  /** The model: a block is in a group if any byte of a range of it lies in the block. */
  function model(b: Blocks, ranges: readonly NamedRange[], group: number): [number, number] {
    const size = 2 ** b.sizeLog2
    let [ready, all] = [0, 0]
    for (let block = 0; block < b.count; block++) {
      const isIn = ranges.some((range) => {
        const to = Math.min(range.to, b.length)
        return (
          range.group === group &&
          range.from < to &&
          range.from < (block + 1) * size &&
          to > block * size
        )
      })
      if (isIn) all++
      if (isIn && b.states[block] === 1) ready++
    }
    return [ready, all]
  }

  test('S1-M12: counted by any notices, in any size of blocks, as by hand', () => {
    const random = new Random(SEED)
    const draw = (below: number): number => random.below(below)
    for (let round = 0; round < 60; round++) {
      const ranges = Array.from({ length: 1 + draw(8) }, () => {
        const from = draw(PAGES * PAGE)
        return { group: draw(NAMED_GROUPS), from, to: from + draw(5 * PAGE) }
      })
      const b = createBlocks(PAGES, 4)
      b.named = createNamedGroups(PAGES, ranges)
      associated(b, PAGES * PAGE - draw(2) * 100, INCARNATION)
      hear(b, currentOf(1, 12, new Array<boolean>(PAGES).fill(draw(2) === 1)))
      for (let sequence = 2; sequence < 40; sequence++) {
        if (draw(6) === 0) resize(b, 12 + draw(5))
        hear(b, changeOf(sequence, 12, [draw(PAGES), draw(3) > 0]))
        for (let group = 0; group < NAMED_GROUPS; group++) {
          const [ready, all] = model(b, ranges, group)
          expect([b.named.ready[group], b.named.sizes[group]]).toEqual([ready, all])
          if (ready === all) expect(b.named.flags[group]).toBe(0)
        }
      }
    }
  })

  test('S1-M12: an empty range, and one behind the end of the region, have no block', () => {
    const b = createBlocks(PAGES, 4)
    const ranges = [
      { group: 0, from: 2 * PAGE + 9, to: 2 * PAGE + 9 },
      { group: 1, from: 5 * PAGE - 9, to: 5 * PAGE },
      { group: 2, from: 4 * PAGE - 1, to: 6 * PAGE },
    ]
    b.named = createNamedGroups(PAGES, ranges)
    const { sizes, ready, flags } = b.named
    associated(b, PAGES * PAGE, INCARNATION)
    hear(b, currentOf(1, 12, new Array<boolean>(PAGES).fill(false)))
    expect([...sizes.slice(0, 3)]).toEqual([0, 1, 3])
    // The region is another one by now, and shorter.
    associated(b, 5 * PAGE - 9, INCARNATION)
    hear(b, currentOf(2, 12, [false, true, false, true, true]))
    expect([...sizes.slice(0, 3)]).toEqual([0, 0, 2])
    expect([...ready.slice(0, 3)]).toEqual([0, 0, 2])
    expect([...flags.slice(0, 3)]).toEqual([0, 0, 0])
  })

  test('S1-M12: the flag is set by the first member that is away, until all are there', () => {
    const b = createBlocks(PAGES, 4)
    const ranges = [
      { group: 0, from: PAGE, to: PAGE + 1 },
      { group: 0, from: 9 * PAGE, to: 10 * PAGE },
      { group: 1, from: 0, to: 2 * PAGE },
    ]
    b.named = createNamedGroups(PAGES, ranges)
    associated(b, PAGES * PAGE, INCARNATION)
    hear(b, currentOf(1, 12, new Array<boolean>(PAGES).fill(true)))
    const { named } = b
    const seen = (): string => {
      return [0, 1]
        .map((group) => {
          return `${named.ready[group]}/${named.sizes[group]}${named.flags[group] ? '!' : ''}`
        })
        .join(' ')
    }
    expect(seen()).toBe('2/2 2/2')
    hear(b, changeOf(2, 12, [9, false], [5, false]))
    expect(seen()).toBe('1/2! 2/2')
    hear(b, changeOf(3, 12, [1, false], [9, true]))
    expect(seen(), 'one is back, another is away').toBe('1/2! 1/2!')
    hear(b, changeOf(4, 12, [1, true], [1, true]))
    expect(seen()).toBe('2/2 2/2')
  })
})
