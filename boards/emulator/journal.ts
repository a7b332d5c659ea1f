/**
 * What a visit changes in an NVDIMM, so that it can be taken back (power-cut.ts, `images`).
 *
 * What always holds: before a line changes, in what loads see, in what is durable or in its flags,
 * it is noted here whole; taking notes back in reverse order restores every byte, however often a
 * line was noted. A note costs three copies of a line, and only inside a visit.
 */

import { LINE_BYTES } from '../../firmware/limits.ts'
import type { Nvdimm } from './nvdimm.ts'

const LINE_WORDS = LINE_BYTES / 4
const NOTE_WORDS = 2 + 2 * LINE_WORDS

/** How many notes there were. */
export type Mark = number

export class Journal {
  private count = 0
  private words: Int32Array = new Int32Array(64 * NOTE_WORDS)

  mark(): Mark {
    return this.count
  }

  /** Notes the lines from `first` to `last` as they are now. */
  note(part: Nvdimm, first: number, last: number): void {
    for (let line = first; line <= last; line++) {
      const at = this.count++ * NOTE_WORDS
      if (at === this.words.length) {
        const words = new Int32Array(2 * at)
        words.set(this.words)
        this.words = words
      }
      const from = line * LINE_WORDS
      this.words[at] = line
      this.words[at + 1] = part.lineFlags(line)
      for (let i = 0; i < LINE_WORDS; i++) {
        this.words[at + 2 + i] = part.liveWords[from + i]!
        this.words[at + 2 + LINE_WORDS + i] = part.durableWords[from + i]!
      }
    }
  }

  /** Takes back every note since `mark`. */
  undo(part: Nvdimm, mark: Mark): void {
    while (this.count > mark) {
      const at = --this.count * NOTE_WORDS
      const line = this.words[at]!
      const into = line * LINE_WORDS
      for (let i = 0; i < LINE_WORDS; i++) {
        part.liveWords[into + i] = this.words[at + 2 + i]!
        part.durableWords[into + i] = this.words[at + 2 + LINE_WORDS + i]!
      }
      part.restoreFlags(line, this.words[at + 1]!)
    }
  }
}
