import { defineConfig, type ViteUserConfig } from 'vitest/config'
import { LongestFirst } from './test/support/run/sequencer.ts'
import { IS_QUICK, TAG, TAGS } from './test/support/run/thorough.ts'

const config: ViteUserConfig = defineConfig({
  // Node 20 has no `await using`.
  oxc: { target: 'node20.19' },
  test: {
    include: ['test/**/*.test.ts'],
    tags: TAGS,
    ...(IS_QUICK ? { tagsFilter: [`!${TAG}`] } : {}),
    globalSetup: ['test/support/run/fresh-build.ts', 'test/support/run/taken-ports.ts'],
    reporters: ['default', './test/support/run/reporter.ts'],
    pool: 'threads',
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // What never ends is ended; nothing else depends on how busy the machine is.
    testTimeout: 1_800_000,
    hookTimeout: 1_800_000,
    watch: false,
  },
})

export default config
