/**
 * The arithmetic of the two atomic commands (hal.ts; IBTA 9.4.5): which word they leave.
 *
 * Invariant: operands are big-endian numbers as in AtomicETH, words of memory are in the
 * machine's own order, and the sum is taken modulo 2^64. Nothing is stored here: the machine does
 * that in one piece of eight bytes, which is never torn.
 */

import { COMPARE_SWAP } from '../../../firmware/board/hal.ts'

/** Bytes of the word, and of the two operands. */
export const ATOMIC_BYTES = 8
export const OPERAND_BYTES = 16

/**
 * Puts the new word into `into`, low half first. `low` and `high` are the original, `operands`
 * looks at packet memory. False if the word stays what it is: the comparison failed.
 */
export function atomicResult(
  op: number,
  operands: DataView,
  from: number,
  low: number,
  high: number,
  into: Int32Array,
): boolean {
  const operandHigh = operands.getInt32(from)
  const operandLow = operands.getInt32(from + 4)
  if (op === COMPARE_SWAP) {
    if (operands.getInt32(from + 8) !== high || operands.getInt32(from + 12) !== low) return false
    into[0] = operandLow
    into[1] = operandHigh
    return true
  }
  const sum = (low >>> 0) + (operandLow >>> 0)
  into[0] = sum | 0
  into[1] = (high + operandHigh + (sum >= 2 ** 32 ? 1 : 0)) | 0
  return true
}

/** Writes the original as in AtomicAckETH. */
export function putOriginal(into: DataView, at: number, low: number, high: number): void {
  into.setInt32(at, high)
  into.setInt32(at + 4, low)
}
