/**
 * The calls that tell and change who may come: PEERS, ADD_PEER, REMOVE_PEER (wire/management.ts).
 *
 * Invariants:
 * - A peer that has more regions than one datagram has room for is told in several, by one who
 *   asks, in their order. It may come when it was told whole, and not before. One is told at a
 *   time: who begins another one ends it.
 * - Who is removed has neither session nor queue pair when that is answered. What was acknowledged
 *   to him stays durable; what was under way has no answer.
 * - A peer that comes to a place hears none of the answers that were given to the one before.
 */

import { type Fault, NO_PEER, OPEN_CARD, PASS, REQUEST } from '../board/fault.ts'
import type { Peer } from '../board/hal.ts'
import { PEER_REGIONS, QUEUE_PAIRS } from '../board/limits.ts'
import { closePair } from '../burst/staging.ts'
import { isRegionName, regionNameOf } from '../medium/region-name.ts'
import type { PeerDraft } from '../session/context.ts'
import { addPeer, peerFrom, peerOf, removePeer } from '../session/peers.ts'
import { hasPeers } from '../session/sessions.ts'
import * as mad from '../wire/management.ts'
import { askerOf, peerSource } from './access.ts'
import type { Call } from './call.ts'

const KEY_BYTES = mad.PEER_NAME - mad.PEER_KEY

/** The first peer from a place on. */
export function listPeer(call: Call): Fault {
  const { state, bytes, at, to, modifier } = call
  if (!hasPeers(state)) return OPEN_CARD
  const from = bytes[at + mad.PEER_REGIONS_FROM]!
  const place = peerFrom(state.sessions, modifier)
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  if (place < 0) return PASS
  const { key, name, admin, read, write } = state.sessions.peers[place]!
  const regions = [...read, ...write]
  const here = regions.slice(from, from + mad.PEER_REGIONS_PER_MAD)
  bytes.set(key, to + mad.PEER_KEY)
  putName(bytes, to + mad.PEER_NAME, name)
  bytes[to + mad.PEER_PLACE] = place
  bytes[to + mad.PEER_RIGHTS] = admin ? mad.RIGHTS_ADMIN : 0
  bytes[to + mad.PEER_REGIONS_TOTAL] = regions.length
  bytes[to + mad.PEER_REGIONS_FROM] = from
  bytes[to + mad.PEER_REGIONS_HERE] = here.length
  here.forEach((region, i) => {
    const entry = to + mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
    bytes[entry] = from + i < read.length ? mad.PEER_MAY_READ : mad.PEER_MAY_WRITE
    putName(bytes, entry + mad.PEER_REGION_NAME, region)
  })
  return PASS
}

function putName(bytes: Uint8Array, at: number, name: string): void {
  for (let i = 0; i < name.length; i++) bytes[at + i] = name.charCodeAt(i)
}

/** One more peer may come, from now on. */
export function admitPeer(call: Call): Fault {
  const { state } = call
  const { sessions } = state
  if (!hasPeers(state)) return OPEN_CARD
  const draft = draftOf(call)
  sessions.draft = draft
  if (draft === null) return REQUEST
  if (draft.told < draft.regions) return PASS
  sessions.draft = null
  const fault = addPeer(state, draft.peer)
  if (fault === PASS) forgetAnswers(call, peerOf(sessions, draft.peer.key))
  return fault
}

/** What is told of a peer with this datagram; null if that is none, or none that goes on. */
function draftOf(call: Call): PeerDraft | null {
  const { bytes, at } = call
  const from = bytes[at + mad.PEER_REGIONS_FROM]!
  const here = bytes[at + mad.PEER_REGIONS_HERE]!
  const draft = from === 0 ? newDraft(call) : sameDraft(call, from)
  if (draft === null || here > mad.PEER_REGIONS_PER_MAD || from + here > draft.regions) return null
  // Who has more to tell tells something.
  if (here === 0 && draft.regions > 0) return null
  const peer = { ...draft.peer, read: [...draft.peer.read], write: [...draft.peer.write] }
  for (let i = 0; i < here; i++) {
    const entry = at + mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
    const right = bytes[entry]!
    if (right !== mad.PEER_MAY_READ && right !== mad.PEER_MAY_WRITE) return null
    if (!isRegionName(bytes, entry + mad.PEER_REGION_NAME)) return null
    const region = regionNameOf(bytes, entry + mad.PEER_REGION_NAME)
    if (right === mad.PEER_MAY_READ) peer.read.push(region)
    else peer.write.push(region)
  }
  return { ...draft, peer, told: from + here }
}

function newDraft(call: Call): PeerDraft | null {
  const { bytes, at } = call
  const regions = bytes[at + mad.PEER_REGIONS_TOTAL]!
  const rights = bytes[at + mad.PEER_RIGHTS]!
  // It has the length of a region's, and its form, but for the blank.
  const isName = isRegionName(bytes, at + mad.PEER_NAME)
  const name = regionNameOf(bytes, at + mad.PEER_NAME)
  if (!isName || name.includes(' ') || regions > PEER_REGIONS || rights > mad.RIGHTS_ADMIN) {
    return null
  }
  const peer: Peer = { key: keyAt(call), name, admin: rights !== 0, read: [], write: [] }
  return { from: askerOf(call), peer, told: 0, regions }
}

/** The draft that goes on with its region number `from`. */
function sameDraft(call: Call, from: number): PeerDraft | null {
  const { draft } = call.state.sessions
  if (draft === null || draft.from !== askerOf(call) || draft.told !== from) return null
  return keyAt(call).every((byte, i) => byte === draft.peer.key[i]) ? draft : null
}

function keyAt({ bytes, at }: Call): number[] {
  return [...bytes.slice(at + mad.PEER_KEY, at + mad.PEER_KEY + KEY_BYTES)]
}

function forgetAnswers({ state }: Call, place: number): void {
  const { answered } = state
  const source = peerSource(place)
  for (let i = answered.length - 1; i >= 0; i--) {
    if (answered[i]!.source === source) answered.splice(i, 1)
  }
}

/** A peer comes no more, and what it has here ends at once. */
export function dismissPeer(call: Call): Fault {
  const { state } = call
  if (!hasPeers(state)) return OPEN_CARD
  const place = peerOf(state.sessions, keyAt(call))
  if (place < 0) return NO_PEER
  const fault = removePeer(state, place)
  if (fault !== PASS) return fault
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp !== null && qp.peer === place) closePair(state, qp)
  }
  return PASS
}
