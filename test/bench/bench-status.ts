/**
 * `npm run bench -- status [--json] [--svg FILE] [--seed N]`: what it is worth to be told which
 * memory is ready (source 5).
 *
 * Method. A host keeps half of the pages of a memory mapped, the rest in its swap file; another
 * host reads and writes them over frames, page by page (support/residency/paged-load.ts), round and
 * round, anywhere, or mostly in a hot spot that moves. The same list of accesses is done three
 * times: without notices, where the responder answers RNR until the page has come; with notices and
 * hints on the way of the access; and with hints ahead besides, from the program's queue of work.
 *
 * All of it is in virtual time, at the prices of the emulator (link.ts, swap.ts, pager.ts), so the
 * same seed gives the same figures on every machine. MB are millions of bytes.
 */

import { writeFileSync } from 'node:fs'
import { PAGE_BYTES } from '../../firmware/board/limits.ts'
import { takeWishes } from '../support/bench/bench-arguments.ts'
import { type Line, plotOf, ticksTo } from '../support/bench/plot.ts'
import { text } from '../support/bench/table.ts'
import {
  AHEAD,
  DEPTH,
  HINTED_TOGETHER,
  type LoadCost,
  MODES,
  type Mode,
  PATTERNS,
  type Pattern,
  runLoad,
  THINK_US,
  WRITES,
} from '../support/residency/paged-load.ts'

/** Pages of the memory, those of them that the host keeps mapped, and what is done with it. */
interface Size {
  readonly pages: number
  readonly frames: number
  readonly accesses: number
}

const SIZES: readonly Size[] = [
  { pages: 128, frames: 64, accesses: 2048 },
  { pages: 1024, frames: 512, accesses: 4096 },
]

const NAMES: Readonly<Record<Mode, string>> = {
  none: 'no notices',
  access: 'hints on access',
  ahead: 'hints ahead',
}

export interface StatusCost extends LoadCost {
  /** RNRs that were spared, of those without notices, %. */
  readonly cut: number
}

/** What the work of every pattern costs in every mode. */
export async function statusCosts(
  sizes: readonly Size[],
  patterns: readonly Pattern[],
  seed: number,
  tell: (what: string) => void = () => {},
): Promise<StatusCost[]> {
  const costs: StatusCost[] = []
  for (const size of sizes) {
    for (const pattern of patterns) {
      let without = 0
      for (const mode of MODES) {
        tell(`${size.pages} pages, ${pattern}, ${NAMES[mode]}`)
        const cost = await runLoad({ ...size, pattern, mode, seed })
        if (mode === 'none') without = cost.rnrs
        costs.push({ ...cost, cut: without === 0 ? 0 : 100 * (1 - cost.rnrs / without) })
      }
    }
  }
  return costs
}

/** So much of all accesses took no longer than this, µs. */
export function percentile(latencies: readonly number[], share: number): number {
  return latencies[Math.max(0, Math.ceil(latencies.length * share) - 1)]!
}

// ---- what must hold ----------------------------------------------------------------------------

const CUT_LEAST = 90
const FLOOR_PATTERNS: readonly Pattern[] = ['sequential', 'hot-spot']

interface StatusFloor {
  readonly what: string
  readonly value: number
  readonly least: number
  readonly ok: boolean
}

/** Notices with hints cut the RNRs of sequential and of hot-spot work. */
export function floorsOf(costs: readonly StatusCost[]): StatusFloor[] {
  return costs
    .filter(({ pattern, mode }) => mode !== 'none' && FLOOR_PATTERNS.includes(pattern))
    .map(({ pattern, mode, pages, cut }) => ({
      what: `RNRs cut, ${pattern}, ${NAMES[mode]}, ${pages} pages`,
      value: cut,
      least: CUT_LEAST,
      ok: cut >= CUT_LEAST,
    }))
}

// ---- what is shown -----------------------------------------------------------------------------

const HEAD = [
  ...['pattern', 'pages', 'notices and hints', 'faults', 'RNRs', 'cut', 'hints', 'notices'],
  ...['notice B/MB', 'hint B/MB', 'p50 µs', 'p90', 'p99', 'max', 'MB/s'],
]

function tableOf(costs: readonly StatusCost[]): string[][] {
  const rows = costs.map((cost) => [
    cost.pattern,
    String(cost.pages),
    NAMES[cost.mode],
    String(cost.faults),
    String(cost.rnrs),
    cost.mode === 'none' ? '' : `${cost.cut.toFixed(1)} %`,
    String(cost.hints),
    String(cost.notices),
    cost.noticeBytesPerMb.toFixed(0),
    cost.hintBytesPerMb.toFixed(0),
    ...[0.5, 0.9, 0.99, 1].map((share) => percentile(cost.latencies, share).toFixed(0)),
    cost.mbPerSecond.toFixed(1),
  ])
  return [HEAD, ...rows]
}

function methodLine(seed: number, costs: readonly StatusCost[]): string {
  const sizes = costs.map(({ pages, frames, accesses }) => sizeOf(pages, frames, accesses))
  return (
    `seed ${seed}; ${[...new Set(sizes)].join('; ')}; ${PAGE_BYTES} bytes each, ` +
    `${100 * WRITES} % of them writes, ${DEPTH} under way, ${THINK_US} µs of thought ` +
    `before each; hints ahead: by ${AHEAD} to ${AHEAD + HINTED_TOGETHER} accesses`
  )
}

function sizeOf(pages: number, frames: number, accesses: number): string {
  return `${accesses} accesses to ${pages} pages, ${frames} mapped`
}

function floorLines(floors: readonly StatusFloor[]): string {
  return floors
    .map(({ what, value, least, ok }) => {
      return `${ok ? 'ok    ' : 'MISSED'} ${what}: ${value.toFixed(1)} %, at least ${least} %`
    })
    .join('\n')
}

const COLORS = ['#d1495b', '#1b6ca8', '#3a7d44']

/** How long accesses took, a panel for each pattern, and the RNRs, of the first size. */
export function svgOf(all: readonly StatusCost[]): string {
  const { pages, frames } = all[0]!
  const costs = all.filter((cost) => cost.pages === pages)
  const patterns = PATTERNS.filter((one) => costs.some(({ pattern }) => pattern === one))
  const slowest = Math.max(...costs.map(({ latencies }) => latencies.at(-1)!))
  const fastest = Math.min(...costs.map(({ latencies }) => latencies[0]!))
  const xTicks = powersOfTen(fastest, slowest)
  const of = (pattern: Pattern, mode: Mode): StatusCost =>
    costs.find((cost) => cost.pattern === pattern && cost.mode === mode)!
  const panels = patterns.map((pattern) => ({
    title: `${pattern}, ${pages} pages, ${frames} mapped`,
    xLabel: 'µs of virtual time',
    yLabel: 'accesses that were served by then, %',
    yMax: 100,
    yTicks: [0, 20, 40, 60, 80, 100],
    xTicks,
    lines: MODES.map((mode, i) => lineOf(NAMES[mode], COLORS[i]!, of(pattern, mode).latencies)),
  }))
  const groups = patterns.map((pattern) => ({
    name: pattern,
    values: MODES.map((mode) => {
      const { rnrs, accesses } = of(pattern, mode)
      return Math.round((10_000 * rnrs) / accesses) / 10
    }),
  }))
  const yTicks = ticksTo(Math.max(1, ...groups.flatMap(({ values }) => values)))
  const bars = {
    title: 'RNRs',
    xLabel: '',
    yLabel: 'RNRs per 1,000 accesses',
    yMax: yTicks.at(-1)!,
    yTicks,
    groups,
  }
  return plotOf(panels, MODES.length, [bars])
}

function lineOf(name: string, color: string, latencies: readonly number[]): Line {
  const shares = [...Array.from({ length: 40 }, (_, i) => i / 40), 0.99, 1]
  const points = shares.map((share) => [percentile(latencies, share), 100 * share] as const)
  return { name, color, dashed: false, points }
}

function powersOfTen(least: number, most: number): number[] {
  const first = Math.floor(Math.log10(least))
  const last = Math.ceil(Math.log10(most))
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i))
}

// ---- the subcommand ----------------------------------------------------------------------------

/** Exit code 1 where a floor is missed. */
export async function benchStatus(args: readonly string[]): Promise<void> {
  const wishes = takeWishes(args, { seed: { standard: 1, least: 0 } }, ['svg'])
  if (wishes === null) {
    process.exitCode = 64
    return
  }
  const { seed, svg, json } = wishes
  const tell = (what: string): void => {
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${what}${what === '' ? '' : ' …'}`)
  }
  const costs = await statusCosts(SIZES, PATTERNS, seed, tell)
  tell('')
  const floors = floorsOf(costs)
  const ok = floors.every((floor) => floor.ok)
  if (svg !== undefined) writeFileSync(svg, svgOf(costs))
  const parts = [text(tableOf(costs)), methodLine(seed, costs), floorLines(floors)]
  const out = json
    ? JSON.stringify({ seed, pageBytes: PAGE_BYTES, ok, floors, costs: costs.map(plain) }, null, 2)
    : parts.join('\n\n')
  process.stdout.write(`${out}\n`)
  if (!ok) process.exitCode = 1
}

/** With percentiles instead of every latency. */
function plain({ latencies, ...cost }: StatusCost): object {
  const [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1].map((share) => percentile(latencies, share))
  return { ...cost, latencyUs: { p50, p90, p99, max } }
}
