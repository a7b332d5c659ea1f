/**
 * `npm run evidence`: the promises of this product, attacked in every way that the plan knows.
 *
 * The table goes to stdout, or the same as JSON with `--json`; both, and a page to look at, go to
 * the folder of `--out`, as does the timeline of a violation that is played again. Exit codes: 0
 * all is well, 1 a violation that is of no open kind (open.ts), 2 a wrong command line, 3 no such
 * violation, but a floor was not reached.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { pageOf } from '../../host-driver/command/timeline/page.ts'
import { pageOf as evidencePageOf } from './page.ts'
import { type Outcome, playStages } from './pool.ts'
import { exitCodeOf, reportOf, tableOf, VIOLATED } from './report.ts'
import type { Size, Stage } from './stage.ts'
import { STAGES, stageOf } from './stages.ts'
import { serveJobs } from './worker.ts'

const USAGE = 2

interface Options {
  readonly nightly?: boolean
  readonly minutes?: number
  readonly cut?: boolean
  readonly stage?: readonly string[]
  readonly shard?: string
  readonly seed?: number
  readonly workers: number
  readonly out: string
  readonly json?: boolean
  readonly replay?: string
}

function whole(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 0) throw new InvalidArgumentError('a whole number')
  return value
}

function workersOf(text: string): number {
  const value = whole(text)
  if (value < 1 || value > 256) throw new InvalidArgumentError('from 1 to 256')
  return value
}

function stagesOf(text: string): string[] {
  const names = text.split(',')
  for (const name of names) {
    if (STAGES.some((stage) => stage.name === name)) continue
    const known = STAGES.map((stage) => stage.name).join(', ')
    throw new InvalidArgumentError(`no stage is called ${name}: ${known}`)
  }
  return names
}

function commandLine(): Command {
  return new Command('npm run evidence --')
    .description('attacks every promise, and says what was tried')
    .argument('[argument]', 'with --replay: what a violation said behind the name of its stage')
    .option('--nightly', 'days instead of minutes: all there is')
    .option(
      '--minutes <count>',
      'of these, as many drawn shards as fit; floors are not asked',
      whole,
    )
    .option('--cut', 'the minutes of it that the gate plays')
    .option('--stage <names>', 'only these stages, separated by commas', stagesOf)
    .option('--shard <text>', 'only shards whose name contains this')
    .option('--seed <number>', 'plays a run again; without it the seed is fresh', whole)
    .option('--workers <count>', 'threads side by side', workersOf, availableParallelism())
    .option('--out <folder>', 'where evidence.json and evidence.html go', 'perdure-evidence')
    .option('--json', 'the report as JSON on stdout, and not the table')
    .option('--replay <stage>', 'plays one violation again and tells its story')
    .exitOverride()
    .showHelpAfterError()
}

/** Says how far the run is: on a terminal in one line, elsewhere in one for each stage's end. */
function progressOn(stream: NodeJS.WriteStream): (share: number, now: readonly Outcome[]) => void {
  if (!stream.isTTY) return endsOn(stream)
  return (share, outcomes) => {
    const states = outcomes.map(({ stage, ended, shards, tally }) => {
      const wrong = tally.violations > 0 ? ` (${tally.violations} violations)` : ''
      return `${stage.name} ${ended}/${shards}${wrong}`
    })
    const line = `${(100 * share).toFixed(1)} %  ${states.join('  ')}`
    stream.write(`\r\x1b[K${line.slice(0, (stream.columns ?? 80) - 1)}`)
  }
}

/** A run that is stopped from outside has said where it was, and what it had found. */
function endsOn(stream: NodeJS.WriteStream): (share: number, now: readonly Outcome[]) => void {
  const begun = performance.now()
  const told = new Set<Stage>()
  const objections = new Map<Stage, number>()
  return (_, outcomes) => {
    for (const { stage, ended, shards, tally } of outcomes) {
      for (const { shard, what } of tally.described.slice(objections.get(stage) ?? 0)) {
        stream.write(`evidence: VIOLATION ${stage.name}, ${shard}: ${what}\n`)
      }
      objections.set(stage, tally.described.length)
      if (ended < shards || told.has(stage)) continue
      told.add(stage)
      const seconds = Math.round((performance.now() - begun) / 1000)
      stream.write(`evidence: ${stage.name} ended, ${seconds} s, ${tally.violations} violations\n`)
    }
  }
}

async function replay(options: Options, argument: string | undefined): Promise<number> {
  const { replay: name = '', out } = options
  if (argument === undefined || !STAGES.some((stage) => stage.name === name)) {
    process.stderr.write('--replay takes a stage and the argument that its violation named\n')
    return USAGE
  }
  const { violated, text, timeline } = await stageOf(name).replay(argument)
  process.stdout.write(`${text}\n`)
  if (timeline !== undefined) writePage(out, 'replay.html', pageOf(timeline))
  return violated ? VIOLATED : 0
}

function writePage(folder: string, name: string, page: string): void {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, name)
  writeFileSync(path, page)
  process.stderr.write(`evidence: to look at: ${path}\n`)
}

/** What is played: every stage, or those asked for, and of them every shard or some. */
function planOf(options: Options, size: Size, seed: number) {
  const names = options.stage
  const stages = STAGES.filter(({ name }) => names === undefined || names.includes(name))
  return stages.map((stage: Stage) => {
    const shards = stage.shards(size, seed)
    return { stage, shards: shards.filter(({ name }) => name.includes(options.shard ?? '')) }
  })
}

async function evidence(options: Options): Promise<number> {
  const size = options.nightly ? 'nightly' : options.cut ? 'cut' : 'ci'
  const seed = options.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!
  process.stderr.write(`evidence: ${size}, seed ${seed}, ${options.workers} workers\n`)
  const begun = performance.now()
  const moved = progressOn(process.stderr)
  const plan = planOf(options, size, seed)
  const program = new URL(import.meta.url)
  const { minutes, workers } = options
  const limit = minutes === undefined ? {} : { limit: { minutes, seed } }
  const outcomes = await playStages(plan, { workers, program, moved, ...limit })
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
  const seconds = (performance.now() - begun) / 1000
  const run = { size, seed, workers: options.workers, seconds } as const
  const report = reportOf(outcomes, run, options.shard === undefined)
  mkdirSync(options.out, { recursive: true })
  writeFileSync(join(options.out, 'evidence.json'), `${JSON.stringify(report, null, 2)}\n`)
  process.stdout.write(`${options.json ? JSON.stringify(report, null, 2) : tableOf(report)}\n`)
  writePage(options.out, 'evidence.html', evidencePageOf(report, outcomes))
  return exitCodeOf(report)
}

async function main(): Promise<number> {
  const command = commandLine()
  try {
    command.parse()
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? 0 : USAGE
  }
  const options = command.opts<Options>()
  if (options.replay !== undefined) return replay(options, command.args[0])
  return evidence(options)
}

if (isMainThread) process.exitCode = await main()
else serveJobs()
