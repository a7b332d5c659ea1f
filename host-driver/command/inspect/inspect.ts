/**
 * `perdure inspect TARGET`: what a part is, what it holds, how it is; with `--queues` what the card
 * does for the queues of its own host, with `--status` which memory is ready. Changes nothing.
 */

import type { Command } from 'commander'
import { ArgumentError } from '../../base/errors.ts'
import { engineOption, names, wholeNumber } from '../base/arguments.ts'
import { Output } from '../base/output.ts'
import { partFacts, regionLines, serves } from '../base/part-text.ts'
import { sayEnd, sayReport } from '../base/report.ts'
import { facts } from '../base/table.ts'
import { TARGETS, withTarget } from '../base/target.ts'
import { inspectQueues } from './inspect-queues.ts'
import { inspectStatus } from './inspect-status.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  readonly queues?: boolean
  readonly status?: boolean
  readonly region?: readonly string[]
  readonly most: number
}

export function addInspect(program: Command): void {
  program
    .command('inspect')
    .description('show what a part is and holds, its health, counters and recovery report')
    .argument('<target>', TARGETS)
    .option('--queues', "show the queues of the card's own host, and its context cache, instead")
    .option('--status', 'show which blocks of each region are ready, instead')
    .option('--region <name>', 'with --status: only this one; may be repeated', names)
    .option('--most <n>', 'with --queues: list at most so many', wholeNumber(0), 64)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(async (target: string, options: Options) => {
      process.exitCode = await lookOf(options)(target, options)
    })
}

function lookOf({ queues, status, region }: Options): typeof inspect {
  if (queues === true && status === true) {
    throw new ArgumentError('--queues and --status show different things: say one of the two')
  }
  if (region !== undefined && status !== true) {
    throw new ArgumentError('--region is for the map of blocks: say --status as well')
  }
  if (queues === true) return inspectQueues
  return status === true ? inspectStatus : inspect
}

async function inspect(target: string, { json = false, engine }: Options): Promise<number> {
  const output = new Output(json)
  const looking = { writes: false, anyState: true, engine }
  return await withTarget(target, looking, async ({ dpu }) => {
    const part = await dpu.status()
    const serving = serves(part)
    const regions = serving ? await dpu.regions() : []
    const report = serving ? await dpu.report() : []
    const counters = await dpu.counters()
    if (json) {
      const shown = regions.map(({ key: _key, ...region }) => region)
      output.printJson({ target, part, regions: shown, report, counters })
    } else {
      for (const line of facts(partFacts(part))) output.print(line)
      if (regions.length > 0) output.print('')
      if (regions.length > 0) for (const line of regionLines(regions)) output.print(line)
      output.print('')
      if (serving) sayReport(part, report, regions, (line, look) => output.print(line, look))
      const met = Object.entries(counters)
      output.print(met.length === 0 ? 'no faults met' : 'faults met since the start:')
      for (const line of met.length === 0 ? [] : facts(met)) output.print(`  ${line}`)
    }
    return sayEnd(output, target, part)
  })
}
