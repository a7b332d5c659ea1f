/**
 * Reads the ring that perdured writes (boards/linux/src/trace/trace.h), and makes a trace of it.
 *
 * The ring has what happened last, and each store with what was there before. So the part as it is
 * now, with those stores taken back, newest first, is the part as it was where the ring begins.
 * From there on all is played on an emulated part, and a `CardTrace` writes down what happens.
 *
 * Invariants:
 * - Whoever writes the ring may go on meanwhile. The part is read first, then how far the ring is
 *   written, then its entries, and at last which of them are still good.
 * - What is shown begins with a start of the card, or behind a fence, where nothing is pending: the
 *   firmware writes back what it stores before the next fence.
 * - Nothing in the file is believed: an entry that cannot be is refused, with its place.
 */

import { closeSync, openSync, readSync } from 'node:fs'
import { CardTrace, NVDIMM_BYTES_MAX, Nvdimm, PAGE_BYTES } from '../../../boards/emulator/index.ts'
import { DONE, FLUSH_FAILED, NOT_ARMED } from '../../../firmware/board/hal.ts'
import { PerdureError } from '../../base/errors.ts'
import { checkFile } from '../base/system-errors.ts'

const MAGIC = 0x43525450
const VERSION = 1
const AREA_AT = 4096

/** Of what happened last, entries of so many bytes are shown, at most. */
const SHOWN_BYTES = 16 * 2 ** 20

/** A trace of it may be as long as it is. */
const ANY_LENGTH = 2 ** 31 - 1

const FRAME_BYTES_MAX = 16_384

// Kinds of entries, and where their fields are.
const PAD = 0
const START = 1
const CALL = 2
const RECEIVED = 3
const SENT = 4
const STORE = 5
const CLEAN = 6
const FENCED = 7

const KIND_AT = 4
const BODY_AT = 8
const LENGTH_AT = 16
const DATA_AT = 24

interface Head {
  readonly areaBytes: number
  readonly partBytes: number
  readonly partAt: number
  readonly dirtyShutdowns: number
  readonly first: number
  readonly written: number
  readonly board: string
  readonly part: string
}

interface Entry {
  readonly kind: number
  /** Of START and CALL µs, of FENCED how it ended, else a place in the part. */
  readonly value: number
  readonly length: number
  readonly data: Buffer
}

/** Whether it is such a file. */
export function isRing(path: string): boolean {
  const start = readAt(path, 0, 4)
  return start.length === 4 && start.readUInt32LE(0) === MAGIC
}

/**
 * The lines of a trace of what that ring has. `part` is the file of the part, or of its bytes; else
 * that which the ring names. Throws PERDURE_IMAGE where either is not what it must be.
 */
export function traceOfRing(path: string, part?: string): string {
  const before = headOf(path)
  const content = partOf(path, before, part)
  const { written } = headOf(path)
  const area = readAt(path, AREA_AT, before.areaBytes)
  const { first } = headOf(path)
  if (first > before.written && first > 0) {
    throw image(path, 'was overwritten while it was read. Try again, or raise trace-bytes')
  }
  const entries = shownOf(path, entriesOf(path, before, area, first, written))
  takeBack(entries, content)
  return played(before, entries, content)
}

function image(path: string, what: string): PerdureError {
  return new PerdureError('PERDURE_IMAGE', `${path} ${what}.`)
}

/** So many bytes from there on, or as many as there are. */
function readAt(path: string, at: number, length: number): Buffer {
  checkFile(path)
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(length)
    let done = 0
    for (;;) {
      const got = readSync(file, bytes, done, length - done, at + done)
      done += got
      if (got === 0 || done === length) return bytes.subarray(0, done)
    }
  } finally {
    closeSync(file)
  }
}

function headOf(path: string): Head {
  const bytes = readAt(path, 0, AREA_AT)
  if (bytes.length < AREA_AT) throw image(path, 'is too short for the trace of a card')
  const version = bytes.readUInt32LE(4)
  if (version !== VERSION) {
    throw image(path, `is of version ${version}, this command reads ${VERSION}`)
  }
  const number = (at: number): number => Number(bytes.readBigUInt64LE(at))
  const text = (at: number, length: number): string => {
    const all = bytes.subarray(at, at + length)
    const end = all.indexOf(0)
    return all.toString('utf8', 0, end < 0 ? length : end)
  }
  const head: Head = {
    ...{ areaBytes: number(8), partBytes: number(16), partAt: number(24) },
    ...{ dirtyShutdowns: number(32), first: number(40), written: number(48) },
    ...{ board: text(56, 64), part: text(120, 1024) },
  }
  const { areaBytes, first, written, partBytes } = head
  const fits =
    areaBytes >= PAGE_BYTES &&
    areaBytes % 8 === 0 &&
    areaBytes <= 2 ** 30 &&
    first <= written &&
    written - first <= areaBytes &&
    Number.isSafeInteger(written) &&
    head.dirtyShutdowns < 2 ** 32
  if (!fits || partBytes < PAGE_BYTES || partBytes % PAGE_BYTES !== 0) {
    throw image(path, 'is damaged: its first page says what cannot be')
  }
  if (partBytes > NVDIMM_BYTES_MAX) {
    const most = `${NVDIMM_BYTES_MAX} bytes can be played`
    throw image(path, `is of a part of ${partBytes} bytes; at most ${most}`)
  }
  return head
}

/** What the part holds now. */
function partOf(path: string, { part: named, partAt, partBytes }: Head, said?: string): Buffer {
  const advice = `Say where its bytes are with '--part FILE'; ${path} has the stores alone.`
  let found: Buffer
  try {
    found = readAt(said ?? named, said === undefined ? partAt : 0, partBytes)
  } catch (error) {
    if (said !== undefined) throw error
    throw new PerdureError('PERDURE_IMAGE', `The part ${named} cannot be read. ${advice}`, {
      cause: error,
    })
  }
  if (found.length === partBytes) return found
  throw new PerdureError(
    'PERDURE_IMAGE',
    `${said ?? named} has ${found.length} bytes, the part of the trace ${partBytes}. ${advice}`,
  )
}

function entriesOf(path: string, head: Head, area: Buffer, first: number, end: number): Entry[] {
  const entries: Entry[] = []
  let place = first
  while (place < end) {
    const at = place % head.areaBytes
    const bytes = at + BODY_AT <= area.length ? area.readUInt32LE(at) : 0
    const isWhole = bytes >= BODY_AT && bytes % 8 === 0 && at + bytes <= area.length
    const entry = isWhole ? entryOf(area.subarray(at, at + bytes), head.partBytes) : null
    if (entry === null || place + bytes > end) {
      throw image(path, `is damaged: what stands at byte ${AREA_AT + at} is no entry`)
    }
    if (entry.kind !== PAD) entries.push(entry)
    place += bytes
  }
  return entries
}

/** The entry in these bytes; null where it cannot be one. */
function entryOf(bytes: Buffer, partBytes: number): Entry | null {
  const kind = bytes.readUInt32LE(KIND_AT)
  if (kind === PAD) return { kind, value: 0, length: 0, data: bytes }
  if (kind > FENCED || bytes.length < DATA_AT) return null
  const value = Number(bytes.readBigUInt64LE(BODY_AT))
  const length = bytes.readUInt32LE(LENGTH_AT)
  const data = bytes.subarray(DATA_AT)
  const isInside = kind !== STORE && kind !== CLEAN ? true : value + length <= partBytes
  const isFilled = kind !== STORE || data.length === 2 * padded(length)
  const isFrame = kind === RECEIVED || kind === SENT
  if (!isInside || !isFilled || (isFrame && length > FRAME_BYTES_MAX)) return null
  return { kind, value, length, data }
}

function padded(length: number): number {
  return Math.ceil(length / 8) * 8
}

/** Those that are shown: the last ones, from a start or a fence on. */
function shownOf(path: string, entries: readonly Entry[]): readonly Entry[] {
  let from = entries.length
  for (let bytes = 0; from > 0 && bytes <= SHOWN_BYTES; from--) {
    bytes += entries[from - 1]!.data.length + DATA_AT
  }
  if (from === 0 && entries[0]?.kind === START) return entries
  const fence = entries.findIndex((entry, i) => i >= from && isDone(entry))
  if (fence < 0) throw image(path, 'has no fence to begin with: nothing was stored yet')
  return entries.slice(fence + 1)
}

function isDone({ kind, value }: Entry): boolean {
  return kind === FENCED && value === DONE
}

/** Takes the stores back, the newest first: `content` is what it was before the first of them. */
function takeBack(entries: readonly Entry[], content: Buffer): void {
  for (const { kind, value, length, data } of [...entries].reverse()) {
    if (kind === STORE) data.copy(content, value, 0, length)
  }
}

/** The trace of all of that. */
function played(head: Head, entries: readonly Entry[], content: Buffer): string {
  const { partBytes, dirtyShutdowns, board } = head
  const condition = { dirtyShutdowns, saveFailed: false, poisonedLines: [] }
  const part = new Nvdimm({ bytes: partBytes, content, condition })
  const began = entries.find(({ kind }) => kind === START || kind === CALL)?.value ?? 0
  const clock = { nowUs: 0 }
  const lines: string[] = []
  let [coming, frames] = [0, 0]
  const trace = new CardTrace({ write: (line) => lines.push(line), limit: ANY_LENGTH, board })
  trace.attach(part, clock)
  for (const { kind, value, length, data } of entries) {
    if (kind === START || kind === CALL) clock.nowUs = Math.max(clock.nowUs, value - began)
    if (kind === START) trace.power(true)
    if (kind === CALL) coming = frames = length
    if (kind === RECEIVED) {
      trace.frame('in', frameOf(data, length))
      if (--coming === 0) trace.burst(frames)
    }
    if (kind === SENT) trace.frame('out', frameOf(data, length))
    if (kind === STORE) part.store(value, data, padded(length), length)
    if (kind === CLEAN) part.clean(value, length)
    if (kind === FENCED) fence(part, value)
  }
  trace.end()
  return lines.join('')
}

/** The frame, with zeros for what the ring has not kept of it. */
function frameOf(data: Buffer, length: number): Uint8Array {
  const frame = new Uint8Array(length)
  frame.set(data.subarray(0, Math.min(length, data.length)))
  return frame
}

function fence(part: Nvdimm, result: number): void {
  part.armed = result !== NOT_ARMED
  if (result === FLUSH_FAILED) part.fencesToFail = 1
  part.fence()
  part.armed = true
}
