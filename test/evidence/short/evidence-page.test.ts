/**
 * The page of a run: one file, nothing from outside, every text escaped; its pictures are timelines
 * that say what is so, and a violation is one of them. The last part looks at it in a browser, and
 * is skipped where there is no chromium.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Frame } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Cut, Timeline } from '../../../host-driver/command/timeline/data.ts'
import { HAS_CHROMIUM, keepPicture, openBrowser } from '../../support/command/browser.ts'
import { overSimilar, type Scenario } from '../../support/crash/scenario.ts'
import { exploreOnce, tallyOf, tellOne } from '../crash/engine.ts'
import { type Picture, picturesOf, withPicture } from '../crash/picture.ts'
import { pageOf } from '../page.ts'
import { reportOf } from '../report.ts'
import { NOTHING, type Stage, type Tally } from '../stage.ts'

const LEVEL = { wait: 2, copies: 2 }
const OWN = ['write over its own']
const [PICTURE] = picturesOf(LEVEL, OWN)

/** A write without its first fence: copy A may be torn, and no lane name the record. */
const BROKEN: Scenario = {
  ...overSimilar(LEVEL),
  ...{ damage: { dropFence: 1 }, sample: 512, perClass: 6 },
}
const TALLY = withPicture(tallyOf(exploreOnce(BROKEN), 'one', 'x:'), 'trial', BROKEN)

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
  expect(page).not.toMatch(/url\(|@import|<link|src=|fetch\(|XMLHttpRequest/)
  expect(page).not.toMatch(/https?:(?!\/\/www\.w3\.org\/2000\/svg')/)
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

/** What a cut right before a step leaves. */
function cutBefore({ steps, cuts }: Timeline, step: number): Cut {
  return cuts[steps.findLast(({ cut }, i) => i < step && cut !== undefined)!.cut!]!
}

test('a picture has every fence of the write, and of each torn copy the row that decides', () => {
  const { timeline } = PICTURE!
  const { steps, results, cuts } = timeline
  expect(steps.flatMap(({ fence = [] }) => fence)).toEqual([1, 2, 3, 4])
  const second = cutBefore(
    timeline,
    steps.findIndex(({ fence }) => fence === 2),
  )
  expect(second.places).toHaveLength(second.chunks)
  const torn = second.shown.filter((image) => results[image.results[0]!]!.copies[0] === -1)
  expect(torn.length).toBeGreaterThan(0)
  for (const image of torn) {
    expect(image.kept).toMatch(/^[01]+$/)
    expect(results[image.results[0]!]).toEqual({
      ...{ lane: 'A', copies: [-1, 0], row: 'A torn', outcome: 0 },
      action: 'the copy behind A is copied over it',
    })
  }
  expect(cuts.every(({ broken }) => broken === 0)).toBe(true)
})

test('the same play paints the same picture', () => {
  expect(picturesOf(LEVEL, OWN)).toEqual([PICTURE])
})

test('a violation is a picture: the image that the cut left, and what recovery made of it', () => {
  const [picture] = TALLY.pictures as Picture[]
  const { replay } = TALLY.described[0]!
  expect(picture!.replay).toBe(`trial ${replay}`)
  const { timeline } = picture!
  const { steps, results, records, violation } = timeline
  expect(violation).toBe(TALLY.described[0]!.what)
  const at = steps.findIndex(({ kind }) => kind === 'cut')
  expect(timeline.cursor).toBe(at - 1)
  const cut = cutBefore(timeline, at)
  expect([cut.left, cut.shown[0]!.name]).toEqual([true, 'what this power cut left'])
  expect(results[cut.shown[0]!.results[0]!]).toMatchObject({
    copies: [-1, 0],
    row: '',
    outcome: -2,
  })
  expect(cut.broken).toBeGreaterThan(0)
  // The bytes of the new version are known, though no fence came behind them.
  expect(records[0]!.versions.at(-1)!.head).not.toBe('')
  const whole = cut.shown.find(({ name }) => name === 'all of it survives')!
  expect(results[whole.results[0]!]).toMatchObject({ lane: 'A', copies: [1, 0] })
  // What is started is in it, too, and what is played again has the same timeline.
  expect(steps.slice(at).map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(['power', 'store', 'fence', 'end']),
  )
  expect(tellOne(BROKEN, replay.split(' ').at(-1)!).timeline!.steps).toEqual(steps)
})

/** What the page of a timeline tells of itself. */
interface Told {
  readonly verdict: string
  readonly rows: readonly (readonly string[])[]
  /** Of the lane and each copy, the chunks. */
  readonly chunks: readonly (readonly string[])[]
}

describe.runIf(HAS_CHROMIUM)('with chromium: the page of the evidence', () => {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-evidence-page-'))
  const path = join(folder, 'evidence.html')
  let browser: Browser

  beforeAll(async () => {
    const { described, pictures, violations } = TALLY
    const cells = { 'before F1: torn': 3 }
    const tally = { count: 250, violations, described, cells, pictures: [PICTURE, ...pictures] }
    writeFileSync(path, pageFor(tally))
    browser = await openBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function told(frame: Frame): Promise<Told> {
    await frame.waitForFunction('window.timeline !== undefined')
    return await frame.evaluate('window.timeline.told()')
  }

  test.each(['light', 'dark'] as const)('a violation is looked at, in %s', async (colorScheme) => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme })
    page.setDefaultTimeout(0)
    const troubles: string[] = []
    page.on('console', (message) => troubles.push(message.text()))
    page.on('pageerror', (error) => troubles.push(error.message))
    page.on('request', (request) => {
      if (!/^(file:|about:srcdoc|data:)/.test(request.url())) troubles.push(request.url())
    })
    await page.goto(pathToFileURL(path).href)
    const frame = page.frames()[1]!
    await page.locator('#picture').selectOption({ index: 1 })
    await frame.getByText('write over its own').waitFor()
    expect((await told(frame)).verdict).toContain('wholly old or wholly new')
    const look = page.getByRole('button', { name: 'look at it' })
    expect(await look.count()).toBe(1)
    await look.click()
    await frame.locator('#violation', { hasText: 'the copies differ' }).waitFor()
    const { verdict, rows, chunks } = await told(frame)
    expect(verdict).toContain('VIOLATION')
    expect(rows[1]!.slice(0, 5)).toEqual([
      ...['what this power cut left', 'torn', 'torn old', 'no lane names it', 'neither'],
    ])
    // The image of the violation is the one that is shown, chunk by chunk; copy B is as it was.
    expect(chunks[1]).toHaveLength(16)
    expect(new Set(chunks[1])).toEqual(new Set(['kept', 'gone', 'same']))
    expect(new Set(chunks[2])).toEqual(new Set(['old']))
    await keepPicture(page, `evidence-${colorScheme}`)
    const colours = await Promise.all(
      [page, frame].map((of) => of.evaluate('getComputedStyle(document.body).backgroundColor')),
    )
    expect(colours).toEqual(new Array(2).fill(COLOURS[colorScheme]))
    expect(troubles).toEqual([])
    await page.close()
  })
})

const COLOURS = { light: 'rgb(247, 246, 243)', dark: 'rgb(20, 23, 28)' }
