/**
 * Parts that are not ours, not whole, or not yet understood: refused by name, and not one byte of
 * them changes (faults H7, H11). What enumerates is in superblock.test.ts.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { PART_BYTES } from '../../support/crash/explorer.ts'
import { changed } from '../../support/crash/superblock-pages.ts'
import { LANES_AT, PAGE_BYTES, sealPage } from '../../support/judges/oracle.ts'

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
  ['a newer version on both pages', 'NEWER', () => changed((page) => setVersion(page, 5, true))],
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
        if (i === 0) setVersion(page, 5, false)
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
  ['a piece, in a version that has none', 124, 1],
  ['the version that has pieces, and none', 24, 4],
  ['an identity that was never given', 640 + 32, 2],
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

/** Likewise, of the second region of two. */
const FORGED_SECOND: readonly (readonly [string, number, number])[] = [
  ['the identity of another region', 640 + 128 + 32, 1],
  ['the bytes of another region', 640 + 128 + 64, 12288 + 2 * 128 * 64 + 4096],
]

function expectRefused(content: Uint8Array): void {
  const part = new Nvdimm({ bytes: content.length, content })
  const status = new TestCard(part).status()
  expect(FAULTS[status[mad.PART_FAULT]!]!.name).toBe('DAMAGED')
  expect(Buffer.compare(content, part.durable)).toBe(0)
}

function forge(page: Uint8Array, at: number, value: number): void {
  new DataView(page.buffer, page.byteOffset).setUint32(at, value, true)
  sealPage(page)
}

test.each(FORGED)('a sealed superblock with %s is refused, and not written', (_, at, value) => {
  expectRefused(changed((page) => forge(page, at, value)))
})

test.each(FORGED_SECOND)('nor is one with %s', (_, at, value) => {
  const card = new TestCard(PART_BYTES).format()
  for (const name of ['first', 'second']) card.provision({ name, slots: 2 })
  const content = card.nvdimm.durable.slice()
  for (const page of [0, PAGE_BYTES]) forge(content.subarray(page, page + PAGE_BYTES), at, value)
  expectRefused(content)
})

describe('parts that are refused', () => {
  for (const [name, fault, make] of REFUSED) {
    test(`${name} is refused as ${fault}, and not one byte changes`, () => {
      const content = make()
      const part = new Nvdimm({ bytes: content.length, content })
      const card = new TestCard(part)
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
    const card = new TestCard(PART_BYTES)
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_BLANK)
    expect(card.tryProvision().fault).toBe('NOT_SERVING')
    expect(card.machine.statistics.bytesStored).toBe(0)
    card.format()
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
    expect(
      card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT, (body) => body.fill(9, 0, 16)).fault,
    ).toBe('FORMATTED')
  })
})
