/** The recovery report, for people: per record what an interruption left, and what was done. */

import type { PartStatus, RegionInfo, ReportEntry } from '../../control/part.ts'
import { DATA, LOST, OK } from './exit-codes.ts'
import type { Look, Output } from './output.ts'
import { table } from './table.ts'
import { notServing } from './target.ts'

const LETTERS = ['A', 'B', 'C', 'D']

/** What the copies were, and what became of them: 'A valid, B torn', 'B <- A'. */
export function reportLines(
  entries: readonly ReportEntry[],
  regions: readonly RegionInfo[],
): string[] {
  const rows = entries.map((entry) => {
    const region = regions.find((one) => one.id === entry.region)
    const copies = region?.copies ?? 2
    return [
      region?.name ?? `#${entry.region}`,
      entry.record,
      entry.sourceCase === 0 ? 'media' : `case ${entry.sourceCase}`,
      entry.case,
      copiesText(entry, copies),
      doneText(entry, copies),
      entry.linesRead,
    ]
  })
  return table(['region', 'record', 'case', 'found', 'copies', 'done', 'lines read'], rows)
}

function copiesText(entry: ReportEntry, copies: number): string {
  const state = (copy: number): string => (entry.valid[copy] ? 'valid' : 'torn')
  return LETTERS.slice(0, copies)
    .map((letter, copy) => `${letter} ${state(copy)}`)
    .join(', ')
}

function doneText(entry: ReportEntry, copies: number): string {
  if (entry.lost) return 'LOST: no valid copy'
  if (entry.refused) return 'the medium refused the repair'
  if (!entry.repaired) return 'nothing'
  const kept = entry.action === 'useB' ? entry.valid.indexOf(true, 1) : 0
  const others = LETTERS.slice(0, copies).filter((_, copy) => entry.overwritten[copy])
  return `${others.join(', ')} <- ${LETTERS[kept] ?? '?'}`
}

/** Prints what recovery read and did, with the table where there is anything in it. */
export function sayReport(
  part: PartStatus,
  entries: readonly ReportEntry[],
  regions: readonly RegionInfo[],
  put: (line: string, look?: Look) => void,
): void {
  put(
    `recovery: ${part.lanesActive} active lanes, ${part.linesRead} lines read, ` +
      `${part.recordsRepaired} records repaired, ${part.unsettled} lost`,
  )
  if (entries.length === 0) return
  const lines = reportLines(entries, regions)
  put(lines[0]!, 'bold')
  for (const line of lines.slice(1)) put(line)
}

/** The exit code of a look at a part; of one that cannot serve it says why. */
export function sayEnd(output: Output, target: string, part: PartStatus): number {
  if (part.state !== 'refused') return part.unsettled > 0 ? LOST : OK
  output.fail(notServing(target, part.fault))
  return DATA
}
