/** What a queue pair may be told of its peer: numbers, PSNs, path MTUs. */

import { PATH_MTU_BYTES_MAX, PATH_MTU_BYTES_MIN } from '../board/limits.ts'

export const PSNS: number = 2 ** 24

function isPowerOfTwo(value: number): boolean {
  return value > 0 && (value & (value - 1)) === 0
}

export function isMtu(mtu: number): boolean {
  return isPowerOfTwo(mtu) && mtu >= PATH_MTU_BYTES_MIN && mtu <= PATH_MTU_BYTES_MAX
}

/** Whether a queue pair of a peer may have that number: 0 and 1 are of management. */
export function isPeer(number: number): boolean {
  return number >= 2 && number < 2 ** 24
}
