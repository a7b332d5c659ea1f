/**
 * The header page: how a host tells the card where its queues lie (source 3, initialisation;
 * P3-10), and where the card tells the host what it has done.
 *
 * The host fills the page, then writes its number and a new epoch into the port. Little-endian,
 * 32-bit words; an address is 64 bits, below 2^48, and counts from the start of DMA_SPACE.
 *
 *     0 magic "PDQH"  | 4 version        | 8 queues K       | 12 R1, bytes   | 16 R2 | 20 R3
 *    24 zone 1 (64)   | 32 zone 2 (64)   | 40 zone 3 (64)
 *    48 send ring of management (64)     | 56 its units     | 60 units of the receive ring
 *    64 receive ring of management (64)  | 72 completion ring of management (64) | 80 its entries
 *    84 pointer order | 88 event ring (64) | 96 its entries | 100 pointers of doorbells are used
 *
 *   128 events taken, by the host
 *
 *   192 epoch taken   | 196 fault        | 200 doorbell recorded | 204 interrupts | 208 events
 *   212 MAC of the port, six bytes       | 220 IPv4, four bytes  | 224 largest path MTU
 *   228 pointers of doorbells are used
 *
 * Invariant: the first line and the second are the host's before the epoch and nobody's
 * behind it; the line at 128 is the host's, the line at 192 the card's.
 */

import { LINE_BYTES } from '../board/limits.ts'

export const HEADER_MAGIC = 0x48514450
export const HEADER_VERSION = 1

export const HEADER_QUEUES = 8
export const HEADER_R1 = 12
export const HEADER_R2 = 16
export const HEADER_R3 = 20
export const HEADER_ZONE1 = 24
export const HEADER_ZONE2 = 32
export const HEADER_ZONE3 = 40
export const HEADER_SEND_RING = 48
export const HEADER_SEND_UNITS = 56
export const HEADER_RECEIVE_UNITS = 60
export const HEADER_RECEIVE_RING = 64
export const HEADER_COMPLETION_RING = 72
export const HEADER_COMPLETIONS = 80
export const HEADER_POINTER_ORDER = 84
export const HEADER_EVENT_RING = 88
export const HEADER_EVENTS = 96
/** 1 asks that pointers of tagged doorbells are used (queues/trust.ts); what a host leaves is 0. */
export const HEADER_TRUST = 100

/** Which of two write pointers is the newer (D-11): the one further ahead, or the later one. */
export const ORDER_DISTANCE = 0
export const ORDER_TIME = 1

/** The host's line. */
export const HEADER_EVENTS_TAKEN = 128

/** The card's line. */
export const HEADER_CARD: number = 192
export const HEADER_EPOCH: number = HEADER_CARD
export const HEADER_FAULT: number = HEADER_CARD + 4
/** First word of the register doorbell that was recorded last: the host may delete it (P3-13). */
export const HEADER_RECORDED: number = HEADER_CARD + 8
/** Counts up with every interrupt: a write here is what wakes the host (MSI). */
export const HEADER_INTERRUPTS: number = HEADER_CARD + 12
/** Events written so far. */
export const HEADER_EVENTS_MADE: number = HEADER_CARD + 16
export const HEADER_MAC: number = HEADER_CARD + 20
export const HEADER_IPV4: number = HEADER_CARD + 28
export const HEADER_PATH_MTU: number = HEADER_CARD + 32
/** 1: it does as HEADER_TRUST asked. A card that knows nothing of it leaves 0. */
export const HEADER_TRUSTED: number = HEADER_CARD + 36
export const HEADER_CARD_BYTES: number = LINE_BYTES

/** Queues that are there from the start: the general service interface, for control calls. */
export const QUEUE_GSI_SEND = 0
export const QUEUE_GSI_RECEIVE = 1
export const QUEUE_GSI_COMPLETION = 2
/** The first queue that can be created. */
export const FIRST_QUEUE = 3

/*
 * An event, 16 bytes: 0 type u8 | 4 queue | 8 fault | 12 stamp: its number + 1.
 */
export const EVENT_BYTES = 16
export const EVENT_TYPE = 0
export const EVENT_QUEUE = 4
export const EVENT_FAULT = 8
export const EVENT_STAMP = 12

/** The queue, or the pair that it belongs to, is in the error state; `fault` says why. */
export const EVENT_QUEUE_ERROR = 1
/** The completion queue was full, and is in the error state. */
export const EVENT_OVERRUN = 2
/** There are completions in a queue that was armed. */
export const EVENT_COMPLETION = 3
/** The peer has ended the connection, or does not answer. */
export const EVENT_DISCONNECTED = 4
/** Events were lost as the ring was full: look at every queue. */
export const EVENT_EVENTS_LOST = 5
/**
 * Pages of memory that is registered on demand are wanted: `queue` is the R_Key, `fault` the first
 * page; the upper 16 bits of the type say how many, one behind the other.
 */
export const EVENT_PAGES_WANTED = 6
/** Likewise, pages that are there, and that a requester says it will not need. */
export const EVENT_PAGES_UNWANTED = 7
/**
 * What is known of the memory at the peer has changed (RESIDENCY): `queue` is the send queue that
 * follows it, `fault` the R_Key. Told again only when the host has asked.
 */
export const EVENT_RESIDENCY = 8
/** Likewise, pages that are away, and that a requester says it will need: others come first. */
export const EVENT_PAGES_HINTED = 9
