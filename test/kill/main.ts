/**
 * `npm run kill`: a board under load, killed at random instants, again and again; afterwards every
 * record that was acknowledged is there, and whole.
 *
 * The table goes to stdout, or the same as JSON with `--json`; progress to stderr. Exit codes: 0
 * nothing is missing and nothing torn (with `--drop-flush`: losses were found), 1 otherwise, 2 a
 * wrong command line, 3 the board cannot run here.
 */

import { randomInt } from 'node:crypto'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { KINDS, kindOf } from '../support/board/kinds.ts'
import { killBoard, type Tally } from './kills.ts'

const LOST = 1
const USAGE = 2
const NOT_HERE = 3

/** Kills unless it is said: as many as each board must survive. */
const KILLS: Readonly<Record<string, number>> = { emulator: 100, linux: 1000, 'qemu-virt': 20 }

interface Options {
  readonly board: string
  readonly kills?: number
  readonly seed?: number
  readonly dropFlush?: boolean
  readonly json?: boolean
}

function whole(text: string): number {
  const value = Number(text)
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('a whole number below 10^9')
  return value
}

function many(text: string): number {
  const value = whole(text)
  if (value === 0) throw new InvalidArgumentError('1 or more')
  return value
}

function commandLine(): Command {
  const names = KINDS.map(({ name }) => name)
  return new Command('npm run kill --')
    .description('kills a board under load, and looks for records that are missing or torn')
    .addOption(new Option('--board <name>', 'which board').choices(names).default('linux'))
    .option('--kills <count>', 'how often; 1000 of linux, 20 of qemu-virt, 100 of emulator', many)
    .option('--seed <number>', 'draws the same load and the same instants again', whole)
    .option('--drop-flush', 'a runtime that leaves one write-back out: losses must be found')
    .option('--json', 'the result as JSON on stdout, and not the table')
    .exitOverride()
    .showHelpAfterError()
}

/** Records of which a promise was broken. */
function lossesOf({ missing, torn, fewer }: Tally): number {
  return missing + torn + fewer
}

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

/** Tells how far it is, at most every two seconds. */
function progressOf(kills: number): (tally: Tally) => void {
  let saidMs = performance.now()
  return (tally) => {
    if (performance.now() - saidMs < 2000) return
    saidMs = performance.now()
    const { acknowledged } = tally
    say(`${tally.kills} of ${kills} kills, ${acknowledged} acknowledged, ${lossesOf(tally)} lost`)
  }
}

function tableOf(title: string, seed: number, seconds: number, tally: Tally): string {
  const rows: [string, number | string][] = [
    ['board', title],
    ['seed', seed],
    ['kills', tally.kills],
    ['  while it started', tally.killsInStart],
    ['records acknowledged', tally.acknowledged],
    ['records under way at a kill', tally.unanswered],
    ['  of these between two versions on the part', tally.underWay],
    ['  copies torn on the part', tally.tornCopies],
    ['lanes found in use', tally.lanes],
    ['records that recovery made whole', tally.repaired],
    ['records read back', tally.read],
    ['acknowledged and missing', tally.missing],
    ['acknowledged, in fewer copies than said', tally.fewer],
    ['torn', tally.torn],
    ['time', `${seconds.toFixed(1)} s`],
  ]
  const text = (value: number | string): string =>
    typeof value === 'number' ? value.toLocaleString('en') : value
  return rows.map(([name, value]) => `${name.padEnd(44)}${text(value)}\n`).join('')
}

async function main(): Promise<number> {
  const { board, seed = randomInt(2 ** 31), ...options } = commandLine().parse().opts<Options>()
  const { dropFlush = false, json = false } = options
  const kind = kindOf(board)
  const missing = kind.missing({ dropFlush })
  if (missing !== null) {
    say(`${kind.name} cannot run here: ${missing}`)
    return NOT_HERE
  }
  const kills = options.kills ?? KILLS[kind.name]!
  say(`${kills} kills of ${kind.title}, seed ${seed}`)
  const from = performance.now()
  const tally = await killBoard({ kind, kills, seed, dropFlush, progress: progressOf(kills) })
  const seconds = (performance.now() - from) / 1000
  if (json) console.log(JSON.stringify({ board, seed, dropFlush, seconds, ...tally }))
  else process.stdout.write(tableOf(kind.title, seed, seconds, tally))
  for (const { kill, region, slot, by, kind: what, what: text } of tally.violations) {
    say(`kill ${kill}: record ${slot} of '${region}' is ${what} (${by}): ${text}`)
  }
  const lost = lossesOf(tally) > 0
  if (dropFlush) say(lost ? 'the missing write-back was noticed' : 'nothing was lost: not noticed')
  return lost === dropFlush ? 0 : LOST
}

try {
  process.exitCode = await main()
} catch (error) {
  if (!(error instanceof CommanderError)) throw error
  process.exitCode = error.exitCode === 0 ? 0 : USAGE
}
