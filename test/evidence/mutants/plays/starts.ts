/**
 * Starts that are cut, and cut again: the superblock, the lanes and the records that a start has to
 * leave whole at every instant (D-14, P1-26; fault H12).
 *
 * Invariant: power goes before a fence, since between two fences what is pending only
 * grows; the last start is not cut, and must serve, with the record as it was, as a new life.
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../../boards/emulator/medium/power-cut.ts'
import { FENCE } from '../../../../firmware/board/hal.ts'
import { dataOf, persistFrames, TestCard } from '../../../support/cards/test-card.ts'
import { mediaOf, partOf } from '../../../support/crash/explorer.ts'
import {
  linesOfCopy,
  PAGE_BYTES,
  readSuperblock,
  sameBytes,
  usedBytes,
} from '../../../support/judges/oracle.ts'
import type { Play } from '../killer.ts'

const DATA = dataOf(64, 1)
/** Images that are drawn of each pair of cuts; of what is pending each chunk may be there. */
const ROUNDS = 4

/** Starts the part, and takes the power before fence number `at`; false if there are fewer. */
function cutStart(part: Nvdimm, at: number, seed: number): boolean {
  let fences = 0
  let off = false
  try {
    new TestCard(part, {
      watch: {
        onCommand: (_, op) => {
          if (op !== FENCE) return
          fences += 1
          off = fences === at
          if (off) throw new Error('no power')
        },
      },
    })
  } catch (error) {
    // The machine's own end is what was asked for; anything else is a bug.
    if (!off) throw error
  }
  cut(part, { random: new Random(seed), strategy: 'half' })
  return off
}

/** A part with a record whose lane says B, and copy B still the old one. */
function interrupted(): Nvdimm {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ slots: 4 })
  const qp = card.connect()
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
  card.idle()
  let fences = 0
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE) fences += 1
      if (op === FENCE && fences === 3) card.machine.armCut(2)
    },
  })
  card.serve(...persistFrames(qp, region, 0, DATA))
  cut(card.nvdimm, { random: new Random(1), strategy: 'none' })
  return card.nvdimm
}

function complaint(part: Nvdimm, least: number): string | null {
  const card = new TestCard(part)
  const incarnation = readSuperblock(part.durable)?.incarnation ?? -1
  if (incarnation <= least) return `incarnation ${incarnation} after ${least}`
  const region = card.open('records')
  const data = card.read(card.connect(), region, 0, 0, 64)
  return data !== null && sameBytes(data, DATA) ? null : 'the record is another one'
}

/** Two starts are cut, one after the other, at every pair of fences. */
function starts(): string | null {
  const begin = interrupted()
  const content = begin.durable.slice()
  const { incarnation } = readSuperblock(content)!
  for (let first = 1; ; first++) {
    let there = false
    for (let round = 0; round < ROUNDS; round++) {
      for (let second = 1; ; second++) {
        const part = new Nvdimm({ bytes: content.length, content })
        there = cutStart(part, first, 100 * first + round)
        const both = cutStart(part, second, 1000 * first + 10 * second + round)
        const said = complaint(part, incarnation)
        if (said !== null) return `cut before fence ${first}, then ${second}, ${round}: ${said}`
        if (!both) break
      }
    }
    if (!there) return null
  }
}

/** One bit of a page of the superblock turns: the other page says the same. */
function decay(): string | null {
  const card = new TestCard(interrupted())
  const content = card.nvdimm.durable.slice()
  const used = usedBytes(content)
  for (const page of [0, PAGE_BYTES]) {
    for (let at = 0; at < used; at += 12) {
      const part = new Nvdimm({ bytes: content.length, content })
      part.durable[page + at]! ^= 1
      part.live[page + at]! ^= 1
      const said = complaint(part, 0)
      if (said !== null) return `byte ${at} of the page at ${page} has turned: ${said}`
    }
  }
  return null
}

/** Records of the life before have greater counters, and smaller sequences. */
function lives(): string | null {
  let card = new TestCard(1 << 17).format()
  card.provision({ slots: 4 })
  for (let life = 0; life < 5; life++) {
    const region = card.open('records')
    const qp = card.connect()
    for (let i = 0; i < 5 && life === 0; i++)
      card.serve(...persistFrames(qp, region, 0, dataOf(64, i)))
    card.idle()
    let fences = 0
    card.machine.observe({
      onCommand: (_, op) => {
        if (op === FENCE) fences += 1
        if (op === FENCE && fences === 3) card.machine.armCut(2)
      },
    })
    const data = dataOf(64, 50 + life)
    card.serve(...persistFrames(qp, region, 0, data, { wait: 1 }))
    const part = card.nvdimm
    cut(part, { random: new Random(life), strategy: life % 2 === 0 ? 'none' : 'half' })
    card = new TestCard(part)
    const found = card.read(card.connect(), card.open('records'), 0, 0, 64)
    if (found === null || !sameBytes(found, data)) return `life ${life}: an older record is there`
  }
  return null
}

/** Of three copies a start repairs two, is cut, and the medium loses a line of the third (D-4). */
function repairs(): string | null {
  const media = mediaOf({ wait: 2, copies: 3 })
  const whole = [media.oldData, media.freshData]
  for (let fence = 1; ; fence++) {
    for (let seed = 0; seed < ROUNDS; seed++) {
      const part = partOf(media, [media.fresh, media.old, media.old], media.laneB)
      if (!cutStart(part, fence, seed)) return null
      for (const line of linesOfCopy(media.layout, 0, 0)) part.poison(line)
      const card = new TestCard(part)
      const { capacity, name } = media.layout
      const data = card.read(card.connect(), card.open(name), 0, 0, capacity)
      if (data === null || !whole.some((one) => sameBytes(one, data))) {
        return `cut before fence ${fence}, ${seed}, and copy A lost: no copy is whole`
      }
    }
  }
}

export const STARTS: Readonly<Record<string, Play>> = {
  'a start that is cut': starts,
  'a page that decays': decay,
  'lives of a part': lives,
  'a repair that is cut': repairs,
}
