/**
 * Published services: which region a client gets that connects to a port of RDMA-CM.
 *
 * Invariant: a port publishes one region; a service says where the region is, in the private data
 * of REP, and grants nothing that the region does not. Services are forgotten with the power: keys
 * are drawn again then, and who publishes says so again.
 *
 * A plain client gets the descriptor that its form asks for. A client that shows a capability block
 * gets ours, whatever the form.
 */

import type { BoardState } from '../board/context.ts'
import { BATCH_RECORDS_MAX, QUEUE_PAIRS, SERVICES } from '../board/limits.ts'
import type { CommitState } from '../commit/context.ts'
import { durableUpTo, findClient } from '../commit/operations.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  FLUSH_GLOBAL,
  FLUSH_PERSISTENT,
  findRegionById,
  REMOTE_READ,
  REMOTE_WRITE,
  type Region,
  toldFlags,
} from '../medium/region.ts'
import { mostLog2, PAGE_LOG2 } from '../residency/size.ts'
import { CARD_DEPTHS } from '../transport/depths.ts'
import {
  blankCapability,
  type Capability,
  FEATURE_BATCHES,
  FEATURE_BLOCK_SIZE,
  FEATURE_DURABLE_ACK,
  FEATURE_LINUX_FLUSH,
  FEATURE_PERSIST,
  FEATURE_PERSIST_BITMAP,
  FEATURE_PREFETCH,
  FEATURE_STATUS,
  writeCapability,
  writeDepths,
  writeGeometry,
} from '../wire/capability.ts'
import { SERVICE_HIGH, SERVICE_TCP } from '../wire/cm.ts'
import {
  blankLibrpma,
  USAGE_FLUSH_PERSISTENT,
  USAGE_FLUSH_VISIBILITY,
  USAGE_READ_SOURCE,
  USAGE_WRITE_DESTINATION,
  writeLibrpma,
} from '../wire/librpma.ts'
import { FORM_ANNOUNCED, FORM_LIBRPMA, FORM_NONE } from '../wire/management.ts'
import type { ConnectState, Service } from './context.ts'

export function createServices(): Service[] {
  const services: Service[] = []
  for (let i = 0; i < SERVICES; i++) {
    const nobody = { stock: false, most: QUEUE_PAIRS, sources: [], owner: '' }
    services.push({ port: 0, regionId: 0, form: FORM_NONE, rights: 0, ...nobody })
  }
  return services
}

/** The service of that id (wire-format 5.8), or null. Only ports of TCP's space are served. */
export function findService(state: ConnectState, high: number, low: number): Service | null {
  if (high !== SERVICE_HIGH || (low & ~0xffff) !== SERVICE_TCP) return null
  const port = low & 0xffff
  if (port === 0) return null
  return state.connections.services.find((service) => service.port === port) ?? null
}

/** The region of a service, or null if it is no more. */
export function regionOfService(state: MemoryState, service: Service): Region | null {
  return findRegionById(state.regions, service.regionId)
}

/** Features that we offer (wire-format 7.8). */
export const FEATURES: number =
  FEATURE_PERSIST |
  FEATURE_PERSIST_BITMAP |
  FEATURE_BATCHES |
  FEATURE_STATUS |
  FEATURE_PREFETCH |
  FEATURE_BLOCK_SIZE |
  FEATURE_DURABLE_ACK |
  FEATURE_LINUX_FLUSH

/** What a client's block, if there was one, tells of it, and who answers. */
interface Answerer {
  /** The block of the client, or null for a plain RoCEv2 one. */
  readonly client: Capability | null
  readonly sessionId: number
  /** It told the depths of its queues, and so is told ours. */
  readonly tellsDepths: boolean
}

/** Writes what the client is told of the region into the private data of its REP. */
export function describeService(
  state: BoardState & CommitState,
  service: Service,
  region: Region,
  who: Answerer,
  into: Uint8Array,
): void {
  if (who.client === null && service.form === FORM_ANNOUNCED) return
  if (who.client === null && service.form === FORM_LIBRPMA) describeLibrpma(service, region, into)
  else describeCapability(state, region, who, into)
}

function describeLibrpma(service: Service, region: Region, into: Uint8Array): void {
  const { rights } = service
  const has = (right: number, usage: number): number => ((rights & right) !== 0 ? usage : 0)
  writeLibrpma(into, 0, {
    ...blankLibrpma(),
    addressHigh: region.baseHigh,
    addressLow: region.baseLow,
    sizeHigh: Math.floor(region.areaBytes / 2 ** 32),
    sizeLow: region.areaBytes % 2 ** 32,
    rkey: region.rkey,
    usage:
      has(REMOTE_READ, USAGE_READ_SOURCE) |
      has(REMOTE_WRITE, USAGE_WRITE_DESTINATION) |
      has(FLUSH_GLOBAL, USAGE_FLUSH_VISIBILITY) |
      has(FLUSH_PERSISTENT, USAGE_FLUSH_PERSISTENT),
  })
}

function describeCapability(
  state: BoardState & CommitState,
  region: Region,
  who: Answerer,
  into: Uint8Array,
): void {
  const { operations } = state.commit
  const clientHigh = who.client?.clientHigh ?? 0
  const clientLow = who.client?.clientLow ?? 0
  const durable = { high: 0, low: 0 }
  durableUpTo(operations, findClient(operations, -1, clientHigh, clientLow), durable)
  writeCapability(into, 0, {
    ...blankCapability(),
    features: FEATURES,
    rkey: region.rkey,
    baseHigh: region.baseHigh,
    baseLow: region.baseLow,
    lengthHigh: Math.floor(region.areaBytes / 2 ** 32),
    lengthLow: region.areaBytes % 2 ** 32,
    slotLog2: slotLog2(region.capacity),
    blockLog2Min: PAGE_LOG2,
    blockLog2Max: mostLog2(region.areaBytes),
    batchMax: BATCH_RECORDS_MAX - 1,
    incarnation: state.incarnation,
    durableHigh: durable.high,
    durableLow: durable.low,
    sessionId: who.sessionId,
    clientHigh,
    clientLow,
  })
  writeGeometry(into, 0, { ...region, flags: toldFlags(region) })
  if (who.tellsDepths) writeDepths(into, 0, CARD_DEPTHS)
}

/** The capacity's logarithm where it is a power of two, else 0: then OPEN tells it. */
function slotLog2(capacity: number): number {
  return capacity > 0 && (capacity & (capacity - 1)) === 0 ? 31 - Math.clz32(capacity) : 0
}
