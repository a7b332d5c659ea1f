/** Notices for the requester's engine, and a plain model of what it has to know. */

import { ASSOCIATIONS } from '../../../firmware/board/limits.ts'
import { ASSOCIATION_BYTES } from '../../../firmware/board/memory-map.ts'
import { type Association, createAssociations } from '../../../firmware/residency/association.ts'
import {
  associated,
  type Blocks,
  createBlocks,
  PHASE_TOLD,
} from '../../../firmware/residency/blocks.ts'
import { isNotice, takeNotice } from '../../../firmware/residency/heard.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import {
  BLOCK_READY,
  blankMseth,
  FORM_BITMAP,
  FORM_LIST,
  type Mseth,
  STATUS_CHANGE,
  STATUS_CURRENT,
} from '../../../firmware/wire/memory-status.ts'

export const PAGE = 4096
export const INCARNATION = 7

/** Associations as those of a part, in memory of their own. */
export function blankAssociations(): Association[] {
  return createAssociations(new ArrayBuffer(ASSOCIATIONS * ASSOCIATION_BYTES), 0)
}

/** Block and whether it is ready. */
export type Entry = readonly [number, boolean]

/** A notice as it goes over the wire. */
interface Notice {
  readonly mseth: Mseth
  readonly bytes: Uint8Array
}

export function changeOf(sequence: number, sizeLog2: number, ...entries: Entry[]): Notice {
  const bytes = new Uint8Array(entries.length * 5)
  entries.forEach(([block, ready], i) => {
    putU32(bytes, i * 5, block)
    bytes[i * 5 + 4] = ready ? BLOCK_READY : 0
  })
  const fields = { kind: STATUS_CHANGE, form: FORM_LIST, entries: entries.length }
  return noticeOf({ ...fields, sequence, blockSizeLog2: sizeLog2 }, bytes)
}

export function currentOf(
  sequence: number,
  sizeLog2: number,
  states: readonly boolean[],
  part: Partial<Mseth> = {},
): Notice {
  const bytes = new Uint8Array(Math.ceil(states.length / 8))
  states.forEach((ready, i) => {
    if (ready) bytes[i >> 3]! |= 0x80 >> (i & 7)
  })
  const fields = { kind: STATUS_CURRENT, form: FORM_BITMAP, entries: states.length }
  return noticeOf({ ...fields, sequence, blockSizeLog2: sizeLog2, ...part }, bytes)
}

export function noticeOf(fields: Partial<Mseth>, bytes: Uint8Array = new Uint8Array(0)): Notice {
  return { mseth: { ...blankMseth(), incarnation: INCARNATION, ...fields }, bytes }
}

/** Hears the notice, whose entries lie somewhere in a frame. */
export function hear(b: Blocks, { mseth, bytes }: Notice, nowUs = 0): number {
  const frame = new Uint8Array(bytes.length + 14).fill(0xee)
  frame.set(bytes, 9)
  if (!isNotice(mseth, frame, 9, bytes.length)) throw new Error('a notice that nobody understands')
  return takeNotice(b, mseth, frame, 9, nowUs)
}

/** So many pages are associated, and their status was told: all are there, or none. */
export function toldBlocks(pages: number, ready: boolean, groupBlocks = 2, sizeLog2 = 12): Blocks {
  const b = createBlocks(64, groupBlocks)
  associated(b, pages * PAGE, INCARNATION)
  const count = Math.ceil((pages * PAGE) / 2 ** sizeLog2)
  hear(b, currentOf(1, sizeLog2, new Array<boolean>(count).fill(ready)))
  if (b.phase !== PHASE_TOLD) throw new Error('the status was not told')
  return b
}

/** State of each block: R, n, or ? where nothing was told. */
export function picture(b: Blocks): string {
  return [...b.states.subarray(0, b.count)].map((state) => 'nR?'[state]!).join('')
}

/** The groups: blocks that are ready, and the flag. */
export function groupsOf(b: Blocks): string[] {
  return Array.from({ length: b.groups }, (_, group) => {
    return `${b.groupReady[group]}${b.groupFlags[group] === 1 ? '!' : ''}`
  })
}

/** Every sequence of `length` letters. */
export function* sequencesOf<T>(letters: readonly T[], length: number): Generator<T[]> {
  const indexes = new Array<number>(length).fill(0)
  for (;;) {
    yield indexes.map((i) => letters[i]!)
    let at = length - 1
    while (at >= 0 && indexes[at] === letters.length - 1) indexes[at--] = 0
    if (at < 0) return
    indexes[at]!++
  }
}
