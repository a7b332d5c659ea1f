/**
 * What is explored, and what was found: a scenario is played by an actor, and cut at every point.
 */

import type { CutMode } from '../../../boards/emulator/medium/pieces.ts'
import type { CardTrace } from '../../../boards/emulator/trace/card-trace.ts'
import { dataOf, type RegionShape } from '../cards/test-card.ts'
import type { Actor } from './actor.ts'
import type { Damage } from './damage.ts'

/** A media error at the instant of the cut, and what it may do. */
export interface MediaError {
  /**
   * In any line of a copy that was written; in a lane or a page of the superblock; in a line of the
   * operation table.
   */
  readonly lines: 'copies' | 'metadata' | 'table'
  /** Only where the record is acknowledged with two copies, and nothing of it is in flight. */
  readonly later?: boolean
  /** The record may be lost if that is said; what is read is never older than acknowledged. */
  readonly mayLose?: boolean
}

export interface Scenario {
  readonly name: string
  readonly shape?: RegionShape
  /** Brings the part to where the exploration begins. */
  readonly before?: (actor: Actor) => void
  /** What is cut at every point. */
  readonly during: (actor: Actor) => void
  readonly damage?: Damage
  /** Each image is visited again with each of these media errors, one line at a time. */
  readonly mediaErrors?: readonly MediaError[]
  /** Cuts the recovery of the first image of each class, and of those recoveries again: depth. */
  readonly nested?: number
  /** Visits so many images of a point of a cut recovery, at the most. */
  readonly nestedSample?: number
  /** Visits so many images of a point at the most, chosen by the seed. */
  readonly sample?: number
  /** Visits the points of that name only. */
  readonly only?: string
  /** Boots so many images of each class at a point at the most: the first ones. */
  readonly perClass?: number
  /**
   * Slots of a batch in order, first to last: of the versions that are the newest, those that are
   * there after a recovery are the first ones (X-5, P4-13).
   */
  readonly inOrder?: readonly number[]
  /** What the adversary may choose between; 'chunk' if absent. */
  readonly mode?: CutMode
  /**
   * The lines of the operation table are cut as everything else is. Otherwise they are there wholly
   * or not at all: that a torn one counts as absent is shown where this is set.
   */
  readonly fineTable?: boolean
  /** Likewise the lanes are there wholly or not at all; of a phase word that says nothing less. */
  readonly wholeLanes?: boolean
  /**
   * Only this record's copies and lane are cut into chunks; every line of another one is there
   * wholly or not at all. Records on different lines commute (crash-model 2.4, R3): so each has
   * every subset beside every class of the others, and not their product.
   */
  readonly fineRecord?: number
  /** Where the keys of the part come from: two entropies have no image in common. */
  readonly entropy?: number
}

/** How a scenario is looked at. */
export interface Look {
  /** Seed of the samples; SEED if absent. */
  readonly seed?: number
  /**
   * Beside the first image of each class at each point, one in so many is booted the whole way,
   * too, and everything compared with the lean boot.
   */
  readonly checkEach?: number
  /** Looks at this image alone, and tells its story. */
  readonly aim?: Aim
  /** Writes down what happens from the exploration on; with an aim, up to what became of it. */
  readonly trace?: CardTrace
}

/** One image: the point, its number there, and of each cut recovery the command and the image. */
export interface Aim {
  readonly point: number
  readonly image: number
  readonly path: readonly (readonly [number, number])[]
  /** The line that has a media error, if one has. */
  readonly line?: number
}

/** As text: `12.345/30.2!141`. */
export function aimText({ point, image, path, line }: Aim): string {
  const nested = path.map(([command, at]) => `/${command}.${at}`).join('')
  return `${point}.${image}${nested}${line === undefined ? '' : `!${line}`}`
}

export function aimOf(text: string): Aim {
  const [places = '', line] = text.split('!')
  const pairs = places.split('/').map((pair): readonly [number, number] => {
    const [one, other] = pair.split('.').map(Number)
    if (!Number.isInteger(one) || !Number.isInteger(other)) {
      throw new RangeError(`no image: ${text}`)
    }
    return [one!, other!]
  })
  const [[point, image], ...path] = pairs as [readonly [number, number]]
  return { point, image, path, ...(line === undefined ? {} : { line: Number(line) }) }
}

/** How often one class of images was met, and what recovery made of it. */
export interface ClassCount {
  images: number
  /** Rows of the recovery table, -1 where there was no line in the report. */
  readonly rows: Set<number>
}

export interface Findings {
  readonly scenario: string
  points: number
  /** Images that differ, and how many subsets of the pending chunks they stand for. */
  images: number
  subsets: number
  /** Images that differ at the points, visited or not. */
  possible: number
  boots: number
  /** Images left by a cut of a recovery, not counting those that were judged before. */
  nested: number
  nestedRepeated: number
  /** Images with a media error, and how many of them ended in a loss that was said. */
  withMediaError: number
  losses: number
  /** Operations that nobody knew any more behind a media error in the operation table. */
  forgotten: number
  /** Images that differ from every other one of this exploration, those of recoveries included. */
  distinct: number
  /** Boots of the whole card, with which lean ones were compared. */
  compared: number
  readonly classes: Map<string, ClassCount>
  /** How often each class was met at each point: `before F2: lane 0 A, record 0 torn/old`. */
  readonly cells: Map<string, number>
  violations: number
  /** The first few. */
  readonly witnesses: string[]
  /** Of each witness, the image: `aimOf`. */
  readonly aims: string[]
  /** Of the image that was aimed at. */
  readonly story: string[]
  milliseconds: number
}

export function blankFindings(scenario: string): Findings {
  return {
    scenario,
    points: 0,
    images: 0,
    subsets: 0,
    possible: 0,
    boots: 0,
    nested: 0,
    nestedRepeated: 0,
    withMediaError: 0,
    losses: 0,
    forgotten: 0,
    distinct: 0,
    compared: 0,
    classes: new Map(),
    cells: new Map(),
    violations: 0,
    witnesses: [],
    aims: [],
    story: [],
    milliseconds: 0,
  }
}

/** One line about an exploration, for the log. */
export function summary(found: Findings): string {
  const seconds = (found.milliseconds / 1000).toFixed(1)
  const nested = found.nested === 0 ? '' : `, ${found.nested} of cut recoveries`
  const { withMediaError, losses } = found
  const media =
    withMediaError === 0 ? '' : `, ${withMediaError} with a media error (${losses} explicit losses)`
  return (
    `${found.scenario}: ${found.points} points, ${found.images} images ` +
    `(${found.subsets} subsets)${nested}${media}, ${found.boots} boots, ` +
    `${found.classes.size} classes, ${found.violations} violations, ${seconds} s`
  )
}

/** A durability level: how many durable copies, of how many (D-4). */
export interface Level {
  readonly wait: number
  readonly copies: number
}

export const LEVEL_1OF2: Level = { wait: 1, copies: 2 }
export const LEVEL_2OF2: Level = { wait: 2, copies: 2 }
export const LEVEL_2OF3: Level = { wait: 2, copies: 3 }
export const LEVELS: readonly Level[] = [LEVEL_1OF2, LEVEL_2OF2, LEVEL_2OF3]

export function levelName({ wait, copies }: Level): string {
  return `${wait}of${copies}`
}

/**
 * The scenarios that every level goes through. In each a record of 64 bytes is written to slot 0
 * beside a neighbour that must not change; what differs is what was there, and so how many of the
 * sixteen chunks of a copy change: all fourteen that can, where the old record is of another
 * client and length; twelve, where only data, sequence, operation and check code are new.
 */
export function overAnother({ wait, copies }: Level): Scenario {
  return {
    name: `${wait}of${copies} over a record of another client and length`,
    shape: { copies },
    before: (actor) => {
      actor.write(
        { slot: 0, data: dataOf(48, 1), wait: 2, client: 1 },
        { slot: 1, data: dataOf(64, 2), wait: 2 },
      )
    },
    // The lanes of the group before are still set: the first fence covers their clearing, too.
    during: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 3), wait })
      actor.idle()
    },
  }
}

/** Eight chunks change, data among them: where each image is booted many times. */
export function overSimilar({ wait, copies }: Level): Scenario {
  const data = dataOf(64, 5)
  const half = data.slice()
  half.set(dataOf(32, 6), 16)
  return {
    name: `${wait}of${copies} over a record with half of the data the same`,
    shape: { copies },
    before: (actor) => {
      actor.write({ slot: 0, data, wait: 2 })
      actor.idle()
    },
    during: (actor) => {
      actor.write({ slot: 0, data: half, wait })
      actor.idle()
    },
  }
}

export function overBlank({ wait, copies }: Level): Scenario {
  return {
    name: `${wait}of${copies} over a blank record`,
    shape: { copies },
    during: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 4), wait })
      actor.idle()
    },
  }
}

export function overOwn({ wait, copies }: Level): Scenario {
  return {
    name: `${wait}of${copies} over a record of the same client and length`,
    shape: { copies },
    before: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 5), wait: 2 })
      actor.idle()
    },
    during: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 6), wait })
      actor.idle()
    },
  }
}
