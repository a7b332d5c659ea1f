/** Debian's chromium, driven without a profile and without a word to its makers. */

import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

const PATH = '/usr/bin/chromium'

export const hasChromium: boolean = existsSync(PATH)

const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
]

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: PATH, args: FLAGS, timeout: 0 })
}
