/**
 * `perdure demo [FILE]`: the main job before your eyes. `npm start` runs it.
 *
 * Invariant: it ends with 0 only if nothing that was acknowledged is lost, nothing torn was
 * returned, and the file that was read back has the hash of the file that was written.
 */

import { relative } from 'node:path'
import type { Command } from 'commander'
import { ArgumentError } from '../base/errors.ts'
import { type Durability, parseDurability } from '../way/durability.ts'
import { probability, size, wholeNumber } from './base/arguments.ts'
import { LOST, OK } from './base/exit-codes.ts'
import { Output } from './base/output.ts'
import { reportLines } from './base/report.ts'
import { checkFile } from './base/system-errors.ts'
import { type Cell, facts, table } from './base/table.ts'
import type { WritingCost } from './demo/cost.ts'
import type { DemoOptions, DemoResult } from './demo/result.ts'
import { runDemo } from './demo/run.ts'
import { makePage } from './timeline/timeline.ts'

interface Options {
  readonly cut?: number
  readonly seed: number
  readonly level?: string
  readonly copies?: number
  readonly loss: number
  readonly recordBytes: number
  readonly engine: 'quickjs' | 'node'
  readonly folder: string
  readonly json?: boolean
}

/** What is taken where nothing is said. */
const LOSS = 0
const RECORD_BYTES = 4096
const ENGINE = 'quickjs'
const FOLDER = 'perdure-demo'

/** More loss than this and a connection gives up before it gets through. */
const LOSS_MAX = 0.3

/** What the page of the demo shows of each place: the two ends, and little more. */
const PAGE = { images: 2, steps: 400 }

/** Lines of the recovery report that are printed; the others are counted. */
const REPORT_LINES = 12

export function addDemo(program: Command): void {
  program
    .command('demo')
    .description('persist a file through the emulated DPU, pull the plug, and look')
    .argument('[file]', 'the file; one of 4 MiB is made where none is named')
    .option('--cut <record>', 'record in whose commit the power goes; 0 for none', wholeNumber(0))
    .option('--seed <seed>', 'decides everything that looks like chance', wholeNumber(0), 4)
    .option('--level <WofN>', 'durable copies to wait for: 1of2, 2of2, 2of3 … (default 2of2)')
    .option('--copies <copies>', 'copies of each record, 2 to 4', wholeNumber(2))
    .option('--loss <p>', 'probability that a frame is lost, 0 to 0.3', probability, LOSS)
    .option('--record-bytes <bytes>', 'data in one record', size, RECORD_BYTES)
    .option('--engine <engine>', 'quickjs (the shipped bundle) or node', ENGINE)
    .option('--folder <folder>', 'where image and capture go', FOLDER)
    .option('--json', 'as one JSON object')
    .action(async (file: string | undefined, options: Options) => {
      process.exitCode = await demo(file, options)
    })
}

/** The level that `--level` and `--copies` ask for together. */
function levelOf({ level, copies }: Options): Durability {
  if (level === undefined) {
    const asked = `2of${copies ?? 2}`
    parseDurability(asked)
    return asked as Durability
  }
  const parsed = parseDurability(level)
  if (copies !== undefined && copies !== parsed.copies) {
    throw new ArgumentError(
      `--level ${level} is of ${parsed.copies} copies, --copies says ${copies}`,
    )
  }
  return level as Durability
}

async function demo(file: string | undefined, options: Options): Promise<number> {
  const output = new Output(options.json === true)
  if (options.loss > LOSS_MAX)
    throw new ArgumentError(`--loss ${options.loss}: at most ${LOSS_MAX}`)
  if (options.engine !== 'quickjs' && options.engine !== 'node') {
    throw new ArgumentError(`--engine ${String(options.engine)}: quickjs or node`)
  }
  if (options.recordBytes < 1 || options.recordBytes > 65536) {
    throw new ArgumentError(`--record-bytes ${options.recordBytes}: 1 to 64K`)
  }
  if (file !== undefined) checkFile(file)
  const asked: DemoOptions = {
    ...(file === undefined ? {} : { file }),
    ...(options.cut === undefined ? {} : { cut: options.cut }),
    folder: options.folder,
    seed: options.seed,
    level: levelOf(options),
    recordBytes: options.recordBytes,
    loss: options.loss,
    engine: options.engine,
    progress: (records) => output.progress('durable', records),
    say: (line) => output.say(line),
  }
  const result = await runDemo(asked)
  if (output.json) output.printJson(result)
  else show(output, result, again(file, options))
  // Behind all that is told: nobody waits for a page.
  await makePage(result.trace, result.timeline, PAGE)
  return result.ok ? OK : LOST
}

/** What plays the same again: every word that was said, and the seed. */
function again(file: string | undefined, options: Options): string {
  const { cut, level, copies, loss, recordBytes, engine, folder } = options
  const words = Object.entries({
    seed: options.seed,
    ...(cut !== undefined && { cut }),
    ...(level !== undefined && { level }),
    ...(copies !== undefined && { copies }),
    ...(loss !== LOSS && { loss }),
    ...(recordBytes !== RECORD_BYTES && { 'record-bytes': recordBytes }),
    ...(engine !== ENGINE && { engine }),
    ...(folder !== FOLDER && { folder }),
  }).map(([name, value]) => `--${name} ${value}`)
  return ['perdure demo', ...(file === undefined ? [] : [file]), ...words].join(' ')
}

function show(output: Output, result: DemoResult, again: string): void {
  if (result.recovery !== null) {
    const { status, entries, regions } = result.recovery
    output.print('Recovery', 'bold')
    for (const line of recoveryLines(result)) output.print(`  ${line}`)
    const lines = reportLines(entries.slice(0, REPORT_LINES), regions)
    for (const line of entries.length > 0 ? lines : []) output.print(`  ${line}`)
    const more = entries.length - REPORT_LINES
    if (more > 0) output.print(`  … and ${more} more; --json has them all`)
    output.print(`  incarnation ${status.incarnation} serves; ${status.unsettled} records are lost`)
    output.print('')
  }
  output.print('The run', 'bold')
  for (const line of facts(summary(result, again))) output.print(`  ${line}`)
  output.print('')
  for (const line of verdict(result)) output.print(line, result.ok ? 'bold' : 'red')
}

function recoveryLines({ recovery, writing }: DemoResult): string[] {
  const { status, entries } = recovery!
  const cases = new Map<string, number>()
  for (const entry of entries) {
    const name =
      entry.sourceCase === 0 ? `media (${entry.case})` : `case ${entry.sourceCase}, ${entry.case}`
    const done = entry.repaired ? 'made one' : entry.lost ? 'lost' : 'nothing to do'
    const key = `${name}\u0000${done}`
    cases.set(key, (cases.get(key) ?? 0) + 1)
  }
  const rows = [...cases].map(([key, count]): Cell[] => [...key.split('\u0000'), count])
  return [
    `${status.lanesActive} lanes were in flight; ${status.linesRead} lines were read, ` +
      `${status.recordsRepaired} records repaired`,
    `the driver found ${writing.foundDurable} of its records durable ` +
      `and sent ${writing.sentAgain} again`,
    ...(rows.length === 0 ? [] : table(['what the cut left', 'done', 'records'], rows)),
    '',
  ]
}

function number(value: number): string {
  return value.toLocaleString('en-US')
}

function perRecord(count: number, records: number): string {
  return `${number(count)}  (${(count / records).toFixed(3)} per record)`
}

function timesPayload(bytes: number, { payloadBytes }: WritingCost): string {
  return `${number(bytes)}, ${(bytes / Math.max(1, payloadBytes)).toFixed(3)} × the payload`
}

function summary(result: DemoResult, again: string): (readonly [string, Cell])[] {
  const { writing, records, cut } = result
  const acks = writing.acks + writing.persistAcks
  return [
    ['file', `${result.file}, ${number(result.fileBytes)} bytes`],
    [
      'records',
      `${number(records)} of up to ${number(result.recordBytes)} bytes, level ${result.level}`,
    ],
    ['requests on the wire', perRecord(writing.requests, records)],
    [
      'sent again',
      `${number(writing.retransmissions)} while no answer came, ${writing.sentAgain} after the cut`,
    ],
    [
      'acknowledgements',
      `${perRecord(acks, records)}, ${number(writing.persistAcks)} of them durable`,
    ],
    ['bytes on the wire', timesPayload(writing.bytesToDpu + writing.bytesToHost, writing)],
    ['fences', perRecord(writing.fences, records)],
    ['board calls', perRecord(writing.boardCalls, records)],
    ['bytes stored', timesPayload(writing.bytesStored, writing)],
    ['the cut', cutText(result)],
    [
      'acknowledged before it',
      cut === null
        ? '-'
        : `${number(result.acknowledgedBeforeCut)}, lost ${result.acknowledgedLost}`,
    ],
    [
      'scan at the end',
      `${number(result.scan.checked)} records checked, ${result.scan.repaired} repaired, ` +
        `${result.scan.lost} lost`,
    ],
    ['SHA-256 written', result.shaWritten],
    ['SHA-256 read back', result.shaRead],
    [
      'time',
      `${(result.virtualMs / 1000).toFixed(3)} s virtual, ` +
        `${(result.realMs / 1000).toFixed(2)} s real, engine ${result.engine}`,
    ],
    ['capture', `${here(result.capture)} (open it in Wireshark, or: perdure capture FILE)`],
    ['image', `${here(result.image)} (perdure inspect FILE)`],
    ['timeline', `${here(result.timeline)} (open it in a browser)`],
    ['again', again],
  ]
}

function cutText(result: DemoResult): string {
  const { cut } = result
  if (cut === null) return 'none'
  return (
    `inside the commit of ${hitText(result)}: ${number(cut.chunks)} chunks pending on ` +
    `${number(cut.lines)} lines, ${number(cut.chunksKept)} survived, ` +
    `${number(cut.linesTorn)} lines torn ` +
    `(${cut.mode}, ${cut.strategy})`
  )
}

/** The records whose commit the power cut short, as the lanes of the part name them, from 1. */
function hitText({ cutRecord, loss, recovery }: DemoResult): string {
  // Over a link that loses nothing the records come to their commits in their order.
  if (loss === 0) return `record ${cutRecord}`
  const lanes = (recovery?.entries ?? []).filter(({ lane }) => lane !== null)
  const records = lanes.map(({ record }) => record + 1)
  if (records.length === 0) return 'records that no lane named yet'
  const [first, last] = [Math.min(...records), Math.max(...records)]
  return first === last ? `record ${first}` : `records ${first} to ${last}`
}

function verdict(result: DemoResult): string[] {
  if (result.ok) {
    return ['Nothing acknowledged is lost, nothing torn was returned: the file is the same.']
  }
  const lines: string[] = []
  if (result.acknowledgedLost > 0)
    lines.push(`LOST: ${result.acknowledgedLost} acknowledged records`)
  if (result.torn > 0) lines.push(`TORN: ${result.torn} records could not be read back whole`)
  if (result.scan.lost > 0) lines.push(`LOST: ${result.scan.lost} records have no valid copy`)
  if (result.shaRead !== result.shaWritten) lines.push('DIFFERENT: the file is not the same')
  return lines
}

function here(path: string): string {
  const short = relative(process.cwd(), path)
  return short.startsWith('..') ? path : short
}
