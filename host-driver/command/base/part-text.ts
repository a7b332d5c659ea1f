/** A part and its regions, for people. */

import type { PartStatus, RegionInfo } from '../../control/part.ts'
import { bytesText, table } from './table.ts'

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

/** Whether its regions are there, to be read at least. */
export function serves({ state }: Pick<PartStatus, 'state'>): boolean {
  return state === 'serving' || state === 'failedClosed'
}

/** What there is to say of a part; of one that does not serve, less. */
export function partFacts(part: PartStatus): [string, string | number][] {
  const health = [
    ...(part.armed ? ['armed'] : ['NOT ARMED: nothing can be promised']),
    ...(part.outlivesPower ? [] : ['the memory does NOT outlive the power']),
    ...(part.saveFailed ? ['the last save FAILED'] : []),
    ...(part.onTrial ? ['the firmware is ON TRIAL'] : []),
  ]
  const always: [string, string | number][] = [
    ['state', part.fault === null ? part.state : `${part.state} (${part.fault})`],
    ['health', health.join(', ')],
    ['durable', DURABLE[part.durable]],
    ['who may come', ACCESS[part.access]],
    ['NVDIMM', bytesText(part.nvdimmBytes)],
    ['path MTU', `up to ${part.pathMtu} B`],
  ]
  if (!serves(part)) return always
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

/** What a region serves, and if not all, why. */
export function servesText({
  refuses,
  readOnly,
}: Pick<RegionInfo, 'refuses' | 'readOnly'>): string {
  if (refuses !== null) return `no writes (${refuses})`
  return readOnly ? 'read only' : 'read, write'
}

/** The table of regions. */
export function regionLines(regions: readonly RegionInfo[]): string[] {
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
