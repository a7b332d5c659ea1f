/**
 * The UDP tunnel: a wire over a socket of this machine, in real time.
 *
 * One datagram carries one whole Ethernet frame, its RoCEv2 headers and ICRC included, so that the
 * same frames go over the tunnel as over a cable, and no privilege is needed. Only datagrams from
 * the peer's address are taken. The socket and its timers do not keep a process alive by themselves
 * when nothing is awaited: each timer that matters does.
 */

import { createSocket, type Socket } from 'node:dgram'
import { isIPv4 } from 'node:net'
import { PerdureError } from './errors.ts'
import type { Wire } from './wire.ts'

/** The tunnel's port where the target names none. */
export const TUNNEL_PORT = 4791

export interface Target {
  readonly host: string
  readonly port: number
  /** The DPU's own address inside the tunnel, where it is not the usual one. */
  readonly ipv4?: readonly number[]
}

/** Parses 'perdure://host[:port][/ipv4]'. */
export function parseTarget(target: string): Target {
  const url = URL.canParse(target) ? new URL(target) : null
  const inside = url?.pathname.replace(/^\//, '') ?? ''
  const plain = url !== null && (inside === '' || isIPv4(inside)) && url.search === ''
  if (url === null || url.protocol !== 'perdure:' || url.hostname === '' || !plain) {
    const forms = 'perdure://host[:port][/ipv4]'
    throw new PerdureError('PERDURE_TARGET', `'${target}' is no target: say ${forms}`)
  }
  if (url.port === '0') throw new PerdureError('PERDURE_TARGET', `'${target}': no port 0`)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const port = url.port === '' ? TUNNEL_PORT : Number(url.port)
  return inside === '' ? { host, port } : { host, port, ipv4: inside.split('.').map(Number) }
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

/** Opens a socket towards the target. Rejects with PERDURE_UNREACHABLE if its name is unknown. */
export function openTunnel(target: Target): Promise<Wire> {
  return new Promise((resolve, reject) => {
    const type = target.host.includes(':') ? 'udp6' : 'udp4'
    const socket = createSocket({
      type,
      recvBufferSize: SOCKET_BYTES,
      sendBufferSize: SOCKET_BYTES,
    })
    const failed = (cause: Error): void => {
      socket.close()
      const message = `${target.host}:${target.port} cannot be reached: ${cause.message}`
      reject(new PerdureError('PERDURE_UNREACHABLE', message, { cause }))
    }
    socket.once('error', failed)
    socket.connect(target.port, target.host, () => {
      socket.off('error', failed)
      // A refused datagram is as a lost one: retransmission and its end are the requester's.
      socket.on('error', () => {})
      resolve(tunnelOver(socket))
    })
  })
}

function tunnelOver(socket: Socket): Wire {
  let open = true
  return {
    send(frame) {
      if (open) socket.send(frame, () => {})
    },
    onFrame(callback) {
      socket.on('message', (datagram) => callback(datagram))
    },
    now: realTimeUs,
    setTimer: realTimer,
    close() {
      if (!open) return
      open = false
      socket.close()
    },
  }
}
