/**
 * How large the packets are that the path to the DPU carries: found by trying, unless it is said.
 *
 *   4096 ── lost twice ──▶ 1024 ── lost twice ──▶ 256
 *
 * A path may have less room than both ends, or drop the fragments of what it has no room for. Then
 * whatever is small is answered, and what is large is never heard of again.
 *
 * Invariant: a size is left only when two connections in a row broke under a large packet,
 * though the DPU was there, and no large one had come through over them that way, there or back. A
 * size that was said is never left: its owner is told.
 */

import type { JobQueue } from '../way/way.ts'

/** Payload bytes of a packet; the second fits a frame of 1500 bytes, the last one of 576. */
const SIZES = [4096, 1024, 256] as const

/** Connections that may break under a large packet before it is believed that none passes. */
const BREAKS = 2

export class PathMtu {
  /** What the next connection asks for. */
  size: number
  private readonly isSaid: boolean
  private readonly tell: (text: string) => void
  private breaks = { sent: 0, received: 0 }

  /** `said` is of the options; `tell` gets a sentence where large packets do not come through. */
  constructor(said: number | undefined, tell: (text: string) => void) {
    this.size = said ?? SIZES[0]
    this.isSaid = said !== undefined
    this.tell = tell
  }

  /** A connection is over, and the DPU is there. */
  learn({ granted: { pathMtu }, large }: JobQueue): void {
    for (const way of ['sent', 'received'] as const) {
      if (large?.[way] === 'passed') this.breaks[way] = 0
      if (large?.[way] === 'lost' && ++this.breaks[way] === BREAKS) this.leave(pathMtu)
    }
  }

  private leave(pathMtu: number): void {
    const next = SIZES.find((size) => size < pathMtu)
    if (next === undefined) return
    const what = `no packet of ${pathMtu} bytes came through, and smaller ones do`
    if (this.isSaid) {
      this.tell(`${what}: give pathMtu ${next} (--path-mtu), or let it be found`)
      return
    }
    this.size = next
    this.breaks = { sent: 0, received: 0 }
    this.tell(`${what}: packets have ${next} bytes from now on (pathMtu, --path-mtu)`)
  }
}
