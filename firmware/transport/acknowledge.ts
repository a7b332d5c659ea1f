// hot path
/**
 * Answers: the frames that the responder sends, composed in the transmit places.
 *
 * Invariant: a frame is complete except for its ICRC before its TRANSMIT is in the list; an
 * acknowledged PSN is one that was accepted (wire-format 3.5, ghost ACKs) and never passes a
 * request whose own response is still to come (3.6), nor a store whose acknowledgement is withheld
 * until it is durable (D-9); the syndrome of an acknowledgement says "no credits" (31). Every
 * command of an answer bears the owner of the answer, so that it is left out where something before
 * it failed.
 */

import { type CommandList, transmit } from '../board/command-list.ts'
import { TRANSMIT_AT } from '../board/hal.ts'
import {
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  REMEMBERED_KINDS,
  TRANSMIT_FRAMES,
} from '../board/limits.ts'
import { AETH_BYTES, SYNDROME_ACK } from '../wire/aeth.ts'
import {
  BECN,
  BTH_BYTES,
  BTH_CONGESTION,
  BTH_DEST_QP,
  BTH_FLAGS,
  BTH_PKEY,
  BTH_PSN,
  PKEY_DEFAULT,
} from '../wire/bth.ts'
import { putU16, putU24, putU32, u16 } from '../wire/bytes.ts'
import {
  ETH_DESTINATION,
  ETH_SOURCE,
  ETH_TYPE,
  ETHERNET_BYTES,
  ETHERTYPE_IPV4,
  ETHERTYPE_IPV6,
  MAC_BYTES,
} from '../wire/ethernet.ts'
import { ICRC_BYTES } from '../wire/icrc.ts'
import {
  IPV4_BYTES,
  IPV4_CHECKSUM,
  IPV4_DESTINATION,
  IPV4_DO_NOT_FRAGMENT,
  IPV4_FRAGMENT,
  IPV4_PROTOCOL,
  IPV4_SOURCE,
  IPV4_TIME_TO_LIVE,
  IPV4_TOTAL_LENGTH,
  IPV4_TRAFFIC_CLASS,
  IPV4_VERSION,
  IPV4_VERSION_5_WORDS,
} from '../wire/ipv4.ts'
import {
  IPV6_ADDRESS_BYTES,
  IPV6_BYTES,
  IPV6_DESTINATION,
  IPV6_HOP_LIMIT,
  IPV6_NEXT_HEADER,
  IPV6_PAYLOAD_LENGTH,
  IPV6_SOURCE,
  IPV6_VERSION,
} from '../wire/ipv6.ts'
import { CNP, PERSIST_ACK, RC_ACKNOWLEDGE, RC_READ_RESPONSE_ONLY } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  bitmapWords,
  PAETH_BATCH_COUNT,
  PAETH_BATCH_DURABLE,
  PAETH_BATCH_ID,
  PAETH_BITMAP_WORDS,
  PAETH_BYTES,
  PAETH_COPIES,
  PAETH_FIRST_PSN,
  PAETH_FLAGS,
  PAETH_INCARNATION,
  PAETH_LAST_PSN,
  PAETH_MECHANISM,
  PAETH_OPERATION_HIGH,
  PAETH_OPERATION_LOW,
  PAETH_RECORDS,
  PAETH_STATUS,
  PAETH_VERSION,
  PAETH_WORDS,
  PERSIST_ACK_VERSION,
  writeBitmap,
} from '../wire/persist-ack.ts'
import {
  PROTOCOL_UDP,
  ROCE_PORT,
  UDP_BYTES,
  UDP_CHECKSUM,
  UDP_DESTINATION_PORT,
  UDP_LENGTH,
  UDP_SOURCE_PORT,
} from '../wire/udp.ts'
import { psnAdd, psnDistance } from './psn.ts'
import { KIND_READ, type QueuePair } from './queue-pair.ts'

/** Flags of a PERSIST_ACK: every record that ends in the range is durable; some copies are not. */
export const PERSIST_ALL = 0x80
export const PERSIST_DEGRADED = 0x08
/** It answers a query; and every operation up to the one in it is durable. */
export const PERSIST_ANSWERS_QUERY = 0x10
export const PERSIST_CUMULATIVE = 0x40
/** It is the status of a batch. */
export const PERSIST_OF_BATCH = 0x20

const HOP_LIMIT = 64
const SOURCE_PORT_BASE = 0xc000

export interface Answers {
  readonly list: CommandList
  readonly bytes: Uint8Array
  /** Transmit places in use by commands that were not run yet. */
  used: number
  /** Runs of the list that `used` knows of: after another one all places are free. */
  runs: number
  /** Groups committed so far: what joined an earlier one is durable, or was refused. */
  groups: number
  /** PERSIST_ACKs, and answers to FLUSH and ATOMIC WRITE, composed so far. */
  acks: number
  /** Runs the list to make room. */
  makeRoom: () => void
}

export function createAnswers(list: CommandList): Answers {
  const bytes = new Uint8Array(list.machine.memory)
  return { list, bytes, used: 0, runs: 0, groups: 0, acks: 0, makeRoom: makeNoRoom }
}

function makeNoRoom(): void {}

/** Transmit places that are free. */
export function transmitRoom(answers: Answers): number {
  if (answers.runs !== answers.list.runs) {
    answers.runs = answers.list.runs
    answers.used = 0
  }
  return TRANSMIT_FRAMES - answers.used
}

/** A place for one frame; where there is none, the list is run to make room. */
export function takeFrame(answers: Answers): number {
  if (transmitRoom(answers) === 0) {
    answers.makeRoom()
    transmitRoom(answers)
  }
  const at = TRANSMIT_AT + answers.used * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
  answers.used += 1
  return at
}

/**
 * Keeps the headers of every answer to the sender of this packet: its addresses, turned round.
 * RoCEv2 wants UDP checksum 0 and one source port per queue pair (wire-format 1.1).
 */
export function prepareTemplate(qp: QueuePair, bytes: Uint8Array, packet: Packet): void {
  const at = qp.templateAt
  const from = packet.frameAt
  bytes.copyWithin(at + ETH_DESTINATION, from + ETH_SOURCE, from + ETH_SOURCE + MAC_BYTES)
  bytes.copyWithin(at + ETH_SOURCE, from + ETH_DESTINATION, from + ETH_DESTINATION + MAC_BYTES)
  qp.ipVersion = packet.ipVersion
  const ipAt = at + ETHERNET_BYTES
  const udpAt = ipAt + (packet.ipVersion === 4 ? IPV4_BYTES : IPV6_BYTES)
  if (packet.ipVersion === 4) prepareIpv4(qp, bytes, at, packet)
  else prepareIpv6(bytes, at, packet)
  putU16(bytes, udpAt + UDP_SOURCE_PORT, SOURCE_PORT_BASE | qp.index)
  putU16(bytes, udpAt + UDP_DESTINATION_PORT, ROCE_PORT)
  putU16(bytes, udpAt + UDP_CHECKSUM, 0)
  const bthAt = udpAt + UDP_BYTES
  bytes.fill(0, bthAt, bthAt + BTH_BYTES)
  putU16(bytes, bthAt + BTH_PKEY, PKEY_DEFAULT)
  putU24(bytes, bthAt + BTH_DEST_QP, qp.peerNumber)
  qp.templateBytes = bthAt + BTH_BYTES - at
}

function prepareIpv4(qp: QueuePair, bytes: Uint8Array, at: number, packet: Packet): void {
  const ip = at + ETHERNET_BYTES
  putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV4)
  bytes.fill(0, ip, ip + IPV4_BYTES)
  bytes[ip + IPV4_VERSION] = IPV4_VERSION_5_WORDS
  bytes[ip + IPV4_TRAFFIC_CLASS] = bytes[packet.ipAt + IPV4_TRAFFIC_CLASS]! & 0xfc
  putU16(bytes, ip + IPV4_FRAGMENT, IPV4_DO_NOT_FRAGMENT)
  bytes[ip + IPV4_TIME_TO_LIVE] = HOP_LIMIT
  bytes[ip + IPV4_PROTOCOL] = PROTOCOL_UDP
  const source = packet.ipAt + IPV4_SOURCE
  const destination = packet.ipAt + IPV4_DESTINATION
  bytes.copyWithin(ip + IPV4_DESTINATION, source, source + 4)
  bytes.copyWithin(ip + IPV4_SOURCE, destination, destination + 4)
  qp.peerIpv4 = wordAt(bytes, source)
  let sum = 0
  for (let i = 0; i < IPV4_BYTES; i += 2) sum += u16(bytes, ip + i)
  qp.ipSum = sum
}

/** Have both queue pairs the same peer: is what each sends sent to one address? */
export function isSamePeer(one: QueuePair, other: QueuePair, bytes: Uint8Array): boolean {
  if (one.ipVersion !== other.ipVersion) return false
  if (one.ipVersion === 4) return one.peerIpv4 === other.peerIpv4
  return isSameAddress(bytes, peerIpv6(one), peerIpv6(other))
}

/** Did the packet come from the Ethernet address to which the queue pair's answers go? */
export function isFromStation(qp: QueuePair, packet: Packet, bytes: Uint8Array): boolean {
  const from = packet.frameAt + ETH_SOURCE
  const to = qp.templateAt + ETH_DESTINATION
  for (let i = 0; i < MAC_BYTES; i++) if (bytes[from + i] !== bytes[to + i]) return false
  return true
}

function peerIpv6(qp: QueuePair): number {
  return qp.templateAt + ETHERNET_BYTES + IPV6_DESTINATION
}

function isSameAddress(bytes: Uint8Array, one: number, other: number): boolean {
  for (let i = 0; i < IPV6_ADDRESS_BYTES; i++) {
    if (bytes[one + i] !== bytes[other + i]) return false
  }
  return true
}

/** Four bytes as the word that an Int32Array shows: the machine is little-endian. */
export function wordAt(bytes: ArrayLike<number>, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}

function prepareIpv6(bytes: Uint8Array, at: number, packet: Packet): void {
  const ip = at + ETHERNET_BYTES
  putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV6)
  bytes.fill(0, ip, ip + IPV6_BYTES)
  // The class without its congestion mark, over two bytes, as IPv4 has it in one.
  bytes[ip + IPV6_VERSION] = 0x60 | (bytes[packet.ipAt + IPV6_VERSION]! & 0x0f)
  bytes[ip + IPV6_VERSION + 1] = bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0
  bytes[ip + IPV6_NEXT_HEADER] = PROTOCOL_UDP
  bytes[ip + IPV6_HOP_LIMIT] = HOP_LIMIT
  const source = packet.ipAt + IPV6_SOURCE
  const destination = packet.ipAt + IPV6_DESTINATION
  bytes.copyWithin(ip + IPV6_DESTINATION, source, source + IPV6_ADDRESS_BYTES)
  bytes.copyWithin(ip + IPV6_SOURCE, destination, destination + IPV6_ADDRESS_BYTES)
}

/** Writes the lengths of IP and UDP for `behind` bytes behind BTH, without the ICRC. */
function writeLengths(qp: QueuePair, bytes: Uint8Array, at: number, behind: number): void {
  const udpLength = UDP_BYTES + BTH_BYTES + behind + qp.tagBytes + ICRC_BYTES
  const ip = at + ETHERNET_BYTES
  if (qp.ipVersion === 4) {
    const total = IPV4_BYTES + udpLength
    let sum = qp.ipSum + total
    sum = (sum & 0xffff) + (sum >> 16)
    sum = (sum & 0xffff) + (sum >> 16)
    putU16(bytes, ip + IPV4_TOTAL_LENGTH, total)
    putU16(bytes, ip + IPV4_CHECKSUM, ~sum & 0xffff)
    putU16(bytes, ip + IPV4_BYTES + UDP_LENGTH, udpLength)
  } else {
    putU16(bytes, ip + IPV6_PAYLOAD_LENGTH, udpLength)
    putU16(bytes, ip + IPV6_BYTES + UDP_LENGTH, udpLength)
  }
}

/** What the commands bear that stand in the list on behalf of that PSN of the queue pair. */
export function psnOwnerOf(qp: QueuePair, psn: number): number {
  return (qp.index + 1) * 2 ** 24 + psn
}

/**
 * Begins a frame: headers up to BTH for `behind` bytes behind it (with pad). Returns the position
 * behind BTH. What is appended up to `endFrame` belongs to the frame's owner.
 */
export function beginFrame(
  answers: Answers,
  qp: QueuePair,
  opcode: number,
  psn: number,
  behind: number,
  padBytes: number,
): number {
  const bytes = answers.bytes
  const at = takeFrame(answers)
  const end = at + qp.templateBytes
  answers.list.owner = psnOwnerOf(qp, psn)
  bytes.copyWithin(at, qp.templateAt, qp.templateAt + qp.templateBytes)
  writeLengths(qp, bytes, at, behind)
  const bth = end - BTH_BYTES
  bytes[bth] = opcode
  bytes[bth + BTH_FLAGS] = padBytes << 4
  putU24(bytes, bth + BTH_PSN, psn)
  return end
}

/** Appends the TRANSMIT of the frame whose BTH ended at `end`. */
export function endFrame(answers: Answers, qp: QueuePair, end: number, behind: number): void {
  const length = qp.templateBytes + behind + qp.tagBytes + ICRC_BYTES
  transmit(answers.list, end - qp.templateBytes, length, qp.tagAux)
  answers.list.owner = 0
}

function writeAethAt(qp: QueuePair, bytes: Uint8Array, at: number, syndrome: number): void {
  bytes[at] = syndrome
  putU24(bytes, at + 1, qp.messageSequence)
}

/** Writes the AETH of a positive answer, after so many messages. */
export function writeAck(bytes: Uint8Array, at: number, msn: number): void {
  bytes[at] = SYNDROME_ACK
  putU24(bytes, at + 1, msn)
}

/** Is the acknowledgement of one of its stores withheld, because it is not durable yet? */
export function isWithheld(answers: Answers, qp: QueuePair): boolean {
  return qp.withheldAt === answers.list.fences || qp.recordAt === answers.groups
}

function earlier(one: number, other: number): number {
  return psnDistance(one, other) < 0x800000 ? other : one
}

/** The newest PSN that may be acknowledged, not beyond `psn`. */
export function acknowledgeable(answers: Answers, qp: QueuePair, psn: number): number {
  let newest = psn
  if (qp.unanswered > 0) newest = earlier(newest, qp.ackLimit)
  if (isWithheld(answers, qp)) newest = earlier(newest, psnAdd(qp.withheldFrom, -1))
  return newest
}

/** An ACK or NAK (0x11) with that syndrome. */
export function answer(answers: Answers, qp: QueuePair, psn: number, syndrome: number): void {
  const end = beginFrame(answers, qp, RC_ACKNOWLEDGE, psn, AETH_BYTES, 0)
  writeAethAt(qp, answers.bytes, end, syndrome)
  endFrame(answers, qp, end, AETH_BYTES)
}

/** Acknowledges everything accepted so far, as far as it may be. */
export function answerAck(answers: Answers, qp: QueuePair): void {
  qp.ackDue = false
  answer(answers, qp, acknowledgeable(answers, qp, psnAdd(qp.expectedPsn, -1)), SYNDROME_ACK)
}

/**
 * Acknowledges a duplicate of PSN `psn`: the newest accepted PSN, but not past a request that has a
 * response of its own and was accepted behind the duplicate, as exactly that response may be what
 * was lost (wire-format 3.5). Silent where that would not acknowledge the duplicate itself.
 */
export function answerDuplicate(answers: Answers, qp: QueuePair, psn: number): void {
  // Before the first request there is nothing to acknowledge.
  if (!qp.used) return
  let newest = psnDistance(qp.expectedPsn, psn) - 1
  for (let i = 0; i < REMEMBERED_KINDS; i++) {
    const other = qp.kindPsn[i]!
    if (other < 0 || psnDistance(qp.expectedPsn, other) > 0x800000) continue
    const behind = psnDistance(other, psn)
    if (behind <= newest) newest = behind - 1
  }
  if (newest < 0 || isInsideRead(qp, psn)) return
  const last = acknowledgeable(answers, qp, psnAdd(psn, newest))
  if (psnDistance(last, psn) < 0x800000) answer(answers, qp, last, SYNDROME_ACK)
}

/** Was that PSN one of the responses of a READ? Then nobody sent a message under it. */
function isInsideRead(qp: QueuePair, psn: number): boolean {
  for (let i = 0; i < qp.saved.length; i++) {
    const { kind, psn: first, packets } = qp.saved[i]!
    if (kind === KIND_READ && psnDistance(psn, first) < packets) return true
  }
  return false
}

/** The response to FLUSH and ATOMIC WRITE: a READ Response Only without data (A19). */
export function answerDone(answers: Answers, qp: QueuePair, psn: number, msn: number): void {
  answers.acks += 1
  const end = beginFrame(answers, qp, RC_READ_RESPONSE_ONLY, psn, AETH_BYTES, 0)
  writeAck(answers.bytes, end, msn)
  endFrame(answers, qp, end, AETH_BYTES)
}

/** Bytes behind BTH in a congestion notification, all zero. */
const CNP_BYTES = 16
/** Its traffic class: DSCP 48, ECT(0), as network cards send it (wire-format 3.9). */
const CNP_TRAFFIC_CLASS = 0xc2

/** Tells the peer that its packets meet congestion (IBTA A17.9). */
export function notifyCongestion(answers: Answers, qp: QueuePair): void {
  const bytes = answers.bytes
  const end = beginFrame(answers, qp, CNP, 0, CNP_BYTES, 0)
  bytes[end - BTH_BYTES + BTH_CONGESTION] = BECN
  bytes.fill(0, end, end + CNP_BYTES)
  const ip = end - qp.templateBytes + ETHERNET_BYTES
  if (qp.ipVersion === 4) {
    bytes[ip + IPV4_TRAFFIC_CLASS] = CNP_TRAFFIC_CLASS
    putU16(bytes, ip + IPV4_CHECKSUM, 0)
    let sum = 0
    for (let i = 0; i < IPV4_BYTES; i += 2) sum += u16(bytes, ip + i)
    sum = (sum & 0xffff) + (sum >> 16)
    sum = (sum & 0xffff) + (sum >> 16)
    putU16(bytes, ip + IPV4_CHECKSUM, ~sum & 0xffff)
  } else {
    bytes[ip + IPV6_VERSION] = 0x60 | (CNP_TRAFFIC_CLASS >> 4)
    bytes[ip + IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 15)
  }
  endFrame(answers, qp, end, CNP_BYTES)
}

/** What a PERSIST_ACK says. PSNs are those that ended records. */
export interface PersistRange {
  firstPsn: number
  lastPsn: number
  operationHigh: number
  operationLow: number
  records: number
  status: number
  flags: number
  copies: number
  /** How they became durable: MECHANISM_* of wire/persist-ack.ts. */
  mechanism: number
  /** Segment of the queue pair that the records are of: a refusal between them begins another. */
  segment: number
}

/** What the status of a batch says besides: its bitmap is by index, not by PSN. */
interface BatchStatus {
  id: number
  /** Records of the batch, 1 to 256. */
  count: number
  /** Highest index that is durable without a gap, or BATCH_NONE_DURABLE. */
  durable: number
  /** Which records are durable: wire/persist-ack.ts. */
  readonly bitmap: Uint32Array
}

/** A PERSIST_ACK for the range (D-5). It is a transport acknowledgement too, where it may be. */
export function answerPersist(
  answers: Answers,
  qp: QueuePair,
  range: PersistRange,
  incarnation: number,
): void {
  const behind = AETH_BYTES + PAETH_BYTES
  const end = beginPersistAck(answers, qp, range, incarnation, behind)
  endFrame(answers, qp, end, behind)
}

/** The one status of a batch (D-10). */
export function answerBatch(
  answers: Answers,
  qp: QueuePair,
  range: PersistRange,
  batch: BatchStatus,
  incarnation: number,
): void {
  const words = bitmapWords(batch.count)
  const behind = AETH_BYTES + PAETH_BYTES + 4 * words
  const end = beginPersistAck(answers, qp, range, incarnation, behind)
  const bytes = answers.bytes
  const at = end + AETH_BYTES
  bytes[at + PAETH_BITMAP_WORDS] = words
  putU16(bytes, at + PAETH_BATCH_ID, batch.id)
  bytes[at + PAETH_BATCH_DURABLE] = batch.durable
  bytes[at + PAETH_BATCH_COUNT] = batch.count - 1
  writeBitmap(bytes, at + PAETH_BYTES, batch.bitmap, words)
  endFrame(answers, qp, end, behind)
}

/** Begins the frame and writes what every PERSIST_ACK has; returns the position behind BTH. */
function beginPersistAck(
  answers: Answers,
  qp: QueuePair,
  range: PersistRange,
  incarnation: number,
  behind: number,
): number {
  answers.acks += 1
  const psn = acknowledgeable(answers, qp, range.lastPsn)
  const end = beginFrame(answers, qp, PERSIST_ACK, psn, behind, 0)
  const bytes = answers.bytes
  writeAethAt(qp, bytes, end, SYNDROME_ACK)
  const at = end + AETH_BYTES
  bytes.fill(0, at, at + PAETH_BYTES)
  bytes[at + PAETH_VERSION] = (PERSIST_ACK_VERSION << 4) | PAETH_WORDS
  bytes[at + PAETH_FLAGS] = range.flags
  bytes[at + PAETH_STATUS] = range.status
  putU32(bytes, at + PAETH_FIRST_PSN, range.firstPsn)
  putU32(bytes, at + PAETH_LAST_PSN, range.lastPsn)
  putU32(bytes, at + PAETH_OPERATION_HIGH, range.operationHigh)
  putU32(bytes, at + PAETH_OPERATION_LOW, range.operationLow)
  putU32(bytes, at + PAETH_INCARNATION, incarnation)
  bytes[at + PAETH_COPIES] = range.copies
  bytes[at + PAETH_MECHANISM] = range.mechanism
  putU16(bytes, at + PAETH_RECORDS, range.records)
  return end
}
