/*
 * What the native runtime reads of a card's key and of its peers, for
 * test/boards/linux/linux-identity.test.ts: a line `key PATH` or `peers PATH` in, a JSON object
 * out.
 */

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/key-file.h"
#include "access/peers-file.h"

static struct identity identity;
static char answer[1 << 20];

static void tell_hex(struct json *json, const char *name, const uint8_t *key) {
  char hex[2 * IDENTITY_KEY_BYTES + 1];
  sodium_bin2hex(hex, sizeof hex, key, IDENTITY_KEY_BYTES);
  json_text(json, name, hex);
}

static void tell_regions(struct json *json, const char *name,
                         const struct identity_regions *regions) {
  const char *names[HAL_PEER_REGIONS];
  for (uint32_t i = 0; i < regions->count; i++) names[i] = regions->names[i];
  json_texts(json, name, names, (int)regions->count);
}

static void tell_peers(struct json *json) {
  json_open(json, "peers");
  for (uint32_t i = 0; i < identity.peers_count; i++) {
    const struct identity_peer *peer = &identity.peers[i];
    char number[12];
    snprintf(number, sizeof number, "%u", i);
    json_open(json, number);
    tell_hex(json, "key", peer->key);
    json_text(json, "name", peer->name);
    json_flag(json, "admin", peer->admin);
    tell_regions(json, "read", &peer->read);
    tell_regions(json, "write", &peer->write);
    json_close(json);
  }
  json_close(json);
}

static void read_one(struct json *json, const char *what, const char *path) {
  struct fault fault;
  bool is_key = strcmp(what, "key") == 0;
  identity = (struct identity){0};
  enum identity_result result = is_key ? key_file_read(path, identity.secret, &fault)
                                       : peers_file_read(path, &identity, &fault);
  json_number(json, "result", result);
  if (result != IDENTITY_TAKEN) json_text(json, "reason", fault.text);
  else if (is_key) tell_hex(json, "secret", identity.secret);
  else tell_peers(json);
}

int main(void) {
  char line[512];
  if (sodium_init() < 0) return 3;
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *path = strchr(line, ' ');
    if (path == NULL) return 3;
    *path++ = '\0';
    struct json json;
    json_begin(&json, answer, sizeof answer);
    read_one(&json, line, path);
    fputs(json_end(&json), stdout);
    fflush(stdout);
  }
  return 0;
}
