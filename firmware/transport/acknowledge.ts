// hot path
/**
 * Answers: the frames that the responder sends, composed in the transmit places.
 *
 * What always holds: a frame is complete but for its ICRC before its TRANSMIT is in the list; an
 * acknowledged PSN is one that was accepted (wire-format 3.5, ghost ACKs) and never passes a READ
 * whose response is still to come (3.6); the syndrome of an acknowledgement says "no credits" (31).
 */

import { type CommandList, run, transmit } from '../command-list.ts'
import { TRANSMIT_AT } from '../hal.ts'
import { FRAME_OFFSET_BYTES, FRAME_STRIDE_BYTES, TRANSMIT_FRAMES } from '../limits.ts'
import { AETH_BYTES, SYNDROME_ACK } from '../wire/aeth.ts'
import { BTH_BYTES, BTH_DEST_QP, BTH_FLAGS, BTH_PKEY, BTH_PSN, PKEY_DEFAULT } from '../wire/bth.ts'
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
import { PERSIST_ACK, RC_ACKNOWLEDGE } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  MECHANISM_LOCAL_FLUSH,
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
import type { QueuePair } from './queue-pair.ts'

/** Flags of a PERSIST_ACK: every record that ends in the range is durable; some copies are not. */
export const PERSIST_ALL = 0x80
export const PERSIST_DEGRADED = 0x08

const HOP_LIMIT = 64
const SOURCE_PORT_BASE = 0xc000

export interface Answers {
  readonly list: CommandList
  readonly bytes: Uint8Array
  /** Transmit places in use by commands that were not run yet. */
  used: number
  /** Runs of the list that `used` knows of: after another one all places are free. */
  runs: number
  /** Did the list fail when it was run to make room? */
  failed: boolean
}

export function createAnswers(list: CommandList): Answers {
  return { list, bytes: new Uint8Array(list.machine.memory), used: 0, runs: 0, failed: false }
}

/**
 * A place for one frame. Only the responses of a READ can be more than there are places: then the
 * list is run to make room.
 */
function takeFrame(answers: Answers): number {
  if (answers.runs !== answers.list.runs) {
    answers.runs = answers.list.runs
    answers.used = 0
  }
  if (answers.used === TRANSMIT_FRAMES) {
    if (run(answers.list) >= 0) answers.failed = true
    answers.runs = answers.list.runs
    answers.used = 0
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

/** Four bytes as the word that an Int32Array shows: the machine is little-endian. */
export function wordAt(bytes: ArrayLike<number>, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}

function prepareIpv6(bytes: Uint8Array, at: number, packet: Packet): void {
  const ip = at + ETHERNET_BYTES
  putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV6)
  bytes.fill(0, ip, ip + IPV6_BYTES)
  bytes[ip + IPV6_VERSION] = 0x60
  bytes[ip + IPV6_NEXT_HEADER] = PROTOCOL_UDP
  bytes[ip + IPV6_HOP_LIMIT] = HOP_LIMIT
  const source = packet.ipAt + IPV6_SOURCE
  const destination = packet.ipAt + IPV6_DESTINATION
  bytes.copyWithin(ip + IPV6_DESTINATION, source, source + IPV6_ADDRESS_BYTES)
  bytes.copyWithin(ip + IPV6_SOURCE, destination, destination + IPV6_ADDRESS_BYTES)
}

/** Writes the lengths of IP and UDP for `behind` bytes behind BTH, without the ICRC. */
function writeLengths(qp: QueuePair, bytes: Uint8Array, at: number, behind: number): void {
  const udpLength = UDP_BYTES + BTH_BYTES + behind + ICRC_BYTES
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

/**
 * Begins a frame: headers up to BTH for `behind` bytes behind it (with pad). Returns the position
 * behind BTH.
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
  transmit(answers.list, end - qp.templateBytes, qp.templateBytes + behind + ICRC_BYTES)
}

function writeAethAt(qp: QueuePair, bytes: Uint8Array, at: number, syndrome: number): void {
  bytes[at] = syndrome
  putU24(bytes, at + 1, qp.messageSequence)
}

/** Writes the AETH of a positive answer. */
export function writeAck(qp: QueuePair, bytes: Uint8Array, at: number): void {
  writeAethAt(qp, bytes, at, SYNDROME_ACK)
}

/** The newest PSN that may be acknowledged, not beyond `psn`. */
export function acknowledgeable(qp: QueuePair, psn: number): number {
  if (qp.readsWaiting === 0) return psn
  return psnDistance(psn, qp.ackLimit) < 0x800000 ? qp.ackLimit : psn
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
  answer(answers, qp, acknowledgeable(qp, psnAdd(qp.expectedPsn, -1)), SYNDROME_ACK)
}

/**
 * Acknowledges a duplicate of PSN `psn`: the newest accepted PSN, but not past a READ that was
 * accepted behind the duplicate, as exactly its response may be what was lost (wire-format 3.5).
 */
export function answerDuplicate(answers: Answers, qp: QueuePair, psn: number): void {
  // Before the first request there is nothing to acknowledge.
  if (qp.expectedPsn === qp.firstPsn) return
  let newest = psnDistance(qp.expectedPsn, psn) - 1
  for (let i = 0; i < qp.readPsns.length; i++) {
    const read = qp.readPsns[i]!
    if (read < 0 || psnDistance(qp.expectedPsn, read) > 0x800000) continue
    const behind = psnDistance(read, psn)
    if (behind > 0 && behind <= newest) newest = behind - 1
  }
  answer(answers, qp, acknowledgeable(qp, psnAdd(psn, newest)), SYNDROME_ACK)
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
  /** Segment of the queue pair that the records are of: a refusal between them begins another. */
  segment: number
}

/** A PERSIST_ACK for the range (D-5). It is a transport acknowledgement too, where it may be. */
export function answerPersist(
  answers: Answers,
  qp: QueuePair,
  range: PersistRange,
  incarnation: number,
): void {
  const behind = AETH_BYTES + PAETH_BYTES
  const psn = acknowledgeable(qp, range.lastPsn)
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
  bytes[at + PAETH_MECHANISM] = MECHANISM_LOCAL_FLUSH
  putU16(bytes, at + PAETH_RECORDS, range.records)
  endFrame(answers, qp, end, behind)
}
