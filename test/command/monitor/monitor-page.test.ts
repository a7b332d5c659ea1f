/**
 * The page of `perdure monitor --web` in a browser, as a user has it: the built page, a card, and
 * what happens to that card.
 *
 * Skipped where there is no chromium.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HAS_CHROMIUM, keepPicture, openBrowser } from '../../support/command/browser.ts'
import { COMMAND, emulateIn, PLAIN, runIn, stop } from '../../support/command/command.ts'
import { isDrawn, lowContrast } from '../../support/monitor/in-page.mjs'

/** It is shown, and never obeyed. */
const HOSTILE = '<img src=x onerror=alert(1)>'

describe.skipIf(!HAS_CHROMIUM)('the page of a monitor (needs chromium)', () => {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-page-'))
  let browser: Browser
  let card: ChildProcess
  let monitor: ChildProcess
  let target = ''
  let address = ''

  beforeAll(async () => {
    browser = await openBrowser()
    const words = ['--create', '--region', 'orders:8:64', '--region', `${HOSTILE}:8:64`]
    const [started, [named]] = await emulateIn(folder, 1, [
      ...['part.img', ...words, '--console', '--engine', 'node', '--udp', '127.0.0.1:0'],
    ])
    card = started
    target = named!
    await startMonitor()
  })

  afterAll(async () => {
    await browser?.close()
    for (const child of [monitor, card]) if (child?.exitCode === null) await stop(child)
    rmSync(folder, { recursive: true, force: true })
  })

  async function startMonitor(port = '0'): Promise<void> {
    const words = ['monitor', target, '--interval', '0.2', '--timeout', '60', '--web', port]
    const child = spawn(process.execPath, [COMMAND, ...words], { cwd: folder, env: PLAIN })
    child.stderr.resume()
    monitor = child
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
    address = line
  }

  /** Does that with a page; whatever goes wrong in it, or leaves this machine, is an error. */
  async function withPage(
    work: (page: Page) => Promise<void>,
    colorScheme: 'light' | 'dark' = 'light',
  ): Promise<void> {
    const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 800 } })
    page.setDefaultTimeout(0)
    const wrong: string[] = []
    page.on('console', (message) => wrong.push(`${message.type()}: ${message.text()}`))
    page.on('pageerror', (error) => wrong.push(error.message))
    page.on('request', (request) => {
      if (!request.url().startsWith(address) && !request.url().startsWith('data:')) {
        wrong.push(`it asks for ${request.url()}`)
      }
    })
    try {
      await page.goto(address)
      await page.getByText('serving', { exact: true }).waitFor()
      await work(page)
      expect(wrong).toEqual([])
    } finally {
      await page.close()
    }
  }

  test('it shows how a card is, what it holds, and its charts', () =>
    withPage(async (page) => {
      expect(await page.locator('.state').textContent()).toBe('WARNING')
      expect(await page.locator('h2', { hasText: target }).count()).toBe(1)
      const cells = await page.locator('table[aria-label=Regions] td:first-child').allTextContents()
      expect(cells).toEqual(['orders', HOSTILE])
      expect(await page.locator('#cards img').count()).toBe(0)
      await page.locator('figure:not([hidden]) canvas').nth(1).waitFor()
      const captions = await page.locator('figure:not([hidden]) figcaption').allTextContents()
      expect(captions).toEqual([
        'Records that become durable, in a second',
        'Within which time, of the slowest region',
        'Faults and refusals, in a second',
        'How long the card takes to answer',
      ])
      const drawn = await page.locator('canvas').first().evaluate(isDrawn)
      expect(drawn).toBe(true)
    }))

  test('what happens to the card comes by itself, in words', () =>
    withPage(async (page) => {
      await runIn(folder, ['read', target, 'none'])
      const faults = page.locator('table[aria-label="Faults met since the start"]')
      await faults.getByText('NO_REGION').waitFor()
      card.stdin!.write('energy gone\n')
      await page.locator('.state.CRITICAL', { hasText: 'CRITICAL' }).waitFor()
      await page.locator('#happened li', { hasText: 'critical' }).first().waitFor()
      await page.waitForFunction("document.title === 'CRITICAL: perdure monitor'")
      card.stdin!.write('energy back\n')
      await page.locator('#happened li', { hasText: 'the save energy is back' }).first().waitFor()
      await page.locator('.state.WARNING').waitFor()
    }))

  test('it can be paused, and goes on, by keyboard alone', () =>
    withPage(async (page) => {
      await page.keyboard.press('Tab')
      expect(await page.evaluate('document.activeElement.className')).toBe('skip')
      await page.keyboard.press('Tab')
      expect(await page.evaluate('document.activeElement.id')).toBe('pause')
      await page.keyboard.press('Enter')
      expect(await page.locator('#pause').getAttribute('aria-pressed')).toBe('true')
      card.stdin!.write('save failed\n')
      await until(async () => (await metrics()).includes('aspect="saved"} 0'))
      expect(await page.getByText('the last save of the NVDIMM failed').count()).toBe(0)
      await page.keyboard.press('Enter')
      await page
        .locator('#happened li', { hasText: 'the last save of the NVDIMM failed' })
        .waitFor()
      card.stdin!.write('save good\n')
      await page.locator('.state.WARNING').waitFor()
    }))

  async function metrics(): Promise<string> {
    return await (await fetch(`${address}metrics`)).text()
  }

  async function until(is: () => Promise<boolean>): Promise<void> {
    while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 50))
  }

  test.each(['light', 'dark'] as const)('it is readable in %s: contrast of all words', (scheme) =>
    withPage(async (page) => {
      const low = await page.evaluate(lowContrast)
      expect(low).toEqual([])
      const { length } = await page.screenshot({ path: join(folder, `${scheme}.png`) })
      expect(length).toBeGreaterThan(10_000)
      await keepPicture(page, `monitor-${scheme}`)
      const wide = await page.evaluate('document.documentElement.scrollWidth')
      expect(wide).toBeLessThanOrEqual(1280)
    }, scheme),
  )

  test('a monitor that ends is said to be gone, and found again when it is back', async () => {
    const page = await browser.newPage()
    page.setDefaultTimeout(0)
    try {
      await page.goto(address)
      await page.getByText('every 0.2 s').waitFor()
      expect(await stop(monitor)).toBe(0)
      await page.getByText('the monitor does not answer').waitFor()
      await startMonitor(new URL(address).port)
      await page.getByText('every 0.2 s').waitFor()
    } finally {
      await page.close()
    }
  })
})
