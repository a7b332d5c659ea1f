/**
 * The walk of the ACK model that counts faults: channels keep their order, and every message lost,
 * doubled or overtaken, and every timer that runs out early, costs one.
 */

import {
  arrives,
  BOTH,
  type ClientSide,
  type Event,
  type Findings,
  Messages,
  type Model,
  numbered,
  pairOf,
  type Step,
  TIMER,
  TOGETHER,
  told,
} from './ack-model-sides.ts'

const EVERYWHERE: ReadonlySet<number> = new Set()

/**
 * Which answers can never again mean anything to the client, from a state on: neither there nor in
 * any state that any of `names` and the timers lead to. To leave them out changes nothing.
 */
export class Inert {
  private readonly alive = new Map<string, Set<number>>()

  constructor(client: ClientSide, names: readonly string[]) {
    const states = new Set([client.start.to])
    const before = new Map<number, number[]>()
    for (const name of names) this.alive.set(name, new Set())
    for (const state of states) {
      const late = client.timer(state)
      const steps = names.map((name) => client.take(state, name))
      steps.forEach((step, i) => {
        if (step.to !== state || step.sends.length > 0) this.alive.get(names[i]!)!.add(state)
      })
      for (const { to } of late === null ? steps : [...steps, late]) {
        states.add(to)
        before.set(to, [...(before.get(to) ?? []), state])
      }
    }
    for (const alive of this.alive.values()) {
      for (const state of alive) for (const earlier of before.get(state) ?? []) alive.add(earlier)
    }
  }

  /** The states in which the answer may still mean something. */
  aliveAt(name: string): ReadonlySet<number> {
    return this.alive.get(name) ?? EVERYWHERE
  }
}

/** One state of the model; messages are numbers, the oldest first. */
interface Node {
  readonly client: number
  readonly responder: number
  readonly requests: readonly number[]
  readonly answers: readonly number[]
  readonly from: number
  readonly event: Event
  readonly faults: number
  done: boolean
}

function without(numbers: readonly number[], at: number): readonly number[] {
  return [...numbers.slice(0, at), ...numbers.slice(at + 1)]
}

function doubled(numbers: readonly number[], at: number): readonly number[] {
  return [...numbers.slice(0, at + 1), ...numbers.slice(at)]
}

/** Where to, by what, at the cost of how many faults, and whether it comes without any. */
type Visit = (
  client: number,
  responder: number,
  requests: readonly number[],
  answers: readonly number[],
  event: Event,
  faults: number,
  fair: boolean,
) => void

export class Walker {
  readonly nodes: Node[] = []
  readonly beliefs: Set<string> = new Set()
  readonly pairs: Set<number> = new Set()
  radius = 0
  transitions = 0
  falseDurability = 0
  falseStory = ''
  disorder = 0
  private readonly model: Model
  private readonly depth: number
  private readonly inert: Inert | null
  /** For each answer the client's states in which it may still mean something. */
  private readonly alive: ReadonlySet<number>[] = []
  private readonly messages = new Messages()
  private readonly known = new Map<string, number>()
  private readonly fairFrom: number[] = []
  private readonly fairTo: number[] = []
  private current = 0
  private level: number[] = []
  private nextLevel: number[] = []
  private readonly bad = new Set<number>()

  constructor(model: Model, depth: number, inert: Inert | null = null) {
    this.model = model
    this.depth = depth
    this.inert = inert
  }

  private numbersOf(names: readonly string[]): number[] {
    return names.map((name) => this.messages.of(name))
  }

  /** What is under way, with what a step sends at the end. */
  private behind(numbers: readonly number[], { sends }: Step): readonly number[] {
    return sends.length === 0 ? numbers : [...numbers, ...this.numbersOf(sends)]
  }

  /** A place to walk from, without anything under way but `requests` and `answers`. */
  add(
    client: number,
    responder: number,
    requests: readonly string[],
    answers: readonly string[],
    event: Event,
  ): number {
    const to = this.numbersOf(requests)
    return this.enter(client, responder, to, this.numbersOf(answers), -1, event, 0)
  }

  private enter(
    client: number,
    responder: number,
    requests: readonly number[],
    allAnswers: readonly number[],
    from: number,
    event: Event,
    faults: number,
  ): number {
    const answers = allAnswers.every((answer) => this.isAlive(client, answer))
      ? allAnswers
      : allAnswers.filter((answer) => this.isAlive(client, answer))
    const key = String.fromCharCode(client, responder, ...requests, 0xffff, ...answers)
    this.pairs.add(pairOf(client, responder))
    let place = this.known.get(key)
    if (place === undefined) {
      place = this.nodes.length
      this.known.set(key, place)
      this.nodes.push({ client, responder, requests, answers, from, event, faults, done: false })
      this.queue(place, faults)
    } else if (faults < this.nodes[place]!.faults) {
      this.nodes[place] = { ...this.nodes[place]!, from, event, faults }
      this.queue(place, faults)
    }
    return place
  }

  /** May the answer still mean something to the client? */
  private isAlive(client: number, answer: number): boolean {
    if (this.inert === null) return true
    let alive = this.alive[answer]
    if (alive === undefined) {
      alive = this.inert.aliveAt(this.messages.names[answer]!)
      this.alive[answer] = alive
    }
    return alive === EVERYWHERE || alive.has(client)
  }

  private queue(place: number, faults: number): void {
    if (faults === this.current) this.level.push(place)
    else this.nextLevel.push(place)
  }

  /** Visits everything that can be reached from what was added. */
  run(): this {
    for (;;) {
      for (let i = 0; i < this.level.length; i++) {
        const place = this.level[i]!
        const node = this.nodes[place]!
        if (node.done || node.faults !== this.current) continue
        node.done = true
        this.expand(place, node)
      }
      if (this.nextLevel.length === 0) return this
      this.level = this.nextLevel
      this.nextLevel = []
      this.current += 1
    }
  }

  private expand(place: number, node: Node): void {
    this.fairFrom[place] = this.fairTo.length
    this.transitions += 1
    if (this.judge(place, node) || this.isResolved(node)) {
      this.fairTo.push(-1)
      return
    }
    const visit: Visit = (client, responder, requests, answers, event, faults, fair) => {
      if (node.faults + faults > this.depth) return
      this.transitions += 1
      const sum = node.faults + faults
      const to = this.enter(client, responder, requests, answers, place, event, sum)
      if (fair) this.fairTo.push(to)
    }
    this.move(node, visit)
    this.fairTo.push(-1)
  }

  /** Everything that may happen next. */
  private move(node: Node, visit: Visit): void {
    this.deliverRequests(node, visit)
    this.deliverAnswers(node, visit)
    const busy = this.letResponderChoose(node, visit)
    this.letTimerRunOut(node, busy, visit)
  }

  /** Looks at what the client believes. True where that is false. */
  private judge(place: number, node: Node): boolean {
    const { received, durable, failed } = this.model.client.belief(node.client)
    this.beliefs.add(`${received}/${durable}/${failed}`)
    if ((durable & ~received) !== 0) this.disorder += 1
    if ((durable & ~this.model.responder.durable(node.responder)) !== 0) {
      this.falseDurability += 1
      if (this.falseStory === '') this.falseStory = this.story(place)
      this.bad.add(place)
      return true
    }
    return false
  }

  private isResolved(node: Node): boolean {
    const { durable, failed } = this.model.client.belief(node.client)
    return (durable | failed) === BOTH
  }

  private deliverRequests(node: Node, visit: Visit): void {
    const { client, responder, requests, answers } = node
    const { lost, doubled: twice } = this.messages
    requests.forEach((message, i) => {
      if (requests.indexOf(message) < i) return
      const rest = without(requests, i)
      const about = this.messages.alone[message]!
      this.arrive(node, rest, about, i, true, visit)
      visit(client, responder, rest, answers, lost[message]!, 1, false)
      visit(client, responder, doubled(requests, i), answers, twice[message]!, 1, false)
      if (i === 0 && this.model.bursts === true) this.deliverPairs(node, visit)
    })
  }

  /** The oldest request in one burst with another. */
  private deliverPairs(node: Node, visit: Visit): void {
    const { requests } = node
    const names = this.messages.names
    for (let i = 1; i < requests.length; i++) {
      if (requests.indexOf(requests[i]!, 1) < i) continue
      const burst = [names[requests[0]!]!, names[requests[i]!]!]
      this.arrive(node, without(requests, i).slice(1), burst, i - 1, false, visit)
    }
  }

  /** A burst arrives that overtook `overtaken` others; or the power is cut while it is served. */
  private arrive(
    node: Node,
    rest: readonly number[],
    about: readonly string[],
    overtaken: number,
    fair: boolean,
    visit: Visit,
  ): void {
    const { responder } = this.model
    const faults = overtaken === 0 ? 0 : 1
    const what = about.length > 1 ? TOGETHER : arrives(overtaken)
    const step = responder.take(node.responder, about)
    const whole = this.behind(node.answers, step)
    const event: Event = { about, what, side: 'responder', step }
    visit(node.client, step.to, rest, whole, event, faults, fair && overtaken === 0)
    for (const cut of responder.cuts?.(node.responder, about) ?? []) {
      const sent = this.behind(node.answers, cut)
      visit(node.client, cut.to, rest, sent, { ...event, step: cut }, faults, false)
    }
  }

  private deliverAnswers(node: Node, visit: Visit): void {
    const { client, responder, requests, answers } = node
    const { lost, doubled: twice } = this.messages
    answers.forEach((message, i) => {
      if (answers.indexOf(message) < i) return
      const rest = without(answers, i)
      const about = this.messages.alone[message]!
      const step = this.model.client.take(client, about[0]!)
      const sent = this.behind(requests, step)
      const event: Event = { about, what: arrives(i), side: 'client', step }
      visit(step.to, responder, sent, rest, event, i === 0 ? 0 : 1, i === 0)
      visit(client, responder, requests, rest, lost[message]!, 1, false)
      visit(client, responder, requests, doubled(answers, i), twice[message]!, 1, false)
    })
  }

  /** True if the responder has something to do by itself. */
  private letResponderChoose(node: Node, visit: Visit): boolean {
    let busy = false
    for (const { label, step, fair } of this.model.responder.choices(node.responder)) {
      const sent = this.behind(node.answers, step)
      const event: Event = { about: [label], what: '', side: 'responder', step }
      visit(node.client, step.to, node.requests, sent, event, 0, fair)
      busy ||= fair
    }
    return busy
  }

  private letTimerRunOut(node: Node, busy: boolean, visit: Visit): void {
    const step = this.model.client.timer(node.client)
    if (step === null) return
    const early = busy || node.requests.length > 0 || node.answers.length > 0
    if (early && this.model.patient === true) return
    const sent = this.behind(node.requests, step)
    const event: Event = { about: TIMER, what: early ? 'early' : '', side: 'client', step }
    visit(step.to, node.responder, sent, node.answers, event, early ? 1 : 0, !early)
  }

  /** What led to a place, one line each. */
  story(place: number): string {
    const lines: string[] = []
    for (let at = place; at >= 0; at = this.nodes[at]!.from) {
      lines.push(told(this.nodes[at]!.event))
    }
    const faults = this.nodes[place]!.faults
    return `${numbered(lines.reverse())}\n     (${faults} ${faults === 1 ? 'fault' : 'faults'})`
  }

  /** The same, and what still happens where no fault does, until nothing is left to happen. */
  stuckStory(place: number): string {
    const lines: string[] = []
    let node: Node | null = this.nodes[place]!
    let last = node
    while (node !== null && lines.length < 99) {
      last = node
      node = this.fairly(node)
      if (node !== null) lines.push(told(node.event))
    }
    const { received, durable, failed } = this.model.client.belief(last.client)
    const waits = [1, 2].filter((operation) => ((durable | failed) & (1 << (operation - 1))) === 0)
    const known = waits.map(
      (n) => `${n} (${(received & (1 << (n - 1))) === 0 ? 'not ' : ''}received)`,
    )
    lines.push(`nothing is left to happen: the client waits forever for ${known.join(' and ')}`)
    return `${this.story(place)}\n${lines.map((line) => `  +  ${line}`).join('\n')}`
  }

  /** What comes next where no fault does, or null. */
  private fairly(node: Node): Node | null {
    let next: Node | null = null
    this.move(node, (client, responder, requests, answers, event, faults, fair) => {
      if (!fair || next !== null) return
      next = { client, responder, requests, answers, event, faults, from: -1, done: false }
    })
    return next
  }

  /**
   * What the fault-free continuations of every place come to: NONE resolves it, SOME do, or ALL do
   * (one that goes round in a circle resolves nothing). Found backwards from what is resolved.
   */
  fates(): Uint8Array {
    const { nodes, fairTo, fairFrom } = this
    const before: number[][] = nodes.map(() => [])
    const open = new Int32Array(nodes.length)
    nodes.forEach((_, place) => {
      for (let at = fairFrom[place]!; fairTo[at]! >= 0; at++) {
        before[fairTo[at]!]!.push(place)
        open[place]! += 1
      }
    })
    const ends = nodes.flatMap((node, place) =>
      this.bad.has(place) || this.isResolved(node) ? [place] : [],
    )
    const fates = new Uint8Array(nodes.length)
    spread(ends, before, (place) => {
      if (fates[place] !== NONE) return false
      fates[place] = SOME
      return true
    })
    spread(ends, before, (place) => {
      if (fates[place] === ALL) return false
      open[place]! -= 1
      if (open[place]! > 0 && !this.isResolved(nodes[place]!) && !this.bad.has(place)) return false
      fates[place] = ALL
      return true
    })
    return fates
  }
}

const NONE = 0
const SOME = 1
const ALL = 2

/** Goes backwards from `ends`, behind every place that `takes` accepts. */
function spread(
  ends: readonly number[],
  before: readonly (readonly number[])[],
  takes: (place: number) => boolean,
): void {
  const queue = ends.filter(takes)
  for (let place = queue.pop(); place !== undefined; place = queue.pop()) {
    for (const earlier of before[place]!) if (takes(earlier)) queue.push(earlier)
  }
}

export function findingsOf(walker: Walker): Findings {
  let stuck = 0
  let unsure = 0
  let first = -1
  walker.fates().forEach((fate, place) => {
    if (fate !== ALL) unsure += 1
    if (fate !== NONE) return
    stuck += 1
    if (first < 0 || walker.nodes[place]!.faults < walker.nodes[first]!.faults) first = place
  })
  return {
    states: walker.nodes.length,
    transitions: walker.transitions,
    falseDurability: walker.falseDurability,
    falseStory: walker.falseStory,
    stuck,
    stuckStory: first < 0 ? '' : walker.stuckStory(first),
    unsure,
    disorder: walker.disorder,
    beliefs: walker.beliefs,
    pairs: walker.pairs,
    radius: walker.radius,
  }
}
