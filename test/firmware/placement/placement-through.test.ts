/**
 * Placement through: records in the host's memory, through its caches, durable when its CPU has
 * written them back (source 2, flow 2; S1001 to S1019).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { FENCE, TRANSMIT } from '../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  FLUSH_BYTES_MAX,
  FLUSH_TIMEOUT_US,
  LANES,
  THROUGH_JOBS,
} from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { QUEUE_ERROR } from '../../../firmware/host/queue-info.ts'
import { HOST_DATA_AT, HOST_PROBE_AT, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { RNR_TIMER_US } from '../../../firmware/wire/aeth.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  RC_READ_RESPONSE_ONLY,
  RC_SEND_ONLY,
  UD_SEND_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { MECHANISM_CPU_FLUSH } from '../../../firmware/wire/persist-ack.ts'
import type { AgentQueues, FlushAgent } from '../../../host-driver/target/flush-agent.ts'
import { batchFrames } from '../../support/cards/batch-card.ts'
import { drawNumber } from '../../support/cards/draws.ts'
import {
  Agent,
  attachedAgent,
  believe,
  type Crash,
  cutPower,
  explorePlaced,
  hostSideOf,
  type Placed,
  placed,
  queueHostOf,
  restarted,
  type Scenario,
  SEED,
  tellAgent,
  throughCaches,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  ACK,
  atomicWriteFrame,
  disconnect,
  flushFrame,
  lines,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

const DURABLE = 0
/** RNR NAKs with timer codes 2 and 12: 0.02 and 0.64 ms. */
const RNR_SOON = 0x22
const RNR_LATEST = 0x2c
const STATUS_IN_DOUBT = 0x8f
const STATUS_PLACEMENT_UNKNOWN = 0x90
const STATUS_NO_AGENT = 0x91
const STATUS_NOT_ARMED = 0x85

type Paeth = NonNullable<Sent['paeth']>

function acks(sent: readonly Sent[]): Paeth[] {
  return sent.flatMap(({ paeth }) => (paeth === null ? [] : [paeth]))
}

function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

/** Everything that the card sends while it and the agent work. */
function sentWhileWorking(made: Placed, agent: FlushAgent = made.agent!): Sent[] {
  const all: Sent[] = []
  const { card } = made
  for (let i = 0; i < 12; i++) {
    agent.poll()
    card.sent = []
    card.idle()
    all.push(...card.sent)
  }
  return all
}

/** Lets time go by until the card has given an agent up that does nothing. */
function waitForTimeout({ card }: Placed): Sent[] {
  const all: Sent[] = []
  for (let i = 0; i < 3; i++) {
    card.sent = []
    card.now += FLUSH_TIMEOUT_US
    card.idle()
    all.push(...card.sent)
  }
  return all
}

describe('a record through the host’s caches', () => {
  test('is written, acknowledged, read, and read again after a restart', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const data = dataOf(64, 1)
    card.serve(...persistFrames(qp, region, 1, data))
    const ranges = acks(sentWhileWorking(made))
    expect(ranges.map(({ status, copies }) => [status, copies])).toEqual([[DURABLE, 2]])
    expect(card.read(qp, region, 1, VIEW_DATA, 64)).toEqual(data)
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const next = restarted(made)
    expect(next.read(next.connect(), next.open(), 1, VIEW_DATA, 64)).toEqual(data)
  })

  test('P2-21, P2-28: the receive-ACK leaves at once, the persist-ACK behind the last bell', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const { psn } = qp
    const first = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(first.map(({ opcode, psn: said }) => [opcode, said])).toEqual([[RC_ACKNOWLEDGE, psn]])
    const later = sentWhileWorking(made)
    expect(later.map(({ opcode }) => opcode)).toEqual([PERSIST_ACK])
    expect(acks(later)[0]).toMatchObject({ firstPsn: psn, lastPsn: psn })
  })

  test('X-1: a confirmation waits for the CPU, and so does FLUSH', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const [send] = sendFrames(qp, dataOf(8, 1), { solicited: true })
    expect(card.serve(send!).map(({ syndrome }) => syndrome)).toEqual([RNR_SOON])
    expect(acks(sentWhileWorking(made)).map(({ status }) => status)).toEqual([DURABLE])
    expect(card.serve(send!).map(({ opcode }) => opcode)).toContain(RC_SEND_ONLY)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
    const flush = flushFrame(qp, region)
    expect(card.serve(flush).map(({ syndrome }) => syndrome)).toEqual([RNR_SOON])
    work(card, made.agent!)
    expect(card.serve(flush).map(({ opcode }) => opcode)).toEqual([RC_READ_RESPONSE_ONLY])
  })

  test('P2-24: the persist-ACK says that the CPU made it durable, and says so again', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const frames = persistFrames(qp, region, 0, dataOf(64, 1))
    card.serve(...frames)
    expect(acks(sentWhileWorking(made)).map((ack) => ack.mechanism)).toEqual([MECHANISM_CPU_FLUSH])
    expect(acks(card.serve(...frames)).map((ack) => ack.mechanism)).toEqual([MECHANISM_CPU_FLUSH])
  })

  test('P2-17, P2-18, P2-19, P2-20: the agent is told PSN, operation and place', () => {
    const made = placed(DDIO_ON, { copies: 3 })
    const { card, host, region, qp, agent } = made
    const told: unknown[] = []
    agent!.onFlushed = ({ psn, operationId, address, length }) => {
      const bytes = host.part.live.slice(address + 64, address + length)
      told.push([psn, operationId, same(bytes, dataOf(64, 1)), length])
    }
    const { psn } = qp
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { operation: 77 }))
    work(card, agent!)
    expect(told).toEqual(new Array(3).fill([psn, 77n, true, 128]))
  })

  test('P2-27: the next request is taken before the first is durable', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const psns: number[] = []
    for (const [slot, wait] of [
      [0, 2],
      [1, 1],
    ] as const) {
      psns.push(qp.psn)
      const sent = card.serve(...persistFrames(qp, region, slot, dataOf(64, slot), { wait }))
      expect(sent.map(({ opcode }) => opcode)).toEqual([RC_ACKNOWLEDGE])
    }
    const order = acks(sentWhileWorking(made)).map(({ firstPsn }) => firstPsn)
    expect(order).toEqual([psns[1], psns[0]])
  })

  test('P1-12: one record twice: the second begins when the first is durable in every copy', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    const frames = [1, 2, 3].flatMap((seed) =>
      persistFrames(qp, region, 0, dataOf(64, seed), { operation: seed }),
    )
    card.serve(...frames)
    const operations: number[] = []
    agent!.onFlushed = ({ operationId }) => operations.push(Number(operationId))
    const ranges = acks(sentWhileWorking(made))
    expect(ranges.map(({ operationLow }) => operationLow)).toEqual([1, 2, 3])
    expect(operations).toEqual([1, 1, 2, 2, 3, 3])
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 3))
  })

  test('I6: a reader sees the old record until the first copy is durable', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    work(card, agent!)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
    agent!.poll()
    card.idle()
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const next = restarted(made)
    expect(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
  })

  test('X-3: an operation that comes again by another connection is not written again', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { operation: 5 }))
    // On its way, and durable.
    for (const flushed of [4, 2]) {
      const other = card.connect()
      card.serve(...persistFrames(other, region, 0, dataOf(64, 1), { operation: 5 }))
      const before = agent!.finished
      work(card, agent!)
      expect(agent!.finished - before).toBeLessThan(flushed)
    }
    expect(agent!.finished).toBe(1 + 2)
  })
})

/** An agent that is attached, and has posted no RECEIVE. */
function silentAgent(card: TestCard): Agent {
  const queues = new RawAgentQueues(queueHostOf(card))
  const agent = new Agent(card, queues, hostSideOf(card), over(queues, { postReceives: () => {} }))
  const answer = tellAgent(card, mad.AGENT_ATTACH, queues.sendQueue)
  agent.begin(u32(answer, mad.AGENT_FIRST_REQUEST))
  return agent
}

/** The queues, except for what is given. */
function over(queues: RawAgentQueues, instead: Partial<AgentQueues>): AgentQueues {
  return {
    sendQueue: queues.sendQueue,
    postReceives: () => queues.postReceives(),
    takeRequests: () => queues.takeRequests(),
    postFinished: (number) => queues.postFinished(number),
    ...instead,
  }
}

describe('P2-17, P2-25: receives', () => {
  test('P2-17: without a receive nothing is asked, and the record waits for one', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    // An agent that is there, and has posted none.
    const agent = silentAgent(card)
    let asked = 0
    agent.onFlushed = () => {
      asked += 1
    }
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(sent.map(({ opcode }) => opcode)).toEqual([RC_ACKNOWLEDGE])
    for (let i = 0; i < 10; i++) card.idle()
    expect(agent.queues.takeRequests()).toEqual([])
    agent.queues.postReceives()
    expect(acks(sentWhileWorking(made, agent)).map(({ status }) => status)).toEqual([DURABLE])
    expect(asked).toBe(2)
  })

  test('a record that waits for a receive for too long is refused, and has changed nothing', () => {
    const made = placed(DDIO_ON)
    const { card, host, region, qp } = made
    silentAgent(card)
    const before = host.part.live.slice(HOST_DATA_AT)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(acks(waitForTimeout(made)).map(({ status }) => status)).toEqual([STATUS_NO_AGENT])
    expect(same(host.part.live.slice(HOST_DATA_AT), before)).toBe(true)
  })

  test('one behind others of its slot waits as long as the agent goes on with those', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    const count = 4
    for (let i = 0; i < count; i++) card.serve(...persistFrames(qp, region, 0, dataOf(64, i)))
    const said: number[] = []
    // Two bells each: the last one has waited for three seconds when its turn comes.
    for (let bell = 0; bell < 2 * count; bell++) {
      card.sent = []
      card.now += FLUSH_TIMEOUT_US - 1000
      card.idle()
      agent!.poll()
      card.idle()
      said.push(...acks(card.sent).map(({ status }) => status))
    }
    expect(said).toEqual(Array(count).fill(DURABLE))
    expect(card.read(card.connect(), region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, count - 1))
  })

  test('G2-5: those behind one that waits for a receive are refused with it', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    silentAgent(card)
    for (let i = 0; i < 3; i++) card.serve(...persistFrames(qp, region, 0, dataOf(64, i)))
    card.idle()
    card.sent = []
    card.now += FLUSH_TIMEOUT_US
    card.idle()
    const said = acks(card.sent).map(({ status }) => status)
    expect(said).toEqual([STATUS_NO_AGENT, STATUS_NO_AGENT, STATUS_NO_AGENT])
  })

  test('P2-25: more records than jobs draw one RNR NAK, and are taken when they come again', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const frames = Array.from({ length: THROUGH_JOBS + 3 }, (_, i) =>
      persistFrames(qp, region, i % 2, dataOf(64, i)),
    )
    const sent = card.serve(...frames.flat())
    const naks = sent.filter(
      ({ opcode, syndrome }) => opcode === RC_ACKNOWLEDGE && syndrome !== ACK,
    )
    expect(naks.map(({ syndrome }) => syndrome)).toEqual([RNR_SOON])
    const durable = (from: readonly Sent[]): number =>
      acks(from).filter(({ status }) => status === DURABLE).length
    const first = [...sent, ...sentWhileWorking(made), ...sentWhileWorking(made)]
    expect(durable(first)).toBe(THROUGH_JOBS)
    const again = card.serve(...frames.slice(THROUGH_JOBS).flat())
    expect(durable([...again, ...sentWhileWorking(made)])).toBe(3)
  })

  test('P2-25: an RNR NAK asks for a quarter of what the oldest job has taken so far', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    const frames = Array.from({ length: THROUGH_JOBS + 1 }, (_, i) =>
      persistFrames(qp, region, i % 2, dataOf(64, i)),
    ).flat()
    const began = card.now + 10
    card.serve(...frames)
    const again = (): number => card.serve(frames.at(-1)!).at(-1)!.syndrome!
    let before = RNR_SOON
    for (const us of [20, 90, 120, 400, 1000, 2000, 3000, 100_000]) {
      card.now = began + us - 10
      const syndrome = again()
      expect(syndrome & 0xe0).toBe(0x20)
      // That time, or the next one below it, from 0.02 ms to 0.64 ms.
      const code = syndrome & 0x1f
      expect(RNR_TIMER_US[code]!).toBeLessThanOrEqual(Math.max(20, us / 4))
      if (syndrome < RNR_LATEST) expect(RNR_TIMER_US[code + 1]!).toBeGreaterThan(us / 4)
      expect(syndrome).toBeGreaterThanOrEqual(before)
      before = syndrome
    }
    expect(before).toBe(RNR_LATEST)
    // Those that come behind them are new ones, and are asked for soon again.
    work(card, agent!)
    expect(acks(card.serve(frames.at(-1)!)).length).toBe(0)
    work(card, agent!)
    const more = Array.from({ length: THROUGH_JOBS + 1 }, (_, i) =>
      persistFrames(qp, region, i % 2, dataOf(64, i)),
    ).flat()
    expect(card.serve(...more).some(({ syndrome }) => syndrome === RNR_SOON)).toBe(true)
  })
})

test('P2-23: the SEND of the agent completes behind the PERSIST_ACK that it has earned', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp, agent } = made
  const { queues } = agent!
  queues.takeRequests()
  queues.others.length = 0
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait: 1 }))
  const completions = (): number[] => {
    agent!.poll()
    const sends = queues.others.filter(({ queue }) => queue === queues.sendQueue)
    return sends.map(({ immediate }) => immediate)
  }
  agent!.poll()
  card.sent = []
  card.idle()
  expect(acks(card.sent).map(({ status }) => status)).toEqual([DURABLE])
  expect(completions()).toEqual([])
  card.idle()
  expect(completions()).toHaveLength(1)
})

test('a region is written back in pieces, none of which takes the agent long', () => {
  const { card, agent } = throughCaches(1 << 16, 3 * FLUSH_BYTES_MAX)
  const lengths: number[] = []
  agent.onFlushed = ({ address, length }) => {
    const asked = lengths.reduce((sum, one) => sum + one, 0)
    expect(address).toBe(HOST_DATA_AT + asked)
    lengths.push(length)
  }
  const region = card.provision({ slots: 4000, capacity: 1000, placement: PLACEMENT_THROUGH })
  work(card, agent)
  const whole = 2 * Math.ceil((4000 * region.stride) / 4096) * 4096
  expect(lengths).toEqual([FLUSH_BYTES_MAX, FLUSH_BYTES_MAX, whole - 2 * FLUSH_BYTES_MAX])
})

test('a call to attach that comes again, late, does not replace the agent that came since', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp } = made
  const { sendQueue } = new RawAgentQueues(queueHostOf(card))
  const attach = (transactionLow: number): Uint8Array => {
    const payload = new Uint8Array(mad.MAD_BYTES)
    const method = mad.METHOD_SET
    const attribute = mad.ATTRIBUTE_AGENT
    mad.writeMad(payload, 0, { ...mad.blankMad(), method, attribute, transactionLow })
    payload[mad.MAD_BODY + mad.AGENT_ACTION] = mad.AGENT_ATTACH
    const number = card.host!.load(HOST_PROBE_AT, 8).bytes!
    payload.set(number, mad.MAD_BODY + mad.AGENT_NUMBER_HIGH)
    putU32(payload, mad.MAD_BODY + mad.AGENT_QUEUE, sendQueue)
    const bth = { opcode: UD_SEND_ONLY, destQp: 1 }
    return frameOf({ bth, deth: { qkey: Q_KEY_GSI, sourceQp: 1 }, payload })
  }
  const first = (frame: Uint8Array): number => {
    const [answer] = card.serve(frame)
    return u32(answer!.payload, mad.MAD_BODY + mad.AGENT_FIRST_REQUEST)
  }
  expect([first(attach(70_001)), first(attach(70_001))]).toEqual([2, 2])
  // What was asked meanwhile is behind it; a call that attached again would say so.
  const agent = attachedAgent(card)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  expect(first(attach(70_001))).toBe(2)
  expect(acks(sentWhileWorking(made, agent)).map(({ status }) => status)).toEqual([DURABLE])
})

describe('a region that is being made through the caches', () => {
  const young = { name: 'young', slots: 4, placement: PLACEMENT_THROUGH }

  /** Status by which the card refuses every write into it; 0 if by none. */
  function refusalOf({ card }: Placed): number {
    return card.must(mad.METHOD_GET, mad.ATTRIBUTE_REGION, undefined, 1)[mad.REGION_REFUSES]!
  }

  test.each(['persist', 'plain WRITE', 'batch'])('has a %s wait until it is', (how) => {
    const made = placed(DDIO_ON)
    const { card, agent } = made
    const qp = card.connect()
    const region = card.provision(young)
    const { psn } = qp
    const frames =
      how === 'persist'
        ? persistFrames(qp, region, 0, dataOf(64, 1))
        : how === 'batch'
          ? batchFrames(qp, region, [{ slot: 0, data: dataOf(64, 1) }])
          : writeFrames(qp, region, 0, dataOf(64, 1))
    // It is not refused, and says so.
    expect(refusalOf(made)).toBe(0)
    expect(lines(card.serve(...frames), psn)).toEqual(['NAK 0x22 0'])
    card.now += 100_000
    expect(lines(card.serve(...frames), psn)).toEqual(['NAK 0x2c 0'])
    work(card, agent!)
    card.serve(...frames)
    work(card, agent!)
    if (how === 'plain WRITE') card.serve(...frames)
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const again = restarted(made)
    const found = again.read(again.connect(), again.open('young'), 0, VIEW_DATA, 64)
    expect(found).toEqual(dataOf(64, 1))
  })

  test('refuses what there is something else against', () => {
    const made = placed(DDIO_ON)
    const { card } = made
    const qp = card.connect()
    const region = card.provision(young)
    card.nvdimm.armed = false
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(acks(sent).map(({ status }) => status)).toEqual([STATUS_NOT_ARMED])
  })

  test('whose agent goes meanwhile says so', () => {
    const made = placed(DDIO_ON)
    const { card } = made
    const qp = card.connect()
    const region = card.provision(young)
    waitForTimeout(made)
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(acks(sent).map(({ status }) => status)).toEqual([STATUS_NO_AGENT])
  })
})

test('G2-5: where every job waits for an agent that is gone, a record is refused by status', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp } = made
  for (let i = 0; i < THROUGH_JOBS; i++) {
    card.serve(...persistFrames(qp, region, i % 4, dataOf(64, i)))
  }
  waitForTimeout(made)
  const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  expect(acks(sent).map(({ status }) => status)).toEqual([STATUS_NO_AGENT])
})

describe('G2-5: without an agent there is no persist-ACK', () => {
  test('a region through the caches is not made, and not written, without one', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    const number = { name: 'other', placement: PLACEMENT_THROUGH }
    expect(card.tryProvision(number).fault).toBe('PASS')
    work(card, made.agent!)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    waitForTimeout(made)
    expect(card.tryProvision({ ...number, name: 'third' }).fault).toBe('NO_AGENT')
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
    expect(acks(sent).map(({ status }) => status)).toEqual([STATUS_NO_AGENT])
  })

  /** The agent dies at its `step`: it takes its completions, cleans, fences, posts its SEND. */
  function mortal(made: Placed, step: string): Agent {
    const side = hostSideOf(made.card)
    let dead = false
    const dying =
      <T extends unknown[]>(name: string, act: (...args: T) => void) =>
      (...args: T): void => {
        if (name === step) dead = true
        if (!dead) act(...args)
      }
    const { queues } = made.agent!
    const memory = { ...side, clean: dying('clean', side.clean), fence: dying('fence', side.fence) }
    const mortalQueues = over(queues, {
      takeRequests: () => (step === 'take' ? [] : queues.takeRequests()),
      postFinished: (number) => {
        dying('send', () => queues.postFinished(number))()
        return true
      },
    })
    const agent = new Agent(made.card, queues, memory, mortalQueues)
    Object.assign(agent, { next: (made.agent as never as { next: number }).next, isAttached: true })
    return agent
  }

  for (const step of ['take', 'clean', 'fence', 'send']) {
    test(`the agent dies at its ${step}: in doubt after a bounded time, never acknowledged`, () => {
      const made = placed(DDIO_ON)
      const { card, region, qp } = made
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
      work(card, made.agent!)
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 2), { wait: 1 }))
      const agent = mortal(made, step)
      const quiet = sentWhileWorking(made, agent)
      expect(acks(quiet)).toEqual([])
      const told = acks(waitForTimeout(made))
      expect(told.map(({ status, copies }) => [status, copies])).toEqual([[STATUS_IN_DOUBT, 0]])
      // The host lives on, or loses power: the record is one of the two.
      cutPower(made, { random: new Random(SEED) })
      const next = restarted(made)
      const found = next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)!
      expect(same(found, dataOf(64, 1)) || same(found, dataOf(64, 2))).toBe(true)
    })
  }

  test('an agent that comes after it finishes what was begun, and new records are taken', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(acks(waitForTimeout(made)).map(({ status }) => status)).toEqual([STATUS_IN_DOUBT])
    const agent = attachedAgent(card)
    expect(acks(sentWhileWorking(made, agent))).toEqual([])
    expect(agent.finished).toBe(2)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
    expect(acks(sentWhileWorking(made, agent)).map(({ status }) => status)).toEqual([DURABLE])
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
  })

  test('H1: a SEND that goes back is passed over and counted', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    for (const number of [2 ** 32 - 1, 2 ** 32 - 100]) {
      made.agent!.queues.postFinished(number)
      card.sent = []
      for (let i = 0; i < 5; i++) card.idle()
      expect(card.sent).toEqual([])
    }
    expect(card.counter('BELL')).toBe(2)
    expect(acks(sentWhileWorking(made)).map(({ status }) => status)).toEqual([DURABLE])
  })

  test('H1: a SEND for what was not asked ends agent and queue, and is not believed later', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const asked = made.agent!.finished + 1
    const { queues } = made.agent!
    queues.postFinished(asked + 2)
    card.sent = []
    for (let i = 0; i < 5; i++) card.idle()
    expect(acks(card.sent).map(({ status }) => status)).toEqual([STATUS_IN_DOUBT])
    expect(card.counter('BELL')).toBe(1)
    expect(queues.zone1()).toMatchObject({ state: QUEUE_ERROR, fault: 'BELL' })
    // The next agent is asked with the number that this one has named.
    const agent = attachedAgent(card)
    card.sent = []
    for (let i = 0; i < 5; i++) card.idle()
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
    work(card, agent)
    expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
  })

  test('what was asked of an earlier agent, over the same queues, is asked again', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const { queues } = made.agent!
    // The first request waits in the completion queue when the second agent attaches.
    const agent = attachedAgent(card, queues)
    const told: number[] = []
    agent.onFlushed = ({ number }) => told.push(number)
    expect(acks(sentWhileWorking(made, agent)).map(({ status }) => status)).toEqual([DURABLE])
    expect(told).toEqual([3, 4])
  })

  test('the SEND of an agent that was replaced earns nothing, and ends its queue', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait: 1 }))
    const old = made.agent!
    const agent = attachedAgent(card)
    // The old one flushes nothing any more, and still says that it has.
    Object.assign(old, { memory: { ...hostSideOf(card), clean: () => {}, fence: () => {} } })
    old.poll()
    card.sent = []
    for (let i = 0; i < 5; i++) card.idle()
    expect(acks(card.sent)).toEqual([])
    expect(old.queues.zone1()).toMatchObject({ state: QUEUE_ERROR, fault: 'NO_AGENT' })
    expect(acks(sentWhileWorking(made, agent)).map(({ status }) => status)).toEqual([DURABLE])
  })
})

/** The record of a part is overwritten by one that is like it. */
function overwrite(
  shape: {
    readonly wait?: number
    readonly copies?: number
    /** What becomes of the agent's side before the second write. */
    readonly change?: (made: Placed) => Agent
  } = {},
): { scenario: Scenario; judge: (crash: Crash) => void; complaints: string[] } {
  const { wait = 2, copies = 2, change } = shape
  const old = dataOf(64, 1)
  const next = old.slice()
  next.set(dataOf(16, 2), 24)
  const complaints: string[] = []
  let agent: Agent
  const scenario: Scenario = {
    begin: () => {
      const made = placed(DDIO_ON, { copies })
      made.card.serve(...persistFrames(made.qp, made.region, 0, old))
      work(made.card, made.agent!)
      agent = change?.(made) ?? made.agent!
      return made
    },
    during: ({ region, qp }, card) => {
      card.serve(...persistFrames(qp, region, 0, next, { wait }))
      if (!card.machine.dead) work(card, agent)
    },
  }
  const judge = ({ image, sent, card }: Crash): void => {
    const acknowledged = acks(sent).some(({ status }) => status === DURABLE)
    const found = card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)
    const is =
      found === null ? 'lost' : same(found, next) ? 'new' : same(found, old) ? 'old' : 'torn'
    if (is === 'new' || (is === 'old' && !acknowledged)) return
    complaints.push(`${image}: ${is}${acknowledged ? ', acknowledged' : ''}`)
  }
  return { scenario, judge, complaints }
}

describe('X-2: a cut at every command', () => {
  for (const [wait, copies] of [
    [1, 2],
    [2, 2],
    [2, 3],
  ] as const) {
    test(
      `leaves the record old or new, and new once acknowledged, at ${wait}of${copies}`,
      THOROUGH,
      () => {
        const { scenario, judge, complaints } = overwrite({ wait, copies })
        const images = explorePlaced(scenario, judge)
        expect(complaints.slice(0, 5)).toEqual([])
        expect(images).toBeGreaterThan(500)
      },
    )
  }

  test('P2-20: without the CPU’s write-back what is acknowledged may be gone', THOROUGH, () => {
    for (const missing of ['clean', 'fence'] as const) {
      const change = (made: Placed): Agent => {
        Object.assign(made.agent!, { memory: { ...hostSideOf(made.card), [missing]: () => {} } })
        return made.agent!
      }
      const { scenario, judge, complaints } = overwrite({ wait: 1, change })
      explorePlaced(scenario, judge, () => complaints.length > 0)
      expect(complaints[0], missing).toMatch(/lost|torn|old, acknowledged/)
    }
  })

  test(
    'of the start, too: a lane stays until the agent has written back what was repaired',
    THOROUGH,
    () => {
      const { scenario } = overwrite()
      const random = new Random(SEED)
      let repaired = 0
      const cutBefore = (command: number): void => {
        const made = scenario.begin()
        made.card.machine.armCut(command)
        scenario.during(made, made.card)
        if (!made.card.machine.dead) return
        cutPower(made, { random })
        const first = restarted(made)
        if (first.host!.part.pendingStores.count > 0) repaired += 1
        const read = (card: typeof first): Uint8Array =>
          card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)!
        const found = read(first)
        // Nobody has written it back: a cut may take any part of the repair away again.
        cutPower({ card: first, host: first.host! }, { random })
        const second = restarted(made)
        expect(read(second), `command ${command}, SEED=${SEED}`).toEqual(found)
        believe(second, PLACEMENT_THROUGH)
        const agent = attachedAgent(second)
        work(second, agent)
        second.idle()
        const lanes = second.nvdimm.live.slice(LANES_AT, LANES_AT + LANES * 64)
        expect(lanes.every((byte) => byte === 0)).toBe(true)
        cutPower({ card: second, host: second.host! }, { random, strategy: 'none' })
        expect(read(restarted(made))).toEqual(found)
      }
      for (let command = 0; command < 24; command++) {
        for (let round = 0; round < 12; round++) withPassingCards(() => cutBefore(command))
      }
      expect(repaired).toBeGreaterThan(10)
    },
  )

  test('of the making of a region: it is absent, or whole once records are taken', () => {
    for (let command = 0; ; command++) {
      const made = placed(DDIO_ON)
      const { card } = made
      card.machine.armCut(command)
      const asked = (): void => {
        card.tryProvision({ name: 'second', slots: 2, placement: PLACEMENT_THROUGH })
        if (!card.machine.dead) work(card, made.agent!)
      }
      try {
        asked()
      } catch {
        // The control call was not answered: the power is gone.
      }
      const ended = !card.machine.dead
      cutPower(made, { random: new Random(SEED + command) })
      const next = restarted(made)
      believe(next, PLACEMENT_THROUGH)
      const agent = attachedAgent(next)
      work(next, agent)
      const shape = { name: 'second', slots: 2, placement: PLACEMENT_THROUGH }
      const region = next.provision(shape)
      work(next, agent)
      const qp = next.connect()
      next.serve(...persistFrames(qp, region, 1, dataOf(64, 1)))
      work(next, agent)
      expect(next.read(qp, region, 1, VIEW_DATA, 64), `command ${command}`).toEqual(dataOf(64, 1))
      expect(next.read(qp, region, 0, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
      if (ended) return
    }
  })
})

test('P2-21: no persist-ACK stands in a list before the SEND, whatever the level', () => {
  for (const wait of [1, 2]) {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    let bells = 0
    const seen: number[] = []
    const { queues } = made.agent!
    Object.assign(made.agent!, {
      pair: over(queues, {
        postFinished: (number) => {
          bells += 1
          return queues.postFinished(number)
        },
      }),
    })
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait }))
    card.machine.observe({
      onCommand: (_, op) => {
        if (op === TRANSMIT) seen.push(bells)
      },
    })
    work(card, made.agent!)
    expect(seen).toEqual([wait])
  }
})

describe('D-13: a part that does not fence', () => {
  for (const reason of ['flush', 'energy'] as const) {
    test(`${reason}: no record is acknowledged behind a fence that failed, at any of them`, () => {
      const seen: string[] = []
      for (let fence = 0; fence < 5; fence++) {
        const made = placed(DDIO_ON)
        const { card, region, qp, agent } = made
        card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
        work(card, agent!)
        let fences = 0
        card.machine.observe({
          onCommand: (_, op) => {
            if (op !== FENCE || fences++ !== fence) return
            if (reason === 'flush') card.nvdimm.fencesToFail = 1
            else card.nvdimm.armed = false
          },
        })
        const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
        sent.push(...sentWhileWorking(made))
        card.machine.observe({})
        expect(fences > fence, `fence ${fence}`).toBe(fence < 4)
        seen.push(
          acks(sent)
            .map(({ status }) => status.toString(16))
            .join(),
        )
        cutPower(made, { random: new Random(SEED + fence) })
        card.nvdimm.armed = true
        const next = restarted(made)
        const found = next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)!
        const isNew = same(found, dataOf(64, 2))
        expect(isNew || same(found, dataOf(64, 1)), `fence ${fence}`).toBe(true)
        if (seen.at(-1) === '0') expect(isNew).toBe(true)
      }
      // Behind the lane nothing was touched. Behind the phase, and behind each of the two lines of
      // the client, nobody knows. A record has no fifth fence: then none has failed.
      expect(seen).toEqual([reason === 'flush' ? '8e' : '85', '8f', '8f', '8f', '0'])
    })
  }
})

test('P1-11: a lane that takes nothing refuses its record, and the next one has another', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp } = made
  card.nvdimm.refuseWrites((LANES_AT + 32 * 64) / 64)
  const statuses: number[] = []
  for (let seed = 1; seed <= 2; seed++) {
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, seed)))
    statuses.push(...acks([...sent, ...sentWhileWorking(made)]).map(({ status }) => status))
  }
  expect(statuses).toEqual([0x81, DURABLE])
  expect(card.read(qp, region, 0, VIEW_DATA, 64)).toEqual(dataOf(64, 2))
})

test('P1-24: after a save that failed all is scanned, and again until it was written back', () => {
  const made = placed(DDIO_ON)
  const { card, host, region, qp, agent } = made
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  work(card, agent!)
  cutPower(made, { random: new Random(SEED), strategy: 'none' })
  card.nvdimm.dirtyShutdowns += 1
  // The second copy of the record is gone.
  host.part.live.fill(7, HOST_DATA_AT + 4096, HOST_DATA_AT + 4096 + 128)
  host.part.durable.set(host.part.live)
  for (let start = 0; start < 3; start++) {
    const next = restarted(made)
    const status = next.status()
    expect(u32(status, mad.PART_SCANNED)).toBe(2)
    expect(u32(status, mad.PART_REPAIRED)).toBe(1)
    expect(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
    cutPower({ card: next, host: next.host! }, { random: new Random(SEED), strategy: 'none' })
  }
  const last = restarted(made)
  believe(last, PLACEMENT_THROUGH)
  const served = attachedAgent(last)
  work(last, served)
  last.serve(...persistFrames(last.connect(), last.open(), 1, dataOf(64, 3)))
  work(last, served)
  cutPower({ card: last, host: last.host! }, { random: new Random(SEED), strategy: 'none' })
  const status = restarted(made).status()
  expect([u32(status, mad.PART_SCANNED), u32(status, mad.PART_REPAIRED)]).toEqual([0, 0])
})

describe('what the host’s CPU has not made durable yet', () => {
  /** A card that has the region, one of its own, and bytes of its own. */
  function mixed() {
    const { card, host, agent } = throughCaches(1 << 17)
    const through = card.provision({ name: 'through', slots: 2, placement: PLACEMENT_THROUGH })
    const local = card.provision({ name: 'local' })
    const shape = { kind: mad.KIND_BYTES, length: 4096 }
    const bytes = card.provision({ name: 'bytes', ...shape })
    const cached = card.provision({ name: 'cached', ...shape, placement: PLACEMENT_THROUGH })
    work(card, agent)
    const made: Placed = { card, host, region: through, qp: card.connect(), agent }
    return { ...made, made, through, local, bytes, cached }
  }

  test('X-1: no range of acknowledged local records spans one that waits for the host', () => {
    const { card, made, qp, local, through } = mixed()
    const { psn } = qp
    const sent = card.serve(
      ...persistFrames(qp, local, 0, dataOf(64, 1)),
      ...persistFrames(qp, through, 0, dataOf(64, 2)),
      ...persistFrames(qp, local, 1, dataOf(64, 3)),
    )
    const ranges = [...acks(sent), ...acks(sentWhileWorking(made))]
    expect(ranges.map((ack) => [ack.firstPsn - psn, ack.lastPsn - psn])).toEqual([
      [0, 0],
      [2, 2],
      [1, 1],
    ])
  })

  test('a persistent FLUSH draws RNR NAKs until the records of its connection are durable', () => {
    const { card, qp, through, bytes, agent } = mixed()
    card.serve(...persistFrames(qp, through, 0, dataOf(64, 1)))
    const { psn } = qp
    const flush = flushFrame(qp, bytes, { selectivity: 1 })
    expect(lines(card.serve(flush), psn)).toEqual(['NAK 0x22 0'])
    work(card, agent!)
    expect(card.serve(flush).map(({ opcode }) => opcode)).toEqual([RC_READ_RESPONSE_ONLY])
  })

  test('nor is a solicited message confirmed before', () => {
    const { card, qp, through, agent } = mixed()
    card.serve(...persistFrames(qp, through, 0, dataOf(64, 1)))
    const { psn } = qp
    const frames = sendFrames(qp, dataOf(8, 1), { solicited: true })
    expect(lines(card.serve(...frames), psn)).toEqual(['NAK 0x22 0'])
    work(card, agent!)
    expect(card.serve(...frames).map(({ opcode }) => opcode)).toContain(RC_SEND_ONLY)
  })

  test('bytes that lie in the host’s cache are not confirmed before a FLUSH: NAK 0x63', () => {
    for (const atomic of [false, true]) {
      const { card, qp, cached } = mixed()
      const { psn } = qp
      const stored = atomic
        ? [atomicWriteFrame(qp, cached, 0, dataOf(8, 1))]
        : writeFrames(qp, cached, 0, dataOf(8, 1))
      const sent = card.serve(...stored, ...sendFrames(qp, dataOf(8, 1), { solicited: true }))
      expect(lines(sent, psn).at(-1)).toBe('NAK 0x63 1')
    }
  })

  test('X-1: a repetition is not acknowledged for copies that are not durable yet', () => {
    for (const copies of [2, 3]) {
      const made = placed(DDIO_ON, { copies })
      const { card, region, qp, agent } = made
      const options = { operation: 5, wait: copies }
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), options))
      // The agent writes back all copies but the last, and then the power goes.
      for (let copy = 1; copy < copies; copy++) {
        agent!.poll()
        card.idle()
      }
      const again = persistFrames(card.connect(), region, 0, dataOf(64, 1), options)
      expect(acks(card.serve(...again))).toEqual([])
      cutPower(made, { random: new Random(SEED), strategy: 'none' })
      const next = restarted(made)
      const later = next.connect()
      const refused = next.serve(...persistFrames(later, next.open(), 0, dataOf(64, 1), options))
      expect(acks(refused).map(({ status }) => status)).toEqual([STATUS_PLACEMENT_UNKNOWN])
      believe(next, PLACEMENT_THROUGH)
      const served = attachedAgent(next)
      next.serve(...persistFrames(later, next.open(), 0, dataOf(64, 1), options))
      const told = acks(sentWhileWorking({ ...made, card: next, agent: served }))
      expect(told.map((ack) => [ack.status, ack.copies])).toEqual([[DURABLE, copies]])
    }
  })

  test('X-3: what is durable is not refused for good while its slot is written again', () => {
    for (const isCut of [false, true]) {
      const made = placed(DDIO_ON)
      const { card, region, qp } = made
      const first = { operation: 5, repetition: true }
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { operation: 5 }))
      expect(acks(sentWhileWorking(made)).map(({ status }) => status)).toEqual([DURABLE])
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 2), { operation: 6 }))
      if (isCut) cutPower(made, { random: new Random(SEED), strategy: 'all' })
      const next = isCut ? restarted(made) : card
      const later = next.connect()
      const again = persistFrames(later, next.open(), 0, dataOf(64, 1), first)
      const told = [...next.serve(...again), ...waitForTimeout({ ...made, card: next })]
      const said = acks(told).filter(({ operationLow }) => operationLow === 5)
      expect(said.map(({ status }) => status)).toEqual([STATUS_IN_DOUBT])
      believe(next, PLACEMENT_THROUGH)
      const served = attachedAgent(next)
      next.serve(...persistFrames(later, next.open(), 0, dataOf(64, 1), first))
      const found = acks(sentWhileWorking({ ...made, card: next, agent: served }))
      expect(found.map((ack) => [ack.status, ack.operationLow])).toEqual([[DURABLE, 5]])
    }
  })

  test.each(['not armed', 'not saved'])('D-13: a part that is %s acknowledges no record', (how) => {
    for (const wait of [1, 2, 3]) {
      const made = placed(DDIO_ON, { copies: 3 })
      const { card, region, qp, agent } = made
      const other = card.connect()
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait }))
      for (let copy = 1; copy < wait; copy++) {
        agent!.poll()
        card.idle()
      }
      if (how === 'not armed') card.nvdimm.armed = false
      else card.nvdimm.failSave()
      agent!.poll()
      const said = acks(card.serve(flushFrame(other, region)))
      const later = acks(sentWhileWorking(made))
      expect([...said, ...later].map(({ status }) => status)).toEqual([STATUS_IN_DOUBT])
    }
  })

  test('X-1: a connection is not told of the record of one whose number it has', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    let other = qp
    do {
      disconnect(card, other)
      drawNumber(card.machine.packets, qp.number)
      other = card.connect(4096, 0, 8)
    } while (other.number !== qp.number)
    expect(sentWhileWorking(made)).toEqual([])
  })

  test('a lane that takes no intent leaves the lanes of others to be cleared later', () => {
    const { card, qp, local, through } = mixed()
    card.serve(...persistFrames(qp, local, 0, dataOf(64, 1)))
    card.nvdimm.refuseWrites((LANES_AT + BURST_FRAMES * 64) / 64)
    card.serve(...persistFrames(qp, through, 0, dataOf(64, 1)))
    card.idle()
    expect(card.nvdimm.live.slice(LANES_AT, LANES_AT + 64)).toEqual(new Uint8Array(64))
  })
})

test('P2-18: what the card has written back for itself is asked for in nobody’s name', () => {
  const made = placed(DDIO_ON)
  const { card, qp, region } = made
  const agent = made.agent!
  const asked: [number, bigint][] = []
  agent.onFlushed = ({ psn, operationId }) => asked.push([psn, operationId])
  const { psn } = qp
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { operation: 77 }))
  work(card, agent)
  card.provision({ name: 'second', slots: 2, placement: PLACEMENT_THROUGH })
  work(card, agent)
  const own: [number, bigint] = [psn, 77n]
  expect(asked).toEqual([own, own, [0, 0n]])
})
