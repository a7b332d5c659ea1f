/**
 * The network cards of virtual machines: QEMU's stream network backend over a Unix socket.
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
 * - A length that no Ethernet frame has ends the stream that said it: what follows it cannot be
 *   told apart. Nobody else notices.
 * - A machine that does not read loses frames, as behind a full queue. What waits for all of them
 *   together is bounded, however many there are: where there is no room, the one with most waiting
 *   is unplugged, so nobody who reads loses by those who do not.
 */

import { once } from 'node:events'
import type { Server, Socket } from 'node:net'
import { having, TEXT } from '../../kinds.ts'
import { listenOn } from '../../listen.ts'
import { check, NETWORK } from '../base/arguments.ts'
import type { EthernetSwitch, SwitchPort } from './switch.ts'

const LENGTH_BYTES = 4

/** The shortest Ethernet frame has a header; the longest is what QEMU itself takes. */
const FRAME_BYTES_MIN = 14
const FRAME_BYTES_MAX = 4096 + 65536

/** What may wait for one machine, bytes. */
const WAITING_BYTES_MAX = 4 << 20

/** What may wait for all of them, bytes. */
const ALL_WAITING_BYTES_MAX = 64 << 20

const SERVER = having(['on', 'listen', 'close'], 'a server')

/** One that is plugged in, and the bytes that wait for it. */
interface Machine {
  readonly socket: Socket
  waiting: number
}

export class Netdev {
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
  private readonly server: Server
  private readonly network: EthernetSwitch
  private readonly machines = new Set<Machine>()

  constructor(server: Server, network: EthernetSwitch) {
    check('server', server, SERVER)
    check('network', network, NETWORK)
    this.server = server
    this.network = network
    server.on('connection', (socket) => this.plug(socket))
  }

  private plug(socket: Socket): void {
    this.clients++
    const machine: Machine = { socket, waiting: 0 }
    this.machines.add(machine)
    const port: SwitchPort = (frame) => this.send(machine, frame)
    this.network.attach(port)
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

  /** Stops listening and unplugs every machine; the socket's file is gone afterwards. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close')
    this.server.close()
    for (const { socket } of this.machines) socket.destroy()
    await closed
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
