// hot path
/**
 * Telling requesters which memory is ready (source 5; P5-17 … P5-24, P5-26, P5-30): the regions
 * behind the associations of residency/, and their notices on the wire.
 *
 *   pages that come and go ──pageChanged──┐
 *   records lost, held, locked ──look──▶ association ──composeNotice──▶ MEMORY_STATUS ──▶ requester
 *   regions that fail ──regionEnded───────┘           ──offerFor──────▶ BLOCK_SIZE
 *
 * Invariants:
 * - A requester has one association with a region on a queue pair; it ends with either of them, and
 *   where its key is taken back.
 * - Of an association one message is under way at a time, and lies in its place in packet memory
 *   until it is acknowledged. What changes meanwhile is collected.
 * - The units of one association are counted in a turn, so that a burst of questions about large
 *   regions keeps nobody waiting for longer than that.
 * - Of a persistent region nothing is looked for while nothing can have changed (readiness.ts). Is
 *   the part closed, or not armed, its regions cannot be used, and that is told; when it serves
 *   again, they begin again.
 */

import { type BoardState, isArmed } from '../board/context.ts'
import { PASS } from '../board/fault.ts'
import { ASSOCIATIONS, PAGE_BYTES, REGIONS } from '../board/limits.ts'
import { NOTICE_BYTES, NOTICES_AT } from '../board/memory-map.ts'
import { isSafe } from '../burst/burst.ts'
import type { ResidencyState, ServeContext } from '../burst/context.ts'
import { openInitiator } from '../burst/open-initiator.ts'
import { type Initiator, submit, takeWork, type Work, type WorkOwner } from '../burst/work.ts'
import type { CommitState } from '../commit/context.ts'
import type { MemoryState } from '../medium/context.ts'
import { KIND_ON_DEMAND, KIND_RECORDS, type Region } from '../medium/region.ts'
import { isPageThere, pagesOf } from '../medium/translation.ts'
import {
  type Association,
  askCurrent,
  beginCount,
  beginOutage,
  countAbsent,
  ENDING,
  endAssociation,
  endCount,
  endOutage,
  FREE,
  LIVE,
  setSize,
  tellsAtUs,
  unitChanged,
} from '../residency/association.ts'
import { noticeBytes, spend } from '../residency/meter.ts'
import { composeNotice } from '../residency/notice.ts'
import {
  judgeWish,
  leastLog2,
  mostLog2,
  offerFor,
  PAGE_LOG2,
  takeCounter,
  takeRefusal,
} from '../residency/size.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { BLOCK_SIZE, MEMORY_STATUS, type Request } from '../transport/requester.ts'
import {
  BLOCK_SIZE_VERSION,
  BSETH_WORDS,
  clearBseth,
  SIZE_GRANTED,
  SIZE_OFFERED,
} from '../wire/block-size.ts'
import {
  HEALTH_DEGRADED,
  HEALTH_FAILED,
  HEALTH_NOT_PERSISTENT,
  HEALTH_OK,
  STATUS_RESET,
  STATUS_UNAVAILABLE,
} from '../wire/memory-status.ts'
import { absentAt, absentBytes, absentRecords, isAmong, mayBeLocked, stampOf } from './readiness.ts'

/** How soon a notice for which there is no room is tried again, µs. */
const ROOM_US = 1_000
/** How often it is looked whether the part of a persistent region serves, µs. */
const HEALTH_US = 10_000

/** Its association has no use for what the peer says of durability, and keeps no place. */
const INITIATOR = { incarnation: 0, readDepth: 1, kept: false }

/** The association of the queue pair with the region, or null. */
export function findAssociation(
  state: ResidencyState,
  qp: QueuePair,
  region: Region,
): Association | null {
  const { associations, qps, regions } = state.residency
  for (let i = 0; i < ASSOCIATIONS; i++) {
    const a = associations[i]!
    if (a.life === LIVE && qps[i] === qp && regions[i] === region) return a
  }
  return null
}

/** A place for another association, which the caller begins; null if all are taken. */
export function takeAssociation(
  state: ResidencyState,
  qp: QueuePair,
  region: Region,
): Association | null {
  const { residency } = state
  for (let i = 0; i < ASSOCIATIONS; i++) {
    const a = residency.associations[i]!
    if (a.life !== FREE) continue
    residency.qps[i] = qp
    residency.regions[i] = region
    residency.absentCount[i] = 0
    residency.taken += 1
    a.sequence = residency.sequence
    return a
  }
  return null
}

/** Ends it. What is under way of it is heard to its end. */
export function releaseAssociation(state: ResidencyState, a: Association): void {
  const { residency } = state
  if (((a.sequence - residency.sequence) | 0) > 0) residency.sequence = a.sequence
  endAssociation(a)
  residency.qps[a.index] = null
  residency.regions[a.index] = null
  if (a.life === FREE) residency.taken -= 1
}

// ---- what happens to memory --------------------------------------------------------------------

/** A page of a region that is registered on demand was mapped, or unmapped. */
export function pageChanged(
  state: ResidencyState,
  region: Region,
  page: number,
  mapped: boolean,
): void {
  const { associations, regions, taken } = state.residency
  if (taken === 0) return
  for (let i = 0; i < ASSOCIATIONS; i++) {
    if (regions[i] === region) unitChanged(associations[i]!, page * PAGE_BYTES, PAGE_BYTES, mapped)
  }
}

/**
 * The region fails (STATUS_ERROR) or cannot be used (STATUS_UNAVAILABLE); or it begins again
 * (STATUS_RESET).
 */
export function regionEnded(state: ResidencyState, region: Region, kind: number): void {
  const { associations, regions } = state.residency
  for (let i = 0; i < ASSOCIATIONS; i++) {
    if (regions[i] !== region) continue
    if (kind === STATUS_RESET) endOutage(associations[i]!)
    else beginOutage(associations[i]!, kind)
  }
}

// ---- in turns ----------------------------------------------------------------------------------

/** Looks, and tells what is due. The µs after which it wants to be called again; 0 is never. */
export function serveResidency(state: ServeContext, now: number): number {
  const { residency } = state
  residency.turn = (residency.turn + 1) % ASSOCIATIONS
  residency.mayCount = true
  let atUs = Infinity
  for (let i = 0; i < ASSOCIATIONS; i++) {
    const a = residency.associations[(residency.turn + i) % ASSOCIATIONS]!
    if (a.life !== LIVE) continue
    const wantsUs = serveAssociation(state, a, now)
    if (wantsUs < atUs) atUs = wantsUs
  }
  if (atUs === Infinity) return 0
  return atUs <= now ? 1 : Math.ceil(atUs - now)
}

/** One association's turn. Returns when it wants the next one, µs; Infinity is never. */
function serveAssociation(state: ServeContext, a: Association, now: number): number {
  const { residency } = state
  const qp = residency.qps[a.index]!
  const region = residency.regions[a.index]!
  const open = qp.state === STATE_OPEN && state.queuePairs.places[qp.index] === qp
  if (!open || ((qp.readable >> region.index) & 1) === 0) {
    releaseAssociation(state, a)
    return Infinity
  }
  if (a.stale && !residency.mayCount) return now
  if (a.stale) residency.mayCount = false
  lookForChanges(state, a, region)
  let tellsUs = tellsAtUs(a, now)
  const gone = state.regions.places[region.index] !== region
  if (gone && a.endKind === 0 && !a.underWay) {
    releaseAssociation(state, a)
    return Infinity
  }
  const looksUs = region.kind === KIND_ON_DEMAND || !a.optedIn ? Infinity : now + HEALTH_US
  if (a.underWay) return looksUs
  const offer = tellsUs > now ? offerFor(a, now) : 0
  if (offer !== 0 || tellsUs <= now) tellsUs = tellPeer(state, a, qp, region, offer, now)
  return Math.min(tellsUs, looksUs, a.windowEndUs > now ? a.windowEndUs : Infinity)
}

/** Sends an offer of that size, or a notice; when it wants another try, if there is no room. */
function tellPeer(
  state: ServeContext,
  a: Association,
  qp: QueuePair,
  region: Region,
  offer: number,
  now: number,
): number {
  const initiator = openInitiator(state, qp, INITIATOR)
  const work = takeWork(initiator)
  if (work === null) return now + ROOM_US
  a.underWay = true
  if (offer !== 0) sendOffer(a, initiator!, work, offer)
  else sendNotice(state, a, region, initiator!, work, now)
  return Infinity
}

function sendNotice(
  state: BoardState & CommitState,
  a: Association,
  region: Region,
  initiator: Initiator,
  work: Work,
  now: number,
): void {
  const at = NOTICES_AT + a.index * NOTICE_BYTES
  const { pathMtu } = initiator.qp
  const room = pathMtu < NOTICE_BYTES ? pathMtu : NOTICE_BYTES
  work.mseth.incarnation = state.incarnation
  work.mseth.health = healthOf(state, region)
  work.length = composeNotice(a, work.mseth, state.bytes, at, room)
  spend(a.meter, noticeBytes(work.length), now)
  work.from = at
  work.solicited = false
  submit(initiator, work, MEMORY_STATUS, NOTICES, a.index)
}

/** Offers a size: address and length in RETH say nothing. */
function sendOffer(a: Association, initiator: Initiator, work: Work, offer: number): void {
  const { reth, bseth } = work
  reth.vaHigh = 0
  reth.vaLow = 0
  reth.rkey = a.rkey
  reth.length = 0
  clearBseth(bseth)
  bseth.blockSizeLog2 = offer
  bseth.leastLog2 = leastLog2(a.length)
  bseth.mostLog2 = mostLog2(a.length)
  bseth.alignmentLog2 = PAGE_LOG2
  bseth.maximum = a.maximum
  bseth.threshold = a.threshold
  bseth.periodUs = a.periodUs
  work.length = 0
  work.solicited = false
  submit(initiator, work, BLOCK_SIZE, OFFERS, a.index)
}

function healthOf(state: BoardState & CommitState, region: Region): number {
  if (region.kind === KIND_ON_DEMAND) return HEALTH_OK
  if (!isArmed(state)) return HEALTH_NOT_PERSISTENT
  if (state.refused !== PASS || !isSafe(state)) return HEALTH_FAILED
  return region.unsettled > 0 ? HEALTH_DEGRADED : HEALTH_OK
}

const NOTICES: WorkOwner = {
  received() {},
  done(state: BoardState & ResidencyState, work) {
    ended(state, work)
  },
}

const OFFERS: WorkOwner = {
  received() {},
  done(state: BoardState & ResidencyState, work, request) {
    const a = ended(state, work)
    if (a.life === LIVE && request.status === 'SUCCESS') takeOfferAnswer(state, a, work, request)
  },
}

/** A message is not under way any more: it has come, or its queue pair is gone. */
function ended(state: ResidencyState, work: Work): Association {
  const a = state.residency.associations[work.item]!
  a.underWay = false
  if (a.life === ENDING) {
    a.life = FREE
    state.residency.taken -= 1
  }
  return a
}

/** The requester's answer to an offer: only what it commits to is in force. */
function takeOfferAnswer(state: BoardState, a: Association, work: Work, request: Request): void {
  const { version, words, reserved, status, commit, blockSizeLog2 } = request.size
  const now = state.connections.nowUs
  const known = version === BLOCK_SIZE_VERSION && words === BSETH_WORDS && reserved === 0
  const same = blockSizeLog2 === work.bseth.blockSizeLog2
  if (known && status === SIZE_GRANTED && commit && same) {
    if (judgeWish(a.length, blockSizeLog2) !== SIZE_GRANTED) return
    setSize(a, blockSizeLog2)
    a.countered = false
    askCurrent(a)
  } else if (!known || status !== SIZE_OFFERED || !takeCounter(a, blockSizeLog2, now)) {
    takeRefusal(a, now)
  }
}

// ---- looking -----------------------------------------------------------------------------------

/** Finds out what is to be told: counts again where that is due, and looks at what may change. */
function lookForChanges(state: ServeContext, a: Association, region: Region): void {
  if (region.kind === KIND_ON_DEMAND) {
    if (a.stale) countPages(state, a, region)
    return
  }
  const serves = isArmed(state) && state.refused === PASS && isSafe(state)
  if (!serves && a.outage === 0) beginOutage(a, STATUS_UNAVAILABLE)
  else if (serves && a.outage !== 0) endOutage(a)
  if (region.kind !== KIND_RECORDS) {
    if (a.stale) countNone(a)
  } else if (a.stale) {
    countRecords(state, a, region)
  } else {
    lookAtRecords(state, a, region)
  }
}

function countNone(a: Association): void {
  beginCount(a)
  endCount(a)
}

function countPages(state: MemoryState, a: Association, region: Region): void {
  const { translation } = state
  const place = region.index - REGIONS
  const end = Math.min(pagesOf(a.from + a.length), translation.pages[place]!)
  beginCount(a)
  for (let page = Math.floor(a.from / PAGE_BYTES); page < end; page++) {
    if (isPageThere(translation, place, page)) continue
    countAbsent(a, page * PAGE_BYTES, PAGE_BYTES)
  }
  endCount(a)
}

function countRecords(state: ServeContext, a: Association, region: Region): void {
  const { residency } = state
  const absent = residency.absent[a.index]!
  const count = absentRecords(state, region, absent)
  residency.absentCount[a.index] = count
  residency.stamps[a.index] = stampOf(state, region)
  beginCount(a)
  for (let i = 0; i < count; i++) {
    countAbsent(a, absentAt(region, absent[i]!), absentBytes(region, absent[i]!))
  }
  endCount(a)
}

/** Which records have become ready since the last look, and which ceased to be. */
function lookAtRecords(state: ServeContext, a: Association, region: Region): void {
  const { absent, absentCount, stamps, found } = state.residency
  const before = absentCount[a.index]!
  const stamp = stampOf(state, region)
  if (stamp === stamps[a.index] && !mayBeLocked(state, region, before)) return
  stamps[a.index] = stamp
  const known = absent[a.index]!
  const count = absentRecords(state, region, found)
  for (let i = 0; i < before; i++) {
    const record = known[i]!
    if (isAmong(found, count, record)) continue
    unitChanged(a, absentAt(region, record), absentBytes(region, record), true)
  }
  for (let i = 0; i < count; i++) {
    const record = found[i]!
    if (isAmong(known, before, record)) continue
    unitChanged(a, absentAt(region, record), absentBytes(region, record), false)
  }
  for (let i = 0; i < count; i++) known[i] = found[i]!
  absentCount[a.index] = count
}
