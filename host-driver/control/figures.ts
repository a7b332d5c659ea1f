/**
 * What a card counts of its acknowledgements, in plain values (FIGURES of
 * firmware/wire/management.ts). Everything begins at 0 when the card starts, and only grows until
 * it starts again; what is of a region begins with the region.
 */

import { u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { u64 } from '../base/wide.ts'
import { bucketBeginUs } from './buckets.ts'

/** What a card has done since its start. */
export interface CardFigures {
  /** Calls of its board that brought frames, or doorbells of its host. */
  readonly bursts: bigint
  /** Fences, whatever they were for. */
  readonly fences: bigint
  /** PERSIST_ACKs that left, refusals too, and answers to FLUSH and ATOMIC WRITE. */
  readonly acknowledgements: bigint
}

/** How often an acknowledgement took at least `fromUs`, and less than `toUs`. */
export interface LatencyBucket {
  /** µs, 0 to 2^27. */
  readonly fromUs: number
  /** µs; Infinity of the last bucket, which begins at 117440512 µs. */
  readonly toUs: number
  readonly count: bigint
}

/** What became durable in a region since the card's start, or since it was made. */
export interface RegionFigures {
  /** Id of the region. */
  readonly region: number
  /** Records; of plain bytes stores that are kept, and FLUSHes to persistence: each once. */
  readonly acknowledged: bigint
  /** Bytes of them, in one copy. Of a FLUSH those of the range that it names. */
  readonly bytes: bigint
  /** The sum of their times, whole µs. */
  readonly totalUs: bigint
  /**
   * From the begin of the burst that brought the last packet to when the acknowledgement had left:
   * buckets that are not empty, the shortest first.
   */
  readonly latency: readonly LatencyBucket[]
}

/** Asks for the figures from that bucket on; resolves with the body of the answer. */
type Ask = (firstBucket: number) => Promise<Uint8Array>

/** Reads what an answer says of the card. */
export function readCardFigures(body: Uint8Array): CardFigures {
  return {
    bursts: u64(body, mad.FIGURES_BURSTS),
    fences: u64(body, mad.FIGURES_FENCES),
    acknowledgements: u64(body, mad.FIGURES_ACKS),
  }
}

/** Reads what is said of a region, answer by answer; the first one says how many bytes. */
export async function readRegionFigures(ask: Ask): Promise<RegionFigures> {
  const latency: LatencyBucket[] = []
  const first = await ask(0)
  for (let body = first; ; ) {
    latency.push(...readBuckets(body))
    const next = body[mad.FIGURES_NEXT]!
    // A card that went back would be asked for ever.
    if (next === 0 || bucketBeginUs(next) <= (latency.at(-1)?.fromUs ?? -1)) break
    body = await ask(next)
  }
  return {
    region: u32(first, mad.FIGURES_REGION),
    acknowledged: latency.reduce((all, { count }) => all + count, 0n),
    bytes: u64(first, mad.FIGURES_BYTES),
    totalUs: u64(first, mad.FIGURES_TIME),
    latency,
  }
}

/** Bits of a bucket's count: the number of the bucket stands above. */
const COUNT_BITS = 56

function readBuckets(body: Uint8Array): LatencyBucket[] {
  const here = Math.min(body[mad.FIGURES_HERE]!, mad.FIGURES_PER_MAD)
  return Array.from({ length: here }, (_, i) => {
    const at = mad.FIGURES_BUCKETS + i * mad.FIGURES_BUCKET_BYTES
    const bucket = body[at]!
    return {
      fromUs: bucketBeginUs(bucket),
      toUs: bucketBeginUs(bucket + 1),
      count: BigInt.asUintN(COUNT_BITS, u64(body, at)),
    }
  })
}
