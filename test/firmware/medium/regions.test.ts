/**
 * Regions: keys, rights, protection domains, and the arithmetic of their bounds, as units and as a
 * peer on the wire meets them (wire-format 4; faults N15, N16).
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FAULTS, KEY, PASS, PROTECTION_DOMAIN, RIGHTS } from '../../../firmware/board/fault.ts'
import { NVDIMM_SPACE } from '../../../firmware/board/hal.ts'
import { REGIONS } from '../../../firmware/board/limits.ts'
import {
  accessFault,
  byteOffset,
  createRegionTable,
  findRegion,
  findRegionById,
  findRegionByName,
  KIND_BYTES,
  KIND_RECORDS,
  REMOTE_READ,
  REMOTE_WRITE,
  type Region,
  slotAddress,
  strideOf,
  WRITE_PERSIST,
} from '../../../firmware/medium/region.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, persistFrames, readFrame, TestCard } from '../../support/cards/test-card.ts'
import { contentOf, firstDifference, writeFrames } from '../../support/wire/requests.ts'

function regionWith(fields: Partial<Region>): Region {
  return {
    ...{ index: 0, id: 1, name: 'one', kind: KIND_BYTES, slots: 0, capacity: 0, copies: 1 },
    ...{ flags: 0, protectionDomain: 0, stride: 0, at: 12288, areaBytes: 4096, baseHigh: 0 },
    ...{ placement: 0, base: NVDIMM_SPACE + 12288 },
    ...{ baseLow: 0, keyAt: 0, rkey: 0x100, rights: REMOTE_WRITE | REMOTE_READ },
    ...{ unsettled: 0, repaired: 0, pending: 0, mechanism: 1 },
    ...fields,
  }
}

const WORD = 2n ** 32n
const SEED = Number(process.env.SEED ?? 1)

describe('bounds', () => {
  /** The rule, in whole numbers of any size. */
  function insideByRule(region: Region, high: number, low: number, length: number): boolean {
    const base = BigInt(region.baseHigh) * WORD + BigInt(region.baseLow)
    const from = BigInt(high) * WORD + BigInt(low)
    return from >= base && from + BigInt(length) <= base + BigInt(region.areaBytes)
  }

  const word = fc.oneof(
    fc.constantFrom(0, 1, 2, 4095, 4096, 4097, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1),
    fc.constantFrom(2 ** 32 - 4097, 2 ** 32 - 4096, 2 ** 32 - 2, 2 ** 32 - 1),
    fc.nat({ max: 2 ** 32 - 1 }),
  )

  test('N16: agree with the arithmetic of whole numbers for every address, base and length', () => {
    fc.assert(
      fc.property(word, word, word, word, word, word, (bh, bl, vh, vl, length, area) => {
        const region = regionWith({ baseHigh: bh, baseLow: bl, areaBytes: area })
        const offset = byteOffset(region, vh, vl, length)
        const inside = insideByRule(region, vh, vl, length)
        expect(offset >= 0).toBe(inside)
        if (!inside) return
        const from = BigInt(vh) * WORD + BigInt(vl) - BigInt(bh) * WORD - BigInt(bl)
        expect(BigInt(offset)).toBe(from)
      }),
      { seed: SEED, numRuns: 50_000 },
    )
  })

  test('N16: near the base of a region, at every distance, agree with the same arithmetic', () => {
    const near = fc.integer({ min: -70, max: 70 })
    const area = fc.constantFrom(64, 4096, 2 ** 31, 2 ** 32, 2 ** 32 + 64, 2 ** 40)
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 16 }), word, area, near, near, (bh, bl, size, from, by) => {
        const region = regionWith({ baseHigh: bh, baseLow: bl, areaBytes: size })
        const base = BigInt(bh) * WORD + BigInt(bl)
        for (const start of [base + BigInt(from), base + BigInt(size) + BigInt(from)]) {
          if (start < 0n || start >= WORD * WORD) continue
          const [high, low] = [Number(start / WORD), Number(start % WORD)]
          for (const length of [0, 1, 64 + by, size + by, 2 ** 32 - 1]) {
            if (length < 0 || length >= 2 ** 32) continue
            const inside = insideByRule(region, high, low, length)
            expect(byteOffset(region, high, low, length) >= 0).toBe(inside)
          }
        }
      }),
      { seed: SEED, numRuns: 5000 },
    )
  })

  test('the first and the last byte belong to the region, their neighbours do not', () => {
    for (const [baseHigh, baseLow] of [
      [0, 0],
      [0x7000, 0],
      [0, 2 ** 32 - 1],
      [1, 2 ** 32 - 4095],
    ] as const) {
      const region = regionWith({ baseHigh, baseLow })
      const at = (offset: number): number => {
        const low = baseLow + offset
        return byteOffset(
          region,
          baseHigh + Math.floor(low / 2 ** 32),
          (low + 2 ** 32) % 2 ** 32,
          1,
        )
      }
      expect([at(0), at(4095), at(4096)]).toEqual([0, 4095, -1])
      if (baseHigh + baseLow > 0) expect(at(-1)).toBe(-1)
    }
  })
})

describe('places of slots', () => {
  test('a stride is whole lines: the header and the data', () => {
    expect([1, 63, 64, 65, 128, 65536].map(strideOf)).toEqual([128, 128, 128, 192, 192, 65600])
  })

  test('no two copies of any slots overlap, and none leaves its area', () => {
    for (const [slots, capacity, copies] of [
      [1, 1, 2],
      [7, 64, 3],
      [33, 100, 4],
    ] as const) {
      const stride = strideOf(capacity)
      const areaBytes = Math.ceil((slots * stride) / 4096) * 4096
      const region = regionWith({ kind: KIND_RECORDS, slots, capacity, copies, stride, areaBytes })
      const starts: number[] = []
      for (let c = 0; c < copies; c++) {
        for (let s = 0; s < slots; s++) {
          const at = slotAddress(region, c, s) - NVDIMM_SPACE - region.at
          expect(at >= c * areaBytes && at + stride <= (c + 1) * areaBytes).toBe(true)
          starts.push(at)
        }
      }
      starts.sort((a, b) => a - b)
      starts.slice(1).forEach((at, i) => {
        expect(at - starts[i]!).toBeGreaterThanOrEqual(stride)
      })
    }
  })
})

describe('finding a region', () => {
  test('by its key only if every bit is right, for every place of the table', () => {
    const table = createRegionTable()
    for (let i = 0; i < REGIONS; i++) {
      const rkey = ((0x9e3779b9 << 5) | i) >>> 0
      table.places[i] = regionWith({ index: i, id: i + 1, name: `r${i}`, rkey })
    }
    for (let i = 0; i < REGIONS; i++) {
      const region = table.places[i]!
      expect(findRegion(table, region.rkey)).toBe(region)
      expect(findRegionByName(table, `r${i}`)).toBe(region)
      expect(findRegionById(table, i + 1)).toBe(region)
      for (let bit = 0; bit < 32; bit++) {
        const found = findRegion(table, (region.rkey ^ (1 << bit)) >>> 0)
        // Another place of the table may hold that very key: its own.
        if (found !== null) expect(found.rkey).toBe((region.rkey ^ (1 << bit)) >>> 0)
        if (bit >= 5) expect(found).toBe(null)
      }
    }
    for (let place = REGIONS; place < 32; place++) expect(findRegion(table, place)).toBe(null)
    expect(findRegionByName(table, 'r')).toBe(null)
    expect(findRegionById(table, 0)).toBe(null)
  })

  test('key, then domain, then rights: the first that fails is the answer', () => {
    const region = regionWith({ protectionDomain: 3, rights: REMOTE_READ })
    expect(accessFault(null, 9, REMOTE_WRITE)).toBe(KEY)
    expect(accessFault(region, 9, REMOTE_WRITE)).toBe(PROTECTION_DOMAIN)
    expect(accessFault(region, 3, REMOTE_WRITE)).toBe(RIGHTS)
    expect(accessFault(region, 3, REMOTE_READ | REMOTE_WRITE)).toBe(RIGHTS)
    expect(accessFault(region, 3, WRITE_PERSIST)).toBe(RIGHTS)
    expect(accessFault(region, 3, REMOTE_READ)).toBe(PASS)
  })
})

describe('keys on the wire (N15)', () => {
  const boot = (card: TestCard, entropy: number[]): TestCard =>
    new TestCard(card.nvdimm, { facts: { entropy } })

  test('a key is drawn again at every power-on, and the old one names nothing', () => {
    let card = new TestCard().format()
    let region = card.provision()
    const keys = [region.rkey]
    for (let i = 1; i <= 20; i++) {
      card = boot(card, [i, 2 * i, 3, 4, 5, 6, 7, i])
      const old = region.rkey
      region = card.open()
      expect(region.rkey).not.toBe(old)
      expect(region.rkey & 31).toBe(0)
      keys.push(region.rkey)
      const qp = card.connect()
      const before = contentOf(card)
      const [nak] = card.serve(...persistFrames(qp, { rkey: old }, 1, dataOf(8, i)))
      expect(nak!.syndrome).toBe(0x62)
      expect(card.counter('KEY')).toBe(1)
      expect(firstDifference(contentOf(card), before)).toBe(-1)
    }
    expect(new Set(keys).size).toBe(keys.length)
  })

  test('the upper 27 bits of keys are all used', () => {
    const card = new TestCard(1 << 19).format()
    let ones = 0
    let zeros = 0
    for (let i = 0; i < REGIONS; i++) {
      const { rkey } = card.provision({ name: `r${i}`, slots: 1 })
      ones |= rkey
      zeros |= ~rkey
      expect(rkey & 31).toBe(i)
    }
    expect((ones >>> 5).toString(2)).toBe('1'.repeat(27))
    expect((zeros >>> 5).toString(2)).toBe('1'.repeat(27))
  })

  test('the key of the check code stays with the region permanently', () => {
    const card = new TestCard().format()
    const { key } = card.provision()
    expect(boot(card, [5, 5, 5, 5, 5, 5, 5, 5]).open().key).toEqual(key)
  })
})

describe('rights and domains on the wire (N15)', () => {
  type Operation = 'persist' | 'write' | 'read'

  function askFor(operation: Operation, kind: number, mine: number, theirs: number): string {
    const card = new TestCard().format()
    const region = card.provision({ kind, length: 4096, domain: theirs })
    const qp = card.connect(4096, mine)
    const before = contentOf(card)
    const frames = {
      persist: () => persistFrames(qp, region, 0, dataOf(8, 1)),
      write: () => writeFrames(qp, region, 0, dataOf(8, 1)),
      read: () => [readFrame(qp, region, 0, 0, 8)],
    }[operation]()
    const [answer] = card.serve(...frames)
    if (answer!.syndrome === 0x1f) return 'done'
    expect(answer!.syndrome).toBe(0x62)
    expect(firstDifference(contentOf(card), before)).toBe(-1)
    expect(card.serve(...frames)).toEqual([])
    return FAULTS.find((row) => row.code === 0x62 && card.counter(row.name) === 1)!.name
  }

  test('a region of records takes records, a region of bytes takes bytes, both are read', () => {
    const said = (['persist', 'write', 'read'] as const).map((operation) => [
      askFor(operation, mad.KIND_RECORDS, 0, 0),
      askFor(operation, mad.KIND_BYTES, 0, 0),
    ])
    expect(said).toEqual([
      ['done', 'RIGHTS'],
      ['done', 'done'],
      ['done', 'done'],
    ])
  })

  test('nothing crosses the border of a protection domain', () => {
    for (const operation of ['persist', 'write', 'read'] as const) {
      for (const kind of [mad.KIND_RECORDS, mad.KIND_BYTES]) {
        for (const [mine, theirs] of [
          [0, 1],
          [1, 0],
          [0xffff, 0xfffe],
          [0x100, 0x001],
        ] as const) {
          expect(askFor(operation, kind, mine, theirs)).toBe('PROTECTION_DOMAIN')
        }
      }
    }
    expect(askFor('read', mad.KIND_BYTES, 0xffff, 0xffff)).toBe('done')
  })
})
