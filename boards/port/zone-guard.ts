/**
 * Who may write which byte of the memory that host and card share (source 3; P3-6, P3-11).
 *
 *                     host                              card
 *   zone 1            never                             yes
 *   zone 2 of q       while the lock of q is not 0      yes
 *   zone 3            yes                               never
 *   header page       all but the card's line           the card's line only
 *   anything else     yes                               yes
 *
 * Invariants:
 * - The zones are those of the header page as it was when its number was given to the card, until
 *   another one is given or there is no card any more: from then on nothing is anybody's.
 * - A store is judged as a whole before any byte of it is stored.
 * - The lock is read from zone 1 itself, which only the card writes.
 */

import { HEADER_PAGE_BYTES } from '../../firmware/board/memory-map.ts'
import {
  HEADER_CARD,
  HEADER_CARD_BYTES,
  HEADER_QUEUES,
  HEADER_ZONE1,
  HEADER_ZONE2,
  HEADER_ZONE3,
} from '../../firmware/host/header-page.ts'
import { Z1_LOCK, ZONE1_BYTES, ZONE2_BYTES, ZONE3_BYTES } from '../../firmware/host/queue-info.ts'
import { ForbiddenAccess } from '../host-port.ts'

/** The card wrote what only the host writes: a bug of the firmware, or an address of a bad host. */
export class CardViolation extends Error {
  override readonly name = 'CardViolation'
  readonly code = 'CARD_VIOLATION'
  readonly at: number

  constructor(what: string, at: number, length: number) {
    super(`the card writes ${length} bytes at ${at}, into ${what}, which is the host's`)
    this.at = at
  }
}

interface Zones {
  readonly header: number
  readonly queues: number
  readonly zone1: number
  readonly zone2: number
  readonly zone3: number
}

export class ZoneGuard {
  private readonly loadWord: (at: number) => number
  private readonly bytes: number
  private zones: Zones | null = null

  /** Of a memory of so many bytes, whose words `loadWord` reads. */
  constructor(bytes: number, loadWord: (at: number) => number) {
    this.bytes = bytes
    this.loadWord = loadWord
  }

  /** Where the header page lies whose zones are guarded, or -1. */
  get header(): number {
    return this.zones?.header ?? -1
  }

  /** Guards what the header page at that address describes; what is not in the memory, is not. */
  protect(header: number): void {
    this.zones = null
    if (!(header >= 0 && header <= this.bytes - HEADER_PAGE_BYTES)) return
    const word = (at: number): number => this.loadWord(header + at) >>> 0
    const address = (at: number): number => word(at) + 2 ** 32 * word(at + 4)
    this.zones = {
      header,
      queues: word(HEADER_QUEUES),
      zone1: address(HEADER_ZONE1),
      zone2: address(HEADER_ZONE2),
      zone3: address(HEADER_ZONE3),
    }
  }

  /** There is no card: nothing is guarded. */
  release(): void {
    this.zones = null
  }

  /** Throws ForbiddenAccess if the host may not store there. */
  checkHost(at: number, length: number): void {
    const { zones } = this
    if (zones === null || length <= 0) return
    const { header, queues, zone1, zone2 } = zones
    if (overlaps(at, length, header + HEADER_CARD, HEADER_CARD_BYTES)) {
      const what = "the card's line of the header page, which only the card writes"
      throw new ForbiddenAccess(
        'header',
        -1,
        at,
        `a store of ${length} bytes at ${at} is in ${what}`,
      )
    }
    if (overlaps(at, length, zone1, queues * ZONE1_BYTES)) {
      const queue = Math.floor((Math.max(at, zone1) - zone1) / ZONE1_BYTES)
      const what = `zone 1 of queue ${queue}, which only the card writes: use a control call`
      throw new ForbiddenAccess(
        'zone1',
        queue,
        at,
        `a store of ${length} bytes at ${at} is in ${what}`,
      )
    }
    if (overlaps(at, length, zone2, queues * ZONE2_BYTES)) this.checkLocks(zones, at, length)
  }

  /** Every queue whose zone 2 is touched has to be locked. */
  private checkLocks({ queues, zone1, zone2 }: Zones, at: number, length: number): void {
    const last = Math.min(queues - 1, Math.floor((at + length - 1 - zone2) / ZONE2_BYTES))
    for (let q = Math.max(0, Math.floor((at - zone2) / ZONE2_BYTES)); q <= last; q++) {
      const lock = zone1 + q * ZONE1_BYTES + Z1_LOCK
      const isThere = lock % 4 === 0 && lock + 4 <= this.bytes
      if (isThere && this.loadWord(lock) !== 0) continue
      const what = `zone 2 of queue ${q} without its lock: take the lock, or send a control call`
      throw new ForbiddenAccess('zone2', q, at, `a store of ${length} bytes at ${at} is in ${what}`)
    }
  }

  /** What is wrong with a write of the card, or null. */
  judgeCard(at: number, length: number): CardViolation | null {
    const { zones } = this
    if (zones === null || length <= 0) return null
    const { header, queues, zone3 } = zones
    if (overlaps(at, length, zone3, queues * ZONE3_BYTES)) {
      const queue = Math.floor((Math.max(at, zone3) - zone3) / ZONE3_BYTES)
      return new CardViolation(`zone 3 of queue ${queue}`, at, length)
    }
    const behind = HEADER_CARD + HEADER_CARD_BYTES
    const isHeaders =
      overlaps(at, length, header, HEADER_CARD) ||
      overlaps(at, length, header + behind, HEADER_PAGE_BYTES - behind)
    return isHeaders ? new CardViolation('the header page', at, length) : null
  }
}

function overlaps(at: number, length: number, start: number, bytes: number): boolean {
  return at < start + bytes && start < at + length
}
