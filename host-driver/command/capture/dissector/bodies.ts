/**
 * What the dissector shows of the bodies of control calls: those that tell who is connected, which
 * regions there are, and how the part is. Keys are never shown.
 */

import * as m from '../../../../firmware/wire/management.ts'
import type { Names } from '../names.ts'

/** One field of a body; offsets count from its first byte. */
export interface BodyField {
  readonly name: string
  readonly label: string
  readonly at: number
  /** 1, 2, 4 or 8: a number; 'text': a name, padded with zeros. */
  readonly bytes: 1 | 2 | 4 | 8 | 'text'
  readonly names?: Names
  readonly hex?: true
}

/** Bytes of a name. */
export const NAME_BYTES: number = m.REGION_SLOTS - m.REGION_NAME

interface Body {
  /** Who says it. */
  readonly side: 'request' | 'answer'
  readonly attributes: readonly number[]
  readonly fields: readonly BodyField[]
}

const NAME: BodyField = { name: 'region', label: 'Region', at: m.REGION_NAME, bytes: 'text' }
const STATES: Names = new Map(m.STATE_NAMES.map((name, state) => [state, name]))
const KINDS: Names = new Map([
  [m.KIND_RECORDS, 'records'],
  [m.KIND_BYTES, 'bytes'],
  [m.KIND_ON_DEMAND, 'on demand'],
])

function field(
  name: string,
  label: string,
  at: number,
  bytes: BodyField['bytes'],
  more: Partial<BodyField> = {},
): BodyField {
  return { name, label, at, bytes, ...more }
}

/** Attributes whose answer is a region. */
const REGION_ANSWERS = [
  ...[m.ATTRIBUTE_PROVISION, m.ATTRIBUTE_OPEN, m.ATTRIBUTE_REGION],
  ...[m.ATTRIBUTE_PUBLISH, m.ATTRIBUTE_ATTACH, m.ATTRIBUTE_SETTLE],
]

export const BODIES: readonly Body[] = [
  {
    side: 'request',
    attributes: [
      ...[m.ATTRIBUTE_PROVISION, m.ATTRIBUTE_OPEN, m.ATTRIBUTE_REMOVE, m.ATTRIBUTE_PUBLISH],
      ...[m.ATTRIBUTE_ATTACH, m.ATTRIBUTE_DETACH, m.ATTRIBUTE_ON_DEMAND],
      m.ATTRIBUTE_FIGURES,
    ],
    fields: [NAME],
  },
  {
    side: 'answer',
    attributes: REGION_ANSWERS,
    fields: [
      NAME,
      field('region.slots', 'Slots', m.REGION_SLOTS, 4),
      field('region.capacity', 'Capacity of a slot, bytes', m.REGION_CAPACITY, 4),
      field('region.copies', 'Copies', m.REGION_COPIES, 1),
      field('region.kind', 'Kind', m.REGION_KIND, 1, { names: KINDS }),
      field('region.rkey', 'R_Key', m.REGION_RKEY, 4, { hex: true }),
      field('region.id', 'Region id', m.REGION_ID, 4),
      field('region.unsettled', 'Unsettled records', m.REGION_UNSETTLED, 4),
      field('region.placement', 'Placement', m.REGION_PLACEMENT, 1),
    ],
  },
  {
    side: 'answer',
    attributes: [m.ATTRIBUTE_STATUS, m.ATTRIBUTE_FORMAT, m.ATTRIBUTE_HEALTH],
    fields: [
      field('part.state', 'State', m.PART_STATE, 1, { names: STATES }),
      field('part.regions', 'Regions', m.PART_REGIONS, 1),
      field('part.incarnation', 'Incarnation', m.PART_INCARNATION, 4),
      field('part.bytes', 'NVDIMM, bytes', m.PART_NVDIMM_BYTES_HIGH, 8),
      field('part.unsettled', 'Unsettled records', m.PART_UNSETTLED, 4),
      field('part.repaired', 'Records that recovery repaired', m.PART_REPAIRED, 4),
      field('part.refusing', 'Regions that take no writes', m.PART_REFUSING, 4, { hex: true }),
    ],
  },
  {
    side: 'request',
    attributes: [m.ATTRIBUTE_HEALTH],
    fields: [
      field('connect.qp', 'Queue pair of the card', m.HEALTH_QP, 4, { hex: true }),
      field('health.mark', 'Mark of the messages', m.HEALTH_MARK, 8, { hex: true }),
      field('health.action', 'Told from now on', m.HEALTH_ACTION, 1),
    ],
  },
  {
    side: 'request',
    attributes: [m.ATTRIBUTE_CONNECT],
    fields: [
      field('connect.client_qp', 'Queue pair of the client', m.CONNECT_CLIENT_QP, 4, { hex: true }),
      field('connect.client_psn', 'Starting PSN of the client', m.CONNECT_CLIENT_PSN, 4),
      field('client', 'Client id', m.CONNECT_CLIENT_ID_HIGH, 8, { hex: true }),
    ],
  },
  {
    side: 'answer',
    attributes: [m.ATTRIBUTE_CONNECT],
    fields: [
      field('connect.qp', 'Queue pair of the card', m.CONNECT_QP, 4, { hex: true }),
      field('connect.psn', "PSN of the client's first request", m.CONNECT_FIRST_PSN, 4),
      field('connect.mtu', 'Path MTU granted', m.CONNECT_GRANTED_MTU, 2),
    ],
  },
  {
    side: 'request',
    attributes: [m.ATTRIBUTE_DISCONNECT],
    fields: [field('connect.qp', 'Queue pair of the card', m.DISCONNECT_QP, 4, { hex: true })],
  },
  {
    side: 'request',
    attributes: [m.ATTRIBUTE_SCAN],
    fields: [
      field('region.id', 'Region id', m.SCAN_REGION, 4),
      field('scan.record', 'First record', m.SCAN_RECORD, 4),
    ],
  },
  {
    side: 'answer',
    attributes: [m.ATTRIBUTE_SCAN],
    fields: [
      field('scan.next', 'Next record', m.SCAN_NEXT, 4),
      field('scan.checked', 'Checked', m.SCAN_CHECKED, 4),
      field('scan.repaired', 'Repaired', m.SCAN_REPAIRED, 4),
      field('scan.lost', 'Lost', m.SCAN_FOUND_LOST, 4),
    ],
  },
  {
    side: 'answer',
    attributes: [m.ATTRIBUTE_FIGURES],
    fields: [
      NAME,
      field('region.id', 'Region id', m.FIGURES_REGION, 4),
      field('figures.bursts', 'Bursts', m.FIGURES_BURSTS, 8),
      field('figures.fences', 'Fences', m.FIGURES_FENCES, 8),
      field('figures.acks', 'Acknowledgements', m.FIGURES_ACKS, 8),
      field('figures.bytes', 'Bytes of the region that are durable', m.FIGURES_BYTES, 8),
      field('figures.time', 'Sum of the times, µs', m.FIGURES_TIME, 8),
      field('figures.next', 'Bucket to go on with', m.FIGURES_NEXT, 1),
    ],
  },
  {
    side: 'request',
    attributes: [m.ATTRIBUTE_SETTLE],
    fields: [
      field('region.id', 'Region id', m.SETTLE_REGION, 4),
      field('settle.record', 'Record', m.SETTLE_RECORD, 4),
    ],
  },
]
