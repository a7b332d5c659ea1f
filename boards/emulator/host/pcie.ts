/**
 * The PCIe link between the card and its host: what is on its way, what it takes, and how it fails.
 *
 *   card ── posted writes, one queue for both memories of the host ──▶ host-memory.ts, host-ram.ts
 *   card ◀── completions of reads ── (a read pushes every write before it)
 *   host ── posted register writes ──▶ card (host-port.ts)
 *
 * Invariants:
 * - Posted writes arrive in the order in which they left, whichever memory of the host they go to;
 *   each arrives after DMA_WRITE_NS, or before the data of any read that was sent behind it (PCIe
 *   Base 2.4.1). A read that fails has pushed nothing that anybody may rely on: here, nothing.
 * - A write that does not arrive is not reported. Of the host's persistent memory the board knows
 *   all the same that something was lost, because the link went down or was contained, or because
 *   it had no translation of the address; from then on every read of that memory fails: no fence is
 *   made of any (faults H4, H5). That ends when a link that was down comes up again, as the port
 *   tells the card of another host then, and when a card is started again.
 * - While the link is down nothing arrives, and every read fails.
 * - A host that loses its power, or is reset, takes the link down with it (`loseHost`), and with it
 *   everything that its memories held and that was not durable. The card keeps its power.
 *
 * What reads take: those of one command list are sent one behind the other, READ_GAP_NS apart,
 * without waiting; the first data come DMA_READ_NS later, and all of it at LINK_BYTES_PER_NS; the
 * list is over when the last has come. The card does nothing else meanwhile.
 */

import type { Clock, Timer } from '../../clock.ts'
import { BOOLEAN, FUNCTION, having, SIZE } from '../../kinds.ts'
import { CLOCK, check } from '../base/arguments.ts'
import { Random } from '../base/random.ts'
import { type CutChoice, checkChoice } from '../medium/power-cut.ts'

/*
 * What things take, nanoseconds of virtual time. Nothing is measured: these are the orders of
 * magnitude that servers show.
 */
/** From the DPU's write to the cache or the memory controller of the host. */
export const DMA_WRITE_NS = 400
/** From the DPU's read to its completion, which is behind every write before it. */
export const DMA_READ_NS = 900
/** Between two reads of one list. */
export const READ_GAP_NS = 10
/** Eight lanes of the fourth generation. */
export const LINK_BYTES_PER_NS = 16
/** After this a read without a completion has failed: the shortest that is allowed, 50 µs. */
export const COMPLETION_TIMEOUT_NS = 50_000
/** From the CPU's write to a word of the DPU until the DPU sees it. */
export const DOORBELL_NS = 300
/** From an interrupt of the DPU to the first instruction of whoever waits for it. */
export const CPU_WAKE_NS = 3000

/** A page of the IOMMU, bytes. */
export const IOMMU_PAGE_BYTES = 4096

/** Which addresses of a memory the IOMMU lets the card reach: all, until the first `close`. */
export class Windows {
  private readonly pages: Uint8Array

  constructor(bytes: number) {
    this.pages = new Uint8Array(Math.ceil(bytes / IOMMU_PAGE_BYTES)).fill(1)
  }

  /** Closes all of it: what is to be reached has to be mapped. */
  close(): void {
    this.pages.fill(0)
  }

  map(at: number, length: number): void {
    this.set(at, length, 1)
  }

  unmap(at: number, length: number): void {
    this.set(at, length, 0)
  }

  private set(at: number, length: number, value: number): void {
    const end = Math.ceil((at + length) / IOMMU_PAGE_BYTES)
    this.pages.fill(value, Math.floor(at / IOMMU_PAGE_BYTES), end)
  }

  /** Whether all of [at, at + length) is mapped. */
  reach(at: number, length: number): boolean {
    const last = Math.floor((at + Math.max(1, length) - 1) / IOMMU_PAGE_BYTES)
    for (let page = Math.floor(at / IOMMU_PAGE_BYTES); page <= last; page++) {
      if (this.pages[page] !== 1) return false
    }
    return true
  }
}

/** A memory at the far end. */
export interface FarMemory {
  readonly kind: 'persistent' | 'ram'
  readonly windows: Windows
  /** A write arrives; `past` the caches, or into them. */
  land(at: number, bytes: Uint8Array, past: boolean): void
  /** Its host has no power any more: of what is not durable `choice` decides. */
  powerCut(choice: CutChoice): void
}

/**
 * What becomes of one access. A read comes back as unsupported request, as poisoned completion or
 * not at all; or late, when the card has given it up, and then it has pushed what was before it; or
 * twice. A completion that nobody waits for is discarded (PCIe Base 2.3.2). A write is lost; and
 * the card may be taken away before either.
 */
export type AccessFault =
  | 'unsupported'
  | 'poisoned'
  | 'timeout'
  | 'late'
  | 'twice'
  | 'lost'
  | 'removal'

export interface Access {
  /** Its number since the link was made, from 0. */
  readonly number: number
  readonly kind: 'read' | 'write'
  readonly memory: 'persistent' | 'ram'
  readonly at: number
  readonly length: number
}

/** Faults by chance, each a probability per access. */
export interface LinkChances {
  readonly random: Random
  readonly unsupported?: number
  readonly poisoned?: number
  readonly timeout?: number
  readonly lost?: number
}

export interface LinkCounters {
  reads: number
  bytesRead: number
  writes: number
  bytesWritten: number
  registerWrites: number
  /** Reads that failed, for whatever reason. */
  readsFailed: number
  /** Completions that nobody waited for: of reads that were late, or answered twice. */
  unexpected: number
  /** Writes that did not arrive, for whatever reason. */
  writesLost: number
  /** Of these two, what the IOMMU refused. */
  refused: number
}

interface Posted {
  readonly memory: FarMemory
  readonly at: number
  readonly bytes: Uint8Array
  readonly past: boolean
  readonly atUs: number
}

const MEMORY = having(['land', 'powerCut'], 'a memory of a host')

export class PcieLink {
  readonly counts: LinkCounters = {
    reads: 0,
    bytesRead: 0,
    writes: 0,
    bytesWritten: 0,
    registerWrites: 0,
    readsFailed: 0,
    unexpected: 0,
    writesLost: 0,
    refused: 0,
  }
  /** Decides about each access; undefined leaves it to chance. */
  script: ((access: Access) => AccessFault | undefined) | null = null
  chances: LinkChances | null = null
  /**
   * Whether the board learns that a write to persistent memory was lost. Where it does not, no
   * record placed there can be trusted: for tests that show it.
   */
  contains = true
  /** Without a clock: writes wait until they are pushed or told to arrive, or arrive at once. */
  holds: boolean

  private isUp = true
  private posted: Posted[] = []
  private clock: Clock | null = null
  private timer: Timer | null = null
  private accesses = 0
  /** A write to persistent memory was lost, or may have been. */
  private lost = false
  private listReads = 0
  private listBytes = 0
  private busyNs = 0
  private readonly watchers = new Set<() => void>()
  private readonly memories = new Map<FarMemory['kind'], FarMemory>()

  constructor(holds = false) {
    check('holds', holds, BOOLEAN)
    this.holds = holds
  }

  get up(): boolean {
    return this.isUp
  }

  /** Writes that have not arrived. */
  get postedWrites(): number {
    return this.posted.length
  }

  /** That memory lies behind the link, in the place of the one of its kind. */
  attach(memory: FarMemory): void {
    check('memory', memory, MEMORY)
    this.memories.set(memory.kind, memory)
  }

  /** From now on writes arrive when it is time. */
  useClock(clock: Clock): void {
    check('clock', clock, CLOCK)
    this.clock = clock
  }

  /** Calls `watcher` whenever the link goes down or comes up; returns what ends that. */
  watch(watcher: () => void): () => void {
    check('watcher', watcher, FUNCTION)
    this.watchers.add(watcher)
    return () => this.watchers.delete(watcher)
  }

  /**
   * A posted write: it has left when this returns, and `source` may change. Returns false if there
   * was nothing to send, or if it is lost; nobody tells the card.
   */
  write(
    memory: FarMemory,
    at: number,
    source: Uint8Array,
    from: number,
    length: number,
    past: boolean,
  ): boolean {
    if (length === 0) return false
    this.counts.writes++
    this.counts.bytesWritten += length
    if (!this.writeArrives(memory, at, length)) {
      this.lose(memory)
      return false
    }
    const bytes = source.slice(from, from + length)
    const { clock } = this
    if (clock === null && !this.holds) {
      memory.land(at, bytes, past)
      return true
    }
    const atUs = clock === null ? 0 : clock.nowUs + DMA_WRITE_NS / 1000
    this.posted.push({ memory, at, bytes, past, atUs })
    this.schedule()
    return true
  }

  private writeArrives(memory: FarMemory, at: number, length: number): boolean {
    const fault = this.judge('write', memory, at, length)
    if (fault === 'removal') this.remove()
    if (!this.isUp || fault === 'lost') return false
    if (memory.windows.reach(at, length)) return true
    this.counts.refused++
    return false
  }

  private lose({ kind }: FarMemory): void {
    this.counts.writesLost++
    if (kind === 'persistent') this.lost = true
  }

  /** Whether a read is answered; if it is, every write before it has arrived. */
  read(memory: FarMemory, at: number, length: number): boolean {
    this.counts.reads++
    this.counts.bytesRead += length
    this.listReads++
    this.listBytes += length
    if (this.readIsAnswered(memory, at, length)) {
      this.arrive()
      return true
    }
    this.counts.readsFailed++
    return false
  }

  private readIsAnswered(memory: FarMemory, at: number, length: number): boolean {
    const fault = this.judge('read', memory, at, length)
    if (fault === 'removal') this.remove()
    if (fault === 'timeout' || fault === 'late') this.busyNs += COMPLETION_TIMEOUT_NS
    if (!this.isUp || fault === 'unsupported' || fault === 'poisoned' || fault === 'timeout') {
      return false
    }
    if (this.lost && this.contains && memory.kind === 'persistent') return false
    if (!memory.windows.reach(at, length)) {
      this.counts.refused++
      return false
    }
    if (fault === 'late' || fault === 'twice') this.counts.unexpected++
    if (fault !== 'late') return true
    this.arrive()
    return false
  }

  private judge(
    kind: 'read' | 'write',
    memory: FarMemory,
    at: number,
    length: number,
  ): AccessFault | undefined {
    const number = this.accesses++
    const fault = this.script?.({ number, kind, memory: memory.kind, at, length })
    if (fault !== undefined || this.chances === null) return fault
    const { random, unsupported = 0, poisoned = 0, timeout = 0, lost = 0 } = this.chances
    if (kind === 'write') return random.chance(lost) ? 'lost' : undefined
    if (random.chance(unsupported)) return 'unsupported'
    if (random.chance(poisoned)) return 'poisoned'
    return random.chance(timeout) ? 'timeout' : undefined
  }

  /** The next `count` posted writes arrive, or all of them. */
  arrive(count: number = this.posted.length): void {
    check('writes that arrive', count, SIZE)
    for (const { memory, at, bytes, past } of this.posted.splice(0, count)) {
      memory.land(at, bytes, past)
    }
  }

  /** Takes what is on its way: the power is gone on both sides. */
  take(): readonly Posted[] {
    return this.posted.splice(0)
  }

  private schedule(): void {
    const { clock } = this
    const first = this.posted[0]
    if (clock === null || this.timer !== null || first === undefined) return
    this.timer = clock.schedule(first.atUs, () => {
      this.timer = null
      const due = this.posted.findIndex(({ atUs }) => atUs > clock.nowUs)
      this.arrive(due < 0 ? this.posted.length : due)
      this.schedule()
    })
  }

  /** A command list begins: its reads overlap. */
  beginList(): void {
    this.listReads = 0
    this.listBytes = 0
  }

  /** It is over, and so are its reads. */
  endList(): void {
    if (this.listReads === 0) return
    const gaps = (this.listReads - 1) * READ_GAP_NS
    this.busyNs += DMA_READ_NS + gaps + this.listBytes / LINK_BYTES_PER_NS
    this.listReads = 0
  }

  /** How long the card has waited for reads since it was asked last, nanoseconds. */
  takeBusyNs(): number {
    const { busyNs } = this
    this.busyNs = 0
    return busyNs
  }

  /** What is on its way is gone except for the first `arrived` writes. */
  drop(arrived = 0): void {
    this.arrive(arrived)
    for (const { memory } of this.posted.splice(0)) this.lose(memory)
  }

  /** A card is there that knows of nothing that was before it. */
  cardOn(): void {
    this.lost = false
    this.busyNs = 0
  }

  /** The link goes down: the card was taken out, or the host resets its bus. */
  remove(arrived = 0): void {
    check('writes that arrive', arrived, SIZE)
    if (!this.isUp) return
    this.drop(arrived)
    this.isUp = false
    // What the card knew of its host ends here, even if the link is back before it looks.
    this.lost = true
    for (const watcher of [...this.watchers]) watcher()
  }

  /** It is there again: what was lost before, the port tells by the link that was down. */
  restore(): void {
    if (this.isUp) return
    this.isUp = true
    this.lost = false
    for (const watcher of [...this.watchers]) watcher()
  }

  /**
   * The host loses its power, or is reset, and the card is not: its memories are cut, and the link
   * is down until `restore`. Unless `choice` says otherwise nothing survives that was not durable.
   */
  loseHost(choice: CutChoice = { random: new Random(0), strategy: 'none' }): void {
    checkChoice(choice, ['random'])
    for (const memory of this.memories.values()) memory.powerCut(choice)
    this.remove()
  }
}
