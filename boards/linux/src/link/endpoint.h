/*
 * An address and a port of IPv4 or IPv6, as text and as the system wants it; and, where something
 * was heard from there, at which of our addresses.
 */
#ifndef PERDURE_ENDPOINT_H
#define PERDURE_ENDPOINT_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "service/fault.h"

struct endpoint {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } address;
  socklen_t length;
  /* Which of our addresses it asked, for the answer to leave from: of IPv6, or of IPv4 as
   * ::ffff:a.b.c.d. All zeros: the one that the route prefers. */
  struct in6_addr asked;
};

/* "[ffff:…:255.255.255.255%interface]:65535" and an end. */
enum { ENDPOINT_TEXT_BYTES = INET6_ADDRSTRLEN + 2 + IF_NAMESIZE + 1 + 5 + 1 };

/* Reads ADDRESS:PORT: numbers, not names; IPv6 stands in brackets, where it has a zone
 * with the interface's name: [fe80::1%eth0]:4791. */
bool endpoint_parse(struct endpoint *endpoint, const char *text, struct fault *fault);

/* Writes it as endpoint_parse reads it. */
void endpoint_write(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES]);

/* Whether both are the same address and port, at whichever of our addresses they were heard. */
bool endpoint_same(const struct endpoint *a, const struct endpoint *b);

/* Whether that stands for all addresses of the machine. */
bool endpoint_is_any(const struct endpoint *endpoint);

/* Keeps at which of our addresses a datagram came, from what the kernel says beside it
 * (IP_PKTINFO, IPV6_PKTINFO); nothing else. Nobody answers from an address of a group. */
void endpoint_hear(struct endpoint *endpoint, struct cmsghdr *part);

/* Has a message leave from the address that was asked, if that is known: it has room for an
 * in6_pktinfo in msg_control, and msg_controllen is 0. */
void endpoint_answer(const struct endpoint *endpoint, struct msghdr *message);

#endif
