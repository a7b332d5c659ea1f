/**
 * The page of a timeline in a real browser: the cursor moves by mouse and by keys, what it tells is
 * what the emulator says, and it asks for nothing. Skipped where there is no chromium.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/index.ts'
import type { Timeline } from '../../../host-driver/command/timeline/data.ts'
import { pageOf } from '../../../host-driver/command/timeline/page.ts'
import { readTrace } from '../../../host-driver/command/timeline/read-trace.ts'
import { storyOf } from '../../../host-driver/command/timeline/story.ts'
import { HAS_CHROMIUM, keepPicture, openBrowser } from '../../support/command/browser.ts'
import { type Traced, tracedRun } from '../../support/command/traced.ts'

const SEED = Number(process.env.SEED ?? 11)

/** What the page tells of itself, for tests. */
interface Told {
  readonly step: number
  readonly text: string
  readonly pending: readonly number[]
  readonly left: string
  readonly verdict: string
  readonly images: readonly { name: string; counts: Record<string, number> }[]
  readonly rows: readonly (readonly string[])[]
  /** Of the lane and of each copy of the chosen record, the chunks. */
  readonly chunks: readonly (readonly string[])[]
}

describe.runIf(HAS_CHROMIUM)('with chromium: the page of a timeline', () => {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-browser-'))
  const path = join(folder, 'page.html')
  const troubles: string[] = []
  let browser: Browser
  let page: Page
  let traced: Traced
  let timeline: Timeline

  const open = async (colorScheme: 'light' | 'dark'): Promise<Page> => {
    const opened = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme })
    opened.on('console', (message) => troubles.push(`console: ${message.text()}`))
    opened.on('pageerror', (error) => troubles.push(error.message))
    opened.on('request', (request) => {
      if (!request.url().startsWith('file:')) troubles.push(`asks for ${request.url()}`)
    })
    await opened.goto(pathToFileURL(path).href)
    return opened
  }
  const told = (): Promise<Told> => page.evaluate('window.timeline.told()')
  const go = (step: number): Promise<void> => page.evaluate(`window.timeline.go(${step})`)

  beforeAll(async () => {
    traced = await tracedRun({ seed: SEED })
    const trace = join(folder, 'run.trace')
    writeFileSync(trace, traced.lines.join(''))
    timeline = storyOf(readTrace(trace), { title: 'run', images: 64, steps: 2000 }).timeline
    writeFileSync(path, pageOf(timeline))
    browser = await openBrowser()
    page = await open('light')
  })
  afterAll(async () => {
    await browser.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test(`it tells at ten places what the emulator says (SEED=${SEED})`, async () => {
    const random = new Random(SEED)
    const open = traced.moments.filter(({ pendingLines }) => pendingLines.length > 0)
    for (let i = 0; i < 10; i++) {
      const moment = open[random.below(open.length)]!
      const step = timeline.steps.findLastIndex(({ n }) => n <= moment.events)
      await go(step)
      const { pending, images, left, verdict, text } = await told()
      expect(text).toBe(timeline.steps[step]!.text)
      expect(pending).toEqual(moment.pendingLines)
      const at = timeline.steps.findLast(({ cut }, k) => k <= step && cut !== undefined)!
      const cut = timeline.cuts[at.cut!]!
      if (cut.chunks > 0) expect(left).toContain(`${cut.images} images`)
      expect(verdict).toContain('wholly')
      expect(images.map(({ name }) => name)).toEqual(cut.shown.map(({ name }) => name))
      images.forEach(({ counts }, k) => {
        const { results } = cut.shown[k]!
        const lost = results.filter((one) => timeline.results[one]!.outcome < 0)
        expect([counts.lost! + counts.neither!, counts.new! + counts.old!]).toEqual([
          lost.length,
          results.length - lost.length,
        ])
      })
    }
    expect(troubles).toEqual([])
  })

  test('a chosen record is told by the row of the table, and by what it is then', async () => {
    const step = timeline.steps.findIndex(({ kind }) => kind === 'cut') - 1
    await go(step)
    const { rows, images } = await told()
    const [head, ...shown] = rows
    expect(head).toContain('is then')
    expect(shown).toHaveLength(images.length)
    for (const cells of shown) expect(cells.at(-2)).toMatch(/^(old|new)$/)
  })

  test('keys move the cursor: event by event, to fences, to the cut, to both ends', async () => {
    await go(10)
    const press = async (key: string): Promise<Told> => {
      await page.keyboard.press(key)
      return await told()
    }
    expect((await press('ArrowRight')).step).toBe(11)
    expect((await press('ArrowLeft')).step).toBe(10)
    expect(timeline.steps[(await press('f')).step]!.kind).toBe('fence')
    expect(timeline.steps[(await press('PageDown')).step]!.kind).toBe('fence')
    expect(timeline.steps[(await press('c')).step + 1]!.kind).toBe('cut')
    expect(timeline.steps[(await press('c')).step]!.kind).toBe('cut')
    expect((await press('End')).step).toBe(timeline.steps.length - 1)
    expect((await press('Home')).step).toBe(0)
    const chosen = (): Promise<string> => page.locator('#labels [aria-pressed=true]').innerText()
    await go(timeline.steps.findIndex(({ record }) => record === 1))
    const before = await chosen()
    await press('ArrowDown')
    expect(await chosen()).not.toBe(before)
    await press('ArrowUp')
    expect(await chosen()).toBe(before)
    await press('Escape')
  })

  test('an image is chosen by key or by mouse, and shows which chunks survive in it', async () => {
    const { steps, cuts } = timeline
    const at = steps.findLastIndex(({ cut = 0 }) => {
      const { places = [], shown, records } = cuts[cut]!
      return places.length > 2 && shown.length > 3 && records.length > 0
    })
    const { shown, places } = cuts[steps[at]!.cut!]!
    await go(at)
    const count = async (kind: string): Promise<number> => {
      return (await told()).chunks.flat().filter((one) => one === kind).length
    }
    const pending = await count('pend')
    expect(pending).toBeGreaterThan(0)
    for (const { kept } of shown) {
      await page.keyboard.press('i')
      expect(kept).toHaveLength(places!.length)
      const [survive, lost] = [await count('kept'), await count('gone')]
      // Those of the chosen record; of all of it, or of nothing, each.
      expect(survive + lost).toBe(pending)
      if (!kept!.includes('1')) expect(survive).toBe(0)
      if (!kept!.includes('0')) expect(lost).toBe(0)
    }
    const row = page.locator('#images tr').nth(2)
    await row.click()
    expect(await row.getAttribute('aria-selected')).toBe('true')
    await page.keyboard.press('I')
    expect(await page.locator('#images tr').nth(1).getAttribute('aria-selected')).toBe('true')
  })

  test('right before the cut of the run stands what it left, behind it that is there', async () => {
    const at = timeline.steps.findIndex(({ kind }) => kind === 'cut')
    await go(at - 1)
    const before = await told()
    expect(before.rows[1]![0]).toBe('what this power cut left')
    await go(at)
    const states: Record<string, string> = { kept: 'new', gone: 'old' }
    const after = (await told()).chunks.flat()
    // A chunk that was stored again as it was may be of either version.
    const chunks = before.chunks.flat().map((one, i) => (one === 'same' ? after[i]! : one))
    expect(chunks).toContain('kept')
    expect(chunks.map((one) => states[one] ?? one)).toEqual(after)
  })

  test('the mouse drags the cursor, and what reads aloud follows it', async () => {
    const chart = page.locator('#chart')
    await page.evaluate('document.getElementById("scene").scrollLeft = 0')
    const scene = (await page.locator('#scene').boundingBox())!
    const y = scene.y + 60
    await page.mouse.move(scene.x + 300, y)
    await page.mouse.down()
    const first = (await told()).step
    await page.mouse.move(scene.x + 420, y, { steps: 5 })
    await page.mouse.up()
    const { step, text } = await told()
    expect(step).toBeGreaterThan(first)
    expect(await chart.getAttribute('aria-valuenow')).toBe(String(step))
    expect(await chart.getAttribute('aria-valuetext')).toBe(text)
    await page.mouse.move(scene.x + 300, y)
    expect((await told()).step).toBe(step)
  })

  test('it is light or dark as its reader is, fits a window, and can be printed', async () => {
    const colour = (of: Page): Promise<string> =>
      of.evaluate('getComputedStyle(document.body).backgroundColor')
    const dark = await open('dark')
    expect(await colour(dark)).not.toBe(await colour(page))
    await page.keyboard.press('c')
    await keepPicture(page, 'timeline-light')
    await keepPicture(dark, 'timeline-dark')
    await dark.close()
    const fits = 'document.documentElement.scrollHeight <= innerHeight'
    expect(await page.evaluate(fits)).toBe(true)
    const printed = await page.pdf({ preferCSSPageSize: true })
    expect(printed.length).toBeGreaterThan(10_000)
    expect(troubles).toEqual([])
  })
})
