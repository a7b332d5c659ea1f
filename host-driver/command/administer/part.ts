/** `perdure status | counters | format TARGET`: the part as a whole. */

import { type Command, InvalidArgumentError } from 'commander'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { engineOption } from '../base/arguments.ts'
import { Output } from '../base/output.ts'
import { partFacts, serves } from '../base/part-text.ts'
import { sayEnd } from '../base/report.ts'
import { facts, table } from '../base/table.ts'
import { notServing, TARGETS, WRITTEN_TARGETS, withTarget } from '../base/target.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
}

interface FormatOptions extends Options {
  readonly deviceId?: Uint8Array
  readonly dryRun?: boolean
}

export function addPart(program: Command): void {
  program
    .command('status')
    .description('show what a part is, and how it is')
    .argument('<target>', TARGETS)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(async (target: string, options: Options) => {
      process.exitCode = await status(target, options)
    })
  program
    .command('counters')
    .description('show which faults a card has met since its start, and how often')
    .argument('<target>', TARGETS)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(counters)
  program
    .command('format')
    .description('lay out an empty part; one that holds anything is refused')
    .argument('<target>', WRITTEN_TARGETS)
    .option('--device-id <hex>', '16 bytes in hexadecimal; drawn by default', deviceId)
    .option('--dry-run', 'only tell whether the part is empty')
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(format)
}

function deviceId(text: string): Uint8Array {
  if (/^[\da-f]{32}$/i.test(text)) return Buffer.from(text, 'hex')
  throw new InvalidArgumentError('16 bytes, as 32 hexadecimal digits')
}

async function status(target: string, { json = false, engine }: Options): Promise<number> {
  const output = new Output(json)
  const looking = { writes: false, anyState: true, engine }
  return await withTarget(target, looking, async ({ dpu }) => {
    const part = await dpu.status()
    if (json) output.printJson({ target, part })
    else for (const line of facts(partFacts(part))) output.print(line)
    return sayEnd(output, target, part)
  })
}

async function counters(target: string, { json = false, engine }: Options): Promise<void> {
  const output = new Output(json)
  const looking = { writes: false, anyState: true, engine }
  await withTarget(target, looking, async ({ dpu }) => {
    const met = await dpu.counters()
    if (json) {
      output.printJson({ target, counters: met })
      return
    }
    const rows = Object.entries(met).map(([fault, count]) => {
      return [fault, count, FAULTS.find(({ name }) => name === fault)?.meaning ?? 'unknown here']
    })
    if (rows.length === 0) output.say('no faults met since the start')
    else for (const line of table(['fault', 'met', 'meaning'], rows)) output.print(line)
  })
}

async function format(target: string, options: FormatOptions): Promise<void> {
  const { json = false, engine, deviceId: id, dryRun = false } = options
  const output = new Output(json)
  const writing = { writes: !dryRun, anyState: true, engine }
  await withTarget(target, writing, async ({ dpu }) => {
    if (dryRun) {
      const { state, fault } = await dpu.status()
      if (state !== 'blank') throw notServing(target, serves({ state }) ? 'FORMATTED' : fault)
      if (json) output.printJson({ target, dryRun, state })
      else output.say('the part is empty: it would be formatted')
      return
    }
    const part = await dpu.format(id)
    if (json) output.printJson({ target, part })
    else output.say(`formatted: device ${part.deviceId}, format ${part.formatVersion}`)
  })
}
