#include "memory/dimms.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Every flag that there is, and more. */
#define FLAGS_BYTES 512

static int open_flags(const char *root, const char *dimm) {
  static const char *const KINDS[] = {"nfit", "papr"};
  for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/bus/nd/devices/%s/%s/flags", root, dimm, KINDS[i]);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) return file;
  }
  return -1;
}

void dimms_open(struct dimms *dimms, const char *root, const struct sysfs_region *region) {
  dimms->count = 0;
  for (int i = 0; i < region->dimms_count; i++) {
    int flags = open_flags(root, region->dimms[i]);
    if (flags < 0) continue;
    struct dimm *dimm = &dimms->each[dimms->count++];
    memcpy(dimm->name, region->dimms[i], sizeof dimm->name);
    dimm->flags = flags;
  }
}

void dimms_close(struct dimms *dimms) {
  for (int i = 0; i < dimms->count; i++) close(dimms->each[i].flags);
  dimms->count = 0;
}

static bool is_any(const char *word, const char *const *of) {
  while (*of != NULL && strcmp(word, *of) != 0) of++;
  return *of != NULL;
}

struct dimms_health dimms_look(const struct dimms *dimms) {
  static const char *const UNARMED[] = {"not_armed", "locked", NULL};
  static const char *const FAILED[] = {"save_fail", "restore_fail", "flush_fail", NULL};
  static const char BETWEEN[] = " \t\n";
  struct dimms_health health = {NULL, NULL};
  for (int i = dimms->count - 1; i >= 0; i--) {
    const struct dimm *dimm = &dimms->each[i];
    char text[FLAGS_BYTES + 1];
    ssize_t length = pread(dimm->flags, text, FLAGS_BYTES, 0);
    text[length > 0 ? length : 0] = '\0';
    if (length < 0) health.unarmed = dimm->name;
    char *rest = text;
    for (char *word = strtok_r(rest, BETWEEN, &rest); word != NULL;
         word = strtok_r(NULL, BETWEEN, &rest)) {
      if (is_any(word, UNARMED)) health.unarmed = dimm->name;
      if (is_any(word, FAILED)) health.failed = dimm->name;
    }
  }
  return health;
}
