/**
 * Recovery: after a restart, every record that was in flight is made whole (P1-19 … P1-27, D-14).
 *
 * What always holds:
 * - It reads the lanes and then only the records that they name: its cost is a number of lines,
 *   bounded by the lanes, the same for a part of a mebibyte and of a tebibyte. The one exception is
 *   said in the report: a lane that the medium cannot deliver, or a failed save, makes every record
 *   be looked at.
 * - A repair is fenced before the lane that asked for it is cleared; a cut during recovery finds
 *   the same lanes and decides the same (test/crash.test.ts cuts it three deep).
 * - Of a batch in order, a record goes back with the one before it (commit.ts, "In order"), also
 *   where its own lane says B. Lanes are read in their order, so the one before is judged first,
 *   and by what was kept of it: a recovery that was cut decides the same. When its lane is cleared
 *   and its own is not, both are settled, and there is nothing left to take back.
 *   One more fault at the instant of the cut ends the order, not the records: a lane that cannot be
 *   read says nothing of its link, and its record is scanned by itself; of two copies, where the
 *   medium lost the old one, the new one is kept rather than none; and past the host's caches, if
 *   they are not passed by as ever (fault H6), a scan finds what went back new again.
 * - A record that cannot be settled is not written. It goes onto the superblock's list before its
 *   lane is cleared, so it stays lost, by name, until an operator decides.
 */

import {
  type CommandList,
  checkCode,
  compare,
  copy,
  copyClean,
  fence,
  ownerOf,
  resultOf,
  runAll,
} from '../command-list.ts'
import { type Fault, PASS } from '../fault.ts'
import { EQUAL, MEDIA_ERROR } from '../hal.ts'
import { LANES, LINE_BYTES, REPORT_ENTRIES } from '../limits.ts'
import {
  findRegionById,
  KIND_RECORDS,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
  type Region,
  type RegionTable,
} from '../memory/region.ts'
import { addLost, isLost, type Superblock } from '../memory/superblock.ts'
import { KEYS_AT, RECOVERY_AT, ZEROS_AT } from '../memory-map.ts'
import { CLEAN_ROW } from './cases.ts'
import { closedBy } from './closed.ts'
import { heldIntent, laneAddress } from './commit.ts'
import { type Examination, examineCopies, sequenceAfter } from './examine.ts'
import {
  blankIntent,
  type Intent,
  isPredecessor,
  LANE_CHECKED_AT,
  LANE_CHECKED_BYTES,
  LANE_CODE_AT,
  laneClear,
  lanePhase,
  PHASE_A,
  PHASE_B,
  PHASE_NONE,
  readIntent,
} from './lane.ts'
import { forgetOperation, type Operations, recoverOperation, writeImages } from './operations.ts'
import { CHECK_CODE_BYTES } from './slot.ts'
import { blankOutcome, judgeRecord, type Outcome, repairRecord } from './unify.ts'

/** One line of the report. */
export interface ReportEntry {
  regionId: number
  record: number
  /** 0 to 31, or 255: found by a scan. */
  lane: number
  /** Row of CASES. */
  row: number
  /**
   * 1 if copies were overwritten, 2 if the record is lost, 4 if the medium refused the repair; in
   * the upper four bits, which copies were overwritten.
   */
  flags: number
  validMask: number
  sequenceLow: number
  sequenceHigh: number
  linesRead: number
}

export const REPAIRED = 1
export const LOST = 2
export const REFUSED = 4
/** Where the mask of overwritten copies begins. */
export const REPAIRED_COPIES = 4
export const SCANNED = 255

/** What recovery found and did. */
export interface Report {
  readonly entries: ReportEntry[]
  /** Lines read from the medium: lanes, headers, data. */
  linesRead: number
  lanesActive: number
  /** Lanes that carried no intent, though they were not clear: torn before their first fence. */
  lanesTorn: number
  scanned: number
  repaired: number
  lost: number
  /** Operations that went into the table because a lane, or a scan, named them as durable. */
  operations: number
}

export function blankReport(): Report {
  return {
    entries: [],
    linesRead: 0,
    lanesActive: 0,
    lanesTorn: 0,
    scanned: 0,
    repaired: 0,
    lost: 0,
    operations: 0,
  }
}

/** All that recovery works on. */
export interface Recovery {
  readonly list: CommandList
  readonly words: Int32Array
  readonly examination: Examination
  readonly regions: RegionTable
  readonly superblock: Superblock
  readonly operations: Operations
  readonly report: Report
  /** Why the part cannot be recovered now, or PASS: then no lane may be cleared. */
  closed: Fault
  /** A lane could not be read, and may have named any operation: those of a scan are noted. */
  lanesUnread: boolean
  /** Lanes that must not be cleared: 1. */
  readonly keptLanes: Uint8Array
  /**
   * Per lane the record that the host's CPU must write back before it is cleared, or, past its
   * caches, that is durable if they are still passed by; or null.
   */
  readonly unflushed: (Intent | null)[]
  /** Per lane the intent that it holds against older copies, or null: the commit's own. */
  readonly held: (Intent | null)[]
  /** Likewise the intents that go back, where the medium refused it; of a batch, those behind. */
  readonly takenBack: (Intent | null)[]
}

/** Adds one settled record to the report; with nothing to say of it, nothing is added. */
export function report(
  recovery: Recovery,
  region: Region,
  slot: number,
  lane: number,
  outcome: Outcome,
  linesRead: number,
): void {
  const r = recovery.report
  const flags =
    (outcome.repaired > 0 ? REPAIRED : 0) |
    (outcome.kept < 0 ? LOST : 0) |
    (outcome.failure !== 0 ? REFUSED : 0) |
    (outcome.repaired << REPAIRED_COPIES)
  if (outcome.repaired > 0) r.repaired += 1
  if (outcome.kept < 0) r.lost += 1
  if (r.entries.length === REPORT_ENTRIES) return
  const header = recovery.examination.copies[outcome.kept < 0 ? 0 : outcome.kept]!.header
  r.entries.push({
    regionId: region.id,
    record: slot,
    lane,
    row: outcome.row,
    flags,
    validMask: outcome.validMask,
    sequenceLow: header.sequenceLow,
    sequenceHigh: header.sequenceHigh,
    linesRead,
  })
}

/** Settles one record by its lane, or by a scan (`intent` null), and says what became of it. */
export function settleRecord(
  recovery: Recovery,
  region: Region,
  slot: number,
  lane: number,
  phase: number,
  intent: Intent | null,
): Outcome {
  const { list, words, examination } = recovery
  const before = examination.linesRead
  const outcome = blankOutcome()
  judgeRecord(list, words, examination, region, slot, phase, intent, outcome)
  if (outcome.failure !== 0) {
    // A host that does not answer: its records are looked at again, and its lanes stay.
    if (lane !== SCANNED) recovery.closed = closedBy(outcome.failure)
    return outcome
  }
  repairRecord(list, examination, region, slot, outcome)
  const clean = outcome.row === CLEAN_ROW && outcome.repaired === 0 && outcome.failure === 0
  const dull = lane === SCANNED && clean
  if (!dull) report(recovery, region, slot, lane, outcome, examination.linesRead - before)
  if (outcome.failure !== 0) {
    if (outcome.failure !== MEDIA_ERROR) recovery.closed = closedBy(outcome.failure)
    // The medium refused the repair: the lane stays, to say the same at the next start.
    if (lane !== SCANNED) keepLane(recovery, region, lane, phase, intent)
    // Readers are not shown what the next start takes back, if the medium lets it.
    if (lane !== SCANNED && phase === PHASE_A && outcome.kept > 0) {
      recovery.takenBack[lane] = intent
    }
  }
  if (outcome.kept < 0) markLost(recovery, region, slot, lane)
  return outcome
}

/** Keeps a lane whose record could not be repaired; the region takes no writes meanwhile. */
function keepLane(
  recovery: Recovery,
  region: Region,
  lane: number,
  phase: number,
  intent: Intent | null,
): void {
  recovery.keptLanes[lane] = 1
  // In phase B no copy older than the intent may stand for the record.
  if (phase === PHASE_B) recovery.held[lane] = intent
  region.unsettled += 1
}

/** A lost record goes onto the list; where the list is full its lane stays, to say it again. */
function markLost(recovery: Recovery, region: Region, slot: number, lane: number): void {
  if (isLost(recovery.superblock, region.id, slot)) return
  region.unsettled += 1
  if (addLost(recovery.superblock, region.id, slot) || lane === SCANNED) return
  recovery.keptLanes[lane] = 1
}

/** Where recovery reads lane `lane` to, and where its recomputed check code goes. */
function lineAt(lane: number): number {
  return RECOVERY_AT + lane * LINE_BYTES
}

function codeAt(lane: number): number {
  return RECOVERY_AT + (LANES + lane) * LINE_BYTES
}

/**
 * Reads the lanes and settles what they name. Returns whether a lane could not be read, so that
 * everything must be scanned. The lanes themselves are not yet cleared: see `clearAllLanes`.
 */
export function recoverLanes(recovery: Recovery, trusted: boolean): boolean {
  const { list, words } = recovery
  for (let lane = 0; lane < LANES; lane++) {
    copy(list, laneAddress(lane), lineAt(lane), LINE_BYTES)
  }
  runAll(list)
  let unreadable = false
  const active: number[] = []
  for (let lane = 0; lane < LANES; lane++) {
    if (resultOf(list, lane) !== 0) unreadable = true
    else if (!laneClear(words, lineAt(lane))) active.push(lane)
  }
  recovery.report.linesRead += LANES
  const intents = new Array<Intent | null>(LANES).fill(null)
  for (const lane of active) intents[lane] = intentOf(recovery, lane)
  const chain: Chain = { intents, back: new Uint8Array(LANES) }
  for (const lane of active) {
    const intent = intents[lane]!
    if (intent === null) recovery.report.lanesTorn += 1
    else if (!isOvertaken(intent, intents)) recoverLane(recovery, lane, intent, chain, trusted)
  }
  return unreadable
}

/** What the lanes say, and which records have gone back, so that nothing outlives them. */
interface Chain {
  readonly intents: readonly (Intent | null)[]
  readonly back: Uint8Array
}

/**
 * The lane of the record that this one must not outlive, if that record has gone back; or -1. A
 * line of another group may stand there: it is earlier where this one's never touched a slot, or
 * later.
 */
function laneBefore(chain: Chain, lane: number, intent: Intent): number {
  const before = lane - intent.link
  const other = intent.link === 0 || before < 0 ? null : chain.intents[before]!
  if (other === null || chain.back[before] === 0) return -1
  return isPredecessor(other, intent) && sequenceAfter(intent, other) ? before : -1
}

/** What the lane says, or null if it is torn or names no record. */
function intentOf(recovery: Recovery, lane: number): Intent | null {
  const { list, words, regions } = recovery
  checkCode(list, lineAt(lane) + LANE_CHECKED_AT, codeAt(lane), LANE_CHECKED_BYTES, KEYS_AT)
  compare(list, codeAt(lane), lineAt(lane) + LANE_CODE_AT, CHECK_CODE_BYTES)
  runAll(list)
  if (resultOf(list, 1) !== EQUAL) return null
  const intent = blankIntent()
  readIntent(intent, words, lineAt(lane))
  const region = findRegionById(regions, intent.regionId)
  const named = region !== null && region.kind === KIND_RECORDS && intent.record < region.slots
  return named ? intent : null
}

/**
 * Does another lane speak of a later write of the record? It began when this one had ended: the
 * medium did not let us clear the lane, and what it says is void.
 */
function isOvertaken(intent: Intent, intents: readonly (Intent | null)[]): boolean {
  return intents.some(
    (other) =>
      other !== null &&
      other.regionId === intent.regionId &&
      other.record === intent.record &&
      sequenceAfter(other, intent),
  )
}

function recoverLane(
  recovery: Recovery,
  lane: number,
  intent: Intent,
  chain: Chain,
  trusted: boolean,
): void {
  const { words, regions } = recovery
  const region = findRegionById(regions, intent.regionId)!
  const phase = lanePhase(words, lineAt(lane))
  recovery.report.lanesActive += 1
  // Without a phase to trust, the check codes decide. So they do where the repair may lie in a
  // cache: if it is lost, the next start scans, and has to find the same.
  const bypass = region.placement === PLACEMENT_BYPASS
  const spoken = trusted && phase >= 0 && !(bypass && phase === PHASE_A)
  const before = laneBefore(chain, lane, intent)
  const goesBack = before >= 0 && (trusted || isNewInFirst(recovery, region, intent))
  const as = goesBack ? PHASE_A : spoken ? phase : PHASE_NONE
  const by = goesBack || spoken ? intent : null
  const outcome = settleRecord(recovery, region, intent.record, lane, as, by)
  chain.back[lane] = as !== PHASE_B && isOlder(recovery, outcome, intent) ? 1 : 0
  if (goesBack && recovery.keptLanes[lane] !== 0) keepChain(recovery, chain, lane)
  if (bypass) recovery.unflushed[lane] = intent
  if (region.placement === PLACEMENT_THROUGH && recovery.keptLanes[lane] === 0) {
    recovery.keptLanes[lane] = 1
    recovery.unflushed[lane] = intent
  }
  if (trusted) noteOperation(recovery, outcome, intent)
}

/** Is what was kept of the record older than the intent, or nothing? */
function isOlder(recovery: Recovery, outcome: Outcome, intent: Intent): boolean {
  if (outcome.kept < 0) return true
  return sequenceAfter(intent, recovery.examination.copies[outcome.kept]!.header)
}

/**
 * After a save that failed no phase counts, and either copy may be of any age: only a record whose
 * first copy is that of the lane goes back with the one before it.
 */
function isNewInFirst(recovery: Recovery, region: Region, intent: Intent): boolean {
  const { list, words, examination } = recovery
  examineCopies(list, words, examination, region, intent.record, 0, 1)
  const { valid, header } = examination.copies[0]!
  return valid && !sequenceAfter(header, intent) && !sequenceAfter(intent, header)
}

/**
 * The medium refused to take the record of that lane back: the lanes before it stay, too, to say so
 * at the next start, and no scan brings any of their records forward meanwhile.
 */
function keepChain(recovery: Recovery, chain: Chain, last: number): void {
  for (let lane = last; lane >= 0; lane = laneBefore(chain, lane, recovery.takenBack[lane]!)) {
    recovery.keptLanes[lane] = 1
    recovery.takenBack[lane] = chain.intents[lane]!
  }
}

/**
 * Says to the operation table what became of the record of a lane. The copy that was kept decides,
 * not the phase: a recovery that was cut may have gone back already. A repair that the medium
 * refused leaves fewer copies than some acknowledgements wait for.
 */
function noteOperation(recovery: Recovery, outcome: Outcome, intent: Intent): void {
  const { operations, examination } = recovery
  const header = outcome.kept < 0 ? null : examination.copies[outcome.kept]!.header
  if (header === null || sequenceAfter(intent, header)) forgetOperation(operations, intent)
  else if (sequenceAfter(header, intent)) return
  else if (outcome.failure === 0 || intent.wait === 1) recoverOperation(operations, intent, true)
}

/**
 * Makes the table durable as it is now known, with the next fences: no lane is cleared before.
 * Returns PASS, or why the part cannot be started.
 */
export function writeOperations(recovery: Recovery): Fault {
  const { operations, list, report } = recovery
  report.operations = operations.recovered
  const result = writeImages(operations, list)
  return result === 0 ? PASS : closedBy(result)
}

/** Clears the lanes, once what they named is settled, fenced, and where lost, listed. */
export function clearAllLanes(recovery: Recovery): Fault {
  const { list, keptLanes } = recovery
  for (let lane = 0; lane < LANES; lane++) {
    if (keptLanes[lane] !== 0) continue
    copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, lane + 1)
  }
  const end = fence(list)
  runAll(list)
  // A line that takes nothing is not used again; the sequence tells that its intent is an old one.
  for (let i = 0; i < end; i++) {
    if (ownerOf(list, i) > 0 && resultOf(list, i) !== 0) keptLanes[ownerOf(list, i) - 1] = 1
  }
  const result = resultOf(list, end)
  return result === 0 ? PASS : closedBy(result)
}

/**
 * Looks at records [first, last) of the region with their check codes, and repairs. Records that
 * are lost, or that a lane holds, are passed over: check codes know less of them.
 */
export function scanRegion(recovery: Recovery, region: Region, first: number, last: number): void {
  for (let slot = first; slot < last; slot++) {
    if (isLost(recovery.superblock, region.id, slot)) continue
    if (heldIntent(recovery.held, region, slot) !== null) continue
    if (heldIntent(recovery.takenBack, region, slot) !== null) continue
    const { kept, failure } = settleRecord(recovery, region, slot, SCANNED, PHASE_NONE, null)
    recovery.report.scanned += 1
    if (!recovery.lanesUnread || kept < 0 || failure !== 0) continue
    recoverOperation(recovery.operations, recovery.examination.copies[kept]!.header, false)
  }
}
