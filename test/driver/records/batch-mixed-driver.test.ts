/**
 * Batches of the driver that go to several regions, and to plain bytes: over frames, to the own
 * card, and over its queues to another one (source 4, [0059], FIG. 8; S1-M9).
 */

import { afterEach, describe, expect, test } from 'vitest'
import type { BatchCondition, BytesRegion, Region } from '../../../host-driver/index.ts'
import { type OpenWay, openWay, WAYS, type WayName } from '../../support/driver/ways.ts'

const CONDITIONS: readonly BatchCondition[] = ['independent', 'inOrder', 'expect']

const ways: OpenWay[] = []
afterEach(async () => {
  for (const way of ways.splice(0)) await way.close()
})

interface Bench {
  readonly way: OpenWay
  readonly orders: Region
  readonly index: Region
  readonly area: BytesRegion
}

async function bench(name: WayName): Promise<Bench> {
  const way = await openWay(name, { connect: { pathMtu: 1024 } })
  ways.push(way)
  const { dpu } = way
  await dpu.format()
  const orders = await dpu.provision({ name: 'orders', slots: 64, capacity: 1000 })
  const index = await dpu.provision({ name: 'index', slots: 64, capacity: 64, copies: 3 })
  await dpu.provisionBytes({ name: 'area', length: 65536, writePersist: true })
  return { way, orders, index, area: await dpu.openBytes('area') }
}

function data(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 13) & 0xff)
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

describe.each(WAYS)('over %s', (name) => {
  test.each(CONDITIONS)(
    'S1-M9: a batch goes to two regions and to bytes, %s',
    async (condition) => {
      const { orders, index, area, way } = await bench(name)
      const expecting = condition === 'expect'
      for (const round of [1, 2]) {
        const batch = orders.batch({ condition })
        const ofOrders = expecting ? { expect: (await orders.read(3)).sequence } : {}
        const ofIndex = expecting ? { expect: (await index.read(3)).sequence } : {}
        batch.persist(3, data(500, round), ofOrders)
        batch.write(area, 100, data(300, round + 10))
        batch.persist(3, data(40, round + 20), { region: index, ...ofIndex })
        batch.write(area, 1000, data(3000, round + 30))
        const outcome = await batch.commit()
        expect(outcome).toMatchObject({ durable: 4, all: true, bursts: 1 })
        expect(outcome.records.map(({ region, slot }) => [region, slot])).toEqual([
          ...[
            ['orders', 3],
            ['area', 100],
            ['index', 3],
            ['area', 1000],
          ],
        ])
        expect(outcome.records.map((one) => one.status === 'durable' && one.receipt)).toMatchObject(
          [
            ...[
              { copies: 2, of: 2 },
              { copies: 1, of: 1 },
              { copies: 2, of: 3 },
              { copies: 1, of: 1 },
            ],
          ],
        )
        await way.restart()
        expect((await orders.read(3)).data).toEqual(data(500, round))
        expect((await index.read(3)).data).toEqual(data(40, round + 20))
        expect(await area.read(100, 300)).toEqual(data(300, round + 10))
        expect(await area.read(1000, 3000)).toEqual(data(3000, round + 30))
      }
    },
  )

  test('S1-M9: a condition that does not hold refuses its record, and no bytes', async () => {
    const { orders, index, area } = await bench(name)
    const before = await orders.read(4)
    const batch = orders.batch({ condition: 'expect' })
    batch.persist(4, data(10, 1), { expect: before.sequence })
    batch.write(area, 0, data(64, 2))
    batch.persist(4, data(10, 3), { region: index, expect: 77n })
    const { records } = await batch.commit()
    expect(records.map(({ status }) => status)).toEqual(['durable', 'durable', 'refused'])
  })

  test('S1-M9: longer than a burst, and than a group', async () => {
    const { orders, index, area, way } = await bench(name)
    for (const condition of ['independent', 'inOrder'] as const) {
      const batch = orders.batch({ condition })
      for (const i of upTo(60)) {
        batch.persist(i, data(20, i))
        batch.persist(i, data(30, i), { region: index })
        if (i % 3 === 0) batch.write(area, 100 * i, data(100, i))
      }
      expect(await batch.commit()).toMatchObject({ durable: 140, all: true })
    }
    await way.restart()
    for (const i of upTo(60)) {
      expect((await orders.read(i)).data).toEqual(data(20, i))
      expect((await index.read(i)).data).toEqual(data(30, i))
      if (i % 3 === 0) expect(await area.read(100 * i, 100)).toEqual(data(100, i))
    }
  })
})

test.each(WAYS)('S1-M9: over %s a card that starts again has nothing twice', async (name) => {
  let again = 0
  for (const condition of ['independent', 'inOrder'] as const) {
    for (let us = 0; us < 120; us += 12) {
      const { orders, index, area, way } = await bench(name)
      const batch = orders.batch({ condition })
      batch.persist(0, data(100, 1))
      batch.write(area, 0, data(2500, 2))
      batch.persist(0, data(50, 3), { region: index })
      const going = batch.commit()
      await way.pass(us)
      await way.restart()
      const outcome = await going
      expect(outcome, `${us} us`).toMatchObject({ all: true })
      if (outcome.bursts > 1) again++
      expect((await orders.read(0)).data).toEqual(data(100, 1))
      expect(await area.read(0, 2500)).toEqual(data(2500, 2))
      expect((await index.read(0)).data).toEqual(data(50, 3))
      await ways.pop()!.close()
    }
  }
  expect(again).toBeGreaterThan(0)
})

test('S1-M9: what cannot stand in the batch is refused at the call, the rest goes on', async () => {
  const { orders, index, area, way } = await bench('frames')
  const { dpu } = way
  await dpu.provisionBytes({ name: 'plain', length: 4096 })
  const plain = await dpu.openBytes('plain')
  const batch = orders.batch()
  batch.persist(1, data(10, 1))
  batch.persist(1, data(10, 2), { region: index })
  batch.write(area, 64, data(64, 3))
  const calls: readonly (readonly [() => void, RegExp])[] = [
    [() => batch.persist(1, data(1, 1), { region: index }), /has that slot already/],
    [() => batch.persist(64, data(1, 1), { region: index }), /64/],
    [() => batch.persist(2, data(65, 1), { region: index }), /65 bytes/],
    [() => batch.persist(2, data(1, 1), { region: area as never }), /a region of records/],
    [() => batch.write(orders as never, 0, data(1, 1)), /a region of bytes/],
    [() => batch.write(plain, 0, data(1, 1)), /not registered write-persist/],
    [() => batch.write(area, 127, data(10, 1)), /has some of them already/],
    [() => batch.write(area, 0, data(65, 1)), /has some of them already/],
    [() => batch.write(area, 65530, data(10, 1)), /65536|inside/],
    [() => batch.write(area, 200, 'text' as never), /bytes/],
  ]
  for (const [call, why] of calls) {
    expect(call).toThrow(expect.objectContaining({ code: 'PERDURE_ARGUMENT' }))
    expect(call).toThrow(why)
  }
  expect(await batch.commit()).toMatchObject({ durable: 3, all: true })
  const older = orders.batch()
  Object.assign(index.info, { joinsBatches: false })
  const beside = (): void => older.persist(1, data(1, 1), { region: index })
  expect(beside).toThrow(/use a batch for each/)
})
