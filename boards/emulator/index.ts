/** The emulator: a card, its NVDIMM, the link to it and the time in which all that happens. */

/// <reference lib="esnext.disposable" preserve="true" />

export { type Clock, RealClock, type Timer } from '../clock.ts'
export { type PortFileCode, PortFileError } from '../port/port-file.ts'
export { CardViolation } from '../port/zone-guard.ts'
export { VirtualClock } from './base/clock.ts'
export { drawnSeed, Random } from './base/random.ts'
export type { CardPort } from './host/card-port.ts'
export { FilePortEnd, type FilePortEndOptions } from './host/file-port-end.ts'
export {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  type HostMemoryOptions,
  type HostReturn,
  NO_SNOOP_HONOURED,
  type Platform,
} from './host/host-memory.ts'
export {
  type DoorbellChances,
  EmulatedPort,
  type PortOptions,
  type RegisterFate,
  type RegisterWrite,
} from './host/host-port.ts'
export { HostRam } from './host/host-ram.ts'
export {
  FrameViolation,
  Pager,
  type PagerCounts,
  type PagerOptions,
  type PageState,
} from './host/pager.ts'
export {
  type Access,
  type AccessFault,
  type LinkChances,
  type LinkCounters,
  PcieLink,
} from './host/pcie.ts'
export {
  fileSwap,
  memorySwap,
  type SwapAccess,
  SwapDevice,
  type SwapOptions,
  type SwapStore,
} from './host/swap.ts'
export { imageCount, imageKeeping, images } from './medium/images.ts'
export { NVDIMM_BYTES_MAX, Nvdimm, type NvdimmOptions, PAGE_BYTES } from './medium/nvdimm.ts'
export {
  isToBeMade,
  type NvdimmFileCode,
  NvdimmFileError,
  type NvdimmFileOptions,
  openNvdimm,
} from './medium/nvdimm-file.ts'
export { CUT_MODES, type CutMode } from './medium/pieces.ts'
export {
  CUT_STRATEGIES,
  type CutChoice,
  type CutReport,
  type CutStrategy,
  cut,
  type PendingChunk,
  pending,
} from './medium/power-cut.ts'
export {
  Link,
  type LinkCounts,
  type LinkEnd,
  type LinkFaults,
  type LinkOptions,
  type LinkScript,
  type Verdict,
} from './network/link.ts'
export { JoinedNetdev, joinNetdev, Netdev, openNetdev } from './network/netdev.ts'
export { NETWORK_PEERS_MAX } from './network/peers.ts'
export { EthernetSwitch, type SwitchPort } from './network/switch.ts'
export { openTunnel, Tunnel, type TunnelOptions } from './network/tunnel.ts'
export { type Bundle, BundleMissing, findBundle } from './run/bundle.ts'
export {
  type CutPlan,
  DEFAULT_PORT,
  type DpuOptions,
  type DpuStatistics,
  EmulatedDpu,
  ENGINES,
  type Engine,
} from './run/dpu.ts'
export { type FirmwareEngine, FirmwareStopped, type StopReason } from './run/engine.ts'
export { HostSide } from './run/host-side.ts'
export {
  EmulatedMachine,
  type MachineOptions,
  type MachineStatistics,
  OP_NAMES,
  type Watch,
} from './run/machine.ts'
export { CardTrace, type CardTraceOptions } from './trace/card-trace.ts'
export {
  type CutEvent,
  type DurableFields,
  type FrameEvent,
  type Head,
  type PersistFields,
  type StoreEvent,
  TRACE_VERSION,
  type TraceEvent,
} from './trace/events.ts'
