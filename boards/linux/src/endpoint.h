/*
 * An address and a port of IPv4 or IPv6, as text and as the system wants it.
 */
#ifndef PERDURE_ENDPOINT_H
#define PERDURE_ENDPOINT_H

#include <netinet/in.h>
#include <stdbool.h>

#include "fault.h"

struct endpoint {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } address;
  socklen_t length;
};

/* "[ffff:…:255.255.255.255]:65535" and an end. */
enum { ENDPOINT_TEXT_BYTES = INET6_ADDRSTRLEN + 2 + 1 + 5 + 1 };

/* Reads ADDRESS:PORT: numbers, not names; IPv6 stands in brackets. */
bool endpoint_parse(struct endpoint *endpoint, const char *text, struct fault *fault);

/* Writes it as endpoint_parse reads it. */
void endpoint_write(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES]);

/* Whether both are the same address and port. */
bool endpoint_equal(const struct endpoint *a, const struct endpoint *b);

#endif
