/**
 * RDMA-CM messages (IBTA Vol 1, 12.6): management datagrams of class 7, 256 bytes, big-endian, the
 * payload of a UD SEND Only from QP 1 to QP 1.
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|   1    |  0x07  |   2    |  0x03  |   base version, class, class version, method Send
 *   +--------+--------+--------+--------+
 *  4|     status      | class specific  |
 *   +--------+--------+--------+--------+
 *  8|      transaction id (8 bytes)     |   an answer copies it
 *   +--------+--------+--------+--------+
 * 16|    attribute    |        0        |   which message
 *   +--------+--------+--------+--------+
 * 20|             modifier              |
 *   +--------+--------+--------+--------+
 * 24|          body (232 bytes)         |
 *
 * Invariant: `cmFault` looks at what is common to all messages, and 256 bytes are there
 * after it, so a body is read without looking again. Every field of a body is in its record, and
 * what has no name is zero in what is written. Offsets below count from the body.
 */

import { CONNECTION_FORM, type Fault, PASS } from '../board/fault.ts'
import { putU16, putU24, putU32, u16, u24, u32 } from './bytes.ts'

export const CM_BYTES = 256
export const CM_CLASS = 0x07
export const CM_CLASS_VERSION = 2
export const CM_METHOD_SEND = 0x03

const BASE_VERSION = 1
const AT_CLASS = 1
const AT_CLASS_VERSION = 2
const AT_METHOD = 3
const AT_STATUS = 4
const AT_SPECIFIC = 6
const AT_TRANSACTION_HIGH = 8
const AT_TRANSACTION_LOW = 12
const AT_ATTRIBUTE = 16
const AT_MODIFIER = 20
export const CM_BODY = 24

/** The messages. */
export const CM_REQ = 0x10
export const CM_MRA = 0x11
export const CM_REJ = 0x12
export const CM_REP = 0x13
export const CM_RTU = 0x14
export const CM_DREQ = 0x15
export const CM_DREP = 0x16

/** Why a connection was rejected (IBTA 12.6.7.2). */
export const REJECT_NO_QP = 1
export const REJECT_NO_RESOURCES = 3
export const REJECT_TIMEOUT = 4
export const REJECT_UNSUPPORTED = 5
export const REJECT_COMM_ID = 6
export const REJECT_SERVICE_ID = 8
export const REJECT_TRANSPORT = 9
export const REJECT_STALE = 10
export const REJECT_GID = 12
export const REJECT_MTU = 26
export const REJECT_CONSUMER = 28

/** Which message was rejected, or its receipt acknowledged. */
export const MESSAGE_REQ = 0
export const MESSAGE_REP = 1
export const MESSAGE_OTHER = 2

/** Upper word of every service id, and of the lower one for ports of TCP (annex A11). */
export const SERVICE_HIGH = 0
export const SERVICE_TCP = 0x01060000

/** Transport type of a reliable connection. */
export const TRANSPORT_RC = 0

/** Is the payload an RDMA-CM message at all? The rest of it may still be malformed. */
export function isCm(bytes: Uint8Array, at: number, length: number): boolean {
  return length > AT_CLASS && bytes[at + AT_CLASS] === CM_CLASS
}

/** Whether the payload of `length` bytes is a message of this form: PASS or CONNECTION_FORM. */
export function cmFault(bytes: Uint8Array, at: number, length: number): Fault {
  if (length !== CM_BYTES) return CONNECTION_FORM
  if (bytes[at] !== BASE_VERSION || bytes[at + AT_CLASS] !== CM_CLASS) return CONNECTION_FORM
  if (bytes[at + AT_CLASS_VERSION] !== CM_CLASS_VERSION) return CONNECTION_FORM
  return bytes[at + AT_METHOD] === CM_METHOD_SEND ? PASS : CONNECTION_FORM
}

export interface CmHeader {
  status: number
  transactionHigh: number
  transactionLow: number
  attribute: number
  modifier: number
}

export function blankCmHeader(): CmHeader {
  return { status: 0, transactionHigh: 0, transactionLow: 0, attribute: CM_REQ, modifier: 0 }
}

/** Reads 24 bytes at `at`; `cmFault` has passed them. */
export function readCmHeader(into: CmHeader, bytes: Uint8Array, at: number): void {
  into.status = u16(bytes, at + AT_STATUS)
  into.transactionHigh = u32(bytes, at + AT_TRANSACTION_HIGH)
  into.transactionLow = u32(bytes, at + AT_TRANSACTION_LOW)
  into.attribute = u16(bytes, at + AT_ATTRIBUTE)
  into.modifier = u32(bytes, at + AT_MODIFIER)
}

/** Writes the header and an empty body, 256 bytes at `at`; the messages below go into it. */
export function writeCmHeader(bytes: Uint8Array, at: number, from: CmHeader): void {
  bytes.fill(0, at, at + CM_BYTES)
  bytes[at] = BASE_VERSION
  bytes[at + AT_CLASS] = CM_CLASS
  bytes[at + AT_CLASS_VERSION] = CM_CLASS_VERSION
  bytes[at + AT_METHOD] = CM_METHOD_SEND
  putU16(bytes, at + AT_STATUS, from.status)
  putU16(bytes, at + AT_SPECIFIC, 0)
  putU32(bytes, at + AT_TRANSACTION_HIGH, from.transactionHigh)
  putU32(bytes, at + AT_TRANSACTION_LOW, from.transactionLow)
  putU16(bytes, at + AT_ATTRIBUTE, from.attribute)
  putU32(bytes, at + AT_MODIFIER, from.modifier)
}

/*
 * Every message but the first begins with the two communication ids, the sender's own first.
 */
export const CM_LOCAL_ID = 0
export const CM_REMOTE_ID = 4

export function readIds(into: CmIds, bytes: Uint8Array, at: number): void {
  into.localId = u32(bytes, at + CM_LOCAL_ID)
  into.remoteId = u32(bytes, at + CM_REMOTE_ID)
}

export function writeIds(bytes: Uint8Array, at: number, from: CmIds): void {
  putU32(bytes, at + CM_LOCAL_ID, from.localId)
  putU32(bytes, at + CM_REMOTE_ID, from.remoteId)
}

/** RTU and DREP are no more than this, and private data of 224 bytes from 8 on. */
export interface CmIds {
  localId: number
  remoteId: number
}

/*
 * REQ (IBTA 12.6.5).
 *
 *    0 local communication id u32     5 vendor id u24         8 service id u64
 *   16 CA GUID u64                   28 Q_Key u32            32 local QPN u24
 *   35 responder resources u8        36 local EECN u24       39 initiator depth u8
 *   40 remote EECN u24               43 b7-3 remote response timeout, b2-1 transport, b0 credits
 *   44 starting PSN u24              47 b7-3 local response timeout, b2-0 retry count
 *   48 P_Key u16                     50 b7-4 path MTU, b3 RDC, b2-0 RNR retry count
 *   51 b7-4 CM retries, b3 SRQ, b2-0 extended transport
 *   52 local LID u16                 54 remote LID u16
 *   56 local GID, 16 bytes           72 remote GID, 16 bytes
 *   88 b31-12 flow label, b5-0 rate  92 traffic class        93 hop limit
 *   94 b7-4 SL, b3 subnet local      95 b7-3 local ACK timeout
 *   96 alternate path, 44 bytes     140 private data, 92 bytes
 */
const REQ_VENDOR = 5
const REQ_SERVICE = 8
const REQ_GUID = 16
const REQ_QKEY = 28
const REQ_QPN = 32
const REQ_RESOURCES = 35
const REQ_LOCAL_EECN = 36
const REQ_DEPTH = 39
const REQ_REMOTE_EECN = 40
const REQ_TRANSPORT = 43
const REQ_PSN = 44
const REQ_RETRY = 47
const REQ_PKEY = 48
const REQ_MTU = 50
const REQ_CM_RETRIES = 51
const REQ_LOCAL_LID = 52
const REQ_REMOTE_LID = 54
const REQ_LOCAL_GID = 56
const REQ_REMOTE_GID = 72
const REQ_FLOW = 88
const REQ_TRAFFIC_CLASS = 92
const REQ_HOP_LIMIT = 93
const REQ_LEVEL = 94
const REQ_ACK_TIMEOUT = 95
const REQ_ALTERNATE = 96
const REQ_PRIVATE = 140
const ALTERNATE_BYTES = 44

export const GID_BYTES = 16
/** Private data of a REQ: the header of IP addressing, then what is the user's. */
export const PRIVATE_BYTES_REQ = 92

export interface CmReq {
  localId: number
  vendorId: number
  serviceHigh: number
  serviceLow: number
  guidHigh: number
  guidLow: number
  qkey: number
  qpn: number
  /** READs and atomics that the sender serves at once. */
  responderResources: number
  localEecn: number
  /** READs and atomics that the sender wants to have under way. */
  initiatorDepth: number
  remoteEecn: number
  remoteTimeout: number
  transport: number
  flowControl: number
  /** PSN that the *receiver* will begin its requests with. */
  startingPsn: number
  /** Code t of how long the sender takes to answer: 4.096 µs * 2^t. */
  localTimeout: number
  retryCount: number
  pkey: number
  /** Code of the path MTU: 1 is 256 bytes, 5 is 4096. */
  pathMtu: number
  rdc: number
  rnrRetryCount: number
  cmRetries: number
  srq: number
  extendedTransport: number
  localLid: number
  remoteLid: number
  readonly localGid: Uint8Array
  readonly remoteGid: Uint8Array
  flowLabel: number
  rate: number
  trafficClass: number
  hopLimit: number
  /** Byte 94: service level and the bit of a local subnet. */
  level: number
  ackTimeout: number
  readonly alternate: Uint8Array
  readonly privateData: Uint8Array
}

export function blankReq(): CmReq {
  return {
    localId: 0,
    vendorId: 0,
    serviceHigh: SERVICE_HIGH,
    serviceLow: SERVICE_TCP,
    guidHigh: 0,
    guidLow: 0,
    qkey: 0,
    qpn: 0,
    responderResources: 0,
    localEecn: 0,
    initiatorDepth: 0,
    remoteEecn: 0,
    remoteTimeout: 20,
    transport: TRANSPORT_RC,
    flowControl: 0,
    startingPsn: 0,
    localTimeout: 20,
    retryCount: 7,
    pkey: 0xffff,
    pathMtu: 1,
    rdc: 0,
    rnrRetryCount: 7,
    cmRetries: 15,
    srq: 0,
    extendedTransport: 0,
    localLid: 0xffff,
    remoteLid: 0xffff,
    localGid: new Uint8Array(GID_BYTES),
    remoteGid: new Uint8Array(GID_BYTES),
    flowLabel: 0,
    rate: 0,
    trafficClass: 0,
    hopLimit: 64,
    level: 0,
    ackTimeout: 17,
    alternate: new Uint8Array(ALTERNATE_BYTES),
    privateData: new Uint8Array(PRIVATE_BYTES_REQ),
  }
}

function copyOut(into: Uint8Array, bytes: Uint8Array, at: number): void {
  for (let i = 0; i < into.length; i++) into[i] = bytes[at + i]!
}

/** Reads the body at `at`. */
export function readReq(into: CmReq, bytes: Uint8Array, at: number): void {
  into.localId = u32(bytes, at + CM_LOCAL_ID)
  into.vendorId = u24(bytes, at + REQ_VENDOR)
  into.serviceHigh = u32(bytes, at + REQ_SERVICE)
  into.serviceLow = u32(bytes, at + REQ_SERVICE + 4)
  into.guidHigh = u32(bytes, at + REQ_GUID)
  into.guidLow = u32(bytes, at + REQ_GUID + 4)
  into.qkey = u32(bytes, at + REQ_QKEY)
  into.qpn = u24(bytes, at + REQ_QPN)
  into.responderResources = bytes[at + REQ_RESOURCES]!
  into.localEecn = u24(bytes, at + REQ_LOCAL_EECN)
  into.initiatorDepth = bytes[at + REQ_DEPTH]!
  into.remoteEecn = u24(bytes, at + REQ_REMOTE_EECN)
  into.remoteTimeout = bytes[at + REQ_TRANSPORT]! >> 3
  into.transport = (bytes[at + REQ_TRANSPORT]! >> 1) & 3
  into.flowControl = bytes[at + REQ_TRANSPORT]! & 1
  into.startingPsn = u24(bytes, at + REQ_PSN)
  into.localTimeout = bytes[at + REQ_RETRY]! >> 3
  into.retryCount = bytes[at + REQ_RETRY]! & 7
  into.pkey = u16(bytes, at + REQ_PKEY)
  into.pathMtu = bytes[at + REQ_MTU]! >> 4
  into.rdc = (bytes[at + REQ_MTU]! >> 3) & 1
  into.rnrRetryCount = bytes[at + REQ_MTU]! & 7
  into.cmRetries = bytes[at + REQ_CM_RETRIES]! >> 4
  into.srq = (bytes[at + REQ_CM_RETRIES]! >> 3) & 1
  into.extendedTransport = bytes[at + REQ_CM_RETRIES]! & 7
  readPath(into, bytes, at)
  copyOut(into.alternate, bytes, at + REQ_ALTERNATE)
  copyOut(into.privateData, bytes, at + REQ_PRIVATE)
}

function readPath(into: CmReq, bytes: Uint8Array, at: number): void {
  into.localLid = u16(bytes, at + REQ_LOCAL_LID)
  into.remoteLid = u16(bytes, at + REQ_REMOTE_LID)
  copyOut(into.localGid, bytes, at + REQ_LOCAL_GID)
  copyOut(into.remoteGid, bytes, at + REQ_REMOTE_GID)
  into.flowLabel = u24(bytes, at + REQ_FLOW) >> 4
  into.rate = bytes[at + REQ_FLOW + 3]! & 0x3f
  into.trafficClass = bytes[at + REQ_TRAFFIC_CLASS]!
  into.hopLimit = bytes[at + REQ_HOP_LIMIT]!
  into.level = bytes[at + REQ_LEVEL]!
  into.ackTimeout = bytes[at + REQ_ACK_TIMEOUT]! >> 3
}

/** Writes the body at `at`; it is zero before. */
export function writeReq(bytes: Uint8Array, at: number, from: CmReq): void {
  putU32(bytes, at + CM_LOCAL_ID, from.localId)
  putU24(bytes, at + REQ_VENDOR, from.vendorId)
  putU32(bytes, at + REQ_SERVICE, from.serviceHigh)
  putU32(bytes, at + REQ_SERVICE + 4, from.serviceLow)
  putU32(bytes, at + REQ_GUID, from.guidHigh)
  putU32(bytes, at + REQ_GUID + 4, from.guidLow)
  putU32(bytes, at + REQ_QKEY, from.qkey)
  putU24(bytes, at + REQ_QPN, from.qpn)
  bytes[at + REQ_RESOURCES] = from.responderResources
  putU24(bytes, at + REQ_LOCAL_EECN, from.localEecn)
  bytes[at + REQ_DEPTH] = from.initiatorDepth
  putU24(bytes, at + REQ_REMOTE_EECN, from.remoteEecn)
  bytes[at + REQ_TRANSPORT] = (from.remoteTimeout << 3) | (from.transport << 1) | from.flowControl
  putU24(bytes, at + REQ_PSN, from.startingPsn)
  bytes[at + REQ_RETRY] = (from.localTimeout << 3) | from.retryCount
  putU16(bytes, at + REQ_PKEY, from.pkey)
  bytes[at + REQ_MTU] = (from.pathMtu << 4) | (from.rdc << 3) | from.rnrRetryCount
  bytes[at + REQ_CM_RETRIES] = (from.cmRetries << 4) | (from.srq << 3) | from.extendedTransport
  putU16(bytes, at + REQ_LOCAL_LID, from.localLid)
  putU16(bytes, at + REQ_REMOTE_LID, from.remoteLid)
  bytes.set(from.localGid, at + REQ_LOCAL_GID)
  bytes.set(from.remoteGid, at + REQ_REMOTE_GID)
  putU24(bytes, at + REQ_FLOW, from.flowLabel << 4)
  bytes[at + REQ_FLOW + 3] = from.rate
  bytes[at + REQ_TRAFFIC_CLASS] = from.trafficClass
  bytes[at + REQ_HOP_LIMIT] = from.hopLimit
  bytes[at + REQ_LEVEL] = from.level
  bytes[at + REQ_ACK_TIMEOUT] = from.ackTimeout << 3
  bytes.set(from.alternate, at + REQ_ALTERNATE)
  bytes.set(from.privateData, at + REQ_PRIVATE)
}

/*
 * The header of IP addressing in front of the private data of a REQ (annex A11): 36 bytes.
 *
 *    0 version 0   1 b7-4 IP version   2 source port u16   4 source, 16 bytes
 *   20 destination, 16 bytes          36 what is the user's, 56 bytes
 *
 * An IPv4 address stands in the last four of its sixteen bytes and is not a mapped one.
 */
export const IP_CM_IP_VERSION = 1
export const IP_CM_SOURCE_PORT = 2
export const IP_CM_SOURCE = 4
export const IP_CM_DESTINATION = 20
export const IP_CM_USER = 36
export const USER_BYTES_REQ: number = PRIVATE_BYTES_REQ - IP_CM_USER

/*
 * REP (IBTA 12.6.8).
 *
 *    0 local communication id u32    4 remote communication id u32    8 Q_Key u32
 *   12 local QPN u24                15 vendor id, first byte         16 local EECN u24
 *   19 vendor id, second byte       20 starting PSN u24              23 vendor id, third byte
 *   24 responder resources u8       25 initiator depth u8
 *   26 b7-3 target ACK delay, b2-1 failover, b0 flow control
 *   27 b7-5 RNR retry count, b4 SRQ 28 CA GUID u64                   36 private data, 196 bytes
 */
const REP_QKEY = 8
const REP_QPN = 12
const REP_VENDOR_HIGH = 15
const REP_EECN = 16
const REP_VENDOR_MIDDLE = 19
const REP_PSN = 20
const REP_VENDOR_LOW = 23
const REP_RESOURCES = 24
const REP_DEPTH = 25
const REP_DELAY = 26
const REP_RNR = 27
const REP_GUID = 28
const REP_PRIVATE = 36

export const PRIVATE_BYTES_REP = 196

export interface CmRep extends CmIds {
  qkey: number
  qpn: number
  vendorId: number
  localEecn: number
  /** PSN that the *receiver* will begin its requests with. */
  startingPsn: number
  responderResources: number
  initiatorDepth: number
  targetAckDelay: number
  failover: number
  flowControl: number
  rnrRetryCount: number
  srq: number
  guidHigh: number
  guidLow: number
  readonly privateData: Uint8Array
}

export function blankRep(): CmRep {
  return {
    localId: 0,
    remoteId: 0,
    qkey: 0,
    qpn: 0,
    vendorId: 0,
    localEecn: 0,
    startingPsn: 0,
    responderResources: 1,
    initiatorDepth: 1,
    targetAckDelay: 0,
    failover: 0,
    flowControl: 0,
    rnrRetryCount: 7,
    srq: 0,
    guidHigh: 0,
    guidLow: 0,
    privateData: new Uint8Array(PRIVATE_BYTES_REP),
  }
}

/** Reads the body at `at`. */
export function readRep(into: CmRep, bytes: Uint8Array, at: number): void {
  readIds(into, bytes, at)
  into.qkey = u32(bytes, at + REP_QKEY)
  into.qpn = u24(bytes, at + REP_QPN)
  into.vendorId =
    (bytes[at + REP_VENDOR_HIGH]! << 16) |
    (bytes[at + REP_VENDOR_MIDDLE]! << 8) |
    bytes[at + REP_VENDOR_LOW]!
  into.localEecn = u24(bytes, at + REP_EECN)
  into.startingPsn = u24(bytes, at + REP_PSN)
  into.responderResources = bytes[at + REP_RESOURCES]!
  into.initiatorDepth = bytes[at + REP_DEPTH]!
  into.targetAckDelay = bytes[at + REP_DELAY]! >> 3
  into.failover = (bytes[at + REP_DELAY]! >> 1) & 3
  into.flowControl = bytes[at + REP_DELAY]! & 1
  into.rnrRetryCount = bytes[at + REP_RNR]! >> 5
  into.srq = (bytes[at + REP_RNR]! >> 4) & 1
  into.guidHigh = u32(bytes, at + REP_GUID)
  into.guidLow = u32(bytes, at + REP_GUID + 4)
  copyOut(into.privateData, bytes, at + REP_PRIVATE)
}

/** Writes the body at `at`; it is zero before. */
export function writeRep(bytes: Uint8Array, at: number, from: CmRep): void {
  writeIds(bytes, at, from)
  putU32(bytes, at + REP_QKEY, from.qkey)
  putU24(bytes, at + REP_QPN, from.qpn)
  bytes[at + REP_VENDOR_HIGH] = from.vendorId >> 16
  bytes[at + REP_VENDOR_MIDDLE] = from.vendorId >> 8
  bytes[at + REP_VENDOR_LOW] = from.vendorId
  putU24(bytes, at + REP_EECN, from.localEecn)
  putU24(bytes, at + REP_PSN, from.startingPsn)
  bytes[at + REP_RESOURCES] = from.responderResources
  bytes[at + REP_DEPTH] = from.initiatorDepth
  bytes[at + REP_DELAY] = (from.targetAckDelay << 3) | (from.failover << 1) | from.flowControl
  bytes[at + REP_RNR] = (from.rnrRetryCount << 5) | (from.srq << 4)
  putU32(bytes, at + REP_GUID, from.guidHigh)
  putU32(bytes, at + REP_GUID + 4, from.guidLow)
  bytes.set(from.privateData, at + REP_PRIVATE)
}

/*
 * REJ (IBTA 12.6.7).
 *
 *    0 local communication id u32, 0 where a REQ is rejected    4 remote communication id u32
 *    8 b7-6 message rejected    9 b7-1 length of the information    10 reason u16
 *   12 additional information, 72 bytes                             84 private data, 148 bytes
 */
const REJ_MESSAGE = 8
const REJ_LENGTH = 9
const REJ_REASON = 10
const REJ_INFORMATION = 12
const REJ_PRIVATE = 84

export const REJECT_INFORMATION_BYTES = 72
/** A GUID in the additional information: with reason 4, the CA of who takes its REQ back. */
export const GUID_BYTES = 8
export const PRIVATE_BYTES_REJ = 148

export interface CmRej extends CmIds {
  message: number
  /** Bytes of additional information that count. */
  informationLength: number
  reason: number
  readonly information: Uint8Array
  readonly privateData: Uint8Array
}

export function blankRej(): CmRej {
  return {
    localId: 0,
    remoteId: 0,
    message: MESSAGE_REQ,
    informationLength: 0,
    reason: REJECT_CONSUMER,
    information: new Uint8Array(REJECT_INFORMATION_BYTES),
    privateData: new Uint8Array(PRIVATE_BYTES_REJ),
  }
}

/** Reads the body at `at`. */
export function readRej(into: CmRej, bytes: Uint8Array, at: number): void {
  readIds(into, bytes, at)
  into.message = bytes[at + REJ_MESSAGE]! >> 6
  into.informationLength = bytes[at + REJ_LENGTH]! >> 1
  into.reason = u16(bytes, at + REJ_REASON)
  copyOut(into.information, bytes, at + REJ_INFORMATION)
  copyOut(into.privateData, bytes, at + REJ_PRIVATE)
}

/** Writes the body at `at`; it is zero before. */
export function writeRej(bytes: Uint8Array, at: number, from: CmRej): void {
  writeIds(bytes, at, from)
  bytes[at + REJ_MESSAGE] = from.message << 6
  bytes[at + REJ_LENGTH] = from.informationLength << 1
  putU16(bytes, at + REJ_REASON, from.reason)
  bytes.set(from.information, at + REJ_INFORMATION)
  bytes.set(from.privateData, at + REJ_PRIVATE)
}

/*
 * DREQ (IBTA 12.6.10): ids, then 8 QPN of the receiver u24, then private data of 220 bytes from 12
 * on. MRA (12.6.6): ids, 8 b7-6 message, 9 b7-3 service timeout, private data of 222 bytes from 10.
 */
const DREQ_QPN = 8
const MRA_MESSAGE = 8
const MRA_TIMEOUT = 9

/** The queue pair that a DREQ names: the receiver's. */
export function dreqQpn(bytes: Uint8Array, at: number): number {
  return u24(bytes, at + DREQ_QPN)
}

export function putDreqQpn(bytes: Uint8Array, at: number, qpn: number): void {
  putU24(bytes, at + DREQ_QPN, qpn)
}

/** Which message an MRA is the receipt of. */
export function mraMessage(bytes: Uint8Array, at: number): number {
  return bytes[at + MRA_MESSAGE]! >> 6
}

/** Code t of how long its sender still takes: 4.096 µs * 2^t. */
export function mraTimeout(bytes: Uint8Array, at: number): number {
  return bytes[at + MRA_TIMEOUT]! >> 3
}

/** The time that a code of five bits stands for, µs (IBTA 9.9.2): 4.096 * 2^code. */
export function codedUs(code: number): number {
  return 4.096 * 2 ** code
}

/** Bytes of the path MTU of that code, or 0 for one that is none. */
export function mtuOfCode(code: number): number {
  return code >= 1 && code <= 5 ? 128 << code : 0
}

/** The code of a path MTU of 256, 512, 1024, 2048 or 4096 bytes. */
export function codeOfMtu(bytes: number): number {
  return 31 - Math.clz32(bytes >> 7)
}

/** EUI-64 of an Ethernet address (RFC 4291, appendix A), as two words. */
export function guidHigh(mac: readonly number[]): number {
  return (((mac[0]! ^ 2) << 24) | (mac[1]! << 16) | (mac[2]! << 8) | 0xff) >>> 0
}

export function guidLow(mac: readonly number[]): number {
  return ((0xfe << 24) | (mac[3]! << 16) | (mac[4]! << 8) | mac[5]!) >>> 0
}
