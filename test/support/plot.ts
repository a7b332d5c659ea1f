/**
 * A plot as one self-contained SVG file: panels side by side, lines over a logarithmic x axis.
 *
 * What always holds: the file names nothing outside itself; every text is escaped.
 */

export interface Line {
  readonly name: string
  readonly color: string
  readonly dashed: boolean
  /** x, y. */
  readonly points: readonly (readonly [number, number])[]
}

export interface Panel {
  readonly title: string
  readonly xLabel: string
  readonly yLabel: string
  /** The y axis goes from 0 to here. */
  readonly yMax: number
  readonly yTicks: readonly number[]
  readonly xTicks: readonly number[]
  readonly lines: readonly Line[]
}

const WIDTH = 520
const HEIGHT = 400
const LEFT = 76
const RIGHT = 36
const TOP = 56
const BOTTOM = 60
const LEGEND_ROW = 20
const GRAY = '#888'

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function textAt(x: number, y: number, text: string, more = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escaped(text)}</text>`
}

function panelOf(panel: Panel, x0: number): string[] {
  const { xTicks, yTicks, yMax } = panel
  const first = Math.log10(xTicks[0]!)
  const span = Math.log10(xTicks.at(-1)!) - first
  const right = x0 + WIDTH - RIGHT
  const bottom = HEIGHT - BOTTOM
  const x = (value: number): number =>
    x0 + LEFT + ((Math.log10(value) - first) / span) * (WIDTH - LEFT - RIGHT)
  const y = (value: number): number => bottom - (value / yMax) * (bottom - TOP)
  const out = [
    textAt(x0 + LEFT, 30, panel.title, 'font-size="16" font-weight="bold"'),
    `<rect x="${x0 + LEFT}" y="${TOP}" width="${WIDTH - LEFT - RIGHT}" height="${bottom - TOP}" ` +
      `fill="none" stroke="${GRAY}"/>`,
  ]
  for (const tick of yTicks) {
    const at = y(tick)
    out.push(
      `<path d="M${x0 + LEFT} ${at.toFixed(1)}H${right}" stroke="#ddd"/>`,
      textAt(x0 + LEFT - 8, at + 4, tick.toLocaleString('en-US'), 'text-anchor="end"'),
    )
  }
  for (const tick of xTicks) {
    const at = x(tick)
    out.push(
      `<path d="M${at.toFixed(1)} ${TOP}V${bottom}" stroke="#ddd"/>`,
      textAt(at, bottom + 18, tick.toLocaleString('en-US'), 'text-anchor="middle"'),
    )
  }
  const middle = (TOP + bottom) / 2
  out.push(
    textAt((x0 + LEFT + right) / 2, bottom + 42, panel.xLabel, 'text-anchor="middle"'),
    textAt(
      x0 + 16,
      middle,
      panel.yLabel,
      `text-anchor="middle" transform="rotate(-90 ${x0 + 16} ${middle})"`,
    ),
  )
  for (const line of panel.lines) {
    const points = line.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(' ')
    const dash = line.dashed ? ' stroke-dasharray="6 4"' : ''
    out.push(
      `<polyline points="${points}" fill="none" stroke="${line.color}" stroke-width="2"${dash}/>`,
    )
    for (const [a, b] of line.points) {
      out.push(
        `<circle cx="${x(a).toFixed(1)}" cy="${y(b).toFixed(1)}" r="2.5" fill="${line.color}"/>`,
      )
    }
  }
  return out
}

/** One row of the legend for each line of the first panel. */
function legendOf(lines: readonly Line[], columns: number): string[] {
  const column = ((WIDTH * 2 - LEFT - RIGHT) / columns) | 0
  return lines.flatMap(({ name, color, dashed }, i) => {
    const x = LEFT + (i % columns) * column
    const y = HEIGHT + Math.floor(i / columns) * LEGEND_ROW + 6
    const dash = dashed ? ' stroke-dasharray="6 4"' : ''
    return [
      `<path d="M${x} ${y}h30" stroke="${color}" stroke-width="2"${dash}/>`,
      textAt(x + 38, y + 4, name),
    ]
  })
}

/** The plot: its panels have the same lines, explained below them. */
export function plotOf(panels: readonly Panel[], legendColumns: number): string {
  const { lines } = panels[0]!
  const rows = Math.ceil(lines.length / legendColumns)
  const width = WIDTH * panels.length
  const height = HEIGHT + rows * LEGEND_ROW + 8
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#222">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    ...panels.flatMap((panel, i) => panelOf(panel, i * WIDTH)),
    ...legendOf(lines, legendColumns),
    '</svg>',
    '',
  ].join('\n')
}

/** Round numbers from 0 up to one that is not below `max`: at most seven. */
export function ticksTo(max: number): number[] {
  const power = 10 ** Math.floor(Math.log10(max || 1))
  const step = [0.2, 0.5, 1, 2].map((by) => by * power).find((one) => max / one <= 6)!
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_, i) => i * step)
}
