/**
 * The host's ordinary memory behind PCIe, where its queues and buffers lie: SharedMemory for the
 * host, the target of DMA_SPACE for the card.
 *
 * Invariants:
 * - The host's stores are in the memory at once and in order; aligned words and pairs are stored
 *   whole, also towards another thread that shares the buffer.
 * - The card's writes are posted (pcie.ts); the host sees them when they have arrived.
 * - A store that is not the host's to make throws ForbiddenAccess and changes nothing; a write that
 *   is not the card's to make is told to `onViolation`, which throws it unless a test listens.
 */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import type { SharedMemory } from '../../host-port.ts'
import { type CardViolation, ZoneGuard } from '../../port/zone-guard.ts'
import { check, NUMBER, PCIE_LINK } from '../base/arguments.ts'
import { Iommu } from './iommu.ts'
import { PageMarks } from './page-marks.ts'
import { type FarMemory, PcieLink, Windows } from './pcie.ts'

export class HostRam implements SharedMemory, FarMemory {
  readonly kind = 'ram'
  readonly link: PcieLink
  readonly windows: Windows
  readonly guard: ZoneGuard
  /** Which pages the card has read and written. */
  readonly marks: PageMarks
  /** What translates virtual addresses of the card. */
  readonly iommu: Iommu = new Iommu()
  /** May be handed to another thread of the host. */
  readonly buffer: SharedArrayBuffer
  /** The memory as DMA reads see it. */
  readonly live: Uint8Array
  readonly liveWords: Int32Array
  /** Told when a write of the card has arrived: where, and how many bytes. */
  onWrite: ((at: number, length: number) => void) | null = null
  onViolation: (violation: CardViolation) => void = (violation) => {
    throw violation
  }

  private readonly livePairs: BigInt64Array
  private readonly pair: Int32Array = new Int32Array(2)
  private readonly pairWhole: BigInt64Array = new BigInt64Array(this.pair.buffer)

  /** A host that has persistent memory, too, has one link for both. */
  constructor(bytes: number, link: PcieLink = new PcieLink()) {
    check('bytes of memory', bytes, NUMBER)
    check('link', link, PCIE_LINK)
    if (!(bytes > 0 && bytes < 2 ** 31) || bytes % LINE_BYTES !== 0) {
      throw new RangeError(`memory of ${bytes} bytes: whole lines, less than 2^31`)
    }
    this.link = link
    this.windows = new Windows(bytes)
    this.marks = new PageMarks(bytes)
    this.buffer = new SharedArrayBuffer(bytes)
    this.live = new Uint8Array(this.buffer)
    this.liveWords = new Int32Array(this.buffer)
    this.livePairs = new BigInt64Array(this.buffer)
    this.guard = new ZoneGuard(bytes, (at) => this.loadWord(at))
    this.link.attach(this)
  }

  get bytes(): number {
    return this.live.length
  }

  /** Makes `live` what the memory is; where it lies in a file, it may be old. */
  protected fetch(_at: number, _length: number): void {}

  /** Makes the memory what `live` is. */
  protected publish(_at: number, _length: number): void {}

  load(at: number, length: number): Uint8Array {
    this.check(at, length, 1)
    this.fetch(at, length)
    return this.live.slice(at, at + length)
  }

  loadWord(at: number): number {
    this.check(at, 4, 4)
    this.fetch(at, 4)
    return Atomics.load(this.liveWords, at >> 2)
  }

  store(at: number, bytes: Uint8Array): void {
    this.check(at, bytes.length, 1)
    this.guard.checkHost(at, bytes.length)
    this.live.set(bytes, at)
    this.publish(at, bytes.length)
  }

  storeWord(at: number, value: number): void {
    this.check(at, 4, 4)
    this.guard.checkHost(at, 4)
    Atomics.store(this.liveWords, at >> 2, value | 0)
    this.publish(at, 4)
  }

  storePair(at: number, low: number, high: number): void {
    this.check(at, 8, 8)
    this.guard.checkHost(at, 8)
    this.pair[0] = low
    this.pair[1] = high
    Atomics.store(this.livePairs, at >> 3, this.pairWhole[0]!)
    this.publish(at, 8)
  }

  private check(at: number, length: number, alignment: number): void {
    if (Number.isInteger(at) && at >= 0 && at <= this.bytes - length && at % alignment === 0) return
    throw new RangeError(`${length} bytes at ${at} of a memory of ${this.bytes}`)
  }

  /** A posted write of the card. */
  dmaWrite(at: number, source: Uint8Array, from: number, length: number): void {
    const violation = this.guard.judgeCard(at, length)
    if (violation !== null) this.onViolation(violation)
    else this.link.write(this, at, source, from, length, false)
  }

  /** Whether a read of the card is answered: the bytes are then those of `live`. */
  dmaRead(at: number, length: number): boolean {
    if (!this.link.read(this, at, length)) return false
    this.fetch(at, length)
    this.marks.read(at, length)
    return true
  }

  land(at: number, bytes: Uint8Array): void {
    this.live.set(bytes, at)
    this.publish(at, bytes.length)
    this.marks.write(at, bytes.length)
    this.onWrite?.(at, bytes.length)
  }

  /** The host loses its power, or starts again: nothing of it is left. */
  powerCut(): void {
    this.link.take()
    this.guard.release()
    this.iommu.clear()
    this.live.fill(0)
    this.publish(0, this.bytes)
  }
}
