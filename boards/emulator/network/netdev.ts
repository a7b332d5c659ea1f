/**
 * Cables of a switch that are Unix sockets, with the framing of QEMU's stream network backend. At
 * one end somebody listens, at the other are the network cards of virtual machines, or the switch
 * of another emulated card.
 *
 *     qemu-system-x86_64 … -netdev stream,id=n0,server=off,addr.type=unix,addr.path=PATH \
 *                          -device virtio-net-pci,netdev=n0
 *
 *       0       1       2       3       4
 *     +-------+-------+-------+-------+---------------------------+
 *     |  length of the frame, bytes   |  Ethernet frame, no FCS   |   both ways
 *     +-------+-------+-------+-------+---------------------------+
 *
 * Invariants:
 * - Any number of machines come and go; each is one stream, and one port of the switch behind this.
 * - A length that no Ethernet frame has ends the stream that said it, at either end: what follows
 *   it cannot be told apart. Nobody else notices.
 * - A machine that does not read loses frames, as behind a full queue. What waits for all of them
 *   together is bounded, however many there are: where there is no room, the one with most waiting
 *   is unplugged, so nobody who reads loses by those who do not.
 * - A switch has no spanning tree: a ring of cables would pass frames on for ever. Who joins and
 *   listens therefore joins first, and once: so each cable leads to who listened before.
 */

import { once } from 'node:events'
import { connect, type Server, type Socket } from 'node:net'
import { having, TEXT } from '../../kinds.ts'
import { listenOn } from '../../listen.ts'
import { check, NETWORK } from '../base/arguments.ts'
import { ENDPOINT_PEERS_MAX, NETWORK_PEERS_MAX } from './peers.ts'
import type { EthernetSwitch, SwitchPort } from './switch.ts'

const LENGTH_BYTES = 4

/** The shortest Ethernet frame has a header; the longest is what QEMU itself takes. */
const FRAME_BYTES_MIN = 14
const FRAME_BYTES_MAX = 4096 + 65536

/** What may wait for one machine, bytes. */
const WAITING_BYTES_MAX = 4 << 20

/** Addresses behind a stream that leads to a network; a tunnel may have as many, and more. */
const JOINED_PEERS_MAX = NETWORK_PEERS_MAX / 2

/** What may wait for all of them, bytes. */
const ALL_WAITING_BYTES_MAX = 64 << 20

const SERVER = having(['on', 'listen', 'close'], 'a server')
const SOCKET = having(['on', 'write', 'destroy'], 'a socket')

/** One that is plugged in, and the bytes that wait for it. */
interface Machine {
  readonly socket: Socket
  waiting: number
}

/** Streams that are ports of a switch, whoever has opened them. */
class Streams {
  /** Machines that are plugged in now, and those that were thrown out for a hostile length. */
  clients = 0
  refused = 0
  /** Frames that came and went, and frames for machines that did not read. */
  received = 0
  sent = 0
  dropped = 0
  /** Machines that were unplugged as most of all waited for them, and the bytes that wait. */
  unplugged = 0
  waiting = 0
  private readonly network: EthernetSwitch
  private readonly machines = new Set<Machine>()

  constructor(network: EthernetSwitch) {
    check('network', network, NETWORK)
    this.network = network
  }

  /** The stream is a port, behind which `most` addresses may be. */
  protected plug(socket: Socket, most: number = ENDPOINT_PEERS_MAX): void {
    this.clients++
    const machine: Machine = { socket, waiting: 0 }
    this.machines.add(machine)
    const port: SwitchPort = (frame) => this.send(machine, frame)
    this.network.attach(port, [], most)
    let rest: Buffer = Buffer.alloc(0)
    socket.on('data', (bytes) => {
      const left = this.take(rest.length === 0 ? bytes : Buffer.concat([rest, bytes]), port)
      if (left === null) {
        this.refused++
        socket.destroy()
      } else rest = left
    })
    // A machine that is gone is unplugged, however it went.
    socket.on('error', () => {})
    socket.on('close', () => {
      this.clients--
      this.forget(machine)
      this.network.detach(port)
    })
  }

  /** Hands on every whole frame; returns what is left, or null where the stream is hostile. */
  private take(bytes: Buffer, port: SwitchPort): Buffer | null {
    let at = 0
    while (bytes.length - at >= LENGTH_BYTES) {
      const length = bytes.readUInt32BE(at)
      if (length < FRAME_BYTES_MIN || length > FRAME_BYTES_MAX) return null
      if (bytes.length - at < LENGTH_BYTES + length) break
      this.received++
      const frameAt = at + LENGTH_BYTES
      this.network.forward(port, bytes.subarray(frameAt, frameAt + length))
      at = frameAt + length
    }
    return bytes.subarray(at)
  }

  private send(machine: Machine, frame: Uint8Array): void {
    const { socket } = machine
    const bytes = LENGTH_BYTES + frame.length
    const isFull = machine.waiting + bytes > WAITING_BYTES_MAX
    if (!isFull && this.waiting + bytes > ALL_WAITING_BYTES_MAX) this.makeRoom()
    if (isFull || socket.destroyed) {
      this.dropped++
      return
    }
    this.sent++
    const framed = Buffer.allocUnsafe(bytes)
    framed.writeUInt32BE(frame.length, 0)
    framed.set(frame, LENGTH_BYTES)
    machine.waiting += bytes
    this.waiting += bytes
    socket.write(framed, () => {
      if (!this.machines.has(machine)) return
      machine.waiting -= bytes
      this.waiting -= bytes
    })
  }

  /** Unplugs the machine for which most waits: it has not read for the longest. */
  private makeRoom(): void {
    let slowest: Machine | null = null
    for (const one of this.machines) {
      if (slowest === null || one.waiting > slowest.waiting) slowest = one
    }
    this.unplugged++
    this.forget(slowest!)
    slowest!.socket.destroy()
  }

  private forget(machine: Machine): void {
    if (this.machines.delete(machine)) this.waiting -= machine.waiting
  }

  /** Unplugs every one that is plugged in. */
  protected unplug(): void {
    for (const { socket } of this.machines) socket.destroy()
  }
}

/** The end that listens: each stream that comes is a port. */
export class Netdev extends Streams {
  private readonly server: Server

  constructor(server: Server, network: EthernetSwitch) {
    super(network)
    check('server', server, SERVER)
    this.server = server
    server.on('connection', (socket) => this.plug(socket))
  }

  /** Stops listening and unplugs every machine; the socket's file is gone afterwards. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close')
    this.server.close()
    this.unplug()
    await closed
  }
}

/** The end that has come: one stream, and a whole network behind it. */
export class JoinedNetdev extends Streams {
  /** Resolves when the stream is over, however that came. */
  readonly ended: Promise<void>

  constructor(socket: Socket, network: EthernetSwitch) {
    super(network)
    check('socket', socket, SOCKET)
    this.ended = new Promise((resolve) => socket.once('close', () => resolve()))
    this.plug(socket, JOINED_PEERS_MAX)
  }

  async close(): Promise<void> {
    this.unplug()
    await this.ended
  }
}

/**
 * Listens on a Unix socket for virtual machines, which become ports of `network`. Rejects as
 * `listenOn` does.
 */
export async function openNetdev(path: string, network: EthernetSwitch): Promise<Netdev> {
  check('path', path, TEXT)
  check('network', network, NETWORK)
  return new Netdev(await listenOn(path), network)
}

/**
 * Plugs `network` into the Unix socket on which another one listens. Rejects with the system's
 * errors: ENOENT, or ECONNREFUSED where nobody listens.
 */
export async function joinNetdev(path: string, network: EthernetSwitch): Promise<JoinedNetdev> {
  check('path', path, TEXT)
  check('network', network, NETWORK)
  const socket = connect(path)
  await once(socket, 'connect')
  return new JoinedNetdev(socket, network)
}
