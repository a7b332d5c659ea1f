/*
 * Who was last heard from which Ethernet address.
 *
 * Invariants:
 * - At most PEERS_MAX addresses are remembered; beyond that the one not heard for longest is
 *   forgotten. Nothing is allocated.
 * - Hearing the same peer again, and finding the one just heard, costs one comparison.
 */
#ifndef PERDURE_PEERS_H
#define PERDURE_PEERS_H

#include <stdint.h>

#include "link/endpoint.h"

enum { PEERS_MAX = 1024, PEER_BUCKETS = 2048, PEER_NONE = 0xffff };

struct peer {
  uint64_t mac;
  struct endpoint at;
  uint16_t next_in_bucket;
  uint16_t newer, older;
};

struct peers {
  struct peer peers[PEERS_MAX];
  uint16_t buckets[PEER_BUCKETS];
  uint16_t count, newest, oldest;
};

void peers_init(struct peers *peers);

/* The six bytes of an Ethernet address as a number. */
static inline uint64_t mac_number(const uint8_t *mac) {
  uint64_t number = 0;
  for (int i = 0; i < 6; i++) number = number << 8 | mac[i];
  return number;
}

void peers_hear(struct peers *peers, uint64_t mac, const struct endpoint *from);

/* NULL if nobody was heard from that address. */
const struct endpoint *peers_find(const struct peers *peers, uint64_t mac);

/* Calls `each` once for every endpoint that is remembered, however many addresses it has. */
void peers_everybody(const struct peers *peers,
                     void (*each)(void *whom, const struct endpoint *endpoint), void *whom);

#endif
