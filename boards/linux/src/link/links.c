#include "link/links.h"

#include "link/link-kinds.h"
#include "link/peers.h"

bool links_add(struct links *links, const char *where, struct fault *fault) {
  if (links->count == LINKS_MAX) {
    return fault_set(fault, "'%s' is one link too many: there may be %d", where, LINKS_MAX);
  }
  if (!link_open(&links->each[links->count], where, fault)) return false;
  links->count++;
  return true;
}

/* Multiplies by an odd number near 2^64 / golden ratio and takes the upper bits. */
static struct origin *ways_of(struct links *links, uint64_t mac) {
  return links->origins[mac * 0x9e3779b97f4a7c15u >> 54];
}

_Static_assert(ORIGIN_SETS == 1 << 10, "ways_of takes ten bits");

static bool is_of(const struct origin *origin, uint64_t mac) {
  return origin->burst != 0 && origin->mac == mac;
}

/* Notes over which link that address speaks; the one not heard for longest makes room. */
static void hear(struct links *links, uint64_t mac, int link) {
  struct origin *ways = ways_of(links, mac), *oldest = ways;
  for (int i = 0; i < ORIGIN_WAYS; i++) {
    if (is_of(&ways[i], mac)) {
      oldest = &ways[i];
      break;
    }
    if (ways[i].burst < oldest->burst) oldest = &ways[i];
  }
  *oldest = (struct origin){mac, links->bursts, link};
}

int links_receive(struct links *links, uint8_t *packets) {
  if (links->count == 1) return links->each[0].receive(&links->each[0], packets);
  for (int asked = 0; asked < links->count; asked++) {
    int from = links->next;
    links->next = from + 1 == links->count ? 0 : from + 1;
    int frames = links->each[from].receive(&links->each[from], packets);
    if (frames == 0) continue;
    links->bursts++;
    for (int i = 0; i < frames; i++) {
      const uint8_t *source = receive_place(packets, i) + 6;
      if ((source[0] & 1) == 0) hear(links, mac_number(source), from);
    }
    return frames;
  }
  return 0;
}

/* The link of that address, or NULL. */
static struct link *origin_of(struct links *links, const uint8_t *mac) {
  uint64_t number = mac_number(mac);
  const struct origin *ways = ways_of(links, number);
  for (int i = 0; i < ORIGIN_WAYS; i++) {
    if (is_of(&ways[i], number)) return &links->each[ways[i].link];
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

bool links_down(const struct links *links) {
  bool down = false;
  for (int i = 0; i < links->count; i++) down |= links->each[i].down;
  return down;
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
    sum.send_dropped += one->send_dropped;
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
