// hot path
/**
 * Room for what the card tells its host: completions and events, composed in packet memory and
 * copied out by the list in progress.
 *
 * Invariant: a place is not used again before the list that copies from it has run.
 */

import type { CommandList } from '../board/command-list.ts'
import { COMMANDS_MAX, COMPLETIONS, UNIT_BYTES } from '../board/limits.ts'
import { COMPLETIONS_AT } from '../board/memory-map.ts'
import type { HostQueues } from './host.ts'

/** Commands that telling one thing takes, with room to spare. */
const COMMANDS_EACH = 4

/** A line of packet memory, and room in the list; the list is run where there is none. */
export function takeLine(host: HostQueues, list: CommandList): number {
  if (composeRoom(host, list) === 0) host.makeRoom()
  if (host.composedRun !== list.runs) startOver(host, list)
  host.composed += 1
  return COMPLETIONS_AT + (host.composed - 1) * UNIT_BYTES
}

/** How many things can be told before the list has to run. */
export function composeRoom(host: HostQueues, list: CommandList): number {
  if (host.composedRun !== list.runs) startOver(host, list)
  const commands = Math.floor((COMMANDS_MAX - list.count) / COMMANDS_EACH)
  const lines = COMPLETIONS - host.composed
  return commands < lines ? commands : lines
}

function startOver(host: HostQueues, list: CommandList): void {
  host.composedRun = list.runs
  host.composed = 0
}
