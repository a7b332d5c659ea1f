/**
 * Guards by the driver: over every way to a DPU, through a relay, to a DPU that takes none, and as
 * they come back with what is read (S1-M1).
 */

import { afterEach, describe, expect, test } from 'vitest'
import {
  connect,
  guardOf,
  PerdureError,
  RefusedError,
  type Region,
  readSlotImage,
} from '../../../host-driver/index.ts'
import { writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { type OpenWay, openWay, WAYS } from '../../support/driver/ways.ts'
import { judgedGuard } from '../../support/judges/crc32c.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'

const SEED = Number(process.env.SEED ?? 77)
const ways: OpenWay[] = []

afterEach(async () => {
  for (const way of ways.splice(0)) await way.close()
})

async function opened(name: (typeof WAYS)[number], guard: boolean): Promise<OpenWay> {
  const way = await openWay(name, { connect: { guard } })
  ways.push(way)
  await way.dpu.format()
  return way
}

/** How it ended: the fault that the DPU named, or the code of the error. */
async function endOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'durable'
  } catch (error) {
    if (error instanceof RefusedError) return error.fault
    return error instanceof PerdureError ? error.code : String(error)
  }
}

/** Another guard than that of the data. */
function wrong(data: Uint8Array): number {
  return (judgedGuard(data) ^ 0x40) >>> 0
}

describe.each(WAYS)('S1-M1: over %s', (name) => {
  test('every record brings its guard, and it comes back with what is read', async () => {
    const way = await opened(name, true)
    const region = await way.dpu.provision({ name: 'orders', slots: 8, capacity: 5000, copies: 3 })
    expect(region.info.takesGuards).toBe(true)
    for (const form of ['replicated', 'carried', 'addressed'] as const) {
      for (const length of [0, 1, 64, 300, 1500]) {
        const data = dataOf(length, length)
        await region.persist(1, data, { form }).persisted
        expect(await region.read(1), `${form}, ${length} bytes`).toMatchObject({
          data,
          guard: judgedGuard(data),
        })
      }
    }
    const data = dataOf(5000, 9)
    await region.persist(2, data).persisted
    await way.restart()
    await way.dpu.reconnect()
    const { copies } = await region.readCopies(2)
    for (const { record } of copies) expect(record!.guard).toBe(judgedGuard(data))
    await region.persist(2, data, { guard: false }).persisted
    expect((await region.read(2)).guard).toBeUndefined()
  })

  test('what was damaged is refused, and the old record stays', async () => {
    const way = await opened(name, false)
    const region = await way.dpu.provision({ name: 'orders', slots: 8, capacity: 5000 })
    await region.persist(1, dataOf(64, 1)).persisted
    for (const length of [1, 64, 300, 5000]) {
      const data = dataOf(length, length)
      const write = region.persist(1, data, { guard: wrong(data) })
      expect(await endOf(write.persisted), `${length} bytes`).toBe('GUARD')
      expect(await region.read(1)).toMatchObject({ data: dataOf(64, 1) })
    }
    // The application may have computed it, long before.
    const data = dataOf(300, 7)
    expect(await endOf(region.persist(1, data, { guard: guardOf(data) }).persisted)).toBe('durable')
    expect(await region.read(1)).toMatchObject({ data, guard: judgedGuard(data) })
  })

  test.each(['independent', 'inOrder', 'expect'] as const)(
    'of a batch, %s, the damaged record is refused, after one more try',
    async (condition) => {
      const way = await opened(name, true)
      const region = await way.dpu.provision({ name: 'orders', slots: 8, capacity: 200 })
      const batch = region.batch({ condition })
      for (let slot = 0; slot < 4; slot++) {
        const data = dataOf(100, slot)
        const expected =
          condition === 'expect' ? { expect: (await region.read(slot)).sequence } : {}
        batch.persist(slot, data, { ...expected, ...(slot === 1 ? { guard: wrong(data) } : {}) })
      }
      const { records } = await batch.commit()
      const ends = records.map((record) =>
        record.status === 'refused' ? record.code : record.status,
      )
      const behind = condition === 'inOrder' ? 'notAccepted' : 'durable'
      expect(ends).toEqual(['durable', 'GUARD', behind, behind])
      expect((await region.read(0)).guard).toBe(judgedGuard(dataOf(100, 0)))
      expect((await region.read(1)).written).toBe(false)
    },
  )
})

test('S1-M1: a relay passes the guard on, and the other DPU judges by it', async () => {
  const network = new Network({ seed: SEED, faults: { loss: 0.05, reordering: 0.05 } })
  await network.addDpu(2, { engine: 'node' })
  await network.addDpu(3, { engine: 'node' })
  network.clock.start()
  const there = await connect(network.addHost(), { seed: SEED + 1, peer: endpointOf(3) })
  await there.format()
  const region = await there.provision({ name: 'orders', slots: 8, capacity: 1000 })
  await there.publish({ name: 'orders', port: 7471, form: 'capability' })
  const here = await connect(network.addHost(), { seed: SEED, peer: endpointOf(2), guard: true })
  await here.format()
  const relay = await here.attach({ name: 'orders', address: '10.0.0.3', port: 7471 })
  expect(relay.info.takesGuards).toBe(true)
  for (const length of [1, 64, 1000]) {
    const data = dataOf(length, 1)
    await relay.persist(1, data).persisted
    expect(await region.read(1)).toMatchObject({ data, guard: judgedGuard(data) })
    const bad = relay.persist(1, data, { guard: wrong(data) })
    expect(await endOf(bad.persisted)).toBe('GUARD')
  }
  await here.close()
  await there.close()
  network.clock.stop()
})

test('S1-M1: a region that takes none is told once, and records go without', async () => {
  const said: string[] = []
  const warn = (text: string): void => void said.push(text)
  const way = await openWay('frames', { connect: { guard: true, warn } })
  ways.push(way)
  await way.dpu.format()
  const region = olderFirmware(await way.dpu.provision({ name: 'orders', slots: 8, capacity: 100 }))
  for (const seed of [1, 2]) await region.persist(1, dataOf(64, seed)).persisted
  expect((await region.read(1)).guard).toBeUndefined()
  expect(said.filter((text) => text.includes('guards'))).toHaveLength(1)
  const data = dataOf(64, 3)
  expect(() => region.persist(1, data, { guard: guardOf(data) })).toThrow(/takes no guards/)
})

test('S1-M1: unless it is said otherwise records have guards, where they are taken', async () => {
  for (const takes of [true, false]) {
    const said: string[] = []
    const warn = (text: string): void => void said.push(text)
    const way = await openWay('frames', { connect: { warn } })
    ways.push(way)
    await way.dpu.format()
    const made = await way.dpu.provision({ name: 'orders', slots: 8, capacity: 100 })
    const region = takes ? made : olderFirmware(made)
    const data = dataOf(64, 1)
    await region.persist(1, data).persisted
    const batch = region.batch()
    batch.persist(2, data)
    await batch.commit()
    const guard = takes ? judgedGuard(data) : undefined
    for (const slot of [1, 2]) expect((await region.read(slot)).guard).toBe(guard)
    expect(said.filter((text) => text.includes('guards'))).toEqual([])
  }
})

/** The region, as a DPU tells of it whose firmware is from before. */
function olderFirmware(region: Region): Region {
  Object.assign(region.info, { takesGuards: false })
  return region
}

test.each([0, -1, 2 ** 32, 1.5, 'yes', null])('S1-M1: a guard of %s is no guard', async (guard) => {
  const way = await opened('frames', false)
  const region = await way.dpu.provision({ name: 'orders', slots: 8, capacity: 100 })
  const options = { guard: guard as number }
  expect(() => region.persist(1, dataOf(8, 1), options)).toThrow(/true, false, or 1 to 2\^32 - 1/)
  expect(() => region.batch().persist(1, dataOf(8, 1), options)).toThrow(/1 to 2\^32 - 1/)
})

test('S1-M1: who reads does not believe a guard that is not that of the data', () => {
  const shape = { id: 1, capacity: 100, key: dataOf(16, 1) }
  const data = dataOf(64, 2)
  const record = { data, sequence: 5n, clientId: 1n, operationId: 2n }
  const whyOf = (guard?: number): string => {
    const image = writeSlotImage({ ...record, ...(guard === undefined ? {} : { guard }) }, shape, 3)
    return readSlotImage(image, shape, 3).why
  }
  expect([whyOf(), whyOf(judgedGuard(data)), whyOf(wrong(data))]).toEqual([
    'valid',
    'valid',
    'damaged',
  ])
})
