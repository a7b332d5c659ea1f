/*
 * Memory that may not answer: a load or store of a mapping that raises SIGBUS comes back here.
 *
 * Invariants:
 * - Only a fault at an address of a range that was covered, while somebody stands at the mark, is
 *   caught. Every other one ends the process as it would without this file.
 * - One thread uses it: the one that runs the command lists.
 *
 * How to use it:
 *     if (sigsetjmp(guard_mark, 0) == 0) {
 *       guard_armed = 1;
 *       ... touches covered memory ...
 *     } else {
 *       ... it did not answer at guard_fault ...
 *     }
 *     guard_armed = 0;
 */
#ifndef PERDURE_GUARD_H
#define PERDURE_GUARD_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "service/fault.h"

extern sigjmp_buf guard_mark;
extern volatile sig_atomic_t guard_armed;
extern const unsigned char *volatile guard_fault;

/* Covers [from, from + bytes). The first call installs the handler. False: too many ranges. */
bool guard_cover(const void *from, size_t bytes, struct fault *fault);

/* Ends that; called before the range is unmapped. */
void guard_uncover(const void *from);

/* Copies; false if the source did not answer, and then some of it may have been copied. */
bool guard_copy(void *to, const void *from, size_t bytes);

#endif
