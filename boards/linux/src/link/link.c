#include "link/link.h"

#include <string.h>

#include "link/link-kinds.h"

static const struct kind {
  const char *prefix;
  bool (*open)(struct link *link, const char *where, struct fault *fault);
} kinds[] = {
    {"packet:", link_open_packet},
    {"udp:", link_open_udp},
    {"stream:", link_open_stream},
    {"dgram:", link_open_dgram},
};

bool link_open(struct link *link, const char *where, struct fault *fault) {
  memset(link, 0, sizeof *link);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    size_t length = strlen(kinds[i].prefix);
    if (strncmp(where, kinds[i].prefix, length) != 0) continue;
    return kinds[i].open(link, where + length, fault);
  }
  return fault_set(fault,
                   "'%s' names no link: give packet:INTERFACE, udp:ADDRESS:PORT, "
                   "stream:unix:PATH or dgram:ADDRESS:PORT,ADDRESS:PORT",
                   where);
}
