/*
 * Persistent memory, mapped: what it is, what may be claimed of it, and how a line becomes durable.
 *
 * What always holds:
 * - `live` is what loads and stores of the command lists see. In shadow mode it is a volatile copy,
 *   and only what was cleaned and then fenced reaches the mapping: a missing clean or fence loses
 *   data at the next kill, as a power cut would.
 * - A clean covers what was stored before it, and nothing that is stored after.
 * - Durability is claimed (`armed`) only where the mapping is synchronous (device-dax, or MAP_SYNC
 *   on fsdax), or where the operator said that this is a development file. Whoever asks reads it
 *   from `class` and `armed`; nobody guesses.
 */
#ifndef PERDURE_MEMORY_H
#define PERDURE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault.h"
#include "persist.h"

enum memory_class {
  MEMORY_DEVDAX, /* a character device of device-dax: every mapping is synchronous */
  MEMORY_FSDAX,  /* a file on a dax file system, mapped with MAP_SYNC */
  MEMORY_CACHED, /* any other file: its pages are in the page cache, a power cut loses them */
};

struct memory_options {
  const char *path;
  uint64_t at;       /* first byte that is ours, a multiple of the alignment of the device */
  uint64_t bytes;    /* how many; 0: all there are. A multiple of 4096 */
  bool create;       /* make a file of `bytes` if there is none */
  bool development;  /* treat MEMORY_CACHED as durable: it survives the process, not the machine */
  bool shadow;       /* stores go to a volatile copy */
  bool clean_to_coherency; /* the platform persists from the point of coherency: DC CVAC will do */
};

struct memory {
  uint8_t *live;
  uint64_t bytes;
  enum memory_class class;
  bool armed;
  const struct persist *persist; /* the instructions that this CPU has */
  void *internal;
};

bool memory_open(struct memory *memory, const struct memory_options *options, struct fault *fault);
void memory_close(struct memory *memory);

/* "device-dax", "fsdax (MAP_SYNC)", "page cache". */
const char *memory_class_name(enum memory_class class);

/* Starts to write back every line of [at, at + length); the range is inside. */
void memory_clean(struct memory *memory, uint64_t at, uint64_t length);

/* Waits for what was cleaned. Returns DONE, NOT_ARMED or FLUSH_FAILED of hal.h. */
int memory_fence(struct memory *memory);

#endif
