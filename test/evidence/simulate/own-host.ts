/**
 * The card's own host, as a machine with a power supply of its own: its memories, its driver, its
 * flush agents, and how all of them fail.
 *
 *   host ── header page, doorbells, AGENT ──▶ card ── posted writes, reads ──▶ memory of the host
 *
 * Invariants:
 * - Steps are counted where something was armed: each command of the card, and each clean, fence
 *   and bell of an agent. Before the step that was drawn somebody goes; of what was pending there
 *   survives what the generator draws.
 * - A host that comes back is a new one: caches empty, memory of its queues blank, its driver and
 *   its agent made again. Its first epoch has the number that the first one before had.
 * - What runs on the host is a stand-in for the driver; who judges has no part in it.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import type { Access, AccessFault } from '../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CUT_STRATEGIES, type CutChoice } from '../../../boards/emulator/medium/power-cut.ts'
import { PORT_EPOCH, PORT_LINK, PORT_REGISTER } from '../../../firmware/board/hal.ts'
import { HOST_PROBE_AT } from '../../../firmware/medium/region.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type AgentQueues, FlushAgent } from '../../../host-driver/target/flush-agent.ts'
import { agentRequest, PushedHost } from '../../support/cards/placed.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import type { Hosted } from '../../support/queues/queue-host.ts'
import type { Answer, Card } from './card.ts'
import type { Path } from './frames.ts'

/** Placements of regions, as PROVISION and PLACE have them. */
export const BYPASS = 1
export const THROUGH = 2

const RAM_BYTES = 1 << 17
const QUEUES = 16
const TURN_US = 10
/** So many turns without work, and there is none. */
const QUIET_TURNS = 3

/** Who may go at a step. */
export const PARTIES = ['host', 'both', 'card', 'agent'] as const
export type Party = (typeof PARTIES)[number]

/** What the link may do wrong for a while. */
export const TROUBLES = ['hangs', 'answers half', 'loses writes'] as const
type Trouble = (typeof TROUBLES)[number]

const NO_ANSWERS: readonly AccessFault[] = ['timeout', 'late', 'unsupported', 'poisoned']

/** Thrown at a step of an agent that goes before it. */
class Gone extends Error {}

/** What the host needs of its world. */
interface Around {
  nowUs: number
  /** A control call of the card's operator; null if the power went meanwhile. */
  ask(method: number, attribute: number, fill: (body: Uint8Array) => void): Answer | null
}

/** Who goes, when, and whether power is back before anybody has looked. */
interface Strike {
  readonly party: Party
  readonly step: number
  readonly random: Random
  readonly atOnce: boolean
}

export class OwnHost {
  readonly memory: HostMemory
  readonly ram: HostRam
  agents: FlushAgent[] = []
  /** The card was shown how this host keeps what is written, and nothing has gone wrong since. */
  isProven = false
  trouble: Trouble | null = null
  /** How often it, its card or their link has failed. */
  troubles = 0
  /** An agent was there, and is there no more; and the last strike has struck. */
  struck = false
  /** Told of what happens. */
  tell: ((line: string) => void) | null = null
  /** Set where both go, so that the end of one is the end of the other. */
  goesWithCard = false
  private readonly around: Around
  /** The card, and the way of its operator. */
  with: { readonly card: Card; readonly path: Path } | null = null
  private fate: Random | null = null
  private queues: PushedHost | null = null
  private lives = 1
  private steps = 0
  private strikes: Strike | null = null
  private isInAgent = false

  constructor(bytes: number, around: Around) {
    this.around = around
    const part = new Nvdimm({ bytes })
    this.memory = new HostMemory({ part, platform: DDIO_OFF })
    this.ram = new HostRam(RAM_BYTES, this.memory.link)
  }

  private get card(): Card | null {
    return this.with?.card ?? null
  }

  get isOn(): boolean {
    return this.memory.link.up
  }

  get hasDriver(): boolean {
    return this.queues !== null
  }

  /** The placement that it has, as it is set up now. */
  get placement(): number {
    return this.memory.platform.ddio ? THROUGH : BYPASS
  }

  /** All is there that a record of that placement needs, and nothing goes wrong. */
  isWellFor(placement: number): boolean {
    if (!this.isOn || !this.isProven || this.trouble !== null) return false
    if (this.placement !== placement) return false
    return placement === BYPASS || this.agents.length > 0
  }

  /** What a board does with the port of its card when the link goes, or is there. */
  tellLink(): void {
    const { machine } = this.card!
    if (machine === null) return
    const { buffer, byteOffset } = machine.packets
    const port = new DataView(buffer, byteOffset)
    port.setUint32(PORT_LINK, this.isOn ? this.lives : 0, true)
    if (this.isOn) return
    port.setUint32(PORT_EPOCH, 0, true)
    port.setUint32(PORT_REGISTER, 0, true)
  }

  /** From now on steps are counted, and somebody goes before that one. */
  arm(strike: Strike): void {
    this.steps = 0
    this.struck = false
    this.strikes = strike
    this.card!.machine?.observe({ ...this.card!.watch, onCommand: () => this.step() })
  }

  disarm(): void {
    this.strikes = null
    this.card!.machine?.observe(this.card!.watch)
  }

  /** From there comes what survives of what is pending when the card goes. */
  aim(random: Random): void {
    this.fate = random.fork()
  }

  private step(): void {
    const { strikes } = this
    if (strikes === null || this.steps++ !== strikes.step) return
    this.strikes = null
    this.struck = true
    this.strike(strikes)
    if (this.isInAgent) throw new Gone()
  }

  /** Who was armed goes now, if nothing has come to the step. */
  strikeNow(): void {
    const { strikes } = this
    if (strikes === null) return
    this.strikes = null
    this.struck = true
    this.strike(strikes)
  }

  private strike({ party, random, atOnce }: Strike): void {
    const card = this.card!
    this.tell?.(`  ${party} goes, behind ${this.steps - 1} steps${atOnce ? ', and is back' : ''}`)
    if (party === 'agent') this.agents = []
    else if (party === 'host') {
      this.lose(random)
      // It cannot be back before the firmware has returned, but before it looks again.
      const back = (): void => {
        card.onReturned = () => {}
        this.comeBack(this.memory.platform.ddio)
      }
      if (atOnce && card.isServing) card.onReturned = back
      else if (atOnce) back()
    } else {
      this.goesWithCard = party === 'both'
      const { machine } = card
      // Inside a list the power goes before the next command; between two of them it goes now.
      if (!this.isInAgent && card.isServing) machine!.armCut(1)
      else if (card.isOn) card.cutNow()
    }
  }

  /** Its power goes. */
  lose(random: Random): void {
    if (!this.isOn) return
    this.forget()
    const { memory } = this
    // What was on its way is pending as what was cached is; then it is chosen of all of it.
    memory.loseCaches()
    memory.link.loseHost(choiceOf(random))
    this.tellLink()
  }

  private forget(): void {
    this.troubles += 1
    this.agents = []
    this.queues = null
    this.isProven = false
  }

  /** It has power again, with its caches used that way. */
  comeBack(ddio: boolean): void {
    if (this.isOn) return
    this.lives += 1
    this.memory.comeBack({ platform: ddio ? DDIO_ON : DDIO_OFF })
    this.tellLink()
  }

  /** The card is gone: of what it had sent a part arrives, and who spoke with it knows nothing. */
  cardGone(): void {
    this.forget()
    this.strikes = null
    const random = this.fate!
    const { link } = this.memory
    if (this.isOn) link.drop(random.below(link.postedWrites + 1))
    if (this.goesWithCard) this.lose(random)
    this.goesWithCard = false
  }

  /** Something is wrong with the link from now on, for that share of what goes over it. */
  worsen(trouble: Trouble, random: Random): void {
    const share = trouble === 'hangs' ? 1 : random.chance(0.5) ? 0.5 : 0.1
    const kind = random.below(4)
    const what = NO_ANSWERS[random.below(NO_ANSWERS.length)]!
    this.trouble = trouble
    this.troubles += 1
    this.isProven = false
    this.tell?.(`  the host ${trouble}: ${what}, ${share}`)
    // Through the caches every copy is read back: there the board need not learn what is lost.
    this.memory.link.contains = this.placement === BYPASS
    this.memory.link.script = ({ kind: does, memory }: Access): AccessFault | undefined => {
      // Now and then the memory of the queues is hit, too.
      if (memory === 'ram' && kind !== 0) return undefined
      if (does !== (trouble === 'loses writes' ? 'write' : 'read')) return undefined
      if (!random.chance(share)) return undefined
      return trouble === 'loses writes' ? 'lost' : what
    }
  }

  /** The link is as it should be; what it has lost stays lost until it was down. */
  mend(): void {
    this.trouble = null
    this.memory.link.script = null
    this.memory.link.contains = true
  }

  /** The driver begins, proves the placement, starts an agent; false if that came to nothing. */
  driverOn(): boolean {
    if (!this.isOn || !this.card!.isOn) return false
    this.forget()
    this.queues = this.takeCard()
    if (this.queues === null || !this.prove()) return false
    if (this.placement === THROUGH) this.attachAgent()
    return true
  }

  /** A driver that is not answered begins once more, with the next epoch; in fresh memory. */
  private takeCard(): PushedHost | null {
    this.ram.live.fill(0)
    const queues = new PushedHost(this.served())
    for (let i = 0; i < 2 && this.card!.isOn; i++) {
      if (doesNotRefuse(() => queues.startAnew(QUEUES))) return this.card!.isOn ? queues : null
    }
    return null
  }

  /** The card as the driver has it. */
  private served(): Hosted {
    const card = this.card!
    const { around } = this
    const machine = card.machine!
    return {
      machine,
      get now() {
        return around.nowUs
      },
      get waitUs() {
        return card.machine === machine ? card.waitUs : 0
      },
      serve: () => {
        if (card.machine === machine) card.serve(0, around.nowUs)
        return []
      },
      idle: () => {
        around.nowUs += 1
        if (card.machine === machine) card.idle(around.nowUs)
      },
      must: () => {
        throw new Error('a driver asks over its own queues')
      },
    }
  }

  /** As the registrar: what the CPU sees of the probe is what its platform does. */
  private prove(): boolean {
    const { around, memory } = this
    for (let i = 0; i < 2 && this.isOn; i++) {
      if (around.ask(mad.METHOD_SET, mad.ATTRIBUTE_PROBE, () => {})?.fault !== 0) continue
      const seen = this.probed()
      const told = around.ask(mad.METHOD_SET, mad.ATTRIBUTE_PLACE, (body) => {
        body[mad.PLACE_PLACEMENT] = memory.platform.ddio ? THROUGH : BYPASS
        body[mad.PLACE_ADR] = 1
        body.set(seen, mad.PLACE_NUMBER_HIGH)
      })
      if (told?.fault !== 0 || !this.isOn) continue
      this.isProven = this.trouble === null
      return true
    }
    return false
  }

  private probed(): Uint8Array {
    return this.memory.load(HOST_PROBE_AT, 8).bytes!
  }

  /** One more flush agent, a process of its own: who was attached before stays alive. */
  attachAgent(): void {
    const { queues, around } = this
    if (queues === null || this.placement !== THROUGH) return
    doesNotRefuse(() => {
      const pair = new RawAgentQueues(queues)
      const request = agentRequest(mad.AGENT_ATTACH, pair.sendQueue, this.memory)
      const answer = around.ask(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, request)
      if (answer?.fault !== 0 || this.queues !== queues) return
      this.agents.push(this.agentOver(pair, u32(answer.body, mad.AGENT_FIRST_REQUEST)))
    })
  }

  private agentOver(pair: RawAgentQueues, first: number): FlushAgent {
    const { memory } = this
    const sides = {
      load: (at: number, length: number) => memory.load(at, length),
      clean: (at: number, length: number): void => {
        this.step()
        memory.clean(at, length)
      },
      fence: (): void => {
        this.step()
        memory.fence()
      },
    }
    const queues: AgentQueues = {
      sendQueue: pair.sendQueue,
      postReceives: () => pair.postReceives(),
      takeRequests: () => pair.takeRequests(),
      postFinished: (number) => {
        this.step()
        return pair.postFinished(number)
      },
    }
    const agent = new FlushAgent(sides, NO_CONTROL, queues)
    agent.begin(first)
    return agent
  }

  /** Agents and card have a turn. True if any of them had something to do. */
  turn(): boolean {
    let flushed = 0
    for (const agent of [...this.agents]) {
      if (!this.agents.includes(agent)) continue
      this.isInAgent = true
      try {
        flushed += agent.poll()
      } catch (error) {
        if (!(error instanceof Gone)) throw error
      } finally {
        this.isInAgent = false
      }
    }
    const card = this.card!
    if (card.isOn) card.idle(this.around.nowUs)
    return flushed > 0 || card.waitUs > 0
  }

  /** So many turns, or until nobody has anything to do: true if that came. */
  work(turns: number): boolean {
    let quiet = 0
    for (let i = 0; i < turns && quiet < QUIET_TURNS; i++) {
      this.around.nowUs += TURN_US
      quiet = this.turn() ? 0 : quiet + 1
    }
    return quiet === QUIET_TURNS
  }
}

/** What survives of what was pending. */
function choiceOf(random: Random): CutChoice {
  const strategy = CUT_STRATEGIES[random.below(CUT_STRATEGIES.length)]!
  return { random: random.fork(), mode: random.chance(0.7) ? 'chunk' : 'prefix', strategy }
}

/** Does it, unless the card refuses a call, or does not answer. */
function doesNotRefuse(run: () => void): boolean {
  try {
    run()
    return true
  } catch (error) {
    const said = error instanceof Error ? error.message : ''
    if (/^(the )?c(ontrol call|ard did not take)/.test(said)) return false
    throw error
  }
}

const NO_CONTROL = {
  attachAgent: () => Promise.reject(new Error('attached already')),
  detachAgent: () => Promise.resolve(),
}
