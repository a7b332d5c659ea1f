/**
 * Everything that may happen in a state of the model: to the card, to its clients, to its reader,
 * and to the power. And what must be true of a state.
 */

import {
  acknowledgedOf,
  BACK,
  CLEAR,
  CLIENTS,
  CRASHES,
  clientOf,
  type Decision,
  DIRTY,
  decide,
  FOREIGN,
  fenceAll,
  GROUP,
  groupProgram,
  HIT,
  IDLE,
  IN_GROUP,
  intentOf,
  isAcknowledged,
  isDirty,
  isValid,
  KNOWING,
  KNOWN,
  LANE,
  LANES,
  LOSING,
  LOST,
  laneAt,
  liveAt,
  MEDIA,
  MODE,
  NEXT_WRITE,
  NOTHING,
  PC,
  type Plan,
  phaseIn,
  READ,
  RECORDS,
  RECOVERING,
  recordOf,
  recoveryProgram,
  type State,
  type Step,
  slotAt,
  store,
  TORN,
  UNREADABLE,
  WRITES,
  writeIn,
} from './protocol.ts'

/** A state that may be next, how it is reached, and what is wrong with getting there. */
export interface Move {
  readonly to: State
  readonly name: string
  readonly wrong: string | null
}

export function movesFrom(plan: Plan, s: State): Move[] {
  const moves: Move[] = []
  if (s[MODE] === IDLE) {
    moves.push(...begins(plan, s), ...lazyClears(s))
  } else moves.push(stepOn(plan, s))
  if (s[MODE] !== RECOVERING || plan.mutant === 'I7') moves.push(...reads(plan, s))
  if (s[CRASHES]! > 0) moves.push(...cuts(plan, s))
  return moves
}

/** A client's next write, or two of a batch: whichever records and clients. */
function begins(plan: Plan, s: State): Move[] {
  const first = s[NEXT_WRITE]!
  const count = plan.linked ? 2 : 1
  if (first + count - 1 > plan.writes) return []
  const moves: Move[] = []
  for (let choice = 0; choice < 4; choice++) {
    const record = choice & 1
    const client = choice >> 1
    // The first write is anybody's: to name records and clients otherwise changes nothing.
    if (first === 1 && choice > 0) break
    const lost = s[LOST]!
    if ((lost & (1 << record)) !== 0 || (plan.linked && lost !== 0)) continue
    const to = s.slice()
    const records = plan.linked ? [record, 1 - record] : [record]
    records.forEach((one, i) => {
      to[WRITES + first + i] = one + 2 * client
      to[GROUP + i] = first + i
    })
    to[NEXT_WRITE] = first + count
    to[MODE] = IN_GROUP
    to[PC] = 0
    moves.push({ to, name: `client ${client} writes v${first} of ${records}`, wrong: null })
  }
  return moves
}

/** In idle time the lanes are cleared, and nobody waits for that. */
function lazyClears(s: State): Move[] {
  if (s[DIRTY] === 0) return []
  const to = s.slice()
  for (let lane = 0; lane < LANES; lane++) {
    if ((s[DIRTY]! & (1 << lane)) !== 0) store(to, laneAt(lane), CLEAR)
  }
  to[DIRTY] = 0
  return [{ to, name: 'the lanes are cleared, lazily', wrong: null }]
}

/** The next step of the group or the recovery. */
function stepOn(plan: Plan, s: State): Move {
  const to = s.slice()
  const items = [to[GROUP]!, to[GROUP + 1]!].filter((write) => write > 0)
  const recovering = s[MODE] === RECOVERING
  const program = recovering ? recoveryProgram(plan) : groupProgram(plan, items.length, s[DIRTY]!)
  const step = program[s[PC]!]!
  to[PC] = s[PC]! + 1
  const wrong = take(plan, to, items, step)
  return { to, name: nameOf(step, items), wrong: wrong ?? rulesOf(plan, to) }
}

function nameOf(step: Step, items: readonly number[]): string {
  const who = recordsIn(step, items)
  if (step.do === 'slot') return `copy ${step.copy} of ${who} is stored`
  if (step.do === 'lane') return `the lane of ${who} says A`
  if (step.do === 'phase') return `the lane of ${who} says B`
  if (step.do === 'clear') return `lane ${step.lane} is cleared`
  if (step.do === 'fence') return `fence ${step.number}`
  if (step.do === 'acknowledge') return `${step.copies} copies are acknowledged`
  if (step.do === 'withdraw') return `recovery: of lane ${step.lane}, what is not known any more`
  if (step.do === 'repair') return `recovery: lane ${step.lane}, copy ${step.copy}`
  if (step.do === 'note') return 'recovery stores operations and losses'
  if (step.do === 'clearAll') return 'recovery clears the lanes'
  return step.do === 'table' ? 'the operations are stored' : 'it ends'
}

function recordsIn(step: Step, items: readonly number[]): string {
  return 'item' in step ? `v${items[step.item]}` : ''
}

/** Carries a step out; what is wrong with it. */
function take(plan: Plan, s: State, items: readonly number[], step: Step): string | null {
  switch (step.do) {
    case 'lane':
      store(s, laneAt(step.item), intentOf(items[step.item]!, 'A'))
      return null
    case 'phase':
      store(s, laneAt(step.item), intentOf(items[step.item]!, 'B'))
      return null
    case 'clear':
      store(s, laneAt(step.lane), CLEAR)
      return null
    case 'slot': {
      const write = items[step.item]!
      const image = plan.mutant === 'I0' ? TORN : write
      store(s, slotAt(plan, recordOf(s, write), step.copy), image)
      return null
    }
    case 'table':
      for (const write of items) know(s, clientOf(s, write), write)
      return null
    case 'fence':
      fenceAll(s)
      return null
    case 'acknowledge':
      return acknowledge(plan, s, items, step.copies)
    case 'withdraw':
      withdraw(plan, s, step.lane)
      return null
    case 'repair':
      return repair(plan, s, step.lane, step.copy)
    case 'note':
      return note(plan, s)
    case 'clearAll':
      for (let lane = 0; lane < LANES; lane++) store(s, laneAt(lane), CLEAR)
      return null
    case 'end':
      return end(plan, s, items)
  }
}

function know(s: State, client: number, write: number): void {
  const now = s[KNOWING + client] === NOTHING ? s[KNOWN + client]! : s[KNOWING + client]!
  s[KNOWING + client] = now | (1 << write)
}

function drop(s: State, client: number, write: number): void {
  const now = s[KNOWING + client] === NOTHING ? s[KNOWN + client]! : s[KNOWING + client]!
  if ((now & (1 << write)) !== 0) s[KNOWING + client] = now & ~(1 << write)
}

function acknowledge(
  plan: Plan,
  s: State,
  items: readonly number[],
  copies: number,
): string | null {
  if (copies !== plan.wait) return null
  for (const write of items) {
    s[WRITES + write]! |= 4
    const record = recordOf(s, write)
    let durable = 0
    for (let c = 0; c < plan.copies; c++) if (s[slotAt(plan, record, c)] === write) durable += 1
    if (durable < copies && s[MEDIA] === plan.mediaErrors) {
      return `I5: v${write} is acknowledged with ${durable} durable copies of ${copies}`
    }
  }
  return null
}

function end(plan: Plan, s: State, items: readonly number[]): string | null {
  const recovered = s[MODE] === RECOVERING
  s[MODE] = IDLE
  s[PC] = 0
  if (recovered) {
    s[BACK] = 0
    s[GROUP] = s[GROUP + 1] = 0
    return judge(plan, s)
  }
  s[DIRTY] = items.reduce((mask, _, lane) => mask | (1 << lane), 0)
  s[GROUP] = s[GROUP + 1] = 0
  return null
}

/** The intents that count: those that are whole, and not of a write that a later one follows. */
function intentsOf(s: State): number[] {
  const lanes = Array.from({ length: LANES }, (_, lane) => s[laneAt(lane)]!)
  return lanes.map((lane) => {
    const write = writeIn(lane)
    if (lane < 2) return 0
    const overtaken = lanes.some((other) => {
      return writeIn(other) > write && recordOf(s, writeIn(other)) === recordOf(s, write)
    })
    return overtaken ? 0 : lane
  })
}

/** Does the record of that lane go back with the one before it? */
function goesBack(plan: Plan, s: State, lane: number, intents: readonly number[]): boolean {
  if (!plan.linked || plan.mutant === 'unlinked' || lane === 0) return false
  const before = writeIn(intents[lane - 1]!)
  return before === writeIn(intents[lane]!) - 1 && (s[BACK]! & (1 << (lane - 1))) !== 0
}

/** What a lane names, and what is decided about it. */
interface Judged extends Decision {
  readonly write: number
  readonly record: number
  readonly phase: 'A' | 'B'
}

/** The same each time, whatever has been done; null where the lane names nothing. */
function judged(plan: Plan, s: State, lane: number): Judged | null {
  const intents = intentsOf(s)
  const intent = intents[lane]!
  if (intent === 0) return null
  const write = writeIn(intent)
  const record = recordOf(s, write)
  const phase = goesBack(plan, s, lane, intents) ? 'A' : phaseIn(intent)
  return { write, record, phase, ...decide(plan, phase, write, valuesOf(plan, s, record)) }
}

/** The operation of a record that is about to go back, or is lost, is not known any more. */
function withdraw(plan: Plan, s: State, lane: number): void {
  const found = judged(plan, s, lane)
  if (found === null) return
  const { write, record, kept } = found
  if (kept < 0 || valuesOf(plan, s, record)[kept]! < write) drop(s, clientOf(s, write), write)
}

/** What the lane says of one copy of its record is done. */
function repair(plan: Plan, s: State, lane: number, copy: number): string | null {
  if (lane === 0) scanIfBlind(plan, s, copy)
  const found = judged(plan, s, lane)
  if (found === null) return null
  const { write, record, phase, action, kept } = found
  if (action === 'lost') {
    s[LOSING]! |= 1 << record
    // In phase B all of the group are acknowledged, or may be: what is lost takes none with it.
    if (phase === 'A') s[BACK]! |= 1 << lane
    return null
  }
  const values = valuesOf(plan, s, record)
  if (phase === 'A' && values[kept] !== write) s[BACK]! |= 1 << lane
  if (plan.mutant === 'I2' && phase === 'B') return null
  spread(plan, s, record, kept, copy)
  return null
}

function valuesOf(plan: Plan, s: State, record: number): number[] {
  return Array.from({ length: plan.copies }, (_, c) => liveAt(s, slotAt(plan, record, c)))
}

function spread(plan: Plan, s: State, record: number, kept: number, copy: number): void {
  const values = valuesOf(plan, s, record)
  if (values[copy] !== values[kept]) store(s, slotAt(plan, record, copy), values[kept]!)
}

/** A lane that cannot be read may have named any record: all are looked at by their check codes. */
function scanIfBlind(plan: Plan, s: State, copy: number): void {
  const blind = Array.from({ length: LANES }, (_, lane) => s[laneAt(lane)]!).includes(UNREADABLE)
  if (!blind) return
  const named = intentsOf(s).map((lane) => (lane === 0 ? -1 : recordOf(s, writeIn(lane))))
  for (let record = 0; record < RECORDS; record++) {
    if (named.includes(record)) continue
    const values = valuesOf(plan, s, record)
    let kept = -1
    values.forEach((value, c) => {
      if (isValid(plan, value) && (kept < 0 || value > values[kept]!)) kept = c
    })
    if (kept < 0) s[LOSING]! |= 1 << record
    else {
      spread(plan, s, record, kept, copy)
      const write = values[kept]!
      if (write > 0) know(s, clientOf(s, write), write)
    }
  }
}

/** The operations of the lanes go into the table, or out of it: what was kept decides. */
function note(plan: Plan, s: State): string | null {
  if (plan.mutant === 'table skipped') return null
  for (const intent of intentsOf(s)) {
    if (intent === 0) continue
    const write = writeIn(intent)
    const record = recordOf(s, write)
    const kept = Math.max(...valuesOf(plan, s, record))
    const client = clientOf(s, write)
    const lost = ((s[LOST]! | s[LOSING]!) & (1 << record)) !== 0
    if (kept >= write && !lost) know(s, client, write)
    else drop(s, client, write)
  }
  return null
}

/** A reader is given what no cut takes back (I6): the copy that is not being written. */
function reads(plan: Plan, s: State): Move[] {
  const moves: Move[] = []
  for (let record = 0; record < RECORDS; record++) {
    if (((s[LOST]! | s[LOSING]!) & (1 << record)) !== 0) continue
    const copy = copyToRead(plan, s, record)
    if (copy < 0) continue
    const version = liveAt(s, slotAt(plan, record, copy))
    if (version === TORN || version === FOREIGN) {
      const wrong = `I6, I8: a reader is given record ${record}, which is torn or another`
      moves.push({ to: s, name: `record ${record} is read`, wrong })
      continue
    }
    if (version <= s[READ + record]!) {
      if (version === s[READ + record]) continue
      const wrong = `O5: a reader is given v${version} after v${s[READ + record]}`
      moves.push({ to: s, name: `record ${record} is read`, wrong })
      continue
    }
    const to = s.slice()
    to[READ + record] = version
    moves.push({ to, name: `record ${record} is read: v${version}`, wrong: null })
  }
  return moves
}

function copyToRead(plan: Plan, s: State, record: number): number {
  const values = valuesOf(plan, s, record)
  const first = values.findIndex((value) => isValid(plan, value))
  if (s[MODE] !== IN_GROUP || plan.mutant === 'I6') return first
  const items = [s[GROUP]!, s[GROUP + 1]!].filter((write) => write > 0)
  const write = items.find((one) => recordOf(s, one) === record)
  if (write === undefined) return first
  const program = groupProgram(plan, items.length, s[DIRTY]!)
  const done = program.slice(0, s[PC]!)
  const has = (step: Step['do'], copies: number): boolean => {
    return done.some((one) => one.do === step && 'copies' in one && one.copies >= copies)
  }
  if (has('acknowledge', plan.wait)) {
    return isDirty(s, slotAt(plan, record, 0)) ? -1 : first
  }
  // Before a copy behind the first is touched: that one.
  const touched = done.some((one) => one.do === 'slot' && one.copy > 0)
  if (touched) return -1
  return values.findIndex((value, c) => c > 0 && isValid(plan, value))
}

/** What may be left of a line of 64 bytes and more: old, any store of it, or a mixture. */
function leftOf(s: State, at: number, isLane: boolean): number[] {
  const left = [s[at]!]
  for (const value of [s[at + 1]!, s[at + 2]!]) if (value !== NOTHING) left.push(value)
  if (left.length === 1) return left
  // The phase is one chunk of the lane that is there.
  const [was] = left
  const phaseOnly = isLane && left.every((one) => one >= 2 && writeIn(one) === writeIn(was!))
  if (!phaseOnly && new Set(left).size > 1) left.push(TORN)
  return [...new Set(left)]
}

/** The power goes: every image that the pending stores allow, each with a media error or none. */
function cuts(plan: Plan, s: State): Move[] {
  const to = s.slice()
  to[CRASHES]! -= 1
  to[MODE] = RECOVERING
  to[PC] = 0
  to[BACK] = 0
  to[DIRTY] = 0
  to[LOSING] = 0
  to[GROUP] = to[GROUP + 1] = 0
  let all: State[] = [to]
  for (let at = LANE; at < s.length; at += 3) {
    const left = leftOf(s, at, at < laneAt(LANES))
    all = all.flatMap((one) => {
      return left.map((value) => {
        const next = one.slice()
        next[at] = value
        next[at + 1] = next[at + 2] = NOTHING
        return next
      })
    })
  }
  for (let c = 0; c < CLIENTS; c++) all = all.flatMap((one) => tableLeft(plan, one, c))
  const moves = all.map((one): Move => {
    return { to: noteHit(plan, one, -1), name: 'the power goes', wrong: null }
  })
  if (s[MEDIA] === 0) return moves
  for (const one of all) moves.push(...errors(plan, one))
  return moves
}

/** Two lines, one behind the other: what is torn leaves the other; with one line, nothing. */
function tableLeft(plan: Plan, s: State, client: number): State[] {
  const pending = s[KNOWING + client]!
  if (pending === NOTHING) return [s]
  const values = [s[KNOWN + client]!, pending]
  if (plan.mutant === 'one line') values.push(0)
  return values.map((value) => {
    const next = s.slice()
    next[KNOWN + client] = value
    next[KNOWING + client] = NOTHING
    return next
  })
}

/** One line of a copy or of a lane cannot be read, or holds what belongs elsewhere. */
function errors(plan: Plan, s: State): Move[] {
  const moves: Move[] = []
  for (let at = LANE; at < s.length; at += 3) {
    const isLane = at < laneAt(LANES)
    for (const value of isLane ? [UNREADABLE] : [UNREADABLE, FOREIGN]) {
      const to = noteHit(plan, s, at)
      to[at] = value
      to[MEDIA]! -= 1
      const what = value === FOREIGN ? 'holds another record' : 'cannot be read'
      const where = isLane ? `lane ${(at - LANE) / 3}` : `slot ${(at - laneAt(LANES)) / 3}`
      moves.push({ to, name: `the power goes, and ${where} ${what}`, wrong: null })
    }
  }
  return moves
}

/** Which records a write was under way of: only these may be given up, and only for an error. */
function noteHit(plan: Plan, s: State, errorAt: number): State {
  const to = s.slice()
  to[HIT] = 0
  for (let lane = 0; lane < LANES; lane++) {
    const intent = s[laneAt(lane)]!
    if (intent >= 2) to[HIT]! |= 1 << recordOf(s, writeIn(intent))
  }
  const blind = errorAt >= 0 && errorAt < laneAt(LANES)
  // An unread lane named a record that is settled by check codes alone.
  if (blind && plan.copies === 2) to[HIT] = (1 << RECORDS) - 1
  return to
}

/** What must be true of every state while a group is written (I1 to I4). */
function rulesOf(plan: Plan, s: State): string | null {
  if (s[MODE] === RECOVERING || s[MEDIA] !== plan.mediaErrors) return null
  for (const write of [s[GROUP]!, s[GROUP + 1]!]) {
    if (write === 0) continue
    const record = recordOf(s, write)
    const dirty = valuesOf(plan, s, record).flatMap((_, c) => {
      return isDirty(s, slotAt(plan, record, c)) ? [c] : []
    })
    if (dirty.length > 1) return `I1: copies ${dirty} of record ${record} are dirty`
    const a = s[slotAt(plan, record, 0)]!
    const b = s[slotAt(plan, record, 1)]!
    if (dirty[0] === 0 && b < acknowledgedOf(s, record)) {
      return `I2, I4: copy A of record ${record} is dirty, and B is v${b}`
    }
    if ((dirty[0] ?? 0) > 0 && a !== write) return `I3: copy B is dirty, and A is v${a}`
  }
  return null
}

/** What must be true when a recovery has ended (O1 to O7). */
function judge(plan: Plan, s: State): string | null {
  for (let record = 0; record < RECORDS; record++) {
    const values = valuesOf(plan, s, record)
    const whole = values.filter((value) => value >= 0)
    const lost = (s[LOST]! & (1 << record)) !== 0
    const wanted = acknowledgedOf(s, record)
    if (lost) {
      const allowed = plan.copies === 2 && (s[HIT]! & (1 << record)) !== 0
      if (s[MEDIA] === plan.mediaErrors) return `record ${record} is lost, and no medium failed`
      if (!allowed && !wasLost(s, record)) return `record ${record} is lost, though at rest`
      continue
    }
    if (plan.mutant === 'I8' && values.some((value) => value === FOREIGN)) continue
    if (whole.length === 0) return `record ${record}: no copy is whole`
    const [version] = whole as [number]
    if (whole.some((value) => value !== version)) return `record ${record}: the copies differ`
    const intact = s[MEDIA] === plan.mediaErrors
    if (intact && whole.length < values.length) return `record ${record}: a copy stays torn`
    if (version < wanted) return `record ${record}: v${wanted} was acknowledged, and is v${version}`
    if (version < s[READ + record]!) {
      return `record ${record}: v${s[READ + record]} was read, and is v${version}`
    }
  }
  return judgeOperations(plan, s) ?? judgeOrder(plan, s)
}

/** It was given up before this recovery already. */
function wasLost(s: State, record: number): boolean {
  return (s[HIT]! & (1 << record)) === 0 && s[CRASHES] === 0
}

/** Known is what is durable, and what was acknowledged is known. */
function judgeOperations(plan: Plan, s: State): string | null {
  for (let w = 1; w < s[NEXT_WRITE]!; w++) {
    const record = recordOf(s, w)
    if ((s[LOST]! & (1 << record)) !== 0) continue
    const version = Math.max(...valuesOf(plan, s, record))
    const known = (s[KNOWN + clientOf(s, w)]! & (1 << w)) !== 0
    if (known && version < w) return `X-3: v${w} is known, and record ${record} is v${version}`
    if (isAcknowledged(s, w) && !known) return `X-3: v${w} was acknowledged, and is not known`
    if (version === w && !known) return `X-3: record ${record} is v${w}, and that is not known`
  }
  return null
}

/** Of a batch in order the first are there. */
function judgeOrder(plan: Plan, s: State): string | null {
  // Where a copy is lost to the medium at the same time, what is whole decides.
  if (!plan.linked || s[MEDIA] !== plan.mediaErrors) return null
  for (let w = 1; w + 1 < s[NEXT_WRITE]!; w += 2) {
    const [one, other] = [recordOf(s, w), recordOf(s, w + 1)]
    if ((s[LOST]! & 3) !== 0) continue
    const first = Math.max(...valuesOf(plan, s, one))
    const second = Math.max(...valuesOf(plan, s, other))
    if (second === w + 1 && first < w) return `X-5: v${w + 1} is there, and v${w} is not`
  }
  return null
}
