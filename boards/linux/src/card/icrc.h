/*
 * The ICRC of RoCEv2 (wire-format 2.1, 2.5), with the CPU's own CRC where it has one.
 *
 * All take a whole Ethernet frame without FCS, `length` bytes of any content. The ICRC ends the IP
 * datagram: an Ethernet pad behind it is no part of it. A frame in which it cannot be found is
 * never good, and is not filled.
 */
#ifndef PERDURE_ICRC_H
#define PERDURE_ICRC_H

#include <stdbool.h>
#include <stdint.h>

/* Where the parts of a frame stand. */
struct icrc_place {
  uint32_t ip_at, ip_bytes, bth_at, icrc_at;
};

/* Finds the datagram that the ICRC ends; false if there is none that could carry one. */
bool icrc_locate(const uint8_t *frame, uint32_t length, struct icrc_place *place);

/* ICRC_GOOD, ICRC_GOOD_LINUX_FLUSH or 0 of hal.h, as `boards/software/icrc.ts` says. */
uint32_t icrc_flags(const uint8_t *frame, uint32_t length);

/*
 * Fills the last four bytes of the datagram; `kind` is ICRC_STANDARD or ICRC_LINUX_FLUSH of hal.h.
 * False, and nothing is written, if there is no datagram.
 */
bool icrc_fill(uint8_t *frame, uint32_t length, uint32_t kind);

/* "pclmulqdq", "arm64 pmull", "arm64 crc32", "table". */
const char *icrc_engine(void);

#endif
