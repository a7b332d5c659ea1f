/**
 * Relays in the making, calls that wait, answers that were given, regions that are made in slices:
 * the slice of the state that manage/ owns.
 */

import { type Fault, PASS } from '../board/fault.ts'
import { QUEUE_PAIRS } from '../board/limits.ts'
import type { ServeContext } from '../burst/context.ts'
import type { ConnectContext, Link, WaitingManagement } from '../connect/context.ts'
import type { Region } from '../medium/region.ts'
import type { RegionEntry } from '../medium/superblock.ts'
import type { SessionState } from '../session/context.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import type { Deth } from '../wire/deth.ts'
import type { Answer } from './once.ts'

/** The relay that is being made, or was, at each place. */
export interface Attachment {
  name: string
  link: Link | null
  /** What the last attempt ended with. */
  fault: Fault
}

export const JOB_NONE = 0
/** A region is being made. */
export const JOB_MAKE = 1
/** The room of a region that was removed is filled with zeros. */
export const JOB_ERASE = 2

/** What is done of regions in slices (manage/region-job.ts). */
export interface RegionJob {
  /** One of JOB_*. */
  kind: number
  /** There may be something to do, now or when it may be. */
  live: boolean
  /** The region that is made, before it is in the table. */
  region: Region | null
  entry: RegionEntry | null
  key: Uint8Array
  /** Place of an entry that is erased. */
  index: number
  /** Lives of the host that were over when it began. */
  lives: number
  /** Slots, or of one that is erased bytes, that are done, and in all. */
  done: number
  total: number
  /** Why the last making ended, until that is said; or PASS. */
  fault: Fault
  /** A region that was removed, and of which not everybody has been told. */
  removed: Region | null
  /** A slice was done in this call of the board. */
  sliced: boolean
}

export function createRegionJob(): RegionJob {
  return {
    ...{ kind: JOB_NONE, live: false, region: null, entry: null, key: new Uint8Array(0) },
    ...{ index: 0, lives: 0, done: 0, total: 0, fault: PASS, removed: null, sliced: false },
  }
}

/** A queue pair that asks to be told of the part's health. */
interface HealthWatch {
  /** Null while its place is free. */
  qp: QueuePair | null
  markHigh: number
  markLow: number
  /** Messages so far. */
  number: number
  /** One is on its way, and stays where it lies. */
  underWay: boolean
}

/** Who is told of the part's health (manage/health.ts). */
interface HealthWatches {
  /** By the place of the queue pair. */
  readonly watches: readonly HealthWatch[]
  /** Places of those that are not free, `asked` of them, in the order of their turns. */
  readonly active: Int32Array
  asked: number
  /** What each was told last: HEALTH_WORDS words, by the place. */
  readonly told: Int32Array
  /** When it is looked the next time, µs. */
  dueUs: number
}

/** Words of STATUS that are health. */
export const HEALTH_WORDS = 6

export function createHealthWatches(): HealthWatches {
  const watches: HealthWatch[] = []
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    watches.push({ qp: null, markHigh: 0, markLow: 0, number: 0, underWay: false })
  }
  const active = new Int32Array(QUEUE_PAIRS)
  const told = new Int32Array(QUEUE_PAIRS * HEALTH_WORDS)
  return { watches, active, asked: 0, told, dueUs: 0 }
}

export interface ManageState {
  readonly managements: WaitingManagement[]
  managementsCount: number
  /** Scratch: who sent a datagram. */
  readonly deth: Deth
  readonly attachments: Attachment[]
  /** Answers to control calls that must not be executed again. */
  readonly answered: Answer[]
  /** Likewise, to those of our own host. */
  readonly answeredHost: Answer[]
  /** Likewise, to strangers: what comes in the clear to a card with peers. */
  readonly answeredStrangers: Answer[]
  /** What is done of regions in slices. */
  readonly regionJob: RegionJob
  readonly healthWatches: HealthWatches
}

/** A control call is executed. */
export type ManageContext = ServeContext & ConnectContext & ManageState & SessionState
