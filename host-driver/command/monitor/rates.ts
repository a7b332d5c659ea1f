/**
 * How often things happen: the difference of two samples of a card, in a second.
 *
 * Invariant: no rate is negative, and none is made of two different lives of a card. A card that
 * has started between two samples counts from 0 again, so there is no rate until the next one; and
 * so it is where a counter has gone back, of a blank part that has no incarnation to tell by.
 */

import { QUEUE_COUNTERS, type QueueCounter } from '../../../firmware/host/host.ts'
import { bucketsSince, type Latency, latencyOf } from './latency.ts'
import type { RegionSample, Sample } from './sample.ts'

/** Of a region: what became durable in a second, and how soon. */
interface RegionRates extends Latency {
  readonly records: number
  readonly bytes: number
}

/** What a card did in a second; records and bytes of all its regions together. */
interface WorkRates {
  readonly records: number
  readonly bytes: number
  readonly bursts: number
  readonly fences: number
  readonly acknowledgements: number
}

/** In a second; of faults only those that were met in between. */
export interface Rates {
  /** Between the two samples, s. */
  readonly seconds: number
  /** Of all faults together. */
  readonly met: number | null
  readonly faults: Readonly<Record<string, number>> | null
  readonly work: WorkRates | null
  /** By the id of the region; those that both samples have. */
  readonly regions: Readonly<Record<number, RegionRates>> | null
  readonly queues: Readonly<Record<QueueCounter, number>> | null
  /** Calls and packets refused to strangers. */
  readonly refusals: number | null
}

/** Whether the two are of one start of one part. */
export function isOneLife(before: Sample, now: Sample): boolean {
  const { part } = now
  if (before.isWhole !== now.isWhole || before.part.deviceId !== part.deviceId) return false
  if (before.part.incarnation !== part.incarnation) return false
  return [...pairsOf(before, now)].every(([was, is]) => is >= was)
}

/** Null without a sample before it, and after a start. */
export function ratesOf(before: Sample | null, now: Sample): Rates | null {
  if (before === null || !isOneLife(before, now)) return null
  const seconds = (now.steadyMs - before.steadyMs) / 1000
  if (seconds <= 0) return null
  const perSecond = (was: bigint | number, is: bigint | number): number => {
    return (Number(is) - Number(was)) / seconds
  }
  const faults = rateOfFaults(before, now, perSecond)
  return {
    seconds,
    met: faults && Object.values(faults).reduce((all, one) => all + one, 0),
    faults,
    work: rateOfWork(before, now, perSecond),
    regions: ratesOfRegions(before, now, perSecond),
    queues: rateOfQueues(before, now, perSecond),
    refusals: now.isWhole ? perSecond(before.part.refusals.count, now.part.refusals.count) : null,
  }
}

type PerSecond = (was: bigint | number, is: bigint | number) => number

function rateOfFaults(before: Sample, now: Sample, perSecond: PerSecond): Rates['faults'] {
  if (before.faults === null || now.faults === null) return null
  const was = before.faults
  const all = Object.entries(now.faults).map(([name, count]): [string, number] => {
    return [name, perSecond(was[name] ?? 0n, count)]
  })
  return Object.fromEntries(all.filter(([, rate]) => rate > 0))
}

function rateOfWork(before: Sample, now: Sample, perSecond: PerSecond): WorkRates | null {
  if (before.figures === null || now.figures === null) return null
  const { bursts, fences, acknowledgements } = now.figures
  const regions = Object.values(ratesOfRegions(before, now, perSecond) ?? {})
  return {
    records: regions.reduce((all, { records }) => all + records, 0),
    bytes: regions.reduce((all, { bytes }) => all + bytes, 0),
    bursts: perSecond(before.figures.bursts, bursts),
    fences: perSecond(before.figures.fences, fences),
    acknowledgements: perSecond(before.figures.acknowledgements, acknowledgements),
  }
}

function ratesOfRegions(before: Sample, now: Sample, perSecond: PerSecond): Rates['regions'] {
  if (before.figures === null || now.figures === null) return null
  const all = figuresOfBoth(before, now).map(([id, was, is]): [number, RegionRates] => [
    id,
    {
      records: perSecond(was.acknowledged, is.acknowledged),
      bytes: perSecond(was.bytes, is.bytes),
      ...latencyOf(bucketsSince(was.latency, is.latency)),
    },
  ])
  return Object.fromEntries(all)
}

type Figures = NonNullable<RegionSample['figures']>

/** The figures of regions that both samples have: one that was made again has another id. */
function figuresOfBoth(before: Sample, now: Sample): [id: number, was: Figures, is: Figures][] {
  const was = new Map(before.regions?.map(({ id, figures }) => [id, figures]))
  return (now.regions ?? []).flatMap(({ id, figures }): [number, Figures, Figures][] => {
    const earlier = was.get(id) ?? null
    return earlier === null || figures === null ? [] : [[id, earlier, figures]]
  })
}

function rateOfQueues(before: Sample, now: Sample, perSecond: PerSecond): Rates['queues'] {
  const [was, is] = [before.queues?.counters, now.queues?.counters]
  if (was === undefined || is === undefined) return null
  const all = QUEUE_COUNTERS.map((name) => [name, perSecond(was[name], is[name])])
  return Object.fromEntries(all) as Record<QueueCounter, number>
}

/** Every number that only grows in one life of a card: what it was, and what it is. */
function* pairsOf(before: Sample, now: Sample): Generator<[was: bigint, is: bigint]> {
  yield [BigInt(before.part.refusals.count), BigInt(now.part.refusals.count)]
  if (before.faults !== null && now.faults !== null) {
    for (const [name, was] of Object.entries(before.faults)) yield [was, now.faults[name] ?? 0n]
  }
  if (before.figures !== null && now.figures !== null) {
    for (const name of ['bursts', 'fences', 'acknowledgements'] as const) {
      yield [before.figures[name], now.figures[name]]
    }
  }
  for (const [, was, is] of figuresOfBoth(before, now)) {
    yield [was.acknowledged, is.acknowledged]
    yield [was.bytes, is.bytes]
  }
  if (before.queues === null || now.queues === null) return
  for (const name of QUEUE_COUNTERS) {
    yield [before.queues.counters[name], now.queues.counters[name]]
  }
}
