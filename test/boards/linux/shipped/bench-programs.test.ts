/**
 * The builds of perdured that only `npm run bench:native` has, for a moment: that they serve, and
 * say what they have measured. A bench is played by hand, so nobody else would notice. They are
 * linked aside and renamed, perdured too: tests beside these start the old one or the new one.
 */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BenchPrograms, compileBench } from '../../../../boards/linux/bench/compile.ts'
import { Inside } from '../../../support/native/load/inside.ts'
import { buildOf, Rig } from '../../../support/native/load/rig.ts'
import { noService } from '../../../support/native/service.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'

const RECORDS = 8192
const BURST = 32
const why = noService === null ? '' : ` (${noService})`

const folder = mkdtempSync(join(tmpdir(), 'perdure-bench-'))
let programs: BenchPrograms

describe.skipIf(noService !== null)(`the bench's programs${why}`, THOROUGH, () => {
  beforeAll(() => {
    const only = { sanitize: false, dropFlush: false, install: false, say: () => {} }
    const architecture = process.arch === 'arm64' ? 'arm64' : 'x86-64'
    programs = compileBench({ architecture, ...only })
  })

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true })
  })

  test('with a link that costs nothing both acknowledge every record', async () => {
    const build = buildOf(programs.inside.perdured, programs.signed.trust)
    const perdured = await Inside.perdured(build, folder, 64)
    const duty = await Inside.duty(programs.inside.duty, folder, perdured, 64)
    for (const one of [perdured, duty]) {
      const { acked, refused, p10Ns } = await one.run(RECORDS, BURST)
      expect([acked, refused, p10Ns > 0]).toEqual([RECORDS, 0, true])
      await one.close()
    }
  })

  test('that with clocks says at its end where the time went', async () => {
    const file = join(folder, 'stages')
    const rig = new Rig(programs, folder, 64)
    await rig.start(programs.timed, true, { PERDURE_STAGES: file })
    await rig.load(0, RECORDS, BURST, 64)
    await rig.close()
    const told = JSON.parse(readFileSync(file, 'utf8')) as Record<string, number>
    for (const stage of ['javascript', 'lists', 'send']) expect(told[stage]).toBeGreaterThan(0)
    // It is told in whole ns: a fast machine's can be 0.
    expect(told.fence).toBeGreaterThanOrEqual(0)
  })
})
