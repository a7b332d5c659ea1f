/**
 * The steps of a script: what each does to a simulated world.
 *
 * Invariant: a step takes all of its chance from the generator that it is given, and leaves
 * every card on.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { LANES, LANES_AT, sameBytes } from '../../support/judges/oracle.ts'
import { type Client, UP } from './client.ts'
import { get32 } from './frames.ts'
import { type Clients, finishHost, hostStep, settleHost } from './hosted-steps.ts'
import { BATCH_CELL, CELLS, type RecordState } from './judge.ts'
import {
  copyAt,
  SEVERAL,
  type Structure,
  sequenceAt,
  structureOf,
  TABLE_AT,
  WHILE_IT_SERVES,
} from './medium.ts'
import {
  type Batch,
  CELL_BYTES,
  KINDS,
  type Kind,
  type Operation,
  operationOf,
} from './operation.ts'
import { THROUGH } from './own-host.ts'
import { relayStep, SLICE_US, settleRelays, slices } from './relays/steps.ts'
import { KEPT_BYTES, type Step } from './shape.ts'
import { judgeOf, type SimulatedWorld, type Site } from './world.ts'

const BURSTS = [1, 1, 2, 3, 5, 8, 12, 16]
/** Operations that a client has under way, at the most. */
const UNDER_WAY = 24
const PASSES_US = [400, 1_100, 1_100, 1_600, 5_000, 700_000, 3_000_000]
/** An agent that is silent for so long is taken for gone. */
const AGENT_SILENT_US = 500_000
/** The condition "expect". */
const EXPECT = 2
const LINE_BYTES = 64
const METHOD_GET = 1
const METHOD_SET = 2
const SETTLE = 0x33
const SCAN = 0x32
/** In the answer of SCAN: where the next one begins. */
const SCAN_NEXT_AT = 8
const STATUS = 0x10
const COUNTERS = 0x31
const REPORT = 0x30

function oneOf<T>(random: Random, of: readonly T[]): T {
  return of[random.below(of.length)]!
}

export async function playStep(world: SimulatedWorld, step: Step, random: Random): Promise<void> {
  switch (step) {
    case 'work':
      work(world, world.clients, random)
      break
    case 'cut':
      cutPower(world, random)
      break
    case 'pass':
      pass(world, random)
      break
    case 'fault':
      fault(world, oneOf(random, world.sites), random)
      break
    case 'heal':
      heal(world, oneOf(random, world.sites), random)
      break
    case 'die':
      die(world, random)
      break
    case 'replay':
      for (const { card } of world.sites) {
        for (let i = 0; i < 4; i++) if (card.isOn) world.network.replay(card.inbox)
      }
      world.exchange(1, 32)
      break
    case 'host':
      hostStep(world, random, CLIENTS)
      break
    case 'relay':
      relayStep(world, world.care!, random, CLIENTS)
      break
    default:
      control(world, oneOf(random, world.sites), random)
  }
  // What goes to and fro behind one start may bring another card to the cut that waits for it.
  for (;;) {
    const site = world.sites.find(({ card }) => !card.isOn)
    if (site === undefined) break
    await world.restart(site, random, random.chance(0.15) ? 1 + random.below(3) : 0)
    if (site.own !== null && random.chance(0.5)) site.own.driverOn()
    world.exchange(2, 32)
  }
}

/** In an attacked world a burst in so many is the last one of its connection. */
const AGAIN_SHARE = 12

/** Some clients post bursts, and frames go to and fro. */
function work(world: SimulatedWorld, among: readonly Client[], random: Random): void {
  const count = 1 + random.below(3)
  for (let i = 0; i < count; i++) {
    const client = oneOf(random, among)
    if (client.state !== UP) {
      world.ticks()
      continue
    }
    const burst = oneOf(random, BURSTS)
    for (let j = 0; j < burst && client.state === UP && client.underWay < UNDER_WAY; j++) {
      post(world, client, random)
    }
    const { end, state } = client
    // Who has a session may connect again before anything of it was answered.
    if (end !== null && state === UP && random.below(AGAIN_SHARE) === 0) client.connect()
  }
  const most = random.chance(0.8) ? 32 : 1 + random.below(8)
  world.exchange(1 + random.below(3), most)
}

/** What steps of the host let clients do. */
const CLIENTS: Clients = {
  work,
  record: (world, site, client, random) =>
    recordOf(world, site, client, random, 'persist', world.shape.capacity, 0),
}

/** A new operation of the client, of a kind that this world has. */
function post(world: SimulatedWorld, client: Client, random: Random): void {
  const kind = drawKind(world, random)
  const site = world.sites[client.card]!
  world.operations += 1
  if (kind === 'batch') postBatch(world, site, client, random)
  else if (kind === 'read' || kind === 'wrong')
    client.post(plain(world, site, client, kind, random))
  else if (kind === 'query') postQuery(world, client, random)
  else if (kind === 'stops') {
    if (world.shape.capacity <= world.mtu) return
    const { capacity } = world.shape
    const region = regionFor(world, client, random)
    const stopped = recordOf(world, site, client, random, kind, capacity, region)
    stopped.version!.refused = true
    client.post(stopped)
    client.connect()
  } else if (kind === 'persist' || kind === 'carried' || kind === 'record') {
    const length = oneOf(random, [1, 1, 2]) === 1 ? world.shape.capacity : lengthOf(world, random)
    const region = regionFor(world, client, random, kind === 'record' ? kind : 'persist')
    client.post(recordOf(world, site, client, random, kind, length, region))
  } else postCell(world, site, client, random, kind)
}

function drawKind({ shape }: SimulatedWorld, random: Random): Kind {
  let drawn = random.below(shape.mix.reduce((sum, weight) => sum + weight, 0))
  for (let i = 0; i < KINDS.length; i++) {
    drawn -= shape.mix[i]!
    if (drawn < 0) return KINDS[i]!
  }
  return 'persist'
}

function lengthOf({ shape }: SimulatedWorld, random: Random): number {
  return 4 + random.below(shape.capacity - 3)
}

/** Of a host's records most, and of a relay's, which takes nothing but durable records. */
function regionFor(
  world: SimulatedWorld,
  client: Client,
  random: Random,
  kind: Kind = 'persist',
): number {
  if (world.isLocal(client)) return 0
  if (!world.hasRelays) return oneOf(random, [0, 1, 1, 2, 2, 2])
  return kind === 'persist' ? oneOf(random, [0, 1, 1]) : 0
}

function plain(
  world: SimulatedWorld,
  site: Site,
  client: Client,
  kind: Kind,
  random: Random,
): Operation {
  const slot = random.below(world.shape.slots)
  const region = regionFor(world, client, random, kind)
  const { register } = judgeOf(site, { region }).records[slot]!
  const length = kind === 'read' ? world.shape.capacity : 0
  return operationOf({
    kind,
    region,
    slot,
    register,
    length,
    value: random.below(1 << 20),
    begun: world.tick,
  })
}

/** A new version of a record, under the next operation of the client. */
function recordOf(
  world: SimulatedWorld,
  site: Site,
  client: Client,
  random: Random,
  kind: Kind,
  length: number,
  region: number,
  slot: number = random.below(world.shape.slots),
): Operation {
  const { register } = judgeOf(site, { region }).records[slot]!
  const id = kind === 'record' ? 0 : ++client.operations
  world.uids += 1
  world.tick += 1
  const version = register.begin(world.uids, length, client.id, id, world.tick)
  const wait = 1 + random.below(world.copies)
  version.wait = wait
  if (world.care !== null && region > 0) version.names = world.care.names[client.card]!
  const begun = world.tick
  return operationOf({ kind, register, version, region, slot, length, id, wait, begun })
}

/** Up to eight records of distinct slots under one status; or seven, and a cell. */
function postBatch(world: SimulatedWorld, site: Site, client: Client, random: Random): void {
  const condition = random.below(3)
  const count = Math.min(world.shape.slots, 1 + random.below(8))
  const slots = Array.from({ length: world.shape.slots }, (_, i) => i)
  world.batches += 1
  const batch: Batch = { id: world.batches & 0xffff, condition, count, members: [] }
  const wait = 1 + random.below(world.copies)
  const region = regionFor(world, client, random)
  const { part, layout } = judgeOf(site, { region })
  for (let index = 0; index < count; index++) {
    const slot = slots.splice(random.below(slots.length), 1)[0]!
    const length = lengthOf(world, random)
    const member = recordOf(world, site, client, random, 'batch', length, region, slot)
    const operation = { ...member, wait }
    operation.version!.wait = wait
    operation.batch = batch
    operation.index = index
    if (condition === EXPECT) {
      operation.expect = sequenceAt(part, copyAt(layout, 0, slot))
    }
    batch.members.push(operation)
  }
  if (world.shape.bytes === KEPT_BYTES && count > 1 && client.operations % 3 === 0) {
    putCell(world, site, client, batch)
  }
  world.operations += count - 1
  for (const operation of batch.members) if (client.state === UP) client.post(operation)
}

/** One of the records, whose write never began, makes way for a cell that batches alone write. */
function putCell(world: SimulatedWorld, site: Site, client: Client, batch: Batch): void {
  const index = batch.members.length >> 1
  const { id, version, begun } = batch.members[index]!
  version!.refused = true
  version!.open = false
  const place = site.clients.indexOf(client) * CELLS + BATCH_CELL
  const cell = site.judge.cells[place]!
  cell.issued += 1
  const expect = batch.condition === EXPECT ? ([0, 0] as const) : null
  const fields = { id, begun, batch, index, expect, wait: 1, length: CELL_BYTES }
  const member = { ...fields, cell: place, value: cell.issued }
  batch.members[index] = operationOf({ kind: 'batch', ...member })
  world.count('batch of records and bytes')
}

/** Asks for an operation that may be long done, or not be at all. */
function postQuery(world: SimulatedWorld, client: Client, random: Random): void {
  const { operationsBefore } = world.shape
  const id = operationsBefore + 1 + random.below(client.operations - operationsBefore + 1)
  const target = operationOf({ kind: 'query', id, begun: world.tick })
  client.post(operationOf({ kind: 'query', target, begun: world.tick }))
}

function postCell(
  world: SimulatedWorld,
  { judge, clients }: Site,
  client: Client,
  random: Random,
  kind: Kind,
): void {
  const base = clients.indexOf(client) * CELLS
  const begun = world.tick
  if (kind === 'look') {
    // A status may overtake the answer: what was durable of a batch as the look was asked for.
    const value = judge.cells[base + BATCH_CELL]!.floor
    client.post(operationOf({ kind, cell: base, length: CELLS * 8, value, begun }))
    return
  }
  // A cell of a batch that was refused was issued, and is not there.
  const known = (i: number): number => (i === BATCH_CELL ? 0 : judge.cells[base + i]!.issued)
  const snapshot = Int32Array.from({ length: CELLS }, (_, i) => known(i))
  if (kind === 'flush') {
    client.post(operationOf({ kind, cell: base, snapshot, begun }))
    return
  }
  const place = kind === 'write' ? random.below(4) : kind === 'add' ? 4 : kind === 'swap' ? 5 : 6
  const cell = judge.cells[base + place]!
  cell.issued += 1
  const operation = operationOf({ kind, cell: base + place, value: cell.issued, begun })
  client.post(operation)
}

/** The power of one card goes: inside a burst, inside the commit of a group, or between two. */
function cutPower(world: SimulatedWorld, random: Random): void {
  const site = oneOf(random, world.sites)
  const { card } = site
  const style = random.below(10)
  const adrFail = world.shape.adr && random.chance(0.1)
  if (site.own !== null) site.own.goesWithCard = random.chance(0.3)
  if (adrFail) loseEnergy(world, site)
  world.aim(site, random, adrFail)
  if (style < 5) {
    const bytes = random.chance(0.4) ? 0 : 8 * (1 + random.below(24))
    card.machine!.armCut(random.below(60), bytes)
  } else if (style < 9) card.machine!.armCutInGroup(random.fork())
  if (style < 9) work(world, world.hasRelays ? world.clients : site.clients, random)
  if (card.isOn && (style === 9 || adrFail || random.chance(0.5))) card.cutNow()
  if (world.shape.media && !card.isOn && random.chance(0.3)) poisonRecord(world, site, random)
}

/** What was saved is not what was there: nobody goes on with what he had under way. */
function loseEnergy(world: SimulatedWorld, site: Site): void {
  const { judge, clients } = site
  site.isForgiven = true
  for (const client of clients) client.die(world.nextHostId())
  judge.amnesty()
}

function pass(world: SimulatedWorld, random: Random): void {
  const passedUs = oneOf(random, PASSES_US)
  if (world.hasRelays && passedUs > SLICE_US) slices(world, passedUs)
  world.nowUs += passedUs
  world.ticks()
  for (const site of world.sites) {
    for (let i = 0; i <= random.below(3); i++) world.idle(site)
    // No agent had a turn meanwhile: what it was asked makes the card take it for gone.
    if (passedUs > AGENT_SILENT_US && site.own?.isWellFor(THROUGH) === true) site.own.attachAgent()
  }
  world.exchange(2, 32)
}

function die(world: SimulatedWorld, random: Random): void {
  const { host } = oneOf(random, world.clients)
  for (const client of world.clients) {
    if (client.host !== host) continue
    client.die(world.nextHostId())
    client.connect()
  }
  world.exchange(1, 32)
}

function fault(world: SimulatedWorld, site: Site, random: Random): void {
  const { media, health } = world.shape
  if (media && (!health || random.chance(0.6))) mediaFault(world, site, random)
  else if (health) healthFault(world, site, random)
}

function mediaFault(world: SimulatedWorld, site: Site, random: Random): void {
  const { part } = site.card
  const kind = random.below(10)
  if (world.shape.full && kind === 6) poisonMost(world, site, random)
  else if (world.shape.full && kind < 6) {
    for (let i = random.below(16); i >= 0; i--) poisonRecord(world, site, random)
  } else if (kind < 6) poisonRecord(world, site, random)
  else if (kind < 8) {
    const line = LANES_AT / LINE_BYTES + random.below(LANES)
    site.judge.noteLane(part.live.slice(line * LINE_BYTES, (line + 1) * LINE_BYTES))
    part.poison(line)
    noteHit(world, site, 'lane')
  } else if (kind === 8) {
    // One page of the superblock, while the other is whole.
    const page = random.below(2)
    if (!isWhole(part, (1 - page) * 4096, 4096)) return
    part.poison(page * 64 + random.below(12))
    noteHit(world, site, 'superblock')
  } else poisonTable(world, site, random)
}

/** Counts what was hit, whether its card serves, and whether other structures are hit, too. */
function noteHit(world: SimulatedWorld, { card }: Site, structure: Structure): void {
  const how = card.isOn ? WHILE_IT_SERVES : ' hit'
  const hit = new Set(card.part.faulty().map(structureOf))
  world.count(`${structure}${how}`)
  if (hit.size > 1) world.count(`${SEVERAL}${how}`)
}

/** Can it be read, and is it durable as it is? Behind a fence that failed it is not. */
function isWhole(part: Nvdimm, at: number, bytes: number): boolean {
  const seen = part.live.subarray(at, at + bytes)
  return part.readable(at, bytes) && sameBytes(seen, part.durable.subarray(at, at + bytes))
}

/** A line of the operation table, or both of one of the clients: as they repeat what they asked. */
function poisonTable(world: SimulatedWorld, site: Site, random: Random): void {
  const both = random.chance(0.5)
  const place = random.below(both ? 16 : 128)
  for (const which of both ? [0, 1] : [random.below(2)]) {
    site.card.part.poison(TABLE_AT / LINE_BYTES + 2 * place + which)
  }
  noteHit(world, site, 'table')
}

/** A line of one copy of a record, now and then of every copy. */
function poisonRecord(world: SimulatedWorld, site: Site, random: Random): void {
  const { layout, touched } = site.judge
  const among = touched.size > 0 && random.chance(0.6) ? [...touched] : []
  const slot = among.length > 0 ? oneOf(random, among) : random.below(layout.slots)
  // A region with a copy that refuses takes no writes: it would never fill up.
  const refuses = random.chance(world.shape.full ? 0.005 : 0.2)
  const every = random.chance(world.shape.full ? 0.2 : 0.08)
  hitRecord(world, site, random, { slot, refuses, every })
}

/** Most records lose every copy: they are more than the list of the lost has places for. */
function poisonMost(world: SimulatedWorld, site: Site, random: Random): void {
  for (let slot = 0; slot < site.judge.layout.slots; slot++) {
    if (random.chance(0.9)) hitRecord(world, site, random, { slot, refuses: false, every: true })
  }
}

interface Hit {
  readonly slot: number
  /** The line takes no stores, or else it cannot be read. */
  readonly refuses: boolean
  readonly every: boolean
}

function hitRecord(
  world: SimulatedWorld,
  site: Site,
  random: Random,
  { slot, refuses, every }: Hit,
): void {
  const { judge, card } = site
  const { layout } = judge
  const one = random.below(layout.copies)
  for (let c = 0; c < layout.copies; c++) {
    if (!every && c !== one) continue
    const line = copyAt(layout, c, slot) / LINE_BYTES + random.below(layout.stride / LINE_BYTES)
    if (refuses) card.part.refuseWrites(line)
    else card.part.poison(line)
  }
  noteHit(world, site, 'record')
  world.tell?.(
    `  ${refuses ? 'refusing' : 'poisoned'} record ${slot}, copy ${every ? 'every' : one}`,
  )
  judge.noteDamage(judge.records[slot]!)
}

function healthFault(world: SimulatedWorld, site: Site, random: Random): void {
  const { part } = site.card
  const kind = random.below(3)
  if (kind === 0) {
    world.count('not armed')
    part.armed = false
  } else if (kind === 1) {
    world.count('fence failed')
    part.fencesToFail = 1
    site.isClosed = true
  } else {
    world.count('save failed')
    // The table of operations is void: who would ask for one again would have it done twice.
    for (const client of site.clients) client.die(world.nextHostId())
    part.failSave()
    site.saveFailed = true
    world.aim(site, random, false)
    site.card.cutNow()
  }
}

/** An operator mends what is wrong with the part; what a start decided needs another one. */
function heal(world: SimulatedWorld, site: Site, random: Random): void {
  const { card } = site
  const { part } = card
  const needsStart = site.isClosed || site.saveFailed
  part.armed = true
  part.fencesToFail = 0
  part.failSave(false)
  site.isClosed = false
  site.saveFailed = false
  for (const line of part.faulty()) part.refuseWrites(line, false)
  if (needsStart) {
    world.aim(site, random, false)
    card.cutNow()
  } else if (!site.isJudged) {
    // It starts by itself, as it has its energy now.
    card.serve(0, world.nowUs)
    const status = card.isOn ? card.status(site.path, world.nowUs) : null
    if (status !== null) world.judgeStart(site, status)
  }
}

/** An operator asks how things are, has a region scanned, gives up what is lost. */
function control(world: SimulatedWorld, site: Site, random: Random): void {
  const { card, judge, path } = site
  const kind = random.below(4)
  if (kind === 0) card.ask(path, world.tick, METHOD_GET, STATUS, 0, () => {})
  else if (kind === 1) card.ask(path, world.tick, METHOD_GET, COUNTERS, random.below(60), () => {})
  else if (kind === 2) card.ask(path, world.tick, METHOD_GET, REPORT, random.below(4), () => {})
  else scan(world, site)
  for (const record of judge.records) if (record.lost && card.isOn) giveUp(world, site, record)
}

/** A record that is lost becomes blank: at once, at the next start where the power goes, or not. */
function giveUp(world: SimulatedWorld, site: Site, record: RecordState): void {
  const { card, judge, path } = site
  const blank = judge.discarding(record, ++world.tick)
  const answer = card.ask(path, world.tick, METHOD_SET, SETTLE, 0, (request) => {
    putWord(request, 0, judge.layout.id)
    putWord(request, 4, record.slot)
    request[8] = 1
  })
  if (answer === null) world.tell?.(`  the power goes as record ${record.slot} is given up`)
  else if (answer.fault === 0) {
    world.tell?.(`  record ${record.slot} is given up`)
    judge.discarded(record, blank, ++world.tick)
  } else {
    const { name } = FAULTS[answer.fault]!
    world.tell?.(`  record ${record.slot} is not given up: ${name}`)
    world.count(`not given up: ${name}`)
    if (card.part.armed && !site.isClosed && !site.saveFailed && !record.refuses) {
      world.blame(`record ${record.slot} cannot be given up: ${name}, and nothing is the matter`)
    }
  }
}

/** Slice by slice: each answer says where the next one begins. */
function scan(world: SimulatedWorld, { card, judge, path }: Site): void {
  for (const record of judge.records) if (record.damage > 0) judge.touched.add(record.slot)
  const { id, slots } = judge.layout
  for (let next = 0; next < slots && card.isOn; ) {
    const answer = card.ask(path, world.tick, METHOD_SET, SCAN, 0, (request) => {
      putWord(request, 0, id)
      putWord(request, 4, next)
    })
    if (answer === null || answer.fault !== 0) return
    const from = get32(answer.body, SCAN_NEXT_AT)
    if (from <= next) {
      world.blame(`a scan from record ${next} goes on from ${from}`)
      return
    }
    next = from
  }
}

function putWord(bytes: Uint8Array, at: number, value: number): void {
  for (let i = 0; i < 4; i++) bytes[at + i] = value >>> (24 - 8 * i)
}

/** Virtual time in which everything ends once nothing goes wrong any more. */
const ROUNDS = 80
/** Of a card with a host: until that is reset, with its caches used the other way. */
const WAY_ROUNDS = 40

/** No fault any more: every operation has to end (O6). */
export async function settle(world: SimulatedWorld): Promise<void> {
  world.network.quiet = true
  world.network.drain()
  const random = new Random(world.tick)
  for (const site of world.sites) {
    heal(world, site, random)
    // A relay finds its way back by itself, too.
    if (world.hasRelays && site.card.isOn && random.chance(0.5)) continue
    // A cut that waits for its command waits forever.
    if (site.card.isOn) {
      world.aim(site, random, false)
      site.card.cutNow()
    }
    await world.restart(site, random, 0)
  }
  if (world.isOver) return
  if (world.care !== null) {
    await settleRelays(world, world.care, random)
    return
  }
  for (let round = 0; round < ROUNDS && world.violation === null; round++) {
    // What waits for the host's caches to be used one way or the other: both have their time.
    if (round % WAY_ROUNDS === 0) {
      for (const site of world.sites) if (site.own !== null) settleHost(world, site, round > 0)
    }
    world.nowUs += 1_100
    world.ticks()
    world.exchange(3, 32)
    for (const site of world.sites) world.idle(site)
    if (!world.clients.every((client) => client.state === UP && client.isIdle)) continue
    for (const site of world.sites) if (site.own !== null) await finishHost(world, site)
    return
  }
  world.blameUnfinished()
}
