/**
 * Plays shards in worker threads, side by side.
 *
 * Invariant: a worker plays one shard at a time, and which worker plays it changes nothing.
 * What shards leave behind in memory ends with their worker, which plays one, or a few of a stage
 * that says so: code that has run is fast, and a new worker has none. A shard that throws, or a
 * worker that dies, is a violation of its own: no evidence is silence.
 */

import { Worker } from 'node:worker_threads'
import { Random } from '../../boards/emulator/base/random.ts'
import { addTally, NOTHING, type Shard, type Stage, type Tally } from './stage.ts'

/**
 * Shards that a worker plays, of a stage whose shards may follow one another: until its code is as
 * fast as it gets, a new worker takes some four seconds.
 */
export const SHARDS_EACH = 64

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

interface PoolOptions {
  readonly workers: number
  /** The program that a worker runs: it must call `serveJobs` (worker.ts). */
  readonly program: URL
  /**
   * Shards begin in turns of the stages, drawn by that seed, for so many minutes; those that run
   * then end. Without it every shard is played.
   */
  readonly limit?: { readonly minutes: number; readonly seed: number }
  /** Called whenever anything moved; the share of all work that is done, 0 to 1. */
  readonly moved: (share: number, outcomes: readonly Outcome[]) => void
}

type Plan = readonly { readonly stage: Stage; readonly shards: readonly Shard[] }[]

/**
 * The longest first, so that at the end no worker is waited for; but what follows one another in a
 * worker stands together, behind the rest.
 */
function inOrder(plan: Plan): Job[] {
  const jobsOf = ({ stage, shards }: Plan[number]): Job[] => {
    const jobs = shards.map((shard): Job => ({ stage: stage.name, shard }))
    return jobs.sort((a, b) => b.shard.seconds - a.shard.seconds)
  }
  const byLongest = (blocks: Job[][]): Job[] => {
    return blocks.sort(([a], [b]) => (b?.shard.seconds ?? 0) - (a?.shard.seconds ?? 0)).flat()
  }
  const follows = ({ stage }: Plan[number]): boolean => stage.shardsFollow === true
  const alone = plan.filter((one) => !follows(one)).flatMap(jobsOf)
  const together = plan.filter(follows).map(jobsOf)
  return [...byLongest(alone.map((job) => [job])), ...byLongest(together)]
}

/** Seconds of what is played in one turn, at the most, where shards follow one another. */
const TURN_SECONDS = 240

/** The shards of a stage in a drawn order, cut into turns. */
function turnsOf({ stage, shards }: Plan[number], random: Random): Job[][] {
  const left = shards.map((shard): Job => ({ stage: stage.name, shard }))
  const turns: Job[][] = []
  let seconds = Infinity
  while (left.length > 0) {
    const [job] = left.splice(random.below(left.length), 1)
    const last = turns.at(-1)
    seconds += job!.shard.seconds
    if (stage.shardsFollow && last && last.length < SHARDS_EACH && seconds <= TURN_SECONDS) {
      last.push(job!)
      continue
    }
    turns.push([job!])
    seconds = job!.shard.seconds
  }
  return turns
}

/** Every stage has had as much time as any other, as long as it has anything left to play. */
function inTurns(plan: Plan, seed: number): Job[] {
  const random = new Random(seed)
  const due = plan.flatMap((one) => {
    let at = 0
    return turnsOf(one, random).map((jobs) => {
      const turn = { at, jobs }
      for (const { shard } of jobs) at += shard.seconds
      return turn
    })
  })
  return due.sort((a, b) => a.at - b.at).flatMap(({ jobs }) => jobs)
}

/** Plays the shards of those stages: all of them, or what there is time for. */
export async function playStages(plan: Plan, options: PoolOptions): Promise<Outcome[]> {
  const outcomes = plan.map(({ stage, shards }): Outcome => {
    return { stage, tally: NOTHING, busySeconds: 0, ended: 0, shards: shards.length }
  })
  const { limit } = options
  const jobs = limit === undefined ? inOrder(plan) : inTurns(plan, limit.seed)
  const endMs = performance.now() + (limit?.minutes ?? Infinity) * 60_000
  const next = (): Job | undefined => (performance.now() < endMs ? jobs.shift() : undefined)
  const all = jobs.reduce((sum, { shard }) => sum + shard.seconds, 0)
  const running = new Map<Job, number>()
  let ended = 0
  const tell = (): void => {
    let now = ended
    for (const [job, share] of running) now += share * job.shard.seconds
    options.moved(all === 0 ? 1 : now / all, outcomes)
  }
  const lanes = Array.from({ length: Math.min(options.workers, jobs.length) }, async () => {
    let player = null as Player | null
    for (let job = next(); job !== undefined; job = next()) {
      const outcome = outcomes.find(({ stage }) => stage.name === job!.stage)!
      const mine = job
      running.set(mine, 0)
      if (player?.takes(outcome.stage) !== true) {
        await player?.end()
        player = new Player(outcome.stage, options.program)
      }
      const { tally, busySeconds } = await player.play(mine, (share) => {
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
    await player?.end()
  })
  await Promise.all(lanes)
  return outcomes
}

interface Played {
  readonly tally: Tally
  readonly busySeconds: number
}

/** A worker, and what it is playing. */
class Player {
  private readonly stage: Stage
  private readonly worker: Worker
  private played = 0
  /** Why nothing more is played here, or nothing. */
  private failed = ''
  private said: (said: Said) => void = () => {}

  constructor(stage: Stage, program: URL) {
    this.stage = stage
    this.worker = new Worker(program)
    this.worker.on('message', (said: Said) => this.said(said))
    this.worker.on('error', (error) => this.fail(`the worker stopped: ${String(error)}`))
    this.worker.on('exit', (code) => this.fail(`the worker ended with ${code}`))
  }

  private fail(error: string): void {
    this.failed ||= error
    this.said({ kind: 'threw', error })
  }

  /** May a shard of that stage be played here, behind what was? */
  takes(stage: Stage): boolean {
    if (this.failed !== '' || stage !== this.stage) return false
    return stage.shardsFollow === true && this.played < SHARDS_EACH
  }

  play(job: Job, moved: (share: number) => void): Promise<Played> {
    this.played += 1
    return new Promise((resolve) => {
      this.said = (said) => {
        if (said.kind === 'share') {
          moved(said.share)
          return
        }
        this.said = () => {}
        if (said.kind === 'done') {
          resolve({ tally: said.tally, busySeconds: said.busySeconds })
          return
        }
        this.failed ||= said.error
        const described = [{ shard: job.shard.name, what: said.error, replay: '' }]
        resolve({ tally: { ...NOTHING, violations: 1, described }, busySeconds: 0 })
      }
      this.worker.postMessage(job)
    })
  }

  async end(): Promise<void> {
    await this.worker.terminate()
  }
}
