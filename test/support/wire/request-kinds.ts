/** The kinds of request that every peer of the usual sort knows, and how a test sees them end. */

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
} from '../../../firmware/transport/requester.ts'
import type { Peer } from '../peers/requester-peer.ts'

export const KINDS: readonly [string, RequestKind][] = [
  ['WRITE_PERSIST', WRITE_PERSIST],
  ['WRITE', WRITE],
  ['WRITE with immediate', WRITE_IMM],
  ['SEND', SEND],
  ['SEND with immediate', SEND_IMM],
  ['SEND with invalidate', SEND_INV],
  ['READ', READ],
  ['FETCH_ADD', FETCH_ADD],
  ['COMPARE_SWAP', COMPARE_SWAP],
  ['FLUSH', FLUSH],
  ['ATOMIC_WRITE', ATOMIC_WRITE],
  ['PERSIST_QUERY', PERSIST_QUERY],
]

/** The lines of the story that say how a request ended. */
export function ends(p: Peer): string[] {
  return p.story.filter((line) => /^[A-Z]/.test(line))
}
