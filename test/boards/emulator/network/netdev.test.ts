/** The Unix socket for virtual machines' network cards and other cards, and its switch. */

import { once } from 'node:events'
import { existsSync, linkSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type JoinedNetdev,
  joinNetdev,
  type Netdev,
  openNetdev,
} from '../../../../boards/emulator/network/netdev.ts'
import { PEERS_MAX } from '../../../../boards/emulator/network/peers.ts'
import { EthernetSwitch, type SwitchPort } from '../../../../boards/emulator/network/switch.ts'

const CARD = [2, 0, 0, 0, 0, 2]
const BROADCAST = [255, 255, 255, 255, 255, 255]

/** An Ethernet frame of `bytes` bytes in all; the rest is the number `fill`. */
function frameOf(to: readonly number[], from: readonly number[], bytes = 60, fill = 7): Buffer {
  const frame = Buffer.alloc(bytes, fill)
  frame.set([...to, ...from, 0x08, 0x00])
  return frame
}

function framed(frame: Uint8Array): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(frame.length)
  return Buffer.concat([length, frame])
}

const macOf = (number: number): number[] => [0x52, 0x54, 0, 0, 0, number]

/** A virtual machine: what QEMU does at its end. */
class Machine {
  readonly socket: Socket
  private bytes = Buffer.alloc(0)
  private wake: () => void = () => {}
  ended = false

  constructor(path: string) {
    this.socket = connect(path)
    this.socket.on('data', (some) => {
      this.bytes = Buffer.concat([this.bytes, some])
      this.wake()
    })
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.ended = true
      this.wake()
    })
  }

  /** The next frame; null once it is unplugged. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      const length = this.bytes.length < 4 ? Number.NaN : this.bytes.readUInt32BE(0)
      if (this.bytes.length >= 4 + length) {
        const frame = this.bytes.subarray(4, 4 + length)
        this.bytes = this.bytes.subarray(4 + length)
        return frame
      }
      if (this.ended) return null
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    }
  }
}

let folder = ''
let path = ''
let network: EthernetSwitch
let netdev: Netdev
/** What the card at the switch got. */
let card: Buffer[]
let cardPort: SwitchPort
let cardHears: () => void

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-netdev-'))
  path = join(folder, 'n')
  network = new EthernetSwitch()
  card = []
  cardHears = () => {}
  cardPort = (frame) => {
    card.push(Buffer.from(frame))
    cardHears()
  }
  network.attach(cardPort, [CARD])
  netdev = await openNetdev(path, network)
})

afterEach(async () => {
  await netdev.close()
  rmSync(folder, { recursive: true })
})

/** Waits until the card has got so many frames in all. */
async function cardHas(count: number): Promise<void> {
  while (card.length < count) {
    await new Promise<void>((resolve) => {
      cardHears = resolve
    })
  }
}

describe('a virtual machine that plugs in', () => {
  test('reaches the card, and the card reaches it', async () => {
    const machine = new Machine(path)
    const there = frameOf(CARD, macOf(1), 1514)
    machine.socket.write(framed(there))
    await cardHas(1)
    expect(card[0]!.equals(there)).toBe(true)
    const back = frameOf(macOf(1), CARD, 99, 1)
    network.forward(cardPort, back)
    expect((await machine.next())!.equals(back)).toBe(true)
    expect(netdev).toMatchObject({ clients: 1, received: 1, sent: 1, dropped: 0, refused: 0 })
  })

  test('may cut its frames into pieces of any size, as streams do', async () => {
    const machine = new Machine(path)
    const frames = Array.from({ length: 20 }, (_, i) => frameOf(CARD, macOf(1), 14 + i * 71, i))
    const stream = Buffer.concat(frames.map(framed))
    for (const piece of [1, 2, 3, 5, 17, 1000, stream.length]) {
      card.length = 0
      for (let at = 0; at < stream.length; at += piece) {
        machine.socket.write(stream.subarray(at, at + piece))
        if (piece < 1000) await new Promise(setImmediate)
      }
      await cardHas(frames.length)
      expect(card.every((frame, i) => frame.equals(frames[i]!))).toBe(true)
    }
  })

  test('reaches its neighbours, but never sees its own frames or theirs to the card', async () => {
    const one = new Machine(path)
    const two = new Machine(path)
    await Promise.all([once(one.socket, 'connect'), once(two.socket, 'connect')])
    one.socket.write(framed(frameOf(BROADCAST, macOf(1), 60, 1)))
    expect((await two.next())![20]).toBe(1)
    await cardHas(1)
    two.socket.write(framed(frameOf(CARD, macOf(2), 60, 2)))
    two.socket.write(framed(frameOf(macOf(1), macOf(2), 60, 3)))
    expect((await one.next())![20]).toBe(3)
    await cardHas(2)
    expect(card.map((frame) => frame[20])).toEqual([1, 2])
    network.forward(cardPort, frameOf(macOf(2), CARD, 60, 4))
    expect((await two.next())![20]).toBe(4)
    expect(netdev).toMatchObject({ clients: 2, received: 3, sent: 3 })
  })

  test('may go at any time, in the middle of a frame too, and others may come', async () => {
    for (let i = 0; i < 5; i++) {
      const machine = new Machine(path)
      machine.socket.write(framed(frameOf(CARD, macOf(1), 60, i)))
      await cardHas(i + 1)
      machine.socket.write(framed(frameOf(CARD, macOf(1), 600)).subarray(0, 100))
      if (i % 2 === 0) machine.socket.end()
      else machine.socket.destroy()
      while (netdev.clients > 0) await new Promise(setImmediate)
    }
    // Nobody has that address any more: it goes to everybody, and there is nobody.
    network.forward(cardPort, frameOf(macOf(1), CARD))
    expect(netdev).toMatchObject({ clients: 0, received: 5, sent: 0, refused: 0 })
  })

  test("cannot take the card's own address over", async () => {
    const machine = new Machine(path)
    machine.socket.write(framed(frameOf(BROADCAST, CARD, 60, 1)))
    machine.socket.write(framed(frameOf(BROADCAST, macOf(1), 60, 2)))
    const other = new Machine(path)
    await cardHas(1)
    other.socket.write(framed(frameOf(CARD, macOf(3), 60, 3)))
    await cardHas(2)
    // What claims to come from the card goes nowhere.
    expect([card.map((frame) => frame[20]), network.claimed]).toEqual([[2, 3], 1])
  })
})

describe('a hostile length', () => {
  const hostile = [0, 1, 13, 4096 + 65536 + 1, 0x7fffffff, 0x80000000, 0xffffffff]

  test.each(hostile)('of %i ends the stream that said it, and no other', async (length) => {
    const good = new Machine(path)
    const bad = new Machine(path)
    const header = Buffer.alloc(4)
    header.writeUInt32BE(length)
    bad.socket.write(Buffer.concat([framed(frameOf(CARD, macOf(1))), header, Buffer.alloc(64)]))
    expect(await bad.next()).toBe(null)
    good.socket.write(framed(frameOf(CARD, macOf(2), 60, 9)))
    await cardHas(2)
    expect(card.map((frame) => frame[20])).toEqual([7, 9])
    expect(netdev).toMatchObject({ refused: 1, received: 2, clients: 1 })
  })

  test('the shortest and the longest frame that there may be are taken', async () => {
    const machine = new Machine(path)
    for (const bytes of [14, 4096 + 65536]) {
      machine.socket.write(framed(frameOf(CARD, macOf(1), bytes)))
    }
    await cardHas(2)
    expect(card.map((frame) => frame.length)).toEqual([14, 4096 + 65536])
  })
})

describe('a switch that joins another one', () => {
  const FAR_CARD = [2, 0, 0, 0, 0, 3]
  let far: EthernetSwitch
  let joined: JoinedNetdev
  let farCard: Buffer[]
  let farPort: SwitchPort
  let farHears: () => void

  beforeEach(async () => {
    far = new EthernetSwitch()
    farCard = []
    farHears = () => {}
    farPort = (frame) => {
      farCard.push(Buffer.from(frame))
      farHears()
    }
    far.attach(farPort, [FAR_CARD])
    joined = await joinNetdev(path, far)
  })

  afterEach(() => joined.close())

  async function farHas(count: number): Promise<void> {
    while (farCard.length < count) {
      await new Promise<void>((resolve) => {
        farHears = resolve
      })
    }
  }

  test('is one network with it, for the cards and for who is behind either', async () => {
    const machine = new Machine(path)
    const there = frameOf(FAR_CARD, macOf(1), 1514)
    machine.socket.write(framed(there))
    await farHas(1)
    expect(farCard[0]!.equals(there)).toBe(true)
    const back = frameOf(macOf(1), FAR_CARD, 99, 1)
    far.forward(farPort, back)
    expect((await machine.next())!.equals(back)).toBe(true)
    far.forward(farPort, frameOf(CARD, FAR_CARD, 60, 2))
    network.forward(cardPort, frameOf(FAR_CARD, CARD, 60, 3))
    await Promise.all([cardHas(1), farHas(2)])
    // The card has got the machine's frame for nobody that it knew, and the far one's for itself.
    expect(card.map((frame) => frame[20]).at(-1)).toBe(2)
    expect(farCard.map((frame) => frame[20])).toEqual([7, 3])
    expect(joined).toMatchObject({ clients: 1, received: 2, sent: 2, dropped: 0, refused: 0 })
  })

  test('may have as many stations behind it as half of a tunnel', async () => {
    const many = 256
    for (let i = 0; i < many; i++) network.forward(cardPort, frameOf(FAR_CARD, [82, 0, 0, 0, 1, i]))
    await farHas(many)
    for (let i = 0; i < many; i++) far.forward(farPort, frameOf([82, 0, 0, 0, 1, i], FAR_CARD))
    expect(joined.sent).toBe(many)
    const port: SwitchPort = () => expect.unreachable('every address is known')
    far.attach(port)
    for (let i = 0; i < many; i++) far.forward(farPort, frameOf([82, 0, 0, 0, 1, i], FAR_CARD))
    far.detach(port)
  })

  test('is told when the other one goes, and may join the next one there', async () => {
    await netdev.close()
    await joined.ended
    expect(joined.clients).toBe(0)
    await expect(joinNetdev(path, far)).rejects.toMatchObject({ code: 'ENOENT' })
    netdev = await openNetdev(path, network)
    joined = await joinNetdev(path, far)
    far.forward(farPort, frameOf(CARD, FAR_CARD, 60, 4))
    await cardHas(1)
    expect(card[0]![20]).toBe(4)
  })

  test('refuses a hostile length, as the other end does', async () => {
    const server = createServer((socket) => {
      const header = Buffer.from([0, 0, 0, 13])
      socket.write(Buffer.concat([framed(frameOf(FAR_CARD, macOf(1), 60, 5)), header]))
    }).listen(join(folder, 'hostile'))
    await once(server, 'listening')
    const other = await joinNetdev(join(folder, 'hostile'), far)
    await other.ended
    expect(other).toMatchObject({ clients: 0, received: 1, refused: 1 })
    expect(farCard.map((frame) => frame[20])).toEqual([5])
    server.close()
  })

  test('finds nobody at a file that is no socket', async () => {
    writeFileSync(join(folder, 'text'), 'mine')
    const joins = joinNetdev(join(folder, 'text'), far)
    await expect(joins).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })
})

test('a machine that does not read loses frames; memory stays bounded', async () => {
  const machine = new Machine(path)
  machine.socket.write(framed(frameOf(CARD, macOf(1))))
  await cardHas(1)
  machine.socket.pause()
  const frame = frameOf(macOf(1), CARD, 60_000)
  const count = 400
  for (let i = 0; i < count; i++) network.forward(cardPort, frame)
  expect(netdev.sent + netdev.dropped).toBe(count)
  expect(netdev.dropped).toBeGreaterThan(count / 2)
})

test('R1-A9: 300 machines that do not read cost little; who reads loses nothing', async () => {
  const deaf: Socket[] = []
  const reader = new Machine(path)
  for (let i = 0; i < 300; i++) {
    const socket = connect(path)
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.pause()
    deaf.push(socket)
  }
  while (netdev.clients < 301) await new Promise(setImmediate)
  let most = 0
  for (let i = 0; i < 60; i++) {
    network.forward(cardPort, frameOf(BROADCAST, CARD, 65_536, i))
    most = Math.max(most, netdev.waiting)
    expect((await reader.next())![100]).toBe(i)
  }
  expect(most).toBeLessThanOrEqual(64 << 20)
  expect(netdev.unplugged).toBeGreaterThan(0)
  expect(reader.ended).toBe(false)
  for (const socket of deaf) socket.destroy()
  while (netdev.clients > 1) await new Promise(setImmediate)
  expect(netdev.waiting).toBe(0)
})

describe('the socket', () => {
  test('that a killed process left behind is replaced', async () => {
    const left = join(folder, 'left')
    const server = createServer().listen(left)
    await once(server, 'listening')
    // As after a kill: the file stays, nobody listens.
    const copy = join(folder, 'kept')
    linkSync(left, copy)
    server.close()
    await once(server, 'close')
    renameSync(copy, left)
    const again = await openNetdev(left, network)
    expect(existsSync(left)).toBe(true)
    await again.close()
    expect(existsSync(left)).toBe(false)
  })

  test('that is listened on, and a file that is no socket, are left alone', async () => {
    await expect(openNetdev(path, network)).rejects.toMatchObject({ code: 'EADDRINUSE' })
    const file = join(folder, 'file')
    writeFileSync(file, 'mine')
    await expect(openNetdev(file, network)).rejects.toMatchObject({ code: 'EADDRINUSE' })
    expect(existsSync(file)).toBe(true)
  })
})

describe('the switch', () => {
  test('forgets the address that it has not heard for longest, and no other', () => {
    const got: number[][] = [[], []]
    const ports = got.map(
      (list): SwitchPort =>
        (frame) =>
          list.push(frame[20]!),
    )
    for (const port of ports) network.attach(port, [], PEERS_MAX)
    const mac = (i: number): number[] => [0x52, 0, 0, 0, i >> 8, i & 0xff]
    for (let i = 0; i <= 1024; i++) network.forward(ports[0]!, frameOf(BROADCAST, mac(i), 60, 0))
    got[1]!.length = 0
    network.forward(cardPort, frameOf(mac(1), CARD, 60, 1))
    expect(got).toEqual([[1], []])
    network.forward(cardPort, frameOf(mac(0), CARD, 60, 2))
    expect(got).toEqual([[1, 2], [2]])
  })

  test('drops what is shorter than an Ethernet header', () => {
    for (let bytes = 0; bytes < 14; bytes++) network.forward(() => {}, new Uint8Array(bytes))
    expect(card).toEqual([])
  })
})
