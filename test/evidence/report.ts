/** What a run says at its end: the table, and the same as JSON. */

import { text } from '../support/table.ts'
import type { Outcome } from './pool.ts'
import { missed, type Size, type Tally } from './stage.ts'

/** One stage in the report: its tally, but for the pictures, which are on the page. */
export interface StageReport extends Omit<Tally, 'pictures'> {
  readonly stage: string
  readonly id: string
  readonly title: string
  readonly unit: string
  /** Busy seconds of all workers together, and units per such second. */
  readonly seconds: number
  readonly rate: number
  /** Floors that were not reached, and cells that nothing reached. */
  readonly lacks: readonly string[]
}

export interface Report {
  readonly size: Size
  /** Of the run: `--seed` plays it again. */
  readonly seed: number
  readonly workers: number
  /** By the clock. */
  readonly seconds: number
  readonly violations: number
  readonly stages: readonly StageReport[]
}

export interface Run {
  readonly size: Size
  readonly seed: number
  readonly workers: number
  readonly seconds: number
}

function stageReport(
  { stage, tally, busySeconds }: Outcome,
  { size }: Run,
  whole: boolean,
): StageReport {
  const { pictures: _, ...said } = tally
  const lacks = whole ? [...missed(stage, tally, size), ...(stage.lacks?.(tally, size) ?? [])] : []
  const { name, id, title, unit } = stage
  const rate = busySeconds > 0 ? said.count / busySeconds : 0
  return { stage: name, id, title, unit, ...said, seconds: busySeconds, rate, lacks }
}

/** `whole`: every shard was played, so that floors count. */
export function reportOf(outcomes: readonly Outcome[], run: Run, whole: boolean): Report {
  const stages = outcomes.map((outcome) => stageReport(outcome, run, whole))
  const violations = stages.reduce((sum, stage) => sum + stage.violations, 0)
  return { ...run, violations, stages }
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
  for (const { id, stage, more, cells } of report.stages) {
    const counts = Object.entries(more).map(([name, value]) => `${number(value)} ${name}`)
    const kinds = Object.keys(cells).length
    if (kinds > 0) counts.push(`${number(kinds)} cells`)
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
  const { size, seed, workers, seconds, violations } = report
  const time = `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
  lines.push(`${size}, seed ${seed}, ${workers} workers, ${time}: ${number(violations)} violations`)
  return lines.join('\n')
}
