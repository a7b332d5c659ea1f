/**
 * The file behind the NVDIMM: the part's memory itself, byte for byte.
 *
 *       0                4 KiB                     2 MiB
 *     +----------------+-------------------------+----------------------------------+
 *     | blank          | Linux' information block | what the firmware has            |
 *     +----------------+-------------------------+----------------------------------+
 *
 * Invariant: a file is given to the machine only if it is blank where Linux writes its
 * information block, or has one there that says device-dax (kernel: drivers/nvdimm/pfn.h). Anything
 * else, an image of the emulator for one, would be written over.
 */

import { closeSync, existsSync, ftruncateSync, openSync, readSync, statSync } from 'node:fs'
import { Trouble } from '../tools/debian/programs.ts'

/** What the kernel keeps for itself, and the grain of the mapping, with pages of 4 KiB. */
export const PART_FRONT: number = 2 ** 21
const PART_BYTES_MIN = 2 ** 24
const PART_BYTES_MAX = 2 ** 33

/** Unless it is said. */
export const PART_BYTES: number = 2 ** 26

const BLOCK_AT = 4096
const SIGNATURE = 'NVDIMM_DAX_INFO\0'

/** Likewise of a kernel of other pages: so much does one entry of its upper table map. */
export function partFront(pageKib: number): number {
  return PART_FRONT * (pageKib / 4) ** 2
}

/**
 * Makes the file if it is not there, else checks it. `bytes` is its size, or undefined for that
 * which it has; a multiple of `front` from 16 MiB to 8 GiB. Throws a Trouble.
 */
export function preparePart(
  path: string,
  bytes?: number,
  front: number = PART_FRONT,
): { bytes: number; made: boolean } {
  const made = !existsSync(path)
  const size = made ? (bytes ?? PART_BYTES) : statSync(path).size
  if (!made && bytes !== undefined && size !== bytes) {
    throw new Trouble(`${path} has ${size} bytes, not ${bytes}`)
  }
  if (size % front !== 0 || size < Math.max(PART_BYTES_MIN, 2 * front) || size > PART_BYTES_MAX) {
    const steps = `in steps of ${front / 2 ** 20} MiB`
    throw new Trouble(`${path}: ${size} bytes; a part has 16 MiB to 8 GiB, ${steps}`)
  }
  const file = openSync(path, made ? 'wx+' : 'r')
  try {
    if (made) ftruncateSync(file, size)
    else checkFront(path, file, front)
  } finally {
    closeSync(file)
  }
  return { bytes: size, made }
}

function checkFront(path: string, file: number, bytes: number): void {
  const front = Buffer.alloc(bytes)
  readSync(file, front, 0, bytes, 0)
  if (front.toString('latin1', BLOCK_AT, BLOCK_AT + SIGNATURE.length) === SIGNATURE) return
  if (front.every((byte) => byte === 0)) return
  throw new Trouble(`${path} is neither blank nor the part of such a machine; it stays as it is`)
}
