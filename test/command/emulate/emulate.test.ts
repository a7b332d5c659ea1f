/** `perdure emulate` as a user runs it: where it serves, what it publishes, its signals. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect as plug, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import {
  ipAddress,
  publishRequest,
  udpAddress,
} from '../../../host-driver/command/emulate/emulate-options.ts'
import { connect, type Dpu, RecordLost, type Region } from '../../../host-driver/index.ts'
import { readPcap } from '../../../host-driver/way/pcap.ts'
import { PATIENCE_MS, PATIENT } from '../../support/run/patience.ts'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../../dist/perdure.js')
const folder = mkdtempSync(join(tmpdir(), 'perdure-emulate-'))

const MACHINE = '525400000001'
const CARD = '020000000002'

/** Started by the test that runs. */
const started: ChildProcess[] = []

class Emulate {
  readonly child: ChildProcess
  private readonly lines: Interface
  private readonly told: string[] = []
  /** All that went to stderr. */
  said = ''
  private wake: () => void = () => {}

  constructor(...args: string[]) {
    this.child = spawn(process.execPath, [COMMAND, 'emulate', '--size', '1M', ...args], {
      cwd: folder,
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    started.push(this.child)
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.said += text
    })
    this.lines = createInterface({ input: this.child.stdout! })
    this.lines.on('line', (line) => {
      this.told.push(line)
      this.wake()
    })
    this.lines.on('close', () => this.wake())
  }

  async line(): Promise<string> {
    while (this.told.length === 0 && this.child.exitCode === null) {
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    }
    return this.told.shift() ?? ''
  }

  async json(): Promise<Record<string, unknown>> {
    return JSON.parse(await this.line()) as Record<string, unknown>
  }

  /** Waits until it has said that on stderr, so many times. */
  async says(words: RegExp, times = 1): Promise<void> {
    while ((this.said.match(words) ?? []).length < times) {
      await once(this.child.stderr!, 'data')
    }
  }

  /** A line for its console; the answer is one of JSON. */
  async order(line: string): Promise<Record<string, unknown>> {
    this.child.stdin!.write(`${line}\n`)
    return await this.json()
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.child.kill(signal)
    const [code] = (await once(this.child, 'exit')) as [number | null]
    return code
  }
}

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})
afterAll(() => rmSync(folder, { recursive: true }))

/** Sends frames as a virtual machine does, and returns the first that comes back. */
async function exchange(path: string, frame: Buffer): Promise<Buffer> {
  const socket: Socket = plug(path)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(frame.length)
  socket.write(Buffer.concat([length, frame]))
  let bytes = Buffer.alloc(0)
  for await (const some of socket) {
    bytes = Buffer.concat([bytes, some as Buffer])
    if (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE(0)) break
  }
  socket.destroy()
  return bytes.subarray(4)
}

/** Who has `ip`? Asked by 10.0.0.1. */
function arpRequest(ip: string): Buffer {
  const target = Buffer.from(ip.split('.').map(Number)).toString('hex')
  return Buffer.from(
    [
      `ffffffffffff ${MACHINE} 0806`,
      '0001 0800 06 04 0001', // Ethernet, IPv4, request
      `${MACHINE} 0a000001`,
      `000000000000 ${target}`,
    ]
      .join('')
      .replaceAll(' ', ''),
    'hex',
  )
}

describe('its keys', () => {
  /** The seed that it told, and the key of its region. */
  async function keyOf(...more: string[]): Promise<[seed: number, key: number]> {
    const emulate = new Emulate('--udp', '127.0.0.1:0', '--json', '--region', 'r:4:100', ...more)
    const { seed, address } = (await emulate.json()) as { seed: number; address: string }
    const dpu = await connect(address, PATIENT)
    const [region] = await dpu.regions()
    await dpu.close()
    expect(emulate.said).not.toContain('seed')
    await emulate.stop()
    return [seed, region!.rkey]
  }

  test('differ from start to start; the seed that was told brings them again', async () => {
    const [one, other] = [await keyOf(), await keyOf()]
    expect(one[0]).not.toBe(other[0])
    expect(one[1]).not.toBe(other[1])
    expect(await keyOf('--seed', `${one[0]}`)).toEqual(one)
  })

  test('people are told the seed, too', async () => {
    const emulate = new Emulate('--udp', '127.0.0.1:0', '--seed', '281474976710650')
    await emulate.line()
    await emulate.says(/^ {2}seed 281474976710650: /m)
    expect(await emulate.stop()).toBe(0)
  })
})

describe('where it serves', () => {
  test('a virtual machine and the host driver reach the same card at the same time', async () => {
    const path = join(folder, 'both')
    const emulate = new Emulate('--netdev', `unix:${path}`, '--udp', '127.0.0.1:0')
    const address = await emulate.line()
    expect(address).toMatch(/^perdure:\/\/127\.0\.0\.1:\d+$/)
    expect(await emulate.line()).toBe(`unix:${path}`)
    const dpu = await connect(address, PATIENT)
    expect(await dpu.status()).toMatchObject({ state: 'serving' })
    const reply = await exchange(path, arpRequest('10.0.0.2'))
    expect(reply.toString('hex', 0, 14)).toBe(`${MACHINE}${CARD}0806`)
    expect(reply.toString('hex', 20, 32)).toBe(`0002${CARD}0a000002`)
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
    expect(existsSync(path)).toBe(false)
  })

  test('without a word it serves UDP, and with --netdev alone nothing but that', async () => {
    const path = join(folder, 'alone')
    const emulate = new Emulate('--netdev', `unix:${path}`, '--json')
    expect(await emulate.json()).toMatchObject({ addresses: [`unix:${path}`] })
    expect(await emulate.stop('SIGINT')).toBe(0)
  })

  test('a card with an address of its own is found by the address that it prints', async () => {
    const ip = ['--ip', '10.9.8.7', '--ip', 'fd00:9::7']
    const path = join(folder, 'own')
    const emulate = new Emulate('--udp', '127.0.0.1:0', '--netdev', `unix:${path}`, ...ip)
    const address = await emulate.line()
    expect(address).toMatch(/:\d+\/10\.9\.8\.7$/)
    const dpu = await connect(address, PATIENT)
    const region = await dpu.provision({ name: 'orders', slots: 4, capacity: 100 })
    await region.persist(1, Buffer.from('kept')).persisted
    await dpu.close()
    const reply = await exchange(path, arpRequest('10.9.8.7'))
    expect(reply.toString('hex', 28, 32)).toBe('0a090807')
  })

  test('what passes the card is captured, both ways', async () => {
    const emulate = new Emulate('--udp', '127.0.0.1:0', '--capture', 'all.pcap')
    const dpu = await connect(await emulate.line(), PATIENT)
    await dpu.status()
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
    const frames = [...readPcap(readFileSync(join(folder, 'all.pcap')))].map(({ frame }) => frame)
    const from = (mac: string): number =>
      frames.filter((frame) => Buffer.from(frame).toString('hex', 6, 12) === mac).length
    expect(from(CARD)).toBeGreaterThan(0)
    expect(frames.length - from(CARD)).toBeGreaterThan(0)
  })
})

describe('published regions', () => {
  test('are there before anybody connects, and again after every power cut', async () => {
    const publish = ['--publish', '64K@7204', '--publish', '1@7205']
    const image = ['cut.img', '--create']
    const emulate = new Emulate(...image, '--udp', '127.0.0.1:0', '--json', ...publish)
    const first = await emulate.json()
    const published = [7204, 7205].map((port) => {
      return { port, region: `port-${port}`, writePersist: false }
    })
    expect(first).toMatchObject({ published, part: { incarnation: 1 } })
    const dpu = await connect(first.address as string, PATIENT)
    const bytes = await dpu.openBytes('port-7204')
    await bytes.write(100, Buffer.from('flushed'))
    await bytes.flush(100, 7)
    for (let cut = 1; cut <= 2; cut++) {
      emulate.child.kill('SIGUSR2')
      expect(await emulate.json()).toMatchObject({ powerCut: { strategy: 'none' } })
      expect(await emulate.json()).toMatchObject({
        powerOn: { state: 'serving', incarnation: 1 + cut },
      })
    }
    await dpu.close()
    const again = await connect(first.address as string, PATIENT)
    const after = await again.openBytes('port-7204')
    expect(Buffer.from(await after.read(100, 7)).toString()).toBe('flushed')
    await again.close()
  })
})

describe('registered write-persist', () => {
  const image = ['persist.img', '--create', '--udp', '127.0.0.1:0', '--json']

  test('S1-M14: what is acknowledged outlives a power cut, without a flush', async () => {
    const publish = ['--publish', '64K@7204,write-persist', '--publish', '64K@7205']
    const emulate = new Emulate(...image, ...publish)
    const first = await emulate.json()
    expect(first.published).toEqual([
      { port: 7204, region: 'port-7204', writePersist: true },
      { port: 7205, region: 'port-7205', writePersist: false },
    ])
    const dpu = await connect(first.address as string, PATIENT)
    const bytes = await dpu.openBytes('port-7204')
    expect(bytes.info.writePersist).toBe(true)
    const plain = await dpu.openBytes('port-7205')
    for (const one of [bytes, plain]) await one.write(100, Buffer.from('persisted'))
    emulate.child.kill('SIGUSR2')
    await emulate.json()
    await emulate.json()
    await dpu.close()
    const again = await connect(first.address as string, PATIENT)
    const after = await again.openBytes('port-7204')
    expect(Buffer.from(await after.read(100, 9)).toString()).toBe('persisted')
    const other = await again.openBytes('port-7205')
    expect(Buffer.from(await other.read(100, 9)).toString()).toBe('\0'.repeat(9))
    await again.close()
    expect(await emulate.stop()).toBe(0)
    // A region that is there stays registered as it is.
    const without = new Emulate(...image, '--publish', '64K@7204')
    const [code] = (await once(without.child, 'close')) as [number]
    expect(without.said).toContain('REGION_EXISTS')
    expect(code).toBe(69)
  })

  const PLACED = [
    ['through', ['--ddio']],
    ['bypass', []],
    ['host', ['--ddio']],
  ] as const

  test.each(PLACED)('S1-M5: in the memory of a host as well: %s', async (placement, ddio) => {
    const publish = ['--publish', `64K@7204,write-persist,${placement}`]
    const host = ['--persistent', '1M', ...ddio]
    const emulate = new Emulate('--udp', '127.0.0.1:0', '--json', ...host, ...publish)
    const first = await emulate.json()
    expect(first.published).toEqual([{ port: 7204, region: 'port-7204', writePersist: true }])
    const dpu = await connect(first.address as string, PATIENT)
    const bytes = await dpu.openBytes('port-7204')
    const where = ddio.length > 0 ? 'through' : 'bypass'
    expect(bytes.info).toMatchObject({ placement: where, writePersist: true })
    await bytes.write(100, Buffer.from('persisted'))
    emulate.child.stdin!.write('both reset\n')
    while (!('hostOn' in (await emulate.json())));
    await dpu.close()
    const again = await connect(first.address as string, PATIENT)
    const after = await again.openBytes('port-7204')
    expect(Buffer.from(await after.read(100, 9)).toString()).toBe('persisted')
    await after.write(100, Buffer.from('once more'))
    await again.close()
    expect(await emulate.stop()).toBe(0)
  })
})

describe('memory of a host inside', () => {
  test('X-6: is read and written by another process, and outlives the card', async () => {
    const memory = ['--memory', 'heap,1M,128K']
    const emulate = new Emulate('--udp', '127.0.0.1:0', '--json', ...memory)
    const first = await emulate.json()
    const dpu = await connect(first.address as string, PATIENT)
    expect(await dpu.hostRegions()).toMatchObject([{ name: 'heap', length: 2n ** 20n }])
    const heap = await dpu.openBytes('heap')
    const data = Uint8Array.from({ length: 2 ** 20 }, (_, i) => i * 7 + (i >> 8))
    await heap.write(0, data)
    expect(Buffer.compare(await heap.read(0, data.length), data)).toBe(0)
    expect((await dpu.counters()).PAGE_ABSENT).toBeGreaterThan(0n)
    emulate.child.kill('SIGUSR2')
    await emulate.json()
    expect(await emulate.json()).toMatchObject({ powerOn: { state: 'serving' } })
    await dpu.reconnect()
    expect(Buffer.compare(await heap.read(0, data.length), data)).toBe(0)
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
  })

  test.each([
    ['--host', 'file', '--memory', 'heap,1M,128K'],
    ['--host', 'file', '--persistent', '1M'],
    ['--ddio', '--memory', 'heap,1M,128K'],
    ['--region', 'far:4:100@host'],
    ['--region', 'far:4:100@bypass'],
    ['--region', 'far:4:100@through'],
  ])('is of a host inside: %s %s %s %s', async (...options) => {
    const emulate = new Emulate(...options.filter((option) => option !== undefined))
    const [code] = (await once(emulate.child, 'exit')) as [number]
    expect(code).toBe(64)
  })
})

/** A card with a host inside, a region in the memory of each, and 'old' in record 0 of both. */
async function hosted(...more: string[]): Promise<{
  emulate: Emulate
  address: string
  dpu: Dpu
  /** In the host's memory, and in the card's. */
  far: Region
  near: Region
}> {
  const regions = ['--region', 'far:4:100@host', '--region', 'near:4:100']
  const emulate = new Emulate('--udp', '127.0.0.1:0', '--json', '--seed', '1', ...regions, ...more)
  const address = (await emulate.json()).address as string
  const dpu = await connect(address, { timeoutMs: PATIENCE_MS, warn: () => {} })
  const [far, near] = [await dpu.openRegion('far'), await dpu.openRegion('near')]
  for (const region of [far, near]) await region.persist(0, Buffer.from('old')).persisted
  return { emulate, address, dpu, far, near }
}

/** What `perdure inspect` says that the card serves of the regions `far` and `near`. */
function serves(address: string): Record<string, string | undefined> {
  const { stdout } = spawnSync(process.execPath, [COMMAND, 'inspect', address], {
    cwd: folder,
    encoding: 'utf8',
    timeout: PATIENCE_MS,
  })
  const of = (name: string) => new RegExp(`^${name} .*  (\\S.*)$`, 'm').exec(stdout)?.[1]
  return { far: of('far'), near: of('near') }
}

async function textOf(region: Region): Promise<string> {
  return Buffer.from((await region.read(0)).data).toString()
}

describe('S1-M14: placements', () => {
  const machine = ['--udp', '127.0.0.1:0', '--persistent', '1M']

  test.each([
    ['local', [], 'local'],
    ['local', ['--ddio'], 'local'],
    ['bypass', [], 'bypass'],
    ['through', ['--ddio'], 'through'],
    ['host', ['--ddio'], 'through'],
  ] as const)('S1-M14: @%s, with %j: a region is placed %s', async (word, more, placement) => {
    const emulate = new Emulate(...machine, ...more, '--region', `far:4:100@${word}`)
    const dpu = await connect(await emulate.line(), PATIENT)
    const region = await dpu.openRegion('far')
    expect(region.info.placement).toBe(placement)
    await region.persist(0, Buffer.from('kept')).persisted
    expect(await textOf(region)).toBe('kept')
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
    const place = placement === 'local' ? '' : `, in the host's memory, ${placement}`
    expect(emulate.said).toContain(`region 'far': 4 x 100 B, 2 copies${place}\n`)
  })

  test.each([
    [['--region', 'far:4:100@bypass', '--ddio'], 'leave --ddio out, or say @through'],
    [['--region', 'far:4:100@through'], 'say --ddio as well, or @bypass'],
  ])('S1-M14: one that the host does not have is refused: %j', async (options, words) => {
    const emulate = new Emulate(...machine, ...options)
    const [code] = (await once(emulate.child, 'close')) as [number]
    expect(emulate.said).toContain(words)
    expect(code).toBe(64)
  })

  test('S1-M14: a region that is there stays where it is', async () => {
    const image = ['placed.img', '--create', '--udp', '127.0.0.1:0']
    const first = new Emulate(...image, '--persistent', '1M,placed.host', '--region', 'far:4:100')
    await first.line()
    expect(await first.stop()).toBe(0)
    const far = ['--persistent', '1M,placed.host', '--region', 'far:4:100@bypass']
    const other = new Emulate(...image, ...far)
    const [code] = (await once(other.child, 'close')) as [number]
    expect(other.said).toContain('REGION_EXISTS')
    expect(code).toBe(69)
  })
})

describe('S1-M2: @pair', () => {
  const image = ['pair.img', '--create', '--udp', '127.0.0.1:0', '--json']

  test.each([
    ['two:4:100@pair', [], 2],
    ['three:4:100:3@pair', ['--persistent', '1M'], 3],
    ['four:4:100:4@pair', ['--persistent', '1M', '--ddio'], 4],
  ] as const)('S1-M2: %s, with %j: clients write its copies', async (request, more, copies) => {
    const emulate = new Emulate('--udp', '127.0.0.1:0', ...more, '--region', request)
    const address = await emulate.line()
    const dpu = await connect(address, PATIENT)
    const [name] = request.split(':') as [string]
    const region = await dpu.openRegion(name)
    expect(region.info).toMatchObject({ pair: true, placement: 'local', copies })
    await region.writeCopies(0, Buffer.from('kept'))
    expect(await textOf(region)).toBe('kept')
    await dpu.close()
    const inspected = spawnSync(process.execPath, [COMMAND, 'inspect', address], {
      ...{ cwd: folder, encoding: 'utf8', timeout: PATIENCE_MS },
    })
    expect(inspected.stdout).toMatch(new RegExp(`^${name} +pair +4 +100 +${copies} `, 'm'))
    expect(await emulate.stop()).toBe(0)
    const shape = `4 x 100 B, ${copies} copies, a pair region`
    expect(emulate.said).toContain(`region '${name}': ${shape}\n`)
  })

  test('S1-M2: a cut leaves it, a start takes it as it is, and as no other', async () => {
    const emulate = new Emulate(...image, '--region', 'p:4:100@pair', '--region', 'a@b:4:100@pair')
    const first = await emulate.json()
    expect(first.regions).toEqual(['p', 'a@b'])
    const dpu = await connect(first.address as string, PATIENT)
    await (await dpu.openRegion('p')).writeCopies(3, Buffer.from('kept'))
    emulate.child.kill('SIGUSR2')
    await emulate.json()
    await emulate.json()
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
    const again = new Emulate(...image, '--region', 'p:4:100@pair')
    const other = await connect((await again.json()).address as string, PATIENT)
    expect((await (await other.openRegion('p')).readCopies(3)).settled).toBe(true)
    expect(Buffer.from((await (await other.openRegion('p')).read(3)).data).toString()).toBe('kept')
    await other.close()
    expect(await again.stop()).toBe(0)
    for (const request of ['p:4:100', 'p:4:100:3@pair']) {
      const wrong = new Emulate(...image, '--region', request)
      const [code] = (await once(wrong.child, 'close')) as [number]
      expect(wrong.said).toContain('REGION_EXISTS')
      expect(code).toBe(69)
    }
    const read = ['read', 'pair.img', 'p', '--slots', '3']
    const out = spawnSync(process.execPath, [COMMAND, ...read], { cwd: folder, encoding: 'utf8' })
    expect(out).toMatchObject({ status: 0, stdout: 'kept' })
  })

  test('S1-M2: perdure persist and a pair region refuse each other', async () => {
    const emulate = new Emulate('--udp', '127.0.0.1:0', '--region', 'p:4:100@pair')
    const args = ['persist', await emulate.line(), 'p', '-']
    const options = { cwd: folder, encoding: 'utf8', input: 'new', timeout: PATIENCE_MS } as const
    const out = spawnSync(process.execPath, [COMMAND, ...args], options)
    expect(out.stderr).toContain("region 'p' is a pair region")
    expect(out.status).toBe(64)
    expect(await emulate.stop()).toBe(0)
  })
})

describe('a host inside, with persistent memory', () => {
  const kinds: readonly (readonly [string, readonly string[]])[] = [
    ['bypass', []],
    ['through', ['--ddio']],
  ]
  for (const [placement, ddio] of kinds) {
    test(`R1-E1: ${placement}: it loses its power alone, and nothing acknowledged`, async () => {
      const { emulate, dpu, far, near } = await hosted('--persistent', '1M', ...ddio)
      expect(far.info.placement).toBe(placement)
      expect(await emulate.order('host off')).toHaveProperty('hostCut')
      const away = await far.read(0).catch((error: unknown) => error)
      expect(away).toMatchObject({ code: 'PERDURE_TRANSPORT' })
      expect(away).not.toBeInstanceOf(RecordLost)
      await expect(far.persist(0, Buffer.from('new')).persisted).rejects.toThrow()
      await near.persist(0, Buffer.from('new')).persisted
      expect(await emulate.order('host on')).toMatchObject({ hostOn: { placement } })
      expect([await textOf(far), await textOf(near)]).toEqual(['old', 'new'])
      await far.persist(0, Buffer.from('new')).persisted
      expect(await textOf(far)).toBe('new')
      await dpu.close()
      expect(await emulate.stop()).toBe(0)
    })
  }

  for (const [placement, ddio] of kinds) {
    test(`S1-M6: ${placement}: in pieces, which its next life states again`, async () => {
      const pieces = ['--persistent', '1M', '--pieces', '8K@512K,256K@0,16K@768K']
      const { emulate, dpu, far } = await hosted(...pieces, ...ddio)
      expect(far.info.placement).toBe(placement)
      expect(await emulate.order('host off')).toHaveProperty('hostCut')
      expect(await emulate.order('host on')).toMatchObject({ hostOn: { placement } })
      expect(await textOf(far)).toBe('old')
      await far.persist(0, Buffer.from('new')).persisted
      expect(await textOf(far)).toBe('new')
      await dpu.close()
      expect(await emulate.stop()).toBe(0)
    })
  }

  test.each([
    [['--persistent', '1M', '--pieces', '8K@1020K'], 'leaves the 1048576 of --persistent'],
    [['--persistent', '1M', '--pieces', '8K@0,4K@4K'], 'none in another'],
    [['--pieces', '8K@0'], '--pieces is of --persistent'],
  ])('S1-M6: pieces that it cannot have are refused: %j', async (options, words) => {
    const emulate = new Emulate('--udp', '127.0.0.1:0', ...options)
    const [code] = (await once(emulate.child, 'close')) as [number]
    expect(emulate.said).toContain(words)
    expect(code).toBe(64)
  })

  test('R1-C2: it comes back with DDIO the other way: read, and not written', async () => {
    const { emulate, dpu, far } = await hosted('--persistent', '1M', '--ddio')
    expect(await emulate.order('host ddio off')).toEqual({ hostNext: { ddio: false } })
    await emulate.order('host reset')
    expect(await emulate.json()).toEqual({ hostOn: { ddio: false, placement: 'bypass' } })
    const refused = far.persist(0, Buffer.from('new')).persisted
    await expect(refused).rejects.toMatchObject({ fault: 'PLACEMENT_WRONG' })
    expect(await textOf(far)).toBe('old')
    await emulate.order('host ddio on')
    await emulate.order('host reset')
    expect(await emulate.json()).toEqual({ hostOn: { ddio: true, placement: 'through' } })
    await far.persist(0, Buffer.from('new')).persisted
    await dpu.close()
  })

  test('R1-C3: a write that is lost on its way is never called durable', async () => {
    const { emulate, dpu, far, near } = await hosted('--persistent', '1M', '--ddio')
    expect(await emulate.order('host lose')).toEqual({ hostLoses: 1 })
    await expect(far.persist(0, Buffer.from('new')).persisted).rejects.toThrow()
    await near.persist(0, Buffer.from('new')).persisted
    await emulate.order('host reset')
    await emulate.json()
    expect(['old', 'new']).toContain(await textOf(far))
    await far.persist(0, Buffer.from('newer')).persisted
    expect(await textOf(far)).toBe('newer')
    await dpu.close()
  })

  test('R1-E1: card and host, in any order, and both as one; then another process', async () => {
    const files = ['part.img', '--create', '--persistent', '1M,host.img', '--ddio']
    const { emulate, dpu, far } = await hosted(...files)
    for (const [line, answers] of [
      ['host off', 1],
      ['card reset', 2],
      ['host on', 1],
      ['card off', 1],
      ['host reset', 2],
      ['card on', 1],
      ['both reset', 4],
    ] as const) {
      await emulate.order(line)
      for (let i = 1; i < answers; i++) await emulate.json()
    }
    await dpu.reconnect()
    expect(await textOf(far)).toBe('old')
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
    const again = new Emulate('--udp', '127.0.0.1:0', ...files)
    const other = await connect(await again.line(), { warn: () => {} })
    expect(await textOf(await other.openRegion('far'))).toBe('old')
    await other.close()
    expect(await again.stop()).toBe(0)
  })

  test('R1-E1: why a region takes no writes is shown, for as long as it is so', async () => {
    const files = ['part.img', '--create', '--persistent', '1M,host.img', '--udp', '127.0.0.1:0']
    const { emulate, address, dpu } = await hosted(...files, '--ddio')
    expect(serves(address)).toEqual({ far: 'read, write', near: 'read, write' })
    await emulate.order('host off')
    expect(serves(address)).toEqual({ far: 'no writes (PLACEMENT_UNKNOWN)', near: 'read, write' })
    await emulate.order('host on')
    expect(serves(address)).toEqual({ far: 'read, write', near: 'read, write' })
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
    // A card whose host passes its caches by does not write what went through them.
    const again = new Emulate(...files)
    expect(serves(await again.line()).far).toBe('no writes (PLACEMENT_WRONG)')
    await again.says(/region 'far': .* through, no writes \(PLACEMENT_WRONG\)\n/)
    await again.says(/region 'near': .* copies\n/)
    expect(await again.stop()).toBe(0)
  })

  test('a line that its console does not know changes nothing, and is told so', async () => {
    const { emulate, dpu, far } = await hosted('--persistent', '1M')
    const lines = ['host', 'host of', 'ddio on', 'card ddio on', 'off', 'host ddio', '\u0001']
    for (const line of lines) emulate.child.stdin!.write(`${line}\n`)
    expect(await emulate.order('host ddio off')).toEqual({ hostNext: { ddio: false } })
    await emulate.says(/is no order: 'help' says which there are/g, 7)
    expect(await textOf(far)).toBe('old')
    emulate.child.stdin!.end()
    await dpu.close()
    expect(await emulate.stop()).toBe(0)
  })
})

const hasLimits = spawnSync('prlimit', ['--version']).status === 0

test.skipIf(!hasLimits)(
  'R31-5: an image that cannot be written is named, and still read',
  async () => {
    const make = [
      'full.img',
      '--create',
      '--region',
      'notes:64:4096',
      '--udp',
      '127.0.0.1:0',
      '--json',
    ]
    const emulate = new Emulate(...make)
    const { address } = await emulate.json()
    const dpu = await connect(address as string, { warn: () => {} })
    const notes = await dpu.openRegion('notes')
    for (const slot of [0, 63]) await notes.persist(slot, Buffer.from('OLDRECORD')).persisted
    // Behind copy A of record 63, and in front of its copy B, the file ends.
    const image = readFileSync(join(folder, 'full.img'))
    const limit = image.lastIndexOf('OLDRECORD') & -4096
    expect(image.indexOf('OLDRECORD')).toBeLessThan(limit)
    spawnSync('prlimit', ['--pid', String(emulate.child.pid), `--fsize=${limit}`])
    const refused = notes.persist(63, Buffer.from('NEWRECORD')).persisted
    await expect(refused).rejects.toThrow()
    await emulate.says(/full\.img cannot be written: the file is too large here \(EFBIG\)/)
    expect(Buffer.from((await notes.read(0)).data).toString()).toBe('OLDRECORD')
    await expect(notes.persist(0, Buffer.from('NEWRECORD')).persisted).rejects.toThrow()
    await dpu.close()
    await emulate.stop('SIGKILL')
    // Whole again, it has one of them; and once it was served, no start brings back an older one.
    const again = new Emulate(...make)
    const other = await connect((await again.json()).address as string, { warn: () => {} })
    const served = await (await other.openRegion('notes')).read(63)
    expect(['OLDRECORD', 'NEWRECORD']).toContain(Buffer.from(served.data).toString())
    expect(await other.status()).toMatchObject({ state: 'serving' })
    await other.close()
    expect(await again.stop()).toBe(0)
  },
)

describe('the command line', () => {
  const wrong: readonly (readonly [string, string])[] = [
    ['--udp', 'nowhere'],
    ['--udp', '127.0.0.1'],
    ['--udp', '127.0.0.1:65536'],
    ['--udp', '::1:4791'],
    ['--netdev', 'tcp:9'],
    ['--netdev', 'unix:'],
    ['--join', 'tcp:9'],
    ['--join', 'unix:'],
    ['--ip', '10.0.0'],
    ['--ip', '10.0.0.256'],
    ['--ip', 'fe80::1%eth0'],
    ['--publish', '64K'],
    ['--publish', '64K@0'],
    ['--publish', '64K@65536'],
    ['--publish', 'much@1'],
    ['--publish', '1@2@3'],
    ['--publish', '64K@7204,'],
    ['--publish', '64K@7204,persist'],
    ['--publish', '64K@7204,moon'],
    ['--publish', '64K@7204,pair'],
    ['--publish', '64K@7204,bypass,through'],
    ['--publish', '64K@7204,through,through'],
    ['--publish', '64K@7204,write-persist,write-persist'],
    ['--publish', '64K@7204,through,'],
    ['--publish', '64K,write-persist'],
    ['--memory', 'heap,1M'],
    ['--memory', 'heap,1000,1000'],
    ['--memory', 'heap,1G,1M'],
    ['--memory', 'heap,1M,4K'],
    ['--persistent', '1000'],
    ['--persistent', '0'],
    ['--persistent', '1M,'],
    ['--persistent', '2G'],
    ['--region', 'far:4@host'],
    ['--region', 'far:4:100@'],
    ['--region', 'far:4:100@moon'],
    ['--region', 'far:4:100@Bypass'],
    ['--region', 'far:4:100@bypass@through'],
    ['--region', 'far:4:100@Pair'],
    ['--region', 'far:4:100@pair@host'],
    ['--region', 'far:4:100@local@pair'],
    ['--region', 'far:4:100@pair@pair'],
  ]

  test.each(wrong)('%s %s is told to be wrong, with exit code 64', async (option, value) => {
    const child = spawn(process.execPath, [COMMAND, 'emulate', option, value])
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const [code] = (await once(child, 'close')) as [number]
    expect(said).toContain(`option '${option} <`)
    expect(code).toBe(64)
  })

  test('addresses of every form are read', () => {
    expect(udpAddress('127.0.0.1:0')).toEqual({ host: '127.0.0.1', port: 0 })
    expect(udpAddress('[::1]:4791')).toEqual({ host: '::1', port: 4791 })
    expect(udpAddress('localhost:65535')).toEqual({ host: 'localhost', port: 65535 })
    const groups = (text: string): string =>
      Buffer.from(ipAddress(text).ipv6 as number[]).toString('hex')
    expect(groups('::')).toBe('0'.repeat(32))
    expect(groups('::1')).toBe(`${'0'.repeat(31)}1`)
    expect(groups('fd00:1::2')).toBe('fd000001000000000000000000000002')
    expect(groups('fd00::')).toBe('fd000000000000000000000000000000')
    expect(groups('1:2:3:4:5:6:7:8')).toBe('00010002000300040005000600070008')
    expect(groups('::ffff:10.0.0.2')).toBe('00000000000000000000ffff0a000002')
    const one = ipAddress('10.0.0.9', ipAddress('fd00::9'))
    expect(one.ipv4).toEqual([10, 0, 0, 9])
    expect(() => ipAddress('10.0.0.8', one)).toThrow(/one of each/)
    expect(() => ipAddress('fd00::8', one)).toThrow(/one of each/)
  })

  test('a port has one region', () => {
    const plain = { bytes: 65536, port: 7204, writePersist: false, placement: 'local' }
    expect(publishRequest('64K@7204')).toEqual([plain])
    const persisting = publishRequest('64K@7204,write-persist')
    expect(persisting).toEqual([{ ...plain, writePersist: true }])
    const through = { ...plain, writePersist: true, placement: 'through' }
    expect(publishRequest('64K@7204,write-persist,through')).toEqual([through])
    expect(publishRequest('64K@7204,through,write-persist')).toEqual([through])
    const host = { ...plain, placement: 'host' }
    expect(publishRequest('64K@7204,host')).toEqual([host])
    expect(() => publishRequest('1@7204', publishRequest('64K@7204'))).toThrow(/already/)
  })
})
