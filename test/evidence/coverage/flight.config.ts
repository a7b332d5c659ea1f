/**
 * Runs tests with a mark at every branch of the firmware, and keeps tapes of what they do to it:
 * `vitest run --config test/evidence/coverage/flight.config.ts FILES`, with the folder for what it
 * leaves in PERDURE_FLIGHT. The evidence's stage `coverage` does that.
 */

import { join, relative } from 'node:path'
import { defineConfig, type ViteUserConfig } from 'vitest/config'
import { ROOT } from '../../support/sources.ts'
import { BRANCHES, FOLDER } from './flight-names.ts'
import { markedIn } from './guest-branches.ts'

const { files, branches } = await markedIn(process.env[FOLDER] ?? '')
const FEW_DRAWS = join(ROOT, 'test/evidence/coverage/few-draws.ts')

const config: ViteUserConfig = defineConfig({
  root: ROOT,
  oxc: { target: 'node20.19' },
  plugins: [
    {
      name: 'marked-firmware',
      enforce: 'pre',
      load: (id: string) => files.get(relative(ROOT, id).replaceAll('\\', '/'))?.code ?? null,
      resolveId: (id: string, importer?: string) => {
        return id === 'fast-check' && importer !== FEW_DRAWS ? FEW_DRAWS : null
      },
    },
  ],
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['flight-marks.ts', 'flight-setup.ts'].map((name) => {
      return join(ROOT, 'test/evidence/coverage', name)
    }),
    env: { [BRANCHES]: String(branches.length) },
    reporters: ['dot'],
    pool: 'threads',
    maxWorkers: 1,
    testTimeout: 600_000,
    hookTimeout: 600_000,
    watch: false,
  },
})

export default config
