/**
 * `perdure persist TARGET REGION FILE`: makes a file durable, record by record, with its length and
 * its SHA-256 in front (file/header.ts); `--raw` stores the records alone.
 *
 * Invariant: nothing is sent if the file does not fit, and no more of it is read than tells
 * that; the command ends well only when every record is durable at the level that was asked for.
 * Whoever ends it before is told how much is.
 */

import { type Command, Option } from 'commander'
import { ArgumentError } from '../base/errors.ts'
import type { Dpu } from '../dpu.ts'
import type { Region } from '../records/region.ts'
import { parseDurability } from '../way/durability.ts'
import {
  CM_PORT,
  engineOption,
  type FarCard,
  farCard,
  pathMtuOf,
  pathMtuOption,
  wholeNumber,
} from './base/arguments.ts'
import { Output } from './base/output.ts'
import { checkFile } from './base/system-errors.ts'
import { bytesText, facts, timeText } from './base/table.ts'
import { openRecords, withTarget } from './base/target.ts'
import { checkAttaches, withAttached } from './file/attached.ts'
import { withContent } from './file/content.ts'
import { checkCapacity } from './file/header.ts'
import { Persisting, type PersistingOptions } from './file/persisting.ts'
import { goingOn } from './file/stopped.ts'
import type { Latencies } from './file/writing.ts'

interface Options extends Omit<PersistingOptions, 'goOn'> {
  readonly attach?: FarCard
  readonly json?: boolean
  readonly capture?: string
  readonly engine?: 'quickjs' | 'node'
  readonly pathMtu?: string
}

export function addPersist(program: Command): void {
  program
    .command('persist')
    .description('make a file durable, record by record')
    .argument('<target>', 'perdure://host[:port], pcie:FILE[/address], or an NVDIMM image')
    .argument('<region>', 'name of the region')
    .argument('<file>', "the file, '-' for standard input")
    .option('--slot <slot>', 'slot of the first record', wholeNumber(0), 0)
    .option('--raw', 'its records alone: no length and no SHA-256 in front')
    .option('--resume', 'go on where an earlier one was stopped')
    .option('--level <WofN>', 'durable copies to wait for: 1of2, 2of2, 2of3 …')
    .option('--form <form>', 'replicated, or carried: every copy on the wire', 'replicated')
    .addOption(
      new Option('--batch <condition>', 'in batches of 256 records, each under one status').choices(
        ['independent', 'inOrder'],
      ),
    )
    .option(
      '--attach <card>',
      `through the target into another card: perdure://KEY@address, where it is closed, or ` +
        `address[:port], where the region is published at that port (${CM_PORT})`,
      farCard,
    )
    .option('--capture <file>', 'write every frame to a pcap file')
    .addOption(engineOption())
    .addOption(pathMtuOption())
    .option('--json', 'as one JSON object')
    .action(persistFile)
}

async function persistFile(
  target: string,
  name: string,
  file: string,
  options: Options,
): Promise<void> {
  if (options.level !== undefined) parseDurability(options.level)
  if (options.batch !== undefined && options.form !== 'replicated') {
    throw new ArgumentError('a batch has one copy on the wire: not with --form carried')
  }
  if (options.attach !== undefined) checkAttaches(target, options.resume === true)
  if (file !== '-') checkFile(file)
  const output = new Output(options.json === true)
  const { engine, capture, attach } = options
  const writing = { writes: true, capture, connect: pathMtuOf(options), engine }
  await withTarget(target, writing, async ({ dpu }) => {
    const into = (region: Region): Promise<void> => persistInto(dpu, region, file, options, output)
    if (attach !== undefined) await withAttached(dpu, { name, ...attach }, output, into)
    else await into(await openRecords(dpu, name))
  })
}

/** Persists the whole file, and says so. */
async function persistInto(
  dpu: Dpu,
  region: Region,
  file: string,
  options: Options,
  output: Output,
): Promise<void> {
  // Of another card its receipts tell.
  if (options.attach === undefined && dpu.durable === 'process') sayProcess(output)
  if (options.raw !== true) checkCapacity(region)
  const goOn = goingOn(process.argv.slice(2), options.attach === undefined)
  const take = (bytes: number): void => checkRoom(region, options, bytes)
  await withContent(file, take, async (content) => {
    const job = new Persisting(region, content, { ...options, goOn }, output)
    await job.run()
    if (options.attach !== undefined && job.writing.durable === 'process') sayProcess(output)
    sayDone(output, dpu, job, options)
  })
}

function sayProcess(output: Output): void {
  if (output.json) return
  output.say("perdure: what is durable here outlives the card's process, and not the power")
}

/** Throws ArgumentError where the slots have no room for so many bytes. */
function checkRoom(region: Region, { slot, raw }: Options, bytes: number): void {
  const { name, slots, capacity } = region
  const room = Math.max(0, slots - slot - (raw === true ? 0 : 1)) * capacity
  if (bytes <= room) return
  const where = slot === 0 ? '' : ` from slot ${slot} on`
  const header = raw === true ? '' : ', and one slot is for its header'
  const end = `'${name}'${where} ends at ${slots - 1}${header}`
  throw new ArgumentError(`the file has more than ${bytesText(room)}; ${end}`)
}

function sayDone(output: Output, dpu: Dpu, job: Persisting, options: Options): void {
  const { packets, retransmissions, batches, bursts } = dpu.statistics()
  const { reached, writing, already, sha256 } = job
  const summary = {
    region: job.region.name,
    firstSlot: options.slot,
    lastSlot: reached.slot + reached.records - 1,
    records: reached.records,
    bytes: job.content.bytes,
    sha256,
    ...(options.resume === true && { already }),
    ...(options.attach !== undefined && { attached: options.attach }),
    copies: writing.copies,
    of: job.region.copies,
    requests: packets,
    retransmissions,
    ...(options.batch !== undefined && { batches, bursts }),
    latencyUs: writing.latencyUs,
  }
  if (output.json) output.printJson(summary)
  else for (const line of summaryLines(summary)) output.print(line)
}

function summaryLines(summary: {
  region: string
  attached?: FarCard
  firstSlot: number
  lastSlot: number
  records: number
  bytes: number
  sha256: string
  already?: number
  copies: number | null
  of: number
  requests: number
  retransmissions: number
  batches?: number
  bursts?: number
  latencyUs: Latencies | null
}): string[] {
  const { region, firstSlot, lastSlot, records, already, copies, latencyUs: us } = summary
  const far = summary.attached === undefined ? '' : ` of ${summary.attached.address}`
  const { requests, batches, bursts } = summary
  const repeated = `${requests}, of them ${summary.retransmissions} repeated`
  const lines: (readonly [string, string] | null)[] = [
    ['durable', `${records} records, ${bytesText(summary.bytes)}, in '${region}'${far}`],
    already === undefined ? null : ['already', `${already} of them were there`],
    ['slots', `${firstSlot} to ${lastSlot}`],
    copies === null ? null : ['copies', `${copies} of ${summary.of}`],
    // Over the queues of a host it is the card that makes them.
    requests === 0 ? null : ['requests', repeated],
    batches === undefined ? null : ['batches', `${batches}; bursts ${bursts}`],
    us && ['latency', `half within ${timeText(us.half)}, 99 % within ${timeText(us.most)}`],
    ['SHA-256', summary.sha256],
  ]
  return facts(lines.filter((line) => line !== null))
}
