/** What a run says at its end: the table, and the same as JSON. */

import { text } from '../support/bench/table.ts'
import { kindOf, OPEN, type OpenKind, shows } from './open.ts'
import type { Outcome } from './pool.ts'
import { missed, type Size, type Tally } from './stage.ts'

/** One stage in the report: its tally, except for the pictures, which are on the page. */
export interface StageReport extends Omit<Tally, 'pictures'> {
  readonly stage: string
  readonly id: string
  readonly title: string
  readonly unit: string
  /** Busy seconds of all workers together, and units per such second. */
  readonly seconds: number
  readonly rate: number
  /** Shards that were played, of how many. */
  readonly ended: number
  readonly shards: number
  /** Floors that were not reached, and cells that nothing reached. */
  readonly lacks: readonly string[]
}

/** A kind of violations that stands as open (open.ts), and how often this run described one. */
interface OpenReport extends Omit<OpenKind, 'says'> {
  readonly met: number
}

export interface Report {
  readonly size: Size
  /** Of the run: `--seed` plays it again. */
  readonly seed: number
  readonly workers: number
  /** By the clock. */
  readonly seconds: number
  readonly violations: number
  /** Those that are of no open kind: none may be left. */
  readonly failures: number
  readonly open: readonly OpenReport[]
  readonly stages: readonly StageReport[]
}

interface Run {
  readonly size: Size
  readonly seed: number
  readonly workers: number
  readonly seconds: number
}

function stageReport(
  { stage, tally, busySeconds, ended, shards }: Outcome,
  { size }: Run,
  whole: boolean,
): StageReport {
  const { pictures: _, ...said } = tally
  const asked = whole && ended === shards
  const lacks = asked ? [...missed(stage, tally, size), ...(stage.lacks?.(tally, size) ?? [])] : []
  const { name, id, title, unit } = stage
  const rate = busySeconds > 0 ? said.count / busySeconds : 0
  const seconds = busySeconds
  return { stage: name, id, title, unit, ...said, seconds, rate, ended, shards, lacks }
}

/** `whole`: no shard was left out by its name. Floors count where all of a stage was played. */
export function reportOf(
  outcomes: readonly Outcome[],
  run: Run,
  whole: boolean,
  kinds: readonly OpenKind[] = OPEN,
): Report {
  const stages = outcomes.map((outcome) => stageReport(outcome, run, whole))
  const violations = stages.reduce((sum, stage) => sum + stage.violations, 0)
  const known = stages.flatMap(({ stage, described }) => {
    return described.flatMap((violation) => kindOf(kinds, stage, violation) ?? [])
  })
  const open = kinds.map(({ says: _, ...kind }) => {
    return { ...kind, met: known.filter(({ id }) => id === kind.id).length }
  })
  return { ...run, violations, failures: violations - known.length, open, stages }
}

/** Exit codes: something is wrong; nothing is, but not all that was planned was reached. */
export const VIOLATED = 1
const NOT_REACHED = 3

export function exitCodeOf({ failures, stages }: Report): number {
  if (failures > 0) return VIOLATED
  return stages.some(({ lacks }) => lacks.length > 0) ? NOT_REACHED : 0
}

/** Lines of the table about what a stage lacks; the rest is in the JSON. */
const LACKS_SHOWN = 12

const number = (value: number): string => Math.round(value).toLocaleString('en')

/** The table that ends a run, and below it what was met besides, and what is wrong. */
export function tableOf(report: Report): string {
  const head = ['stage', 'units', '', 'distinct', 'seeds', 'violations', 'per second', 'busy s']
  const rows = report.stages.map((stage) => [
    `${stage.id} ${stage.stage}`,
    number(stage.count),
    stage.unit,
    number(stage.distinct),
    number(stage.seeds),
    number(stage.violations),
    number(stage.rate),
    number(stage.seconds),
  ])
  const lines = [text([head, ...rows]), '']
  for (const { id, stage, more, cells, ended, shards } of report.stages) {
    const counts = Object.entries(more).map(([name, value]) => `${number(value)} ${name}`)
    const kinds = Object.keys(cells).length
    if (kinds > 0) counts.push(`${number(kinds)} cells`)
    if (ended < shards) counts.unshift(`${number(ended)} of ${number(shards)} shards`)
    if (counts.length > 0) lines.push(`${id} ${stage}: ${counts.join(', ')}`)
  }
  for (const stage of report.stages) {
    const said = `NOT REACHED  ${stage.id} ${stage.stage}:`
    for (const lack of stage.lacks.slice(0, LACKS_SHOWN)) lines.push(`${said} ${lack}`)
    const more = stage.lacks.length - LACKS_SHOWN
    if (more > 0) lines.push(`${said} and ${number(more)} more, in evidence.json`)
    for (const { shard, what, replay } of stage.described) {
      lines.push(`VIOLATION    ${stage.id} ${stage.stage}, ${shard}: ${what}`)
      if (replay !== '') {
        lines.push(`             npm run evidence -- --replay ${stage.stage} '${replay}'`)
      }
    }
  }
  for (const kind of report.open) {
    lines.push(`OPEN         ${kind.id}, met ${number(kind.met)} times: ${kind.what}`)
    lines.push(`             ${shows(kind)}`)
  }
  const { size, seed, workers, seconds, violations, failures } = report
  const known = violations - failures
  const open = known > 0 ? `, ${number(known)} of open kinds` : ''
  const time = `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
  lines.push(
    `${size}, seed ${seed}, ${workers} workers, ${time}: ${number(violations)} violations${open}`,
  )
  return lines.join('\n')
}
