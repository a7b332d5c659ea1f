/**
 * The control call, ours: a management datagram of the vendor's class (IBTA Vol 1, 13.4): 256
 * bytes, big-endian, the payload of a UD SEND Only to QP 1.
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|   1    |  0x09  |   1    | method |
 *   +--------+--------+--------+--------+
 *  4|     status      |        0        |
 *   +--------+--------+--------+--------+
 *  8|       transaction id, high        |
 *   +--------+--------+--------+--------+
 * 12|       transaction id, low         |
 *   +--------+--------+--------+--------+
 * 16|    attribute    |        0        |
 *   +--------+--------+--------+--------+
 * 20|             modifier              |
 *   +--------+--------+--------+--------+
 * 24|     magic 0x50445243, "PDRC"      |
 *   +--------+--------+--------+--------+
 * 28|version | fault  |        0        |
 *   +--------+--------+--------+--------+
 * 32|        body (224 bytes)           |
 *
 * Version 1 is told in the clear. In a session (session/) the version is 2, and of the body the
 * first 196 bytes are sealed: header and body authenticate.
 *
 *    0 body, sealed, 196 bytes    196 tag, 16 bytes
 *  212 session u32                216 counter u64: of datagrams of that session in that direction
 *
 * Datagrams get lost: a client repeats its request with the same transaction id, and every request
 * may be repeated without harm. An answer has the request's attribute, transaction id and modifier,
 * and the number of the fault (fault.ts) when the status says that it was refused. Offsets of a
 * body count from its first byte.
 */

import { type Fault, MANAGEMENT_FORM, PASS } from '../board/fault.ts'
import { putU16, putU32, u16, u32 } from './bytes.ts'

export const MAD_BYTES = 256

/** The queue pair that takes management datagrams: the general service interface. */
export const MANAGEMENT_QP = 1

export const MAD_BASE_VERSION = 0
export const MAD_CLASS = 1
export const MAD_CLASS_VERSION = 2
export const MAD_METHOD = 3
export const MAD_STATUS = 4
export const MAD_TRANSACTION_HIGH = 8
export const MAD_TRANSACTION_LOW = 12
export const MAD_ATTRIBUTE = 16
export const MAD_MODIFIER = 20
export const MAD_MAGIC = 24
export const MAD_VERSION = 28
export const MAD_FAULT = 29
export const MAD_BODY = 32
export const MAD_BODY_BYTES: number = MAD_BYTES - MAD_BODY

/** The management class of vendors without a vendor id in the header. */
export const CLASS_VENDOR = 0x09
export const BASE_VERSION = 1
export const CLASS_VERSION = 1
/** "PDRC". */
export const MANAGEMENT_MAGIC = 0x50445243
export const MANAGEMENT_VERSION = 1
/** The version of a datagram that is sealed. */
export const SEALED_VERSION = 2
export const SEALED_BODY_BYTES = 196
export const SEALED_TAG = 196
export const SEALED_SESSION = 212
export const SEALED_COUNTER_HIGH = 216
export const SEALED_COUNTER_LOW = 220

/** Methods. */
export const METHOD_GET = 0x01
export const METHOD_SET = 0x02
export const METHOD_RESPONSE = 0x81

/** Status of an answer. Refused is the standard's "an attribute or modifier is not valid". */
export const STATUS_OK = 0
export const STATUS_REFUSED = 0x001c

/** Attributes. */
export const ATTRIBUTE_STATUS = 0x0010
export const ATTRIBUTE_FORMAT = 0x0011
export const ATTRIBUTE_PROVISION = 0x0012
export const ATTRIBUTE_OPEN = 0x0013
export const ATTRIBUTE_REGION = 0x0014
export const ATTRIBUTE_REMOVE = 0x0015
export const ATTRIBUTE_CONNECT = 0x0020
export const ATTRIBUTE_DISCONNECT = 0x0021
export const ATTRIBUTE_REPORT = 0x0030
export const ATTRIBUTE_COUNTERS = 0x0031
export const ATTRIBUTE_SCAN = 0x0032
export const ATTRIBUTE_SETTLE = 0x0033
export const ATTRIBUTE_FIGURES = 0x0034
export const ATTRIBUTE_HEALTH = 0x0035
export const ATTRIBUTE_PROBE = 0x0050
export const ATTRIBUTE_PLACE = 0x0051
export const ATTRIBUTE_AGENT = 0x0052
export const ATTRIBUTE_PIECES = 0x0053
export const ATTRIBUTE_PUBLISH = 0x0040
export const ATTRIBUTE_ATTACH = 0x0041
export const ATTRIBUTE_DETACH = 0x0042
export const ATTRIBUTE_QUEUES = 0x0060
export const ATTRIBUTE_QUEUE = 0x0061
export const ATTRIBUTE_CACHE = 0x0062
export const ATTRIBUTE_CREATE_CQ = 0x0063
export const ATTRIBUTE_CREATE_QP = 0x0064
export const ATTRIBUTE_MODIFY_QP = 0x0065
export const ATTRIBUTE_DESTROY = 0x0066
export const ATTRIBUTE_REGISTER = 0x0067
export const ATTRIBUTE_DEREGISTER = 0x0068
export const ATTRIBUTE_QUEUE_WRITE = 0x0069
export const ATTRIBUTE_QUEUE_LOCK = 0x006a
export const ATTRIBUTE_QUEUE_RELEASE = 0x006b
export const ATTRIBUTE_RING = 0x006c
export const ATTRIBUTE_BATCH_NOTICES = 0x006d
export const ATTRIBUTE_ON_DEMAND = 0x0070
export const ATTRIBUTE_MAP = 0x0071
export const ATTRIBUTE_UNMAP = 0x0072
export const ATTRIBUTE_ON_DEMAND_END = 0x0073
export const ATTRIBUTE_ON_DEMAND_STATE = 0x0074
export const ATTRIBUTE_RESIDENCY = 0x0075
export const ATTRIBUTE_HANDSHAKE = 0x0080
export const ATTRIBUTE_PEERS = 0x0081
export const ATTRIBUTE_ADD_PEER = 0x0082
export const ATTRIBUTE_REMOVE_PEER = 0x0083

/*
 * STATUS (GET) and FORMAT (SET): the part.
 *
 *    0 state u8   1 health bits u8   2 fault u8   3 regions u8   4 incarnation u32
 *    8 device id, 16 bytes           24 NVDIMM bytes u64
 *   32 path MTU u32                  36 format version u32
 *   40 report entries u32            44 unsettled records u32
 *   48 lines read by recovery u32    52 lanes active at recovery u32
 *   56 records scanned u32           60 records repaired u32
 *   64 operations that recovery added to the table u32
 *   68 whole pages of the superblock u32, 0 to 2, as they were looked at last
 *   72 pages of it that had decayed, or were torn, and were written again since the start u32
 *   76 likewise lines of the operation table u32   80 clients of whom both lines were lost u32
 *   96 what is under way u8: 0 nothing, 1 a region is made, 2 the room of one is cleared
 *   97 who may come u8: 1 whoever reaches the card, 2 its peers, in sessions; 0 an older card
 *  100 its region id u32               104 of it done, bytes u64   112 in all, bytes u64
 *  120 calls and packets of the network that were refused for who sent them, since the start u32
 *  124 of the last one: fault u8; 128 address, 16 bytes, IPv4 as ::ffff:a.b.c.d; 144 seconds ago,
 *      u32
 *  148 regions that take no writes now u32, a bit for each place of REGION: bit 0 is the first
 *  152 records of which decayed copies were repaired since the start u32
 *  156 how often the medium failed since the start u32: MEDIA, UNREADABLE, FLUSH
 *
 * Health bits: 1 armed, 2 the last save failed, 4 the memory does not outlive the power, 8 the
 * firmware is on trial. From 148 on an older card tells zeros, and of the bits it never tells 8.
 */
export const PART_STATE = 0
export const PART_HEALTH = 1
export const PART_FAULT = 2
export const PART_REGIONS = 3
export const PART_INCARNATION = 4
export const PART_DEVICE_ID = 8
export const PART_NVDIMM_BYTES_HIGH = 24
export const PART_NVDIMM_BYTES_LOW = 28
export const PART_PATH_MTU = 32
export const PART_FORMAT_VERSION = 36
export const PART_REPORT_ENTRIES = 40
export const PART_UNSETTLED = 44
export const PART_LINES_READ = 48
export const PART_LANES_ACTIVE = 52
export const PART_SCANNED = 56
export const PART_REPAIRED = 60
export const PART_OPERATIONS = 64
export const PART_SUPERBLOCK_WHOLE = 68
export const PART_SUPERBLOCK_MENDED = 72
export const PART_OPERATIONS_MENDED = 76
export const PART_OPERATIONS_LOST = 80
export const PART_WORK = 96
export const PART_ACCESS = 97
export const PART_WORK_REGION = 100
export const PART_WORK_DONE_HIGH = 104
export const PART_WORK_DONE_LOW = 108
export const PART_WORK_TOTAL_HIGH = 112
export const PART_WORK_TOTAL_LOW = 116
export const PART_REFUSALS = 120
export const PART_REFUSED_FAULT = 124
export const PART_REFUSED_SOURCE = 128
export const PART_REFUSED_SECONDS = 144
export const PART_REFUSING = 148
export const PART_MENDED = 152
export const PART_MEDIA_FAILURES = 156
/** Of a body of STATUS the bytes that tell something. */
export const PART_BYTES = 160

/** States of a part. */
export const STATE_BLANK = 0
export const STATE_SERVING = 1
export const STATE_REFUSED = 2
export const STATE_FAILED_CLOSED = 3
/** Their names, for people and programs. */
export const STATE_NAMES = ['blank', 'serving', 'refused', 'failedClosed'] as const

/** Who may come. */
export const ACCESS_OPEN = 1
export const ACCESS_PEERS = 2

/** FORMAT (SET): the device id that it shall have; zeros let the part choose. */
export const FORMAT_DEVICE_ID = 0
export const DEVICE_ID_BYTES = 16

/*
 * PROVISION (SET), OPEN (GET), REGION (GET, the modifier is its place) and the answer of SETTLE.
 * REMOVE (SET) reads the name only.
 *
 *    0 name, 32 bytes    32 slots u32           36 capacity of a slot, bytes u32
 *   40 copies u8         41 kind u8             42 flags u16
 *   44 protection domain u16                    48 length u64 (bytes kind)
 *   56 R_Key u32         60 check-code key, 16 bytes: zeros for who is not connected
 *   76 region id u32     80 stride, bytes u32   84 unsettled records u32
 *   88 base address u64 (bytes kind)            96 read-only u8
 *   97 placement u8      98 status that refuses writes u8, or 0
 *  100 records of which decayed copies were repaired since the start u32
 */
export const REGION_NAME = 0
export const REGION_SLOTS = 32
export const REGION_CAPACITY = 36
export const REGION_COPIES = 40
export const REGION_KIND = 41
export const REGION_FLAGS = 42
export const REGION_DOMAIN = 44
export const REGION_LENGTH_HIGH = 48
export const REGION_LENGTH_LOW = 52
export const REGION_RKEY = 56
export const REGION_CHECK_KEY = 60
export const REGION_ID = 76
export const REGION_STRIDE = 80
export const REGION_UNSETTLED = 84
export const REGION_BASE_HIGH = 88
export const REGION_BASE_LOW = 92
export const REGION_READ_ONLY = 96
/**
 * 0 the DPU's own NVDIMM, 1 the host's past its caches, 2 the host's through them, 3 with another
 * DPU, 4 in the host's ordinary memory.
 */
export const REGION_PLACEMENT = 97
/** Status by which any record would be refused now; 0 if none would, or from an older card. */
export const REGION_REFUSES = 98
export const REGION_REPAIRED = 100

/*
 * ATTACH (SET): a region of another DPU is offered here. It is answered as OPEN. DETACH (SET) reads
 * the name only.
 *
 *    0 name, 32 bytes    32 IP version u8, 4 or 6   33 0   34 RDMA-CM port u16
 *   36 address, 16 bytes: IPv4 in the first four    52 client id u64
 *   60 public key of the other DPU, 32 bytes: with it, and port 0, the region is opened there in
 *      a session; zeros: the port offers it
 *   92 with a key the region's name there, 32 bytes; zeros: the same
 */
export const ATTACH_IP_VERSION = 32
export const ATTACH_PORT = 34
export const ATTACH_ADDRESS = 36
export const ATTACH_CLIENT_HIGH = 52
export const ATTACH_CLIENT_LOW = 56
export const ATTACH_KEY = 60
export const ATTACH_KEY_BYTES = 32
export const ATTACH_REGION = 92

/** Kinds of region. PROVISION makes the first two; the third is memory of the host (ON_DEMAND). */
export const KIND_RECORDS = 0
export const KIND_BYTES = 1
export const KIND_ON_DEMAND = 2

/** Region flag: every record has exactly the capacity. */
export const REGION_FIXED_LENGTH = 1
/** Region flag, of bytes: every store that is acknowledged is durable. */
export const REGION_WRITE_PERSIST = 2
/** Region flag, of records: clients write the copies by themselves. */
export const REGION_PAIR = 8
/** Region flag, told and never asked for: a record may bring a guard. */
export const REGION_TAKES_GUARDS = 4
/** Likewise: it may stand in a batch beside other regions, and one of bytes in a batch at all. */
export const REGION_JOINS_BATCHES = 16

/*
 * HANDSHAKE (SET): the two messages of a session's handshake (session/noise.ts). Nothing else is
 * asked of a card with peers in the clear, but STATUS.
 *
 *    0 first message, 96 bytes, its payload is empty   96 cookie, 16 bytes, or zeros
 *    0 of a refusal as COOKIE: the cookie, 16 bytes
 *    0 second message, 60 bytes; its payload are 12 bytes:
 *
 *       0 session u32    4 incarnation u32    8 rights u8: bit 0 an admin's    9 zeros
 */
export const HANDSHAKE_SECOND_BYTES = 60
export const HANDSHAKE_PAYLOAD_BYTES = 12
export const HANDSHAKE_COOKIE = 96
export const HANDSHAKE_COOKIE_BYTES = 16
export const HANDSHAKE_SESSION = 0
export const HANDSHAKE_INCARNATION = 4
export const HANDSHAKE_RIGHTS = 8
export const RIGHTS_ADMIN = 1

/*
 * PEERS (GET, the modifier is a place of the list): the first peer at that place or behind it.
 * ADD_PEER (SET): one more peer; where it has more regions than one datagram has room for, they
 * come in their order, and it is added behind the last one. REMOVE_PEER (SET) reads the key only.
 *
 *    0 public key, 32 bytes: zeros behind the last peer    32 name, 32 bytes
 *   64 its place u8    65 rights u8: bit 0 an admin's      66 regions in all u8, at most 8
 *   67 the first region here u8, also in what asks PEERS   68 regions here u8, at most 3
 *   72 of each region 36 bytes:
 *
 *       0 right u8: 1 to read, 2 to write and read    4 name, 32 bytes; '*' for every region
 */
export const PEER_KEY = 0
export const PEER_NAME = 32
export const PEER_PLACE = 64
export const PEER_RIGHTS = 65
export const PEER_REGIONS_TOTAL = 66
export const PEER_REGIONS_FROM = 67
export const PEER_REGIONS_HERE = 68
export const PEER_FIRST_REGION = 72
export const PEER_REGION_BYTES = 36
export const PEER_REGION_NAME = 4
export const PEER_REGIONS_PER_MAD = 3
export const PEER_MAY_READ = 1
export const PEER_MAY_WRITE = 2

/*
 * CONNECT (SET)
 *
 *    0 client QPN u32    4 starting PSN of the client u32   8 path MTU u16
 *   10 protection domain u16   12 send depth u16, 14 receive depth u16; 0 and 0 tell nothing
 *   16 client id u64
 *   24 our QPN u32      28 PSN of the client's first request u32
 *   32 incarnation u32  36 path MTU u16
 *   38 our send depth u16, 40 our receive depth u16; 0 and 0 where the client told nothing
 *   42 packets have tags u8: asked by the client, in a session, and granted (wire/tag.ts)
 *   44 keys of them, of the client's packets and of ours, 32 bytes each
 *
 * DISCONNECT (SET): 0 our QPN u32   4 client QPN u32
 */
export const CONNECT_CLIENT_QP = 0
export const CONNECT_CLIENT_PSN = 4
export const CONNECT_PATH_MTU = 8
export const CONNECT_DOMAIN = 10
export const CONNECT_CLIENT_SEND_DEPTH = 12
export const CONNECT_CLIENT_RECEIVE_DEPTH = 14
export const CONNECT_CLIENT_ID_HIGH = 16
export const CONNECT_CLIENT_ID_LOW = 20
export const CONNECT_QP = 24
export const CONNECT_FIRST_PSN = 28
export const CONNECT_INCARNATION = 32
export const CONNECT_GRANTED_MTU = 36
export const CONNECT_SEND_DEPTH = 38
export const CONNECT_RECEIVE_DEPTH = 40
export const CONNECT_TAGS = 42
export const CONNECT_TAG_KEYS = 44
export const CONNECT_TAG_KEYS_BYTES = 64
export const DISCONNECT_QP = 0
export const DISCONNECT_CLIENT_QP = 4

/*
 * REPORT (GET, the modifier is the first entry): what recovery did.
 *
 *    0 entries in all u32    4 entries here u32, at most 7    16 entries of 24 bytes:
 *
 *       0 region u16         2 lane u8, 0xff scan   3 row of the case table u8
 *       4 action u8          5 source u8            6 valid copies, a bit each, u8   7 flags u8
 *       8 record u32        12 sequence high u32   16 sequence low u32
 *      20 lines read u32
 */
export const REPORT_TOTAL = 0
export const REPORT_HERE = 4
export const REPORT_FIRST = 16
export const REPORT_ENTRY_BYTES = 24
export const REPORT_ENTRIES_PER_MAD = 7
export const ENTRY_REGION = 0
export const ENTRY_LANE = 2
export const ENTRY_ROW = 3
export const ENTRY_ACTION = 4
export const ENTRY_SOURCE = 5
export const ENTRY_VALID = 6
export const ENTRY_FLAGS = 7
export const ENTRY_RECORD = 8
export const ENTRY_SEQUENCE_HIGH = 12
export const ENTRY_SEQUENCE_LOW = 16
export const ENTRY_LINES_READ = 20
/** The lane of an entry that a scan made. */
export const LANE_SCAN = 0xff

/*
 * COUNTERS (GET, the modifier is the first counter): how often each fault was met, by its number.
 *
 *    0 counters in all u32   4 counters here u32, at most 23   8 counters, u64 each
 */
export const COUNTERS_TOTAL = 0
export const COUNTERS_HERE = 4
export const COUNTERS_FIRST = 8
export const COUNTER_BYTES = 8
export const COUNTERS_PER_MAD = 23

/*
 * FIGURES (GET): what the card has done since its start, and what it has acknowledged of the region
 * of that name, and how soon. A name of zeros is for the card alone.
 *
 *    0 name, 32 bytes    32 the first bucket that is asked for u8
 *   36 region id u32     40 calls of the board that brought frames or doorbells u64
 *   48 fences u64        56 PERSIST_ACKs, and answers to FLUSH and ATOMIC WRITE u64
 *   64 bytes of the region that are durable u64       72 the sum of all its times, µs u64
 *   80 bucket to go on with u8, 0 if there is none    81 buckets here u8, at most 14
 *   84 buckets that are not empty, from that one on, 8 bytes each: 0 its number u8
 *      1 acknowledgements u56
 *
 * Bucket b holds the times of b µs for b < 4; from there on those from (4 + b % 4) * 2^(b/4 - 1) µs
 * up to where bucket b + 1 begins. There are 104, and the last one has no end.
 */
export const FIGURES_FIRST_BUCKET = 32
export const FIGURES_REGION = 36
export const FIGURES_BURSTS = 40
export const FIGURES_FENCES = 48
export const FIGURES_ACKS = 56
export const FIGURES_BYTES = 64
export const FIGURES_TIME = 72
export const FIGURES_NEXT = 80
export const FIGURES_HERE = 81
export const FIGURES_BUCKETS = 84
export const FIGURES_BUCKET_BYTES = 8
export const FIGURES_PER_MAD = 14

/*
 * HEALTH (SET): the card tells a queue pair of who asks how its part is, from now on; asked again,
 * as asked then. The answer is that of STATUS, and behind it how often that was told so far.
 *
 *    0 our QPN u32      4 client QPN u32
 *    8 mark u64, which the messages have         16 action u8: 0 no more, 1 from now on
 *  160 messages to that queue pair before u32: answer
 *
 * The message, a SEND Only: each time that the part's health is not what the queue pair was told
 * last. One is under way at a time, and what changes meanwhile is told together behind it.
 *
 *    0 magic 0x50445248, "PDRH"      4 its number u32, from 1 on
 *    8 mark u64                     16 as the answer of STATUS, 160 bytes
 *
 * Health is of STATUS: state, health bits, fault, unsettled records, whole pages of the superblock,
 * and what stands from 148 on.
 */
export const HEALTH_QP = 0
export const HEALTH_CLIENT_QP = 4
export const HEALTH_MARK = 8
export const HEALTH_ACTION = 16
export const HEALTH_TOLD: number = PART_BYTES
/** Actions of HEALTH. */
export const HEALTH_END = 0
export const HEALTH_BEGIN = 1
/** "PDRH". */
export const HEALTH_MAGIC = 0x50445248
/** Of the message. */
export const HEALTH_SEND_MAGIC = 0
export const HEALTH_SEND_NUMBER = 4
export const HEALTH_SEND_MARK = 8
export const HEALTH_SEND_PART = 16
export const HEALTH_SEND_BYTES: number = HEALTH_SEND_PART + PART_BYTES

/*
 * SCAN (SET)
 *
 *    0 region id u32    4 first record u32
 *    8 next record u32, the number of slots when done
 *   12 checked u32     16 repaired u32    20 unsettled in the region u32
 *   24 of those checked: lost u32           28 and unsettled, but not lost u32
 *   32 passed over, as somebody is writing them u32
 *
 * SETTLE (SET)
 *
 *    0 region id u32    4 record u32      8 decision u8
 */
export const SCAN_REGION = 0
export const SCAN_RECORD = 4
export const SCAN_NEXT = 8
export const SCAN_CHECKED = 12
export const SCAN_REPAIRED = 16
export const SCAN_UNSETTLED = 20
export const SCAN_FOUND_LOST = 24
export const SCAN_FOUND_UNSETTLED = 28
export const SCAN_UNDER_WAY = 32
export const SETTLE_REGION = 0
export const SETTLE_RECORD = 4
export const SETTLE_DECISION = 8
/** Decision: the record is given up and becomes blank. */
export const SETTLE_DISCARD = 1

/*
 * PUBLISH (SET): offers a region on a port of RDMA-CM until the power goes; answered as OPEN.
 *
 *    0 name, 32 bytes    32 port u16    34 form u8    35 flags u8: STOCK
 *   36 rights u32, 0 all that the region has         40 connections at once u16, 0 any number
 *   42 number of sources u8, 0 anybody, then four times from 44 on:
 *      0 IPv6 address, or a mapped IPv4 one, 16 bytes    16 bits of it that count u8, up to 128
 */
export const PUBLISH_PORT = 32
export const PUBLISH_FORM = 34
export const PUBLISH_FLAGS = 35
export const PUBLISH_RIGHTS = 36
export const PUBLISH_CONNECTIONS = 40
export const PUBLISH_SOURCES = 42
export const PUBLISH_FIRST_SOURCE = 44
export const PUBLISH_SOURCE_BYTES = 20
export const PUBLISH_SOURCE_PREFIX = 16
export const PUBLISH_SOURCES_MAX = 4
/** Flag: for clients that have no sessions, of a card with peers. */
export const PUBLISH_STOCK = 1

/** What a plain client is told in REP: nothing any more, librpma's descriptor, our block. */
export const FORM_NONE = 0
export const FORM_LIBRPMA = 1
export const FORM_CAPABILITY = 2
export const FORM_ANNOUNCED = 3

/*
 * PROBE (SET): the card writes a number into lines at the begin of the host's memory, first as
 * usual, then asking for no-snoop. It names the pieces that were stated, as PIECES does; none where
 * there are none. The answer:
 *
 *    0 lines of each kind u32    4 host memory bytes u64
 *
 * PLACE (SET): what the host's CPU has seen of them; the answer has the placement that holds now.
 *
 *    0 placement u8, 0 if it cannot tell    1 ADR stated u8    4 the number u64
 *
 * PIECES (SET): where the persistent memory of the host lies that the card is to use. Its offsets
 * run through the pieces in this order. A page is 4096 bytes, counted in the card's window. None:
 * only asks. The answer has those that hold now.
 *
 *    0 pieces u32, at most 16    4 of 8 bytes each: first page u32, pages u32
 *
 * AGENT (SET): the host's flush agent comes or goes; the number is that of the probe. One that
 * comes names the pieces that it looks through, as PROBE does.
 *
 *    0 action u8    4 the number u64
 *   12 number of the first request u32, in the answer    16 its send queue u32 (TYPE_AGENT)
 *   20 pieces u32, at most 16    24 of 8 bytes each: first page u32, pages u32
 */
export const PROBE_LINES = 0
export const PROBE_HOST_BYTES_HIGH = 4
export const PROBE_HOST_BYTES_LOW = 8
export const PLACE_PLACEMENT = 0
export const PLACE_ADR = 1
export const PLACE_NUMBER_HIGH = 4
export const PLACE_NUMBER_LOW = 8
export const PIECES_COUNT = 0
export const PIECES_FIRST = 4
export const PIECES_ENTRY_BYTES = 8
export const AGENT_ACTION = 0
export const AGENT_NUMBER_HIGH = 4
export const AGENT_NUMBER_LOW = 8
export const AGENT_FIRST_REQUEST = 12
export const AGENT_QUEUE = 16
/** From there on as PIECES: PIECES_COUNT and PIECES_FIRST count from here. */
export const AGENT_PIECES = 20

/** Actions of AGENT. */
export const AGENT_DETACH = 0
export const AGENT_ATTACH = 1

/** The fields of the fixed header. */
export interface Mad {
  method: number
  status: number
  transactionHigh: number
  transactionLow: number
  attribute: number
  modifier: number
  /** In an answer: the number of the fault, 0 for none. */
  fault: number
}

export function blankMad(): Mad {
  return {
    method: METHOD_GET,
    status: STATUS_OK,
    transactionHigh: 0,
    transactionLow: 0,
    attribute: ATTRIBUTE_STATUS,
    modifier: 0,
    fault: 0,
  }
}

/** Whether the payload of `length` bytes at `at` is a datagram of ours: PASS or MANAGEMENT_FORM. */
export function madFault(bytes: Uint8Array, at: number, length: number): Fault {
  if (length !== MAD_BYTES) return MANAGEMENT_FORM
  if (bytes[at + MAD_BASE_VERSION] !== BASE_VERSION) return MANAGEMENT_FORM
  if (bytes[at + MAD_CLASS] !== CLASS_VENDOR) return MANAGEMENT_FORM
  if (bytes[at + MAD_CLASS_VERSION] !== CLASS_VERSION) return MANAGEMENT_FORM
  if (u32(bytes, at + MAD_MAGIC) !== MANAGEMENT_MAGIC) return MANAGEMENT_FORM
  const version = bytes[at + MAD_VERSION]
  const known = version === MANAGEMENT_VERSION || version === SEALED_VERSION
  return known ? PASS : MANAGEMENT_FORM
}

/** Is the datagram at `at` sealed in a session? */
export function isSealed(bytes: Uint8Array, at: number): boolean {
  return bytes[at + MAD_VERSION] === SEALED_VERSION
}

/** Reads the 32 bytes of header at `at`; `madFault` has passed them. */
export function readMad(into: Mad, bytes: Uint8Array, at: number): void {
  into.method = bytes[at + MAD_METHOD]!
  into.status = u16(bytes, at + MAD_STATUS)
  into.transactionHigh = u32(bytes, at + MAD_TRANSACTION_HIGH)
  into.transactionLow = u32(bytes, at + MAD_TRANSACTION_LOW)
  into.attribute = u16(bytes, at + MAD_ATTRIBUTE)
  into.modifier = u32(bytes, at + MAD_MODIFIER)
  into.fault = bytes[at + MAD_FAULT]!
}

/** Writes the 32 bytes of header at `at`; the body behind it is the caller's. */
export function writeMad(
  bytes: Uint8Array,
  at: number,
  from: Mad,
  version: number = MANAGEMENT_VERSION,
): void {
  bytes[at + MAD_BASE_VERSION] = BASE_VERSION
  bytes[at + MAD_CLASS] = CLASS_VENDOR
  bytes[at + MAD_CLASS_VERSION] = CLASS_VERSION
  bytes[at + MAD_METHOD] = from.method
  putU16(bytes, at + MAD_STATUS, from.status)
  putU16(bytes, at + MAD_STATUS + 2, 0)
  putU32(bytes, at + MAD_TRANSACTION_HIGH, from.transactionHigh)
  putU32(bytes, at + MAD_TRANSACTION_LOW, from.transactionLow)
  putU16(bytes, at + MAD_ATTRIBUTE, from.attribute)
  putU16(bytes, at + MAD_ATTRIBUTE + 2, 0)
  putU32(bytes, at + MAD_MODIFIER, from.modifier)
  putU32(bytes, at + MAD_MAGIC, MANAGEMENT_MAGIC)
  bytes[at + MAD_VERSION] = version
  bytes[at + MAD_FAULT] = from.fault
  putU16(bytes, at + MAD_FAULT + 1, 0)
}

/*
 * QUEUES (GET, the modifier is the first counter): what the card has done for its host's queues.
 * Anybody may ask.
 *
 *    0 epoch u32, 0 if there is no host    4 queues K u32       8 queues in use u32
 *   12 contexts cached u32                16 capacity u32      20 policy u8   21 pointer order u8
 *   22 n u16                              24 age, µs u32
 *   32 counters in all u32                36 counters here u32, at most 19   40 counters, u64 each
 *
 * QUEUE (GET, the modifier is the queue): its queue information, as the card has it now; 0 zone 1,
 * 64 zone 2, 96 zone 3, and 112 1 if it is in the cache. Anybody may ask.
 *
 * CACHE (SET): how contexts are evicted. 0 policy u8   2 n u16   4 age, µs u32
 *              8 capacity u32, 0 as it is
 */
export const QUEUES_EPOCH = 0
export const QUEUES_COUNT = 4
export const QUEUES_USED = 8
export const QUEUES_CACHED = 12
export const QUEUES_CAPACITY = 16
export const QUEUES_POLICY = 20
export const QUEUES_ORDER = 21
export const QUEUES_N = 22
export const QUEUES_AGE = 24
export const QUEUES_COUNTERS_TOTAL = 32
export const QUEUES_COUNTERS_HERE = 36
export const QUEUES_COUNTERS = 40
export const QUEUES_COUNTERS_PER_MAD = 19
export const QUEUE_ZONE2 = 64
export const QUEUE_ZONE3 = 96
export const QUEUE_CACHED = 112
export const CACHE_POLICY = 0
export const CACHE_N = 2
export const CACHE_AGE = 4
export const CACHE_CAPACITY = 8

/*
 * What follows only the host itself may ask, through its own queue (HOST_ONLY). Addresses are those
 * of DMA_SPACE. A queue begins empty, at the pointer that the host has left in its zone 3.
 *
 * CREATE_CQ (SET)   0 ring u64   8 entries u32, a power of two   12 count u16   14 period, µs u16
 *                  16 its number u32, in the answer
 *
 * CREATE_QP (SET)   0 type u8    2 protection domain u16    4 send completion queue u32
 *                   8 receive completion queue u32          12 units of the send ring u32
 *                  16 send ring u64    24 receive ring u64  32 units of the receive ring u32
 *                  40 client id u64    48 send queue u32, 52 receive queue u32, 56 QPN u32: answer
 *
 * MODIFY_QP (SET): ready to receive and to send, or error.
 *                   0 send queue u32    4 state u8    6 path MTU u16    8 peer's QPN u32
 *                  12 PSN of the peer's first request u32   16 PSN of ours u32
 *                  20 incarnation u32, 0 where the peer sends no PERSIST_ACK   24 READ depth u8
 *                  26 messages that the peer takes at once u16, 0 where it told nothing
 *                  28 MAC, six bytes   36 IPv4, four bytes
 *
 * DESTROY (SET): a queue pair with both queues, or a completion queue.   0 queue u32
 */
export const CREATE_CQ_RING = 0
export const CREATE_CQ_ENTRIES = 8
export const CREATE_CQ_COUNT = 12
export const CREATE_CQ_PERIOD = 14
export const CREATE_CQ_QUEUE = 16
export const CREATE_QP_TYPE = 0
export const CREATE_QP_DOMAIN = 2
export const CREATE_QP_SEND_CQ = 4
export const CREATE_QP_RECEIVE_CQ = 8
export const CREATE_QP_SEND_UNITS = 12
export const CREATE_QP_SEND_RING = 16
export const CREATE_QP_RECEIVE_RING = 24
export const CREATE_QP_RECEIVE_UNITS = 32
export const CREATE_QP_CLIENT = 40
export const CREATE_QP_SEND = 48
export const CREATE_QP_RECEIVE = 52
export const CREATE_QP_NUMBER = 56
export const MODIFY_QP_SEND = 0
export const MODIFY_QP_STATE = 4
export const MODIFY_QP_MTU = 6
export const MODIFY_QP_PEER = 8
export const MODIFY_QP_PEER_PSN = 12
export const MODIFY_QP_PSN = 16
export const MODIFY_QP_INCARNATION = 20
export const MODIFY_QP_DEPTH = 24
export const MODIFY_QP_SEND_DEPTH = 26
export const MODIFY_QP_MAC = 28
export const MODIFY_QP_IPV4 = 36
export const DESTROY_QUEUE = 0

/*
 * REGISTER (SET): memory of the host that elements may name.
 *                   0 address u64   8 length u64   16 protection domain u16   20 L_Key u32: answer
 * DEREGISTER (SET)  0 L_Key u32
 *
 * QUEUE_WRITE (SET): zone 2 by message (P3-8); no element is taken from the queue meanwhile. What
 *                   is in front of the pointer was taken from, or written to, the old ring.
 *                   0 queue u32    8 zone 2, 32 bytes    40 pointer of zone 1 u32: answer
 * QUEUE_LOCK (SET)  0 queue u32    4 token u32, 8 pointer of zone 1 u32: answer (P3-9)
 * QUEUE_RELEASE (SET)  0 queue u32   4 token u32
 *
 * RING (SET): doorbells, message form.   0 how many u32, at most 16   8 of 8 bytes each: queue u32,
 *                   write pointer u32
 */
export const REGISTER_ADDRESS = 0
export const REGISTER_LENGTH = 8
export const REGISTER_DOMAIN = 16
export const REGISTER_LKEY = 20
export const DEREGISTER_LKEY = 0
export const QUEUE_WRITE_QUEUE = 0
export const QUEUE_WRITE_ZONE2 = 8
export const QUEUE_WRITE_POINTER = 40
export const QUEUE_LOCK_QUEUE = 0
export const QUEUE_LOCK_TOKEN = 4
export const QUEUE_LOCK_POINTER = 8
export const RING_COUNT = 0
export const RING_FIRST = 8
export const RING_MAX = 16

/*
 * BATCH_NOTICES (SET): what batches store into a region is told in a completion queue, which is for
 *                   that alone (host/element.ts); asked again, it is told as asked then.
 *                   0 region id u32    4 completion queue u32
 *                   8 each u8: 0 nothing any more, 1 what a burst of a batch stored, 2 each record
 *                  12 records missed before u32, and    16 the newest sequence u64 so far: answer
 */
export const NOTICES_REGION = 0
export const NOTICES_QUEUE = 4
export const NOTICES_EACH = 8
export const NOTICES_MISSED = 12
export const NOTICES_SEQUENCE = 16
/** Who is told: nobody, of bursts, of records. */
export const NOTICES_NONE = 0
export const NOTICES_BURST = 1
export const NOTICES_RECORD = 2

/*
 * Memory of the host whose pages come and go (source 5). A page is 4096 bytes; a frame is where one
 * lies: its address in DMA_SPACE / 4096.
 *
 * ON_DEMAND (SET): registers a region; no page of it is there yet.
 *                   0 name, 32 bytes       32 length u64     40 address of its first byte u64, a
 *                  multiple of 4096        48 protection domain u16
 *                  50 rights u16, access flags: 2 write, 4 read
 *                  52 R_Key u32, 56 its place u32: answer
 *                  60 flags u8: 1 the IOMMU translates it, by the virtual address of its first byte
 *                  64 u64, in the address space that has the number of its place behind the others
 *
 * MAP (SET): pages that are there from now on, each in its frame.
 * UNMAP (SET): pages that are not. Behind the answer the card touches their frames no more.
 *                   0 R_Key u32    4 sequence u32     8 how many u32
 *                  12 of 8 bytes each: page u32, frame u32, at most 26; of UNMAP of 4 bytes each:
 *                  page u32, at most 53. Where the IOMMU translates, each frame is 2^32 - 1
 *
 * The sequence grows from call to call of a region, from 1 on; what is not newer than the last one
 * was executed already, and changes nothing. A call that is refused has changed nothing either, and
 * its sequence may be used again.
 *
 * ON_DEMAND_END (SET)    0 R_Key u32
 *
 * ON_DEMAND_STATE (SET): what requesters are told of the whole region.
 *                   0 R_Key u32    4 kind u8: 0 ready, else as in MEMORY_STATUS: 3 error (requests
 *                  fail), 4 unavailable (requests wait), 5 reset (ready, and no page is there)
 *
 * RESIDENCY (GET): what the card has heard of the memory at a peer, of the blocks from one on
 * (residency/blocks.ts). To ask for the first block is to have heard of the event.
 *                   0 send queue u32       4 R_Key u32       8 first block u32
 *                  12 phase u8: 0 nothing was told, 1 told, else a kind of MEMORY_STATUS
 *                  13 block size u8, log2 of bytes           14 health u8, as in MEMORY_STATUS
 *                  16 sequence of the newest notice u32      20 incarnation of its part u32
 *                  24 blocks u32          28 of them ready u32
 *                  32 notices taken u32   36 gaps between two u32
 *                  40 how often the card asked for the status u32
 *                  44 hints u32, and      48 elements with one that were of no use u32
 *                  52 blocks in this answer u32, at most 1280
 *                  56 a bit for each, most significant first: 1 is ready
 */
export const ON_DEMAND_NAME = 0
export const ON_DEMAND_LENGTH = 32
export const ON_DEMAND_BASE_HIGH = 40
export const ON_DEMAND_BASE_LOW = 44
export const ON_DEMAND_DOMAIN = 48
export const ON_DEMAND_RIGHTS = 50
export const ON_DEMAND_RKEY = 52
export const ON_DEMAND_PLACE = 56
export const ON_DEMAND_FLAGS = 60
export const ON_DEMAND_SHARED_HIGH = 64
export const ON_DEMAND_SHARED_LOW = 68
/** Flag of ON_DEMAND: the IOMMU translates. */
export const ON_DEMAND_SHARED = 1
/** Frame of a page that the IOMMU translates. */
export const MAP_IN_PLACE = 0xffffffff
export const MAP_RKEY = 0
export const MAP_SEQUENCE = 4
export const MAP_COUNT = 8
export const MAP_FIRST = 12
export const MAP_ENTRY_BYTES = 8
export const MAP_MAX = 26
export const UNMAP_RKEY: number = MAP_RKEY
export const UNMAP_SEQUENCE: number = MAP_SEQUENCE
export const UNMAP_COUNT: number = MAP_COUNT
export const UNMAP_FIRST: number = MAP_FIRST
export const UNMAP_ENTRY_BYTES = 4
export const UNMAP_MAX = 53
export const ON_DEMAND_END_RKEY = 0
export const ON_DEMAND_STATE_RKEY = 0
export const ON_DEMAND_STATE_KIND = 4
export const RESIDENCY_QUEUE = 0
export const RESIDENCY_RKEY = 4
export const RESIDENCY_FIRST = 8
export const RESIDENCY_PHASE = 12
export const RESIDENCY_BLOCK_SIZE = 13
export const RESIDENCY_HEALTH = 14
export const RESIDENCY_SEQUENCE = 16
export const RESIDENCY_INCARNATION = 20
export const RESIDENCY_BLOCKS = 24
export const RESIDENCY_READY = 28
export const RESIDENCY_NOTICES = 32
export const RESIDENCY_GAPS = 36
export const RESIDENCY_ASKED = 40
export const RESIDENCY_HINTS = 44
export const RESIDENCY_SPARED = 48
export const RESIDENCY_HERE = 52
export const RESIDENCY_STATES = 56
export const RESIDENCY_BLOCKS_PER_MAD = 1280

/** Kinds of ON_DEMAND_STATE; the others are STATUS_* of wire/memory-status.ts. */
export const ON_DEMAND_READY = 0
