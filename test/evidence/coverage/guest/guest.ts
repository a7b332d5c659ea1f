/**
 * The branches that the firmware takes in QuickJS: every tape of a folder, played in a guest with a
 * mark at every branch; and tests that call parts of the firmware, as they stand.
 */

import { ColdGuest } from '../../../support/cards/cold-guest.ts'
import { tapesIn } from '../flight-files.ts'
import { type Branch, bundleMarked, type MarkedFirmware } from './guest-branches.ts'
import { PARTS, playParts } from './guest-parts.ts'
import { play } from './guest-player.ts'

export interface GuestCoverage {
  readonly tapes: number
  /** Calls of a board, and command lists, that were the same as in Node. */
  readonly calls: number
  readonly lists: number
  /** A byte for each branch: 1 if it was taken in QuickJS. */
  readonly hits: Uint8Array
  /** 1 if it is in a file that a card gets: the others are for tests and drivers. */
  readonly bundled: Uint8Array
  /** Tapes that QuickJS played otherwise, and how. */
  readonly differences: readonly string[]
}

/** Plays every tape of the folder. `progress` is told the name of each. */
async function playTapes(
  folder: string,
  marked: MarkedFirmware,
  progress: (name: string) => void = () => {},
): Promise<GuestCoverage> {
  const { source, files } = await bundleMarked(marked)
  const options = { source, answer: '__hits.join("")' }
  const hits = new Uint8Array(marked.branches.length)
  const differences: string[] = []
  const sum = { tapes: 0, calls: 0, lists: 0 }
  let guest = await ColdGuest.evaluate(options)
  for (const { name, tape } of tapesIn(folder)) {
    progress(name)
    const { calls, lists, differs } = play(guest, tape)
    sum.tapes++
    sum.calls += calls
    sum.lists += lists
    if (differs !== null) differences.push(`${name}: ${differs}`)
    if (guest.isSpent) {
      guest = await ColdGuest.evaluate(options)
      continue
    }
    const marks = guest.ask()
    for (let i = 0; i < marks.length; i++) if (marks[i] === '1') hits[i] = 1
  }
  guest.dispose()
  const bundled = Uint8Array.from(marked.branches, ({ file }) => (files.has(file) ? 1 : 0))
  return { ...sum, hits, bundled, differences }
}

/** Plays the tapes; and what they do not take, of those test files that call parts of it. */
export async function playInGuest(
  folder: string,
  marked: MarkedFirmware,
  files: readonly string[],
): Promise<GuestCoverage & { readonly values: number }> {
  const tapes = await playTapes(folder, marked)
  const wanted = tapes.hits.map((taken, i) => (tapes.bundled[i] === 1 && taken === 0 ? 1 : 0))
  const parts = await playParts(
    PARTS.filter((file) => files.includes(file)),
    marked,
    wanted,
  )
  return {
    ...tapes,
    values: parts.values,
    hits: tapes.hits.map((taken, i) => taken | parts.hits[i]!),
    differences: [...tapes.differences, ...parts.differences],
  }
}

/** A branch, to be looked up: `file:line:column kind/arm`. */
export function described({ file, line, column, kind, arm }: Branch): string {
  return `${file}:${line}:${column} ${kind}/${arm}`
}
