/**
 * Criteria of a requester on the wire (S1-M12): said in ASSOCIATE, kept to by the card that has the
 * memory, and nothing to who does not say them.
 */

import { beforeEach, describe, expect, test } from 'vitest'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { WINDOW_US } from '../../../firmware/residency/size.ts'
import { BSETH_ALIGNMENT, BSETH_CRITERIA, type Bseth } from '../../../firmware/wire/block-size.ts'
import { MEMORY_STATUS } from '../../../firmware/wire/opcode.ts'
import type { Sent, TestPeer } from '../../support/cards/test-card.ts'
import { BASE, type OnDemand, OnDemandHost } from '../../support/residency/on-demand.ts'
import {
  acknowledgeFrame,
  answerFrame,
  associateFrame,
  blockSizeFrame,
  bsethOf,
  noticesOf,
  offersOf,
  type Range,
  sizeAnswers,
  sizeLine,
} from '../../support/residency/residency-asks.ts'

const PAGES = 16

let host: OnDemandHost
let region: OnDemand
let qp: TestPeer
let range: Range
let frames: number[]

beforeEach(() => {
  host = new OnDemandHost()
  region = host.registerOnDemand({ length: PAGES * PAGE_BYTES })
  frames = host.frames(PAGES)
  qp = host.card.connect(4096)
  range = { rkey: region.rkey, address: BASE, length: PAGES * PAGE_BYTES }
})

/** Acknowledges the notices among these, and those that come then. */
function take(sent: readonly Sent[]): Sent[] {
  const all = [...sent]
  for (let i = 0; i < all.length; i++) {
    if (all[i]!.opcode !== MEMORY_STATUS) continue
    all.push(...host.card.serve(acknowledgeFrame(qp, all[i]!.psn)))
  }
  return all
}

function associate(fields: Partial<Bseth>): Sent[] {
  return take(host.card.serve(associateFrame(qp, range, fields)))
}

const answerTo = (fields: Partial<Bseth>): string =>
  sizeAnswers(associate(fields)).map(sizeLine)[0]!

const SAID = { criteria: true }

describe('S1-M12: sizes that the requester takes', () => {
  test.each([
    [{}, 'offered 2^12'],
    [{ ...SAID }, 'offered 2^12'],
    [{ ...SAID, leastLog2: 14 }, 'offered 2^14'],
    [{ ...SAID, leastLog2: 14, mostLog2: 14 }, 'offered 2^14'],
    [{ ...SAID, leastLog2: 40 }, 'offered 2^16'],
    [{ ...SAID, mostLog2: 3 }, 'offered 2^12'],
    // What it wishes for by name is judged by what there is.
    [{ ...SAID, leastLog2: 14, blockSizeLog2: 13 }, 'granted 2^13, in force'],
    [{ ...SAID, mostLog2: 14, blockSizeLog2: 15 }, 'granted 2^15, in force'],
    [{ ...SAID, leastLog2: 15, mostLog2: 14 }, 'refused 2^0'],
    [{ ...SAID, leastLog2: 64 }, 'refused 2^0'],
    [{ ...SAID, mostLog2: 200 }, 'refused 2^0'],
  ])('S1-M12: %j: %s', (fields, answer) => {
    expect(answerTo(fields)).toBe(answer)
  })

  test('S1-M12: a refusal leaves the queue pair, and what comes next is served', () => {
    const psn = qp.psn
    const bad = { ...SAID, leastLog2: 15, mostLog2: 14, optIn: true, current: true }
    expect(answerTo(bad)).toBe('refused 2^0')
    expect(noticesOf(take(host.card.pass(100_000)))).toEqual([])
    const again = host.card.serve(associateFrame(qp, range, bad, psn))
    expect(sizeAnswers(again).map(sizeLine)).toEqual(['refused 2^0'])
    expect(answerTo({ ...SAID, blockSizeLog2: 12 })).toBe('granted 2^12, in force')
    const late = host.card.serve(associateFrame(qp, range, bad, psn))
    expect(sizeAnswers(late).map(sizeLine), 'it is still refused').toEqual(['refused 2^0'])
  })

  test('S1-M12: an older requester is served as before, whatever stands in those bytes', () => {
    const old = { leastLog2: 15, mostLog2: 13, alignmentLog2: 12 }
    expect(answerTo(old)).toBe('offered 2^12')
    expect(answerTo({ ...old, blockSizeLog2: 14 })).toBe('granted 2^14, in force')
    const frame = associateFrame(qp, range, { ...SAID, budgetLog2: 16 })
    const at = frame.length - 4 - 16 + BSETH_ALIGNMENT
    expect(frame[at]).toBe(BSETH_CRITERIA + 16)
  })
})

/** Pages come and go, one after the other, so often in a time, µs; what the card says. */
function churn(times: number, us: number): Sent[] {
  const sent: Sent[] = []
  for (let i = 0; i < times; i++) {
    const page = i % PAGES
    host.map(region, [[page, frames[page]!]])
    sent.push(...take(host.card.pass(us / times / 2)))
    host.unmap(region, [page])
    sent.push(...take(host.card.pass(us / times / 2)))
  }
  return sent
}

describe('S1-M12: bytes per second of notices', () => {
  const FINE = { blockSizeLog2: 12, optIn: true, periodUs: 10, ...SAID }

  test('S1-M12: with a budget fewer, and the last of them is true', () => {
    // No other size is offered, which would have to be answered.
    const only = { ...FINE, mostLog2: 12 }
    associate(only)
    const free = noticesOf(churn(200, 400_000)).length
    associate({ ...only, budgetLog2: 12 })
    const sent = churn(200, 400_000)
    const bytes = sent
      .filter(({ opcode }) => opcode === MEMORY_STATUS)
      .reduce((sum, one) => sum + one.bytes.length, 0)
    expect(bytes).toBeLessThanOrEqual(4096 * 0.5 + 200)
    expect(noticesOf(sent).length).toBeLessThan(free / 4)
    host.map(region, [[3, frames[3]!]])
    const states = new Map<number, boolean>()
    for (const notice of noticesOf([...sent, ...take(host.card.pass(1_000_000))])) {
      for (const [block, ready] of notice.blocks) states.set(block, ready)
    }
    expect([...states].filter(([, ready]) => ready)).toEqual([[3, true]])
  })

  test('S1-M12: notices that take most of it have the card offer coarser blocks', () => {
    associate({ ...FINE, budgetLog2: 12 })
    const [offer] = offersOf(churn(100, 2 * WINDOW_US))
    expect(bsethOf(offer!)).toMatchObject({
      ...{ blockSizeLog2: 13, status: 0, optIn: false, current: false, criteria: false },
      ...{ alignmentLog2: 12, leastLog2: 12, mostLog2: 16 },
    })
    const size = { status: 0, commit: true, blockSizeLog2: 13 }
    const sent = take(host.card.serve(answerFrame(qp, offer!.psn, size)))
    expect(noticesOf(sent)[0]).toMatchObject({ blockSizeLog2: 13, entries: 8 })
  })

  test('S1-M12: not beyond what the requester takes', () => {
    associate({ ...FINE, budgetLog2: 12, mostLog2: 12 })
    expect(offersOf(churn(100, 3 * WINDOW_US))).toEqual([])
  })

  test('S1-M12: the status that is asked for comes at once', () => {
    associate({ ...FINE, budgetLog2: 10 })
    churn(50, 50_000)
    const asking = blockSizeFrame(qp, region.rkey, { current: true })
    expect(noticesOf(host.card.serve(asking))).toHaveLength(1)
  })
})
