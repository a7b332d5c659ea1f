/**
 * Power-on: from a part of unknown content to one that serves.
 *
 * What always holds:
 * - A part that is refused is not written. What may be wrong with it is a fault with a name.
 * - Recovery ends before the first request is accepted (P1-27): no burst is received meanwhile.
 * - The new incarnation and the list of lost records are durable before a lane is cleared, and a
 *   lane is cleared only behind the fence of the repair that it asked for.
 */

import { resetLanes } from '../commit/commit.ts'
import { createExamination } from '../commit/examine.ts'
import {
  blankReport,
  clearAllLanes,
  type Recovery,
  recoverLanes,
  scanRegion,
} from '../commit/recovery.ts'
import { type Fault, NOT_ARMED, PASS } from '../fault.ts'
import { HEALTH_AT, SAVE_FAILED } from '../hal.ts'
import { LANES, REGION_NAME_BYTES, REGIONS } from '../limits.ts'
import {
  KIND_RECORDS,
  REMOTE_READ,
  REMOTE_WRITE,
  type Region,
  strideOf,
  WRITE_PERSIST,
} from '../memory/region.ts'
import {
  beginIncarnation,
  dirtyCountOf,
  entryKeyAt,
  incarnationOf,
  installPartKey,
  lostOf,
  readEntry,
  readSuperblock,
  regionCountOf,
  writeSuperblock,
} from '../memory/superblock.ts'
import { KEY_BYTES, KEYS_AT } from '../memory-map.ts'
import { isArmed, random32, type State } from '../state.ts'

/** Bits of the sequence's upper word below the incarnation: the counter has 44 bits. */
const SEQUENCE_COUNTER_BITS = 12

/** Virtual address of the first byte of a region of bytes: it is zero-based. */
const BASE_VA = 0

export function createRecovery(state: Omit<State, 'recovery'>): Recovery {
  return {
    list: state.list,
    words: state.words,
    examination: createExamination(),
    regions: state.regions,
    superblock: state.superblock,
    report: blankReport(),
    closed: PASS,
    keptLanes: new Uint8Array(LANES),
    held: state.commit.held.fill(null),
  }
}

/** Brings the part up; afterwards `state.refused` says why it does not serve, or PASS. */
export function boot(state: State): void {
  state.refused = bringUp(state)
}

function bringUp(state: State): Fault {
  const { list, superblock, facts, commit } = state
  installPartKey(state.bytes)
  const health = state.words[HEALTH_AT >> 2]!
  // Without the save energy no repair could be fenced.
  if (!isArmed(state)) return NOT_ARMED
  let fault = readSuperblock(list, superblock, facts.nvdimmBytes)
  if (fault !== PASS) return fault
  for (let i = 0; i < regionCountOf(superblock); i++) installRegion(state, i)
  const recovery = createRecovery(state)
  state.recovery = recovery
  const unsafe = facts.dirtyShutdowns !== dirtyCountOf(superblock) || (health & SAVE_FAILED) !== 0
  // A save that failed may have taken back a phase word and not the slots, or the reverse.
  const blind = recoverLanes(recovery, !unsafe)
  if (blind || unsafe) scanEverything(state)
  recovery.report.linesRead += recovery.examination.linesRead
  if (recovery.closed !== PASS) return recovery.closed
  beginIncarnation(superblock, facts.dirtyShutdowns)
  fault = writeSuperblock(list, superblock)
  if (fault === PASS) fault = clearAllLanes(recovery)
  if (fault !== PASS) return fault
  state.incarnation = incarnationOf(superblock)
  state.queuePairs.salt = ((state.incarnation - 1) % 0xffff) + 1
  commit.sequenceHigh = state.incarnation * 2 ** SEQUENCE_COUNTER_BITS
  commit.sequenceLow = 0
  commit.closed = PASS
  resetLanes(commit, recovery.keptLanes)
  return PASS
}

function scanEverything(state: State): void {
  for (let i = 0; i < REGIONS; i++) {
    const region = state.regions.places[i]!
    if (region !== null && region.kind === KIND_RECORDS) {
      scanRegion(state.recovery, region, 0, region.slots)
    }
  }
}

/** The name in an entry or a request: bytes up to the first zero, one character each. */
export function nameOf(bytes: Uint8Array, at: number): string {
  let name = ''
  for (let i = 0; i < REGION_NAME_BYTES && bytes[at + i] !== 0; i++) {
    name += String.fromCharCode(bytes[at + i]!)
  }
  return name
}

/** Puts region `index` of the superblock into the table, under a new key. */
export function installRegion(state: State, index: number): Region {
  const { superblock, regions, bytes } = state
  const entry = readEntry(superblock, index)
  const keyAt = KEYS_AT + (index + 1) * KEY_BYTES
  const from = entryKeyAt(index)
  for (let i = 0; i < KEY_BYTES; i++) bytes[keyAt + i] = superblock.bytes[from + i]!
  const records = entry.kind === KIND_RECORDS
  const region: Region = {
    index,
    id: entry.id,
    name: nameOf(entry.name, 0),
    kind: entry.kind,
    slots: entry.slots,
    capacity: entry.capacity,
    copies: entry.copies,
    flags: entry.flags,
    protectionDomain: entry.protectionDomain,
    stride: records ? strideOf(entry.capacity) : 0,
    at: entry.at,
    areaBytes: entry.areaBytes,
    baseHigh: BASE_VA,
    baseLow: BASE_VA,
    keyAt,
    rkey: ((random32(state) << 5) | index) >>> 0,
    rights: records ? WRITE_PERSIST | REMOTE_READ : REMOTE_WRITE | REMOTE_READ,
    unsettled: lostOf(superblock, entry.id),
  }
  regions.places[index] = region
  regions.count = index + 1
  return region
}
