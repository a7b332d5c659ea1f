/**
 * What an operator has to hear of a card: the difference of two looks, in words.
 *
 * Invariants:
 * - Each event is said once, when it is seen first. At the first look a card is compared with one
 *   that is well: what is wrong already is said then, and that all is well is not.
 * - What began and ended between two looks is not seen, except where the card counts it.
 * - A restart is no error of the card; what it has cost is said beside it, by the recovery.
 */

import type { PartStatus } from '../../control/part.ts'
import type { FirmwareSample } from './firmware.ts'
import type { EventName, Gravity, HealthEvent, Look } from './look.ts'
import { isOneLife } from './rates.ts'
import type { RegionSample, Sample } from './sample.ts'

/** What is compared. */
interface Compared {
  /** The look before, or null at the first one. */
  readonly before: Look | null
  /** The last sample that there was, however long ago. */
  readonly last: Sample | null
  readonly look: Look
}

/** Name, gravity and words of an event. */
type Found = readonly [event: EventName, gravity: Gravity, text: string]

/** Faults by which a card tells of its medium, in the words of an event. */
const OF_MEDIUM: Readonly<Record<string, string>> = {
  MEDIA: 'the medium did not take a record',
  UNREADABLE: 'the medium could not deliver or take bytes',
  FLUSH: 'a write-back failed: the part takes nothing more until it is started again',
}

export function eventsOf({ before, last, look }: Compared): HealthEvent[] {
  const { target, atMs } = look
  const found = look.up ? ofSample(before, last, look.sample) : ofAbsence(before, look.reason)
  return found.map(([event, gravity, text]) => ({ target, atMs, event, gravity, text }))
}

function ofAbsence(before: Look | null, reason: string): Found[] {
  return before?.up === false ? [] : [['gone', 'critical', reason]]
}

function ofSample(before: Look | null, last: Sample | null, now: Sample): Found[] {
  const isOne = last !== null && isOneLife(last, now)
  return [
    ...ofReturn(before, now),
    ...(isOne ? [] : ofStart(last, now)),
    ...ofPart(last?.part ?? null, now),
    ...ofMedium(isOne ? last : null, now),
    ...ofRegions(last?.regions ?? [], now.regions ?? []),
    ...ofFirmware(last?.firmware ?? null, now.firmware),
    ...(now.firmware === null && !last?.firmware ? ofTrial(last?.part ?? null, now.part) : []),
  ]
}

function ofReturn(before: Look | null, now: Sample): Found[] {
  if (before === null || before.up) return []
  const seconds = Math.max(0, Math.round((now.atMs - before.sinceMs) / 1000))
  return [['back', 'info', `the card answers again, after ${seconds} s`]]
}

/** A start of the part, or the first look at one: what has its recovery done? */
function ofStart(last: Sample | null, { part, recovery }: Sample): Found[] {
  const found: Found[] = []
  if (last !== null && last.part.deviceId !== part.deviceId) {
    found.push(['part', 'warning', `another part: ${part.deviceId}`])
  } else if (last !== null) {
    found.push(['restart', 'warning', `the card has started: incarnation ${part.incarnation}`])
  }
  const { recordsRepaired: repaired, lanesActive: lanes } = part
  const lost = recovery?.lost ?? 0
  if (repaired > 0 || lost > 0) {
    const words = `${lanes} lanes were in flight, ${repaired} records repaired, ${lost} lost`
    found.push(['recovery', lost > 0 ? 'critical' : 'info', `recovery of the last start: ${words}`])
  }
  return found
}

/** A card that is well, to compare with at the first look. */
const WELL: Pick<
  PartStatus,
  'state' | 'fault' | 'armed' | 'saveFailed' | 'onTrial' | 'unsettled' | 'superblockPages'
> = {
  ...{ state: 'serving', fault: null, armed: true, saveFailed: false, onTrial: false },
  ...{ unsettled: 0, superblockPages: 2 },
}

function ofPart(last: PartStatus | null, { part: now, isWhole }: Sample): Found[] {
  const was = last ?? WELL
  const isServing = now.state === 'serving'
  const found: [is: boolean, ...Found][] = [
    [
      was.state !== now.state || was.fault !== now.fault,
      'state',
      isServing ? 'info' : 'critical',
      isServing ? 'the part serves' : `the part is ${now.state} (${now.fault ?? 'no fault told'})`,
    ],
    [
      was.armed !== now.armed,
      'armed',
      now.armed ? 'info' : 'critical',
      now.armed ? 'the save energy is back' : 'the save energy is gone: nothing can be promised',
    ],
    [
      was.saveFailed !== now.saveFailed,
      'save',
      now.saveFailed ? 'critical' : 'info',
      now.saveFailed ? 'the last save of the NVDIMM failed' : 'the last save of the NVDIMM is good',
    ],
    [
      was.unsettled !== now.unsettled,
      'lost',
      now.unsettled > 0 ? 'critical' : 'info',
      now.unsettled > 0 ? `${now.unsettled} records are lost` : 'no record is lost any more',
    ],
    [
      isWhole && isServing && was.superblockPages !== now.superblockPages,
      'superblock',
      now.superblockPages < 2 ? 'warning' : 'info',
      `${now.superblockPages} of 2 superblock pages are whole`,
    ],
  ]
  return found.flatMap(([is, ...one]) => (is ? [one] : []))
}

/** `last`: of the same start, or null; then all is new that was met since it. */
function ofMedium(last: Sample | null, now: Sample): Found[] {
  const found: Found[] = []
  for (const [name, words] of Object.entries(OF_MEDIUM)) {
    const more = (now.faults?.[name] ?? 0n) - (last?.faults?.[name] ?? 0n)
    const since = last === null ? ' since the start' : ''
    if (more > 0n) found.push(['media', 'critical', `${words} (${name}), ${more} times${since}`])
  }
  return found
}

function ofRegions(last: readonly RegionSample[], now: readonly RegionSample[]): Found[] {
  return now.flatMap((region): Found[] => {
    const was = last.find(({ id, name }) => id === region.id && name === region.name)
    const { name, repaired } = region
    const [before, after] = [refusalOf(was), refusalOf(region)]
    const found: Found[] = []
    if (before !== after) {
      const isWell = after === null
      const words = isWell ? 'takes writes again' : `takes no writes (${after})`
      found.push(['region', isWell ? 'info' : 'critical', `region '${name}' ${words}`])
    }
    // A card that has started again counts from 0.
    const mended = repaired - (was !== undefined && was.repaired <= repaired ? was.repaired : 0)
    if (mended > 0) {
      const words = `${mended} records of region '${name}' had decayed copies, and are whole again`
      found.push(['mended', 'warning', words])
    }
    return found
  })
}

/** Why a region takes no writes; null where it does. */
function refusalOf(region: RegionSample | undefined): string | null {
  if (region === undefined) return null
  return region.refuses ?? (region.readOnly ? 'READ_ONLY' : null)
}

/** A port of SMP that does not answer for a while has told nothing new. */
function ofFirmware(last: FirmwareSample | null, now: FirmwareSample | null): Found[] {
  if (now === null) return []
  const name = now.version ?? 'what the card came with'
  if (now.onTrial && !(last?.onTrial === true && last.sha256 === now.sha256)) {
    const left =
      now.secondsLeft > 0 ? `: it goes back in ${now.secondsLeft} s unless it is confirmed` : ''
    return [['firmware', 'warning', `firmware ${name} is on trial${left}`]]
  }
  if (last === null || now.onTrial) return []
  if (last.onTrial && last.sha256 === now.sha256) {
    return [['firmware', 'info', `firmware ${name} is confirmed`]]
  }
  if (last.sha256 === now.sha256) return []
  const why = now.reason === '' ? '' : `: ${now.reason}`
  return [['firmware', 'warning', `firmware ${name} runs instead of ${last.version}${why}`]]
}

/** Where no port of SMP is named, the part alone tells of a trial. */
function ofTrial(last: PartStatus | null, now: PartStatus): Found[] {
  const was = last ?? WELL
  if (was.onTrial === now.onTrial) return []
  if (!now.onTrial) return [['firmware', 'info', 'the firmware that runs is on trial no more']]
  const words = 'the firmware is on trial: it goes back unless it is confirmed'
  return [['firmware', 'warning', words]]
}
