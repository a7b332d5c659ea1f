/**
 * What the dissector shows of each header, and under which names.
 *
 * Invariant: a field that a record gains does not compile until somebody has decided about it here.
 * Where it stands is asked of the reader (place.ts).
 */

import { AETH_BYTES, blankAeth, readAeth } from '../../../../firmware/wire/aeth.ts'
import {
  ATOMIC_ACK_BYTES,
  ATOMIC_BYTES,
  blankAtomic,
  blankAtomicAck,
  readAtomic,
  readAtomicAck,
} from '../../../../firmware/wire/atomic.ts'
import { BSETH_BYTES, blankBseth, readBseth } from '../../../../firmware/wire/block-size.ts'
import { blankDeth, DETH_BYTES, readDeth } from '../../../../firmware/wire/deth.ts'
import { blankFeth, FETH_BYTES, readFeth } from '../../../../firmware/wire/feth.ts'
import { blankIeth, IETH_BYTES, readIeth } from '../../../../firmware/wire/ieth.ts'
import { blankImmdt, IMMDT_BYTES, readImmdt } from '../../../../firmware/wire/immdt.ts'
import { blankMad, MAD_BODY, readMad } from '../../../../firmware/wire/management.ts'
import { blankMseth, MSETH_BYTES, readMseth } from '../../../../firmware/wire/memory-status.ts'
import {
  ADDRESS_EXTENSION_BYTES,
  blankPweth,
  PWETH_BYTES,
  readPweth,
} from '../../../../firmware/wire/persist.ts'
import { blankPaeth, PAETH_BYTES, readPaeth } from '../../../../firmware/wire/persist-ack.ts'
import { blankPqeth, PQETH_BYTES, readPqeth } from '../../../../firmware/wire/persist-query.ts'
import { blankPfeth, PFETH_BYTES, readPfeth } from '../../../../firmware/wire/prefetch.ts'
import { blankReth, RETH_BYTES, readReth } from '../../../../firmware/wire/reth.ts'
import * as names from '../names.ts'
import { CM_HEADERS } from './cm-headers.ts'
import { type Header, headerOf, shown, wide } from './header.ts'

const RKEY = shown('rkey', 'R_Key', { hex: true })
const VA = wide('va', 'Virtual address', 'vaLow', { hex: true })
const OPERATION = wide('op', 'Operation id', 'operationLow')
const VERSION = shown('version', 'Version')
const WORDS = shown('words', 'Length in words')
const INCARNATION = shown('incarnation', 'Incarnation of the part')
const BATCH = shown('batch', 'Of a batch')
const BATCH_ID = shown('batch.id', 'Batch', { only: 'batch' })
const BATCH_COUNT = shown('batch.count', 'Records in the batch', { only: 'batch' })
const PRIORITY = shown('priority', 'Priority')

const STANDARD: Readonly<Record<string, Header>> = {
  reth: headerOf('RETH', blankReth, readReth, RETH_BYTES, {
    vaHigh: VA,
    vaLow: null,
    rkey: RKEY,
    length: shown('length', 'Bytes of the message'),
  }),
  aeth: headerOf('AETH', blankAeth, readAeth, AETH_BYTES, {
    syndrome: shown('syndrome', 'Syndrome', { hex: true }),
    msn: shown('msn', 'Messages completed'),
  }),
  deth: headerOf('DETH', blankDeth, readDeth, DETH_BYTES, {
    qkey: shown('qkey', 'Q_Key', { hex: true }),
    sourceQp: shown('source_qp', 'From queue pair', { hex: true }),
  }),
  imm: headerOf('Immediate data', blankImmdt, readImmdt, IMMDT_BYTES, {
    immediate: shown('immediate', 'Immediate', { hex: true }),
  }),
  ieth: headerOf('IETH', blankIeth, readIeth, IETH_BYTES, {
    rkey: shown('invalidate', 'Key to invalidate', { hex: true }),
  }),
  feth: headerOf('FETH', blankFeth, readFeth, FETH_BYTES, {
    placement: shown('flush.placement', 'Placement', { names: names.PLACEMENT_NAMES }),
    selectivity: shown('flush.selectivity', 'What is flushed', { names: names.SELECT_NAMES }),
    reserved: null,
  }),
  atomic: headerOf('Atomic ETH', blankAtomic, readAtomic, ATOMIC_BYTES, {
    vaHigh: VA,
    vaLow: null,
    rkey: RKEY,
    swapHigh: wide('atomic.swap', 'Swap or add', 'swapLow', { hex: true }),
    swapLow: null,
    compareHigh: wide('atomic.compare', 'Compare', 'compareLow', { hex: true }),
    compareLow: null,
  }),
  atomicAck: headerOf('Atomic ACK ETH', blankAtomicAck, readAtomicAck, ATOMIC_ACK_BYTES, {
    originalHigh: wide('atomic.original', 'Original', 'originalLow', { hex: true }),
    originalLow: null,
  }),
}

const OF_RECORDS: Readonly<Record<string, Header>> = {
  pweth: headerOf('Persistent write', blankPweth, readPweth, PWETH_BYTES, {
    version: VERSION,
    words: WORDS,
    wait: shown('wait', 'Durable copies to wait for'),
    slotAddressed: shown('slot_addressed', 'Addressed by slot'),
    carried: shown('carried', 'Carries every copy'),
    batch: BATCH,
    wantsAck: shown('wants_ack', 'PERSIST_ACK wanted'),
    urgent: shown('urgent', 'Urgent'),
    repetition: shown('repetition', 'Repetition'),
    condition: shown('batch.condition', 'Condition', {
      names: names.CONDITION_NAMES,
      only: 'batch',
    }),
    lastOfBatch: shown('batch.last', 'Last of the batch', { only: 'batch' }),
    oneStatus: shown('batch.one_status', 'One status for all', { only: 'batch' }),
    message: shown('batch.message', 'Message for a receive', { only: 'batch' }),
    priority: PRIORITY,
    guarded: shown('guarded', 'Brings a guard'),
    furtherCopies: shown('further_copies', 'Further copies carried'),
    batchId: BATCH_ID,
    batchIndex: shown('batch.index', 'Place in the batch', { only: 'batch' }),
    batchCount: BATCH_COUNT,
    operationHigh: OPERATION,
    operationLow: null,
    reserved: null,
  }),
  /** One of a carried record, laid out as RETH. */
  extension: headerOf('Further copy', blankReth, readReth, ADDRESS_EXTENSION_BYTES, {
    vaHigh: wide('copy.va', 'Virtual address', 'vaLow', { hex: true }),
    vaLow: null,
    rkey: shown('copy.rkey', 'R_Key', { hex: true }),
    length: shown('copy.length', 'Bytes'),
  }),
  paeth: headerOf('Persist ACK', blankPaeth, readPaeth, PAETH_BYTES, {
    version: VERSION,
    words: WORDS,
    all: shown('all', 'All of the range are durable'),
    cumulative: shown('cumulative', 'All up to the operation id are durable'),
    batch: BATCH,
    query: shown('query', 'Answers a query'),
    degraded: shown('degraded', 'In a degraded domain'),
    status: shown('status', 'Status', { names: names.STATUS_NAMES }),
    bitmapWords: shown('batch.bitmap_words', 'Words of the bitmap'),
    firstPsn: shown('first_psn', 'First PSN of the range'),
    lastPsn: shown('last_psn', 'Last PSN of the range'),
    batchId: BATCH_ID,
    batchDurable: shown('batch.durable_to', 'Durable without a gap up to', { only: 'batch' }),
    batchCount: BATCH_COUNT,
    operationHigh: OPERATION,
    operationLow: null,
    incarnation: INCARNATION,
    copies: shown('copies', 'Durable copies'),
    mechanism: shown('mechanism', 'Durable by', { names: names.MECHANISM_NAMES }),
    records: shown('records', 'Records in the range'),
  }),
  pqeth: headerOf('Persist query', blankPqeth, readPqeth, PQETH_BYTES, {
    version: VERSION,
    words: WORDS,
    batch: BATCH,
    batchId: BATCH_ID,
    operationHigh: OPERATION,
    operationLow: null,
    reserved: null,
  }),
}

const OF_MEMORY: Readonly<Record<string, Header>> = {
  mseth: headerOf('Memory status', blankMseth, readMseth, MSETH_BYTES, {
    version: VERSION,
    words: WORDS,
    kind: shown('memory.kind', 'Kind', { names: names.NOTICE_NAMES }),
    positive: shown('memory.positive', 'Granted'),
    negative: shown('memory.negative', 'Not granted'),
    more: shown('memory.more', 'More of it follows'),
    health: shown('memory.health', 'Health', { names: names.HEALTH_NAMES }),
    rkey: RKEY,
    sequence: shown('memory.sequence', 'Sequence'),
    incarnation: INCARNATION,
    blockSizeLog2: shown('block.size_log2', 'Block size, log2'),
    form: shown('memory.form', 'Form of the entries', { names: names.FORM_NAMES }),
    entries: shown('memory.entries', 'Entries'),
    firstBlock: shown('memory.first_block', 'First block'),
    energy: shown('memory.energy', 'Energy, thousandths'),
    holdUpMs: shown('memory.hold_up', 'Hold-up time, ms'),
    temperature: shown('memory.temperature', 'Temperature, °C'),
    lifeUsed: shown('memory.life_used', 'Life used, %'),
    inFlight: shown('memory.in_flight', 'Records in flight, suggested'),
    reserved: null,
  }),
  bseth: headerOf('Block size', blankBseth, readBseth, BSETH_BYTES, {
    version: VERSION,
    words: WORDS,
    commit: shown('block.commit', 'In force from here on'),
    optIn: shown('block.opt_in', 'Opts in to notices'),
    optOut: shown('block.opt_out', 'Opts out of notices'),
    current: shown('block.current', 'Asks for the status'),
    status: shown('block.status', 'Answer', { names: names.SIZE_STATUS_NAMES }),
    blockSizeLog2: shown('block.size_log2', 'Block size, log2'),
    leastLog2: shown('block.least_log2', 'Least, log2'),
    mostLog2: shown('block.most_log2', 'Most, log2'),
    alignmentLog2: shown('block.alignment_log2', 'Alignment, log2', { unless: 'criteria' }),
    criteria: shown('block.criteria', 'Criteria are said'),
    budgetLog2: shown('block.budget_log2', 'Notices, bytes per second, log2', { only: 'criteria' }),
    maximum: shown('block.maximum', 'Notifications of one message'),
    threshold: shown('block.threshold', 'Threshold, memory actions'),
    periodUs: shown('block.period', 'Period, µs', { scaled: true }),
    reserved: null,
  }),
  pfeth: headerOf('Prefetch hint', blankPfeth, readPfeth, PFETH_BYTES, {
    version: VERSION,
    words: WORDS,
    op: shown('hint', 'Hint', { names: names.HINT_NAMES }),
    priority: PRIORITY,
    deadlineUs: shown('hint.deadline', 'Deadline, µs'),
    stride: shown('hint.stride', 'Stride, blocks'),
    reserved: null,
  }),
}

const OF_CALLS: Readonly<Record<string, Header>> = {
  mad: headerOf('Control call', blankMad, readMad, MAD_BODY, {
    method: shown('method', 'Method', { names: names.METHOD_NAMES }),
    status: shown('mad_status', 'Status of the datagram', { hex: true }),
    transactionHigh: wide('transaction', 'Transaction', 'transactionLow', { hex: true }),
    transactionLow: null,
    attribute: shown('attribute', 'Attribute', { names: names.ATTRIBUTE_NAMES }),
    modifier: shown('modifier', 'Modifier'),
    fault: shown('fault', 'Refused as', { names: names.FAULT_NAMES }),
  }),
}

/** Every header; those of a packet by the names that `OpcodeRow` has for their places. */
export const HEADERS: Readonly<Record<string, Header>> = {
  ...STANDARD,
  ...OF_RECORDS,
  ...OF_MEMORY,
  ...OF_CALLS,
  ...CM_HEADERS,
}
