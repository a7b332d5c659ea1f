// hot path
/**
 * The list of commands that the firmware composes and hands to the board in one call.
 *
 * What always holds: the list is empty after every run; nothing reaches memory or the wire but
 * through it; a command is five numbers, so composing one allocates nothing.
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
  LENGTH,
  type Machine,
  OP,
  OWNER,
  RESULT,
  SKIP,
  TO,
  TRANSMIT,
} from './hal.ts'
import { COMMANDS_MAX } from './limits.ts'

export interface CommandList {
  readonly machine: Machine
  readonly words: Float64Array
  /** Commands composed and not yet run. */
  count: number
  /** On whose behalf commands are appended: (queue pair's place + 1) * 2^24 + PSN, or 0. */
  owner: number
  /** Lists run so far: what lay in the transmit places before the last run has left them. */
  runs: number
  /** Results of commands that `runAll` passes over. */
  readonly kept: Uint8Array
}

export function createCommandList(machine: Machine): CommandList {
  const words = new Float64Array(machine.memory, COMMANDS_AT, COMMANDS_MAX * COMMAND_WORDS)
  return { machine, words, count: 0, owner: 0, runs: 0, kept: new Uint8Array(COMMANDS_MAX) }
}

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

/** Copies and starts the write-back; `tag` is the composer's own mark, read by nobody else. */
export function copyClean(
  list: CommandList,
  from: number,
  to: number,
  length: number,
  tag: number,
): number {
  return append(list, COPY_CLEAN, from, to, length, tag)
}

export function fence(list: CommandList): number {
  return append(list, FENCE, 0, 0, 0, 0)
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

export function compare(list: CommandList, from: number, to: number, length: number): number {
  return append(list, COMPARE, from, to, length, 0)
}

export function transmit(list: CommandList, at: number, length: number): number {
  return append(list, TRANSMIT, at, 0, length, 0)
}

/** The result of the command of that number, still readable after the run. */
export function resultOf(list: CommandList, index: number): number {
  return list.words[index * COMMAND_WORDS + RESULT]!
}

/** On whose behalf the command of that number stood there. */
export function ownerOf(list: CommandList, index: number): number {
  return list.words[index * COMMAND_WORDS + OWNER]!
}

export function tagOf(list: CommandList, index: number): number {
  return list.words[index * COMMAND_WORDS + AUX]!
}

/**
 * Runs the list and empties it. Returns -1 when every command was done, else the number of the one
 * that failed: nothing behind it has happened.
 */
export function run(list: CommandList): number {
  const count = list.count
  list.count = 0
  list.runs += 1
  if (count === 0) return -1
  const done = list.machine.run(count)
  return done === count ? -1 : done
}

/**
 * Runs the list to its end whatever fails: each command that failed keeps its error as its result,
 * and the others are done. For examining a medium that may have errors anywhere.
 */
export function runAll(list: CommandList): void {
  const count = list.count
  list.count = 0
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
