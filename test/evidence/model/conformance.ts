/**
 * The model held against the firmware: what a restart makes of a part with exactly these copies
 * and that lane, and in which order a commit stores, fences and acknowledges.
 */

import {
  COPY_CLEAN,
  FENCE,
  FROM,
  LENGTH,
  NVDIMM_SPACE,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { ZEROS_AT } from '../../../firmware/board/memory-map.ts'
import { judgeCopies } from '../../../firmware/commit/cases.ts'
import { PHASE_A, PHASE_B } from '../../../firmware/medium/lane.ts'
import { PERSIST_ACK } from '../../../firmware/wire/opcode.ts'
import { dataOf, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { type Media, mediaOf, PART_BYTES, partOf } from '../../support/crash/explorer.ts'
import {
  copyAt,
  LANES_AT,
  LINE_BYTES,
  linesOfCopy,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
  readSuperblock,
  sameBytes,
} from '../../support/judges/oracle.ts'
import {
  type Decision,
  decide,
  groupProgram,
  isValid,
  type Plan,
  type Step,
  TORN,
  UNREADABLE,
} from './protocol.ts'

const OLD = 0
const NEW = 1
const CLASSES = [OLD, NEW, TORN, UNREADABLE]
const NAMES = new Map([
  [OLD, 'old'],
  [NEW, 'new'],
  [TORN, 'torn'],
  [UNREADABLE, 'unreadable'],
])

const PHASES = ['A', 'B'] as const

export interface Conformed {
  readonly count: number
  readonly cells: Readonly<Record<string, number>>
  readonly complaints: readonly string[]
}

/** Every level of two copies and more of which a decision may differ. */
export const DECIDED: readonly string[] = ['1of2', '2of2', '1of3', '2of3', '3of3', '2of4', '3of4']

/** The plan of a level, without anything going wrong. */
export function planOf(level: string): Plan {
  const [wait, copies] = level.split('of').map(Number) as [number, number]
  const quiet = { linked: false, checkless: false, mutant: null, mediaErrors: 0 }
  return { ...quiet, copies, wait, writes: 2, crashes: 1 }
}

/** Every combination of classes of so many copies. */
function combinations(copies: number): number[][] {
  let all: number[][] = [[]]
  for (let c = 0; c < copies; c++) all = all.flatMap((one) => CLASSES.map((k) => [...one, k]))
  return all
}

/** What the firmware's table says of the same: which copy is kept, or -1. */
function keptByTable(plan: Plan, phase: 'A' | 'B', values: readonly number[]): number {
  const valid = values.map((value) => isValid(plan, value))
  const behind = (wanted: number): number => values.findIndex((v, c) => c > 0 && v === wanted)
  const b = [behind(NEW), behind(OLD), values.length - 1].find((c) => c > 0)!
  const waited = values.slice(1, plan.wait)
  const isOlder = phase === 'B' && values[0] === OLD && values[b] === NEW
  const row = judgeCopies({
    phase: phase === 'A' ? PHASE_A : PHASE_B,
    aValid: valid[0]! && !isOlder,
    bValid: valid[b]!,
    same: values[0] === values[b] && values[0] !== UNREADABLE,
    bCurrent: valid[b]! && values[b] === NEW,
    promised: waited.every((value) => value === UNREADABLE),
  })
  return KEPT[row] === 'b' ? b : KEPT[row] === 'a' ? 0 : -1
}

/** By row of the table, from its own words: which copy stays. */
const KEPT: readonly string[] = [
  ...['a', 'b', 'b', 'a', 'lost', 'lost'],
  ...['a', 'a', 'a', 'b', 'lost', 'b', 'lost', 'lost'],
]

/** Starts the firmware on such a part; what it kept: a class, or -1 where the record is lost. */
function keptByCard(media: Media, phase: 'A' | 'B', values: readonly number[]): number {
  const torn = media.old.slice()
  torn.set(media.fresh.subarray(0, 72))
  const images = values.map((value) => {
    if (value === TORN) return torn
    return value === NEW ? media.fresh : media.old
  })
  const part = partOf(media, images, phase === 'A' ? media.laneA : media.laneB)
  values.forEach((value, c) => {
    if (value === UNREADABLE) part.poison(linesOfCopy(media.layout, c, 0)[1]!)
  })
  const card = new TestCard(part)
  const data = card.read(card.connect(), card.open(), 0, 0, media.layout.capacity)
  const copies = values.map((_, c) => {
    const at = copyAt(media.layout, c, 0)
    return part.durable.slice(at, at + media.layout.stride)
  })
  if (data === null) {
    const untouched = copies.every((copy, c) => sameBytes(copy, images[c]!))
    const listed = readSuperblock(part.durable)!.lost.some(([, slot]) => slot === 0)
    return untouched && listed ? -1 : Number.NaN
  }
  const kept = [media.old, media.fresh].findIndex((image) => {
    return copies.every((copy) => sameBytes(copy, image)) && sameBytes(data, image.subarray(64))
  })
  return kept < 0 ? Number.NaN : kept
}

/** The decision of a restart, for every class: the model, the table, and a real card. */
export function conformDecisions(plan: Plan): Conformed {
  const media = mediaOf({ wait: plan.wait, copies: plan.copies })
  const cells: Record<string, number> = {}
  const complaints: string[] = []
  let count = 0
  for (const phase of PHASES) {
    for (const values of combinations(plan.copies)) {
      count += 1
      const shown = values.map((value) => NAMES.get(value)).join('/')
      const name = `${plan.wait}of${plan.copies}, lane ${phase}, ${shown}`
      const model: Decision = decide(plan, phase, NEW, values)
      cells[`${name}: ${model.action}`] = 1
      const table = keptByTable(plan, phase, values)
      const wanted = model.kept < 0 ? -1 : values[model.kept]!
      if ((table < 0 ? -1 : values[table]) !== wanted) {
        complaints.push(`${name}: the model keeps copy ${model.kept}, the table copy ${table}`)
      }
      const card = keptByCard(media, phase, values)
      if (card !== wanted) complaints.push(`${name}: the model has ${wanted}, the card ${card}`)
    }
  }
  return { count, cells, complaints }
}

/** The order of a group, as words: what the firmware's list does, or the model's program. */
function programText(plan: Plan, items: number, dirty: number): string[] {
  return groupProgram(plan, items, dirty).flatMap((step: Step) => {
    if (step.do === 'slot') return [`slot ${step.item} ${step.copy}`]
    if (step.do === 'lane' || step.do === 'phase') return [`${step.do} ${step.item}`]
    if (step.do === 'clear') return [`clear ${step.lane}`]
    if (step.do === 'acknowledge') return step.copies === plan.wait ? ['acknowledge'] : []
    return step.do === 'end' ? [] : [step.do]
  })
}

/** Writes a group of two and then one of `items`, and tells the order of the second. */
function commandsOf(plan: Plan, items: number): string[] {
  const card = new TestCard(PART_BYTES).format()
  const region = card.provision({ copies: plan.copies, slots: 4 })
  const [layout] = readSuperblock(card.nvdimm.durable)!.regions
  const qp = card.connect()
  const group = (count: number, seed: number): Uint8Array[] => {
    return Array.from({ length: count }, (_, slot) => {
      return persistFrames(qp, region, slot, dataOf(64, seed + slot), { wait: plan.wait })
    }).flat()
  }
  card.serve(...group(2, 1))
  const told: string[] = []
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const to = words[at + TO]! - NVDIMM_SPACE
      const [from, length] = [words[at + FROM]!, words[at + LENGTH]!]
      const said = op === FENCE ? 'fence' : ''
      if (said !== '') told.push(said)
      if (op === TRANSMIT && card.machine.packets[from + 42] === PERSIST_ACK) {
        told.push('acknowledge')
      }
      if (op === COPY_CLEAN) told.push(placeOf(to, from, length))
    },
  })
  const placeOf = (to: number, from: number, length: number): string => {
    const lane = (to - LANES_AT) / LINE_BYTES
    if (to >= LANES_AT && to < OPERATIONS_AT) {
      if (length < LINE_BYTES) return `phase ${lane}`
      return from === ZEROS_AT ? `clear ${lane}` : `lane ${lane}`
    }
    if (to >= OPERATIONS_AT && to < OPERATIONS_AT + OPERATIONS_BYTES) return 'table'
    for (let slot = 0; slot < items; slot++) {
      for (let c = 0; c < plan.copies; c++) {
        if (to === copyAt(layout!, c, slot)) return `slot ${slot} ${c}`
      }
    }
    return `a store to ${to}`
  }
  card.serve(...group(items, 11))
  return told
}

/** The order of stores, fences and acknowledgements: the model's, and a real machine's. */
export function conformOrder(plan: Plan): Conformed {
  const complaints: string[] = []
  const cells: Record<string, number> = {}
  for (const items of [1, 2]) {
    const real = commandsOf(plan, items)
    const model = programText(plan, items, 3)
    const name = `order of ${items} at ${plan.wait}of${plan.copies}`
    cells[name] = 1
    if (real.join() !== model.join()) complaints.push(`${name}: ${real.join()} and ${model.join()}`)
  }
  return { count: 2, cells, complaints }
}
