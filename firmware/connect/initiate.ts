/**
 * The active side of connections in the firmware: a DPU connects to a peer, another DPU perhaps.
 *
 *   address ──▶ Ethernet address (resolve.ts) ─┬▶ REQ, REP, RTU (active.ts) ─────┬▶ queue pair
 *                                              └▶ session, CONNECT (entering.ts) ┘
 *
 * Invariants:
 * - The number of the queue pair is ours from the first message on: its place holds a silent queue
 *   pair until the peer says which is its own.
 * - One that was made in a session has tags before anything is sent from it.
 * - A link ends exactly once, with an event, and its owner hears of it; its number then rests.
 */

import { count } from '../board/context.ts'
import { SEAL_BROKEN } from '../board/fault.ts'
import { RESPONDER_RESOURCES } from '../board/limits.ts'
import { drawBytes, random32 } from '../board/random.ts'
import type { RefusalContext } from '../burst/context.ts'
import { failQueuePair, openPair } from '../burst/staging.ts'
import { noteRefusal } from '../session/refusals.ts'
import { relayedClient } from '../session/relayed.ts'
import { awaits } from '../session/visit.ts'
import { prepareTemplate, takeFrame } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import { agreedDepths, CARD_DEPTHS } from '../transport/depths.ts'
import { OWN_LINKS } from '../transport/places.ts'
import type { Psn } from '../transport/psn.ts'
import {
  HOLD_CONNECTED,
  HOLD_RESTING,
  type QueuePair,
  type QueuePairOptions,
  STATE_ERROR,
  STOCK_PEER,
} from '../transport/queue-pair.ts'
import { freeNumber } from '../transport/queue-pair-number.ts'
import { secureAs } from '../transport/tags.ts'
import {
  blankCapability,
  readCapability,
  writeCapability,
  writeClientDepths,
} from '../wire/capability.ts'
import * as cm from '../wire/cm.ts'
import { ETH_DESTINATION, ETH_SOURCE, ETHERNET_BYTES } from '../wire/ethernet.ts'
import { IPV4_BYTES, IPV4_DESTINATION, IPV4_SOURCE } from '../wire/ipv4.ts'
import { IPV6_DESTINATION, IPV6_SOURCE } from '../wire/ipv6.ts'
import { blankPacket, type Packet } from '../wire/packet.ts'
import {
  type Active,
  closeActive,
  EVENT_CLOSED,
  EVENT_CONNECTED,
  EVENT_NONE,
  EVENT_REJECTED,
  EVENT_TIMED_OUT,
  startActive,
  takeMessage,
  tickActive,
} from './active.ts'
import type {
  CmContext,
  ConnectContext,
  Connection,
  Inside,
  Link,
  LinkOwner,
  Target,
  WaitingManagement,
} from './context.ts'
import {
  closeEntering,
  type Entrance,
  EVENT_BROKEN,
  startEntering,
  takeEntering,
  tickEntering,
} from './entering.ts'
import {
  putBytes,
  RESOLUTION_FAILED,
  RESOLUTION_FREE,
  RESOLUTION_KNOWN,
  resolve,
  tickResolution,
} from './resolve.ts'
import { sendTo } from './send.ts'
import { FEATURES } from './services.ts'
import {
  armAt,
  beginConnection,
  isFromPeer,
  isLive,
  isResolved,
  PHASE_CONNECTED,
  PHASE_LINKING,
  putToRest,
} from './table.ts'

/** Code t of how long an answer may take, 0.27 s, and how often a message is sent again. */
const TIMEOUT_CODE = 16
const RETRIES = 15

/** How often it is looked whether a link's queue pair still works, µs. */
const CHECK_US = 1_000_000

/** Local ACK timeout code that the peer is told: 0.54 s, as Linux says. */
const ACK_TIMEOUT = 17

/**
 * Begins to connect. Null where no queue pair is left for links, or too many links are in the
 * making: then nothing has begun.
 */
export function connectTo(state: ConnectContext, target: Target, owner: LinkOwner): Link | null {
  const { resolutions } = state.connections
  const resolution = resolutions.find(({ phase }) => phase === RESOLUTION_FREE)
  if (resolution === undefined) return null
  const number = freeNumber(state, OWN_LINKS)
  if (number < 0) return null
  const connection = beginConnection(state, holdPlace(state, number))
  connection.phase = PHASE_LINKING
  const link: Link = {
    ...{ target, owner, connection, resolution },
    ...{ mac: [], active: null, entering: null, closing: false, ended: false },
  }
  connection.link = link
  resolve(state, resolution, target.ipVersion, target.address)
  armAt(state, connection, resolution.timerUs)
  return link
}

/** A queue pair that is silent and whose place nobody takes, until the peer's is known. */
function holdPlace(state: RefusalContext, number: number): QueuePair {
  const qp = openOver(state, number, {
    ...{ peerNumber: 1, clientHigh: 0, clientLow: 0, pathMtu: 0, protectionDomain: 0 },
    expectedPsn: (random32(state) & 0xffffff) as Psn,
    source: OWN_LINKS,
  })
  qp.state = STATE_ERROR
  qp.hold = HOLD_RESTING
  return qp
}

function openOver(state: RefusalContext, number: number, options: QueuePairOptions): QueuePair {
  const ended = state.queuePairs.places[number & 0xff]!
  if (ended !== null) failQueuePair(state, ended)
  return openPair(state, number, options)
}

/** Ends the link; its owner hears of it when the peer has answered, or did not in time. */
export function closeLink(state: ConnectContext, link: Link): void {
  const { active, entering, connection } = link
  if (link.ended || link.closing || !isLive(state, connection)) return
  link.closing = true
  if (!isResolved(link)) {
    endLink(state, link, EVENT_CLOSED)
    return
  }
  failQueuePair(state, connection.qp!)
  connection.qp!.hold = HOLD_RESTING
  const { nowUs } = state.connections
  after(state, link, active === null ? closeEntering(entering!, nowUs) : closeActive(active, nowUs))
}

/** The Ethernet address is known: the first message goes out. */
function beginLink(state: ConnectContext, link: Link): void {
  const { connection, target, resolution } = link
  link.mac.push(...resolution.mac)
  resolution.phase = RESOLUTION_FREE
  prepareLink(state, link, connection.qp!)
  if (target.inside) enterCard(state, link, target.inside)
  else requestConnection(state, link)
}

/** A session is begun. */
function enterCard(state: ConnectContext, link: Link, { key, region }: Inside): void {
  const { connection, target } = link
  const { sessions } = state
  const qp = connection.qp!
  const { primitives } = sessions
  // Who asks for it has seen that there are keys (manage/attach.ts).
  const own = sessions.own!
  link.entering = startEntering(
    {
      ...{ primitives, own, card: new Uint8Array(key), region },
      draw: (length) => drawBytes(state, length),
      send: (datagram) => sendToCard(state, link, datagram),
      ...{ qpn: qp.number, startingPsn: qp.firstPsn, pathMtu: target.pathMtu },
      ...relayedClient(primitives, own, target.clientHigh, target.clientLow),
    },
    state.connections.nowUs,
  )
  if (link.entering === null) endLink(state, link, EVENT_REJECTED)
  else armAt(state, connection, link.entering.visit.timerUs)
}

/** Not by the queue pair of the link: once that has tags, every packet of it has. */
function sendToCard(state: CmContext, link: Link, datagram: Uint8Array): void {
  const { blankPair } = state.connections
  prepareLink(state, link, blankPair)
  sendTo(state, blankPair, datagram)
}

/** REQ goes out. */
function requestConnection(state: CmContext, link: Link): void {
  const { connection, target } = link
  const qp = connection.qp!
  const userData = new Uint8Array(cm.USER_BYTES_REQ)
  writeCapability(userData, 0, {
    ...blankCapability(),
    features: FEATURES,
    incarnation: state.incarnation,
    sessionId: connection.localId,
    clientHigh: target.clientHigh,
    clientLow: target.clientLow,
  })
  writeClientDepths(userData, 0, CARD_DEPTHS)
  const { mac, ipv4, ipv6 } = state.facts
  link.active = startActive(
    {
      localId: connection.localId,
      transactionHigh: random32(state),
      transactionLow: random32(state),
      port: target.port,
      guidHigh: cm.guidHigh(mac),
      guidLow: cm.guidLow(mac),
      qpn: qp.number,
      startingPsn: qp.firstPsn,
      responderResources: RESPONDER_RESOURCES,
      initiatorDepth: RESPONDER_RESOURCES,
      pathMtu: target.pathMtu,
      ipVersion: target.ipVersion,
      localGid: gidOf(target.ipVersion === 4 ? ipv4 : ipv6),
      remoteGid: gidOf(target.address),
      sourcePort: 0xc000 | qp.index,
      userData,
      timeoutCode: TIMEOUT_CODE,
      retries: RETRIES,
      ackTimeout: ACK_TIMEOUT,
    },
    (message) => sendTo(state, connection.qp!, message),
    state.connections.nowUs,
  )
  armAt(state, connection, link.active.timerUs)
}

function gidOf(address: readonly number[]): Uint8Array {
  const gid = new Uint8Array(cm.GID_BYTES)
  if (address.length === 4) gid[10] = gid[11] = 0xff
  gid.set(address, cm.GID_BYTES - address.length)
  return gid
}

/** Prepares the headers towards the peer, as if the queue pair answered a packet of it. */
function prepareLink(state: FrameContext, link: Link, qp: QueuePair): void {
  const { bytes, facts, answers } = state
  const { target } = link
  const packet: Packet = blankPacket()
  const v4 = target.ipVersion === 4
  packet.frameAt = takeFrame(answers)
  packet.ipAt = packet.frameAt + ETHERNET_BYTES
  packet.ipVersion = target.ipVersion
  putBytes(bytes, packet.frameAt + ETH_DESTINATION, facts.mac)
  putBytes(bytes, packet.frameAt + ETH_SOURCE, link.mac)
  bytes.fill(0, packet.ipAt, packet.ipAt + IPV4_BYTES)
  putBytes(bytes, packet.ipAt + (v4 ? IPV4_SOURCE : IPV6_SOURCE), target.address)
  const own = packet.ipAt + (v4 ? IPV4_DESTINATION : IPV6_DESTINATION)
  putBytes(bytes, own, v4 ? facts.ipv4 : facts.ipv6)
  prepareTemplate(qp, bytes, packet)
}

/** Takes a message for a link of ours; the caller has found it, and its peer's address is right. */
export function takeForLink(state: ConnectContext, link: Link, at: number): void {
  if (link.active === null) return
  after(state, link, takeMessage(link.active, state.bytes, at, state.connections.nowUs))
}

/**
 * Takes an answer that a link of ours waits for in a session. False where none does: then nothing
 * has happened. One that the other card has not sealed is dropped and counted.
 */
export function answerToLink(state: ConnectContext, waiting: WaitingManagement): boolean {
  const { bytes, connections } = state
  const { madAt, packet } = waiting
  for (const connection of connections.places) {
    const { link } = connection
    const entering = link?.entering ?? null
    if (entering === null || link!.ended || !awaits(entering.visit, bytes, madAt)) continue
    if (!isLive(state, connection) || !isFromPeer(state, connection.qp!, packet)) continue
    const event = takeEntering(entering, bytes, madAt, connections.nowUs)
    if (event === EVENT_BROKEN) {
      count(state, SEAL_BROKEN)
      noteRefusal(state, SEAL_BROKEN, packet)
    } else after(state, link!, event)
    return true
  }
  return false
}

/** Does what is due for a link. One whose queue pair has failed says goodbye. */
export function tickLink(state: ConnectContext, link: Link): void {
  const { active, entering, resolution, connection } = link
  if (isResolved(link)) {
    const { nowUs } = state.connections
    after(state, link, active === null ? tickEntering(entering!, nowUs) : tickActive(active, nowUs))
    const failed = connection.phase === PHASE_CONNECTED && connection.qp!.state === STATE_ERROR
    if (failed) closeLink(state, link)
    return
  }
  tickResolution(state, resolution)
  if (resolution.phase === RESOLUTION_KNOWN) beginLink(state, link)
  else if (resolution.phase === RESOLUTION_FAILED) endLink(state, link, EVENT_TIMED_OUT)
  else armAt(state, connection, resolution.timerUs)
}

function after(state: ConnectContext, link: Link, event: number): void {
  if (event === EVENT_CONNECTED) establish(state, link)
  else if (event !== EVENT_NONE) endLink(state, link, event)
  if (link.ended) return
  const { nowUs } = state.connections
  const timerUs = link.active?.timerUs ?? link.entering!.visit.timerUs
  armAt(state, link.connection, Math.min(timerUs, nowUs + CHECK_US))
}

/** The peer has said which its queue pair is: the place gets the one that it was held for. */
function establish(state: ConnectContext, link: Link): void {
  const { connection, target, active, entering } = link
  const held = connection.qp!
  const qp = openOver(state, held.number, {
    protectionDomain: target.protectionDomain,
    expectedPsn: held.firstPsn,
    source: OWN_LINKS,
    peer: STOCK_PEER,
    ...(active === null ? grantedInside(entering!.entrance!) : grantedByRep(active)),
  })
  prepareLink(state, link, qp)
  if (active === null) secureAs(state, qp, entering!.entrance!.tagKeys)
  else nameConnection(connection, active.rep)
  qp.hold = HOLD_CONNECTED
  connection.qp = qp
  connection.phase = PHASE_CONNECTED
  connection.connectedUs = state.connections.nowUs
  link.owner.connected(state, link)
}

/** What the queue pair has of its peer. */
type Granted = Pick<QueuePairOptions, 'peerNumber' | 'clientHigh' | 'clientLow'> &
  Pick<QueuePairOptions, 'requesterPsn' | 'sendDepth' | 'speaksPersist' | 'pathMtu'>

function grantedByRep({ rep, told, options }: Active): Granted {
  const block = blankCapability()
  const speaks = readCapability(block, rep.privateData, 0, rep.privateData.length)
  return {
    peerNumber: rep.qpn,
    clientHigh: speaks ? block.clientHigh : 0,
    clientLow: speaks ? block.clientLow : 0,
    pathMtu: options.pathMtu,
    requesterPsn: rep.startingPsn as Psn,
    sendDepth: told === null ? 0 : agreedDepths(CARD_DEPTHS, told).send,
    speaksPersist: speaks,
  }
}

/** The other card is nobody's client. */
function grantedInside({ qpn, startingPsn, pathMtu, told }: Entrance): Granted {
  return {
    ...{ peerNumber: qpn, clientHigh: 0, clientLow: 0, pathMtu },
    requesterPsn: startingPsn as Psn,
    sendDepth: agreedDepths(CARD_DEPTHS, told).send,
    speaksPersist: true,
  }
}

/** How RDMA-CM names it. */
function nameConnection(connection: Connection, rep: cm.CmRep): void {
  connection.remoteId = rep.localId
  connection.guidHigh = rep.guidHigh
  connection.guidLow = rep.guidLow
}

/** Whoever calls has seen that the link has not ended, and that its place is still its own. */
function endLink(state: ConnectContext, link: Link, event: number): void {
  link.ended = true
  if (!isResolved(link)) link.resolution.phase = RESOLUTION_FREE
  putToRest(state, link.connection)
  link.owner.ended(state, link, event)
}
