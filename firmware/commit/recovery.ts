/**
 * Recovery: after a restart, every record that was in flight is made whole (P1-19 … P1-27, D-14).
 *
 * Invariants:
 * - It reads the lanes and then only the records that they name: its cost is a number of lines,
 *   bounded by the lanes, the same for a part of a mebibyte and of a tebibyte. The one exception is
 *   said in the report: a lane that the medium cannot deliver, or a failed save, makes every record
 *   be looked at.
 * - A repair is fenced before the lane that asked for it is cleared; a cut during recovery finds
 *   the same lanes and decides the same (test/firmware/commit/crash.test.ts cuts it three deep).
 * - The operation of a record that goes back leaves the table, durably, before a copy is touched:
 *   once all of them are old, the lane alone tells, and the medium may lose that.
 * - Of a batch in order, a record goes back with the one before it (commit.ts, "In order"), also
 *   where its own lane says B. Lanes are read in their order, so the one before is judged first,
 *   and by what was kept of it: a recovery that was cut decides the same. When its lane is cleared
 *   and its own is not, both are settled, and there is nothing left to take back.
 *   One more fault at the instant of the cut ends the order, not the records: a lane that cannot be
 *   read says nothing of its link, and its record is scanned by itself; of two copies, where the
 *   medium lost the old one, the new one is kept rather than none; and past the host's caches, if
 *   they are not passed by as ever (fault H6), a scan finds what went back new again.
 * - Where the host does not answer nothing is decided: the lane stays, the record waits for a host
 *   that shows its memory (placement/settle-host.ts), and everything else is served (fault B3). So
 *   does one that must not outlive such a record, and nobody is shown it meanwhile.
 * - A record that cannot be settled is not written. It goes onto the superblock's list before its
 *   lane is cleared, so it stays lost, by name, until an operator decides.
 */

import {
  type CommandList,
  checkCode,
  compare,
  copy,
  copyClean,
  fenceOwn,
  ownerOf,
  resultOf,
  runAll,
} from '../board/command-list.ts'
import { type Fault, PASS } from '../board/fault.ts'
import { DMA_FAILED, EQUAL, MEDIA_ERROR } from '../board/hal.ts'
import { COPIES_MAX, LANES, LINE_BYTES, REPORT_ENTRIES } from '../board/limits.ts'
import { KEYS_AT, RECOVERY_AT, ZEROS_AT } from '../board/memory-map.ts'
import { sequenceAfter } from '../medium/copies.ts'
import {
  blankIntent,
  type Intent,
  isForward,
  isPredecessor,
  LANE_CHECKED_AT,
  LANE_CHECKED_BYTES,
  LANE_CODE_AT,
  laneClear,
  lanePhase,
  PHASE_A,
  PHASE_HELD,
  PHASE_NONE,
  PHASE_UNSURE,
  readIntent,
} from '../medium/lane.ts'
import {
  findRegionById,
  isPair,
  KIND_RECORDS,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
  type Region,
  type RegionTable,
} from '../medium/region.ts'
import { CHECK_CODE_BYTES } from '../medium/slot.ts'
import { addLost, isLost, isOverfull, type Superblock, setOverfull } from '../medium/superblock.ts'
import { CASES, CLEAN_ROW } from './cases.ts'
import { closedBy } from './closed.ts'
import { endPending, heldIntent, holdLane, laneAddress, leavePending } from './commit.ts'
import { type Examination, examineCopies } from './examine.ts'
import {
  forgetDurably,
  forgetOperation,
  type Operations,
  recoverOperation,
  writeImages,
} from './operations.ts'
import { blankOutcome, judgeRecord, type Outcome, repairRecord } from './unify.ts'
import { deriveUnsettled, type UnsettledRecord } from './unsettled.ts'

/** One line of the report. */
interface ReportEntry {
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
const SCANNED = 255

/** Nobody has looked at all of the region: that waits for a host, or one has shown its memory. */
export const LOOK_WAITS = 1
export const LOOK_DUE = 2

/** What recovery found and did. */
interface Report {
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
   * Per lane the record that the host's CPU must write back before it is cleared, or null.
   */
  readonly unflushed: (Intent | null)[]
  /** And by which phase it was settled: the commit's own, as is what waits for the host. */
  readonly phases: Uint8Array
  /** And how many of its first copies may become again what they were (`hiddenCopies`). */
  readonly hidden: Uint8Array
  readonly pending: (Intent | null)[]
  readonly undecided: (Intent | null)[]
  /** Whether phases, and so operations, can be trusted. */
  trusted: boolean
  /** Of regions past the host's caches that are scanned when it shows its memory: LOOK_*, or 0. */
  readonly unscanned: Uint8Array
  /** Records of scans so far for which a host did not answer: nothing is known of them. */
  unanswered: number
  /** Per lane the intent that it holds against older copies, or null: the commit's own. */
  readonly held: (Intent | null)[]
  /** Likewise the intents that go back, where the medium refused it; of a batch, those behind. */
  readonly takenBack: (Intent | null)[]
  /** Likewise, of every lane that stays, the record that it leaves unsettled. */
  readonly unsettled: (UnsettledRecord | null)[]
  /** Lost records so far that the list had no room for. */
  unlisted: number
  /** Records so far into which a repair stored something, whether or not the medium took it. */
  stored: number
  /** Of the records that scans have looked at so far, each as often as one has. */
  readonly found: Found
}

/** What is wrong with records behind a look at them: whoever asks takes the difference. */
interface Found {
  /** No copy can stand for it. */
  lost: number
  /** It is not in every copy: the medium refuses the repair, or a lane holds it. */
  unsettled: number
  /** It was passed over: somebody is writing it. */
  underWay: number
}

/** Adds one settled record to the report; what stands there of a scan is not said again. */
function report(
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
  if (outcome.repaired > 0) recovery.stored += 1
  if (outcome.repaired > 0 && outcome.failure === 0) {
    r.repaired += 1
    // What was merely under way is no decay.
    if (lane === SCANNED || CASES[outcome.row]!.sourceCase === 0) region.repaired += 1
  }
  if (lane === SCANNED && isTold(recovery, region, slot, flags)) return
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

/**
 * Has a scan said the same of the record before, which is as it was: refused, or lost and not on
 * the list?
 */
function isTold(recovery: Recovery, region: Region, slot: number, flags: number): boolean {
  const { report, superblock } = recovery
  const isUnlisted = (flags & LOST) !== 0 && isOverfull(superblock, region.index)
  if ((flags & REFUSED) === 0 && !isUnlisted) return false
  return report.entries.some(
    (one) =>
      one.record === slot &&
      one.regionId === region.id &&
      one.lane === SCANNED &&
      one.flags === flags,
  )
}

/**
 * Settles one record by its lane, or by a scan (`intent` null), and says what became of it. Where
 * the lane has no phase to go by it names the record, and the check codes decide.
 */
function settleRecord(
  recovery: Recovery,
  region: Region,
  slot: number,
  lane: number,
  phase: number,
  intent: Intent | null,
): Outcome {
  const before = recovery.examination.linesRead
  const outcome = unify(recovery, region, slot, phase, intent)
  if (outcome.failure === DMA_FAILED) {
    // A host that does not answer: its records are looked at again, and its lanes stay.
    recovery.unanswered += 1
    return outcome
  }
  const clean = outcome.row === CLEAN_ROW && outcome.repaired === 0 && outcome.failure === 0
  const dull = lane === SCANNED && clean
  const { linesRead } = recovery.examination
  if (!dull) report(recovery, region, slot, lane, outcome, linesRead - before)
  noteOutcome(recovery, region, slot, lane, phase, spokenOf(phase, intent), outcome)
  return outcome
}

/**
 * Settles the record of a lane once more, as its host may have lost what was stored: decided as
 * before, and reported where anything had to be done. Without an answer nothing has changed.
 */
export function settleAgain(
  recovery: Recovery,
  region: Region,
  slot: number,
  lane: number,
  phase: number,
  intent: Intent,
): Outcome {
  const before = recovery.examination.linesRead
  const outcome = unify(recovery, region, slot, phase, intent)
  if (outcome.failure === DMA_FAILED) return outcome
  const { linesRead } = recovery.examination
  const dull = outcome.repaired === 0 && outcome.failure === 0 && outcome.kept >= 0
  if (!dull) report(recovery, region, slot, lane, outcome, linesRead - before)
  recovery.keptLanes[lane] = 0
  recovery.unsettled[lane] = null
  deriveUnsettled(recovery.superblock, recovery.unsettled, region)
  endPending(recovery, lane, region)
  noteOutcome(recovery, region, slot, lane, phase, intent, outcome)
  return outcome
}

/**
 * Judges the record, and makes its copies one; what goes back is not known before it does. One that
 * is lost may have been acknowledged: then nobody knows that it was not.
 */
function unify(
  recovery: Recovery,
  region: Region,
  slot: number,
  phase: number,
  intent: Intent | null,
): Outcome {
  const { list, examination } = recovery
  const outcome = judgeAlone(recovery, region, slot, phase, intent)
  const goesBack = outcome.failure === 0 && intent !== null && isOlder(recovery, outcome, intent)
  if (goesBack) {
    outcome.failure = forgetDurably(recovery.operations, list, intent, outcome.kept < 0)
  }
  if (outcome.failure === 0) repairRecord(list, examination, region, slot, outcome)
  return outcome
}

/** What is to be done with the record; nothing is. */
function judgeAlone(
  recovery: Recovery,
  region: Region,
  slot: number,
  phase: number,
  intent: Intent | null,
): Outcome {
  const { list, words, examination } = recovery
  const outcome = blankOutcome()
  const spoken = spokenOf(phase, intent)
  judgeRecord(list, words, examination, region, slot, phase, spoken, outcome)
  return outcome
}

/** The intent, if its lane has a phase to go by. */
function spokenOf(phase: number, intent: Intent | null): Intent | null {
  return phase === PHASE_NONE ? null : intent
}

/** What a repair that was refused, or a record that is lost, leaves behind. */
function noteOutcome(
  recovery: Recovery,
  region: Region,
  slot: number,
  lane: number,
  phase: number,
  intent: Intent | null,
  outcome: Outcome,
): void {
  if (outcome.failure !== 0) {
    if (outcome.failure !== MEDIA_ERROR) recovery.closed = closedBy(outcome.failure)
    // The medium refused the repair: the lane stays, to say the same at the next start, and the
    // region takes no writes meanwhile.
    if (lane !== SCANNED) {
      keepLane(recovery, region, slot, lane, intent)
      // Readers are shown the first copy: no older one may stand for the record from now on.
      const isShown = isForward(phase) && !isOlder(recovery, outcome, intent!)
      if (isShown) recovery.held[lane] = intent
    }
    // Readers are not shown what the next start takes back, if the medium lets it.
    if (lane !== SCANNED && phase === PHASE_A && outcome.kept > 0) {
      recovery.takenBack[lane] = intent
    }
  }
  if (outcome.kept < 0) markLost(recovery, region, slot, lane, phase, intent)
}

/** Keeps a lane whose record could not be settled; the region takes no writes meanwhile. */
function keepLane(
  recovery: Recovery,
  region: Region,
  slot: number,
  lane: number,
  intent: Intent | null,
): void {
  recovery.keptLanes[lane] = 1
  recovery.unsettled[lane] = intent ?? { ...blankIntent(), regionId: region.id, record: slot }
  deriveUnsettled(recovery.superblock, recovery.unsettled, region)
}

/**
 * A lost record goes onto the list. Where the list is full its lane stays, to say it again, and
 * holds it against older copies; has it none, its region is marked.
 */
function markLost(
  recovery: Recovery,
  region: Region,
  slot: number,
  lane: number,
  phase: number,
  intent: Intent | null,
): void {
  const { superblock } = recovery
  if (isLost(superblock, region.id, slot)) return
  const listed = addLost(superblock, region.id, slot)
  if (!listed && lane !== SCANNED) {
    keepLane(recovery, region, slot, lane, intent)
    if (isForward(phase)) recovery.held[lane] = intent
  }
  if (!listed && lane === SCANNED) {
    recovery.unlisted += 1
    setOverfull(superblock, region.index, true)
  }
  deriveUnsettled(superblock, recovery.unsettled, region)
}

/** Where recovery reads lane `lane` to, and where its recomputed check code goes. */
function lineAt(lane: number): number {
  return RECOVERY_AT + lane * LINE_BYTES
}

function laneCodeAt(lane: number): number {
  return RECOVERY_AT + (LANES + lane) * LINE_BYTES
}

/**
 * Reads the lanes and settles what they name. Returns whether a lane could not be read, so that
 * everything must be scanned. The lanes themselves are not yet cleared: see `clearAllLanes`.
 */
export function recoverLanes(recovery: Recovery, trusted: boolean): boolean {
  recovery.trusted = trusted
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
  const chain: Chain = { intents, fates: new Uint8Array(LANES) }
  for (const lane of active) {
    const intent = intents[lane]!
    if (intent === null) recovery.report.lanesTorn += 1
    else if (!isOvertaken(intent, intents)) recoverLane(recovery, lane, intent, chain)
  }
  return unreadable
}

/** What became of the record of a lane, for the one that must not outlive it. */
type Fate = number
const STAYS = 0
export const GOES_BACK = 1
/** Its host did not say. */
export const UNTOLD = 2

/** What the lanes say, and what became of their records, so that nothing outlives them. */
interface Chain {
  readonly intents: readonly (Intent | null)[]
  readonly fates: Uint8Array
}

/**
 * The lane of the record that this one must not outlive, or -1. A line of another group may stand
 * there: it is earlier where this one's never touched a slot, or later.
 */
export function laneBefore(
  intents: readonly (Intent | null)[],
  lane: number,
  intent: Intent,
): number {
  const before = lane - intent.link
  const other = intent.link === 0 || before < 0 ? null : intents[before]!
  if (other === null) return -1
  return isPredecessor(other, intent) && sequenceAfter(intent, other) ? before : -1
}

/** What became of a record that was judged by that phase. */
function fateOf(recovery: Recovery, phase: number, outcome: Outcome, intent: Intent): Fate {
  if (isForward(phase) || !isOlder(recovery, outcome, intent)) return STAYS
  return outcome.failure === DMA_FAILED ? UNTOLD : GOES_BACK
}

/** What becomes of the record of a lane with the one before it, of which that is known. */
function sharedFate(recovery: Recovery, region: Region, before: Fate, intent: Intent): Fate {
  if (before !== GOES_BACK || recovery.trusted) return before
  return fateByFirst(recovery, region, intent)
}

/**
 * What becomes of a record of that region which waits undecided, with that one before it, which
 * waits, too, and is judged here without being touched.
 */
export function judgeBefore(
  recovery: Recovery,
  region: Region,
  before: Intent,
  phase: number,
  intent: Intent,
): Fate {
  const other = findRegionById(recovery.regions, before.regionId)!
  const outcome = judgeAlone(recovery, other, before.record, phase, before)
  return sharedFate(recovery, region, fateOf(recovery, phase, outcome, before), intent)
}

/** What the lane says, or null if it is torn or names no record. */
function intentOf(recovery: Recovery, lane: number): Intent | null {
  const { list, words, regions } = recovery
  checkCode(list, lineAt(lane) + LANE_CHECKED_AT, laneCodeAt(lane), LANE_CHECKED_BYTES, KEYS_AT)
  compare(list, laneCodeAt(lane), lineAt(lane) + LANE_CODE_AT, CHECK_CODE_BYTES)
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

function recoverLane(recovery: Recovery, lane: number, intent: Intent, chain: Chain): void {
  const { words, regions, trusted } = recovery
  const region = findRegionById(regions, intent.regionId)!
  const phase = lanePhase(words, lineAt(lane))
  recovery.report.lanesActive += 1
  // Without a phase to trust, the check codes decide. So they do where the repair may lie in a
  // cache: if it is lost, the next start scans, and has to find the same. But what a start showed
  // in one copy stays shown, whatever save has failed since.
  const bypass = region.placement === PLACEMENT_BYPASS
  const says = phase >= 0 && phase !== PHASE_UNSURE && !(bypass && phase === PHASE_A)
  const spoken = phase === PHASE_HELD || (trusted && says)
  const before = laneBefore(chain.intents, lane, intent)
  const fate = before < 0 ? STAYS : sharedFate(recovery, region, chain.fates[before]!, intent)
  const goesBack = fate === GOES_BACK
  const as = goesBack ? PHASE_A : spoken ? phase : PHASE_NONE
  if (fate === UNTOLD) {
    chain.fates[lane] = UNTOLD
    leaveLaneToHost(recovery, lane, region, intent, as)
    recovery.undecided[lane] = intent
    return
  }
  const outcome = settleRecord(recovery, region, intent.record, lane, as, intent)
  chain.fates[lane] = fateOf(recovery, as, outcome, intent)
  // Behind a save that failed readers are shown what the check codes say: a later start, which
  // believes the phase again, may not take that back.
  const isShown = !trusted && !goesBack && chain.fates[lane] === STAYS
  if (isShown && recovery.keptLanes[lane] !== 0) recovery.held[lane] = intent
  if (goesBack && recovery.keptLanes[lane] !== 0) keepChain(recovery, chain, lane)
  recovery.hidden[lane] = hiddenCopies(as, outcome, phase === PHASE_UNSURE)
  // What was repaired past the host's caches may lie in them, by an earlier start also where this
  // one finds nothing to repair: nothing has shown yet that its writes still go past them, so it is
  // judged again when something has, and not known before.
  if (outcome.failure === DMA_FAILED || bypass) {
    leaveLaneToHost(recovery, lane, region, intent, as)
    return
  }
  if (region.placement === PLACEMENT_THROUGH && recovery.keptLanes[lane] === 0) {
    recovery.keptLanes[lane] = 1
    recovery.unflushed[lane] = intent
    recovery.phases[lane] = as
    // That it is durable is known when the host's CPU has written it back (through.ts).
    return
  }
  if (trusted) noteLaneOperation(recovery, outcome, intent)
}

/** The lane stays, and its record waits for a host that shows its memory. */
function leaveLaneToHost(
  recovery: Recovery,
  lane: number,
  region: Region,
  intent: Intent,
  phase: number,
): void {
  recovery.keptLanes[lane] = 1
  leavePending(recovery, lane, region, intent, phase)
  if (region.placement === PLACEMENT_THROUGH) recovery.unflushed[lane] = intent
  // The table may know it since its first copy: it says so again when all of them are there.
  if (recovery.trusted) forgetOperation(recovery.operations, intent)
}

/**
 * Until a repair is durable its host may lose it: how many of the first copies may then be what
 * they were before, though readers were shown another? A write that goes back may be in the first
 * one even where loads find the old record in every copy, as an earlier start may have stored that.
 * Without a phase to go by nobody knows which of two whole ones is durable, nor, where an earlier
 * start was as `unsure`, whether one is that loads find in every copy.
 */
export function hiddenCopies(
  phase: number,
  { kept, validMask, row, failure }: Outcome,
  unsure: boolean,
): number {
  const isSeveral = (validMask & 1) !== 0 && validMask > 1
  const differs = unsure || CASES[row]!.then !== 'none'
  if (phase === PHASE_NONE && (failure !== 0 || (isSeveral && differs))) return COPIES_MAX
  return kept > 0 || (phase === PHASE_A && validMask > 1) ? 1 : 0
}

/** Is what was kept of the record older than the intent, or nothing? */
export function isOlder(
  recovery: Recovery,
  outcome: Pick<Outcome, 'kept'>,
  intent: Intent,
): boolean {
  if (outcome.kept < 0) return true
  return sequenceAfter(intent, recovery.examination.copies[outcome.kept]!.header)
}

/**
 * After a save that failed no phase counts, and either copy may be of any age: only a record whose
 * first copy is that of the lane goes back with the one before it.
 */
function fateByFirst(recovery: Recovery, region: Region, intent: Intent): Fate {
  const { list, words, examination } = recovery
  examineCopies(list, words, examination, region, intent.record, 0, 1)
  if (examination.unanswered) return UNTOLD
  const { valid, header } = examination.copies[0]!
  const isNew = valid && !sequenceAfter(header, intent) && !sequenceAfter(intent, header)
  return isNew ? GOES_BACK : STAYS
}

/**
 * The medium refused to take the record of that lane back: the lanes before it stay, too, to say so
 * at the next start, and no scan brings any of their records forward meanwhile.
 */
function keepChain(recovery: Recovery, chain: Chain, last: number): void {
  const { intents, fates } = chain
  const { regions, superblock, unsettled } = recovery
  let lane = last
  while (lane >= 0) {
    const intent = intents[lane]!
    recovery.keptLanes[lane] = 1
    recovery.takenBack[lane] = intent
    unsettled[lane] = intent
    // Each may be of another region, which takes no writes either.
    deriveUnsettled(superblock, unsettled, findRegionById(regions, intent.regionId)!)
    const before = laneBefore(intents, lane, intent)
    lane = before >= 0 && fates[before] === GOES_BACK ? before : -1
  }
}

/**
 * Says to the operation table that the record of a lane went forward; of one that goes back it
 * knows before (`unify`). The copy that was kept decides, not the phase: a recovery that was cut
 * may have gone back already. A repair that the medium refused leaves fewer copies than some
 * acknowledgements wait for: then it is not known. The lane stays, and the region takes no writes,
 * until a start finds it in all of them.
 */
function noteLaneOperation(recovery: Recovery, outcome: Outcome, intent: Intent): void {
  const { operations, examination } = recovery
  if (isOlder(recovery, outcome, intent)) return
  const { header } = examination.copies[outcome.kept]!
  if (sequenceAfter(header, intent)) return
  if (outcome.failure === 0 || intent.wait === 1) recoverOperation(operations, intent, true)
  else forgetOperation(operations, intent)
}

/**
 * Makes the table durable as it is now known: no lane is cleared before. Returns PASS, or why the
 * part cannot be started.
 */
export function writeOperations(recovery: Recovery): Fault {
  const { operations, list, report } = recovery
  report.operations = operations.recovered
  const result = writeImages(operations, list)
  return result === 0 ? PASS : closedBy(result)
}

/**
 * Was the record settled without a phase to go by, through the host's caches? Where that has told
 * little, what the lane says counts at no later start either: the repair did not go by it.
 */
function isSettlementUnsure({ hidden, unflushed }: Recovery, lane: number): boolean {
  return hidden[lane] === COPIES_MAX && unflushed[lane] !== null
}

/**
 * Clears the lanes, once what they named is settled, fenced, and where lost, listed. Those whose
 * record readers will be shown in its first copy alone say so from now on.
 */
export function clearAllLanes(recovery: Recovery): Fault {
  const { list, words, keptLanes, held } = recovery
  for (let lane = 0; lane < LANES; lane++) {
    const intent = held[lane]!
    if (keptLanes[lane] === 0) copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, lane + 1)
    else if (intent !== null && recovery.pending[lane] === null)
      holdLane(list, words, lane, intent, lane + 1)
    else if (isSettlementUnsure(recovery, lane))
      holdLane(list, words, lane, recovery.unflushed[lane]!, lane + 1, PHASE_UNSURE)
  }
  const end = fenceOwn(list)
  runAll(list)
  // A line that takes nothing is not used again; the sequence tells that its intent is an old one.
  for (let i = 0; i < end; i++) {
    if (ownerOf(list, i) <= 0 || resultOf(list, i) === 0) continue
    const lane = ownerOf(list, i) - 1
    // Where the lane does not say that the first copy is shown, it is not.
    if (keptLanes[lane] !== 0) recovery.takenBack[lane] = held[lane]!
    keptLanes[lane] = 1
  }
  const result = resultOf(list, end)
  return result === 0 ? PASS : closedBy(result)
}

/** Does a lane know more of the record than its check codes do? */
function isHeldByLane(recovery: Recovery, region: Region, slot: number): boolean {
  const { held, takenBack, undecided } = recovery
  return (
    heldIntent(held, region, slot) !== null ||
    heldIntent(takenBack, region, slot) !== null ||
    heldIntent(undecided, region, slot) !== null
  )
}

/**
 * Looks at records [first, last) of the region with their check codes, and repairs. Records that
 * are lost, or that a lane holds, are passed over: check codes know less of them.
 */
export function scanRegion(recovery: Recovery, region: Region, first: number, last: number): void {
  const { found } = recovery
  for (let slot = first; slot < last; slot++) {
    if (isLost(recovery.superblock, region.id, slot)) {
      found.lost += 1
      continue
    }
    if (isHeldByLane(recovery, region, slot)) {
      found.unsettled += 1
      continue
    }
    const { kept, failure } = settleRecord(recovery, region, slot, SCANNED, PHASE_NONE, null)
    recovery.report.scanned += 1
    if (failure !== 0 && failure !== DMA_FAILED) found.unsettled += 1
    else if (kept < 0 && failure === 0) found.lost += 1
    if (!recovery.lanesUnread || kept < 0 || failure !== 0) continue
    // What a client wrote by itself names whom it likes.
    if (isPair(region)) continue
    // Nothing through the host's caches is known to be durable by what a read sees of it.
    if (region.placement === PLACEMENT_THROUGH) continue
    recoverOperation(recovery.operations, recovery.examination.copies[kept]!.header, false)
  }
}
