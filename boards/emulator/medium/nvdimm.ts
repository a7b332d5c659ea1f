/**
 * The emulated NVDIMM: memory that keeps, after a power cut, only what it must (crash-model 2.1).
 *
 * Invariants:
 * - `live` is what loads see, `durable` what is in the persistence domain. A store changes `live`
 *   alone; only `fence`, `powerCut` and nothing else change `durable`.
 * - A store is cut at aligned pieces of eight bytes, and only a piece is atomic. A fence makes
 *   durable the pieces whose line was cleaned after they were stored; a piece that is never
 *   cleaned stays pending permanently, a piece stored after the clean waits for the next one.
 * - What a power cut leaves of the pending pieces is for the adversary to say (power-cut.ts).
 * - What lies in a backing is durable when the backing has taken it, not before: where it cannot,
 *   the fence fails, `durable` stays as the backing is, and `onFailure` is told why.
 * - A line with a media error is never read as data. A partial write does not heal it; a write of
 *   the whole line does, once the error was cleared, and survives a cut once it is durable.
 * - Where the part is stricter than any hardware, it is on purpose: a fence that failed forgets
 *   the write-backs it should have waited for, so that asking again proves nothing.
 *
 * A watch is told of everything that changes the part, in its order; without one that costs one
 * test per store, write-back and fence.
 *
 * Offsets and lengths are bytes; the caller (machine.ts) has checked that they are inside.
 */

import {
  ARMED,
  DONE,
  FLUSH_FAILED,
  MEDIA_ERROR,
  NOT_ARMED,
  SAVE_FAILED,
  VOLATILE,
} from '../../../firmware/board/hal.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { BOOLEAN, BYTES, integer, type Kind, type Kinds, LIST, OBJECT, SIZE } from '../../kinds.ts'
import { check, checkFields, NUMBER } from '../base/arguments.ts'
import type { Journal } from './journal.ts'
import { HEALS, Pending } from './pending.ts'

/** Parts are a multiple of this size, and at most 1 GiB: offsets stay int32. */
export const PAGE_BYTES = 4096
export const NVDIMM_BYTES_MAX: number = 2 ** 30

const LINE_WORDS = LINE_BYTES / 4

/** From this length on, the engine's own copy beats a loop over words, bytes. */
const LOOP_BYTES_MAX = 512

/* What may be the matter with a line. */
const POISONED = 1 // loads fail
const POISONED_DURABLY = 2 // loads fail after a power cut, too
const ERROR_CLEARED = 4 // the next write of the whole line heals it
const REFUSES_WRITES = 8

/** Where the durable content lives when the process does not. */
export interface Backing {
  /** Takes over [at, at + length) of the durable content; throws, in words, if it cannot. */
  write(durable: Uint8Array, at: number, length: number): void
  /** Takes over what is not content; throws likewise. */
  note(condition: Condition): void
  /**
   * Ends its use; throws where what it took over is not there for whoever comes next. `takeBack`
   * removes what opening it has made, and nothing else.
   */
  close(takeBack?: boolean): void
}

/** What a part remembers of itself besides its content. */
export interface Condition {
  readonly dirtyShutdowns: number
  readonly saveFailed: boolean
  readonly poisonedLines: readonly number[]
}

export interface NvdimmOptions {
  /** Bytes of the part: a multiple of 4096, at most 1 GiB. */
  readonly bytes: number
  /** How many of the last fences an ADR failure may take back; 0 costs nothing. */
  readonly adrFences?: number
  readonly backing?: Backing
  /** What the part holds at first; zeros without it. */
  readonly content?: Uint8Array
  readonly condition?: Condition
  /** The card says that nothing outlives the power: it does not, of the machine this runs on. */
  readonly volatile?: boolean
}

const NVDIMM_KINDS: Kinds<NvdimmOptions> = {
  ...{ bytes: NUMBER, adrFences: SIZE, content: BYTES, condition: OBJECT, volatile: BOOLEAN },
  backing: OBJECT,
}

const CONDITION_KINDS: Kinds<Condition> = {
  ...{ dirtyShutdowns: SIZE, saveFailed: BOOLEAN, poisonedLines: LIST },
}

function checkCondition(condition: Condition): void {
  checkFields('condition of an NVDIMM', condition, CONDITION_KINDS, [
    ...(['dirtyShutdowns', 'saveFailed', 'poisonedLines'] as const),
  ])
}

/** What an operator, or the firmware, does to the media errors of a line. */
export type MediumFault = 'poison' | 'clear' | 'refuse' | 'take'

/** Whoever is told what happens to a part (trace/). */
export interface MediumWatch {
  /** So many bytes of `source` are about to be stored: the part holds still what it held. */
  stores(at: number, source: Uint8Array, sourceAt: number, length: number): void
  /** The write-back of these bytes begins. */
  cleans(at: number, length: number): void
  /** A fence has ended so: DONE, NOT_ARMED or FLUSH_FAILED. */
  fenced(result: number): void
  /** Something is done to the lines of these bytes. */
  faults(what: MediumFault, at: number, length: number): void
}

/** The lines that one fence made durable, with what was durable before. */
export interface FencedLines {
  readonly lines: number[]
  readonly before: Int32Array[]
}

export class Nvdimm {
  readonly bytes: number
  readonly live: Uint8Array
  readonly durable: Uint8Array
  readonly liveWords: Int32Array
  readonly durableWords: Int32Array
  readonly pendingStores: Pending
  /** Changes to be taken back at the end of a visit (power-cut.ts); null in normal operation. */
  journal: Journal | null = null
  backing: Backing | null
  /** Told of everything, or null. */
  watch: MediumWatch | null = null
  /** Told why the backing could not take what was handed to it. */
  onFailure: (error: Error) => void = () => {}
  readonly adrFences: number
  readonly volatile: boolean
  /** The last `adrFences` fences, oldest first. */
  fenced: FencedLines[] = []

  /** Whether the save energy is armed; without it no fence succeeds. */
  armed = true
  /** Whether the last save failed: `failSave` says so. */
  saveFailed = false
  /** Unsafe shutdowns so far. */
  dirtyShutdowns = 0
  /** How many of the next fences fail. */
  fencesToFail = 0

  /** Counted since the part was made: fences that succeeded, bytes stored, lines cleaned. */
  fences = 0
  bytesStored = 0
  linesCleaned = 0

  private readonly flags: Uint8Array
  private readonly lineNumber: Kind
  private faultyLines = 0
  private sourceBytes: Uint8Array
  private sourceWords: Int32Array
  private readonly rewound: Int32Array = new Int32Array(LINE_WORDS)

  constructor(options: NvdimmOptions) {
    checkFields('an NVDIMM', options, NVDIMM_KINDS, ['bytes'])
    const { bytes, condition, content } = options
    if (condition !== undefined) checkCondition(condition)
    if (content !== undefined && content.length > bytes) {
      throw new RangeError(`content of ${content.length} bytes: at most ${bytes}`)
    }
    if (!Number.isInteger(bytes / PAGE_BYTES) || bytes <= 0 || bytes > NVDIMM_BYTES_MAX) {
      throw new RangeError(`an NVDIMM of ${bytes} bytes: not a multiple of 4096 up to 1 GiB`)
    }
    this.bytes = bytes
    this.durable = new Uint8Array(bytes)
    if (options.content !== undefined) this.durable.set(options.content)
    this.live = options.content === undefined ? new Uint8Array(bytes) : this.durable.slice()
    this.liveWords = new Int32Array(this.live.buffer)
    this.durableWords = new Int32Array(this.durable.buffer)
    this.pendingStores = new Pending(bytes / LINE_BYTES)
    this.flags = new Uint8Array(bytes / LINE_BYTES)
    this.lineNumber = integer(0, this.flags.length - 1)
    this.sourceBytes = this.live
    this.sourceWords = this.liveWords
    this.adrFences = options.adrFences ?? 0
    this.volatile = options.volatile ?? false
    this.backing = null
    for (const line of options.condition?.poisonedLines ?? []) this.poison(line)
    this.saveFailed = options.condition?.saveFailed ?? false
    this.dirtyShutdowns = options.condition?.dirtyShutdowns ?? 0
    this.backing = options.backing ?? null
  }

  /** The health bits of hal.ts. */
  health(): number {
    const failed = this.saveFailed ? SAVE_FAILED : 0
    return (this.armed ? ARMED : 0) | failed | (this.volatile ? VOLATILE : 0)
  }

  /**
   * Stores `length` bytes of `source` at `at`: DONE, or MEDIA_ERROR if a line refuses, and then
   * the lines before it are stored. `source` may be `live`, if the ranges do not overlap.
   */
  store(at: number, source: Uint8Array, sourceAt: number, length: number): number {
    const count = this.faultyLines === 0 ? length : this.writable(at, length)
    if (count > 0) {
      this.bytesStored += count
      if (this.watch !== null) this.watch.stores(at, source, sourceAt, count)
      const { journal } = this
      const changes = journal === null || this.noteChanges(journal, at, source, sourceAt, count)
      this.enter(at, count)
      if (changes) this.fill(at, source, sourceAt, count)
      if (this.faultyLines !== 0) this.heal(at, count)
    }
    return count === length ? DONE : MEDIA_ERROR
  }

  /**
   * Notes the lines that the store changes, and says whether there are any: a start stores zeros
   * into many a line of zeros.
   */
  private noteChanges(
    journal: Journal,
    at: number,
    source: Uint8Array,
    sourceAt: number,
    length: number,
  ): boolean {
    const last = (at + length - 1) >> 6
    if (((at | sourceAt | length | source.byteOffset) & 3) !== 0) {
      journal.note(this, at >> 6, last)
      return true
    }
    const from = source === this.live ? this.liveWords : this.wordsOf(source)
    const into = this.liveWords
    const end = (at + length) >> 2
    const ahead = (sourceAt >> 2) - (at >> 2)
    let changes = false
    for (let line = at >> 6, i = at >> 2; line <= last; line++) {
      const lineEnd = Math.min(end, (line + 1) * LINE_WORDS)
      while (i < lineEnd && into[i] === from[i + ahead]) i++
      if (i < lineEnd) {
        journal.note(this, line, line)
        changes = true
      }
      i = lineEnd
    }
    return changes
  }

  /** Enters the store into the log, line by line. */
  private enter(at: number, length: number): void {
    const pending = this.pendingStores
    const words = this.liveWords
    const last = (at + length - 1) >> 6
    let line = at >> 6
    pending.reserve(last - line + 1)
    let mask = (0xff << ((at >> 3) & 7)) & 0xff
    for (; line < last; line++) {
      pending.append(line, mask, words)
      mask = 0xff
    }
    pending.append(line, mask & (0xff >> (7 - (((at + length - 1) >> 3) & 7))), words)
  }

  /** Copies into `live`. */
  private fill(at: number, source: Uint8Array, sourceAt: number, length: number): void {
    if (length > LOOP_BYTES_MAX || ((at | sourceAt | length | source.byteOffset) & 3) !== 0) {
      this.live.set(source.subarray(sourceAt, sourceAt + length), at)
      return
    }
    const from = source === this.live ? this.liveWords : this.wordsOf(source)
    const into = this.liveWords
    const end = (at + length) >> 2
    for (let i = at >> 2, j = sourceAt >> 2; i < end; i++, j++) into[i] = from[j]!
  }

  /** The words of a source: of the same one as last time, nearly always, which is packet memory. */
  private wordsOf(source: Uint8Array): Int32Array {
    if (source !== this.sourceBytes) {
      this.sourceBytes = source
      this.sourceWords = new Int32Array(source.buffer, source.byteOffset, source.length >> 2)
    }
    return this.sourceWords
  }

  /** Starts to write back every line of [at, at + length): what was stored so far is covered. */
  clean(at: number, length: number): void {
    if (length === 0) return
    if (this.watch !== null) this.watch.cleans(at, length)
    const last = (at + length - 1) >> 6
    for (let line = at >> 6; line <= last; line++) this.pendingStores.clean(line)
    this.linesCleaned += last - (at >> 6) + 1
  }

  /** Makes durable whatever was cleaned: DONE, NOT_ARMED or FLUSH_FAILED. */
  fence(): number {
    const result = this.settleCleaned()
    if (this.watch !== null) this.watch.fenced(result)
    return result
  }

  private settleCleaned(): number {
    const pending = this.pendingStores
    if (!this.armed) return NOT_ARMED
    if (this.fencesToFail > 0) {
      this.fencesToFail--
      for (let i = 0; i < pending.cleanedCount; i++) pending.cleanedTo[pending.cleaned[i]!] = 0
      pending.cleanedCount = 0
      return FLUSH_FAILED
    }
    if (this.adrFences > 0) this.remember()
    const count = pending.cleanedCount
    const taken = this.backing === null ? count : this.handOver(count)
    let healed = false
    for (let i = 0; i < taken; i++) if (this.settle(pending.cleaned[i]!)) healed = true
    for (let i = taken; i < count; i++) pending.cleanedTo[pending.cleaned[i]!] = 0
    pending.compact()
    // Behind the content: what is noted as healed must be there.
    if (healed) this.noteCondition()
    if (taken < count) return FLUSH_FAILED
    this.fences++
    return DONE
  }

  /** Makes the cleaned stores of one line durable; true if that healed it. */
  private settle(line: number): boolean {
    const pending = this.pendingStores
    const end = pending.cleanedTo[line]!
    pending.cleanedTo[line] = 0
    const at = line * LINE_WORDS
    if (this.journal !== null) {
      const isLatest = pending.latest[line]! <= end
      if (isLatest && this.isDurable(at)) return this.dropped(line, end)
      this.journal.note(this, line, line)
    }
    this.putSettled(line, end, this.durableWords, at)
    return this.dropped(line, end)
  }

  /** Puts what is durable of the line when its stores before `end` are into `words` at `to`. */
  private putSettled(line: number, end: number, words: Int32Array, to: number): void {
    const { pendingStores, liveWords, rewound } = this
    const at = line * LINE_WORDS
    if (pendingStores.latest[line]! <= end) {
      for (let i = 0; i < LINE_WORDS; i++) words[to + i] = liveWords[at + i]!
      return
    }
    for (let i = 0; i < LINE_WORDS; i++) rewound[i] = liveWords[at + i]!
    pendingStores.rewind(rewound, line, end, this.durableWords)
    words.set(rewound, to)
  }

  /** Hands what this fence makes durable to the backing; how many lines it has taken. */
  private handOver(count: number): number {
    const { cleaned, cleanedTo } = this.pendingStores
    const lines = cleaned.subarray(0, count).sort()
    const words = new Int32Array(count * LINE_WORDS)
    for (let i = 0; i < count; i++) {
      this.putSettled(lines[i]!, cleanedTo[lines[i]!]!, words, i * LINE_WORDS)
    }
    return this.writeThrough(lines, new Uint8Array(words.buffer))
  }

  /** Is what loads see of the line at that word durable? */
  private isDurable(at: number): boolean {
    const { liveWords, durableWords } = this
    for (let i = at; i < at + LINE_WORDS; i++) if (liveWords[i] !== durableWords[i]) return false
    return true
  }

  /** Drops what was cleaned of the line; true if that healed it. */
  private dropped(line: number, end: number): boolean {
    const healed = this.pendingStores.drop(line, end)
    if (!healed) return false
    this.journal?.note(this, line, line)
    this.restoreFlags(line, this.flags[line]! & ~POISONED_DURABLY)
    return true
  }

  /** Keeps what this fence is about to replace. */
  private remember(): void {
    const pending = this.pendingStores
    const lines = [...pending.cleaned.subarray(0, pending.cleanedCount)]
    const before = lines.map((line) => this.durableWords.slice(line * 16, line * 16 + 16))
    this.fenced.push({ lines, before })
    if (this.fenced.length > this.adrFences) this.fenced.shift()
  }

  /**
   * Makes lines durable in the backing, in their order and neighbours together: `bytes` has one
   * behind the other. Returns how many of them it has taken: the others stay as they are.
   */
  writeThrough(lines: Int32Array, bytes: Uint8Array): number {
    let first = 0
    for (let i = 1; i <= lines.length; i++) {
      if (i < lines.length && lines[i] === lines[i - 1]! + 1) continue
      const piece = bytes.subarray(first * LINE_BYTES, i * LINE_BYTES)
      if (!this.writePiece(piece, lines[first]! * LINE_BYTES)) return first
      first = i
    }
    return lines.length
  }

  /** Whether the backing has it; where not, it is given back what it had, if it takes that. */
  private writePiece(bytes: Uint8Array, at: number): boolean {
    const { backing, durable } = this
    const { length } = bytes
    const before = durable.slice(at, at + length)
    durable.set(bytes, at)
    try {
      backing?.write(durable, at, length)
      return true
    } catch (error) {
      this.onFailure(error as Error)
    }
    durable.set(before, at)
    try {
      backing?.write(durable, at, length)
    } catch {
      // What it has of these lines now is as much as a cut would have left of them.
    }
    return false
  }

  /** Whether every line of [at, at + length) can be read. */
  readable(at: number, length: number): boolean {
    if (this.faultyLines === 0 || length === 0) return true
    const last = (at + length - 1) >> 6
    for (let line = at >> 6; line <= last; line++) {
      if ((this.flags[line]! & POISONED) !== 0) return false
    }
    return true
  }

  /** Gives a line, by number, an uncorrectable error. Stores before it heal it no more. */
  poison(line: number): void {
    this.checkLine(line)
    this.watch?.faults('poison', line * LINE_BYTES, LINE_BYTES)
    const { latest, previous, mask } = this.pendingStores
    for (let at = latest[line]! - 1; at >= 0; at = previous[at]! - 1) mask[at] = mask[at]! & ~HEALS
    this.changeFlags(line, POISONED | POISONED_DURABLY, ERROR_CLEARED)
    this.noteCondition()
  }

  /** Clears the errors of the lines of [at, at + length): a write of a whole line now heals it. */
  clearPoison(at: number, length: number): void {
    if (this.faultyLines === 0 || length === 0) return
    this.watch?.faults('clear', at, length)
    const last = (at + length - 1) >> 6
    for (let line = at >> 6; line <= last; line++) {
      if ((this.flags[line]! & POISONED) !== 0) this.changeFlags(line, ERROR_CLEARED, 0)
    }
  }

  /** Makes a line, by number, refuse every store, or take stores again. */
  refuseWrites(line: number, refuse = true): void {
    this.checkLine(line)
    check('refuse', refuse, BOOLEAN)
    this.watch?.faults(refuse ? 'refuse' : 'take', line * LINE_BYTES, LINE_BYTES)
    this.changeFlags(line, refuse ? REFUSES_WRITES : 0, refuse ? 0 : REFUSES_WRITES)
  }

  /** Says that the last save failed, or, by an operator, that all is well again. */
  failSave(failed = true): void {
    check('failed', failed, BOOLEAN)
    this.saveFailed = failed
    this.noteCondition()
  }

  isPoisoned(line: number): boolean {
    this.checkLine(line)
    return (this.flags[line]! & POISONED) !== 0
  }

  private checkLine(line: number): void {
    check('line', line, this.lineNumber)
  }

  /** How many bytes of a store the medium takes before a line refuses. */
  private writable(at: number, length: number): number {
    const last = (at + length - 1) >> 6
    for (let line = at >> 6; line <= last; line++) {
      if ((this.flags[line]! & REFUSES_WRITES) === 0) continue
      return Math.max(0, line * LINE_BYTES - at)
    }
    return length
  }

  /** Marks the stores just entered that rewrote a whole line after its error was cleared. */
  private heal(at: number, length: number): void {
    const pending = this.pendingStores
    const end = (at + length) >> 6
    for (let line = (at + LINE_BYTES - 1) >> 6; line < end; line++) {
      if ((this.flags[line]! & ERROR_CLEARED) === 0) continue
      this.changeFlags(line, 0, POISONED | ERROR_CLEARED)
      const entry = pending.latest[line]! - 1
      pending.mask[entry] = pending.mask[entry]! | HEALS
    }
  }

  private changeFlags(line: number, set: number, clear: number): void {
    if (this.journal !== null) this.journal.note(this, line, line)
    this.restoreFlags(line, (this.flags[line]! | set) & ~clear)
  }

  /** The flags of a line, for the journal and for power-cut.ts. */
  lineFlags(line: number): number {
    return this.flags[line]!
  }

  restoreFlags(line: number, flags: number): void {
    if (this.flags[line] !== 0) this.faultyLines--
    if (flags !== 0) this.faultyLines++
    this.flags[line] = flags
  }

  /**
   * What a cut leaves of a line's media error: what is durable of it, healed or not. A clear-error
   * that was not followed by a durable write of the line is gone.
   */
  flagsAfterCut(line: number, healed: boolean): number {
    const kept = this.flags[line]! & (POISONED_DURABLY | REFUSES_WRITES)
    if ((kept & POISONED_DURABLY) === 0 || healed) return kept & REFUSES_WRITES
    return kept | POISONED
  }

  /** Every line whose flags a cut may change. */
  faulty(): number[] {
    const lines: number[] = []
    if (this.faultyLines === 0) return lines
    for (let line = 0; line < this.flags.length; line++) {
      if (this.flags[line] !== 0) lines.push(line)
    }
    return lines
  }

  /** Tells the backing what is not content. */
  noteCondition(): void {
    if (this.backing === null) return
    const poisonedLines = this.faulty().filter((line) => this.flags[line]! & POISONED_DURABLY)
    const { dirtyShutdowns, saveFailed } = this
    try {
      this.backing.note({ dirtyShutdowns, saveFailed, poisonedLines })
    } catch (error) {
      this.onFailure(error as Error)
    }
  }

  /**
   * Ends the use of the backing. What was not fenced is lost, as it is when a process dies; with
   * `takeBack` the backing goes as well, if opening it has made it.
   */
  close(takeBack = false): void {
    check('takeBack', takeBack, BOOLEAN)
    const { backing } = this
    this.backing = null
    backing?.close(takeBack)
  }
}
