/** Where the buckets of firmware/board/latency.ts begin, which sorts times into them. */

import { BUCKETS } from '../../firmware/board/latency.ts'

/** The first time that bucket `bucket` has, µs, from 0; Infinity behind the last one. */
export function bucketBeginUs(bucket: number): number {
  if (bucket < 4) return bucket
  if (bucket >= BUCKETS) return Infinity
  return (4 + (bucket & 3)) * 2 ** ((bucket >> 2) - 1)
}
