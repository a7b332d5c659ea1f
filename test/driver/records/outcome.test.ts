/**
 * What the driver says when answers are lost: never that a record is durable where it may not be,
 * never that nothing was sent where something was, and always something.
 */

import { expect, test } from 'vitest'
import { cut, images, Nvdimm, Random, VirtualClock } from '../../../boards/emulator/index.ts'
import { realTimer, realTimeUs } from '../../../host-driver/frames/udp.ts'
import {
  type ConnectOptions,
  connect,
  type Dpu,
  PerdureError,
  type Receipt,
  type Region,
  type RegionRequest,
} from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { atFence } from '../../support/cards/fences.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { localParts, passOn } from '../../support/driver/local-parts.ts'

const openPart = localParts()

interface Bench {
  readonly local: LocalDpu
  readonly dpu: Dpu
  readonly region: Region
}

async function bench(
  options: ConnectOptions = {},
  shape: Partial<RegionRequest> = {},
): Promise<Bench> {
  const local = await openPart({ bytes: 1 << 22 })
  const dpu = await connect(local.wire, { seed: 3, ...options })
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 16, capacity: 1000, ...shape })
  return { local, dpu, region }
}

/** The receipt, or the code of the error; 'HANG' if there is neither. */
function endOf<T>(promise: Promise<T>): Promise<T | string> {
  const code = (error: unknown): string =>
    error instanceof PerdureError ? error.code : String(error)
  const hang = new Promise<string>((resolve) => setTimeout(() => resolve('HANG'), 300_000).unref())
  return Promise.race([promise.catch(code), hang])
}

/** The line of copy `copy` of the record that holds these bytes. */
function lineOf(local: LocalDpu, bytes: Uint8Array, copy: number): number {
  const live = Buffer.from(local.nvdimm.live)
  let at = -1
  for (let i = 0; i <= copy; i++) at = live.indexOf(bytes, at + 1)
  return at >> 6
}

/** Loses every answer of the card while `work` is on its way. */
async function unheard<T>(local: LocalDpu, work: () => T): Promise<T> {
  local.link.script = (_, from) => (from === 'b' ? { drop: true } : undefined)
  const result = work()
  await passOn(local, 700_000)
  local.link.script = undefined
  return result
}

test('D-4: a receipt that a reconnection finds counts the copies that are whole', async () => {
  const { local, region } = await bench({ durability: '2of2' })
  await region.persist(0, dataOf(9, 1)).persisted
  local.nvdimm.refuseWrites(lineOf(local, dataOf(9, 1), 1))
  const write = await unheard(local, () => region.persist(0, dataOf(9, 3)))
  const end = await endOf<Receipt>(write.persisted)
  expect(end).not.toBe('HANG')
  if (typeof end !== 'string') expect(end.copies).toBeLessThan(2)
})

test.each([2, 3, 4])(
  'D-13: fence %i fails and nobody hears of it: the outcome is unknown, not refused',
  async (nth) => {
    const { local, region } = await bench()
    await region.persist(0, dataOf(9, 1)).persisted
    atFence(local.dpu.machine!, nth, () => {
      local.nvdimm.fencesToFail = 1
    })
    const write = await unheard(local, () => region.persist(0, dataOf(9, 3)))
    expect(await endOf(write.persisted)).toBe('PERDURE_OUTCOME_UNKNOWN')
  },
)

test('a deadline says that nothing was sent only if nothing can be sent any more', async () => {
  const { local, region } = await bench({ pathMtu: 256 }, { capacity: 65536, slots: 8 })
  local.link.script = () => ({ drop: true })
  const writes = [0, 1, 2, 3].map((slot) =>
    region.persist(slot, dataOf(65536, slot), { deadlineMs: 20 }),
  )
  const ends = await Promise.all(writes.map((write) => endOf(write.persisted)))
  local.link.script = undefined
  await passOn(local, 2_000_000)
  for (const [slot, end] of ends.entries()) {
    if (end === 'PERDURE_OUTCOME_UNKNOWN') continue
    expect(end).toBe('PERDURE_DEADLINE')
    expect((await region.read(slot)).written).toBe(false)
  }
})

test('a retry in the catch of a failed write comes to an end', async () => {
  const { local, region } = await bench({ reconnectTimeoutMs: 1000 })
  local.dpu.powerCut({ strategy: 'none' })
  let again: Promise<Receipt> | null = null
  try {
    await region.persist(0, dataOf(9, 1)).persisted
  } catch {
    again = region.persist(0, dataOf(9, 2)).persisted
  }
  expect(again).not.toBeNull()
  expect(await endOf(again!)).not.toBe('HANG')
})

test('a read between two attempts ends when the connection is closed', async () => {
  const { local, dpu, region } = await bench()
  await region.persist(0, dataOf(9, 1)).persisted
  local.nvdimm.poison(lineOf(local, dataOf(9, 1), 1))
  const read = region.readCopies(0)
  await passOn(local, 300)
  await dpu.close()
  expect(await endOf(read)).not.toBe('HANG')
})

test('close ends a reconnection too, and leaves no timer behind', async () => {
  const { local, dpu, region } = await bench({ ackTimeoutCode: 22 })
  await region.persist(0, dataOf(9, 1)).persisted
  local.link.script = (frame, from) =>
    from === 'a' && (frame[42] === 0xca || frame[42] === 0x0c) ? { drop: true } : undefined
  void region.persist(0, dataOf(9, 2))
  const reconnection = endOf(dpu.reconnect())
  await passOn(local, 10_000)
  await dpu.close()
  const closedUs = local.clock.nowUs
  expect(await reconnection).not.toBe('HANG')
  expect(local.clock.nowUs - closedUs).toBeLessThan(200_000)
})

test('numbers that the wire cannot carry are refused before they are sent', async () => {
  const { dpu } = await bench()
  const wrapped = dpu.provision({ name: 'x', slots: 2 ** 32 + 4, capacity: 64 })
  expect(await endOf(wrapped)).toBe('PERDURE_ARGUMENT')
})

test('a timer beyond what Node can wait does not fire at once', async () => {
  let fired = 0
  const far = [realTimeUs() + 30 * 86_400e6, Infinity].map((atUs) => realTimer(atUs, () => fired++))
  await new Promise((resolve) => setTimeout(resolve, 50))
  for (const cancel of far) cancel()
  expect(fired).toBe(0)
})

test('a store that changes nothing and is not fenced heals no media error', () => {
  const part = new Nvdimm({ bytes: 4096 })
  part.poison(5)
  part.clearPoison(5 * 64, 64)
  part.store(5 * 64, new Uint8Array(64), 0, 64)
  const seen: boolean[] = []
  images(part, 'chunk', () => seen.push(part.isPoisoned(5)))
  expect(seen).toContain(true)
  cut(part, { random: new Random(1), strategy: 'none' })
  expect(part.isPoisoned(5)).toBe(true)
})

test('a healed line is noted as healed behind its content, not before', () => {
  const noted: string[] = []
  const part = new Nvdimm({
    bytes: 4096,
    condition: { dirtyShutdowns: 0, saveFailed: false, poisonedLines: [5] },
    backing: {
      write(): void {
        noted.push('content')
        throw new Error('no room')
      },
      note: ({ poisonedLines }) => noted.push(`poisoned ${poisonedLines.join()}`),
      close(): void {},
    },
  })
  part.clearPoison(320, 64)
  part.store(320, new Uint8Array(64).fill(7), 0, 64)
  part.clean(320, 64)
  part.fence()
  expect(new Set(noted)).toEqual(new Set(['content']))
})

test('virtual time does not run past its end when the next event was cancelled', () => {
  const clock = new VirtualClock()
  const cancelled = clock.schedule(10, () => {})
  let ran = false
  clock.schedule(1e9, () => {
    ran = true
  })
  clock.cancel(cancelled)
  clock.runUntil(100)
  expect([ran, clock.nowUs]).toEqual([false, 100])
})
