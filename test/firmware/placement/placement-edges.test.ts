/**
 * Records through the host's caches where nearly nobody gets: a medium that refuses lanes and lines
 * of clients, agents whose queues are none, receives that never come, requesters that are gone
 * (source 2, flow 2).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { CutChoice } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  BURST_FRAMES,
  FLUSH_TIMEOUT_US,
  LANES,
  THROUGH_JOBS,
} from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { WQE_RECEIVE } from '../../../firmware/host/element.ts'
import { HEADER_INTERRUPTS } from '../../../firmware/host/header-page.ts'
import {
  KIND_COMPLETION,
  KIND_RECEIVE,
  KIND_SEND,
  QUEUE_ERROR,
  TYPE_AGENT,
} from '../../../firmware/host/queue-info.ts'
import { PHASE_B } from '../../../firmware/medium/lane.ts'
import {
  FIXED_LENGTH,
  HOST_DATA_AT,
  HOST_PROBE_AT,
  PLACEMENT_THROUGH,
} from '../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { faultOfStatus } from '../../../host-driver/base/errors.ts'
import type { FlushAgent } from '../../../host-driver/target/flush-agent.ts'
import { failFence } from '../../support/cards/fences.ts'
import {
  Agent,
  attachedAgent,
  believe,
  cardOf,
  cutPower,
  hostSideOf,
  type Placed,
  placed,
  queueHostOf,
  restarted,
  tellAgent,
  throughCaches,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { OPERATIONS_AT } from '../../support/judges/oracle.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import { elementOf } from '../../support/queues/queue-host.ts'
import { disconnect, lines, sendFrames } from '../../support/wire/requests.ts'

const DURABLE = 0
const STATUS_MEDIA = 0x81
const STATUS_IN_DOUBT = 0x8f
const STATUS_NO_AGENT = 0x91
const LINE_BYTES = 64
const FIRST_LANE = LANES_AT / LINE_BYTES

function statuses(sent: readonly Sent[]): number[] {
  return sent.flatMap(({ paeth }) => (paeth === null ? [] : [paeth.status]))
}

/** What the card says while it and the agent work. */
function told({ card, agent }: Placed, other: FlushAgent = agent!): number[] {
  const all: Sent[] = []
  for (let i = 0; i < 12; i++) {
    other.poll()
    card.sent = []
    card.idle()
    all.push(...card.sent)
  }
  return statuses(all)
}

/** Lets time go by in which nobody does anything for the card; what it says. */
function toldInTime(card: TestCard): number[] {
  const all: Sent[] = []
  for (let i = 0; i < 3; i++) {
    card.sent = []
    card.now += FLUSH_TIMEOUT_US
    card.idle()
    all.push(...card.sent)
  }
  return statuses(all)
}

describe('P1-11: a medium that refuses', () => {
  test('every lane of such records: each refuses one, then all are, and no region is made', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    for (let i = 0; i < THROUGH_JOBS; i++) card.nvdimm.refuseWrites(FIRST_LANE + BURST_FRAMES + i)
    const said: number[] = []
    for (let i = 0; i < THROUGH_JOBS; i++) {
      said.push(...statuses(card.serve(...persistFrames(qp, region, 0, dataOf(64, i)))))
      said.push(...told(made))
    }
    expect(said).toEqual(Array(THROUGH_JOBS).fill(STATUS_MEDIA))
    // Nothing frees them before the next start: to come again would be in vain.
    const [refused] = statuses(card.serve(...persistFrames(qp, region, 0, dataOf(64, 99))))
    expect(refused).not.toBe(DURABLE)
    const other = card.provision({ name: 'other', slots: 2, placement: PLACEMENT_THROUGH })
    work(card, made.agent!)
    const late = card.serve(...persistFrames(qp, other, 0, dataOf(64, 1)))
    expect([...statuses(late), ...told(made)]).toEqual([STATUS_NO_AGENT])
  })

  test.each([0, 1, 2])(
    'to clear lane %i of others: the record is written, and it rests',
    (lane) => {
      const { card, host, agent } = throughCaches(1 << 17)
      const through = card.provision({ name: 'through', slots: 2, placement: PLACEMENT_THROUGH })
      const local = card.provision({ name: 'local', slots: 4 })
      work(card, agent)
      const qp = card.connect()
      const three = [0, 1, 2].flatMap((slot) => persistFrames(qp, local, slot, dataOf(64, 1)))
      expect(statuses(card.serve(...three))).toEqual([DURABLE])
      card.nvdimm.refuseWrites(FIRST_LANE + lane)
      // Nobody stores behind the last one.
      card.nvdimm.refuseWrites(FIRST_LANE + LANES)
      const sent = card.serve(...persistFrames(qp, through, 0, dataOf(64, 2)))
      const later = told({ card, host, region: through, qp, agent })
      expect([...statuses(sent), ...later]).toEqual([DURABLE])
      expect(card.read(qp, through, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
      expect(statuses(card.serve(...persistFrames(qp, local, 3, dataOf(64, 3))))).toEqual([DURABLE])
    },
  )

  test('the second half of its own lane: in doubt, and the old record is what is shown', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(told(made)).toEqual([DURABLE])
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
    for (let i = 0; i < THROUGH_JOBS; i++) card.nvdimm.refuseWrites(FIRST_LANE + BURST_FRAMES + i)
    expect(told(made)).toEqual([STATUS_IN_DOUBT])
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
    expect(card.read(qp, region, 1, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
    expect(card.open().unsettled).toBe(1)
    for (let i = 0; i < 8; i++) card.idle()
    expect(card.waitUs, 'it is over').not.toBe(1)
  })

  test('X-3: the line of a client: it moves, and the record is durable all the same', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    for (const which of [0, 1]) card.nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + which)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { operation: 5 }))
    expect(told(made)).toEqual([DURABLE])
    const { finished } = agent!
    const again = card.connect()
    const sent = card.serve(...persistFrames(again, region, 0, dataOf(64, 1), { operation: 5 }))
    expect([...statuses(sent), ...told(made)]).toEqual([DURABLE])
    expect(agent!.finished, 'it is known, and not written again').toBe(finished)
  })

  test.each([0, 1])('X-3: line %i of a client decays: the other one says the same', (which) => {
    const made = placed(DDIO_ON)
    const { card } = made
    for (const operation of [5, 6]) {
      write(card, ONE, operation, dataOf(64, operation))
      expect(told(made)).toEqual([DURABLE])
    }
    cutPower(made, { random: new Random(1), strategy: 'none' })
    card.nvdimm.poison(OPERATIONS_AT / LINE_BYTES + which)
    const next = restarted(made)
    believe(next, PLACEMENT_THROUGH)
    const agent = attachedAgent(next)
    work(next, agent)
    const { finished } = agent
    for (const operation of [5, 6]) {
      const said = write(next, ONE, operation, OLD, { repetition: true })
      expect([...said, ...told({ ...made, card: next, agent })]).toEqual([DURABLE])
    }
    expect(agent.finished).toBe(finished)
  })
})

/** Of a cut: what was stored into lanes survives, and nothing else that was not durable. */
const LANES_ONLY: CutChoice = {
  random: new Random(1),
  strategy: 'only-matching',
  matches: (at) => at >= LANES_AT && at < LANES_AT + LANES * LINE_BYTES,
}

describe('D-13: a fence of the card fails while the host’s CPU works for a record', () => {
  const CLOSED = 0x8e

  test.each([
    [1, 1, CLOSED],
    [2, 1, STATUS_IN_DOUBT],
    [3, 1, DURABLE],
    [1, 2, CLOSED],
    [2, 2, STATUS_IN_DOUBT],
    [3, 2, STATUS_IN_DOUBT],
    [4, 2, STATUS_IN_DOUBT],
    [5, 2, DURABLE],
  ])('the %i. of a record at level %i', (fence, wait, status) => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const data = dataOf(64, 1)
    failFence(card, fence)
    const sent = card.serve(...persistFrames(qp, region, 0, data, { wait }))
    expect([...statuses(sent), ...told(made)]).toEqual([status])
    const isReached = fence < 5
    expect(card.status()[mad.PART_STATE] === mad.STATE_FAILED_CLOSED).toBe(isReached)
    cutPower(made, { random: new Random(1), strategy: 'none' })
    const next = restarted(made)
    believe(next, PLACEMENT_THROUGH)
    work(next, attachedAgent(next))
    const bytes = next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)!
    const isOld = Buffer.compare(bytes, new Uint8Array(64)) === 0
    if (status === DURABLE || !isOld) expect(bytes).toEqual(data)
    // A record that was not taken was told so, and is not there.
    if (status === CLOSED) expect(isOld).toBe(true)
    expect(next.open().unsettled).toBe(0)
  })

  test('a record of nobody, which no line of a client speaks of: nor is that durable', () => {
    for (const fence of [1, 2, 3, 4]) {
      const made = placed(DDIO_ON)
      const { card, region } = made
      failFence(card, fence)
      const sent = card.serve(...persistFrames(card.connect(4096, 0, 0), region, 0, OLD))
      expect([...statuses(sent), ...told(made)]).toEqual([fence === 1 ? CLOSED : STATUS_IN_DOUBT])
    }
  })

  test.each([1, 2, 3])('the %i. of what a start repaired: the next one repairs it', (fence) => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    const data = dataOf(64, 1)
    card.serve(...persistFrames(qp, region, 0, data, { wait: 1, operation: 5 }))
    while (card.nvdimm.durable[(FIRST_LANE + BURST_FRAMES) * LINE_BYTES] !== PHASE_B) {
      agent!.poll()
      card.idle()
    }
    cutPower(made, { random: new Random(1), strategy: 'none' })
    const next = restarted(made)
    believe(next, PLACEMENT_THROUGH)
    failFence(next, fence)
    work(next, attachedAgent(next))
    expect(next.status()[mad.PART_STATE]).toBe(mad.STATE_FAILED_CLOSED)
    // No lane has been cleared before the table is durable.
    cutPower({ card: next, host: next.host! }, LANES_ONLY)
    const last = restarted({ card: next, host: next.host! })
    believe(last, PLACEMENT_THROUGH)
    work(last, attachedAgent(last))
    expect(last.read(last.connect(), last.open(), 0, VIEW_DATA, 64)).toEqual(data)
    const again = last.connect()
    const options = { operation: 5, repetition: true }
    expect(statuses(last.serve(...persistFrames(again, last.open(), 0, data, options)))).toEqual([
      DURABLE,
    ])
  })
})

describe('who is on its way', () => {
  test('keeps nobody else from a confirmation, and no other record from its readers', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const second = card.provision({ name: 'second', slots: 2, placement: PLACEMENT_THROUGH })
    work(card, made.agent!)
    const other = card.connect()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    // The first copies of others are what they are shown: the second ones are gone.
    for (const at of [4096 + region.stride, 3 * 4096])
      made.host.part.poison((HOST_DATA_AT + at) / LINE_BYTES)
    expect(card.read(other, region, 1, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
    expect(card.read(other, second, 0, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
    const { psn } = other
    const sent = card.serve(...sendFrames(other, dataOf(8, 1), { solicited: true }))
    expect(lines(sent, psn)[0]).not.toContain('NAK')
    expect(told(made)).toEqual([DURABLE])
  })

  test('is told when its region ends, and nobody else is: what another waits for comes', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    const other = card.provision({ name: 'other', slots: 2, placement: PLACEMENT_THROUGH })
    work(card, agent!)
    const [mine, theirs] = [dataOf(64, 1), dataOf(64, 2)]
    card.serve(...persistFrames(qp, region, 0, mine))
    const sent = card.serve(...persistFrames(card.connect(), other, 0, theirs))
    expect(statuses(sent)).toEqual([])
    card.sent = []
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
    })
    expect(statuses(card.sent)).toEqual([STATUS_IN_DOUBT])
    expect(told(made)).toEqual([DURABLE])
    expect(card.read(card.connect(), card.open('other'), 0, VIEW_DATA, 64)).toEqual(theirs)
    card.idle()
    const lanes = card.nvdimm.live.slice(LANES_AT, LANES_AT + LANES * LINE_BYTES)
    expect(lanes.every((byte) => byte === 0)).toBe(true)
  })

  test('X-7: and behind another one, when its region ends, by a status that there is', () => {
    const { card, region, qp } = placed(DDIO_ON)
    const both = [1, 2].flatMap((seed) => persistFrames(qp, region, 0, dataOf(64, seed)))
    card.serve(...both)
    card.sent = []
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
    })
    expect(statuses(card.sent).map(faultOfStatus)).toEqual(['IN_DOUBT', 'SLOT'])
  })

  test('X-1: and whose requester has gone is refused without a word', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    silent(card, 0)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    disconnect(card, qp)
    expect(toldInTime(card)).toEqual([])
    expect(card.counter('NO_AGENT')).toBe(1)
  })
})

/** An agent that has posted so many RECEIVEs, and posts no more. */
function silent(card: TestCard, receives: number): Agent {
  const queues = new RawAgentQueues(queueHostOf(card))
  const agent = new Agent(card, queues, hostSideOf(card), {
    sendQueue: queues.sendQueue,
    postReceives: () => {},
    takeRequests: () => queues.takeRequests(),
    postFinished: (number) => queues.postFinished(number),
  })
  const { host, pair } = queues
  const post = queues.postReceives.bind(queues)
  if (receives > 0) {
    post()
    host.setPointer(pair.receive, receives)
  }
  const answer = tellAgent(card, mad.AGENT_ATTACH, queues.sendQueue)
  agent.begin(u32(answer, mad.AGENT_FIRST_REQUEST))
  return agent
}

describe('P2-25, G2-5: an agent that posts one receive', () => {
  test('the second copy waits for another, and is written back when it comes', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const agent = silent(card, 1)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(told(made, agent)).toEqual([])
    expect(agent.finished).toBe(1)
    agent.queues.host.setPointer(agent.queues.pair.receive, 3)
    expect(told(made, agent)).toEqual([DURABLE])
  })

  test('and never another: in doubt after a bounded time', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const agent = silent(card, 1)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(told(made, agent)).toEqual([])
    expect(toldInTime(card)).toEqual([STATUS_IN_DOUBT])
  })
})

/** Attaches with that queue and the number of the probe; the fault. */
function attach(card: TestCard, queue: number): string {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, (body) => {
    body[mad.AGENT_ACTION] = mad.AGENT_ATTACH
    body.set(card.host!.load(HOST_PROBE_AT, 8).bytes!, mad.AGENT_NUMBER_HIGH)
    putU32(body, mad.AGENT_QUEUE, queue)
  }).fault
}

const SEND = 8
const RECEIVE = 9
const COMPLETIONS = 10

test('P2-17: the host is told of a request in the call that makes it', () => {
  const { card, region, qp } = placed(DDIO_ON)
  const { queues } = attachedAgent(card)
  const { host, completions, pair } = queues
  for (let i = 0; i < 4; i++) card.idle()
  host.arm(completions)
  const seen = (): [number, number] => {
    host.ram.link.arrive()
    return [host.header(HEADER_INTERRUPTS), host.zone1(pair.receive).pointer]
  }
  const [interrupts, pointer] = seen()
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  expect(seen()).toEqual([interrupts + 1, pointer + 1])
})

test('H1: what an agent has sent when it is detached ends its queue', () => {
  const { card, region, qp, agent } = placed(DDIO_ON)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  agent!.poll()
  tellAgent(card, mad.AGENT_DETACH, agent!.queues.sendQueue)
  expect(statuses(card.sent)).toEqual([STATUS_IN_DOUBT])
  for (let i = 0; i < 5; i++) card.idle()
  expect(agent!.queues.zone1()).toMatchObject({ state: QUEUE_ERROR, fault: 'NO_AGENT' })
})

describe('an agent that is none', () => {
  test('on a host that has set up no queues', () => {
    const host = new HostMemory({ part: new Nvdimm({ bytes: 1 << 15 }), platform: DDIO_ON })
    const card = cardOf(1 << 16, host).format()
    believe(card, PLACEMENT_THROUGH)
    expect(attach(card, SEND)).toBe('QUEUE_UNKNOWN')
  })

  test('with a queue that has ended already', () => {
    const { card } = placed(DDIO_ON)
    const shape = { kind: KIND_SEND, type: TYPE_AGENT, depth: 16, state: QUEUE_ERROR }
    queueHostOf(card).forceQueue(SEND, shape)
    expect(attach(card, SEND)).toBe('QUEUE_UNKNOWN')
  })

  test.each([
    ['has ended', { state: QUEUE_ERROR }, {}],
    ['is none of an agent', { type: 0 }, {}],
    ['completes where all has ended', {}, { state: QUEUE_ERROR }],
  ])('whose receive queue %s: it is gone with the first record', (_, receive, completions) => {
    const { card, region, qp } = placed(DDIO_ON)
    const host = queueHostOf(card)
    const both = { type: TYPE_AGENT, depth: 16, completions: COMPLETIONS }
    host.forceQueue(COMPLETIONS, { kind: KIND_COMPLETION, depth: 16, ...completions })
    host.forceQueue(SEND, { ...both, kind: KIND_SEND, other: RECEIVE })
    host.forceQueue(RECEIVE, { ...both, kind: KIND_RECEIVE, other: SEND, ...receive })
    expect(attach(card, SEND)).toBe('PASS')
    for (let i = 0; i < 4; i++) host.post(RECEIVE, elementOf({ opcode: WQE_RECEIVE }))
    // Who finds that out hears of it in the same call.
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(statuses(sent)).toHaveLength(1)
    expect([...statuses(sent), ...toldInTime(card)]).toEqual(statuses(sent))
    expect(statuses(sent)).not.toContain(DURABLE)
  })

  test('whose receive queue is not there, or says of itself what cannot be: it is gone', () => {
    for (const isThere of [false, true]) {
      const { card, region } = placed(DDIO_ON, { slots: 4 })
      const host = queueHostOf(card)
      const both = { type: TYPE_AGENT, depth: 16, completions: COMPLETIONS }
      host.forceQueue(COMPLETIONS, { kind: KIND_COMPLETION, depth: 16 })
      host.forceQueue(SEND, { ...both, kind: KIND_SEND, other: RECEIVE })
      if (isThere) host.forceQueue(RECEIVE, { ...both, kind: KIND_RECEIVE, other: SEND })
      expect(attach(card, SEND)).toBe('PASS')
      const said: number[] = []
      for (let slot = 0; slot < 4; slot++) {
        if (isThere && slot === 0) host.post(RECEIVE, elementOf({ opcode: WQE_RECEIVE }))
        // What it has posted is used up: the card looks for more.
        if (isThere && slot === 2) host.setPointer(RECEIVE, 1000)
        const sent = card.serve(...persistFrames(card.connect(), region, slot, dataOf(64, slot)))
        said.push(...statuses(sent))
      }
      host.ram.link.arrive()
      if (isThere) expect(host.zone1(RECEIVE).state).toBe(QUEUE_ERROR)
      const all = [...said, ...toldInTime(card)]
      expect(all.length).toBeGreaterThan(0)
      expect(all).not.toContain(DURABLE)
    }
  })

  test('N21: who has no room for a completion, and says of it what cannot be, is over', () => {
    const { card, region } = placed(DDIO_ON, { slots: 16 })
    const host = queueHostOf(card)
    const both = { type: TYPE_AGENT, depth: 16, completions: COMPLETIONS }
    host.forceQueue(COMPLETIONS, { kind: KIND_COMPLETION, depth: 4 })
    host.forceQueue(SEND, { ...both, kind: KIND_SEND, other: RECEIVE })
    host.forceQueue(RECEIVE, { ...both, kind: KIND_RECEIVE, other: SEND })
    expect(attach(card, SEND)).toBe('PASS')
    for (let i = 0; i < 12; i++) host.post(RECEIVE, elementOf({ opcode: WQE_RECEIVE }))
    const said: number[] = []
    for (let slot = 0; slot < 8; slot++) {
      if (slot === 2) host.setPointer(COMPLETIONS, 1000)
      const sent = card.serve(...persistFrames(card.connect(), region, slot, dataOf(64, slot)))
      said.push(...statuses(sent))
    }
    host.ram.link.arrive()
    expect(host.zone1(COMPLETIONS).state).toBe(QUEUE_ERROR)
    expect(host.zone1(RECEIVE).state).toBe(QUEUE_ERROR)
    expect([...said, ...toldInTime(card)]).not.toContain(DURABLE)
  })
})

describe('D-13: a start that cannot end', () => {
  const second = { name: 'second', slots: 2, placement: PLACEMENT_THROUGH }

  /** Card and host after a cut at that command of the making of a region; null if it was made. */
  function interrupted(command: number): Placed | null {
    const made = placed(DDIO_ON)
    const { card } = made
    card.machine.armCut(command)
    try {
      card.tryProvision(second)
      if (!card.machine.dead) work(card, made.agent!)
    } catch {
      // The control call was not answered: the power is gone.
    }
    if (!card.machine.dead) return null
    cutPower(made, { random: new Random(1), strategy: 'all' })
    return made
  }

  function faultOf(card: TestCard): string {
    return FAULTS[card.status()[mad.PART_FAULT]!]!.name
  }

  /** The region is there, and takes records. */
  function isWhole(card: TestCard, agent: Agent): void {
    const region = card.provision(second)
    work(card, agent)
    const qp = card.connect()
    card.serve(...persistFrames(qp, region, 1, dataOf(64, 1)))
    work(card, agent)
    expect(card.read(qp, region, 1, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
  }

  test('R1-A2: what is left of the making of a region waits for an agent, who makes it', () => {
    for (let command = 0; ; command++) {
      const made = interrupted(command)
      if (made === null) break
      const next = restarted(made)
      expect(faultOf(next)).toBe('PASS')
      believe(next, PLACEMENT_THROUGH)
      const agent = attachedAgent(next)
      work(next, agent)
      isWhole(next, agent)
    }
  })

  /** A card with a region that is forming, of which nothing is in the host's memory. */
  function forming(): TestCard {
    const made = placed(DDIO_ON)
    made.card.provision(second)
    cutPower(made, { random: new Random(1), strategy: 'none' })
    return restarted(made)
  }

  test('P1-24: and behind a save that failed: the part starts, and others take records', () => {
    const made = placed(DDIO_ON)
    made.card.provision(second)
    cutPower(made, { random: new Random(1), strategy: 'none' })
    made.card.nvdimm.dirtyShutdowns += 1
    const next = restarted(made)
    expect(faultOf(next)).toBe('PASS')
    believe(next, PLACEMENT_THROUGH)
    const agent = attachedAgent(next)
    work(next, agent)
    const said = write(next, ONE, 1, NEW)
    expect([...said, ...told({ ...made, card: next, agent })]).toEqual([DURABLE])
  })

  test('H4: the making of a region waits for a host that does not answer', () => {
    const card = forming()
    believe(card, PLACEMENT_THROUGH)
    let asked = 0
    card.host!.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' && asked++ < 20 ? 'timeout' : undefined
    const agent = attachedAgent(card)
    for (let i = 0; i < 20; i++) {
      agent.poll()
      card.idle()
    }
    expect(faultOf(card)).toBe('PASS')
    isWhole(card, agent)
  })

  test.each(['its slots are stored', 'it is one for good'])(
    'D-13: a fence that fails when %s closes the part',
    (when) => {
      const card = forming()
      believe(card, PLACEMENT_THROUGH)
      const early = when === 'its slots are stored'
      if (early) card.nvdimm.fencesToFail = 1
      const agent = attachedAgent(card)
      if (!early) card.nvdimm.fencesToFail = 1
      work(card, agent)
      expect(faultOf(card)).toBe('FLUSH')
    },
  )

  test('H4: with the lane of a record of a host that does not answer: its lane stays', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    work(card, made.agent!)
    // The next one is begun, and its lane stands.
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
    cutPower(made, { random: new Random(1), strategy: 'all' })
    const { part, platform } = made.host
    const host = new HostMemory({ part, platform })
    host.link.script = ({ kind }) => (kind === 'read' ? 'unsupported' : undefined)
    const silent = cardOf(card.nvdimm, host)
    expect(faultOf(silent)).toBe('PASS')
    expect(silent.read(silent.connect(), silent.open(), 0, VIEW_DATA, 64)).toBeNull()
    silent.machine.die()
    const next = restarted(made)
    expect(faultOf(next)).toBe('PASS')
    believe(next, PLACEMENT_THROUGH)
    work(next, attachedAgent(next))
    const found = next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)
    expect([dataOf(64, 1), dataOf(64, 2)]).toContainEqual(found)
    // It was settled, in both copies: the first may go.
    const both = { card: next, host: next.host! }
    cutPower(both, { random: new Random(1), strategy: 'none' })
    both.host.part.poison(HOST_DATA_AT / LINE_BYTES)
    const last = restarted(both)
    expect(last.read(last.connect(), last.open(), 0, VIEW_DATA, 64)).toEqual(found)
  })
})

/** What a record of that client is answered with at once; nothing, where it waits for the agent. */
function write(
  card: TestCard,
  client: number,
  operation: number,
  data: Uint8Array,
  options: { region?: string; slot?: number; wait?: number; repetition?: boolean } = {},
): number[] {
  const { region = 'records', slot = 0, wait = 2, repetition = false } = options
  const qp = card.connect(4096, 0, client)
  const frames = persistFrames(qp, card.open(region), slot, data, { operation, wait, repetition })
  return statuses(card.serve(...frames))
}

const [ONE, TWO] = [7, 8]
const [OLD, NEW] = [dataOf(64, 1), dataOf(64, 2)]

describe('P2-27, D-6: a repetition that waits behind a record of another client', () => {
  const FORGOTTEN = 0x98
  const again = { repetition: true }

  /** One step of its client takes it so far that the table speaks of operation 1 no more. */
  function goOn(card: TestCard): void {
    expect(write(card, ONE, 1000, OLD, { region: 'local' })).toEqual([DURABLE])
    expect(write(card, ONE, 1, OLD, { region: 'local', ...again })).toEqual([FORGOTTEN])
  }

  function opened(): Placed {
    const made = placed(DDIO_ON)
    made.card.provision({ name: 'local', slots: 4 })
    return made
  }

  /** The card says so of what waited, and the record is that of the other client. */
  function expectOver(made: Placed, said: number[]): void {
    expect(told(made)).toEqual(said)
    const { card } = made
    expect(card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)).toEqual(NEW)
  }

  test('and was durable when it came is not executed, however much is forgotten meanwhile', () => {
    const made = opened()
    const { card, agent } = made
    write(card, ONE, 1, OLD)
    work(card, agent!)
    expect([...write(card, TWO, 1, NEW), ...write(card, ONE, 1, OLD, again)]).toEqual([])
    goOn(card)
    expectOver(made, [DURABLE, DURABLE])
    // It has gone, and keeps nobody waiting.
    expect([...write(card, TWO, 2, OLD), ...told(made)]).toEqual([DURABLE])
  })

  test.each([false, true])('and becomes durable meanwhile; in the first place: %s', (first) => {
    const made = opened()
    const { card, agent } = made
    const bell = (): void => {
      agent!.poll()
      card.idle()
    }
    // The record of somebody else has that place, and gives it back in time.
    if (first) write(card, 9, 1, OLD, { slot: 1 })
    if (first) bell()
    write(card, ONE, 1, OLD)
    write(card, TWO, 1, NEW)
    bell()
    write(card, ONE, 1, OLD, again)
    for (card.sent = []; statuses(card.sent).length === 0; ) bell()
    goOn(card)
    expectOver(made, [DURABLE, DURABLE])
  })
})

test('P2-27, D-6: likewise a repetition of what a start has found, and its agent ends', () => {
  const made = placed(DDIO_ON)
  const { card, agent } = made
  card.provision({ name: 'local', slots: 4 })
  write(card, ONE, 1, OLD, { wait: 1 })
  agent!.poll()
  card.idle()
  cutPower(made, { random: new Random(1), strategy: 'none' })
  const next = restarted(made)
  believe(next, PLACEMENT_THROUGH)
  const served = attachedAgent(next)
  expect(write(next, TWO, 1, NEW)).toEqual([])
  expect(write(next, ONE, 1, OLD, { repetition: true })).toEqual([])
  for (let bell = 0; bell < 2; bell++) {
    served.poll()
    next.idle()
  }
  // It has gone on so far that the table speaks of operation 1 no more.
  expect(write(next, ONE, 1000, OLD, { region: 'local' })).toEqual([DURABLE])
  expect(told({ ...made, card: next, agent: served })).toEqual([DURABLE, DURABLE])
  expect(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)).toEqual(NEW)
})

test('P1-24: idle time mends other records while one is on its way', () => {
  const made = placed(DDIO_ON)
  const { card, host, region, agent } = made
  card.provision({ name: 'other', slots: 2, placement: PLACEMENT_THROUGH })
  work(card, agent!)
  const lineOf = (area: number, slot: number): number =>
    (HOST_DATA_AT + area * 4096 + slot * region.stride) / LINE_BYTES
  write(card, TWO, 1, NEW)
  // The same slot of another region, and another slot of the same one.
  for (const line of [lineOf(region.copies + 1, 0), lineOf(1, 1)]) host.part.poison(line)
  for (let i = 0; i < 200; i++) card.idle()
  expect(u32(card.status(), mad.PART_REPAIRED)).toBe(2)
  expect(told(made)).toEqual([DURABLE])
})

describe('as many records as there are jobs are on their way at once', () => {
  const slots = Array.from({ length: THROUGH_JOBS }, (_, slot) => slot)

  test('P2-21: and keep what they are, whatever other clients send meanwhile', () => {
    const { card, host, agent: first } = throughCaches(1 << 20)
    const region = card.provision({ slots: THROUGH_JOBS, placement: PLACEMENT_THROUGH })
    work(card, first)
    const wide = card.provision({ name: 'wide', slots: 1, capacity: 65536 })
    const agent = silent(card, 0)
    for (const slot of slots) {
      card.serve(...persistFrames(card.connect(), region, slot, dataOf(64, slot)))
    }
    // Every buffer for messages of several packets is taken, and about half of it filled.
    const frames = slots.flatMap(() => persistFrames(card.connect(), wide, 0, dataOf(65536, 99)))
    const whole = 65536 / 4096
    for (let packet = 0; packet < 9; packet++) {
      const burst = frames.filter((_, i) => i % whole === packet)
      card.serve(...burst.slice(packet === 0 ? 0 : THROUGH_JOBS / 2))
    }
    const made = { card, host, region, qp: card.connect(), agent }
    const said = [0, 1].flatMap(() => {
      agent.queues.postReceives()
      return told(made)
    })
    expect(said).toEqual(slots.map(() => DURABLE))
    for (const slot of slots) {
      expect(card.read(made.qp, region, slot, VIEW_DATA, 64)).toEqual(dataOf(64, slot))
    }
  })

  test('X-2: and each has a lane of its own, by which a start makes it whole for good', () => {
    const made = placed(DDIO_ON, { slots: THROUGH_JOBS })
    const { card, region, agent } = made
    for (const slot of slots) {
      card.serve(...persistFrames(card.connect(), region, slot, dataOf(64, slot), { wait: 1 }))
    }
    agent!.poll()
    card.sent = []
    card.idle()
    expect(statuses(card.sent)).toEqual(slots.map(() => DURABLE))
    cutPower(made, { random: new Random(1), strategy: 'none' })
    const next = restarted(made)
    believe(next, PLACEMENT_THROUGH)
    const served = attachedAgent(next)
    work(next, served)
    next.idle()
    expect(served.finished).toBe(2 * THROUGH_JOBS)
    const lanes = next.nvdimm.live.slice(LANES_AT, LANES_AT + LANES * LINE_BYTES)
    expect(lanes.every((byte) => byte === 0)).toBe(true)
    // In both copies: the first ones may go.
    const both = { card: next, host: next.host! }
    cutPower(both, { random: new Random(1), strategy: 'none' })
    const lines = (THROUGH_JOBS * region.stride) / LINE_BYTES
    for (let i = 0; i < lines; i++) both.host.part.poison(HOST_DATA_AT / LINE_BYTES + i)
    const last = restarted(both)
    const qp = last.connect()
    for (const slot of slots) {
      expect(last.read(qp, last.open(), slot, VIEW_DATA, 64)).toEqual(dataOf(64, slot))
    }
  })
})

describe('how soon the card wants to look after a record that is on its way', () => {
  /** µs until it does; never, 0. */
  const [NEVER, SOON, LATER] = [0, 1, 200]

  /** What it says when its queues have nothing more to do. */
  function calm(card: TestCard): number {
    for (let i = 0; i < 8; i++) card.idle()
    return card.waitUs
  }

  test('at once when anything has gone on, else now and then, and never when it is over', () => {
    const { card, region, qp } = placed(DDIO_ON)
    const agent = silent(card, 1)
    const { host, pair } = agent.queues
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const waits: [string, number, number][] = [['begun', card.waitUs, calm(card)]]
    const note = (what: string): void => {
      card.idle()
      waits.push([what, card.waitUs, calm(card)])
    }
    agent.poll()
    note('finished, and no receive')
    host.setPointer(pair.receive, 3)
    note('asked again')
    agent.poll()
    note('durable')
    expect(waits).toEqual([
      ['begun', SOON, LATER],
      ['finished, and no receive', SOON, LATER],
      ['asked again', SOON, LATER],
      ['durable', SOON, NEVER],
    ])
  })

  test('never, when the agent of what was begun has gone', () => {
    const { card, region, qp, agent } = placed(DDIO_ON)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(calm(card)).toBe(LATER)
    tellAgent(card, mad.AGENT_DETACH, agent!.queues.sendQueue)
    expect(calm(card)).toBe(NEVER)
  })

  test('X-3: at once, when the line of a client was refused, and that of the next', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    for (let line = 0; line < 8; line++) card.nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + line)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    for (let bell = 0; bell < 2; bell++) {
      agent!.poll()
      card.sent = []
      do card.idle()
      while (card.waitUs === SOON)
    }
    expect(statuses(card.sent)).toEqual([DURABLE])
  })

  test('at once, when the agent says what nobody waits for any more', () => {
    const { card, region, qp, agent } = placed(DDIO_ON)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
    })
    calm(card)
    agent!.poll()
    card.idle()
    expect(card.waitUs).toBe(SOON)
  })

  test('and nothing is stored again while it waits for a receive', () => {
    const { card, host, region, qp } = placed(DDIO_ON)
    const agent = silent(card, 1)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    agent.poll()
    calm(card)
    let writes = 0
    host.link.script = ({ kind, memory }) => {
      if (kind === 'write' && memory === 'persistent') writes += 1
      return undefined
    }
    calm(card)
    expect(writes).toBe(0)
  })
})

test('G2-5: the time of a record begins when it comes, whoever had its place before', () => {
  const { card, region, qp } = placed(DDIO_ON)
  const agent = silent(card, 2)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  for (let bell = 0; bell < 2; bell++) {
    for (let i = 0; i < 4; i++) card.idle()
    agent.poll()
    for (let i = 0; i < 4; i++) card.idle()
  }
  card.pass(2 * FLUSH_TIMEOUT_US)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
  expect(statuses([...card.pass(10), ...card.pass(FLUSH_TIMEOUT_US - 1)])).toEqual([])
  expect(statuses(card.pass(1))).toEqual([STATUS_NO_AGENT])
})

test('G2-5: and that of a further copy begins when it is stored', () => {
  const { card, region, qp } = placed(DDIO_ON)
  const agent = silent(card, 1)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  card.idle()
  const most = FLUSH_TIMEOUT_US / 2 + 1
  card.pass(most)
  agent.poll()
  card.idle()
  expect(statuses([...card.pass(10), ...card.pass(most), ...card.pass(10)])).toEqual([])
  expect(statuses(card.pass(most))).toEqual([STATUS_IN_DOUBT])
})

test('G2-5: and that of the agent when it is asked', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp } = made
  const agent = silent(card, 0)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  card.idle()
  const most = FLUSH_TIMEOUT_US / 2 + 1
  card.pass(most)
  agent.queues.postReceives()
  card.idle()
  expect(statuses([...card.pass(10), ...card.pass(most)])).toEqual([])
  expect(told(made, agent)).toEqual([DURABLE])
})

test('G2-5: what waits for a receive has the whole time of an agent that comes', () => {
  const { card, region, qp } = placed(DDIO_ON)
  silent(card, 0)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  card.idle()
  const most = FLUSH_TIMEOUT_US / 2 + 1
  card.pass(most)
  silent(card, 0)
  expect(statuses([...card.pass(10), ...card.pass(most)])).toEqual([])
  expect(statuses(card.pass(most))).toEqual([STATUS_NO_AGENT])
})

test('G2-5: who has done all in time is not given up, however long it works', () => {
  const made = placed(DDIO_ON)
  const { card } = made
  for (const slot of [0, 1]) write(card, TWO, 1 + slot, OLD, { slot })
  expect(told(made)).toEqual([DURABLE, DURABLE])
  for (let operation = 1; operation < 5; operation++) {
    expect(write(card, ONE, operation, dataOf(64, operation))).toEqual([])
    card.idle()
    expect(statuses(card.pass(FLUSH_TIMEOUT_US / 2))).toEqual([])
    expect(told(made)).toEqual([DURABLE])
  }
})

describe('who does not get what it asked for', () => {
  test('is told so again, when its request comes again', () => {
    for (const begins of [false, true]) {
      const { card, region, qp } = placed(DDIO_ON)
      silent(card, begins ? 1 : 0)
      const frames = persistFrames(qp, region, 0, dataOf(64, 1), { operation: 5, operationHigh: 6 })
      card.serve(...frames)
      const status = begins ? STATUS_IN_DOUBT : STATUS_NO_AGENT
      expect(toldInTime(card)).toEqual([status])
      const again = card.serve(...frames).flatMap(({ paeth }) => (paeth === null ? [] : [paeth]))
      expect(again).toMatchObject([{ status, operationHigh: 6, operationLow: 5, copies: 0 }])
      expect(card.counter(begins ? 'IN_DOUBT' : 'NO_AGENT')).toBe(1)
    }
  })

  test('is nobody where the card alone has something written back', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.provision({ name: 'other', slots: 2, placement: PLACEMENT_THROUGH })
    card.serve()
    tellAgent(card, mad.AGENT_DETACH, made.agent!.queues.sendQueue)
    expect(card.counter('IN_DOUBT')).toBe(0)
    const agent = attachedAgent(card)
    work(card, agent)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait: 1 }))
    expect(told(made, agent)).toEqual([DURABLE])
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2), { wait: 1 }))
    cutPower(made, { random: new Random(1), strategy: 'none' })
    const next = restarted(made)
    believe(next, PLACEMENT_THROUGH)
    const { queues } = attachedAgent(next)
    next.idle()
    tellAgent(next, mad.AGENT_DETACH, queues.sendQueue)
    expect(next.counter('IN_DOUBT')).toBe(0)
  })
})

test('P2-19: the agent is told whose request it is; of the card’s own, nobody’s', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp, agent } = made
  const { host, completions, pair } = agent!.queues
  const sources = (): number[] => {
    for (let i = 0; i < 4; i++) card.idle()
    host.ram.link.arrive()
    return host.poll(completions).flatMap(({ queue, source }) => {
      return queue === pair.receive ? [source] : []
    })
  }
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  expect(told(made)).toEqual([DURABLE])
  sources()
  // The place that the record had is the region's now.
  card.provision({ name: 'other', slots: 2, placement: PLACEMENT_THROUGH })
  expect(sources()).toEqual([0])
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  expect(sources()).toEqual([qp.number])
})

test('P1-12: records of one slot are written as they came, whichever places they have', () => {
  const made = placed(DDIO_ON)
  const { card, agent } = made
  card.provision({ name: 'three', slots: 1, copies: 3, placement: PLACEMENT_THROUGH })
  work(card, agent!)
  const operations: number[] = []
  agent!.onFlushed = ({ operationId }) => operations.push(Number(operationId))
  const bells = (count: number): void => {
    for (let i = 0; i < count; i++) {
      agent!.poll()
      card.idle()
    }
  }
  // The first place is free again last, and the second one before it.
  write(card, TWO, 11, OLD, { region: 'three' })
  write(card, TWO, 12, OLD, { slot: 1 })
  const send = (operation: number): number[] => write(card, ONE, operation, dataOf(64, operation))
  for (const operation of [1, 2]) send(operation)
  bells(2)
  send(3)
  bells(1)
  send(4)
  bells(12)
  expect(operations.filter((one) => one < 11)).toEqual([1, 1, 2, 2, 3, 3, 4, 4])
  expect(card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)).toEqual(dataOf(64, 4))
})

test('P2-25: a place that is free again takes the next record, and be it the first one', () => {
  const { card, region, agent } = placed(DDIO_ON, { slots: THROUGH_JOBS })
  const send = (slot: number): string => {
    const qp = card.connect()
    const { psn } = qp
    return lines(card.serve(...persistFrames(qp, region, slot, dataOf(64, slot))), psn).join()
  }
  const bell = (): void => {
    agent!.poll()
    card.idle()
  }
  send(0)
  bell()
  for (let slot = 1; slot < THROUGH_JOBS; slot++) send(slot)
  expect(send(0)).toContain('NAK')
  bell()
  expect(send(0)).not.toContain('NAK')
})

describe('X-3: what is known of a client', () => {
  test.each([1, 2])('stays known, wherever the power goes as more is noted, draw %i', (seed) => {
    for (let command = 0; ; command++) {
      const made = placed(DDIO_ON)
      const { card, agent } = made
      write(card, ONE, 5, OLD)
      work(card, agent!)
      write(card, ONE, 6, OLD, { slot: 1 })
      agent!.poll()
      card.idle()
      agent!.poll()
      // What is left to be done notes the operation in both of its lines.
      card.machine.armCut(command)
      card.idle()
      const ended = !card.machine.dead
      cutPower(made, { random: new Random(100 * seed + command), strategy: 'half' })
      const next = restarted(made)
      believe(next, PLACEMENT_THROUGH)
      work(next, attachedAgent(next))
      for (const operation of [5, 6]) {
        const slot = operation - 5
        const said = write(next, ONE, operation, OLD, { slot, repetition: true })
        expect(said, `command ${command}`).toEqual([DURABLE])
      }
      if (ended) break
    }
  })

  test.each([0, 1])('stays known behind its lane, and be it by line %i alone', (which) => {
    const made = placed(DDIO_ON)
    const { card } = made
    write(card, ONE, 5, OLD)
    expect(told(made)).toEqual([DURABLE])
    card.idle()
    const { host } = made
    const { durable } = host.part
    const copies = durable.slice()
    cutPower(made, LANES_ONLY)
    // In the host's medium nothing was pending.
    expect(durable).toEqual(copies)
    card.nvdimm.poison(OPERATIONS_AT / LINE_BYTES + which)
    const next = restarted(made)
    believe(next, PLACEMENT_THROUGH)
    work(next, attachedAgent(next))
    expect(write(next, ONE, 5, OLD, { repetition: true })).toEqual([DURABLE])
  })

  test('goes on with it where another record of the client has moved it', () => {
    const made = placed(DDIO_ON)
    const { card } = made
    card.provision({ name: 'local', slots: 4 })
    write(card, ONE, 1, OLD)
    for (const line of [0, 1]) card.nvdimm.refuseWrites(OPERATIONS_AT / LINE_BYTES + line)
    expect(write(card, ONE, 2, OLD, { region: 'local' })).toEqual([DURABLE])
    expect(told(made)).toEqual([DURABLE])
    const again = { repetition: true }
    for (const start of [false, true]) {
      if (start) cutPower(made, { random: new Random(1), strategy: 'none' })
      const next = start ? restarted(made) : card
      if (start) believe(next, PLACEMENT_THROUGH)
      if (start) work(next, attachedAgent(next))
      expect(write(next, ONE, 2, OLD, { region: 'local', ...again })).toEqual([DURABLE])
      expect(write(next, ONE, 1, OLD, again)).toEqual([DURABLE])
    }
  })
})

test('P2-25: and so are all that a region had which is no more', () => {
  const { card, region, agent } = placed(DDIO_ON)
  card.provision({ name: 'other', slots: 2, placement: PLACEMENT_THROUGH })
  work(card, agent!)
  silent(card, 1)
  for (let i = 0; i < THROUGH_JOBS; i++) {
    card.serve(...persistFrames(card.connect(), region, i % 2, dataOf(64, i)))
  }
  const send = (): string => {
    const qp = card.connect()
    const { psn } = qp
    return lines(card.serve(...persistFrames(qp, card.open('other'), 0, NEW)), psn).join()
  }
  expect(send()).toContain('NAK')
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
    body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
  })
  for (let i = 0; i < THROUGH_JOBS; i++) expect(send()).not.toContain('NAK')
  expect(send()).toContain('NAK')
})

describe('X-3: an operation', () => {
  /** A queue pair of the client of that id. */
  function connectAs(card: TestCard, high: number, low: number): TestPeer {
    const body = card.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
      putU32(request, mad.CONNECT_CLIENT_QP, 900)
      putU16(request, mad.CONNECT_PATH_MTU, 4096)
      putU32(request, mad.CONNECT_CLIENT_ID_HIGH, high)
      putU32(request, mad.CONNECT_CLIENT_ID_LOW, low)
    })
    const [number, psn] = [u32(body, mad.CONNECT_QP), u32(body, mad.CONNECT_FIRST_PSN)]
    return { number, peer: 900, mtu: 4096, psn, operation: 0 }
  }

  test('is that of all of its name: both words of its client, and both of its number', () => {
    const made = placed(DDIO_ON)
    const { card, agent } = made
    const asked: bigint[] = []
    agent!.onFlushed = ({ operationId }) => asked.push(operationId)
    const names = [0, 1, 2, 3].map((i) => ({ high: i & 1, operationHigh: i >> 1 }))
    // Nobody else's is taken for it; and its own, when it comes again, is.
    for (const [i, { high, operationHigh }] of names.entries()) {
      const told = [false, true].map((repetition) => {
        const frames = persistFrames(connectAs(card, high, 5), card.open(), 0, dataOf(64, i), {
          ...{ operation: 3, operationHigh, repetition },
        })
        const sent = card.serve(...frames)
        for (let j = 0; j < 12; j++) {
          agent!.poll()
          card.sent = []
          card.idle()
          sent.push(...card.sent)
        }
        const said = sent.flatMap(({ paeth }) => (paeth === null ? [] : [paeth]))
        return said.map((one) => [one.status, one.operationHigh, one.operationLow])
      })
      expect(told).toEqual([0, 1].map(() => [[DURABLE, operationHigh, 3]]))
    }
    const wide = 2n ** 32n + 3n
    expect(asked).toEqual([3n, 3n, 3n, 3n, wide, wide, wide, wide])
    expect(card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)).toEqual(dataOf(64, 3))
  })

  test('that becomes durable elsewhere while it waits is not executed', () => {
    const made = placed(DDIO_ON)
    const { card } = made
    card.provision({ name: 'local', slots: 4 })
    silent(card, 0)
    expect(write(card, ONE, 1, NEW)).toEqual([])
    card.sent = []
    expect(write(card, ONE, 1, NEW, { region: 'local' })).toEqual([DURABLE, DURABLE])
    expect(card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
  })
})

test('X-2: the lane of a record stands, also where nobody had time to clear it before', () => {
  const made = placed(DDIO_ON)
  const { card, agent } = made
  const lane = (FIRST_LANE + BURST_FRAMES) * LINE_BYTES
  for (let seed = 1; seed < 3; seed++) {
    write(card, ONE, seed, dataOf(64, seed))
    expect(card.nvdimm.durable[lane]).not.toBe(0)
    for (let bell = 0; bell < 2; bell++) {
      agent!.poll()
      card.serve()
    }
  }
  card.idle()
  expect(card.nvdimm.live[lane]).toBe(0)
})

test('a region that is made behind such records is blank, in all of its slots', () => {
  const made = placed(DDIO_ON)
  const { card } = made
  write(card, ONE, 1, NEW)
  expect(told(made)).toEqual([DURABLE])
  const wide = card.provision({ name: 'wide', slots: 2, capacity: 4096, flags: FIXED_LENGTH })
  expect(card.read(card.connect(), wide, 1, VIEW_DATA, 4096)).toEqual(new Uint8Array(4096))
})

test('X-1: who is told at level 1 is confirmed, though further copies are on their way', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp, agent } = made
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait: 1 }))
  agent!.poll()
  card.idle()
  const { psn } = qp
  const sent = card.serve(...sendFrames(qp, dataOf(8, 1), { solicited: true }))
  expect(lines(sent, psn)[0]).not.toContain('NAK')
})

describe('what lies behind a record in its place', () => {
  test('is zeros, whatever record had its image before', () => {
    const made = placed(DDIO_ON)
    const { card, host, region, qp } = made
    for (const length of [64, 63, 10]) {
      card.serve(...persistFrames(qp, region, 0, new Uint8Array(length).fill(0xff)))
      expect(told(made)).toEqual([DURABLE])
      for (let c = 0; c < region.copies; c++) {
        const at = HOST_DATA_AT + c * 4096 + LINE_BYTES
        const bytes = host.part.durable.slice(at, at + LINE_BYTES)
        expect(bytes.map((byte) => byte & 1).reduce((sum, bit) => sum + bit)).toBe(length)
      }
    }
  })

  test('is no other record’s, however large both are', () => {
    const { card, host, agent } = throughCaches(1 << 16, 1 << 18)
    const region = card.provision({ slots: 2, capacity: 40000, placement: PLACEMENT_THROUGH })
    work(card, agent)
    const qp = card.connect()
    const both = [0, 1].map((slot) => dataOf(40000, slot))
    card.serve(...both.flatMap((data, slot) => persistFrames(qp, region, slot, data)))
    expect(told({ card, host, region, qp, agent })).toEqual([DURABLE, DURABLE])
    for (const [slot, data] of both.entries()) {
      expect(card.read(qp, region, slot, VIEW_DATA, 4096)).toEqual(data.slice(0, 4096))
    }
  })
})
