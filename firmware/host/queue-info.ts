/**
 * Queue information: what is known of one queue of the host, in the host's memory, split by who may
 * write what (source 3; P3-4 to P3-10).
 *
 *   zone 1 (R1 = 64)   written by the card only
 *      0 state u8       1 kind u8      2 valid u8      3 type u8
 *      4 pointer        SQ, RQ: the read pointer, units taken so far; CQ: entries written so far
 *      8 address (64)   of the unit, or the entry, that is next
 *     16 completion queue of an SQ or RQ
 *     20 the other queue of its pair; of a CQ, how many queues name it
 *     24 queue pair: number on the wire, 0 of a local one    28 protection domain
 *     32 client id (64)                                      40 fault that ended it
 *     44 generation     grows when the number is given to another queue
 *     48 lock           token of who may write zone 2, 0 if nobody
 *     52 armed          of a CQ: the arm of zone 3 that the last interrupt answered
 *     56 state u8       before the lock
 *
 *   zone 2 (R2 = 32)   changed through the card, or under its lock
 *      0 ring (64)      address of the first unit or entry
 *      8 depth          units or entries; a power of two
 *     12 moderation     of a CQ: completions u16, µs u16, until an interrupt; 0 is at once
 *
 *   zone 3 (R3 = 16)   written by the host
 *      0 pointer        SQ, RQ: the write pointer, units stored so far; CQ: entries taken so far
 *      4 time           when it was stored, µs, modulo 2^32
 *      8 arm            of a CQ: changed to ask for an interrupt at the next completion
 *
 * Little-endian, 32-bit words; pointers count freely and wrap at 2^32 (D-11). Queue `q` has bytes
 * [q * R, q * R + R) of each zone, and no others. At the receiver the source calls them 4, 5 and 6.
 *
 * Invariant: pointer and time of zone 3 are stored as one word of 64 bits, so they belong
 * together; an element that is in front of the write pointer was stored before it.
 */

export const ZONE1_BYTES = 64
export const ZONE2_BYTES = 32
export const ZONE3_BYTES = 16

export const Z1_STATE = 0
export const Z1_KIND = 1
export const Z1_VALID = 2
export const Z1_TYPE = 3
export const Z1_POINTER = 4
export const Z1_ADDRESS = 8
export const Z1_COMPLETIONS = 16
export const Z1_OTHER = 20
export const Z1_USERS = 20
export const Z1_QUEUE_PAIR = 24
export const Z1_DOMAIN = 28
export const Z1_CLIENT = 32
export const Z1_FAULT = 40
export const Z1_GENERATION = 44
export const Z1_LOCK = 48
export const Z1_ARMED = 52
export const Z1_BEFORE = 56

export const Z2_RING = 0
export const Z2_DEPTH = 8
export const Z2_COUNT = 12
export const Z2_PERIOD = 14

export const Z3_POINTER = 0
export const Z3_TIME = 4
export const Z3_ARM = 8

/** Where the zones lie in a cached context (memory-map.ts, CONTEXTS_AT). */
export const CONTEXT_ZONE1 = 0
export const CONTEXT_ZONE2: number = ZONE1_BYTES
export const CONTEXT_ZONE3: number = ZONE1_BYTES + ZONE2_BYTES
/** Zone 3 as it was just read, until it is compared with what was known. */
export const CONTEXT_FRESH: number = CONTEXT_ZONE3 + ZONE3_BYTES

/** States, as of a queue pair: made, ready, paused by a lock, in error. */
export const QUEUE_RESET = 0
export const QUEUE_INIT = 1
export const QUEUE_READY = 3
export const QUEUE_PAUSED = 4
export const QUEUE_ERROR = 6

export const KIND_SEND = 1
export const KIND_RECEIVE = 2
export const KIND_COMPLETION = 3

/** To another machine, over a reliable connection. */
export const TYPE_CONNECTED = 0
/** To the card's own regions. */
export const TYPE_LOCAL = 1
/** Datagrams to QP 1, of the card and of others: the control call. */
export const TYPE_GSI = 2
/** To the flush agent of the host: its receives, and the completions of them (source 2, flow 2). */
export const TYPE_AGENT = 3

/** How far pointer `a` is ahead of `b`: 0 to 2^32 - 1. */
export function ahead(a: number, b: number): number {
  return (a - b) >>> 0
}
