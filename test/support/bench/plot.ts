/**
 * A plot as one self-contained SVG file: panels side by side, with lines over a logarithmic x axis
 * or with groups of bars.
 *
 * Invariant: the file names nothing outside itself; every text is escaped.
 */

export interface Line {
  readonly name: string
  readonly color: string
  readonly dashed: boolean
  /** x, y. */
  readonly points: readonly (readonly [number, number])[]
}

interface Frame {
  readonly title: string
  readonly xLabel: string
  readonly yLabel: string
  /** The y axis goes from 0 to here. */
  readonly yMax: number
  readonly yTicks: readonly number[]
}

interface Panel extends Frame {
  readonly xTicks: readonly number[]
  readonly lines: readonly Line[]
}

interface BarPanel extends Frame {
  /** A bar for each line of the first panel, in its colour. */
  readonly groups: readonly { readonly name: string; readonly values: readonly number[] }[]
}

const WIDTH = 520
const HEIGHT = 400
const LEFT = 76
const RIGHT = 36
const TOP = 56
const BOTTOM = 60
const LEGEND_ROW = 20
const BASE: number = HEIGHT - BOTTOM
const GRAY = '#888'

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function textAt(x: number, y: number, text: string, more = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escaped(text)}</text>`
}

/** Title, box, y axis and labels. */
function frameOf(frame: Frame, x0: number): string[] {
  const { title, xLabel, yLabel, yTicks, yMax } = frame
  const right = x0 + WIDTH - RIGHT
  const middle = (TOP + BASE) / 2
  const ticks = yTicks.flatMap((tick) => {
    const at = heightOf(tick, yMax)
    return [
      `<path d="M${x0 + LEFT} ${at.toFixed(1)}H${right}" stroke="#ddd"/>`,
      textAt(x0 + LEFT - 8, at + 4, tick.toLocaleString('en-US'), 'text-anchor="end"'),
    ]
  })
  return [
    textAt(x0 + LEFT, 30, title, 'font-size="16" font-weight="bold"'),
    `<rect x="${x0 + LEFT}" y="${TOP}" width="${WIDTH - LEFT - RIGHT}" height="${BASE - TOP}" ` +
      `fill="none" stroke="${GRAY}"/>`,
    ...ticks,
    textAt((x0 + LEFT + right) / 2, BASE + 42, xLabel, 'text-anchor="middle"'),
    textAt(
      x0 + 16,
      middle,
      yLabel,
      `text-anchor="middle" transform="rotate(-90 ${x0 + 16} ${middle})"`,
    ),
  ]
}

function heightOf(value: number, yMax: number): number {
  return BASE - (value / yMax) * (BASE - TOP)
}

function panelOf(panel: Panel, x0: number): string[] {
  const { xTicks, yMax } = panel
  const first = Math.log10(xTicks[0]!)
  const span = Math.log10(xTicks.at(-1)!) - first
  const x = (value: number): number =>
    x0 + LEFT + ((Math.log10(value) - first) / span) * (WIDTH - LEFT - RIGHT)
  const y = (value: number): number => heightOf(value, yMax)
  const out = frameOf(panel, x0)
  for (const tick of xTicks) {
    const at = x(tick)
    out.push(
      `<path d="M${at.toFixed(1)} ${TOP}V${BASE}" stroke="#ddd"/>`,
      textAt(at, BASE + 18, tick.toLocaleString('en-US'), 'text-anchor="middle"'),
    )
  }
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

function barsOf(panel: BarPanel, lines: readonly Line[], x0: number): string[] {
  const { groups, yMax } = panel
  const group = (WIDTH - LEFT - RIGHT) / groups.length
  const bar = (group * 0.8) / lines.length
  const bars = groups.flatMap(({ name, values }, i) => {
    const left = x0 + LEFT + group * (i + 0.1)
    return [
      textAt(left + group * 0.4, BASE + 18, name, 'text-anchor="middle"'),
      ...values.flatMap((value, j) => {
        const at = left + j * bar
        const top = heightOf(value, yMax)
        return [
          `<rect x="${at.toFixed(1)}" y="${top.toFixed(1)}" width="${bar.toFixed(1)}" ` +
            `height="${(BASE - top).toFixed(1)}" fill="${lines[j]!.color}"/>`,
          textAt(at + bar / 2, top - 5, value.toLocaleString('en-US'), 'text-anchor="middle"'),
        ]
      }),
    ]
  })
  return [...frameOf(panel, x0), ...bars]
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

/** The plot: its panels have the same lines, explained below them; the bars stand on the right. */
export function plotOf(
  panels: readonly Panel[],
  legendColumns: number,
  bars: readonly BarPanel[] = [],
): string {
  const { lines } = panels[0]!
  const rows = Math.ceil(lines.length / legendColumns)
  const width = WIDTH * (panels.length + bars.length)
  const height = HEIGHT + rows * LEGEND_ROW + 8
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#222">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    ...panels.flatMap((panel, i) => panelOf(panel, i * WIDTH)),
    ...bars.flatMap((panel, i) => barsOf(panel, lines, (panels.length + i) * WIDTH)),
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
