/**
 * Everything that one DPU holds while it has power. Made once at start; nothing is added later.
 *
 * `serve/` and `manage/` work on it; the layers below know only their own part of it.
 */

import { assert } from './assert.ts'
import type { Batches } from './batch/batch.ts'
import type { CommandList } from './command-list.ts'
import type { Commit, GroupIndex } from './commit/commit.ts'
import type { Examination } from './commit/examine.ts'
import type { Placement } from './commit/placement.ts'
import type { Recovery } from './commit/recovery.ts'
import type { ConnectionTable } from './connect/table.ts'
import { FAULTS, type Fault, PASS } from './fault.ts'
import { ARMED, type Facts, HEALTH_AT, type Machine } from './hal.ts'
import type { HostQueues } from './host/host.ts'
import type { Attachment } from './manage/attach.ts'
import type { Answer } from './manage/once.ts'
import type { Region, RegionTable } from './memory/region.ts'
import type { RegionEntry, Superblock } from './memory/superblock.ts'
import type { Translation } from './memory/translation.ts'
import type { Initiator } from './serve/initiator.ts'
import type { Hints } from './serve/prefetch.ts'
import type { HostWork } from './serve/queue-state.ts'
import type { Relays } from './serve/relay.ts'
import type { Residency } from './serve/residency.ts'
import type { Through } from './serve/through.ts'
import type { Answers, PersistRange } from './transport/acknowledge.ts'
import type { QueuePair, QueuePairTable } from './transport/queue-pair.ts'
import type { Aeth } from './wire/aeth.ts'
import type { Atomic } from './wire/atomic.ts'
import type { Deth } from './wire/deth.ts'
import type { Feth } from './wire/feth.ts'
import type { Ieth } from './wire/ieth.ts'
import type { Packet } from './wire/packet.ts'
import type { Pweth } from './wire/persist.ts'
import type { Reth } from './wire/reth.ts'

/** A WRITE_PERSIST of several packets, from its First to its Last: one per queue pair. */
export interface PersistMessage {
  region: Region | null
  slot: number
  length: number
  wait: number
  wantsAck: boolean
  operationHigh: number
  operationLow: number
  /** Copies that the payload holds. */
  carried: number
  /** PSN that ends it. */
  lastPsn: number
  /** A plain WRITE of a record: refused by NAK, acknowledged only when all copies are durable. */
  plain: boolean
  /** Into a region of bytes, where the packets are stored as they come. */
  placed: boolean
  /** A record of a batch; and the last one of its burst. */
  batch: boolean
  lastOfBatch: boolean
  /** It may have been executed before. */
  repetition: boolean
}

export function blankMessage(): PersistMessage {
  return {
    region: null,
    slot: 0,
    length: 0,
    wait: 0,
    wantsAck: false,
    operationHigh: 0,
    operationLow: 0,
    carried: 1,
    lastPsn: 0,
    plain: false,
    placed: false,
    batch: false,
    lastOfBatch: false,
    repetition: false,
  }
}

/** An operation that was accepted and waits for the burst to be settled (serve/ordered.ts). */
export interface Ordered {
  qp: QueuePair
  /** One of ORDERED_*, serve/ordered.ts. */
  kind: number
  /** Null for an operation that names no region: a READ of no bytes, a SEND. */
  region: Region | null
  vaHigh: number
  vaLow: number
  length: number
  psn: number
  /** The message sequence number when it was accepted. */
  msn: number
  /** A READ repeated. */
  again: boolean
  /** Opcode of an atomic, placement type of a FLUSH. */
  form: number
  /** Its operands, data or message in packet memory. */
  at: number
  /** Where it stores, an address; or where the original of an atomic goes, in packet memory. */
  to: number
  originalAt: number
  /** Of a persist: its operation; of a confirmation: receive entry and immediate. */
  operationHigh: number
  operationLow: number
  /** Fences done when it came, if it has to wait for one; else -1. */
  since: number
  /** It has stored, and waits for the fence to be answered. */
  stored: boolean
  done: boolean
}

/** A datagram to QP 1 that waits for the burst to be settled. */
export interface WaitingManagement {
  /** Where the frame lies, and where its MAD. */
  frameAt: number
  madAt: number
  /** The queue pair to answer to. */
  peerNumber: number
  readonly packet: Packet
}

/** Where the idle scrub stands, and what recovery had counted when it began with that region. */
interface ScrubPlace {
  region: number
  slot: number
  /** Lives of the host that were over when it began with the region. */
  lives: number
  unlisted: number
  unanswered: number
  /** Calls since the superblock was looked at. */
  turn: number
}

export const WORK_NONE = 0
/** A region is being made. */
export const WORK_MAKE = 1
/** The room of a region that was removed is filled with zeros. */
export const WORK_ERASE = 2

/** What is done of regions in slices (manage/region-work.ts). */
export interface RegionWork {
  /** One of WORK_*. */
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

export function createRegionWork(): RegionWork {
  return {
    ...{ kind: WORK_NONE, live: false, region: null, entry: null, key: new Uint8Array(0) },
    ...{ index: 0, lives: 0, done: 0, total: 0, fault: PASS, removed: null, sliced: false },
  }
}

export interface State {
  readonly machine: Machine
  readonly facts: Facts
  readonly bytes: Uint8Array
  readonly words: Int32Array
  readonly list: CommandList
  readonly regions: RegionTable
  readonly superblock: Superblock
  readonly queuePairs: QueuePairTable
  readonly connections: ConnectionTable
  readonly commit: Commit
  readonly group: GroupIndex
  /** What the probe of this power-on has shown of the host's memory. */
  readonly placement: Placement
  /** Records on their way through the host's caches. */
  readonly through: Through
  readonly examination: Examination
  readonly answers: Answers
  /** Of the last start. */
  recovery: Recovery
  /** How often each fault was met, by its number. */
  readonly counters: Float64Array
  /** PASS while the part serves; else why it was refused at start. */
  refused: Fault
  incarnation: number
  /** Our Ethernet and IPv4 addresses as the words that they are in packet memory. */
  readonly macHead: number
  readonly macTail: number
  readonly ipv4: number
  /** State of the generator of keys and starting PSNs, seeded by the board's entropy. */
  readonly random: Int32Array

  /** Records in scratch, read in place for each packet. */
  readonly packet: Packet
  readonly reth: Reth
  readonly extension: Reth
  readonly pweth: Pweth
  readonly aeth: Aeth
  readonly deth: Deth
  readonly feth: Feth
  readonly atomic: Atomic
  readonly ieth: Ieth

  /** The region that a key named last: serve/access.ts. */
  accessed: Region | null

  /** Of the burst in progress. */
  readonly touched: QueuePair[]
  touchedCount: number
  readonly ordered: Ordered[]
  orderedCount: number
  /** Passes over the ordered operations so far. */
  pass: number
  readonly managements: WaitingManagement[]
  managementsCount: number
  /** Commands in the list that a medium may refuse. */
  stores: number
  /** Owners that a failed list refuses: scratch of serve/burst.ts. */
  readonly refusals: Float64Array
  /** Stores since the last fence, but for those of commits. */
  unfenced: number
  /** There may be queue pairs with a long READ; and whose turn it is. */
  streaming: boolean
  streamNext: number
  /** When long READs that wait for a page look again, µs; Infinity if none does. */
  pausedUs: number
  /** Whose pages alone are asked for until then, µs, as it has waited for too long; or null. */
  readonly pageTurn: { qp: QueuePair | null; untilUs: number }
  /** Which queue pair has each receive entry: its place, or -1. */
  readonly receiveOwner: Int32Array
  /** How many of them are taken. */
  receivesTaken: number

  /** Messages of several packets. */
  readonly messages: PersistMessage[]
  /** What is held of batches, and known of them. */
  readonly batches: Batches
  /** Which queue pair has each staging buffer: its place, or -1. */
  readonly stagingOwner: Int32Array
  /** Since when its message is gathered, µs. */
  readonly stagingSinceUs: Float64Array

  /** Acknowledgement ranges of the group, open one per queue pair. */
  readonly ranges: PersistRange[]
  readonly rangeOwner: QueuePair[]
  readonly openRange: Int32Array
  rangeCount: number

  /** Queue pairs on which we make requests of our own. */
  readonly initiators: Initiator[]
  /** Regions of other DPUs that are offered here. */
  readonly relays: Relays
  readonly attachments: Attachment[]
  /** The queues of our own host. */
  readonly host: HostQueues
  /** Its elements under way. */
  readonly hostWork: HostWork
  /** Its memory that is registered on demand. */
  readonly translation: Translation
  /** Who is told which memory is ready; and hints that wait. */
  readonly residency: Residency
  readonly hints: Hints
  /** Answers to control calls that must not be executed again. */
  readonly answered: Answer[]
  /** Likewise, to those of our own host. */
  readonly answeredHost: Answer[]

  /** What is done of regions in slices. */
  readonly work: RegionWork

  readonly scrub: ScrubPlace
}

/** Counts a fault. */
export function count(state: State, fault: Fault): void {
  state.counters[fault]! += 1
}

/** Is the save energy armed now? The board may change its mind between two bursts. */
export function isArmed(state: State): boolean {
  return (state.words[HEALTH_AT >> 2]! & ARMED) !== 0
}

/** The next 32 random bits. */
export function random32(state: State): number {
  return nextRandom(state.random)
}

/**
 * Stirs what tells this life of the part from every other one into the generator: a board whose
 * entropy repeats then repeats no key, no PSN and no identity (fault L6). Words of which the first
 * two alone differ leave states that differ: each goes into a word of its own, and every step after
 * it can be undone. No state is all zeros, which would stay so.
 */
export function stir(r: Int32Array, words: readonly number[]): void {
  for (let i = 0; i < words.length; i++) {
    const at = (i + 1) & 3
    r[at] = r[at]! ^ Math.imul(words[i]! + i, 0x9e3779b9)
  }
  r[0] = r[0]! | 1
  for (let i = 0; i < 32; i++) nextRandom(r)
}

/** Steps the generator of four words (xorshift128; Marsaglia 2003). */
export function nextRandom(r: Int32Array): number {
  let t = r[3]!
  const s = r[0]!
  r[3] = r[2]!
  r[2] = r[1]!
  r[1] = s
  t ^= t << 11
  t ^= t >>> 8
  r[0] = t ^ s ^ (s >>> 19)
  return r[0]! >>> 0
}

/** Marks the queue pair as answered in this burst. */
export function touch(state: State, qp: QueuePair): void {
  if (qp.touched) return
  qp.touched = true
  state.touched[state.touchedCount] = qp
  state.touchedCount += 1
}

assert(FAULTS.length <= 255, 'a fault must fit into a byte')
