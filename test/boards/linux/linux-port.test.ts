/**
 * The native runtime with a host behind it: queues by way of a port in a file, as the emulated card
 * has them (P3-11 to P3-13), and records in the host's persistent memory, a file here, past its
 * caches and through them (source 2, flows 1 and 2).
 *
 * Skipped where perdured is not built.
 */

import {
  closeSync,
  existsSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import * as form from '../../../boards/port/port-file.ts'
import { NO_CARD } from '../../../boards/port/registers.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { startFlushAgent } from '../../../host-driver/card/agent-queues.ts'
import { PcieDevice } from '../../../host-driver/card/device.ts'
import { openFilePort } from '../../../host-driver/card/file-port.ts'
import {
  type ConnectOptions,
  connect,
  type Dpu,
  PerdureError,
  probePlacement,
  type Region,
} from '../../../host-driver/index.ts'
import { identityFiles } from '../../support/board/board.ts'
import { failure } from '../../support/driver/failures.ts'
import { FileCpu } from '../../support/native/file-cpu.ts'
import { noService, ServiceFolder } from '../../support/native/service.ts'
import { type Child, until, Workshop } from '../../support/queues/pcie-file.ts'
import { PATIENT } from '../../support/run/patience.ts'
import { IDENTITY, NOBODY, WRITER } from '../../support/sessions/peers.ts'

const because = noService === null ? '' : `: ${noService}`
const SEED = Number(process.env.SEED ?? 20261121)
const HEADER = hal.PORT_HEADER - hal.PORT_AT
const LINK = hal.PORT_LINK - hal.PORT_AT
const RAM = 1 << 21

const workshop = new Workshop()
const open: ServiceFolder[] = []
const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
  for (const folder of open.splice(0)) await folder.close()
})
afterAll(() => workshop.close())

function folder(): ServiceFolder {
  const made = new ServiceFolder()
  open.push(made)
  return made
}

/** Waits until the host sees that of the link; the test's own limit ends what never happens. */
async function untilLink(host: Child, value: number): Promise<void> {
  while ((await host.call('readRegister', LINK)) !== value);
}

describe.skipIf(noService !== null)(`the port of perdured${because}`, () => {
  test('the driver persists records over queues; after a kill the next card serves', async () => {
    const service = folder()
    const port = workshop.newPath()
    const keys = { port, 'port-bytes': '2M', shadow: 'yes' }
    const { runtime } = await service.serve(keys)
    expect(statSync(port).size).toBe(4096 + RAM)
    const driver = await workshop.start('driver', port)
    expect(await driver.call('persist', 50, 1)).toEqual(['SUCCESS'])
    expect(await driver.call('persist', 320, 16)).toEqual(['SUCCESS'])
    const fences = async (): Promise<number> => {
      const { machine } = (await service.ask('counters')) as { machine: { fences: number } }
      return machine.fences
    }
    const before = await fences()
    const rest = driver.call('persist', 100_000, 8)
    // Each record takes two fences at least; when it is killed, some have been answered.
    while ((await fences()) < before + 200);
    await runtime.end('SIGKILL')
    const ends = (await rest) as string[]
    expect(ends).toContain('SUCCESS')
    expect(ends.length).toBeGreaterThan(1)
    await driver.kill()
    await service.serve(keys)
    const next = await workshop.start('host', port)
    await untilLink(next, 1)
  })

  test('R1-S14: the host of a card with peers needs no key, and nobody else is it', async () => {
    const service = folder()
    const port = workshop.newPath()
    const files = identityFiles(service.path, IDENTITY)
    const { address, runtime } = await service.serve({ ...files, port, 'port-bytes': '2M' })
    const come = async (target: string, options: ConnectOptions = {}): Promise<Dpu> => {
      const dpu = await connect(target, { ...PATIENT, warn: () => {}, ...options })
      closers.push(() => dpu.close())
      return dpu
    }
    const host = await come(`pcie:${port}`)
    await host.format()
    const region = await host.provision({ name: 'records', slots: 4, capacity: 512 })
    const [own, theirs] = [1, 2].map((byte) => new Uint8Array(512).fill(byte))
    expect((await region.persist(1, own!).persisted).copies).toBe(2)
    expect((await host.peers()).map(({ name }) => name)).toEqual(['admin', 'writer', 'reader'])
    const stranger = come(address.replace(/[0-9a-f]{64}@/, ''))
    expect(await failure(stranger)).toMatchObject({ fault: 'NO_SESSION' })
    const unknown = come(address, { key: NOBODY.secret })
    expect(await failure(unknown)).toMatchObject({ fault: 'PEER_UNKNOWN' })
    const writer = await (await come(address, { key: WRITER.secret })).openRegion('records')
    expect((await writer.read(1)).data).toEqual(own)
    await writer.persist(2, theirs!).persisted
    expect((await region.read(2)).data).toEqual(theirs)
    expect(await runtime.end('SIGTERM')).toBe(0)
  })

  test('a host that is killed is noticed, and so is a card that stops', async () => {
    const service = folder()
    const port = workshop.newPath()
    const { runtime } = await service.serve({ port, 'port-bytes': '64K' })
    const first = await workshop.start('host', port)
    await untilLink(first, 1)
    await first.kill()
    const host = await workshop.start('host', port)
    await untilLink(host, 1)
    expect(await runtime.end('SIGTERM')).toBe(0)
    await untilLink(host, NO_CARD)
    expect(existsSync(`${port}.card.lock`)).toBe(false)
  })

  test('a host that writes anything, or cuts the file short, harms nobody else', async () => {
    const service = folder()
    const port = workshop.newPath()
    const { address } = await service.serve({ port, 'port-bytes': '64K' })
    const random = new Random(SEED)
    const file = openSync(port, 'r+')
    closers.push(() => closeSync(file))
    const words = new DataView(new ArrayBuffer(4))
    const put = (at: number, value: number): void => {
      words.setUint32(0, value >>> 0, true)
      writeSync(file, words, 0, 4, at)
    }
    for (let round = 0; round < 400; round++) {
      // A host that lives, its header somewhere, and all kinds of other words.
      put(form.HOST_PROCESS, process.pid)
      put(form.HOST_LIFE, 1 + random.below(2))
      put(form.HOST_BEAT, round)
      put(form.REGISTERS + HEADER, random.below(20))
      put(form.REGISTERS, round % 8)
      for (let i = 0; i < 20; i++) put(64 + 4 * random.below(700), random.next())
      for (let i = 0; i < 20; i++) put(4096 + 4 * random.below(16384), random.below(1 << 17))
      if (random.chance(0.1)) ftruncateSync(file, random.below(3) * 4096)
      if (random.chance(0.1)) ftruncateSync(file, 4096 + 65_536)
      if (round % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
    }
    const dpu = await connect(address)
    closers.push(() => dpu.close())
    expect((await dpu.status()).state).toBe('blank')
    await dpu.format()
    const region = await dpu.provision({ name: 'near', slots: 4, capacity: 512 })
    await region.persist(1, Buffer.alloc(512, 'all the same ')).persisted
  })

  test('a file that is no port, and one that has a card, are refused', async () => {
    const service = folder()
    service.write('other', new Uint8Array(8192))
    const refused = await service.ends({ port: service.at('other') })
    expect(refused.code).toBe(69)
    expect(refused.said).toContain('is no port of ours, version 1')
    const path = workshop.newPath()
    const file = new form.PortFile(path, 'card', 65536)
    closers.push(() => file.close())
    const taken = await service.ends({ port: path })
    expect(taken.said).toContain(`is in use by process ${process.pid}`)
    const bytes = await service.ends({ port: workshop.newPath(), 'port-bytes': '100' })
    expect(bytes.said).toContain('memory of 100 bytes: whole lines')
  })
})

describe.skipIf(noService !== null)(`records in the host’s memory${because}`, () => {
  /** A card with a window of a megabyte, and a driver on its queues. */
  async function made(): Promise<{
    readonly window: string
    readonly address: string
    readonly device: PcieDevice
  }> {
    const service = folder()
    const window = service.at('window')
    writeFileSync(window, new Uint8Array(1 << 20))
    const keys = { port: workshop.newPath(), 'port-bytes': '2M', 'host-window': window }
    const { address } = await service.serve(keys)
    const port = await openFilePort({ path: keys.port, bytes: RAM })
    closers.push(() => port.close())
    await until(() => port.readRegister(LINK) === 1, 'the link')
    const device = await PcieDevice.open(port, { seed: 9 })
    closers.push(() => device.close())
    await device.management.format(new Uint8Array(16).fill(7))
    return { window, address, device }
  }

  test('past the caches: what is acknowledged stands in the file, both copies of it', async () => {
    const { window, address, device } = await made()
    const cpu = new FileCpu(window, false)
    expect((await probePlacement(cpu, device.management)).placement).toBe('bypass')
    const dpu = await connect(address)
    closers.push(() => dpu.close())
    const region = await dpu.provision({
      name: 'far',
      slots: 4,
      capacity: 512,
      placement: 'bypass',
    })
    const record = Buffer.alloc(512, 'past the caches ')
    await region.persist(1, record).persisted
    const image = readFileSync(window)
    const first = image.indexOf(record)
    expect(first).toBeGreaterThan(0)
    expect(image.indexOf(record, first + 1)).toBeGreaterThan(first)
  })

  test('through the caches: by way of the flush agent, and not without one', async () => {
    const { window, address, device } = await made()
    const cpu = new FileCpu(window, true)
    expect((await probePlacement(cpu, device.management)).placement).toBe('through')
    const dpu = await connect(address)
    closers.push(() => dpu.close())
    const request = { name: 'far', slots: 4, capacity: 512, placement: 'through' } as const
    await expect(dpu.provision(request)).rejects.toBeInstanceOf(PerdureError)
    const agent = await startFlushAgent(cpu, device.management, device)
    const region = await dpu.provision(request)
    await persisted(region, 1)
    const { finished } = agent
    expect(finished).toBeGreaterThan(1)
    expect(cpu.fences).toBeGreaterThan(0)
    expect(cpu.cleaned).toBeGreaterThan(record.length / 64)
    expect(readFileSync(window).includes(record)).toBe(true)
    await agent.detach()
    await expect(region.persist(2, record).persisted).rejects.toBeInstanceOf(PerdureError)
    expect(agent.finished).toBe(finished)
  })

  const record = Buffer.alloc(512, 'through the caches ')

  /** A region takes records once its own lines are written back: the card has it wait for that. */
  async function persisted(region: Region, slot: number): Promise<void> {
    await region.persist(slot, record).persisted
  }
})
