/**
 * Memory for payloads: buffers of the arena, regions of it that were registered, and what of it is
 * posted for receiving.
 *
 * Invariant: a place that is posted is posted once: the next message can never overwrite
 * one that was not taken (P3-26).
 */

import type { SharedMemory } from '../../../boards/host-port.ts'
import { ArgumentError } from '../../base/errors.ts'
import { check, checkBytes, SIZE, WORD } from '../../base/kinds.ts'
import type { Range } from '../../way/work-request.ts'
import type { Arena } from './arena.ts'

/** Bytes that host and card both reach; the owner frees them. */
export class HostBuffer {
  /** In DMA_SPACE. */
  readonly address: number
  readonly length: number
  private readonly memory: SharedMemory
  private readonly arena: Arena
  private isFree = false

  constructor(memory: SharedMemory, arena: Arena, length: number) {
    this.memory = memory
    this.arena = arena
    this.length = length
    this.address = arena.alloc(length)
  }

  /** Copies `bytes` to `offset`. PERDURE_ARGUMENT if they leave the buffer. */
  store(bytes: Uint8Array, offset = 0): void {
    checkBytes('what is stored:', bytes)
    this.check(offset, bytes.length)
    this.memory.store(this.address + offset, bytes)
  }

  /** A copy of `length` bytes at `offset`: of all by default. */
  load(offset = 0, length: number = this.length - offset): Uint8Array {
    this.check(offset, length)
    return this.memory.load(this.address + offset, length)
  }

  /** The same bytes, as a work names them. */
  range(lkey: number, offset = 0, length: number = this.length - offset): Range {
    check('lkey', lkey, WORD)
    this.check(offset, length)
    return { address: this.address + offset, length, lkey }
  }

  /** Gives the bytes back. A second call does nothing. */
  free(): void {
    if (this.isFree) return
    this.isFree = true
    this.arena.release(this.address)
  }

  private check(offset: number, length: number): void {
    check('offset', offset, SIZE)
    check('length', length, SIZE)
    if (!this.isFree && offset + length <= this.length) return
    const what = this.isFree ? 'it was freed' : `it has ${this.length}`
    throw new ArgumentError(`${length} bytes at ${offset} of a buffer: ${what}`)
  }
}

/** Pieces of memory that wait for messages, in order of address; no two overlap. */
export class PostedRanges {
  private readonly starts: number[] = []
  private readonly ends: number[] = []

  /** PERDURE_ARGUMENT if any byte of it is posted already. A range without bytes is nowhere. */
  add({ address, length }: Range): void {
    if (length === 0) return
    const i = this.placeOf(address)
    const free =
      (i === 0 || this.ends[i - 1]! <= address) &&
      (i === this.starts.length || this.starts[i]! >= address + length)
    if (!free) {
      throw new ArgumentError(`${length} bytes at ${address} are posted already: take a new place`)
    }
    this.starts.splice(i, 0, address)
    this.ends.splice(i, 0, address + length)
  }

  remove({ address, length }: Range): void {
    const i = this.placeOf(address)
    if (length === 0 || this.starts[i] !== address) return
    this.starts.splice(i, 1)
    this.ends.splice(i, 1)
  }

  /** Where the first range from `address` on stands. */
  private placeOf(address: number): number {
    let low = 0
    let high = this.starts.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.starts[middle]! < address) low = middle + 1
      else high = middle
    }
    return low
  }
}
