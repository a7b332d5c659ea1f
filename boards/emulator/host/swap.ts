/**
 * The swap device of an emulated host: an NVMe drive that takes whole pages, in memory or in a
 * file.
 *
 *   pager.ts ── read, write ──▶ a queue ── SWAP_DEPTH at once ──▶ SwapStore
 *
 * Invariants:
 * - What is asked begins in the order in which it was asked, and is answered once, in a later call.
 * - A page is read as it was written last, unless the device fails: then the answer says so, and
 *   a write that failed may have left anything.
 */

import { closeSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import type { Clock, Timer } from '../../clock.ts'
import { COUNT, having, type Kinds, TEXT } from '../../kinds.ts'
import { CLOCK, check, checkFields, MICROSECONDS } from '../base/arguments.ts'

/*
 * What a drive takes for one page of 4 KiB, µs of virtual time. Nothing is measured: a flash drive
 * of a server reads in 70 to 100 µs, and has a write in its buffer in 10 to 30 µs.
 */
const SWAP_READ_US = 80
const SWAP_WRITE_US = 20

/** Commands that the drive carries out at once. */
const SWAP_DEPTH = 32

/** Where the pages lie. */
export interface SwapStore {
  read(page: number, into: Uint8Array): void
  write(page: number, bytes: Uint8Array): void
  close(): void
}

/** One command. */
export interface SwapAccess {
  /** Its number since the device was made, from 0. */
  readonly number: number
  readonly kind: 'read' | 'write'
  readonly page: number
}

export interface SwapOptions {
  readonly clock: Clock
  readonly pageBytes: number
  /** In memory unless given. */
  readonly store?: SwapStore
  readonly readUs?: number
  readonly writeUs?: number
  readonly depth?: number
}

const SWAP_KINDS: Kinds<SwapOptions> = {
  ...{ clock: CLOCK, pageBytes: COUNT, depth: COUNT },
  ...{ readUs: MICROSECONDS, writeUs: MICROSECONDS },
  store: having(['read', 'write', 'close'], 'where the pages lie'),
}

export class SwapDevice {
  /** Decides which commands fail. */
  script: ((access: SwapAccess) => 'error' | undefined) | null = null
  readonly counts = { reads: 0, writes: 0, errors: 0 }
  /** Told why the store could not read or write a page. */
  onFailure: (error: Error) => void = () => {}

  private readonly clock: Clock
  private readonly store: SwapStore
  private readonly pageBytes: number
  private readonly us: { readonly read: number; readonly write: number }
  private readonly depth: number
  private readonly waiting: (() => void)[] = []
  private readonly timers = new Set<Timer>()
  private number = 0

  constructor(options: SwapOptions) {
    checkFields('a swap device', options, SWAP_KINDS, ['clock', 'pageBytes'])
    const { readUs = SWAP_READ_US, writeUs = SWAP_WRITE_US, depth = SWAP_DEPTH } = options
    this.clock = options.clock
    this.pageBytes = options.pageBytes
    this.store = options.store ?? memorySwap()
    this.us = { read: readUs, write: writeUs }
    this.depth = depth
  }

  /** The page, or null where the device fails. */
  read(page: number, done: (bytes: Uint8Array | null) => void): void {
    this.enqueue('read', page, (failed) => {
      const bytes = new Uint8Array(this.pageBytes)
      done(!failed && this.succeeds(() => this.store.read(page, bytes)) ? bytes : null)
    })
  }

  /** Takes the bytes as they are now; says whether they are kept. */
  write(page: number, bytes: Uint8Array, done: (kept: boolean) => void): void {
    const copy = new Uint8Array(bytes)
    this.enqueue('write', page, (failed) => {
      done(!failed && this.succeeds(() => this.store.write(page, copy)))
    })
  }

  /** Whether the store did it: a file that is full, or fails, is a device that fails. */
  private succeeds(work: () => void): boolean {
    try {
      work()
      return true
    } catch (error) {
      this.counts.errors++
      this.onFailure(error as Error)
      return false
    }
  }

  private enqueue(kind: SwapAccess['kind'], page: number, then: (failed: boolean) => void): void {
    this.waiting.push(() => {
      const failed = this.script?.({ number: this.number++, kind, page }) === 'error'
      this.counts[kind === 'read' ? 'reads' : 'writes']++
      if (failed) this.counts.errors++
      const timer = this.clock.schedule(this.clock.nowUs + this.us[kind], () => {
        this.timers.delete(timer)
        then(failed)
        this.begin()
      })
      this.timers.add(timer)
    })
    this.begin()
  }

  private begin(): void {
    while (this.timers.size < this.depth && this.waiting.length > 0) this.waiting.shift()!()
  }

  /** Nothing that is under way is answered any more. */
  close(): void {
    for (const timer of this.timers) this.clock.cancel(timer)
    this.timers.clear()
    this.waiting.length = 0
    this.store.close()
  }
}

/** Pages in the memory of this process: as many as were ever written. */
export function memorySwap(): SwapStore {
  const pages = new Map<number, Uint8Array>()
  return {
    read(page, into): void {
      const bytes = pages.get(page)
      if (bytes !== undefined) into.set(bytes)
    },
    write(page, bytes): void {
      pages.set(page, bytes)
    },
    close(): void {
      pages.clear()
    },
  }
}

/** Pages in a file that is made for this, and is gone afterwards. */
export function fileSwap(path: string): SwapStore {
  check('path', path, TEXT)
  const descriptor = openSync(path, 'wx+')
  return {
    read(page, into): void {
      for (let done = 0; done < into.length; ) {
        const at = page * into.length + done
        const count = readSync(descriptor, into, done, into.length - done, at)
        if (count === 0) throw new Error(`${path} ended while page ${page} was read`)
        done += count
      }
    },
    write(page, bytes): void {
      for (let done = 0; done < bytes.length; ) {
        const at = page * bytes.length + done
        done += writeSync(descriptor, bytes, done, bytes.length - done, at)
      }
    },
    close(): void {
      closeSync(descriptor)
      rmSync(path, { force: true })
    },
  }
}
