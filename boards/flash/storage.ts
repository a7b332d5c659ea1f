/**
 * Where slots lie: one file, or one block device, of a fixed size.
 *
 * Invariant: what was written before a `sync` that has returned survives a cut. Of what was
 * written after it any part may: each byte is as it was or as it was to be. Nothing is created,
 * renamed or cut short, so there is no order of folders to get wrong.
 */

import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'

export interface Storage {
  /** The bytes at that place, those that are not yet synced as well. */
  read(at: number, length: number): Uint8Array
  write(at: number, bytes: Uint8Array): void
  sync(): void
}

export class StorageFile implements Storage {
  private readonly descriptor: number

  /** Opens the file, or makes it, so many bytes of zero. Throws what the system throws. */
  constructor(path: string, bytes: number) {
    const { O_RDWR, O_CREAT } = constants
    this.descriptor = openSync(path, O_RDWR | O_CREAT, 0o600)
    const { size } = fstatSync(this.descriptor)
    // One that another start did not finish is finished.
    if (size < bytes) this.make(path, bytes)
  }

  private make(path: string, bytes: number): void {
    ftruncateSync(this.descriptor, bytes)
    fsyncSync(this.descriptor)
    const folder = openSync(dirname(path), constants.O_RDONLY)
    fsyncSync(folder)
    closeSync(folder)
  }

  read(at: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length)
    for (let done = 0; done < length; ) {
      const got = readSync(this.descriptor, bytes, done, length - done, at + done)
      // A file that somebody has cut short reads as zero there.
      if (got === 0) break
      done += got
    }
    return bytes
  }

  write(at: number, bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; ) {
      done += writeSync(this.descriptor, bytes, done, bytes.length - done, at + done)
    }
  }

  sync(): void {
    fdatasyncSync(this.descriptor)
  }

  close(): void {
    closeSync(this.descriptor)
  }
}
