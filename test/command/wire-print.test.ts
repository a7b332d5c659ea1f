/**
 * The line that people see of a packet.
 */

import { describe, expect, test } from 'vitest'
import { NO_REGION, PASS } from '../../firmware/board/fault.ts'
import { blankReq, CM_REQ, writeIds, writeReq } from '../../firmware/wire/cm.ts'
import {
  ATTRIBUTE_CONNECT,
  ATTRIBUTE_OPEN,
  blankMad,
  MAD_BYTES,
  METHOD_RESPONSE,
  METHOD_SET,
  STATUS_REFUSED,
  writeMad,
} from '../../firmware/wire/management.ts'
import {
  ASSOCIATE,
  BLOCK_SIZE,
  BLOCK_SIZE_ANSWER,
  MEMORY_STATUS,
  OPCODES,
  PERSIST_ACK,
  PERSIST_QUERY,
  PREFETCH_HINT,
  RC_ACKNOWLEDGE,
  RC_COMPARE_SWAP,
  RC_FLUSH,
  RC_WRITE_LAST_IMM,
  UD_SEND_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_ONLY,
} from '../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket } from '../../firmware/wire/packet.ts'
import { blankReth } from '../../firmware/wire/reth.ts'
import { printPacket } from '../../host-driver/command/capture/print.ts'
import { message } from '../support/wire/cm.ts'
import { type FrameParts, frameOf } from '../support/wire/frames.ts'
import { VECTORS } from '../support/wire/vectors.ts'

function lineOf(bytes: Uint8Array): string {
  const packet = blankPacket()
  expect(checkPacket(packet, bytes, 0, bytes.length)).toBe(PASS)
  return printPacket(packet, bytes)
}

function printed(name: string, parts: FrameParts, line: string): void {
  test(`${name} is shown in one line`, () => expect(lineOf(frameOf(parts))).toBe(line))
}

function datagram(fields: Partial<ReturnType<typeof blankMad>>): Uint8Array {
  const mad = new Uint8Array(MAD_BYTES)
  writeMad(mad, 0, { ...blankMad(), ...fields })
  return mad
}

describe('a packet', () => {
  printed(
    'a persist',
    {
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: 0x11, psn: 256 },
      reth: { vaHigh: 7, vaLow: 0, rkey: 0x1234, length: 64 },
      pweth: { wait: 2, slotAddressed: true, operationLow: 7 },
      payload: new Uint8Array(64),
    },
    'WRITE_PERSIST Only qp 0x11 psn 256 va 0x700000000 key 0x1234 64 B op 7 wait 2 slot',
  )

  printed(
    'a carried persist of a batch',
    {
      bth: { opcode: WRITE_PERSIST_FIRST, destQp: 0x11, psn: 256 },
      reth: { vaLow: 0x1000, rkey: 0x1234, length: 2048 },
      pweth: {
        ...{ carried: true, furtherCopies: 1, urgent: true, operationHigh: 0xffffffff },
        ...{ batch: true, batchId: 9, batchIndex: 2, batchCount: 5 },
      },
      extensions: [blankReth()],
      payload: new Uint8Array(1024),
    },
    'WRITE_PERSIST First qp 0x11 psn 256 va 0x1000 key 0x1234 2048 B op 0xffffffff00000000 ' +
      'wait 1 carried 2 batch 9 3/5 independent urgent',
  )

  printed(
    'an acknowledgement of durability',
    {
      bth: { opcode: PERSIST_ACK, destQp: 0x21, psn: 259 },
      aeth: { msn: 4 },
      paeth: {
        firstPsn: 256,
        lastPsn: 259,
        operationLow: 10,
        records: 4,
        copies: 2,
        incarnation: 3,
      },
    },
    'PERSIST_ACK qp 0x21 psn 259 ACK msn 4 durable 256-259 op 10 records 4 copies 2 incarnation 3',
  )

  printed(
    'a persist that was not made durable',
    { bth: { opcode: PERSIST_ACK }, paeth: { status: 0x85 } },
    'PERSIST_ACK qp 0x0 psn 0 ACK msn 0 NOT_ARMED 0-0 op 0 records 0 copies 0 incarnation 0',
  )

  printed(
    'a repetition of what may have been executed',
    {
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: 0x11, psn: 256 },
      reth: { vaHigh: 7, rkey: 0x1234, length: 64 },
      pweth: { wait: 2, slotAddressed: true, operationLow: 7, repetition: true },
      payload: new Uint8Array(64),
    },
    'WRITE_PERSIST Only qp 0x11 psn 256 va 0x700000000 key 0x1234 64 B op 7 wait 2 slot repetition',
  )

  printed(
    'the refusal of one that is forgotten',
    { bth: { opcode: PERSIST_ACK }, paeth: { status: 0x98, operationLow: 7 } },
    'PERSIST_ACK qp 0x0 psn 0 ACK msn 0 OPERATION_FORGOTTEN 0-0 op 7 records 0 copies 0 ' +
      'incarnation 0',
  )

  printed(
    'the last record of a batch in order',
    {
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: 0x11, psn: 256 },
      reth: { vaHigh: 7, rkey: 0x1234, length: 64 },
      pweth: {
        ...{ slotAddressed: true, operationLow: 7, batch: true, batchId: 9, batchIndex: 255 },
        ...{ batchCount: 256, condition: 1, lastOfBatch: true },
      },
      payload: new Uint8Array(64),
    },
    'WRITE_PERSIST Only qp 0x11 psn 256 va 0x700000000 key 0x1234 64 B op 7 wait 1 slot ' +
      'batch 9 256/256 in order last',
  )

  printed(
    'a message of a batch',
    {
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: 0x11, psn: 256 },
      reth: { length: 8 },
      pweth: { operationLow: 7, batch: true, message: true, batchId: 9, batchCount: 2 },
      payload: new Uint8Array(8),
    },
    'WRITE_PERSIST Only qp 0x11 psn 256 va 0x0 key 0x0 8 B op 7 wait 1 ' +
      'batch 9 1/2 independent message',
  )

  for (const [condition, expected, told] of [
    [2, 5n, 'expect 5'],
    [7, undefined, 'condition 7'],
  ] as const) {
    printed(
      `a record of a batch with the condition ${condition}`,
      {
        bth: { opcode: WRITE_PERSIST_ONLY },
        pweth: { slotAddressed: true, batch: true, batchId: 9, batchCount: 2, condition },
        ...(expected !== undefined && { expect: expected }),
      },
      'WRITE_PERSIST Only qp 0x0 psn 0 va 0x0 key 0x0 0 B op 0 wait 1 slot ' +
        `batch 9 1/2 ${told}`,
    )
  }

  /** The status of a batch of 40 records, of which the first bytes of the bitmap are as given. */
  const statusOf = (status: number, bitmap: readonly number[]): FrameParts => ({
    bth: { opcode: PERSIST_ACK, destQp: 0x21, psn: 259 },
    paeth: {
      ...{ batch: true, batchId: 7, batchCount: 40, status, bitmapWords: bitmap.length / 4 },
      ...{ firstPsn: 259, lastPsn: 259, records: 12, copies: 2, incarnation: 3 },
    },
    payload: Uint8Array.from(bitmap),
  })

  printed(
    'the status of a batch of which some records were refused',
    statusOf(0x86, [0xff, 0xe0, 0, 0, 0x80, 0, 0, 0xff]),
    'PERSIST_ACK qp 0x21 psn 259 ACK msn 0 8 B CONDITION 259-259 op 0 records 12 copies 2 ' +
      'incarnation 3 batch 7: 12 of 40 durable, first refusal CONDITION',
  )

  printed(
    'the status of a batch that is durable',
    statusOf(0, new Array(8).fill(0xff)),
    'PERSIST_ACK qp 0x21 psn 259 ACK msn 0 8 B durable 259-259 op 0 records 12 copies 2 ' +
      'incarnation 3 batch 7: 40 of 40 durable',
  )

  printed(
    'a question about a batch',
    { bth: { opcode: PERSIST_QUERY }, pqeth: { batch: true, batchId: 7 } },
    'PERSIST_QUERY qp 0x0 psn 0 op 0 batch 7',
  )

  printed(
    'its answer, where the batch is not known',
    statusOf(2, []),
    'PERSIST_ACK qp 0x21 psn 259 ACK msn 0 not known to be durable 259-259 op 0 records 12 ' +
      'copies 2 incarnation 3 batch 7: none of its records told',
  )

  printed(
    'a refusal',
    { bth: { opcode: RC_ACKNOWLEDGE, destQp: 0x21, psn: 7 }, aeth: { syndrome: 0x62, msn: 6 } },
    'Acknowledge qp 0x21 psn 7 NAK remote access msn 6',
  )

  printed(
    'a receiver that is not ready',
    { bth: { opcode: RC_ACKNOWLEDGE }, aeth: { syndrome: 0x2c } },
    'Acknowledge qp 0x0 psn 0 not ready, timer 12 msn 0',
  )

  printed(
    'a FLUSH',
    {
      bth: { opcode: RC_FLUSH, psn: 9 },
      feth: { placement: 3, selectivity: 1 },
      reth: { rkey: 0xffffffff },
    },
    'FLUSH qp 0x0 psn 9 persistent visible whole region va 0x0 key 0xffffffff 0 B',
  )

  printed(
    'an atomic operation',
    {
      bth: { opcode: RC_COMPARE_SWAP },
      atomic: { vaHigh: 1, vaLow: 8, rkey: 2, swapLow: 3, compareLow: 4 },
    },
    'CmpSwap qp 0x0 psn 0 va 0x100000008 key 0x2 operand 0x3 compare 0x4',
  )

  printed(
    'the end of a WRITE with immediate data',
    { bth: { opcode: RC_WRITE_LAST_IMM }, imm: { immediate: 0xbeef }, payload: new Uint8Array(5) },
    'RDMA WRITE Last with Immediate qp 0x0 psn 0 5 B immediate 0xbeef',
  )

  printed(
    'a request of the control call',
    {
      bth: { opcode: UD_SEND_ONLY, destQp: 1 },
      deth: { sourceQp: 0x31 },
      payload: datagram({ method: METHOD_SET, attribute: ATTRIBUTE_CONNECT, transactionLow: 5 }),
    },
    'UD SEND Only qp 0x1 psn 0 from 0x31 256 B SET CONNECT transaction 0x5',
  )

  printed(
    'a control call that was refused',
    {
      bth: { opcode: UD_SEND_ONLY, destQp: 0x31 },
      payload: datagram({
        ...{ method: METHOD_RESPONSE, attribute: ATTRIBUTE_OPEN, status: STATUS_REFUSED },
        ...{ fault: NO_REGION, modifier: 2, transactionHigh: 1 },
      }),
    },
    'UD SEND Only qp 0x31 psn 0 from 0x1 256 B response OPEN modifier 2 refused: NO_REGION ' +
      'transaction 0x100000000',
  )

  printed(
    'PERSIST_QUERY',
    { bth: { opcode: PERSIST_QUERY, destQp: 0x11, psn: 3 }, pqeth: { operationLow: 7 } },
    'PERSIST_QUERY qp 0x11 psn 3 op 7',
  )

  printed(
    'a PERSIST_ACK that answers a query',
    {
      bth: { opcode: PERSIST_ACK, destQp: 0x21, psn: 3 },
      aeth: { msn: 1 },
      paeth: { ...{ firstPsn: 3, lastPsn: 3, operationLow: 7, status: 2 }, query: true },
    },
    'PERSIST_ACK qp 0x21 psn 3 ACK msn 1 not known to be durable 3-3 op 7 records 0 copies 0 ' +
      'incarnation 0 answers a query',
  )

  printed(
    'a question about the state of memory',
    {
      bth: { opcode: ASSOCIATE, destQp: 0x11, psn: 3 },
      reth: { vaHigh: 1, rkey: 0x1234, length: 65_536 },
      bseth: { ...{ blockSizeLog2: 16, optIn: true, current: true }, periodUs: 1000 },
    },
    'ASSOCIATE qp 0x11 psn 3 va 0x100000000 key 0x1234 65536 B blocks of 64 KiB opt in ' +
      'status wanted period 1000 threshold 0 maximum 256',
  )

  printed(
    'one with criteria (S1-M12)',
    {
      bth: { opcode: ASSOCIATE, destQp: 0x11, psn: 3 },
      reth: { vaHigh: 1, rkey: 0x1234, length: 65_536 },
      bseth: { blockSizeLog2: 0, criteria: true, leastLog2: 13, mostLog2: 20, budgetLog2: 16 },
    },
    'ASSOCIATE qp 0x11 psn 3 va 0x100000000 key 0x1234 65536 B blocks of any size ' +
      'period 0 threshold 0 maximum 256 takes blocks from 8 KiB to 1 MiB notices at most 64 KiB/s',
  )

  printed(
    'its answer',
    {
      bth: { opcode: BLOCK_SIZE_ANSWER, destQp: 0x21, psn: 3 },
      aeth: { syndrome: 0x1f, msn: 1 },
      bseth: { ...{ status: 1, blockSizeLog2: 0, optOut: true }, maximum: 1 },
    },
    'BLOCK_SIZE Answer qp 0x21 psn 3 ACK msn 1 offered blocks of any size opt out period 0 ' +
      'threshold 0 maximum 1',
  )

  printed(
    'a size in force that no memory has',
    {
      bth: { opcode: BLOCK_SIZE, destQp: 0x21, psn: 3 },
      bseth: { blockSizeLog2: 63, commit: true },
    },
    'BLOCK_SIZE qp 0x21 psn 3 va 0x0 key 0x0 0 B blocks of 8388608 TiB in force period 0 ' +
      'threshold 0 maximum 256',
  )

  printed(
    'a notice',
    {
      bth: { opcode: MEMORY_STATUS, destQp: 0x21, psn: 3 },
      mseth: {
        ...{ kind: 2, rkey: 0x1234, sequence: 7, incarnation: 4, blockSizeLog2: 21 },
        ...{ form: 1, firstBlock: 8, entries: 24, negative: true, more: true },
      },
      payload: new Uint8Array(3),
    },
    'MEMORY_STATUS qp 0x21 psn 3 current key 0x1234 sequence 7 incarnation 4 blocks of 2 MiB ' +
      'entries 24 from 8 negative more follows 3 B',
  )

  printed(
    'a hint',
    {
      bth: { opcode: PREFETCH_HINT, destQp: 0x11, psn: 3 },
      reth: { rkey: 0x1234, length: 4096 },
      pfeth: { op: 3, priority: 2, deadlineUs: 500, stride: 4 },
    },
    'PREFETCH_HINT qp 0x11 psn 3 va 0x0 key 0x1234 4096 B sequential priority 2 within 500 ' +
      'stride 4',
  )

  printed('a reserved opcode', { bth: { opcode: 0x15 } }, 'reserved opcode 0x15 qp 0x0 psn 0')

  test('of every opcode is shown, and starts with its name', () => {
    for (const row of OPCODES) {
      if (row === undefined) continue
      const line = lineOf(frameOf({ bth: { opcode: row.opcode } }))
      expect(row.name.endsWith(line.slice(0, line.indexOf(' qp ')))).toBe(true)
    }
  })

  test('of others is shown without a word that is undefined', () => {
    for (const { name, bytes } of VECTORS) {
      if (name === 'neg-pkey') continue
      expect(lineOf(bytes)).not.toMatch(/undefined|NaN|\n/)
    }
  })
})

describe('what no sender of ours says', () => {
  printed(
    'a NAK of another kind',
    { bth: { opcode: RC_ACKNOWLEDGE, destQp: 0x21, psn: 3 }, aeth: { syndrome: 0x65, msn: 1 } },
    'Acknowledge qp 0x21 psn 3 NAK 0x65 msn 1',
  )

  printed(
    'a status of another kind, of a query that is cumulative',
    {
      bth: { opcode: PERSIST_ACK, destQp: 0x21, psn: 3 },
      aeth: { msn: 1 },
      paeth: {
        ...{ firstPsn: 3, lastPsn: 3, operationLow: 7, status: 0x7f },
        ...{ query: true, cumulative: true },
      },
    },
    'PERSIST_ACK qp 0x21 psn 3 ACK msn 1 status 0x7f 3-3 op 7 records 0 copies 0 ' +
      'incarnation 0 answers a query cumulative',
  )

  printed(
    'a notice of another kind',
    {
      bth: { opcode: MEMORY_STATUS, destQp: 0x21, psn: 3 },
      mseth: { kind: 9, rkey: 0x1234, blockSizeLog2: 12, positive: true },
    },
    'MEMORY_STATUS qp 0x21 psn 3 kind 9 key 0x1234 sequence 0 incarnation 0 blocks of 4 KiB ' +
      'entries 0 positive',
  )

  printed(
    'an answer about blocks of another kind',
    {
      bth: { opcode: BLOCK_SIZE_ANSWER, destQp: 0x21, psn: 3 },
      aeth: { syndrome: 0x1f, msn: 1 },
      bseth: { status: 3, blockSizeLog2: 12 },
    },
    'BLOCK_SIZE Answer qp 0x21 psn 3 ACK msn 1 status 3 blocks of 4 KiB period 0 ' +
      'threshold 0 maximum 256',
  )

  printed(
    'a hint of another kind',
    {
      bth: { opcode: PREFETCH_HINT, destQp: 0x11, psn: 3 },
      reth: { rkey: 0x1234, length: 4096 },
      pfeth: { op: 9 },
    },
    'PREFETCH_HINT qp 0x11 psn 3 va 0x0 key 0x1234 4096 B operation 9',
  )

  printed(
    'a control call of another kind, refused for a reason that is none',
    {
      bth: { opcode: UD_SEND_ONLY, destQp: 0x31 },
      payload: datagram({ method: 0x44, attribute: 0x7777, fault: 255 as typeof PASS }),
    },
    'UD SEND Only qp 0x31 psn 0 from 0x1 256 B 0x44 0x7777 refused: 255 transaction 0x0',
  )

  printed(
    'a connection message of another kind',
    {
      bth: { opcode: UD_SEND_ONLY, destQp: 1 },
      payload: message(0x7777, 1, (bytes, at) => writeIds(bytes, at, { localId: 5, remoteId: 6 })),
    },
    'UD SEND Only qp 0x1 psn 0 from 0x1 256 B CM 0x7777 id 0x5 to 0x6',
  )

  printed(
    'a connection request for what is no port',
    {
      bth: { opcode: UD_SEND_ONLY, destQp: 1 },
      payload: message(CM_REQ, 1, (bytes, at) => {
        writeReq(bytes, at, { ...blankReq(), localId: 5, serviceLow: 0x77, qpn: 9, pathMtu: 3 })
      }),
    },
    'UD SEND Only qp 0x1 psn 0 from 0x1 256 B CM REQ id 0x5 service 0x77 from qp 0x9 psn 0 ' +
      'mtu 1024',
  )
})
