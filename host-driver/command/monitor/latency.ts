/**
 * How soon a region acknowledged between two samples: the difference of their histograms, and the
 * times within which a share of it was done.
 *
 * Invariant: a quantile is within the bucket that it falls into, as if all of that bucket had come
 * at even distances; so it is at most a quarter off, and at most 1 µs below 4 µs. Of the last
 * bucket, which has no end, it is the begin.
 */

import type { LatencyBucket } from '../../control/figures.ts'

/** Times of what was acknowledged, µs; null where nothing was. */
export interface Latency {
  readonly p50Us: number | null
  readonly p99Us: number | null
  readonly p999Us: number | null
}

/** Buckets of what was counted since; none is below 0 where both are of one life. */
export function bucketsSince(
  before: readonly LatencyBucket[],
  now: readonly LatencyBucket[],
): LatencyBucket[] {
  const was = new Map(before.map(({ fromUs, count }) => [fromUs, count]))
  return now
    .map((one) => ({ ...one, count: one.count - (was.get(one.fromUs) ?? 0n) }))
    .filter(({ count }) => count > 0n)
}

export function latencyOf(buckets: readonly LatencyBucket[]): Latency {
  return {
    p50Us: quantileUs(buckets, 0.5),
    p99Us: quantileUs(buckets, 0.99),
    p999Us: quantileUs(buckets, 0.999),
  }
}

/** Within how many µs that share was done, 0 to 1. The buckets grow; null without any. */
function quantileUs(buckets: readonly LatencyBucket[], share: number): number | null {
  const all = buckets.reduce((sum, { count }) => sum + Number(count), 0)
  let left = share * all
  for (const { fromUs, toUs, count } of buckets) {
    const here = Number(count)
    if (left <= here) {
      return toUs === Number.POSITIVE_INFINITY ? fromUs : fromUs + ((toUs - fromUs) * left) / here
    }
    left -= here
  }
  return buckets.at(-1)?.fromUs ?? null
}
