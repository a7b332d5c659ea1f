/**
 * The port between two processes, by way of a file: order, and what either sees of the other when
 * it ends, is killed, or starts again (P3-11, P3-12, P3-13, H1, H4).
 */

import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { RealClock } from '../../../boards/clock.ts'
import { FilePortEnd } from '../../../boards/emulator/host/file-port-end.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedDpu } from '../../../boards/emulator/run/dpu.ts'
import { ForbiddenAccess, type HostPort } from '../../../boards/host-port.ts'
import { PortFile, PortFileError } from '../../../boards/port/port-file.ts'
import { NO_CARD } from '../../../boards/port/registers.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { DOORBELLS } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import * as header from '../../../firmware/host/header-page.ts'
import { type FilePort, openFilePort } from '../../../host-driver/card/file-port.ts'
import { until, Workshop } from '../../support/queues/pcie-file.ts'

const BYTES = 65536
const PAGE = 12288
const ZONE1 = 16384
const ZONE2 = 20480
const ZONE3 = 24576
const EPOCH = hal.PORT_EPOCH - hal.PORT_AT
const HEADER = hal.PORT_HEADER - hal.PORT_AT
const REGISTER = hal.PORT_REGISTER - hal.PORT_AT
const LINK = hal.PORT_LINK - hal.PORT_AT

const workshop = new Workshop()
const closers: (() => void)[] = []

afterEach(() => {
  for (const close of closers.splice(0).reverse()) close()
})
afterAll(() => workshop.close())

/** A card without firmware in this process. */
class Bare {
  readonly clock = new RealClock()
  readonly packets = new Uint8Array(MEMORY_BYTES)
  readonly card: FilePortEnd
  wakes = 0
  onWake: () => void = () => {}
  private readonly words = new DataView(this.packets.buffer)

  constructor(path: string) {
    this.card = new FilePortEnd({ path, bytes: BYTES, clock: this.clock })
    this.start()
    closers.push(() => {
      this.card.close()
      this.clock.close()
    })
  }

  start(): void {
    this.packets.fill(0)
    this.card.cardStarts(this.packets)
    this.card.cardServes(() => {
      this.wakes++
      this.onWake()
    })
  }

  word(at: number): number {
    return this.words.getUint32(at, true)
  }

  /** Takes the doorbells that are there. */
  take(): number[][] {
    const all: number[][] = []
    while (this.word(hal.PORT_CONSUMED) !== this.word(hal.PORT_PRODUCED)) {
      const at = hal.PORT_RING + (this.word(hal.PORT_CONSUMED) % DOORBELLS) * 8
      all.push([this.word(at), this.word(at + 4)])
      this.words.setUint32(hal.PORT_CONSUMED, this.word(hal.PORT_CONSUMED) + 1, true)
    }
    return all
  }

  /** A word of the host's memory, as a DMA read finds it. */
  read(at: number): number {
    expect(this.card.memory.dmaRead(at, 4)).toBe(true)
    return this.card.memory.liveWords[at >> 2]!
  }
}

async function hostHere(path: string): Promise<{ port: FilePort; told: () => number }> {
  const port = await openFilePort({ path, bytes: BYTES })
  closers.push(() => port.close())
  let told = 0
  port.onInterrupt(() => told++)
  return { port, told: () => told }
}

const isLinked = (port: HostPort): boolean => port.readRegister(LINK) === 1

describe('host and card in two processes', () => {
  test('P3-13: registers, doorbells and memory cross, whoever comes first', async () => {
    for (const first of ['host', 'card']) {
      const path = workshop.newPath()
      let bare = first === 'card' ? new Bare(path) : null
      const host = await workshop.start('host', path)
      bare ??= new Bare(path)
      await until(() => bare!.word(hal.PORT_LINK) === 1, 'the link')
      await host.next('interrupt')
      expect(await host.call('readRegister', LINK)).toBe(1)
      await host.call('storePair', 4096, 5, 6)
      await host.call('writeRegister', HEADER, 3)
      await host.call('writeRegister', EPOCH, 77)
      await host.call('writeRegisterPair', REGISTER, 8, 9)
      await host.call('ringDoorbell', 1, 2)
      await until(() => bare!.word(hal.PORT_PRODUCED) === 1, 'the doorbell')
      expect(bare.take()).toEqual([[1, 2]])
      const registers = [hal.PORT_EPOCH, hal.PORT_HEADER, hal.PORT_REGISTER, hal.PORT_POINTER]
      expect(registers.map((at) => bare!.word(at))).toEqual([77, 3, 8, 9])
      expect([bare.read(4096), bare.read(4100)]).toEqual([5, 6])
      bare.card.memory.dmaWrite(64, Uint8Array.of(1, 2, 3, 4), 0, 4)
      expect(await host.call('load', 62, 8)).toEqual([0, 0, 1, 2, 3, 4, 0, 0])
      await host.call('close')
      await until(() => bare!.word(hal.PORT_LINK) === 0, 'the end of the host')
    }
  })

  test('P3-12: a doorbell is behind its pointer, and the pointer behind its element', async () => {
    const path = workshop.newPath()
    const bare = new Bare(path)
    const host = await workshop.start('host', path)
    await until(() => bare.word(hal.PORT_LINK) === 1, 'the link')
    // The host has to see it, too: what it rings before goes nowhere.
    await host.next('interrupt')
    let last = 0
    const wrong: string[] = []
    bare.onWake = () => {
      for (const [queue, rung] of bare.take()) {
        const pointer = bare.read(4096)
        const element = 8192 + (pointer % 64) * 64
        const stamps = [bare.read(element), bare.read(element + 60)]
        const isGood =
          queue === 3 && rung! > last && pointer >= rung! && stamps.every((s) => s >= pointer)
        if (!isGood) wrong.push(`${queue}, ${rung} behind ${last}, ${pointer}: ${stamps}`)
        last = rung!
      }
    }
    await host.call('post', 30_000)
    await until(() => last > 0, 'any doorbell')
    expect(wrong).toEqual([])
    // The ring may have been full at the end; the next doorbell finds room.
    bare.onWake = () => {
      last = bare.take().at(-1)?.[1] ?? last
    }
    await host.call('ringDoorbell', 3, 30_001)
    await until(() => last === 30_001, 'the last doorbell')
  })

  test('H1: a ring that nobody serves: what finds no room is counted, the rest kept', async () => {
    const path = workshop.newPath()
    const card = await workshop.start('card', path)
    const { port } = await hostHere(path)
    await until(() => isLinked(port), 'the link')
    const rung = 2 * DOORBELLS + 10
    for (let i = 0; i < rung; i++) port.ringDoorbell(i, 0)
    const dropped = port.readRegister(hal.PORT_DROPPED - hal.PORT_AT)
    expect(dropped).toBeGreaterThan(0)
    let produced = 0
    while (produced < DOORBELLS) produced = (await card.call('word', hal.PORT_PRODUCED)) as number
    expect(produced).toBe(DOORBELLS)
    // The firmware takes them all: the rest comes from the file.
    await card.call('setWord', hal.PORT_CONSUMED, DOORBELLS)
    while (produced < rung - dropped) {
      produced = (await card.call('word', hal.PORT_PRODUCED)) as number
    }
    expect([produced, await card.call('word', hal.PORT_DROPPED)]).toEqual([rung - dropped, dropped])
  })

  test('P3-11: the zones of the header page are guarded in the host’s own process', async () => {
    const path = workshop.newPath()
    const card = await workshop.start('card', path)
    const { port, told } = await hostHere(path)
    await until(() => isLinked(port), 'the link')
    const { memory } = port
    memory.storeWord(PAGE + header.HEADER_QUEUES, 4)
    memory.storePair(PAGE + header.HEADER_ZONE1, ZONE1, 0)
    memory.storePair(PAGE + header.HEADER_ZONE2, ZONE2, 0)
    memory.storePair(PAGE + header.HEADER_ZONE3, ZONE3, 0)
    port.writeRegister(HEADER, PAGE / 4096)
    port.writeRegister(EPOCH, 1)
    expect(() => memory.storeWord(ZONE1, 1)).toThrow(ForbiddenAccess)
    expect(() => memory.storeWord(ZONE2 + 32, 1)).toThrow(ForbiddenAccess)
    expect(() => memory.storeWord(PAGE + header.HEADER_CARD, 1)).toThrow(ForbiddenAccess)
    expect(() => port.writeRegister(LINK, 1)).toThrow(ForbiddenAccess)
    memory.storePair(ZONE3, 1, 2)
    // The lock is given by the card, in its process.
    await card.call('dmaWrite', ZONE1 + 64 + 48, 9)
    memory.storeWord(ZONE2 + 32, 1)
    await until(() => told() > 0, 'the card')
    const before = told()
    let taken: unknown = 0
    while (taken !== 1) taken = await card.call('word', hal.PORT_EPOCH)
    await card.call('dmaWrite', PAGE + header.HEADER_INTERRUPTS, 1)
    await until(() => told() > before, 'the interrupt')
    expect(memory.loadWord(PAGE + header.HEADER_INTERRUPTS)).toBe(1)
    // What the card may not write it does not write.
    await card.call('dmaWrite', ZONE3, 99)
    expect(memory.loadWord(ZONE3)).toBe(1)
  })
})

describe('when one of them goes', () => {
  test('H4: a host that is killed: no link, registers of 0, its memory is nobody’s', async () => {
    const path = workshop.newPath()
    const bare = new Bare(path)
    const host = await workshop.start('host', path)
    await until(() => bare.word(hal.PORT_LINK) === 1, 'the link')
    await host.next('interrupt')
    await host.call('writeRegister', EPOCH, 5)
    await host.call('storeWord', 4096, 5)
    await until(() => bare.word(hal.PORT_EPOCH) === 5, 'the epoch')
    const { wakes } = bare
    await host.kill()
    await until(() => bare.word(hal.PORT_LINK) === 0, 'that it is gone')
    expect(bare.word(hal.PORT_EPOCH)).toBe(0)
    expect(bare.wakes).toBeGreaterThan(wakes)
    expect(bare.card.memory.dmaRead(4096, 4)).toBe(false)

    const next = await workshop.start('host', path)
    await until(() => bare.word(hal.PORT_LINK) === 1, 'the next host')
    expect(await next.call('load', 4096, 4)).toEqual([0, 0, 0, 0])
    expect(bare.read(4096)).toBe(0)
  })

  test('H4: the next host may come before the card has noticed', async () => {
    const path = workshop.newPath()
    const bare = new Bare(path)
    const host = await workshop.start('host', path)
    await until(() => bare.word(hal.PORT_LINK) === 1, 'the link')
    const links: number[] = []
    bare.onWake = () => links.push(bare.word(hal.PORT_LINK))
    await host.kill()
    await workshop.start('host', path)
    await until(() => bare.word(hal.PORT_LINK) === 1 && links.includes(0), 'the next host')
  })

  test('H4: a card that is killed is noticed, and one that is started again, too', async () => {
    const path = workshop.newPath()
    const card = await workshop.start('card', path)
    const { port, told } = await hostHere(path)
    await until(() => isLinked(port), 'the link')
    port.writeRegister(HEADER, 9)
    expect(port.readRegister(HEADER)).toBe(9)
    await until(() => told() > 0, 'the card')
    const before = told()
    await card.kill()
    await until(() => !isLinked(port), 'that it is gone')
    await until(() => told() > before, 'the word of it')
    expect(port.readRegister(HEADER)).toBe(NO_CARD)
    port.ringDoorbell(1, 1)
    port.memory.storeWord(4096, 7)

    const again = await workshop.start('card', path)
    await until(() => isLinked(port), 'the next card')
    expect([port.readRegister(HEADER), port.memory.loadWord(4096)]).toEqual([0, 7])
    expect(await again.call('word', hal.PORT_PRODUCED)).toBe(0)
    port.ringDoorbell(2, 2)
    let produced: unknown = 0
    while (produced !== 1) produced = await again.call('word', hal.PORT_PRODUCED)
    expect(await again.call('word', hal.PORT_RING)).toBe(2)
  })

  test('H4: a card without power, and a link that goes and comes: a session each', async () => {
    const path = workshop.newPath()
    const card = await workshop.start('card', path)
    const { port, told } = await hostHere(path)
    for (const [off, on] of [
      ['stop', 'start'],
      ['remove', 'restore'],
    ] as const) {
      await until(() => isLinked(port), 'the link')
      port.writeRegister(HEADER, 9)
      let taken: unknown = 0
      while (taken !== 9) taken = await card.call('word', hal.PORT_HEADER)
      const before = told()
      await card.call(off)
      await until(() => !isLinked(port), off)
      await until(() => told() > before, 'the word of it')
      await card.call(on)
      await until(() => isLinked(port), on)
      expect(port.readRegister(HEADER)).toBe(0)
      expect(await card.call('word', hal.PORT_HEADER)).toBe(0)
    }
  })

  test('one host and one card at a time; a killed one’s place is free', async () => {
    const path = workshop.newPath()
    const card = await workshop.start('card', path)
    await expect(workshop.start('card', path)).rejects.toMatchObject({ code: 'PORT_FILE_IN_USE' })
    const { port } = await hostHere(path)
    await expect(openFilePort({ path })).rejects.toMatchObject({ code: 'PORT_FILE_IN_USE' })
    await expect(workshop.start('host', path)).rejects.toMatchObject({ code: 'PORT_FILE_IN_USE' })
    await card.kill()
    port.close()
    port.close()
    await workshop.start('card', path)
    await workshop.start('host', path)
  })
})

test('what is not a port of ours is refused, and left alone', async () => {
  const path = workshop.newPath()
  for (const bytes of [0, 63, 2 ** 31, Number.NaN]) {
    expect(() => new PortFile(path, 'host', bytes)).toThrow(PortFileError)
  }
  const { writeFileSync, readFileSync } = await import('node:fs')
  for (const content of ['', 'something else', '\0'.repeat(8192)]) {
    writeFileSync(path, content)
    expect(() => new PortFile(path, 'card', BYTES)).toThrow(PortFileError)
    expect(readFileSync(path, 'latin1')).toBe(content)
  }
  expect(() => new PortFile('/nowhere/at/all', 'card', BYTES)).toThrow(PortFileError)
})

/** A card with firmware in this process, its port in that file. */
function cardHere(path: string, bytes: number): EmulatedDpu {
  const clock = new RealClock()
  const port = new FilePortEnd({ path, bytes, clock })
  const nvdimm = new Nvdimm({ bytes: 1 << 20 })
  const dpu = new EmulatedDpu({ nvdimm, port, clock, engine: 'node', seed: 1, transmit: () => {} })
  closers.push(() => {
    if (dpu.isOn) dpu.powerCut()
    port.close()
    clock.close()
  })
  dpu.powerOnDirectly()
  return dpu
}

test('a card with firmware serves a host in another process', async () => {
  const path = workshop.newPath()
  const dpu = cardHere(path, BYTES)
  const host = await workshop.start('host', path)
  await host.next('interrupt')
  await host.call('storeWord', 4096, 0x01020304)
  await host.call('ringDoorbell', 60_000, 0)
  const machine = dpu.machine!
  const words = new Float64Array(machine.memory, hal.COMMANDS_AT)
  words.set([hal.COPY, hal.DMA_SPACE + 4096, hal.PRIVATE_AT, 4, 0, 0])
  expect(machine.run(1)).toBe(1)
  expect([...machine.packets.slice(hal.PRIVATE_AT, hal.PRIVATE_AT + 4)]).toEqual([4, 3, 2, 1])
  dpu.powerCut()
  while ((await host.call('readRegister', LINK)) !== NO_CARD);
  expect(await host.call('load', 4096, 4)).toEqual([4, 3, 2, 1])
})

test('the driver of the queues persists records by way of it, in its own process', async () => {
  const path = workshop.newPath()
  const dpu = cardHere(path, 1 << 21)
  const driver = await workshop.start('driver', path)
  expect(await driver.call('persist', 50, 1)).toEqual(['SUCCESS'])
  expect(await driver.call('persist', 320, 16)).toEqual(['SUCCESS'])
  // The card goes in the middle: everything ends, and says that it did not succeed.
  const before = dpu.nvdimm.fences
  const rest = driver.call('persist', 100_000, 8)
  while (dpu.nvdimm.fences < before + 200) await new Promise((resolve) => setImmediate(resolve))
  dpu.powerCut()
  const ends = (await rest) as string[]
  expect(ends).toContain('SUCCESS')
  expect(ends.length).toBeGreaterThan(1)
})
