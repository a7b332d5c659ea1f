/**
 * A card that is sent batches, frame by frame; what their status says, and what the card holds.
 */

import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import type { State } from '../../../firmware/core.ts'
import { PERSIST_QUERY } from '../../../firmware/wire/opcode.ts'
import {
  CONDITION_EXPECT,
  CONDITION_IN_ORDER,
  CONDITION_INDEPENDENT,
  type Pweth,
} from '../../../firmware/wire/persist.ts'
import {
  BITMAP_WORDS_MAX,
  isInBitmap,
  type Paeth,
  readBitmap,
} from '../../../firmware/wire/persist-ack.ts'
import type { Pqeth } from '../../../firmware/wire/persist-query.ts'
import type { Reth } from '../../../firmware/wire/reth.ts'
import { frameOf } from '../wire/frames.ts'
import { type Setting, slotOffset } from '../wire/requests.ts'
import { persistOpcode, type Sent, TestCard, type TestPeer, type TestRegion } from './test-card.ts'

export const INDEPENDENT: number = CONDITION_INDEPENDENT
export const IN_ORDER: number = CONDITION_IN_ORDER
export const EXPECT: number = CONDITION_EXPECT
export const CONDITIONS: Readonly<Record<string, number>> = {
  independent: INDEPENDENT,
  inOrder: IN_ORDER,
  expect: EXPECT,
}

/** One record of a batch, and what shall be wrong with it. */
export interface BatchRecord {
  readonly slot: number
  readonly data: Uint8Array
  /** Its place in the list unless given. */
  readonly index?: number
  readonly wait?: number
  readonly expect?: bigint
  /** The guard of its data. */
  readonly guard?: number
  readonly pweth?: Partial<Pweth>
  readonly reth?: Partial<Reth>
}

/** A member that is plain bytes of that region, from that one on. */
export function bytesMember(
  { rkey, baseHigh }: TestRegion,
  offset: number,
  data: Uint8Array,
): BatchRecord {
  return {
    ...{ slot: 0, data, wait: 1 },
    reth: { rkey, vaHigh: baseHigh, vaLow: offset },
    pweth: { slotAddressed: false },
  }
}

export interface BatchOptions {
  readonly id?: number
  readonly condition?: number
  /** Records of the batch; those given unless said. */
  readonly count?: number
  /** Operation of index 0; the next of the queue pair unless given. */
  readonly operation?: number
  /** Does the last record given end the burst? Yes unless said. */
  readonly ends?: boolean
  /** Is an acknowledgement of the last packet asked for? Where the burst ends, unless said. */
  readonly ackRequest?: boolean
}

/** The frames of a burst of a batch; PSN and operation id of the queue pair move on. */
export function batchFrames(
  qp: TestPeer,
  region: { readonly rkey: number },
  records: readonly BatchRecord[],
  options: BatchOptions = {},
): Uint8Array[] {
  const count = options.count ?? records.length
  const operation = options.operation ?? qp.operation + 1
  if (options.operation === undefined) qp.operation += count
  return records.flatMap((record, i) => {
    const last = i === records.length - 1 && (options.ends ?? true)
    return memberFrames(qp, region, record, { ...options, count, operation, ends: last }, i)
  })
}

function memberFrames(
  qp: TestPeer,
  region: { readonly rkey: number },
  record: BatchRecord,
  options: Required<Pick<BatchOptions, 'count' | 'operation' | 'ends'>> & BatchOptions,
  place: number,
): Uint8Array[] {
  const { data } = record
  const index = record.index ?? place
  const packets = Math.max(1, Math.ceil(data.length / qp.mtu))
  const { psn } = qp
  qp.psn = (psn + packets) & 0xffffff
  const condition = options.condition ?? INDEPENDENT
  const expects = condition === EXPECT
  return Array.from({ length: packets }, (_, i) =>
    frameOf({
      bth: {
        opcode: persistOpcode(i, packets),
        destQp: qp.number,
        psn: (psn + i) & 0xffffff,
        ackRequest: (options.ackRequest ?? options.ends) && i === packets - 1,
      },
      reth: {
        vaHigh: record.slot,
        vaLow: 0,
        rkey: region.rkey,
        length: data.length,
        ...record.reth,
      },
      pweth: {
        ...{ wait: record.wait ?? 2, slotAddressed: true, wantsAck: true },
        ...{ batch: true, oneStatus: true, lastOfBatch: options.ends },
        ...{ batchId: options.id ?? 1, batchIndex: index, batchCount: options.count, condition },
        operationLow: options.operation + index,
        guarded: record.guard !== undefined,
        ...record.pweth,
      },
      ...(expects && i === 0 ? { expect: record.expect ?? 0n } : {}),
      ...(i === 0 ? { guard: record.guard } : {}),
      payload: data.slice(i * qp.mtu, (i + 1) * qp.mtu),
    }),
  )
}

/** A query for the batch of that id. */
export function batchQuery(qp: TestPeer, batchId: number, fields: Partial<Pqeth> = {}): Uint8Array {
  const { psn } = qp
  qp.psn = (psn + 1) & 0xffffff
  return frameOf({
    bth: { opcode: PERSIST_QUERY, destQp: qp.number, psn, ackRequest: true },
    pqeth: { batch: true, batchId, ...fields },
  })
}

/** The status of a batch, as it is easily compared. */
export interface Status {
  readonly id: number
  readonly count: number
  /** Indexes that are durable. */
  readonly durable: readonly number[]
  readonly said: string
  readonly paeth: Paeth
  readonly psn: number
}

const NAMES = new Map(
  FAULTS.filter((row) => row.answer === 'status').map((row) => [row.code, row.name]),
)

/** The statuses of batches among the frames. */
export function statuses(sent: readonly Sent[]): Status[] {
  return sent.flatMap((frame) => {
    const { paeth } = frame
    if (paeth === null || !paeth.batch) return []
    const bitmap = new Uint32Array(BITMAP_WORDS_MAX)
    readBitmap(bitmap, frame.payload, 0, paeth.bitmapWords)
    const durable = Array.from({ length: 256 }, (_, i) => i).filter((i) => isInBitmap(bitmap, i))
    const said = paeth.status === 0 ? 'durable' : (NAMES.get(paeth.status) ?? `${paeth.status}`)
    return [{ id: paeth.batchId, count: paeth.batchCount, durable, said, paeth, psn: frame.psn }]
  })
}

/** 0 to below `end`, or from `begin`. */
export function upTo(end: number, begin = 0): number[] {
  return Array.from({ length: end - begin }, (_, i) => begin + i)
}

/** A card with one region and a queue pair to it, whose state can be looked at. */
export interface BatchSetting extends Setting {
  readonly state: State
}

export function batchSetting(
  shape: Parameters<TestCard['provision']>[0] = {},
  mtu = 4096,
  bytes: number = 1 << 18,
): BatchSetting {
  let state: State | null = null
  const start = (machine: EmulatedMachine): FirmwareEngine =>
    bootDirect(machine, (seen) => {
      state = seen
    })
  const card = new TestCard(bytes, { start }).format()
  const region = card.provision({ slots: 300, ...shape })
  return { state: state!, card, region, qp: card.connect(mtu) }
}

/** What the card holds of batches. */
interface Held {
  readonly chunks: number
  readonly rooms: number
  readonly open: number
  readonly inFrames: number
  readonly inGroup: number
}

export function heldBy({ batches }: State): Held {
  return {
    chunks: batches.chunkTaken.reduce((sum, taken) => sum + taken, 0),
    rooms: batches.members.filter(({ taken }) => taken).length,
    open: batches.open,
    inFrames: batches.inFrames,
    inGroup: batches.joinedCount,
  }
}

export const NOTHING_HELD: Held = { chunks: 0, rooms: 0, open: 0, inFrames: 0, inGroup: 0 }

/** The sequence that a copy of a slot has on the medium. */
export function sequenceOf({ card, region }: Setting, slot: number, copy = 0): bigint {
  const { live } = card.nvdimm
  const at = slotOffset(region, copy, slot) + 32
  return new DataView(live.buffer, live.byteOffset).getBigUint64(at, true)
}
