/**
 * The places of the card's queue pairs whose packets have tags (hal.ts, SECURE), and the tags of
 * what comes for them, and goes.
 */

import { BAD_COMMAND, DONE, SECURE_BYTES, TAGGED } from '../../../firmware/board/hal.ts'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { BTH_DEST_QP } from '../../../firmware/wire/bth.ts'
import { u24 } from '../../../firmware/wire/bytes.ts'
import { TAG_KEY_BYTES } from '../../../firmware/wire/tag.ts'
import { bthAtOf } from '../../software/icrc.ts'
import { Tags } from '../../software/tags.ts'

interface Place {
  /** Number of the queue pair that is there. */
  readonly number: number
  readonly tags: Tags
}

/** Whether `aux` of TRANSMIT says anything. */
export function isForm(aux: number): boolean {
  return Number.isInteger(aux) && aux >= 0 && aux < (QUEUE_PAIRS + 1) * TAGGED
}

/** The place whose keys such a frame has; -1 for none. */
export function placeOfForm(aux: number): number {
  return Math.floor(aux / TAGGED) - 1
}

export class TagPlaces {
  private readonly places: (Place | null)[] = new Array<null>(QUEUE_PAIRS).fill(null)

  /** SECURE, of bytes that are there; its result. */
  secure(block: Uint8Array, place: number): number {
    if (!Number.isInteger(place) || place < 0 || place >= QUEUE_PAIRS) return BAD_COMMAND
    if (block.length !== 0 && block.length !== SECURE_BYTES) return BAD_COMMAND
    this.places[place] = block.length === 0 ? null : placeOf(block)
    return DONE
  }

  /** Fills the trailer of a frame that leaves. False where the place has no keys. */
  fill(place: number, frame: Uint8Array): boolean {
    return this.places[place]?.tags.fill(frame, 0, frame.length) ?? false
  }

  /**
   * Whether the frame that came is for a place with tags, and has the right one. Its ICRC was just
   * looked at.
   */
  isGood(packets: Uint8Array, at: number, length: number): boolean {
    const number = u24(packets, bthAtOf() + BTH_DEST_QP)
    const place = this.places[number % QUEUE_PAIRS]!
    return place !== null && place.number === number && place.tags.take(packets, at, length)
  }
}

function placeOf(block: Uint8Array): Place {
  const [theirs, ours] = [block.slice(0, TAG_KEY_BYTES), block.slice(TAG_KEY_BYTES, -4)]
  return { number: new Uint32Array(block.slice(-4).buffer)[0]!, tags: new Tags(theirs, ours) }
}
