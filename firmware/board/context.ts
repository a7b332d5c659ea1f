// hot path
/**
 * What a board gives, and what one life of the card has of its own: the slice of the state that
 * every folder may use.
 *
 * The state is one flat object that is made at the start (main.ts). Its type is sliced: each folder
 * declares the slice that it owns, and a function names the slices that it touches. A slice is an
 * interface called `…State`; slices that are often used together have a name as `…Context`.
 */

import type { CommandList } from './command-list.ts'
import type { Fault } from './fault.ts'
import { ARMED, type Facts, HEALTH_AT, type Machine } from './hal.ts'

export interface BoardState {
  readonly machine: Machine
  readonly facts: Facts
  readonly bytes: Uint8Array
  readonly words: Int32Array
  readonly list: CommandList
  /** How often each fault was met, by its number. */
  readonly counters: Float64Array
  /** PASS while the part serves; else why it was refused at start. */
  refused: Fault
  incarnation: number
  /** Our Ethernet and IPv4 addresses as the words that they are in packet memory. */
  readonly macHead: number
  readonly macTail: number
  readonly ipv4: number
  /** Where the next word lies that the generator gives (random.ts): a word of packet memory. */
  readonly random: { next: number }
  /** Time of the burst, µs; the rest of it is that of connect/. */
  readonly connections: { nowUs: number }
  /** A slice was done in this call of the board; the rest of it is that of manage/. */
  readonly regionJob: { sliced: boolean }
}

/** Counts a fault. */
export function count(state: BoardState, fault: Fault): void {
  state.counters[fault]! += 1
}

/** Is the save energy armed now? The board may change its mind between two bursts. */
export function isArmed(state: BoardState): boolean {
  return (state.words[HEALTH_AT >> 2]! & ARMED) !== 0
}
