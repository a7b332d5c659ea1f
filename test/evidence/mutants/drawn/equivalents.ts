/**
 * Mutants that are the same program: what they change is decided elsewhere, too, or cannot be seen
 * by anybody. They stand in `same/`, by the folder of the product, each with its reason; who reads
 * the function can check it.
 *
 * Invariant: an entry names a change by the text of its lines and the function around them,
 * so that code may move. One that fits nothing any more is a violation, and so is one that a unit
 * notices (at `--nightly` they are all played).
 */

import type { Drawn } from './places.ts'
import { ANSWERS } from './same/answers.ts'
import { BATCH } from './same/batch.ts'
import { COMMIT } from './same/commit.ts'
import { COMMIT_OPERATIONS } from './same/commit-operations.ts'
import { COMMIT_RECOVERY } from './same/commit-recovery.ts'
import { CONNECT } from './same/connect.ts'
import { CORE } from './same/core.ts'
import type { Equivalent } from './same/equivalent.ts'
import { HOST } from './same/host.ts'
import { MANAGE } from './same/manage.ts'
import { RESIDENCY } from './same/residency.ts'
import { REST } from './same/rest.ts'
import { THROUGH } from './same/through.ts'
import { TRANSPORT } from './same/transport.ts'
import { WIRE } from './same/wire.ts'
import { edited } from './syntax.ts'

/** What a mutant changes: its lines before and after, each as one line. */
export function changeOf(mutant: Drawn, text: string): Omit<Equivalent, 'because'> {
  const { edits, file, within } = mutant
  const first = Math.min(...edits.map(({ start }) => start))
  const last = Math.max(...edits.map(({ end }) => end))
  const from = text.lastIndexOf('\n', first - 1) + 1
  const to = text.indexOf('\n', last)
  const moved = edits.map(({ start, end, text: made }) => {
    return { start: start - from, end: end - from, text: made }
  })
  const lines = text.slice(from, to)
  const at = `${file.replace('firmware/', '')} ${within}`.trim()
  return { at, line: plain(lines), mutant: plain(edited(lines, moved)) }
}

function plain(lines: string): string {
  return lines.trim().replaceAll(/\s+/g, ' ')
}

export const EQUIVALENTS: readonly Equivalent[] = [
  ...BATCH,
  ...COMMIT,
  ...COMMIT_OPERATIONS,
  ...COMMIT_RECOVERY,
  ...CONNECT,
  ...CORE,
  ...HOST,
  ...MANAGE,
  ...RESIDENCY,
  ...REST,
  ...ANSWERS,
  ...THROUGH,
  ...TRANSPORT,
  ...WIRE,
]

const KEYS = new Map(EQUIVALENTS.map((one) => [keyOf(one), one]))

export function keyOf({ at, line, mutant }: Omit<Equivalent, 'because'>): string {
  return `${at}: ${line} => ${mutant}`
}

/** Why the mutant is the same program, or null. */
export function equivalenceOf(mutant: Drawn, text: string): string | null {
  return KEYS.get(keyOf(changeOf(mutant, text)))?.because ?? null
}
