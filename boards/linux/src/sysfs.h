/*
 * What the kernel says about a device of persistent memory, read from sysfs.
 *
 * Facts: drivers/dax/bus.c (`size`, `align`), drivers/nvdimm/region_devs.c (`mapping0` is
 * "nmem0,start,length,position"; the DEVTYPE of a region that keeps nothing is "nd_volatile"),
 * drivers/acpi/nfit (`dirty_shutdown` of a DIMM), drivers/dax/hmem (device-dax on ordinary memory,
 * which is below no region).
 */
#ifndef PERDURE_SYSFS_H
#define PERDURE_SYSFS_H

#include <stdbool.h>
#include <stdint.h>

struct sysfs_dax {
  uint64_t bytes;
  uint64_t align; /* a mapping starts and ends at multiples of it */
};

/*
 * `root` is "/sys" but for tests; `device` is "char/MAJOR:MINOR" or "block/MAJOR:MINOR".
 * False if it is no device of device-dax.
 */
bool sysfs_dax(const char *root, const char *device, struct sysfs_dax *dax);

enum sysfs_region {
  SYSFS_NO_REGION,   /* nothing of libnvdimm's: ordinary memory, or a device above others */
  SYSFS_VOLATILE,    /* the platform says that it keeps nothing */
  SYSFS_PERSISTENT,
};

/* What kind of region of persistent memory the device is below. */
enum sysfs_region sysfs_region(const char *root, const char *device);

/* Unsafe shutdowns of the DIMMs under the device, added up; 0 if the kernel counts none. */
uint32_t sysfs_dirty_shutdowns(const char *root, const char *device);

#endif
