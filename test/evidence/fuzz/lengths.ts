/**
 * Every kind of frame, cut off at every byte: as it is, and with lengths and ICRC made right again.
 */

import { Arena, type Pair } from './arena.ts'
import { setLengths } from './mutate.ts'
import type { WorldOptions } from './world.ts'

/** Shorter than this a frame cannot say that it is whole. */
const WHOLE_BYTES = 58

export class Lengths {
  readonly arena: Arena
  /** Kinds that were cut off at every byte. */
  kinds = 0
  private bursts = 0

  constructor(options: WorldOptions) {
    this.arena = new Arena(options)
  }

  run(_count: number): void {
    const { arena } = this
    for (const ipVersion of [4, 6] as const) {
      const pair = arena.pairs.find((one) => one.ipVersion === ipVersion)!
      for (const kind of arena.kinds[ipVersion === 4 ? 0 : 1]!) {
        for (let length = 0; length <= kind.frame.length; length++) {
          arena.fill(kind, pair, pair.psn)
          arena.seal(kind.frame.length)
          this.send(pair, length)
          if (length < WHOLE_BYTES) continue
          arena.fill(kind, pair, pair.psn)
          setLengths(arena.scratch, length)
          arena.seal(length)
          this.send(pair, length)
        }
        this.kinds++
        if (arena.world.complaint !== '') return
        arena.rest()
        this.mend(pair)
      }
    }
  }

  private send(pair: Pair, length: number): void {
    const { arena } = this
    arena.world.stage(arena.view(length))
    this.bursts++
    // What is right again may end the connection, or be taken.
    if (length < WHOLE_BYTES && this.bursts % 8 !== 0) return
    arena.serve()
    this.mend(pair)
  }

  private mend(pair: Pair): void {
    const { arena } = this
    if (!arena.isOpen(pair)) arena.connectAll([pair])
    arena.resume(pair)
  }
}
