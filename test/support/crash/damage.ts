/**
 * How a machine is damaged on purpose, to see that an exploration notices.
 *
 * Invariant: each damage takes one thing away, in what the machine executes; the firmware
 * and the judge are the same.
 */

import type { Watch } from '../../../boards/emulator/run/machine.ts'
import {
  CHECK,
  COMMAND_WORDS,
  COPY,
  COPY_CLEAN,
  FENCE,
  FROM,
  LENGTH,
  NVDIMM_SPACE,
  OP,
  SKIP,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { LANE_LINES_AT, PHASE_WORDS_AT, ZEROS_AT } from '../../../firmware/board/memory-map.ts'
import { LANE_CHECKED_AT } from '../../../firmware/medium/lane.ts'
import { LINE_BYTES, OPERATIONS_AT, OPERATIONS_BYTES } from '../judges/oracle.ts'

/** How the machine is damaged on purpose, to see that the exploration notices. */
export interface Damage {
  /** The fence of that number in each burst is left out, 1 being F1. */
  readonly dropFence?: number
  /** Each PERSIST_ACK leaves before the fence that it stands behind. */
  readonly acknowledgeEarly?: boolean
  /**
   * The check code is the constant zero, so that every torn image passes: what is then still right
   * is so by structure alone (D-2).
   */
  readonly checkless?: boolean
  /** No lane says which record its own must not outlive (commit.ts, "In order"). */
  readonly unlinked?: boolean
  /** What is done to the operation table (commit/operations.ts); see TABLE_DAMAGES. */
  readonly table?: TableDamage
}

/** Each takes one rule of the operation table away. */
export const TABLE_DAMAGES = {
  beforeF1: 'the line is stored before F1: no lane tells that the table is ahead',
  oneLine: 'a client has one line, not two in turn',
  notCleaned: 'the line is stored, and its write-back not started',
  recoverySkipped: 'recovery does not store the operations of the lanes',
  recoveryNotCleaned: 'recovery clears the lanes before its lines are durable',
} as const

export type TableDamage = keyof typeof TABLE_DAMAGES

/** Is that the address of a line of the operation table? */
function isTableAddress(to: number): boolean {
  const at = to - NVDIMM_SPACE
  return at >= OPERATIONS_AT && at < OPERATIONS_AT + OPERATIONS_BYTES
}

export function isTableLine(line: number): boolean {
  return isTableAddress(NVDIMM_SPACE + line * LINE_BYTES)
}

/** Damages the stores into the table, of a commit or of a recovery. */
function tableWatch(skipped: boolean, cleaned: boolean, oneLine: boolean): Watch {
  let toTable = false
  return {
    onCommand: (_, op, words, at) => {
      toTable = op === COPY_CLEAN && isTableAddress(words[at + TO]!)
      if (toTable && oneLine) words[at + TO]! -= words[at + TO]! % (2 * LINE_BYTES)
    },
    replace: (_, op) => {
      if (!toTable || op !== COPY_CLEAN) return op
      if (skipped) return SKIP
      return cleaned ? op : COPY
    },
  }
}

/** The damage that each power-on brings with it. */
export function bootWatches(damage: Damage): Watch[] {
  const watches: Watch[] = []
  if (damage.checkless === true) watches.push(checklessWatch())
  if (damage.table === 'recoverySkipped') watches.push(tableWatch(true, true, false))
  if (damage.table === 'recoveryNotCleaned') watches.push(tableWatch(false, false, false))
  return watches
}

/** Where a lane that is composed has its link, and the bits of the wait beside it. */
const LINK_AT = 23
const WAIT_BITS = 7

/** Takes the link out of every lane before its check code is made. */
function unlinkedWatch(packets: () => Uint8Array): Watch {
  return {
    onCommand: (_, op, words, at) => {
      const line = words[at + FROM]! - LANE_CHECKED_AT
      if (op !== CHECK || line < LANE_LINES_AT || line >= PHASE_WORDS_AT) return
      packets()[line + LINK_AT]! &= WAIT_BITS
    },
  }
}

/** The damage to what the clients' writes do. */
export function writeWatches(damage: Damage, packets: () => Uint8Array): Watch[] {
  const watches: Watch[] = []
  if (damage.unlinked === true) watches.push(unlinkedWatch(packets))
  if (damage.checkless === true) watches.push(checklessWatch())
  if (damage.table === 'notCleaned') watches.push(tableWatch(false, false, false))
  if (damage.table === 'oneLine') watches.push(tableWatch(false, true, true))
  return watches
}

/** Moves check code and store of the one line of the group in front of the fence at `at`. */
export function moveLineForward(words: Float64Array, at: number): boolean {
  let end = at + COMMAND_WORDS
  for (let fences = 0; !isTableAddress(words[end - COMMAND_WORDS + TO]!); end += COMMAND_WORDS) {
    if (words[end + OP] === FENCE) fences += 1
    if (fences === 4) return false
  }
  const pair = end - 2 * COMMAND_WORDS
  const moved = words.slice(pair, end)
  words.copyWithin(at + 2 * COMMAND_WORDS, at, pair)
  words.set(moved, at)
  return true
}

const ZERO_CODE_BYTES = 16

/** Turns the check code into zeros, in a watch. */
function checklessWatch(): Watch {
  return {
    onCommand: (_, op, words, at) => {
      if (op !== CHECK) return
      words[at + FROM] = ZEROS_AT
      words[at + LENGTH] = ZERO_CODE_BYTES
    },
    replace: (_, op) => (op === CHECK ? COPY : op),
  }
}

export function joined(watches: readonly Watch[]): Watch {
  return {
    onCommand: (number, op, words, at) => {
      for (const watch of watches) watch.onCommand?.(number, op, words, at)
    },
    replace: (number, op) =>
      watches.reduce((now, watch) => watch.replace?.(number, now) ?? now, op),
  }
}

/** Swaps the fence at `at` with the PERSIST_ACKs behind it; how many there are. */
export function moveAcksForward(words: Float64Array, at: number): number {
  const fence = words.slice(at, at + COMMAND_WORDS)
  let count = 0
  let next = at + COMMAND_WORDS
  while (words[next + OP] === TRANSMIT) {
    words.copyWithin(next - COMMAND_WORDS, next, next + COMMAND_WORDS)
    next += COMMAND_WORDS
    count += 1
  }
  words.set(fence, next - COMMAND_WORDS)
  return count
}
