/**
 * `perdure read TARGET REGION`: writes the records of a region, verified end to end, one behind the
 * other. Slots that nobody has written are left out; at the first lost record the command stops.
 */

import { createHash } from 'node:crypto'
import type { Command } from 'commander'
import { ArgumentError } from '../base/errors.ts'
import type { Region } from '../records/region.ts'
import {
  engineOption,
  pathMtuOf,
  pathMtuOption,
  type SlotRange,
  slotRange,
} from './base/arguments.ts'
import { intoFile, writeAll } from './base/into-file.ts'
import { Output } from './base/output.ts'
import { openRecords, TARGETS, withTarget } from './base/target.ts'

interface Options {
  readonly slots?: SlotRange
  readonly out?: string
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  readonly pathMtu?: string
}

/** Reads that are under way at once. */
const AHEAD = 16

export function addRead(program: Command): void {
  program
    .command('read')
    .description('write the records of a region, verified, to standard output or a file')
    .argument('<target>', TARGETS)
    .argument('<region>', 'name of the region')
    .option('--slots <a..b>', 'the slots to read; all by default', slotRange)
    .option('--out <file>', 'write the data to this file')
    .addOption(engineOption())
    .addOption(pathMtuOption())
    .option('--json', 'one JSON object for each record; with --out without the data')
    .action(readRecords)
}

async function readRecords(target: string, name: string, options: Options): Promise<void> {
  const output = new Output(options.json === true)
  const { engine, out } = options
  const connect = pathMtuOf(options)
  await withTarget(target, { writes: false, connect, engine }, async ({ dpu }) => {
    const region = await openRecords(dpu, name)
    const { first, last } = options.slots ?? { first: 0, last: region.slots - 1 }
    if (last >= region.slots) throw new ArgumentError(`'${name}' ends at slot ${region.slots - 1}`)
    if (out === undefined) await copyRecords(region, first, last, null, output)
    else await intoFile(out, (file) => copyRecords(region, first, last, file, output))
  })
}

async function copyRecords(
  region: Region,
  first: number,
  last: number,
  file: number | null,
  output: Output,
): Promise<void> {
  const hash = createHash('sha256')
  let records = 0
  let bytes = 0
  const reached = output.progress('read', last - first + 1)
  for (let slot = first; slot <= last; slot += AHEAD) {
    const count = Math.min(AHEAD, last - slot + 1)
    const reads = Array.from({ length: count }, (_, i) => region.read(slot + i))
    for (const read of reads) read.catch(() => {})
    for (const [i, read] of reads.entries()) {
      const { data, written, ...about } = await read
      if (!written) continue
      records++
      bytes += data.length
      hash.update(data)
      if (file !== null) writeAll(file, data)
      else if (!output.json) await writeOut(data)
      const shown = { slot: slot + i, length: data.length, ...about }
      if (output.json) output.printJson(file === null ? { ...shown, data } : shown)
    }
    reached(slot + count - first)
  }
  output.say(`${records} records, ${bytes} bytes, SHA-256 ${hash.digest('hex')}`)
}

/** Waits until standard output has taken the bytes, however slow its reader is. */
function writeOut(data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(data, (error) => (error ? reject(error) : resolve()))
  })
}
