/**
 * The host of a card loses its power, or its agent, while the card serves on: what lay in the
 * host's caches is gone, and no later agent's bell speaks for it (crash-model 4.4, B1, B5, B6).
 */

import { describe, expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { BURST_FRAMES, LANES, LINE_BYTES, SLICE_RECORDS } from '../../../firmware/board/limits.ts'
import { VIEW_DATA, VIEW_SETTLED } from '../../../firmware/burst/view.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import {
  HOST_DATA_AT,
  HOST_PROBE_AT,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
} from '../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_QUERY } from '../../../firmware/wire/opcode.ts'
import { STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../../../firmware/wire/persist-query.ts'
import { batchSetting } from '../../support/cards/batch-card.ts'
import {
  type Agent,
  agentOfNewHost,
  attachedAgent,
  believe,
  cardAlone,
  cardOf,
  cutPower,
  NEW,
  NOTHING,
  OLD,
  type Placed,
  pastCaches,
  place,
  placed,
  queueHostOf,
  restarted,
  restartHost,
  say,
  shownCopies,
  work,
} from '../../support/cards/placed.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { QueueHost } from '../../support/queues/queue-host.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { ACK, writeFrames } from '../../support/wire/requests.ts'

const CLIENT = 7
type Region = Placed['region']

/** The copies of record 0 when the host has lost its caches once more: what is durable. */
function durableCopies(card: TestCard, region: Region): string[] {
  restartHost(card)
  return shownCopies(card, region, 0)
}

/** What the card says of that operation. */
function known(card: TestCard, qp: TestPeer, operation: number): number {
  const psn = qp.psn
  qp.psn = (qp.psn + 1) & 0xffffff
  const bth = { opcode: PERSIST_QUERY, destQp: qp.number, psn, ackRequest: true }
  return ackStatuses(card.serve(frameOf({ bth, pqeth: { operationLow: operation } })))[0]!
}

/** Card and agent, step by step, until the agent has rung so often; what the card sent. */
function steps(card: TestCard, agent: Agent, bells: number): Sent[] {
  const sent: Sent[] = []
  const idle = (): void => {
    card.sent = []
    card.idle()
    sent.push(...card.sent)
  }
  for (let i = 0; i < bells; i++) {
    agent.poll()
    idle()
    idle()
  }
  return sent
}

/** OLD is durable in every copy, NEW was sent, and the agent has rung so often. */
function underWay(copies: number, wait: number, bells: number) {
  const made = placed(DDIO_ON, { copies })
  const { card, region } = made
  const qp = card.connect(4096, 0, CLIENT)
  card.serve(...persistFrames(qp, region, 0, OLD))
  work(card, made.agent!)
  const sent = card.serve(...persistFrames(qp, region, 0, NEW, { wait }))
  sent.push(...steps(card, made.agent!, bells))
  return { ...made, sent, operation: qp.operation }
}

const LEVELS = [
  [1, 2],
  [2, 2],
  [2, 3],
  [3, 3],
] as const

test('R1-E2, B4: where a first copy is not delivered, no older one is shown', () => {
  const made = placed(DDIO_ON)
  const { card, host, region, qp, agent } = made
  card.serve(...persistFrames(qp, region, 0, OLD))
  work(card, agent!)
  const sent = [...card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 }))]
  agent!.poll()
  // What is stored into the second copy is lost, and the board does not learn of it.
  const first = HOST_DATA_AT + region.stride
  const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
  let isDelivered = true
  host.link.contains = false
  host.link.script = ({ kind, at }) => {
    if (kind === 'write') return at >= HOST_DATA_AT + area ? 'lost' : undefined
    return at >= HOST_DATA_AT && at < first && !isDelivered ? 'timeout' : undefined
  }
  for (let i = 0; i < 3; i++) sent.push(...card.pass(10))
  expect(ackStatuses(sent)).toEqual([STATUS_DURABLE])
  const shown = (): string => say(card.read(card.connect(), region, 0, VIEW_DATA, 64))
  expect(shown()).toBe('new')
  isDelivered = false
  expect(shown()).toBe('refused')
  isDelivered = true
  expect(shown()).toBe('new')
  host.part.poison(HOST_DATA_AT / LINE_BYTES + 1)
  expect(shown()).toBe('refused')
})

test('H6, B2: what an earlier start repaired into caches is judged when they are passed', () => {
  const met = new Set<string>()
  for (const [starts, lanesFail] of [
    [1, false],
    [2, false],
    [2, true],
  ] as const) {
    for (let command = 0, ended = false; !ended; command++) {
      const made = placed()
      const { card, host, region, qp } = made
      card.serve(...persistFrames(qp, region, 0, OLD))
      card.machine.armCut(command)
      card.serve(...persistFrames(qp, region, 0, NEW))
      const { operation } = qp
      ended = !card.machine.dead
      cutPower(made, NOTHING)
      // A lane that cannot be read has every record looked at.
      if (lanesFail) card.nvdimm.poison(LANES_AT / LINE_BYTES + LANES - 1)
      host.platform = DDIO_ON
      let next = restarted(made)
      for (let start = 1; start < starts; start++) next = cardAlone(next)
      restartHost(next, { platform: DDIO_OFF })
      believe(next, PLACEMENT_BYPASS)
      const copies = durableCopies(next, next.open())
      expect(copies, `command ${command}, ${starts} starts`).toEqual([copies[0], copies[0]])
      const { number, psn } = next.connect(4096, 0, CLIENT)
      const bth = { opcode: PERSIST_QUERY, destQp: number, psn, ackRequest: true }
      const [status] = ackStatuses(next.serve(frameOf({ bth, pqeth: { operationLow: operation } })))
      if (status === STATUS_DURABLE) expect(copies[0]).toBe('new')
      met.add(`${copies[0]} ${status}`)
    }
  }
  expect(met.size).toBeGreaterThan(1)
})

describe('the host restarts while a record goes through its caches', () => {
  for (const [wait, copies] of LEVELS) {
    for (let bells = 0; bells <= copies; bells++) {
      test(`R1-C1: ${wait}of${copies}, behind ${bells} bells: all copies are stored again`, () => {
        const { card, region, operation } = underWay(copies, wait, bells)
        restartHost(card)
        const agent = agentOfNewHost(card)
        work(card, agent)
        expect(durableCopies(card, region)).toEqual(Array(copies).fill('new'))
        // Whoever asks again hears that it is durable, and now it is.
        const again = card.connect(4096, 0, CLIENT)
        const answers = card.serve(...persistFrames(again, region, 0, NEW, { wait, operation }))
        expect(ackStatuses(answers)).toEqual([STATUS_DURABLE])
      })
    }
  }

  test('R1-C1: again and again, behind every copy: it is durable when it is acknowledged', () => {
    const { card, region, operation } = underWay(2, 2, 0)
    for (let bells = 1; bells <= 2; bells++) {
      restartHost(card)
      steps(card, agentOfNewHost(card), bells)
    }
    restartHost(card)
    const agent = agentOfNewHost(card)
    work(card, agent)
    const again = card.connect(4096, 0, CLIENT)
    const answers = card.serve(...persistFrames(again, region, 0, NEW, { operation }))
    expect(ackStatuses(answers)).toEqual([STATUS_DURABLE])
    expect(durableCopies(card, region)).toEqual(['new', 'new'])
  })

  test('R1-C1: an agent alone that goes without a bell: the next is asked for all of it', () => {
    const { card, region } = underWay(2, 2, 0)
    const second = attachedAgent(card)
    work(card, second)
    expect(durableCopies(card, region)).toEqual(['new', 'new'])
  })
})

describe('another host comes while a record goes through the caches of the one before', () => {
  for (const [wait, copies] of LEVELS) {
    for (let bells = 0; bells <= copies; bells++) {
      test(`R1-C1, B2: ${wait}of${copies}, behind ${bells} bells: its copies are all there`, () => {
        const { card, region, operation } = underWay(copies, wait, bells)
        restartHost(card, { part: 'cleared' })
        const read = (): string => say(card.read(card.connect(), region, 0, VIEW_DATA, 64))
        expect(read()).toBe('refused')
        // One whose last bell has rung is gone with the memory that had it.
        if (bells === copies) return
        work(card, agentOfNewHost(card))
        const again = card.connect(4096, 0, CLIENT)
        const options = { wait, operation, repetition: true }
        const answers = card.serve(...persistFrames(again, region, 0, NEW, options))
        expect(ackStatuses(answers)).toEqual([STATUS_DURABLE])
        expect(durableCopies(card, region)).toEqual(Array(copies).fill('new'))
      })
    }
  }

  test('R1-C1: one that does not answer for its copies is asked for them again', () => {
    const { card, host, region } = underWay(2, 2, 1)
    restartHost(card, { part: 'cleared' })
    const end = HOST_DATA_AT + region.stride
    host.link.script = ({ kind, at }) =>
      kind === 'read' && at >= HOST_DATA_AT && at < end ? 'timeout' : undefined
    const agent = agentOfNewHost(card)
    steps(card, agent, 3)
    host.link.script = null
    work(card, agent)
    expect(durableCopies(card, region)).toEqual(['new', 'new'])
  })

  test('R1-C1: a copy behind the first that has decayed is stored again', () => {
    const { card, host, region } = underWay(3, 3, 2)
    const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
    restartHost(card)
    host.part.poison((HOST_DATA_AT + area) / LINE_BYTES)
    const agent = agentOfNewHost(card)
    work(card, agent)
    expect(durableCopies(card, region)).toEqual(['new', 'new', 'new'])
  })

  test('X-1: nobody is shown its first copy before the bell for it has rung again', () => {
    const { card, region } = underWay(2, 2, 1)
    restartHost(card, { part: 'cleared' })
    const agent = agentOfNewHost(card)
    card.idle()
    const read = (): string => say(card.read(card.connect(), region, 0, VIEW_DATA, 64))
    expect(read()).toBe('refused')
    steps(card, agent, 1)
    expect(read()).toBe('new')
  })
})

describe('the host restarts while its card makes whole what a cut has left', () => {
  for (const bells of [0, 1, 2]) {
    test(`R1-C1: behind ${bells} bells: the repair is made again from its lane`, () => {
      const made = underWay(2, 2, 1)
      cutPower(made, NOTHING)
      const next = restarted(made)
      const region = next.open()
      const agent = agentOfNewHost(next)
      steps(next, agent, bells)
      restartHost(next)
      work(next, agentOfNewHost(next))
      expect(durableCopies(next, region)).toEqual(['new', 'new'])
    })
  }

  for (const bells of [0, 1]) {
    test(`X-1: behind ${bells} bells nobody is shown what the repair takes back`, () => {
      const made = underWay(2, 2, 0)
      // The first copy is there, and its bell has not rung.
      cutPower(made, { ...NOTHING, strategy: 'all' })
      const next = restarted(made)
      const region = next.open()
      const read = (): string => say(next.read(next.connect(), region, 0, VIEW_DATA, 64))
      expect(read()).toBe('old')
      steps(next, agentOfNewHost(next), bells)
      restartHost(next)
      expect(read()).toBe('old')
      work(next, agentOfNewHost(next))
      expect(read()).toBe('old')
      expect(durableCopies(next, region)).toEqual(['old', 'old'])
    })
  }

  for (const [bells, found] of [
    [0, 'old'],
    [1, 'new'],
  ] as const) {
    test(`B7: the save failed behind ${bells} bells: what may be lost is not shown`, () => {
      for (const silent of [false, true]) {
        const { card, host } = underWay(2, 1, bells)
        let next = card
        // Behind the first bell copy A is durable, and so is what stands in both.
        const before = bells === 0 || silent ? 'refused' : found
        const read = (view: number) => next.read(next.connect(), next.open(), 0, view, 64)
        const shown = (): string => {
          const bytes = say(read(VIEW_DATA))
          // What is not shown yet is not lost.
          if (bytes === 'refused') expect(read(VIEW_SETTLED)).toBeNull()
          return bytes
        }
        card.nvdimm.dirtyShutdowns += 1
        // The second start believes its lanes again, except for what they say of that record.
        for (let start = 0; start < 2; start++) {
          next.machine.die()
          host.arrive()
          cut(next.nvdimm, NOTHING)
          const isSilent = silent && start === 0
          host.link.script = ({ kind }) => (isSilent && kind === 'read' ? 'timeout' : undefined)
          next = cardOf(next.nvdimm, host)
          host.link.script = null
          expect(shown()).toBe(before)
        }
        restartHost(next)
        expect(shown()).toBe(before)
        const agent = agentOfNewHost(next)
        steps(next, agent, 1)
        expect(shown()).toBe(before)
        work(next, agent)
        expect(shown()).toBe(found)
        expect(durableCopies(next, next.open())).toEqual([found, found])
      }
    })
  }

  test('R1-C9: an operation is known as durable behind the bells for its repair', () => {
    const made = underWay(2, 2, 1)
    const { operation } = made
    cutPower(made, NOTHING)
    const next = restarted(made)
    const qp = next.connect(4096, 0, CLIENT)
    expect(known(next, qp, operation)).toBe(QUERY_NOT_KNOWN)
    const agent = agentOfNewHost(next)
    steps(next, agent, 1)
    expect(known(next, qp, operation)).toBe(QUERY_NOT_KNOWN)
    work(next, agent)
    expect(known(next, qp, operation)).toBe(STATUS_DURABLE)
    // And for good.
    cutPower({ card: next, host: next.host! }, NOTHING)
    const last = restarted({ card: next, host: next.host! })
    expect(known(last, last.connect(4096, 0, CLIENT), operation)).toBe(STATUS_DURABLE)
  })

  test('R1-C9: one whose lane cannot be read is not known by what a scan sees of it', () => {
    const made = underWay(2, 2, 1)
    const { operation } = made
    cutPower(made, NOTHING)
    for (let lane = BURST_FRAMES; lane < LANES; lane++) {
      made.card.nvdimm.poison(LANES_AT / LINE_BYTES + lane)
    }
    const next = restarted(made)
    const region = next.open()
    const qp = next.connect(4096, 0, CLIENT)
    expect(known(next, qp, operation)).toBe(QUERY_NOT_KNOWN)
    const agent = agentOfNewHost(next)
    work(next, agent)
    expect(known(next, qp, operation)).toBe(QUERY_NOT_KNOWN)
    next.serve(...persistFrames(qp, region, 0, NEW, { operation }))
    work(next, agent)
    expect(known(next, qp, operation)).toBe(STATUS_DURABLE)
    expect(durableCopies(next, region)).toEqual(['new', 'new'])
  })

  test('R1-C9: at 3of3 an operation is not known while its third copy is written back', () => {
    const { card, agent, operation } = underWay(3, 3, 2)
    const qp = card.connect(4096, 0, CLIENT)
    expect(known(card, qp, operation)).toBe(QUERY_NOT_KNOWN)
    work(card, agent!)
    expect(known(card, qp, operation)).toBe(STATUS_DURABLE)
  })
})

test('X-1: a record whose other copy decays while its first is written is not called lost', () => {
  const { card, host, region, agent } = underWay(2, 2, 0)
  const view = (which: number) => card.read(card.connect(), region, 0, which, 64)
  host.part.poison((HOST_DATA_AT + 4096) / LINE_BYTES)
  expect([VIEW_DATA, VIEW_SETTLED].map(view)).toEqual([null, null])
  work(card, agent!)
  expect(say(view(VIEW_DATA))).toBe('new')
})

describe('the host restarts while a region is made', () => {
  for (const bells of [0, 1]) {
    test(`R1-C1: behind ${bells} bells: its slots are formatted again`, () => {
      const made = placed(DDIO_ON)
      const { card } = made
      const shape = { name: 'fresh', slots: 2, placement: PLACEMENT_THROUGH }
      const region = card.provision(shape)
      steps(card, made.agent!, bells)
      restartHost(card)
      const agent = agentOfNewHost(card)
      work(card, agent)
      expect(card.read(card.connect(), region, 0, VIEW_DATA, 64)).not.toBeNull()
      cutPower(made, NOTHING)
      const next = restarted(made)
      expect(next.read(next.connect(), next.open('fresh'), 1, VIEW_DATA, 64)).not.toBeNull()
    })
  }
})

describe('a region through the caches of the host is being made', () => {
  const SHAPE = { name: 'fresh', slots: 4 * SLICE_RECORDS, placement: PLACEMENT_THROUGH }
  const LAST = SHAPE.slots - 1
  const VIEWS = [VIEW_DATA, VIEW_SETTLED]

  test('R1-A3: none of its records is called lost before it is there', () => {
    const { card, agent } = placed(DDIO_ON)
    const qps = VIEWS.map(() => card.connect())
    // Each call does a slice, and the last record is in the fourth.
    const region = card.provision(SHAPE)
    const read = (view: number, i: number) => say(card.read(qps[i]!, region, LAST, view, 64))
    expect(VIEWS.map(read)).toEqual(['refused', 'refused'])
    expect(card.counter('UNSETTLED_READ')).toBe(0)
    work(card, agent!)
    expect(card.read(card.connect(), region, LAST, VIEW_SETTLED, 64)).not.toBeNull()
  })

  test('R1-A3: nor behind a restart, before its host has an agent', () => {
    const made = placed(DDIO_ON)
    made.card.provision(SHAPE)
    cutPower(made, NOTHING)
    const card = restarted(made)
    const read = (view: number) => say(card.read(card.connect(), card.open('fresh'), 0, view, 64))
    expect(VIEWS.map(read)).toEqual(['refused', 'refused'])
    believe(card, PLACEMENT_THROUGH)
    expect(VIEWS.map(read)).toEqual(['refused', 'refused'])
    expect(card.counter('UNSETTLED_READ')).toBe(0)
    work(card, attachedAgent(card))
    expect(VIEWS.map(read)).not.toContain('refused')
  })
})

describe('a posted write of the card is lost', () => {
  for (const [wait, copies] of LEVELS) {
    for (let lost = 0; lost < copies; lost++) {
      for (const contained of [true, false]) {
        const noticed = contained ? 'and its board knows' : 'and nobody knows'
        test(`R1-C3: at ${wait}of${copies}, copy ${lost}, ${noticed}: never acknowledged`, () => {
          const made = placed(DDIO_ON, { copies })
          const { card, region } = made
          const { link } = card.host!
          link.contains = contained
          const qp = card.connect(4096, 0, CLIENT)
          card.serve(...persistFrames(qp, region, 0, OLD))
          work(card, made.agent!)
          let writes = 0
          link.script = ({ kind, memory }) =>
            kind === 'write' && memory === 'persistent' && writes++ === lost ? 'lost' : undefined
          const sent = card.serve(...persistFrames(qp, region, 0, NEW, { wait }))
          sent.push(...steps(card, made.agent!, 3 * copies))
          const durable = ackStatuses(sent).includes(STATUS_DURABLE)
          // One that nobody knows of is stored again; behind one that is contained nothing can be.
          expect(durable).toBe(!contained || lost >= wait)
          cutPower(made, NOTHING)
          const next = restarted(made)
          const read = say(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64))
          if (durable) expect(read).toBe('new')
          else expect(['old', 'new']).toContain(read)
        })
      }
    }
  }
})

const STATUS_PLACEMENT_UNKNOWN = 0x90
const STATUS_PLACEMENT_WRONG = 0x93

/** A card past the caches of a host that has queues, too, with one record in its memory. */
function pastTheCaches() {
  const card = pastCaches()
  const queues = queueHostOf(card)
  believe(card, PLACEMENT_BYPASS)
  const region = card.provision({ slots: 2, placement: PLACEMENT_BYPASS })
  const shape = { name: 'bytes', kind: mad.KIND_BYTES, length: 16384, flags: 2 }
  const bytes = card.provision({ ...shape, placement: PLACEMENT_BYPASS })
  const qp = card.connect()
  expect(ackStatuses(card.serve(...persistFrames(qp, region, 0, OLD)))).toEqual([STATUS_DURABLE])
  return { card, queues, region, bytes, qp }
}

describe('what the probe has shown ends with the host', () => {
  const ends = {
    'it restarts': (card: TestCard) => restartHost(card),
    'it restarts, with DDIO the other way': (card: TestCard) =>
      restartHost(card, { platform: DDIO_ON }),
    'its link was down between two looks': (card: TestCard) => {
      queueHostOf(card).setLink(false)
      queueHostOf(card).setLink(true)
    },
    'its queues begin again': (card: TestCard) => {
      queueHostOf(card).enable()
    },
    'its header page is not to be read': (card: TestCard) => {
      card.host!.link.script = ({ memory, kind }) =>
        memory === 'ram' && kind === 'read' ? 'unsupported' : undefined
      queueHostOf(card).enable()
      card.idle()
      card.host!.link.script = null
    },
  }

  test.each(Object.entries(ends))('R1-C2: %s: nothing is written before a probe', (_, end) => {
    const { card, region, bytes, qp } = pastTheCaches()
    end(card)
    const sent = card.serve(...persistFrames(qp, region, 0, NEW))
    expect(ackStatuses(sent)).toEqual([STATUS_PLACEMENT_UNKNOWN])
    const other = card.connect()
    expect(card.serve(...writeFrames(other, bytes, 0, NEW))[0]!.syndrome).not.toBe(ACK)
    // Read it may be.
    expect(say(card.read(card.connect(), region, 0, VIEW_DATA, 64))).toBe('old')
    believe(card, PLACEMENT_THROUGH)
    const wrong = card.serve(...persistFrames(qp, region, 0, NEW))
    expect(ackStatuses(wrong)).toEqual([STATUS_PLACEMENT_WRONG])
    believe(card, PLACEMENT_BYPASS)
    const again = card.serve(...persistFrames(qp, region, 0, NEW))
    expect(ackStatuses(again)).toEqual([STATUS_DURABLE])
  })

  test('R1-C2: a host without queues goes while nobody speaks to the card: likewise', () => {
    const card = pastCaches()
    const port = new QueueHost(card)
    port.setLink(true)
    believe(card, PLACEMENT_BYPASS)
    const region = card.provision({ slots: 2, placement: PLACEMENT_BYPASS })
    const qp = card.connect()
    expect(ackStatuses(card.serve(...persistFrames(qp, region, 0, OLD)))).toEqual([STATUS_DURABLE])
    port.setLink(false)
    card.idle()
    port.setLink(true)
    card.idle()
    const sent = card.serve(...persistFrames(qp, region, 0, NEW))
    expect(ackStatuses(sent)).toEqual([STATUS_PLACEMENT_UNKNOWN])
    expect(say(card.read(card.connect(), region, 0, VIEW_DATA, 64))).toBe('old')
  })

  test('R1-C2: the number of a probe before says nothing any more', () => {
    const { card } = pastTheCaches()
    const number = card.host!.load(HOST_PROBE_AT, 8).bytes!
    restartHost(card)
    expect(() => place(card, PLACEMENT_BYPASS, true, number)).toThrow('PLACEMENT_UNKNOWN')
  })

  test('R1-C2: a WRITE that began in front of another host is never acknowledged', () => {
    const { card, bytes } = pastTheCaches()
    const qp = card.connect(1024)
    const [first, ...further] = writeFrames(qp, bytes, 0, dataOf(4000, 3))
    card.serve(first!)
    restartHost(card)
    believe(card, PLACEMENT_BYPASS)
    const sent = card.serve(...further)
    expect(sent.filter(({ syndrome }) => syndrome === ACK)).toEqual([])
  })
})

test('a start that is made again knows nothing of what the one before it had to write back', () => {
  const { state } = batchSetting()
  state.through.unflushed.fill(1)
  boot(state)
  expect(state.through.unflushed.some((due) => due !== 0)).toBe(false)
})

test('B7: a region that was only being made as a save failed has lost nothing', () => {
  const made = placed(DDIO_ON)
  made.card.provision({ name: 'second', slots: 2, placement: PLACEMENT_THROUGH })
  cutPower(made, NOTHING)
  made.card.nvdimm.dirtyShutdowns += 1
  const next = restarted(made)
  believe(next, PLACEMENT_THROUGH)
  const agent = attachedAgent(next)
  work(next, agent)
  const second = next.open('second')
  expect(second.unsettled).toBe(0)
  next.sent = []
  next.serve(...persistFrames(next.connect(), second, 1, NEW))
  work(next, agent)
  expect(shownCopies(next, second, 1)).toEqual(['new', 'new'])
})
