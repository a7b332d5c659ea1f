/**
 * The packets of a request, as frames: opcode, extended headers, and its part of the payload.
 *
 * Invariant: a packet of the same place and PSN is the same to the byte, however often it
 * is sent, except for a READ that is taken up again, which asks for the rest only (wire-format
 * 3.8).
 */

import type { Tags } from '../../boards/software/tags.ts'
import { requestOpcode } from '../../firmware/transport/request-opcode.ts'
import { FLUSH, READ, type Request } from '../../firmware/transport/requester.ts'
import { writeAtomic } from '../../firmware/wire/atomic.ts'
import { writeBseth } from '../../firmware/wire/block-size.ts'
import { BTH_BYTES } from '../../firmware/wire/bth.ts'
import { putU32 } from '../../firmware/wire/bytes.ts'
import { writeFeth } from '../../firmware/wire/feth.ts'
import { writeIeth } from '../../firmware/wire/ieth.ts'
import { writeImmdt } from '../../firmware/wire/immdt.ts'
import { OPCODES, type OpcodeRow, PAYLOAD_NONE } from '../../firmware/wire/opcode.ts'
import {
  ADDRESS_EXTENSION_BYTES,
  blankPweth,
  EXPECT_EXTENSION_BYTES,
  GUARD_EXTENSION_BYTES,
  type Pweth,
  writePweth,
} from '../../firmware/wire/persist.ts'
import { blankPqeth, writePqeth } from '../../firmware/wire/persist-query.ts'
import { writePfeth } from '../../firmware/wire/prefetch.ts'
import { writeReth } from '../../firmware/wire/reth.ts'
import { high, low } from '../base/wide.ts'
import type { Endpoint } from '../base/wire.ts'
import type { HeapRequest } from '../way/jobs.ts'
import { beginFrame, FRAME_BTH_AT, seal } from './frames.ts'

const NO_BYTES = new Uint8Array(0)

/** The flow that a request belongs to. */
export interface Flow {
  readonly own: Endpoint
  readonly peer: Endpoint
  /** Number of our queue pair, and of the peer's. */
  readonly number: number
  readonly destQp: number
  readonly pathMtu: number
  /** FLUSH gets the ICRC that Linux computes (wire-format 2.5). */
  readonly linuxPeer: boolean
  /** Tags of its packets; null: they have none. */
  readonly tags: Tags | null
}

/** Packet `index` of a request. */
export function requestFrame(
  flow: Flow,
  work: HeapRequest,
  request: Request,
  index: number,
  psn: number,
  ackRequest: boolean,
): Uint8Array {
  const opcode = requestOpcode(request.kind, index, request.packetCount)
  const row = OPCODES[opcode]!
  const isRead = request.kind === READ
  const payload = work.data ?? NO_BYTES
  const offset = index * flow.pathMtu
  const left = row.payload === PAYLOAD_NONE ? 0 : payload.length - offset
  const extensions = (row.pwethAt > 0 && work.extensions) || []
  const expect = row.pwethAt > 0 ? work.batch?.expect : undefined
  const guard = row.pwethAt > 0 ? (work.guard ?? 0) : 0
  const extensionBytes =
    extensions.length * ADDRESS_EXTENSION_BYTES +
    (expect === undefined ? 0 : EXPECT_EXTENSION_BYTES) +
    (guard === 0 ? 0 : GUARD_EXTENSION_BYTES)
  const frame = beginFrame(flow.own, flow.peer, {
    opcode,
    destQp: flow.destQp,
    psn,
    ackRequest,
    solicited: work.solicited === true && index === request.packetCount - 1,
    flow: flow.number,
    headerBytes: row.headerBytes - BTH_BYTES + extensionBytes,
    payload,
    payloadAt: offset,
    payloadLength: Math.min(flow.pathMtu, left),
    tagged: flow.tags !== null,
  })
  if (request.escape) writeNowhere(frame, row)
  else writeHeaders(frame, row, work, isRead ? offset : 0)
  for (const [i, extension] of extensions.entries()) {
    writeReth(frame, FRAME_BTH_AT + row.headerBytes + i * ADDRESS_EXTENSION_BYTES, extension)
  }
  if (expect !== undefined) {
    putU32(frame, FRAME_BTH_AT + row.headerBytes, high(expect))
    putU32(frame, FRAME_BTH_AT + row.headerBytes + 4, low(expect))
  }
  if (guard !== 0) {
    const end = FRAME_BTH_AT + row.headerBytes + extensionBytes
    putU32(frame, end - GUARD_EXTENSION_BYTES, guard)
  }
  return seal(frame, request.kind === FLUSH && flow.linuxPeer, flow.tags)
}

/** The extended headers; `skipped` bytes of a READ are here already. */
function writeHeaders(frame: Uint8Array, row: OpcodeRow, work: HeapRequest, skipped: number): void {
  const at = FRAME_BTH_AT
  const { rkey = 0, address = 0n, operation = 0n, compare = 0n, immediate = 0, batchId } = work
  if (row.rethAt > 0) {
    const va = address + BigInt(skipped)
    const { data = NO_BYTES, length: named = data.length } = work
    const length = named - skipped
    writeReth(frame, at + row.rethAt, { vaHigh: high(va), vaLow: low(va), rkey, length })
  }
  if (row.pwethAt > 0) writePweth(frame, at + row.pwethAt, persistHeader(work))
  if (row.fethAt > 0) {
    const { placement = 0, selectivity = 0 } = work
    writeFeth(frame, at + row.fethAt, { placement, selectivity, reserved: 0 })
  }
  if (row.bsethAt > 0) writeBseth(frame, at + row.bsethAt, work.bseth!)
  if (row.pfethAt > 0) writePfeth(frame, at + row.pfethAt, work.pfeth!)
  if (row.immAt > 0) writeImmdt(frame, at + row.immAt, { immediate })
  if (row.iethAt > 0) writeIeth(frame, at + row.iethAt, { rkey: immediate })
  if (row.pqethAt > 0) {
    writePqeth(frame, at + row.pqethAt, {
      ...blankPqeth(),
      operationHigh: high(operation),
      operationLow: low(operation),
      batch: batchId !== undefined,
      batchId: batchId ?? 0,
    })
  }
  if (row.atomicAt > 0) {
    writeAtomic(frame, at + row.atomicAt, {
      vaHigh: high(address),
      vaLow: low(address),
      rkey,
      swapHigh: high(operation),
      swapLow: low(operation),
      compareHigh: high(compare),
      compareLow: low(compare),
    })
  }
}

/** The header that makes a request a record; a batch is answered by one status. */
export function persistHeader(work: HeapRequest): Pweth {
  const { operation = 0n, batch } = work
  const header = blankPweth()
  header.wait = work.wait ?? 1
  header.message = work.message === true
  header.slotAddressed = work.addressed !== true && !header.message
  header.carried = work.carried === true
  header.furtherCopies = work.furtherCopies ?? 0
  header.wantsAck = true
  header.guarded = (work.guard ?? 0) !== 0
  header.repetition = work.repetition === true
  header.operationHigh = high(operation)
  header.operationLow = low(operation)
  if (batch === undefined) return header
  header.batch = true
  header.oneStatus = true
  header.batchId = batch.id
  header.batchIndex = batch.index
  header.batchCount = batch.count
  header.condition = batch.condition
  header.lastOfBatch = batch.left === 0
  return header
}

/** A READ of no bytes needs neither key nor address (IBTA C9-88). */
function writeNowhere(frame: Uint8Array, row: OpcodeRow): void {
  writeReth(frame, FRAME_BTH_AT + row.rethAt, { vaHigh: 0, vaLow: 0, rkey: 0, length: 0 })
}
