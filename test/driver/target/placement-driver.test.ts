/**
 * The host driver on both sides of a card whose records lie in the target machine's memory: client,
 * registrar and flush agent, in one process and in virtual time (source 2).
 */

import { describe, expect, test } from 'vitest'
import {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  NO_SNOOP_HONOURED,
  Nvdimm,
  type Platform,
} from '../../../boards/emulator/index.ts'
import { startFlushAgent } from '../../../host-driver/card/agent-queues.ts'
import { PcieDevice } from '../../../host-driver/card/device.ts'
import {
  connect,
  cpuInPieces,
  type Dpu,
  type FlushAgent,
  memoryInPieces,
  OutcomeUnknown,
  probePlacement,
  RefusedError,
  type Region,
} from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { localParts, passOn } from '../../support/driver/local-parts.ts'

const openPart = localParts()

interface Bench {
  readonly local: LocalDpu
  readonly host: HostMemory
  readonly dpu: Dpu
  readonly region: Region
}

const NAMES = new Map<Platform, 'bypass' | 'through'>([
  [DDIO_OFF, 'bypass'],
  [NO_SNOOP_HONOURED, 'bypass'],
  [DDIO_ON, 'through'],
])

/**
 * A host that has just started: its queues first, as what was probed ends with those before; then
 * the probe, and the flush agent where there is to be one.
 */
async function register({ hostSide, port }: LocalDpu, dpu: Dpu): Promise<FlushAgent | null> {
  const device = await PcieDevice.open(port!, { seed: 5 })
  const { placement } = await probePlacement(hostSide!, dpu.host)
  return placement === 'through' ? startFlushAgent(hostSide!, dpu.host, device) : null
}

async function bench(platform: Platform): Promise<Bench & { readonly agent: FlushAgent | null }> {
  const host = new HostMemory({ part: new Nvdimm({ bytes: 1 << 18 }), platform })
  const local = await openPart({ host })
  const dpu = await connect(local.wire, { seed: 3 })
  await dpu.format()
  const agent = await register(local, dpu)
  const placement = NAMES.get(platform)!
  const region = await dpu.provision({ name: 'orders', slots: 16, capacity: 1000, placement })
  return { local, host, dpu, region, agent }
}

function record(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17) & 0xff)
}

const NEW = record(1000, 1)

/** Copies of NEW that outlive the power of their host. */
function durableCopies({ part }: HostMemory): number {
  return Buffer.from(part.durable).toString('latin1').split(latin1(NEW)).length - 1
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('latin1')
}

async function restart(local: LocalDpu): Promise<void> {
  if (local.dpu.isOn) local.dpu.powerCut({ strategy: 'none' })
  await passOn(local, 1000)
  await local.dpu.powerOn()
}

describe('S1-M6: a target whose memory lies in pieces', () => {
  const PIECES = [
    { at: 0x20000, bytes: 0x2000 },
    { at: 0x3000, bytes: 0x1000 },
    { at: 0x10000, bytes: 0x8000 },
  ]

  /** Registers the pieces, as a target does that has just started. */
  async function inPieces({ hostSide, port }: LocalDpu, dpu: Dpu, pieces = PIECES): Promise<void> {
    const device = await PcieDevice.open(port!, { seed: 5 })
    expect(await dpu.host.statePieces(pieces)).toEqual(pieces)
    const { placement } = await probePlacement(cpuInPieces(hostSide!, pieces), dpu.host)
    if (placement === 'bypass') return
    await startFlushAgent(memoryInPieces(hostSide!, pieces), dpu.host, device)
  }

  test.each([
    ['bypass', DDIO_OFF],
    ['through', DDIO_ON],
  ] as const)(
    '%s: every record is durable in it when it is said to be',
    async (placement, platform) => {
      const host = new HostMemory({ part: new Nvdimm({ bytes: 1 << 18 }), platform })
      const local = await openPart({ host })
      const dpu = await connect(local.wire, { seed: 3 })
      await dpu.format()
      await inPieces(local, dpu)
      const region = await dpu.provision({ name: 'orders', slots: 10, capacity: 1000, placement })
      // Records 3 and 7 lie across edges of pages, and so of pieces.
      for (let i = 0; i < 10; i++) {
        await region.persist(i, record(1000, i)).persisted
        local.dpu.powerCut({ strategy: 'none' })
        await local.dpu.powerOn()
        await dpu.reconnect()
        expect((await region.read(i)).data, `record ${i}`).toEqual(record(1000, i))
        await expect(probePlacement(local.hostSide!, dpu.host)).rejects.toMatchObject({
          fault: 'PIECES',
        })
        const swapped = [PIECES[1]!, PIECES[0]!, PIECES[2]!]
        await expect(dpu.host.statePieces(swapped)).rejects.toMatchObject({ fault: 'PIECES' })
        await inPieces(local, dpu)
      }
      await dpu.close()
    },
  )

  test('who looks through others is refused, the first piece at its place', async () => {
    const ours = [{ at: 0, bytes: 0x1000 }, ...PIECES.slice(0, 2)]
    const others: (typeof PIECES | null)[] = [
      null,
      ours.slice(0, 2),
      [...ours, { at: 0x8000, bytes: 0x1000 }],
      [ours[0]!, { at: 0x21000, bytes: 0x2000 }, ours[2]!],
      [ours[0]!, { at: 0x20000, bytes: 0x1000 }, ours[2]!],
      [ours[0]!, ours[2]!, ours[1]!],
    ]
    const host = new HostMemory({ part: new Nvdimm({ bytes: 1 << 18 }), platform: DDIO_ON })
    const local = await openPart({ host })
    const side = local.hostSide!
    const dpu = await connect(local.wire, { seed: 3 })
    await dpu.format()
    const device = await PcieDevice.open(local.port!, { seed: 5 })
    // Without a list: only the window.
    expect((await probePlacement(side, dpu.host)).placement).toBe('through')
    const whole = [{ at: 0, bytes: 1 << 18 }]
    await probePlacement(cpuInPieces(side, whole), dpu.host)
    await startFlushAgent(memoryInPieces(side, whole), dpu.host, device)
    await expect(probePlacement(cpuInPieces(side, ours), dpu.host)).rejects.toMatchObject({
      fault: 'PIECES',
    })
    await expect(
      startFlushAgent(memoryInPieces(side, ours), dpu.host, device),
    ).rejects.toMatchObject({ fault: 'PIECES' })
    await dpu.host.statePieces(ours)
    for (const other of others) {
      const cpu = other === null ? side : cpuInPieces(side, other)
      await expect(probePlacement(cpu, dpu.host)).rejects.toMatchObject({ fault: 'PIECES' })
    }
    await probePlacement(cpuInPieces(side, ours), dpu.host)
    for (const other of others) {
      const memory = other === null ? side : memoryInPieces(side, other)
      await expect(startFlushAgent(memory, dpu.host, device)).rejects.toMatchObject({
        fault: 'PIECES',
      })
    }
    await startFlushAgent(memoryInPieces(side, ours), dpu.host, device)
    await dpu.close()
  })

  test('what looks through pieces names them as they were given, and is put into no others', () => {
    const given = PIECES.map((piece) => ({ ...piece }))
    const raw = { statesAdr: true, load: () => ({ bytes: null, ns: 1 }), evict: () => {} }
    const memory = { ...raw, clean: () => {}, fence: () => {} }
    const seen = [cpuInPieces(raw, given), memoryInPieces(memory, given)] as const
    given[0]!.at = 0
    given.pop()
    for (const one of seen) expect(one.pieces).toEqual(PIECES)
    const wrong = expect.objectContaining({ code: 'PERDURE_ARGUMENT' })
    expect(() => cpuInPieces(seen[0], PIECES)).toThrow(wrong)
    expect(() => memoryInPieces(seen[1], PIECES)).toThrow(wrong)
  })

  test('pieces that there cannot be are refused before anything is asked of the card', async () => {
    const never = (): never => {
      throw new Error('was asked')
    }
    const control = { probe: never, place: never, attachAgent: never, detachAgent: never }
    const device = { createCq: never, createQp: never } as unknown as PcieDevice
    const calls = { load: never, evict: never, clean: never, fence: never }
    const tooMany = Array.from({ length: 17 }, (_, i) => ({ at: 4096 * i, bytes: 4096 }))
    for (const pieces of [null, [], [{ at: 0, bytes: 1 }], [PIECES[0], PIECES[0]], tooMany]) {
      const side = { ...calls, statesAdr: true, pieces: pieces as typeof PIECES }
      const refused = { code: 'PERDURE_ARGUMENT', message: expect.stringContaining('pieces') }
      await expect(probePlacement(side, control)).rejects.toMatchObject(refused)
      await expect(startFlushAgent(side, control, device)).rejects.toMatchObject(refused)
    }
  })

  test('the CPU is asked for each run of bytes in its piece, in their order', () => {
    const asked: [string, number, number][] = []
    const cpu = {
      statesAdr: true,
      load: (at: number, length: number) => {
        asked.push(['load', at, length])
        return { bytes: at === 0x3000 ? null : new Uint8Array(length).fill(at >> 12), ns: 7 }
      },
      evict: (at: number, length: number) => void asked.push(['evict', at, length]),
      clean: (at: number, length: number) => void asked.push(['clean', at, length]),
      fence: () => {},
    }
    const [seen, memory] = [cpuInPieces(cpu, PIECES), memoryInPieces(cpu, PIECES)]
    memory.clean(0x1f00, 0x1300)
    seen.evict(0x2ff0, 0x20)
    expect(asked.splice(0)).toEqual([
      ['clean', 0x21f00, 0x100],
      ['clean', 0x3000, 0x1000],
      ['clean', 0x10000, 0x200],
      ['evict', 0x3ff0, 0x10],
      ['evict', 0x10000, 0x10],
    ])
    expect(seen.load(0x2ff0, 0x20).bytes).toEqual(
      Uint8Array.from({ length: 0x20 }, (_, i) => (i < 0x10 ? 3 : 0x10)),
    )
    expect(seen.load(0x1ff0, 0x20)).toEqual({ bytes: null, ns: 14 })
    expect(memory.load(0, 8).bytes).toEqual(new Uint8Array(8).fill(0x20))
    expect(() => memory.clean(0xaff0, 0x20)).toThrow(RangeError)
  })
})

test.each([
  ['bypass', DDIO_OFF],
  ['through', DDIO_ON],
] as const)('R1-A1, B4: %s: a client whose host is away goes on elsewhere', async (_, platform) => {
  const { local, host, dpu, region } = await bench(platform)
  const near = await dpu.provision({ name: 'near', slots: 4, capacity: 1000 })
  await region.persist(0, record(100, 1)).persisted
  host.link.remove()
  const { nowUs } = local.clock
  // The READ ends the connection, and what stands behind it is asked for over another one.
  const read = region.read(1).catch((error) => error)
  const far = region.persist(0, record(100, 2)).persisted.catch((error) => error)
  await near.persist(0, record(100, 3)).persisted
  expect(await read).toMatchObject({ code: 'PERDURE_TRANSPORT' })
  expect(await far).toMatchObject({ fault: 'PLACEMENT_UNKNOWN' })
  expect(local.clock.nowUs - nowUs).toBeLessThan(1_000_000)
})

for (const [platform, mechanism] of [
  [DDIO_OFF, 'lsbRead'],
  [NO_SNOOP_HONOURED, 'lsbRead'],
  [DDIO_ON, 'cpuFlush'],
] as const) {
  const name = `${NAMES.get(platform)}${platform === NO_SNOOP_HONOURED ? ' by no-snoop' : ''}`

  test(`P2-12, P2-15, P2-24: ${name}: records are durable, and there after a cut`, async () => {
    const { local, dpu, region } = await bench(platform)
    expect((await dpu.regions())[0]).toMatchObject({ placement: NAMES.get(platform) })
    const writes = [0, 1, 2, 3, 0].map((slot, i) => region.persist(slot, record(1000, i)))
    await Promise.all(writes.map((write) => write.received))
    const receipts = await Promise.all(writes.map((write) => write.persisted))
    expect(receipts.map((receipt) => [receipt.mechanism, receipt.copies])).toEqual(
      new Array(5).fill([mechanism, 2]),
    )
    await restart(local)
    for (const [slot, seed] of [
      [0, 4],
      [1, 1],
      [2, 2],
      [3, 3],
    ] as const) {
      expect((await region.read(slot)).data).toEqual(record(1000, seed))
    }
  })

  test(`P2-12: ${name}: after a restart writes are refused until it is probed`, async () => {
    const { local, dpu, region } = await bench(platform)
    await region.persist(0, record(100, 1)).persisted
    await restart(local)
    await dpu.reconnect()
    const refused = await region.persist(0, record(100, 2)).persisted.catch((error) => error)
    expect(refused).toBeInstanceOf(RefusedError)
    expect(refused).toMatchObject({ fault: 'PLACEMENT_UNKNOWN' })
    await register(local, dpu)
    await region.persist(0, record(100, 3)).persisted
    expect((await region.read(0)).data).toEqual(record(100, 3))
  })
}

describe.each([
  ['bypass', DDIO_OFF],
  ['through', DDIO_ON],
] as const)('S1-M5: %s: bytes', (placement, platform) => {
  test('registered write-persist are durable by every store, when it is done', async () => {
    const { local, dpu } = await bench(platform)
    const shape = { name: 'bytes', length: 65536, placement, writePersist: true }
    const bytes = await dpu.provisionBytes(shape)
    const long = record(20_000, 2)
    await Promise.all([
      bytes.write(0, record(100, 1)),
      bytes.write(4096, long),
      bytes.atomicWrite(32_768, record(8, 3)),
    ])
    await restart(local)
    await dpu.reconnect()
    expect(await bytes.read(0, 100)).toEqual(record(100, 1))
    expect(await bytes.read(4096, long.length)).toEqual(long)
    expect(await bytes.read(32_768, 8)).toEqual(record(8, 3))
  })

  test('are durable behind FLUSH', async () => {
    const { local, dpu } = await bench(platform)
    const bytes = await dpu.provisionBytes({ name: 'bytes', length: 65536, placement })
    const long = record(20_000, 2)
    const written = bytes.write(4096, long)
    await bytes.flush(4096, long.length)
    await written
    await restart(local)
    await dpu.reconnect()
    expect(await bytes.read(4096, long.length)).toEqual(long)
  })
})

test('P2-27: through: many records are under way at once, and each is acknowledged', async () => {
  const { region, agent } = await bench(DDIO_ON)
  const before = agent!.finished
  const writes = Array.from({ length: 64 }, (_, i) => async () => {
    await region.persist(i % 16, record(1000, i)).persisted
  })
  // As many as the card has jobs for, at a time.
  for (let i = 0; i < writes.length; i += 16) {
    await Promise.all(writes.slice(i, i + 16).map((write) => write()))
  }
  expect(agent!.finished - before).toBe(2 * 64)
  for (let slot = 0; slot < 16; slot++) {
    expect((await region.read(slot)).data).toEqual(record(1000, 48 + slot))
  }
})

test('G2-5: through: with the agent gone, the outcome of a write is unknown', async () => {
  const { local, dpu, region, agent } = await bench(DDIO_ON)
  await region.persist(0, record(100, 1)).persisted
  agent!.poll = () => 0
  const outcome = await region.persist(0, record(100, 2)).persisted.catch((error) => error)
  expect(outcome).toBeInstanceOf(OutcomeUnknown)
  const next = await region.persist(1, record(100, 3)).persisted.catch((error) => error)
  expect(next).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'NO_AGENT' })
  const second = (await register(local, dpu))!
  await region.persist(0, record(100, 4)).persisted
  expect((await region.read(0)).data).toEqual(record(100, 4))
  await second.detach()
  const last = await region.persist(1, record(100, 5)).persisted.catch((error) => error)
  expect(last).toMatchObject({ fault: 'NO_AGENT' })
})

describe('X-1: a connection is made again while a second copy is in the caches alone', () => {
  /** The agent serves one request and no more: one copy of NEW is durable. */
  async function stopped() {
    const made = await bench(DDIO_ON)
    const agent = made.agent!
    const poll = agent.poll.bind(agent)
    let left = 1
    agent.poll = () => {
      const served = left > 0 ? poll() : 0
      left -= served
      return served
    }
    const write = made.region.persist(0, NEW)
    await passOn(made.local, 1000)
    expect(durableCopies(made.host)).toBe(1)
    return { ...made, poll, write }
  }

  test('to a card that goes on: the receipt says two copies when there are two', async () => {
    const { local, host, dpu, agent, poll, write } = await stopped()
    await dpu.reconnect()
    const durable = write.persisted.then(() => durableCopies(host))
    await passOn(local, 1000)
    agent!.poll = poll
    poll()
    expect(await write.persisted).toMatchObject({ copies: 2 })
    expect(await durable).toBe(2)
  })

  test('to a card that has started again: without an agent the outcome is unknown', async () => {
    const { local, host, dpu, write } = await stopped()
    local.dpu.powerCut({}, true)
    await local.dpu.powerOn()
    await dpu.reconnect()
    const outcome = await write.persisted.catch((error) => error)
    expect(durableCopies(host)).toBe(1)
    expect(outcome).toBeInstanceOf(OutcomeUnknown)
  })
})
