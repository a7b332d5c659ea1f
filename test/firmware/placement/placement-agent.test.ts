/**
 * Who may be the flush agent of a host, and what ends one: numbers that are not the probe's, queues
 * that are none of an agent, elements that are none of its own, completions that nobody takes; and
 * what a placement that is not proven allows (source 2, flow 2; H1, H2, H7, N21).
 */

import { describe, expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { createProof, rightsOf } from '../../../firmware/commit/proof.ts'
import { QUEUE_ERROR, TYPE_AGENT } from '../../../firmware/host/queue-info.ts'
import {
  FLUSH_PERSISTENT,
  HOST_DATA_AT,
  HOST_PROBE_AT,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
  WRITE_PERSIST,
  WRITE_PERSIST_REGION,
} from '../../../firmware/medium/region.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import { cardOf, placed, queueHostOf, restarted, work } from '../../support/cards/placed.ts'
import { dataOf, persistAcks, persistFrames, type TestCard } from '../../support/cards/test-card.ts'
import { AGENT_UNITS, RawAgentQueues } from '../../support/queues/agent-host.ts'
import { elementOf } from '../../support/queues/queue-host.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { ACK, writeFrames } from '../../support/wire/requests.ts'

const IN_DOUBT = 0x8f

/** Attaches with that queue and, unless it is the probe's, with that number; the fault. */
function attach(card: TestCard, queue: number, change = 0): string {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, (body) => {
    body[mad.AGENT_ACTION] = mad.AGENT_ATTACH
    body.set(card.host!.load(HOST_PROBE_AT, 8).bytes!, mad.AGENT_NUMBER_HIGH)
    body[mad.AGENT_NUMBER_HIGH]! ^= change
    putU32(body, mad.AGENT_QUEUE, queue)
  }).fault
}

/** The queues of an agent whose completions have so much room. */
function narrow(card: TestCard, entries: number): RawAgentQueues {
  const host = queueHostOf(card)
  const completions = host.createCq(entries)
  const pair = host.createQp(completions, { type: TYPE_AGENT, units: AGENT_UNITS })
  return Object.assign(Object.create(RawAgentQueues.prototype) as RawAgentQueues, {
    ...{ host, completions, pair, others: [] },
  })
}

describe('to be the agent', () => {
  test('takes the number of the probe, a host that flushes, and a queue of an agent', () => {
    const { card } = placed(DDIO_ON)
    const { sendQueue } = new RawAgentQueues(queueHostOf(card))
    expect(attach(card, sendQueue, 1)).toBe('PLACEMENT_UNKNOWN')
    const other = queueHostOf(card)
    expect(attach(card, other.createQp(other.createCq(4)).send)).toBe('QUEUE_UNKNOWN')
    expect(attach(card, 2 ** 20)).toBe('QUEUE_UNKNOWN')
    expect(attach(card, sendQueue)).toBe('PASS')
  })

  test('is of no use where the card passes the caches by', () => {
    expect(attach(placed(DDIO_OFF).card, 1)).toBe('PLACEMENT_WRONG')
  })
})

describe('what ends an agent', () => {
  test('H2: an element that is none of its own, in its send queue', () => {
    const { card, agent } = placed(DDIO_ON)
    const { queues } = agent!
    const { host, pair } = queues
    host.post(pair.send, elementOf({ opcode: SEND, inline: dataOf(8, 1) }))
    host.ring(pair.send)
    for (let i = 0; i < 5; i++) card.idle()
    expect(queues.zone1()).toMatchObject({ state: QUEUE_ERROR, fault: 'ELEMENT_FORM' })
  })

  test('H2: an element that is no receive, in its receive queue', () => {
    const { card, region, qp } = placed(DDIO_ON)
    const queues = new RawAgentQueues(queueHostOf(card))
    const { host, pair } = queues
    expect(attach(card, queues.sendQueue)).toBe('PASS')
    host.post(pair.receive, elementOf({ opcode: SEND, inline: dataOf(8, 1) }))
    host.ring(pair.receive)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    for (let i = 0; i < 5; i++) card.idle()
    host.ram.link.arrive()
    expect(host.zone1(pair.receive).state).toBe(QUEUE_ERROR)
  })

  test.each([true, false])('N21: full completions, which are taken in time: %s', (taken) => {
    const { card, region } = placed(DDIO_ON, { slots: 16 })
    const queues = narrow(card, 4)
    expect(attach(card, queues.sendQueue)).toBe('PASS')
    queues.postReceives()
    queues.host.ring(queues.pair.receive)
    for (let i = 0; i < 8; i++) {
      card.serve(...persistFrames(card.connect(), region, i, dataOf(64, i)))
      for (let j = 0; j < 3; j++) card.idle()
      if (taken) queues.takeRequests()
    }
    queues.host.ram.link.arrive()
    const stands = queues.host.zone1(queues.completions).state
    expect(stands === QUEUE_ERROR).toBe(!taken)
  })
})

test('what an agent finishes in the burst in which its host is lost is in doubt', () => {
  for (const lost of [false, true]) {
    const { card, host, region, agent, qp } = placed(DDIO_ON)
    const shape = { kind: mad.KIND_BYTES, length: 4096 }
    const far = card.provision({ name: 'far', ...shape, placement: PLACEMENT_THROUGH })
    const near = card.provision({ name: 'near', ...shape, flags: 2 })
    const frames = [
      ...writeFrames(card.connect(), far, 0, dataOf(64, 2)),
      ...writeFrames(card.connect(), near, 0, dataOf(64, 3)),
    ]
    work(card, agent!)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait: 1 }))
    for (let i = 0; i < 5; i++) card.idle()
    expect(agent!.poll(), 'its SEND is posted').toBeGreaterThan(0)
    // It goes when what was posted is pushed out: behind the SEND, which lies in other memory.
    if (lost) {
      host.link.script = ({ kind, memory }) =>
        kind === 'read' && memory === 'persistent' ? 'removal' : undefined
    }
    const sent = card.serve(...frames)
    expect(persistAcks(sent).map(({ status }) => status)).toEqual([lost ? IN_DOUBT : 0])
  }
})

test('H1: a SEND that says again what was finished completes, and earns nothing', () => {
  const made = placed(DDIO_ON)
  const { card, region, qp } = made
  const agent = made.agent!
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  work(card, agent)
  agent.queues.postFinished(agent.finished)
  card.sent = []
  for (let i = 0; i < 5; i++) card.idle()
  expect(persistAcks(card.sent)).toEqual([])
  expect(card.counter('BELL')).toBe(0)
})

describe('regions in the host’s memory', () => {
  const bytes = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096, flags: 2 }

  test('of bytes are writable while the placement is proven, and only readable before', () => {
    const made = placed(DDIO_OFF)
    const { card } = made
    card.provision({ ...bytes, placement: PLACEMENT_BYPASS })
    const writes = (on: TestCard): boolean => {
      const bytes = on.open('bytes')
      return on.serve(...writeFrames(on.connect(), bytes, 0, dataOf(8, 1)))[0]!.syndrome === ACK
    }
    expect(writes(card)).toBe(true)
    expect(writes(restarted(made))).toBe(false)
  })

  test('P2-4: of bytes answer a record with all of its name, now and when it comes again', () => {
    const { card, qp } = placed(DDIO_OFF)
    const { rkey, baseHigh } = card.provision({ ...bytes, placement: PLACEMENT_BYPASS })
    const frame = frameOf({
      bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
      reth: { vaHigh: baseHigh, vaLow: 0, rkey, length: 8 },
      pweth: { wait: 1, wantsAck: true, operationHigh: 6, operationLow: 5 },
      payload: dataOf(8, 1),
    })
    for (let again = 0; again < 2; again++) {
      const said = persistAcks(card.serve(frame))
      expect(said).toMatchObject([{ status: 0, operationHigh: 6, operationLow: 5, copies: 1 }])
    }
  })

  test('through its caches are granted as past them', () => {
    for (const flags of [0, WRITE_PERSIST_REGION]) {
      const [through, bypass] = [PLACEMENT_THROUGH, PLACEMENT_BYPASS].map((proven) =>
        rightsOf({ ...createProof(), proven }, { kind: mad.KIND_BYTES, flags, placement: proven }),
      )
      expect(through).toBe(bypass)
      const durable = FLUSH_PERSISTENT | (flags === 0 ? 0 : WRITE_PERSIST)
      expect(through! & (FLUSH_PERSISTENT | WRITE_PERSIST)).toBe(durable)
    }
  })

  test('are not served on a host whose memory is smaller than they are', () => {
    const { card, host } = placed(DDIO_OFF)
    const part = new Nvdimm({ bytes: HOST_DATA_AT })
    const status = cardOf(card.nvdimm, new HostMemory({ part, platform: host.platform })).status()
    expect(status[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
    expect(FAULTS[status[mad.PART_FAULT]!]!.name).toBe('TRUNCATED')
  })
})
