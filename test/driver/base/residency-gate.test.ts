/** The order of accesses to a region of which some wait for memory: all short programs. */

import { expect, test } from 'vitest'
import { Gate } from '../../../host-driver/base/gate.ts'
import { sequencesOf } from '../../support/residency/residency.ts'

/** An access: W changes memory, R looks; small letters are ready at once. */
const LETTERS = ['W', 'R', 'w', 'r'] as const
type Letter = (typeof LETTERS)[number]

const changes = (letter: Letter): boolean => letter.toLowerCase() === 'w'

/** Runs the accesses; what waits becomes ready in that order. The order in which they left. */
async function orderOf(program: readonly Letter[], wakes: readonly number[]): Promise<number[]> {
  const gate = new Gate()
  const left: number[] = []
  const wake: (() => void)[] = []
  const passed = program.map((letter, i) => {
    const isReady = letter === letter.toLowerCase()
    const ready = isReady ? null : new Promise<void>((resolve) => (wake[i] = resolve))
    return gate.admit(changes(letter), ready, async () => void left.push(i))
  })
  for (const i of wakes) {
    wake[i]?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await Promise.all(passed)
  return left
}

function* ordersOf(items: readonly number[]): Generator<number[]> {
  if (items.length === 0) yield []
  for (const first of items) {
    for (const rest of ordersOf(items.filter((item) => item !== first))) yield [first, ...rest]
  }
}

test('X-6: nothing overtakes a change, and a change overtakes nothing', async () => {
  for (const program of sequencesOf(LETTERS, 4)) {
    const waiting = program.flatMap((letter, i) => (letter === letter.toUpperCase() ? [i] : []))
    for (const wakes of ordersOf(waiting)) {
      const left = await orderOf(program, wakes)
      expect([...left].sort()).toEqual([0, 1, 2, 3])
      left.forEach((one, at) => {
        for (const later of left.slice(at + 1)) {
          const overtaken = later < one && (changes(program[one]!) || changes(program[later]!))
          if (overtaken) expect.fail(`${program.join('')} woken ${wakes}: left ${left}`)
        }
      })
    }
  }
})

test('what need not wait leaves within the call', () => {
  const gate = new Gate()
  const left: string[] = []
  void gate.admit(true, null, async () => void left.push('w'))
  void gate.admit(false, null, async () => void left.push('r'))
  expect(left).toEqual(['w', 'r'])
})

test('a read that waits does not keep the reads behind it', async () => {
  expect(await orderOf(['R', 'r', 'R', 'r'], [2, 0])).toEqual([1, 3, 2, 0])
})

test('an access that fails to leave does not hold up the next', async () => {
  const gate = new Gate()
  let wake = (): void => {}
  const ready = new Promise<void>((resolve) => {
    wake = resolve
  })
  const first = gate.admit(true, ready, () => {
    throw new Error('no')
  })
  const second = gate.admit(true, null, async () => 2)
  wake()
  await expect(first).rejects.toThrow('no')
  expect(await second).toBe(2)
})
