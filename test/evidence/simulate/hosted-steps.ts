/**
 * The steps of a world whose card has a host of its own: what each does to the two machines.
 *
 * Invariant: a step takes all of its chance from the generator that it is given. Behind it
 * who asks for records of the card alone has been served, whatever the host did, unless the network
 * loses frames or the card has no power.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import { type Client, UP } from './client.ts'
import { put32 } from './frames.ts'
import type { HostedJudge } from './hosted-judge.ts'
import type { Class } from './judge.ts'
import { type Operation, operationOf } from './operation.ts'
import { type OwnHost, PARTIES, THROUGH, TROUBLES } from './own-host.ts'
import type { SimulatedWorld, Site } from './world.ts'

const METHOD_SET = 2
const SETTLE = 0x33
const SCAN = 0x32
/** Turns in which whatever goes on at all has come to its end. */
const TURNS = 60
/** Rounds in which a client of the card's own records is served. */
const SERVED_ROUNDS = 4
/** Longer than anybody waits for the host, µs. */
const LONG_US = 300_000

/** What a step of its own does with operations of clients. */
export interface Clients {
  work(world: SimulatedWorld, among: readonly Client[], random: Random): void
  record(world: SimulatedWorld, site: Site, client: Client, random: Random): Operation
}

/** Something happens to the host, while clients work. */
export function hostStep(world: SimulatedWorld, random: Random, clients: Clients): void {
  const site = world.sites[0]!
  const own = site.own!
  if (!own.isOn) comeBack(world, site, random)
  else if (own.trouble !== null && random.chance(0.5)) own.mend()
  else if (!own.isProven && random.chance(0.7)) repair(world, own, random)
  else happen(world, site, random, clients)
  clients.work(world, site.clients, random)
  own.disarm()
  if (random.chance(0.5)) judgeIfQuiet(world, site)
  serveNeighbour(world, site, random, clients)
}

function happen(world: SimulatedWorld, site: Site, random: Random, clients: Clients): void {
  const own = site.own!
  const kind = random.below(10)
  if (kind < 5) strike(world, site, random, clients)
  else if (kind === 5) worsen(world, site, random)
  else if (kind === 6) {
    own.attachAgent()
    world.count('another agent')
  } else if (kind === 7) operate(world, site, random)
  else if (kind === 8) {
    own.lose(random)
    world.count('host away')
  } else judgeIfQuiet(world, site)
}

/** Somebody goes at a step of what clients make the two machines do. */
function strike(world: SimulatedWorld, site: Site, random: Random, clients: Clients): void {
  const own = site.own!
  // Without an agent the host goes in its place.
  const drawn = PARTIES[random.below(PARTIES.length)]!
  const party = drawn === 'agent' && own.agents.length === 0 ? 'host' : drawn
  const atOnce = party === 'host' && random.chance(0.3)
  world.aim(site, random, false)
  mark(site)
  own.arm({ party, step: random.below(random.chance(0.5) ? 40 : 200), random, atOnce })
  clients.work(world, site.clients, random)
  if (random.chance(0.5)) own.work(TURNS)
  if (random.chance(0.7)) own.strikeNow()
  own.disarm()
  if (!own.struck) return
  site.went = party
  site.back = atOnce ? 'at once' : 'late'
  world.count(`${party} goes`)
  if (!own.isOn && random.chance(0.4)) comeBack(world, site, random)
  if (own.isOn && random.chance(0.4)) own.driverOn()
}

/** What is under way now may have been caught. */
function mark({ hosted }: Site): void {
  for (const { touched, records } of hosted) {
    for (const slot of touched) records[slot]!.touched = true
  }
}

/** The link goes wrong; now and then an operator is the first who meets it. */
function worsen(world: SimulatedWorld, site: Site, random: Random): void {
  const trouble = TROUBLES[random.below(TROUBLES.length)]!
  site.own!.worsen(trouble, random.fork())
  world.count(`host ${trouble}`)
  if (random.chance(0.4)) operate(world, site, random)
}

/** The host is switched on: as it was, or with its caches used the other way. */
function comeBack(world: SimulatedWorld, site: Site, random: Random): void {
  const own = site.own!
  if (random.chance(0.3)) {
    world.nowUs += LONG_US
    world.ticks()
    world.exchange(1, 32)
    return
  }
  const { ddio } = own.memory.platform
  const flips = random.chance(0.3)
  own.mend()
  own.comeBack(flips ? !ddio : ddio)
  if (flips) site.back = 'flipped'
  world.tell?.(`  the host is back${flips ? ', its caches used the other way' : ''}`)
  if (random.chance(0.6)) own.driverOn()
}

/** Whoever looks after the host has its driver begin again, or the machine. */
function repair(world: SimulatedWorld, own: OwnHost, random: Random): void {
  if (own.driverOn() && own.isProven) return
  if (!random.chance(0.5)) return
  own.lose(random)
  world.count('host reset')
}

/** An operator has a record scanned, or would give one up: none is lost, so all of them stay. */
function operate(world: SimulatedWorld, site: Site, random: Random): void {
  const { card, path, hosted } = site
  const { layout } = hosted[random.below(hosted.length)]!
  const slot = random.below(layout.slots)
  const gives = random.chance(0.6)
  card.ask(path, ++world.tick, METHOD_SET, gives ? SETTLE : SCAN, 0, (body) => {
    put32(body, 0, layout.id)
    put32(body, 4, slot)
    if (gives) body[8] = 1
  })
  world.count(gives ? 'asked to give up' : 'scanned')
}

/** Where all is there, and nobody has anything to do, the records are what they are for good. */
function judgeIfQuiet(world: SimulatedWorld, site: Site): boolean {
  const own = site.own!
  const judge = site.hosted.find(({ placement }) => own.isWellFor(placement))
  if (judge === undefined || !site.card.isOn || !own.work(TURNS)) return false
  if (!own.isWellFor(judge.placement) || !site.card.isOn) return false
  noteCell(world, site, judge, judge.judgeQuiet(++world.tick))
  return true
}

function noteCell(world: SimulatedWorld, site: Site, { name }: HostedJudge, became: Class): void {
  if (site.went === null || became === 'nothing') return
  const cell = `${site.went} × ${name} × ${site.back} × ${became}`
  world.cells[cell] = (world.cells[cell] ?? 0) + 1
  site.went = null
}

/** A client of the card's own records is served whatever the host does. */
function serveNeighbour(world: SimulatedWorld, site: Site, random: Random, clients: Clients): void {
  if (world.shape.network > 0 || !site.card.isOn) return
  const local = site.clients.filter((client) => world.isLocal(client))
  const client = local[random.below(local.length)]!
  reach(world, site, client)
  if (!site.card.isOn) return
  if (client.state !== UP) {
    world.blame(`client ${client.index} cannot connect, and asks for records of the card alone`)
    return
  }
  const operation = clients.record(world, site, client, random)
  world.operations += 1
  client.post(operation)
  world.exchange(SERVED_ROUNDS, 32)
  if (!site.card.isOn || operation.version!.firstEnd !== Infinity) return
  world.blame(`client ${client.index} is not served, and asks for records of the card alone`)
}

/** Who has not noticed that the card was started is not heard: that client connects again. */
function reach(world: SimulatedWorld, site: Site, client: Client): void {
  if (client.state === UP && site.connections.has(client.connection!.peer)) return
  client.connect()
  world.exchange(SERVED_ROUNDS, 32)
}

/** Operations that wait for the host end, whichever way its caches are used. */
export function settleHost(world: SimulatedWorld, site: Site, ddio: boolean): void {
  const own = site.own!
  own.mend()
  own.lose(world.chance)
  own.comeBack(ddio)
  if (!own.driverOn() || !own.isProven) world.blame('a host that is well is not taken')
}

/**
 * When all has ended: every record of the host is one, in either way in which its caches are used,
 * and shown to who asks; and it is still so behind a cut of both machines.
 */
export async function finishHost(world: SimulatedWorld, site: Site): Promise<void> {
  const own = site.own!
  const isThrough = own.placement === THROUGH
  const ways = [isThrough, !isThrough, isThrough, !isThrough]
  for (const [i, ddio] of ways.entries()) {
    if (i > 0) {
      if (i === 2) await cutBoth(world, site)
      settleHost(world, site, ddio)
    }
    for (const { touched, records } of site.hosted) {
      for (const { slot } of records) touched.add(slot)
    }
    if (world.violation !== null) return
    if (!judgeIfQuiet(world, site)) world.blame('the host does not come to rest')
    readAll(world, site)
    if (world.violation !== null) return
  }
}

async function cutBoth(world: SimulatedWorld, site: Site): Promise<void> {
  world.aim(site, world.chance, false)
  site.own!.goesWithCard = true
  site.card.cutNow()
  await world.restart(site, world.chance, 0)
  world.exchange(2, 32)
  world.ticks()
  world.exchange(2, 32)
}

/**
 * Every record of the host is read, and has to be shown: where it is set up the other way, unless
 * the record waits since the last start for when it is not.
 */
function readAll(world: SimulatedWorld, site: Site): void {
  const client = site.clients.find((one) => !world.isLocal(one))
  if (client === undefined) return
  reach(world, site, client)
  for (const [region, judge] of site.hosted.entries()) {
    if (judge.mayHide && !site.own!.isWellFor(judge.placement)) continue
    for (const { register, slot } of judge.records) {
      const length = world.shape.capacity
      const begun = ++world.tick
      const read = operationOf({ kind: 'read', region: region + 1, slot, register, length, begun })
      if (client.state === UP) client.post(read)
      world.exchange(2, 32)
      if (read.got === length || world.violation !== null) continue
      world.blame(`${site.hosted[region]!.name}: record ${slot} is not shown when all is back`)
      return
    }
  }
}
