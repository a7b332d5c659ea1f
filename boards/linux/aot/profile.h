/*
 * The profile: what was seen of a program, operation by operation, when it ran on a translation
 * made with `--learn`.
 *
 * Invariant: it is a hint. Where an operation is written for what was seen and something
 * else comes, it leaves for the interpreter; a profile that is old, or wrong, costs time and
 * nothing else. A function is found by its name and its operations: one that changed has no hints.
 */
#ifndef AOT_PROFILE_H
#define AOT_PROFILE_H

#include "program.h"
#include "seen.h"

#define NAME_MAX_BYTES 64

/* What was seen of a function. */
struct profile {
  char name[NAME_MAX_BYTES];
  uint32_t hash;
  int code_bytes;
  uint32_t *seen; /* by offset of the operation */
};

static struct profile *profiles;
static int profile_count;

/* Is it the program that is watched? */
static bool learns;

/* FNV-1a of its operations without their operands, which are numbered anew in every program. */
static uint32_t hash_of(const JSFunctionBytecode *b) {
  uint32_t hash = 2166136261u;
  for (uint32_t at = 0; at < (uint32_t)b->byte_code_len;) {
    hash = (hash ^ b->byte_code_buf[at]) * 16777619u;
    at = read_at(b, at).next;
  }
  return hash;
}

/* Its name in the profile: one word. Functions without one have no characters to read, either. */
static void name_of(const JSFunctionBytecode *b, char name[NAME_MAX_BYTES]) {
  snprintf(name, NAME_MAX_BYTES, "-");
  if (b->func_name == JS_ATOM_NULL || b->func_name == JS_ATOM_empty_string) return;
  const char *text = JS_AtomToCString(context, b->func_name);
  if (text == NULL) die("translate: no memory");
  snprintf(name, NAME_MAX_BYTES, "%s", text);
  JS_FreeCString(context, text);
  for (char *c = name; *c != '\0'; c++) {
    if ((unsigned char)*c <= ' ' || *c == '"' || *c == '\\') *c = '_';
  }
}

/* Several functions of one name and the same operations share what was seen of them. */
static struct profile *find_profile(const char *name, uint32_t hash) {
  for (int k = 0; k < profile_count; k++) {
    if (profiles[k].hash == hash && strcmp(profiles[k].name, name) == 0) return &profiles[k];
  }
  return NULL;
}

/* What was seen of a function; NULL if nothing. */
static const uint32_t *seen_of(const JSFunctionBytecode *b) {
  char name[NAME_MAX_BYTES];
  name_of(b, name);
  const struct profile *profile = find_profile(name, hash_of(b));
  return profile != NULL && profile->code_bytes == b->byte_code_len ? profile->seen : NULL;
}

static struct profile *add_profile(const struct profile *read) {
  profiles = grown(profiles, sizeof *profiles * (size_t)(profile_count + 1));
  struct profile *added = &profiles[profile_count++];
  *added = *read;
  added->seen = zeros((size_t)read->code_bytes, sizeof *added->seen);
  return added;
}

/* One line: NAME HASH BYTES, then OFFSET:MASK where something was seen, numbers in hex. */
static void read_profile_line(char *line) {
  struct profile read = {.hash = 0};
  int length = 0;
  unsigned bytes = 0, at, mask;
  bool is_line = sscanf(line, "%63s %x %x%n", read.name, &read.hash, &bytes, &length) == 3;
  if (!is_line || bytes == 0 || bytes > 1 << 20) die("translate: no profile: %.60s", line);
  read.code_bytes = (int)bytes;
  struct profile *known = find_profile(read.name, read.hash);
  if (known == NULL) known = add_profile(&read);
  for (line += length; sscanf(line, " %x:%x%n", &at, &mask, &length) == 2; line += length) {
    if (at < (unsigned)known->code_bytes) known->seen[at] |= mask;
  }
  if (strspn(line, " ") != strlen(line)) die("translate: no profile: %.60s", line);
}

static void read_profile(char *text) {
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    if (*line != '#') read_profile_line(line);
  }
}

#endif
