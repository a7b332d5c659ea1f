#include "program/profile.h"

#include <stdio.h>
#include <string.h>

#include "trouble.h"

/* What was seen of a function. */
struct profile {
  char name[NAME_MAX_BYTES];
  uint32_t hash, code_bytes;
  uint32_t *seen; /* by offset of the operation */
};

uint32_t profile_hash(const struct function *function) {
  uint32_t hash = 2166136261u;
  for (uint32_t at = 0; at < function->code_bytes;) {
    hash = (hash ^ function->code[at]) * 16777619u;
    at = read_at(function->code, at).next;
  }
  return hash;
}

void profile_name(const struct function *function, char name[NAME_MAX_BYTES]) {
  snprintf(name, NAME_MAX_BYTES, "%s", function->name != NULL ? function->name : "-");
  for (char *c = name; *c != '\0'; c++) {
    if ((unsigned char)*c <= ' ' || *c == '"' || *c == '\\') *c = '_';
  }
}

/* Several functions of one name and the same operations share what was seen of them. */
static struct profile *find_profile(const struct program *program, const char *name,
                                    uint32_t hash) {
  for (int k = 0; k < program->profile_count; k++) {
    struct profile *profile = &program->profiles[k];
    if (profile->hash == hash && strcmp(profile->name, name) == 0) return profile;
  }
  return NULL;
}

const uint32_t *seen_of(const struct program *program, const struct function *function) {
  char name[NAME_MAX_BYTES];
  profile_name(function, name);
  const struct profile *profile = find_profile(program, name, profile_hash(function));
  bool is_same = profile != NULL && profile->code_bytes == function->code_bytes;
  return is_same ? profile->seen : NULL;
}

static struct profile *add_profile(struct program *program, const struct profile *read) {
  size_t bytes = sizeof *program->profiles * (size_t)(program->profile_count + 1);
  program->profiles = grown(program->profiles, bytes);
  struct profile *added = &program->profiles[program->profile_count++];
  *added = *read;
  added->seen = zeros(read->code_bytes, sizeof *added->seen);
  return added;
}

/* One line: NAME HASH BYTES, then OFFSET:MASK where something was seen, numbers in hex. */
static void read_profile_line(struct program *program, char *line) {
  struct profile read = {.hash = 0};
  int length = 0;
  unsigned at, mask;
  bool is_line = sscanf(line, "%63s %x %x%n", read.name, &read.hash, &read.code_bytes,
                        &length) == 3;
  if (!is_line || read.code_bytes == 0 || read.code_bytes > 1 << 20) {
    die("translate: no profile: %.60s", line);
  }
  struct profile *known = find_profile(program, read.name, read.hash);
  if (known == NULL) known = add_profile(program, &read);
  for (line += length; sscanf(line, " %x:%x%n", &at, &mask, &length) == 2; line += length) {
    if (at < known->code_bytes) known->seen[at] |= mask;
  }
  if (strspn(line, " ") != strlen(line)) die("translate: no profile: %.60s", line);
}

void read_profile(struct program *program, char *text) {
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    if (*line != '#') read_profile_line(program, line);
  }
}
