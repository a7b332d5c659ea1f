/**
 * Batches, and messages of several packets: what is held until all of it is here (D-7, D-10, X-5;
 * faults N8, N18).
 *
 * Invariant: what a status says is compared with the bytes of the slots; nothing of what is
 * refused whole, or not complete, may be in any of them.
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import {
  BATCH_TIMEOUT_US,
  STAGING_BUFFERS,
  STAGING_TIMEOUT_US,
} from '../../../../firmware/board/limits.ts'
import {
  type BatchOptions,
  type BatchRecord,
  type BatchSetting,
  batchFrames,
  batchSetting,
  EXPECT,
  IN_ORDER,
  INDEPENDENT,
  type Status,
  sequenceOf,
  statuses,
} from '../../../support/cards/batch-card.ts'
import { figureOf, type MixedCard } from '../../../support/cards/mixed-card.ts'
import { inTurn, MixedStart } from '../../../support/cards/mixed-start.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  withPassingCards,
} from '../../../support/cards/test-card.ts'
import { sameBytes } from '../../../support/judges/oracle.ts'
import type { Play } from '../killer.ts'
import { firstOf } from './world.ts'

const SLOTS = 64
const LENGTH = 48

/** Cuts before each command, each of which leaves something else. */
const ROUNDS = 8

function setting(mtu = 4096): BatchSetting {
  return batchSetting({ slots: SLOTS, capacity: 1024 }, mtu)
}

function recordsOf(slots: readonly number[], seed = 1): BatchRecord[] {
  return slots.map((slot) => ({ slot, data: dataOf(LENGTH, seed + slot) }))
}

const range = (end: number): number[] => Array.from({ length: end }, (_, i) => i)

/** Does the slot hold that data? */
function holds(one: BatchSetting, slot: number, data: Uint8Array): boolean {
  const found = one.card.read(one.card.connect(), one.region, slot, 0, data.length)
  return found !== null && sameBytes(found, data)
}

/** The slots of `slots` that are not as they were made. */
function written(one: BatchSetting, slots: readonly number[]): number[] {
  return slots.filter((slot) => !holds(one, slot, new Uint8Array(LENGTH)))
}

/** Nothing is stored before the last record has come; then all is. */
function whole(): string | null {
  const one = setting()
  const records = recordsOf(range(6))
  const frames = batchFrames(one.qp, one.region, records)
  for (const frame of frames.slice(0, -1)) {
    if (statuses(one.card.serve(frame)).length > 0) return 'a status before the batch is complete'
    one.card.idle()
  }
  const early = written(one, range(6))
  if (early.length > 0) return `slot ${early[0]} is written before the batch is complete`
  const [status] = statuses(one.card.serve(frames.at(-1)!))
  if (status?.said !== 'durable') return 'a batch that came in pieces is not durable'
  const wrong = records.find(({ slot, data }) => !holds(one, slot, data))
  return wrong === undefined ? null : `slot ${wrong.slot} is not what the batch brought`
}

/** Records of a burst that must be refused whole. */
function refusedWhole(name: string, change: (records: BatchRecord[]) => BatchRecord[]) {
  return (): string | null => {
    const one = setting()
    const records = change(recordsOf(range(5)))
    const sent = one.card.serve(...batchFrames(one.qp, one.region, records))
    one.card.idle()
    const durable = statuses(sent).flatMap((status) => status.durable)
    if (durable.length > 0) return `${name}: record ${durable[0]} is called durable`
    const slots = written(one, range(8))
    return slots.length === 0 ? null : `${name}: slot ${slots[0]} is written`
  }
}

const last = (records: BatchRecord[], fields: Partial<BatchRecord>): BatchRecord[] =>
  records.map((record, i) => (i === records.length - 1 ? { ...record, ...fields } : record))

/** Some records are refused by themselves: the bitmap says exactly which are durable. */
function bitmap(): string | null {
  const one = setting()
  const slots = range(40).map((i) => (i % 7 === 3 ? SLOTS + i : i))
  const records = recordsOf(slots)
  const [status] = statuses(one.card.serve(...batchFrames(one.qp, one.region, records)))
  const there = records.flatMap(({ slot, data }, i) =>
    slot < SLOTS && holds(one, slot, data) ? [i] : [],
  )
  if (status === undefined) return 'there is no status'
  return status.durable.join() === there.join()
    ? null
    : `durable by the status: ${status.durable}, by the slots: ${there}`
}

/** In order, a record that is refused holds back everything behind it. */
function ordered(): string | null {
  const one = setting()
  const records = last(recordsOf(range(6)), {}).map((record, i) =>
    i === 2 ? { ...record, slot: SLOTS + 1 } : record,
  )
  const options: BatchOptions = { condition: IN_ORDER }
  const [status] = statuses(one.card.serve(...batchFrames(one.qp, one.region, records, options)))
  if (status?.durable.join() !== '0,1') return `in order, durable are ${status?.durable}`
  const slots = written(one, [3, 4, 5])
  return slots.length === 0 ? null : `slot ${slots[0]} is written behind one that was refused`
}

/** In order, over several regions and plain bytes: at any cut what is there comes first. */
function orderedOver(): string | null {
  for (const shape of [inTurn, figureOf]) {
    const start = new MixedStart(shape, IN_ORDER, false)
    for (let command = 0, isOver = false; !isOver; command++) {
      for (let round = 0; round < ROUNDS; round++) {
        const one = start.begin()
        one.card.machine.armCut(command)
        const said = statuses(one.card.serve(...start.frames(one)))
        isOver = !one.card.machine.dead
        const random = new Random(ROUNDS * command + round)
        const wrong = withPassingCards(() =>
          wrongAfter(start, one.after({ random, strategy: 'half' }), said),
        )
        if (wrong !== null) return `cut before command ${command}, round ${round}: ${wrong}`
      }
    }
  }
  return null
}

/** What is wrong with what a cut has left, of which that was said. */
function wrongAfter(start: MixedStart, again: MixedCard, said: readonly Status[]): string | null {
  const stand = start.stand(again)
  const gone = said.flatMap(({ durable }) => durable).find((i) => stand[i] !== 'new')
  if (gone !== undefined) return `member ${gone} was called durable: ${stand}`
  return start.badLeft(again, stand)
}

/** A record is accepted only where its slot holds the sequence that it names. */
function expected(): string | null {
  const one = setting()
  one.card.serve(...persistFrames(one.qp, one.region, 0, dataOf(LENGTH, 3)))
  one.card.serve(...persistFrames(one.qp, one.region, 0, dataOf(LENGTH, 4)))
  const expect = sequenceOf(one, 0)
  const tries: readonly (readonly [bigint, boolean])[] = [
    [expect - 1n, false],
    [expect + 2n ** 32n, false],
    [expect, true],
    [expect, false],
  ]
  for (const [i, [sequence, right]] of tries.entries()) {
    const records = [{ slot: 0, data: dataOf(LENGTH, 20 + i), expect: sequence }]
    const options = { condition: EXPECT, id: i + 1 }
    const [status] = statuses(one.card.serve(...batchFrames(one.qp, one.region, records, options)))
    const taken = status?.durable.length === 1
    if (taken !== right) return `try ${i}: ${taken ? 'taken' : 'refused'}`
    if (holds(one, 0, records[0]!.data) !== right) return `try ${i}: the slot says otherwise`
  }
  return null
}

/** A batch again, on another connection, after others have gone on: nothing is done again. */
function twice(): string | null {
  const one = setting()
  const operation = one.qp.operation + 1
  const records = recordsOf(range(3))
  one.card.serve(...batchFrames(one.qp, one.region, records))
  const other = one.card.connect(4096, 0, 8)
  const theirs = dataOf(LENGTH, 90)
  one.card.serve(...persistFrames(other, one.region, 1, theirs))
  const again = one.card.connect()
  const sent = one.card.serve(...batchFrames(again, one.region, records, { operation }))
  const [status] = statuses(sent)
  if (status?.durable.join() !== '0,1,2') return `again, durable are ${status?.durable}`
  return holds(one, 1, theirs) ? null : 'a record of a batch is executed again'
}

/** Others of the same queue pair come while a batch is held. */
function behind(): string | null {
  const one = setting()
  const { card, qp, region } = one
  const [first] = batchFrames(qp, region, recordsOf([0, 1]), { id: 5 })
  card.serve(first!)
  const before = { ...qp, psn: (qp.psn - 1) & 0xffffff }
  const read = card.serve(readFrame(before, region, 0, 0, LENGTH))
  const shown = read.find(({ opcode }) => opcode === 0x10)
  if (shown === undefined || !sameBytes(shown.payload, dataOf(LENGTH, 1))) {
    return 'a READ overtakes what was sent before it'
  }
  return null
}

/** A batch that stops is given up, and so is a message. */
function stops(): string | null {
  const one = setting(256)
  const { card, region } = one
  const pairs = range(STAGING_BUFFERS).map(() => card.connect(256))
  for (const qp of pairs) card.serve(persistFrames(qp, region, 0, dataOf(600, 1))[0]!)
  const data = dataOf(600, 2)
  const late = card.connect(256)
  card.pass(STAGING_TIMEOUT_US + 20)
  const taken = persistAcks(card.serve(...persistFrames(late, region, 1, data)))
  if (taken[0]?.status !== 0) return 'messages that stopped keep all the room'
  if (!holds(one, 0, new Uint8Array(600))) return 'a message that stopped was stored'
  card.serve(...batchFrames(one.qp, region, recordsOf([3, 4]), { ends: false }))
  const said = [...card.pass(BATCH_TIMEOUT_US + 20), ...card.pass(100)]
  if (statuses(said)[0]?.said !== 'BATCH_TIME') return 'a batch that stopped is held permanently'
  return written(one, [3, 4]).length === 0 ? null : 'a batch that stopped was stored'
}

/** Two messages of several packets at once, packet by packet; and more than there are buffers. */
function gathered(): string | null {
  const one = setting(256)
  const { card, region } = one
  const other = card.connect(256, 0, 8)
  for (let lap = 0; lap < STAGING_BUFFERS + 2; lap++) {
    const mine = dataOf(1000, 2 * lap)
    const theirs = dataOf(1000, 2 * lap + 1)
    const frames = persistFrames(one.qp, region, 0, mine)
    const others = persistFrames(other, region, 1, theirs)
    const sent = frames.flatMap((frame, i) => card.serve(frame, others[i]!))
    const durable = persistAcks(sent).filter(({ status }) => status === 0)
    if (durable.length !== 2) return `lap ${lap}: ${durable.length} of two messages are taken`
    if (!holds(one, 0, mine) || !holds(one, 1, theirs)) return `lap ${lap}: bytes of another`
  }
  return null
}

const REFUSED: readonly (() => string | null)[] = [
  refusedWhole('one slot twice', (records) => last(records, { slot: 0 })),
  refusedWhole('an index twice', (records) => last(records, { index: 3 })),
  refusedWhole('an index beyond the count', (records) => last(records, { index: 5 })),
  refusedWhole('another batch', (records) => last(records, { pweth: { batchId: 9 } })),
  refusedWhole('another count', (records) => last(records, { pweth: { batchCount: 9 } })),
  refusedWhole('another condition', (records) =>
    last(records, { pweth: { condition: INDEPENDENT + 1 } }),
  ),
  refusedWhole('another operation', (records) => last(records, { pweth: { operationLow: 3 } })),
]

export const BATCHES: Readonly<Record<string, Play>> = {
  'a batch in pieces': whole,
  'a batch that contradicts itself': () => firstOf(...REFUSED),
  'the bitmap': bitmap,
  'a batch in order': ordered,
  'a batch in order over regions': orderedOver,
  'a batch that expects': expected,
  'a batch again': twice,
  'a READ behind a batch': behind,
  'messages that stop': stops,
  'messages at once': gathered,
}
