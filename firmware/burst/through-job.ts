/**
 * The jobs of placement through (through.ts): one record, one region, or some bytes of one, that
 * the host's CPU has to write back.
 *
 * Invariant: what a job has stored, and what it has asked for, counts in one life of the
 * agent alone. Both are the number of that life; no life has the number 0, and none comes twice.
 */

import { BURST_FRAMES, REGIONS, THROUGH_JOBS, THROUGH_SINGLES } from '../board/limits.ts'
import { THROUGH_AT, THROUGH_BYTES } from '../board/memory-map.ts'
import { blankItem, type GroupItem } from '../commit/commit.ts'
import { type ClientId, isNamed } from '../commit/operations.ts'
import type { Intent } from '../medium/lane.ts'
import { PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { ANY_JOB, type QueuePair } from '../transport/queue-pair.ts'

export const FREE = 0
export const WAITING = 1
export const FIRST = 2
export const FURTHER = 3
export const REPAIR = 4
export const FORM = 5
/** Its lane is not used again before the next start. */
export const ENDED = 6
/** Bytes of a region that a requester has stored. */
export const BYTES = 7

/*
 * Of a region: nothing of it may lie in the host's cache alone; it has to be written back; it is
 * being written back; or it cannot be before another agent comes.
 */
export const FLUSHED = 0
export const DUE = 1
export const FORMING = 2
export const STUCK = 3

export interface Job {
  state: number
  readonly item: GroupItem
  /** The requester's queue pair: another one may have its place, and its number, by now. */
  qp: QueuePair | null
  /** The copy that is being written back; of a region or bytes, the piece of FLUSH_BYTES_MAX. */
  copy: number
  /** Of bytes: the address of the first one; `item.length` says how many. */
  from: number
  /** In which life of the agent all was stored that it writes back next, and found there; or 0. */
  stored: number
  /** In which that was begun. */
  begun: number
  /** In which it was asked for that, and by which request; or 0. */
  asked: number
  request: number
  /** Of a repair: what the start read in its lane, and the phase that it went by. */
  intent: Intent | null
  phase: number
  /** Of a repair: the record that it keeps is that of the lane. */
  kept: boolean
  /** Of a region: its slots before this one are stored. */
  slot: number
  /** Since when it waits for an agent, µs; -1 while nobody has looked at the clock. */
  sinceUs: number
  /** Since when there is something for it to do, µs; -1 while nobody has looked at the clock. */
  begunUs: number
  /** The requester knows the outcome. */
  told: boolean
  /** Of a record of a batch: the sequence that its slot must hold when its turn comes. */
  expects: boolean
  expectHigh: number
  expectLow: number
  /** Its operation became durable while it waited, or before: it is never executed again. */
  known: boolean
  /** So many of its first copies are shown to nobody: a repair overwrites them, or they may go. */
  hidden: number
  /** Jobs of one record are done in the order in which they came. */
  order: number
}

/** Job `i`, which has a lane and an image of its own. */
function createJob(i: number, anyRegion: Region): Job {
  const item = blankItem(anyRegion)
  item.imageAt = THROUGH_AT + i * THROUGH_BYTES
  item.lane = BURST_FRAMES + i
  return {
    state: FREE,
    item,
    qp: null,
    copy: 0,
    from: 0,
    stored: 0,
    begun: 0,
    asked: 0,
    request: 0,
    intent: null,
    phase: 0,
    kept: false,
    slot: 0,
    sinceUs: -1,
    begunUs: -1,
    told: false,
    expects: false,
    expectHigh: 0,
    expectLow: 0,
    known: false,
    hidden: 0,
    order: 0,
  }
}

/** Has the job to do with a record, now or until the next start? */
export function isOnRecord(job: Job): boolean {
  if (job.state === ENDED) return job.hidden > 0
  return job.state !== FREE && job.state !== FORM && job.state !== BYTES
}

/**
 * After what time a request comes again that waits for the job of that order, or for ANY_JOB, µs:
 * a quarter of what it has taken so far, of any the oldest. So what waits finds it done at the
 * latest a quarter later than it was, and comes the less often, the longer the host's CPU takes.
 * Infinity where there is no such job.
 */
export function comesAgainUs(jobs: readonly Job[], waitsFor: number, now: number): number {
  let takenUs = -1
  for (let i = 0; i < jobs.length; i++) {
    const { state, order, begunUs } = jobs[i]!
    if (state === FREE || state === ENDED) continue
    if (waitsFor !== ANY_JOB && waitsFor !== order) continue
    takenUs = Math.max(takenUs, begunUs < 0 ? 0 : now - begunUs)
  }
  return takenUs < 0 ? Infinity : takenUs / 4
}

/**
 * May a batch have one more job? It may have one, and more where others are left THROUGH_SINGLES
 * of those that are not ended; with none left at all its record is refused as any other.
 */
export function hasJobForBatch(jobs: readonly Job[]): boolean {
  let free = 0
  let usable = 0
  let ofBatches = 0
  for (let i = 0; i < jobs.length; i++) {
    const { state, item } = jobs[i]!
    if (state !== ENDED) usable += 1
    if (state === FREE) free += 1
    else if (state >= WAITING && state <= FURTHER && item.batchIndex >= 0) ofBatches += 1
  }
  if (free === 0) return usable === 0
  return ofBatches === 0 || ofBatches < usable - THROUGH_SINGLES
}

/**
 * Has one of the jobs, except for `except`, that operation, and not come to its end? One that waits
 * may still make it durable.
 */
export function isOnItsWay(
  jobs: readonly Job[],
  whose: ClientId,
  high: number,
  low: number,
  except: Job | null,
): boolean {
  for (let i = 0; i < jobs.length; i++) {
    const job = jobs[i]!
    if (job.state === FREE || job.state === FORM || job.state === BYTES) continue
    if (job === except) continue
    if (isNamed(job.state === REPAIR ? job.intent! : job.item, whose, high, low)) return true
  }
  return false
}

/**
 * That operation is durable, and a table that hears of later ones may forget it before those have
 * their turn that wait with it.
 */
export function noteKnown(jobs: readonly Job[], named: Intent): void {
  for (let i = 0; i < jobs.length; i++) {
    const job = jobs[i]!
    if (job.state !== WAITING) continue
    if (isNamed(job.item, named, named.operationHigh, named.operationLow)) job.known = true
  }
}

/**
 * Is the region being made, or written back as a whole, and will that be done? The agent is there,
 * and a job has it, or may have it before the next start.
 */
export function isBeingMade({ agent, jobs, unflushed }: Through, region: Region): boolean {
  if (region.placement !== PLACEMENT_THROUGH || !agent.attached) return false
  const stands = unflushed[region.index]
  if (stands === FORMING) return true
  return stands === DUE && !areEnded(jobs)
}

/** Are they all of no use any more before the next start? */
function areEnded(jobs: readonly Job[]): boolean {
  for (let i = 0; i < jobs.length; i++) if (jobs[i]!.state !== ENDED) return false
  return true
}

/** Is one of the jobs writing the record? Then nobody else may look after its copies. */
export function isWritten(jobs: readonly Job[], region: Region, slot: number): boolean {
  if (region.placement !== PLACEMENT_THROUGH) return false
  for (let i = 0; i < jobs.length; i++) {
    const job = jobs[i]!
    const { item } = job
    if (!isOnRecord(job) || job.state === WAITING) continue
    if (item.slot === slot && item.region === region) return true
  }
  return false
}

/**
 * The first copy of the record that may be shown to a reader: 0, 1 while A is written, or none of
 * them while nobody can tell which one is durable.
 */
export function firstShown(jobs: readonly Job[], region: Region, slot: number): number {
  if (region.placement !== PLACEMENT_THROUGH) return 0
  for (let i = 0; i < jobs.length; i++) {
    const { state: stands, item, hidden } = jobs[i]!
    if (stands !== FIRST && hidden === 0) continue
    if (item.slot === slot && item.region === region) return Math.max(hidden, 1)
  }
  return 0
}

/**
 * What the record is held to while its further copies are written: its first one may have been
 * acknowledged, or shown, and no older copy may stand for it.
 */
export function heldByJob(jobs: readonly Job[], region: Region, slot: number): Intent | null {
  if (region.placement !== PLACEMENT_THROUGH) return null
  for (let i = 0; i < jobs.length; i++) {
    const { state, item } = jobs[i]!
    if (state === FURTHER && item.slot === slot && item.region === region) return item
  }
  return null
}

/** No unit, and no queue. */
export const NONE = -1

export interface FlushAgent {
  attached: boolean
  /**
   * Grows when an agent comes, and when it goes; what was stored or asked in one life counts in no
   * other. Above 0.
   */
  life: number
  /** It is not to be believed any more, or cannot be reached: to be detached. */
  broken: boolean
  /** Its queues, and the epoch of the host that they belong to. */
  send: number
  receive: number
  epoch: number
  /** Number of the last request made, and of the last one finished. */
  asked: number
  finished: number
  /** Unit of the SEND that waits for what it has finished to be acknowledged, or NONE. */
  noted: number
  /** It was: the jobs have been looked after since. */
  served: boolean
}

function createFlushAgent(): FlushAgent {
  return {
    attached: false,
    life: 1,
    broken: false,
    send: NONE,
    receive: NONE,
    epoch: 0,
    asked: 0,
    finished: 0,
    noted: NONE,
    served: false,
  }
}

/** What a request asks to be written back, and of which record it speaks. */
export interface FlushRequest {
  /** Address in HOST_SPACE, and bytes. */
  address: number
  length: number
  psn: number
  queuePair: number
  operationHigh: number
  operationLow: number
}

export interface Through {
  readonly jobs: readonly Job[]
  readonly agent: FlushAgent
  readonly request: FlushRequest
  /** Per region: FLUSHED, or what is to be done as it may lie in the host's cache in part. */
  readonly unflushed: Uint8Array
  /** In which life of the agent what has to be written back of them was stored; or 0. */
  readonly storedIn: Float64Array
  /** Per region the record that was given up, and is not blank for good; or -1. */
  readonly blanked: Float64Array
  order: number
  /** There may be jobs: without any, and without an agent, nothing is looked at. */
  live: boolean
}

export function createThrough(anyRegion: Region): Through {
  const jobs: Job[] = []
  for (let i = 0; i < THROUGH_JOBS; i++) jobs.push(createJob(i, anyRegion))
  return {
    jobs,
    agent: createFlushAgent(),
    request: {
      address: 0,
      length: 0,
      psn: 0,
      queuePair: 0,
      operationHigh: 0,
      operationLow: 0,
    },
    unflushed: new Uint8Array(REGIONS),
    storedIn: new Float64Array(REGIONS),
    blanked: new Float64Array(REGIONS).fill(-1),
    order: 0,
    live: false,
  }
}
