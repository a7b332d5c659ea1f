// hot path
/**
 * Which opcode a packet of a request has: by the kind of the request, and by its place in it.
 *
 * Invariant: a request of one packet is Only, whatever its kind; a message's immediate
 * data, or the key that it invalidates, stands in its last packet (IBTA 9.4.2, 9.4.3).
 */

import {
  ASSOCIATE as OPCODE_ASSOCIATE,
  BLOCK_SIZE as OPCODE_BLOCK_SIZE,
  MEMORY_STATUS as OPCODE_MEMORY_STATUS,
  PERSIST_QUERY as OPCODE_PERSIST_QUERY,
  PREFETCH_HINT as OPCODE_PREFETCH_HINT,
  RC_ATOMIC_WRITE,
  RC_COMPARE_SWAP,
  RC_FETCH_ADD,
  RC_FLUSH,
  RC_READ_REQUEST,
  RC_SEND_FIRST,
  RC_SEND_LAST,
  RC_SEND_LAST_IMM,
  RC_SEND_LAST_INV,
  RC_SEND_MIDDLE,
  RC_SEND_ONLY,
  RC_SEND_ONLY_IMM,
  RC_SEND_ONLY_INV,
  RC_WRITE_FIRST,
  RC_WRITE_LAST,
  RC_WRITE_LAST_IMM,
  RC_WRITE_MIDDLE,
  RC_WRITE_ONLY,
  RC_WRITE_ONLY_IMM,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../wire/opcode.ts'
import {
  ASSOCIATE,
  ATOMIC_WRITE,
  BLOCK_SIZE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  MEMORY_STATUS,
  PERSIST_QUERY,
  PREFETCH_HINT,
  READ,
  type RequestKind,
  SEND,
  SEND_IMM,
  SEND_INV,
  WRITE,
  WRITE_IMM,
  WRITE_PERSIST,
} from './requester.ts'

const FIRST = 0
const MIDDLE = 1
const LAST = 2
const ONLY = 3

/** Four opcodes for each kind: First, Middle, Last, Only. */
const BY_KIND = new Uint8Array(17 * 4)

function kind(of: RequestKind, first: number, middle: number, last: number, only: number): void {
  BY_KIND[of * 4 + FIRST] = first
  BY_KIND[of * 4 + MIDDLE] = middle
  BY_KIND[of * 4 + LAST] = last
  BY_KIND[of * 4 + ONLY] = only
}

/** A request that has one opcode, wherever a packet of it stands. */
function whole(of: RequestKind, opcode: number): void {
  kind(of, opcode, opcode, opcode, opcode)
}

kind(
  WRITE_PERSIST,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_ONLY,
)
kind(WRITE, RC_WRITE_FIRST, RC_WRITE_MIDDLE, RC_WRITE_LAST, RC_WRITE_ONLY)
kind(WRITE_IMM, RC_WRITE_FIRST, RC_WRITE_MIDDLE, RC_WRITE_LAST_IMM, RC_WRITE_ONLY_IMM)
kind(SEND, RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST, RC_SEND_ONLY)
kind(SEND_IMM, RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST_IMM, RC_SEND_ONLY_IMM)
kind(SEND_INV, RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST_INV, RC_SEND_ONLY_INV)
whole(READ, RC_READ_REQUEST)
whole(FETCH_ADD, RC_FETCH_ADD)
whole(COMPARE_SWAP, RC_COMPARE_SWAP)
whole(FLUSH, RC_FLUSH)
whole(ATOMIC_WRITE, RC_ATOMIC_WRITE)
whole(PERSIST_QUERY, OPCODE_PERSIST_QUERY)
whole(ASSOCIATE, OPCODE_ASSOCIATE)
whole(BLOCK_SIZE, OPCODE_BLOCK_SIZE)
whole(PREFETCH_HINT, OPCODE_PREFETCH_HINT)
whole(MEMORY_STATUS, OPCODE_MEMORY_STATUS)

/** The opcode of packet `index` of a request of that kind and so many packets. */
export function requestOpcode(of: RequestKind, index: number, packetCount: number): number {
  let place = MIDDLE
  if (packetCount === 1) place = ONLY
  else if (index === 0) place = FIRST
  else if (index === packetCount - 1) place = LAST
  return BY_KIND[of * 4 + place]!
}
