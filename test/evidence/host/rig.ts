/**
 * A card and its host as two machines, each of which may lose its power at any step of the other:
 * for one record at a time, in the card's own NVDIMM or in the memory of the host.
 *
 * Invariants:
 * - A step is a command of the card, or a clean, a fence or a bell of the flush agent. Steps are
 *   numbered from where the play begins; an event strikes before the step of its number.
 * - What is pending when a machine goes survives as the event says; nothing else decides it.
 * - A host that comes back is a new one: its queues, its driver and its agent are made again, and
 *   its first epoch has the number that the first epoch of the host before had.
 */

import {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  type HostReturn,
  type Platform,
} from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type CutChoice, cut } from '../../../boards/emulator/medium/power-cut.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import {
  FROM,
  LENGTH,
  PORT_EPOCH,
  PORT_LINK,
  PORT_REGISTER,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { HOST_DATA_AT, HOST_PROBE_AT } from '../../../firmware/medium/region.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type AgentControl,
  type HostMemory as AgentMemory,
  type AgentQueues,
  FlushAgent,
  type Flushed,
} from '../../../host-driver/target/flush-agent.ts'
import { agentRequest, PushedHost } from '../../support/cards/placed.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import type { QueueHost } from '../../support/queues/queue-host.ts'
import { choiceOf, type Survivors, survivorsOf } from './survivors.ts'

export const PLACEMENTS = ['local', 'bypass', 'through'] as const
export type Placement = (typeof PLACEMENTS)[number]

export const LEVELS = ['1of2', '2of2', '2of3'] as const
export type Level = (typeof LEVELS)[number]

export function waitOf(level: Level): number {
  return Number(level[0])
}

export function copiesOf(level: Level): number {
  return Number(level[3])
}

/**
 * Who goes: a machine, both, the process of the agent. `unsaved`: the card, and its save counts as
 * failed, though nothing is missing. `twin`: a second agent comes, and the first one lives on.
 * `write`: a posted write never arrives.
 */
export const PARTIES = ['card', 'unsaved', 'host', 'both', 'agent', 'twin', 'write'] as const
export type Party = (typeof PARTIES)[number]

export interface Event {
  readonly party: Party
  /** The step before which it strikes; of `write` the number of the posted write. */
  readonly step: number
  /** Which of the choices that there are then, of what survives. */
  readonly choice: number
}

/** Thrown at a step that its machine or process does not live to take. */
class Gone extends Error {}

const PART_BYTES = 1 << 16
const HOST_BYTES = 1 << 15
const RAM_BYTES = 1 << 17
const QUEUES = 32
const TURN_US = 10
/** So many turns without work, and there is none. */
const QUIET_TURNS = 3

const NUMBER_OF: Readonly<Record<Placement, number>> = { local: 0, bypass: 1, through: 2 }

/** What both machines have when neither has power. */
export interface Media {
  readonly part: Uint8Array
  readonly host: Uint8Array
}

export function platformOf(placement: Placement): Platform {
  return placement === 'through' ? DDIO_ON : DDIO_OFF
}

export class Rig {
  readonly placement: Placement
  readonly part: Nvdimm
  readonly host: HostMemory
  readonly ram: HostRam
  card: TestCard | null = null
  agents: FlushAgent[] = []
  /** Steps taken since `arm`; who took the last one. */
  steps = 0
  /** The event has struck; and between how many choices it had. */
  struck = false
  choices = 1
  /** Posted writes to persistent memory since `arm`. */
  writes = 0
  /** Every frame as it leaves, before anybody else has it. */
  onFrame: (frame: Uint8Array) => void = () => {}
  /** Told before the event takes anything away. */
  onStrike: () => void = () => {}

  private event: Event | null = null
  private undecided = 0
  /** How often the host was switched on. */
  private lives = 1
  private queues: QueueHost | null = null
  /** Who runs now: what goes meanwhile ends it. */
  private running: 'card' | 'agent' = 'card'

  constructor(placement: Placement, media: Media | null = null) {
    this.placement = placement
    const content = (bytes?: Uint8Array): { content?: Uint8Array } =>
      bytes === undefined ? {} : { content: bytes }
    this.part = new Nvdimm({ bytes: PART_BYTES, ...content(media?.part) })
    const memory = new Nvdimm({ bytes: HOST_BYTES, ...content(media?.host) })
    this.host = new HostMemory({ part: memory, platform: platformOf(placement) })
    this.ram = new HostRam(RAM_BYTES, this.host.link)
  }

  /** What both hold durably. */
  media(): Media {
    return { part: this.part.durable.slice(), host: this.host.part.durable.slice() }
  }

  /** The agent was killed, and nobody has come in its place. */
  get lacksAgent(): boolean {
    return this.event?.party === 'agent' && this.struck
  }

  /** The driver of the host has the card. */
  get driverIsOn(): boolean {
    return this.queues !== null
  }

  /** The queues of the host, as its driver has made them. */
  get driver(): QueueHost | null {
    return this.queues
  }

  get hostIsOn(): boolean {
    return this.host.link.up
  }

  /** From now on steps are counted, and that event waits for its step. */
  arm(event: Event | null): void {
    this.steps = 0
    this.writes = 0
    this.struck = false
    this.choices = 1
    this.undecided = event?.choice ?? 0
    this.event = event
    const { link } = this.host
    link.script = ({ kind, memory }) => {
      if (kind !== 'write' || memory !== 'persistent') return undefined
      if (this.writes++ !== event?.step || event.party !== 'write') return undefined
      this.struck = true
      this.onStrike()
      return 'lost'
    }
  }

  /** The card gets its power: its recovery is part of the play. */
  cardOn(): void {
    const watch: Watch = {
      onCommand: (_: number, op: number, words: Float64Array, at: number): void => {
        this.step()
        if (op !== TRANSMIT) return
        const { packets } = this.card!.machine
        const from = words[at + FROM]!
        this.onFrame(packets.slice(from, from + words[at + LENGTH]!))
      },
    }
    this.running = 'card'
    this.card = null
    // A start sends nothing, so nobody asks for the card before there is one.
    this.survives(() => {
      this.card = new TestCard(this.part, { watch, host: this.host, ram: this.ram })
    })
    this.tellLink()
  }

  /** What a board does with its port when the link goes, or is there. */
  private tellLink(): void {
    const { card } = this
    if (card === null) return
    const { buffer, byteOffset } = card.machine.packets
    const port = new DataView(buffer, byteOffset)
    port.setUint32(PORT_LINK, this.hostIsOn ? this.lives : 0, true)
    if (this.hostIsOn) return
    port.setUint32(PORT_EPOCH, 0, true)
    port.setUint32(PORT_REGISTER, 0, true)
  }

  /** The host has power; where it had it before, nothing happens. */
  hostOn(how: HostReturn = {}): void {
    if (this.hostIsOn) return
    this.lives += 1
    this.host.comeBack(how)
    this.tellLink()
  }

  /** The host's driver begins, and its agent; false if the card does not take it, or prove it. */
  driverOn(): boolean {
    if (!this.hostIsOn) return false
    this.agents = []
    this.queues = null
    let taken = false
    this.byCard((card) => {
      this.queues = this.takeCard(card)
      if (this.queues === null || !this.prove(card)) return
      taken = true
      if (this.placement === 'through' && this.host.platform.ddio) this.attachAgent()
    })
    return taken
  }

  /** A driver that is not answered begins once more, with the next epoch; in fresh memory. */
  private takeCard(card: TestCard): QueueHost | null {
    this.ram.live.fill(0)
    const queues = new PushedHost(card)
    for (let i = 0; i < 2; i++) {
      try {
        return queues.startAnew(QUEUES)
      } catch (error) {
        if (!isRefusal(error)) throw error
      }
    }
    return null
  }

  /** As the registrar: what the CPU sees of the probe is what its platform does. */
  private prove(card: TestCard): boolean {
    for (let i = 0; i < 2; i++) {
      if (card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROBE).fault !== 'PASS') continue
      const seen = this.host.load(HOST_PROBE_AT, 8).bytes!
      const { fault } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PLACE, (body) => {
        body[mad.PLACE_PLACEMENT] = this.host.platform.ddio ? 2 : 1
        body[mad.PLACE_ADR] = 1
        body.set(seen, mad.PLACE_NUMBER_HIGH)
      })
      if (fault === 'PASS') return true
    }
    return false
  }

  /** One more flush agent, a process of its own: who was attached before stays alive. */
  attachAgent(): void {
    this.byCard((card) => {
      try {
        this.attachTo(card)
      } catch (error) {
        if (!isRefusal(error)) throw error
      }
    })
  }

  private attachTo(card: TestCard): void {
    const { queues } = this
    if (queues === null) return
    const pair = new RawAgentQueues(queues)
    const memory = this.agentMemory()
    const request = agentRequest(mad.AGENT_ATTACH, pair.sendQueue, memory)
    const { fault, body } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, request)
    if (fault !== 'PASS') return
    const agent = new FlushAgent(memory, NO_CONTROL, this.stepping(pair))
    agent.begin(u32(body, mad.AGENT_FIRST_REQUEST))
    this.agents.push(agent)
  }

  private agentMemory(): AgentMemory {
    const { host } = this
    return {
      load: (at: number, length: number) => host.load(at, length),
      clean: (at: number, length: number): void => {
        this.step()
        host.clean(at, length)
      },
      fence: (): void => {
        this.step()
        host.fence()
      },
    }
  }

  private stepping(pair: RawAgentQueues): AgentQueues {
    return {
      sendQueue: pair.sendQueue,
      postReceives: () => pair.postReceives(),
      takeRequests: (): readonly Flushed[] => pair.takeRequests(),
      postFinished: (number) => {
        this.step()
        return pair.postFinished(number)
      },
    }
  }

  private step(): void {
    const due = this.event !== null && this.event.party !== 'write' && !this.struck
    if (this.steps++ !== this.event?.step || !due) return
    this.struck = true
    this.strike(this.event)
  }

  /** Everything that the step's number has not come to is over: the event strikes now. */
  strikeNow(): void {
    if (this.event === null || this.struck || this.event.party === 'write') return
    this.struck = true
    this.running = 'card'
    try {
      this.strike(this.event)
    } catch (error) {
      if (!(error instanceof Gone)) throw error
    }
  }

  private strike({ party }: Event): void {
    this.onStrike()
    if (party === 'twin') return
    if (party === 'agent') {
      this.agents = []
      if (this.running === 'agent') throw new Gone()
      return
    }
    if (party === 'host' || party === 'both') this.loseHost()
    if (party !== 'host') this.loseCard()
    if (party === 'unsaved') this.part.dirtyShutdowns += 1
    if (party !== 'host' || this.running === 'agent') throw new Gone()
  }

  /** One of `count`, as the event says. */
  private choose(count: number): number {
    const one = this.undecided % count
    this.undecided = Math.floor(this.undecided / count)
    this.choices *= count
    return one
  }

  private chosen(part: Nvdimm, from: number): CutChoice {
    const all = survivorsOf(part, from)
    return choiceOf(part, all[this.choose(all.length)]!, from)
  }

  private loseHost(survivors: Survivors | null = null): void {
    this.agents = []
    this.queues = null
    // What was on its way is pending as what was cached is; then it is chosen of all of it.
    this.host.loseCaches()
    const { part, link } = this.host
    const isChosen = survivors === null
    link.loseHost(
      isChosen ? this.chosen(part, HOST_DATA_AT) : choiceOf(part, survivors, HOST_DATA_AT),
    )
    this.tellLink()
  }

  private loseCard(): void {
    this.card?.machine.die()
    this.card = null
    this.agents = []
    this.queues = null
    const { link } = this.host
    if (this.hostIsOn) link.drop(this.choose(link.postedWrites + 1))
    cut(this.part, this.chosen(this.part, 0))
  }

  /** Both lose their power, and nothing survives that was not durable. */
  cutBoth(): void {
    this.arm(null)
    if (this.hostIsOn) this.loseHost()
    this.loseCard()
  }

  /** The host is reset by who looks after it. */
  resetHost(): void {
    this.arm(null)
    if (this.hostIsOn) this.loseHost()
  }

  /** The host loses its power, and all that is not durable; what is armed waits for its step. */
  bereaveHost(): void {
    if (this.hostIsOn) this.loseHost('none')
  }

  /** Does something with the card, if there is one; true if it lived to the end of it. */
  byCard(run: (card: TestCard) => void): boolean {
    const { card } = this
    if (card === null) return false
    this.running = 'card'
    return this.survives(() => run(card))
  }

  private survives(run: () => void): boolean {
    try {
      run()
      return true
    } catch (error) {
      if (error instanceof Gone) return false
      throw error
    }
  }

  /** Card and agents work for so many turns, `us` apart, or until none has anything to do. */
  work(turns: number, us: number = TURN_US): void {
    for (let i = 0, quiet = 0; i < turns && quiet < QUIET_TURNS; i++) {
      let flushed = 0
      for (const agent of [...this.agents]) {
        this.running = 'agent'
        if (!this.agents.includes(agent)) continue
        this.survives(() => {
          flushed += agent.poll()
        })
      }
      this.byCard((card) => card.pass(us))
      const idle = flushed === 0 && (this.card?.waitUs ?? 0) === 0
      quiet = idle ? quiet + 1 : 0
    }
  }

  provision(card: TestCard, name: string, placement: Placement, copies: number): string {
    const shape = { name, slots: 2, copies, placement: NUMBER_OF[placement] }
    return card.tryProvision(shape).fault
  }

  /** A region of bytes; `isDurable`: registered write-persist. */
  provisionBytes(card: TestCard, name: string, placement: Placement, isDurable: boolean): string {
    const flags = isDurable ? mad.REGION_WRITE_PERSIST : 0
    const shape = { name, kind: mad.KIND_BYTES, length: 4096, flags }
    return card.tryProvision({ ...shape, placement: NUMBER_OF[placement] }).fault
  }
}

/** Whether the card has refused a control call, or did not hear of it. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Error && /^(the )?c(ontrol call|ard did not take)/.test(error.message)
}

const NO_CONTROL: AgentControl = {
  attachAgent: () => Promise.reject(new Error('attached already')),
  detachAgent: () => Promise.resolve(),
}
