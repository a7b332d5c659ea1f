/** R1-U9: the benches take the words that they know, and refuse all others before they measure. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { takeWishes } from '../support/bench/bench-arguments.ts'
import { benchGuard } from '../support/bench/guard-cost.ts'
import { benchBatch } from './bench-batch.ts'
import { benchBusy } from './bench-busy.ts'
import { benchQueues } from './bench-queues.ts'
import { benchSlices } from './bench-slices.ts'
import { benchSoak } from './bench-soak.ts'
import { benchStatus } from './bench-status.ts'

/** What was said, on stderr and on stdout. */
let told: string[] = []
let printed: string[] = []

beforeEach(() => {
  told = []
  printed = []
  for (const [stream, into] of [
    [process.stderr, told],
    [process.stdout, printed],
  ] as const) {
    vi.spyOn(stream, 'write').mockImplementation((text) => into.push(String(text)) > 0)
  }
})
afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

test.each([
  ['queues', benchQueues, '--bogus'],
  ['queues', benchQueues, '3'],
  ['queues', benchQueues, '--svg'],
  ['queues', benchQueues, '--seconds much'],
  ['batch', benchBatch, 'x'],
  ['batch', benchBatch, '--seconds -1'],
  ['guard', benchGuard, '--bogus'],
  ['guard', benchGuard, '--seconds x'],
  ['status', benchStatus, '--seed=-1'],
  ['status', benchStatus, '--seed 1.5'],
  ['status', benchStatus, 'x'],
  ['slices', benchSlices, '--records 3'],
  ['slices', benchSlices, 'x'],
  ['busy', benchBusy, 'x'],
  ['busy', benchBusy, '--records 99'],
  ['soak', benchSoak, '--hours x'],
  ['soak', benchSoak, '--bogus'],
] as const)('R1-U9: npm run bench -- %s refuses what it does not know', async (_, run, args) => {
  await run(args.split(' '))
  expect(process.exitCode).toBe(64)
  expect(printed).toEqual([])
  expect(told).toEqual([expect.stringMatching(/^bench: \S.*\n$/s)])
})

test('R1-U9: numbers, files and --json are what was said, or the standard', () => {
  const numbers = { seconds: { standard: 0.5 }, seed: { standard: 1, least: 0 } }
  const take = (...args: string[]): unknown => takeWishes(args, numbers, ['svg'])
  expect(take()).toEqual({ seconds: 0.5, seed: 1, json: false })
  expect(take('--seed', '0', '--svg', 'a.svg', '--json', '--seconds=2.5')).toEqual({
    ...{ seconds: 2.5, seed: 0, svg: 'a.svg', json: true },
  })
  const wrong = ['--seconds=0', '--seconds=', '--seconds=NaN', '--seed=-1', '--seed=1.5', 'x']
  for (const one of [...wrong, '--svg', '--bogus', '--json=1']) expect(take(one), one).toBeNull()
  expect(told).toHaveLength(wrong.length + 3)
})
