/**
 * The check code of slots and lanes, computed by the CPU: SipHash-2-4 with 128 bits of output.
 *
 * Invariants:
 * - The output is that of the reference implementation of Aumasson and Bernstein, and of
 *   libsodium's `siphashx24`: key, message and code are little-endian bytes.
 * - Nothing allocates, and the message is only read; the code may overwrite part of it.
 *
 * A 64-bit word is two int32 halves, `a` the low and `b` the high one. The round stands in one
 * function, on local variables, because only they stay in registers. A message word takes two
 * rounds; the four rounds that end each half of the code are two words of zeros.
 */

/** Bytes of a key, and of a code. */
export const CHECK_KEY_BYTES = 16
export const CHECK_CODE_BYTES = 16

/** The state between two runs of `mix`: a0 b0 a1 b1 a2 b2 a3 b3. */
const state = new Int32Array(8)

/** The last message word: what is left over, and the length modulo 256 in its last byte. */
const tail = new Uint8Array(8)

const zeros = new Uint8Array(16)

/** A little-endian int32. */
function word(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}

function putWord(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value
  bytes[at + 1] = value >>> 8
  bytes[at + 2] = value >>> 16
  bytes[at + 3] = value >>> 24
}

/** The constants spell "somepseudorandomlygeneratedbytes"; 0xee asks for 128 bits of output. */
function start(key: Uint8Array, at: number): void {
  const ka = word(key, at)
  const kb = word(key, at + 4)
  const la = word(key, at + 8)
  const lb = word(key, at + 12)
  state[0] = ka ^ 0x70736575
  state[1] = kb ^ 0x736f6d65
  state[2] = la ^ 0x6e646f6d ^ 0xee
  state[3] = lb ^ 0x646f7261
  state[4] = ka ^ 0x6e657261
  state[5] = kb ^ 0x6c796765
  state[6] = la ^ 0x79746573
  state[7] = lb ^ 0x74656462
}

/**
 * Takes `count` message words, two rounds each. A carry is found by comparing unsigned; a rotation
 * by 32 is an exchange of halves.
 */
function mix(bytes: Uint8Array, at: number, count: number): void {
  let a0 = state[0]!
  let b0 = state[1]!
  let a1 = state[2]!
  let b1 = state[3]!
  let a2 = state[4]!
  let b2 = state[5]!
  let a3 = state[6]!
  let b3 = state[7]!
  const end = at + count * 8
  for (let i = at; i < end; i += 8) {
    const ma = word(bytes, i)
    const mb = word(bytes, i + 4)
    a3 ^= ma
    b3 ^= mb
    for (let round = 0; round < 2; round++) {
      a0 = (a0 + a1) | 0
      b0 = (b0 + b1 + (a0 >>> 0 < a1 >>> 0 ? 1 : 0)) | 0
      a2 = (a2 + a3) | 0
      b2 = (b2 + b3 + (a2 >>> 0 < a3 >>> 0 ? 1 : 0)) | 0
      let t = (a1 << 13) | (b1 >>> 19)
      b1 = ((b1 << 13) | (a1 >>> 19)) ^ b0
      a1 = t ^ a0
      t = (a3 << 16) | (b3 >>> 16)
      b3 = ((b3 << 16) | (a3 >>> 16)) ^ b2
      a3 = t ^ a2
      t = a0
      a0 = (b0 + a3) | 0
      b0 = (t + b3 + (a0 >>> 0 < a3 >>> 0 ? 1 : 0)) | 0
      a2 = (a2 + a1) | 0
      b2 = (b2 + b1 + (a2 >>> 0 < a1 >>> 0 ? 1 : 0)) | 0
      t = (a3 << 21) | (b3 >>> 11)
      b3 = ((b3 << 21) | (a3 >>> 11)) ^ b0
      a3 = t ^ a0
      t = (a1 << 17) | (b1 >>> 15)
      b1 = ((b1 << 17) | (a1 >>> 15)) ^ b2
      a1 = t ^ a2
      t = a2
      a2 = b2
      b2 = t
    }
    a0 ^= ma
    b0 ^= mb
  }
  state[0] = a0
  state[1] = b0
  state[2] = a1
  state[3] = b1
  state[4] = a2
  state[5] = b2
  state[6] = a3
  state[7] = b3
}

function putHalf(into: Uint8Array, at: number): void {
  putWord(into, at, state[0]! ^ state[2]! ^ state[4]! ^ state[6]!)
  putWord(into, at + 4, state[1]! ^ state[3]! ^ state[5]! ^ state[7]!)
}

/**
 * Writes the 16 bytes of the code of [at, at + length) under the key at `keyAt` to `intoAt`. The
 * caller has checked all three ranges.
 */
export function checkCode(
  into: Uint8Array,
  intoAt: number,
  bytes: Uint8Array,
  at: number,
  length: number,
  key: Uint8Array,
  keyAt: number,
): void {
  const left = length & 7
  const leftAt = at + length - left
  for (let i = 0; i < 7; i++) tail[i] = i < left ? bytes[leftAt + i]! : 0
  tail[7] = length
  start(key, keyAt)
  mix(bytes, at, length >>> 3)
  mix(tail, 0, 1)
  state[4] = state[4]! ^ 0xee
  mix(zeros, 0, 2)
  putHalf(into, intoAt)
  state[2] = state[2]! ^ 0xdd
  mix(zeros, 0, 2)
  putHalf(into, intoAt + 8)
}
