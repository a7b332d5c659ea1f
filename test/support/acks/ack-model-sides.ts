/**
 * The two sides of the ACK model, the messages between them, and what is told of a schedule.
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

/** A state of the client and one of the responder, as one number. */
export function pairOf(client: number, responder: number): number {
  return client * 2 ** 20 + responder
}

/** Both operations. */
export const BOTH = 3

export interface Findings {
  readonly states: number
  readonly transitions: number
  /** Events from the beginning to the farthest state; 0 where faults are counted instead. */
  readonly radius: number
  /** States in which the client has reported what no medium holds, and the first one's story. */
  readonly falseDurability: number
  readonly falseStory: string
  /** States whose fault-free continuations all leave an operation open permanently. */
  readonly stuck: number
  readonly stuckStory: string
  /** States of which some fault-free continuation leaves an operation open permanently. */
  readonly unsure: number
  /** Pairs of a state of the client and one of the responder. */
  readonly pairs: ReadonlySet<number>
  /** Durable was reported before received (P2-28). */
  readonly disorder: number
  /** Pairs of beliefs that were met, as "received/durable/failed". */
  readonly beliefs: ReadonlySet<string>
}

/** What happened, in words that are put together only where a story is told. */
export interface Event {
  readonly about: readonly string[]
  readonly what: string
  readonly side: 'client' | 'responder'
  readonly step: Step | null
}

export function told({ about, what, side, step }: Event): string {
  const line = what === '' ? about.join() : `${about.join(' and ')} ${what}`
  if (step === null) return line
  const sent = step.sends.length === 0 ? '' : `; the ${side} sends ${step.sends.join(', ')}`
  const said = step.says.length === 0 ? '' : `; the ${side} reports ${step.says.join(', ')}`
  return `${line}${said}${sent}`
}

/** The messages by number. */
export class Messages {
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

export function numbered(lines: readonly string[]): string {
  return lines.map((line, i) => `${String(i).padStart(3)}  ${line}`).join('\n')
}

export const TOGETHER = 'arrive together'
export const TIMER: readonly string[] = ['a timer runs out']
export const POSTED: readonly string[] = ['both operations are posted']

export function arrives(overtaken: number): string {
  return overtaken === 0 ? 'arrives' : 'overtakes others'
}
