/**
 * What the driver knows of the memory behind a region (source 5): a view that moves with it.
 *
 * Invariant: it is what the DPU has told and nothing else; it grants nothing. An access to
 * a block that is not ready works as well, only slower.
 */

import {
  type BlockCounts,
  type Blocks,
  blockAt,
  findReady,
  groupSize,
  isRangeReady,
} from '../../firmware/residency/blocks.ts'
import {
  BLOCK_NOT_READY,
  BLOCK_READY,
  HEALTH_DEGRADED,
  HEALTH_FAILED,
  HEALTH_NOT_PERSISTENT,
  HEALTH_OK,
  STATUS_ERROR,
  STATUS_RESET,
  STATUS_UNAVAILABLE,
} from '../../firmware/wire/memory-status.ts'
import { check, oneOf, SIZE } from '../base/kinds.ts'

/** Bytes of a region. */
export interface ByteRange {
  readonly offset: number
  readonly length: number
}

/** Records of a region; one, where `count` is not given. */
export interface SlotRange {
  readonly slot: number
  readonly count?: number
}

/** How the ranges of a region lie in what is associated. */
export interface Ranges<Range> {
  toBytes(range: Range): ByteRange
  /** The first range of that many bytes at `offset` or behind. */
  fromBytes(offset: number, length: number): Range
  /** Bytes of what one may name: 1, or those of a slot. */
  unit(): number
}

export type BlockState = 'ready' | 'notReady' | 'unknown'

/** Blocks that are looked at together. */
export interface BlockGroup {
  /** Blocks of it that are ready, and its blocks. */
  readonly ready: number
  readonly size: number
  /** A block of it was told not to be in memory, and they are not all ready since. */
  readonly flag: boolean
}

/**
 * 'silent': nothing was told yet. 'ready': the state of every block was told. 'error',
 * 'unavailable', 'reset': what was told before does not count any more, and no hint is sent.
 */
export type StatusPhase = 'silent' | 'ready' | 'error' | 'unavailable' | 'reset'

const PHASES: Readonly<Record<number, StatusPhase>> = {
  0: 'silent',
  1: 'ready',
  [STATUS_ERROR]: 'error',
  [STATUS_UNAVAILABLE]: 'unavailable',
  [STATUS_RESET]: 'reset',
}

const HEALTHS: Readonly<Record<number, ResidencyStatus['health']>> = {
  [HEALTH_OK]: 'ok',
  [HEALTH_DEGRADED]: 'degraded',
  [HEALTH_NOT_PERSISTENT]: 'notPersistent',
  [HEALTH_FAILED]: 'failed',
}

export class ResidencyStatus<Range = ByteRange> {
  private readonly known: Blocks
  private readonly ranges: Ranges<Range>
  /** Of the groups that were named in `watch`. */
  readonly groupNames: readonly string[]

  /** For `Watch`; not to be called by users. */
  constructor(known: Blocks, ranges: Ranges<Range>, groupNames: readonly string[] = []) {
    this.known = known
    this.ranges = ranges
    this.groupNames = groupNames
  }

  get phase(): StatusPhase {
    return PHASES[this.known.phase] ?? 'silent'
  }

  /** Health of the part, as it said last. */
  get health(): 'ok' | 'degraded' | 'notPersistent' | 'failed' | 'unknown' {
    return HEALTHS[this.known.health] ?? 'unknown'
  }

  /** Bytes of a block, as both sides have agreed; without an agreement it holds everything. */
  get blockBytes(): number {
    return 2 ** this.known.sizeLog2
  }

  get blocks(): number {
    return this.known.count
  }

  get readyBlocks(): number {
    return this.known.ready
  }

  /** Incarnation of the part, and number of the notice that came last. */
  get incarnation(): number {
    return this.known.incarnation
  }

  get sequence(): number {
    return this.known.sequence
  }

  /** Grows with every change. */
  get revision(): number {
    return this.known.revision
  }

  get groups(): BlockGroup[] {
    const { groups, groupReady, groupFlags } = this.known
    return Array.from({ length: groups }, (_, group) => ({
      ready: groupReady[group]!,
      size: groupSize(this.known, group),
      flag: groupFlags[group] === 1,
    }))
  }

  /** The blocks of the ranges that were named so, whatever the size of a block is now. */
  group(name: string): BlockGroup {
    const { groupNames, known } = this
    const group = groupNames.indexOf(name)
    check('group', name, oneOf(groupNames))
    const { ready, sizes, flags } = known.named!
    return { ready: ready[group]!, size: sizes[group]!, flag: flags[group] === 1 }
  }

  /** What was heard and done since the watch was opened. */
  get counts(): Readonly<BlockCounts> {
    return this.known.counts
  }

  stateOf(block: number): BlockState {
    check('block', block, SIZE)
    const state = block < this.known.count ? this.known.states[block] : -1
    if (state === BLOCK_READY) return 'ready'
    return state === BLOCK_NOT_READY ? 'notReady' : 'unknown'
  }

  /** Whether all of it is known to be ready. */
  isReady(range: Range): boolean {
    const { offset, length } = this.ranges.toBytes(range)
    return this.isReadyAt(offset, length)
  }

  /** Likewise, of bytes of what is associated. */
  isReadyAt(offset: number, length: number): boolean {
    return offset + length <= this.known.length && isRangeReady(this.known, offset, length)
  }

  /**
   * The next range behind this one that is as long and ready, to be used instead (P5-5); round to
   * this one, and null where there is none.
   */
  otherReady(range: Range): Range | null {
    const { known, ranges } = this
    const { offset, length } = ranges.toBytes(range)
    const size = this.blockBytes
    const run = Math.ceil((length + ranges.unit() - 1) / size)
    const near = Math.min(blockAt(known, offset + Math.max(length, 1) - 1) + 1, known.count)
    const block = findReady(known, run, near)
    if (block < 0) return null
    const found = ranges.fromBytes(block * size, length)
    return this.isReady(found) ? found : null
  }
}
