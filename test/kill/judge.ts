/**
 * The judge of a kill: every record, by READ through the board that came up again, and by the bytes
 * of its part, before that board touched them and after.
 *
 * Invariant: nothing here asks the firmware what a byte means. Layout and check code are
 * the oracle's (oracle.ts), and what a record must be is the ledger's.
 */

import { PerdureError, type Region } from '../../host-driver/index.ts'
import {
  copyAt,
  type RegionLayout,
  readSlot,
  readSuperblock,
  slotValid,
} from '../support/judges/oracle.ts'
import { type Entry, isAllowed, type Ledger, levelOf, TARGETS, versionOf } from './ledger.ts'

/** What must not be. */
export interface Violation {
  /**
   * 'missing': older than what was acknowledged. 'torn': no version at all. 'fewer': it is there,
   * in fewer copies than the answer said.
   */
  readonly kind: 'missing' | 'torn' | 'fewer'
  readonly by: 'read' | 'part after the kill' | 'part after recovery'
  readonly region: string
  readonly slot: number
  readonly what: string
}

/** What a part shows right behind a kill. */
interface Found {
  readonly violations: readonly Violation[]
  /** Copies that are no whole version: the kill struck inside their stores. */
  readonly tornCopies: number
  /** Records of which the copies differ: a commit was under way. */
  readonly underWay: number
}

/** The version that a copy holds, -1 where it is none: magic, place, data and check code. */
function versionInCopy(part: Uint8Array, region: RegionLayout, copy: number, entry: Entry): number {
  const at = copyAt(region, copy, entry.slot)
  const bytes = part.subarray(at, at + region.stride)
  return slotValid(bytes, region, entry.slot) ? versionOf(entry, readSlot(bytes).data) : -1
}

function versionsIn(part: Uint8Array, region: RegionLayout, entry: Entry): number[] {
  return Array.from({ length: region.copies }, (_, copy) =>
    versionInCopy(part, region, copy, entry),
  )
}

function shown(versions: readonly number[]): string {
  return versions.map((version) => (version < 0 ? 'torn' : `v${version}`)).join(', ')
}

/** Copies that the answer for that version promised. */
function promised(entry: Entry, version: number): number {
  return version === 0 ? 1 : Number(levelOf(entry, version)[0])
}

/** What is wrong with a record whose board is dead, or null. */
function wrongAfterKill(
  entry: Entry,
  versions: readonly number[],
): [Violation['kind'], string] | null {
  const { atLeast, begun } = entry
  const said = `copies ${shown(versions)}; v${atLeast} was acknowledged, v${begun} begun`
  const whole = versions.filter((version) => version >= 0)
  if (whole.length === 0) return ['torn', said]
  if (!whole.some((version) => isAllowed(entry, version))) return ['missing', said]
  if (whole.some((version) => version > atLeast && !isAllowed(entry, version))) {
    return ['torn', `${said}: what was never begun since`]
  }
  // Nothing newer touched it: as many copies as its level says.
  const alone = begun < entry.from || begun === atLeast
  const durable = whole.filter((version) => version === atLeast).length
  return alone && durable < promised(entry, atLeast) ? ['fewer', said] : null
}

function regionsIn(part: Uint8Array): Map<string, RegionLayout> {
  const regions = readSuperblock(part)?.regions ?? []
  return new Map(regions.map((region) => [region.name, region]))
}

/** Judges the bytes that a kill left. */
export function judgeAfterKill(part: Uint8Array, ledger: Ledger): Found {
  const regions = regionsIn(part)
  const violations: Violation[] = []
  let tornCopies = 0
  let underWay = 0
  for (const entry of ledger.entries) {
    const region = regions.get(entry.target.name)
    const where = {
      region: entry.target.name,
      slot: entry.slot,
      by: 'part after the kill' as const,
    }
    if (region === undefined) {
      const what = 'the region is not there'
      if (entry.atLeast > 0) violations.push({ ...where, kind: 'missing', what })
      continue
    }
    const versions = versionsIn(part, region, entry)
    tornCopies += versions.filter((version) => version < 0).length
    if (versions.some((version) => version !== versions[0])) underWay += 1
    const wrong = wrongAfterKill(entry, versions)
    if (wrong !== null) violations.push({ ...where, kind: wrong[0], what: wrong[1] })
  }
  return { violations, tornCopies, underWay }
}

/** Judges the bytes under a board that has recovered and rests: every copy, the version read. */
export function judgeRecovered(part: Uint8Array, ledger: Ledger): Violation[] {
  const regions = regionsIn(part)
  return ledger.entries.flatMap((entry) => {
    const region = regions.get(entry.target.name)
    const versions = region === undefined ? [] : versionsIn(part, region, entry)
    if (versions.length > 0 && versions.every((version) => version === entry.atLeast)) return []
    const what = `copies ${shown(versions)}; READ said v${entry.atLeast}`
    const isTorn = versions.length > 0 && versions.every((version) => version < 0)
    const kind = versions.includes(entry.atLeast) ? 'fewer' : isTorn ? 'torn' : 'missing'
    return [{ kind, by: 'part after recovery', region: entry.target.name, slot: entry.slot, what }]
  })
}

/** Ends of a READ that speak of the record; any other speaks of the way to it. */
const OF_THE_RECORD: readonly string[] = [
  'PERDURE_RECORD_LOST',
  'PERDURE_RECORD_CORRUPT',
  'PERDURE_REFUSED',
]

/**
 * Reads every record. What is right becomes the least that the ledger asks for from now on. Rejects
 * where a READ is not answered: that is said of no record.
 */
export async function judgeByRead(
  regions: readonly Region[],
  ledger: Ledger,
): Promise<Violation[]> {
  const violations: Violation[] = []
  const check = async (entry: Entry): Promise<void> => {
    const { region, slot, target } = entry
    const where = { region: target.name, slot, by: 'read' as const }
    const known = `v${entry.atLeast} was acknowledged, v${entry.begun} begun`
    try {
      const { data } = await regions[region]!.read(slot)
      const version = versionOf(entry, data)
      if (version < 0) violations.push({ ...where, kind: 'torn', what: `no version; ${known}` })
      else if (!isAllowed(entry, version)) {
        violations.push({ ...where, kind: 'missing', what: `v${version}; ${known}` })
      } else entry.atLeast = version
      entry.from = entry.begun + 1
    } catch (error) {
      if (!(error instanceof PerdureError && OF_THE_RECORD.includes(error.code))) throw error
      violations.push({ ...where, kind: 'missing', what: `${error.code}; ${known}` })
    }
  }
  for (const { name } of TARGETS) {
    await Promise.all(ledger.entries.filter(({ target }) => target.name === name).map(check))
  }
  return violations
}
