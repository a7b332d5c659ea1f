/*
 * All links of a card: one set of regions and queue pairs, reached over several carriers.
 *
 * Invariants:
 * - An answer leaves by the link of its Ethernet address. A group, and an address that nobody was
 *   heard from, leave by every link.
 * - An address is of the link over which it was first heard, until it was not heard there for
 *   PEER_OWNED_US, or that link is down. What comes from it over another one meanwhile is dropped
 *   whole, and counted. Between interfaces it moves at once: cables are switched over, and whose a
 *   station is on those networks is their switches' affair.
 * - Each link remembers addresses of its own: no flood over one pushes out those of another.
 * - Frames are never passed from one link to another: a card is no switch.
 * - A burst is of one link, and the links take turns: none waits for another that is busy.
 * - One that is deleted ends the service (`links_gone`), as if it were the only one.
 */
#ifndef PERDURE_LINKS_H
#define PERDURE_LINKS_H

#include <poll.h>

#include "link/link.h"

enum {
  LINKS_MAX = 4,
  ORIGIN_SETS = 256, /* of addresses that a link remembers, each with so many ways */
  ORIGIN_WAYS = 4,
};

/* An Ethernet address, when it was heard, and in which burst; 0: nobody's. */
struct origin {
  uint64_t mac, burst, heard_us;
};

struct links {
  struct link each[LINKS_MAX];
  int count;
  int next; /* which of them is asked first */
  uint64_t bursts;
  struct origin origins[LINKS_MAX][ORIGIN_SETS][ORIGIN_WAYS];
};

/* Opens one more, named as `link_open` takes it. False: nothing of it is open. */
bool links_add(struct links *links, const char *where, struct fault *fault);

/* As those of one link (link.h). */
int links_receive(struct links *links, uint8_t *packets);
void links_transmit(struct links *links, const uint8_t *frame, uint32_t length);
void links_flush(struct links *links);
void links_close(struct links *links);

/* One of them has no interface any more, for good. */
bool links_gone(const struct links *links);

/* The interface of one of them is down, or it is flooded: it wants to be looked at now and then. */
bool links_watchful(const struct links *links);

/* Puts a place for each, which polls readable when a frame waits. Returns how many. */
int links_watch(struct links *links, struct pollfd places[LINKS_MAX]);

/* What all of them counted. */
struct link_counters links_sum(const struct links *links);

/* Lets frames for `mac` in, wherever a link has an address of its own. */
bool links_listen_as(struct links *links, const uint8_t mac[6], struct fault *fault);

/* The address of the first link that has one of its own; NULL: none has. */
const uint8_t *links_mac(const struct links *links);

#endif
