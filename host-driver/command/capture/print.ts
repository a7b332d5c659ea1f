/**
 * A packet in one line, for people: what `perdure capture` shows.
 *
 * Invariant: the line starts with the name of the opcode, queue pair and PSN; the other
 * headers and the bytes of payload follow. Numbers that are names (keys, addresses, queue pairs)
 * are hex, numbers that count are decimal. It judges nothing: odd values are shown as they are.
 *
 *   WRITE_PERSIST Only qp 0x11 psn 256 va 0x700000000 key 0x1234 64 B op 7 wait 2 slot
 */

import { FAULTS, PASS } from '../../../firmware/board/fault.ts'
import {
  blankAeth,
  KIND_ACK,
  KIND_RNR,
  readAeth,
  SYNDROME_KIND,
} from '../../../firmware/wire/aeth.ts'
import {
  blankAtomic,
  blankAtomicAck,
  readAtomic,
  readAtomicAck,
} from '../../../firmware/wire/atomic.ts'
import { type Bseth, blankBseth, readBseth } from '../../../firmware/wire/block-size.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { blankDeth, readDeth } from '../../../firmware/wire/deth.ts'
import {
  blankFeth,
  PLACEMENT_GLOBAL,
  PLACEMENT_PERSISTENT,
  readFeth,
  SELECT_REGION,
} from '../../../firmware/wire/feth.ts'
import { blankIeth, readIeth } from '../../../firmware/wire/ieth.ts'
import { blankImmdt, readImmdt } from '../../../firmware/wire/immdt.ts'
import * as management from '../../../firmware/wire/management.ts'
import { blankMseth, FORM_BITMAP, readMseth } from '../../../firmware/wire/memory-status.ts'
import type { OpcodeRow } from '../../../firmware/wire/opcode.ts'
import type { Packet } from '../../../firmware/wire/packet.ts'
import {
  blankPweth,
  CONDITION_EXPECT,
  EXPECT_EXTENSION_BYTES,
  extensionBytes,
  GUARD_EXTENSION_BYTES,
  PWETH_BYTES,
  type Pweth,
  readPweth,
} from '../../../firmware/wire/persist.ts'
import {
  BITMAP_WORDS_MAX,
  blankPaeth,
  isInBitmap,
  PAETH_BYTES,
  type Paeth,
  readBitmap,
  readPaeth,
  STATUS_DURABLE,
} from '../../../firmware/wire/persist-ack.ts'
import { blankPqeth, QUERY_NOT_KNOWN, readPqeth } from '../../../firmware/wire/persist-query.ts'
import { blankPfeth, readPfeth } from '../../../firmware/wire/prefetch.ts'
import { blankReth, readReth } from '../../../firmware/wire/reth.ts'
import {
  ATTRIBUTE_NAMES,
  CONDITION_NAMES,
  HINT_NAMES,
  METHOD_NAMES,
  NAK_NAMES,
  NOTICE_NAMES,
  nameOfRow,
  SIZE_STATUS_NAMES,
  STATUS_NAMES,
} from './names.ts'
import { hex, printCm } from './print-cm.ts'

/** One line about a packet that `checkPacket` passed, without the end of line. */
export function printPacket(packet: Packet, bytes: Uint8Array): string {
  const { row, bthAt } = packet
  const words = [opcodeNameOf(packet), 'qp', hex(packet.destQp), 'psn', String(packet.psn)]
  if (row === null) return words.join(' ')
  if (row.dethAt !== 0) printDeth(words, bytes, bthAt + row.dethAt)
  if (row.fethAt !== 0) printFeth(words, bytes, bthAt + row.fethAt)
  if (row.atomicAt !== 0) printAtomic(words, bytes, bthAt + row.atomicAt)
  if (row.aethAt !== 0) printAeth(words, bytes, bthAt + row.aethAt)
  if (row.msethAt !== 0) printMseth(words, bytes, bthAt + row.msethAt)
  if (row.rethAt !== 0) printReth(words, bytes, bthAt + row.rethAt)
  else if (packet.payloadLength !== 0) words.push(String(packet.payloadLength), 'B')
  if (row.pwethAt !== 0) printPweth(words, bytes, bthAt + row.pwethAt)
  if (row.pqethAt !== 0) printPqeth(words, bytes, bthAt + row.pqethAt)
  if (row.bsethAt !== 0) printBseth(words, bytes, bthAt, row)
  if (row.pfethAt !== 0) printPfeth(words, bytes, bthAt + row.pfethAt)
  if (row.paethAt !== 0) printPaeth(words, bytes, bthAt + row.paethAt, packet.payloadLength)
  if (row.atomicAckAt !== 0) printAtomicAck(words, bytes, bthAt + row.atomicAckAt)
  if (row.iethAt !== 0) printIeth(words, bytes, bthAt + row.iethAt)
  if (row.immAt !== 0) printImmdt(words, bytes, bthAt + row.immAt)
  if (row.dethAt !== 0) printMad(words, bytes, packet)
  return words.join(' ')
}

function opcodeNameOf({ row, opcode }: Packet): string {
  return row === null ? `reserved opcode ${hex(opcode)}` : nameOfRow(row)
}

/** Two unsigned halves as one hex number. */
function hex64(high: number, low: number): string {
  return high === 0 ? hex(low) : hex(high) + low.toString(16).padStart(8, '0')
}

/** Two unsigned halves as one decimal number, or hex beyond what is exact. */
function count64(high: number, low: number): string {
  const v = high * 2 ** 32 + low
  return Number.isSafeInteger(v) ? String(v) : hex64(high, low)
}

function printReth(words: string[], bytes: Uint8Array, at: number): void {
  const reth = blankReth()
  readReth(reth, bytes, at)
  words.push('va', hex64(reth.vaHigh, reth.vaLow), 'key', hex(reth.rkey), String(reth.length), 'B')
}

function printAeth(words: string[], bytes: Uint8Array, at: number): void {
  const aeth = blankAeth()
  readAeth(aeth, bytes, at)
  const kind = aeth.syndrome & SYNDROME_KIND
  const value = aeth.syndrome & 31
  if (kind === KIND_ACK) words.push('ACK')
  else if (kind === KIND_RNR) words.push('not ready, timer', String(value))
  else words.push('NAK', NAK_NAMES.get(aeth.syndrome) ?? hex(aeth.syndrome))
  words.push('msn', String(aeth.msn))
}

function printPweth(words: string[], bytes: Uint8Array, at: number): void {
  const pweth = blankPweth()
  readPweth(pweth, bytes, at)
  words.push('op', count64(pweth.operationHigh, pweth.operationLow), 'wait', String(pweth.wait))
  if (pweth.slotAddressed) words.push('slot')
  if (pweth.carried) words.push('carried', String(pweth.furtherCopies + 1))
  if (pweth.batch) printMember(words, bytes, at, pweth)
  if (pweth.urgent) words.push('urgent')
  if (pweth.repetition) words.push('repetition')
  if (pweth.guarded) {
    const from = at + PWETH_BYTES + extensionBytes(bytes, at) - GUARD_EXTENSION_BYTES
    words.push('guard', hex(u32(bytes, from)))
  }
}

function printMember(words: string[], bytes: Uint8Array, at: number, pweth: Pweth): void {
  const { batchId, batchIndex, batchCount, condition } = pweth
  words.push('batch', String(batchId), `${batchIndex + 1}/${batchCount}`)
  words.push(CONDITION_NAMES.get(condition) ?? `condition ${condition}`)
  if (condition === CONDITION_EXPECT) {
    const guard = pweth.guarded ? GUARD_EXTENSION_BYTES : 0
    const from = at + PWETH_BYTES + extensionBytes(bytes, at) - guard - EXPECT_EXTENSION_BYTES
    words.push(count64(u32(bytes, from), u32(bytes, from + 4)))
  }
  if (pweth.message) words.push('message')
  if (pweth.lastOfBatch) words.push('last')
}

function printPqeth(words: string[], bytes: Uint8Array, at: number): void {
  const pqeth = blankPqeth()
  readPqeth(pqeth, bytes, at)
  words.push('op', count64(pqeth.operationHigh, pqeth.operationLow))
  if (pqeth.batch) words.push('batch', String(pqeth.batchId))
}

function printPaeth(words: string[], bytes: Uint8Array, at: number, length: number): void {
  const paeth = blankPaeth()
  readPaeth(paeth, bytes, at)
  words.push(statusName(paeth.status), `${paeth.firstPsn}-${paeth.lastPsn}`)
  words.push('op', count64(paeth.operationHigh, paeth.operationLow))
  words.push('records', String(paeth.records), 'copies', String(paeth.copies))
  words.push('incarnation', String(paeth.incarnation))
  if (paeth.batch) words.push(`batch ${paeth.batchId}: ${batchText(paeth, bytes, at, length)}`)
  if (paeth.query) words.push('answers a query')
  if (paeth.cumulative) words.push('cumulative')
}

/** What became of the records of a batch: `12 of 32 durable, first refusal CONDITION`. */
function batchText(paeth: Paeth, bytes: Uint8Array, at: number, length: number): string {
  const { batchCount, bitmapWords, status } = paeth
  const words = Math.min(bitmapWords, BITMAP_WORDS_MAX, length >> 2)
  if (words === 0) return 'none of its records told'
  const bitmap = new Uint32Array(BITMAP_WORDS_MAX)
  readBitmap(bitmap, bytes, at + PAETH_BYTES, words)
  let durable = 0
  for (let index = 0; index < batchCount; index++) if (isInBitmap(bitmap, index)) durable++
  const told = `${durable} of ${batchCount} durable`
  const isRefused = status !== STATUS_DURABLE && status !== QUERY_NOT_KNOWN
  return isRefused ? `${told}, first refusal ${statusName(status)}` : told
}

function statusName(status: number): string {
  return STATUS_NAMES.get(status) ?? `status ${hex(status)}`
}

function printMseth(words: string[], bytes: Uint8Array, at: number): void {
  const mseth = blankMseth()
  readMseth(mseth, bytes, at)
  words.push(NOTICE_NAMES.get(mseth.kind) ?? `kind ${mseth.kind}`, 'key', hex(mseth.rkey))
  words.push('sequence', String(mseth.sequence), 'incarnation', String(mseth.incarnation))
  words.push('blocks of', sizeName(mseth.blockSizeLog2), 'entries', String(mseth.entries))
  if (mseth.form === FORM_BITMAP) words.push('from', String(mseth.firstBlock))
  if (mseth.positive) words.push('positive')
  if (mseth.negative) words.push('negative')
  if (mseth.more) words.push('more follows')
}

function printBseth(words: string[], bytes: Uint8Array, bthAt: number, row: OpcodeRow): void {
  const bseth = blankBseth()
  readBseth(bseth, bytes, bthAt + row.bsethAt)
  const answers = row.aethAt !== 0
  if (answers) words.push(SIZE_STATUS_NAMES.get(bseth.status) ?? `status ${bseth.status}`)
  words.push('blocks of', bseth.blockSizeLog2 === 0 ? 'any size' : sizeName(bseth.blockSizeLog2))
  if (bseth.commit) words.push('in force')
  if (bseth.optIn) words.push('opt in')
  if (bseth.optOut) words.push('opt out')
  if (bseth.current) words.push('status wanted')
  words.push('period', String(bseth.periodUs), 'threshold', String(bseth.threshold))
  words.push('maximum', String(bseth.maximum))
  if (bseth.criteria) printCriteria(words, bseth)
}

/** What a requester says of itself. */
function printCriteria(words: string[], { leastLog2, mostLog2, budgetLog2 }: Bseth): void {
  if (leastLog2 !== 0) words.push('takes blocks from', sizeName(leastLog2))
  if (mostLog2 !== 0) words.push('to', sizeName(mostLog2))
  if (budgetLog2 !== 0) words.push('notices at most', `${sizeName(budgetLog2)}/s`)
}

function printPfeth(words: string[], bytes: Uint8Array, at: number): void {
  const pfeth = blankPfeth()
  readPfeth(pfeth, bytes, at)
  words.push(HINT_NAMES.get(pfeth.op) ?? `operation ${pfeth.op}`)
  if (pfeth.priority !== 0) words.push('priority', String(pfeth.priority))
  if (pfeth.deadlineUs !== 0) words.push('within', String(pfeth.deadlineUs))
  if (pfeth.stride > 1) words.push('stride', String(pfeth.stride))
}

/** A size of blocks, which is a power of two: `64 KiB`. */
function sizeName(log2: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const unit = Math.min(Math.floor(log2 / 10), units.length - 1)
  return `${2 ** (log2 - 10 * unit)} ${units[unit]}`
}

function printFeth(words: string[], bytes: Uint8Array, at: number): void {
  const feth = blankFeth()
  readFeth(feth, bytes, at)
  if ((feth.placement & PLACEMENT_PERSISTENT) !== 0) words.push('persistent')
  if ((feth.placement & PLACEMENT_GLOBAL) !== 0) words.push('visible')
  if (feth.selectivity === SELECT_REGION) words.push('whole region')
}

function printAtomic(words: string[], bytes: Uint8Array, at: number): void {
  const atomic = blankAtomic()
  readAtomic(atomic, bytes, at)
  words.push('va', hex64(atomic.vaHigh, atomic.vaLow), 'key', hex(atomic.rkey))
  words.push('operand', hex64(atomic.swapHigh, atomic.swapLow))
  words.push('compare', hex64(atomic.compareHigh, atomic.compareLow))
}

function printAtomicAck(words: string[], bytes: Uint8Array, at: number): void {
  const ack = blankAtomicAck()
  readAtomicAck(ack, bytes, at)
  words.push('original', hex64(ack.originalHigh, ack.originalLow))
}

function printIeth(words: string[], bytes: Uint8Array, at: number): void {
  const ieth = blankIeth()
  readIeth(ieth, bytes, at)
  words.push('invalidate', hex(ieth.rkey))
}

function printImmdt(words: string[], bytes: Uint8Array, at: number): void {
  const immdt = blankImmdt()
  readImmdt(immdt, bytes, at)
  words.push('immediate', hex(immdt.immediate))
}

function printDeth(words: string[], bytes: Uint8Array, at: number): void {
  const deth = blankDeth()
  readDeth(deth, bytes, at)
  words.push('from', hex(deth.sourceQp))
}

function printMad(words: string[], bytes: Uint8Array, packet: Packet): void {
  if (printCm(words, bytes, packet.payloadAt, packet.payloadLength)) return
  if (management.madFault(bytes, packet.payloadAt, packet.payloadLength) !== PASS) return
  const mad = management.blankMad()
  management.readMad(mad, bytes, packet.payloadAt)
  words.push(METHOD_NAMES.get(mad.method) ?? hex(mad.method))
  words.push(ATTRIBUTE_NAMES.get(mad.attribute) ?? hex(mad.attribute))
  if (mad.modifier !== 0) words.push('modifier', String(mad.modifier))
  if (mad.fault !== PASS) words.push('refused:', FAULTS[mad.fault]?.name ?? String(mad.fault))
  words.push('transaction', hex64(mad.transactionHigh, mad.transactionLow))
  if (!management.isSealed(bytes, packet.payloadAt)) return
  const at = packet.payloadAt + management.MAD_BODY
  words.push('sealed in session', hex(u32(bytes, at + management.SEALED_SESSION)))
  const low = u32(bytes, at + management.SEALED_COUNTER_LOW)
  words.push('number', String(u32(bytes, at + management.SEALED_COUNTER_HIGH) * 2 ** 32 + low))
}
