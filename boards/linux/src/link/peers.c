#include "link/peers.h"

#include <string.h>

/* Multiplies by an odd number near 2^64 / golden ratio and takes the upper bits. */
static uint32_t bucket_of(uint64_t number) {
  return (uint32_t)(number * 0x9e3779b97f4a7c15u >> 53);
}

_Static_assert(PEER_BUCKETS == 1 << 11, "bucket_of gives eleven bits");

void peers_init(struct peers *p) {
  memset(p, 0, sizeof *p);
  for (int i = 0; i < PEER_BUCKETS; i++) p->buckets[i] = PEER_NONE;
  p->newest = p->oldest = PEER_NONE;
}

static uint16_t find(const struct peers *p, uint64_t mac) {
  if (p->newest != PEER_NONE && p->peers[p->newest].mac == mac) return p->newest;
  uint16_t i = p->buckets[bucket_of(mac)];
  while (i != PEER_NONE && p->peers[i].mac != mac) i = p->peers[i].next_in_bucket;
  return i;
}

const struct endpoint *peers_find(const struct peers *p, uint64_t mac) {
  uint16_t i = find(p, mac);
  return i == PEER_NONE ? NULL : &p->peers[i].at;
}

/* Takes a peer out of the order of hearing. */
static void unlink_age(struct peers *p, uint16_t i) {
  const struct peer *peer = &p->peers[i];
  if (peer->newer == PEER_NONE) p->newest = peer->older;
  else p->peers[peer->newer].older = peer->older;
  if (peer->older == PEER_NONE) p->oldest = peer->newer;
  else p->peers[peer->older].newer = peer->newer;
}

static void make_newest(struct peers *p, uint16_t i) {
  p->peers[i].newer = PEER_NONE;
  p->peers[i].older = p->newest;
  if (p->newest != PEER_NONE) p->peers[p->newest].newer = i;
  else p->oldest = i;
  p->newest = i;
}

/* Forgets the one not heard for longest, and returns its place. */
static uint16_t forget_oldest(struct peers *p) {
  uint16_t i = p->oldest;
  uint16_t *link = &p->buckets[bucket_of(p->peers[i].mac)];
  while (*link != i) link = &p->peers[*link].next_in_bucket;
  *link = p->peers[i].next_in_bucket;
  unlink_age(p, i);
  return i;
}

void peers_hear(struct peers *p, uint64_t mac, const struct endpoint *from) {
  uint16_t i = find(p, mac);
  if (i == PEER_NONE) {
    i = p->count < PEERS_MAX ? p->count++ : forget_oldest(p);
    uint16_t *bucket = &p->buckets[bucket_of(mac)];
    p->peers[i].mac = mac;
    p->peers[i].next_in_bucket = *bucket;
    *bucket = i;
    make_newest(p, i);
  } else if (i != p->newest) {
    unlink_age(p, i);
    make_newest(p, i);
  }
  if (!endpoint_equal(&p->peers[i].at, from)) p->peers[i].at = *from;
}

/* Something like a hash of the endpoint: port and the last bytes of the address. */
static uint64_t endpoint_number(const struct endpoint *endpoint) {
  if (endpoint->address.any.sa_family == AF_INET6) {
    uint64_t low;
    memcpy(&low, (const char *)&endpoint->address.v6.sin6_addr + 8, sizeof low);
    return low * 31 + endpoint->address.v6.sin6_port;
  }
  return (uint64_t)endpoint->address.v4.sin_addr.s_addr << 16 | endpoint->address.v4.sin_port;
}

void peers_everybody(const struct peers *p,
                     void (*each)(void *whom, const struct endpoint *endpoint), void *whom) {
  uint16_t seen[PEER_BUCKETS]; /* twice as many places as peers: the search always ends */
  for (int i = 0; i < PEER_BUCKETS; i++) seen[i] = PEER_NONE;
  for (uint16_t i = p->oldest; i != PEER_NONE; i = p->peers[i].newer) {
    const struct endpoint *at = &p->peers[i].at;
    uint32_t place = bucket_of(endpoint_number(at));
    while (seen[place] != PEER_NONE && !endpoint_equal(&p->peers[seen[place]].at, at)) {
      place = (place + 1) % PEER_BUCKETS;
    }
    if (seen[place] != PEER_NONE) continue;
    seen[place] = i;
    each(whom, at);
  }
}
