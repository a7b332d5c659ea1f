/** A real browser, Debian's chromium, for the pages that the product makes. */

import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

const CHROMIUM = '/usr/bin/chromium'

export const HAS_CHROMIUM: boolean = existsSync(CHROMIUM)

/** Without the services of its maker: a page that asks for nothing is then seen to ask nothing. */
const QUIET = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update'],
]

export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: CHROMIUM, headless: true, args: QUIET })
}
