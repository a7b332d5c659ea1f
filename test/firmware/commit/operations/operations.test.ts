/**
 * Operations are named permanently: what was durable under a name is acknowledged again and never
 * done again, on any connection, after any restart; what was not is done (D-6, P2-27, G2-2, G2-3,
 *
 *
 * Invariant: what the medium holds is read by the oracle, not by the firmware. Every
 * operation below is chosen by the test.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { FENCE } from '../../../../firmware/board/hal.ts'
import { CLIENTS } from '../../../../firmware/board/limits.ts'
import {
  addOperation,
  blankLine,
  dropOperation,
  knowsOperation,
  newestLow,
  OPERATION_WINDOW,
  openOperations,
} from '../../../../firmware/medium/operation-line.ts'
import { u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { PERSIST_ACK, PERSIST_QUERY } from '../../../../firmware/wire/opcode.ts'
import type { Paeth } from '../../../../firmware/wire/persist-ack.ts'
import {
  dataOf,
  type PersistOptions,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
} from '../../../support/cards/test-card.ts'
import { SEED } from '../../../support/crash/explorer.ts'
import {
  LANES_AT,
  LINE_BYTES,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
  sameBytes,
  TableOracle,
} from '../../../support/judges/oracle.ts'
import { leave } from '../../../support/peers/strangers.ts'
import { frameOf } from '../../../support/wire/frames.ts'
import type { Setting } from '../../../support/wire/requests.ts'

const CLIENT = 7
const OTHER = 9
const NOT_KNOWN = 2

function setting(slots = 8): Setting {
  const card = new TestCard()
  card.format()
  const region = card.provision({ slots })
  return { card, region, qp: card.connect(4096, 0, CLIENT) }
}

/** The part after a restart, with a connection of that client. */
function restarted({ card }: Setting, client = CLIENT): Setting {
  const next = new TestCard(card.nvdimm)
  return { card: next, region: next.open(), qp: next.connect(4096, 0, client) }
}

function of(one: Setting, client: number): Setting {
  return { ...one, qp: one.card.connect(4096, 0, client) }
}

function write(one: Setting, operation: number, slot: number, seed: number): Paeth {
  const frames = writeFrames(one, operation, slot, seed)
  return persistAcks(one.card.serve(...frames))[0]!
}

function writeFrames(
  one: Setting,
  operation: number,
  slot: number,
  seed: number,
  options: PersistOptions = {},
): Uint8Array[] {
  return persistFrames(one.qp, one.region, slot, dataOf(64, seed), { operation, ...options })
}

function held(one: Setting, slot: number): Uint8Array {
  return one.card.read(one.qp, one.region, slot, 0, 64)!
}

/** Until the lanes are clear, durably, they name their operations to recovery. */
function clearLanes({ card }: Setting): void {
  card.idle()
  card.nvdimm.fence()
}

/** A PERSIST_QUERY; the PSN of the queue pair moves on. */
function queryFrame(one: Setting, operation: number, high = 0): Uint8Array {
  const { qp } = one
  const psn = qp.psn
  qp.psn = (psn + 1) & 0xffffff
  return frameOf({
    bth: { opcode: PERSIST_QUERY, destQp: qp.number, psn, ackRequest: true },
    pqeth: { operationHigh: high, operationLow: operation },
  })
}

function ask(one: Setting, operation: number, high = 0): Paeth {
  return persistAcks(one.card.serve(queryFrame(one, operation, high)))[0]!
}

function isKnown(one: Setting, operation: number, high = 0): boolean {
  return ask(one, operation, high).status === 0
}

/** What is durable as that fence of what is done begins. */
function beforeFence(card: TestCard, fence: number, done: () => void): Uint8Array {
  const fences: Uint8Array[] = []
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE) fences.push(card.nvdimm.durable.slice())
    },
  })
  done()
  card.machine.observe({})
  return fences[fence - 1]!
}

/** What is durable behind each fence of a start on that content. */
function fencesOfStart(content: Uint8Array): Uint8Array[] {
  const part = new Nvdimm({ bytes: content.length, content: content.slice() })
  const fence = part.fence.bind(part)
  const behind: Uint8Array[] = []
  part.fence = () => {
    const result = fence()
    behind.push(part.durable.slice())
    return result
  }
  new TestCard(part)
  return behind
}

function contentOf(card: TestCard): Uint8Array {
  return card.nvdimm.live.slice()
}

describe('a retry', () => {
  test('X-3, G2-2: on another queue pair it is acknowledged again, and nothing is stored', () => {
    const one = setting()
    write(one, 1, 3, 1)
    one.card.idle()
    const before = contentOf(one.card)
    const again = write(of(one, CLIENT), 1, 3, 1)
    expect([again.status, again.all, again.operationLow, again.copies]).toEqual([0, true, 1, 2])
    expect(contentOf(one.card)).toEqual(before)
  })

  test('X-3, N3: with other bytes it is acknowledged, not executed, and counted as forged', () => {
    const one = setting()
    write(one, 1, 3, 1)
    const forged = one.card.counter('DUPLICATE_FORGED')
    expect(write(of(one, CLIENT), 1, 3, 2).status).toBe(0)
    expect(held(one, 3)).toEqual(dataOf(64, 1))
    expect(one.card.counter('DUPLICATE_FORGED')).toBe(forged + 1)
    // At another slot nothing tells what it was; that it is not executed is the same.
    expect(write(of(one, CLIENT), 1, 4, 2).status).toBe(0)
    expect(held(one, 4)).toEqual(new Uint8Array(64))
  })

  test('D-6: after a restart, too, and also when another client has written since', () => {
    const one = setting()
    write(one, 1, 3, 1)
    write(of(one, OTHER), 1, 3, 2)
    const next = restarted(one)
    expect(write(next, 1, 3, 1).status).toBe(0)
    expect(held(next, 3)).toEqual(dataOf(64, 2))
    expect(next.card.counter('DUPLICATE')).toBe(1)
  })

  test('D-6: of what was not durable, after a restart, is executed', () => {
    const one = setting()
    write(one, 1, 3, 1)
    // Number 2 was refused: the region has no such slot.
    expect(write(one, 2, 99, 1).status).not.toBe(0)
    write(one, 3, 3, 3)
    const next = restarted(one)
    expect([1, 2, 3, 4].map((operation) => isKnown(next, operation))).toEqual([
      ...[true, false, true, false],
    ])
    expect(write(next, 2, 4, 2).status).toBe(0)
    expect(held(next, 4)).toEqual(dataOf(64, 2))
    expect(isKnown(next, 2)).toBe(true)
  })

  test('X-3, L3: a record goes back, a cut, and its lane is lost: it is not known', () => {
    const one = setting()
    write(one, 1, 0, 1)
    clearLanes(one)
    // The first line is in the table, the lane says A still: what a cut before F3 may leave.
    const { nvdimm } = one.card
    const left = beforeFence(one.card, 3, () => write(one, 2, 0, 2))
    left.set(
      nvdimm.durable.subarray(OPERATIONS_AT, OPERATIONS_AT + OPERATIONS_BYTES),
      OPERATIONS_AT,
    )
    const behind = fencesOfStart(left)
    for (const content of [left, ...behind]) {
      const part = new Nvdimm({ bytes: content.length, content: content.slice() })
      part.poison(LANES_AT / LINE_BYTES)
      const next = restarted({ ...one, card: new TestCard(part) })
      const isNew = sameBytes(held(next, 0), dataOf(64, 2))
      expect(isKnown(next, 2)).toBe(isNew)
      expect(held(next, 0)).toEqual(dataOf(64, isNew ? 2 : 1))
    }
    const end = new Nvdimm({ bytes: nvdimm.bytes, content: behind.at(-1)! })
    expect(held(restarted({ ...one, card: new TestCard(end) }), 0)).toEqual(dataOf(64, 1))
  })

  test('X-3: twice in one burst, on two queue pairs and to two slots, is executed once', () => {
    const one = setting()
    const two = of(one, CLIENT)
    const frames = [...writeFrames(one, 1, 3, 1), ...writeFrames(two, 1, 4, 2)]
    const acks = persistAcks(one.card.serve(...frames))
    expect(acks.map(({ status, operationLow }) => [status, operationLow])).toEqual([
      [0, 1],
      [0, 1],
    ])
    expect([held(one, 3), held(one, 4)]).toEqual([dataOf(64, 1), new Uint8Array(64)])
  })

  test('X-3: of another client under the same number is another operation', () => {
    const one = setting()
    write(one, 1, 3, 1)
    expect(write(of(one, OTHER), 1, 3, 2).status).toBe(0)
    expect(held(one, 3)).toEqual(dataOf(64, 2))
  })

  test('D-6: client 0 is nobody and operation 0 no name: both are executed each time', () => {
    for (const [client, operation] of [
      [0, 1],
      [CLIENT, 0],
    ] as const) {
      const one = of(setting(), client)
      write(one, operation, 3, 1)
      expect(isKnown(one, operation)).toBe(false)
      expect(write(one, operation, 3, 2).status).toBe(0)
      expect(held(one, 3)).toEqual(dataOf(64, 2))
    }
  })

  test('D-6: the part need not be able to store any more: what is durable is durable', () => {
    const one = setting()
    write(one, 1, 3, 1)
    one.card.nvdimm.armed = false
    expect(write(one, 2, 4, 2).status).not.toBe(0)
    expect(write(of(one, CLIENT), 1, 3, 1).status).toBe(0)
    expect(isKnown(one, 1)).toBe(true)
  })
})

describe('a query', () => {
  test('G2-3: takes one PSN, and is answered at it, as an answer to a query', () => {
    const one = setting()
    write(one, 5, 0, 1)
    const { psn } = one.qp
    const sent = one.card.serve(queryFrame(one, 5), queryFrame(one, 6))
    expect(sent.map(({ opcode }) => opcode)).toEqual([PERSIST_ACK, PERSIST_ACK])
    expect(sent.map((frame) => frame.psn)).toEqual([psn, psn + 1])
    const [known, unknown] = persistAcks(sent)
    expect(known).toMatchObject({ query: true, status: 0, firstPsn: psn, lastPsn: psn })
    expect(known).toMatchObject({ incarnation: 1, records: 0, copies: 1, all: false })
    expect(unknown).toMatchObject({ query: true, status: NOT_KNOWN, copies: 0, all: false })
    expect(write(one, 6, 0, 2).status).toBe(0)
  })

  test('X-1: stands behind the records of its burst, durable when it is answered', () => {
    const one = setting()
    const sent = one.card.serve(
      ...writeFrames(one, 1, 0, 1),
      queryFrame(one, 1),
      ...writeFrames(one, 2, 1, 1),
      queryFrame(one, 2),
    )
    const said = persistAcks(sent).map(({ query, status, operationLow }) => [
      ...[query, status, operationLow],
    ])
    expect(said).toEqual([
      [false, 0, 1],
      [true, 0, 1],
      [false, 0, 2],
      [true, 0, 2],
    ])
  })

  test('G2-2: asked again under its PSN it is answered again, with what is known then', () => {
    const one = setting()
    const frame = queryFrame(one, 1)
    const answer = (sent: readonly Sent[]): number | undefined => persistAcks(sent)[0]?.status
    expect(answer(one.card.serve(frame))).toBe(NOT_KNOWN)
    write(one, 1, 0, 1)
    const before = contentOf(one.card)
    expect(answer(one.card.serve(frame))).toBe(0)
    expect(contentOf(one.card)).toEqual(before)
  })

  test('D-6: speaks of no other client, and of none before it has written', () => {
    const one = setting()
    write(one, 1, 0, 1)
    expect(isKnown(of(one, OTHER), 1)).toBe(false)
    expect(isKnown(of(one, CLIENT), 1)).toBe(true)
  })

  test('D-6: is cumulative up to the first gap, from operation 1 on', () => {
    const one = setting()
    expect(ask(one, 1)).toMatchObject({ cumulative: false, operationLow: 1 })
    for (const operation of [1, 2, 3]) write(one, operation, 0, operation)
    expect(ask(one, 1)).toMatchObject({ cumulative: true, operationLow: 3 })
    write(one, 5, 0, 5)
    expect(ask(one, 5)).toMatchObject({ cumulative: true, operationLow: 3, status: 0 })
    expect(ask(one, 4)).toMatchObject({ cumulative: true, operationLow: 3, status: NOT_KNOWN })
    write(one, 4, 0, 4)
    expect(ask(restarted(one), 4)).toMatchObject({ cumulative: true, operationLow: 5, status: 0 })
    // A client that begins later says nothing of what was before.
    const late = of(one, OTHER)
    write(late, 1000, 1, 1)
    expect(ask(late, 1000)).toMatchObject({ cumulative: false, operationLow: 1000, status: 0 })
  })

  test('X-7: a form that is not known is a NAK, and ends the queue pair', () => {
    for (const pqeth of [{ version: 2 }, { words: 4 }]) {
      const one = setting()
      const bth = { opcode: PERSIST_QUERY, destQp: one.qp.number, psn: one.qp.psn }
      const sent = one.card.serve(frameOf({ bth, pqeth }))
      expect(sent.map(({ syndrome }) => syndrome)).toEqual([0x61])
      expect(one.card.counter('PERSIST_HEADER')).toBe(1)
      expect(one.card.serve(frameOf({ bth }))).toEqual([])
    }
  })
})

/** Operations of which the line says something else than the set. */
function wrongOf(words: Int32Array, durable: ReadonlySet<number>, newest: number): number[] {
  const wrong: number[] = []
  const open = openOperations(words, 0)
  for (let one = 1; one <= newest + 2; one++) {
    const known = knowsOperation(words, 0, 0, one)
    // Of old ones it may have forgotten, and never says what is not so.
    const exact = one > newest - OPERATION_WINDOW
    if (exact ? known !== durable.has(one) : known && !durable.has(one)) wrong.push(one)
    if (open >= 0 && one <= newest - open && !durable.has(one)) wrong.push(one)
  }
  if (open > 0 && durable.has(newest - open + 1)) wrong.push(newest - open + 1)
  return wrong
}

describe('the table', () => {
  test('D-6: a line says of every operation what a set of them says, whatever the order', () => {
    const random = new Random(SEED)
    const words = new Int32Array(16)
    for (let life = 0; life < 40; life++) {
      blankLine(words, 0, 1, 1)
      const durable = new Set<number>()
      let newest = 0
      for (let step = 0; step < 400; step++) {
        const leap = random.chance(0.02) ? random.below(300) : random.below(4)
        const operation = Math.max(1, newest + leap - random.below(random.chance(0.1) ? 140 : 4))
        if (random.chance(0.05) && knowsOperation(words, 0, 0, operation)) {
          dropOperation(words, 0, 0, operation)
          durable.delete(operation)
        } else if (operation > newest - OPERATION_WINDOW) {
          addOperation(words, 0, 0, operation)
          durable.add(operation)
          newest = Math.max(newest, operation)
        }
        const said = { newest: newestLow(words, 0), wrong: wrongOf(words, durable, newest) }
        if (said.newest === newest && said.wrong.length === 0) continue
        expect(said, `SEED=${SEED}`).toEqual({ newest, wrong: [] })
      }
    }
  })

  test('D-6: all of a long life without gaps stays known, before and behind the restart', () => {
    const one = setting()
    for (let operation = 1; operation <= 700; operation += 32) {
      const frames: Uint8Array[] = []
      for (let i = operation; i < operation + 32; i++) frames.push(...writeFrames(one, i, i % 8, i))
      one.card.serve(...frames)
    }
    const next = restarted(one)
    for (const operation of [1, 2, 300, 575, 576, 577, 703, 704]) {
      expect([operation, isKnown(next, operation)]).toEqual([operation, true])
    }
    expect(ask(next, 705)).toMatchObject({ status: NOT_KNOWN, cumulative: true, operationLow: 704 })
  })

  test('D-6: one that comes more than a window late is executed, and not recorded', () => {
    const one = setting()
    write(one, 1000, 0, 1)
    expect(write(one, 1000 - OPERATION_WINDOW, 1, 2).status).toBe(0)
    expect(isKnown(one, 1000 - OPERATION_WINDOW)).toBe(false)
    expect(write(one, 1001 - OPERATION_WINDOW, 2, 3).status).toBe(0)
    expect(isKnown(one, 1001 - OPERATION_WINDOW)).toBe(true)
  })

  test('D-6: ids have 64 bits: the low word turns over, and the high word counts', () => {
    const one = setting()
    const send = (operation: number, operationHigh: number, slot: number): Paeth =>
      persistAcks(
        one.card.serve(...writeFrames(one, operation, slot, slot + 1, { operationHigh })),
      )[0]!
    send(0xffffffff, 1, 0)
    send(0, 2, 1)
    send(1, 2, 2)
    const next = restarted(one)
    expect([
      isKnown(next, 0xffffffff, 1),
      isKnown(next, 0, 2),
      isKnown(next, 1, 2),
      isKnown(next, 0xffffffff, 0),
      isKnown(next, 1, 1),
    ]).toEqual([true, true, true, false, false])
  })

  test('D-6: the client served longest ago makes room for a new one; the others stay', () => {
    const one = setting()
    for (let client = 1; client <= CLIENTS; client++) {
      const its = of(one, client)
      write(its, 1, client % 8, client)
      leave(its.card, its.qp)
    }
    // Client 1 is served again, so that client 2 is the one to go.
    write(of(one, 1), 2, 0, 1)
    write(of(one, CLIENTS + 1), 1, 0, 2)
    const known = (at: Setting, clients: readonly number[]): number[] =>
      clients.filter((client) => {
        const its = of(at, client)
        const is = isKnown(its, 1)
        leave(its.card, its.qp)
        return is
      })
    expect(known(one, [1, 2, 3, CLIENTS, CLIENTS + 1])).toEqual([1, 3, CLIENTS, CLIENTS + 1])
    // What was forgotten is judged by the slot as it stands: it is executed.
    expect(write(of(one, 2), 1, 5, 9).status).toBe(0)
    expect(held(one, 5)).toEqual(dataOf(64, 9))
    const all = Array.from({ length: CLIENTS + 1 }, (_, i) => i + 1)
    expect(known(restarted(one), all)).toEqual(all.filter((client) => client !== 3))
  })

  test('D-6: both lines of a client say the same behind every group', () => {
    const one = setting()
    const table = new TableOracle()
    const { durable } = one.card.nvdimm
    const line = (which: number): Uint8Array => {
      const at = OPERATIONS_AT + which * LINE_BYTES
      return durable.slice(at, at + LINE_BYTES)
    }
    for (const operation of [1, 2, 3]) {
      write(one, operation, 0, operation)
      expect(line(0)).toEqual(line(1))
      expect(table.lineOf(durable, CLIENT)!.newest).toBe(BigInt(operation))
    }
    clearLanes(one)
    // One flipped bit, and the line is not whole: the other one says all that it said.
    durable[OPERATIONS_AT + 40]! ^= 1
    one.card.nvdimm.live[OPERATIONS_AT + 40]! ^= 1
    const next = restarted(one)
    expect([1, 2, 3].map((operation) => isKnown(next, operation))).toEqual([true, true, true])
    expect(line(0)).toEqual(line(1))
  })

  test('P1-11: a line that the medium refuses moves elsewhere, and nothing is forgotten', () => {
    const one = setting()
    const { nvdimm } = one.card
    write(one, 1, 0, 1)
    for (const which of [0, 1]) nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + which)
    expect(write(one, 2, 0, 2).status).toBe(0)
    expect(write(one, 3, 1, 3).status).toBe(0)
    expect([1, 2, 3].map((operation) => isKnown(one, operation))).toEqual([true, true, true])
    const next = restarted(one)
    expect([1, 2, 3].map((operation) => isKnown(next, operation))).toEqual([true, true, true])
    expect(write(next, 4, 2, 4).status).toBe(0)
    expect(isKnown(restarted(next), 4)).toBe(true)
  })

  test('P1-11: where no line takes anything, records are taken all the same', () => {
    const one = setting()
    const { nvdimm } = one.card
    for (let i = 0; i < 2 * CLIENTS; i++) nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + i)
    expect(write(one, 1, 0, 1).status).toBe(0)
    expect(held(one, 0)).toEqual(dataOf(64, 1))
    expect(isKnown(one, 1)).toBe(false)
    expect(write(one, 2, 1, 2).status).toBe(0)
  })

  test('P1-11: an unreadable line is as good as none: the other one counts', () => {
    const one = setting()
    write(one, 1, 0, 1)
    write(one, 2, 0, 2)
    clearLanes(one)
    one.card.nvdimm.poison(OPERATIONS_AT / LINE_BYTES + 1)
    const next = restarted(one)
    expect([1, 2].map((operation) => isKnown(next, operation))).toEqual([true, true])
    one.card.nvdimm.poison(OPERATIONS_AT / LINE_BYTES)
    expect(isKnown(restarted(next), 2)).toBe(true)
  })

  test('D-13: a shutdown that may have lost what was fenced makes the table void', () => {
    const one = setting()
    write(one, 1, 0, 1)
    one.card.nvdimm.dirtyShutdowns += 1
    const next = restarted(one)
    expect(isKnown(next, 1)).toBe(false)
    write(next, 2, 0, 2)
    const last = restarted(next)
    expect([1, 2].map((operation) => isKnown(last, operation))).toEqual([false, true])
  })

  test('D-2: a start reads as many lines of it for any size, and says what it added', () => {
    const one = setting()
    write(one, 1, 0, 1)
    const body = new TestCard(one.card.nvdimm).status()
    // The lane of the last group says B still; the table knew the operation already.
    expect(u32(body, mad.PART_LANES_ACTIVE)).toBe(1)
    expect(u32(body, mad.PART_OPERATIONS)).toBe(0)
  })

  test('the start of a blank part has added nothing, and mended nothing', () => {
    const body = new TestCard(1 << 17).status()
    expect(body[mad.PART_STATE]).toBe(mad.STATE_BLANK)
    const said = [mad.PART_OPERATIONS, mad.PART_OPERATIONS_MENDED, mad.PART_OPERATIONS_LOST]
    expect(said.map((at) => u32(body, at))).toEqual([0, 0, 0])
  })
})
