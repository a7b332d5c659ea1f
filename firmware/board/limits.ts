/**
 * Every limit of the firmware, and how the limits depend on each other.
 *
 * All memory is made at start-up from these numbers; nothing on the packet path allocates. A limit
 * that is reached is a fault with a name (see fault.ts), never a surprise.
 */

import { assert } from './assert.ts'

/** Frames that one burst may bring, and therefore records that one group commit may hold. */
export const BURST_FRAMES = 32

/** Frames that may wait for transmission within one command list. */
export const TRANSMIT_FRAMES = 64

/** Largest path MTU of RoCEv2, bytes of payload in one packet (IBTA 9.2, code 5). */
export const PATH_MTU_BYTES_MAX = 4096

/** Smallest path MTU of RoCEv2, bytes (IBTA 9.2, code 1). */
export const PATH_MTU_BYTES_MIN = 256

/** Longest Ethernet frame, bytes: VLAN, IPv6, UDP, 96 bytes of headers, payload, trailer, ICRC. */
export const FRAME_BYTES_MAX: number = 18 + 40 + 8 + 96 + PATH_MTU_BYTES_MAX + 24 + 4

/** Distance between two frames in packet memory, bytes; a multiple of the line size. */
export const FRAME_STRIDE_BYTES = 4288

/**
 * Where a frame starts in its place. The 2 puts the payload of an IPv4 WRITE_PERSIST (header 86
 * bytes) at a multiple of eight, so that a board may copy it by words.
 */
export const FRAME_OFFSET_BYTES = 2

/** A cache line, bytes: the unit that is written back to persistent memory. */
export const LINE_BYTES = 64

/** The piece of persistent memory that never tears, bytes. */
export const CHUNK_BYTES = 8

/** Copies of one record, at the least and at the most (D-4). */
export const COPIES_MIN = 2
export const COPIES_MAX = 4

/** Bytes of data that one record may hold. */
export const RECORD_BYTES_MAX = 65536

/** Slots of a region. */
export const SLOTS_MAX: number = 2 ** 31 - 1

/** Messages of several packets that may be gathered at once, over all queue pairs. */
export const STAGING_BUFFERS = 16

/** Bytes that one staging buffer holds: slot header and every copy of a carried record. */
export const STAGING_BYTES: number = LINE_BYTES + 2 * RECORD_BYTES_MAX

/** Our target ACK delay, as RDMA-CM announces it: 4.096 µs times two to that power. */
export const TARGET_ACK_DELAY = 18

/** After so long a peer that believes our delay repeats what was lost (wire-format 5.3), µs. */
export const REPEAT_US: number = 4.096 * 2 ** (TARGET_ACK_DELAY + 1)

/**
 * A message that stops half-way is given up when its peer is silent for this time (fault N8):
 * longer than a first try and the seven repetitions that a peer has.
 */
export const STAGING_TIMEOUT_US = 20_000_000

/** A message may be gathered for so long, then a peer that holds fewer buffers takes its one. */
export const GATHERING_US = 100_000

/** Packets of one READ that are answered in one piece; of a longer one, so many in a turn. */
export const READ_PACKETS: number = TRANSMIT_FRAMES

/** READs and atomics whose answers a queue pair keeps for a duplicate; a power of two. */
export const RESPONDER_RESOURCES = 16

/** Kinds of requests that a queue pair remembers by PSN; rxe has 128 FLUSH in flight. */
export const REMEMBERED_KINDS = 256

/** Receive entries, shared by all queue pairs, and the longest message that one takes, bytes. */
export const RECEIVES = 64
export const RECEIVE_BYTES: number = PATH_MTU_BYTES_MAX

/** Least time between two congestion notifications of one queue pair, µs (DCQCN). */
export const NOTIFICATION_US = 50

/** Sessions of the card's peers at once. */
export const SESSIONS = 128

/** A session ends so long after its handshake; its client makes another one before, µs. */
export const SESSION_US: number = 2 * 3_600_000_000

/** Handshakes in a second of sources that have shown nothing: up to four agreements each. */
export const HANDSHAKES_UNPROVEN = 64

/** Handshakes in a second of each source that brings its cookie, and so many sources. */
export const HANDSHAKES_PROVEN = 8
export const SOURCES = 64

/** A cookie is good for so long at the most, µs. */
export const COOKIE_US = 120_000_000

/** Ports of RDMA-CM that may be published at once. */
export const SERVICES = 64

/** Ethernet addresses that may be asked for at once. */
export const RESOLUTIONS = 8

/** Queue pairs that may be open at once. */
export const QUEUE_PAIRS = 256

/** Of these, those that are kept for our own host, whatever the network holds. */
export const HOST_QUEUE_PAIRS = 32

/** Who has fewer queue pairs than this takes the place of one that was never used. */
export const SMALL_SHARE = 16

/** Regions on one part. */
export const REGIONS = 24

/** Pieces that the host's persistent memory may be made of (medium/host-pieces.ts). */
export const HOST_PIECES = 16

/** Regions of other DPUs that are offered here; a key chooses among 32 places. */
export const RELAYS: number = 32 - REGIONS

/** Bytes of a region's name, UTF-8, zero-padded. */
export const REGION_NAME_BYTES = 32

/** Peers that a card knows by their public keys. */
export const PEERS = 64

/** Regions in which one of them has rights. */
export const PEER_REGIONS = 8

/** Longest line of a peers file that KEEP_PEER adds, bytes. */
export const PEER_LINE_BYTES = 1024

/** Records of one batch, at the most (wire-format 7.2). */
export const BATCH_RECORDS_MAX = 256

/**
 * Batches that may be collected at once, over all queue pairs, because some of a batch is to come.
 */
export const BATCHES = 32

/**
 * Pieces of memory that hold records of such batches: one of the longest record, or 16 of 4 KiB.
 */
export const BATCH_CHUNKS = 64
export const BATCH_CHUNK_BYTES: number = 16 * (LINE_BYTES + 4096)

/** Pieces that one batch may have: 256 records of 4 KiB. */
export const BATCH_CHUNKS_EACH = 16

/** A batch of which nothing more comes is given up after this time. */
export const BATCH_TIMEOUT_US = 1_000_000

/**
 * Records of one burst of a batch that the host posts as elements, at the most, and bytes of each:
 * all of them are under way at once, as none of them ends before the last has come.
 */
export const BATCH_ELEMENTS_MAX = 32
export const BATCH_ELEMENT_BYTES_MAX: number = PATH_MTU_BYTES_MAX

/**
 * Notices of what batches have stored that wait for the end of a burst of frames, to be told to the
 * host: what its queues hold beyond that they tell as missed.
 */
export const BATCH_NOTICES = 1024

/** Batches for the own part of which some is to come, over all local queues. */
export const LOCAL_BATCHES = 8

/** Records under way at once into the host's memory through its caches. */
export const THROUGH_JOBS = 16

/** Of these, jobs that batches leave to other records, where there are as many. */
export const THROUGH_SINGLES = 4

/** A flush agent that is silent for so long is gone. */
export const FLUSH_TIMEOUT_US = 500_000

/**
 * Bytes that the flush agent is asked to write back at once: far less than it is given time for.
 */
export const FLUSH_BYTES_MAX: number = 1 << 22

/** Intent lanes: one for each record of a group, and one for each through the host's caches. */
export const LANES: number = BURST_FRAMES + THROUGH_JOBS

/**
 * Lanes of groups that records in the host's memory never have: whatever waits for a host that is
 * away, the card's own memory is served (R1-A2).
 */
export const LOCAL_LANES = 8

/** Clients whose operations are remembered durably. */
export const CLIENTS = 128

/** Answers that a queue pair remembers, to repeat them to a duplicate (D-6); a power of two. */
export const REMEMBERED_RECORDS = 256

/** Queue pairs on which the firmware, or its host, may have requests under way at once. */
export const INITIATORS = 32

/** Requests of the firmware's own that one queue pair may have under way. */
export const WORKS: number = RECEIVES

/** Doorbells that may wait in the ring of the port; a power of two. */
export const DOORBELLS = 256

/** Queues of the host: send, receive and completion queues together. */
export const HOST_QUEUES = 65536

/** Units of one queue of the host, a power of two; entries, of a completion queue. */
export const QUEUE_DEPTH_MAX = 32768

/** A unit of a work queue, and an entry of a completion queue, bytes. */
export const UNIT_BYTES: number = LINE_BYTES

/** Bytes that a work-queue element carries inline, at the most, and the units that it then has. */
export const INLINE_BYTES_MAX = 1024
export const WQE_UNITS_MAX: number = 1 + INLINE_BYTES_MAX / UNIT_BYTES

/** Scatter/gather entries of one work-queue element. */
export const SGES_MAX = 16

/** Contexts of the host's queues that the card keeps at once. */
export const CONTEXTS = 256

/** Queues served in one pass, and units fetched of each: more than the longest element has. */
export const FETCHES = 16
export const FETCH_UNITS = 32

/** Memory regions of the host that may be registered at once. */
export const MEMORY_REGIONS = 256

/** Payloads of the host under way at once that fit into a page; longer ones take staging. */
export const HOST_BUFFERS = 128
export const HOST_BUFFER_BYTES: number = LINE_BYTES + PATH_MTU_BYTES_MAX

/** Elements of send queues that may be on their way over the wire at once. */
export const HOST_POSTINGS = 256

/** Elements that are fetched ahead of a connected receive queue; a power of two. */
export const POSTED_RECEIVES = 8

/** Bytes that a local queue reads or writes by one element; a longer one is to be split. */
export const LOCAL_BYTES_MAX: number = 1 << 20

/** Completions composed in one list. */
export const COMPLETIONS = 256

/**
 * Regions of the ordinary memory of the host that are registered on demand: they share the places
 * of RELAYS.
 */
export const ON_DEMAND_REGIONS = 8

/** Their pages together, and the bytes of a page: the unit in which the host maps and unmaps. */
export const ON_DEMAND_PAGES = 32768
export const PAGE_BYTES = 4096

/**
 * Pages that a request needs at once, at the most: a host that has so many frames can serve any.
 */
export const PAGES_AT_ONCE = 17

/** Requesters that are told of the state of a region at once, and the blocks of each, at most. */
export const ASSOCIATIONS = 32
export const ASSOCIATED_BLOCKS = 4096

/** Bytes per second that the notices of one of them may take, unless it says that it bears less. */
export const NOTICE_BYTES_PER_S: number = 2 ** 20

/** Associations of our own host with memory of peers, and how long a hint of it counts, µs. */
export const WATCHES = 16
export const HINTED_US = 250

/**
 * Hints that may wait, of all queue pairs and of one, which is all that a burst can bring; and
 * pages that are looked at in one turn.
 */
export const HINTS = 128
export const HINTS_EACH: number = BURST_FRAMES
export const HINT_PAGES = 256

/** Control calls of the host that may wait to be executed. */
export const HOST_CALLS = 16

/** Memory commands that one list may hold. */
export const COMMANDS_MAX = 2048

/** Lines of the recovery report that are kept; more are counted. */
export const REPORT_ENTRIES = 256

/**
 * A slice of what takes long: slots that it looks at or stores, bytes of all their copies unless it
 * is one slot, and the pause behind it, µs, which is the bursts'.
 */
export const SLICE_RECORDS = 16
export const SLICE_BYTES = 65536
export const SLICE_PAUSE_US = 20
/** Slots of a new region in a slice: to store one takes as long as to look at two. */
export const SLICE_MADE = 8

/** Idle calls from one look at what describes the part to the next. */
export const SCRUB_TURNS = 16

/** Places of the operation table that are looked at then; a part of CLIENTS. */
export const SCRUB_CLIENTS = 16

assert(FRAME_STRIDE_BYTES % LINE_BYTES === 0, 'a frame must start on a line')
assert(FRAME_BYTES_MAX + FRAME_OFFSET_BYTES <= FRAME_STRIDE_BYTES, 'a frame must fit')
assert(STAGING_TIMEOUT_US > 8 * REPEAT_US, 'a lost tail must find its message in progress')
assert(2 * HOST_QUEUE_PAIRS < QUEUE_PAIRS, 'the network must find places beside the host')
assert(2 * BATCH_ELEMENTS_MAX <= WORKS, 'others must find room beside a batch')
assert(FETCH_UNITS >= WQE_UNITS_MAX, 'an element must fit into what is fetched')
assert(BATCH_CHUNK_BYTES >= LINE_BYTES + RECORD_BYTES_MAX, 'a record must fit')
assert(CLIENTS % SCRUB_CLIENTS === 0, 'the table is looked at in whole turns')
assert(LANES * LINE_BYTES <= 4096, 'the lanes must fit into a page')
assert(LOCAL_LANES < BURST_FRAMES, 'the host needs lanes, too')
// A burst: per frame a gathering copy, three comparisons of carried copies and four answers. Its
// group: per record a pad, two check codes, a lane, a phase word, every copy, a receipt, and a
// check code and a line of the operation table; the lanes of the last group and the fences on top.
const BURST_COMMANDS = BURST_FRAMES * (1 + 3 + 4)
const GROUP_COMMANDS = BURST_FRAMES * (8 + COPIES_MAX) + LANES + 2 + COPIES_MAX
// Responses to READs of the host go to its scattered memory, as they come.
const HOST_COMMANDS = BURST_FRAMES * (SGES_MAX + 1)
const LIST_COMMANDS = BURST_COMMANDS + GROUP_COMMANDS + HOST_COMMANDS
assert(COMMANDS_MAX >= LIST_COMMANDS, 'a burst must fit')
