/**
 * `perdure inspect TARGET`: what a part is, what it holds, how it is; with `--queues` what the card
 * does for the queues of its own host, with `--status` which memory is ready. Changes nothing.
 */

import type { Command } from 'commander'
import { ArgumentError } from '../../base/errors.ts'
import type { PartStatus, RegionInfo } from '../../control/part.ts'
import { engineOption, names, wholeNumber } from '../base/arguments.ts'
import { Output } from '../base/output.ts'
import { sayEnd, sayReport } from '../base/report.ts'
import { bytesText, facts, table } from '../base/table.ts'
import { TARGETS, withTarget } from '../base/target.ts'
import { inspectQueues } from './inspect-queues.ts'
import { inspectStatus } from './inspect-status.ts'

interface Options {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  readonly queues?: boolean
  readonly status?: boolean
  readonly region?: readonly string[]
  readonly most: number
}

export function addInspect(program: Command): void {
  program
    .command('inspect')
    .description('show what a part is and holds, its health, counters and recovery report')
    .argument('<target>', TARGETS)
    .option('--queues', "show the queues of the card's own host, and its context cache, instead")
    .option('--status', 'show which blocks of each region are ready, instead')
    .option('--region <name>', 'with --status: only this one; may be repeated', names)
    .option('--most <n>', 'with --queues: list at most so many', wholeNumber(0), 64)
    .addOption(engineOption())
    .option('--json', 'as one JSON object')
    .action(async (target: string, options: Options) => {
      process.exitCode = await lookOf(options)(target, options)
    })
}

function lookOf({ queues, status, region }: Options): typeof inspect {
  if (queues === true && status === true) {
    throw new ArgumentError('--queues and --status show different things: say one of the two')
  }
  if (region !== undefined && status !== true) {
    throw new ArgumentError('--region is for the map of blocks: say --status as well')
  }
  if (queues === true) return inspectQueues
  return status === true ? inspectStatus : inspect
}

async function inspect(target: string, { json = false, engine }: Options): Promise<number> {
  const output = new Output(json)
  const looking = { writes: false, anyState: true, engine }
  return await withTarget(target, looking, async ({ dpu }) => {
    const part = await dpu.status()
    const serving = part.state === 'serving' || part.state === 'failedClosed'
    const regions = serving ? await dpu.regions() : []
    const report = serving ? await dpu.report() : []
    const counters = await dpu.counters()
    if (json) {
      const shown = regions.map(({ key: _key, ...region }) => region)
      output.printJson({ target, part, regions: shown, report, counters })
    } else {
      for (const line of facts(partFacts(part, serving))) output.print(line)
      if (regions.length > 0) output.print('')
      if (regions.length > 0) for (const line of regionLines(regions)) output.print(line)
      output.print('')
      if (serving) sayReport(part, report, regions, (line, look) => output.print(line, look))
      const met = Object.entries(counters)
      output.print(met.length === 0 ? 'no faults met' : 'faults met since the start:')
      for (const line of met.length === 0 ? [] : facts(met)) output.print(`  ${line}`)
    }
    return sayEnd(output, target, part)
  })
}

/** What a record outlives that is acknowledged as durable. */
const DURABLE: Readonly<Record<PartStatus['durable'], string>> = {
  power: 'outlives the power',
  process: "outlives the card's process, NOT the power",
  nothing: 'nothing is',
}

const ACCESS: Readonly<Record<PartStatus['access'], string>> = {
  anybody: 'ANYBODY who reaches the card',
  peers: 'its peers, in sessions',
  unknown: 'not told',
}

function partFacts(part: PartStatus, serving: boolean): [string, string | number][] {
  const health = [
    ...(part.armed ? ['armed'] : ['NOT ARMED: nothing can be promised']),
    ...(part.outlivesPower ? [] : ['the memory does NOT outlive the power']),
    ...(part.saveFailed ? ['the last save FAILED'] : []),
  ]
  const always: [string, string | number][] = [
    ['state', part.fault === null ? part.state : `${part.state} (${part.fault})`],
    ['health', health.join(', ')],
    ['durable', DURABLE[part.durable]],
    ['who may come', ACCESS[part.access]],
    ['NVDIMM', bytesText(part.nvdimmBytes)],
    ['path MTU', `up to ${part.pathMtu} B`],
  ]
  if (!serving) return always
  return [
    ...always,
    ['device', part.deviceId],
    ['format', part.formatVersion],
    ['incarnation', part.incarnation],
    ['regions', part.regions],
    ['lost records', part.unsettled],
    ...workFacts(part),
    ['superblock', superblockText(part)],
    ...refusalFacts(part),
  ]
}

/** How the two pages are that say what the part is; without both, it takes no changes. */
function superblockText({ superblockPages, superblockMended }: PartStatus): string {
  const mended = superblockMended > 0 ? `, ${superblockMended} mended since the start` : ''
  if (superblockPages === 2) return `both pages whole${mended}`
  return `${superblockPages} of 2 pages whole: a page takes no stores; copy the part elsewhere`
}

/** Of a card with peers: who else was there. */
function refusalFacts({ access, refusals: { count, last } }: PartStatus): [string, string][] {
  if (access !== 'peers') return []
  if (last === null) return [['refused', 'nobody']]
  const when = `${last.secondsAgo} s ago`
  return [
    ['refused', `${count} calls and packets, the last as ${last.fault}: ${last.from}, ${when}`],
  ]
}

/** What is done in slices, and how much of it remains. */
function workFacts({ work }: PartStatus): [string, string][] {
  if (work === null) return []
  const { kind, region, done, total } = work
  return [
    [
      'under way',
      `${kind} region ${region}, ${bytesText(total - done)} of ${bytesText(total)} left`,
    ],
  ]
}

function servesText({ refuses, readOnly }: RegionInfo): string {
  if (refuses !== null) return `no writes (${refuses})`
  return readOnly ? 'read only' : 'read, write'
}

function regionLines(regions: readonly RegionInfo[]): string[] {
  const rows = regions.map((region) => [
    region.name,
    region.pair ? 'pair' : region.kind,
    region.slots,
    region.capacity,
    region.copies,
    region.fixedLength ? 'fixed' : 'any',
    region.unsettled,
    servesText(region),
  ])
  return table(['region', 'kind', 'slots', 'capacity', 'copies', 'length', 'lost', 'serves'], rows)
}
