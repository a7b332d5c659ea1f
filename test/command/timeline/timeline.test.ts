/**
 * What the page of a timeline is made of, against the emulator: what is pending, what a cut leaves,
 * and what recovery makes of it, at places that are drawn.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EmulatedDpu, Nvdimm, Random, VirtualClock } from '../../../boards/emulator/index.ts'
import type { Timeline } from '../../../host-driver/command/timeline/data.ts'
import { pageOf } from '../../../host-driver/command/timeline/page.ts'
import { readTrace } from '../../../host-driver/command/timeline/read-trace.ts'
import { storyOf } from '../../../host-driver/command/timeline/story.ts'
import { type Moment, type Traced, tracedRun } from '../../support/command/traced.ts'

const SEED = Number(process.env.SEED ?? 11)
const folder = mkdtempSync(join(tmpdir(), 'perdure-timeline-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let traced: Traced
let timeline: Timeline

const path = join(folder, 'run.trace')

beforeAll(async () => {
  traced = await tracedRun({ seed: SEED })
  writeFileSync(path, traced.lines.join(''))
  timeline = storyOf(readTrace(path), { title: 'run', images: 64, steps: 2000 }).timeline
})

/** Ten moments at which a cut may leave more than one image. */
function drawn(): Moment[] {
  const random = new Random(SEED)
  const open = traced.moments.filter(({ pendingLines }) => pendingLines.length > 0)
  return Array.from({ length: 10 }, () => open[random.below(open.length)]!)
}

/** The step that stands for the last event of a moment. */
function stepOf({ events }: Moment): number {
  return timeline.steps.findLastIndex(({ n }) => n <= events)
}

/** What the page says of the pending lines behind a step. */
function pendingAt(step: number): number[] {
  const pending = new Set<number>()
  for (const { adds = [], settles = [] } of timeline.steps.slice(0, step + 1)) {
    for (const [first, count] of adds) for (let i = 0; i < count; i++) pending.add(first + i)
    for (const [first, count] of settles) for (let i = 0; i < count; i++) pending.delete(first + i)
  }
  return [...pending].sort((a, b) => a - b)
}

/** The data of both copies of a record in those bytes, in hex, as their headers say its length. */
function copiesIn(bytes: Uint8Array, record: number): string[] {
  const { places } = timeline.records[record]!
  return places.map((line) => {
    const at = line * 64
    const length = new DataView(bytes.buffer).getUint32(at + 28, true)
    return Buffer.from(bytes.subarray(at + 64, at + 64 + length)).toString('hex')
  })
}

/** Boots those bytes on the sources, and returns what both copies of a record hold then. */
function bootedCopies(bytes: Uint8Array, record: number): string[] {
  const nvdimm = new Nvdimm({ bytes: bytes.length, content: bytes })
  const card = new EmulatedDpu({
    ...{ nvdimm, clock: new VirtualClock(), engine: 'node', seed: 1 },
    transmit: () => {},
  })
  card.powerOnDirectly()
  const copies = copiesIn(nvdimm.live, record)
  card.powerCut()
  return copies
}

test('pending lines are those of the emulator, at every command', () => {
  expect(traced.moments.length).toBeGreaterThan(50)
  for (const moment of traced.moments) {
    expect(pendingAt(stepOf(moment)), `event ${moment.events}`).toEqual(moment.pendingLines)
  }
})

test(`at ten places recovery makes of a cut what the page says (SEED=${SEED})`, () => {
  for (const moment of drawn()) {
    const step = timeline.steps.findLast(({ n, cut }) => n <= moment.events && cut !== undefined)!
    const cut = timeline.cuts[step.cut!]!
    for (const [name, bytesOf] of Object.entries(ENDS)) {
      const bytes = bytesOf(moment)
      const image = cut.shown.find((one) => one.name === name)
      if (image === undefined && cut.chunks === 0) continue
      cut.records.forEach((record, i) => {
        const { outcome } = timeline.results[image!.results[i]!]!
        const data = dataOfVersion(record, outcome)
        const told = `event ${moment.events}, ${name}, record ${record}`
        expect(bootedCopies(bytes, record), told).toEqual([data, data])
      })
    }
  }
})

test('what both ends leave of a copy, whole or torn, is what the emulator has, everywhere', () => {
  let compared = 0
  for (const moment of traced.moments) {
    const step = timeline.steps.findLast(({ n, cut }) => n <= moment.events && cut !== undefined)
    if (step === undefined) continue
    const { shown, records } = timeline.cuts[step.cut!]!
    for (const { name, results } of shown) {
      const bytes = ENDS[name]?.(moment)
      if (bytes === undefined) continue
      records.forEach((record, i) => {
        const held = copiesIn(bytes, record)
        timeline.results[results[i]!]!.copies.forEach((version, copy) => {
          compared += 1
          const told = `event ${moment.events}, ${name}, record ${record}, copy ${copy}`
          if (version >= 0) expect(held[copy], told).toBe(dataOfVersion(record, version))
        })
      })
    }
  }
  expect(compared).toBeGreaterThan(200)
})

/** The images that a moment has whole. */
const ENDS: Record<string, (moment: Moment) => Uint8Array> = {
  'nothing survives': ({ durable }) => durable,
  'all of it survives': ({ live }) => live,
}

/** The bytes of a version of a record, in hex, as the run has written them. */
function dataOfVersion(record: number, version: number): string {
  const { name, versions } = timeline.records[record]!
  const slot = Number(name.split(' ').at(-1))
  const data = traced.written[slot]!
  // The versions that came about in the trace are the last ones that were written.
  const came = versions.filter(({ from }) => from >= 0).length
  const at = data.length - came + version - 1
  expect(version).toBeGreaterThanOrEqual(0)
  return at < 0 ? '' : Buffer.from(data[at]!).toString('hex')
}

test('no image of any place breaks the promise, and few images are all shown', () => {
  expect(timeline.cuts.length).toBeGreaterThan(50)
  expect(timeline.cuts.filter(({ broken }) => broken > 0)).toEqual([])
  const small = timeline.cuts.filter(({ all, chunks }) => all && chunks > 0)
  expect(small.length).toBeGreaterThan(5)
  for (const { shown, images } of small) expect(images).toBe(String(shown.length))
  const names = timeline.results.map(({ row }) => row)
  for (const name of ['A torn', 'before A', 'between', 'B torn']) expect(names).toContain(name)
})

test('every record has its marks in the order of its life', () => {
  const row = timeline.rows.find(({ label }) => label === 'record 3')!
  const kinds = row.marks.map(([, kind]) => kind)
  const order = ['arrived', 'received', 'lane', 'copy', 'phase', 'copy', 'durable']
  expect(kinds.filter((kind, i) => kind !== kinds[i - 1])).toEqual(order)
  const copies = timeline.records[row.record!]!.copies.map(([, , count]) => count)
  expect(copies.slice(-3)).toEqual([0, 1, 2])
})

test('the page is one file: it names nothing outside itself, and no name becomes a tag', () => {
  const page = pageOf({ ...timeline, title: '</script><img src=x>' })
  expect(page).not.toMatch(/(src|href)="(?!data:,)/)
  expect(page).not.toMatch(/https?:\/\/(?!www\.w3\.org\/2000\/svg)/)
  expect(page).not.toContain('<img')
  expect(page.match(/<\/script>/g)).toHaveLength(2)
})

test('what is no trace is refused with its line', () => {
  const refuse = (text: string): string => {
    writeFileSync(path, text)
    try {
      readTrace(path)
    } catch (error) {
      return (error as Error).message
    }
    return 'taken'
  }
  const [head] = traced.lines
  expect(refuse('hello\n')).toContain('line 1 is no JSON object')
  expect(refuse('{}\n')).toContain('line 1 is not the first line of a trace')
  expect(refuse(head!.replace('"version":1', '"version":2'))).toContain('line 1')
  expect(refuse(`${head!.replace('"version":1', '"version":2')}`)).toContain('version 2')
  expect(refuse(`${head}{"n":2,"e":"fence"}\n`)).toContain('line 2 has number 2, 1 is next')
  expect(refuse(`${head}{"n":1,"e":"store","at":262144,"data":"AAAA"}\n`)).toContain('outside')
  expect(refuse(`${head}{"n":1,"e":"store","at":0,"bytes":8}\n`)).toContain('stores nothing')
  // What a killed emulator leaves.
  expect(refuse(`${head}{"n":1,"e":"fence"}\n{"n":2,"e`)).toBe('taken')
})
