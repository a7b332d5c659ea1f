/**
 * Elements by which a host follows the memory of another card (source 5), and what its local card
 * hears for it: two cards on one wire, and a host that may say anything.
 */

import { beforeEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { PAGE_BYTES, WATCHES, WORKS } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { EVENT_RESIDENCY } from '../../../firmware/host/header-page.ts'
import { QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import {
  type Bseth,
  blankBseth,
  readBseth,
  SIZE_GRANTED,
  SIZE_OFFERED,
  SIZE_REFUSED,
  writeBseth,
} from '../../../firmware/wire/block-size.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  MSETH_RKEY,
  MSETH_VERSION,
  STATUS_UNAVAILABLE,
} from '../../../firmware/wire/memory-status.ts'
import {
  ASSOCIATE,
  BLOCK_SIZE,
  BLOCK_SIZE_ANSWER,
  MEMORY_STATUS,
  PREFETCH_HINT,
} from '../../../firmware/wire/opcode.ts'
import {
  blankPfeth,
  type Pfeth,
  PREFETCH_DROP,
  writePfeth,
} from '../../../firmware/wire/prefetch.ts'
import { asksFor, dataOf, regionOf } from '../../support/cards/test-card.ts'
import { type End, hostToHost, TwoCards, toCard } from '../../support/cards/two-cards.ts'
import type { Answered } from '../../support/queues/queue-calls.ts'
import { type Cqe, elementOf } from '../../support/queues/queue-host.ts'
import { BASE, fillMap, fillOnDemand, fillUnmap } from '../../support/residency/on-demand.ts'
import { bsethOf } from '../../support/residency/residency-asks.ts'
import { writeIcrc } from '../../support/wire/frames.ts'

const PAGES = 16
const PAGE_LOG2 = Math.log2(PAGE_BYTES)
const SEED = Number(process.env.SEED ?? 1)

let rig: TwoCards
let end: End
let rkey: number
let sequence: number

beforeEach(() => {
  rig = new TwoCards()
  end = toCard(rig)
  sequence = 0
  rkey = register('heap')
})

/** Memory of the other host, of which no page is there. */
function register(name: string, pages = PAGES): number {
  const fill = fillOnDemand({ name, length: pages * PAGE_BYTES })
  const { fault, body } = rig.hosts[1].manage(mad.METHOD_SET, mad.ATTRIBUTE_ON_DEMAND, fill)
  expect(fault).toBe('PASS')
  return u32(body, mad.ON_DEMAND_RKEY)
}

/** The other host's pages come, or go; the cards have told each other when this returns. */
function come(...pages: number[]): void {
  const [, host] = rig.hosts
  const frame = host.allocate(PAGE_BYTES, PAGE_BYTES) / PAGE_BYTES
  const entries = pages.map((page) => [page, frame] as const)
  const fill = fillMap(rkey, ++sequence, entries)
  expect(host.manage(mad.METHOD_SET, mad.ATTRIBUTE_MAP, fill).fault).toBe('PASS')
  pass()
}

function go(...pages: number[]): void {
  const fill = fillUnmap(rkey, ++sequence, pages)
  const [, host] = rig.hosts
  expect(host.manage(mad.METHOD_SET, mad.ATTRIBUTE_UNMAP, fill).fault).toBe('PASS')
  pass()
}

/** Long enough for periods to end, and for what was lost to be sent again. */
function pass(us = 50_000): void {
  for (let i = 0; i < 100; i++) rig.pass(us / 100)
}

interface StatusFields {
  readonly rkey?: number
  readonly address?: number
  readonly length?: number
  readonly flags?: number
}

function statusElement(opcode: number, fields: StatusFields, bseth: Partial<Bseth>): Uint8Array {
  const { flags = el.SIGNALED, ...rest } = fields
  const bytes = elementOf({ opcode, rkey, flags, ...rest })
  const asked = { ...blankBseth(), blockSizeLog2: 0, maximum: 256, periodUs: 100, ...bseth }
  writeBseth(bytes, el.WQE_BSETH, asked)
  return bytes
}

const WHOLE = { address: BASE, length: PAGES * PAGE_BYTES }
const FOLLOW = { optIn: true, current: true, blockSizeLog2: PAGE_LOG2 }

function associating(bseth: Partial<Bseth> = FOLLOW, fields: StatusFields = WHOLE): Uint8Array {
  return statusElement(kind.ASSOCIATE, fields, bseth)
}

function sizing(bseth: Partial<Bseth>): Uint8Array {
  return statusElement(kind.BLOCK_SIZE, {}, bseth)
}

function hinting(first: number, count: number, pfeth: Partial<Pfeth> = {}): Uint8Array {
  const address = BASE + first * PAGE_BYTES
  const range = { address, length: count * PAGE_BYTES, rkey, flags: el.SIGNALED }
  const bytes = elementOf({ opcode: kind.PREFETCH_HINT, ...range })
  writePfeth(bytes, el.WQE_PFETH, { ...blankPfeth(), ...pfeth })
  return bytes
}

/** Posts the units as they are; the completions. */
function play(...elements: Uint8Array[]): Cqe[] {
  for (const units of elements) end.host.post(end.qp.send, units)
  end.host.ring(end.qp.send)
  rig.run()
  return end.host.poll(end.cq)
}

/** The size in a completion. */
function sizeIn(cqe: Cqe): Bseth {
  const bytes = new Uint8Array(16)
  const at = end.host.unitAt(end.cq, cqe.number)
  for (const [i, field] of [el.CQE_OPERATION, el.CQE_ADDRESS].entries()) {
    putU32(bytes, 8 * i, end.host.view.getUint32(at + field + 4, true))
    putU32(bytes, 8 * i + 4, end.host.view.getUint32(at + field, true))
  }
  const bseth = blankBseth()
  readBseth(bseth, bytes, 0)
  return bseth
}

function sizeOf(units: Uint8Array): Bseth {
  const cqes = play(units)
  expect(cqes).toMatchObject([{ status: el.WC_SUCCESS }])
  return sizeIn(cqes[0]!)
}

function ask(queue = end.qp.send, key = rkey, first = 0): Answered {
  return end.host.manage(mad.METHOD_GET, mad.ATTRIBUTE_RESIDENCY, (body) => {
    putU32(body, mad.RESIDENCY_QUEUE, queue)
    putU32(body, mad.RESIDENCY_RKEY, key)
    putU32(body, mad.RESIDENCY_FIRST, first)
  })
}

/** What the card knows: a block is █ if it is ready, else ░; or its phase. */
function known(key = rkey): string {
  const { fault, body } = ask(end.qp.send, key)
  if (fault !== 'PASS') return fault
  if (body[mad.RESIDENCY_PHASE] !== 1) return `phase ${body[mad.RESIDENCY_PHASE]}`
  let map = ''
  for (let i = 0; i < u32(body, mad.RESIDENCY_HERE); i++) {
    const bit = (body[mad.RESIDENCY_STATES + (i >> 3)]! >> (7 - (i & 7))) & 1
    map += bit === 1 ? '█' : '░'
  }
  return map
}

function knownWord(at: number): number {
  return u32(ask().body, at)
}

function sentBy(from: number, opcode: number): number {
  return rig.sent.filter((one) => one.from === from && one.frame.opcode === opcode).length
}

/** Notices that the other card has sent to that queue pair. */
function noticesTo(number: number): number {
  return rig.sent.filter(({ from, frame }) => {
    return from === 1 && frame.opcode === MEMORY_STATUS && frame.packet.destQp === number
  }).length
}

function news(): number {
  return end.host.events().filter(({ type }) => type === EVENT_RESIDENCY).length
}

describe('following', () => {
  test('P5-1, P5-2, P5-11: associated, told what is, and told of every edge', () => {
    expect(sizeOf(associating())).toMatchObject({
      ...{ status: SIZE_GRANTED, commit: true, blockSizeLog2: PAGE_LOG2, maximum: 256 },
      ...{ periodUs: 100, leastLog2: PAGE_LOG2, mostLog2: 16 },
    })
    pass()
    expect(known()).toBe('░'.repeat(PAGES))
    come(3, 4)
    expect(known()).toBe(`░░░██${'░'.repeat(11)}`)
    go(3)
    expect(known()).toBe(`░░░░█${'░'.repeat(11)}`)
    expect(knownWord(mad.RESIDENCY_READY)).toBe(1)
    expect(knownWord(mad.RESIDENCY_GAPS)).toBe(0)
  })

  test('P5-11: the host is told of each block by itself', () => {
    play(associating())
    pass()
    for (let page = 0; page < PAGES; page++) {
      come(page)
      expect(known()).toBe(`${'░'.repeat(page)}█${'░'.repeat(PAGES - 1 - page)}`)
      go(page)
    }
  })

  test('S1-M12: the card says the room that it has, and its host may say more', () => {
    const said = (fields: Partial<Bseth>): Partial<Bseth> => {
      const before = rig.sent.length
      play(associating({ ...FOLLOW, ...fields }))
      const asked = rig.sent.slice(before).find(({ frame }) => frame.opcode === ASSOCIATE)!
      const { criteria, leastLog2, mostLog2, budgetLog2 } = bsethOf(asked.frame)
      return { criteria, leastLog2, mostLog2, budgetLog2 }
    }
    const own = { criteria: true, leastLog2: PAGE_LOG2, mostLog2: 0, budgetLog2: 0 }
    expect(said({ leastLog2: 40, mostLog2: 3 }), 'what an older host says is nothing').toEqual(own)
    const more = { criteria: true, leastLog2: 14, mostLog2: 15, budgetLog2: 16 }
    expect(said(more)).toEqual(more)
    expect(said({ criteria: true, mostLog2: 3 })).toEqual({ ...own, mostLog2: PAGE_LOG2 })
  })

  test('the host is told once that there is news, until it has asked', () => {
    play(associating())
    pass()
    expect(news()).toBe(1)
    come(1)
    come(2)
    expect(news(), 'it has not asked yet').toBe(0)
    expect(known()).toContain('██')
    come(5)
    expect(news()).toBe(1)
  })

  test('to ask for the blocks from a later one on is not to have heard of the news', () => {
    play(associating())
    pass()
    expect(news()).toBe(1)
    come(4)
    const { fault, body } = ask(end.qp.send, rkey, 3)
    expect(fault).toBe('PASS')
    expect(u32(body, mad.RESIDENCY_HERE)).toBe(PAGES - 3)
    expect(body[mad.RESIDENCY_STATES], 'the second of them is ready').toBe(0x40)
    come(5)
    expect(news(), 'it has not asked for the first yet').toBe(0)
    expect(known()).toBe(`░░░░██${'░'.repeat(10)}`)
    come(6)
    expect(news()).toBe(1)
  })

  test('P5-7 … P5-10, P5-29: wish, counter-offer, and another size at any time', () => {
    expect(sizeOf(associating({ ...FOLLOW, blockSizeLog2: 9 }))).toMatchObject({
      ...{ status: SIZE_OFFERED, commit: false, blockSizeLog2: PAGE_LOG2 },
    })
    pass()
    expect(known(), 'nothing was agreed: all of it is one block').toBe('░')
    expect(sizeOf(sizing({ blockSizeLog2: PAGE_LOG2 + 1 })).commit).toBe(true)
    pass()
    expect(known()).toBe('░'.repeat(PAGES / 2))
    come(2, 3, 4)
    expect(known()).toBe(`░█${'░'.repeat(6)}`)
  })

  test('P5-16: opting out ends it; an unknown key was never followed', () => {
    play(associating())
    pass()
    expect(sizeOf(associating({ optOut: true }))).toMatchObject({ status: SIZE_GRANTED })
    expect(known()).toBe('KEY')
    rig.sent.length = 0
    come(1)
    expect(sentBy(1, MEMORY_STATUS)).toBe(0)
    expect(ask(end.qp.send, rkey + 1).fault).toBe('KEY')
  })

  test('P5-15: memory that cannot be used: forgotten, and hints rest', () => {
    play(associating())
    come(1)
    const state = rig.hosts[1].manage(mad.METHOD_SET, mad.ATTRIBUTE_ON_DEMAND_STATE, (body) => {
      putU32(body, mad.ON_DEMAND_STATE_RKEY, rkey)
      body[mad.ON_DEMAND_STATE_KIND] = STATUS_UNAVAILABLE
    })
    expect(state.fault).toBe('PASS')
    // It leaves at once, and that one frame the call of this test swallows.
    pass(500_000)
    expect(known()).toBe(`phase ${STATUS_UNAVAILABLE}`)
    rig.sent.length = 0
    expect(play(hinting(2, 1))).toMatchObject([{ status: el.WC_SUCCESS }])
    expect(sentBy(0, PREFETCH_HINT)).toBe(0)
  })

  test(`there are ${WATCHES} places: one more is refused, and told of nothing`, () => {
    const keys = [rkey, ...Array.from({ length: 7 }, (_, i) => register(`more${i}`))]
    const ends = [end, toCard(rig, 1024, 0x222222), toCard(rig, 1024, 0x333333)]
    const sizes = ends.flatMap((one) => {
      end = one
      return keys.map((key) => sizeOf(associating(FOLLOW, { ...WHOLE, rkey: key })).status)
    })
    expect(sizes.slice(0, WATCHES)).toEqual(Array(WATCHES).fill(SIZE_GRANTED))
    expect(sizes.slice(WATCHES)).toEqual(Array(8).fill(SIZE_REFUSED))
    const asked = rig.sent.filter(({ frame }) => frame.opcode === ASSOCIATE)
    const out = asked.map(({ frame }) => bsethOf(frame).optOut)
    expect(out).toEqual(sizes.map((status) => status === SIZE_REFUSED))
    pass()
    expect(ends.map(({ qp }) => noticesTo(qp.number) > 0)).toEqual([true, true, false])
    end = ends[0]!
    expect(sizeOf(associating({ optOut: true })).status).toBe(SIZE_GRANTED)
    end = ends[2]!
    expect(sizeOf(associating()).status, 'the place is free again').toBe(SIZE_GRANTED)
    pass()
    expect(known()).toBe('░'.repeat(PAGES))
  })

  test('it ends with its pair, and with the host', () => {
    play(associating())
    pass()
    const { send } = end.qp
    const destroy = (body: Uint8Array): void => putU32(body, mad.DESTROY_QUEUE, send)
    expect(end.host.manage(mad.METHOD_SET, mad.ATTRIBUTE_DESTROY, destroy).fault).toBe('PASS')
    expect(ask(send).fault).toBe('KEY')
  })

  test('a pair that ends gives its place back, however often', () => {
    const memory = { buffer: end.buffer, lkey: end.lkey }
    rig = new TwoCards(128)
    rkey = register('heap')
    for (let i = 0; i <= WATCHES; i++) {
      end = toCard(rig, 1024, 0x500000 + i, { units: 8, memory })
      expect(sizeOf(associating()).status, `${i}`).toBe(SIZE_GRANTED)
      const { send } = end.qp
      const destroy = (body: Uint8Array): void => putU32(body, mad.DESTROY_QUEUE, send)
      expect(end.host.manage(mad.METHOD_SET, mad.ATTRIBUTE_DESTROY, destroy).fault).toBe('PASS')
    }
  })

  test('a host that does not ask what is gets to know it all the same', () => {
    play(associating({ ...FOLLOW, current: false }))
    pass()
    expect(known()).toBe('░'.repeat(PAGES))
    expect(knownWord(mad.RESIDENCY_ASKED)).toBe(1)
  })

  test('P4-1: what the card asks may take a place kept for a batch, and delays it, no more', () => {
    play(associating({ ...FOLLOW, current: false }))
    const { rkey: records } = rig.hosts[1].card.provision({ slots: 4, capacity: 64 })
    const member = (index: number): Uint8Array => {
      return elementOf({
        ...{ opcode: kind.WRITE_PERSIST, flags: el.SIGNALED, rkey: records, wait: 2 },
        ...{ address: index * 2 ** 32, operation: 10 + index, inline: dataOf(64, index) },
        batch: { id: 1, condition: 0, count: 4, index, left: 3 - index },
      })
    }
    const nothing = elementOf({ opcode: kind.PERSIST_QUERY, flags: el.SIGNALED, operation: 1 })
    rig.loses = (from) => from === 0
    // All places are taken, or kept for the batch: by what the peer does not hear of.
    play(...Array.from({ length: WORKS - 4 }, () => nothing), member(0))
    pass(30_000)
    expect(play(member(1), member(2), member(3))).toEqual([])
    rig.loses = () => false
    pass(2_000_000)
    const statuses = end.host.poll(end.cq).map(({ status }) => status)
    expect(statuses).toEqual(Array(WORKS).fill(el.WC_SUCCESS))
    expect(known()).toBe('░'.repeat(PAGES))
    const { card } = rig.hosts[1]
    const read = (slot: number): Uint8Array | null => {
      return card.read(card.connect(), card.open(), slot, 0, 64)
    }
    expect([0, 1, 2, 3].map(read)).toEqual([0, 1, 2, 3].map((slot) => dataOf(64, slot)))
  })
})

describe('hints', () => {
  test('P5-5, P5-6: one that is of use is sent, and none that is not', () => {
    play(associating())
    come(1)
    rig.sent.length = 0
    expect(play(hinting(1, 1)), 'it is ready').toMatchObject([{ status: el.WC_SUCCESS }])
    expect(sentBy(0, PREFETCH_HINT)).toBe(0)
    play(hinting(4, 2), hinting(4, 1), hinting(5, 1))
    expect(sentBy(0, PREFETCH_HINT), 'hinted at already').toBe(1)
    play(hinting(4, 3))
    expect(sentBy(0, PREFETCH_HINT), 'one block of it was not').toBe(2)
    pass(1000)
    play(hinting(4, 1))
    expect(sentBy(0, PREFETCH_HINT), 'that was long ago').toBe(3)
    expect(knownWord(mad.RESIDENCY_SPARED)).toBe(3)
    expect(knownWord(mad.RESIDENCY_HINTS)).toBe(3)
  })

  test('completions keep their order, whether a hint was sent or not', () => {
    play(associating())
    come(1)
    const read = { opcode: kind.READ, rkey, address: BASE + PAGE_BYTES, flags: el.SIGNALED }
    const cqes = play(elementOf({ ...read, ...end.at(8) }), hinting(1, 1), hinting(7, 1))
    expect(cqes.map(({ opcode }) => opcode)).toEqual([
      ...[kind.READ, kind.PREFETCH_HINT, kind.PREFETCH_HINT],
    ])
    expect(cqes.every(({ status }) => status === el.WC_SUCCESS)).toBe(true)
  })

  test('P5-6: of what is not watched the peer is the judge', () => {
    play(associating(FOLLOW, { address: BASE, length: 4 * PAGE_BYTES }))
    come(1)
    rig.sent.length = 0
    play(hinting(1, 1), hinting(8, 1), hinting(3, 2))
    expect(sentBy(0, PREFETCH_HINT)).toBe(2)
    // What goes is no reason to keep a hint that it may go.
    play(hinting(1, 1, { op: PREFETCH_DROP }))
    expect(sentBy(0, PREFETCH_HINT)).toBe(3)
  })

  test('without a watch every hint is sent', () => {
    play(hinting(4, 1), hinting(4, 1))
    expect(sentBy(0, PREFETCH_HINT)).toBe(2)
  })
})

describe('what gets lost', () => {
  test('P5-28: everything once: asked again until it is known', () => {
    const seen = new Set<string>()
    rig.loses = (from, frame) => {
      const name = `${from} ${frame.opcode} ${frame.packet.psn}`
      if (seen.has(name)) return false
      seen.add(name)
      return true
    }
    play(associating())
    pass(500_000)
    expect(end.host.poll(end.cq)).toMatchObject([{ status: el.WC_SUCCESS }])
    come(1, 2)
    pass(500_000)
    expect(known()).toBe(`░██${'░'.repeat(13)}`)
  })

  test('at random, with pages that come and go: in the end it is known what is', () => {
    const random = new Random(SEED)
    rig.loses = () => random.below(8) === 0
    play(associating())
    const there = new Set<number>()
    for (let i = 0; i < 40; i++) {
      const page = random.below(PAGES)
      if (there.delete(page)) go(page)
      else {
        there.add(page)
        come(page)
      }
    }
    rig.loses = () => false
    pass(1_000_000)
    const expected = Array.from({ length: PAGES }, (_, i) => (there.has(i) ? '█' : '░')).join('')
    expect(known(), `seed ${SEED}`).toBe(expected)
  })

  test('P5-18: a size that the peer offers is taken, also where an answer is lost', () => {
    const [one, other] = hostToHost(rig)
    end = one
    play(associating())
    pass()
    expect(known()).toBe('░'.repeat(PAGES))
    let lost = 0
    rig.loses = (from, { opcode }) => from === 0 && opcode === BLOCK_SIZE_ANSWER && lost++ < 2
    // No card would say it of its own accord so soon; a host may.
    end = other
    for (let i = 0; i < 2; i++) {
      end.host.post(end.qp.send, sizing({ blockSizeLog2: PAGE_LOG2 + 2 }))
    }
    end.host.ring(end.qp.send)
    pass(500_000)
    const cqes = end.host.poll(end.cq)
    expect(cqes.map((cqe) => sizeIn(cqe))).toMatchObject([
      { status: SIZE_GRANTED, commit: true, blockSizeLog2: PAGE_LOG2 + 2 },
      { status: SIZE_GRANTED, commit: true, blockSizeLog2: PAGE_LOG2 + 2 },
    ])
    expect(lost).toBeGreaterThan(2)
    end.host.post(end.qp.send, sizing({ blockSizeLog2: 40 }))
    end.host.ring(end.qp.send)
    pass()
    expect(sizeIn(end.host.poll(end.cq)[0]!)).toMatchObject({
      ...{ status: SIZE_OFFERED, commit: false, blockSizeLog2: 16 },
    })
    end = one
    expect(known()).toBe('░'.repeat(PAGES / 4))
  })
})

describe('a question of the card', () => {
  const LATER = { ...FOLLOW, current: false }

  test('waits where the connection has as much under way as it may', () => {
    play(associating(LATER, { address: BASE, length: 4 * PAGE_BYTES }))
    rig.loses = () => true
    for (let i = 0; i < 70; i++) end.host.post(end.qp.send, hinting(8, 1))
    end.host.ring(end.qp.send)
    pass()
    expect(sentBy(0, BLOCK_SIZE)).toBe(0)
    rig.loses = () => false
    pass(2_000_000)
    expect(known()).toBe('░░░░')
    expect(end.host.poll(end.cq)).toHaveLength(70)
  })

  test('that is under way when its connection ends is answered to nobody', () => {
    play(associating(LATER))
    rig.loses = (_, { opcode }) => opcode === BLOCK_SIZE
    pass()
    expect(sentBy(0, BLOCK_SIZE)).toBeGreaterThan(0)
    end.host.destroy(end.qp.send)
    pass()
    expect(known()).toBe('KEY')
    rig.loses = () => false
    end = toCard(rig, 1024, 0x222222)
    play(associating(LATER))
    pass()
    expect(known()).toBe('░'.repeat(PAGES))
  })
})

test('P5-18: the answer to a repetition does not acknowledge what waits for its own', () => {
  const [one, other] = hostToHost(rig)
  end = one
  play(associating())
  pass()
  const [host] = rig.hosts
  const made = host.must(mad.METHOD_SET, mad.ATTRIBUTE_ON_DEMAND, fillOnDemand({ name: 'ours' }))
  const ours = u32(made, mad.ON_DEMAND_RKEY)
  const frame = host.allocate(PAGE_BYTES, PAGE_BYTES) / PAGE_BYTES
  host.must(mad.METHOD_SET, mad.ATTRIBUTE_MAP, fillMap(ours, ++sequence, [[0, frame]]))
  const kept: Uint8Array[] = []
  rig.loses = (from, { bytes }) => {
    if (from === 1) kept.push(bytes)
    return from === 1
  }
  end = other
  const read = { opcode: kind.READ, rkey: ours, address: BASE, flags: el.SIGNALED }
  const offer = sizing({ blockSizeLog2: PAGE_LOG2 + 1 })
  for (const units of [offer, elementOf({ ...read, ...end.at(8) })]) {
    end.host.post(end.qp.send, units)
  }
  end.host.ring(end.qp.send)
  rig.run()
  const [size, reading] = kept as [Uint8Array, Uint8Array]
  const answers = (sent: readonly { readonly opcode: number }[]): number => {
    return sent.filter(({ opcode }) => opcode === BLOCK_SIZE_ANSWER).length
  }
  expect(answers(host.card.serve(size, reading, size))).toBe(1)
  expect(answers(host.card.serve(size))).toBe(1)
})

describe('what a peer may say', () => {
  /** Changes a byte in the first frame of that kind which the other card sends. */
  function change(opcode: number, header: 'msethAt' | 'bsethAt', at: number, byte: number): void {
    let done = false
    rig.loses = (from, { opcode: sent, packet, bytes }) => {
      if (from === 0 || sent !== opcode || done) return false
      done = true
      bytes[packet.bthAt + packet.row![header] + at] = byte
      writeIcrc(bytes)
      return false
    }
  }

  test('P5-2: a notice in another form ends the connection, and is not believed', () => {
    play(associating())
    pass()
    change(MEMORY_STATUS, 'msethAt', MSETH_VERSION, 0x28)
    come(1)
    pass(500_000)
    expect(end.host.zone1(end.qp.send).state).toBe(QUEUE_ERROR)
  })

  test('P5-2: a notice of memory that nobody watches is taken, and forgotten', () => {
    play(associating())
    pass()
    change(MEMORY_STATUS, 'msethAt', MSETH_RKEY, 0x77)
    come(1)
    pass(500_000)
    come(2)
    pass(500_000)
    expect(end.host.zone1(end.qp.send).state).toBe(QUEUE_READY)
    expect(known()).toBe(`░██${'░'.repeat(13)}`)
  })

  test('P5-28: an answer to a question of the card in another form is none', () => {
    let answers = 0
    rig.loses = (from, { opcode, packet, bytes }) => {
      if (from === 0) return false
      if (opcode === MEMORY_STATUS) return answers < 2
      if (opcode !== BLOCK_SIZE_ANSWER) return false
      answers += 1
      if (answers !== 2) return false
      bytes[packet.bthAt + packet.row!.bsethAt] = 0x28
      writeIcrc(bytes)
      return false
    }
    play(associating())
    pass(500_000)
    come(1)
    pass(500_000)
    expect(answers).toBeGreaterThan(1)
    expect(known()).toBe(`░█${'░'.repeat(14)}`)
  })

  test('P5-18: an offer in another form is refused, and so is its repetition', () => {
    for (const first of [true, false]) {
      const [one, other] = hostToHost(rig)
      end = one
      play(associating())
      pass()
      let seen = 0
      rig.loses = (from, { opcode, packet, bytes }) => {
        if (from === 0) return opcode === BLOCK_SIZE_ANSWER && seen === 1
        if (opcode !== BLOCK_SIZE) return false
        seen += 1
        if (first || seen > 1) {
          bytes[packet.bthAt + packet.row!.bsethAt] = 0x28
          writeIcrc(bytes)
        }
        return false
      }
      other.host.post(other.qp.send, sizing({ blockSizeLog2: PAGE_LOG2 + 2 }))
      other.host.ring(other.qp.send)
      pass(500_000)
      expect(seen).toBeGreaterThan(0)
      rig.loses = () => false
      end = one
      expect(known().length).toBeGreaterThan(0)
    }
  })
})

test('P5-18: who associates again begins again, in the same place', () => {
  play(associating())
  come(1)
  play(associating())
  pass()
  expect(known()).toBe(`░█${'░'.repeat(14)}`)
  expect(play(associating({ optOut: true }))).toMatchObject([{ status: el.WC_SUCCESS }])
})

describe('what a host may say', () => {
  const wrong: readonly (readonly [string, () => Uint8Array, string])[] = [
    ['another version', () => associating({ version: 2 }), 'ELEMENT_FORM'],
    ['in and out', () => associating({ optIn: true, optOut: true }), 'ELEMENT_FORM'],
    ['a status', () => associating({ status: 1 }), 'ELEMENT_FORM'],
    ['a size with a range', () => statusElement(kind.BLOCK_SIZE, WHOLE, {}), 'ELEMENT_FORM'],
    ['a hint of no kind', () => hinting(1, 1, { op: 0 }), 'ELEMENT_FORM'],
    ['a hint of another version', () => hinting(1, 1, { version: 2 }), 'ELEMENT_FORM'],
    ['a hint at nothing', () => hinting(1, 0), 'ELEMENT_LENGTH'],
    ['a kind behind the last', () => elementOf({ opcode: 16, rkey }), 'ELEMENT_FORM'],
  ]

  test.each(wrong)('%s ends the queue, and nothing is sent', (_, make, fault) => {
    rig.sent.length = 0
    const [cqe] = play(make())
    expect(cqe!.status).not.toBe(el.WC_SUCCESS)
    expect(end.host.zone1(end.qp.send).fault).toBe(fault)
    expect(sentBy(0, ASSOCIATE) + sentBy(0, BLOCK_SIZE) + sentBy(0, PREFETCH_HINT)).toBe(0)
  })

  test('of memory that is not granted the peer refuses it, and nothing is followed', () => {
    const [cqe] = play(associating(FOLLOW, { ...WHOLE, rkey: rkey + 64 }))
    expect(cqe!.status).toBe(el.WC_REM_ACCESS_ERR)
    pass()
    expect(ask(end.qp.send, rkey + 64).fault).toBe('KEY')
  })

  test('a block that there is not is refused; nobody else may ask', () => {
    play(associating())
    pass()
    expect(ask(end.qp.send, rkey, PAGES).fault).toBe('REQUEST')
    expect(ask(end.qp.send, rkey, 2 ** 32 - 1).fault).toBe('REQUEST')
    const { fault } = rig.hosts[1].card.manage(mad.METHOD_GET, mad.ATTRIBUTE_RESIDENCY, (body) => {
      putU32(body, mad.RESIDENCY_QUEUE, end.qp.send)
      putU32(body, mad.RESIDENCY_RKEY, rkey)
    })
    expect(fault).toBe('HOST_ONLY')
  })

  test('any bytes of these kinds: judged, and other queues go on', () => {
    const random = new Random(SEED)
    rig = new TwoCards(256)
    end = toCard(rig)
    rkey = register('heap')
    const memory = { buffer: end.buffer, lkey: end.lkey }
    for (let i = 0; i < 60; i++) {
      const one = toCard(rig, 1024, 0x400000 + i, { units: 8, memory })
      const bytes = elementOf({ opcode: 13 + random.below(3), rkey, flags: el.SIGNALED })
      for (let j = 0; j < 12; j++) bytes[8 + random.below(48)] = random.below(256)
      one.host.post(one.qp.send, bytes)
      one.host.ring(one.qp.send)
      rig.run()
      expect(one.host.poll(one.cq).length, `seed ${SEED}, ${i}`).toBe(1)
      const destroy = (body: Uint8Array): void => putU32(body, mad.DESTROY_QUEUE, one.qp.send)
      one.host.manage(mad.METHOD_SET, mad.ATTRIBUTE_DESTROY, destroy)
    }
    expect(sizeOf(associating()).status).toBe(SIZE_GRANTED)
  })
})

test('P5-2, D-5: records over a pair by which notices go are told of as any others', () => {
  const [host] = rig.hosts
  const make = (): Answered => host.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor({}))
  let made = make()
  while (made.fault === 'UNDER_WAY') made = make()
  const region = regionOf(made.body)
  for (const tells of [false, true]) {
    const [one, other] = hostToHost(rig)
    end = one
    if (tells) play(associating())
    pass()
    expect(noticesTo(one.qp.number)).toBe(tells ? 1 : 0)
    const at = { rkey: region.rkey, address: 2 ** 32, inline: dataOf(64, 3) }
    other.post({ opcode: kind.WRITE_PERSIST, ...at, operation: tells ? 9 : 8, wait: 2 })
    pass()
    expect(other.host.poll(other.cq), `${tells}`).toMatchObject([
      { status: el.WC_SUCCESS, flags: el.DURABLE, copies: 2 },
    ])
  }
})
