/**
 * The pieces of the host's persistent memory: stated by its registrar, kept by the part, shown by
 * the board (source 2, virtual address registration).
 *
 *   PIECES ──▶ every region keeps its place? ──▶ ARRANGE ──▶ superblock ──▶ answer
 *
 * Invariants:
 * - Nothing that lies in a piece is given up: what would move a byte that a region takes is refused
 *   (PIECES), and nothing has changed. So of a cut between any two steps either table may be found.
 * - The board shows what the superblock in packet memory says, and the answer goes behind the fence
 *   that made it durable. Where that could not be, both are as they were; or nothing of the host's
 *   memory is proven, or can be, before pieces are shown that the superblock says.
 * - Where there is a table, each life of the host states it before it probes, and its probe names
 *   it again: a host that knows of no pieces, or of others, proves nothing. What somebody else has
 *   stated in between, or what an earlier registrar has and arrives late, is not what is named.
 * - So does each agent that comes: the number of the probe shows that it sees the first piece, and
 *   says nothing of the others. One that names none, or others, is refused, and never writes back
 *   other lines than those that were meant. Another table ends the agent with the host.
 * - Without a table HOST_SPACE is the window, and nothing has to be said.
 * - Another table ends what the host has shown, as another host would: it probes again.
 */

import { append, run } from '../board/command-list.ts'
import { isArmed } from '../board/context.ts'
import {
  type Fault,
  NOT_ARMED,
  PASS,
  PIECES,
  PLACEMENT_UNKNOWN,
  REQUEST,
  UNDER_WAY,
} from '../board/fault.ts'
import { ARRANGE } from '../board/hal.ts'
import { HOST_PIECES } from '../board/limits.ts'
import { SUPERBLOCK_AT } from '../board/memory-map.ts'
import { loseHost } from '../burst/burst.ts'
import type { PartContext } from '../commit/context.ts'
import { commitNow } from '../engine/group.ts'
import { closeBy } from '../engine/storage.ts'
import {
  arePieces,
  bytesOfPieces,
  keepsPlaces,
  PIECE_BYTES,
  PIECES_AT,
  type Piece,
  piecesWithin,
  wholeWindow,
  windowPages,
} from '../medium/host-pieces.ts'
import { HOST_DATA_AT } from '../medium/region.ts'
import { hostTakenTo, piecesOf, setPieces, writeSuperblock } from '../medium/superblock.ts'
import { putU32, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import type { Call } from './call.ts'
import { JOB_ERASE, JOB_MAKE, type ManageContext } from './context.ts'

/**
 * Begins with what the superblock says, as far as the window has it: behind that no region is
 * served. Nothing of the host's memory is seen where the board cannot show it so.
 */
export function beginPieces(state: PartContext): void {
  const { superblock, facts, proof } = state
  const pieces = piecesOf(superblock)
  const within = piecesWithin(pieces, windowPages(facts.hostBytes))
  proof.statedIn = -1
  proof.hostBytes = facts.hostBytes
  if (pieces.length === 0) return
  if (within.length === 0) proof.hostBytes = 0
  else proof.hostBytes = arrange(state, within.length) ? bytesOfPieces(within) : 0
}

/** Has the board show the first pieces of the table; 0 of them: the whole window. */
function arrange({ list }: PartContext, count: number): boolean {
  append(list, ARRANGE, SUPERBLOCK_AT + PIECES_AT, 0, count * PIECE_BYTES, 0)
  return run(list) < 0
}

/**
 * Does the host that probes, or whose agent comes, know where its memory is shown? Then it may show
 * how it is written, or write back. It has stated the pieces in this life, and names them at `at`;
 * none, or all of the window, where none are.
 */
export function arePiecesKnown({ state, bytes }: Call, at: number): boolean {
  const { superblock, proof, facts } = state
  const named = namedPieces(bytes, at)
  const holds = piecesOf(superblock)
  if (named === null) return false
  if (holds.length > 0) return proof.statedIn === proof.lives && isSame(named, holds)
  return named.length === 0 || isSame(named, wholeWindow(facts.hostBytes))
}

/** The pieces that a call names from there on; null if they are too many. */
function namedPieces(bytes: Uint8Array, at: number): Piece[] | null {
  const count = u32(bytes, at + mad.PIECES_COUNT)
  if (count > HOST_PIECES) return null
  return Array.from({ length: count }, (_, i) => {
    const from = at + mad.PIECES_FIRST + i * mad.PIECES_ENTRY_BYTES
    return { page: u32(bytes, from), pages: u32(bytes, from + 4) }
  })
}

/**
 * The host's registrar states the pieces, or asks for them: none. Faults: REQUEST, if there can be
 * no such pieces in the window; PIECES, if regions lie elsewhere by them, or the board cannot show
 * them; UNDER_WAY, while room there is cleared; PLACEMENT_UNKNOWN, if the card sees no such memory;
 * NOT_ARMED, SUPERBLOCK, FLUSH.
 */
export function statePieces(call: Call): Fault {
  const { state, bytes, at, to } = call
  if (state.facts.hostBytes < HOST_DATA_AT) return PLACEMENT_UNKNOWN
  const stated = namedPieces(bytes, at)
  if (stated === null) return REQUEST
  const fault = stated.length === 0 ? PASS : takePieces(state, stated)
  if (fault !== PASS) return fault
  const shown = shownPieces(state)
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  putU32(bytes, to + mad.PIECES_COUNT, shown.length)
  shown.forEach(({ page, pages }, i) => {
    const into = to + mad.PIECES_FIRST + i * mad.PIECES_ENTRY_BYTES
    putU32(bytes, into, page)
    putU32(bytes, into + 4, pages)
  })
  return PASS
}

/** What holds, the whole window as a piece. */
function shownPieces({ superblock, facts }: PartContext): Piece[] {
  const pieces = piecesOf(superblock)
  return pieces.length === 0 ? wholeWindow(facts.hostBytes) : pieces
}

function takePieces(state: ManageContext, stated: Piece[]): Fault {
  const { superblock, facts, proof, regionJob } = state
  if (!arePieces(stated, windowPages(facts.hostBytes))) return REQUEST
  const before = shownPieces(state)
  if (isSame(before, stated)) {
    proof.statedIn = proof.lives
    return PASS
  }
  if (regionJob.kind === JOB_ERASE) return UNDER_WAY
  const making = regionJob.kind === JOB_MAKE ? regionJob.entry : null
  if (!keepsPlaces(before, stated, hostTakenTo(superblock, making))) return PIECES
  return change(state, isSame(stated, wholeWindow(facts.hostBytes)) ? [] : stated)
}

function isSame(one: readonly Piece[], other: readonly Piece[]): boolean {
  if (one.length !== other.length) return false
  return one.every(({ page, pages }, i) => other[i]!.page === page && other[i]!.pages === pages)
}

/** The board shows what no superblock says: regions are read as before, and nothing is written. */
function showNothing(state: ManageContext): void {
  loseHost(state)
  state.proof.hostBytes = 0
}

/** Another table, by which every region keeps its place. */
function change(state: ManageContext, pieces: readonly Piece[]): Fault {
  commitNow(state)
  const { superblock, facts, proof, commit, list } = state
  if (commit.closed !== PASS) return commit.closed
  if (!isArmed(state)) return NOT_ARMED
  const before = piecesOf(superblock)
  setPieces(superblock, pieces)
  const isShown = arrange(state, pieces.length)
  const fault = isShown ? writeSuperblock(list, superblock) : PIECES
  if (fault !== PASS) {
    setPieces(superblock, before)
    if (isShown && !arrange(state, before.length)) showNothing(state)
    return closeBy(state, fault)
  }
  loseHost(state)
  proof.hostBytes = pieces.length === 0 ? facts.hostBytes : bytesOfPieces(pieces)
  proof.statedIn = proof.lives
  return PASS
}
