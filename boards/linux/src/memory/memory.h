/*
 * Persistent memory, mapped: what it is, what may be claimed of it, and how a line becomes durable.
 *
 * Invariants:
 * - `live` is what loads and stores of the command lists see. In shadow mode it is a volatile copy,
 *   and only what was cleaned and then fenced reaches the mapping: a missing clean or fence loses
 *   data at the next kill, as a power cut would.
 * - A clean covers what was stored before it, and nothing that is stored after.
 * - What was fenced outlives the power only where the kernel knows the device as persistent memory
 *   (sysfs.h), its DIMMs are armed (dimms.h), the mapping is synchronous (device-dax, or MAP_SYNC
 *   on fsdax) and the CPU's instruction reaches the point of persistence. Elsewhere a fence fails
 *   (`armed` is false), but where the operator said that this is for development; it then outlives
 *   the process alone.
 * - Where the kernel could not write the file back, the next fence fails, and no other succeeds:
 *   what is there is read, and whoever opens the part next is told of a failed save.
 * - A line that is known to be bad is never read as data; one that is written whole and fenced is
 *   good again (`memory_readable`, `memory_heal`).
 */
#ifndef PERDURE_MEMORY_H
#define PERDURE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/persist.h"
#include "memory/sysfs.h"
#include "service/fault.h"

enum memory_class {
  MEMORY_DEVDAX, /* a character device of device-dax: every mapping is synchronous */
  MEMORY_FSDAX,  /* a file on a dax file system, mapped with MAP_SYNC */
  MEMORY_CACHED, /* any other file: its pages are in the page cache, a power cut loses them */
};

struct memory_options {
  const char *path;
  uint64_t at;       /* first byte that is ours, a multiple of 4096; of the alignment of a device */
  uint64_t bytes;    /* how many; 0: all there are. A multiple of 4096 */
  bool create;       /* make a file of `bytes` if there is none */
  bool development;  /* be armed on any memory: what was fenced survives the process alone */
  bool shadow;       /* stores go to a volatile copy */
  bool clean_to_coherency; /* the platform persists from the point of coherency: DC CVAC will do */
  const char *sysfs; /* NULL: "/sys"; another one for tests */
};

struct memory {
  uint8_t *live;
  uint64_t bytes;
  enum memory_class class;
  bool armed;                  /* a fence succeeds: it says what `forgets_because` leaves of it */
  const char *forgets_because; /* why nothing outlives the power; NULL: what was fenced does */
  const struct persist *persist; /* the instructions that this CPU has */
  uint32_t dirty_shutdowns;      /* unsafe shutdowns that the part counted; 0 if nobody counts */
  bool save_failed;              /* the last save of the part failed or was incomplete */
  uint64_t bad_lines;            /* lines that memory_readable refuses */
  void *internal;
};

bool memory_open(struct memory *memory, const struct memory_options *options, struct fault *fault);

/*
 * Asks the DIMMs again whether they are armed: `armed` and `forgets_because` are as they say. True
 * if either is another than it was.
 */
bool memory_watch(struct memory *memory);

/* Whether `memory_watch` has anybody to ask. */
bool memory_is_watched(const struct memory *memory);

/* Ends the use. What was not fenced is lost in shadow mode. */
void memory_close(struct memory *memory);

/*
 * Why what was fenced would not outlive the power, in words; NULL if it would. `to_persistence`:
 * a clean reaches the point of persistence.
 */
const char *memory_forgets_because(enum memory_class class, enum sysfs_kind kind,
                                   bool to_persistence);

/* "device-dax", "fsdax (MAP_SYNC)", "page cache". */
const char *memory_class_name(enum memory_class class);

/* Starts to write back every line of [at, at + length); the range is inside. */
void memory_clean(struct memory *memory, uint64_t at, uint64_t length);

/*
 * Waits for what was cleaned. Returns DONE, NOT_ARMED or FLUSH_FAILED of hal.h. In shadow mode a
 * mapping that does not answer raises SIGBUS inside: the caller guards it, and then calls
 * `memory_fence_failed`, which forgets what was cleaned: asking again proves nothing.
 */
int memory_fence(struct memory *memory);
void memory_fence_failed(struct memory *memory);

/* Whether no line of [at, at + length) is known to be bad; the range is inside. */
bool memory_readable(const struct memory *memory, uint64_t at, uint64_t length);

/* Every line that lies wholly in [at, at + length) is about to be stored and cleaned. */
void memory_heal(struct memory *memory, uint64_t at, uint64_t length);

#endif
