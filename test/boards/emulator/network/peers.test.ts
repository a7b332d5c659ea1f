/** Whose an Ethernet address is: the table, the switch and the tunnel that go by it. */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import {
  ENDPOINT_PEERS_MAX,
  NETWORK_PEERS_MAX,
  PEER_OWNED_US,
  PEER_SETTLES_US,
  PEERS_MAX,
  Peers,
  SETTLED_MAX,
} from '../../../../boards/emulator/network/peers.ts'
import { EthernetSwitch, type SwitchPort } from '../../../../boards/emulator/network/switch.ts'
import { openTunnel } from '../../../../boards/emulator/network/tunnel.ts'

/** A table in a time of its own. */
class Timed {
  nowUs = 0
  readonly peers: Peers<string> = new Peers(() => this.nowUs)

  hear(mac: string, at: string): boolean {
    return this.peers.hear(mac, at, at)
  }

  /** So many new addresses, each from an endpoint of its own. */
  flood(name: string, count: number): void {
    for (let i = 0; i < count; i++) {
      expect(this.hear(`${name} ${i}`, `${name} at ${i}`)).toBe(true)
    }
  }
}

describe('an address', () => {
  test('stays until it was not heard for a minute, and moves then', () => {
    const table = new Timed()
    expect(table.hear('m', 'owner')).toBe(true)
    for (const silentUs of [0, 1, PEER_SETTLES_US, PEER_OWNED_US - 1]) {
      table.nowUs += silentUs
      expect(table.hear('m', 'other'), `${silentUs}`).toBe(false)
      expect(table.peers.find('m')).toBe('owner')
      expect(table.hear('m', 'owner')).toBe(true)
    }
    table.nowUs += PEER_OWNED_US
    expect(table.hear('m', 'other')).toBe(true)
    expect([table.peers.find('m'), table.hear('m', 'owner')]).toEqual(['other', false])
    expect([...table.peers.everybody()]).toEqual(['other'])
  })

  test('is not kept any longer by claims, and not given any earlier', () => {
    const table = new Timed()
    table.hear('m', 'owner')
    for (let us = 0; us < PEER_OWNED_US; us += PEER_SETTLES_US) {
      table.nowUs = us
      expect(table.hear('m', 'other')).toBe(false)
    }
    table.nowUs = PEER_OWNED_US
    expect(table.hear('m', 'other')).toBe(true)
  })

  test('is free when its endpoint leaves', () => {
    const table = new Timed()
    for (const mac of ['m', 'n']) table.hear(mac, 'owner')
    table.peers.leave('owner')
    expect([table.peers.size, table.hear('m', 'other')]).toEqual([0, true])
  })

  test('makes room for another of its endpoint, and for nobody else, while there is room', () => {
    const table = new Timed()
    table.hear('m', 'owner')
    for (let i = 0; i < 10 * ENDPOINT_PEERS_MAX; i++) table.hear(`f ${i}`, 'crowd')
    expect(table.peers.size).toBe(1 + ENDPOINT_PEERS_MAX)
    expect(table.peers.find(`f ${9 * ENDPOINT_PEERS_MAX - 1}`)).toBeUndefined()
    expect(table.peers.find(`f ${9 * ENDPOINT_PEERS_MAX}`)).toBe('crowd')
    expect(table.peers.find('m')).toBe('owner')
  })

  test('that has settled makes room for no flood, from however many endpoints', () => {
    const table = new Timed()
    table.hear('m', 'owner')
    table.nowUs += PEER_SETTLES_US
    table.hear('m', 'owner')
    table.flood('new', 3 * PEERS_MAX)
    expect(table.peers.size).toBe(PEERS_MAX)
    expect([table.peers.find('m'), table.hear('m', 'other')]).toEqual(['owner', false])
    // Nor does a flood that settles, where it can.
    table.nowUs += PEER_SETTLES_US
    for (let i = 0; i < 3 * PEERS_MAX; i++) table.hear(`new ${i}`, `new at ${i}`)
    expect(table.hear('m', 'other')).toBe(false)
  })

  test('that is new finds room, however many have settled; the idle go for it', () => {
    const table = new Timed()
    table.flood('old', SETTLED_MAX)
    table.nowUs += PEER_SETTLES_US
    table.flood('old', SETTLED_MAX)
    table.flood('new', 2 * PEERS_MAX)
    expect(table.peers.find('old 0')).toBe('old at 0')
    expect(table.peers.find(`new ${2 * PEERS_MAX - 1}`)).toBeDefined()
    table.nowUs += PEER_OWNED_US
    table.hear('late', 'late')
    expect(table.peers.find('old 0')).toBeUndefined()
    expect(table.peers.find('old 1')).toBe('old at 1')
  })
})

/** An Ethernet header with those last bytes of destination and source, which says `mark`. */
function frameOf(to: number, from: number, mark: number): Buffer {
  const frame = Buffer.alloc(60, mark)
  frame.set([2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from])
  return frame
}

test('the switch: what claims an address of another port, or the card’s, is dropped', () => {
  let nowUs = 0
  const network = new EthernetSwitch(() => nowUs)
  const heard: Record<string, number[]> = { card: [], one: [], other: [] }
  const port =
    (name: string): SwitchPort =>
    (frame) =>
      heard[name]!.push(frame[20]!)
  const [card, one, other] = [port('card'), port('one'), port('other')]
  network.attach(card, [[2, 0, 0, 0, 0, 9]])
  for (const each of [one, other]) network.attach(each)
  network.forward(one, frameOf(9, 1, 10))
  nowUs += PEER_OWNED_US - 1
  network.forward(other, frameOf(9, 1, 11))
  network.forward(other, frameOf(1, 9, 12))
  network.forward(card, frameOf(1, 9, 13))
  expect([heard, network.claimed]).toEqual([{ card: [10], one: [13], other: [] }, 2])
  nowUs++
  network.forward(other, frameOf(9, 1, 14))
  network.forward(card, frameOf(1, 9, 15))
  expect(heard).toEqual({ card: [10, 14], one: [13], other: [15] })
  network.detach(other)
  network.forward(one, frameOf(9, 1, 16))
  expect([heard.card, network.claimed]).toEqual([[10, 14, 16], 2])
})

test('the switch: no flood through the tunnel pushes out a machine at another port', () => {
  let nowUs = 0
  const network = new EthernetSwitch(() => nowUs)
  const heard: number[] = []
  const card: SwitchPort = (frame) => void heard.push(frame[20]!)
  const [tunnel, machine]: SwitchPort[] = [() => {}, () => {}]
  network.attach(card, [[2, 0, 0, 0, 0, 9]])
  network.attach(tunnel!, [], NETWORK_PEERS_MAX)
  const flood = (from: number, count: number): void => {
    for (let i = from; i < from + count; i++) {
      const frame = frameOf(9, 0, 0)
      frame.set([0x02, 7, 0, i >> 16, (i >> 8) & 255, i & 255], 6)
      network.forward(tunnel!, frame)
    }
  }
  // Somebody has as many addresses as settle; the machine comes later.
  for (let round = 0; round < 2; round++, nowUs += PEER_SETTLES_US) flood(0, SETTLED_MAX)
  network.attach(machine!)
  network.forward(machine!, frameOf(9, 1, 1))
  nowUs += PEER_SETTLES_US
  network.forward(machine!, frameOf(9, 1, 2))
  flood(SETTLED_MAX, PEERS_MAX)
  heard.length = 0
  network.forward(tunnel!, frameOf(9, 1, 3))
  network.forward(machine!, frameOf(9, 1, 4))
  expect([heard, network.claimed]).toEqual([[4], 1])
})

test('the tunnel: a forged frame neither reaches the card nor draws answers away', async () => {
  let nowUs = 0
  const heard: number[] = []
  const tunnel = await openTunnel({
    receive: (frame) => {
      heard.push(frame[20]!)
      tunnel.send(frameOf(frame[11]!, 9, frame[20]!))
    },
    now: () => nowUs,
  })
  const open = async (): Promise<{ socket: Socket; got: number[]; send(mark: number): void }> => {
    const got: number[] = []
    const socket = createSocket('udp4').bind(0, '127.0.0.1')
    await once(socket, 'listening')
    socket.on('message', (frame) => got.push(frame[20]!))
    return { socket, got, send: (mark) => socket.send(frameOf(9, 1, mark), tunnel.port) }
  }
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  const [victim, eve] = [await open(), await open()]
  try {
    victim.send(1)
    await until(() => victim.got.length === 1)
    nowUs += PEER_OWNED_US - 1
    eve.send(2)
    await until(() => tunnel.claimed === 1)
    tunnel.send(frameOf(1, 9, 3))
    tunnel.send(Buffer.concat([Buffer.alloc(6, 255), frameOf(1, 9, 4).subarray(6)]))
    await until(() => victim.got.length === 3)
    expect([heard, victim.got, eve.got]).toEqual([[1], [1, 3, 4], []])
    nowUs++
    eve.send(5)
    await until(() => eve.got.length === 1)
    expect([heard, victim.got, eve.got]).toEqual([[1, 5], [1, 3, 4], [5]])
  } finally {
    for (const { socket } of [victim, eve]) socket.close()
    await tunnel.close()
  }
})
