/**
 * The command `npm run kill`, apart from its process: arguments in, lines out, an exit code back.
 */

import { randomInt } from 'node:crypto'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import type { BoardKind } from '../support/board/board.ts'
import { KINDS, kindOf } from '../support/board/kinds.ts'
import { killBoard, type Tally } from './kills.ts'

const LOST = 1
const USAGE = 2
const NOT_HERE = 3

/** Kills unless it is said: as many as each board must survive. */
const KILLS: Readonly<Record<BoardKind['name'], number>> = {
  ...{ emulator: 100, linux: 1000, 'linux-sanitize': 100, 'qemu-virt': 20 },
}

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
    .option('--kills <count>', 'how often; 1000 of linux, 20 of qemu-virt, 100 of others', many)
    .option('--seed <number>', 'draws the same load and the same instants again', whole)
    .option('--drop-flush', 'a runtime that leaves write-backs out: losses must be found')
    .option('--json', 'the result as JSON on stdout, and not the table')
    .exitOverride()
    .showHelpAfterError()
}

/** Records of which a promise was broken. */
function lossesOf({ missing, torn, fewer }: Tally): number {
  return missing + torn + fewer
}

/** Where the result goes, and where talk. */
interface Output {
  print(text: string): void
  say(line: string): void
}

/** Tells how far it is, at most every two seconds. */
function progressOf(kills: number, { say }: Output): (tally: Tally) => void {
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

/** Runs it with the arguments behind the name of the command; its exit code. */
export async function killCommand(args: readonly string[], output: Output): Promise<number> {
  try {
    const program = commandLine()
    program.configureOutput({ writeOut: output.print, writeErr: output.print })
    return await run(program.parse([...args], { from: 'user' }).opts<Options>(), output)
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? 0 : USAGE
  }
}

async function run(options: Options, output: Output): Promise<number> {
  const { board, seed = randomInt(2 ** 31), dropFlush = false, json = false } = options
  const { print, say } = output
  const kind = kindOf(board)
  const missing = kind.missing({ dropFlush })
  if (missing !== null) {
    say(`${kind.name} cannot run here: ${missing}`)
    return NOT_HERE
  }
  const kills = options.kills ?? KILLS[kind.name]
  const title = kind.dropsFlush ? `${kind.title}, in shadow mode` : kind.title
  say(`${kills} kills of ${title}, seed ${seed}`)
  const from = performance.now()
  const progress = progressOf(kills, output)
  const tally = await killBoard({ kind, kills, seed, dropFlush, progress })
  const seconds = (performance.now() - from) / 1000
  if (json) print(`${JSON.stringify({ board, seed, dropFlush, seconds, ...tally })}\n`)
  else print(tableOf(title, seed, seconds, tally))
  for (const { kill, region, slot, by, kind: end, what } of tally.violations) {
    say(`kill ${kill}: record ${slot} of '${region}' is ${end} (${by}): ${what}`)
  }
  const lost = lossesOf(tally) > 0
  if (dropFlush)
    say(lost ? 'the missing write-backs were noticed' : 'nothing was lost: not noticed')
  if (lost === dropFlush) return 0
  say(`the same load and instants again: --board ${board} --kills ${kills} --seed ${seed}`)
  return LOST
}
