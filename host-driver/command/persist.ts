/**
 * `perdure persist TARGET REGION FILE`: makes a file durable, record by record.
 *
 * Invariant: nothing is sent if the file does not fit, and no more of it is read than tells
 * that; the command ends well only when every record is durable at the level that was asked for.
 */

import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { type Command, Option } from 'commander'
import { BATCH_RECORDS_MAX } from '../../firmware/board/limits.ts'
import { ArgumentError } from '../base/errors.ts'
import { isPcieTarget, parsePcieTarget } from '../card/target.ts'
import type { Attachment } from '../control/management.ts'
import type { Dpu } from '../dpu.ts'
import type { Region } from '../records/region.ts'
import { type Durability, parseDurability } from '../way/durability.ts'
import type { Receipt, Write } from '../way/write.ts'
import {
  engineOption,
  type FarCard,
  farCard,
  pathMtuOf,
  pathMtuOption,
  wholeNumber,
} from './base/arguments.ts'
import { whenInterrupted } from './base/interrupts.ts'
import { Output } from './base/output.ts'
import { checkFile, messageOf } from './base/system-errors.ts'
import { bytesText, facts, timeText } from './base/table.ts'
import { isAddress, openRecords, withTarget } from './base/target.ts'

interface Options {
  readonly slot: number
  readonly level?: Durability
  readonly form: 'replicated' | 'carried'
  readonly batch?: 'independent' | 'inOrder'
  readonly attach?: FarCard
  readonly json?: boolean
  readonly capture?: string
  readonly engine?: 'quickjs' | 'node'
  readonly pathMtu?: string
}

/** Records given to the driver ahead of those that are durable. */
const AHEAD = 64

export function addPersist(program: Command): void {
  program
    .command('persist')
    .description('make a file durable, record by record')
    .argument('<target>', 'perdure://host[:port], pcie:FILE[/address], or an NVDIMM image')
    .argument('<region>', 'name of the region')
    .argument('<file>', "the file, '-' for standard input")
    .option('--slot <slot>', 'slot of the first record', wholeNumber(0), 0)
    .option('--level <WofN>', 'durable copies to wait for: 1of2, 2of2, 2of3 …')
    .option('--form <form>', 'replicated, or carried: every copy on the wire', 'replicated')
    .addOption(
      new Option('--batch <condition>', 'in batches of 256 records, each under one status').choices(
        ['independent', 'inOrder'],
      ),
    )
    .option(
      '--attach <address[:port]>',
      'through the target into another card, which publishes the region at that port (7471)',
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
  if (options.attach !== undefined) checkAttaches(target)
  if (file !== '-') checkFile(file)
  const source = file === '-' ? process.stdin : (await open(file)).createReadStream()
  try {
    await persistStream(target, name, source, options)
  } finally {
    source.destroy()
  }
}

/** Throws ArgumentError where the target has no network, or leads its host there itself. */
function checkAttaches(target: string): void {
  if (!isAddress(target)) {
    throw new ArgumentError(`${target}: an image has no network: --attach is for a card`)
  }
  if (isPcieTarget(target) && parsePcieTarget(target).peer === null) {
    throw new ArgumentError(`without --attach: to its own host another card is ${target}/ADDRESS`)
  }
}

async function persistStream(
  target: string,
  name: string,
  source: Readable,
  options: Options,
): Promise<void> {
  const output = new Output(options.json === true)
  const { engine, capture, attach } = options
  const writing = { writes: true, capture, connect: pathMtuOf(options), engine }
  await withTarget(target, writing, async ({ dpu }) => {
    if (attach === undefined) {
      if (dpu.durable === 'process') sayProcess(output)
      await persistInto(dpu, await openRecords(dpu, name), source, options, output)
      return
    }
    await withAttached(dpu, { name, ...attach }, output, async (region) => {
      const receipts = await persistInto(dpu, region, source, options, output)
      if (receipts.some(({ durable }) => durable === 'process')) sayProcess(output)
    })
  })
}

function sayProcess(output: Output): void {
  if (output.json) return
  output.say("perdure: what is durable here outlives the card's process, and not the power")
}

/** Does that with the region of another card, which this one offers for so long. */
async function withAttached(
  dpu: Dpu,
  attachment: Attachment,
  output: Output,
  work: (region: Region) => Promise<void>,
): Promise<void> {
  const { name } = attachment
  const region = await dpu.attach(attachment)
  const detach = (): Promise<void> =>
    dpu.detach(name).catch((error: unknown) => {
      output.say(`perdure: '${name}' stays attached: ${messageOf(error)}`)
    })
  const listensNoMore = whenInterrupted(detach)
  try {
    await work(region)
  } finally {
    await detach()
    listensNoMore()
  }
}

/** Persists the whole source, and says so. */
async function persistInto(
  dpu: Dpu,
  region: Region,
  source: Readable,
  options: Options,
  output: Output,
): Promise<Receipt[]> {
  const content = await contentOf(source, region, options.slot)
  const records = split(content, region, options.slot)
  const persist = options.batch === undefined ? persistAll : persistBatches
  const receipts = await persist(region, records, options, output)
  const sha256 = createHash('sha256').update(content).digest('hex')
  const { packets, retransmissions, batches, bursts } = dpu.statistics()
  const { attach, slot, batch } = options
  const summary = {
    region: region.name,
    ...(attach !== undefined && { attached: attach }),
    firstSlot: slot,
    records: records.length,
    bytes: content.length,
    sha256,
    copies: Math.min(...receipts.map((receipt) => receipt.copies)),
    of: region.copies,
    requests: packets,
    retransmissions,
    ...(batch !== undefined && { batches, bursts }),
    latencyUs: latencies(receipts),
  }
  if (output.json) output.printJson(summary)
  else for (const line of summaryLines(summary)) output.print(line)
  return receipts
}

/** The whole file. Throws ArgumentError as soon as more has come than the slots have room for. */
async function contentOf(source: Readable, region: Region, firstSlot: number): Promise<Buffer> {
  const room = Math.max(0, region.slots - firstSlot) * region.capacity
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of source as AsyncIterable<Buffer>) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes > room) throw noRoom(region, firstSlot, `more than ${bytesText(room)}`)
  }
  return Buffer.concat(pieces)
}

function noRoom({ name, slots }: Region, firstSlot: number, what: string): ArgumentError {
  const where = firstSlot === 0 ? '' : ` from slot ${firstSlot} on`
  return new ArgumentError(`the file has ${what}; '${name}'${where} ends at ${slots - 1}`)
}

/** Cuts the content into records of the region; an empty file is one empty record. */
function split(content: Uint8Array, region: Region, firstSlot: number): Uint8Array[] {
  const { capacity, slots, name } = region
  const count = Math.max(1, Math.ceil(content.length / capacity))
  if (firstSlot + count > slots) throw noRoom(region, firstSlot, bytesText(content.length))
  if (region.fixedLength && content.length !== count * capacity) {
    throw new ArgumentError(`'${name}' takes whole records of ${capacity} bytes only`)
  }
  return Array.from({ length: count }, (_, i) => content.subarray(i * capacity, (i + 1) * capacity))
}

/** Shows the bytes of so many records, of all of them. */
function durableBytes(records: readonly Uint8Array[], output: Output): (count: number) => void {
  const total = records.reduce((bytes, record) => bytes + record.length, 0)
  const reached = output.progress('durable', total, 'bytes')
  return (count) => reached(Math.min(count * records[0]!.length, total))
}

async function persistAll(
  region: Region,
  records: readonly Uint8Array[],
  { slot, level, form }: Options,
  output: Output,
): Promise<Receipt[]> {
  const writes: Write[] = []
  const receipts: Receipt[] = []
  const reached = durableBytes(records, output)
  for (const record of records) {
    const durability = level === undefined ? {} : { durability: level }
    writes.push(region.persist(slot + writes.length, record, { form, ...durability }))
    if (writes.length - receipts.length >= AHEAD) {
      receipts.push(await writes[receipts.length]!.persisted)
      reached(receipts.length)
    }
  }
  while (receipts.length < writes.length) {
    receipts.push(await writes[receipts.length]!.persisted)
    reached(receipts.length)
  }
  return receipts
}

/**
 * One batch after the other. In order, what is durable after a cut is the beginning of the file.
 */
async function persistBatches(
  region: Region,
  records: readonly Uint8Array[],
  { slot, level, batch: condition = 'inOrder' }: Options,
  output: Output,
): Promise<Receipt[]> {
  const receipts: Receipt[] = []
  const reached = durableBytes(records, output)
  while (receipts.length < records.length) {
    const first = receipts.length
    const batch = region.batch({ condition, ...(level !== undefined && { durability: level }) })
    for (const record of records.slice(first, first + BATCH_RECORDS_MAX)) {
      batch.persist(slot + first + batch.length, record)
    }
    const outcome = await batch.commit()
    for (const record of outcome.records) {
      if (record.status !== 'durable') throw record.error
      receipts.push(record.receipt)
    }
    reached(receipts.length)
  }
  return receipts
}

interface Latencies {
  readonly half: number
  readonly most: number
  readonly longest: number
}

function latencies(receipts: readonly Receipt[]): Latencies {
  const sorted = receipts.map((receipt) => receipt.latencyUs).sort((a, b) => a - b)
  const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)]!
  return { half: at(0.5), most: at(0.99), longest: at(1) }
}

function summaryLines(summary: {
  region: string
  attached?: FarCard
  firstSlot: number
  records: number
  bytes: number
  sha256: string
  copies: number
  of: number
  requests: number
  retransmissions: number
  batches?: number
  bursts?: number
  latencyUs: Latencies
}): string[] {
  const { region, attached, firstSlot, records, batches, bursts, latencyUs } = summary
  const place = `'${region}'${attached === undefined ? '' : ` of ${attached.address}`}`
  // Over the queues of a host it is the card that makes them.
  const requests: [string, string][] =
    summary.requests === 0
      ? []
      : [['requests', `${summary.requests}, of them ${summary.retransmissions} repeated`]]
  return facts([
    ['durable', `${records} records, ${bytesText(summary.bytes)}, in ${place}`],
    ['slots', `${firstSlot} to ${firstSlot + records - 1}`],
    ['copies', `${summary.copies} of ${summary.of}`],
    ...requests,
    ...(batches === undefined ? [] : [['batches', `${batches}; bursts ${bursts}`] as const]),
    ['latency', `half within ${timeText(latencyUs.half)}, 99 % within ${timeText(latencyUs.most)}`],
    ['SHA-256', summary.sha256],
  ])
}
