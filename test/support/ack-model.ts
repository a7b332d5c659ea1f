/**
 * A model of two parties and a hostile network between them, walked completely.
 *
 * A client has two operations in flight at a responder. Each side is a finite automaton; between
 * them the network may lose a message, double it, let it be overtaken, and be so slow that a timer
 * of the client runs out although the answer is on its way.
 *
 * What always holds:
 * - `walk` visits every state that at most `depth` faults lead to. A fault is a message lost, a
 *   message doubled, a message that overtakes those sent before it, or a timer that runs out while
 *   something is still to happen. Commits, and one power cut at any moment, cost nothing. Each
 *   state is expanded once, with the fewest faults that lead to it, and so for every larger number.
 * - `walkUnbounded` has no such number: a message that was sent once may arrive at any time, any
 *   number of times, or never. Whatever `walk` can reach at any depth is reached here.
 * - A fault-free continuation delivers everything in its order, commits what was received, and lets
 *   a timer run out only when nothing else is left to happen. A state is stuck if none of these
 *   continuations resolves both operations; it is unsure if not all of them do.
 * - The first violation that is found has the fewest faults, and the shortest story of those.
 */

/** What a side does about one event. */
export interface Step {
  /** The state of the side afterwards. */
  readonly to: number
  readonly sends: readonly string[]
  /** For the story. */
  readonly says: readonly string[]
}

/** What the client believes; each a set of operations, operation n being bit n - 1. */
export interface Belief {
  readonly received: number
  readonly durable: number
  readonly failed: number
}

export interface ClientSide {
  /** Posts both operations. */
  readonly start: Step
  take(state: number, message: string): Step
  /** The next timer of that state runs out; null where none runs. */
  timer(state: number): Step | null
  belief(state: number): Belief
}

export interface Choice {
  readonly label: string
  readonly step: Step
  /** Happens by itself sooner or later; a power cut does not. */
  readonly fair: boolean
}

export interface ResponderSide {
  readonly start: number
  /** Messages that arrive in one burst, in that order. */
  take(state: number, burst: readonly string[]): Step
  /** What else may come of it: the power is cut in the middle. */
  cuts?(state: number, burst: readonly string[]): readonly Step[]
  choices(state: number): readonly Choice[]
  /** The operations that would be found on the medium if the power went now. */
  durable(state: number): number
}

export interface Model {
  readonly client: ClientSide
  readonly responder: ResponderSide
  /** Also deliver any two requests as one burst. */
  readonly bursts?: boolean
  /** Answers that are under way from the beginning: of another time. */
  readonly stale?: readonly string[]
  /** Timers run out only when nothing else is left to happen. */
  readonly patient?: boolean
}

/** Both operations. */
export const BOTH = 3

export interface Findings {
  readonly states: number
  readonly transitions: number
  /** Events of the longest of the shortest schedules: no state is farther from the beginning. */
  readonly radius: number
  /** States in which the client has reported what no medium holds, and the first one's story. */
  readonly falseDurability: number
  readonly falseStory: string
  /** States whose fault-free continuations all leave an operation open for ever. */
  readonly stuck: number
  readonly stuckStory: string
  /** States of which some fault-free continuation leaves an operation open for ever. */
  readonly unsure: number
  /** Pairs of a state of the client and one of the responder. */
  readonly pairs: ReadonlySet<string>
  /** Durable was reported before received (P2-28). */
  readonly disorder: number
  /** Pairs of beliefs that were met, as "received/durable/failed". */
  readonly beliefs: ReadonlySet<string>
}

/**
 * Which answers can never again mean anything to the client, from a state on: neither there nor in
 * any state that any of `names` and the timers lead to. To leave them out changes nothing.
 */
class Inert {
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

  has(state: number, name: string): boolean {
    return this.alive.get(name)?.has(state) === false
  }
}

/** What happened, in words that are put together only where a story is told. */
interface Event {
  readonly about: readonly string[]
  readonly what: string
  readonly side: 'client' | 'responder'
  readonly step: Step | null
}

function told({ about, what, side, step }: Event): string {
  const line = what === '' ? about.join() : `${about.join(' and ')} ${what}`
  if (step === null) return line
  const sent = step.sends.length === 0 ? '' : `; the ${side} sends ${step.sends.join(', ')}`
  const said = step.says.length === 0 ? '' : `; the ${side} reports ${step.says.join(', ')}`
  return `${line}${said}${sent}`
}

/** One state of the model; messages are numbers, in ascending order. */
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

/** The messages by number. */
class Messages {
  readonly names: string[] = []
  /** Of each message alone: its name, that it is lost, that it is doubled. */
  readonly alone: (readonly string[])[] = []
  readonly lost: Event[] = []
  readonly doubled: Event[] = []
  private readonly numbers = new Map<string, number>()

  of(name: string): number {
    let number = this.numbers.get(name)
    if (number === undefined) {
      number = this.names.length
      const about = [name]
      this.names.push(name)
      this.alone.push(about)
      this.lost.push({ about, what: 'is lost', side: 'client', step: null })
      this.doubled.push({ about, what: 'is doubled', side: 'client', step: null })
      this.numbers.set(name, number)
    }
    return number
  }
}

function without(numbers: readonly number[], at: number): readonly number[] {
  return [...numbers.slice(0, at), ...numbers.slice(at + 1)]
}

function doubled(numbers: readonly number[], at: number): readonly number[] {
  return [...numbers.slice(0, at + 1), ...numbers.slice(at)]
}

const TOGETHER = 'arrive together'
const TIMER: readonly string[] = ['a timer runs out']
const POSTED: readonly string[] = ['both operations are posted']
const AFTER: Event = { about: ['all was lost'], what: '', side: 'client', step: null }

function arrives(overtaken: number): string {
  return overtaken === 0 ? 'arrives' : 'overtakes others'
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

class Walker {
  readonly nodes: Node[] = []
  readonly beliefs = new Set<string>()
  readonly pairs = new Set<string>()
  radius = 0
  transitions = 0
  falseDurability = 0
  falseStory = ''
  disorder = 0
  private readonly model: Model
  private readonly depth: number
  private readonly inert: Inert | null
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
    const { inert, messages } = this
    const answers =
      inert === null
        ? allAnswers
        : allAnswers.filter((answer) => !inert.has(client, messages.names[answer]!))
    const key = String.fromCharCode(client, responder, ...requests, 0xffff, ...answers)
    this.pairs.add(`${client}/${responder}`)
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
    lines.push(`nothing is left to happen: the client waits for ever for ${known.join(' and ')}`)
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

function findingsOf(walker: Walker): Findings {
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

/** Every schedule of at most `depth` faults. */
export function walk(model: Model, depth: number): Findings {
  const { start } = model.client
  const names = new Historian(model).run().answers()
  const walker = new Walker(model, depth, new Inert(model.client, names))
  const event: Event = { about: POSTED, what: '', side: 'client', step: start }
  walker.add(start.to, model.responder.start, start.sends, model.stale ?? [], event)
  return findingsOf(walker.run())
}

/** A state in which messages stay for ever. */
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
class Historian {
  readonly after: Walker
  readonly beliefs = new Set<string>()
  readonly pairs = new Set<string>()
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
    this.pairs.add(`${client}/${responder}`)
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

function numbered(lines: readonly string[]): string {
  return lines.map((line, i) => `${String(i).padStart(3)}  ${line}`).join('\n')
}

/**
 * Every schedule of any number of drops, duplicates, delays and early timeouts. `stuck` and
 * `unsure` count states of the fault-free continuations, from every state of this walk, after
 * everything that was under way has been lost.
 */
export function walkUnbounded(model: Model): Findings {
  const walk = new Historian(model).run()
  const { states, transitions, falseDurability, falseStory, disorder, beliefs, pairs } = walk
  return {
    ...findingsOf(walk.after),
    ...{ states, transitions, falseDurability, falseStory, disorder, beliefs, pairs },
    radius: walk.radius,
  }
}
