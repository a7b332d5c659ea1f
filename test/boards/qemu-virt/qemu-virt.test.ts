/**
 * The arm64 virtual machine: what it is started from, and that its NVDIMM keeps what was
 * acknowledged, whatever ends it.
 *
 * The machine itself needs QEMU, and once Debian's kernel: without them its tests are skipped, and
 * the name says what is missing. The conformance suite (board.test.ts) holds the rest of it.
 */

import { createHash } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { STORAGE_BYTES } from '../../../boards/flash/slot-store.ts'
import { readSettings } from '../../../boards/linux/boot/script/settings.ts'
import { bootText, configurationText, INSIDE } from '../../../boards/qemu-virt/configuration.ts'
import { writeDeviceTree } from '../../../boards/qemu-virt/device-tree.ts'
import {
  type Image,
  type ImageOptions,
  prepareImage,
  RUNTIME,
  whyNot,
} from '../../../boards/qemu-virt/image.ts'
import { type MachineOptions, VirtualMachine } from '../../../boards/qemu-virt/machine.ts'
import { PART_BYTES, PART_FRONT, preparePart } from '../../../boards/qemu-virt/part-file.ts'
import { prepareSlots } from '../../../boards/qemu-virt/slots-file.ts'
import { run, Trouble } from '../../../boards/tools/debian/programs.ts'
import { cardAt, DPU_ENDPOINT } from '../../../host-driver/base/addresses.ts'
import { check } from '../../../host-driver/command/board-qemu/check.ts'
import { connect, probePlacement, RefusedError } from '../../../host-driver/index.ts'
import { openLocal } from '../../../host-driver/local.ts'
import { signedBundle } from '../../support/board/bundle.ts'
import { expectRecords, Load, REGION } from '../../support/flash/machine-load.ts'
import { PATIENT, PATIENT_MACHINE } from '../../support/run/patience.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-qemu-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
const fresh = (): string => join(folder, `part-${files++}`)

describe('the file behind the NVDIMM', () => {
  test('it is made blank, with 2 MiB in front that are the kernel’s own', () => {
    const path = fresh()
    expect(preparePart(path)).toEqual({ bytes: PART_BYTES, made: true })
    expect(statSync(path).size).toBe(PART_BYTES)
    expect(preparePart(path)).toEqual({ bytes: PART_BYTES, made: false })
  })

  test('a file that is something else is refused and stays as it is', () => {
    const path = fresh()
    const bytes = Buffer.alloc(2 ** 24, 0xa5)
    writeFileSync(path, bytes)
    expect(() => preparePart(path)).toThrow(Trouble)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  test('one that has been the NVDIMM of such a machine is taken again', () => {
    const path = fresh()
    const bytes = Buffer.alloc(2 ** 24, 0xa5)
    bytes.write('NVDIMM_DAX_INFO\0', 4096, 'latin1')
    writeFileSync(path, bytes)
    expect(preparePart(path, bytes.length)).toEqual({ bytes: bytes.length, made: false })
  })

  test.each([0, 2 ** 21, 2 ** 24 + 4096, 2 ** 34])('a size of %d bytes is refused', (bytes) => {
    expect(() => preparePart(fresh(), bytes)).toThrow('16 MiB to 8 GiB')
  })

  test('a size that an existing file does not have is refused', () => {
    const path = fresh()
    writeFileSync(path, '')
    truncateSync(path, 2 ** 24)
    expect(() => preparePart(path, 2 ** 25)).toThrow(`has ${2 ** 24} bytes`)
  })
})

describe('the file behind the disk', () => {
  test('it is made, without a byte written, and taken again', () => {
    const path = fresh()
    prepareSlots(path)
    expect(statSync(path).size).toBe(STORAGE_BYTES)
    expect(statSync(path).blocks).toBe(0)
    writeFileSync(path, 'slots', { flag: 'r+' })
    prepareSlots(path)
    expect(readFileSync(path).toString('latin1', 0, 5)).toBe('slots')
  })

  test('one of another size is refused and stays as it is', () => {
    const path = fresh()
    writeFileSync(path, 'something else')
    expect(() => prepareSlots(path)).toThrow(`slots have ${STORAGE_BYTES}`)
    expect(readFileSync(path, 'utf8')).toBe('something else')
  })
})

test.each([false, true])('perdure-boot takes its configuration, another key: %s', (others) => {
  const { smp, trust, ...one } = readSettings(bootText(others))
  expect(one).toMatchObject({ board: 'qemu-virt', slots: INSIDE.slots, console: INSIDE.console })
  expect(one).toMatchObject({ runtime: INSIDE.perdured, configuration: INSIDE.configuration })
  expect(trust).toEqual(others ? [INSIDE.trust, INSIDE.otherTrust] : [INSIDE.trust])
  expect(smp).toEqual([
    { kind: 'tty', path: '/dev/ttyAMA0' },
    { kind: 'udp', address: '10.0.2.15', port: 1337 },
  ])
})

test('the configuration is the board’s own, and what is asked for stands over it', () => {
  const text = configurationText('cortex-a72', true, { 'path-mtu': '1024', link: 'packet:eth1' })
  const lines = new Map(text.split('\n').map((line) => line.split(' = ') as [string, string]))
  expect(lines.get('memory')).toBe(INSIDE.memory)
  expect(lines.get('clean')).toBe('coherency')
  expect(lines.get('host-window')).toMatch(/^pci:0000:00:[0-9a-f]{2}\.\d\/resource2/)
  expect(lines.get('path-mtu')).toBe('1024')
  expect(lines.get('link')).toBe('packet:eth1')
  const plain = configurationText('neoverse-n1', false)
  expect(plain).not.toMatch('host-window')
  expect(plain.match(/(?<=^link = ).*/gm)).toEqual(['packet:eth0', 'udp:10.0.2.15:4791'])
  expect(plain).toContain('mac = 02:00:00:00:00:02')
})

test('the card has the Ethernet address at which the driver looks for its IPv4 address', () => {
  const text = configurationText('neoverse-n1', false, { ipv4: '192.0.2.10' })
  expect(text).toContain('mac = 02:00:00:00:02:0a')
  const { mac } = cardAt([192, 0, 2, 10])
  expect(mac).toEqual([2, 0, 0, 0, 2, 10])
  expect(cardAt()).toEqual(DPU_ENDPOINT)
  // What is no address perdured refuses, and QEMU is to come so far.
  expect(configurationText('neoverse-n1', false, { ipv4: 'x' })).toContain(
    'mac = 02:00:00:00:00:02',
  )
})

const missing = whyNot()
const machine = missing === null ? 'in the machine' : `in the machine (skipped: ${missing})`

/** Bytes of the part's file: as small as it can be, so that the emulator opens it quickly. */
const FILE_BYTES = 2 ** 24

/** CPU seconds from the start of QEMU to the first acknowledged record: some 4 are usual. */
const FIRST_RECORD_SECONDS = 60

describe.skipIf(missing !== null)(machine, () => {
  const open: VirtualMachine[] = []
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close()
  })

  async function start(
    memory: string,
    { pageKib = 4, ...more }: Partial<MachineOptions> & ImageOptions = {},
  ): Promise<VirtualMachine> {
    const runtime = { ...RUNTIME, ...signedBundle(folder) }
    const image: Image = prepareImage(() => {}, { runtime, pageKib })
    const one = await VirtualMachine.open({
      ...PATIENT_MACHINE,
      ...{ image, memory, bytes: FILE_BYTES, ...more },
    })
    open.push(one)
    await one.start()
    return one
  }

  test('the device tree has the NVDIMM where ordinary memory ends', THOROUGH, () => {
    const path = join(folder, 'tree.dtb')
    writeDeviceTree(path, 'neoverse-n1', FILE_BYTES)
    const read = (...args: string[]): string => run('fdtget', args).toString().trim()
    expect(read(path, '/pmem@60000000', 'compatible')).toBe('pmem-region')
    expect(read('-t', 'x', path, '/pmem@60000000', 'reg')).toBe('0 60000000 0 1000000')
    expect(read('-t', 'x', path, '/memory@40000000', 'reg')).toBe('0 40000000 0 20000000')
  })

  test('kill, reset and quit leave every acknowledged record in the file', THOROUGH, async () => {
    const memory = fresh()
    const one = await start(memory)
    expect(one.made).toBe(true)
    const status = (await one.command('status')) as Status
    expect(status.memory).toMatchObject({ class: 'device-dax', armed: true })
    expect(status.memory).toMatchObject({ bytes: one.partBytes, instruction: 'dc cvap' })
    expect(status.bundle).toBe(sha256(join(folder, 'firmware.js')))

    const load = new Load(() => [one.target])
    for (const end of ['kill', 'reset', 'quit'] as const) {
      await load.begin()
      await load.reach(1)
      if (end === 'kill') expect(cpuSeconds(one.pid!)).toBeLessThan(FIRST_RECORD_SECONDS)
      await load.reach(40)
      await one[end]()
      await load.end()
      await expectInFile(memory, load)
      if (!one.isRunning) await one.start()
    }
    // And the machine itself says so, too, and serves on.
    const dpu = await connect(one.target, PATIENT)
    await expectRecords(await dpu.openRegion(REGION.name), load)
    await dpu.close()
    expect(await check(one, () => {})).toMatchObject({ read: true, readAfterKill: true })
    expect(await one.stop()).toEqual({ code: 0, signal: null })
  })

  test(
    'a kernel with pages of 16 KiB keeps records alike, in a file of its own',
    THOROUGH,
    async () => {
      const memory = fresh()
      const one = await start(memory, { pageKib: 16, bytes: 2 ** 26 })
      expect(one.partAt).toBe(2 ** 25)
      expect(((await one.command('status')) as Status).memory).toMatchObject({
        ...{ class: 'device-dax', armed: true, bytes: 2 ** 25, instruction: 'dc cvap' },
      })
      const load = new Load(() => [one.target])
      await load.begin()
      await load.reach(40)
      await one.kill()
      await load.end()
      await expectInFile(memory, load, one.partAt)
      await one.start()
      const dpu = await connect(one.target, PATIENT)
      await expectRecords(await dpu.openRegion(REGION.name), load)
      await dpu.close()
    },
  )

  test('a start that fails says why, in the words of the machine', THOROUGH, async () => {
    const one = await start(fresh(), { settings: { nonsense: '1' } }).catch((error) => error)
    expect(one).toBeInstanceOf(Trouble)
    expect(String(one)).toMatch(/no key is called nonsense/)
    expect(String(one)).toMatch(/the machine: off: SMP serves, and nothing runs: exit 78 after/)
  })

  test('a port that somebody else has taken meanwhile is another one', THOROUGH, async () => {
    const image = prepareImage(() => {}, { runtime: { ...RUNTIME, ...signedBundle(folder) } })
    const options = { ...PATIENT_MACHINE, image, memory: fresh(), bytes: FILE_BYTES }
    const one = await VirtualMachine.open(options)
    open.push(one)
    const before = one.smp
    const other = createSocket('udp4').bind(Number(before.split(':').at(-1)), '127.0.0.1')
    await once(other, 'listening')
    await one.start()
    other.close()
    expect(one.smp).not.toBe(before)
    for (const target of [one.target, one.tunnel]) {
      await using dpu = await connect(target, PATIENT)
      expect((await dpu.status()).state).toBe('blank')
    }
    expect(await one.command('boot')).toMatchObject({ runs: 'what came with the package' })
  })

  test(
    'on a Cortex-A72 it cleans to the point of coherency, its console on a pty',
    THOROUGH,
    async () => {
      const one = await start(fresh(), { cpu: 'cortex-a72', console: 'pty' })
      expect(one.story).toMatch('"instruction":"dc cvac"')
      expect(one.console).toMatch(/^\/dev\/pts\/\d+$/)
      const dpu = await connect(one.target, PATIENT)
      await dpu.format()
      expect((await dpu.status()).armed).toBe(true)
      await dpu.close()
    },
  )

  test(
    'a Cortex-A72 whose platform nobody vouches for acknowledges nothing',
    THOROUGH,
    async () => {
      const one = await start(fresh(), { cpu: 'cortex-a72', settings: { clean: 'auto' } })
      const { memory } = (await one.command('status')) as Status
      expect(memory).toMatchObject({ armed: false, instruction: 'dc cvac' })
      expect(memory.forgetsBecause).toMatch('point of coherency')
      const dpu = await connect(one.target, PATIENT)
      expect((await dpu.status()).armed).toBe(false)
      await expect(dpu.format()).rejects.toThrow(RefusedError)
      await dpu.close()
    },
  )

  test(
    'a record placed in the host’s memory is in the file behind the PCIe device',
    THOROUGH,
    async () => {
      const path = join(folder, 'window')
      const window = { path, bytes: 2 ** 21 }
      const one = await start(fresh(), { window })
      const dpu = await connect(one.target, PATIENT)
      await dpu.format()
      const { placement } = await probePlacement(new FileCpu(path), dpu.host)
      expect(placement).toBe('bypass')
      const request = { name: 'beyond', slots: 2, capacity: 512, placement: 'bypass' } as const
      const region = await dpu.provision(request)
      const bytes = Buffer.alloc(512, 'beyond the bus ')
      await region.persist(1, bytes).persisted
      await dpu.close()
      expect(readFileSync(path).includes(bytes)).toBe(true)
    },
  )
})

interface Status {
  readonly bundle: string
  readonly memory: { readonly armed: boolean; readonly forgetsBecause?: string }
}

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

/** Processor time that a process has had: this machine may have other work as well. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** The same of the file: its part is given to the emulator, whose card recovers it. */
async function expectInFile(memory: string, load: Load, front = PART_FRONT): Promise<void> {
  const part = readFileSync(memory).subarray(front)
  const path = fresh()
  writeFileSync(path, part)
  const local = await openLocal({ path, engine: 'node', seed: 1 })
  const dpu = await connect(local.wire, { seed: 2 })
  await expectRecords(await dpu.openRegion(REGION.name), load)
  await dpu.close()
  local.close()
}

/**
 * This machine's CPU towards the shared file. Its cache is a model: what was loaded is in it until
 * it is evicted; the card is a process of its own, and what it writes is in no cache of this one.
 */
class FileCpu {
  readonly statesAdr = true
  private readonly path: string
  private readonly cached = new Set<number>()

  constructor(path: string) {
    this.path = path
  }

  load(at: number, length: number): { readonly bytes: Uint8Array; readonly ns: number } {
    const bytes = Buffer.alloc(length)
    const file = openSync(this.path, 'r')
    readSync(file, bytes, 0, length, at)
    closeSync(file)
    const ns = this.cached.has(at) ? 10 : 100
    this.cached.add(at)
    return { bytes, ns }
  }

  evict(at: number, length: number): void {
    for (const one of this.cached) if (one >= at && one < at + length) this.cached.delete(one)
  }
}
