/**
 * The metrics of a card, in families: name, kind, meaning, and what a sample has of it.
 *
 * Invariants:
 * - Each stands for a number that the card has told. A family of which a card tells nothing is
 *   absent, so what later cards count has a row here, and older cards have none of it.
 * - Names are those of Prometheus: a unit in base units at the end, `_total` for what only grows in
 *   one life of a card. Values of labels are words of a card, and may be anything.
 */

import { BUCKETS } from '../../../firmware/board/latency.ts'
import { bucketBeginUs } from '../../control/buckets.ts'
import type { PartStatus } from '../../control/part.ts'
import { serves } from '../base/part-text.ts'
import type { RegionSample, Sample } from './sample.ts'

/** One number, and the labels that it has beside its target. */
export interface Point {
  /** Of a histogram: what stands behind the name of its family. */
  readonly suffix?: '_bucket' | '_sum' | '_count'
  readonly labels: Readonly<Record<string, string>>
  readonly value: number | bigint
}

export interface Family {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly points: (sample: Sample) => readonly Point[]
}

/** A number of the part, which is told to who may hear all of it. */
function ofPart(
  name: string,
  type: Family['type'],
  help: string,
  value: (part: PartStatus, sample: Sample) => number,
): Family {
  const points = (sample: Sample): Point[] => {
    const isTold = sample.isWhole && serves(sample.part)
    return isTold ? [{ labels: {}, value: value(sample.part, sample) }] : []
  }
  return { name, type, help, points }
}

/** A number of each region. */
function ofRegions(
  name: string,
  type: Family['type'],
  help: string,
  value: (region: RegionSample) => number,
  is: (region: RegionSample) => boolean = () => true,
): Family {
  const points = ({ regions }: Sample): Point[] =>
    (regions ?? []).filter(is).map((region) => {
      const { name, id } = region
      return { labels: { region: name, id: String(id) }, value: value(region) }
    })
  return { name, type, help, points }
}

function isOfRecords({ kind }: RegionSample): boolean {
  return kind === 'records'
}

/** What is to be so of a part, by aspects; an alert is one expression for all of them. */
function healthPoints({ part, isWhole }: Sample): Point[] {
  const aspects: [name: string, isWell: boolean][] = [
    ['serving', serves(part)],
    ['writable', part.state === 'serving'],
    ['armed', part.armed],
    ['saved', !part.saveFailed],
    ['outlives_power', part.outlivesPower],
    ...(isWhole && serves(part)
      ? ([
          ['records', part.unsettled === 0],
          ['superblock', part.superblockPages === 2],
          ['operations', part.operationsLost === 0],
        ] as [string, boolean][])
      : []),
  ]
  return aspects.map(([aspect, isWell]) => ({ labels: { aspect }, value: isWell ? 1 : 0 }))
}

function infoPoints({ part, isWhole }: Sample): Point[] {
  const { deviceId, formatVersion, access, durable } = part
  const labels = { format: String(formatVersion), access, durable }
  return [{ labels: isWhole ? { device: deviceId, ...labels } : labels, value: 1 }]
}

function buildPoints({ firmware }: Sample): Point[] {
  if (firmware === null || firmware.sha256 === null) return []
  const { version, sha256 } = firmware
  return [{ labels: { version: version ?? '', sha256 }, value: 1 }]
}

/** Counters of the host's queues under the names of Prometheus: 'queueErrors', 'queue_errors'. */
function queuePoints({ queues }: Sample): Point[] {
  if (queues === null || queues.epoch === 0) return []
  return Object.entries(queues.counters).map(([name, value]) => {
    const event = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    return { labels: { event }, value }
  })
}

/** A number of the card's figures. */
function ofFigures(
  name: string,
  help: string,
  value: (figures: NonNullable<Sample['figures']>) => bigint,
): Family {
  const points = ({ figures }: Sample): Point[] => {
    return figures === null ? [] : [{ labels: {}, value: value(figures) }]
  }
  return { name, type: 'counter', help, points }
}

type Told = NonNullable<RegionSample['figures']>

/** Points of each region that tells its figures. */
function ofAcknowledged(points: (figures: Told, labels: Point['labels']) => readonly Point[]) {
  return ({ regions }: Sample): Point[] =>
    (regions ?? []).flatMap(({ name, id, figures }) => {
      return figures === null ? [] : points(figures, { region: name, id: String(id) })
    })
}

/** Every bucket, each time, as Prometheus compares them by their borders. */
function histogramPoints(
  { latency, acknowledged, totalUs }: Told,
  labels: Point['labels'],
): Point[] {
  const counts = new Map(latency.map(({ fromUs, count }) => [fromUs, count]))
  let upTo = 0n
  const buckets = Array.from({ length: BUCKETS }, (_, bucket): Point => {
    upTo += counts.get(bucketBeginUs(bucket)) ?? 0n
    const endUs = bucketBeginUs(bucket + 1)
    const le = endUs === Number.POSITIVE_INFINITY ? '+Inf' : String(endUs / 1e6)
    return { suffix: '_bucket', labels: { ...labels, le }, value: upTo }
  })
  return [
    ...buckets,
    { suffix: '_sum', labels, value: Number(totalUs) / 1e6 },
    { suffix: '_count', labels, value: acknowledged },
  ]
}

function ofQueues(
  name: string,
  help: string,
  value: (queues: NonNullable<Sample['queues']>) => number,
): Family {
  const points = ({ queues }: Sample): Point[] => {
    return queues === null || queues.epoch === 0 ? [] : [{ labels: {}, value: value(queues) }]
  }
  return { name, type: 'gauge', help, points }
}

export const FAMILIES: readonly Family[] = [
  {
    ...{ name: 'perdure_part_info', type: 'gauge', points: infoPoints },
    help: 'What the part is: its device, the version of its format, who may come; 1.',
  },
  {
    ...{ name: 'perdure_build_info', type: 'gauge', points: buildPoints },
    help: 'The image of firmware that runs, where the port of SMP is named: version, SHA-256; 1.',
  },
  {
    ...{ name: 'perdure_firmware_on_trial', type: 'gauge' },
    help: 'Whether firmware is on trial: 1, or 0; an older card tells it by SMP alone.',
    points: ({ firmware, part, isWhole }) => {
      const onTrial = firmware?.onTrial ?? (isWhole ? part.onTrial : null)
      return onTrial === null ? [] : [{ labels: {}, value: onTrial ? 1 : 0 }]
    },
  },
  {
    ...{ name: 'perdure_part_health', type: 'gauge', points: healthPoints },
    help: 'Whether an aspect of the part is as it should be: 1, or 0.',
  },
  {
    ...{ name: 'perdure_answer_seconds', type: 'gauge' },
    help: 'How long the card took for one control call.',
    points: ({ answerMs }) => [{ labels: {}, value: answerMs / 1000 }],
  },
  {
    ...{ name: 'perdure_refusals_total', type: 'counter' },
    help: 'What the card has met and mostly refused since its start, by the fault.',
    points: ({ faults }) =>
      Object.entries(faults ?? {}).map(([fault, value]) => ({ labels: { fault }, value })),
  },
  ofPart(
    ...(['perdure_strangers_refused_total', 'counter'] as const),
    'Calls and packets refused for who sent them, since the start.',
    ({ refusals }) => refusals.count,
  ),
  ofPart(
    ...(['perdure_part_incarnation', 'gauge'] as const),
    'Number of the start of the part: grows at every start.',
    ({ incarnation }) => incarnation,
  ),
  ofPart(
    ...(['perdure_part_nvdimm_bytes', 'gauge'] as const),
    'Size of the NVDIMM.',
    ({ nvdimmBytes }) => nvdimmBytes,
  ),
  ofPart(
    ...(['perdure_part_records_lost', 'gauge'] as const),
    'Records that no copy can stand for, now.',
    ({ unsettled }) => unsettled,
  ),
  ofPart(
    ...(['perdure_part_superblock_pages', 'gauge'] as const),
    'Pages of the superblock that are whole, of two.',
    ({ superblockPages }) => superblockPages,
  ),
  ofPart(
    ...(['perdure_part_superblock_mended_total', 'counter'] as const),
    'Pages of the superblock that were written again, since the start.',
    ({ superblockMended }) => superblockMended,
  ),
  ofPart(
    ...(['perdure_part_operations_mended_total', 'counter'] as const),
    'Lines of the operation table that were written again, since the start.',
    ({ operationsMended }) => operationsMended,
  ),
  ofPart(
    ...(['perdure_part_operations_lost', 'gauge'] as const),
    'Clients whose repetitions are refused, as what they did is not known.',
    ({ operationsLost }) => operationsLost,
  ),
  ofPart(
    ...(['perdure_recovery_lanes', 'gauge'] as const),
    'Lanes that were in flight when the part lost its power before its last start.',
    ({ lanesActive }) => lanesActive,
  ),
  ofPart(
    ...(['perdure_recovery_lines_read', 'gauge'] as const),
    'Lines that recovery has read at the last start.',
    ({ linesRead }) => linesRead,
  ),
  ofPart(
    ...(['perdure_recovery_repaired', 'gauge'] as const),
    'Records that recovery has repaired at the last start.',
    ({ recordsRepaired }) => recordsRepaired,
  ),
  ofPart(
    ...(['perdure_recovery_operations', 'gauge'] as const),
    'Operations that recovery found to be durable at the last start.',
    ({ operationsRecovered }) => operationsRecovered,
  ),
  {
    ...{ name: 'perdure_work_done_bytes', type: 'gauge' },
    help: 'Of a region that is being made or cleared: bytes that are done.',
    points: ({ part: { work } }) => workPoints(work, 'done'),
  },
  {
    ...{ name: 'perdure_work_size_bytes', type: 'gauge' },
    help: 'Of a region that is being made or cleared: bytes in all.',
    points: ({ part: { work } }) => workPoints(work, 'total'),
  },
  ofRegions(
    ...(['perdure_region_writable', 'gauge'] as const),
    'Whether the region takes writes: 1, or 0.',
    ({ refuses, readOnly }) => (refuses === null && !readOnly ? 1 : 0),
  ),
  ofRegions(
    ...(['perdure_region_slots', 'gauge'] as const),
    'Records that the region has room for.',
    ...([({ slots }: RegionSample) => slots, isOfRecords] as const),
  ),
  ofRegions(
    ...(['perdure_region_slot_capacity_bytes', 'gauge'] as const),
    'Data that one record of the region holds at the most.',
    ...([({ capacity }: RegionSample) => capacity, isOfRecords] as const),
  ),
  ofRegions(
    ...(['perdure_region_copies', 'gauge'] as const),
    'Copies of each record.',
    ...([({ copies }: RegionSample) => copies, isOfRecords] as const),
  ),
  ofRegions(
    ...(['perdure_region_records_lost', 'gauge'] as const),
    'Records of the region that no copy can stand for, now.',
    ...([({ unsettled }: RegionSample) => unsettled, isOfRecords] as const),
  ),
  ofRegions(
    ...(['perdure_region_records_mended_total', 'counter'] as const),
    'Records of which decayed copies were made whole, since the start.',
    ...([({ repaired }: RegionSample) => repaired, isOfRecords] as const),
  ),
  ofFigures(
    'perdure_bursts_total',
    'Calls of the board that brought frames or doorbells, since the start.',
    ({ bursts }) => bursts,
  ),
  ofFigures('perdure_fences_total', 'Fences since the start.', ({ fences }) => fences),
  ofFigures(
    'perdure_acknowledgements_total',
    'PERSIST_ACKs that left, and answers to FLUSH and ATOMIC WRITE, since the start.',
    ({ acknowledgements }) => acknowledgements,
  ),
  {
    ...{ name: 'perdure_persist_records_total', type: 'counter' },
    help: 'Records that became durable, and stores and FLUSHes of plain bytes, since the start.',
    points: ofAcknowledged(({ acknowledged }, labels) => [{ labels, value: acknowledged }]),
  },
  {
    ...{ name: 'perdure_persist_bytes_total', type: 'counter' },
    help: 'Bytes of one copy that became durable, since the start.',
    points: ofAcknowledged(({ bytes }, labels) => [{ labels, value: bytes }]),
  },
  {
    ...{ name: 'perdure_persist_seconds', type: 'histogram' },
    help: 'From the burst with the last packet to its acknowledgement.',
    points: ofAcknowledged(histogramPoints),
  },
  ofQueues('perdure_host_queues', 'Queues that the host has room for.', ({ queues }) => queues),
  ofQueues('perdure_host_queues_used', 'Queues of the host in use.', ({ used }) => used),
  ofQueues(
    'perdure_host_contexts_cached',
    'Contexts of queues that the card has cached.',
    ({ cached }) => cached,
  ),
  ofQueues(
    'perdure_host_contexts_capacity',
    'Contexts of queues that the card caches at the most.',
    ({ capacity }) => capacity,
  ),
  {
    ...{ name: 'perdure_host_events_total', type: 'counter', points: queuePoints },
    help: 'What the card has done for the queues of its host since its start, by what it is.',
  },
]

function workPoints(work: PartStatus['work'], which: 'done' | 'total'): Point[] {
  if (work === null) return []
  return [{ labels: { kind: work.kind, region: String(work.region) }, value: work[which] }]
}
