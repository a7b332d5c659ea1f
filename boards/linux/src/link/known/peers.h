/*
 * Whose an Ethernet address is: the same rules as `boards/emulator/network/peers.ts`.
 *
 * Invariants:
 * - An address belongs to the endpoint from which it was first heard, until it was not heard from
 *   there for PEER_OWNED_US. Meanwhile nobody else has it: what another sends in its name is to be
 *   dropped whole, for it would draw answers that are the owner's, or act in the owner's name.
 * - An endpoint has at most ENDPOINT_PEERS_MAX addresses: its own oldest makes room for a new one.
 * - At most PEERS_MAX addresses are remembered. One that was heard for PEER_SETTLES_US and longer
 *   is settled, SETTLED_MAX at a time: it makes no room for others before its time is over. So
 *   whoever comes finds room, and no flood of new addresses pushes out who is connected.
 * - Nothing is allocated. Hearing the same peer again, and finding the one just heard, costs one
 *   comparison.
 *
 * Who comes again with the same address from another endpoint waits for PEER_OWNED_US: neither
 * ICMP, which can be forged, nor the other's host tells surely that an endpoint is gone.
 */
#ifndef PERDURE_PEERS_H
#define PERDURE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "link/endpoint.h"

enum {
  PEERS_MAX = 1024,
  SETTLED_MAX = 768,
  ENDPOINT_PEERS_MAX = 64, /* it may be a network of its own */
  PEER_BUCKETS = 2048,
  PEER_NONE = 0xffff,
};

/* Longer than a client of ours is silent while it waits for an answer, unless it was told to wait
 * longer: it asks again. Who waits for messages alone may be silent for longer. */
#define PEER_OWNED_US UINT64_C(60000000)

/* An address that lasts so long is worth more than new ones. */
#define PEER_SETTLES_US UINT64_C(1000000)

struct peer {
  uint64_t mac;
  struct endpoint at;
  uint64_t first_us, heard_us;
  uint64_t order; /* grows with each hearing of any */
  bool is_settled;
  uint16_t next_in_bucket, next_at_endpoint;
  uint16_t newer, older;
};

/* Some of them, in the order of hearing. */
struct ages {
  uint16_t newest, oldest, count;
};

struct peers {
  struct peer peers[PEERS_MAX];
  uint16_t by_mac[PEER_BUCKETS], by_endpoint[PEER_BUCKETS];
  struct ages guests, settled;
  uint16_t used; /* places that were ever used */
  uint16_t last; /* who was heard last */
  uint16_t free; /* places that are free again, by next_in_bucket */
  uint64_t hearings;
};

void peers_init(struct peers *peers);

/* The six bytes of an Ethernet address as a number. */
static inline uint64_t mac_number(const uint8_t *mac) {
  uint64_t number = 0;
  for (int i = 0; i < 6; i++) number = number << 8 | mac[i];
  return number;
}

/* The address was heard from there. False: it is another's. */
bool peers_hear(struct peers *peers, uint64_t mac, const struct endpoint *from, uint64_t now_us);

/* NULL if nobody was heard from that address. */
const struct endpoint *peers_find(const struct peers *peers, uint64_t mac);

static inline unsigned peers_count(const struct peers *peers) {
  return peers->guests.count + peers->settled.count;
}

/* Calls `each` once for every endpoint that is remembered, however many addresses it has. */
void peers_everybody(const struct peers *peers,
                     void (*each)(void *whom, const struct endpoint *endpoint), void *whom);

#endif
