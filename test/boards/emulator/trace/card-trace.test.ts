/**
 * The trace of an emulated card: its lines are those that the page about them documents, in the
 * order of what happened, and bounded.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CardTrace, type TraceEvent } from '../../../../boards/emulator/index.ts'
import { tracedRun } from '../../../support/command/traced.ts'
import { ROOT } from '../../../support/source/sources.ts'

type Line = TraceEvent & { readonly n: number }

const linesOf = (lines: readonly string[]): Line[] =>
  lines.slice(1).map((line) => JSON.parse(line) as Line)

test('events stand in their order, and every acknowledgement behind its fences', async () => {
  const { lines, written } = await tracedRun()
  const head = JSON.parse(lines[0]!)
  expect(head).toMatchObject({ trace: 'perdure', version: 1, partBytes: 1 << 18 })
  const events = linesOf(lines)
  expect(events.map(({ n }) => n)).toEqual(events.map((_, i) => i + 1))
  const times = events.flatMap((event) => ('t' in event ? [event.t] : []))
  expect(times).toEqual([...times].sort((a, b) => a - b))
  let acknowledged = 0
  let fences = 0
  for (const event of events) {
    if (event.e === 'burst') fences = 0
    if (event.e === 'fence') fences += 1
    if (event.e !== 'out' || event.durable === undefined || event.durable.status !== 0) continue
    acknowledged += 1
    // What a retry finds durable already needs no fence: none is asked for here.
    if (event.durable.copies === 2 && !event.name.includes('QUERY'))
      expect(fences).toBeGreaterThan(3)
  }
  expect(acknowledged).toBeGreaterThan(2)
  expect(written.flat().length).toBe(10)
  expect(events.filter(({ e }) => e === 'cut')).toHaveLength(1)
  expect(events.at(-1)!.e).toBe('end')
})

test('every field that is written is documented, and every event', async () => {
  const page = readFileSync(join(ROOT, 'host-driver/doc/timeline.md'), 'utf8')
  const { lines } = await tracedRun()
  const known = new Set([...page.matchAll(/`([\w.]+)`/g)].map(([, name]) => name))
  const names = new Set<string>()
  const take = (value: object): void => {
    for (const [name, inner] of Object.entries(value)) {
      names.add(name)
      if (typeof inner === 'object' && inner !== null && !Array.isArray(inner)) take(inner)
    }
  }
  for (const line of lines) take(JSON.parse(line) as object)
  for (const { e } of linesOf(lines)) names.add(e)
  expect([...names].filter((name) => !known.has(name))).toEqual([])
})

test('a trace never exceeds its limit, and says that it has reached it', async () => {
  const limit = 6000
  const { lines } = await tracedRun({ limit })
  expect(lines.join('').length).toBeLessThanOrEqual(limit)
  expect(linesOf(lines).at(-1)).toMatchObject({ e: 'full', limit })
})

test('a trace is of one card, and what it is given is checked', () => {
  expect(() => new CardTrace({ write: 1 as never })).toThrow(/a trace: write 1: a function/)
  expect(() => new CardTrace({ write: () => {}, limit: 0 })).toThrow(/limit 0: 1 or more/)
  expect(() => new CardTrace({ write: () => {} }).begin()).toThrow(/give it to one/)
})
