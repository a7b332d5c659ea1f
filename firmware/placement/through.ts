/**
 * Placement through: records in the host's memory, through its caches, each made durable by the
 * host's CPU (source 2, flow 2; S1001 to S1019). It is the commit of commit.ts, one record at a
 * time, with the CPU's write-back in the place of the fences behind copies:
 *
 *   WAITING   the image is kept; its receive-ACK has left (P2-21)
 *   FIRST     intent, phase A ▸fence▸ `new` into copy A, read back, and the agent is asked to write
 *             it back
 *   FURTHER   phase B ▸fence▸ level 1 is acknowledged; `new` into copy B, and so on; behind each
 *             bell the next level is acknowledged (P2-24)
 *   REPAIR    what recovery made of a record may be in the host's cache: the agent is asked, copy
 *             by copy, and only then its operation is known, and the lane cleared
 *   FORM      likewise for a whole region that was formatted or scanned
 *   BYTES     bytes that a requester has stored by itself (write-back.ts)
 *
 * The bell of a request is the agent's SEND that says that it is finished (flush-agent.ts).
 *
 * Invariants:
 * - A PERSIST_ACK leaves behind the agent's bell for the copies that it speaks of, and behind the
 *   fence of the phase that speaks for them. Without an agent there is none: what has touched a
 *   slot is told to be in doubt after a bounded time, what has not is refused (G2-5).
 * - Nobody waits for it: the next request is taken meanwhile, and answers come in the order in
 *   which records become durable (P2-27).
 * - A record of a batch is handed on by it (respond/handed.ts), and told of in its one status.
 *   Which sequence its slot holds is judged as it begins, when no other job is on that record.
 * - One record has one job at a time; each job has its lane, and keeps it until its last bell.
 * - Card and host are two machines. What a job stored is volatile until the bell for it, and dies
 *   with the host, or with the agent, of whom nobody can tell what he took with him. So each agent
 *   has a life of its own, which ends with the agent, with the epoch of his host and with its link
 *   (flush-agent.ts). A job notes in which one it has stored, and asked; another one is not asked
 *   before it is stored again, from what does not depend on the host, and was read back
 *   (through-store.ts). So no bell speaks for what was stored in front of an earlier agent, and
 *   what is behind a bell was in the host's memory when the agent began to write it back.
 * - An operation is known as durable behind the bells for as many copies as it was asked for, and
 *   at the least two; of a repair, behind all of its bells.
 * - A first copy whose bell has not rung is shown to no reader; nor one that a repair overwrites,
 *   before the last bell: the host may lose what it was overwritten with. Behind a save that failed
 *   no phase says which copy that is: where two are whole, and differ, none is shown before.
 */

import { isHanding, noteHandedEnd, noteKnownMember } from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import { assert } from '../board/assert.ts'
import { copy, copyClean, fenceOwn, ownerOf, resultOf, run, runAll } from '../board/command-list.ts'
import { type BoardState, count } from '../board/context.ts'
import {
  FAULTS,
  type Fault,
  GUARD,
  IN_DOUBT,
  MEDIA,
  NO_AGENT,
  NOT_ARMED,
  NOT_DURABLE,
  NOT_READY,
  PASS,
  READ_ONLY,
  SLOT,
  STAGING,
} from '../board/fault.ts'
import { GUARD_FAILED, MEDIA_ERROR } from '../board/hal.ts'
import {
  BURST_FRAMES,
  FLUSH_BYTES_MAX,
  FLUSH_TIMEOUT_US,
  LANES,
  LINE_BYTES,
  QUEUE_PAIRS,
  REGIONS,
  THROUGH_JOBS,
} from '../board/limits.ts'
import { ZEROS_AT } from '../board/memory-map.ts'
import { isSafe } from '../burst/burst.ts'
import type {
  BurstState,
  GroupContext,
  ReceiptState,
  RecordContext,
  ThroughContext,
  ThroughState,
} from '../burst/context.ts'
import { noteDurable } from '../burst/figures.ts'
import {
  BYTES,
  DUE,
  ENDED,
  FIRST,
  FLUSHED,
  FORM,
  FORMING,
  FREE,
  FURTHER,
  isBeingMade,
  isOnRecord,
  type Job,
  noteKnown,
  REPAIR,
  STUCK,
  type Through,
  WAITING,
} from '../burst/through-job.ts'
import { closedBy } from '../commit/closed.ts'
import {
  clearDirtyLanes,
  composeLane,
  type GroupItem,
  holdLane,
  laneAddress,
  retireLane,
  sealItem,
} from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import {
  addToLine,
  beginLines,
  clientOfOwner,
  endLines,
  isDurable,
  moveClient,
  NO_CLIENT,
  recoverOperation,
  storeLines,
  storeSecondLines,
  takeClient,
  writeImages,
} from '../commit/operations.ts'
import { deriveUnsettled, letGo } from '../commit/unsettled.ts'
import { fillItem } from '../engine/admit.ts'
import { sequenceFault } from '../engine/batch-expect.ts'
import { clientOf, collectedClientOf, isOpenOperation } from '../engine/operation.ts'
import { answerRecord, copiesIn } from '../engine/receipt.ts'
import { healthFault } from '../engine/storage.ts'
import type { MemoryState } from '../medium/context.ts'
import { type Intent, PHASE_B } from '../medium/lane.ts'
import { PLACEMENT_THROUGH, type Region, slotAddress } from '../medium/region.ts'
import { imageBytes, SLOT_HEADER_BYTES } from '../medium/slot.ts'
import {
  addLost,
  isLost,
  isRegionUnsure,
  removeLost,
  setFormed,
  writeSuperblock,
} from '../medium/superblock.ts'
import type { FrameContext, TransportState } from '../transport/context.ts'
import type { Ask } from '../transport/message.ts'
import { ANY_JOB, type QueuePair, remember, STATE_OPEN } from '../transport/queue-pair.ts'
import {
  askFlush,
  endAgent,
  hasReceive,
  isAgentWell,
  isFinished,
  releaseSend,
  tellAgentHost,
} from './flush-agent.ts'
import { LATER, REFUSED, STORED, storeJob } from './through-store.ts'

/** How soon the firmware looks after its jobs though no doorbell woke it, µs. */
const LOOK_US = 200

/** Owner of the commands that store into a job's own lane. */
const OWN_LANE = 1

const NO_OPERATION: Pick<Intent, 'operationHigh' | 'operationLow'> = {
  operationHigh: 0,
  operationLow: 0,
}

/**
 * Whether a record could be taken now, or never (then it is refused when all of it is here); asked
 * before its first packet is. NOT_READY while every job has a record (P2-25), and while its region
 * is being made.
 */
export function throughReady(state: ThroughContext, qp: QueuePair, region: Region): Fault {
  if (isSoonMade(state, qp, region)) return NOT_READY
  return healthFault(state, region) === PASS ? jobsReady(state, qp) : PASS
}

/**
 * Does the region take no record now, as it is being made, or written back as a whole, and by
 * nothing else? Then what comes for it comes again.
 */
export function isSoonMade(state: ThroughContext, qp: QueuePair, region: Region): boolean {
  if (!isBeingMade(state.through, region)) return false
  // Whatever else there is against it stands in front of that.
  if (healthFault(state, region) !== NO_AGENT) return false
  waitForJobs(qp)
  return true
}

/** NOT_READY while every job has something; PASS if none of them is of any use any more. */
export function jobsReady(state: ThroughState, qp: QueuePair): Fault {
  const { jobs } = state.through
  let busy = false
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = jobs[i]!
    if (job.state === FREE) return PASS
    if (job.state !== ENDED) busy = true
  }
  return busy ? waitForJobs(qp) : PASS
}

/** The request comes again when jobs may have ended: NOT_READY. */
export function waitForJobs({ cached }: QueuePair): Fault {
  cached.waitsFor = ANY_JOB
  return NOT_READY
}

/** Keeps a whole message, its data at `dataAt`, for a job of its own: PASS or STAGING. */
export function acceptThrough(
  state: ThroughContext,
  qp: QueuePair,
  ask: Ask,
  dataAt: number,
): Fault {
  const job = freeJob(state.through)
  if (job === null) return STAGING
  const { item } = job
  copy(state.list, dataAt, item.imageAt + SLOT_HEADER_BYTES, ask.length)
  fillItem(item, qp, ask)
  item.client = ask.batch ? collectedClientOf(state, qp, ask) : clientOf(state, qp, ask)
  item.batchIndex = ask.batch ? ask.batchIndex : -1
  job.expects = ask.expects
  job.expectHigh = ask.expectHigh
  job.expectLow = ask.expectLow
  // Its outcome is told when its last packet comes again.
  if (ask.plain) item.wantsAck = false
  const { operations } = state.commit
  job.known = isDurable(operations, item.client, item.operationHigh, item.operationLow)
  job.qp = qp
  job.told = false
  beginJob(state.through, job, WAITING)
  if (ask.known) job.known = true
  if (ask.plain) waitFor(qp, job)
  return PASS
}

/** What there is against having bytes of the region written back: PASS, NOT_READY, NOT_DURABLE. */
export function bytesFault({ through }: ThroughState, region: Region): Fault {
  const { agent, unflushed } = through
  const stands = unflushed[region.index]
  if (!agent.attached || stands === STUCK) return NOT_DURABLE
  return stands === FLUSHED ? PASS : NOT_READY
}

/** Has bytes written back that were stored in this life of the agent, on behalf of that PSN. */
export function acceptBytes(
  state: ThroughState,
  qp: QueuePair,
  psn: number,
  region: Region,
  from: number,
  length: number,
): Fault {
  const { through } = state
  const job = freeJob(through)
  if (job === null) return STAGING
  const { item } = job
  item.region = region
  item.psn = psn
  item.length = length
  item.plain = true
  item.batchIndex = -1
  job.from = from
  job.qp = qp
  // It is no record of which the queue pair is told.
  job.told = true
  beginJob(through, job, BYTES)
  job.stored = through.agent.life
  waitFor(qp, job)
  return PASS
}

/** The queue pair is told what becomes of the job, when its packet comes again. */
function waitFor({ cached }: QueuePair, job: Job): void {
  cached.outcome = NOT_READY
  cached.order = job.order
  cached.waitsFor = job.order
}

/** Has the queue pair a record of which it has not been told that it is durable? */
export function isPassing(state: ThroughState & BatchState, qp: QueuePair): boolean {
  if (isHanding(state.batches, qp.index)) return true
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const { state: stands, qp: whose, told } = state.through.jobs[i]!
    if (stands === FREE || stands === ENDED || told) continue
    if (whose === qp) return true
  }
  return false
}

function freeJob(through: Through): Job | null {
  for (let i = 0; i < THROUGH_JOBS; i++)
    if (through.jobs[i]!.state === FREE) return through.jobs[i]!
  return null
}

function beginJob(through: Through, job: Job, state: number): void {
  through.live = true
  through.order += 1
  job.order = through.order
  job.state = state
  job.copy = 0
  job.stored = 0
  job.begun = 0
  job.asked = 0
  job.sinceUs = -1
  job.begunUs = -1
  job.hidden = 0
}

/** The record of the region that job `i` is writing, or -1. */
export function writtenBy(through: Through, i: number, region: Region): number {
  const job = through.jobs[i]!
  const writes = isOnRecord(job) && job.state !== WAITING && job.item.region === region
  return writes ? job.item.slot : -1
}

/** Goes on with every job as far as it can. Returns the µs until it is wanted again; 0 never. */
export function serveThrough(state: RecordContext, now: number): number {
  const { through } = state
  const { agent } = through
  if (!through.live && !agent.attached) return 0
  if (!isAgentWell(state)) detachAgent(state)
  formRegions(state)
  let wanted = 0
  through.live = false
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = through.jobs[i]!
    if (job.state === FREE || job.state === ENDED) continue
    through.live = true
    if (job.begunUs < 0) job.begunUs = now
    const closed = isSafe(state) || state.commit.closed !== PASS ? state.commit.closed : NOT_ARMED
    if (closed !== PASS) giveUpJob(state, job, closed)
    else if (advanceJob(state, job)) wanted = 1
    const live = job.state === WAITING || (job.state !== FREE && agent.attached)
    if (live && wanted === 0 && state.commit.closed === PASS) wanted = LOOK_US
  }
  if (!isAgentWell(state)) detachAgent(state)
  // A job that has gone on may be what another one waits for; a SEND has its turn again.
  if (releaseSend(state)) wanted = 1
  tellAgentHost(state)
  if (state.list.count > 0) run(state.list)
  return wanted
}

/** The next step of a job, if it can be taken. True if it was. */
function advanceJob(state: RecordContext, job: Job): boolean {
  if (job.state === WAITING) {
    startJob(state, job)
    return job.state !== WAITING
  }
  const { agent } = state.through
  if (!agent.attached) return false
  if (job.asked !== agent.life) return bringForward(state, job)
  if (!isFinished(agent, job.request)) return false
  if (job.state === FIRST) firstDone(state, job)
  else if (job.state === FURTHER) furtherDone(state, job)
  else if (job.state === REPAIR) repairDone(state, job)
  else if (job.state === BYTES) bytesDone(state, job)
  else formDone(state, job)
  return true
}

/**
 * What comes next is stored, unless it was in this life of the agent, and is asked for as soon as
 * there is a receive. True if there was anything to do, and it was done.
 */
function bringForward(state: RecordContext, job: Job): boolean {
  const { agent } = state.through
  if (job.stored !== agent.life) {
    if (job.state === BYTES) {
      endBytes(state, job, NOT_DURABLE)
      return true
    }
    const came = storeJob(state, job)
    if (came === REFUSED) leaveJob(state, job)
    if (came !== STORED) return came !== LATER
    job.stored = agent.life
  }
  if (!hasReceive(state)) return false
  askWriteBack(state, job)
  return job.asked === agent.life
}

/** The medium of the host, or the part, has refused it: its lane says so to the next start. */
function leaveJob(state: RecordContext, job: Job): void {
  const { commit } = state
  const { item, state: stood } = job
  if (stood === FORM) {
    // The next agent has it done again.
    job.state = FREE
    state.through.unflushed[item.region.index] = STUCK
    return
  }
  if (stood !== REPAIR && commit.closed === PASS) noteUnsettled(state, item)
  // Until then nothing older than what the lane speaks for is shown, and nothing that goes back.
  if (stood === FURTHER) commit.held[item.lane] = { ...item }
  job.hidden = stood === FIRST ? 1 : 0
  tellOutcome(state, job, IN_DOUBT)
  endJob(state, job)
}

/** The lane of the record stays, and leaves it unsettled. */
function noteUnsettled({ commit, superblock }: MemoryState & CommitState, item: GroupItem): void {
  commit.unsettled[item.lane] = { ...item }
  deriveUnsettled(superblock, commit.unsettled, item.region)
}

/** Whose turn it is on the record of this job, which waits: that of another one, or its own. */
function headOf(through: Through, job: Job): Job {
  const { slot, region } = job.item
  let head = job
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const other = through.jobs[i]!
    if (!isOnRecord(other)) continue
    if (other.item.slot !== slot || other.item.region !== region) continue
    if (other.state !== WAITING) return other
    if (other.order < head.order) head = other
  }
  return head
}

function startJob(state: RecordContext, job: Job): void {
  const { commit, through, list } = state
  const { item } = job
  const head = headOf(through, job)
  // What has left the record unsettled stays in front of it until the next start (D-14).
  if (head.state === ENDED) giveUpJob(state, job, READ_ONLY)
  if (head !== job) return
  item.client = takeClient(commit.operations, item.client, item.clientHigh, item.clientLow)
  const { operationHigh, operationLow } = item
  if (job.known || isDurable(commit.operations, item.client, operationHigh, operationLow)) {
    tellOutcome(state, job, PASS)
    job.state = FREE
    return
  }
  // A record of the region, this one even, may have been found lost since it was taken (D-14).
  if (item.region.unsettled > 0) {
    giveUpJob(state, job, READ_ONLY)
    return
  }
  if (!hasReceive(state)) return
  // Nobody else writes there now, and what is found stays until this one is stored.
  const { slot, region } = item
  const unexpected = job.expects
    ? sequenceFault(state, region, slot, job.expectHigh, job.expectLow)
    : PASS
  if (unexpected !== PASS) {
    giveUpJob(state, job, unexpected)
    return
  }
  sealItem(commit, item)
  composeLane(commit, item, OWN_LANE)
  // As in a group: no slot is touched before the lanes of what was written last are clear.
  clearDirtyLanes(commit)
  fenceOwn(list)
  const failed = run(list)
  if (failed < 0) {
    commit.dirtyLanes.fill(0)
    job.state = FIRST
    goOnWith(state, job, 0)
    return
  }
  startFailed(state, job, failed)
}

function startFailed(state: GroupContext, job: Job, failed: number): void {
  const { commit, list } = state
  const owner = ownerOf(list, failed)
  const result = resultOf(list, failed)
  if (result === GUARD_FAILED) {
    // Found before anything of it was stored: neither slot nor lane was touched. What the lane had
    // of a record before is to be cleared yet, though.
    commit.dirtyLanes[job.item.lane] = 1
    tellOutcome(state, job, GUARD)
    job.state = FREE
  } else if (result !== MEDIA_ERROR) {
    commit.closed = closedBy(result)
    tellOutcome(state, job, commit.closed)
    endJob(state, job)
  } else if (owner === OWN_LANE) {
    tellOutcome(state, job, MEDIA)
    endJob(state, job)
  } else {
    assert(owner < 0, 'what it stores is its own lane, and those of others')
    retireLane(commit, -1 - owner)
  }
}

/** The job and its lane are not used again before the next start, which looks at the lane. */
function endJob(state: CommitState, job: Job): void {
  retireLane(state.commit, job.item.lane)
  job.state = ENDED
}

/** What is next is copy `c`, or piece `c` of a region. */
function goOnWith(state: RecordContext, job: Job, c: number): void {
  job.copy = c
  job.asked = 0
  job.sinceUs = -1
  // A repair, and a region, are stored as one.
  if (job.state === FIRST || job.state === FURTHER) job.stored = 0
  bringForward(state, job)
}

/** Asks the agent to write back what the job has stored; behind it, as that list has been run. */
function askWriteBack(state: RecordContext, job: Job): void {
  const { item } = job
  const { request } = state.through
  const { region } = item
  if (job.state === FORM) {
    const from = job.copy * FLUSH_BYTES_MAX
    request.address = region.base + from
    request.length = Math.min(region.copies * region.areaBytes - from, FLUSH_BYTES_MAX)
  } else if (job.state === BYTES) {
    const done = job.copy * FLUSH_BYTES_MAX
    request.address = job.from + done
    request.length = Math.min(item.length - done, FLUSH_BYTES_MAX)
  } else {
    request.address = slotAddress(region, job.copy, item.slot)
    request.length = job.state === REPAIR ? region.stride : imageBytes(item.length)
  }
  // Of a region nobody has asked; of a repair the lane alone says whose record it is.
  const isRecord = job.state === FIRST || job.state === FURTHER
  const whose = isRecord ? item : job.state === REPAIR ? job.intent! : NO_OPERATION
  request.psn = job.qp === null ? 0 : item.psn
  request.queuePair = job.qp === null ? 0 : job.qp.number
  request.operationHigh = whose.operationHigh
  request.operationLow = whose.operationLow
  if (!askFlush(state, request)) return
  const { agent } = state.through
  job.request = agent.asked
  job.asked = agent.life
  job.sinceUs = -1
}

/** The next piece of the bytes; or all of them are durable. */
function bytesDone(state: RecordContext, job: Job): void {
  if ((job.copy + 1) * FLUSH_BYTES_MAX < job.item.length) goOnWith(state, job, job.copy + 1)
  else endBytes(state, job, PASS)
}

function endBytes(state: TransportState, job: Job, outcome: Fault): void {
  tellWaiting(state, job, outcome)
  job.state = FREE
}

/** Copy A is durable. */
function firstDone(state: RecordContext, job: Job): void {
  const { list, words, commit } = state
  const { item } = job
  holdLane(list, words, item.lane, item, OWN_LANE, PHASE_B)
  fenceOwn(list)
  const due = item.wait === 1
  if (due) answerDurable(state, job)
  const failed = run(list)
  if (failed < 0) {
    if (due) endWait(state, job)
    job.state = FURTHER
    goOnWith(state, job, 1)
    return
  }
  // The lane says A permanently: only the next start decides, and until then B is what is shown.
  job.hidden = 1
  if (resultOf(list, failed) === MEDIA_ERROR) noteUnsettled(state, item)
  else commit.closed = closedBy(resultOf(list, failed))
  tellOutcome(state, job, IN_DOUBT)
  endJob(state, job)
}

/** Copy `job.copy` is durable: not the first one, unless other memory had to have that again. */
function furtherDone(state: RecordContext, job: Job): void {
  const { list, commit } = state
  const { item } = job
  const { operations } = commit
  const durable = job.copy + 1
  const last = durable === item.region.copies
  job.hidden = 0
  const known = durable === Math.max(2, item.wait)
  if (known) {
    // Others may have taken its place meanwhile.
    item.client = takeClient(operations, item.client, item.clientHigh, item.clientLow)
    beginLines(operations)
    addToLine(operations, item.client, item.operationHigh, item.operationLow)
    storeLines(operations, list)
    fenceOwn(list)
    storeSecondLines(operations, list)
    fenceOwn(list)
  }
  const due = item.wait === durable
  if (due) answerDurable(state, job)
  const failed = run(list)
  if (failed >= 0) {
    furtherFailed(state, job, failed)
    return
  }
  if (known) {
    endLines(operations)
    noteKnown(state.through.jobs, item)
    noteKnownMembers(state, item)
  }
  if (due) endWait(state, job)
  if (!last) {
    goOnWith(state, job, durable)
    return
  }
  commit.dirtyLanes[item.lane] = 1
  job.state = FREE
}

/** Where only the line of the client was refused, the next call tries again with another. */
function furtherFailed(state: GroupContext, job: Job, failed: number): void {
  const { commit, list } = state
  const client = clientOfOwner(ownerOf(list, failed))
  if (resultOf(list, failed) === MEDIA_ERROR && client !== NO_CLIENT) {
    job.item.client = moveClient(commit.operations, client)
    return
  }
  commit.closed = closedBy(resultOf(list, failed))
  tellOutcome(state, job, IN_DOUBT)
  endJob(state, job)
}

/** The next copy of what recovery made one, or the lane is free. */
function repairDone(state: RecordContext, job: Job): void {
  const { commit } = state
  const { lane, region } = job.item
  if (job.copy + 1 < region.copies) {
    goOnWith(state, job, job.copy + 1)
    return
  }
  if (job.kept && !noteRepaired(state, job)) return
  commit.retiredLanes[lane] = 0
  commit.dirtyLanes[lane] = 1
  job.hidden = 0
  job.state = FREE
}

/** The operation of the lane is durable, in every copy: the table says so before the lane goes. */
function noteRepaired(state: RecordContext, job: Job): boolean {
  const { list, commit } = state
  const { operations } = commit
  recoverOperation(operations, job.intent!, true)
  const result = writeImages(operations, list)
  if (result === 0) {
    noteKnown(state.through.jobs, job.intent!)
    noteKnownMembers(state, job.intent!)
    return true
  }
  commit.closed = closedBy(result)
  endJob(state, job)
  return false
}

/** Records of batches that wait with that operation are known to be durable, too. */
function noteKnownMembers(state: TransportState & BatchState, named: Intent): void {
  const { batches, queuePairs } = state
  if (batches.open + batches.handing === 0) return
  const { clientHigh, clientLow, operationHigh, operationLow } = named
  for (let place = 0; place < QUEUE_PAIRS; place++) {
    const batch = batches.of[place] ?? null
    const qp = queuePairs.places[place]!
    if (batch === null || qp === null) continue
    if (((qp.clientHigh ^ clientHigh) | (qp.clientLow ^ clientLow)) !== 0) continue
    noteKnownMember(batch, operationHigh, operationLow)
  }
}

/**
 * The next piece of the region; or every copy of it is durable: if it was just formatted, it is now
 * a region for good, and a record that was given up is blank for good.
 */
function formDone(state: RecordContext, job: Job): void {
  const { region } = job.item
  const { superblock } = state
  const { unflushed } = state.through
  if ((job.copy + 1) * FLUSH_BYTES_MAX < region.copies * region.areaBytes) {
    goOnWith(state, job, job.copy + 1)
    return
  }
  job.state = FREE
  run(state.list)
  let fault = settleBlanked(state, region)
  if (fault === PASS && isRegionUnsure(superblock, region.index)) {
    setFormed(superblock, region.index)
    fault = writeSuperblock(state.list, superblock)
  }
  if (fault === PASS) unflushed[region.index] = FLUSHED
  else state.commit.closed = fault
}

/** Begins the write-back of regions that need it. */
function formRegions(state: MemoryState & ThroughState): void {
  const { through, regions } = state
  if (!through.agent.attached) return
  for (let i = 0; i < REGIONS; i++) {
    if (through.unflushed[i] !== DUE) continue
    const job = freeJob(through)
    if (job === null) return
    job.item.region = regions.places[i]!
    job.item.slot = 0
    job.qp = null
    job.told = true
    beginJob(through, job, FORM)
    if (!isRegionUnsure(state.superblock, i)) job.stored = through.storedIn[i]!
    through.unflushed[i] = FORMING
  }
}

/** What was stored there may be in the host's cache: the region takes no record until flushed. */
export function markUnflushed(state: ThroughState, region: Region): void {
  if (region.placement !== PLACEMENT_THROUGH) return
  const { unflushed, storedIn, agent } = state.through
  // So what a job on it asks for is never older than what is due, and is all of one life.
  const isFirst = !agent.attached || unflushed[region.index] === FLUSHED
  assert(isFirst, 'before it is flushed a region is neither scanned nor blanked past its jobs')
  unflushed[region.index] = DUE
  storedIn[region.index] = agent.attached ? agent.life : 0
}

/** Is the region not yet written back since something was stored past its jobs? */
export function isUnflushed(state: ThroughState, region: Region): boolean {
  return region.placement === PLACEMENT_THROUGH && state.through.unflushed[region.index] !== FLUSHED
}

/** The record was given up and is blank in every copy, as far as loads see: not yet for good. */
export function markBlanked(state: ThroughState, region: Region, record: number): void {
  markUnflushed(state, region)
  state.through.blanked[region.index] = record
}

/** It is blank for good: it is lost no more, and no lane holds it. Else why that is not durable. */
export function settleBlanked(state: ThroughContext, region: Region): Fault {
  const { superblock, commit, through } = state
  const record = through.blanked[region.index]!
  through.blanked[region.index] = -1
  if (record < 0) return PASS
  const cleared = clearHeld(state, region, record)
  if (cleared !== PASS) return cleared
  const listed = isLost(superblock, region.id, record)
  removeLost(superblock, region.id, record)
  const fault = writeSuperblock(state.list, superblock)
  if (fault === PASS) {
    for (const lanes of [commit.held, commit.takenBack, commit.unsettled]) {
      letGo(lanes, region, record)
    }
  } else if (listed) {
    // It is lost until the list without it is durable: whoever asks again has it all done again.
    addLost(superblock, region.id, record)
  }
  deriveUnsettled(superblock, commit.unsettled, region)
  return fault
}

/**
 * What holds the record against older copies is cleared on the medium, too: to the next start its
 * blank is one of them. A line that takes nothing stays, and the record is lost again then.
 */
function clearHeld(
  { commit, list }: BoardState & CommitState,
  region: Region,
  record: number,
): Fault {
  for (let lane = 0; lane < LANES; lane++) {
    const held = commit.held[lane]!
    if (held === null || held.regionId !== region.id || held.record !== record) continue
    copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, 0)
  }
  if (list.count === 0) return PASS
  const end = fenceOwn(list)
  runAll(list)
  const result = resultOf(list, end)
  return result === 0 ? PASS : closedBy(result)
}

/** The region is no more: what is under way into it is in doubt, or refused. */
export function endThrough(state: RecordContext, region: Region): void {
  const { through, commit } = state
  through.unflushed[region.index] = FLUSHED
  through.blanked[region.index] = -1
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = through.jobs[i]!
    if (job.state === FREE || job.item.region !== region) continue
    job.hidden = 0
    if (job.state === ENDED) continue
    // Its queue pair lives, and what is told of a record is a status, never a NAK's.
    giveUpJob(state, job, SLOT)
    if (job.state === FREE) continue
    // The next start may find the region, and what the lane says of it.
    if (state.superblock.half) {
      endJob(state, job)
      continue
    }
    // Its lane names what is no region any more; it is cleared with the next group.
    commit.retiredLanes[job.item.lane] = 0
    commit.dirtyLanes[job.item.lane] = 1
    job.state = FREE
  }
}

/** At the start: nothing is under way, and a lane that must stay as it is serves no job. */
export function resetThrough(state: CommitState & ThroughState): void {
  const { through, commit } = state
  for (let i = 0; i < THROUGH_JOBS; i++) {
    through.jobs[i]!.state = commit.retiredLanes[BURST_FRAMES + i] === 0 ? FREE : ENDED
  }
  endAgent(through.agent)
  through.blanked.fill(-1)
}

/**
 * At the start: the lane of the record stays until the agent has written back the repair, which
 * went by that phase. If it keeps the record of `intent`, its operation is known then. So many of
 * the first copies as `hidden` says are shown to nobody before.
 */
export function resumeLane(
  state: ThroughState,
  lane: number,
  region: Region,
  intent: Intent,
  phase: number,
  hidden: number,
): void {
  const job = state.through.jobs[lane - BURST_FRAMES]!
  job.item.region = region
  job.item.slot = intent.record
  job.intent = intent
  job.phase = phase
  job.qp = null
  job.told = true
  beginJob(state.through, job, REPAIR)
  job.hidden = hidden
}

/**
 * No agent for too long: it is gone, and everybody who waits for it is told (G2-5). Who waits
 * behind another one of his record waits for what that one does, so its time counts: an agent who
 * goes on with that one is there.
 */
export function timeThrough(state: RecordContext, now: number): void {
  const { through } = state
  const { jobs, agent, live } = through
  if (!live) return
  let silent = false
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = jobs[i]!
    if (job.state === FREE || job.state === ENDED) continue
    const head = job.state === WAITING ? headOf(through, job) : job
    if (head.sinceUs < 0) head.sinceUs = now
    job.sinceUs = head.sinceUs
    if (now - job.sinceUs < FLUSH_TIMEOUT_US) continue
    if (head.asked === agent.life) silent = true
    else giveUpJob(state, job, NO_AGENT)
  }
  if (silent && agent.attached) detachAgent(state)
  if (state.list.count > 0) run(state.list)
}

/** The agent is gone, and its life over: what it was asked, the next one finds stored again. */
export function detachAgent(state: RecordContext): void {
  const { jobs, agent, blanked } = state.through
  endAgent(agent)
  // What it was to write back may never have been: that record is still lost.
  blanked.fill(-1)
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = jobs[i]!
    if (job.state === FREE || job.state === ENDED) continue
    giveUpJob(state, job, NO_AGENT)
  }
}

/** A new agent is there: what waits for one waits from now on, what was stuck is tried again. */
export function repeatRequests(state: ThroughState): void {
  const { jobs, unflushed } = state.through
  for (let i = 0; i < THROUGH_JOBS; i++) jobs[i]!.sinceUs = -1
  for (let i = 0; i < REGIONS; i++) if (unflushed[i] === STUCK) unflushed[i] = DUE
}

/** Tells the requester: refused if no slot was touched, else in doubt. The job keeps its lane. */
function giveUpJob(state: RecordContext, job: Job, fault: Fault): void {
  if (job.state === BYTES) {
    count(state, fault)
    endBytes(state, job, NOT_DURABLE)
    return
  }
  if (job.state === WAITING) {
    const { item } = job
    // Another job may have the same operation.
    const open = isOpenOperation(state, item, item.operationHigh, item.operationLow, job)
    tellOutcome(state, job, open ? IN_DOUBT : fault)
    job.state = FREE
    return
  }
  tellOutcome(state, job, IN_DOUBT)
}

/** The requester's queue pair, if it is still the same one. */
function requester(state: TransportState, job: Job): QueuePair | null {
  const { qp } = job
  if (qp === null || qp.state !== STATE_OPEN) return null
  assert(state.queuePairs.places[qp.index] === qp, 'a queue pair fails before its place is free')
  return qp
}

function answerDurable(state: FrameContext & ReceiptState, job: Job): void {
  const { item } = job
  const qp = requester(state, job)
  if (job.told || !item.wantsAck || qp === null) return
  const copies = copiesIn(item.region, item.wait)
  answerRecord(state, qp, item.psn, item.operationHigh, item.operationLow, 0, copies)
}

/** It is as durable as it asked, by this job: it is counted, unless another end was told. */
function endWait(state: TransportState & BatchState & BurstState, job: Job): void {
  const { item, begunUs } = job
  if (!job.told) noteDurable(state.figures, item.region.index, begunUs, 1, item.length)
  noteJobDurable(state, job)
}

function noteJobDurable(state: TransportState & BatchState, job: Job): void {
  const { item, told } = job
  const qp = requester(state, job)
  job.told = true
  // Its batch may be over, and its queue pair have the next one.
  if (told && item.batchIndex >= 0) return
  if (qp === null || isOfBatch(state, item, PASS)) return
  if (item.plain) {
    tellWaiting(state, job, PASS)
    return
  }
  const copies = copiesIn(item.region, item.wait)
  remember(qp, item.psn, item.operationHigh, item.operationLow, 0, copies)
}

/** What becomes of its packet when that comes again: PASS, or the fault that refuses it. */
function tellWaiting(state: TransportState, job: Job, outcome: Fault): void {
  const qp = requester(state, job)
  if (qp !== null && qp.cached.order === job.order) qp.cached.outcome = outcome
}

/**
 * A record of a batch is noted, and told of in the one status: its batch is that of its queue pair,
 * which has no other before the last of its records is noted. So each is noted once, also one that
 * was told to be in doubt and is made durable by a later agent.
 */
function isOfBatch({ batches }: BatchState, item: GroupItem, fault: Fault): boolean {
  if (item.batchIndex < 0) return false
  noteHandedEnd(batches.of[item.owner]!, item.batchIndex, item.wait, fault)
  return true
}

/** Tells the outcome once: durable as it was asked for (PASS), or a fault. */
function tellOutcome(
  state: FrameContext & BatchState & ReceiptState,
  job: Job,
  fault: Fault,
): void {
  if (job.told) return
  const { item } = job
  if (fault === PASS) {
    answerDurable(state, job)
    noteJobDurable(state, job)
    return
  }
  job.told = true
  count(state, fault)
  if (item.plain) tellWaiting(state, job, NOT_DURABLE)
  const qp = requester(state, job)
  if (qp === null || item.plain || isOfBatch(state, item, fault)) return
  const status = FAULTS[fault]!.code
  remember(qp, item.psn, item.operationHigh, item.operationLow, status, 0)
  answerRecord(state, qp, item.psn, item.operationHigh, item.operationLow, status, 0)
}
