/**
 * `perdure verify TARGET`: reads every copy of every record and checks its code. A DPU repairs
 * what it can while it is at it; an image is not changed, and the repairs are those that a scan of
 * it would do.
 *
 * Invariant: each record is counted once. What was rotten in an image is told, whether the
 * look found it, or the start of the card in this process, or its idle time.
 */

import type { Command } from 'commander'
import type { RegionInfo } from '../control/part.ts'
import type { Dpu, ScanResult } from '../dpu.ts'
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

/** What a look at some regions has found: one by one, and in all. */
interface Examined {
  readonly regions: readonly (ScanResult & { readonly region: string })[]
  readonly found: Found
}

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
    const examined = await examine(output, dpu, regions, local !== null)
    tell(output, target, examined)
    const how =
      local === null ? 'all are whole again' : `'perdure recover ${target} --scan' repairs them`
    sayFound(output, target, examined.found, how)
    return exitCodeFor(examined.found)
  })
}

/** Has the DPU check every record of these regions, and repair what it can. */
export async function examine(
  output: Output,
  dpu: Dpu,
  regions: readonly RegionInfo[],
  isImage: boolean,
): Promise<Examined> {
  const results: Examined['regions'][number][] = []
  for (const { name, slots } of regions) {
    const result = await dpu.scan(name, output.progress(name, slots))
    results.push({ region: name, ...(isImage ? allOf(result) : result) })
  }
  const sum = (key: keyof Found): number => results.reduce((all, one) => all + one[key], 0)
  const found = {
    repaired: sum('repaired'),
    unsettled: sum('unsettled'),
    lost: sum('lost'),
    underWay: sum('underWay'),
  }
  return { regions: results, found }
}

/** Prints what was found: a line for each region, or one JSON object. */
export function tell(output: Output, target: string, { regions, found }: Examined): void {
  if (output.json) {
    output.printJson({ target, regions, ...found })
    return
  }
  const rows = regions.map((one) => {
    const { region, checked, repaired, unsettled, lost, underWay } = one
    return [region, checked, repaired, unsettled, lost, underWay]
  })
  for (const line of table(HEADS, rows)) output.print(line)
}

/** The card of an image has started for this look: what was before the scan belongs to it. */
function allOf(result: ScanResult): ScanResult {
  const { repaired, repairedBefore } = result
  return { ...result, repaired: repaired + repairedBefore, repairedBefore: 0 }
}

/** Says what is to be done about it; `repairs` is what becomes of copies that have decayed. */
export function sayFound(output: Output, target: string, found: Found, repairs: string): void {
  const { repaired, unsettled, lost, underWay } = found
  if (repaired > 0) {
    output.say(`${recordsText(repaired)} a copy that has decayed: ${repairs}`)
  }
  if (unsettled > 0) {
    const what = 'a copy that takes no repair'
    output.say(`${recordsText(unsettled)} ${what}: see 'perdure inspect ${target}'`)
  }
  if (lost > 0) {
    const give = `'perdure discard ${target} REGION:RECORD' gives one up`
    output.say(`${lost} lost records: 'perdure inspect ${target}' names them, ${give}`)
  }
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
