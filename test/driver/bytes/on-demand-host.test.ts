/**
 * Memory of a host that is registered on demand, from end to end: another host reads and writes it
 * with plain verbs, and knows nothing of pages. Whatever the first host takes away, and whenever,
 * costs time and nothing else.
 */

import { describe, expect, test } from 'vitest'
import { type Engine, Random } from '../../../boards/emulator/index.ts'
import type { PagedMemory } from '../../../boards/host-port.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { RC_READ_RESPONSE_ONLY } from '../../../firmware/wire/opcode.ts'
import { RefusedError } from '../../../host-driver/base/errors.ts'
import type { Wire } from '../../../host-driver/base/wire.ts'
import type { BytesRegion } from '../../../host-driver/bytes/bytes-region.ts'
import { connect } from '../../../host-driver/connect.ts'
import { openDevice } from '../../support/peers/hosts.ts'
import { endpointOf } from '../../support/peers/network.ts'
import {
  difference,
  OnDemandRig,
  type OnDemandRigOptions,
} from '../../support/residency/on-demand-rig.ts'
import { divided } from '../../support/run/thorough.ts'

/** In a frame of IPv4. */
const BTH_OPCODE_AT = 42

interface Traffic {
  readonly memory: BytesRegion
  readonly random: Random
  readonly model: Uint8Array
  /** Stays inside of [at, at + bytes). */
  readonly at: number
  readonly bytes: number
  readonly requests: number
  /** Longest request, bytes. */
  readonly most: number
}

/** Reads and writes at random, several requests at once; everything read is what was written. */
async function run({ memory, random, model, at, bytes, requests, most }: Traffic): Promise<void> {
  const open: Promise<void>[] = []
  for (let i = 0; i < requests; i++) {
    const length = 1 + random.below(Math.min(most, bytes))
    const offset = at + random.below(bytes - length + 1)
    const work = one({ memory, random, model }, offset, length)
    // The first that fails is enough; the others fail with it.
    work.catch(() => {})
    open.push(work)
    if (open.length === 8) await open.shift()
  }
  await Promise.all(open)
}

async function one(
  { memory, random, model }: Pick<Traffic, 'memory' | 'random' | 'model'>,
  offset: number,
  length: number,
): Promise<void> {
  if (random.chance(0.5)) {
    const data = new Uint8Array(length)
    random.fill(data, 0, length)
    model.set(data, offset)
    await memory.write(offset, data)
  } else {
    const expected = model.slice(offset, offset + length)
    compare(await memory.read(offset, length), expected, offset)
  }
}

function compare(got: Uint8Array, expected: Uint8Array, offset: number): void {
  const wrong = got.findIndex((byte, i) => byte !== expected[i])
  if (wrong < 0 && got.length === expected.length) return
  throw new Error(`byte ${offset + wrong} is ${got[wrong]}, not ${expected[wrong]}`)
}

/** Takes a page away every so often, whatever it is used for; returns what ends that. */
function storm(rig: OnDemandRig, random: Random, everyUs: number): () => void {
  let ends = false
  const strike = (): void => {
    if (ends) return
    rig.pager.evict(random.below(rig.pager.pages))
    rig.clock.schedule(rig.clock.nowUs + 1 + random.below(2 * everyUs), strike)
  }
  strike()
  return () => {
    ends = true
  }
}

async function use(
  options: OnDemandRigOptions,
  story: (rig: OnDemandRig) => Promise<void>,
): Promise<void> {
  const rig = await OnDemandRig.open(options)
  try {
    await story(rig)
  } finally {
    await rig.close()
  }
}

/** The CPU of the machine finds what the remote host has written. */
async function compareAtHome(rig: OnDemandRig, model: Uint8Array): Promise<void> {
  compare(await rig.pager.load(0, model.length), model, 0)
  expect(rig.machine.link.counts.refused).toBe(0)
}

describe('a working set twice the frames, without any notice (P5-28, X-6)', () => {
  test.each<[Engine, number, number]>([
    ['node', 128, 400],
    ['quickjs', 64, 80],
  ])('P5-28 X-6: what is read is what was written; %s', async (engine, pages, requests) => {
    await use({ engine, pages, frames: pages / 2, seed: 3 }, async (rig) => {
      const model = new Uint8Array(pages * PAGE_BYTES)
      const random = new Random(11)
      const { memory } = rig
      const traffic = { memory, random, model, at: 0, bytes: model.length, most: 20_000 }
      const before = await rig.counters()
      await run({ ...traffic, requests })
      const { faults, majorFaults, rnrs, evictions } = difference(await rig.counters(), before)
      expect(rnrs).toBeGreaterThan(requests / 10)
      expect(faults).toBeGreaterThan(pages)
      expect(majorFaults).toBeGreaterThan(0)
      expect(evictions).toBeGreaterThan(0)
      await compareAtHome(rig, model)
    })
  })

  test('X-6: an access to a page that is away takes longer, and is answered', async () => {
    await use({ pages: 8, frames: 8 }, async (rig) => {
      const { memory, clock } = rig
      const time = async (): Promise<number> => {
        const begin = clock.nowUs
        await memory.read(0, 64)
        return clock.nowUs - begin
      }
      await memory.write(0, new Uint8Array(64).fill(1))
      const there = await time()
      rig.pager.evict(0)
      await rig.pass(1000)
      const away = await time()
      expect(there).toBeLessThan(20)
      // The drive takes 80 µs, and the requester waits for the 320 µs of the RNR NAK.
      expect(away).toBeGreaterThan(320)
      expect(away).toBeLessThan(500)
    })
  })
})

describe('few frames', () => {
  test('P5-28: requests that take the pages from one another are all served', async () => {
    const pages = 512
    await use({ pages, frames: 17, seed: 5 }, async (rig) => {
      const random = new Random(4)
      const readers = [rig.memory]
      for (let i = 0; i < 3; i++) readers.push(await (await rig.connect()).openBytes('heap'))
      const reads = readers.map(async (memory) => {
        for (let i = 0; i < 12; i++) {
          const offset = random.below(pages * PAGE_BYTES - 60_000)
          expect((await memory.read(offset, 60_000)).every((byte) => byte === 0)).toBe(true)
        }
        return true
      })
      const late = rig.pass(2_000_000).then(() => [false])
      expect(await Promise.race([Promise.all(reads), late])).not.toContain(false)
    })
  })
})

describe('a slow drive', () => {
  test('X-6: a long READ that pauses for a page for very long is told to wait', async () => {
    const pages = 40
    await use({ pages, frames: 20, readUs: 700_000 }, async (rig) => {
      const data = new Uint8Array(pages * PAGE_BYTES)
      new Random(3).fill(data, 0, data.length)
      await rig.memory.write(0, data)
      compare(await rig.memory.read(0, data.length), data, 0)
    })
  })
})

describe('hints without end', () => {
  test('P5-25 X-6: of one requester keep no access of another waiting', async () => {
    const pages = 512
    await use({ pages, frames: 20, seed: 5 }, async (rig) => {
      const random = new Random(4)
      const greedy = await (await rig.connect()).openBytes('heap')
      let ends = false
      const storm = async (): Promise<void> => {
        while (!ends) {
          await greedy.prefetch({ offset: 0, length: pages * PAGE_BYTES })
          await rig.pass(20)
        }
      }
      const storms = [storm(), storm()]
      await rig.pass(5000)
      for (let i = 0; i < 20; i++) {
        const begin = rig.clock.nowUs
        const offset = random.below(pages * PAGE_BYTES - 60_000)
        const reading = rig.memory.read(offset, 60_000)
        const inTime = await Promise.race([reading, rig.pass(20_000).then(() => null)])
        expect(inTime, `read ${i}`).not.toBe(null)
        expect(rig.clock.nowUs - begin).toBeLessThan(5000)
      }
      ends = true
      await Promise.all(storms)
    })
  })
})

describe('pages come and go', () => {
  test('P5-19 P5-27: the card has a page exactly while the host has it', async () => {
    await use({ pages: 4, frames: 4, region: { base: 0x12_3456_7000n } }, async (rig) => {
      const { memory, pager, region } = rig
      expect(memory.info).toMatchObject({ kind: 'memory', base: 0x12_3456_7000n })
      const rnrs = async (page: number): Promise<number> => {
        const before = await rig.counters()
        await memory.read(page * PAGE_BYTES, 8)
        return difference(await rig.counters(), before).rnrs
      }
      expect([await rnrs(0), await rnrs(0), await rnrs(2)]).toEqual([1, 0, 1])
      expect(region.mappedPages).toBe(2)
      pager.evict(2)
      await rig.pass(1000)
      expect([pager.stateOf(0), pager.stateOf(2)]).toEqual(['present', 'absent'])
      expect(region.mappedPages).toBe(1)
      expect([await rnrs(0), await rnrs(2)]).toEqual([0, 1])
    })
  })

  for (const { rows, options } of divided([1, 2, 3], (seed) => seed > 1)) {
    test.each(rows)(
      'P5-27 P5-28: a storm of unmaps hurts no byte; seed %i',
      options,
      async (seed) => {
        await use({ pages: 40, frames: 32, seed }, async (rig) => {
          const model = new Uint8Array(40 * PAGE_BYTES)
          const random = new Random(seed)
          const end = storm(rig, random.fork(), 20)
          const traffic = { memory: rig.memory, random, model, at: 0, bytes: model.length }
          await run({ ...traffic, requests: 150, most: 12_000 })
          end()
          expect(rig.pager.counts.unmapped).toBeGreaterThan(100)
          await compareAtHome(rig, model)
        })
      },
    )
  }

  test.each([1, 2, 3])(
    'P5-28 X-6: nor where frames are lost and repeated; seed %i',
    async (seed) => {
      const faults = { loss: 0.01, duplication: 0.02, reordering: 0.02 }
      await use({ pages: 40, frames: 24, seed, faults }, async (rig) => {
        const model = new Uint8Array(40 * PAGE_BYTES)
        const random = new Random(seed)
        const end = storm(rig, random.fork(), 100)
        const traffic = { memory: rig.memory, random, model, at: 0, bytes: model.length }
        await run({ ...traffic, requests: 80, most: 9000 })
        end()
        await compareAtHome(rig, model)
      })
    },
  )

  test.each([1, 2])('P5-27: nor where doorbells are lost, torn and late; seed %i', async (seed) => {
    await use({ pages: 24, frames: 18, seed }, async (rig) => {
      const random = new Random(seed)
      rig.machine.port.chances = { random: random.fork(), lost: 0.05, twice: 0.05, late: 0.1 }
      const model = new Uint8Array(24 * PAGE_BYTES)
      const end = storm(rig, random.fork(), 60)
      const traffic = { memory: rig.memory, random, model, at: 0, bytes: model.length }
      await run({ ...traffic, requests: 80, most: 9000 })
      end()
      await compareAtHome(rig, model)
    })
  })

  test('long requests go through few frames', async () => {
    await use({ pages: 128, frames: 20 }, async (rig) => {
      const data = new Uint8Array(128 * PAGE_BYTES)
      new Random(5).fill(data, 0, data.length)
      await rig.memory.write(0, data)
      compare(await rig.memory.read(0, data.length), data, 0)
      await compareAtHome(rig, data)
    })
  })

  for (const { rows, options } of divided([1, 2], (seed) => seed > 1)) {
    test.each(rows)('P5-28: long requests get through a storm; seed %i', options, async (seed) => {
      await use({ pages: 128, frames: 40, seed }, async (rig) => {
        const model = new Uint8Array(128 * PAGE_BYTES)
        const random = new Random(seed)
        const end = storm(rig, random.fork(), 100)
        const traffic = { memory: rig.memory, random, model, at: 0, bytes: model.length }
        await run({ ...traffic, requests: 16, most: 300_000 })
        end()
        await compareAtHome(rig, model)
      })
    })
  }

  test('the queues of another machine’s card reach the memory as frames do', async () => {
    await use({ pages: 40, frames: 20 }, async (rig) => {
      const machine = await rig.room.addMachine(3)
      const device = await openDevice(machine, { seed: 8 })
      await device.management.format(new Uint8Array(16).fill(8))
      const dpu = await connect(device, { seed: 5, peer: endpointOf(rig.machine.last) })
      const memory = await dpu.openBytes('heap')
      const data = new Uint8Array(40 * PAGE_BYTES)
      new Random(6).fill(data, 0, data.length)
      await memory.write(0, data)
      compare(await memory.read(0, data.length), data, 0)
      await compareAtHome(rig, data)
      await dpu.close()
      device.close()
    })
  })

  test('two remote hosts and the CPU of the machine share the memory', async () => {
    await use({ pages: 60, frames: 40 }, async (rig) => {
      const model = new Uint8Array(60 * PAGE_BYTES)
      const bytes = 20 * PAGE_BYTES
      const other = await (await rig.connect()).openBytes('heap')
      const cpu = async (): Promise<void> => {
        const random = new Random(3)
        for (let i = 0; i < 60; i++) {
          const at = 2 * bytes + random.below(bytes - 100)
          const data = new Uint8Array(100)
          random.fill(data, 0, 100)
          model.set(data, at)
          await rig.pager.store(at, data)
          await rig.pass(random.below(100))
        }
      }
      const rest = { model, bytes, requests: 60, most: 9000 }
      await Promise.all([
        run({ memory: rig.memory, random: new Random(1), at: 0, ...rest }),
        run({ memory: other, random: new Random(2), at: bytes, ...rest }),
        cpu(),
      ])
      compare(await other.read(0, model.length), model, 0)
      await compareAtHome(rig, model)
    })
  })
})

describe('requests that come again', () => {
  test('X-6: a READ whose answer was lost, and whose page is gone, is told to wait', async () => {
    await use({ pages: 4, frames: 4 }, async (rig) => {
      const wire = rig.room.addHost()
      let loses = false
      const lossy: Wire = {
        ...wire,
        onFrame: (callback) =>
          wire.onFrame((frame) => {
            if (loses && frame[BTH_OPCODE_AT] === RC_READ_RESPONSE_ONLY) {
              loses = false
              rig.pager.evict(0)
            } else {
              callback(frame)
            }
          }),
      }
      const as = { clientId: 99n, firstOperation: 1n }
      const options = { own: endpointOf(99), peer: endpointOf(rig.machine.last), ...as }
      const dpu = await connect(lossy, options)
      const memory = await dpu.openBytes('heap')
      await memory.write(0, Uint8Array.of(1, 2, 3))
      const before = await rig.counters()
      loses = true
      expect(await memory.read(0, 3)).toEqual(Uint8Array.of(1, 2, 3))
      const { rnrs, timeUs } = difference(await rig.counters(), before)
      expect(rnrs).toBe(1)
      // It asked again after 67 ms, and the page came; asking twice takes 134.
      expect(timeUs).toBeLessThan(100_000)
      await dpu.close()
    })
  })

  test('P5-21 P5-25: a hint brings the pages that it names, and no other', async () => {
    await use({ pages: 32, frames: 32, region: { base: 0x7000n } }, async (rig) => {
      const { memory, pager } = rig
      await memory.prefetch({ offset: 2 * PAGE_BYTES, length: 20 * PAGE_BYTES })
      await rig.pass(1000)
      const present = Array.from({ length: 32 }, (_, page) => page).filter(
        (page) => pager.stateOf(page) === 'present',
      )
      expect(present).toEqual(Array.from({ length: 20 }, (_, i) => 2 + i))
      const before = await rig.counters()
      await memory.read(2 * PAGE_BYTES, 20 * PAGE_BYTES)
      expect(difference(await rig.counters(), before)).toMatchObject({ rnrs: 0, faults: 0 })
    })
  })

  test('P5-25: no hint is forgotten because many come at once', async () => {
    await use({ pages: 64, frames: 64 }, async (rig) => {
      const { memory, pager } = rig
      const pages = Array.from({ length: 32 }, (_, i) => 2 * i)
      const hinted = pages.map((page) => {
        return memory.prefetch({ offset: page * PAGE_BYTES, length: PAGE_BYTES })
      })
      await Promise.all(hinted)
      await rig.pass(1000)
      for (const page of pages) expect(pager.stateOf(page)).toBe('present')
    })
  })

  test('P5-25: a hint brings all of its pages, however they are strewn', async () => {
    await use({ pages: 128, frames: 160 }, async (rig) => {
      const { memory, pager } = rig
      const all = { offset: 0, length: 128 * PAGE_BYTES }
      for (let page = 1; page < 128; page += 2) await memory.read(page * PAGE_BYTES, 1)
      await memory.watch({ blockBytes: all.length })
      const began = rig.clock.nowUs
      await memory.ready(all, { timeoutMs: 100 })
      // Less than the time after which a hint is given again.
      expect(rig.clock.nowUs - began).toBeLessThan(1000)
      for (let page = 0; page < 128; page++) expect(pager.stateOf(page)).toBe('present')
    })
  })
})

describe('what ends', () => {
  test('a page that is lost puts the region into error, until it is stored again', async () => {
    await use({ pages: 4, frames: 4 }, async (rig) => {
      const { memory, pager, swap } = rig
      await memory.write(0, new Uint8Array(2 * PAGE_BYTES).fill(1))
      pager.evict(0)
      await rig.pass(1000)
      swap.script = ({ kind }) => (kind === 'read' ? 'error' : undefined)
      const failed = await memory.read(0, 8).catch((error: unknown) => error)
      expect(failed).toMatchObject({ code: 'PERDURE_TRANSPORT' })
      expect(rig.region.state).toBe('error')
      await expect(pager.load(0, 8)).rejects.toMatchObject({ code: 'PAGE_LOST', page: 0 })
      await pager.store(0, new Uint8Array(PAGE_BYTES).fill(2))
      await rig.pass(1000)
      expect(rig.region.state).toBe('ready')
      await rig.dpu.reconnect()
      expect(await memory.read(PAGE_BYTES - 1, 2)).toEqual(Uint8Array.of(2, 1))
    })
  })

  test('a region that has ended is no region any more, and its frames are the host’s', async () => {
    await use({ pages: 4, frames: 4 }, async (rig) => {
      const { memory, pager, region, dpu } = rig
      await memory.write(0, new Uint8Array(8).fill(1))
      const at = pager.addressOf(0)
      await region.end()
      expect(region.state).toBe('ended')
      await expect(memory.read(0, 8)).rejects.toMatchObject({ code: 'PERDURE_TRANSPORT' })
      await expect(dpu.openBytes('heap')).rejects.toMatchObject({ fault: 'NO_REGION' })
      await dpu.reconnect()
      await expect(memory.read(0, 8)).rejects.toMatchObject({ fault: 'NO_REGION' })
      expect(rig.machine.ram.windows.reach(at, PAGE_BYTES)).toBe(false)
      const again = await rig.device.registerOnDemand({ name: 'pile', memory: pager })
      const pile = await dpu.openBytes('pile')
      expect(await pile.read(0, 8)).toEqual(new Uint8Array(8).fill(1))
      await again.end()
      // Whoever had opened the region before has it again.
      await rig.device.registerOnDemand({ name: 'heap', memory: pager })
      await dpu.openBytes('heap')
      expect(await memory.read(0, 8)).toEqual(new Uint8Array(8).fill(1))
    })
  })

  test('only what a card can take is registered, and once', async () => {
    await use({ pages: 4, frames: 4 }, async ({ device, pager, region }) => {
      const memory = pager
      const twice = device.registerOnDemand({ name: 'heap', memory })
      await expect(twice).rejects.toThrow('the memory has a user')
      await region.end()
      const bad = [{ name: '' }, { name: 'a', domain: -1 }, { name: 'a', base: 7n }]
      for (const options of bad) {
        const refused = device.registerOnDemand({ memory, ...options })
        await expect(refused).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
      }
      const small = { bytes: 2 ** 20, pageBytes: PAGE_BYTES, room: 16 } as PagedMemory
      const narrow = device.registerOnDemand({ name: 'a', memory: small })
      await expect(narrow).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
      const sizes = { bytes: { value: 2 ** 40 }, room: { value: 2 ** 28 } }
      const huge = Object.create(memory, sizes) as PagedMemory
      const full = device.registerOnDemand({ name: 'a', memory: huge })
      await expect(full).rejects.toBeInstanceOf(RefusedError)
      await device.registerOnDemand({ name: 'a', memory, access: 'read' })
    })
  })

  test('memory for reading takes no writes', async () => {
    await use({ pages: 4, frames: 4, region: { access: 'read' } }, async ({ memory }) => {
      expect(await memory.read(0, 4)).toEqual(new Uint8Array(4))
      const refused = memory.write(0, new Uint8Array(4))
      await expect(refused).rejects.toMatchObject({ code: 'PERDURE_TRANSPORT' })
    })
  })
})

describe('a card that goes and comes', () => {
  test('P5-28: its power: the memory is the host’s, and is there again with the card', async () => {
    await use({ pages: 24, frames: 20 }, async (rig) => {
      const { memory, pager, region, machine, device } = rig
      const data = new Uint8Array(24 * PAGE_BYTES)
      new Random(9).fill(data, 0, data.length)
      await memory.write(0, data)
      await memory.read(0, 1)
      const key = region.rkey
      machine.dpu.powerCut({ strategy: 'all' })
      await rig.pass(50_000)
      expect(region.state).toBe('away')
      compare(await pager.load(0, data.length), data, 0)
      await pager.store(5, Uint8Array.of(77))
      data[5] = 77
      await machine.dpu.powerOn()
      await rig.pass(1000)
      await device.reopen()
      expect(region.state).toBe('ready')
      expect(region.rkey).not.toBe(key)
      await rig.dpu.reconnect()
      compare(await memory.read(0, data.length), data, 0)
      await compareAtHome(rig, data)
    })
  })

  for (const { rows, options } of divided([1, 2, 3, 4], (seed) => seed > 1)) {
    test.each(rows)(
      'X-6: in the midst of it all, no byte is lost; seed %i',
      options,
      async (seed) => {
        await use({ pages: 40, frames: 24, seed }, async (rig) => {
          const { memory, machine, device, region } = rig
          const random = new Random(seed)
          const model = new Uint8Array(40 * PAGE_BYTES)
          const end = storm(rig, random.fork(), 60)
          for (let life = 0; life < 4; life++) {
            const traffic = { memory, random: random.fork(), model, at: 0, bytes: model.length }
            const running = run({ ...traffic, requests: 40, most: 9000 }).catch(() => {})
            await rig.pass(200 + random.below(8000))
            // What was not answered may have happened or not: nobody stores there meanwhile.
            if (random.chance(0.5)) {
              machine.dpu.powerCut({ strategy: 'all' })
              await rig.pass(random.below(20_000))
              await machine.dpu.powerOn()
            } else {
              machine.link.remove()
              await rig.pass(random.below(3000))
              machine.link.restore()
            }
            while (device.isOpen) await rig.pass(100)
            await device.reopen()
            expect(region.state).toBe('ready')
            await running
            await rig.dpu.reconnect()
            // From here on the model is what the CPU of the machine finds.
            model.set(await rig.pager.load(0, model.length))
            compare(await memory.read(0, model.length), model, 0)
          }
          end()
          const traffic = { memory, random, model, at: 0, bytes: model.length }
          await run({ ...traffic, requests: 40, most: 9000 })
          compare(await rig.pager.load(0, model.length), model, 0)
        })
      },
    )
  }

  test('the link: behind a removal no frame is the card’s, nor kept from the host', async () => {
    await use({ pages: 24, frames: 18 }, async (rig) => {
      const { memory, pager, region, machine, device } = rig
      await memory.write(0, new Uint8Array(8 * PAGE_BYTES).fill(1))
      // Pages are asked back while the card can not answer any more.
      for (let page = 0; page < 8; page++) pager.evict(page)
      machine.link.remove()
      const loaded = pager.load(0, 24 * PAGE_BYTES)
      await rig.pass(20_000)
      expect(region.state).toBe('away')
      expect((await loaded).subarray(0, 8 * PAGE_BYTES).every((byte) => byte === 1)).toBe(true)
      machine.link.restore()
      await rig.pass(1000)
      await device.reopen()
      expect(region.state).toBe('ready')
      await rig.dpu.reconnect()
      expect(await memory.read(100, 1)).toEqual(Uint8Array.of(1))
    })
  })
})
