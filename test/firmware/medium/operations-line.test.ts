/**
 * A line of the operation table, held against a set of numbers: what it knows of each operation,
 * however its client goes on, skips, comes late, and is taken back (D-6, X-3).
 *
 * Invariant: operations are 64-bit integers here, drawn near the ends of the bitmap and of
 * their words; after each step every operation near such an end is asked for, and every byte of the
 * line is what the diagram of operation-line.ts says: a later version has to read it. The set says
 * what that diagram says, and shares no line with it.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import {
  addOperation,
  blankLine,
  clientHigh,
  clientLow,
  copyLine,
  dropOperation,
  forgetAll,
  forgetBefore,
  forgetsAll,
  forgetUpTo,
  knowsOperation,
  lineIsForgetful,
  lineIsFree,
  lineIsOf,
  lineIsVoid,
  lineSequence,
  markForgetful,
  mayBeForgotten,
  newestHigh,
  newestLow,
  OPERATION_LINE_WORDS,
  openOperations,
  setLineSequence,
} from '../../../firmware/medium/operation-line.ts'

const SEED = Number(process.env.SEED ?? 20261124)
const ROUNDS = 3
const STEPS = 40
const WINDOW = 128n
const WORD = 2n ** 32n

/** What a line should know. */
class Known {
  newest = 0n
  /** So many right under the bitmap are durable, without a gap. */
  run = 0n
  /** Operations that are durable; of those under the bitmap `run` counts. */
  private readonly durable = new Set<bigint>()
  /** Of those up to here nothing is known but what is durable. */
  private floor = -WINDOW
  /** Of none anything is known but of what is durable: 'late', until one is recorded or new. */
  private unsure: 'no' | 'late' | 'all' = 'no'

  /** All up to this one, of which `run` are counted under the bitmap. */
  static old(newest: bigint, run: bigint): Known {
    const known = new Known()
    known.newest = newest
    known.run = run
    for (let id = newest - WINDOW + 1n; id <= newest; id++) known.durable.add(id)
    return known
  }

  get forgetsAll(): boolean {
    return this.unsure !== 'no'
  }

  private get under(): bigint {
    return this.newest - WINDOW
  }

  add(id: bigint): void {
    if (id <= this.under) return
    if (id > this.newest) this.moveOn(id)
    this.durable.add(id)
  }

  private moveOn(id: bigint): void {
    if (this.unsure === 'late') this.forgetUpTo(id + 1n)
    const far = id - this.newest > WINDOW
    for (let left = this.under + 1n; !far && left <= id - WINDOW; left++) {
      this.run = left <= 0n || this.durable.has(left) ? this.run + 1n : 0n
    }
    if (far) this.run = 0n
    this.newest = id
  }

  drop(id: bigint): void {
    if (!this.knows(id)) return
    if (id > this.under) this.durable.delete(id)
    else this.run = this.under - id
  }

  forget(): void {
    this.floor = this.newest
    this.unsure = this.newest === 0n ? 'late' : 'no'
  }

  forgetAll(): void {
    this.unsure = 'all'
  }

  /** That one is a new one. */
  comes(id: bigint): void {
    if (id <= this.newest) return
    this.unsure = 'no'
    this.moveOn(id - 1n)
    this.forgetUpTo(id)
  }

  private forgetUpTo(id: bigint): void {
    // Below the first one there is none.
    this.floor = id === 1n ? -WINDOW : id - 1n
    this.unsure = 'no'
  }

  /** Of so many ids, from the lowest of the bitmap on, a clear bit says nothing. */
  get unsureBits(): bigint {
    if (this.unsure === 'all') return WINDOW + 1n
    if (this.unsure === 'late') return WINDOW
    return this.floor > this.under ? this.floor - this.under : 0n
  }

  /** Bit (id & 127) is that of one of the last 128 ids; what is below 1 counts as durable. */
  get bitmap(): bigint {
    let bits = 0n
    for (let id = this.under + 1n; id <= this.newest; id++) {
      if (id <= 0n || this.durable.has(id)) bits |= 1n << BigInt.asUintN(7, id)
    }
    return bits
  }

  knows(id: bigint): boolean {
    if (id > this.newest) return false
    return id > this.under ? this.durable.has(id) : this.under - id < this.run
  }

  mayBeForgotten(id: bigint): boolean {
    if (this.knows(id)) return false
    return this.unsure !== 'no' || id <= this.floor || id <= this.under
  }

  /** Every operation up to this one is durable: 0, where that is not known of any. */
  upTo(): bigint {
    if (this.under > 0n && this.run < this.under) return 0n
    let last = this.under > 0n ? this.under : 0n
    while (this.knows(last + 1n)) last += 1n
    return last
  }
}

function halves(id: bigint): [high: number, low: number] {
  return [Number(id / WORD), Number(id % WORD)]
}

const AT = OPERATION_LINE_WORDS

/** A line between two others, and what it should know. */
function lineOf(client: bigint): { words: Int32Array; known: Known } {
  const words = new Int32Array(3 * OPERATION_LINE_WORDS).fill(-7)
  blankLine(words, AT, ...halves(client))
  return { words, known: new Known() }
}

/** One that was written when its client had come so far without a gap; `run` are counted. */
function oldLineOf(client: bigint, newest: bigint, run: bigint): ReturnType<typeof lineOf> {
  const { words } = lineOf(client)
  const line = new DataView(words.buffer, AT * 4, LINE_BYTES)
  line.setBigUint64(32, newest, true)
  line.setBigUint64(40, run, true)
  return { words, known: Known.old(newest, run) }
}

/** What the bytes of a line say, field by field, by its diagram. */
function fieldsOf(words: Int32Array): Record<string, bigint | number> {
  const line = new DataView(words.buffer, AT * 4, LINE_BYTES)
  return {
    client: line.getBigUint64(24, true),
    newest: line.getBigUint64(32, true),
    below: BigInt.asUintN(48, line.getBigUint64(40, true)),
    mark: line.getUint8(46),
    unsure: line.getUint8(47),
    bitmap: line.getBigUint64(48, true) | (line.getBigUint64(56, true) << 64n),
  }
}

/** Near the newest one, near where something ends, far ahead, or where the low word begins. */
function near(random: Random, { newest, run }: Known): bigint {
  const drawn = random.below(13)
  if (drawn === 12) return newest - WINDOW - run + BigInt(random.below(5) - 1)
  if (drawn < 6) return newest + BigInt(1 + random.below(3))
  if (drawn < 8) return newest - BigInt(random.below(8))
  if (drawn < 10) return newest - WINDOW + BigInt(random.below(5) - 2)
  if (drawn < 11) return newest + BigInt(random.below(300))
  return (newest / WORD) * WORD + BigInt(random.below(2))
}

/** Operations at which something ends. */
function asked(random: Random, { newest, run }: Known): bigint[] {
  const under = newest - WINDOW
  const ends = [newest, under, under + WINDOW / 2n, under - run, (newest / WORD) * WORD, 1n]
  const close = ends.flatMap((end) => [-2n, -1n, 0n, 1n, 2n].map((by) => end + by))
  const any = Array.from({ length: 8 }, () => newest - BigInt(random.below(300)))
  return [...close, ...any].filter((id) => id > 0n && id < WORD * WORD)
}

function expectSame(random: Random, words: Int32Array, known: Known): void {
  const { newest, run: below, unsureBits: unsure, bitmap } = known
  const fields = { newest, below, unsure: Number(unsure), bitmap }
  expect(fieldsOf(words), `the newest ${newest}`).toMatchObject(fields)
  for (const id of asked(random, known)) {
    const of = `operation ${id}, the newest ${known.newest}`
    expect(knowsOperation(words, AT, ...halves(id)), of).toBe(known.knows(id))
    expect(mayBeForgotten(words, AT, ...halves(id)), of).toBe(known.mayBeForgotten(id))
  }
  expect(forgetsAll(words, AT)).toBe(known.forgetsAll)
  expect([newestHigh(words, AT), newestLow(words, AT)]).toEqual(halves(known.newest))
  const open = openOperations(words, AT)
  expect(open < 0 ? 0n : known.newest - BigInt(open)).toBe(known.upTo())
}

/** A step of both: one comes, is recorded or taken back, or what was before is forgotten. */
function step(random: Random, words: Int32Array, known: Known, id: bigint): void {
  const drawn = random.below(100)
  if (drawn < 2) {
    forgetBefore(words, AT)
    known.forget()
  } else if (drawn < 4) {
    forgetAll(words, AT)
    known.forgetAll()
  }
  if (id <= 0n) return
  if (drawn > 60 && forgetsAll(words, AT)) {
    forgetUpTo(words, AT, ...halves(id))
    known.comes(id)
  }
  if (random.chance(0.15)) {
    dropOperation(words, AT, ...halves(id))
    known.drop(id)
  } else {
    addOperation(words, AT, ...halves(id))
    known.add(id)
  }
}

const OTHERS = new Int32Array(AT).fill(-7)

/** A life of a line; its first operations are these. */
function live(line: ReturnType<typeof lineOf>, first: readonly bigint[], random: Random): void {
  const { words, known } = line
  expectSame(random, words, known)
  for (let i = 0; i < STEPS; i++) {
    step(random, words, known, first[i] ?? near(random, known))
    expectSame(random, words, known)
  }
  expect([words.slice(0, AT), words.slice(2 * AT)]).toEqual([OTHERS, OTHERS])
}

test.each([
  ...[1n, 2n, 100n, WINDOW + 1n, WORD - 3n, WORD - WINDOW - 2n, WORD, 3n * WORD - 1n],
  WORD ** 2n / 2n,
])('D-6: a line whose client begins with %i knows what was recorded, and nothing else', (first) => {
  const random = new Random(SEED)
  for (let round = 0; round < ROUNDS; round++) {
    const line = lineOf(5n * WORD + 7n)
    const isForgetful = round % 2 === 1
    if (isForgetful) {
      markForgetful(line.words, AT)
      forgetAll(line.words, AT)
      line.known.forgetAll()
    }
    // The second one has the high word of the first, and comes late: its low word begins.
    live(line, [first, (first / WORD) * WORD], random)
    expect(lineIsForgetful(line.words, AT)).toBe(isForgetful)
    expect(fieldsOf(line.words)).toMatchObject({ client: 5n * WORD + 7n, mark: round % 2 })
  }
})

test.each([
  { newest: 2n * WORD + 5n, run: WORD - 1n },
  { newest: 3n * WORD - 2n, run: 2n * WORD + 7n },
  { newest: 3n * WORD + 200n, run: 3n * WORD + 72n },
  { newest: 2n ** 63n - 2n, run: 2n ** 48n - 1000n },
])('D-6: a line of a long life, up to $newest, tells as much of all that follows', (old) => {
  for (let round = 0; round < ROUNDS; round++) {
    const random = new Random(SEED + round)
    const line = oldLineOf(7n, old.newest, old.run)
    if (round === 1) {
      markForgetful(line.words, AT)
      forgetBefore(line.words, AT)
      line.known.forget()
    }
    if (round === 2) {
      const id = old.newest - WINDOW - old.run / 2n
      dropOperation(line.words, AT, ...halves(id))
      line.known.drop(id)
    }
    live(line, [old.newest + 1n, old.newest + BigInt(2 + round)], random)
    expect(fieldsOf(line.words)).toMatchObject({ client: 7n, mark: round % 2 })
  }
})

test('D-6: a line speaks of its client alone, whatever it knows of it', () => {
  const clients = [0n, 1n, 2n, WORD - 1n, WORD, 5n * WORD, 5n * WORD + 7n, WORD ** 2n - 1n]
  for (const client of clients) {
    const { words, known } = lineOf(client)
    expect(lineIsFree(words, AT)).toBe(client === 0n)
    expect(fieldsOf(words)).toMatchObject({ client, mark: 0, unsure: 0, newest: 0n, below: 0n })
    const [high, low] = [clientHigh(words, AT) >>> 0, clientLow(words, AT) >>> 0]
    expect([high, low]).toEqual(halves(client))
    for (const id of client === 0n ? [] : [1n, 2n, 4n]) {
      addOperation(words, AT, ...halves(id))
      known.add(id)
      expectSame(new Random(SEED), words, known)
    }
    const spoken = clients.filter((one) => lineIsOf(words, AT, ...halves(one)))
    expect(spoken).toEqual(client === 0n ? [] : [client])
  }
})

test('D-6: a client that leaves no gap is known as a whole, far beyond the bitmap', () => {
  const { words, known } = lineOf(7n)
  const random = new Random(SEED)
  for (let id = 1n; id <= 300n; id++) {
    addOperation(words, AT, ...halves(id))
    known.add(id)
    if (id % 7n === 0n) expectSame(random, words, known)
    expect(known.upTo()).toBe(id)
  }
})

test('D-6: what comes next comes next in all of its 64 bits, whoever its client is', () => {
  // The last one is what stands in the lines beside it, too.
  const highs = [0n, 1n, WORD / 2n, WORD - 7n]
  for (const client of highs.map((high) => high * WORD + 7n)) {
    for (const [high, next] of highs.flatMap((one) =>
      highs.map((other) => [one, other] as const),
    )) {
      const { words, known } = lineOf(client)
      for (const id of [high * WORD + 5n, next * WORD + 6n]) {
        addOperation(words, AT, ...halves(id))
        known.add(id)
      }
      expectSame(new Random(SEED), words, known)
    }
  }
})

test.each([1n, 2n, 50n])(
  'D-6: what a line had forgotten leaves it one by one, with gaps from %i on',
  (gap) => {
    const { words, known } = lineOf(7n)
    const random = new Random(SEED)
    const record = (id: bigint): void => {
      addOperation(words, AT, ...halves(id))
      known.add(id)
    }
    for (const id of [1n, 3n]) record(id)
    forgetBefore(words, AT)
    known.forget()
    for (let id = 4n; id <= 300n; id++) {
      if (id % 64n !== gap) record(id)
      if (id > 100n && id < 150n) expectSame(random, words, known)
    }
    expectSame(random, words, known)
  },
)

test.each([1n, 2n, 3n, WINDOW, WINDOW + 1n, WORD, WORD + 1n])(
  'D-6: a line that had forgotten all says nothing of what is below a new operation, %i',
  (id) => {
    const { words, known } = lineOf(7n)
    forgetAll(words, AT)
    known.forgetAll()
    forgetUpTo(words, AT, ...halves(id))
    known.comes(id)
    expectSame(new Random(SEED), words, known)
  },
)

test('D-6: a line is copied whole, its sequence has 53 bits, and that of none is 0', () => {
  const words = new Int32Array(2 * OPERATION_LINE_WORDS)
  for (const sequence of [0, 1, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1]) {
    words.fill(9)
    setLineSequence(words, 0, sequence)
    copyLine(words, 0, AT)
    expect([lineSequence(words, AT), lineIsVoid(words, AT)]).toEqual([sequence, sequence === 0])
    expect(new DataView(words.buffer).getBigUint64(16, true)).toBe(BigInt(sequence))
    expect(words.slice(AT)).toEqual(words.slice(0, AT))
    expect(words.filter((word) => word === 9).length).toBeGreaterThanOrEqual(2 * (AT - 2))
  }
})

test('D-6: what is open up to the newest operation counts it, too, where it was taken back', () => {
  const { words } = lineOf(7n)
  for (let id = 1n; id <= 3n; id++) addOperation(words, AT, ...halves(id))
  expect(openOperations(words, AT)).toBe(0)
  dropOperation(words, AT, ...halves(3n))
  expect(openOperations(words, AT)).toBe(1)
})
