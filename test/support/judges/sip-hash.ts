/**
 * SipHash-2-4 with 128 bits of output (Aumasson and Bernstein 2012), by its definition: the check
 * code as the judges compute it.
 *
 * Invariant: nothing here is imported from `firmware/` or `boards/`. A word of 64 bits is
 * two of 32, low and high, as a judge of every image cannot wait for big integers; the vectors of
 * its authors hold it (crash.test.ts).
 */

/** The four words of the state, each low and high. */
const v = new Int32Array(8)
const [V0, V1, V2, V3] = [0, 2, 4, 6] as const

/** v[a] += v[b] */
function add(a: number, b: number): void {
  const low = (v[a]! >>> 0) + (v[b]! >>> 0)
  v[a] = low
  v[a + 1] = v[a + 1]! + v[b + 1]! + (low > 0xffffffff ? 1 : 0)
}

/** v[a] is turned to the left by fewer than 32 bits, and then ^= v[b]. */
function turn(a: number, by: number, b: number): void {
  const low = v[a]!
  const high = v[a + 1]!
  v[a] = ((low << by) | (high >>> (32 - by))) ^ v[b]!
  v[a + 1] = ((high << by) | (low >>> (32 - by))) ^ v[b + 1]!
}

/** v[a] is turned by 32 bits. */
function swap(a: number): void {
  const low = v[a]!
  v[a] = v[a + 1]!
  v[a + 1] = low
}

function rounds(count: number): void {
  for (let i = 0; i < count; i++) {
    add(V0, V1)
    turn(V1, 13, V0)
    swap(V0)
    add(V2, V3)
    turn(V3, 16, V2)
    add(V0, V3)
    turn(V3, 21, V0)
    add(V2, V1)
    turn(V1, 17, V2)
    swap(V2)
  }
}

function take(low: number, high: number): void {
  v[V3] = v[V3]! ^ low
  v[V3 + 1] = v[V3 + 1]! ^ high
  rounds(2)
  v[V0] = v[V0]! ^ low
  v[V0 + 1] = v[V0 + 1]! ^ high
}

/** The next eight bytes of the output. */
function give(out: Int32Array, at: number): void {
  rounds(4)
  for (let half = 0; half < 2; half++) {
    out[at + half] = v[V0 + half]! ^ v[V1 + half]! ^ v[V2 + half]! ^ v[V3 + half]!
  }
}

/** Four bytes from `at`, as many of them as there are. */
function word(bytes: Uint8Array, at: number): number {
  let value = 0
  for (let i = 0; i < 4 && at + i < bytes.length; i++) value |= bytes[at + i]! << (8 * i)
  return value
}

export function sipHash128(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const [k0, k1, k2, k3] = [word(key, 0), word(key, 4), word(key, 8), word(key, 12)]
  v.set([0x70736575 ^ k0, 0x736f6d65 ^ k1, 0x6e646f6d ^ k2, 0x646f7261 ^ k3])
  v.set([0x6e657261 ^ k0, 0x6c796765 ^ k1, 0x79746573 ^ k2, 0x74656462 ^ k3], V2)
  v[V1] = v[V1]! ^ 0xee
  const whole = bytes.length - (bytes.length % 8)
  for (let at = 0; at < whole; at += 8) take(word(bytes, at), word(bytes, at + 4))
  take(word(bytes, whole), word(bytes, whole + 4) | (bytes.length << 24))
  const out = new Int32Array(4)
  v[V2] = v[V2]! ^ 0xee
  give(out, 0)
  v[V1] = v[V1]! ^ 0xdd
  give(out, 2)
  return new Uint8Array(out.buffer)
}
