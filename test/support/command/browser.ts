/**
 * Debian's chromium, for the pages that the product makes: without a profile, and without a word to
 * its makers, so that a page that asks for nothing is seen to ask nothing.
 */

import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

const PATH = '/usr/bin/chromium'

export const HAS_CHROMIUM: boolean = existsSync(PATH)

const FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update'],
]

/** However slow the machine is: the test that asks has a time of its own. */
export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: PATH, headless: true, args: FLAGS, timeout: 0 })
}
