/**
 * How what lies in the host's memory becomes durable: proven at every power-on, never promised
 * (source 2, its two flows; P2-12).
 *
 *   bypass    DMA writes go past the host's caches: a DMA read of one byte behind them suffices
 *   through   they go into the last-level cache: the host's CPU has to write it back
 *
 * Invariants:
 * - Until the host's CPU has shown which way the writes of this card take, nothing is written to a
 *   region there. It shows it by the number that the probe left in its memory, so only who sees
 *   that memory can.
 * - What was shown holds for one life of the host: while card and host have power, the link is up,
 *   the epoch of its queues stays, and every read that is to push writes is answered. When one of
 *   these ends nothing is shown any more, as the host may be another one, or the same one set up
 *   otherwise (faults B1, B2): what lies there is read, and not written, until it is probed again.
 * - A region whose placement is not the one that was shown is read, and not written: a platform
 *   that was set otherwise meanwhile loses no acknowledged record (fault H6).
 */

import { append, type CommandList, run } from '../board/command-list.ts'
import { type Fault, PASS, PLACEMENT_UNKNOWN, PLACEMENT_WRONG } from '../board/fault.ts'
import { COPY, HOST_SPACE, NO_SNOOP } from '../board/hal.ts'
import { LINE_BYTES, REGIONS } from '../board/limits.ts'
import { LANE_LINES_AT, LSB_AT } from '../board/memory-map.ts'
import {
  BYTES_RIGHTS,
  HOST_PROBE_AT,
  isPair,
  KIND_RECORDS,
  PLACEMENT_BYPASS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  RECORDS_RIGHTS,
  REMOTE_ATOMIC,
  REMOTE_READ,
  type Region,
  type RegionTable,
  WRITE_PERSIST,
  WRITE_PERSIST_REGION,
} from '../medium/region.ts'

/** Nothing was shown in this life of the host. */
export const PLACEMENT_UNPROVEN = -1

/** Lines of the probe that are written as usual, and as many behind them that ask for no-snoop. */
export const PROBE_LINES = 16

/** Bytes of the number in every line of the probe. */
export const PROBE_NUMBER_BYTES = 8

export interface Proof {
  /** PLACEMENT_BYPASS, PLACEMENT_THROUGH, or PLACEMENT_UNPROVEN. */
  proven: number
  /** Lives of the host that are over, as far as the card knows. */
  lives: number
  /** The number of the last probe; zero before the first. */
  numberHigh: number
  numberLow: number
  /** Bytes of the host's memory that HOST_SPACE shows. */
  hostBytes: number
  /** The life in which the host has stated the pieces of its memory; -1: in none. */
  statedIn: number
}

export function createProof(): Proof {
  const shown = { hostBytes: 0, statedIn: -1 }
  return { proven: PLACEMENT_UNPROVEN, lives: 0, numberHigh: 0, numberLow: 0, ...shown }
}

/** May a region of that placement be written? PASS, PLACEMENT_UNKNOWN or PLACEMENT_WRONG. */
export function placeFault(proof: Proof, wanted: number): Fault {
  if (wanted === PLACEMENT_LOCAL || wanted === proof.proven) return PASS
  return proof.proven === PLACEMENT_UNPROVEN ? PLACEMENT_UNKNOWN : PLACEMENT_WRONG
}

/** Writes `number` into every line of the probe. False if the host's memory did not answer. */
export function writeProbe(
  list: CommandList,
  bytes: Uint8Array,
  proof: Proof,
  numberHigh: number,
  numberLow: number,
): boolean {
  proof.numberHigh = numberHigh
  proof.numberLow = numberLow
  const view = new DataView(bytes.buffer, bytes.byteOffset + LANE_LINES_AT, LINE_BYTES)
  for (let i = 0; i < LINE_BYTES; i += PROBE_NUMBER_BYTES) {
    view.setUint32(i, numberHigh)
    view.setUint32(i + 4, numberLow)
  }
  for (let line = 0; line < 2 * PROBE_LINES; line++) {
    const to = HOST_SPACE + HOST_PROBE_AT + line * LINE_BYTES
    append(list, COPY, LANE_LINES_AT, to, LINE_BYTES, line < PROBE_LINES ? 0 : NO_SNOOP)
  }
  append(list, COPY, HOST_SPACE + HOST_PROBE_AT, LSB_AT, 1, 0)
  return run(list) < 0
}

/**
 * What the host's CPU has seen of the probe. Faults: PLACEMENT_UNKNOWN, if it cannot tell, and then
 * nothing is proven any more; or if it has not seen the number of the last probe.
 */
export function prove(
  proof: Proof,
  regions: RegionTable,
  seen: number,
  numberHigh: number,
  numberLow: number,
): Fault {
  const probed = proof.numberHigh !== 0 || proof.numberLow !== 0
  const same = numberHigh === proof.numberHigh && numberLow === proof.numberLow
  // Who does not know the number says nothing about this memory, and takes nothing back either.
  if (!probed || !same) return PLACEMENT_UNKNOWN
  const known = seen === PLACEMENT_BYPASS || seen === PLACEMENT_THROUGH
  proof.proven = known ? seen : PLACEMENT_UNPROVEN
  grant(proof, regions)
  return proof.proven === PLACEMENT_UNPROVEN ? PLACEMENT_UNKNOWN : PASS
}

/** The host is gone, or may have been: whatever it has shown, and the number by which, is void. */
export function unprove(proof: Proof, regions: RegionTable): void {
  proof.proven = PLACEMENT_UNPROVEN
  proof.lives += 1
  proof.numberHigh = 0
  proof.numberLow = 0
  grant(proof, regions)
}

function grant(proof: Proof, regions: RegionTable): void {
  for (let i = 0; i < REGIONS; i++) {
    const region = regions.places[i]!
    if (region !== null) region.rights = rightsOf(proof, region)
  }
}

/**
 * What a region grants now. Records are refused one by one, by a status. Bytes in the host's memory
 * are only read until their placement is proven.
 */
export function rightsOf(
  proof: Proof,
  region: Pick<Region, 'kind' | 'flags' | 'placement'>,
): number {
  if (isPair(region)) return RECORDS_RIGHTS & ~WRITE_PERSIST
  if (region.kind === KIND_RECORDS) return RECORDS_RIGHTS
  if (placeFault(proof, region.placement) !== PASS) return REMOTE_READ
  const persist = (region.flags & WRITE_PERSIST_REGION) !== 0 ? WRITE_PERSIST : 0
  if (region.placement === PLACEMENT_LOCAL) return BYTES_RIGHTS | persist
  // An atomic of the card is none towards the host's CPU.
  return (BYTES_RIGHTS & ~REMOTE_ATOMIC) | persist
}
