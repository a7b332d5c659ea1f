/**
 * The crashes of what changes the part itself: format, provision, discard, removal, two updates in
 * a row, a start with work in flight, at every level, and the first start of a part of the version
 * before.
 */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { atFence } from '../../support/cards/fences.ts'
import { dataOf, persistFrames, type RegionShape, TestCard } from '../../support/cards/test-card.ts'
import { asVersion2 } from '../../support/cards/version-2.ts'
import { PART_BYTES } from '../../support/crash/part.ts'
import { LEVELS, type Level, levelName } from '../../support/crash/scenario.ts'
import {
  copyAt,
  LANES_AT,
  LINE_BYTES,
  OPERATIONS_AT,
  PAGE_BYTES,
  readSuperblock,
} from '../../support/judges/oracle.ts'
import { NOTHING, type Replayed, type Tally } from '../stage.ts'
import { type MetaFindings, type MetaPlay, playMeta } from './meta-player.ts'

type Changed = Partial<Facts>

function formatted(facts: Changed): TestCard {
  return new TestCard(PART_BYTES, { facts }).format()
}

const format: MetaPlay = {
  name: 'format',
  seconds: 2,
  part: () => new Nvdimm({ bytes: PART_BYTES }),
  during: (part, facts, watch) => {
    const card = new TestCard(part, { facts })
    card.machine.observe(watch)
    card.format()
  },
  states: ['blank', '0 regions'],
}

/** Where lanes and table will be there is something else, as a file system leaves it. */
const formatOver: MetaPlay = {
  ...format,
  name: 'format over what was there',
  part: () => {
    const content = new Uint8Array(PART_BYTES)
    content.set(dataOf(OPERATIONS_AT + 4096 - LANES_AT, 3), LANES_AT)
    return new Nvdimm({ bytes: PART_BYTES, content })
  },
}

/** Makes the region, and asks nothing else: what is answered is counted. */
function make(card: TestCard, shape: RegionShape): void {
  let { fault } = card.provisionAsIs(shape)
  while (fault === 'UNDER_WAY') ({ fault } = card.provisionAsIs(shape))
}

function provision(shape: RegionShape, name: string): MetaPlay {
  return {
    name,
    seconds: 6,
    part: (facts) => formatted(facts).nvdimm,
    during: (part, facts, watch) => {
      const card = new TestCard(part, { facts })
      card.machine.observe(watch)
      make(card, shape)
    },
    states: ['0 regions', '1 regions'],
  }
}

/** Two regions one behind the other, over one that is there: two updates of the superblock. */
const twoProvisions: MetaPlay = {
  name: 'two provisions',
  seconds: 8,
  part: (facts) => {
    const card = formatted(facts)
    card.provision({ name: 'first', slots: 1, copies: 2 })
    return card.nvdimm
  },
  during: (part, facts, watch) => {
    const card = new TestCard(part, { facts })
    card.machine.observe(watch)
    make(card, { name: 'second', kind: mad.KIND_BYTES, length: 64 })
    make(card, { name: 'third', kind: mad.KIND_BYTES, length: 64, domain: 3 })
  },
  states: ['1 regions', '2 regions', '3 regions'],
}

/** A part with records, of which the first has decayed in every copy. */
function withLoss(facts: Changed, { copies }: Level): Nvdimm {
  const card = formatted(facts)
  const region = card.provision({ slots: 2, copies })
  const qp = card.connect()
  for (const slot of [0, 1]) card.serve(...persistFrames(qp, region, slot, dataOf(64, slot)))
  card.idle()
  const part = card.nvdimm
  const layout = readSuperblock(part.durable)!.regions[0]!
  const content = part.durable.slice()
  for (let copy = 0; copy < copies; copy++) content[copyAt(layout, copy, 0) + 90]! ^= 0x10
  // A save that failed has everything looked at.
  const lost = new Nvdimm({ bytes: part.bytes, content })
  lost.dirtyShutdowns = 1
  new TestCard(lost, { facts })
  return lost
}

function discard(level: Level): MetaPlay {
  return {
    name: `discard, ${level.copies} copies`,
    seconds: 8,
    part: (facts) => withLoss(facts, level),
    during: (part, facts, watch) => {
      const card = new TestCard(part, { facts })
      const { id } = card.open()
      card.machine.observe(watch)
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
        putU32(body, mad.SETTLE_REGION, id)
        putU32(body, mad.SETTLE_RECORD, 0)
        body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
      })
    },
    states: ['1 regions, 1 records lost', '1 regions'],
  }
}

/** A region between two others goes: its entry is marked, its room cleared, its place is free. */
function removal({ copies }: Level): MetaPlay {
  return {
    name: `removal, ${copies} copies`,
    seconds: 8,
    part: (facts) => {
      const card = new TestCard(PART_BYTES + 8 * PAGE_BYTES, { facts }).format()
      for (const name of ['first', 'second', 'third']) {
        const region = card.provision({ name, slots: 1, copies })
        card.serve(...persistFrames(card.connect(), region, 0, dataOf(64, 1)))
        card.idle()
      }
      return card.nvdimm
    },
    during: (part, facts, watch) => {
      const card = new TestCard(part, { facts })
      card.machine.observe(watch)
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
        body.set(new TextEncoder().encode('second'), mad.REGION_NAME)
      })
      while (card.waitUs > 0) card.idle()
    },
    states: ['3 regions', '2 regions'],
  }
}

/** A part whose last group was cut before fence `fence`. */
function cutGroup(facts: Changed, { wait, copies }: Level, fence: number): Nvdimm {
  const card = formatted(facts)
  const region = card.provision({ slots: 3, copies })
  const qp = card.connect()
  const frames = (seed: number): Uint8Array[] =>
    [0, 2].flatMap((slot) => persistFrames(qp, region, slot, dataOf(64, seed + slot), { wait }))
  card.serve(...frames(1))
  card.idle()
  let content: Uint8Array | undefined
  atFence(card.machine, fence, () => {
    content = torn(card.nvdimm)
  })
  card.serve(...frames(9))
  if (content === undefined) throw new Error(`the group has no fence ${fence}`)
  return new Nvdimm({ bytes: PART_BYTES, content })
}

/** What is durable, and the second half of each line that is pending. */
function torn(part: Nvdimm): Uint8Array {
  const content = part.durable.slice()
  const { line, count } = part.pendingStores
  for (const one of line.subarray(0, count)) {
    const at = one * LINE_BYTES + LINE_BYTES / 2
    content.set(part.live.subarray(at, at + LINE_BYTES / 2), at)
  }
  return content
}

function startInFlight(level: Level, fence: number): MetaPlay {
  return {
    name: `start, ${levelName(level)}, cut before F${fence}`,
    seconds: fence === 3 ? 6 : 1,
    part: (facts) => cutGroup(facts, level, fence),
    during: (part, facts, watch) => {
      new TestCard(part, { facts, watch }).machine.observe({})
    },
    states: ['1 regions'],
    settled: true,
    // Which lanes are cleared is the same for all; one of each level has every subset of it.
    ...(fence === 3 ? {} : { most: 2 ** 12 }),
  }
}

/** A part of the version before, with a group that was cut, and its first start. */
const upgrade: MetaPlay = {
  ...startInFlight({ wait: 2, copies: 2 }, 3),
  name: 'start of a part of version 2',
  part: (facts) => {
    const part = cutGroup(facts, { wait: 2, copies: 2 }, 3)
    return new Nvdimm({ bytes: part.bytes, content: asVersion2(part.durable) })
  },
  most: 2 ** 12,
}

/** Levels by their number of copies alone: nothing waits for a copy here. */
const BY_COPIES: readonly Level[] = LEVELS.filter(({ wait }) => wait === 2)

export const META: readonly MetaPlay[] = [
  format,
  formatOver,
  twoProvisions,
  ...BY_COPIES.flatMap((level) => {
    const { copies } = level
    return [
      provision({ slots: 1, copies }, `provision of a record, ${copies} copies`),
      provision({ slots: 3, copies, flags: 1 }, `provision of three records, ${copies} copies`),
      discard(level),
      removal(level),
    ]
  }),
  ...LEVELS.flatMap((level) => [1, 2, 3, 4].map((fence) => startInFlight(level, fence))),
  upgrade,
]

function playNamed(name: string): MetaPlay {
  const found = META.find((play) => play.name === name)
  if (found === undefined) throw new Error(`no play is called ${name}`)
  return found
}

/** Plays one of META: what a shard of the crash stage does. */
export function metaTally(name: string, shard: string, seed: number, most: number): Tally {
  const found = playMeta(playNamed(name), { seed, most })
  const { witnesses, aims, cells, points, reduced, nested, compared } = found
  return {
    ...NOTHING,
    count: found.images + nested,
    distinct: found.distinct,
    violations: found.violations,
    described: witnesses.map((what, i) => {
      return { shard, what, replay: `meta ${seed} ${most} ${aims[i]} ${name}` }
    }),
    more: {
      'crash points': points,
      'crash points by lines': reduced,
      'images of cut recoveries': nested,
      'boots of the whole card beside': compared,
    },
    cells: Object.fromEntries(cells),
  }
}

/** Plays one image again: `meta SEED MOST IMAGE NAME`. */
export function metaReplay(argument: string): Replayed {
  const [, seed, most, aim, ...name] = argument.split(' ')
  const look = { seed: Number(seed), most: Number(most), aim: Number(aim) }
  const { story, witnesses, violations }: MetaFindings = playMeta(playNamed(name.join(' ')), look)
  const text = [name.join(' '), ...story, ...witnesses].join('\n')
  return { violated: violations > 0, text }
}
