/**
 * Source 1's dual write, driven by the client, in two to four places: one chain against any RDMA
 * target, whose power is cut between any two steps of it and before each packet; and the read of
 * all copies, each believed by its own check code.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Random, type VirtualClock } from '../../../boards/emulator/index.ts'
import { imageBytes } from '../../../firmware/medium/slot.ts'
import {
  chooseCopy,
  type DualRead,
  type DualSlots,
  dualRead,
  dualWrite,
  RemoteMemory,
  readSlotImage,
  type SlotImage,
} from '../../../host-driver/index.ts'
import { writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import { failure } from '../../support/driver/failures.ts'
import {
  BYTES,
  type VerbsBench,
  type VerbsBenchOptions,
  verbsBench,
} from '../../support/driver/verbs-bench.ts'
import { type OpenWay, openWay, WAYS } from '../../support/driver/ways.ts'
import { everyCounted } from '../../support/judges/kept-copy.ts'

const KEY = Uint8Array.from({ length: 16 }, (_, i) => i * 7 + 1)
const CAPACITY = 600
const IMAGE = imageBytes(CAPACITY)
/** Where the copies stand, in the order of writing. */
const OFFSETS = [64, 4096, 20_000, 8192]
const [A, B] = [OFFSETS[0]!, OFFSETS[1]!]
const COUNTS = [2, 3, 4]

const clocks: VirtualClock[] = []
const ways: OpenWay[] = []
afterEach(async () => {
  for (const clock of clocks.splice(0)) clock.stop()
  for (const way of ways.splice(0)) await way.close()
})

function bench(options: VerbsBenchOptions = {}): VerbsBench {
  const made = verbsBench(options)
  clocks.push(made.clock)
  return made
}

function placesOf({ memory }: VerbsBench, copies = 2): DualSlots {
  const places = OFFSETS.slice(0, copies).map((offset) => ({ memory, offset }))
  return { places, key: KEY, id: 3, slot: 9 }
}

function write(
  b: VerbsBench,
  seed: number,
  sequence?: bigint,
  copies = 2,
): ReturnType<typeof dualWrite> {
  const bytes = data(seed)
  const given = sequence === undefined ? {} : { sequence }
  return dualWrite({ ...placesOf(b, copies), bytes, ...given })
}

function read(b: VerbsBench, copies = 2): Promise<DualRead> {
  return dualRead({ ...placesOf(b, copies), capacity: CAPACITY, wire: b.wire })
}

/** Which write each copy is of, `x` where it is of none. */
function sequences({ copies }: DualRead): string {
  return copies.map(({ record }) => record?.sequence ?? 'x').join('')
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

describe.each(COUNTS)('a dual write in %i places', (copies) => {
  test('S1-M3, P1-5, D-8, P1-9: is one chain of WRITE and FLUSH for each copy', async () => {
    const b = bench()
    const ends: string[] = []
    b.link.script = (_, from) => {
      ends.push(from)
      return undefined
    }
    const { outcomes, sequence } = await write(b, 1, 5n, copies)
    // Nobody waits between two of its steps: all of it has left before the first answer does.
    expect(ends.join('')).toMatch(new RegExp(`^a{${b.queuePair.counts.packets}}b+$`))
    const chain = ['WRITE', 'FLUSH', 'WRITE', 'FLUSH', 'WRITE', 'FLUSH', 'WRITE', 'FLUSH']
    expect(b.target.executed).toEqual(chain.slice(0, 2 * copies))
    const opcodes = b.target.executed.map((one) => (one === 'WRITE' ? 'RDMA_WRITE' : one))
    expect(outcomes.map(({ opcode }) => opcode)).toEqual(opcodes)
    expect(sequence).toBe(5n)
    expect(b.queuePair.counts.packets).toBe(copies * (Math.ceil(IMAGE / 256) + 1))
  })

  test('S1-M3, P1-1: leaves copies that are identical to the byte, and durable', async () => {
    const b = bench()
    await write(b, 1, 5n, copies)
    const images = OFFSETS.map((at) => b.target.durable.slice(at, at + IMAGE))
    for (let c = 1; c < copies; c++) expect(images[c]).toEqual(images[0])
    for (let c = copies; c < 4; c++) expect(images[c]).toEqual(new Uint8Array(IMAGE))
    const { record } = readSlotImage(images[0]!, { id: 3, capacity: CAPACITY, key: KEY }, 9)
    expect(record).toMatchObject({ data: data(1), sequence: 5n })
  })

  test('S1-M3, P1-12: the next one touches A when the last copy is durable', async () => {
    const b = bench()
    const each = (seed: number): Promise<unknown> => write(b, seed, BigInt(seed), copies)
    await Promise.all([each(1), each(2), each(3)])
    expect(b.target.executed.join()).toBe(
      Array(3 * copies)
        .fill('WRITE,FLUSH')
        .join(),
    )
    expect(sequences(await read(b, copies))).toBe('3333'.slice(0, copies))
  })

  test('S1-M3, P1-11: where one cannot be made durable, those behind it stay old', async () => {
    for (let bad = 0; bad < copies; bad++) {
      const b = bench()
      await write(b, 1, 1n, copies)
      let flushes = 0
      b.target.cutBefore = ({ row }) => {
        if (row?.name.includes('FLUSH') && flushes++ === bad) b.target.mayFlush = false
        return false
      }
      expect(await codeOf(write(b, 2, 2n, copies))).toBe('PERDURE_TRANSPORT')
      const again = bench()
      again.target.restore(b.target.memory)
      const found = ['2111', '2211', '2221', '2222'][bad]!.slice(0, copies)
      expect(sequences(await read(again, copies))).toBe(found)
    }
  })

  test('S1-M3, P1-28: all are read, and settled where they are of one write', async () => {
    const b = bench()
    await write(b, 1, 1n, copies)
    const reads = b.target.executed.length
    expect(await read(b, copies)).toMatchObject({ chosen: 0, settled: true, attempts: 1 })
    expect(b.target.executed.slice(reads)).toEqual(Array(copies).fill('READ'))
    for (let c = 0; c < copies; c++) {
      const other = bench()
      other.target.restore(b.target.durable)
      flip(other, OFFSETS[c]! + 100)
      const found = await read(other, copies)
      expect(found).toMatchObject({ chosen: c === 0 ? 1 : 0, settled: false, attempts: 4 })
      expect(found.copies.map(({ why }) => why)[c]).toBe('torn')
      expect(found.record.data).toEqual(data(1))
    }
  })
})

describe('a dual write', () => {
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

  type Change = (places: DualSlots, b: VerbsBench) => object
  const placeAt = (offset: number): Change => {
    return ({ places }) => ({ places: [...places, { ...places[0]!, offset }] })
  }
  const wrong: [string, Change][] = [
    ['a key of another length', () => ({ key: new Uint8Array(15) })],
    ['no list', ({ places }) => ({ places: { ...places } })],
    ['no place', () => ({ places: [] })],
    ['one place', ({ places }) => ({ places: places.slice(0, 1) })],
    [
      'five places',
      (_, b) => {
        const offsets = [...OFFSETS, 30_000]
        return { places: offsets.map((offset) => ({ memory: b.memory, offset })) }
      },
    ],
    ['a place that is none', ({ places }) => ({ places: [...places, null] })],
    [
      'a place without an offset',
      ({ places }, b) => ({ places: [...places, { memory: b.memory }] }),
    ],
    ['the same place twice', placeAt(A)],
    ['a place that overlaps the end of another', placeAt(B + IMAGE - 1)],
    ['a place that overlaps the begin of another', placeAt(B - IMAGE + 1)],
    ['a place beyond the end', placeAt(BYTES - IMAGE + 1)],
    [
      'the same memory by another name',
      ({ places }, b) => {
        const where = () => ({ ...b.memory.addressOf(0, 0), length: BigInt(BYTES) })
        const memory = new RemoteMemory(b.port, () => 'it again', where)
        return { places: [...places, { memory, offset: B + 64 }] }
      },
    ],
    [
      'a place on another connection',
      ({ places }) => ({
        places: [...places, { memory: bench().memory, offset: 30_000 }],
      }),
    ],
    ['an id of more than 32 bits', () => ({ id: 2 ** 32 })],
  ]
  test.each(wrong)('S1-M3, P1-3: %s is refused before anything is sent', async (_, change) => {
    const b = bench()
    const record = { ...placesOf(b), ...change(placesOf(b), b) } as DualSlots
    // Two bytes would fit where the record does not.
    const bytes = new Uint8Array(2)
    const writing = dualWrite({ ...record, bytes, capacity: CAPACITY, sequence: 1n })
    expect(await codeOf(writing)).toBe('PERDURE_ARGUMENT')
    expect(await codeOf(dualRead({ ...record, capacity: CAPACITY }))).toBe('PERDURE_ARGUMENT')
    expect(b.link.counts('a').sent).toBe(0)
  })

  test('S1-M3: places that touch and do not overlap are taken', async () => {
    const b = bench()
    const places = [3, 0, 2, 1].map((i) => ({ memory: b.memory, offset: i * IMAGE + 1 }))
    const record = { ...placesOf(b), places }
    await dualWrite({ ...record, bytes: data(1), sequence: 1n })
    expect(await dualRead({ ...record, capacity: CAPACITY })).toMatchObject({ settled: true })
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
    const other = { ...placesOf(b), slot: 10 }
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

  test.each(COUNTS)(
    'S1-M4: of %i copies the card’s rule chooses, in each combination',
    async (n) => {
      const b = bench()
      for (const { copies, kept } of everyCounted(n)) {
        b.target.memory.fill(0)
        for (const [c, one] of [...copies].entries()) {
          if (one !== '-') put(b, OFFSETS[c]!, one === 'n' ? 300 : 299)
          if (one === 't') tear(b, OFFSETS[c]!)
        }
        const reading = dualRead({ ...placesOf(b, n), capacity: CAPACITY })
        if (kept < 0) {
          expect([copies, await codeOf(reading)]).toEqual([copies, 'PERDURE_RECORD_LOST'])
          continue
        }
        const { chosen, record, settled } = await reading
        expect([copies, chosen]).toEqual([copies, kept])
        expect(record.sequence).toBe(copies[kept] === 'n' ? 300n : 299n)
        expect(settled).toBe(/^(n+|o+)$/.test(copies))
      }
    },
  )

  test('S1-M4, H10: of sequences of 64 bits the later one counts, at every carry', () => {
    const carries = [31n, 32n, 33n, 53n, 63n].map((bits) => 2n ** bits)
    for (const later of [...carries, ...carries.map((one) => one + 1n), 2n ** 64n - 1n]) {
      const copyOf = (sequence: bigint): SlotImage => {
        const record = { data: data(1), sequence, clientId: 0n, operationId: 0n }
        return { record, why: 'valid' }
      }
      const [old, fresh] = [copyOf(later - 1n), copyOf(later)]
      expect([later, chooseCopy([old, fresh, old, fresh])]).toEqual([later, 1])
      expect([later, chooseCopy([fresh, old])]).toEqual([later, 0])
    }
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

/** What of the unflushed bytes reached the medium all the same. */
type Survival = (random: Random) => (chunk: number) => boolean
const NONE: Survival = () => () => false
const ALL: Survival = () => () => true

describe.each(COUNTS)('a power cut in a dual write in %i places', (copies) => {
  /**
   * What is durable when `isCut` said that it was cut, or behind all of it; and whether it ended.
   */
  async function cutWrite(b: VerbsBench, isCut: () => boolean): Promise<[VerbsBench, boolean]> {
    b.target.cutBefore = isCut
    const done = await write(b, 2, 2n, copies).then(
      () => true,
      () => false,
    )
    b.target.cutPower()
    const again = bench()
    again.target.restore(b.target.durable)
    return [again, done]
  }

  // By hand: before each step WRITE A, FLUSH A, WRITE B, FLUSH B … and behind the last one.
  test.each([
    ['none', NONE, ['1111', '1111', '2111', '2111', '2211', '2211', '2221', '2221', '2222']],
    ['all', ALL, ['1111', '2111', '2111', '2211', '2211', '2221', '2221', '2222', '2222']],
  ] as const)(
    'S1-M3, P1-14 to P1-18: between any two steps; survives: %s',
    async (_, make, left) => {
      for (let step = 0; step <= 2 * copies; step++) {
        const b = bench({ ackTimeoutCode: 6, retryCount: 1 })
        await write(b, 1, 1n, copies)
        b.target.survives = make(new Random(1))
        const before = b.target.executed.length
        const [again, done] = await cutWrite(b, () => b.target.executed.length === before + step)
        const found = await read(again, copies)
        expect([step, sequences(found)]).toEqual([step, left[step]!.slice(0, copies)])
        const isNew = left[step]!.startsWith('2')
        expect(found.record.data).toEqual(data(isNew ? 2 : 1))
        expect(done).toBe(step === 2 * copies)
        await write(again, 3, 3n, copies)
        expect(sequences(await read(again, copies))).toBe('3333'.slice(0, copies))
      }
    },
  )

  const seed = Number(process.env.SEED ?? 3)
  const strategies: [string, Survival][] = [
    ['none', NONE],
    ['all', ALL],
    ['every other chunk', () => (chunk) => chunk % 2 === 0],
    ['chance', (random) => () => random.next() % 2 === 0],
  ]
  const packets = copies * (Math.ceil(IMAGE / 256) + 1)

  test.each(strategies)(
    `S1-M3, P1-23: before each packet: leaves old or new, whole; survives: %s (SEED=${seed})`,
    async (_, make) => {
      const random = new Random(seed)
      const outcomes: string[] = []
      for (let cut = 0; cut <= packets; cut++) {
        const b = bench({ ackTimeoutCode: 6, retryCount: 1 })
        await write(b, 1, 1n, copies)
        let number = 0
        b.target.survives = make(random)
        const [again, done] = await cutWrite(b, () => number++ === cut)
        const found = await read(again, copies)
        const isNew = found.record.sequence === 2n
        expect(found.record.data).toEqual(data(isNew ? 2 : 1))
        if (done) expect(isNew).toBe(true)
        outcomes.push(sequences(found))
        await write(again, 3, undefined, copies)
        expect(await read(again, copies)).toMatchObject({
          settled: true,
          record: { data: data(3) },
        })
      }
      // New copies, at most one torn, old ones; every number of new ones occurs.
      for (const one of outcomes) expect(one).toMatch(/^2*x?1*$/)
      const steps = ['1111', '2111', '2211', '2221', '2222'].map((one) => one.slice(0, copies))
      expect(outcomes).toEqual(expect.arrayContaining(steps.slice(0, copies + 1)))
      expect([outcomes[0], outcomes.at(-1)]).toEqual([steps[0], steps[copies]])
    },
  )
})

describe.each(WAYS)('over every way to a DPU: %s', (name) => {
  test.each(COUNTS)('S1-M3: %i places are written and read, and outlast a cut', async (copies) => {
    const way = await openWay(name)
    ways.push(way)
    const { dpu } = way
    await dpu.format()
    const memory = await dpu.provisionBytes({ name: 'log', length: BYTES })
    const places = OFFSETS.slice(0, copies).map((offset) => ({ memory, offset }))
    const record = { places, key: KEY, capacity: CAPACITY }
    for (const seed of [1, 2]) {
      const { sequence, outcomes } = await dualWrite({ ...record, bytes: data(seed) })
      expect(sequence).toBe(BigInt(seed))
      expect(outcomes).toHaveLength(2 * copies)
    }
    await way.restart()
    await dpu.reconnect()
    const found = await dualRead(record)
    expect(found).toMatchObject({ settled: true, chosen: 0, record: { data: data(2) } })
    expect(sequences(found)).toBe('2222'.slice(0, copies))
    const five = [...OFFSETS, 30_000].map((offset) => ({ memory, offset }))
    expect(await codeOf(dualRead({ ...record, places: five }))).toBe('PERDURE_ARGUMENT')
  })
})
