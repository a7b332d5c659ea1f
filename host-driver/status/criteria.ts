/**
 * What a watch asks for, and why: the criteria by which block size and time of notices are agreed,
 * as far as the requester has them (source 5, ¶79, ¶82, ¶84, ¶86; S1-M12). The DPU's are in
 * firmware/residency/size.ts and meter.ts.
 *
 * Invariants:
 * - What is said by name counts before what the kind of use suggests; the room for blocks counts
 *   before both.
 * - A DPU that does not know of the criteria serves wish, period, threshold and maximum, which all
 *   know, and takes no notice of the others.
 */

import { NAMED_GROUPS, type NamedRange } from '../../firmware/residency/named-groups.ts'
import { PAGE_LOG2 } from '../../firmware/residency/size.ts'
import { type Bseth, blankBseth } from '../../firmware/wire/block-size.ts'
import { ArgumentError } from '../base/errors.ts'
import { WAIT_KINDS, type WaitOptions } from '../base/give-up.ts'
import {
  check,
  checkFields,
  integer,
  type Kind,
  type Kinds,
  LIST,
  OBJECT,
  oneOf,
  WORD,
} from '../base/kinds.ts'
import type { ByteRange, Ranges } from './residency-status.ts'

/** How the memory is used, mostly. */
export type MemoryUse = 'scattered' | 'sequential'

export interface WatchOptions<Range = ByteRange> extends WaitOptions {
  /**
   * How the memory is used: decides the size of a block where none is given. 'scattered': short
   * accesses anywhere, so fine blocks. 'sequential': long ones, or many in a row, so blocks of what
   * the DPU brings for one request, and fewer notices.
   */
  readonly use?: MemoryUse
  /** Bytes of a block that are wished for, a power of two; what the DPU suggests by default. */
  readonly blockBytes?: number
  /** Changes are collected for so long before the DPU tells them, µs; 100 by default. */
  readonly periodUs?: number
  /** Changes of memory after which it tells at once; 16 by default, 0 is never. */
  readonly threshold?: number
  /** Blocks that one notice tells of at the most, 1 to 256. */
  readonly maximum?: number
  /**
   * Bytes per second that notices may take, at least 1024; what the DPU allows by default. It is
   * told as a power of two, the next smaller one.
   */
  readonly budget?: number
  /** Blocks that there is room for here; 65536 by default. The DPU offers no size with more. */
  readonly blocks?: number
  /** Blocks in a row that are counted together; 64 by default. */
  readonly groupBlocks?: number
  /** Ranges that are of one use, by its name: `status.group(name)` counts their blocks. Up to 8. */
  readonly groups?: Readonly<Record<string, readonly Range[]>>
  /**
   * How long an access waits for memory that it has hinted at, µs; 5000 by default, and 500 for
   * records, which are in memory, and at most under an update.
   */
  readonly prefetchUs?: number
}

/** What a use asks for: size of a block, and the coarsest that is offered, log2; 0 is any. */
interface Wanted {
  readonly blockLog2: number
  readonly mostLog2: number
}

/** The bytes of which a DPU asks its host for the pages at once, log2. */
const AT_ONCE_LOG2 = 16

/**
 * The time of notices does not go by the use. Collected for longer they are fewer, but whoever
 * waits for one waits longer. Measured in sequence over twice the memory that is mapped, blocks of
 * 64 KiB: 500 µs and 64 actions instead of 100 and 16 save 45 % of the bytes of notices, and cost
 * 38 % of the throughput. The size does: 64 KiB instead of a page saves 78 %, and gives 89 % more.
 */
const USES: Readonly<Record<MemoryUse, Wanted>> = {
  // What lies beside an access will not be needed: coarse blocks would bring it in vain.
  scattered: { blockLog2: PAGE_LOG2, mostLog2: AT_ONCE_LOG2 },
  // All of a block will be needed, and soon.
  sequential: { blockLog2: AT_ONCE_LOG2, mostLog2: 0 },
}

/** Blocks of a region that the driver has room for. */
export const BLOCKS_MAX: number = 1 << 16

/** The header of our ASSOCIATE. */
export function askedFor<Range>(options: WatchOptions<Range>): Bseth {
  checkFields('options of a watch', options, WATCH_KINDS)
  const { use, blockBytes, budget } = options
  const wanted = use === undefined ? { blockLog2: 0, mostLog2: 0 } : USES[use]
  const { periodUs = 100, threshold = 16, maximum = 256 } = options
  return {
    ...blankBseth(),
    optIn: true,
    current: true,
    criteria: true,
    blockSizeLog2: blockBytes === undefined ? wanted.blockLog2 : Math.log2(blockBytes),
    mostLog2: wanted.mostLog2,
    budgetLog2: budget === undefined ? 0 : Math.floor(Math.log2(budget)),
    ...{ periodUs, threshold, maximum },
  }
}

/** Names of groups, and the ranges of each by its place in the names. */
interface Named {
  readonly names: readonly string[]
  readonly ranges: readonly NamedRange[]
}

/** The groups that were named, of memory of so many bytes. */
export function namedOf<Range>(
  { groups = {} }: WatchOptions<Range>,
  { toBytes }: Ranges<Range>,
  length: number,
): Named {
  const names = Object.keys(groups)
  check('groups', names.length, integer(0, NAMED_GROUPS))
  const ranges = names.flatMap((name, group) => {
    check(`ranges of group '${name}'`, groups[name], LIST)
    return groups[name]!.map((range) => {
      const { offset, length: bytes } = toBytes(range)
      const to = offset + bytes
      if (to <= length) return { group, from: offset, to }
      throw new ArgumentError(`group '${name}': a range ends at ${to}, and the region at ${length}`)
    })
  })
  return { names, ranges }
}

export const BLOCK_BYTES: Kind = {
  give: 'a power of two, in bytes',
  takes: (value) => {
    const log2 = typeof value === 'number' ? Math.log2(value) : -1
    return Number.isInteger(log2) && log2 >= 0 && log2 < 64
  },
}

const WATCH_KINDS: Kinds<WatchOptions<unknown>> = {
  use: oneOf(Object.keys(USES)),
  blockBytes: BLOCK_BYTES,
  periodUs: integer(0, 100_000_000),
  threshold: WORD,
  maximum: integer(1, 256),
  budget: integer(1024, 2 ** 40),
  blocks: integer(1, BLOCKS_MAX),
  groupBlocks: integer(1, BLOCKS_MAX),
  groups: OBJECT,
  prefetchUs: integer(1, 10_000_000),
  ...WAIT_KINDS,
}
