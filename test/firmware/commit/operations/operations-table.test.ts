/**
 * The table of operations, and the group that uses it, at their edges: numbers that turn over,
 * places that are all in use, lines that the medium refuses (D-6, P1-11, I4).
 *
 * Invariant: where bytes of a line are set by hand, their places are those of the diagram
 * in operation-line.ts.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../../boards/emulator/medium/power-cut.ts'
import { EmulatedMachine } from '../../../../boards/emulator/run/machine.ts'
import { compare, fenceOwn, ownerOf, run } from '../../../../firmware/board/command-list.ts'
import {
  COMMAND_WORDS,
  FLUSH_FAILED,
  NOT_ARMED,
  NVDIMM_SPACE,
  TO,
} from '../../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  CLIENTS,
  LANES,
  LINE_BYTES,
  SCRUB_CLIENTS,
} from '../../../../firmware/board/limits.ts'
import { OPERATION_LINES_AT, ZEROS_AT } from '../../../../firmware/board/memory-map.ts'
import {
  createGroupIndex,
  type GroupItem,
  groupAdd,
  groupHolds,
  sealItem,
} from '../../../../firmware/commit/commit.ts'
import {
  addToLine,
  beginLines,
  beginOperation,
  clientOfOwner,
  durableUpTo,
  endLines,
  enterOperation,
  findClient,
  forgetDurably,
  forgetOperation,
  isDurable,
  isForgotten,
  isNamed,
  isNewOperation,
  moveClient,
  NO_CLIENT,
  noteNewOperation,
  type Operations,
  operationLineAddress,
  readOperations,
  recordOperation,
  recoverOperation,
  scrubLines,
  storeLines,
  storeSecondLines,
  takeClient,
  withdrawOperation,
  writeImages,
} from '../../../../firmware/commit/operations.ts'
import type { State } from '../../../../firmware/core.ts'
import { createState } from '../../../../firmware/main.ts'
import { boot } from '../../../../firmware/manage/boot.ts'
import {
  blankIntent,
  lanePhase,
  PHASE_A,
  PHASE_B,
  writeIntent,
} from '../../../../firmware/medium/lane.ts'
import {
  addOperation,
  blankLine,
  dropOperation,
  forgetAll,
  forgetBefore,
  forgetUpTo,
  knowsOperation,
  lineIsFree,
  lineIsOf,
  mayBeForgotten,
  OPERATION_LINE_WORDS,
  OPERATION_WINDOW,
  setLineSequence,
} from '../../../../firmware/medium/operation-line.ts'
import { formatPart, OPERATIONS_AT } from '../../../../firmware/medium/superblock.ts'
import { FACTS } from '../../../support/cards/test-card.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'

const ALL = 2 ** 32

/** Words of a line: the newest operation, and how many below the bitmap are durable. */
const NEWEST = 8
const BELOW = 10
const BITS = 12

/** Only the line that is not the next one says what the image does. */
const HALF_WRITTEN = 2

interface Core {
  readonly state: State
  readonly nvdimm: Nvdimm
  readonly operations: Operations
}

function machineOf({ state }: Core): EmulatedMachine {
  return state.list.machine as EmulatedMachine
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

function halves(id: bigint): [high: number, low: number] {
  return [Number(id >> 32n), Number(id & 0xffffffffn)]
}

function named(client: number, operation: number): Parameters<typeof recoverOperation>[1] {
  return { clientHigh: 0, clientLow: client, operationHigh: 0, operationLow: operation }
}

/** A line of client 7 whose newest operation is 2^33 + 5, with so many counted below its bitmap. */
function lineBehind(belowLow: number, belowHigh: number): Int32Array {
  const words = new Int32Array(OPERATION_LINE_WORDS)
  blankLine(words, 0, 0, 7)
  words[NEWEST] = 5
  words[NEWEST + 1] = 2
  words[BELOW] = belowLow
  words[BELOW + 1] = belowHigh
  return words
}

describe('a line', () => {
  test('D-6: is of nobody only where it is free', () => {
    const words = new Int32Array(OPERATION_LINE_WORDS)
    expect([lineIsFree(words, 0), lineIsOf(words, 0, 0, 0)]).toEqual([true, false])
  })

  test.each([1, 2])(
    'D-6: counts more than 2^32 operations below its bitmap, by steps of %i',
    (by) => {
      // All of the first 2^33 operations but the last are durable, 2^32 - 1 of them are counted.
      const words = lineBehind(-1, 0)
      const oldest = 2 * ALL + 5 - OPERATION_WINDOW - (ALL - 2)
      const known = (operation: number): boolean =>
        knowsOperation(words, 0, Math.floor(operation / ALL), operation % ALL)
      expect([known(oldest), known(oldest - 1)]).toEqual([true, false])
      addOperation(words, 0, 2, 5 + by)
      expect([words[BELOW], words[BELOW + 1]]).toEqual([by - 1, 1])
      expect([known(oldest), known(oldest - 1)]).toEqual([true, false])
    },
  )

  test.each([1, 2])(
    'D-6: below a gap that leaves its bitmap it knows nothing, however much it counted, by %i',
    (by) => {
      const words = lineBehind(-1, 1)
      words[BITS]! &= ~(1 << 6)
      addOperation(words, 0, 2, 5 + by)
      expect([words[BELOW], words[BELOW + 1]]).toEqual([by - 1, 0])
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

describe('a line of a client that was forgotten', () => {
  const isForgotten = (words: Int32Array, operation: number): boolean =>
    mayBeForgotten(words, 0, Math.floor(operation / ALL), operation % ALL)

  test.each([1, 2, 500, ALL - 1, ALL, ALL + 1])(
    'D-6: what is below its next operation, %i, is forgotten, and nothing above',
    (next) => {
      const words = new Int32Array(OPERATION_LINE_WORDS)
      blankLine(words, 0, 0, 7)
      forgetAll(words, 0)
      // It hears of an old one late: that ends it for that one alone.
      const isOld = next > 300
      if (isOld) addOperation(words, 0, 0, 300)
      expect(isForgotten(words, next + 1)).toBe(true)
      forgetUpTo(words, 0, Math.floor(next / ALL), next % ALL)
      expect([next, next + 1, next + 200].map((one) => isForgotten(words, one))).toEqual([
        ...[false, false, false],
      ])
      if (next > 1) expect(isForgotten(words, next - 1)).toBe(true)
      addOperation(words, 0, Math.floor(next / ALL), next % ALL)
      if (next > 1) expect(isForgotten(words, next - 1)).toBe(true)
      expect(isForgotten(words, next + 1)).toBe(false)
    },
  )

  test('D-6: one that is older than what was heard of late ends it for nobody', () => {
    const words = new Int32Array(OPERATION_LINE_WORDS)
    blankLine(words, 0, 0, 7)
    forgetAll(words, 0)
    addOperation(words, 0, 0, 300)
    forgetUpTo(words, 0, 0, 200)
    expect([299, 300, 301].map((one) => isForgotten(words, one))).toEqual([true, false, true])
  })

  test('D-6: a line of before that names no operation says the same', () => {
    const words = new Int32Array(OPERATION_LINE_WORDS)
    blankLine(words, 0, 0, 7)
    forgetBefore(words, 0)
    expect([1, 300].map((one) => isForgotten(words, one))).toEqual([true, true])
    addOperation(words, 0, 0, 300)
    expect([299, 300].map((one) => isForgotten(words, one))).toEqual([true, false])
  })
})

describe('the table', () => {
  const IDS = [1n, 2n, 5n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 32n + 5n, 2n ** 33n + 1n]
  const LATE = [2n ** 63n, 2n ** 63n + 2n ** 31n, 2n ** 64n - 1n]

  test.each([
    { what: 'has forgotten nobody', forgetful: false },
    { what: 'may have forgotten', forgetful: true },
  ])('D-6: compares operations by all of their 64 bits, where it $what', ({ forgetful }) => {
    const { operations } = core()
    operations.forgetful = forgetful
    let name = 0
    const ids = [...IDS, ...LATE]
    for (const [a, b] of ids.flatMap((one) => ids.map((other) => [one, other] as const))) {
      name += 1
      const whose = { clientHigh: 0, clientLow: name }
      const place = takeClient(operations, NO_CLIENT, 0, name)
      const of = `${b} behind ${a}`
      const isNew = (id: bigint) => isNewOperation(operations, place, ...halves(id))
      // Of a client that may have been forgotten none is new but one that says so.
      expect(isNew(a), of).toBe(!forgetful)
      noteNewOperation(operations, place, ...halves(a))
      expect([isNew(a), isNew(a - 1n)], of).toEqual([true, !forgetful && a > 1n])
      beginOperation(operations, place, ...halves(a))
      expect(isNew(a)).toBe(false)
      expect(isNew(b), of).toBe(b > a)
      recordOperation(operations, place, ...halves(a))
      expect(isNew(b), of).toBe(b > a)
      expect(isDurable(operations, place, ...halves(b)), of).toBe(b === a)
      expect(enterOperation(operations, place, whose, ...halves(b)), of).toBe(b > a)
      const latest = b > a ? b : a
      beginOperation(operations, place, ...halves(a))
      expect([isNew(latest), latest < 2n ** 64n - 1n && isNew(latest + 1n)]).toEqual([
        ...[false, latest < 2n ** 64n - 1n],
      ])
    }
  })

  test('D-6: knows a client by all of its 64 bits, wherever it is looked for first', () => {
    const { operations } = core()
    const clients = [1n, 2n ** 32n, 2n ** 31n, 2n ** 32n + 1n, 2n ** 63n, 2n ** 64n - 1n]
    const whoseOf = (client: bigint): { clientHigh: number; clientLow: number } => {
      const [clientHigh, clientLow] = halves(client)
      return { clientHigh, clientLow }
    }
    const places = clients.map((client) => {
      const place = takeClient(operations, NO_CLIENT, ...halves(client))
      recordOperation(operations, place, 0, 1)
      return place
    })
    expect(places).toEqual([0, 1, 2, 3, 4, 5])
    let operation = 1
    for (const hint of [NO_CLIENT, ...places, 6, CLIENTS - 1]) {
      const found = clients.map((client) => findClient(operations, hint, ...halves(client)))
      expect(found).toEqual(places)
      const entered = clients.filter((client) => {
        operation += 1
        return enterOperation(operations, hint, whoseOf(client), 0, operation)
      })
      expect(entered).toEqual(clients.filter((_, place) => place === hint))
    }
    for (const hint of [NO_CLIENT, 0, 6]) expect(findClient(operations, hint, 0, 0)).toBe(NO_CLIENT)
  })

  test('D-6: ends where its places end: what lies beside it in memory is nobody', () => {
    const { operations } = core()
    const { words } = operations
    expect(takeClient(operations, NO_CLIENT, 0, 7)).toBe(0)
    recordOperation(operations, 0, 0, 5)
    // No operation is 0, though a client that begins with 1 leaves no gap.
    expect([0, 1, 5].map((id) => isDurable(operations, 0, 0, id))).toEqual([false, false, true])
    for (const beside of [-1, CLIENTS]) words.copyWithin(imageOf(beside), imageOf(0), imageOf(1))
    blankLine(words, imageOf(0), 0, 0)
    for (const hint of [NO_CLIENT, 0, 1, CLIENTS - 1]) {
      expect(findClient(operations, hint, 0, 7)).toBe(NO_CLIENT)
      expect(enterOperation(operations, hint, { clientHigh: 0, clientLow: 7 }, 0, 1)).toBe(false)
    }
    expect(isDurable(operations, NO_CLIENT, 0, 5)).toBe(false)
  })

  test('D-6: of whom it has no place it knows nothing only where it has forgotten', () => {
    for (const forgetful of [false, true]) {
      const { operations } = core()
      operations.forgetful = forgetful
      const said = [0n, 1n, 2n ** 32n, 2n ** 32n + 1n].map((client) => {
        const [clientHigh, clientLow] = halves(client)
        return isForgotten(operations, NO_CLIENT, { clientHigh, clientLow }, 0, 1)
      })
      // Of nobody nothing is ever known.
      expect(said).toEqual([true, forgetful, forgetful, forgetful])
    }
  })

  test.each([
    { first: 'taken', others: 'taken' },
    { first: 'taken', others: 'entered' },
    { first: 'entered', others: 'taken' },
    { first: 'entered', others: 'entered' },
  ])('D-6: keeps who was served by one of the last 32 records: $first, then $others', (how) => {
    const { operations } = core()
    let operation = 0
    const serve = (client: number, way: string): void => {
      const whose = { clientHigh: 0, clientLow: client }
      operation += 1
      if (way === 'taken') takeClient(operations, client - 1, 0, client)
      else expect(enterOperation(operations, client - 1, whose, 0, operation)).toBe(true)
    }
    onlyPlaces(operations, 2)
    for (const client of [1, 2]) takeClient(operations, NO_CLIENT, 0, client)
    for (let more = 0; more < BURST_FRAMES; more++) serve(2, 'taken')
    serve(1, how.first)
    for (let more = 0; more < BURST_FRAMES - 1; more++) serve(2, how.others)
    expect(takeClient(operations, NO_CLIENT, 0, 3)).toBe(NO_CLIENT)
    expect(operations.forgetful).toBe(false)
    serve(2, how.others)
    expect(takeClient(operations, NO_CLIENT, 0, 3)).toBe(0)
    expect(operations.forgetful).toBe(true)
  })

  describe('R1-S14: where peers have clients', () => {
    const PEERS = [7, 0x9000_0000]
    /** A full table: three places of the first peer, one of the other, one of nobody. */
    const full = (): ReturnType<typeof core>['operations'] => {
      const { operations } = core()
      operations.owners = PEERS
      onlyPlaces(operations, 5)
      for (const high of [PEERS[1]!, 5, ...Array(3).fill(PEERS[0])]) serve(operations, high)
      return operations
    }
    let low = 0
    const serve = (operations: ReturnType<typeof full>, high: number): number => {
      low += 1
      return takeClient(operations, NO_CLIENT, high, low)
    }
    /** So many records of the client that was served last. */
    const pass = (operations: ReturnType<typeof full>, count: number, high: number): void => {
      const last = low
      for (let i = 0; i < count; i++) takeClient(operations, NO_CLIENT, high, last)
    }

    test.each([5, ...PEERS])('one of the owner who has most makes way for %i', (high) => {
      const operations = full()
      pass(operations, BURST_FRAMES, PEERS[0]!)
      // Of the first peer the one that was served the longest ago, not that of the other.
      expect(serve(operations, high)).toBe(2)
    })

    test('of several who have as many the first of the table', () => {
      const operations = full()
      pass(operations, BURST_FRAMES, PEERS[0]!)
      expect(serve(operations, 5)).toBe(2)
      pass(operations, BURST_FRAMES, 5)
      // Two places each of the first peer and of nobody, and one of the other.
      expect(serve(operations, 5)).toBe(1)
    })

    test('nobody of the last 32 records does, and then the one of all who may', () => {
      const operations = full()
      for (const place of [2, 3, 4]) operations.used[place] = operations.uses
      operations.uses += BURST_FRAMES - 1
      expect(serve(operations, 5)).toBe(0)
    })

    test('nobody does where all are of the last 32 records', () => {
      const operations = full()
      expect(serve(operations, 5)).toBe(NO_CLIENT)
      expect(operations.forgetful).toBe(false)
    })

    test('a free place is taken first', () => {
      const operations = full()
      pass(operations, BURST_FRAMES, PEERS[0]!)
      blankLine(operations.words, imageOf(4), 0, 0)
      operations.used[4] = 0
      expect(serve(operations, 5)).toBe(4)
      expect(operations.forgetful).toBe(false)
    })
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

  test.each([0n, 1n, 2n, 3n, 2n ** 32n - 2n])(
    'D-6: tells to the last word up to where all is durable, behind 2^32 + %i',
    (by) => {
      for (const open of [0n, 1n, 2n, 3n]) {
        const { operations } = core()
        const place = takeClient(operations, NO_CLIENT, 0, 7)
        const line = new DataView(operations.words.buffer, imageOf(place) * 4, LINE_BYTES)
        const newest = 2n ** 32n + by
        line.setBigUint64(NEWEST * 4, newest, true)
        line.setBigUint64(BELOW * 4, newest - 128n, true)
        if (open > 0n) withdrawOperation(operations, place, ...halves(newest - open + 1n))
        const upTo = { high: -1, low: -1 }
        expect(durableUpTo(operations, place, upTo)).toBe(true)
        expect([upTo.high, upTo.low]).toEqual(halves(newest - open))
      }
    },
  )

  test('D-6: nothing is durable without a gap where the first operation is not', () => {
    const { operations } = core()
    const client = takeClient(operations, NO_CLIENT, 0, 7)
    const upTo = { high: -1, low: -1 }
    const said = [0, 5, 2, 1].map((operation) => {
      recordOperation(operations, client, 0, operation)
      return durableUpTo(operations, client, upTo)
    })
    expect(said).toEqual([false, false, false, true])
    expect(upTo).toEqual({ high: 0, low: 2 })
    const late = takeClient(operations, NO_CLIENT, 0, 8)
    recordOperation(operations, late, 0, 1000)
    for (const place of [NO_CLIENT, late]) {
      expect(durableUpTo(operations, place, upTo)).toBe(false)
      expect(upTo).toEqual({ high: 0, low: 2 })
    }
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
    operations.uses += 40
    recoverOperation(operations, named(3, 9), false)
    for (const id of [10, 10, 0]) recoverOperation(operations, named(1, id), false)
    expect(operations.recovered).toBe(3)
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

  test('D-6: stores nothing of what it knows, or has no name for, or no place', THOROUGH, () => {
    const { operations, nvdimm, state } = core()
    recoverOperation(operations, named(7, 5), true)
    expect(writeImages(operations, state.list)).toBe(0)
    const before = [nvdimm.bytesStored, operations.sequence, operations.words.slice()]
    recordOperation(operations, 0, 0, 5)
    recordOperation(operations, 0, 0, 0)
    recordOperation(operations, NO_CLIENT, 0, 6)
    withdrawOperation(operations, 0, 0, 4)
    withdrawOperation(operations, NO_CLIENT, 0, 5)
    forgetOperation(operations, named(8, 5))
    for (const one of [named(7, 6), named(8, 5)]) {
      for (const isLost of [false, true]) {
        expect(forgetDurably(operations, state.list, one, isLost)).toBe(0)
      }
    }
    expect(writeImages(operations, state.list)).toBe(0)
    expect([nvdimm.bytesStored, operations.sequence, operations.words.slice()]).toEqual(before)
  })

  test('X-3: forgets an operation of a client, behind the next start where it is to be so', () => {
    const { operations, state } = core()
    for (const id of [1, 2, 3]) recoverOperation(operations, named(7, id), true)
    expect(writeImages(operations, state.list)).toBe(0)
    const known = (): number[] => [1, 2, 3].filter((id) => isDurable(operations, 0, 0, id))
    forgetOperation(operations, named(7, 2))
    expect(known()).toEqual([1, 3])
    readOperations(operations, state.list, 0, 0)
    expect(known()).toEqual([1, 2, 3])
    expect(forgetDurably(operations, state.list, named(7, 2), false)).toBe(0)
    readOperations(operations, state.list, 0, 0)
    expect(known()).toEqual([1, 3])
  })

  test.each([false, true])(
    'D-6: of a record that was lost (%s) it may have forgotten the operation, and knows the rest',
    (isLost) => {
      const { operations, state } = core()
      for (const id of [1, 2, 4]) recoverOperation(operations, named(7, id), true)
      expect(forgetDurably(operations, state.list, named(7, 2), isLost)).toBe(0)
      readOperations(operations, state.list, 0, 0)
      const whose = { clientHigh: 0, clientLow: 7 }
      const ids = [1, 2, 3, 4, 5]
      expect(ids.filter((id) => isDurable(operations, 0, 0, id))).toEqual([1, 4])
      const forgotten = ids.filter((id) => isForgotten(operations, 0, whose, 0, id))
      // What its client never recorded may be forgotten, too; what is newer is not.
      expect(forgotten.filter((id) => ![1, 4].includes(id))).toEqual(isLost ? [2, 3] : [])
    },
  )

  test('D-6: names an operation by all bits of it and of its client, signed or not', () => {
    const one = { clientHigh: 1, clientLow: -2, operationHigh: -3, operationLow: 4 }
    const fields = Object.keys(one) as readonly (keyof typeof one)[]
    const isNamedBy = (other: typeof one): boolean => {
      return isNamed(one, other, other.operationHigh, other.operationLow)
    }
    const unsigned = fields.map((field) => [field, one[field] >>> 0])
    expect([one, Object.fromEntries(unsigned) as typeof one].map(isNamedBy)).toEqual([true, true])
    for (const field of fields) {
      for (const bit of [0, 1, 15, 31]) {
        const changed = { ...one, [field]: one[field] ^ (1 << bit) }
        expect(isNamedBy(changed), `${field}, bit ${bit}`).toBe(false)
      }
    }
  })

  test('D-13: says that nothing is durable where a fence of its own fails', () => {
    const { operations, nvdimm, state } = core()
    recoverOperation(operations, named(7, 5), true)
    nvdimm.armed = false
    expect(writeImages(operations, state.list)).toBe(NOT_ARMED)
    nvdimm.armed = true
    recoverOperation(operations, named(7, 6), true)
    nvdimm.fencesToFail = 1
    expect(writeImages(operations, state.list)).toBe(FLUSH_FAILED)
  })

  test('P1-11: gives nobody a free place of which a line is refused', () => {
    for (const which of [0, 1]) {
      const { operations, nvdimm, state } = core()
      operations.unwritten[0] = 1
      nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + which)
      expect(writeImages(operations, state.list)).toBe(0)
      expect(takeClient(operations, NO_CLIENT, 0, 7)).toBe(1)
    }
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
      expect(operations.forgetful).toBe(places === 1)
    }
  })

  test.each(['idle time', 'a start'])('X-3: what a client has left goes with %s', (blankedBy) => {
    const { operations, nvdimm, state } = core()
    recoverOperation(operations, named(7, 5), true)
    expect(writeImages(operations, state.list)).toBe(0)
    // The medium refuses one of its lines, and it moves. Operation 6 is known there alone.
    nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES)
    recoverOperation(operations, named(7, 6), true)
    if (blankedBy === 'idle time') expect(writeImages(operations, state.list)).toBe(0)
    else {
      // A cut before idle time came: both lines of the new place are durable, and no blank.
      expect(moveClient(operations, 0)).toBe(1)
      operations.unwritten[0] = 0
      expect(writeImages(operations, state.list)).toBe(0)
      boot(state)
    }
    const place = findClient(operations, NO_CLIENT, 0, 7)
    expect([place, isDurable(operations, place, 0, 6)]).toEqual([1, true])
    // It makes way for another client; what it left behind does not speak for it.
    onlyPlaces(operations, 2)
    operations.retired[0] = 1
    operations.uses += 40
    recoverOperation(operations, named(8, 1), true)
    expect(writeImages(operations, state.list)).toBe(0)
    boot(state)
    const whose = { clientHigh: 0, clientLow: 7 }
    expect(findClient(operations, NO_CLIENT, 0, 7)).toBe(NO_CLIENT)
    expect(isForgotten(operations, NO_CLIENT, whose, 0, 6)).toBe(true)
  })

  test('a start writes no line again of which both are whole and the same', () => {
    const { operations, state } = core()
    recoverOperation(operations, named(7, 9), true)
    expect(writeImages(operations, state.list)).toBe(0)
    const { sequence } = operations
    boot(state)
    expect(isDurable(operations, 0, 0, 9)).toBe(true)
    expect([operations.sequence, state.recovery.report.operations]).toEqual([sequence, 0])
  })

  test.each([
    [1, 2, 0],
    [2, 1, 0],
    [0, 2, 1],
    [2, 0, 1],
  ])(
    'D-6: of a client that stands twice the newer place counts, here %i',
    (newer, older, other) => {
      const { operations, state } = core()
      const write = (place: number, client: number, newest: number): void => {
        blankLine(operations.words, imageOf(place), 0, client)
        for (let i = 1; i <= newest; i++) addOperation(operations.words, imageOf(place), 0, i)
        operations.unwritten[place] = 1
        expect(writeImages(operations, state.list)).toBe(0)
      }
      write(other, 8, 1)
      write(older, 7, 3)
      write(newer, 7, 5)
      readOperations(operations, state.list, 0, 0)
      expect(findClient(operations, NO_CLIENT, 0, 7)).toBe(newer)
      expect(lineIsFree(operations.words, imageOf(older))).toBe(true)
      expect(isDurable(operations, newer, 0, 5)).toBe(true)
      expect(isNewOperation(operations, older, 0, 1)).toBe(true)
      // The other one is free: nobody else makes room for a new client.
      onlyPlaces(operations, 3)
      operations.uses += 40
      expect(takeClient(operations, NO_CLIENT, 0, 9)).toBe(older)
      expect(operations.forgetful).toBe(false)
    },
  )
})

describe('the lines of all places', () => {
  const FIRST_LINE = OPERATIONS_AT / LINE_BYTES
  const LINES = Array.from({ length: 2 * CLIENTS }, (_, i) => i)

  /** Each place has a client, that did operations 1 to 3. */
  function crowded(): Core {
    const one = core()
    for (let client = 1; client <= CLIENTS; client++) {
      const place = takeClient(one.operations, NO_CLIENT, 0, client)
      for (const id of [1, 2, 3]) recordOperation(one.operations, place, 0, id)
    }
    expect(writeImages(one.operations, one.state.list)).toBe(0)
    return one
  }

  function tableOf({ nvdimm }: Core): Uint8Array {
    return nvdimm.durable.slice(OPERATIONS_AT, OPERATIONS_AT + 2 * CLIENTS * LINE_BYTES)
  }

  /** What lies in packet memory behind the images: messages that are being gathered. */
  function besideOf({ operations }: Core): Int32Array {
    const { words } = operations
    const [from, to] = [imageOf(CLIENTS), imageOf(CLIENTS + CLIENTS)]
    if (words[from] === 0) words.fill(-7, from, to)
    return words.slice(from, to)
  }

  function decay({ nvdimm }: Core, line: number, how: 'unreadable' | 'torn'): void {
    if (how === 'unreadable') nvdimm.poison(FIRST_LINE + line)
    else {
      const at = (FIRST_LINE + line) * LINE_BYTES + (line % LINE_BYTES)
      for (const of of [nvdimm.durable, nvdimm.live]) of[at]! ^= 4
    }
  }

  function expectAllKnown({ operations }: Core): void {
    const known = LINES.slice(0, CLIENTS).filter((place) => {
      return [1, 2, 3].every((id) => isDurable(operations, place, 0, id))
    })
    expect(known.length).toBe(CLIENTS)
    expect([operations.lost, operations.forgetful]).toEqual([0, false])
  }

  test.each(['unreadable', 'torn'] as const)(
    'R1-C6: are mended in idle time, 16 places at a time, where they are %s',
    (how) => {
      const one = crowded()
      const { operations, nvdimm, state } = one
      const before = tableOf(one)
      for (const line of LINES) decay(one, line, how)
      for (let seen = SCRUB_CLIENTS; seen <= CLIENTS; seen += SCRUB_CLIENTS) {
        expect(scrubLines(operations, state.list)).toBe(0)
        expect(operations.mended).toBe(2 * seen)
        const left = LINES.filter((line) => nvdimm.isPoisoned(FIRST_LINE + line))
        expect(left).toEqual(how === 'torn' ? [] : LINES.slice(2 * seen))
      }
      expectAllKnown(one)
      // Of each client one line stands, until the next turn: its bytes come back as they were.
      const mended = tableOf(one)
      expect(mended).not.toEqual(before)
      LINES.filter((line) => (line & 1) === ((line >> 1) & 1)).forEach((line) => {
        decay(one, line, how)
      })
      for (let seen = 0; seen < CLIENTS; seen += SCRUB_CLIENTS) scrubLines(operations, state.list)
      expect(operations.mended).toBe(3 * CLIENTS)
      expect(tableOf(one)).toEqual(mended)
      boot(state)
      expect(operations.mended).toBe(0)
      expectAllKnown(one)
    },
  )

  test('R1-C6: are none to mend where they are whole, whatever ran before', () => {
    const one = crowded()
    const { operations, nvdimm, state } = one
    const { list } = state
    // What was compared before differed.
    for (let i = 0; i < 2 * CLIENTS; i++) compare(list, ZEROS_AT, OPERATION_LINES_AT, LINE_BYTES)
    expect(run(list)).toBe(-1)
    const before = nvdimm.bytesStored
    let commands = 0
    machineOf(one).observe({ onCommand: () => (commands += 1) })
    for (let seen = SCRUB_CLIENTS; seen <= CLIENTS; seen += SCRUB_CLIENTS) {
      expect(scrubLines(operations, list)).toBe(0)
      // Two lines of each place are read, and compared.
      expect(commands).toBe(4 * seen)
    }
    expect([operations.mended, nvdimm.bytesStored]).toEqual([0, before])
  })

  test('R1-C6: are none to mend where they were still to be written: idle time writes both', () => {
    for (const lost of [0, 1]) {
      const one = numbered([1])
      const { operations, state } = one
      recordOperation(operations, 0, 0, 6)
      expect(scrubLines(operations, state.list)).toBe(0)
      expect(operations.mended).toBe(0)
      decay(one, lost, 'torn')
      readOperations(operations, state.list, 0, 0)
      expect(isDurable(operations, 0, 0, 6)).toBe(true)
    }
  })

  test.each([
    [0, 'unreadable'],
    [0, 'torn'],
    [1, 'unreadable'],
    [1, 'torn'],
  ] as const)('R1-C6: are mended by a start, where line %i of each client is %s', (which, how) => {
    const one = crowded()
    const before = tableOf(one)
    for (const line of LINES) if ((line & 1) === which) decay(one, line, how)
    boot(one.state)
    expect(one.operations.mended).toBe(CLIENTS)
    expect(tableOf(one)).toEqual(before)
    expectAllKnown(one)
  })

  /** The clients of the first places, each with a sequence of its own on both of its lines. */
  function numbered(sequences: readonly number[]): Core {
    const one = core()
    const { operations, state } = one
    sequences.forEach((sequence, place) => {
      expect(takeClient(operations, NO_CLIENT, 0, place + 1)).toBe(place)
      recordOperation(operations, place, 0, 5)
      operations.sequence = sequence - 1
      expect(writeImages(operations, state.list)).toBe(0)
    })
    return one
  }

  test('D-13: count from the sequence on that was not void, and tell all from a later one', () => {
    const low = 2 ** 32
    const sequences = [low - 1, low, low + 1, low + 2, low + 3]
    const one = numbered(sequences)
    for (const [floor, former] of [
      [0, 0],
      [0, 1],
      [1, 0],
      [low, low + 2],
      [low + 3, 0],
    ] as const) {
      const { operations } = one
      expect(readOperations(operations, one.state.list, floor, former)).toBe(2 * CLIENTS)
      expect(operations.forgetful).toBe(floor + former > 0)
      expect([operations.mended, operations.lost]).toEqual([0, 0])
      const places = sequences.map((_, i) => findClient(operations, NO_CLIENT, 0, i + 1))
      expect(places).toEqual(sequences.map((one, i) => (one > floor ? i : NO_CLIENT)))
      sequences.forEach((sequence, place) => {
        if (sequence <= floor) return
        expect(isDurable(operations, place, 0, 5)).toBe(true)
        // Of the gap below: was it passed over, or forgotten?
        const isOpen = mayBeForgotten(operations.words, imageOf(place), 0, 4)
        expect(isOpen, `${sequence} of ${former}`).toBe(sequence <= former)
      })
      expect(operations.sequence).toBe(low + 3)
      expect(operations.uses).toBe(low + 3)
    }
  })

  test('D-6: make no client go for a new one, where one of nobody is there, however old', () => {
    const { operations, state } = numbered([1])
    operations.unwritten[1] = 1
    expect(writeImages(operations, state.list)).toBe(0)
    readOperations(operations, state.list, 0, 0)
    onlyPlaces(operations, 2)
    operations.uses += 40
    expect(takeClient(operations, NO_CLIENT, 0, 9)).toBe(1)
    expect(operations.forgetful).toBe(false)
  })

  test('D-6: do not count where their sequence is none that is ever given out', () => {
    for (const [sequence, counts] of [
      [2 ** 53 - 2, true],
      [2 ** 53 - 1, false],
      [2 ** 53, false],
      [2 ** 63, false],
      [2 ** 64 - 2 ** 32, false],
    ] as const) {
      const { operations, state } = numbered([1, 2])
      setLineSequence(operations.words, imageOf(1), sequence)
      operations.unwritten[1] = HALF_WRITTEN
      operations.next[1] = 1
      expect(writeImages(operations, state.list)).toBe(0)
      readOperations(operations, state.list, 0, 0)
      expect([operations.sequence, operations.mended]).toEqual(counts ? [sequence, 0] : [2, 1])
      expect(operations.lost).toBe(0)
      expect([0, 1].map((place) => isDurable(operations, place, 0, 5))).toEqual([true, true])
    }
  })

  test('D-13: are of nobody behind a save that failed, and none of them counts any more', () => {
    const one = crowded()
    const { operations, nvdimm, state } = one
    const { sequence } = operations
    decay(one, 5, 'torn')
    nvdimm.dirtyShutdowns += 1
    const facts = { ...FACTS, nvdimmBytes: nvdimm.bytes, dirtyShutdowns: 1 }
    const next = createState(new EmulatedMachine({ facts, nvdimm, transmit: () => {} }))
    // What was torn is found by the start behind: that one has lines to look at again.
    for (const mended of [0, 1]) {
      boot(next)
      const table = next.commit.operations
      const free = LINES.slice(0, CLIENTS).filter((place) => {
        return lineIsFree(table.words, imageOf(place)) && !isNewOperation(table, place, 0, 0)
      })
      expect(free.length).toBe(CLIENTS)
      expect(table.forgetful).toBe(true)
      expect([table.mended, table.lost]).toEqual([mended, 0])
      // More than may have been lost unseen, and so few that two million saves may fail.
      expect(table.sequence).toBe(sequence + 2 ** 32 + mended)
      // Whoever comes takes the first place, and lines that count.
      expect(takeClient(table, NO_CLIENT, 0, 1)).toBe(0)
    }
    recordOperation(next.commit.operations, 0, 0, 9)
    expect(writeImages(next.commit.operations, next.list)).toBe(0)
    boot(next)
    expect(isDurable(next.commit.operations, 0, 0, 9)).toBe(true)
    expect(isDurable(next.commit.operations, 0, 0, 1)).toBe(false)
    expect(state.refused).toBe(0)
  })

  test('a start knows what the lines say, and nothing of the life before', () => {
    for (const made of [() => crowded(), () => numbered([1, 2, 3]), () => core()]) {
      const { operations, nvdimm, state } = made()
      const fresh = core()
      const content = nvdimm.durable.slice()
      // A life of which the medium hears nothing.
      operations.uses += 100
      for (let client = 900; client < 903; client++) takeClient(operations, NO_CLIENT, 1, client)
      for (const all of [operations.next, operations.unwritten, operations.retired]) all.fill(1)
      Object.assign(operations, { recovered: 7, mended: 8, lost: 9, scrubbed: 16, memberCount: 3 })
      boot(state)
      fresh.nvdimm.live.set(content)
      fresh.nvdimm.durable.set(content)
      const { commit } = createState(fresh.state.list.machine)
      readOperations(commit.operations, fresh.state.list, 0, 0)
      const [said, told] = [operations, commit.operations].map(({ words, members, ...table }) => {
        return { ...table, lines: words.slice(imageOf(0), imageOf(CLIENTS)) }
      })
      expect(said).toEqual(told)
    }
  })

  test.each([
    [0, 'unreadable'],
    [1, 'torn'],
    [2, 'unreadable'],
    [CLIENTS - 1, 'torn'],
    [CLIENTS, 'unreadable'],
    [2 * CLIENTS - 2, 'torn'],
    [2 * CLIENTS - 1, 'unreadable'],
  ] as const)('R1-C6: cost no other one, where number %i of them is %s', (line, how) => {
    const one = crowded()
    decay(one, line, how)
    const beside = besideOf(one)
    expect(readOperations(one.operations, one.state.list, 0, 0)).toBe(2 * CLIENTS)
    expect(one.operations.mended).toBe(1)
    expectAllKnown(one)
    expect(besideOf(one)).toEqual(beside)
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

  test('D-6: writes the operations of its records, none of an attempt that was given up', () => {
    const { operations, state } = core()
    const { list } = state
    const [one, two] = [7, 8].map((name) => takeClient(operations, NO_CLIENT, 0, name))
    // Its first attempt fails, and one of its records is dropped.
    beginLines(operations)
    for (const id of [1, 2]) addToLine(operations, one!, 0, id)
    beginLines(operations)
    const sequence = operations.sequence
    const added = [
      [NO_CLIENT, 5],
      [one, 0],
      [one, 2],
      [two, 4],
      [one, 3],
      [two, 5],
      [NO_CLIENT, 6],
    ] as const
    for (const [place, id] of added) addToLine(operations, place!, 0, id)
    storeLines(operations, list)
    fenceOwn(list)
    storeSecondLines(operations, list)
    fenceOwn(list)
    // One line of each client, sealed and stored, and stored once more; each has a number.
    expect([list.count, operations.sequence]).toEqual([8, sequence + 2])
    expect(run(list)).toBe(-1)
    endLines(operations)
    readOperations(operations, list, 0, 0)
    const known = [one, two].map((place) => {
      return [1, 2, 3, 4, 5, 6].filter((id) => isDurable(operations, place!, 0, id))
    })
    expect(known).toEqual([
      [2, 3],
      [4, 5],
    ])
    expect(operations.mended).toBe(0)
  })

  /** Clients 7 and 8 in places 1 and 2, with operation 1; 8 was last, and place 0 is free. */
  function neighbours(): Core {
    const one = core()
    const { operations, state } = one
    onlyPlaces(operations, 3)
    operations.retired[0] = 1
    for (const client of [7, 8]) {
      const place = takeClient(operations, NO_CLIENT, 0, client)
      expect(place).toBe(client - 6)
      recordOperation(operations, place, 0, 1)
    }
    operations.retired[0] = 0
    expect(writeImages(operations, state.list)).toBe(0)
    return one
  }

  test('P1-11: of whom the second line is refused moves with what its group adds', () => {
    for (const refused of [1, 2]) {
      const { operations, nvdimm, state } = neighbours()
      const { list } = state
      beginOperation(operations, refused, 1, 6)
      beginLines(operations)
      for (const place of [1, 2]) addToLine(operations, place, 0, 2)
      storeLines(operations, list)
      fenceOwn(list)
      expect(run(list)).toBe(-1)
      const second = operationLineAddress(refused, 1 - operations.next[refused]!) - NVDIMM_SPACE
      nvdimm.refuseWrites(second / LINE_BYTES)
      const store = (): number => {
        storeSecondLines(operations, list)
        fenceOwn(list)
        return run(list)
      }
      expect(clientOfOwner(ownerOf(list, store()))).toBe(refused)
      expect(moveClient(operations, refused)).toBe(0)
      expect(store()).toBe(-1)
      endLines(operations)
      const moved = [0, 3 - refused].map((place) => isDurable(operations, place, 0, 2))
      expect(moved).toEqual([true, true])
      // The latest that has begun is so in the new place, too.
      expect([6, 7].map((low) => isNewOperation(operations, 0, 1, low))).toEqual([false, true])
      // The power goes, and comes back: the first line of one, the second of the other.
      cut(nvdimm, { random: new Random(1), strategy: 'none' })
      boot(state)
      const known = [7, 8].map((client) => {
        const place = findClient(operations, NO_CLIENT, 0, client)
        return [1, 2, 3].filter((id) => isDurable(operations, place, 0, id))
      })
      expect(known).toEqual([
        [1, 2],
        [1, 2],
      ])
      // Of two places that say the same the first one counts.
      expect(findClient(operations, NO_CLIENT, 0, refused + 6)).toBe(0)
      expect(operations.forgetful).toBe(false)
    }
  })

  test.each([0, 1, 2])(
    'P1-11: who has nowhere to move goes out of the group, number %i of it, and nobody else',
    (gone) => {
      const { operations, nvdimm, state } = core()
      const { list } = state
      onlyPlaces(operations, 3)
      beginLines(operations)
      for (const name of [7, 8, 9]) {
        addToLine(operations, takeClient(operations, NO_CLIENT, 0, name), 0, 1)
      }
      storeLines(operations, list)
      fenceOwn(list)
      expect(run(list)).toBe(-1)
      const second = operationLineAddress(gone, 1 - operations.next[gone]!) - NVDIMM_SPACE
      nvdimm.refuseWrites(second / LINE_BYTES)
      const stored = (): number[] => {
        storeSecondLines(operations, list)
        return Array.from({ length: list.count }, (_, i) => clientOfOwner(ownerOf(list, i)))
      }
      expect(stored()).toEqual([0, 1, 2])
      expect(run(list)).toBe(gone)
      expect(moveClient(operations, gone)).toBe(NO_CLIENT)
      expect(stored().sort()).toEqual([0, 1, 2].filter((place) => place !== gone))
      fenceOwn(list)
      expect(run(list)).toBe(-1)
      endLines(operations)
      const known = [7, 8, 9].map((name) => {
        return isDurable(operations, findClient(operations, NO_CLIENT, 0, name), 0, 1)
      })
      expect(known).toEqual([0, 1, 2].map((place) => place !== gone))
    },
  )

  test('P1-11: who moves was served just now: it is others that make room', () => {
    const { operations } = neighbours()
    expect(moveClient(operations, 1)).toBe(0)
    operations.uses += 40
    expect(takeClient(operations, NO_CLIENT, 0, 9)).toBe(2)
    const other = neighbours().operations
    expect(moveClient(other, 1)).toBe(0)
    for (let more = 2; more < BURST_FRAMES; more++) takeClient(other, 0, 0, 7)
    expect(takeClient(other, NO_CLIENT, 0, 9)).toBe(NO_CLIENT)
    takeClient(other, 0, 0, 7)
    expect(takeClient(other, NO_CLIENT, 0, 9)).toBe(2)
  })

  test('P1-11: a store of the table is told from one of a lane, and whose line it was', () => {
    const { operations, state } = core()
    const { list } = state
    beginLines(operations)
    for (let name = 1; name <= BURST_FRAMES; name++) {
      const place = takeClient(operations, NO_CLIENT, 0, name)
      for (const id of [1, 2]) addToLine(operations, place, 0, id)
    }
    storeLines(operations, list)
    storeSecondLines(operations, list)
    const stores = Array.from({ length: list.count }, (_, i) => i).filter((i) => {
      return ownerOf(list, i) !== 0
    })
    const places = Array.from({ length: BURST_FRAMES }, (_, i) => i)
    const stored = stores.map((i) => clientOfOwner(ownerOf(list, i)))
    expect(stored).toEqual([...places, ...places])
    const to = stores.map((i) => list.words[i * COMMAND_WORDS + TO])
    expect(to).toEqual([0, 1].flatMap((w) => places.map((c) => operationLineAddress(c, w))))
    expect(run(list)).toBe(-1)
    // The owner of a lane's store is -1 less its number, and that of a queue pair is above 0.
    const others = Array.from({ length: LANES + 3 }, (_, i) => clientOfOwner(2 - i))
    expect(new Set(others)).toEqual(new Set([NO_CLIENT]))
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
    ['no phase', (words) => words.fill(0x2dd2 | (5 << 16), 0, 1)],
    ['the phase of another low word', (words) => words.fill(0x1235, PHASE_SEQUENCE, MAGIC)],
    [
      'the phase of another high word',
      (words) => words.fill(PHASE_A | (0x5e << 8) | (9 << 16), 0, 1),
    ],
    ['a magic number of another kind', (words) => words.fill(7, MAGIC, MAGIC + 1)],
    ['a phase that there is not', (words) => words.fill(0x11 | (0xee << 8) | (5 << 16), 0, 1)],
    ['a phase without its complement', (words) => words.fill(PHASE_B, 0, 1)],
  ])('H11: is none where the line has %s, however sound its check code', (_, damage) => {
    const words = new Int32Array(16)
    writeIntent(words, 0, { ...blankIntent(), sequenceLow: 0x1234, sequenceHigh: 5 })
    expect(lanePhase(words, 0)).toBe(PHASE_A)
    damage(words)
    expect(lanePhase(words, 0)).toBe(-1)
  })
})
