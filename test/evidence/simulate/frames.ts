/**
 * Frames of the simulated hosts, written byte by byte from the diagrams: the encoders of firmware,
 * driver and board have no part in them.
 *
 * Invariant: a frame is sealed once and never changes after; its memory belongs to an arena
 * that comes round after many thousand frames, so who keeps a frame for long keeps a copy.
 */

const BTH_AT = 42
/** What stands right behind BTH: RETH, AETH, DETH, PQETH. */
export const HEAD_AT = 54
const BTH_BYTES = 12
const ICRC_BYTES = 4

export const WRITE_FIRST = 0x06
export const WRITE_MIDDLE = 0x07
export const WRITE_LAST = 0x08
export const WRITE_ONLY = 0x0a
export const READ_REQUEST = 0x0c
export const READ_FIRST = 0x0d
export const READ_ONLY = 0x10
export const ACKNOWLEDGE = 0x11
export const ATOMIC_ACK = 0x12
export const COMPARE_SWAP = 0x13
export const FETCH_ADD = 0x14
export const FLUSH = 0x1c
export const ATOMIC_WRITE = 0x1d
export const DATAGRAM = 0x64
export const PERSIST_FIRST = 0xc6
export const PERSIST_MIDDLE = 0xc7
export const PERSIST_LAST = 0xc8
export const PERSIST_ONLY = 0xca
export const QUERY = 0xcd
export const PERSIST_ACK = 0xd1

const ARENA_BYTES = 1 << 23

/** One piece of memory after the other, round and round. */
class Arena {
  private readonly buffer: ArrayBuffer = new ArrayBuffer(ARENA_BYTES)
  private at = 0

  take(length: number): Uint8Array {
    if (this.at + length > ARENA_BYTES) this.at = 0
    const piece = new Uint8Array(this.buffer, this.at, length)
    this.at += (length + 7) & ~7
    return piece
  }
}

const arena = new Arena()

export function put16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 8
  bytes[at + 1] = value
}

export function put24(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 16
  bytes[at + 1] = value >>> 8
  bytes[at + 2] = value
}

export function put32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24
  bytes[at + 1] = value >>> 16
  bytes[at + 2] = value >>> 8
  bytes[at + 3] = value
}

export function get16(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 8) | bytes[at + 1]!
}

export function get24(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!
}

export function get32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | get24(bytes, at + 1)) >>> 0
}

/** The addresses that DPU number `dpu` of a world has. */
export function dpuMac(dpu: number): number[] {
  return [2, 0, 0, 0, 0, 2 + dpu]
}

export function dpuIpv4(dpu: number): number[] {
  return [10, 0, 0, 2 + dpu]
}

/** Ethernet, IPv4 and UDP between one host and one DPU: what all frames between them begin with. */
export class Path {
  private readonly head: Uint8Array = new Uint8Array(BTH_AT)
  private readonly sum: number

  constructor(host: number, dpu: number) {
    const { head } = this
    head.set(dpuMac(dpu), 0)
    head.set([2, 0, 0, 0, 1, host], 6)
    put16(head, 12, 0x0800)
    head.set([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0], 14)
    head.set([10, 0, 1, host], 26)
    head.set(dpuIpv4(dpu), 30)
    put16(head, 34, 0xc000 + host)
    put16(head, 36, 4791)
    let sum = 0
    for (let at = 14; at < 34; at += 2) sum += get16(head, at)
    this.sum = sum
  }

  /** A frame up to BTH, with room for so many bytes of headers and of payload. */
  begin(
    opcode: number,
    queuePair: number,
    psn: number,
    wantsAck: boolean,
    headers: number,
    payload: number,
  ): Uint8Array {
    const pad = -payload & 3
    const total = BTH_AT + BTH_BYTES + headers + payload + pad + ICRC_BYTES
    const frame = arena.take(total)
    frame.set(this.head)
    const length = total - 14
    put16(frame, 16, length)
    put16(frame, 38, length - 20)
    const sum = this.sum + length
    put16(frame, 24, ~((sum & 0xffff) + (sum >>> 16)))
    frame[BTH_AT] = opcode
    frame[BTH_AT + 1] = pad << 4
    frame[BTH_AT + 2] = 0xff
    frame[BTH_AT + 3] = 0xff
    frame[BTH_AT + 4] = 0
    put24(frame, BTH_AT + 5, queuePair)
    frame[BTH_AT + 8] = wantsAck ? 0x80 : 0
    put24(frame, BTH_AT + 9, psn)
    for (let i = 0; i < pad; i++) frame[total - ICRC_BYTES - pad + i] = 0
    return frame
  }
}

/** The remainder of each byte under the polynomial of Ethernet, lowest bit first. */
const REMAINDERS: Int32Array = Int32Array.from({ length: 256 }, (_, byte) => {
  let r = byte
  for (let bit = 0; bit < 8; bit++) r = (r & 1) === 0 ? r >>> 1 : (r >>> 1) ^ 0xedb88320
  return r
})

/** What the ICRC takes for ones: DSCP, time to live, both sums, the resv8a of BTH (annex A17). */
const MASKED = [15, 22, 24, 25, 40, 41, BTH_AT + 4] as const
const IP_AT = 14
const whatStood = new Uint8Array(MASKED.length)

/**
 * Puts the ICRC behind what the datagram says is its length: over eight bytes of ones, and all from
 * the IPv4 header on, some of it masked (IBTA annex A17).
 */
export function seal(frame: Uint8Array): Uint8Array {
  const end = IP_AT + get16(frame, IP_AT + 2) - ICRC_BYTES
  if (end < BTH_AT + BTH_BYTES || end + ICRC_BYTES > frame.length) return frame
  for (let i = 0; i < MASKED.length; i++) {
    whatStood[i] = frame[MASKED[i]!]!
    frame[MASKED[i]!] = 0xff
  }
  let r = -1
  for (let i = 0; i < 8; i++) r = REMAINDERS[(r ^ 0xff) & 0xff]! ^ (r >>> 8)
  for (let at = IP_AT; at < end; at++) r = REMAINDERS[(r ^ frame[at]!) & 0xff]! ^ (r >>> 8)
  for (let i = 0; i < MASKED.length; i++) frame[MASKED[i]!] = whatStood[i]!
  for (let i = 0; i < ICRC_BYTES; i++) frame[end + i] = ~r >>> (8 * i)
  return frame
}

/** RETH right behind BTH. */
export function putReth(
  frame: Uint8Array,
  vaHigh: number,
  vaLow: number,
  rkey: number,
  length: number,
): void {
  put32(frame, HEAD_AT, vaHigh)
  put32(frame, HEAD_AT + 4, vaLow)
  put32(frame, HEAD_AT + 8, rkey)
  put32(frame, HEAD_AT + 12, length)
}

/*
 * What is written into memory: a sequence of words that follows from a number. No two numbers give
 * the same word at the same place, so from any four bytes the whole follows.
 */

function firstWord(uid: number): number {
  return Math.imul(uid ^ 0x5bd1e995, 0x9e3779b1)
}

function nextWord(word: number): number {
  return (Math.imul(word, 1664525) + 1013904223) | 0
}

/** Fills [at, at + length) with what belongs to `uid`. */
export function fillPattern(bytes: Uint8Array, at: number, length: number, uid: number): void {
  let word = firstWord(uid)
  const end = at + length
  let i = at
  for (; i + 4 <= end; i += 4) {
    bytes[i] = word
    bytes[i + 1] = word >>> 8
    bytes[i + 2] = word >>> 16
    bytes[i + 3] = word >>> 24
    word = nextWord(word)
  }
  for (; i < end; i++) {
    bytes[i] = word
    word >>>= 8
  }
}

/** Are these bytes what belongs to `uid`? */
export function isPattern(bytes: Uint8Array, at: number, length: number, uid: number): boolean {
  let word = firstWord(uid)
  const end = at + length
  let i = at
  for (; i + 4 <= end; i += 4) {
    const found = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
    if (found !== word) return false
    word = nextWord(word)
  }
  for (; i < end; i++) {
    if (bytes[i] !== (word & 0xff)) return false
    word >>>= 8
  }
  return true
}

/** Are these bytes zeros? */
export function isBlank(bytes: Uint8Array, at: number, length: number): boolean {
  for (let i = at; i < at + length; i++) if (bytes[i] !== 0) return false
  return true
}
