/**
 * Placement through: records in the host's memory, through its caches, each made durable by the
 * host's CPU (source 2, flow 2; S1001 to S1019). It is the commit of commit.ts, one record at a
 * time, with the CPU's write-back in the place of the fences behind copies:
 *
 *   WAITING   the image is kept; its receive-ACK has left (P2-21)
 *   FIRST     intent, phase A ▸fence▸ `new` into copy A, and the agent is asked to write it back
 *   FURTHER   phase B ▸fence▸ level 1 is acknowledged; `new` into copy B, and the agent is asked;
 *             and so on; behind each bell the next level is acknowledged (P2-24)
 *   REPAIR    what recovery made of a record may be in the host's cache: the agent is asked, copy
 *             by copy, and only then the lane is cleared
 *   FORM      likewise for a whole region that was formatted or scanned
 *
 * The bell of a request is the agent's SEND that says that it is finished (flush-agent.ts).
 *
 * What always holds:
 * - A PERSIST_ACK leaves behind the agent's bell for the copies that it speaks of, and behind the
 *   fence of the phase that speaks for them. Without an agent there is none: what has touched a
 *   slot is told to be in doubt after a bounded time, what has not is refused (G2-5).
 * - Nobody waits for it: the next request is taken meanwhile, and answers come in the order in
 *   which records become durable (P2-27).
 * - One record has one job at a time; each job has its lane, and keeps it until its last bell.
 * - A first copy whose bell has not rung is shown to no reader.
 */

import { assert } from '../assert.ts'
import { checkCode, copy, copyClean, fence, ownerOf, resultOf, run } from '../command-list.ts'
import { closedBy } from '../commit/closed.ts'
import { blankItem, type GroupItem, laneAddress, retireLane, sealItem } from '../commit/commit.ts'
import {
  LANE_CHECKED_AT,
  LANE_CHECKED_BYTES,
  LANE_CODE_AT,
  PHASE_B,
  PHASE_WORD_BYTES,
  writeIntent,
  writePhaseWord,
} from '../commit/lane.ts'
import {
  addToLine,
  beginLines,
  clientOfOwner,
  endLines,
  isDurable,
  moveClient,
  NO_CLIENT,
  storeLines,
  takeClient,
} from '../commit/operations.ts'
import { placeFault } from '../commit/placement.ts'
import { CHECKED_AT, imageBytes, SLOT_HEADER_BYTES } from '../commit/slot.ts'
import {
  FAULTS,
  type Fault,
  IN_DOUBT,
  MEDIA,
  NO_AGENT,
  NOT_ARMED,
  NOT_READY,
  PASS,
  STAGING,
} from '../fault.ts'
import { MEDIA_ERROR } from '../hal.ts'
import {
  BURST_FRAMES,
  FLUSH_BYTES_MAX,
  FLUSH_TIMEOUT_US,
  LANES,
  LINE_BYTES,
  REGIONS,
  THROUGH_JOBS,
} from '../limits.ts'
import { PLACEMENT_THROUGH, type Region, slotAddress } from '../memory/region.ts'
import { isUnsure, setFormed, writeSuperblock } from '../memory/superblock.ts'
import {
  KEYS_AT,
  LANE_LINES_AT,
  PHASE_WORDS_AT,
  THROUGH_AT,
  THROUGH_BYTES,
  ZEROS_AT,
} from '../memory-map.ts'
import { count, type PersistMessage, type State } from '../state.ts'
import { type QueuePair, remember, STATE_OPEN } from '../transport/queue-pair.ts'
import { isSafe } from './burst.ts'
import {
  askFlush,
  createFlushAgent,
  type FlushAgent,
  type FlushRequest,
  hasReceive,
  isAgentWell,
  isFinished,
  releaseSend,
  tellHost,
} from './flush-agent.ts'
import { clientOf } from './operation.ts'
import { answerRecord, copiesIn } from './receipt.ts'

const FREE = 0
const WAITING = 1
const FIRST = 2
const FURTHER = 3
const REPAIR = 4
const FORM = 5
/** Its lane is not used again before the next start. */
const ENDED = 6

/** How soon the firmware looks after its jobs though no doorbell woke it, µs. */
const LOOK_US = 200

/** Owner of the commands that store into a job's own lane. */
const OWN_LANE = 1

interface Job {
  state: number
  readonly item: GroupItem
  /** The requester's queue pair: another one may have its place, and its number, by now. */
  qp: QueuePair | null
  /** The copy that is being written back; of a region, the piece of FLUSH_BYTES_MAX. */
  copy: number
  /** The request that was made for it; valid while `asked`. */
  request: number
  asked: boolean
  /** Since when it waits for an agent, µs; -1 while nobody has looked at the clock. */
  sinceUs: number
  /** The requester knows the outcome. */
  told: boolean
  /** Its first copy is not to be shown, though the job has ended. */
  hidden: boolean
  /** Jobs of one record are done in the order in which they came. */
  order: number
}

export interface Through {
  readonly jobs: readonly Job[]
  readonly agent: FlushAgent
  readonly request: FlushRequest
  /** Regions that may lie in the host's cache in part: 1. */
  readonly unflushed: Uint8Array
  order: number
  /** There may be jobs: without any, and without an agent, nothing is looked at. */
  live: boolean
}

export function createThrough(anyRegion: Region): Through {
  const jobs: Job[] = []
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const item = blankItem(anyRegion)
    item.imageAt = THROUGH_AT + i * THROUGH_BYTES
    item.lane = BURST_FRAMES + i
    jobs.push({
      state: FREE,
      item,
      qp: null,
      copy: 0,
      request: 0,
      asked: false,
      sinceUs: -1,
      told: false,
      hidden: false,
      order: 0,
    })
  }
  return {
    jobs,
    agent: createFlushAgent(),
    request: {
      address: 0,
      length: 0,
      psn: 0,
      queuePair: 0,
      operationHigh: 0,
      operationLow: 0,
    },
    unflushed: new Uint8Array(REGIONS),
    order: 0,
    live: false,
  }
}

/** Why a record in the host's memory is not taken now, or PASS. */
export function hostFault(state: State, region: Region): Fault {
  const fault = placeFault(state.placement, region.placement)
  if (fault !== PASS || region.placement !== PLACEMENT_THROUGH) return fault
  const { agent, unflushed } = state.through
  return agent.attached && unflushed[region.index] === 0 ? PASS : NO_AGENT
}

/**
 * Whether a record could be taken now, or never (then it is refused when all of it is here); asked
 * before its first packet is. NOT_READY while every job has a record (P2-25).
 */
export function throughReady(state: State): Fault {
  const { jobs } = state.through
  let busy = false
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = jobs[i]!
    if (job.state === FREE) return PASS
    if (job.state !== ENDED) busy = true
  }
  return busy ? NOT_READY : PASS
}

/** Keeps a whole message, its data at `dataAt`, for a job of its own: PASS, STAGING or NO_AGENT. */
export function acceptThrough(
  state: State,
  qp: QueuePair,
  message: PersistMessage,
  dataAt: number,
): Fault {
  // The acknowledgement of a plain WRITE cannot wait for a host.
  if (message.plain) return NO_AGENT
  const job = freeJob(state.through)
  if (job === null) return STAGING
  const { item } = job
  copy(state.list, dataAt, item.imageAt + SLOT_HEADER_BYTES, message.length)
  item.region = message.region!
  item.slot = message.slot
  item.length = message.length
  item.wait = message.wait
  item.wantsAck = message.wantsAck
  item.clientHigh = qp.clientHigh
  item.clientLow = qp.clientLow
  item.operationHigh = message.operationHigh
  item.operationLow = message.operationLow
  item.owner = qp.index
  item.psn = message.lastPsn
  item.client = clientOf(state, qp, message)
  job.qp = qp
  job.told = false
  begin(state.through, job, WAITING)
  return PASS
}

/** Has the queue pair a record of which it has not been told that it is durable? */
export function isPassing(state: State, qp: QueuePair): boolean {
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

function begin(through: Through, job: Job, state: number): void {
  through.live = true
  through.order += 1
  job.order = through.order
  job.state = state
  job.copy = 0
  job.asked = false
  job.sinceUs = -1
  job.hidden = false
}

/** The first copy of the record that may be shown to a reader: 0, or 1 while A is written. */
export function firstShown(state: State, region: Region, slot: number): number {
  if (region.placement !== PLACEMENT_THROUGH) return 0
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const { state: stands, item, hidden } = state.through.jobs[i]!
    if (stands !== FIRST && !hidden) continue
    if (item.slot === slot && item.region === region) return 1
  }
  return 0
}

/** Is a job writing the record? Then nobody else may look after its copies. */
export function isWriting(state: State, region: Region, slot: number): boolean {
  if (region.placement !== PLACEMENT_THROUGH) return false
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = state.through.jobs[i]!
    const { item } = job
    if (!isOnRecord(job) || job.state === WAITING) continue
    if (item.slot === slot && item.region === region) return true
  }
  return false
}

/** The record of the region that job `i` is writing, or -1. */
export function writtenBy(through: Through, i: number, region: Region): number {
  const job = through.jobs[i]!
  const writes = isOnRecord(job) && job.state !== WAITING && job.item.region === region
  return writes ? job.item.slot : -1
}

/** Goes on with every job as far as it can. Returns the µs until it is wanted again; 0 never. */
export function serveThrough(state: State): number {
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
    const closed = isSafe(state) || state.commit.closed !== PASS ? state.commit.closed : NOT_ARMED
    if (closed !== PASS) giveUp(state, job, closed)
    else if (goOn(state, job)) wanted = 1
    const live = job.state === WAITING || (job.state !== FREE && agent.attached)
    if (live && wanted === 0 && state.commit.closed === PASS) wanted = LOOK_US
  }
  if (!isAgentWell(state)) detachAgent(state)
  // A job that has gone on may be what another one waits for; a SEND has its turn again.
  if (releaseSend(state)) wanted = 1
  tellHost(state)
  if (state.list.count > 0) run(state.list)
  return wanted
}

/** The next step of a job, if it can be taken. True if it was. */
function goOn(state: State, job: Job): boolean {
  if (job.state === WAITING) {
    start(state, job)
    return job.state !== WAITING
  }
  if (!job.asked) {
    if (hasReceive(state)) ask(state, job)
    return job.asked
  }
  if (!isFinished(state.through.agent, job.request)) return false
  if (job.state === FIRST) firstDone(state, job)
  else if (job.state === FURTHER) furtherDone(state, job)
  else if (job.state === REPAIR) repairDone(state, job)
  else formDone(state, job)
  return true
}

/** Has the job to do with a record, now or until the next start? */
function isOnRecord(job: Job): boolean {
  if (job.state === ENDED) return job.hidden
  return job.state !== FREE && job.state !== FORM
}

/** Is it the turn of this job: is no other one on the same record before it? */
function isNext(through: Through, job: Job): boolean {
  const { slot, region } = job.item
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const other = through.jobs[i]!
    if (!isOnRecord(other) || other === job) continue
    if (other.item.slot !== slot || other.item.region !== region) continue
    if (other.state !== WAITING || other.order < job.order) return false
  }
  return true
}

function start(state: State, job: Job): void {
  const { commit, through, list, words } = state
  const { item } = job
  if (!isNext(through, job)) return
  item.client = takeClient(commit.operations, item.client, item.clientHigh, item.clientLow)
  if (isDurable(commit.operations, item.client, item.operationHigh, item.operationLow)) {
    tell(state, job, PASS)
    job.state = FREE
    return
  }
  if (!hasReceive(state)) return
  sealItem(commit, item)
  const end = SLOT_HEADER_BYTES + item.length
  const pad = imageBytes(item.length) - end
  if (pad > 0) copy(list, ZEROS_AT, item.imageAt + end, pad)
  checkCode(list, item.imageAt + CHECKED_AT, item.imageAt, end - CHECKED_AT, item.region.keyAt)
  const line = LANE_LINES_AT + item.lane * LINE_BYTES
  writeIntent(words, line, item)
  checkCode(list, line + LANE_CHECKED_AT, line + LANE_CODE_AT, LANE_CHECKED_BYTES, KEYS_AT)
  copyClean(list, line, laneAddress(item.lane), LINE_BYTES, OWN_LANE)
  commit.dirtyLanes[item.lane] = 0
  // As in a group: no slot is touched before the lanes of what was written last are clear.
  for (let lane = 0; lane < LANES; lane++) {
    if (commit.dirtyLanes[lane] === 0) continue
    copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, -1 - lane)
  }
  fence(list)
  writeCopy(state, job, 0)
  const failed = run(list)
  if (failed < 0) {
    commit.dirtyLanes.fill(0)
    job.state = FIRST
    askFor(state, job, 0)
    return
  }
  startFailed(state, job, failed)
}

function startFailed(state: State, job: Job, failed: number): void {
  const { commit, list } = state
  const owner = ownerOf(list, failed)
  job.asked = false
  if (resultOf(list, failed) !== MEDIA_ERROR) {
    commit.closed = closedBy(resultOf(list, failed))
    tell(state, job, commit.closed)
    end(state, job)
  } else if (owner === OWN_LANE) {
    tell(state, job, MEDIA)
    end(state, job)
  } else {
    assert(owner < 0, 'what goes to the memory of the host is posted: no medium refuses it')
    retireLane(commit, -1 - owner)
  }
}

/** The job and its lane are not used again before the next start, which looks at the lane. */
function end(state: State, job: Job): void {
  retireLane(state.commit, job.item.lane)
  job.state = ENDED
}

/** Stores the image into copy `c`. */
function writeCopy(state: State, job: Job, c: number): void {
  const { item } = job
  copy(state.list, item.imageAt, slotAddress(item.region, c, item.slot), imageBytes(item.length))
}

/** Copy `c` is stored: its write-back is asked for as soon as there is a receive. */
function askFor(state: State, job: Job, c: number): void {
  job.copy = c
  job.asked = false
  job.sinceUs = -1
  if (hasReceive(state)) ask(state, job)
}

/** Asks the agent to write back what the job has stored; behind it, as that list has been run. */
function ask(state: State, job: Job): void {
  const { item } = job
  const { request } = state.through
  const { region } = item
  if (job.state === FORM) {
    const from = job.copy * FLUSH_BYTES_MAX
    request.address = region.base + from
    request.length = Math.min(region.copies * region.areaBytes - from, FLUSH_BYTES_MAX)
  } else {
    request.address = slotAddress(region, job.copy, item.slot)
    request.length = job.state === REPAIR ? region.stride : imageBytes(item.length)
  }
  request.psn = item.psn
  request.queuePair = job.qp === null ? 0 : job.qp.number
  request.operationHigh = item.operationHigh
  request.operationLow = item.operationLow
  if (!askFlush(state, request)) return
  job.request = state.through.agent.asked
  job.asked = true
  job.sinceUs = -1
}

/** Copy A is durable. */
function firstDone(state: State, job: Job): void {
  const { list, words, commit } = state
  const { item } = job
  const word = PHASE_WORDS_AT + item.lane * LINE_BYTES
  writePhaseWord(words, word, PHASE_B, item.sequenceLow, item.sequenceHigh)
  copyClean(list, word, laneAddress(item.lane), PHASE_WORD_BYTES, OWN_LANE)
  fence(list)
  const due = item.wait === 1
  if (due) answerDurable(state, job)
  writeCopy(state, job, 1)
  const failed = run(list)
  if (failed < 0) {
    if (due) noteDurable(state, job)
    job.state = FURTHER
    askFor(state, job, 1)
    return
  }
  // The lane says A for ever: only the next start decides, and until then B is what is shown.
  job.hidden = true
  if (resultOf(list, failed) === MEDIA_ERROR) item.region.unsettled += 1
  else commit.closed = closedBy(resultOf(list, failed))
  tell(state, job, IN_DOUBT)
  end(state, job)
}

/** Copy `job.copy`, which is not the first, is durable. */
function furtherDone(state: State, job: Job): void {
  const { list, commit } = state
  const { item } = job
  const { operations } = commit
  const durable = job.copy + 1
  const last = durable === item.region.copies
  if (job.copy === 1) {
    // Others may have taken its place meanwhile.
    item.client = takeClient(operations, item.client, item.clientHigh, item.clientLow)
    beginLines(operations)
    addToLine(operations, item.client, item.operationHigh, item.operationLow)
    storeLines(operations, list)
    fence(list)
  }
  const due = item.wait === durable
  if (due) answerDurable(state, job)
  if (!last) writeCopy(state, job, durable)
  const failed = run(list)
  if (failed >= 0) {
    furtherFailed(state, job, failed)
    return
  }
  if (durable === 2) endLines(operations)
  if (due) noteDurable(state, job)
  if (!last) {
    askFor(state, job, durable)
    return
  }
  commit.dirtyLanes[item.lane] = 1
  job.state = FREE
}

/** Where only the line of the client was refused, the next call tries again with another. */
function furtherFailed(state: State, job: Job, failed: number): void {
  const { commit, list } = state
  const client = clientOfOwner(ownerOf(list, failed))
  if (resultOf(list, failed) === MEDIA_ERROR && client !== NO_CLIENT) {
    job.item.client = moveClient(commit.operations, client)
    return
  }
  commit.closed = closedBy(resultOf(list, failed))
  tell(state, job, IN_DOUBT)
  end(state, job)
}

/** The next copy of what recovery made one, or the lane is free. */
function repairDone(state: State, job: Job): void {
  const { commit } = state
  const { lane, region } = job.item
  job.copy += 1
  job.asked = false
  if (job.copy < region.copies) return
  commit.retiredLanes[lane] = 0
  commit.dirtyLanes[lane] = 1
  job.state = FREE
}

/**
 * The next piece of the region; or every copy of it is durable: if it was just formatted, it is now
 * a region for good.
 */
function formDone(state: State, job: Job): void {
  const { region } = job.item
  const { superblock } = state
  job.copy += 1
  job.asked = false
  if (job.copy * FLUSH_BYTES_MAX < region.copies * region.areaBytes) return
  job.state = FREE
  if (isUnsure(superblock, region.index)) {
    setFormed(superblock, region.index)
    const fault = writeSuperblock(state.list, superblock)
    if (fault !== PASS) {
      state.commit.closed = fault
      return
    }
  }
  state.through.unflushed[region.index] = 0
}

/** Begins the write-back of regions that need it. */
function formRegions(state: State): void {
  const { through, regions } = state
  if (!through.agent.attached) return
  for (let i = 0; i < REGIONS; i++) {
    if (through.unflushed[i] !== 1) continue
    const job = freeJob(through)
    if (job === null) return
    job.item.region = regions.places[i]!
    job.item.slot = 0
    job.qp = null
    job.told = true
    begin(through, job, FORM)
    through.unflushed[i] = 2
  }
}

/** What was stored there may be in the host's cache: the region takes no record until flushed. */
export function markUnflushed(state: State, region: Region): void {
  if (region.placement === PLACEMENT_THROUGH) state.through.unflushed[region.index] = 1
}

/** At the start: nothing is under way, and a lane that must stay as it is serves no job. */
export function resetThrough(state: State): void {
  const { through, commit } = state
  for (let i = 0; i < THROUGH_JOBS; i++) {
    through.jobs[i]!.state = commit.retiredLanes[BURST_FRAMES + i] === 0 ? FREE : ENDED
  }
  through.agent.attached = false
}

/** At the start: the lane of the record stays until the agent has written back the repair. */
export function resumeLane(state: State, lane: number, region: Region, slot: number): void {
  const job = state.through.jobs[lane - BURST_FRAMES]!
  job.item.region = region
  job.item.slot = slot
  job.qp = null
  job.told = true
  begin(state.through, job, REPAIR)
}

/** No agent for too long: it is gone, and everybody who waits for it is told (G2-5). */
export function timeThrough(state: State, now: number): void {
  const { jobs, agent, live } = state.through
  if (!live) return
  let silent = false
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = jobs[i]!
    if (job.state === FREE || job.state === ENDED) continue
    if (job.sinceUs < 0) job.sinceUs = now
    if (now - job.sinceUs < FLUSH_TIMEOUT_US) continue
    if (job.asked) silent = true
    else giveUp(state, job, NO_AGENT)
  }
  if (silent && agent.attached) detachAgent(state)
  if (state.list.count > 0) run(state.list)
}

/** The agent is gone. What it was asked, the next one is asked again. */
export function detachAgent(state: State): void {
  const { jobs, agent } = state.through
  agent.attached = false
  for (let i = 0; i < THROUGH_JOBS; i++) {
    const job = jobs[i]!
    if (job.state === FREE || job.state === ENDED) continue
    giveUp(state, job, NO_AGENT)
    job.asked = false
  }
}

/** A new agent is there: what was asked of an earlier one is asked again. */
export function repeatRequests(state: State): void {
  const { jobs } = state.through
  for (let i = 0; i < THROUGH_JOBS; i++) {
    jobs[i]!.asked = false
    jobs[i]!.sinceUs = -1
  }
}

/** Tells the requester: refused if no slot was touched, else in doubt. The job keeps its lane. */
function giveUp(state: State, job: Job, fault: Fault): void {
  if (job.state === WAITING) {
    tell(state, job, fault)
    job.state = FREE
    return
  }
  tell(state, job, IN_DOUBT)
}

/** The requester's queue pair, if it is still the same one. */
function requester(state: State, job: Job): QueuePair | null {
  const { qp } = job
  if (qp === null || qp.state !== STATE_OPEN) return null
  assert(state.queuePairs.places[qp.index] === qp, 'a queue pair fails before its place is free')
  return qp
}

function answerDurable(state: State, job: Job): void {
  const { item } = job
  const qp = requester(state, job)
  if (job.told || !item.wantsAck || qp === null) return
  const copies = copiesIn(item.region, item.wait)
  answerRecord(state, qp, item.psn, item.operationHigh, item.operationLow, 0, copies)
}

function noteDurable(state: State, job: Job): void {
  const { item } = job
  const qp = requester(state, job)
  job.told = true
  if (qp === null) return
  const copies = copiesIn(item.region, item.wait)
  remember(qp, item.psn, item.operationHigh, item.operationLow, 0, copies)
}

/** Tells the outcome once: durable as it was asked for (PASS), or a fault. */
function tell(state: State, job: Job, fault: Fault): void {
  if (job.told) return
  const { item } = job
  if (fault === PASS) {
    answerDurable(state, job)
    noteDurable(state, job)
    return
  }
  job.told = true
  count(state, fault)
  const qp = requester(state, job)
  if (qp === null) return
  qp.segment += 1
  const status = FAULTS[fault]!.code
  remember(qp, item.psn, item.operationHigh, item.operationLow, status, 0)
  answerRecord(state, qp, item.psn, item.operationHigh, item.operationLow, status, 0)
}
