// hot path
/**
 * What storage has against a record (D-13, D-14): it is refused by a status, and the queue pair
 * lives.
 *
 * Invariant: a fault is found before anything of the record is stored; PASS is no promise
 * for later, as what is committed meanwhile may close the part or unsettle the region.
 */

import { isArmed } from '../board/context.ts'
import {
  type Fault,
  FIXED_LENGTH as FIXED_LENGTH_FAULT,
  FLUSH,
  LEVEL,
  NO_AGENT,
  NOT_ARMED,
  PASS,
  PLACEMENT_UNKNOWN,
  READ_ONLY,
  RECORD_LENGTH,
  SLOT,
} from '../board/fault.ts'
import { ARMED, HEALTH_AT, SAVE_FAILED } from '../board/hal.ts'
import { RECORD_BYTES_MAX } from '../board/limits.ts'
import { isSafe } from '../burst/burst.ts'
import type { ThroughContext, ThroughState } from '../burst/context.ts'
import { FLUSHED, isBeingMade } from '../burst/through-job.ts'
import type { CommitState } from '../commit/context.ts'
import { placeFault } from '../commit/proof.ts'
import {
  FIXED_LENGTH,
  KIND_BYTES,
  KIND_RECORDS,
  PLACEMENT_LOCAL,
  PLACEMENT_RELAY,
  PLACEMENT_THROUGH,
  type Region,
  WRITE_PERSIST_REGION,
} from '../medium/region.ts'
import type { Ask } from '../transport/message.ts'

/** What storage has against the record, or against plain bytes or a message of a batch. */
export function storageFault(state: ThroughContext, ask: Ask, region: Region): Fault {
  if (region.kind !== KIND_RECORDS) return bytesMemberFault(state, ask, region)
  if (ask.slot >= region.slots) return SLOT
  if (ask.length > region.capacity) return RECORD_LENGTH
  if ((region.flags & FIXED_LENGTH) !== 0 && ask.length !== region.capacity) {
    return FIXED_LENGTH_FAULT
  }
  if (ask.wait > region.copies) return LEVEL
  return healthFault(state, region)
}

/** What storage has against plain bytes, or a message: they are one copy, and collected before. */
function bytesMemberFault(state: ThroughContext, ask: Ask, region: Region): Fault {
  if (ask.length > RECORD_BYTES_MAX) return RECORD_LENGTH
  return ask.wait > region.copies ? LEVEL : healthFault(state, region)
}

/**
 * What there is against mending copies of a region now: looking for decayed ones, formatting. It
 * mends what is unsettled, too.
 */
export function mendFault(state: ThroughContext, region: Pick<Region, 'placement'>): Fault {
  if (state.commit.closed !== PASS) return state.commit.closed
  if (!isArmed(state)) return NOT_ARMED
  const { placement } = region
  if (placement === PLACEMENT_LOCAL) return PASS
  const placed = placeFault(state.proof, placement)
  return placed === PASS && placement === PLACEMENT_THROUGH ? agentFault(state) : placed
}

/** A part that did not fence takes nothing more (D-13); one that refused a store goes on. */
export function closeBy(state: CommitState, fault: Fault): Fault {
  if (fault === FLUSH || fault === NOT_ARMED) state.commit.closed = fault
  return fault
}

/**
 * By what every write into the region is refused now, whatever it is; PASS if by nothing. Of bytes
 * durability is asked for only where they are registered write-persist.
 */
export function writesFault(state: ThroughContext, region: Region): Fault {
  // It is not refused there, but waits.
  const waits = isBeingMade(state.through, region)
  if (region.kind === KIND_RECORDS) return unlessWaits(healthFault(state, region), waits)
  if (region.kind !== KIND_BYTES || region.placement === PLACEMENT_RELAY) return PASS
  const placed = placeFault(state.proof, region.placement)
  if (placed !== PASS || (region.flags & WRITE_PERSIST_REGION) === 0) return placed
  if (state.commit.closed !== PASS) return state.commit.closed
  if (!isSafe(state)) return NOT_ARMED
  if (region.placement !== PLACEMENT_THROUGH) return PASS
  return unlessWaits(hostFault(state, region), waits)
}

/** What comes again when its region is made is not refused. */
function unlessWaits(fault: Fault, waits: boolean): Fault {
  return fault === NO_AGENT && waits ? PASS : fault
}

/** D-13, D-14: a part that is not armed, or failed a save or a flush; an unsettled region. */
export function healthFault(state: ThroughContext, region: Region): Fault {
  // The health that counts is the other DPU's, and it is asked there.
  if (region.placement === PLACEMENT_RELAY) return PASS
  if (state.commit.closed !== PASS) return state.commit.closed
  if ((state.words[HEALTH_AT >> 2]! & (ARMED | SAVE_FAILED)) !== ARMED) return NOT_ARMED
  if (region.unsettled > 0) return READ_ONLY
  if (region.placement === PLACEMENT_LOCAL) return PASS
  // What waits for the host waits until its memory is shown: whoever can is told to show it.
  const fault = hostFault(state, region)
  return fault === PASS && region.pending > 0 ? READ_ONLY : fault
}

/** PASS while an agent is attached, as far as is known. */
function agentFault(state: ThroughState): Fault {
  return state.through.agent.attached ? PASS : NO_AGENT
}

/** Why a record in the host's memory is not taken now, or PASS. */
function hostFault(state: CommitState & ThroughState, region: Region): Fault {
  const fault = placeFault(state.proof, region.placement)
  if (fault !== PASS) return fault
  if (region.placement !== PLACEMENT_THROUGH) {
    return state.recovery.unscanned[region.index] === 0 ? PASS : PLACEMENT_UNKNOWN
  }
  const { agent, unflushed } = state.through
  return agent.attached && unflushed[region.index] === FLUSHED ? PASS : NO_AGENT
}
