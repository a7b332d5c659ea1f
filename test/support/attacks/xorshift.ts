/**
 * The generator that the card once drew keys and PSNs from (xorshift128; Marsaglia 2003), as an
 * attacker has it: forwards and backwards, from any four outputs in a row, which are its state.
 */

import { u32 } from '../../../firmware/wire/bytes.ts'

export class Xorshift {
  /** The newest output first. */
  private state: Int32Array

  constructor(outputs: readonly number[]) {
    this.state = Int32Array.from(outputs)
  }

  /** The next output. */
  next(): number {
    const [newest, b, c, oldest] = this.state as unknown as [number, number, number, number]
    let t = oldest
    t ^= t << 11
    t ^= t >>> 8
    const drawn = t ^ newest ^ (newest >>> 19)
    this.state = Int32Array.of(drawn, newest, b, c)
    return drawn >>> 0
  }

  /** Takes the newest output back, and returns it. */
  back(): number {
    const [newest, b, c, d] = this.state as unknown as [number, number, number, number]
    const mixed = newest ^ b ^ (b >>> 19)
    this.state = Int32Array.of(b, c, d, leftUndone(rightUndone(mixed)))
    return newest >>> 0
  }
}

/** What x was before x ^= x >>> 8. */
function rightUndone(mixed: number): number {
  let x = mixed
  for (let known = 8; known < 32; known += 8) x = mixed ^ (x >>> 8)
  return x
}

/** What x was before x ^= x << 11. */
function leftUndone(mixed: number): number {
  let x = mixed
  for (let known = 11; known < 32; known += 11) x = mixed ^ (x << 11)
  return x
}

/**
 * What one check-code key lets an attacker believe: for each order in which its four words may have
 * been drawn, a generator that has just drawn the last one.
 */
export function believed(key: Uint8Array): Xorshift[] {
  const big = [0, 4, 8, 12].map((at) => u32(key, at))
  const view = new DataView(key.buffer, key.byteOffset)
  const little = [0, 4, 8, 12].map((at) => view.getUint32(at, true))
  return [big, little].flatMap((words) => [words, words.toReversed()]).map((w) => new Xorshift(w))
}
