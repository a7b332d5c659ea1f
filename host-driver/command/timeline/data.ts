/**
 * What the page of a timeline is made of, and nothing else: it stands in the page as JSON.
 *
 * Invariant: what a cut may leave and what recovery makes of it was computed by the firmware's own
 * recovery (outcomes.ts). The script of the page looks it up and shows it; it decides nothing.
 */

/** Lines of the part: the first, and how many. */
export type LineRange = readonly [first: number, count: number]

export type StepKind =
  | 'arrived' // a request is whole at the card
  | 'frame' // another frame
  | 'burst'
  | 'received' // an acknowledgement: the card has it
  | 'durable' // a PERSIST_ACK
  | 'refused' // an acknowledgement that refuses
  | 'store'
  | 'clean'
  | 'fence'
  | 'fault'
  | 'cut'
  | 'power'
  | 'end'

/** One event of the trace. */
export interface Step {
  /** Its number in the trace. */
  readonly n: number
  /** The card's clock, µs. */
  readonly t: number
  readonly kind: StepKind
  /** What happened, in one line. */
  readonly text: string
  /** Lines that are pending behind it, and which they were not, or are by another store. */
  readonly adds?: readonly LineRange[]
  /** Lines that are durable behind it, of those that were pending. */
  readonly settles?: readonly LineRange[]
  /**
   * Of a cut: the pending lines from each line on, eight letters each, one for a chunk: `1` is as
   * it was last stored, `0` is as it was durable, `.` was both, `t` is neither.
   */
  readonly left?: readonly (readonly [line: number, survived: string])[]
  /** Number of a fence in its commit: 1 for F1. */
  readonly fence?: number
  /** The record that it is about, a place in `records`. */
  readonly record?: number
  /** Of a store into a copy: the version that the copy is behind it, for loads; -1: not whole. */
  readonly version?: number
  /** Place in `cuts`: what a power cut behind it may leave; as behind the step before if absent. */
  readonly cut?: number
}

export interface Area {
  readonly name: string
  readonly lines: LineRange
}

export type MarkKind = 'arrived' | 'received' | 'durable' | 'refused' | 'lane' | 'phase' | 'copy'

/** A mark in a row; of a copy, which one. */
export type Mark = readonly [step: number, kind: MarkKind, copy?: number]

export interface Row {
  readonly kind: 'pair' | 'batch' | 'record'
  readonly label: string
  readonly marks: readonly Mark[]
  /** Of a record: its place in `records`. */
  readonly record?: number
}

/** What a record may be: what stood there first, then each that was written into it. */
export interface Version {
  /** Operation id, decimal; null where it was there before, or no client wrote it. */
  readonly operation: string | null
  readonly sequence: string
  /** Bytes of data; null where it is not known. */
  readonly length: number | null
  /** The first two lines of its image, in hex: header and data. */
  readonly head: string
  /** The step at which its intent was stored; -1 for what was there before. */
  readonly from: number
}

/** Of a lane: what loads see of it, what is durable, in words; from that step on. */
export type LaneChange = readonly [step: number, lane: number, live: string, durable: string]

/** How many copies hold the newest version durably, from that step on. */
export type CopiesChange = readonly [step: number, version: number, copies: number]

export interface RecordStory {
  readonly name: string
  /** First line of each copy, and how many lines a copy has. */
  readonly places: readonly number[]
  readonly lines: number
  readonly versions: readonly Version[]
  readonly lanes: readonly LaneChange[]
  readonly copies: readonly CopiesChange[]
}

/** What a cut left of a record, and what recovery made of it: a row of `results`. */
export interface Result {
  /** The lane: 'A', 'B', 'clear', 'torn', or 'another' record's. */
  readonly lane: string
  /** Of each copy the version that it is, or -1: torn. */
  readonly copies: readonly number[]
  /** The row of the table of cases, or '' where no lane named the record. */
  readonly row: string
  /** What recovery did by it. */
  readonly action: string
  /** The version that the record is then in every copy; -1: lost; -2: copies that differ. */
  readonly outcome: number
}

/** One image that a cut may leave. */
export interface CutImage {
  readonly name: string
  /** Of each record under way its place in `results`. */
  readonly results: readonly number[]
  /** Of each of the `places` whether it survived: `1` or `0`; `t`: an earlier store did. */
  readonly kept?: string
}

export interface Cut {
  /** Pending lines, and chunks in which what is durable and what was stored differ. */
  readonly lines: number
  readonly chunks: number
  /** These chunks, by their number in the part, where they are few. */
  readonly places?: readonly number[]
  /** The power of the run itself went next, and the first of `shown` is what that left. */
  readonly left?: boolean
  /** How many images a cut may leave, as people write it. */
  readonly images: string
  /** Whether all of them are in `shown`. */
  readonly all: boolean
  /** Records under way, places in `records`. */
  readonly records: readonly number[]
  readonly shown: readonly CutImage[]
  /** Results that break the promise: neither old nor new, or older than acknowledged. */
  readonly broken: number
}

export interface Timeline {
  readonly title: string
  /** What is wrong with the run, where somebody says so. */
  readonly violation?: string
  /** What is to be said of the trace, in sentences. */
  readonly notes: readonly string[]
  readonly steps: readonly Step[]
  readonly rows: readonly Row[]
  /** Lines that are no record's, by what they are. */
  readonly areas: readonly Area[]
  readonly records: readonly RecordStory[]
  readonly results: readonly Result[]
  readonly cuts: readonly Cut[]
  /** The step where the cursor stands first. */
  readonly cursor: number
}
