/**
 * The superblock: format, provision and start, cut at every command; and parts that are not ours,
 * not whole, or not yet understood (issue 2; faults H7, H11).
 *
 * What always holds: after a cut the part is blank or formatted, a region is absent or complete,
 * and what was answered is there. A part that is refused keeps every byte.
 */

import { describe, expect, test, vi } from 'vitest'
import { imageCount, images } from '../boards/emulator/images.ts'
import { Nvdimm } from '../boards/emulator/nvdimm.ts'
import { cut, pending } from '../boards/emulator/power-cut.ts'
import { Random } from '../boards/emulator/random.ts'
import { FAULTS } from '../firmware/fault.ts'
import {
  addLost,
  createSuperblock,
  isLost,
  lostAt,
  lostOf,
  removeLost,
} from '../firmware/memory/superblock.ts'
import { MEMORY_BYTES } from '../firmware/memory-map.ts'
import * as mad from '../firmware/wire/management.ts'
import { Card, FACTS } from './support/card.ts'
import { Booth, mediaOf, PART_BYTES, partOf, SEED } from './support/explorer.ts'
import {
  copyAt,
  LANES_AT,
  PAGE_BYTES,
  type RegionLayout,
  readSuperblock,
  type SuperblockPage,
  sameBytes,
  sealPage,
  slotValid,
  usedBytes,
} from './support/oracle.ts'

// Thousands of starts in one test: a busy machine takes its time.
vi.setConfig({ testTimeout: 300_000 })

/** More images than this at one point are sampled: that many of them. */
const EXHAUSTIVE = 2 ** 13
const SAMPLE = 128

const booth = new Booth()

/** What a rebooted part was found to be. */
interface Counts {
  points: number
  images: number
  sampled: number
  readonly outcomes: Map<string, number>
}

/** Superblocks and formatted regions that were looked at before, by their bytes. */
const superblocks = new Map<string, SuperblockPage | null>()
const complete = new Set<string>()

function superblockOf(part: Nvdimm): SuperblockPage | null {
  const name = Buffer.from(part.durable.subarray(0, LANES_AT)).toString('latin1')
  let known = superblocks.get(name)
  if (known === undefined) {
    known = readSuperblock(part.durable)
    superblocks.set(name, known)
  }
  return known
}

/** Every copy of every record is the same, and valid. */
function assertComplete(part: Nvdimm, region: RegionLayout): void {
  const end = region.at + region.copies * region.areaBytes
  const name = Buffer.from(part.durable.subarray(region.at, end)).toString('latin1')
  if (complete.has(name)) return
  for (let record = 0; record < region.slots; record++) {
    const copies = Array.from({ length: region.copies }, (_, copy) => {
      const at = copyAt(region, copy, record)
      return part.durable.slice(at, at + region.stride)
    })
    const same = copies.every((copy) => sameBytes(copy, copies[0]!))
    if (same && slotValid(copies[0]!, region, record)) continue
    throw new Error(`record ${record} of a region that counts is not whole`)
  }
  complete.add(name)
}

/**
 * Boots the image and says what it is: blank, or formatted with so many regions, each complete.
 * Anything else is an error.
 */
function stateOf(part: Nvdimm): string {
  let outcome = ''
  const facts = { ...FACTS, nvdimmBytes: part.bytes }
  booth.boot(part, facts, null, (greeting, read) => {
    if (greeting.state === mad.STATE_BLANK) {
      outcome = 'blank'
      return
    }
    if (greeting.state !== mad.STATE_SERVING) {
      throw new Error(`refused as ${FAULTS[greeting.fault]!.name}`)
    }
    const { regions } = superblockOf(part)!
    outcome = `formatted, ${regions.length} regions`
    for (const region of regions) assertComplete(part, region)
    const data = regions.length === 0 ? null : read(0, regions[0]!.capacity)
    if (regions.length > 0 && data === null) throw new Error('the blank record cannot be read')
  })
  return outcome
}

/** Some of the images that a cut may leave, each on a part of its own. */
function samples(part: Nvdimm, random: Random): Nvdimm[] {
  const chunks = pending(part)
  return Array.from({ length: SAMPLE }, (_, i) => {
    const content = part.durable.slice()
    const prefix = random.below(chunks.length)
    const kept = [0.1, 0.5, 0.9][i % 4]
    chunks.forEach(({ at, versions }, place) => {
      const whole = kept === undefined ? place < prefix : random.chance(kept)
      const version = whole ? versions.length - 1 : random.below(versions.length - 1)
      content.set(versions[version]!, at)
    })
    return new Nvdimm({ bytes: part.bytes, content })
  })
}

/** Visits the images before each command of what `operate` does; nothing changed, no visit. */
function cutEverywhere(part: Nvdimm, operate: (visit: () => void) => void): Counts {
  const counts: Counts = { points: 0, images: 0, sampled: 0, outcomes: new Map() }
  const random = new Random(SEED)
  let done = ''
  operate(() => {
    const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored}`
    if (now === done) return
    done = now
    counts.points += 1
    const count = imageCount(part)
    const all = count <= EXHAUSTIVE
    if (!all) counts.sampled += 1
    const judge = (image: Nvdimm): void => {
      const outcome = stateOf(image)
      counts.images += 1
      counts.outcomes.set(outcome, (counts.outcomes.get(outcome) ?? 0) + 1)
    }
    if (all) images(part, 'chunk', () => judge(part))
    else for (const image of samples(part, random)) judge(image)
  })
  console.log(
    `${counts.points} points, ${counts.images} images, ${counts.sampled} points sampled: ` +
      [...counts.outcomes].map(([name, count]) => `${count} ${name}`).join('; '),
  )
  return counts
}

const TWO = mediaOf({ wait: 2, copies: 2 })

describe('cut at every command', () => {
  test('a format leaves the part blank or formatted, and formatted once it was answered', () => {
    const card = new Card(PART_BYTES)
    const counts = cutEverywhere(card.nvdimm, (visit) => {
      card.machine.observe({ onCommand: visit })
      card.format()
      card.machine.observe({})
    })
    expect([...counts.outcomes.keys()].sort()).toEqual(['blank', 'formatted, 0 regions'])
    expect(stateOf(card.nvdimm)).toBe('formatted, 0 regions')
    expect(counts.sampled).toBe(0)
    expect(counts.images).toBeGreaterThan(2000)
  })

  test('a format that was cut is begun again, and ends well', () => {
    for (let at = 0; at < 500; at++) {
      const card = new Card(PART_BYTES)
      card.machine.armCut(at)
      try {
        card.format()
      } catch {
        // No answer: the power went.
      }
      if (!card.machine.dead) {
        expect(at).toBeGreaterThan(10)
        return
      }
      cut(card.nvdimm, { random: new Random(SEED + at) })
      const again = new Card(card.nvdimm)
      if (again.status()[mad.PART_STATE] === mad.STATE_BLANK) again.format()
      expect(again.provision().slots, `cut at ${at}, SEED=${SEED}`).toBe(8)
    }
    throw new Error('the format never ended')
  })

  test('P1-1: a provision leaves the region absent or complete, and complete once answered', () => {
    for (const shape of [
      { slots: 3, copies: 2 },
      { slots: 2, copies: 3, flags: mad.REGION_FIXED_LENGTH },
    ]) {
      const card = new Card(PART_BYTES).format()
      const counts = cutEverywhere(card.nvdimm, (visit) => {
        card.machine.observe({ onCommand: visit })
        card.provision(shape)
        card.machine.observe({})
      })
      const outcomes = [...counts.outcomes.keys()].sort()
      expect(outcomes).toEqual(['formatted, 0 regions', 'formatted, 1 regions'])
      expect(stateOf(card.nvdimm)).toBe('formatted, 1 regions')
      expect(counts.images).toBeGreaterThan(2000)
    }
  })

  test('P1-1: a region that was cut away is asked for again, and is whole', () => {
    for (let at = 0; at < 500; at++) {
      const card = new Card(PART_BYTES).format()
      card.machine.armCut(at)
      try {
        card.provision({ slots: 3 })
      } catch {
        // No answer: the power went.
      }
      if (!card.machine.dead) {
        expect(at).toBeGreaterThan(10)
        return
      }
      cut(card.nvdimm, { random: new Random(SEED + at) })
      new Card(card.nvdimm).provision({ slots: 3 })
      expect(stateOf(card.nvdimm), `cut at ${at}, SEED=${SEED}`).toBe('formatted, 1 regions')
    }
    throw new Error('the provision never ended')
  })

  test('P1-26: a start with work in flight leaves a part that starts, its region complete', () => {
    const part = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB)
    let starting = true
    const counts = cutEverywhere(part, (visit) => {
      const onCommand = (): void => {
        if (starting) visit()
      }
      new Card(part, {}, { onCommand })
      starting = false
    })
    expect([...counts.outcomes.keys()]).toEqual(['formatted, 1 regions'])
    expect(counts.images).toBeGreaterThan(2000)
  })

  test('incarnations never go back, wherever a start is cut', () => {
    const part = partOf(TWO, [TWO.old, TWO.old])
    const facts = { ...FACTS, nvdimmBytes: part.bytes }
    const before = readSuperblock(part.durable)!.incarnation
    let visited = 0
    const onCommand = (): void => {
      images(part, 'chunk', () => {
        visited += 1
        booth.boot(part, facts, null, () => {})
        expect(readSuperblock(part.durable)!.incarnation).toBeGreaterThan(before)
      })
    }
    new Card(part, {}, { onCommand }).machine.observe({})
    expect(visited).toBeGreaterThan(100)
  })
})

/** The content of a part that serves, with its pages changed. */
function changed(change: (page: Uint8Array, number: number) => void): Uint8Array {
  const content = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB).durable.slice()
  for (const page of [0, 1]) {
    change(content.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES), page)
  }
  return content
}

function random(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length)
  new Random(seed).fill(bytes, 0, length)
  return bytes
}

function setVersion(page: Uint8Array, version: number, sealed: boolean): void {
  new DataView(page.buffer, page.byteOffset).setUint32(24, version, true)
  if (sealed) sealPage(page)
}

const REFUSED: readonly (readonly [string, string, () => Uint8Array])[] = [
  ['noise', 'FOREIGN', () => random(PART_BYTES, 1)],
  ['noise in page A and zeros in page B', 'FOREIGN', () => changed((page, i) => page.fill(i - 1))],
  ['zeros in page A and noise in page B', 'FOREIGN', () => changed((page, i) => page.fill(-i))],
  [
    'a file system whose first kibibyte is zero',
    'FOREIGN',
    () => {
      const content = new Uint8Array(PART_BYTES)
      content.set(random(PART_BYTES - 1024, 2), 1024)
      return content
    },
  ],
  ['one byte that is not zero', 'FOREIGN', () => new Uint8Array(PART_BYTES).fill(1, 7000, 7001)],
  ['an older version on both pages', 'OLDER', () => changed((page) => setVersion(page, 1, true))],
  [
    'an older version on one page, noise on the other',
    'OLDER',
    () =>
      changed((page, i) => {
        if (i === 1) setVersion(page, 1, true)
        else page.set(random(PAGE_BYTES, 3))
      }),
  ],
  ['a newer version on both pages', 'NEWER', () => changed((page) => setVersion(page, 3, true))],
  [
    'a newer version under a check code that is not ours',
    'NEWER',
    () => changed((page) => setVersion(page, 7, false)),
  ],
  [
    'a newer version on page A, noise on page B',
    'NEWER',
    () =>
      changed((page, i) => {
        if (i === 0) setVersion(page, 3, false)
        else page.set(random(PAGE_BYTES, 3))
      }),
  ],
  ['a flipped bit on both pages', 'DAMAGED', () => changed((page) => (page[700]! ^= 4))],
  ['a used length beyond the page', 'DAMAGED', () => changed((page) => (page[30] = 1))],
  ['a used length of zero', 'DAMAGED', () => changed((page) => page.fill(0, 28, 32))],
  [
    'a part that was longer',
    'TRUNCATED',
    () => changed(() => {}).slice(0, PART_BYTES - PAGE_BYTES),
  ],
  ['a part cut off behind its superblock', 'TRUNCATED', () => changed(() => {}).slice(0, LANES_AT)],
]

/** Pages that no firmware of ours wrote, though their check code is right: its key is known. */
const FORGED: readonly (readonly [string, number, number])[] = [
  ['more regions than there are places', 92, 25],
  ['regions without end', 92, 2 ** 32 - 1],
  ['more lost records than there is room for', 96, 65],
  ['lost records without end', 96, 2 ** 31],
  ['other lanes', 88, 33],
  ['lanes at another place', 80, 12288],
  ['the operation table at another place', 100, 8192],
  ['a used length of more regions than it has', 28, 1024],
  ['an incarnation beyond the last', 40, 2 ** 20 - 1],
  ['a part of half a page more', 64, PART_BYTES + 2048],
  ['a region with a mark that means nothing', 640 + 96, 0x80],
  ['a region in a place that is none', 640 + 96, 3],
  ['a region of an unknown kind', 640 + 36, 7],
  ['a region of no slots', 640 + 40, 0],
  ['more slots than its area holds', 640 + 40, 2 ** 31],
  ['a capacity beyond any', 640 + 44, 2 ** 31 - 1],
  ['no copies', 640 + 48, 0],
  ['nine copies', 640 + 48, 9],
  ['a region on the superblock', 640 + 64, 0],
  ['a region beyond the part', 640 + 68, 1],
  ['an area beyond the part', 640 + 76, 1],
]

test.each(FORGED)('a sealed superblock with %s is refused, and not written', (_, at, value) => {
  const content = changed((page) => {
    new DataView(page.buffer, page.byteOffset).setUint32(at, value, true)
    sealPage(page)
  })
  const part = new Nvdimm({ bytes: content.length, content })
  const status = new Card(part).status()
  expect(FAULTS[status[mad.PART_FAULT]!]!.name).toBe('DAMAGED')
  expect(Buffer.compare(content, part.durable)).toBe(0)
})

describe('parts that are refused', () => {
  for (const [name, fault, make] of REFUSED) {
    test(`${name} is refused as ${fault}, and not one byte changes`, () => {
      const content = make()
      const part = new Nvdimm({ bytes: content.length, content })
      const card = new Card(part)
      const status = card.status()
      expect(status[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
      expect(FAULTS[status[mad.PART_FAULT]!]!.name).toBe(fault)
      expect(card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT).fault).toBe(fault)
      expect(card.tryProvision().fault).toBe('NOT_SERVING')
      expect(card.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN).fault).toBe('NOT_SERVING')
      for (let i = 0; i < 50; i++) card.idle()
      expect(Buffer.compare(content, part.durable)).toBe(0)
      expect(Buffer.compare(content, part.live)).toBe(0)
      expect(card.machine.statistics.bytesStored).toBe(0)
    })
  }

  test('a blank part says so, and is not written to until it is formatted', () => {
    const card = new Card(PART_BYTES)
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_BLANK)
    expect(card.tryProvision().fault).toBe('NOT_SERVING')
    expect(card.machine.statistics.bytesStored).toBe(0)
    card.format()
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
    expect(
      card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT, (body) => body.fill(9, 0, 16)).fault,
    ).toBe('FORMATTED')
  })

  test('each single flipped bit of one page is survived, and of both pages is refused', () => {
    const used = usedBytes(TWO.content)
    const facts = { ...FACTS, nvdimmBytes: PART_BYTES }
    const faults = new Map<string, number>()
    const content = changed(() => {})
    const part = new Nvdimm({ bytes: content.length, content })
    for (let bit = 0; bit < used * 8; bit++) {
      for (const pages of [[0], [1], [0, 1]]) {
        const flip = (): void => {
          for (const page of pages) part.durable[page * PAGE_BYTES + (bit >> 3)]! ^= 1 << (bit & 7)
          for (const page of pages) part.live[page * PAGE_BYTES + (bit >> 3)]! ^= 1 << (bit & 7)
        }
        flip()
        const stored = part.bytesStored
        images(part, 'chunk', () => {
          booth.boot(part, facts, null, (greeting) => {
            const name = FAULTS[greeting.fault]!.name
            if (pages.length === 1) expect(name, `bit ${bit} of page ${pages}`).toBe('PASS')
            else faults.set(name, (faults.get(name) ?? 0) + 1)
            if (pages.length === 2) expect(part.bytesStored, `bit ${bit}`).toBe(stored)
          })
        })
        flip()
      }
    }
    // Magic: foreign; version, upwards: newer; all else: damaged.
    expect(faults.get('FOREIGN')).toBe(64)
    expect(faults.get('NEWER')).toBe(30)
    expect(faults.get('DAMAGED')).toBe(used * 8 - 94)
  })

  test('whatever stands in the pages, the start ends, and what is refused is not written', () => {
    const generator = new Random(SEED)
    const facts = { ...FACTS, nvdimmBytes: PART_BYTES }
    for (let round = 0; round < 3000; round++) {
      const content = changed((page) => {
        const count = 1 + generator.below(40)
        for (let i = 0; i < count; i++) page[generator.below(900)] = generator.below(256)
      })
      const part = new Nvdimm({ bytes: PART_BYTES, content })
      booth.boot(part, facts, null, (greeting) => {
        if (greeting.state === mad.STATE_SERVING) return
        expect(part.bytesStored, `round ${round}, SEED=${SEED}`).toBe(0)
      })
    }
  })
})

test('D-14: the list of the lost keeps the records of regions apart', () => {
  const sb = createSuperblock(new ArrayBuffer(MEMORY_BYTES))
  const lost: readonly (readonly [number, number])[] = [
    [1, 5],
    [2, 5],
    [1, 6],
  ]
  for (const [region, record] of lost) expect(addLost(sb, region, record)).toBe(true)
  expect(addLost(sb, 2, 5)).toBe(false)
  expect([lostOf(sb, 1), lostOf(sb, 2), lostOf(sb, 3)]).toEqual([2, 1, 0])
  expect([0, 1, 2].map((i) => lostAt(sb, i, 1))).toEqual([5, -1, 6])
  removeLost(sb, 2, 5)
  expect([isLost(sb, 1, 5), isLost(sb, 2, 5), isLost(sb, 1, 6)]).toEqual([true, false, true])
  removeLost(sb, 2, 7)
  expect(lostOf(sb, 1)).toBe(2)
})
