/**
 * Records through the host's caches where nearly nobody gets: a medium that refuses lanes and lines
 * of clients, agents whose queues are none, receives that never come, requesters that are gone
 * (source 2, flow 2).
 */

import { describe, expect, test } from 'vitest'
import { DDIO_ON, HostMemory } from '../boards/emulator/host-memory.ts'
import type { Watch } from '../boards/emulator/machine.ts'
import { Nvdimm } from '../boards/emulator/nvdimm.ts'
import { Random } from '../boards/emulator/random.ts'
import { FAULTS } from '../firmware/fault.ts'
import { FENCE } from '../firmware/hal.ts'
import { WQE_RECEIVE } from '../firmware/host/element.ts'
import {
  KIND_COMPLETION,
  KIND_RECEIVE,
  KIND_SEND,
  QUEUE_ERROR,
  TYPE_AGENT,
} from '../firmware/host/queue-info.ts'
import { BURST_FRAMES, FLUSH_TIMEOUT_US, THROUGH_JOBS } from '../firmware/limits.ts'
import { HOST_PROBE_AT, PLACEMENT_THROUGH } from '../firmware/memory/region.ts'
import { LANES_AT } from '../firmware/memory/superblock.ts'
import { VIEW_DATA } from '../firmware/serve/view.ts'
import { putU32, u32 } from '../firmware/wire/bytes.ts'
import * as mad from '../firmware/wire/management.ts'
import type { FlushAgent } from '../host-driver/flush-agent.ts'
import { RawAgentQueues } from './support/agent-host.ts'
import { type Card, dataOf, persistFrames, type Sent } from './support/card.ts'
import { OPERATIONS_AT } from './support/oracle.ts'
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
  work,
} from './support/placed.ts'
import { elementOf } from './support/queue-host.ts'
import { disconnect, lines, sendFrames } from './support/requests.ts'

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
function toldInTime(card: Card): number[] {
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

  test('to clear the lane of another record: the record is written, and that lane rests', () => {
    const host = new HostMemory({ part: new Nvdimm({ bytes: 1 << 15 }), platform: DDIO_ON })
    const card = cardOf(1 << 17, host).format()
    believe(card, PLACEMENT_THROUGH)
    const agent = attachedAgent(card)
    const through = card.provision({ name: 'through', slots: 2, placement: PLACEMENT_THROUGH })
    const local = card.provision({ name: 'local' })
    work(card, agent)
    const qp = card.connect()
    expect(statuses(card.serve(...persistFrames(qp, local, 0, dataOf(64, 1))))).toEqual([DURABLE])
    card.nvdimm.refuseWrites(FIRST_LANE)
    const sent = card.serve(...persistFrames(qp, through, 0, dataOf(64, 2)))
    const later = told({ card, host, region: through, qp, agent })
    expect([...statuses(sent), ...later]).toEqual([DURABLE])
    expect(card.read(qp, through, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
    expect(statuses(card.serve(...persistFrames(qp, local, 1, dataOf(64, 3))))).toEqual([DURABLE])
  })

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
})

describe('who is on its way', () => {
  test('keeps nobody else from a confirmation, and no other record from its readers', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const other = card.connect()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(card.read(other, region, 1, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
    const { psn } = other
    const sent = card.serve(...sendFrames(other, dataOf(8, 1), { solicited: true }))
    expect(lines(sent, psn)[0]).not.toContain('NAK')
    expect(told(made)).toEqual([DURABLE])
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
function silent(card: Card, receives: number): Agent {
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
function attach(card: Card, queue: number): string {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, (body) => {
    body[mad.AGENT_ACTION] = mad.AGENT_ATTACH
    body.set(card.host!.load(HOST_PROBE_AT, 8).bytes!, mad.AGENT_NUMBER_HIGH)
    putU32(body, mad.AGENT_QUEUE, queue)
  }).fault
}

const SEND = 8
const RECEIVE = 9
const COMPLETIONS = 10

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
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const said = [...statuses(sent), ...toldInTime(card)]
    expect(said).toHaveLength(1)
    expect(said).not.toContain(DURABLE)
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

  /** Starts the card; `told` hears the number of each fence before it is done. */
  function started(from: Placed, told: (fence: number) => void = () => {}): [Card, number] {
    let fences = 0
    const watch: Watch = {
      onCommand: (_, op) => {
        if (op === FENCE) told(++fences)
      },
    }
    const card = restarted(from, watch)
    card.machine.observe({})
    return [card, fences]
  }

  function faultOf(card: Card): string {
    return FAULTS[card.status()[mad.PART_FAULT]!]!.name
  }

  test('with what is left of the making of a region: the next one makes it', () => {
    const [, usual] = started(interrupted(0)!)
    let tried = 0
    for (let command = 1; tried === 0; command++) {
      const [, fences] = started(interrupted(command)!)
      if (fences === usual) continue
      tried += 1
      const made = interrupted(command)!
      const [card] = started(made, (fence) => {
        if (fence === fences) made.card.nvdimm.fencesToFail = 1
      })
      expect(faultOf(card)).toBe('FLUSH')
      card.machine.die()
      const [next] = started(made)
      expect(faultOf(next)).toBe('PASS')
      believe(next, PLACEMENT_THROUGH)
      const agent = attachedAgent(next)
      work(next, agent)
      const region = next.provision(second)
      const qp = next.connect()
      next.serve(...persistFrames(qp, region, 1, dataOf(64, 1)))
      work(next, agent)
      expect(next.read(qp, region, 1, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
      expect(next.read(qp, region, 0, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
    }
  })

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
    expect(silent.status()[mad.PART_STATE]).not.toBe(mad.STATE_SERVING)
    expect(silent.tryProvision().fault).toBe('NOT_SERVING')
    silent.machine.die()
    const next = restarted(made)
    expect(faultOf(next)).toBe('PASS')
    const found = next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)
    expect([dataOf(64, 1), dataOf(64, 2)]).toContainEqual(found)
  })
})
