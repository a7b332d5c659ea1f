/**
 * Ethernet over UDP, so that another process reaches the emulated card: one datagram is one frame,
 * without its FCS, which is the convention of QEMU's dgram network backend.
 *
 * What always holds:
 * - A frame goes to the peer from which its destination address was last heard; a broadcast, a
 *   multicast or a stranger goes to every peer. Nobody else gets anything.
 * - A datagram of any content is harmless: it is handed on as a frame, and the firmware judges it.
 *
 * Whoever can send to the socket can speak as any Ethernet address. The default is the loopback
 * interface; anything wider belongs on a network of its own.
 */

import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'

/** Addresses that are remembered; beyond that the one not heard for longest is forgotten. */
const PEERS_MAX = 1024

const ETHERNET_BYTES = 14

export interface TunnelOptions {
  /** Takes every frame that arrives. */
  readonly receive: (frame: Uint8Array) => void
  /** UDP port; 0, the default, lets the system choose. */
  readonly port?: number
  /** Address to listen on; the loopback interface unless given. */
  readonly host?: string
}

interface Peer {
  readonly address: string
  readonly port: number
}

export class Tunnel {
  /** Frames that came and went, and frames that the socket refused. */
  received = 0
  sent = 0
  failed = 0
  private readonly socket: Socket
  private readonly peers = new Map<string, Peer>()
  private uplink: Peer | null = null
  private open = true

  constructor(socket: Socket, receive: (frame: Uint8Array) => void) {
    this.socket = socket
    socket.on('message', (frame, from) => {
      this.received++
      if (frame.length >= ETHERNET_BYTES) this.learn(frame.toString('hex', 6, 12), from)
      receive(frame)
    })
    // A peer that is gone shows as an error of a later receive: not ours to fail on.
    socket.on('error', () => {
      this.failed++
    })
  }

  /** Names the peer at the other end: strangers' frames go there, too. */
  connect(address: string, port: number): void {
    this.uplink = { address, port }
  }

  /** Where it listens. */
  get address(): string {
    return this.socket.address().address
  }

  get port(): number {
    return this.socket.address().port
  }

  private learn(source: string, from: RemoteInfo): void {
    this.peers.delete(source)
    this.peers.set(source, { address: from.address, port: from.port })
    if (this.peers.size <= PEERS_MAX) return
    const [oldest] = this.peers.keys()
    if (oldest !== undefined) this.peers.delete(oldest)
  }

  /** Sends a frame; once it is closed, it is dropped as by a cable that was pulled. */
  send(frame: Uint8Array): void {
    if (!this.open) return
    const isGroup = (frame[0]! & 1) === 1
    const known = isGroup
      ? undefined
      : this.peers.get(Buffer.from(frame.subarray(0, 6)).toString('hex'))
    for (const { address, port } of known === undefined ? this.everybody() : [known]) {
      this.socket.send(frame, port, address, (error) => {
        if (error === null) this.sent++
        else this.failed++
      })
    }
  }

  private everybody(): Iterable<Peer> {
    const peers = [...this.peers.values()]
    if (this.uplink !== null) peers.push(this.uplink)
    return new Map(peers.map((peer) => [`${peer.address} ${peer.port}`, peer])).values()
  }

  /** Stops listening. */
  async close(): Promise<void> {
    this.open = false
    await new Promise<void>((resolve) => {
      this.socket.close(() => {
        resolve()
      })
    })
  }
}

/** Room for bursts of every client, bytes; the system may give less. */
const SOCKET_BYTES = 4 << 20

/** Opens the socket. Rejects with the system's error if it cannot be bound. */
export async function openTunnel(options: TunnelOptions): Promise<Tunnel> {
  const host = options.host ?? '127.0.0.1'
  const type = host.includes(':') ? 'udp6' : 'udp4'
  const socket = createSocket({ type, recvBufferSize: SOCKET_BYTES, sendBufferSize: SOCKET_BYTES })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(options.port ?? 0, host, () => {
      socket.off('error', reject)
      resolve()
    })
  })
  return new Tunnel(socket, options.receive)
}
