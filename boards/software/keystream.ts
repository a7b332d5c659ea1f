/** The stream of the firmware's generator, computed by the CPU: ChaCha20 (RFC 8439 2.4). */

import { createCipheriv } from 'node:crypto'

/** Bytes of a key. */
export const STREAM_KEY_BYTES = 32

/** First block counter, four bytes little-endian, and nonce: both 0. */
const FROM_ZERO = new Uint8Array(16)

/** `length` bytes of the stream under that key. */
export function keystream(key: Uint8Array, length: number): Uint8Array {
  const cipher = createCipheriv('chacha20', key, FROM_ZERO)
  return cipher.update(new Uint8Array(length))
}
