/**
 * A file that is written in large pieces, by who must not be held up and must not be broken by it.
 *
 * Invariants:
 * - Nothing is in the way of who writes: what cannot be written is told once, at the end, by
 *   `close`.
 * - A file that is there is as it was until `open`.
 */

import { closeSync, openSync, writeSync } from 'node:fs'

/** Bytes that wait before they go to the file. */
const WAITING = 1 << 18

export class BufferedFile {
  private path = ''
  private file: number | null = null
  private chunks: Uint8Array[] = []
  private length = 0
  private failure: Error | null = null

  /** From now on all goes to that file, which is replaced: first what waits. Throws. */
  open(path: string): void {
    this.file = openSync(path, 'w')
    this.path = path
  }

  /** The bytes are kept as they are: they must not change. */
  write(bytes: Uint8Array): void {
    this.chunks.push(bytes)
    this.length += bytes.length
    if (this.length >= WAITING) this.flush()
  }

  /** What has not gone to a file: all that was written, where none is open. */
  waiting(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.chunks))
  }

  /** Throws where some of it is not in the file. */
  close(): void {
    if (this.file === null) return
    this.flush()
    closeSync(this.file)
    this.file = null
    if (this.failure === null) return
    const { message } = this.failure
    throw new Error(`${this.path} cannot be written: ${message}`, { cause: this.failure })
  }

  private flush(): void {
    if (this.file === null || this.chunks.length === 0) return
    try {
      if (this.failure === null) writeSync(this.file, Buffer.concat(this.chunks))
    } catch (error) {
      this.failure = error as Error
    }
    this.chunks = []
    this.length = 0
  }
}
