/**
 * A part as version 2 of the format laid it out, from its byte map:
 *
 *     page of the superblock   24 version, 2    112 zeros: there was no `former`
 *     line of the table        40 below (64), no marks
 *
 * The lines of a client were written in turn: the one of the greater sequence counts, and the other
 * is one group behind.
 *
 * All else is as it is now.
 */

import {
  CLIENTS,
  LINE_BYTES,
  OPERATIONS_AT,
  PAGE_BYTES,
  sealClientLine,
  sealPage,
} from '../judges/oracle.ts'

const VERSION_AT = 24
const FORMER_AT = 112
const SEQUENCE_AT = 16
const NEWEST_AT = 32
const MARKS_AT = 46
const BITS_AT = 48

/** The content of a part of this version, as one of version 2 would have it. */
export function asVersion2(content: Uint8Array): Uint8Array {
  const part = content.slice()
  for (const at of [0, PAGE_BYTES]) {
    const page = part.subarray(at, at + PAGE_BYTES)
    page[VERSION_AT] = 2
    page.fill(0, FORMER_AT, FORMER_AT + 8)
    sealPage(page)
  }
  for (let client = 0; client < CLIENTS; client++) {
    const at = OPERATIONS_AT + 2 * client * LINE_BYTES
    const newer = part.subarray(at, at + LINE_BYTES)
    if (newer.every((byte) => byte === 0)) continue
    newer.fill(0, MARKS_AT, BITS_AT)
    sealClientLine(newer)
    groupBefore(newer, part.subarray(at + LINE_BYTES, at + 2 * LINE_BYTES))
  }
  return part
}

/** The other line: of the group before, which had one operation less; or there was none. */
function groupBefore(newer: Uint8Array, older: Uint8Array): void {
  older.set(newer)
  const view = new DataView(older.buffer, older.byteOffset)
  const newest = view.getUint32(NEWEST_AT, true)
  view.setUint32(SEQUENCE_AT, view.getUint32(SEQUENCE_AT, true) - 1, true)
  view.setUint32(NEWEST_AT, newest - 1, true)
  sealClientLine(older)
  if (newest === 1) older.fill(0)
}
