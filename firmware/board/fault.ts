/**
 * Every fault: what the world may do wrong, and how the firmware answers it.
 *
 * A fault comes from outside and is a value; a bug is ours and stops the firmware (`assert`). No
 * frame, no command of a host and no content of the medium may ever reach an assert. Each fault has
 * a number, a name, an answer on the wire and one line of meaning; each is counted.
 *
 * Drivers know numbers and codes (test/vectors/layout.json). So a new fault stands at the end, and
 * a status is that of one fault alone.
 */

import { assert } from './assert.ts'

/** The number of a fault; PASS is none. */
export type Fault = number & { readonly unit: 'fault' }

/** How a fault is answered. */
type Answer =
  | 'drop' // silently, as RoCEv2 asks; only the counter shows it
  | 'nak' // an AETH NAK with the syndrome; from 0x61 on the queue pair goes to the error state
  | 'status' // a PERSIST_ACK with the status; the queue pair lives
  | 'reject' // a REJ of RDMA-CM: no connection is made
  | 'management' // the management answer carries the number
  | 'port' // the host is told in its header page, or by an event; nothing changes
  | 'queue' // a completion with an error, or an event; that queue goes to the error state

interface FaultRow {
  readonly name: string
  readonly answer: Answer
  /** AETH syndrome for 'nak', PERSIST_ACK status for 'status', a reason for 'reject', else 0. */
  readonly code: number
  readonly meaning: string
}

function faultRow(name: string, answer: Answer, code: number, meaning: string): FaultRow {
  return { name, answer, code, meaning }
}

const RNR_NAK = 0x20
/** Timer code of an RNR NAK: 0.64 ms (wire-format 1.4). */
const RNR_TIMER = 12
/** That of a page that has to be loaded: 0.32 ms. */
const RNR_PAGE_TIMER = 10
const NAK_SEQUENCE = 0x60
const NAK_INVALID = 0x61
const NAK_ACCESS = 0x62
const NAK_OPERATIONAL = 0x63

/** All faults, by number. */
export const FAULTS: readonly FaultRow[] = [
  faultRow('PASS', 'drop', 0, 'no fault'),
  faultRow('FRAME_SHORT', 'drop', 0, 'the frame ends before its headers do'),
  faultRow('FRAME_LONG', 'drop', 0, 'the frame is longer than any that we take'),
  faultRow('NOT_ROCE', 'drop', 0, 'not RoCEv2: another ethertype, protocol or UDP port'),
  faultRow('IP_HEADER', 'drop', 0, 'IP version, options, extension headers or a fragment'),
  faultRow('IP_LENGTH', 'drop', 0, 'the lengths in IP and UDP disagree, or exceed the frame'),
  faultRow('NOT_FOR_US', 'drop', 0, 'another Ethernet or IP destination'),
  faultRow('ICRC', 'drop', 0, 'the invariant CRC is wrong'),
  faultRow(
    'LINUX_FLUSH_ICRC',
    'drop',
    0,
    'a FLUSH with the ICRC that Linux computes: taken, counted',
  ),
  faultRow('CONGESTION', 'drop', 0, 'a congestion notification: the peer asks for fewer packets'),
  faultRow(
    'CONGESTION_MARK',
    'drop',
    0,
    'a packet that met congestion: taken, and its sender notified',
  ),
  faultRow('TRANSPORT_VERSION', 'drop', 0, 'BTH transport version is not 0'),
  faultRow('PARTITION', 'drop', 0, 'the P_Key does not match the default partition'),
  faultRow('UNKNOWN_QP', 'drop', 0, 'no queue pair of that number is open'),
  faultRow('WRONG_TRANSPORT', 'drop', 0, 'an opcode of another transport than the queue pair has'),
  faultRow('WRONG_PEER', 'drop', 0, 'the source address is not the connected peer'),
  faultRow('QP_ERROR_STATE', 'drop', 0, 'the queue pair is in the error state, which is silent'),
  faultRow('UNEXPECTED_RESPONSE', 'drop', 0, 'a response that no request of ours awaits'),
  faultRow(
    'MANAGEMENT_FORM',
    'drop',
    0,
    'a datagram to QP 1 that is no management request of ours',
  ),
  faultRow('NEIGHBOUR_FORM', 'drop', 0, 'a malformed ARP or neighbour discovery message'),
  faultRow(
    'CONNECTION_FORM',
    'drop',
    0,
    'an RDMA-CM message that is malformed or of no connection',
  ),
  faultRow('UNSERVED_CONNECTION', 'reject', 0, 'a connection that is not offered; REJ says why'),
  faultRow(
    'STALE_CONNECTION',
    'drop',
    0,
    'a peer connected again without an end of the connection before',
  ),
  faultRow('BELL', 'drop', 0, 'the host reports work that the card did not ask for'),
  faultRow('DUPLICATE', 'drop', 0, 'a PSN that was taken before: answered again, never executed'),
  faultRow('DUPLICATE_FORGED', 'drop', 0, 'a PSN taken before under another operation id'),
  faultRow('DUPLICATE_FORGOTTEN', 'drop', 0, 'a PSN taken before; its response is no longer kept'),
  faultRow(
    'HELD_BACK',
    'drop',
    0,
    'after a long READ: the card asks for it again after the answer',
  ),
  faultRow('SEQUENCE_AGAIN', 'drop', 0, 'ahead of the expected PSN; an earlier NAK has said so'),
  faultRow('SEQUENCE', 'nak', NAK_SEQUENCE, 'ahead of the expected PSN: packets are missing'),
  faultRow(
    'NOT_READY',
    'nak',
    RNR_NAK | RNR_TIMER,
    'no receive entry, or no room to gather; try again later',
  ),
  faultRow(
    'PAGE_ABSENT',
    'nak',
    RNR_NAK | RNR_PAGE_TIMER,
    'a page of the host is not mapped; the card has asked for it',
  ),
  faultRow('OPCODE', 'nak', NAK_INVALID, 'a reserved opcode, or one that is not served here'),
  faultRow('MESSAGE_ORDER', 'nak', NAK_INVALID, 'First, Middle, Last or Only out of order'),
  faultRow('PACKET_LENGTH', 'nak', NAK_INVALID, 'payload or pad length not allowed by the opcode'),
  faultRow(
    'MESSAGE_LENGTH',
    'nak',
    NAK_INVALID,
    'the packets do not add up to the announced length',
  ),
  faultRow('RECEIVE_LENGTH', 'nak', NAK_INVALID, 'the message is longer than a receive entry'),
  faultRow('ALIGNMENT', 'nak', NAK_INVALID, 'an atomic operation not on a multiple of eight'),
  faultRow('FLUSH_FORM', 'nak', NAK_INVALID, 'a reserved placement type or selectivity of FLUSH'),
  faultRow('PERSIST_HEADER', 'nak', NAK_INVALID, 'unknown version, reserved bits or form of PWETH'),
  faultRow('RESIDENCY_FORM', 'nak', NAK_INVALID, 'a question about the state of memory, malformed'),
  faultRow('KEY', 'nak', NAK_ACCESS, 'no region has that R_Key'),
  faultRow(
    'PROTECTION_DOMAIN',
    'nak',
    NAK_ACCESS,
    'region and queue pair are of different domains',
  ),
  faultRow('RIGHTS', 'nak', NAK_ACCESS, 'the region does not grant that operation'),
  faultRow('BOUNDS', 'nak', NAK_ACCESS, 'the range leaves the region or the slot'),
  faultRow('UNSETTLED_READ', 'nak', NAK_OPERATIONAL, 'no copy of the record is valid: it is lost'),
  faultRow('UNREADABLE', 'nak', NAK_OPERATIONAL, 'the medium could not deliver or take the bytes'),
  faultRow(
    'MESSAGE_TIME',
    'nak',
    NAK_OPERATIONAL,
    'a message is incomplete, and its peer was silent for too long',
  ),
  faultRow('NOT_DURABLE', 'nak', NAK_OPERATIONAL, 'durability is due, and the part cannot give it'),
  faultRow('MEDIA', 'status', 0x81, 'the medium did not take the record'),
  faultRow('SLOT', 'status', 0x82, 'the region has no slot of that number'),
  faultRow('RECORD_LENGTH', 'status', 0x83, 'the record exceeds the capacity of the slot'),
  faultRow(
    'NOT_ARMED',
    'status',
    0x85,
    'the save energy is not armed, or the last save failed: nothing can be durable',
  ),
  faultRow('BATCH_ABORTED', 'status', 0x84, 'the batch ended before all of it had come'),
  faultRow('CONDITION', 'status', 0x86, 'the condition of the batch does not hold for the record'),
  faultRow('BATCH_FIELDS', 'status', 0x87, 'the records of the batch contradict each other'),
  faultRow('BATCH_TIME', 'status', 0x88, 'the batch was not complete in time'),
  faultRow('BATCH_ROOM', 'status', 0x95, 'no room to collect the batch; try again'),
  faultRow(
    'BATCH_REGION',
    'status',
    0x96,
    'no batch goes there, or not beside the region before it',
  ),
  faultRow('COPIES_DIFFER', 'status', 0x89, 'the carried copies are not the same bytes'),
  faultRow('FIXED_LENGTH', 'status', 0x8a, 'the region takes records of exactly its capacity'),
  faultRow('READ_ONLY', 'status', 0x8b, 'the region has an unsettled record and refuses writes'),
  faultRow('LEVEL', 'status', 0x8c, 'more durable copies asked for than the region keeps'),
  faultRow('STAGING', 'status', 0x8d, 'no room to gather a message of several packets; try again'),
  faultRow(
    'FLUSH',
    'status',
    0x8e,
    'a write-back failed: the part takes nothing more until it is started again',
  ),
  faultRow(
    'SUPERBLOCK',
    'status',
    0x97,
    'the superblock takes no stores, or no more starts: the part is read-only',
  ),
  faultRow(
    'OPERATION_FORGOTTEN',
    'status',
    0x98,
    'a repetition: the card no longer knows whether it was durable before',
  ),
  faultRow('IN_DOUBT', 'status', 0x8f, 'a fence, or its repair, failed: the next start decides'),
  faultRow(
    'PLACEMENT_UNKNOWN',
    'status',
    0x90,
    'nothing has shown how the memory of the host keeps what is written: probe it',
  ),
  faultRow('PLACEMENT_WRONG', 'status', 0x93, 'the probe has shown another placement than that'),
  faultRow('NO_AGENT', 'status', 0x91, 'no agent of the host writes its caches back'),
  faultRow(
    'OWN_HOST',
    'status',
    0x94,
    'a region that the card does not store into for its own host',
  ),
  faultRow('BLANK', 'management', 0, 'the part was never formatted'),
  faultRow('FOREIGN', 'management', 0, 'the part holds data that Perdure did not write'),
  faultRow('NEWER', 'management', 0, 'the part was formatted by a newer version'),
  faultRow('OLDER', 'management', 0, 'the part was formatted by an older version'),
  faultRow('DAMAGED', 'management', 0, 'both superblocks are damaged'),
  faultRow('TRUNCATED', 'management', 0, 'the part is smaller than it was when it was formatted'),
  faultRow('FORMATTED', 'management', 0, 'the part is formatted already'),
  faultRow('NOT_SERVING', 'management', 0, 'the part was refused at start; see the status'),
  faultRow('REQUEST', 'management', 0, 'a field of the request is out of its range'),
  faultRow(
    'CONNECTING',
    'management',
    0,
    'the connection to the other DPU is being made; ask again',
  ),
  faultRow(
    'ATTACH_FAILED',
    'management',
    0,
    'the other DPU did not answer, refused, or does not run Perdure',
  ),
  faultRow('NO_REGION', 'management', 0, 'there is no region of that name'),
  faultRow('REGION_EXISTS', 'management', 0, 'a region of that name exists with another shape'),
  faultRow('REGIONS_FULL', 'management', 0, 'the region table is full'),
  faultRow('NO_SPACE', 'management', 0, 'not enough space left on the part'),
  faultRow(
    'QUEUE_PAIRS_FULL',
    'management',
    0,
    'this source holds its share of the queue pairs, or none is left',
  ),
  faultRow('SERVICES_FULL', 'management', 0, 'no more ports can be published'),
  faultRow(
    'HOST_ONLY',
    'management',
    0,
    'only the host itself may ask that, through its own queue',
  ),
  faultRow('QUEUE_UNKNOWN', 'management', 0, 'the host has no queue of that number and kind'),
  faultRow(
    'QUEUES_FULL',
    'management',
    0,
    'every queue of the host is in use, or no context is free',
  ),
  faultRow('QUEUE_LOCKED', 'management', 0, 'the queue is locked by another, or not by that token'),
  faultRow('QUEUE_BUSY', 'management', 0, 'something still uses it: a queue pair, work under way'),
  faultRow('REGIONS_OF_HOST_FULL', 'management', 0, 'no more memory regions can be registered'),
  faultRow(
    'ON_DEMAND_FULL',
    'management',
    0,
    'no more regions, or pages, can be registered on demand',
  ),
  faultRow(
    'PAGE',
    'management',
    0,
    'a page outside of the region, or outside of what the card reaches',
  ),
  faultRow('HEADER_PAGE', 'port', 0, 'the page that describes the queues of the host is malformed'),
  faultRow(
    'DOORBELL',
    'port',
    0,
    'a doorbell of no queue, or ahead of its queue: nothing is believed',
  ),
  faultRow(
    'QUEUE_POINTER',
    'queue',
    0,
    'the write pointer is further ahead than the queue is deep',
  ),
  faultRow('QUEUE_CONTEXT', 'queue', 0, 'the queue information contradicts itself'),
  faultRow(
    'ELEMENT_FORM',
    'queue',
    0,
    'a work-queue element that is not whole, or not served here',
  ),
  faultRow('ELEMENT_LENGTH', 'queue', 0, 'lengths in a work-queue element that do not add up'),
  faultRow('MEMORY_KEY', 'queue', 0, 'no memory region of that L_Key and domain covers the range'),
  faultRow('DMA', 'queue', 0, 'the memory of the host did not answer'),
  faultRow('COMPLETION_OVERRUN', 'queue', 0, 'the completion queue is full'),
  faultRow('CONNECTION_LOST', 'queue', 0, 'the connection of the queue pair is over'),
  faultRow(
    'UNDER_WAY',
    'management',
    0,
    'the request, or what it waits for, is under way; ask again',
  ),
  faultRow('QUEUE_DEPTH', 'management', 0, 'a peer without a place to send from, or to receive in'),
  faultRow(
    'GUARD',
    'status',
    0x99,
    'the data are not those of which the client computed the guard',
  ),
  faultRow(
    'PIECES',
    'management',
    0,
    "the pieces of the host's memory are not those in which regions lie, or not those that hold",
  ),
  faultRow(
    'NO_RECEIVE',
    'status',
    0x9a,
    'a message of a batch found no receive of the host, or no room for its completion; try again',
  ),
  faultRow('PORT_TAKEN', 'management', 0, 'the port publishes something else, for somebody else'),
  faultRow('GROUP_SOURCE', 'drop', 0, 'from an address that no station has: of a group, of nobody'),
  faultRow(
    'NO_SESSION',
    'management',
    0,
    'the card has peers, and this comes in none of its sessions',
  ),
  faultRow('SEAL_BROKEN', 'drop', 0, 'a datagram of a session that was changed, or comes again'),
  faultRow(
    'HANDSHAKE',
    'management',
    0,
    'a handshake that was changed, or is meant for another card',
  ),
  faultRow(
    'PEER_UNKNOWN',
    'management',
    0,
    'the key of the handshake is none of the peers of the card',
  ),
  faultRow('FORBIDDEN', 'management', 0, 'the rights of the peer do not cover that'),
  faultRow(
    'OPEN_CARD',
    'management',
    0,
    'the card is open: it has no peers, and makes no sessions',
  ),
  faultRow('NO_TAG', 'drop', 0, "a packet without its queue pair's tag, or one that came before"),
  faultRow(
    'COOKIE',
    'management',
    0,
    'many handshakes come: the first message has to bring the cookie that the answer has',
  ),
  faultRow('NO_PEER', 'management', 0, 'no peer of the card has that key'),
  faultRow('PEER_TAKEN', 'management', 0, 'a peer of the card has that key, or that name'),
  faultRow('PEERS_FULL', 'management', 0, 'the card knows as many peers as it can'),
  faultRow('PEERS_FIXED', 'management', 0, 'the board of the card does not keep other peers'),
  faultRow('LAST_ADMIN', 'management', 0, 'nobody would be left who may say who comes'),
  faultRow(
    'STOCK_UNSAID',
    'management',
    0,
    'clients of RDMA-CM have no sessions, and it was not said that they may come',
  ),
  faultRow(
    'CARD_KEYLESS',
    'management',
    0,
    'this card has no keys of its own: it attaches what a port of RDMA-CM offers, and nothing else',
  ),
  faultRow(
    'RELAY_REFUSED',
    'management',
    0,
    'the other DPU knows no peer with the key of this card, or gives it no right to that region',
  ),
]

function numberOf(name: string): Fault {
  const index = FAULTS.findIndex((r) => r.name === name)
  assert(index >= 0, `no fault ${name}`)
  return index as Fault
}

export const PASS = 0 as Fault
export const FRAME_SHORT: Fault = numberOf('FRAME_SHORT')
export const FRAME_LONG: Fault = numberOf('FRAME_LONG')
export const NOT_ROCE: Fault = numberOf('NOT_ROCE')
export const IP_HEADER: Fault = numberOf('IP_HEADER')
export const IP_LENGTH: Fault = numberOf('IP_LENGTH')
export const NOT_FOR_US: Fault = numberOf('NOT_FOR_US')
export const ICRC: Fault = numberOf('ICRC')
export const LINUX_FLUSH_ICRC: Fault = numberOf('LINUX_FLUSH_ICRC')
export const CONGESTION: Fault = numberOf('CONGESTION')
export const CONGESTION_MARK: Fault = numberOf('CONGESTION_MARK')
export const TRANSPORT_VERSION: Fault = numberOf('TRANSPORT_VERSION')
export const PARTITION: Fault = numberOf('PARTITION')
export const UNKNOWN_QP: Fault = numberOf('UNKNOWN_QP')
export const WRONG_TRANSPORT: Fault = numberOf('WRONG_TRANSPORT')
export const WRONG_PEER: Fault = numberOf('WRONG_PEER')
export const QP_ERROR_STATE: Fault = numberOf('QP_ERROR_STATE')
export const UNEXPECTED_RESPONSE: Fault = numberOf('UNEXPECTED_RESPONSE')
export const MANAGEMENT_FORM: Fault = numberOf('MANAGEMENT_FORM')
export const NEIGHBOUR_FORM: Fault = numberOf('NEIGHBOUR_FORM')
export const CONNECTION_FORM: Fault = numberOf('CONNECTION_FORM')
export const UNSERVED_CONNECTION: Fault = numberOf('UNSERVED_CONNECTION')
export const STALE_CONNECTION: Fault = numberOf('STALE_CONNECTION')
export const BELL: Fault = numberOf('BELL')
export const DUPLICATE: Fault = numberOf('DUPLICATE')
export const DUPLICATE_FORGED: Fault = numberOf('DUPLICATE_FORGED')
export const DUPLICATE_FORGOTTEN: Fault = numberOf('DUPLICATE_FORGOTTEN')
export const HELD_BACK: Fault = numberOf('HELD_BACK')
export const SEQUENCE_AGAIN: Fault = numberOf('SEQUENCE_AGAIN')
export const SEQUENCE: Fault = numberOf('SEQUENCE')
export const NOT_READY: Fault = numberOf('NOT_READY')
export const PAGE_ABSENT: Fault = numberOf('PAGE_ABSENT')
export const OPCODE: Fault = numberOf('OPCODE')
export const MESSAGE_ORDER: Fault = numberOf('MESSAGE_ORDER')
export const PACKET_LENGTH: Fault = numberOf('PACKET_LENGTH')
export const MESSAGE_LENGTH: Fault = numberOf('MESSAGE_LENGTH')
export const RECEIVE_LENGTH: Fault = numberOf('RECEIVE_LENGTH')
export const ALIGNMENT: Fault = numberOf('ALIGNMENT')
export const FLUSH_FORM: Fault = numberOf('FLUSH_FORM')
export const PERSIST_HEADER: Fault = numberOf('PERSIST_HEADER')
export const RESIDENCY_FORM: Fault = numberOf('RESIDENCY_FORM')
export const KEY: Fault = numberOf('KEY')
export const PROTECTION_DOMAIN: Fault = numberOf('PROTECTION_DOMAIN')
export const RIGHTS: Fault = numberOf('RIGHTS')
export const BOUNDS: Fault = numberOf('BOUNDS')
export const UNSETTLED_READ: Fault = numberOf('UNSETTLED_READ')
export const UNREADABLE: Fault = numberOf('UNREADABLE')
export const MESSAGE_TIME: Fault = numberOf('MESSAGE_TIME')
export const NOT_DURABLE: Fault = numberOf('NOT_DURABLE')
export const MEDIA: Fault = numberOf('MEDIA')
export const SLOT: Fault = numberOf('SLOT')
export const RECORD_LENGTH: Fault = numberOf('RECORD_LENGTH')
export const NOT_ARMED: Fault = numberOf('NOT_ARMED')
export const BATCH_ABORTED: Fault = numberOf('BATCH_ABORTED')
export const CONDITION: Fault = numberOf('CONDITION')
export const BATCH_FIELDS: Fault = numberOf('BATCH_FIELDS')
export const BATCH_TIME: Fault = numberOf('BATCH_TIME')
export const BATCH_ROOM: Fault = numberOf('BATCH_ROOM')
export const BATCH_REGION: Fault = numberOf('BATCH_REGION')
export const COPIES_DIFFER: Fault = numberOf('COPIES_DIFFER')
export const FIXED_LENGTH: Fault = numberOf('FIXED_LENGTH')
export const READ_ONLY: Fault = numberOf('READ_ONLY')
export const LEVEL: Fault = numberOf('LEVEL')
export const STAGING: Fault = numberOf('STAGING')
export const FLUSH: Fault = numberOf('FLUSH')
export const SUPERBLOCK: Fault = numberOf('SUPERBLOCK')
export const OPERATION_FORGOTTEN: Fault = numberOf('OPERATION_FORGOTTEN')
export const IN_DOUBT: Fault = numberOf('IN_DOUBT')
export const PLACEMENT_UNKNOWN: Fault = numberOf('PLACEMENT_UNKNOWN')
export const NO_AGENT: Fault = numberOf('NO_AGENT')
export const OWN_HOST: Fault = numberOf('OWN_HOST')
export const BLANK: Fault = numberOf('BLANK')
export const FOREIGN: Fault = numberOf('FOREIGN')
export const NEWER: Fault = numberOf('NEWER')
export const OLDER: Fault = numberOf('OLDER')
export const DAMAGED: Fault = numberOf('DAMAGED')
export const TRUNCATED: Fault = numberOf('TRUNCATED')
export const FORMATTED: Fault = numberOf('FORMATTED')
export const NOT_SERVING: Fault = numberOf('NOT_SERVING')
export const REQUEST: Fault = numberOf('REQUEST')
export const PLACEMENT_WRONG: Fault = numberOf('PLACEMENT_WRONG')
export const CONNECTING: Fault = numberOf('CONNECTING')
export const ATTACH_FAILED: Fault = numberOf('ATTACH_FAILED')
export const NO_REGION: Fault = numberOf('NO_REGION')
export const REGION_EXISTS: Fault = numberOf('REGION_EXISTS')
export const REGIONS_FULL: Fault = numberOf('REGIONS_FULL')
export const NO_SPACE: Fault = numberOf('NO_SPACE')
export const QUEUE_PAIRS_FULL: Fault = numberOf('QUEUE_PAIRS_FULL')
export const PORT_TAKEN: Fault = numberOf('PORT_TAKEN')
export const SERVICES_FULL: Fault = numberOf('SERVICES_FULL')
export const HOST_ONLY: Fault = numberOf('HOST_ONLY')
export const QUEUE_UNKNOWN: Fault = numberOf('QUEUE_UNKNOWN')
export const QUEUES_FULL: Fault = numberOf('QUEUES_FULL')
export const QUEUE_LOCKED: Fault = numberOf('QUEUE_LOCKED')
export const QUEUE_BUSY: Fault = numberOf('QUEUE_BUSY')
export const REGIONS_OF_HOST_FULL: Fault = numberOf('REGIONS_OF_HOST_FULL')
export const ON_DEMAND_FULL: Fault = numberOf('ON_DEMAND_FULL')
export const PAGE: Fault = numberOf('PAGE')
export const HEADER_PAGE: Fault = numberOf('HEADER_PAGE')
export const DOORBELL: Fault = numberOf('DOORBELL')
export const QUEUE_POINTER: Fault = numberOf('QUEUE_POINTER')
export const QUEUE_CONTEXT: Fault = numberOf('QUEUE_CONTEXT')
export const ELEMENT_FORM: Fault = numberOf('ELEMENT_FORM')
export const ELEMENT_LENGTH: Fault = numberOf('ELEMENT_LENGTH')
export const MEMORY_KEY: Fault = numberOf('MEMORY_KEY')
export const DMA: Fault = numberOf('DMA')
export const COMPLETION_OVERRUN: Fault = numberOf('COMPLETION_OVERRUN')
export const CONNECTION_LOST: Fault = numberOf('CONNECTION_LOST')
export const UNDER_WAY: Fault = numberOf('UNDER_WAY')
export const QUEUE_DEPTH: Fault = numberOf('QUEUE_DEPTH')
export const GUARD: Fault = numberOf('GUARD')
export const PIECES: Fault = numberOf('PIECES')
export const NO_RECEIVE: Fault = numberOf('NO_RECEIVE')
export const GROUP_SOURCE: Fault = numberOf('GROUP_SOURCE')
export const NO_SESSION: Fault = numberOf('NO_SESSION')
export const SEAL_BROKEN: Fault = numberOf('SEAL_BROKEN')
export const HANDSHAKE: Fault = numberOf('HANDSHAKE')
export const PEER_UNKNOWN: Fault = numberOf('PEER_UNKNOWN')
export const FORBIDDEN: Fault = numberOf('FORBIDDEN')
export const OPEN_CARD: Fault = numberOf('OPEN_CARD')
export const NO_TAG: Fault = numberOf('NO_TAG')
export const COOKIE: Fault = numberOf('COOKIE')
export const NO_PEER: Fault = numberOf('NO_PEER')
export const PEER_TAKEN: Fault = numberOf('PEER_TAKEN')
export const PEERS_FULL: Fault = numberOf('PEERS_FULL')
export const PEERS_FIXED: Fault = numberOf('PEERS_FIXED')
export const LAST_ADMIN: Fault = numberOf('LAST_ADMIN')
export const STOCK_UNSAID: Fault = numberOf('STOCK_UNSAID')
export const CARD_KEYLESS: Fault = numberOf('CARD_KEYLESS')
export const RELAY_REFUSED: Fault = numberOf('RELAY_REFUSED')

assert(FAULTS.length <= 255, 'a fault must fit into a byte')
