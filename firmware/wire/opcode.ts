/**
 * The opcodes: one row each, which says what stands in the packet and what it is for.
 *
 * Invariant: the name of a row is its key in the table below, so a name cannot drift from
 * its row; offsets and HAS bits follow from the chain of headers, so they cannot disagree; and a
 * packet whose length satisfies its row (packet.ts) may be read without looking at lengths again.
 */

import { assert } from '../board/assert.ts'
import { AETH_BYTES } from './aeth.ts'
import { ATOMIC_ACK_BYTES, ATOMIC_BYTES } from './atomic.ts'
import { BSETH_BYTES } from './block-size.ts'
import { BTH_BYTES } from './bth.ts'
import { DETH_BYTES } from './deth.ts'
import { FETH_BYTES } from './feth.ts'
import { IETH_BYTES } from './ieth.ts'
import { IMMDT_BYTES } from './immdt.ts'
import { MSETH_BYTES } from './memory-status.ts'
import { PWETH_BYTES } from './persist.ts'
import { PAETH_BYTES } from './persist-ack.ts'
import { PQETH_BYTES } from './persist-query.ts'
import { PFETH_BYTES } from './prefetch.ts'
import { RETH_BYTES } from './reth.ts'

/** Reliable connection (IBTA Vol 1, 9.2 and annex A19). */
export const RC_SEND_FIRST = 0x00
export const RC_SEND_MIDDLE = 0x01
export const RC_SEND_LAST = 0x02
export const RC_SEND_LAST_IMM = 0x03
export const RC_SEND_ONLY = 0x04
export const RC_SEND_ONLY_IMM = 0x05
export const RC_WRITE_FIRST = 0x06
export const RC_WRITE_MIDDLE = 0x07
export const RC_WRITE_LAST = 0x08
export const RC_WRITE_LAST_IMM = 0x09
export const RC_WRITE_ONLY = 0x0a
export const RC_WRITE_ONLY_IMM = 0x0b
export const RC_READ_REQUEST = 0x0c
export const RC_READ_RESPONSE_FIRST = 0x0d
export const RC_READ_RESPONSE_MIDDLE = 0x0e
export const RC_READ_RESPONSE_LAST = 0x0f
export const RC_READ_RESPONSE_ONLY = 0x10
export const RC_ACKNOWLEDGE = 0x11
export const RC_ATOMIC_ACK = 0x12
export const RC_COMPARE_SWAP = 0x13
export const RC_FETCH_ADD = 0x14
export const RC_SEND_LAST_INV = 0x16
export const RC_SEND_ONLY_INV = 0x17
export const RC_FLUSH = 0x1c
export const RC_ATOMIC_WRITE = 0x1d

/** Unreliable datagram: QP 1 only. */
export const UD_SEND_ONLY = 0x64
export const UD_SEND_ONLY_IMM = 0x65

/** Congestion notification (IBTA annex A17). */
export const CNP = 0x81

/** Ours, in the manufacturer's range; the low five bits are those of the RC operation alike. */
export const MEMORY_STATUS = 0xc4
export const ASSOCIATE = 0xc5
export const WRITE_PERSIST_FIRST = 0xc6
export const WRITE_PERSIST_MIDDLE = 0xc7
export const WRITE_PERSIST_LAST = 0xc8
export const WRITE_PERSIST_ONLY = 0xca
export const PREFETCH_HINT = 0xcc
export const PERSIST_QUERY = 0xcd
export const PERSIST_ACK = 0xd1
export const BLOCK_SIZE = 0xd8
export const BLOCK_SIZE_ANSWER = 0xd9

/** A set of properties; a type of its own, so that an opcode cannot be taken for one. */
export type OpcodeMask = number & { readonly unit: 'opcode mask' }

/** Place in the message. ONLY stands for every message of one packet. */
export const FIRST = 0x1 as OpcodeMask
export const MIDDLE = 0x2 as OpcodeMask
export const LAST = 0x4 as OpcodeMask
export const ONLY = 0x8 as OpcodeMask

/** Direction: whose sequence space it is in. A congestion notification is in neither. */
export const REQUEST = 0x10 as OpcodeMask
export const RESPONSE = 0x20 as OpcodeMask

/** Which memory is ready, and what follows from it (source 5): a kind of operation, too. */
export const RESIDENCY = 0x40 as OpcodeMask

/** Kind of operation; no opcode is of two kinds. A response has the kind of its request. */
export const WRITE = 0x100 as OpcodeMask
export const READ = 0x200 as OpcodeMask
export const SEND = 0x400 as OpcodeMask
export const ATOMIC = 0x800 as OpcodeMask
export const ATOMIC_WRITE = 0x1000 as OpcodeMask
export const FLUSH = 0x2000 as OpcodeMask
export const PERSIST = 0x4000 as OpcodeMask
export const QUERY = 0x8000 as OpcodeMask

/** Headers behind BTH. */
export const HAS_RETH = 0x10000 as OpcodeMask
export const HAS_AETH = 0x20000 as OpcodeMask
export const HAS_PWETH = 0x40000 as OpcodeMask
export const HAS_PAETH = 0x80000 as OpcodeMask
export const HAS_DETH = 0x100000 as OpcodeMask
export const HAS_IMM = 0x200000 as OpcodeMask
export const HAS_ATOMIC = 0x400000 as OpcodeMask
export const HAS_ATOMIC_ACK = 0x800000 as OpcodeMask
export const HAS_IETH = 0x1000000 as OpcodeMask
export const HAS_FETH = 0x2000000 as OpcodeMask
export const HAS_PQETH = 0x4000000 as OpcodeMask
export const HAS_MSETH = 0x8000000 as OpcodeMask
export const HAS_BSETH = 0x10000000 as OpcodeMask
export const HAS_PFETH = 0x20000000 as OpcodeMask

/** Whether `mask` has `flag`; of several flags, any. */
export function has(mask: OpcodeMask, flag: OpcodeMask): boolean {
  return (mask & flag) !== 0
}

/** Payload rules: how many bytes the packet carries, M being the path MTU. */
export const PAYLOAD_NONE = 0
/** Exactly M. */
export const PAYLOAD_FULL = 1
/** 1 to M. */
export const PAYLOAD_SOME = 2
/** 0 to M. */
export const PAYLOAD_ANY = 3
/** Exactly 8. */
export const PAYLOAD_EIGHT = 4

/** One opcode. Offsets count from the first byte of BTH; 0 says that the header is absent. */
export interface OpcodeRow {
  readonly name: string
  readonly opcode: number
  readonly transport: 'rc' | 'ud' | 'cnp'
  /** BTH and the headers behind it, without extensions. */
  readonly headerBytes: number
  /** One of the PAYLOAD rules. */
  readonly payload: number
  readonly properties: OpcodeMask
  /** Is it the first packet of its message (First, Only); is it the last (Last, Only)? */
  readonly begins: boolean
  readonly ends: boolean
  readonly rethAt: number
  readonly aethAt: number
  readonly pwethAt: number
  readonly paethAt: number
  readonly dethAt: number
  readonly immAt: number
  readonly atomicAt: number
  readonly atomicAckAt: number
  readonly iethAt: number
  readonly fethAt: number
  readonly pqethAt: number
  readonly msethAt: number
  readonly bsethAt: number
  readonly pfethAt: number
}

/** The headers that may follow BTH: the field with its offset, its length and its bit. */
const HEADERS = {
  reth: { field: 'rethAt', length: RETH_BYTES, flag: HAS_RETH },
  aeth: { field: 'aethAt', length: AETH_BYTES, flag: HAS_AETH },
  pweth: { field: 'pwethAt', length: PWETH_BYTES, flag: HAS_PWETH },
  paeth: { field: 'paethAt', length: PAETH_BYTES, flag: HAS_PAETH },
  deth: { field: 'dethAt', length: DETH_BYTES, flag: HAS_DETH },
  imm: { field: 'immAt', length: IMMDT_BYTES, flag: HAS_IMM },
  atomic: { field: 'atomicAt', length: ATOMIC_BYTES, flag: HAS_ATOMIC },
  atomicAck: { field: 'atomicAckAt', length: ATOMIC_ACK_BYTES, flag: HAS_ATOMIC_ACK },
  ieth: { field: 'iethAt', length: IETH_BYTES, flag: HAS_IETH },
  feth: { field: 'fethAt', length: FETH_BYTES, flag: HAS_FETH },
  pqeth: { field: 'pqethAt', length: PQETH_BYTES, flag: HAS_PQETH },
  mseth: { field: 'msethAt', length: MSETH_BYTES, flag: HAS_MSETH },
  bseth: { field: 'bsethAt', length: BSETH_BYTES, flag: HAS_BSETH },
  pfeth: { field: 'pfethAt', length: PFETH_BYTES, flag: HAS_PFETH },
} as const

type Header = keyof typeof HEADERS

interface Shape {
  readonly opcode: number
  readonly properties: number
  readonly payload: number
  readonly chain: readonly Header[]
}

function opcodeRow(opcode: number, properties: number, payload: number, ...chain: Header[]): Shape {
  return { opcode, properties, payload, chain }
}

const WRITES = REQUEST | WRITE
const SENDS = REQUEST | SEND
const READ_DATA = RESPONSE | READ
const PERSISTS = REQUEST | PERSIST
const RESIDENCIES = REQUEST | RESIDENCY | ONLY
const SIZE_ANSWER = RESPONSE | RESIDENCY | ONLY

const NONE = PAYLOAD_NONE
const FULL = PAYLOAD_FULL
const SOME = PAYLOAD_SOME
const ANY = PAYLOAD_ANY
const EIGHT = PAYLOAD_EIGHT

/** Each opcode: properties, payload, the headers behind BTH (IBTA Vol 1, 9.2, 9.3; annex A19). */
const SHAPES: Readonly<Record<string, Shape>> = {
  'RC SEND First': opcodeRow(RC_SEND_FIRST, SENDS | FIRST, FULL),
  'RC SEND Middle': opcodeRow(RC_SEND_MIDDLE, SENDS | MIDDLE, FULL),
  'RC SEND Last': opcodeRow(RC_SEND_LAST, SENDS | LAST, SOME),
  'RC SEND Last with Immediate': opcodeRow(RC_SEND_LAST_IMM, SENDS | LAST, SOME, 'imm'),
  'RC SEND Only': opcodeRow(RC_SEND_ONLY, SENDS | ONLY, ANY),
  'RC SEND Only with Immediate': opcodeRow(RC_SEND_ONLY_IMM, SENDS | ONLY, ANY, 'imm'),
  'RC RDMA WRITE First': opcodeRow(RC_WRITE_FIRST, WRITES | FIRST, FULL, 'reth'),
  'RC RDMA WRITE Middle': opcodeRow(RC_WRITE_MIDDLE, WRITES | MIDDLE, FULL),
  'RC RDMA WRITE Last': opcodeRow(RC_WRITE_LAST, WRITES | LAST, SOME),
  'RC RDMA WRITE Last with Immediate': opcodeRow(RC_WRITE_LAST_IMM, WRITES | LAST, SOME, 'imm'),
  'RC RDMA WRITE Only': opcodeRow(RC_WRITE_ONLY, WRITES | ONLY, ANY, 'reth'),
  'RC RDMA WRITE Only with Immediate': opcodeRow(
    RC_WRITE_ONLY_IMM,
    WRITES | ONLY,
    ANY,
    'reth',
    'imm',
  ),
  'RC RDMA READ Request': opcodeRow(RC_READ_REQUEST, REQUEST | READ | ONLY, NONE, 'reth'),
  'RC RDMA READ Response First': opcodeRow(RC_READ_RESPONSE_FIRST, READ_DATA | FIRST, FULL, 'aeth'),
  'RC RDMA READ Response Middle': opcodeRow(RC_READ_RESPONSE_MIDDLE, READ_DATA | MIDDLE, FULL),
  'RC RDMA READ Response Last': opcodeRow(RC_READ_RESPONSE_LAST, READ_DATA | LAST, SOME, 'aeth'),
  'RC RDMA READ Response Only': opcodeRow(RC_READ_RESPONSE_ONLY, READ_DATA | ONLY, ANY, 'aeth'),
  'RC Acknowledge': opcodeRow(RC_ACKNOWLEDGE, RESPONSE | ONLY, NONE, 'aeth'),
  'RC ATOMIC Acknowledge': opcodeRow(
    RC_ATOMIC_ACK,
    RESPONSE | ATOMIC | ONLY,
    NONE,
    'aeth',
    'atomicAck',
  ),
  'RC CmpSwap': opcodeRow(RC_COMPARE_SWAP, REQUEST | ATOMIC | ONLY, NONE, 'atomic'),
  'RC FetchAdd': opcodeRow(RC_FETCH_ADD, REQUEST | ATOMIC | ONLY, NONE, 'atomic'),
  'RC SEND Last with Invalidate': opcodeRow(RC_SEND_LAST_INV, SENDS | LAST, SOME, 'ieth'),
  'RC SEND Only with Invalidate': opcodeRow(RC_SEND_ONLY_INV, SENDS | ONLY, ANY, 'ieth'),
  'RC FLUSH': opcodeRow(RC_FLUSH, REQUEST | FLUSH | ONLY, NONE, 'feth', 'reth'),
  'RC ATOMIC WRITE': opcodeRow(RC_ATOMIC_WRITE, REQUEST | ATOMIC_WRITE | ONLY, EIGHT, 'reth'),
  'UD SEND Only': opcodeRow(UD_SEND_ONLY, SENDS | ONLY, ANY, 'deth'),
  'UD SEND Only with Immediate': opcodeRow(UD_SEND_ONLY_IMM, SENDS | ONLY, ANY, 'deth', 'imm'),
  CNP: opcodeRow(CNP, ONLY, ANY),
  'Perdure MEMORY_STATUS': opcodeRow(MEMORY_STATUS, RESIDENCIES, ANY, 'mseth'),
  'Perdure ASSOCIATE': opcodeRow(ASSOCIATE, RESIDENCIES, NONE, 'reth', 'bseth'),
  'Perdure WRITE_PERSIST First': opcodeRow(
    WRITE_PERSIST_FIRST,
    PERSISTS | FIRST,
    FULL,
    'reth',
    'pweth',
  ),
  'Perdure WRITE_PERSIST Middle': opcodeRow(WRITE_PERSIST_MIDDLE, PERSISTS | MIDDLE, FULL),
  'Perdure WRITE_PERSIST Last': opcodeRow(WRITE_PERSIST_LAST, PERSISTS | LAST, SOME),
  'Perdure WRITE_PERSIST Only': opcodeRow(
    WRITE_PERSIST_ONLY,
    PERSISTS | ONLY,
    ANY,
    'reth',
    'pweth',
  ),
  'Perdure PREFETCH_HINT': opcodeRow(PREFETCH_HINT, RESIDENCIES, NONE, 'reth', 'pfeth'),
  'Perdure PERSIST_QUERY': opcodeRow(PERSIST_QUERY, REQUEST | QUERY | ONLY, NONE, 'pqeth'),
  'Perdure PERSIST_ACK': opcodeRow(PERSIST_ACK, RESPONSE | PERSIST | ONLY, ANY, 'aeth', 'paeth'),
  'Perdure BLOCK_SIZE': opcodeRow(BLOCK_SIZE, RESIDENCIES, NONE, 'reth', 'bseth'),
  'Perdure BLOCK_SIZE Answer': opcodeRow(BLOCK_SIZE_ANSWER, SIZE_ANSWER, NONE, 'aeth', 'bseth'),
}

function transportOf(opcode: number): OpcodeRow['transport'] {
  if (opcode === CNP) return 'cnp'
  return opcode >> 5 === UD_SEND_ONLY >> 5 ? 'ud' : 'rc'
}

function rowOf(name: string, { opcode, properties, payload, chain }: Shape): OpcodeRow {
  const places = {
    rethAt: 0,
    aethAt: 0,
    pwethAt: 0,
    paethAt: 0,
    dethAt: 0,
    immAt: 0,
    atomicAt: 0,
    atomicAckAt: 0,
    iethAt: 0,
    fethAt: 0,
    pqethAt: 0,
    msethAt: 0,
    bsethAt: 0,
    pfethAt: 0,
  }
  let headerBytes = BTH_BYTES
  let mask = properties
  for (const header of chain) {
    const { field, length, flag } = HEADERS[header]
    places[field] = headerBytes
    headerBytes += length
    mask |= flag
  }
  const transport = transportOf(opcode)
  return {
    name,
    opcode,
    transport,
    headerBytes,
    payload,
    properties: mask as OpcodeMask,
    begins: (mask & (FIRST | ONLY)) !== 0,
    ends: (mask & (LAST | ONLY)) !== 0,
    ...places,
  }
}

/** The row of each opcode, by its number; undefined where the number means nothing to us. */
export const OPCODES: readonly (OpcodeRow | undefined)[] = table()

function table(): (OpcodeRow | undefined)[] {
  const rows = new Array<OpcodeRow | undefined>(256).fill(undefined)
  for (const [name, one] of Object.entries(SHAPES)) {
    assert(rows[one.opcode] === undefined, `two rows of opcode ${one.opcode}`)
    rows[one.opcode] = rowOf(name, one)
  }
  return rows
}
