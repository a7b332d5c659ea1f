/**
 * A card with a region in the host's memory: its probe, its crashes, and what they leave.
 *
 * Invariant: host and card lose power together, unless it is the host alone
 * (`restartHost`); every image that is judged is one that both memories may hold after that cut.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  type HostReturn,
  type Platform,
} from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { imageCount, images } from '../../../boards/emulator/medium/images.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CUT_STRATEGIES, type CutChoice, cut } from '../../../boards/emulator/medium/power-cut.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { VIEW_FIRST_COPY } from '../../../firmware/burst/view.ts'
import {
  HOST_DATA_AT,
  HOST_PROBE_AT,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
} from '../../../firmware/medium/region.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { MemoryPiece } from '../../../host-driver/base/pieces.ts'
import {
  type HostMemory as AgentMemory,
  type AgentQueues,
  FlushAgent,
} from '../../../host-driver/target/flush-agent.ts'
import type { HostCpu, PlacementControl } from '../../../host-driver/target/registrar.ts'
import { RawAgentQueues } from '../queues/agent-host.ts'
import { QueueHost } from '../queues/queue-host.ts'
import {
  dataOf,
  type RegionShape,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
  withPassingCards,
} from './test-card.ts'

export const PART_BYTES: number = 1 << 16
export const HOST_BYTES: number = 1 << 15
const RAM_BYTES = 1 << 17
export const SEED: number = Number(process.env.SEED ?? 20261121)

/** What a record is before a test writes it, and what it writes. */
export const OLD: Uint8Array = dataOf(64, 1)
export const NEW: Uint8Array = dataOf(64, 2)

/** Of a cut: nothing that was not durable survives. */
export const NOTHING: CutChoice = { random: new Random(SEED), strategy: 'none' }

/** What stands there: OLD, NEW, something else, or refused. */
export function say(bytes: Uint8Array | null): string {
  if (bytes === null) return 'refused'
  const is = (other: Uint8Array): boolean => Buffer.compare(bytes, other) === 0
  return is(NEW) ? 'new' : is(OLD) ? 'old' : 'other'
}

/** More images at one command than this are sampled. */
const IMAGES_MAX = 1024

/** The host's CPU as the registrar wants it. */
export function cpuOf(host: HostMemory): HostCpu {
  return {
    statesAdr: host.platform.statesAdr,
    load: (at, length) => host.load(at, length),
    evict: (at, length) => host.evict(at, length),
  }
}

/** The control calls of a card as the registrar wants them. */
export function controlOf(card: TestCard): PlacementControl {
  return {
    probe: async () => {
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
    },
    place: async (seen, statesAdr, number) => {
      place(card, seen, statesAdr, number)
    },
  }
}

/** Tells the card what the CPU has seen; what it refuses is an error. */
export function place(card: TestCard, seen: number, adr: boolean, number: Uint8Array): void {
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_PLACE, (body) => {
    body[mad.PLACE_PLACEMENT] = seen
    body[mad.PLACE_ADR] = adr ? 1 : 0
    body.set(number, mad.PLACE_NUMBER_HIGH)
  })
}

/**
 * Says that the probe has shown `seen`, whatever the platform is like. `probeAt`: where its page
 * lies in the host's memory; `name` puts into the call which pieces that has.
 */
export function believe(
  card: TestCard,
  seen: number,
  probeAt: number = HOST_PROBE_AT,
  name?: (request: Uint8Array) => void,
): void {
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE, name)
  place(card, seen, true, card.host!.load(probeAt, 8).bytes!)
}

/** The flush agent of a card whose placement is proven, attached at once. */
export function attachedAgent(
  card: TestCard,
  queues: RawAgentQueues = new RawAgentQueues(queueHostOf(card)),
  memory: AgentMemory = hostSideOf(card),
): Agent {
  const agent = new Agent(card, queues, memory)
  const { sendQueue } = queues
  const answer = tellAgent(card, mad.AGENT_ATTACH, sendQueue, memory)
  agent.begin(u32(answer, mad.AGENT_FIRST_REQUEST))
  return agent
}

/** A flush agent whose parts a test may take hold of, or replace. */
export class Agent extends FlushAgent {
  readonly queues: RawAgentQueues

  constructor(
    card: TestCard,
    queues: RawAgentQueues,
    memory: AgentMemory = hostSideOf(card),
    over: AgentQueues = queues,
  ) {
    const control = {
      attachAgent: () => Promise.reject(new Error('attached already')),
      detachAgent: async () => {
        tellAgent(card, mad.AGENT_DETACH, queues.sendQueue, memory)
      },
    }
    super(memory, control, over)
    this.queues = queues
  }
}

/** The AGENT call with the number that the probe has left. */
export function tellAgent(
  card: TestCard,
  action: number,
  sendQueue: number,
  memory: AgentMemory = hostSideOf(card),
): Uint8Array {
  return card.must(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, agentRequest(action, sendQueue, memory))
}

/** Puts into the body of an AGENT call what an agent over that memory says. */
export function agentRequest(
  action: number,
  sendQueue: number,
  memory: Pick<AgentMemory, 'load' | 'pieces'>,
): (request: Uint8Array) => void {
  return (request) => {
    request[mad.AGENT_ACTION] = action
    request.set(memory.load(HOST_PROBE_AT, 8).bytes!, mad.AGENT_NUMBER_HIGH)
    putU32(request, mad.AGENT_QUEUE, sendQueue)
    putPieces(request, mad.AGENT_PIECES, memory.pieces ?? [])
  }
}

/** Names pieces from there on in the body of a call. */
export function putPieces(request: Uint8Array, from: number, pieces: readonly MemoryPiece[]): void {
  putU32(request, from + mad.PIECES_COUNT, pieces.length)
  pieces.forEach(({ at, bytes }, i) => {
    const into = from + mad.PIECES_FIRST + i * mad.PIECES_ENTRY_BYTES
    putU32(request, into, at / PAGE_BYTES)
    putU32(request, into + 4, bytes / PAGE_BYTES)
  })
}

const hosts = new WeakMap<TestCard, QueueHost>()

/** The queues of the card's host; they are laid out when somebody asks for them. */
export function queueHostOf(card: TestCard): QueueHost {
  let host = hosts.get(card)
  if (host === undefined) {
    host = new PushedHost(card)
    host.init()
    hosts.set(card, host)
  }
  return host
}

/** A host whose memory has everything that the card has written when the card has run. */
export class PushedHost extends QueueHost {
  override run(): void {
    super.run()
    this.ram.link.arrive()
  }
}

/** The host's memory as the agent wants it. */
export function hostSideOf(card: Pick<TestCard, 'host'>): AgentMemory {
  const host = card.host!
  return {
    load: (at, length) => host.load(at, length),
    clean: (at, length) => host.clean(at, length),
    fence: () => host.fence(),
  }
}

/** A card whose host has both memories, behind one link. */
export function cardOf(part: Nvdimm | number, host: HostMemory, watch?: Watch): TestCard {
  const ram = host.platform.ddio ? new HostRam(RAM_BYTES, host.link) : null
  return new TestCard(part, { watch, host, ram })
}

/**
 * The host loses its power alone, and is there again, as it was or as another one: with a new epoch
 * of its queues, and nobody who has probed it.
 */
export function restartHost(card: TestCard, back: HostReturn = {}): void {
  const queues = queueHostOf(card)
  queues.setLink(false)
  card.host!.link.loseHost()
  card.idle()
  card.host!.comeBack(back)
  queues.startAnew(16)
}

/** The registrar and the agent of a host that goes through its caches, after it was started. */
export function agentOfNewHost(card: TestCard): Agent {
  believe(card, PLACEMENT_THROUGH)
  return attachedAgent(card)
}

/** Lets card and agent work until neither has anything to do. */
export function work(card: TestCard, agent: FlushAgent): void {
  for (let quiet = 0; quiet < 2 && !card.machine.dead; ) {
    quiet = agent.poll() === 0 && card.waitUs !== 1 ? quiet + 1 : 0
    card.idle()
  }
}

/** A formatted card that writes through the caches of its host, with the agent of that one. */
export function throughCaches(
  partBytes: number,
  hostBytes: number = HOST_BYTES,
): { card: TestCard; host: HostMemory; agent: Agent } {
  const host = new HostMemory({ part: new Nvdimm({ bytes: hostBytes }), platform: DDIO_ON })
  const card = cardOf(partBytes, host).format()
  believe(card, PLACEMENT_THROUGH)
  return { card, host, agent: attachedAgent(card) }
}

/** A formatted card past the caches of a host that has queues as well: not probed yet. */
export function pastCaches(partBytes: number = PART_BYTES, ramBytes: number = RAM_BYTES): TestCard {
  const host = new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }), platform: DDIO_OFF })
  const ram = new HostRam(ramBytes, host.link)
  return new TestCard(partBytes, { host, ram }).format()
}

/** A card on two memories, with what a client has of it. */
export interface Placed {
  readonly card: TestCard
  readonly host: HostMemory
  readonly region: TestRegion
  readonly qp: TestPeer
  /** The flush agent, where the placement needs one. */
  readonly agent: Agent | null
}

/** Makes a card whose region of that shape lies in the host's memory. */
export function placed(
  platform: Platform = DDIO_OFF,
  shape: RegionShape = {},
  placement: number = platform === DDIO_ON ? PLACEMENT_THROUGH : PLACEMENT_BYPASS,
): Placed {
  const host = new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }), platform })
  const card = cardOf(PART_BYTES, host).format()
  believe(card, placement)
  const agent = placement === PLACEMENT_THROUGH ? attachedAgent(card) : null
  const region = card.provision({ slots: 2, ...shape, placement })
  if (agent !== null) work(card, agent)
  return { card, host, region, qp: card.connect(), agent }
}

/** Cuts the power of card and host. */
export function cutPower({ card, host }: Pick<Placed, 'card' | 'host'>, choice: CutChoice): void {
  card.machine.die()
  host.powerCut(choice)
  cut(card.nvdimm, choice)
}

/** The card loses its power alone: what is in the caches of its host stays there. */
export function cardAlone(from: TestCard): TestCard {
  from.machine.die()
  cut(from.nvdimm, NOTHING)
  return cardOf(from.nvdimm, from.host!)
}

/** The copies of a record as the host's memory shows them to the card. */
export function shownCopies(card: TestCard, region: TestRegion, slot: number): string[] {
  const qp = card.connect()
  return Array.from({ length: region.copies }, (_, c) =>
    say(card.read(qp, region, slot, VIEW_FIRST_COPY + c, 64, 64)),
  )
}

/** A card that is started on what a cut has left. */
export function restarted(from: Pick<Placed, 'card' | 'host'>, watch?: Watch): TestCard {
  const { part, platform } = from.host
  return cardOf(from.card.nvdimm, new HostMemory({ part, platform }), watch)
}

/** Likewise, while its host is away, which is there again after `comeBack`. */
export function restartedAlone({ card, host }: Pick<Placed, 'card' | 'host'>): TestCard {
  const { part, platform } = host
  const away = new HostMemory({ part, platform })
  away.link.remove()
  return cardOf(card.nvdimm, away)
}

/** What was found at one command. */
export interface Crash {
  readonly command: number
  readonly image: string
  /** What the card had sent up to there. */
  readonly sent: readonly Sent[]
  /** The copies of record 0 as the cut left them, before the start. */
  readonly copies: readonly Uint8Array[]
  readonly card: TestCard
}

export interface Scenario {
  /** Makes everything up to the first command at which power may go. */
  readonly begin: () => Placed
  /** What goes on then: frames served, idle time. */
  readonly during: (placed: Placed, card: TestCard) => void
  /** Changes the machine that is cut: a mutation. */
  readonly watch?: Watch
}

/**
 * Cuts the power at every command of the scenario, in every image that both memories may then hold,
 * or in a sample of them, starts a card on it and hands it to `judge`. Returns how many images. It
 * ends early, behind a command, when it `isEnough`.
 */
export function explorePlaced(
  scenario: Scenario,
  judge: (crash: Crash) => void,
  isEnough: () => boolean = () => false,
): number {
  let count = 0
  const cutBefore = (command: number): boolean => {
    const from = scenario.begin()
    const { card, host } = from
    const { machine } = card
    const sent: Sent[] = []
    collectSent(card, sent)
    if (scenario.watch !== undefined) machine.observe(scenario.watch)
    machine.armCut(command)
    scenario.during(from, card)
    const ended = !machine.dead
    if (ended) machine.die()
    host.loseCaches()
    const visit = (image: string): void => {
      count += 1
      const copies = copiesOf(from)
      withPassingCards(() => judge({ command, image, sent, copies, card: restarted(from) }))
    }
    visitImages(from, command, visit)
    return ended || isEnough()
  }
  for (let command = 0; ; command++) {
    if (withPassingCards(() => cutBefore(command))) return count
  }
}

/** The copies of record 0; its region is the first in the host's memory. */
function copiesOf({ host, region }: Placed): Uint8Array[] {
  const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
  return Array.from({ length: region.copies }, (_, c) => {
    const at = HOST_DATA_AT + c * area
    return host.part.durable.slice(at, at + region.stride)
  })
}

/** Notes what the card sends from now on. */
function collectSent(card: TestCard, into: Sent[]): void {
  const serve = card.serve.bind(card)
  card.serve = (...frames: Uint8Array[]): Sent[] => {
    const sent = serve(...frames)
    into.push(...sent)
    return sent
  }
  const idle = card.idle.bind(card)
  card.idle = (): void => {
    card.sent = []
    idle()
    into.push(...card.sent)
  }
}

function visitImages(
  { card, host }: Placed,
  command: number,
  visit: (image: string) => void,
): void {
  const total = imageCount(card.nvdimm) * imageCount(host.part)
  if (total <= IMAGES_MAX) {
    images(card.nvdimm, 'chunk', (one) => {
      images(host.part, 'chunk', (other) => visit(`command ${command}, image ${one}/${other}`))
    })
    return
  }
  // Too many: every strategy instead, on both memories, several times over.
  CUT_STRATEGIES.forEach((strategy, s) => {
    for (let round = 0; round < 4; round++) {
      const seed = SEED + 1000 * command + 10 * s + round
      const name = `command ${command}, ${strategy}, round ${round}, SEED=${SEED}`
      sample(card.nvdimm, strategy, seed, () => {
        sample(host.part, strategy, seed + 7, () => visit(name))
      })
    }
  })
}

/** One image of a cut by that strategy; afterwards everything is as it was. */
function sample(
  part: Nvdimm,
  strategy: (typeof CUT_STRATEGIES)[number],
  seed: number,
  visit: () => void,
): void {
  const { live, durable } = part
  const before = [live.slice(), durable.slice()] as const
  const stores = part.pendingStores.suspend()
  part.pendingStores.resume(stores)
  cut(part, { random: new Random(seed), strategy })
  visit()
  part.pendingStores.clear()
  live.set(before[0])
  durable.set(before[1])
  part.pendingStores.resume(stores)
}
