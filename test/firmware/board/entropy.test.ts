/**
 * L6: a board whose source of entropy repeats itself: at every start of a card, and on another card
 * that is a copy of it. No key, PSN or queue pair of an earlier life is accepted, and no two parts
 * have one identity.
 */

import { createCipheriv } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { copy, run } from '../../../firmware/board/command-list.ts'
import {
  ORIGINALS_AT,
  RANDOM_AT,
  RANDOM_BYTES,
  RANDOM_KEY_BYTES,
} from '../../../firmware/board/memory-map.ts'
import { random32, seedRandom, stir } from '../../../firmware/board/random.ts'
import type { State } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { connect, type Dpu } from '../../../host-driver/index.ts'
import {
  dataOf,
  FACTS,
  persistAcks,
  persistFrames,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'
import { contentOf, firstDifference } from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 9)
const SAME = { entropy: [5, 5, 5, 5, 5, 5, 5, 5] }
const NAK_ACCESS = 0x62
const LIVES = 12

function keyText(region: TestRegion): string {
  return Buffer.from(region.key).toString('hex')
}

/** Everything is different from everything else. */
function expectDistinct(values: readonly (number | string)[]): void {
  expect(new Set(values).size).toBe(values.length)
}

describe('L6: the same entropy at every start', () => {
  test('keys, queue pairs and PSNs are those of no earlier life', () => {
    let card = new TestCard(new Nvdimm({ bytes: 1 << 18 }), { facts: SAME }).format()
    card.provision()
    const [keys, pairs, numbers]: number[][] = [[], [], []]
    for (let life = 0; life < LIVES; life++) {
      const qp = card.connect()
      keys!.push(card.open().rkey)
      pairs!.push(qp.number)
      numbers!.push(qp.psn)
      card = new TestCard(card.nvdimm, { facts: SAME })
    }
    for (const values of [keys!, pairs!, numbers!]) expectDistinct(values)
  })

  test('a key of the life before names nothing, and its frames have no queue pair', () => {
    const made = new TestCard(new Nvdimm({ bytes: 1 << 18 }), { facts: SAME }).format()
    made.provision()
    const before = new TestCard(made.nvdimm, { facts: SAME })
    const region = before.open()
    const late = persistFrames(before.connect(), region, 0, dataOf(64, 1))
    const card = new TestCard(before.nvdimm, { facts: SAME })
    const content = contentOf(card)
    expect(card.serve(...late)).toEqual([])
    expect(card.counter('UNKNOWN_QP')).toBe(late.length)
    const [nak] = card.serve(...persistFrames(card.connect(), region, 0, dataOf(64, 2)))
    expect(nak!.syndrome).toBe(NAK_ACCESS)
    expect(card.counter('KEY')).toBe(1)
    expect(firstDifference(contentOf(card), content)).toBe(-1)
    const frames = persistFrames(card.connect(), card.open(), 0, dataOf(64, 3))
    expect(persistAcks(card.serve(...frames))[0]!.status).toBe(0)
  })

  test('a region that takes the place of a removed one has keys of its own', () => {
    let card = new TestCard(new Nvdimm({ bytes: 1 << 18 }), { facts: SAME }).format()
    const [wire, check]: [number[], string[]] = [[], []]
    for (let life = 0; life < LIVES; life++) {
      const region = card.provision({ name: `of life ${life}` })
      wire.push(region.rkey)
      check.push(keyText(region))
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
        body.set(Buffer.from(`of life ${life}`), mad.REGION_NAME)
      })
      for (let i = 0; i < 40; i++) card.idle()
      card = new TestCard(card.nvdimm, { facts: SAME })
    }
    expectDistinct(wire)
    expectDistinct(check)
  })
})

describe('L6: the same entropy in two machines', () => {
  const open: (() => void | Promise<void>)[] = []
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close()
  })

  /** Two cards that draw the same, each with its part: blank ones, or copies of one. */
  async function machines(content?: Uint8Array): Promise<Dpu[]> {
    const network = new Network({ seed: 1 })
    network.clock.start()
    open.push(() => network.clock.stop())
    const found: Dpu[] = []
    for (const last of [2, 3]) {
      const bytes = content?.length ?? 1 << 18
      const nvdimm = new Nvdimm({ bytes, ...(content && { content: content.slice() }) })
      await network.addDpu(last, { seed: SEED, nvdimm })
      const [peer, own] = [endpointOf(last), endpointOf(100 + last)]
      const dpu = await connect(network.addHost(), { peer, own, seed: 1 })
      open.push(() => dpu.close())
      found.push(dpu)
    }
    return found
  }

  test('two blank parts that choose their identity have two, and keys of their own', async () => {
    const cards = await machines()
    const parts = await Promise.all(cards.map((dpu) => dpu.format(new Uint8Array(16))))
    expectDistinct(parts.map(({ deviceId }) => deviceId))
    await expectKeysApart(cards)
  })

  test('a copy of a part, in a copy of its machine, gives other keys', async () => {
    const first = new TestCard(new Nvdimm({ bytes: 1 << 18 })).format()
    first.provision()
    const cards = await machines(first.nvdimm.durable)
    const infos = await Promise.all(cards.map((dpu) => dpu.openRegion('records')))
    expectDistinct(infos.map(({ info }) => info.rkey))
    // What lies in both has one key: it is the same region.
    expect(new Set(infos.map(({ info }) => Buffer.from(info.key).toString('hex'))).size).toBe(1)
    await expectKeysApart(cards)
  })

  async function expectKeysApart(cards: readonly Dpu[]): Promise<void> {
    const made = await Promise.all(
      cards.map((dpu) => dpu.provision({ name: 'own', slots: 4, capacity: 64 })),
    )
    expectDistinct(made.map(({ info }) => info.rkey))
    expectDistinct(made.map(({ info }) => Buffer.from(info.key).toString('hex')))
  }
})

describe('the generator', () => {
  const KEY = RANDOM_AT / 4
  const END = (RANDOM_AT + RANDOM_BYTES) / 4

  /** The state of a card that was not started. */
  function blankState(): State {
    const nvdimm = new Nvdimm({ bytes: 1 << 18 })
    const facts = { ...FACTS, ...SAME, nvdimmBytes: nvdimm.bytes }
    return createState(new EmulatedMachine({ facts, nvdimm, transmit: () => {} }))
  }

  test('R1-S2: whatever bit of its entropy differs, a board draws other numbers', () => {
    const state = blankState()
    const drawn = (entropy: readonly number[]): number => {
      Object.assign(state.random, seedRandom(state.words, entropy))
      return random32(state)
    }
    const plain = Array.from({ length: RANDOM_KEY_BYTES / 4 }, (_, i) => 0x01234567 * (i + 1))
    const flipped = plain.flatMap((word, i) => {
      return Array.from({ length: 32 }, (_, bit) => plain.with(i, word ^ (1 << bit)))
    })
    const all = [plain, ...flipped].map(drawn)
    expectDistinct(all)
    // Of one entropy they are the same ones, whatever was drawn before.
    expect([plain, ...flipped].map(drawn)).toEqual(all)
  })

  test('L6: what differs in what is stirred, or in what it goes into, differs afterwards', () => {
    const word = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
    const eight = fc.array(word, { minLength: 8, maxLength: 8 })
    const state = blankState()
    const stirred = (key: readonly number[], numbers: readonly number[]): number[] => {
      state.words.set(key, KEY)
      stir(state, numbers)
      expect(state.random.next).toBe(END)
      return [...state.words.slice(KEY, KEY + 8)]
    }
    fc.assert(
      fc.property(eight, eight, fc.nat(7), fc.nat(31), (key, numbers, at, bit) => {
        const flipped = (of: readonly number[]): number[] => of.with(at, of[at]! ^ (1 << bit))
        expect(stirred(key, numbers)).not.toEqual(stirred(key, flipped(numbers)))
        expect(stirred(key, numbers)).not.toEqual(stirred(flipped(key), numbers))
        expect(stirred(stirred(key, numbers), numbers)).toEqual(key)
      }),
      { seed: SEED },
    )
  })

  test('R1-S2: no word that was given, and no key of before, is left in its memory', () => {
    const state = blankState()
    const given: number[] = []
    const words = (RANDOM_BYTES - RANDOM_KEY_BYTES) / 4
    for (let i = 0; i < 3 * words; i++) {
      const before = state.words.slice(KEY, END)
      given.push(random32(state))
      const refilled = state.random.next === (RANDOM_AT + RANDOM_KEY_BYTES) / 4 + 1
      const block = [...state.words.slice(KEY, END)].map((one) => one >>> 0)
      for (const one of given) if (one !== 0) expect(block).not.toContain(one)
      if (refilled) expect(block.slice(0, 8)).not.toEqual([...before.slice(0, 8)])
    }
    expect(new Set(given).size).toBe(given.length)
  })

  test('R1-S2: it is the stream of RFC 8439, whatever stands in the list', () => {
    const state = blankState()
    const key = Uint8Array.from({ length: RANDOM_KEY_BYTES }, (_, i) => 7 * i + 1)
    state.bytes.set(key, RANDOM_AT)
    stir(state, [])
    state.bytes.set([1, 2, 3, 4], ORIGINALS_AT)
    copy(state.list, ORIGINALS_AT, ORIGINALS_AT + 8, 4)
    const cipher = createCipheriv('chacha20', key, Buffer.alloc(16))
    const stream = cipher.update(Buffer.alloc(RANDOM_BYTES))
    for (let at = RANDOM_KEY_BYTES; at < RANDOM_BYTES; at += 4) {
      expect(random32(state)).toBe(stream.readUInt32LE(at))
    }
    expect(state.list.count).toBe(1)
    run(state.list)
    expect([...state.bytes.slice(ORIGINALS_AT + 8, ORIGINALS_AT + 12)]).toEqual([1, 2, 3, 4])
    // The next key is the beginning of the stream.
    const next = createCipheriv('chacha20', stream.subarray(0, RANDOM_KEY_BYTES), Buffer.alloc(16))
    const behind = next.update(Buffer.alloc(RANDOM_BYTES))
    expect(random32(state)).toBe(behind.readUInt32LE(RANDOM_KEY_BYTES))
  })
})
