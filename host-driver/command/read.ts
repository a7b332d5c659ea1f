/**
 * `perdure read TARGET REGION`: gives back the file that `persist` has stored, verified end to end;
 * `--raw` and `--slots` give records as they are, one behind the other.
 *
 * Slots that nobody has written are left out then. At the first lost record the command stops.
 */

import type { Command } from 'commander'
import { ArgumentError } from '../base/errors.ts'
import {
  engineOption,
  pathMtuOf,
  pathMtuOption,
  type SlotRange,
  slotRange,
  wholeNumber,
} from './base/arguments.ts'
import { intoFile } from './base/into-file.ts'
import { Output } from './base/output.ts'
import { openRecords, TARGETS, withTarget } from './base/target.ts'
import { Reading } from './file/reading.ts'

interface Options {
  readonly slot?: number
  readonly raw?: boolean
  readonly slots?: SlotRange
  readonly out?: string
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  readonly pathMtu?: string
}

export function addRead(program: Command): void {
  program
    .command('read')
    .description('write a file of a region, verified, to standard output or a file')
    .argument('<target>', TARGETS)
    .argument('<region>', 'name of the region')
    .option('--slot <slot>', 'slot where the file begins; 0 by default', wholeNumber(0))
    .option('--raw', 'all records as they are, and not a file')
    .option('--slots <a..b>', 'the records of these slots as they are', slotRange)
    .option('--out <file>', 'write the data to this file')
    .addOption(engineOption())
    .addOption(pathMtuOption())
    .option('--json', 'one JSON object for each record; with --out without the data')
    .action(readRegion)
}

async function readRegion(target: string, name: string, options: Options): Promise<void> {
  const output = new Output(options.json === true)
  const { engine, out } = options
  if (options.slot !== undefined && (options.raw === true || options.slots !== undefined)) {
    throw new ArgumentError('--slot names a file: not with --raw or --slots, which give records')
  }
  const connect = pathMtuOf(options)
  await withTarget(target, { writes: false, connect, engine }, async ({ dpu }) => {
    const region = await openRecords(dpu, name)
    const { slot: file = 0, slots = { first: file, last: region.slots - 1 } } = options
    const { first, last } = slots
    if (Math.max(first, last) >= region.slots) {
      throw new ArgumentError(`'${name}' ends at slot ${region.slots - 1}`)
    }
    const isFile = options.raw !== true && options.slots === undefined
    const copy = async (into: number | null): Promise<void> => {
      const reading = new Reading(region, into, output)
      await (isFile ? reading.fileAt(file) : reading.slots(first, last))
    }
    if (out === undefined) await copy(null)
    else await intoFile(out, copy)
  })
}
