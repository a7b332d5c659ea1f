// hot path
/**
 * The durable operation table: operations are named permanently (D-6, P2-27, G2-2, G2-5; X-3).
 *
 * A retry may come from another connection or after a restart, where PSNs mean nothing. Then the
 * table knows whether the operation is durable: if so it is acknowledged again and not executed,
 * as the record may have been overwritten by somebody else since. Each client has two lines on the
 * medium (operation-line.ts), which say the same behind every group: one that decays takes nothing
 * with it. The one of the greater sequence that is whole counts.
 *
 * The rule: an operation is in the table no later than its acknowledgement can be relied on after a
 * restart, and never before its record is durable. The argument, by the fences of commit.ts:
 *
 * - The first line is stored between F2 and F3, beside the phase words: copy A is durable, and each
 *   lane names client and operation. The second, the same bytes, between F3 and F4, beside copies
 *   B. So each has a fence, and neither a fence of its own.
 * - Where a cut before F3 has a record go back, recovery takes its operation out of the table: the
 *   lane names it, and the copy that is kept is an older one. So it does where a media error hit
 *   copy A at that instant. Before F1 no lane would tell. And it does so durably before it stores
 *   any copy: once all of them are old, the lane alone tells, and the medium may lose that.
 * - An acknowledgement leaves behind F3 at the earliest, where the first line is durable.
 * - A line torn by a cut fails its check code, and the other line of the client stands: before F3
 *   the second, durable since the group before; what the torn one would have added is in the lanes
 *   of its group. Behind F3 the first.
 * - Lanes are cleared, or written again, behind F4 only, and by recovery only behind the fences
 *   that make its own lines durable.
 * - The line that is written first is never the one that alone is whole: a start writes the line
 *   that is not whole, or behind, once more, and idle time looks at both (`scrubLines`).
 * - A record that a start finds lost, as the medium took what a cut had left of it, may have been
 *   acknowledged. So the table tells then that its operation may have been forgotten: whoever has
 *   it executed again would bring back what somebody has given up, or written over, since.
 * - A record of which the medium refuses copy B may be in the first line. If it cannot be settled,
 *   its lane stays and its region takes no writes; the table is told that it is not known, and so
 *   is that of the next start.
 *
 * So: acknowledged, hence known after recovery; known, hence durable.
 * test/firmware/commit/operations/operations-crash.test.ts visits every crash, and takes each of
 * these rules away in turn.
 *
 * What is not known may have been forgotten: its client made way for another, or both of its lines
 * decayed, or the table was void after a save that failed, or a version that did not tell wrote it.
 * Such a table is `forgetful`, and each line that it writes says so, the one that takes the place
 * of another client's first of all. A repetition, which says that it is one, is executed only where
 * the table knows that the operation is not durable: its client has a line that speaks of it, or
 * none, in a table that has forgotten nobody.
 *
 * Invariants:
 * - The image of a client in packet memory is what was known behind the last group. What a group
 *   adds stands in a line of its own until the group has ended.
 * - A client that is not in the table takes a free place, else the place of the one that was served
 *   the longest ago. Where peers have clients (`owners`), each peer is an owner, and all that are
 *   nobody's are one: it is one of the owner who has most. So nobody has others forgotten by
 *   calling himself by many ids. Clients of the group in composition keep their place.
 * - A client numbers its operations upwards. One that comes more than a window (128) behind its
 *   newest is executed and not recorded. Client 0 is nobody, operation 0 has no name.
 */

import { assert } from '../board/assert.ts'
import {
  type CommandList,
  checkCode,
  compare,
  copy,
  copyClean,
  fenceOwn,
  resultOf,
  run,
  runAll,
} from '../board/command-list.ts'
import { EQUAL, MEDIA_ERROR, NVDIMM_SPACE } from '../board/hal.ts'
import { BURST_FRAMES, CLIENTS, LANES, LINE_BYTES, SCRUB_CLIENTS } from '../board/limits.ts'
import {
  KEYS_AT,
  OPERATION_LINES_AT,
  RECOVERY_AT,
  RECOVERY_BYTES,
  ZEROS_AT,
} from '../board/memory-map.ts'
import {
  addOperation,
  blankLine,
  clientHigh,
  clientLow,
  copyLine,
  dropOperation,
  forgetAll,
  forgetBefore,
  forgetsAll,
  forgetUpTo,
  knowsOperation,
  LINE_CLIENT,
  lineIsForgetful,
  lineIsFree,
  lineIsOf,
  lineIsVoid,
  lineSequence,
  markForgetful,
  mayBeForgotten,
  newestHigh,
  newestLow,
  OPERATION_CHECKED_AT,
  OPERATION_CHECKED_BYTES,
  OPERATION_LINE_WORDS,
  openOperations,
  setLineSequence,
} from '../medium/operation-line.ts'
import { CHECK_CODE_BYTES } from '../medium/slot.ts'
import { OPERATIONS_AT } from '../medium/superblock.ts'

/** No client: nobody, or one that the table has no place for. */
export const NO_CLIENT = -1

const WORD_MAX = 2 ** 32 - 1

/** Sequences are exact integers below this one. */
const SEQUENCES = 2 ** 53 - 1

/** Sequences that lines may have which could not be read, beyond those that could. */
const UNREAD_SEQUENCES = 2 ** 32

/**
 * Owner of a command that stores the line of client `c`: behind the lanes' own, which are below.
 */
const FIRST_OWNER: number = -1 - LANES

export interface Operations {
  readonly words: Int32Array
  /** Per client, which of its two lines on the medium is written first: 0 or 1. */
  readonly next: Uint8Array
  /** Places whose lines the medium refused: 1. They take nobody any more. */
  readonly retired: Uint8Array
  /** When a client was served last, in records. */
  readonly used: Float64Array
  uses: number
  /** The highest operation that any group was given of a client, low and high word. */
  readonly latestLow: Uint32Array
  readonly latestHigh: Uint32Array
  /** Per client how much of its image is not on the medium: UNWRITTEN, HALF_WRITTEN or 0. */
  readonly unwritten: Uint8Array
  /** Clients of the group in composition. */
  readonly members: Int32Array
  memberCount: number
  /** The sequence that was given out last. */
  sequence: number
  /** Operations that recovery has recorded since the start. */
  recovered: number
  /** A client may have been forgotten, in this life or before. */
  forgetful: boolean
  /** Lines that were not as they should be since the start, and places of which both were not. */
  mended: number
  lost: number
  /** The place whose lines idle time looks at next. */
  scrubbed: number
  /** The upper half of the ids that the clients of each peer have (session/sealed.ts). */
  owners: readonly number[]
}

/** Neither line says what the image does; only the line that is not `next` does. */
const UNWRITTEN = 1
const HALF_WRITTEN = 2

export function createOperations(words: Int32Array): Operations {
  return {
    words,
    next: new Uint8Array(CLIENTS),
    retired: new Uint8Array(CLIENTS),
    used: new Float64Array(CLIENTS),
    uses: 0,
    latestLow: new Uint32Array(CLIENTS),
    latestHigh: new Uint32Array(CLIENTS),
    unwritten: new Uint8Array(CLIENTS),
    members: new Int32Array(BURST_FRAMES),
    memberCount: 0,
    sequence: 0,
    recovered: 0,
    forgetful: false,
    mended: 0,
    lost: 0,
    scrubbed: 0,
    owners: [],
  }
}

/** The image of the first client, and from one to the next, in 32-bit words. */
const FIRST_IMAGE: number = OPERATION_LINES_AT >> 2
const PLACE_WORDS: number = 2 * OPERATION_LINE_WORDS

/** Where the image of a client lies, and behind it the line that a group composes, in bytes. */
function imageAt(client: number): number {
  return OPERATION_LINES_AT + 2 * client * LINE_BYTES
}

function composedAt(client: number): number {
  return OPERATION_LINES_AT + (2 * client + 1) * LINE_BYTES
}

function imageOf(client: number): number {
  return imageAt(client) >> 2
}

function composedOf(client: number): number {
  return composedAt(client) >> 2
}

/** Address on the medium of line `which` of a client. */
export function operationLineAddress(client: number, which: number): number {
  return NVDIMM_SPACE + OPERATIONS_AT + (2 * client + which) * LINE_BYTES
}

// ---- clients -----------------------------------------------------------------------------------

/** The place of a client, or NO_CLIENT. `hint` is where it was last, and saves the search. */
export function findClient(o: Operations, hint: number, high: number, low: number): number {
  if ((high | low) === 0) return NO_CLIENT
  if (hint >= 0 && lineIsOf(o.words, FIRST_IMAGE + hint * PLACE_WORDS, high, low)) return hint
  for (let c = 0; c < CLIENTS; c++) if (lineIsOf(o.words, imageOf(c), high, low)) return c
  return NO_CLIENT
}

/** The place of a client that is about to be served; it takes one if it has none. */
export function takeClient(o: Operations, hint: number, high: number, low: number): number {
  let client = findClient(o, hint, high, low)
  if (client === NO_CLIENT) {
    if ((high | low) === 0) return NO_CLIENT
    client = claimPlace(o)
    if (client === NO_CLIENT) return NO_CLIENT
    blankLine(o.words, imageOf(client), high, low)
    if (o.forgetful) forgetAll(o.words, imageOf(client))
    noteLatest(o, client)
  }
  o.uses += 1
  o.used[client] = o.uses
  return client
}

/** A free place, or that of who makes way: never one of the group in composition. */
function freePlace(o: Operations): number {
  const oldest = longestUnused(o, null)
  if (oldest === NO_CLIENT || lineIsFree(o.words, imageOf(oldest))) return oldest
  const greatest = o.owners.length === 0 ? oldest : longestUnused(o, greatestOwner(o))
  if (hasLeftGroup(o, greatest)) return greatest
  return hasLeftGroup(o, oldest) ? oldest : NO_CLIENT
}

/** Has the group in composition nothing of the client at that place? */
function hasLeftGroup(o: Operations, client: number): boolean {
  return o.uses - o.used[client]! >= BURST_FRAMES
}

/** The place of that owner, or of anybody, that was used the longest ago. */
function longestUnused(o: Operations, owner: number | null): number {
  let oldest = NO_CLIENT
  for (let c = 0; c < CLIENTS; c++) {
    if (o.retired[c] !== 0 || (owner !== null && ownerAt(o, c) !== owner)) continue
    if (oldest === NO_CLIENT || o.used[c]! < o.used[oldest]!) oldest = c
  }
  return oldest
}

/** Whose the client at that place is: a place in `owners`, or -1. */
function ownerAt(o: Operations, client: number): number {
  return o.owners.indexOf(clientHigh(o.words, imageOf(client)) >>> 0)
}

/** The owner who has the most places. */
function greatestOwner(o: Operations): number {
  const places = new Uint8Array(o.owners.length + 1)
  let greatest = -1
  for (let c = 0; c < CLIENTS; c++) {
    if (o.retired[c] !== 0) continue
    const owner = ownerAt(o, c)
    places[owner + 1]! += 1
    if (places[owner + 1]! > places[greatest + 1]!) greatest = owner
  }
  return greatest
}

/** As `freePlace`, for a client that takes it: whoever was there is forgotten. */
function claimPlace(o: Operations): number {
  const place = freePlace(o)
  if (place !== NO_CLIENT && !lineIsFree(o.words, imageOf(place))) o.forgetful = true
  return place
}

/** Of a client that was forgotten none is known to be the latest, before it asks for a new one. */
function noteLatest(o: Operations, client: number): void {
  const forgets = forgetsAll(o.words, imageOf(client))
  o.latestLow[client] = forgets ? WORD_MAX : newestLow(o.words, imageOf(client))
  o.latestHigh[client] = forgets ? WORD_MAX : newestHigh(o.words, imageOf(client))
}

/**
 * An operation of the client has just come that is no repetition, so it is a new one: whatever may
 * have been forgotten of the client is below it. What comes to be recorded later than it came says
 * nothing of the kind: its client may have done more, and been forgotten, meanwhile.
 */
export function noteNewOperation(o: Operations, client: number, high: number, low: number): void {
  if (client === NO_CLIENT || !forgetsAll(o.words, imageOf(client))) return
  forgetUpTo(o.words, imageOf(client), high, low)
  noteLatest(o, client)
}

/** Is the operation later than every one that was durable or in a group? Then it is a new one. */
export function isNewOperation(o: Operations, client: number, high: number, low: number): boolean {
  const latestHigh = o.latestHigh[client]!
  if (high >>> 0 !== latestHigh) return high >>> 0 > latestHigh
  return low >>> 0 > o.latestLow[client]!
}

/** A client's id, as queue pairs have it. */
export interface ClientId {
  readonly clientHigh: number
  readonly clientLow: number
}

/**
 * Nearly every record: a client whose place is known, and a new operation. Then both are noted as
 * by `takeClient` and `beginOperation`; else nothing is.
 */
export function enterOperation(
  o: Operations,
  hint: number,
  whose: ClientId,
  high: number,
  low: number,
): boolean {
  if (hint < 0 || (high | low) === 0) return false
  const { words } = o
  const w = FIRST_IMAGE + hint * PLACE_WORDS + LINE_CLIENT
  if (words[w] !== (whose.clientLow | 0) || words[w + 1] !== (whose.clientHigh | 0)) return false
  const latestHigh = o.latestHigh[hint]!
  if (high !== latestHigh ? high < latestHigh : low <= o.latestLow[hint]!) return false
  o.latestHigh[hint] = high
  o.latestLow[hint] = low
  o.uses += 1
  o.used[hint] = o.uses
  return true
}

/** A record of that operation joins the group. */
export function beginOperation(o: Operations, client: number, high: number, low: number): void {
  if (client === NO_CLIENT) return
  const latestHigh = o.latestHigh[client]!
  if (high < latestHigh || (high === latestHigh && low <= o.latestLow[client]!)) return
  o.latestLow[client] = low
  o.latestHigh[client] = high
}

/** Is the operation known to be durable? */
export function isDurable(o: Operations, client: number, high: number, low: number): boolean {
  if (client === NO_CLIENT || (high | low) === 0) return false
  return knowsOperation(o.words, imageOf(client), high, low)
}

/**
 * May it be durable, and forgotten? `client` is NO_CLIENT if the table has no place of the client.
 * Nothing is ever known of nobody.
 */
export function isForgotten(
  o: Operations,
  client: number,
  whose: ClientId,
  high: number,
  low: number,
): boolean {
  if (client !== NO_CLIENT) return mayBeForgotten(o.words, imageOf(client), high, low)
  return o.forgetful || (whose.clientHigh | whose.clientLow) === 0
}

/** A 64-bit operation id as two words. */
export interface OperationId {
  high: number
  low: number
}

/** Every operation up to this one is durable. False, and nothing is written, where none is so. */
export function durableUpTo(o: Operations, client: number, into: OperationId): boolean {
  if (client === NO_CLIENT) return false
  const { words } = o
  const open = openOperations(words, imageOf(client))
  if (open < 0) return false
  const low = newestLow(words, imageOf(client))
  const high = newestHigh(words, imageOf(client))
  if ((low | high) === 0 || (high === 0 && low <= open)) return false
  into.low = (low - open) >>> 0
  into.high = low < open ? high - 1 : high
  return true
}

// ---- the group ---------------------------------------------------------------------------------

/** A new group composes its lines; whatever an earlier attempt composed is void. */
export function beginLines(o: Operations): void {
  o.memberCount = 0
}

/** The operation is to be durable with the group in composition. */
export function addToLine(o: Operations, client: number, high: number, low: number): void {
  const { words } = o
  if (client === NO_CLIENT || (high | low) === 0) return
  const composed = FIRST_IMAGE + client * PLACE_WORDS + OPERATION_LINE_WORDS
  const { memberCount } = o
  const last = memberCount > 0 && o.members[memberCount - 1] === client
  if (!last && !isClientMember(o, client)) {
    o.members[o.memberCount] = client
    o.memberCount += 1
    o.sequence += 1
    copyLine(words, imageOf(client), composed)
    sealLine(o, composed)
  }
  addOperation(words, composed, high, low)
}

/** Gives a line the sequence that was given out last, and the mark. */
function sealLine(o: Operations, w: number): void {
  setLineSequence(o.words, w, o.sequence)
  if (o.forgetful) markForgetful(o.words, w)
}

function isClientMember(o: Operations, client: number): boolean {
  for (let i = 0; i < o.memberCount; i++) if (o.members[i] === client) return true
  return false
}

/**
 * Appends the stores of the first line of each client of the group. The next fence covers them, and
 * `storeSecondLines` stands behind it.
 */
export function storeLines(o: Operations, list: CommandList): void {
  for (let i = 0; i < o.memberCount; i++) {
    const client = o.members[i]!
    sealCode(list, composedAt(client))
    storeLine(list, client, composedAt(client), o.next[client]!)
  }
}

/** Likewise of the second line, the same bytes. */
export function storeSecondLines(o: Operations, list: CommandList): void {
  for (let i = 0; i < o.memberCount; i++) {
    const client = o.members[i]!
    storeLine(list, client, composedAt(client), 1 - o.next[client]!)
  }
}

function sealCode(list: CommandList, at: number): void {
  checkCode(list, at + OPERATION_CHECKED_AT, at, OPERATION_CHECKED_BYTES, KEYS_AT)
}

function storeLine(list: CommandList, client: number, from: number, which: number): number {
  const to = operationLineAddress(client, which)
  return copyClean(list, from, to, LINE_BYTES, FIRST_OWNER - client)
}

/** The lines of the group are durable: they are what is known. */
export function endLines(o: Operations): void {
  for (let i = 0; i < o.memberCount; i++) {
    const client = o.members[i]!
    copyLine(o.words, composedOf(client), imageOf(client))
  }
  o.memberCount = 0
}

/** The client whose line the command of that owner stored, or NO_CLIENT. */
export function clientOfOwner(owner: number): number {
  return owner <= FIRST_OWNER ? FIRST_OWNER - owner : NO_CLIENT
}

/**
 * The medium refused a line of a client: the client moves to another place, which is returned, or
 * NO_CLIENT if there is none. The line that is durable stays where it is, and true, until both of
 * the new place are durable. What a group has composed moves, too.
 */
export function moveClient(o: Operations, client: number): number {
  const { words } = o
  o.retired[client] = 1
  const place = claimPlace(o)
  if (place !== NO_CLIENT) {
    copyLine(words, imageOf(client), imageOf(place))
    copyLine(words, composedOf(client), composedOf(place))
    o.unwritten[place] = UNWRITTEN
    o.latestLow[place] = o.latestLow[client]!
    o.latestHigh[place] = o.latestHigh[client]!
    o.uses += 1
    o.used[place] = o.uses
  }
  if (place === NO_CLIENT) o.forgetful = true
  moveMember(o, client, place)
  freeLines(o, client)
  return place
}

/**
 * Nobody has that place any more. Its lines are due to be blanked, behind those of everybody: what
 * they say of their client is true, but older than what its other place says, and would be all that
 * is known of it where that decays.
 */
function freeLines(o: Operations, place: number): void {
  blankLine(o.words, imageOf(place), 0, 0)
  o.used[place] = 0
  o.unwritten[place] = UNWRITTEN
}

function moveMember(o: Operations, client: number, place: number): void {
  for (let i = 0; i < o.memberCount; i++) {
    if (o.members[i] !== client) continue
    o.memberCount -= place === NO_CLIENT ? 1 : 0
    o.members[i] = place === NO_CLIENT ? o.members[o.memberCount]! : place
  }
}

// ---- outside a group ---------------------------------------------------------------------------

/** Records an operation in the image: its record is durable, and its lane still says so. */
export function recordOperation(o: Operations, client: number, high: number, low: number): void {
  if (client === NO_CLIENT || isDurable(o, client, high, low) || (high | low) === 0) return
  addOperation(o.words, imageOf(client), high, low)
  if (isNewOperation(o, client, high, low)) noteLatest(o, client)
  o.unwritten[client] = UNWRITTEN
}

/** Takes an operation out of the image: its record did not become durable as it was asked to. */
export function withdrawOperation(o: Operations, client: number, high: number, low: number): void {
  if (!isDurable(o, client, high, low)) return
  dropOperation(o.words, imageOf(client), high, low)
  o.unwritten[client] = UNWRITTEN
}

/** An operation, and whose it is: as slots and lanes name it. */
export interface Named {
  clientLow: number
  clientHigh: number
  operationLow: number
  operationHigh: number
}

/** Is it that operation of that client? Operation 0 names none. */
export function isNamed(one: Named, whose: ClientId, high: number, low: number): boolean {
  if ((high | low) === 0) return false
  // Words are signed here and unsigned there: bit by bit they are compared.
  const operation = (one.operationLow ^ low) | (one.operationHigh ^ high)
  const client = (one.clientLow ^ whose.clientLow) | (one.clientHigh ^ whose.clientHigh)
  return (operation | client) === 0
}

/**
 * Recovery: the record of that operation is durable. `crowd` false spares every other client: then
 * only a free place is taken.
 */
export function recoverOperation(o: Operations, named: Named, crowd: boolean): void {
  const { operationHigh: high, operationLow: low } = named
  if ((high | low) === 0) return
  if (!crowd && !hasPlace(o, named)) return
  const client = takeClient(o, NO_CLIENT, named.clientHigh, named.clientLow)
  if (client === NO_CLIENT || isDurable(o, client, high, low)) return
  recordOperation(o, client, high, low)
  if (isDurable(o, client, high, low)) o.recovered += 1
}

function hasPlace(o: Operations, named: Named): boolean {
  if (findClient(o, NO_CLIENT, named.clientHigh, named.clientLow) !== NO_CLIENT) return true
  const place = freePlace(o)
  return place !== NO_CLIENT && lineIsFree(o.words, imageOf(place))
}

/** Recovery: the record of that operation did not become durable, or is lost. */
export function forgetOperation(o: Operations, named: Named): void {
  const client = findClient(o, NO_CLIENT, named.clientHigh, named.clientLow)
  withdrawOperation(o, client, named.operationHigh, named.operationLow)
}

/**
 * Likewise, and durably so where it was known. Of a record that `isLost` it may have been
 * acknowledged: then it may have been forgotten, as all of its client that is not recorded. Returns
 * 0, or what else the board said.
 */
export function forgetDurably(
  o: Operations,
  list: CommandList,
  named: Named,
  isLost: boolean,
): number {
  const client = findClient(o, NO_CLIENT, named.clientHigh, named.clientLow)
  if (!isDurable(o, client, named.operationHigh, named.operationLow)) return 0
  if (isLost) forgetBefore(o.words, imageOf(client))
  forgetOperation(o, named)
  return writeImages(o, list)
}

/** Is there a place whose image is not on the medium, in both lines: of a client, or of nobody? */
function owesLines(o: Operations, ofNobody: boolean): boolean {
  for (let place = 0; place < CLIENTS; place++) {
    if (o.unwritten[place] !== 0 && lineIsFree(o.words, imageOf(place)) === ofNobody) return true
  }
  return false
}

/**
 * Makes every image durable that is not, with a fence between the two lines of a client, and one
 * behind; no lane is cleared before. A client of whom the medium refuses a line moves; places of
 * nobody are blanked last. Returns 0, or what else the board said.
 */
export function writeImages(o: Operations, list: CommandList): number {
  for (;;) {
    const ofNobody = !owesLines(o, false)
    if (ofNobody && !owesLines(o, true)) return 0
    const result = writeNext(o, list, ofNobody)
    if (result !== 0) return result
    const end = fenceOwn(list)
    if (run(list) >= 0) return resultOf(list, end)
  }
}

/** Writes one line of each client, or place of nobody, that owes any: the less whole one. */
function writeNext(o: Operations, list: CommandList, ofNobody: boolean): number {
  for (let client = 0; client < CLIENTS; client++) {
    if (o.unwritten[client] === 0) continue
    if (lineIsFree(o.words, imageOf(client)) !== ofNobody) continue
    if (o.unwritten[client] === UNWRITTEN) {
      o.sequence += 1
      sealLine(o, imageOf(client))
    }
    sealCode(list, imageAt(client))
    const store = storeLine(list, client, imageAt(client), o.next[client]!)
    runAll(list)
    const result = resultOf(list, store)
    if (result !== 0 && result !== MEDIA_ERROR) return result
    if (result === MEDIA_ERROR && !ofNobody) {
      moveClient(o, client)
      continue
    }
    // Nobody moves from a place of nobody, nor to it.
    if (result === MEDIA_ERROR) o.retired[client] = 1
    o.unwritten[client] = o.unwritten[client] === UNWRITTEN ? HALF_WRITTEN : 0
    o.next[client] = 1 - o.next[client]!
  }
  return 0
}

/**
 * Looks at both lines of the next few places, as they are on the medium now. What has decayed, or
 * is not what the table knows, is due to be written again, and is, with all else that is. Returns
 * 0, or what the board said.
 */
export function scrubLines(o: Operations, list: CommandList): number {
  const first = o.scrubbed
  for (let i = 0; i < 2 * SCRUB_CLIENTS; i++) {
    const client = first + (i >> 1)
    copy(list, operationLineAddress(client, i & 1), RECOVERY_AT, LINE_BYTES)
    compare(list, RECOVERY_AT, imageAt(client), LINE_BYTES)
  }
  runAll(list)
  for (let i = 0; i < 2 * SCRUB_CLIENTS; i++) {
    const client = first + (i >> 1)
    // A place of nobody may hold what it likes, if it can be read.
    const isFree = lineIsFree(o.words, imageOf(client))
    const isRead = resultOf(list, 2 * i) === 0
    if (isRead && (isFree || resultOf(list, 2 * i + 1) === EQUAL)) continue
    oweLine(o, client, i & 1)
  }
  o.scrubbed = (first + SCRUB_CLIENTS) % CLIENTS
  return writeImages(o, list)
}

/** That line of the client is to be written again: the other one counts until then. */
function oweLine(o: Operations, client: number, which: number): void {
  if (o.retired[client] !== 0 || o.unwritten[client] === UNWRITTEN) return
  o.mended += 1
  o.unwritten[client] = o.unwritten[client] === HALF_WRITTEN ? UNWRITTEN : HALF_WRITTEN
  o.next[client] = which
}

// ---- start -------------------------------------------------------------------------------------

/**
 * Reads the table. Of two whole lines of a client the newer one counts; a line that is unreadable,
 * torn or void, its sequence not above `floor`, counts as absent, and is due to be written again. A
 * line whose sequence is not above `former` is of a version that did not tell what it had
 * forgotten. Returns how many lines were read: always the same.
 */
export function readOperations(
  o: Operations,
  list: CommandList,
  floor: number,
  former: number,
): number {
  resetOperations(o)
  o.sequence = floor
  o.forgetful = floor > 0 || former > 0
  bad.fill(0)
  fetchLines(list)
  verifyLines(o, list, floor)
  for (let client = 0; client < CLIENTS; client++) chooseLine(o, client, former)
  o.uses = o.sequence
  return 2 * CLIENTS
}

/** Lines that could not be read, or whose check code was wrong: 1. */
const bad = new Uint8Array(2 * CLIENTS)

function resetOperations(o: Operations): void {
  o.next.fill(0)
  o.retired.fill(0)
  o.used.fill(0)
  o.unwritten.fill(0)
  o.memberCount = 0
  o.sequence = 0
  o.uses = 0
  o.recovered = 0
  o.forgetful = false
  o.mended = 0
  o.lost = 0
  o.scrubbed = 0
}

/**
 * Reads all at once, or line by line where the medium has an error. What is unreadable is zeros.
 */
function fetchLines(list: CommandList): void {
  copy(list, operationLineAddress(0, 0), OPERATION_LINES_AT, 2 * CLIENTS * LINE_BYTES)
  runAll(list)
  if (resultOf(list, 0) === 0) return
  for (let i = 0; i < 2 * CLIENTS; i++) {
    const to = OPERATION_LINES_AT + i * LINE_BYTES
    copy(list, ZEROS_AT, to, LINE_BYTES)
    copy(list, operationLineAddress(0, i), to, LINE_BYTES)
  }
  runAll(list)
  for (let i = 0; i < 2 * CLIENTS; i++) bad[i] = resultOf(list, 2 * i + 1) === 0 ? 0 : 1
}

/** Sets the sequence of every line that does not count to 0, which no line that was stored has. */
function verifyLines(o: Operations, list: CommandList, floor: number): void {
  const { words } = o
  for (let i = 0; i < 2 * CLIENTS; i++) {
    const at = OPERATION_LINES_AT + i * LINE_BYTES
    if (lineIsVoid(words, at >> 2)) continue
    const code = RECOVERY_AT + i * CHECK_CODE_BYTES
    checkCode(list, at + OPERATION_CHECKED_AT, code, OPERATION_CHECKED_BYTES, KEYS_AT)
    compare(list, code, at, CHECK_CODE_BYTES)
  }
  if (list.count === 0) return
  runAll(list)
  let index = 1
  for (let i = 0; i < 2 * CLIENTS; i++) {
    const w = (OPERATION_LINES_AT + i * LINE_BYTES) >> 2
    if (lineIsVoid(words, w)) continue
    const sequence = lineSequence(words, w)
    const whole = resultOf(list, index) === EQUAL && sequence < SEQUENCES
    if (!whole) bad[i] = 1
    if (!whole || sequence <= floor) setLineSequence(words, w, 0)
    index += 2
  }
}

/** The newer of the two lines becomes the image; the other one is written again if it differs. */
function chooseLine(o: Operations, client: number, former: number): void {
  const { words } = o
  const image = imageOf(client)
  const second = image + OPERATION_LINE_WORDS
  const spoilt = bad[2 * client]! + bad[2 * client + 1]!
  o.mended += spoilt
  if (lineIsVoid(words, image) && lineIsVoid(words, second)) {
    // As nearly every place of the table is.
    blankLine(words, image, 0, 0)
    o.latestLow[client] = 0
    o.latestHigh[client] = 0
    if (spoilt > 0) o.unwritten[client] = UNWRITTEN
    // One line alone is torn where nothing was ever written, and the lanes know all that it knew.
    if (spoilt === 2) o.forgetful = true
    if (spoilt === 2) o.lost += 1
    return
  }
  const a = lineSequence(words, image)
  const b = lineSequence(words, second)
  if (b > a) copyLine(words, second, image)
  const sequence = b > a ? b : a
  o.next[client] = b > a ? 0 : 1
  o.unwritten[client] = a === b ? 0 : HALF_WRITTEN
  o.used[client] = lineIsFree(words, image) ? 0 : sequence
  if (sequence > o.sequence) o.sequence = sequence
  if (lineIsForgetful(words, image)) o.forgetful = true
  if (sequence <= former) forgetBefore(words, image)
  dropTwin(o, client)
  noteLatest(o, client)
}

/** A client that has moved stands twice: the newer place is its own, the other one is free. */
function dropTwin(o: Operations, client: number): void {
  const { words } = o
  const w = imageOf(client)
  for (let c = 0; c < client; c++) {
    if (!lineIsOf(words, imageOf(c), clientHigh(words, w), clientLow(words, w))) continue
    const older = lineSequence(words, imageOf(c)) < lineSequence(words, w) ? c : client
    freeLines(o, older)
    noteLatest(o, older)
    return
  }
}

/**
 * Forgets everything: after a save that failed a line may be there and its records may not. Returns
 * the sequence up to which lines are void from now on; the superblock has to keep it.
 */
export function voidOperations(o: Operations): number {
  const end = o.sequence + UNREAD_SEQUENCES
  resetOperations(o)
  o.forgetful = true
  for (let client = 0; client < CLIENTS; client++) {
    blankLine(o.words, imageOf(client), 0, 0)
    noteLatest(o, client)
  }
  o.sequence = end
  o.uses = end
  return end
}

assert(2 * CLIENTS * CHECK_CODE_BYTES <= RECOVERY_BYTES, 'the codes must fit')
