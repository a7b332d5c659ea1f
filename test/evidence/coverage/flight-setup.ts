/** Records what the tests of a file do to the firmware (vitest, setupFiles; after flight-marks). */

import { basename } from 'node:path'
import { afterAll, expect } from 'vitest'
import { knownIn, leave } from './flight-files.ts'
import { FOLDER } from './flight-names.ts'
import { FlightRecorder } from './flight-recorder.ts'

const folder = process.env[FOLDER]!
const branches = (globalThis as unknown as { readonly __hits: Uint8Array }).__hits.length
const recorder = new FlightRecorder(knownIn(folder, branches))

afterAll(() => {
  recorder.stop()
  const { inside, outside, tapes, full } = recorder
  const name = basename(expect.getState().testPath ?? 'unnamed', '.test.ts')
  leave(folder, { name, inside, outside, tapes })
  if (full > 0)
    process.stderr.write(`${name}: ${full} calls did something new and are on no tape\n`)
})
