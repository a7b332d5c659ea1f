/**
 * The card's end of its port: the words that the host sees of the card, in packet memory.
 *
 * Invariant: only the words that hal.ts gives to the host or the board are written; a
 * doorbell that finds the ring full is counted and nothing else is known of it.
 */

import {
  DOORBELL_BYTES,
  PORT_AT,
  PORT_CONSUMED,
  PORT_DROPPED,
  PORT_PRODUCED,
  PORT_RING,
} from '../../../firmware/board/hal.ts'
import { DOORBELLS } from '../../../firmware/board/limits.ts'
import { WRITABLE } from '../../port/registers.ts'
import type { HostRam } from './host-ram.ts'

/** A port as the power supply of a card sees it (dpu.ts). */
export interface CardPort {
  readonly memory: HostRam
  /** A card is being started on this packet memory: its registers are 0. */
  cardStarts(packets: Uint8Array): void
  /** It serves from now on; `wake` makes it look at its registers. */
  cardServes(wake: () => void): void
  /** The card has no power any more. */
  cardStops(): void
  /** Nor has its host. */
  hostStops(): void
}

/** The port's words in the packet memory of one machine. */
export class PortWords {
  private readonly view: DataView

  constructor(packets: Uint8Array) {
    this.view = new DataView(packets.buffer, packets.byteOffset, packets.length)
  }

  get(at: number): number {
    return this.view.getUint32(at, true)
  }

  put(at: number, value: number): void {
    this.view.setInt32(at, value | 0, true)
  }

  /** What the host wrote is forgotten; how far the ring has come is not. */
  reset(): void {
    for (const at of WRITABLE) this.put(PORT_AT + at, 0)
  }

  /** Whether the ring takes no doorbell now. */
  get full(): boolean {
    return (this.get(PORT_PRODUCED) - this.get(PORT_CONSUMED)) >>> 0 >= DOORBELLS
  }

  /** Appends a doorbell, or what is left of it if it is torn. */
  append(low: number, high: number, torn: 'low' | 'high' | undefined): void {
    if (this.full) {
      this.put(PORT_DROPPED, this.get(PORT_DROPPED) + 1)
      return
    }
    const produced = this.get(PORT_PRODUCED)
    const at = PORT_RING + (produced % DOORBELLS) * DOORBELL_BYTES
    if (torn !== 'high') this.put(at, low)
    if (torn !== 'low') this.put(at + 4, high)
    this.put(PORT_PRODUCED, produced + 1)
  }
}
