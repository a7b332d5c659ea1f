/**
 * `perdure verify TARGET`: reads every copy of every record and checks its code. A DPU repairs
 * what it can while it is at it; an image is not changed, and the repairs are those that a scan of
 * it would do.
 */

import type { Command } from 'commander'
import { engineOption } from './arguments.ts'
import { LOST, OK } from './exit-codes.ts'
import { Output } from './output.ts'
import { table } from './table.ts'
import { openTarget, TARGETS } from './target.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
}

export function addVerify(program: Command): void {
  program
    .command('verify')
    .description('check every copy of every record with its check code')
    .argument('<target>', TARGETS)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(async (target: string, options: Options) => {
      process.exitCode = await verify(target, options)
    })
}

async function verify(target: string, { json = false, engine }: Options): Promise<number> {
  const output = new Output(json)
  const opened = await openTarget(target, { writes: false, ...(engine && { engine }) })
  try {
    const { dpu } = opened
    const regions = (await dpu.regions()).filter((region) => region.kind === 'records')
    const results = []
    for (const { name, slots } of regions) {
      const result = await dpu.scan(name, (checked) => output.progress(name, checked, slots))
      results.push({ region: name, ...result })
    }
    const { unsettled } = await dpu.status()
    if (json) {
      output.printJson({ target, regions: results, lost: unsettled })
    } else {
      const rows = results.map((one) => [one.region, one.checked, one.repaired, one.unsettled])
      for (const line of table(['region', 'checked', 'repaired', 'lost'], rows)) output.print(line)
    }
    if (unsettled > 0) output.say(`${unsettled} lost records: see 'perdure inspect ${target}'`)
    return unsettled > 0 ? LOST : OK
  } finally {
    await opened.close()
  }
}
