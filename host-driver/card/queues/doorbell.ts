/**
 * Ringing: telling the card that a pointer has changed (source 3, step 202; P3-12 to P3-14).
 *
 *   fifo       appended to the ring of the port, which the card empties by reading
 *   trusted    likewise, with a tag: the card may use the pointer, and need not read zone 3
 *   register   written into one register of the port; the card says in the header page that it has
 *              recorded it, and then it is deleted here
 *   message    a control call with up to 16 doorbells
 *
 * Invariant: the pointer is in zone 3 before any of them is used. A doorbell may get lost,
 * and the driver rings again (watchdog.ts); what waits to be rung is kept once per queue, with the
 * pointer that is then the latest.
 */

import type { HostPort } from '../../../boards/host-port.ts'
import { taggedDoorbell } from '../../../firmware/board/doorbell-tag.ts'
import { CARRIES_POINTER, PORT_AT, PORT_REGISTER } from '../../../firmware/board/hal.ts'
import { HEADER_RECORDED } from '../../../firmware/host/header-page.ts'

export interface Doorbell {
  /** Rings for `queue`, whose pointer is now `pointer`. */
  ring(queue: number, pointer: number): void
  /** Looks whether the card has said anything, after an interrupt. */
  look(): void
  /** Nothing waits, and no timer runs. */
  close(): void
}

/** First in, first out; with the pointer in it, or without. */
export class FifoDoorbell implements Doorbell {
  private readonly port: HostPort
  private readonly flag: number

  constructor(port: HostPort, carriesPointer: boolean) {
    this.port = port
    this.flag = carriesPointer ? CARRIES_POINTER : 0
  }

  ring(queue: number, pointer: number): void {
    this.port.ringDoorbell((queue | this.flag) >>> 0, this.flag === 0 ? 0 : pointer)
  }

  look(): void {}
  close(): void {}
}

/** First in, first out, with a pointer that the card may use in the epoch that it serves. */
export class TrustedDoorbell implements Doorbell {
  private readonly port: HostPort
  private readonly epoch: number

  constructor(port: HostPort, epoch: number) {
    this.port = port
    this.epoch = epoch
  }

  ring(queue: number, pointer: number): void {
    this.port.ringDoorbell(taggedDoorbell(queue, pointer, this.epoch), pointer)
  }

  look(): void {}
  close(): void {}
}

/** First wait for the card's word, µs; each further one is twice as long, up to the longest. */
const RECORDED_US = 5
const RECORDED_US_MAX = 640
/** Not recorded for so long, it is written again. */
const AGAIN_US = 1000

/** One register, for one doorbell at a time: the next waits until the one before was recorded. */
export class RegisterDoorbell implements Doorbell {
  private readonly port: HostPort
  private readonly header: number
  private readonly waiting: Map<number, number> = new Map()
  private count = 0
  /** First word of the doorbell in the register, or 0, and its pointer. */
  private current = 0
  private pointer = 0
  private againUs = 0
  private waitUs: number = RECORDED_US
  private cancel: () => void = () => {}

  /** `header` is the address of the header page. */
  constructor(port: HostPort, header: number) {
    this.port = port
    this.header = header
  }

  ring(queue: number, pointer: number): void {
    this.waiting.set(queue, pointer)
    if (this.current === 0) this.next()
  }

  /** The card has recorded it: deletes it, and writes the next. */
  look(): void {
    if (this.current === 0) return
    const recorded = this.port.memory.loadWord(this.header + HEADER_RECORDED) >>> 0
    if (recorded !== this.current) return
    this.cancel()
    this.current = 0
    this.port.writeRegisterPair(PORT_REGISTER - PORT_AT, 0, 0)
    this.next()
  }

  private next(): void {
    for (const [queue, pointer] of this.waiting) {
      this.waiting.delete(queue)
      this.count = (this.count % 0xffff) + 1
      this.current = ((this.count << 16) | queue) >>> 0
      this.pointer = pointer
      this.waitUs = RECORDED_US
      this.write()
      return
    }
  }

  private write(): void {
    this.port.writeRegisterPair(PORT_REGISTER - PORT_AT, this.current, this.pointer)
    this.againUs = this.port.now() + AGAIN_US
    this.wait()
  }

  private wait(): void {
    const { port } = this
    this.cancel = port.setTimer(port.now() + this.waitUs, () => {
      this.waitUs = Math.min(2 * this.waitUs, RECORDED_US_MAX)
      const before = this.current
      this.look()
      if (this.current !== before) return
      if (port.now() >= this.againUs) this.write()
      else this.wait()
    })
  }

  close(): void {
    this.cancel()
    this.waiting.clear()
    this.current = 0
  }
}

/** A queue, and its pointer. */
export type Ring = readonly [queue: number, pointer: number]

/** Makes a control call with them. */
type RingCall = (rings: readonly Ring[]) => Promise<void>

/** Control calls; while one is on its way, what is rung waits for the next. */
export class MessageDoorbell implements Doorbell {
  private readonly call: RingCall
  private readonly most: number
  private readonly waiting: Map<number, number> = new Map()
  private busy = false

  /** `most` go into one call. */
  constructor(call: RingCall, most: number) {
    this.call = call
    this.most = most
  }

  ring(queue: number, pointer: number): void {
    this.waiting.set(queue, pointer)
    if (!this.busy) this.send()
  }

  private send(): void {
    const rings = [...this.waiting].slice(0, this.most)
    if (rings.length === 0) return
    for (const [queue] of rings) this.waiting.delete(queue)
    this.busy = true
    // A call that fails is a doorbell that got lost.
    const done = (): void => {
      this.busy = false
      this.send()
    }
    this.call(rings).then(done, done)
  }

  look(): void {}

  close(): void {
    this.waiting.clear()
  }
}
