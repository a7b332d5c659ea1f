/**
 * Ethernet over UDP, so that another process reaches the emulated card: one datagram is one frame,
 * without its FCS, which is the convention of QEMU's dgram network backend.
 *
 * Invariants:
 * - A frame goes to the peer that owns its destination address (peers.ts); a broadcast, a multicast
 *   or a stranger goes to every peer. Nobody else gets anything.
 * - A frame from an address that is another peer's is dropped whole, and counted: it neither draws
 *   answers away nor acts in the other's name.
 * - An answer leaves from the address that was asked, also where the socket is on all addresses of
 *   the machine (own-addresses.ts).
 * - A datagram of any content is harmless: it is handed on as a frame, and the firmware judges it.
 *
 * Whoever can send to the socket can speak as any Ethernet address that nobody uses. The default is
 * the loopback interface; anything wider belongs on a network of its own.
 */

import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { isIPv6 } from 'node:net'
import { FUNCTION, having, type Kinds, TEXT } from '../../kinds.ts'
import { check, checkFields, UDP_PORT } from '../base/arguments.ts'
import { askedAddress, isWildcard, ownAddresses } from './own-addresses.ts'
import { Peers, steadyUs } from './peers.ts'

const ETHERNET_BYTES = 14

export interface TunnelOptions {
  /** Takes every frame that arrives. */
  readonly receive: (frame: Uint8Array) => void
  /** UDP port; 0, the default, lets the system choose. */
  readonly port?: number
  /** Address to listen on; the loopback interface unless given. */
  readonly host?: string
  /** Time that never goes back, microseconds; this process's unless given. */
  readonly now?: () => number
}

const TUNNEL_KINDS: Kinds<TunnelOptions> = {
  ...{ receive: FUNCTION, port: UDP_PORT, host: TEXT, now: FUNCTION },
}
const SOCKET = having(['on', 'send', 'address', 'close'], 'a UDP socket')

interface Peer {
  /** By which it is reached. */
  readonly socket: Socket
  readonly address: string
  readonly port: number
}

export class Tunnel {
  /** Frames that came and went, and frames that the socket refused. */
  received = 0
  sent = 0
  failed = 0
  /** Frames that were dropped, as they came from an address that is another's. */
  claimed = 0
  private readonly socket: Socket
  private readonly receive: (frame: Uint8Array) => void
  private readonly peers: Peers<Peer>
  private uplink: Peer | null = null
  private open = true
  /** Where the socket is on all addresses: one for each address that may be asked. */
  private readonly own = new Map<string, Socket>()
  private taken: Promise<void> = Promise.resolve()

  constructor(socket: Socket, receive: (frame: Uint8Array) => void, now: () => number = steadyUs) {
    check('socket', socket, SOCKET)
    check('receive', receive, FUNCTION)
    check('now', now, FUNCTION)
    this.peers = new Peers(now)
    this.socket = socket
    this.receive = receive
    if (isWildcard(socket.address().address)) {
      this.listen(socket, (frame, from) => {
        this.taken = this.taken.then(() => this.takeOfAll(frame, from))
      })
    } else this.listen(socket, (frame, from) => this.take(socket, frame, from))
  }

  private listen(socket: Socket, take: (frame: Buffer, from: RemoteInfo) => void): void {
    socket.on('message', (frame, from) => {
      this.received++
      take(frame, from)
    })
    // A peer that is gone shows as an error of a later receive: not ours to fail on.
    socket.on('error', () => {
      this.failed++
    })
  }

  private take(socket: Socket, frame: Buffer, from: RemoteInfo): void {
    if (!this.open) return
    if (frame.length >= ETHERNET_BYTES && !this.hear(frame, socket, from)) this.claimed++
    else this.receive(frame)
  }

  /** What came to no address that has a socket yet: it has one from now on. */
  private async takeOfAll(frame: Buffer, from: RemoteInfo): Promise<void> {
    await this.openOwn()
    const asked = askedAddress(from, this.port)
    if (asked !== null) await this.openAt(asked)
    this.take((asked === null ? null : this.own.get(asked)) ?? this.socket, frame, from)
  }

  /** Has a socket at each address of this machine. */
  async openOwn(): Promise<void> {
    for (const address of ownAddresses(this.socket.address().family)) await this.openAt(address)
  }

  private async openAt(address: string): Promise<void> {
    if (this.own.has(address) || !this.open) return
    // One that cannot be bound, as it has gone meanwhile, is asked by nobody.
    const socket = await bound(address, this.port, true).catch(() => null)
    if (socket === null) return
    if (!this.open) {
      socket.close()
      return
    }
    this.own.set(address, socket)
    this.listen(socket, (frame, from) => this.take(socket, frame, from))
  }

  /** Names the peer at the other end: strangers' frames go there, too. */
  connect(address: string, port: number): void {
    check('address', address, TEXT)
    check('port', port, UDP_PORT)
    this.uplink = { socket: this.socket, address, port }
  }

  /** Where it listens. */
  get address(): string {
    return this.socket.address().address
  }

  get port(): number {
    return this.socket.address().port
  }

  /** Whether its source is the sender's to use. Nobody is a group: the firmware says so. */
  private hear(frame: Buffer, socket: Socket, { address, port }: RemoteInfo): boolean {
    if ((frame[6]! & 1) === 1) return true
    const source = frame.toString('hex', 6, 12)
    // A socket of IPv6 hears one of IPv4 by another name than that which is its own.
    const endpoint = `${address.replace(/^::ffff:(?=.*\.)/i, '')} ${port}`
    return this.peers.hear(source, endpoint, { socket, address, port })
  }

  /** Sends a frame; once it is closed, it is dropped as by a cable that was pulled. */
  send(frame: Uint8Array): void {
    if (!this.open) return
    const isGroup = (frame[0]! & 1) === 1
    const known = isGroup
      ? undefined
      : this.peers.find(Buffer.from(frame.subarray(0, 6)).toString('hex'))
    for (const { socket, address, port } of known === undefined ? this.everybody() : [known]) {
      socket.send(frame, port, address, (error) => {
        if (error === null) this.sent++
        else this.failed++
      })
    }
  }

  private everybody(): Iterable<Peer> {
    const peers = [...this.peers.everybody()]
    if (this.uplink !== null) peers.push(this.uplink)
    return new Map(peers.map((peer) => [`${peer.address} ${peer.port}`, peer])).values()
  }

  /** Stops listening. */
  async close(): Promise<void> {
    this.open = false
    await this.taken
    for (const socket of this.own.values()) socket.close()
    await new Promise<void>((resolve) => {
      this.socket.close(() => {
        resolve()
      })
    })
  }
}

/** Room for bursts of every client, bytes; the system may give less. */
const SOCKET_BYTES = 4 << 20

/** A socket there. Rejects with the system's error if it cannot be bound. */
async function bound(address: string, port: number, shared: boolean): Promise<Socket> {
  const socket = createSocket({
    type: isIPv6(address) ? 'udp6' : 'udp4',
    reuseAddr: shared,
    recvBufferSize: SOCKET_BYTES,
    sendBufferSize: SOCKET_BYTES,
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', (error) => {
      socket.close()
      reject(error)
    })
    socket.bind(port, address, () => {
      socket.removeAllListeners('error')
      resolve()
    })
  })
  return socket
}

/** Opens the socket. Rejects with the system's error if it cannot be bound. */
export async function openTunnel(options: TunnelOptions): Promise<Tunnel> {
  checkFields('a tunnel', options, TUNNEL_KINDS, ['receive'])
  const { host = '127.0.0.1', port = 0, receive, now } = options
  const first = await bound(host, port, false)
  if (!isWildcard(host)) return new Tunnel(first, receive, now)
  // The first one has shown that the port is nobody's; those that share it say so to each other.
  const free = first.address().port
  await new Promise<void>((resolve) => first.close(() => resolve()))
  const tunnel = new Tunnel(await bound(host, free, true), receive, now)
  await tunnel.openOwn()
  return tunnel
}
