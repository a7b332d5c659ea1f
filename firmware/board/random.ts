// hot path
/**
 * The generator of keys, identities and starting PSNs.
 *
 * Invariant: its state is never all zeros, which would stay so.
 */

/**
 * Stirs what tells this life of the part from every other one into the generator: a board whose
 * entropy repeats then repeats no key, no PSN and no identity (fault L6). Words of which the first
 * two alone differ leave states that differ: each goes into a word of its own, and every step after
 * it can be undone. No state is all zeros, which would stay so.
 */
export function stir(r: Int32Array, words: readonly number[]): void {
  for (let i = 0; i < words.length; i++) {
    const at = (i + 1) & 3
    r[at] = r[at]! ^ Math.imul(words[i]! + i, 0x9e3779b9)
  }
  r[0] = r[0]! | 1
  for (let i = 0; i < 32; i++) nextRandom(r)
}

/** Steps the generator of four words (xorshift128; Marsaglia 2003). */
export function nextRandom(r: Int32Array): number {
  let t = r[3]!
  const s = r[0]!
  r[3] = r[2]!
  r[2] = r[1]!
  r[1] = s
  t ^= t << 11
  t ^= t >>> 8
  r[0] = t ^ s ^ (s >>> 19)
  return r[0]! >>> 0
}
