// hot path
/**
 * Which opcode a packet of a request has: by the kind of the request, and by its place in it.
 *
 * What always holds: a request of one packet is Only, whatever its kind; a message's immediate
 * data, or the key that it invalidates, stands in its last packet (IBTA 9.4.2, 9.4.3).
 */

import {
  PERSIST_QUERY as OPCODE_PERSIST_QUERY,
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
  ATOMIC_WRITE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  PERSIST_QUERY,
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
const BY_KIND = new Uint8Array(13 * 4)

function kind(of: RequestKind, first: number, middle: number, last: number, only: number): void {
  BY_KIND[of * 4 + FIRST] = first
  BY_KIND[of * 4 + MIDDLE] = middle
  BY_KIND[of * 4 + LAST] = last
  BY_KIND[of * 4 + ONLY] = only
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
kind(READ, RC_READ_REQUEST, RC_READ_REQUEST, RC_READ_REQUEST, RC_READ_REQUEST)
kind(FETCH_ADD, RC_FETCH_ADD, RC_FETCH_ADD, RC_FETCH_ADD, RC_FETCH_ADD)
kind(COMPARE_SWAP, RC_COMPARE_SWAP, RC_COMPARE_SWAP, RC_COMPARE_SWAP, RC_COMPARE_SWAP)
kind(FLUSH, RC_FLUSH, RC_FLUSH, RC_FLUSH, RC_FLUSH)
kind(ATOMIC_WRITE, RC_ATOMIC_WRITE, RC_ATOMIC_WRITE, RC_ATOMIC_WRITE, RC_ATOMIC_WRITE)
const QUERY = OPCODE_PERSIST_QUERY
kind(PERSIST_QUERY, QUERY, QUERY, QUERY, QUERY)

/** The opcode of packet `index` of a request of that kind and so many packets. */
export function requestOpcode(of: RequestKind, index: number, packetCount: number): number {
  let place = MIDDLE
  if (packetCount === 1) place = ONLY
  else if (index === 0) place = FIRST
  else if (index === packetCount - 1) place = LAST
  return BY_KIND[of * 4 + place]!
}
