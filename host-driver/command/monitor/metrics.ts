/**
 * Looks in the text format of Prometheus, version 0.0.4.
 *
 * Invariants:
 * - The samples of a family stand together, under its one HELP and TYPE; a family without samples
 *   is absent. No two samples have the same labels.
 * - A card that does not answer has `perdure_up` 0, and no number of before.
 */

import { FAMILIES, type Family, type Point } from './families.ts'
import type { Look } from './look.ts'

/** What a server says of such a text. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const UP: Omit<Family, 'points'> = {
  name: 'perdure_up',
  type: 'gauge',
  help: 'Whether the card has answered the last look: 1, or 0.',
}

/** The newest looks at all targets. */
export function metricsText(looks: readonly Look[]): string {
  const up = looks.map(({ target, up }) => sampleLine(UP.name, target, point(up ? 1 : 0)))
  const parts = FAMILIES.map((family) => linesOf(family, looks))
  return [headOf(UP), ...up, ...parts.flat(), ''].join('\n')
}

function point(value: number): Point {
  return { labels: {}, value }
}

function linesOf(family: Family, looks: readonly Look[]): string[] {
  const lines = looks.flatMap((look) => {
    if (!look.up) return []
    const points = family.points(look.sample)
    return points.map((one) => {
      return sampleLine(`${family.name}${one.suffix ?? ''}`, look.target, one)
    })
  })
  return lines.length === 0 ? [] : [headOf(family), ...lines]
}

function headOf({ name, type, help }: Omit<Family, 'points'>): string {
  const words = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return `# HELP ${name} ${words}\n# TYPE ${name} ${type}`
}

function sampleLine(name: string, target: string, { labels, value }: Point): string {
  const all = Object.entries({ target, ...labels }).map(([label, text]) => {
    return `${label}="${escaped(text)}"`
  })
  return `${name}{${all.join(',')}} ${value}`
}

/** A value of a label: a lone surrogate, of a name that is no UTF-8, has no bytes to be sent as. */
function escaped(text: string): string {
  return text
    .replaceAll(/\p{Cs}/gu, (half) => `\\x${(half.charCodeAt(0) & 0xff).toString(16)}`)
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll('\n', '\\n')
}
