/**
 * Debian's chromium, for the pages that the product makes: without a profile, and without a word to
 * its makers, so that a page that asks for nothing is seen to ask nothing.
 */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'

const PATH = '/usr/bin/chromium'

export const HAS_CHROMIUM: boolean = existsSync(PATH)

const FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update'],
]

/**
 * Leaves what is seen of a page as NAME.png in the folder that PERDURE_PICTURES names, as the
 * thorough run does; without that it does nothing.
 */
export async function keepPicture(page: Page, name: string): Promise<void> {
  const { PERDURE_PICTURES: folder = '' } = process.env
  if (folder !== '') await page.screenshot({ path: join(folder, `${name}.png`) })
}

/** However slow the machine is: the test that asks has a time of its own. */
export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: PATH, headless: true, args: FLAGS, timeout: 0 })
}
