/**
 * What a peer may do with which region.
 *
 * Invariant: rights go by name: who removes a region and makes another one of that name has given
 * its peers the new one; that is an admin.
 */

import type { Peer } from '../board/hal.ts'

/** Every region. */
const EVERY = '*'

function names(list: readonly string[], region: string): boolean {
  return list.includes(EVERY) || list.includes(region)
}

export function mayWrite({ admin, write }: Peer, region: string): boolean {
  return admin || names(write, region)
}

/** Who may write a region may read it. */
export function mayRead(peer: Peer, region: string): boolean {
  return mayWrite(peer, region) || names(peer.read, region)
}
