/**
 * Perdure's host driver: remote persistent memory from Node.
 *
 *     await using dpu = await connect('perdure://10.0.0.2')
 *     const region = await dpu.openRegion('orders')
 *     const write = region.persist(slot, bytes)
 *     await write.received                      // the DPU has it
 *     const receipt = await write.persisted     // it is durable
 */

/// <reference lib="esnext.disposable" preserve="true" />

export {
  ForbiddenAccess,
  type HostPort,
  type PagedMemory,
  PageLost,
  type PagePressure,
  type PageUse,
  type PageUser,
  type SharedAddresses,
  type SharedMemory,
} from '../boards/host-port.ts'
export type { Peer } from '../boards/software/peers.ts'
export type { Depths } from '../firmware/wire/capability.ts'
export {
  ArgumentError,
  EffectUnknown,
  type ErrorCode,
  NotAccepted,
  OutcomeUnknown,
  PerdureError,
  RecordCorrupt,
  RecordLost,
  RefusedError,
  TransportError,
} from './base/errors.ts'
export type { WaitOptions } from './base/give-up.ts'
export type { MemoryPiece } from './base/pieces.ts'
export type { Endpoint, Wire } from './base/wire.ts'
export type { BytesRegion } from './bytes/bytes-region.ts'
export { RemoteMemory } from './bytes/remote-memory.ts'
export { PcieAgentQueues, startFlushAgent } from './card/agent-queues.ts'
export { PcieDevice, type PcieOptions } from './card/device.ts'
export type { OnDemandCounts, OnDemandOptions, OnDemandRegion } from './card/on-demand.ts'
export { connect } from './connect.ts'
export type { Attachment } from './control/attachment.ts'
export type { CardFigures, LatencyBucket, RegionFigures } from './control/figures.ts'
export type { BytesRequest, RegionRequest } from './control/management.ts'
export type { PartStatus, RegionInfo, ReportEntry } from './control/part.ts'
export type { PeerRequest } from './control/peers.ts'
export type { Publication } from './control/publication.ts'
export type { CachePolicy, CacheRequest, QueueInfo, QueuesStatus } from './control/queues.ts'
export type { Dpu, ScanResult } from './dpu.ts'
export { chooseCopy, readSlotImage, type SlotImage, type SlotRecord } from './link/slot-image.ts'
export type {
  Batch,
  BatchOptions,
  BatchOutcome,
  BatchRecord,
  MemberOptions,
} from './records/batch.ts'
export {
  type DualPlace,
  type DualRead,
  type DualReadRequest,
  type DualReceipt,
  type DualSlots,
  type DualWriteRequest,
  dualRead,
  dualWrite,
} from './records/dual-write.ts'
export type { ReadRecord, RecordsOptions, SlotRead } from './records/records.ts'
export type {
  CopiesOptions,
  CopiesRead,
  PersistOptions,
  Region,
} from './records/region.ts'
export type { OtherOptions, Place } from './status/alternatives.ts'
export type { MemoryUse, WatchOptions } from './status/criteria.ts'
export type {
  HealthAway,
  HealthChanged,
  HealthListener,
  HealthNotice,
  HealthOptions,
  HealthWatch,
} from './status/health.ts'
export type {
  BlockGroup,
  BlockState,
  ByteRange,
  ResidencyStatus,
  SlotRange,
  StatusPhase,
} from './status/residency-status.ts'
export type { ReadyOptions, Watch } from './status/watch.ts'
export {
  type AgentControl,
  type AgentQueues,
  FlushAgent,
  type Flushed,
  type HostMemory,
} from './target/flush-agent.ts'
export {
  cpuInPieces,
  memoryInPieces,
  type PiecesControl,
} from './target/pieces.ts'
export {
  type HostCpu,
  type PlacementControl,
  PlacementRefused,
  type ProbeResult,
  probePlacement,
} from './target/registrar.ts'
export { connectTarget, type Target, type TargetOptions } from './target/target.ts'
export type {
  BatchesEnded,
  BatchesMissed,
  BatchListener,
  BatchNotice,
  BatchStored,
  BatchWatch,
  BatchWatchOptions,
} from './way/batch-notices.ts'
export type { BatchCondition } from './way/batch-verdict.ts'
export type { Outcome } from './way/chain.ts'
export type { Durability } from './way/durability.ts'
export { guardOf } from './way/guard.ts'
export type { Inbox, Message } from './way/inbox.ts'
export type { MessageOptions, SendOptions } from './way/jobs.ts'
export type { ConnectOptions } from './way/options.ts'
export { type CapturedFrame, PcapWriter, readPcap } from './way/pcap.ts'
export { CardRemoved, MemoryFull, QueueEnded, QueueFull } from './way/queue-errors.ts'
export type { Statistics } from './way/statistics.ts'
export {
  type AsyncEvent,
  type BatchOf,
  type CompletionQueue,
  type CreateQp,
  FENCE,
  INLINE,
  type MemoryRegion,
  type ModifyQp,
  type PeerAttributes,
  type ProtectionDomain,
  type QueuePair,
  type QueuePairState,
  type RecvRequest,
  type SendRequest,
  type Sge,
  SIGNALED,
  SOLICITED,
  type VerbsContext,
  type WorkCompletion,
  type WorkOpcode,
  type WorkStatus,
} from './way/verbs.ts'
export type { FlushOptions } from './way/work-request.ts'
export type { Mechanism, Outlives, Receipt, Write } from './way/write.ts'
