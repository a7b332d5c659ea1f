/**
 * The network of the machine's kernel: QEMU's own, which hands on what comes at ports of ours.
 *
 * Invariant: only this machine reaches it, and what is in it does nothing but answer: its
 * kernel has no route. (QEMU's `restrict=on` keeps answers over UDP back, too.) QEMU takes no port
 * that it is not told, so one that was free may be somebody else's when it starts: it says so and
 * ends.
 */

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { KERNEL_ADDRESS, KERNEL_PORTS } from './configuration.ts'

/** Ports of this machine, by what is asked there. */
export type UserPorts = Readonly<Record<'smp' | 'tunnel', number>>

export const LOOPBACK: string = '127.0.0.1'

/** QEMU's words for a port that is taken. */
export const PORT_TAKEN: RegExp = /Could not set up host forwarding rule/

/** Ports that nobody has just now. */
export async function freePorts(): Promise<UserPorts> {
  const sockets = await Promise.all([bound(), bound()])
  const [smp, tunnel] = sockets.map((socket) => socket.address().port)
  for (const socket of sockets) socket.close()
  return { smp: smp!, tunnel: tunnel! }
}

async function bound(): Promise<Socket> {
  const socket = createSocket('udp4')
  const listens = once(socket, 'listening')
  socket.bind(0, LOOPBACK)
  await listens
  return socket
}

/** What QEMU is told: a network card at that place on the PCI bus. */
export function userNetwork(ports: UserPorts, slot: string): string[] {
  const forwards = (['smp', 'tunnel'] as const).map((name) => {
    return `hostfwd=udp:${LOOPBACK}:${ports[name]}-${KERNEL_ADDRESS}:${KERNEL_PORTS[name]}`
  })
  const network = ['user', 'id=kernel', 'ipv6=off', ...forwards].join(',')
  const card = `virtio-net-pci,netdev=kernel,romfile=,addr=${slot}`
  return ['-netdev', network, '-device', card]
}
