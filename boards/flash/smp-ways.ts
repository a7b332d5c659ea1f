/**
 * The ways on which SMP is asked: a Unix socket, which carries lines as a serial line does, and
 * UDP, where a datagram is a packet.
 *
 * What always holds: whatever comes is answered or dropped, and the others are served on; nobody
 * has the card wait who does not read. A request may come in several datagrams of one peer, within
 * a second.
 */

import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { listenOn } from '../listen.ts'
import { answerSmp, type SmpCard } from './smp.ts'
import { FrameReader, PACKET_BYTES_MAX, writeFrame } from './smp-frame.ts'
import { SMP_HEADER_BYTES } from './smp-packet.ts'

/** What may wait for one client that does not read, bytes. */
const WAITING_BYTES_MAX = 1 << 20
/** How long the rest of a request may take, ms, and of how many peers one is waited for. */
const PIECES_MS = 1000
const PEERS_MAX = 64

export interface SmpWay {
  /** Port of UDP; 0 of a socket. */
  readonly port: number
  close(): Promise<void>
}

/** Serves SMP on a Unix socket; a line that is none is one of the console. */
export async function serveSmpSocket(path: string, card: SmpCard): Promise<SmpWay> {
  const server = await listenOn(path)
  const clients = new Set<Socket>()
  server.on('connection', (client) => {
    clients.add(client)
    client.on('close', () => clients.delete(client))
    client.on('error', () => {})
    serveLine(client, card)
  })
  const close = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    for (const client of clients) client.destroy()
    await closed
  }
  return { port: 0, close }
}

function serveLine(client: Socket, card: SmpCard): void {
  const reader = new FrameReader()
  const send = (bytes: Uint8Array): void => {
    if (client.writableLength < WAITING_BYTES_MAX) client.write(bytes)
  }
  client.on('data', (bytes) => {
    for (const came of reader.push(bytes, performance.now())) {
      if ('text' in came) {
        send(Buffer.from(`${card.shell(came.text)}\n`))
        continue
      }
      const answer = answerSmp(card, came.packet)
      if (answer !== null) send(writeFrame(answer))
    }
  })
}

/** What has come of a request. */
interface Pieces {
  bytes: Buffer
  atMs: number
}

/** Serves SMP over UDP; port 0 lets the system choose. */
export async function serveSmpUdp(host: string, port: number, card: SmpCard): Promise<SmpWay> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  socket.bind(port, host)
  await once(socket, 'listening')
  const waiting = new Map<string, Pieces>()
  socket.on('message', (bytes, peer) => {
    const whole = together(waiting, `${peer.address} ${peer.port}`, bytes)
    const answer = whole === null ? null : answerSmp(card, whole)
    if (answer !== null) socket.send(answer, peer.port, peer.address, () => {})
  })
  // What cannot be sent to one is no matter of the others.
  socket.on('error', () => {})
  return { port: socket.address().port, close: () => closed(socket) }
}

async function closed(socket: UdpSocket): Promise<void> {
  const gone = once(socket, 'close')
  socket.close()
  await gone
}

/** The request of that peer, if all of it is there. */
function together(waiting: Map<string, Pieces>, peer: string, bytes: Buffer): Buffer | null {
  const now = performance.now()
  const before = waiting.get(peer)
  waiting.delete(peer)
  const isFresh = before !== undefined && now - before.atMs < PIECES_MS
  const whole = isFresh ? Buffer.concat([before.bytes, bytes]) : bytes
  if (whole.length < SMP_HEADER_BYTES || whole.length > PACKET_BYTES_MAX) return whole
  if (whole.length >= SMP_HEADER_BYTES + whole.readUInt16BE(2)) return whole
  if (waiting.size === PEERS_MAX) waiting.delete(waiting.keys().next().value!)
  waiting.set(peer, { bytes: whole, atMs: now })
  return null
}
