// hot path
/**
 * The crash-atomic write of a group of records (source 1; D-2, D-4, D-7).
 *
 * The argument. Let `old` be what a record holds durably in every copy, `new` what is written.
 *
 *   stage 0  every record's intent into its lane, phase A; lanes of the last group cleared   ▸F1▸
 *   stage 1  `new` into every copy A                                                         ▸F2▸
 *   stage 2  phase B into every lane, and the operations into the first lines of their clients in
 *            the table (operations.ts)                        ▸F3▸ level 1 is acknowledged here
 *   stage 3  `new` into every copy B, and the second lines    ▸F4▸ level 2 is acknowledged here
 *   stage 4… further copies, each behind its own fence        ▸F5▸ …
 *
 * A cut before F1: no slot was touched; whatever the lane says, all copies are `old`.
 * Between F1 and F2: only A is dirty, and the lane says so: B is whole and `old`; B goes over A.
 * Between F2 and F3: A is `new`, B `old`, both whole; the lane says A or B; either is right, as
 *   nothing was acknowledged.
 * Between F3 and F4: the lane says B: A is whole and `new`, it goes over B, torn or not.
 * Behind F4: A and B are `new`; the lane may say B permanently: A over B changes nothing.
 *
 * In order (X-5, P4-13; D-10). A record of a batch in order is `chained`: it must not outlive the
 * record of the operation before it. Its lane says how far before it that one's lane is, if both
 * are in one group; a group ends before the next begins, so other groups need no word.
 *
 * A cut before F2: every lane says A, and all go back. Behind F3: every lane says B, and all go
 *   forward. Between them some say A and some B: recovery takes a chained one back with the one
 *   before it, though it says B. Nothing is lost by that: its copy B is untouched, as F3 was not
 *   passed, and it was not acknowledged, as one lane at least still says A.
 * The medium refuses a record that is not acknowledged: those chained to it are left out from there
 *   on, too, and settled behind the group, as it is (repair.ts). So none of them is acknowledged
 *   while the one before it may still go back.
 *
 * Invariant: at most one copy of a record has unfenced stores; the acknowledgement of a
 * level stands in the list behind the fence that made its copies durable; a group has no record
 * twice, so the next write of a record begins when this one is durable in every copy; the clearing
 * of a lane is fenced (F1) before any slot of a later write is touched.
 *
 * The host alone fails. The push behind a fence (command-list.ts) is not answered: the records that
 *   lie with the host are left, each with its lane, and in doubt if one of their slots was touched;
 *   all others go on, as their own fence was done. The host is lost (proof.ts). Nothing of such
 *   a record is decided, nor repaired, before a host has shown its memory again: then it is settled
 *   by its lane, as by a start (settle-host.ts). A host that was lost before the group is committed
 *   is as one that does not answer: the one that is there now has shown nothing, and a push that it
 *   answers says nothing.
 *
 * What waits so keeps its lane, and a host may be away for long. So its records never have the
 *   first LOCAL_LANES lanes that are usable: neither as they wait, nor in what a cut leaves of two
 *   groups, where the lanes of the later one are set and those of the earlier one not clear yet.
 *
 * Plain bytes of a batch (S1-M9) are one copy without a lane: stored in stage 1, known by their
 *   operation from stage 2 on, and acknowledged behind F3, as they are durable behind F2. A cut
 *   leaves them old, new, or torn, which is what bytes are. What has to stand behind them, or
 *   before them, is in another group (engine/admit.ts).
 *
 * A message of a batch (S1-M9) has neither lane nor copy: the host has it when it joins the group
 *   (engine/deliver.ts), and stage 2 notes its operation. So it is known behind F3, and a cut
 *   before that leaves it delivered and not known. It never fails alone, and what closes the part
 *   leaves it in doubt at any stage: nobody may call it refused.
 *
 * A record with a guard (S1-M1) is compared with it first of all, by the list itself: one that does
 *   not agree fails before its lane is stored, is refused like one whose lane the medium refuses,
 *   and the others go on. So no further call of the board, and no pass over what has no guard.
 *
 * Each fence is needed: test/firmware/commit/fences.test.ts leaves out one after the other and
 * finds the loss.
 */

import { assert } from '../board/assert.ts'
import {
  type CommandList,
  checkCode,
  copy,
  copyClean,
  fence,
  isPush,
  ownerOf,
  requireGuard,
  resultOf,
  run,
  runAll,
} from '../board/command-list.ts'
import {
  CONDITION,
  type Fault,
  GUARD,
  IN_DOUBT,
  MEDIA,
  PASS,
  PLACEMENT_UNKNOWN,
} from '../board/fault.ts'
import * as hal from '../board/hal.ts'
import { BURST_FRAMES, COPIES_MAX, LANES, LINE_BYTES, LOCAL_LANES } from '../board/limits.ts'
import { KEYS_AT, LANE_LINES_AT, PHASE_WORDS_AT, ZEROS_AT } from '../board/memory-map.ts'
import {
  type Intent,
  isPredecessor,
  LANE_CHECKED_AT,
  LANE_CHECKED_BYTES,
  LANE_CODE_AT,
  PHASE_A,
  PHASE_B,
  PHASE_HELD,
  PHASE_WORD_BYTES,
  writeIntent,
  writePhaseWord,
} from '../medium/lane.ts'
import {
  KIND_MESSAGES,
  KIND_RECORDS,
  PLACEMENT_LOCAL,
  type Region,
  slotAddress,
} from '../medium/region.ts'
import {
  CHECKED_AT,
  imageBytes,
  SLOT_HEADER_BYTES,
  type SlotContent,
  writeSlotHeader,
} from '../medium/slot.ts'
import { LANES_AT } from '../medium/superblock.ts'
import { closedBy } from './closed.ts'
import {
  addToLine,
  beginLines,
  type ClientId,
  clientOfOwner,
  createOperations,
  endLines,
  isNamed,
  moveClient,
  NO_CLIENT,
  type Operations,
  recordOperation,
  storeLines,
  storeSecondLines,
} from './operations.ts'
import type { UnsettledRecord } from './unsettled.ts'

const STAGE_LANES = 0
export const STAGE_FIRST_COPY = 1
export const STAGE_PHASE = 2
const STAGES = 2 + COPIES_MAX

/** Lines of operations are stored twice, behind F3 and F4, whatever the group holds. */
const LINE_COPIES = 2

/** Of plain bytes and messages, which no recovery takes back or brings forward. */
export const NO_LANE = -1

/** One record of a group. Its image is complete in packet memory before it is added (D-7). */
export interface GroupItem extends SlotContent, Intent {
  /** Address of the image in packet memory: the header line, then the data. */
  imageAt: number
  region: Region
  /** Whose record it is, and the PSN that ended it: for the acknowledgement, not for the commit. */
  owner: number
  psn: number
  segment: number
  wantsAck: boolean
  /** Staging buffer that holds the image, or -1. */
  staging: number
  /** Where plain bytes go, in the address space of the board; else 0. A record has a slot. */
  bytesAt: number
  /** A plain WRITE: its transport acknowledgement waits for the commit, too. */
  plain: boolean
  /** It must not outlive the record of the operation before it. */
  chained: boolean
  /** Its index in the batch of its queue pair, or -1. */
  batchIndex: number
  /** Its lane, or NO_LANE. */
  lane: number
  /** Place of its client in the operation table, or NO_CLIENT. */
  client: number
  /** Copies that are durable. */
  durable: number
  /** PASS, or why the record was not taken. */
  fault: Fault
  /** The stage in which the medium refused, or -1. */
  failedStage: number
  /** Was it acknowledged before the medium refused a further copy? */
  acknowledged: boolean
}

/** Per lane what it holds against the copies of a record, and what waits for the host. */
export interface Pending {
  readonly held: (Intent | null)[]
  readonly takenBack: (Intent | null)[]
  readonly pending: (Intent | null)[]
  readonly undecided: (Intent | null)[]
  readonly phases: Uint8Array
}

export interface Commit extends Pending {
  readonly list: CommandList
  readonly words: Int32Array
  readonly items: GroupItem[]
  count: number
  /** Counter and incarnation of the next record; the incarnation is above bit 44. */
  sequenceLow: number
  sequenceHigh: number
  /** Lanes that hold a line which must be cleared: 1. */
  readonly dirtyLanes: Uint8Array
  /** Lanes that must be left as they are, because a repair failed: 1. */
  readonly retiredLanes: Uint8Array
  /** Per retired lane the intent that it holds against older copies of its record, or null. */
  readonly held: (Intent | null)[]
  /** Likewise the intent of a record that must not be brought forward, nor shown. */
  readonly takenBack: (Intent | null)[]
  /** Per lane that stays the record that it leaves unsettled, or null: these and others. */
  readonly unsettled: (UnsettledRecord | null)[]
  /** The host did not answer for a record of the group, or was lost since it joined. */
  hostLost: boolean
  /**
   * Per lane what waits for a host that shows its memory, or null; and the phase by which it is
   * judged then.
   */
  readonly pending: (Intent | null)[]
  readonly phases: Uint8Array
  /**
   * Those of them that go back with the record before them, if that does; and records whose repair
   * was stored, neither fenced nor held. Nobody knows yet what they are, and no copy is shown.
   */
  readonly undecided: (Intent | null)[]
  /** Lanes of groups, the first BURST_FRAMES, that are not retired: no group may have more. */
  usableLanes: number
  /** Those of them that records in the host's memory may have: from that lane on, and how many. */
  hostFrom: number
  hostLanes: number
  /** Records of the group that lie there. */
  hostCount: number
  /** Why nothing is taken any more (D-13), or PASS. */
  closed: Fault
  /** The medium refused a record of the group. */
  refused: boolean
  /** Items of the group that closed the part: not all of their first copies are sure to stay. */
  doubtful: number
  /** Which operations are durable, permanently. */
  readonly operations: Operations
  /** Appends the acknowledgements that are due when so many copies are durable. */
  acknowledge: (copies: number) => void
  /** Where each stage ends in the list. */
  readonly ends: Int32Array
}

/** Which slots the group holds, so that no record is in it twice. */
const PLACES = 256

export interface GroupIndex {
  readonly stamps: Int32Array
  readonly members: Int32Array
  stamp: number
}

export function createGroupIndex(): GroupIndex {
  return { stamps: new Int32Array(PLACES), members: new Int32Array(PLACES), stamp: 1 }
}

/** `anyRegion` fills the items until they are used. */
export function createCommit(list: CommandList, anyRegion: Region): Commit {
  const items: GroupItem[] = []
  for (let i = 0; i < BURST_FRAMES; i++) items.push(blankItem(anyRegion))
  const words = new Int32Array(list.machine.memory)
  const dirtyLanes = new Uint8Array(LANES)
  // QuickJS makes a method of its own when it is first asked for: now, and not in a commit.
  dirtyLanes.indexOf(1)
  return {
    list,
    words,
    items,
    count: 0,
    sequenceLow: 0,
    sequenceHigh: 0,
    dirtyLanes,
    retiredLanes: new Uint8Array(LANES),
    held: new Array<Intent | null>(LANES).fill(null),
    takenBack: new Array<Intent | null>(LANES).fill(null),
    unsettled: new Array<UnsettledRecord | null>(LANES).fill(null),
    hostLost: false,
    pending: new Array<Intent | null>(LANES).fill(null),
    undecided: new Array<Intent | null>(LANES).fill(null),
    phases: new Uint8Array(LANES),
    usableLanes: BURST_FRAMES,
    hostFrom: LOCAL_LANES,
    hostLanes: BURST_FRAMES - LOCAL_LANES,
    hostCount: 0,
    closed: PASS,
    refused: false,
    doubtful: 0,
    operations: createOperations(words),
    acknowledge: noOwner,
    ends: new Int32Array(STAGES),
  }
}

function noOwner(): void {}

export function blankItem(region: Region): GroupItem {
  return {
    imageAt: 0,
    region,
    regionId: 0,
    record: 0,
    slot: 0,
    length: 0,
    sequenceLow: 0,
    sequenceHigh: 0,
    clientLow: 0,
    clientHigh: 0,
    operationLow: 0,
    operationHigh: 0,
    guard: 0,
    wait: 0,
    link: 0,
    owner: 0,
    psn: 0,
    segment: 0,
    wantsAck: false,
    staging: -1,
    bytesAt: 0,
    plain: false,
    batchIndex: -1,
    chained: false,
    lane: 0,
    client: NO_CLIENT,
    durable: 0,
    fault: PASS,
    failedStage: -1,
    acknowledged: false,
  }
}

/** Is that record in the group already? Then the group must be committed first (I4). */
export function groupHolds(
  index: GroupIndex,
  commit: Commit,
  region: Region,
  slot: number,
): boolean {
  const place = (slot ^ (region.index << 5)) & (PLACES - 1)
  if (index.stamps[place] !== index.stamp) return false
  const one = commit.items[index.members[place]!]!
  if (one.slot === slot && one.region === region) return true
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.slot === slot && item.region === region) return true
  }
  return false
}

/** Marks the record last added as held. */
export function groupAdd(index: GroupIndex, commit: Commit): void {
  const member = commit.count - 1
  const item = commit.items[member]!
  const place = (item.slot ^ (item.region.index << 5)) & (PLACES - 1)
  if (item.region.placement !== PLACEMENT_LOCAL) commit.hostCount += 1
  index.stamps[place] = index.stamp
  index.members[place] = member
}

/** Gives the item the next sequence, and writes its slot header and its intent. */
export function sealItem(commit: Commit, item: GroupItem): void {
  commit.sequenceLow = (commit.sequenceLow + 1) >>> 0
  if (commit.sequenceLow === 0) commit.sequenceHigh += 1
  item.sequenceLow = commit.sequenceLow
  item.sequenceHigh = commit.sequenceHigh
  item.regionId = item.region.id
  item.record = item.slot
  item.durable = 0
  item.fault = PASS
  item.failedStage = -1
  item.acknowledged = false
  writeSlotHeader(commit.words, item.imageAt, item.region, item)
}

/** Commits the group. Afterwards every item says what became of it. */
export function commitGroup(commit: Commit): void {
  assignLanes(commit)
  commit.refused = false
  if (commit.hostLost) leaveHost(commit, STAGE_LANES)
  let stage = STAGE_LANES
  for (;;) {
    compose(commit, stage)
    const failed = run(commit.list)
    if (failed < 0) break
    stage = stageOf(commit, failed)
    if (survive(commit, stage, failed)) continue
    abandon(commit, stage)
    return
  }
  endLines(commit.operations)
  commit.dirtyLanes.fill(0)
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.lane !== NO_LANE) commit.dirtyLanes[item.lane] = 1
    if (item.fault === PASS) item.durable = item.region.copies
  }
}

/** Leaves the lane as it is until the next recovery. */
export function retireLane(commit: Commit, lane: number): void {
  if (lane === NO_LANE) return
  commit.retiredLanes[lane] = 1
  commit.dirtyLanes[lane] = 0
  deriveLanes(commit)
}

/** The lane of a group is used again: what it speaks of is settled. */
export function freeLane(commit: Commit, lane: number): void {
  commit.retiredLanes[lane] = 0
  commit.dirtyLanes[lane] = 1
  deriveLanes(commit)
}

/** Which lanes groups may use, and which of them records in the host's memory. */
function deriveLanes(commit: Commit): void {
  let usable = 0
  commit.hostLanes = 0
  for (let lane = 0; lane < BURST_FRAMES; lane++) {
    if (commit.retiredLanes[lane] !== 0) continue
    if (usable === LOCAL_LANES) commit.hostFrom = lane
    if (usable >= LOCAL_LANES) commit.hostLanes += 1
    usable += 1
  }
  commit.usableLanes = usable
}

/** Lanes that a group may have for records of the region. */
export function lanesOf(commit: Commit, region: Region): number {
  return region.placement === PLACEMENT_LOCAL ? commit.usableLanes : commit.hostLanes
}

/** Lanes that are left of them. */
export function lanesLeft(commit: Commit, region: Region): number {
  const left = commit.usableLanes - commit.count
  if (region.placement === PLACEMENT_LOCAL) return left
  return Math.min(left, commit.hostLanes - commit.hostCount)
}

/**
 * Has the lane say that readers are shown the first copy of its record, the only one that the
 * medium took; or another phase. The word is one chunk, and so is never torn.
 */
export function holdLane(
  list: CommandList,
  words: Int32Array,
  lane: number,
  intent: Intent,
  owner: number,
  phase: number = PHASE_HELD,
): void {
  const word = PHASE_WORDS_AT + lane * LINE_BYTES
  writePhaseWord(words, word, phase, intent.sequenceLow, intent.sequenceHigh)
  copyClean(list, word, laneAddress(lane), PHASE_WORD_BYTES, owner)
}

/**
 * The record of the lane waits for a host that shows its memory (placement/settle-host.ts). Until
 * then no copy that is older than an acknowledged one may stand for it, and none that may go back.
 */
export function leavePending(
  lanes: Pending,
  lane: number,
  region: Region,
  intent: Intent,
  phase: number,
): void {
  lanes.pending[lane] = intent
  lanes.phases[lane] = phase
  if (phase === PHASE_B || phase === PHASE_HELD) lanes.held[lane] = intent
  if (phase === PHASE_A) lanes.takenBack[lane] = intent
  derivePending(lanes, region)
}

/** The record before an undecided one was asked: it goes back, too, or is judged alone. */
export function decide(lanes: Pending, lane: number, goesBack: boolean): void {
  const intent = lanes.undecided[lane]!
  lanes.undecided[lane] = null
  if (!goesBack) return
  lanes.phases[lane] = PHASE_A
  lanes.held[lane] = null
  lanes.takenBack[lane] = intent
}

/** It waits no more, and is judged. */
export function endPending(lanes: Pending, lane: number, region: Region): void {
  if (lanes.pending[lane] === null) return
  lanes.pending[lane] = null
  lanes.held[lane] = null
  lanes.takenBack[lane] = null
  derivePending(lanes, region)
}

/** How many lanes of the region wait for the host. */
function derivePending(lanes: Pending, region: Region): void {
  region.pending = 0
  for (let lane = 0; lane < LANES; lane++) {
    if (lanes.pending[lane]?.regionId === region.id) region.pending += 1
  }
}

/** Before the first group: the lanes that recovery kept are retired, the others are clear. */
export function resetLanes(commit: Commit, kept: Uint8Array): void {
  commit.retiredLanes.fill(0)
  commit.dirtyLanes.fill(0)
  for (let lane = 0; lane < LANES; lane++) if (kept[lane] !== 0) commit.retiredLanes[lane] = 1
  deriveLanes(commit)
}

function assignLanes(commit: Commit): void {
  const next = assignFrom(commit, 0, false)
  if (commit.hostCount > 0) assignFrom(commit, Math.max(next, commit.hostFrom), true)
}

/**
 * Gives lanes from that one on to the records of the group that lie with the host, or to the
 * others; returns the one behind them. Those of a batch, which are in order, are all of one kind.
 */
function assignFrom(commit: Commit, first: number, ofHost: boolean): number {
  let lane = first
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if ((item.region.placement !== PLACEMENT_LOCAL) !== ofHost) continue
    if (item.region.kind !== KIND_RECORDS) {
      item.lane = NO_LANE
      item.link = 0
      continue
    }
    while (commit.retiredLanes[lane] !== 0) lane += 1
    item.lane = lane
    item.link = item.chained ? laneLinkOf(commit, i) : 0
    lane += 1
  }
  return lane
}

/** From the lane of item `i` back to that of the record before it; 0 if the group has it not. */
function laneLinkOf(commit: Commit, i: number): number {
  const item = commit.items[i]!
  for (let j = i - 1; j >= 0; j--) {
    const other = commit.items[j]!
    if (isPredecessor(other, item)) return item.lane - other.lane
  }
  return 0
}

/** The item that item `i` must not outlive, or null. */
function predecessorOf(commit: Commit, i: number): GroupItem | null {
  const item = commit.items[i]!
  if (item.link === 0) return null
  let j = i - 1
  while (commit.items[j]!.lane !== item.lane - item.link) j -= 1
  return commit.items[j]!
}

export function laneAddress(lane: number): number {
  return hal.NVDIMM_SPACE + LANES_AT + lane * LINE_BYTES
}

/** Composes the stages from `from` on; the earlier ones, already done, have no commands. */
function compose(commit: Commit, from: number): void {
  for (let stage = 0; stage < from; stage++) commit.ends[stage] = 0
  if (from <= STAGE_LANES) composeLanes(commit)
  if (from <= STAGE_FIRST_COPY) composeCopy(commit, 0)
  if (from <= STAGE_PHASE) composePhase(commit)
  const copies = copiesMost(commit)
  for (let c = 1; c < copies; c++) if (from <= STAGE_PHASE + c) composeCopy(commit, c)
}

function copiesMost(commit: Commit): number {
  let most = LINE_COPIES
  for (let i = 0; i < commit.count; i++) {
    const copies = commit.items[i]!.region.copies
    if (copies > most) most = copies
  }
  return most
}

function composeLanes(commit: Commit): void {
  const list = commit.list
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.fault === PASS && item.lane !== NO_LANE) composeLane(commit, item, i + 1)
  }
  clearDirtyLanes(commit)
  fence(list)
  commit.ends[STAGE_LANES] = list.count
}

/**
 * Appends what completes the image of a record, padded to whole lines with zeros and with its check
 * code, and what puts its intent into its lane, phase A. Where it has a guard, all that depends on
 * it: the list ends before the lane, and before any code of the card is over bytes that are not the
 * client's.
 */
export function composeLane(commit: Commit, item: GroupItem, owner: number): void {
  const { list } = commit
  const end = SLOT_HEADER_BYTES + item.length
  const pad = imageBytes(item.length) - end
  if (item.guard !== 0) {
    requireGuard(list, item.imageAt + SLOT_HEADER_BYTES, item.length, item.guard, owner)
  }
  if (pad > 0) copy(list, ZEROS_AT, item.imageAt + end, pad)
  checkCode(list, item.imageAt + CHECKED_AT, item.imageAt, end - CHECKED_AT, item.region.keyAt)
  const line = LANE_LINES_AT + item.lane * LINE_BYTES
  writeIntent(commit.words, line, item)
  checkCode(list, line + LANE_CHECKED_AT, line + LANE_CODE_AT, LANE_CHECKED_BYTES, KEYS_AT)
  copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner)
  commit.dirtyLanes[item.lane] = 0
}

/**
 * Appends the clearing of the lanes of what was written last; the owner of a store is -1 less the
 * lane.
 */
export function clearDirtyLanes({ list, dirtyLanes }: Commit): void {
  // Nearly always there is none: a search by the engine costs a fiftieth of a loop.
  for (let lane = dirtyLanes.indexOf(1); lane >= 0; lane = dirtyLanes.indexOf(1, lane + 1)) {
    copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, -1 - lane)
  }
}

function composeCopy(commit: Commit, c: number): void {
  const list = commit.list
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.fault !== PASS || c >= item.region.copies) continue
    if (item.lane === NO_LANE) composeBytes(list, item, i + 1)
    else {
      const to = slotAddress(item.region, c, item.slot)
      copyClean(list, item.imageAt, to, imageBytes(item.length), i + 1)
    }
  }
  if (c === 1) storeSecondLines(commit.operations, list)
  fence(list)
  if (c > 0) commit.acknowledge(c + 1)
  commit.ends[c === 0 ? STAGE_FIRST_COPY : STAGE_PHASE + c] = list.count
}

/** Appends the store of plain bytes, if there are any: no slot header, and not padded. */
function composeBytes(
  list: CommandList,
  { imageAt, bytesAt, length }: GroupItem,
  tag: number,
): void {
  if (bytesAt === 0 || length === 0) return
  copyClean(list, imageAt + SLOT_HEADER_BYTES, bytesAt, length, tag)
}

/** Beside the phase words, so behind F2 and before F3: see operations.ts. */
function composeOperations(commit: Commit): void {
  const { operations } = commit
  beginLines(operations)
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.fault !== PASS) continue
    addToLine(operations, item.client, item.operationHigh, item.operationLow)
  }
  storeLines(operations, commit.list)
}

function composePhase(commit: Commit): void {
  const list = commit.list
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.fault !== PASS || item.lane === NO_LANE) continue
    holdLane(list, commit.words, item.lane, item, i + 1, PHASE_B)
  }
  composeOperations(commit)
  fence(list)
  commit.acknowledge(1)
  commit.ends[STAGE_PHASE] = list.count
}

function stageOf(commit: Commit, index: number): number {
  let stage = 0
  while (index >= commit.ends[stage]!) stage += 1
  return stage
}

/**
 * One command failed. True if the group goes on without the record that it belonged to, from the
 * same stage: its stores are repeated with the same bytes.
 */
function survive(commit: Commit, stage: number, index: number): boolean {
  const result = resultOf(commit.list, index)
  const tag = ownerOf(commit.list, index)
  assert(result !== hal.BAD_COMMAND, 'the commit names only memory that exists')
  if (result === hal.MEDIA_ERROR && clientOfOwner(tag) !== NO_CLIENT) {
    moveItems(commit, clientOfOwner(tag))
    return true
  }
  if (result === hal.MEDIA_ERROR && tag < 0) {
    retireLane(commit, -1 - tag)
    return true
  }
  if (result === hal.MEDIA_ERROR && tag > 0) {
    leaveOut(commit, tag, stage, MEDIA)
    return true
  }
  if (result === hal.GUARD_FAILED) {
    leaveOut(commit, tag, stage, GUARD)
    return true
  }
  if (isPush(commit.list, index)) {
    leaveHost(commit, stage)
    return true
  }
  commit.closed = closedBy(result)
  return false
}

/** The group goes on without the item that has that tag, and without those chained to it. */
function leaveOut(commit: Commit, tag: number, stage: number, fault: Fault): void {
  const item = commit.items[tag - 1]!
  item.fault = fault
  item.failedStage = stage
  item.durable = stage > STAGE_PHASE ? stage - STAGE_PHASE : 0
  item.acknowledged = item.wait <= item.durable
  commit.refused = true
  breakChain(commit, tag, stage)
}

/** The host does not answer, or has shown nothing: what lies there is left; the others go on. */
function leaveHost(commit: Commit, stage: number): void {
  const durable = stage > STAGE_PHASE ? stage - STAGE_PHASE : 0
  commit.hostLost = true
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.fault !== PASS || item.region.placement === PLACEMENT_LOCAL) continue
    item.fault = stage === STAGE_LANES ? PLACEMENT_UNKNOWN : IN_DOUBT
    item.failedStage = stage
    item.durable = durable
    item.acknowledged = item.wait <= durable
    commit.refused = true
  }
}

/** What is chained to a record that was refused, from item `first` on, waits for the repair. */
function breakChain(commit: Commit, first: number, stage: number): void {
  const durable = stage > STAGE_PHASE ? stage - STAGE_PHASE : 0
  for (let i = first; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.fault !== PASS || item.wait <= durable || !isNegated(commit, i)) continue
    item.fault = CONDITION
    item.failedStage = stage
    item.durable = durable
  }
}

/** Is the record refused that item `i` must not outlive? */
export function isNegated(commit: Commit, i: number): boolean {
  const before = predecessorOf(commit, i)
  return before !== null && before.fault !== PASS && !before.acknowledged
}

/** The medium refused the line of a client: it gets another place, and its records with it. */
function moveItems(commit: Commit, client: number): void {
  const place = moveClient(commit.operations, client)
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.client === client) item.client = place
  }
}

/**
 * The part takes nothing more. What was acknowledged stands behind its fence. A record that touched
 * no slot is refused; of one that did, nobody knows before the next start: it is in doubt. So is a
 * message, which the host has.
 * A first copy that recovery may still take back is not shown to readers: see `firstCopy`.
 */
function abandon(commit: Commit, stage: number): void {
  const { operations } = commit
  const durable = stage > STAGE_PHASE ? stage - STAGE_PHASE : 0
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.fault === PASS) {
      item.durable = durable
      const untouched = stage === STAGE_LANES && item.region.kind !== KIND_MESSAGES
      if (durable < item.wait) item.fault = untouched ? commit.closed : IN_DOUBT
    } else doubtRecord(item)
    if (item.fault !== PASS && !item.acknowledged) continue
    recordOperation(operations, item.client, item.operationHigh, item.operationLow)
  }
  // Nothing is added any more, so the items stay what they are.
  commit.doubtful = commit.count
  for (let i = 0; i < commit.count; i++) retireLane(commit, commit.items[i]!.lane)
}

/**
 * The lane of a record that was refused stays, and a slot of it was touched: the next start settles
 * it, and may make it durable, which is not told to the requester.
 */
export function doubtRecord(item: GroupItem): void {
  if (item.failedStage > STAGE_LANES && !item.acknowledged) item.fault = IN_DOUBT
}

/** The first copy of the record that no recovery takes back; of one undecided there is none. */
export function firstCopy(commit: Commit, region: Region, slot: number): number {
  if (heldIntent(commit.undecided, region, slot) !== null) return region.copies
  if (heldIntent(commit.takenBack, region, slot) !== null) return 1
  for (let i = 0; i < commit.doubtful; i++) {
    const item = commit.items[i]!
    if (item.slot === slot && item.region === region && item.durable === 0) return 1
  }
  return 0
}

/** What a retired lane says of a record: no copy with an earlier sequence may stand for it. */
export function heldIntent(
  lanes: readonly (Intent | null)[],
  region: Region,
  slot: number,
): Intent | null {
  // Each of them unsettles its region (unsettled.ts), or waits for the host.
  if (region.unsettled === 0 && region.pending === 0) return null
  for (let lane = 0; lane < LANES; lane++) {
    const held = lanes[lane]!
    if (held !== null && held.record === slot && held.regionId === region.id) return held
  }
  return null
}

/**
 * Does a lane that stays speak of that operation, of which the table does not know that it is
 * durable? Then only the next start, or a host that shows its memory, can say what became of it.
 */
export function isLeftOpen(commit: Commit, whose: ClientId, high: number, low: number): boolean {
  for (let lane = 0; lane < LANES; lane++) {
    const left = commit.pending[lane] ?? commit.unsettled[lane]!
    if (left !== null && isNamed(left, whose, high, low)) return true
  }
  for (let i = 0; i < commit.doubtful; i++) {
    const item = commit.items[i]!
    if (item.fault === IN_DOUBT && isNamed(item, whose, high, low)) return true
  }
  return false
}

/** Clears the lanes of the last group, lazily: no fence is needed, as nothing depends on it. */
export function clearLanes(commit: Commit): void {
  const list = commit.list
  const dirty = commit.dirtyLanes
  for (let lane = dirty.indexOf(1); lane >= 0; lane = dirty.indexOf(1, lane + 1)) {
    copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, 0)
    dirty[lane] = 0
  }
  runAll(list)
}
