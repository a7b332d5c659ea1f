/**
 * The firmware's own part of packet memory: what lies behind the places that hal.ts names.
 *
 * One line per idea; each starts where the one before ends, so nothing overlaps by construction.
 */

import { assert } from './assert.ts'
import { PRIVATE_AT } from './hal.ts'
import {
  ASSOCIATED_BLOCKS,
  ASSOCIATIONS,
  BATCH_CHUNK_BYTES,
  BATCH_CHUNKS,
  BATCH_CHUNKS_EACH,
  BATCH_RECORDS_MAX,
  BATCHES,
  BURST_FRAMES,
  CLIENTS,
  COMPLETIONS,
  CONTEXTS,
  COPIES_MAX,
  FETCH_UNITS,
  FETCHES,
  HOST_BUFFER_BYTES,
  HOST_BUFFERS,
  HOST_CALLS,
  LANES,
  LINE_BYTES,
  PEER_LINE_BYTES,
  QUEUE_PAIRS,
  RECEIVE_BYTES,
  RECEIVES,
  RECORD_BYTES_MAX,
  REGIONS,
  RESPONDER_RESOURCES,
  STAGING_BUFFERS,
  STAGING_BYTES,
  THROUGH_JOBS,
  UNIT_BYTES,
} from './limits.ts'

/** A page of zeros, never written: the source for padding and clearing. */
export const ZEROS_AT: number = PRIVATE_AT
export const ZEROS_BYTES = 4096

/** One line per lane: the intent line that a group composes. */
export const LANE_LINES_AT: number = ZEROS_AT + ZEROS_BYTES

/** One line per lane: the phase word that flips the lane from A to B. */
export const PHASE_WORDS_AT: number = LANE_LINES_AT + LANES * LINE_BYTES

/** Check-code keys, 16 bytes each: the part's own first, then one per region. */
export const KEYS_AT: number = PHASE_WORDS_AT + LANES * LINE_BYTES
export const KEY_BYTES = 16

/** The generator's key, and what it gives next (random.ts). */
export const RANDOM_AT: number = KEYS_AT + 1024
export const RANDOM_KEY_BYTES = 32
export const RANDOM_BYTES = 256

/**
 * What a command of a session (session/) works on: its text, then its key, nonce and data, or its
 * point. Zeros while none is under way.
 */
export const SECRETS_AT: number = RANDOM_AT + RANDOM_BYTES
export const SECRETS_TEXT_BYTES = 512
export const SECRETS_BYTES: number = SECRETS_TEXT_BYTES + 128

/** The line of a peer, as it goes to the board. */
export const PEER_LINE_AT: number = SECRETS_AT + SECRETS_BYTES

/**
 * One frame header per queue pair, ready to be copied under an answer: 128 bytes each; and one for
 * management.
 */
export const TEMPLATES_AT: number = PEER_LINE_AT + PEER_LINE_BYTES
export const TEMPLATE_BYTES = 128

/** The superblock, as it is read and written. */
export const SUPERBLOCK_AT: number = TEMPLATES_AT + (QUEUE_PAIRS + 1) * TEMPLATE_BYTES
export const SUPERBLOCK_BYTES = 4096

/** Lanes as recovery reads them, and the check codes it recomputes. */
export const RECOVERY_AT: number = SUPERBLOCK_AT + 2 * SUPERBLOCK_BYTES
export const RECOVERY_BYTES: number = 2 * LANES * LINE_BYTES

/** Slot headers under examination, one line per copy, then one line of computed code per copy. */
export const EXAMINE_AT: number = RECOVERY_AT + RECOVERY_BYTES

/** Per client two lines: what is known of its operations, and what a group is adding. */
export const OPERATION_LINES_AT: number = EXAMINE_AT + 2 * COPIES_MAX * LINE_BYTES

/** Messages of several packets, being gathered. */
export const STAGING_AT: number = OPERATION_LINES_AT + 2 * CLIENTS * LINE_BYTES

/** Where the byte goes that is read behind writes to the host's memory. */
export const LSB_AT: number = STAGING_AT + STAGING_BUFFERS * STAGING_BYTES

/** What the atomics found that a queue pair still remembers, 8 bytes each. */
export const ORIGINALS_AT: number = LSB_AT + LINE_BYTES
export const ORIGINAL_BYTES = 8

/** The receive entries. */
export const RECEIVES_AT: number = ORIGINALS_AT + QUEUE_PAIRS * RESPONDER_RESOURCES * ORIGINAL_BYTES

/** Images of records that go through the host's caches. */
export const THROUGH_AT: number = RECEIVES_AT + RECEIVES * RECEIVE_BYTES
export const THROUGH_BYTES: number = LINE_BYTES + RECORD_BYTES_MAX

/** The RECEIVE of the flush agent that is next, as it was fetched. */
export const FLUSH_ELEMENT_AT: number = THROUGH_AT + THROUGH_JOBS * THROUGH_BYTES

/** The host's header page, as it was read; then the words that we write into it. */
export const HEADER_PAGE_AT: number = FLUSH_ELEMENT_AT + LINE_BYTES
export const HEADER_PAGE_BYTES = 4096

/** The cached contexts of the host's queues: zones 1, 2 and 3 of each, one behind the other. */
export const CONTEXTS_AT: number = HEADER_PAGE_AT + HEADER_PAGE_BYTES
export const CONTEXT_BYTES = 128

/** Work-queue elements as they were fetched, once; a line of room in front. */
export const FETCH_AT: number = CONTEXTS_AT + CONTEXTS * CONTEXT_BYTES + LINE_BYTES
export const FETCH_BYTES: number = FETCH_UNITS * UNIT_BYTES

/** Payloads of the host, each behind a line of room for a slot header. */
export const HOST_BUFFERS_AT: number = FETCH_AT + FETCHES * FETCH_BYTES

/** Completions as they are composed. */
export const COMPLETIONS_AT: number = HOST_BUFFERS_AT + HOST_BUFFERS * HOST_BUFFER_BYTES

/** Control calls of the host as they came, and the answer to one. */
export const HOST_CALLS_AT: number = COMPLETIONS_AT + COMPLETIONS * UNIT_BYTES
export const HOST_CALL_BYTES = 256

/** Queue information as a control call reads and changes it. */
export const QUEUE_INFO_AT: number = HOST_CALLS_AT + (HOST_CALLS + 1) * HOST_CALL_BYTES
const QUEUE_INFOS = 4

/** Records of batches that are not complete. */
export const BATCHES_AT: number = QUEUE_INFO_AT + QUEUE_INFOS * CONTEXT_BYTES

/** Slot headers of a group, read to compare their sequences with what a batch expects. */
export const EXPECT_AT: number = BATCHES_AT + BATCH_CHUNKS * BATCH_CHUNK_BYTES

/** Notices about the state of memory, one per association, until they are acknowledged. */
export const NOTICES_AT: number = EXPECT_AT + BURST_FRAMES * LINE_BYTES
export const NOTICE_BYTES = 2048

/** Of each association and block: what is absent of it, its place in a queue, and its flags. */
export const ASSOCIATIONS_AT: number = NOTICES_AT + ASSOCIATIONS * NOTICE_BYTES
export const ASSOCIATION_BYTES: number = ASSOCIATED_BLOCKS * (2 + 2 + 1)

/** Where the slots of a batch are looked up: a power of two, at most half full. */
export const SLOT_PLACES: number = 2 * BATCH_RECORDS_MAX

/**
 * What is known of the records of a batch that is collected: words and bytes of each, slots,
 * chunks.
 */
export const MEMBERS_AT: number = ASSOCIATIONS_AT + ASSOCIATIONS * ASSOCIATION_BYTES
export const MEMBERS_BYTES: number =
  BATCH_RECORDS_MAX * (7 * 4 + 6) + SLOT_PLACES * 2 + BATCH_CHUNKS_EACH * 2

/**
 * What is told of the part's health: a place for each queue pair, until it is acknowledged; and one
 * more, how it is now.
 */
export const HEALTHS_AT: number = MEMBERS_AT + BATCHES * MEMBERS_BYTES
export const HEALTH_PLACE_BYTES = 192

/** All of packet memory, bytes. */
export const MEMORY_BYTES: number = HEALTHS_AT + (QUEUE_PAIRS + 1) * HEALTH_PLACE_BYTES

assert((HEALTHS_AT & 3) === 0, 'words of health must lie at words')
assert(KEYS_AT + (REGIONS + 1) * KEY_BYTES <= RANDOM_AT, 'the keys must fit')
