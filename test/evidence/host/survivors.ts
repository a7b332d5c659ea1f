/**
 * What survives of what was pending when a machine goes: subsets of its chunks.
 *
 * Few chunks are enumerated whole. Of more, a copy is what recovery tells apart (crash-model 2.4,
 * R1): old, new or torn. So every subset of the lines is taken, and of each line once a torn half,
 * with all other lines there and with none.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type CutChoice, pending } from '../../../boards/emulator/medium/power-cut.ts'

/** All, nothing, or the chunks whose bit is set in a mask over what is pending, in hexadecimal. */
export type Survivors = 'all' | 'none' | `0x${string}`

/** Up to so many chunks every subset is taken; above it, up to so many lines. */
const CHUNKS_WHOLE = 3
const LINES_WHOLE = 3

const LINE_BYTES = 64

/** Offsets of the chunks from `from` on that a cut may leave in more than one way. */
function chunksOf(part: Nvdimm, from: number): number[] {
  return pending(part).flatMap(({ at, versions }) => {
    const differ = versions.some((one) => Buffer.compare(one, versions[0]!) !== 0)
    return at >= from && differ ? [at] : []
  })
}

/**
 * Every choice for what is pending in the part now, nothing first; before `from` nothing of it
 * survives.
 */
export function survivorsOf(part: Nvdimm, from = 0): Survivors[] {
  const chunks = chunksOf(part, from)
  if (chunks.length === 0) return ['none']
  if (chunks.length <= CHUNKS_WHOLE) {
    return Array.from({ length: 2 ** chunks.length }, (_, mask) => nameOf(BigInt(mask), chunks))
  }
  const lines = [...new Set(chunks.map((at) => Math.floor(at / LINE_BYTES)))]
  const named = new Set<Survivors>()
  const add = (keep: (at: number) => boolean): void => {
    let mask = 0n
    chunks.forEach((at, i) => {
      if (keep(at)) mask |= 1n << BigInt(i)
    })
    named.add(nameOf(mask, chunks))
  }
  const lineOf = (at: number): number => lines.indexOf(Math.floor(at / LINE_BYTES))
  if (lines.length <= LINES_WHOLE) {
    for (let set = 0; set < 2 ** lines.length; set++) add((at) => ((set >> lineOf(at)) & 1) === 1)
  } else {
    add(() => false)
    add(() => true)
    lines.forEach((_, line) => {
      add((at) => lineOf(at) === line)
      add((at) => lineOf(at) !== line)
    })
  }
  const isFirstHalf = (at: number): boolean => at % LINE_BYTES < LINE_BYTES / 2
  lines.forEach((_, line) => {
    for (const others of [false, true]) {
      add((at) => (lineOf(at) === line ? isFirstHalf(at) : others))
    }
  })
  return [...named]
}

function nameOf(mask: bigint, chunks: readonly number[]): Survivors {
  if (mask === 0n) return 'none'
  return mask === 2n ** BigInt(chunks.length) - 1n ? 'all' : `0x${mask.toString(16)}`
}

/** The cut that leaves them. */
export function choiceOf(part: Nvdimm, survivors: Survivors, from = 0): CutChoice {
  const random = new Random(0)
  if (survivors === 'none' || survivors === 'all') return { random, strategy: survivors }
  const mask = BigInt(survivors)
  const ats = new Set(chunksOf(part, from).filter((_, i) => ((mask >> BigInt(i)) & 1n) === 1n))
  return { random, strategy: 'only-matching', matches: (at) => ats.has(at) }
}
