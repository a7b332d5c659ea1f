/**
 * Tests that `npm test` leaves to `npm run test:thorough`: they enumerate, draw or repeat for long
 * what a shorter test shows, too, or play what the evidence plays.
 *
 * Invariant: a file says it of its own tests, so a renamed test loses nothing; the thorough
 * run plays every test; and every behaviour is asserted by a test without this tag (behaviours.ts).
 */

/** Whether `npm test` plays the quick suite, and nobody has chosen files or tests. */
export const IS_QUICK: boolean = process.env.PERDURE_TESTS === 'quick'

export const TAG = 'thorough'

/** The tags that there are, as vitest wants to be told. */
export const TAGS: { name: string; description: string }[] = [
  { name: TAG, description: 'only npm run test:thorough plays it' },
]

/** Options of a test, or of a `describe`, that only the thorough run plays. */
export const THOROUGH: { tags: string[] } = { tags: [TAG] }

/** The same, where only some cases of a table are for the thorough run. */
export function thoroughIf(isThorough: boolean): { tags?: string[] } {
  return isThorough ? THOROUGH : {}
}

/** A part of the rows of a table, and the options of the tests that they make. */
interface Division<T> {
  readonly rows: T[]
  readonly options: { tags?: string[] }
}

/** The rows of a table in two: those of the quick suite, and those for the thorough run. */
export function divided<T>(table: readonly T[], isThorough: (row: T) => boolean): Division<T>[] {
  return [false, true].map((wanted) => ({
    rows: table.filter((row) => isThorough(row) === wanted),
    options: thoroughIf(wanted),
  }))
}
