/**
 * `npm run bench:native [-- --json] [--seconds N] [--long] [--against CHECKOUT]`: perdured against
 * a C program of the same duty (`boards/linux/bench/duty.c`), in one run: first with a link that
 * costs nothing (bench-inside.ts), then over the same packet path; beside them a plain echo in C,
 * the floor of the path. Between the two stands what a guard costs (bench-guards.ts), what a
 * trusted doorbell saves (bench-rings.ts), and what tags cost and a flood of forged packets does
 * (bench-tags.ts), all on perdured alone.
 *
 * Method of the path: a load in C sends records over UDP and checks every acknowledgement. The
 * three servers take turns, round by round, and a ratio is the median over the rounds of that of
 * neighbours, so that what else the machine does strikes both. Per record also the server's own CPU
 * time. A second build of perdured, with clocks between its parts, says where the time goes.
 *
 * `npm run bench:native -- --learn [--install]` measures nothing: a third build of perdured, which
 * notes what it sees, carries out the same loads for a short while and serves the driver a little
 * of everything (`support/native/load/usage.ts`). What it saw becomes
 * `boards/linux/firmware.profile`, by which the build translates from then on.
 *
 * Exit codes: 0 every floor holds, or the profile is written; 1 a floor is broken; 64 a wrong
 * command line, or it cannot run here.
 */

import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { type BenchPrograms, compileBench } from '../../../boards/linux/bench/compile.ts'
import type { RuntimeOptions } from '../../../boards/linux/compile.ts'
import { PROFILE, ROOT } from '../../../boards/linux/engine.ts'
import { mergeProfiles } from '../../../boards/linux/profile.ts'
import { Trouble } from '../../../boards/tools/debian/programs.ts'
import { hasHelped } from '../../support/bench/bench-arguments.ts'
import { median, text } from '../../support/bench/table.ts'
import { ask, buildOf, type Counts, type LoadResult, Rig } from '../../support/native/load/rig.ts'
import { TaggedRig } from '../../support/native/load/tagged-rig.ts'
import { useCard } from '../../support/native/load/usage.ts'
import { benchGuards, guardTable } from './bench-guards.ts'
import { benchInside, insideTable } from './bench-inside.ts'
import { benchRings, ringTable, type StagesTold } from './bench-rings.ts'
import { benchTags, floodTable, tagCostTable } from './bench-tags.ts'

const ROUNDS = 9

/** Records of one case that are looked at, alone and in bursts. */
const LEARNED = { alone: 1000, burst: 4000 }
/**
 * A number that is drawn at power-on, like a region's rkey, is a whole number of QuickJS or a float
 * by chance: so each case is seen with so many powers-on.
 */
const LEARNED_RUNS = 8
const PROFILE_HEAD = `\
# What was seen of the firmware, operation by operation, under the loads of bench:native and with a
# driver. The build translates by it: boards/linux/README.md, The firmware, translated. Made again,
# never edited:
#
#     npm run bench:native -- --learn
#
# It is only a hint: an old one costs speed, and changes nothing that the firmware does.
# A line is NAME HASH BYTES of a function, then OFFSET:MASK (boards/linux/aot/seen.h), in hex.
`

/** What is measured, and the floor that it is held to: so much of the C program's. */
const CASES: readonly { bytes: number; burst: number; window: number; floor: number }[] = [
  { bytes: 64, burst: 1, window: 1, floor: 1.25 },
  { bytes: 4096, burst: 1, window: 1, floor: 1.25 },
  { bytes: 64, burst: 32, window: 64, floor: 0.5 },
  { bytes: 4096, burst: 32, window: 64, floor: 0.7 },
]

interface Row {
  readonly bytes: number
  readonly burst: number
  /** Medians of the rounds: per record ns of a round trip, or records per second. */
  readonly perdured: number
  readonly c: number
  readonly echo: number
  readonly ratio: number
  readonly floor: number
  readonly holds: boolean
  /** CPU time of the server per record, ns. */
  readonly perduredCpuNs: number
  readonly cCpuNs: number
}

/** What one round is worth: ns of a round trip, or records per second. */
function worth(result: LoadResult, burst: number): number {
  return burst === 1 ? result.medianNs : result.records / result.seconds
}

interface Measured extends Row {
  readonly window: number
  readonly boardCallsPerRecord: number
  readonly fencesPerRecord: number
  readonly commandsPerRecord: number
  readonly heapBefore: number
  readonly heapAfter: number
}

async function measure(
  programs: BenchPrograms,
  folder: string,
  { bytes, burst, window, floor }: (typeof CASES)[number],
  seconds: number,
): Promise<Measured> {
  const rig = new Rig(programs, folder, bytes)
  await rig.start(programs.perdured, false)
  const trial = await rig.load(0, 2000, burst, window)
  for (const i of [1, 2]) await rig.load(i, 2000, burst, window)
  const each = Math.max(500, Math.round((trial.records / trial.seconds) * (seconds / ROUNDS)))
  const heapBefore = await heapOf(rig)
  const before = (await ask(rig.console, 'counters')) as unknown as Counts
  const rounds: LoadResult[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const results: LoadResult[] = []
    // Who is first changes, so that a machine that slows down strikes nobody more than another.
    for (let k = 0; k < 3; k++)
      results[(k + round) % 3] = await rig.load((k + round) % 3, each, burst, window)
    rounds.push(results)
  }
  const after = (await ask(rig.console, 'counters')) as unknown as Counts
  const heapAfter = await heapOf(rig)
  await rig.close()
  const records = ROUNDS * each
  const of = (i: number): number => median(rounds.map((round) => worth(round[i]!, burst)))
  const cpu = (i: number): number => median(rounds.map((round) => round[i]!.cpuNs))
  const ratio = median(rounds.map((round) => worth(round[0]!, burst) / worth(round[1]!, burst)))
  return {
    ...{ bytes, burst, window, ratio, floor },
    holds: burst === 1 ? ratio <= floor : ratio >= floor,
    ...{ perdured: of(0), c: of(1), echo: of(2), perduredCpuNs: cpu(0), cCpuNs: cpu(1) },
    boardCallsPerRecord: (after.machine.runs - before.machine.runs) / records,
    fencesPerRecord: (after.machine.fences - before.machine.fences) / records,
    commandsPerRecord: (after.machine.commands - before.machine.commands) / records,
    ...{ heapBefore, heapAfter },
  }
}

async function heapOf(rig: Rig): Promise<number> {
  return Number((await ask(rig.console, 'status')).heapBytes)
}

interface Stages {
  readonly bytes: number
  readonly burst: number
  /** ns per record. */
  readonly ns: Readonly<Record<string, number>>
}

/** Where perdured's time goes; the clocks cost some 20 ns for every call that they are around. */
async function stagesOf(
  programs: BenchPrograms,
  folder: string,
  { bytes, burst, window }: (typeof CASES)[number],
): Promise<Stages> {
  const file = join(folder, 'stages')
  const rig = new Rig(programs, folder, bytes)
  await rig.start(programs.timed, true, { PERDURE_STAGES: file })
  const records = burst === 1 ? 5000 : 100_000
  await rig.load(0, records, burst, window)
  await rig.close()
  const { ring: _, rings: __, ...ns } = JSON.parse(readFileSync(file, 'utf8')) as StagesTold
  return { bytes, burst, ns }
}

interface Flatness {
  readonly records: number
  readonly heapBefore: number
  readonly heapAfter: number
}

/** What the firmware's heap holds before and after so many records of 64 bytes. */
async function flatness(
  programs: BenchPrograms,
  folder: string,
  records: number,
): Promise<Flatness> {
  const rig = new Rig(programs, folder, 64)
  await rig.start(programs.perdured, true)
  await rig.load(0, 20_000, 32, 64)
  const heapBefore = await heapOf(rig)
  for (let done = 0; done < records; done += 500_000) await rig.load(0, 500_000, 32, 64)
  const heapAfter = await heapOf(rig)
  await rig.close()
  return { records, heapBefore, heapAfter }
}

/** What a build that notes it saw of one case, as the text of a profile. */
async function seenOf(
  programs: BenchPrograms,
  folder: string,
  { bytes, burst, window }: (typeof CASES)[number],
  seed: number,
): Promise<string> {
  const file = join(folder, 'profile')
  rmSync(file, { force: true })
  const rig = new Rig(programs, folder, bytes)
  await rig.start(programs.perdured, true, { AOT_PROFILE: file })
  await rig.load(0, burst === 1 ? LEARNED.alone : LEARNED.burst, burst, window)
  await useCard(rig.port, seed)
  await rig.close()
  return textOf(file, programs)
}

/** What the build that notes it saw left there. */
function textOf(file: string, programs: BenchPrograms): string {
  if (!existsSync(file)) throw new Trouble(`${programs.perdured} did not say what it saw`)
  return readFileSync(file, 'utf8')
}

/** The same of a card with peers: records with tags, and a short flood of forged ones. */
async function seenOfTags(programs: BenchPrograms, folder: string): Promise<string> {
  const file = join(folder, 'profile')
  rmSync(file, { force: true })
  const build = buildOf(programs.perdured, programs.signed.trust)
  const rig = await TaggedRig.start(programs, build, folder, 64, { AOT_PROFILE: file })
  const way = 'tagged'
  await rig.load({ way, records: LEARNED.alone, burst: 1, window: 1 })
  await rig.load({ way, records: LEARNED.burst, burst: 32, window: 64 })
  for (const forgery of ['untagged', 'wrong tag'] as const) {
    const flood = await rig.flood(forgery)
    await flood.end()
  }
  await rig.close()
  return textOf(file, programs)
}

/** Writes the profile again, whole or not at all. */
async function learn(options: RuntimeOptions, folder: string): Promise<void> {
  const programs = compileBench({ ...options, learns: true })
  const texts: string[] = []
  for (let run = 0; run < LEARNED_RUNS; run++) {
    for (const one of CASES) texts.push(await seenOf(programs, folder, one, run + 1))
    texts.push(await seenOfTags(programs, folder))
  }
  const profile = mergeProfiles(texts)
  const count = profile.split('\n').length - 1
  if (count === 0) throw new Trouble('nothing was seen of the firmware')
  const aside = `${PROFILE}.${process.pid}`
  writeFileSync(aside, PROFILE_HEAD + profile)
  renameSync(aside, PROFILE)
  options.say(`${relative(ROOT, PROFILE)}: what was seen of ${count} functions`)
}

function rowsTable(rows: readonly Measured[]): string[][] {
  const head = ['bytes', 'burst', '', 'perdured', 'C', 'echo', 'ratio', 'floor', '']
  const more = ['CPU µs', 'C CPU µs', 'calls', 'fences', 'commands']
  const cells = rows.map((row) => {
    const isTrip = row.burst === 1
    const number = (value: number): string =>
      isTrip ? (value / 1000).toFixed(1) : Math.round(value).toLocaleString('en-US')
    return [
      String(row.bytes),
      String(row.burst),
      isTrip ? 'µs' : 'records/s',
      ...[row.perdured, row.c, row.echo].map(number),
      row.ratio.toFixed(2),
      `${isTrip ? '≤' : '≥'} ${row.floor.toFixed(2)}`,
      row.holds ? 'holds' : 'BROKEN',
      ...[row.perduredCpuNs, row.cCpuNs].map((ns) => (ns / 1000).toFixed(2)),
      ...[row.boardCallsPerRecord, row.fencesPerRecord].map((count) => count.toFixed(3)),
      row.commandsPerRecord.toFixed(1),
    ]
  })
  return [[...head, ...more], ...cells]
}

function stagesTable(all: readonly Stages[]): string[][] {
  const names = Object.keys(all[0]!.ns)
  const rows = all.map(({ bytes, burst, ns }) => [
    String(bytes),
    String(burst),
    ...names.map((name) => String(Math.round(ns[name]!))),
  ])
  return [['bytes', 'burst', ...names], ...rows]
}

function heapLine({ records, heapBefore, heapAfter }: Flatness): string {
  const count = records.toLocaleString('en-US')
  return `firmware heap over ${count} records: ${heapBefore} -> ${heapAfter} bytes`
}

interface Wishes {
  /** Of each case. */
  readonly seconds: number
  readonly json: boolean
  readonly long: boolean
  /** Another checkout to measure against. */
  readonly against: string | null
}

async function bench(
  programs: BenchPrograms,
  folder: string,
  { seconds, json, long, against }: Wishes,
  say: (line: string) => void,
): Promise<boolean> {
  const inside = await benchInside(programs, folder, { seconds, against }, say)
  const guards = await benchGuards(programs, folder, seconds, say)
  const rings = await benchRings(programs, folder, say)
  const tags = await benchTags(programs, folder, seconds, say)
  const rows: Measured[] = []
  const stages: Stages[] = []
  for (const one of CASES) {
    say(`${one.bytes} bytes, burst ${one.burst} …`)
    rows.push(await measure(programs, folder, one, seconds))
    stages.push(await stagesOf(programs, folder, one))
  }
  const heap = await flatness(programs, folder, long ? 10_000_000 : 500_000)
  const parts = [
    text(insideTable(inside)),
    text(guardTable(guards)),
    text(ringTable(rings)),
    text(tagCostTable(tags.costs)),
    text(floodTable(tags.floods)),
    text(rowsTable(rows)),
    `ns per record\n${text(stagesTable(stages))}`,
  ]
  const out = json
    ? JSON.stringify({ level: '2of2', inside, guards, rings, tags, rows, stages, heap }, null, 2)
    : [...parts, heapLine(heap)].join('\n\n')
  process.stdout.write(`${out}\n`)
  const held = [...inside, ...guards, ...rings, ...tags.costs, ...tags.floods, ...rows]
  return held.every(({ holds }) => holds) && heap.heapAfter <= heap.heapBefore * 1.001
}

const HELP = `Usage: npm run bench:native -- [options]

measures perdured against a C program of the same duty

Options:
  --json                the figures as JSON
  --seconds <n>         of each case (default: 3)
  --long                10 million records before the heap is looked at again
  --against <checkout>  and against perdured of another checkout
  --learn               measures nothing: boards/linux/firmware.profile again
  --install             installs the Debian packages that are missing
  -h, --help            this

Exit codes: 0 every floor holds, or the profile is written; 1 a floor is broken;
64 a wrong command line, or it cannot run here
`

async function main(): Promise<boolean> {
  if (hasHelped(process.argv.slice(2), HELP)) return true
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      long: { type: 'boolean', default: false },
      install: { type: 'boolean', default: false },
      learn: { type: 'boolean', default: false },
      against: { type: 'string' },
      seconds: { type: 'string', default: '3' },
    },
  })
  const seconds = Number(values.seconds)
  if (!(seconds > 0)) throw new Trouble('--seconds takes a number above 0')
  const say = (line: string): void => void process.stderr.write(`perdure: ${line}\n`)
  const architecture = process.arch === 'arm64' ? 'arm64' : 'x86-64'
  const { json, long, install } = values
  const options = { architecture, sanitize: false, dropFlush: false, install, say } as const
  const folder = mkdtempSync(join(tmpdir(), 'perdure-native-'))
  try {
    if (!values.learn) {
      const wishes = { seconds, json, long, against: values.against ?? null }
      return await bench(compileBench(options), folder, wishes, say)
    }
    await learn(options, folder)
    return true
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

try {
  if (!(await main())) process.exitCode = 1
} catch (error) {
  const isUsage = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
  if (!(error instanceof Trouble) && !isUsage) throw error
  process.stderr.write(`bench:native: ${(error as Error).message}\n`)
  process.exitCode = 64
}
