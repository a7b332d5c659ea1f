/**
 * Memory status on the wire, at the card that has the memory (source 5; P5-7 … P5-10, P5-16 …
 * P5-30, D-12): who may ask, what is answered, what is told and when, and what is left of it.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import {
  ASSOCIATED_BLOCKS,
  ASSOCIATIONS,
  HINT_PAGES,
  HINTS,
  HINTS_EACH,
  INITIATORS,
  PAGE_BYTES,
  QUEUE_PAIRS,
  SLICE_PAUSE_US,
} from '../../../firmware/board/limits.ts'
import {
  EVENT_PAGES_HINTED,
  EVENT_PAGES_UNWANTED,
  EVENT_PAGES_WANTED,
} from '../../../firmware/host/header-page.ts'
import { PLACEMENT_BYPASS, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { EDGES_MANY, WINDOW_US } from '../../../firmware/residency/size.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { SIZE_GRANTED, SIZE_OFFERED, SIZE_REFUSED } from '../../../firmware/wire/block-size.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  HEALTH_DEGRADED,
  HEALTH_FAILED,
  HEALTH_NOT_PERSISTENT,
  STATUS_ERROR,
  STATUS_RESET,
  STATUS_UNAVAILABLE,
} from '../../../firmware/wire/memory-status.ts'
import {
  MEMORY_STATUS,
  PREFETCH_HINT,
  RC_ACKNOWLEDGE,
  RC_READ_RESPONSE_ONLY,
} from '../../../firmware/wire/opcode.ts'
import {
  PREFETCH_DONT_NEED,
  PREFETCH_DROP,
  PREFETCH_SEQUENTIAL,
  PREFETCH_WILL_NEED,
} from '../../../firmware/wire/prefetch.ts'
import { engineCard } from '../../support/cards/engine.ts'
import {
  attachedAgent,
  believe,
  cutPower,
  NOTHING,
  type Placed,
  placed,
  restarted,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { End, type TwoCards } from '../../support/cards/two-cards.ts'
import { Stranger, sentBy } from '../../support/peers/strangers.ts'
import { BASE, type OnDemand, OnDemandHost, payloadOf } from '../../support/residency/on-demand.ts'
import {
  acknowledgeFrame,
  answerFrame,
  associateFrame,
  blockSizeFrame,
  bsethOf,
  hintFrame,
  type Notice,
  noticeLine,
  noticesOf,
  offersOf,
  type Range,
  sizeAnswers,
  sizeLine,
} from '../../support/residency/residency-asks.ts'
import { frameOf, writeIcrc } from '../../support/wire/frames.ts'
import {
  ACK,
  disconnect,
  NAK_ACCESS,
  NAK_INVALID,
  type Setting,
  sendFrames,
  setting,
  slotOffset,
} from '../../support/wire/requests.ts'

const SEED = Number(process.env.PERDURE_SEED ?? 20265)

const PAGES = 16
const PERIOD_US = 1000

/** A region of the host's memory, some pages of it there, and a requester. */
class Responder {
  readonly host: OnDemandHost = new OnDemandHost()
  readonly region: OnDemand
  readonly frames: number[]
  readonly qp: TestPeer
  readonly range: Range

  constructor(mapped: readonly number[] = [], mtu = 4096, pages = PAGES) {
    this.region = this.host.registerOnDemand({ length: pages * PAGE_BYTES })
    this.frames = this.host.frames(PAGES)
    this.map(...mapped)
    this.qp = this.host.card.connect(mtu)
    this.range = { rkey: this.region.rkey, address: BASE, length: pages * PAGE_BYTES }
  }

  get card(): TestCard {
    return this.host.card
  }

  map(...pages: number[]): void {
    if (pages.length > 0)
      this.host.map(
        this.region,
        pages.map((page) => [page, this.frames[page]!]),
      )
  }

  unmap(...pages: number[]): void {
    this.host.unmap(this.region, pages)
  }

  /** ASSOCIATE; what came of it is acknowledged. */
  associate(fields: Parameters<typeof associateFrame>[2] = {}, range = this.range): Sent[] {
    const defaults = { blockSizeLog2: 12, optIn: true, periodUs: PERIOD_US }
    return this.take(this.card.serve(associateFrame(this.qp, range, { ...defaults, ...fields })))
  }

  propose(fields: Parameters<typeof blockSizeFrame>[2]): Sent[] {
    return this.take(this.card.serve(blockSizeFrame(this.qp, this.region.rkey, fields)))
  }

  /** Acknowledges the notices among these, and those that come then. */
  take(sent: readonly Sent[]): Sent[] {
    const all = [...sent]
    for (let i = 0; i < all.length; i++) {
      if (all[i]!.opcode !== MEMORY_STATUS) continue
      all.push(...this.card.serve(acknowledgeFrame(this.qp, all[i]!.psn)))
    }
    return all
  }

  /** Lets time pass, and takes what is told. */
  pass(us: number = PERIOD_US): Notice[] {
    return noticesOf(this.take(this.card.pass(us)))
  }

  /** What is told when the period is over. */
  told(us: number = PERIOD_US): string[] {
    return this.pass(us).map(noticeLine)
  }

  current(): string[] {
    return noticesOf(this.propose({ current: true })).map(noticeLine)
  }
}

const answersOf = (sent: readonly Sent[]): string[] => sizeAnswers(sent).map(sizeLine)
const toldOf = (sent: readonly Sent[]): string[] => noticesOf(sent).map(noticeLine)

describe('P5-17: a requester associates a region', () => {
  test('P5-2, P5-19: it is told how its blocks are, and then what changes', () => {
    const one = new Responder([0, 1, 4])
    const sent = one.associate({ blockSizeLog2: 13, current: true })
    expect(answersOf(sent)).toEqual(['granted 2^13, in force'])
    expect(toldOf(sent)).toEqual(['current █░░░░░░░'])
    expect(noticesOf(sent)[0]).toMatchObject({
      rkey: one.region.rkey,
      incarnation: u32(one.card.status(), mad.PART_INCARNATION),
      sequence: 1,
      blockSizeLog2: 13,
      negative: true,
    })
    one.map(5)
    one.unmap(0)
    expect(one.told()).toEqual(['change 2 ready, 0 not'])
  })

  test('P5-20: pages of a block that come and go one by one are told at the edges', () => {
    const one = new Responder([0, 1])
    one.associate({ blockSizeLog2: 13 })
    one.map(2)
    expect(one.told()).toEqual([])
    one.map(3)
    expect(one.told()).toEqual(['change 1 ready'])
    one.unmap(2)
    expect(one.told()).toEqual(['change 1 not'])
    one.unmap(3)
    one.map(3)
    expect(one.told()).toEqual([])
  })

  test('P5-17, P5-21: blocks are counted from the address that was associated', () => {
    const one = new Responder([6, 7])
    const range = { ...one.range, address: BASE + 5 * PAGE_BYTES, length: 4 * PAGE_BYTES }
    expect(toldOf(one.associate({ current: true }, range))).toEqual(['current ░██░'])
    one.unmap(7)
    one.map(0)
    expect(one.told()).toEqual(['change 2 not'])
  })

  test('P5-26: positive when all of it is there, negative while it is not', () => {
    const one = new Responder([0, 1, 2])
    const range = { ...one.range, length: 3 * PAGE_BYTES }
    const [all] = noticesOf(one.associate({ current: true }, range))
    expect([all!.positive, all!.negative]).toEqual([true, false])
    one.unmap(1)
    one.told()
    const [less] = noticesOf(one.propose({ current: true }))
    expect([less!.positive, less!.negative]).toEqual([false, true])
  })

  test('one association for a region and a queue pair: another ASSOCIATE takes its place', () => {
    const one = new Responder()
    one.associate({ periodUs: 50_000 })
    const range = { ...one.range, length: 2 * PAGE_BYTES }
    one.associate({ periodUs: 0 }, range)
    one.map(7, 1)
    // Without a period it leaves in the burst in which it happens; block 7 is not asked about.
    expect(toldOf(one.take(one.card.sent))).toEqual(['change 1 ready'])
    expect(one.told(100_000)).toEqual([])
    expect(one.current()).toEqual(['current ░█'])
  })

  test('two requesters of one region are told each by its own agreement', () => {
    const one = new Responder()
    one.associate({ blockSizeLog2: 12 })
    const other = one.card.connect(4096)
    one.card.serve(associateFrame(other, one.range, { blockSizeLog2: 14, optIn: true }))
    const before = one.card.sent.length
    one.map(0)
    expect(before).toBe(1)
    one.map(1, 2, 3)
    const last = toldOf(one.card.sent)
    expect(last).toEqual(['change 0 ready'])
    expect(one.told()).toEqual(['change 0 ready, 1 ready, 2 ready, 3 ready'])
  })
})

describe('P5-22, P5-23, P5-24: when changes are told', () => {
  test('P5-22: the period begins with the first change', () => {
    const one = new Responder()
    one.associate()
    expect(one.told(100_000)).toEqual([])
    one.map(3)
    expect(one.told(PERIOD_US - 50)).toEqual([])
    one.map(1)
    expect(one.told(PERIOD_US)).toEqual(['change 3 ready, 1 ready'])
  })

  test('P5-22: the firmware says when it wants to be woken', () => {
    const one = new Responder()
    one.associate()
    expect(one.card.waitUs).toBe(0)
    one.map(3)
    expect(one.card.waitUs).toBe(PERIOD_US)
  })

  test('P5-23: more memory actions than the threshold: at once', () => {
    const one = new Responder()
    one.associate({ periodUs: 10_000_000, threshold: 3 })
    one.map(0, 1, 2)
    expect(toldOf(one.card.sent)).toEqual([])
    one.map(3)
    expect(toldOf(one.card.sent)).toEqual(['change 0 ready, 1 ready, 2 ready, 3 ready'])
  })

  test('P5-24: not more in a message than was agreed, and the next when that has come', () => {
    const one = new Responder()
    one.associate({ maximum: 3 })
    one.map(0, 1, 2, 3, 4, 5, 6)
    const first = one.card.pass(PERIOD_US)
    expect(toldOf(first)).toEqual(['change 0 ready, 1 ready, 2 ready …'])
    expect(toldOf(one.card.pass(0))).toEqual([])
    expect(toldOf(one.take(first)).slice(1)).toEqual([
      'change 3 ready, 4 ready, 5 ready …',
      'change 6 ready',
    ])
  })

  test('a notice that is lost is sent again, as it was', () => {
    const one = new Responder()
    one.associate()
    one.map(0)
    const [first] = one.card.pass(PERIOD_US)
    one.unmap(0)
    one.map(1)
    const [again] = one.card.pass(80_000)
    expect(noticesOf([again!])).toEqual(noticesOf([first!]))
    expect(
      one
        .take([again!])
        .slice(1)
        .flatMap((sent) => toldOf([sent])),
    ).toEqual(['change 0 not, 1 ready'])
  })

  test('the status of many blocks fills several packets', () => {
    const one = new Responder([], 256, 4096)
    one.map(0, 5)
    const told = noticesOf(one.associate({ current: true }))
    expect(told.map(({ entries, firstBlock, more }) => [entries, firstBlock, more])).toEqual([
      [2048, 0, true],
      [2048, 2048, false],
    ])
    const ready = told.flatMap(({ blocks }) => blocks.filter(([, is]) => is).map(([at]) => at))
    expect(ready).toEqual([0, 5])
  })
})

describe('P5-16: who wants to be told', () => {
  test('nobody is told who did not opt in', () => {
    const one = new Responder()
    one.associate({ optIn: false })
    one.map(0)
    expect(one.told()).toEqual([])
    expect(one.current()).toEqual([`current █${'░'.repeat(15)}`])
    one.propose({ optIn: true })
    one.map(1)
    expect(one.told()).toEqual(['change 1 ready'])
  })

  test.each(['ASSOCIATE', 'BLOCK_SIZE'])('P5-16: opting out by %s ends it', (by) => {
    const one = new Responder()
    one.associate()
    const sent =
      by === 'ASSOCIATE'
        ? one.associate({ optIn: false, optOut: true })
        : one.propose({ optOut: true })
    expect(answersOf(sent)).toEqual(['granted 2^0'])
    one.map(0)
    expect(one.told()).toEqual([])
    expect(answersOf(one.propose({ blockSizeLog2: 12 }))).toEqual(['refused 2^0'])
    // Once more is once too often, and harms nobody.
    expect(answersOf(one.propose({ optOut: true }))).toEqual(['granted 2^0'])
  })
})

describe('P5-7, P5-8, P5-9, P5-18, P5-29: agreeing on a size', () => {
  const ANSWER: Readonly<Record<number, string>> = {
    0: 'offered 2^12',
    1: 'offered 2^12',
    11: 'offered 2^12',
    12: 'granted 2^12, in force',
    13: 'granted 2^13, in force',
    16: 'granted 2^16, in force',
    17: 'offered 2^16',
    255: 'offered 2^16',
  }

  for (const [wish, answer] of Object.entries(ANSWER)) {
    test(`a wish of 2^${wish} for sixteen pages: ${answer}`, () => {
      for (const asks of ['associate', 'propose'] as const) {
        const one = new Responder()
        if (asks === 'propose') one.associate({ blockSizeLog2: 255 })
        const sent = one[asks]({ blockSizeLog2: Number(wish) })
        expect(answersOf(sent)).toEqual([answer])
        expect(sizeAnswers(sent)[0]).toMatchObject({
          leastLog2: 12,
          mostLog2: 16,
          alignmentLog2: 12,
          periodUs: PERIOD_US,
        })
      }
    })
  }

  test('P5-18, P5-29: what is offered is in force when just that is proposed, not before', () => {
    const one = new Responder([0])
    expect(answersOf(one.associate({ blockSizeLog2: 5, current: true }))).toEqual(['offered 2^12'])
    expect(one.current()).toEqual(['current ░'])
    expect(answersOf(one.propose({ blockSizeLog2: 12 }))).toEqual(['granted 2^12, in force'])
    expect(one.current()).toEqual([`current █${'░'.repeat(15)}`])
  })

  test('a region of very many pages has no more blocks than are kept', () => {
    const one = new Responder([], 4096, 2 * ASSOCIATED_BLOCKS)
    expect(answersOf(one.associate({ blockSizeLog2: 12 }))).toEqual(['offered 2^13'])
    expect(answersOf(one.associate({ blockSizeLog2: 13 }))).toEqual(['granted 2^13, in force'])
  })

  test('who changes the size is told how the new blocks are', () => {
    const one = new Responder([0, 1, 2])
    one.associate()
    const sent = one.propose({ blockSizeLog2: 13 })
    expect(toldOf(sent)).toEqual(['current █░░░░░░░'])
    expect(toldOf(one.propose({ blockSizeLog2: 13 }))).toEqual([])
    one.map(3)
    expect(one.told()).toEqual(['change 1 ready'])
  })

  describe('P5-10: the responder offers another size', () => {
    /** Pages come and go until an offer comes. */
    function offered(one: Responder): Sent {
      for (let i = 0; i < EDGES_MANY / 8; i++) {
        one.map(0, 1, 2, 3)
        one.unmap(0, 1, 2, 3)
      }
      const [offer, ...others] = offersOf(one.take(one.card.pass(WINDOW_US)))
      expect(others).toEqual([])
      return offer!
    }

    test('by the number of memory actions; what is committed to is in force', () => {
      const one = new Responder()
      one.associate({ periodUs: 1_000_000 })
      const offer = offered(one)
      expect(bsethOf(offer)).toMatchObject({ blockSizeLog2: 13, status: 0, commit: false })
      const size = { status: SIZE_GRANTED, commit: true, blockSizeLog2: 13 }
      const sent = one.take(one.card.serve(answerFrame(one.qp, offer.psn, size)))
      expect(toldOf(sent)).toEqual(['current ░░░░░░░░'])
      expect(noticesOf(sent)[0]!.blockSizeLog2).toBe(13)
    })

    test('a counter-offer is met; a refusal is the end of it', () => {
      const one = new Responder()
      one.associate({ periodUs: 1_000_000 })
      const offer = offered(one)
      const counter = { status: SIZE_OFFERED, commit: false, blockSizeLog2: 15 }
      const [next] = offersOf(one.card.serve(answerFrame(one.qp, offer.psn, counter)))
      expect(bsethOf(next!).blockSizeLog2).toBe(15)
      const refusal = { status: SIZE_REFUSED, commit: false, blockSizeLog2: 12 }
      expect(one.card.serve(answerFrame(one.qp, next!.psn, refusal))).toEqual([])
      expect(one.current()).toEqual(['░'.repeat(16)].map((map) => `current ${map}`))
    })

    test('an answer that comes too late is nothing to who has come since', () => {
      const one = new Responder()
      one.associate({ periodUs: 1_000_000 })
      const offer = offered(one)
      one.propose({ optOut: true })
      const other = one.card.connect(4096)
      const asks = { blockSizeLog2: 12, current: true }
      expect(toldOf(one.card.serve(associateFrame(other, one.range, asks)))).toEqual([
        `current ${'░'.repeat(16)}`,
      ])
      one.card.serve(acknowledgeFrame(other, 0))
      const size = { status: SIZE_GRANTED, commit: true, blockSizeLog2: 13 }
      expect(noticesOf(one.card.serve(answerFrame(one.qp, offer.psn, size)))).toEqual([])
      const sent = one.card.serve(blockSizeFrame(other, one.region.rkey, { current: true }))
      expect(toldOf(sent)).toEqual([`current ${'░'.repeat(16)}`])
    })

    test('a size that was offered for more memory is none of less', () => {
      const one = new Responder()
      one.associate({ periodUs: 1_000_000 })
      const offer = offered(one)
      one.associate({ periodUs: 1_000_000 }, { ...one.range, length: PAGE_BYTES })
      const size = { status: SIZE_GRANTED, commit: true, blockSizeLog2: 13 }
      one.take(one.card.serve(answerFrame(one.qp, offer.psn, size)))
      expect(one.current()).toEqual(['current ░'])
    })

    test.each([
      ['without a commitment', { status: SIZE_GRANTED, commit: false, blockSizeLog2: 13 }],
      ['of another size', { status: SIZE_GRANTED, commit: true, blockSizeLog2: 14 }],
      ['of a version to come', { version: 2, status: 0, commit: true, blockSizeLog2: 13 }],
      ['with reserved bits', { status: 7, commit: true, blockSizeLog2: 13 }],
      ['out of bounds', { status: SIZE_OFFERED, commit: false, blockSizeLog2: 200 }],
    ])('an answer %s changes nothing', (_, fields) => {
      const one = new Responder()
      one.associate({ periodUs: 1_000_000 })
      const offer = offered(one)
      expect(offersOf(one.card.serve(answerFrame(one.qp, offer.psn, fields)))).toEqual([])
      expect(one.current()).toEqual([`current ${'░'.repeat(16)}`])
    })
  })
})

test('a notice that finds no room leaves when there is some', () => {
  const one = new Responder()
  const { host, card } = one
  // A connection of the host's own keeps one place, and waits for a peer that does not answer.
  const end = new End({ hosts: [host, host] } as unknown as TwoCards, 0, { units: 8 })
  end.ready({ last: 9, number: 77, mtu: 1024, peerPsn: 5, psn: 6, incarnation: 0 })
  end.post({ opcode: SEND, inline: dataOf(8, 1) })
  host.run()
  const told: (readonly [TestPeer, Sent])[] = []
  const qps = Array.from({ length: INITIATORS }, () => card.connect(4096))
  for (const qp of qps) {
    const sent = card.serve(associateFrame(qp, one.range, { optIn: true, current: true }))
    for (const each of sent) if (each.opcode === MEMORY_STATUS) told.push([qp, each])
  }
  expect(told).toHaveLength(INITIATORS - 1)
  const [qp, notice] = told[0]!
  const later = [...card.serve(acknowledgeFrame(qp, notice.psn)), ...card.pass(2_000)]
  const isNew = ({ opcode, bytes }: Sent): boolean => {
    return opcode === MEMORY_STATUS && !told.some(([, each]) => each.bytes === bytes)
  }
  expect(later.filter(isNew)).toHaveLength(1)
})

describe('P5-25: hints load pages', () => {
  /** Pages that the host was asked for, once. */
  function asked(one: Responder): number[] {
    return one.host
      .wanted()
      .flatMap(({ first, count }) => Array.from({ length: count }, (_, i) => first + i))
  }

  function hint(
    one: Responder,
    first: number,
    count: number,
    fields: Parameters<typeof hintFrame>[2] = {},
  ): Sent[] {
    const range = {
      ...one.range,
      address: BASE + first * PAGE_BYTES,
      length: count * PAGE_BYTES,
    }
    return one.card.serve(hintFrame(one.qp, range, fields))
  }

  test('its pages are asked for, the notice follows, the READ finds them', () => {
    const one = new Responder([4])
    one.associate({ blockSizeLog2: 13 })
    const sent = hint(one, 3, 3)
    expect(sent.map(({ opcode, syndrome }) => [opcode, syndrome])).toEqual([[RC_ACKNOWLEDGE, ACK]])
    // Also the one that is there: it may be about to go.
    expect(asked(one)).toEqual([3, 4, 5])
    one.map(5)
    one.map(3)
    one.map(2)
    expect(one.told()).toEqual(['change 2 ready, 1 ready'])
    const read = one.card.serve(one.host.reads(one.qp, one.region, 4 * PAGE_BYTES, 8))
    expect(read.map(({ opcode }) => opcode)).toEqual([RC_READ_RESPONSE_ONLY])
  })

  test('without an association, too', () => {
    const one = new Responder()
    hint(one, 6, 2)
    expect(asked(one)).toEqual([6, 7])
  })

  test('P5-25: who goes on behind it gets the next range as long, up to the end', () => {
    const one = new Responder()
    hint(one, 2, 3, { op: PREFETCH_SEQUENTIAL })
    expect(asked(one)).toEqual([2, 3, 4, 5, 6, 7])
    hint(one, 12, 3, { op: PREFETCH_SEQUENTIAL })
    expect(asked(one)).toEqual([12, 13, 14, 15])
  })

  test('a stride names every so many blocks, of the size that was agreed', () => {
    const one = new Responder()
    hint(one, 0, 7, { stride: 3 })
    expect(asked(one)).toEqual([0, 3, 6])
    const other = new Responder()
    other.associate({ blockSizeLog2: 13 })
    hint(other, 1, 9, { stride: 2 })
    expect(asked(other)).toEqual([1, 2, 5, 6, 9])
  })

  test.each([
    ['will not need it', PREFETCH_DONT_NEED, []],
    ['may drop it', PREFETCH_DROP, [{ first: 1, count: 2 }]],
  ] as const)('a hint that one %s takes nothing away: the host decides', (_, op, told) => {
    const one = new Responder([1, 2])
    expect(hint(one, 0, 4, { op }).map(({ syndrome }) => syndrome)).toEqual([ACK])
    expect(one.host.wanted(EVENT_PAGES_UNWANTED)).toMatchObject(told)
    one.card.pass(1_000_000)
    hint(one, 0, 4, { op })
    expect(asked(one)).toEqual([])
    const read = one.card.serve(one.host.reads(one.qp, one.region, PAGE_BYTES, 8))
    expect(payloadOf(read).length).toBe(8)
  })

  test('a hint that comes too late for itself is forgotten', () => {
    const one = new Responder([], 4096, 4096)
    // The first is long, and takes turns; the second has a deadline that ends before its turn.
    const range = { ...one.range, address: BASE, length: 2048 * PAGE_BYTES }
    const late = { ...one.range, address: BASE + 3000 * PAGE_BYTES, length: PAGE_BYTES }
    one.card.serve(
      hintFrame(one.qp, range),
      hintFrame(one.qp, late, { deadlineUs: 25 }),
      hintFrame(one.qp, { ...late, address: BASE + 3001 * PAGE_BYTES }, { deadlineUs: 60_000 }),
    )
    const pages = asked(one)
    for (let i = 0; i < 20 && one.card.waitUs === 1; i++) {
      one.card.pass(10)
      pages.push(...asked(one))
    }
    expect(pages.length).toBe(2049)
    expect(pages.at(-1)).toBe(3001)
  })

  test('what is more urgent comes first', () => {
    const one = new Responder([], 4096, 4096)
    const at = (page: number, length: number): Range => {
      return { ...one.range, address: BASE + page * PAGE_BYTES, length: length * PAGE_BYTES }
    }
    one.card.serve(
      hintFrame(one.qp, at(0, HINT_PAGES), { priority: 1 }),
      hintFrame(one.qp, at(3000, HINT_PAGES), { priority: 7 }),
    )
    expect(asked(one)[0]).toBe(3000)
    one.card.pass(1)
    expect(asked(one)[0]).toBe(0)
  })

  test('hints without end: a few of each requester wait, the others are forgotten', () => {
    const one = new Responder([], 4096, 8192)
    const range = { ...one.range, length: 8192 * PAGE_BYTES }
    const greedy = Array.from({ length: 32 }, () => hintFrame(one.qp, range))
    one.card.serve(...greedy)
    // Another requester has its turn all the same.
    const other = one.card.connect(4096)
    const its = { ...one.range, address: BASE + 8000 * PAGE_BYTES, length: PAGE_BYTES }
    one.card.serve(hintFrame(other, its, { priority: 1 }))
    expect(asked(one)).toContain(8000)
    let turns = 0
    for (; one.card.waitUs === 1; turns++) one.card.pass(1)
    expect(turns).toBeLessThanOrEqual((HINTS_EACH * 8192) / HINT_PAGES)
    expect(HINTS_EACH).toBeLessThan(HINTS)
    expect(one.card.counter('RESIDENCY_FORM')).toBe(0)
  })

  test('who has no hint waiting finds room, however many others have', () => {
    const one = new Responder([], 4096, 8192)
    const range = { ...one.range, length: 8000 * PAGE_BYTES }
    for (let i = 0; i < HINTS / HINTS_EACH; i++) {
      const greedy = one.card.connect(4096)
      one.card.serve(...Array.from({ length: HINTS_EACH }, () => hintFrame(greedy, range)))
    }
    const other = one.card.connect(4096)
    const its = { ...one.range, address: BASE + 8000 * PAGE_BYTES, length: PAGE_BYTES }
    one.card.serve(hintFrame(other, its))
    const heard = asked(one)
    for (let i = 0; i < 2 * (HINTS / HINTS_EACH); i++) {
      one.card.pass(1)
      heard.push(...asked(one))
    }
    expect(heard).toContain(8000)
  })

  test('where everybody who waits has one hint, another is forgotten: an access is heard', () => {
    const one = new Responder([], 4096, 8192)
    const range = { ...one.range, length: 8000 * PAGE_BYTES }
    // More than one source has: they are of two.
    const peers = [70, 71].map((last) => new Stranger(one.card, last))
    const others = Array.from({ length: HINTS }, (_, i) => peers[i & 1]!.connect(4096))
    for (let i = 0; i < HINTS; i += 32) {
      one.card.serve(
        ...others.slice(i, i + 32).map((qp, k) => sentBy(hintFrame(qp, range), 70 + (k & 1))),
      )
    }
    const its = { ...one.range, address: BASE + 8000 * PAGE_BYTES, length: PAGE_BYTES }
    const sent = one.card.serve(hintFrame(one.qp, its))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([ACK])
    const heard = asked(one)
    for (let i = 0; i < 2 * HINTS; i++) {
      one.card.pass(1)
      heard.push(...asked(one))
    }
    expect(heard).not.toContain(8000)
    one.card.serve(one.host.reads(one.qp, one.region, 8000 * PAGE_BYTES, 8))
    expect(asked(one)).toContain(8000)
  })

  test('pages that are strewn: so many runs in one turn, and the others in the next', () => {
    const one = new Responder([], 4096, 64)
    for (let page = 1; page < 48; page += 2) hint(one, page, 1)
    const odd = asked(one)
    expect(odd).toHaveLength(24)
    hint(one, 0, 48)
    const first = asked(one)
    expect(first).toHaveLength(16)
    one.card.pass(1)
    const all = [...odd, ...first, ...asked(one)].sort((a, b) => a - b)
    expect(all).toEqual(Array.from({ length: 48 }, (_, page) => page))
  })

  test('what is urgent to one keeps no other waiting', () => {
    const one = new Responder([], 4096, 8192)
    const range = { ...one.range, length: 8000 * PAGE_BYTES }
    for (let i = 0; i < HINTS_EACH; i++) one.card.serve(hintFrame(one.qp, range, { priority: 7 }))
    asked(one)
    const other = one.card.connect(4096)
    const its = { ...one.range, address: BASE + 8000 * PAGE_BYTES, length: PAGE_BYTES }
    one.card.serve(hintFrame(other, its))
    one.card.pass(1)
    expect(asked(one)).toContain(8000)
  })

  test('an access asks for a page that was hinted at: the host brings it first', () => {
    const one = new Responder()
    one.card.serve(hintFrame(one.qp, { ...one.range, length: 4 * PAGE_BYTES }))
    expect(one.host.wanted(EVENT_PAGES_HINTED)).toMatchObject([{ first: 0, count: 4 }])
    one.card.serve(one.host.reads(one.qp, one.region, PAGE_BYTES, 8))
    expect(one.host.wanted(EVENT_PAGES_WANTED)).toMatchObject([{ first: 1, count: 1 }])
    // It is not told of either again so soon.
    one.card.serve(hintFrame(one.qp, { ...one.range, length: 4 * PAGE_BYTES }))
    expect(one.host.wanted()).toEqual([])
  })

  test('the hints of a region that ends are forgotten with it', () => {
    const one = new Responder([], 4096, 4096)
    one.card.serve(hintFrame(one.qp, { ...one.range, length: 2048 * PAGE_BYTES }))
    one.host.endOnDemand(one.region.rkey)
    for (let i = 0; i < 10; i++) one.card.pass(1)
    expect(one.card.waitUs).toBe(0)
  })
})

describe('P5-28: a status is no permission', () => {
  test('a page that is told to be there and has gone: the access waits for it', () => {
    const one = new Responder([0])
    expect(toldOf(one.associate({ current: true }))[0]).toMatch(/^current █/)
    one.unmap(0)
    const read = one.host.reads(one.qp, one.region, 0, 16)
    expect(one.card.serve(read).map(({ syndrome }) => syndrome)).toEqual([0x2a])
    one.host.frame(one.frames[0]!).set(dataOf(16, 5))
    one.map(0)
    expect(payloadOf(one.card.serve(read))).toEqual(dataOf(16, 5))
  })

  test('a page that is told to be away is read at once if it is there', () => {
    const one = new Responder()
    one.associate({ current: true, periodUs: 1_000_000 })
    one.map(3)
    const read = one.card.serve(one.host.reads(one.qp, one.region, 3 * PAGE_BYTES, 16))
    expect(payloadOf(read).length).toBe(16)
  })
})

describe('regions that fail, and begin again', () => {
  test.each([
    ['error', STATUS_ERROR],
    ['unavailable', STATUS_UNAVAILABLE],
  ] as const)('%s is told at once, and nothing behind it until it is over', (word, kind) => {
    const one = new Responder([0])
    one.associate({ periodUs: 50_000 })
    one.map(1)
    one.host.tellState(one.region.rkey, kind)
    expect(toldOf(one.take(one.card.sent))).toEqual([word])
    one.map(2)
    expect(one.told(100_000)).toEqual([])
    expect(one.current()).toEqual([word])
    one.host.tellState(one.region.rkey, mad.ON_DEMAND_READY)
    const again = one.take(one.card.sent)
    expect(toldOf(again)).toEqual(['reset', `current ███${'░'.repeat(13)}`])
  })

  test('reset: no page of before is there', () => {
    const one = new Responder([0, 1])
    one.associate()
    one.host.tellState(one.region.rkey, STATUS_RESET)
    expect(toldOf(one.take(one.card.sent))).toEqual(['reset', `current ${'░'.repeat(16)}`])
    one.map(0)
    expect(one.told()).toEqual(['change 0 ready'])
  })

  test('who associates a region that has failed is told that', () => {
    const one = new Responder([0])
    one.host.tellState(one.region.rkey, STATUS_ERROR)
    expect(toldOf(one.associate({ current: true }))).toEqual(['error'])
  })

  test('a region that ends: unavailable, and then nothing more; its key names nothing', () => {
    const one = new Responder([0])
    one.associate()
    one.host.endOnDemand(one.region.rkey)
    expect(toldOf(one.take(one.card.sent))).toEqual(['unavailable'])
    expect(one.card.pass(1_000_000)).toEqual([])
    const [sent] = one.propose({ current: true })
    expect(sent!.syndrome).toBe(NAK_ACCESS)
  })
})

describe('P5-30: records that are recovered, healthy and not locked', () => {
  /** Records of 128 bytes: 32 of them lie in one page. */
  const SLOTS = 128

  class Records {
    readonly one: Setting = setting({ slots: SLOTS, capacity: 64 })
    readonly range: Range

    constructor() {
      const { region } = this.one
      this.range = { rkey: region.rkey, address: 0, length: SLOTS * region.stride }
    }

    take(sent: readonly Sent[]): Notice[] {
      const { card, qp } = this.one
      const all = [...sent]
      for (let i = 0; i < all.length; i++) {
        if (all[i]!.opcode !== MEMORY_STATUS) continue
        all.push(...card.serve(acknowledgeFrame(qp, all[i]!.psn)))
      }
      return noticesOf(all)
    }

    associate(fields: Parameters<typeof associateFrame>[2] = {}): string[] {
      const { card, qp } = this.one
      const asks = { blockSizeLog2: 12, optIn: true, current: true, ...fields }
      return this.take(card.serve(associateFrame(qp, this.range, asks))).map(noticeLine)
    }

    /** Both copies of the record decay, and a scan finds it. */
    lose(slot: number): void {
      const { card, region } = this.one
      for (const copy of [0, 1]) {
        const at = slotOffset(region, copy, slot)
        card.nvdimm.poison(at / 64)
        card.nvdimm.poison(at / 64 + 1)
      }
      card.scan(region.id, slot)
    }

    settle(slot: number): void {
      const { card, region } = this.one
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
        body[mad.SETTLE_REGION + 3] = region.id
        body[mad.SETTLE_RECORD + 3] = slot
        body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
      })
    }

    told(): Notice[] {
      return this.take(this.one.card.sent)
    }
  }

  test('a record that is lost, and one that is settled again', () => {
    const made = new Records()
    expect(made.associate()).toEqual(['current ████'])
    made.lose(70)
    const [notice] = made.told()
    expect(noticeLine(notice!)).toBe('change 2 not')
    expect(notice!.health).toBe(HEALTH_DEGRADED)
    expect(made.associate()).toEqual(['current ██░█'])
    made.lose(71)
    expect(made.told()).toEqual([])
    made.settle(70)
    expect(made.told()).toEqual([])
    made.settle(71)
    expect(made.told().map(noticeLine)).toEqual(['change 2 ready'])
  })

  test('a record that a lane holds against an older copy', () => {
    const made = new Records()
    const { card, qp, region } = made.one
    made.associate()
    card.nvdimm.refuseWrites(slotOffset(region, 1, 40) / 64)
    const sent = card.serve(...persistFrames(qp, region, 40, dataOf(64, 1), { wait: 1 }))
    expect(made.take(sent).map(noticeLine)).toEqual(['change 1 not'])
  })

  test('a part that is not armed cannot be used; when it is, all begins again', () => {
    const made = new Records()
    const { card } = made.one
    made.associate()
    /** When the firmware wants its turn; the board tells its health with any command. */
    const look = (): Notice[] => {
      expect(card.waitUs).toBeGreaterThan(0)
      card.machine.run(0)
      return made.take(card.pass(card.waitUs))
    }
    card.nvdimm.armed = false
    const [notice, ...others] = look()
    expect(others).toEqual([])
    expect(noticeLine(notice!)).toBe('unavailable')
    expect([notice!.negative, notice!.health]).toEqual([true, HEALTH_NOT_PERSISTENT])
    expect(look()).toEqual([])
    card.nvdimm.armed = true
    expect(look().map(noticeLine)).toEqual(['reset', 'current ████'])
  })

  test('a part that is closed', () => {
    const made = new Records()
    const { card, qp, region } = made.one
    made.associate()
    card.nvdimm.fencesToFail = 1
    const told = made.take(card.serve(...persistFrames(qp, region, 0, dataOf(64, 1))))
    expect(told.map((one) => [noticeLine(one), one.health])).toEqual([
      ['unavailable', HEALTH_FAILED],
    ])
  })

  /** Somebody who is told of a region of 64 records in the memory of a host, two pages. */
  class Watcher {
    readonly card: TestCard
    readonly told: string[] = []
    private readonly qp: TestPeer

    constructor(card: TestCard, region: TestRegion) {
      this.card = card
      this.qp = card.connect()
      const range = { rkey: region.rkey, address: 0, length: 64 * region.stride }
      const asks = { blockSizeLog2: 12, optIn: true, current: true }
      this.take(card.serve(associateFrame(this.qp, range, asks)))
    }

    take(sent: readonly Sent[]): void {
      for (const one of noticesOf(sent)) {
        this.told.push(noticeLine(one))
        this.take(this.card.serve(acknowledgeFrame(this.qp, one.psn)))
      }
    }

    /** What it is told when everybody has had some turns. */
    hear(): string[] {
      for (let i = 0; i < 8; i++) this.take(this.card.pass(SLICE_PAUSE_US))
      return this.told.splice(0)
    }
  }

  /** Leaves that region of `made` in the memory of its host, of which nothing is known. */
  function startedBlind({ card, host }: Placed): TestCard {
    cutPower({ card, host }, { ...NOTHING, adrFail: true })
    return restarted({ card, host })
  }

  const SHAPE = { slots: 64, capacity: 64 }

  test('a record that is being written through the caches of the host', () => {
    const { card, region, qp, agent } = placed(DDIO_ON, SHAPE)
    const watcher = new Watcher(card, region)
    watcher.take(card.serve(...persistFrames(qp, region, 33, dataOf(64, 1))))
    expect(watcher.hear()).toEqual(['current ██', 'change 1 not'])
    work(card, agent!)
    watcher.take(card.sent)
    expect(watcher.hear()).toEqual(['change 1 ready'])
  })

  test('P5-30: a record that waits for its host is ready when that was settled', () => {
    const { card, region, qp, host } = placed(DDIO_OFF, SHAPE)
    const watcher = new Watcher(card, region)
    expect(watcher.hear()).toEqual(['current ██'])
    let writes = 0
    host.link.script = ({ kind, memory }) =>
      kind === 'write' && memory === 'persistent' && writes++ === 0 ? 'removal' : undefined
    watcher.take(card.serve(...persistFrames(qp, region, 33, dataOf(64, 1))))
    expect(watcher.hear()).toEqual(['change 1 not'])
    host.link.script = null
    host.comeBack()
    expect(watcher.hear()).toEqual([])
    believe(card, PLACEMENT_BYPASS)
    watcher.take(card.sent)
    expect(watcher.hear()).toEqual(['change 1 ready'])
  })

  test('P5-30: a region is ready when all of it is made, and not slot by slot', () => {
    const { card, agent } = placed(DDIO_ON)
    const region = card.provision({ ...SHAPE, name: 'fresh', placement: PLACEMENT_THROUGH })
    const watcher = new Watcher(card, region)
    expect(watcher.hear()).toEqual(['current ░░'])
    work(card, agent!)
    watcher.take(card.sent)
    expect(watcher.hear()).toEqual(['change 0 ready, 1 ready'])
  })

  test('P5-30: behind a save that failed: when it was looked at, past the caches', () => {
    const card = startedBlind(placed(DDIO_OFF, SHAPE))
    const watcher = new Watcher(card, card.open())
    expect(watcher.hear()).toEqual(['current ░░'])
    believe(card, PLACEMENT_BYPASS)
    watcher.take(card.sent)
    expect(watcher.hear()).toEqual(['change 0 ready, 1 ready'])
  })

  test('P5-30: behind a save that failed: when it was written back, through them', () => {
    const card = startedBlind(placed(DDIO_ON, SHAPE))
    const watcher = new Watcher(card, card.open())
    expect(watcher.hear()).toEqual(['current ░░'])
    believe(card, PLACEMENT_THROUGH)
    watcher.take(card.sent)
    expect(watcher.hear()).toEqual([])
    work(card, attachedAgent(card))
    watcher.take(card.sent)
    expect(watcher.hear()).toEqual(['change 0 ready, 1 ready'])
  })

  test('a region of bytes is always there', () => {
    const made = new Records()
    const { card, qp } = made.one
    const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4 * PAGE_BYTES })
    const address = bytes.baseHigh * 2 ** 32
    const range = { rkey: bytes.rkey, address, length: 4 * PAGE_BYTES }
    const asks = { blockSizeLog2: 13, optIn: true, current: true }
    const [notice] = made.take(card.serve(associateFrame(qp, range, asks)))
    expect([noticeLine(notice!), notice!.positive]).toEqual(['current ██', true])
  })

  test('nothing is looked for while nothing can have changed', () => {
    const made = new Records()
    const { card, qp, region } = made.one
    made.associate()
    const before = card.waitUs
    for (let i = 0; i < 50; i++) {
      const sent = card.serve(...persistFrames(qp, region, i, dataOf(64, i)))
      expect(noticesOf(sent)).toEqual([])
    }
    expect(before).toBeGreaterThan(1)
  })
})

test('D-12: a notice that is late is older than all of the next association', () => {
  const one = new Responder([0])
  const numbers = (sent: readonly Sent[]): number[] => noticesOf(sent).map((n) => n.sequence)
  expect(numbers(one.associate({ current: true }))).toEqual([1])
  one.unmap(0)
  // Not acknowledged yet when the requester associates again.
  const late = one.card.pass(PERIOD_US)
  expect(numbers(late)).toEqual([2])
  one.card.serve(associateFrame(one.qp, one.range, { blockSizeLog2: 12, current: true }))
  expect(numbers(one.take(late)).slice(1)).toEqual([3])
  // Nor when it opts out and comes again.
  one.map(0)
  one.propose({ optIn: true })
  one.unmap(0)
  const [last] = one.card.sent
  expect(numbers([last!])).toEqual([4])
  one.card.serve(blockSizeFrame(one.qp, one.region.rkey, { optOut: true }))
  const fields = { blockSizeLog2: 12, current: true }
  expect(numbers(one.card.serve(associateFrame(one.qp, one.range, fields)))).toEqual([5])
})

describe('duplicates', () => {
  test('a question that comes again is answered again, and changes nothing', () => {
    const one = new Responder([0])
    const { psn } = one.qp
    const frame = associateFrame(one.qp, one.range, { blockSizeLog2: 12, optIn: true })
    const first = answersOf(one.card.serve(frame))
    expect(first).toEqual(['granted 2^12, in force'])
    const later = blockSizeFrame(one.qp, one.region.rkey, { blockSizeLog2: 14 })
    one.take(one.card.serve(later))
    const again = one.card.serve(frame)
    expect(answersOf(again)).toEqual(first)
    expect(again.map((sent) => sent.psn)).toEqual([psn])
    expect(one.current()).toEqual(['current ░░░░'])
    expect(one.card.counter('DUPLICATE')).toBe(1)
  })

  test('of what was refused, ended, or asks for nothing we know', () => {
    const one = new Responder([0])
    const refused = blockSizeFrame(one.qp, one.region.rkey, { blockSizeLog2: 12 })
    expect(answersOf(one.card.serve(refused))).toEqual(['refused 2^0'])
    expect(answersOf(one.card.serve(refused))).toEqual(['refused 2^0'])
    const out = associateFrame(one.qp, one.range, { optOut: true })
    expect(answersOf(one.card.serve(out))).toEqual(['granted 2^0'])
    expect(answersOf(one.card.serve(out))).toEqual(['granted 2^0'])
    const { psn } = one.qp
    const forged = associateFrame(one.qp, one.range, { version: 2 }, psn - 1)
    expect(one.card.serve(forged)).toEqual([])
    expect(one.card.counter('DUPLICATE_FORGOTTEN')).toBe(1)
  })

  test('where something before it waits for its answer it is passed over, and asked again', () => {
    const one = new Responder([0])
    const frame = associateFrame(one.qp, one.range, { blockSizeLog2: 12 })
    one.card.serve(frame)
    const read = one.host.reads(one.qp, one.region, 0, 8)
    const sent = one.card.serve(read, frame)
    expect(sent.map(({ opcode }) => opcode)).toEqual([RC_READ_RESPONSE_ONLY])
    expect(one.card.counter('DUPLICATE_FORGOTTEN')).toBe(1)
    expect(answersOf(one.card.serve(frame))).toEqual(['granted 2^12, in force'])
  })

  test('of a region that has ended since: nothing is associated, and the queue pair lives', () => {
    const one = new Responder([0])
    const frame = associateFrame(one.qp, one.range, { blockSizeLog2: 12 })
    one.card.serve(frame)
    one.host.endOnDemand(one.region.rkey)
    expect(answersOf(one.card.serve(frame))).toEqual(['refused 2^0'])
    const next = one.host.registerOnDemand({ name: 'next' })
    const sent = one.card.serve(associateFrame(one.qp, { ...one.range, rkey: next.rkey }))
    expect(answersOf(sent)).toEqual(['offered 2^12'])
  })

  test('a hint that comes again is acknowledged, and asks nobody', () => {
    const one = new Responder()
    const frame = hintFrame(one.qp, { ...one.range, length: PAGE_BYTES })
    one.card.serve(frame)
    expect(one.host.wanted().length).toBe(1)
    one.card.pass(1_000_000)
    expect(one.card.serve(frame).map(({ syndrome }) => syndrome)).toEqual([ACK])
    expect(one.host.wanted()).toEqual([])
  })
})

describe('what is refused', () => {
  const FORMS: Readonly<Record<string, (one: Responder) => Uint8Array>> = {
    'ASSOCIATE of a version to come': ({ qp, range }) => associateFrame(qp, range, { version: 2 }),
    'ASSOCIATE of another length': ({ qp, range }) => associateFrame(qp, range, { words: 5 }),
    'ASSOCIATE with a status': ({ qp, range }) => associateFrame(qp, range, { status: 1 }),
    'ASSOCIATE that opts in and out': ({ qp, range }) =>
      associateFrame(qp, range, { optIn: true, optOut: true }),
    'BLOCK_SIZE of a version to come': ({ qp, region }) =>
      blockSizeFrame(qp, region.rkey, { version: 0 }),
    'BLOCK_SIZE with a range': ({ qp, region }) =>
      frameOf({
        bth: { opcode: 0xd8, destQp: qp.number, psn: qp.psn },
        reth: { rkey: region.rkey, length: 4096 },
        bseth: {},
      }),
    'BLOCK_SIZE with an address': ({ qp, region }) =>
      frameOf({
        bth: { opcode: 0xd8, destQp: qp.number, psn: qp.psn },
        reth: { rkey: region.rkey, vaLow: 4096 },
        bseth: {},
      }),
    'a hint of a version to come': ({ qp, range }) => hintFrame(qp, range, { version: 2 }),
    'a hint of another length': ({ qp, range }) => hintFrame(qp, range, { words: 3 }),
    'a hint of no bytes': ({ qp, range }) => hintFrame(qp, { ...range, length: 0 }),
    'a hint that says nothing': ({ qp, range }) => hintFrame(qp, range, { op: 0 }),
    'a hint that we do not know': ({ qp, range }) => hintFrame(qp, range, { op: 5 }),
  }

  for (const [what, make] of Object.entries(FORMS)) {
    test(`${what}: its form`, () => {
      const one = new Responder()
      expect(one.card.serve(make(one)).map(({ syndrome }) => syndrome)).toEqual([NAK_INVALID])
      expect(one.card.counter('RESIDENCY_FORM')).toBe(1)
      expect(one.host.wanted()).toEqual([])
    })
  }

  test('every reserved bit of BSETH and PFETH', () => {
    for (const [at, mask] of [
      [1, 0x0f],
      [14, 0xff],
      [15, 0xff],
    ] as const) {
      for (let bit = 1; bit < 256; bit *= 2) {
        if ((mask & bit) === 0) continue
        const one = new Responder()
        const frame = associateFrame(one.qp, one.range, {})
        expectForm(one, withBit(frame, 42 + 12 + 16 + at, bit))
      }
    }
    for (const [at, mask] of [
      [2, 0x1f],
      [3, 0xff],
    ] as const) {
      for (let bit = 1; bit < 256; bit *= 2) {
        if ((mask & bit) === 0) continue
        const one = new Responder()
        expectForm(one, withBit(hintFrame(one.qp, one.range), 42 + 12 + 16 + at, bit))
      }
    }
  })

  function expectForm(one: Responder, frame: Uint8Array): void {
    expect(one.card.serve(frame).map(({ syndrome }) => syndrome)).toEqual([NAK_INVALID])
    expect(one.card.counter('RESIDENCY_FORM')).toBe(1)
  }

  const QUESTIONS = ['ASSOCIATE', 'BLOCK_SIZE', 'PREFETCH_HINT'] as const

  function question(kind: (typeof QUESTIONS)[number], qp: TestPeer, range: Range): Uint8Array {
    if (kind === 'ASSOCIATE') return associateFrame(qp, range)
    return kind === 'BLOCK_SIZE' ? blockSizeFrame(qp, range.rkey) : hintFrame(qp, range)
  }

  for (const kind of QUESTIONS) {
    test(`${kind}: keys, domains and rights are those of a READ`, () => {
      const foreign: Readonly<Record<string, (one: Responder) => [TestPeer, Range]>> = {
        KEY: ({ qp, range }) => [qp, { ...range, rkey: range.rkey ^ 0x100 }],
        PROTECTION_DOMAIN: ({ card, range }) => [card.connect(4096, 9), range],
        RIGHTS: ({ qp, host, range }) => {
          const blind = host.registerOnDemand({ name: 'blind', rights: 2 })
          return [qp, { ...range, rkey: blind.rkey }]
        },
      }
      for (const [fault, make] of Object.entries(foreign)) {
        const one = new Responder()
        const [qp, range] = make(one)
        const sent = one.card.serve(question(kind, qp, range))
        expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
        expect(one.card.counter(fault)).toBe(1)
        expect(one.host.wanted()).toEqual([])
      }
    })
  }

  for (const kind of ['ASSOCIATE', 'PREFETCH_HINT'] as const) {
    test(`${kind}: a range that leaves the region`, () => {
      const length = PAGES * PAGE_BYTES
      for (const [address, bytes] of [
        [BASE - 1, 1],
        [BASE, length + 1],
        [BASE + length, 1],
        [BASE + 1, length],
        [BASE, 0xffffffff],
        [2 ** 53 - 1, 1],
        [0, 1],
      ] as const) {
        const one = new Responder()
        const range = { ...one.range, address, length: bytes }
        const sent = one.card.serve(question(kind, one.qp, range))
        expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
        expect(one.card.counter('BOUNDS')).toBe(1)
      }
    })
  }

  test('a key that was taken back ends what is told by it', () => {
    const one = new Responder([0])
    one.associate()
    one.card.serve(...sendFrames(one.qp, dataOf(8, 1), { invalidate: one.region.rkey }))
    one.map(1)
    expect(one.told(100_000)).toEqual([])
    const sent = one.card.serve(blockSizeFrame(one.qp, one.region.rkey))
    expect(sent.at(-1)!.syndrome).toBe(NAK_ACCESS)
  })

  test('a notice is nothing that a card is sent', () => {
    const one = new Responder()
    const bth = { opcode: MEMORY_STATUS, destQp: one.qp.number, psn: one.qp.psn }
    const sent = one.card.serve(frameOf({ bth, mseth: {}, payload: new Uint8Array(0) }))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_INVALID])
    expect(one.card.counter('OPCODE')).toBe(1)
  })
})

test('no bytes: there is nothing to tell of them, and nothing is associated', () => {
  const one = new Responder([0])
  const none = { ...one.range, length: 0 }
  one.associate({ current: true })
  const frame = associateFrame(one.qp, none, { blockSizeLog2: 12 })
  expect(answersOf(one.card.serve(frame))).toEqual(['refused 2^0'])
  expect(answersOf(one.card.serve(frame))).toEqual(['refused 2^0'])
  // It is the key that is opted out of.
  expect(answersOf(one.associate({ optIn: false, optOut: true }, none))).toEqual(['granted 2^0'])
  one.unmap(0)
  expect(one.told()).toEqual([])
})

describe('P5-17: an ASSOCIATE that is refused', () => {
  const NO_SIZE = { criteria: true, leastLog2: 15, mostLog2: 14 } as const

  test.each([
    ['is of no bytes', {}, 0],
    ['holds no size', NO_SIZE, null],
    ['holds no size, and wishes for one', { ...NO_SIZE, blockSizeLog2: 12, current: true }, null],
  ] as const)('leaves nothing of one before it: it %s', (_, fields, length) => {
    const one = new Responder([0])
    const range = length === null ? one.range : { ...one.range, length }
    expect(answersOf(one.associate())).toEqual(['granted 2^12, in force'])
    one.unmap(0)
    expect(one.told()).toEqual(['change 0 not'])
    // Also what was collected, and not told yet.
    one.map(0)
    expect(answersOf(one.associate(fields, range))).toEqual(['refused 2^0'])
    one.map(1)
    expect(one.told()).toEqual([])
    expect(answersOf(one.propose({ blockSizeLog2: 12 }))).toEqual(['refused 2^0'])
    expect(answersOf(one.associate())).toEqual(['granted 2^12, in force'])
    one.unmap(1)
    expect(one.told()).toEqual(['change 1 not'])
  })

  test('leaves those of other regions, and of other queue pairs', () => {
    const one = new Responder([0])
    one.associate()
    const other = one.card.connect(4096)
    one.card.serve(associateFrame(other, one.range, { blockSizeLog2: 12, optIn: true }))
    const sent = one.card.serve(associateFrame(other, one.range, NO_SIZE))
    expect(answersOf(sent)).toEqual(['refused 2^0'])
    one.unmap(0)
    expect(one.told()).toEqual(['change 0 not'])
  })
})

describe('nothing is left behind', () => {
  /** Associates the region on that many queue pairs; how many were granted. */
  function associateMany(one: Responder, count: number): TestPeer[] {
    return Array.from({ length: count }, () => {
      const qp = one.card.connect(4096)
      const fields = { blockSizeLog2: 12, optIn: true, periodUs: PERIOD_US }
      const sent = one.card.serve(associateFrame(qp, one.range, fields))
      return sizeAnswers(sent)[0]!.status === SIZE_GRANTED ? qp : null
    }).filter((qp) => qp !== null)
  }

  test('one more than there may be is refused, and its queue pair lives', () => {
    const one = new Responder([0])
    expect(associateMany(one, ASSOCIATIONS).length).toBe(ASSOCIATIONS)
    expect(answersOf(one.associate())).toEqual(['refused 2^0'])
    const read = one.card.serve(one.host.reads(one.qp, one.region, 0, 8))
    expect(payloadOf(read).length).toBe(8)
  })

  test.each(['are disconnected', 'fail', 'opt out', 'do not answer'])(
    'associations whose queue pairs %s make room',
    (how) => {
      const one = new Responder([0])
      for (let round = 0; round < 3; round++) {
        const pairs = associateMany(one, ASSOCIATIONS)
        expect(pairs.length).toBe(ASSOCIATIONS)
        // With a notice under way, too.
        if (round % 2 === 0) one.map(1)
        else one.unmap(1)
        one.card.pass(PERIOD_US)
        for (const qp of pairs) end(one, how, qp)
        if (how === 'do not answer') for (let i = 0; i < 20; i++) one.card.pass(70_000)
        one.card.pass(1)
      }
      expect(associateMany(one, 1).length).toBe(1)
    },
  )

  function end(one: Responder, how: string, qp: TestPeer): void {
    if (how === 'are disconnected') disconnect(one.card, qp)
    else if (how === 'fail') one.card.serve(hintFrame(qp, { ...one.range, rkey: 0 }))
    else if (how === 'opt out') {
      one.card.serve(acknowledgeFrame(qp, 0))
      one.card.serve(blockSizeFrame(qp, one.region.rkey, { optOut: true }))
    }
  }

  test('more requesters than initiators at once: those without one have their turn later', () => {
    const one = new Responder([0])
    const pairs = associateMany(one, ASSOCIATIONS)
    one.map(1)
    const sent = one.card.pass(PERIOD_US)
    expect(noticesOf(sent).length).toBe(Math.min(ASSOCIATIONS, INITIATORS))
    for (const qp of pairs) one.card.serve(acknowledgeFrame(qp, 0))
    expect(one.card.pass(10_000_000)).toEqual([])
    expect(ASSOCIATIONS).toBeLessThan(QUEUE_PAIRS)
  })

  test.each([true, false])('associations whose region ends make room, told of it: %s', (optIn) => {
    const one = new Responder()
    for (let i = 0; i <= ASSOCIATIONS; i++) {
      const region = one.host.registerOnDemand({ name: `heap ${i}` })
      const range = { ...one.range, rkey: region.rkey }
      expect(answersOf(one.associate({ optIn }, range))).toEqual(['granted 2^12, in force'])
      one.host.endOnDemand(region.rkey)
      expect(toldOf(one.take(one.card.sent))).toEqual(optIn ? ['unavailable'] : [])
    }
  })

  test('many questions in one burst: the pages of one association are counted in a turn', () => {
    const one = new Responder([], 4096, 4096)
    const pairs = Array.from({ length: 8 }, () => one.card.connect(4096))
    const asks = { blockSizeLog2: 12, current: true }
    const sent = one.card.serve(...pairs.map((qp) => associateFrame(qp, one.range, asks)))
    expect(sizeAnswers(sent).length).toBe(8)
    expect(noticesOf(sent).length).toBe(1)
    const turns: number[] = []
    while (one.card.waitUs === 1) turns.push(noticesOf(one.card.pass(1)).length)
    expect(turns).toEqual([1, 1, 1, 1, 1, 1, 1])
  })

  test('a place given up while its notice is under way is not used before that ends', () => {
    const one = new Responder([0])
    const first = one.card.connect(4096)
    const fields = { blockSizeLog2: 12, optIn: true, current: true }
    const [notice] = one.card.serve(associateFrame(first, one.range, fields)).slice(-1)
    expect(toldOf([notice!])).toEqual([`current █${'░'.repeat(15)}`])
    one.card.serve(blockSizeFrame(first, one.region.rkey, { optOut: true }))
    one.associate({ current: true })
    one.unmap(0)
    one.told()
    // The notice of the first comes again as it was.
    const again = one.card.pass(80_000).find(({ packet }) => packet.destQp === first.peer)
    expect(again!.payload).toEqual(notice!.payload)
  })

  test('PREFETCH_HINT of a region of records is acknowledged, and does nothing', () => {
    const { card, qp, region } = setting({ slots: 64, capacity: 64 })
    const sent = card.serve(hintFrame(qp, { rkey: region.rkey, address: 0, length: 4096 }))
    expect(sent.map(({ opcode }) => opcode)).toEqual([RC_ACKNOWLEDGE])
    expect(card.waitUs).toBe(0)
    expect(sent[0]!.psn).toBe((qp.psn - 1) & 0xffffff)
    expect(PREFETCH_HINT).toBe(0xcc)
    expect(PREFETCH_WILL_NEED).toBe(1)
  })
})

test.each(['node', 'quickjs'] as const)(
  'on engine %s a requester is told the same',
  async (name) => {
    const card = (await engineCard(name, 1 << 18, { ram: new HostRam(1 << 16) })).format()
    const region = card.provision({ slots: 128, capacity: 64 })
    const qp = card.connect(4096)
    const range = { rkey: region.rkey, address: 0, length: 128 * region.stride }
    const fields = { blockSizeLog2: 13, optIn: true, current: true }
    const sent = card.serve(associateFrame(qp, range, fields))
    expect([...answersOf(sent), ...toldOf(sent)]).toEqual(['granted 2^13, in force', 'current ██'])
    card.serve(acknowledgeFrame(qp, 0))
    const again = card.serve(blockSizeFrame(qp, region.rkey, { blockSizeLog2: 12 }))
    expect([...answersOf(again), ...toldOf(again)]).toEqual([
      'granted 2^12, in force',
      'current ████',
    ])
    const hint = card.serve(hintFrame(qp, range))
    expect(hint.map(({ syndrome }) => syndrome)).toEqual([ACK])
  },
)

test('anything at all, in any order: answered by name, and nothing is left of it', () => {
  // FULL=1: more runs of the same kind.
  const runs = process.env.FULL === '1' ? 40 : 10
  for (let run = 0; run < runs; run++) {
    const random = new Random(SEED + run)
    const draw = (below: number): number => random.below(below)
    const of = <T>(...these: T[]): T => these[draw(these.length)]!
    const one = new Responder([0, 3], of(256, 1024, 4096))
    const pairs = Array.from({ length: 4 }, () => one.card.connect(of(256, 4096)))
    const length = PAGES * PAGE_BYTES
    const size = (): number => of(0, 11, 12, 13, 14, 16, 17, 40, 255)
    const what = `PERDURE_SEED=${SEED}, run ${run}`
    const range = (): Range => {
      const address = BASE + of(0, 1, PAGE_BYTES, 5 * PAGE_BYTES + 7, length - 1, length)
      return { rkey: of(one.region.rkey, one.region.rkey, 1), address, length: of(1, 4096, length) }
    }
    const flags = () => ({
      optIn: draw(2) === 0,
      optOut: draw(9) === 0,
      current: draw(3) === 0,
      periodUs: of(0, 20, 5000),
      threshold: of(0, 1, 7),
      maximum: of(1, 2, 256),
      blockSizeLog2: size(),
    })
    const steps: readonly ((at: number) => Sent[])[] = [
      (at) => one.card.serve(associateFrame(pairs[at]!, range(), flags())),
      (at) => one.card.serve(blockSizeFrame(pairs[at]!, one.region.rkey, flags())),
      (at) => one.card.serve(hintFrame(pairs[at]!, range(), { op: 1 + draw(4), stride: draw(3) })),
      (at) => one.card.serve(acknowledgeFrame(pairs[at]!, draw(4))),
      (at) => one.card.serve(answerFrame(pairs[at]!, draw(4), { status: draw(4), ...flags() })),
      () => one.card.pass(of(1, 100, 5000, 70_000)),
      () => {
        const page = draw(PAGES)
        if (draw(2) === 0) one.map(page)
        else one.unmap(page)
        return one.card.sent
      },
      () => {
        one.host.tellState(one.region.rkey, of(0, 0, 3, 4, 5))
        return one.card.sent
      },
      (at) => {
        // A queue pair that has failed is closed, and the requester comes again.
        if (draw(4) > 0) return []
        disconnect(one.card, pairs[at]!)
        pairs[at] = one.card.connect(of(256, 4096))
        return []
      },
    ]
    for (let step = 0; step < 250; step++) {
      for (const sent of steps[draw(steps.length)]!(draw(pairs.length))) {
        expect([-1, ACK, 0x60, NAK_INVALID, NAK_ACCESS], what).toContain(sent.syndrome)
      }
    }
    for (const qp of pairs) disconnect(one.card, qp)
    one.host.tellState(one.region.rkey, 0)
    one.card.pass(1)
    one.host.wanted()
    const granted = Array.from({ length: ASSOCIATIONS }, () => {
      const sent = one.card.serve(associateFrame(one.card.connect(4096), one.range))
      return sizeAnswers(sent)[0]!.status
    })
    expect(granted, what).not.toContain(SIZE_REFUSED)
  }
})

/** The frame with one bit turned, and its check sum right again. */
function withBit(frame: Uint8Array, at: number, bit: number): Uint8Array {
  const turned = frame.slice()
  turned[at]! ^= bit
  writeIcrc(turned)
  return turned
}

test('P5-10: another size while the status of many blocks is told: it begins again', () => {
  const one = new Responder([], 256, 4096)
  const [first] = one.card
    .serve(associateFrame(one.qp, one.range, { blockSizeLog2: 12, current: true }))
    .filter(({ opcode }) => opcode === MEMORY_STATUS)
  one.card.serve(blockSizeFrame(one.qp, one.region.rkey, { blockSizeLog2: 20 }))
  const told = noticesOf(one.take([first!]))
  expect(told.map(({ entries, firstBlock, more }) => [entries, firstBlock, more])).toEqual([
    [2048, 0, true],
    [16, 0, false],
  ])
})
