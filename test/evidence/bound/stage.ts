/**
 * C10: recovery is bounded. The lines of the medium that a start reads depend on the work that was
 * in flight, and on nothing else: not on how large the part is (crash-model 3.3).
 *
 * Invariants:
 * - The same life is led on parts of 1 MiB, 1 GiB and 1 TiB: the records lie at the end of the
 *   part, behind a region of bytes that takes all the room before. The same burst is cut before the
 *   same fence, and the same pending chunks survive.
 * - The lines are counted outside the firmware (sparse.ts). The firmware's own figure is compared
 *   with that; it is not what is judged.
 * - What was recovered is looked at as well: a bound that is kept by doing nothing is none.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CUT_STRATEGIES, type CutStrategy, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  dataOf,
  persistFrames,
  type TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import {
  copyAt,
  LANES,
  LANES_AT,
  LINE_BYTES,
  laneNames,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
  PAGE_BYTES,
  type RegionLayout,
  readLane,
  readSuperblock,
  sameBytes,
  slotValid,
} from '../../support/judges/oracle.ts'
import type { Replayed, Shard, Size, Stage, Tally, Violation } from '../stage.ts'
import { sparseCard } from './sparse.ts'

/** How large the parts are, the smallest first. */
export const PART_SIZES: readonly number[] = [2 ** 20, 2 ** 30, 2 ** 40]

/** Bytes of the dense part behind: all of the smallest one. */
const WINDOWS_BYTES: number = 2 ** 20

/** Records of the region, and how many of them, the first ones, are written. */
const SLOTS = 40
const WRITTEN = 32

const LEVELS: readonly (readonly [wait: number, copies: number])[] = [
  [1, 2],
  [2, 2],
  [2, 3],
]
const RECORD_SIZES = [64, 4096]
const IN_FLIGHT = [0, 1, 2, 4, 8, 16, 32]
/** Fences of a group's commit, and behind them no cut. */
const FENCES = 5

type CutAt = readonly [fence: number, strategy: CutStrategy]

/** All that was pending survives at one fence, and none of it at the next: that is the same. */
const CUT_ALL: readonly CutAt[] = Array.from({ length: FENCES + 1 }, (_, fence) => fence).flatMap(
  (fence) =>
    (['none', 'half', 'exactly-one'] as const).map((strategy) => [fence, strategy] as const),
)
/** Lanes that are torn, and lanes that name records of which nothing was stored. */
const CUT_FEW: readonly CutAt[] = [
  [0, 'half'],
  [1, 'none'],
]
const CUT_NOTHING: readonly CutAt[] = [[0, 'none']]

/** Lines that a start reads whatever is in flight: the superblock, the lanes, the table. */
const SUPERBLOCK_LINES: number = (2 * PAGE_BYTES) / LINE_BYTES
/** The superblock is read as it was found, and once more before it is updated. */
const ALWAYS: number = 2 * SUPERBLOCK_LINES + LANES + OPERATIONS_BYTES / LINE_BYTES

/** What is done to a part, except for its size. */
export interface Life {
  readonly wait: number
  readonly copies: number
  readonly bytes: number
  readonly inFlight: number
  /** The cut comes before this fence of the burst; from `FENCES` on, behind all of it. */
  readonly fence: number
  readonly strategy: CutStrategy
  readonly seed: number
  /** Damage on purpose: the last save is said to have failed, so that everything is scanned. */
  readonly scanned?: boolean
}

/** What a start of a part of that size was seen to do. */
interface Measured {
  readonly partBytes: number
  /** Lines read, each time counted; and different ones. */
  readonly reads: number
  readonly lines: number
  /** What the firmware says. */
  readonly said: number
  /** Lanes that named a record, and lanes that were torn, as the oracle read them before. */
  readonly lanes: number
  readonly torn: number
  /** The firmware's own count of the former. */
  readonly lanesSaid: number
  readonly complaint: string | null
}

function pagesOf(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
}

/** Takes all room before the records. */
function fill(card: TestCard, length: number): void {
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, (body) => {
    body.set(new TextEncoder().encode('before'), mad.REGION_NAME)
    body[mad.REGION_KIND] = mad.KIND_BYTES
    putU32(body, mad.REGION_LENGTH_HIGH, Math.floor(length / 2 ** 32))
    putU32(body, mad.REGION_LENGTH_LOW, length % 2 ** 32)
  })
}

/** Parts with every record written, by their size and shape, and the fences of the next burst. */
const prepared = new Map<string, Uint8Array>()
const fences = new Map<string, readonly number[]>()

function once<Value>(known: Map<string, Value>, name: string, make: () => Value): Value {
  let value = known.get(name)
  if (value === undefined) {
    value = make()
    known.set(name, value)
  }
  return value
}

/**
 * Formats a part, makes its two regions, of which the second ends with it, and writes records. They
 * wait for every copy, whatever the life does: the part is the same for all that go on from it.
 */
function prepare(partBytes: number, life: Life): Uint8Array {
  const { copies, bytes } = life
  const part = new Nvdimm({ bytes: WINDOWS_BYTES })
  const { card } = sparseCard(part, partBytes)
  card.format()
  const recordsBytes = copies * pagesOf(SLOTS * (LINE_BYTES + bytes))
  fill(card, partBytes - recordsBytes - OPERATIONS_AT - OPERATIONS_BYTES)
  const region = card.provision({ slots: SLOTS, capacity: bytes, copies })
  card.serve(...burst(card, region, { ...life, wait: copies, inFlight: WRITTEN }, 1))
  card.idle()
  return part.durable
}

/** One burst of writes into the first records. */
function burst(card: TestCard, region: TestRegion, life: Life, version: number): Uint8Array[] {
  const qp = card.connect()
  return Array.from({ length: life.inFlight }, (_, slot) => {
    const data = written(life.bytes, version, slot)
    const operation = 1000 * version + slot
    return persistFrames(qp, region, slot, data, { wait: life.wait, operation })[0]!
  })
}

/** The numbers of the fences that the burst runs, counted from its first command. */
function fencesOf(content: Uint8Array, partBytes: number, life: Life): number[] {
  const { card } = sparseCard(new Nvdimm({ bytes: WINDOWS_BYTES, content }), partBytes)
  const frames = burst(card, card.open(), life, 2)
  const numbers: number[] = []
  const first = card.machine.commandCount
  card.machine.observe({
    onCommand: (number, op) => {
      if (op === FENCE) numbers.push(number - first)
    },
  })
  card.serve(...frames)
  return numbers
}

/** Leads a life up to the cut: the part as it comes up. */
function cutLife(partBytes: number, life: Life): Nvdimm {
  const shape = `${partBytes} ${life.copies} ${life.bytes}`
  const content = once(prepared, shape, () => prepare(partBytes, life))
  const name = `${shape} ${life.wait} ${life.inFlight}`
  const ats = life.inFlight > 0 ? once(fences, name, () => fencesOf(content, partBytes, life)) : []
  const part = new Nvdimm({ bytes: WINDOWS_BYTES, content })
  // All cards share their packet memory: from here on it is this one's.
  const { card } = sparseCard(part, partBytes)
  if (life.inFlight > 0) {
    const frames = burst(card, card.open(), life, 2)
    const at = ats[life.fence]
    if (at !== undefined) card.machine.armCut(at)
    card.serve(...frames)
  }
  cut(part, { random: new Random(life.seed), strategy: life.strategy })
  if (life.scanned === true) part.failSave()
  return part
}

/** Leads a life on a part of that size, and starts it again. */
export function measure(partBytes: number, life: Life): Measured {
  const part = cutLife(partBytes, life)
  let lanes = 0
  let torn = 0
  for (let lane = 0; lane < LANES; lane++) {
    const at = LANES_AT + lane * LINE_BYTES
    const line = part.durable.subarray(at, at + LINE_BYTES)
    if (laneNames(line)) lanes += 1
    else if (readLane(line).state !== 'clear') torn += 1
  }
  const { card, atStart } = sparseCard(part, partBytes)
  const { reads, distinct } = atStart
  const status = card.status()
  return {
    ...{ partBytes, reads, lines: distinct, lanes, torn },
    said: u32(status, mad.PART_LINES_READ),
    lanesSaid: u32(status, mad.PART_LANES_ACTIVE),
    complaint: complaintOf(part, partBytes, life),
  }
}

const versions = new Map<string, number>()
const datas = new Map<string, Uint8Array>()

/** What a burst writes into a record: the first one, or the second. */
function written(bytes: number, version: number, slot: number): Uint8Array {
  const seed = 1000 * version + slot
  return once(datas, `${bytes} ${seed}`, () => dataOf(bytes, seed))
}

/** Which version a copy is, wholly; 0 for none. What was looked at before is known. */
function versionOf(copy: Uint8Array, region: RegionLayout, slot: number): number {
  const { buffer, byteOffset, length } = copy
  const name = Buffer.from(buffer, byteOffset, length).toString('latin1')
  return once(versions, name, () => {
    if (!slotValid(copy, region, slot)) return 0
    const data = copy.subarray(LINE_BYTES)
    return [1, 2].find((v) => sameBytes(data, written(region.capacity, v, slot))) ?? 0
  })
}

/** What is wrong with the records, by the bytes; null if nothing is. */
function complaintOf(part: Nvdimm, partBytes: number, life: Life): string | null {
  const layout = readSuperblock(part.durable)!.regions[1]!
  const far = layout.at + layout.copies * layout.areaBytes
  if (far !== partBytes) return `the records end at byte ${far}, and not with the part`
  const near = { ...layout, at: layout.at - partBytes + WINDOWS_BYTES }
  for (let slot = 0; slot < WRITTEN; slot++) {
    const copies = Array.from({ length: life.copies }, (_, copy) => {
      const at = copyAt(near, copy, slot)
      return part.durable.subarray(at, at + layout.stride)
    })
    if (!copies.every((copy) => sameBytes(copy, copies[0]!))) return `record ${slot}: copies differ`
    const version = versionOf(copies[0]!, near, slot)
    if (version === 0) return `record ${slot} is no version that was written`
  }
  return null
}

/**
 * The most that a lane may cost, in lines read: its own check; of each copy the header, the image
 * for its check code, and a comparison with another copy on both sides; and the copy that is read
 * for the repairs.
 */
function mostOf(lanes: number, { copies, bytes }: Life): number {
  const image = 1 + bytes / LINE_BYTES
  return lanes * (copies * (1 + image + 2 * image) + copies * image)
}

/** What is to be objected to in the same life on parts of several sizes; null if nothing is. */
export function objection(life: Life, all: readonly Measured[]): string | null {
  for (const one of all) {
    const { partBytes, complaint, lanes, lanesSaid, reads, lines, said } = one
    const on = `a part of ${nameOf(partBytes)}`
    if (complaint !== null) return `${on}: ${complaint}`
    if (lanesSaid !== lanes) return `${on}: of ${lanes} lanes in flight it says ${lanesSaid}`
    if (reads > ALWAYS + mostOf(lanes, life)) return `${on}: ${reads} lines for ${lanes} lanes`
    if (lines !== said + SUPERBLOCK_LINES) return `${on}: ${lines} lines, and it says ${said}`
  }
  const [first, ...others] = all
  for (const other of others) {
    for (const what of ['lanes', 'torn', 'reads', 'lines', 'said'] as const) {
      if (other[what] === first![what]) continue
      const [here, there] = [first!, other].map(
        (one) => `${one[what]} with ${nameOf(one.partBytes)}`,
      )
      return `${what}: ${here}, ${there}`
    }
  }
  return null
}

function nameOf(partBytes: number): string {
  if (partBytes >= 2 ** 40) return `${partBytes / 2 ** 40} TiB`
  return partBytes >= 2 ** 30 ? `${partBytes / 2 ** 30} GiB` : `${partBytes / 2 ** 20} MiB`
}

/** A life in one line, and back. */
function scriptOf(life: Life): string {
  const { wait, copies, bytes, inFlight, fence, strategy, seed } = life
  return `${wait}of${copies} ${bytes} ${inFlight} ${fence} ${strategy} ${seed}`
}

export function lifeOf(script: string): Life {
  const [level, bytes, inFlight, fence, strategy, seed] = script.split(' ')
  const known = CUT_STRATEGIES.find((name) => name === strategy)
  if (known === undefined || seed === undefined) throw new Error(`not a life: ${script}`)
  const [wait, copies] = level!.split('of').map(Number)
  return {
    ...{ wait: wait!, copies: copies!, bytes: Number(bytes), inFlight: Number(inFlight) },
    ...{ fence: Number(fence), strategy: known, seed: Number(seed) },
  }
}

function levelOf({ wait, copies }: Life): string {
  return `${wait}of${copies}`
}

/** Every life of a level and a record size. */
function livesOf({ seed, options }: Shard): Life[] {
  const [wait, copies] = [Number(options.wait), Number(options.copies)]
  const bytes = Number(options.bytes)
  const lives: Life[] = []
  for (const inFlight of IN_FLIGHT) {
    const cuts = inFlight === 0 ? CUT_NOTHING : options.few === true ? CUT_FEW : CUT_ALL
    for (const [fence, strategy] of cuts) {
      for (let draw = 0; draw < (strategy === 'none' ? 1 : Number(options.draws)); draw++) {
        lives.push({ wait, copies, bytes, inFlight, fence, strategy, seed: seed + draw })
      }
    }
  }
  return lives
}

function shards(size: Size, seed: number): Shard[] {
  const draws = size === 'nightly' ? 50 : 1
  const few = size === 'cut'
  return LEVELS.flatMap(([wait, copies]) =>
    RECORD_SIZES.map((bytes) => ({
      name: `${wait}of${copies}, ${bytes} bytes`,
      seed,
      seconds: (bytes === 64 ? 1 : 4) * draws,
      options: { wait, copies, bytes, draws, few },
    })),
  )
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const lives = livesOf(shard)
  const described: Violation[] = []
  const cells: Record<string, number> = {}
  const different = new Set<string>()
  let violations = 0
  let read = 0
  let recoveries = 0
  lives.forEach((life, i) => {
    progress(i / lives.length)
    const all = PART_SIZES.map((partBytes) => measure(partBytes, life))
    const { lanes, torn, reads } = all[0]!
    recoveries += all.length
    for (const one of all) read += one.reads
    different.add(`${lanes} ${torn} ${reads}`)
    for (const name of cellsOf(life, lanes, torn)) cells[name] = (cells[name] ?? 0) + 1
    const what = objection(life, all)
    if (what === null) return
    violations += 1
    if (described.length < 3) described.push({ shard: shard.name, what, replay: scriptOf(life) })
  })
  const more = { 'lines of the medium read': read }
  const tally = { count: recoveries, distinct: different.size, seeds: 0, violations }
  return { ...tally, described, more, cells, pictures: [] }
}

function cellsOf(life: Life, lanes: number, torn: number): string[] {
  const of = `${levelOf(life)} ${life.bytes} B`
  const some = torn > 0 ? [`${of}, a torn lane`] : []
  return [`${of}, ${lanes} lanes`, ...some]
}

/** What no life has met: each number of lanes in flight, at each level and size, and a torn one. */
function lacks({ cells }: Tally): string[] {
  return LEVELS.flatMap(([wait, copies]) =>
    RECORD_SIZES.flatMap((bytes) => {
      const of = `${wait}of${copies} ${bytes} B`
      const wanted = [...IN_FLIGHT.map((lanes) => `${of}, ${lanes} lanes`), `${of}, a torn lane`]
      return wanted.filter((name) => cells[name] === undefined).map((name) => `${name}: never met`)
    }),
  )
}

async function replay(script: string): Promise<Replayed> {
  const life = lifeOf(script)
  const all = PART_SIZES.map((partBytes) => measure(partBytes, life))
  const where = life.fence < FENCES ? `before fence ${life.fence + 1}` : 'behind the last fence'
  const lines = [
    `${life.inFlight} records of ${life.bytes} bytes at ${levelOf(life)}, cut ${where};`,
    `of what was pending then there survives: ${life.strategy} (seed ${life.seed}).`,
    ...all.map((one) => {
      const found = `${one.lanes} lanes name a record, ${one.torn} are torn`
      const counted = `${one.reads} lines read, ${one.lines} different ones`
      return `  ${nameOf(one.partBytes)}: ${found}; ${counted}; it says ${one.said}`
    }),
  ]
  const what = objection(life, all)
  return { violated: what !== null, text: [...lines, what ?? 'Nothing to object to.'].join('\n') }
}

export const BOUND: Stage = {
  name: 'bound',
  id: 'C10',
  title: 'recovery reads no more of 1 TiB than of 1 MiB',
  unit: 'recoveries',
  floors: {
    cut: [{ of: 'count', least: 200 }],
    ci: [{ of: 'count', least: 1300 }],
    nightly: [{ of: 'count', least: 60_000 }],
  },
  shards,
  play,
  lacks,
  replay,
}
