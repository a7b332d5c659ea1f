/**
 * What a visit changes in an NVDIMM, so that it can be taken back (power-cut.ts, `images`).
 *
 * Invariant: before a line changes for the first time since the last mark, in what loads
 * see, in what is durable or in its flags, it is noted here whole; taking notes back in reverse
 * order restores every byte. A line that was noted since the mark is not noted again: what it was
 * at the mark is what counts. A note costs three copies of a line, and only inside a visit.
 */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'

const LINE_WORDS = LINE_BYTES / 4
/** Line, flags, where it was noted before; then what loads saw, and what was durable. */
const HEAD_WORDS = 3
const NOTE_WORDS = HEAD_WORDS + 2 * LINE_WORDS

/** The lines of a part, as a journal reads them and takes them back. */
interface Lines {
  /** What loads see, and what is durable. */
  readonly liveWords: Int32Array
  readonly durableWords: Int32Array
  lineFlags(line: number): number
  restoreFlags(line: number, flags: number): void
}

/** How many notes there were. */
type Mark = number

export class Journal {
  private count = 0
  private words: Int32Array = new Int32Array(64 * NOTE_WORDS)
  /** The last mark: notes from there on are not repeated. */
  private since: Mark = 0
  /** Of each line, its last note plus one; 0 if it has none. */
  private readonly noted: Int32Array

  constructor(lineCount: number) {
    this.noted = new Int32Array(lineCount)
  }

  mark(): Mark {
    this.since = this.count
    return this.count
  }

  /** Notes the lines from `first` to `last` as they are now. */
  note(part: Lines, first: number, last: number): void {
    const { noted, since } = this
    for (let line = first; line <= last; line++) if (noted[line]! <= since) this.enter(part, line)
  }

  private enter(part: Lines, line: number): void {
    const at = this.count++ * NOTE_WORDS
    if (at === this.words.length) {
      const words = new Int32Array(2 * at)
      words.set(this.words)
      this.words = words
    }
    const { words, noted } = this
    const { liveWords, durableWords } = part
    const from = line * LINE_WORDS
    words[at] = line
    words[at + 1] = part.lineFlags(line)
    words[at + 2] = noted[line]!
    noted[line] = this.count
    const live = at + HEAD_WORDS
    const durable = live + LINE_WORDS
    for (let i = 0; i < LINE_WORDS; i++) {
      words[live + i] = liveWords[from + i]!
      words[durable + i] = durableWords[from + i]!
    }
  }

  /** Takes back every note since `mark`, which is the last mark again. */
  undo(part: Lines, mark: Mark): void {
    const { words, noted } = this
    const { liveWords, durableWords } = part
    while (this.count > mark) {
      const at = --this.count * NOTE_WORDS
      const line = words[at]!
      const into = line * LINE_WORDS
      const live = at + HEAD_WORDS
      const durable = live + LINE_WORDS
      for (let i = 0; i < LINE_WORDS; i++) {
        liveWords[into + i] = words[live + i]!
        durableWords[into + i] = words[durable + i]!
      }
      noted[line] = words[at + 2]!
      if (part.lineFlags(line) !== words[at + 1]) part.restoreFlags(line, words[at + 1]!)
    }
    this.since = mark
  }
}
