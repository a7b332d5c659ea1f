/**
 * The UDP tunnel: a wire over sockets of this machine, in real time, to a host by its name or by an
 * address.
 *
 * One datagram carries one whole Ethernet frame, its RoCEv2 headers and ICRC included, so that the
 * same frames go over the tunnel as over a cable, and no privilege is needed.
 *
 * Invariants:
 * - A name may have several addresses, of either family, and some of them may be dead. They are
 *   tried in the system's order, the next one as soon as one fails, or after NEXT_MS without a word
 *   (RFC 8305). Until somebody answers, what is sent goes to all that were begun; whoever answers
 *   first is the peer, and the others are closed. `seek` begins that again, with the one in use.
 * - Only datagrams from an address that was asked are taken.
 * - An open tunnel keeps its process alive: whoever awaits a message may have nothing else.
 */

import { createSocket, type Socket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { isIPv4, isIPv6 } from 'node:net'
import { PerdureError } from '../base/errors.ts'
import type { Wire } from '../base/wire.ts'

/** The tunnel's port where the target names none. */
const TUNNEL_PORT = 4791

interface Target {
  /** The card's public key, as text. */
  readonly key?: string
  /** A name, or an address of either family: without brackets, with its zone where it has one. */
  readonly host: string
  readonly port: number
  /** The DPU's own address inside the tunnel, where it is not the usual one. */
  readonly ipv4?: readonly number[]
}

const V6 = String.raw`\[(?<v6>[\da-f:.]+(?:%(?:25)?[\w.~-]+)?)\]`
const NAME = String.raw`(?<name>[^\s/:?#@[\]%]+)`
const BEHIND = String.raw`(?::(?<port>\d+))?(?:/(?<ipv4>[\d.]*))?`
const KEY = String.raw`(?:(?<key>[\da-f]{64})@)?`
const FORM = new RegExp(`^perdure://${KEY}(?:${V6}|${NAME})${BEHIND}$`, 'i')

/**
 * Parses 'perdure://[key@]host[:port][/ipv4]'; the key is the card's, the host is a name, an IPv4
 * address or an IPv6 address in brackets, which may have a zone ('[fe80::1%eth0]', also as
 * '%25eth0', RFC 6874).
 */
export function parseTarget(target: string): Target {
  const found = FORM.exec(target)?.groups ?? {}
  const { key, v6, name, port = String(TUNNEL_PORT), ipv4 = '' } = found
  const host = v6?.replace(/%(25(?=.))?/, '%') ?? name ?? ''
  const isHost = v6 === undefined ? host !== '' : isIPv6(host)
  if (!isHost || (ipv4 !== '' && !isIPv4(ipv4))) {
    const forms = 'perdure://[key@]host[:port][/ipv4], the key 64 hexadecimal digits'
    throw new PerdureError('PERDURE_TARGET', `'${target}' is no target: say ${forms}`)
  }
  const number = Number(port)
  if (number < 1 || number > 65535) {
    throw new PerdureError('PERDURE_TARGET', `'${target}': no port ${port}, but 1 to 65535`)
  }
  const own = ipv4 === '' ? {} : { ipv4: ipv4.split('.').map(Number) }
  return { host, port: number, ...own, ...(key !== undefined && { key }) }
}

/** Microseconds since the epoch, never backwards. */
export function realTimeUs(): number {
  return (performance.timeOrigin + performance.now()) * 1000
}

/** Longer than this Node does not wait: it calls back at once, ms. */
const WAIT_MS_MAX = 2 ** 31 - 1

/** Calls back at a moment of `realTimeUs`; returns what cancels it. */
export function realTimer(atUs: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const waitMs = Math.max(0, (atUs - realTimeUs()) / 1000)
    timer = waitMs > WAIT_MS_MAX ? setTimeout(wait, WAIT_MS_MAX) : setTimeout(callback, waitMs)
  }
  wait()
  return () => clearTimeout(timer)
}

/** Room for bursts in the socket, bytes; the system may give less. */
const SOCKET_BYTES = 4 << 20

/** After this without an answer the next address has its turn, ms (RFC 8305, 5). */
const NEXT_MS = 250

/** Addresses of a name, in the order in which they are to be tried. */
type Resolve = (host: string) => Promise<readonly string[]>

async function systemResolve(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address)
}

/**
 * Opens the way to the target. Rejects with PERDURE_UNREACHABLE where its name is unknown, or none
 * of its addresses has a route.
 */
export async function openTunnel(
  { host, port }: Target,
  resolve: Resolve = systemResolve,
): Promise<Wire> {
  const addresses = await resolve(host).catch((cause: Error) => {
    const message = `'${host}' does not resolve to an address: ${cause.message}`
    throw new PerdureError('PERDURE_UNREACHABLE', message, { cause })
  })
  const tunnel = new Tunnel(addresses, port)
  await tunnel.begin()
  return tunnel
}

/** One address, and what was heard of it. */
interface Path {
  readonly address: string
  readonly at: string
  readonly socket: Socket
  state: 'opening' | 'open' | 'closed'
  error: NodeJS.ErrnoException | null
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ENETUNREACH: 'no route',
  EHOSTUNREACH: 'no route',
  EADDRNOTAVAIL: 'no route',
}

class Tunnel implements Wire {
  readonly now: () => number = realTimeUs
  readonly setTimer: typeof realTimer = realTimer
  private readonly port: number
  private readonly addresses: readonly string[]
  /** Addresses whose turn has not come, and those whose turn came. */
  private left: readonly string[]
  private paths: Path[] = []
  private peer: Path | null = null
  private isClosed = false
  private callback: (frame: Uint8Array) => void = () => {}
  private timer: NodeJS.Timeout | undefined

  constructor(addresses: readonly string[], port: number) {
    this.addresses = addresses
    this.left = addresses
    this.port = port
  }

  /** Resolves when there is a socket towards one of the addresses. */
  async begin(): Promise<void> {
    while (this.left.length > 0) if (await this.openNext()) return
    const [message, cause] = [`nothing can be sent to ${this.tried()}`, this.paths.at(-1)?.error]
    throw new PerdureError('PERDURE_UNREACHABLE', message, { cause })
  }

  /** The next address has its turn; resolves to whether there is a socket towards it. */
  private openNext(): Promise<boolean> {
    const address = this.left[0]!
    this.left = this.left.slice(1)
    const type = isIPv6(address) ? 'udp6' : 'udp4'
    const socket = createSocket({
      type,
      recvBufferSize: SOCKET_BYTES,
      sendBufferSize: SOCKET_BYTES,
    })
    const at = `${type === 'udp6' ? `[${address}]` : address}:${this.port}`
    const path: Path = { address, at, socket, state: 'opening', error: null }
    this.paths.push(path)
    return new Promise((resolve) => {
      socket.on('error', (error) => {
        path.error = error
        // A refused datagram is as a lost one: retransmission and its end are the requester's.
        if (path.state === 'open') this.hurry(0)
        else closePath(path)
        resolve(false)
      })
      socket.on('message', (datagram) => this.take(path, datagram))
      socket.once('connect', () => {
        if (path.state === 'opening') path.state = 'open'
        this.hurry(NEXT_MS)
        resolve(true)
      })
      // With a callback an error would go there, and look like success.
      socket.connect(this.port, address)
    })
  }

  /** Nobody has answered within that time: the next address has its turn. */
  private hurry(waitMs: number): void {
    clearTimeout(this.timer)
    if (this.peer !== null || this.isClosed || this.left.length === 0) return
    this.timer = setTimeout(() => {
      this.openNext().then((isThere) => {
        if (!isThere) this.hurry(0)
      })
    }, waitMs).unref()
  }

  seek(): boolean {
    this.paths = this.paths.filter(({ state }) => state !== 'closed')
    const begun = this.paths.map(({ address }) => address)
    this.left = this.addresses.filter((address) => !begun.includes(address))
    this.peer = null
    this.hurry(this.paths.some(({ error }) => error === null) ? NEXT_MS : 0)
    return this.addresses.length > 1
  }

  private take(path: Path, datagram: Uint8Array): void {
    if (this.peer === null) {
      this.peer = path
      clearTimeout(this.timer)
      for (const other of this.paths) if (other !== path) closePath(other)
    }
    if (path.state === 'open') this.callback(datagram)
  }

  send(frame: Uint8Array): void {
    for (const { socket, state } of this.paths) {
      if (state === 'open') socket.send(frame, () => {})
    }
  }

  onFrame(callback: (frame: Uint8Array) => void): void {
    this.callback = callback
  }

  tried(): string {
    const paths = this.peer === null ? this.paths : [this.peer]
    const texts = paths.map(({ at, error }) => {
      const reason = error === null ? 'no answer' : (REASONS[error.code ?? ''] ?? error.message)
      return `${at} (${reason})`
    })
    return texts.join(', ')
  }

  close(): void {
    this.isClosed = true
    clearTimeout(this.timer)
    for (const path of this.paths) closePath(path)
  }
}

function closePath(path: Path): void {
  if (path.state !== 'closed') path.socket.close()
  path.state = 'closed'
}
