/**
 * The control call by which our own host asks what the card has heard of the memory at a peer
 * (wire/management.ts, 0x75; source 5, P5-2, P5-11).
 *
 * Invariant: asking changes nothing but that the host is told of the next change again; the
 * states in one answer are those of one moment.
 */

import { type Fault, KEY, PASS, REQUEST } from '../board/fault.ts'
import { WATCHES } from '../board/limits.ts'
import type { QueueState } from '../burst/context.ts'
import type { Watch } from '../host/work.ts'
import { putU32, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import { BLOCK_READY } from '../wire/memory-status.ts'
import type { Call } from './call.ts'

export function residency(call: Call): Fault {
  const { state, bytes, at, to } = call
  const first = u32(bytes, at + mad.RESIDENCY_FIRST)
  const queue = u32(bytes, at + mad.RESIDENCY_QUEUE)
  const watch = watchOn(state, queue, u32(bytes, at + mad.RESIDENCY_RKEY))
  if (watch === null) return KEY
  const { blocks } = watch
  if (first >= blocks.count) return REQUEST
  if (first === 0) {
    watch.isTold = false
    watch.revision = blocks.revision
  }
  const { counts } = blocks
  const here = Math.min(mad.RESIDENCY_BLOCKS_PER_MAD, blocks.count - first)
  bytes.fill(0, to + mad.RESIDENCY_PHASE, to + mad.MAD_BODY_BYTES)
  bytes[to + mad.RESIDENCY_PHASE] = blocks.phase
  bytes[to + mad.RESIDENCY_BLOCK_SIZE] = blocks.sizeLog2
  bytes[to + mad.RESIDENCY_HEALTH] = blocks.health
  putU32(bytes, to + mad.RESIDENCY_SEQUENCE, blocks.sequence)
  putU32(bytes, to + mad.RESIDENCY_INCARNATION, blocks.incarnation)
  putU32(bytes, to + mad.RESIDENCY_BLOCKS, blocks.count)
  putU32(bytes, to + mad.RESIDENCY_READY, blocks.ready)
  putU32(bytes, to + mad.RESIDENCY_NOTICES, counts.notices)
  putU32(bytes, to + mad.RESIDENCY_GAPS, counts.gaps)
  putU32(bytes, to + mad.RESIDENCY_ASKED, counts.asked)
  putU32(bytes, to + mad.RESIDENCY_HINTS, counts.hints)
  putU32(bytes, to + mad.RESIDENCY_SPARED, counts.spared)
  putU32(bytes, to + mad.RESIDENCY_HERE, here)
  for (let i = 0; i < here; i++) {
    if (blocks.states[first + i] !== BLOCK_READY) continue
    bytes[to + mad.RESIDENCY_STATES + (i >> 3)]! |= 0x80 >> (i & 7)
  }
  return PASS
}

/** What that send queue follows under that key, or null. */
function watchOn(state: QueueState, queue: number, rkey: number): Watch | null {
  const { watches } = state.hostWork
  for (let i = 0; i < WATCHES; i++) {
    const watch = watches[i]!
    if (watch.pair !== null && watch.pair.send === queue && watch.rkey === rkey) return watch
  }
  return null
}
