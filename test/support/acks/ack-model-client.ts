/**
 * The two clients of the ACK model: the shipped requester, and one that follows source 2.
 *
 * The shipped one is the product's own code (firmware/transport/requester.ts, completer.ts), fed
 * with the bytes of each answer; the model knows of it only what its hooks say. A state is a
 * history of events, and two histories are the same state if every field that can matter later is
 * the same, times being counted from now.
 */

import { takeResponse } from '../../../firmware/transport/completer.ts'
import {
  createRequester,
  post,
  type Requester,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import { writeAeth } from '../../../firmware/wire/aeth.ts'
import { OPCODES, PERSIST_ACK, RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import { blankPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { blankPaeth } from '../../../firmware/wire/persist-ack.ts'
import { writePaeth } from '../wire/headers.ts'
import type { Belief, ClientSide, Step } from './ack-model-sides.ts'

export const PATH_MTU = 256
const INCARNATION = 7
const ACK = 0x1f

/** Where the two operations lie in the sequence of packets. */
export interface Plan {
  readonly firstPsn: number
  /** Packets of each operation. */
  readonly packets: readonly [number, number]
}

/** The packets of a plan, in order. */
export function packetsOfPlan(plan: Plan): { psn: number; operation: number; last: boolean }[] {
  return plan.packets.flatMap((count, i) =>
    Array.from({ length: count }, (_, k) => ({
      psn: (plan.firstPsn + (i === 0 ? 0 : plan.packets[0]) + k) & 0xffffff,
      operation: i + 1,
      last: k === count - 1,
    })),
  )
}

function psnName(psn: number): string {
  return `0x${psn.toString(16).padStart(6, '0')}`
}

export function requestName(psn: number, operation: number): string {
  return `WRITE_PERSIST ${operation} (PSN ${psnName(psn)})`
}

export function ackName(psn: number): string {
  return `ACK ${psnName(psn)}`
}

export function nakName(psn: number, syndrome: number): string {
  return `NAK 0x${syndrome.toString(16)} ${psnName(psn)}`
}

export function persistAckName(first: number, last: number, operation: number): string {
  return `PERSIST_ACK ${psnName(first)}-${psnName(last)} operation ${operation}`
}

/** The bytes of an answer, by its name. */
type Decoder = (name: string) => readonly [Uint8Array, Packet]

/** The answers that the names above describe; an incarnation may stand behind them. */
const decodeName: Decoder = (name) => {
  const [, kind, first, last, operation, incarnation] =
    /^(\S+(?: 0x..)?) (0x\w{6})(?:-(0x\w{6}) operation (\d+))?(?: incarnation (\d+))?$/.exec(name)!
  const packet = blankPacket()
  const bytes = new Uint8Array(128)
  packet.opcode = kind === 'PERSIST_ACK' ? PERSIST_ACK : RC_ACKNOWLEDGE
  packet.row = OPCODES[packet.opcode]!
  packet.psn = Number(last ?? first)
  const syndrome = kind!.startsWith('NAK') ? Number(kind!.slice(4)) : ACK
  writeAeth(bytes, packet.row.aethAt, { syndrome, msn: 1 })
  if (last !== undefined) {
    writePaeth(bytes, packet.row.paethAt, {
      ...blankPaeth(),
      all: true,
      firstPsn: Number(first),
      lastPsn: Number(last),
      operationLow: Number(operation),
      incarnation: Number(incarnation ?? INCARNATION),
      copies: 2,
      mechanism: 1,
    })
  }
  return [bytes, packet]
}

const TIMER = 'timer'

interface Replay {
  readonly belief: Belief
  readonly fingerprint: string
  readonly hasTimer: boolean
  readonly sends: readonly string[]
  readonly says: readonly string[]
}

export interface ShippedOptions {
  readonly decode?: Decoder
  readonly incarnation?: number
  /** Infinity: the PERSIST_ACK is never asked for again. */
  readonly persistTimeoutUs?: number
}

/** The shipped requester. */
export class ShippedClient implements ClientSide {
  readonly start: Step
  private readonly plan: Plan
  private readonly decode: Decoder
  private readonly incarnation: number
  private readonly persistTimeoutUs: number
  private readonly histories: (readonly string[])[] = []
  private readonly states: Replay[] = []
  private readonly numbers = new Map<string, number>()
  private readonly steps: Map<string, Step>[] = []

  constructor(plan: Plan, options: ShippedOptions = {}) {
    this.plan = plan
    this.decode = options.decode ?? decodeName
    this.incarnation = options.incarnation ?? INCARNATION
    this.persistTimeoutUs = options.persistTimeoutUs ?? 200_000
    this.start = this.enter([])
  }

  take(state: number, message: string): Step {
    return this.step(state, message)
  }

  timer(state: number): Step | null {
    return this.states[state]!.hasTimer ? this.step(state, TIMER) : null
  }

  belief(state: number): Belief {
    return this.states[state]!.belief
  }

  private step(state: number, event: string): Step {
    const steps = this.steps[state]!
    let step = steps.get(event)
    if (step === undefined) {
      step = this.enter([...this.histories[state]!, event])
      steps.set(event, step)
    }
    return step
  }

  private enter(history: readonly string[]): Step {
    const replay = this.replay(history)
    let to = this.numbers.get(replay.fingerprint)
    if (to === undefined) {
      to = this.states.length
      this.numbers.set(replay.fingerprint, to)
      this.states.push(replay)
      this.histories.push(history)
      this.steps.push(new Map())
    }
    return { to, sends: replay.sends, says: replay.says }
  }

  /** Plays a history from the beginning; what is sent and said is that of its last event. */
  private replay(history: readonly string[]): Replay {
    const packets = packetsOfPlan(this.plan)
    let sends: string[] = []
    let says: string[] = []
    const belief = { received: 0, durable: 0, failed: 0 }
    const q = createRequester(
      {
        firstPsn: this.plan.firstPsn,
        pathMtu: PATH_MTU,
        incarnation: this.incarnation,
        persistTimeoutUs: this.persistTimeoutUs,
        depth: 2,
      },
      {
        emit: (request, _index, psn) => {
          if (!packets.some((packet) => packet.psn === psn && packet.operation === request.tag)) {
            throw new Error(`a packet of no plan: PSN ${psn}, operation ${request.tag}`)
          }
          sends.push(requestName(psn, request.tag))
        },
        received: (request) => {
          belief.received |= 1 << (request.tag - 1)
          says.push(`${request.tag} received`)
        },
        data: () => {},
        complete: (request) => {
          const good = request.status === 'SUCCESS'
          belief[good ? 'durable' : 'failed'] |= 1 << (request.tag - 1)
          says.push(`${request.tag} ${good ? 'DURABLE' : request.status}`)
        },
      },
    )
    this.plan.packets.forEach((count, i) => {
      post(q, WRITE_PERSIST, i + 1, count * PATH_MTU - 64, 0, i + 1)
    })
    let now = 0
    pump(q, now)
    for (const event of history) {
      sends = []
      says = []
      if (event === TIMER) {
        now = nextTimerUs(q)
        tick(q, now)
      } else {
        const [bytes, packet] = this.decode(event)
        takeResponse(q, bytes, packet, now)
        pump(q, now)
      }
    }
    const hasTimer = nextTimerUs(q) !== Infinity
    const fingerprint = `${JSON.stringify(belief)} ${fingerprintOf(q, now)}`
    return { belief, fingerprint, hasTimer, sends, says }
  }
}

/** What is only counted, or only scratch. */
const NO_STATE = new Set(['hooks', 'counts', 'aeth', 'paeth', 'ring'])

/** Points in time are told from lengths of time by their names. */
const MOMENT = /(At|Timer|Until)Us$/

function fingerprintOf(q: Requester, now: number): string {
  const ring = []
  for (let place = q.head; place < q.tail; place++) ring.push(flat(q.ring[place % q.depth]!, now))
  return `${flat(q, now)} ${ring.join(' ')}`
}

function flat(of: object, now: number): string {
  return Object.entries(of)
    .filter(([name]) => !NO_STATE.has(name))
    .map(([name, value]: [string, unknown]) => {
      if (typeof value === 'object' && value !== null) return JSON.stringify(value)
      const moment = typeof value === 'number' && MOMENT.test(name) && value > 0
      return moment ? Math.max(0, value - now) : String(value)
    })
    .join(',')
}

/** How often source 2's client asks again. */
const TRIES = 7

interface SourceState {
  /** How many ACKs of the PSN of each operation were received; -1: given up. */
  readonly acks: readonly [number, number]
  readonly tries: number
}

/**
 * A client by the letter of source 2 (P2-26): the first ACK with the PSN of the data says
 * "received", the second one "durable". What is not received is sent again, as RC asks. The source
 * knows no timer for the second ACK; with `asksAgain` there is one, to show what that would do.
 */
export class SourceClient implements ClientSide {
  readonly start: Step
  private readonly plan: Plan
  private readonly asksAgain: boolean
  private readonly states: SourceState[] = []
  private readonly numbers = new Map<string, number>()

  constructor(plan: Plan, asksAgain = false) {
    this.plan = plan
    this.asksAgain = asksAgain
    this.start = this.enter({ acks: [0, 0], tries: 0 }, this.requestsOf([1, 2]))
  }

  private enter(state: SourceState, sends: string[] = [], says: string[] = []): Step {
    const key = JSON.stringify(state)
    let to = this.numbers.get(key)
    if (to === undefined) {
      to = this.states.length
      this.numbers.set(key, to)
      this.states.push(state)
    }
    return { to, sends, says }
  }

  private requestsOf(operations: readonly number[]): string[] {
    return packetsOfPlan(this.plan)
      .filter(({ operation }) => operations.includes(operation))
      .map(({ psn, operation }) => requestName(psn, operation))
  }

  /** Operations that so many ACKs were received of. */
  private having({ acks }: SourceState, count: number): number[] {
    return [1, 2].filter((operation) => acks[operation - 1] === count)
  }

  take(place: number, message: string): Step {
    const state = this.states[place]!
    if (message.startsWith('NAK')) return this.enter(state, this.requestsOf(this.having(state, 0)))
    const acked = packetsOfPlan(this.plan).find(({ psn, last }) => last && ackName(psn) === message)
    const count = acked === undefined ? -1 : state.acks[acked.operation - 1]!
    if (count < 0 || count > 1) return this.enter(state)
    const { operation } = acked!
    const acks: [number, number] = [state.acks[0], state.acks[1]]
    acks[operation - 1] = count + 1
    const says = `${operation} ${count === 0 ? 'received' : 'DURABLE'}`
    return this.enter({ acks, tries: 0 }, [], [says])
  }

  timer(place: number): Step | null {
    const state = this.states[place]!
    let again = this.having(state, 0)
    if (again.length === 0 && this.asksAgain) again = this.having(state, 1)
    if (again.length === 0) return null
    if (state.tries < TRIES) {
      return this.enter({ ...state, tries: state.tries + 1 }, this.requestsOf(again))
    }
    const [one, two] = state.acks
    const acks = [one === 2 ? 2 : -1, two === 2 ? 2 : -1] as const
    return this.enter({ acks, tries: 0 }, [], ['failure'])
  }

  belief(place: number): Belief {
    const bits = (from: number, to: number): number =>
      this.states[place]!.acks.reduce<number>(
        (set, count, i) => set | (count >= from && count <= to ? 1 << i : 0),
        0,
      )
    return { received: bits(1, 2), durable: bits(2, 2), failed: bits(-1, -1) }
  }
}
