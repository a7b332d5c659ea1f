/**
 * What the responder keeps of those whom it tells which memory is ready (status/telling.ts).
 */

import { ASSOCIATIONS, LANES, THROUGH_JOBS } from '../board/limits.ts'
import { ASSOCIATIONS_AT } from '../board/memory-map.ts'
import type { Region } from '../medium/region.ts'
import { LOST_MAX } from '../medium/superblock.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { type Association, createAssociations } from './association.ts'

/** Records of one region that may be absent at once, and can be named; and all of it. */
const ABSENT_MAX: number = LOST_MAX + LANES + THROUGH_JOBS + 1

export interface Residency {
  readonly associations: readonly Association[]
  /** Whose each association is, and with which region: null while its place is free. */
  readonly qps: (QueuePair | null)[]
  readonly regions: (Region | null)[]
  /** Places that are not free. */
  taken: number
  /**
   * The newest sequence of an association that has ended. The next one begins behind it: a notice
   * that is late is older than all of its own.
   */
  sequence: number
  /** Whose turn is first; and whether somebody may still count in this one. */
  turn: number
  mayCount: boolean
  /** Of regions of records: the stamp of the last look, and which records were absent then. */
  readonly stamps: Float64Array
  readonly absent: readonly Int32Array[]
  readonly absentCount: Int32Array
  readonly found: Int32Array
}

export function createResidency(packets: ArrayBuffer): Residency {
  const memory = new ArrayBuffer(4 * ASSOCIATIONS * ABSENT_MAX)
  const absent: Int32Array[] = []
  for (let i = 0; i < ASSOCIATIONS; i++) {
    absent.push(new Int32Array(memory, 4 * i * ABSENT_MAX, ABSENT_MAX))
  }
  return {
    associations: createAssociations(packets, ASSOCIATIONS_AT),
    qps: new Array<QueuePair | null>(ASSOCIATIONS).fill(null),
    regions: new Array<Region | null>(ASSOCIATIONS).fill(null),
    taken: 0,
    sequence: 0,
    turn: 0,
    mayCount: false,
    stamps: new Float64Array(ASSOCIATIONS),
    absent,
    absentCount: new Int32Array(ASSOCIATIONS),
    found: new Int32Array(ABSENT_MAX),
  }
}
