/**
 * Operations that the table may have forgotten: lines that decay, clients that make way for others,
 * and what a repetition hears then (D-6, X-3; L3, L5).
 *
 * Invariant: an operation that was acknowledged is never executed again over the record
 * that another client wrote since. One decayed line takes nothing with it; where both are lost, or
 * the client was forgotten, a repetition that says so is refused.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON } from '../../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../../firmware/board/fault.ts'
import { FENCE } from '../../../../firmware/board/hal.ts'
import {
  BATCH_TIMEOUT_US,
  CLIENTS,
  FLUSH_TIMEOUT_US,
  SCRUB_CLIENTS,
  SCRUB_TURNS,
} from '../../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../../firmware/burst/view.ts'
import * as el from '../../../../firmware/host/element.ts'
import { putU32, u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import {
  CONDITION_EXPECT,
  CONDITION_IN_ORDER,
  CONDITION_INDEPENDENT,
} from '../../../../firmware/wire/persist.ts'
import { batchFrames, batchSetting, IN_ORDER, statuses } from '../../../support/cards/batch-card.ts'
import { failFence } from '../../../support/cards/fences.ts'
import { cutPower, placed, restarted as restartedPlaced } from '../../../support/cards/placed.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../../support/cards/test-card.ts'
import { LINE_BYTES, OPERATIONS_AT } from '../../../support/judges/oracle.ts'
import { leave } from '../../../support/peers/strangers.ts'
import { localQueue, play } from '../../../support/queues/local-queue.ts'
import type { ElementFields } from '../../../support/queues/queue-host.ts'
import { slotOffset } from '../../../support/wire/requests.ts'

const FORGOTTEN = 0x98
const NOT_ARMED = 0x85
const IN_DOUBT = 0x8f
const [READ_ONLY, FLUSH] = ['READ_ONLY', 'FLUSH'].map(codeOf)
const [NO_AGENT, PLACEMENT_UNKNOWN] = ['NO_AGENT', 'PLACEMENT_UNKNOWN'].map(codeOf)
const NO_SLOT = 0x82
const ONE = 7
const TWO = 8
const [FIRST, SECOND] = [dataOf(64, 1), dataOf(64, 2)]

function codeOf(name: string): number {
  return FAULTS.find((fault) => fault.name === name)!.code
}

function opened(): TestCard {
  const card = new TestCard(new Nvdimm({ bytes: 1 << 17 })).format()
  card.provision({ slots: 8 })
  return card
}

/** The status that a record of that client is answered with. */
/** Clients from here on are many, and leave again. */
const CROWD = 1000

function write(
  card: TestCard,
  client: number,
  operation: number,
  data: Uint8Array,
  more: { slot?: number; repetition?: boolean } = {},
): number {
  const { slot = 0, repetition = false } = more
  const qp = card.connect(4096, 0, client)
  const frames = persistFrames(qp, card.open(), slot, data, { operation, repetition })
  const [said] = persistAcks(card.serve(...frames))
  if (client >= CROWD) leave(card, qp)
  return said!.status
}

function expectHeld(card: TestCard, data: Uint8Array): void {
  const read = card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)
  expect(Buffer.from(read!)).toEqual(Buffer.from(data))
}

function restarted(card: TestCard, seed = 1): TestCard {
  if (!card.machine.dead) card.machine.die()
  cut(card.nvdimm, { random: new Random(seed) })
  return new TestCard(card.nvdimm)
}

/** The numbers of the lines that name the client. */
function linesOf({ nvdimm }: TestCard, client: number): number[] {
  const lines: number[] = []
  for (let i = 0; i < 2 * CLIENTS; i++) {
    const at = OPERATIONS_AT + i * LINE_BYTES
    if (u32(nvdimm.durable, at + 24) === client * 2 ** 24) lines.push(at / LINE_BYTES)
  }
  return lines
}

function tableOf(card: TestCard): { mended: number; lost: number } {
  const status = card.status()
  const mended = u32(status, mad.PART_OPERATIONS_MENDED)
  return { mended, lost: u32(status, mad.PART_OPERATIONS_LOST) }
}

/** Idle time, until every line of the table was looked at. */
function scrubbed(card: TestCard): void {
  for (let i = 0; i < SCRUB_TURNS * (CLIENTS / SCRUB_CLIENTS); i++) card.idle()
}

/** Client ONE has written, and its acknowledgement was lost; client TWO has written since. */
function overwritten(): TestCard {
  const card = opened()
  expect(write(card, ONE, 1, FIRST)).toBe(0)
  expect(write(card, TWO, 1, SECOND)).toBe(0)
  card.idle()
  return card
}

describe('D-6: a record is lost behind its acknowledgement', () => {
  /** The power goes, and the medium takes both copies of the record; somebody gives it up. */
  function givenUp(card: TestCard): TestCard {
    const region = card.open()
    card.machine.die()
    cut(card.nvdimm, { random: new Random(1), strategy: 'all' })
    for (const copy of [0, 1]) card.nvdimm.poison(slotOffset(region, copy, 0) / LINE_BYTES)
    const next = new TestCard(card.nvdimm)
    expect(next.open().unsettled).toBe(1)
    next.must(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
      putU32(body, mad.SETTLE_REGION, region.id)
      body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
    })
    return next
  }

  test('whoever repeats it is refused, and what another has written since stays', () => {
    const card = opened()
    expect(write(card, ONE, 1, FIRST)).toBe(0)
    const next = givenUp(card)
    expect(write(next, TWO, 1, SECOND)).toBe(0)
    const repetition = { repetition: true }
    expect(write(next, ONE, 1, FIRST, repetition)).toBe(FORGOTTEN)
    expectHeld(next, SECOND)
    // So it is at the next start; and what the client does anew is done.
    next.idle()
    const third = restarted(next)
    expect(write(third, ONE, 1, FIRST, repetition)).toBe(FORGOTTEN)
    expectHeld(third, SECOND)
    expect(write(third, ONE, 2, FIRST)).toBe(0)
    expectHeld(third, FIRST)
  })

  test('where nobody had it acknowledged, it is executed', () => {
    const card = opened()
    expect(write(card, TWO, 1, SECOND)).toBe(0)
    const next = givenUp(card)
    expect(write(next, ONE, 1, FIRST, { repetition: true })).toBe(0)
    expectHeld(next, FIRST)
  })
})

describe('R1-C6: a line of the operation table decays', () => {
  for (const which of [0, 1]) {
    test(`line ${which} of a client, and the start mends it`, () => {
      const card = overwritten()
      card.nvdimm.poison(linesOf(card, ONE)[which]!)
      const next = restarted(card)
      expect(tableOf(next)).toEqual({ mended: 1, lost: 0 })
      expect(write(next, ONE, 1, FIRST)).toBe(0)
      expectHeld(next, SECOND)
      // It is whole again: now the other one may go.
      next.nvdimm.poison(linesOf(next, ONE)[1 - which]!)
      const third = restarted(next)
      expect(write(third, ONE, 1, FIRST)).toBe(0)
      expectHeld(third, SECOND)
    })

    test(`line ${which} of a client, and idle time mends it`, () => {
      const card = overwritten()
      card.nvdimm.poison(linesOf(card, ONE)[which]!)
      scrubbed(card)
      expect(tableOf(card)).toEqual({ mended: 1, lost: 0 })
      card.nvdimm.poison(linesOf(card, ONE)[1 - which]!)
      const next = restarted(card)
      expect(write(next, ONE, 1, FIRST)).toBe(0)
      expectHeld(next, SECOND)
    })
  }

  test('one that its client has left, as it took no store, is none to mend', () => {
    const card = overwritten()
    const left = linesOf(card, ONE)
    for (const line of left) card.nvdimm.refuseWrites(line)
    expect(write(card, ONE, 2, FIRST, { slot: 1 })).toBe(0)
    for (const line of left) card.nvdimm.poison(line)
    scrubbed(card)
    expect(tableOf(card)).toEqual({ mended: 0, lost: 0 })
    expect(write(restarted(card), ONE, 1, FIRST)).toBe(0)
    expectHeld(restarted(card), SECOND)
  })

  test('both lines while the part serves: it writes them from what it knows', () => {
    const card = overwritten()
    for (const line of linesOf(card, ONE)) card.nvdimm.poison(line)
    scrubbed(card)
    expect(tableOf(card)).toEqual({ mended: 2, lost: 0 })
    const next = restarted(card)
    expect(write(next, ONE, 1, FIRST)).toBe(0)
    expectHeld(next, SECOND)
  })

  test('the save energy goes while idle time mends it: the part closes, a start mends', () => {
    const card = overwritten()
    card.nvdimm.poison(linesOf(card, ONE)[0]!)
    card.machine.observe({
      onCommand: (_, op) => {
        if (op === FENCE) card.nvdimm.armed = false
      },
    })
    scrubbed(card)
    expect(write(card, TWO, 2, FIRST, { slot: 1 })).toBe(NOT_ARMED)
    card.nvdimm.armed = true
    expect(write(card, TWO, 2, FIRST, { slot: 1 })).toBe(NOT_ARMED)
    const next = restarted(card)
    expect(tableOf(next).lost).toBe(0)
    expect(write(next, ONE, 1, FIRST, { repetition: true })).toBe(0)
    expectHeld(next, SECOND)
  })

  test('both lines over a start: a repetition is refused, now and behind the next start', () => {
    const card = overwritten()
    for (const line of linesOf(card, ONE)) card.nvdimm.poison(line)
    let next = restarted(card)
    expect(tableOf(next)).toEqual({ mended: 2, lost: 1 })
    for (let start = 0; start < 2; start++) {
      expect(write(next, ONE, 1, FIRST, { repetition: true })).toBe(FORGOTTEN)
      expectHeld(next, SECOND)
      // Whoever is still known is served as ever.
      expect(write(next, TWO, 1, SECOND, { repetition: true })).toBe(0)
      expect(write(next, TWO, 2 + start, SECOND, { repetition: true, slot: 1 })).toBe(0)
      next = restarted(next)
    }
  })

  test('a free place that cannot be read is mended, and nobody is forgotten', () => {
    const card = overwritten()
    card.nvdimm.poison(OPERATIONS_AT / LINE_BYTES + 200)
    scrubbed(card)
    expect(tableOf(card).mended).toBe(1)
    expect(card.nvdimm.isPoisoned(OPERATIONS_AT / LINE_BYTES + 200)).toBe(false)
    expect(write(restarted(card), 99, 1, FIRST, { repetition: true, slot: 3 })).toBe(0)
  })
})

describe('R1-C7: 128 other clients', () => {
  function crowded(): TestCard {
    const card = overwritten()
    for (let i = 0; i < CLIENTS; i++) write(card, 1000 + i, 1, FIRST, { slot: 1 + (i % 7) })
    write(card, 1000, 2, SECOND)
    return card
  }

  test.each(['over another connection', 'behind a restart'])(
    'a repetition %s is refused',
    (how) => {
      const card = crowded()
      const next = how === 'behind a restart' ? restarted(card) : card
      expect(write(next, ONE, 1, FIRST, { repetition: true })).toBe(FORGOTTEN)
      expect(next.counter('OPERATION_FORGOTTEN')).toBe(1)
      expectHeld(next, SECOND)
    },
  )

  test('one that comes back with something new has forgotten nothing less', () => {
    const card = crowded()
    expect(write(card, ONE, 9, FIRST, { slot: 2 })).toBe(0)
    for (const operation of [1, 8]) {
      expect(write(card, ONE, operation, FIRST, { repetition: true })).toBe(FORGOTTEN)
    }
    expect(write(card, ONE, 9, FIRST, { repetition: true, slot: 2 })).toBe(0)
    expect(write(card, ONE, 10, FIRST, { repetition: true, slot: 2 })).toBe(0)
    // What was passed over since is known not to be durable; in time all of it is.
    const qp = card.connect(4096, 0, ONE)
    for (let i = 11; i <= 9 + CLIENTS; i++) {
      card.serve(...persistFrames(qp, card.open(), 2, FIRST, { operation: i }))
    }
    expect(write(card, ONE, 10, FIRST, { repetition: true, slot: 2 })).toBe(0)
    expectHeld(card, SECOND)
  })

  test('in a table that has forgotten nobody a repetition is executed, and once', () => {
    const card = opened()
    expect(write(card, ONE, 1, FIRST, { repetition: true })).toBe(0)
    expect(write(card, TWO, 1, SECOND, { repetition: true })).toBe(0)
    expect(write(card, ONE, 1, FIRST, { repetition: true })).toBe(0)
    expectHeld(card, SECOND)
  })

  test.each([
    { what: 'the table has forgotten its client', card: crowded, held: SECOND },
    { what: 'it was never executed', card: opened, held: dataOf(64, 9) },
  ])('a batch that goes out again, and $what', ({ card: made, held }) => {
    const card = made()
    const qp = card.connect(4096, 0, ONE)
    const pweth = { repetition: true }
    const records = [0, 1].map((slot) => ({ slot, data: dataOf(64, 9 + slot), pweth }))
    const isForgotten = held === SECOND
    const sent = card.serve(...batchFrames(qp, card.open(), records, { operation: 1 }))
    expect(statuses(sent)).toMatchObject([{ durable: isForgotten ? [] : [0, 1] }])
    expect(card.counter('OPERATION_FORGOTTEN')).toBe(isForgotten ? 2 : 0)
    expectHeld(card, held)
  })

  test('a batch that had begun, before its client did something later, is executed', () => {
    const { card, state } = batchSetting({ slots: 8 })
    // As it is behind many other clients.
    state.commit.operations.forgetful = true
    const records = [0, 1].map((slot) => ({ slot, data: dataOf(64, 9 + slot) }))
    const begun = batchFrames(card.connect(4096, 0, ONE), card.open(), records, { operation: 5 })
    card.serve(begun[0]!)
    expect(write(card, ONE, 20, SECOND, { slot: 3 })).toBe(0)
    // Its connection ends, so all of it goes out again.
    const repeated = records.map((one) => ({ ...one, pweth: { repetition: true } }))
    const qp = card.connect(4096, 0, ONE)
    const sent = card.serve(...batchFrames(qp, card.open(), repeated, { operation: 5 }))
    expect(statuses(sent)).toMatchObject([{ durable: [0, 1] }])
    expect(card.counter('OPERATION_FORGOTTEN')).toBe(0)
    expectHeld(card, dataOf(64, 9))
    // What came before it is as unknown as it was.
    expect(write(card, ONE, 4, FIRST, { repetition: true })).toBe(FORGOTTEN)
  })

  test('whatever stands against it now: a refusal would say that it is not durable', () => {
    const card = crowded()
    card.nvdimm.armed = false
    card.idle()
    expect(write(card, ONE, 1, FIRST, { repetition: true })).toBe(FORGOTTEN)
    // What is known to be durable is so, and what is new is refused.
    expect(write(card, 1000, 2, SECOND, { repetition: true })).toBe(0)
    expect(write(card, 1000, 3, SECOND, { repetition: true })).toBe(NOT_ARMED)
    // No part has ever executed what is out of its bounds.
    expect(write(card, ONE, 1, FIRST, { repetition: true, slot: 8 })).toBe(NO_SLOT)
    card.nvdimm.armed = true
    card.idle()
    expectHeld(card, SECOND)
  })

  test('a batch in order: nor one behind another that was forgotten', () => {
    const card = crowded()
    const qp = card.connect(4096, 0, ONE)
    const pweth = { repetition: true }
    const records = [0, 1, 2].map((slot) => ({ slot, data: FIRST, pweth }))
    const options = { operation: 1, condition: IN_ORDER }
    const sent = card.serve(...batchFrames(qp, card.open(), records, options))
    expect(statuses(sent)).toMatchObject([{ durable: [], said: 'OPERATION_FORGOTTEN' }])
    expect(card.counter('OPERATION_FORGOTTEN')).toBe(3)
    expect(card.counter('CONDITION')).toBe(0)
    expectHeld(card, SECOND)
  })

  test.each([
    { how: 'alone', condition: -1 },
    { how: 'in order', condition: CONDITION_IN_ORDER },
    { how: 'where its slot is as it was', condition: CONDITION_EXPECT },
  ])('from a queue of its own host, $how', ({ condition }) => {
    const queue = localQueue()
    const { card } = queue.host
    const region = card.provision({ slots: 8 })
    const told = (flags: number, batch: (i: number) => Partial<ElementFields>): number[] =>
      play(
        queue,
        ...[0, 1].map((i) => ({
          ...{ opcode: el.WQE_WRITE_PERSIST, rkey: region.rkey, address: i * 2 ** 32, flags },
          ...{ operation: 1 + i, wait: 2, inline: FIRST, ...batch(i) },
        })),
      ).map(({ refusal }) => refusal)
    expect(told(0, () => ({}))).toEqual([0, 0])
    for (let i = 0; i < CLIENTS; i++) write(card, 1000 + i, 1, SECOND, { slot: i % 2 })
    const expect0 = condition === CONDITION_EXPECT ? { expect: 0n } : {}
    const again = (index: number): Partial<ElementFields> =>
      condition < 0
        ? {}
        : { batch: { id: 1, condition, count: 2, index, left: 1 - index, ...expect0 } }
    expect(told(el.REPETITION, again)).toEqual([FORGOTTEN, FORGOTTEN])
    expectHeld(card, SECOND)
  })

  test('of nobody nothing is known', () => {
    const card = opened()
    expect(write(card, 0, 1, FIRST, { repetition: true })).toBe(FORGOTTEN)
  })
})

describe('X-3: what the next start may finish is in doubt until then', () => {
  test('the medium took the first copy alone: first, again, and behind a start', () => {
    const card = opened()
    const line = slotOffset(card.open(), 1, 0) / LINE_BYTES
    card.nvdimm.refuseWrites(line)
    expect(write(card, ONE, 1, FIRST)).toBe(IN_DOUBT)
    expect(write(card, ONE, 1, FIRST, { repetition: true })).toBe(IN_DOUBT)
    // Of every other one it is known that it was never executed.
    expect(write(card, ONE, 2, FIRST, { repetition: true })).toBe(READ_ONLY)
    expect(write(card, TWO, 1, FIRST, { repetition: true })).toBe(READ_ONLY)
    const part = new Nvdimm({ bytes: card.nvdimm.bytes, content: card.nvdimm.durable.slice() })
    part.refuseWrites(line)
    const next = new TestCard(part)
    expect(write(next, ONE, 1, FIRST, { repetition: true })).toBe(IN_DOUBT)
    part.refuseWrites(line, false)
    expect(write(restarted(next), ONE, 1, FIRST, { repetition: true })).toBe(0)
    expectHeld(restarted(next), FIRST)
  })

  test('a fence failed under it: what was refused before a slot was touched is refused', () => {
    for (const fence of [1, 2, 3]) {
      const card = opened()
      write(card, ONE, 1, FIRST)
      failFence(card, fence)
      const told = fence === 1 ? FLUSH : IN_DOUBT
      expect(write(card, ONE, 2, SECOND)).toBe(told)
      expect(write(card, ONE, 2, SECOND, { repetition: true })).toBe(told)
      expect(write(card, ONE, 3, SECOND, { repetition: true })).toBe(FLUSH)
      expect(write(card, TWO, 2, SECOND, { repetition: true })).toBe(FLUSH)
    }
  })

  test('a host that is away: it is judged when one shows its memory', () => {
    const { card, region, host } = placed(DDIO_OFF)
    const qp = card.connect(4096, 0, ONE)
    card.serve(...persistFrames(qp, region, 0, FIRST, { operation: 1 }))
    let writes = 0
    host.link.script = ({ kind, memory }) =>
      kind === 'write' && memory === 'persistent' && writes++ === 1 ? 'removal' : undefined
    const told = (operation: number, repetition: boolean): number[] => {
      const frames = persistFrames(qp, region, 0, SECOND, { operation, repetition })
      return persistAcks(card.serve(...frames)).map(({ status }) => status)
    }
    expect(told(9, false)).toEqual([IN_DOUBT])
    expect(told(9, true)).toEqual([IN_DOUBT])
    expect(told(10, true)).toEqual([PLACEMENT_UNKNOWN])
  })

  test('a flush agent that is gone: begun, and not finished', () => {
    const made = placed(DDIO_ON)
    const told = (card: TestCard, operation: number, again: readonly boolean[]): number[] => {
      const region = card.open()
      const sent = again.flatMap((repetition) => {
        const qp = card.connect(4096, 0, ONE)
        return card.serve(...persistFrames(qp, region, 0, SECOND, { operation, repetition }))
      })
      for (let i = 0; i < 3; i++) sent.push(...card.pass(FLUSH_TIMEOUT_US))
      return persistAcks(sent).map(({ status }) => status)
    }
    // The second one waits for the first.
    expect(told(made.card, 9, [false, true])).toEqual([IN_DOUBT, IN_DOUBT])
    expect(told(made.card, 9, [true])).toEqual([IN_DOUBT])
    expect(told(made.card, 10, [true])).toEqual([NO_AGENT])
    // So it stays behind a start, until an agent has come.
    cutPower(made, { random: new Random(1), strategy: 'all' })
    const next = restartedPlaced(made)
    expect(told(next, 9, [true])).toEqual([IN_DOUBT])
    expect(told(next, 10, [true])).toEqual([PLACEMENT_UNKNOWN])
  })
})

describe('X-3: a batch is refused, and some of it may have been forgotten', () => {
  test.each([
    { repetition: true, said: 'OPERATION_FORGOTTEN' },
    { repetition: false, said: 'BATCH_FIELDS' },
  ])('whole, repetition $repetition: $said', ({ repetition, said }) => {
    const card = opened()
    write(card, ONE, 1, FIRST)
    for (let i = 0; i < CLIENTS; i++) write(card, 1000 + i, 1, SECOND, { slot: 1 + (i % 7) })
    const qp = card.connect(4096, 0, ONE)
    // Both of its records go to one slot: it contradicts itself.
    const records = [0, 0].map((slot) => ({ slot, data: FIRST, pweth: { repetition } }))
    const sent = card.serve(...batchFrames(qp, card.open(), records, { operation: 1 }))
    expect(statuses(sent)).toMatchObject([{ durable: [], said }])
  })

  test('whole, and one of it is durable, one is in doubt: nothing less is said', () => {
    const card = opened()
    write(card, ONE, 1, FIRST, { slot: 1 })
    card.nvdimm.refuseWrites(slotOffset(card.open(), 1, 0) / LINE_BYTES)
    expect(write(card, ONE, 2, FIRST)).toBe(IN_DOUBT)
    const qp = card.connect(4096, 0, ONE)
    const records = [3, 4, 4].map((slot) => ({ slot, data: FIRST, pweth: { repetition: true } }))
    const sent = card.serve(...batchFrames(qp, card.open(), records, { operation: 1 }))
    expect(statuses(sent)).toMatchObject([{ durable: [0], said: 'IN_DOUBT' }])
  })
})

describe('X-3: a batch of the own host is refused, and some of it may be forgotten', () => {
  const { BATCH_FIELDS, BATCH_TIME } = Object.fromEntries(
    FAULTS.map(({ name, code }) => [name, code]),
  )

  /** What each element of a batch into these slots is told; `open`: the last does not come. */
  function toldOf(slots: readonly number[], flags: number, open: boolean): number[] {
    const queue = localQueue()
    const { card } = queue.host
    const region = card.provision({ slots: 8 })
    const post = (batch: (i: number) => Partial<ElementFields>): number[] => {
      const elements = slots.map((slot, i) => ({
        ...{ opcode: el.WQE_WRITE_PERSIST, rkey: region.rkey, address: slot * 2 ** 32, flags },
        ...{ operation: 1 + i, wait: 2, inline: FIRST, ...batch(i) },
      }))
      return play(queue, ...elements).map(({ refusal }) => refusal)
    }
    post(() => ({ flags: 0 }))
    for (let i = 0; i < CLIENTS; i++) write(card, 1000 + i, 1, SECOND, { slot: i % 2 })
    const { length: count } = slots
    const more = open ? 1 : 0
    const told = post((index) => {
      const left = count - 1 - index + more
      return {
        batch: { id: 1, condition: CONDITION_INDEPENDENT, count: count + more, index, left },
      }
    })
    if (!open) return told
    expect(told).toEqual([])
    card.pass(BATCH_TIMEOUT_US)
    return queue.host.poll(queue.cq).map(({ refusal }) => refusal)
  }

  test('it contradicts itself: the one that was held, and the one that does', () => {
    expect(toldOf([0, 0], el.REPETITION, false)).toEqual([FORGOTTEN, FORGOTTEN])
    expect(toldOf([0, 0], 0, false)).toEqual([BATCH_FIELDS, BATCH_FIELDS])
  })

  test('its end does not come', () => {
    expect(toldOf([0, 1], el.REPETITION, true)).toEqual([FORGOTTEN, FORGOTTEN])
    expect(toldOf([0, 1], 0, true)).toEqual([BATCH_TIME, BATCH_TIME])
  })
})

describe('L3: lines decay in every order with groups, cuts and retries', () => {
  test('one line, before or behind the group, and the power goes at each command of it', () => {
    let cuts = 0
    for (const which of [0, 1]) {
      for (const when of ['before', 'behind'] as const) {
        for (let k = 0, last = false; !last; k++) {
          const card = overwritten()
          if (when === 'before') {
            card.nvdimm.poison(linesOf(card, ONE)[which]!)
            scrubbed(card)
          }
          const qp = card.connect(4096, 0, ONE)
          const region = card.open()
          card.machine.armCut(k)
          let status = -1
          try {
            const frames = persistFrames(qp, region, 3, FIRST, { operation: 2 })
            status = persistAcks(card.serve(...frames))[0]?.status ?? -1
          } catch {}
          last = !card.machine.dead
          if (last && when === 'behind') card.nvdimm.poison(linesOf(card, ONE)[which]!)
          const next = restarted(card, k)
          cuts += 1
          // Acknowledged, hence known; and the older one was known before.
          expect(write(next, ONE, 1, FIRST, { repetition: true })).toBe(0)
          expectHeld(next, SECOND)
          if (status === 0) expect(write(next, TWO, 9, SECOND, { slot: 3 })).toBe(0)
          expect(write(next, ONE, 2, FIRST, { repetition: true, slot: 3 })).toBe(0)
          const read = next.read(next.connect(), next.open(), 3, VIEW_DATA, 64)!
          expect(Buffer.from(read)).toEqual(Buffer.from(status === 0 ? SECOND : FIRST))
        }
      }
    }
    expect(cuts).toBeGreaterThan(40)
  })
})
