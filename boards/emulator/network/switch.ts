/**
 * A small Ethernet switch: the card, the UDP tunnel and the virtual machines are its ports.
 *
 * Invariants:
 * - A frame goes to the port behind which its destination is (peers.ts), and never back to where it
 *   came from; a broadcast, a multicast or a stranger goes to every other port.
 * - An address stays behind its port while it is heard there: a frame that comes from it at another
 *   one is dropped whole, and counted. The addresses of a port that is detached are free at once.
 * - The card's own address is pinned: it never moves.
 */

import { COUNT, FUNCTION, LIST } from '../../kinds.ts'
import { check, octets } from '../base/arguments.ts'
import { ENDPOINT_PEERS_MAX, Peers, steadyUs } from './peers.ts'

const ETHERNET_BYTES = 14

const MAC = octets(6)

/** A port by what it does with a frame that leaves the switch there. */
export type SwitchPort = (frame: Uint8Array) => void

export class EthernetSwitch {
  /** Frames that were dropped, as they came from an address that is behind another port. */
  claimed = 0
  /** The ports, and how many addresses each may have. */
  private readonly ports = new Map<SwitchPort, number>()
  private readonly heard: Peers<SwitchPort>
  private readonly pinned = new Map<string, SwitchPort>()

  /** `now` tells microseconds, and never goes back; this process's time unless given. */
  constructor(now: () => number = steadyUs) {
    check('now', now, FUNCTION)
    this.heard = new Peers(now)
  }

  /**
   * Adds a port; `macs` are the addresses that stay behind it, and `most` is how many it may have
   * beside them.
   */
  attach(
    port: SwitchPort,
    macs: readonly (readonly number[])[] = [],
    most: number = ENDPOINT_PEERS_MAX,
  ): void {
    check('port', port, FUNCTION)
    check('addresses', macs, LIST)
    check('most', most, COUNT)
    for (const mac of macs) check('address', mac, MAC)
    this.ports.set(port, most)
    for (const mac of macs) this.pinned.set(Buffer.from(mac).toString('hex'), port)
  }

  /** Removes a port, and every address behind it. */
  detach(port: SwitchPort): void {
    check('port', port, FUNCTION)
    this.ports.delete(port)
    this.heard.leave(port)
    for (const [mac, behind] of this.pinned) if (behind === port) this.pinned.delete(mac)
  }

  /** Takes a frame that came in at a port. One shorter than an Ethernet header is dropped. */
  forward(from: SwitchPort, frame: Uint8Array): void {
    if (frame.length < ETHERNET_BYTES) return
    if (!this.hear(frame, from)) {
      this.claimed++
      return
    }
    const destination = addressAt(frame, 0)
    const isGroup = (frame[0]! & 1) === 1
    const known = this.pinned.get(destination) ?? this.heard.find(destination)
    if (!isGroup && known !== undefined) {
      if (known !== from) known(frame)
      return
    }
    for (const port of this.ports.keys()) if (port !== from) port(frame)
  }

  /** Whether its source may be behind that port. Nobody is a group: the firmware says so. */
  private hear(frame: Uint8Array, port: SwitchPort): boolean {
    if ((frame[6]! & 1) === 1) return true
    const source = addressAt(frame, 6)
    const owner = this.pinned.get(source)
    if (owner !== undefined) return owner === port
    return this.heard.hear(source, port, port, this.ports.get(port))
  }
}

function addressAt(frame: Uint8Array, at: number): string {
  return Buffer.from(frame.buffer, frame.byteOffset + at, 6).toString('hex')
}
