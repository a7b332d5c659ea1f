/**
 * C1b: the image generator, on which all crash evidence stands, held against what does not share a
 * line with it: closed forms, and a reference that lists images by recursion.
 *
 * Invariant: the short programs are all of them; the drawn ones come from the seed.
 */

import type { Replayed, Shard, Size, Stage, Tally, Violation } from '../stage.ts'
import { FORMS, type Form, holdForm, imagesOfSlot, type Verdict } from './closed-forms.ts'
import {
  ALPHABET,
  drawnProgram,
  holdProgram,
  programIn,
  programOf,
  type Step,
  scriptOf,
} from './programs.ts'

/** The longest programs that are all played, and how many are drawn. */
const AMOUNTS: Readonly<Record<Size, { readonly length: number; readonly drawn: number }>> = {
  cut: { length: 3, drawn: 200 },
  ci: { length: 4, drawn: 4000 },
  nightly: { length: 5, drawn: 200_000 },
}

/** Programs that one shard draws. */
const DRAWN_EACH = 4000

function shards(size: Size, seed: number): Shard[] {
  const { length, drawn } = AMOUNTS[size]
  const forms = { name: 'closed forms', seed, seconds: 3, options: { kind: 'forms' } }
  const short = Array.from({ length }, (_, i) => {
    const options = { kind: 'short', length: i + 1 }
    return { name: `programs of ${i + 1}`, seed, seconds: 8 ** (i + 1) / 3000, options }
  })
  const parts = Math.ceil(drawn / DRAWN_EACH)
  const long = Array.from({ length: parts }, (_, i) => {
    const options = { kind: 'drawn', drawn: Math.min(drawn, DRAWN_EACH), first: i * DRAWN_EACH }
    return { name: `drawn programs ${i}`, seed, seconds: 15, options }
  })
  return [forms, ...short, ...long]
}

/** Verdicts, added up as they come. */
class Sum {
  private readonly shard: Shard
  private count = 0
  private distinct = 0
  private violations = 0
  private readonly described: Violation[] = []
  readonly more: Record<string, number> = {}
  readonly cells: Record<string, number> = {}

  constructor(shard: Shard) {
    this.shard = shard
  }

  add(verdict: Verdict, replay: string): void {
    this.count += verdict.images
    this.distinct += verdict.distinct
    for (const what of verdict.objections) {
      this.violations += 1
      if (this.described.length < 3) this.described.push({ shard: this.shard.name, what, replay })
    }
  }

  tally(seeds: number): Tally {
    const { count, distinct, violations, described, more, cells } = this
    return { count, distinct, seeds, violations, described, more, cells, pictures: [] }
  }
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const { kind } = shard.options
  const sum = new Sum(shard)
  if (kind === 'forms') {
    FORMS.forEach((form, i) => {
      progress(i / FORMS.length)
      sum.add(holdForm(form), `form ${form.mode} ${form.bytes}`)
      sum.cells[`${form.mode} ${form.bytes} B`] = 1
    })
    return sum.tally(0)
  }
  const length = Number(shard.options.length)
  const programs = kind === 'short' ? ALPHABET.length ** length : Number(shard.options.drawn)
  const first = Number(shard.options.first)
  for (let i = 0; i < programs; i++) {
    if (i % 64 === 0) progress(i / programs)
    const program = kind === 'short' ? programOf(i, length) : drawnProgram(shard.seed + first + i)
    sum.add(holdProgram(program), scriptOf(program))
  }
  sum.more.programs = programs
  return sum.tally(kind === 'short' ? 0 : programs)
}

function lacks({ cells }: Tally): string[] {
  const names = FORMS.map(({ mode, bytes }) => `${mode} ${bytes} B`)
  return names.filter((name) => cells[name] === undefined).map((name) => `${name}: not held`)
}

function formIn(script: string): Form | null {
  const [word, mode, bytes] = script.split(' ')
  if (word !== 'form') return null
  return FORMS.find((form) => form.mode === mode && form.bytes === Number(bytes)) ?? null
}

async function replay(script: string): Promise<Replayed> {
  const form = formIn(script)
  const program: Step[] = form === null ? programIn(script) : []
  const verdict = form === null ? holdProgram(program) : holdForm(form)
  const told =
    form === null
      ? program.map((step) => scriptOf([step]))
      : [`a slot of ${form.bytes} bytes has ${imagesOfSlot(form)} images in mode ${form.mode}`]
  const compared = `${verdict.images} images compared`
  const said = verdict.objections.length === 0 ? ['Nothing to object to.'] : verdict.objections
  return { violated: verdict.objections.length > 0, text: [...told, compared, ...said].join('\n') }
}

export const IMAGES: Stage = {
  name: 'images',
  id: 'C1b',
  title: 'the image generator, against closed forms and a reference',
  unit: 'images',
  floors: {
    cut: [
      { of: 'count', least: 300_000 },
      { of: 'programs', least: 500 },
    ],
    ci: [
      { of: 'count', least: 2_000_000 },
      { of: 'programs', least: 8_000 },
    ],
    nightly: [
      { of: 'count', least: 40_000_000 },
      { of: 'programs', least: 230_000 },
    ],
  },
  shards,
  play,
  lacks,
  replay,
}
