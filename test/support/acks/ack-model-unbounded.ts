/**
 * The walk of the ACK model without a number of faults: nothing that was sent ever goes away.
 */

import {
  BOTH,
  type Event,
  Messages,
  type Model,
  numbered,
  POSTED,
  pairOf,
  TIMER,
  TOGETHER,
  told,
} from './ack-model-sides.ts'
import { Walker } from './ack-model-walk.ts'

const AFTER: Event = { about: ['all was lost'], what: '', side: 'client', step: null }

/** A state in which messages stay permanently. */
interface Past {
  readonly client: number
  readonly responder: number
  /** Bit n: message n was sent. */
  readonly sent: bigint
  readonly from: Past | null
  readonly event: Event
  readonly events: number
}

/** The walk in which nothing that was sent ever goes away. */
export class Historian {
  readonly after: Walker
  readonly beliefs: Set<string> = new Set()
  readonly pairs: Set<number> = new Set()
  radius = 0
  falseDurability = 0
  falseStory = ''
  disorder = 0
  transitions = 0
  private readonly model: Model
  private readonly messages = new Messages()
  private readonly toClient: boolean[] = []
  private readonly known = new Set<string>()
  private readonly queue: Past[] = []

  constructor(model: Model) {
    this.model = model
    this.after = new Walker(model, 0)
  }

  /** Every answer that was ever sent. */
  answers(): string[] {
    return this.messages.names.filter((_, number) => this.toClient[number])
  }

  get states(): number {
    return this.known.size
  }

  private note(names: readonly string[], toClient: boolean): bigint {
    let set = 0n
    for (const name of names) {
      const number = this.messages.of(name)
      this.toClient[number] = toClient
      set |= 1n << BigInt(number)
    }
    return set
  }

  private enter(past: Past): void {
    const { client, responder, sent } = past
    this.transitions += 1
    const key = `${client},${responder},${sent.toString(36)}`
    if (this.known.has(key)) return
    this.known.add(key)
    this.pairs.add(pairOf(client, responder))
    this.radius = past.events
    const { received, durable, failed } = this.model.client.belief(client)
    this.beliefs.add(`${received}/${durable}/${failed}`)
    if ((durable & ~received) !== 0) this.disorder += 1
    if ((durable & ~this.model.responder.durable(responder)) !== 0) {
      this.falseDurability += 1
      if (this.falseStory === '') this.falseStory = storyOf(past)
      return
    }
    // What was resolved stays so, and what is durable too: there is nothing more to see.
    if ((durable | failed) === BOTH) return
    this.after.add(client, responder, [], [], AFTER)
    this.queue.push(past)
  }

  run(): this {
    const { client, responder } = this.model
    const stale = this.note(this.model.stale ?? [], true)
    const { start } = client
    const event: Event = { about: POSTED, what: '', side: 'client', step: start }
    const sent = stale | this.note(start.sends, false)
    const from = null
    this.enter({ client: start.to, responder: responder.start, sent, from, event, events: 0 })
    for (let i = 0; i < this.queue.length; i++) this.expand(this.queue[i]!)
    this.after.run()
    return this
  }

  private expand(past: Past): void {
    const { client, responder } = this.model
    const here: number[] = []
    for (let number = 0; 1n << BigInt(number) <= past.sent; number++) {
      if ((past.sent & (1n << BigInt(number))) !== 0n) here.push(number)
    }
    for (const number of here) {
      const name = this.messages.names[number]!
      if (this.toClient[number]!) {
        const step = client.take(past.client, name)
        this.go(past, { about: [name], what: 'arrives', side: 'client', step })
        continue
      }
      this.burst(past, [name])
      if (this.model.bursts !== true) continue
      for (const other of here) {
        if (!this.toClient[other]!) this.burst(past, [name, this.messages.names[other]!])
      }
    }
    for (const { label, step } of responder.choices(past.responder)) {
      this.go(past, { about: [label], what: '', side: 'responder', step })
    }
    const late = client.timer(past.client)
    if (late !== null) this.go(past, { about: TIMER, what: '', side: 'client', step: late })
  }

  private burst(past: Past, about: readonly string[]): void {
    const { responder } = this.model
    const step = responder.take(past.responder, about)
    const what = about.length > 1 ? TOGETHER : 'arrives'
    const event = { about, what, side: 'responder', step } as const
    this.go(past, event)
    for (const cut of responder.cuts?.(past.responder, about) ?? []) {
      this.go(past, { ...event, step: cut })
    }
  }

  private go(past: Past, event: Event): void {
    const { to, sends } = event.step!
    const ofClient = event.side === 'client'
    this.enter({
      client: ofClient ? to : past.client,
      responder: ofClient ? past.responder : to,
      sent: past.sent | this.note(sends, !ofClient),
      from: past,
      event,
      events: past.events + 1,
    })
  }
}

function storyOf(past: Past): string {
  const lines: string[] = []
  for (let at: Past | null = past; at !== null; at = at.from) lines.push(told(at.event))
  return numbered(lines.reverse())
}
