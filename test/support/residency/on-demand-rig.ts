/**
 * Memory registered on demand, from end to end in virtual time: a machine whose host has fewer
 * frames than pages, its card, and another host that reads and writes the memory over frames.
 *
 *     const rig = await OnDemandRig.open({ pages: 128, frames: 64 })
 *     await rig.memory.write(4096, bytes)          // BytesRegion of the remote host
 *     await rig.pager.load(4096, bytes.length)     // what the CPU of the machine sees
 *     rig.pager.evict(1)                           // takes a page away, whatever it is used for
 *     const before = await rig.counters()
 *     …
 *     const { faults, rnrs } = difference(await rig.counters(), before)
 *     await rig.close()
 *
 * `rig.clock.nowUs` is the time; it passes while something is awaited. Link faults, latencies of
 * the drive, the number of remote hosts (`rig.connect()`) and the engine are options.
 */

import {
  type Engine,
  type LinkFaults,
  Pager,
  SwapDevice,
  type VirtualClock,
} from '../../../boards/emulator/index.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import type { BytesRegion } from '../../../host-driver/bytes/bytes-region.ts'
import type { PcieDevice, PcieOptions } from '../../../host-driver/card/device.ts'
import type { OnDemandOptions, OnDemandRegion } from '../../../host-driver/card/on-demand.ts'
import { connect } from '../../../host-driver/connect.ts'
import type { Dpu } from '../../../host-driver/dpu.ts'
import type { ConnectOptions } from '../../../host-driver/way/options.ts'
import { type Machine, MachineRoom, openDevice } from '../peers/hosts.ts'
import { endpointOf } from '../peers/network.ts'

/** The card's last address byte, and that of the first remote host. */
const CARD = 2
const REMOTE = 100

/** What the queues of the host take of its memory besides the frames. */
const QUEUES_BYTES: number = 1 << 20

export interface OnDemandRigOptions {
  readonly seed?: number
  /** Pages of the memory, and frames that the host has for them. */
  readonly pages?: number
  readonly frames?: number
  readonly engine?: Engine
  /** Of every link, in both directions. */
  readonly faults?: LinkFaults
  readonly latencyUs?: number
  /** Of the pager (pager.ts) and of its drive (swap.ts). */
  readonly spare?: number
  readonly stayUs?: number
  readonly readUs?: number
  readonly writeUs?: number
  readonly region?: Partial<OnDemandOptions>
  readonly device?: PcieOptions
  /** Of the remote host that the rig begins with. */
  readonly connect?: ConnectOptions
}

/** What happened so far. */
interface OnDemandCounters {
  readonly timeUs: number
  /** Pages that came: all, and those that had to be read from the drive. */
  readonly faults: number
  readonly majorFaults: number
  readonly evictions: number
  /** NAKs of RNR that the card has sent for an absent page. */
  readonly rnrs: number
  /** Control calls of the host, and pages in them. */
  readonly maps: number
  readonly mapped: number
  readonly unmaps: number
  readonly unmapped: number
  /** Events by which the card asked for pages. */
  readonly events: number
}

export class OnDemandRig {
  readonly room: MachineRoom
  readonly machine: Machine
  readonly device: PcieDevice
  readonly swap: SwapDevice
  readonly pager: Pager
  readonly region: OnDemandRegion
  /** The remote host, and the memory as it has it. */
  readonly dpu: Dpu
  readonly memory: BytesRegion
  private readonly seed: number
  private readonly dpus: Dpu[] = []

  private constructor(parts: RigParts, seed: number) {
    this.room = parts.room
    this.machine = parts.machine
    this.device = parts.device
    this.swap = parts.swap
    this.pager = parts.pager
    this.region = parts.region
    this.dpu = parts.dpu
    this.memory = parts.memory
    this.seed = seed
    this.dpus.push(parts.dpu)
  }

  static async open(options: OnDemandRigOptions = {}): Promise<OnDemandRig> {
    const { seed = 1, pages = 128, frames = 64, engine = 'node', faults, latencyUs } = options
    const room = new MachineRoom({
      seed,
      ...(faults === undefined ? {} : { faults }),
      ...(latencyUs === undefined ? {} : { latencyUs }),
    })
    const ramBytes = QUEUES_BYTES + (frames + 1) * PAGE_BYTES
    const machine = await room.addMachine(CARD, { ramBytes, engine })
    room.clock.start()
    const device = await openDevice(machine, { seed, ...options.device })
    const { swap, pager } = pagerOf(machine, device, room.clock, { ...options, pages, frames })
    const region = await device.registerOnDemand({ name: 'heap', memory: pager, ...options.region })
    await device.management.format(new Uint8Array(16).fill(7))
    const dpu = await connect(room.addHost(), remote(seed, 0, options.connect))
    const memory = await dpu.openBytes(region.name)
    return new OnDemandRig({ room, machine, device, swap, pager, region, dpu, memory }, seed)
  }

  get clock(): VirtualClock {
    return this.room.clock
  }

  /** One more remote host. */
  async connect(options?: ConnectOptions): Promise<Dpu> {
    const dpu = await connect(this.room.addHost(), remote(this.seed, this.dpus.length, options))
    this.dpus.push(dpu)
    return dpu
  }

  /** Lets time pass. */
  pass(us: number): Promise<void> {
    return new Promise((resolve) => void this.clock.schedule(this.clock.nowUs + us, resolve))
  }

  async counters(): Promise<OnDemandCounters> {
    const { pager, region, device } = this
    const { PAGE_ABSENT = 0n } = await device.management.counters()
    const { minorFaults, majorFaults, evictions } = pager.counts
    const { maps, mapped, unmaps, unmapped, events } = region.counts
    return {
      timeUs: this.clock.nowUs,
      faults: minorFaults + majorFaults,
      ...{ majorFaults, evictions, rnrs: Number(PAGE_ABSENT) },
      ...{ maps, mapped, unmaps, unmapped, events },
    }
  }

  async close(): Promise<void> {
    for (const dpu of this.dpus) await dpu.close()
    this.device.close()
    this.clock.stop()
  }
}

type RigParts = Pick<
  OnDemandRig,
  'room' | 'machine' | 'device' | 'swap' | 'pager' | 'region' | 'dpu' | 'memory'
>

function pagerOf(
  { ram }: Machine,
  device: PcieDevice,
  clock: VirtualClock,
  options: OnDemandRigOptions & { readonly pages: number; readonly frames: number },
): { readonly swap: SwapDevice; readonly pager: Pager } {
  const { pages, frames, spare, stayUs, readUs, writeUs } = options
  const swap = new SwapDevice({
    ...{ clock, pageBytes: PAGE_BYTES },
    ...(readUs === undefined ? {} : { readUs }),
    ...(writeUs === undefined ? {} : { writeUs }),
  })
  const at = device.layout.arena.alloc(frames * PAGE_BYTES, PAGE_BYTES)
  const pager = new Pager({
    ...{ ram, at, frames, pages, swap, clock },
    ...(spare === undefined ? {} : { spare }),
    ...(stayUs === undefined ? {} : { stayUs }),
  })
  return { swap, pager }
}

function remote(seed: number, number: number, options: ConnectOptions = {}): ConnectOptions {
  return {
    own: endpointOf(REMOTE + number),
    peer: endpointOf(CARD),
    seed: seed * 1000 + number,
    clientId: BigInt(1 + number),
    firstOperation: 1n,
    ...options,
  }
}

/** What happened from one look to another. */
export function difference(after: OnDemandCounters, before: OnDemandCounters): OnDemandCounters {
  const entries = Object.entries(after).map(([name, value]) => [
    name,
    value - before[name as keyof OnDemandCounters],
  ])
  return Object.fromEntries(entries) as OnDemandCounters
}
