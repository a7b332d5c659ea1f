// hot path
/**
 * Buckets of a time in µs: powers of two with four steps each, as FIGURES of wire/management.ts
 * tells them.
 *
 * Invariant: each time from 0 on is in one bucket, and a longer one in none before it. A bucket is
 * at most a quarter as wide as its begin, from 4 µs on; below, each µs has its own. Where each
 * begins, who reads them knows (host-driver/control/buckets.ts).
 */

/** The last bucket begins at 7 * 2^24 µs, and has no end. */
const EXPONENT_MAX = 26

/** How many there are. */
export const BUCKETS: number = 4 * EXPONENT_MAX

/** The bucket of so many µs, at least 0. */
export function bucketOf(us: number): number {
  if (us < 4) return us | 0
  if (us >= 2 ** (EXPONENT_MAX + 1)) return BUCKETS - 1
  const exponent = 31 - Math.clz32(us)
  return 4 * (exponent - 1) + ((us >> (exponent - 2)) & 3)
}
