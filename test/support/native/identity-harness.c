/*
 * What the native runtime reads of a card's key and of its peers, and how it keeps these, for
 * test/boards/linux/linux-identity.test.ts and peers-file.test.ts: a line in, a JSON object out.
 *
 *     key PATH, peers PATH    reads the file
 *     open PATH               reads the peers of the file, and keeps it open
 *     come HEX, go HEX        KEEP_PEER of those bytes
 *     limit BYTES             from here on no file can be written beyond so many
 *     fail N                  of the next calls of fdatasync that one fails
 */

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "access/key-file.h"
#include "access/peers-file.h"
#include "access/peers-keeper.h"

static struct identity identity;
static char answer[1 << 20];
static struct peers_keeper keeper = {.file = -1};

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

static void keep(struct json *json, const char *hex, bool comes) {
  uint8_t text[2 * HAL_PEER_LINE_BYTES];
  size_t length = 0;
  sodium_hex2bin(text, sizeof text, hex, strlen(hex), NULL, &length, NULL);
  json_number(json, "result", peers_keeper_keep(&keeper, (const char *)text, length, comes));
  json_number(json, "peers", identity.peers_count);
}

/* The calls of fdatasync until one fails; 0: none will. */
static unsigned long calls_left;

int __real_fdatasync(int file);
int __wrap_fdatasync(int file);

int __wrap_fdatasync(int file) {
  if (calls_left == 0 || --calls_left > 0) return __real_fdatasync(file);
  errno = EIO;
  return -1;
}

static void limit(const char *bytes) {
  struct rlimit now;
  getrlimit(RLIMIT_FSIZE, &now);
  now.rlim_cur = strcmp(bytes, "none") == 0 ? now.rlim_max : strtoul(bytes, NULL, 10);
  setrlimit(RLIMIT_FSIZE, &now);
}

static void obey(struct json *json, const char *what, const char *with) {
  if (strcmp(what, "key") == 0 || strcmp(what, "peers") == 0) read_one(json, what, with);
  else if (strcmp(what, "limit") == 0) limit(with);
  else if (strcmp(what, "fail") == 0) calls_left = strtoul(with, NULL, 10);
  else if (strcmp(what, "open") == 0) {
    read_one(json, "peers", with);
    peers_keeper_close(&keeper);
    peers_keeper_open(&keeper, with, &identity);
  } else keep(json, with, strcmp(what, "come") == 0);
}

int main(void) {
  static char line[5000];
  if (sodium_init() < 0) return 3;
  signal(SIGXFSZ, SIG_IGN);
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *with = strchr(line, ' ');
    if (with == NULL) return 3;
    *with++ = '\0';
    struct json json;
    json_begin(&json, answer, sizeof answer);
    obey(&json, line, with);
    fputs(json_end(&json), stdout);
    fflush(stdout);
  }
  peers_keeper_close(&keeper);
  return 0;
}
