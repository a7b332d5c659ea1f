/**
 * Tags on the packets of a queue pair (firmware/wire/tag.ts), computed by the CPU: what a NIC does
 * for a board that has one. Driver and emulator share them.
 *
 * Invariants:
 * - The tag covers all from BTH to the counter in front of it, and the frame is only read, except
 *   for its trailer.
 * - A counter is sent once. One that came is taken once, and only with its tag; a packet that has
 *   no good tag moves no window.
 */

import { createCipheriv, timingSafeEqual } from 'node:crypto'
import { BTH_BYTES, BTH_CONGESTION } from '../../firmware/wire/bth.ts'
import { putU32, u32 } from '../../firmware/wire/bytes.ts'
import { TAG_WINDOW, TRAILER_BYTES, TRAILER_TAG } from '../../firmware/wire/tag.ts'
import { bthAtOf, icrcAtOf } from './icrc.ts'

const TAG_BYTES: number = TRAILER_BYTES - TRAILER_TAG
const NONCE_BYTES = 12
const CIPHER = 'chacha20-poly1305'
const OPTIONS = { authTagLength: TAG_BYTES }
/** What the byte of BTH counts as that routers change. */
const MASKED = 0xff
/** Bits of the window: the newest packet and TAG_WINDOW behind it. */
const WINDOW_BITS: number = TAG_WINDOW + 1

/** Which counters of one direction have come. */
class Window {
  private newest = -1
  private readonly taken: Uint8Array = new Uint8Array(WINDOW_BITS)

  mayCome(counter: number): boolean {
    if (counter > this.newest) return true
    return this.newest - counter < WINDOW_BITS && this.taken[counter % WINDOW_BITS] === 0
  }

  take(counter: number): void {
    const { newest, taken } = this
    if (counter > newest) {
      const from = Math.max(newest + 1, counter - TAG_WINDOW)
      for (let passed = from; passed < counter; passed++) taken[passed % WINDOW_BITS] = 0
      this.newest = counter
    }
    taken[counter % WINDOW_BITS] = 1
  }
}

/** One end of a queue pair with tags. */
export class Tags {
  private readonly received: Uint8Array
  private readonly sent: Uint8Array
  private counter = 0
  private readonly window = new Window()
  private readonly nonce: Uint8Array = new Uint8Array(NONCE_BYTES)

  /** Keys of 32 bytes: of what comes, and of what goes. */
  constructor(received: Uint8Array, sent: Uint8Array) {
    this.received = received
    this.sent = sent
  }

  /** Fills the trailer of the frame; its ICRC comes behind that. False if there is no room. */
  fill(frame: Uint8Array, at: number, length: number): boolean {
    const trailerAt = trailerOf(frame, at, length)
    if (trailerAt < 0) return false
    const { counter } = this
    this.counter += 1
    putU32(frame, trailerAt, Math.floor(counter / 2 ** 32))
    putU32(frame, trailerAt + 4, counter % 2 ** 32)
    frame.set(this.compute(this.sent, frame, trailerAt), trailerAt + TRAILER_TAG)
    return true
  }

  /** Whether the frame has the right tag, and a counter that none had before: it is then taken. */
  take(frame: Uint8Array, at: number, length: number): boolean {
    const trailerAt = trailerOf(frame, at, length)
    if (trailerAt < 0) return false
    const counter = u32(frame, trailerAt) * 2 ** 32 + u32(frame, trailerAt + 4)
    if (counter > Number.MAX_SAFE_INTEGER || !this.window.mayCome(counter)) return false
    const tag = this.compute(this.received, frame, trailerAt)
    const tagAt = trailerAt + TRAILER_TAG
    if (!timingSafeEqual(tag, frame.subarray(tagAt, tagAt + TAG_BYTES))) return false
    this.window.take(counter)
    return true
  }

  /** The tag of the located frame, whose counter stands in its trailer. */
  private compute(key: Uint8Array, frame: Uint8Array, trailerAt: number): Uint8Array {
    const { nonce } = this
    for (let i = 0; i < TRAILER_TAG; i++) nonce[NONCE_BYTES - 1 - i] = frame[trailerAt + i]!
    const bthAt = bthAtOf()
    const masked = bthAt + BTH_CONGESTION
    const was = frame[masked]!
    frame[masked] = MASKED
    const cipher = createCipheriv(CIPHER, key, nonce, OPTIONS)
    cipher.setAAD(frame.subarray(bthAt, trailerAt + TRAILER_TAG), { plaintextLength: 0 })
    frame[masked] = was
    cipher.final()
    return cipher.getAuthTag()
  }
}

/** Where the trailer stands; -1 if the frame has no room for one. */
function trailerOf(frame: Uint8Array, at: number, length: number): number {
  const icrcAt = icrcAtOf(frame, at, length)
  if (icrcAt < 0) return -1
  const trailerAt = icrcAt - TRAILER_BYTES
  return trailerAt < bthAtOf() + BTH_BYTES ? -1 : trailerAt
}
