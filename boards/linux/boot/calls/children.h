/*
 * Programs that the script starts.
 *
 * Invariants:
 * - A program has the descriptors that it is given, stdout and stderr of ours, and nothing else of
 *   ours: no variable, no signal that is blocked or ignored. It is told to end when we are gone.
 * - A signal reaches one that was started here and has not been gathered, and no other process.
 */
#ifndef PERDURE_BOOT_CHILDREN_H
#define PERDURE_BOOT_CHILDREN_H

#include <sys/types.h>

#include "values.h"

/* host.spawn and host.kill */
JSCFunction host_spawn, host_kill;

/* An array of { pid, status } of those that have ended; they are known until the next call. */
JSValue children_gather(JSContext *context);

/* Whether that is one of them. */
bool children_has(pid_t pid);

#endif
