/**
 * What the server of a monitor tells its pages, in plain values: server and page go by the same
 * types, and nothing else is shared between them.
 */

/** How a card is, gravest first. */
export type WebState = 'AWAY' | 'CRITICAL' | 'UNKNOWN' | 'WARNING' | 'OK'

/** One moment of a card, for its charts; null is a gap. */
export interface WebPoint {
  readonly atMs: number
  readonly faults: number | null
  readonly refused: number | null
  readonly elements: number | null
  readonly completions: number | null
  readonly answerMs: number | null
  readonly records: number | null
  /** Of the slowest region of the moment, µs. */
  readonly p50Us: number | null
  readonly p99Us: number | null
}

export interface WebTable {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export interface WebLook {
  readonly target: string
  readonly atMs: number
  readonly state: WebState
  /** What is not as it should be, in words. */
  readonly findings: readonly string[]
  /** Names and values. */
  readonly facts: readonly (readonly [name: string, value: string])[]
  readonly tables: readonly WebTable[]
  /** Whether the card tells of a host with queues. */
  readonly hasHost: boolean
  /** Whether it tells what it acknowledges. */
  readonly hasFigures: boolean
  readonly point: WebPoint
}

export interface WebEvent {
  readonly target: string
  readonly atMs: number
  readonly gravity: string
  readonly text: string
}

/** What a page hears first: all targets in their order, and what there was so far. */
export interface WebHello {
  readonly targets: readonly string[]
  readonly intervalMs: number
  readonly looks: readonly WebLook[]
  readonly points: Readonly<Record<string, readonly WebPoint[]>>
  readonly events: readonly WebEvent[]
}
