/** `perdure scan | discard TARGET`: the records of a part, looked at and decided about. */

import type { Command } from 'commander'
import { ArgumentError } from '../../base/errors.ts'
import type { RegionInfo } from '../../control/part.ts'
import type { Dpu } from '../../dpu.ts'
import { isLost } from '../../records/lost.ts'
import { engineOption, type RecordName, recordName } from '../base/arguments.ts'
import { Output } from '../base/output.ts'
import { openRecords, WRITTEN_TARGETS, withTarget } from '../base/target.ts'
import { examine, exitCodeFor, sayFound, tell } from '../verify.ts'
import { confirm, type LossOptions } from './confirm.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
}

export function addRecords(program: Command): void {
  program
    .command('scan')
    .description('check every copy of every record, and repair what can be repaired')
    .argument('<target>', WRITTEN_TARGETS)
    .argument('[region...]', 'only these')
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(async (target: string, names: readonly string[], options: Options) => {
      process.exitCode = await scan(target, names, options)
    })
  program
    .command('discard')
    .description('give lost records up: they become blank, and their regions take writes again')
    .argument('<target>', WRITTEN_TARGETS)
    .argument('<region:record...>', 'lost records', recordName)
    .option('--dry-run', 'only tell whether they are lost')
    .option('--yes', 'without a question')
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(discard)
}

async function scan(target: string, names: readonly string[], options: Options): Promise<number> {
  const { json = false, engine } = options
  const output = new Output(json)
  return await withTarget(target, { writes: true, engine }, async ({ dpu, local }) => {
    const examined = await examine(output, dpu, await wanted(dpu, names), local !== null)
    tell(output, target, examined)
    sayFound(output, target, examined.found, 'all are whole again')
    return exitCodeFor(examined.found)
  })
}

/** The regions of these names; all that have records where there are none. */
async function wanted(dpu: Dpu, names: readonly string[]): Promise<RegionInfo[]> {
  if (names.length === 0) return (await dpu.regions()).filter(({ kind }) => kind === 'records')
  const found: RegionInfo[] = []
  for (const name of new Set(names)) found.push((await openRecords(dpu, name)).info)
  return found
}

async function discard(
  target: string,
  records: readonly RecordName[],
  options: Options & LossOptions,
): Promise<void> {
  const { json = false, engine, dryRun = false } = options
  const output = new Output(json)
  await withTarget(target, { writes: !dryRun, engine }, async ({ dpu }) => {
    // All of them are looked at before one is given up.
    for (const { region, record } of records) {
      if (await isLost((await openRecords(dpu, region)).read(record))) continue
      throw new ArgumentError(`record ${record} of '${region}' is not lost: nothing was changed`)
    }
    const all = records.map(({ region, record }) => `${region}:${record}`).join(' ')
    if (!dryRun) {
      await confirm(`lost for good, and blank then: ${all}`, all, options)
      for (const { region, record } of records) await dpu.discard(region, record)
    }
    if (json) output.printJson({ target, dryRun, discarded: records })
    else output.say(dryRun ? `would be blank: ${all}` : `given up, and blank now: ${all}`)
  })
}
