/**
 * Names of regions from one end to the other: in other languages, those of a prototype, and those
 * that a part has though no card gives them any more.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { connect, type Dpu } from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { GOOD_NAMES, HOSTILE_NAMES, renamed } from '../../support/cards/hostile-names.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts } from '../../support/driver/local-parts.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'

const openPart = localParts()
const SEED = 11

const folder = mkdtempSync(join(tmpdir(), 'perdure-names-'))
const path = join(folder, 'part.nvdimm')
afterEach(() => rmSync(path, { force: true }))
afterAll(() => rmSync(folder, { recursive: true }))

async function driverOf(local: LocalDpu, seed: number = SEED): Promise<Dpu> {
  return await connect(local.wire, { seed, warn: () => {} })
}

async function namesOf(dpu: Dpu): Promise<string[]> {
  return (await dpu.regions()).map(({ name }) => name)
}

test('regions of other languages, and of any word, are made, listed, opened and kept', async () => {
  const local = await openPart()
  const dpu = await driverOf(local)
  await dpu.format()
  for (const [i, name] of GOOD_NAMES.entries()) {
    const region = await dpu.provision({ name, slots: 1, capacity: 64 })
    expect(region.name).toBe(name)
    await region.persist(0, dataOf(64, i)).persisted
  }
  expect(await namesOf(dpu)).toEqual(GOOD_NAMES)
  local.dpu.powerCut({ strategy: 'none' })
  await local.dpu.powerOn()
  for (const [i, name] of GOOD_NAMES.entries()) {
    const region = await dpu.openRegion(name)
    expect(region.info.name).toBe(name)
    expect((await region.read(0)).data).toEqual(dataOf(64, i))
    await dpu.scan(name)
  }
  await dpu.remove('__proto__')
  expect(await namesOf(dpu)).toEqual(GOOD_NAMES.filter((name) => name !== '__proto__'))
  expect(await failure(dpu.openRegion('__proto__'))).toMatchObject({ fault: 'NO_REGION' })
  await dpu.close()
})

describe('on two cards', () => {
  test.each(['données', '数据', '__proto__', 'constructor'])(
    '%s is published, and attached',
    async (name) => {
      const network = new Network({ seed: SEED })
      await network.addDpu(2)
      await network.addDpu(3)
      network.clock.start()
      const there = await connect(network.addHost(), { seed: SEED + 1, peer: endpointOf(3) })
      await there.format()
      const region = await there.provision({ name, slots: 2, capacity: 64 })
      expect((await there.publish({ name, port: 7471, form: 'capability' })).name).toBe(name)
      const here = await connect(network.addHost(), { seed: SEED, peer: endpointOf(2) })
      await here.format()
      const relay = await here.attach({ name, address: '10.0.0.3', port: 7471 })
      expect(relay.name).toBe(name)
      await relay.persist(1, dataOf(64, 5)).persisted
      expect((await region.read(1)).data).toEqual(dataOf(64, 5))
      await here.detach(name)
      expect(await failure(here.openRegion(name))).toMatchObject({ fault: 'NO_REGION' })
      await here.close()
      await there.close()
      network.clock.stop()
    },
  )
})

test('a new name that does harm is refused before anything is sent', async () => {
  const local = await openPart()
  const dpu = await driverOf(local)
  await dpu.format()
  const { packets } = dpu.statistics()
  let frames = 0
  local.link.tap = () => {
    frames += 1
  }
  for (const name of ['\u001b[31mred', 'a\u202eb', 'a\ud83d', 'a\udc9b', '\u0085']) {
    const wrong = {
      code: 'PERDURE_ARGUMENT',
      message: expect.stringMatching(/character \d is U\+/),
    }
    expect(await failure(dpu.provision({ name, slots: 1, capacity: 64 }))).toMatchObject(wrong)
    expect(await failure(dpu.provisionBytes({ name, length: 64 }))).toMatchObject(wrong)
    const attachment = { name, address: '10.0.0.3', port: 7471 }
    expect(await failure(dpu.attach(attachment))).toMatchObject(wrong)
  }
  expect(dpu.statistics().packets).toBe(packets)
  expect(frames).toBe(0)
  await dpu.close()
})

test.each(HOSTILE_NAMES)(
  'a part has %s for a name: all is as ever, by its bytes',
  async (_, bytes) => {
    const made = await openPart({ path })
    const maker = await driverOf(made)
    await maker.format()
    const region = await maker.provision({ name: 'orders', slots: 2, capacity: 64 })
    await region.persist(1, dataOf(64, 1)).persisted
    await maker.close()
    made.close()
    writeFileSync(path, renamed(readFileSync(path), 'orders', bytes))
    const local = await openPart({ path })
    // Another client: its first operation is no repetition of the other's.
    const dpu = await driverOf(local, SEED + 1)
    const [name] = await namesOf(dpu)
    const opened = await dpu.openRegion(name!)
    expect(opened.name).toBe(name)
    expect((await opened.read(1)).data).toEqual(dataOf(64, 1))
    await opened.persist(0, dataOf(64, 2)).persisted
    await dpu.scan(name!)
    await dpu.publish({ name: name!, port: 7471, form: 'capability' })
    local.dpu.powerCut({ strategy: 'none' })
    await local.dpu.powerOn()
    expect((await opened.read(0)).data).toEqual(dataOf(64, 2))
    await dpu.remove(name!)
    expect(await namesOf(dpu)).toEqual([])
    await dpu.close()
  },
)
