/** What every part of an exploration is: its size, its region's name, the seed of its samples. */

import { OPERATIONS_AT, OPERATIONS_BYTES, PAGE_BYTES } from '../judges/oracle.ts'

/** The seed of every sample and every random schedule: printed with what it found. */
export const SEED: number = Number(process.env.SEED ?? 20261121)

/** Bytes of the part of an exploration: what is the part's own, and up to four copies of a page. */
export const PART_BYTES: number = OPERATIONS_AT + OPERATIONS_BYTES + 4 * PAGE_BYTES

/** Name of the region. */
export const REGION = 'records'
