/**
 * The side that connects in a session of the other card, without I/O, as active.ts is for RDMA-CM:
 * it is given datagrams and the time, and gives datagrams.
 *
 *   a session (session/visit.ts) ──▶ OPEN: the region ──▶ CONNECT: a queue pair with tags,
 *   connected ──▶ DISCONNECT, again until it is answered
 *
 * Invariants:
 * - Region, queue pair and session are of one life of the other card: where another session has to
 *   be made before it is connected, all of it is asked for again. CONNECT is then another call, so
 *   the queue pair that the other card had opened is over, and no tag is made under its keys.
 * - A queue pair without tags is none, whoever grants it; nor is one that cannot be.
 * - It is connected, or is not, within CONNECT_US; the end is reported once, as of active.ts.
 */

import {
  ATTACH_FAILED,
  type Fault,
  FORBIDDEN,
  OPEN_CARD,
  PASS,
  PEER_UNKNOWN,
  RELAY_REFUSED,
} from '../board/fault.ts'
import {
  ask,
  beginVisit,
  takeVisited,
  tickVisit,
  VISIT_BROKEN,
  VISIT_ENTERED,
  VISIT_NONE,
  VISIT_TIMED_OUT,
  type Visit,
  type VisitOptions,
} from '../session/visit.ts'
import { CARD_DEPTHS, depthsFault } from '../transport/depths.ts'
import { isMtu, isPeer, PSNS } from '../transport/pair-fields.ts'
import { putU16, putU32, u16, u32 } from '../wire/bytes.ts'
import type { Depths, Geometry } from '../wire/capability.ts'
import * as mad from '../wire/management.ts'
import {
  EVENT_CLOSED,
  EVENT_CONNECTED,
  EVENT_NONE,
  EVENT_REJECTED,
  EVENT_TIMED_OUT,
} from './active.ts'

/** No session is there yet. */
const ENTERING_SESSION = 1
/** The region is asked for, and then a queue pair. */
const ENTERING_REGION = 2
const ENTERING_PAIR = 3
const ENTERED = 4
/** DISCONNECT was sent. */
const LEAVING = 5
const LEFT = 6

/** Until when it is to be connected, and until when a DISCONNECT is repeated, µs. */
const CONNECT_US = 5_000_000
const LEAVE_US = 5_000_000

/** What came was in the name of the other card, and was not from it: EVENT_* are below. */
export const EVENT_BROKEN = 5

/** What the queue pair is to be. */
export interface EnteringOptions extends VisitOptions {
  /** The region's name over there, a character for each byte. */
  readonly region: string
  readonly qpn: number
  /** PSN that the other card is to begin its requests with. */
  readonly startingPsn: number
  /** Bytes: 256, 512, 1024, 2048 or 4096. */
  readonly pathMtu: number
  /** In whose name it speaks over there. */
  readonly clientHigh: number
  readonly clientLow: number
}

/** What the other card granted. */
export interface Entrance {
  readonly qpn: number
  /** PSN that we are to begin our requests with. */
  readonly startingPsn: number
  readonly pathMtu: number
  readonly incarnation: number
  readonly told: Depths
  /** Keys of the tags: of our packets, and of the other card's, 32 bytes each. */
  readonly tagKeys: Uint8Array
}

/** The region over there. */
interface FarRegion extends Geometry {
  readonly rkey: number
  readonly protectionDomain: number
}

export interface Entering {
  readonly options: EnteringOptions
  readonly visit: Visit
  step: number
  region: FarRegion | null
  /** Read it after EVENT_CONNECTED. */
  entrance: Entrance | null
  /** Why it is not connected: ATTACH_FAILED or RELAY_REFUSED. */
  fault: Fault
}

/** Sends the first message. Null where the key of the other card is nobody's. */
export function startEntering(options: EnteringOptions, nowUs: number): Entering | null {
  const visit = beginVisit(options, nowUs, nowUs + CONNECT_US)
  if (visit === null) return null
  const nothing = { region: null, entrance: null, fault: ATTACH_FAILED }
  return { options, visit, step: ENTERING_SESSION, ...nothing }
}

/** Takes the datagram at `at`, which the visit awaits, from the other card's address. */
export function takeEntering(
  entering: Entering,
  bytes: Uint8Array,
  at: number,
  nowUs: number,
): number {
  return followVisit(entering, takeVisited(entering.visit, bytes, at, nowUs), nowUs)
}

/** Repeats what is not answered, and gives up; returns the event. */
export function tickEntering(entering: Entering, nowUs: number): number {
  return followVisit(entering, tickVisit(entering.visit, nowUs), nowUs)
}

/** Says goodbye, once, if there is anything to end over there; returns the event. */
export function closeEntering(entering: Entering, nowUs: number): number {
  if (entering.step !== ENTERED) return leave(entering, EVENT_CLOSED)
  entering.visit.endUs = nowUs + LEAVE_US
  entering.step = LEAVING
  askDisconnect(entering, nowUs)
  return EVENT_NONE
}

function leave(entering: Entering, event: number): number {
  entering.step = LEFT
  entering.visit.timerUs = Infinity
  return event
}

/** What that brought about over there is gone on with. */
function followVisit(entering: Entering, event: number, nowUs: number): number {
  const { visit, step } = entering
  if (event === VISIT_NONE) return EVENT_NONE
  if (event === VISIT_BROKEN) return EVENT_BROKEN
  if (event === VISIT_ENTERED) {
    if (step === LEAVING) askDisconnect(entering, nowUs)
    else askRegion(entering, nowUs)
    return EVENT_NONE
  }
  // Whatever was said of it, or nothing: it is over.
  if (step === LEAVING) return leave(entering, EVENT_CLOSED)
  if (event === VISIT_TIMED_OUT) return leave(entering, EVENT_TIMED_OUT)
  if (visit.fault !== PASS) return refuse(entering, visit.fault)
  return step === ENTERING_REGION ? takeRegion(entering, nowUs) : takePair(entering)
}

/** Of another card's faults those are told that its operator has to do something about. */
function refuse(entering: Entering, fault: Fault): number {
  const isRefused = fault === PEER_UNKNOWN || fault === FORBIDDEN || fault === OPEN_CARD
  if (isRefused) entering.fault = RELAY_REFUSED
  return leave(entering, EVENT_REJECTED)
}

function askRegion(entering: Entering, nowUs: number): void {
  const { visit, options } = entering
  entering.step = ENTERING_REGION
  const fill = (body: Uint8Array): void => {
    for (let i = 0; i < options.region.length; i++) {
      body[mad.REGION_NAME + i] = options.region.charCodeAt(i)
    }
  }
  ask(visit, mad.METHOD_GET, mad.ATTRIBUTE_OPEN, fill, nowUs)
}

function takeRegion(entering: Entering, nowUs: number): number {
  const { body } = entering.visit
  entering.region = {
    slots: u32(body, mad.REGION_SLOTS),
    capacity: u32(body, mad.REGION_CAPACITY),
    copies: body[mad.REGION_COPIES]!,
    kind: body[mad.REGION_KIND]!,
    flags: u16(body, mad.REGION_FLAGS),
    rkey: u32(body, mad.REGION_RKEY),
    protectionDomain: u16(body, mad.REGION_DOMAIN),
  }
  entering.step = ENTERING_PAIR
  ask(
    entering.visit,
    mad.METHOD_SET,
    mad.ATTRIBUTE_CONNECT,
    (body) => fillConnect(entering, body),
    nowUs,
  )
  return EVENT_NONE
}

function fillConnect({ options, region }: Entering, body: Uint8Array): void {
  putU32(body, mad.CONNECT_CLIENT_QP, options.qpn)
  putU32(body, mad.CONNECT_CLIENT_PSN, options.startingPsn)
  putU16(body, mad.CONNECT_PATH_MTU, options.pathMtu)
  putU16(body, mad.CONNECT_DOMAIN, region!.protectionDomain)
  putU16(body, mad.CONNECT_CLIENT_SEND_DEPTH, CARD_DEPTHS.send)
  putU16(body, mad.CONNECT_CLIENT_RECEIVE_DEPTH, CARD_DEPTHS.receive)
  putU32(body, mad.CONNECT_CLIENT_ID_HIGH, options.clientHigh)
  putU32(body, mad.CONNECT_CLIENT_ID_LOW, options.clientLow)
  body[mad.CONNECT_TAGS] = 1
}

function takePair(entering: Entering): number {
  const { body } = entering.visit
  const keysEnd = mad.CONNECT_TAG_KEYS + mad.CONNECT_TAG_KEYS_BYTES
  const send = u16(body, mad.CONNECT_SEND_DEPTH)
  const entrance = {
    qpn: u32(body, mad.CONNECT_QP),
    startingPsn: u32(body, mad.CONNECT_FIRST_PSN),
    pathMtu: u16(body, mad.CONNECT_GRANTED_MTU),
    incarnation: u32(body, mad.CONNECT_INCARNATION),
    told: { send, receive: u16(body, mad.CONNECT_RECEIVE_DEPTH) },
    tagKeys: body.slice(mad.CONNECT_TAG_KEYS, keysEnd),
  }
  if (body[mad.CONNECT_TAGS] !== 1 || !canBe(entrance, entering.options)) {
    return leave(entering, EVENT_REJECTED)
  }
  entering.entrance = entrance
  entering.step = ENTERED
  return EVENT_CONNECTED
}

/** No packets can be made for a queue pair that is none. */
function canBe(entrance: Entrance, { pathMtu }: EnteringOptions): boolean {
  if (!isMtu(entrance.pathMtu) || entrance.pathMtu > pathMtu) return false
  if (!isPeer(entrance.qpn) || entrance.startingPsn >= PSNS) return false
  return depthsFault(entrance.told) === PASS
}

function askDisconnect(entering: Entering, nowUs: number): void {
  const { visit, entrance, options } = entering
  const fill = (body: Uint8Array): void => {
    putU32(body, mad.DISCONNECT_QP, entrance!.qpn)
    putU32(body, mad.DISCONNECT_CLIENT_QP, options.qpn)
  }
  ask(visit, mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, fill, nowUs)
}
