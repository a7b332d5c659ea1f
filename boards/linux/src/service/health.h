/*
 * What an operator has to hear of the card while it serves, in the log.
 *
 * Invariants:
 * - It is looked at once a second at the most, between two calls of the firmware, and only where
 *   something can have changed: a card that is idle sleeps, unless it has DIMMs to ask.
 * - A look changes nothing but what is claimed of the memory, which is as its DIMMs say.
 * - A line says what is so now; of what happens often, how many times since the line before.
 */
#ifndef PERDURE_HEALTH_H
#define PERDURE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "card/engine.h"
#include "card/machine.h"
#include "link/links.h"
#include "memory/memory.h"

struct health {
  struct memory *memory;
  struct machine *machine;
  struct links *links;
  struct engine *engine;
  uint64_t next_us; /* of the next look */
  uint64_t runs;    /* command lists at the last look: there is news of the part with these only */
  uint64_t media_errors, host_failures, floods;
  char report[ENGINE_REPORT_MAX + 1];
};

/* What is claimed of the memory: a warning where it is less than the power. */
void health_tell_claim(const struct memory *memory);

/* From now on what is other than now is told. */
void health_begin(struct health *health, uint64_t now_us);

/* Looks if it is time to; false if the firmware has stopped over it. */
bool health_look(struct health *health, uint64_t now_us);

/* When to look next, if nothing happens before, µs; UINT64_MAX: never. */
uint64_t health_due(const struct health *health);

#endif
