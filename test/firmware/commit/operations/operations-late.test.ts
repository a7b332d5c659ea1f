/**
 * Operations that the table hears of late: from a lane that stays, a scan, a host that was away, a
 * slow agent, a batch that is held. Their client may have done more since, and have been forgotten
 * (D-6, X-3; L3).
 *
 * Invariant: an operation that was acknowledged is never executed again over the record
 * that another client wrote since, whatever became known of its client in between. A client that
 * asks for something new is known from there on.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON } from '../../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../../boards/emulator/medium/power-cut.ts'
import {
  CLIENTS,
  FLUSH_TIMEOUT_US,
  SCRUB_CLIENTS,
  SCRUB_TURNS,
} from '../../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../../firmware/burst/view.ts'
import {
  HOST_DATA_AT,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
} from '../../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../../firmware/medium/superblock.ts'
import { u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import type { FlushAgent } from '../../../../host-driver/target/flush-agent.ts'
import { batchFrames, statuses } from '../../../support/cards/batch-card.ts'
import {
  attachedAgent,
  believe,
  cutPower,
  placed,
  restarted,
  shownCopies,
  work,
} from '../../../support/cards/placed.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../../support/cards/test-card.ts'
import { LINE_BYTES, OPERATIONS_AT } from '../../../support/judges/oracle.ts'
import { leave } from '../../../support/peers/strangers.ts'
import { AGENT_UNITS } from '../../../support/queues/agent-host.ts'
import { slotOffset } from '../../../support/wire/requests.ts'

const FORGOTTEN = 0x98
const IN_DOUBT = 0x8f
const NO_AGENT = 0x91
const READ_ONLY = 0x8b
const ONE = 7
const TWO = 8
const [FIRST, SECOND] = [dataOf(64, 1), dataOf(64, 2)]

interface Written {
  readonly slot?: number
  readonly wait?: number
  readonly repetition?: boolean
  readonly region?: string
}

/** What a record of that client is answered with; nothing yet, where it waits for a host. */
/** Clients from here on are many, and leave again. */
const CROWD = 20

function write(
  card: TestCard,
  client: number,
  operation: number,
  data: Uint8Array,
  at: Written = {},
) {
  const { slot = 0, wait = 2, repetition = false, region = 'local' } = at
  const options = { operation, repetition, wait }
  const qp = card.connect(4096, 0, client)
  const frames = persistFrames(qp, card.open(region), slot, data, options)
  const [said] = persistAcks(card.serve(...frames))
  if (client >= CROWD) leave(card, qp)
  return said?.status
}

function opened(): TestCard {
  const card = new TestCard(new Nvdimm({ bytes: 1 << 17 })).format()
  for (const name of ['records', 'local']) card.provision({ name, slots: 8 })
  return card
}

function startedAnew({ nvdimm, machine }: TestCard): TestCard {
  machine.die()
  cut(nvdimm, { random: new Random(1) })
  return new TestCard(nvdimm)
}

/** The numbers of the lines that name the client. */
function linesOf({ nvdimm }: TestCard, client: number): number[] {
  return Array.from({ length: 2 * CLIENTS }, (_, i) => OPERATIONS_AT / LINE_BYTES + i).filter(
    (line) => u32(nvdimm.durable, line * LINE_BYTES + 24) === client * 2 ** 24,
  )
}

/** Client ONE does operation 2, and client TWO writes behind it. */
function overwrite(card: TestCard): void {
  expect(write(card, ONE, 2, FIRST)).toBe(0)
  expect(write(card, TWO, 1, SECOND)).toBe(0)
  card.idle()
}

function crowd(card: TestCard): void {
  for (let i = 0; i < CLIENTS; i++) write(card, 20 + i, 1, FIRST, { slot: 1 + (i % 3) })
}

/** Operation 2 is not executed again; nor is one that may have been; what is new is served. */
function expectForgotten(card: TestCard): void {
  for (const operation of [2, 3, 300]) {
    expect(write(card, ONE, operation, FIRST, { repetition: true })).toBe(FORGOTTEN)
  }
  const read = card.read(card.connect(), card.open('local'), 0, VIEW_DATA, 64)
  expect(Buffer.from(read!)).toEqual(Buffer.from(SECOND))
  expect(write(card, ONE, 400, FIRST, { slot: 3 })).toBe(0)
  for (const operation of [2, 300, 399]) {
    expect(write(card, ONE, operation, FIRST, { repetition: true })).toBe(FORGOTTEN)
  }
  expect(write(card, ONE, 400, SECOND, { repetition: true, slot: 3 })).toBe(0)
  expect(write(card, ONE, 401, FIRST, { repetition: true, slot: 3 })).toBe(0)
}

describe('R1-C6: both lines of a client decay over a start', () => {
  test('and a lane that stays names an older operation of it', () => {
    const card = opened()
    card.nvdimm.refuseWrites(slotOffset(card.open('records'), 1, 0) / LINE_BYTES)
    expect(write(card, ONE, 1, FIRST, { region: 'records', wait: 1 })).toBe(0)
    overwrite(card)
    for (const line of linesOf(card, ONE)) card.nvdimm.poison(line)
    const next = startedAnew(card)
    expect(write(next, ONE, 1, SECOND, { region: 'records', repetition: true, wait: 1 })).toBe(0)
    expectForgotten(next)
    expectForgotten(startedAnew(next))
  })

  test('and a lane that cannot be read has a scan find an older operation of it', () => {
    const card = opened()
    expect(write(card, ONE, 1, FIRST, { slot: 7 })).toBe(0)
    overwrite(card)
    for (const line of linesOf(card, ONE)) card.nvdimm.poison(line)
    card.nvdimm.poison(LANES_AT / LINE_BYTES + 20)
    const next = startedAnew(card)
    expect(write(next, ONE, 1, SECOND, { slot: 7, repetition: true })).toBe(0)
    expectForgotten(next)
  })

  test('of the place to which it moved: the line that it left speaks for it no more', () => {
    for (const how of ['over a start', 'in idle time'] as const) {
      const card = opened()
      expect(write(card, ONE, 1, FIRST)).toBe(0)
      card.idle()
      const [left, other] = linesOf(card, ONE)
      card.nvdimm.refuseWrites(left!)
      overwrite(card)
      if (how === 'over a start') card.nvdimm.refuseWrites(left!, false)
      for (let i = 0; i < SCRUB_TURNS * (CLIENTS / SCRUB_CLIENTS); i++) {
        if (how === 'in idle time') card.idle()
      }
      const next = startedAnew(card)
      expect(u32(next.status(), mad.PART_OPERATIONS_LOST)).toBe(0)
      for (const line of linesOf(next, ONE)) {
        if (line !== left && line !== other) next.nvdimm.poison(line)
      }
      const last = startedAnew(next)
      expect(u32(last.status(), mad.PART_OPERATIONS_LOST)).toBe(1)
      expectForgotten(last)
    }
  })
})

test('L3: a place of nobody that takes no store costs nobody else his', () => {
  const card = opened()
  crowd(card)
  const [line] = linesOf(card, 20)
  for (const which of [line!, line! + 1]) {
    card.nvdimm.poison(which)
    card.nvdimm.refuseWrites(which)
  }
  const next = startedAnew(card)
  for (const which of [line!, line! + 1]) {
    next.nvdimm.poison(which)
    next.nvdimm.refuseWrites(which)
  }
  for (let i = 0; i < SCRUB_TURNS * (CLIENTS / SCRUB_CLIENTS); i++) next.idle()
  for (let i = 1; i < CLIENTS; i++) {
    const slot = 1 + (i % 3)
    expect(write(next, 20 + i, 1, SECOND, { slot, repetition: true }), `client ${i}`).toBe(0)
  }
  expect(write(next, 20, 1, SECOND, { repetition: true })).toBe(FORGOTTEN)
})

describe('P2-27, D-6: a repetition waits behind a record of another client', () => {
  /** Its client does so much meanwhile that the table speaks of operation 1 no more. */
  function goOn(card: TestCard): void {
    const qp = card.connect(4096, 0, ONE)
    for (let operation = 10; operation < 150; operation++) {
      card.serve(...persistFrames(qp, card.open('local'), 0, FIRST, { operation }))
    }
    expect(write(card, ONE, 1, FIRST, { repetition: true })).toBe(FORGOTTEN)
  }

  function opened() {
    const { card, agent } = placed(DDIO_ON)
    card.provision({ name: 'local', slots: 8 })
    return { card, agent: agent! }
  }

  /** The repetition is durable, and the record is that of the other client. */
  function expectOver(card: TestCard, agent: FlushAgent): void {
    card.sent = []
    work(card, agent)
    expect(persistAcks(card.sent).map(({ status }) => status)).toEqual([0, 0])
    const read = card.read(card.connect(), card.open('records'), 0, VIEW_DATA, 64)
    expect(Buffer.from(read!)).toEqual(Buffer.from(SECOND))
  }

  const there = { region: 'records' }
  const again = { region: 'records', repetition: true }

  test('and what is refused meanwhile is not said of one that waits with it', () => {
    const { card, agent } = opened()
    const region = card.open()
    expect(write(card, TWO, 1, SECOND, there)).toBe(undefined)
    expect(write(card, ONE, 1, FIRST, there)).toBe(undefined)
    // Another record is lost, and its region takes no writes from then on.
    const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
    for (const copy of [0, 1]) {
      card.host!.part.poison((HOST_DATA_AT + copy * area + region.stride) / LINE_BYTES)
    }
    card.scan(region.id)
    expect(card.open().unsettled).toBe(1)
    expect(write(card, ONE, 1, FIRST, again)).toBe(IN_DOUBT)
    card.sent = []
    work(card, agent)
    // It is refused when it has its turn, and nothing is open any more.
    expect(persistAcks(card.sent).map(({ status }) => status)).toEqual([0, READ_ONLY])
    expect(write(card, ONE, 1, FIRST, again)).toBe(READ_ONLY)
  })

  test('X-1: one that waits while its record is found lost is refused', () => {
    const { card, agent } = opened()
    const region = card.open()
    const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
    agent.queues.postReceives = () => {}
    for (let i = 0; i < AGENT_UNITS / 2; i++) {
      write(card, TWO, 1 + i, SECOND, { slot: 1, ...there })
      work(card, agent)
    }
    expect(write(card, ONE, 1, FIRST, there)).toBe(undefined)
    for (const copy of [0, 1]) {
      card.host!.part.poison((HOST_DATA_AT + copy * area) / LINE_BYTES)
    }
    card.scan(region.id)
    const told = persistAcks(card.sent).map(({ status }) => status)
    Reflect.deleteProperty(agent.queues, 'postReceives')
    card.sent = []
    work(card, agent)
    told.push(...persistAcks(card.sent).map(({ status }) => status))
    const read = card.read(card.connect(), region, 0, VIEW_DATA, 64)
    expect([told, read]).toEqual([[READ_ONLY], null])
  })

  test('and without an agent the last one that waits alone is refused', () => {
    const { card } = opened()
    expect(write(card, TWO, 1, SECOND, there)).toBe(undefined)
    expect(write(card, ONE, 1, FIRST, there)).toBe(undefined)
    expect(write(card, ONE, 1, FIRST, again)).toBe(undefined)
    card.idle()
    const told = persistAcks(card.pass(FLUSH_TIMEOUT_US)).map(({ status }) => status)
    expect(told.sort()).toEqual([IN_DOUBT, IN_DOUBT, NO_AGENT])
  })

  test('and is known as durable when it comes', () => {
    const { card, agent } = opened()
    expect(write(card, ONE, 1, FIRST, there)).toBe(undefined)
    work(card, agent)
    expect(write(card, TWO, 1, SECOND, there)).toBe(undefined)
    expect(write(card, ONE, 1, FIRST, again)).toBe(undefined)
    goOn(card)
    expectOver(card, agent)
  })

  test('and becomes known while it waits', () => {
    const { card, agent } = opened()
    expect(write(card, ONE, 1, FIRST, there)).toBe(undefined)
    expect(write(card, TWO, 1, SECOND, there)).toBe(undefined)
    expect(write(card, ONE, 1, FIRST, again)).toBe(undefined)
    for (card.sent = []; persistAcks(card.sent).length === 0; card.idle()) agent.poll()
    goOn(card)
    expectOver(card, agent)
  })

  test('and the agent of a host that was started again makes it known', () => {
    const made = placed(DDIO_ON)
    made.card.provision({ name: 'local', slots: 8 })
    expect(write(made.card, ONE, 1, FIRST, { ...there, wait: 1 })).toBe(undefined)
    // Its first copy is durable, its second is not.
    const { card: former, agent: gone } = made
    for (former.sent = []; persistAcks(former.sent).length === 0; former.idle()) gone!.poll()
    cutPower(made, { random: new Random(1), strategy: 'all' })
    const card = restarted(made)
    believe(card, PLACEMENT_THROUGH)
    const agent = attachedAgent(card)
    expect(write(card, TWO, 1, SECOND, there)).toBe(undefined)
    expect(write(card, ONE, 1, FIRST, again)).toBe(undefined)
    for (; shownCopies(card, card.open('records'), 0)[0] !== 'new'; card.idle()) agent.poll()
    goOn(card)
    expectOver(card, agent)
  })
})

describe('R1-C7: 128 other clients come while an operation waits', () => {
  test('for a host that is away', () => {
    const { card, host } = placed(DDIO_OFF)
    card.provision({ name: 'local', slots: 8 })
    let writes = 0
    // Its first copy is durable, its second is not.
    host.link.script = ({ kind, memory }) =>
      kind === 'write' && memory === 'persistent' && writes++ === 1 ? 'removal' : undefined
    expect(write(card, ONE, 1, FIRST, { region: 'records' })).toBe(IN_DOUBT)
    overwrite(card)
    crowd(card)
    host.link.script = null
    host.comeBack()
    believe(card, PLACEMENT_BYPASS)
    expect(write(card, ONE, 1, FIRST, { region: 'records', repetition: true })).toBe(0)
    expectForgotten(card)
  })

  test('for a slow agent of the host', () => {
    const made = placed(DDIO_ON)
    const { card, agent } = made
    card.provision({ name: 'local', slots: 8 })
    expect(write(card, ONE, 1, FIRST, { region: 'records' })).toBe(undefined)
    overwrite(card)
    crowd(card)
    work(card, agent!)
    const again = { region: 'records', repetition: true }
    expect(write(card, ONE, 1, FIRST, again)).toBe(0)
    expectForgotten(card)
  })

  test('for the agent of a host that was started again', () => {
    const made = placed(DDIO_ON)
    const { card, agent } = made
    card.provision({ name: 'local', slots: 8 })
    expect(write(card, ONE, 1, FIRST, { region: 'records', wait: 1 })).toBe(undefined)
    // Its first copy is durable, its second is not.
    for (card.sent = []; persistAcks(card.sent).length === 0; card.idle()) agent!.poll()
    cutPower(made, { random: new Random(1), strategy: 'all' })
    const next = restarted(made)
    overwrite(next)
    crowd(next)
    believe(next, PLACEMENT_THROUGH)
    work(next, attachedAgent(next))
    const again = { region: 'records', repetition: true }
    expect(write(next, ONE, 1, FIRST, again)).toBe(0)
    expectForgotten(next)
  })

  test('for the rest of its batch', () => {
    const card = opened()
    const batching = card.connect(4096, 0, ONE)
    const [head, tail] = batchFrames(
      batching,
      card.open('records'),
      [0, 1].map((slot) => ({ slot, data: FIRST })),
      { operation: 1000 },
    )
    card.serve(head!)
    expect(write(card, ONE, 1002, FIRST)).toBe(0)
    expect(write(card, TWO, 1, SECOND)).toBe(0)
    crowd(card)
    expect(statuses(card.serve(tail!))).toMatchObject([{ durable: [0, 1] }])
    expect(write(card, ONE, 1002, FIRST, { repetition: true })).toBe(FORGOTTEN)
    const again = { region: 'records', slot: 1, repetition: true }
    expect(write(card, ONE, 1001, SECOND, again)).toBe(0)
    // It comes back with a batch: what is above that was never executed.
    const records = [2, 3].map((slot) => ({ slot, data: FIRST }))
    card.serve(...batchFrames(batching, card.open('records'), records, { operation: 1003 }))
    expect(write(card, ONE, 1002, FIRST, { repetition: true })).toBe(FORGOTTEN)
    expect(write(card, ONE, 1005, FIRST, { repetition: true, slot: 3 })).toBe(0)
  })
})
