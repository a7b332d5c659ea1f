#include "link/endpoint.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits only: strtoul would take a sign, white space, and more than 16 bits. */
static bool parse_port(const char *text, in_port_t *port) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 5 || text[digits] != '\0') return false;
  unsigned long value = strtoul(text, NULL, 10);
  if (value > UINT16_MAX) return false;
  *port = htons((uint16_t)value);
  return true;
}

/* "address" or "address%zone", the zone being the name of an interface. */
static bool parse_v6(struct sockaddr_in6 *v6, char *text) {
  char *zone = strchr(text, '%');
  if (zone != NULL) {
    *zone++ = '\0';
    v6->sin6_scope_id = if_nametoindex(zone);
    if (v6->sin6_scope_id == 0) return false;
  }
  return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

static bool parse(struct endpoint *endpoint, const char *text) {
  char address[INET6_ADDRSTRLEN + IF_NAMESIZE + 2];
  const char *colon = strrchr(text, ':');
  memset(endpoint, 0, sizeof *endpoint);
  if (colon == NULL || (size_t)(colon - text) >= sizeof address) return false;
  size_t length = (size_t)(colon - text);
  memcpy(address, text, length);
  address[length] = '\0';
  if (length > 2 && address[0] == '[' && address[length - 1] == ']') {
    address[length - 1] = '\0';
    endpoint->address.v6.sin6_family = AF_INET6;
    endpoint->length = sizeof endpoint->address.v6;
    return parse_v6(&endpoint->address.v6, address + 1) &&
           parse_port(colon + 1, &endpoint->address.v6.sin6_port);
  }
  endpoint->address.v4.sin_family = AF_INET;
  endpoint->length = sizeof endpoint->address.v4;
  return inet_pton(AF_INET, address, &endpoint->address.v4.sin_addr) == 1 &&
         parse_port(colon + 1, &endpoint->address.v4.sin_port);
}

bool endpoint_parse(struct endpoint *endpoint, const char *text, struct fault *fault) {
  if (parse(endpoint, text)) return true;
  return fault_set(fault,
                   "'%s' is no address with a port: give it as 127.0.0.1:4791, "
                   "or [::1]:4791 for IPv6",
                   text);
}

void endpoint_write(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_BYTES]) {
  char address[INET6_ADDRSTRLEN] = "?";
  if (endpoint->address.any.sa_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = &endpoint->address.v6;
    char zone[IF_NAMESIZE] = "";
    bool has_zone = v6->sin6_scope_id != 0 && if_indextoname(v6->sin6_scope_id, zone) != NULL;
    inet_ntop(AF_INET6, &v6->sin6_addr, address, sizeof address);
    snprintf(text, ENDPOINT_TEXT_BYTES, "[%s%s%s]:%u", address, has_zone ? "%" : "", zone,
             ntohs(v6->sin6_port));
  } else {
    const struct sockaddr_in *v4 = &endpoint->address.v4;
    inet_ntop(AF_INET, &v4->sin_addr, address, sizeof address);
    snprintf(text, ENDPOINT_TEXT_BYTES, "%s:%u", address, ntohs(v4->sin_port));
  }
}

bool endpoint_is_any(const struct endpoint *endpoint) {
  if (endpoint->address.any.sa_family == AF_INET) {
    return endpoint->address.v4.sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&endpoint->address.v6.sin6_addr);
}

bool endpoint_same(const struct endpoint *a, const struct endpoint *b) {
  if (a->address.any.sa_family != b->address.any.sa_family) return false;
  if (a->address.any.sa_family == AF_INET6) {
    const struct sockaddr_in6 *x = &a->address.v6, *y = &b->address.v6;
    return x->sin6_port == y->sin6_port && x->sin6_scope_id == y->sin6_scope_id &&
           memcmp(&x->sin6_addr, &y->sin6_addr, sizeof x->sin6_addr) == 0;
  }
  const struct sockaddr_in *x = &a->address.v4, *y = &b->address.v4;
  return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
}

void endpoint_hear(struct endpoint *endpoint, struct cmsghdr *part) {
  if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO) {
    struct in6_pktinfo info;
    memcpy(&info, CMSG_DATA(part), sizeof info);
    if (!IN6_IS_ADDR_MULTICAST(&info.ipi6_addr)) endpoint->asked = info.ipi6_addr;
  } else if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
    struct in_pktinfo info;
    memcpy(&info, CMSG_DATA(part), sizeof info);
    endpoint->asked.s6_addr[10] = endpoint->asked.s6_addr[11] = 0xff;
    memcpy(endpoint->asked.s6_addr + 12, &info.ipi_spec_dst, sizeof info.ipi_spec_dst);
  }
}

void endpoint_answer(const struct endpoint *endpoint, struct msghdr *message) {
  if (IN6_IS_ADDR_UNSPECIFIED(&endpoint->asked)) return;
  bool is_v4 = endpoint->address.any.sa_family == AF_INET;
  struct in6_pktinfo v6 = {.ipi6_addr = endpoint->asked};
  struct in_pktinfo v4 = {0};
  memcpy(&v4.ipi_spec_dst, endpoint->asked.s6_addr + 12, sizeof v4.ipi_spec_dst);
  size_t bytes = is_v4 ? sizeof v4 : sizeof v6;
  message->msg_controllen = CMSG_SPACE(bytes);
  struct cmsghdr *part = CMSG_FIRSTHDR(message);
  part->cmsg_level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
  part->cmsg_type = is_v4 ? IP_PKTINFO : IPV6_PKTINFO;
  part->cmsg_len = CMSG_LEN(bytes);
  memcpy(CMSG_DATA(part), is_v4 ? (void *)&v4 : (void *)&v6, bytes);
}
