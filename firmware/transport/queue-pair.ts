/**
 * Queue pairs: one reliable connection each, as its responder sees it (wire-format 3.1).
 *
 * Invariants:
 * - `expectedPsn` moves forward only, by the PSNs of an accepted request; `messageSequence` by one
 *   for each finished message. Every acknowledgement is made from them.
 * - A message of several packets belongs to one queue pair at a time; what it gathers lies in a
 *   staging buffer until its last packet, and touches no slot before (D-7).
 * - `template` holds the headers of every answer, so an answer is a copy and a few fields.
 * - What became of the last records is remembered by PSN *and* operation id: a duplicate is
 *   answered from here and never executed; a PSN alone earns nothing (D-6).
 * - The kind of every request that has a response of its own is remembered by its PSN, and what the
 *   last READs and atomics need to be answered again lies in a ring. Every ring is filled in the
 *   order of the requests, however far apart their PSNs are; it may be overrun by a peer that has
 *   more outstanding than it may, and then only that peer waits in vain.
 * - Behind a request that was not answered, as something else has to be answered first, none is
 *   taken before the peer has gone back: its PSNs go up while it does not (`isHeldBack`).
 * - Stores that are not fenced yet are told by the number of fences done so far (`dirtyAt`): the
 *   next fence makes every queue pair clean without looking at one.
 */

import type { Fault } from '../board/fault.ts'
import { PASS } from '../board/fault.ts'
import {
  QUEUE_PAIRS,
  REMEMBERED_KINDS,
  REMEMBERED_RECORDS,
  RESPONDER_RESOURCES,
} from '../board/limits.ts'
import { ORIGINAL_BYTES, ORIGINALS_AT, TEMPLATE_BYTES, TEMPLATES_AT } from '../board/memory-map.ts'
import type { ClientId } from '../commit/operations.ts'
import { type Psn, psnDistance } from './psn.ts'

/** The queue pair serves. */
export const STATE_OPEN = 1
/** After a fatal NAK: total silence until it is closed (wire-format 3.4). */
export const STATE_ERROR = 2

/** The place may be given away while the queue pair is unused or in the error state. */
export const HOLD_NONE = 0
/** The peer knows that it is connected: the place is given away in the error state only. */
export const HOLD_CONNECTED = 1
/**
 * Time-wait: the number must not be used again before what is on its way has died. Or it is our own
 * host's, which gives it back itself.
 */
export const HOLD_RESTING = 2

/** Every access flag: what a region grants decides. */
export const ALL_RIGHTS = -1

/** Every region, as bits. */
export const ALL_REGIONS = -1

/** Whose a queue pair is (session/grants.ts): a place in the list of peers, or one of these. */
export const ANYBODY = -1
/** Of RDMA-CM: a card with peers grants it the region that its port publishes. */
export const STOCK_PEER = -2
/** Of our own host: a card with peers grants its other end what the host registers on demand. */
export const HOST_PEER = -3

/** No message is in progress. */
export const MESSAGE_NONE = 0
export const MESSAGE_WRITE = 1
export const MESSAGE_PERSIST = 2
/** A plain WRITE into a region of records: a persist without an operation id (P2-5). */
export const MESSAGE_RECORD = 3
export const MESSAGE_SEND = 4

/** Kinds of requests that have a response of their own. */
export const KIND_READ = 1
export const KIND_ATOMIC = 2
export const KIND_FLUSH = 3
export const KIND_ATOMIC_WRITE = 4

/** Who asks: a queue pair, or a queue of the host. */
export interface Party extends ClientId {
  /** Place of a queue pair, or HOST_OWNER (host/work.ts). */
  readonly index: number
  /** Counts what no range of records that are acknowledged spans; 0 without a wire. */
  readonly segment: number
  /** Staging buffer that holds its record of several packets, or -1. */
  readonly staging: number
  /** One of STATE_*: of one that has failed nothing more is taken. */
  readonly state: number
  /** Where the operation table had the client last, or -1: a hint that saves a search. */
  client: number
  readonly protectionDomain: number
  /** Access flags that it has at the most, whatever a region grants. */
  readonly rights: number
  /** Regions whose keys work here, and those of them that it may change: a bit for each place. */
  readonly readable: number
  readonly writable: number
}

export interface QueuePair extends Party {
  readonly index: number
  readonly number: number
  readonly peerNumber: number
  readonly pathMtu: number
  readonly firstPsn: Psn
  /** PSN of our first request to the peer (wire-format 3.2). */
  requesterPsn: Psn
  /** Messages of ours that the peer takes at once, as was agreed; 0 where it told nothing. */
  readonly sendDepth: number
  /** The peer knows our operations, and is told of durability by PERSIST_ACK. */
  readonly speaksPersist: boolean
  /** Who has its place, and after how many others it was opened (places.ts). */
  readonly source: string
  /** Place in the list of peers, or ANYBODY, STOCK_PEER, HOST_PEER. */
  readonly peer: number
  /** Transaction of the control call that opened it; zeros where none did. */
  readonly transactionHigh: number
  readonly transactionLow: number
  /** Its packets have tags (transport/tags.ts): bytes of their trailers, or 0. */
  tagBytes: number
  /** Which of the flags of a received frame is to be TAG_GOOD: that one, or none. */
  tagFlag: number
  /** What a TRANSMIT for it has in `aux` beside the ICRC. */
  tagAux: number
  /** The keys of its tags, as its client was told them. */
  tagKeys: Uint8Array | null
  opened: number
  /** Whether its place may be given to another before it is closed: HOLD_*. */
  hold: number
  /** When its peer was heard last, or, if it never was, when it was opened, µs. */
  heardUs: number
  state: number
  /** It has taken a request: `expectedPsn` comes round to `firstPsn` again. */
  used: boolean
  expectedPsn: Psn
  messageSequence: number
  /** The gap was already reported; silence until there is progress (wire-format 3.4). */
  nakSent: boolean
  /** Was it spoken to in this burst? */
  touched: boolean
  /** An acknowledgement is due, up to the expected PSN. */
  ackDue: boolean

  /** The message in progress. */
  message: number
  /** Bytes that are still to come. */
  messageLeft: number
  /** Where the next packet's payload goes: an address of the board. */
  messageTo: number
  messageFault: Fault
  /** Staging buffer in use, or -1. */
  staging: number
  /** Some of a batch is to come. */
  batching: boolean

  /** Its message in progress is stored at once, into a region registered write-persist. */
  placing: boolean
  /** It is stored into the caches of the host. */
  caching: boolean
  /** It goes into memory registered on demand: `messageTo` is an offset in its region. */
  paged: boolean
  /** Since when its next request waits for pages, µs; Infinity if it does not. */
  absentUs: number
  /** It has stored bytes that nothing makes durable: nothing is confirmed to it. */
  volatile: boolean
  /** What it has stored into the caches of the host, and what it waits for of that. */
  readonly cached: Cached
  /** Receive entry in use by the message in progress, or -1. */
  receive: number

  /** Ordered operations that wait for their answer; answers behind them wait too. */
  unanswered: number
  /** PSN before the first of them: no acknowledgement may go past it. */
  ackLimit: Psn
  /** The round over the ordered operations in which one of its own has to wait. */
  waitsInRound: number
  /** Fences done when it stored last: while there is no other, its stores are not durable. */
  dirtyAt: number
  /** Likewise, of stores into the memory of the host. */
  farAt: number
  /** The same, of its oldest store whose acknowledgement is withheld; and that one's PSN. */
  withheldAt: number
  withheldFrom: Psn
  /** Groups committed when a plain WRITE of a record joined one. */
  recordAt: number
  /** PSN of a duplicate that is acknowledged behind what waits, or -1. */
  repeatDue: number
  /** The long READ that is being answered. */
  readonly stream: Stream
  /** PSN of the last request that was held back, or -1; and PSN that is to come again first. */
  heldBackPsn: number
  heldBackFirst: number

  /** PSN (or -1) and kind of the last requests that have a response of their own. */
  readonly kindPsn: Int32Array
  readonly kinds: Uint8Array
  /** Where the next one goes. */
  kindNext: number
  /** The last READs and atomics. */
  readonly saved: SavedRequest[]
  savedCount: number

  /** The peer's FLUSH requests have the ICRC that Linux computes. */
  linuxFlush: boolean
  readable: number
  writable: number
  /** When the peer was last told of congestion, µs. */
  notifiedUs: number

  /** Grows when a record is refused: no range of acknowledged records spans the gap. */
  segment: number

  /** The last records: PSN (or -1), operation id, status, durable copies; where the next goes. */
  rememberedNext: number
  readonly rememberedPsn: Int32Array
  readonly rememberedHigh: Int32Array
  readonly rememberedLow: Int32Array
  readonly rememberedStatus: Uint8Array
  readonly rememberedCopies: Uint8Array

  /** Headers of an answer, in packet memory, up to and with BTH. */
  readonly templateAt: number
  templateBytes: number
  ipVersion: number
  /** The peer's IPv4 address as the word that it is in packet memory. */
  peerIpv4: number
  /** Sum of the IPv4 header's words without length and checksum. */
  ipSum: number
}

/** A request waits for no job of placement through; or for one of them, whichever ends first. */
export const NO_JOB = -1
export const ANY_JOB = 0

/**
 * What the CPU of the host has to write back (placement/write-back.ts). Addresses are those of
 * HOST_SPACE, lives those of the flush agent.
 */
interface Cached {
  /** Bytes of which no FLUSH has spoken yet lie in [from, to), and the oldest are of that life. */
  from: number
  to: number
  life: number
  /** Its message in progress is to be written back: its first byte, or -1; and its life. */
  messageFrom: number
  messageLife: number
  /** The request that is to come again: its PSN, or -1; of which kind it is, ASKS_*. */
  psn: number
  asks: number
  /** The bytes that it asks for, [start, end). */
  start: number
  end: number
  /** UNASKED if no job has it yet; NOT_READY until somebody knows; then PASS, or a refusal. */
  outcome: Fault
  /** The job that is to say so: what an older one says is no answer. */
  order: number
  /** The job for which what is refused now comes again: its order, or NO_JOB, ANY_JOB. */
  waitsFor: number
}

function nothingCached(): Cached {
  return {
    from: 0,
    to: 0,
    life: 0,
    messageFrom: -1,
    messageLife: 0,
    psn: -1,
    asks: 0,
    start: 0,
    end: 0,
    outcome: PASS,
    order: 0,
    waitsFor: NO_JOB,
  }
}

/** A READ or an atomic that may have to be answered again. */
export interface SavedRequest {
  kind: number
  psn: number
  /** PSNs that its responses have. */
  packets: number
  rkey: number
  vaHigh: number
  vaLow: number
  length: number
  /** Where the original of an atomic lies in packet memory. */
  readonly originalAt: number
}

/** A long READ: what is still to be sent of it. */
interface Stream {
  /** It was accepted, and is not answered: no request behind it is taken. */
  accepted: boolean
  /** Its turn has come: responses are being sent. */
  active: boolean
  /**
   * Of the READ as it was accepted: its PSN, the one behind its last response, and the address of
   * its first byte.
   */
  savedPsn: number
  endPsn: number
  savedFrom: number
  /** PSN of its first response, and how many there are; responses sent so far. */
  psn: number
  packets: number
  sent: number
  length: number
  msn: number
  rkey: number
  /** Address of its first byte. */
  from: number
  /** It waits for a page of memory registered on demand, where `from` is an offset. */
  paused: boolean
}

function blankSaved(originalAt: number): SavedRequest {
  return { kind: 0, psn: -1, packets: 0, rkey: 0, vaHigh: 0, vaLow: 0, length: 0, originalAt }
}

function blankStream(): Stream {
  return {
    accepted: false,
    active: false,
    savedPsn: -1,
    endPsn: 0,
    savedFrom: 0,
    psn: 0,
    packets: 0,
    sent: 0,
    length: 0,
    msn: 0,
    rkey: 0,
    from: 0,
    paused: false,
  }
}

function savedRing(index: number): SavedRequest[] {
  const ring: SavedRequest[] = []
  if (index === QUEUE_PAIRS) return ring
  const at = ORIGINALS_AT + (index % QUEUE_PAIRS) * RESPONDER_RESOURCES * ORIGINAL_BYTES
  for (let i = 0; i < RESPONDER_RESOURCES; i++) ring.push(blankSaved(at + i * ORIGINAL_BYTES))
  return ring
}

interface Memory {
  readonly kindPsn: Int32Array
  readonly psn: Int32Array
  readonly high: Int32Array
  readonly low: Int32Array
  readonly kinds: Uint8Array
  readonly status: Uint8Array
  readonly copies: Uint8Array
}

/**
 * What a queue pair remembers, of so many requests and so many records: views of one buffer, as an
 * engine pays for each buffer.
 */
function blankMemory(kinds: number, records: number): Memory {
  const recordsAt = 4 * kinds
  const bytesAt = recordsAt + 12 * records
  const buffer = new ArrayBuffer(bytesAt + kinds + 2 * records)
  return {
    kindPsn: new Int32Array(buffer, 0, kinds).fill(-1),
    psn: new Int32Array(buffer, recordsAt, records).fill(-1),
    high: new Int32Array(buffer, recordsAt + 4 * records, records),
    low: new Int32Array(buffer, recordsAt + 8 * records, records),
    kinds: new Uint8Array(buffer, bytesAt, kinds),
    status: new Uint8Array(buffer, bytesAt + kinds, records),
    copies: new Uint8Array(buffer, bytesAt + kinds + records, records),
  }
}

/** One in no table takes no requests, and has none to remember. */
const NO_MEMORY: Memory = blankMemory(0, 0)

export interface QueuePairTable {
  readonly places: (QueuePair | null)[]
  /** Upper sixteen bits of the number that each place had last. */
  readonly salts: Uint16Array
  /** Where the search for a free place begins (queue-pair-number.ts). */
  next: number
  /** Queue pairs that were opened so far. */
  opened: number
}

export function createQueuePairTable(): QueuePairTable {
  const places: (QueuePair | null)[] = []
  for (let i = 0; i < QUEUE_PAIRS; i++) places.push(null)
  return { places, salts: new Uint16Array(QUEUE_PAIRS), next: 0, opened: 0 }
}

/** The open queue pair of that number, or null. The low byte is its place in the table. */
export function findQueuePair(table: QueuePairTable, number: number): QueuePair | null {
  const qp = table.places[number & (QUEUE_PAIRS - 1)]!
  return qp !== null && qp.number === number ? qp : null
}

/** What a queue pair is opened with. */
export interface QueuePairOptions {
  readonly peerNumber: number
  readonly clientHigh: number
  readonly clientLow: number
  readonly pathMtu: number
  readonly protectionDomain: number
  readonly expectedPsn: Psn
  /** PSN of our first request to the peer; 0 where we never make one. */
  readonly requesterPsn?: Psn
  /** Messages of ours that the peer takes at once; 0, or absent, where it told nothing. */
  readonly sendDepth?: number
  /** The peer knows our operations: WRITE_PERSIST, PERSIST_ACK. A control call's client does. */
  readonly speaksPersist?: boolean
  /** Access flags (medium/region.ts) that it has at the most; all of them if absent. */
  readonly rights?: number
  /** Who has its place (places.ts): nobody in particular if absent. */
  readonly source?: string
  /** Whose it is; ANYBODY if absent. */
  readonly peer?: number
  /** Transaction of the control call that opens it; zeros if absent. */
  readonly transactionHigh?: number
  readonly transactionLow?: number
}

/** Opens the queue pair of that number; its place must be free. */
export function openQueuePair(
  table: QueuePairTable,
  number: number,
  options: QueuePairOptions,
): QueuePair {
  const qp = createQueuePair(number & (QUEUE_PAIRS - 1), number, options)
  qp.opened = table.opened++
  table.places[qp.index] = qp
  return qp
}

/** Where its rings begin; nothing is held back, its peer was told of no block; in no table yet. */
const UNUSED = {
  ...{ heldBackPsn: -1, heldBackFirst: 0, kindNext: 0, rememberedNext: 0 },
  ...{ readable: ALL_REGIONS, writable: ALL_REGIONS, notifiedUs: -Infinity, opened: 0 },
  ...{ tagBytes: 0, tagFlag: 0, tagAux: 0, tagKeys: null },
} as const

/** Its message in progress goes to no memory, and none has. */
const NOWHERE = { placing: false, caching: false, paged: false, volatile: false } as const

/** Who has its place, whose it is, and which call opens it. */
function originOf(
  options: QueuePairOptions,
): Pick<QueuePair, 'source' | 'peer' | 'transactionHigh' | 'transactionLow'> {
  const { source = '', peer = ANYBODY, transactionHigh = 0, transactionLow = 0 } = options
  return { source, peer, transactionHigh, transactionLow }
}

/**
 * Makes a queue pair. QUEUE_PAIRS as its place makes one in no table: for management, which has no
 * connection but answers like one.
 */
export function createQueuePair(
  index: number,
  number: number,
  options: QueuePairOptions,
): QueuePair {
  const inTable = index !== QUEUE_PAIRS
  const memory = inTable ? blankMemory(REMEMBERED_KINDS, REMEMBERED_RECORDS) : NO_MEMORY
  return {
    index,
    number,
    peerNumber: options.peerNumber,
    clientHigh: options.clientHigh,
    clientLow: options.clientLow,
    client: -1,
    pathMtu: options.pathMtu,
    protectionDomain: options.protectionDomain,
    firstPsn: options.expectedPsn,
    requesterPsn: options.requesterPsn ?? (0 as Psn),
    sendDepth: options.sendDepth ?? 0,
    speaksPersist: options.speaksPersist ?? true,
    rights: options.rights ?? ALL_RIGHTS,
    ...originOf(options),
    hold: HOLD_NONE,
    heardUs: 0,
    state: STATE_OPEN,
    used: false,
    expectedPsn: options.expectedPsn,
    messageSequence: 0,
    nakSent: false,
    touched: false,
    ackDue: false,
    message: MESSAGE_NONE,
    messageLeft: 0,
    messageTo: 0,
    messageFault: PASS,
    staging: -1,
    batching: false,
    ...NOWHERE,
    absentUs: Infinity,
    cached: nothingCached(),
    receive: -1,
    unanswered: 0,
    ackLimit: options.expectedPsn,
    waitsInRound: 0,
    dirtyAt: -1,
    farAt: -1,
    withheldAt: -1,
    withheldFrom: options.expectedPsn,
    recordAt: -1,
    repeatDue: -1,
    stream: blankStream(),
    ...UNUSED,
    kindPsn: memory.kindPsn,
    kinds: memory.kinds,
    saved: savedRing(index),
    savedCount: 0,
    linuxFlush: false,
    segment: 0,
    rememberedPsn: memory.psn,
    rememberedHigh: memory.high,
    rememberedLow: memory.low,
    rememberedStatus: memory.status,
    rememberedCopies: memory.copies,
    templateAt: TEMPLATES_AT + index * TEMPLATE_BYTES,
    templateBytes: 0,
    ipVersion: 4,
    peerIpv4: 0,
    ipSum: 0,
  }
}

export function closeQueuePair(table: QueuePairTable, qp: QueuePair): void {
  table.places[qp.index] = null
}

/** Keeps the kind of the accepted request of that PSN. */
export function noteKind(qp: QueuePair, psn: number, kind: number): void {
  const place = qp.kindNext
  qp.kindNext = (place + 1) & (REMEMBERED_KINDS - 1)
  qp.kindPsn[place] = psn
  qp.kinds[place] = kind
}

/** The kind of the accepted request of that PSN, or 0 if it is not known. */
export function requestKindOf(qp: QueuePair, psn: number): number {
  const place = qp.kindPsn.indexOf(psn)
  return place < 0 ? 0 : qp.kinds[place]!
}

/** PSNs after which a request is forgotten: no peer has so many outstanding. */
const FORGET_PSNS = 0x400000

/**
 * Forgets requests of so long ago that their PSNs come round again. To be called before the
 * expected PSN has moved by more than that.
 */
export function forgetOld(qp: QueuePair): void {
  // A request was taken just now, so none is awaited.
  qp.cached.psn = -1
  for (let i = 0; i < qp.saved.length; i++) {
    const one = qp.saved[i]!
    if (psnDistance(qp.expectedPsn, one.psn + one.packets) > FORGET_PSNS) one.kind = 0
  }
  for (let i = 0; i < REMEMBERED_KINDS; i++) {
    const psn = qp.kindPsn[i]!
    if (psn < 0 || psnDistance(qp.expectedPsn, psn) <= FORGET_PSNS) continue
    if (qp.kinds[i] !== KIND_READ || savedAt(qp, psn, KIND_READ) === null) qp.kindPsn[i] = -1
  }
}

/** The READ or atomic that began at `psn`, if it is still kept. */
export function savedAt(qp: QueuePair, psn: number, kind: number): SavedRequest | null {
  for (let i = 0; i < qp.saved.length; i++) {
    const one = qp.saved[i]!
    if (one.kind === kind && one.psn === psn) return one
  }
  return null
}

/** The READ that has a response of that PSN, if it is still kept. */
export function savedAround(qp: QueuePair, psn: number): SavedRequest | null {
  for (let i = 0; i < qp.saved.length; i++) {
    const one = qp.saved[i]!
    if (one.kind === KIND_READ && psnDistance(psn, one.psn) < one.packets) return one
  }
  return null
}

/**
 * Nothing behind that PSN is taken before the peer has gone back to `first`, or before it. Nothing
 * was held back, or the peer has gone back since (`isHeldBack`).
 */
export function holdBack(qp: QueuePair, first: number, psn: number): void {
  qp.heldBackFirst = first
  qp.heldBackPsn = psn
}

/**
 * Is a request of that PSN behind one that was held back? Then it is held back, too. One that is
 * not ahead of the last of them shows that the peer has gone back.
 */
export function isHeldBack(qp: QueuePair, psn: number): boolean {
  const ahead = psnDistance(psn, qp.heldBackPsn)
  if (ahead > 0 && ahead < 0x800000) {
    qp.heldBackPsn = psn
    return true
  }
  qp.heldBackPsn = -1
  return false
}

/** The place in the ring for the next READ or atomic: the oldest gives way. */
export function nextSaved(qp: QueuePair): SavedRequest {
  const place = qp.savedCount
  qp.savedCount = (place + 1) & (RESPONDER_RESOURCES - 1)
  return qp.saved[place]!
}

/** Keeps what became of the record that ended at `psn`. */
export function remember(
  qp: QueuePair,
  psn: number,
  operationHigh: number,
  operationLow: number,
  status: number,
  copies: number,
): void {
  const place = qp.rememberedNext
  qp.rememberedNext = (place + 1) & (REMEMBERED_RECORDS - 1)
  qp.rememberedPsn[place] = psn
  qp.rememberedHigh[place] = operationHigh
  qp.rememberedLow[place] = operationLow
  qp.rememberedStatus[place] = status
  qp.rememberedCopies[place] = copies
}

/** The place of the record that ended at `psn` under that operation id, or -1. */
export function recall(
  qp: QueuePair,
  psn: number,
  operationHigh: number,
  operationLow: number,
): number {
  let place = qp.rememberedPsn.indexOf(psn)
  while (place >= 0) {
    const high = qp.rememberedHigh[place] === (operationHigh | 0)
    if (high && qp.rememberedLow[place] === (operationLow | 0)) return place
    place = qp.rememberedPsn.indexOf(psn, place + 1)
  }
  return -1
}
