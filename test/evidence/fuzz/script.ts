/**
 * What was done to a world, step by step, as text of one line: what a violation is played again
 * from.
 *
 * Invariant: a script says everything that does not follow from the world's seed.
 */

import { deflateRawSync, inflateRawSync } from 'node:zlib'

/** One step. */
export type Step =
  /** A frame is put into the burst. */
  | { readonly kind: 'frame'; readonly bytes: Uint8Array }
  /** The burst is served. */
  | { readonly kind: 'serve' }
  /** So many µs go by. */
  | { readonly kind: 'pass'; readonly us: number }
  /** Something happens to the medium. */
  | { readonly kind: 'medium'; readonly what: string; readonly value: number }
  /** The good client puts its next record into the burst. */
  | { readonly kind: 'good' }
  /** A cut is played at the next acknowledgement of durability. */
  | { readonly kind: 'arm' }
  /** Connections, by their places, are made again. */
  | { readonly kind: 'connect'; readonly pairs: readonly number[] }
  /** The card comes to rest, and what the good client knows is looked at. */
  | { readonly kind: 'rest' }

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')
const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64url'))

function stepText(step: Step): string {
  switch (step.kind) {
    case 'frame':
      return `f ${base64(step.bytes)}`
    case 'serve':
      return 's'
    case 'pass':
      return `p ${step.us}`
    case 'medium':
      return `m ${step.what} ${step.value}`
    case 'good':
      return 'g'
    case 'arm':
      return 'a'
    case 'connect':
      return `c ${step.pairs.join(',')}`
    case 'rest':
      return 'r'
  }
}

function stepOf(text: string): Step {
  const [kind, one = '', two = ''] = text.split(' ')
  switch (kind) {
    case 'f':
      return { kind: 'frame', bytes: bytesOf(one) }
    case 's':
      return { kind: 'serve' }
    case 'p':
      return { kind: 'pass', us: Number(one) }
    case 'm':
      return { kind: 'medium', what: one, value: Number(two) }
    case 'g':
      return { kind: 'good' }
    case 'a':
      return { kind: 'arm' }
    case 'c':
      return { kind: 'connect', pairs: one.split(',').map(Number) }
    case 'r':
      return { kind: 'rest' }
    default:
      throw new Error(`no step is called ${kind}`)
  }
}

/** The steps as one word. */
export function scriptText(steps: readonly Step[]): string {
  return base64(deflateRawSync(steps.map(stepText).join('\n'), { level: 9 }))
}

export function scriptOf(text: string): Step[] {
  const lines = inflateRawSync(Buffer.from(text, 'base64url')).toString('latin1')
  return lines === '' ? [] : lines.split('\n').map(stepOf)
}

/** Steps of the shortest ending that is tried alone. */
const ENDING = 64

/**
 * The shortest list that delta debugging finds in which `fails` still holds, while no more than so
 * many elements are tried in all (Zeller and Hildebrandt 2002).
 */
export function shrunk<T>(
  all: readonly T[],
  fails: (some: readonly T[]) => boolean,
  triedMax = 600_000,
): readonly T[] {
  let left = all
  let tried = 0
  // What came long before matters seldom, and most of a long script is that.
  for (let size = ENDING; size < all.length; size *= 2) {
    const ending = all.slice(-size)
    tried += size
    if (!fails(ending)) continue
    left = ending
    break
  }
  for (let size = Math.ceil(left.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < left.length && tried < triedMax; ) {
      const rest = [...left.slice(0, at), ...left.slice(at + size)]
      tried += rest.length
      if (fails(rest)) left = rest
      else at += size
    }
  }
  return left
}
