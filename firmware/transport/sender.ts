// hot path
/**
 * The sender: what of the requester's queue (requester.ts) goes out now, and what time does to it.
 *
 * Invariants:
 * - No more than the window is on its way, and among the packets on their way one asks for an
 *   answer: a window that is full, or was narrowed by congestion, never waits for a timeout.
 * - Nothing is sent of a request that has ended.
 * - Of the records of a burst only the one that ends it asks for an answer, and only it is asked
 *   for again: a status that is late costs one packet, and not one for each record (P4-8). The next
 *   burst begins when the one before has its status.
 * - At most `readDepth` ordered requests are unanswered (IBTA 9.7.4.1); a fenced request is not
 *   begun while one is.
 * - At most `sendDepth` messages that take a receive are unacknowledged (S1-M7): as many as were
 *   agreed with the peer.
 * - Whatever waits has a timer, and every timer has a last try: nothing waits forever, except for a
 *   responder that says so itself (RNR retry count 7).
 */

import { REMEMBERED_RECORDS } from '../board/limits.ts'
import { psnAdd, psnDistance } from './psn.ts'
import {
  fail,
  isBatchMember,
  isCollectedMember,
  isOrdered,
  needsDepth,
  READ,
  type Request,
  type Requester,
  requestAt,
  takesReceive,
  WRITE_PERSIST,
} from './requester.ts'

/** Notifications within this time are about the same congestion, µs (DCQCN's interval). */
const CONGESTION_US = 55

/** Sends what the window lets out. To be called after posting, responses and ticks. */
export function pump(q: Requester, nowUs: number): void {
  while (!q.failed && q.cursor !== q.tail && nowUs >= q.rnrUntilUs) {
    const request = requestAt(q, q.cursor)
    if (request.done) {
      skipRequest(q, request)
      continue
    }
    const index = psnDistance(q.cursorPsn, request.firstPsn)
    const psnCount = request.kind === READ ? request.packetCount - index : 1
    if (!mayGo(q, request, index) || !windowAllows(q, psnCount)) return
    send(q, request, index, psnCount, nowUs)
  }
}

/**
 * Passes over a record that is durable while something before it is asked for again: the responder
 * has it, and its owner may have given its bytes up.
 */
function skipRequest(q: Requester, request: Request): void {
  q.cursorPsn = psnAdd(request.lastPsn, 1)
  q.cursor++
}

function send(
  q: Requester,
  request: Request,
  index: number,
  psnCount: number,
  nowUs: number,
): void {
  const psn = q.cursorPsn
  const last = index + psnCount === request.packetCount
  const ordered = isOrdered(request.kind)
  const asks = last && !isCollectedMember(request)
  const ackRequest = !ordered && (asks || q.sinceAck + 1 >= q.openWindow >> 1)
  q.counts.packets++
  if (psnDistance(psn, q.unackedPsn) < psnDistance(q.highPsn, q.unackedPsn)) {
    q.counts.retransmissions++
  }
  // An ordered request is answered anyway.
  q.sinceAck = ackRequest || ordered ? 0 : q.sinceAck + 1
  q.cursorPsn = psnAdd(psn, psnCount)
  if (last && request.lastOfBatch && q.cursor > q.batchBurstEnd) q.batchBurstEnd = q.cursor
  if (last) q.cursor++
  if (psnDistance(q.cursorPsn, q.unackedPsn) > psnDistance(q.highPsn, q.unackedPsn)) {
    q.highPsn = q.cursorPsn
  }
  if (needsDepth(request.kind)) {
    request.out = true
    q.readsOut++
  } else if (takesReceive(request.kind) && !request.out) {
    request.out = true
    q.sendsOut++
  }
  if (q.ackTimerUs === Infinity) q.ackTimerUs = nowUs + q.ackTimeoutUs
  q.hooks.emit(request, index, psn, ackRequest)
}

/**
 * Depths, fence, the burst before, and memory: no record ends so far behind one that is still
 * unresolved that the responder would forget the older. Of a burst it remembers the end.
 */
function mayGo(q: Requester, request: Request, index: number): boolean {
  if (needsDepth(request.kind) && q.readsOut >= q.readDepth) return false
  if (takesReceive(request.kind) && !request.out && q.sendsOut >= q.sendDepth) return false
  if (request.fenced && index === 0 && q.readsOut > 0) return false
  if (isBatchMember(request) && q.cursor > q.batchBurstEnd && batchBurstWaits(q)) return false
  if (q.asked < q.head) q.asked = q.head
  while (q.asked < q.cursor && !isAsked(requestAt(q, q.asked))) q.asked++
  if (q.asked >= q.cursor) return true
  return psnDistance(request.lastPsn, requestAt(q, q.asked).lastPsn) < REMEMBERED_RECORDS
}

/** Has the last burst that was sent to its end no status yet? */
function batchBurstWaits(q: Requester): boolean {
  return q.batchBurstEnd >= q.head && !requestAt(q, q.batchBurstEnd).done
}

/** May that record be asked for again by itself, now or later? */
function isAsked(request: Request): boolean {
  return request.kind === WRITE_PERSIST && !request.done && !isCollectedMember(request)
}

/**
 * A READ longer than the window goes out alone: its responses are the responder's to pace. Where
 * congestion narrowed the window under packets of which none asks, one more goes, which does.
 */
function windowAllows(q: Requester, psnCount: number): boolean {
  const out = psnDistance(q.cursorPsn, q.unackedPsn)
  if (out === 0 || out + psnCount <= q.openWindow) return true
  return q.sinceAck >= out && out + psnCount <= q.window
}

/** Goes back to the oldest unacknowledged packet; PSNs stay what they were. */
export function rewind(q: Requester): void {
  for (let i = q.unacked; i <= q.cursor && i < q.tail; i++) requestAt(q, i).out = false
  q.readsOut = 0
  q.sendsOut = 0
  q.cursor = q.unacked
  q.cursorPsn = q.unackedPsn
}

// ---- congestion --------------------------------------------------------------------------------

/**
 * A congestion notification came for this queue pair: half the window closes, except for one
 * packet. It opens again by one PSN for each window that is acknowledged (`regain`).
 */
export function takeCongestion(q: Requester, nowUs: number): void {
  q.counts.congestions++
  if (nowUs < q.cutAgainUs) return
  q.cutAgainUs = nowUs + CONGESTION_US
  q.regained = 0
  if (q.openWindow <= 1) return
  q.openWindow >>= 1
  q.counts.windowCuts++
}

/** `count` PSNs were acknowledged. */
export function regain(q: Requester, count: number): void {
  if (q.openWindow >= q.window) return
  q.regained += count
  if (q.regained < q.openWindow) return
  q.regained = 0
  q.openWindow++
}

// ---- time --------------------------------------------------------------------------------------

/** When `tick` wants to be called next, µs; Infinity is never. */
export function nextTimerUs(q: Requester): number {
  if (q.failed) return Infinity
  let at = q.ackTimerUs
  if (q.rnrUntilUs > 0 && q.rnrUntilUs < at) at = q.rnrUntilUs
  for (let i = q.head; i < q.unacked; i++) {
    const request = requestAt(q, i)
    if (!request.done && request.persistAtUs < at) at = request.persistAtUs
  }
  return at
}

/** Lets time pass: timeouts, the end of an RNR wait, PERSIST_ACKs that did not come. */
export function tick(q: Requester, nowUs: number): void {
  if (q.failed) return
  if (q.rnrUntilUs > 0 && nowUs >= q.rnrUntilUs) {
    q.rnrUntilUs = 0
    q.ackTimerUs = nowUs + q.ackTimeoutUs
  }
  if (nowUs >= q.ackTimerUs) timeout(q, nowUs)
  if (!q.failed) askAgain(q, nowUs)
  pump(q, nowUs)
}

function timeout(q: Requester, nowUs: number): void {
  q.counts.timeouts++
  q.tries++
  if (q.tries > q.retryCount) {
    fail(q, q.unacked, 'RETRY_EXC_ERR')
    return
  }
  q.ackTimerUs = nowUs + q.ackTimeoutUs
  q.rewoundPsn = -1
  rewind(q)
}

/** Was a record of the same batch posted behind it? Then it is that one which asks. */
function isFollowed(q: Requester, place: number): boolean {
  const { batchId } = requestAt(q, place)
  for (let i = place + 1; i < q.tail; i++) {
    const other = requestAt(q, i)
    if (isBatchMember(other) && other.batchId === batchId) return true
  }
  return false
}

/** Sends again, under its own PSNs, every record whose PERSIST_ACK is overdue (G2-3). */
function askAgain(q: Requester, nowUs: number): void {
  for (let i = q.head; i < q.unacked; i++) {
    const request = requestAt(q, i)
    if (request.done || nowUs < request.persistAtUs) continue
    if (isCollectedMember(request) && isFollowed(q, i)) {
      request.persistAtUs = Infinity
      continue
    }
    if (request.persistTries >= q.persistRetryCount) {
      fail(q, i, 'RESP_TIMEOUT_ERR')
      return
    }
    // Each wait is longer, so that a part that is merely slow is not asked ever more.
    request.persistTries++
    request.persistAtUs = nowUs + q.persistTimeoutUs * (request.persistTries + 1)
    q.counts.persistRepeats++
    const count = request.packetCount
    for (let index = 0; index < count && !request.done; index++) {
      q.counts.packets++
      q.counts.retransmissions++
      q.hooks.emit(request, index, psnAdd(request.firstPsn, index), index === count - 1)
    }
  }
}
