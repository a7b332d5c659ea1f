/**
 * The memory of a host in the file of a port (boards/port/port-file.ts).
 *
 * Invariants:
 * - The file is the memory, and nothing of it is kept here: a load sees what the card wrote last.
 * - A store that is not the host's to make throws ForbiddenAccess and changes nothing.
 */

import type { SharedMemory } from '../../boards/host-port.ts'
import type { PortFile } from '../../boards/port/port-file.ts'
import { ZoneGuard } from '../../boards/port/zone-guard.ts'

export class FileMemory implements SharedMemory {
  readonly guard: ZoneGuard
  private readonly file: PortFile
  private readonly words: Int32Array = new Int32Array(2)
  private readonly wordBytes: Uint8Array = new Uint8Array(this.words.buffer)

  constructor(file: PortFile) {
    this.file = file
    this.guard = new ZoneGuard(file.bytes, (at) => this.loadWord(at))
  }

  get bytes(): number {
    return this.file.bytes
  }

  load(at: number, length: number): Uint8Array {
    this.check(at, length, 1)
    const bytes = new Uint8Array(length)
    this.file.readMemory(at, length, bytes, 0)
    return bytes
  }

  loadWord(at: number): number {
    this.check(at, 4, 4)
    this.file.readMemory(at, 4, this.wordBytes, 0)
    return this.words[0]!
  }

  store(at: number, bytes: Uint8Array): void {
    this.check(at, bytes.length, 1)
    this.guard.checkHost(at, bytes.length)
    this.file.writeMemory(at, bytes.length, bytes, 0)
  }

  storeWord(at: number, value: number): void {
    this.check(at, 4, 4)
    this.guard.checkHost(at, 4)
    this.words[0] = value
    this.file.writeMemory(at, 4, this.wordBytes, 0)
  }

  storePair(at: number, low: number, high: number): void {
    this.check(at, 8, 8)
    this.guard.checkHost(at, 8)
    this.words[0] = low
    this.words[1] = high
    this.file.writeMemory(at, 8, this.wordBytes, 0)
  }

  private check(at: number, length: number, alignment: number): void {
    if (Number.isInteger(at) && at >= 0 && at <= this.bytes - length && at % alignment === 0) return
    throw new RangeError(`${length} bytes at ${at} of a memory of ${this.bytes}`)
  }
}
