/*
 * What the kinds of link share: the receive places of packet memory, and how a link is opened.
 */
#ifndef PERDURE_LINK_KINDS_H
#define PERDURE_LINK_KINDS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "card/icrc.h"
#include "hal.h"
#include "link/link.h"
#include "service/fault.h"

/* An Ethernet frame has a header at least. */
enum { ETHERNET_HEADER_BYTES = 14 };

/* Each opens what stands behind its kind and colon; `link` is zeroed. Name and calls are set. */
bool link_open_packet(struct link *link, const char *where, struct fault *fault);
bool link_open_udp(struct link *link, const char *where, struct fault *fault);
bool link_open_stream(struct link *link, const char *where, struct fault *fault);
bool link_open_dgram(struct link *link, const char *where, struct fault *fault);

/* Where frame `i` of a burst goes: room for FRAME_BYTES_MAX. */
static inline uint8_t *receive_place(uint8_t *packets, int i) {
  return packets + HAL_RECEIVE_AT + (size_t)i * HAL_FRAME_STRIDE_BYTES + HAL_FRAME_OFFSET_BYTES;
}

static inline bool frame_fits(uint64_t length) {
  return length >= ETHERNET_HEADER_BYTES && length <= HAL_FRAME_BYTES_MAX;
}

/* Says of frame `i`, which stands in its place, how long it is and which ICRC it has. */
static inline void receive_tell(struct link *link, uint8_t *packets, int i, uint32_t length) {
  const uint32_t words[2] = {length, icrc_flags(receive_place(packets, i), length)};
  memcpy(packets + HAL_RECEIVED_AT + (size_t)i * sizeof words, words, sizeof words);
  link->counters.received++;
  link->counters.received_bytes += length;
}

#endif
