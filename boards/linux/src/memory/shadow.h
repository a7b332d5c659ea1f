/*
 * The shadow: a volatile copy that takes the stores, so that a missing clean or fence loses data
 * when the process is killed, as a power cut would (`boards/emulator/medium/nvdimm.ts` is the
 * model).
 *
 * Invariants:
 * - A clean takes a snapshot of the line as it is then; a fence carries the snapshots, and nothing
 *   else, into the mapping. What is stored behind the clean waits for the next one.
 * - Nothing is allocated after `shadow_open`.
 */
#ifndef PERDURE_SHADOW_H
#define PERDURE_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/persist.h"
#include "memory/reserve.h"
#include "service/fault.h"

struct shadow {
  uint8_t *mapping, *live; /* what is durable, and what loads and stores see */
  uint64_t bytes;
  struct reserve place; /* of `live` */
  uint8_t *snapshots; /* of line i at its own offset */
  uint8_t *is_taken;  /* per line */
  uint32_t *lines;    /* those with a snapshot, in the order of their first clean */
  uint64_t count;
};

/* Makes the copy. `bad(context, line)` is told of each line that does not answer; it is zeros. */
bool shadow_open(struct shadow *shadow, uint8_t *mapping, uint64_t bytes,
                 void (*bad)(void *context, uint64_t line), void *context, struct fault *fault);
void shadow_close(struct shadow *shadow);

void shadow_clean(struct shadow *shadow, uint64_t at, uint64_t length);
void shadow_fence(struct shadow *shadow, const struct persist *persist);

/* Forgets the snapshots. */
void shadow_forget(struct shadow *shadow);

#endif
