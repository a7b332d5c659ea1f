/**
 * One scenario, every crash of it: what the crash stage plays, and what others build on.
 *
 * `exploreOnce(scenario, look)` plays the scenario on a part of its own and cuts it at every point,
 * in every way; see test/support/crash/ for what that means. A scenario is plain functions on an
 * actor; a mutant of the firmware is seen by calling it in a bundle of its own.
 *
 * Invariant: the same scenario and look give the same result, and every witness has an aim,
 * by which `tellOne` plays that one image again.
 */

import { explore } from '../../support/crash/explore.ts'
import { aimOf, type Findings, type Look, type Scenario } from '../../support/crash/scenario.ts'
import { NOTHING, type Replayed, type Tally, type Violation } from '../stage.ts'
import { timelineOfImage } from './picture.ts'

/** What came of it, in short; `findings` has it all. */
interface Explored {
  readonly violations: number
  /** The first few violations, as sentences, and of each the image, as `tellOne` takes it. */
  readonly witnesses: readonly string[]
  readonly aims: readonly string[]
  /** Concrete images booted: of the scenario, of its recoveries, and with media errors. */
  readonly images: number
  readonly distinct: number
  readonly findings: Findings
}

/** Beside the first of each class, one image in so many is booted the whole way as well. */
const CHECK_EACH = 1024

export function exploreOnce(scenario: Scenario, look: Look = {}): Explored {
  const findings = explore(scenario, { checkEach: CHECK_EACH, ...look })
  const { violations, witnesses, aims, distinct } = findings
  const images = findings.images + findings.nested + findings.withMediaError
  return { violations, witnesses, aims, images, distinct, findings }
}

/** Plays one image of a scenario again, and tells what happens. */
export function tellOne(scenario: Scenario, aim: string, look: Look = {}): Replayed {
  const found = explore(scenario, { ...look, aim: aimOf(aim) })
  const verdict =
    found.violations > 0
      ? found.witnesses.map((witness) => `OBJECTION  ${witness}`)
      : ['all is well']
  const [what] = found.witnesses
  return {
    violated: found.violations > 0,
    ...(what === undefined ? {} : timelineOfImage(scenario, aim, what)),
    text: [scenario.name, ...found.story, ...verdict].join('\n'),
  }
}

/**
 * The same as the tally of a shard. `replay` is what the stage needs before the aim to find the
 * scenario again.
 */
export function tallyOf(explored: Explored, shard: string, replay: string): Tally {
  const { violations, witnesses, aims, images, distinct, findings } = explored
  const described = witnesses.map((what, i): Violation => {
    return { shard, what: `${findings.scenario}: ${what}`, replay: `${replay} ${aims[i]}` }
  })
  return {
    ...NOTHING,
    count: images,
    distinct,
    violations,
    described,
    more: {
      'crash points': findings.points,
      'images of cut recoveries': findings.nested,
      'images with a media error': findings.withMediaError,
      'losses, all said': findings.losses,
      'operations forgotten with their line': findings.forgotten,
      'boots of the whole card beside': findings.compared,
    },
    cells: Object.fromEntries(findings.cells),
  }
}
