/**
 * A host behind the emulated card, in the card's own process, with memory of either kind: on demand
 * (source 5), of which only a part has a place at a time; persistent (source 2), in which the card
 * puts records. For trying out what such memory, and such a host, does to its users.
 *
 * Invariants:
 * - Whenever host and card have power the pages on demand are offered, before anybody else is told
 *   of the card; and as soon as the card serves it is shown how what it writes into the persistent
 *   memory becomes durable, and has a flush agent where the caches are in the way.
 * - The host loses its power by itself, and with it its queues, its programs, the pages on demand
 *   and whatever had not left the caches. Persistent memory stays, in its file if it has one.
 */

import {
  type Access,
  type AccessFault,
  type CutReport,
  DDIO_OFF,
  DDIO_ON,
  type EmulatedDpu,
  EmulatedPort,
  HostMemory,
  HostRam,
  HostSide,
  Nvdimm,
  openNvdimm,
  Pager,
  PcieLink,
  type Platform,
  Random,
  type RealClock,
  SwapDevice,
} from '../../../boards/emulator/index.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { sleep } from '../../base/clock.ts'
import type { MemoryPiece } from '../../base/pieces.ts'
import { startFlushAgent } from '../../card/agent-queues.ts'
import { PcieDevice } from '../../card/device.ts'
import type { HostMemory as CpuMemory } from '../../target/flush-agent.ts'
import { cpuInPieces, memoryInPieces } from '../../target/pieces.ts'
import { type PlacementName, probePlacement } from '../../target/registrar.ts'
import type { MemoryRequest, PersistentRequest } from './emulate-options.ts'
import type { Trace } from './trace.ts'

interface HostRequest {
  readonly memory?: MemoryRequest
  readonly persistent?: PersistentRequest
  /** The pieces of it that the card uses; all of it without them. */
  readonly pieces?: readonly MemoryPiece[]
  /** DMA writes go to the host's caches. */
  readonly ddio?: boolean
}

/** Until the host has learnt that its card was gone it is asked so often, µs. */
const LOOK_US = 1000

/** What the queues of the host take of its memory. */
const QUEUES_BYTES: number = 1 << 20

export class HostInside {
  readonly port: EmulatedPort
  /** Its persistent memory, as the card sees it. */
  readonly persistent: HostMemory | null
  /** Whether DMA writes go to the caches, from the next start on. */
  ddio: boolean
  private readonly ram: HostRam
  private readonly request: HostRequest
  private device: PcieDevice | null = null
  private on = true
  private proven: PlacementName | null = null
  private readonly trace: Trace | null
  /** The next write into the persistent memory gets lost. */
  private losing = false

  /** Throws an NvdimmFileError. */
  constructor(request: HostRequest, clock: RealClock, trace: Trace | null) {
    const { memory, persistent, ddio = false } = request
    const link = new PcieLink()
    this.request = request
    this.trace = trace
    this.ddio = ddio
    link.script = (access) => this.judge(access)
    this.ram = new HostRam(QUEUES_BYTES + (memory?.mapped ?? 0), link)
    this.port = new EmulatedPort({ ram: this.ram, clock })
    if (trace !== null) {
      this.port.script = (write) => {
        trace.register(write)
        return undefined
      }
    }
    this.persistent =
      persistent === undefined
        ? null
        : new HostMemory({ part: partOf(persistent), platform: this.platform, link })
  }

  private get platform(): Platform {
    return this.ddio ? DDIO_ON : DDIO_OFF
  }

  get isOn(): boolean {
    return this.on
  }

  /** How what the card writes into the persistent memory becomes durable; null: not proven yet. */
  get placement(): PlacementName | null {
    return this.proven
  }

  /** Both have power: takes the card into use, and offers the pages on demand. */
  async open(): Promise<void> {
    this.proven = null
    if (this.device !== null) await this.reopen(this.device)
    else this.device = await this.openFirst()
  }

  /** The card serves: proves to it what the persistent memory is like. Rejects as a probe does. */
  async prove(card: EmulatedDpu): Promise<void> {
    const { persistent, device } = this
    if (persistent === null || device === null || this.proven !== null) return
    const side = new HostSide(card, persistent)
    const { pieces } = this.request
    const { management } = device
    if (pieces !== undefined) await management.statePieces(pieces)
    const cpu = pieces === undefined ? side : cpuInPieces(side, pieces)
    const { placement } = await probePlacement(cpu, management)
    if (placement === 'through') await this.startAgent(side, device)
    this.proven = placement as PlacementName
  }

  /** A flush agent, watched where a trace is written. */
  private async startAgent(side: HostSide, device: PcieDevice): Promise<void> {
    const { trace } = this
    const { management } = device
    const { pieces } = this.request
    const seen = (memory: CpuMemory): CpuMemory =>
      pieces === undefined ? memory : memoryInPieces(memory, pieces)
    if (trace === null) {
      await startFlushAgent(seen(side), management, device)
      return
    }
    const watched: CpuMemory = {
      load: (at, length) => side.load(at, length),
      clean: (at, length) => {
        trace.clean(at, length)
        side.clean(at, length)
      },
      fence: () => {
        trace.fence()
        side.fence()
      },
    }
    const agent = await startFlushAgent(seen(watched), management, device)
    agent.onFlushed = (flushed) => trace.flushed(flushed)
  }

  /** What becomes of an access of the card. */
  private judge(access: Access): AccessFault | undefined {
    this.trace?.access(access, this.persistent?.platform.ddio === true)
    if (!this.losing || access.kind !== 'write' || access.memory !== 'persistent') return undefined
    this.losing = false
    return 'lost'
  }

  /** The card was gone, and what the host had in its memory is there. */
  private async reopen(device: PcieDevice): Promise<void> {
    while (device.isOpen) await sleep(device, LOOK_US)
    await device.reopen()
  }

  private async openFirst(): Promise<PcieDevice> {
    const device = await PcieDevice.open(this.port)
    const { memory } = this.request
    if (memory === undefined) return device
    const { ram, port } = this
    const clock = port.hostClock
    const at = device.layout.arena.alloc(memory.mapped, PAGE_BYTES)
    const pager = new Pager({
      ...{ ram, at, clock },
      frames: memory.mapped / PAGE_BYTES,
      pages: memory.bytes / PAGE_BYTES,
      swap: new SwapDevice({ clock, pageBytes: PAGE_BYTES }),
    })
    await device.registerOnDemand({ name: memory.name, memory: pager })
    return device
  }

  /** It loses its power: what was pending in its caches is lost, and what that was is told. */
  powerOff(): CutReport | null {
    this.on = false
    this.device = null
    this.proven = null
    this.losing = false
    const choice = { random: new Random(0), strategy: 'none' } as const
    const report = this.persistent?.powerCut(choice) ?? null
    this.port.resetHost(choice)
    return report
  }

  /** It has power again, and nothing in its caches. */
  powerOn(): void {
    this.on = true
    if (this.persistent === null) this.port.memory.link.restore()
    else this.persistent.comeBack({ platform: this.platform })
  }

  /** The next write of the card into the persistent memory gets lost on its way. */
  loseNextWrite(): void {
    this.losing = true
  }

  /** Lets the card go. */
  close(): void {
    if (this.device === null) this.port.close()
    else this.device.close()
  }

  /**
   * It is switched off for good, behind the card; what its caches hold is written back. `takeBack`
   * removes the file of its persistent memory if this host has made it.
   */
  end(takeBack = false): void {
    const { persistent } = this
    if (persistent === null) return
    if (this.on) persistent.powerCut({ random: new Random(0), strategy: 'all' })
    persistent.part.close(takeBack)
  }
}

function partOf({ bytes, path }: PersistentRequest): Nvdimm {
  return path === undefined ? new Nvdimm({ bytes }) : openNvdimm({ path, bytes })
}
