/**
 * What random lists have of tags: keys for SECURE, frames that leave with a tag, and frames that
 * come with one.
 *
 * Invariant: whether a frame is good when it comes is not known here, as nobody knows which SECURE
 * is done; the machines say it.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import {
  AUX,
  FROM,
  LENGTH,
  SECURE_BYTES,
  TAGGED,
  TRANSMIT_AT,
} from '../../../firmware/board/hal.ts'
import { FRAME_STRIDE_BYTES, QUEUE_PAIRS, TRANSMIT_FRAMES } from '../../../firmware/board/limits.ts'
import { TAG_KEY_BYTES, TAG_WINDOW } from '../../../firmware/wire/tag.ts'
import { FORMS, sealed, type TaggedFrame, taggedFrame } from '../wire/tagged.ts'

/** Places that have tags now and then; of most there is a queue pair, and the one after it. */
const PLACES = [0, 1, 7, QUEUE_PAIRS - 1]
const BLOCK_STRIDE_BYTES = 128

/** The operands of a SECURE, and the newest counter of a frame that was drawn for it. */
interface Block {
  readonly at: number
  readonly place: number
  readonly number: number
  readonly key: Uint8Array
  newest: number
}

export class TagDrawing {
  private readonly random: Random
  private readonly blocks: Block[] = []
  /** Bytes of the frames with room for a trailer, by their transmit places. */
  private readonly lengths = new Map<number, number>()

  constructor(random: Random) {
    this.random = random
  }

  private pick<T>(from: readonly T[]): T {
    return from[this.random.below(from.length)]!
  }

  /** Puts the keys to `at` in packet memory, and a frame into every other transmit place. */
  place(packets: Uint8Array, at: number): void {
    const { random } = this
    for (let i = 0; i < 2 * PLACES.length; i++) {
      const block = packets.subarray(at + i * BLOCK_STRIDE_BYTES, at + (i + 1) * BLOCK_STRIDE_BYTES)
      const place = PLACES[i >> 1]!
      const number = (1 + random.below(2 ** 16 - 1)) * QUEUE_PAIRS + place
      random.fill(block, 0, SECURE_BYTES)
      block.set(new Uint8Array(new Uint32Array([number]).buffer), 2 * TAG_KEY_BYTES)
      const key = block.slice(0, TAG_KEY_BYTES)
      this.blocks.push({
        at: at + i * BLOCK_STRIDE_BYTES,
        place,
        number,
        key,
        newest: random.below(1000),
      })
    }
    for (let i = 1; i < TRANSMIT_FRAMES; i += 2) {
      const { bytes } = this.frame(random.below(2 ** 24))
      packets.set(bytes, TRANSMIT_AT + i * FRAME_STRIDE_BYTES)
      this.lengths.set(i, bytes.length)
    }
  }

  private frame(destQp: number): TaggedFrame {
    const { random } = this
    const payload = new Uint8Array(random.chance(0.1) ? random.below(4097) : random.below(100))
    random.fill(payload, 0, payload.length)
    return taggedFrame({ ...this.pick(FORMS), destQp, payload })
  }

  private number(): number {
    return this.pick([
      QUEUE_PAIRS,
      -1,
      0.5,
      QUEUE_PAIRS - 0.5,
      2 ** 32,
      2 ** 53,
      this.random.below(9),
    ])
  }

  secure(words: Float64Array): void {
    const { random } = this
    const block = this.pick(this.blocks)
    words[FROM] = block.at
    words[LENGTH] = random.chance(0.1) ? 0 : SECURE_BYTES
    words[AUX] = block.place
    if (random.chance(0.1)) words[AUX] = this.number()
    if (random.chance(0.05)) words[LENGTH] = SECURE_BYTES + this.pick([-68, -1, 1, 4])
  }

  /** A frame that has room for a trailer, mostly. */
  transmit(words: Float64Array): void {
    const { random } = this
    const [index, length] = this.pick([...this.lengths])
    words[FROM] = TRANSMIT_AT + index * FRAME_STRIDE_BYTES
    words[LENGTH] = random.chance(0.1) ? random.below(length) : length
    const place = random.chance(0.9) ? this.pick(PLACES) : this.number()
    words[AUX] = (place + 1) * TAGGED + random.below(4)
  }

  /** What comes before a list. */
  came(): Buffer[] {
    return Array.from({ length: this.pick([0, 0, 1, 2, 8]) }, () => this.one())
  }

  /** Of the next counter, mostly; or one that came, or at an end of the window, or far ahead. */
  private one(): Buffer {
    const { random } = this
    const block = this.pick(this.blocks)
    const behind = this.pick([0, 1, 2, 63, 64, 65, TAG_WINDOW - 1, TAG_WINDOW, TAG_WINDOW + 1])
    const ahead = this.pick([1, 1, 1, 1, 2, 64, TAG_WINDOW, TAG_WINDOW + 1, TAG_WINDOW + 2, 5000])
    const counter = Math.max(0, block.newest + (random.chance(0.6) ? ahead : -behind))
    block.newest = Math.max(block.newest, counter)
    const frame = this.frame(random.chance(0.95) ? block.number : block.number + QUEUE_PAIRS)
    const bytes = sealed(frame, block.key, counter)
    // Damaged anywhere, and with an ICRC of its own.
    if (random.chance(0.15)) this.damage(bytes, frame)
    const at = random.below(bytes.length)
    if (random.chance(0.05)) bytes[at] = bytes[at]! ^ (1 + random.below(255))
    return bytes
  }

  private damage(bytes: Buffer, { bthAt, icrcAt }: TaggedFrame): void {
    const { random } = this
    const at = bthAt + random.below(icrcAt - bthAt)
    bytes[at] = bytes[at]! ^ (1 << random.below(8))
    fillIcrc(bytes, 0, bytes.length)
  }
}
