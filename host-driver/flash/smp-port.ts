/**
 * Ways to a card that is asked by SMP: a serial line, a Unix socket, the console of rshim, UDP.
 *
 * Invariant: a line carries text as well, which is handed on as it comes. Whatever ends a
 * way is told once, in words; nothing throws later.
 */

import { createSocket } from 'node:dgram'
import type { Duplex } from 'node:stream'
import { FrameReader, writeFrame } from '../../boards/flash/smp-frame.ts'
import { SMP_PORT } from '../../boards/flash/smp-packet.ts'
import { ArgumentError, PerdureError } from '../base/errors.ts'

export interface SmpPort {
  /** Bytes of a packet that this way carries in one piece. */
  readonly packetBytes: number
  send(packet: Uint8Array): void
  /** Takes every packet that comes. */
  onPacket: (packet: Uint8Array) => void
  /** Takes every line of text. */
  onText: (text: string) => void
  /** Told why the way has ended. */
  onEnd: (why: string) => void
  close(): void
}

/** Of a datagram that no network has to take apart. */
const DATAGRAM_BYTES = 1400
const LINE_PACKET_BYTES = 4096

/** Packets, and text, on a line that is open. */
export function linePort(line: Duplex): SmpPort {
  const reader = new FrameReader()
  const port: SmpPort = {
    packetBytes: LINE_PACKET_BYTES,
    send: (packet) => void line.write(writeFrame(packet)),
    onPacket: () => {},
    onText: () => {},
    onEnd: () => {},
    close: () => void line.destroy(),
  }
  line.on('data', (bytes: Uint8Array) => {
    for (const came of reader.push(bytes, performance.now())) {
      if ('packet' in came) port.onPacket(came.packet)
      else port.onText(came.text)
    }
  })
  line.on('error', (error) => port.onEnd(error.message))
  line.once('close', () => port.onEnd('the connection ended'))
  return port
}

/**
 * Opens 'HOST' or 'HOST:PORT'. Rejects with PERDURE_ARGUMENT, or PERDURE_UNREACHABLE where there is
 * no such host.
 */
export async function udpPort(text: string): Promise<SmpPort> {
  const match = /^(?:\[([0-9a-f:.%\w]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(text)
  const number = Number(match?.[3] ?? SMP_PORT)
  if (match === null || number < 1 || number > 65535) {
    throw new ArgumentError(`udp:${text}: udp:HOST, or udp:HOST:PORT with a port of 1 to 65535`)
  }
  const host = match[1] ?? match[2]!
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  await new Promise<void>((resolve, reject) => {
    socket.once('error', (cause) => {
      const why = `udp:${text}: ${cause.message}`
      reject(new PerdureError('PERDURE_UNREACHABLE', why, { cause }))
    })
    socket.connect(number, host, resolve)
  })
  const port: SmpPort = {
    packetBytes: DATAGRAM_BYTES,
    send: (packet) => socket.send(packet, () => {}),
    onPacket: () => {},
    onText: () => {},
    onEnd: () => {},
    close: () => socket.close(),
  }
  socket.on('message', (bytes) => port.onPacket(new Uint8Array(bytes)))
  // Nobody listens there, perhaps not yet: whoever waits for an answer asks again.
  socket.on('error', () => {})
  return port
}
