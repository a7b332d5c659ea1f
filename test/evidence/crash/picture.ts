/**
 * Crashes to look at: a play, and of a violation the image that shows it, as a timeline
 * (host-driver/command/timeline/): what was pending at each point, what a cut there may leave, what
 * recovery makes of it.
 *
 * Invariant: a picture is plain data, for the page. It is made from a trace of the play, by the
 * code that makes the timeline of any card; what a cut may leave is started by the firmware.
 */

import { CardTrace } from '../../../boards/emulator/trace/card-trace.ts'
import type { Timeline } from '../../../host-driver/command/timeline/data.ts'
import { traceOf } from '../../../host-driver/command/timeline/read-trace.ts'
import { storyOf } from '../../../host-driver/command/timeline/story.ts'
import { explore } from '../../support/crash/explore.ts'
import {
  type Aim,
  aimOf,
  LEVELS,
  type Level,
  levelName,
  type Scenario,
} from '../../support/crash/scenario.ts'
import type { Tally } from '../stage.ts'
import { playOf } from './plays.ts'

export interface Picture {
  readonly picture: 'crash'
  readonly kind: string
  /** The level; of a violation the image. */
  readonly level: string
  /** Of a violation what plays it again: `STAGE ARGUMENT`. */
  readonly replay?: string
  readonly timeline: Timeline
}

/** Of the kinds of the crash stage, those that a picture can show. */
const PICTURED: readonly string[] = [
  'write over another',
  'write over a blank',
  'write over its own',
  'group of 2',
  'batch of 2',
  'overtaken in a burst',
  'overtaken by a burst',
  'repeated',
]

/** Images of a place that are shown, and places of which is told what a cut leaves. */
const SIZE = { images: 16, steps: 500 }

/** A point that no play has: it is played, and cut nowhere. */
const NOWHERE = { point: -1, image: 0, path: [] }

function timelineOf(scenario: Scenario, aim: Aim, said: { readonly violation?: string }): Timeline {
  const lines: string[] = []
  const trace = new CardTrace({ write: (line) => lines.push(line) })
  explore(scenario, { aim, trace })
  return storyOf(traceOf(lines.join('')), { title: scenario.name, ...SIZE, ...said }).timeline
}

/**
 * The timeline of the image that shows a violation, up to what the start made of it. There is none
 * where firmware that is broken does not come so far: the violation is what counts.
 */
export function timelineOfImage(
  scenario: Scenario,
  aim: string,
  violation: string,
): { readonly timeline?: Timeline } {
  try {
    return { timeline: timelineOf(scenario, aimOf(aim), { violation }) }
  } catch {
    return {}
  }
}

/** The picture of each kind at a level. */
export function picturesOf(level: Level, kinds: readonly string[] = PICTURED): Picture[] {
  return kinds.map((kind) => {
    const timeline = timelineOf(playOf(kind, level, 0), NOWHERE, {})
    return { picture: 'crash', kind, level: levelName(level), timeline }
  })
}

/** The picture of the first violation of a shard's tally, if it has one that plays again. */
export function withPicture(tally: Tally, stage: string, scenario: Scenario): Tally {
  const [first] = tally.described
  if (first === undefined) return tally
  const { what, replay } = first
  const aim = replay.slice(replay.lastIndexOf(' ') + 1)
  const { timeline } = timelineOfImage(scenario, aim, what)
  if (timeline === undefined) return tally
  const picture: Picture = {
    ...{ picture: 'crash', kind: scenario.name, level: aim, replay: `${stage} ${replay}` },
    timeline,
  }
  return { ...tally, pictures: [...tally.pictures, picture] }
}

export function allPictures(): Picture[] {
  return LEVELS.flatMap((level) => picturesOf(level))
}
