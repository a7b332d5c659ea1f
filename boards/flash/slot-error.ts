/** Why the slots refuse what somebody asks of them: a code, and words that say what to do. */

import { CodedError } from '../coded-error.ts'

export type SlotFault =
  /** Slot 1 is to be reverted to, or marked. */
  | 'SLOT_BUSY'
  /** Slot 0 is what runs: nobody writes it, or erases it. */
  | 'SLOT_ACTIVE'
  /** No slot holds an image of that hash. */
  | 'SLOT_NO_IMAGE'
  /** A test was asked of what runs already. */
  | 'SLOT_RUNS'
  /** What runs cannot be confirmed, or marked, while a test is marked, or under way. */
  | 'SLOT_PENDING'
  /** What is on trial has not passed its self-test, yet. */
  | 'SLOT_UNTESTED'
  /** More bytes than a slot has. */
  | 'SLOT_TOO_LARGE'
  /** A piece goes beyond the length that was said. */
  | 'SLOT_BEYOND'
  /** The first piece is shorter than a header. */
  | 'SLOT_SHORT'
  /** The first piece does not begin as an image does. */
  | 'SLOT_MAGIC'
  /** An upgrade was asked, and the image is not newer than what runs. */
  | 'SLOT_NOT_NEWER'
  /** Made for other boards. */
  | 'SLOT_TARGET'
  /** Its security counter is older than the card's. */
  | 'SLOT_COUNTER'
  /** It brings no runtime, and needs another one than this card has. */
  | 'SLOT_HAL'
  /** It cannot work in the format that the part has. */
  | 'SLOT_FORMAT'

export class SlotError extends CodedError<SlotFault> {
  override readonly name = 'SlotError'
}
