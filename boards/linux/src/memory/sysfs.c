#include "memory/sysfs.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAPPINGS_MAX = 32, DEVICES_DEEP_MAX = 8 };

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

/* Whether the folder is a device of that bus or class, "/nd" say. */
static bool is_of(const char *folder, const char *bus) {
  char link[PATH_MAX + 16], subsystem[PATH_MAX];
  snprintf(link, sizeof link, "%s/subsystem", folder);
  if (realpath(link, subsystem) == NULL) return false;
  const char *name = strrchr(subsystem, '/');
  return name != NULL && strcmp(name, bus) == 0;
}

bool sysfs_dax(const char *root, const char *device, struct sysfs_dax *dax) {
  char folder[PATH_MAX];
  if (!folder_of(root, device, folder) || !is_of(folder, "/dax")) return false;
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
  if (read_number(&count, folder, "nfit/dirty_shutdown")) return count;
  return read_number(&count, folder, "cxl/dirty_shutdown") ? count : 0;
}

/* Whoever is not named cannot be asked how he is: his memory is not believed. */
static void add_dimm(struct sysfs_region *found, const char *name) {
  if (found->dimms_count == SYSFS_DIMMS_MAX || strlen(name) >= SYSFS_NAME_BYTES) {
    found->kind = SYSFS_VOLATILE;
  } else {
    strcpy(found->dimms[found->dimms_count++], name);
  }
}

/* A region names the DIMMs that it lies on. */
static void look_at_dimms(const char *root, const char *region, struct sysfs_region *found) {
  char name[32], mapping[256];
  for (int i = 0; i < MAPPINGS_MAX; i++) {
    snprintf(name, sizeof name, "mapping%d", i);
    if (!read_line(mapping, sizeof mapping, region, name)) break;
    mapping[strcspn(mapping, ",")] = '\0';
    if (mapping[0] == '\0' || strchr(mapping, '/') != NULL) continue;
    found->dirty_shutdowns += dirty_shutdowns_of(root, mapping);
    add_dimm(found, mapping);
  }
}

/* Climbs to the region of libnvdimm that the device is below; CXL has folders of that name, too. */
static bool region_above(char *folder) {
  for (char *slash = strrchr(folder, '/'); slash != NULL; slash = strrchr(folder, '/')) {
    if (strncmp(slash, "/region", 7) == 0 && is_of(folder, "/nd")) return true;
    *slash = '\0';
  }
  return false;
}

/* Providers whose regions are called persistent, and are not from a fence on. */
static bool is_volatile_provider(const char *region) {
  char provider[64];
  return read_line(provider, sizeof provider, region, "../provider") &&
         (strcmp(provider, "virtio-pmem") == 0 || strcmp(provider, "ramdax") == 0);
}

static enum sysfs_kind kind_of(const char *region) {
  char path[PATH_MAX + 16], line[256];
  bool persistent = false;
  snprintf(path, sizeof path, "%s/uevent", region);
  FILE *file = fopen(path, "re");
  if (file == NULL) return SYSFS_VOLATILE;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strcmp(line, "DEVTYPE=nd_pmem\n") == 0) persistent = true;
  }
  fclose(file);
  return persistent && !is_volatile_provider(region) ? SYSFS_PERSISTENT : SYSFS_VOLATILE;
}

static struct sysfs_region look(const char *root, const char *folder, int depth);

/* What lies on several devices keeps what the least of them keeps. */
static bool look_at_slaves(const char *root, const char *folder, int depth,
                           struct sysfs_region *all) {
  char path[PATH_MAX + 16], link[2 * PATH_MAX], slave[PATH_MAX];
  snprintf(path, sizeof path, "%s/slaves", folder);
  DIR *slaves = opendir(path);
  if (slaves == NULL) return false;
  bool any = false;
  *all = (struct sysfs_region){.kind = SYSFS_PERSISTENT};
  for (struct dirent *entry = readdir(slaves); entry != NULL; entry = readdir(slaves)) {
    if (entry->d_name[0] == '.') continue;
    struct sysfs_region one = {.kind = SYSFS_NO_REGION};
    snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
    if (realpath(link, slave) != NULL) one = look(root, slave, depth + 1);
    if (one.kind < all->kind) all->kind = one.kind;
    all->dirty_shutdowns += one.dirty_shutdowns;
    for (int i = 0; i < one.dimms_count; i++) add_dimm(all, one.dimms[i]);
    any = true;
  }
  closedir(slaves);
  return any;
}

static struct sysfs_region look(const char *root, const char *folder, int depth) {
  struct sysfs_region found = {.kind = SYSFS_NO_REGION};
  char region[PATH_MAX];
  if (depth > DEVICES_DEEP_MAX) return found;
  if (look_at_slaves(root, folder, depth, &found)) return found;
  snprintf(region, sizeof region, "%s", folder);
  if (!region_above(region)) return (struct sysfs_region){.kind = SYSFS_NO_REGION};
  found.kind = kind_of(region);
  look_at_dimms(root, region, &found);
  return found;
}

struct sysfs_region sysfs_region(const char *root, const char *device) {
  char folder[PATH_MAX];
  if (folder_of(root, device, folder)) return look(root, folder, 0);
  return (struct sysfs_region){.kind = SYSFS_NO_REGION};
}
