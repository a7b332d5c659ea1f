/** One card on the page: how it is, its charts, its facts and tables. */

import type { WebLook, WebPoint, WebState, WebTable } from '../web-told.ts'
import { Chart } from './chart.ts'
import { make } from './make.ts'

export class CardView {
  readonly element: HTMLElement = make('section')
  state: WebState = 'UNKNOWN'
  private readonly stateWord = make('span')
  private readonly findings = make('ul')
  private readonly facts = make('dl')
  private readonly tables = make('div')
  private readonly hostChart: Chart
  private readonly figureCharts: readonly Chart[]
  private readonly charts: readonly Chart[]

  constructor(target: string) {
    const title = make('h2')
    this.findings.className = 'findings'
    title.append(this.stateWord, target)
    this.hostChart = new Chart('Queues of the host, in a second', '/s', [
      { label: 'elements', figureOf: ({ elements }) => elements },
      { label: 'completions', figureOf: ({ completions }) => completions },
    ])
    this.figureCharts = [
      new Chart('Records that become durable, in a second', '/s', [
        { label: 'records', figureOf: ({ records }) => records },
      ]),
      new Chart('Within which time, of the slowest region', ' µs', [
        { label: 'half of them', figureOf: ({ p50Us }) => p50Us },
        { label: '99 %', figureOf: ({ p99Us }) => p99Us },
      ]),
    ]
    this.charts = [
      ...this.figureCharts,
      new Chart('Faults and refusals, in a second', '/s', [
        { label: 'faults met', figureOf: ({ faults }) => faults },
        { label: 'strangers refused', figureOf: ({ refused }) => refused },
      ]),
      new Chart('How long the card takes to answer', ' ms', [
        { label: 'answer', figureOf: ({ answerMs }) => answerMs },
      ]),
      this.hostChart,
    ]
    const charts = make('div')
    charts.className = 'charts'
    charts.append(...this.charts.map(({ element }) => element))
    this.element.className = 'card'
    this.element.append(title, this.findings, this.facts, charts, this.tables)
  }

  /** The moments that there were before. */
  begin(points: readonly WebPoint[]): void {
    for (const chart of this.charts) chart.begin(points)
  }

  add(point: WebPoint): void {
    for (const chart of this.charts) chart.add(point)
  }

  show({ state, findings, facts, tables, hasHost, hasFigures }: WebLook): void {
    this.state = state
    this.stateWord.className = `state ${state}`
    this.stateWord.textContent = state
    this.findings.replaceChildren(...findings.map((text) => make('li', text)))
    this.facts.replaceChildren(...facts.map(factOf))
    this.hostChart.element.hidden = !hasHost
    for (const chart of this.figureCharts) chart.element.hidden = !hasFigures
    for (const chart of this.charts) chart.draw()
    this.tables.replaceChildren(...tables.flatMap(tableOf))
  }

  redraw(): void {
    for (const chart of this.charts) chart.rebuild()
  }

  remove(): void {
    for (const chart of this.charts) chart.end()
    this.element.remove()
  }
}

function factOf([name, value]: readonly [string, string]): HTMLElement {
  const pair = make('div')
  pair.append(make('dt', name), make('dd', value))
  return pair
}

function tableOf({ title, head, rows }: WebTable): HTMLElement[] {
  const table = make('table')
  const first = make('tr')
  first.append(
    ...head.map((name) => {
      const cell = make('th', name)
      cell.scope = 'col'
      return cell
    }),
  )
  const top = make('thead')
  top.append(first)
  const body = make('tbody')
  body.append(
    ...rows.map((row) => {
      const line = make('tr')
      line.append(...row.map((text) => make('td', text)))
      return line
    }),
  )
  table.append(top, body)
  table.setAttribute('aria-label', title)
  const wide = make('div')
  wide.className = 'wide'
  wide.append(table)
  return [make('h3', title), wide]
}
