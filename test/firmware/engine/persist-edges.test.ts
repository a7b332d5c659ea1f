/**
 * Records and stores that end together: a queue pair whose store the medium refuses while its
 * records are in the group, stores of several queue pairs that fail in one list, what is repeated
 * under names that were used, and messages that do not keep the length they announced.
 *
 * Invariant: what was acknowledged is there, and a queue pair that ended is silent.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { COMPARE, FENCE } from '../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  INITIATORS,
  LANES,
  RECEIVES,
  REMEMBERED_RECORDS,
  STAGING_BUFFERS,
  STAGING_TIMEOUT_US,
} from '../../../firmware/board/limits.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  PERSIST_QUERY,
  RC_ACKNOWLEDGE,
  RC_FLUSH,
  RC_SEND_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { batchFrames, bytesMember, EXPECT, statuses } from '../../support/cards/batch-card.ts'
import {
  BYTES_AT,
  BYTES_LENGTH,
  type BytesCard,
  bytesCard,
  KEPT_AT,
  RECORDS_AT,
} from '../../support/cards/bytes-card.ts'
import {
  callOf,
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { Stranger } from '../../support/peers/strangers.ts'
import { madFrame } from '../../support/wire/cm.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  ACK,
  carriedFrames,
  fetchAddFrame,
  flushFrame,
  NAK_ACCESS,
  NAK_INVALID,
  NAK_OPERATIONAL,
  sendFrames,
  setting,
  writeFrames,
} from '../../support/wire/requests.ts'

const LINE = 64
const old = (slot: number): Uint8Array => dataOf(64, slot)
const fresh = (slot: number): Uint8Array => dataOf(64, 1000 + slot)

const codeOf = (name: string): number => FAULTS.find((row) => row.name === name)!.code

/** Syndromes of what came, without what only acknowledges. */
const naks = (sent: readonly Sent[]): number[] =>
  sent.flatMap(({ syndrome }) => (syndrome > ACK ? [syndrome] : []))

/** A WRITE that the medium refuses. */
function failing({ card, qp, bytes }: BytesCard): Uint8Array[] {
  card.nvdimm.refuseWrites(BYTES_AT / LINE)
  return writeFrames(qp, bytes, 0, dataOf(8, 1))
}

/** A record without a word about it. */
function silent(
  { qp, records }: Pick<BytesCard, 'qp' | 'records'>,
  slot: number,
  operation: number,
): Uint8Array {
  const { psn } = qp
  qp.psn = (psn + 1) & 0xffffff
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn, ackRequest: true },
    reth: { vaHigh: slot, rkey: records.rkey, length: 64 },
    pweth: { wait: 2, slotAddressed: true, wantsAck: false, operationLow: operation },
    payload: fresh(slot),
  })
}

describe('P1-11: a queue pair whose store is refused', () => {
  test('hears nothing of the records that it had in the group', () => {
    const one = bytesCard()
    const other = one.card.connect()
    const sent = one.card.serve(
      ...persistFrames(one.qp, one.records, 0, fresh(0)),
      ...failing(one),
      ...persistFrames(other, one.records, 1, fresh(1)),
    )
    expect(naks(sent)).toEqual([NAK_OPERATIONAL])
    expect(
      persistAcks(sent).filter(({ operationLow }) => operationLow === other.operation),
    ).toHaveLength(1)
    expect(one.card.read(other, one.records, 1, 0, 64)).toEqual(fresh(1))
  })

  test('hears nothing of the batch that it had in the group', () => {
    const one = bytesCard()
    const records = [0, 1].map((slot) => ({ slot, data: fresh(slot) }))
    const frames = batchFrames(one.qp, one.records, records)
    const sent = one.card.serve(...frames, ...failing(one))
    expect(naks(sent)).toEqual([NAK_OPERATIONAL])
    const reader = one.card.connect()
    expect(one.card.read(reader, one.records, 0, 0, 64)).not.toBeNull()
  })

  test('takes no bytes that come behind those of a batch', () => {
    const one = bytesCard()
    const { card, qp, kept } = one
    const store = failing(one)
    // Stored when the bytes come that may be of the same place: with them the WRITE is refused.
    const batch = batchFrames(qp, kept, [bytesMember(kept, 0, fresh(0))], { count: 2, ends: false })
    const persist = frameOf({
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
      reth: { vaHigh: kept.baseHigh, vaLow: 4096, rkey: kept.rkey, length: 64 },
      pweth: { wait: 1, wantsAck: true, operationLow: 90 },
      payload: fresh(1),
    })
    const sent = card.serve(...store, ...batch, persist)
    expect(naks(sent)).toEqual([NAK_OPERATIONAL])
    expect(persistAcks(sent)).toEqual([])
    expect(card.nvdimm.live.slice(KEPT_AT + 4096, KEPT_AT + 4160)).toEqual(new Uint8Array(64))
  })

  test('takes no batch any more that comes behind', () => {
    const one = bytesCard()
    const records = [0, 1].map((slot) => ({ slot, data: fresh(slot) }))
    const first = batchFrames(one.qp, one.records, records, { id: 1 })
    const store = failing(one)
    const sent = one.card.serve(
      ...first,
      ...store,
      ...batchFrames(one.qp, one.records, records, { id: 2 }),
    )
    expect(naks(sent)).toEqual([NAK_OPERATIONAL])
    expect(statuses(sent).filter(({ id }) => id === 2)).toEqual([])
  })

  test.each(['slot', 'operation', 'expectation'])(
    'ends while its batch is judged, over the %s of a record',
    (what) => {
      const one = bytesCard()
      const { card, qp, records } = one
      const other = card.connect()
      const operation = qp.operation + 1
      const before =
        what === 'slot'
          ? persistFrames(other, records, 0, old(0))
          : what === 'operation'
            ? persistFrames(qp, records, 5, old(5), { operation })
            : []
      const at = RECORDS_AT / LINE
      if (what === 'expectation') card.nvdimm.poison(at)
      const store = failing(one)
      const list = [{ slot: 0, data: fresh(0) }]
      const condition = what === 'expectation' ? EXPECT : 0
      const sent = card.serve(
        ...before,
        ...store,
        ...batchFrames(qp, records, list, { operation, condition }),
      )
      expect(naks(sent)).toEqual([NAK_OPERATIONAL])
      expect(statuses(sent)).toEqual([])
    },
  )

  test('ends while its batch is judged, over a record under way that is refused, too', () => {
    const { card, qp, bytes, records } = bytesCard()
    const operation = qp.operation + 1
    const record = persistFrames(qp, records, 5, old(5), { operation })
    for (const copy of [0, 8192]) {
      for (let at = 5 * records.stride; at < 6 * records.stride; at += LINE) {
        card.nvdimm.refuseWrites((RECORDS_AT + copy + at) / LINE)
      }
    }
    card.nvdimm.refuseWrites(BYTES_AT / LINE)
    const store = writeFrames(qp, bytes, 0, dataOf(8, 1))
    const batch = batchFrames(qp, records, [{ slot: 0, data: fresh(0) }], { operation })
    const sent = card.serve(...record, ...store, ...batch)
    expect(naks(sent)).toEqual([NAK_OPERATIONAL])
    expect(statuses(sent)).toEqual([])
    expect(persistAcks(sent)).toEqual([])
  })

  test.each([0, 3000])(
    'is answered no READ that comes behind, of a record and of %i bytes',
    (length) => {
      const one = bytesCard(256)
      const { card, qp, records, bytes } = one
      const store = failing(one)
      const read =
        length === 0 ? readFrame(qp, records, 0, 0, 64) : readFrame(qp, bytes, 0, 4096, length)
      const sent = card.serve(...store, read)
      expect(naks(sent)).toEqual([NAK_OPERATIONAL])
      expect(sent.filter(({ payload }) => payload.length > 0)).toEqual([])
    },
  )

  test('is silent about questions and refusals behind it, when the part does not fence', () => {
    for (const opcode of [PERSIST_QUERY, RC_FLUSH, 0x15]) {
      const one = bytesCard()
      const { card, qp, kept } = one
      const store = writeFrames(qp, kept, 0, dataOf(8, 1))
      card.nvdimm.fencesToFail = 1
      const frame =
        opcode === RC_FLUSH
          ? flushFrame(qp, kept)
          : frameOf({ bth: { opcode, destQp: qp.number, psn: qp.psn, ackRequest: true } })
      const sent = card.serve(...store, frame)
      expect(naks(sent)).toEqual([NAK_OPERATIONAL])
    }
  })
})

describe('a queue pair that is disconnected in the burst in which it fails', () => {
  function disconnect({ number, peer }: BytesCard['qp']): Uint8Array {
    const fill = (body: Uint8Array): void => {
      putU32(body, mad.DISCONNECT_QP, number)
      putU32(body, mad.DISCONNECT_CLIENT_QP, peer)
    }
    return madFrame(callOf(77, mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, fill, 0))
  }

  test.each(['store', 'read'])('by a refused %s: nobody else is refused for it', (what) => {
    const one = bytesCard()
    const { card, qp, bytes, records } = one
    const other = card.connect()
    if (what === 'read') card.nvdimm.poison(BYTES_AT / LINE)
    const fails = what === 'read' ? [readFrame(qp, bytes, 0, 0, 8)] : failing(one)
    const sent = card.serve(...fails, disconnect(qp), readFrame(other, bytes, 0, 4096, 8))
    // It has its refusal before the call is executed.
    expect(naks(sent)).toEqual([NAK_OPERATIONAL])
    expect(sent.filter(({ payload }) => payload.length === 8)).toHaveLength(1)
    expect(card.serve(readFrame(qp, bytes, 0, 4096, 8)), 'it is gone').toEqual([])
    card.serve(...persistFrames(other, records, 1, fresh(1)))
    expect(card.read(other, records, 1, 0, 64)).toEqual(fresh(1))
  })
})

test('H7: a long READ that meets an unreadable line in the middle of its turn ends there', () => {
  const one = bytesCard(256)
  const { card, qp, bytes } = one
  const other = card.connect()
  const first = card.serve(readFrame(qp, bytes, 0, 0, BYTES_LENGTH))
  const told = first.filter(({ payload }) => payload.length > 0).length
  expect(told).toBeGreaterThan(0)
  expect(told).toBeLessThan(BYTES_LENGTH / 256)
  card.nvdimm.poison((BYTES_AT + 256 * (told + 2)) / LINE)
  // An acknowledgement takes one of the places in which the turn would put its answers.
  const sent = card.serve(...writeFrames(other, bytes, 0, dataOf(8, 1)))
  expect(naks(sent)).toEqual([NAK_OPERATIONAL])
  expect(sent.filter(({ payload }) => payload.length > 0)).toEqual([])
  expect(card.pass(1000)).toEqual([])
})

test('P2-28: what a burst has of refusals and acknowledgements leaves before its group', () => {
  const { card, records } = bytesCard()
  const pairs = Array.from({ length: BURST_FRAMES }, () => card.connect())
  const sent = card.serve(
    ...pairs.flatMap((qp, i) => persistFrames(qp, records, i === 0 ? 0 : 99, fresh(i))),
  )
  const acks = sent.filter(({ opcode }) => opcode === RC_ACKNOWLEDGE)
  expect(acks.map(({ syndrome }) => syndrome)).toEqual(pairs.map(() => ACK))
  const status = (operation: number): number[] =>
    persistAcks(sent).flatMap((paeth) => (paeth.operationLow === operation ? [paeth.status] : []))
  expect(pairs.map(({ operation }) => status(operation))).toEqual(
    pairs.map((_, i) => [i === 0 ? 0 : codeOf('SLOT')]),
  )
  expect(sent.findLastIndex(({ opcode }) => opcode === RC_ACKNOWLEDGE)).toBeLessThan(
    sent.findIndex(({ paeth }) => paeth?.status === 0),
  )
  expect(card.read(pairs[0]!, records, 0, 0, 64)).toEqual(fresh(0))
})

test('H7: of two queue pairs that read unreadable lines in one list each hears it', () => {
  const one = bytesCard()
  const { card, bytes } = one
  const pairs = [one.qp, card.connect(1024), card.connect(1024)]
  for (const line of [1, 3]) card.nvdimm.poison(BYTES_AT / LINE + line)
  const sent = card.serve(...pairs.map((qp, i) => readFrame(qp, bytes, 0, LINE * (i + 1), 32)))
  expect(naks(sent)).toEqual([NAK_OPERATIONAL, NAK_OPERATIONAL])
  expect(sent.filter(({ payload }) => payload.length === 32)).toHaveLength(1)
})

test('P1-11, X-1: where no lane is clear a plain WRITE of a record is not acknowledged', () => {
  const before = bytesCard()
  for (let lane = 0; lane < LANES; lane++) before.card.nvdimm.refuseWrites(LANES_AT / LINE + lane)
  const card = new TestCard(before.card.nvdimm)
  const [qp, region] = [card.connect(), card.open()]
  const sent = card.serve(...writeFrames(qp, region, 0, fresh(1), { vaHigh: 1 }))
  expect(naks(sent)).toEqual([NAK_OPERATIONAL])
  expect(sent.filter(({ syndrome }) => syndrome === ACK)).toEqual([])
  expect(card.read(card.connect(), region, 1, 0, 64)).not.toEqual(fresh(1))
})

test('P2-9, X-1: a WRITE to the slot of a record that a batch holds comes behind it', () => {
  const { card, qp, records } = bytesCard()
  const held = [{ slot: 0, data: fresh(0) }]
  const batch = batchFrames(qp, records, held, { count: 2, ends: false })
  const write = writeFrames(qp, records, 0, fresh(7), { vaHigh: 0 })
  const sent = card.serve(...batch, ...write)
  expect(naks(sent)).toEqual([])
  expect(card.read(qp, records, 0, 0, 64)).toEqual(fresh(7))
})

test('G2-4: the receipt of a record of several packets is of its last one', () => {
  const { card, records } = bytesCard()
  const qp = card.connect(256)
  const last = (qp.psn + 1) & 0xffffff
  const sent = card.serve(...persistFrames(qp, records, 0, dataOf(300, 1)))
  expect(persistAcks(sent)).toMatchObject([{ firstPsn: last, lastPsn: last }])
})

describe('what is repeated under a name that was used', () => {
  test('X-3: without a wish for an answer, it has none but that of the transport', () => {
    const one = bytesCard()
    one.card.serve(silent(one, 0, 5))
    const other = { ...one, qp: one.card.connect() }
    const sent = one.card.serve(silent(other, 0, 5))
    expect(persistAcks(sent)).toEqual([])
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([ACK])
    expect(one.card.counter('DUPLICATE')).toBe(1)
  })

  test('X-3: nor when it comes again over the same connection, at once or much later', () => {
    const one = bytesCard()
    const { card, qp, records } = one
    qp.operation = 5
    const frame = silent(one, 0, 5)
    card.serve(frame)
    expect(persistAcks(card.serve(frame))).toEqual([])
    for (let i = 0; i <= REMEMBERED_RECORDS; i++) {
      card.serve(...persistFrames(qp, records, 1, fresh(1)))
    }
    expect(persistAcks(card.serve(frame))).toEqual([])
    expect(card.read(card.connect(), records, 0, 0, 64)).toEqual(fresh(0))
  })

  test('X-3: a duplicate that says it is longer than what was taken earns no PSN to come', () => {
    const { card, records } = bytesCard()
    const client = 7
    const taken = card.connect(256, 0, client)
    card.serve(...persistFrames(taken, records, 0, fresh(0), { operation: 5 }))
    const qp = card.connect(256, 0, client)
    const { psn } = qp
    card.serve(...persistFrames(qp, records, 1, fresh(1), { operation: 6 }))
    qp.psn = psn
    const [first] = persistFrames(qp, records, 0, dataOf(25600, 1), { operation: 5 })
    expect(persistAcks(card.serve(first!))).toEqual([])
  })

  test('D-6: of two operations with one low word each is done, the later one first', () => {
    const { card, qp, records } = bytesCard()
    const operation = qp.operation + 1
    const sent = card.serve(
      ...persistFrames(qp, records, 0, fresh(0), { operation, operationHigh: 1 }),
      ...persistFrames(qp, records, 1, fresh(1), { operation }),
    )
    expect(persistAcks(sent).every(({ status }) => status === 0)).toBe(true)
    expect([0, 1].map((slot) => card.read(qp, records, slot, 0, 64))).toEqual([fresh(0), fresh(1)])
  })

  test('N3: with a slot that is not there it is acknowledged, whatever it carries', () => {
    const { card, qp, records } = bytesCard()
    const operation = qp.operation + 1
    card.serve(...persistFrames(qp, records, 0, fresh(0), { operation }))
    const sent = card.serve(...persistFrames(card.connect(), records, 99, fresh(0), { operation }))
    expect(persistAcks(sent).map(({ status }) => status)).toEqual([0])
    expect(card.counter('DUPLICATE') + card.counter('DUPLICATE_FORGED')).toBe(1)
  })

  test('H7: whose slot cannot be read it is acknowledged: nobody knows better', () => {
    const { card, qp, records } = bytesCard()
    const operation = qp.operation + 1
    card.serve(...persistFrames(qp, records, 0, fresh(0), { operation }))
    card.nvdimm.poison(RECORDS_AT / LINE)
    const sent = card.serve(...persistFrames(card.connect(), records, 0, fresh(0), { operation }))
    expect(persistAcks(sent).map(({ status }) => status)).toEqual([0])
    expect(card.counter('DUPLICATE_FORGED')).toBe(0)
  })
})

test('P1-11: a second copy that is taken at the second attempt, without a word about it', () => {
  const one = bytesCard()
  const { card, qp, records } = one
  const line = (RECORDS_AT + 8192) / LINE
  card.nvdimm.refuseWrites(line)
  let fences = 0
  let isTaken = false
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE) fences += 1
      // Behind the lane, the first copy and the phase; what compares then begins the repair.
      if (fences < 3 || op !== COMPARE || isTaken) return
      isTaken = true
      card.nvdimm.refuseWrites(line, false)
    },
  })
  const sent = card.serve(silent(one, 0, 5))
  card.machine.observe({})
  expect(isTaken).toBe(true)
  expect(sent.map(({ opcode }) => opcode)).toEqual([RC_ACKNOWLEDGE])
  for (const copy of [0, 1]) {
    expect(card.read(qp, records, 0, 2 + copy, 64, LINE), `copy ${copy}`).toEqual(fresh(0))
  }
})

describe('P4-9: a record that expects a sequence, over a slot whose header is damaged', () => {
  test.each([true, false])('is judged by the copy that is whole: %s', (right) => {
    const one = setting({ slots: 8 })
    const { card, region, qp } = one
    card.serve(...persistFrames(qp, region, 0, old(0)))
    const { live, durable } = card.nvdimm
    const expected = new DataView(live.buffer, live.byteOffset).getBigUint64(RECORD_AT + 32, true)
    for (const bytes of [live, durable]) bytes.fill(0xee, RECORD_AT, RECORD_AT + 32)
    const records = [{ slot: 0, data: fresh(0), expect: right ? expected : expected + 1n }]
    const [status] = statuses(
      card.serve(...batchFrames(qp, region, records, { condition: EXPECT })),
    )
    expect(status!.said).toBe(right ? 'durable' : 'CONDITION')
  })
})

describe('messages into regions of bytes', () => {
  /** A WRITE_PERSIST of two packets that announces 400 bytes. */
  function frames({ qp, kept }: BytesCard, second: number, wantsAck = true): Uint8Array[] {
    const opcodes = [WRITE_PERSIST_FIRST, WRITE_PERSIST_LAST]
    return opcodes.map((opcode, i) =>
      frameOf({
        bth: { opcode, destQp: qp.number, psn: (qp.psn + i) & 0xffffff, ackRequest: i === 1 },
        reth: { vaHigh: kept.baseHigh, rkey: kept.rkey, length: 400 },
        pweth: { wait: 1, wantsAck, operationLow: 5 },
        payload: dataOf(i === 0 ? 256 : second, i),
      }),
    )
  }

  test('that do not keep the length they announced are refused', () => {
    const one = bytesCard(256)
    expect(naks(one.card.serve(...frames(one, 140)))).toEqual([NAK_INVALID])
  })

  test('that want no answer have none but that of the transport', () => {
    const one = bytesCard(256)
    const sent = one.card.serve(...frames(one, 144, false))
    expect(persistAcks(sent)).toEqual([])
    expect(naks(sent)).toEqual([])
    expect(Buffer.from(one.card.nvdimm.durable.subarray(KEPT_AT, KEPT_AT + 256))).toEqual(
      Buffer.from(dataOf(256, 0)),
    )
  })

  test('D-13: into a part that is closed they are refused by name, as atomics are', () => {
    const one = bytesCard(256)
    one.card.nvdimm.fencesToFail = 1
    one.card.serve(...persistFrames(one.card.connect(), one.records, 0, fresh(0)))
    const [answer] = persistAcks(one.card.serve(...frames(one, 144)))
    expect(answer!.status).toBe(0x8e)
    const other = one.card.connect()
    expect(naks(one.card.serve(fetchAddFrame(other, one.kept, 8, 1n)))).toEqual([NAK_OPERATIONAL])
  })
})

test('P1-6: copies that are carried and fill no buffer are refused', () => {
  const { card, region, qp } = setting({ copies: 3, capacity: 65536, slots: 1 })
  const copies = Array.from({ length: 3 }, () => dataOf(65536, 1))
  const all = carriedFrames(qp, region, 0, copies)
  const sent = all.flatMap((_, i) => (i % 32 === 0 ? card.serve(...all.slice(i, i + 32)) : []))
  expect(persistAcks(sent).map(({ status }) => status !== 0)).toEqual([true])
})

test('a FLUSH of a range in a record that is not there is refused', () => {
  const one = bytesCard()
  const frame = flushFrame(one.qp, one.records, { vaHigh: 99 })
  expect(naks(one.card.serve(frame))).toEqual([NAK_ACCESS])
})

test('a message that has stopped gives its buffer to the next one, before the clock', () => {
  const { card, records } = bytesCard(256)
  const first = (): Uint8Array => persistFrames(card.connect(256), records, 0, dataOf(512, 1))[0]!
  for (let i = 0; i < STAGING_BUFFERS; i++) card.serve(first())
  const qp = card.connect(256)
  card.now += STAGING_TIMEOUT_US + 1000
  const [answer] = persistAcks(card.serve(...persistFrames(qp, records, 1, dataOf(512, 2))))
  expect(answer!.status).toBe(0)
})

describe('SENDs that are to be confirmed', () => {
  test('a card whose hands are full is not ready for one more, until one is heard', () => {
    const { card } = bytesCard()
    // Of two machines, so that neither has more than its part of what receives.
    const peers = [new Stranger(card, 11), new Stranger(card, 12)]
    const isReady = (sent: readonly Sent[]): boolean =>
      !sent.some(({ syndrome }) => syndrome > ACK && syndrome < 0x60)
    const waiting: { peer: Stranger; qp: TestPeer; told: Sent }[] = []
    for (let i = 0; i < INITIATORS; i++) {
      const peer = peers[i % 2]!
      const qp = peer.connect()
      const sent = peer.serve(...sendFrames(qp, dataOf(8, i), { solicited: true }))
      expect(isReady(sent)).toBe(true)
      waiting.push({ peer, qp, told: sent.find(({ opcode }) => opcode === RC_SEND_ONLY)! })
    }
    const last = peers[0]!.connect()
    const frames = sendFrames(last, dataOf(8, 99), { solicited: true })
    expect(isReady(peers[0]!.serve(...frames))).toBe(false)
    const { peer, qp, told } = waiting[7]!
    const bth = { opcode: RC_ACKNOWLEDGE, destQp: qp.number, psn: told.psn }
    peer.serve(frameOf({ bth, aeth: { syndrome: ACK, msn: 1 } }))
    const sent = peers[0]!.serve(...frames)
    expect(isReady(sent)).toBe(true)
    expect(sent.find(({ opcode }) => opcode === RC_SEND_ONLY)!.payload).toEqual(dataOf(8, 99))
  })

  test('X-7: what the peer has refused of them is the end of all that wait', () => {
    const { card, qp } = bytesCard()
    const confirmed = (sent: readonly Sent[]): Sent[] => {
      return sent.filter(({ opcode }) => opcode === RC_SEND_ONLY)
    }
    const [first] = confirmed(card.serve(...sendFrames(qp, dataOf(8, 1), { solicited: true })))
    const nak = frameOf({
      bth: { opcode: RC_ACKNOWLEDGE, destQp: qp.number, psn: first!.psn },
      aeth: { syndrome: NAK_OPERATIONAL, msn: 0 },
    })
    const both = card.serve(...sendFrames(qp, dataOf(8, 2), { solicited: true }), nak)
    expect(confirmed(both)).toEqual([])
    expect(card.serve(...writeFrames(qp, 1, 0, dataOf(8, 1))), 'it is over').toEqual([])
    // Nothing is kept of what was not confirmed.
    const other = card.connect()
    for (let i = 0; i < 2 * RECEIVES; i++) {
      const sent = card.serve(...sendFrames(other, dataOf(8, i)))
      expect(sent.map(({ syndrome }) => syndrome)).toEqual([ACK])
    }
  })

  test('D-13: what cannot become durable is refused at its last packet', () => {
    const one = bytesCard(256)
    const { card, records } = one
    const frames = sendFrames(one.qp, dataOf(400, 1), { solicited: true })
    card.serve(frames[0]!)
    card.nvdimm.fencesToFail = 1
    card.serve(...persistFrames(card.connect(), records, 0, fresh(0)))
    expect(naks(card.serve(frames[1]!))).toEqual([NAK_OPERATIONAL])
  })
})

/** The first copy of slot 0 of the only region of a part. */
const RECORD_AT = BYTES_AT
