/*
 * The configuration: lines of `key = value`, `#` for comments.
 *
 * Invariant: an unknown key, a key twice (only `link` may be) or a value that cannot be is
 * refused, naming the line and what is allowed. Whatever a key does not say has the default of its
 * row in config.c.
 */
#ifndef PERDURE_CONFIG_H
#define PERDURE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "link/links.h"
#include "service/fault.h"

#define CONFIG_TEXT_BYTES 1024

struct config {
  char board[64];
  char key[CONFIG_TEXT_BYTES], peers[CONFIG_TEXT_BYTES]; /* both, or empty */
  char firmware[CONFIG_TEXT_BYTES], signature[CONFIG_TEXT_BYTES], trust[CONFIG_TEXT_BYTES];
  char memory[CONFIG_TEXT_BYTES];
  uint64_t memory_bytes, memory_at;
  bool memory_create, development, shadow;
  bool clean_to_coherency;
  char links[LINKS_MAX][CONFIG_TEXT_BYTES];
  int links_count;
  uint8_t mac[6], ipv4[4], ipv6[16];
  bool mac_said; /* else that of the interface, where the link has one */
  uint64_t path_mtu;
  bool strict_icrc;
  char host_window[CONFIG_TEXT_BYTES];
  char port[CONFIG_TEXT_BYTES]; /* empty: there is no host behind one */
  uint64_t port_bytes;
  char console[CONFIG_TEXT_BYTES];
  char trace[CONFIG_TEXT_BYTES]; /* empty: nothing is written down */
  uint64_t trace_bytes;
  bool log_json;
  char user[64];
  bool spin;
  bool interpret;
  uint64_t heap_bytes, stack_bytes, start_ms, call_ms;
};

/* Reads the file over the defaults. False, with the line and what is allowed, if it is wrong. */
bool config_read(struct config *config, const char *path, struct fault *fault);

/* The keys, what each takes, and its default: for people. */
void config_help(FILE *out);

#endif
