#include "access/peers-file.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/key-file.h"
#include "base/file.h"
#include "base/utf8.h"

/* A longer word may be a private key in a wrong place. */
#define QUOTED_UNITS_MAX 32

/* So many units of UTF-16, in quotes. */
#define QUOTED_BYTES (3 * QUOTED_UNITS_MAX + 3)

#define GIVE_RIGHT "write admin, read:REGION or write:REGION"
#define GIVE_ENCODED "write its name percent-encoded, %20 for a blank and %25 for %"
#define GIVE_KEY "give what 'perdure key show' prints"

/* A part of the text, which no NUL ends. */
struct word {
  const char *at;
  size_t length;
};

struct reader {
  const char *path;
  unsigned line;
  char *decoded; /* room for the names of regions that are still to come */
  struct identity *identity;
  struct fault *fault;
};

enum right { READ, WRITE, RIGHTS };

static const char *const VERBS[RIGHTS] = {"read:", "write:"};

/* What a line says: regions are counted to the end, and the first ones kept. */
struct claim {
  uint8_t key[IDENTITY_KEY_BYTES];
  struct word name;
  bool admin;
  struct word regions[RIGHTS][HAL_PEER_REGIONS];
  uint32_t counts[RIGHTS];
};

__attribute__((format(printf, 2, 3)))
static bool refuse(const struct reader *reader, const char *format, ...) {
  char words[400] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  return fault_set(reader->fault, "%.100s, line %u: %s", reader->path, reader->line, words);
}

/* What a refusal says of a word. */
static const char *quoted(struct word word, char text[QUOTED_BYTES]) {
  if (utf8_units(word.at, word.length) > QUOTED_UNITS_MAX) return "a long word";
  size_t length = 0, taken;
  text[length++] = '\'';
  for (size_t at = 0; at < word.length; at += taken) {
    int32_t point = utf8_point(word.at + at, word.length - at, &taken);
    bool is_shown = point != UTF8_MALFORMED && !utf8_is_control(point);
    memcpy(text + length, is_shown ? word.at + at : "?", is_shown ? taken : 1);
    length += is_shown ? taken : 1;
  }
  memcpy(text + length, "'", 2);
  return text;
}

static bool is_text(struct word word, const char *text) {
  return word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

static bool is_same(struct word one, struct word other) {
  return one.length == other.length && memcmp(one.at, other.at, one.length) == 0;
}

/* Takes the next word off the front; false if there is none. */
static bool next_word(struct word *rest, struct word *word) {
  while (rest->length > 0 && (rest->at[0] == ' ' || rest->at[0] == '\t')) {
    rest->at++;
    rest->length--;
  }
  *word = (struct word){rest->at, 0};
  while (word->length < rest->length && word->at[word->length] != ' ' &&
         word->at[word->length] != '\t') {
    word->length++;
  }
  rest->at += word->length;
  rest->length -= word->length;
  return word->length > 0;
}

/* Whether the number is less than 2^255 - 19: a greater one stands for the point of another. */
static bool is_reduced(const uint8_t *key) {
  for (int i = IDENTITY_KEY_BYTES - 1; i > 0; i--) {
    uint8_t most = i == IDENTITY_KEY_BYTES - 1 ? 0x7f : 0xff;
    if (key[i] != most) return key[i] < most;
  }
  return key[0] < 0xed;
}

/* Any scalar shows a point of small order: X25519 makes a multiple of 8 of it. */
static bool has_secrets(const uint8_t *key) {
  static const uint8_t SOME_SECRET[IDENTITY_KEY_BYTES] = {1};
  uint8_t product[IDENTITY_KEY_BYTES];
  return crypto_scalarmult(product, SOME_SECRET, key) == 0;
}

static bool take_key(const struct reader *reader, struct word word, uint8_t *key) {
  if (!key_from_text(word.at, word.length, key)) {
    char found[40] = "other characters, too";
    size_t units = utf8_units(word.at, word.length);
    if (units != 2 * IDENTITY_KEY_BYTES) snprintf(found, sizeof found, "%zu characters", units);
    return refuse(reader,
                  "a line begins with a key. Here a public key has %d hexadecimal digits, and "
                  "this has %s: " GIVE_KEY,
                  2 * IDENTITY_KEY_BYTES, found);
  }
  if (is_reduced(key) && has_secrets(key)) return true;
  return refuse(reader, "a line begins with a key. Here nobody has that public key: " GIVE_KEY);
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* What the word is, percent-decoded; false if it encodes nothing. */
static bool decode(struct reader *reader, struct word word, struct word *region) {
  char *to = reader->decoded;
  size_t length = 0;
  for (size_t at = 0; at < word.length; at++) {
    to[length] = word.at[at];
    if (word.at[at] == '%') {
      if (word.length - at < 3) return false;
      int high = digit(word.at[at + 1]), low = digit(word.at[at + 2]);
      if (high < 0 || low < 0) return false;
      to[length] = (char)(high << 4 | low);
      at += 2;
    }
    length++;
  }
  reader->decoded += length;
  *region = (struct word){to, length};
  return utf8_is_well_formed(to, length);
}

static bool take_region(struct reader *reader, struct word word, struct word *region) {
  char text[QUOTED_BYTES];
  if (!decode(reader, word, region)) {
    return refuse(reader, "%s names no region: %s", quoted(word, text), GIVE_ENCODED);
  }
  if (!is_text(*region, "*") || is_text(word, "*")) return true;
  return refuse(reader, "a region cannot be named %s: write * for every region",
                quoted(word, text));
}

static bool take_right(struct reader *reader, struct word word, struct claim *claim) {
  char text[QUOTED_BYTES];
  if (is_text(word, "admin")) {
    claim->admin = true;
    return true;
  }
  for (int right = READ; right < RIGHTS; right++) {
    size_t length = strlen(VERBS[right]);
    if (word.length < length || memcmp(word.at, VERBS[right], length) != 0) continue;
    const struct word rest = {word.at + length, word.length - length};
    struct word region;
    if (!take_region(reader, rest, &region)) return false;
    uint32_t at = claim->counts[right]++;
    if (at < HAL_PEER_REGIONS) claim->regions[right][at] = region;
    return true;
  }
  return refuse(reader, "%s is no right: " GIVE_RIGHT, quoted(word, text));
}

/* Whether it is of 1 to so many bytes that move nobody's cursor; `blanks`: may it have them? */
static bool is_name(struct word word, size_t most, bool blanks) {
  if (word.length == 0 || word.length > most) return false;
  size_t taken;
  for (size_t at = 0; at < word.length; at += taken) {
    int32_t point = utf8_point(word.at + at, word.length - at, &taken);
    if (utf8_is_control(point) || (!blanks && utf8_is_space(point))) return false;
  }
  return true;
}

/* The regions of both kinds, those to read first; they are no more than there may be. */
static bool check_regions(const struct reader *reader, const struct claim *claim) {
  struct word all[HAL_PEER_REGIONS];
  char text[QUOTED_BYTES];
  uint32_t count = 0;
  for (int right = READ; right < RIGHTS; right++) {
    for (uint32_t i = 0; i < claim->counts[right]; i++) all[count++] = claim->regions[right][i];
  }
  for (uint32_t i = 0; i < count; i++) {
    if (is_name(all[i], HAL_REGION_NAME_BYTES, true)) continue;
    return refuse(reader,
                  "no region is called %s: write 1 to %d bytes without control characters",
                  quoted(all[i], text), HAL_REGION_NAME_BYTES);
  }
  for (uint32_t i = 1; i < count; i++) {
    for (uint32_t before = 0; before < i; before++) {
      if (!is_same(all[i], all[before])) continue;
      return refuse(reader,
                    "region %s stands there twice: write it once, for to write includes to read",
                    quoted(all[i], text));
    }
  }
  return true;
}

static bool check_rights(const struct reader *reader, const struct claim *claim) {
  char text[QUOTED_BYTES];
  uint32_t count = claim->counts[READ] + claim->counts[WRITE];
  if (claim->admin && count > 0) {
    return refuse(reader, "an admin may do everything: write no right beside admin");
  }
  if (!claim->admin && count == 0) {
    return refuse(reader, "%s has no right: " GIVE_RIGHT, quoted(claim->name, text));
  }
  if (count > HAL_PEER_REGIONS) {
    return refuse(reader,
                  "%u regions of one peer, and %d can be: write fewer, or * for every region",
                  count, HAL_PEER_REGIONS);
  }
  return check_regions(reader, claim);
}

/* What the ids of its clients begin with (firmware/session/sealed.ts, clientTag). */
static uint32_t tag_of(const uint8_t *key) {
  uint8_t hash[crypto_hash_sha256_BYTES];
  uint32_t tag;
  crypto_hash_sha256(hash, key, IDENTITY_KEY_BYTES);
  memcpy(&tag, hash, sizeof tag);
  return tag;
}

/* Refuses what no file may hold behind the peers that are there. */
static bool check(const struct reader *reader, const struct claim *claim) {
  const struct identity *identity = reader->identity;
  char text[QUOTED_BYTES], other[QUOTED_BYTES];
  if (!is_name(claim->name, IDENTITY_NAME_BYTES, false)) {
    return refuse(reader,
                  "a name stands behind the key: write 1 to %d bytes without blanks and control "
                  "characters",
                  IDENTITY_NAME_BYTES);
  }
  if (!check_rights(reader, claim)) return false;
  if (identity->peers_count >= HAL_PEERS) {
    return refuse(reader, "a card knows %d peers: leave some out", HAL_PEERS);
  }
  for (uint32_t i = 0; i < identity->peers_count; i++) {
    const struct identity_peer *peer = &identity->peers[i];
    if (memcmp(peer->key, claim->key, sizeof peer->key) != 0) continue;
    const struct word name = {peer->name, strlen(peer->name)};
    return refuse(reader, "%s has the key of %s: write all rights of a key in one line",
                  quoted(claim->name, text), quoted(name, other));
  }
  const uint32_t tag = tag_of(claim->key);
  for (uint32_t i = 0; i < identity->peers_count; i++) {
    const struct identity_peer *peer = &identity->peers[i];
    if (tag_of(peer->key) != tag) continue;
    const struct word name = {peer->name, strlen(peer->name)};
    return refuse(reader, "clients of %s could be taken for those of %s: have a new key made",
                  quoted(claim->name, text), quoted(name, other));
  }
  for (uint32_t i = 0; i < identity->peers_count; i++) {
    if (!is_text(claim->name, identity->peers[i].name)) continue;
    return refuse(reader, "%s is the name of another: write a name of its own",
                  quoted(claim->name, text));
  }
  return true;
}

static void keep_regions(const struct claim *claim, enum right right,
                         struct identity_regions *regions) {
  regions->count = claim->counts[right];
  for (uint32_t i = 0; i < regions->count; i++) {
    const struct word *name = &claim->regions[right][i];
    memcpy(regions->names[i], name->at, name->length);
  }
}

static void keep(struct identity *identity, const struct claim *claim) {
  struct identity_peer *peer = &identity->peers[identity->peers_count++];
  *peer = (struct identity_peer){.admin = claim->admin};
  memcpy(peer->key, claim->key, sizeof peer->key);
  memcpy(peer->name, claim->name.at, claim->name.length);
  keep_regions(claim, READ, &peer->read);
  keep_regions(claim, WRITE, &peer->write);
}

static bool take_line(struct reader *reader, struct word line) {
  struct word rest = line, word;
  struct claim claim = {0};
  if (!utf8_is_well_formed(line.at, line.length)) {
    return refuse(reader, "it is no UTF-8: write the file anew, as UTF-8");
  }
  if (!next_word(&rest, &word) || word.at[0] == '#') return true;
  if (!take_key(reader, word, claim.key)) return false;
  next_word(&rest, &claim.name);
  while (next_word(&rest, &word)) {
    if (!take_right(reader, word, &claim)) return false;
  }
  if (!check(reader, &claim)) return false;
  keep(reader->identity, &claim);
  return true;
}

/* Line by line: each ends with a feed, and with a carriage return before it that is part of it. */
static bool take_text(struct reader *reader, const char *text, size_t length) {
  const char *end = text + length;
  while (text < end) {
    const char *feed = memchr(text, '\n', (size_t)(end - text));
    struct word line = {text, (size_t)((feed == NULL ? end : feed) - text)};
    bool returns = feed != NULL && line.length > 0 && line.at[line.length - 1] == '\r';
    if (returns) line.length--;
    reader->line++;
    if (!take_line(reader, line)) return false;
    text = feed == NULL ? end : feed + 1;
  }
  return reader->identity->peers_count > 0 ||
         fault_set(reader->fault, "%.100s: nobody may come: write a line PUBLICKEY NAME admin",
                   reader->path);
}

bool peers_text_read(const char *path, const char *text, size_t length, struct identity *identity,
                     struct fault *fault) {
  char *decoded = malloc(length + 1);
  struct reader reader = {path, 0, decoded, identity, fault};
  bool taken = decoded == NULL ? fault_set(fault, "%.200s cannot be read whole", path)
                               : take_text(&reader, text, length);
  free(decoded);
  return taken;
}

enum identity_result peers_file_read(const char *path, struct identity *identity,
                                     struct fault *fault) {
  size_t length = 0;
  char *text = file_read(path, PEERS_FILE_BYTES_MAX, &length, fault);
  if (text == NULL) return IDENTITY_NO_FILE;
  bool taken = peers_text_read(path, text, length, identity, fault);
  free(text);
  return taken ? IDENTITY_TAKEN : IDENTITY_REFUSED;
}
