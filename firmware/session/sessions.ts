/**
 * The sessions of a card: who has made a handshake, and which datagrams are whose.
 *
 * Invariants:
 * - A session is its peer's: whoever has its keys has had the secret key of the peer and an
 *   ephemeral key of that handshake.
 * - A session that was never heard grants nothing and goes first: first messages that come again
 *   push out nobody who has spoken. Of the others the one goes that was heard longest ago, of the
 *   peer that has most: no peer pushes out those of others while it has more.
 * - The id of a session names its place; the rest of it is drawn, so that one of before names none.
 * - A message that comes again in another life of the card makes another session: when it came is
 *   stirred in, as nothing else tells apart the lives of a part that does not serve (fault L6).
 */

import type { BoardState } from '../board/context.ts'
import {
  COOKIE,
  type Fault,
  HANDSHAKE,
  NO_SESSION,
  OPEN_CARD,
  PASS,
  PEER_UNKNOWN,
  SEAL_BROKEN,
} from '../board/fault.ts'
import { SESSION_US, SESSIONS } from '../board/limits.ts'
import { drawBytes, random32, stir } from '../board/random.ts'
import { putU32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import type { Session, SessionState, Sessions } from './context.ts'
import { asksForCookie, createCookies } from './cookies.ts'
import {
  FIRST_BYTES,
  type Handshake,
  KEY_BYTES,
  type KeyPair,
  keyPairOf,
  type Primitives,
  readPayload,
  readSender,
  responder,
  split,
  writeSecond,
} from './noise.ts'
import { peerOf, putPeer, withNames } from './peers.ts'
import { createRefusals } from './refusals.ts'
import { createSeal, openDatagram, PROLOGUE, sessionIdAt } from './sealed.ts'

export function createSessions(primitives: Primitives): Sessions {
  const places: Sessions['places'] = new Array(SESSIONS).fill(null)
  const counted = { cookies: createCookies(), refusals: createRefusals() }
  return {
    primitives,
    own: null,
    peers: [],
    tags: [],
    draft: null,
    stockRegions: 0,
    places,
    ...counted,
  }
}

/** At power-on: the keys of the card, and its peers, as the board states them. */
export function admitPeers({ sessions, facts }: BoardState & SessionState): void {
  const { identity } = facts
  if (identity === undefined) return
  sessions.own = keyPairOf(sessions.primitives, new Uint8Array(identity.secret))
  for (const [place, peer] of identity.peers.entries()) putPeer(sessions, place, withNames(peer))
}

/** Does the card take calls of its peers only? */
export function hasPeers({ sessions }: SessionState): boolean {
  return sessions.own !== null
}

/** Stands for a key until one is drawn: who sends what is no message costs us none. */
const NO_PAIR: KeyPair = { secret: new Uint8Array(0), public: new Uint8Array(0) }

/**
 * Answers the first message of a handshake at `at`: the second one goes to `to`. The session that
 * it makes grants nothing before it is heard. Faults: OPEN_CARD, COOKIE, HANDSHAKE, PEER_UNKNOWN.
 */
export function answerHandshake(
  state: BoardState & SessionState,
  source: string,
  at: number,
  to: number,
): Fault {
  const { sessions, bytes } = state
  const { primitives, own } = sessions
  if (own === null) return OPEN_CARD
  if (asksForCookie(state, source, at + mad.HANDSHAKE_COOKIE, to)) return COOKIE
  const handshake = responder(primitives, own, NO_PAIR, PROLOGUE)
  const message = bytes.slice(at, at + FIRST_BYTES)
  if (readSender(handshake, message) === null) return HANDSHAKE
  const peer = peerOf(sessions, handshake.remote)
  if (peer < 0) return PEER_UNKNOWN
  if (readPayload(handshake, message) === null) return HANDSHAKE
  const { nowUs } = state.connections
  stir(state, [nowUs | 0, Math.floor(nowUs / 2 ** 32)])
  handshake.ephemeral = keyPairOf(primitives, drawBytes(state, KEY_BYTES))
  return makeSession(state, handshake, peer, to)
}

function makeSession(
  state: BoardState & SessionState,
  handshake: Handshake,
  peer: number,
  to: number,
): Fault {
  const { sessions, bytes } = state
  const place = placeOfNext(state)
  // The lower bits name the place (SESSIONS is a power of two), the others are drawn.
  const id = ((random32(state) & -SESSIONS) | place) >>> 0
  const payload = new Uint8Array(mad.HANDSHAKE_PAYLOAD_BYTES)
  putU32(payload, mad.HANDSHAKE_SESSION, id)
  putU32(payload, mad.HANDSHAKE_INCARNATION, state.incarnation)
  payload[mad.HANDSHAKE_RIGHTS] = sessions.peers[peer]!.admin ? mad.RIGHTS_ADMIN : 0
  const message = writeSecond(handshake, payload)
  const seal = createSeal(id, split(handshake, false))
  const times = { sinceUs: state.connections.nowUs, heardUs: -1 }
  sessions.places[place] = { ...seal, peer, ...times }
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  bytes.set(message, to)
  return PASS
}

/** The place for one more session: a free one, or that of the one that goes. */
function placeOfNext(state: BoardState & SessionState): number {
  const { places } = state.sessions
  const free = places.findIndex((one) => one === null || isOver(state, one))
  if (free >= 0) return free
  const unheard = oldestSession(
    places,
    (one) => one.heardUs < 0,
    ({ sinceUs }) => sinceUs,
  )
  if (unheard >= 0) return unheard
  const most = peerOfMost(places)
  return oldestSession(
    places,
    (one) => one.peer === most,
    ({ heardUs }) => heardUs,
  )
}

function oldestSession(
  places: Sessions['places'],
  isMeant: (one: Session) => boolean,
  timeOf: (one: Session) => number,
): number {
  let found = -1
  for (let i = 0; i < places.length; i++) {
    const one = places[i]!
    if (!isMeant(one)) continue
    if (found < 0 || timeOf(one) < timeOf(places[found]!)) found = i
  }
  return found
}

/** The peer with the most sessions: of several the first one. */
function peerOfMost(places: Sessions['places']): number {
  const counts = new Map<number, number>()
  for (const one of places) counts.set(one!.peer, (counts.get(one!.peer) ?? 0) + 1)
  const most = Math.max(...counts.values())
  return [...counts].find(([, count]) => count === most)![0]
}

function isOver({ connections }: BoardState, { sinceUs }: Session): boolean {
  return connections.nowUs - sinceUs > SESSION_US
}

/**
 * Opens the sealed datagram at `at`. The session that it came in, or NO_SESSION, SEAL_BROKEN: then
 * nothing has changed.
 */
export function openSealed(state: BoardState & SessionState, at: number): Session | Fault {
  const { sessions, bytes } = state
  const id = sessionIdAt(bytes, at)
  const session = sessions.places[id & (SESSIONS - 1)] ?? null
  if (session === null || session.id !== id || isOver(state, session)) return NO_SESSION
  if (!openDatagram(sessions.primitives, session, bytes, at)) return SEAL_BROKEN
  session.heardUs = state.connections.nowUs
  return session
}

/**
 * Upper half of the ids that clients of that peer have: the first 32 bits of the SHA-256 of its
 * key. The part takes an operation that it knows of a client for its repetition (D-6), and ids of
 * clients stand in records: so nobody but a peer may be one of its clients.
 */
export function clientTagOf({ sessions }: SessionState, session: Session): number {
  return sessions.tags[session.peer]!
}
