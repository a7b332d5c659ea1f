/**
 * The control call: datagrams to QP 1 that set the part up and ask it questions
 * (wire/management.ts has their layout).
 *
 * Invariant: a datagram is executed when its burst is settled, so it sees everything that
 * came before it; every request may be repeated and is answered alike; what is refused is refused
 * with the number of its fault.
 */

import { run } from '../board/command-list.ts'
import { type BoardState, count } from '../board/context.ts'
import {
  BLANK,
  COOKIE,
  FAULTS,
  type Fault,
  FORBIDDEN,
  FORMATTED,
  HOST_ONLY,
  MANAGEMENT_FORM,
  NO_REGION,
  NO_SESSION,
  NOT_SERVING,
  PASS,
  PIECES,
  PLACEMENT_UNKNOWN,
  QUEUE_PAIRS_FULL,
  REQUEST,
  SEAL_BROKEN,
  UNDER_WAY,
  UNREADABLE,
} from '../board/fault.ts'
import { BUCKETS } from '../board/latency.ts'
import { PATH_MTU_BYTES_MIN, QUEUE_PAIRS, REGION_NAME_BYTES } from '../board/limits.ts'
import { KEY_BYTES } from '../board/memory-map.ts'
import { drawBytes, random32, stir } from '../board/random.ts'
import { runBurst } from '../burst/burst.ts'
import type { QueueState } from '../burst/context.ts'
import { sliceEnd, takeSlice } from '../burst/slice.ts'
import { closePair, failQueuePair, openPair } from '../burst/staging.ts'
import { CASES } from '../commit/cases.ts'
import { PROBE_LINES, prove, writeProbe } from '../commit/proof.ts'
import type { Inside, WaitingManagement } from '../connect/context.ts'
import { answerToLink } from '../connect/initiate.ts'
import { serveConnection } from '../connect/passive.ts'
import { publish } from '../connect/publish.ts'
import { dismissSilent } from '../connect/room.ts'
import { readSources } from '../connect/sources.ts'
import { isFromPeer, isFromPlace, isLive } from '../connect/table.ts'
import { mendFault, writesFault } from '../engine/storage.ts'
import { callAt, HOST_ANSWER_AT } from '../host/host-calls.ts'
import {
  findRegionById,
  findRegionByName,
  HOST_DATA_AT,
  KIND_RECORDS,
  PLACEMENT_RELAY,
  type Region,
  toldFlags,
} from '../medium/region.ts'
import { isRegionName, regionNameOf } from '../medium/region-name.ts'
import { DEVICE_ID_AT, formatPart, type RegionEntry } from '../medium/superblock.ts'
import { discardRecord } from '../placement/discard.ts'
import { attachAgent, proveAgent } from '../placement/flush-agent.ts'
import { scanNow } from '../placement/scrub.ts'
import { settlePending } from '../placement/settle-host.ts'
import { detachAgent, isUnflushed, repeatRequests } from '../placement/through.ts'
import { deliverDatagram } from '../queues/gsi.ts'
import { isHostPair } from '../respond/host-receive.ts'
import type { Session } from '../session/context.ts'
import { noteRefusal } from '../session/refusals.ts'
import { sealDatagram } from '../session/sealed.ts'
import { answerHandshake, clientTagOf, openSealed } from '../session/sessions.ts'
import { beginFrame, endFrame, prepareTemplate } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import { agreedDepths, CARD_DEPTHS, depthsFault } from '../transport/depths.ts'
import { isMtu, isPeer } from '../transport/pair-fields.ts'
import type { Psn } from '../transport/psn.ts'
import {
  createQueuePair,
  findQueuePair,
  type QueuePair,
  type QueuePairOptions,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { freeNumber, numberAt } from '../transport/queue-pair-number.ts'
import { secure } from '../transport/tags.ts'
import { putU16, putU32, u16, u32 } from '../wire/bytes.ts'
import type { Depths } from '../wire/capability.ts'
import { CM_BYTES, cmFault, isCm } from '../wire/cm.ts'
import type { WireState } from '../wire/context.ts'
import { DETH_BYTES, Q_KEY_GSI, readDeth, writeDeth } from '../wire/deth.ts'
import * as mad from '../wire/management.ts'
import { UD_SEND_ONLY } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  askerOf,
  callFault,
  isStranger,
  mayAll,
  mayLearnKeys,
  peerNumberOf,
  readFault,
  writeFault,
} from './access.ts'
import { attach, detach } from './attach.ts'
import { boot } from './boot.ts'
import { type Call, type Handler, put64 } from './call.ts'
import type { ManageContext, ManageState } from './context.ts'
import { watchHealth } from './health.ts'
import { type Answer, answeredBefore, keepAnswer } from './once.ts'
import { writePartStatus } from './part-state.ts'
import { admitPeer, dismissPeer, listPeer } from './peers.ts'
import { arePiecesKnown, statePieces } from './pieces.ts'
import { lookAgain, provision } from './provision.ts'
import { FOR_ANYBODY, FOR_THE_HOST, QUEUE_HANDLERS, REPEATABLE } from './queues.ts'
import { noteWork } from './region-job.ts'
import { endRemoved, removeRegion } from './remove.ts'

/** Keeps a datagram for the end of the burst. */
export function receiveManagement(
  state: BoardState & WireState & ManageState,
  packet: Packet,
): Fault {
  const row = packet.row
  if (row === null || row.opcode !== UD_SEND_ONLY) return MANAGEMENT_FORM
  readDeth(state.deth, state.bytes, packet.bthAt + row.dethAt)
  if (state.deth.qkey !== Q_KEY_GSI) return MANAGEMENT_FORM
  const { payloadAt, payloadLength } = packet
  const fault = isCm(state.bytes, payloadAt, payloadLength)
    ? cmFault(state.bytes, payloadAt, payloadLength)
    : mad.madFault(state.bytes, payloadAt, payloadLength)
  if (fault !== PASS) return fault
  const waiting = state.managements[state.managementsCount]!
  waiting.frameAt = packet.frameAt
  waiting.madAt = packet.payloadAt
  waiting.packet.frameAt = packet.frameAt
  waiting.packet.ipAt = packet.ipAt
  waiting.packet.ipVersion = packet.ipVersion
  waiting.peerNumber = state.deth.sourceQp
  state.managementsCount += 1
  return PASS
}

/** Executes and answers the datagrams of the burst. */
export function serveManagement(state: ManageContext): void {
  const count = state.managementsCount
  run(state.list)
  for (let i = 0; i < count; i++) serveOne(state, state.managements[i]!)
  state.managementsCount = 0
}

const HANDLERS: Readonly<Record<number, readonly [number, Handler]>> = {
  [mad.ATTRIBUTE_STATUS]: [mad.METHOD_GET, status],
  [mad.ATTRIBUTE_FORMAT]: [mad.METHOD_SET, format],
  [mad.ATTRIBUTE_PROVISION]: [mad.METHOD_SET, provisionRegion],
  [mad.ATTRIBUTE_OPEN]: [mad.METHOD_GET, openRegion],
  [mad.ATTRIBUTE_REMOVE]: [mad.METHOD_SET, remove],
  [mad.ATTRIBUTE_REGION]: [mad.METHOD_GET, regionByIndex],
  [mad.ATTRIBUTE_CONNECT]: [mad.METHOD_SET, connect],
  [mad.ATTRIBUTE_DISCONNECT]: [mad.METHOD_SET, disconnect],
  [mad.ATTRIBUTE_REPORT]: [mad.METHOD_GET, reportPage],
  [mad.ATTRIBUTE_COUNTERS]: [mad.METHOD_GET, readCounters],
  [mad.ATTRIBUTE_SCAN]: [mad.METHOD_SET, scan],
  [mad.ATTRIBUTE_SETTLE]: [mad.METHOD_SET, settleLostRecord],
  [mad.ATTRIBUTE_FIGURES]: [mad.METHOD_GET, readFigures],
  [mad.ATTRIBUTE_HEALTH]: [mad.METHOD_SET, watchHealth],
  [mad.ATTRIBUTE_PIECES]: [mad.METHOD_SET, statePieces],
  [mad.ATTRIBUTE_PROBE]: [mad.METHOD_SET, probe],
  [mad.ATTRIBUTE_PLACE]: [mad.METHOD_SET, place],
  [mad.ATTRIBUTE_AGENT]: [mad.METHOD_SET, agent],
  [mad.ATTRIBUTE_PUBLISH]: [mad.METHOD_SET, publishRegion],
  [mad.ATTRIBUTE_ATTACH]: [mad.METHOD_SET, attachRegion],
  [mad.ATTRIBUTE_DETACH]: [mad.METHOD_SET, detachRegion],
  [mad.ATTRIBUTE_HANDSHAKE]: [mad.METHOD_SET, handshake],
  [mad.ATTRIBUTE_PEERS]: [mad.METHOD_GET, listPeer],
  [mad.ATTRIBUTE_ADD_PEER]: [mad.METHOD_SET, admitPeer],
  [mad.ATTRIBUTE_REMOVE_PEER]: [mad.METHOD_SET, dismissPeer],
  ...QUEUE_HANDLERS,
}

/** Attributes that a part which was refused answers too. */
const ALWAYS = [
  ...[mad.ATTRIBUTE_STATUS, mad.ATTRIBUTE_FORMAT, mad.ATTRIBUTE_COUNTERS],
  mad.ATTRIBUTE_FIGURES,
  ...[mad.ATTRIBUTE_HANDSHAKE, mad.ATTRIBUTE_PEERS],
  ...[mad.ATTRIBUTE_ADD_PEER, mad.ATTRIBUTE_REMOVE_PEER],
  ...FOR_ANYBODY,
  ...FOR_THE_HOST,
]

/**
 * Attributes that are executed once, however often the datagram comes.
 */
const ONCE = [
  ...[mad.ATTRIBUTE_HANDSHAKE, mad.ATTRIBUTE_PIECES],
  ...[mad.ATTRIBUTE_ADD_PEER, mad.ATTRIBUTE_REMOVE_PEER],
  ...[mad.ATTRIBUTE_PROBE, mad.ATTRIBUTE_PLACE, mad.ATTRIBUTE_AGENT, mad.ATTRIBUTE_REMOVE],
  ...FOR_THE_HOST.filter((attribute) => !REPEATABLE.includes(attribute)),
]

function serveOne(state: ManageContext, waiting: WaitingManagement): void {
  const { bytes, answers } = state
  if (isCm(bytes, waiting.madAt, CM_BYTES)) {
    const refused = serveConnection(state, waiting)
    if (refused !== PASS) count(state, refused)
    run(state.list)
    return
  }
  const header = mad.blankMad()
  mad.readMad(header, bytes, waiting.madAt)
  if (header.method === mad.METHOD_RESPONSE) {
    if (answerToLink(state, waiting)) run(state.list)
    else deliverDatagram(state, waiting.madAt, waiting.peerNumber, waiting.packet)
    return
  }
  const session = mad.isSealed(bytes, waiting.madAt) ? openSealed(state, waiting.madAt) : null
  if (session === SEAL_BROKEN) {
    count(state, SEAL_BROKEN)
    noteRefusal(state, SEAL_BROKEN, waiting.packet)
    return
  }
  const qp = managementPair(waiting.peerNumber)
  prepareTemplate(qp, bytes, waiting.packet)
  const behind = DETH_BYTES + mad.MAD_BYTES
  const end = beginFrame(answers, qp, UD_SEND_ONLY, 0, behind, 0)
  writeDeth(bytes, end, { qkey: Q_KEY_GSI, sourceQp: mad.MANAGEMENT_QP })
  const to = end + DETH_BYTES
  if (session === NO_SESSION) {
    noteRefusal(state, NO_SESSION, waiting.packet)
    refuseCall(state, waiting.madAt, to, NO_SESSION)
  } else answerCall(state, waiting.madAt, to, waiting.packet, session as Session | null)
  endFrame(answers, qp, end, behind)
  run(state.list)
  endRemoved(state)
  run(state.list)
}

/** Executes and answers the control calls of our own host; it may repeat what was not answered. */
export function serveHostCalls(state: ManageContext): void {
  const { calls, epoch } = state.host
  if (calls.epoch !== epoch) state.answeredHost.length = 0
  calls.epoch = epoch
  const waiting = calls.count
  calls.count = 0
  for (let i = 0; i < waiting; i++) {
    answerCall(state, callAt(i), HOST_ANSWER_AT, null, null)
    deliverDatagram(state, HOST_ANSWER_AT, mad.MANAGEMENT_QP, null)
    runBurst(state)
    endRemoved(state)
    runBurst(state)
  }
}

/** Refuses what is no call of anybody that is known; the answer is in the clear. */
function refuseCall(state: BoardState, at: number, to: number, fault: Fault): void {
  const { bytes } = state
  const header = mad.blankMad()
  mad.readMad(header, bytes, at)
  count(state, fault)
  bytes.fill(0, to, to + mad.MAD_BYTES)
  const status = mad.STATUS_REFUSED
  mad.writeMad(bytes, to, { ...header, method: mad.METHOD_RESPONSE, status, fault })
}

/** Executes the call at `at`, and makes the answer at `to`, sealed if the call was. */
function answerCall(
  state: ManageContext,
  at: number,
  to: number,
  packet: Packet | null,
  session: Session | null,
): void {
  const { bytes } = state
  const header = mad.blankMad()
  mad.readMad(header, bytes, at)
  bytes.copyWithin(to, at, at + mad.MAD_BYTES)
  const body = { at: at + mad.MAD_BODY, to: to + mad.MAD_BODY }
  const who = { packet, session }
  const fault = handle({ state, bytes, ...body, modifier: header.modifier, ...who }, header)
  // What is under way is no fault: nothing is wrong.
  if (fault !== PASS && fault !== UNDER_WAY) count(state, fault)
  if (packet !== null) noteRefusal(state, fault, packet)
  header.method = mad.METHOD_RESPONSE
  header.status = fault === PASS ? mad.STATUS_OK : mad.STATUS_REFUSED
  header.fault = fault
  mad.writeMad(bytes, to, header)
  if (session !== null) sealDatagram(state.sessions.primitives, session, bytes, to)
}

function handle(call: Call, header: mad.Mad): Fault {
  const entry = HANDLERS[header.attribute]
  if (entry === undefined || entry[0] !== header.method) return REQUEST
  const { state, bytes, to, packet } = call
  if (packet !== null && FOR_THE_HOST.includes(header.attribute)) return HOST_ONLY
  const denied = callFault(call, header.attribute)
  if (denied !== PASS) return denied
  if (state.refused !== PASS && !ALWAYS.includes(header.attribute)) return NOT_SERVING
  if (!ONCE.includes(header.attribute)) return entry[1](call)
  const answered = answersFor(call)
  const source = askerOf(call)
  const before = answeredBefore(answered, source, header)
  if (before !== undefined) {
    bytes.set(before.body, to)
    return before.fault
  }
  const fault = entry[1](call)
  // Who is asked for a cookie asks again, with it.
  if (fault !== COOKIE) keepAnswer(answered, source, header, fault, bytes, to)
  return fault
}

/** The list in which the answers to who asks are kept. */
function answersFor(call: Call): Answer[] {
  if (call.packet === null) return call.state.answeredHost
  return isStranger(call) ? call.state.answeredStrangers : call.state.answered
}

/** Management has no connection, but is answered with the same headers as one. */
function managementPair(peerNumber: number): QueuePair {
  return createQueuePair(QUEUE_PAIRS, mad.MANAGEMENT_QP, {
    peerNumber,
    clientHigh: 0,
    clientLow: 0,
    pathMtu: PATH_MTU_BYTES_MIN,
    protectionDomain: 0,
    expectedPsn: 0 as Psn,
  })
}

function status(call: Call): Fault {
  const { state, bytes, to } = call
  bytes.fill(0, to + mad.PART_BYTES, to + mad.MAD_BODY_BYTES)
  writePartStatus(state, to, isStranger(call))
  return PASS
}

/** Formats a blank part, and starts it. Asked again with the same id, it is as if it had just. */
function format(call: Call): Fault {
  const { state, bytes, at } = call
  const id = bytes.slice(at, at + mad.DEVICE_ID_BYTES)
  const chosen = id.some((byte) => byte !== 0)
  if (state.refused === PASS) {
    const same = id.every((byte, i) => byte === state.superblock.bytes[DEVICE_ID_AT + i])
    return same ? status(call) : FORMATTED
  }
  if (state.refused !== BLANK) return state.refused
  if (!chosen) id.set(drawId(state))
  const fault = formatPart(state.list, state.superblock, id, state.facts.nvdimmBytes)
  if (fault !== PASS) return fault
  boot(state)
  return state.refused === PASS ? status(call) : state.refused
}

/** Two cards whose entropy is the same give their parts ids of their own. */
function drawId(state: BoardState): Uint8Array {
  stir(state, state.facts.mac)
  return drawBytes(state, mad.DEVICE_ID_BYTES)
}

function provisionRegion(call: Call): Fault {
  const { state, bytes, at } = call
  const length = u32(bytes, at + mad.REGION_LENGTH_HIGH) * 2 ** 32
  const entry: RegionEntry = {
    name: bytes.slice(at + mad.REGION_NAME, at + mad.REGION_NAME + REGION_NAME_BYTES),
    id: 0,
    kind: bytes[at + mad.REGION_KIND]!,
    slots: u32(bytes, at + mad.REGION_SLOTS),
    capacity: u32(bytes, at + mad.REGION_CAPACITY),
    copies: bytes[at + mad.REGION_COPIES]!,
    flags: u16(bytes, at + mad.REGION_FLAGS),
    protectionDomain: u16(bytes, at + mad.REGION_DOMAIN),
    at: 0,
    areaBytes: length + u32(bytes, at + mad.REGION_LENGTH_LOW),
    placement: bytes[at + mad.REGION_PLACEMENT]!,
  }
  const fault = provision(state, entry)
  return fault === PASS ? openRegion(call) : fault
}

function openRegion(call: Call): Fault {
  const { state, bytes, at } = call
  const region = findRegionByName(state.regions, regionNameOf(bytes, at + mad.REGION_NAME))
  if (region === null) return NO_REGION
  const fault = readFault(call, region)
  if (fault === PASS) describeRegion(call, region)
  return fault
}

/** Two messages, and who has both of its ends has a session (session/noise.ts). */
function handshake(call: Call): Fault {
  const { state, at, to } = call
  return answerHandshake(state, askerOf(call), at, to)
}

/** The region ends permanently (remove.ts). */
function remove(call: Call): Fault {
  const { state, bytes, at } = call
  const region = findRegionByName(state.regions, regionNameOf(bytes, at + mad.REGION_NAME))
  return region === null ? NO_REGION : removeRegion(state, region)
}

/** Offers a region on a port of RDMA-CM, or ends that; the answer describes the region. */
function publishRegion(call: Call): Fault {
  const { state, bytes, at } = call
  const region = findRegionByName(state.regions, regionNameOf(bytes, at + mad.REGION_NAME))
  const port = u16(bytes, at + mad.PUBLISH_PORT)
  const form = bytes[at + mad.PUBLISH_FORM]!
  const rights = u32(bytes, at + mad.PUBLISH_RIGHTS)
  const flags = bytes[at + mad.PUBLISH_FLAGS]!
  const sources = readSources(bytes, at)
  if (sources === null || flags > mad.PUBLISH_STOCK) return REQUEST
  const stock = flags === mad.PUBLISH_STOCK
  const connections = u16(bytes, at + mad.PUBLISH_CONNECTIONS)
  // Among admins none owns a port.
  const packet = call.session === null ? call.packet : null
  const who = { stock, connections, sources, packet }
  const fault = publish(state, { port, region, form, rights, ...who })
  if (fault === PASS && region !== null) describeRegion(call, region)
  return fault
}

/** Offers a region of another DPU here: asked again until it is connected, or cannot be. */
function attachRegion(call: Call): Fault {
  const { state, bytes, at } = call
  const ipVersion = bytes[at + mad.ATTACH_IP_VERSION]!
  if (ipVersion !== 4 && ipVersion !== 6) return REQUEST
  if (!isRegionName(bytes, at + mad.REGION_NAME)) return REQUEST
  const address = at + mad.ATTACH_ADDRESS
  const name = regionNameOf(bytes, at + mad.REGION_NAME)
  const fault = attach(state, {
    name,
    target: {
      ipVersion,
      address: [...bytes.slice(address, address + (ipVersion === 4 ? 4 : 16))],
      port: u16(bytes, at + mad.ATTACH_PORT),
      inside: insideOf(call, name),
      pathMtu: state.facts.pathMtu,
      protectionDomain: 0,
      clientHigh: u32(bytes, at + mad.ATTACH_CLIENT_HIGH),
      clientLow: u32(bytes, at + mad.ATTACH_CLIENT_LOW),
    },
  })
  if (fault === PASS) describeRegion(call, state.located.region!)
  return fault
}

/** The region of the card that has the key, called `name` unless it is told; null without a key. */
function insideOf({ bytes, at }: Call, name: string): Inside | null {
  const key = [...bytes.slice(at + mad.ATTACH_KEY, at + mad.ATTACH_KEY + mad.ATTACH_KEY_BYTES)]
  if (key.every((byte) => byte === 0)) return null
  return { key, region: regionNameOf(bytes, at + mad.ATTACH_REGION) || name }
}

function detachRegion(call: Call): Fault {
  detach(call.state, regionNameOf(call.bytes, call.at + mad.REGION_NAME))
  return PASS
}

function regionByIndex(call: Call): Fault {
  const { state, modifier } = call
  const region = state.regions.places[modifier] ?? null
  // A relay is told of to who knows its name.
  if (region === null || region.placement === PLACEMENT_RELAY) return NO_REGION
  if (readFault(call, region) !== PASS) return NO_REGION
  describeRegion(call, region)
  return PASS
}

function describeRegion(call: Call, region: Region): void {
  const { state, bytes, to } = call
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  for (let i = 0; i < region.name.length; i++) bytes[to + i] = region.name.charCodeAt(i)
  putU32(bytes, to + mad.REGION_SLOTS, region.slots)
  putU32(bytes, to + mad.REGION_CAPACITY, region.capacity)
  bytes[to + mad.REGION_COPIES] = region.copies
  bytes[to + mad.REGION_KIND] = region.kind
  putU16(bytes, to + mad.REGION_FLAGS, toldFlags(region))
  putU16(bytes, to + mad.REGION_DOMAIN, region.protectionDomain)
  put64(bytes, to + mad.REGION_LENGTH_HIGH, region.areaBytes)
  if (mayLearnKeys(call)) {
    putU32(bytes, to + mad.REGION_RKEY, region.rkey)
    bytes.copyWithin(to + mad.REGION_CHECK_KEY, region.keyAt, region.keyAt + KEY_BYTES)
  }
  putU32(bytes, to + mad.REGION_ID, region.id)
  putU32(bytes, to + mad.REGION_STRIDE, region.stride)
  putU32(bytes, to + mad.REGION_UNSETTLED, region.unsettled)
  putU32(bytes, to + mad.REGION_BASE_HIGH, region.baseHigh)
  putU32(bytes, to + mad.REGION_BASE_LOW, region.baseLow)
  bytes[to + mad.REGION_READ_ONLY] = region.unsettled > 0 ? 1 : 0
  bytes[to + mad.REGION_PLACEMENT] = region.placement
  bytes[to + mad.REGION_REFUSES] = FAULTS[writesFault(state, region)]!.code
  putU32(bytes, to + mad.REGION_REPAIRED, region.repaired)
}

/** Opens a queue pair, or answers with the one that this client's queue pair has already. */
function connect(call: Call): Fault {
  const { state, bytes, at, to } = call
  const peerNumber = u32(bytes, at + mad.CONNECT_CLIENT_QP)
  const mtu = u16(bytes, at + mad.CONNECT_PATH_MTU)
  // Our own host has local queue pairs, and needs no wire to itself.
  if (call.packet === null || !isMtu(mtu) || !isPeer(peerNumber)) return REQUEST
  const told = toldDepths(call)
  const fault = told === null ? PASS : depthsFault(told)
  if (fault !== PASS) return fault
  const options = {
    peerNumber,
    clientHigh: u32(bytes, at + mad.CONNECT_CLIENT_ID_HIGH),
    clientLow: u32(bytes, at + mad.CONNECT_CLIENT_ID_LOW),
    pathMtu: Math.min(mtu, state.facts.pathMtu),
    protectionDomain: u16(bytes, at + mad.CONNECT_DOMAIN),
    expectedPsn: (random32(state) & 0xffffff) as Psn,
    requesterPsn: (u32(bytes, at + mad.CONNECT_CLIENT_PSN) & 0xffffff) as Psn,
    sendDepth: told === null ? 0 : agreedDepths(CARD_DEPTHS, told).send,
    source: askerOf(call),
    peer: peerNumberOf(call),
    transactionHigh: u32(bytes, at - mad.MAD_BODY + mad.MAD_TRANSACTION_HIGH),
    transactionLow: u32(bytes, at - mad.MAD_BODY + mad.MAD_TRANSACTION_LOW),
  }
  if (call.session !== null && options.clientHigh !== clientTagOf(state, call.session)) {
    return FORBIDDEN
  }
  let qp = existingPair(state, call.packet, options)
  if (qp !== null && isLeftBehind(qp, options)) {
    closePair(state, qp)
    qp = null
  }
  if (qp === null) {
    let number = freeNumber(state, options.source)
    if (number < 0) number = numberAt(state, dismissSilent(state, options.source))
    if (number < 0) return QUEUE_PAIRS_FULL
    const ended = state.queuePairs.places[number & (QUEUE_PAIRS - 1)]!
    if (ended !== null) failQueuePair(state, ended)
    qp = openPair(state, number, options)
    if (call.session !== null && bytes[at + mad.CONNECT_TAGS] === 1) secure(state, qp)
    prepareTemplate(qp, bytes, call.packet)
  }
  putU32(bytes, to + mad.CONNECT_QP, qp.number)
  putU32(bytes, to + mad.CONNECT_FIRST_PSN, qp.expectedPsn)
  putU32(bytes, to + mad.CONNECT_INCARNATION, state.incarnation)
  putU16(bytes, to + mad.CONNECT_GRANTED_MTU, qp.pathMtu)
  putU16(bytes, to + mad.CONNECT_SEND_DEPTH, told === null ? 0 : CARD_DEPTHS.send)
  putU16(bytes, to + mad.CONNECT_RECEIVE_DEPTH, told === null ? 0 : CARD_DEPTHS.receive)
  bytes[to + mad.CONNECT_TAGS] = qp.tagKeys === null ? 0 : 1
  if (qp.tagKeys !== null) bytes.set(qp.tagKeys, to + mad.CONNECT_TAG_KEYS)
  return PASS
}

/** The depths of the client's queues; null where it tells none, as older ones do. */
function toldDepths({ bytes, at }: Call): Depths | null {
  const send = u16(bytes, at + mad.CONNECT_CLIENT_SEND_DEPTH)
  const receive = u16(bytes, at + mad.CONNECT_CLIENT_RECEIVE_DEPTH)
  return send === 0 && receive === 0 ? null : { send, receive }
}

/**
 * The queue pair that this client has, at the addresses that the packet came from; of those with
 * tags that of any client of the peer, as a station has a number once.
 */
function existingPair(
  state: BoardState & TransportState & QueueState,
  packet: Packet,
  { peerNumber, clientHigh, clientLow, peer }: QueuePairOptions,
): QueuePair | null {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp === null || qp.state !== STATE_OPEN || qp.peerNumber !== peerNumber) continue
    // Our own host's is nobody else's, whoever its peer is.
    if (isHostPair(state, qp) || !isFromPlace(state, qp, packet)) continue
    if (qp.peer !== peer) continue
    if (qp.tagKeys !== null) return qp
    if (qp.clientHigh === clientHigh && qp.clientLow === clientLow) return qp
  }
  return null
}

/**
 * Whether its client has started again, and counts its packets from 0: under keys that it had
 * before, two of them would have one counter, though the card has heard none. Or another client has
 * its number there, and would be sent answers that are not its own.
 */
function isLeftBehind(qp: QueuePair, asked: QueuePairOptions): boolean {
  const isSameCall =
    qp.transactionHigh === asked.transactionHigh && qp.transactionLow === asked.transactionLow
  const isSameClient = qp.clientHigh === asked.clientHigh && qp.clientLow === asked.clientLow
  return qp.tagKeys !== null && !(isSameCall && isSameClient)
}

function disconnect(call: Call): Fault {
  const { state, bytes, at } = call
  const qp = findQueuePair(state.queuePairs, u32(bytes, at + mad.DISCONNECT_QP))
  if (qp === null || qp.peerNumber !== u32(bytes, at + mad.DISCONNECT_CLIENT_QP)) return PASS
  // Our own host ends its queue pairs itself, RDMA-CM those that it has made, each peer its own. A
  // driver that looks for the card elsewhere may be another station since; it knows both numbers.
  if (call.packet === null || isHostPair(state, qp)) return PASS
  if (isLive(state, state.connections.places[qp.index]!)) return PASS
  if (qp.peer !== peerNumberOf(call)) return PASS
  if (call.session === null && !isFromPeer(state, qp, call.packet)) return PASS
  closePair(state, qp)
  return PASS
}

function reportPage(call: Call): Fault {
  const { state, bytes, to, modifier } = call
  const entries = state.recovery.report.entries.filter(({ regionId }) => mayHearOf(call, regionId))
  const here = Math.max(0, Math.min(mad.REPORT_ENTRIES_PER_MAD, entries.length - modifier))
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  putU32(bytes, to + mad.REPORT_TOTAL, entries.length)
  putU32(bytes, to + mad.REPORT_HERE, here)
  for (let i = 0; i < here; i++) {
    const entry = entries[modifier + i]!
    const at = to + mad.REPORT_FIRST + i * mad.REPORT_ENTRY_BYTES
    const row = CASES[entry.row]!
    putU16(bytes, at + mad.ENTRY_REGION, entry.regionId)
    bytes[at + mad.ENTRY_LANE] = entry.lane
    bytes[at + mad.ENTRY_ROW] = entry.row
    bytes[at + mad.ENTRY_ACTION] = ACTIONS.indexOf(row.then)
    bytes[at + mad.ENTRY_SOURCE] = row.sourceCase
    bytes[at + mad.ENTRY_VALID] = entry.validMask
    bytes[at + mad.ENTRY_FLAGS] = entry.flags
    putU32(bytes, at + mad.ENTRY_RECORD, entry.record)
    putU32(bytes, at + mad.ENTRY_SEQUENCE_HIGH, entry.sequenceHigh)
    putU32(bytes, at + mad.ENTRY_SEQUENCE_LOW, entry.sequenceLow)
    putU32(bytes, at + mad.ENTRY_LINES_READ, entry.linesRead)
  }
  return PASS
}

/** Entries of regions that are gone are for an admin. */
function mayHearOf(call: Call, regionId: number): boolean {
  const region = findRegionById(call.state.regions, regionId)
  return mayAll(call) || (region !== null && readFault(call, region) === PASS)
}

/** Numbers of the actions on the wire, in this order. */
const ACTIONS = ['none', 'useA', 'useB', 'lost'] as const

function readCounters(call: Call): Fault {
  const { state, bytes, to, modifier } = call
  const here = Math.max(0, Math.min(mad.COUNTERS_PER_MAD, FAULTS.length - modifier))
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  putU32(bytes, to + mad.COUNTERS_TOTAL, FAULTS.length)
  putU32(bytes, to + mad.COUNTERS_HERE, here)
  for (let i = 0; i < here; i++) {
    put64(bytes, to + mad.COUNTERS_FIRST + i * mad.COUNTER_BYTES, state.counters[modifier + i]!)
  }
  return PASS
}

/** What was acknowledged since the start: by the card, and of the region that is named. */
function readFigures(call: Call): Fault {
  const { state, bytes, at, to } = call
  const { figures, list, answers } = state
  const name = regionNameOf(bytes, at + mad.REGION_NAME)
  const region = name === '' ? null : findRegionByName(state.regions, name)
  if (name !== '' && region === null) return NO_REGION
  const fault = region === null ? PASS : readFault(call, region)
  if (fault !== PASS) return fault
  bytes.fill(0, to + mad.FIGURES_REGION, to + mad.MAD_BODY_BYTES)
  put64(bytes, to + mad.FIGURES_BURSTS, figures.bursts)
  put64(bytes, to + mad.FIGURES_FENCES, list.fencesAppended)
  put64(bytes, to + mad.FIGURES_ACKS, answers.acks)
  if (region !== null) describeFigures(call, region, bytes[at + mad.FIGURES_FIRST_BUCKET]!)
  return PASS
}

function describeFigures({ state, bytes, to }: Call, { id, index }: Region, first: number): void {
  const { figures } = state
  putU32(bytes, to + mad.FIGURES_REGION, id)
  put64(bytes, to + mad.FIGURES_BYTES, figures.bytes[index]!)
  put64(bytes, to + mad.FIGURES_TIME, figures.timesUs[index]!)
  let here = 0
  for (let bucket = first; bucket < BUCKETS; bucket++) {
    const met = figures.buckets[index * BUCKETS + bucket]!
    if (met === 0) continue
    if (here === mad.FIGURES_PER_MAD) {
      bytes[to + mad.FIGURES_NEXT] = bucket
      break
    }
    const entry = to + mad.FIGURES_BUCKETS + here * mad.FIGURES_BUCKET_BYTES
    put64(bytes, entry, Math.min(met, 2 ** 53))
    bytes[entry] = bucket
    here += 1
  }
  bytes[to + mad.FIGURES_HERE] = here
}

/**
 * Scans some records with their check codes; the answer says where the next request begins. It
 * begins where this one did while the agent of the host writes back what was found before, and
 * where the burst has done a slice already.
 */
function scan(call: Call): Fault {
  const { state, bytes, at, to } = call
  const region = findRegionById(state.regions, u32(bytes, at + mad.SCAN_REGION))
  const first = u32(bytes, at + mad.SCAN_RECORD)
  if (region === null || region.kind !== KIND_RECORDS) return NO_REGION
  if (first > region.slots) return REQUEST
  let fault = writeFault(call, region)
  if (fault === PASS) fault = mendFault(state, region)
  if (fault !== PASS) return fault
  const may = !isUnflushed(state, region) && takeSlice(state)
  const last = may ? sliceEnd(region, first) : first
  const { report, found } = state.recovery
  const { repaired } = report
  const { lost, unsettled, underWay } = found
  fault = scanNow(state, region, first, last)
  putU32(bytes, to + mad.SCAN_NEXT, last)
  const passed = found.underWay - underWay
  putU32(bytes, to + mad.SCAN_CHECKED, last - first - passed)
  putU32(bytes, to + mad.SCAN_UNDER_WAY, passed)
  putU32(bytes, to + mad.SCAN_REPAIRED, report.repaired - repaired)
  putU32(bytes, to + mad.SCAN_UNSETTLED, region.unsettled)
  putU32(bytes, to + mad.SCAN_FOUND_LOST, found.lost - lost)
  putU32(bytes, to + mad.SCAN_FOUND_UNSETTLED, found.unsettled - unsettled)
  return fault
}

/** The operator gives a lost record up (discard.ts). */
function settleLostRecord(call: Call): Fault {
  const { state, bytes, at } = call
  const region = findRegionById(state.regions, u32(bytes, at + mad.SETTLE_REGION))
  const record = u32(bytes, at + mad.SETTLE_RECORD)
  if (region === null || region.kind !== KIND_RECORDS) return NO_REGION
  if (record >= region.slots || bytes[at + mad.SETTLE_DECISION] !== mad.SETTLE_DISCARD) {
    return REQUEST
  }
  const denied = writeFault(call, region)
  if (denied !== PASS) return denied
  const fault = discardRecord(state, region, record)
  if (fault === PASS) describeRegion(call, region)
  return fault
}

/** Leaves the lines of a new probe in the host's memory; the answer says how many of each kind. */
function probe(call: Call): Fault {
  const { state, bytes, to } = call
  if (state.proof.hostBytes < HOST_DATA_AT) return PLACEMENT_UNKNOWN
  if (!arePiecesKnown(call, call.at)) return PIECES
  const high = (random32(state) | 1) >>> 0
  const done = writeProbe(state.list, bytes, state.proof, high, random32(state))
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  putU32(bytes, to + mad.PROBE_LINES, PROBE_LINES)
  put64(bytes, to + mad.PROBE_HOST_BYTES_HIGH, state.proof.hostBytes)
  return done ? PASS : UNREADABLE
}

/** What the host's CPU has seen of the probe. Without ADR nothing that arrives is safe. */
function place(call: Call): Fault {
  const { state, bytes, at, to } = call
  const seen = bytes[at + mad.PLACE_ADR] === 1 ? bytes[at + mad.PLACE_PLACEMENT]! : 0
  const high = u32(bytes, at + mad.PLACE_NUMBER_HIGH)
  const low = u32(bytes, at + mad.PLACE_NUMBER_LOW)
  const fault = prove(state.proof, state.regions, seen, high, low)
  if (fault !== PASS) return fault
  bytes[to + mad.PLACE_PLACEMENT] = state.proof.proven
  noteWork(state)
  settlePending(state)
  lookAgain(state)
  return state.commit.closed
}

/** The flush agent of the host comes, or goes in peace. */
function agent(call: Call): Fault {
  const { state, bytes, at, to } = call
  const high = u32(bytes, at + mad.AGENT_NUMBER_HIGH)
  const low = u32(bytes, at + mad.AGENT_NUMBER_LOW)
  let fault = proveAgent(state, high, low)
  if (fault !== PASS) return fault
  if (bytes[at + mad.AGENT_ACTION] !== mad.AGENT_ATTACH) {
    detachAgent(state)
    return PASS
  }
  if (!arePiecesKnown(call, at + mad.AGENT_PIECES)) return PIECES
  fault = attachAgent(state, u32(bytes, at + mad.AGENT_QUEUE))
  if (fault !== PASS) return fault
  repeatRequests(state)
  noteWork(state)
  putU32(bytes, to + mad.AGENT_FIRST_REQUEST, (state.through.agent.asked + 1) >>> 0)
  return PASS
}
