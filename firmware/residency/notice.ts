// hot path
/**
 * Notices: what MEMORY_STATUS says of an association (P5-2, P5-19, P5-24, P5-26, P5-28; D-12).
 *
 * Invariant: a message carries the size of the blocks that it is about, so it means the
 * same whatever is agreed when it comes; its sequence is one more than that of the message before,
 * so a requester sees that one is missing. A message of changes has at most as many entries as was
 * agreed, and leaves in the order in which blocks changed first; the status as it is now is a
 * bitmap, of as many blocks as the packet holds. More is announced where more is to come, and then
 * it does come.
 */

import { putU32 } from '../wire/bytes.ts'
import {
  BLOCK_NOT_READY,
  BLOCK_READY,
  ENTRY_BYTES,
  FORM_BITMAP,
  FORM_LIST,
  type Mseth,
  STATUS_CHANGE,
  STATUS_CURRENT,
  STATUS_RESET,
} from '../wire/memory-status.ts'
import {
  type Association,
  askCurrent,
  isBlockReady,
  takeChanged,
  tellBlock,
} from './association.ts'

/**
 * Composes the message that is to be sent now (`tellsAtUs`): the header into `into`, all but
 * incarnation and health, the entries at `at`, `room` bytes at the most. Returns their length.
 */
export function composeNotice(
  a: Association,
  into: Mseth,
  bytes: Uint8Array,
  at: number,
  room: number,
): number {
  a.sequence = (a.sequence + 1) >>> 0
  into.rkey = a.rkey
  into.sequence = a.sequence
  into.blockSizeLog2 = a.sizeLog2
  into.firstBlock = 0
  into.entries = 0
  into.form = FORM_LIST
  into.positive = false
  into.negative = false
  into.more = false
  if (a.endKind !== 0) return composeEnd(a, into)
  if (a.currentAt >= 0) return composeCurrent(a, into, bytes, at, room)
  return composeChanges(a, into, bytes, at, room)
}

/** Forget what you know of this region. Where it begins again, all of it is told behind this. */
function composeEnd(a: Association, into: Mseth): number {
  into.kind = a.endKind
  into.negative = a.endKind !== STATUS_RESET
  a.endKind = 0
  if (into.kind === STATUS_RESET) askCurrent(a)
  return 0
}

function composeCurrent(
  a: Association,
  into: Mseth,
  bytes: Uint8Array,
  at: number,
  room: number,
): number {
  const first = a.currentAt
  const fit = room * 8
  const entries = a.blocks - first < fit ? a.blocks - first : fit
  const length = (entries + 7) >> 3
  bytes.fill(0, at, at + length)
  for (let i = 0; i < entries; i++) {
    tellBlock(a, first + i)
    if (isBlockReady(a, first + i)) bytes[at + (i >> 3)]! |= 0x80 >> (i & 7)
  }
  into.kind = STATUS_CURRENT
  into.form = FORM_BITMAP
  into.firstBlock = first
  into.entries = entries
  into.more = first + entries < a.blocks
  into.positive = a.ready === a.blocks
  into.negative = !into.positive
  a.currentAt = into.more ? first + entries : -1
  if (a.dirty === 0) settled(a)
  return length
}

function composeChanges(
  a: Association,
  into: Mseth,
  bytes: Uint8Array,
  at: number,
  room: number,
): number {
  const fit = Math.floor(room / ENTRY_BYTES)
  const most = a.maximum < fit ? a.maximum : fit
  let entries = 0
  while (entries < most) {
    const block = takeChanged(a)
    if (block < 0) break
    const to = at + entries * ENTRY_BYTES
    putU32(bytes, to, block)
    bytes[to + 4] = isBlockReady(a, block) ? BLOCK_READY : BLOCK_NOT_READY
    entries += 1
  }
  into.kind = STATUS_CHANGE
  into.entries = entries
  into.more = a.dirty > 0
  settled(a)
  a.promised = into.more
  return entries * ENTRY_BYTES
}

/** Everything is told: the next change begins a period. */
function settled(a: Association): void {
  a.actions = 0
  a.dueUs = Infinity
}
