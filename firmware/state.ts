/**
 * Everything that one DPU holds while it has power. Made once at start; nothing is added later.
 *
 * `serve/` and `manage/` work on it; the layers below know only their own part of it.
 */

import type { CommandList } from './command-list.ts'
import type { Commit, GroupIndex } from './commit/commit.ts'
import type { Examination } from './commit/examine.ts'
import type { Recovery } from './commit/recovery.ts'
import { FAULTS, type Fault } from './fault.ts'
import { ARMED, type Facts, HEALTH_AT, type Machine } from './hal.ts'
import type { Region, RegionTable } from './memory/region.ts'
import type { Superblock } from './memory/superblock.ts'
import type { Answers, PersistRange } from './transport/acknowledge.ts'
import type { QueuePair, QueuePairTable } from './transport/queue-pair.ts'
import type { Aeth } from './wire/aeth.ts'
import type { Deth } from './wire/deth.ts'
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
}

/** A READ that was accepted and waits for the burst to be settled. */
export interface WaitingRead {
  qp: QueuePair
  /** Null for a READ of no bytes, which names nothing. */
  region: Region | null
  vaHigh: number
  vaLow: number
  length: number
  psn: number
  /** A repetition: what is wrong with it is passed over in silence. */
  again: boolean
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

export interface State {
  readonly machine: Machine
  readonly facts: Facts
  readonly bytes: Uint8Array
  readonly words: Int32Array
  readonly list: CommandList
  readonly regions: RegionTable
  readonly superblock: Superblock
  readonly queuePairs: QueuePairTable
  readonly commit: Commit
  readonly group: GroupIndex
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

  /** Of the burst in progress. */
  readonly touched: QueuePair[]
  touchedCount: number
  readonly reads: WaitingRead[]
  readsCount: number
  readonly managements: WaitingManagement[]
  managementsCount: number
  /** Commands of plain WRITEs in the list: they may meet media errors. */
  plainWrites: number

  /** Messages of several packets. */
  readonly messages: PersistMessage[]
  /** Which queue pair has each staging buffer: its place, or -1. */
  readonly stagingOwner: Int32Array

  /** Acknowledgement ranges of the group, open one per queue pair. */
  readonly ranges: PersistRange[]
  readonly rangeOwner: QueuePair[]
  readonly openRange: Int32Array
  rangeCount: number

  /** Where the idle scrub stands. */
  scrubRegion: number
  scrubSlot: number
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

if (FAULTS.length > 255) throw new Error('a fault must fit into a byte')
