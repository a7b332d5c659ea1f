#include "sysfs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAPPINGS_MAX = 32 };

/* A file's first line, without its end. */
static bool read_line(char *into, size_t bytes, const char *folder, const char *name) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  bool read = fgets(into, (int)bytes, file) != NULL;
  fclose(file);
  if (read) into[strcspn(into, "\n")] = '\0';
  return read;
}

/* Decimal, or hexadecimal with 0x. */
static bool read_number(uint64_t *number, const char *folder, const char *name) {
  char text[64];
  if (!read_line(text, sizeof text, folder, name)) return false;
  char *end;
  *number = strtoull(text, &end, 0);
  return end != text && *end == '\0';
}

/* The folder of the device itself, behind the link that sysfs has for its number. */
static bool folder_of(const char *root, const char *device, char *folder) {
  char link[PATH_MAX];
  snprintf(link, sizeof link, "%s/dev/%s", root, device);
  return realpath(link, folder) != NULL;
}

bool sysfs_dax(const char *root, const char *device, struct sysfs_dax *dax) {
  char folder[PATH_MAX], link[PATH_MAX + 64], subsystem[PATH_MAX];
  if (!folder_of(root, device, folder)) return false;
  snprintf(link, sizeof link, "%s/subsystem", folder);
  if (realpath(link, subsystem) == NULL) return false;
  const char *name = strrchr(subsystem, '/');
  if (name == NULL || strcmp(name, "/dax") != 0) return false;
  if (!read_number(&dax->bytes, folder, "size") || dax->bytes == 0) return false;
  /* Kernels before 5.9 keep the alignment one folder up, or say none. */
  if (!read_number(&dax->align, folder, "align") &&
      !read_number(&dax->align, folder, "../dax_region/align")) {
    dax->align = 2u << 20;
  }
  return dax->align != 0;
}

static uint64_t dirty_shutdowns_of(const char *root, const char *dimm) {
  char folder[PATH_MAX];
  uint64_t count;
  snprintf(folder, sizeof folder, "%s/bus/nd/devices/%s", root, dimm);
  return read_number(&count, folder, "nfit/dirty_shutdown") ? count : 0;
}

/* Climbs to the region that the device is below. */
static bool region_of(const char *root, const char *device, char *folder) {
  if (!folder_of(root, device, folder)) return false;
  for (char *slash = strrchr(folder, '/'); slash != NULL; slash = strrchr(folder, '/')) {
    if (strncmp(slash, "/region", 7) == 0) return true;
    *slash = '\0';
  }
  return false;
}

enum sysfs_region sysfs_region(const char *root, const char *device) {
  char folder[PATH_MAX], path[PATH_MAX + 16], line[256];
  enum sysfs_region region = SYSFS_PERSISTENT;
  if (!region_of(root, device, folder)) return SYSFS_NO_REGION;
  snprintf(path, sizeof path, "%s/uevent", folder);
  FILE *file = fopen(path, "re");
  if (file == NULL) return region;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strcmp(line, "DEVTYPE=nd_volatile\n") == 0) region = SYSFS_VOLATILE;
  }
  fclose(file);
  return region;
}

/* A region names the DIMMs that it lies on. */
uint32_t sysfs_dirty_shutdowns(const char *root, const char *device) {
  char folder[PATH_MAX], name[32], mapping[256];
  uint64_t sum = 0;
  if (!region_of(root, device, folder)) return 0;
  for (int i = 0; i < MAPPINGS_MAX; i++) {
    snprintf(name, sizeof name, "mapping%d", i);
    if (!read_line(mapping, sizeof mapping, folder, name)) break;
    mapping[strcspn(mapping, ",")] = '\0';
    if (strchr(mapping, '/') == NULL) sum += dirty_shutdowns_of(root, mapping);
  }
  return sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}
