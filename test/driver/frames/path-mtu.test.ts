/**
 * A path that carries less than both ends would: the driver finds a size that comes through, or
 * says which did not (R31-4).
 */

import { describe, expect, test } from 'vitest'
import type { Wire } from '../../../host-driver/base/wire.ts'
import { type ConnectOptions, connect, type Dpu } from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { localParts } from '../../support/driver/local-parts.ts'

const openPart = localParts()

/** Bytes of Ethernet that come through: to the card, from it. */
interface Path {
  there: number
  back: number
  /** What did not get there, where that is kept. */
  lost?: Uint8Array[]
}

const ALL: Path = { there: Infinity, back: Infinity }

function narrow(wire: Wire, path: Path): Wire {
  return {
    ...wire,
    send: (frame) => {
      if (frame.length <= path.there) wire.send(frame)
      else path.lost?.push(Uint8Array.from(frame))
    },
    onFrame: (callback) => {
      wire.onFrame((frame) => {
        if (frame.length <= path.back) callback(frame)
      })
    },
  }
}

interface Rig {
  readonly local: LocalDpu
  readonly dpu: Dpu
  readonly path: Path
  /** What the driver warned of. */
  readonly said: string[]
}

/** A card with records of 8192 bytes and plain bytes, reached by a path that carries everything. */
async function rig(options: ConnectOptions = {}): Promise<Rig> {
  const local = await openPart({ bytes: 1 << 20, seed: 1 })
  const path = { ...ALL }
  const said: string[] = []
  const dpu = await connect(narrow(local.wire, path), {
    ...{ seed: 1, warn: (text: string) => said.push(text) },
    ...options,
  })
  await dpu.format()
  await dpu.provision({ name: 'records', slots: 8, capacity: 8192 })
  await dpu.provisionBytes({ name: 'bytes', length: 65536 })
  return { local, dpu, path, said }
}

const DATA = Uint8Array.from({ length: 8000 }, (_, i) => (i * 7 + (i >> 8)) & 0xff)

const PATHS: readonly (readonly [string, Path, number])[] = [
  ['Ethernet, there', { there: 1514, back: Infinity }, 1024],
  ['Ethernet, back', { there: Infinity, back: 1514 }, 1024],
  ['Ethernet, both ways', { there: 1514, back: 1514 }, 1024],
  ['576 bytes, both ways', { there: 590, back: 590 }, 256],
]

describe('R31-4: a path that is narrow from the start', () => {
  for (const [name, limits, size] of PATHS) {
    test(`${name}: a record is persisted, and read back`, async () => {
      const { dpu, path, said } = await rig()
      Object.assign(path, limits)
      const records = await dpu.openRegion('records')
      await records.persist(1, DATA).persisted
      expect((await records.read(1)).data).toEqual(DATA)
      expect(dpu.pathMtu).toBe(size)
      expect(said.at(-1)).toContain(`packets have ${size} bytes from now on`)
      const told = said.length
      for (let i = 0; i < 8; i++) await records.persist(i, DATA).persisted
      expect(said).toHaveLength(told)
      await dpu.close()
    })

    test(`${name}: bytes are written and read, when it is found`, async () => {
      const { dpu, path } = await rig()
      Object.assign(path, limits)
      const bytes = await dpu.openBytes('bytes')
      let failures = 0
      const tried = async <T>(work: () => Promise<T>): Promise<T> => {
        for (;;) {
          const [result] = await Promise.allSettled([work()])
          if (result!.status === 'fulfilled') return result.value
          failures++
        }
      }
      await tried(() => bytes.write(0, DATA))
      expect(await tried(() => bytes.read(0, DATA.length))).toEqual(DATA)
      // A request of its own is never sent twice: two that fail tell that a size does not pass.
      expect(failures).toBeLessThanOrEqual(4)
      await dpu.close()
    })
  }

  test('a batch goes through, too', async () => {
    const { dpu, path } = await rig()
    Object.assign(path, { there: 1514, back: 1514 })
    const records = await dpu.openRegion('records')
    const batch = records.batch({ condition: 'inOrder' })
    for (let slot = 0; slot < 8; slot++) batch.persist(slot, DATA)
    const { records: ends } = await batch.commit()
    expect(ends.map(({ status }) => status)).toEqual(new Array(8).fill('durable'))
    expect(dpu.pathMtu).toBe(1024)
    await dpu.close()
  })
})

test('R31-4: a path that becomes narrow later is found out as well', async () => {
  const { dpu, path } = await rig()
  const records = await dpu.openRegion('records')
  for (let i = 0; i < 8; i++) await records.persist(i, DATA).persisted
  expect(dpu.pathMtu).toBe(4096)
  path.there = 1514
  for (let i = 0; i < 8; i++) await records.persist(i, DATA).persisted
  expect(dpu.pathMtu).toBe(1024)
  await dpu.close()
})

test('R31-4: a size that was said is kept, and the option is named', async () => {
  const { dpu, path, said } = await rig({ pathMtu: 2048, reconnectTimeoutMs: 10_000 })
  path.there = 1514
  const records = await dpu.openRegion('records')
  await expect(records.persist(1, DATA).persisted).rejects.toThrow()
  const told = said.filter((text) => text.includes('give pathMtu 1024 (--path-mtu)'))
  expect(told).toEqual([expect.stringContaining('no packet of 2048 bytes came through')])
  await dpu.close()
})

test.each([true, false])(
  'what a broken connection had on its way has no effect later; by itself %s',
  async (reconnect) => {
    const { local, dpu, path } = await rig({ reconnect })
    const bytes = await dpu.openBytes('bytes')
    path.lost = []
    path.there = 0
    await expect(bytes.write(0, Buffer.from('older'))).rejects.toThrow()
    const late = path.lost
    Object.assign(path, ALL)
    if (!reconnect) await dpu.reconnect()
    await bytes.write(0, Buffer.from('newer'))
    expect(late.length).toBeGreaterThan(1)
    for (const frame of late) local.wire.send(frame)
    await dpu.status()
    expect(Buffer.from(await bytes.read(0, 5)).toString()).toBe('newer')
    await dpu.close()
  },
)

describe('R31-4: nothing is concluded', () => {
  test('from a card that is silent for long: what is large passes before and after', async () => {
    const { local, dpu, path, said } = await rig()
    const before = said.length
    const records = await dpu.openRegion('records')
    const { clock } = local
    for (let i = 0; i < 4; i++) {
      const { connections } = dpu.statistics()
      path.there = 0
      clock.schedule(clock.nowUs + 900_000, () => {
        path.there = Infinity
      })
      await records.persist(i, DATA).persisted
      expect(dpu.statistics().connections).toBeGreaterThan(connections)
    }
    expect([dpu.pathMtu, said.length]).toEqual([4096, before])
    await dpu.close()
  })

  test('from a card that loses its power under large packets', async () => {
    const { local, dpu, said } = await rig()
    const before = said.length
    const records = await dpu.openRegion('records')
    for (let i = 0; i < 4; i++) {
      const write = records.persist(i, DATA)
      local.dpu.powerCut({ strategy: 'none' })
      await local.dpu.powerOn()
      await write.persisted
    }
    expect([dpu.pathMtu, said.length]).toEqual([4096, before])
    await dpu.close()
  })
})
