/*
 * Ethernet over UDP, one datagram a frame: what `boards/emulator/network/tunnel.ts` does, and
 * QEMU's dgram backend speaks.
 *
 * Invariants:
 * - A frame goes to the peer that owns its destination address (peers.h); a broadcast, a multicast
 *   or a stranger goes to every peer. Nobody else gets anything.
 * - A frame from an address that is another peer's is dropped whole, and counted.
 * - A datagram of any content is harmless: the firmware judges it.
 * - A tunnel leads to one card: what is for a station is for that card, whichever Ethernet address
 *   the other end believes it to have. A card whose port has an address of its own is reached so.
 *
 * Whoever can send to the socket can speak as any Ethernet address that nobody uses: listen on the
 * loopback interface, or on a network of its own.
 */

#include <arpa/inet.h>
#include <stdlib.h>

#include "link/clock.h"
#include "link/datagrams.h"
#include "link/known/peers.h"
#include "link/known/strangers.h"

struct udp {
  struct datagrams datagrams;
  struct peers peers;
  struct strangers strangers;
  uint64_t now_us; /* of the burst */
  uint8_t mac[6]; /* the card's; all zeros: frames stay as they come */
  char name[sizeof "udp:" + ENDPOINT_TEXT_BYTES];
};

/* The key of an endpoint among clients and strangers. */
static uint32_t key_of(const struct udp *udp, const struct endpoint *endpoint) {
  if (endpoint->address.any.sa_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = &endpoint->address.v6;
    return strangers_key(&udp->strangers, &v6->sin6_addr, sizeof v6->sin6_addr,
                         ntohs(v6->sin6_port));
  }
  const struct sockaddr_in *v4 = &endpoint->address.v4;
  return strangers_key(&udp->strangers, &v4->sin_addr, sizeof v4->sin_addr, ntohs(v4->sin_port));
}

static bool heard(void *whom, uint8_t *frame, uint32_t length, const struct endpoint *from) {
  struct udp *udp = whom;
  strangers_hear(&udp->strangers, key_of(udp, from), frame, length);
  if (length < ETHERNET_HEADER_BYTES) return true;
  /* Nobody is a group: the firmware says so. */
  bool is_station = (frame[6] & 1) == 0;
  if (is_station && !peers_hear(&udp->peers, mac_number(frame + 6), from, udp->now_us)) {
    return false;
  }
  bool is_group = (frame[0] & 1) != 0;
  if (!is_group && mac_number(udp->mac) != 0) memcpy(frame, udp->mac, sizeof udp->mac);
  return true;
}

static int udp_receive(struct link *link, uint8_t *packets) {
  struct udp *udp = link->internal;
  udp->now_us = link_now_us();
  strangers_look(&udp->strangers, link, udp->now_us);
  return datagrams_receive(&udp->datagrams, link, packets, heard, udp);
}

/* A frame on its way to everybody. */
struct broadcast {
  struct link *link;
  const uint8_t *kept;
  uint32_t length;
};

static void send_one(void *whom, const struct endpoint *to) {
  const struct broadcast *b = whom;
  struct udp *udp = b->link->internal;
  datagrams_send(&udp->datagrams, b->link, b->kept, b->length, to);
}

static void udp_transmit(struct link *link, const uint8_t *frame, uint32_t length) {
  struct udp *udp = link->internal;
  const uint8_t *kept = datagrams_keep(&udp->datagrams, link, frame, length);
  if (kept == NULL) return;
  bool is_group = (kept[0] & 1) != 0;
  const struct endpoint *to = is_group ? NULL : peers_find(&udp->peers, mac_number(kept));
  if (to != NULL) {
    strangers_speak(&udp->strangers, key_of(udp, to), kept, length, udp->now_us);
    datagrams_send(&udp->datagrams, link, kept, length, to);
  } else if (peers_count(&udp->peers) > 0) {
    struct broadcast broadcast = {link, kept, length};
    peers_everybody(&udp->peers, send_one, &broadcast);
  } else {
    link->counters.send_dropped++;
  }
}

static void udp_flush(struct link *link) {
  struct udp *udp = link->internal;
  datagrams_flush(&udp->datagrams, link);
}

static bool udp_listen_as(struct link *link, const uint8_t mac[6], struct fault *fault) {
  (void)fault;
  struct udp *udp = link->internal;
  memcpy(udp->mac, mac, sizeof udp->mac);
  udp->strangers.is_on = true;
  return true;
}

static int udp_descriptor(struct link *link) {
  const struct udp *udp = link->internal;
  return udp->datagrams.fd;
}

static void udp_close(struct link *link) {
  struct udp *udp = link->internal;
  datagrams_close(&udp->datagrams);
  free(udp);
  link->internal = NULL;
}

bool link_open_udp(struct link *link, const char *where, struct fault *fault) {
  struct endpoint own;
  if (!endpoint_parse(&own, where, fault)) return false;
  struct udp *udp = calloc(1, sizeof *udp);
  if (udp == NULL) return fault_set(fault, "no memory for the link udp:%s", where);
  if (!datagrams_open(&udp->datagrams, &own, fault)) {
    free(udp);
    return false;
  }
  peers_init(&udp->peers);
  strangers_init(&udp->strangers, udp->datagrams.fd, true, NULL, 0);
  memcpy(udp->name, "udp:", 4);
  endpoint_write(&own, udp->name + 4);
  *link = (struct link){
      .name = udp->name,
      .receive = udp_receive,
      .transmit = udp_transmit,
      .flush = udp_flush,
      .descriptor = udp_descriptor,
      .close = udp_close,
      .listen_as = udp_listen_as,
      .internal = udp,
  };
  return true;
}
