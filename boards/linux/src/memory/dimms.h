/*
 * What the DIMMs below a region say of themselves: do they keep what is written now, and did they
 * keep what was written before?
 *
 * Invariants:
 * - Their files stay open: a process that has no privileges left asks again by one call each.
 * - A DIMM that has such a file and does not answer is not armed. One that has none says nothing.
 *
 * Facts: Documentation/ABI/testing/sysfs-bus-nfit (`nfit/flags`, of the state flags of ACPI's NFIT)
 * and sysfs-bus-papr-pmem (`papr/flags`): words with blanks between them, of which these count.
 *
 *   not_armed                            what is written is not kept
 *   locked                               what is there cannot be changed
 *   save_fail, restore_fail, flush_fail  at the last power cut what was there was not wholly kept
 */
#ifndef PERDURE_DIMMS_H
#define PERDURE_DIMMS_H

#include "memory/sysfs.h"

struct dimm {
  char name[SYSFS_NAME_BYTES];
  int flags; /* a descriptor */
};

struct dimms {
  int count; /* of those that say anything */
  struct dimm each[SYSFS_DIMMS_MAX];
};

struct dimms_health {
  const char *unarmed; /* the first one that keeps nothing now; NULL: there is none */
  const char *failed;  /* the first one that did not wholly keep what was there; NULL: none */
};

/* Opens what the DIMMs of the region say. `root` is "/sys" except for tests. */
void dimms_open(struct dimms *dimms, const char *root, const struct sysfs_region *region);
void dimms_close(struct dimms *dimms);

struct dimms_health dimms_look(const struct dimms *dimms);

#endif
