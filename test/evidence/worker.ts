/** The inside of a worker: plays the jobs that it is given, one after the other. */

import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import { parentPort } from 'node:worker_threads'
import type { Job, Said } from './pool.ts'
import { stageOf } from './stages.ts'

/** How often a worker says how far it is, ms. */
const TELL_MS = 250

/** What this thread was busy for before the job, and has been told: nothing, before the first. */
let told: EventLoopUtilization | undefined

function say(said: Said): void {
  parentPort!.postMessage(said)
}

/** Serves until the worker is ended. */
export function serveJobs(): void {
  parentPort!.on('message', (job: Job) => void serve(job))
}

async function serve({ stage, shard }: Job): Promise<void> {
  let saidAt = 0
  try {
    const tally = await stageOf(stage).play(shard, (share) => {
      const now = performance.now()
      if (now - saidAt < TELL_MS) return
      saidAt = now
      say({ kind: 'share', share })
    })
    // Of this thread alone: what the others use is theirs.
    const now = performance.eventLoopUtilization()
    const { active } = told === undefined ? now : performance.eventLoopUtilization(now, told)
    told = now
    say({ kind: 'done', tally, busySeconds: active / 1000 })
  } catch (error) {
    say({ kind: 'threw', error: error instanceof Error ? (error.stack ?? '') : String(error) })
  }
}
