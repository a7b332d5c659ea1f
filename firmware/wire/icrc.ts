/**
 * The invariant CRC (IBTA Vol 1, 7.8.1 and annex A17): 4 bytes behind the pad, least significant
 * byte first, alone among all fields.
 *
 * Making it is a board's work, since a loop over payload bytes takes far too long in QuickJS.
 */

export const ICRC_BYTES = 4
