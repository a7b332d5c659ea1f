/**
 * The ways on which SMP is asked: a Unix socket, which carries lines as a serial line does, and
 * UDP, where a datagram is a packet.
 *
 * Invariant: whatever one client does, the others are served on; nobody has the card wait
 * who does not read.
 */

import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { listenOn } from '../listen.ts'
import type { SmpCard } from './smp.ts'
import { DatagramClients, LineClient } from './smp-served.ts'

/** What may wait for one client that does not read, bytes. */
const WAITING_BYTES_MAX = 1 << 20

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
  const line = new LineClient(card)
  client.on('data', (bytes) => {
    for (const answer of line.take(bytes, performance.now())) {
      if (client.writableLength < WAITING_BYTES_MAX) client.write(answer)
    }
  })
}

/** Serves SMP over UDP; port 0 lets the system choose. */
export async function serveSmpUdp(host: string, port: number, card: SmpCard): Promise<SmpWay> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  socket.bind(port, host)
  await once(socket, 'listening')
  const clients = new DatagramClients(card)
  socket.on('message', (bytes, { address, port }) => {
    const answer = clients.take(`${address} ${port}`, bytes, performance.now())
    if (answer !== null) socket.send(answer, port, address, () => {})
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
