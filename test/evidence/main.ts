/**
 * `npm run evidence`: the promises of this product, attacked in every way that the plan knows.
 *
 * The table goes to stdout, or the same as JSON with `--json`; both, and a page to look at, go to
 * the folder of `--out`. Exit codes: 0 all is well, 1 a violation, 2 a wrong command line, 3 no
 * violation, but a floor was not reached.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { pageOf } from './page.ts'
import { type Outcome, playStages } from './pool.ts'
import { type Report, reportOf, tableOf } from './report.ts'
import type { Size, Stage } from './stage.ts'
import { STAGES, stageOf } from './stages.ts'
import { serveJobs } from './worker.ts'

const VIOLATED = 1
const USAGE = 2
const NOT_REACHED = 3

interface Options {
  readonly nightly?: boolean
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
    .option('--nightly', 'hours instead of minutes')
    .option('--cut', 'the two minutes that are inside npm test')
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

/** Says how far the run is, on a terminal only. */
function progressOn(stream: NodeJS.WriteStream): (share: number, now: readonly Outcome[]) => void {
  if (!stream.isTTY) return () => {}
  return (share, outcomes) => {
    const states = outcomes.map(({ stage, ended, shards, tally }) => {
      const wrong = tally.violations > 0 ? ` (${tally.violations} violations)` : ''
      return `${stage.name} ${ended}/${shards}${wrong}`
    })
    const line = `${(100 * share).toFixed(1)} %  ${states.join('  ')}`
    stream.write(`\r\x1b[K${line.slice(0, (stream.columns ?? 80) - 1)}`)
  }
}

async function replay(name: string, argument: string | undefined): Promise<number> {
  if (argument === undefined || !STAGES.some((stage) => stage.name === name)) {
    process.stderr.write('--replay takes a stage and the argument that its violation named\n')
    return USAGE
  }
  const { violated, text } = await stageOf(name).replay(argument)
  process.stdout.write(`${text}\n`)
  return violated ? VIOLATED : 0
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

function exitCodeOf({ violations, stages }: Report): number {
  if (violations > 0) return VIOLATED
  return stages.some(({ lacks }) => lacks.length > 0) ? NOT_REACHED : 0
}

async function evidence(options: Options): Promise<number> {
  const size = options.nightly ? 'nightly' : options.cut ? 'cut' : 'ci'
  const seed = options.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!
  process.stderr.write(`evidence: ${size}, seed ${seed}, ${options.workers} workers\n`)
  const begun = performance.now()
  const moved = progressOn(process.stderr)
  const plan = planOf(options, size, seed)
  const program = new URL(import.meta.url)
  const outcomes = await playStages(plan, { workers: options.workers, program, moved })
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
  const seconds = (performance.now() - begun) / 1000
  const run = { size, seed, workers: options.workers, seconds } as const
  const report = reportOf(outcomes, run, options.shard === undefined)
  mkdirSync(options.out, { recursive: true })
  writeFileSync(join(options.out, 'evidence.json'), `${JSON.stringify(report, null, 2)}\n`)
  const page = join(options.out, 'evidence.html')
  writeFileSync(page, pageOf(report, outcomes))
  process.stdout.write(`${options.json ? JSON.stringify(report, null, 2) : tableOf(report)}\n`)
  process.stderr.write(`evidence: to look at: ${page}\n`)
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
  if (options.replay !== undefined) return replay(options.replay, command.args[0])
  return evidence(options)
}

if (isMainThread) process.exitCode = await main()
else serveJobs()
