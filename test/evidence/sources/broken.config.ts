/**
 * Runs tests with one source changed as it is loaded: `vitest run --config
 * test/evidence/sources/broken.config.ts FILE`, with the change in PERDURE_CHANGE. The evidence's
 * stage `sources` does that. The tree is read and never written.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type ViteUserConfig } from 'vitest/config'
import { TAGS } from '../../support/run/thorough.ts'
import { ROOT } from '../../support/source/sources.ts'
import { broken, type Change } from '../mutants/mutant.ts'
import { CHANGE } from './row.ts'

const said = process.env[CHANGE]
const change = said === undefined ? null : (JSON.parse(said) as Change)

const config: ViteUserConfig = defineConfig({
  root: ROOT,
  oxc: { target: 'node20.19' },
  plugins: [
    {
      name: 'one-change',
      enforce: 'pre',
      load: (id: string) => {
        if (change === null || id.split('?')[0] !== join(ROOT, change.file)) return null
        return broken(change, readFileSync(join(ROOT, change.file), 'utf8'))
      },
    },
  ],
  test: {
    include: ['test/**/*.test.ts'],
    tags: TAGS,
    globalSetup: 'test/support/run/fresh-build.ts',
    pool: 'threads',
    maxWorkers: 1,
    testTimeout: 600_000,
    hookTimeout: 600_000,
    watch: false,
  },
})

export default config
