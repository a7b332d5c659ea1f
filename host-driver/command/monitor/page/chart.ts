/**
 * A chart over time of some figures of a card, with their last values in words below it.
 *
 * Invariant: lines are told apart without colour, by their dashes and by the words of the caption;
 * a gap in the figures is a gap in the line.
 */

import uPlot from 'uplot'
import type { WebPoint } from '../web-told.ts'
import { clockText, make } from './make.ts'

interface Line {
  readonly label: string
  readonly figureOf: (point: WebPoint) => number | null
}

const POINTS_MAX = 900
const HEIGHT = 150
const DASHES: readonly number[][] = [[], [6, 4]]
const DASH_WORDS = ['solid', 'dashed']
const COLOURS = ['--one', '--other']

export class Chart {
  readonly element: HTMLElement = make('figure')
  private readonly lines: readonly Line[]
  private readonly unit: string
  private readonly place = make('div')
  private readonly figures = make('p')
  private readonly watched: ResizeObserver
  private points: WebPoint[] = []
  private plot: uPlot | null = null

  constructor(title: string, unit: string, lines: readonly Line[]) {
    this.lines = lines
    this.unit = unit
    this.figures.className = 'figures'
    this.place.setAttribute('role', 'img')
    this.place.setAttribute('aria-label', `${title}: a chart; its last figures stand below it`)
    this.element.append(make('figcaption', title), this.place, this.figures)
    this.watched = new ResizeObserver(() => this.fit())
    this.watched.observe(this.element)
  }

  begin(points: readonly WebPoint[]): void {
    this.points = points.slice(-POINTS_MAX)
  }

  add(point: WebPoint): void {
    this.points.push(point)
    if (this.points.length > POINTS_MAX) this.points.shift()
  }

  draw(): void {
    const { points, lines, unit } = this
    const last = points.at(-1)
    const words = lines.map(({ label, figureOf }, i) => {
      const value = last === undefined ? null : figureOf(last)
      const style = lines.length > 1 ? ` (${DASH_WORDS[i]})` : ''
      return `${label}${style}: ${value === null ? '-' : `${value.toFixed(1)}${unit}`}`
    })
    this.figures.textContent = words.join(', ')
    if (this.element.hidden) return
    if (this.plot === null) this.rebuild()
    else this.plot.setData(this.data())
  }

  /** Again from the beginning: in the colours that hold now. */
  rebuild(): void {
    this.plot?.destroy()
    this.plot = null
    const width = this.element.clientWidth
    if (width > 0) this.plot = new uPlot(this.options(width), this.data(), this.place)
  }

  end(): void {
    this.watched.disconnect()
    this.plot?.destroy()
    this.plot = null
  }

  private fit(): void {
    const width = this.element.clientWidth
    if (width > 0) this.plot?.setSize({ width, height: HEIGHT })
  }

  private data(): uPlot.AlignedData {
    const { points, lines } = this
    return [
      points.map(({ atMs }) => atMs / 1000),
      ...lines.map(({ figureOf }) => points.map(figureOf)),
    ]
  }

  private options(width: number): uPlot.Options {
    const style = getComputedStyle(document.documentElement)
    const colour = (name: string): string => style.getPropertyValue(name).trim()
    const axis: uPlot.Axis = {
      stroke: colour('--soft'),
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { stroke: colour('--line'), width: 1 },
    }
    return {
      ...{ width, height: HEIGHT, legend: { show: false } },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [
        { ...axis, space: 80, values: (_plot, ticks) => ticks.map(clockOf) },
        { ...axis, size: 56 },
      ],
      series: [
        {},
        ...this.lines.map(({ label }, i) => ({
          ...{ label, stroke: colour(COLOURS[i]!), width: 2, dash: DASHES[i]! },
          points: { show: false },
        })),
      ],
    }
  }
}

function clockOf(seconds: number): string {
  return clockText(new Date(seconds * 1000))
}
