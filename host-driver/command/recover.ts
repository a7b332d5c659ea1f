/**
 * `perdure recover IMAGE`: boots the part, which recovers it, and says per record what an
 * interruption left and what was done. `--scan` looks at every record, also where nothing was under
 * way; `--discard` is the operator's decision about a lost record.
 */

import type { Command } from 'commander'
import { ArgumentError } from '../base/errors.ts'
import { engineOption, type RecordName, recordName } from './base/arguments.ts'
import { LOST, OK, UNSETTLED } from './base/exit-codes.ts'
import { Output } from './base/output.ts'
import { sayReport } from './base/report.ts'
import { isAddress, withTarget } from './base/target.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  readonly scan?: boolean
  readonly discard?: readonly RecordName[]
}

export function addRecover(program: Command): void {
  program
    .command('recover')
    .description('start a part, which recovers it, and print the recovery report')
    .argument('<image>', 'an NVDIMM image')
    .option('--scan', 'check every record as well, and repair what can be repaired')
    .option('--discard <region:record>', 'give a lost record up; may be repeated', recordName)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(async (image: string, options: Options) => {
      process.exitCode = await recover(image, options)
    })
}

async function recover(image: string, options: Options): Promise<number> {
  const { json = false, engine, discard = [], scan = false } = options
  if (isAddress(image)) {
    throw new ArgumentError(
      `a DPU recovers its part when it starts: 'perdure inspect ${image}' tells what it did`,
    )
  }
  const output = new Output(json)
  return await withTarget(image, { writes: true, engine }, async ({ dpu }) => {
    let unsettled = 0
    for (const { name, slots } of scan ? await dpu.regions() : []) {
      const found = await dpu.scan(name, output.progress(name, slots))
      unsettled += found.unsettled
    }
    for (const { region, record } of discard) await dpu.discard(region, record)
    const [part, report, regions] = [await dpu.status(), await dpu.report(), await dpu.regions()]
    if (json) output.printJson({ image, part, report, discarded: discard })
    else sayReport(part, report, regions, (line, look) => output.print(line, look))
    for (const { region, record } of discard) output.say(`gave up record ${record} of '${region}'`)
    if (part.unsettled > 0) {
      output.say(`${part.unsettled} lost records: --discard region:record gives one up`)
    }
    if (unsettled > 0) output.say(`${unsettled} records have a copy that takes no repair`)
    if (part.unsettled > 0) return LOST
    return unsettled > 0 ? UNSETTLED : OK
  })
}
