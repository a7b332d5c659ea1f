/**
 * The judge of one simulated card: what it may say, what must lie on its part, what reads may show.
 *
 * Invariants:
 * - An acknowledgement is judged when it leaves the card, against what is durable at that moment
 *   (O4): so many copies as it says, read from the bytes.
 * - After each restart every record that was touched is read from the medium: one whole version
 *   that may be there (O1, O2, O5), in every copy; and every other byte is as it was (O3).
 * - A record that is lost is on the list of the lost, and only if that much of it was damaged (O7).
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { readLane } from '../../support/judges/oracle.ts'
import { fillPattern, isBlank, isPattern } from './frames.ts'
import {
  copyAt,
  DATA_AT,
  isLater,
  isListedLost,
  type Layout,
  layoutOf,
  Shadow,
  versionAt,
} from './medium.ts'
import { CELL_BYTES, type Operation } from './operation.ts'
import { Register, type Version } from './register.ts'

/** Cells that each client has to itself. */
export const CELLS = 8
/** Of them the one that its batches write. */
export const BATCH_CELL = 7
const LINE_BYTES = 64
/** Flag of a line that takes no stores, as the emulated part keeps it. */
const REFUSES_WRITES = 8

/** A record, and what became of its medium. */
export interface RecordState {
  readonly register: Register
  readonly slot: number
  /** Copies that a media error hit since the record was written last. */
  damage: number
  /** A line of it takes no stores: what is half-written stays so, and is shown to nobody. */
  refuses: boolean
  /**
   * Copies, bit by bit, that took no stores: they count as hit until the record is one again,
   * though their medium may be well before. A lane knows of them, and if it is lost, nobody.
   */
  behind: number
  /** The lane that knew of them is lost: check codes alone decide, and may take an older copy. */
  blind: boolean
  /** A cut may have caught it half-written. */
  touched: boolean
  /** It was reported lost, and not given up yet. */
  lost: boolean
}

/** A word of a region of bytes, written by one client alone. */
interface Cell {
  /** The highest value that may be there, and the lowest. */
  issued: number
  floor: number
  /** The highest value that may ever have been there: a cut may have taken it back. */
  most: number
}

/** What a restart made of the records under way. */
export type Class = 'nothing' | 'old' | 'new' | 'mixed' | 'lost'

/** Where the records of a judge lie. */
interface Place {
  readonly medium: Nvdimm
  readonly layout: Layout
  /** Bytes of the medium that nobody may change but who writes these records. */
  readonly from: number
  readonly end: number
}

export class Judge {
  /** The medium of the records. */
  readonly part: Nvdimm
  /** What has the superblock. */
  readonly page: Nvdimm
  readonly layout: Layout
  readonly bytes: Layout | null
  readonly records: RecordState[]
  readonly cells: Cell[] = []
  /** Clients whose cells an old connection may still change. */
  readonly loose: Set<number> = new Set()
  /** Records that were written since the last look. */
  readonly touched: Set<number> = new Set()
  /** Records with a line that something is the matter with: whoever likes may repair them. */
  private readonly damaged: Set<number> = new Set()
  /** Acknowledgements judged against the medium, and losses that were said. */
  acknowledged = 0
  losses = 0
  /** The energy of the last save failed: older versions may come back. */
  forgives = false
  /** When the medium was looked at last: a READ from before may have seen what a cut took back. */
  private restartedAt = 0
  protected readonly shadow: Shadow
  protected readonly blame: (what: string) => void
  private readonly durableWords: Int32Array

  constructor(
    page: Nvdimm,
    hasBytes: boolean,
    clients: number,
    blame: (what: string) => void,
    place: Place = { medium: page, layout: layoutOf(page, 0), from: DATA_AT, end: page.bytes },
  ) {
    const { medium, layout, from, end } = place
    this.part = medium
    this.page = page
    this.blame = blame
    this.layout = layout
    this.bytes = hasBytes ? layoutOf(page, 1) : null
    this.records = Array.from({ length: this.layout.slots }, (_, slot) => {
      const register = new Register(`record ${slot}`)
      const well = { damage: 0, refuses: false, behind: 0, blind: false }
      return { register, slot, ...well, touched: false, lost: false }
    })
    for (let i = 0; i < clients * CELLS; i++) this.cells.push({ issued: 0, floor: 0, most: 0 })
    this.shadow = new Shadow(medium, from, end)
    this.durableWords = medium.durableWords
  }

  /** A version is told durable, in that many copies, by a frame that leaves now. */
  acknowledge(operation: Operation, copies: number, isFirst: boolean, now: number): void {
    const { version, slot } = operation
    if (version === null) return
    const record = this.records[slot]!
    const wrong = record.register.see(version, version.begun, now)
    if (wrong !== null) this.blame(`an acknowledgement: ${wrong}`)
    this.acknowledged += 1
    if (isFirst && version.promised === 0) {
      const { batch, kind } = operation
      const late = batch !== null || kind === 'record' || version.names !== null
      this.judgeDurable(record, version, copies, late)
    }
    if (copies > version.promised) version.promised = copies
  }

  /**
   * The status of a batch leaves when its burst is over, and so may what acknowledges a plain
   * WRITE; and what a relay says of a record was said by another card before. Until then such a
   * record may have been overwritten by a write that began before it and came late, or again: one
   * that nobody was told of before this one began, and that has a later sequence than this one
   * where it still is. Nor need a copy be whole that such a write is in the midst of, if records
   * are stored one copy after the other (`isOverwritten`) and another is.
   */
  private judgeDurable(record: RecordState, version: Version, copies: number, late: boolean): void {
    const { part, layout, durableWords } = this
    const { register, slot, damage } = record
    const found: (Version | null)[] = []
    for (let c = 0; c < layout.copies; c++) {
      const at = copyAt(layout, c, slot)
      found.push(versionAt(part.durable, durableWords, at, layout, slot, register))
    }
    const own = found.indexOf(version)
    const counts = (other: Version | null, c: number): boolean => {
      if (other === null || other.begun >= version.begun) return other !== null
      if (!late || other.firstEnd < version.begun) return false
      return own < 0 || isLater(part, copyAt(layout, c, slot), copyAt(layout, own, slot))
    }
    let whole = found.filter(counts).length
    // The other card may be off since, in the midst of a write.
    const isCaught = version.names !== null && record.touched
    if (late && whole > 0 && (isCaught || this.isOverwritten(register, version))) {
      whole += found.filter((other) => other === null).length
    }
    // What the medium has lost by now was counted before.
    if (whole + damage >= copies) return
    this.blame(
      `${register.name}: operation ${version.operation} is acknowledged in ${copies} copies, ` +
        `and ${whole} are durable`,
    )
  }

  /** May a copy of the record be in the midst of a write that follows that one? */
  protected isOverwritten(_register: Register, _version: Version): boolean {
    return false
  }

  /**
   * A READ of a record was answered, in packets of so many bytes, each of which may be of another
   * execution: a duplicate READ is executed again (IBTA 9.7.5.1.5), and its responses have the same
   * PSNs, so that who missed one of the first answer cannot tell it from that of the second. All
   * packets of one execution are of one version; where there was but one, `packet` is the whole.
   */
  judgeRead({ register, data, slot, begun }: Operation, packet: number, now: number): void {
    const bytes = data!
    for (let at = 0; at < bytes.length; at += packet) {
      const end = Math.min(bytes.length, at + packet)
      const found = register!.find((version) => shows(bytes, at, end, version))
      if (found === null) {
        const shown = hexOf(bytes.subarray(at))
        this.blame(`a read of record ${slot} shows bytes of no version: ${shown}`)
        return
      }
      // Behind its data every version shows the same: who it was needs four bytes (frames.ts).
      if (at > 0 && found.length < at + 4) continue
      const wrong = register!.see(found, begun, now)
      if (wrong !== null) this.blame(`a read: ${wrong}`)
    }
  }

  /** A READ of a record was refused: it is lost, or its medium does not deliver. */
  judgeLoss(slot: number): void {
    const record = this.records[slot]!
    if (record.lost || record.refuses || this.mayBeLost(record)) {
      this.losses += 1
      return
    }
    this.blame(`record ${slot} is refused to a reader, and nothing was the matter with it`)
  }

  /**
   * Was so much of it damaged that the newest may be gone? A copy that took no store, and those
   * behind it, were not written; of a record that a cut may have caught, those that its
   * acknowledgement waits for may be all that were. It is lost then, and never an older one.
   */
  private mayBeLost({ damage, touched, behind, register }: RecordState): boolean {
    const { copies } = this.layout
    const written = 31 - Math.clz32(behind & -behind)
    let most = written > 0 ? bitsIn(behind) + written : copies
    if (touched) {
      for (const { wait } of register.versions) most = Math.min(most, wait, copies - 1)
    }
    return damage >= Math.max(1, most)
  }

  /** Copies of the record that a media error hits now; of an amnesty they may be all. */
  noteDamage(record: RecordState): void {
    const { part, layout } = this
    let hit = 0
    for (let c = 0; c < layout.copies; c++) {
      const first = copyAt(layout, c, record.slot) / LINE_BYTES
      let flags = 0
      for (let line = first; line < first + layout.stride / LINE_BYTES; line++) {
        flags |= part.lineFlags(line)
      }
      if ((flags & REFUSES_WRITES) !== 0) {
        record.refuses = true
        record.behind |= 1 << c
      }
      if (flags !== 0 || (record.behind & (1 << c)) !== 0) hit += 1
    }
    record.damage = this.forgives ? layout.copies : hit
    record.register.isHurt = hit > 0
    this.touched.add(record.slot)
    this.damaged.add(record.slot)
  }

  /** A lane is going to be lost: of a record that it holds nobody else knows. */
  noteLane(line: Uint8Array): void {
    const lane = readLane(line)
    if (lane.state !== 'A' && lane.state !== 'B') return
    const record = lane.region === this.layout.id ? this.records[lane.record] : undefined
    if (record !== undefined && record.behind !== 0) record.blind = true
  }

  /** All copies of the record were written again, those whose medium takes stores. */
  noteWritten(record: RecordState): void {
    record.behind = 0
    this.noteDamage(record)
  }

  /** Looks at the medium after a restart; returns what became of the records under way. */
  judgeRestart(now: number): Class {
    const { touched, damaged, records, layout } = this
    this.restartedAt = now
    for (const slot of damaged) touched.add(slot)
    let olds = 0
    let news = 0
    let losts = 0
    for (const slot of touched) {
      const record = records[slot]!
      const before = record.register.versions.length
      const found = this.judgeRecord(record, now)
      // What a lane holds, as a line took no repair, may yet come forward.
      if (!this.forgives && record.damage === 0) record.register.restarted()
      if (found === null) losts += 1
      else if (record.touched && before > 0) {
        if (found.promised > 0 || found.uid === 0) olds += 1
        else news += 1
      }
      for (let c = 0; c < layout.copies; c++) {
        this.shadow.allow(copyAt(layout, c, slot), layout.stride)
      }
      record.touched = false
      record.refuses = record.refuses && record.behind !== 0
      if (damaged.has(slot)) {
        const before = record.damage
        this.noteDamage(record)
        // What is gone stays gone, though its medium be well again.
        if (found === null && before > record.damage) record.damage = before
      }
      if (record.damage === 0 && this.isDurablyOne(slot, found)) damaged.delete(slot)
    }
    touched.clear()
    if (this.bytes !== null) this.judgeCells(this.bytes)
    const foreign = this.shadow.foreign()
    if (foreign >= 0) this.blame(`byte ${foreign} of the part was changed, and nobody may do that`)
    if (losts > 0) return 'lost'
    if (olds > 0) return news > 0 ? 'mixed' : 'old'
    return news > 0 ? 'new' : 'nothing'
  }

  /**
   * Are the copies the same bytes where it counts? A repair that the medium refused half-way is
   * seen by loads, and gone with the next cut: a copy may be torn then though its medium is well,
   * until somebody looks.
   */
  private isDurablyOne(slot: number, version: Version | null): boolean {
    const { part, layout } = this
    const bytes = version === null ? layout.stride : LINE_BYTES + version.length
    const imageOf = (c: number): Uint8Array => {
      const at = copyAt(layout, c, slot)
      return part.durable.subarray(at, at + bytes)
    }
    const first = imageOf(0)
    for (let c = 1; c < layout.copies; c++)
      if (Buffer.compare(first, imageOf(c)) !== 0) return false
    return true
  }

  /** The version that a record has now, in every copy that can be read; null if it is lost. */
  private judgeRecord(record: RecordState, now: number): Version | null {
    const { part, page, layout } = this
    const { register, slot } = record
    let first: Version | null = null
    let shown = ''
    let equal = true
    let seen = 0
    for (let c = 0; c < layout.copies; c++) {
      const at = copyAt(layout, c, slot)
      const found = versionAt(part.live, part.liveWords, at, layout, slot, register)
      // Behind its data a slot may have decayed, and nobody ever looks there.
      const bytes = found === null ? layout.stride : LINE_BYTES + found.length
      if (!part.readable(at, bytes)) continue
      seen += 1
      shown += `${found === null ? 'torn' : found.uid} `
      if (first === null) first = found
      if (found !== first || found === null) equal = false
    }
    const listed = isListedLost(page, layout, slot)
    if (listed || first === null) {
      const isNews = !record.lost
      record.lost = listed
      if (isNews && !this.mayBeLost(record)) {
        this.blame(`record ${slot} is lost after a restart, its copies are ${shown}`)
      } else if (!listed && record.damage === 0) {
        this.blame(`record ${slot} has no whole copy, and is not on the list of the lost`)
      }
      return null
    }
    // Two errors beside a copy that takes no store: the page says that an older one may come.
    if (record.blind && this.mayBeLost(record)) register.forgive()
    if (equal && seen === layout.copies) {
      record.behind = 0
      record.blind = false
    }
    // A cut caught it being given up.
    record.lost = false
    if (!equal && record.damage === 0) {
      this.blame(`record ${slot} is not one after a restart: its copies are ${shown}`)
    }
    // Where a line took no repair, which copy is shown is the card's to say: the reads are judged.
    if (!equal && record.refuses) return first
    const wrong = register.see(first, now, now)
    if (wrong !== null) this.blame(`after a restart: ${wrong}`)
    return first
  }

  /** What each cell holds after a restart: only what was written, nothing durable missing. */
  private judgeCells({ at }: Layout): void {
    const { part, cells, loose } = this
    const words = part.liveWords
    cells.forEach((cell, i) => {
      const low = words[(at + i * CELL_BYTES) >> 2]!
      const high = words[((at + i * CELL_BYTES) >> 2) + 1]!
      this.judgeCell(i, low, high)
      cell.most = Math.max(cell.most, cell.issued)
      cell.issued = low
      cell.floor = low
    })
    loose.clear()
    this.shadow.allow(at, cells.length * CELL_BYTES)
  }

  /**
   * What a READ showed of a cell, by one that began then. It may have been answered before a cut
   * that took back what it saw, or behind which the cell was counted on, and have come late.
   */
  judgeLook(i: number, low: number, high: number, begun: number, known?: number): void {
    const { most, issued } = this.cells[i]!
    if (begun >= this.restartedAt) this.judgeCell(i, low, high, known)
    else if (low !== high) this.blame(`cell ${i} holds ${low}/${high}: it is torn`)
    else if (low > Math.max(most, issued)) this.blame(`cell ${i} holds ${low}, which never was`)
  }

  private judgeCell(i: number, low: number, high: number, known?: number): void {
    const { issued } = this.cells[i]!
    const floor = known ?? this.cells[i]!.floor
    const least = this.loose.has(Math.floor(i / CELLS)) ? 0 : floor
    if (low === high && low >= least && low <= issued) return
    this.blame(`cell ${i} holds ${low}/${high}: from ${least} to ${issued} may be there`)
  }

  /** Saves may fail in this world: no version is forgotten, as any may come back. */
  expectFailingSaves(): void {
    for (const { register } of this.records) register.comesBack = true
  }

  /** The save failed, or the energy did: what is there is what counts from now on. */
  amnesty(): void {
    this.forgives = true
    for (const record of this.records) {
      record.register.forgive()
      record.touched = true
      record.damage = this.layout.copies
      this.touched.add(record.slot)
    }
    for (const cell of this.cells) cell.floor = 0
  }

  /** Behind an amnesty, and a restart that has been judged. */
  endAmnesty(): void {
    this.forgives = false
    for (const record of this.records) this.noteDamage(record)
  }

  /** The record is being given up: from now on it may be blank, and lost until it is. */
  discarding(record: RecordState, now: number): Version {
    const version = record.register.begin(0, 0, 0, 0, now)
    version.open = false
    this.touched.add(record.slot)
    return version
  }

  /** The record was given up: it is blank. */
  discarded(record: RecordState, version: Version, now: number): void {
    record.lost = false
    const wrong = record.register.see(version, now, now)
    if (wrong !== null) this.blame(`given up: ${wrong}`)
    this.noteWritten(record)
  }
}

function bitsIn(mask: number): number {
  let count = 0
  for (let rest = mask; rest !== 0; rest &= rest - 1) count += 1
  return count
}

const whole = new Uint8Array(4096)

/** Are bytes [at, end) of an answer what that version shows there: its data, then zeros? */
function shows(bytes: Uint8Array, at: number, end: number, { uid, length }: Version): boolean {
  const until = Math.max(at, Math.min(length, end))
  if (at === 0) return isPattern(bytes, 0, until, uid) && isBlank(bytes, until, end - until)
  fillPattern(whole, 0, length, uid)
  for (let i = at; i < until; i++) if (bytes[i] !== whole[i]) return false
  return isBlank(bytes, until, end - until)
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 32)).toString('hex')
}
