/**
 * What the crash stage plays: kinds of operations on records of 64 bytes, at a level, with a
 * pattern of data.
 *
 * Invariant: a play follows from its name, level and pattern. Its part has keys of its own,
 * so that no two plays have an image in common. Where the product of the subsets of several copies
 * is too large, it says how it is made smaller: by writes that change few chunks, all of whose
 * products are visited; or by cutting one record finely beside every class of the others (R3 of
 * the crash model: records on different lines commute).
 */

import { dataOf } from '../../support/cards/test-card.ts'
import type { Actor, Write } from '../../support/crash/actor.ts'
import { type Level, levelName, type Scenario } from '../../support/crash/scenario.ts'

/** Bytes of a record. */
const BYTES = 64

/** Data that a hostile client may send, too: what looks like our own structures, and plain runs. */
function filled(pattern: number, seed: number): Uint8Array {
  const data = dataOf(BYTES, 17 * pattern + seed)
  switch (pattern % 5) {
    case 1:
      return data.fill(seed % 4 < 2 ? 0 : 0xff)
    case 2:
      // The magic, region, record and length of a slot header, where one would stand.
      data.set([0x4c, 0x53, 0x44, 0x50, 1, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0], 16)
      return data
    case 3:
      // A lane in phase B that names record 0.
      data.set([0xb2, 0x4d, 0, 0, seed, 0, 0, 0, 0x4e, 0x49, 0x44, 0x50, 1, 0, 0, 0], 0)
      return data
    default:
      return data
  }
}

/** The same data with eight bytes different: with its header five chunks change. */
function close(data: Uint8Array, seed: number): Uint8Array {
  const other = data.slice()
  other.set(dataOf(8, seed), 24)
  return other
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

/** How a kind is made. */
interface Kind {
  readonly name: string
  /** CPU seconds of one play at 2of2, about. */
  readonly seconds: number
  /** Records of its group, if the crash table of every record of it can be foretold. */
  readonly records?: number
  /** Plays of one pattern. */
  make(level: Level, pattern: number): Partial<Scenario> & Pick<Scenario, 'during'>
}

type Make = Kind['make']

/**
 * A group over older records, all of them written by `before`, whose lanes are still set: that a
 * lane was cleared, and not for sure, would give each of its chunks three states.
 */
function group(
  count: number,
  data: (slot: number, version: number, pattern: number) => Uint8Array,
  how: 'write' | 'batch',
  rest: Partial<Scenario> = {},
): Make {
  return ({ wait }, pattern) => {
    const writes = (version: number, at: number): Write[] =>
      upTo(count).map((slot) => ({ slot, data: data(slot, version, pattern), wait: at }))
    return {
      before: (actor) => actor[how](...writes(1, 2)),
      during: (actor) => {
        actor[how](...writes(2, wait))
        actor.idle()
      },
      ...(how === 'batch' ? { inOrder: upTo(count) } : {}),
      ...rest,
    }
  }
}

/** Five chunks of each copy change. */
function closeData(slot: number, version: number, pattern: number): Uint8Array {
  return close(filled(pattern, slot), 40 * version + slot + pattern)
}

/** Four chunks change: sequence, operation and check code. */
function sameData(slot: number, _version: number, pattern: number): Uint8Array {
  return filled(pattern, slot)
}

/** Twelve chunks change: all but magic, place, length, client. */
function freshData(slot: number, version: number, pattern: number): Uint8Array {
  return filled(pattern, 10 * version + slot)
}

/** One record at a time: what was there before, and what is done. */
function one(before: (actor: Actor, pattern: number) => void, rest: Partial<Scenario> = {}): Make {
  return ({ wait }, pattern) => ({
    before: (actor) => before(actor, pattern),
    during: (actor) => {
      actor.write({ slot: 0, data: filled(pattern, 3), wait })
      actor.idle()
    },
    ...rest,
  })
}

/** A shorter record of another client, the lanes of its group still set. */
function another(actor: Actor, pattern: number): void {
  const data = filled(pattern, 1).slice(0, 48)
  actor.write({ slot: 0, data, wait: 2, client: 1 }, { slot: 1, data: filled(pattern, 2), wait: 2 })
}

function own(actor: Actor, pattern: number): void {
  actor.write({ slot: 0, data: filled(pattern, 1), wait: 2 })
  actor.idle()
}

function ownClose(actor: Actor, pattern: number): void {
  actor.write({ slot: 0, data: close(filled(pattern, 3), pattern), wait: 2 })
  actor.idle()
}

const repeated: Make = ({ wait }, pattern) => {
  const [first, second] = [1, 2].map((version) => ({
    slot: 0,
    data: close(filled(pattern, 1), 10 * version + pattern),
    wait,
  }))
  return {
    during: (actor) => {
      actor.write(first!)
      actor.again(first!, 1)
      actor.write({ ...second!, client: 1 })
      actor.again(first!, 1)
      actor.again({ ...second!, client: 1 }, 2)
      actor.idle()
      actor.again(first!, 1)
    },
  }
}

/** Two writes of one record, the second before the first was answered, in one burst or in two. */
function overtaken(bursts: number): Make {
  return ({ wait }, pattern) => {
    const base = filled(pattern, 1)
    const writes = [1, 2].map((version): Write => {
      const data = close(base, 10 * version + pattern)
      return { slot: 0, data, wait, client: version - 1 }
    })
    return {
      before: (actor) => {
        actor.write({ slot: 0, data: base, wait: 2 })
        actor.idle()
      },
      during: (actor) => {
        if (bursts === 1) actor.write(...writes)
        else for (const write of writes) actor.write(write)
        actor.idle()
      },
    }
  }
}

/** The same lanes again and again, each with the intent of the group before still in it. */
const recycled: Make = ({ wait }, pattern) => {
  const write = (slot: number, version: number, client = 0): Write => {
    return { slot, data: closeData(slot, version, pattern), wait, client }
  }
  return {
    before: (actor) => actor.write(write(0, 1), write(1, 1)),
    during: (actor) => {
      actor.write(write(2, 2))
      actor.write(write(1, 3, 1))
      actor.write(write(0, 4), write(2, 4))
      actor.write(write(1, 5))
    },
  }
}

/** Every subset of the lines of the operation table, beside every subset of copy B. */
const tableLines: Make = ({ wait }, pattern) => ({
  before: (actor) => {
    ownClose(actor, pattern)
  },
  during: (actor) => {
    actor.write({ slot: 0, data: filled(pattern, 3), wait })
    actor.write({ slot: 0, data: close(filled(pattern, 3), pattern + 9), wait, client: 1 })
    actor.idle()
  },
  fineTable: true,
})

/**
 * One record over another, each with its guard, beside one whose guard is not that of its data:
 * what a cut leaves has the guard that belongs to it, or is the record before (S1-M1).
 */
const guarded: Make = ({ wait }, pattern) => {
  const [first, second] = [1, 2].map((version) => close(filled(pattern, 1), 10 * version + pattern))
  return {
    before: (actor) => {
      actor.write({ slot: 0, data: first!, wait: 2, guard: 'right' })
      actor.idle()
    },
    during: (actor) => {
      actor.write(
        { slot: 0, data: second!, wait, guard: 'right' },
        { slot: 1, data: filled(pattern, 2), wait, guard: 'wrong' },
      )
      actor.write({ slot: 0, data: first!, wait, client: 1 })
      actor.write({ slot: 0, data: second!, wait, guard: 'wrong' })
      actor.idle()
    },
  }
}

/** The third of four in order has a wrong guard: it and the fourth are as they were. */
const guardedBatch: Make = ({ wait }, pattern) => {
  const write = (slot: number, version: number, at: number): Write => {
    const guard = version === 2 && slot === 2 ? 'wrong' : 'right'
    return { slot, data: closeData(slot, version, pattern), wait: at, guard }
  }
  return {
    before: (actor) => {
      actor.batch(...upTo(4).map((slot) => write(slot, 1, 2)))
      actor.idle()
    },
    during: (actor) => {
      actor.batch(...upTo(4).map((slot) => write(slot, 2, wait)))
      actor.idle()
    },
    inOrder: [0, 1],
    wholeLanes: true,
  }
}

export const KINDS: readonly Kind[] = [
  { name: 'write over another', seconds: 5, make: one(another) },
  { name: 'write over a blank', seconds: 3, records: 1, make: one(() => {}) },
  { name: 'write over its own', seconds: 1, records: 1, make: one(own) },
  { name: 'group of 2', seconds: 4, records: 2, make: group(2, closeData, 'write') },
  {
    name: 'group of 2, one finely',
    seconds: 3,
    records: 2,
    make: (level, pattern) =>
      group(2, freshData, 'write', { fineRecord: pattern % 2 })(level, pattern),
  },
  {
    name: 'group of 4',
    seconds: 14,
    records: 4,
    make: group(4, sameData, 'write', { wholeLanes: true }),
  },
  {
    name: 'group of 4, one finely',
    seconds: 1,
    records: 4,
    make: (level, pattern) =>
      group(4, closeData, 'write', { fineRecord: pattern % 4 })(level, pattern),
  },
  { name: 'batch of 2', seconds: 4, records: 2, make: group(2, closeData, 'batch') },
  {
    name: 'batch of 4',
    seconds: 14,
    records: 4,
    make: group(4, sameData, 'batch', { wholeLanes: true }),
  },
  { name: 'repeated', seconds: 3, make: repeated },
  { name: 'overtaken in a burst', seconds: 1, make: overtaken(1) },
  { name: 'overtaken by a burst', seconds: 1, make: overtaken(2) },
  { name: 'lanes again', seconds: 7, make: recycled },
  { name: 'lines of the table', seconds: 1, make: tableLines },
  {
    name: 'recovery',
    seconds: 3,
    make: one(own, { nested: 3, nestedSample: 2 ** 13, perClass: 16 }),
  },
  {
    name: 'recovery of 2 in order',
    seconds: 10,
    // Where one lane may say A and the other B.
    make: group(2, closeData, 'batch', { only: 'before F3', nested: 2, nestedSample: 2 ** 6 }),
  },
  {
    name: 'media errors',
    seconds: 3,
    make: (level, pattern) => {
      const mayLose = level.copies === 2
      return one(ownClose, {
        mediaErrors: [
          mayLose ? { lines: 'copies', mayLose } : { lines: 'copies' },
          { lines: 'metadata' },
          { lines: 'table' },
        ],
      })(level, pattern)
    },
  },
  { name: 'guarded', seconds: 4, make: guarded },
  { name: 'guarded batch', seconds: 4, make: guardedBatch },
]

/** A number that no other play has. */
function entropyOf(kind: number, level: Level, pattern: number): number {
  return 1 + kind + 100 * (level.copies * 8 + level.wait) + 10_000 * pattern
}

/** The scenario of that kind, at that level, with that pattern. */
export function playOf(name: string, level: Level, pattern: number): Scenario {
  const at = KINDS.findIndex((kind) => kind.name === name)
  if (at < 0) throw new Error(`no kind of play is called ${name}`)
  return {
    name: `${name}, ${levelName(level)}, pattern ${pattern}`,
    shape: { copies: level.copies },
    entropy: entropyOf(at, level, pattern),
    ...KINDS[at]!.make(level, pattern),
  }
}
