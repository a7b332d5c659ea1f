/**
 * Which of a record's copies counts (S1-M4, D-4, P1-21, P1-22, P1-31): the rule alone, and what a
 * start makes of every combination of two, three and four copies on a medium.
 *
 * Invariant: what is expected was written by hand (test/support/judges/kept-copy.ts), and is no
 * table of the firmware.
 */

import { describe, expect, test } from 'vitest'
import { countingCopy } from '../../../firmware/medium/copies.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { type Media, mediaOf, partOf, recoveryReport } from '../../support/crash/explorer.ts'
import { AFTER_A_CUT, countedOf, everyCounted, KEPT } from '../../support/judges/kept-copy.ts'
import { copyAt, linesOfCopy } from '../../support/judges/oracle.ts'

const COUNTS = [2, 3, 4]

/** `n` and `o` as the rule sees them; what is not valid has the latest sequence of all. */
function judged(copies: string): { valid: boolean; header: Words }[] {
  const words: Record<string, Words> = { n: wordsOf(1, 5), o: wordsOf(0, 0xffff_fffe) }
  return Array.from(copies, (one) => ({ valid: one in words, header: words[one] ?? wordsOf(9, 9) }))
}

interface Words {
  readonly sequenceHigh: number
  readonly sequenceLow: number
}

function wordsOf(sequenceHigh: number, sequenceLow: number): Words {
  return { sequenceHigh, sequenceLow }
}

describe.each(COUNTS)('S1-M4: of %i copies', (count) => {
  test('S1-M4: the table that was written by hand has every combination once', () => {
    expect(new Set(countedOf(count).map(({ copies }) => copies)).size).toBe(3 ** count)
    expect(countedOf(count)).toHaveLength(3 ** count)
    expect(new Set(everyCounted(count).map(({ copies }) => copies)).size).toBe(4 ** count)
    for (const { copies } of everyCounted(count)) expect(copies).toMatch(/^[not-]+$/)
    expect(KEPT[count]).toHaveLength(count + 1)
  })

  test('S1-M4: the rule says which one counts, for each combination', () => {
    for (const { copies, kept } of everyCounted(count)) {
      expect([copies, countingCopy(judged(copies), 0, count)]).toEqual([copies, kept])
    }
  })

  test('S1-M4: whatever a cut leaves, that is the first valid one in write order', () => {
    const left = AFTER_A_CUT[count]!.split(' ')
    expect(left).toHaveLength(2 * count + 1)
    for (const copies of left) {
      const first = [...copies].findIndex((one) => one !== 'x')
      expect([copies, countingCopy(judged(copies), 0, count)]).toEqual([copies, first])
    }
  })

  test('S1-M4: copies in front of the range, and behind it, do not count', () => {
    for (const { copies, kept } of countedOf(count)) {
      const found = countingCopy(judged(`n${copies}n`), 1, count + 1)
      expect([copies, found]).toEqual([copies, kept < 0 ? -1 : kept + 1])
    }
  })
})

/** One of the copies on the medium: whole, half of one over another, or nothing. */
function imageOf(media: Media, one: string): Uint8Array {
  if (one === 'n') return media.fresh
  if (one === 'o') return media.old
  const image = one === 't' ? media.old.slice() : new Uint8Array(media.old.length)
  if (one === 't') image.set(media.fresh.subarray(0, 72))
  return image
}

function copiesIn({ layout }: Media, durable: Uint8Array): Buffer[] {
  return Array.from({ length: layout.copies }, (_, c) => {
    const at = copyAt(layout, c, 0)
    return Buffer.from(durable.slice(at, at + layout.stride))
  })
}

/** Starts behind a save that failed, so that every record is looked at; what is wrong, or null. */
function expectKept(media: Media, copies: string, kept: number): void {
  const part = partOf(
    media,
    [...copies].map((one) => imageOf(media, one)),
  )
  part.failSave()
  for (const [c, one] of [...copies].entries()) {
    if (one === 'p') part.poison(linesOfCopy(media.layout, c, 0)[1]!)
  }
  const before = copiesIn(media, part.durable)
  const card = new TestCard(part)
  const after = copiesIn(media, part.durable)
  const wanted = before.map((copy) => (kept < 0 ? copy : before[kept]!))
  expect([copies, after]).toEqual([copies, wanted])
  const data = card.read(card.connect(), card.open(), 0, 0, media.layout.capacity)
  const shown = kept < 0 ? null : copies[kept] === 'n' ? media.freshData : media.oldData
  expect([copies, data === null ? null : Buffer.from(data)]).toEqual([
    copies,
    shown === null ? null : Buffer.from(shown),
  ])
  const [line] = recoveryReport(card).filter(({ record }) => record === 0)
  if (/^(n+|o+)$/.test(copies)) {
    expect([copies, line]).toEqual([copies, undefined])
    return
  }
  const told = [...copies].map((one, c) => (one === copies[kept] ? 0 : 1 << c))
  const overwritten = kept < 0 ? 0 : told.reduce((mask, bit) => mask | bit, 0)
  const flags = (kept < 0 ? 2 : 1) | (overwritten << 4)
  expect([copies, line!.flags]).toEqual([copies, flags])
}

describe.each(COUNTS)('S1-M4: a start that looks at %i copies', (count) => {
  const media = mediaOf({ wait: 2, copies: count })

  test('S1-M4: keeps the one that counts, and writes it over all that differ', () => {
    for (const { copies, kept } of everyCounted(count)) expectKept(media, copies, kept)
  })

  test('S1-M4: likewise where the others cannot be read', () => {
    for (const { copies, kept } of countedOf(count)) {
      if (kept >= 0) expectKept(media, copies.replaceAll('x', 'p'), kept)
    }
  })
})
