/**
 * Pair regions by the driver: the copies are ours to write, over every way; what a cut leaves of
 * them the DPU makes equal (S1-M2).
 */

import { afterEach, describe, expect, test } from 'vitest'
import { STAGING_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import {
  connect,
  PerdureError,
  RefusedError,
  type Region,
  type Wire,
} from '../../../host-driver/index.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { type OpenWay, openWay, WAYS } from '../../support/driver/ways.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'

/** Where a frame over IPv4 has its opcode, and that of a WRITE of several packets. */
const OPCODE_AT = 42
const WRITE_FIRST = 6

const SEED = Number(process.env.SEED ?? 78)
const ways: OpenWay[] = []

afterEach(async () => {
  for (const way of ways.splice(0)) await way.close()
})

async function opened(name: (typeof WAYS)[number], copies: number): Promise<[OpenWay, Region]> {
  const way = await openWay(name)
  ways.push(way)
  await way.dpu.format()
  const shape = { name: 'pairs', slots: 8, capacity: 1000, copies, pair: true }
  return [way, await way.dpu.provision(shape)]
}

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work()
    return 'done'
  } catch (error) {
    if (error instanceof RefusedError) return error.fault
    return error instanceof PerdureError ? error.code : String(error)
  }
}

describe.each(WAYS)('S1-M2: over %s', (name) => {
  test.each([2, 3, 4])('%i copies are written, read, and outlast a cut', async (copies) => {
    const [way, region] = await opened(name, copies)
    expect(region.info).toMatchObject({ pair: true, takesGuards: false })
    for (const seed of [1, 2]) {
      const { sequence, outcomes } = await region.writeCopies(3, dataOf(700, seed))
      expect(sequence).toBe(BigInt(seed))
      expect(outcomes).toHaveLength(2 * copies)
    }
    await way.restart()
    await way.dpu.reconnect()
    const found = await region.readCopies(3)
    expect(found).toMatchObject({ settled: true, chosen: 0, record: { data: dataOf(700, 2) } })
    expect(found.copies).toHaveLength(copies)
    expect(await region.read(3)).toMatchObject({ data: dataOf(700, 2), sequence: 2n })
  })

  test('what one copy has alone is in all of them after a restart', async () => {
    const [way, region] = await opened(name, 3)
    await region.writeCopies(1, dataOf(100, 1))
    // The client ends behind the first copy.
    const { verbs } = await firstCopyAlone(region, dataOf(100, 2))
    expect(verbs).toBe(2)
    expect((await region.readCopies(1)).settled).toBe(false)
    await way.restart()
    await way.dpu.reconnect()
    await way.pass(100_000)
    const found = await region.readCopies(1)
    expect(found).toMatchObject({ settled: true, record: { data: dataOf(100, 2) } })
  })
})

/** Writes a record, and lets nothing but WRITE A and FLUSH A leave. */
async function firstCopyAlone(region: Region, data: Uint8Array): Promise<{ verbs: number }> {
  const { connection } = region as unknown as {
    connection: { enqueueChain(chain: { verbs: unknown[] }): void }
  }
  const enqueue = connection.enqueueChain.bind(connection)
  let verbs = 0
  let first: Promise<unknown> = Promise.resolve()
  connection.enqueueChain = (chain) => {
    if (chain.verbs.length < 6) {
      enqueue(chain)
      return
    }
    chain.verbs.length = 2
    verbs = 2
    first = Promise.resolve(enqueue(chain))
  }
  void region.writeCopies(1, data).catch(() => {})
  while (verbs === 0) await new Promise((resolve) => setImmediate(resolve))
  connection.enqueueChain = enqueue
  await first
  // A READ behind them is answered when they are done.
  await region.readCopies(1)
  return { verbs }
}

test('S1-M2: records are persisted into other regions, and copies written into pairs', async () => {
  const [way, region] = await opened('frames', 2)
  const other = await way.dpu.provision({ name: 'orders', slots: 8, capacity: 1000 })
  const data = dataOf(8, 1)
  for (const work of [
    () => region.persist(1, data),
    () => region.batch(),
    () => region.write(1, data),
    () => other.writeCopies(1, data),
    () => region.writeCopies(8, data),
    () => region.writeCopies(1, dataOf(1001, 1)),
    () => region.writeCopies(1, data, { sequence: 0n }),
  ]) {
    expect(await codeOf(work)).toBe('PERDURE_ARGUMENT')
  }
  const shape = { name: 'more', slots: 8, capacity: 8, pair: true }
  expect(await codeOf(() => way.dpu.provision({ ...shape, fixedLength: true }))).toBe('REQUEST')
  expect(await codeOf(() => way.dpu.provision({ ...shape, placement: 'bypass' }))).toBe('REQUEST')
})

/** Another client's wire breaks behind the first packet of its WRITE A into record 3. */
async function brokenInside(way: OpenWay): Promise<() => Promise<void>> {
  const wire = way.room.addHost()
  let isCut = false
  let cut = (): void => {}
  const behindIt = new Promise<void>((resolve) => {
    cut = resolve
  })
  const send = (frame: Uint8Array): void => {
    if (isCut) return
    wire.send(frame)
    isCut = frame[OPCODE_AT] === WRITE_FIRST
    if (isCut) cut()
  }
  const broken: Wire = {
    send,
    onFrame: (callback) => wire.onFrame(callback),
    now: () => wire.now(),
    setTimer: (atUs, callback) => wire.setTimer(atUs, callback),
    close: () => wire.close(),
  }
  const asked = { seed: SEED, peer: endpointOf(2), pathMtu: 256, reconnect: false } as const
  const other = await connect(broken, asked)
  const lost = (await other.openRegion('pairs')).writeCopies(3, dataOf(1000, 2)).catch(() => {})
  await behindIt
  await way.pass(1000)
  return async () => {
    await other.close()
    await lost
  }
}

describe('S1-M2: a client falls silent in the midst of a copy', () => {
  test('a scan tells that, and checks the record when that is over', async () => {
    const [way, region] = await opened('frames', 2)
    await region.writeCopies(3, dataOf(1000, 1))
    const close = await brokenInside(way)
    const none = { lost: 0, unsettled: 0 }
    expect(await way.dpu.scan('pairs')).toMatchObject({ checked: 7, underWay: 1, ...none })
    await way.pass(STAGING_TIMEOUT_US + 1_000_000)
    // Nobody has spoken to the card meanwhile.
    expect(await way.dpu.scan('pairs')).toMatchObject({ checked: 8, underWay: 0, ...none })
    const found = await region.readCopies(3)
    expect(found).toMatchObject({ settled: true, record: { data: dataOf(1000, 1) } })
    await close()
  })

  test('and others wait for it, and not for ever', async () => {
    const [way, region] = await opened('frames', 2)
    await region.writeCopies(3, dataOf(1000, 1))
    const close = await brokenInside(way)
    await region.writeCopies(3, dataOf(1000, 3))
    const found = await region.readCopies(3)
    expect(found).toMatchObject({ settled: true, record: { data: dataOf(1000, 3) } })
    await close()
  })
})

test('S1-M2: another DPU offers no pair region: copies are written where they lie', async () => {
  const network = new Network({ seed: SEED })
  for (const number of [2, 3]) await network.addDpu(number, { engine: 'node' })
  network.clock.start()
  const there = await connect(network.addHost(), { seed: SEED + 1, peer: endpointOf(3) })
  await there.format()
  await there.provision({ name: 'pairs', slots: 8, capacity: 64, pair: true })
  await there.publish({ name: 'pairs', port: 7471, form: 'capability' })
  const here = await connect(network.addHost(), { seed: SEED, peer: endpointOf(2) })
  await here.format()
  const attachment = { name: 'pairs', address: '10.0.0.3', port: 7471 }
  expect(await codeOf(() => here.attach(attachment))).toBe('ATTACH_FAILED')
  await here.close()
  await there.close()
  network.clock.stop()
})
