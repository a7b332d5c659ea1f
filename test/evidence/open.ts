/**
 * Kinds of violations that a fresh seed has found, and that are not mended yet. A run that meets no
 * other does not fail, but says so: in the table and on the page. Every kind stands in
 * `test/doc/evidence.md`.
 *
 * Invariant: only a violation that a stage describes is of a kind; what is counted and not
 * described is of none. A kind has an argument that shows it, and is taken from here when that
 * argument finds nothing any more.
 */

import type { Violation } from './stage.ts'

export interface OpenKind {
  /** Two words or three, with hyphens; in test/doc/evidence.md as here. */
  readonly id: string
  readonly stage: string
  /** What is wrong, in one sentence. */
  readonly what: string
  /** Of the sentences of its violations. */
  readonly says: RegExp
  /** `npm run evidence -- --replay STAGE ARGUMENT` shows it. */
  readonly replay: string
}

export const OPEN: readonly OpenKind[] = []

/** The kind that a violation is of, or null. */
export function kindOf(
  kinds: readonly OpenKind[],
  stage: string,
  { what }: Violation,
): OpenKind | null {
  return kinds.find((kind) => kind.stage === stage && kind.says.test(what)) ?? null
}

/** The command that shows a kind. */
export function shows({ stage, replay }: Pick<OpenKind, 'stage' | 'replay'>): string {
  return `npm run evidence -- --replay ${stage} '${replay}'`
}
