/*
 * QEMU's dgram network backend: Ethernet over UDP between two sockets that know each other.
 *
 *     -netdev dgram,id=n0,local.type=inet,local.host=…,remote.type=inet,remote.host=…
 *
 * Invariant: every frame goes to the other, and only what comes from the other is taken.
 * The kernel keeps strangers out, because the socket is connected. A frame of which it is told
 * later that nobody was there counts as sent, and then as dropped, too.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "link/datagrams.h"

enum { WHERE_BYTES = 2 * ENDPOINT_TEXT_BYTES };

struct dgram {
  struct datagrams datagrams;
  struct endpoint other;
  char name[sizeof "dgram:" + WHERE_BYTES];
};

static int dgram_receive(struct link *link, uint8_t *packets) {
  struct dgram *dgram = link->internal;
  return datagrams_receive(&dgram->datagrams, link, packets, NULL, NULL);
}

static void dgram_transmit(struct link *link, const uint8_t *frame, uint32_t length) {
  struct dgram *dgram = link->internal;
  const uint8_t *kept = datagrams_keep(&dgram->datagrams, link, frame, length);
  if (kept != NULL) datagrams_send(&dgram->datagrams, link, kept, length, &dgram->other);
}

static void dgram_flush(struct link *link) {
  struct dgram *dgram = link->internal;
  datagrams_flush(&dgram->datagrams, link);
}

static int dgram_descriptor(struct link *link) {
  const struct dgram *dgram = link->internal;
  return dgram->datagrams.fd;
}

static void dgram_close(struct link *link) {
  struct dgram *dgram = link->internal;
  datagrams_close(&dgram->datagrams);
  free(dgram);
  link->internal = NULL;
}

/* Splits OWN,OTHER and reads both. */
static bool parse(const char *where, struct endpoint *own, struct endpoint *other,
                  struct fault *fault) {
  char text[ENDPOINT_TEXT_BYTES];
  const char *comma = strchr(where, ',');
  if (comma == NULL || (size_t)(comma - where) >= sizeof text) {
    return fault_set(fault, "'dgram:%s' needs two addresses: dgram:OWN:PORT,OTHER:PORT", where);
  }
  memcpy(text, where, (size_t)(comma - where));
  text[comma - where] = '\0';
  return endpoint_parse(own, text, fault) && endpoint_parse(other, comma + 1, fault);
}

static bool join(struct dgram *dgram, struct endpoint *own, const char *where,
                 struct fault *fault) {
  if (!datagrams_open(&dgram->datagrams, own, fault)) return false;
  const struct endpoint *other = &dgram->other;
  if (connect(dgram->datagrams.fd, &other->address.any, other->length) == 0) return true;
  fault_set(fault, "cannot join the other end of dgram:%s: %s", where, strerror(errno));
  datagrams_close(&dgram->datagrams);
  return false;
}

bool link_open_dgram(struct link *link, const char *where, struct fault *fault) {
  struct endpoint own, other;
  if (!parse(where, &own, &other, fault)) return false;
  struct dgram *dgram = calloc(1, sizeof *dgram);
  if (dgram == NULL) return fault_set(fault, "no memory for the link dgram:%s", where);
  dgram->other = other;
  if (!join(dgram, &own, where, fault)) {
    free(dgram);
    return false;
  }
  char own_text[ENDPOINT_TEXT_BYTES], other_text[ENDPOINT_TEXT_BYTES];
  endpoint_write(&own, own_text);
  endpoint_write(&other, other_text);
  snprintf(dgram->name, sizeof dgram->name, "dgram:%s,%s", own_text, other_text);
  *link = (struct link){
      .name = dgram->name,
      .receive = dgram_receive,
      .transmit = dgram_transmit,
      .flush = dgram_flush,
      .descriptor = dgram_descriptor,
      .close = dgram_close,
      .internal = dgram,
  };
  return true;
}
