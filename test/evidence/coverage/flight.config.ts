/**
 * Runs tests with a mark at every branch of the firmware, and keeps tapes of what they do to it:
 * `vitest run --config test/evidence/coverage/flight.config.ts FILES`, with the folder for what it
 * leaves in PERDURE_FLIGHT. The evidence's stage `coverage` does that.
 */

import { join, relative } from 'node:path'
import { defineConfig, type ViteUserConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { TAGS } from '../../support/run/thorough.ts'
import { ROOT } from '../../support/source/sources.ts'
import { BRANCHES, FOLDER } from './flight-names.ts'
import { markedIn } from './guest/guest-branches.ts'
import { testsOf } from './tests.ts'

const { files, branches } = await markedIn(process.env[FOLDER] ?? '')
const FEW_DRAWS = join(ROOT, 'test/evidence/coverage/few-draws.ts')

/** Files in the order of tests.ts: in which order they run decides what is on which tape. */
class AsListed extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const order = testsOf('ci')
    const placeOf = ({ moduleId }: TestSpecification): number => {
      return order.indexOf(relative(ROOT, moduleId).replaceAll('\\', '/'))
    }
    return Promise.resolve([...files].sort((a, b) => placeOf(a) - placeOf(b)))
  }
}

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
    tags: TAGS,
    setupFiles: ['flight-marks.ts', 'flight-setup.ts'].map((name) => {
      return join(ROOT, 'test/evidence/coverage', name)
    }),
    env: { [BRANCHES]: String(branches.length) },
    reporters: ['dot'],
    pool: 'threads',
    maxWorkers: 1,
    // All in one thread: what they import is loaded once, and what has run is fast.
    isolate: false,
    sequence: { sequencer: AsListed },
    testTimeout: 600_000,
    hookTimeout: 600_000,
    watch: false,
  },
})

export default config
