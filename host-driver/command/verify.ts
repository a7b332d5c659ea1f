/**
 * `perdure verify TARGET`: reads every copy of every record and checks its code. A DPU repairs
 * what it can while it is at it; an image is not changed, and the repairs are those that a scan of
 * it would do.
 *
 * Invariant: each record is counted once. What was rotten in an image is told, whether the
 * look found it, or the start of the card in this process, or its idle time.
 */

import type { Command } from 'commander'
import type { ScanResult } from '../dpu.ts'
import { engineOption } from './base/arguments.ts'
import { BUSY, LOST, OK, REPAIRED, UNSETTLED } from './base/exit-codes.ts'
import { Output } from './base/output.ts'
import { table } from './base/table.ts'
import { TARGETS, withTarget } from './base/target.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
}

type Found = Pick<ScanResult, 'repaired' | 'unsettled' | 'lost' | 'underWay'>

const HEADS = ['region', 'checked', 'repaired', 'unsettled', 'lost', 'under way']

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
  return await withTarget(target, { writes: false, engine }, async ({ dpu, local }) => {
    const regions = (await dpu.regions()).filter((region) => region.kind === 'records')
    const results: (ScanResult & { readonly region: string })[] = []
    for (const { name, slots } of regions) {
      const result = await dpu.scan(name, (checked) => output.progress(name, checked, slots))
      results.push({ region: name, ...(local === null ? result : allOf(result)) })
    }
    const sum = (key: keyof Found): number => results.reduce((all, one) => all + one[key], 0)
    const found: Found = {
      repaired: sum('repaired'),
      unsettled: sum('unsettled'),
      lost: sum('lost'),
      underWay: sum('underWay'),
    }
    if (json) {
      output.printJson({ target, regions: results, ...found })
    } else {
      const rows = results.map((one) => {
        const { region, checked, repaired, unsettled, lost, underWay } = one
        return [region, checked, repaired, unsettled, lost, underWay]
      })
      for (const line of table(HEADS, rows)) output.print(line)
    }
    sayFound(output, target, found, local !== null)
    return exitCodeFor(found)
  })
}

/** The card of an image has started for this look: what was before the scan belongs to it. */
function allOf(result: ScanResult): ScanResult {
  const { repaired, repairedBefore } = result
  return { ...result, repaired: repaired + repairedBefore, repairedBefore: 0 }
}

function sayFound(output: Output, target: string, found: Found, isImage: boolean): void {
  const { repaired, unsettled, lost, underWay } = found
  if (repaired > 0) {
    const how = isImage ? `'perdure recover ${target} --scan' repairs them` : 'all are whole again'
    output.say(`${recordsText(repaired)} a copy that has decayed: ${how}`)
  }
  if (unsettled > 0) {
    const what = 'a copy that takes no repair'
    output.say(`${recordsText(unsettled)} ${what}: see 'perdure inspect ${target}'`)
  }
  if (lost > 0) output.say(`${lost} lost records: see 'perdure inspect ${target}'`)
  if (underWay > 0) output.say(`${underWay} under way and not checked: verify again in 20 s`)
}

function recordsText(count: number): string {
  return count === 1 ? '1 record has' : `${count} records have`
}

/**
 * The worst of what was found. Where records were passed over as somebody writes them, nobody has
 * seen that all of them are whole: that stands in front of what says so.
 */
export function exitCodeFor({ repaired, unsettled, lost, underWay }: Found): number {
  if (lost > 0) return LOST
  if (unsettled > 0) return UNSETTLED
  if (underWay > 0) return BUSY
  return repaired > 0 ? REPAIRED : OK
}
