/**
 * What stands beside the state of the slots: how far an upload is, and why a trial ended. Each is
 * behind a SHA-256 of itself, so what a cut has torn is nothing.
 */

import { SHA256_BYTES } from './mcuboot.ts'
import { readSealed, writeSealed } from './sealed.ts'
import type { Storage } from './storage.ts'

const UPLOAD_AT = 8192
const REASON_AT = 12288
/** Bytes of a reason, at the most. */
const REASON_BYTES_MAX = 1024

/** Bytes of an upload: SHA-256 of the file, its length, how many of it are durable. */
const LENGTH = SHA256_BYTES
const OFF: number = LENGTH + 4
const UPLOAD_BYTES: number = OFF + 4

/** An upload under way. */
export interface Upload {
  /** SHA-256 of the whole file, or nothing. */
  readonly sha: Uint8Array
  readonly length: number
  /** Bytes that are there. */
  readonly off: number
}

export function readUpload(storage: Storage): Upload | null {
  const bytes = readSealed(storage, UPLOAD_AT, UPLOAD_BYTES)
  if (bytes === null) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const length = view.getUint32(LENGTH, true)
  return { sha: bytes.slice(0, SHA256_BYTES), length, off: view.getUint32(OFF, true) }
}

/** Keeps how far it is; null: none is under way. */
export function writeUpload(storage: Storage, upload: Upload | null): void {
  const bytes = new Uint8Array(UPLOAD_BYTES)
  if (upload === null) {
    storage.write(UPLOAD_AT, new Uint8Array(UPLOAD_BYTES + SHA256_BYTES))
    storage.sync()
    return
  }
  const view = new DataView(bytes.buffer)
  bytes.set(upload.sha)
  view.setUint32(LENGTH, upload.length, true)
  view.setUint32(OFF, upload.off, true)
  writeSealed(storage, UPLOAD_AT, bytes)
}

/** Why the last trial ended, or an image was refused; '' where nothing is noted. */
export function readReason(storage: Storage): string {
  const bytes = readSealed(storage, REASON_AT, REASON_BYTES_MAX)
  if (bytes === null) return ''
  const end = bytes.indexOf(0)
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end))
}

export function writeReason(storage: Storage, text: string): void {
  const bytes = new Uint8Array(REASON_BYTES_MAX)
  new TextEncoder().encodeInto(text, bytes)
  writeSealed(storage, REASON_AT, bytes)
}
