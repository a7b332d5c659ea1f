/**
 * Two slots for images, and which of them runs: MCUboot's test, confirmed, permanent and revert.
 *
 *         0   4 KiB  state                 1 MiB  16 MiB  slot A
 *     4 KiB   4 KiB  state, again         17 MiB  16 MiB  slot B
 *     8 KiB   4 KiB  upload under way
 *    12 KiB   4 KiB  why the last revert or refusal
 *
 * Invariants, after a cut anywhere:
 *
 * - S1  One of the two images runs whole, where one did. Nothing is written to the slot of what
 *   runs, nor to that of what a trial goes back to.
 * - S2  Nobody runs what was not marked, unless nothing else runs: an upload ends with the hash of
 *   what it has brought, and a start takes slot 1 where it is marked, and that hash is there.
 * - S3  A trial that was not confirmed ends at the next start: it is noted before the image starts.
 * - S4  What was confirmed and answered stays: an answer stands behind both saves.
 * - S5  No image runs that cannot read the part, or whose counter is older than the card's.
 * - S6  A flipped bit in one record changes nothing; in an image it is found before that runs.
 */

import { isSame } from './bytes.ts'
import { ImageError } from './image-error.ts'
import {
  HEADER_BYTES,
  IMAGE_BYTES_MAX,
  imageLength,
  SHA256_BYTES,
  sha256,
  type Version,
  versionIn,
} from './mcuboot.ts'
import { SlotError } from './slot-error.ts'
import { readReason, readUpload, type Upload, writeReason, writeUpload } from './slot-notes.ts'
import {
  BLANK_STATE,
  loadState,
  NO_HASH,
  type SlotState,
  SWAP_NONE,
  SWAP_PERMANENT,
  SWAP_TEST,
  saveState,
} from './slot-state.ts'
import type { Storage } from './storage.ts'

const SLOTS_AT: number = 1 << 20
/** Bytes of an upload that are synced together, and noted. */
const SYNC_BYTES = 65536

/** What is asked of an image, beyond its being whole: who made it, and for whom. */
export interface Checked {
  readonly version: Version
  /** Its name. */
  readonly hash: Uint8Array
  readonly counter: number
  readonly formats: readonly [oldest: number, newest: number]
}

/** Looks at all bytes of an image. Throws ImageError or SlotError. */
export type Check = (bytes: Uint8Array) => Checked

interface SlotStoreOptions {
  readonly check: Check
  /** Bytes of a slot, and where the first one begins. */
  readonly slotBytes?: number
  readonly slotsAt?: number
}

/** An image in a slot, as a client is told of it. */
interface SlotInfo extends Checked {
  readonly slot: 0 | 1
  readonly active: boolean
  readonly confirmed: boolean
  readonly pending: boolean
  readonly permanent: boolean
}

/** What a start came to. */
interface Started {
  /** The image that is to run, all bytes of it; null: what the card came with. */
  readonly image: Uint8Array | null
  readonly onTrial: boolean
}

/** How far an upload is. */
interface Progress {
  /** Bytes that are there: the next piece begins with that one. */
  readonly off: number
  /** At the end: whether all of them have the SHA-256 that was said. */
  readonly match?: boolean
}

/** What the first piece of an upload says. */
interface UploadBegin {
  readonly length: number
  /** SHA-256 of the whole file, or nothing. */
  readonly sha: Uint8Array
  /** Only what is newer than what runs is taken. */
  readonly upgrade: boolean
}

interface Found {
  readonly bytes: Uint8Array
  readonly checked: Checked
}

function isNewer(one: Version, other: Version): boolean {
  for (const field of ['major', 'minor', 'revision', 'build'] as const) {
    if (one[field] !== other[field]) return one[field] > other[field]
  }
  return false
}

/** Bytes of the storage that slots need. */
export const STORAGE_BYTES: number = SLOTS_AT + 2 * IMAGE_BYTES_MAX

export class SlotStore {
  private readonly storage: Storage
  private readonly check: Check
  private readonly slotBytes: number
  private readonly slotsAt: number
  private state: SlotState
  private upload: Upload | null = null
  /** Whether what is on trial has passed its self-test, in this life. */
  private passed = false
  /** By place: what it was found to hold. */
  private readonly known = new Map<number, Checked | null>()

  constructor(storage: Storage, options: SlotStoreOptions) {
    const { check, slotBytes = IMAGE_BYTES_MAX, slotsAt = SLOTS_AT } = options
    this.storage = storage
    this.check = check
    this.slotBytes = slotBytes
    this.slotsAt = slotsAt
    this.state = loadState(storage) ?? this.found()
    const upload = readUpload(storage)
    const isEmpty = isSame(this.state.hashes[1], NO_HASH)
    const fits = upload !== null && upload.length <= slotBytes && upload.off < upload.length
    if (fits && isEmpty && !this.isBusy) this.upload = upload
  }

  /**
   * Where no record says which slot runs, the first that holds a whole image does. It is noted
   * at once, and also that none does: else an upload that a cut ends would be found, and run.
   */
  private found(): SlotState {
    for (const primary of [0, 1] as const) {
      const found = this.look(primary)
      if (found === null) continue
      return this.save({ ...BLANK_STATE, primary, hashes: [found.checked.hash, NO_HASH] })
    }
    return this.save(BLANK_STATE)
  }

  private save(state: SlotState): SlotState {
    this.state = saveState(this.storage, state)
    return this.state
  }

  /** Is slot 1 what a trial goes back to, or marked? */
  private get isBusy(): boolean {
    const { trial, swap } = this.state
    return trial !== SWAP_NONE || swap !== SWAP_NONE
  }

  get onTrial(): boolean {
    return this.state.trial !== SWAP_NONE
  }

  get counter(): number {
    return this.state.counter
  }

  /** Format of the part; 0 while nobody has told. */
  get format(): number {
    return this.state.format
  }

  /** Why the last trial ended, or an image was refused; '' where none was. */
  get reason(): string {
    return readReason(this.storage)
  }

  noteReason(text: string): void {
    writeReason(this.storage, text)
  }

  /**
   * The start of a card, or of what runs on it: ends a trial, begins one that is marked, and says
   * which image runs. Whoever calls starts that image behind it, and nothing else.
   */
  start(): Started {
    const { state } = this
    this.passed = false
    if (state.trial !== SWAP_NONE) this.revert()
    else if (state.swap !== SWAP_NONE) this.takeMarked()
    const first = this.runnable(0)
    if (first !== null) return { image: first, onTrial: this.onTrial }
    // Nothing was ever confirmed: that is what the card came with, and no image.
    const other = isSame(this.state.hashes[0], NO_HASH) ? null : this.runnable(1)
    if (other === null) return { image: null, onTrial: false }
    this.noteReason('the image of slot 0 is not whole, or cannot read the part')
    this.save(this.swapped({ trial: SWAP_NONE, swap: SWAP_NONE }))
    return { image: other, onTrial: false }
  }

  /** The trial is over, and the image before it is what runs. */
  private revert(): void {
    if (this.reason === '') this.noteReason('it was not confirmed before the next start')
    this.save(this.swapped({ trial: SWAP_NONE, swap: SWAP_NONE }))
  }

  private takeMarked(): void {
    const { swap } = this.state
    const bytes = this.runnable(1)
    if (bytes === null) {
      this.noteReason('the image that was marked is not whole, or cannot read the part')
      this.save({ ...this.state, swap: SWAP_NONE })
      return
    }
    this.noteReason('')
    this.save(this.swapped({ trial: swap, swap: SWAP_NONE }))
  }

  private swapped(over: Partial<SlotState>): SlotState {
    const { primary, hashes } = this.state
    return {
      ...this.state,
      primary: primary === 0 ? 1 : 0,
      hashes: [hashes[1], hashes[0]],
      ...over,
    }
  }

  /** All bytes of that slot's image, if it may run; they are looked at now. */
  private runnable(slot: 0 | 1): Uint8Array | null {
    const place = this.placeOf(slot)
    this.known.delete(place)
    const found = this.look(place)
    if (found === null || !isSame(found.checked.hash, this.state.hashes[slot])) return null
    return this.whyNot(found.checked) === null ? found.bytes : null
  }

  /** Why the card does not run what is whole; null if it does. */
  private whyNot({ counter, formats: [oldest, newest] }: Checked): SlotError | null {
    const { counter: least, format } = this.state
    if (counter < least) {
      return new SlotError('SLOT_COUNTER', `security counter ${counter} is older than ${least}`)
    }
    if (format === 0 || (oldest <= format && format <= newest)) return null
    const can = oldest === newest ? `${oldest}` : `${oldest} to ${newest}`
    const words = `it works in format ${can} of a part, and this one has ${format}`
    return new SlotError('SLOT_FORMAT', words)
  }

  /** What is in that place, if it is whole. */
  private look(place: number): Found | null {
    const at = this.addressOf(place)
    const read = (from: number, length: number): Uint8Array => this.storage.read(at + from, length)
    const length = imageLength(read, this.slotBytes)
    if (length === null) return null
    const bytes = read(0, length)
    try {
      return { bytes, checked: this.check(bytes) }
    } catch (error) {
      if (error instanceof ImageError || error instanceof SlotError) return null
      throw error
    }
  }

  private addressOf(place: number): number {
    return this.slotsAt + place * this.slotBytes
  }

  private placeOf(slot: 0 | 1): number {
    return slot === 0 ? this.state.primary : 1 - this.state.primary
  }

  /** What that slot holds, as it was when it was last looked at; null if nothing that is known. */
  private holds(slot: 0 | 1): Checked | null {
    const place = this.placeOf(slot)
    if (!this.known.has(place)) this.known.set(place, this.look(place)?.checked ?? null)
    const checked = this.known.get(place)!
    return checked !== null && isSame(checked.hash, this.state.hashes[slot]) ? checked : null
  }

  /** What is in the slots. */
  list(): SlotInfo[] {
    const { swap } = this.state
    return ([0, 1] as const).flatMap((slot) => {
      const checked = this.holds(slot)
      if (checked === null) return []
      const active = slot === 0
      const pending = !active && swap !== SWAP_NONE
      const permanent = !active && swap === SWAP_PERMANENT
      return [{ ...checked, slot, active, confirmed: active !== this.onTrial, pending, permanent }]
    })
  }

  private isIn(slot: 0 | 1, hash: Uint8Array): boolean {
    const checked = this.holds(slot)
    return checked !== null && isSame(checked.hash, hash)
  }

  /** The image of that hash is tried at the next start; `permanent`: and stays if it passes. */
  mark(hash: Uint8Array, permanent: boolean): void {
    if (this.isIn(0, hash)) throw new SlotError('SLOT_RUNS', 'that image runs already')
    if (!this.isIn(1, hash)) {
      throw new SlotError('SLOT_NO_IMAGE', 'no slot holds an image of that hash: upload it')
    }
    if (this.onTrial) {
      const words = 'what runs is on trial: confirm it, or reset, which goes back'
      throw new SlotError('SLOT_PENDING', words)
    }
    const refused = this.whyNot(this.holds(1)!)
    if (refused !== null) throw refused
    this.save({ ...this.state, swap: permanent ? SWAP_PERMANENT : SWAP_TEST })
  }

  /** Whether what runs may be confirmed. */
  get isTested(): boolean {
    return !this.onTrial || this.passed
  }

  /** What runs stays, if its self-test has passed. The card takes no older counter from then on. */
  confirm(): void {
    if (this.state.swap !== SWAP_NONE) {
      throw new SlotError('SLOT_PENDING', 'another image is marked for the next start: reset first')
    }
    if (this.onTrial && !this.passed) {
      throw new SlotError('SLOT_UNTESTED', 'its self-test is not over: ask again')
    }
    const counter = Math.max(this.state.counter, this.holds(0)?.counter ?? 0)
    if (!this.onTrial && counter === this.state.counter) return
    this.save({ ...this.state, trial: SWAP_NONE, counter })
  }

  /** The self-test of what runs has passed: if it was marked as permanent, it stays. */
  selfTestPassed(): void {
    this.passed = true
    if (this.state.trial === SWAP_PERMANENT) this.confirm()
  }

  /** The format of the part, before the first byte of it is stored in that format. */
  noteFormat(format: number): void {
    if (format !== this.state.format) this.save({ ...this.state, format })
  }

  /** Empties slot 1. */
  erase(): void {
    this.refuseBusy()
    this.forget()
  }

  private refuseBusy(): void {
    if (this.onTrial) {
      const words = 'slot 1 holds what a trial goes back to: confirm what runs, or reset'
      throw new SlotError('SLOT_BUSY', words)
    }
    if (this.state.swap === SWAP_NONE) return
    throw new SlotError('SLOT_BUSY', 'slot 1 is marked for the next start: reset first')
  }

  /** Slot 1 holds nothing, before it is written. */
  private forget(): void {
    this.upload = null
    this.known.delete(this.placeOf(1))
    if (!isSame(this.state.hashes[1], NO_HASH)) {
      this.save({ ...this.state, hashes: [this.state.hashes[0], NO_HASH] })
    }
    writeUpload(this.storage, null)
  }

  /** Begins an upload with its first piece, or goes on with the same one. */
  begin({ length, sha, upgrade }: UploadBegin, piece: Uint8Array): Progress {
    if (length > this.slotBytes) {
      throw new SlotError('SLOT_TOO_LARGE', `an image has at most ${this.slotBytes} bytes`)
    }
    this.refuseBusy()
    const { upload } = this
    const isKnown = upload !== null && upload.length === length && isSame(upload.sha, sha)
    if (isKnown && sha.length === SHA256_BYTES) return { off: upload.off }
    if (this.hasFile(length, sha)) return { off: length, match: true }
    this.checkHead(piece, upgrade)
    this.forget()
    this.upload = { sha, length, off: 0 }
    return this.take(0, piece)
  }

  /** Does slot 1 hold that file already? */
  private hasFile(length: number, sha: Uint8Array): boolean {
    if (sha.length !== SHA256_BYTES || this.holds(1) === null) return false
    const bytes = this.storage.read(this.addressOf(this.placeOf(1)), length)
    return isSame(sha256(bytes), sha)
  }

  private checkHead(piece: Uint8Array, upgrade: boolean): void {
    if (piece.length < HEADER_BYTES) {
      throw new SlotError('SLOT_SHORT', `the first piece has the ${HEADER_BYTES} bytes of a header`)
    }
    const head = versionIn(piece)
    if (head === null) throw new SlotError('SLOT_MAGIC', 'it does not begin as an image does')
    if (!upgrade) return
    const runs = this.holds(0)
    if (runs === null || isNewer(head, runs.version)) return
    throw new SlotError('SLOT_NOT_NEWER', 'it is not newer than what runs')
  }

  /**
   * Takes a piece of the upload under way. One that begins elsewhere is not taken: the answer says
   * where the next one begins. Throws what is wrong with the image, which is gone then.
   */
  take(off: number, piece: Uint8Array): Progress {
    const { upload } = this
    if (upload === null) return { off: 0 }
    if (off !== upload.off) return { off: upload.off }
    const end = off + piece.length
    if (end > upload.length) {
      throw new SlotError(
        'SLOT_BEYOND',
        `byte ${end} is beyond the ${upload.length} that were said`,
      )
    }
    this.storage.write(this.addressOf(this.placeOf(1)) + off, piece)
    this.upload = { ...upload, off: end }
    if (end === upload.length) return this.finish(this.upload)
    if (Math.floor(end / SYNC_BYTES) > Math.floor(off / SYNC_BYTES)) this.keep(this.upload)
    return { off: end }
  }

  /** What is there of an upload is durable, and is where it goes on behind a cut. */
  private keep(upload: Upload): void {
    this.storage.sync()
    if (upload.sha.length === SHA256_BYTES) writeUpload(this.storage, upload)
  }

  private finish({ sha, length }: Upload): Progress {
    this.storage.sync()
    const bytes = this.storage.read(this.addressOf(this.placeOf(1)), length)
    if (sha.length > 0 && !isSame(sha256(bytes).subarray(0, sha.length), sha)) {
      this.forget()
      return { off: length, match: false }
    }
    try {
      const checked = this.check(bytes)
      const refused = this.whyNot(checked)
      if (refused !== null) throw refused
      this.save({ ...this.state, hashes: [this.state.hashes[0], checked.hash] })
    } catch (error) {
      this.forget()
      if (error instanceof ImageError || error instanceof SlotError) this.noteReason(error.message)
      throw error
    }
    this.upload = null
    this.known.delete(this.placeOf(1))
    writeUpload(this.storage, null)
    return sha.length > 0 ? { off: length, match: true } : { off: length }
  }
}
