/**
 * How many images a cut may leave of one dual-slot write, by formula (crash-model 2.2): held
 * against the generator, and, wherever they can be visited, against the images themselves.
 *
 * Invariant: a slot is its data and a check of eight bytes, stored once over zeros, so that
 * every chunk changes. The formulas are worked out in integers, and know nothing of the generator.
 */

import { imageCount, images } from '../../../boards/emulator/medium/images.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import {
  type CutMode,
  collect,
  strictStates,
  unitsOf,
} from '../../../boards/emulator/medium/pieces.ts'
import { ReferencePart } from '../../support/crash/reference-enumerator.ts'

/** What was counted, and what there is to object to. */
export interface Verdict {
  readonly images: number
  readonly distinct: number
  readonly objections: readonly string[]
}

export interface Form {
  readonly mode: CutMode
  /** Bytes of data of a slot. */
  readonly bytes: number
}

export const FORMS: readonly Form[] = (['strict', 'line', 'prefix', 'chunk'] as const).flatMap(
  (mode) => [64, 256, 4096].map((bytes) => ({ mode, bytes })),
)

const CHECK_BYTES = 8
const CHUNK_BYTES = 8
const LINE_BYTES = 64

/** Images of more than these are counted, not visited. */
const VISITED_MAX = 2 ** 18

/** Images of one slot: all of its chunks pending. */
export function imagesOfSlot({ mode, bytes }: Form): bigint {
  const chunks = BigInt((bytes + CHECK_BYTES) / CHUNK_BYTES)
  const lines = BigInt(bytes / LINE_BYTES)
  switch (mode) {
    case 'strict':
      return chunks + 1n
    case 'line':
      return 2n ** (lines + 1n)
    case 'prefix':
      // Of a full line nothing, or one to eight chunks; of the check's line nothing, or the check.
      return 9n ** lines * 2n
    case 'chunk':
      return 2n ** chunks
  }
}

/** Images of two slots between which no fence stands. */
function imagesUnfenced(form: Form): bigint {
  const one = imagesOfSlot(form)
  // In one order over both, what is behind the first store of the second slot has the first whole.
  return form.mode === 'strict' ? 2n * one - 1n : one * one
}

const SECOND_AT = 8192
const PART_BYTES = 16384

function storeSlot(part: Nvdimm, reference: ReferencePart | null, at: number, bytes: number): void {
  const data = Uint8Array.from({ length: bytes }, (_, i) => 1 + (i % 255))
  const check = new Uint8Array(CHECK_BYTES).fill(0xc5)
  part.store(at, data, 0, bytes)
  part.store(at + bytes, check, 0, CHECK_BYTES)
  reference?.store(at, data)
  reference?.store(at + bytes, check)
}

/** How many images the generator will visit, in integers. */
function countOf(part: Nvdimm, mode: CutMode): bigint {
  const pieces = collect(part, [])
  if (mode === 'strict') return BigInt(strictStates(pieces).length)
  return unitsOf(part, pieces, mode).reduce((all, unit) => all * BigInt(unit.stateCount), 1n)
}

/** Every image, as one string each; `torn` is called for those that leave both slots torn. */
function visitAll(part: Nvdimm, { mode, bytes }: Form, found: Set<string>): number {
  const slot = bytes + CHECK_BYTES
  const whole = [0, SECOND_AT].map((at) => Buffer.from(part.live).toString('latin1', at, at + slot))
  const blank = '\0'.repeat(slot)
  let torn = 0
  images(part, mode, () => {
    const { buffer } = part.durable
    const [first, second] = [0, SECOND_AT].map((at) =>
      Buffer.from(buffer, at, slot).toString('latin1'),
    )
    found.add(first! + second!)
    const isTorn = (now: string, full: string): boolean => now !== full && now !== blank
    if (isTorn(first!, whole[0]!) && isTorn(second!, whole[1]!)) torn += 1
  })
  return torn
}

/** Is the float that the generator gives the integer, as far as a float can be? */
function closeTo(float: number, exact: bigint): boolean {
  const wanted = Number(exact)
  if (!Number.isFinite(wanted)) return float === wanted
  return Math.abs(float - wanted) <= wanted * 1e-12
}

/** Holds one form against the generator. */
export function holdForm(form: Form): Verdict {
  const { mode, bytes } = form
  const objections: string[] = []
  const object = (what: string, wanted: unknown, found: unknown): void => {
    if (wanted === found) return
    objections.push(`${mode}, ${bytes} bytes: ${what}: ${wanted} by the form, ${found} found`)
  }
  const one = imagesOfSlot(form)
  const part = new Nvdimm({ bytes: PART_BYTES })
  const reference = new ReferencePart(bytes + CHECK_BYTES)
  storeSlot(part, reference, 0, bytes)
  object('images of a slot', one, countOf(part, mode))
  object('images of a slot as a float', true, closeTo(imageCount(part, mode), one))
  object('images of a slot by the reference', one, reference.imageCount(mode))
  const seen = new Set<string>()
  let visited = 0
  const visit = (wanted: bigint): number => {
    if (wanted > VISITED_MAX) return 0
    visited += Number(wanted)
    return visitAll(part, form, seen)
  }
  visit(one)
  part.clean(0, bytes + CHECK_BYTES)
  part.fence()
  storeSlot(part, null, SECOND_AT, bytes)
  object('images of the second slot behind a fence', one, countOf(part, mode))
  visit(one)
  const fenced = 2n * one - 1n
  if (one <= VISITED_MAX) object('different images with a fence', fenced, BigInt(seen.size))
  const distinct = seen.size
  seen.clear()
  const loose = new Nvdimm({ bytes: PART_BYTES })
  storeSlot(loose, null, 0, bytes)
  storeSlot(loose, null, SECOND_AT, bytes)
  const unfenced = imagesUnfenced(form)
  object('images without a fence', unfenced, countOf(loose, mode))
  if (unfenced <= VISITED_MAX) {
    const torn = visitAll(loose, form, seen)
    visited += Number(unfenced)
    object('different images without a fence', unfenced, BigInt(seen.size))
    const bothTorn = mode === 'strict' ? 0n : (one - 2n) * (one - 2n)
    object('images with both slots torn', bothTorn, BigInt(torn))
  }
  return { images: visited, distinct: distinct + seen.size, objections }
}
