/**
 * `perdure timeline TRACE`: one page to look at, of what a card did and of what a power cut at any
 * place of it leaves.
 *
 * Invariant: the page is one file, and names nothing outside itself.
 */

import { basename } from 'node:path'
import type { Command } from 'commander'
import { wholeNumber } from '../base/arguments.ts'
import { intoFile, writeAll } from '../base/into-file.ts'
import { Output } from '../base/output.ts'
import { pageOf } from './page.ts'
import { readTrace } from './read-trace.ts'
import { storyOf } from './story.ts'

/** Images of each place that are shown. */
const IMAGES = 16
const IMAGES_MIN = 2
const IMAGES_MAX = 256

/** Stores and fences of which the page says what a cut leaves, at most. */
const STEPS = 2000

interface Options {
  readonly output: string
  readonly images: number
  readonly steps: number
  readonly part?: string
  readonly json?: boolean
}

export function addTimeline(program: Command): void {
  program
    .command('timeline')
    .description('make a page of a trace: what was stored when, and what a power cut leaves there')
    .argument(
      '<trace>',
      "a trace: of 'perdure demo', of 'perdure emulate --timeline', or perdured's",
    )
    .option('-o, --output <file>', 'the page', 'timeline.html')
    .option(
      '--images <count>',
      'images of each place that are shown, of those that a cut may leave; 2 to 256',
      wholeNumber(IMAGES_MIN, IMAGES_MAX),
      IMAGES,
    )
    .option(
      '--steps <count>',
      'stores and fences, around the power cut, that say what one there leaves',
      wholeNumber(1),
      STEPS,
    )
    .option('--part <file>', "what the part holds, where perdured's trace names none that is here")
    .option('--json', 'as one JSON object')
    .action(async (trace: string, options: Options) => {
      await timeline(trace, options)
    })
}

async function timeline(trace: string, options: Options): Promise<void> {
  const { output: path, images, steps, part, json } = options
  const output = new Output(json === true)
  const made = await makePage(trace, path, { images, steps, part })
  if (output.json) output.printJson({ trace, page: path, ...made })
  else output.print(path)
}

/** What a page has. */
interface Made {
  readonly steps: number
  readonly records: number
  /** Images that were given to recovery. */
  readonly boots: number
}

/** Makes the page of that trace. */
export async function makePage(
  trace: string,
  path: string,
  { images, steps, part }: Pick<Options, 'images' | 'steps' | 'part'>,
): Promise<Made> {
  const file = readTrace(trace, part)
  const { timeline, boots } = storyOf(file, { title: basename(trace), images, steps })
  await intoFile(path, (to) => writeAll(to, Buffer.from(pageOf(timeline))))
  return { steps: timeline.steps.length, records: timeline.records.length, boots }
}
