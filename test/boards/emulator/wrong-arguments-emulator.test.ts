/**
 * What the emulator offers, with every wrong kind of value at every place of what makes it or sets
 * it up (R31-2): refused as a RangeError, in words that name the place.
 *
 * Which calls there are, and what may stand where, the types say: a call that is new is missing
 * here until it has a row, or stands among those that check nothing, and why.
 */

import { createSocket } from 'node:dgram'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as emulator from '../../../boards/emulator/index.ts'
import { isError, placesOf, VALUES } from '../../support/driver/wrong-values.ts'
import { type Call, callsOf, inTypes, type Slot } from '../../support/source/types.ts'

/** Calls that check nothing. */
const UNCHECKED: readonly RegExp[] = [
  // The emulator calls these of what its caller offers.
  /^(CardPort|Clock|FirmwareEngine|SwapStore)\./,
  // The card calls these of its port: never its user.
  /^(EmulatedPort|FilePortEnd)\.card/,
  // Every event, frame, call and command list goes through these.
  /^(RealClock|VirtualClock)\.(schedule|cancel)$/,
  /^(EmulatedDpu\.deliver|Link\.send|EthernetSwitch\.forward|Tunnel\.send)$/,
  /^EmulatedMachine\.(run|place|tellEnd)$/,
  /^Random\.(below|chance|fill)$/,
  // And every store and load through these: by machine and host, which have checked their bounds.
  /^Nvdimm\.(store|clean|writeThrough|readable|clearPoison)$/,
  /^Nvdimm\.(lineFlags|restoreFlags|flagsAfterCut)$/,
  /^PcieLink\.(write|read)$/,
  // What a card, and its part, tell a trace of theirs.
  /^CardTrace\.(attach|power|burst|frame|cutBegins|cutEnds|stores|cleans|fenced|faults)$/,
  /^HostMemory\.(dma(Write|Read|Atomic)|arrive|land|load|store|clean|evict)$/,
  /^HostSide\.(load|evict|clean)$/,
  /^HostRam\.(load|loadWord|store|storeWord|storePair|dmaWrite|dmaRead|land)$/,
  /^EmulatedPort\.(writeRegister|writeRegisterPair|ringDoorbell|readRegister|setTimer)$/,
  /^(Pager\.(stateOf|addressOf|load|store|evict)|SwapDevice\.(read|write))$/,
]

/** A call as it should be. */
interface Good {
  readonly args: readonly unknown[]
  readonly call: (...args: readonly never[]) => unknown
}

const nothing = (): void => {}
const zero = (): number => 0
const clock = new emulator.VirtualClock()
const part = new emulator.Nvdimm({ bytes: 65_536 })
const memory = new emulator.HostMemory({ part: new emulator.Nvdimm({ bytes: 65_536 }) })
const ram = new emulator.HostRam(1 << 20)
const random = new emulator.Random(1)
const network = new emulator.EthernetSwitch()
const link = new emulator.Link({ clock })
const pcie = new emulator.PcieLink()
const port = new emulator.EmulatedPort({ ram, clock })
const swap = new emulator.SwapDevice({ clock, pageBytes: 4096 })
const pager = new emulator.Pager({ ram, at: 0, frames: 4, pages: 8, swap, clock })
const nvdimm = new emulator.Nvdimm({ bytes: 1 << 20 })
const dpu = new emulator.EmulatedDpu({ nvdimm, clock, transmit: nothing, engine: 'node' })
const socket = createSocket('udp4')
const choice = { random, strategy: 'none' }
const folder = mkdtempSync(join(tmpdir(), 'perdure-arguments-'))
const nowhere = join(tmpdir(), 'perdure-no-such-folder', 'file')
let tunnel: emulator.Tunnel
let file: emulator.FilePortEnd
let machine: emulator.EmulatedMachine

/** A call of a method of something. */
function of(on: () => object, method: string, args: readonly unknown[]): Good {
  return {
    args,
    call: (...given) =>
      (on() as Record<string, (...args: never[]) => unknown>)[method]!(...(given as never[])),
  }
}

function rowsOf(type: string, on: () => object, rows: Record<string, readonly unknown[]>) {
  return Object.fromEntries(
    Object.entries(rows).map(([name, args]) => [`${type}.${name}`, of(on, name, args)]),
  )
}

function functionsOf(rows: Record<string, readonly unknown[]>): Record<string, Good> {
  return Object.fromEntries(
    Object.entries(rows).map(([name, args]) => [name, of(() => emulator, name, args)]),
  )
}

function constructorsOf(rows: Record<string, readonly unknown[]>): Record<string, Good> {
  const made = emulator as unknown as Record<string, new (...args: never[]) => object>
  return Object.fromEntries(
    Object.entries(rows).map(([name, args]) => [
      `new ${name}`,
      { args, call: (...given) => new made[name]!(...(given as never[])) },
    ]),
  )
}

const GOOD: Record<string, Good> = {
  ...functionsOf({
    findBundle: [],
    imageCount: [part],
    imageKeeping: [part, () => true, nothing],
    images: [part, 'chunk', nothing],
    openNetdev: [nowhere, network],
    joinNetdev: [nowhere, network],
    isToBeMade: [nowhere],
    openNvdimm: [{ path: nowhere }],
    cut: [part, choice],
    pending: [part],
    fileSwap: [nowhere],
    openTunnel: [{ receive: nothing, now: zero }],
  }),
  ...constructorsOf({
    CardTrace: [{ write: nothing }],
    EmulatedDpu: [{ nvdimm, clock, transmit: nothing }],
    FilePortEnd: [{ path: nowhere, bytes: 65_536, clock }],
    HostMemory: [{ part }],
    EmulatedPort: [{ ram, clock }],
    HostRam: [4096],
    HostSide: [dpu, memory],
    Link: [{ clock }],
    EmulatedMachine: [{ facts: {}, nvdimm, transmit: nothing }],
    Netdev: [createServer(), network],
    JoinedNetdev: [new Socket(), network],
    Nvdimm: [{ bytes: 4096 }],
    Pager: [{ ram, at: 0, frames: 4, pages: 8, swap, clock }],
    PcieLink: [],
    Random: [1],
    SwapDevice: [{ clock, pageBytes: 4096 }],
    Tunnel: [socket, nothing, zero],
    EthernetSwitch: [zero],
  }),
  ...rowsOf('VirtualClock', () => new emulator.VirtualClock(), {
    runUntilIdle: [],
    runUntil: [0],
  }),
  ...rowsOf('EmulatedDpu', () => dpu, {
    powerOn: [],
    powerOnDirectly: [],
    armCut: [{ record: 1 }],
    powerCut: [{}],
  }),
  ...rowsOf('HostMemory', () => memory, { powerCut: [choice], comeBack: [{}] }),
  ...rowsOf('EmulatedPort', () => port, { onInterrupt: [nothing], resetHost: [] }),
  ...rowsOf('Link', () => link, { attach: ['a', nothing], setFaults: ['a', {}], counts: ['a'] }),
  ...rowsOf('EmulatedMachine', () => machine, {
    observe: [{}],
    armCut: [1],
    armCutInGroup: [random],
  }),
  ...rowsOf('Nvdimm', () => part, {
    poison: [1],
    refuseWrites: [1],
    failSave: [],
    isPoisoned: [1],
    close: [],
  }),
  ...rowsOf('FilePortEnd', () => file, { close: [] }),
  ...rowsOf('Pager', () => pager, { use: [{}] }),
  ...rowsOf('PcieLink', () => pcie, {
    attach: [ram],
    useClock: [clock],
    watch: [nothing],
    arrive: [],
    drop: [],
    remove: [],
    loseHost: [],
  }),
  ...rowsOf('EthernetSwitch', () => network, { attach: [nothing, [], 1], detach: [nothing] }),
  ...rowsOf('Tunnel', () => tunnel, { connect: ['127.0.0.1', 9] }),
}

let calls: readonly Call[] = []

beforeAll(async () => {
  const values = Object.entries(emulator).filter(([, value]) => !isError(value))
  const names = values.map(([name]) => name)
  calls = inTypes((types) => callsOf(types, 'boards/emulator/index.ts', names))
  tunnel = await emulator.openTunnel({ receive: nothing })
  file = new emulator.FilePortEnd({ path: join(folder, 'port'), bytes: 65_536, clock })
  await dpu.powerOn()
  machine = dpu.machine!
})

afterAll(async () => {
  dpu.powerCut({ strategy: 'none' })
  await tunnel.close()
  file.close()
  rmSync(folder, { recursive: true })
  socket.close()
})

/** What a call ends with, thrown or as a rejection. */
async function errorOf(call: () => unknown): Promise<unknown> {
  try {
    await call()
    return 'nothing was refused'
  } catch (error) {
    return error
  }
}

/** Says something of its own: nothing that the language itself says. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof RangeError) || error.message.startsWith('Invalid')) return false
  return error.message.includes(': ')
}

async function expectRefused(name: string, slots: readonly Slot[]): Promise<void> {
  const { args, call } = GOOD[name]!
  const wrong: string[] = []
  for (const { what, slot, put } of placesOf(slots)) {
    for (const [value, given, sort] of VALUES) {
      if (sort !== null && slot.sorts.includes(sort)) continue
      const padded = Object.assign(new Array(slots.length).fill(undefined), args)
      const error = await errorOf(() => call(...(put(padded, given) as never[])))
      if (!isRefusal(error)) wrong.push(`${name}(${what}: ${value}): ${error}`)
    }
  }
  expect(wrong).toEqual([])
}

describe('R31-2: a wrong kind of value', () => {
  test('every call that the types have is here', () => {
    const missing = calls
      .map(({ name }) => name)
      .filter((name) => !(name in GOOD) && !UNCHECKED.some((one) => one.test(name)))
    expect(missing).toEqual([])
    expect(Object.keys(GOOD).filter((one) => !calls.some(({ name }) => name === one))).toEqual([])
    expect(UNCHECKED.filter((one) => !calls.some(({ name }) => one.test(name)))).toEqual([])
  })

  test.each(Object.keys(GOOD))('is refused by %s', async (name) => {
    await expectRefused(name, calls.find((one) => one.name === name)!.slots)
  })

  test('the words name the place, and what to give', () => {
    const faults = { loss: 2 }
    for (const make of [
      () => new emulator.Link({ clock, faults }),
      () => new emulator.Link({ clock, faultsFrom: { b: faults } }),
      () => link.setFaults('a', faults),
    ]) {
      expect(make).toThrow('faults of a link: loss 2: a probability from 0 to 1')
    }
    const facts = { mac: [1, 2, 3] }
    expect(() => new emulator.EmulatedDpu({ nvdimm, clock, transmit: nothing, facts })).toThrow(
      'facts: mac a list: a list of 6 bytes',
    )
  })
})
