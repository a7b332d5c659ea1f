/**
 * `perdure inspect --status TARGET`: which blocks of each region are ready (source 5). It has the
 * DPU tell the status of one region after the other, as it is now, and changes nothing.
 *
 * Exit codes are those of every command; a region that the DPU does not tell of is listed with the
 * reason.
 */

import { PerdureError } from '../../base/errors.ts'
import type { RegionInfo } from '../../control/part.ts'
import type { Dpu } from '../../dpu.ts'
import type { BlockState, ResidencyStatus, StatusPhase } from '../../status/residency-status.ts'
import { Output } from '../base/output.ts'
import { serves } from '../base/part-text.ts'
import { sayEnd } from '../base/report.ts'
import { bytesText } from '../base/table.ts'
import { withTarget } from '../base/target.ts'

interface StatusOptions {
  readonly json?: boolean
  readonly engine?: 'quickjs' | 'node'
  /** Names of the regions that are shown; all that there are by default. */
  readonly region?: readonly string[]
}

/** What was told of one region, or why it was not. */
interface Shown {
  readonly name: string
  readonly kind: RegionInfo['kind']
  readonly phase: StatusPhase | 'untold'
  readonly health?: string
  readonly blockBytes?: number
  readonly ready?: number
  readonly notReady?: number
  readonly unknown?: number
  /** One letter per block: R ready, n not ready, ? unknown. */
  readonly map?: string
  readonly reason?: string
}

const LETTERS: Readonly<Record<BlockState, string>> = { ready: 'R', notReady: 'n', unknown: '?' }
const SHADES: Readonly<Record<string, string>> = { R: '█', n: '░', '?': '▒' }
const LEGEND = '█ ready  ░ not ready  ▒ unknown'
const BLOCKS_PER_LINE = 64

export async function inspectStatus(target: string, options: StatusOptions): Promise<number> {
  const { json = false, engine, region: names } = options
  const output = new Output(json)
  const looking = { writes: false, anyState: true, engine }
  return await withTarget(target, looking, async ({ dpu }) => {
    const part = await dpu.status()
    const regions: Shown[] = []
    const all = serves(part) ? (names ?? (await namesOf(dpu))) : []
    for (const name of all) regions.push(await look(dpu, name))
    if (json) output.printJson({ target, state: part.state, regions })
    else sayMaps(output, regions)
    return sayEnd(output, target, part)
  })
}

/** The regions of the part, and the memory of the card's host that is offered. */
async function namesOf(dpu: Dpu): Promise<string[]> {
  const regions = [...(await dpu.regions()), ...(await dpu.hostRegions())]
  return regions.map(({ name }) => name)
}

/** Watches the region for as long as it takes to be told its status. */
async function look(dpu: Dpu, name: string): Promise<Shown> {
  const records = await dpu.openRegion(name)
  const { kind } = records.info
  try {
    const region = kind === 'records' ? records : await dpu.openBytes(name)
    const watch = await region.watch()
    const shown = { name, kind, ...told(watch.status) }
    await watch.close()
    return shown
  } catch (error) {
    if (!(error instanceof PerdureError) || error.code !== 'PERDURE_REFUSED') throw error
    return { name, kind, phase: 'untold', reason: error.message }
  }
}

type View = Pick<
  ResidencyStatus<never>,
  'phase' | 'health' | 'blockBytes' | 'blocks' | 'readyBlocks' | 'stateOf'
>

function told(status: View): Omit<Shown, 'name' | 'kind'> {
  const { phase, health, blockBytes, blocks, readyBlocks } = status
  const map = Array.from({ length: blocks }, (_, i) => LETTERS[status.stateOf(i)]).join('')
  const notReady = map.split('n').length - 1
  const unknown = blocks - readyBlocks - notReady
  return { phase, health, blockBytes, ready: readyBlocks, notReady, unknown, map }
}

// ---- for people --------------------------------------------------------------------------------

function sayMaps(output: Output, regions: readonly Shown[]): void {
  if (regions.length === 0) {
    output.print('no regions')
    return
  }
  for (const region of regions) {
    for (const line of mapLines(region)) output.print(line)
    output.print('')
  }
  output.print(LEGEND)
}

function mapLines(region: Shown): string[] {
  const { name, kind, phase, health, map = '', blockBytes = 0, reason } = region
  if (reason !== undefined) return [`${name}  ${kind}: ${reason}`]
  const counts = `${region.ready} ready, ${region.notReady} not ready, ${region.unknown} unknown`
  const blocks = map.length === 1 ? '1 block' : `${map.length} blocks`
  const state = phase === 'ready' ? `health ${health}` : `${phase}, health ${health}`
  const head = `${name}  ${kind}, ${blocks} of ${bytesText(blockBytes)}: ${counts} (${state})`
  const offsets: string[] = []
  for (let at = 0; at < map.length; at += BLOCKS_PER_LINE) offsets.push(bytesText(at * blockBytes))
  const width = Math.max(...offsets.map((text) => text.length))
  const lines = offsets.map((text, i) => {
    const part = map.slice(i * BLOCKS_PER_LINE, (i + 1) * BLOCKS_PER_LINE)
    return `  ${text.padStart(width)}  ${[...part].map((letter) => SHADES[letter]).join('')}`
  })
  return [head, ...lines]
}
