/**
 * A requester that works on memory which is larger than what its host keeps mapped, in virtual
 * time: the work, and how it is done with and without memory status (source 5).
 *
 *     const cost = await runLoad({ pattern: 'sequential', mode: 'ahead', ...SMALL, seed: 1 })
 *
 * Invariants:
 * - The work of a pattern is the same list of accesses in every mode: pages, kinds, think times.
 * - Every READ is compared with what was written before it: a wrong byte ends the run.
 * - What was loaded is what the list asks for, from a state that is the same for every mode: each
 *   page has a content, half of them are in the swap file, nothing is mapped.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { MEMORY_STATUS, PREFETCH_HINT } from '../../../firmware/wire/opcode.ts'
import type { Wire } from '../../../host-driver/base/wire.ts'
import type { BytesRegion } from '../../../host-driver/bytes/bytes-region.ts'
import { connect } from '../../../host-driver/connect.ts'
import type { WatchOptions } from '../../../host-driver/status/criteria.ts'
import { endpointOf } from '../peers/network.ts'
import { difference, OnDemandRig } from './on-demand-rig.ts'

export const PATTERNS = ['sequential', 'random', 'hot-spot'] as const
export type Pattern = (typeof PATTERNS)[number]

/**
 * 'none': no association, so pages come by RNR. 'access': an access to what is not ready is hinted
 * at and waits. 'ahead': besides, the program hints at what is next in its queue of work.
 */
export const MODES = ['none', 'access', 'ahead'] as const
export type Mode = (typeof MODES)[number]

interface Load {
  readonly pattern: Pattern
  readonly mode: Mode
  readonly pages: number
  /** What the host keeps mapped at the most. */
  readonly frames: number
  readonly accesses: number
  readonly seed: number
  readonly watch?: WatchOptions
}

interface Access {
  readonly page: number
  readonly writes: boolean
  /** What the program does before, µs. */
  readonly thinkUs: number
}

/** Accesses that the program has under way. */
export const DEPTH = 4
/** It thinks for so long before each of them, µs, evenly from 0 to twice that. */
export const THINK_US = 80
export const WRITES = 0.1
/** The program hints at an access so many before it, or earlier: at so many at a time. */
export const AHEAD = 24
export const HINTED_TOGETHER = 8

/** 9 of 10 accesses go to so many of the pages, which move on by a page after so many accesses. */
const HOT_SHARE = 0.9
const HOT_PAGES = 0.15
const HOT_STAYS = 64

/** The work. */
export function accessesOf(
  pattern: Pattern,
  pages: number,
  accesses: number,
  seed: number,
): Access[] {
  const random = new Random(seed)
  return Array.from({ length: accesses }, (_, i) => ({
    page: pageOf(pattern, pages, i, random),
    writes: random.chance(WRITES),
    thinkUs: random.below(2 * THINK_US + 1),
  }))
}

function pageOf(pattern: Pattern, pages: number, i: number, random: Random): number {
  if (pattern === 'sequential') return i % pages
  if (pattern === 'random' || !random.chance(HOT_SHARE)) return random.below(pages)
  const hot = Math.max(1, Math.floor(pages * HOT_PAGES))
  return (Math.floor(i / HOT_STAYS) + random.below(hot)) % pages
}

export interface LoadCost {
  readonly pattern: Pattern
  readonly mode: Mode
  readonly pages: number
  readonly frames: number
  readonly accesses: number
  /** Pages that were loaded, and NAKs of RNR. */
  readonly faults: number
  readonly rnrs: number
  readonly hints: number
  readonly notices: number
  /** Bytes of their frames, per million bytes that were read or written. */
  readonly noticeBytesPerMb: number
  readonly hintBytesPerMb: number
  /** From the call to the end, µs of virtual time, in order. */
  readonly latencies: readonly number[]
  /** Millions of bytes per second of virtual time. */
  readonly mbPerSecond: number
}

/** Opens the memory, does the work, and says what it took. */
export async function runLoad(load: Load): Promise<LoadCost> {
  const { pattern, mode, pages, frames, accesses, seed } = load
  const rig = await OnDemandRig.open({ pages, frames, seed })
  const wire = new CountedWire(rig.room.addHost())
  const ends = { own: endpointOf(99), peer: endpointOf(rig.machine.last) }
  const dpu = await connect(wire, { ...ends, clientId: 99n, firstOperation: 1n, seed })
  const memory = await dpu.openBytes(rig.region.name)
  for (let page = 0; page < pages; page++) await rig.pager.store(page * PAGE_BYTES, stamp(page, 0))
  if (mode !== 'none') await memory.watch({ blockBytes: PAGE_BYTES, ...load.watch })
  await rig.pass(10_000)
  const before = await rig.counters()
  const began = wire.take()
  const work = accessesOf(pattern, pages, accesses, seed)
  const program = new Program(rig, memory, work, mode === 'ahead')
  await program.run()
  const after = rig.clock.nowUs
  const { faults, rnrs } = difference(await rig.counters(), before)
  const ended = wire.take()
  await dpu.close()
  await rig.close()
  const megabytes = (accesses * PAGE_BYTES) / 1e6
  return {
    ...{ pattern, mode, pages, frames, accesses, faults, rnrs },
    hints: ended.hints - began.hints,
    notices: ended.notices - began.notices,
    noticeBytesPerMb: (ended.noticeBytes - began.noticeBytes) / megabytes,
    hintBytesPerMb: (ended.hintBytes - began.hintBytes) / megabytes,
    latencies: program.latencies.sort((a, b) => a - b),
    mbPerSecond: (megabytes / (after - before.timeUs)) * 1e6,
  }
}

/** A page as its last WRITE left it. */
function stamp(page: number, version: number): Uint8Array {
  const bytes = new Uint8Array(PAGE_BYTES)
  new Uint32Array(bytes.buffer).fill(page * 65_536 + version)
  return bytes
}

/** DEPTH hands that take one access after the other from the list. */
class Program {
  readonly latencies: number[] = []
  private readonly rig: OnDemandRig
  private readonly memory: BytesRegion
  private readonly work: readonly Access[]
  private readonly hintsAhead: boolean
  private readonly versions = new Map<number, number>()
  private next = 0
  private hinted = 0

  constructor(rig: OnDemandRig, memory: BytesRegion, work: readonly Access[], hintsAhead: boolean) {
    this.rig = rig
    this.memory = memory
    this.work = work
    this.hintsAhead = hintsAhead
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: DEPTH }, () => this.hand()))
  }

  private async hand(): Promise<void> {
    while (this.next < this.work.length) {
      if (this.hintsAhead) this.hintAhead()
      const access = this.work[this.next++]!
      await this.rig.pass(access.thinkUs)
      const began = this.rig.clock.nowUs
      await this.access(access)
      this.latencies.push(this.rig.clock.nowUs - began)
    }
  }

  private async access({ page, writes }: Access): Promise<void> {
    const { memory, versions } = this
    const version = versions.get(page) ?? 0
    if (writes) {
      versions.set(page, version + 1)
      await memory.write(page * PAGE_BYTES, stamp(page, version + 1))
      return
    }
    const read = await memory.read(page * PAGE_BYTES, PAGE_BYTES)
    if (Buffer.compare(read, stamp(page, version)) === 0) return
    throw new Error(`page ${page} is not as its write number ${version} left it`)
  }

  /** Hints at the pages of the accesses that come into sight, neighbours together. */
  private hintAhead(): void {
    const { work } = this
    if (this.next + AHEAD < this.hinted) return
    const end = Math.min(this.next + AHEAD + HINTED_TOGETHER, work.length)
    while (this.hinted < end) {
      const first = this.hinted
      const { page } = work[first]!
      let count = 1
      while (first + count < end && work[first + count]!.page === page + count) count++
      this.hinted += count
      // It fails with the connection, and so does the access.
      this.memory
        .prefetch({ offset: page * PAGE_BYTES, length: count * PAGE_BYTES })
        .catch(() => {})
    }
  }
}

interface Traffic {
  readonly notices: number
  readonly noticeBytes: number
  readonly hints: number
  readonly hintBytes: number
}

/** Position in a frame of IPv4. */
const BTH_OPCODE_AT = 42

/** A host's wire that counts what is said of memory. */
class CountedWire implements Wire {
  private readonly wire: Wire
  private readonly counts = { notices: 0, noticeBytes: 0, hints: 0, hintBytes: 0 }

  constructor(wire: Wire) {
    this.wire = wire
  }

  take(): Traffic {
    return { ...this.counts }
  }

  send(frame: Uint8Array): void {
    if (frame[BTH_OPCODE_AT] === PREFETCH_HINT) {
      this.counts.hints++
      this.counts.hintBytes += frame.length
    }
    this.wire.send(frame)
  }

  onFrame(callback: (frame: Uint8Array) => void): void {
    this.wire.onFrame((frame) => {
      if (frame[BTH_OPCODE_AT] === MEMORY_STATUS) {
        this.counts.notices++
        this.counts.noticeBytes += frame.length
      }
      callback(frame)
    })
  }

  close(): void {
    this.wire.close()
  }

  now(): number {
    return this.wire.now()
  }

  setTimer(atUs: number, callback: () => void): () => void {
    return this.wire.setTimer(atUs, callback)
  }
}
