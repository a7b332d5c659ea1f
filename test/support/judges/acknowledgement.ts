/**
 * What a PERSIST_ACK says, read by the judges from the bytes of its frame.
 *
 * Invariant: nothing here is imported from `firmware/`. The byte map is written down a
 * second time (`firmware/doc/wire.md`), so that a mistake in the product's own reading and writing
 * of an acknowledgement does not cancel itself out here.
 */

const TAG = 0x8100
const IPV4 = 0x0800
const PERSIST_ACK = 0xd1
/** Behind BTH: AETH, the header, and the bitmap of a batch. */
const HEADER_AT = 12 + 4
const BITMAP_AT = HEADER_AT + 32
const ALL = 0x80
const OF_BATCH = 0x20
const OF_QUERY = 0x10

export interface Acknowledgement {
  /** The queue pair that it goes to. */
  readonly peer: number
  /** 0 is durable. */
  readonly status: number
  readonly firstPsn: number
  readonly lastPsn: number
  readonly operation: number
  readonly copies: number
  readonly isQuery: boolean
  /** All that it speaks of is durable. */
  readonly all: boolean
  /** The status of a batch: its id, and which records of it are durable; null for none. */
  readonly batch: { readonly id: number; readonly durable: readonly number[] } | null
}

function big(bytes: Uint8Array, at: number, count: number): number {
  let value = 0
  for (let i = 0; i < count; i++) value = value * 256 + bytes[at + i]!
  return value
}

/** Where BTH is in a frame over IPv4 or IPv6, tagged or not. */
function bthIn(frame: Uint8Array): number {
  const ip = big(frame, 12, 2) === TAG ? 18 : 14
  return ip + (big(frame, ip - 2, 2) === IPV4 ? 28 : 48)
}

function durableIn(frame: Uint8Array, at: number, words: number): number[] {
  const records = Array.from({ length: 32 * words }, (_, i) => i)
  return records.filter((i) => (frame[at + (i >> 3)]! & (0x80 >> (i & 7))) !== 0)
}

/** The PERSIST_ACK in a frame, or null. */
export function acknowledgementIn(frame: Uint8Array): Acknowledgement | null {
  const bth = bthIn(frame)
  if (frame[bth] !== PERSIST_ACK) return null
  const at = bth + HEADER_AT
  const flags = frame[at + 1]!
  const durable = durableIn(frame, bth + BITMAP_AT, frame[at + 3]!)
  return {
    peer: big(frame, bth + 5, 3),
    status: frame[at + 2]!,
    firstPsn: big(frame, at + 5, 3),
    lastPsn: big(frame, at + 9, 3),
    operation: big(frame, at + 16, 8),
    copies: frame[at + 28]!,
    isQuery: (flags & OF_QUERY) !== 0,
    all: (flags & ALL) !== 0,
    batch: (flags & OF_BATCH) === 0 ? null : { id: big(frame, at + 12, 2), durable },
  }
}
