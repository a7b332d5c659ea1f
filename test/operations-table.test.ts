/**
 * The table of operations, and the group that uses it, at their edges: numbers that turn over,
 * places that are all in use, lines that the medium refuses (D-6, P1-11, I4).
 *
 * What always holds: where bytes of a line are set by hand, their places are those of the diagram
 * in operation-line.ts.
 */

import { describe, expect, test } from 'vitest'
import { EmulatedMachine } from '../boards/emulator/machine.ts'
import { Nvdimm } from '../boards/emulator/nvdimm.ts'
import {
  createGroupIndex,
  type GroupItem,
  groupAdd,
  groupHolds,
  sealItem,
} from '../firmware/commit/commit.ts'
import { blankIntent, lanePhase, PHASE_A, PHASE_B, writeIntent } from '../firmware/commit/lane.ts'
import {
  addOperation,
  blankLine,
  dropOperation,
  knowsOperation,
  lineIsFree,
  lineIsOf,
  OPERATION_LINE_WORDS,
  OPERATION_WINDOW,
} from '../firmware/commit/operation-line.ts'
import {
  durableUpTo,
  findClient,
  isDurable,
  isNewOperation,
  NO_CLIENT,
  type Operations,
  readOperations,
  recordOperation,
  recoverOperation,
  takeClient,
  withdrawOperation,
  writeImages,
} from '../firmware/commit/operations.ts'
import { CLIENTS, LINE_BYTES } from '../firmware/limits.ts'
import { createState } from '../firmware/main.ts'
import { boot } from '../firmware/manage/boot.ts'
import { formatPart, OPERATIONS_AT } from '../firmware/memory/superblock.ts'
import { OPERATION_LINES_AT } from '../firmware/memory-map.ts'
import type { State } from '../firmware/state.ts'
import { FACTS } from './support/card.ts'

const ALL = 2 ** 32

/** Words of a line: the newest operation, and how many below the bitmap are durable. */
const NEWEST = 8
const BELOW = 10

interface Core {
  readonly state: State
  readonly nvdimm: Nvdimm
  readonly operations: Operations
}

function core(): Core {
  const nvdimm = new Nvdimm({ bytes: 1 << 18 })
  const facts = { ...FACTS, nvdimmBytes: nvdimm.bytes }
  const state = createState(new EmulatedMachine({ facts, nvdimm, transmit: () => {} }))
  boot(state)
  formatPart(state.list, state.superblock, new Uint8Array(16).fill(1), nvdimm.bytes)
  boot(state)
  return { state, nvdimm, operations: state.commit.operations }
}

/** Where the image of a client lies, in words. */
function imageOf(client: number): number {
  return (OPERATION_LINES_AT >> 2) + client * 2 * OPERATION_LINE_WORDS
}

/** Leaves the first places to clients, and no other. */
function onlyPlaces(operations: Operations, count: number): void {
  operations.retired.fill(1, count)
}

function named(client: number, operation: number): Parameters<typeof recoverOperation>[1] {
  return { clientHigh: 0, clientLow: client, operationHigh: 0, operationLow: operation }
}

describe('a line', () => {
  test('D-6: is of nobody only where it is free', () => {
    const words = new Int32Array(OPERATION_LINE_WORDS)
    expect([lineIsFree(words, 0), lineIsOf(words, 0, 0, 0)]).toEqual([true, false])
  })

  test.each([1, 2])(
    'D-6: counts more than 2^32 operations below its bitmap, by steps of %i',
    (by) => {
      const words = new Int32Array(OPERATION_LINE_WORDS)
      blankLine(words, 0, 0, 7)
      // All of the first 2^33 operations but the last are durable, 2^32 - 1 of them are counted.
      words[NEWEST] = 5
      words[NEWEST + 1] = 2
      words[BELOW] = -1
      const oldest = 2 * ALL + 5 - OPERATION_WINDOW - (ALL - 2)
      const known = (operation: number): boolean =>
        knowsOperation(words, 0, Math.floor(operation / ALL), operation % ALL)
      expect([known(oldest), known(oldest - 1)]).toEqual([true, false])
      addOperation(words, 0, 2, 5 + by)
      expect([words[BELOW], words[BELOW + 1]]).toEqual([by - 1, 1])
      expect([known(oldest), known(oldest - 1)]).toEqual([true, false])
    },
  )

  test('D-6: from which an old operation is taken forgets what lies under it, and no more', () => {
    const words = new Int32Array(OPERATION_LINE_WORDS)
    blankLine(words, 0, 0, 7)
    for (let operation = 1; operation <= 300; operation++) addOperation(words, 0, 0, operation)
    dropOperation(words, 0, 0, 100)
    const known = [99, 100, 101, 300].map((operation) => knowsOperation(words, 0, 0, operation))
    expect(known).toEqual([false, false, true, true])
    const before = words.slice()
    dropOperation(words, 0, 0, 50)
    dropOperation(words, 0, 0, 301)
    expect(words).toEqual(before)
  })
})

describe('the table', () => {
  test('D-6: compares operations by all of their 64 bits', () => {
    const { operations } = core()
    const client = takeClient(operations, NO_CLIENT, 0, 7)
    recordOperation(operations, client, 1, 5)
    const isNew = (high: number, low: number) => isNewOperation(operations, client, high, low)
    expect([isNew(2, 0), isNew(0, ALL - 1), isNew(1, 5), isNew(1, 6)]).toEqual([
      ...[true, false, false, true],
    ])
  })

  test('D-6: what is durable without a gap may end below a turn of the low word', () => {
    const { operations } = core()
    const client = takeClient(operations, NO_CLIENT, 0, 7)
    const { words } = operations
    words[imageOf(client) + NEWEST] = 1
    words[imageOf(client) + NEWEST + 1] = 1
    words[imageOf(client) + BELOW + 1] = 1
    withdrawOperation(operations, client, 0, ALL - 3)
    const upTo = { high: -1, low: -1 }
    expect(durableUpTo(operations, client, upTo)).toBe(true)
    expect(upTo).toEqual({ high: 0, low: ALL - 4 })
  })

  test('D-6: has no place for a client while all were used a moment ago', () => {
    const { operations } = core()
    onlyPlaces(operations, 3)
    const taken = [1, 2, 3, 4].map((client) => takeClient(operations, NO_CLIENT, 0, client))
    expect(taken).toEqual([0, 1, 2, NO_CLIENT])
    for (let i = 0; i < 40; i++) takeClient(operations, 1, 0, 2)
    expect(takeClient(operations, NO_CLIENT, 0, 4)).toBe(0)
  })

  test('D-6: a scan adds operations where that takes no place from another client', () => {
    const { operations } = core()
    onlyPlaces(operations, 2)
    for (const client of [1, 2, 3]) recoverOperation(operations, named(client, 9), false)
    recoverOperation(operations, named(1, 10), false)
    const known = [
      [1, 9],
      [1, 10],
      [2, 9],
      [3, 9],
    ].map(([client, operation]) =>
      isDurable(operations, findClient(operations, NO_CLIENT, 0, client!), 0, operation!),
    )
    expect(known).toEqual([true, true, true, false])
    const none = core().operations
    onlyPlaces(none, 0)
    recoverOperation(none, named(1, 9), false)
    expect(none.recovered).toBe(0)
  })

  test('P1-11: a recovery whose line is refused writes it elsewhere, or goes on without', () => {
    for (const places of [CLIENTS, 1]) {
      const { operations, nvdimm, state } = core()
      onlyPlaces(operations, places)
      recoverOperation(operations, named(7, 9), true)
      for (const which of [0, 1]) nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + which)
      expect(writeImages(operations, state.list)).toBe(0)
      const place = findClient(operations, NO_CLIENT, 0, 7)
      expect(place).toBe(places === 1 ? NO_CLIENT : 1)
      expect(isDurable(operations, place, 0, 9)).toBe(places !== 1)
    }
  })

  test.each([
    [0, 1],
    [1, 0],
  ])('D-6: of a client that stands twice the newer place counts, here %i', (newer, older) => {
    const { operations, state } = core()
    const write = (place: number, newest: number): void => {
      blankLine(operations.words, imageOf(place), 0, 7)
      for (let i = 1; i <= newest; i++) addOperation(operations.words, imageOf(place), 0, i)
      operations.unwritten[place] = 1
      expect(writeImages(operations, state.list)).toBe(0)
    }
    write(older, 3)
    write(newer, 5)
    readOperations(operations, state.list, 0)
    expect(findClient(operations, NO_CLIENT, 0, 7)).toBe(newer)
    expect(lineIsFree(operations.words, imageOf(older))).toBe(true)
    expect(isDurable(operations, newer, 0, 5)).toBe(true)
  })
})

describe('a group', () => {
  function itemsOf({ state }: Core, slots: readonly number[]): readonly GroupItem[] {
    const { commit } = state
    slots.forEach((slot, i) => {
      commit.items[i]!.slot = slot
    })
    return commit.items
  }

  test('I4: holds each of its slots, though others share its place in the index', () => {
    const one = core()
    const { commit } = one.state
    const [{ region }] = itemsOf(one, [3, 3 + 256, 3 + 512]) as [GroupItem]
    const index = createGroupIndex()
    for (let i = 0; i < 2; i++) {
      commit.count = i + 1
      groupAdd(index, commit)
    }
    const held = [3, 3 + 256, 3 + 512, 4].map((slot) => groupHolds(index, commit, region, slot))
    expect(held).toEqual([true, true, false, false])
    const other = { ...region, index: region.index + 8 }
    expect(groupHolds(index, commit, other, 3)).toBe(false)
  })

  test('X-3: the sequence of records has 64 bits', () => {
    const { state } = core()
    const { commit } = state
    commit.sequenceLow = ALL - 2
    const before = commit.sequenceHigh
    const sequences = [0, 1].map((i) => {
      sealItem(commit, commit.items[i]!)
      return [commit.items[i]!.sequenceHigh - before, commit.items[i]!.sequenceLow]
    })
    expect(sequences).toEqual([
      [0, ALL - 1],
      [1, 0],
    ])
  })
})

describe('the phase of a lane', () => {
  const PHASE_SEQUENCE = 1
  const MAGIC = 2

  test.each<[string, (words: Int32Array) => void]>([
    ['no phase', (words) => words.fill(0x3cc3 | (5 << 16), 0, 1)],
    ['the phase of another low word', (words) => words.fill(0x1235, PHASE_SEQUENCE, MAGIC)],
    [
      'the phase of another high word',
      (words) => words.fill(PHASE_A | (0x5e << 8) | (9 << 16), 0, 1),
    ],
    ['a magic number of another kind', (words) => words.fill(7, MAGIC, MAGIC + 1)],
    ['a phase without its complement', (words) => words.fill(PHASE_B, 0, 1)],
  ])('H11: is none where the line has %s, however sound its check code', (_, damage) => {
    const words = new Int32Array(16)
    writeIntent(words, 0, { ...blankIntent(), sequenceLow: 0x1234, sequenceHigh: 5 })
    expect(lanePhase(words, 0)).toBe(PHASE_A)
    damage(words)
    expect(lanePhase(words, 0)).toBe(-1)
  })
})
