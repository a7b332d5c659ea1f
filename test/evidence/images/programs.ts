/**
 * Programs of stores, write-backs and fences, run on the emulated part and on the reference, whose
 * images are then compared: every short program over a small alphabet, and longer ones by a seed.
 *
 * Invariant: the reference (reference-enumerator.ts) has no line in common with the part. A
 * program is compared in every mode: the images, that none is visited twice, that they are as many
 * as was said before, and that afterwards the part is as it was.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { imageCount, images } from '../../../boards/emulator/medium/images.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CUT_MODES, type CutMode } from '../../../boards/emulator/medium/pieces.ts'
import { ReferencePart } from '../../support/crash/reference-enumerator.ts'
import type { Verdict } from './closed-forms.ts'

/** One step: `s AT LENGTH VALUE`, `c AT LENGTH`, `f`. */
export type Step =
  | { readonly kind: 'store'; readonly at: number; readonly length: number; readonly value: number }
  | { readonly kind: 'clean'; readonly at: number; readonly length: number }
  | { readonly kind: 'fence' }

/** Bytes that programs touch: two lines. */
const BYTES = 128
const PART_BYTES = 4096

/** Where the reference would build more images than these, both count, and neither visits. */
const BUILT_MAX = 4096

/**
 * What the exhaustive programs are made of: a chunk, the chunks on both sides of the border of two
 * lines, a store that covers two chunks by half, a whole line, the zeros that stand there anyway;
 * the write-back of either line; a fence.
 */
export const ALPHABET: readonly Step[] = [
  { kind: 'store', at: 0, length: 8, value: 1 },
  { kind: 'store', at: 56, length: 16, value: 2 },
  { kind: 'store', at: 4, length: 8, value: 3 },
  { kind: 'store', at: 64, length: 64, value: 4 },
  { kind: 'store', at: 0, length: 8, value: 0 },
  { kind: 'clean', at: 0, length: 64 },
  { kind: 'clean', at: 64, length: 1 },
  { kind: 'fence' },
]

/** The program of that number among those of that length: its digits are the steps. */
export function programOf(number: number, length: number): Step[] {
  const steps: Step[] = []
  for (let rest = number; steps.length < length; rest = Math.floor(rest / ALPHABET.length)) {
    steps.push(ALPHABET[rest % ALPHABET.length]!)
  }
  return steps
}

export function drawnProgram(seed: number): Step[] {
  const random = new Random(seed)
  const count = 4 + random.below(12)
  return Array.from({ length: count }, (): Step => {
    const kind = random.below(8)
    if (kind === 0) return { kind: 'fence' }
    const length = 1 + random.below(random.chance(0.1) ? 80 : 20)
    const at = random.below(BYTES - length)
    if (kind <= 3) return { kind: 'clean', at, length }
    return { kind: 'store', at, length, value: random.below(4) }
  })
}

export function scriptOf(program: readonly Step[]): string {
  const words = program.map((step) => {
    if (step.kind === 'fence') return 'f'
    if (step.kind === 'clean') return `c ${step.at} ${step.length}`
    return `s ${step.at} ${step.length} ${step.value}`
  })
  return words.join('; ')
}

export function programIn(script: string): Step[] {
  return script.split('; ').map((words): Step => {
    const [kind, at, length, value] = words.split(' ')
    if (kind === 'f') return { kind: 'fence' }
    const range = { at: Number(at), length: Number(length) }
    if (kind === 'c') return { kind: 'clean', ...range }
    return { kind: 'store', ...range, value: Number(value) }
  })
}

/** The bytes of a store: 0 is zeros; of others no two chunks are the same. */
function bytesOf(length: number, value: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (value === 0 ? 0 : 1 + ((50 * value + i) % 255)))
}

function run(program: readonly Step[], part: Nvdimm): void {
  for (const step of program) {
    if (step.kind === 'fence') part.fence()
    else if (step.kind === 'clean') part.clean(step.at, step.length)
    else part.store(step.at, bytesOf(step.length, step.value), 0, step.length)
  }
}

function runReference(program: readonly Step[], reference: ReferencePart): void {
  for (const step of program) {
    if (step.kind === 'fence') reference.fence()
    else if (step.kind === 'clean') reference.clean(step.at, step.length)
    else reference.store(step.at, bytesOf(step.length, step.value))
  }
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, BYTES).toString('hex')
}

/** What there is to object to in one mode, and how many images were compared. */
function compareIn(mode: CutMode, part: Nvdimm, reference: ReferencePart): [string | null, number] {
  const said = imageCount(part, mode)
  const wanted = reference.imageCount(mode)
  if (said !== Number(wanted)) return [`${said} images said, ${wanted} by the reference`, 0]
  if (reference.buildCount(mode) > BUILT_MAX) return [null, 0]
  const found = new Set<string>()
  const visited = images(part, mode, () => found.add(hexOf(part.durable)))
  if (visited !== found.size) return [`${visited} visited, ${found.size} differ`, visited]
  const all = reference.images(mode)
  const missing = [...all].some((image) => !found.has(image))
  if (missing || all.size !== found.size) return ['other images than by the reference', visited]
  return [null, visited]
}

/**
 * Runs a program on both, and compares them in every mode. Another one for the reference shows that
 * a difference is noticed.
 */
export function holdProgram(
  program: readonly Step[],
  ofReference: readonly Step[] = program,
): Verdict {
  const part = new Nvdimm({ bytes: PART_BYTES })
  const reference = new ReferencePart(BYTES)
  run(program, part)
  runReference(ofReference, reference)
  const before = [hexOf(part.live), hexOf(part.durable)]
  const objections: string[] = []
  if (before[1] !== hexOf(reference.durable)) objections.push('other bytes are durable')
  let compared = 0
  for (const mode of CUT_MODES) {
    const [objection, visited] = compareIn(mode, part, reference)
    compared += visited
    if (objection !== null) objections.push(`${mode}: ${objection}`)
  }
  const after = [hexOf(part.live), hexOf(part.durable)]
  if (before.join() !== after.join()) objections.push('the part is not as it was before')
  return { images: compared, distinct: compared, objections }
}
