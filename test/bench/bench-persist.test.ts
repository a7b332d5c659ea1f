/**
 * What a durable record costs on the wire and in the queues, counted: source 2's promise against
 * what its figures 2 and 3 do without it. Times are for the bench to tell.
 */

import { beforeAll, describe, expect, test } from 'vitest'
import { THROUGH_JOBS } from '../../firmware/board/limits.ts'
import { type Cost, costOf, THROUGH_WAYS, WAYS, WRITE_PERSIST } from './bench-persist.ts'

const SIZES = [64, 4096]

async function costsOf(recordBytes: number, inFlight: number): Promise<Map<string, Cost>> {
  const costs = new Map<string, Cost>()
  for (const way of WAYS) costs.set(way.name, await costOf(way, recordBytes, inFlight))
  return costs
}

describe.each(SIZES)('a record of %i bytes, alone', (bytes) => {
  let costs: Map<string, Cost>
  beforeAll(async () => {
    costs = await costsOf(bytes, 1)
  })

  test('P2-16: write-persist with a dual slot: 3 messages, 1 round trip, 1 work request', () => {
    const cost = costs.get(WRITE_PERSIST)!
    expect(cost).toMatchObject({ copies: 2, atomic: true })
    expect(cost.messages).toBeLessThanOrEqual(3)
    expect(cost.roundTrips).toBe(1)
    expect(cost).toMatchObject({ hostRequests: 1, hostCompletions: 1, cardRequests: 0 })
  })

  test('source 2, figure 2: WRITE, then READ takes two round trips and twice the requests', () => {
    const cost = costs.get('WRITE; READ (fig. 2)')!
    expect(cost.messages).toBeGreaterThanOrEqual(4)
    expect(cost).toMatchObject({ roundTrips: 2, hostRequests: 2, hostCompletions: 2 })
    expect(costs.get('WRITE ▸ READ')).toMatchObject({ roundTrips: 1, hostRequests: 2 })
  })

  test('source 2, figure 3: WRITE, then SEND keeps both sides busy', () => {
    const cost = costs.get('WRITE; SEND (fig. 3)')!
    expect(cost.messages).toBeGreaterThanOrEqual(6)
    expect(cost).toMatchObject({ roundTrips: 2, hostRequests: 3, cardRequests: 2 })
    expect(costs.get('WRITE ▸ SEND')).toMatchObject({ roundTrips: 1, hostRequests: 3 })
  })

  test('WRITE and FLUSH take two requests for one copy, and four for two', () => {
    expect(costs.get('WRITE ▸ FLUSH')).toMatchObject({ roundTrips: 1, hostRequests: 2, copies: 1 })
    const dual = costs.get('client dual write')!
    expect(dual).toMatchObject({ roundTrips: 1, hostRequests: 4, copies: 2 })
    expect(dual.messages).toBeGreaterThanOrEqual(6)
    expect(dual.messageBytes).toBeGreaterThan(1.7 * costs.get(WRITE_PERSIST)!.messageBytes)
  })

  test('P2-5: registered write-persist, a WRITE is durable when it is acknowledged', () => {
    const cost = costs.get('WRITE, ACK withheld')!
    expect(cost).toMatchObject({ messages: 2, roundTrips: 1, hostRequests: 1, fences: 1 })
  })
})

describe.each(SIZES)('records of %i bytes, 32 in flight', (bytes) => {
  test('write-persist shares fences and answers, and needs the fewest requests', async () => {
    const costs = await costsOf(bytes, 32)
    const own = costs.get(WRITE_PERSIST)!
    expect(own.messages).toBeLessThan(1.5)
    expect(own.fences).toBeLessThan(0.5)
    for (const cost of costs.values()) {
      const requests = cost.hostRequests + cost.cardRequests
      expect(requests, cost.way).toBeGreaterThanOrEqual(own.hostRequests)
      if (cost.hostRequests > 1) expect(cost.messages / own.messages).toBeGreaterThan(2)
    }
  })
})

describe('S1-M5: through the caches of a host', () => {
  test('each way becomes durable, and one without a PERSIST_ACK asks until it is', async () => {
    const costs = new Map<string, Cost>()
    for (const way of THROUGH_WAYS) costs.set(way.name, await costOf(way, 64, 1))
    const own = costs.get('through: write-persist')!
    expect(own).toMatchObject({ copies: 2, hostRequests: 1, roundTrips: 1 })
    const write = costs.get('through: WRITE, RNR')!
    // The request, an RNR NAK, the request again, its ACK: at the least.
    expect(write.messages).toBeGreaterThanOrEqual(4)
    expect(write.roundTrips).toBeGreaterThanOrEqual(2)
    expect(costs.get('through: WRITE ▸ FLUSH')!.messages).toBeGreaterThanOrEqual(6)
    const batch = costs.get('through: batches of 8')!
    expect(batch).toMatchObject({ copies: 2, hostRequests: 1, hostCompletions: 1 })
    expect(batch.messages).toBeLessThan(own.messages)
  })

  test('records in flight beyond the jobs of the card wait for their turn alone', async () => {
    const [way] = THROUGH_WAYS
    for (const bytes of [64, 4096]) {
      const full = await costOf(way!, bytes, THROUGH_JOBS)
      for (const inFlight of [THROUGH_JOBS + 1, 2 * THROUGH_JOBS, 4 * THROUGH_JOBS]) {
        const cost = await costOf(way!, bytes, inFlight)
        expect(cost.recordsPerSecond).toBeGreaterThan(0.85 * full.recordsPerSecond)
        expect(cost.latencyUs).toBeLessThan((1.2 * full.latencyUs * inFlight) / THROUGH_JOBS)
      }
    }
  })
})
