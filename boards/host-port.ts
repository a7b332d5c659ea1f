/**
 * What a driver on the host sees of a card behind PCIe: memory that both reach, and the card's
 * registers. A board for real hardware offers the same.
 *
 * Invariants:
 * - What the host stores is in the memory when the call returns, in the order of the calls; the
 *   card reads it by DMA at any moment in between. What the card writes appears by itself, in its
 *   order.
 * - A register write is posted: it reaches the card later, behind everything stored before it.
 * - A store into memory that the host may not write (zone 1; zone 2 without its lock; the card's
 *   line of the header page) throws ForbiddenAccess and changes nothing (P3-11).
 * - Addresses are those of DMA_SPACE; lengths are bytes.
 */

/** Memory that the card reaches by DMA. */
export interface SharedMemory {
  readonly bytes: number
  /** A copy of [at, at + length). */
  load(at: number, length: number): Uint8Array
  /** The 32-bit word at `at`, which four divides. */
  loadWord(at: number): number
  /** Upwards, byte by byte as far as anybody can tell. */
  store(at: number, bytes: Uint8Array): void
  storeWord(at: number, value: number): void
  /** Two words at once, at an address that eight divides: nobody sees one without the other. */
  storePair(at: number, low: number, high: number): void
}

export interface HostPort {
  readonly memory: SharedMemory
  /** Writes a register of 32 bits (hal.ts, PORT_*; offsets from PORT_AT). */
  writeRegister(at: number, value: number): void
  /** Writes two registers by one access of 64 bits: the register doorbell. */
  writeRegisterPair(at: number, low: number, high: number): void
  /** Appends to the ring of doorbells: the FIFO form. */
  ringDoorbell(low: number, high: number): void
  /** Reads a register: slow, for initialisation and after errors; 0xffffffff without a card. */
  readRegister(at: number): number
  /** Called some time after the card wrote its word of interrupts, and when it goes or comes. */
  onInterrupt(callback: () => void): void
  /** Now, µs, and a call at `atUs` or soon after; returns what cancels it. */
  now(): number
  setTimer(atUs: number, callback: () => void): () => void
  close(): void
}

/**
 * Memory of the host whose pages come and go: what is not in use lies in a swap file. On real
 * hardware the kernel's, by a notifier of the address space (HMM); in the emulator pager.ts.
 *
 * Invariants:
 * - A page that has `arrived` keeps its address until its user has said that it has let go of it:
 *   no other page is in that frame meanwhile, and what the card writes there is the page's content.
 * - What a user hears of a page it hears in the order in which it happened: after `letGo` of a page
 *   that page does not arrive again before `done`.
 */
export interface PagedMemory {
  /** Whole pages. */
  readonly bytes: number
  readonly pageBytes: number
  /** Pages that can be there at once. */
  readonly room: number
  /** Where the card may reach it by virtual addresses, if the host's IOMMU translates them. */
  readonly shared?: SharedAddresses
  /** How much room it has now, and how much it swaps; not known where it is left out. */
  pressure?(): PagePressure
  /** Whoever reaches the pages by DMA, one at a time. */
  use(user: PageUser): PageUse
  /** A copy of [at, at + length), as the host's CPU loads it. Rejects with PageLost. */
  load(at: number, length: number): Promise<Uint8Array>
  /** Stores as the host's CPU does. Rejects with PageLost; whole pages are never lost. */
  store(at: number, bytes: Uint8Array): Promise<void>
}

export interface PagePressure {
  /** Share of the room that no page has, 0 to 1. */
  readonly free: number
  /** Pages read from the swap file, and written to it, in a second. */
  readonly swapsPerS: number
}

/** A part of an address space of the host that its IOMMU translates for the card. */
export interface SharedAddresses {
  /** Virtual address of the first byte; a multiple of a page, below 2^48. */
  readonly address: number
  /**
   * From now on the space with that number is this one, for the card; what has arrived and was not
   * let go of is translated, and nothing else. Null: for no card.
   */
  bind(space: number | null): void
}

export interface PageUser {
  /** A page that was wanted is there, at this address of DMA_SPACE. */
  arrived(page: number, at: number): void
  /** A page that was wanted cannot be had: what was in it is lost. */
  lost(page: number): void
  /** A page that was lost has a content again. */
  healed(page: number): void
  /**
   * These pages are about to be taken. `done` says that nobody reaches them any more, and that
   * everything which was written to them before has arrived; it may take its time.
   */
  letGo(pages: readonly number[], done: () => void): void
}

export interface PageUse {
  /** Brings a page in; one that is there arrives again, in the same call. */
  want(page: number): void
  /** Likewise, of a page that nobody waits for yet: those that are waited for come first. */
  expect(page: number): void
  /** Pages go in blocks of so many, a power of two, as far as they are idle. */
  inBlocks?(pages: number): void
  /** A page will not be needed soon: others stay before it does. */
  drop(page: number): void
  /**
   * Nobody reaches any page from now on, whatever the card does: what `letGo` asked for is done.
   * A card that was not told may lose writes that it has acknowledged.
   */
  end(): void
}

/** What was in a page is lost: the swap file does not give it back. */
export class PageLost extends Error {
  override readonly name = 'PageLost'
  readonly code = 'PAGE_LOST'
  readonly page: number

  constructor(page: number) {
    super(`page ${page} is lost: it cannot be read from the swap file`)
    this.page = page
  }
}

/** What the host may not write. */
type ForbiddenPlace = 'zone1' | 'zone2' | 'header' | 'register'

/** The host tried to write what is not its to write. Nothing was changed. */
export class ForbiddenAccess extends Error {
  override readonly name = 'ForbiddenAccess'
  readonly code = 'FORBIDDEN_ACCESS'
  readonly place: ForbiddenPlace
  /** The queue whose information it is, or -1. */
  readonly queue: number
  readonly at: number

  constructor(place: ForbiddenPlace, queue: number, at: number, message: string) {
    super(message)
    this.place = place
    this.queue = queue
    this.at = at
  }
}
