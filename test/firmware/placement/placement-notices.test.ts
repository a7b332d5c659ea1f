/**
 * What batches store in the host's memory, told to that host (source 4, claim 1; S1-M10): only
 * behind the read that has pushed it there, and not at all where no batch may go.
 */

import { expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { PLACEMENT_BYPASS } from '../../../firmware/medium/region.ts'
import { MECHANISM_LSB_READ } from '../../../firmware/wire/persist-ack.ts'
import { batchFrames, statuses } from '../../support/cards/batch-card.ts'
import {
  believe,
  HOST_BYTES,
  NOTHING,
  PART_BYTES,
  PushedHost,
  placed,
  queueHostOf,
} from '../../support/cards/placed.ts'
import { dataOf, TestCard } from '../../support/cards/test-card.ts'
import { askNotices, noticesIn } from '../../support/queues/notice-host.ts'

const records = [0, 1].map((slot) => ({ slot, data: dataOf(64, slot + 1) }))

/** A region in a host's memory that takes writes past its caches; that host is told of records. */
function told() {
  const part = new Nvdimm({ bytes: HOST_BYTES })
  const memory = new HostMemory({ part, platform: DDIO_OFF })
  const ram = new HostRam(1 << 17, memory.link)
  const card = new TestCard(PART_BYTES, { host: memory, ram }).format()
  believe(card, PLACEMENT_BYPASS)
  const region = card.provision({ slots: 4, placement: PLACEMENT_BYPASS })
  const host = new PushedHost(card)
  host.init()
  const cq = host.createCq(16)
  expect(askNotices(host, region, cq, 'record').fault).toBe('PASS')
  const seen = () => {
    memory.link.arrive()
    return noticesIn(host, cq)
  }
  return { part, memory, card, region, qp: card.connect(4096), seen }
}

test('S1-M10: what lies in the host is told when a read has pushed it there', () => {
  const { part, memory, card, region, qp, seen } = told()
  const sent = card.serve(...batchFrames(qp, region, records))
  expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: [0, 1] }])
  expect(seen()).toMatchObject(
    [0, 1].map((slot) => ({ slots: [slot, slot], copies: 2, mechanism: MECHANISM_LSB_READ })),
  )
  memory.powerCut(NOTHING)
  const kept = Buffer.from(part.durable)
  expect(records.every(({ data }) => kept.includes(Buffer.from(data)))).toBe(true)
})

test('S1-M10: where a read is not answered, what is in doubt is counted, and not told', () => {
  const outcomes = new Set<string>()
  for (let silent = 0; silent < 4; silent++) {
    const { memory, card, region, qp, seen } = told()
    let reads = 0
    memory.link.script = ({ kind, memory: of }) =>
      kind === 'read' && of === 'persistent' && reads++ >= silent ? 'timeout' : undefined
    const [status] = statuses(card.serve(...batchFrames(qp, region, records)))
    memory.link.script = null
    const durable = status?.durable ?? []
    const notices = seen()
    const stored = notices.filter(({ says }) => says === 'record').map(({ index }) => index)
    const missed = notices.reduce((sum, one) => sum + (one.says === 'missed' ? one.records : 0), 0)
    // Level 2 of 2: the first read that is not answered leaves both of them.
    expect(stored).toEqual(durable)
    const doubted = status?.said === 'IN_DOUBT'
    expect(missed, `${status?.said}`).toBe(doubted ? records.length : 0)
    outcomes.add(status?.said ?? 'silence')
  }
  expect([...outcomes]).toContain('IN_DOUBT')
  expect([...outcomes].every((said) => said === 'durable' || isFault(said))).toBe(true)
})

test('S1-M10: a region through the caches takes no batches, and tells of none', () => {
  const { card, region } = placed(DDIO_ON)
  const host = queueHostOf(card)
  const cq = host.createCq(16)
  expect(askNotices(host, region, cq, 'record').fault).toBe('BATCH_REGION')
})

function isFault(said: string): boolean {
  return FAULTS.some(({ name }) => name === said)
}
