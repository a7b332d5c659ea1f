/**
 * The shipped core as the responder of the ACK model: firmware, command lists and NVDIMM, with
 * bursts of one or two requests, idle work, and the power cut before every command.
 *
 * A state is a history of bursts, played on a card with one queue pair of chosen numbers. Two
 * histories are the same state if the queue pair and the part are the same, byte for byte.
 *
 * What an operation is on the medium is found out as after a real cut: nothing that was pending
 * survives, a new card boots on the rest, and its slot is read over the wire.
 */

import { createHash } from 'node:crypto'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { FENCE, RECEIVE_AT, RECEIVED_AT, SKIP } from '../../../firmware/board/hal.ts'
import { FRAME_OFFSET_BYTES, FRAME_STRIDE_BYTES } from '../../../firmware/board/limits.ts'
import { openPair } from '../../../firmware/burst/staging.ts'
import { idle, receive, type State, settle } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import { prepareTemplate } from '../../../firmware/transport/acknowledge.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import type { QueuePair } from '../../../firmware/transport/queue-pair.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import {
  dataOf,
  FACTS,
  persistFrames,
  placeAll,
  type Sent,
  sentOf,
  TestCard,
} from '../cards/test-card.ts'
import { AnswerNames } from './ack-model-answers.ts'
import { PATH_MTU, type Plan, requestName } from './ack-model-client.ts'
import type { Choice, ResponderSide, Step } from './ack-model-sides.ts'

const PART_BYTES = 1 << 16
const QP_NUMBER = 0x21
const PEER = 0x123456
const IDLE = 'idle'

/** Cuts beyond the last command of a burst cut nothing; no burst of two has so many commands. */
const COMMANDS_MAX = 64

interface Outcome {
  readonly fingerprint: string
  readonly durable: number
  readonly dead: boolean
  readonly sends: readonly string[]
  /** Bytes stored by the last event. */
  readonly stored: number
}

type Event = typeof IDLE | readonly string[]

export class CardResponder implements ResponderSide {
  readonly start: number
  readonly incarnation: number
  /** The answers that were sent so far. */
  readonly names: AnswerNames = new AnswerNames()
  /** Bursts of nothing but duplicates, and those that stored something all the same. */
  duplicates = 0
  rewrites = 0
  private readonly plan: Plan
  private readonly fences: boolean
  private readonly requests = new Map<string, Uint8Array>()
  private readonly content: Uint8Array
  private readonly histories: (readonly Event[])[] = []
  private readonly outcomes: Outcome[] = []
  private readonly numbers = new Map<string, number>()
  private readonly steps = new Map<string, Step>()
  private readonly cutSteps = new Map<string, readonly Step[]>()
  private readonly onMedium = new Map<string, number>()

  /** With `fences` false every fence is left out: damage on purpose. */
  constructor(plan: Plan, fences = true) {
    this.plan = plan
    this.fences = fences
    const card = new TestCard(PART_BYTES)
    card.format()
    card.provision({ slots: 4, capacity: 2 * PATH_MTU })
    this.content = card.nvdimm.durable.slice()
    const core = this.open()
    this.incarnation = core.state.incarnation
    this.start = this.enter([], Infinity).to
  }

  durable(place: number): number {
    return this.outcomes[place]!.durable
  }

  take(place: number, burst: readonly string[]): Step {
    return this.step(place, burst)
  }

  /** The same, with the power cut before each command: every different end of it. */
  cuts(place: number, burst: readonly string[]): readonly Step[] {
    const key = `${place} ${burst.join('+')}`
    let steps = this.cutSteps.get(key)
    if (steps === undefined) {
      steps = this.outcomes[place]!.dead ? [] : this.everyCut([...this.histories[place]!, burst])
      this.cutSteps.set(key, steps)
    }
    return steps
  }

  choices(place: number): readonly Choice[] {
    if (this.outcomes[place]!.dead) return []
    const step = this.step(place, IDLE)
    return step.to === place ? [] : [{ label: 'the card is idle', step, fair: true }]
  }

  private everyCut(history: readonly Event[]): Step[] {
    const steps = new Map<string, Step>()
    for (let command = 0; command < COMMANDS_MAX; command++) {
      const step = this.enter(history, command)
      if (!this.outcomes[step.to]!.dead) break
      steps.set(`${step.to} ${step.sends.join()}`, step)
    }
    return [...steps.values()]
  }

  private step(place: number, event: Event): Step {
    const key = `${place} ${event === IDLE ? IDLE : event.join('+')}`
    let step = this.steps.get(key)
    if (step === undefined) {
      const dead = this.outcomes[place]!.dead
      const history = [...this.histories[place]!, event]
      step = dead ? { to: place, sends: [], says: [] } : this.enter(history, Infinity)
      this.steps.set(key, step)
    }
    return step
  }

  private enter(history: readonly Event[], cutAt: number): Step {
    const outcome = this.replay(history, cutAt)
    let to = this.numbers.get(outcome.fingerprint)
    if (to === undefined) {
      to = this.outcomes.length
      this.numbers.set(outcome.fingerprint, to)
      this.outcomes.push(outcome)
      this.histories.push(history)
    }
    const says = outcome.dead ? ['that its power is gone'] : []
    return { to, sends: outcome.sends, says }
  }

  /** Plays a history on a new card; the power goes before command `cutAt` of its last event. */
  private replay(history: readonly Event[], cutAt: number): Outcome {
    const core = this.open()
    let before = core.qp.expectedPsn
    let stored = 0
    history.forEach((event, i) => {
      if (i === history.length - 1 && cutAt < Infinity) core.machine.armCut(cutAt)
      before = core.qp.expectedPsn
      stored = core.nvdimm.bytesStored
      core.sent = []
      this.play(core, event)
    })
    stored = core.nvdimm.bytesStored - stored
    const { dead } = core.machine
    const last = history.at(-1)
    if (!dead && last !== undefined && last !== IDLE && before === core.qp.expectedPsn) {
      this.duplicates += 1
      if (stored > 0) this.rewrites += 1
    }
    const durable = this.found(core.nvdimm.durable)
    const sends = history.length === 0 ? [] : core.sent.map((frame) => this.names.of(frame))
    const fingerprint = dead ? `dead ${durable}` : fingerprintOf(core)
    return { fingerprint, durable, dead, sends, stored }
  }

  private play(core: Core, event: Event): void {
    if (event === IDLE) core.idle()
    else core.serve(event.map((name) => this.requests.get(name)!))
  }

  private open(): Core {
    const core = new Core(this.content, this.plan)
    if (this.requests.size === 0) this.makeRequests(core)
    core.connect(this.requests.values().next().value!)
    if (!this.fences) core.machine.observe({ replace: (_, op) => (op === FENCE ? SKIP : op) })
    return core
  }

  private makeRequests(core: Core): void {
    const region = core.state.regions.places.find((place) => place !== null)!
    let psn = this.plan.firstPsn
    this.plan.packets.forEach((count, i) => {
      const qp = { number: QP_NUMBER, peer: PEER, mtu: PATH_MTU, psn, operation: i }
      for (const frame of persistFrames(qp, region, i, dataOf(count * PATH_MTU - 64, i + 1))) {
        this.requests.set(requestName(psn, i + 1), frame)
        psn = (psn + 1) & 0xffffff
      }
    })
  }

  /** Which operations a card finds that boots on that content. */
  private found(content: Uint8Array): number {
    const key = createHash('sha1').update(content).digest('hex')
    let found = this.onMedium.get(key)
    if (found === undefined) {
      const card = new TestCard(new Nvdimm({ bytes: PART_BYTES, content }))
      const region = card.open()
      const qp = card.connect()
      found = 0
      for (const [i, count] of this.plan.packets.entries()) {
        const data = dataOf(count * PATH_MTU - 64, i + 1)
        const read = card.read(qp, region, i, 0, data.length)
        if (read !== null && Buffer.compare(read, data) === 0) found |= 1 << i
      }
      this.onMedium.set(key, found)
    }
    return found
  }
}

/** A core with one queue pair of chosen numbers, on a part with one region of records. */
class Core {
  readonly nvdimm: Nvdimm
  readonly machine: EmulatedMachine
  readonly state: State
  qp: QueuePair
  sent: Sent[] = []
  private now = 0

  constructor(content: Uint8Array, plan: Plan) {
    this.nvdimm = new Nvdimm({ bytes: content.length, content })
    this.machine = new EmulatedMachine({
      facts: { ...FACTS, nvdimmBytes: content.length },
      nvdimm: this.nvdimm,
      transmit: (frame) => this.sent.push(sentOf(frame)),
    })
    this.state = createState(this.machine)
    boot(this.state)
    this.qp = openPair(this.state, QP_NUMBER, {
      peerNumber: PEER,
      clientHigh: 0,
      clientLow: 1,
      pathMtu: PATH_MTU,
      protectionDomain: 0,
      expectedPsn: plan.firstPsn as Psn,
    })
  }

  /** Takes the addresses of the peer from one of its frames. */
  connect(example: Uint8Array): void {
    this.machine.place(0, example)
    const packet = blankPacket()
    const at = RECEIVE_AT + FRAME_OFFSET_BYTES
    checkPacket(packet, this.state.bytes, at, example.length)
    prepareTemplate(this.qp, this.state.bytes, packet)
  }

  serve(frames: readonly Uint8Array[]): void {
    this.now += 10
    placeAll(this.machine, frames)
    frames.forEach((frame, i) => {
      const at = RECEIVE_AT + i * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
      const flags = this.state.words[(RECEIVED_AT >> 2) + 2 * i + 1]!
      receive(this.state, at, frame.length, flags, this.now)
    })
    settle(this.state)
  }

  idle(): void {
    this.now += 10
    idle(this.state, this.now)
  }
}

/** Everything of the queue pair but points in time, and the part. */
function fingerprintOf({ qp, nvdimm, state }: Core): string {
  const hash = createHash('sha1').update(nvdimm.durable).update(nvdimm.live)
  hash.update(String(state.commit.dirtyLanes))
  const text = JSON.stringify(qp, (name, value: unknown) => {
    if (name.endsWith('Us')) return 0
    return ArrayBuffer.isView(value) ? String(value) : value
  })
  return hash.update(text).digest('hex')
}
