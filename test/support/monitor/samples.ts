/** Samples of a card as they might come: as of one that is well, except for what is said. */

import { BUCKETS } from '../../../firmware/board/latency.ts'
import { QUEUE_COUNTERS, type QueueCounter } from '../../../firmware/host/host.ts'
import type { FirmwareSample } from '../../../host-driver/command/monitor/firmware.ts'
import type { UpLook } from '../../../host-driver/command/monitor/look.ts'
import type { RegionSample, Sample } from '../../../host-driver/command/monitor/sample.ts'
import { bucketBeginUs } from '../../../host-driver/control/buckets.ts'
import type { CardFigures, RegionFigures } from '../../../host-driver/control/figures.ts'
import type { PartStatus } from '../../../host-driver/control/part.ts'
import type { QueuesStatus } from '../../../host-driver/control/queues.ts'

const PART: PartStatus = {
  ...{ state: 'serving', fault: null, armed: true, durable: 'power', outlivesPower: true },
  ...{ saveFailed: false, onTrial: false, access: 'peers', regions: 1, incarnation: 1 },
  ...{ deviceId: '00'.repeat(16), nvdimmBytes: 1 << 20, pathMtu: 4096, formatVersion: 4 },
  ...{ reportEntries: 0, unsettled: 0, linesRead: 0, lanesActive: 0, recordsScanned: 0 },
  ...{ recordsRepaired: 0, operationsRecovered: 0, superblockPages: 2, superblockMended: 0 },
  ...{
    operationsMended: 0,
    operationsLost: 0,
    work: null,
    refusing: [],
    recordsMended: 0,
    mediaFailures: 0,
    refusals: { count: 0, last: null },
  },
}

const REGION: RegionSample = {
  ...{ name: 'orders', id: 1, kind: 'records', slots: 64, capacity: 4096, copies: 2 },
  ...{ fixedLength: false, pair: false, takesGuards: true, joinsBatches: true },
  ...{ placement: 'local', writePersist: false, protectionDomain: 0, length: 0n, base: 0n },
  ...{ stride: 8192, unsettled: 0, repaired: 0, readOnly: false, refuses: null, figures: null },
}

/** What a sample has that is not as it is of a card that is well. */
interface Said {
  readonly atMs?: number
  readonly part?: Partial<PartStatus>
  readonly region?: Partial<RegionSample>
  readonly regions?: readonly RegionSample[] | null
  readonly faults?: Readonly<Record<string, bigint>> | null
  readonly figures?: CardFigures | null
  readonly queues?: QueuesStatus | null
  readonly firmware?: FirmwareSample | null
}

export function sampleOf({
  atMs = 0,
  part,
  region,
  regions,
  faults = {},
  figures = null,
  queues,
  firmware,
}: Said): Sample {
  return {
    ...{ atMs, steadyMs: atMs, answerMs: 1 },
    ...{ part: { ...PART, ...part }, isWhole: true },
    ...{ faults, figures, queues: queues ?? null },
    regions: regions === undefined ? [{ ...REGION, ...region }] : regions,
    firmware: firmware ?? null,
    recovery: { lines: 0, repaired: 0, lost: 0, refused: 0 },
  }
}

/** An image that runs, unless something else is said of it. */
export function firmwareOf(said: Partial<FirmwareSample> = {}): FirmwareSample {
  const sha256 = 'ab'.repeat(32)
  return { version: '1.2.3', sha256, onTrial: false, secondsLeft: 0, reason: '', ...said }
}

/** What a card has done, as often as that each. */
export function workOf(count: bigint): CardFigures {
  return { bursts: count, fences: 4n * count, acknowledgements: 2n * count }
}

/** So many acknowledgements by the bucket that they fell into, of 64 bytes each. */
export function figuresOf(counts: Readonly<Record<number, bigint>>): RegionFigures {
  const latency = Array.from({ length: BUCKETS }, (_, bucket) => {
    const [fromUs, toUs] = [bucketBeginUs(bucket), bucketBeginUs(bucket + 1)]
    return { fromUs, toUs, count: counts[bucket] ?? 0n }
  }).filter(({ count }) => count > 0n)
  const acknowledged = latency.reduce((all, { count }) => all + count, 0n)
  const totalUs = latency.reduce((all, { fromUs, count }) => all + BigInt(fromUs) * count, 0n)
  return { region: 1, acknowledged, bytes: 64n * acknowledged, totalUs, latency }
}

/** A host that has so many of each of these, and none of the others. */
export function queuesOf(counts: Partial<Record<QueueCounter, bigint>>): QueuesStatus {
  const counters = Object.fromEntries(QUEUE_COUNTERS.map((name) => [name, counts[name] ?? 0n]))
  return {
    ...{ epoch: 1, queues: 64, used: 2, cached: 1, capacity: 256 },
    ...{ policy: 'oldest', n: 1, ageUs: 0, pointerOrder: 'distance' },
    counters: counters as Record<QueueCounter, bigint>,
  }
}

export function lookAt(sample: Sample, target = 'perdure://card'): UpLook {
  return { target, atMs: sample.atMs, up: true, sample, rates: null }
}
