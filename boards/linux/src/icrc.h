/*
 * The ICRC of RoCEv2 (wire-format 2.1, 2.5), with the CPU's own CRC where it has one.
 *
 * Both take a whole Ethernet frame without FCS: `length` counts the four bytes of the ICRC, which
 * are its last. A frame that is no RoCEv2 is never good, and is not filled.
 */
#ifndef PERDURE_ICRC_H
#define PERDURE_ICRC_H

#include <stdint.h>

/* ICRC_GOOD, ICRC_GOOD_LINUX_FLUSH or 0 of hal.h, as `boards/software/icrc.ts` says. */
uint32_t icrc_flags(const uint8_t *frame, uint32_t length);

/* Fills the last four bytes; `kind` is ICRC_STANDARD or ICRC_LINUX_FLUSH of hal.h. */
void icrc_fill(uint8_t *frame, uint32_t length, uint32_t kind);

/* "pclmulqdq", "arm64 crc32", "table". */
const char *icrc_engine(void);

#endif
