/**
 * What long work shows of itself, by a clock that the test sets: on a terminal, in a pipe,
 * and to programs.
 */

import { describe, expect, test } from 'vitest'
import { Output } from '../../host-driver/command/base/output.ts'
import { writtenBy } from '../support/command/screen.ts'

const MIB = 2 ** 20

/** A moment of the work: its time since the beginning, ms, and what is done then. */
type Moment = readonly [atMs: number, done: number]

interface Work {
  readonly total: number
  readonly unit: 'bytes' | 'records'
  readonly before?: number
  readonly json?: boolean
}

/** What is shown of that work; every write to a terminal begins with \r. */
function shown(isTerminal: boolean, work: Work, moments: readonly Moment[]): string {
  const { total, unit, before = 0, json = false } = work
  let nowMs = 7_000_000
  const beganMs = nowMs
  return writtenBy(isTerminal, () => {
    const output = new Output(json, () => nowMs)
    const reached = output.progress('durable', total, unit, before)
    for (const [atMs, done] of moments) {
      nowMs = beganMs + atMs
      reached(done)
    }
  })
}

const renewals = (text: string): string[] => text.split('\r').slice(1)

describe('in a pipe', () => {
  const inPipe = (work: Work, moments: readonly Moment[]): string[] =>
    shown(false, work, moments).split('\n').slice(0, -1)

  test('bytes, rate and time left come as a line every five seconds', () => {
    const moments = Array.from({ length: 201 }, (_, i): Moment => [i * 100, i * MIB * 0.5])
    expect(inPipe({ total: 256 * MIB, unit: 'bytes' }, moments)).toEqual([
      'durable  25 MiB of 256 MiB, 5 MiB/s, 47 s left',
      'durable  50 MiB of 256 MiB, 5 MiB/s, 42 s left',
      'durable  75 MiB of 256 MiB, 5 MiB/s, 37 s left',
      'durable  100 MiB of 256 MiB, 5 MiB/s, 32 s left',
    ])
  })

  test('work that is over within five seconds says nothing', () => {
    const moments: Moment[] = [
      [10, MIB],
      [4999, 2 * MIB],
    ]
    expect(inPipe({ total: 2 * MIB, unit: 'bytes' }, moments)).toEqual([])
  })

  test('records are counted as such, however slow they come', () => {
    const moments: Moment[] = [
      [5000, 2],
      [10_000, 1200],
    ]
    expect(inPipe({ total: 8000, unit: 'records' }, moments)).toEqual([
      'durable  2 of 8000 records, 0.4 records/s, 5 h 33 min left',
      'durable  1200 of 8000 records, 120 records/s, 57 s left',
    ])
  })

  test('a pause is not made up for: the next line comes five seconds behind the last', () => {
    const moments: Moment[] = [
      [19_000, 19],
      [20_000, 20],
      [23_999, 21],
      [24_000, 22],
    ]
    expect(inPipe({ total: 100, unit: 'records' }, moments)).toEqual([
      'durable  19 of 100 records, 1 records/s, 1 min 21 s left',
      'durable  22 of 100 records, 0.9 records/s, 1 min 26 s left',
    ])
  })

  test('what was done before makes nothing look faster', () => {
    const work = { total: 100 * MIB, unit: 'bytes', before: 90 * MIB } as const
    expect(inPipe(work, [[5000, 95 * MIB]])).toEqual([
      'durable  95 MiB of 100 MiB, 1 MiB/s, 5 s left',
    ])
    expect(inPipe(work, [[5000, 90 * MIB]])).toEqual(['durable  90 MiB of 100 MiB'])
  })
})

describe('on a terminal', () => {
  test('the line renews itself ten times a second at most, and shows the end', () => {
    const moments = Array.from({ length: 1000 }, (_, i): Moment => [i, i + 1])
    const lines = renewals(shown(true, { total: 1000, unit: 'records' }, moments))
    expect(lines).toHaveLength(11)
    expect(lines[0]).toBe('durable  1 of 1000 records')
    expect(lines[5]).toBe('durable  501 of 1000 records, 1002 records/s, 1 s left')
    expect(lines.at(-1)!.trimEnd()).toBe('durable  1000 of 1000 records, 1001 records/s')
  })

  test('a shorter line covers the longer one before it', () => {
    const moments: Moment[] = [
      [1000, 1],
      [2000, 100],
    ]
    const [first, second] = renewals(shown(true, { total: 100, unit: 'records' }, moments))
    expect(second).toHaveLength(first!.length)
  })

  test('what is said next stands on a line of its own', () => {
    const said = writtenBy(true, () => {
      const output = new Output(false)
      output.progress('read', 2)(1)
      output.say('stopped')
    })
    expect(said).toBe(`\rread  1 of 2 records\r${' '.repeat(20)}\rstopped\n`)
  })
})

test.each([true, false])('to programs nothing is shown (a terminal: %s)', (isTerminal) => {
  const work = { total: 10, unit: 'records', json: true } as const
  const moments: Moment[] = [
    [0, 1],
    [50_000, 10],
  ]
  expect(shown(isTerminal, work, moments)).toBe('')
})
