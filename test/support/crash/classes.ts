/**
 * What an image is for a recovery: what each lane says, and which version each copy is.
 *
 * Invariant: an image has its class as a number first, which costs little; the name is
 * made once for each number.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { Known } from '../judges/known.ts'
import { LANES_AT, LINE_BYTES, type RecordOracle, readLane } from '../judges/oracle.ts'
import type { Actor } from './actor.ts'

/** Lanes that are looked at: no exploration has a larger group. */
const LANES_SEEN = 4

const STATES = ['clear', 'torn', 'A', 'B'] as const

export class Classes {
  private readonly part: Nvdimm
  private readonly actor: Actor
  private readonly known: Known<number>
  private written: RecordOracle[] = []
  private radix = 2

  constructor(part: Nvdimm, actor: Actor, checked: boolean) {
    this.part = part
    this.actor = actor
    this.known = new Known(LINE_BYTES, (line) => STATES.indexOf(readLane(line, checked).state))
  }

  /** A new point: what is written by now. Numbers of other points mean something else. */
  begin(): void {
    this.written = [...this.actor.records.values()].filter(({ started }) => started > 0)
    this.radix = 2 + Math.max(0, ...this.written.map(({ started }) => started))
    const copies = this.written.reduce((sum, { region }) => sum + region.copies, 0)
    if (STATES.length ** LANES_SEEN * this.radix ** copies > 2 ** 53) {
      throw new RangeError('too many classes for a number')
    }
  }

  /** The class of the image that is there now. */
  number(): number {
    const { durable } = this.part
    let number = 0
    for (let lane = 0; lane < LANES_SEEN; lane++) {
      number = number * STATES.length + this.laneState(LANES_AT + lane * LINE_BYTES)
    }
    const { radix } = this
    for (const record of this.written) {
      for (let copy = 0; copy < record.region.copies; copy++) {
        number = number * radix + record.versionIn(durable, copy) + 1
      }
    }
    return number
  }

  /** The same in words. */
  name(): string {
    const { durable } = this.part
    let name = ''
    for (let lane = 0; lane < LANES_SEEN; lane++) {
      const state = STATES[this.laneState(LANES_AT + lane * LINE_BYTES)]
      if (state !== 'clear') name += `lane ${lane} ${state}, `
    }
    for (const record of this.written) {
      const states = record.statesIn(durable).map((state) => nameOfState(state, record))
      name += `record ${record.record} ${states.join('/')} `
    }
    return name.trim()
  }

  private laneState(at: number): number {
    const { durable, durableWords } = this.part
    let any = 0
    for (let i = at >> 2; i < (at + LINE_BYTES) >> 2; i++) any |= durableWords[i]!
    if (any === 0) return 0
    return this.known.of(durable, at)
  }
}

export function nameOfState(state: number, record: RecordOracle): string {
  if (state < 0) return 'torn'
  if (state === record.started) return 'new'
  return state === record.started - 1 ? 'old' : `v${state}`
}
