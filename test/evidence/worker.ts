/** The inside of a worker: plays the one job that it was given. */

import { parentPort, workerData } from 'node:worker_threads'
import type { Job, Said } from './pool.ts'
import { stageOf } from './stages.ts'

/** How often a worker says how far it is, ms. */
const TELL_MS = 250

export async function serveJob(): Promise<void> {
  const { stage, shard } = workerData as Job
  const say = (said: Said): void => parentPort!.postMessage(said)
  let told = 0
  try {
    const tally = await stageOf(stage).play(shard, (share) => {
      const now = performance.now()
      if (now - told < TELL_MS) return
      told = now
      say({ kind: 'share', share })
    })
    // Of this thread alone: what the others use is theirs.
    const { active } = performance.eventLoopUtilization()
    say({ kind: 'done', tally, busySeconds: active / 1000 })
  } catch (error) {
    say({ kind: 'threw', error: error instanceof Error ? (error.stack ?? '') : String(error) })
  }
}
