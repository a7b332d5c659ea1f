/**
 * Emulated cards for the tests of one file, each on an image of its own.
 *
 * Invariant: what was opened is closed behind the test that opened it; the folder of the images
 * goes with the file.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach } from 'vitest'
import { type LocalDpu, type LocalOptions, openLocal } from '../../../host-driver/local.ts'

/** To be called once by a file; a card has 2 MiB and runs in Node from one seed, unless said. */
export function localParts(): (options?: Partial<LocalOptions>) => Promise<LocalDpu> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-parts-'))
  const open: LocalDpu[] = []
  let images = 0
  afterEach(() => {
    for (const local of open.splice(0)) local.close()
  })
  afterAll(() => rmSync(folder, { recursive: true }))
  return async (options = {}) => {
    const path = join(folder, `${images++}.nvdimm`)
    const local = await openLocal({ path, bytes: 1 << 21, engine: 'node', seed: 7, ...options })
    open.push(local)
    return local
  }
}

/** Lets so many µs pass on the clock of the card. */
export function passOn({ clock }: LocalDpu, us: number): Promise<void> {
  return new Promise((resolve) => void clock.schedule(clock.nowUs + us, resolve))
}
