/**
 * The program that a mutant is built into: it plays one play on the firmware that it was bundled
 * with, and says what it saw.
 *
 * Invariant: it says nothing but the witness of a violation, or that there was none, and where it
 * is asked what that looks like; what the play throws is a witness too, as the product throws
 * nothing.
 */

import { parentPort, workerData } from 'node:worker_threads'
import type { Timeline } from '../../../host-driver/command/timeline/data.ts'

/** What a play found: a sentence, or null if all was well; and, where it is asked, to look at. */
export type Play = (
  argument: string,
  show?: (timeline: Timeline) => void,
) => string | null | Promise<string | null>

/** What a killer is given. */
export interface Order {
  readonly argument: string
  /** Whether what it finds is to be shown, if it can be: that comes before the witness. */
  readonly shows: boolean
}

export async function serveKiller(play: Play): Promise<void> {
  const { argument, shows } = workerData as Order
  const show = (timeline: Timeline): void => parentPort!.postMessage(timeline)
  let witness: string | null
  try {
    witness = await play(argument, shows ? show : undefined)
  } catch (error) {
    witness = `threw: ${error instanceof Error ? error.message : String(error)}`
  }
  parentPort!.postMessage(witness)
}
