/** Batches in a timeline: their rows, and the records in them, accepted and not. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { MarkKind, Row, Timeline } from '../../../host-driver/command/timeline/data.ts'
import { readTrace } from '../../../host-driver/command/timeline/read-trace.ts'
import { storyOf } from '../../../host-driver/command/timeline/story.ts'
import { tracedRun } from '../../support/command/traced.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-timeline-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let timeline: Timeline

beforeAll(async () => {
  const { lines } = await tracedRun({ seed: 11, batches: true })
  const path = join(folder, 'batches.trace')
  writeFileSync(path, lines.join(''))
  timeline = storyOf(readTrace(path), { title: 'batches', images: 16, steps: 2000 }).timeline
})

function batchRows(): Row[] {
  return timeline.rows.filter(({ kind }) => kind === 'batch')
}
function kindsOf({ marks }: Row): MarkKind[] {
  return marks.map(([, kind]) => kind)
}
function times(row: Row, kind: MarkKind): number {
  return kindsOf(row).filter((one) => one === kind).length
}

test('a row for each of them says how many records it has', () => {
  const labels = batchRows().map(({ label }) => label)
  expect(labels).toEqual([
    expect.stringMatching(/^batch \d+ \(3 records\)$/),
    expect.stringMatching(/^batch \d+ \(2 records\)$/),
  ])
})

test('its marks are those of its records, in the order of time', () => {
  for (const row of batchRows()) {
    const steps = row.marks.map(([step]) => step)
    expect(steps).toEqual([...steps].sort((a, b) => a - b))
  }
  const [inOrder] = batchRows()
  expect(times(inOrder!, 'arrived')).toBe(3)
  expect(times(inOrder!, 'durable')).toBe(3)
  expect(times(inOrder!, 'refused')).toBe(0)
  // One status answers for all of them.
  const durable = inOrder!.marks.filter(([, kind]) => kind === 'durable').map(([step]) => step)
  expect(new Set(durable).size).toBe(1)
  expect(kindsOf(inOrder!).lastIndexOf('arrived')).toBeLessThan(
    kindsOf(inOrder!).indexOf('durable'),
  )
})

test('a record that is not as it was expected is refused, beside one that is durable', () => {
  const [, expecting] = batchRows()
  expect(times(expecting!, 'durable')).toBe(1)
  expect(times(expecting!, 'refused')).toBe(1)
})

describe('rows of its records', () => {
  const rowOf = (record: number): Row => {
    return timeline.rows.find(({ label }) => label === `record ${record}`)!
  }
  for (const record of [0, 1, 2, 3]) {
    test(`record ${record} ends durable, with two copies of the batch's version`, () => {
      expect(kindsOf(rowOf(record)).at(-1)).toBe('durable')
      const { versions, copies } = timeline.records[rowOf(record).record!]!
      expect(copies.at(-1)!.slice(1)).toEqual([versions.length - 1, 2])
      expect(versions.at(-1)!.length).toBe(record === 3 ? 20 : 33 + record)
    })
  }
  test('the refused one has no version of it', () => {
    const { versions } = timeline.records[rowOf(4).record!]!
    expect(versions.map(({ length }) => length)).not.toContain(21)
  })
})

test('no cut between its records breaks the promise', () => {
  expect(timeline.cuts.filter(({ broken }) => broken > 0)).toEqual([])
})
