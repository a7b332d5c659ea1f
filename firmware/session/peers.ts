/**
 * The list of peers: who may come to the card, from its start on, and as admins change it.
 *
 * Invariants:
 * - Board and firmware have the same list. The board keeps a change first, durably; where it does
 *   not, nothing has changed.
 * - A place is of one peer while it is there. Who leaves it has no session any more, and whoever
 *   has the queue pairs closes them in the same call (manage/peers.ts), so nothing of the one is
 *   the next one's.
 * - A card that has peers always has one: it never becomes open. Of admins one stays, or nobody
 *   could change the list any more.
 * - No two peers have clients of one id: whoever could be a client of another would be told what is
 *   the other's (sessions.ts, clientTagOf).
 * - A line for the board has no blank, and no end of a line, but those that part its words: a name
 *   has neither, and the name of a region is percent-encoded.
 */

import { runAlone } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import {
  type Fault,
  LAST_ADMIN,
  NO_PEER,
  PASS,
  PEER_TAKEN,
  PEERS_FIXED,
  PEERS_FULL,
  REQUEST,
} from '../board/fault.ts'
import { BAD_COMMAND, DONE, KEEP_PEER, type Peer } from '../board/hal.ts'
import { PEER_REGIONS, PEERS } from '../board/limits.ts'
import { PEER_LINE_AT } from '../board/memory-map.ts'
import { regionNameFrom } from '../medium/region-name.ts'
import type { SessionState, Sessions } from './context.ts'
import { clientTag } from './sealed.ts'

/** Stands at a place that nobody has. */
const NOBODY: Peer = { key: [], name: '', admin: false, read: [], write: [] }

/** Names are told as text, and kept as regions have theirs: a character for each byte. */
export function withNames({ key, name, admin, read, write }: Peer): Peer {
  const names = { read: read.map(regionNameFrom), write: write.map(regionNameFrom) }
  return { key, name: regionNameFrom(name), admin, ...names }
}

/** The place is that peer's. */
export function putPeer(sessions: Sessions, place: number, peer: Peer): void {
  sessions.peers[place] = peer
  sessions.tags[place] = clientTag(sessions.primitives, new Uint8Array(peer.key))
}

/** The place of the peer that has this key; -1 if none has. */
export function peerOf({ peers }: Sessions, key: ArrayLike<number>): number {
  return peers.findIndex((peer) => isSomebody(peer) && peer.key.every((byte, i) => byte === key[i]))
}

/** The first place from that one on that somebody has; -1 if there is none. */
export function peerFrom({ peers }: Sessions, place: number): number {
  return peers.findIndex((peer, i) => i >= place && isSomebody(peer))
}

function isSomebody(peer: Peer): boolean {
  return peer !== NOBODY
}

/**
 * One more peer may come, at the next free place. Faults: REQUEST, PEER_TAKEN, PEERS_FULL,
 * PEERS_FIXED.
 */
export function addPeer(state: BoardState & SessionState, peer: Peer): Fault {
  const { sessions } = state
  const { peers } = sessions
  if (!hasRights(peer)) return REQUEST
  const sameName = peers.some((other) => isSomebody(other) && other.name === peer.name)
  // The same key, or one that was looked for until its clients could be those of another peer.
  const tag = clientTag(sessions.primitives, new Uint8Array(peer.key))
  if (sameName || isTagOfPeer(state, tag)) return PEER_TAKEN
  const place = placeOfNewcomer(sessions)
  if (place < 0) return PEERS_FULL
  const fault = keepPeers(state, lineOf(peer), true)
  if (fault === PASS) putPeer(sessions, place, peer)
  return fault
}

/** Where the next peer goes; -1 if all places are taken. */
function placeOfNewcomer({ peers }: Sessions): number {
  const left = peers.findIndex((peer) => !isSomebody(peer))
  if (left >= 0) return left
  return peers.length < PEERS ? peers.length : -1
}

/**
 * The peer at that place comes no more: its sessions have ended. Faults: LAST_ADMIN, PEERS_FIXED.
 */
export function removePeer(state: BoardState & SessionState, place: number): Fault {
  const { sessions } = state
  const { peers, places } = sessions
  const { admin, key } = peers[place]!
  const others = peers.filter((peer, i) => i !== place && isSomebody(peer))
  if (others.length === 0 || (admin && !others.some((other) => other.admin))) return LAST_ADMIN
  const fault = keepPeers(state, hexOf(key), false)
  if (fault !== PASS) return fault === REQUEST ? NO_PEER : fault
  peers[place] = NOBODY
  sessions.tags[place] = -1
  for (let i = 0; i < places.length; i++) if (places[i]?.peer === place) places[i] = null
  return PASS
}

/** An admin may do everything; anybody else has one right at the least, and one in each region. */
function hasRights({ admin, read, write }: Peer): boolean {
  const regions = [...read, ...write]
  if (admin) return regions.length === 0
  const isTwice = regions.some((region, i) => regions.indexOf(region) < i)
  return regions.length > 0 && regions.length <= PEER_REGIONS && !isTwice
}

/** Is that the upper half of the id of a client of some peer? */
export function isTagOfPeer({ sessions }: SessionState, clientHigh: number): boolean {
  return sessions.tags.includes(clientHigh)
}

/** Has the board keep the change. */
function keepPeers(state: BoardState, text: string, stays: boolean): Fault {
  const { bytes, list } = state
  for (let i = 0; i < text.length; i++) bytes[PEER_LINE_AT + i] = text.charCodeAt(i)
  const outcome = runAlone(list, KEEP_PEER, PEER_LINE_AT, 0, text.length, stays ? 1 : 0)
  if (outcome === DONE) return PASS
  return outcome === BAD_COMMAND ? REQUEST : PEERS_FIXED
}

/** Its line in a peers file, a character for each byte. */
function lineOf({ key, name, admin, read, write }: Peer): string {
  const rights = admin ? ['admin'] : [...read.map(right('read')), ...write.map(right('write'))]
  return [hexOf(key), name, ...rights].join(' ')
}

function right(verb: string): (region: string) => string {
  return (region) => `${verb}:${region === '*' ? region : encoded(region)}`
}

/** Percent-encoded, but for letters and digits. */
function encoded(region: string): string {
  let text = ''
  for (let i = 0; i < region.length; i++) {
    const byte = region.charCodeAt(i)
    text += /[A-Za-z0-9]/.test(region[i]!) ? region[i]! : `%${hexOf([byte])}`
  }
  return text
}

function hexOf(bytes: readonly number[]): string {
  return bytes.map((byte) => (byte < 16 ? '0' : '') + byte.toString(16)).join('')
}
