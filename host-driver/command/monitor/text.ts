/**
 * Looks in words: a line for a log, and the tables of a terminal.
 *
 * Invariant: what is not known is a dash, and never 0: the rates of a first look, and whatever a
 * card does not tell this client.
 */

import { FAULTS } from '../../../firmware/board/fault.ts'
import type { PartStatus } from '../../control/part.ts'
import { serves, servesText } from '../base/part-text.ts'
import { bytesText, type Cell, table, timeText as usText } from '../base/table.ts'
import type { HealthEvent, Look, UpLook } from './look.ts'
import type { Sample } from './sample.ts'

/** What is not known. */
const NONE = '-'

/** So many in a second; below ten with a place behind the point. */
function rateText(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined) return NONE
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond))
}

/** The time of a look, to the second, in UTC. */
function timeText(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** What is wrong with a part, or that nothing is. */
function healthText({ part, isWhole }: Sample): string {
  const { armed, saveFailed, onTrial, outlivesPower, superblockPages } = part
  const words = [
    ...(armed ? ['armed'] : ['NOT ARMED']),
    ...(saveFailed ? ['save FAILED'] : []),
    ...(onTrial ? ['firmware on trial'] : []),
    ...(isWhole && serves(part) && superblockPages < 2
      ? [`superblock ${superblockPages} of 2`]
      : []),
    ...(outlivesPower ? [] : ['volatile']),
  ]
  return words.join(', ')
}

/** A number of the part, where it is told. */
function whole(
  { part, isWhole }: Sample,
  name: 'incarnation' | 'regions' | 'unsettled' | 'recordsRepaired',
): Cell {
  return isWhole ? part[name] : NONE
}

function stateText({ state, fault }: PartStatus): string {
  return fault === null ? state : `${state} (${fault})`
}

/** Records that were mended, of all regions, since the start. */
function mendedIn({ sample: { regions } }: UpLook): Cell {
  return regions?.reduce((all, { repaired }) => all + repaired, 0) ?? NONE
}

/** One look as a line. */
export function lookLine(look: Look): string {
  const head = `${timeText(look.atMs)} ${look.target}`
  if (!look.up) return `${head} away: ${look.reason}`
  const { sample, rates } = look
  const { part, queues } = sample
  const figures = [
    stateText(part),
    healthText(sample),
    `incarnation ${whole(sample, 'incarnation')}`,
    `lost ${whole(sample, 'unsettled')}`,
    `mended ${mendedIn(look)}`,
    `records ${rateText(rates?.work?.records)}/s`,
    `faults ${rateText(rates?.met)}/s`,
    `refused ${rateText(rates?.refusals)}/s`,
    ...(hasHost(look) ? [`queues ${queues!.used}, elements ${elementsText(look)}/s`] : []),
  ]
  return `${head} ${figures.join(', ')}`
}

function elementsText({ rates }: UpLook): string {
  return rateText(rates?.queues?.elements)
}

/** Whether the card tells of a host with queues. */
function hasHost({ sample: { queues } }: UpLook): boolean {
  return queues !== null && queues.epoch !== 0
}

/** One event as a line. */
export function eventLine({ atMs, target, gravity, text }: HealthEvent): string {
  return `${timeText(atMs)} ${target} ${gravity}: ${text}`
}

/** Everything that the newest looks at all targets say, as the lines of a terminal. */
export function screenLines(looks: readonly Look[]): string[] {
  const up = looks.filter((look) => look.up)
  const parts = [cardLines(looks), ...TABLES.map((one) => ofSeveral(up, one))]
  return parts
    .filter((lines) => lines.length > 0)
    .flatMap((lines, i) => (i === 0 ? lines : ['', ...lines]))
}

const CARD_HEAD = [
  ...['card', 'state', 'health', 'lost', 'faults/s', 'refused/s', 'mended', 'recovered'],
  ...['incarnation', 'regions', 'answers in'],
]

function cardLines(looks: readonly Look[]): string[] {
  const rows = looks.map((look): Cell[] => {
    if (!look.up) {
      const dashes = CARD_HEAD.slice(3).map(() => NONE)
      return [look.target, 'AWAY', `since ${timeText(look.sinceMs)}`, ...dashes]
    }
    const { target, sample, rates } = look
    const { part, answerMs } = sample
    return [
      target,
      stateText(part),
      healthText(sample),
      whole(sample, 'unsettled'),
      rateText(rates?.met),
      rateText(rates?.refusals),
      mendedIn(look),
      whole(sample, 'recordsRepaired'),
      whole(sample, 'incarnation'),
      whole(sample, 'regions'),
      `${answerMs.toFixed(1)} ms`,
    ]
  })
  const away = looks.flatMap((look) => (look.up ? [] : [`${look.target}: ${look.reason}`]))
  return [...table(CARD_HEAD, rows), ...away, ...looks.flatMap(untoldLines)]
}

/** Why there is nothing of what a card acknowledges, though it tells all of itself. */
function untoldLines(look: Look): string[] {
  if (!look.up || !look.sample.isWhole || look.sample.figures !== null) return []
  return [`${look.target}: does not tell what it acknowledges, as its firmware is older`]
}

/** A table of what one card has of something. */
interface CardTable {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
}

const TABLES: readonly ((look: UpLook) => CardTable)[] = [
  ...[workTable, paceTable, regionTable, faultTable, queueTable],
]

/** The tables of a card that have something in them. */
export function tablesOf(look: UpLook): CardTable[] {
  return TABLES.map((one) => one(look)).filter(({ rows }) => rows.length > 0)
}

/** The same table of several cards, which stand in front. */
function ofSeveral(looks: readonly UpLook[], tableOf: (look: UpLook) => CardTable): string[] {
  const each = looks.map((look) => ({ target: look.target, ...tableOf(look) }))
  const rows = each.flatMap((one) => one.rows.map((row) => [one.target, ...row]))
  return rows.length === 0 ? [] : table(['card', ...each[0]!.head], rows)
}

/** What the card does, where it counts that. */
function workTable({ sample, rates }: UpLook): CardTable {
  const head = ['records/s', 'bytes/s', 'bursts/s', 'fences/s', 'acks/s']
  const title = 'What the card does, in a second'
  const work = rates?.work
  const row: Cell[] = [
    rateText(work?.records),
    work ? bytesText(work.bytes) : NONE,
    ...[rateText(work?.bursts), rateText(work?.fences), rateText(work?.acknowledgements)],
  ]
  return { title, head, rows: sample.figures === null ? [] : [row] }
}

/** What became durable in each region since the last look, and how soon. */
function paceTable({ sample, rates }: UpLook): CardTable {
  const rows = (sample.regions ?? []).flatMap(({ id, name, figures }): Cell[][] => {
    if (figures === null) return []
    const rate = rates?.regions?.[id]
    const times = [rate?.p50Us, rate?.p99Us, rate?.p999Us].map((us) => within(us))
    const bytes = rate ? bytesText(rate.bytes) : NONE
    return [[name, rateText(rate?.records), bytes, ...times, figures.acknowledged]]
  })
  const head = ['region', 'records/s', 'bytes/s', 'p50', 'p99', 'p99.9', 'in all']
  return { title: 'How soon records are durable', head, rows }
}

function within(us: number | null | undefined): Cell {
  return us === null || us === undefined ? NONE : usText(us)
}

function regionTable({ sample }: UpLook): CardTable {
  const rows = (sample.regions ?? []).map((region): Cell[] => [
    region.name,
    region.pair ? 'pair' : region.kind,
    region.slots,
    region.copies,
    region.unsettled,
    region.repaired,
    servesText(region),
  ])
  const head = ['region', 'kind', 'slots', 'copies', 'lost', 'mended', 'serves']
  return { title: 'Regions', head, rows }
}

function faultTable({ sample: { faults }, rates }: UpLook): CardTable {
  const rows = Object.entries(faults ?? {}).map(([name, count]): Cell[] => {
    const meaning = FAULTS.find((row) => row.name === name)?.meaning ?? 'unknown here'
    const perSecond = rates?.faults ? (rates.faults[name] ?? 0) : null
    return [name, count, rateText(perSecond), meaning]
  })
  const head = ['fault', 'met', 'in a second', 'meaning']
  return { title: 'Faults met since the start', head, rows }
}

/** Of a card that has a host. */
function queueTable(look: UpLook): CardTable {
  const head = [
    ...['queues', 'cached', 'doorbells/s', 'elements/s', 'completions/s', 'interrupts/s'],
    ...['refused/s', 'errors'],
  ]
  const title = "Queues of the card's host"
  const { sample, rates } = look
  if (!hasHost(look)) return { title, head, rows: [] }
  const { used, queues, cached, capacity, counters } = sample.queues!
  const each = rates?.queues
  const row: Cell[] = [
    `${used} of ${queues}`,
    `${cached} of ${capacity}`,
    rateText(each?.doorbells),
    rateText(each?.elements),
    rateText(each?.completions),
    rateText(each?.interrupts),
    rateText(each && each.doorbellsRefused + each.elementsRefused),
    counters.queueErrors,
  ]
  return { title, head, rows: [row] }
}
