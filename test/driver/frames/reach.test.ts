/**
 * How a card is reached by UDP: by every name and address that it has, and what is said where it is
 * not (R31-3).
 */

import { spawn, spawnSync } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  EmulatedDpu,
  Nvdimm,
  openTunnel,
  RealClock,
  type Tunnel,
} from '../../../boards/emulator/index.ts'
import { connect } from '../../../host-driver/connect.ts'
import { openTunnel as openWire, parseTarget } from '../../../host-driver/frames/udp.ts'
import { PATIENCE_MS } from '../../support/run/patience.ts'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../../dist/perdure.js')

describe('a target', () => {
  test.each([
    ['perdure://card', { host: 'card', port: 4791 }],
    ['perdure://card.rack-3.example:1', { host: 'card.rack-3.example', port: 1 }],
    ['PERDURE://10.0.0.9:65535/', { host: '10.0.0.9', port: 65535 }],
    ['perdure://10.0.0.9/10.1.2.3', { host: '10.0.0.9', port: 4791, ipv4: [10, 1, 2, 3] }],
    ['perdure://[fd00::5]:9', { host: 'fd00::5', port: 9 }],
    ['perdure://[fe80::1%eth0]:9', { host: 'fe80::1%eth0', port: 9 }],
    [
      'perdure://[fe80::1%25eth0]/10.0.0.2',
      { host: 'fe80::1%eth0', port: 4791, ipv4: [10, 0, 0, 2] },
    ],
    [`perdure://${'ab'.repeat(32)}@[::1]:9`, { key: 'ab'.repeat(32), host: '::1', port: 9 }],
    ['perdure://[fe80::1%25]', { host: 'fe80::1%25', port: 4791 }],
    ['perdure://[::ffff:10.0.0.1%v0.7]', { host: '::ffff:10.0.0.1%v0.7', port: 4791 }],
  ])('%s', (text, target) => {
    expect(parseTarget(text)).toEqual(target)
  })

  test.each([
    ...['', 'card', 'perdure:card', 'perdure:///', 'perdure://', 'perdure://:4791', 'http://card'],
    ...['perdure://card:0', 'perdure://card:65536', 'perdure://card:x', 'perdure://card:'],
    ...['perdure://card/10.0.0', 'perdure://card/x', 'perdure://card?x', 'perdure://card#x'],
    ...['perdure://me@card', 'perdure://a b', 'perdure://[card]', 'perdure://fd00::5'],
    ...['perdure://[fd00::5', 'perdure://[fd00::5]x', 'perdure://[10.0.0.1]', 'perdure://[::g]'],
    ...[`perdure://${'ab'.repeat(32)}@fd00::5`, `perdure://[${'ab'.repeat(32)}@fd00::5]`],
    ...['perdure://[fe80::1%]', 'perdure://[fe80::1%a/b]', 'perdure://fe80%eth0'],
  ])("'%s' is none", (text) => {
    expect(() => parseTarget(text)).toThrow(/is no target|no port/)
  })
})

/** What a test has to end. */
const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

/** A card at that address and port; its port is returned. */
async function cardAt(host: string, port = 0): Promise<number> {
  return (await cardAtAll([host], port)).port
}

/**
 * A card at those addresses; its port, what takes the address of that number from it, and what has
 * it neither hear nor speak there. The port stays its own then: given back, it could be another's.
 */
async function cardAtAll(
  hosts: readonly string[],
  port = 0,
): Promise<{ port: number; leave(which: number): Promise<void>; silence(which: number): void }> {
  const clock = new RealClock()
  const tunnels: Tunnel[] = []
  const silent = new Set<number>()
  const card = new EmulatedDpu({
    nvdimm: new Nvdimm({ bytes: 1 << 18 }),
    ...{ clock, engine: 'node', seed: 1 },
    transmit: (frame) => {
      tunnels.forEach((tunnel, which) => {
        if (!silent.has(which)) tunnel.send(frame)
      })
    },
  })
  for (const [which, host] of hosts.entries()) {
    const receive = (frame: Uint8Array): void => {
      if (!silent.has(which)) card.deliver(frame)
    }
    tunnels.push(await openTunnel({ host, port: tunnels[0]?.port ?? port, receive }))
  }
  await card.powerOn()
  ends.push(async () => {
    for (const tunnel of tunnels) await tunnel.close()
    clock.close()
  })
  return {
    port: tunnels[0]!.port,
    leave: async (which) => {
      for (const tunnel of tunnels.splice(which, 1)) await tunnel.close()
    },
    silence: (which) => void silent.add(which),
  }
}

/** Somebody who listens there, and never answers. */
async function silentAt(address: string, port: number): Promise<Socket> {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
  socket.bind(port, address)
  await once(socket, 'listening')
  ends.push(() => socket.close())
  return socket
}

/** Each client has a seed, hence an address, of its own: two do not share one within a minute. */
let clients = 0

/** The state of the card, asked by a name of those addresses; or what was said instead. */
async function askAt(
  port: number,
  addresses: readonly string[],
  timeoutMs = PATIENCE_MS,
): Promise<string> {
  const wire = await openWire({ host: 'name', port }, async () => addresses)
  try {
    const dpu = await connect(wire, { seed: ++clients, timeoutMs, warn: () => {} })
    const { state } = await dpu.status()
    await dpu.close()
    return state
  } catch (error) {
    return (error as Error).message
  }
}

describe('R31-3: a name with several addresses', () => {
  test('the first one refuses, or is silent: the one behind it is found', async () => {
    const port = await cardAt('127.0.0.2')
    expect(await askAt(port, ['127.0.0.3', '127.0.0.2'])).toBe('blank')
    await silentAt('127.0.0.3', port)
    expect(await askAt(port, ['127.0.0.3', '127.0.0.2'])).toBe('blank')
    expect(await askAt(port, ['127.0.0.2', '127.0.0.3'])).toBe('blank')
  })

  test('of either family: one that cannot even be sent to, then one that refuses', async () => {
    const port = await cardAt('127.0.0.2')
    const addresses = ['fe80::1', '::1', '127.0.0.3', '127.0.0.2']
    expect(await askAt(port, addresses)).toBe('blank')
  })

  test('the addresses that lost are closed, and hear nothing more', async () => {
    const port = await cardAt('127.0.0.2')
    const silent = await silentAt('127.0.0.3', port)
    let heard = 0
    silent.on('message', () => heard++)
    const wire = await openWire({ host: 'name', port }, async () => ['127.0.0.3', '127.0.0.2'])
    const dpu = await connect(wire, { seed: 1, timeoutMs: PATIENCE_MS, warn: () => {} })
    const before = heard
    for (let i = 0; i < 20; i++) await dpu.status()
    expect(heard).toBe(before)
    expect(wire.tried?.()).toBe(`127.0.0.2:${port} (no answer)`)
    await dpu.close()
  })

  test.each([
    ['refuses', false],
    ['is silent', true],
  ])('the one in use %s: the connection is made again at another', async (_, isSilent) => {
    const { port, leave, silence } = await cardAtAll(['127.0.0.2', '127.0.0.3'])
    const wire = await openWire({ host: 'name', port }, async () => ['127.0.0.2', '127.0.0.3'])
    const dpu = await connect(wire, { seed: 1, timeoutMs: PATIENCE_MS, warn: () => {} })
    await dpu.format()
    const region = await dpu.provision({ name: 'r', slots: 4, capacity: 64 })
    await region.persist(0, Buffer.alloc(64, 1)).persisted
    if (isSilent) silence(0)
    else await leave(0)
    await region.persist(0, Buffer.alloc(64, 2)).persisted
    expect((await region.read(0)).data[0]).toBe(2)
    expect(wire.tried?.()).toBe(`127.0.0.3:${port} (no answer)`)
    await dpu.close()
  })

  test('where none answers, all that was tried is named, and how', async () => {
    const silent = await silentAt('127.0.0.3', 0)
    const { port } = silent.address()
    const said = await askAt(port, ['127.0.0.2', '127.0.0.3'], 5000)
    expect(said).toContain('did not answer within 5000 ms')
    expect(said).toContain(`127.0.0.2:${port} (refused), 127.0.0.3:${port} (no answer)`)
  })

  test('a name that is none, or has no address, is PERDURE_UNREACHABLE', async () => {
    const unknown = openWire({ host: 'card.invalid', port: 1 })
    await expect(unknown).rejects.toMatchObject({
      code: 'PERDURE_UNREACHABLE',
      message: expect.stringContaining("'card.invalid' does not resolve"),
    })
    const none = openWire({ host: 'name', port: 1 }, async () => [])
    await expect(none).rejects.toMatchObject({ code: 'PERDURE_UNREACHABLE' })
    const local = openWire({ host: 'name', port: 1 }, async () => ['fe80::1'])
    await expect(local).rejects.toMatchObject({
      code: 'PERDURE_UNREACHABLE',
      message: expect.stringContaining('[fe80::1]:1'),
    })
  })

  test('the command says so, with exit code 69', () => {
    const target = 'perdure://card.invalid'
    const { status, stderr } = spawnSync(process.execPath, [COMMAND, 'inspect', target], {
      encoding: 'utf8',
    })
    expect(stderr).toContain("'card.invalid' does not resolve to an address")
    expect(status).toBe(69)
  })
})

describe('R31-3: a card on all addresses of its machine', () => {
  test.each([
    ['0.0.0.0', ['127.0.0.1', '127.0.0.2', '127.9.8.7', '0.0.0.0']],
    ['::', ['[::1]', '127.0.0.1', '127.0.0.2', '[::]']],
  ])('%s: answers from the one that it was asked at', async (all, hosts) => {
    const port = await cardAt(all)
    for (const host of hosts) {
      const dpu = await connect(`perdure://${host}:${port}`, {
        timeoutMs: PATIENCE_MS,
        warn: () => {},
      })
      expect(await dpu.status()).toMatchObject({ state: 'blank' })
      await dpu.close()
    }
  })

  test('has its port alone', async () => {
    const port = await cardAt('0.0.0.0')
    for (const host of ['0.0.0.0', '127.0.0.1']) {
      await expect(openTunnel({ host, port, receive: () => {} })).rejects.toMatchObject({
        code: 'EADDRINUSE',
      })
    }
  })
})

/** Runs lines of a shell in a network of its own; what they print. */
const NETWORK = ['unshare', '--map-root-user', '--net'] as const
const [unshare, ...unshared] = NETWORK
const hasNetwork = spawnSync(unshare, [...unshared, 'ip', 'link']).status === 0

describe.skipIf(!hasNetwork)('R31-3: an address of the link alone', () => {
  let printed = ''
  let inspected = ''

  beforeAll(async () => {
    // No address is a duplicate where nobody else is, and it is there at once.
    const script = [
      'echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad',
      'ip link set lo up && ip link add v0 type veth peer name v1',
      'ip link set v0 up && ip link set v1 up',
      'address() { ip -6 -o addr show dev v0 scope link | grep -o "fe80::[0-9a-f:]*"; }',
      'until A=$(address); do sleep 0.1; done',
      `exec "$1" "$2" emulate --size 1M --udp "[$A%v0]:0"`,
    ].join('\n')
    const args = [...unshared, 'bash', '-c', script, 'bash', process.execPath, COMMAND]
    const child = spawn(unshare, args, { stdio: ['ignore', 'pipe', 'ignore'] })
    try {
      const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
      printed = line
      const inside = ['--target', String(child.pid), '--user', '--net', '--preserve-credentials']
      const inspect = ['nsenter', ...inside, process.execPath, COMMAND, 'inspect', printed]
      inspected = spawnSync(inspect[0]!, inspect.slice(1), { encoding: 'utf8' }).stdout
    } finally {
      child.kill('SIGKILL')
    }
  })

  test('what the emulator prints, a command takes', () => {
    expect(printed).toMatch(/^perdure:\/\/\[fe80::[\da-f:]+%v0\]:\d+$/)
    expect(inspected).toMatch(/^state +serving/)
  })
})
