/**
 * What a file holds, record by record.
 *
 * Invariant: of a file with a length that is known a few records are in memory at once;
 * all else (standard input, a device) is read whole, and no more of it than there is room for.
 */

import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { CodedError } from '../../../boards/coded-error.ts'

export interface Content {
  /** Bytes of all of it. */
  readonly bytes: number
  /** Pieces of so many bytes each; the last one has the rest. */
  pieces(bytesEach: number): AsyncIterable<Uint8Array>
}

/** A file is not what it was when the command began. */
export class ChangedFileError extends CodedError<'FILE_CHANGED'> {
  constructor() {
    super('FILE_CHANGED', 'the file has changed while it was read: persist it when it is at rest')
  }
}

/** Bytes that are read at once. */
const READ_BYTES = 2 ** 20

/** Does that with what the file has, '-' for standard input. `take` throws what is too much. */
export async function withContent<T>(
  path: string,
  take: (bytes: number) => void,
  work: (content: Content) => Promise<T>,
): Promise<T> {
  if (path === '-') return await work(await wholeOf(process.stdin, take))
  const file = await open(path)
  try {
    const stat = await file.stat()
    // What the system makes up has no length, and content nevertheless.
    if (!stat.isFile() || stat.size === 0) {
      return await work(await wholeOf(file.createReadStream({ autoClose: false }), take))
    }
    take(stat.size)
    return await work(ofFile(file, stat.size))
  } finally {
    await file.close()
  }
}

/** The SHA-256 of all of it, in hexadecimal. */
export async function sha256Of(content: Content): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of content.pieces(READ_BYTES)) hash.update(piece)
  return hash.digest('hex')
}

function ofFile(file: FileHandle, bytes: number): Content {
  return {
    bytes,
    async *pieces(bytesEach) {
      const atOnce = Math.max(1, Math.floor(READ_BYTES / bytesEach)) * bytesEach
      for (let at = 0; at < bytes; at += atOnce) {
        const part = Buffer.alloc(Math.min(atOnce, bytes - at))
        await fill(file, part, at)
        yield* cut(part, bytesEach)
      }
    },
  }
}

async function fill(file: FileHandle, part: Buffer, at: number): Promise<void> {
  for (let filled = 0; filled < part.length; ) {
    const { bytesRead } = await file.read(part, filled, part.length - filled, at + filled)
    if (bytesRead === 0) throw new ChangedFileError()
    filled += bytesRead
  }
}

async function wholeOf(source: Readable, take: (bytes: number) => void): Promise<Content> {
  const read: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of source as AsyncIterable<Buffer>) {
      read.push(piece)
      bytes += piece.length
      take(bytes)
    }
  } finally {
    source.destroy()
  }
  const whole = Buffer.concat(read)
  return {
    bytes,
    async *pieces(bytesEach) {
      yield* cut(whole, bytesEach)
    },
  }
}

function* cut(part: Buffer, bytesEach: number): Generator<Uint8Array> {
  for (let at = 0; at < part.length; at += bytesEach) yield part.subarray(at, at + bytesEach)
}
