#include "link/known/strangers.h"

#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "hal.h"

enum {
  TYPE_AT = 12,
  TYPE_IPV4 = 0x0800,
  TYPE_IPV6 = 0x86dd,
  TYPE_VLAN = 0x8100,
  VLAN_BYTES = 4,
  IP_AT = 14, /* of a frame without a VLAN tag */
  /* From the beginning of IP: the sender's address, behind which is the receiver's, and BTH. */
  IPV4_ADDRESS = 12,
  IPV4_BYTES = 4,
  IPV4_BTH = 28,
  IPV6_NEXT = 6,
  IPV6_ADDRESS = 8,
  IPV6_BYTES = 16,
  IPV6_BTH = 48,
  ICMPV6 = 58,
  MAPPED_AT = 12, /* of an IPv4 address in one of IPv6 */
  /* Of BTH: what is a datagram, and where its payload begins. */
  DATAGRAM = 0x64,
  PAYLOAD_AT = 20,
  /* Of CM (IBTA 16.7): its class, and the answer that connects. */
  CLASS_CM = 0x07,
  CM_REP = 0x13,
};

/* One frame of so many is let in, of each kind; a power of two. */
static const uint32_t SHARE[STRANGER_KINDS] = {[STRANGER_CALLS] = 8, [STRANGER_PACKETS] = 64};

/* From one filter to the next, for clients that are new. */
#define REFRESH_US 10000

enum { UDP_HEADER_BYTES = 8, LINES_MAX = FIRST_LINES_MAX + 2 * CLIENTS_MAX + 64 };

static uint32_t load(const uint8_t *at, unsigned bytes) {
  uint32_t value = 0;
  for (unsigned i = 0; i < bytes; i++) value = value << 8 | at[i];
  return value;
}

void strangers_init(struct strangers *s, int fd, bool is_tunnel, const struct sock_filter *first,
                    unsigned first_count) {
  memset(s, 0, sizeof *s);
  s->fd = fd;
  s->is_tunnel = is_tunnel;
  if (first_count > 0) memcpy(s->first, first, first_count * sizeof *first);
  s->first_count = first_count;
  /* Without entropy the factor is a known one: keys differ all the same. */
  if (getrandom(&s->factor, sizeof s->factor, 0) != sizeof s->factor) s->factor = 0x01000193;
  s->factor |= 1;
}

uint32_t strangers_key(const struct strangers *s, const void *address, unsigned bytes,
                       uint16_t port) {
  static const uint8_t MAPPED[MAPPED_AT] = {[10] = 0xff, [11] = 0xff};
  const uint8_t *from = address;
  bool is_mapped = bytes == IPV6_BYTES && memcmp(from, MAPPED, MAPPED_AT) == 0;
  uint32_t key = port;
  for (unsigned i = is_mapped ? MAPPED_AT : 0; i < bytes; i += 4) {
    key = key * s->factor + load(from + i, 4);
  }
  return key;
}

/* Where IP begins, of a frame that may have a VLAN tag; 0: nowhere. */
static uint32_t ip_of(const uint8_t *frame, uint32_t length) {
  uint32_t at = IP_AT;
  if (length >= IP_AT + VLAN_BYTES && load(frame + TYPE_AT, 2) == TYPE_VLAN) at += VLAN_BYTES;
  if (length <= at) return 0;
  uint32_t type = load(frame + at - 2, 2);
  return type == TYPE_IPV4 || type == TYPE_IPV6 ? at : 0;
}

static bool is_ipv6(const uint8_t *frame, uint32_t ip) {
  return load(frame + ip - 2, 2) == TYPE_IPV6;
}

unsigned strangers_address(const uint8_t *frame, uint32_t length, int at,
                           const uint8_t **address) {
  uint32_t ip = ip_of(frame, length);
  if (ip == 0) return 0;
  uint32_t bytes = is_ipv6(frame, ip) ? IPV6_BYTES : IPV4_BYTES;
  uint32_t from = ip + (bytes == IPV6_BYTES ? IPV6_ADDRESS : IPV4_ADDRESS) + (uint32_t)at * bytes;
  if (length < from + bytes) return 0;
  *address = frame + from;
  return bytes;
}

/* Where BTH is, or 0. */
static uint32_t bth_of(const uint8_t *frame, uint32_t length) {
  uint32_t ip = ip_of(frame, length);
  if (ip == 0) return 0;
  uint32_t at = ip + (is_ipv6(frame, ip) ? IPV6_BTH : IPV4_BTH);
  return at < length ? at : 0;
}

/* As the filter tells them apart, to which the kernel shows no tag but that of a tunnel's frame. */
static enum stranger_kind kind_of(const struct strangers *s, const uint8_t *frame,
                                  uint32_t length) {
  uint32_t ip = ip_of(frame, length), bth = bth_of(frame, length);
  if (ip == 0) return STRANGER_CALLS;
  if (s->is_tunnel && ip != IP_AT) return STRANGER_PACKETS;
  bool is_icmp = is_ipv6(frame, ip) && length > ip + IPV6_NEXT && frame[ip + IPV6_NEXT] == ICMPV6;
  bool is_datagram = bth != 0 && frame[bth] == DATAGRAM;
  return is_icmp || is_datagram ? STRANGER_CALLS : STRANGER_PACKETS;
}

/* Whether what the card sends makes its receiver a client. */
static bool makes_client(const uint8_t *frame, uint32_t length) {
  uint32_t bth = bth_of(frame, length);
  if (bth == 0) return false;
  if (frame[bth] != DATAGRAM) return true;
  if (length < bth + PAYLOAD_AT + HAL_MAD_BODY) return false;
  const uint8_t *mad = frame + bth + PAYLOAD_AT;
  uint32_t attribute = load(mad + HAL_MAD_ATTRIBUTE, 2);
  if (mad[HAL_MAD_CLASS] == CLASS_CM) return attribute == CM_REP;
  if (mad[HAL_MAD_VERSION] == HAL_SEALED_VERSION) return true;
  return attribute == HAL_ATTRIBUTE_CONNECT && mad[HAL_MAD_FAULT] == 0;
}

/* Where that client is named, or where there is room for the name. */
static uint16_t *place_of(struct strangers *s, uint32_t key) {
  uint32_t at = key * 0x9e3779b1u >> 22;
  while (s->places[at] != 0 && s->clients[s->places[at] - 1].key != key) {
    at = (at + 1) % CLIENT_PLACES;
  }
  return &s->places[at];
}

_Static_assert(CLIENT_PLACES == 1 << 10, "place_of takes ten bits");

static struct client *client_of(struct strangers *s, uint32_t key) {
  if (s->last < s->count && s->clients[s->last].key == key) return &s->clients[s->last];
  uint16_t place = *place_of(s, key);
  if (place == 0) return NULL;
  s->last = (uint16_t)(place - 1);
  return &s->clients[s->last];
}

/* Forgets with whom the card has not spoken for long. */
static void forget_silent(struct strangers *s, uint64_t now_us) {
  unsigned kept = 0;
  memset(s->places, 0, sizeof s->places);
  for (unsigned i = 0; i < s->count; i++) {
    if (now_us - s->clients[i].spoken_us >= CLIENT_SILENT_US) continue;
    s->clients[kept] = s->clients[i];
    *place_of(s, s->clients[kept].key) = (uint16_t)(kept + 1);
    kept++;
  }
  s->count = kept;
}

static void add(struct strangers *s, uint32_t key, uint64_t now_us) {
  if (s->count == CLIENTS_MAX && now_us - s->swept_us >= STRANGERS_WINDOW_US) {
    s->swept_us = now_us;
    forget_silent(s, now_us);
  }
  s->is_stale = true;
  s->is_full = s->count == CLIENTS_MAX;
  if (s->is_full) return;
  s->clients[s->count] = (struct client){key, now_us};
  s->last = (uint16_t)s->count++;
  *place_of(s, key) = (uint16_t)s->count;
}

void strangers_hear(struct strangers *s, uint32_t key, const uint8_t *frame, uint32_t length) {
  if (s->is_on && client_of(s, key) == NULL) s->came[kind_of(s, frame, length)]++;
}

void strangers_speak(struct strangers *s, uint32_t key, const uint8_t *frame, uint32_t length,
                     uint64_t now_us) {
  if (!s->is_on) return;
  struct client *client = client_of(s, key);
  if (client != NULL) client->spoken_us = now_us;
  else if (makes_client(frame, length)) add(s, key, now_us);
}

/*
 * A program of the classic BPF: each line loads, computes, or compares and says how many lines to
 * skip if it holds and if not.
 */
struct program {
  struct sock_filter lines[LINES_MAX];
  unsigned count;
};

static void put(struct program *p, unsigned code, uint32_t value) {
  p->lines[p->count++] = (struct sock_filter){.code = (uint16_t)code, .k = value};
}

static void put_test(struct program *p, unsigned test, uint32_t value, unsigned yes, unsigned no) {
  p->lines[p->count++] = (struct sock_filter){.code = (uint16_t)(BPF_JMP | test | BPF_K),
                                              .jt = (uint8_t)yes,
                                              .jf = (uint8_t)no,
                                              .k = value};
}

/* A jump of which the goal is set later: to the line that comes next then. */
static unsigned put_jump(struct program *p) {
  put(p, BPF_JMP | BPF_JA, 0);
  return p->count - 1;
}

static void land(struct program *p, unsigned jump) { p->lines[jump].k = p->count - jump - 1; }

/* The key of an address that stands there, as strangers_key computes it. */
static void put_key(struct program *p, const struct strangers *s, uint32_t at, unsigned bytes) {
  if (s->is_tunnel) put(p, BPF_LD | BPF_H | BPF_ABS, 0);
  else put(p, BPF_LD | BPF_IMM, 0);
  for (unsigned i = 0; i < bytes; i += 4) {
    put(p, BPF_ALU | BPF_MUL | BPF_K, s->factor);
    put(p, BPF_MISC | BPF_TAX, 0);
    put(p, BPF_LD | BPF_W | BPF_ABS, at + i);
    put(p, BPF_ALU | BPF_ADD | BPF_X, 0);
  }
}

/* Lets clients in, and goes on with strangers. */
static void put_clients(struct program *p, const struct strangers *s) {
  uint32_t ip = s->is_tunnel ? (uint32_t)SKF_NET_OFF : IP_AT;
  unsigned no_ip = 0;
  if (s->is_tunnel) {
    put(p, BPF_LD | BPF_B | BPF_ABS, ip);
    put(p, BPF_ALU | BPF_AND | BPF_K, 0xf0);
    put_test(p, BPF_JEQ, 0x40, 1, 0);
  } else {
    put(p, BPF_LD | BPF_H | BPF_ABS, TYPE_AT);
    put_test(p, BPF_JEQ, TYPE_IPV4, 3, 0);
    put_test(p, BPF_JEQ, TYPE_IPV6, 1, 0);
    no_ip = put_jump(p);
  }
  unsigned to_ipv6 = put_jump(p);
  put_key(p, s, ip + IPV4_ADDRESS, IPV4_BYTES);
  unsigned has_key = put_jump(p);
  land(p, to_ipv6);
  put_key(p, s, ip + IPV6_ADDRESS, IPV6_BYTES);
  land(p, has_key);
  for (unsigned i = 0; i < s->count; i++) {
    put_test(p, BPF_JEQ, s->clients[i].key, 0, 1);
    put(p, BPF_RET | BPF_K, UINT32_MAX);
  }
  if (!s->is_tunnel) land(p, no_ip);
}

/* Lets one stranger's frame in, of so many of that kind. */
static void put_share(struct program *p, const struct strangers *s, enum stranger_kind kind) {
  if (s->thins[kind]) {
    put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM));
    put(p, BPF_ALU | BPF_AND | BPF_K, SHARE[kind] - 1);
    put_test(p, BPF_JEQ, 0, 1, 0);
    put(p, BPF_RET | BPF_K, 0);
  }
  put(p, BPF_RET | BPF_K, UINT32_MAX);
}

/* Tells the kinds apart as kind_of does. What is too short for that is not let in. */
static void put_kinds(struct program *p, const struct strangers *s) {
  uint32_t frame = s->is_tunnel ? UDP_HEADER_BYTES : 0, ip = frame + IP_AT;
  unsigned calls = s->thins[STRANGER_CALLS] ? 5 : 1; /* lines of put_share */
  put(p, BPF_LD | BPF_H | BPF_ABS, frame + TYPE_AT);
  put_test(p, BPF_JEQ, TYPE_IPV4, 6, 0);
  put_test(p, BPF_JEQ, TYPE_IPV6, 1, 0);
  put_test(p, BPF_JEQ, TYPE_VLAN, 6 + calls, 6);
  put(p, BPF_LD | BPF_B | BPF_ABS, ip + IPV6_NEXT);
  put_test(p, BPF_JEQ, ICMPV6, 4, 0);
  put(p, BPF_LD | BPF_B | BPF_ABS, ip + IPV6_BTH);
  put(p, BPF_JMP | BPF_JA, 1);
  put(p, BPF_LD | BPF_B | BPF_ABS, ip + IPV4_BTH);
  put_test(p, BPF_JEQ, DATAGRAM, 0, calls);
  put_share(p, s, STRANGER_CALLS);
  put_share(p, s, STRANGER_PACKETS);
}

static bool is_flooded(const struct strangers *s) {
  return s->thins[STRANGER_CALLS] || s->thins[STRANGER_PACKETS];
}

bool strangers_attach(struct strangers *s, uint64_t now_us) {
  struct program p;
  s->attached_us = now_us;
  s->is_stale = false;
  p.count = s->first_count;
  memcpy(p.lines, s->first, s->first_count * sizeof s->first[0]);
  if (is_flooded(s)) {
    put_clients(&p, s);
    put_kinds(&p, s);
  } else {
    put(&p, BPF_RET | BPF_K, UINT32_MAX);
  }
  struct sock_fprog program = {.len = (unsigned short)p.count, .filter = p.lines};
  return setsockopt(s->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/* Whether the window is over: a flood is not waited for to its end. */
static bool is_over(const struct strangers *s, uint64_t now_us) {
  bool begins = false;
  for (int kind = 0; kind < STRANGER_KINDS; kind++) {
    begins |= !s->thins[kind] && s->came[kind] > STRANGERS_MAX;
  }
  return (begins && !s->is_full) || now_us - s->since_us >= STRANGERS_WINDOW_US;
}

/* Begins and ends floods by what came in the window that is over; whether any did. */
static bool judge_window(struct strangers *s, struct link *link) {
  bool changes = false;
  for (int kind = 0; kind < STRANGER_KINDS; kind++) {
    bool was = s->thins[kind];
    uint64_t sent = (uint64_t)s->came[kind] * (was ? SHARE[kind] : 1);
    s->came[kind] = 0;
    s->thins[kind] = sent > STRANGERS_MAX && !s->is_full;
    changes |= s->thins[kind] != was;
    if (s->thins[kind] && !was) link->counters.floods++;
  }
  return changes;
}

/* Nobody is kept out any more. */
static bool give_up(struct strangers *s) {
  bool changes = is_flooded(s);
  memset(s->thins, 0, sizeof s->thins);
  return changes;
}

void strangers_look(struct strangers *s, struct link *link, uint64_t now_us) {
  bool changes = s->is_full && give_up(s);
  if (is_over(s, now_us)) {
    s->since_us = now_us;
    changes |= judge_window(s, link);
  } else if (s->is_stale && is_flooded(s)) {
    changes |= now_us - s->attached_us >= REFRESH_US;
  }
  if (!changes) return;
  if (!strangers_attach(s, now_us) && give_up(s)) strangers_attach(s, now_us);
  link->flooded = is_flooded(s);
}
