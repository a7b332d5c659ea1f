/**
 * A board whose calls fail where the evidence says: at the k-th command that it is given, once, or
 * from there on.
 *
 * Invariant: commands are counted from the moment the board is told to fail, over all
 * lists; a command that fails has had no effect, except for a store that came half way. Each kind
 * of failure strikes only a command that may fail so (hal.ts).
 */

import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'

/** How a command may fail. */
export type FailureKind =
  | 'media' // an uncorrectable error
  | 'half' // the same, of a store of several lines, when half of them are stored
  | 'flush' // the write-back failed
  | 'unarmed' // the save energy is gone
  | 'dma' // the host did not answer
  | 'different' // what should be equal is not
  | 'power' // the power goes, and the board says so
  | 'throws' // the board throws: the firmware ends there
  | 'lies' // a fence is said to be done and is not: no board may, and the judge must notice

export const KINDS: readonly FailureKind[] = [
  'media',
  'half',
  'flush',
  'unarmed',
  'dma',
  'different',
  'power',
  'throws',
]

export interface Failure {
  /** Number of the command that fails, 0 being the first. */
  readonly k: number
  readonly kind: FailureKind
  /** Does every later command fail so, too, that may? */
  readonly lasting: boolean
}

/** What a board throws when it is told to. */
export class BoardThrew extends Error {
  override readonly name = 'BoardThrew'
}

const PACKETS = 0
const PART = 1
const HOST = 2

function spaceOf(address: number): number {
  return Math.floor(address / hal.SPACE_BYTES)
}

/** Kinds that the command at `at` may fail with; the board has run it, or tried to. */
function kindsAt(words: Float64Array, at: number): FailureKind[] {
  const op = words[at + hal.OP]!
  if (op === hal.SKIP) return []
  const kinds: FailureKind[] = ['power', 'throws']
  if (op === hal.FENCE) return [...kinds, 'flush', 'unarmed']
  if (op === hal.TRANSMIT) return kinds
  const from = op === hal.FLUSH ? PACKETS : spaceOf(words[at + hal.FROM]!)
  const to = spaceOf(words[at + hal.TO]!)
  const answers = op === hal.COMPARE || op === hal.FETCH_ADD || op === hal.COMPARE_SWAP
  if (from === PART || to === PART || from === HOST || (answers && to === HOST)) kinds.push('media')
  if (from >= HOST || (answers && to >= HOST)) kinds.push('dma')
  const lines = words[at + hal.LENGTH]! / LINE_BYTES
  if (op === hal.COPY_CLEAN && from === PACKETS && to === PART && lines > 1) kinds.push('half')
  if (op === hal.COMPARE && words[at + hal.RESULT] === hal.EQUAL) kinds.push('different')
  return kinds
}

/** Stands between the firmware and a machine. */
export class FailingBoard {
  private readonly machine: EmulatedMachine
  private readonly words: Float64Array
  private readonly failure: Failure | null
  private readonly runReally: (count: number) => number
  /** Commands begun since it was made, and lists. */
  begun = 0
  lists = 0
  /** Commands that failed because of us. */
  struck = 0
  /** Of a board that does not fail: the kinds of each command begun. */
  readonly kinds: FailureKind[][] = []

  constructor(machine: EmulatedMachine, failure: Failure | null) {
    this.machine = machine
    this.failure = failure
    const { buffer, byteOffset } = machine.packets
    this.words = new Float64Array(buffer, byteOffset + hal.COMMANDS_AT)
    this.runReally = machine.run.bind(machine)
    machine.run = (count) => this.run(count)
  }

  /** All is well again, except for what has ended. */
  heal(): void {
    this.machine.run = this.runReally
    if (this.machine.nvdimm.armed) return
    this.machine.nvdimm.armed = true
    this.machine.tellHealth()
  }

  private run(count: number): number {
    this.lists += 1
    const { failure } = this
    if (failure === null) return this.runAndNote(count)
    if (failure.kind === 'different') return this.runAndDiffer(count, failure)
    if (failure.kind === 'lies') return this.runWithoutFences(count)
    const next = this.nextOf(failure, count)
    const before = next < 0 ? count : next
    const done = before === 0 ? 0 : this.runReally(before)
    this.begun += done < before ? done + 1 : before
    if (done < before || next < 0) return done
    this.begun += 1
    this.struck += 1
    this.words[next * hal.COMMAND_WORDS + hal.RESULT] = this.strike(failure, next)
    return next
  }

  private runAndNote(count: number): number {
    const done = this.runReally(count)
    const begun = Math.min(count, done + 1)
    for (let i = 0; i < begun; i++) this.kinds.push(kindsAt(this.words, i * hal.COMMAND_WORDS))
    this.begun += begun
    return done
  }

  /** Which command of a list of so many is to fail, or -1. */
  private nextOf({ k, kind, lasting }: Failure, count: number): number {
    for (let i = Math.max(0, k - this.begun); i < count; i++) {
      if (!lasting && this.begun + i !== k) return -1
      if (kindsAt(this.words, i * hal.COMMAND_WORDS).includes(kind)) return i
    }
    return -1
  }

  /** A comparison that differs is an answer, and what stands behind it happens. */
  private runAndDiffer(count: number, { k, lasting }: Failure): number {
    const first = k - this.begun
    const done = this.runReally(count)
    this.begun += Math.min(count, done + 1)
    for (let i = Math.max(0, first); i < done; i++) {
      if (!lasting && i !== first) break
      const at = i * hal.COMMAND_WORDS
      if (!kindsAt(this.words, at).includes('different')) continue
      this.struck += 1
      this.words[at + hal.RESULT] = hal.DIFFERENT
    }
    return done
  }

  private runWithoutFences(count: number): number {
    for (let i = 0; i < count; i++) {
      const at = i * hal.COMMAND_WORDS + hal.OP
      if (this.words[at] !== hal.FENCE) continue
      this.words[at] = hal.SKIP
      this.struck += 1
    }
    return this.runReally(count)
  }

  /** The command fails; what it leaves as its result. */
  private strike({ kind, lasting }: Failure, index: number): number {
    const { nvdimm } = this.machine
    const at = index * hal.COMMAND_WORDS
    if (kind === 'half') {
      const half = Math.floor(this.words[at + hal.LENGTH]! / 2 / LINE_BYTES) * LINE_BYTES
      const to = this.words[at + hal.TO]! - hal.NVDIMM_SPACE
      nvdimm.store(to, this.machine.packets, this.words[at + hal.FROM]!, half)
    } else if (kind === 'flush') {
      nvdimm.fencesToFail = 1
      return nvdimm.fence()
    } else if (kind === 'unarmed') {
      nvdimm.armed = false
      const result = nvdimm.fence()
      if (lasting) this.machine.tellHealth()
      else nvdimm.armed = true
      return result
    } else if (kind === 'dma') {
      return hal.DMA_FAILED
    } else if (kind === 'power' || kind === 'throws') {
      this.machine.die()
      if (kind === 'throws') throw new BoardThrew(`at command ${this.begun - 1}`)
      return hal.NO_POWER
    }
    return hal.MEDIA_ERROR
  }
}
