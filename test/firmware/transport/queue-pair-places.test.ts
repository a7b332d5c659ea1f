/** Which place of the table a new queue pair gets (R1-S6). */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { choosePlace, OWN_HOST, type Shares } from '../../../firmware/transport/places.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import {
  createQueuePairTable,
  HOLD_CONNECTED,
  HOLD_NONE,
  HOLD_RESTING,
  openQueuePair,
  type QueuePair,
  type QueuePairTable,
  STATE_ERROR,
  STATE_OPEN,
} from '../../../firmware/transport/queue-pair.ts'

const SEED = Number(process.env.SEED ?? 1)

/** What stands at a place: nothing, or a queue pair of that source in that state. */
type Place = null | Pick<QueuePair, 'state' | 'hold' | 'used' | 'source' | 'opened'>

/** Is it free, half-open or held? By the flags, as the rules are written. */
function kindOf(place: Place): 'free' | 'half-open' | 'held' {
  if (place === null) return 'free'
  if (place.state === STATE_ERROR) return place.hold === HOLD_RESTING ? 'held' : 'free'
  return place.hold === HOLD_NONE && !place.used ? 'half-open' : 'held'
}

function tableOf(places: readonly Place[], next = 0): QueuePairTable {
  const pairs = places.map((place, index) => (place === null ? null : { ...place, index }))
  return { ...createQueuePairTable(), places: pairs as (QueuePair | null)[], next }
}

/** The rules, said once more: the places that the source may be given; none is a refusal. */
function mayGet(places: readonly Place[], source: string, shares: Shares): number[] {
  const all = places.map((_, i) => i)
  const are = (kind: string): number[] => all.filter((i) => kindOf(places[i]!) === kind)
  const of = (who: string, among: number[]): number[] =>
    among.filter((i) => places[i]!.source === who)
  const taken = [...are('half-open'), ...are('held')]
  const own = of(source, taken).length
  const kept = Math.max(0, shares.host - of(OWN_HOST, taken).length)
  const left = are('free').length - (source === OWN_HOST ? 0 : kept)
  const isDue = own < left || (source === OWN_HOST && own < shares.host)
  if (left > 0 && isDue) {
    const empty = all.filter((i) => places[i] === null)
    return empty.length > 0 ? empty : are('free')
  }
  const half = are('half-open')
  const ownHalf = of(source, half)
  const oldest = (among: number[]): number[] =>
    among.sort((a, b) => places[a]!.opened - places[b]!.opened).slice(0, 1)
  if (own >= shares.small || own >= left + half.length - ownHalf.length) return oldest(ownHalf)
  const crowd = half.filter((i) => of(places[i]!.source, half).length > shares.small)
  return oldest(crowd.length > 0 ? crowd : half)
}

const STATE = fc.record({
  state: fc.constantFrom(STATE_OPEN, STATE_ERROR),
  hold: fc.constantFrom(HOLD_NONE, HOLD_NONE, HOLD_CONNECTED, HOLD_RESTING),
  used: fc.boolean(),
  source: fc.constantFrom('a', 'a', 'b', 'c', OWN_HOST),
})

const TABLE: fc.Arbitrary<Place[]> = fc
  .array(fc.option(STATE, { freq: 3 }), { minLength: 1, maxLength: 12 })
  .chain((places) =>
    fc
      .shuffledSubarray(
        places.map((_, i) => i),
        { minLength: places.length },
      )
      .map((ages) =>
        places.map((place, i) => (place === null ? null : { ...place, opened: ages[i]! })),
      ),
  )

const SHARES = fc.record({ host: fc.nat({ max: 3 }), small: fc.integer({ min: 1, max: 3 }) })

test('a place is given as the rules say, in whatever state the table is', () => {
  const source = fc.constantFrom('a', 'b', 'new', OWN_HOST)
  const next = fc.nat({ max: 11 })
  const seen = new Map<string, number>()
  const property = fc.property(TABLE, source, SHARES, next, (places, who, shares, from) => {
    const table = tableOf(places, from % places.length)
    const may = mayGet(places, who, shares)
    const chosen = choosePlace(table, who, shares)
    if (may.length === 0) expect(chosen).toBe(-1)
    else expect(may).toContain(chosen)
    // Round the table: the first of them from where the last search ended.
    if (may.length > 1) {
      const wanted = may.find((i) => i >= from % places.length) ?? Math.min(...may)
      expect(chosen).toBe(wanted)
    }
    const what = chosen < 0 ? 'refused' : kindOf(places[chosen]!)
    seen.set(what, (seen.get(what) ?? 0) + 1)
    expect(what).not.toBe('held')
  })
  fc.assert(property, { seed: SEED, numRuns: 20_000 })
  for (const what of ['free', 'half-open', 'refused']) expect(seen.get(what)).toBeGreaterThan(1000)
})

/** What a table has, without what does not matter to who gets what: ages are in their order. */
type World = readonly { source: string; used: boolean }[]

/**
 * Plays everything that sources may do, from an empty table on, and calls `look` with each state
 * that there is: one asks, one uses one of its half-open places, one leaves a place.
 */
function explore(
  count: number,
  sources: readonly string[],
  shares: Shares,
  look: (world: World, gets: (source: string) => number) => void,
): number {
  const seen = new Set<string>()
  const waiting: World[] = [[]]
  for (let world = waiting.pop(); world !== undefined; world = waiting.pop()) {
    const key = JSON.stringify(world)
    if (seen.has(key)) continue
    seen.add(key)
    const places: Place[] = Array.from({ length: count }, () => null)
    world.forEach(({ source, used }, i) => {
      places[i] = { state: STATE_OPEN, hold: HOLD_NONE, used, source, opened: i }
    })
    const gets = (source: string): number => choosePlace(tableOf(places), source, shares)
    look(world, gets)
    const without = (at: number): World => world.filter((_, i) => i !== at)
    for (const source of sources) {
      const place = gets(source)
      // The host's are held from the first.
      if (place >= 0) waiting.push([...without(place), { source, used: source === OWN_HOST }])
    }
    world.forEach((one, at) => {
      waiting.push(without(at))
      if (!one.used) waiting.push(world.map((it, i) => (i === at ? { ...it, used: true } : it)))
    })
  }
  return seen.size
}

const of = (world: World, who: string): number =>
  world.filter(({ source }) => source === who).length

test.each([
  { count: 6, sources: ['a'], shares: { host: 2, small: 1 } },
  { count: 7, sources: ['a', 'b'], shares: { host: 1, small: 2 } },
  { count: 6, sources: ['a', 'b', OWN_HOST], shares: { host: 2, small: 1 } },
  { count: 5, sources: ['a', 'b', 'c'], shares: { host: 0, small: 2 } },
  { count: 5, sources: ['a', 'b', 'c', OWN_HOST], shares: { host: 1, small: 1 } },
])('in every order of $sources on $count places nobody is kept out', (rig) => {
  const { count, sources, shares } = rig
  let most = 0
  const states = explore(count, sources, shares, (world, gets) => {
    const host = of(world, OWN_HOST)
    const network = count - Math.max(host, shares.host)
    // The host finds what is kept for it, whatever others have.
    if (host < shares.host) expect(gets(OWN_HOST)).toBeGreaterThanOrEqual(world.length)
    expect(world.length - host).toBeLessThanOrEqual(network)
    for (const source of sources) {
      const own = of(world, source)
      if (source !== OWN_HOST) most = Math.max(most, own)
      // Who has none finds a place at once, unless others hold all, each of them in use.
      const held = world.filter(({ source: who, used }) => used && who !== OWN_HOST).length
      const isClosed = source !== OWN_HOST && held >= network
      if (own === 0 && !isClosed && source !== OWN_HOST) expect(gets(source)).not.toBe(-1)
      // Whatever one other has, there is a place for a second one.
      const others = new Set(world.map((one) => one.source))
      others.delete(OWN_HOST)
      if (others.size === 1 && own === 0 && host <= shares.host) expect(gets(source)).not.toBe(-1)
      // Nobody loses what he uses.
      const place = gets(source)
      if (place >= 0 && place < world.length) expect(world[place]!.used).toBe(false)
    }
  })
  expect(states).toBeGreaterThan(count)
  expect(most).toBeLessThanOrEqual(Math.ceil((count - shares.host) / 2))
})

const OPTIONS = {
  ...{ peerNumber: 2, clientHigh: 0, clientLow: 1, pathMtu: 1024, protectionDomain: 0 },
  expectedPsn: 0 as Psn,
}

/** Opens queue pairs for that source, in use, until it gets none more: how many. */
function takeAll(table: QueuePairTable, source: string): number {
  for (let count = 0; ; count++) {
    const place = choosePlace(table, source)
    if (place < 0) return count
    openQueuePair(table, place, { ...OPTIONS, source }).used = true
  }
}

test('one source has half, each next one half of the rest: the host keeps its 32', () => {
  const table = createQueuePairTable()
  const sources = Array.from({ length: 9 }, (_, i) => `10.0.0.${i}`)
  const taken = sources.map((source) => takeAll(table, source))
  expect(taken).toEqual([112, 56, 28, 14, 7, 4, 2, 1, 0])
  expect(takeAll(table, OWN_HOST)).toBe(32)
  expect(table.places).not.toContain(null)
})

test('the host has half as well, and the network finds the other half', () => {
  const table = createQueuePairTable()
  expect(takeAll(table, OWN_HOST)).toBe(128)
  const sources = Array.from({ length: 9 }, (_, i) => `10.0.0.${i}`)
  expect(sources.map((source) => takeAll(table, source))).toEqual([64, 32, 16, 8, 4, 2, 1, 1, 0])
})

test('five sources never have all, whatever they open and use, and in whatever order', () => {
  const ask = fc.record({
    who: fc.nat({ max: 4 }),
    times: fc.nat({ max: 120 }),
    uses: fc.boolean(),
    // Whoever said nothing has been silent for long.
    late: fc.boolean(),
  })
  const who = fc.array(ask, { minLength: 5, maxLength: 60 })
  fc.assert(
    fc.property(who, (asks) => {
      const table = createQueuePairTable()
      const use = (source: string): void => {
        for (const qp of table.places) if (qp?.source === source) qp.used = true
      }
      for (const { who: source, times, uses, late } of asks) {
        for (let i = 0; i < times; i++) {
          const place = choosePlace(table, String(source), undefined, late ? 1e9 : 0)
          if (place >= 0) openQueuePair(table, place, { ...OPTIONS, source: String(source) })
        }
        if (uses) use(String(source))
      }
      for (let source = 0; source < 5; source++) use(String(source))
      expect(choosePlace(table, 'another')).not.toBe(-1)
    }),
    { seed: SEED, numRuns: 200 },
  )
})

test('a flood of forged sources lets a client in that answers within its places', () => {
  const table = createQueuePairTable()
  const open = (source: string): QueuePair =>
    openQueuePair(table, choosePlace(table, source), { ...OPTIONS, source })
  expect(takeAll(table, 'greedy')).toBe(112)
  for (let i = 0; i < 1000; i++) open(`forged ${i}`)
  for (let client = 0; client < 3; client++) {
    const qp = open(`client ${client}`)
    // One less than the half-open places that there are: the next one would take its place.
    for (let i = 0; i < 111 - client; i++) open(`forged again ${client} ${i}`)
    expect(table.places[qp.index]).toBe(qp)
    qp.used = true
    for (let i = 0; i < 1000; i++) open(`forged still ${client} ${i}`)
    expect(table.places[qp.index]).toBe(qp)
  }
  const late = open('late')
  for (let i = 0; i < 109; i++) open(`forged at last ${i}`)
  expect(table.places[late.index]).not.toBe(late)
})

test('who forges the address of a client takes from that client alone, and it gets in', () => {
  const table = createQueuePairTable()
  const open = (source: string): QueuePair =>
    openQueuePair(table, choosePlace(table, source), { ...OPTIONS, source })
  const others = ['b', 'c', 'd'].map(open)
  for (let i = 0; i < 2000; i++) open('victim')
  const qp = open('victim')
  for (let i = 0; i < 50; i++) open('victim')
  expect(table.places[qp.index]).toBe(qp)
  for (const other of others) expect(table.places[other.index]).toBe(other)
})

test('a source of many takes stale places of others within its share, the oldest first', () => {
  const table = createQueuePairTable()
  const SMALL = 16
  for (let i = 0; i < SMALL; i++) {
    openQueuePair(table, choosePlace(table, 'many'), { ...OPTIONS, source: 'many' }).used = true
  }
  for (let i = 0; i < 208; i++) {
    const source = `forged ${i}`
    openQueuePair(table, choosePlace(table, source), { ...OPTIONS, source }).heardUs = i
  }
  expect(choosePlace(table, 'many')).toBe(-1)
  const nowUs = 5_000_000
  for (let i = 0; i < 112 - SMALL; i++) {
    const place = choosePlace(table, 'many', undefined, nowUs)
    expect(table.places[place]!.source).toBe(`forged ${i}`)
    openQueuePair(table, place, { ...OPTIONS, source: 'many' }).used = true
  }
  expect(choosePlace(table, 'many', undefined, nowUs)).toBe(-1)
})
