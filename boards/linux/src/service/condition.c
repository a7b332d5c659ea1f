#include "service/condition.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hal.h"

/* What may be the matter with a line. */
enum { BAD = 1, BAD_DURABLY = 2 };

static const char suffix[] = ".condition";

/* The text of the value of a key; NULL if the text has none. */
static const char *value_of(const char *text, const char *key) {
  const char *at = strstr(text, key);
  if (at == NULL) return NULL;
  at += strlen(key);
  while (isspace((unsigned char)*at)) at++;
  if (*at++ != ':') return NULL;
  while (isspace((unsigned char)*at)) at++;
  return at;
}

static bool read_count(const char **text, uint64_t *count) {
  if (!isdigit((unsigned char)**text)) return false;
  char *end;
  errno = 0;
  *count = strtoull(*text, &end, 10);
  *text = end;
  return errno == 0;
}

static bool read_lines(struct condition *condition, const char *text) {
  uint64_t line;
  if (*text++ != '[') return false;
  while (*text != ']') {
    while (isspace((unsigned char)*text) || *text == ',') text++;
    if (!read_count(&text, &line)) return false;
    if (line < condition->lines) condition_mark(condition, line);
    while (isspace((unsigned char)*text)) text++;
    if (*text != ',' && *text != ']') return false;
  }
  return true;
}

static bool parse(struct condition *condition, const char *text) {
  const char *shutdowns = value_of(text, "\"dirtyShutdowns\"");
  const char *save = value_of(text, "\"saveFailed\"");
  const char *lines = value_of(text, "\"poisonedLines\"");
  uint64_t count;
  if (shutdowns == NULL || lines == NULL || !read_count(&shutdowns, &count)) return false;
  if (count > UINT32_MAX) return false;
  condition->dirty_shutdowns = (uint32_t)count;
  condition->save_failed = save != NULL && strncmp(save, "true", 4) == 0;
  return read_lines(condition, lines);
}

static bool read_file(struct condition *condition, struct fault *fault) {
  FILE *file = fopen(condition->path, "re");
  if (file == NULL) {
    if (errno == ENOENT) return true;
    return fault_set(fault, "cannot read %s: %s", condition->path, strerror(errno));
  }
  /* Each line of a part of 1 GiB in eight figures and a comma: more than this is not ours. */
  size_t room = 160u << 20;
  char *text = mmap(NULL, room, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool parsed = false;
  if (text != MAP_FAILED) {
    text[fread(text, 1, room - 1, file)] = '\0';
    parsed = parse(condition, text);
    munmap(text, room);
  }
  fclose(file);
  return parsed || fault_set(fault, "%s is damaged", condition->path);
}

bool condition_open(struct condition *condition, const char *image, uint64_t bytes,
                    struct fault *fault) {
  memset(condition, 0, sizeof *condition);
  condition->lines = bytes / HAL_LINE_BYTES;
  void *flags = mmap(NULL, condition->lines, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (flags == MAP_FAILED) return fault_set(fault, "no memory");
  condition->flags = flags;
  if (image == NULL) return true;
  /* Beside the file itself, whatever symbolic links lead to it. */
  char real[PATH_MAX];
  if (realpath(image, real) == NULL) {
    return fault_set(fault, "cannot find %s: %s", image, strerror(errno));
  }
  size_t room = strlen(real) + sizeof suffix;
  condition->path = malloc(room);
  if (condition->path == NULL) return fault_set(fault, "no memory");
  snprintf(condition->path, room, "%s%s", real, suffix);
  return read_file(condition, fault);
}

void condition_close(struct condition *condition) {
  if (condition->flags != NULL) munmap(condition->flags, condition->lines);
  free(condition->path);
  memset(condition, 0, sizeof *condition);
}

void condition_mark(struct condition *condition, uint64_t line) {
  if ((condition->flags[line] & BAD) == 0) condition->bad_lines++;
  condition->flags[line] = BAD | BAD_DURABLY;
}

bool condition_readable(const struct condition *condition, uint64_t at, uint64_t length) {
  uint64_t end = at + length;
  if (length == 0) return true;
  for (uint64_t line = at / HAL_LINE_BYTES; line * HAL_LINE_BYTES < end; line++) {
    if (condition->flags[line] & BAD) return false;
  }
  return true;
}

void condition_heal(struct condition *condition, uint64_t at, uint64_t length) {
  uint64_t line = (at + HAL_LINE_BYTES - 1) / HAL_LINE_BYTES;
  for (; (line + 1) * HAL_LINE_BYTES <= at + length; line++) {
    if ((condition->flags[line] & BAD) == 0) continue;
    condition->flags[line] &= (uint8_t)~BAD;
    condition->bad_lines--;
    condition->healed_lines++;
  }
}

static bool write_file(const struct condition *condition) {
  char fresh[4096 + 32];
  if (snprintf(fresh, sizeof fresh, "%s.new", condition->path) >= (int)sizeof fresh) return false;
  FILE *file = fopen(fresh, "we");
  if (file == NULL) return false;
  fprintf(file, "{\"dirtyShutdowns\":%u,\"saveFailed\":%s,\"poisonedLines\":[",
          condition->dirty_shutdowns, condition->save_failed ? "true" : "false");
  const char *between = "";
  for (uint64_t line = 0; line < condition->lines; line++) {
    if ((condition->flags[line] & BAD_DURABLY) == 0) continue;
    fprintf(file, "%s%llu", between, (unsigned long long)line);
    between = ",";
  }
  fprintf(file, "]}\n");
  bool written = fflush(file) == 0 && fsync(fileno(file)) == 0;
  if (fclose(file) != 0) written = false;
  return written && rename(fresh, condition->path) == 0;
}

bool condition_fail_save(struct condition *condition) {
  condition->save_failed = true;
  return condition->path != NULL && write_file(condition);
}

bool condition_settle(struct condition *condition) {
  bool anything = condition->dirty_shutdowns != 0 || condition->save_failed;
  for (uint64_t line = 0; line < condition->lines; line++) {
    if (condition->flags[line] == BAD_DURABLY) condition->flags[line] = 0;
    if (condition->flags[line] != 0) anything = true;
  }
  condition->healed_lines = 0;
  if (condition->path == NULL) return true;
  if (anything) return write_file(condition);
  return unlink(condition->path) == 0 || errno == ENOENT;
}
