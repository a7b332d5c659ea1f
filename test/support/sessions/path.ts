/**
 * Who is on the path between a driver and its card: he sees every frame, and decides what of it,
 * and what else, goes on.
 */

import { fillIcrc } from '../../../boards/software/icrc.ts'
import { putU16, u16, u24 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import {
  IPV4_BYTES,
  IPV4_CHECKSUM,
  IPV4_TOTAL_LENGTH,
  ipv4Checksum,
} from '../../../firmware/wire/ipv4.ts'
import { TRAILER_BYTES } from '../../../firmware/wire/tag.ts'
import { UDP_BYTES, UDP_LENGTH } from '../../../firmware/wire/udp.ts'
import type { Wire } from '../../../host-driver/base/wire.ts'

export const BTH_AT: number = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES
const DEST_QP = 5
const ICRC_BYTES = 4

/** Where a frame was going. */
type Way = 'to card' | 'to driver'

/** Whether the frame is a packet of a queue pair, and no management datagram. */
export function isOfPair(frame: Uint8Array): boolean {
  return frame.length > BTH_AT + 12 && u24(frame, BTH_AT + DEST_QP) > 1
}

/** The frame with another right ICRC, as whoever changes one makes it. */
export function resealed(frame: Uint8Array): Uint8Array {
  fillIcrc(frame, 0, frame.length)
  return frame
}

export function flipped(frame: Uint8Array, bit: number): Uint8Array {
  const copy = frame.slice()
  copy[BTH_AT + (bit >> 3)]! ^= 1 << (bit & 7)
  return resealed(copy)
}

/** Bits of the frame that a tag covers, and its own: from BTH to the ICRC. */
export function bitsOf(frame: Uint8Array): number {
  return 8 * (frame.length - BTH_AT - ICRC_BYTES)
}

/** The frame as if it had no trailer. */
export function stripped(frame: Uint8Array): Uint8Array {
  const end = frame.length - ICRC_BYTES - TRAILER_BYTES
  const copy = new Uint8Array(end + ICRC_BYTES)
  copy.set(frame.subarray(0, end))
  const ip = ETHERNET_BYTES
  putU16(copy, ip + IPV4_TOTAL_LENGTH, u16(frame, ip + IPV4_TOTAL_LENGTH) - TRAILER_BYTES)
  const udp = ip + IPV4_BYTES
  putU16(copy, udp + UDP_LENGTH, u16(frame, udp + UDP_LENGTH) - TRAILER_BYTES)
  putU16(copy, ip + IPV4_CHECKSUM, ipv4Checksum(copy, ip))
  return resealed(copy)
}

export class Path implements Wire {
  /** Every frame that was to go, in both directions. */
  readonly seen: { readonly way: Way; readonly frame: Uint8Array }[] = []
  /** What goes on in place of a frame. */
  decide: (frame: Uint8Array, way: Way) => readonly Uint8Array[] = (frame) => [frame]
  /** How far the driver's clock is ahead of its wire's. */
  aheadUs = 0
  private wire: Wire
  private callback: (frame: Uint8Array) => void = () => {}

  constructor(wire: Wire) {
    this.wire = wire
  }

  /** The card is at the other end of that wire now. */
  lead(wire: Wire): void {
    this.wire.close()
    this.wire = wire
    this.listen()
  }

  send(frame: Uint8Array): void {
    this.pass(frame, 'to card', (one) => this.wire.send(one))
  }

  onFrame(callback: (frame: Uint8Array) => void): void {
    this.callback = callback
    this.listen()
  }

  private listen(): void {
    this.wire.onFrame((frame) => this.pass(frame, 'to driver', (one) => this.callback(one)))
  }

  now(): number {
    return this.wire.now() + this.aheadUs
  }

  setTimer(atUs: number, callback: () => void): () => void {
    return this.wire.setTimer(atUs - this.aheadUs, callback)
  }

  close(): void {
    this.wire.close()
  }

  /** Puts a frame of his own onto the path. */
  inject(frame: Uint8Array, way: Way): void {
    if (way === 'to card') this.wire.send(frame.slice())
    else this.callback(frame.slice())
  }

  private pass(frame: Uint8Array, way: Way, on: (frame: Uint8Array) => void): void {
    // A Buffer's slice would be no copy.
    const copy = Uint8Array.from(frame)
    this.seen.push({ way, frame: copy })
    for (const one of this.decide(copy.slice(), way)) on(one)
  }
}
