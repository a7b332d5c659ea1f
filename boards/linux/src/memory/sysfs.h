/*
 * What the kernel says about a device of persistent memory, read from sysfs.
 *
 * Invariant: memory is persistent only where libnvdimm has a region for it, of the type
 * "nd_pmem", by a provider that keeps what a fence has passed. Whatever is not known is not
 * persistent. The bus that a folder belongs to decides what it is, and never its name: CXL calls
 * the ranges of its decoders regions as well, volatile ones too.
 *
 *   e820, ACPI.NFIT, of_pmem, papr_scm, CXL (persistent)   region of the bus nd, nd_pmem
 *   of_pmem "volatile"                                     region of the bus nd, nd_volatile
 *   virtio-pmem       nd_pmem, but a flush is a request to the host that a fence does not make
 *   ramdax            nd_pmem, but carved from DRAM
 *   CXL (volatile)    below a region of the bus cxl, and of nd none
 *   soft-reserved     device-dax (hmem) below no region
 *   device-mapper     what its slaves keep, the least of them
 *
 * Facts: drivers/dax/bus.c (`size`, `align`), drivers/nvdimm/region_devs.c (`mapping0` is
 * "nmem0,start,length,position"; DEVTYPE), drivers/nvdimm/bus.c (`provider`), drivers/acpi/nfit and
 * drivers/cxl/pmem.c (`dirty_shutdown` of a DIMM), drivers/dax/hmem, drivers/cxl/core/region.c.
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
 * `root` is "/sys" except for tests; `device` is "char/MAJOR:MINOR" or "block/MAJOR:MINOR".
 * False if it is no device of device-dax.
 */
bool sysfs_dax(const char *root, const char *device, struct sysfs_dax *dax);

enum sysfs_kind {
  SYSFS_NO_REGION, /* nothing of libnvdimm's: ordinary memory, or what nobody knows */
  SYSFS_VOLATILE,  /* a region that is not known to keep what a fence has passed */
  SYSFS_PERSISTENT,
};

enum { SYSFS_DIMMS_MAX = 64, SYSFS_NAME_BYTES = 32 };

struct sysfs_region {
  enum sysfs_kind kind;
  /* Names of the DIMMs below, as "nmem0". One for which there is no room makes it volatile. */
  int dimms_count;
  char dimms[SYSFS_DIMMS_MAX][SYSFS_NAME_BYTES];
  uint64_t dirty_shutdowns; /* unsafe ones of the DIMMs below, added up; 0 if nobody counts */
};

/* What kind of region of persistent memory the device is below. */
struct sysfs_region sysfs_region(const char *root, const char *device);

#endif
