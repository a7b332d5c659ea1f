/** Tables in plain text: columns as wide as they must be, numbers to the right. */

import { printable } from '../../base/printable.ts'

export type Cell = string | number | bigint

/** A cell as it will be shown: its width is that. */
function textOf(cell: Cell): string {
  return printable(String(cell))
}

/** The lines of a table with a head and a rule under it. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string[] {
  const texts = rows.map((row) => row.map(textOf))
  const widths = head.map((title, i) => {
    return Math.max(title.length, ...texts.map((row) => row[i]?.length ?? 0))
  })
  const isNumber = head.map((_, i) => {
    return rows.length > 0 && rows.every((row) => typeof row[i] !== 'string')
  })
  const line = (cells: readonly string[]): string => {
    const padded = cells.map((cell, i) => {
      return isNumber[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)
    })
    return padded.join('  ').trimEnd()
  }
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...texts.map(line)]
}

/** The lines of a list of facts, the names in front. */
export function facts(pairs: readonly (readonly [string, Cell])[]): string[] {
  const texts = pairs.map((pair) => pair.map(textOf))
  const width = Math.max(...texts.map(([name]) => name!.length))
  return texts.map(([name, value]) => `${name!.padEnd(width)}  ${value}`)
}

/** Bytes for people: '64 B', '4 KiB', '1.5 MiB'. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[unit]}`
}

/** Microseconds for people. */
export function timeText(us: number): string {
  if (us < 1000) return `${Math.round(us)} µs`
  return us < 1_000_000 ? `${(us / 1000).toFixed(1)} ms` : `${(us / 1_000_000).toFixed(2)} s`
}
