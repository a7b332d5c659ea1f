/**
 * Emulated cards on one network, each in a process of its own: `perdure emulate --netdev` and
 * `--join`, and records that go through one card into another (`perdure persist --attach`; R1-U4).
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { writeKeyFile } from '../../../boards/software/key-file.ts'
import { createKeyPair, keyText } from '../../../boards/software/keys.ts'
import { portAddresses } from '../../../host-driver/command/emulate/emulate-options.ts'
import { connect, connectTarget, type Dpu } from '../../../host-driver/index.ts'
import { emulateIn, PLAIN, runIn, stop } from '../../support/command/command.ts'
import { PATIENT } from '../../support/run/patience.ts'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../../dist/perdure.js')
const all = mkdtempSync(join(tmpdir(), 'perdure-two-cards-'))
const started: ChildProcess[] = []
let folder = ''
let folders = 0

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})
afterAll(() => rmSync(all, { recursive: true, force: true }))

/** An empty folder, in which the cards of a test have their files. */
function fresh(): void {
  folder = join(all, String(folders++))
  mkdirSync(folder)
}

/** A card, and the lines that it has told. */
type Card = [child: ChildProcess, told: string[]]

/** Starts a card; it serves when it has told where. */
async function emulate(...args: string[]): Promise<Card> {
  const card = await emulateIn(folder, 1, ['--size', '4M', '--json', ...args])
  started.push(card[0])
  return card
}

/** The card that listens, with more options; a host reaches the whole network through it. */
async function startNear(...args: string[]): Promise<Card> {
  const udp = ['--udp', '127.0.0.1:0']
  return await emulate('near.img', '--create', ...udp, '--netdev', 'unix:net', ...args)
}

/** The card that joins, 10.0.0.3, with a region of 64 records. */
async function startFar(...args: string[]): Promise<Card> {
  const region = ['--region', 'orders:64:16K']
  return await emulate(
    'far.img',
    '--create',
    '--join',
    'unix:net',
    '--ip',
    '10.0.0.3',
    ...region,
    ...args,
  )
}

/** Where a host reaches the card that told that. */
function targetOf([, told]: Card): string {
  return (JSON.parse(told[0]!) as { address: string }).address
}

async function hear(card: Card, words: string): Promise<void> {
  const [child, told] = card
  while (!told.some((line) => line.includes(words))) await once(child.stdout!, 'data')
}

async function kill([child]: Card): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

/** Does that with the card at that target. */
async function withCard<T>(target: string, work: (dpu: Dpu) => Promise<T>): Promise<T> {
  const dpu = await connect(target, { ...PATIENT, warn: () => {} })
  try {
    return await work(dpu)
  } finally {
    await dpu.close()
  }
}

/** The far card offers its region at port 7300. */
async function publish(target: string): Promise<void> {
  const publication = { name: 'orders', port: 7300, form: 'capability' } as const
  await withCard(`${target}/10.0.0.3`, (far) => far.publish(publication))
}

const ATTACH = ['--attach', '10.0.0.3:7300']

/** A file of so many bytes, none of them like its neighbour. */
function fileOf(name: string, bytes: number): Buffer {
  const content = Buffer.from(Uint8Array.from({ length: bytes }, (_, i) => i * 31 + (i >> 8)))
  writeFileSync(join(folder, name), content)
  return content
}

/** What is read at the far card, by way of the near one. */
async function readFar(target: string): Promise<Buffer> {
  const args = ['read', `${target}/10.0.0.3`, 'orders', '--out', 'back']
  expect(await runIn(folder, args)).toMatchObject({ code: 0 })
  return readFileSync(join(folder, 'back'))
}

describe('records that go through one card into another', () => {
  test('R1-U4: are durable there, and outlive its end by kill -9', async () => {
    fresh()
    const near = await startNear('--capture', 'near.pcap')
    const target = targetOf(near)
    let far = await startFar('--capture', 'far.pcap')
    await publish(target)
    const content = fileOf('file', 100_000)
    const done = await runIn(folder, ['persist', target, 'orders', 'file', ...ATTACH])
    expect(done.code, done.stderr).toBe(0)
    expect(done.stdout).toMatch(/^durable +7 records, .* in 'orders' of 10\.0\.0\.3$/m)
    expect(done.stdout).toMatch(/^copies +2 of 2$/m)
    expect(await withCard(target, (dpu) => dpu.regions())).toEqual([])
    await kill(far)
    far = await startFar()
    expect((await readFar(target)).equals(content)).toBe(true)
    expect(await stop(far[0])).toBe(0)
    expect(await stop(near[0])).toBe(0)
    const shown = await runIn(folder, ['capture', 'near.pcap'])
    expect(shown.stdout).toMatch(/10\.0\.0\.2 > 10\.0\.0\.3 +WRITE_PERSIST/)
    expect(shown.stdout).toMatch(/10\.0\.0\.3 > 10\.0\.0\.2 +PERSIST_ACK/)
  })

  test('go in batches, too, and to an IPv6 address', async () => {
    fresh()
    const target = targetOf(await startNear())
    await startFar()
    await publish(target)
    const content = fileOf('file', 50_000)
    const attach = ['--attach', '[fd00::3]:7300', '--batch', 'inOrder', '--json']
    const done = await runIn(folder, ['persist', target, 'orders', 'file', ...attach])
    expect(done.code, done.stderr).toBe(0)
    const attached = { address: 'fd00::3', port: 7300 }
    expect(JSON.parse(done.stdout)).toMatchObject({ attached, batches: 1, copies: 2, records: 4 })
    expect((await readFar(target)).equals(content)).toBe(true)
  })

  test('go nowhere where nothing is published, and the region is free again', async () => {
    fresh()
    const target = targetOf(await startNear())
    await startFar()
    fileOf('file', 100)
    const persist = ['persist', target, 'orders', 'file', ...ATTACH]
    const refused = await runIn(folder, persist)
    expect(refused).toMatchObject({ code: 69, stdout: '' })
    expect(refused.stderr).toMatch(/ATTACH_FAILED.*publishes the region on that port/)
    await publish(target)
    expect(await runIn(folder, persist)).toMatchObject({ code: 0 })
  })

  test('that are interrupted leave no region behind', async () => {
    fresh()
    const target = targetOf(await startNear())
    await startFar()
    await publish(target)
    const args = [COMMAND, 'persist', target, 'orders', '-', ...ATTACH]
    const child = spawn(process.execPath, args, { cwd: folder, env: PLAIN })
    started.push(child)
    // More than a pipe holds: it is attached when it reads.
    expect(child.stdin.write(Buffer.alloc(1_000_000))).toBe(false)
    await once(child.stdin, 'drain')
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([null, 'SIGINT'])
    fileOf('file', 100)
    const again = await runIn(folder, ['persist', target, 'orders', 'file', ...ATTACH])
    expect(again.code, again.stderr).toBe(0)
  })
})

describe('records that go through one card with peers into another', () => {
  const keys = { near: createKeyPair(), far: createKeyPair(), operator: createKeyPair() }
  const text = (name: keyof typeof keys): string => keyText(keys[name].public)

  interface Both {
    readonly near: ChildProcess
    /** Each card as a client names it. */
    readonly target: string
    readonly back: string
  }

  /** Both cards have the operator for their admin, and the far one those peers more. */
  async function startBoth(...lines: string[]): Promise<Both> {
    fresh()
    for (const [name, { secret }] of Object.entries(keys)) {
      writeKeyFile(join(folder, `${name}.key`), secret)
    }
    const admin = `${text('operator')} operator admin`
    writeFileSync(join(folder, 'near.peers'), `${admin}\n`)
    writeFileSync(join(folder, 'far.peers'), `${[admin, ...lines].join('\n')}\n`)
    const own = ['--key', 'near.key', '--peers', 'near.peers', '--capture', 'near.pcap']
    const near = await startNear(...own)
    const target = targetOf(near)
    await startFar('--key', 'far.key', '--peers', 'far.peers')
    return { near: near[0], target, back: `${target.replace(text('near'), text('far'))}/10.0.0.3` }
  }

  const run = (...args: string[]) =>
    runIn(folder, args, { PERDURE_KEY: join(folder, 'operator.key') })

  test('R1-S13: go in a session, with tags, where nothing is published', async () => {
    const { near, target, back } = await startBoth(`${text('near')} near-card write:orders`)
    expect(target).toContain(text('near'))
    const content = fileOf('file', 100_000)
    const attach = ['--attach', `perdure://${text('far')}@10.0.0.3`, '--batch', 'inOrder', '--json']
    const done = await run('persist', target, 'orders', 'file', ...attach)
    expect(done.code, done.stderr).toBe(0)
    const attached = { address: '10.0.0.3', cardKey: text('far') }
    expect(JSON.parse(done.stdout)).toMatchObject({ attached, copies: 2, records: 7 })
    expect(await run('read', back, 'orders', '--out', 'back')).toMatchObject({ code: 0 })
    expect(readFileSync(join(folder, 'back')).equals(content)).toBe(true)
    expect(await stop(near)).toBe(0)
    const { stdout } = await runIn(folder, ['capture', 'near.pcap'])
    expect(stdout).toMatch(/10\.0\.0\.2 > 10\.0\.0\.3 .*WRITE_PERSIST/)
    expect(stdout).toMatch(/10\.0\.0\.2 > 10\.0\.0\.3 .*SET CONNECT .*sealed in session/)
  })

  test('R1-S13: go in a session to an IPv6 address, too', async () => {
    const { near, target, back } = await startBoth(`${text('near')} near-card write:orders`)
    const content = fileOf('file', 50_000)
    const attach = ['--attach', `perdure://${text('far')}@[fd00::3]`, '--json']
    const done = await run('persist', target, 'orders', 'file', ...attach)
    expect(done.code, done.stderr).toBe(0)
    const attached = { address: 'fd00::3', cardKey: text('far') }
    expect(JSON.parse(done.stdout)).toMatchObject({ attached, copies: 2, records: 4 })
    expect(await run('read', back, 'orders', '--out', 'back')).toMatchObject({ code: 0 })
    expect(readFileSync(join(folder, 'back')).equals(content)).toBe(true)
    expect(await stop(near)).toBe(0)
    const { stdout } = await runIn(folder, ['capture', 'near.pcap'])
    expect(stdout).toMatch(/fd00::2 > fd00::3 .*WRITE_PERSIST/)
    expect(stdout).toMatch(/fd00::2 > fd00::3 .*SET CONNECT .*sealed in session/)
  })

  test('are refused where the far card has no line for the near one', async () => {
    const { target } = await startBoth()
    fileOf('file', 100)
    const attach = ['--attach', `perdure://${text('far')}@10.0.0.3`]
    const refused = await run('persist', target, 'orders', 'file', ...attach)
    expect(refused).toMatchObject({ code: 69, stdout: '' })
    expect(refused.stderr).toMatch(/RELAY_REFUSED.*add a line for this card's public key/)
  })
})

describe('the network of several cards', () => {
  test('R1-U4: is a tree of as many as one likes, all of them behind one address', async () => {
    fresh()
    const near = await startNear('--publish', '64K@7204')
    const target = targetOf(near)
    await emulate('--join', 'unix:net', '--netdev', 'unix:more', '--ip', '10.0.0.4')
    const leaf = ['--ip', '10.0.0.5', '--publish', '64K@7204']
    const own = await emulate('--join', 'unix:more', '--udp', '127.0.0.1:0', ...leaf)
    expect(targetOf(own)).toMatch(/\/10\.0\.0\.5$/)
    const back = targetOf(own).replace('10.0.0.5', '10.0.0.2')
    for (const way of [`${target}/10.0.0.4`, `${target}/10.0.0.5`, targetOf(own), back]) {
      expect(await withCard(way, (dpu) => dpu.status())).toMatchObject({ state: 'serving' })
    }
    // A client of a port of RDMA-CM finds the card by the same address.
    const other = await connectTarget(`${target}/10.0.0.5`, { port: 7204, capability: false })
    await other.memory.write(64, Buffer.from('far away'))
    await other.memory.flush(64, 8)
    expect(Buffer.from(await other.memory.read(64, 8)).toString()).toBe('far away')
    await other.close()
  })

  test('a card whose cable is pulled serves on, and plugs in again', async () => {
    fresh()
    const near = await startNear()
    const far = await startFar('--udp', '127.0.0.1:0')
    await kill(near)
    await hear(far, '"plugged":false')
    const state = await withCard(targetOf(far), async (dpu) => (await dpu.status()).state)
    expect(state).toBe('serving')
    const again = await startNear()
    await hear(far, '"plugged":true')
    const way = `${targetOf(again)}/10.0.0.3`
    expect(await withCard(way, (dpu) => dpu.regions())).toHaveLength(1)
    expect(await stop(far[0])).toBe(0)
  })

  test('a card that others join plugs in once: it makes no ring', async () => {
    fresh()
    const near = await startNear()
    const args = ['--join', 'unix:net', '--netdev', 'unix:more', '--ip', '10.0.0.4']
    const child = spawn(process.execPath, [COMMAND, 'emulate', ...args], {
      cwd: folder,
      env: PLAIN,
    })
    started.push(child)
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    await once(child.stdout, 'data')
    await kill(near)
    while (!/pulled; the card serves on, without it until its next start/.test(said)) {
      await once(child.stderr, 'data')
    }
    expect(await stop(child)).toBe(0)
  })

  test('a start that finds nobody there is refused, and leaves nothing', async () => {
    fresh()
    const args = ['emulate', 'new', '--create', '--join', 'unix:net', '--ip', '10.0.0.3']
    const refused = await runIn(folder, args)
    expect(refused).toMatchObject({ code: 66, stdout: '' })
    expect(refused.stderr).toMatch(/^perdure: net: it is not there \(ENOENT\)/)
  })
})

describe('the addresses of a card', () => {
  test('of another IPv4 address are others, each of them', () => {
    const [usual, other] = [portAddresses(), portAddresses({ ipv4: [10, 0, 0, 3] })]
    expect(usual).toEqual({ mac: [2, 0, 0, 0, 0, 2], ipv4: [10, 0, 0, 2], ipv6: fd00(0, 0, 2) })
    expect(other).toEqual({ mac: [2, 0, 0, 0, 0, 3], ipv4: [10, 0, 0, 3], ipv6: fd00(0, 0, 3) })
  })

  test('are those that were said, where they were', () => {
    const ipv6 = fd00(9, 9, 9)
    const { mac, ...rest } = portAddresses({ ipv4: [192, 0, 2, 10], ipv6 })
    expect([mac, rest]).toEqual([[2, 0, 0, 0, 2, 10], { ipv4: [192, 0, 2, 10], ipv6 }])
  })
})

/** An address of that prefix, with these three bytes at its end. */
function fd00(...end: number[]): number[] {
  return [0xfd, ...new Array<number>(12).fill(0), ...end]
}
