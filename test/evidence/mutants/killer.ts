/**
 * The program that a mutant is built into: it plays one play on the firmware that it was bundled
 * with, and says what it saw.
 *
 * Invariant: it says nothing but the witness of a violation, or that there was none; what
 * the play throws is a witness too, as the product throws nothing.
 */

import { parentPort, workerData } from 'node:worker_threads'

/** What a play found: a sentence, or null if all was well. */
export type Play = (argument: string) => string | null | Promise<string | null>

export async function serveKiller(play: Play): Promise<void> {
  let witness: string | null
  try {
    witness = await play(workerData as string)
  } catch (error) {
    witness = `threw: ${error instanceof Error ? error.message : String(error)}`
  }
  parentPort!.postMessage(witness)
}
