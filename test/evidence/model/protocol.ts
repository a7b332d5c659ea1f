/**
 * The protocol as a small machine of whole numbers: what a group stores and fences in which order,
 * what a cut may leave of it, and what a restart decides. Written from the crash model and from the
 * argument for the fences, not from the firmware.
 *
 * Two records, two clients, two lanes. A version of a record is the number of the write that made
 * it, 0 at first. What is torn is known to be torn: the check code is perfect, or, in a model
 * without check codes, never asked.
 *
 * Invariant: a state is a list of small whole numbers; everything else follows from it and
 * from the plan, so states that are equal go on equally.
 */

/** A rule that is left out. */
export type Mutant =
  | 'F1'
  | 'F2'
  | 'F3'
  | 'F4'
  | 'I0' // a payload is stored before it is verified
  | 'I1' // both copies are stored in one epoch
  | 'I2' // recovery clears a lane, and leaves the second copy as it is
  | 'I3' // the second copy is stored before the first is durable
  | 'I4' // the next write of a record does not wait for the second copy
  | 'I5' // an acknowledgement leaves before its fence
  | 'I6' // a reader is given the first copy, durable or not
  | 'I7' // a reader is served before recovery has ended
  | 'I8' // a slot of another record counts as valid
  | 'majority' // of three copies the one that two agree on
  | 'stale' // an old second copy stands for an acknowledged first one
  | 'clearing' // recovery clears the lanes in the epoch of its repairs
  | 'repair' // recovery overwrites two copies in one epoch
  | 'unlinked' // no lane says which record its own must not outlive
  | 'table before F1' // the operation is stored before a lane tells of it
  | 'one line' // a client has one line in the operation table
  | 'table skipped' // recovery does not store the operations of the lanes
  | 'known too long' // a record goes back before the table is durable without its operation

/** What is asked of a model. */
export interface Plan {
  readonly copies: number
  readonly wait: number
  readonly writes: number
  readonly crashes: number
  readonly mediaErrors: number
  /** Writes go in pairs: a batch in order, the second chained to the first. */
  readonly linked: boolean
  /** Torn copies look whole. */
  readonly checkless: boolean
  readonly mutant: Mutant | null
}

export const RECORDS = 2
export const CLIENTS = 2
export const LANES = 2
const WRITES_MAX = 4

/* Values of a slot besides versions, and of a lane besides intents. */
export const TORN = -1
export const UNREADABLE = -2
/** Whole, but of another record. */
export const FOREIGN = -3
/** Nothing is pending there. */
export const NOTHING = -9
export const CLEAR = 0

/** A lane that says phase A, or B, of a write. */
export function intentOf(write: number, phase: 'A' | 'B'): number {
  return 2 * write + (phase === 'A' ? 0 : 1)
}

export function writeIn(lane: number): number {
  return lane < 2 ? 0 : lane >> 1
}

export function phaseIn(lane: number): 'A' | 'B' {
  return (lane & 1) === 0 ? 'A' : 'B'
}

/* Where things stand in a state. */
export const MODE = 0
export const PC = 1
export const CRASHES = 2
export const MEDIA = 3
export const NEXT_WRITE = 4
/** The two writes of the group, 0 where there is none. */
export const GROUP = 5
/** Lanes to be cleared by the next group. */
export const DIRTY = 7
/** Bits: lanes whose record went back in this recovery. */
export const BACK = 8
/** Records on the list of the lost; those to be put there. */
export const LOST = 9
export const LOSING = 10
/** Records that a lane named at the last cut, or that a media error hit there. */
export const HIT = 11
/** Per record the newest version that a reader was given. */
export const READ = 12
/** Per write: record + 2 * client + 4 * acknowledged + 8 * ended. */
export const WRITES = 14
/** Per client: operations known, as bits of writes; pending; whether the line was torn. */
export const KNOWN: number = WRITES + WRITES_MAX + 1
export const KNOWING: number = KNOWN + CLIENTS
/** Per lane: durable; two pending stores. */
export const LANE: number = KNOWING + CLIENTS
/** Per record and copy: durable; two pending stores. */
const SLOT: number = LANE + 3 * LANES

export const IDLE = 0
export const IN_GROUP = 1
export const RECOVERING = 2

export type State = number[]

export function slotAt({ copies }: Plan, record: number, copy: number): number {
  return SLOT + 3 * (record * copies + copy)
}

export function laneAt(lane: number): number {
  return LANE + 3 * lane
}

export function recordOf(s: State, write: number): number {
  return s[WRITES + write]! & 1
}

export function clientOf(s: State, write: number): number {
  return (s[WRITES + write]! >> 1) & 1
}

export function isAcknowledged(s: State, write: number): boolean {
  return (s[WRITES + write]! & 4) !== 0
}

/** The newest acknowledged version of a record. */
export function acknowledgedOf(s: State, record: number): number {
  for (let w = s[NEXT_WRITE]! - 1; w > 0; w--) {
    if (recordOf(s, w) === record && isAcknowledged(s, w)) return w
  }
  return 0
}

export function firstState(plan: Plan): State {
  const s = new Array<number>(SLOT + 3 * RECORDS * plan.copies).fill(0)
  s[CRASHES] = plan.crashes
  s[MEDIA] = plan.mediaErrors
  s[NEXT_WRITE] = 1
  for (let c = 0; c < CLIENTS; c++) s[KNOWING + c] = NOTHING
  for (let at = LANE; at < s.length; at += 3) s[at + 1] = s[at + 2] = NOTHING
  return s
}

/** One step of a group, or of a recovery. */
export type Step =
  | { readonly do: 'lane' | 'phase'; readonly item: number }
  | { readonly do: 'clear'; readonly lane: number }
  | { readonly do: 'slot'; readonly item: number; readonly copy: number }
  | { readonly do: 'table' }
  | { readonly do: 'fence'; readonly number: number }
  | { readonly do: 'acknowledge'; readonly copies: number }
  | { readonly do: 'withdraw'; readonly lane: number }
  | { readonly do: 'repair'; readonly lane: number; readonly copy: number }
  | { readonly do: 'note' }
  | { readonly do: 'clearAll' }
  | { readonly do: 'end' }

const programs = new Map<string, readonly Step[]>()

/** The steps of a group of so many records; `dirty` lanes are cleared in it. */
export function groupProgram(plan: Plan, items: number, dirty: number): readonly Step[] {
  const name = `${plan.copies} ${plan.mutant} ${items} ${dirty}`
  let program = programs.get(name)
  if (program === undefined) {
    program = composeGroup(plan, items, dirty)
    programs.set(name, program)
  }
  return program
}

function composeGroup({ copies, mutant }: Plan, items: number, dirty: number): Step[] {
  const steps: Step[] = []
  let fences = 0
  const each = (make: (item: number) => Step): void => {
    for (let item = 0; item < items; item++) steps.push(make(item))
  }
  const fence = (...behind: Step[]): void => {
    fences += 1
    const number = fences
    const left = mutant === `F${number}`
    if (mutant === 'I5') steps.push(...behind)
    if (!left) steps.push({ do: 'fence', number })
    if (mutant !== 'I5') steps.push(...behind)
  }
  each((item) => ({ do: 'lane', item }))
  for (let lane = items; lane < LANES; lane++) {
    if ((dirty & (1 << lane)) !== 0) steps.push({ do: 'clear', lane })
  }
  if (mutant === 'table before F1') steps.push({ do: 'table' })
  fence()
  each((item) => ({ do: 'slot', item, copy: 0 }))
  if (mutant === 'I1') each((item) => ({ do: 'slot', item, copy: 1 }))
  if (mutant === 'I3') each((item) => ({ do: 'phase', item }))
  if (mutant === 'I3') each((item) => ({ do: 'slot', item, copy: 1 }))
  fence()
  each((item) => ({ do: 'phase', item }))
  if (mutant !== 'table before F1') steps.push({ do: 'table' })
  fence({ do: 'acknowledge', copies: 1 })
  if (mutant === 'I4') steps.push({ do: 'end' })
  for (let copy = 1; copy < copies; copy++) {
    each((item) => ({ do: 'slot', item, copy }))
    if (copy === 1 && mutant !== 'table before F1') steps.push({ do: 'table' })
    fence({ do: 'acknowledge', copies: copy + 1 })
  }
  steps.push({ do: 'end' })
  return steps
}

/** The steps of a recovery: lane by lane, then what was found, then the lanes. */
export function recoveryProgram({ copies, mutant }: Plan): readonly Step[] {
  const name = `recovery ${copies} ${mutant}`
  let program = programs.get(name)
  if (program === undefined) {
    const steps: Step[] = []
    let number = 0
    const fence = (): void => {
      number += 1
      steps.push({ do: 'fence', number })
    }
    for (let lane = 0; lane < LANES; lane++) {
      // Once the copies are old only the lane says so: if it fails, the table must not know better.
      if (mutant !== 'known too long') {
        steps.push({ do: 'withdraw', lane })
        if (mutant !== 'clearing') fence()
      }
      for (let copy = 0; copy < copies; copy++) {
        steps.push({ do: 'repair', lane, copy })
        const together = mutant === 'repair' && copy < copies - 1
        if (mutant !== 'clearing' && !together) fence()
      }
    }
    steps.push({ do: 'note' })
    if (mutant !== 'clearing') fence()
    steps.push({ do: 'clearAll' })
    fence()
    steps.push({ do: 'end' })
    program = steps
    programs.set(name, program)
  }
  return program
}

export function store(s: State, at: number, value: number): void {
  if (s[at + 1] === NOTHING) s[at + 1] = value
  else {
    // Of more than two stores the one between is like either of the others.
    if (s[at + 2] !== NOTHING) s[at + 1] = s[at + 2]!
    s[at + 2] = value
  }
}

/** What loads see. */
export function liveAt(s: State, at: number): number {
  if (s[at + 2] !== NOTHING) return s[at + 2]!
  return s[at + 1] === NOTHING ? s[at]! : s[at + 1]!
}

export function isDirty(s: State, at: number): boolean {
  return s[at + 1] !== NOTHING
}

export function fenceAll(s: State): void {
  for (let at = LANE; at < s.length; at += 3) {
    s[at] = liveAt(s, at)
    s[at + 1] = s[at + 2] = NOTHING
  }
  for (let c = 0; c < CLIENTS; c++) {
    if (s[KNOWING + c] !== NOTHING) s[KNOWN + c] = s[KNOWING + c]!
    s[KNOWING + c] = NOTHING
  }
  s[LOST]! |= s[LOSING]!
  s[LOSING] = 0
}

/** Can the copy be taken for a whole one? */
export function isValid({ checkless, mutant }: Plan, value: number): boolean {
  if (value === TORN) return checkless
  if (value === FOREIGN) return mutant === 'I8' || checkless
  return value >= 0
}

type Action = 'none' | 'useA' | 'useB' | 'lost'

export interface Decision {
  readonly action: Action
  /** The copy that is kept, or -1. */
  readonly kept: number
}

/**
 * What a restart does about a record that a lane names: in phase A the copies behind the first are
 * whole and old, in phase B the first is whole and new; validity decides only where a copy is lost.
 */
export function decide(
  plan: Plan,
  phase: 'A' | 'B',
  write: number,
  values: readonly number[],
): Decision {
  const valid = (value: number): boolean => isValid(plan, value)
  const [a] = values as readonly [number, ...number[]]
  const same = values.every((value) => value === a)
  if (plan.mutant === 'majority') return majorityOf(values, valid)
  if (valid(a) && same) return { action: 'none', kept: 0 }
  // Versions grow: of the copies behind the first the latest, not merely the first that is whole.
  const newest = Math.max(...values.slice(1).filter(valid))
  const b = values.findIndex((value, c) => c > 0 && valid(value) && value === newest)
  if (phase === 'A') {
    if (b > 0) return { action: 'useB', kept: b }
    return valid(a) ? { action: 'useA', kept: 0 } : { action: 'lost', kept: -1 }
  }
  // One that is older was not stored, though it was said to be: the write itself stands behind it.
  const isOlder = a < write && b > 0 && values[b] === write
  if (valid(a) && !isOlder) return { action: 'useA', kept: 0 }
  if (b < 0) return { action: 'lost', kept: -1 }
  // What the acknowledgement waited for was fenced, and so is never torn: it is gone, or was not.
  const gone = values.slice(1, plan.wait).every((value) => value === UNREADABLE)
  const acknowledged = gone && plan.mutant !== 'stale'
  if (values[b] !== write && acknowledged) return { action: 'lost', kept: -1 }
  return { action: 'useB', kept: b }
}

function majorityOf(values: readonly number[], valid: (value: number) => boolean): Decision {
  const kept = values.findIndex((value, c) => {
    return valid(value) && values.some((other, d) => d > c && other === value)
  })
  return kept < 0 ? { action: 'lost', kept } : { action: kept === 0 ? 'useA' : 'useB', kept }
}
