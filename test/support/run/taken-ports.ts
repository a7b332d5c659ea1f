/**
 * Takes the ports that the product takes by itself, for as long as the tests run: that of RoCEv2,
 * and that of firmware updates. So a test that would need one fails wherever it is written, and not
 * only where somebody else has that port.
 */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import type { TestProject } from 'vitest/node'
import { SMP_PORT } from '../../../boards/flash/smp-packet.ts'
import { ROCE_PORT } from '../../../firmware/wire/udp.ts'

const PORTS: readonly number[] = [ROCE_PORT, SMP_PORT]

declare module 'vitest' {
  interface ProvidedContext {
    /** Those of the ports that this run holds; the others somebody else had already. */
    takenPorts: readonly number[]
  }
}

/** The port of every address of this machine; null where somebody has it already. */
export async function takePort(port: number): Promise<Socket | null> {
  const socket = createSocket('udp4')
  socket.bind(port, '0.0.0.0')
  try {
    await once(socket, 'listening')
    return socket
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    return null
  }
}

export default async function setup(project: TestProject): Promise<() => void> {
  const sockets = await Promise.all(PORTS.map(takePort))
  project.provide(
    'takenPorts',
    PORTS.filter((_, i) => sockets[i] !== null),
  )
  return () => {
    for (const socket of sockets) socket?.close()
  }
}
