/**
 * A part of the version before: its first start upgrades it, and finds everything (H11).
 *
 * Invariant: every record is there, and every operation that was acknowledged is known;
 * what that version did not tell counts as forgotten. The power may go at each command of the
 * start.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { asVersion2 } from '../../support/cards/version-2.ts'
import { readSuperblock } from '../../support/judges/oracle.ts'

const SLOTS = 6
const CLIENT = 7
const FORGOTTEN = 0x98

/** Records 0 to 5 by operations 1 to 6 of one client, and 1 again by another; 9 was passed over. */
const FORMER = ((): Uint8Array => {
  const card = new TestCard(new Nvdimm({ bytes: 1 << 16 })).format()
  const region = card.provision({ slots: SLOTS })
  const one = card.connect(4096, 0, CLIENT)
  for (let i = 0; i < SLOTS; i++) {
    card.serve(...persistFrames(one, region, i, dataOf(64, i), { operation: i + 1 }))
  }
  card.serve(...persistFrames(one, region, 5, dataOf(64, 5), { operation: 10 }))
  const two = card.connect(4096, 0, 8)
  card.serve(...persistFrames(two, region, 1, dataOf(64, 77), { operation: 1 }))
  card.idle()
  card.machine.die()
  return asVersion2(card.nvdimm.durable)
})()

function former(): Nvdimm {
  return new Nvdimm({ bytes: FORMER.length, content: FORMER })
}

function statusOf(card: TestCard, operation: number, slot: number, repetition: boolean): number {
  const qp = card.connect(4096, 0, CLIENT)
  const frames = persistFrames(qp, card.open(), slot, dataOf(64, 99), { operation, repetition })
  return persistAcks(card.serve(...frames))[0]!.status
}

function expectAll(card: TestCard): void {
  const status = card.status()
  expect(FAULTS[status[mad.PART_FAULT]!]!.name).toBe('PASS')
  expect(u32(status, mad.PART_FORMAT_VERSION)).toBe(3)
  // Acknowledged, hence known: a retry changes nothing, whoever has written since.
  for (const operation of [1, 2, 6, 10]) {
    expect(statusOf(card, operation, operation % SLOTS, false)).toBe(0)
  }
  const qp = card.connect()
  for (let i = 0; i < SLOTS; i++) {
    const read = card.read(qp, card.open(), i, VIEW_DATA, 64)!
    expect(Buffer.from(read)).toEqual(Buffer.from(dataOf(64, i === 1 ? 77 : i)))
  }
}

describe('R1-C6: a part of version 2', () => {
  test('is upgraded by its first start, and everything is found, then and later', () => {
    let card = new TestCard(former())
    for (let start = 0; start < 3; start++) {
      expectAll(card)
      // That version did not say what it had forgotten.
      expect(statusOf(card, 9, 0, true)).toBe(FORGOTTEN)
      expect(statusOf(card, 11 + start, 5, true)).toBe(0)
      const operation = 100 + start
      const qp = card.connect(4096, 0, CLIENT)
      card.serve(...persistFrames(qp, card.open(), 5, dataOf(64, 5), { operation }))
      card.machine.die()
      cut(card.nvdimm, { random: new Random(start) })
      expect(readSuperblock(card.nvdimm.durable)!.valid).toBe(true)
      card = new TestCard(card.nvdimm)
    }
  })

  test('the power goes at each command of its first start, and again at that of the next', () => {
    let points = 0
    for (let last = false; !last; points++) {
      const part = former()
      for (const seed of [points, points + 1000]) {
        try {
          last = !new TestCard(part, { watch: deathAt(points) }).machine.dead
        } catch {
          last = false
        }
        cut(part, { random: new Random(seed) })
      }
      expectAll(new TestCard(part))
    }
    expect(points).toBeGreaterThan(20)
  })
})

/** The power goes before command `k`. */
function deathAt(k: number): { onCommand: () => void } {
  let left = k
  return {
    onCommand: () => {
      if (left === 0) throw new Error('the power has gone')
      left -= 1
    },
  }
}
