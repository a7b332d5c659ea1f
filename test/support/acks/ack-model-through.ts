/**
 * The shipped core as a responder that really commits later: a region in the host's memory, through
 * its caches (source 2, flow 2). The card acknowledges what it has received; the flush agent of the
 * host driver writes it back; then the card says that it is durable (P2-17 to P2-24).
 *
 * The card, the agent's next step and a power cut are events of their own, in any order with the
 * messages. Two histories are the same state if core, agent and both memories are the same. What is
 * on the medium is found out as after a real cut: nothing that was pending survives, a new card
 * starts on the rest, and its records are read over the wire.
 */

import { createHash } from 'node:crypto'
import { DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { HEALTH_AT, RECEIVE_AT, RECEIVED_AT } from '../../../firmware/board/hal.ts'
import { FRAME_OFFSET_BYTES, FRAME_STRIDE_BYTES } from '../../../firmware/board/limits.ts'
import { idle, receive, type State, settle } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import { PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import {
  type Agent,
  attachedAgent,
  believe,
  cardOf,
  HOST_BYTES,
  PART_BYTES,
  work,
} from '../cards/placed.ts'
import { dataOf, persistFrames, type TestCard } from '../cards/test-card.ts'
import { AnswerNames } from './ack-model-answers.ts'
import { PATH_MTU, type Plan, requestName } from './ack-model-client.ts'
import type { Choice, ResponderSide, Step } from './ack-model-sides.ts'

const FLUSH = 'the host writes back'
const WORK = 'the card looks up'
const CUT = 'the power is cut'
type Event = typeof FLUSH | typeof WORK | readonly string[]

/** Bytes of data in a record of one packet, as the client counts them. */
const DATA_BYTES = PATH_MTU - 64

/** Far more than there are. */
const STATES_MAX = 20_000

interface Bench {
  readonly card: TestCard
  readonly host: HostMemory
  readonly agent: Agent
  readonly state: State
  readonly frames: ReadonlyMap<string, Uint8Array>
  readonly firstPsn: number
}

/**
 * A card with its core in sight, a host, an agent, a region of two copies and a queue pair. Without
 * `writesBack` the host's CPU only says that it has written back: damage on purpose.
 */
function openBench(writesBack: boolean): Bench {
  const host = new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }), platform: DDIO_ON })
  const card = cardOf(PART_BYTES, host)
  if (!writesBack) host.clean = () => {}
  const state = createState(card.machine)
  boot(state)
  card.firmware = {
    ...card.firmware,
    serve: (count, now) => {
      for (let i = 0; i < count; i++) {
        const at = RECEIVE_AT + i * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
        const word = (RECEIVED_AT >> 2) + 2 * i
        receive(state, at, state.words[word]!, state.words[word + 1]!, now)
      }
      return settle(state)
    },
    idle: (now) => idle(state, now),
  }
  card.format()
  believe(card, PLACEMENT_THROUGH)
  const agent = attachedAgent(card)
  const region = card.provision({ slots: 2, capacity: PATH_MTU, placement: PLACEMENT_THROUGH })
  work(card, agent)
  const qp = card.connect(PATH_MTU)
  const firstPsn = qp.psn
  const frames = new Map<string, Uint8Array>()
  for (let i = 0; i < 2; i++) {
    const operation = i + 1
    const [frame] = persistFrames(qp, region, i, dataOf(DATA_BYTES, i + 1), { operation })
    frames.set(requestName((firstPsn + i) & 0xffffff, i + 1), frame!)
  }
  return { card, host, agent, state, frames, firstPsn }
}

interface Outcome {
  readonly history: readonly Event[]
  readonly durable: number
  readonly dead: boolean
}

export class ThroughResponder implements ResponderSide {
  readonly start: number
  readonly plan: Plan
  readonly incarnation: number
  /** The answers that were sent so far. */
  readonly names: AnswerNames = new AnswerNames()
  private readonly writesBack: boolean
  private readonly outcomes: Outcome[] = []
  private readonly numbers = new Map<string, number>()
  private readonly steps = new Map<string, Step>()
  private readonly onMedium = new Map<string, number>()

  constructor(writesBack = true) {
    this.writesBack = writesBack
    const bench = openBench(writesBack)
    this.plan = { firstPsn: bench.firstPsn, packets: [1, 1] }
    this.incarnation = bench.state.incarnation
    this.start = this.replay([]).to
  }

  durable(place: number): number {
    return this.outcomes[place]!.durable
  }

  take(place: number, burst: readonly string[]): Step {
    return this.step(place, burst)
  }

  choices(place: number): readonly Choice[] {
    const { dead, durable } = this.outcomes[place]!
    if (dead) return []
    const fair = [FLUSH, WORK].flatMap((label) => {
      const step = this.step(place, label as Event)
      return step.to === place && step.sends.length === 0 ? [] : [{ label, step, fair: true }]
    })
    const to = this.enter(`dead ${durable}`, { history: [], durable, dead: true })
    return [...fair, { label: CUT, step: { to, sends: [], says: [] }, fair: false }]
  }

  private step(place: number, event: Event): Step {
    const { dead, history } = this.outcomes[place]!
    if (dead) return { to: place, sends: [], says: [] }
    const key = `${place} ${typeof event === 'string' ? event : event.join('+')}`
    let step = this.steps.get(key)
    if (step === undefined) {
      step = this.replay([...history, event])
      this.steps.set(key, step)
    }
    return step
  }

  private enter(key: string, outcome: Outcome): number {
    let to = this.numbers.get(key)
    if (to === undefined) {
      to = this.outcomes.length
      if (to === STATES_MAX) throw new Error('what only grows tells states apart: they never end')
      this.numbers.set(key, to)
      this.outcomes.push(outcome)
    }
    return to
  }

  private replay(history: readonly Event[]): Step {
    const bench = openBench(this.writesBack)
    const { card } = bench
    for (const event of history) {
      card.sent = []
      if (event === FLUSH) bench.agent.poll()
      else if (event === WORK) card.idle()
      else card.serve(...(event as readonly string[]).map((name) => bench.frames.get(name)!))
    }
    const sends = history.length === 0 ? [] : card.sent.map((frame) => this.names.of(frame))
    const outcome = { history, durable: this.found(bench), dead: false }
    return { to: this.enter(fingerprintOf(bench), outcome), sends, says: [] }
  }

  /** Which operations a card finds that starts on what a cut would leave now. */
  private found({ card, host }: Bench): number {
    const content = card.nvdimm.durable.slice()
    const hostContent = host.part.durable.slice()
    const key = createHash('sha1').update(content).update(hostContent).digest('hex')
    let found = this.onMedium.get(key)
    if (found === undefined) {
      const part = new Nvdimm({ bytes: hostContent.length, content: hostContent })
      const after = new HostMemory({ part, platform: DDIO_ON })
      const nvdimm = new Nvdimm({ bytes: content.length, content })
      const next = cardOf(nvdimm, after)
      const region = next.open()
      const qp = next.connect()
      found = 0
      for (let i = 0; i < 2; i++) {
        const read = next.read(qp, region, i, 0, DATA_BYTES)
        if (read !== null && Buffer.compare(read, dataOf(DATA_BYTES, i + 1)) === 0) found |= 1 << i
      }
      this.onMedium.set(key, found)
    }
    return found
  }
}

/** What is scratch, only counted, or of no consequence: where the scrub stands. */
const NO_STATE = new Set([
  ...[
    'machine',
    'card',
    'part',
    'bytes',
    'words',
    'list',
    'answers',
    'counters',
    'facts',
    'random',
  ],
  ...['packet', 'reth', 'extension', 'pweth', 'aeth', 'deth', 'scrub', 'scrubbed'],
  // Queues of the host: what counts of them is said by `queuesOf`.
  ...['pair', 'queues', 'hostWork', 'answeredHost', 'link'],
])

/** How far card and agent are with their queues; the numbers themselves only grow. */
function queuesOf({ host }: State, { queues }: Agent): number[] {
  const { send, receive } = queues.pair
  return [queues.waiting(send), queues.waiting(receive), host.pending.pending, host.pending.waiting]
}

function fingerprintOf({ state, agent, card, host }: Bench): string {
  const hash = createHash('sha1')
  for (const part of [card.nvdimm, host.part]) hash.update(part.durable).update(part.live)
  hash.update(state.words.slice(HEALTH_AT >> 2, (HEALTH_AT >> 2) + 1))
  const seen = new Map<object, number>()
  const text = JSON.stringify([queuesOf(state, agent), state, agent, host], (name, value) => {
    if (NO_STATE.has(name) || /[UN]s$/.test(name) || value === state.host) return 0
    if (typeof value !== 'object' || value === null) return value
    if (ArrayBuffer.isView(value)) {
      hash.update(new Uint8Array(value.buffer, value.byteOffset, value.byteLength))
      return value.byteLength
    }
    const before = seen.get(value)
    if (before !== undefined) return `@${before}`
    seen.set(value, seen.size)
    return value
  })
  return hash.update(text).digest('hex')
}
