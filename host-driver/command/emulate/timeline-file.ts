/**
 * `emulate --timeline FILE`: the events of the card, for `perdure timeline`.
 *
 * Invariants:
 * - Who watches changes nothing: what cannot be written is told at the end, by `close`.
 * - A file that is there is as it was until `begin`, which needs it to be there or to be made.
 */

import { CardTrace } from '../../../boards/emulator/index.ts'
import { BufferedFile } from '../../base/buffered-file.ts'

export class TimelineFile {
  readonly trace: CardTrace
  private readonly path: string
  private readonly out = new BufferedFile()

  constructor(path: string) {
    this.path = path
    this.trace = new CardTrace({ write: (line) => this.out.write(Buffer.from(line)), later: true })
  }

  /** From now on events go to the file, in the place of what is there. */
  begin(): void {
    this.out.open(this.path)
    this.trace.begin()
  }

  close(): void {
    this.trace.end()
    this.out.close()
  }
}
