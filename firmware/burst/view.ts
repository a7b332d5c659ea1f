// hot path
/**
 * Addresses in a region of records: slot, view and offset in one 64-bit virtual address.
 *
 *    63                    32 31   28 27                        0
 *   +------------------------+-------+---------------------------+
 *   |          slot          | view  |      offset in the view   |
 *   +------------------------+-------+---------------------------+
 *
 * The upper word is the slot (wire-format 7.2); the upper four bits of the lower word say how it is
 * looked at. A record is written through view 0; the carried form that names every copy's address
 * names views 2 and up.
 */

/** The data of the record, followed by zeros up to the capacity. */
export const VIEW_DATA = 0
/** The settled image: the slot header, then the data; an all-zero header for a lost record. */
export const VIEW_SETTLED = 1
/** The image of copy A as it stands; copies B, C and D are the views behind (D-15). */
export const VIEW_FIRST_COPY = 2

export function viewOf(vaLow: number): number {
  return vaLow >>> 28
}

export function offsetOf(vaLow: number): number {
  return vaLow & 0x0fffffff
}
