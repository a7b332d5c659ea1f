/**
 * The superblock: format, provision and start, cut at every command; and its pages with any bit or
 * byte wrong (faults H7, H11; what is refused, and why, by name: superblock-refused.test.ts).
 *
 * Invariant: after a cut the part is blank or formatted, a region is absent or complete,
 * and what was answered is there. A part that is refused keeps every byte.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { imageCount, images } from '../../../boards/emulator/medium/images.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut, pending } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { FORMAT_VERSION } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  dataOf,
  FACTS,
  persistAcks,
  persistFrames,
  TestCard,
} from '../../support/cards/test-card.ts'
import { Booth, PART_BYTES, partOf, SEED } from '../../support/crash/explorer.ts'
import { changed, TWO } from '../../support/crash/superblock-pages.ts'
import {
  copyAt,
  LANES_AT,
  PAGE_BYTES,
  type RegionLayout,
  readSuperblock,
  type SuperblockPage,
  sameBytes,
  slotValid,
  usedBytes,
} from '../../support/judges/oracle.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

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

describe('cut at every command', () => {
  test(
    'a format leaves the part blank or formatted, and formatted once it was answered',
    THOROUGH,
    () => {
      const card = new TestCard(PART_BYTES)
      const counts = cutEverywhere(card.nvdimm, (visit) => {
        card.machine.observe({ onCommand: visit })
        card.format()
        card.machine.observe({})
      })
      expect([...counts.outcomes.keys()].sort()).toEqual(['blank', 'formatted, 0 regions'])
      expect(stateOf(card.nvdimm)).toBe('formatted, 0 regions')
      expect(counts.sampled).toBe(0)
      expect(counts.images).toBeGreaterThan(2000)
    },
  )

  test('a format that was cut is begun again, and ends well', () => {
    for (let at = 0; at < 500; at++) {
      const card = new TestCard(PART_BYTES)
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
      const again = new TestCard(card.nvdimm)
      if (again.status()[mad.PART_STATE] === mad.STATE_BLANK) again.format()
      expect(again.provision().slots, `cut at ${at}, SEED=${SEED}`).toBe(8)
    }
    throw new Error('the format never ended')
  })

  test(
    'P1-1: a provision leaves the region absent or complete, and complete once answered',
    THOROUGH,
    () => {
      for (const shape of [
        { slots: 3, copies: 2 },
        { slots: 2, copies: 3, flags: mad.REGION_FIXED_LENGTH },
      ]) {
        const card = new TestCard(PART_BYTES).format()
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
    },
  )

  test('P1-1: a region that was cut away is asked for again, and is whole', () => {
    for (let at = 0; at < 500; at++) {
      const card = new TestCard(PART_BYTES).format()
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
      new TestCard(card.nvdimm).provision({ slots: 3 })
      expect(stateOf(card.nvdimm), `cut at ${at}, SEED=${SEED}`).toBe('formatted, 1 regions')
    }
    throw new Error('the provision never ended')
  })

  test(
    'P1-26: a start with work in flight leaves a part that starts, its region complete',
    THOROUGH,
    () => {
      const part = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB)
      let starting = true
      const counts = cutEverywhere(part, (visit) => {
        const onCommand = (): void => {
          if (starting) visit()
        }
        new TestCard(part, { watch: { onCommand } })
        starting = false
      })
      expect([...counts.outcomes.keys()]).toEqual(['formatted, 1 regions'])
      expect(counts.images).toBeGreaterThan(2000)
    },
  )

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
    new TestCard(part, { watch: { onCommand } }).machine.observe({})
    expect(visited).toBeGreaterThan(100)
  })
})

describe('pages that are wrong', () => {
  test(
    'each single flipped bit of one page is survived, and of both pages is refused',
    THOROUGH,
    () => {
      const used = usedBytes(TWO.content)
      const facts = { ...FACTS, nvdimmBytes: PART_BYTES }
      const faults = new Map<string, number>()
      const content = changed(() => {})
      const part = new Nvdimm({ bytes: content.length, content })
      for (let bit = 0; bit < used * 8; bit++) {
        for (const pages of [[0], [1], [0, 1]]) {
          const flip = (): void => {
            for (const page of pages)
              part.durable[page * PAGE_BYTES + (bit >> 3)]! ^= 1 << (bit & 7)
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
      // Magic: foreign. Version, a signed word: upwards newer, version 1 older. All else: damaged.
      const versions = Array.from({ length: 32 }, (_, bit) => FORMAT_VERSION ^ (1 << bit))
      const newer = versions.filter((version) => version > FORMAT_VERSION).length
      const older = versions.filter((version) => version === 1).length
      const counts = { FOREIGN: 64, NEWER: newer, OLDER: older }
      const damaged = used * 8 - 64 - newer - older
      expect(Object.fromEntries(faults)).toEqual({ ...counts, DAMAGED: damaged })
    },
  )

  test('a region that fills its pages to the last byte is there behind a start', () => {
    const card = new TestCard(1 << 17).format()
    const slots = PAGE_BYTES / 128
    card.provision({ slots, capacity: 64 })
    const data = dataOf(64, 1)
    const sent = card.serve(...persistFrames(card.connect(), card.open(), slots - 1, data))
    expect(persistAcks(sent).map(({ status }) => status)).toEqual([0])
    const next = new TestCard(card.nvdimm)
    expect(Buffer.from(next.read(next.connect(), next.open(), slots - 1, 0, 64)!)).toEqual(
      Buffer.from(data),
    )
  })

  test(
    'whatever stands in the pages, the start ends, and what is refused is not written',
    THOROUGH,
    () => {
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
    },
  )
})
