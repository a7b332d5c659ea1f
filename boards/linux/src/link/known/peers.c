#include "link/known/peers.h"

#include <string.h>

/* Multiplies by an odd number near 2^64 / golden ratio and takes the upper bits. */
static uint32_t bucket_of(uint64_t number) {
  return (uint32_t)(number * 0x9e3779b97f4a7c15u >> 53);
}

_Static_assert(PEER_BUCKETS == 1 << 11, "bucket_of gives eleven bits");

/* Something like a hash of the endpoint: port and the last bytes of the address. */
static uint64_t endpoint_number(const struct endpoint *endpoint) {
  if (endpoint->address.any.sa_family == AF_INET6) {
    uint64_t low;
    memcpy(&low, (const char *)&endpoint->address.v6.sin6_addr + 8, sizeof low);
    return low * 31 + endpoint->address.v6.sin6_port;
  }
  return (uint64_t)endpoint->address.v4.sin_addr.s_addr << 16 | endpoint->address.v4.sin_port;
}

void peers_init(struct peers *p) {
  memset(p, 0, sizeof *p);
  for (int i = 0; i < PEER_BUCKETS; i++) p->by_mac[i] = p->by_endpoint[i] = PEER_NONE;
  p->guests.newest = p->guests.oldest = p->settled.newest = p->settled.oldest = PEER_NONE;
  p->last = p->free = PEER_NONE;
}

static uint16_t find(const struct peers *p, uint64_t mac) {
  if (p->last != PEER_NONE && p->peers[p->last].mac == mac) return p->last;
  uint16_t i = p->by_mac[bucket_of(mac)];
  while (i != PEER_NONE && p->peers[i].mac != mac) i = p->peers[i].next_in_bucket;
  return i;
}

const struct endpoint *peers_find(const struct peers *p, uint64_t mac) {
  uint16_t i = find(p, mac);
  return i == PEER_NONE ? NULL : &p->peers[i].at;
}

static struct ages *ages_of(struct peers *p, uint16_t i) {
  return p->peers[i].is_settled ? &p->settled : &p->guests;
}

/* Takes a peer out of the order of hearing. */
static void unlink_age(struct peers *p, uint16_t i) {
  const struct peer *peer = &p->peers[i];
  struct ages *ages = ages_of(p, i);
  if (peer->newer == PEER_NONE) ages->newest = peer->older;
  else p->peers[peer->newer].older = peer->older;
  if (peer->older == PEER_NONE) ages->oldest = peer->newer;
  else p->peers[peer->older].newer = peer->newer;
  ages->count--;
}

static void make_newest(struct peers *p, uint16_t i) {
  struct ages *ages = ages_of(p, i);
  p->peers[i].newer = PEER_NONE;
  p->peers[i].older = ages->newest;
  if (ages->newest != PEER_NONE) p->peers[ages->newest].newer = i;
  else ages->oldest = i;
  ages->newest = i;
  ages->count++;
  p->last = i;
}

/* Forgets a peer; its place is free. */
static void forget(struct peers *p, uint16_t i) {
  struct peer *peer = &p->peers[i];
  uint16_t *link = &p->by_mac[bucket_of(peer->mac)];
  while (*link != i) link = &p->peers[*link].next_in_bucket;
  *link = peer->next_in_bucket;
  link = &p->by_endpoint[bucket_of(endpoint_number(&peer->at))];
  while (*link != i) link = &p->peers[*link].next_at_endpoint;
  *link = peer->next_at_endpoint;
  unlink_age(p, i);
  if (p->last == i) p->last = PEER_NONE;
  peer->next_in_bucket = p->free;
  p->free = i;
}

/* The settled one that was not heard for longest, if its time is over. */
static uint16_t idle_settled(const struct peers *p, uint64_t now_us) {
  uint16_t i = p->settled.oldest;
  return i != PEER_NONE && now_us - p->peers[i].heard_us >= PEER_OWNED_US ? i : PEER_NONE;
}

/* Whether one more can settle; one whose time is over goes for it. */
static bool seats(struct peers *p, uint64_t now_us) {
  if (p->settled.count < SETTLED_MAX) return true;
  uint16_t idle = idle_settled(p, now_us);
  if (idle != PEER_NONE) forget(p, idle);
  return idle != PEER_NONE;
}

static void touch(struct peers *p, uint16_t i, uint64_t now_us) {
  struct peer *peer = &p->peers[i];
  peer->heard_us = now_us;
  peer->order = ++p->hearings;
  bool settles =
      !peer->is_settled && now_us - peer->first_us >= PEER_SETTLES_US && seats(p, now_us);
  if (ages_of(p, i)->newest == i && !settles) {
    p->last = i;
    return;
  }
  unlink_age(p, i);
  if (settles) peer->is_settled = true;
  make_newest(p, i);
}

/* Makes room for one more address of that endpoint, and returns its place. */
static uint16_t place_for(struct peers *p, const struct endpoint *from, uint64_t now_us) {
  uint16_t oldest = PEER_NONE;
  unsigned own = 0;
  for (uint16_t i = p->by_endpoint[bucket_of(endpoint_number(from))]; i != PEER_NONE;
       i = p->peers[i].next_at_endpoint) {
    if (!endpoint_same(&p->peers[i].at, from)) continue;
    own++;
    if (oldest == PEER_NONE || p->peers[i].order < p->peers[oldest].order) oldest = i;
  }
  if (own >= ENDPOINT_PEERS_MAX) forget(p, oldest);
  if (peers_count(p) >= PEERS_MAX) {
    uint16_t idle = idle_settled(p, now_us);
    forget(p, idle != PEER_NONE ? idle : p->guests.oldest);
  }
  if (p->free == PEER_NONE) return p->used++;
  uint16_t i = p->free;
  p->free = p->peers[i].next_in_bucket;
  return i;
}

static void learn(struct peers *p, uint64_t mac, const struct endpoint *from, uint64_t now_us) {
  uint16_t i = place_for(p, from, now_us);
  uint16_t *by_mac = &p->by_mac[bucket_of(mac)];
  uint16_t *by_endpoint = &p->by_endpoint[bucket_of(endpoint_number(from))];
  p->peers[i] = (struct peer){
      .mac = mac,
      .at = *from,
      .first_us = now_us,
      .heard_us = now_us,
      .order = ++p->hearings,
      .next_in_bucket = *by_mac,
      .next_at_endpoint = *by_endpoint,
  };
  *by_mac = *by_endpoint = i;
  make_newest(p, i);
}

bool peers_hear(struct peers *p, uint64_t mac, const struct endpoint *from, uint64_t now_us) {
  uint16_t i = find(p, mac);
  if (i != PEER_NONE && endpoint_same(&p->peers[i].at, from)) {
    p->peers[i].at.asked = from->asked;
    touch(p, i, now_us);
    return true;
  }
  if (i != PEER_NONE) {
    if (now_us - p->peers[i].heard_us < PEER_OWNED_US) return false;
    forget(p, i);
  }
  learn(p, mac, from, now_us);
  return true;
}

void peers_everybody(const struct peers *p,
                     void (*each)(void *whom, const struct endpoint *endpoint), void *whom) {
  for (int bucket = 0; bucket < PEER_BUCKETS; bucket++) {
    for (uint16_t i = p->by_endpoint[bucket]; i != PEER_NONE; i = p->peers[i].next_at_endpoint) {
      /* The newest of each endpoint stands for it: it knows at which of our addresses. */
      const struct peer *peer = &p->peers[i];
      bool is_newest = true;
      for (uint16_t k = p->by_endpoint[bucket]; k != PEER_NONE && is_newest;
           k = p->peers[k].next_at_endpoint) {
        is_newest =
            p->peers[k].order <= peer->order || !endpoint_same(&p->peers[k].at, &peer->at);
      }
      if (is_newest) each(whom, &peer->at);
    }
  }
}
