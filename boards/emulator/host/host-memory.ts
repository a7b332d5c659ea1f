/**
 * The host's persistent memory behind PCIe, as a model of what a power cut leaves (crash-model 2.1;
 * source 2, its two directions of data).
 *
 *   DMA write ──▶ posted (buffers of the root complex) ──▶ last-level cache ──▶ memory controller
 *                                   └── DDIO off, or no-snoop honoured ──▶ (ADR: survives)
 *   CPU store ──▶ last-level cache ── clean, fence ──▶ memory controller
 *
 * Invariants:
 * - A DMA write is posted: until it has arrived nobody sees it, and a cut may lose it. Writes
 *   arrive in the order in which they were sent; a DMA read pushes every write before it (PCIe
 *   ordering).
 * - What arrives in the cache stays pending until the CPU has cleaned its line and fenced after
 *   that; a cut may have evicted any part of it. What arrives at the memory controller is durable.
 * - Nobody but the CPU cleans a line. A clean covers what had arrived by then and nothing later: a
 *   line that is written between the clean and the fence waits for another clean.
 * - The part underneath is the NVDIMM's own model, so the adversary of a cut, and media errors, are
 *   the same (nvdimm.ts, pieces.ts, power-cut.ts). Host and DPU lose power together, or each by
 *   itself (`PcieLink.loseHost`).
 * - A host that comes back may be another one: other memory, another size, DDIO the other way
 *   (`comeBack`). The card's window stays as large as it was; where no memory is behind it, reads
 *   fail and writes are lost.
 *
 * Offsets and lengths are bytes; the machine has checked that they are inside.
 */

import { DONE } from '../../../firmware/board/hal.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { BOOLEAN, type Kinds, OBJECT } from '../../kinds.ts'
import { checkFields, NVDIMM, PCIE_LINK, RANDOM } from '../base/arguments.ts'
import type { Random } from '../base/random.ts'
import { Nvdimm } from '../medium/nvdimm.ts'
import { type CutChoice, type CutReport, checkChoice, cut } from '../medium/power-cut.ts'
import { type FarMemory, PcieLink, Windows } from './pcie.ts'

export { CPU_WAKE_NS, DMA_READ_NS, DMA_WRITE_NS, DOORBELL_NS } from './pcie.ts'

/*
 * What things take, nanoseconds of virtual time. Nothing is measured: these are the orders of
 * magnitude that a server with memory of this kind shows.
 */
/** A CPU load that finds its line in the last-level cache. */
export const CPU_HIT_NS = 25
/** A CPU load that goes to persistent memory. */
export const CPU_MISS_NS = 300
/** Writing back one line that is dirty in the cache. */
export const CPU_CLEAN_NS = 60
/** Waiting until the lines cleaned before have reached the memory controller. */
export const CPU_FENCE_NS = 150

/** What the host's platform is like. */
export interface Platform {
  /** Data direct I/O: DMA writes go to the last-level cache. */
  readonly ddio: boolean
  /** A write that asks for no-snoop goes past the cache even then. */
  readonly honoursNoSnoop: boolean
  /** The firmware tables state that the memory controller's buffers survive a power cut. */
  readonly statesAdr: boolean
}

export const DDIO_OFF: Platform = { ddio: false, honoursNoSnoop: false, statesAdr: true }
export const DDIO_ON: Platform = { ddio: true, honoursNoSnoop: false, statesAdr: true }
export const NO_SNOOP_HONOURED: Platform = { ddio: true, honoursNoSnoop: true, statesAdr: true }

export interface HostMemoryOptions {
  /** What lies behind the memory controller. */
  readonly part: Nvdimm
  readonly platform?: Platform
  /** Disturbs the times of CPU loads, as other work on the machine does; none without it. */
  readonly noise?: Random
  /** The link to the card, if the host's ordinary memory has it, too; one that holds, otherwise. */
  readonly link?: PcieLink
}

/** How a host comes back; what is left out is as it was. */
export interface HostReturn {
  readonly platform?: Platform
  /** Other memory, of any size; or the same, cleared as a new one is. */
  readonly part?: Nvdimm | 'cleared'
}

const MEMORY_KINDS: Kinds<HostMemoryOptions> = {
  ...{ part: NVDIMM, platform: OBJECT, noise: RANDOM, link: PCIE_LINK },
}

const PLATFORM_KINDS: Kinds<Platform> = {
  ...{ ddio: BOOLEAN, honoursNoSnoop: BOOLEAN, statesAdr: BOOLEAN },
}

const RETURN_KINDS: Kinds<HostReturn> = {
  platform: OBJECT,
  part: {
    give: `${NVDIMM.give}, or 'cleared'`,
    takes: (value) => value === 'cleared' || NVDIMM.takes(value),
  },
}

function checkPlatform(platform: Platform): void {
  checkFields('platform', platform, PLATFORM_KINDS, ['ddio', 'honoursNoSnoop', 'statesAdr'])
}

export class HostMemory implements FarMemory {
  readonly kind = 'persistent'
  /** What is on its way from the card; without a clock it waits there until it is pushed. */
  readonly link: PcieLink
  readonly windows: Windows
  /** The card's window: as much of the memory as it was told of. */
  readonly bytes: number
  /** What the memory holds: `live` as the CPU and DMA reads see it, `durable` behind the cache. */
  part: Nvdimm
  platform: Platform
  /** Time that the CPU instructions so far have taken, nanoseconds. */
  busyNs = 0

  private readonly noise: Random | null
  private cached: Uint8Array
  /** Lines that the CPU cleaned since its last fence, and that nobody has written since. */
  private readonly cleaned: Set<number> = new Set()

  constructor(options: HostMemoryOptions) {
    checkFields('memory of a host', options, MEMORY_KINDS, ['part'])
    if (options.platform !== undefined) checkPlatform(options.platform)
    this.part = options.part
    this.platform = options.platform ?? DDIO_OFF
    this.noise = options.noise ?? null
    this.link = options.link ?? new PcieLink(true)
    this.bytes = this.part.bytes
    this.windows = new Windows(this.bytes)
    this.cached = new Uint8Array(this.bytes / LINE_BYTES)
    this.link.attach(this)
  }

  /** DMA writes that have not arrived. */
  get postedWrites(): number {
    return this.link.postedWrites
  }

  /** A posted write: it has left when this returns, and `source` may change. */
  dmaWrite(at: number, source: Uint8Array, from: number, length: number, noSnoop: boolean): void {
    const { ddio, honoursNoSnoop } = this.platform
    const past = !ddio || (noSnoop && honoursNoSnoop)
    this.link.write(this, at, source, from, length, past)
  }

  /** A DMA read: if it is answered, every write that was posted before it has arrived. */
  dmaRead(at = 0, length = 1): boolean {
    return this.link.read(this, at, length)
  }

  /** The next `count` posted writes arrive, or all of them. */
  arrive(count: number = this.postedWrites): void {
    this.link.arrive(count)
  }

  land(at: number, bytes: Uint8Array, past: boolean): void {
    const { length } = bytes
    const { part } = this
    this.touch(at, length, !past)
    const first = (at + LINE_BYTES - 1) & -LINE_BYTES
    const end = (at + length) & -LINE_BYTES
    if (end > first) part.clearPoison(first, end - first)
    // A line that takes nothing is found out by whoever reads it: nobody answers a posted write.
    for (let done = 0; done < length; ) {
      const line = Math.floor((at + done) / LINE_BYTES)
      const piece = Math.min(length - done, (line + 1) * LINE_BYTES - at - done)
      if (part.store(at + done, bytes, done, piece) !== DONE) part.poison(line)
      done += piece
    }
    if (!past) return
    part.clean(at, length)
    part.fence()
  }

  /** The lines are written now: in the cache or not, and no earlier clean covers them. */
  private touch(at: number, length: number, cached: boolean): void {
    const last = Math.floor((at + length - 1) / LINE_BYTES)
    for (let line = Math.floor(at / LINE_BYTES); line <= last; line++) {
      this.cached[line] = cached ? 1 : 0
      this.cleaned.delete(line)
    }
  }

  /** Shows the DPU its own atomic store, which no write may overtake. */
  dmaAtomic(at: number, word: Uint8Array): void {
    this.land(at, word, !this.platform.ddio)
  }

  /** A CPU load: the bytes as they are by now, and what it took; null where there are none. */
  load(at: number, length: number): { readonly bytes: Uint8Array | null; readonly ns: number } {
    this.arrive()
    let ns = 0
    const last = Math.floor((at + length - 1) / LINE_BYTES)
    for (let line = Math.floor(at / LINE_BYTES); line <= last; line++) {
      ns += this.cached[line] === 1 ? CPU_HIT_NS : CPU_MISS_NS
      this.cached[line] = 1
      // Now and then something else has the bus, or the line was evicted meanwhile.
      if (this.noise?.chance(0.05)) ns += this.noise.below(4 * CPU_MISS_NS)
    }
    this.busyNs += ns
    const there = at + length <= this.part.bytes && this.part.readable(at, length)
    const bytes = there ? this.part.live.slice(at, at + length) : null
    return { bytes, ns }
  }

  /** A CPU store. */
  store(at: number, bytes: Uint8Array): void {
    this.arrive()
    this.touch(at, bytes.length, true)
    this.part.store(at, bytes, 0, bytes.length)
    this.busyNs += CPU_HIT_NS
  }

  /** CLWB over the lines of [at, at + length): begun for what is in the cache by now. */
  clean(at: number, length: number): void {
    const last = Math.floor((at + length - 1) / LINE_BYTES)
    for (let line = Math.floor(at / LINE_BYTES); line <= last; line++) this.cleaned.add(line)
    this.busyNs += CPU_CLEAN_NS * (last - Math.floor(at / LINE_BYTES) + 1)
  }

  /** SFENCE: what was cleaned, and not written since, is durable. */
  fence(): void {
    for (const line of this.cleaned) this.part.clean(line * LINE_BYTES, LINE_BYTES)
    this.cleaned.clear()
    this.part.fence()
    this.busyNs += CPU_FENCE_NS
  }

  /** CLFLUSHOPT and a fence: the lines are written back and no longer in the cache. */
  evict(at: number, length: number): void {
    this.clean(at, length)
    this.fence()
    const last = Math.floor((at + length - 1) / LINE_BYTES)
    for (let line = Math.floor(at / LINE_BYTES); line <= last; line++) this.cached[line] = 0
  }

  /**
   * The power goes, of this host or of both sides. Of what is posted or in the cache, `choice`
   * decides what had arrived or was evicted.
   */
  powerCut(choice: CutChoice): CutReport {
    checkChoice(choice, ['random'])
    this.loseCaches()
    return cut(this.part, choice)
  }

  /** Nothing is in a buffer or cache any more; the stores of it stay pending in the part. */
  loseCaches(): void {
    for (const { memory, at, bytes } of this.link.take()) {
      if (memory === this) this.land(at, bytes, false)
    }
    this.cleaned.clear()
    this.cached.fill(0)
  }

  /** The host has power again, and the link is up: what `powerCut` left is there, or what else. */
  comeBack(how: HostReturn = {}): void {
    checkFields('a host that comes back', how, RETURN_KINDS)
    const { platform = this.platform, part = this.part } = how
    checkPlatform(platform)
    this.platform = platform
    this.part = part === 'cleared' ? new Nvdimm({ bytes: this.part.bytes }) : part
    this.cached = new Uint8Array(this.part.bytes / LINE_BYTES)
    this.windows.close()
    this.windows.map(0, Math.min(this.bytes, this.part.bytes))
    this.link.restore()
  }
}
