/**
 * Addresses of this machine at which a socket on all of them may be asked. Node does not tell to
 * which address a datagram was sent (IP_PKTINFO), and answers from the one that the route prefers,
 * which is a stranger to whoever asked another. So each address has a socket of its own.
 *
 * Invariant: an address of the loopback network that no interface lists (127.0.0.2) can be
 * asked only by a process of this machine, whose connected socket Linux shows with both its ends.
 */

import type { RemoteInfo } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'

/** Whether that stands for every address of the machine. */
export function isWildcard(address: string): boolean {
  return address === '0.0.0.0' || /^[0:]+$/.test(address)
}

/** What the interfaces have, as a socket is bound to it; a socket of IPv6 serves both families. */
export function ownAddresses(family: string): string[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    addresses
      .filter((one) => one.family === 'IPv4' || family === 'IPv6')
      .map(({ address, scopeid }) => (scopeid ? `${address}%${name}` : address)),
  )
}

const LOOPBACK = /^(?:::ffff:)?(127\.\d+\.\d+\.\d+)$/

/** The address of the loopback network at which a process of this machine asks, or null. */
export function askedAddress(from: RemoteInfo, port: number): string | null {
  const own = LOOPBACK.exec(from.address)?.[1]
  if (own === undefined) return null
  const table = socketTable()
  const asks = ` ${hexOf(own)}:${hexOfPort(from.port)} `
  const line = table.find((one) => one.includes(asks))
  const far = new RegExp(`${asks}([0-9A-F]{8}):${hexOfPort(port)} `).exec(line ?? '')?.[1]
  if (far === undefined) return null
  return Buffer.from(far, 'hex').reverse().join('.')
}

/** The UDP sockets of IPv4, one a line; none where the system has no such table. */
function socketTable(): string[] {
  try {
    return readFileSync('/proc/net/udp', 'latin1').split('\n')
  } catch {
    return []
  }
}

/** As that table writes it: the four bytes backwards, for a processor of that order. */
function hexOf(ipv4: string): string {
  return Buffer.from(ipv4.split('.').map(Number)).reverse().toString('hex').toUpperCase()
}

function hexOfPort(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0')
}
