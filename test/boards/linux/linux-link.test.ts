/**
 * The native runtime's links, except for the raw one, against peers in Node. The C is compiled here
 * with the sanitizers; without a compiler this is skipped.
 */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket as Stream } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { FRAME_BYTES_MAX } from '../../../firmware/board/limits.ts'
import { compile, Harness, LINK_PARTS, noCompiler, titled } from '../../support/native/harness.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 20261121)

const folder = mkdtempSync(join(tmpdir(), 'perdure-links-'))
let program = ''
beforeAll(() => {
  if (noCompiler === null) program = compile('link-harness', LINK_PARTS)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Counters {
  readonly received: number
  readonly receivedBytes: number
  readonly sent: number
  readonly sentBytes: number
  readonly receiveDropped: number
  readonly receiveClaimed: number
  readonly sendDropped: number
  readonly floods: number
}

async function countersOf(harness: Harness): Promise<Counters> {
  return JSON.parse(await harness.ask('counters')) as Counters
}

/** Asks until the counters are as wanted; the test's own limit ends what never happens. */
async function until(harness: Harness, isSo: (counters: Counters) => boolean): Promise<Counters> {
  for (;;) {
    const counters = await countersOf(harness)
    if (isSo(counters)) return counters
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** A frame of so many bytes from a peer of that number, marked with another. */
function frameOf(length: number, from: number, mark: number): Buffer {
  const frame = Buffer.alloc(length, mark & 0xff)
  frame.set([2, 0, 0, 0, 0, 0xaa, 2, 0, 0, 0, from >> 8, from & 0xff].slice(0, length))
  if (length >= 18) frame.writeUInt32LE(mark, 14)
  return frame
}

function echoOf(frame: Buffer): Buffer {
  const echo = Buffer.from(frame)
  frame.copy(echo, 0, 6, 12)
  frame.copy(echo, 6, 0, 6)
  return echo
}

describe.skipIf(noCompiler !== null)(titled('udp'), () => {
  /** Everything that one peer has heard, and a way to wait for more. */
  class Peer {
    readonly heard: Buffer[] = []
    readonly socket: Socket
    private readonly port: number

    constructor(socket: Socket, name: string) {
      this.socket = socket
      this.port = Number(name.split(':').at(-1))
      socket.on('message', (frame) => this.heard.push(frame))
    }

    async send(frame: Uint8Array): Promise<void> {
      const address = this.socket.address().address
      await new Promise((resolve) => this.socket.send(frame, this.port, address, resolve))
    }

    async hears(count: number): Promise<void> {
      while (this.heard.length < count) await once(this.socket, 'message')
    }
  }

  async function peerOf(name: string, port = 0): Promise<Peer> {
    const isIpv6 = name.includes('[')
    const type = isIpv6 ? 'udp6' : 'udp4'
    const socket = createSocket({ type, recvBufferSize: 4 << 20, reuseAddr: port !== 0 })
    socket.bind(port, isIpv6 ? '::1' : '127.0.0.1')
    await once(socket, 'listening')
    return new Peer(socket, name)
  }

  /** How many datagrams the kernel had no room for at that end, which is 'udp:127.0.0.1:PORT'. */
  function dropsAt(name: string): number {
    const port = Number(name.split(':').at(-1)).toString(16).toUpperCase().padStart(4, '0')
    const ends = readFileSync('/proc/net/udp', 'utf8').split('\n')
    const own = ends.find((line) => line.includes(` 0100007F:${port} `))
    return Number(own!.trim().split(' ').at(-1))
  }

  async function echoing(where: string): Promise<{ harness: Harness; name: string }> {
    const { harness, names } = await echoingOver(where)
    return { harness, name: names[0]! }
  }

  async function echoingOver(...where: string[]): Promise<{ harness: Harness; names: string[] }> {
    const harness = new Harness(program, ['echo', ...where])
    const names: string[] = []
    while (names.length < where.length) names.push(await harness.line())
    return { harness, names }
  }

  /** A card of four links, and a peer on each. */
  async function fourLinks(): Promise<{ harness: Harness; peers: Peer[] }> {
    const [v4, v6] = ['udp:127.0.0.1:0', 'udp:[::1]:0']
    const { harness, names } = await echoingOver(v4, v6, v4, v6)
    return { harness, peers: await Promise.all(names.map((name) => peerOf(name))) }
  }

  test('several links: an address stays with that on which it is heard, for a minute', async () => {
    const { harness, peers } = await fourLinks()
    for (let round = 0; round < 40; round++) {
      // A minute of silence later each address speaks from another link.
      await harness.ask('later 60')
      for (const [i, peer] of peers.entries()) {
        const frame = frameOf(64, (i + round) % 4, round * 4 + i)
        await peer.send(frame)
        await peer.hears(round + 1)
        expect(peer.heard[round]!.equals(echoOf(frame))).toBe(true)
      }
    }
    expect(peers.map(({ heard }) => heard.length)).toEqual([40, 40, 40, 40])
    expect(await countersOf(harness)).toMatchObject({ received: 160, sent: 160, receiveDropped: 0 })
    // Within the minute whoever claims it over another link is not heard, whatever else is.
    await harness.ask('later 59')
    for (const [i, peer] of peers.entries()) {
      for (let other = 1; other < 4; other++) {
        await peer.send(frameOf(64, (i + other + 39) % 4, 999))
        const own = frameOf(64, (i + 39) % 4, other)
        await peer.send(own)
        await peer.hears(40 + other)
        expect(peer.heard.at(-1)!.equals(echoOf(own))).toBe(true)
      }
    }
    expect(await countersOf(harness)).toMatchObject({ receiveDropped: 12, receiveClaimed: 12 })
    for (const { socket } of peers) socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('several links: no flood over one of them pushes out who speaks over another', async () => {
    const { harness, peers } = await fourLinks()
    const [victim, crowd] = peers as [Peer, Peer]
    await victim.send(frameOf(64, 60_000, 1))
    await victim.hears(1)
    for (let i = 0; i < 5000; i++) {
      await crowd.send(frameOf(64, i, i))
      if (i % 100 === 99) await crowd.hears(i + 1)
    }
    await crowd.send(frameOf(64, 60_000, 2))
    await until(harness, ({ receiveClaimed }) => receiveClaimed === 1)
    await victim.send(frameOf(64, 60_000, 3))
    await victim.hears(2)
    expect([victim.heard.length, crowd.heard.length]).toEqual([2, 5000])
    for (const { socket } of peers) socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('several links: what is for a group leaves by all of them', async () => {
    const { harness, peers } = await fourLinks()
    for (const [i, peer] of peers.entries()) {
      await peer.send(frameOf(64, i, i))
      await peer.hears(1)
    }
    await harness.ask('send 64 3')
    for (const peer of peers) await peer.hears(4)
    // It says that it is a group: nobody can be that, and the echo goes to that group.
    const frame = frameOf(64, 0, 9)
    frame[6] = 3
    await peers[0]!.send(frame)
    for (const peer of peers) await peer.hears(5)
    for (const { socket } of peers) socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('several links: more addresses than are remembered are reached all the same', async () => {
    const { harness, peers } = await fourLinks()
    const [one, other] = peers as [Peer, Peer]
    const count = 6000
    for (let i = 0; i < count; i++) {
      const peer = i % 2 === 0 ? one : other
      const heard = peer.heard.length
      const frame = frameOf(64, i, i)
      await peer.send(frame)
      await peer.hears(heard + 1)
      expect(peer.heard.at(-1)!.equals(echoOf(frame))).toBe(true)
    }
    expect(one.heard.length + other.heard.length).toBe(count)
    for (const { socket } of peers) socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('several links take turns, a burst each, however much waits at one of them', async () => {
    const { harness, peers } = await fourLinks()
    await harness.ask('pause')
    const [busy, quiet] = peers as [Peer, Peer]
    for (let i = 0; i < 100; i++) await busy.send(frameOf(64, 1, i))
    await quiet.send(frameOf(64, 2, 100))
    const received: number[] = []
    for (let step = 0; step < 5; step++) {
      await harness.ask('step')
      received.push((await countersOf(harness)).received)
    }
    expect(received).toEqual([32, 33, 65, 97, 101])
    for (const { socket } of peers) socket.close()
    expect(await harness.end()).toBe(0)
  })

  test(
    'brings back every length that a frame can have, and counts every other',
    THOROUGH,
    async () => {
      const { harness, name } = await echoing('udp:127.0.0.1:0')
      expect(name).toMatch(/^udp:127\.0\.0\.1:[1-9]\d*$/)
      const peer = await peerOf(name)
      let bytes = 0
      for (let length = 0; length <= FRAME_BYTES_MAX + 40; length++) {
        const isFrame = length >= 14 && length <= FRAME_BYTES_MAX
        if (isFrame) bytes += length
        const heard = peer.heard.length
        await peer.send(frameOf(length, 1, length))
        if (isFrame) await peer.hears(heard + 1)
        if (isFrame)
          expect(peer.heard.at(-1)!.equals(echoOf(frameOf(length, 1, length)))).toBe(true)
      }
      const dropped = 14 + 40
      const counters = await until(harness, (now) => now.receiveDropped === dropped)
      const frames = FRAME_BYTES_MAX - 13
      expect(counters).toEqual({
        received: frames,
        receivedBytes: bytes,
        sent: frames,
        sentBytes: bytes,
        receiveDropped: dropped,
        receiveClaimed: 0,
        sendDropped: 0,
        floods: 0,
      })
      peer.socket.close()
      expect(await harness.end()).toBe(0)
    },
  )

  test.each([
    ['0.0.0.0', ['127.0.0.1', '127.0.0.2', '127.9.8.7']],
    ['[::]', ['::1', '127.0.0.1', '127.0.0.2']],
  ])('R31-3: on %s it answers from the address that it was asked at', async (all, addresses) => {
    const { harness, name } = await echoing(`udp:${all}:0`)
    const port = Number(name.split(':').at(-1))
    const sockets = addresses.map((one) => createSocket(one.includes(':') ? 'udp6' : 'udp4'))
    for (const [i, socket] of sockets.entries()) {
      // A connected socket hears nobody but the one that it asks.
      socket.connect(port, addresses[i]!)
      await once(socket, 'connect')
      const frame = frameOf(64, 1 + i, i)
      socket.send(frame)
      const [answer] = (await once(socket, 'message')) as [Buffer]
      expect(answer.equals(echoOf(frame))).toBe(true)
    }
    for (const socket of sockets) socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('serves bursts in order, however they are cut, with drops in their midst', async () => {
    const { harness, name } = await echoing('udp:[::1]:0')
    const peer = await peerOf(name)
    const random = new Random(SEED)
    for (let round = 0; round < 20; round++) {
      await harness.ask('pause')
      const wanted: Buffer[] = []
      for (let i = 0; i < 90; i++) {
        const isBad = random.chance(0.2)
        const bad = random.chance(0.5) ? random.below(14) : FRAME_BYTES_MAX + 1 + random.below(900)
        const length = isBad ? bad : 14 + random.below(FRAME_BYTES_MAX - 13)
        const frame = frameOf(length, 1, round * 100 + i)
        if (!isBad) wanted.push(echoOf(frame))
        await peer.send(frame)
      }
      const heard = peer.heard.length
      await harness.ask('resume')
      await peer.hears(heard + wanted.length)
      const found = peer.heard.slice(heard)
      expect(Buffer.concat(found).equals(Buffer.concat(wanted)), `SEED=${SEED}`).toBe(true)
    }
    const counters = await countersOf(harness)
    expect(counters.received + counters.receiveDropped).toBe(20 * 90)
    peer.socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('a full socket loses frames, and every one of them is counted', async () => {
    const { harness, name } = await echoing('udp:127.0.0.1:0')
    const peer = await peerOf(name)
    await harness.ask('pause')
    let count = 0
    while (dropsAt(name) === 0) {
      for (let i = 0; i < 1000; i++) await peer.send(frameOf(4000, 1, count++))
    }
    await harness.ask('resume')
    let counters = await countersOf(harness)
    while (counters.received + counters.receiveDropped < count) {
      // What was dropped is told with the next frame that is not.
      await peer.send(frameOf(60, 1, count++))
      counters = await countersOf(harness)
    }
    expect(counters.received + counters.receiveDropped).toBe(count)
    expect(counters.receiveDropped).toBeGreaterThan(0)
    expect(counters.sent + counters.sendDropped).toBe(counters.received)
    peer.socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('an answer goes to whose the address is, a group to everybody', async () => {
    const { harness, name } = await echoing('udp:127.0.0.1:0')
    await harness.ask('send 60 3')
    expect(await countersOf(harness)).toMatchObject({ sent: 0, sendDropped: 3 })
    const [one, other] = [await peerOf(name), await peerOf(name)]
    await one.send(frameOf(60, 1, 1))
    await one.hears(1)
    await other.send(frameOf(60, 2, 2))
    await other.hears(1)
    await other.send(frameOf(60, 3, 3))
    await other.hears(2)
    await harness.ask('send 70 100')
    await one.hears(101)
    await other.hears(102)
    const marks = one.heard.slice(1).map((frame) => frame.readUInt32LE(14))
    expect(marks).toEqual(Array.from({ length: 100 }, (_, i) => i))
    expect(one.heard.length + other.heard.length).toBe(203)
    // Who claims it is not heard while the owner was, within a minute.
    await harness.ask('later 59')
    await one.send(frameOf(60, 1, 4))
    await one.hears(102)
    await harness.ask('later 59')
    await other.send(frameOf(60, 1, 5))
    await until(harness, ({ receiveClaimed }) => receiveClaimed === 1)
    await one.send(frameOf(60, 1, 6))
    await one.hears(103)
    expect([one.heard.length, other.heard.length]).toEqual([103, 102])
    // A minute of silence later it moves to the other peer, and the answer with it.
    await harness.ask('later 60')
    await other.send(frameOf(60, 1, 7))
    await other.hears(103)
    await one.send(frameOf(60, 1, 8))
    await until(harness, ({ receiveClaimed }) => receiveClaimed === 2)
    expect([one.heard.length, other.heard.length]).toEqual([103, 103])
    expect(await countersOf(harness)).toMatchObject({ receiveDropped: 2, sendDropped: 3 })
    for (const peer of [one, other]) peer.socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('a flood of new addresses pushes out those of the flood, and nobody else', async () => {
    const { harness, name } = await echoing('udp:127.0.0.1:0')
    const [first, crowd] = [await peerOf(name), await peerOf(name)]
    await first.send(frameOf(60, 9999, 0))
    await first.hears(1)
    for (let i = 0; i < 3000; i++) {
      await crowd.send(frameOf(60, i, i))
      if (i % 20 === 19) await crowd.hears(i + 1)
    }
    // Its old ones are forgotten, and learned again; the first one's are his.
    await harness.ask('send 60 1')
    await first.hears(2)
    await crowd.hears(3001)
    await crowd.send(frameOf(60, 9999, 0))
    await until(harness, ({ receiveClaimed }) => receiveClaimed === 1)
    await first.send(frameOf(60, 0, 0))
    await first.hears(3)
    expect([first.heard.length, crowd.heard.length]).toEqual([3, 3001])
    for (const peer of [first, crowd]) peer.socket.close()
    expect(await harness.end()).toBe(0)
  })

  test('a peer that vanishes disturbs nobody', async () => {
    const { harness, name } = await echoing('udp:127.0.0.1:0')
    const [one, other] = [await peerOf(name), await peerOf(name)]
    await harness.ask('pause')
    for (let i = 0; i < 50; i++) await one.send(frameOf(60, 1, i))
    await new Promise<void>((resolve) => one.socket.close(resolve))
    await harness.ask('resume')
    for (let i = 0; i < 50; i++) {
      await other.send(frameOf(60, 2, i))
      await other.hears(i + 1)
    }
    expect(await countersOf(harness)).toMatchObject({ received: 100, receiveDropped: 0 })
    other.socket.close()
    expect(await harness.end()).toBe(0)
  })

  /** A port that nobody else gets. Who holds it hears nobody but itself: others may be there. */
  async function heldPort(): Promise<{ port: number; holder: Socket }> {
    const holder = createSocket({ type: 'udp4', reuseAddr: true }).bind(0, '127.0.0.1')
    await once(holder, 'listening')
    const { port } = holder.address()
    holder.connect(port, '127.0.0.1')
    await once(holder, 'connect')
    return { port, holder }
  }

  /** An echo whose one peer has that port; its own is one that was free just now. */
  async function joined(peerPort: number): Promise<{ harness: Harness; port: number }> {
    for (;;) {
      const { port, holder } = await heldPort()
      holder.close()
      await once(holder, 'close')
      const where = `dgram:127.0.0.1:${port},127.0.0.1:${peerPort}`
      const { harness, name } = await echoing(where)
      if (name === where) return { harness, port }
      // Somebody else was faster.
      expect(name).toContain('Address already in use')
      await harness.end()
    }
  }

  test('dgram: one peer, and nobody else; it may come and go', async () => {
    const { port: remotePort, holder } = await heldPort()
    const { harness, port } = await joined(remotePort)
    const remote = await peerOf(`udp:127.0.0.1:${port}`, remotePort)
    await harness.ask('send 60 2')
    await remote.hears(2)
    const stranger = await peerOf(`udp:127.0.0.1:${port}`)
    await stranger.send(frameOf(60, 7, 1))
    await remote.send(frameOf(60, 1, 1))
    await remote.hears(3)
    expect((await countersOf(harness)).received).toBe(1)
    await new Promise<void>((resolve) => remote.socket.close(resolve))
    for (let i = 0; i < 5; i++) await harness.ask('send 60 1')
    const again = await peerOf(`udp:127.0.0.1:${port}`, remotePort)
    await again.send(frameOf(60, 1, 2))
    await again.hears(1)
    const counters = await countersOf(harness)
    expect(counters.sendDropped).toBeGreaterThan(0)
    expect(counters.sent + counters.sendDropped).toBeGreaterThanOrEqual(2 + 1 + 5 + 1)
    for (const socket of [again.socket, stranger.socket, holder]) socket.close()
    expect(await harness.end()).toBe(0)
  })
})

describe.skipIf(noCompiler !== null)(titled('stream'), () => {
  /** A virtual machine's end of the stream. */
  class Machine {
    readonly heard: Buffer[] = []
    private rest: Buffer = Buffer.alloc(0)
    readonly socket: Stream
    /** However it ends: `once` would take an error for the end of waiting. */
    readonly closed: Promise<unknown>

    constructor(socket: Stream) {
      this.socket = socket
      socket.on('error', () => {})
      this.closed = new Promise((resolve) => socket.once('close', resolve))
      socket.on('data', (bytes) => {
        this.rest = Buffer.concat([this.rest, bytes])
        while (this.rest.length >= 4 && this.rest.length >= 4 + this.rest.readUInt32BE(0)) {
          const end = 4 + this.rest.readUInt32BE(0)
          this.heard.push(this.rest.subarray(4, end))
          this.rest = this.rest.subarray(end)
        }
      })
    }

    async hears(count: number): Promise<void> {
      while (this.heard.length < count) {
        await new Promise((resolve) => this.socket.once('data', resolve))
      }
    }
  }

  function framed(frame: Buffer): Buffer {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(frame.length)
    return Buffer.concat([length, frame])
  }

  async function plug(path: string): Promise<Machine> {
    const socket = connect(path)
    await once(socket, 'connect')
    return new Machine(socket)
  }

  async function listening(name: string): Promise<{ harness: Harness; path: string }> {
    const path = join(folder, name)
    const harness = new Harness(program, ['echo', `stream:unix:${path}`])
    expect(await harness.line()).toBe(`stream:unix:${path}`)
    return { harness, path }
  }

  test('brings back every length that a frame can have, and counts the too long', async () => {
    const { harness, path } = await listening('lengths')
    const machine = await plug(path)
    const frames: Buffer[] = []
    for (let length = 14; length <= FRAME_BYTES_MAX + 20; length++) {
      frames.push(frameOf(length, 1, length))
    }
    frames.push(frameOf(4096 + 65536, 1, 0), frameOf(60, 1, 0))
    for (const frame of frames) machine.socket.write(framed(frame))
    const wanted = frames.filter(({ length }) => length <= FRAME_BYTES_MAX).map(echoOf)
    await machine.hears(wanted.length)
    expect(Buffer.concat(machine.heard).equals(Buffer.concat(wanted))).toBe(true)
    expect(await countersOf(harness)).toMatchObject({
      received: wanted.length,
      sent: wanted.length,
      receiveDropped: 21,
      sendDropped: 0,
    })
    machine.socket.destroy()
    expect(await harness.end()).toBe(0)
    expect(existsSync(path)).toBe(false)
  })

  test('a stream may be cut anywhere: every byte alone, and pieces of any size', async () => {
    const { harness, path } = await listening('pieces')
    const machine = await plug(path)
    machine.socket.setNoDelay(true)
    const random = new Random(SEED)
    const frames = Array.from({ length: 200 }, (_, i) => frameOf(14 + random.below(300), 1, i))
    const bytes = Buffer.concat(frames.map(framed))
    for (let at = 0; at < bytes.length; ) {
      const length = at < 200 ? 1 : 1 + random.below(2000)
      await new Promise((resolve) => machine.socket.write(bytes.subarray(at, at + length), resolve))
      at += length
    }
    await machine.hears(frames.length)
    expect(Buffer.concat(machine.heard).equals(Buffer.concat(frames.map(echoOf)))).toBe(true)
    machine.socket.destroy()
    expect(await harness.end()).toBe(0)
  })

  test.each([0, 1, 13, 4096 + 65536 + 1, 0x7fffffff, 0xffffffff])(
    'a length of %i ends the stream that said it, and no other',
    async (length) => {
      const { harness, path } = await listening(`hostile-${length}`)
      const [hostile, honest] = [await plug(path), await plug(path)]
      const word = Buffer.alloc(4)
      word.writeUInt32BE(length)
      hostile.socket.write(Buffer.concat([framed(frameOf(60, 1, 1)), word, Buffer.alloc(100)]))
      await hostile.closed
      honest.socket.write(framed(frameOf(60, 2, 2)))
      await honest.hears(1)
      expect(await countersOf(harness)).toMatchObject({ received: 2, receiveDropped: 1 })
      honest.socket.destroy()
      expect(await harness.end()).toBe(0)
    },
  )

  test('a machine that leaves at once is still heard to its last whole frame', async () => {
    const { harness, path } = await listening('leaving')
    for (let round = 0; round < 10; round++) {
      const machine = await plug(path)
      const bytes = Array.from({ length: 100 }, (_, i) => framed(frameOf(60, 1, i)))
      machine.socket.end(Buffer.concat([...bytes, Buffer.from([0, 0, 1])]))
      await until(harness, (now) => now.received === 100 * (round + 1))
    }
    const counters = await countersOf(harness)
    expect(counters.sent + counters.sendDropped).toBeGreaterThanOrEqual(1000)
    expect(await harness.end()).toBe(0)
  })

  test('a machine that does not read loses frames, counted; the others get theirs', async () => {
    const { harness, path } = await listening('deaf')
    const [deaf, honest] = [await plug(path), await plug(path)]
    deaf.socket.pause()
    honest.socket.write(framed(frameOf(60, 2, 0)))
    await honest.hears(1)
    const count = 2000
    for (let i = 0; i < 20; i++) {
      await harness.ask(`send 4000 ${count / 20}`)
      await honest.hears(1 + ((i + 1) * count) / 20)
    }
    const before = await countersOf(harness)
    expect(before.sendDropped).toBeGreaterThan(0)
    deaf.socket.resume()
    await deaf.hears(2 * count - before.sendDropped - count)
    expect(before.sent + before.sendDropped).toBe(1 + 2 * count)
    for (const machine of [deaf, honest]) machine.socket.destroy()
    expect(await harness.end()).toBe(0)
  })

  test('an address is of one machine, until it is unplugged or silent for a minute', async () => {
    const { harness, path } = await listening('claims')
    const [one, other] = [await plug(path), await plug(path)]
    one.socket.write(framed(frameOf(60, 1, 1)))
    await one.hears(1)
    await harness.ask('later 59')
    other.socket.write(framed(frameOf(60, 1, 2)))
    await until(harness, ({ receiveClaimed }) => receiveClaimed === 1)
    one.socket.write(framed(frameOf(60, 1, 3)))
    await one.hears(2)
    await harness.ask('later 60')
    other.socket.write(framed(frameOf(60, 1, 4)))
    await other.hears(1)
    one.socket.write(framed(frameOf(60, 1, 5)))
    await until(harness, ({ receiveClaimed }) => receiveClaimed === 2)
    const machine = await plug(path)
    other.socket.destroy()
    // Until it is known to be gone it has the address.
    while (machine.heard.length === 0) {
      machine.socket.write(framed(frameOf(60, 1, 6)))
      await harness.ask('step')
    }
    const marks = [one, other].map(({ heard }) => heard.map((frame) => frame.readUInt32LE(14)))
    expect(marks).toEqual([[1, 3], [4]])
    for (const each of [one, machine]) each.socket.destroy()
    expect(await harness.end()).toBe(0)
  })

  test('sixteen machines at a time; one more is turned away, a place is free again', async () => {
    const { harness, path } = await listening('crowd')
    const machines: Machine[] = []
    for (let i = 0; i < 16; i++) {
      const machine = await plug(path)
      machine.socket.write(framed(frameOf(60, i, i)))
      await machine.hears(1)
      machines.push(machine)
    }
    const extra = await plug(path)
    await extra.closed
    machines[3]!.socket.destroy()
    for (;;) {
      const next = await plug(path)
      next.socket.write(framed(frameOf(60, 77, 1)))
      await Promise.race([next.hears(1), next.closed])
      if (next.heard.length === 1) {
        next.socket.destroy()
        break
      }
    }
    machines[5]!.socket.write(framed(frameOf(60, 5, 9)))
    await machines[5]!.hears(2)
    for (const machine of machines) machine.socket.destroy()
    expect(await harness.end()).toBe(0)
  })

  test('takes over the socket of a process that was killed, and nothing else', async () => {
    const path = join(folder, 'taken')
    writeFileSync(path, 'a file')
    const refused = new Harness(program, ['echo', `stream:unix:${path}`])
    expect(await refused.line()).toMatch(/^cannot listen on the Unix socket .*: Address already in/)
    expect(await refused.end()).toBe(1)
    rmSync(path)
    const server = createServer().listen(path)
    await once(server, 'listening')
    const again = new Harness(program, ['echo', `stream:unix:${path}`])
    expect(await again.line()).toMatch(/Address already in use$/)
    expect(await again.end()).toBe(1)
    server.close()
    await once(server, 'close')
    const { harness } = await listening('killed')
    harness.kill()
    await expect(harness.line()).rejects.toThrow('ended')
    const { harness: next } = await listening('killed')
    expect(await next.end()).toBe(0)
  })
})

test.skipIf(noCompiler !== null).each([
  ['', "'' names no link: give packet:INTERFACE"],
  ['eth0', "'eth0' names no link"],
  ['udp:', "'' is no address with a port"],
  ['udp:127.0.0.1', "'127.0.0.1' is no address with a port"],
  ['udp:127.0.0.1:', 'is no address'],
  ['udp:127.0.0.1:-1', 'is no address'],
  ['udp:127.0.0.1:65536', 'is no address'],
  ['udp:127.0.0.1:4791x', 'is no address'],
  ['udp:localhost:4791', 'is no address'],
  ['udp:::1:4791', 'or [::1]:4791 for IPv6'],
  ['udp:[]:1', 'is no address'],
  ['udp:[fe80::1%]:1', 'is no address'],
  ['udp:[fe80::1%no-such-if]:1', 'is no address'],
  ['udp:[fe80::1%-1]:1', 'is no address'],
  [`udp:${'1'.repeat(300)}:1`, 'is no address'],
  ['udp:192.0.2.1:4791', 'cannot listen on UDP 192.0.2.1:4791'],
  ['dgram:127.0.0.1:1', 'needs two addresses'],
  ['dgram:127.0.0.1:1,', 'is no address'],
  ['dgram:,127.0.0.1:1', 'is no address'],
  ['stream:tcp:1', 'give stream:unix:PATH'],
  ['stream:unix:', 'has 1 to 107 bytes'],
  [`stream:unix:/${'a'.repeat(107)}`, 'has 1 to 107 bytes'],
  ['stream:unix:/no/such/folder/x', 'No such file or directory'],
  ['packet:', 'names no interface'],
  ['packet:a-name-that-is-too-long', 'names no interface'],
  ['packet:no-such-if0', 'cannot open the interface no-such-if0'],
])('%j is refused in words', async (where, words) => {
  const harness = new Harness(program, ['echo', where])
  expect(await harness.line()).toContain(words)
  expect(await harness.end()).toBe(1)
})

test.skipIf(noCompiler !== null)('a fifth link is refused, and one that is taken', async () => {
  const free = 'udp:127.0.0.1:0'
  const five = new Harness(program, ['echo', free, free, free, free, free])
  expect(await five.line()).toBe(`'${free}' is one link too many: there may be 4`)
  expect(await five.end()).toBe(1)
  const harness = new Harness(program, ['echo', free])
  const taken = await harness.line()
  const second = new Harness(program, ['echo', free, taken])
  expect(await second.line()).toMatch(/^cannot listen on UDP 127\.0\.0\.1:\d+: Address already/)
  expect(await second.end()).toBe(1)
  expect(await harness.end()).toBe(0)
})
