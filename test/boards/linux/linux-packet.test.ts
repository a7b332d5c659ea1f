/**
 * The native runtime's raw link over a pair of virtual Ethernet interfaces, one of them in a
 * network of its own. Node has no raw sockets: a relay of the same code carries its datagrams to
 * the wire. It takes root and iproute2; without them, or without a compiler, it is skipped.
 */

import { spawnSync } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { isThere, run } from '../../../boards/tools/debian/programs.ts'
import { FRAME_BYTES_MAX } from '../../../firmware/board/limits.ts'
import { Runtime } from '../../support/board/runtime.ts'
import { Besieged, frameOf as packetOf } from '../../support/native/floods.ts'
import { compile, Harness, LINK_PARTS, noCompiler, titled } from '../../support/native/harness.ts'
import { noService, PERDURED, ServiceFolder } from '../../support/native/service.ts'

const SEED = Number(process.env.SEED ?? 20261121)

const SPACE = `perdure-${process.pid}`
const OURS = `pdo${process.pid}`.slice(0, 15)
const THEIRS = `pdt${process.pid}`.slice(0, 15)
const MAC = [2, 0, 0, 0, 0, 2]
const PEER = [2, 0, 0, 0, 0, 1]
const MTU = 5000

/** The network of the pair's other end, and the pair. */
const MAKE = [`netns add ${SPACE}`, `link add ${THEIRS} type veth peer name ${OURS} netns ${SPACE}`]
const REMOVE = [`link del ${THEIRS}`, `netns del ${SPACE}`]

/** What `ip` says against it; null if nothing. */
function tryIp(words: string): string | null {
  const done = spawnSync('ip', words.split(' '), { encoding: 'utf8' })
  return done.status === 0 ? null : done.stderr.trim()
}

/** Why there can be no such pair here; null where there can. */
function missing(): string | null {
  if (noCompiler !== null) return noCompiler
  if (!isThere('ip')) return 'ip is missing (Debian: iproute2)'
  if (process.getuid?.() !== 0) return 'only root makes interfaces'
  // Made to see whether it can be, and gone again: perhaps no test of this file is asked for.
  const [failed] = MAKE.map(tryIp).filter((trouble) => trouble !== null)
  for (const words of REMOVE) tryIp(words)
  return failed === undefined ? null : `no pair of interfaces here: ${failed}`
}

const why = missing()

function ip(words: string): void {
  run('ip', words.split(' '))
}

const text = (mac: readonly number[]): string =>
  mac.map((byte) => byte.toString(16).padStart(2, '0')).join(':')

let program = ''
beforeAll(() => {
  if (why !== null) return
  program = compile('link-harness', LINK_PARTS)
  for (const words of MAKE) ip(words)
  ip(`link set ${THEIRS} address ${text(PEER)} mtu ${MTU} addrgenmode none up`)
  ip(`-n ${SPACE} link set ${OURS} address ${text(MAC)} mtu ${MTU} addrgenmode none up`)
})
afterAll(() => {
  if (why === null) for (const words of REMOVE) tryIp(words)
})

interface Counters {
  readonly received: number
  readonly sent: number
  readonly receiveDropped: number
  readonly sendDropped: number
}

describe.skipIf(why !== null)(titled('packet', why), () => {
  let echo: Harness
  let relay: Harness
  let socket: Socket
  let port = 0
  let heard: Buffer[] = []

  beforeEach(async () => {
    echo = new Harness('ip', ['netns', 'exec', SPACE, program, 'echo', `packet:${OURS}`])
    expect(await echo.line()).toBe(`packet:${OURS}`)
    relay = new Harness(program, ['relay', 'udp:127.0.0.1:0', `packet:${THEIRS}`])
    port = Number(/:(\d+) /.exec(await relay.line())![1])
    heard = []
    socket = createSocket({ type: 'udp4', recvBufferSize: 4 << 20 })
    socket.on('message', (frame) => {
      // The kernels at both ends may speak, too; our frames have a type of their own.
      if (frame.readUInt16BE(12) === 0x88b5 || frame.readUInt16BE(16) === 0x88b5) heard.push(frame)
    })
    socket.bind(0, '127.0.0.1')
    await once(socket, 'listening')
  })
  afterEach(async () => {
    socket.close()
    expect(await relay.end()).toBe(0)
    expect(await echo.end()).toBe(0)
  })

  async function send(frame: Uint8Array): Promise<void> {
    await new Promise((resolve) => socket.send(frame, port, '127.0.0.1', resolve))
  }

  async function hears(count: number): Promise<void> {
    while (heard.length < count) await once(socket, 'message')
  }

  async function counters(): Promise<Counters> {
    return JSON.parse(await echo.ask('counters')) as Counters
  }

  /** How many frames have come to the echo's interface. */
  function arrived(): number {
    const link = spawnSync('ip', ['-n', SPACE, '-s', '-j', 'link', 'show', OURS]).stdout.toString()
    return (JSON.parse(link) as [{ stats64: { rx: { packets: number } } }])[0].stats64.rx.packets
  }

  /** A frame of the type for experiments; `tag` is a VLAN's number. */
  function frameOf(length: number, mark: number, to: readonly number[] = MAC, tag = 0): Buffer {
    const frame = Buffer.alloc(length, mark & 0xff)
    frame.set([...to, ...PEER, ...(tag === 0 ? [] : [0x81, 0, tag >> 8, tag & 255]), 0x88, 0xb5])
    if (length >= 24) frame.writeUInt32LE(mark, 18)
    return frame
  }

  function echoOf(frame: Buffer, from: readonly number[] = MAC): Buffer {
    const answer = Buffer.from(frame)
    answer.set([...PEER, ...from])
    return answer
  }

  test('brings back frames of every length, with a VLAN tag and without', async () => {
    for (const tag of [0, 5, 4095]) {
      heard = []
      let count = 0
      // The kernel drops a tagged frame in which nothing follows the inner type.
      const least = tag === 0 ? 18 : 24
      for (let length = least; length <= FRAME_BYTES_MAX; length += length < 300 ? 1 : 61) {
        await send(frameOf(length, length, MAC, tag))
        await hears(++count)
        const wanted = echoOf(frameOf(length, length, MAC, tag))
        expect(heard.at(-1)!.equals(wanted), `${length} bytes, tag ${tag}`).toBe(true)
      }
    }
    expect(await counters()).toMatchObject({ receiveDropped: 0, sendDropped: 0 })
  })

  test('takes what is for us and for groups, and nothing else', async () => {
    const strangers = [
      [2, 0, 0, 0, 0, 3],
      [2, 0, 0, 0, 1, 2],
      [6, 0, 0, 0, 0, 2],
    ]
    for (const to of strangers) for (let i = 0; i < 20; i++) await send(frameOf(60, i, to))
    const groups = [
      [0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
      [0x33, 0x33, 0xff, 0, 0, 2],
      [1, 0, 0x5e, 0, 0, 1],
    ]
    for (const to of groups) await send(frameOf(60, 100, to))
    await send(frameOf(60, 101))
    await hears(4)
    expect(heard.map((frame) => frame.readUInt32LE(18))).toEqual([100, 100, 100, 101])
    const other = [2, 0, 0, 0, 0, 9]
    await echo.ask(`listen ${text(other)}`)
    await send(frameOf(60, 102))
    await send(frameOf(60, 103, other))
    await hears(5)
    expect(heard[4]!.equals(echoOf(frameOf(60, 103), other))).toBe(true)
  })

  test.each([
    ['IPv4', {}],
    ['IPv6', { isIpv6: true }],
    ['IPv4 with a VLAN tag', { isVlan: true }],
  ])('R1-S13: a flood of packets of %s keeps strangers out, and no client', async (_, options) => {
    const card = await Besieged.of(echo)
    // What is sent comes through the relay: so much has arrived when it is over.
    const through = async (frame: Uint8Array, count: number): Promise<void> => {
      const before = arrived()
      for (let left = count; left > 0; left--) await send(frame)
      while (arrived() < before + count) await new Promise((resolve) => setTimeout(resolve, 1))
    }
    const [client, stranger] = [7, 9].map((host) => ({ ...options, host, isIgnored: host === 9 }))
    expect(await card.let(through, packetOf(client), 1)).toBeGreaterThanOrEqual(1)
    await card.flood(through, packetOf(stranger))
    expect((await card.counters()).floods).toBe(1)
    expect(await card.let(through, packetOf(stranger), 320)).toBeLessThan(160)
    expect(await card.let(through, packetOf(client), 320)).toBeGreaterThanOrEqual(320)
  })

  test('serves bursts in order, however they come', async () => {
    const random = new Random(SEED)
    for (let round = 0; round < 10; round++) {
      heard = []
      await echo.ask('pause')
      const frames = Array.from({ length: 100 }, (_, i) => {
        return frameOf(24 + random.below(FRAME_BYTES_MAX - 24), i)
      })
      for (const frame of frames) await send(frame)
      await echo.ask('resume')
      await hears(100)
      const wanted = Buffer.concat(frames.map((frame) => echoOf(frame)))
      expect(Buffer.concat(heard).equals(wanted), `SEED=${SEED}`).toBe(true)
    }
  })

  test('a full ring loses frames, and every one of them is counted', async () => {
    await echo.ask('pause')
    const count = 3000
    const first = arrived()
    // The relay takes its time, and may lose some, too.
    while (arrived() < first + count) {
      for (let i = 0; i < 100; i++) await send(frameOf(60, i))
    }
    await echo.ask('resume')
    const before = await counters()
    for (let now = before; now.received + now.receiveDropped < count; now = await counters()) {
      // What was dropped is told with a frame that is not.
      await send(frameOf(60, count))
    }
    const after = await counters()
    expect(after.receiveDropped).toBeGreaterThan(500)
    expect(after.received).toBeGreaterThan(500)
  })

  test("frames that do not fit are counted: ours and the interface's limits", async () => {
    await echo.ask(`send ${FRAME_BYTES_MAX + 1} 3`)
    await echo.ask('send 13 2')
    expect(await counters()).toMatchObject({ sent: 0, sendDropped: 5 })
    ip(`-n ${SPACE} link set ${OURS} mtu 1500`)
    const small = new Harness('ip', ['netns', 'exec', SPACE, program, 'echo', `packet:${OURS}`])
    await small.line()
    await small.ask('send 1519 4')
    await small.ask('send 1514 3')
    expect(JSON.parse(await small.ask('counters'))).toMatchObject({ sent: 3, sendDropped: 4 })
    expect(await small.end()).toBe(0)
    ip(`-n ${SPACE} link set ${OURS} mtu ${MTU}`)
  })

  test('an interface that goes down and comes up is served again', async () => {
    await send(frameOf(60, 1))
    await hears(1)
    ip(`-n ${SPACE} link set ${OURS} down`)
    await echo.ask('send 60 3')
    ip(`-n ${SPACE} link set ${OURS} up`)
    while (heard.filter((frame) => frame.readUInt32LE(18) === 2).length === 0) {
      await send(frameOf(60, 2))
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })
})

/** The service itself, on an interface that goes. */
const noInterfaces = why ?? noService
describe.skipIf(noInterfaces !== null)(titled('perdured on an interface', noInterfaces), () => {
  test('R1-A6: down and up again serves on; deleted ends the service', async () => {
    const service = new ServiceFolder()
    const [own, other] = [`pda${process.pid}`.slice(0, 15), `pdb${process.pid}`.slice(0, 15)]
    try {
      ip(`-n ${SPACE} link add ${own} type veth peer name ${other}`)
      for (const one of [own, other]) ip(`-n ${SPACE} link set ${one} addrgenmode none up`)
      const config = service.configure({ link: `packet:${own}`, user: '' })
      const words = ['netns', 'exec', SPACE, PERDURED, '--config', config]
      const runtime = new Runtime('perdured', 'ip', words, service.path)
      service.runtimes.push(runtime)
      await runtime.line()
      ip(`-n ${SPACE} link set ${own} down`)
      expect(await service.ask('status')).toMatchObject({ state: 'serving' })
      ip(`-n ${SPACE} link set ${own} up`)
      expect(await service.ask('status')).toMatchObject({ state: 'serving' })
      ip(`-n ${SPACE} link del ${own}`)
      expect(await runtime.over()).toBe(69)
      expect(runtime.story).toMatch(/the link is gone.*the interface was deleted/)
    } finally {
      await service.close()
    }
  })
})
