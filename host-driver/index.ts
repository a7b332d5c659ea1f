/**
 * Perdure's host driver: remote persistent memory from Node.
 *
 *     await using dpu = await connect('perdure://10.0.0.2')
 *     const region = await dpu.openRegion('orders')
 *     const write = region.persist(slot, bytes)
 *     await write.received                      // the DPU has it
 *     const receipt = await write.persisted     // it is durable
 */

export type { Batch, BatchOptions, BatchOutcome, BatchRecord } from './batch.ts'
export type { BatchCondition } from './batch-verdict.ts'
export type { BytesRegion } from './bytes-region.ts'
export type { Completion } from './chain.ts'
export { connect } from './connect.ts'
export type { Dpu, ScanResult } from './dpu.ts'
export {
  type DualPair,
  type DualPlace,
  type DualRead,
  type DualReadRequest,
  type DualReceipt,
  type DualWriteRequest,
  dualRead,
  dualWrite,
} from './dual-write.ts'
export type { Durability } from './durability.ts'
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
} from './errors.ts'
export {
  type AgentControl,
  type AgentQueues,
  FlushAgent,
  type Flushed,
  type HostMemory,
} from './flush-agent.ts'
export type { Inbox, Message } from './inbox.ts'
export type { FlushOptions, MessageOptions, SendOptions } from './jobs.ts'
export type { Attachment, BytesRequest, Publication, RegionRequest } from './management.ts'
export type { ConnectOptions } from './options.ts'
export type { PartStatus, RegionInfo, ReportEntry } from './part.ts'
export { type CapturedFrame, PcapWriter, readPcap } from './pcap.ts'
export { PcieAgentQueues, startFlushAgent } from './pcie/agent-queues.ts'
export { PcieDevice, type PcieOptions } from './pcie/device.ts'
export { CardRemoved, MemoryFull, QueueEnded, QueueFull } from './pcie/errors.ts'
export {
  ForbiddenAccess,
  type HostPort,
  type PagedMemory,
  PageLost,
  type PageUse,
  type PageUser,
  type SharedMemory,
} from './pcie/host-port.ts'
export type { OnDemandCounts, OnDemandOptions, OnDemandRegion } from './pcie/on-demand.ts'
export type { CachePolicy, CacheRequest, QueueInfo, QueuesStatus } from './queues.ts'
export type { CopiesRead, PersistOptions, ReadRecord, Region } from './region.ts'
export {
  type HostCpu,
  type PlacementControl,
  PlacementRefused,
  type ProbeResult,
  probePlacement,
} from './registrar.ts'
export { RemoteMemory } from './remote-memory.ts'
export type {
  BlockGroup,
  BlockState,
  ByteRange,
  ResidencyStatus,
  SlotRange,
  StatusPhase,
} from './residency-status.ts'
export { chooseCopy, readSlotImage, type SlotImage, type SlotRecord } from './slot-image.ts'
export type { Statistics } from './statistics.ts'
export { connectTarget, type Target, type TargetOptions } from './target.ts'
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
} from './verbs/types.ts'
export type { Watch, WatchOptions } from './watch.ts'
export type { Endpoint, Wire } from './wire.ts'
export type { Mechanism, Outlives, Receipt, Write } from './write.ts'
