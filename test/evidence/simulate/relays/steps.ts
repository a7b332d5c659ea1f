/**
 * The steps of a world whose cards relay to each other: what happens to relays, to the wire between
 * the cards, and to who may relay, while clients work.
 *
 * Invariant: a step takes all of its chance from the generator that it is given.
 */

import type { Random } from '../../../../boards/emulator/base/random.ts'
import { type Client, UP } from '../client.ts'
import type { SimulatedWorld, Site } from '../world.ts'
import type { Care } from './care.ts'

/** What is done to relays, by name: figures of the stage. */
export const RELAY_EVENTS = [
  'line of a card goes',
  'line of a card comes',
  'relay detached',
  'relay asked for again',
  'both cards go',
  'card away',
  'wire cut',
  'sessions over',
  'relay broken',
  'relay PASS',
] as const

type Work = (world: SimulatedWorld, among: readonly Client[], random: Random) => void

/** Time passes in pieces, in each of which everybody looks at the clock, µs. */
export const SLICE_US = 250_000
/** Longer than a link takes that is not answered: 10 s of the requester, 5 s of the goodbye. */
const DEAD_US = 20_000_000
/** An hour and more: sessions are replaced. Two hours and more: they are over. */
const AGES_US = [3_700_000_000, 7_300_000_000] as const
/**
 * Rounds in which a record goes on to the other card, and its answer comes back: a client that
 * looks at the clock before that asks for what it has just sent.
 */
const RELAYED_ROUNDS = 6
/** In the end: rounds as long as those of other worlds, and as slices. */
const ROUNDS = 80
const SLICES = 240

/** So much time passes for everybody. */
export function slices(world: SimulatedWorld, us: number): void {
  for (let left = us; left > 0 && world.violation === null; left -= SLICE_US) {
    world.nowUs += Math.min(left, SLICE_US)
    for (const site of world.sites) world.idle(site)
    world.ticks()
    world.exchange(RELAYED_ROUNDS, 32)
  }
}

export function relayStep(
  world: SimulatedWorld,
  care: Care<Site>,
  random: Random,
  { work }: { readonly work: Work },
): void {
  const site = world.sites[random.below(world.sites.length)]!
  work(world, world.clients, random)
  if (random.chance(0.3)) care.cut = null
  happen(world, care, site, random, work)
  work(world, world.clients, random)
  for (const one of world.sites) if (random.chance(0.5)) care.changeLine(one, true)
  if (random.chance(0.4)) slices(world, random.chance(0.5) ? 1_000_000 : DEAD_US)
}

function happen(
  world: SimulatedWorld,
  care: Care<Site>,
  site: Site,
  random: Random,
  work: Work,
): void {
  switch (random.below(9)) {
    case 0:
      care.changeLine(site, false)
      // What goes on is for nobody.
      for (let i = 0; i < 3; i++) work(world, care.before(site).clients, random)
      break
    case 1:
      care.changeLine(site, false)
      care.changeLine(site, true)
      break
    case 2:
      world.count('relay detached')
      care.detach(site, site.clients[random.below(site.clients.length)]!)
      break
    case 3:
      world.count('relay asked for again')
      for (const client of site.clients) care.ask(site, client)
      break
    case 4:
      bothGo(world, random)
      break
    case 5:
      cardAway(world, site, random)
      break
    case 6:
    case 7:
      cutWire(world, care, site, random)
      break
    default:
      world.count('sessions over')
      world.nowUs += AGES_US[random.below(AGES_US.length)]!
  }
}

/** All cards go at once: each inside its own commands, or between two. */
function bothGo(world: SimulatedWorld, random: Random): void {
  world.count('both cards go')
  for (const site of world.sites) {
    if (!site.card.isOn) continue
    world.aim(site, random, false)
    site.card.machine!.armCut(random.below(60), random.chance(0.4) ? 0 : 8 * (1 + random.below(24)))
  }
  world.exchange(1 + random.below(3), 32)
  for (const { card } of world.sites) if (card.isOn) card.cutNow()
}

/** A card is off for as long as others need to find that out, or not quite. */
function cardAway(world: SimulatedWorld, site: Site, random: Random): void {
  if (!site.card.isOn) return
  world.count('card away')
  world.aim(site, random, false)
  if (random.chance(0.5)) site.card.machine!.armCutInGroup(random.fork())
  world.exchange(2, 32)
  if (site.card.isOn) site.card.cutNow()
  slices(world, random.chance(0.5) ? 2 * SLICE_US : DEAD_US)
}

/** One way, or both. */
function cutWire(world: SimulatedWorld, care: Care<Site>, site: Site, random: Random): void {
  world.count('wire cut')
  const [near, far] = [site.card.index, care.next(site).card.index]
  const [from, to] = random.chance(0.5) ? [near, far] : [far, near]
  care.cut = { from, to, both: random.chance(0.4) }
}

/** No fault any more: every relay is there again, and every operation ends. */
export async function settleRelays(
  world: SimulatedWorld,
  care: Care<Site>,
  random: Random,
): Promise<void> {
  care.cut = null
  for (let round = 0; round < ROUNDS + SLICES && world.violation === null; round++) {
    // A cut that waited for its command may have met it.
    for (const site of world.sites) if (!site.card.isOn) await world.restart(site, random, 0)
    for (const site of world.sites) care.changeLine(site, true)
    if (round < ROUNDS) {
      world.nowUs += 1_100
      world.ticks()
      world.exchange(RELAYED_ROUNDS, 32)
      for (const site of world.sites) world.idle(site)
    } else slices(world, SLICE_US)
    const isOver = world.clients.every(({ state, isIdle }) => state === UP && isIdle)
    if (!isOver || !care.isWell) continue
    await lookAtAll(world, random)
    return
  }
  world.blameUnfinished()
  if (!care.isWell) world.blame('a relay does not come back')
}

/** A cut of each, behind which its medium is judged. */
async function lookAtAll(world: SimulatedWorld, random: Random): Promise<void> {
  for (const site of world.sites) {
    if (world.violation !== null) return
    world.aim(site, random, false)
    site.card.cutNow()
    await world.restart(site, random, 0)
  }
}
