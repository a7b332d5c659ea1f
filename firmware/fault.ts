/**
 * Every fault: what the world may do wrong, and how the firmware answers it.
 *
 * A fault comes from outside and is a value; a bug is ours and stops the firmware (`assert`). No
 * frame, no command of a host and no content of the medium may ever reach an assert. Each fault has
 * a number, a name, an answer on the wire and one line of meaning; each is counted.
 */

/** The number of a fault; PASS is none. */
export type Fault = number & { readonly unit: 'fault' }

/** How a fault is answered. */
export type Answer =
  | 'drop' // silently, as RoCEv2 asks; only the counter shows it
  | 'nak' // an AETH NAK with the syndrome; but for 0x60 the queue pair goes to the error state
  | 'status' // a PERSIST_ACK with the status; the queue pair lives
  | 'management' // the management answer carries the number

export interface FaultRow {
  readonly name: string
  readonly answer: Answer
  /** AETH syndrome for 'nak', PERSIST_ACK status for 'status', else 0. */
  readonly code: number
  readonly meaning: string
}

function row(name: string, answer: Answer, code: number, meaning: string): FaultRow {
  return { name, answer, code, meaning }
}

const NAK_SEQUENCE = 0x60
const NAK_INVALID = 0x61
const NAK_ACCESS = 0x62
const NAK_OPERATIONAL = 0x63

/** All faults, by number. */
export const FAULTS: readonly FaultRow[] = [
  row('PASS', 'drop', 0, 'no fault'),
  row('FRAME_SHORT', 'drop', 0, 'the frame ends before its headers do'),
  row('FRAME_LONG', 'drop', 0, 'the frame is longer than any that we take'),
  row('NOT_ROCE', 'drop', 0, 'not RoCEv2: another ethertype, protocol or UDP port'),
  row('IP_HEADER', 'drop', 0, 'IP version, options, extension headers or a fragment'),
  row('IP_LENGTH', 'drop', 0, 'the lengths in IP and UDP disagree, or exceed the frame'),
  row('NOT_FOR_US', 'drop', 0, 'another Ethernet or IP destination'),
  row('ICRC', 'drop', 0, 'the invariant CRC is wrong'),
  row('TRANSPORT_VERSION', 'drop', 0, 'BTH transport version is not 0'),
  row('PARTITION', 'drop', 0, 'the P_Key does not match the default partition'),
  row('UNKNOWN_QP', 'drop', 0, 'no queue pair of that number is open'),
  row('WRONG_TRANSPORT', 'drop', 0, 'an opcode of another transport than the queue pair has'),
  row('WRONG_PEER', 'drop', 0, 'the source address is not the connected peer'),
  row('QP_ERROR_STATE', 'drop', 0, 'the queue pair is in the error state, which is silent'),
  row('UNEXPECTED_RESPONSE', 'drop', 0, 'a response that no request of ours awaits'),
  row('MANAGEMENT_FORM', 'drop', 0, 'a datagram to QP 1 that is no management request of ours'),
  row('DUPLICATE', 'drop', 0, 'a PSN that was taken before: answered again, never executed'),
  row('DUPLICATE_FORGED', 'drop', 0, 'a PSN taken before under another operation id'),
  row('SEQUENCE_AGAIN', 'drop', 0, 'ahead of the expected PSN, and that was already said'),
  row('SEQUENCE', 'nak', NAK_SEQUENCE, 'ahead of the expected PSN: packets are missing'),
  row('OPCODE', 'nak', NAK_INVALID, 'a reserved opcode, or one that is not served here'),
  row('MESSAGE_ORDER', 'nak', NAK_INVALID, 'First, Middle, Last or Only out of order'),
  row('PACKET_LENGTH', 'nak', NAK_INVALID, 'payload or pad length not allowed by the opcode'),
  row('MESSAGE_LENGTH', 'nak', NAK_INVALID, 'the packets do not add up to the announced length'),
  row('PERSIST_HEADER', 'nak', NAK_INVALID, 'unknown version, reserved bits or form of PWETH'),
  row('KEY', 'nak', NAK_ACCESS, 'no region has that R_Key'),
  row('PROTECTION_DOMAIN', 'nak', NAK_ACCESS, 'region and queue pair are of different domains'),
  row('RIGHTS', 'nak', NAK_ACCESS, 'the region does not grant that operation'),
  row('BOUNDS', 'nak', NAK_ACCESS, 'the range leaves the region or the slot'),
  row('UNSETTLED_READ', 'nak', NAK_OPERATIONAL, 'no copy of the record is valid: it is lost'),
  row('UNREADABLE', 'nak', NAK_OPERATIONAL, 'the medium could not deliver the bytes'),
  row('MEDIA', 'status', 0x81, 'the medium did not take the record'),
  row('SLOT', 'status', 0x82, 'the region has no slot of that number'),
  row('RECORD_LENGTH', 'status', 0x83, 'the record exceeds the capacity of the slot'),
  row(
    'NOT_ARMED',
    'status',
    0x85,
    'the save energy is not armed, or the last save failed: nothing can be durable',
  ),
  row('COPIES_DIFFER', 'status', 0x89, 'the carried copies are not the same bytes'),
  row('FIXED_LENGTH', 'status', 0x8a, 'the region takes records of exactly its capacity'),
  row('READ_ONLY', 'status', 0x8b, 'the region has an unsettled record and refuses writes'),
  row('LEVEL', 'status', 0x8c, 'more durable copies asked for than the region keeps'),
  row('STAGING', 'status', 0x8d, 'no room to gather a message of several packets; try again'),
  row(
    'FLUSH',
    'status',
    0x8e,
    'a write-back failed: the part takes nothing more until it is started again',
  ),
  row('IN_DOUBT', 'status', 0x8f, 'a fence failed under the record: the next start decides'),
  row('BLANK', 'management', 0, 'the part was never formatted'),
  row('FOREIGN', 'management', 0, 'the part holds something that is not ours'),
  row('NEWER', 'management', 0, 'the part was formatted by a newer version'),
  row('DAMAGED', 'management', 0, 'both superblocks are damaged'),
  row('TRUNCATED', 'management', 0, 'the part is smaller than it was when it was formatted'),
  row('FORMATTED', 'management', 0, 'the part is formatted already'),
  row('NOT_SERVING', 'management', 0, 'the part was refused at start; see the status'),
  row('REQUEST', 'management', 0, 'a field of the request is out of its range'),
  row('NO_REGION', 'management', 0, 'there is no region of that name'),
  row('REGION_EXISTS', 'management', 0, 'a region of that name exists with another shape'),
  row('REGIONS_FULL', 'management', 0, 'the region table is full'),
  row('NO_SPACE', 'management', 0, 'the part has not that much room left'),
  row('QUEUE_PAIRS_FULL', 'management', 0, 'all queue pairs are taken'),
]

function numberOf(name: string): Fault {
  const index = FAULTS.findIndex((r) => r.name === name)
  if (index < 0) throw new Error(`no fault ${name}`)
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
export const TRANSPORT_VERSION: Fault = numberOf('TRANSPORT_VERSION')
export const PARTITION: Fault = numberOf('PARTITION')
export const UNKNOWN_QP: Fault = numberOf('UNKNOWN_QP')
export const WRONG_TRANSPORT: Fault = numberOf('WRONG_TRANSPORT')
export const WRONG_PEER: Fault = numberOf('WRONG_PEER')
export const QP_ERROR_STATE: Fault = numberOf('QP_ERROR_STATE')
export const UNEXPECTED_RESPONSE: Fault = numberOf('UNEXPECTED_RESPONSE')
export const MANAGEMENT_FORM: Fault = numberOf('MANAGEMENT_FORM')
export const DUPLICATE: Fault = numberOf('DUPLICATE')
export const DUPLICATE_FORGED: Fault = numberOf('DUPLICATE_FORGED')
export const SEQUENCE_AGAIN: Fault = numberOf('SEQUENCE_AGAIN')
export const SEQUENCE: Fault = numberOf('SEQUENCE')
export const OPCODE: Fault = numberOf('OPCODE')
export const MESSAGE_ORDER: Fault = numberOf('MESSAGE_ORDER')
export const PACKET_LENGTH: Fault = numberOf('PACKET_LENGTH')
export const MESSAGE_LENGTH: Fault = numberOf('MESSAGE_LENGTH')
export const PERSIST_HEADER: Fault = numberOf('PERSIST_HEADER')
export const KEY: Fault = numberOf('KEY')
export const PROTECTION_DOMAIN: Fault = numberOf('PROTECTION_DOMAIN')
export const RIGHTS: Fault = numberOf('RIGHTS')
export const BOUNDS: Fault = numberOf('BOUNDS')
export const UNSETTLED_READ: Fault = numberOf('UNSETTLED_READ')
export const UNREADABLE: Fault = numberOf('UNREADABLE')
export const MEDIA: Fault = numberOf('MEDIA')
export const SLOT: Fault = numberOf('SLOT')
export const RECORD_LENGTH: Fault = numberOf('RECORD_LENGTH')
export const NOT_ARMED: Fault = numberOf('NOT_ARMED')
export const COPIES_DIFFER: Fault = numberOf('COPIES_DIFFER')
export const FIXED_LENGTH: Fault = numberOf('FIXED_LENGTH')
export const READ_ONLY: Fault = numberOf('READ_ONLY')
export const LEVEL: Fault = numberOf('LEVEL')
export const STAGING: Fault = numberOf('STAGING')
export const FLUSH: Fault = numberOf('FLUSH')
export const IN_DOUBT: Fault = numberOf('IN_DOUBT')
export const BLANK: Fault = numberOf('BLANK')
export const FOREIGN: Fault = numberOf('FOREIGN')
export const NEWER: Fault = numberOf('NEWER')
export const DAMAGED: Fault = numberOf('DAMAGED')
export const TRUNCATED: Fault = numberOf('TRUNCATED')
export const FORMATTED: Fault = numberOf('FORMATTED')
export const NOT_SERVING: Fault = numberOf('NOT_SERVING')
export const REQUEST: Fault = numberOf('REQUEST')
export const NO_REGION: Fault = numberOf('NO_REGION')
export const REGION_EXISTS: Fault = numberOf('REGION_EXISTS')
export const REGIONS_FULL: Fault = numberOf('REGIONS_FULL')
export const NO_SPACE: Fault = numberOf('NO_SPACE')
export const QUEUE_PAIRS_FULL: Fault = numberOf('QUEUE_PAIRS_FULL')
