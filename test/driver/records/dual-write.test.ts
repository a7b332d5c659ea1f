/**
 * Source 1's dual write, driven by the client: one chain against any RDMA target, whose power is
 * cut before each packet; and the read of both copies, each believed by its own check code.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Random, type VirtualClock } from '../../../boards/emulator/index.ts'
import { imageBytes } from '../../../firmware/medium/slot.ts'
import {
  type DualPair,
  type DualRead,
  dualRead,
  dualWrite,
  readSlotImage,
} from '../../../host-driver/index.ts'
import { writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import { failure } from '../../support/driver/failures.ts'
import {
  type VerbsBench,
  type VerbsBenchOptions,
  verbsBench,
} from '../../support/driver/verbs-bench.ts'

const KEY = Uint8Array.from({ length: 16 }, (_, i) => i * 7 + 1)
const CAPACITY = 600
const IMAGE = imageBytes(CAPACITY)
const A = 64
const B = 4096

const clocks: VirtualClock[] = []
afterEach(() => {
  for (const clock of clocks.splice(0)) clock.stop()
})

function bench(options: VerbsBenchOptions = {}): VerbsBench {
  const made = verbsBench(options)
  clocks.push(made.clock)
  return made
}

function pairOf({ memory }: VerbsBench): DualPair {
  return { a: { memory, offset: A }, b: { memory, offset: B }, key: KEY, id: 3, slot: 9 }
}

function write(b: VerbsBench, seed: number, sequence?: bigint): ReturnType<typeof dualWrite> {
  const bytes = data(seed)
  return dualWrite({ ...pairOf(b), bytes, ...(sequence === undefined ? {} : { sequence }) })
}

function read(b: VerbsBench): Promise<DualRead> {
  return dualRead({ ...pairOf(b), capacity: CAPACITY, wire: b.wire })
}

function data(seed: number): Uint8Array {
  return Uint8Array.from({ length: CAPACITY }, (_, i) => (i * 13 + seed * 101) & 0xff)
}

function flip({ target }: VerbsBench, at: number): void {
  target.memory[at] = target.memory[at]! ^ 4
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return (await failure(promise)).code
}

describe('a dual write', () => {
  test('D-8, P1-9: is one chain WRITE A, FLUSH A, WRITE B, FLUSH B', async () => {
    const b = bench()
    const { completions, sequence } = await write(b, 1, 5n)
    expect(b.target.executed).toEqual(['WRITE', 'FLUSH', 'WRITE', 'FLUSH'])
    expect(completions.map(({ opcode }) => opcode)).toEqual([
      'RDMA_WRITE',
      'FLUSH',
      'RDMA_WRITE',
      'FLUSH',
    ])
    expect(sequence).toBe(5n)
    expect(b.queuePair.counts.packets).toBe(2 * Math.ceil(IMAGE / 256) + 2)
  })

  test('P1-1: leaves two copies that are identical to the byte, and durable', async () => {
    const b = bench()
    await write(b, 1, 5n)
    const image = b.target.durable.slice(A, A + IMAGE)
    expect(b.target.durable.slice(B, B + IMAGE)).toEqual(image)
    const { record } = readSlotImage(image, { id: 3, capacity: CAPACITY, key: KEY }, 9)
    expect(record).toMatchObject({ data: data(1), sequence: 5n })
  })

  test('takes the sequence behind that of the copies, where none is given', async () => {
    const b = bench()
    for (const expected of [1n, 2n, 3n]) {
      expect((await write(b, Number(expected))).sequence).toBe(expected)
    }
    expect((await read(b)).record).toMatchObject({ data: data(3), sequence: 3n })
  })

  test('P1-24: does not overwrite a pair without a valid copy, unless told to', async () => {
    const b = bench()
    await write(b, 1)
    for (const at of [A, B]) flip(b, at + 100)
    const before = b.target.memory.slice()
    expect(await codeOf(write(b, 2))).toBe('PERDURE_RECORD_LOST')
    expect(b.target.memory).toEqual(before)
    await write(b, 2, 9n)
    expect((await read(b)).record.data).toEqual(data(2))
  })

  test('P1-12: the next one touches A only when B of the one before is durable', async () => {
    const b = bench()
    await Promise.all([write(b, 1, 1n), write(b, 2, 2n), write(b, 3, 3n)])
    const { executed } = b.target
    expect(executed.join()).toBe(Array(6).fill('WRITE,FLUSH').join())
  })

  test('P1-11: where A cannot be made durable, B stays what it was', async () => {
    const b = bench()
    await write(b, 1, 1n)
    const before = b.target.memory.slice(B, B + IMAGE)
    b.target.mayFlush = false
    expect(await codeOf(write(b, 2, 2n))).toBe('PERDURE_TRANSPORT')
    expect(b.target.memory.slice(B, B + IMAGE)).toEqual(before)
    expect(b.target.executed.slice(4)).toEqual(['WRITE'])
  })

  const wrong: [string, (pair: DualPair, b: VerbsBench) => DualPair][] = [
    ['a key of another length', (pair) => ({ ...pair, key: new Uint8Array(15) })],
    ['places that overlap', (pair) => ({ ...pair, b: { ...pair.b, offset: A + IMAGE - 64 } })],
    ['a place beyond the end', (pair) => ({ ...pair, b: { ...pair.b, offset: 65_536 - 64 } })],
    ['places on two connections', (pair) => ({ ...pair, b: pairOf(bench()).b })],
    ['an id of more than 32 bits', (pair) => ({ ...pair, id: 2 ** 32 })],
  ]
  test.each(wrong)('P1-3: %s is refused before anything is sent', async (_, change) => {
    const b = bench()
    const ending = dualWrite({ ...change(pairOf(b), b), bytes: data(1), sequence: 1n })
    expect(await codeOf(ending)).toBe('PERDURE_ARGUMENT')
    expect(b.link.counts('a').sent).toBe(0)
  })

  test('holds over a link that loses, doubles and reorders, towards Linux too', async () => {
    for (const linux of [false, true]) {
      for (let seed = 1; seed <= 10; seed++) {
        const faults = { loss: 0.08, duplication: 0.05, reordering: 0.05 }
        const b = bench({ linux, faults, seed, ackTimeoutCode: 9, retryCount: 50 })
        for (let i = 1; i <= 5; i++) await write(b, i)
        expect((await read(b)).record).toMatchObject({ data: data(5), sequence: 5n })
        expect(b.target.executed.filter((name) => name !== 'READ').length).toBe(20)
      }
    }
  })
})

describe('a read of both copies', () => {
  test('P1-28: two valid copies of one sequence are settled', async () => {
    const b = bench()
    await write(b, 1)
    const { record, chosen, settled, attempts } = await read(b)
    expect({ chosen, settled, attempts }).toEqual({ chosen: 0, settled: true, attempts: 1 })
    expect(record.data).toEqual(data(1))
  })

  test('D-15: equality is no proof: two equal copies with a wrong code are lost', async () => {
    const b = bench()
    await write(b, 1)
    for (const at of [A, B]) flip(b, at + 70)
    expect(await codeOf(read(b))).toBe('PERDURE_RECORD_LOST')
    expect(b.target.executed.filter((name) => name === 'READ').length).toBe(2 + 2 * 4)
    expect(await codeOf(read(bench()))).toBe('PERDURE_RECORD_LOST')
  })

  test('D-15: nor is a valid code at the place of another record', async () => {
    const b = bench()
    await write(b, 1)
    const other = { ...pairOf(b), slot: 10 }
    expect(await codeOf(dualRead({ ...other, capacity: CAPACITY }))).toBe('PERDURE_RECORD_LOST')
  })

  const different: [string, (b: VerbsBench) => void, number, number][] = [
    ['P1-21: A is newer, B is old', (b) => put(b, A, 2), 0, 2],
    ['P1-21: A is valid, B is torn', (b) => tear(b, B), 0, 1],
    ['P1-22: A is torn, B is valid', (b) => tear(b, A), 1, 1],
  ]
  for (const [what, change, chosen, seed] of different) {
    test(`P1-29, ${what}: is read again a few times, then reported, and not repaired`, async () => {
      const b = bench()
      await write(b, 1)
      change(b)
      const before = b.target.memory.slice()
      const found = await read(b)
      expect(found).toMatchObject({ chosen, settled: false, attempts: 4 })
      expect(found.record.data).toEqual(data(seed))
      expect(b.target.memory).toEqual(before)
    })
  }

  test('P1-29: a write that was under way is over when it is read again', async () => {
    const b = bench()
    await write(b, 1)
    put(b, A, 2)
    const reading = read(b)
    b.clock.schedule(b.clock.nowUs + 1500, () => put(b, B, 2))
    const found = await reading
    expect(found).toMatchObject({ settled: true })
    expect(found.attempts).toBeGreaterThan(1)
    expect(found.record.data).toEqual(data(2))
  })

  function put(b: VerbsBench, at: number, seed: number): void {
    const record = { data: data(seed), sequence: BigInt(seed), clientId: 0n, operationId: 0n }
    const shape = { id: 3, capacity: CAPACITY, key: KEY }
    b.target.memory.set(writeSlotImage(record, shape, 9), at)
  }

  function tear(b: VerbsBench, at: number): void {
    b.target.memory.fill(0x55, at + 300, at + 308)
  }
})

describe('a power cut before each packet of a dual write', () => {
  const seed = Number(process.env.SEED ?? 3)
  /** What of the unflushed bytes reached the medium all the same. */
  const strategies: [string, (random: Random) => (chunk: number) => boolean][] = [
    ['none', () => () => false],
    ['all', () => () => true],
    ['every other chunk', () => (chunk) => chunk % 2 === 0],
    ['chance', (random) => () => random.next() % 2 === 0],
  ]
  const packets = 2 * Math.ceil(IMAGE / 256) + 2

  test.each(strategies)(
    `P1-14 to P1-18, P1-23: leaves old or new, whole; survives: %s (SEED=${seed})`,
    async (_, make) => {
      const random = new Random(seed)
      const outcomes: string[] = []
      for (let cut = 0; cut <= packets; cut++) {
        const b = bench({ ackTimeoutCode: 6, retryCount: 1 })
        await write(b, 1, 1n)
        let number = 0
        b.target.survives = make(random)
        b.target.cutBefore = () => number++ === cut
        const done = await write(b, 2, 2n).then(
          () => true,
          () => false,
        )
        b.target.cutPower()
        const again = bench()
        again.target.restore(b.target.durable)
        const { record, copies } = await read(again)
        const isNew = record.sequence === 2n
        expect(record.data).toEqual(data(isNew ? 2 : 1))
        if (done) expect(isNew).toBe(true)
        outcomes.push(
          copies.map(({ record: one }) => (one === null ? 'torn' : one.sequence)).join(),
        )
        await write(again, 3)
        expect(await read(again)).toMatchObject({ settled: true, record: { data: data(3) } })
      }
      // Before A is written nothing is new, and when the chain is over both copies are.
      expect([outcomes[0], outcomes.at(-1)]).toEqual(['1,1', '2,2'])
      expect(outcomes).toContain('2,1')
      expect(outcomes).not.toContain('torn,torn')
      expect(outcomes).not.toContain('1,2')
    },
  )
})
