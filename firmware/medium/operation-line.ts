// hot path
/**
 * One line of the durable operation table: which operations of one client are durable.
 *
 *    byte  0 +-----------------------------------------------+
 *            | check code over bytes [16, 64), 128 bits      |
 *         16 | sequence (64)         | client (64)           |
 *         32 | newest (64)           | below (48) | marks (16) |
 *         48 | bitmap of the last 128 operations             |
 *         64 +-----------------------------------------------+
 *
 * Little-endian, 32-bit words; a 64-bit field has its low word first. `newest` is the highest
 * operation id that was recorded. Of the last 128 ids, up to and with it, bit (id & 127) of the
 * bitmap says whether that operation is durable; of the ids right below these, the first `below`
 * are durable, too, and nothing is known of what lies under them. Byte 46 is 1 in a table that has
 * forgotten a client, byte 47 counts the lowest ids of the bitmap of which a clear bit says
 * nothing: a client that such a table has no line of may have been there before. 129 there says
 * that nothing is known of what lies above them, either.
 *
 * Invariants:
 * - A line says "durable" only of operations that were recorded with `addOperation`. Ids from 0
 *   down do not exist and count as durable, so that a client that begins with 1 leaves no gap.
 * - An id that was passed over is a gap: not durable. When it leaves the bitmap, `below` begins
 *   again behind it, so a gap is forgotten as "not known", never as "durable".
 * - An id is durable, or not, or forgotten (`mayBeForgotten`): under the bitmap and `below`, or a
 *   clear bit among the lowest that say nothing. "Not durable" is said only of what is not.
 * - Of a client that was forgotten, any id may be forgotten, until it asks for a new one: all that
 *   it did is below that (`forgetUpTo`). What is recorded before, as a lane, a slot or a job still
 *   names it, may be older than what was forgotten, and ends that for no other id.
 * - A line is never read by pieces: one that is torn fails its check code, and counts as absent.
 */

export const OPERATION_CHECKED_AT = 16
export const OPERATION_CHECKED_BYTES = 48
/** Operations of a client that the bitmap names one by one; a power of two. */
export const OPERATION_WINDOW = 128
/** 32-bit words of a line. */
export const OPERATION_LINE_WORDS = 16

// Positions in 32-bit words.
const SEQUENCE = 4
const CLIENT = 6
/** Where the client stands in a line, in 32-bit words: low, then high. */
export const LINE_CLIENT: number = CLIENT
const NEWEST = 8
const BELOW = 10
const BITS = 12
const BITS_WORDS = OPERATION_WINDOW / 32

/** Bounds of what a JavaScript number counts exactly. */
const HIGH_UNIT = 2 ** 32

// The word of `below` that is shared: its upper 16 bits, the mark, the count.
const BELOW_MASK = 0xffff
const FORGETFUL = 1 << 16
const UNSURE_SHIFT = 24
const UNSURE_ONE: number = 1 << UNSURE_SHIFT
const UNSURE_ALL: number = OPERATION_WINDOW + 1

/** A line that names no operation of its client yet. `w` counts 32-bit words, here and below. */
export function blankLine(words: Int32Array, w: number, high: number, low: number): void {
  for (let i = 0; i < OPERATION_LINE_WORDS; i++) words[w + i] = 0
  words[w + CLIENT] = low
  words[w + CLIENT + 1] = high
  if ((low | high) === 0) return
  for (let i = 0; i < BITS_WORDS; i++) words[w + BITS + i] = -1
}

/** Of what its client did up to the newest operation, what is not recorded is forgotten. */
export function forgetBefore(words: Int32Array, w: number): void {
  setUnsure(words, w, OPERATION_WINDOW)
}

/** Of whatever its client did, what is not recorded is forgotten. */
export function forgetAll(words: Int32Array, w: number): void {
  setUnsure(words, w, UNSURE_ALL)
}

/** May any operation be forgotten that is not recorded? So said an older line without a newest. */
export function forgetsAll(words: Int32Array, w: number): boolean {
  const open = unsure(words, w)
  if (open < OPERATION_WINDOW) return false
  return open > OPERATION_WINDOW || (words[w + NEWEST]! | words[w + NEWEST + 1]!) === 0
}

/** Of a line that forgets all: the operation is a new one, so what is forgotten is below it. */
export function forgetUpTo(words: Int32Array, w: number, high: number, low: number): void {
  const before = low === 0 ? high - 1 : high
  const distance = operationsAhead(words, w, before, low - 1)
  if (distance < 0) return
  moveOn(words, w, distance)
  words[w + NEWEST] = low - 1
  words[w + NEWEST + 1] = before
  setUnsure(words, w, before === 0 && low === 1 ? 0 : OPERATION_WINDOW)
}

function unsure(words: Int32Array, w: number): number {
  return words[w + BELOW + 1]! >>> UNSURE_SHIFT
}

function setUnsure(words: Int32Array, w: number, count: number): void {
  const kept = words[w + BELOW + 1]! & (UNSURE_ONE - 1)
  words[w + BELOW + 1] = kept | (count << UNSURE_SHIFT)
}

/** Was it written by a table that has forgotten a client? */
export function lineIsForgetful(words: Int32Array, w: number): boolean {
  return (words[w + BELOW + 1]! & FORGETFUL) !== 0
}

/** Marks a line of a table that has forgotten a client. */
export function markForgetful(words: Int32Array, w: number): void {
  words[w + BELOW + 1]! |= FORGETFUL
}

export function copyLine(words: Int32Array, from: number, to: number): void {
  words.copyWithin(to, from, from + OPERATION_LINE_WORDS)
}

/** Does the line speak of that client? No line does of client 0, which is nobody. */
export function lineIsOf(words: Int32Array, w: number, high: number, low: number): boolean {
  if ((low | high) === 0) return false
  return words[w + CLIENT] === (low | 0) && words[w + CLIENT + 1] === (high | 0)
}

/** Does the line speak of nobody? */
export function lineIsFree(words: Int32Array, w: number): boolean {
  return (words[w + CLIENT]! | words[w + CLIENT + 1]!) === 0
}

/** Low and high word of the client's id. */
export function clientLow(words: Int32Array, w: number): number {
  return words[w + CLIENT]!
}

export function clientHigh(words: Int32Array, w: number): number {
  return words[w + CLIENT + 1]!
}

/** Of two lines of a client the one with the greater sequence is the newer; below 2^53. */
export function lineSequence(words: Int32Array, w: number): number {
  return (words[w + SEQUENCE]! >>> 0) + (words[w + SEQUENCE + 1]! >>> 0) * HIGH_UNIT
}

/** Is its sequence 0, which no line that was stored has? */
export function lineIsVoid(words: Int32Array, w: number): boolean {
  return (words[w + SEQUENCE]! | words[w + SEQUENCE + 1]!) === 0
}

export function setLineSequence(words: Int32Array, w: number, sequence: number): void {
  words[w + SEQUENCE] = (sequence % HIGH_UNIT) | 0
  words[w + SEQUENCE + 1] = Math.floor(sequence / HIGH_UNIT)
}

/** How far the operation is ahead of the newest one; exact as far as it matters. */
function operationsAhead(words: Int32Array, w: number, high: number, low: number): number {
  const highs = (high >>> 0) - (words[w + NEWEST + 1]! >>> 0)
  return highs * HIGH_UNIT + ((low >>> 0) - (words[w + NEWEST]! >>> 0))
}

function below(words: Int32Array, w: number): number {
  return (words[w + BELOW]! >>> 0) + (words[w + BELOW + 1]! & BELOW_MASK) * HIGH_UNIT
}

function setBelow(words: Int32Array, w: number, count: number): void {
  words[w + BELOW] = (count % HIGH_UNIT) | 0
  words[w + BELOW + 1] = (words[w + BELOW + 1]! & ~BELOW_MASK) | Math.floor(count / HIGH_UNIT)
}

function bitWord(w: number, low: number): number {
  return w + BITS + ((low & (OPERATION_WINDOW - 1)) >> 5)
}

/** Records the operation as durable. One that is older than the bitmap cannot be recorded. */
export function addOperation(words: Int32Array, w: number, high: number, low: number): void {
  const next = (words[w + NEWEST]! + 1) | 0
  const marks = words[w + BELOW + 1]!
  const sure = marks >>> UNSURE_SHIFT === 0
  if (sure && next === (low | 0) && next !== 0 && words[w + NEWEST + 1] === (high | 0)) {
    // One behind the other, as nearly all are: `moveOn` by one, without the calls.
    const at = w + BITS + ((low & (OPERATION_WINDOW - 1)) >> 5)
    const bit = 1 << (low & 31)
    const was = words[at]!
    if ((was & bit) === 0) {
      words[w + BELOW] = 0
      words[w + BELOW + 1] = marks & ~BELOW_MASK
      words[at] = was | bit
    } else {
      const count = (words[w + BELOW]! + 1) | 0
      words[w + BELOW] = count
      if (count === 0) words[w + BELOW + 1] = marks + 1
    }
    words[w + NEWEST] = low
    return
  }
  const distance = operationsAhead(words, w, high, low)
  if (distance <= -OPERATION_WINDOW) return
  if (distance > 0) moveOn(words, w, distance)
  words[bitWord(w, low)]! |= 1 << (low & 31)
  if (distance <= 0) return
  words[w + NEWEST] = low
  words[w + NEWEST + 1] = high
}

/** Makes room for `distance` more operations in the bitmap, all of them gaps. */
function moveOn(words: Int32Array, w: number, distance: number): void {
  if (!forgetsAll(words, w)) setUnsure(words, w, Math.max(0, unsure(words, w) - distance))
  if (distance > OPERATION_WINDOW) {
    for (let i = 0; i < BITS_WORDS; i++) words[w + BITS + i] = 0
    setBelow(words, w, 0)
    return
  }
  const newest = words[w + NEWEST]!
  for (let i = 1; i <= distance; i++) {
    // The bit of the new operation is that of the one which leaves the bitmap for it.
    const at = bitWord(w, newest + i)
    const bit = 1 << ((newest + i) & 31)
    if ((words[at]! & bit) !== 0) {
      const low = (words[w + BELOW]! + 1) | 0
      words[w + BELOW] = low
      if (low === 0) words[w + BELOW + 1]! += 1
      words[at]! &= ~bit
    } else setBelow(words, w, 0)
  }
}

/** Is the operation recorded as durable? */
export function knowsOperation(words: Int32Array, w: number, high: number, low: number): boolean {
  const behind = -operationsAhead(words, w, high, low)
  if (behind < 0) return false
  if (behind >= OPERATION_WINDOW) return behind - OPERATION_WINDOW < below(words, w)
  return (words[bitWord(w, low)]! & (1 << (low & 31))) !== 0
}

/** Is nothing known of the operation: neither that it is durable, nor that it is not? */
export function mayBeForgotten(words: Int32Array, w: number, high: number, low: number): boolean {
  const behind = -operationsAhead(words, w, high, low)
  const isSure = behind < 0 || behind < OPERATION_WINDOW - unsure(words, w)
  if (isSure && !forgetsAll(words, w)) return false
  return !knowsOperation(words, w, high, low)
}

/** Takes the operation back: it is not durable after all. What lies under it is forgotten. */
export function dropOperation(words: Int32Array, w: number, high: number, low: number): void {
  const behind = -operationsAhead(words, w, high, low)
  if (!knowsOperation(words, w, high, low)) return
  if (behind >= OPERATION_WINDOW) setBelow(words, w, behind - OPERATION_WINDOW)
  else words[bitWord(w, low)]! &= ~(1 << (low & 31))
}

/**
 * How many operations, counted back from the newest, are not durable or not known to be without a
 * gap from operation 1 on: every operation up to the newest less this many is durable. -1 where
 * nothing of the kind can be said.
 */
export function openOperations(words: Int32Array, w: number): number {
  const newest = (words[w + NEWEST]! >>> 0) + (words[w + NEWEST + 1]! >>> 0) * HIGH_UNIT
  if (below(words, w) < newest - OPERATION_WINDOW) return -1
  const low = words[w + NEWEST]!
  for (let behind = OPERATION_WINDOW - 1; behind >= 0; behind--) {
    const id = low - behind
    if ((words[bitWord(w, id)]! & (1 << (id & 31))) === 0) return behind + 1
  }
  return 0
}

/** Words of the newest operation. */
export function newestLow(words: Int32Array, w: number): number {
  return words[w + NEWEST]! >>> 0
}

export function newestHigh(words: Int32Array, w: number): number {
  return words[w + NEWEST + 1]! >>> 0
}
