/**
 * What a driver on the host sees of a card behind PCIe: memory that both reach, and the card's
 * registers. A board for real hardware offers the same.
 *
 * What always holds:
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

/** What the host may not write. */
export type ForbiddenPlace = 'zone1' | 'zone2' | 'header' | 'register'

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
