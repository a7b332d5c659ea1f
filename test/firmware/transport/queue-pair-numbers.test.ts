/** What number a new queue pair gets. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { stir } from '../../../firmware/board/random.ts'
import type { State } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import { freeNumber, numberAt } from '../../../firmware/transport/queue-pair-number.ts'
import { FACTS } from '../../support/cards/test-card.ts'

const SEED = Number(process.env.SEED ?? 1)

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
  for (let drawn = 0; drawn < 2 ** 24; drawn += 0x7ff) {
    give(drawn)
    const number = numberAt(state, 0)
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
        return words.map((one) => {
          give(one)
          return numberAt(state, 0)
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
  for (let place = 0; place < QUEUE_PAIRS; place++) {
    give((place << 16) | place)
    expect(freeNumber(state, 'somebody') & 0xff).toBe(place)
  }
})
