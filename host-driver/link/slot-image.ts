/**
 * One copy of a record as the DPU hands it out: a header line and the data (firmware/medium/slot.ts
 * has the layout), and whether it is what it says.
 *
 * Invariant: nothing in an image is believed before its check code agrees. The code is
 * keyed per region and covers region, record, length, sequence and data, so a torn image, and an
 * image of another place, are both invalid (D-3). That two copies are equal proves nothing (D-15).
 */

import { checkCode } from '../../boards/software/check-code.ts'
import { guardOf } from '../../boards/software/guard.ts'
import { countingCopy } from '../../firmware/medium/copies.ts'
import {
  CHECK_CODE_BYTES,
  CHECKED_AT,
  imageBytes,
  SLOT_HEADER_BYTES,
  SLOT_MAGIC,
  SLOT_VERSION,
} from '../../firmware/medium/slot.ts'
import { copyOf } from '../base/bytes.ts'
import { BYTES, bytesOf, check, checkFields, type Kinds, LIST, WORD } from '../base/kinds.ts'

/** What the region says about every slot of it. */
interface SlotShape {
  readonly id: number
  readonly capacity: number
  /** Key of the check codes, 16 bytes. */
  readonly key: Uint8Array
}

/** The record that a valid image holds. */
export interface SlotRecord {
  readonly data: Uint8Array
  /** Grows with every write of any record: the incarnation of the part above a counter. */
  readonly sequence: bigint
  /** Who wrote it, and under which operation; 0 and 0 for a slot that nobody has written. */
  readonly clientId: bigint
  readonly operationId: bigint
  /** The guard that came with it, CRC-32C of `data`; absent where none came. */
  readonly guard?: number
}

/** An image, and what became of it: `record` is null when it is not valid, and `why` says so. */
export interface SlotImage {
  readonly record: SlotRecord | null
  readonly why: 'valid' | 'empty' | 'foreign' | 'torn' | 'damaged'
}

const SHAPE_KINDS: Kinds<SlotShape> = { id: WORD, capacity: WORD, key: bytesOf(16) }

const code = new Uint8Array(CHECK_CODE_BYTES)

/** Reads the image of slot `slot` and verifies it. Any bytes may stand there. */
export function readSlotImage(image: Uint8Array, shape: SlotShape, slot: number): SlotImage {
  check('an image:', image, BYTES)
  checkFields('a shape', shape, SHAPE_KINDS, ['id', 'capacity', 'key'])
  check('slot', slot, WORD)
  if (image.length < SLOT_HEADER_BYTES) return { record: null, why: 'torn' }
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength)
  const word = (index: number): number => view.getUint32(index * 4, true)
  if (isZero(image.subarray(0, SLOT_HEADER_BYTES))) return { record: null, why: 'empty' }
  const length = word(7)
  const ours =
    word(4) === SLOT_MAGIC && word(5) === shape.id && word(6) === slot && word(14) === SLOT_VERSION
  if (!ours) return { record: null, why: 'foreign' }
  const fits = length <= shape.capacity && length <= image.length - SLOT_HEADER_BYTES
  if (!fits || !codeAgrees(image, length, shape.key)) return { record: null, why: 'torn' }
  const guard = word(15)
  if (guard !== 0 && guardOf(image, SLOT_HEADER_BYTES, length) !== guard) {
    return { record: null, why: 'damaged' }
  }
  const record = {
    data: copyOf(image.subarray(SLOT_HEADER_BYTES, SLOT_HEADER_BYTES + length)),
    sequence: view.getBigUint64(32, true),
    clientId: view.getBigUint64(40, true),
    operationId: view.getBigUint64(48, true),
    ...(guard === 0 ? {} : { guard }),
  }
  return { record, why: 'valid' }
}

/** The image of a record, with its check code, padded with zeros to whole lines. */
export function writeSlotImage(record: SlotRecord, shape: SlotShape, slot: number): Uint8Array {
  const { data } = record
  const image = new Uint8Array(imageBytes(data.length))
  const view = new DataView(image.buffer)
  view.setUint32(16, SLOT_MAGIC, true)
  view.setUint32(20, shape.id, true)
  view.setUint32(24, slot, true)
  view.setUint32(28, data.length, true)
  view.setBigUint64(32, record.sequence, true)
  view.setBigUint64(40, record.clientId, true)
  view.setBigUint64(48, record.operationId, true)
  view.setUint32(56, SLOT_VERSION, true)
  view.setUint32(60, record.guard ?? 0, true)
  image.set(data, SLOT_HEADER_BYTES)
  const checked = SLOT_HEADER_BYTES - CHECKED_AT + data.length
  checkCode(image, 0, image, CHECKED_AT, checked, shape.key, 0)
  return image
}

function codeAgrees(image: Uint8Array, length: number, key: Uint8Array): boolean {
  checkCode(code, 0, image, CHECKED_AT, SLOT_HEADER_BYTES - CHECKED_AT + length, key, 0)
  for (let i = 0; i < CHECK_CODE_BYTES; i++) if (code[i] !== image[i]) return false
  return true
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0)
}

/**
 * The copy that a one-sided reader may use, of those that their own check codes prove, by the
 * card's own rule: the first of the latest write, which is the first valid one wherever the fences
 * held (firmware/medium/copies.ts; D-15, P1-21, P1-22, P1-31). -1 if there is none; equality of
 * copies does not enter.
 */
export function chooseCopy(copies: readonly SlotImage[]): number {
  check('copies:', copies, LIST)
  const judged = Array.from(copies, ({ record }) => {
    const sequence = record?.sequence ?? 0n
    const [sequenceHigh, sequenceLow] = [Number(sequence >> 32n), Number(sequence & 0xffff_ffffn)]
    return { valid: record !== null, header: { sequenceHigh, sequenceLow } }
  })
  return countingCopy(judged, 0, copies.length)
}
