/**
 * A save that fails may take back that the card was started, and nothing else: neither what that
 * start handed out, nor what it stored (D-12, L6). The part counts such saves, and forgets none.
 *
 * Invariant: every start has a later incarnation than all before it, so that sequences
 * never go back, and nothing that an earlier one handed out is handed out again.
 */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { TRANSMIT } from '../../../firmware/board/hal.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import {
  beginIncarnation,
  createSuperblock,
  INCARNATIONS,
  incarnationOf,
  LANES_AT,
} from '../../../firmware/medium/superblock.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { readSuperblock } from '../../support/judges/oracle.ts'

const SAME = { entropy: [5, 5, 5, 5, 5, 5, 5, 5] }
const LIVES = 12

/** A part that is formatted and has a region: nobody has been started on it since. */
function formatted(): Nvdimm {
  const card = new TestCard(1 << 18, { facts: SAME }).format()
  card.provision({ slots: 4, capacity: 64 })
  return card.nvdimm
}

/** What is left by a save that failed once more, for the superblock alone, which is as it was. */
function takenBack(part: Nvdimm, superblock: Uint8Array): Nvdimm {
  const content = part.durable.slice()
  content.set(superblock)
  const left = new Nvdimm({ bytes: content.length, content })
  left.dirtyShutdowns = part.dirtyShutdowns + 1
  return left
}

describe('D-12: a save fails behind every start, and takes back that it was', () => {
  test('L6: keys, queue pairs, PSNs and incarnations are those of no earlier one', () => {
    let part = formatted()
    const superblock = part.durable.slice(0, LANES_AT)
    const handed: number[][] = [[], [], [], []]
    for (let life = 0; life < LIVES; life++) {
      const card = new TestCard(part, { facts: SAME })
      const qp = card.connect()
      const { incarnation } = readSuperblock(part.durable)!
      const values = [card.open().rkey, qp.number, qp.psn, incarnation]
      for (const [i, value] of values.entries()) handed[i]!.push(value)
      part = takenBack(part, superblock)
    }
    for (const values of handed) expect(new Set(values).size).toBe(LIVES)
    expect(handed[3]).toEqual([...handed[3]!].sort((a, b) => a - b))
  })

  test('I3: what is written then is newer than what was, and is acknowledged for good', () => {
    const first = formatted()
    const superblock = first.durable.slice(0, LANES_AT)
    const before = new TestCard(first)
    const region = before.open()
    const qp = before.connect()
    for (let i = 0; i < 3; i++) before.serve(...persistFrames(qp, region, 0, dataOf(64, i)))
    before.idle()
    const card = new TestCard(takenBack(first, superblock))
    let told = new Uint8Array()
    card.machine.observe({
      onCommand: (_, op) => {
        if (op === TRANSMIT) told = card.nvdimm.durable.slice()
      },
    })
    const frames = persistFrames(card.connect(), card.open(), 0, dataOf(64, 9), { wait: 1 })
    expect(persistAcks(card.serve(...frames))).toMatchObject([{ status: 0, copies: 1 }])
    const part = new Nvdimm({ bytes: told.length, content: told })
    part.dirtyShutdowns = card.nvdimm.dirtyShutdowns
    const after = new TestCard(part)
    expect(after.read(after.connect(), after.open(), 0, 0, 64)).toEqual(dataOf(64, 9))
  })
})

describe('D-12: the count of saves that failed', () => {
  const LAST = INCARNATIONS - 2

  /** The incarnations of starts with these counts, one after the other. */
  function incarnations(...counts: readonly number[]): number[] {
    const sb = createSuperblock(new ArrayBuffer(MEMORY_BYTES))
    return counts.map((count) => {
      beginIncarnation(sb, count)
      return incarnationOf(sb)
    })
  }

  test('where it has not moved a start costs one incarnation, and else it costs more', () => {
    const [one, two, three] = incarnations(0, 0, 1)
    expect([one, two]).toEqual([1, 2])
    expect(three).toBeGreaterThan(3)
  })

  test('however it jumps, and back, there is room for more starts', () => {
    const found = incarnations(0xffffffff, 0, 2 ** 31)
    expect(found).toEqual([...found].sort((a, b) => a - b))
    expect(found.at(-1)).toBeLessThan(LAST / 64)
  })

  test('the last incarnation is not passed', () => {
    const found = incarnations(...Array.from({ length: 1000 }, (_, i) => 100 * i))
    expect(found.at(-1)).toBe(LAST)
  })
})
