// hot path
/**
 * The list of commands that the firmware composes and hands to the board in one call.
 *
 * Invariant: the list is empty after every run; nothing reaches memory or the wire but
 * through it; a command is six numbers, so composing one allocates nothing. A fence covers what was
 * stored into the host's memory, too: behind it stands a read that pushes every write before it
 * (source 2, S905; P2-13, P2-14), never left out, and never one that stood there already. The two
 * fail apart: where the fence was done and the push was not, the NVDIMM has what it was given, and
 * the host alone is in doubt. What speaks of the NVDIMM alone takes `fenceOwn`, and leaves the push
 * to whom it concerns.
 */

import { assert } from './assert.ts'
import {
  AUX,
  CHECK,
  COMMAND_WORDS,
  COMMANDS_AT,
  COMPARE,
  COPY,
  COPY_CLEAN,
  FENCE,
  FROM,
  GUARD,
  HOST_SPACE,
  LENGTH,
  type Machine,
  NO_SNOOP,
  OP,
  OWNER,
  RESULT,
  SKIP,
  TO,
  TRANSMIT,
} from './hal.ts'
import { COMMANDS_MAX } from './limits.ts'
import { LSB_AT } from './memory-map.ts'

export interface CommandList {
  readonly machine: Machine
  readonly words: Float64Array
  /** Commands composed and not yet run. */
  count: number
  /** On whose behalf commands are appended: (queue pair's place + 1) * 2^24 + PSN, or 0. */
  owner: number
  /** Where the last write into the host's memory went that no read has pushed yet, or 0. */
  posted: number
  postedOwner: number
  /** The read behind the last fence of the list, or -1; and where the write went that it pushes. */
  pushAt: number
  pushed: number
  /** Fences that were done: what was stored at an earlier count is durable. */
  fences: number
  /** FENCE commands appended so far. */
  fencesAppended: number
  /** Lists run so far: what lay in the transmit places before the last run has left them. */
  runs: number
  /** Results of commands that `runAll` passes over. */
  readonly kept: Uint8Array
  /** The first command of the list, while another one runs alone. */
  readonly alone: Float64Array
}

export function createCommandList(machine: Machine): CommandList {
  const words = new Float64Array(machine.memory, COMMANDS_AT, COMMANDS_MAX * COMMAND_WORDS)
  return {
    machine,
    words,
    count: 0,
    owner: 0,
    posted: 0,
    postedOwner: 0,
    pushAt: -1,
    pushed: 0,
    fences: 0,
    fencesAppended: 0,
    runs: 0,
    kept: new Uint8Array(COMMANDS_MAX),
    alone: new Float64Array(COMMAND_WORDS),
  }
}

/** Owners that are queue pairs are above every PSN; the marks of a commit are below. */
export const OWNER_LEAST: number = 2 ** 24

/** Appends one command; its number in the list is returned, to look at its result. */
export function append(
  list: CommandList,
  op: number,
  from: number,
  to: number,
  length: number,
  aux: number,
): number {
  const index = list.count
  const words = list.words
  const at = index * COMMAND_WORDS
  if (index === COMMANDS_MAX) assert(false, 'a list holds at most COMMANDS_MAX commands')
  words[at + OP] = op
  words[at + FROM] = from
  words[at + TO] = to
  words[at + LENGTH] = length
  words[at + AUX] = aux
  words[at + RESULT] = 0
  words[at + OWNER] = list.owner
  list.count = index + 1
  return index
}

export function copy(list: CommandList, from: number, to: number, length: number): number {
  return append(list, COPY, from, to, length, 0)
}

/**
 * Copies and starts the write-back: behind the next fence it is durable. `tag` is the owner of the
 * command; 0 leaves it to `list.owner`.
 */
export function copyClean(
  list: CommandList,
  from: number,
  to: number,
  length: number,
  tag: number,
): number {
  const owner = tag === 0 ? list.owner : tag
  const host = to >= HOST_SPACE
  if (host) {
    list.posted = to
    // The read behind it is for everybody: it is no queue pair's, to be left out with it.
    list.postedOwner = owner < OWNER_LEAST ? owner : 0
  }
  // As `append` does: it is what a record has most of, and a call costs more than what it does.
  const index = list.count
  if (index === COMMANDS_MAX) assert(false, 'a list holds at most COMMANDS_MAX commands')
  const words = list.words
  const at = index * COMMAND_WORDS
  words[at + OP] = COPY_CLEAN
  words[at + FROM] = from
  words[at + TO] = to
  words[at + LENGTH] = length
  words[at + AUX] = host ? NO_SNOOP : 0
  words[at + RESULT] = 0
  words[at + OWNER] = owner
  list.count = index + 1
  return index
}

/** Copies into the caches of the host: the next fence pushes it to them, and no further. */
export function copyCached(list: CommandList, from: number, to: number, length: number): void {
  list.posted = to
  list.postedOwner = 0
  append(list, COPY, from, to, length, 0)
}

/**
 * Waits for every write-back that was started, and for the writes to the host's memory: these by a
 * DMA read of one byte that follows all of them. Returns the number of the fence.
 */
export function fence(list: CommandList): number {
  list.fencesAppended += 1
  const index = append(list, FENCE, 0, 0, 0, 0)
  if (list.posted !== 0) {
    const read = append(list, COPY, list.posted, LSB_AT, 1, NO_SNOOP)
    list.words[read * COMMAND_WORDS + OWNER] = list.postedOwner
    list.pushAt = read
    list.pushed = list.posted
    list.posted = 0
  }
  return index
}

/** Waits for every write-back into the NVDIMM; what is on its way to the host waits for `fence`. */
export function fenceOwn(list: CommandList): number {
  list.fencesAppended += 1
  return append(list, FENCE, 0, 0, 0, 0)
}

/** Waits for what was stored there: what waits for a host is no matter of the NVDIMM. */
export function fenceFor(list: CommandList, to: number): number {
  return to >= HOST_SPACE ? fence(list) : fenceOwn(list)
}

/** The 16-byte check code of [from, from + length) under the key at `keyAt`, left at `to`. */
export function checkCode(
  list: CommandList,
  from: number,
  to: number,
  length: number,
  keyAt: number,
): number {
  return append(list, CHECK, from, to, length, keyAt)
}

/**
 * Lets the list go on only if the bytes have that guard, 1 to 2^32 - 1; else it fails as
 * GUARD_FAILED, on behalf of `owner`.
 */
export function requireGuard(
  list: CommandList,
  from: number,
  length: number,
  guard: number,
  owner: number,
): void {
  const index = append(list, GUARD, from, 0, length, guard)
  list.words[index * COMMAND_WORDS + OWNER] = owner
}

export function compare(list: CommandList, from: number, to: number, length: number): number {
  return append(list, COMPARE, from, to, length, 0)
}

export function transmit(list: CommandList, at: number, length: number, aux: number): number {
  return append(list, TRANSMIT, at, 0, length, aux)
}

/** Is the command of that number a fence? */
export function isFence(list: CommandList, index: number): boolean {
  return list.words[index * COMMAND_WORDS + OP] === FENCE
}

/** Is it the read that pushes what is on its way to the host? */
export function isPush(list: CommandList, index: number): boolean {
  return list.words[index * COMMAND_WORDS + TO] === LSB_AT
}

/** The result of the command of that number, still readable after the run. */
export function resultOf(list: CommandList, index: number): number {
  return list.words[index * COMMAND_WORDS + RESULT]!
}

/** On whose behalf the command of that number stood there. */
export function ownerOf(list: CommandList, index: number): number {
  return list.words[index * COMMAND_WORDS + OWNER]!
}

/**
 * Runs the list and empties it. Returns -1 when every command was done, else the number of the one
 * that failed: nothing behind it has happened.
 */
export function run(list: CommandList): number {
  const { count, pushAt } = list
  list.count = 0
  list.pushAt = -1
  list.runs += 1
  if (count === 0) return -1
  const done = list.machine.run(count)
  if (done === count) return -1
  // The read was not reached: what it was to push waits for the next one.
  if (done < pushAt && list.posted === 0) {
    list.posted = list.pushed
    list.postedOwner = 0
  }
  return done
}

/**
 * Runs one command at once, whatever stands in the list, and leaves that as it was. Returns its
 * result.
 */
export function runAlone(
  list: CommandList,
  op: number,
  from: number,
  to: number,
  length: number,
  aux = 0,
): number {
  const { machine, words, alone } = list
  for (let i = 0; i < COMMAND_WORDS; i++) alone[i] = words[i]!
  words.fill(0, 0, COMMAND_WORDS)
  words[OP] = op
  words[FROM] = from
  words[TO] = to
  words[LENGTH] = length
  words[AUX] = aux
  machine.run(1)
  const result = words[RESULT]!
  words.set(alone)
  return result
}

/**
 * Runs the list to its end whatever fails: each command that failed keeps its error as its result,
 * and the others are done. For examining a medium that may have errors anywhere.
 */
export function runAll(list: CommandList): void {
  const count = list.count
  list.count = 0
  list.pushAt = -1
  list.runs += 1
  const { words, kept } = list
  let from = 0
  while (from < count) {
    const done = list.machine.run(count)
    // A machine without power stops at the first command, and will not go on.
    if (done === count || done < from) break
    // Done and failed commands become skips, and a second run passes over them.
    for (let i = from; i <= done; i++) {
      kept[i] = words[i * COMMAND_WORDS + RESULT]!
      words[i * COMMAND_WORDS + OP] = SKIP
    }
    from = done + 1
  }
  for (let i = 0; i < from; i++) words[i * COMMAND_WORDS + RESULT] = kept[i]!
}
