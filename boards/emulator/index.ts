/** The emulator: a card, its NVDIMM, the link to it and the time in which all that happens. */

export { type Clock, RealClock, type Timer } from '../clock.ts'
export { type PortFileCode, PortFileError } from '../port/port-file.ts'
export { CardViolation } from '../port/zone-guard.ts'
export { type Bundle, BundleMissing, findBundle } from './bundle.ts'
export type { CardPort } from './card-port.ts'
export { VirtualClock } from './clock.ts'
export {
  type CutPlan,
  DEFAULT_PORT,
  type DpuOptions,
  type DpuStatistics,
  EmulatedDpu,
  ENGINES,
  type Engine,
} from './dpu.ts'
export { type FirmwareEngine, FirmwareStopped, type StopReason } from './engine.ts'
export { FileCard, type FileCardOptions } from './file-card.ts'
export {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  type HostMemoryOptions,
  type HostReturn,
  NO_SNOOP_HONOURED,
  type Platform,
} from './host-memory.ts'
export {
  type DoorbellChances,
  EmulatedPort,
  type PortOptions,
  type RegisterFate,
  type RegisterWrite,
} from './host-port.ts'
export { HostRam } from './host-ram.ts'
export { HostSide } from './host-side.ts'
export { imageCount, images } from './images.ts'
export {
  Link,
  type LinkCounts,
  type LinkEnd,
  type LinkFaults,
  type LinkOptions,
  type LinkScript,
  type Verdict,
} from './link.ts'
export {
  EmulatedMachine,
  type MachineOptions,
  type MachineStatistics,
  OP_NAMES,
  type Watch,
} from './machine.ts'
export { Netdev, openNetdev } from './netdev.ts'
export { NVDIMM_BYTES_MAX, Nvdimm, type NvdimmOptions, PAGE_BYTES } from './nvdimm.ts'
export {
  isToBeMade,
  type NvdimmFileCode,
  NvdimmFileError,
  type NvdimmFileOptions,
  openNvdimm,
} from './nvdimm-file.ts'
export {
  FrameViolation,
  Pager,
  type PagerCounts,
  type PagerOptions,
  type PageState,
} from './pager.ts'
export {
  type Access,
  type AccessFault,
  type LinkChances,
  type LinkCounters,
  PcieLink,
} from './pcie.ts'
export { CUT_MODES, type CutMode } from './pieces.ts'
export {
  CUT_STRATEGIES,
  type CutChoice,
  type CutReport,
  type CutStrategy,
  cut,
  type PendingChunk,
  pending,
} from './power-cut.ts'
export { Random } from './random.ts'
export {
  fileSwap,
  memorySwap,
  type SwapAccess,
  SwapDevice,
  type SwapOptions,
  type SwapStore,
} from './swap.ts'
export { EthernetSwitch, type SwitchPort } from './switch.ts'
export { openTunnel, Tunnel, type TunnelOptions } from './tunnel.ts'
