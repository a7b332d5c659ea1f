/** Which place of the table a new queue pair gets. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { stir } from '../../../firmware/board/random.ts'
import type { State } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import {
  createQueuePairTable,
  freePairPlace,
  HOLD_CONNECTED,
  HOLD_NONE,
  HOLD_RESTING,
  type QueuePair,
  type QueuePairTable,
  STATE_ERROR,
  STATE_OPEN,
} from '../../../firmware/transport/queue-pair.ts'
import { freeNumber } from '../../../firmware/transport/queue-pair-number.ts'
import { FACTS } from '../../support/cards/test-card.ts'

const SEED = Number(process.env.SEED ?? 1)

/** What stands at a place: nothing, or a queue pair in that state. */
type Place = null | Pick<QueuePair, 'state' | 'hold' | 'used'>

/** How gladly a place is taken: 0 most, Infinity never. */
function rankOf(place: Place): number {
  if (place === null) return 0
  if (place.hold === HOLD_RESTING) return Infinity
  if (place.state === STATE_ERROR) return 1
  return place.hold === HOLD_CONNECTED || place.used ? Infinity : 2
}

function put(table: QueuePairTable, places: readonly Place[], filler: Place): void {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const place = i < places.length ? places[i]! : filler
    table.places[i] = place as QueuePair | null
  }
}

const PLACE: fc.Arbitrary<Place> = fc.option(
  fc.record({
    state: fc.constantFrom(STATE_OPEN, STATE_ERROR),
    hold: fc.constantFrom(HOLD_NONE, HOLD_CONNECTED, HOLD_RESTING),
    used: fc.boolean(),
  }),
)

const TAKEN: Place = { state: STATE_OPEN, hold: HOLD_CONNECTED, used: true }

test('the next place round the table that is free, else in error, else never used', () => {
  const first = fc.integer({ min: 0, max: QUEUE_PAIRS - 1 })
  fc.assert(
    fc.property(fc.array(PLACE, { maxLength: 12 }), first, (places, next) => {
      const table = createQueuePairTable()
      put(table, places, TAKEN)
      const best = Math.min(Infinity, ...places.map(rankOf))
      const alike = places.flatMap((place, i) => (rankOf(place) === best ? [i] : []))
      const wanted = alike.find((i) => i >= next) ?? alike[0]
      expect(freePairPlace(table, next)).toBe(best === Infinity ? -1 : wanted!)
    }),
    { seed: SEED },
  )
})

/** A card of that incarnation, whose board gives what it is told. */
function stateOf(incarnation: number): { state: State; give: (word: number) => void } {
  const nvdimm = new Nvdimm({ bytes: 1 << 18 })
  const facts = { ...FACTS, nvdimmBytes: nvdimm.bytes }
  const machine = new EmulatedMachine({ facts, nvdimm, transmit: () => {} })
  let given = 0
  machine.observe({
    onStream: ({ buffer, byteOffset, length }) => {
      new Int32Array(buffer, byteOffset, length / 4).fill(given)
    },
  })
  const state = createState(machine)
  state.incarnation = incarnation
  const give = (word: number): void => {
    given = word
    stir(state, [])
  }
  return { state, give }
}

test('R1-S2: fifteen bits of a number are drawn, and none is anything reserved', () => {
  const seen = new Set<number>()
  const { state, give } = stateOf(1)
  put(state.queuePairs, [null], TAKEN)
  for (let drawn = 0; drawn < 2 ** 24; drawn += 0x7ff) {
    give((drawn << 8) | 0)
    const number = freeNumber(state)
    expect(number & 0xff).toBe(0)
    expect(number).toBeGreaterThan(1)
    expect(number).toBeLessThan(0xffffff)
    seen.add(number)
  }
  expect(seen.size).toBeGreaterThan(7_000)
})

test('X-3: a number is not that of its place before, nor of the incarnation before', () => {
  const word = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), fc.nat(2 ** 20 - 2), (words, incarnation) => {
      const lives = [incarnation, incarnation + 1].map((life) => {
        const { state, give } = stateOf(life)
        put(state.queuePairs, [null], TAKEN)
        return words.map((one) => {
          give(one)
          return freeNumber(state)
        })
      })
      const [before, now] = lives as [number[], number[]]
      for (const number of now) expect(before).not.toContain(number)
      for (const [i, number] of now.entries()) expect(number).not.toBe(now[i - 1])
    }),
    { seed: SEED },
  )
})

test('R1-S2: which of the free places is taken is drawn', () => {
  const { state, give } = stateOf(1)
  put(state.queuePairs, [], null)
  for (let place = 0; place < QUEUE_PAIRS; place++) {
    give((place << 16) | place)
    expect(freeNumber(state) & 0xff).toBe(place)
  }
})
