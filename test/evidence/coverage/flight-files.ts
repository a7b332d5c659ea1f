/** What a process that records leaves in a folder, and the one that reads it finds there. */

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { decode, encode, type Recorded } from './flight-tape.ts'

/** A byte for each branch: not 0 if a tape of the folder takes it. */
const KNOWN = 'known'
const HITS = '.hits'
const TAPE = '.tape'

interface Flight {
  /** Name of the test file. */
  readonly name: string
  readonly inside: Uint8Array
  readonly outside: Uint8Array
  readonly tapes: readonly Recorded[]
}

/** Branches that tapes of the folder take already. */
export function knownIn(folder: string, branches: number): Uint8Array {
  const path = join(folder, KNOWN)
  if (!existsSync(path)) return new Uint8Array(branches)
  return Uint8Array.from(readFileSync(path), (taken) => (taken > 0 ? 2 : 0))
}

/** A path that is free. What an earlier run has left stays: what its tapes take is known. */
function next(folder: string, name: string, end: string): string {
  for (let number = 0; ; number++) {
    const path = join(folder, `${name}-${number}${end}`)
    if (!existsSync(path)) return path
  }
}

/** Tapes first: what is known has to be there. */
export function leave(folder: string, { name, inside, outside, tapes }: Flight): void {
  mkdirSync(folder, { recursive: true })
  for (const tape of tapes) writeFileSync(next(folder, name, TAPE), encode(tape))
  const hits = outside.map((taken, i) => (taken === 1 || inside[i] === 1 ? 1 : 0))
  writeFileSync(next(folder, name, HITS), hits)
  const known = knownIn(folder, inside.length)
  writeFileSync(
    join(folder, KNOWN),
    known.map((taken, i) => Math.max(taken, inside[i]!)),
  )
}

function namesIn(folder: string, end: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(end))
    .sort()
}

/** Branches that Node took, in calls of boards or in tests of parts. */
export function hitsIn(folder: string, branches: number): Uint8Array {
  const all = new Uint8Array(branches)
  for (const name of namesIn(folder, HITS)) {
    readFileSync(join(folder, name)).forEach((taken, i) => {
      all[i]! |= taken
    })
  }
  return all
}

/** The tapes, one at a time. */
export function* tapesIn(folder: string): Generator<{ name: string; tape: Recorded }> {
  for (const name of namesIn(folder, TAPE)) {
    yield { name, tape: decode(readFileSync(join(folder, name))) }
  }
}
