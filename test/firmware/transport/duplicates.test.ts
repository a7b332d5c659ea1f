/**
 * A requester that goes back N over a wire that loses and repeats, against the responder: every
 * request is done once, in order, and none waits forever (X-3, N2, N3; wire-format 3.5, 3.8).
 *
 * And records that come again under the name of their operation, over another connection: done
 * once, whatever happens to their client's line of the table meanwhile (D-6, G2-2).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { CLIENTS } from '../../../firmware/board/limits.ts'
import { OPERATION_LINES_AT } from '../../../firmware/board/memory-map.ts'
import { isNewOperation } from '../../../firmware/commit/operations.ts'
import type { State } from '../../../firmware/core.ts'
import { clientOf, collectedClientOf } from '../../../firmware/engine/operation.ts'
import { blankLine } from '../../../firmware/medium/operation-line.ts'
import { type Ask, blankAsk } from '../../../firmware/transport/message.ts'
import type { QueuePair } from '../../../firmware/transport/queue-pair.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  PERSIST_ACK,
  PERSIST_QUERY,
  RC_ACKNOWLEDGE,
  RC_READ_RESPONSE_ONLY,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { batchFrames, statuses, upTo } from '../../support/cards/batch-card.ts'
import { BYTES_AT, type BytesCard, bytesCard, KEPT_AT } from '../../support/cards/bytes-card.ts'
import {
  ackStatuses,
  dataOf,
  type PersistOptions,
  persistAcks,
  persistFrames,
  type RegionShape,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { LINE_BYTES, OPERATIONS_AT } from '../../support/judges/oracle.ts'
import { Dialogue, USUAL } from '../../support/wire/dialogue.ts'
import { frameOf, hexOf } from '../../support/wire/frames.ts'
import {
  atomicWriteFrame,
  compareSwapFrame,
  contentOf,
  fetchAddFrame,
  firstDifference,
  flushFrame,
  lines,
  sendFrames,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 5)
const MTU = 256
const BYTES = 4096

/** A request on the wire, and what it does to the memory of the model. */
interface Request {
  readonly name: string
  readonly first: number
  readonly last: number
  readonly frames: readonly Uint8Array[]
  readonly answered: boolean
  /** The original that its answer must carry, if it is an atomic. */
  readonly original: bigint | null
  done: boolean
}

/** What the regions must hold in the end: 'bytes', then 'kept'. */
class Model {
  readonly memory: Uint8Array = new Uint8Array(2 * BYTES)
  private readonly view: DataView = new DataView(this.memory.buffer)

  put(at: number, data: Uint8Array): void {
    this.memory.set(data, at)
  }

  word(at: number): bigint {
    return this.view.getBigUint64(at, true)
  }

  putWord(at: number, value: bigint): void {
    this.view.setBigUint64(at, BigInt.asUintN(64, value), true)
  }
}

const KINDS = ['WRITE', 'SEND', 'READ', 'READ of nothing', 'FLUSH', 'ADD', 'SWAP', 'WORD'] as const

function makeRequest(one: BytesCard, model: Model, random: Random, n: number): Request {
  const { qp } = one
  const kept = random.chance(0.3)
  const region = kept ? one.kept : one.bytes
  const at = 8 * random.below(BYTES / 8 - 100)
  const place = at + (kept ? BYTES : 0)
  const first = qp.psn
  const name = KINDS[random.below(KINDS.length)]!
  let frames: Uint8Array[] = []
  let original: bigint | null = null
  if (name === 'WRITE') {
    const data = dataOf(1 + random.below(700), n)
    frames = writeFrames(qp, region, at, data)
    model.put(place, data)
  } else if (name === 'SEND') frames = sendFrames(qp, dataOf(random.below(600), n))
  else if (name === 'READ') frames = [readFrame(qp, region, 0, at, 1 + random.below(700))]
  else if (name === 'READ of nothing') frames = [readFrame(qp, 0, 0, 0, 0)]
  else if (name === 'FLUSH') frames = [flushFrame(qp, region, { linux: random.chance(0.5) })]
  else if (name === 'ADD') {
    original = model.word(place)
    frames = [fetchAddFrame(qp, region, at, BigInt(n))]
    model.putWord(place, original + BigInt(n))
  } else if (name === 'SWAP') {
    original = model.word(place)
    const compare = random.chance(0.7) ? original : original + 1n
    frames = [compareSwapFrame(qp, region, at, compare, BigInt(n) << 33n)]
    if (compare === original) model.putWord(place, BigInt(n) << 33n)
  } else {
    frames = [atomicWriteFrame(qp, region, at, dataOf(8, n))]
    model.put(place, dataOf(8, n))
  }
  const answered = name !== 'WRITE' && name !== 'SEND'
  const last = (qp.psn - 1) & 0xffffff
  return { name, first, last, frames, answered, original, done: false }
}

function ahead(psn: number, than: number): number {
  return ((psn - than) << 8) >> 8
}

/** Takes an answer as a careful requester does: in order, and nothing that is implied lost. */
function take(window: Request[], sent: Sent, seed: number): void {
  const open = window.filter(({ done }) => !done)
  const carries = sent.opcode !== RC_ACKNOWLEDGE && sent.opcode !== PERSIST_ACK
  const naked = sent.opcode === RC_ACKNOWLEDGE && sent.syndrome !== 0x1f
  if (naked) expect(sent.syndrome, `seed ${seed}`).toBe(0x60)
  for (const request of open) {
    const beyond = ahead(sent.psn, request.last)
    const own = beyond <= 0 && ahead(sent.psn, request.first) >= 0
    if (request.answered) {
      if (!own || !carries) return
      // The last packet of a READ ends it; what was lost before is left out here.
      if (beyond < 0) return
      if (request.original !== null) {
        const view = new DataView(sent.bytes.buffer, sent.packet.payloadAt - 8, 8)
        expect(view.getBigUint64(0), `${request.name}, seed ${seed}`).toBe(request.original)
      }
      if (request.name === 'FLUSH') expect(sent.opcode).toBe(RC_READ_RESPONSE_ONLY)
      request.done = true
      return
    }
    if (naked ? beyond <= 0 : beyond < 0) return
    request.done = true
  }
}

test.each(Array.from({ length: 40 }, (_, i) => SEED + i))(
  'X-3: every request is done once and in order, SEED=%i',
  (seed) => {
    const random = new Random(seed)
    const one = bytesCard(MTU)
    const model = new Model()
    const loss = random.below(5) / 10
    const window: Request[] = []
    let made = 0
    let rounds = 0
    while (made < 60 || window.length > 0) {
      rounds += 1
      if (rounds > 3000) {
        throw new Error(`stuck at ${window[0]!.name}, ${window.length} open, SEED=${seed}`)
      }
      while (window.length < 1 + random.below(10) && made < 60) {
        made += 1
        window.push(makeRequest(one, model, random, made))
      }
      // From the oldest that is not done on, some frames lost, some repeated.
      const frames = window.flatMap((request) => request.frames)
      const wire = frames.flatMap((frame) => {
        if (random.chance(loss)) return []
        return random.chance(0.2) ? [frame, frame] : [frame]
      })
      const answers: Sent[] = []
      while (wire.length > 0)
        answers.push(...one.card.serve(...wire.splice(0, 1 + random.below(32))))
      for (const sent of answers) if (!random.chance(loss)) take(window, sent, seed)
      while (window.length > 0 && window[0]!.done) window.shift()
    }
    const { live } = one.card.nvdimm
    expect(hexOf(live.slice(BYTES_AT, BYTES_AT + BYTES))).toBe(hexOf(model.memory.slice(0, BYTES)))
    expect(hexOf(live.slice(KEPT_AT, KEPT_AT + BYTES))).toBe(hexOf(model.memory.slice(BYTES)))
  },
)

const CLIENT = 7
const OTHER = 9
const MESSAGE = dataOf(600, 1)
const [DATA, OTHERS] = [dataOf(64, 1), dataOf(64, 2)]

interface Named {
  readonly card: TestCard
  readonly region: TestRegion
}

function named(shape: RegionShape = {}): Named {
  const card = new TestCard().format()
  return { card, region: card.provision({ capacity: 640, ...shape }) }
}

/** A connection of that client. */
function connectAs({ card }: Named, low = CLIENT, high = 0, mtu = 256): TestPeer {
  const peer = 0x5500 + (card.now % 0x1000)
  const body = card.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
    putU32(request, mad.CONNECT_CLIENT_QP, peer)
    putU16(request, mad.CONNECT_PATH_MTU, mtu)
    putU32(request, mad.CONNECT_CLIENT_ID_HIGH, high)
    putU32(request, mad.CONNECT_CLIENT_ID_LOW, low)
  })
  const [number, psn] = [mad.CONNECT_QP, mad.CONNECT_FIRST_PSN].map((at) => u32(body, at))
  return { number: number!, peer, mtu, psn: psn!, operation: 0 }
}

function persist(
  { region }: Named,
  qp: TestPeer,
  operation: number,
  slot: number,
  data: Uint8Array = DATA,
  options: PersistOptions = {},
): Uint8Array[] {
  return persistFrames(qp, region, slot, data, { operation, ...options })
}

function held({ card, region }: Named, slot: number, length = DATA.length): string {
  return hexOf(card.read(card.connect(), region, slot, 0, length)!)
}

/** Does the card know of the operation that it is durable? */
function isKnown({ card }: Named, qp: TestPeer, operation: number): boolean {
  const { psn } = qp
  qp.psn = (psn + 1) & 0xffffff
  const bth = { opcode: PERSIST_QUERY, destQp: qp.number, psn, ackRequest: true }
  return ackStatuses(card.serve(frameOf({ bth, pqeth: { operationLow: operation } })))[0] === 0
}

describe('N3, G2-2: a record that comes again over another connection', () => {
  interface Again {
    readonly name: string
    readonly forged: boolean
    readonly client?: readonly [number, number]
    readonly data?: Uint8Array
    readonly between?: (one: Named, qp: TestPeer) => void
  }

  const BYTES = dataOf(600, 2)
  const ROWS: readonly Again[] = [
    { name: 'as it was', forged: false },
    { name: 'with other bytes', forged: true, data: BYTES },
    { name: 'cut short', forged: true, data: MESSAGE.slice(0, 300) },
    {
      ...{ name: 'with other bytes, and the second copy is gone', forged: true, data: BYTES },
      between: ({ card, region }) => card.nvdimm.poison(slotOffset(region, 1, 3) / 64),
    },
    ...[
      [0x80000001, 0x90000002],
      [0x70000001, 0xf0000002],
      [0xe0000001, 0],
    ].map(([low, high]) => ({
      name: `with other bytes, of client 0x${high!.toString(16)} ${low!.toString(16)}`,
      ...{ forged: true, data: BYTES, client: [low!, high!] as const },
    })),
    {
      ...{ name: 'as it was, behind another one of its slot', forged: false },
      between: (one, qp) => one.card.serve(...persist(one, qp, 2, 3, BYTES)),
    },
    {
      ...{ name: "as it was, behind another client's", forged: false },
      between: (one) => one.card.serve(...persist(one, connectAs(one, OTHER), 1, 3, BYTES)),
    },
    {
      ...{ name: 'as it was, when nothing can be stored any more', forged: false },
      between: ({ card }) => {
        card.nvdimm.armed = false
      },
    },
  ]

  for (const { name, forged, client = [CLIENT, 0], data = MESSAGE, between } of ROWS) {
    test(`${name}: is acknowledged, and not done; ${forged ? '' : 'not '}counted as forged`, () => {
      const one = named()
      const { card } = one
      const qp = connectAs(one, ...client)
      expect(ackStatuses(card.serve(...persist(one, qp, 1, 3, MESSAGE)))).toEqual([0])
      between?.(one, qp)
      const before = contentOf(card)
      const other = connectAs(one, ...client)
      const sent = card.serve(...persist(one, other, 1, 3, data))
      expect(persistAcks(sent)).toMatchObject([{ status: 0, operationLow: 1, copies: 2 }])
      expect(firstDifference(contentOf(card), before)).toBe(-1)
      const counted = ['DUPLICATE', 'DUPLICATE_FORGED'].map((fault) => card.counter(fault))
      expect(counted).toEqual(forged ? [0, 1] : [1, 0])
    })
  }

  test('and once more there: the same receipt; its PSN under another name earns none', () => {
    const one = named()
    const { card } = one
    const qp = connectAs(one)
    for (const operation of [1, 2]) card.serve(...persist(one, qp, operation, operation))
    const other = connectAs(one)
    const { psn } = other
    const first = lines(card.serve(...persist(one, other, 1, 1)), psn)
    expect(first).toContain('PERSIST_ACK 0: 0-0 durable 2 records 1')
    const again = lines(card.serve(...persist(one, other, 1, 1, DATA, { psn })), psn)
    expect(again.sort()).toEqual(first.sort())
    const stolen = card.serve(...persist(one, other, 2, 2, DATA, { psn }))
    expect(lines(stolen, psn)).toEqual(['ACK 0'])
    expect(card.counter('DUPLICATE_FORGED')).toBe(1)
  })
})

describe('X-3, P1-11: the medium refuses the line of a client in the middle of a burst', () => {
  function refusing(): Named & { readonly qp: TestPeer } {
    const one = named()
    const qp = connectAs(one)
    one.card.serve(...persist(one, qp, 1, 0))
    for (const which of [0, 1]) one.card.nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + which)
    return { ...one, qp }
  }

  test('which has an operation twice: it is done once', () => {
    const one = refusing()
    const other = connectAs(one)
    const frames = [...persist(one, one.qp, 2, 1), ...persist(one, other, 2, 2, OTHERS)]
    expect(ackStatuses(one.card.serve(...frames))).toEqual([0, 0])
    expect(held(one, 2)).toBe('00'.repeat(64))
  })

  test('which has a slot twice: both operations are known, behind a restart, too', () => {
    for (const repetition of [false, true]) {
      const one = refusing()
      const { card, qp } = one
      const frames = [...persist(one, qp, 2, 1), ...persist(one, qp, 3, 1, OTHERS, { repetition })]
      expect(ackStatuses(card.serve(...frames))).toEqual([0, 0])
      expect([1, 2, 3, 4].map((n) => isKnown(one, qp, n))).toEqual([true, true, true, false])
      const part = new Nvdimm({ bytes: card.nvdimm.bytes, content: card.nvdimm.durable.slice() })
      const next = { card: new TestCard(part), region: one.region }
      const known = [1, 2, 3, 4].map((n) => isKnown(next, connectAs(next), n))
      expect(known).toEqual([true, true, true, false])
    }
  })
})

test('P1-11: of two places in the table none goes to a third client while a burst has both', () => {
  const one = named({ slots: 40 })
  const { card } = one
  const [first, second, third] = [CLIENT, OTHER, 11].map((client) => connectAs(one, client))
  for (let line = 2; line < 2 * (CLIENTS - 1); line++) {
    card.nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + line)
  }
  for (const qp of [first!, second!]) card.serve(...persist(one, qp, 1, 0))
  const repetition = { repetition: true }
  const frames = [
    ...persist(one, second!, 2, 1),
    ...upTo(20).flatMap((i) => persist(one, first!, 2 + i, 2 + i, DATA, repetition)),
    ...persist(one, third!, 1, 30),
  ]
  expect(new Set(ackStatuses(card.serve(...frames)))).toEqual(new Set([0]))
  expect([1, 2].map((n) => isKnown(one, second!, n))).toEqual([true, true])
  expect([2, 21].map((n) => isKnown(one, first!, n))).toEqual([true, true])
  // It is done, and not known.
  expect([isKnown(one, third!, 1), held(one, 30)]).toEqual([false, hexOf(DATA)])
})

describe('D-6: the place of a client in the table', () => {
  function noted(): { state: State; qp: QueuePair; message: Ask } {
    const { state, queuePair: qp } = new Dialogue(USUAL, frameOf({ bth: { opcode: 0x0c } }))
    const message = { ...blankAsk(), operationLow: 5 }
    return { state, qp, message }
  }

  test('is taken as it was noted, and its client counts as served once', () => {
    const { state, qp, message } = noted()
    const { operations } = state.commit
    const place = clientOf(state, qp, message)
    expect(place).toBe(0)
    const { uses } = operations
    expect(collectedClientOf(state, qp, message)).toBe(0)
    expect(operations.uses).toBe(uses)
    // The medium has refused its lines meanwhile.
    operations.retired[0] = 1
    blankLine(operations.words, OPERATION_LINES_AT >> 2, 0, 0)
    expect(collectedClientOf(state, qp, message)).toBe(1)
    expect(qp.client).toBe(1)
  })

  test('that has forgotten all: the first operation is given out, and all below', () => {
    const { state, qp, message } = noted()
    const { operations } = state.commit
    operations.forgetful = true
    const place = clientOf(state, qp, message)
    const isNew = [4, 5, 6].map((low) => isNewOperation(operations, place, 0, low))
    expect(isNew).toEqual([false, false, true])
  })
})

describe('X-3: an operation that was given out stays given out', () => {
  test('by a batch that goes out again, in one burst with a record of that name', () => {
    const one = named()
    const { card, region } = one
    const [qp, other] = [connectAs(one), connectAs(one)]
    card.serve(...persist(one, other, 1, 0))
    const member = { slot: 1, data: DATA, pweth: { repetition: true } }
    const sent = card.serve(
      ...batchFrames(qp, region, [member], { operation: 2 }),
      ...persist(one, other, 2, 2, OTHERS),
    )
    expect(statuses(sent).map(({ said }) => said)).toEqual(['durable'])
    expect([1, 2].map((slot) => held(one, slot))).toEqual([hexOf(DATA), '00'.repeat(64)])
  })

  test('by a batch that goes out again, the first that is heard of its client', () => {
    const one = named()
    const { card, region } = one
    const member = { slot: 1, data: DATA, pweth: { repetition: true } }
    card.serve(...batchFrames(connectAs(one), region, [member], { operation: 1 }))
    const other = connectAs(one)
    for (const slot of [2, 3]) {
      expect(ackStatuses(card.serve(...persist(one, other, 1, slot, OTHERS)))).toEqual([0])
    }
    expect([1, 2, 3].map((slot) => held(one, slot))).toEqual([
      ...[hexOf(DATA), '00'.repeat(64), '00'.repeat(64)],
    ])
  })

  test('by a client that a table had forgotten, behind an older one elsewhere', () => {
    const one = named()
    one.card.nvdimm.dirtyShutdowns += 1
    const next = { card: new TestCard(one.card.nvdimm), region: one.card.open() }
    const region = next.card.open()
    const at = { ...next, region }
    const [qp, other] = [connectAs(at), connectAs(at)]
    expect(ackStatuses(at.card.serve(...persist(at, qp, 5, 0)))).toEqual([0])
    expect(ackStatuses(at.card.serve(...persist(at, other, 4, 1)))).toEqual([0])
    expect(ackStatuses(at.card.serve(...persist(at, other, 5, 2, OTHERS)))).toEqual([0])
    expect([0, 1, 2].map((slot) => held(at, slot))).toEqual([
      ...[hexOf(DATA), hexOf(DATA), '00'.repeat(64)],
    ])
  })

  test('by a long batch that says that it may have been done before: all of it, once', () => {
    const one = named({ slots: 80 })
    const { card, region } = one
    const pweth = { repetition: true }
    const records = upTo(40).map((slot) => ({ slot, data: dataOf(64, slot), pweth }))
    for (const first of [0, 40]) {
      const again = records.map((record) => ({ ...record, slot: record.slot + first }))
      const frames = batchFrames(connectAs(one), region, again, { operation: 1 })
      expect(statuses(card.serve(...frames)).at(-1)!.durable).toEqual(upTo(40))
    }
    for (const slot of [0, 31, 32, 39]) {
      expect(held(one, slot)).toBe(hexOf(dataOf(64, slot)))
      expect(held(one, slot + 40)).toBe('00'.repeat(64))
    }
  })
})

describe('D-6: a repetition of nobody, of whom nothing is known', () => {
  const codeOf = (name: string): number => FAULTS.find((fault) => fault.name === name)!.code

  interface Wrong {
    readonly said: string
    readonly slot?: number
    readonly wait?: number
    readonly data?: Uint8Array
    readonly carried?: boolean
    readonly shape?: RegionShape
    readonly armed?: boolean
  }

  const WRONG: readonly Wrong[] = [
    // What is the same whenever it comes was refused before, and was never executed.
    { said: 'SLOT', slot: 99 },
    { said: 'RECORD_LENGTH', data: dataOf(65, 1) },
    { said: 'FIXED_LENGTH', data: dataOf(63, 1), shape: { flags: 1 } },
    { said: 'LEVEL', wait: 3 },
    { said: 'COPIES_DIFFER', data: dataOf(64, 1), carried: true },
    // All else says nothing of what was.
    { said: 'OPERATION_FORGOTTEN' },
    { said: 'OPERATION_FORGOTTEN', armed: false },
    { said: 'OPERATION_FORGOTTEN', data: Uint8Array.from([...DATA, ...DATA]), carried: true },
  ]

  test.each(WRONG)('hears $said: $slot $wait $carried $armed', (wrong) => {
    const { slot = 0, wait = 2, data = DATA, carried = false, armed = true } = wrong
    const one = named({ capacity: 64, ...wrong.shape })
    const { card, region } = one
    card.nvdimm.armed = armed
    const qp = connectAs(one, 0)
    const frame = frameOf({
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
      reth: { vaHigh: slot, vaLow: 0, rkey: region.rkey, length: data.length / (carried ? 2 : 1) },
      pweth: {
        ...{ wait, slotAddressed: true, wantsAck: true, operationLow: 1, repetition: true },
        ...{ carried, furtherCopies: carried ? 1 : 0 },
      },
      payload: data,
    })
    expect(ackStatuses(card.serve(frame))).toEqual([codeOf(wrong.said)])
    card.nvdimm.armed = true
    if (slot === 0) expect(held(one, 0, 64)).toBe('00'.repeat(64))
  })
})
