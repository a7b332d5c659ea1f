/**
 * Memory of the host that is registered on demand, at the card: its pages come and go by control
 * calls, a request that needs one which is away waits, and no byte is ever wrong (P5-27, P5-28,
 *
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as limits from '../../../firmware/board/limits.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, type Sent, sentOf, type TestPeer } from '../../support/cards/test-card.ts'
import {
  fill,
  fillMap,
  fillUnmap,
  type OnDemand,
  OnDemandHost,
  payloadOf,
  RNR_PAGE,
} from '../../support/residency/on-demand.ts'
import { Walk } from '../../support/residency/on-demand-walk.ts'
import { divided } from '../../support/run/thorough.ts'
import { hexOf } from '../../support/wire/frames.ts'
import { lines, PATH_MTUS, sendFrames } from '../../support/wire/requests.ts'

const SEED = Number(process.env.PERDURE_SEED ?? 527)

/** A host with a region of 16 pages, none of them there, and a queue pair. */
function begun(mtu = 4096, pages = 16): { host: OnDemandHost; region: OnDemand; qp: TestPeer } {
  const host = new OnDemandHost()
  const region = host.registerOnDemand({ length: pages * PAGE_BYTES })
  return { host, region, qp: host.card.connect(mtu) }
}

/** Maps pages from `first` on into frames of their own; these frames. */
function mapAll(host: OnDemandHost, region: OnDemand, count: number, first = 0): number[] {
  const frames = host.frames(count)
  for (let i = 0; i < count; i += mad.MAP_MAX) {
    const some = frames.slice(i, i + mad.MAP_MAX)
    const entries = some.map((frame, j): [number, number] => [first + i + j, frame])
    expect(host.map(region, entries)).toBe('PASS')
  }
  return frames
}

/**
 * A requester that does not give up, and a pager that maps what is asked for until nothing is:
 * sends the frames, and after each RNR NAK those from its PSN on again. How often it waited.
 */
function insist(host: OnDemandHost, frames: readonly Uint8Array[], load: () => number): number {
  const psns = frames.map((frame) => sentOf(frame).psn)
  let from = 0
  for (let waits = 0; waits < 200; waits++) {
    const answers = host.serveAll(...frames.slice(from))
    while (load() > 0) host.serveAll()
    const rnr = answers.find(({ syndrome }) => syndrome === RNR_PAGE)
    if (rnr === undefined) return waits
    from = psns.indexOf(rnr.psn)
    expect(from, 'an RNR NAK names a packet that was sent').toBeGreaterThanOrEqual(0)
  }
  throw new Error('the request never came to an end')
}

/** The responses to READs among the frames. */
function responses(sent: readonly Sent[]): Sent[] {
  return sent.filter(({ opcode }) => opcode >= 0x0d && opcode <= 0x10)
}

describe('P5-27: an access goes through the table of translations', () => {
  const OFFSETS = [0, 1, 7, 8, 64, 2048, 4088, 4093, 4095]
  const LENGTHS = [1, 2, 3, 4, 5, 8, 9, 255, 256, 257, 4087, 4095, 4096, 4097, 8191, 8192, 8193]

  test.each(PATH_MTUS)(
    'P5-27: every length and alignment around page edges is stored where it lies, MTU %i',
    (mtu) => {
      const { host, region, qp } = begun(mtu, 4)
      const [, f1, f2, , f3, f4] = host.frames(7)
      // Neighbours in the region are strangers in memory, with bytes of nobody between.
      expect(
        host.map(region, [
          [0, f3!],
          [1, f1!],
          [2, f4!],
          [3, f2!],
        ]),
      ).toBe('PASS')
      const model = new Uint8Array(4 * PAGE_BYTES)
      const around = host.bytes.slice(f1! * PAGE_BYTES - PAGE_BYTES, (f4! + 2) * PAGE_BYTES)
      let seed = 0
      for (const offset of OFFSETS) {
        for (const length of LENGTHS) {
          seed += 1
          const data = dataOf(length, seed)
          model.set(data, offset)
          const written = host.write(qp, region, offset, data)
          const read = host.card.serve(host.reads(qp, region, offset, length))
          const what = `${length} bytes at ${offset}`
          expect(
            written.map(({ syndrome }) => syndrome),
            what,
          ).toEqual([0x1f])
          expect(Buffer.compare(payloadOf(read), data), what).toBe(0)
          ;[f3!, f1!, f4!, f2!].forEach((frame, page) => {
            const want = model.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
            expect(Buffer.compare(host.frame(frame), want), `${what}: page ${page}`).toBe(0)
          })
        }
      }
      for (const frame of [f1!, f2!, f3!, f4!]) {
        around.fill(0, (frame - f1! + 1) * PAGE_BYTES, (frame - f1! + 2) * PAGE_BYTES)
      }
      for (const frame of [f1!, f2!, f3!, f4!]) host.frame(frame).fill(0)
      const now = host.bytes.slice(f1! * PAGE_BYTES - PAGE_BYTES, (f4! + 2) * PAGE_BYTES)
      expect(Buffer.compare(now, around), 'bytes of no page').toBe(0)
    },
  )

  test('wherever it begins and ends, a WRITE stores its own bytes and no others', () => {
    const { host, region, qp } = begun(4096, 4)
    const frames = host.frames(7)
    const mapped = [frames[3]!, frames[1]!, frames[5]!, frames[2]!]
    mapped.forEach((frame, number) => {
      expect(host.map(region, [[number, frame]])).toBe('PASS')
    })
    const all = fill(host, frames, 9)
    const edge = fc
      .tuple(fc.nat(3), fc.nat(300))
      .map(([page, behind]) => page * PAGE_BYTES + behind)
    fc.assert(
      fc.property(edge, edge, fc.nat(99), (one, other, seed) => {
        const [from, to] = [Math.min(one, other), Math.max(one, other)]
        const data = dataOf(to - from, seed)
        expect(host.write(qp, region, from, data).map(({ syndrome }) => syndrome)).toEqual([0x1f])
        for (let at = from; at < to; at++) {
          const frame = mapped[Math.floor(at / PAGE_BYTES)]! - frames[0]!
          all[frame * PAGE_BYTES + (at % PAGE_BYTES)] = data[at - from]!
        }
        const now = host.bytes.subarray(frames[0]! * PAGE_BYTES, (frames[6]! + 1) * PAGE_BYTES)
        expect(Buffer.compare(now, all), `${from} to ${to}`).toBe(0)
      }),
      { seed: SEED, numRuns: 40 },
    )
  })

  test('a region that ends within a page is reached up to its last byte', () => {
    const host = new OnDemandHost()
    const region = host.registerOnDemand({ length: PAGE_BYTES + 100 })
    const [, two] = mapAll(host, region, 2)
    const qp = host.card.connect()
    expect(host.write(qp, region, PAGE_BYTES + 96, dataOf(4, 1))[0]!.syndrome).toBe(0x1f)
    expect(hexOf(host.frame(two!).subarray(96, 100))).toBe(hexOf(dataOf(4, 1)))
    expect(host.write(qp, region, PAGE_BYTES + 97, dataOf(4, 1))[0]!.syndrome).toBe(0x62)
    expect(host.card.counter('BOUNDS')).toBe(1)
    // Nor is there a page for what is behind.
    expect(host.map(region, [[2, 40]])).toBe('PAGE')
  })

  test('a page that moves is read from its new frame, and the old one is left alone', () => {
    const { host, region, qp } = begun()
    const [one, two] = host.frames(2)
    const before = fill(host, [one!], 1)
    const after = fill(host, [two!], 2)
    host.map(region, [[6, one!]])
    const read = (): string =>
      hexOf(payloadOf(host.card.serve(host.reads(qp, region, 6 * PAGE_BYTES, PAGE_BYTES))))
    expect(read()).toBe(hexOf(before))
    expect(host.map(region, [[6, two!]])).toBe('PASS')
    expect(read()).toBe(hexOf(after))
    host.write(qp, region, 6 * PAGE_BYTES, dataOf(8, 3))
    expect(hexOf(host.frame(one!))).toBe(hexOf(before))
    expect(hexOf(host.frame(two!).subarray(0, 8))).toBe(hexOf(dataOf(8, 3)))
  })

  test('a WRITE with immediate and one of no bytes need no more than others', () => {
    const { host, region, qp } = begun()
    const base = qp.psn
    expect(lines(host.write(qp, region, 0, dataOf(0, 1)), base)).toEqual(['ACK 0'])
    const frames = host.writes(qp, region, 8, dataOf(24, 2), { immediate: 5 })
    expect(lines(host.card.serve(...frames), base)).toEqual(['NAK 0x2a 1'])
    const [frame] = mapAll(host, region, 1)
    expect(lines(host.card.serve(...frames), base)).toEqual(['ACK 1'])
    expect(hexOf(host.frame(frame!).subarray(8, 32))).toBe(hexOf(dataOf(24, 2)))
    // The receive entry of the attempt that was refused is free again.
    for (let i = 0; i < limits.RECEIVES; i++) {
      const more = host.writes(qp, region, 8, dataOf(1, i), { immediate: 5 })
      expect(host.card.serve(...more)[0]!.syndrome).toBe(0x1f)
    }
  })
})

describe('X-6: an access to a page that is away waits, and is never wrong', () => {
  test.each([256, 1024, 4096])(
    'P5-28, X-6: whichever of four pages are away, a WRITE and a READ of them end well, MTU %i',
    (mtu) => {
      for (let away = 0; away < 16; away++) {
        const { host, region, qp } = begun(mtu, 4)
        const frames = host.frames(4)
        const content = fill(host, frames, away)
        const isAway = (page: number): boolean => ((away >> page) & 1) === 1
        const pages = [0, 1, 2, 3]
        const there = pages.filter((page) => !isAway(page))
        if (there.length > 0)
          host.map(
            region,
            there.map((page) => [page, frames[page]!]),
          )
        const asked: number[] = []
        const load = (): number => {
          const wanted = host.wanted()
          for (const { first, count } of wanted) {
            const some = pages.slice(first, first + count)
            asked.push(...some)
            host.map(
              region,
              some.map((page) => [page, frames[page]!]),
            )
          }
          return wanted.length
        }
        const got = host.keepLog().log
        const waits = away === 0 ? 0 : 1
        const read = insist(host, [host.reads(qp, region, 100, 3 * PAGE_BYTES)], load)
        expect(Buffer.compare(payloadOf(got), content.subarray(100, 100 + 3 * PAGE_BYTES))).toBe(0)
        expect(read, `pages ${away.toString(2)} away`).toBe(waits)
        expect(asked.sort()).toEqual(pages.filter(isAway))
        if (pages.some(isAway)) host.unmap(region, pages.filter(isAway))
        const data = dataOf(3 * PAGE_BYTES, away + 50)
        expect(insist(host, host.writes(qp, region, 300, data), load)).toBe(waits)
        content.set(data, 300)
        pages.forEach((page) => {
          const want = content.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
          expect(Buffer.compare(host.frame(frames[page]!), want), `page ${page}`).toBe(0)
        })
      }
    },
  )

  test('nothing of a refused packet has happened, and what is behind it waits for it', () => {
    const { host, region, qp } = begun(1024)
    const base = qp.psn
    const [frame] = mapAll(host, region, 1)
    const frames = [
      ...host.writes(qp, region, 0, dataOf(16, 1), { ackRequest: true }),
      ...host.writes(qp, region, PAGE_BYTES, dataOf(16, 2)),
      ...sendFrames(qp, dataOf(8, 3)),
      host.reads(qp, region, 0, 16),
      ...host.writes(qp, region, 0, dataOf(16, 4)),
    ]
    // The NAK says that what is before it was received; the rest waits for the one that lacks.
    expect(lines(host.card.serve(...frames), base)).toEqual(['ACK 0', 'NAK 0x2a 1'])
    expect(hexOf(host.frame(frame!).subarray(0, 16))).toBe(hexOf(dataOf(16, 1)))
    expect(host.card.counter('SEQUENCE_AGAIN')).toBe(3)
    expect(lines(host.card.serve(...frames.slice(2)), base)).toEqual([])
    expect(host.wanted()).toEqual([{ rkey: region.rkey, first: 1, count: 1 }])
    const [second] = mapAll(host, region, 1, 1)
    const again = host.card.serve(...frames.slice(1))
    expect(lines(again, base)).toEqual(['READ 3 only: 16 B', 'ACK 4'])
    expect(hexOf(payloadOf(again))).toBe(hexOf(dataOf(16, 1)))
    expect(hexOf(host.frame(second!).subarray(0, 16))).toBe(hexOf(dataOf(16, 2)))
    expect(hexOf(host.frame(frame!).subarray(0, 16))).toBe(hexOf(dataOf(16, 4)))
  })

  test('another queue pair is not kept waiting', () => {
    const { host, region, qp } = begun()
    mapAll(host, region, 1)
    const other = host.card.connect()
    const [away] = host.writes(qp, region, 5 * PAGE_BYTES, dataOf(8, 1))
    const [here] = host.writes(other, region, 0, dataOf(8, 2))
    const sent = host.card.serve(away!, here!)
    expect(sent.map(({ syndrome }) => syndrome).sort()).toEqual([0x1f, RNR_PAGE])
  })

  test('who has waited for too long has a turn: only its pages are asked for', () => {
    const { host, region, qp } = begun()
    const other = host.card.connect()
    const [first] = host.writes(qp, region, 5 * PAGE_BYTES, dataOf(8, 1))
    const seconds = [9, 10, 11].map((page) => {
      const one = host.card.connect()
      return host.writes(one, region, page * PAGE_BYTES, dataOf(8, 2))[0]!
    })
    const [later] = host.writes(other, region, 7 * PAGE_BYTES, dataOf(8, 3))
    const asked = (...frames: Uint8Array[]): number[] => {
      for (const frame of frames) expect(host.card.serve(frame)[0]!.syndrome).toBe(RNR_PAGE)
      return host.wanted().map(({ first }) => first)
    }
    expect(asked(first!, seconds[0]!), 'nobody has waited for long').toEqual([5, 9])
    host.card.pass(11_000)
    expect(asked(first!, later!, seconds[0]!)).toEqual([5])
    const [frame, another] = host.frames(2)
    host.map(region, [[5, frame!]])
    expect(host.card.serve(first!)[0]!.syndrome).toBe(0x1f)
    expect(asked(later!), 'it has not waited for so long').toEqual([7])
    expect(asked(seconds[0]!), 'now it has its turn').toEqual([9])
    expect(asked(seconds[1]!)).toEqual([])
    // One that does not come any more loses it.
    host.card.pass(10_000)
    expect(asked(seconds[2]!)).toEqual([11])
    host.map(region, [[9, another!]])
    expect(host.card.serve(seconds[0]!)[0]!.syndrome).toBe(0x1f)
  })

  test('UNMAP in the middle of a WRITE: the next packet waits, and finds the page again', () => {
    const { host, region, qp } = begun(1024)
    const base = qp.psn
    const old = mapAll(host, region, 3)
    const data = dataOf(3 * PAGE_BYTES, 7)
    const frames = host.writes(qp, region, 0, data)
    // Five packets: the first page, and a quarter of the second.
    expect(host.card.serve(...frames.slice(0, 5))).toEqual([])
    expect(host.unmap(region, [1])).toBe('PASS')
    const taken = host.frame(old[1]!)
    expect(hexOf(taken.subarray(0, 1024))).toBe(hexOf(data.subarray(PAGE_BYTES, PAGE_BYTES + 1024)))
    // The host swaps it out, and gives the frame to somebody else.
    const swapped = taken.slice()
    taken.fill(0xee)
    expect(lines(host.card.serve(...frames.slice(5)), base)).toEqual(['NAK 0x2a 5'])
    expect(host.wanted().map(({ first, count }) => [first, count])).toEqual([[1, 1]])
    const [again] = host.frames(1)
    host.frame(again!).set(swapped)
    host.map(region, [[1, again!]])
    expect(lines(host.card.serve(...frames.slice(5)), base)).toEqual(['ACK 11'])
    const now = [old[0]!, again!, old[2]!].flatMap((frame) => [...host.frame(frame)])
    expect(hexOf(Uint8Array.from(now))).toBe(hexOf(data))
    expect(taken.every((byte) => byte === 0xee)).toBe(true)
  })

  test('a WRITE that waits long for its page is not taken for one that stopped half-way', () => {
    const { host, region, qp } = begun(1024)
    const base = qp.psn
    mapAll(host, region, 1)
    const frames = host.writes(qp, region, 3 * 1024, dataOf(2048, 7))
    // Of the begin of a message all is asked for; so only its second packet finds a page away.
    mapAll(host, region, 1, 1)
    host.card.serve(frames[0]!)
    host.unmap(region, [1])
    for (let us = 0; us < 3 * limits.STAGING_TIMEOUT_US; us += 400_000) {
      host.card.pass(400_000)
      expect(lines(host.card.serve(frames[1]!), base)).toEqual(['NAK 0x2a 1'])
    }
    mapAll(host, region, 1, 1)
    expect(lines(host.card.serve(frames[1]!), base)).toEqual(['ACK 1'])
  })

  test('a long READ pauses where a page is away, and goes on with what is there then', () => {
    const { host, region, qp } = begun(1024, 64)
    const frames = mapAll(host, region, 64)
    const content = fill(host, frames, 9)
    const got = host.keepLog().log
    /** The host takes the page, and does something else with its frame. */
    const move = (page: number): number => {
      const [again] = host.frames(1)
      host.frame(again!).set(host.frame(frames[page]!))
      host.frame(frames[page]!).fill(0xee)
      return again!
    }
    const pausesAt = (page: number): void => {
      expect(responses(got)).toHaveLength(page * 4)
      expect(host.wanted().map(({ first }) => first)).toContain(page)
      // It keeps nobody busy meanwhile.
      expect(host.card.waitUs).toBeGreaterThan(1000)
      expect(host.card.pass(20)).toEqual([])
    }
    host.unmap(region, [20])
    const moved = move(20)
    host.serveAll(host.reads(qp, region, 0, 64 * PAGE_BYTES))
    pausesAt(20)
    // Between two turns: the first one behind MAP ends with page 35, and UNMAP is behind that.
    host.ask(
      mad.METHOD_SET,
      mad.ATTRIBUTE_MAP,
      fillMap(region.rkey, ++host.sequence, [[20, moved]]),
    )
    host.card.serve()
    host.ask(mad.METHOD_SET, mad.ATTRIBUTE_UNMAP, fillUnmap(region.rkey, ++host.sequence, [36]))
    host.card.serve()
    expect(responses(got)).toHaveLength(36 * 4)
    const movedToo = move(36)
    host.run()
    pausesAt(36)
    expect(host.map(region, [[36, movedToo]])).toBe('PASS')
    expect(responses(got)).toHaveLength(256)
    expect(Buffer.compare(payloadOf(got), content)).toBe(0)
    // Requests behind it are served again.
    expect(payloadOf(host.card.serve(host.reads(qp, region, 0, 8))).length).toBe(8)
  })

  test('a READ that pauses asks again for its page, and is served late', () => {
    const { host, region, qp } = begun(1024, 64)
    const frames = mapAll(host, region, 20)
    const content = fill(host, frames, 9)
    const got = host.keepLog().log
    host.serveAll(host.reads(qp, region, 0, 64 * PAGE_BYTES))
    expect(got.length).toBe(80)
    expect(host.wanted()).toHaveLength(1)
    let asked = 0
    for (let i = 0; i < 5; i++) {
      expect(host.card.waitUs).toBeLessThanOrEqual(10_000)
      host.card.pass(10_000)
      asked += host.wanted().length
    }
    expect(asked).toBe(5)
    mapAll(host, region, 44, 20)
    for (let i = 0; i < 100 && host.card.waitUs === 1; i++) host.card.pass(1)
    expect(responses(got)).toHaveLength(256)
    expect(Buffer.compare(payloadOf(got).subarray(0, content.length), content)).toBe(0)
  })

  test('a READ that comes again is answered from where its page is then, or later', () => {
    const { host, region, qp } = begun(1024)
    const base = qp.psn
    const [old, again] = host.frames(2)
    const content = fill(host, [old!], 1)
    host.map(region, [[0, old!]])
    const read = host.reads(qp, region, 8, 2048)
    expect(hexOf(payloadOf(host.card.serve(read)))).toBe(hexOf(content.subarray(8, 2056)))
    host.unmap(region, [0])
    // It was accepted before: the NAK names it, and not what is expected now.
    expect(lines(host.card.serve(read), base)).toEqual(['NAK 0x2a 0'])
    expect(host.wanted().map(({ first, count }) => [first, count])).toEqual([[0, 1]])
    const later = fill(host, [again!], 2)
    host.map(region, [[0, again!]])
    expect(hexOf(payloadOf(host.card.serve(read)))).toBe(hexOf(later.subarray(8, 2056)))
  })

  test('R1-C13: a gap behind a READ that comes again is told of when that was answered', () => {
    const { host, region, qp } = begun()
    const base = qp.psn
    mapAll(host, region, 1)
    const read = host.reads(qp, region, 0, 8)
    expect(responses(host.card.serve(read))).toHaveLength(1)
    host.unmap(region, [0])
    expect(lines(host.card.serve(read), base)).toEqual(['NAK 0x2a 0'])
    host.reads(qp, region, 0, 8)
    const behind = host.reads(qp, region, 0, 8)
    // Its peer goes back to the READ: until then what stands behind it is held.
    expect(host.card.serve(behind)).toEqual([])
    mapAll(host, region, 1)
    expect(responses(host.card.serve(read))).toHaveLength(1)
    expect(lines(host.card.serve(behind), base)).toEqual(['NAK 0x60 1'])
  })

  test('R1-C13: a long READ that comes again goes on from there; no two at once', () => {
    // Few packets, and many pages: long for its pages.
    const { host, region, qp } = begun(4096, 64)
    const frames = mapAll(host, region, 60)
    const content = fill(host, frames, 6)
    const base = qp.psn
    const first = host.reads(qp, region, 0, 30 * PAGE_BYTES)
    expect(responses(host.serveAll(first))).toHaveLength(30)
    const second = host.reads(qp, region, 30 * PAGE_BYTES, 30 * PAGE_BYTES)
    host.unmap(region, [50])
    const begin = host.serveAll(second)
    expect(responses(begin)).toHaveLength(20)
    // The first one again, while the second pauses: it is held, and so is what stands behind it.
    expect(host.serveAll(first)).toEqual([])
    const third = host.reads({ ...qp, psn: base + 40 }, region, 40 * PAGE_BYTES, 20 * PAGE_BYTES)
    host.keepLog()
    host.serveAll(third)
    host.map(region, [[50, frames[50]!]])
    host.serveAll()
    const rest = responses(host.log)
    expect(rest.map(({ psn }) => psn - base)).toEqual(Array.from({ length: 10 }, (_, i) => 50 + i))
    expect(lines(host.log, base).at(-1)).toBe('NAK 0x21 0')
    // Its peer goes back to the first, as it is told to.
    expect(responses(host.serveAll(first))).toHaveLength(30)
    const again = host.serveAll(third)
    const places = responses(again).map(({ psn }) => psn - base)
    expect(places).toEqual(Array.from({ length: 20 }, (_, i) => 40 + i))
    const want = content.subarray(40 * PAGE_BYTES, 60 * PAGE_BYTES)
    expect(Buffer.compare(payloadOf(again), want)).toBe(0)
  })

  test.each([
    { what: 'a READ', mtu: 4096 },
    { what: 'a READ', mtu: 1024 },
    { what: 'a WRITE', mtu: 4096 },
    { what: 'a WRITE', mtu: 1024 },
  ])('$what of 60 pages ends with no more than 17 frames, MTU $mtu', ({ what, mtu }) => {
    const { host, region, qp } = begun(mtu, 64)
    const swap = dataOf(64 * PAGE_BYTES, 4)
    const frames = host.frames(limits.PAGES_AT_ONCE)
    const held: number[] = []
    const load = (): number => {
      const wanted = host.wanted()
      for (const { first, count } of wanted) {
        for (let page = first; page < first + count; page++) {
          if (held.includes(page)) continue
          let frame = frames[held.length]
          if (frame === undefined) {
            const oldest = held.shift()!
            expect(host.unmap(region, [oldest])).toBe('PASS')
            frame = where.get(oldest)!
            swap.set(host.frame(frame), oldest * PAGE_BYTES)
          }
          host.frame(frame).set(swap.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES))
          where.set(page, frame)
          held.push(page)
          expect(host.map(region, [[page, frame]])).toBe('PASS')
        }
      }
      return wanted.length
    }
    const where = new Map<number, number>()
    const got = host.keepLog().log
    const length = 60 * PAGE_BYTES
    if (what === 'a READ') {
      const want = swap.slice(50, 50 + length)
      insist(host, [host.reads(qp, region, 50, length)], load)
      expect(responses(got)).toHaveLength(length / mtu)
      expect(Buffer.compare(payloadOf(got), want)).toBe(0)
    } else {
      const data = dataOf(length, 8)
      insist(host, host.writes(qp, region, 50, data), load)
      for (const page of held) swap.set(host.frame(where.get(page)!), page * PAGE_BYTES)
      expect(Buffer.compare(swap.subarray(50, 50 + length), data)).toBe(0)
    }
  })
})

describe('X-6: a random walk', () => {
  for (const { rows, options } of divided(
    [0, 1, 2, 3, 4, 5].map((more) => SEED + more),
    (seed) => seed > SEED,
  )) {
    test.each(rows)(
      'three requesters, a pager that gives and takes: every byte is right (seed %i)',
      options,
      (seed) => {
        const walk = new Walk(seed)
        for (let step = 0; step < 25; step++) walk.step()
        expect(walk.waits).toBeGreaterThan(20)
      },
    )
  }
})
