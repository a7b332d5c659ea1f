/*
 * The instructions that write a line back and wait for it, as this CPU has them.
 *
 * Detected by what the CPU states and by a guarded trial: an emulator may state DC CVAP and not
 * have it (design facts: qemu-user 7.2 raises SIGILL).
 */
#ifndef PERDURE_PERSIST_H
#define PERDURE_PERSIST_H

#include <stddef.h>
#include <stdint.h>

struct persist {
  const char *name; /* "clwb", "clflushopt", "clflush", "dc cvap", "dc cvac" */
  uint32_t line_bytes;
  /* Whether it reaches the point of persistence by itself. DC CVAC does not. */
  int to_persistence;
  void (*clean)(const void *address, size_t length, uint32_t line_bytes);
  void (*fence)(void);
};

/* The best that this CPU has; never NULL. */
const struct persist *persist_detect(void);

/* The instruction of that name; NULL if this CPU has it not. */
const struct persist *persist_named(const char *name);

#endif
