/**
 * The host behind the port: taken, refused, or gone (source 3, initialisation; P3-10; fault H4).
 *
 *   none ──a new epoch, a good page──▶ clearing ──zone 1 is zeros──▶ served
 *     ▲                                    │                           │
 *     └──── link down, epoch 0, another epoch, a header that cannot be read ◀┘
 *
 * Invariants:
 * - The page is read once and judged whole before anything of it is used.
 * - The host sees its epoch answered only when zone 1 of every queue is zeros except for those of
 *   management: what an earlier epoch left there is nobody's, and no queue is valid by accident.
 * - When a host is gone nothing of it is left: no context, no key, no page, no doorbell, no work,
 *   and nothing that it has shown (proof.ts). A link that was down and is up again between two
 *   looks has another number.
 */

import { clearNotices } from '../batch/notices.ts'
import { copy, resultOf, run, runAll } from '../board/command-list.ts'
import { count } from '../board/context.ts'
import { DMA, type Fault, HEADER_PAGE, PASS } from '../board/fault.ts'
import { DMA_SPACE, DONE, PORT_DROPPED, PORT_EPOCH, PORT_HEADER, PORT_LINK } from '../board/hal.ts'
import {
  CONTEXT_BYTES,
  FETCH_AT,
  HEADER_PAGE_AT,
  HEADER_PAGE_BYTES,
  ZEROS_AT,
  ZEROS_BYTES,
} from '../board/memory-map.ts'
import { drain, loseHost, runBurst } from '../burst/burst.ts'
import type { BurstContext, ServeContext } from '../burst/context.ts'
import { commitNow } from '../engine/group.ts'
import { clearTimers } from '../host/completion.ts'
import { clearContexts } from '../host/context-cache.ts'
import * as page from '../host/header-page.ts'
import { HOST_CLEARING, HOST_NONE, HOST_SERVED, type HostQueues } from '../host/host.ts'
import { dropHostCalls } from '../host/host-calls.ts'
import type { HostContext } from '../host/host-state.ts'
import { clearMemoryRegions } from '../host/memory-regions.ts'
import { clearPending } from '../host/pending.ts'
import * as info from '../host/queue-info.ts'
import { resetNumbers } from '../host/queue-numbers.ts'
import { type Layout, layoutFault, readLayout } from '../host/take-host.ts'
import { endAllOnDemand } from '../status/on-demand.ts'
import { dropHostWork } from './execute.ts'

/** Pieces of zone 1 that one call clears. */
const CLEARINGS = 64

/** Has the port changed, or is a host being taken? */
export function isHostDue(host: HostQueues): boolean {
  const { words } = host
  if (host.gone || host.phase === HOST_CLEARING) return true
  const link = words[PORT_LINK >> 2]!
  if (link !== host.seenLink) return true
  // Most cards have no host behind a port: nothing is asked further.
  return link === 0 ? host.seenEpoch !== 0 : words[PORT_EPOCH >> 2]! !== host.seenEpoch
}

/** The epoch that the port shows, or 0 where there is no host. */
function shownEpoch({ words }: HostQueues): number {
  return words[PORT_LINK >> 2] === 0 ? 0 : words[PORT_EPOCH >> 2]!
}

/**
 * Has a host that was there gone, be it that there is one again? Then it is lost at once: nothing
 * that a burst brings is judged by what another host has shown.
 */
export function noticeHost(state: BurstContext): void {
  const { host } = state
  const link = host.words[PORT_LINK >> 2]!
  const isOver = host.seenLink !== 0 && link !== host.seenLink
  const isAnew = host.seenEpoch !== 0 && shownEpoch(host) !== host.seenEpoch
  host.seenLink = link
  if (!isOver && !isAnew) return
  host.gone = true
  loseHost(state)
}

/** Follows the port: drops the host that is gone, takes the one that is there. */
export function serveHost(state: ServeContext): void {
  const { host } = state
  noticeHost(state)
  const epoch = shownEpoch(host)
  // Another host may have come by the epoch that the one before it had.
  if (host.gone || epoch !== host.seenEpoch) {
    host.gone = false
    dropHost(state)
    host.seenEpoch = epoch
    if (epoch !== 0) takeHost(state)
  } else if (host.phase === HOST_CLEARING) clear(state)
}

/** Nothing of the host is left. Its work is ended, and what it has not heard it never hears. */
function dropHost(state: ServeContext): void {
  const { host } = state
  if (host.phase === HOST_NONE) return
  // Records of the burst may have come by its queue pairs, which are gone behind this.
  commitNow(state)
  // What is in the list may name contexts: it leaves first.
  drain(state)
  endAllOnDemand(state)
  dropHostWork(state)
  clearNotices(state.batches.notices)
  clearTimers(host)
  clearContexts(host.contexts)
  clearPending(host.pending)
  clearMemoryRegions(host.regions)
  dropHostCalls(host.calls)
  resetNumbers(host.numbers)
  host.phase = HOST_NONE
  host.epoch = 0
  host.queues = 0
  host.trusts = false
  host.sweepLeft = 0
  host.pass.count = 0
  host.retryUs = Infinity
  host.interruptDue = false
}

/** The memory of the host did not answer where nothing goes on without it. */
export function failHost(state: ServeContext): void {
  count(state, DMA)
  dropHost(state)
  loseHost(state)
  tellFault(state, DMA)
  runBurst(state)
}

function takeHost(state: BurstContext): void {
  const { host, list, facts } = state
  host.header = (host.words[PORT_HEADER >> 2]! >>> 0) * HEADER_PAGE_BYTES
  host.dmaBytes = facts.dmaBytes
  // A page that is not in the host's memory cannot be answered into, either.
  if (host.header > host.dmaBytes - HEADER_PAGE_BYTES) {
    count(state, HEADER_PAGE)
    return
  }
  drain(state)
  const read = copy(list, DMA_SPACE + host.header, HEADER_PAGE_AT, HEADER_PAGE_BYTES)
  runAll(list)
  const answered = resultOf(list, read) === DONE
  const layout = readLayout(host)
  const fault = answered ? layoutFault(host, host.header, layout) : DMA
  if (fault !== PASS) {
    count(state, fault)
    tellFault(state, fault)
    runBurst(state)
    return
  }
  host.queues = layout.queues
  host.zone1 = layout.zone1
  host.zone2 = layout.zone2
  host.zone3 = layout.zone3
  host.pointerOrder = layout.pointerOrder
  host.trusts = layout.trust === 1
  const { events } = host
  events.at = layout.eventRing
  events.depth = layout.events
  events.made = 0
  events.taken = 0
  events.lost = false
  events.lookUs = 0
  // An old doorbell that still stands there costs one look at a queue.
  host.register = 0
  host.dropped = host.words[PORT_DROPPED >> 2]!
  host.cleared = 0
  host.phase = HOST_CLEARING
  clear(state)
}

/** Clears a part of zone 1; behind the last one the host is served. */
function clear(state: BurstContext): void {
  const { host, list } = state
  runBurst(state)
  const end = host.queues * info.ZONE1_BYTES
  let at = host.cleared * info.ZONE1_BYTES
  for (let i = 0; i < CLEARINGS && at < end; i++) {
    const length = Math.min(ZEROS_BYTES, end - at)
    copy(list, ZEROS_AT, DMA_SPACE + host.zone1 + at, length)
    at += length
  }
  host.cleared = at / info.ZONE1_BYTES
  if (at === end) beginService(state)
  run(list)
}

/** The queues of management are there; the host is told what it needs to know of the card. */
function beginService(state: HostContext): void {
  const { host } = state
  const layout = readLayout(host)
  putManagement(state, layout)
  host.phase = HOST_SERVED
  host.epoch = host.seenEpoch >>> 0
  const { bytes, words, facts } = state
  bytes.fill(0, HEADER_PAGE_AT + page.HEADER_CARD, cardEnd())
  words[(HEADER_PAGE_AT + page.HEADER_EPOCH) >> 2] = host.epoch
  bytes.set(facts.mac, HEADER_PAGE_AT + page.HEADER_MAC)
  bytes.set(facts.ipv4, HEADER_PAGE_AT + page.HEADER_IPV4)
  words[(HEADER_PAGE_AT + page.HEADER_PATH_MTU) >> 2] = facts.pathMtu
  words[(HEADER_PAGE_AT + page.HEADER_TRUSTED) >> 2] = host.trusts ? 1 : 0
  const from = HEADER_PAGE_AT + page.HEADER_CARD
  copy(state.list, from, DMA_SPACE + host.header + page.HEADER_CARD, page.HEADER_CARD_BYTES)
}

function cardEnd(): number {
  return HEADER_PAGE_AT + page.HEADER_CARD + page.HEADER_CARD_BYTES
}

/** Zones 1 and 2 of the queues of management, as the page describes them. */
function putManagement(state: HostContext, layout: Layout): void {
  const { host, list, bytes, words } = state
  const rings = [layout.sendRing, layout.receiveRing, layout.completionRing]
  const depths = [layout.sendUnits, layout.receiveUnits, layout.completions]
  const kinds = [info.KIND_SEND, info.KIND_RECEIVE, info.KIND_COMPLETION]
  const others = [page.QUEUE_GSI_RECEIVE, page.QUEUE_GSI_SEND, 0]
  for (let queue = 0; queue < page.FIRST_QUEUE; queue++) {
    // The places of fetched elements are free: no pass is under way.
    const at = FETCH_AT + queue * CONTEXT_BYTES
    const put = (offset: number, value: number): void => {
      words[(at + offset) >> 2] = value
    }
    const ring = rings[queue]!
    bytes.fill(0, at, at + CONTEXT_BYTES)
    bytes[at + info.Z1_STATE] = info.QUEUE_READY
    bytes[at + info.Z1_KIND] = kinds[queue]!
    bytes[at + info.Z1_VALID] = 1
    bytes[at + info.Z1_TYPE] = info.TYPE_GSI
    put(info.Z1_ADDRESS, ring % 2 ** 32)
    put(info.Z1_ADDRESS + 4, Math.floor(ring / 2 ** 32))
    if (queue !== page.QUEUE_GSI_COMPLETION) {
      put(info.Z1_COMPLETIONS, page.QUEUE_GSI_COMPLETION)
      put(info.Z1_OTHER, others[queue]!)
      put(info.Z1_QUEUE_PAIR, GSI_NUMBER)
    }
    put(info.Z1_GENERATION, 1)
    const zone2 = info.CONTEXT_ZONE2
    put(zone2 + info.Z2_RING, ring % 2 ** 32)
    put(zone2 + info.Z2_RING + 4, Math.floor(ring / 2 ** 32))
    put(zone2 + info.Z2_DEPTH, depths[queue]!)
    const { zone1, zone2: at2 } = host
    copy(list, at, DMA_SPACE + zone1 + queue * info.ZONE1_BYTES, info.ZONE1_BYTES)
    copy(list, at + zone2, DMA_SPACE + at2 + queue * info.ZONE2_BYTES, info.ZONE2_BYTES)
  }
}

const GSI_NUMBER = 1

/** Why the page was refused, or the host is served no more: into the card's line; and wakes it. */
function tellFault(state: HostContext, fault: Fault): void {
  const { host, list, words } = state
  words[(HEADER_PAGE_AT + page.HEADER_EPOCH) >> 2] = 0
  words[(HEADER_PAGE_AT + page.HEADER_FAULT) >> 2] = fault
  words[(HEADER_PAGE_AT + page.HEADER_RECORDED) >> 2] = 0
  words[(HEADER_PAGE_AT + page.HEADER_INTERRUPTS) >> 2]! += 1
  const from = HEADER_PAGE_AT + page.HEADER_EPOCH
  copy(list, from, DMA_SPACE + host.header + page.HEADER_EPOCH, 16)
}
