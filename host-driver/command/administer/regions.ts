/** `perdure region list | create | remove TARGET`: the regions of a part. */

import { type Command, Option } from 'commander'
import {
  COPIES_MAX,
  COPIES_MIN,
  RECORD_BYTES_MAX,
  SLOTS_MAX,
} from '../../../firmware/board/limits.ts'
import { ArgumentError } from '../../base/errors.ts'
import { PLACEMENTS, type RegionInfo, type RegionPlacement } from '../../control/part.ts'
import type { Dpu } from '../../dpu.ts'
import { engineOption, size, wholeNumber } from '../base/arguments.ts'
import { Output } from '../base/output.ts'
import { regionLines } from '../base/part-text.ts'
import { bytesText } from '../base/table.ts'
import { TARGETS, WRITTEN_TARGETS, withTarget } from '../base/target.ts'
import { confirm, type LossOptions } from './confirm.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
}

interface CreateOptions extends Options {
  readonly slots?: number
  readonly capacity?: number
  readonly copies?: number
  readonly fixedLength?: true
  readonly pair?: true
  readonly bytes?: number
  readonly writePersist?: true
  readonly placement?: RegionPlacement
}

export function addRegions(program: Command): void {
  const region = program.command('region').description('show, make and remove regions')
  region
    .command('list')
    .description('show the regions of a part, and the memory of its host')
    .argument('<target>', TARGETS)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(list)
  addCreate(region)
  region
    .command('remove')
    .description('end a region permanently, with what it holds')
    .argument('<target>', WRITTEN_TARGETS)
    .argument('<name>', 'of the region')
    .option('--dry-run', 'only tell what would be gone')
    .option('--yes', 'without a question')
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(remove)
}

function addCreate(region: Command): void {
  const copies = `${COPIES_MIN} (default) to ${COPIES_MAX}`
  region
    .command('create')
    .description('make a region of records, or of plain bytes; one of that shape is left as it is')
    .argument('<target>', WRITTEN_TARGETS)
    .argument('<name>', '1 to 32 bytes of UTF-8')
    .option('--slots <n>', 'records that it holds', wholeNumber(1, SLOTS_MAX))
    .option('--capacity <size>', `data of one record, 1 to ${RECORD_BYTES_MAX} bytes`, size)
    .option('--copies <n>', `of each record, ${copies}`, wholeNumber(COPIES_MIN, COPIES_MAX))
    .option('--fixed-length', 'every record has exactly the capacity')
    .option('--pair', 'clients write the copies by themselves')
    .option('--bytes <size>', 'plain bytes, so many, in place of records', size)
    .option('--write-persist', 'with --bytes: every store that is acknowledged is durable')
    .addOption(new Option('--placement <where>', 'where it lies').choices(PLACEMENTS))
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(create)
}

async function list(target: string, { json = false, engine }: Options): Promise<void> {
  const output = new Output(json)
  await withTarget(target, { writes: false, engine }, async ({ dpu }) => {
    const regions = await regionsOf(dpu)
    if (json) output.printJson({ target, regions: regions.map(shown) })
    else if (regions.length === 0) output.say('no regions')
    else for (const line of regionLines(regions)) output.print(line)
  })
}

async function regionsOf(dpu: Dpu): Promise<RegionInfo[]> {
  return [...(await dpu.regions()), ...(await dpu.hostRegions())]
}

/** What is told of a region to programs: not the key of its check codes. */
function shown({ key: _, ...region }: RegionInfo): object {
  return region
}

async function create(target: string, name: string, options: CreateOptions): Promise<void> {
  const { json = false, engine } = options
  const make = makerOf(name, options)
  const output = new Output(json)
  await withTarget(target, { writes: true, engine }, async ({ dpu }) => {
    const isThere = (await dpu.regions()).some((region) => region.name === name)
    const region = await make(dpu)
    if (json) output.printJson({ target, made: !isThere, region: shown(region) })
    else
      output.say(`region '${name}' ${isThere ? 'is there already' : 'is made'}: ${shape(region)}`)
  })
}

/** What makes it. Throws PERDURE_ARGUMENT where the options are of both kinds of region. */
function makerOf(name: string, options: CreateOptions): (dpu: Dpu) => Promise<RegionInfo> {
  const { slots, capacity, copies, fixedLength, pair, bytes, writePersist, placement } = options
  const where = placement === undefined ? {} : { placement }
  if (bytes !== undefined) {
    if ([slots, capacity, copies, fixedLength, pair].some((one) => one !== undefined)) {
      throw new ArgumentError('--bytes makes a region without records: say one or the other')
    }
    const request = { name, length: bytes, writePersist: writePersist === true, ...where }
    return async (dpu) => (await dpu.provisionBytes(request)).info
  }
  if (writePersist !== undefined) throw new ArgumentError('--write-persist is of --bytes')
  if (slots === undefined || capacity === undefined) {
    throw new ArgumentError('say --slots and --capacity for records, or --bytes')
  }
  const more = { ...(copies !== undefined && { copies }), ...where }
  const flags = { fixedLength: fixedLength === true, pair: pair === true }
  return async (dpu) => (await dpu.provision({ name, slots, capacity, ...flags, ...more })).info
}

function shape({ kind, slots, capacity, copies, length }: RegionInfo): string {
  if (kind !== 'records') return `${bytesText(Number(length))} of ${kind}`
  return `${slots} records of up to ${capacity} B, ${copies} copies`
}

async function remove(target: string, name: string, options: Options & LossOptions): Promise<void> {
  const { json = false, engine, dryRun = false } = options
  const output = new Output(json)
  await withTarget(target, { writes: !dryRun, engine }, async ({ dpu }) => {
    const { info } = await dpu.openRegion(name)
    if (dryRun) {
      if (json) output.printJson({ target, dryRun, region: shown(info) })
      else output.say(`region '${name}' would be gone: ${shape(info)}`)
      return
    }
    await confirm(`region '${name}' is gone then: ${shape(info)}`, name, options)
    await dpu.remove(name)
    if (json) output.printJson({ target, removed: name })
    else output.say(`region '${name}' is gone`)
  })
}
