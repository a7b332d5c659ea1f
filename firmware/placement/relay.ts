/**
 * Relays: regions of records that lie with another DPU, offered here under a name of ours. What a
 * host persists into one goes on to that DPU, by the firmware's own requester, and its PERSIST_ACK
 * comes back.
 *
 *   host A ──WRITE_PERSIST──▶ DPU A ──WRITE_PERSIST──▶ DPU B: slots, fences
 *          ◀──PERSIST_ACK──── (relay) ◀─PERSIST_ACK───
 *
 * Invariants:
 * - Nothing is acknowledged as durable here but what DPU B acknowledged so, for the same operation,
 *   with its copies and its mechanism. A link that breaks breaks the queue pairs of the hosts
 *   whose records it had: nobody here knows what became of them, and the hosts ask again.
 * - An operation keeps its client and its id on the way: the link speaks in the name of the client,
 *   or, in a session of DPU B, in the one that the client always has there (session/relayed.ts), so
 *   what it sends again is known to DPU B as the same (D-6). So it takes records of that client
 *   alone: under its name those of another would be taken for repetitions. Nor does one whose relay
 *   ended as it came go by that which has the place then.
 * - A record has a buffer from its acceptance to its end; where there is none its packet draws an
 *   RNR NAK and nothing of it has happened (P2-25).
 */

import { assert } from '../board/assert.ts'
import { copy } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { type Fault, NOT_DURABLE, NOT_READY, PASS, RIGHTS, STAGING } from '../board/fault.ts'
import { REGIONS, STAGING_BUFFERS, STAGING_BYTES } from '../board/limits.ts'
import { STAGING_AT } from '../board/memory-map.ts'
import { refuseQueuePair } from '../burst/burst.ts'
import type {
  BurstState,
  GatherState,
  GroupContext,
  RequestState,
  ServeContext,
} from '../burst/context.ts'
import { noteDurable } from '../burst/figures.ts'
import { findInitiator } from '../burst/initiator.ts'
import type { Passenger, Relay } from '../burst/passengers.ts'
import { takeStaging } from '../burst/staging.ts'
import { submit, takeWork, type Work, type WorkOwner } from '../burst/work.ts'
import { answerRecord, packCopies } from '../engine/receipt.ts'
import type { MemoryState } from '../medium/context.ts'
import type { Region } from '../medium/region.ts'
import { SLOT_HEADER_BYTES } from '../medium/slot.ts'
import type { Ask } from '../transport/message.ts'
import { type QueuePair, remember, STATE_OPEN } from '../transport/queue-pair.ts'
import { type Request, room, WRITE_PERSIST } from '../transport/requester.ts'
import type { Pweth } from '../wire/persist.ts'

/** The relay of a region that is one. */
export function relayOf(state: RequestState, region: Region): Relay {
  return state.relays.relays[region.index - REGIONS]!
}

/**
 * Why no record of `host` goes on there, alone or in a batch; or PASS. Without a link the host's
 * connection ends: the host makes both again, and sends it again.
 */
export function linkFault(state: RequestState, host: QueuePair, region: Region): Fault {
  const { qp, clientHigh, clientLow } = relayOf(state, region)
  if (host.clientHigh !== clientHigh || host.clientLow !== clientLow) return RIGHTS
  return findInitiator(state, qp) === null ? NOT_DURABLE : PASS
}

/** Whether a record of `host` could be taken now; asked before its first packet is. */
export function relayReady(
  state: GatherState & RequestState,
  host: QueuePair,
  region: Region,
): Fault {
  const fault = linkFault(state, host, region)
  if (fault !== PASS) return fault
  const initiator = findInitiator(state, relayOf(state, region).qp)!
  let buffers = 0
  for (let i = 0; i < STAGING_BUFFERS; i++) if (state.stagingOwner[i] === -1) buffers += 1
  return buffers > 0 && room(initiator.requester) > 0 ? PASS : NOT_READY
}

/** Sends the record on; its data is at `dataAt`. A fault refuses it. */
export function acceptRelay(state: ServeContext, qp: QueuePair, ask: Ask, dataAt: number): Fault {
  const region = ask.region!
  const relay = relayOf(state, region)
  // Another may have its place since the first packet came, with a link of its own.
  const isThere = state.regions.places[region.index] === region
  const initiator = isThere ? findInitiator(state, relay.qp) : null
  const work = takeWork(initiator)
  // Nothing has been sent: the next attempt is as good as the first.
  if (work === null) return STAGING
  const total = ask.length * ask.carried
  if (qp.staging < 0) {
    const taken = takeStaging(state, qp)
    assert(taken, 'relayReady has found a buffer for a message of one packet')
    copy(state.list, dataAt, relayedAt(qp.staging), total)
  }
  const buffer = qp.staging
  qp.staging = -1
  const passenger = state.relays.passengers[buffer]!
  passenger.qp = qp
  passenger.region = region
  passenger.length = ask.length
  passenger.sinceUs = state.connections.nowUs
  passenger.psn = ask.lastPsn
  passenger.operationHigh = ask.operationHigh
  passenger.operationLow = ask.operationLow
  passenger.wantsAck = ask.wantsAck
  passenger.done = false
  work.from = relayedAt(buffer)
  work.length = total
  work.reth.vaHigh = ask.slot
  work.reth.vaLow = 0
  work.reth.rkey = relay.rkey
  work.reth.length = ask.length
  work.pweth.wait = ask.wait
  work.pweth.slotAddressed = true
  work.pweth.carried = ask.carried > 1
  work.pweth.furtherCopies = ask.carried - 1
  work.pweth.wantsAck = true
  work.pweth.repetition = ask.repetition
  work.pweth.guarded = ask.guard !== 0
  leaveBatch(work.pweth)
  work.guard = ask.guard
  work.pweth.operationHigh = ask.operationHigh
  work.pweth.operationLow = ask.operationLow
  submit(initiator!, work, WRITE_PERSIST, PASSENGERS, buffer)
  return PASS
}

/** It is no record of a batch; another one may have been sent by the same piece of work. */
function leaveBatch(pweth: Pweth): void {
  pweth.batch = false
  pweth.oneStatus = false
  pweth.message = false
  pweth.condition = 0
  pweth.lastOfBatch = false
  pweth.batchId = 0
  pweth.batchIndex = 0
  pweth.batchCount = 1
}

/** Has the queue pair a record on its way to another DPU? */
export function isRelaying(state: RequestState, qp: QueuePair): boolean {
  const { passengers } = state.relays
  for (let i = 0; i < STAGING_BUFFERS; i++) if (passengers[i]!.qp === qp) return true
  return false
}

function relayedAt(buffer: number): number {
  return STAGING_AT + buffer * STAGING_BYTES + SLOT_HEADER_BYTES
}

const PASSENGERS: WorkOwner = {
  received() {},
  done(state: BoardState & RequestState, work: Work, request: Request) {
    const passenger = state.relays.passengers[work.item]!
    passenger.done = true
    state.relays.arrived += 1
    const answered = request.status === 'SUCCESS' || request.status === 'GENERAL_ERR'
    passenger.status = answered ? request.refusal : UNKNOWN
    passenger.copies = packCopies(request.copies, request.mechanism)
  },
}

/** Status of a record of which DPU B has said nothing. */
const UNKNOWN = -1

/** Tells the hosts what became of their records, and frees the buffers. */
export function serveRelays(state: ServeContext): void {
  const { relays } = state
  for (let i = 0; i < STAGING_BUFFERS && relays.arrived > 0; i++) {
    const passenger = relays.passengers[i]!
    if (passenger.qp === null || !passenger.done) continue
    relays.arrived -= 1
    tellPassenger(state, passenger, passenger.qp)
    passenger.qp = null
    state.stagingOwner[i] = -1
  }
}

function tellPassenger(state: GroupContext, passenger: Passenger, qp: QueuePair): void {
  if (qp.state !== STATE_OPEN || state.queuePairs.places[qp.index] !== qp) return
  const { psn, operationHigh, operationLow, status, copies } = passenger
  if (status === UNKNOWN) {
    refuseQueuePair(state, qp, psn, NOT_DURABLE)
    return
  }
  remember(qp, psn, operationHigh, operationLow, status, copies)
  if (status === 0) countPassenger(state, passenger)
  if (status === 0 && !passenger.wantsAck) return
  answerRecord(state, qp, psn, operationHigh, operationLow, status, copies)
}

/** It is durable over there; of a relay that has ended since, nobody asks. */
function countPassenger(state: MemoryState & BurstState, passenger: Passenger): void {
  const { region, length, sinceUs } = passenger
  const { index } = region!
  if (state.regions.places[index] === region) noteDurable(state.figures, index, sinceUs, 1, length)
}
