/** Why an image cannot be used: each refusal has a code, and words that name what is wrong. */

import { CodedError } from '../coded-error.ts'

export type ImageFault =
  /** Shorter than a header. */
  | 'IMAGE_SHORT'
  /** Does not begin as an image does. */
  | 'IMAGE_MAGIC'
  /** Lengths or flags of the header that no card takes. */
  | 'IMAGE_HEADER'
  /** The type-length-values behind the payload are cut short, doubled or missing. */
  | 'IMAGE_TLVS'
  /** Its SHA-256 is another one than it says. */
  | 'IMAGE_HASH'
  /** Nobody has signed it. */
  | 'IMAGE_UNSIGNED'
  /** Signed by a key that is not trusted. */
  | 'IMAGE_KEY'
  /** The signature is not of that key. */
  | 'IMAGE_SIGNATURE'
  /** The payload is not what a card of ours is given. */
  | 'IMAGE_PAYLOAD'
  /** A part is not what the manifest says. */
  | 'IMAGE_PART'

export class ImageError extends CodedError<ImageFault> {
  override readonly name = 'ImageError'
}
