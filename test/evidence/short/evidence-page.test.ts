/** The page of a run: one file, nothing from outside, every text escaped, pictures that are so. */

import { expect, test } from 'vitest'
import { picturesOf } from '../crash/picture.ts'
import { pageOf } from '../page.ts'
import { reportOf } from '../report.ts'
import { NOTHING, type Stage, type Tally } from '../stage.ts'

const SEED = 20261121
const LEVEL = { wait: 2, copies: 2 }
const [PICTURE] = picturesOf(LEVEL, SEED, 'write over its own')

const STAGE: Stage = {
  name: 'trial',
  id: 'C0',
  title: 'a <title> & "more"',
  unit: 'trials',
  floors: { cut: [{ of: 'count', least: 200 }], ci: [], nightly: [] },
  shards: () => [],
  play: async () => NOTHING,
  replay: async () => ({ violated: false, text: '' }),
}

function pageFor(tally: Partial<Tally>): string {
  const outcome = {
    stage: STAGE,
    tally: { ...NOTHING, ...tally },
    busySeconds: 2,
    ended: 1,
    shards: 1,
  }
  const run = { size: 'cut', seed: 7, workers: 2, seconds: 61 } as const
  return pageOf(reportOf([outcome], run, true), [outcome])
}

const described = [{ shard: 'one', what: '</script><b>torn</b>', replay: "7 'x' <3>" }]

test('the page is one file that asks for nothing', () => {
  const page = pageFor({ count: 250, pictures: [PICTURE] })
  expect(page).not.toMatch(/https?:|url\(|@import|<link|src=|fetch\(|XMLHttpRequest/)
  expect(page).toContain('No violation, every floor reached')
  expect(page).toContain('prefers-color-scheme: dark')
  expect(page).toContain('width=device-width')
})

test('every text is escaped, and a violation has the command that plays it again', () => {
  const cells = { 'before F1: <i>': 3, 'before F1: "new"': 900, alone: 1 }
  const page = pageFor({ count: 100, violations: 1, described, cells, pictures: ['<script>'] })
  expect(page).toContain('1 violations')
  expect(page).toContain('a &lt;title&gt; &amp; &quot;more&quot;')
  expect(page).toContain('&lt;/script&gt;&lt;b&gt;torn&lt;/b&gt;')
  expect(page).toContain("--replay trial '7 'x' &lt;3&gt;'")
  expect(page).toContain('100 trials, and 200 are asked')
  expect(page).toContain('title="before F1: &lt;i&gt;: 3"')
  expect(page.match(/<script/g)).toHaveLength(2)
  expect(page.match(/<\/script>/g)).toHaveLength(2)
})

test('a picture has every point of the write, and of each torn copy the row that decides', () => {
  const { points } = PICTURE!
  expect(points.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'before fence 1',
      'before fence 2',
      'before fence 3',
      'before fence 4',
    ]),
  )
  const second = points.find(({ name }) => name === 'before fence 2')!
  const slot = second.blocks.findIndex(({ name }) => name === 'slot A')
  expect(second.blocks[slot]!.lines.join('')).toMatch(/^[*=.]+$/)
  const stars = second.blocks.flatMap(({ lines }) => [...lines.join('')]).filter((c) => c === '*')
  expect(Number(second.subsets.replaceAll(',', ''))).toBe(2 ** stars.length)
  const torn = second.images.find(({ is }) => is[slot] === 'torn')!
  expect(torn.kept).toHaveLength(stars.length)
  expect(torn.decided).toEqual(['record 0: “A torn” → copy B over the others (case 2 of source 1)'])
  expect(torn.after[slot]).toBe('old')
  expect(torn.reads).toEqual(['record 0: v1, the old one'])
})

test('the same seed paints the same picture', () => {
  expect(picturesOf(LEVEL, SEED, 'write over its own')).toEqual([PICTURE])
})
