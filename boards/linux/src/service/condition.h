/*
 * What a part remembers of itself besides its content: bad lines, unsafe shutdowns, a failed save.
 *
 * Invariants:
 * - It stands in the small file beside an image that the emulator keeps, too, in the same form
 *   (`boards/emulator/medium/nvdimm-file.ts`), so that an image means the same to both. The file
 *   exists only if there is something to say. A device has none: its lines go bad by themselves.
 * - A bad line is read by nobody. Written whole it is good for those who read it now; it is good
 *   for those who come after a power cut once that was fenced, which `condition_settle` notes.
 */
#ifndef PERDURE_CONDITION_H
#define PERDURE_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include "service/fault.h"

struct condition {
  char *path; /* of the file; NULL if there is none */
  uint8_t *flags; /* per line */
  uint64_t lines;
  uint64_t bad_lines, healed_lines;
  uint32_t dirty_shutdowns;
  bool save_failed;
};

/* Reads the file beside `image`, if there is one; `image` is NULL for a device. */
bool condition_open(struct condition *condition, const char *image, uint64_t bytes,
                    struct fault *fault);
void condition_close(struct condition *condition);

/* A line, by number, has been found to be bad. */
void condition_mark(struct condition *condition, uint64_t line);

bool condition_readable(const struct condition *condition, uint64_t at, uint64_t length);

/* The lines wholly in [at, at + length) are about to be written. */
void condition_heal(struct condition *condition, uint64_t at, uint64_t length);

/* The content may be older than what was served. False if that could not be noted. */
bool condition_fail_save(struct condition *condition);

/* What was healed is durable now. False if that could not be noted. */
bool condition_settle(struct condition *condition);

#endif
