// hot path
/**
 * One line of the durable operation table: which operations of one client are durable.
 *
 *    byte  0 +-----------------------------------------------+
 *            | check code over bytes [16, 64), 128 bits      |
 *         16 | sequence (64)         | client (64)           |
 *         32 | newest (64)           | below (64)            |
 *         48 | bitmap of the last 128 operations             |
 *         64 +-----------------------------------------------+
 *
 * Little-endian, 32-bit words; a 64-bit field has its low word first. `newest` is the highest
 * operation id that was recorded. Of the last 128 ids, up to and with it, bit (id & 127) of the
 * bitmap says whether that operation is durable; of the ids right below these, the first `below`
 * are durable, too, and nothing is known of what lies under them.
 *
 * What always holds:
 * - A line says "durable" only of operations that were recorded with `addOperation`. Ids from 0
 *   down do not exist and count as durable, so that a client that begins with 1 leaves no gap.
 * - An id that was passed over is a gap: not durable. When it leaves the bitmap, `below` begins
 *   anew behind it, so a gap is forgotten as "not known", never as "durable".
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

/** A line that names no operation of its client yet. `w` counts 32-bit words, here and below. */
export function blankLine(words: Int32Array, w: number, high: number, low: number): void {
  for (let i = 0; i < OPERATION_LINE_WORDS; i++) words[w + i] = 0
  words[w + CLIENT] = low
  words[w + CLIENT + 1] = high
  if ((low | high) === 0) return
  for (let i = 0; i < BITS_WORDS; i++) words[w + BITS + i] = -1
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
function ahead(words: Int32Array, w: number, high: number, low: number): number {
  const highs = (high >>> 0) - (words[w + NEWEST + 1]! >>> 0)
  return highs * HIGH_UNIT + ((low >>> 0) - (words[w + NEWEST]! >>> 0))
}

function below(words: Int32Array, w: number): number {
  return (words[w + BELOW]! >>> 0) + (words[w + BELOW + 1]! >>> 0) * HIGH_UNIT
}

function setBelow(words: Int32Array, w: number, count: number): void {
  words[w + BELOW] = (count % HIGH_UNIT) | 0
  words[w + BELOW + 1] = Math.floor(count / HIGH_UNIT)
}

function bitWord(w: number, low: number): number {
  return w + BITS + ((low & (OPERATION_WINDOW - 1)) >> 5)
}

/** Records the operation as durable. One that is older than the bitmap cannot be recorded. */
export function addOperation(words: Int32Array, w: number, high: number, low: number): void {
  const next = (words[w + NEWEST]! + 1) | 0
  if (next === (low | 0) && next !== 0 && words[w + NEWEST + 1] === (high | 0)) {
    // One behind the other, as nearly all are: `moveOn` by one, without the calls.
    const at = w + BITS + ((low & (OPERATION_WINDOW - 1)) >> 5)
    const bit = 1 << (low & 31)
    const was = words[at]!
    if ((was & bit) === 0) {
      words[w + BELOW] = 0
      words[w + BELOW + 1] = 0
      words[at] = was | bit
    } else {
      const count = (words[w + BELOW]! + 1) | 0
      words[w + BELOW] = count
      if (count === 0) words[w + BELOW + 1]! += 1
    }
    words[w + NEWEST] = low
    return
  }
  const distance = ahead(words, w, high, low)
  if (distance <= -OPERATION_WINDOW) return
  if (distance > 0) moveOn(words, w, distance)
  words[bitWord(w, low)]! |= 1 << (low & 31)
  if (distance <= 0) return
  words[w + NEWEST] = low
  words[w + NEWEST + 1] = high
}

/** Makes room for `distance` more operations in the bitmap, all of them gaps. */
function moveOn(words: Int32Array, w: number, distance: number): void {
  if (distance > OPERATION_WINDOW) {
    for (let i = 0; i < BITS_WORDS; i++) words[w + BITS + i] = 0
    words[w + BELOW] = 0
    words[w + BELOW + 1] = 0
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
    } else {
      words[w + BELOW] = 0
      words[w + BELOW + 1] = 0
    }
  }
}

/** Is the operation recorded as durable? */
export function knowsOperation(words: Int32Array, w: number, high: number, low: number): boolean {
  const behind = -ahead(words, w, high, low)
  if (behind < 0) return false
  if (behind >= OPERATION_WINDOW) return behind - OPERATION_WINDOW < below(words, w)
  return (words[bitWord(w, low)]! & (1 << (low & 31))) !== 0
}

/** Takes the operation back: it is not durable after all. What lies under it is forgotten. */
export function dropOperation(words: Int32Array, w: number, high: number, low: number): void {
  const behind = -ahead(words, w, high, low)
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
