/**
 * Work-queue elements and completions: how they lie in the rings of the host (source 3; P3-2,
 * P3-3).
 *
 * A work-queue element (WQE) is one unit of 64 bytes or several. Little-endian.
 *
 *    0 stamp u32            number of this unit, + 1
 *    4 opcode u8            a RequestKind (transport/requester.ts), or one of WQE_*
 *    5 units u8             1 to WQE_UNITS_MAX
 *    6 flags u16
 *    8 length u32           bytes that it sends, or asks for
 *   12 R_Key u32
 *   16 address (64)         where in the peer's region; AH_* of a datagram
 *   24 operation (64)       of a record, a message of a batch, or a query; what an atomic adds or
 *      swaps in; of ASSOCIATE and BLOCK_SIZE the BSETH, 16 bytes, and of PREFETCH_HINT the PFETH,
 *      8 bytes and 8 of 0, as they are on the wire
 *   32 compare (64)         of an atomic; of FLUSH: placement u8, selectivity u8
 *      of a member of a batch (BATCH): condition and last u8, as in PWETH; index u8; count - 1 u8;
 *      records of its burst that may come behind it u8, 0 of the last; batch id u16; 0 u16
 *   40 local address (64)   of the bytes, unless they are inline or scattered
 *   48 L_Key u32
 *   52 immediate u32        or the key to be invalidated; of a record its guard, or 0
 *   56 wait u8             57 entries u8, scattered     58 further copies u8      59 0
 *   60 stamp u32            again
 *
 * Behind that the bytes (INLINE), or the scatter/gather entries of 16 bytes: address (64), length
 * u32, L_Key u32. Behind these, from the next multiple of 16 on, of a record that names the address
 * of every copy (ADDRESSED): the RETHs of the further copies as they are on the wire, 16 bytes
 * each; of a record of a batch with the condition "expect" the sequence that its slot must hold
 * (64), and 0 (64). A batch carries one copy of each record, so it is never both. An element has as
 * many units as that needs, and no more.
 *
 * An element of a receive queue is one unit: WQE_RECEIVE, its buffer by local address, length and
 * L_Key, or no buffer (length 0).
 *
 * Invariant: the stamps of an element are those of its place and lap, and the second is
 * stored last: one that is old, or half stored, is seen to be (fault H2).
 */

import { assert } from '../board/assert.ts'
import { UNIT_BYTES } from '../board/limits.ts'

export const WQE_STAMP = 0
export const WQE_OPCODE = 4
export const WQE_UNITS = 5
export const WQE_FLAGS = 6
export const WQE_LENGTH = 8
export const WQE_RKEY = 12
export const WQE_ADDRESS = 16
export const WQE_OPERATION = 24
export const WQE_BSETH = 24
export const WQE_PFETH = 24
export const WQE_COMPARE = 32
export const WQE_PLACEMENT = 32
export const WQE_SELECTIVITY = 33
export const WQE_CONDITION = 32
export const WQE_BATCH_INDEX = 33
export const WQE_BATCH_COUNT = 34
export const WQE_BATCH_LEFT = 35
export const WQE_BATCH_ID = 36
export const WQE_LOCAL = 40
export const WQE_LKEY = 48
export const WQE_IMMEDIATE = 52
export const WQE_WAIT = 56
export const WQE_ENTRIES = 57
export const WQE_FURTHER_COPIES = 58
export const WQE_STAMP_AGAIN = 60

/** In the address of a datagram: MAC, six bytes, then IPv4, four bytes at 24; zeros: local card. */
export const AH_MAC: number = WQE_ADDRESS
export const AH_IPV4: number = WQE_ADDRESS + 8

/** Kinds of requests, as the requester numbers them. */
export const WQE_WRITE_PERSIST = 1
export const WQE_SEND = 4
export const WQE_SEND_IMM = 5
export const WQE_SEND_INV = 6
export const WQE_READ = 7
export const WQE_FETCH_ADD = 8
export const WQE_PERSIST_QUERY = 12
export const WQE_ASSOCIATE = 13
export const WQE_BLOCK_SIZE = 14
export const WQE_PREFETCH_HINT = 15

/** Opcodes besides the kinds of requests. */
export const WQE_NOP = 32
export const WQE_RECEIVE = 33

/** Wants a completion also when it succeeds. */
export const SIGNALED = 1
export const SOLICITED = 2
/** Waits until every READ, atomic and FLUSH before it is answered. */
export const FENCE = 4
export const INLINE = 8
/** Every copy is carried; and every copy's address is named, or alone that of plain bytes. */
export const CARRIED = 16
export const ADDRESSED = 32
/**
 * Two completions: that of the send says that the peer has the record, that of a receive that it is
 * durable (source 2, flow 2; P2-21, P2-24).
 */
export const TWO_STEPS = 64
/** A record of a batch, or a SEND that is a message of one (source 4; D-10; S1-M9). */
export const BATCH = 128

/** A record that may have been executed before, as R of the PWETH says over the wire. */
export const REPETITION = 256

export const FLAGS_ALL = 511

/** The condition of a batch is in these bits of its byte; the last record of a burst has LAST. */
export const CONDITION_SHIFT = 4
export const LAST_OF_BATCH = 0x08

/** A RETH of a further copy, bytes. */
export const COPY_BYTES = 16
/** The sequence that a slot must hold, and what must be zeros behind it. */
export const EXPECT_BYTES = 16
export const EXPECT_ZEROS = 8

export const SGE_BYTES = 16
export const SGE_LENGTH = 8
export const SGE_LKEY = 12

/*
 * A completion (CQE), one unit:
 *
 *    0 stamp u32       number of the entry, + 1        4 queue u32, of the element
 *    8 unit u32        number of its first unit       12 status u8 (ibv_wc_status)
 *   13 opcode u8, of the element                      14 flags u16
 *   16 length u32      20 immediate u32               24 operation (64), also of a message of a
 *      batch at who receives it; or what an atomic found
 *   32 PSN u32         36 copies u8  37 mechanism u8  38 refusal u8 (status of the PERSIST_ACK)
 *   40 address (64), of the record or the bytes at the peer; MAC, six bytes, of who sent a datagram
 *      of ASSOCIATE and BLOCK_SIZE operation and address are the words of the BSETH that was
 *      answered: the first one in the upper half of operation, the last in the lower of address
 *   48 incarnation u32, of the part that answered; IPv4 of who sent a datagram; zeros: local card
 *   52 source queue pair u32                          56 pointer u32, units taken of that queue
 *   60 stamp u32, again
 *
 * A notice (CQE_NOTICE) says what a batch of a peer has stored into a region of the card:
 *
 *    0 stamp u32       number of the entry, + 1        4 queue u32, the completion queue itself
 *    8 region id u32  12 0         13 CQE_NOTICE      14 flags u16
 *   16 length u32, bytes of the record; or records, of a burst, and those that were missed
 *   20 batch id u16   22 index u8, of the record      23 count of the batch - 1 u8
 *   24 operation (64), of the record, or of index 0   32 client id, upper half u32
 *   36 copies u8, the least           37 mechanism u8  38 status u8 of the burst, as PERSIST_ACK
 *   40 lowest slot u32                44 highest slot u32
 *   48 sequence, upper half u32, of the record, or the last one stored
 *   52 client id, lower half u32                      56 sequence, lower half u32
 *   60 stamp u32, again
 */
export const CQE_STAMP = 0
export const CQE_QUEUE = 4
export const CQE_UNIT = 8
export const CQE_STATUS = 12
export const CQE_OPCODE = 13
export const CQE_FLAGS = 14
export const CQE_LENGTH = 16
export const CQE_IMMEDIATE = 20
export const CQE_OPERATION = 24
export const CQE_PSN = 32
export const CQE_COPIES = 36
export const CQE_MECHANISM = 37
export const CQE_REFUSAL = 38
export const CQE_ADDRESS = 40
export const CQE_INCARNATION = 48
export const CQE_SOURCE = 52
export const CQE_POINTER = 56
export const CQE_STAMP_AGAIN = 60

/** Opcode of a completion that is of no element. */
export const CQE_NOTICE = 34

/** Flags of a completion. */
export const WITH_IMMEDIATE = 1
export const WITH_INVALIDATE = 2
/** The record is durable in `copies`. */
export const DURABLE = 4
/** The sender asked for the receiver to be woken. */
export const WAS_SOLICITED = 8
/** The peer has the record; that it is durable another completion says. */
export const RECEIVED = 16
/** The answer to a query: every operation up to this one is durable. */
export const UP_TO = 32
/** The flush agent is asked to write back `length` bytes at `address` (P2-18, P2-19). */
export const WRITE_BACK = 64
/** Of a notice: every record of the batch is durable; it is of one record. */
export const NOTICE_ALL = 128
export const NOTICE_RECORD = 256
/** So many records may be stored of which nothing was told; the region is gone: the end. */
export const NOTICE_MISSED = 512
export const NOTICE_OVER = 1024

/** Numbers of `ibv_wc_status`, as libibverbs has them. */
export const WC_SUCCESS = 0
export const WC_LOC_LEN_ERR = 1
export const WC_LOC_QP_OP_ERR = 2
export const WC_LOC_PROT_ERR = 4
export const WC_WR_FLUSH_ERR = 5
export const WC_LOC_ACCESS_ERR = 8
export const WC_REM_INV_REQ_ERR = 9
export const WC_REM_ACCESS_ERR = 10
export const WC_REM_OP_ERR = 11
export const WC_RETRY_EXC_ERR = 12
export const WC_RNR_RETRY_EXC_ERR = 13
export const WC_FATAL_ERR = 19
export const WC_RESP_TIMEOUT_ERR = 20
export const WC_GENERAL_ERR = 21

assert(CQE_STAMP_AGAIN + 4 === UNIT_BYTES, 'a completion is one unit')
