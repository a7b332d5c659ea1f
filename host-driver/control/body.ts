/** Bodies of control calls (firmware/wire/management.ts). */

import { putU32 } from '../../firmware/wire/bytes.ts'
import { MAD_BODY_BYTES } from '../../firmware/wire/management.ts'

/** A body with words of 32 bits at their places, and else zeros. */
export function bodyOf(...words: readonly (readonly [at: number, value: number])[]): Uint8Array {
  const body = new Uint8Array(MAD_BODY_BYTES)
  for (const [at, value] of words) putU32(body, at, value)
  return body
}
