/**
 * Plays shards in worker threads, side by side.
 *
 * What always holds: a worker plays one shard at a time, and which worker plays it changes nothing.
 * A shard that throws, or a worker that dies, is a violation of its own: no evidence is silence.
 */

import { Worker } from 'node:worker_threads'
import { addTally, NOTHING, type Shard, type Stage, type Tally } from './stage.ts'

/** A shard of a stage: what a worker is told. */
export interface Job {
  readonly stage: string
  readonly shard: Shard
}

/** What a worker says: how far it is, or that it is done. */
export type Said =
  | { readonly kind: 'share'; readonly share: number }
  | { readonly kind: 'done'; readonly tally: Tally; readonly busySeconds: number }
  | { readonly kind: 'threw'; readonly error: string }

/** What became of a stage. */
export interface Outcome {
  readonly stage: Stage
  tally: Tally
  busySeconds: number
  /** Shards that ended, of how many. */
  ended: number
  shards: number
}

export interface PoolOptions {
  readonly workers: number
  /** The program that a worker runs: it must call `serveJobs` (worker.ts). */
  readonly program: URL
  /** Called whenever anything moved; the share of all work that is done, 0 to 1. */
  readonly moved: (share: number, outcomes: readonly Outcome[]) => void
}

/** Plays all shards of those stages, the longest first. */
export async function playStages(
  plan: readonly { readonly stage: Stage; readonly shards: readonly Shard[] }[],
  options: PoolOptions,
): Promise<Outcome[]> {
  const outcomes = plan.map(({ stage, shards }): Outcome => {
    return { stage, tally: NOTHING, busySeconds: 0, ended: 0, shards: shards.length }
  })
  const jobs = plan.flatMap(({ stage, shards }) => {
    return shards.map((shard): Job => ({ stage: stage.name, shard }))
  })
  jobs.sort((a, b) => b.shard.seconds - a.shard.seconds)
  const all = jobs.reduce((sum, { shard }) => sum + shard.seconds, 0)
  const running = new Map<Job, number>()
  let ended = 0
  const tell = (): void => {
    let now = ended
    for (const [job, share] of running) now += share * job.shard.seconds
    options.moved(all === 0 ? 1 : now / all, outcomes)
  }
  const lanes = Array.from({ length: Math.min(options.workers, jobs.length) }, async () => {
    for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) {
      const outcome = outcomes.find(({ stage }) => stage.name === job!.stage)!
      const mine = job
      running.set(mine, 0)
      const { tally, busySeconds } = await playJob(mine, options.program, (share) => {
        running.set(mine, share)
        tell()
      })
      running.delete(mine)
      ended += mine.shard.seconds
      outcome.tally = addTally(outcome.tally, tally)
      outcome.busySeconds += busySeconds
      outcome.ended += 1
      tell()
    }
  })
  await Promise.all(lanes)
  return outcomes
}

/** One job in a worker of its own: what it leaves behind in memory ends with it. */
function playJob(
  job: Job,
  program: URL,
  moved: (share: number) => void,
): Promise<{ tally: Tally; busySeconds: number }> {
  return new Promise((resolve) => {
    const worker = new Worker(program, { workerData: job })
    const fail = (error: string): void => {
      const described = [{ shard: job.shard.name, what: error, replay: '' }]
      resolve({ tally: { ...NOTHING, violations: 1, described }, busySeconds: 0 })
    }
    worker.on('message', (said: Said) => {
      if (said.kind === 'share') moved(said.share)
      else if (said.kind === 'done') resolve({ tally: said.tally, busySeconds: said.busySeconds })
      else fail(said.error)
    })
    worker.on('error', (error) => fail(`the worker stopped: ${String(error)}`))
    worker.on('exit', (code) => fail(`the worker ended with ${code}`))
  })
}
