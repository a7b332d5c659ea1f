/**
 * A small Ethernet switch: the card, the UDP tunnel and the virtual machines are its ports.
 *
 * Invariants:
 * - A frame goes to the port behind which its destination was last heard, and never back to where
 *   it came from; a broadcast, a multicast or a stranger goes to every other port.
 * - The card's own address is pinned: whoever else claims it gets none of its frames.
 */

import { FUNCTION, LIST } from '../../kinds.ts'
import { check, octets } from '../base/arguments.ts'

/** Addresses that are remembered; beyond that the one not heard for longest is forgotten. */
const ADDRESSES_MAX = 1024

const ETHERNET_BYTES = 14

const MAC = octets(6)

/** A port by what it does with a frame that leaves the switch there. */
export type SwitchPort = (frame: Uint8Array) => void

export class EthernetSwitch {
  private readonly ports = new Set<SwitchPort>()
  private readonly heard = new Map<string, SwitchPort>()
  private readonly pinned = new Map<string, SwitchPort>()

  /** Adds a port; `macs` are the addresses that stay behind it. */
  attach(port: SwitchPort, macs: readonly (readonly number[])[] = []): void {
    check('port', port, FUNCTION)
    check('addresses', macs, LIST)
    for (const mac of macs) check('address', mac, MAC)
    this.ports.add(port)
    for (const mac of macs) this.pinned.set(Buffer.from(mac).toString('hex'), port)
  }

  /** Removes a port, and every address behind it. */
  detach(port: SwitchPort): void {
    check('port', port, FUNCTION)
    this.ports.delete(port)
    for (const table of [this.heard, this.pinned]) {
      for (const [mac, behind] of table) if (behind === port) table.delete(mac)
    }
  }

  /** Takes a frame that came in at a port. One shorter than an Ethernet header is dropped. */
  forward(from: SwitchPort, frame: Uint8Array): void {
    if (frame.length < ETHERNET_BYTES) return
    this.learn(addressAt(frame, 6), from)
    const destination = addressAt(frame, 0)
    const isGroup = (frame[0]! & 1) === 1
    const known = this.pinned.get(destination) ?? this.heard.get(destination)
    if (!isGroup && known !== undefined) {
      if (known !== from) known(frame)
      return
    }
    for (const port of this.ports) if (port !== from) port(frame)
  }

  private learn(source: string, port: SwitchPort): void {
    if (this.pinned.has(source)) return
    this.heard.delete(source)
    this.heard.set(source, port)
    if (this.heard.size <= ADDRESSES_MAX) return
    const [oldest] = this.heard.keys()
    if (oldest !== undefined) this.heard.delete(oldest)
  }
}

function addressAt(frame: Uint8Array, at: number): string {
  return Buffer.from(frame.buffer, frame.byteOffset + at, 6).toString('hex')
}
