/**
 * Bytes at a fixed place of the storage with their SHA-256 behind them: what a cut has torn is
 * nothing, nor is what was never written.
 */

import { isSame, joined } from './bytes.ts'
import { SHA256_BYTES, sha256 } from './mcuboot.ts'
import type { Storage } from './storage.ts'

/** So many bytes from there, if the SHA-256 behind them is theirs; null else. */
export function readSealed(storage: Storage, at: number, length: number): Uint8Array | null {
  const bytes = storage.read(at, length + SHA256_BYTES)
  const content = bytes.subarray(0, length)
  return isSame(sha256(content), bytes.subarray(length)) ? content : null
}

/** Writes the bytes and their SHA-256; they are durable when it returns. */
export function writeSealed(storage: Storage, at: number, content: Uint8Array): void {
  storage.write(at, joined([content, sha256(content)]))
  storage.sync()
}
