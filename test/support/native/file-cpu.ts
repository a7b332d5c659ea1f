/**
 * A host's CPU towards the persistent memory that it shares with a native card as a file. Its cache
 * is a model: what was loaded is in it until it is evicted; where DMA writes go into the cache, so
 * is every line that has changed since.
 */

import { closeSync, openSync, readSync } from 'node:fs'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'

const HIT_NS = 10
const MISS_NS = 100

export class FileCpu {
  readonly statesAdr = true
  /** Lines written back, and fences after that. */
  cleaned = 0
  fences = 0
  private readonly path: string
  private readonly isInto: boolean
  private readonly cached = new Set<number>()
  /** What a line held when it was evicted. */
  private readonly evicted = new Map<number, string>()

  /** `isInto`: the card's writes go into the cache. */
  constructor(path: string, isInto: boolean) {
    this.path = path
    this.isInto = isInto
  }

  private read(at: number, length: number): Buffer {
    const bytes = Buffer.alloc(length)
    const file = openSync(this.path, 'r')
    readSync(file, bytes, 0, length, at)
    closeSync(file)
    return bytes
  }

  load(at: number, length: number): { readonly bytes: Uint8Array; readonly ns: number } {
    const line = Math.floor(at / LINE_BYTES)
    const bytes = this.read(at, length)
    const before = this.evicted.get(line)
    const arrived = before !== undefined && this.lineText(line) !== before
    const hits = this.cached.has(line) || (this.isInto && arrived)
    this.cached.add(line)
    return { bytes, ns: hits ? HIT_NS : MISS_NS }
  }

  private lineText(line: number): string {
    return this.read(line * LINE_BYTES, LINE_BYTES).toString('latin1')
  }

  evict(at: number, length: number): void {
    for (let line = Math.floor(at / LINE_BYTES); line * LINE_BYTES < at + length; line++) {
      this.cached.delete(line)
      this.evicted.set(line, this.lineText(line))
    }
  }

  clean(at: number, length: number): void {
    this.cleaned += Math.ceil(((at % LINE_BYTES) + length) / LINE_BYTES)
  }

  fence(): void {
    if (this.cleaned > 0) this.fences++
  }
}
