/**
 * A responder for the ACK model that receives first and commits later, under either rule.
 *
 * It takes packets in the order of their PSNs and nothing else, acknowledges them as received at
 * once, makes the operations durable later, one by one in any order or both together, and says so.
 * A duplicate is acknowledged again and never executed. It may lose its power at any time, and the
 * flush of what it received may fail: then nothing more comes from it but, in the latter case, one
 * refusal.
 *
 * A burst gets one receive-ACK, as RC allows; without bursts each packet has its own.
 *
 * - `source`: both acknowledgements are the ACK of the PSN, as in source 2 ([S908], claim 9).
 * - `ours`: the receive-ACK is the ACK; the persist-ACK is a PERSIST_ACK of its own, and comes
 *   again for a duplicate of what is durable (G2-2).
 */

import {
  ackName,
  nakName,
  type Plan,
  packetsOfPlan,
  persistAckName,
  requestName,
} from './ack-model-client.ts'
import type { Choice, ResponderSide, Step } from './ack-model-sides.ts'

type Rule = 'source' | 'ours'

const SEQUENCE = 0x60
const OPERATIONAL = 0x63

interface State {
  /** Packets accepted so far. */
  readonly next: number
  readonly durable: number
  readonly nakSent: boolean
  readonly dead: boolean
}

export class LateResponder implements ResponderSide {
  readonly start: number
  private readonly rule: Rule
  private readonly breaks: boolean
  private readonly packets: ReturnType<typeof packetsOfPlan>
  private readonly states: State[] = []
  private readonly numbers = new Map<string, number>()

  /** Without `breaks` there is neither a power cut nor a flush that fails. */
  constructor(plan: Plan, rule: Rule, breaks = true) {
    this.rule = rule
    this.breaks = breaks
    this.packets = packetsOfPlan(plan)
    this.start = this.enter({ next: 0, durable: 0, nakSent: false, dead: false }, []).to
  }

  private enter(state: State, sends: readonly string[]): Step {
    const key = JSON.stringify(state)
    let to = this.numbers.get(key)
    if (to === undefined) {
      to = this.states.length
      this.numbers.set(key, to)
      this.states.push(state)
    }
    return { to, sends, says: [] }
  }

  durable(place: number): number {
    return this.states[place]!.durable
  }

  take(place: number, burst: readonly string[]): Step {
    let step: Step = { to: place, sends: [], says: [] }
    for (const message of burst) {
      const next = this.takeOne(step.to, message)
      step = { ...next, sends: [...step.sends, ...next.sends] }
    }
    // One acknowledgement for the burst: as RC allows, for the later one covers the earlier.
    if (burst.length > 1 && step.sends.every((answer) => answer.startsWith('ACK'))) {
      step = { ...step, sends: step.sends.slice(-1) }
    }
    return step
  }

  private takeOne(place: number, message: string): Step {
    const state = this.states[place]!
    if (state.dead) return this.enter(state, [])
    const { packets } = this
    const at = packets.findIndex(({ psn, operation }) => requestName(psn, operation) === message)
    if (at > state.next) {
      const sends = state.nakSent ? [] : [nakName(packets[state.next]!.psn, SEQUENCE)]
      return this.enter({ ...state, nakSent: true }, sends)
    }
    const { psn, last } = packets[at]!
    if (at < state.next) return this.enter(state, this.repeat(state, at))
    const sends = last ? [ackName(psn)] : []
    return this.enter({ ...state, next: at + 1, nakSent: false }, sends)
  }

  private repeat(state: State, at: number): string[] {
    const { psn, operation } = this.packets[at]!
    if (this.rule === 'source') return [ackName(psn)]
    const begins = at === 0 || this.packets[at - 1]!.operation !== operation
    const durable = (state.durable & (1 << (operation - 1))) !== 0
    const again = begins && durable ? [this.persistAck(operation, operation)] : []
    return [...again, ackName(this.packets[state.next - 1]!.psn)]
  }

  private lastPsnOf(operation: number): number {
    return this.packets.findLast((packet) => packet.operation === operation)!.psn
  }

  private persistAck(first: number, last: number): string {
    return persistAckName(this.lastPsnOf(first), this.lastPsnOf(last), last)
  }

  choices(place: number): readonly Choice[] {
    const state = this.states[place]!
    if (state.dead) return []
    const waiting = [1, 2].filter(
      (operation) =>
        (state.durable & (1 << (operation - 1))) === 0 &&
        this.packets.every((packet, i) => packet.operation !== operation || i < state.next),
    )
    const choices = waiting.map((operation) => this.commit(state, operation, operation))
    if (waiting.length === 2) choices.push(this.commit(state, 1, 2))
    if (!this.breaks) return choices
    if (waiting.length > 0 && this.rule === 'ours') {
      const refusal = nakName(this.lastPsnOf(waiting[0]!), OPERATIONAL)
      const step = this.enter({ ...state, dead: true }, [refusal])
      choices.push({ label: 'the flush fails', step, fair: false })
    }
    const step = this.enter({ ...state, dead: true }, [])
    return [...choices, { label: 'the power is cut', step, fair: false }]
  }

  private commit(state: State, first: number, last: number): Choice {
    const durable = state.durable | (1 << (first - 1)) | (1 << (last - 1))
    const sends =
      this.rule === 'ours'
        ? [this.persistAck(first, last)]
        : first === last
          ? [ackName(this.lastPsnOf(first))]
          : [ackName(this.lastPsnOf(first)), ackName(this.lastPsnOf(last))]
    const what = first === last ? `${first} becomes` : 'both become'
    return { label: `${what} durable`, step: this.enter({ ...state, durable }, sends), fair: true }
  }
}
