/** The table of what was tried, for people. */

/** One case: a client, or something that is looked at. */
export interface Outcome {
  readonly name: string
  readonly steps: number
  /** What went wrong; empty if nothing did. */
  readonly failures: readonly string[]
  readonly seconds: number
  /** What is worth saying where all went well. */
  readonly note?: string
}

/** Of one case; where a firmware loses data, there are hundreds. */
const FAILURES_SHOWN = 12

/** The lines of the table, each failure below its case. */
export function tableOf(outcomes: readonly Outcome[]): string[] {
  const width = Math.max(...outcomes.map(({ name }) => name.length))
  const head = `${'case'.padEnd(width)}  result  steps  seconds`
  const rows = outcomes.flatMap(({ name, steps, failures, seconds, note }) => {
    const result = failures.length === 0 ? 'ok' : 'FAIL'
    const cells = [name.padEnd(width), result.padEnd(6), `${steps}`.padStart(5)]
    const more = note === undefined ? '' : `  ${note}`
    return [
      `${cells.join('  ')}  ${seconds.toFixed(1).padStart(7)}${more}`,
      ...failures.slice(0, FAILURES_SHOWN).map((failure) => `    ${failure}`),
      ...(failures.length > FAILURES_SHOWN
        ? [`    and ${failures.length - FAILURES_SHOWN} more`]
        : []),
    ]
  })
  return [head, '-'.repeat(head.length), ...rows]
}
