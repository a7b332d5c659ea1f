/**
 * The books that the firmware keeps, against plain sets and lists: which records are unsettled or
 * wait for the host, which are in the group, which operations are durable, which pages of the pool
 * are whose, what a host has proven, which blocks are hinted at.
 *
 * Invariant: the model beside each book is a few lines that are plainly right; what is done
 * to both is drawn, and after each step all that can be asked is compared.
 */

import { expect, test } from 'vitest'
import { Random } from '../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../boards/emulator/run/machine.ts'
import { PASS, PLACEMENT_UNKNOWN } from '../../firmware/board/fault.ts'
import {
  CLIENTS,
  LANES,
  LINE_BYTES,
  ON_DEMAND_PAGES,
  ON_DEMAND_REGIONS,
  SCRUB_CLIENTS,
} from '../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../firmware/board/memory-map.ts'
import {
  blankItem,
  type Commit,
  createGroupIndex,
  endPending,
  groupAdd,
  groupHolds,
  heldIntent,
  leavePending,
  type Pending,
} from '../../firmware/commit/commit.ts'
import {
  beginOperation,
  findClient,
  isDurable,
  isForgotten,
  isNewOperation,
  NO_CLIENT,
  noteNewOperation,
  recordOperation,
  recoverOperation,
  scrubLines,
  takeClient,
  writeImages,
} from '../../firmware/commit/operations.ts'
import { createProof, PLACEMENT_UNPROVEN, prove, rightsOf } from '../../firmware/commit/proof.ts'
import { deriveUnsettled, letGo, type UnsettledRecord } from '../../firmware/commit/unsettled.ts'
import type { State } from '../../firmware/core.ts'
import { createState } from '../../firmware/main.ts'
import { boot } from '../../firmware/manage/boot.ts'
import {
  blankIntent,
  type Intent,
  PHASE_A,
  PHASE_B,
  PHASE_HELD,
  PHASE_NONE,
} from '../../firmware/medium/lane.ts'
import {
  addOperation,
  blankLine,
  dropOperation,
  knowsOperation,
  mayBeForgotten,
  OPERATION_LINE_WORDS,
  OPERATION_WINDOW,
} from '../../firmware/medium/operation-line.ts'
import {
  BYTES_RIGHTS,
  createRegionTable,
  KIND_BYTES,
  KIND_RECORDS,
  PLACEMENT_BYPASS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  RECORDS_RIGHTS,
  REMOTE_ATOMIC,
  REMOTE_READ,
  type Region,
  WRITE_PERSIST,
  WRITE_PERSIST_REGION,
} from '../../firmware/medium/region.ts'
import {
  addLost,
  createSuperblock,
  formatPart,
  OPERATIONS_AT,
  removeLost,
  setOverfull,
} from '../../firmware/medium/superblock.ts'
import {
  BY_TABLE,
  createTranslation,
  releasePages,
  takePages,
} from '../../firmware/medium/translation.ts'
import {
  associated,
  createBlocks,
  PHASE_TOLD,
  resize,
  setBlock,
} from '../../firmware/residency/blocks.ts'
import { nextHintedBlocks, waitUntilUs } from '../../firmware/residency/hints.ts'
import { FACTS } from '../support/cards/test-card.ts'
import { THOROUGH } from '../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 20261123)
const STEPS = 60

const PHASES: readonly number[] = [PHASE_A, PHASE_B, PHASE_HELD, PHASE_NONE]

/** Regions of which nothing is looked at but who they are, and what is counted. */
function regions(): Region[] {
  return [1, 2, 5].map((id, index) => ({ id, index, unsettled: 0, pending: 0 }) as Region)
}

function intentOf(region: Region, record: number): Intent {
  return { ...blankIntent(), regionId: region.id, record }
}

test('D-14: a region has as many unsettled records as the list and the lanes name', () => {
  const random = new Random(SEED)
  const superblock = createSuperblock(new ArrayBuffer(MEMORY_BYTES))
  const all = regions()
  const lanes = new Array<UnsettledRecord | null>(LANES).fill(null)
  const listed = new Set<string>()
  const overfull = new Set<Region>()
  for (let step = 0; step < STEPS; step++) {
    const region = all[random.below(all.length)]!
    const record = random.below(4)
    const [what, lane] = [random.below(6), random.below(LANES)]
    // No two lanes that stay speak of one record.
    const speaks = lanes.some((one) => one?.regionId === region.id && one.record === record)
    if (what < 2 && !speaks) lanes[lane] = { ...blankIntent(), regionId: region.id, record }
    if (what === 2) lanes[lane] = null
    if (what === 3 && addLost(superblock, region.id, record)) listed.add(`${region.id} ${record}`)
    if (what === 4) {
      removeLost(superblock, region.id, record)
      listed.delete(`${region.id} ${record}`)
      letGo(lanes, region, record)
    }
    if (what === 5) {
      const is = random.chance(0.5)
      setOverfull(superblock, region.index, is)
      if (is) overfull.add(region)
      else overfull.delete(region)
    }
    const named = lanes.flatMap((one) => (one === null ? [] : [`${one.regionId} ${one.record}`]))
    if (what === 4) expect(named).not.toContain(`${region.id} ${record}`)
    for (const one of all) {
      deriveUnsettled(superblock, lanes, one)
      const records = [...new Set([...named, ...listed])].filter((name) => {
        return name.startsWith(`${one.id} `)
      })
      expect(one.unsettled, `step ${step}`).toBe(records.length + (overfull.has(one) ? 1 : 0))
    }
  }
})

test('R1-A1: what waits for the host is held, or taken back, until it is judged', () => {
  const random = new Random(SEED)
  const all = regions()
  const none = (): null[] => new Array<null>(LANES).fill(null)
  const lanes: Pending = {
    held: none(),
    takenBack: none(),
    pending: none(),
    undecided: none(),
    phases: new Uint8Array(LANES),
  }
  const waits = new Map<number, { region: Region; record: number; phase: number }>()
  for (let step = 0; step < STEPS; step++) {
    const lane = random.below(LANES)
    const now = waits.get(lane)
    if (now === undefined) {
      const [region, record] = [all[random.below(all.length)]!, 10 * lane + random.below(3)]
      const phase = PHASES[random.below(PHASES.length)]!
      leavePending(lanes, lane, region, intentOf(region, record), phase)
      waits.set(lane, { region, record, phase })
    } else {
      endPending(lanes, lane, now.region)
      waits.delete(lane)
      // Of a lane that does not wait nothing ends.
      const other = intentOf(now.region, now.record)
      lanes.held[lane] = other
      endPending(lanes, lane, now.region)
      expect(lanes.held[lane]).toBe(other)
      lanes.held[lane] = null
    }
    const own = all.map((region) => [...waits.values()].filter((one) => one.region === region))
    expect(all.map(({ pending }) => pending)).toEqual(own.map(({ length }) => length))
    const named = (of: readonly (Intent | null)[]) => of.map((one) => one?.record ?? null)
    const wanted = (...phases: readonly number[]) => {
      return lanes.held.map((_, i) => {
        const one = waits.get(i)
        return one !== undefined && phases.includes(one.phase) ? one.record : null
      })
    }
    const found = [named(lanes.pending), named(lanes.held), named(lanes.takenBack)]
    const want = [wanted(...PHASES), wanted(PHASE_B, PHASE_HELD), wanted(PHASE_A)]
    expect(found, `step ${step}`).toEqual(want)
    for (const [i, { region, record, phase }] of waits) {
      const asked = [0, 5].map((more) => heldIntent(lanes.pending, region, record + more))
      expect([lanes.phases[i], asked]).toEqual([phase, [lanes.pending[i], null]])
    }
  }
})

test('I4: a group knows whether it has a record, whatever its slots', () => {
  const random = new Random(SEED)
  const all = regions()
  const index = createGroupIndex()
  for (let group = 0; group < 10; group++) {
    const items = Array.from({ length: 32 }, () => blankItem(all[0]!))
    const commit = { items, count: 0 } as unknown as Commit
    const held = new Set<string>()
    while (commit.count < items.length) {
      // Slots that fall together in the index, and such that do not.
      const slot = random.chance(0.5) ? 256 * random.below(6) : random.below(1024)
      const region = all[random.below(all.length)]!
      const name = `${region.id} ${slot}`
      expect(groupHolds(index, commit, region, slot), name).toBe(held.has(name))
      if (held.has(name)) continue
      items[commit.count]!.slot = slot
      items[commit.count]!.region = region
      commit.count += 1
      groupAdd(index, commit)
      held.add(name)
    }
    index.stamp += 1
  }
})

test('P5-27: no two regions share a page of the pool; a piece is found if there is one', () => {
  const random = new Random(SEED)
  const table = createTranslation(true)
  const pieces = new Map<number, number>()
  let refused = 0
  for (let step = 0; step < STEPS; step++) {
    const place = random.below(ON_DEMAND_REGIONS)
    if (pieces.has(place)) {
      releasePages(table, place)
      pieces.delete(place)
    } else {
      const pages = 1 + random.below(ON_DEMAND_PAGES >> random.below(5))
      // A gap begins at 0, or behind a piece.
      const used = [...pieces].map(([one, of]) => [table.first[one]!, table.first[one]! + of])
      const begins = [0, ...used.map(([, end]) => end!)]
      const fits = begins.some((at) => {
        const end = at + pages
        return end <= ON_DEMAND_PAGES && used.every(([from, to]) => end <= from! || to! <= at)
      })
      expect(takePages(table, place, pages, BY_TABLE), `step ${step}`).toBe(fits)
      if (fits) pieces.set(place, pages)
      else refused += 1
    }
    const used = [...pieces].map(([one, of]) => [table.first[one]!, table.first[one]! + of])
    for (const [i, [from, to]] of used.entries()) {
      expect(from! >= 0 && to! <= ON_DEMAND_PAGES).toBe(true)
      for (const [other, end] of used.slice(0, i)) expect(to! <= other! || end! <= from!).toBe(true)
    }
  }
  expect(refused).toBeGreaterThan(0)
})

test('P2-12: a host proves what it has seen by the whole number of the last probe alone', () => {
  const SEEN = [0, PLACEMENT_BYPASS, PLACEMENT_THROUGH, 7]
  for (const [high, low] of [
    [0, 0],
    [1, 0],
    [0, 1],
    [3, 4],
  ] as const) {
    for (const seen of SEEN) {
      for (let wrong = 0; wrong < 4; wrong++) {
        const placement = createProof()
        placement.numberHigh = high
        placement.numberLow = low
        const table = createRegionTable()
        const fault = prove(placement, table, seen, high + (wrong & 1), low + (wrong >> 1))
        const known = seen === PLACEMENT_BYPASS || seen === PLACEMENT_THROUGH
        const believed = wrong === 0 && (high !== 0 || low !== 0) && known
        expect(fault).toBe(believed ? PASS : PLACEMENT_UNKNOWN)
        expect(placement.proven).toBe(believed ? seen : PLACEMENT_UNPROVEN)
      }
    }
  }
})

test('P5-14: a hint names the next blocks that an access needs and nobody has hinted at', () => {
  const random = new Random(SEED)
  const SIZE = 4096
  const COUNT = 8
  const AFTER = 1000
  for (let round = 0; round < STEPS; round++) {
    const b = createBlocks(COUNT, 4)
    associated(b, COUNT * SIZE, 1)
    resize(b, 12)
    b.phase = PHASE_TOLD
    const ready = Array.from({ length: COUNT }, () => random.chance(0.4))
    for (const [block, is] of ready.entries()) setBlock(b, block, is)
    const until = ready.map(() => 0)
    for (let turn = 0; turn < 4; turn++) {
      const now = 1 + turn * 600
      // Edges of blocks, and what lies beside them.
      const edge = (): number => SIZE * random.below(COUNT + 1) + random.below(3) - 1
      const [one, other] = [edge(), edge()].map((at) => Math.min(Math.max(at, 0), COUNT * SIZE))
      const [from, end] = [Math.min(one!, other!), Math.max(one!, other!)]
      const touched = ready.flatMap((_, block) => {
        return block * SIZE < end && (block + 1) * SIZE > from && end > from ? [block] : []
      })
      const waited = Math.max(0, ...touched.map((block) => (ready[block] ? 0 : until[block]!)))
      expect(waitUntilUs(b, from, end - from)).toBe(waited)
      const wanting = touched.filter((block) => !ready[block] && until[block]! <= now)
      const run = wanting.filter((block, i) => block === wanting[0]! + i)
      expect(nextHintedBlocks(b, from, end - from, now, AFTER)).toBe(run.length > 0)
      if (run.length === 0) continue
      expect([b.hintFirst, b.hintCount]).toEqual([run[0], run.length])
      for (const block of run) until[block] = now + AFTER
    }
  }
})

const ALL = 2n ** 32n
const WINDOW = BigInt(OPERATION_WINDOW)

/** Both halves of an id, as words without a sign. */
function halves(id: bigint): [high: number, low: number] {
  return [Number(id / ALL), Number(id % ALL)]
}

test('D-6: a line knows the last operations of its client, and calls no other durable', () => {
  const random = new Random(SEED)
  const words = new Int32Array(3 * OPERATION_LINE_WORDS)
  const w = OPERATION_LINE_WORDS
  for (const first of [1n, 2n ** 31n - 60n, 2n ** 32n - 60n, 2n ** 63n - 60n]) {
    blankLine(words, w, 3, 0x90000000)
    const done = new Set<bigint>()
    let newest = first - 1n
    for (let step = 0; step < 2 * STEPS; step++) {
      const jump = [1, 1, 1, 1, 1, 2, 3, 126, 127, 128, 129, 2 ** 32 + 1][random.below(12)]!
      const steps = random.chance(0.9) ? 1n : BigInt(jump)
      const behind = BigInt(random.below(OPERATION_WINDOW))
      const isOld = random.chance(0.1) && newest - behind >= first
      const operation = isOld ? newest - behind : newest + steps
      addOperation(words, w, ...halves(operation))
      done.add(operation)
      if (operation > newest) newest = operation
      if (random.chance(0.05)) {
        const taken = newest - BigInt(random.below(8))
        dropOperation(words, w, ...halves(taken < 0n ? 0n : taken))
        done.delete(taken)
      }
      for (let i = 0; i < 4; i++) {
        const asked = newest + 2n - BigInt(random.below(2 * OPERATION_WINDOW))
        if (asked < 1n) continue
        const knows = knowsOperation(words, w, ...halves(asked))
        const name = `${asked} of ${newest}, step ${step}`
        if (knows && asked >= first) expect(done.has(asked), name).toBe(true)
        if (done.has(asked) && newest - asked < WINDOW) expect(knows, name).toBe(true)
        if (knows || !done.has(asked)) continue
        expect(mayBeForgotten(words, w, ...halves(asked)), name).toBe(true)
      }
    }
    expect([words[w - 1], words[w + OPERATION_LINE_WORDS]]).toEqual([0, 0])
  }
})

const PART_BYTES = 1 << 18

function started(nvdimm: Nvdimm): State {
  const facts = { ...FACTS, nvdimmBytes: nvdimm.bytes }
  const state = createState(new EmulatedMachine({ facts, nvdimm, transmit: () => {} }))
  boot(state)
  return state
}

test('D-6: each of many clients is known by all of its id, whichever line decays', () => {
  const random = new Random(SEED)
  const nvdimm = new Nvdimm({ bytes: PART_BYTES })
  let state = started(nvdimm)
  formatPart(state.list, state.superblock, new Uint8Array(16).fill(1), PART_BYTES)
  state = started(nvdimm)
  // Sequences of lines go over the end of a word.
  state.commit.operations.sequence = 2 ** 32 - 20
  const clients = Array.from({ length: 20 }, (_, i) => {
    return { high: word(random), low: 2 ** 26 * i + random.below(2 ** 26) }
  })
  // Two that differ in one half alone.
  clients.push({ high: 5, low: 6 }, { high: 6, low: 6 }, { high: 5, low: 7 })
  const newest = clients.map(() => 0n)
  for (let life = 0; life < 2; life++) {
    const { operations } = state.commit
    for (const [i, { high, low }] of clients.entries()) {
      const place = takeClient(operations, NO_CLIENT, high, low)
      newest[i] = BigInt(word(random)) + ALL * BigInt(life + 1)
      recordOperation(operations, place, ...halves(newest[i]!))
    }
    expect(writeImages(operations, state.list)).toBe(0)
    const decayed = new Set<number>()
    for (let i = 0; i < 6; i++) {
      const [place, which] = [random.below(clients.length), random.below(2)]
      if (decayed.has(place)) continue
      decayed.add(place)
      const at = OPERATIONS_AT + (2 * place + which) * LINE_BYTES + random.below(LINE_BYTES)
      nvdimm.durable[at]! ^= 1 << random.below(8)
      nvdimm.live.set(nvdimm.durable.subarray(at, at + 1), at)
    }
    if (life % 2 === 0) state = started(nvdimm)
    else {
      for (let at = 0; at < CLIENTS; at += SCRUB_CLIENTS) scrubLines(operations, state.list)
    }
    const known = state.commit.operations
    expect([known.mended, known.lost], `life ${life}`).toEqual([decayed.size, 0])
    for (const [i, { high, low }] of clients.entries()) {
      const place = findClient(known, NO_CLIENT, high, low)
      const [newestHigh, newestLow] = halves(newest[i]!)
      expect(isDurable(known, place, newestHigh, newestLow), `life ${life}, client ${i}`).toBe(true)
      expect(isDurable(known, place, newestHigh + 1, newestLow)).toBe(false)
      expect(isNewOperation(known, place, newestHigh, newestLow)).toBe(false)
      expect(isNewOperation(known, place, newestHigh + 1, 0)).toBe(true)
    }
    state = started(nvdimm)
    expect(state.commit.operations.mended).toBe(0)
  }
})

test(
  'X-3: what was executed is known or forgotten, whatever comes late, decays, or crowds',
  THOROUGH,
  () => {
    const random = new Random(SEED)
    const nvdimm = new Nvdimm({ bytes: PART_BYTES })
    let state = started(nvdimm)
    formatPart(state.list, state.superblock, new Uint8Array(16).fill(1), PART_BYTES)
    state = started(nvdimm)
    const executed: { client: number; operation: number }[] = []
    const waiting: { client: number; operation: number }[] = []
    const newest = new Map<number, number>()
    const named = ({ client, operation }: (typeof executed)[number]) => ({
      ...{ clientHigh: 0, clientLow: client, operationHigh: 0, operationLow: operation },
    })
    let late = 0
    for (let step = 0; step < 60 * STEPS; step++) {
      const { operations } = state.commit
      const drawn = random.below(100)
      // A few come all the time, many now and then.
      const client = 1 + (random.chance(0.7) ? random.below(6) : random.below(2 * CLIENTS))
      if (drawn < 80) {
        const operation = (newest.get(client) ?? 0) + 1 + (random.chance(0.1) ? random.below(4) : 0)
        newest.set(client, operation)
        const place = takeClient(operations, NO_CLIENT, 0, client)
        noteNewOperation(operations, place, 0, operation)
        beginOperation(operations, place, 0, operation)
        // Whoever has just come is served: nothing that was not asked for is forgotten.
        const whose = { clientHigh: 0, clientLow: client }
        expect(isForgotten(operations, place, whose, 0, operation), `step ${step}`).toBe(false)
        if (random.chance(0.1)) waiting.push({ client, operation })
        else {
          recordOperation(operations, place, 0, operation)
          executed.push({ client, operation })
        }
      } else if (drawn < 90 && waiting.length > 0) {
        const [one] = waiting.splice(random.below(waiting.length), 1)
        recoverOperation(operations, named(one!), true)
        executed.push(one!)
        late += 1
      } else if (drawn < 94) {
        const line = OPERATIONS_AT / LINE_BYTES + random.below(2 * CLIENTS)
        nvdimm.refuseWrites(line)
        expect(writeImages(operations, state.list)).toBe(0)
        nvdimm.refuseWrites(line, false)
      } else if (drawn < 96) {
        expect(writeImages(operations, state.list)).toBe(0)
        for (let i = random.below(4); i > 0; i--) {
          const place = random.below(random.chance(0.5) ? 8 : CLIENTS)
          const lines = random.chance(0.5) ? [0, 1] : [random.below(2)]
          for (const line of lines) nvdimm.poison(OPERATIONS_AT / LINE_BYTES + 2 * place + line)
        }
        state = started(nvdimm)
      }
      const known = state.commit.operations
      // Of late ones the client, of others whoever it may be.
      const asked = drawn >= 80 && drawn < 90 ? executed.at(-1)?.client : client
      const place = findClient(known, NO_CLIENT, 0, asked ?? 0)
      const whose = { clientHigh: 0, clientLow: asked ?? 0 }
      for (const { operation } of executed.filter((one) => one.client === asked)) {
        const isSafe =
          isDurable(known, place, 0, operation) || isForgotten(known, place, whose, 0, operation)
        expect(isSafe, `operation ${operation} of ${asked}, step ${step}`).toBe(true)
      }
    }
    expect(late).toBeGreaterThan(STEPS / 10)
  },
)

/** A word: one of the ends of its range, or any. */
function word(random: Random): number {
  const ends = [1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]
  return random.chance(0.2) ? ends[random.below(ends.length)]! : 1 + random.below(2 ** 32 - 1)
}

test('P2-12: what a region grants follows from where it lies, and what is proven', () => {
  const placements = [PLACEMENT_LOCAL, PLACEMENT_BYPASS, PLACEMENT_THROUGH]
  for (const proven of [PLACEMENT_UNPROVEN, PLACEMENT_BYPASS, PLACEMENT_THROUGH]) {
    for (const placement of placements) {
      for (const flags of [0, WRITE_PERSIST_REGION]) {
        const shown = { ...createProof(), proven }
        const records = rightsOf(shown, { kind: KIND_RECORDS, flags, placement })
        expect(records).toBe(RECORDS_RIGHTS)
        const isWritten = placement === PLACEMENT_LOCAL || placement === proven
        const atomic = placement === PLACEMENT_LOCAL ? REMOTE_ATOMIC : 0
        const own = BYTES_RIGHTS & ~REMOTE_ATOMIC
        const written = own | atomic | (flags !== 0 ? WRITE_PERSIST : 0)
        const bytes = rightsOf(shown, { kind: KIND_BYTES, flags, placement })
        expect(bytes).toBe(isWritten ? written : REMOTE_READ)
      }
    }
  }
})
