/**
 * The control calls for memory that is registered on demand: what they refuse, that each is
 * executed once and in its order, what the card asks its host for, and how it all ends (P5-27,
 * P5-28, D-12).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { COPY, DMA_SPACE } from '../../../firmware/board/hal.ts'
import {
  ON_DEMAND_PAGES,
  ON_DEMAND_REGIONS,
  PAGE_BYTES,
  REGIONS,
} from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { EVENT_PAGES_UNWANTED } from '../../../firmware/host/header-page.ts'
import { REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE } from '../../../firmware/medium/region.ts'
import { READ, WRITE } from '../../../firmware/transport/requester.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  STATUS_ERROR,
  STATUS_RESET,
  STATUS_UNAVAILABLE,
} from '../../../firmware/wire/memory-status.ts'
import { dataOf, persistFrames, type TestPeer } from '../../support/cards/test-card.ts'
import { callOf, sendCall, takeAnswers } from '../../support/queues/queue-calls.ts'
import { elementOf } from '../../support/queues/queue-host.ts'
import {
  BASE,
  fill,
  fillMap,
  fillOnDemand,
  fillUnmap,
  type OnDemand,
  type OnDemandFields,
  OnDemandHost,
  payloadOf,
  RNR_PAGE,
  words,
} from '../../support/residency/on-demand.ts'
import { hexOf } from '../../support/wire/frames.ts'
import * as requests from '../../support/wire/requests.ts'

const { lines } = requests

const SEED = Number(process.env.PERDURE_SEED ?? 528)

interface Setting {
  readonly host: OnDemandHost
  readonly region: OnDemand
  readonly qp: TestPeer
}

function begun(fields: OnDemandFields = {}): Setting {
  const host = new OnDemandHost()
  return { host, region: host.registerOnDemand(fields), qp: host.card.connect() }
}

/** The syndromes of what the card answers to a READ of 8 bytes of that page. */
function readPage({ host, region, qp }: Setting, page = 0): number[] {
  const { psn } = qp
  const sent = host.card.serve(host.reads(qp, region, page * PAGE_BYTES, 8))
  // Who is told to wait asks under the same PSN again.
  if (sent.some(({ syndrome }) => syndrome === RNR_PAGE)) qp.psn = psn
  return sent.map(({ syndrome }) => syndrome)
}

/** The bytes of a page as a READ shows them. */
function contentOf({ host, region, qp }: Setting, page = 0): string {
  const sent = host.card.serve(host.reads(qp, region, page * PAGE_BYTES, PAGE_BYTES))
  return hexOf(payloadOf(sent))
}

describe('registering', () => {
  test('a region is offered by its name as one of the third kind, until it ends', () => {
    const { host, region } = begun({ name: 'heap', length: 5000, domain: 3 })
    const { card } = host
    expect(region.place).toBe(REGIONS)
    expect(region.rkey & 31).toBe(REGIONS)
    const named = (body: Uint8Array): void => body.set(new TextEncoder().encode('heap'))
    card.connect()
    const asked = [
      card.must(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, named),
      card.must(mad.METHOD_GET, mad.ATTRIBUTE_REGION, undefined, region.place),
    ]
    for (const body of asked) {
      expect(body[mad.REGION_KIND]).toBe(mad.KIND_ON_DEMAND)
      expect(u32(body, mad.REGION_RKEY)).toBe(region.rkey)
      expect(u32(body, mad.REGION_LENGTH_LOW)).toBe(5000)
      expect(u16(body, mad.REGION_DOMAIN)).toBe(3)
      const base = u32(body, mad.REGION_BASE_HIGH) * 2 ** 32 + u32(body, mad.REGION_BASE_LOW)
      expect(base).toBe(BASE)
      expect([body[mad.REGION_COPIES], u32(body, mad.REGION_SLOTS)]).toEqual([0, 0])
      expect(hexOf(body.slice(mad.REGION_CHECK_KEY, mad.REGION_CHECK_KEY + 16))).toMatch(/^0*$/)
      expect(body[mad.REGION_PLACEMENT]).toBe(4)
    }
    // It is no region of the part, and no port of RDMA-CM offers it.
    expect(host.card.status()[mad.PART_REGIONS]).toBe(0)
    const published = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, (body) => {
      named(body)
      putU16(body, mad.PUBLISH_PORT, 7000)
      body[mad.PUBLISH_FORM] = mad.FORM_CAPABILITY
    })
    expect(published.fault).toBe('REQUEST')
    // Only its host ends it.
    expect(card.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, named).fault).toBe('REQUEST')
    expect(host.endOnDemand(region.rkey)).toBe('PASS')
    expect(card.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, named).fault).toBe('NO_REGION')
    const by = card.manage(mad.METHOD_GET, mad.ATTRIBUTE_REGION, undefined, region.place)
    expect(by.fault).toBe('NO_REGION')
    expect(host.endOnDemand(region.rkey)).toBe('KEY')
  })

  test.each<{ what: string; fields: OnDemandFields; fault: string }>([
    { what: 'no name', fields: { name: '' }, fault: 'REQUEST' },
    { what: 'no bytes', fields: { length: 0 }, fault: 'REQUEST' },
    { what: 'no rights', fields: { rights: 0 }, fault: 'REQUEST' },
    { what: 'atomics', fields: { rights: REMOTE_READ | REMOTE_ATOMIC }, fault: 'REQUEST' },
    { what: 'durability', fields: { rights: REMOTE_WRITE | (1 << 9) }, fault: 'REQUEST' },
    { what: 'an address inside a page', fields: { base: BASE + 8 }, fault: 'REQUEST' },
    {
      what: 'more pages than there are',
      fields: { length: ON_DEMAND_PAGES * PAGE_BYTES + 1 },
      fault: 'ON_DEMAND_FULL',
    },
    { what: 'a length beyond numbers', fields: { length: 2 ** 63 }, fault: 'ON_DEMAND_FULL' },
    { what: 'a name that is taken', fields: { name: 'taken' }, fault: 'REGION_EXISTS' },
    { what: 'a name of the part', fields: { name: 'records' }, fault: 'REGION_EXISTS' },
  ])('$what: $fault', ({ fields, fault }) => {
    const host = new OnDemandHost()
    host.card.provision()
    host.registerOnDemand({ name: 'taken' })
    expect(host.tryRegister(fields).fault).toBe(fault)
    host.registerOnDemand({ name: 'next' })
  })

  test('a region may end with the last address, and not behind it', () => {
    const host = new OnDemandHost()
    const last = (length: number) =>
      host.call(mad.ATTRIBUTE_ON_DEMAND, (body) => {
        fillOnDemand({ length })(body)
        putU32(body, mad.ON_DEMAND_BASE_HIGH, 0xffffffff)
        putU32(body, mad.ON_DEMAND_BASE_LOW, 0xfffff000)
      })
    expect(last(PAGE_BYTES + 1).fault).toBe('REQUEST')
    const { fault, body } = last(PAGE_BYTES)
    expect(fault).toBe('PASS')
    const rkey = u32(body, mad.ON_DEMAND_RKEY)
    const [frame] = host.frames(1)
    fill(host, [frame!], 2)
    host.map({ rkey }, [[0, frame!]])
    const qp = host.card.connect()
    const [data] = requests.writeFrames(qp, rkey, 0xffffffff, dataOf(1, 1), { vaHigh: 0xffffffff })
    expect(host.card.serve(data!)[0]!.syndrome).toBe(0x1f)
    expect(host.frame(frame!)[4095]).toBe(dataOf(1, 1)[0])
    const [beyond] = requests.writeFrames(qp, rkey, 0xffffffff, dataOf(2, 1), {
      vaHigh: 0xffffffff,
    })
    expect(host.card.serve(beyond!)[0]!.syndrome).toBe(0x62)
  })

  test('there are eight places, and the pages of the pool; what ends gives both back', () => {
    const host = new OnDemandHost(8 << 20)
    const each = (ON_DEMAND_PAGES / ON_DEMAND_REGIONS) * PAGE_BYTES
    const regions = Array.from({ length: ON_DEMAND_REGIONS }, (_, i) =>
      host.registerOnDemand({ name: `r${i}`, length: each, base: 0 }),
    )
    expect(regions.map(({ place }) => place - REGIONS)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(new Set(regions.map(({ rkey }) => rkey)).size).toBe(8)
    expect(host.tryRegister({ name: 'more', length: 1 }).fault).toBe('ON_DEMAND_FULL')
    // A part of another one's piece is not free; two neighbours together are.
    host.endOnDemand(regions[2]!.rkey)
    host.endOnDemand(regions[5]!.rkey)
    expect(host.tryRegister({ name: 'long', length: each + 1 }).fault).toBe('ON_DEMAND_FULL')
    host.endOnDemand(regions[4]!.rkey)
    const long = host.registerOnDemand({ name: 'long', length: 2 * each, base: 0 })
    expect(long.place - REGIONS).toBe(2)
    // No page of one is another's: the last of each is told from the first of the next.
    const last = each / PAGE_BYTES - 1
    const kept = [...[0, 1, 3, 6, 7].map((i) => regions[i]!), long]
    const frames = host.frames(2 * kept.length)
    kept.forEach((region, i) => {
      const end = region === long ? 2 * last + 1 : last
      expect(
        host.map(region, [
          [0, frames[2 * i]!],
          [end, frames[2 * i + 1]!],
        ]),
      ).toBe('PASS')
      expect(host.map(region, [[end + 1, 5]])).toBe('PAGE')
    })
    const qp = host.card.connect()
    kept.forEach((region, i) => {
      fill(host, frames, 9)
      const content = [frames[2 * i]!, frames[2 * i + 1]!].map((frame) => hexOf(host.frame(frame)))
      const end = region === long ? 2 * last + 1 : last
      expect(contentOf({ host, region, qp }, 0)).toBe(content[0])
      expect(contentOf({ host, region, qp }, end)).toBe(content[1])
    })
  })

  test('a place is shared with regions of other DPUs: who comes first has it', () => {
    const host = new OnDemandHost()
    const attach = (name: string, last: number): string =>
      host.card.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, (body) => {
        body.set(new TextEncoder().encode(name))
        body[mad.ATTACH_IP_VERSION] = 4
        putU16(body, mad.ATTACH_PORT, 7471)
        body.set([10, 0, 0, last], mad.ATTACH_ADDRESS)
      }).fault
    expect(attach('far', 9)).toBe('CONNECTING')
    expect(host.tryRegister({ name: 'far' }).fault).toBe('REGION_EXISTS')
    const regions = Array.from({ length: 7 }, (_, i) =>
      host.registerOnDemand({ name: `r${i}`, length: 1 }),
    )
    expect(regions.map(({ place }) => place - REGIONS)).toEqual([1, 2, 3, 4, 5, 6, 7])
    expect(host.tryRegister({ name: 'more' }).fault).toBe('ON_DEMAND_FULL')
    expect(attach('farther', 10)).toBe('REGIONS_FULL')
    expect(attach('r3', 10)).toBe('REGION_EXISTS')
    host.endOnDemand(regions[3]!.rkey)
    expect(attach('farther', 10)).toBe('CONNECTING')
    expect(host.tryRegister({ name: 'more' }).fault).toBe('ON_DEMAND_FULL')
  })

  test('a key that was taken back on a queue pair says nothing of who has the place next', () => {
    const one = begun()
    const { host, region, qp } = one
    const frames = host.frames(1)
    host.map(region, [[0, frames[0]!]])
    host.card.serve(...requests.sendFrames(qp, dataOf(4, 1), { invalidate: region.rkey }))
    host.endOnDemand(region.rkey)
    const next = host.registerOnDemand({ name: 'next' })
    expect(next.place).toBe(region.place)
    expect(next.rkey).not.toBe(region.rkey)
    host.map(next, [[0, frames[0]!]])
    expect(contentOf({ ...one, region: next })).toBe(hexOf(host.frame(frames[0]!)))
    expect(readPage(one)).toEqual([0x62])
  })
})

describe('MAP and UNMAP', () => {
  test('P5-28: a call whose sequence is not newer was executed before, and changes nothing', () => {
    const one = begun()
    const { host, region } = one
    const [first, second] = host.frames(2)
    const content = [fill(host, [first!], 1), fill(host, [second!], 2)].map(hexOf)
    expect(host.map(region, [[0, first!]], 5)).toBe('PASS')
    expect(host.map(region, [[0, second!]], 5)).toBe('PASS')
    expect(host.unmap(region, [0], 4)).toBe('PASS')
    expect(host.unmap(region, [0], 5)).toBe('PASS')
    expect(host.map(region, [[0, second!]], 0)).toBe('PASS')
    expect(contentOf(one)).toBe(content[0])
    expect(host.map(region, [[0, second!]], 6)).toBe('PASS')
    expect(contentOf(one)).toBe(content[1])
    // One that was overtaken, too, however old.
    expect(host.unmap(region, [0], 1)).toBe('PASS')
    expect(contentOf(one)).toBe(content[1])
    expect(host.unmap(region, [0], 9)).toBe('PASS')
    expect(host.map(region, [[0, first!]], 8)).toBe('PASS')
    expect(readPage(one)).toEqual([RNR_PAGE])
  })

  test('the sequence goes round', () => {
    const one = begun()
    const { host, region } = one
    const [frame] = host.frames(1)
    for (const sequence of [0x7fffffff, 0xfffffffe, 0xffffffff, 0, 1, 0x70000000]) {
      expect(host.map(region, [[0, frame!]], sequence), `${sequence}`).toBe('PASS')
      expect(readPage(one).length, `${sequence}`).toBe(1)
      expect(contentOf(one), `${sequence}`).toBe(hexOf(host.frame(frame!)))
      // What is older by one is old.
      host.unmap(region, [0], (sequence - 1) >>> 0)
      expect(contentOf(one), `${sequence}`).toBe(hexOf(host.frame(frame!)))
    }
  })

  test('each region has a sequence of its own, and a new one begins at 1', () => {
    const one = begun({ name: 'a' })
    const { host, region } = one
    const other = host.registerOnDemand({ name: 'b' })
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]], 1000)
    expect(host.map(other, [[0, frame!]], 1)).toBe('PASS')
    expect(readPage({ ...one, region: other })).toEqual([0x1f])
    host.endOnDemand(region.rkey)
    const again = host.registerOnDemand({ name: 'a' })
    expect(readPage({ ...one, region: again })).toEqual([RNR_PAGE])
    expect(host.map(again, [[0, frame!]], 1)).toBe('PASS')
  })

  test('a call is full with 26 pages that come, or 53 that go', () => {
    const one = begun({ length: 64 * PAGE_BYTES })
    const { host, region, qp } = one
    const frames = host.frames(53)
    const entries = frames.map((frame, i): [number, number] => [i, frame])
    expect(host.map(region, entries.slice(0, 27))).toBe('REQUEST')
    expect(host.map(region, [])).toBe('REQUEST')
    expect(host.map(region, entries.slice(0, 26))).toBe('PASS')
    expect(host.map(region, entries.slice(26, 52))).toBe('PASS')
    expect(host.map(region, entries.slice(52))).toBe('PASS')
    const content = fill(host, frames, 5)
    for (const page of [0, 25, 26, 51, 52]) {
      const want = content.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
      expect(contentOf(one, page)).toBe(hexOf(want))
    }
    const pages = entries.map(([page]) => page)
    expect(host.unmap(region, [...pages, 53])).toBe('REQUEST')
    expect(host.unmap(region, [])).toBe('REQUEST')
    expect(contentOf(one, 52)).toHaveLength(2 * PAGE_BYTES)
    expect(host.unmap(region, pages)).toBe('PASS')
    for (const page of [0, 26, 52]) {
      expect(
        lines(host.card.serve(host.reads({ ...qp }, region, page * PAGE_BYTES, 8)), qp.psn),
      ).toEqual([`NAK 0x2a 0`])
    }
  })

  test('a call with one bad entry changes nothing, and its sequence may be used again', () => {
    const one = begun({ length: 8 * PAGE_BYTES })
    const { host, region } = one
    const [frame] = host.frames(1)
    const ramPages = host.bytes.length / PAGE_BYTES
    const inside = [1, host.zone1At, host.zone2At, host.zone3At, host.eventsAt].map((at) =>
      at === 1 ? 1 : at / PAGE_BYTES,
    )
    const frames = [ramPages, ramPages + 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, ...inside]
    for (const bad of frames) {
      expect(
        host.map(
          region,
          [
            [0, frame!],
            [1, bad],
          ],
          7,
        ),
        `frame ${bad}`,
      ).toBe('PAGE')
    }
    for (const bad of [8, 9, 2 ** 31, 2 ** 32 - 1]) {
      expect(
        host.map(
          region,
          [
            [0, frame!],
            [bad, frame!],
          ],
          7,
        ),
        `page ${bad}`,
      ).toBe('PAGE')
      expect(host.unmap(region, [0, bad], 7), `page ${bad}`).toBe('PAGE')
    }
    expect(readPage(one)).toEqual([RNR_PAGE])
    expect(host.map(region, [[0, frame!]], 7)).toBe('PASS')
    expect(host.map(region, [[1, ramPages - 1]], 8)).toBe('PASS')
    expect(host.unmap(region, [0, 8], 9)).toBe('PAGE')
    expect(contentOf(one)).toBe(hexOf(host.frame(frame!)))
  })

  test('a key of nothing, of another kind of region, or of one that ended is refused', () => {
    const { host, region } = begun()
    const bytes = host.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const records = host.card.provision()
    const [frame] = host.frames(1)
    const ended = host.registerOnDemand({ name: 'ended' })
    host.endOnDemand(ended.rkey)
    const keys = [0, 1, 0xffffffff, region.rkey ^ 32, region.rkey ^ 1, bytes.rkey, records.rkey]
    for (const rkey of [...keys, ended.rkey]) {
      expect(host.map({ rkey }, [[0, frame!]])).toBe('KEY')
      expect(host.unmap({ rkey }, [0])).toBe('KEY')
      expect(host.endOnDemand(rkey)).toBe('KEY')
      expect(host.tellState(rkey, STATUS_RESET)).toBe('KEY')
    }
    expect(host.map(region, [[0, frame!]])).toBe('PASS')
  })

  test('P5-27: nobody but the own host says where a page lies', () => {
    const one = begun()
    const { host, region } = one
    const [frame] = host.frames(1)
    const calls: [number, (body: Uint8Array) => void][] = [
      [mad.ATTRIBUTE_ON_DEMAND, fillOnDemand({ name: 'foreign' })],
      [mad.ATTRIBUTE_MAP, fillMap(region.rkey, 1, [[0, frame!]])],
      [mad.ATTRIBUTE_UNMAP, fillUnmap(region.rkey, 2, [0])],
      [mad.ATTRIBUTE_ON_DEMAND_END, (body) => putU32(body, 0, region.rkey)],
      [mad.ATTRIBUTE_ON_DEMAND_STATE, (body) => putU32(body, 0, region.rkey)],
    ]
    for (const [attribute, body] of calls) {
      const { fault } = host.card.manage(mad.METHOD_SET, attribute, body)
      expect(fault, attribute.toString(16)).toBe('HOST_ONLY')
    }
    expect(host.map(region, [[0, frame!]])).toBe('PASS')
    expect(readPage(one)).toEqual([0x1f])
  })

  test('calls that come again are answered again: what is registered or ends is so once', () => {
    const { host } = begun()
    const [frame] = host.frames(1)
    const ask = (call: Uint8Array): { fault: string; body: Uint8Array } => {
      sendCall(host, call)
      host.run()
      return takeAnswers(host)[0]!
    }
    const registering = callOf(mad.ATTRIBUTE_ON_DEMAND, 900, fillOnDemand({ name: 'twice' }))
    const first = ask(registering)
    const again = ask(registering)
    expect([first.fault, again.fault]).toEqual(['PASS', 'PASS'])
    expect(hexOf(again.body)).toBe(hexOf(first.body))
    const rkey = u32(first.body, mad.ON_DEMAND_RKEY)
    const mapping = callOf(mad.ATTRIBUTE_MAP, 901, fillMap(rkey, 1, [[0, frame!]]))
    const taking = callOf(mad.ATTRIBUTE_UNMAP, 902, fillUnmap(rkey, 2, [0]))
    for (const call of [mapping, mapping, taking, mapping, taking]) {
      expect(ask(call).fault).toBe('PASS')
    }
    expect(
      readPage({ host, region: { rkey, place: 0, base: BASE }, qp: host.card.connect() }),
    ).toEqual([RNR_PAGE])
    const ending = callOf(mad.ATTRIBUTE_ON_DEMAND_END, 903, (body) => putU32(body, 0, rkey))
    expect([ask(ending).fault, ask(ending).fault]).toEqual(['PASS', 'PASS'])
    expect(ask(mapping).fault).toBe('KEY')
  })

  test.each([1, 2, 3].map((more) => SEED + more))(
    'calls of any content are answered, and reach no frame that they may not name (seed %i)',
    (seed) => {
      const random = new Random(seed)
      const { host, region, qp } = begun()
      const open = host.frames(64)
      const zones = [4096, host.zone1At, host.zone2At, host.zone3At, host.eventsAt]
      const closed = [...zones, host.bytes.length].map((at) => at / PAGE_BYTES)
      const reached = new Set<number>()
      host.card.machine.observe({
        onCommand: (_, op, all, at) => {
          const to = all[at + 2]! - DMA_SPACE
          if (op === COPY && to >= 0 && all[at + 3] === 13) reached.add(Math.floor(to / PAGE_BYTES))
        },
      })
      const attributes = [mad.ATTRIBUTE_MAP, mad.ATTRIBUTE_UNMAP, mad.ATTRIBUTE_ON_DEMAND_STATE]
      for (let i = 0; i < 400; i++) {
        const attribute = attributes[random.below(3)]!
        const { fault } = host.call(attribute, (body) => {
          for (let at = 0; at < body.length; at++) body[at] = random.below(256)
          if (random.below(10) > 0) putU32(body, mad.MAP_RKEY, region.rkey)
          putU32(body, mad.MAP_COUNT, random.below(3) + 1)
          // An error would end the connection.
          if (body[mad.ON_DEMAND_STATE_KIND] === STATUS_ERROR) body[mad.ON_DEMAND_STATE_KIND] = 0
          if (attribute === mad.ATTRIBUTE_ON_DEMAND_STATE) return
          for (let j = 0; j < 3; j++) {
            const entry = mad.MAP_FIRST + j * mad.MAP_ENTRY_BYTES
            if (random.below(8) > 0) putU32(body, entry, random.below(16))
            const shut = random.below(8) === 0
            const frames = shut ? closed : open
            if (random.below(8) > 0) putU32(body, entry + 4, frames[random.below(frames.length)]!)
          }
        })
        expect(['PASS', 'PAGE', 'KEY', 'REQUEST']).toContain(fault)
        const { psn } = qp
        const page = random.below(16)
        const [answer] = host.write(qp, region, page * PAGE_BYTES + 1, dataOf(13, i))
        if (answer!.syndrome === RNR_PAGE) qp.psn = psn
        else expect(answer!.syndrome).toBe(0x1f)
      }
      for (const frame of reached) expect(open).toContain(frame)
      expect(reached.size).toBeGreaterThan(20)
    },
  )

  test('the answer to UNMAP stands behind everything that was written to the page before', () => {
    const one = begun()
    const { host, region, qp } = one
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    const landed: string[] = []
    host.ram.onWrite = (at, length) => {
      const inFrame = Math.floor(at / PAGE_BYTES) === frame
      if (inFrame) landed.push(`${length} B of the page`)
      else if (length === mad.MAD_BYTES) landed.push('the answer')
    }
    // In one burst, the doorbell rung before the frames come.
    host.ask(mad.METHOD_SET, mad.ATTRIBUTE_UNMAP, fillUnmap(region.rkey, ++host.sequence, [0]))
    const sent = host.card.serve(
      ...host.writes(qp, region, 0, dataOf(64, 1)),
      ...host.writes(qp, region, 64, dataOf(32, 2)),
      host.reads(qp, region, 0, 96),
    )
    expect(landed).toEqual(['64 B of the page', '32 B of the page', 'the answer'])
    expect(hexOf(payloadOf(sent))).toBe(hexOf(dataOf(64, 1)) + hexOf(dataOf(32, 2)))
    expect(readPage(one)).toEqual([RNR_PAGE])
  })
})

describe('what is not granted', () => {
  type Make = (setting: Setting) => Uint8Array[]
  const DENIED: Readonly<Record<string, { make: Make; fault: string; fields?: OnDemandFields }>> = {
    WRITE_PERSIST: {
      make: ({ qp, region }) => persistFrames(qp, region, 0, dataOf(8, 1)),
      fault: 'RIGHTS',
    },
    'FETCH-ADD': {
      make: ({ qp, region }) => {
        const [vaHigh, vaLow] = words(region.base)
        return [requests.fetchAddFrame(qp, region, vaLow, 1n, { vaHigh })]
      },
      fault: 'RIGHTS',
    },
    'COMPARE-SWAP': {
      make: ({ qp, region }) => {
        const [vaHigh, vaLow] = words(region.base)
        return [requests.compareSwapFrame(qp, region, vaLow, 0n, 1n, { vaHigh })]
      },
      fault: 'RIGHTS',
    },
    'ATOMIC WRITE': {
      make: ({ qp, region }) => {
        const [vaHigh, vaLow] = words(region.base)
        return [requests.atomicWriteFrame(qp, region, vaLow, dataOf(8, 1), { vaHigh })]
      },
      fault: 'RIGHTS',
    },
    'FLUSH, visible to all': {
      make: ({ qp, region }) => {
        const [vaHigh, vaLow] = words(region.base)
        return [requests.flushFrame(qp, region, { vaHigh, vaLow, placement: 1 })]
      },
      fault: 'RIGHTS',
    },
    'FLUSH, persistent': {
      make: ({ qp, region }) => {
        const [vaHigh, vaLow] = words(region.base)
        return [requests.flushFrame(qp, region, { vaHigh, vaLow, placement: 2 })]
      },
      fault: 'RIGHTS',
    },
    'a READ of what is written only': {
      make: ({ host, qp, region }) => [host.reads(qp, region, 0, 8)],
      fault: 'RIGHTS',
      fields: { rights: REMOTE_WRITE },
    },
    'a WRITE of what is read only': {
      make: ({ host, qp, region }) => host.writes(qp, region, 0, dataOf(8, 1)),
      fault: 'RIGHTS',
      fields: { rights: REMOTE_READ },
    },
    'a READ in another protection domain': {
      make: ({ host, qp, region }) => [host.reads(qp, region, 0, 8)],
      fault: 'PROTECTION_DOMAIN',
      fields: { domain: 1 },
    },
    'a READ with another key': {
      make: ({ host, qp, region }) => [host.reads(qp, { ...region, rkey: region.rkey ^ 64 }, 0, 8)],
      fault: 'KEY',
    },
    'a READ that ends behind the region': {
      make: ({ host, qp, region }) => [host.reads(qp, region, 16 * PAGE_BYTES - 7, 8)],
      fault: 'BOUNDS',
    },
    'a READ that begins in front of it': {
      make: ({ host, qp, region }) => [host.reads(qp, region, -1, 8)],
      fault: 'BOUNDS',
    },
    'a WRITE that ends behind the region': {
      make: ({ host, qp, region }) => host.writes(qp, region, 16 * PAGE_BYTES - 7, dataOf(8, 1)),
      fault: 'BOUNDS',
    },
    'a WRITE far away': {
      make: ({ host, qp, region }) => host.writes(qp, region, 2 ** 47, dataOf(8, 1)),
      fault: 'BOUNDS',
    },
  }

  test.each(Object.keys(DENIED))('%s: NAK 0x62, whether its page is there or not', (what) => {
    const { make, fault, fields } = DENIED[what]!
    for (const there of [true, false]) {
      const one = begun(fields)
      const { host, region } = one
      const [frame] = host.frames(1)
      const before = hexOf(fill(host, [frame!], 3))
      if (there) host.map(region, [[0, frame!]])
      expect(host.card.serve(...make(one)).map(({ syndrome }) => syndrome)).toEqual([0x62])
      expect(host.card.counter(fault)).toBe(1)
      expect(hexOf(host.frame(frame!))).toBe(before)
      expect(host.wanted()).toEqual([])
      // The connection is over.
      expect(readPage(one)).toEqual([])
    }
  })

  test('a FLUSH that asks for nothing is answered, and changes nothing', () => {
    const { host, region, qp } = begun()
    const [vaHigh, vaLow] = words(region.base)
    const frame = requests.flushFrame(qp, region, { vaHigh, vaLow, placement: 0 })
    expect(host.card.serve(frame).map(({ opcode }) => opcode)).toEqual([0x10])
  })

  test('who has written there is not told that everything is durable', () => {
    const { host, region, qp } = begun()
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    const base = qp.psn
    const solicited = { solicited: true }
    host.card.serve(...requests.sendFrames(qp, dataOf(4, 1), solicited))
    expect(lines(host.write(qp, region, 0, dataOf(4, 1)), base)).toEqual(['ACK 1'])
    const sent = host.card.serve(...requests.sendFrames(qp, dataOf(4, 1), solicited))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([0x63])
    expect(host.card.counter('NOT_DURABLE')).toBe(1)
  })

  test('nor is who writes there told so by the immediate of that WRITE', () => {
    const { host, region, qp } = begun()
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    const asks = { immediate: 7, solicited: true }
    const sent = host.write(qp, region, 0, dataOf(4, 1), asks)
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([0x63])
  })

  test('a local queue of the host does not reach it', () => {
    for (const opcode of [READ, WRITE]) {
      const { host, region } = begun()
      const [frame] = host.frames(1)
      host.map(region, [[0, frame!]])
      const cq = host.createCq()
      const { send } = host.createQp(cq)
      const local = host.allocate(64)
      const lkey = host.register(local, 64)
      const { rkey, base: address } = region
      host.post(send, elementOf({ opcode, length: 8, local, lkey, rkey, address }))
      host.ring(send)
      host.run()
      const [cqe] = host.poll(cq)
      expect(cqe!.status).not.toBe(el.WC_SUCCESS)
      expect(host.zone1(send).fault).toBe('RIGHTS')
    }
  })
})

describe('what the host is asked for', () => {
  test('neighbours by one event, once in 10 ms, and again when a page has gone again', () => {
    const one = begun({ length: 64 * PAGE_BYTES })
    const { host, region, qp } = one
    const { rkey } = region
    const [frame] = host.frames(1)
    host.map(region, [
      [3, frame!],
      [7, frame!],
    ])
    const read = (): void => {
      host.card.serve(host.reads({ ...qp }, region, PAGE_BYTES + 5, 8 * PAGE_BYTES))
    }
    const away = [
      { rkey, first: 1, count: 2 },
      { rkey, first: 4, count: 3 },
      { rkey, first: 8, count: 2 },
    ]
    read()
    expect(host.wanted()).toEqual(away)
    for (let us = 0; us < 9900; us += 300) {
      host.card.pass(290)
      read()
      expect(host.wanted()).toEqual([])
    }
    host.card.pass(500)
    read()
    expect(host.wanted()).toEqual(away)
    // A page that was there meanwhile is asked for at once.
    host.map(region, [[5, frame!]])
    host.unmap(region, [5])
    read()
    expect(host.wanted()).toEqual([{ rkey, first: 5, count: 1 }])
  })

  test('of a long request what it needs first, and each hole by an event of its own', () => {
    const one = begun({ length: 64 * PAGE_BYTES })
    const { host, region, qp } = one
    host.card.serve(host.reads({ ...qp }, region, 0, 64 * PAGE_BYTES))
    expect(host.wanted().map(({ first, count }) => [first, count])).toEqual([[0, 16]])
    const other = host.registerOnDemand({ name: 'other', length: 64 * PAGE_BYTES })
    const [frame] = host.frames(1)
    const odd = Array.from({ length: 16 }, (_, i): [number, number] => [2 * i + 1, frame!])
    host.map(other, odd)
    host.card.serve(host.reads({ ...qp }, other, 0, 64 * PAGE_BYTES))
    const wanted = host.wanted()
    expect(wanted.map(({ first }) => first)).toEqual([0, 2, 4, 6, 8, 10, 12, 14])
    expect(wanted.every(({ count }) => count === 1)).toBe(true)
  })

  test('a ring of events that is full costs time, and nothing else', () => {
    const one = begun({ length: 1100 * 2 * PAGE_BYTES })
    const { host, region, qp } = one
    const [frame] = host.frames(1)
    for (let i = 0; i < 1100; i++) {
      host.card.serve(host.reads({ ...qp }, region, 2 * i * PAGE_BYTES, 8))
    }
    expect(host.wanted().length).toBeGreaterThan(1000)
    host.card.pass(20_000)
    host.card.serve(host.reads({ ...qp }, region, 2 * 1099 * PAGE_BYTES, 8))
    expect(host.wanted().map(({ first }) => first)).toContain(2198)
    host.map(region, [[2198, frame!]])
    expect(contentOf(one, 2198)).toBe(hexOf(host.frame(frame!)))
  })

  test('the host is woken for it', () => {
    const one = begun()
    const { host } = one
    const before = host.counters()
    readPage(one)
    const after = host.counters()
    expect(after.events - before.events).toBe(1)
    expect(after.interrupts - before.interrupts).toBe(1)
    expect(host.wanted(EVENT_PAGES_UNWANTED)).toEqual([])
  })
})

describe('the state of the whole region', () => {
  test('error: requests fail; unavailable: they wait, and nothing is asked for', () => {
    const one = begun()
    const { host, region } = one
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    expect(host.tellState(region.rkey, STATUS_UNAVAILABLE)).toBe('PASS')
    const { qp } = one
    for (const page of [0, 1]) {
      expect(readPage({ ...one, qp: { ...qp } }, page)).toEqual([RNR_PAGE])
    }
    expect(host.wanted()).toEqual([])
    expect(host.tellState(region.rkey, mad.ON_DEMAND_READY)).toBe('PASS')
    expect(contentOf(one)).toBe(hexOf(host.frame(frame!)))
    expect(host.tellState(region.rkey, STATUS_ERROR)).toBe('PASS')
    expect(readPage(one)).toEqual([0x63])
    expect(host.card.counter('UNREADABLE')).toBe(1)
    // What comes and goes meanwhile holds when it is ready again.
    expect(host.unmap(region, [0])).toBe('PASS')
    expect(host.tellState(region.rkey, mad.ON_DEMAND_READY)).toBe('PASS')
    expect(readPage({ ...one, qp: host.card.connect() })).toEqual([RNR_PAGE])
    expect(host.wanted()).toHaveLength(1)
  })

  test('reset: it is ready, and no page of it is there', () => {
    const one = begun()
    const { host, region } = one
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    expect(host.tellState(region.rkey, STATUS_ERROR)).toBe('PASS')
    expect(host.tellState(region.rkey, STATUS_RESET)).toBe('PASS')
    expect(readPage(one)).toEqual([RNR_PAGE])
    expect(host.map(region, [[0, frame!]])).toBe('PASS')
    expect(contentOf(one)).toBe(hexOf(host.frame(frame!)))
    for (const kind of [1, 2, 6, 7, 255]) {
      expect(host.tellState(region.rkey, kind)).toBe('REQUEST')
    }
    expect(contentOf(one)).toBe(hexOf(host.frame(frame!)))
  })
})

describe('D-12: how it ends', () => {
  const ENDS: Readonly<Record<string, (setting: Setting) => void>> = {
    'by ON_DEMAND_END': ({ host, region }) => expect(host.endOnDemand(region.rkey)).toBe('PASS'),
    'as the host goes': ({ host }) => {
      host.setLink(false)
      host.run()
    },
    'as the host comes with a new epoch': ({ host }) => {
      host.enable()
      host.run()
    },
  }

  test.each(Object.keys(ENDS))('%s: the key names nothing, and no byte is touched', (how) => {
    const one = begun()
    const { host, region, qp } = one
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    const before = hexOf(fill(host, [frame!], 8))
    const late = host.writes(qp, region, 0, dataOf(8, 1))
    ENDS[how]!(one)
    expect(host.card.serve(...late).map(({ syndrome }) => syndrome)).toEqual([0x62])
    expect(hexOf(host.frame(frame!))).toBe(before)
    expect(
      host.card.manage(mad.METHOD_GET, mad.ATTRIBUTE_REGION, undefined, region.place).fault,
    ).toBe('NO_REGION')
  })

  test.each(Object.keys(ENDS))('%s, in the middle of a WRITE: it is refused', (how) => {
    const host = new OnDemandHost()
    const region = host.registerOnDemand()
    const qp = host.card.connect(1024)
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    const frames = host.writes(qp, region, 0, dataOf(3000, 1))
    host.card.serve(frames[0]!)
    ENDS[how]!({ host, region, qp })
    const before = hexOf(host.frame(frame!))
    expect(lines(host.card.serve(...frames.slice(1)), qp.psn - 3)).toEqual(['NAK 0x62 1'])
    expect(hexOf(host.frame(frame!))).toBe(before)
  })

  test.each(Object.keys(ENDS))('%s, while a long READ pauses: it is refused at once', (how) => {
    const host = new OnDemandHost()
    const region = host.registerOnDemand({ length: 64 * PAGE_BYTES })
    const qp = host.card.connect(1024)
    const frames = host.frames(18)
    host.map(
      region,
      frames.map((frame, i) => [i, frame]),
    )
    const base = qp.psn
    const log = host.keepLog().log
    host.serveAll(host.reads(qp, region, 0, 64 * PAGE_BYTES))
    expect(log).toHaveLength(18 * 4)
    ENDS[how]!({ host, region, qp })
    host.serveAll()
    expect(lines(log.slice(72), base).filter((line) => !line.startsWith('opcode'))).toEqual([
      'NAK 0x62 72',
    ])
  })

  test('the host goes in the very burst in which a READ came: no byte of it leaves', () => {
    const one = begun()
    const { host, region, qp } = one
    const [frame] = host.frames(1)
    host.map(region, [[0, frame!]])
    host.setLink(false)
    const sent = host.card.serve(host.reads(qp, region, 0, 8))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([0x62])
    expect(payloadOf(sent)).toHaveLength(0)
  })

  test('memory that does not answer fails the READ, and no other', () => {
    const one = begun()
    const { host, region, qp } = one
    const frames = host.frames(2)
    fill(host, frames, 4)
    host.map(region, [
      [0, frames[0]!],
      [1, frames[1]!],
    ])
    host.ram.windows.unmap(frames[1]! * PAGE_BYTES, PAGE_BYTES)
    const other = host.card.connect()
    const sent = host.card.serve(
      host.reads(qp, region, PAGE_BYTES - 8, 16),
      host.reads(other, region, 0, 16),
    )
    const by = (pair: TestPeer): string[] =>
      lines(
        sent.filter(({ packet }) => packet.destQp === pair.peer),
        pair.psn - 1,
      )
    expect(by(qp)).toEqual(['NAK 0x63 0'])
    expect(by(other)).toEqual(['READ 0 only: 16 B'])
    // A WRITE there is lost on its way: nobody is told of posted writes.
    const third = host.card.connect()
    expect(host.write(third, region, PAGE_BYTES, dataOf(4, 1))[0]!.syndrome).toBe(0x1f)
  })

  test('everything ended, everything can begin again, as often as one likes', () => {
    const host = new OnDemandHost()
    const [frame] = host.frames(1)
    const keys = new Set<number>()
    for (let i = 0; i < 100; i++) {
      const region = host.registerOnDemand({ length: ON_DEMAND_PAGES * PAGE_BYTES })
      keys.add(region.rkey)
      expect(host.map(region, [[ON_DEMAND_PAGES - 1, frame!]])).toBe('PASS')
      expect(host.endOnDemand(region.rkey)).toBe('PASS')
    }
    expect(keys.size).toBe(100)
  })
})
