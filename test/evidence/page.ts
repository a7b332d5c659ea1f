/**
 * The run as one page to look at: what was tried and found, floors, cells that were reached, and
 * crashes and violations as timelines (crash/picture.ts), drawn by the page of a timeline.
 *
 * Invariant: the page is one file and names nothing outside itself; every text in it that
 * comes from a run is escaped.
 */

import { pageHolding } from '../../host-driver/command/timeline/page.ts'
import type { Picture } from './crash/picture.ts'
import { shows } from './open.ts'
import { HERE, PAGE_SCRIPT } from './page-script.ts'
import { PAGE_STYLE } from './page-style.ts'
import type { Outcome } from './pool.ts'
import type { Report, StageReport } from './report.ts'
import { countOf, missed, type Violation } from './stage.ts'

/** So many lines of what a stage lacks are open. */
const LACKS_SHOWN = 4

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

const number = (value: number): string => Math.round(value).toLocaleString('en')

function chip(name: string, text: string): string {
  return `<span class="chip ${name}">${text}</span>`
}

/** The verdict, in one line and one colour. */
function verdictOf(report: Report, outcomes: readonly Outcome[]): string {
  const { violations, failures, stages, size, seed, workers, seconds } = report
  const short = stages.reduce((sum, { lacks }) => sum + lacks.length, 0)
  const missing = outcomes.some(({ stage, tally }) => missed(stage, tally, size).length > 0)
  const kind = failures > 0 ? 'bad' : violations > 0 || short > 0 ? 'warn' : 'good'
  const known = violations > failures ? `, ${number(violations - failures)} of open kinds` : ''
  const said =
    violations > 0
      ? `${number(violations)} violations${known}`
      : short > 0
        ? `No violation; ${number(short)} things not reached`
        : missing
          ? 'No violation in the shards that were played'
          : 'No violation, every floor reached'
  const time = `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
  const run = `size ${size} · seed ${seed} · ${workers} workers · ${time}`
  return `<div class="verdict ${kind}"><strong>${said}</strong><span>${run}</span></div>`
}

function row(cells: readonly string[], tag: 'td' | 'th', text: number): string {
  const inside = cells.map(
    (cell, i) => `<${tag}${i === text ? ' class="text"' : ''}>${cell}</${tag}>`,
  )
  return `<tr>${inside.join('')}</tr>`
}

function tableOf(report: Report): string {
  const head = [
    'stage',
    'what it shows',
    'units',
    'distinct',
    'seeds',
    'violations',
    'per s',
    'busy s',
  ]
  const rows = report.stages.map((stage) =>
    row(
      [
        `${escaped(stage.id)} <b>${escaped(stage.stage)}</b>`,
        escaped(stage.title),
        `${number(stage.count)} <span class="soft">${escaped(stage.unit)}</span>`,
        number(stage.distinct),
        number(stage.seeds),
        chip(stage.violations > 0 ? 'wrong' : 'old', number(stage.violations)),
        number(stage.rate),
        number(stage.seconds),
      ],
      'td',
      1,
    ),
  )
  return `<div class="card scroll"><table>${row(head, 'th', 1)}${rows.join('')}</table></div>`
}

/** A violation, with the command that plays it again. */
function violationOf(
  of: string,
  { stage }: StageReport,
  violation: Violation,
  pictures: readonly Picture[],
): string {
  const { shard, what, replay } = violation
  const command = `npm run evidence -- --replay ${stage} '${replay}'`
  const again = replay === '' ? '' : `<code class="command">${escaped(command)}</code>`
  const where = `<b>${of}, ${escaped(shard)}</b>`
  const at = pictures.findIndex((picture) => picture.replay === `${stage} ${replay}`)
  const look = at < 0 ? '' : ` <button type="button" data-picture="${at}">look at it</button>`
  return `<li>${chip('wrong', 'violation')} ${where}${look}<br>${escaped(what)}${again}</li>`
}

/** What a stage lacks: a few lines, and the others on demand. */
function lacksOf(of: string, { lacks }: StageReport): string {
  if (lacks.length === 0) return ''
  const lines = lacks.map((lack) => `<div>${escaped(lack)}</div>`)
  const rest = lines.slice(LACKS_SHOWN)
  const title = `<summary>and ${number(rest.length)} more</summary>`
  const more = `<details>${title}${rest.join('')}</details>`
  const shown = lines.slice(0, LACKS_SHOWN).join('')
  const head = `${chip('torn', 'not reached')} <b>${of}</b>`
  return `<li>${head}${shown}${rest.length === 0 ? '' : more}</li>`
}

/** Everything that is wrong, violations first. */
function objectionsOf({ stages }: Report, pictures: readonly Picture[]): string {
  const named = stages.map((stage) => ({
    stage,
    of: `${escaped(stage.id)} ${escaped(stage.stage)}`,
  }))
  const items = [
    ...named.flatMap(({ of, stage }) =>
      stage.described.map((one) => violationOf(of, stage, one, pictures)),
    ),
    ...named.map(({ of, stage }) => lacksOf(of, stage)),
  ].filter((item) => item !== '')
  if (items.length === 0) return ''
  return `<h2>What is wrong</h2><ul class="plain card">${items.join('')}</ul>`
}

/** Kinds of violations that stand as open, whether this run met them or not. */
function openOf({ open }: Report): string {
  if (open.length === 0) return '<p class="soft">No kind of violation stands as open.</p>'
  const items = open.map((kind) => {
    const { id, what, met } = kind
    const name = `<b>${escaped(id)}</b>, met ${number(met)} times`
    const command = `<code class="command">${escaped(shows(kind))}</code>`
    return `<li>${chip('torn', 'open')} ${name}<br>${escaped(what)}${command}</li>`
  })
  return `<h2>Open</h2><ul class="plain card">${items.join('')}</ul>`
}

/** What is asked for, and how far it was reached: the bar is full where it was. */
function floorsOf(report: Report, outcomes: readonly Outcome[]): string {
  const rows = outcomes.flatMap(({ stage, tally }) =>
    stage.floors[report.size].map(({ of, least }) => {
      const value = countOf(tally, of)
      const percent = Math.min(100, (100 * value) / least)
      const short = percent < 100 ? ' class="short"' : ''
      const bar = `<div class="bar"><i${short} style="width:${percent.toFixed(1)}%"></i></div>`
      const times = percent < 100 ? `${percent.toFixed(0)} %` : `${(value / least).toFixed(1)} ×`
      const name = `${escaped(stage.id)} ${escaped(of === 'count' ? stage.unit : of)}`
      return row([name, number(value), number(least), times, bar], 'td', 4)
    }),
  )
  if (rows.length === 0) return ''
  const head = row(['what is asked', 'reached', 'asked', '', ''], 'th', 4)
  return `<h2>Floors</h2><div class="card scroll"><table>${head}${rows.join('')}</table></div>`
}

/** Cells by phase: what stands before the last colon; behind it the class. */
function phasesOf(cells: Readonly<Record<string, number>>): Map<string, [string, number][]> {
  const phases = new Map<string, [string, number][]>()
  for (const [name, count] of Object.entries(cells)) {
    const at = name.indexOf(': ')
    const phase = at < 0 ? '' : name.slice(0, at)
    const known = phases.get(phase) ?? []
    known.push([at < 0 ? name : name.slice(at + 2), count])
    phases.set(phase, known)
  }
  return phases
}

/** A tile for each cell; the more often it was met, the fuller its colour. */
function heatOf({ cells, id, stage }: StageReport): string {
  const names = Object.keys(cells)
  if (names.length === 0) return ''
  const most = Math.log2(1 + Math.max(...Object.values(cells)))
  const rows = [...phasesOf(cells)].map(([phase, classes]) => {
    const tiles = classes.map(([name, count]) => {
      const share = 0.12 + 0.88 * (Math.log2(1 + count) / most)
      const title = `${phase === '' ? '' : `${phase}: `}${name}: ${number(count)}`
      return `<i style="opacity:${share.toFixed(2)}" title="${escaped(title)}"></i>`
    })
    const label = `<div>${escaped(phase === '' ? 'all' : phase)}</div>`
    return `${label}<div class="tiles">${tiles.join('')}</div>`
  })
  const head = `<summary>${escaped(id)} ${escaped(stage)}: ${number(names.length)} cells</summary>`
  const out = '<div class="readout">Point at a tile, or touch it.</div>'
  return `<details>${head}<div class="heat">${rows.join('')}</div>${out}</details>`
}

function cellsOf(report: Report): string {
  const maps = report.stages.map(heatOf).join('')
  if (maps === '') return ''
  return `<h2>Cells reached</h2><p class="soft">Every tile is a class that was met in a phase;
the fuller its colour, the more often.</p><div class="card">${maps}</div>`
}

const PICTURE = `<h2 id="look">A crash, looked at</h2>
<p class="soft">What is chosen is a timeline: drag its cursor to any store, to see what is pending
there, what a power cut may leave, chunk by chunk, and what recovery makes of it. What it says of an
image was found out by the firmware, started on it.</p>
<div class="card pad"><label>play<select id="picture"></select></label>
<iframe id="timeline" title="the timeline of that play"></iframe></div>`

/** Pictures that show a violation, at the most. */
const VIOLATIONS_SHOWN = 12

/** Pictures of crashes, violations first; a stage may have pictures of another kind. */
function crashesOf(outcomes: readonly Outcome[]): Picture[] {
  const all = outcomes.flatMap(({ tally }) => tally.pictures) as (Partial<Picture> | null)[]
  const crashes = all.filter((one): one is Picture => one?.picture === 'crash')
  const wrong = crashes.filter(({ replay }) => replay !== undefined)
  const plain = crashes.filter(({ replay }) => replay === undefined)
  return [...wrong.slice(0, VIOLATIONS_SHOWN), ...plain]
}

export function pageOf(report: Report, outcomes: readonly Outcome[]): string {
  const pictures = crashesOf(outcomes)
  // In a script element only `<` could end it.
  const data = JSON.stringify({ pictures, page: pageHolding(HERE) }).replaceAll('<', '\\u003c')
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Perdure: the evidence</title><style>${PAGE_STYLE}</style></head><body><main>
<h1>The evidence</h1>
<p class="soft">Nothing acknowledged is lost, nothing torn is returned: what was tried against
it.</p>
${verdictOf(report, outcomes)}
<h2>Stages</h2>
${tableOf(report)}
${objectionsOf(report, pictures)}
${openOf(report)}
${pictures.length === 0 ? '' : PICTURE}
${floorsOf(report, outcomes)}
${cellsOf(report)}
</main><script type="application/json" id="pictures">${data}</script>
<script>${PAGE_SCRIPT}</script></body></html>
`
}
