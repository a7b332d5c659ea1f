/**
 * The host of a card is told by its driver what others store in batches (source 4, claim 1;
 * S1-M10): `region.onBatch`, against the emulated card.
 */

import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Engine } from '../../../boards/emulator/index.ts'
import { Z3_POINTER, ZONE3_BYTES } from '../../../firmware/host/queue-info.ts'
import {
  type BatchNotice,
  type BatchWatch,
  type BatchWatchOptions,
  connect,
  type Dpu,
  PcieDevice,
  PerdureError,
  type Region,
} from '../../../host-driver/index.ts'
import { openWay } from '../../support/driver/ways.ts'
import { type Machine, MachineRoom } from '../../support/peers/hosts.ts'
import { endpointOf } from '../../support/peers/network.ts'

const SLOTS = 64
/** Longer than anything here takes, µs. */
const WHILE_US = 20_000

/** A host that has a card, and another machine that stores in it. */
interface Two {
  readonly room: MachineRoom
  readonly machine: Machine
  readonly device: PcieDevice
  readonly own: Dpu
  readonly far: Dpu
  readonly region: Region
  readonly writer: Region
  readonly heard: BatchNotice[]
}

const open: Two[] = []
afterEach(async () => {
  for (const { own, far, device, room } of open.splice(0)) {
    await far.close()
    await own.close()
    device.close()
    room.clock.stop()
  }
})

async function two(engine: Engine = 'node'): Promise<Two> {
  const room = new MachineRoom({ seed: 7 })
  const machine = await room.addMachine(2, { engine })
  room.clock.start()
  const device = await PcieDevice.open(machine.port, { seed: 4, watchdogUs: 500 })
  const own = await connect(device, { seed: 5 })
  await own.format()
  const region = await own.provision({ name: 'r', slots: SLOTS, capacity: 64 })
  const how = { seed: 3, clientId: 0x1234_5678_9abc_def0n, firstOperation: 1n }
  const far = await connect(room.addHost(), { peer: endpointOf(2), ...how })
  const writer = await far.openRegion('r')
  const made = { room, machine, device, own, far, region, writer, heard: [] }
  open.push(made)
  return made
}

function pass({ room: { clock } }: Two, us: number = WHILE_US): Promise<void> {
  return new Promise((resolve) => void clock.schedule(clock.nowUs + us, resolve))
}

function listen(to: Two, options: BatchWatchOptions = {}): Promise<BatchWatch> {
  return to.region.onBatch((notice) => void to.heard.push(notice), options)
}

const bytesOf = (slot: number): Uint8Array => new Uint8Array(40).fill(slot + 1)

async function store(writer: Region, slots: readonly number[]): Promise<boolean> {
  const batch = writer.batch()
  for (const slot of slots) batch.persist(slot, bytesOf(slot))
  return (await batch.commit()).all
}

/** Why the call is refused. */
async function refusal(made: Promise<unknown>): Promise<string> {
  return await made.then(
    () => 'none',
    (error: unknown) => (error instanceof PerdureError ? `${error.code}: ${error.message}` : 'bug'),
  )
}

describe('S1-M10: region.onBatch', () => {
  test.each(['node', 'quickjs'] as const)(
    'S1-M10: tells of each batch, with what it has stored: %s',
    async (engine) => {
      const one = await two(engine)
      const watch = await listen(one)
      expect(await store(one.writer, [9, 4, 30])).toBe(true)
      await pass(one)
      expect(one.heard).toMatchObject([
        {
          ...{ type: 'stored', each: 'batch', records: 3, lowest: 4, highest: 30, count: 3 },
          ...{ index: null, bytes: null, clientId: 0x1234_5678_9abc_def0n, copies: 2 },
          ...{ mechanism: 'localFlush', durable: 'power', all: true, code: null },
        },
      ])
      const [heard] = one.heard
      const { sequence } = await one.region.read(30)
      expect(heard!.type === 'stored' && heard!.sequence).toBe(sequence)
      expect(sequence > watch.since).toBe(true)
    },
  )

  test('S1-M10: tells of each record, as it can be read', async () => {
    const one = await two()
    await listen(one, { each: 'record', count: 8, periodUs: 1000 })
    await store(one.writer, [5, 2])
    await pass(one)
    for (const [index, slot] of [5, 2].entries()) {
      const { sequence, operationId, clientId, data } = await one.region.read(slot)
      expect(one.heard[index]).toMatchObject({
        ...{ type: 'stored', each: 'record', records: 1, lowest: slot, highest: slot, index },
        ...{ bytes: data.length, sequence, operationId, clientId },
      })
    }
    expect(one.heard).toHaveLength(2)
  })

  test('S1-M10: a batch of which a record is refused says which code', async () => {
    const one = await two()
    await listen(one)
    const batch = one.writer.batch({ condition: 'expect' })
    const { sequence } = await one.writer.read(1)
    batch.persist(1, bytesOf(1), { expect: sequence })
    batch.persist(2, bytesOf(2), { expect: sequence + 99n })
    await batch.commit()
    await pass(one)
    expect(one.heard).toMatchObject([{ records: 1, highest: 1, all: false, code: 'CONDITION' }])
  })

  test('S1-M10: what finds no room is told as missed, and the batch is stored', async () => {
    const one = await two()
    // More at once than there is room for.
    await listen(one, { each: 'record', entries: 4 })
    expect(await store(one.writer, [...Array(32).keys()])).toBe(true)
    await pass(one)
    const stored = one.heard.filter(({ type }) => type === 'stored').length
    const missed = one.heard.flatMap((one) => (one.type === 'missed' ? [one.records] : []))
    expect(stored).toBeGreaterThanOrEqual(4)
    expect(stored + missed.reduce((sum, records) => sum + records, 0)).toBe(32)
    expect(missed.length).toBeGreaterThan(0)
  })

  test('S1-M10: ended, it tells no more; and another one may listen', async () => {
    const one = await two()
    const watch = await listen(one)
    await store(one.writer, [1])
    expect(await watch.end()).toBe(0)
    expect(await watch.end()).toBe(0)
    await store(one.writer, [2])
    await pass(one)
    expect(one.heard).toMatchObject([{ type: 'stored', highest: 1 }])
    const next = await listen(one)
    await store(one.writer, [3])
    await pass(one)
    expect(one.heard.slice(1)).toMatchObject([{ highest: 3 }])
    await next.end()
  })

  test('S1-M10: a card that goes ends it, and a later one is asked anew', async () => {
    const one = await two()
    await listen(one)
    one.machine.dpu.powerCut({ strategy: 'none' })
    await pass(one)
    expect(one.heard).toMatchObject([{ type: 'ended', error: { code: 'PERDURE_CARD_REMOVED' } }])
    await one.machine.dpu.powerOn()
    await pass(one)
    await listen(one)
    expect(await store(one.writer, [7])).toBe(true)
    await pass(one)
    expect(one.heard.slice(1)).toMatchObject([{ type: 'stored', highest: 7 }])
  })

  test('S1-M10: a queue that ends in error ends it, and the next one is told', async () => {
    const one = await two()
    const asked = vi.spyOn(one.device.control, 'batchNotices')
    await listen(one, { each: 'record', entries: 2 })
    const [, queue] = asked.mock.calls[0]!
    const { zone3 } = one.device.layout
    // A pointer that cannot be; the card reads it where it has no room.
    const pointer = zone3 + queue * ZONE3_BYTES + Z3_POINTER
    one.machine.ram.live.fill(0x70, pointer, pointer + 4)
    expect(await store(one.writer, [...Array(8).keys()])).toBe(true)
    await pass(one)
    expect(one.heard.at(-1)).toMatchObject({
      ...{ type: 'ended', error: { code: 'PERDURE_QUEUE_ENDED', fault: 'QUEUE_POINTER' } },
    })
    one.heard.length = 0
    await listen(one)
    await store(one.writer, [3])
    await pass(one)
    expect(one.heard).toMatchObject([{ type: 'stored', highest: 3 }])
  })

  test('S1-M10: a region that is removed ends it', async () => {
    const one = await two()
    const watch = await listen(one)
    await one.far.remove('r')
    await pass(one)
    expect(one.heard).toMatchObject([{ type: 'ended', error: { fault: 'NO_REGION' } }])
    expect(await watch.end()).toBe(0)
  })

  test('S1-M10: a device that is closed ends it', async () => {
    const one = await two()
    await listen(one)
    one.device.close()
    await Promise.resolve()
    expect(one.heard).toMatchObject([{ type: 'ended', error: { code: 'PERDURE_CLOSED' } }])
  })

  test('S1-M10: a connection that is closed ends it, and says nothing', async () => {
    const one = await two()
    await listen(one)
    await one.own.close()
    await store(one.writer, [1])
    await pass(one)
    expect(one.heard).toEqual([])
    const own = await connect(one.device, { seed: 6 })
    const region = await own.openRegion('r')
    await region.onBatch((notice) => void one.heard.push(notice))
    await store(one.writer, [2])
    await pass(one)
    expect(one.heard).toMatchObject([{ type: 'stored', highest: 2 }])
    await own.close()
  })
})

describe('S1-M10: who may ask', () => {
  test.each(['frames', 'behind'] as const)('S1-M10: over %s nobody is told', async (name) => {
    const way = await openWay(name)
    await way.dpu.format()
    const region = await way.dpu.provision({ name: 'r', slots: 4, capacity: 64 })
    expect(await refusal(region.onBatch(() => {}))).toContain('its own host')
    await way.close()
  })

  test('S1-M10: one listener for each region, and options that make sense', async () => {
    const one = await two()
    await listen(one)
    expect(await refusal(listen(one))).toContain('PERDURE_ARGUMENT')
    const region = await one.own.provision({ name: 's', slots: 4, capacity: 64 })
    for (const options of [{ each: 'all' }, { entries: 1 }, { count: -1 }, { periodUs: 65536 }]) {
      const made = region.onBatch(() => {}, options as BatchWatchOptions)
      expect(await refusal(made), JSON.stringify(options)).toContain('PERDURE_ARGUMENT')
    }
    expect(await refusal(region.onBatch(7 as never))).toContain('PERDURE_ARGUMENT')
    await (await region.onBatch(() => {})).end()
  })
})
