#include "link/links.h"

#include "link/clock.h"
#include "link/link-kinds.h"
#include "link/known/peers.h"

bool links_add(struct links *links, const char *where, struct fault *fault) {
  if (links->count == LINKS_MAX) {
    return fault_set(fault, "'%s' is one link too many: there may be %d", where, LINKS_MAX);
  }
  if (!link_open(&links->each[links->count], where, fault)) return false;
  links->count++;
  return true;
}

/* Multiplies by an odd number near 2^64 / golden ratio and takes the upper bits. */
static struct origin *ways_of(struct links *links, int link, uint64_t mac) {
  return links->origins[link][mac * 0x9e3779b97f4a7c15u >> 56];
}

_Static_assert(ORIGIN_SETS == 1 << 8, "ways_of takes eight bits");

/* What that link knows of the address; NULL: nothing. */
static struct origin *known_at(struct links *links, int link, uint64_t mac) {
  struct origin *ways = ways_of(links, link, mac);
  for (int i = 0; i < ORIGIN_WAYS; i++) {
    if (ways[i].burst != 0 && ways[i].mac == mac) return &ways[i];
  }
  return NULL;
}

/* Whether an address may move from one link to another before its time is over. */
static bool may_move(const struct link *from, const struct link *to) {
  bool are_cables = from->mac != NULL && to->mac != NULL;
  return from->down || from->gone || are_cables;
}

/* Whether the address is of no other link; that of one whose time is over is forgotten. */
static bool leaves_others(struct links *links, uint64_t mac, int link, uint64_t now_us) {
  for (int i = 0; i < links->count; i++) {
    struct origin *other = i == link ? NULL : known_at(links, i, mac);
    if (other == NULL) continue;
    bool is_alive = now_us - other->heard_us < PEER_OWNED_US;
    if (is_alive && !may_move(&links->each[i], &links->each[link])) return false;
    other->burst = 0;
  }
  return true;
}

/* Notes over which link that address speaks; the one not heard for longest makes room. False: it
 * is of another link. */
static bool hear(struct links *links, uint64_t mac, int link, uint64_t now_us) {
  struct origin *known = known_at(links, link, mac);
  if (known == NULL) {
    if (!leaves_others(links, mac, link, now_us)) return false;
    known = ways_of(links, link, mac);
    for (int i = 1; i < ORIGIN_WAYS; i++) {
      struct origin *way = &ways_of(links, link, mac)[i];
      if (way->burst < known->burst) known = way;
    }
  }
  *known = (struct origin){mac, links->bursts, now_us};
  return true;
}

/* Moves a frame of a burst, and what is told of it, to an earlier place. */
static void move_frame(uint8_t *packets, int from, int to) {
  uint8_t *told = packets + HAL_RECEIVED_AT;
  uint32_t words[2];
  memcpy(words, told + (size_t)from * sizeof words, sizeof words);
  memcpy(told + (size_t)to * sizeof words, words, sizeof words);
  memcpy(receive_place(packets, to), receive_place(packets, from), words[0]);
}

/* Drops what comes from addresses of other links; returns how many frames are left. */
static int keep_own(struct links *links, int from, uint8_t *packets, int frames) {
  uint64_t now_us = link_now_us();
  int kept = 0;
  links->bursts++;
  for (int i = 0; i < frames; i++) {
    const uint8_t *source = receive_place(packets, i) + 6;
    bool is_group = (source[0] & 1) != 0;
    if (!is_group && !hear(links, mac_number(source), from, now_us)) {
      links->each[from].counters.receive_dropped++;
      links->each[from].counters.receive_claimed++;
      continue;
    }
    if (kept != i) move_frame(packets, i, kept);
    kept++;
  }
  return kept;
}

int links_receive(struct links *links, uint8_t *packets) {
  if (links->count == 1) return links->each[0].receive(&links->each[0], packets);
  for (int asked = 0; asked < links->count; asked++) {
    int from = links->next;
    links->next = from + 1 == links->count ? 0 : from + 1;
    int frames = links->each[from].receive(&links->each[from], packets);
    if (frames > 0) frames = keep_own(links, from, packets, frames);
    if (frames > 0) return frames;
  }
  return 0;
}

/* The link of that address, or NULL. */
static struct link *origin_of(struct links *links, const uint8_t *mac) {
  for (int i = 0; i < links->count; i++) {
    if (known_at(links, i, mac_number(mac)) != NULL) return &links->each[i];
  }
  return NULL;
}

void links_transmit(struct links *links, const uint8_t *frame, uint32_t length) {
  struct link *only = links->count == 1 ? &links->each[0] : NULL;
  if (only == NULL && length >= ETHERNET_HEADER_BYTES) only = origin_of(links, frame);
  if (only != NULL) {
    only->transmit(only, frame, length);
    return;
  }
  for (int i = 0; i < links->count; i++) {
    links->each[i].transmit(&links->each[i], frame, length);
  }
}

void links_flush(struct links *links) {
  for (int i = 0; i < links->count; i++) links->each[i].flush(&links->each[i]);
}

void links_close(struct links *links) {
  for (int i = 0; i < links->count; i++) links->each[i].close(&links->each[i]);
  links->count = 0;
}

bool links_gone(const struct links *links) {
  bool gone = false;
  for (int i = 0; i < links->count; i++) gone |= links->each[i].gone;
  return gone;
}

bool links_watchful(const struct links *links) {
  bool watchful = false;
  for (int i = 0; i < links->count; i++) {
    watchful |= links->each[i].down || links->each[i].flooded;
  }
  return watchful;
}

int links_watch(struct links *links, struct pollfd places[LINKS_MAX]) {
  for (int i = 0; i < links->count; i++) {
    struct link *link = &links->each[i];
    places[i] = (struct pollfd){link->descriptor(link), POLLIN, 0};
  }
  return links->count;
}

struct link_counters links_sum(const struct links *links) {
  struct link_counters sum = {0};
  for (int i = 0; i < links->count; i++) {
    const struct link_counters *one = &links->each[i].counters;
    sum.received += one->received;
    sum.received_bytes += one->received_bytes;
    sum.sent += one->sent;
    sum.sent_bytes += one->sent_bytes;
    sum.receive_dropped += one->receive_dropped;
    sum.receive_claimed += one->receive_claimed;
    sum.send_dropped += one->send_dropped;
    sum.floods += one->floods;
  }
  return sum;
}

bool links_listen_as(struct links *links, const uint8_t mac[6], struct fault *fault) {
  for (int i = 0; i < links->count; i++) {
    struct link *link = &links->each[i];
    if (link->listen_as != NULL && !link->listen_as(link, mac, fault)) return false;
  }
  return true;
}

const uint8_t *links_mac(const struct links *links) {
  for (int i = 0; i < links->count; i++) {
    if (links->each[i].mac != NULL) return links->each[i].mac;
  }
  return NULL;
}
