/**
 * Profiles of a translated program (`aot/translate/program/profile.h`), as text: several made one,
 * and one held against a translation.
 *
 * Invariant: a function is one line, and the order of what is merged changes nothing.
 */

import { Trouble } from '../tools/debian/programs.ts'

/** As in `aot/seen.h`: it did not go its plain way; and a slot, which is no set of bits. */
const SEEN_ASIDE = 32
const SEEN_SLOT = 0x10000

const LINE = /^(\S+ [0-9a-f]+ [0-9a-f]+)((?: [0-9a-f]+:[0-9a-f]+)*)$/

/** What was seen of a function: masks by the offset of the operation. */
type Seen = Map<number, number[]>

/** By `NAME HASH BYTES`. Throws a Trouble at a line that is none of a profile. */
function functionsOf(texts: readonly string[]): Map<string, Seen> {
  const functions = new Map<string, Seen>()
  const lines = texts.flatMap((text) => text.split('\n'))
  for (const line of lines.filter((one) => one !== '' && !one.startsWith('#'))) {
    const found = LINE.exec(line)
    if (found === null) throw new Trouble(`no profile: ${line.slice(0, 60)}`)
    const [, name, notes] = found
    const seen = functions.get(name!) ?? new Map<number, number[]>()
    functions.set(name!, seen)
    for (const note of notes!.split(' ').slice(1)) {
      const [offset, mask] = note.split(':').map((digits) => Number.parseInt(digits, 16))
      seen.set(offset!, [...(seen.get(offset!) ?? []), mask!])
    }
  }
  return functions
}

/** A property that was not always in one slot was in none, and aside. */
function merged(masks: readonly number[]): number {
  const low = masks.reduce((all, mask) => all | (mask % SEEN_SLOT), 0)
  const slots = new Set(masks.map((mask) => Math.floor(mask / SEEN_SLOT)).filter(Boolean))
  if (slots.size > 1) return low | SEEN_ASIDE
  const [slot = 0] = slots
  return slot * SEEN_SLOT + low
}

/**
 * All that was seen, sorted by function and offset, without comments. Throws a Trouble where a text
 * is no profile.
 */
export function mergeProfiles(texts: readonly string[]): string {
  const lines = [...functionsOf(texts)].map(([name, seen]) => {
    const offsets = [...seen].sort(([a], [b]) => a - b)
    const notes = offsets.map(([at, masks]) => ` ${at.toString(16)}:${merged(masks).toString(16)}`)
    return `${name}${notes.join('')}\n`
  })
  return lines.sort().join('')
}

/**
 * Which functions of a profile are in a program no more, as `NAME HASH BYTES`, of how many.
 * `translated` is the program's C, which names each function so, in a comment before it. Throws a
 * Trouble where the text is no profile.
 */
export function lostFunctions(
  profile: string,
  translated: string,
): { readonly lost: readonly string[]; readonly count: number } {
  const names = [...functionsOf([profile]).keys()]
  const there = new Set(
    [...translated.matchAll(/^\/\* (\S+ [0-9a-f]+ [0-9a-f]+) \*\/$/gm)].map(([, name]) => name),
  )
  return { lost: names.filter((name) => !there.has(name)), count: names.length }
}
