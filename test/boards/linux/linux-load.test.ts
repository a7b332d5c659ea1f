/**
 * The loads of `npm run bench:native` against the native runtime, for a moment: that each gets its
 * acknowledgements, with tags and without, and what a flood of forged packets does. The runtime is
 * the one that `node build.mjs --board linux` made; without it this is skipped.
 */

import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { compile } from '../../support/native/harness.ts'
import { type Build, type Running, runLoad, startPerdured } from '../../support/native/load/rig.ts'
import { TaggedRig } from '../../support/native/load/tagged-rig.ts'
import { noMachine } from '../../support/native/machine-program.ts'
import { noService, PERDURED, ServiceFolder } from '../../support/native/service.ts'

const why = noService ?? noMachine
const name = why === null ? 'a load' : `a load (${why})`
const PARTS = ['card/tags', 'card/icrc', 'card/crc-table']
const BENCH = '../../../boards/linux/bench'
const BURST = { burst: 32, window: 64 }

const programs = { load: '', flood: '' }
const folders: ServiceFolder[] = []
const running: Pick<Running, 'close'>[] = []

beforeAll(() => {
  if (why !== null) return
  programs.load = compile(`${BENCH}/load`, PARTS, ['-lsodium'])
  programs.flood = compile(`${BENCH}/flood`, [])
})

afterEach(async () => {
  for (const one of running.splice(0)) await one.close()
  for (const one of folders.splice(0)) await one.close()
})

/** Where one may run, and what. */
function place(): { build: Build; folder: string } {
  const folder = new ServiceFolder()
  folders.push(folder)
  const [firmware, trust] = [folder.at('firmware.js'), folder.at('trust.pem')]
  return { build: { perdured: PERDURED, firmware, trust }, folder: folder.path }
}

async function tagged(bytes: number): Promise<TaggedRig> {
  const { build, folder } = place()
  const rig = await TaggedRig.start(programs, build, folder, bytes)
  running.push(rig)
  return rig
}

describe.skipIf(why !== null)(name, () => {
  test.each([64, 4096])('of %i bytes is acknowledged by a card that is open', async (bytes) => {
    const { build, folder } = place()
    const served = await startPerdured(build, folder, bytes, [])
    running.push(served.running)
    const { qp, from, frame } = served
    const stream = { from, clientQp: qp.peer, psn: qp.psn, operation: 1, input: frame }
    const wish = { way: 'persist', records: 500, ...BURST } as const
    const { records, again } = await runLoad(programs.load, served.running, stream, wish)
    expect([records, again]).toEqual([500, 0])
  })

  test.each([64, 4096])('of %i bytes is acknowledged with tags, and beside them', async (bytes) => {
    const rig = await tagged(bytes)
    for (const way of ['persist', 'tagged', 'besieged', 'tagged', 'persist'] as const) {
      for (const [burst, window] of [[1, 1] as const, [32, 64] as const]) {
        const { records, again } = await rig.load({ way, records: 200, burst, window })
        expect([way, records, again]).toEqual([way, 200, way === 'besieged' ? again : 0])
      }
    }
    expect(await rig.refused()).toBe(0)
  })

  test.each(['untagged', 'wrong tag'] as const)('goes on in a flood (%s)', async (forgery) => {
    const rig = await tagged(64)
    const flood = await rig.flood(forgery)
    const { records } = await rig.load({ way: 'besieged', records: 2000, ...BURST })
    const { sent } = await flood.end()
    const refused = await rig.refused()
    expect(records).toBe(2000)
    // The card hears only so much of it.
    expect(refused).toBeGreaterThan(0)
    expect(refused).toBeLessThanOrEqual(sent)
    expect((await rig.load({ way: 'tagged', records: 200, ...BURST })).again).toBe(0)
  })
})
