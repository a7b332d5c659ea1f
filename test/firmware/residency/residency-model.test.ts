/**
 * Memory status as a model: the requester's and the responder's engines over a channel that does
 * its worst. Whatever becomes of the notices, no access sees a wrong byte, and when the channel is
 * quiet the requester knows what is.
 *
 * "Quiet" needs a word. A notice that was lost without any message behind it leaves no gap to be
 * seen; over a reliable connection that cannot be, but here it can. Then the accesses themselves
 * find out: one that was wrongly believed to be ready maps the page, which is news with a gap
 * before it; one that was wrongly believed not to be hints in vain, and the requester asks.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import {
  STATUS_ERROR,
  STATUS_RESET,
  STATUS_UNAVAILABLE,
} from '../../../firmware/wire/memory-status.ts'
import { sequencesOf } from '../../support/residency/residency.ts'
import { ResidencyWorld, type WorldOptions } from '../../support/residency/residency-world.ts'

/** Everything that can happen, on two pages out of four. */
const LETTERS: Readonly<Record<string, (world: ResidencyWorld) => void>> = {
  'map 0': (world) => world.map(0),
  'unmap 0': (world) => world.unmap(0),
  'map 1': (world) => world.map(1),
  'read 0': (world) => world.access(0),
  'write 1': (world) => world.access(1, 77),
  time: (world) => world.pass(200),
  'the oldest comes': (world) => world.deliver(0),
  'the newest comes': (world) => world.deliver(world.flying.length - 1),
  'the newest comes twice': (world) => world.deliver(world.flying.length - 1, true),
  'the oldest is lost': (world) => world.lose(0),
  'another size': (world) => world.propose(world.known.sizeLog2 === 13 ? 12 : 13),
  'new connection': (world) => world.connect(),
  restart: (world) => world.restart(),
  error: (world) => world.fail(STATUS_ERROR),
  reset: (world) => world.fail(STATUS_RESET),
}

/** The channel is quiet, and every page is accessed: then nobody is mistaken any more. */
function quiet(world: ResidencyWorld): number[] {
  if (world.association.outage !== 0) world.fail(STATUS_RESET)
  world.settle()
  for (let rounds = 0; rounds < 2; rounds++) {
    for (let page = 0; page < world.pages; page++) {
      world.access(page)
      world.settle()
      world.nowUs += 5_000
      world.waitInVain(page)
      world.settle()
    }
  }
  return world.mistaken()
}

describe('short schedules, all of them', () => {
  test('P5-28, D-12, X-6: never a wrong byte, and in the end the requester knows what is', () => {
    let schedules = 0
    for (const schedule of sequencesOf(Object.keys(LETTERS), 4)) {
      const world = new ResidencyWorld()
      world.pass(200)
      for (const letter of schedule) LETTERS[letter]!(world)
      const mistaken = quiet(world)
      if (mistaken.length > 0) expect.fail(`${schedule.join(', ')}: pages ${mistaken}`)
      schedules++
    }
    expect(schedules).toBe(Object.keys(LETTERS).length ** 4)
  })

  test('P5-28: where nothing is lost at the end, it knows without any access', () => {
    const kind = Object.keys(LETTERS).filter((letter) => letter !== 'the oldest is lost')
    for (const schedule of sequencesOf(kind, 3)) {
      const world = new ResidencyWorld()
      world.pass(200)
      for (const letter of schedule) LETTERS[letter]!(world)
      if (world.association.outage !== 0) world.fail(STATUS_RESET)
      world.settle()
      const mistaken = world.mistaken()
      if (mistaken.length > 0) expect.fail(`${schedule.join(', ')}: pages ${mistaken}`)
    }
  })
})

describe('long schedules, by chance', () => {
  const SHAPES: WorldOptions[] = [
    { pages: 4, frames: 3 },
    { pages: 48, frames: 20, room: 5 },
    { pages: 13, frames: 6, room: 10, maximum: 2, periodUs: 0 },
    { pages: 32, frames: 16, room: 64, periodUs: 1000 },
  ]

  /** One step of chance. */
  function step(world: ResidencyWorld, random: Random): void {
    const page = random.below(world.pages)
    const at = random.below(Math.max(1, world.flying.length))
    const choice = random.below(100)
    if (choice < 15) world.map(page)
    else if (choice < 30) world.unmap(page)
    else if (choice < 45) world.access(page)
    else if (choice < 52) world.access(page, random.below(256))
    else if (choice < 65) world.pass(random.below(1500))
    else if (choice < 80) world.deliver(at)
    else if (choice < 85) world.deliver(at, true)
    else if (choice < 92) world.lose(at)
    else if (choice < 95) world.propose(11 + random.below(8))
    else if (choice < 96) world.connect()
    else if (choice < 97) world.restart()
    else if (choice < 98) world.fail(STATUS_UNAVAILABLE)
    else world.fail(STATUS_RESET)
  }

  function play(seed: number): ResidencyWorld {
    const random = new Random(seed)
    const world = new ResidencyWorld(SHAPES[seed % SHAPES.length])
    const steps = 50 + random.below(200)
    for (let i = 0; i < steps; i++) step(world, random)
    return world
  }

  test('P5-28, D-12, X-6: 600 seeds: never a wrong byte, always convergence', () => {
    const first = Number(process.env.RESIDENCY_SEED ?? 1)
    const last = process.env.RESIDENCY_SEED === undefined ? 600 : first
    const totals = { stale: 0, gaps: 0, forgotten: 0, asked: 0, hints: 0 }
    for (let seed = first; seed <= last; seed++) {
      const world = play(seed)
      const mistaken = quiet(world)
      if (mistaken.length > 0) expect.fail(`RESIDENCY_SEED=${seed}: pages ${mistaken}`)
      for (const name of Object.keys(totals) as (keyof typeof totals)[]) {
        totals[name] += world.known.counts[name]
      }
    }
    // The schedules are worth something: every defence was needed.
    if (first !== last) expect(Object.values(totals).every((count) => count > 30)).toBe(true)
  })

  test('the same seed is the same schedule', () => {
    const [one, other] = [play(42), play(42)]
    expect(one.flying).toEqual(other.flying)
    expect(one.known).toEqual(other.known)
  })
})

describe('P5-4, P5-6: what notices are good for', () => {
  test('a working set that is in memory is accessed without a hint and without a fault', () => {
    const world = new ResidencyWorld({ pages: 8, frames: 8 })
    for (let page = 0; page < 8; page++) world.map(page)
    world.settle()
    for (let i = 0; i < 100; i++) world.access(i % 8, i & 255)
    expect(world).toMatchObject({ faults: 0, trusted: 100 })
    expect(world.known.counts).toMatchObject({ hints: 0 })
  })

  test('P5-5, P5-25: a hint brings the page before its access', () => {
    const world = new ResidencyWorld({ pages: 8, frames: 4 })
    world.settle()
    for (let page = 0; page < 64; page++) {
      const next = (page + 1) % 8
      world.access(page % 8)
      if (!world.isMapped(next)) world.hint(next)
      world.settle()
    }
    // All but the first one: each is hinted at while the one before it is accessed.
    expect(world.faults).toBe(1)
  })
})
