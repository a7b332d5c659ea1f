/**
 * Batches of several regions through the caches of the host (S1-M9; source 2, flow 2; source 4).
 *
 * Invariant: members of either region wait for their turn as those of one: one status behind the
 * last bell; in order, what is there behind a cut at any command are the first ones; and where one
 * region is removed, the members of the other are judged by the condition alone.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { CUT_STRATEGIES } from '../../../boards/emulator/medium/power-cut.ts'
import { PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type BatchRecord,
  batchFrames,
  CONDITIONS,
  IN_ORDER,
  INDEPENDENT,
  type Status,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import {
  agentOfNewHost,
  cutPower,
  NOTHING,
  type Placed,
  placed,
  restarted,
  SEED,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  type Sent,
  type TestCard,
  type TestRegion,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const SLOTS = 20
const OLD = 1
const NEW = 100

interface Made extends Placed {
  readonly second: TestRegion
}

function made(): Made {
  const one = placed(DDIO_ON, { slots: SLOTS })
  const second = one.card.provision({ name: 'second', slots: SLOTS, placement: PLACEMENT_THROUGH })
  work(one.card, one.agent!)
  return { ...one, second }
}

/** Records of the two regions in turn. */
function inTurn(regions: readonly TestRegion[], count: number, seed: number): BatchRecord[] {
  return upTo(count).map((i) => ({
    ...{ slot: i >> 1, data: dataOf(64, seed + i), expect: 0n },
    reth: { rkey: regions[i % 2]!.rkey },
  }))
}

/** Serves the batch, and lets card and agent work until both are idle; the status, if any. */
function send(
  one: Made,
  records: readonly BatchRecord[],
  condition: number,
  id = 1,
): Status | null {
  const { card, qp, region, agent } = one
  const sent: Sent[] = [...card.serve(...batchFrames(qp, region, records, { condition, id }))]
  const idle = card.idle.bind(card)
  card.idle = (): void => {
    card.sent = []
    idle()
    sent.push(...card.sent)
  }
  if (!card.machine.dead) work(card, agent!)
  card.idle = idle
  const said = statuses(sent)
  expect(said.length).toBeLessThanOrEqual(1)
  return said[0] ?? null
}

/** Which of these a card reads. */
function found(
  card: TestCard,
  regions: readonly TestRegion[],
  count: number,
  seed: number,
): number[] {
  // A key that names nothing any more ends its queue pair.
  const qps = regions.map(() => card.connect())
  return upTo(count).filter((i) => {
    const bytes = card.read(qps[i % 2]!, regions[i % 2]!, i >> 1, 0, 64)
    return bytes !== null && Buffer.compare(bytes, dataOf(64, seed + i)) === 0
  })
}

const both = (card: TestCard): TestRegion[] => [card.open(), card.open('second')]

describe('S1-M9: two regions through the caches of the host', () => {
  test.each(Object.entries(CONDITIONS))(
    'S1-M9: %s: one status, all of it there',
    (_, condition) => {
      const one = made()
      const count = 2 * SLOTS
      const status = send(one, inTurn([one.region, one.second], count, NEW), condition)
      expect(status).toMatchObject({ said: 'durable', durable: upTo(count) })
      cutPower(one, NOTHING)
      const again = restarted(one)
      expect(found(again, both(again), count, NEW)).toEqual(upTo(count))
    },
  )

  test('S1-M9, X-5: in order, a cut at every command leaves the first ones', THOROUGH, () => {
    const count = 4
    let cuts = 0
    for (let command = 0, isOver = false; !isOver; command++) {
      for (const strategy of CUT_STRATEGIES.filter((_, i) => (i + command) % 4 === 0)) {
        withPassingCards(() => {
          const one = made()
          const regions = [one.region, one.second]
          send(one, inTurn(regions, count, OLD), INDEPENDENT)
          one.card.machine.armCut(command)
          const status = send(one, inTurn(regions, count, NEW), IN_ORDER, 2)
          isOver = !one.card.machine.dead
          cutPower(one, { random: new Random(SEED + command), strategy })
          const again = restarted(one)
          work(again, agentOfNewHost(again))
          const now = found(again, both(again), count, NEW)
          const before = found(again, both(again), count, OLD)
          const name = `${command}, ${strategy}: new ${now}, old ${before}`
          expect(now, name).toEqual(upTo(now.length))
          expect(now.length + before.length, name).toBe(count)
          for (const i of status?.durable ?? []) expect(now, name).toContain(i)
          cuts += 1
        })
      }
    }
    expect(cuts).toBeGreaterThan(100)
  })

  test.each(['records', 'second'])('S1-M9: the region %s is removed on the way', (name) => {
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      for (const steps of upTo(8)) {
        withPassingCards(() => checkRemoved(name, condition, steps))
      }
    }
  })

  test('S1-M9: bytes take no batch there', () => {
    const one = made()
    const shape = { kind: mad.KIND_BYTES, length: 4096, flags: mad.REGION_WRITE_PERSIST }
    const area = one.card.provision({ name: 'area', ...shape, placement: PLACEMENT_THROUGH })
    work(one.card, one.agent!)
    const bytes = {
      ...{ slot: 0, data: dataOf(8, 1), wait: 1, pweth: { slotAddressed: false } },
      reth: { rkey: area.rkey, vaHigh: area.baseHigh, vaLow: 0 },
    }
    const records = [...inTurn([one.region, one.second], 2, NEW), bytes]
    for (const members of [records, [bytes]]) {
      expect(send(one, members, INDEPENDENT)).toMatchObject({ said: 'BATCH_REGION', durable: [] })
    }
    expect(found(one.card, [one.region, one.second], 2, NEW)).toEqual([])
  })
})

/** The region goes when the agent has worked that often. */
function checkRemoved(name: string, condition: number, steps: number): void {
  const one = made()
  const { card, agent, qp } = one
  const regions = [one.region, one.second]
  const count = 2 * SLOTS
  const sent: Sent[] = []
  const frames = batchFrames(qp, one.region, inTurn(regions, count, NEW), { condition })
  sent.push(...card.serve(...frames))
  const step = (): void => {
    agent!.poll()
    sent.push(...card.pass(10))
  }
  for (let i = 0; i < steps; i++) step()
  card.sent = []
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
    body.set(new TextEncoder().encode(name), mad.REGION_NAME)
  })
  sent.push(...card.sent)
  for (let i = 0; i < 400 && statuses(sent).length === 0; i++) step()
  const label = `${name}, condition ${condition}, ${steps} steps`
  const [status, ...more] = statuses(sent)
  expect(more, label).toEqual([])
  expect(status?.said, label).toMatch(/SLOT|IN_DOUBT|durable/)
  const gone = name === 'records' ? 0 : 1
  const there = found(card, regions, count, NEW)
  const stays = status!.durable.filter((i) => i % 2 !== gone)
  for (const i of stays) expect(there, label).toContain(i)
  if (condition === INDEPENDENT) expect(stays, label).toHaveLength(SLOTS)
  else expect(status!.durable, label).toEqual(upTo(status!.durable.length))
}
