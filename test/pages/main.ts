/** `node build.mjs doc`: writes what sources decide into the pages; names those that changed. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../support/source/sources.ts'
import { PAGES, pageOf, read } from './tables.ts'

for (const path of PAGES) {
  const before = read(path)
  const page = pageOf(path)
  if (page === before) continue
  writeFileSync(join(ROOT, path), page)
  process.stdout.write(`${path}\n`)
}
